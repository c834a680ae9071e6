"""Tables, pictures and the page of the paper's experiments from a weak start, made from rows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from experiments.definitions import ALL_STATED, BALANCED_STATED
from experiments.paper_start import (
    Gain,
    all_tables,
    collected_table,
    concatenation_table,
    order_table,
    seed_sets_table,
    starts_of,
    strategies_table,
    strengths,
)
from experiments.paper_start_page import NOTES, draw_strengths, draw_table_3, page_text
from experiments.start_runs import RESULTS, ROWS, StartRow, parse_job, read_start_rows, write_start_rows

ROOT = Path(__file__).parents[2]


def row(**changes: object) -> StartRow:
    """A test AP of WikiQA after 16,640 labels, uncertainty by the paper's recipe, from a weak start."""
    usual = {
        "experiment": "paper-start",
        "task": "wikiqa",
        "task_fingerprint": "t",
        "encoder": "weak",
        "encoder_fingerprint": "e",
        "model": "cosine",
        "learner": "full",
        "recipe": "paper",
        "strategy": "uncertainty",
        "seed_set": "static",
        "schedule": "2048x1.5x4",
        "seed": 0,
        "round": 4,
        "labels": 16_640,
        "split": "test",
        "measure": "average_precision",
        "counting": "distinct",
        "value": 0.5,
        "n": 100,
        "method": "exact",
        "device": "cuda",
        "made_at": "2026-01-01T00:00:00+00:00",
        "source": "the command",
        "start_source": "e5-small",
        "start_source_fingerprint": "s",
        "start_steps": 2000,
        "start_layers": 0,
        "start_texts": 115_602,
        "start_seed": 0,
        "start_command": "python -m experiments.weak_start",
    } | changes
    return StartRow(**({"low": usual["value"], "high": usual["value"]} | usual))


def example() -> list[StartRow]:
    """Three strategies with two seeds: random 0.02, static 0.10 and 0.12, uncertainty 0.30 and 0.34."""
    values = {"random": (0.02, 0.02), "static": (0.10, 0.12), "uncertainty": (0.30, 0.34)}
    found = {"random": 0, "static": 300, "uncertainty": 900}
    rows = [row(model="untrained", strategy="", recipe="", schedule="", labels=0, round=0, value=0.02)]
    for strategy, aps in values.items():
        for seed, ap in enumerate(aps):
            one = {"strategy": strategy, "seed": seed}
            rows.append(row(value=ap, **one))
            rows.append(row(value=found[strategy], measure="positives_found", split="train", **one))
    return rows


def test_a_step_is_outside_two_standard_errors_or_not() -> None:
    (start,) = starts_of(example())
    rows = [
        *example(),
        *(replace(each, strategy="adaptive") for each in example() if each.strategy == "static"),
    ]
    table = order_table(starts_of(rows)[0], "2048x1.5x4")
    # static to uncertainty: 0.32 - 0.11 = 0.21; standard errors 0.02 and 0.01, together 0.0224.
    assert table is not None
    assert table.rows[0] == ("static < uncertainty", "+0.2100 ± 0.0224", "yes", "2.91", "3.00")
    assert order_table(start, "2048x1.5x4") is None  # a single step is in the table of strengths
    close = [replace(each, value=0.15) if each.value == 0.34 else each for each in example()]
    (again,) = starts_of(close)
    by = {strength.start.name: strength.gain for strength in strengths([again])}
    assert by["weak"].verdict() == "no"  # 0.225 - 0.11, standard errors 0.075 and 0.01
    one_seed = strengths(starts_of([each for each in example() if each.seed == 0]))[0].gain
    assert (one_seed.verdict(), one_seed.text()) == ("one seed", "+0.2000")
    assert isinstance(one_seed, Gain)


def test_the_table_stands_beside_the_papers_and_names_its_start() -> None:
    (start,) = starts_of(example())
    table = strategies_table(start, "2048x1.5x4")
    assert table is not None
    assert table.rows[0][:3] == ("no labels", "-", "0.0200")
    assert table.rows[-1] == ("uncertainty", "2", "0.3200 ± 0.0200", "-", "900", "0.201", "0.324", "742")
    words = table.as_markdown()
    assert "e5-small after 2,000 steps of masked language modelling on 115,602 unlabelled texts" in words
    assert "`python -m experiments.weak_start`" in words and "What differs from the paper" in words


def test_a_collapsed_run_is_said_and_not_drawn(tmp_path: Path) -> None:
    rows = example()
    for each in example():
        trained = each.strategy == "uncertainty" and each.split == "test"
        rows.append(replace(each, encoder="other", start_steps=500, value=0.001 if trained else each.value))
    words = all_tables(rows)[-1].as_markdown()
    assert "to less than the start had without labels: wikiqa from other." in words
    draw_strengths(strengths(starts_of(rows)), tmp_path / "strengths.png")
    assert (tmp_path / "strengths.png").stat().st_size > 1000


def test_rows_are_written_and_read_back_as_they_are(tmp_path: Path) -> None:
    write_start_rows(tmp_path / ROWS, example())
    assert sorted(read_start_rows(tmp_path), key=str) == sorted(example(), key=str)


def test_the_stored_rows_bear_the_claims_made_of_them() -> None:
    """Three seeds from the weak start: where the paper's order holds, and by how much."""
    starts = {(start.task, start.name): start for start in starts_of(read_start_rows(RESULTS))}
    order = order_table(starts["wikiqa", "weak-e5-small-2000"], "2048x1.5x4")
    assert order is not None
    steps = {line[0]: line for line in order.rows}
    assert [steps[name][2] for name in ("random < stated", "stated < static", "static < uncertainty")] == [
        "no",  # +0.0066 ± 0.0043
        "yes",
        "yes",
    ]
    assert float(steps["static < uncertainty"][3]) >= 1.7  # times the AP
    assert float(steps["static < uncertainty"][4]) >= 2.5  # times the positives
    order = order_table(starts["qqp-174k", "weak-e5-small-2000"], "2048x1.5x5")
    assert order is not None and {line[2] for line in order.rows} == {"yes"}


def test_other_seed_sets_stand_in_a_table_of_their_own() -> None:
    stated = [row(seed_set="stated", seed=seed, value=value) for seed, value in ((0, 0.20), (1, 0.24))]
    (plain,), (start,) = starts_of(example()), starts_of([*example(), *stated])
    assert seed_sets_table(plain, "2048x1.5x4") is None
    assert strategies_table(start, "2048x1.5x4").rows == strategies_table(plain, "2048x1.5x4").rows  # type: ignore[union-attr]
    table = seed_sets_table(start, "2048x1.5x4")
    assert table is not None
    assert table.rows[:2] == (
        ("nearest pairs: AP", "0.3200 ± 0.0200"),
        ("stated pairs: AP", "0.2200 ± 0.0200"),
    )
    runs = [job.run for job in parse_job("plan=seed-sets task=t start=s seeds=2")]
    assert [(run.strategy, run.seed_set) for run in runs[1:]] == [("uncertainty", "stated")] * 2


def test_a_model_of_both_texts_trained_on_a_balanced_part_is_a_line_of_its_own() -> None:
    rows = [*example(), concat(ALL_STATED, 0.2), concat(BALANCED_STATED, 0.3)]
    table = concatenation_table(starts_of(rows)[0])
    assert table is not None
    assert table.rows[1] == ("the same, as many positives as negatives", "1", "-", "-", "-", "0.3000")
    (run,) = [job.run for job in parse_job("plan=balanced task=t start=s") if job.run.model == "concat"]
    assert (run.strategy, run.dependencies()) == (BALANCED_STATED, ())  # no campaign comes first


def concat(strategy: str, value: float, **changes: object) -> StartRow:
    """A concatenation model's test AP, estimated from a sample."""
    none = {"recipe": "", "schedule": "", "seed_set": ""} if strategy in (ALL_STATED, BALANCED_STATED) else {}
    method = "estimated: 40 positives and 9 near negatives counted"
    usual = {"model": "concat", "strategy": strategy, "value": value, "method": method, "round": 1}
    return row(**(usual | none | changes))


def test_collected_data_has_a_table_of_its_own() -> None:
    p20 = "precision_at_recall_0.2"
    rows = [*example(), concat(ALL_STATED, 0.2), concat(ALL_STATED, 0.1, measure=p20)]
    rows += [concat("static", 0.004, low=0.003, high=0.005), concat("static", 0.06, measure=p20)]
    rows += [concat("uncertainty", 0.0, low=0.0, high=0.0571), concat("uncertainty", 0.07, measure=p20)]
    (start,) = starts_of(rows)
    stated, collected = concatenation_table(start), collected_table(start)
    assert stated is not None and collected is not None
    assert stated.rows[0][-2:] == ("0.1000", "0.2000")  # of the stated pairs alone
    first, second = collected.rows
    assert first[:2] == ("static", "1") and first[2] == "0.1100 ± 0.0100"
    assert first[4:] == ("0.0040 [0.0030, 0.0050]", "0.0600", "0.251", "0.492", "0.019", "0.046")
    assert second[4:6] == ("-", "0.0700")  # an estimate clipped at 0 is none
    assert collected.notes[0].startswith("uncertainty: no AP of") and "up to 0.0571" in collected.notes[0]


def test_a_model_that_calls_every_stated_pair_a_match_is_said_to() -> None:
    on = {"task": "qqp-174k"}
    rows = [concat(ALL_STATED, 0.001, **on), concat(ALL_STATED, 0.8, measure="balanced_accuracy", n=50, **on)]
    rows.append(row(model="untrained", strategy="", recipe="", schedule="", n=4000, value=0.02, **on))
    table = concatenation_table(starts_of(rows)[0])
    assert table is not None
    assert table.head[2] == "accuracy"  # as the paper's for QQP
    # 40 positives of 50 stated pairs, and of 4,000 pairs; F1 = 2 * 0.8 / 1.8
    assert table.rows[1] == ("chance: every pair a match", "-", "0.8000", "0.8889", "0.0100", "0.0100")
    assert table.notes[0].startswith("The accuracy is that of calling every stated pair a match")
    rows[1] = replace(rows[1], value=0.9)
    better = concatenation_table(starts_of(rows)[0])
    assert better is not None and "calling every stated pair" not in " ".join(better.notes)


def test_cut_layers_are_named() -> None:
    cut = [replace(each, start_steps=0, start_layers=6, start_texts=0) for each in example()]
    table = strategies_table(starts_of(cut)[0], "2048x1.5x4")
    assert table is not None
    assert "Start: e5-small, its first 6 layers, without prefixes (`python -m" in table.as_markdown()


def test_the_paper_page_is_what_its_stored_rows_make() -> None:
    fresh = page_text(read_start_rows(RESULTS), NOTES.read_text())
    assert (ROOT / "docs" / "paper.md").read_text() == fresh, "stale: run make docs"


def test_every_figure_in_the_notes_stands_in_a_table() -> None:
    printed = "\n".join(table.as_markdown() for table in all_tables(read_start_rows(RESULTS)))
    figures = re.findall(r"[+]?\d\.\d{4}(?: ± \d\.\d{4})?|\d\.\de-\d\d", NOTES.read_text())
    assert len(figures) > 20
    assert [figure for figure in figures if figure not in printed] == []


def test_every_stored_row_is_of_a_job_that_can_be_run_again() -> None:
    rows = read_start_rows(RESULTS)
    sources = {row.source for row in rows}
    jobs = {s: parse_job(s.removeprefix('python -m experiments.start_runs --job "')[:-1]) for s in sources}
    for each in rows:
        assert {job.start.name for job in jobs[each.source]} == {each.encoder}
    assert {(row.start_source, row.start_source_fingerprint[:8]) for row in rows} == {
        ("e5-small", "dc2859be"),
        ("all-mpnet-base-v2", "637edd88"),
    }
    assert {row.start_texts for row in rows if not row.start_steps} == {0}


def test_table_3_is_drawn(tmp_path: Path) -> None:
    draw_table_3(starts_of(read_start_rows(RESULTS)), tmp_path / "table.png")
    assert (tmp_path / "table.png").stat().st_size > 1000
