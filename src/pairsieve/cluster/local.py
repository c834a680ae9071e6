"""How do shards run without a cluster? One after the other in this process, each on all its cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.progress import tracked


@dataclass(frozen=True)
class LocalShards:
    """The `MapShards` of one process. `workers` says into how many shards work is cut at least."""

    workers: int = 1
    threads: int = 0
    gpus: int = 0

    def share(self, value: Any) -> Any:
        return value

    def map(
        self,
        work: Callable[..., Any],
        shards: Sequence[tuple[Any, ...]],
        words: str = "shards",
        gpu: bool = False,
    ) -> Iterator[tuple[int, Any]]:
        shown = tracked(shards, words) if len(shards) > 1 else shards
        for position, shard in enumerate(shown):
            yield position, work(*shard)

    def map_texts(
        self,
        work: Callable[[Any, list[str]], NDArray[np.float32]],
        shared: Any,
        pieces: Sequence[tuple[int, Sequence[str]]],
        words: str = "embedding",
        gpu: bool = False,
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        shown = tracked(pieces, words) if len(pieces) > 1 else pieces
        for number, texts in shown:
            yield number, work(shared, list(texts))
