"""A campaign from its first question to its model: strategies, searches, people, other tasks."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pairsieve.campaign import Campaign, Step, create_campaign, next_step, round_line
from pairsieve.contracts import Answer, Estimate
from pairsieve.errors import InputError, PoolExhausted, SettingsError
from pairsieve.files import locked
from pairsieve.ledger import RoundCount
from pairsieve.measure.figures import F1Figure, RoundFigures, SplitFigures
from pairsieve.pairs import ScoredPairs, is_member
from pairsieve.search import INDEXES
from pairsieve.settings import Schedule
from pairsieve.tasks import load_task
from pairsieve.tasks.task import Collection, Task, split_of
from synthetic_task import begin, picture, synthetic_task

one_worker = pytest.mark.xdist_group("finished")  # its campaigns take seconds: made once

# ── where it stands ─────────────────────────────────────────────────────────────────────────────────

PLAIN = {"hubness_correction": 0.0, "neighbour_smoothing": 0.0}  # the score is the cosine


def test_where_a_campaign_stands() -> None:
    def counts(*open_questions: int) -> list[RoundCount]:
        return [RoundCount(at, 10, 10 - n, 2, 0, n) for at, n in enumerate(open_questions, 1)]

    assert next_step([], set(), 2) == Step("choose", 1)
    assert next_step(counts(7), set(), 2) == Step("label", 1, waiting=7)
    assert next_step(counts(0), set(), 2) == Step("train", 1)
    assert next_step(counts(0), {1}, 2) == Step("choose", 2)
    assert next_step(counts(0, 3), {1}, 2) == Step("label", 2, waiting=3)
    assert next_step(counts(0, 0), {1, 2}, 2) == Step("finished", 2)
    assert next_step(counts(0, 0), {2}, 2) == Step("train", 1)  # the figures of round 1 were lost
    assert next_step(counts(1, 0), {1, 2}, 2) == Step("label", 1, waiting=1)  # an answer was taken back
    assert next_step(counts(0, 0), {1, 2}, 3) == Step("choose", 3)  # somebody raised the rounds


def test_a_round_in_one_line() -> None:
    about = {field.name: None for field in fields(RoundFigures)}
    about |= {"round": 2, "labels": 5120, "positives": 311, "seconds": {"train": 1.25, "embed": 2.25}}
    found = RoundFigures(**about | {"measures": {}})
    assert round_line(found) == "round 2: 5,120 labels, 311 positives (3.5 s)"
    ap = Estimate.exact(0.26789, 10)
    on_dev = SplitFigures(10, 2, "exact", ap, {}, F1Figure(0.5, 0.1), held_out=True)
    found = replace(found, measures={"dev": on_dev})
    assert round_line(found) == "round 2: 5,120 labels, 311 positives, dev AP 0.2679 (3.5 s)"


# ── strategies and searches ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["one", pytest.param("two", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "strategy",
    [
        *("random", "uncertainty", "stratified:19/95", "stratified-all"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("stated", "static", "adaptive")),
    ],
)
def test_every_strategy_buys_exactly_its_budget(
    strategy: str, kind: str, task: Path, two: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    whole = {} if strategy == "uncertainty" else {"reranker": "off"}  # the others choose without it
    campaign = begin(tmp_path / "c", task if kind == "one" else two, tiny_encoder, strategy=strategy, **whole)
    assert campaign.run() == Step("finished", 3)
    asked, truth = campaign.ledger.asked(), campaign.split.positives
    assert len(asked) == len(np.unique(asked)) == 95
    assert campaign.split.space.contains(asked).all()

    rounds = campaign.status().rounds
    assert [row.labels for row in rounds] == [20, 50, 95]
    for row in rounds:
        through = campaign.ledger.asked(row.round)
        assert row.positives == int(is_member(through, truth).sum())
        assert set(row.seconds) == {"embed", "select", "train", "measure"}
        assert row.figures.measures["dev"].method == "exact"
    assert sum(row.figures.batch.labels for row in rounds) == 95

    if strategy == "stratified:19/95":  # a fifth of every round, as in the run it matches
        assert [row.positives for row in rounds] == [4, 10, 19]
    if strategy == "stratified-all":  # half of each batch, until all are bought
        assert [row.positives for row in rounds] == [10, 25, min(47, len(truth))]
    if strategy == "random":
        chances = campaign.ledger.questions().inclusion_probability
        free = campaign.split.space.size
        assert np.allclose(np.unique(chances), [20 / free, 30 / (free - 20), 45 / (free - 50)])


def test_static_retrieval_takes_the_nearest_by_the_frozen_encoder(
    task: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    campaign = begin(tmp_path / "c", task, tiny_encoder, strategy="static", reranker="off", **PLAIN)
    campaign.run()
    rows = campaign.trainer.learner.encoder.embed(campaign.split.left.texts)
    left, right = np.triu_indices(len(rows), 1)
    every = ScoredPairs.of(campaign.split.space.ids(left, right), (rows @ rows.T)[left, right])
    assert is_member(every.best(95).ids, campaign.ledger.asked()).mean() > 0.97  # but for rounding at the cut


@pytest.mark.parametrize("kind", ["one", pytest.param("two", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("search", "method"),
    [
        ("exact", "exact over all pairs"),
        ("neighbours", "exact, 20 neighbours a row"),
        ("ivf", "ivf, 20 neighbours a row"),
        ("faiss-ivf", "faiss-ivf, 20 neighbours a row"),
        ("faiss-hnsw", "faiss-hnsw, 20 neighbours a row"),
    ],
)
def test_every_search_reports_its_method_and_its_measured_recall(
    search: str, method: str, kind: str, task: Path, two: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    place = task if kind == "one" else two
    campaign = begin(
        tmp_path / "c", place, tiny_encoder, search=search, neighbours=20, rounds=2, reranker="off"
    )
    assert campaign.run() == Step("finished", 2)
    for found in campaign.figures().values():
        recall = found.search.recall
        assert found.search.method == method
        assert 0.5 < recall.low <= recall.value <= recall.high <= 1.0
        if search in INDEXES:
            texts = campaign.split.space.shape[0]
            assert recall.n == texts  # all rows: fewer than the 256 that are sampled at most
            assert "sampled rows against an exact scan" in recall.method
        else:
            assert (recall.value, recall.method) == (1.0, "exact")


@pytest.mark.slow
def test_more_neighbours_than_texts_are_all_texts(task: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    every = {"search": "neighbours", "neighbours": 10_000, "reranker": "off"}
    everything = begin(tmp_path / "all", task, tiny_encoder, **every)
    everything.run()
    exact = begin(tmp_path / "exact", task, tiny_encoder, reranker="off")
    exact.run()
    assert np.array_equal(everything.ledger.asked(), exact.ledger.asked())


def test_one_seed_is_one_campaign(task: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    one, same, other = (
        begin(tmp_path / name, task, tiny_encoder, strategy="random", seed=seed, rounds=2)
        for name, seed in (("one", 1), ("same", 1), ("other", 2))
    )
    for campaign in (one, same, other):
        campaign.run()
    assert picture(one.folder) == picture(same.folder)
    assert one.ledger.digest() != other.ledger.digest()


def test_a_plug_in_that_breaks_its_contract_is_refused(
    task: Path, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pairsieve import strategies
    from pairsieve.contracts import Selection

    def greedy(view: Any, budget: int, rng: Any) -> Selection:
        return Selection(view.space.sample(budget + 1, rng), "one more")

    monkeypatch.setitem(strategies.BUILT_IN, "greedy", (greedy, False))
    campaign = begin(tmp_path / "c", task, tiny_encoder, strategy="greedy")
    with pytest.raises(SettingsError, match=r"'greedy' broke its contract: wanted 20 .* got 21"):
        campaign.run()
    assert len(campaign.ledger.asked()) == 0


# ── other processes, other tasks ───────────────────────────────────────────────────────────────────


def test_one_process_at_a_time(task: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    one, other = begin(tmp_path / "c", task, tiny_encoder, rounds=1, reranker="off"), Campaign(tmp_path / "c")
    with (
        locked(one.folder / ".lock"),
        pytest.raises(SettingsError, match=r"is being run by another process\. Wait for it, or stop it"),
    ):
        other.run()
    assert other.run() == Step("finished", 1)  # the lock was let go


def test_a_campaign_knows_its_task(task: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "task"
    shutil.copytree(task, mine)
    folder = tmp_path / "c"
    begin(folder, mine, tiny_encoder, rounds=1, reranker="off").run()
    before = picture(folder)

    shutil.rmtree(mine)
    with pytest.raises(InputError, match="there is no such task folder"):
        Campaign(folder).run()
    synthetic_task(mine, seed=50)
    with pytest.raises(SettingsError, match=r"belongs to another task.*Put the old task folder back"):
        Campaign(folder).run()
    with pytest.raises(SettingsError, match="belongs to another task"):
        Campaign(folder).scorer(1)
    shutil.rmtree(mine)
    shutil.copytree(task, mine)
    assert Campaign(folder).run() == Step("finished", 1)
    assert picture(folder) == before


def test_a_campaign_and_its_task_can_move_together(task: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    shutil.copytree(task, tmp_path / "here" / "task")
    begin(tmp_path / "here" / "c", tmp_path / "here" / "task", tiny_encoder, rounds=1, reranker="off").run()
    (tmp_path / "here").rename(tmp_path / "there")
    assert Campaign(tmp_path / "there" / "c").run() == Step("finished", 1)


def test_the_pool_of_a_search_can_run_dry(two: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    """One neighbour each of 60 left texts: at most 60 pairs to choose from, and round 4 wants 68."""
    campaign = begin(
        tmp_path / "c", two, tiny_encoder, search="neighbours", neighbours=1, rounds=4, reranker="off"
    )
    with pytest.raises(
        PoolExhausted, match=r"asked for \d+ pairs, \d+ unlabelled remain .*neighbours \(now 1\)"
    ):
        campaign.run()
    assert len(campaign.ledger.asked()) in (20, 50, 95)  # whole rounds only


def test_a_budget_above_the_pool_is_refused_before_anything_is_asked(
    two: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    with pytest.raises(PoolExhausted, match=r"asks for 5,1\d\d,\d+ distinct pairs, 3,600 are in train"):
        begin(tmp_path / "no", two, tiny_encoder, rounds=29)
    assert not (tmp_path / "no").exists()


def test_a_task_without_pairs_is_refused_in_words(tiny_encoder: Path, tmp_path: Path) -> None:
    one, none = Collection(["a"], ["x"]), np.empty(0, np.int64)
    task = Task("one", "equivalence", {"all": split_of("all", [one], none, none, False)}, {}, {})
    schedule = Schedule(first_batch=5, rounds=1)
    words = r"^the split all of the task has no pairs: a pair needs two texts\. Make the task again"
    with pytest.raises(PoolExhausted, match=words):
        create_campaign(tmp_path / "no", task, encoder=str(tiny_encoder), schedule=schedule)
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("prefixes", [("query: ", "passage: "), ("query: ", ""), ("", "passage: ")])
def test_differing_prefixes_in_one_collection_are_refused(
    prefixes: tuple[str, str], task: Path, two: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    """A text would be trained with one prefix and embedded with the other."""
    differing = dict(zip(("left_prefix", "right_prefix"), prefixes))
    with pytest.raises(SettingsError, match=r"differ, and train has one collection: .*both to the same text"):
        begin(tmp_path / "no", task, tiny_encoder, **differing)
    assert not (tmp_path / "no").exists()
    begin(tmp_path / "two", two, tiny_encoder, **differing)  # left and right are other texts
    begin(tmp_path / "one", task, tiny_encoder, left_prefix="query: ", right_prefix="query: ")


def test_stated_pairs_and_oracles_need_something_stated(tiny_encoder: Path, tmp_path: Path) -> None:
    bare = synthetic_task(tmp_path / "bare", stated=False)
    with pytest.raises(InputError, match="split 'train' states no negative pairs"):
        begin(tmp_path / "a", bare, tiny_encoder, strategy="stated").run()
    with pytest.raises(InputError, match="states no negative pairs"):
        begin(tmp_path / "b", bare, tiny_encoder, seed_set="stated").run()
    unknown = synthetic_task(tmp_path / "unknown", truth=False)
    with pytest.raises(InputError, match=r"split 'train' has no truth.*such as uncertainty"):
        begin(tmp_path / "c", unknown, tiny_encoder, strategy="stratified-all").run()


# ── people answer ───────────────────────────────────────────────────────────────────────────────────


def test_without_truth_it_waits_for_people_and_goes_on_when_they_have_answered(
    tiny_encoder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    begin(folder, synthetic_task(tmp_path / "task", truth=False), tiny_encoder, rounds=2, reranker="off")
    assert Campaign(folder).run() == Step("label", 1, waiting=20)
    asked = Campaign(folder).ledger.digest()
    assert Campaign(folder).run() == Step("label", 1, waiting=20)
    assert Campaign(folder).ledger.digest() == asked
    assert Campaign(folder).status().state == "waiting"

    ledger = Campaign(folder).ledger
    waiting = ledger.open_questions(1).tolist()
    ledger.answer([Answer(id, at % 2) for at, id in enumerate(waiting[:12])], who="anna", source="page")
    assert Campaign(folder).run() == Step("label", 1, waiting=8)
    ledger.answer([Answer(id, None) for id in waiting[12:]], who="anna", source="page")  # unsure is an answer
    assert Campaign(folder).run() == Step("label", 2, waiting=30)
    row = Campaign(folder).status().rounds[0]
    assert (row.labels, row.positives, row.figures.measures) == (12, 6, {})
    assert row.average_precision is None  # nobody knows it here
    assert "average_precision" not in row.as_json()


def test_a_changed_answer_is_trained_and_measured_again(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    begin(
        folder, synthetic_task(tmp_path / "task", truth=False), tiny_encoder, rounds=1, reranker="off"
    ).run()
    ledger = Campaign(folder).ledger
    ids = ledger.open_questions(1).tolist()
    ledger.answer([Answer(id, at % 2) for at, id in enumerate(ids)], who="anna", source="page")
    assert Campaign(folder).run() == Step("finished", 1)
    before = Campaign(folder).figures()[1]
    assert Campaign(folder).status().stale == {}
    ledger.answer([Answer(ids[0], 1)], who="anna", source="page")
    assert Campaign(folder).status().as_json()["rounds"][0]["stale"]  # until `run` has looked again
    assert Campaign(folder).run() == Step("finished", 1)
    assert "stale" not in Campaign(folder).status().as_json()["rounds"][0]
    after = Campaign(folder).figures()[1]
    assert (before.positives, after.positives) == (10, 11)
    assert before.scorer != after.scorer and before.head != after.head


def test_a_campaign_that_finds_no_match_goes_on(tiny_encoder: Path, tmp_path: Path) -> None:
    """A random seed set among 7,140 pairs with 49 matches: here the first 20 hold none."""
    folder = tmp_path / "c"
    begin(
        folder,
        synthetic_task(tmp_path / "task"),
        tiny_encoder,
        seed_set="random",
        seed=1,
        rounds=2,
        reranker="off",
    ).run()
    status = Campaign(folder).status()
    assert status.rounds[0].positives == 0
    assert [row.labels for row in status.rounds] == [20, 50]
    json.dumps(status.as_json(), allow_nan=False)


# ── models out ──────────────────────────────────────────────────────────────────────────────────────


@one_worker
@pytest.mark.slow
def test_rounds_leave_no_embeddings_of_their_own_behind(finished: dict[str, Path]) -> None:
    """Full training makes a new encoder a round: only the last one's rows, and the frozen one's, are kept."""
    kept = [
        json.loads(file.read_text())["key"]
        for file in finished["full"].glob("artifacts/embeddings/*/manifest.json")
    ]
    campaign = Campaign(finished["full"])
    last = campaign.trainer.model_key(campaign.labels(3))
    assert {key.get("model", "") for key in kept} <= {"", last}


def test_embeddings_can_be_shared_between_campaigns(task: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        begin(tmp_path / name, task, tiny_encoder, rounds=1, reranker="off")
        Campaign(tmp_path / name, tmp_path / "cache").run()
    assert len(list((tmp_path / "cache" / "embeddings").iterdir())) == 2  # train and dev, once
    assert not (tmp_path / "other" / "artifacts" / "embeddings").exists()


def test_splits_are_found_where_a_task_has_other_names(tiny_encoder: Path, tmp_path: Path) -> None:
    place = synthetic_task(tmp_path / "task", sizes={"all": 120})
    campaign = begin(tmp_path / "c", place, tiny_encoder, rounds=1, reranker="off")
    assert (campaign.settings.split, campaign.settings.measure_splits) == ("all", ("all",))
    assert campaign.run() == Step("finished", 1)


def test_what_a_campaign_is_unless_told_otherwise(task: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    whole = synthetic_task(tmp_path / "whole", sizes={"train": 60, "all": 120, "dev": 60})
    options: dict[str, Any] = {"encoder": str(tiny_encoder), "device": "cpu"}
    settings = create_campaign(tmp_path / "usual", whole, **options).settings
    assert (settings.split, settings.measure_splits) == ("all", ("all",))
    assert settings.schedule.batches() == (40,) * 10
    assert create_campaign(tmp_path / "some", whole, split="train", **options).settings.measure_splits == (
        "dev",
    )
    settings = create_campaign(tmp_path / "splits", task, **options).settings
    assert (settings.split, settings.measure_splits) == ("train", ("dev",))
    with pytest.raises(PoolExhausted, match="asks for 16,640 distinct pairs"):
        create_campaign(tmp_path / "paper", task, recipe="paper", **options)


def test_a_finished_campaign_is_extended(task: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    """By rounds as large as the last; what was asked and measured before stays as it is."""
    schedule = Schedule(first_batch=20, rounds=2)
    campaign = begin(tmp_path / "c", task, tiny_encoder, schedule=schedule, reranker="off")
    assert campaign.run() == Step("finished", 2)
    before = picture(campaign.folder)["figures"]
    campaign.extend(25)
    assert Campaign(campaign.folder).settings.schedule.batches() == (20,) * 4
    assert campaign.step() == Step("choose", 3)
    assert campaign.run() == Step("finished", 4)
    after = picture(campaign.folder)["figures"]
    assert {number: after[number] for number in before} == before
    assert after[4]["labels"] == 80
    written = (campaign.folder / "campaign.toml").read_text()
    with pytest.raises(PoolExhausted, match="7,140 are in train"):
        campaign.extend(8000)
    assert (campaign.folder / "campaign.toml").read_text() == written


def test_a_folder_with_something_in_it_is_no_place_for_a_campaign(
    task: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "notes.txt").write_text("mine")
    with pytest.raises(SettingsError, match="exists and is not empty"):
        create_campaign(tmp_path / "c", task, encoder=str(tiny_encoder))
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["notes.txt"]
    assert load_task(task).name == "made"


def test_the_first_figure_of_a_round_is_of_the_split_it_names(
    task: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    """However the splits were named, dev comes before test."""
    campaign = begin(
        tmp_path / "c", task, tiny_encoder, rounds=1, measure_splits=("test", "dev"), reranker="off"
    )
    said: list[str] = []
    campaign.run(said.append)
    (found,) = campaign.figures().values()
    row = found.as_json()
    assert row["average_precision"] == row["measures"]["dev"]["average_precision"]
    assert row["average_precision"] != row["measures"]["test"]["average_precision"]
    assert found.measured_on == "dev" and ", dev AP" in said[0]
