"""Gradient-boosted trees as plain arrays: fitted by scikit-learn, evaluated and stored without it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float32]
Logits = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trees:
    """The logit of a row is the baseline plus the value of the leaf it reaches in every tree.

    All nodes of all trees stand one behind the other; `roots` (trees,) are their first ones. A node sends a
    row to `left` where its column is at most `threshold` (or missing, where `missing_left`), else to `right`.
    """

    baseline: NDArray[np.float64]  # (1,)
    roots: NDArray[np.int64]
    column: NDArray[np.int64]  # (nodes,); -1 for a leaf
    threshold: NDArray[np.float64]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: NDArray[np.float64]

    def logits(self, features: Features) -> Logits:
        """(n,) logits of described pairs (n, columns)."""
        from pairsieve.reranker.kernel import add_leaves

        out: Logits = np.full(len(features), self.baseline[0])
        _, *nodes = self.arrays().values()  # in the order of the fields, as the loop takes them
        add_leaves(np.ascontiguousarray(features, np.float32), *nodes, out)
        return out

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, as `Trees.of` takes them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @staticmethod
    def of(arrays: Mapping[str, NDArray[Any]]) -> Trees:
        return Trees(**{field.name: arrays[field.name] for field in fields(Trees)})


def fit_trees(features: Features, labels: NDArray[np.bool_], seed: int) -> Trees:
    """Trees fitted to labelled pairs: features (n, columns) with nan for missing, labels (n,) bool."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=150,
        max_depth=4,
        learning_rate=0.07,
        l2_regularization=1.0,
        min_samples_leaf=max(2, min(20, len(labels) // 100)),
        early_stopping=False,
        random_state=seed,
    )
    # A column that no labelled pair has a value in (no text ends in a number) cannot be cut anywhere.
    columns = np.flatnonzero(~np.isnan(features).all(axis=0))
    with _one_thread():
        model.fit(features[:, columns], labels)
    trees = [predictor.nodes for (predictor,) in model._predictors]
    roots = np.cumsum([0, *map(len, trees)])[:-1]
    nodes = np.concatenate(trees)
    offset = np.repeat(roots, [len(tree) for tree in trees])
    leaf = nodes["is_leaf"].astype(bool)
    return Trees(
        np.asarray(model._baseline_prediction, np.float64).reshape(1),
        roots.astype(np.int64),
        np.where(leaf, -1, columns[np.where(leaf, 0, nodes["feature_idx"])]).astype(np.int64),
        nodes["num_threshold"].astype(np.float64),
        nodes["missing_go_to_left"].astype(bool),
        (nodes["left"] + offset).astype(np.int64),
        (nodes["right"] + offset).astype(np.int64),
        nodes["value"].astype(np.float64),
    )


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Few rows: threads would only wait for each other, and sums would depend on how many there are."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
