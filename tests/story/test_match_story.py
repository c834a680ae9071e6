"""From a campaign to its matches: the list, the groups, a new table, and every refusal in words."""

import csv
import io
import json
import shutil
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pairsieve import find_matches
from pairsieve.campaign import Campaign
from pairsieve.campaign.probability import calibrated_scorer
from pairsieve.cli import all_commands
from pairsieve.cli.match import match_words
from pairsieve.errors import InputError
from pairsieve.matches import find, listing, unreadable
from pairsieve.matches.listing import Known, band_cuts, list_bands, read_list
from pairsieve.matches.ranking import Ranking, rank
from pairsieve.matches.unreadable import unreadable_pairs
from pairsieve.models import encoder_named
from pairsieve.pairs import is_member
from pairsieve.settings import Schedule
from pairsieve.tasks import Collection
from pairsieve.tasks.task import one_collection, two_collections
from synthetic_task import begin, synthetic_task

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("match-story")]  # two campaigns: made once


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_encoder) -> dict[str, Path]:
    """Two finished campaigns on synthetic questions: one collection, and two."""
    made = {}
    for name, two in (("one", False), ("two", True)):
        root = tmp_path_factory.mktemp(name)
        task = synthetic_task(root / "task", two=two)
        schedule = Schedule(first_batch=140, growth=1.0, rounds=2)
        ways = {"strategy": "uncertainty", "seed_set": "stated", "schedule": schedule}
        begin(root / "campaign", task, tiny_encoder, **ways).run()
        made[name] = root / "campaign"
    return made


def called(*words: object) -> dict:
    """What a command prints as JSON."""
    result = CliRunner().invoke(all_commands(), [*map(str, words), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def refused(*words: object) -> str:
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(all_commands(), [*map(str, words)], catch_exceptions=False)
    return str(caught.value)


def test_the_list_is_sorted_keyed_and_keeps_what_people_said(trained, tmp_path):
    folder, out = trained["one"], tmp_path / "matches.csv"
    found = called("match", folder, "--out", out, "--texts")
    rows = table(out)
    assert len(rows) == found["matches"] > 0
    assert found["without_probability"] == sum(not row["probability"] for row in rows)
    stated = [float(row["probability"]) for row in rows if row["probability"] and not row["label"]]
    assert found["unlikely"] == sum(each < 0.05 for each in stated)
    assert list(rows[0]) == ["left", "right", "left_text", "right_text", "score", "probability", "label"]
    campaign = Campaign(folder)
    ids, labels = campaign.ledger.labels()
    keys, part = campaign.split.left.keys, campaign.split
    said = {(keys[pair >> 32], keys[pair & 0xFFFFFFFF]): label for pair, label in zip(ids.tolist(), labels)}
    listed = [(row["left"], row["right"]) for row in rows]
    assert not any(said.get(pair) is np.False_ for pair in listed)
    assert {pair for pair, label in said.items() if label} <= set(listed)
    assert all(row["left_text"] == part.left.texts[keys.index(row["left"])] for row in rows[:20])
    above = [float(row["score"]) for row in rows if float(row["score"]) >= found["threshold"]["threshold"]]
    assert above == sorted(above, reverse=True) and len(above) >= len(rows) - labels.sum()


def test_the_figures_are_those_of_the_written_list(trained, tmp_path):
    """Precision and recall counted again from the file, against the task's truth."""
    folder, out = trained["two"], tmp_path / "matches.jsonl"
    found = called("match", folder, "--out", out, "--split", "test")
    part = Campaign(folder).task.splits["test"]
    left = {key: row for row, key in enumerate(part.left.keys)}
    right = {key: row for row, key in enumerate(part.right.keys)}
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    ids = part.space.ids([left[row["left"]] for row in rows], [right[row["right"]] for row in rows])
    true = is_member(ids, part.positives).sum()
    assert found["threshold"]["from"] == "dev"
    assert found["truth"]["list"]["precision"] == pytest.approx(true / len(rows))
    assert found["truth"]["list"]["recall"] == pytest.approx(true / len(part.positives))


def test_by_score_alone_is_the_list_without_labels(trained, tmp_path):
    """Counted at the threshold itself, not at the lowest match above it."""
    for folder in trained.values():
        for target in (("--precision", 0.5), ("--f1",), ("--recall", 0.8)):
            out = tmp_path / "alone.csv"
            truth = called("match", folder, *target, "--scores-only", "--out", out)["truth"]
            assert truth["scores_alone"] == truth["list"]


def test_a_list_of_a_precision_says_how_long_the_default_one_is(trained, tmp_path):
    folder, out = trained["two"], tmp_path / "m.csv"
    default = called("match", folder, "--scores-only", "--out", out)
    found = called("match", folder, "--scores-only", "--precision", 0.5, "--out", out)
    # By score alone: labelled pairs, which the list has as labelled, make the difference.
    assert found["best_f1_pairs"] == pytest.approx(default["matches"], rel=0.2)
    assert "best_f1_pairs" not in default
    assert f"Without a target it would have about {found['best_f1_pairs']:,}" in match_words(
        find_matches(folder, out, scores_only=True, precision=0.5).figures
    )


def test_count_gives_so_many_and_the_threshold_all_above(trained, tmp_path):
    folder = trained["two"]
    called("match", folder, "--out", tmp_path / "a.parquet", "--count", 25)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.num_rows == 25
    assert [str(field.type) for field in table.schema][2:] == ["float", "double", "int8"]
    found = called("match", folder, "--out", tmp_path / "b.csv", "--threshold", -1, "--scores-only")
    assert found["matches"] == 3600  # all of 60 × 60


def test_every_kind_of_file_reads_back_the_same(trained, tmp_path):
    """Keys are texts even where they look like numbers; the label is 1 or None."""
    read = {}
    for kind in ("csv", "jsonl", "parquet"):
        out = tmp_path / f"m.{kind}"
        called("match", trained["two"], "--out", out, "--count", 12)
        read[kind] = list(read_list(out))
    assert len(read["csv"]) == 12 and read["csv"] == read["jsonl"]
    assert [row["left"] for row in read["parquet"]] == [row["left"] for row in read["csv"]]
    assert {row["label"] for row in read["parquet"]} <= {1, None}
    assert len(list(read_list(tmp_path / "m.csv", 5))) == 5


def test_one_to_one_names_no_unlabelled_text_twice(trained, tmp_path):
    folder, out = trained["two"], tmp_path / "matches.csv"
    called("match", folder, "--out", out, "--one-to-one", "--scores-only", "--recall", 0.9)
    rows = table(out)
    for side in ("left", "right"):
        assert len({row[side] for row in rows}) == len(rows)


def test_an_index_lists_what_it_found_and_says_how_much_that_is(trained, tmp_path):
    found = called("match", trained["one"], "--out", tmp_path / "a.csv", "--search", "hnsw", "--count", 10)
    assert 0.5 < found["search"]["recall"]["value"] <= 1
    exact = called("match", trained["one"], "--out", tmp_path / "b.csv", "--count", 10)
    rows = [table(tmp_path / name) for name in ("a.csv", "b.csv")]
    assert exact["matches"] == 10 and rows[0] == rows[1]


def test_a_new_table_is_matched_by_the_old_model(trained, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text(
        "id,text\na,how do i reset my password\nb,how do i reset my password\nc,old glacier cave\n"
    )
    out = tmp_path / "m.csv"
    like = ("--collection", new, "--key", "id", "--text", "text", "--out", out)
    found = called("match", trained["one"], *like, "--count", 1)
    assert found["pairs"] == 3 and found["labelled"] == 0
    assert table(out)[0]["left"] == "a"
    against = called("match", trained["two"], *like, "--count", 2)
    assert against["pairs"] == 3 * 60


def test_groups_of_duplicates_with_figures(trained, tmp_path):
    out = tmp_path / "groups.csv"
    found = called("cluster", trained["one"], "--out", out, "--texts")
    rows = table(out)
    assert len(rows) == found["texts"] == 120
    assert {row["representative"] for row in rows} <= {row["key"] for row in rows}
    assert set(found["truth"]) == {"pairwise", "b3"}
    sizes = [int(row["size"]) for row in rows]
    assert sizes == sorted(sizes, reverse=True)


def test_answers_that_contradict_a_group_are_counted(trained, tmp_path, monkeypatch):
    """a = b and b = c by labels, and a ≠ c by a third."""
    members: dict[str, list[int]] = {}
    folder, out = trained["one"], tmp_path / "groups.csv"
    called("cluster", folder, "--out", out)
    keys = {key: row for row, key in enumerate(Campaign(folder).split.left.keys)}
    for row in table(out):
        members.setdefault(row["cluster"], []).append(keys[row["key"]])
    a, b, c = sorted(next(rows for rows in members.values() if len(rows) > 2)[:3])
    ids = np.array([a << 32 | b, a << 32 | c, b << 32 | c])
    known = Known(ids, np.array([True, False, True]))
    monkeypatch.setattr(find, "labelled_pairs", lambda campaign, split: known)
    assert called("cluster", folder, "--out", out)["contradicted"] == 1
    result = CliRunner().invoke(all_commands(), ["cluster", str(folder), "--out", str(out)])
    assert "1 pair answered as no match is inside a group" in result.stdout


def test_a_killed_run_finds_its_bands_again(trained, tmp_path, monkeypatch):
    """The list in four bands; the third is not finished. Running again collects it and the fourth only."""
    campaign = Campaign(trained["one"])
    number, part = campaign.latest(), campaign.split
    ranking = rank(campaign.score(part, number), part, "exact", np.random.default_rng(0))
    key = {"test": "bands"}
    monkeypatch.setattr(listing, "BAND", 400)
    monkeypatch.setattr(listing, "band_cuts", lambda ranking, threshold: band_cuts(ranking, threshold, 400))
    threshold = ranking.threshold_for_count(1500)
    whole = [
        band.ids.tolist()
        for band in list_bands(campaign.store, {"test": "whole"}, ranking, threshold, Known.nothing())
    ]
    assert len(whole) >= 4 and sum(map(len, whole)) == 1500
    collected = []

    def stumbling(self, low, high, take):
        collected.append(low)
        if len(collected) == 3:
            raise KeyboardInterrupt
        assert self.listed is None
        self.scored.scan.collect(low, high, take)

    monkeypatch.setattr(Ranking, "collect", stumbling)
    with pytest.raises(KeyboardInterrupt):
        list(list_bands(campaign.store, key, ranking, threshold, Known.nothing()))
    again = [
        band.ids.tolist() for band in list_bands(campaign.store, key, ranking, threshold, Known.nothing())
    ]
    assert again == whole
    assert len(collected) == len(whole) + 1 and collected[2] == collected[3]


def test_three_commands_from_two_files_to_a_list(tmp_path, tiny_encoder):
    """data, init --run, match: a set laid out as DeepMatcher does, never seen before."""
    source = tmp_path / "set"
    source.mkdir()
    names = [
        f"{kind} {number}"
        for kind in ("old bank card", "tall river city", "long loan email")
        for number in range(14)
    ]
    for table, end in (("tableA", ""), ("tableB", " made")):
        lines = [f"{row},{name}{end},{row}.5" for row, name in enumerate(names)]
        (source / f"{table}.csv").write_text("\n".join(["id,name,price", *lines]) + "\n")
    for part, first in (("train", 0), ("valid", 1), ("test", 2)):
        lines = [f"{row},{row},1" for row in range(first, 42, 3)]
        lines += [f"{row},{(row + 5) % 42},0" for row in range(first, 42, 3)]
        (source / f"{part}.csv").write_text("\n".join(["ltable_id,rtable_id,label", *lines]) + "\n")
    called("data", "matching", "--from", source, "--out", tmp_path / "task")
    state = called(
        "init",
        tmp_path / "run",
        "--task",
        tmp_path / "task",
        "--split",
        "all",
        "--encoder",
        tiny_encoder,
        "--strategy",
        "uncertainty",
        "--labels",
        90,
        "--rounds",
        3,
        "--run",
        "--device",
        "cpu",
    )
    assert state["state"] == "finished" and state["rounds"][-1]["labels"] == 90
    found = called("match", tmp_path / "run")
    assert found["split"] == "all" and found["threshold"]["from"] == "labels"
    assert 0 <= found["truth"]["average_precision"] <= 1 and found["truth"]["list"]["f1"] > 0
    assert (tmp_path / "run" / "matches.csv").is_file()


def test_a_threshold_from_an_audit(trained, tmp_path):
    """Labels drawn to measure draw the line; they are listed as labelled, and never trained on."""
    called("audit", trained["one"], "--budget", 80)
    found = called(
        *("match", trained["one"], "--split", "train", "--from", "audit", "--recall", 0.5),
        *("--out", tmp_path / "m.csv"),
    )
    assert found["threshold"]["from"] == "audit" and "80 labels" in found["threshold"]["basis"]
    recall = found["threshold"]["recall"]
    assert recall["low"] <= recall.get("value", recall["low"]) <= recall["high"]
    assert found["check"]["target"] == "recall" and 25 < found["check"]["labels"] <= 100


def test_refusals_say_what_to_do(trained, tmp_path, tiny_encoder):
    one, two, out = trained["one"], trained["two"], tmp_path / "m.csv"
    assert "flatter" in refused("match", one, "--from", "test", "--out", out)
    assert "Let it end in" in refused("match", one, "--out", tmp_path / "m.png")
    assert "no split 'tset'" in refused("match", one, "--split", "tset", "--out", out)
    assert "has no groups" in refused("cluster", two, "--out", out)
    assert "needs two collections" in refused("match", one, "--one-to-one", "--out", out)
    assert "Add `collection`" in refused("match", one, "--text", "title", "--out", out)
    assert "Did you mean 'hnsw'" in refused("match", one, "--search", "hnws", "--out", out)
    assert not out.exists()
    fresh = begin(tmp_path / "fresh", synthetic_task(tmp_path / "task"), tiny_encoder)
    # At once: before a model is looked for, let alone used.
    assert "needs two collections" in refused("match", fresh.folder, "--one-to-one", "--out", out)
    assert "no round is complete yet" in refused("match", fresh.folder, "--out", out)


def test_intervals_stand_where_something_was_measured(tmp_path, tiny_encoder):
    """Labels chosen by the model's own doubts measure nothing, nor does dev, where the threshold was chosen;
    drawn labels do."""
    task = synthetic_task(tmp_path / "task")
    schedule = Schedule(first_batch=120, growth=1.0, rounds=2)
    begin(tmp_path / "c", task, tiny_encoder, seed_set="stated", schedule=schedule).run()
    out = tmp_path / "m.csv"
    bare = called("match", tmp_path / "c", "--split", "train", "--out", out)
    assert not bare["threshold"]["measured"] and isinstance(bare["threshold"]["precision"], float)
    new = [row for row in read_list(out) if not row["label"]]
    scores = np.array([row["score"] for row in new])
    by_dev = calibrated_scorer(Campaign(tmp_path / "c"), 2).probabilities(scores)
    stated = np.array([row["probability"] for row in new], np.float64)  # None is nan
    assert (
        np.array_equal(stated, by_dev, equal_nan=True) and not np.isnan(stated).all()
    )  # as explain and serve
    called("audit", tmp_path / "c", "--budget", 40)
    where = ("--split", "train", "--from", "labels", "--out", out)
    told = called("match", tmp_path / "c", *where)["threshold"]
    assert told["measured"] and told["precision"]["low"] <= told["precision"]["high"] <= 1
    assert "value" not in told["precision"]  # the audit had a say in the threshold
    told = called("match", tmp_path / "c", "--split", "test", "--from", "dev", "--out", out)["threshold"]
    assert told["of"] == "dev" and not told["measured"] and isinstance(told["precision"], float)
    assert (
        "40 drawn" in called("match", tmp_path / "c", "--split", "train", "--out", out)["threshold"]["basis"]
    )
    begin(tmp_path / "d", task, tiny_encoder, split="dev", seed_set="stated", schedule=schedule).run()
    told = called("match", tmp_path / "d", "--split", "test", "--from", "dev", "--out", out)["threshold"]
    assert "not held out" in told["trust"]
    result = CliRunner().invoke(
        all_commands(), ["match", str(tmp_path / "d"), "--split", "test", "--out", str(out)]
    )
    assert "\n  Pairs of dev could be asked about" in result.stdout


def test_a_threshold_that_a_check_chose_rests_on_its_labels(trained, tmp_path):
    """Of a precision of test it was chosen by test's truth, and says so; nothing else is chosen there."""
    folder, out = trained["two"], tmp_path / "m.csv"
    for source, others in (("labels", "labels given"), ("dev", "the truth of dev")):
        where = ("--split", "test", "--from", source, "--out", out)
        found = called("match", folder, "--precision", 0.5, *where)
        check, basis = found["check"], found["threshold"]["basis"]
        assert check["threshold"] is not None and check["labels"] > 0
        chosen = (
            f"the {check['labels']:,} labels of its check, answered by the truth of test, among lists by "
        )
        assert basis.startswith(chosen) and others in basis
        again = find_matches(folder, out, precision=0.5, split="test", source=source)
        assert f"from {chosen}" in match_words(again.figures)
    called("audit", folder, "--split", "test", "--budget", 60)
    drawn = called("match", folder, "--f1", "--split", "test", "--from", "labels", "--out", out)
    assert "drawn" not in drawn["threshold"]["basis"]
    shutil.copytree(Path(folder).parent, tmp_path / "copy")
    again = tmp_path / "copy" / Path(folder).name
    (again / "audit-test.sqlite").unlink()
    bare = called("match", again, "--f1", "--split", "test", "--from", "labels", "--out", out)
    assert bare["threshold"]["threshold"] == drawn["threshold"]["threshold"]


def test_a_precision_out_of_reach_names_the_best(tmp_path, tiny_encoder):
    """Of a model that knows nothing: random pairs, a random encoder, no re-ranker."""
    how = {"strategy": "random", "reranker": "off", "rounds": 1}
    campaign = begin(tmp_path / "c", synthetic_task(tmp_path / "task", two=True), tiny_encoder, **how)
    campaign.run()
    where = ("--split", "test", "--out", tmp_path / "m.csv")
    words = refused("match", campaign.folder, "--scores-only", "--precision", 1, *where)
    assert "cannot be reached" in words and "at recall" in words


STRANGE = ("😀😀", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", "አማርኛ", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ")  # none of it is in the vocabulary; two are equal


@pytest.fixture(scope="module")
def unranked(tmp_path_factory, tiny_encoder) -> Path:
    """A finished campaign whose scores are cosines."""
    root = tmp_path_factory.mktemp("unranked")
    task = synthetic_task(root / "task")
    begin(root / "campaign", task, tiny_encoder, rounds=1, recipe="paper", measure_splits=()).run()
    return root / "campaign"


@pytest.mark.parametrize("search", ["exact", "ivf"])
def test_texts_that_the_encoder_cannot_read_do_not_match_each_other(unranked, tmp_path, search):
    new, out = tmp_path / "new.csv", tmp_path / "out.csv"
    known = ["what is a bank", "how can i find a bank"] * 20
    rows = [f"{key},{text}" for key, text in enumerate([*STRANGE, *known])]
    new.write_text("\n".join(["key,text", *rows]), encoding="utf-8")
    options = ("--collection", new, "--key", "key", "--text", "text", "--out", out, "--search", search)
    found = called("match", unranked, *options, "--threshold", 0.999)
    strange = {(row["left"], row["right"]) for row in table(out) if {row["left"], row["right"]} <= {*"0123"}}
    assert found["unreadable_texts"] == 4 and strange == {("1", "3")}, "only the equal ones"
    assert found["matches"] == len(table(out)) > 1
    wanted = called("match", unranked, *options, "--count", 100)
    assert wanted["matches"] == 100, "those left out do not count"
    called("cluster", unranked, *options, "--threshold", 0.999)
    group = {row["key"]: row["cluster"] for row in table(out)}
    assert group["1"] == group["3"] and len({group[key] for key in "012"}) == 3
    said = CliRunner().invoke(all_commands(), [*map(str, ("match", unranked, *options, "--count", 5))])
    assert "The encoder cannot read 4 of the texts" in said.output


def test_labelled_matches_of_unreadable_texts_stay(trained, tiny_encoder):
    encoder = encoder_named(str(tiny_encoder), 48, "what is ", "what is ")
    texts = Collection([*"abcd"], ["😀", "😂", "what is", "bank"])
    matcher = Mock(encoder_for=lambda side: encoder)
    split = one_collection("new", texts, *[np.empty(0, np.int64)] * 2, False)
    ids, count = unreadable_pairs(split, matcher, np.empty(0, np.int64))
    assert count == 2 and ids.tolist() == split.space.ids([0], [1]).tolist(), "a prefix is no part of a text"
    assert unreadable_pairs(split, matcher, ids)[0].tolist() == []
    both = two_collections("new", texts, texts, *[np.empty(0, np.int64)] * 2, False)
    ids, count = unreadable_pairs(both, matcher, np.empty(0, np.int64))
    assert count == 4 and ids.tolist() == both.space.ids([0, 1], [1, 0]).tolist()


def test_texts_that_differ_in_unknown_tokens_only_do_not_match_each_other(tiny_encoder):
    """Half of the pieces unknown: alike to the encoder. One unknown mark in a readable text is no reason."""
    encoder = encoder_named(str(tiny_encoder), 48)
    words = ["😀 bank", "😂 bank", "😀 bank", "🙂 what", "what is a bank 😀", "what is a bank 😂", "ᏣᎳᎩ 😀"]
    texts = Collection([*"abcdefg"], words)
    split = one_collection("new", texts, *[np.empty(0, np.int64)] * 2, False)
    ids, count = unreadable_pairs(split, Mock(encoder_for=lambda side: encoder), np.empty(0, np.int64))
    assert ids.tolist() == split.space.ids([0, 1], [1, 2]).tolist()
    assert count == 4, "three banks, and one of which nothing is known"
    both = two_collections("new", texts, texts, *[np.empty(0, np.int64)] * 2, False)
    ids, count = unreadable_pairs(both, Mock(encoder_for=lambda side: encoder), np.empty(0, np.int64))
    assert ids.tolist() == np.sort(both.space.ids([0, 1, 1, 2], [1, 0, 2, 1])).tolist() and count == 8


def test_a_collection_that_the_encoder_cannot_read_at_all_is_refused(tiny_encoder, monkeypatch):
    monkeypatch.setattr(unreadable, "MOST_PAIRS", 2)
    texts = Collection([*"abc"], ["😀", "😂", "🙂"])
    split = one_collection("new", texts, *[np.empty(0, np.int64)] * 2, False)
    encoder = encoder_named(str(tiny_encoder), 48)
    with pytest.raises(InputError, match=r"the encoder cannot read 3 texts\. .* look alike"):
        unreadable_pairs(split, Mock(encoder_for=lambda side: encoder), np.empty(0, np.int64))
