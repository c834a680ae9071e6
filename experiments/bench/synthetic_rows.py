"""Synthetic embeddings like those of a real collection, for the benches: topics, clusters, a bulk.

Two texts at random have a cosine of about 0.1 ± 0.1, as a narrow cone of directions with some 80 effective
dimensions gives. Texts of one cluster match, at cosines that spread from about 0.3 to 1. Rows are made in
chunks, so that a million of them need little more memory than themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import AllPairs, Ids

CHUNK = 65536
LARGEST_CLUSTER = 30
TEXTS_PER_TOPIC = 500
TOPIC_SHARE = 0.4  # of a text's variance that its topic explains


@dataclass(frozen=True)
class SyntheticRows:
    """`rows` (n, d) float32 of length one; `positives`: sorted ids of the pairs inside a cluster."""

    rows: NDArray[np.float32]
    positives: Ids


def synthetic_rows(texts: int, width: int, positives: int, seed: int = 0) -> SyntheticRows:
    """A synthetic collection with exactly `positives` matching pairs, in a random order of texts."""
    rng = np.random.default_rng(seed)
    sizes = _cluster_sizes(positives, rng)
    used = int(sizes.sum())
    if used > texts:
        raise SystemExit(
            f"{positives:,} positives fill {used:,} texts here, more than {texts:,}: ask for fewer."
        )
    # A text alone in its cluster has the number -1.
    cluster = np.full(texts, -1, np.int64)
    cluster[:used] = np.repeat(np.arange(len(sizes)), sizes)
    cluster = rng.permutation(cluster)
    spread = np.exp(-np.arange(width, dtype=np.float32) / 80)  # variance exp(-k/40): 80 effective dimensions
    spread /= np.sqrt(np.sum(spread**2))
    topics = _normal(rng, max(1, texts // TEXTS_PER_TOPIC), spread)
    centres = _around_topics(rng, topics, len(sizes), spread)
    common = _normal(rng, 1, spread)
    common *= np.sqrt(1 / 9) / np.linalg.norm(common)  # every pair shares it: cosine (1/9) / (1 + 1/9) = 0.1
    rows = np.empty((texts, width), np.float32)
    for first in range(0, texts, CHUNK):
        member = cluster[first : first + CHUNK]
        part = _around_topics(rng, topics, len(member), spread)
        near = rng.uniform(0.2, 1.0, (len(member), 1)).astype(np.float32)  # cosine of a match: √(near·near')
        in_cluster = member >= 0
        part[in_cluster] *= np.sqrt(1 - near[in_cluster])
        part[in_cluster] += np.sqrt(near[in_cluster]) * centres[member[in_cluster]]
        part += common
        part /= np.linalg.norm(part, axis=1, keepdims=True)
        rows[first : first + CHUNK] = part
    return SyntheticRows(rows, _pairs_within(cluster, sizes))


def _cluster_sizes(positives: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sizes with frequency ∝ 1/size², whose pairs add up to `positives`; pairs of texts fill the rest."""
    sizes = np.arange(2, LARGEST_CLUSTER + 1)
    drawn = rng.choice(sizes, positives, p=sizes**-2.0 / np.sum(sizes**-2.0))
    pairs = np.cumsum(drawn * (drawn - 1) // 2)
    kept = int(np.searchsorted(pairs, positives, side="right"))
    rest = positives - (int(pairs[kept - 1]) if kept else 0)
    return np.concatenate([drawn[:kept], np.full(rest, 2)])


def _normal(rng: np.random.Generator, rows: int, spread: NDArray[np.float32]) -> NDArray[np.float32]:
    return rng.standard_normal((rows, len(spread)), dtype=np.float32) * spread


def _around_topics(
    rng: np.random.Generator, topics: NDArray[np.float32], rows: int, spread: NDArray[np.float32]
) -> NDArray[np.float32]:
    own = _normal(rng, rows, spread) * np.float32(np.sqrt(1 - TOPIC_SHARE))
    own += np.float32(np.sqrt(TOPIC_SHARE)) * topics[rng.integers(len(topics), size=rows)]
    return own


def _pairs_within(cluster: NDArray[np.int64], sizes: NDArray[np.int64]) -> Ids:
    order = np.argsort(cluster, kind="stable")[np.count_nonzero(cluster < 0) :]
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    found = [np.empty(0, np.int64)]
    for size in np.unique(sizes):
        members = order[first[sizes == size][:, None] + np.arange(size)]
        one, other = np.triu_indices(size, 1)
        found.append(AllPairs(len(cluster)).ids(members[:, one], members[:, other]).ravel())
    return np.sort(np.concatenate(found))
