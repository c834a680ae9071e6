"""The page of performance says what the benches' results say, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.bench import performance

CLAIM = {
    "claim": "Sorting",
    "ours": "our sort",
    "ours_s": 2.0,
    "peer": "their sort",
    "peer_s": 5.0,
    "ratio": 2.5,
    "asked": "at least 2 times",
    "peak_gib": 0.25,
    "size": "10 things",
    "note": "load 0.1 on 2 cores",
    "machine": "a box, 2 cores",
}


def results(folder: Path, **files: Any) -> dict[str, list[dict[str, Any]]]:
    for name, lines in files.items():
        (folder / f"{name}.json").write_text(json.dumps(lines))
    return performance.read(folder)


def test_the_page_is_fresh() -> None:
    written = performance.written(performance.read(performance.RESULTS))
    assert performance.PAGE.read_text() == written, "stale: run python -m experiments.bench.performance"


def test_a_stored_ratio_is_the_peers_seconds_over_ours() -> None:
    for name, lines in performance.read(performance.RESULTS).items():
        for line in lines:
            if line.get("ratio"):
                assert line["ratio"] == pytest.approx(line["peer_s"] / line["ours_s"], rel=0.01), name


def test_a_claim_becomes_a_line_with_the_peers_seconds_over_ours(tmp_path: Path) -> None:
    page = performance.written(results(tmp_path, sorting=[CLAIM]))
    assert "## On a box, 2 cores" in page
    assert (
        "| Sorting | 10 things | 2.00 s, our sort | 5.00 s, their sort | 2.50 | at least 2 times | 0.25 GiB "
        "| `sorting` |"
    ) in page
    assert "- Sorting: load 0.1 on 2 cores." in page


def test_each_machine_has_its_own_table_and_one_without_a_name_is_said_to_have_none(tmp_path: Path) -> None:
    nameless = {key: value for key, value in CLAIM.items() if key not in ("machine", "note")}
    page = performance.written(results(tmp_path, one=[CLAIM], two=[nameless]))
    assert page.index("## On a box") < page.index("## On a machine that its bench did not describe")


def test_commands_are_listed_with_their_memory_alone(tmp_path: Path) -> None:
    command = CLAIM | {"claim": "Memory: pairsieve run", "peer": "", "peer_s": None, "ratio": None}
    page = performance.written(results(tmp_path, memory=[command]))
    assert "| `pairsieve run` | 10 things | 2.00 s | 0.25 GiB | at least 2 times |" in page


def test_what_was_not_measured_is_slanted(tmp_path: Path) -> None:
    measured = {
        "what": "exact pass",
        "texts": 1000,
        "seconds": 4.0,
        "peak_gib": 0.5,
        "measured": True,
        "machine": "a box",
        "note": "load 0.1",
    }
    carried = measured | {"texts": 10_000, "seconds": 400.0, "measured": False, "note": "× 10^2"}
    page = performance.written(results(tmp_path, growth=[measured, carried]))
    assert "| 1,000 | 499,500 | 4.00 s, 0.50 GiB |" in page
    assert "| 10,000 | 49,995,000 | *400 s* |" in page


def test_a_result_of_another_shape_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"odd\.json: not a list of claims with claim, ours"):
        results(tmp_path, odd=[{"claim": "x"}])
