"""Writes and reads a re-ranker: trees as safetensors, vocabulary as JSON, cross-encoders as folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pairsieve.errors import InputError
from pairsieve.files import load_json, write_json
from pairsieve.reranker import Reranker
from pairsieve.reranker.features import KINDS, Vocabulary, feature_count
from pairsieve.reranker.trees import Trees

RERANKER_FILE = "reranker.json"
_TREES_FILE = "reranker-trees.safetensors"
_VOCABULARY_FILE = "reranker-vocabulary.json"


def save_reranker(folder: Path, reranker: Reranker) -> None:
    """Write a re-ranker into a folder, beside whatever stands there."""
    from safetensors.numpy import save_file

    save_file(reranker.trees.arrays(), str(folder / _TREES_FILE))
    vocabulary = reranker.vocabulary
    counts = {kind.__name__: count for kind, count in zip(KINDS, vocabulary.counts)}
    write_json(folder / _VOCABULARY_FILE, {"texts": vocabulary.texts, "counts": counts})
    for at, cross in enumerate(reranker.cross_encoders):
        cross.save(folder / f"cross-encoder-{at}")
    about = {"weight": reranker.weight, "bias": reranker.bias, "neighbours": reranker.neighbours}
    write_json(folder / RERANKER_FILE, {**about, "cross_encoders": len(reranker.cross_encoders)})


def load_reranker(folder: Path, device: str | None = None) -> Reranker:
    """The re-ranker that `save_reranker` wrote; an error, in words, where a file is damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    from pairsieve.models import load_cross

    try:
        about = load_json(folder / RERANKER_FILE)
        words = load_json(folder / _VOCABULARY_FILE, most=1 << 31)
        vocabulary = Vocabulary(int(words["texts"]), tuple(words["counts"][kind.__name__] for kind in KINDS))
        trees = Trees.of(load_file(str(folder / _TREES_FILE)))
        weight, bias, neighbours = float(about["weight"]), float(about["bias"]), int(about["neighbours"])
        crosses = int(about["cross_encoders"])
        check_trees(trees, feature_count(1 + (crosses > 0)))
        if not np.isfinite([weight, bias]).all() or neighbours < 1:
            raise ValueError(f"weight {weight}, bias {bias} and {neighbours} neighbours are no re-ranker")
        cross = tuple(load_cross(folder / f"cross-encoder-{at}", device) for at in range(crosses))
        return Reranker(trees, vocabulary, weight, bias, neighbours, cross)
    except (OSError, KeyError, ValueError, TypeError, SafetensorError) as error:
        what, remedy = "the re-ranker cannot be read", "Export it again"
        raise InputError(what, where=str(folder), why=str(error), remedy=remedy) from error


def check_trees(trees: Trees, columns: int) -> None:
    """A `ValueError` where trees hold what is no number, or would read outside their arrays or never end.

    The compiled loop checks nothing. Every child stands behind its parent, so that each step goes forward.
    """
    nodes = len(trees.column)
    inner = np.flatnonzero(trees.column >= 0)
    children = np.stack([trees.left[inner], trees.right[inner]])
    if trees.baseline.shape != (1,) or any(len(a) != nodes for a in list(trees.arrays().values())[2:]):
        raise ValueError("the arrays of the trees differ in length")
    if (trees.column >= columns).any() or (trees.roots < 0).any() or (trees.roots >= nodes).any():
        raise ValueError(f"a tree reads a column or node that does not exist, of {columns} and {nodes:,}")
    if (children <= inner).any() or (children >= nodes).any():
        raise ValueError(f"a tree leads to a node that does not exist or stands before it, of {nodes:,}")
    # A threshold may be infinite: such a node tells missing values from all others.
    if np.isnan(trees.threshold).any() or not np.isfinite([*trees.baseline, *trees.value]).all():
        raise ValueError("a value of the trees is infinite or not a number")
