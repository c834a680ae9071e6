"""The demo: three ways of choosing on one table without truth; what it prints, writes and resumes."""

from __future__ import annotations

import csv
import json

import pytest

from pairsieve.demo import CHOICES, DEFAULTS, POINTS, demo_table, run_demo
from pairsieve.errors import InputError
from pairsieve.tasks import load_task

pytestmark = pytest.mark.slow


def test_three_campaigns_their_curves_and_a_list(tmp_path, tiny_encoder):
    said: list[str] = []
    result = run_demo(tmp_path, 200, 50, 0, said.append, encoder=str(tiny_encoder))
    runs = result.choices
    assert list(runs) == list(CHOICES)
    for rows in runs.values():
        assert [row.labels for row in rows] == [10 * at for at in range(POINTS + 1)]
        assert rows[0].average_precision == runs[DEFAULTS][0].average_precision
    assert not load_task(tmp_path / "table").splits["all"].has_truth
    # F1 of the last list, counted again from its file.
    truth = load_task(tmp_path / "task").splits["all"]
    keys = truth.left.keys
    matches = {(keys[id >> 32], keys[id & 0xFFFFFFFF]) for id in truth.positives.tolist()}
    with (tmp_path / "defaults.csv").open(newline="") as file:
        listed = {(row["left"], row["right"]) for row in csv.DictReader(file)}
    last = runs[DEFAULTS][-1]
    assert last.f1 == pytest.approx(2 * len(listed & matches) / (len(listed) + len(matches)))
    assert (tmp_path / "learning-curves.png").exists()
    shown = demo_table(result)
    assert f"{last.average_precision:.3f}" in shown
    # A second run finds everything done and shows the same.
    kept = json.loads((tmp_path / "demo.json").read_text())
    assert kept["options"] == {"texts": 200, "labels": 50, "seed": 0, "encoder": str(tiny_encoder)}
    again = run_demo(tmp_path, 200, 50, 0, said.append, encoder=str(tiny_encoder))
    assert again.as_json()["choices"] == kept["choices"]
    assert demo_table(again) == shown
    # One with other options is no run to show again.
    words = r"a demo with other options: `texts` was 200, is 300; `seed` was 0, is 1\. Choose another `out`"
    with pytest.raises(InputError, match=words):
        run_demo(tmp_path, 300, 50, 1, said.append, encoder=str(tiny_encoder))
    (tmp_path / "demo.json").write_text(json.dumps(kept | {"format": 0}))
    with pytest.raises(InputError, match="Its format is 0"):
        run_demo(tmp_path, 200, 50, 0, said.append, encoder=str(tiny_encoder))
    (tmp_path / "demo.json").unlink()  # as before there was one
    with pytest.raises(InputError, match="holds an older demo"):
        run_demo(tmp_path, 200, 50, 0, said.append, encoder=str(tiny_encoder))
