"""`pairsieve ask-model` on a small campaign, over real HTTP: answers land in the ledger as they come."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import pairsieve.cli.labels  # noqa: F401  (adds its command)
from openai_server import Asked, OpenAIServer, Sent, completion
from pairsieve.campaign import Campaign, create_campaign
from pairsieve.cli import all_commands
from pairsieve.contracts import Answer
from pairsieve.errors import PairsieveError
from pairsieve.pairs import is_member
from pairsieve.settings import Schedule
from pairsieve.sources.overlap import known_answers, majority, read_overlap
from pairsieve.tasks import load_task
from synthetic_task import synthetic_task

app = all_commands()

QUESTIONS = 40
FREE = ["--request-cap", "1000", "--concurrency", "3", "--retries", "1"]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """A campaign without truth whose first round asks 40 pairs, half of them matches; nobody has answered."""
    task = synthetic_task(tmp_path / "task", truth=False)
    made = create_campaign(tmp_path / "campaign", task, schedule=Schedule(first_batch=QUESTIONS, rounds=1))
    truth = load_task(synthetic_task(tmp_path / "known")).splits["train"]
    rng = np.random.default_rng(0)
    other = truth.space.sample(QUESTIONS // 2, rng, outside=truth.positives)
    ids = rng.permutation(np.concatenate([rng.choice(truth.positives, QUESTIONS // 2, replace=False), other]))
    left, right = ids >> 32, ids & 0xFFFF_FFFF
    keys = truth.left.keys
    made.ledger.ask(1, ids, [keys[r] for r in left], [keys[r] for r in right], "test", "random")
    return made


@pytest.fixture
def labeller(tmp_path: Path, campaign: Campaign) -> Callable[[Asked], Sent]:
    """A model that knows the truth of the campaign's task."""
    truth = load_task(tmp_path / "known").splits["train"]
    row = {text: at for at, text in enumerate(truth.left.texts)}

    def behave(asked: Asked) -> Sent:
        labels = []
        for pair in asked.pairs:
            ids = truth.space.ids([row[pair["left"]]], [row[pair["right"]]])
            word = "match" if is_member(ids, truth.positives)[0] else "no_match"
            labels.append({"pair": pair["pair"], "label": word})
        return completion(asked, {"answers": labels})

    return behave


def true_label(tmp_path: Path, ids: Sequence[int]) -> list[int]:
    truth = load_task(tmp_path / "known").splits["train"]
    return is_member(np.array(ids), truth.positives).astype(int).tolist()


def ask(campaign: Campaign, server: OpenAIServer, *more: str) -> dict[str, Any]:
    arguments = ["ask-model", str(campaign.folder), "--endpoint", server.url, "--model", "tiny", "--json"]
    result = CliRunner().invoke(app, [*arguments, *FREE, *more], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_open_questions_are_answered_into_the_ledger(
    campaign: Campaign, labeller: Callable[[Asked], Sent], tmp_path: Path
) -> None:
    with OpenAIServer(labeller) as server:
        told = ask(campaign, server, "--count", "15")
        assert (told["answered"], told["still_open"], told["asked"]["open"]) == (15, QUESTIONS - 15, 15)
        assert told["agreement"]["pairs"] == 0 and told["examples"] == 0
        told = ask(campaign, server)
        assert (told["answered"], told["still_open"]) == (QUESTIONS - 15, 0)
        assert told["spent_in_all_runs"]["requests"] == len(server.asked) == QUESTIONS
        assert "mean the same thing" in server.asked[0].body["messages"][0]["content"]
    events = campaign.ledger.answers()
    assert set(events.who) == {"tiny"} and set(events.source) == {"language model"}
    ids, labels = campaign.ledger.labels()
    assert labels.astype(int).tolist() == true_label(tmp_path, ids.tolist()) and len(ids) == QUESTIONS


def test_agreement_is_measured_on_what_people_answered_and_never_counts_as_a_label(
    campaign: Campaign, labeller: Callable[[Asked], Sent], tmp_path: Path
) -> None:
    pairs = campaign.ledger.open_questions()[:30].tolist()
    right = true_label(tmp_path, pairs)
    people = [Answer(pair, label) for pair, label in zip(pairs, right)]
    people[0] = Answer(pairs[0], 1 - right[0])  # a person's slip, so that model and person disagree
    campaign.ledger.answer(people, who="Ada", source="page")
    before = campaign.ledger.labels()
    (campaign.folder / "guideline.md").write_text("Same question, other words.\n")
    with OpenAIServer(labeller) as server:
        told = ask(campaign, server, "--overlap", "1", "--count", "0")
        assert told["asked"] == {"open": 0, "overlap": 30} and told["examples"] == 0
        assert told["agreement"]["agreement"]["value"] == pytest.approx(29 / 30)
        word = {1: "match", 0: "no_match"}
        assert told["agreement"]["confusion"][word[1 - right[0]]][word[right[0]]] == 1  # Ada's slip
        assert told["definition"].endswith("guideline.md")
        assert "Same question, other words." in server.asked[0].body["messages"][0]["content"]
        assert ask(campaign, server, "--overlap", "1", "--count", "0")["requests"] == 0  # known by now
        (campaign.folder / "guideline.md").write_text("Other words.\n")
        assert ask(campaign, server, "--overlap", "1", "--count", "0")["requests"] == 30  # another labeller
    for now, then in zip(campaign.ledger.labels(), before):
        assert np.array_equal(now, then)
    assert set(campaign.ledger.answers().who) == {"Ada"}


def test_examples_come_from_people_and_not_from_the_overlap(
    campaign: Campaign, labeller: Callable[[Asked], Sent], tmp_path: Path
) -> None:
    pairs = campaign.ledger.open_questions()[:30].tolist()
    labels = true_label(tmp_path, pairs)
    campaign.ledger.answer([Answer(*each) for each in zip(pairs, labels)], who="Ada", source="page")
    with OpenAIServer(labeller) as server:
        told = ask(campaign, server, "--overlap", "0.4", "--examples", "5")
    assert told["examples"] == 5 and 3 <= told["asked"]["overlap"] <= 22
    messages = server.asked[0].body["messages"]
    shown = [(pair["left"], pair["right"]) for pair in json.loads(messages[1]["content"])]
    said = [entry["label"] for entry in json.loads(messages[2]["content"])["answers"]]
    assert sorted(said) == ["match"] * 3 + ["no_match"] * 2
    asked = {(pair["left"], pair["right"]) for each in server.asked for pair in each.pairs}
    assert not asked & set(shown)


def test_what_people_disagree_on_stays_theirs(campaign: Campaign, labeller: Callable[[Asked], Sent]) -> None:
    disputed = int(campaign.ledger.open_questions()[3])
    campaign.ledger.answer([Answer(disputed, 1)], who="Ada", source="page")
    campaign.ledger.answer([Answer(disputed, 0)], who="Ben", source="page")
    with OpenAIServer(labeller) as server:
        told = ask(campaign, server)
    assert (told["answered"], told["still_open"]) == (QUESTIONS - 1, 1)
    assert campaign.ledger.open_questions().tolist() == [disputed]


def test_an_interruption_loses_nothing_and_going_on_pays_for_nothing_twice(
    campaign: Campaign, labeller: Callable[[Asked], Sent], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Halt(PairsieveError):
        pass

    write, written = campaign.ledger.__class__.answer, [0]

    def interrupted(self: Any, *arguments: Any, **more: Any) -> int:
        written[0] += 1
        count = write(self, *arguments, **more)
        if written[0] == 9:
            raise Halt("Ctrl-C, just after the ninth answer was written")
        return count

    monkeypatch.setattr(campaign.ledger.__class__, "answer", interrupted)
    with OpenAIServer(lambda asked: replace(labeller(asked), delay_seconds=0.01)) as server:
        with pytest.raises(Halt):
            ask(campaign, server)
        kept = len(campaign.ledger.answers())
        assert 9 <= kept == len(server.asked) < QUESTIONS
        assert ask(campaign, server)["still_open"] == 0
        assert len(server.asked) == QUESTIONS == len(campaign.ledger.answers())


def test_the_spend_cap_holds_over_runs(campaign: Campaign, labeller: Callable[[Asked], Sent]) -> None:
    money = ["--spend-cap", "0.01", "--price-in", "1", "--price-out", "4", "--concurrency", "8"]
    with OpenAIServer(labeller) as server:
        told = [ask(campaign, server, *money) for _ in range(3)]
        charged = (server.billed[0] + 4 * server.billed[1]) / 1_000_000
    assert charged <= 0.01 and told[-1]["spent_in_all_runs"]["spent"] == pytest.approx(charged)
    assert 0 < told[0]["answered"] < QUESTIONS and told[2]["answered"] == 0
    assert "spend cap" in told[0]["stopped"] and told[0]["still_open"] > 0


def test_what_stays_open_stays_open(campaign: Campaign) -> None:
    def lies(asked: Asked) -> Sent:
        return completion(asked, {"answers": [{"pair": 1, "label": "certainly"}]})

    def honest_once(asked: Asked) -> Sent:
        return (
            completion(asked, {"answers": [{"pair": 1, "label": "unsure"}]})
            if asked.number == 1
            else lies(asked)
        )

    with OpenAIServer(honest_once) as server:
        told = ask(campaign, server, "--concurrency", "1")
    assert told["answered"] == 1 and told["still_open"] == QUESTIONS - 1
    assert "in a row" in told["stopped"] and told["left_open"]["unparsable"] == 10


def test_words_for_a_person(campaign: Campaign, labeller: Callable[[Asked], Sent]) -> None:
    with OpenAIServer(labeller) as server:
        arguments = ["ask-model", str(campaign.folder), "--endpoint", server.url, "--model", "tiny", *FREE]
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert f"{QUESTIONS} pairs answered" in result.stdout and "agreement is not known" in result.stdout
    assert "their texts leave this machine" in result.stderr


def test_slips_are_refused_before_anything_is_sent(campaign: Campaign, tmp_path: Path) -> None:
    campaign.ledger.answer([Answer(int(campaign.ledger.open_questions()[0]), 1)], who="tiny", source="page")
    empty = tmp_path / "empty.txt"
    empty.write_text(" \n")
    slips = {
        "no spend cap": [],
        "without prices": ["--spend-cap", "1"],
        "`price_in`: 'cheap'": ["--spend-cap", "1", "--price-in", "cheap"],
        "holds no usable key": [*FREE, "--key-variable", "PAIRSIEVE_NO_SUCH_KEY"],
        "answer under the name 'tiny'": FREE,
        "the definition is empty": [*FREE, "--definition", str(empty)],
        "the definition cannot be read": [*FREE, "--definition", str(tmp_path / "none.txt")],
        "'train' or to 'audit'": [*FREE, "--model", "other", "--purpose", "fun"],
    }
    with OpenAIServer() as server:
        base = ["ask-model", str(campaign.folder), "--endpoint", server.url, "--model", "tiny"]
        for words, more in slips.items():
            with pytest.raises(PairsieveError, match=words):
                CliRunner().invoke(app, [*base, *more], catch_exceptions=False)
        assert server.asked == []


def test_majorities_and_torn_files(campaign: Campaign, tmp_path: Path) -> None:
    from collections import Counter

    votes = {
        1: Counter({1: 2, 0: 1}),
        2: Counter({1: 1, 0: 1}),
        3: Counter({None: 2}),
        4: Counter({0: 1, None: 5}),
    }
    assert majority(votes) == {1: 1, 3: None, 4: 0}
    torn = tmp_path / "overlap.jsonl"
    torn.write_bytes(b'{"model": "tiny"}\n[1]\n\xff\xfe\n{"model": "tiny", "pai')
    assert read_overlap(torn, "tiny", "d") == {}
    said = known_answers(campaign.ledger, torn, "tiny", "d")
    assert (said.people, said.model) == ({}, {})
