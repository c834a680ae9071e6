"""What follows from answers, and what happens to it when answers contradict each other: a ledger by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from pairsieve.campaign import questions
from pairsieve.campaign.questions import Inference, errors_of_checks, infer_labels, inferred_errors, not_spent
from pairsieve.contracts import Answer
from pairsieve.errors import LedgerError
from pairsieve.ledger import Ledger, open_ledger
from pairsieve.pairs import AllPairs, Ids
from pairsieve.settings import CampaignSettings, Schedule
from pairsieve.transitivity import Contradiction, contradictions, implied

SPACE = AllPairs(6)


@pytest.fixture(autouse=True)
def nothing_is_asked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "CHECKED_SHARE", 0.0)


def pair(left: int, right: int) -> int:
    return int(SPACE.ids(left, right))


def ids(*pairs: tuple[int, int]) -> Ids:
    return np.array([pair(*each) for each in pairs], np.int64)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """All 15 pairs of six texts are asked; nobody has answered."""
    with open_ledger(tmp_path / "ledger.db", "made") as made:
        every = SPACE.unrank(np.arange(15))
        made.ask(1, every, ["left"] * 15, ["right"] * 15, "made", "random")
        yield made


def say(ledger: Ledger, label: int | None, *pairs: tuple[int, int], who: str = "Ann") -> None:
    ledger.answer([Answer(pair(*each), label) for each in pairs], who, "page")


def inferred(ledger: Ledger) -> dict[int, bool]:
    votes = ledger.votes()
    return {
        int(id): bool(label)
        for id, label, basis in zip(votes.ids, votes.labels, votes.basis)
        if basis == "inferred"
    }


def test_a_contradiction_takes_back_what_rested_on_its_group_until_it_is_settled(ledger: Ledger) -> None:
    say(ledger, 1, (0, 1), (1, 2))
    say(ledger, 0, (4, 5))
    assert infer_labels(ledger, SPACE) == Inference(1, 0, ())  # 0 = 1 = 2, so 0 = 2
    assert inferred(ledger) == {pair(0, 2): True}

    say(ledger, 1, (2, 3))
    say(ledger, 0, (0, 3))  # but 0 = 1 = 2 = 3: one of these four answers is wrong
    wrong = Contradiction(pair(0, 3), tuple(ids((0, 1), (1, 2), (2, 3)).tolist()))
    assert infer_labels(ledger, SPACE) == Inference(0, 1, (wrong,))
    assert inferred(ledger) == {}, "0 = 2 rests on answers that somebody must look at first"
    assert pair(0, 2) in ledger.open_questions(1)
    assert infer_labels(ledger, SPACE) == Inference(0, 0, (wrong,)), "looking again changes nothing"

    # Somebody settles that 2 and 3 are different: 0 = 2 comes back, and 0, 1, 2 are kept apart from 3.
    ledger.adjudicate([Answer(pair(2, 3), 0)], "Bob", "page")
    assert infer_labels(ledger, SPACE) == Inference(2, 0, ())
    assert inferred(ledger) == {pair(0, 2): True, pair(1, 3): False}

    # They change their mind: it was 0 and 1 that differ. 0 = 2 rested on it and does not come back.
    ledger.adjudicate([Answer(pair(2, 3), 1), Answer(pair(0, 1), 0)], "Bob", "page")
    infer_labels(ledger, SPACE)
    assert inferred(ledger) == {pair(0, 2): False, pair(1, 3): True}
    assert ledger.verify().ok


def test_unsure_about_one_link_settles_a_contradiction_too(ledger: Ledger) -> None:
    say(ledger, 1, (0, 1), (1, 2))
    say(ledger, 0, (0, 2))
    (found,) = infer_labels(ledger, SPACE).contradictions
    assert (found.negative, found.chain) == (pair(0, 2), (pair(0, 1), pair(1, 2)))
    ledger.adjudicate([Answer(pair(1, 2), None)], "Bob", "page")
    assert infer_labels(ledger, SPACE) == Inference(0, 0, ())


def test_other_groups_are_left_in_peace(ledger: Ledger) -> None:
    say(ledger, 1, (0, 1), (1, 2), (3, 4), (4, 5))
    say(ledger, 0, (0, 2))
    assert infer_labels(ledger, SPACE).inferred == 1
    assert inferred(ledger) == {pair(3, 5): True}


def test_one_wrong_match_between_two_groups_is_one_chain_and_the_shortest() -> None:
    """0 = 1 = 2 and 3 = 4, joined by a wrong 2 = 3; four "no match" labels stand inside the joined group."""
    matches = ids((0, 1), (1, 2), (3, 4), (2, 3))
    others = ids((0, 3), (0, 4), (1, 3), (1, 4))
    (found,) = contradictions(SPACE, matches, others)
    assert found == Contradiction(pair(1, 3), (pair(1, 2), pair(2, 3)), also=3)
    assert contradictions(SPACE, matches, ids((0, 5))) == []
    (walked,) = contradictions(SPACE, matches, others, most_walks=1)
    assert (walked.negative, walked.also) == (pair(0, 3), 3), "only the first was walked, all were counted"


def test_only_what_was_inferred_can_be_doubted(ledger: Ledger) -> None:
    say(ledger, 1, (0, 1))
    assert ledger.infer([], [], doubtful=[pair(0, 1), pair(0, 2)]) == 0
    assert len(ledger.answers()) == 1, "an answer that somebody gave is not taken back"


def test_a_label_changed_while_we_look_is_looked_at_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(ledger, 1, (0, 1), (1, 2))
    write, tries = ledger.infer, []

    def late(*told: object) -> int:
        if not tries:
            say(ledger, 0, (1, 2))  # between reading and writing
        tries.append(1)
        return write(*told)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger, "infer", late)
    assert infer_labels(ledger, SPACE).inferred == 0
    assert len(tries) == 2 and inferred(ledger) == {}, '0 = 1 and one "no match" with 2 is not enough'

    def never(*told: object) -> int:
        raise LedgerError("always in the way")

    monkeypatch.setattr(ledger, "infer", never)
    with pytest.raises(LedgerError, match="in the way"):
        infer_labels(ledger, SPACE)


@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.integers(0, 14), st.sampled_from([0, 1, None]), st.booleans()), min_size=1, max_size=20
    )
)
def test_whatever_people_say_the_inferred_labels_are_those_that_follow(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[int, int | None, bool]]
) -> None:
    """After any answers and decisions, exactly what follows from the labels given is inferred."""
    with open_ledger(tmp_path_factory.mktemp("ledger") / "ledger.db", "made") as ledger:
        every = SPACE.unrank(np.arange(15))
        ledger.ask(1, every, ["left"] * 15, ["right"] * 15, "made", "random")
        for place, label, settles in said:
            write = ledger.adjudicate if settles else ledger.answer
            write([Answer(int(every[place]), label)], "Ann", "page")
            infer_labels(ledger, SPACE)
        given_ids, labels = ledger.labels(inferred=False)
        known = set(given_ids.tolist())
        votes = ledger.votes()
        free = np.array([i for i, s, b in zip(votes.ids, votes.state, votes.basis) if b in ("", "inferred")])
        expected = implied(SPACE, free.astype(np.int64), given_ids[labels], given_ids[~labels])
        follows = {
            int(i): bool(v) for i, v in zip(expected.ids, expected.labels) if v != -1 and int(i) not in known
        }
        assert inferred(ledger) == follows
        assert ledger.verify().ok


def test_what_follows_no_longer_is_taken_back_though_its_chain_stands(ledger: Ledger) -> None:
    """0 = 1 = 2, and two "no match" with 3; the second, not on the chain, is taken back."""
    say(ledger, 1, (0, 1), (1, 2))
    say(ledger, 0, (0, 3), (2, 3))
    infer_labels(ledger, SPACE)
    assert inferred(ledger) == {pair(0, 2): True, pair(1, 3): False}
    ledger.withdraw(ids((2, 3)), "Ann", "page")
    assert infer_labels(ledger, SPACE).withdrawn in (0, 1)
    assert inferred(ledger) == {pair(0, 2): True}


def test_a_share_of_what_follows_is_asked_and_says_how_many_inferred_labels_are_wrong(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(ledger, 1, (0, 1), (1, 2), (2, 3), (3, 4))
    monkeypatch.setattr(questions, "asked_all_the_same", lambda pairs: np.isin(pairs, ids((0, 2), (0, 3))))
    assert infer_labels(ledger, SPACE).inferred == 4  # of six pairs that follow
    assert set(ids((0, 2), (0, 3)).tolist()) <= set(ledger.open_questions(1).tolist())
    nothing = inferred_errors(ledger, SPACE)
    assert (nothing.inferred, nothing.asked, nothing.high) == (4, 0, 1.0) and "not known" in str(nothing)
    say(ledger, 1, (0, 2))
    agreed = inferred_errors(ledger, SPACE)
    assert (agreed.asked, agreed.differ) == (1, 0) and agreed.high == pytest.approx(0.95)
    say(ledger, 0, (0, 3))
    infer_labels(ledger, SPACE)
    found = inferred_errors(ledger, SPACE)
    assert (found.inferred, found.asked, found.differ) == (0, 2, 1), "torn; the check still counts"


def test_inferred_labels_spend_no_budget(ledger: Ledger) -> None:
    """15 pairs were planned and asked, 3 of them inferred: the next round asks for 3 more than planned."""
    plan = CampaignSettings(
        task="x", transitivity=True, schedule=Schedule(first_batch=15, growth=1.0, rounds=3)
    )
    say(ledger, 1, (0, 1), (1, 2), (2, 3))
    assert infer_labels(ledger, SPACE).inferred == 3
    assert not_spent(ledger, plan, 100, 1) == 0, "a round that was asked keeps its size"
    assert not_spent(ledger, plan, 100, 2) == 3
    assert not_spent(ledger, plan, 14, 2) == 1, "there are no more pairs"
    assert not_spent(ledger, replace(plan, transitivity=False), 100, 2) == 0


def test_a_pair_counts_as_a_check_only_if_it_followed_before_it_was_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(questions, "asked_all_the_same", lambda pairs: pairs == pair(0, 2))
    labels = np.ones(3, bool)
    assert errors_of_checks(SPACE, ids((0, 1), (1, 2), (0, 2)), labels, 0).asked == 1
    assert errors_of_checks(SPACE, ids((0, 2), (0, 1), (1, 2)), labels, 0).asked == 0
