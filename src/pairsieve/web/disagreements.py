"""The queue of disagreements between people, and of answers that contradict each other.

A disagreement is about one pair: some say match, some say no match. A contradiction is about several: each
pair may be agreed upon, but a chain of matches joins two texts that somebody called no match. Whoever decides
may answer any pair of the chain; the decision counts before the votes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pairsieve.transitivity import Contradiction
from pairsieve.web.answer_cache import WORDS, AnswerCache

MOST_SHOWN = 200  # of each kind; more are counted, not sent
Shown = Callable[[int], dict[str, Any]]  # a pair as the page draws it


def disagreements(cache: AnswerCache, shown: Shown, most: int = MOST_SHOWN) -> list[dict[str, Any]]:
    """Pairs about which people disagree, ties first, with who said what."""
    order = sorted(cache.disputes, key=lambda pair: cache.state(pair) != "open")
    return [
        {**shown(pair), "tie": cache.state(pair) == "open", "votes": votes_on(cache, pair)}
        for pair in order[:most]
    ]


def contradictions(
    cache: AnswerCache, found: Sequence[Contradiction], shown: Shown, most: int = MOST_SHOWN
) -> list[dict[str, Any]]:
    """Chains of matches and the "no match" between their ends, those that nobody has decided on first.

    The pairs come in the order of the walk, so that each shares a text with the one before; the "no match"
    that closes it comes last. `decided`: somebody has settled every pair and stands by the answers.
    """

    def about(pair: int) -> dict[str, Any]:
        votes, adjudicator = votes_on(cache, pair), cache.adjudicators.get(pair)
        return {"label": cache.state(pair), "votes": votes, "settled_by": adjudicator}

    rows: list[dict[str, Any]] = []
    for each in sorted(found, key=lambda one: is_decided(cache, one)):
        pairs = (*each.chain, each.negative)
        if len(rows) == most or not all(pair in cache.questions for pair in pairs):
            continue  # asked by another process a moment ago: the next look shows it
        walk = [{**shown(pair), **about(pair)} for pair in pairs]
        rows.append({"pairs": walk, "also": each.also, "decided": is_decided(cache, each)})
    return rows


def is_decided(cache: AnswerCache, contradiction: Contradiction) -> bool:
    """Whether somebody has settled every pair of it; then it waits for nobody, though nothing follows."""
    return all(pair in cache.settled for pair in (*contradiction.chain, contradiction.negative))


def waiting(cache: AnswerCache, found: Sequence[Contradiction]) -> tuple[int, str]:
    """(how many decisions wait, a text that changes whenever the queue does)."""
    undecided = [each for each in found if not is_decided(cache, each)]
    settled = [pair for each in found for pair in (*each.chain, each.negative) if pair in cache.settled]
    mark = hash((tuple(cache.disputes), tuple((e.negative, e.chain) for e in found), tuple(settled)))
    return len(cache.disputes) + len(undecided), f"{mark & 0xFFFF_FFFF_FFFF:x}"


def votes_on(cache: AnswerCache, pair: int) -> list[dict[str, str]]:
    return [{"who": name, "label": WORDS[label]} for name, label in cache.votes.get(pair, {}).items()]
