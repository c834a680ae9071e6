"""What made the log-odds of a pair: a sum of contributions of the encoder, the texts, and each field.

Without a re-ranker the log-odds are `bias + weight · score`: the cosine's part is the encoder's, what
smoothing and hubness correction changed is the neighbours'. With one, a candidate has a weighed sum of three
models (`reranker.Stack`). The linear model is a sum over columns already. The trees' part of a column is what
the share of matches gains or loses at the splits by it, from root to leaf, averaged over trees (Saabas
2014), and scaled so that these gains add up to the logit. Columns are summed by what they compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, is_member, pair_rows
from pairsieve.reranker import Reranker, cross_logits
from pairsieve.reranker.features import KINDS, TextReader, describe, feature_count
from pairsieve.reranker.fields import Layout
from pairsieve.reranker.trees import Features, Trees
from pairsieve.scan import open_scan
from pairsieve.scorer.scorer import ScoredSpace, below_candidates
from pairsieve.tasks import Split

START, ENCODER, NEIGHBOURS = "start", "encoder", "neighbours of the texts"
TEXT, CROSS, OTHERS = "whole text", "cross-encoder", "other candidates"
NO_CANDIDATE = "no candidate of the re-ranker"
ORDER = (START, ENCODER, NEIGHBOURS, CROSS, TEXT, OTHERS, NO_CANDIDATE)  # then the fields


@dataclass(frozen=True)
class Step:
    """What one part adds to the log-odds; `field`: whether it is a field of the records."""

    name: str
    log_odds: float
    field: bool = False


def waterfalls(scored: ScoredSpace, split: Split, ids: Ids) -> list[tuple[Step, ...]]:
    """The steps of each pair (n,); they add up to its log-odds. The start is the same for all candidates."""
    scorer, base = scored.scorer, scored.scorer.bi_encoder()
    rows = scored.corrected.unit
    left, right = pair_rows(ids)
    other = rows[0] if rows[1] is None else rows[1]
    cosine = np.einsum("nd,nd->n", rows[0][left].astype(np.float64), other[right].astype(np.float64))
    alone = scored.base.scores(ids).astype(np.float64)
    candidate = is_member(ids, scored.candidates)
    found = []
    for at in range(len(ids)):
        share = 1.0
        parts: dict[str, float] = {START: base.bias}
        fields: dict[str, float] = {}
        if scorer.reranker is not None and candidate[at]:
            share, parts, fields = _by_reranker(scored, split, int(ids[at]), base.bias)
            log_odds = base.log_odds(alone[at : at + 1])  # of which no more than a bound counts
            parts[ENCODER] = parts.get(ENCODER, 0.0) + share * float(
                (scorer.reranker.stack.bounded(log_odds) - log_odds)[0]
            )
        parts[ENCODER] = parts.get(ENCODER, 0.0) + share * base.weight * float(cosine[at])
        parts[NEIGHBOURS] = share * base.weight * float(alone[at] - cosine[at])
        if scorer.reranker is not None and not candidate[at]:
            log_odds = base.log_odds(alone[at : at + 1])
            parts[NO_CANDIDATE] = float(below_candidates(log_odds)[0] - log_odds[0])
        steps = [Step(name, parts[name]) for name in ORDER if parts.get(name)]
        found.append((*steps, *(Step(name, value, True) for name, value in fields.items())))
    return found


def column_owners(scores: int, layout: Layout) -> list[tuple[str, bool]]:
    """Whom each column of `describe` belongs to: (name, whether it is a field), in their order."""
    leads = [(OTHERS, False)] * 2
    owners: list[tuple[str, bool]] = []
    for name in (ENCODER, TEXT, CROSS)[:scores]:
        owners += [(name, False), *leads]
    for _ in KINDS:
        owners += [(TEXT, False)] * 3 + leads
    owners += [(TEXT, False)] * 3 + leads + [(TEXT, False)] * 5  # spelling; its worst word, numbers, length
    for field in (*(field for field, _ in layout.sparse), *layout.dense):
        owners += [(field.name, True), *leads]
    owners += [(field.name, True) for field in layout.shares]
    owners += [(field.name, True) for field in (*layout.dense, *layout.fields)]  # equal; missing
    assert len(owners) == feature_count(scores, layout)
    return owners


def _by_reranker(
    scored: ScoredSpace, split: Split, pair: int, bias: float
) -> tuple[float, dict[str, float], dict[str, float]]:
    """The weight of the bi-encoder's log-odds, the parts, and the fields of a candidate."""
    reranker = scored.scorer.reranker
    assert reranker is not None
    features = describe_pair(reranker, scored, split, pair)
    stack = reranker.stack
    start, by_column = stack.bias + stack.base * bias, np.zeros(features.shape[1])
    root, gains = tree_gains(reranker.trees, features[0])
    start, by_column = start + stack.trees * root, by_column + stack.trees * gains
    own = reranker.linear.weights * features[0].astype(np.float64)
    raw, whole = float(own.sum()), float(reranker.linear.logits(features)[0] - reranker.linear.bias[0])
    start += stack.linear * float(reranker.linear.bias[0])
    by_column += stack.linear * own * (whole / raw if raw else 0.0)  # no pair is given more than a limit
    parts: dict[str, float] = {START: start}
    fields: dict[str, float] = {field.name: 0.0 for field in reranker.vocabulary.layout.fields}
    owners = column_owners(3 if reranker.cross_encoders else 2, reranker.vocabulary.layout)
    for (name, is_field), value in zip(owners, by_column.tolist()):
        held = fields if is_field else parts
        held[name] = held.get(name, 0.0) + value
    return stack.base, parts, fields


def describe_pair(reranker: Reranker, scored: ScoredSpace, split: Split, pair: int) -> Features:
    """(1, columns): a candidate as the re-ranker sees it, beside all candidates of its two texts."""
    places = pair_rows(scored.candidates)
    one, other = pair >> 32, pair & 0xFFFF_FFFF
    near = (places[0] == one) | (places[1] == other)
    if split.space.symmetric:
        near |= (places[0] == other) | (places[1] == one)
    left, right = (side[near] for side in places)
    rows = scored.corrected.unit
    if split.space.symmetric:  # ascending, so that left and right stay what they are in the whole space
        both = np.unique(np.concatenate([left, right]))
        chosen: Sequence[NDArray[np.int64]] = [both, both]
        space: PairSpace = AllPairs(len(both))
    else:
        chosen = [np.unique(left), np.unique(right)]
        space = CrossPairs(len(chosen[0]), len(chosen[1]))
    ids = space.ids(np.searchsorted(chosen[0], left), np.searchsorted(chosen[1], right))
    sides = zip((split.left, split.right), chosen)
    one_texts, other_texts = ([side.texts[row] for row in at.tolist()] for side, at in sides)
    unit = rows[0][chosen[0]], None if rows[1] is None else rows[1][chosen[1]]
    embed = reranker.lexical.embed
    lexical = embed(one_texts), None if rows[1] is None else embed(other_texts)
    pieces = TextReader(reranker.vocabulary).take_apart(space, one_texts, other_texts)
    scores: list[NDArray[np.floating]] = [
        open_scan(space, *unit, device="cpu").scores(ids),
        open_scan(space, *lexical, device="cpu").scores(ids),
        *cross_logits(reranker.cross_encoders, one_texts, other_texts, ids),
    ]
    itself = space.ids([int(np.searchsorted(chosen[0], one))], [int(np.searchsorted(chosen[1], other))])
    return describe(pieces, ids, scores)[ids == itself[0]]


def tree_gains(trees: Trees, row: NDArray[np.float32]) -> tuple[float, NDArray[np.float64]]:
    """(logit of the roots, (columns,) what each column adds to it): together the logit of the row."""
    gains, start = np.zeros(len(row)), 0.0
    for root in trees.roots.tolist():
        node = root
        start += float(trees.value[root])
        while (column := int(trees.column[node])) >= 0:
            below = trees.left if row[column] <= trees.threshold[node] else trees.right
            child = int(below[node])
            gains[column] += trees.value[child] - trees.value[node]
            node = child
    count = max(len(trees.roots), 1)
    rate = start / count
    logit = float(np.log(rate / (1.0 - rate)))
    whole = float(trees.logits(row[None])[0])
    total = float(gains.sum())
    return (logit, gains * ((whole - logit) / total)) if abs(total) > 1e-12 else (whole, gains * 0.0)
