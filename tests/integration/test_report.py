"""`pairsieve report`: any state of a campaign becomes a page; nothing unasked of test, nothing unescaped."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import struct
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evaluating import Pairsieve, runner
from pairsieve.campaign import Campaign
from pairsieve.campaign.probability import calibrated_scorer
from pairsieve.contracts import Answer, Estimate
from pairsieve.pairs import AllPairs, pair_rows
from pairsieve.report.facts import Facts, gather
from pairsieve.report.page import write_report
from pairsieve.scorer.scorer import below_candidates, softsign
from pairsieve.settings import without_password
from pairsieve.tasks import Collection, Task, save_task
from pairsieve.tasks.task import one_collection
from synthetic_task import begin, synthetic_task
from web_campaign import asked_campaign

pytestmark = pytest.mark.xdist_group("report")  # one campaign serves the module: made once

PICTURES = {"learning-curve", "matches-per-round", "precision-recall", "scores", "seconds"}
NASTY = '<img src=x onerror="alert(1)"> & "quotes" \x00\x1b[31m \u202eevil 日本 שלום 🙂'


class Reader(HTMLParser):
    """What a page consists of; complains about anything fetched and about tags that do not close."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == [], "tags that never close"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "path", "use", "rect", "link", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("meta", "path", "use", "rect"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def pairsieve(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pairsieve:
    return runner(monkeypatch, capsys)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """A campaign of three rounds (20, 30, 45 labels), measured on dev after each."""
    folder = tmp_path_factory.mktemp("finished")
    campaign = begin(folder / "mine", synthetic_task(folder / "task"), tiny_encoder)
    campaign.run()
    return folder / "mine"


@pytest.fixture(scope="module")
def written(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Facts, Path]:
    """Its facts, and the folder of its report."""
    facts, out = gather(Campaign(finished)), tmp_path_factory.mktemp("written")
    write_report(facts, out)
    return facts, out


def test_a_finished_campaign(finished: Path, tmp_path: Path, pairsieve: Pairsieve) -> None:
    said = pairsieve("report", finished, "--out", tmp_path / "out", "--json").json
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    read = Reader(page)
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "index.html",
        *(f"{name}.png" for name in PICTURES),
    }
    for name in PICTURES:
        width, height = struct.unpack(">II", (tmp_path / "out" / f"{name}.png").read_bytes()[16:24])
        assert width == 920 and height == 620, name  # 4.6 × 3.1 inches at 200 dots an inch
    assert said["split"] == "dev" and said["round"] == 3 and said["labels"] == 95
    assert said["missing"] == []
    recorded = Campaign(finished).figures()[3]
    ap = said["average_precision"]
    assert ap["value"] == pytest.approx(recorded.first.average_precision.value)
    assert ap["low"] == ap["value"] == ap["high"] and "no interval" in ap["method"]  # few groups
    assert f"{ap['value']:.4f}" in read.text
    assert f"{recorded.positives:,} of 95 labels are matches" in read.text
    assert "1,770 pairs of dev" in read.text  # 60 · 59 / 2
    assert "The test split was not looked at." in read.text
    assert "pairsieve init mine --task ../task" in read.text
    assert "--first-batch 20 --growth 1.5 --rounds 3" in read.text
    assert Campaign(finished).task.fingerprint in read.text
    assert recorded.scorer in read.text


def test_the_page_needs_nothing_beside_it(written: tuple[Facts, Path]) -> None:
    page = (written[1] / "index.html").read_text(encoding="utf-8")
    read = Reader(page)
    names = {tag for tag, _ in read.tags}
    assert not names & {"script", "link", "iframe", "object", "embed"}
    for tag, held in read.tags:
        for key in ("src", "href", "xlink:href"):
            assert (held.get(key) or "#").startswith("#"), f"{tag} fetches {held[key]}"
        assert not any(key.startswith("on") for key in held)
    assert not re.search(r"url\((?!#)", page) and "@import" not in page
    pictures = [held for tag, held in read.tags if tag in ("svg", "img")]
    assert len(pictures) == 5
    assert all(len(held.get("aria-label") or held.get("alt") or "") > 30 for held in pictures)
    ids = [held["id"] for _, held in read.tags if "id" in held]
    assert len(ids) == len(set(ids)), "pictures must not share ids"
    assert not re.search(r"#[0-9a-f]{6}", page[page.index("<main>") :]), "a colour that does not turn dark"


@pytest.mark.slow
def test_the_same_campaign_gives_the_same_page(
    finished: Path, written: tuple[Facts, Path], tmp_path: Path, pairsieve: Pairsieve
) -> None:
    assert pairsieve("report", finished, "--out", tmp_path).code == 0
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in written[1].iterdir()}
    for file in written[1].iterdir():
        assert file.read_bytes() == (tmp_path / file.name).read_bytes(), file.name


def test_every_round_is_measured_and_the_encoder_has_a_start(
    finished: Path, written: tuple[Facts, Path]
) -> None:
    facts, _ = written
    recorded = Campaign(finished).figures()
    assert [(p.round, p.labels) for p in facts.points] == [(1, 20), (2, 50), (3, 95)]
    for point in facts.points:
        assert point.ap.value == pytest.approx(recorded[point.round].first.average_precision.value)
        assert point.ap.low == point.ap.value == point.ap.high  # of few groups no interval holds
        assert "and 100 are needed" in point.ap.method
    assert facts.start is not None and 0 < facts.start < 1


def test_mistakes_are_the_worst_of_all_pairs(finished: Path, written: tuple[Facts, Path]) -> None:
    """Set beside every pair of dev, scored one by one."""
    campaign = Campaign(finished)
    facts, part = written[0], campaign.task.splits["dev"]
    assert facts.measured is not None
    ids = part.space.unrank(np.arange(part.space.size))
    left, right = pair_rows(ids)
    scored = campaign.score(part, 3)
    rows = scored.corrected.rows[0].astype(float)
    log_odds = scored.scorer.weight * np.einsum("ij,ij->i", rows[left], rows[right]) + scored.scorer.bias
    scores = scored.scan.scores(ids).astype(float)
    alone = ~np.isin(ids, scored.candidates)
    if scored.scorer.reranker is None:
        log_odds, alone = (log_odds - scored.scorer.bias) / scored.scorer.weight, alone
    else:
        log_odds = softsign(below_candidates(log_odds))
    assert scores[alone] == pytest.approx(log_odds[alone], abs=1e-4)
    positive = np.isin(ids, part.positives)
    worst = np.sort(scores[~positive])[::-1][:8]
    assert [p.score for p in facts.measured.false_positives] == pytest.approx(worst, abs=1e-5)
    assert [p.score for p in facts.measured.false_negatives] == pytest.approx(
        np.sort(scores[positive])[:8], abs=1e-5
    )
    for shown in facts.measured.false_negatives:
        assert shown.rank is not None
        assert abs(shown.rank - int((scores >= shown.score - 1e-6).sum())) <= 1
    first = facts.measured.false_positives[0]
    texts = dict(zip(part.left.keys, part.left.texts))
    assert (texts[first.left_key], texts[first.right_key]) == (first.left_text, first.right_text)
    scorer = calibrated_scorer(campaign, facts.model)
    chance = scorer.probabilities(np.array([first.score]))[0]
    assert first.probability == (None if np.isnan(chance) else pytest.approx(float(chance)))
    rows = facts.measured.reliability
    of_matches = scorer.probabilities(scores[positive])
    assert sum(row.pairs for row in rows) == int((~np.isnan(scorer.probabilities(scores))).sum())
    assert sum(row.pairs * row.true for row in rows) == pytest.approx(int((~np.isnan(of_matches)).sum()))


@pytest.mark.slow
def test_the_test_split_is_left_alone_unless_named(
    tmp_path: Path, tiny_encoder: Path, pairsieve: Pairsieve
) -> None:
    """Measured each round on test, as the campaign was told; the report still shows none of it unasked."""
    task = synthetic_task(tmp_path / "task", sizes={"train": 120, "test": 60})
    campaign = begin(tmp_path / "c", task, tiny_encoder, measure_splits=("test",), rounds=3, reranker="off")
    campaign.run()
    ap = campaign.figures()[3].first.average_precision.value
    said = pairsieve("report", tmp_path / "c")
    assert said.code == 0 and "--split train or --split test" in said.err
    page = (tmp_path / "c" / "report" / "index.html").read_text(encoding="utf-8")
    assert "<bdi>test-" not in page  # how the keys of the test split begin
    assert f"{ap:.4f}" not in page and "AP should" not in page
    assert "The test split was not looked at." in page
    assert not (tmp_path / "c" / "report" / "precision-recall.png").exists()
    said = pairsieve("report", tmp_path / "c", "--split", "test")
    page = (tmp_path / "c" / "report" / "index.html").read_text(encoding="utf-8")
    assert "<bdi>test-" in page and f"{ap:.4f}" in page and "not looked at" not in page
    assert (tmp_path / "c" / "report" / "precision-recall.png").exists()
    assert pairsieve("report", tmp_path / "c").code == 0
    assert not (tmp_path / "c" / "report" / "precision-recall.png").exists(), "an old picture must go"


def test_before_and_during_the_first_round(tmp_path: Path, tiny_encoder: Path, pairsieve: Pairsieve) -> None:
    task = synthetic_task(tmp_path / "task", truth=False, stated=False, sizes={"train": 40})
    begin(tmp_path / "c", task, tiny_encoder, measure_splits=(), rounds=1)
    said = pairsieve("report", tmp_path / "c", "--json").json
    assert said["pictures"] == [] and said["round"] == 0
    assert "no pair has been asked yet" in str(said["missing"])
    Campaign(tmp_path / "c").run()
    said = pairsieve("report", tmp_path / "c", "--json").json
    page = Reader((tmp_path / "c" / "report" / "index.html").read_text(encoding="utf-8"))
    assert "Waiting for 20 labels of round 1." in page.text
    assert "no round is trained yet" in page.text


@pytest.mark.slow
def test_people_without_truth(tmp_path: Path, tiny_encoder: Path, pairsieve: Pairsieve) -> None:
    """Two people label round 1; an audit measures. α by hand: they differ on 1 of 10 pairs."""
    campaign = asked_campaign(tmp_path, tiny_encoder)
    ids = campaign.ledger.open_questions()
    ann = [Answer(int(pair), int(at < 4)) for at, pair in enumerate(ids)]
    bob = [Answer(int(pair), int(at < 5)) for at, pair in enumerate(ids)]
    campaign.ledger.answer(ann, who="ann <b>", source="page")
    campaign.ledger.answer(bob, who="bob", source="page")
    campaign.ledger.adjudicate([Answer(int(ids[4]), 1)], who="eve", source="page")
    assert campaign.run().waiting == 30
    said = pairsieve("report", campaign.folder, "--json").json
    read = Reader((campaign.folder / "report" / "index.html").read_text(encoding="utf-8"))
    assert said["average_precision"] is None
    assert "pairsieve audit" in read.text and "--matches" in read.text
    assert {Path(path).stem for path in said["pictures"]} == {"matches-per-round", "scores", "seconds"}
    # 20 answers, 9 match and 11 no match; 2 unequal couples of 20: 1 - (2/20) / (2·9·11/(20·19)) = 0.8081
    assert "Krippendorff’s α is 0.81" in read.text
    assert "ann <b>" in read.text and "On the 10 pairs that two or more decided" in read.text
    assert "The model learned from these labels and still disagrees" in read.text
    assert "435 pairs" in read.text  # 30 · 29 / 2
    assert f"pairsieve ledger export {campaign.folder.name} --out answers.csv has them" in read.text

    waiting = pairsieve("audit", campaign.folder, "--budget", 240, "--json").json["waiting"]
    audit = campaign.ledger.open_questions(purpose="audit")
    assert len(audit) == waiting == 240
    answers = [Answer(int(pair), int(at % 5 == 0)) for at, pair in enumerate(audit)]
    campaign.ledger.answer(answers, who="ann <b>", source="page")
    measured = pairsieve("audit", campaign.folder, "--budget", 0, "--json").json
    said = pairsieve("report", campaign.folder, "--json").json
    read = Reader((campaign.folder / "report" / "index.html").read_text(encoding="utf-8"))
    assert "learning-curve" in {Path(path).stem for path in said["pictures"]}
    assert f"{measured['average_precision']['value']:.4f}" in read.text
    assert "by 240 audit labels" in read.text
    assert not any("Precision, recall" in each["what"] for each in said["missing"])


def test_what_people_write_is_shown_and_not_obeyed(
    tmp_path: Path, tiny_encoder: Path, pairsieve: Pairsieve
) -> None:
    texts = [f"{NASTY} {i % 4}" for i in range(12)] + ["x" * 200_000, ""]
    keys = [f"<k&{i}>" for i in range(14)]
    space = AllPairs(14)
    left, right = np.triu_indices(14, 1)
    positives = space.ids(left, right)[left % 4 == right % 4]
    parts = {
        name: one_collection(name, Collection(keys, texts), positives, np.empty(0, np.int64), True)
        for name in ("train", "dev")
    }
    save_task(Task("<script>alert(3)</script>", "equivalence", parts, {"from": "<&>"}, {}), tmp_path / "task")
    begin(tmp_path / "a & b", tmp_path / "task", tiny_encoder, rounds=1).run()
    assert pairsieve("report", tmp_path / "a & b", "--split", "dev").code == 0
    page = (tmp_path / "a & b" / "report" / "index.html").read_text(encoding="utf-8")
    read = Reader(page)
    assert {"script", "img"}.isdisjoint(tag for tag, _ in read.tags)
    assert '<img src=x onerror="alert(1)"> & "quotes" ␀␛[31m evil 日本 שלום 🙂' in read.text
    assert "<script>alert(3)</script>" in read.text and "<k&" in read.text
    assert "\x1b" not in page and "\x00" not in page and "\u202e" not in page
    assert "pairsieve label 'a & b'" in read.text, "who copies a command runs that command alone"
    assert len(page) < 400_000


@pytest.mark.parametrize("stated", [True, False])
def test_what_fewer_pairs_would_claim(tmp_path: Path, tiny_encoder: Path, stated: bool) -> None:
    """All matches in each sample; beside them the stated non-matches, or as many drawn ones."""
    task = synthetic_task(tmp_path / "task", two=True, stated=stated)
    begin(tmp_path / "c", task, tiny_encoder, rounds=1, reranker="off").run()
    facts = gather(Campaign(tmp_path / "c"))
    part = Campaign(tmp_path / "c").task.splits["dev"]
    assert facts.measured is not None
    samples = {sample.name: sample for sample in facts.measured.samples}
    assert list(samples) == (["stated pairs"] if stated else []) + ["balanced sample"]
    others = {"stated pairs": len(part.stated_negatives), "balanced sample": len(part.positives)}
    for name, sample in samples.items():
        assert sample.claims.positives == len(part.positives)
        assert sample.claims.pairs == len(part.positives) + others[name]
        assert sample.claims.average_precision == pytest.approx(sample.curve.average_precision())
        assert sample.claims.average_precision > facts.measured.interval.value
    assert len(facts.points) == 1


def test_an_encoder_that_went_away_leaves_the_rest(
    tmp_path: Path, tiny_encoder: Path, pairsieve: Pairsieve
) -> None:
    shutil.copytree(tiny_encoder, tmp_path / "encoder")
    campaign = begin(
        tmp_path / "c", synthetic_task(tmp_path / "task"), tmp_path / "encoder", rounds=1, reranker="off"
    )
    campaign.run()
    shutil.rmtree(tmp_path / "encoder")
    said = pairsieve("report", tmp_path / "c", "--json").json
    assert said["missing"][0]["what"] == "What the model says of pairs"
    page = Reader((tmp_path / "c" / "report" / "index.html").read_text(encoding="utf-8")).text
    assert f"{campaign.figures()[1].first.average_precision.value:.4f}" in page


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--split", "dve"), "Did you mean 'dev'?"),
        (("--out", "FILE"), "FILE: this is a file. Give --out a folder to write to."),
    ],
)
def test_bad_options(
    finished: Path,
    tmp_path: Path,
    pairsieve: Pairsieve,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("mine")
    said = pairsieve("report", finished, *words)
    assert said.code == 2 and expected in said.err
    assert Path("FILE").read_text() == "mine"


@pytest.mark.slow
def test_a_report_is_there_whole_or_not_at_all(
    finished: Path, tmp_path: Path, pairsieve: Pairsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").write_text("old")

    def full(self: Path, contents: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    said = pairsieve("report", finished, "--out", tmp_path)
    assert said.code == 2 and "the report cannot be written" in said.err
    assert [file.name for file in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text() == "old"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:secret@db/labels", "postgresql://ann:***@db/labels"),
        ("postgresql://db/labels?user=a&password=secret", "postgresql://db/labels?user=a&password=***"),
        ("ledger.sqlite", "ledger.sqlite"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_the_commands_make_the_same_settings(
    finished: Path, written: tuple[Facts, Path], tmp_path: Path, pairsieve: Pairsieve
) -> None:
    """The printed `init`, typed beside the task, gives the same campaign file."""
    line = written[0].origin.commands[0]
    words = shlex.split(line)[1:]
    words[1], words[3] = str(tmp_path / "again"), str(finished.parent / "task")
    assert pairsieve(*words).code == 0
    one, two = Campaign(finished).settings, Campaign(tmp_path / "again").settings
    assert json.dumps(_without_task(one)) == json.dumps(_without_task(two))


def _without_task(settings: Any) -> dict[str, Any]:
    return {key: value for key, value in asdict(settings).items() if key not in ("task", "campaign_id")}


def test_a_round_that_is_not_measured_yet_keeps_the_last_model(finished: Path, tmp_path: Path) -> None:
    """Between rounds the model of the last trained round is shown, and what comes next is said."""
    shutil.copytree(finished.parent, tmp_path / "copy")
    campaign = Campaign(tmp_path / "copy" / "mine")
    (campaign.folder / "rounds" / "round-003.json").unlink()
    facts = gather(Campaign(campaign.folder))
    assert facts.model == 2 and facts.labels == 95
    assert facts.state.startswith("Not finished. Next: train round 3")


def test_an_audited_figure_without_doubt_is_called_exact(written: tuple[Facts, Path]) -> None:
    """Precision is known where every pair above the line is labelled: an interval of no width is none."""
    from pairsieve.report.page import _tiles

    sure, unsure = Estimate(0.9173, 0.9173, 0.9173, 300, ""), Estimate(0.5, 0.25, 0.75, 300, "")
    audit = SimpleNamespace(labels=300, precision=sure, recall=unsure, average_precision=unsure)
    shown = _tiles(replace(written[0], measured=None, audits={1: audit}))
    assert "0.9173<small>exact: every such pair is labelled</small>" in shown
    assert shown.count("0.2500 to 0.7500, by 300 audit labels") == 2
