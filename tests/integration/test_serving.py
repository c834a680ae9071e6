"""The service from Python: exact search while texts come and go, what is kept, what is refused."""

from __future__ import annotations

import math
import shutil
import threading
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from pairsieve.campaign import Campaign
from pairsieve.campaign.probability import calibrated_scorer
from pairsieve.errors import InputError
from pairsieve.models.export import write_matrix
from pairsieve.scorer import save_scorer
from pairsieve.scorer.saving import write_checksums
from pairsieve.serving import Busy, Service, UnknownKey
from pairsieve.serving.held import HeldTexts
from pairsieve.serving.index import Index, Query
from pairsieve.serving.opening import Wanted, checked, open_served
from pairsieve.serving.queue import Closed, Job, Queue
from pairsieve.serving.record import Change, Record, RecordError
from pairsieve.tasks import Collection, Task, load_task, save_task
from pairsieve.tasks.task import one_collection
from serving_campaign import finished_campaign
from synthetic_task import NOTHING, begin
from tiny import write_tiny

pytestmark = pytest.mark.xdist_group("serving")  # one campaign serves the module: made once


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    return finished_campaign(tmp_path_factory.mktemp("serving"), tiny_encoder)


PLAIN = {"hubness_correction": 0.0, "neighbour_smoothing": 0.0, "reranker": "off"}


@pytest.fixture(scope="module")
def exported(campaign: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "model"
    folder.mkdir()
    save_scorer(Campaign(campaign).scorer(1), folder)
    return folder


# ── the index ─────────────────────────────────────────────────────────────────────────────────────


def index_of(*angles: float) -> Index:
    """Texts a, b, c … on the unit circle at these angles in degrees."""
    keys = [chr(ord("a") + at) for at in range(len(angles))]
    return Index(HeldTexts(keys, [f"text {key}" for key in keys], circle(*angles)))


def find(index: Index, rows: Any, count: int) -> list[list[tuple[str, str, float]]]:
    return index.find([Query("asked", row) for row in rows], count)


def circle(*angles: float) -> Any:
    turned = np.radians(np.array(angles, np.float64))
    return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32).reshape(-1, 2)


def test_the_nearest_come_first_with_their_cosines() -> None:
    found = find(index_of(90, 60, 0), circle(0), 2)[0]
    assert found == [("c", "text c", 1.0), ("b", "text b", pytest.approx(0.5, abs=1e-6))]


def test_of_equal_scores_the_older_text_is_first() -> None:
    index = index_of(60, -60, 60)
    assert [key for key, _, _ in find(index, circle(0), 3)[0]] == ["a", "b", "c"]
    index.apply([Change("a", "text a, again", circle(60)[0])])  # now the newest
    assert [key for key, _, _ in find(index, circle(0), 2)[0]] == ["b", "c"]


def test_thousands_of_copies_do_not_hide_what_is_better() -> None:
    index = index_of(*[60.0] * 25)
    for number in range(5000):
        index.apply([Change(f"copy {number}", "copy", circle(60)[0])])
    index.apply([Change("best", "best", circle(10)[0])])
    assert [key for key, _, _ in find(index, circle(0), 3)[0]] == ["best", "a", "b"]


def test_many_queries_are_searched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    index, asked = index_of(*range(0, 360, 10)), circle(*range(50))
    whole = find(index, asked, 5)
    monkeypatch.setattr("pairsieve.serving.index.MOST_SCORES", 100)  # two queries of 36 scores at once
    assert find(index, asked, 5) == whole and len(whole) == 50


def test_asking_for_more_than_there_is_gives_all() -> None:
    assert len(find(index_of(0, 1), circle(0), 10)[0]) == 2
    assert find(index_of(), circle(0), 10) == [[]]


@settings(max_examples=examples(60))
@given(
    changes=st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 359)), max_size=60),
    asked=st.integers(0, 359),
    count=st.integers(1, 8),
)
def test_any_changes_leave_what_a_dictionary_would_hold(
    changes: list[tuple[int, int]], asked: int, count: int
) -> None:
    """Angle -1 removes. The dictionary keeps keys in the order of their last change, as the index does."""
    index, held = index_of(), {}
    for key, angle in changes:
        held.pop(str(key), None)
        if angle < 0:
            index.apply([Change(str(key), None)])
        else:
            held[str(key)] = angle
            index.apply([Change(str(key), f"{angle}", circle(angle)[0])])
    scores = [(key, round(math.cos(math.radians(angle - asked)), 5)) for key, angle in held.items()]
    expected = sorted(scores, key=lambda row: -row[1])[:count]
    found = find(index, circle(asked), count)[0]
    assert [round(score, 4) for _, _, score in found] == pytest.approx([s for _, s in expected], abs=2e-4)
    assert len(index) == len(held) and all(key in held for key, _, _ in found)


def test_a_full_matrix_grows_without_the_removed_rows() -> None:
    index = index_of()
    for number in range(3000):
        index.apply([Change(f"k{number % 1500}", f"text {number}", circle(number % 360)[0])])
    assert len(index) == 1500
    key, text, score = find(index, circle(2999 % 360), 1)[0][0]
    assert score == 1.0 and int(text.split()[1]) % 360 == 2999 % 360 and key in index


# ── what is kept ──────────────────────────────────────────────────────────────────────────────────


def test_the_record_keeps_the_last_word_of_each_key(tmp_path: Path) -> None:
    row = np.array([0.6, 0.8], np.float32)
    record = Record(tmp_path)
    record.write([Change("a", "one", row, "m"), Change("b", "two", row, "m"), Change("a", "three", row, "m")])
    record.write([Change("b", None), Change("c\0\u202e", "\0 ع 😀", row, "m")])
    record.close()
    again = Record(tmp_path)
    assert [(c.key, c.text) for c in again.read()] == [("a", "three"), ("b", None), ("c\0\u202e", "\0 ع 😀")]
    assert again.read()[0].row is not None and again.read()[0].row.tolist() == row.tolist()
    again.close()


def test_one_process_serves_a_folder(tmp_path: Path) -> None:
    record = Record(tmp_path)
    with pytest.raises(InputError, match="being served by another process"):
        Record(tmp_path)
    record.close()
    Record(tmp_path).close()


def test_a_damaged_file_of_additions_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "texts.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match=r"cannot be read.*Put back a copy"):
        Record(tmp_path)


def test_additions_outlive_the_service_and_the_collection_stays_as_it_was(
    campaign: Path, tmp_path: Path
) -> None:
    first = next(iter(Campaign(campaign).split.left.keys))
    with Service.open(campaign, state=tmp_path) as service:
        texts = len(service)
        assert texts == 240 and service.replayed == 0
        assert not service.add("new", "a glacier in the river").replaced
        assert service.add("new", "a cave in the glacier").replaced, "the key was there"
        service.remove(first)
        assert len(service) == texts
        best = service.match("a cave in the glacier", 1)[0]
        assert (best.key, best.text, best.score) == ("new", "a cave in the glacier", 1.0)
    with Service.open(campaign, state=tmp_path) as again:
        assert again.replayed == 2 and "new" in again and first not in again
        assert again.match("a cave in the glacier", 1)[0] == best
    with Service.open(campaign, state=tmp_path / "other") as other:
        assert first in other and "new" not in other


def test_additions_of_an_earlier_model_are_embedded_anew(
    campaign: Path, exported: Path, tmp_path: Path
) -> None:
    """The same additions under another model: the texts are kept, rows of two models are never mixed."""
    other = tmp_path / "other"
    shutil.copytree(exported, other)
    dense = Campaign(campaign).scorer(1).matcher.left_map
    assert dense is not None
    changed = np.ascontiguousarray(dense[::-1] * 2 + 1)
    write_matrix(other / "2_Dense" / "model.safetensors", changed, "linear.weight")
    write_checksums(other)
    with Service.open(exported, state=tmp_path / "state") as service:
        service.add("a", "how old is the river")
        service.add("b", "delete my email account")
    with Service.open(other, state=tmp_path / "state") as later:
        assert later.match("delete my email account", 1)[0].key == "b"
        assert later.match("delete my email account", 1)[0].score == 1.0
    with Service.open(other, state=tmp_path / "state") as again:
        assert again.match("how old is the river", 1)[0].score == 1.0


# ── what is searched ──────────────────────────────────────────────────────────────────────────────


def test_without_corrections_scores_are_the_models_cosines(tiny_encoder: Path, tmp_path: Path) -> None:
    """The whole ranking against a product written out, and the probability against the campaign's own."""
    campaign = finished_campaign(tmp_path, tiny_encoder, **PLAIN)
    opened = Campaign(campaign)
    matcher = opened.scorer(1).matcher
    asked = "how do i reset my password"
    texts = [text for split in opened.task.splits.values() for text in split.left.texts]
    keys = [key for split in opened.task.splits.values() for key in split.left.keys]
    cosines = matcher.embed(texts) @ matcher.embed([asked])[0]
    with Service.open(campaign, state=tmp_path) as service:
        found = service.match(asked, count=240)
        bar = found[4].score
        assert len(service.match(asked, count=240, threshold=bar)) >= 5
        assert all(m.score >= bar for m in service.match(asked, 240, bar))
    assert [m.score for m in found] == pytest.approx(sorted(cosines, reverse=True), abs=2e-6)
    assert {m.key: m.score for m in found} == pytest.approx(dict(zip(keys, cosines)), abs=2e-6)
    chances = calibrated_scorer(opened, 1).probabilities(np.array([m.score for m in found]))
    stated = np.array([m.probability for m in found], np.float64)  # None is nan
    assert stated == pytest.approx(chances, nan_ok=True) and 0 < np.nanmin(stated) <= np.nanmax(stated) < 1


def test_one_split_or_a_table_can_be_searched(campaign: Path, exported: Path, tmp_path: Path) -> None:
    with Service.open(campaign, "dev", state=tmp_path / "1") as service:
        assert len(service) == 60
    table = tmp_path / "questions.csv"
    table.write_text("id,title\n7,open a bank account\n9,how tall is the glacier\n", encoding="utf-8")
    for folder in (campaign, exported):
        with Service.open(folder, table, key="id", text=["title"], state=tmp_path / folder.name) as service:
            assert service.match("open a bank account", 1)[0].key == "7"
    with Service.open(exported, campaign.parent / "task", state=tmp_path / "3") as service:
        assert len(service) == 240
    with Service.open(exported, state=tmp_path / "4") as empty:
        assert empty.match("anything") == []
        empty.add("one", "where is the bank")
        assert empty.match("where is the bank")[0].key == "one"


def test_with_two_collections_the_right_one_answers(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = finished_campaign(
        tmp_path, tiny_encoder, two=True, left_prefix="query: ", right_prefix="passage: ", **PLAIN
    )
    opened = Campaign(folder)
    matcher, asked = opened.scorer(1).matcher, "how do i reset my password"
    right = [text for split in opened.task.splits.values() for text in split.right.texts]
    best = float((matcher.embed(right, "right") @ matcher.embed([asked], "left")[0]).max())
    with Service.open(folder) as service:
        assert len(service) == len(right) == 120
        assert service.match(asked, 1)[0].score == pytest.approx(best, abs=2e-6)
        service.add("new", asked)
        own = float(matcher.embed([asked], "right")[0] @ matcher.embed([asked], "left")[0])
        assert {m.key: m.score for m in service.match(asked, 121)}["new"] == pytest.approx(own, abs=2e-6)
    with Service.open(folder, side="left") as service:
        lefts = {key for split in opened.task.splits.values() for key in split.left.keys}
        assert {m.key for m in service.match(asked, 200)} == lefts | {"new"}


def test_a_question_asked_alone_and_among_others_gets_the_same_answer(campaign: Path, tmp_path: Path) -> None:
    texts = list(load_task(campaign.parent / "task").splits["dev"].left.texts)[:40]
    with Service.open(campaign, state=tmp_path) as service:
        together = service.match_many(texts, 5)
        for text, among in zip(texts, together):
            alone = service.match(text, 5)
            assert [m.score for m in alone] == pytest.approx([m.score for m in among], abs=2e-6)


# ── what is refused ───────────────────────────────────────────────────────────────────────────────


def test_folders_without_a_model_are_refused_in_words(
    campaign: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match=r"no model to serve. It is empty"):
        Service.open(empty)
    with pytest.raises(InputError, match=r"neither campaign.toml nor scorer.json"):
        Service.open(tiny_encoder)
    with pytest.raises(InputError, match="no such folder"):
        Service.open(tmp_path / "nowhere")
    begun = begin(tmp_path / "begun", campaign.parent / "task", tiny_encoder)
    with pytest.raises(InputError, match=r"no model yet.*pairsieve run"):
        Service.open(begun.folder)
    with pytest.raises(InputError, match="Choose a round from 1 to 1"):
        Service.open(campaign, round=4)
    with pytest.raises(InputError, match=r"no collection 'tset'.*Did you mean 'test'"):
        Service.open(campaign, "tset")
    with pytest.raises(InputError, match="have no sides"):
        Service.open(campaign, side="right")


def test_embeddings_of_another_model_are_refused(exported: Path, campaign: Path, tmp_path: Path) -> None:
    good = open_served(exported, Wanted(campaign.parent / "task", state=tmp_path))
    mixed = np.random.default_rng(0).normal(size=good.rows.shape).astype(np.float32)
    for rows, words in (
        (mixed, "has cosine"),
        (good.rows[:, :16], "16 dimensions, the model's have another"),
    ):
        with pytest.raises(InputError, match=f"of another model.*{words}"):
            checked(replace(good, rows=rows))
    assert checked(good) is good


def test_an_exchanged_encoder_is_noticed(exported: Path, tmp_path: Path) -> None:
    """The folder says it is the same model, its weights are others: kept rows are not mixed with new ones."""
    texts = Collection(["a", "b"], ["how old is the river", "delete my email account"])
    with Service.open(exported, texts, state=tmp_path / "state", cache=tmp_path / "cache") as service:
        service.add("c", "open a bank account")
    other = tmp_path / "other"
    shutil.copytree(exported, other)
    write_tiny("bert", tmp_path / "encoder", seed=5)
    shutil.copyfile(tmp_path / "encoder" / "model.safetensors", other / "model.safetensors")
    write_checksums(other)
    with pytest.raises(InputError, match=r"of another model.*has cosine"):
        Service.open(other, texts, state=tmp_path / "state", cache=tmp_path / "cache")
    with Service.open(other, state=tmp_path / "state") as service:
        assert service.match("open a bank account", 1)[0].score == 1.0, "embedded anew"


def test_a_key_with_two_texts_is_refused(exported: Path, tmp_path: Path) -> None:
    splits = {
        name: one_collection(name, Collection(["k"], [f"text of {name}"]), NOTHING, NOTHING, False)
        for name in ("train", "dev")
    }
    save_task(Task("twice", "equivalence", splits, {}, {}), tmp_path / "task")
    with pytest.raises(InputError, match="'k' stands in two splits"):
        Service.open(exported, tmp_path / "task", state=tmp_path)
    with pytest.raises(InputError, match="'k' stands twice"):
        Service.open(exported, Collection(["k", "k"], ["one", "two"]), state=tmp_path)


ODD = [
    *("😀 how", "مرحبا what", "\u202ehow", "how\0b\x07c\x1b[31m", "can e\u0301\u200d", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 is"),
    *("<script>alert(1)</script>", "a/b?c=d#e %2F ../..", "'; DROP TABLE texts; --"),
]


def test_odd_texts_and_keys_are_found_again(exported: Path, tmp_path: Path) -> None:
    with Service.open(exported, state=tmp_path) as service:
        for text in ODD:
            service.add(text, text)
            assert service.match(text, 1)[0].score == 1.0
            assert text in [m.text for m in service.match(text, 10)]
    with Service.open(exported, state=tmp_path) as service:
        assert all(text in service for text in ODD)


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\0\x07", "\u200b"])
def test_a_text_with_nothing_to_read_is_refused(exported: Path, tmp_path: Path, text: str) -> None:
    with Service.open(exported, state=tmp_path) as service:
        with pytest.raises(InputError, match="the text is empty"):
            service.match(text)
        with pytest.raises(InputError, match="the text is empty"):
            service.add("k", text)
        assert len(service) == 0


def test_a_long_text_is_cut_with_a_note_and_a_megabyte_is_refused(exported: Path, tmp_path: Path) -> None:
    with Service.open(exported, state=tmp_path) as service:
        assert service.add("long", "how old is the river " * 100).cut
        assert not service.add("short", "how old is the river").cut
        assert [answer.cut for answer in service.ask(["bank " * 126, "bank " * 127]).result()] == [
            False,
            True,
        ]
        with pytest.raises(InputError, match="a text of 1,048,576 characters"):
            service.match("x" * 2**20)
        with pytest.raises(InputError, match="a key of 501 characters"):
            service.add("k" * 501, "text")
        with pytest.raises(InputError, match="half a surrogate"):
            service.match("\ud800 and words")
        with pytest.raises(UnknownKey, match="no text with the key 'nothing'"):
            service.remove("nothing")
        for count in (0, -1, 50_001):
            with pytest.raises(InputError, match="Ask for 1 to 50,000"):
                service.match("text", count)
        with pytest.raises(InputError, match="threshold nan"):
            service.match("text", 1, math.nan)


# ── the queue ─────────────────────────────────────────────────────────────────────────────────────


def test_what_waits_together_is_worked_on_together() -> None:
    batches: list[list[str]] = []
    gate, entered = threading.Event(), threading.Event()

    def work(jobs: list[Job]) -> None:
        entered.set()
        gate.wait(30)
        batches.append([text for job in jobs for text in job.texts])
        for job in jobs:
            job.future.set_result(len(jobs))

    queue = Queue(work, most_waiting=5, most_at_once=3)
    first = queue.put(Job(["0"]))
    entered.wait(30)  # the worker holds it; the others gather
    more = [queue.put(Job([str(number)])) for number in range(1, 6)]
    with pytest.raises(Busy, match="5 texts wait and at most 5 may") as refusal:
        queue.put(Job(["6"]))
    assert refusal.value.retry_seconds >= 1 and queue.waiting == 5 and queue.refused == 1
    gate.set()
    wait([first, *more], 30)
    assert batches == [["0"], ["1", "2", "3"], ["4", "5"]]
    queue.close()
    with pytest.raises(Closed):
        queue.put(Job(["7"]))


def test_closing_finishes_what_was_accepted() -> None:
    gate = threading.Event()

    def work(jobs: list[Job]) -> None:
        gate.wait(30)
        for job in jobs:
            job.future.set_result("done")

    queue = Queue(work, 100, 1)
    accepted = [queue.put(Job(["text"])) for _ in range(20)]
    closing = threading.Thread(target=queue.close)
    closing.start()
    gate.set()
    closing.join(30)
    assert [future.result(0) for future in accepted] == ["done"] * 20


def test_one_bad_request_does_not_fail_the_others() -> None:
    gate = threading.Event()

    def work(jobs: list[Job]) -> None:
        gate.wait(30)
        if any("bad" in job.texts for job in jobs):
            raise RuntimeError("cannot read this")
        for job in jobs:
            job.future.set_result("fine")

    queue = Queue(work, 100, 100)
    futures = [queue.put(Job([text])) for text in ("held", "good", "bad", "better")]
    gate.set()
    wait(futures, 30)
    assert [str(future.exception() or future.result()) for future in futures] == [
        *("fine", "fine", "cannot read this", "fine")
    ]
    queue.close()


def test_a_change_that_cannot_be_written_is_not_acknowledged_and_not_found(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Service.open(exported, state=tmp_path) as service:
        service.add("before", "how old is the river")

        def full(self: Record, changes: Any) -> None:
            raise RecordError("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(Record, "write", full)
            with pytest.raises(RecordError, match="full"):
                service.add("after", "how tall is the glacier")
            assert "after" not in service and [m.key for m in service.match("glacier")] == ["before"]
        service.add("after", "how tall is the glacier")
        assert "after" in service
