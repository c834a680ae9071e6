"""Texts that the encoder's tokeniser cannot read: pairs of two that look alike to it are not listed by score.

A script that an encoder was not made for becomes unknown tokens. To the encoder all such texts are alike: the
cosine of any two is nearly one, whatever they say. So are texts that differ in unknown tokens only, beside a
readable word or two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.models import Encoder, Matcher
from pairsieve.models.encoder import distinct_texts
from pairsieve.pairs import Ids, is_member, pair_rows
from pairsieve.tasks import Split

MOST_PAIRS = 20_000_000  # of unreadable texts; with more of them a list is of no use


def unreadable_pairs(split: Split, matcher: Matcher, matches: Ids) -> tuple[Ids, int]:
    """Sorted ids of the pairs of two unreadable texts that look alike, and how many such texts there are.

    Pairs of equal texts, and the `matches` that somebody labelled, are left out.
    """
    space = split.space
    numbers: dict[bytes, int] = {b"": 0}
    sides = [("left", split.left), ("right", split.right)][: 1 if space.symmetric else 2]
    alike = [readings(matcher.encoder_for(name), side.texts, name, numbers) for name, side in sides]
    counts = [np.bincount(each[each >= 0], minlength=len(numbers)) for each in alike]
    if int((counts[0] * counts[-1]).sum()) > MOST_PAIRS * (2 if space.symmetric else 1):
        raise InputError(
            f"the encoder cannot read {sum(int(count.sum()) for count in counts):,} texts",
            where=split.name,
            why="it knows none or few of their characters, so they all look alike to it",
            remedy="Use an encoder made for this script, or leave these texts out",
        )
    found: list[Ids] = [np.empty(0, np.int64)]
    shared = counts[0] > 1 if space.symmetric else counts[0] * counts[1] > 0
    for number in np.flatnonzero(shared).tolist():
        left, right = np.flatnonzero(alike[0] == number), np.flatnonzero(alike[-1] == number)
        if space.symmetric:
            one, other = np.triu_indices(len(left), 1)
            found.append(space.ids(left[one], left[other]))
        else:
            found.append(space.ids(np.repeat(left, len(right)), np.tile(right, len(left))))
    ids = np.sort(np.concatenate(found))
    ids = ids[~is_member(ids, matches)]
    rows = (side.tolist() for side in pair_rows(ids))
    differ = [split.left.texts[one] != split.right.texts[other] for one, other in zip(*rows)]
    ids = ids[np.array(differ, bool)]
    unlike = [np.unique(rows) for rows in pair_rows(ids)]
    there = [np.flatnonzero(each == 0) for each in alike]  # not a piece of them is known
    if space.symmetric:
        return ids, len(np.unique(np.concatenate([*there, *unlike])))
    return ids, sum(len(np.union1d(one, other)) for one, other in zip(there, unlike))


def readings(
    encoder: Encoder, texts: Sequence[str], side: str, numbers: dict[bytes, int]
) -> NDArray[np.int64]:
    """(n,) equal where texts have the same known pieces and at least as many unknown ones; -1: readable.

    0 are those without a known piece. By the encoder's cached tokens, where it has them. numbers: of the
    known pieces, shared by both sides; new ones are added.
    """
    distinct, at = distinct_texts(texts)
    found = np.full(len(distinct), -1, np.int64)
    if distinct:
        tokens, tokeniser = encoder.tokens(distinct, side), encoder.tokenizer
        prefix = tokeniser(encoder.prefix(side) or " ")["input_ids"]  # holds no piece of a text
        known = ~np.isin(tokens.ids, [*{*tokeniser.all_special_ids, *prefix}])
        unknown = tokens.ids == (-1 if tokeniser.unk_token_id is None else tokeniser.unk_token_id)
        sums = [np.concatenate([[0], np.cumsum(each)])[tokens.starts] for each in (known, unknown)]
        pieces, others = (np.diff(each) for each in sums)
        for row in np.flatnonzero((pieces > 0) & (others >= pieces)).tolist():
            own = slice(tokens.starts[row], tokens.starts[row + 1])
            found[row] = numbers.setdefault(tokens.ids[own][known[own]].tobytes(), len(numbers))
        suspects = np.flatnonzero(pieces == 0)
        # A text made of the prefix's own words is none: asked again without the prefix.
        empty = encoder.unreadable([distinct[row] for row in suspects.tolist()])
        found[suspects[empty]] = 0
    return found[at]
