"""Groups of duplicates as a table, by group or in the order of the collection, and the pairs inside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pairsieve.matches.clusters import constrained_average_linkage, largest_first
from pairsieve.matches.merging import free_name, record_fields
from pairsieve.pairs import Ids, Rows, ScoredPairs, is_member, same_cluster
from pairsieve.tasks import Collection
from pairsieve.tasks.joined import without_gaps

if TYPE_CHECKING:
    from pairsieve.matches.listing import Known
    from pairsieve.matches.options import ListOptions
    from pairsieve.matches.ranking import Ranking
    from pairsieve.scorer import ScoredSpace


def group_columns(
    texts: Collection, group: Rows, chosen: Rows, options: ListOptions
) -> tuple[dict[str, str], dict[str, Sequence[Any]]]:
    """(types, columns): key, cluster, size, representative, and the columns of the record.

    Rows by group, largest first, then by first text; with `as_table` in the order of the collection, its own
    columns first. group: (n,) of each text; chosen: (groups,) the representative of each.
    """
    size = np.bincount(group)
    number = largest_first(group)
    order = np.arange(len(group)) if options.as_table else np.lexsort((np.arange(len(group)), number[group]))
    rows = order.tolist()
    own: dict[str, Sequence[Any]] = {"key": [texts.keys[row] for row in rows]}
    if options.texts:
        own["text"] = [without_gaps(texts.texts[row]) for row in rows]
    found: dict[str, Sequence[Any]] = {
        "cluster": number[group[order]].tolist(),
        "size": size[group[order]].tolist(),
        "representative": [texts.keys[row] for row in chosen[group[order]].tolist()],
    }
    types = dict.fromkeys((*own, "representative"), "string") | {"cluster": "int64", "size": "int64"}
    records: dict[str, Sequence[Any]] = {}
    if options.as_table or (options.columns and texts.fields is not None):
        fields = record_fields(texts)
        keyed = any(kind == "key" for kind in fields.kinds.values())
        own = {} if options.as_table and keyed else own
        for name in fields.names:
            if fields.kinds[name] == "key" and not options.as_table:
                continue
            free = free_name(name, {**own, **found})
            types[free] = fields.types[name]
            records[free] = fields.typed.column(name).take(order).to_pylist()
    columns = {**records, **own, **found} if options.as_table else {**own, **found, **records}
    return {name: types[name] for name in columns}, columns


def pairs_inside_groups(ranking: Ranking, group: Rows, known: Known) -> Iterator[ScoredPairs]:
    """Every pair inside a group, best first, less those labelled as no matches."""
    ids = np.union1d(known.matches, same_cluster(group))
    ids = ids[~is_member(ids, known.others) & ranking.split.space.contains(ids)]
    scores = ranking.scores(ids)
    best = np.lexsort((ids, -scores))
    yield ScoredPairs(ids[best], scores[best])


def find_groups(ranking: Ranking, threshold: float, known: Known) -> tuple[Rows, Ids]:
    """The group of each text, by average linkage down to a threshold, and the pairs above it."""
    pieces: list[Ids] = [np.empty(0, np.int64)]
    ranking.collect(threshold, 1e30, lambda ids, scores: pieces.append(ids))
    pairs = np.concatenate(pieces)
    rows = np.asarray(ranking.scored.corrected.rows[0], np.float32)
    level, reranked = _in_base_scores(ranking.scored, threshold)
    sources = ranking.split.left.sources
    group = constrained_average_linkage(rows, pairs, level, known.matches, known.others, reranked, sources)
    return group, pairs


def _in_base_scores(scored: ScoredSpace, threshold: float) -> tuple[float, tuple[Ids, Any] | None]:
    """A threshold, and the re-ranker's scores of its candidates, on the scale of the bi-encoder's scores.

    Average linkage adds up products of rows; log-odds are linear in these, so that a candidate's own
    log-odds stand for the product at which the bi-encoder would have given them.
    """
    scorer = scored.scorer
    if scorer.reranker is None:
        return threshold, None
    base = scorer.bi_encoder()
    scores = scored.scan.scores(scored.candidates)
    equivalent = (scorer.log_odds(scores) - base.bias) / base.weight
    level = float(scorer.log_odds(np.array([threshold]))[0])
    return base.score_of(level), (scored.candidates, equivalent)
