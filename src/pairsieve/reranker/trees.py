"""Extremely randomised trees (Geurts et al. 2006) as plain arrays, fitted by scikit-learn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROWS_AT_ONCE = 1 << 15  # that a thread takes

Features = NDArray[np.float32]
Logits = NDArray[np.float64]

COUNT = 200  # trees
SPLIT_COLUMNS = 0.5  # share of the columns that a split may choose from: many of them say little
_SURE = 0.005  # no mean of leaves says more than 1 - this


@dataclass(frozen=True, eq=False)
class Trees:
    """The probability of a row is the mean value of the leaves it reaches.

    All nodes of all trees stand one behind the other; `roots` (trees,) are their first ones. A node sends a
    row to `left` where its column is at most `threshold`, else to `right`.
    """

    roots: NDArray[np.int64]
    column: NDArray[np.int64]  # (nodes,); -1 for a leaf
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: NDArray[np.float64]  # the share of matches in a leaf

    def logits(self, features: Features) -> Logits:
        """(n,) logits of described pairs (n, columns)."""
        from pairsieve.reranker.kernel import add_leaves

        out: Logits = np.zeros(len(features))
        rows = np.ascontiguousarray(features, np.float32)
        leaf, every = self.column < 0, np.arange(len(self.column))
        children = np.stack([np.where(leaf, every, self.left), np.where(leaf, every, self.right)], axis=1)
        nodes = self.roots, self.column, self.threshold, children.ravel(), self.value
        over_rows(len(rows), lambda at: add_leaves(rows[at], *nodes, out[at]))
        rate = np.clip(out / max(len(self.roots), 1), _SURE, 1.0 - _SURE)
        return np.log(rate / (1.0 - rate))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, as `Trees.of` takes them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @staticmethod
    def of(arrays: Mapping[str, NDArray[Any]]) -> Trees:
        return Trees(**{field.name: arrays[field.name] for field in fields(Trees)})


def fit_trees(features: Features, labels: NDArray[np.bool_], seed: int, count: int = COUNT) -> Trees:
    """Trees fitted to labelled pairs: features (n, columns), labels (n,) of both classes.

    They are those of `ExtraTreesClassifier`, which checks its settings and rows again for every tree.
    """
    from sklearn import config_context
    from sklearn.tree import ExtraTreeClassifier

    rows, random = np.ascontiguousarray(features, np.float32), np.random.RandomState(seed)
    ways = {"min_samples_leaf": 2, "max_features": SPLIT_COLUMNS}
    with one_thread(), config_context(skip_parameter_validation=True):
        models = [
            ExtraTreeClassifier(**ways, random_state=random.randint(np.iinfo(np.int32).max))
            for _ in range(count)
        ]
        trees = [model.fit(rows, labels, check_input=False).tree_ for model in models]
    sizes = [tree.node_count for tree in trees]
    roots = np.cumsum([0, *sizes])[:-1]
    offset = np.repeat(roots, sizes)

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(tree, name) for tree in trees])

    leaf = joined("children_left") < 0
    counts = np.concatenate([tree.value[:, 0, :] for tree in trees])
    return Trees(
        roots.astype(np.int64),
        np.where(leaf, -1, joined("feature")).astype(np.int64),
        np.where(leaf, 0.0, joined("threshold")).astype(np.float64),
        np.where(leaf, 0, joined("children_left") + offset).astype(np.int64),
        np.where(leaf, 0, joined("children_right") + offset).astype(np.int64),
        counts[:, 1] / counts.sum(axis=1),
    )


def over_rows(count: int, work: Callable[[slice], None]) -> None:
    """`work` on pieces of so many rows, on all cores where there are many; compiled loops release the GIL."""
    from pairsieve.scan.threads import cores, in_threads

    in_threads(cores(), [slice(at, at + _ROWS_AT_ONCE) for at in range(0, count, _ROWS_AT_ONCE)], work)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Few rows: threads would only wait for each other, and sums would depend on how many there are."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
