"""Weak starts by masked language modelling, and runs from them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments import start_runs
from experiments.start_runs import ROWS, Options, in_order, parse_job, read_start_rows, run_jobs
from experiments.weak_start import (
    CHECKPOINT,
    PROVENANCE,
    SORTED_BATCHES,
    Plan,
    WeakStartSettings,
    batch_rows,
    main,
    make_weak_start,
    mask_tokens,
    read_provenance,
    start_name,
    training_texts,
)
from pairsieve.errors import InputError, SettingsError
from pairsieve.models import encoder_named
from pairsieve.tasks import load_task

pytestmark = pytest.mark.slow

SMALL = WeakStartSettings(batch_texts=8, warmup_steps=2, max_length=32)


# ── masked language modelling ───────────────────────────────────────────────────────────────────


def test_masks_are_15_percent_of_plain_tokens_80_10_10() -> None:
    ids = torch.full((200, 100), 7)
    maskable = torch.ones_like(ids, dtype=torch.bool)
    maskable[:, 90:] = False  # padding and special tokens
    inputs, labels = mask_tokens(ids, maskable, 4, 50, 0.15, torch.Generator().manual_seed(0))
    asked = labels != -100
    assert not asked[:, 90:].any() and (labels[asked] == 7).all()
    assert (inputs[~asked] == 7).all()
    assert asked[:, :90].float().mean().item() == pytest.approx(0.15, abs=0.01)
    assert (inputs[asked] == 4).float().mean().item() == pytest.approx(0.80 + 0.1 / 50, abs=0.03)
    assert (inputs[asked] == 7).float().mean().item() == pytest.approx(0.10 + 0.1 / 50, abs=0.03)


def test_a_step_decides_its_batch_and_batches_hold_texts_of_like_length() -> None:
    lengths = np.random.default_rng(0).integers(3, 100, 1000)
    first = [batch_rows(lengths, SMALL, step) for step in range(SORTED_BATCHES)]
    again = batch_rows(lengths, SMALL, 5)
    assert (again == first[5]).all()
    assert len(np.unique(np.concatenate(first))) == SORTED_BATCHES * 8  # drawn without replacement
    spans = [np.ptp(lengths[rows]) for rows in first]
    assert max(spans) < 30 < np.ptp(lengths)
    assert not np.array_equal(first[0], batch_rows(lengths, replace(SMALL, seed=1), 0))


def test_a_resumed_start_is_the_uninterrupted_one(tmp_path: Path, tiny_encoder: Path, two: Path) -> None:
    encoder, task = encoder_named(tiny_encoder, 32, device="cpu"), load_task(two)
    (whole,) = make_weak_start(encoder, [task], Plan(steps=4), SMALL, tmp_path / "whole")
    make_weak_start(encoder, [task], Plan(steps=2), SMALL, tmp_path / "halted")
    *_, resumed = make_weak_start(encoder, [task], Plan(steps=4), SMALL, tmp_path / "halted")
    names = ("config.json", "model.safetensors", "tokenizer.json")
    assert all((whole / name).read_bytes() == (resumed / name).read_bytes() for name in names)
    curve = json.loads((tmp_path / "halted" / PROVENANCE).read_text())["curve"]
    assert [point["steps"] for point in curve] == [0, 2, 4]
    assert curve[0]["dev"][task.name]["average_precision"] > 0
    with pytest.raises(SettingsError, match="Choose another --out"):
        make_weak_start(encoder, [task], Plan(steps=4), replace(SMALL, seed=1), tmp_path / "halted")


def test_a_saved_start_is_an_encoder_with_its_provenance(
    tmp_path: Path, tiny_encoder: Path, two: Path
) -> None:
    told = ["--encoder", str(tiny_encoder), "--task", str(two), "--out", str(tmp_path / "out")]
    main(
        [*told, "--preset", "cpu", "--steps", "2", "--save-at", "1", "--batch-texts", "8", "--device", "cpu"]
    )
    source = encoder_named(tiny_encoder, 32, device="cpu")
    start = encoder_named(tmp_path / "out" / "weak-tiny-bert-2", 32, device="cpu")
    texts = training_texts([load_task(two)])
    assert np.abs(start.embed(texts[:3]) - source.embed(texts[:3])).max() > 1e-4
    assert start.tokenizer_fingerprint == source.tokenizer_fingerprint  # so that tokens are shared
    about = read_provenance(tmp_path / "out" / "weak-tiny-bert-2")
    assert (about["source"], about["steps"], about["texts"]) == ("tiny-bert", 2, len(texts))
    assert about["source_fingerprint"] == encoder_named(tiny_encoder, 64, device="cpu").fingerprint
    assert about["command"].startswith("python -m experiments.weak_start --encoder tiny-bert --task two")
    assert str(tmp_path) not in json.dumps(about)
    assert read_provenance(tmp_path / "out" / "weak-tiny-bert-1")["steps"] == 1
    assert (tmp_path / "out" / CHECKPOINT).exists()


def test_no_steps_leave_the_encoder_as_it_was_and_layers_can_be_cut(
    tmp_path: Path, tiny_encoder: Path, two: Path
) -> None:
    source, task = encoder_named(tiny_encoder, 32, device="cpu"), load_task(two)
    texts = training_texts([task])[:5]
    (same,) = make_weak_start(source, [task], Plan(steps=0), SMALL, tmp_path / "same")
    assert (encoder_named(same, 32, device="cpu").embed(texts) == source.embed(texts)).all()
    (cut,) = make_weak_start(source, [task], Plan(steps=0), replace(SMALL, layers=1), tmp_path / "cut")
    assert cut.name == "tiny-bert-1layers"
    assert encoder_named(cut, 32, device="cpu").config["num_hidden_layers"] == 1
    assert np.abs(encoder_named(cut, 32, device="cpu").embed(texts) - source.embed(texts)).max() > 1e-3
    with pytest.raises(SettingsError, match="layers 9"):
        make_weak_start(source, [task], Plan(steps=0), replace(SMALL, layers=9), tmp_path / "none")
    with pytest.raises(SettingsError, match="without prefixes"):
        make_weak_start(
            encoder_named(tiny_encoder, 32, "query: ", device="cpu"), [task], Plan(steps=0), SMALL, tmp_path
        )


def test_a_start_is_named_by_layers_steps_and_seed(tiny_encoder: Path) -> None:
    encoder = encoder_named(tiny_encoder, 32, device="cpu")
    assert start_name(encoder, SMALL, 20) == "weak-tiny-bert-20"
    assert start_name(encoder, replace(SMALL, seed=1), 20) == "weak-tiny-bert-20-seed1"
    assert start_name(encoder, replace(SMALL, layers=1), 20) == "weak-tiny-bert-1layers-20"


# ── runs from starts ────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path, two: Path) -> Path:
    encoder = encoder_named(tiny_encoder, 32, device="cpu")
    out = tmp_path_factory.mktemp("starts")
    return make_weak_start(encoder, [load_task(two)], Plan(steps=1), SMALL, out, "the command")[0]


def test_jobs_are_ordered_after_what_they_depend_on() -> None:
    jobs = parse_job("plan=paper task=/a/wikiqa start=/b/weak seeds=2 strategies=stratified-match")
    names = [job.run.name for job in in_order(jobs)]
    schedule = "paper-static-2048x1.5x4"
    assert names == [
        "untrained-seed0",
        f"cosine-uncertainty-{schedule}-seed0",
        f"cosine-stratified-match-{schedule}-seed0",
        f"cosine-uncertainty-{schedule}-seed1",
        f"cosine-stratified-match-{schedule}-seed1",
    ]
    assert jobs[0].words == "plan=paper task=wikiqa start=weak seeds=2 strategies=stratified-match"
    with pytest.raises(InputError, match="plan="):
        parse_job("plan=unknown task=a start=b")


def test_collected_data_is_bought_first_and_only_a_concatenation_model_has_a_sample() -> None:
    jobs = parse_job("plan=collected task=/a/wikiqa start=/b/weak strategies=static near=5 random=200")
    ordered = in_order([*jobs, *parse_job("plan=strength task=/a/wikiqa start=/b/weak strategies=static")])
    found = [(job.run.model, job.run.strategy, job.near, job.random) for job in ordered]
    usual = (100, 1_000_000)
    assert found == [("untrained", "", *usual), ("cosine", "static", *usual), ("concat", "static", 5, 200)]
    assert jobs[-1].words.endswith("near=5 random=200")


def test_rows_of_cut_layers_name_the_encoder_that_was_cut(
    tmp_path: Path, tiny_encoder: Path, two: Path
) -> None:
    source = encoder_named(tiny_encoder, 32, device="cpu")
    cut = replace(SMALL, layers=1, seed=3)
    (start,) = make_weak_start(source, [load_task(two)], Plan(steps=0), cut, tmp_path / "starts")
    assert start.name == "tiny-bert-1layers"
    jobs = parse_job(f"plan=untrained task={two} start={start}")
    assert run_jobs(jobs, Options(tmp_path / "out", tmp_path / "results", "cpu")) == []
    rows = read_start_rows(tmp_path / "results")
    assert {row.start_source_fingerprint for row in rows} == {source.fingerprint}
    assert source.fingerprint not in {row.encoder_fingerprint for row in rows}
    assert {(row.start_layers, row.start_steps, row.start_texts) for row in rows} == {(1, 0, 0)}


def test_rows_carry_the_start_and_a_second_run_trains_nothing(
    tmp_path: Path, start: Path, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = parse_job(f"plan=strength task={two} start={start} first_batch=20 rounds=2 seeds=1")
    options = Options(tmp_path / "out", tmp_path / "results", "cpu")
    assert run_jobs(jobs, options) == []
    rows = read_start_rows(tmp_path / "results")
    assert {row.strategy for row in rows} == {"", "uncertainty", "static"}
    assert {(row.start_source, row.start_steps, row.start_command) for row in rows} == {
        ("tiny-bert", 1, "the command")
    }
    words = "plan=strength task=two start=weak-tiny-bert-1 first_batch=20 rounds=2 seeds=1"
    assert {row.source for row in rows} == {f'python -m experiments.start_runs --job "{words}"'}
    assert {(row.round, row.labels) for row in rows if row.strategy} == {(1, 20), (2, 50)}
    assert {row.experiment for row in rows} == {"paper-start"}

    monkeypatch.setattr(start_runs, "execute", lambda *_: pytest.fail("trained again"))
    (tmp_path / "results" / ROWS).unlink()  # lost between a run's end and its rows: they are stored again
    assert run_jobs(jobs, options) == []
    assert read_start_rows(tmp_path / "results") == rows


def test_a_job_that_fails_is_named_and_the_others_go_on(
    tmp_path: Path, start: Path, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(run, setup, say):
        if run.strategy == "uncertainty":
            raise RuntimeError("no memory")
        return real(run, setup, say)

    real = start_runs.execute
    monkeypatch.setattr(start_runs, "execute", execute)
    jobs = parse_job(f"plan=strength task={two} start={start} first_batch=20 rounds=1")
    failed = run_jobs(jobs, Options(tmp_path / "out", tmp_path / "results", "cpu"))
    assert failed == ["two.weak-tiny-bert-1.cosine-uncertainty-paper-static-20x1.5x1-seed0"]
    assert "no memory" in next((tmp_path / "out" / "failed").glob("*.txt")).read_text()
    assert {row.strategy for row in read_start_rows(tmp_path / "results")} == {"", "static"}


def test_a_start_that_is_not_there_yet_is_waited_for(tmp_path: Path, two: Path) -> None:
    jobs = parse_job(f"plan=untrained task={two} start={tmp_path / 'later'}")
    options = Options(tmp_path / "out", tmp_path / "results", "cpu", until=time.time() + 0.7)
    assert run_jobs(jobs, options) == []
    assert read_start_rows(tmp_path / "results") == []
