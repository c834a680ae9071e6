"""Explains the score of a pair: words that carry it, labelled pairs near it, its rank.

**Words.** Each word is left out in turn and the pair scored again: what the cosine loses is what the word
carries (leave-one-out occlusion). Losses of several words do not add up, and a word that stands twice may
lose little either time.

**Near pairs.** A labelled pair (c, d) lies near (a, b) where (cos(a, c) + cos(b, d)) / 2 is high; in one
collection, where a pair has no left and right, the better of both ways round.

**Fields.** Of records: how alike each field is (`fields.py`).

**Waterfall.** What the encoder, the texts and each field add to the log-odds (`scorer/waterfall.py`).

**Rank.** The pairs of the split that score higher are counted, all of them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.campaign import Campaign
from pairsieve.campaign.probability import calibrated_scorer
from pairsieve.errors import InputError, nearest
from pairsieve.explain.fields import ComparedField, compare_fields
from pairsieve.explain.words import words_of
from pairsieve.models import Matcher
from pairsieve.pairs import is_member, pair_rows
from pairsieve.reranker.fields import find_layout
from pairsieve.scan import Scan
from pairsieve.scorer.waterfall import Step, waterfalls
from pairsieve.settings import TEST_SPLIT
from pairsieve.tasks import Collection, Split
from pairsieve.tasks.joined import without_gaps

MOST_PIECES = 128  # of a text that are left out one at a time; in longer texts several words together
MOST_LETTERS = 20_000  # of a text that are looked at; an encoder reads some hundred words
# Words are parted by blanks, and by the bar between the values of a record; scripts written without blanks
# letter by letter.
WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]"
    r"|(?!(?<!\S)\|(?!\S))[^\s\u3040-\u30ff\u3400-\u9fff]+"
)


@dataclass(frozen=True)
class Word:
    """A word (or, in long texts, some) and what the cosine loses without it."""

    text: str
    loss: float
    start: int  # where it stands in the text
    end: int


@dataclass(frozen=True)
class Near:
    """A labelled pair near the one asked about."""

    left_key: str
    right_key: str
    left_text: str
    right_text: str
    match: bool
    similarity: float


@dataclass(frozen=True)
class Standing:
    """How a score stands among all pairs of a split."""

    split: str
    pairs: int
    higher: int  # pairs that score higher
    tied: int  # pairs that score the same, this one among them


@dataclass(frozen=True)
class AtScore:
    """What calling every pair from this score on a match would be worth on a split with truth."""

    split: str
    precision: float | None  # None where no pair of the split reaches the score
    recall: float
    reaching: int


@dataclass(frozen=True)
class Asked:
    """The question about a pair, and its answer."""

    round: int
    purpose: str  # train or audit
    why: str
    label: int | None
    state: str  # labelled, unsure or open


@dataclass(frozen=True)
class Explanation:
    """Everything told about one pair."""

    split: str
    asked_split: str  # the split whose pairs the model learned from
    round: int  # of the model
    left_key: str
    right_key: str
    left_text: str
    right_text: str
    score: float
    cosine: float
    smoothed_cosine: float | None  # after neighbour smoothing; None where there is none
    density: tuple[float, float] | None  # of each text (scorer/corrections.py); None without the correction
    reranked: bool  # whether the pair is a candidate that the re-ranker scored
    log_odds: float
    calibrated: bool  # whether some scores have a probability
    probability: float | None  # None where nothing calibrates the score, or nothing tells of such scores
    standing: Standing | None  # None where nobody wanted all pairs counted
    at_score: AtScore | None
    truth: bool | None  # None where the split's truth is not known
    asked: Asked | None  # None where it was not
    fields: tuple[ComparedField, ...]  # of records; empty for plain texts
    waterfall: tuple[Step, ...]  # they add up to the log-odds
    left_words: tuple[Word, ...]
    right_words: tuple[Word, ...]
    near: tuple[Near, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return words_of(self)


def explain(
    campaign: Campaign,
    one: str,
    other: str,
    split: str | None = None,
    examples: int = 3,
    count_all: bool = True,
) -> Explanation:
    """Why the latest model scores the pair of two keys as it does; `examples` of either label are named.

    Without `count_all` no pass over all pairs is made, and the rank and what it is worth are not told.
    """
    number = campaign.trained_round("to ask")
    part, a, b = find_pair(campaign, one, other, split)
    scored = campaign.score(part, number)
    scorer, scan, corrected = scored.scorer, scored.scan, scored.corrected
    ids = part.space.ids([a], [b])
    a, b = (int(side[0]) for side in pair_rows(ids))
    score = float(scan.scores(ids)[0])
    records = part.left.texts[a], part.right.texts[b]
    texts = without_gaps(records[0]), without_gaps(records[1])  # as an encoder reads them
    sides = ("left", "left" if part.space.symmetric else "right")
    words, rows = _occluded(scorer.matcher, texts, sides)
    lengths = corrected.lengths[0][a] * corrected.lengths[1][b] if corrected.lengths else 1.0
    product = float(scored.base.scores(ids)[0]) / float(lengths)
    density = corrected.density and (float(corrected.density[0][a]), float(corrected.density[1][b]))
    itself = int(ids[0]) if part is campaign.split else -1
    calibrated = calibrated_scorer(campaign, number, count_all, part)
    chance = float(calibrated.probabilities(np.array([score]))[0])
    return Explanation(
        split=part.name,
        asked_split=campaign.settings.split,
        round=number,
        left_key=part.left.keys[a],
        right_key=part.right.keys[b],
        left_text=texts[0],
        right_text=texts[1],
        score=score,
        cosine=float(rows[0] @ rows[1]),
        smoothed_cosine=product if corrected.nearest else None,
        density=density or None,
        reranked=bool(is_member(ids, scored.candidates)[0]),
        log_odds=float(scorer.log_odds(np.array([score]))[0]),
        calibrated=calibrated.calibrated,
        probability=None if np.isnan(chance) else chance,
        standing=_standing(part, scan, score) if count_all else None,
        at_score=_at_score(campaign, part, number, scan, score) if count_all else None,
        truth=bool(is_member(ids, part.positives)[0]) if part.has_truth else None,
        asked=_asked(campaign, int(ids[0])) if part.name == campaign.settings.split else None,
        fields=compare_fields(find_layout(part.left, part.right), *records),
        waterfall=waterfalls(scored, part, ids)[0],
        left_words=words[0],
        right_words=words[1],
        near=_near(campaign, number, scorer.matcher, rows, itself, examples),
    )


# ── which pair ──────────────────────────────────────────────────────────────────────────────────────


def find_pair(campaign: Campaign, one: str, other: str, split: str | None) -> tuple[Split, int, int]:
    """The split and rows of two keys: the split named, else the campaign's own, else another but test.

    With two collections the keys may come in either order; as given counts first.
    """
    splits = campaign.task.splits
    if split is not None and split not in splits:
        raise InputError(f"no split {split!r}", where=str(campaign.folder), remedy=nearest(split, splits))
    if one == other and all(part.space.symmetric for part in splits.values()):
        why = "a pair has two texts"
        raise InputError(f"{one!r} is given twice", why=why, remedy="Give two different keys")
    own = campaign.settings.split
    names = [split] if split else [own, *(n for n in splits if n not in (own, TEST_SPLIT))]
    for name in names:
        part = splits[name]
        orders = [(one, other)] if part.space.symmetric else [(one, other), (other, one)]
        for first, second in orders:
            a, b = _row(part.left, first), _row(part.right, second)
            if a is not None and b is not None:
                return part, a, b
    raise _not_found(campaign, names, one, other)


def _row(texts: Collection, key: str) -> int | None:
    try:
        return texts.keys.index(key)
    except ValueError:
        return None


def _not_found(campaign: Campaign, names: Sequence[str], one: str, other: str) -> InputError:
    """Says which key is unknown, and which known ones are like it; or that no split holds both."""
    splits, looked = campaign.task.splits, ", ".join(names)
    known = [key for name in names for side in (splits[name].left, splits[name].right) for key in side.keys]
    for key in (one, other):
        if key not in known:
            close = " or ".join(map(repr, close_keys(key, known)))
            remedy = f"Did you mean {close}? " if close else ""
            remedy += "Keys are those of the tables the task was made from"
            if TEST_SPLIT in splits and TEST_SPLIT not in names:
                remedy += f". Keys of the split {TEST_SPLIT} are found with `split={TEST_SPLIT!r}`"
            where = f"{campaign.folder}, {looked}"
            return InputError(f"no text has the key {key!r}", where=where, remedy=remedy)
    return InputError(
        f"{one!r} and {other!r} are no pair of {looked}",
        where=str(campaign.folder),
        why="they stand in different splits, or both on the same side of two collections",
        remedy="Give two keys of one split; of two collections, one of each side",
    )


def close_keys(key: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known keys most like `key`: the same but for case first, then by shared letters (difflib)."""
    keys, folded = list(dict.fromkeys(known)), key.casefold()
    same = [k for k in keys if k.casefold() == folded]
    if len(same) >= count:
        return same[:count]
    near = [k for k in keys if abs(len(k) - len(key)) <= max(2, len(key) // 3)]
    if len(near) > 20_000:  # comparing letters is slow: keep keys that begin or end alike
        alike = (k for k in near if k[:2].casefold() == folded[:2] or k[-3:].casefold() == folded[-3:])
        near = list(islice(alike, 20_000))
    close = difflib.get_close_matches(key, near, n=count, cutoff=0.5)
    inside = [k for k in keys if folded and folded in k.casefold()]
    return list(dict.fromkeys([*same, *close, *inside]))[:count]


# ── what carries the score ──────────────────────────────────────────────────────────────────────────


def pieces(text: str, most: int = MOST_PIECES) -> list[tuple[int, int]]:
    """Where the words of a text stand, (start, end) each; of more than `most` words several together."""
    found = [match.span() for match in WORD.finditer(text[:MOST_LETTERS])]
    if len(found) <= most:
        return found
    edges = np.linspace(0, len(found), most + 1).round().astype(int).tolist()
    return [(found[a][0], found[b - 1][1]) for a, b in pairwise(edges)]


def _occluded(
    matcher: Matcher, texts: tuple[str, str], sides: tuple[str, str]
) -> tuple[tuple[tuple[Word, ...], tuple[Word, ...]], tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """The words of both texts with their losses, and the unit rows of the texts as they are.

    Every variant of a side is embedded in one call; both sides together where they are read alike.
    """
    spans = [pieces(text) for text in texts]
    batches = [
        [text[:MOST_LETTERS], *(text[:a] + text[b:MOST_LETTERS] for a, b in where)]
        for text, where in zip(texts, spans)
    ]
    if sides[0] == sides[1]:
        together = matcher.embed([*batches[0], *batches[1]], sides[0])
        left, right = together[: len(batches[0])], together[len(batches[0]) :]
    else:
        left, right = (matcher.embed(batch, side) for batch, side in zip(batches, sides))
    whole = float(left[0] @ right[0])
    first, second = (
        tuple(Word(text[a:b], whole - float(s), a, b) for (a, b), s in zip(where, scores))
        for text, where, scores in zip(texts, spans, (left[1:] @ right[0], right[1:] @ left[0]))
    )
    return (first, second), (left[0], right[0])


# ── how it stands ───────────────────────────────────────────────────────────────────────────────────


def _standing(part: Split, scan: Scan, score: float) -> Standing:
    """Ranks by score; tied pairs share one."""
    at = np.float32(score)
    edges = np.array([at, np.nextafter(at, np.float32(4))], np.float32)
    reaching, higher = scan.count_reaching(edges, desc="ranking the pair").tolist()
    return Standing(part.name, part.space.size, int(higher), int(reaching - higher))


def _at_score(campaign: Campaign, part: Split, number: int, scan: Scan, score: float) -> AtScore | None:
    """On dev where its truth is known, else on the pair's own split: on test only if the pair is there."""
    dev = campaign.task.splits.get("dev")
    measured = dev if dev is not None and dev.has_truth and len(dev.positives) else part
    if not measured.has_truth or len(measured.positives) == 0:
        return None
    if measured is not part:
        scan = campaign.score(measured, number).scan
    at = np.array([score], np.float32)
    reaching = int(scan.count_reaching(at, desc=f"measuring on {measured.name}")[0])
    found = int((scan.scores(measured.positives) >= at[0]).sum())
    precision = found / reaching if reaching else None
    return AtScore(measured.name, precision, found / len(measured.positives), reaching)


def _asked(campaign: Campaign, pair: int) -> Asked | None:
    votes = campaign.ledger.votes(np.array([pair], np.int64))
    if len(votes) == 0:
        return None
    questions = campaign.ledger.questions()
    at = int(np.flatnonzero(questions.ids == pair)[0])
    asked = int(questions.rounds[at]), questions.purpose[at], questions.why[at]
    return Asked(*asked, votes.labels[0], votes.state[0])


def _near(
    campaign: Campaign,
    number: int,
    matcher: Matcher,
    rows: tuple[NDArray[np.float32], NDArray[np.float32]],
    itself: int,
    examples: int,
) -> tuple[Near, ...]:
    """The labelled pairs nearest to one with unit rows `rows`: `examples` of either label, nearest first.

    Ties by smaller id. Audit labels are not shown: nothing that could be learned from may rest on them.
    """
    part = campaign.split
    ids, labels = campaign.ledger.labels(through=number)
    ids, labels = ids[ids != itself], labels[ids != itself]
    if len(ids) == 0 or examples == 0:
        return ()
    model = campaign.trainer.model_key(campaign.labels(number))
    left, right = campaign.trainer.scores.unit_rows(matcher, part, model)
    at, to = pair_rows(ids)
    a, b = rows

    def cosines(table: NDArray[np.float32], places: NDArray[np.int64], row: NDArray[np.float32]) -> Any:
        distinct, back = np.unique(places, return_inverse=True)
        return (table[distinct] @ row)[back]

    similarity = cosines(left, at, a) + cosines(left if right is None else right, to, b)
    if right is None:
        similarity = np.maximum(similarity, cosines(left, to, a) + cosines(left, at, b))
    similarity = similarity / 2
    chosen = []
    for kind in (True, False):
        of_kind = np.flatnonzero(labels == kind)
        chosen += of_kind[np.argsort(-similarity[of_kind], kind="stable")[:examples]].tolist()
    chosen.sort(key=lambda place: (-similarity[place], ids[place]))
    words = zip(*part.keys(ids[chosen]), *part.texts(ids[chosen]))
    figures = zip(labels[chosen].tolist(), similarity[chosen].tolist())
    return tuple(Near(*shown, *figure) for shown, figure in zip(words, figures))
