"""Writes and reads a re-ranker: arrays as safetensors, vocabulary as JSON, cross-encoders as folders."""

from __future__ import annotations

from dataclasses import asdict, astuple
from pathlib import Path

import numpy as np

from pairsieve.errors import InputError
from pairsieve.files import load_json, write_json
from pairsieve.models import load_cross
from pairsieve.reranker import Cuts, Reranker, Stack
from pairsieve.reranker.features import KINDS, Vocabulary, feature_count
from pairsieve.reranker.fields import Layout
from pairsieve.reranker.lexical import BUCKETS, LexicalEncoder
from pairsieve.reranker.linear import Linear
from pairsieve.reranker.trees import Trees

RERANKER_FILE = "reranker.json"
_TREES_FILE = "reranker-trees.safetensors"
_ARRAYS_FILE = "reranker-arrays.safetensors"
_VOCABULARY_FILE = "reranker-vocabulary.json"


def save_reranker(folder: Path, reranker: Reranker) -> None:
    """Write a re-ranker into a folder, beside whatever stands there."""
    from safetensors.numpy import save_file

    save_file(reranker.trees.arrays(), str(folder / _TREES_FILE))
    arrays = {"weights": reranker.linear.weights, "bias": reranker.linear.bias}
    save_file({**arrays, "rarity": reranker.lexical.rarity}, str(folder / _ARRAYS_FILE))
    vocabulary = reranker.vocabulary
    words = {"texts": vocabulary.texts, "digest": vocabulary.digest, "layout": vocabulary.layout.as_json()}
    write_json(folder / _VOCABULARY_FILE, {**words, "counts": list(vocabulary.counts)})
    for at, cross in enumerate(reranker.cross_encoders):
        cross.save(folder / f"cross-encoder-{at}")
    about = {"stack": asdict(reranker.stack), "cuts": asdict(reranker.cuts)}
    write_json(folder / RERANKER_FILE, {**about, "cross_encoders": len(reranker.cross_encoders)})


def load_reranker(folder: Path, device: str | None = None) -> Reranker:
    """The re-ranker that `save_reranker` wrote; an error, in words, where a file is damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        about = load_json(folder / RERANKER_FILE)
        words = load_json(folder / _VOCABULARY_FILE, most=1 << 31)
        layout, counts = Layout.of(words["layout"]), tuple(map(dict, words["counts"]))
        if len(counts) != len(KINDS) + len(layout.sparse):
            raise ValueError(f"{len(counts)} kinds of pieces")
        vocabulary = Vocabulary(int(words["texts"]), counts, str(words["digest"]), layout)
        trees = Trees.of(load_file(str(folder / _TREES_FILE)))
        arrays = load_file(str(folder / _ARRAYS_FILE))
        linear, lexical = Linear(arrays["weights"], arrays["bias"]), LexicalEncoder(arrays["rarity"])
        stack = Stack(**{name: float(value) for name, value in about["stack"].items()})
        cuts = Cuts(**{name: float(value) for name, value in about["cuts"].items()})
        crosses = int(about["cross_encoders"])
        columns = feature_count(2 + (crosses > 0), layout)
        check_trees(trees, columns)
        if linear.weights.shape != (columns,) or linear.bias.shape != (1,):
            raise ValueError(f"{linear.weights.shape} weights for {columns} columns")
        if lexical.rarity.shape != (BUCKETS,):
            raise ValueError(f"rarity of {lexical.rarity.shape} buckets")
        numbers = *astuple(stack), *astuple(cuts)
        every = [*numbers, *linear.weights, *linear.bias, *lexical.rarity]
        if not np.isfinite(every).all():
            raise ValueError("a weight, cut or rarity is infinite or not a number")
        cross = tuple(load_cross(folder / f"cross-encoder-{at}", device) for at in range(crosses))
        return Reranker(trees, linear, vocabulary, lexical, cuts, stack, cross)
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
    if any(len(a) != nodes for a in list(trees.arrays().values())[1:]):
        raise ValueError("the arrays of the trees differ in length")
    if (trees.column >= columns).any() or (trees.roots < 0).any() or (trees.roots >= nodes).any():
        raise ValueError(f"a tree reads a column or node that does not exist, of {columns} and {nodes:,}")
    if (children <= inner).any() or (children >= nodes).any():
        raise ValueError(f"a tree leads to a node that does not exist or stands before it, of {nodes:,}")
    if not np.isfinite(trees.threshold).all() or not np.isfinite(trees.value).all():
        raise ValueError("a value of the trees is infinite or not a number")
