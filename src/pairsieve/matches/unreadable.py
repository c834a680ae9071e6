"""Texts of which the encoder's tokeniser knows no piece: pairs of two of them are not listed by their score.

A script that an encoder was not made for becomes unknown tokens. To the encoder all such texts are alike: the
cosine of any two is nearly one, whatever they say.
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
    """Sorted ids of the pairs of two unreadable texts, and how many such texts there are.

    Pairs of equal texts, and the `matches` that somebody labelled, are left out.
    """
    space = split.space
    left = np.flatnonzero(unreadable_texts(matcher.encoder_for("left"), split.left.texts, "left"))
    right = left
    if not space.symmetric:
        right = np.flatnonzero(unreadable_texts(matcher.encoder_for("right"), split.right.texts, "right"))
    texts = len(left) if space.symmetric else len(left) + len(right)
    if len(left) * len(right) > MOST_PAIRS * (2 if space.symmetric else 1):
        raise InputError(
            f"the encoder cannot read {texts:,} texts",
            where=split.name,
            why="it knows none of their characters, so they all look alike to it",
            remedy="Use an encoder made for this script, or leave these texts out",
        )
    if space.symmetric:
        one, other = np.triu_indices(len(left), 1)
        ids = space.ids(left[one], left[other])
    else:
        ids = space.ids(np.repeat(left, len(right)), np.tile(right, len(left)))
    ids = np.sort(ids)
    ids = ids[~is_member(ids, matches)]
    rows = (side.tolist() for side in pair_rows(ids))
    differ = [split.left.texts[one] != split.right.texts[other] for one, other in zip(*rows)]
    return ids[np.array(differ, bool)], texts


def unreadable_texts(encoder: Encoder, texts: Sequence[str], side: str) -> NDArray[np.bool_]:
    """Which of the texts (n,) the encoder cannot read; by its cached tokens, where it has them."""
    distinct, at = distinct_texts(texts)
    found = np.zeros(len(distinct), bool)
    if distinct:
        tokens = encoder.tokens(distinct, side)
        prefix = encoder.tokenizer(encoder.prefix(side) or " ")["input_ids"]  # holds no piece of a text
        empty = [*{*encoder.tokenizer.all_special_ids, *prefix}]
        pieces = np.concatenate([[0], np.cumsum(~np.isin(tokens.ids, empty))])
        suspects = np.flatnonzero(np.diff(pieces[tokens.starts]) == 0)
        # A text made of the prefix's own words is none: asked again without the prefix.
        found[suspects] = encoder.unreadable([distinct[row] for row in suspects.tolist()])
    return found[at]
