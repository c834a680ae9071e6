"""Query strategies, which pick the next pairs to label: `strategy(view, budget, rng) -> Selection`.

A plug-in adds one through the entry point group `pairsieve.strategies` and proves it with
`pairsieve.testing.check_strategy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import RoundView, Selection, Strategy
from pairsieve.errors import PoolExhausted, SettingsError, nearest
from pairsieve.pairs import Ids, is_member, pair_rows

GROUP = "pairsieve.strategies"
FEWEST_OF_A_CLASS = 3  # labels below which the other class is looked for first: a re-ranker needs so many
POOL = 8  # times a batch, from which a varied one is taken
MOST_POOL = 200_000  # pairs of a larger pool than the first
PAIRS_A_TEXT = 3  # of a text in a small batch
COPIES_ASKED = 2  # pairs of texts that read the same, in a campaign
ASKED_BETWEEN = 2  # pairs between the same two groups of texts, in a campaign; one in a batch
MOST_ALIKE = 64  # texts of a group that are looked at
RANKS_A_TEXT = 20  # a first batch reaches down to this many pairs for each text
MOST_RANKED = 4_000_000


def random(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """Unasked pairs, uniformly: the honest baseline that finds almost no match."""
    ids = view.space.sample(budget, rng, outside=view.asked)
    chance = budget / (view.space.size - len(view.asked))
    return Selection(ids, "random", np.full(len(ids), chance))


def stated(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """Pairs that a heuristically built dataset happened to state, uniformly."""
    ids, _ = view.stated()
    _enough(budget, len(ids), "stated pairs")
    return Selection(np.sort(rng.choice(ids, budget, replace=False)), "stated")


def static(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """The nearest pairs by the encoder as it came, whatever has been learned since."""
    return Selection(view.static(budget).ids, "static retrieval")


def adaptive(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """The pairs that the current model is surest are matches."""
    return Selection(view.best(budget).ids, "adaptive retrieval")


def uncertainty(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """The pairs whose match probability is nearest one half.

    While nearly all labels are of one class no model can tell; then pairs are looked for where the other
    class should be: further down the rankings that need no label, or at their top.
    """
    if not view.varied:
        return Selection(view.closest(view.boundary, budget).ids, "uncertain")
    matches = int(view.labels.sum())
    mostly_matches = 2 * matches > len(view.labels)
    if min(matches, len(view.labels) - matches) < FEWEST_OF_A_CLASS:
        return _other_class(view, budget, rng, mostly_matches)
    _enough(budget, view.space.size - len(view.asked), "pairs")
    groups = _Alike(view.sure_matches(), view.asked)
    for pool in _pools(budget):
        near = groups.in_turn(_near_boundary(view, budget, pool))
        if not groups or len(_apart(view, near, budget, groups=groups)) == budget:
            break  # else a few large groups fill the pool
    return Selection(_varied(view, near, budget, groups=groups), "uncertain")


def _pools(budget: int) -> list[int]:
    """How many pairs around the boundary are looked at: more in turn, where a few large groups fill them."""
    first = POOL * budget
    return sorted({first, *(max(first, min(first * more, MOST_POOL)) for more in (POOL, POOL**2))})


def _near_boundary(view: RoundView, budget: int, pool: int) -> Ids:
    """Up to `pool` pairs around the boundary, and as many from a margin above and below it; best first."""
    near = _around(view, view.boundary, budget, pool)
    if not view.margin:
        return near
    # A quarter each from further up and down: where the boundary is off, both classes still are there.
    up, down = (_around(view, view.boundary + off, budget, pool) for off in (view.margin, -view.margin))
    places = [np.arange(len(near)) / 2, np.arange(len(up)) + 0.25, np.arange(len(down)) + 0.3]
    return np.concatenate([near, up, down])[np.argsort(np.concatenate(places), kind="stable")]


class _Alike:
    """Which texts of one collection are surely the same thing, to ask one question about two groups.

    Only two answers about the same two groups say anything new; the second guards against a wrong first.
    """

    def __init__(self, sure: Ids, asked: Ids) -> None:
        one, other = pair_rows(sure)
        texts = np.concatenate([other, one])
        order = np.argsort(texts, kind="stable")
        self._texts, self._near = texts[order], np.concatenate([one, other])[order]
        self._asked = _partners(asked if len(sure) else sure)
        self._groups: dict[int, dict[int, None]] = {}

    def __bool__(self) -> bool:
        return len(self._texts) > 0

    def _group(self, text: int) -> dict[int, None]:
        """A text and those that are surely the same thing, in order, as far as they are looked at."""
        if text not in self._groups:
            first, last = np.searchsorted(self._texts, [text, text + 1])
            near = self._near[first : min(last, first + MOST_ALIKE - 1)].tolist()
            self._groups[text] = dict.fromkeys([text, *near])
        return self._groups[text]

    def in_turn(self, ids: Ids) -> Ids:
        """`ids` in their order, and by how many pairs an answer speaks of (both texts' groups), in turn."""
        if not self:
            return ids
        reach = np.ones(len(ids))
        for side in pair_rows(ids):
            near = np.searchsorted(self._texts, side, "right") - np.searchsorted(self._texts, side)
            reach *= 1.0 + near
        level = np.floor(np.log(reach))  # in their order among equals
        return np.stack([ids[np.argsort(-level, kind="stable")], ids], axis=1).ravel()

    def asked_between(self, one: int, other: int, chosen: Mapping[int, list[int]]) -> bool:
        """Whether enough was asked about the groups of two texts: before, or in this batch (`chosen`, the
        partners of each text)."""
        group, before = self._group(other), set()
        for text in self._group(one):
            if any(partner in group for partner in chosen.get(text, ())):
                return True
            for partner in self._asked.get(text, ()):
                if partner in group:
                    before.add((min(text, partner), max(text, partner)))  # inside one group both ways
        return len(before) >= ASKED_BETWEEN


def _partners(ids: Ids) -> dict[int, list[int]]:
    """The other text of each pair, by text."""
    found: dict[int, list[int]] = {}
    for one, other in zip(*(side.tolist() for side in pair_rows(ids))):
        found.setdefault(one, []).append(other)
        found.setdefault(other, []).append(one)
    return found


def _around(view: RoundView, boundary: float, budget: int, pool: int) -> Ids:
    """Pairs nearest a boundary, `pool` or as many as a varied batch needs, from either side in turn."""
    near = view.closest(boundary, pool, fewest=budget)
    while len(near) == pool and _new_texts(view, near.ids).sum() < budget:  # copies fill the pool
        pool *= POOL
        near = view.closest(boundary, pool, fewest=budget)
    above = near.scores.astype(np.float64) - boundary
    # From either side in turn: where the boundary is off, a batch from its one side would be of one class.
    turn = np.empty(len(above))
    for side in (above >= 0, above < 0):
        turn[side] = np.argsort(np.argsort(np.abs(above[side]), kind="stable"), kind="stable")
    return near.ids[np.lexsort((np.abs(above), turn))]


def spread(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """Pairs at logarithmically spaced ranks, from the nearest down, by encoder and by lexical cosine in turn.

    The nearest pairs alone are often copies, or all matches; where matches end is not known before the first
    answers, but on the scale of log rank it is not far.
    """
    return Selection(_at_ranks(view, budget, rng, 1, RANKS_A_TEXT), "spread over ranks")


def _other_class(view: RoundView, budget: int, rng: np.random.Generator, mostly_matches: bool) -> Selection:
    if not mostly_matches:
        ranked = view.rankings(POOL * budget + len(view.asked))
        longest = max(map(len, ranked))
        turns = [np.pad(ids, (0, longest - len(ids)), constant_values=-1) for ids in ranked]
        merged = np.stack(turns, axis=1).ravel()
        return Selection(_varied(view, merged[merged >= 0], budget), "nearest, as few matches are known")
    texts = max(view.space.shape)
    chosen = _at_ranks(view, budget, rng, max(2, texts // 2), 20 * RANKS_A_TEXT)
    return Selection(chosen, "further down, as nearly all are matches")


def _at_ranks(view: RoundView, budget: int, rng: np.random.Generator, first: int, a_text: int) -> Ids:
    """Pairs at log-spaced ranks from `first` to `a_text` times the texts, by each ranking in turn."""
    free = view.space.size - len(view.asked)
    _enough(budget, free, "pairs")
    most = min(max(a_text * max(view.space.shape), 4 * budget), free, MOST_RANKED)
    rankings = [ids[_new_texts(view, ids)] for ids in view.rankings(most)]
    picked: list[Ids] = []
    for at, ids in enumerate(rankings):
        count = -(-(budget - at) // len(rankings))  # in turn: the first has one more where they are odd
        steps = (np.arange(count) + rng.random(count)) / max(count, 1)
        start = min(first, max(len(ids) // 2, 1))
        ranks = np.exp(np.log(start) + steps * np.log(max(len(ids), 1) / start)).astype(np.int64)
        picked.append(ids[np.minimum(ranks, len(ids)) - 1] if len(ids) else ids)
    merged = np.concatenate([*picked, *rankings])
    return _varied(view, merged, budget, texts_apart=False)


def _varied(
    view: RoundView, ids: Ids, budget: int, texts_apart: bool = True, groups: _Alike | None = None
) -> Ids:
    """The first `budget` of `ids`, in order, that stand apart (`_apart`); sorted.

    Where that leaves too few, the rest is taken as it comes, then by the encoder's ranking.
    """
    ids = ids[np.sort(np.unique(ids, return_index=True)[1])]  # rankings have pairs in common
    taken = _apart(view, ids, budget, texts_apart, groups)
    for more in (ids[_new_texts(view, ids)], ids):
        rest = more[~np.isin(more, taken)]
        taken = np.concatenate([taken, rest[: budget - len(taken)]])
    if len(taken) < budget:
        rest = view.static(budget).ids
        taken = np.concatenate([taken, rest[~np.isin(rest, taken)][: budget - len(taken)]])
    return np.sort(taken)


def _apart(
    view: RoundView, ids: Ids, budget: int, texts_apart: bool = True, groups: _Alike | None = None
) -> Ids:
    """Up to `budget` of `ids`, in order, of which no text fills the batch and no two read the same.

    With `groups`, neither do two of them ask about the same two groups of texts.
    """
    texts = view.text_numbers()
    most = max(PAIRS_A_TEXT, -(-8 * budget // min(len(np.unique(side)) for side in texts)))
    if not texts_apart:
        most = budget
    fresh = ids[_new_texts(view, ids)]
    left, right = (side.tolist() for side in pair_rows(fresh))
    used: dict[int, int] = {}
    chosen: list[int] = []
    partners: dict[int, list[int]] = {}  # of the texts of chosen pairs
    for one, other, pair in zip(left, right, fresh.tolist()):
        if len(chosen) == budget:
            break
        numbers = int(texts[0][one]), int(texts[1][other])
        places = numbers if view.space.symmetric else (numbers[0], ~numbers[1])
        if any(used.get(place, 0) >= most for place in places):
            continue
        if groups and groups.asked_between(one, other, partners):
            continue
        for place in places:
            used[place] = used.get(place, 0) + 1
        for text, partner in ((one, other), (other, one)) if groups else ():
            partners.setdefault(text, []).append(partner)
        chosen.append(pair)
    return np.array(chosen, np.int64)


def _new_texts(view: RoundView, ids: Ids) -> NDArray[np.bool_]:
    """Which pairs ask something new: each pair of texts once, however many copies, and never if asked before.

    Whether texts that read the same are matches is asked `COPIES_ASKED` times in all.
    """
    texts = view.text_numbers()

    def keys_of(pairs: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        left, right = pair_rows(pairs)
        one, other = texts[0][left], texts[1][right]
        if view.space.symmetric:
            one, other = np.minimum(one, other), np.maximum(one, other)
        return one << 32 | other, one == other

    keys, copies = keys_of(ids)
    asked, asked_copies = keys_of(view.asked)
    _, first = np.unique(keys, return_index=True)
    new = np.zeros(len(ids), bool)
    new[first] = True
    new &= ~np.isin(keys, asked)
    # One in a batch: the answer to the first tells whether a second is worth a question.
    allowed = min(1, max(0, COPIES_ASKED - int(asked_copies.sum())))
    new[np.flatnonzero(new & copies)[allowed:]] = False
    return new


def stratified(positives: int, labels: int) -> Strategy:
    """Needs an oracle: matches and non-matches, each uniformly, in the balance of another run."""

    def strategy(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
        before, after = len(view.asked), len(view.asked) + budget
        # Whole numbers that add up to the run's own total, however the rounds cut it.
        wanted = after * positives // labels - before * positives // labels
        return _by_oracle(view, wanted, budget - wanted, rng, "stratified, matching a run")

    return strategy


def stratified_all(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """Needs an oracle: half of each batch matches until all are bought, the rest random non-matches."""
    left = int((~is_member(view.oracle(), view.asked)).sum())
    wanted = min(left, budget // 2)
    return _by_oracle(view, wanted, budget - wanted, rng, "stratified, all positives")


def _by_oracle(
    view: RoundView, positives: int, negatives: int, rng: np.random.Generator, why: str
) -> Selection:
    truth = view.oracle()
    left = truth[~is_member(truth, view.asked)]
    _enough(positives, len(left), "positive pairs")
    matches = rng.choice(left, positives, replace=False)
    others = view.space.sample(negatives, rng, outside=np.union1d(view.asked, truth))
    return Selection(np.sort(np.concatenate([matches, others])), why)


def _enough(wanted: int, there: int, what: str) -> None:
    if wanted > there:
        raise PoolExhausted(
            f"asked for {wanted:,} pairs, {there:,} unlabelled {what} remain. Lower the batch or the rounds."
        )


@dataclass(frozen=True)
class Named:
    """A strategy under its name; those that need a model let the seed set fill round 1."""

    name: str
    run: Strategy
    needs_model: bool


BUILT_IN: dict[str, tuple[Strategy, bool]] = {
    "random": (random, False),
    "stated": (stated, False),
    "static": (static, False),
    "adaptive": (adaptive, True),
    "uncertainty": (uncertainty, True),
    "spread": (spread, False),
    "stratified-all": (stratified_all, False),
}


def strategy_named(name: str) -> Named:
    """The strategy called so: built in, `stratified:POSITIVES/LABELS`, or from a plug-in."""
    if name in BUILT_IN:
        return Named(name, *BUILT_IN[name])
    base, _, argument = name.partition(":")
    if base == "stratified":
        return Named(name, stratified(*_balance(name, argument)), False)
    for point in entry_points(group=GROUP):
        if point.name == name:
            run: Strategy = point.load()
            return Named(name, run, getattr(run, "needs_model", True))
    raise SettingsError(f"unknown strategy {name!r}. {nearest(base, strategy_names())}")


def strategy_names() -> list[str]:
    """Every name that `strategy_named` knows here."""
    return sorted([*BUILT_IN, "stratified:POSITIVES/LABELS", *(p.name for p in entry_points(group=GROUP))])


def _balance(name: str, argument: str) -> tuple[int, int]:
    positives, _, labels = argument.partition("/")
    if not (positives.isdigit() and labels.isdigit() and 0 <= int(positives) <= int(labels) > 0):
        raise SettingsError(
            f"strategy {name!r}: the balance is missing or wrong. Write stratified:POSITIVES/LABELS with the "
            "counts of the run to match, for example stratified:742/16640."
        )
    return int(positives), int(labels)
