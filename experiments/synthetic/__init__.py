"""Synthetic questions with the whole truth about which of them match, for tests and benches.

A synthetic question means one (family, intent, object, attribute): two questions match exactly when they mean
the same. Paraphrases of one meaning use other sentence patterns, other names for the same thing, other
greetings, people, places and hurry, and typing errors. Near misses keep the sentence and all that
surrounds it, and change the thing asked about, or its attribute: another direction, before for after,
cause for cure. So what surrounds a question moves its embedding much and its meaning not at all, and a
matcher that learns to look past it gains on questions it has never seen.

Every choice is a number in [0, 1) drawn with `Generator.random`, so that a seed gives the same texts
under every Python and numpy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.synthetic.phrases import (
    CLOSINGS,
    FAMILIES,
    OPENINGS,
    PEOPLE,
    PLACES,
    SETTINGS,
    TIMES,
    pick,
    wording,
)
from pairsieve.errors import InputError
from pairsieve.pairs import AllPairs, Ids
from pairsieve.synthetic import same_cluster
from pairsieve.tasks import Collection, Split, Task

__all__ = [
    "FAMILIES",
    "SyntheticQuestions",
    "jaccard",
    "many_questions",
    "questions_task",
    "synthetic_questions",
]

SIZE_SHARES = (0.57, 0.28, 0.09, 0.033, 0.012, 0.007, 0.005, 0.003)  # of meanings with 1, 2, … 8 texts
ECHO_SHARE = 0.15  # of texts: those that copy a near miss's sentence and surroundings
SAME_PATTERN_SHARE = 0.4  # of texts: those that keep the first pattern of their cluster
OPENING_SHARE, SETTING_SHARE, CLOSING_SHARE = 0.4, 0.55, 0.4
TYPO_SHARE, SECOND_TYPO_SHARE = 0.2, 0.03
BLOCK = 6_000  # questions that the tables hold with room to spare
_STYLE = 16  # numbers that settle the wording of a text; their places are named in `_write`
_ROUGH = 9  # numbers that settle its typing errors, capitals and marks


@dataclass(frozen=True)
class SyntheticQuestions:
    """A synthetic collection and the whole truth about it.

    `cluster` holds one id per text ((n,) int64): texts match when their ids are equal.
    `stated_negatives` are pairs of rows, smaller first, that share at least half of their words
    but differ in meaning: what a dataset built by word overlap would have stated as its negatives.
    """

    keys: list[str]
    texts: list[str]
    cluster: NDArray[np.int64]
    stated_negatives: list[tuple[int, int]]


class _Meaning(NamedTuple):
    """What is asked, as places in the tables. Texts match when all four are equal."""

    family: int
    intent: int
    object: int
    attribute: int


def synthetic_questions(texts: int = 6400, seed: int = 0) -> SyntheticQuestions:
    """Write `texts` distinct questions: clusters of 1 to 8, and as many stated near misses as matches."""
    meanings = _all_meanings()
    sizes = _cluster_sizes(texts)
    if texts < 1 or len(sizes) > len(meanings):
        most = int(len(meanings) * sum(size * share for size, share in enumerate(SIZE_SHARES, 1)))
        raise InputError(
            f"cannot make {texts:,} questions",
            where="texts",
            why=f"the tables hold {len(meanings):,} meanings, enough for about {most:,} questions",
            remedy=f"Ask for 1 to {most:,}",
        )
    rng = np.random.default_rng(seed)
    chosen = [meanings[at] for at in _shuffled(len(meanings), rng)[: len(sizes)]]
    sizes = [sizes[at] for at in _shuffled(len(sizes), rng)]
    written = _write_clusters(chosen, sizes, rng)
    order = _shuffled(texts, rng)
    lines = [written[at][0] for at in order]
    cluster = np.array([written[at][1] for at in order], dtype=np.int64)
    family = np.array([chosen[number].family for number in cluster], dtype=np.int64)
    matches = sum(size * (size - 1) // 2 for size in sizes)
    return SyntheticQuestions(
        keys=[f"q{row:05d}" for row in range(texts)],
        texts=lines,
        cluster=cluster,
        stated_negatives=_near_misses(lines, cluster, family, matches, rng),
    )


def many_questions(texts: int, seed: int = 0) -> SyntheticQuestions:
    """As `synthetic_questions`, and beyond what the tables hold in blocks that ask about numbered tickets."""
    if texts <= BLOCK:
        return synthetic_questions(texts, seed)
    blocks = -(-texts // BLOCK)
    lines: list[str] = []
    clusters: list[NDArray[np.int64]] = []
    negatives: list[tuple[int, int]] = []
    for number in range(blocks):
        size = (texts + blocks - 1 - number) // blocks
        block = synthetic_questions(size, seed * blocks + number)
        negatives += [(one + len(lines), other + len(lines)) for one, other in block.stated_negatives]
        clusters.append(block.cluster + (int(clusters[-1].max()) + 1 if clusters else 0))
        lines += [f"{text} (ticket {number + 1})" for text in block.texts]
    keys = [f"q{row:07d}" for row in range(texts)]
    return SyntheticQuestions(keys, lines, np.concatenate(clusters), negatives)


def jaccard(one: str, other: str) -> float:
    """Words in both texts over words in either (Jaccard), capitals and marks aside."""
    words, other_words = set(_words(one)), set(_words(other))
    return len(words & other_words) / len(words | other_words)


def _all_meanings() -> list[_Meaning]:
    return [
        _Meaning(f, i, o, a)
        for f, family in enumerate(FAMILIES)
        for i, intent in enumerate(family.intents)
        for o in range(len(family.objects))
        for a in range(len(intent.attributes))
    ]


def _cluster_sizes(texts: int) -> list[int]:
    """Sizes that add up to `texts` in the shares of `SIZE_SHARES`; single questions fill the rest.

    The sizes are the same for every seed, so the share of matching pairs is too.
    """
    mean = sum(size * share for size, share in enumerate(SIZE_SHARES, 1))
    sizes: list[int] = []
    for size in range(len(SIZE_SHARES), 1, -1):
        sizes += [size] * int(texts / mean * SIZE_SHARES[size - 1])
    return sizes + [1] * (texts - sum(sizes))


def _shuffled(count: int, rng: np.random.Generator) -> list[int]:
    order: list[int] = np.argsort(rng.random(count), kind="stable").tolist()
    return order


def _write_clusters(
    meanings: Sequence[_Meaning], sizes: Sequence[int], rng: np.random.Generator
) -> list[tuple[str, int]]:
    """Each text with its cluster's number, in the order of clusters."""
    written: list[tuple[str, int]] = []
    seen: set[str] = set()
    styles: dict[tuple[int, int], list[tuple[_Meaning, list[float]]]] = {}  # by family and intent
    for number, (meaning, size) in enumerate(zip(meanings, sizes)):
        earlier = styles.setdefault((meaning.family, meaning.intent), [])
        siblings = [style for other, style in earlier if _near(meaning, other)]
        intent = FAMILIES[meaning.family].intents[meaning.intent]
        first = rng.random()
        for member in range(size):
            text = ""
            while not text or text in seen:
                style: list[float] = rng.random(_STYLE).tolist()
                same, echo, which = rng.random(3).tolist()
                if same < SAME_PATTERN_SHARE:
                    style[0] = first
                else:  # members step through the patterns, so that most are really other sentences
                    style[0] = (first + member / len(intent.patterns)) % 1.0
                if siblings and echo < ECHO_SHARE:
                    style = siblings.pop(int(which * len(siblings)))  # once: two echoes of one would be twins
                text = _roughen(_write(meaning, style), rng.random(_ROUGH).tolist())
            seen.add(text)
            written.append((text, number))
            earlier.append((meaning, style))
    return written


def _near(one: _Meaning, other: _Meaning) -> bool:
    """Whether two meanings of one intent differ in the object alone or in the attribute alone."""
    return (one.object == other.object) != (one.attribute == other.attribute)


def _write(meaning: _Meaning, style: Sequence[float]) -> str:
    """The question in clean English: opening, setting, the question itself, closing."""
    family = FAMILIES[meaning.family]
    intent = family.intents[meaning.intent]
    thing = pick(family.objects[meaning.object].split("|"), style[1])
    attribute = pick(intent.attributes[meaning.attribute].split("|"), style[2])
    question = wording(pick(intent.patterns, style[0]), [style[3], style[4]])
    question = question.replace("{o}", thing).replace("{a}", attribute)
    parts = [question if question.endswith(".") else question + "?"]
    around = {
        "place": pick(PLACES, style[5]),
        "person": pick(PEOPLE, style[6]),
        "time": pick(TIMES, style[7]),
    }
    if style[8] < SETTING_SHARE:
        parts.insert(0, wording(pick(SETTINGS, style[9]), [style[10]]).format(**around))
    if style[11] < CLOSING_SHARE:
        parts.append(wording(pick(CLOSINGS, style[12]), [style[13]]).format(**around))
    if style[14] < OPENING_SHARE and len(parts) < 3:  # short texts: at most two of the three
        parts.insert(0, pick(OPENINGS, style[15]))
    return _capitals(_articles(" ".join(parts)))


def _articles(text: str) -> str:
    """`an` before a vowel: the tables write `a` everywhere before a slot."""
    return re.sub(r"\b([Aa]) (?=[aeiou])(?!use|uni|euro|one)", r"\1n ", text)


def _capitals(text: str) -> str:
    """A capital at the start of each sentence."""
    return re.sub(r"(^|[.!?] )([a-z])", lambda found: found[1] + found[2].upper(), text)


def _roughen(text: str, rough: Sequence[float]) -> str:
    """The text as typed in a hurry: letters swapped, dropped and doubled, no capitals, odd marks."""
    if rough[0] < TYPO_SHARE:
        text = _mistype(text, rough[1], rough[2], rough[3])
    if rough[0] < SECOND_TYPO_SHARE:
        text = _mistype(text, rough[4], rough[5], rough[6])
    if rough[7] < 0.3:
        text = text.lower()
    elif rough[7] < 0.33:
        text = text.upper()
    if rough[8] < 0.25:
        text = text.rstrip("?.!")
    elif rough[8] < 0.35:
        text = text.replace("?", "??" if rough[8] < 0.3 else " ?")
    return text


def _mistype(text: str, where: float, which: float, how: float) -> str:
    """One typing error inside a word of five letters or more; a text without such a word stays as it is."""
    long_words = list(re.finditer(r"[A-Za-z]{5,}", text))
    if not long_words:
        return text
    word = long_words[int(where * len(long_words))]
    at = word.start() + 1 + int(which * (len(word[0]) - 3))  # first and last letter stay
    if how < 0.4:
        return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    if how < 0.7:
        return text[:at] + text[at + 1 :]
    return text[:at] + text[at] + text[at:]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9'+-]+", text.lower())


def _near_misses(
    texts: Sequence[str],
    cluster: NDArray[np.int64],
    family: NDArray[np.int64],
    count: int,
    rng: np.random.Generator,
) -> list[tuple[int, int]]:
    """At most `count` pairs of one family and two clusters that share half of their words, drawn at random.

    Words in both over words in either is compared in integers, `2 · both ≥ either`, so no rounding decides.
    """
    found: list[tuple[int, int]] = []
    for number in range(len(FAMILIES)):
        rows = np.flatnonzero(family == number)
        bags = [sorted(set(_words(texts[row]))) for row in rows.tolist()]
        column = {word: at for at, word in enumerate(sorted({word for bag in bags for word in bag}))}
        has = np.zeros((len(rows), len(column)), dtype=np.float32)  # counts stay far below 2**24: exact
        for at, bag in enumerate(bags):
            has[at, [column[word] for word in bag]] = 1
        both = (has @ has.T).astype(np.int64)
        own = np.diag(both)
        near = 2 * both >= own[:, None] + own[None, :] - both
        near &= cluster[rows][:, None] != cluster[rows][None, :]
        one, other = np.nonzero(np.triu(near, 1))
        found += zip(rows[one].tolist(), rows[other].tolist())
    kept = sorted(_shuffled(len(found), rng)[:count])
    return sorted(found[at] for at in kept)


def questions_task(texts: int, seed: int) -> Task:
    """The synthetic questions as a task: clusters shuffled, half of the questions each for train and test."""
    questions = many_questions(texts, seed)
    clusters = np.random.default_rng([seed, 1]).permutation(int(questions.cluster.max()) + 1)
    place = np.empty(len(clusters), np.int64)
    place[clusters] = np.arange(len(clusters))
    sizes = np.bincount(questions.cluster, minlength=len(clusters))[clusters]
    in_train = (np.cumsum(sizes) - sizes / 2 <= len(questions.texts) / 2)[place][questions.cluster]
    splits = {
        "train": _split("train", questions, np.flatnonzero(in_train)),
        "test": _split("test", questions, np.flatnonzero(~in_train)),
    }
    provenance = {"source": "experiments.synthetic", "texts": len(questions.texts), "seed": seed}
    return Task("synthetic-questions", "equivalence", splits, provenance, {})


def _split(name: str, questions: SyntheticQuestions, rows: Ids) -> Split:
    keys, texts = ([column[row] for row in rows.tolist()] for column in (questions.keys, questions.texts))
    side = Collection(keys, texts)
    space = AllPairs(len(rows))
    at = np.full(len(questions.texts), -1)
    at[rows] = np.arange(len(rows))
    stated = at[np.array(questions.stated_negatives)]
    inside = (stated >= 0).all(axis=1)
    negatives = np.unique(space.ids(*stated[inside].T))
    return Split(name, space, side, side, same_cluster(questions.cluster[rows]), negatives, True)
