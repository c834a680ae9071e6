"""`pairsieve explain`: the words, the rank and the neighbours of a pair, checked against doing it by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evaluating import Pairsieve, runner
from pairsieve.campaign import Campaign
from pairsieve.campaign.probability import calibrated_scorer, calibration_of
from pairsieve.explain import MOST_LETTERS, Explanation, close_keys, explain, pieces, words_of
from pairsieve.pairs import AllPairs, pair_rows
from pairsieve.scorer.calibration import Calibration
from pairsieve.tasks import Collection, Split, Task, save_task
from pairsieve.tasks.fields import make_fields
from pairsieve.tasks.joined import joined_rows
from pairsieve.tasks.task import one_collection
from pairsieve.visible import visible
from synthetic_task import begin, synthetic_task

pytestmark = pytest.mark.xdist_group("explain")  # one campaign serves the module: made once


@pytest.fixture
def pairsieve(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pairsieve:
    return runner(monkeypatch, capsys)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """One collection a split: train, dev, test; two rounds of 20 and 30 labels."""
    folder = tmp_path_factory.mktemp("explain")
    begin(folder / "mine", synthetic_task(folder / "task"), tiny_encoder, rounds=2).run()
    return folder / "mine"


@pytest.fixture(scope="module")
def two_sided(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    folder = tmp_path_factory.mktemp("two")
    begin(folder / "two", synthetic_task(folder / "task", two=True), tiny_encoder, rounds=1).run()
    return folder / "two"


def told_of(folder: Path, split: str, rank: int) -> tuple[Campaign, Explanation, int]:
    """The explanation of the pair with a rank in a split."""
    campaign = Campaign(folder)
    part = campaign.task.splits[split]
    pair = int(part.space.unrank(np.array([rank]))[0])
    a, b = (int(side[0]) for side in pair_rows(np.array([pair])))
    return campaign, explain(campaign, part.left.keys[a], part.right.keys[b], split), pair


@pytest.mark.parametrize("sides", ["mine", "two_sided"])
def test_a_word_carries_what_the_score_loses_without_it(sides: str, request: pytest.FixtureRequest) -> None:
    """Each loss, set beside the cosine of the text typed without that word."""
    campaign, told, _ = told_of(request.getfixturevalue(sides), "dev", 7)
    scorer = campaign.scorer()
    matcher = scorer.matcher
    second = "left" if campaign.split.space.symmetric else "right"
    left, right = matcher.embed([told.left_text], "left")[0], matcher.embed([told.right_text], second)[0]
    assert float(left @ right) == pytest.approx(told.cosine, abs=1e-4)
    assert told.density is not None
    one, other = scorer.corrections.hubness
    assert one + other == pytest.approx(0.5)
    assert told.smoothed_cosine is not None
    by_hand = told.smoothed_cosine / (told.density[0] ** one * told.density[1] ** other)
    if not told.reranked:
        assert told.log_odds == pytest.approx(scorer.weight * by_hand + scorer.bias, abs=1e-2)
    assert [word.text for word in told.left_words] == told.left_text.split()
    assert [word.text for word in told.right_words] == told.right_text.split()
    for word in told.left_words:
        without = told.left_text[: word.start] + told.left_text[word.end :]
        expected = told.cosine - float(matcher.embed([without], "left")[0] @ right)
        assert word.loss == pytest.approx(expected, abs=1e-4)
    for word in told.right_words:
        without = told.right_text[: word.start] + told.right_text[word.end :]
        expected = told.cosine - float(left @ matcher.embed([without], second)[0])
        assert word.loss == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("sides", ["mine", "two_sided"])
def test_how_it_stands_among_all_pairs(sides: str, request: pytest.FixtureRequest) -> None:
    """Counted again from every score of the split."""
    campaign, told, pair = told_of(request.getfixturevalue(sides), "dev", 100)
    part, number = campaign.task.splits["dev"], campaign.latest()
    scored = campaign.score(part, number)
    ids = part.space.unrank(np.arange(part.space.size))
    scores = scored.scan.scores(ids)
    mine = scores[ids == pair][0]
    assert told.standing is not None
    assert told.standing.higher == int((scores > mine).sum())
    assert told.standing.tied == int((scores == mine).sum()) >= 1
    assert told.standing.pairs == part.space.size
    positive = np.isin(ids, part.positives)
    reaching = scores >= mine
    assert told.at_score is not None and told.at_score.split == "dev"
    assert told.at_score.precision == pytest.approx((positive & reaching).sum() / reaching.sum())
    assert told.at_score.recall == pytest.approx((positive & reaching).sum() / positive.sum())
    assert told.truth == bool(positive[ids == pair][0])
    assert told.log_odds == pytest.approx(float(scored.scorer.log_odds(np.array([mine]))[0]))
    scorer = calibrated_scorer(campaign, told.round, split=part)
    chance = scorer.probabilities(np.array([mine]))[0]
    assert told.probability == pytest.approx(float(chance)) and 0 < chance < 1


def test_a_probability_is_for_a_split_of_the_size_that_is_looked_at(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the texts of dev: four times the pairs and twice the matches, so a match has twice the others."""
    campaign = Campaign(mine)
    texts = len(campaign.task.splits["dev"].left)

    def of(times: float) -> Calibration | None:
        count, nothing = round(times * texts), np.empty(0, np.int64)
        collection = Collection([str(at) for at in range(count)], ["a text"] * count)
        split = one_collection("other", collection, nothing, nothing, False)
        return calibration_of(campaign, campaign.latest(), split=split)

    same, twice, half = of(1.0), of(2.0), of(0.5)
    assert same is not None and twice is not None and half is not None
    assert same.height - twice.height == pytest.approx(np.log(2.0), abs=0.05)
    assert same.height - half.height == pytest.approx(np.log(0.5), abs=0.05)
    seen = []

    def calibrated(campaign: Campaign, split: Split, round: int, by_truth: bool, factor: float) -> None:
        seen.append((split.name, by_truth, round, factor))

    monkeypatch.setattr("pairsieve.campaign.probability._calibrated", calibrated)
    assert of(10.0) is None and of(0.1) is None and not seen, "far from dev and from train"
    assert of(5.0) is None
    (source, by_truth, _, factor), train = seen[0], len(campaign.task.splits["train"].left)
    assert source == "train" and not by_truth and factor == pytest.approx(5 * texts / train, abs=0.02)


@pytest.mark.parametrize("sides", ["mine", "two_sided"])
def test_the_nearest_labelled_pairs(sides: str, request: pytest.FixtureRequest) -> None:
    """Against a loop over all labels; a labelled pair is not its own neighbour."""
    campaign = Campaign(request.getfixturevalue(sides))
    ids, labels = campaign.ledger.labels()
    part, number = campaign.split, campaign.latest()
    at, to = (side.tolist() for side in pair_rows(ids))
    keys = part.left.keys, part.right.keys
    told = explain(campaign, keys[0][at[0]], keys[1][to[0]], examples=2)
    assert told.asked is not None and told.asked.label == int(labels[0])
    left, right = campaign.score(part, number).corrected.unit
    other = left if right is None else right
    a, b = left[at[0]], other[to[0]]
    expected = []
    for c, d, label in list(zip(at, to, labels.tolist()))[1:]:
        near = float(a @ left[c] + b @ other[d])
        if right is None:
            near = max(near, float(a @ left[d] + b @ left[c]))
        expected.append((near / 2, label, keys[0][c], keys[1][d]))
    expected.sort(key=lambda each: -each[0])
    best = [e for e in expected if e[1]][:2] + [e for e in expected if not e[1]][:2]
    best.sort(key=lambda each: -each[0])
    assert [n.similarity for n in told.near] == pytest.approx([e[0] for e in best], abs=1e-5)
    assert {(n.left_key, n.right_key) for n in told.near} == {(e[2], e[3]) for e in best}
    assert {n.match for n in told.near} == {True, False}


def test_for_a_person(mine: Path, pairsieve: Pairsieve) -> None:
    _, told, _ = told_of(mine, "train", 5)
    said = pairsieve("explain", mine, told.left_key, told.right_key)
    assert said.code == 0 and "\x1b" not in said.out
    lines = said.out.splitlines()
    assert lines[0] == f"{told.left_key}  {told.left_text}"
    assert lines[1] == f"{told.right_key}  {told.right_text}"
    assert f"The model of round 2: probability {told.probability:.3f} (score {told.score:.4f}" in said.out
    unknown = words_of(replace(told, probability=None))  # of such scores too little is known
    assert f"log-odds {told.log_odds:+.2f}; too little is known of such scores" in unknown
    assert "nothing calibrates it" in words_of(replace(told, probability=None, calibrated=False))
    assert told.standing is not None
    assert f"{told.standing.higher:,} of 7,140 pairs of train score higher" in said.out
    assert "On dev, " in said.out
    assert f"Truth: {'match' if told.truth else 'no match'}." in said.out
    heaviest = max((*told.left_words, *told.right_words), key=lambda word: abs(word.loss))
    assert f"{heaviest.text}  " in said.out and f"{heaviest.loss:+.3f}  {'█' * 20}" in said.out
    assert said.out.count("  match     ") == 3 and said.out.count("  no match  ") == 3
    as_json = pairsieve("explain", mine, told.left_key, told.right_key, "--json").json
    assert as_json == json.loads(json.dumps(told.as_json()))


def test_quickly_without_counting_all_pairs(mine: Path, pairsieve: Pairsieve) -> None:
    _, told, _ = told_of(mine, "train", 5)
    quick = pairsieve("explain", mine, told.left_key, told.right_key, "--quick", "--json").json
    whole = json.loads(json.dumps(told.as_json()))
    assert quick == whole | {"standing": None, "at_score": None}
    said = pairsieve("explain", mine, told.left_key, told.right_key, "--quick").out
    assert "score higher" not in said and "On dev" not in said and "probability" in said


def test_colours_only_for_a_terminal(mine: Path) -> None:
    _, told, _ = told_of(mine, "train", 5)
    coloured = words_of(told, colour=True)
    assert "\x1b[32m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == words_of(told)


def test_keys_in_either_order(mine: Path, two_sided: Path) -> None:
    for folder in (mine, two_sided):
        campaign = Campaign(folder)
        part = campaign.task.splits["train"]
        one, other = part.left.keys[0], part.right.keys[1]
        assert explain(campaign, one, other) == explain(campaign, other, one)


def test_unknown_keys_are_guessed(mine: Path, pairsieve: Pairsieve) -> None:
    keys = Campaign(mine).split.left.keys
    said = pairsieve("explain", mine, keys[0].upper(), keys[1])
    assert said.code == 2
    assert f"no text has the key {keys[0].upper()!r}. Did you mean {keys[0]!r}" in said.err
    said = pairsieve("explain", mine, keys[0], "%%%%%%%%%%%%%%%%%%%%")
    assert said.code == 2 and "Did you mean" not in said.err and "--split test" in said.err


def test_the_test_split_only_by_name(mine: Path, pairsieve: Pairsieve) -> None:
    keys = Campaign(mine).task.splits["test"].left.keys
    said = pairsieve("explain", mine, keys[0], keys[1])
    assert said.code == 2 and "Keys of the split test are found with --split test" in said.err
    assert pairsieve("explain", mine, keys[0], keys[1], "--split", "test").code == 0


@pytest.mark.parametrize(
    ("one", "other", "split", "expected"),
    [
        ("train:0", "dev:0", None, "are no pair of train, dev"),
        ("train:0", "train:0", None, "is given twice. A pair has two texts"),
        ("train:0", "train:1", "tset", "no split 'tset'. Did you mean 'test'?"),
    ],
)
def test_no_such_pair(
    mine: Path, pairsieve: Pairsieve, one: str, other: str, split: str | None, expected: str
) -> None:
    splits = Campaign(mine).task.splits
    keys = [splits[name].left.keys[int(row)] for name, row in (each.split(":") for each in (one, other))]
    said = pairsieve("explain", mine, *keys, *(("--split", split) if split else ()))
    assert said.code == 2 and expected in said.err


def test_before_there_is_a_model(tmp_path: Path, tiny_encoder: Path, pairsieve: Pairsieve) -> None:
    begin(tmp_path / "c", synthetic_task(tmp_path / "task"), tiny_encoder)
    said = pairsieve("explain", tmp_path / "c", "a", "b")
    assert said.code == 2 and "there is no model to ask" in said.err and "pairsieve run" in said.err


@pytest.mark.slow
def test_texts_of_every_kind(tmp_path: Path, tiny_encoder: Path, pairsieve: Pairsieve) -> None:
    """Empty, one word, a megabyte, no blanks, escape sequences: all are answered."""
    odd = [
        "",
        "word",
        "long " * 20_000,
        "日本語の文です",
        "\x1b[2J\x07 \u202eclear",
        "🙂 שלום",
        "z" * 300_000,
    ]
    texts = Collection([f"k{i}" for i in range(20)], odd + [f"how do i open account {i}" for i in range(13)])
    space = AllPairs(20)
    positives = space.ids(np.arange(7, 12), np.arange(8, 13))
    parts = {"train": one_collection("train", texts, positives, np.empty(0, np.int64), True)}
    save_task(Task("odd", "equivalence", parts, {}, {}), tmp_path / "task")
    begin(tmp_path / "c", tmp_path / "task", tiny_encoder, rounds=1, measure_splits=()).run()
    for at in range(1, 7):
        said = pairsieve("explain", tmp_path / "c", "k0", f"k{at}")
        assert said.code == 0, said.err
        assert "\x1b" not in said.out and "\x07" not in said.out and "\u202e" not in said.out
        assert len(said.out) < 20_000
    assert "300,000 characters" in said.out
    told = explain(Campaign(tmp_path / "c"), "k3", "k1")
    assert [word.text for word in told.right_words] == list("日本語の文です")


# ── its parts ───────────────────────────────────────────────────────────────────────────────────────


def test_records_are_compared_field_by_field(tmp_path: Path, tiny_encoder: Path) -> None:
    names = [
        f"{word} {place}" for word in ("north", "south", "east", "west", "old") for place in ("hill", "bay")
    ]
    columns = {"name": names, "code": [f"x{i // 2}" for i in range(10)], "note": ["", "quiet"] * 5}
    texts = Collection(
        [f"k{i}" for i in range(10)], joined_rows(list(columns.values())), make_fields(columns)
    )
    positives = AllPairs(10).ids(np.arange(0, 10, 2), np.arange(1, 10, 2))
    parts = {"train": one_collection("train", texts, positives, np.empty(0, np.int64), True)}
    save_task(Task("places", "equivalence", parts, {}, {}), tmp_path / "task")
    begin(tmp_path / "c", tmp_path / "task", tiny_encoder, rounds=1, measure_splits=()).run()
    told = explain(Campaign(tmp_path / "c"), "k0", "k1")
    assert told.left_text == "north hill | x0", "without the place of the missing note"
    assert [word.text for word in told.left_words] == ["north", "hill", "x0"], "the bar is no word"
    assert {each.name: each.words for each in told.fields}["code"] == "same"
    assert re.search(r"note +– +quiet +missing left", str(told))


@given(st.text(max_size=200))
@example("north hill | x0 | a|b")
def test_pieces_are_the_words_in_order(text: str) -> None:
    spans = pieces(text)
    assert "".join(text[a:b] for a, b in spans) == "".join(word for word in text.split() if word != "|")
    assert all(a < b for a, b in spans)


@given(words=st.integers(1, 2000), most=st.integers(1, 50))
def test_long_texts_lose_several_words_at_once(words: int, most: int) -> None:
    text = "ab " * words
    spans = pieces(text, most)
    assert len(spans) == min(words, most)
    read = text[:MOST_LETTERS].split()
    assert [word for a, b in spans for word in text[a:b].split()] == read


def test_close_keys() -> None:
    known = ["user-1", "user-2", "User-1", "order-77", "99"]
    assert close_keys("USER-1", known)[:2] == ["user-1", "User-1"]
    assert close_keys("ordr-77", known)[0] == "order-77"
    assert close_keys("7", known) == ["order-77"]
    assert close_keys("§§§", known) == []


@given(st.text())
def test_visible_text_is_one_printable_line(text: str) -> None:
    shown = visible(text)
    assert shown.splitlines() in ([], [shown])
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown)
    shown.encode()
    kept = "".join(letter for letter in text if letter.isalnum())
    assert "".join(letter for letter in shown if letter.isalnum()) == kept


def test_visible_examples() -> None:
    assert visible("plain ünï") == "plain ünï"
    assert visible("a\nb\tc") == "a b c"
    assert visible("\x1b[31mred\x00") == "␛[31mred␀"
    assert visible("\u202egnp.exe") == "gnp.exe"
    assert visible("abcdef", 3) == "abc… (6 characters)"
