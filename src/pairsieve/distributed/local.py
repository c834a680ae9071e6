"""Shards run in this process: one after the other, or one on each of its GPUs."""

from __future__ import annotations

import contextlib
import queue
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from pairsieve.contracts import Pieces, Results, Shards, Work
from pairsieve.errors import InputError
from pairsieve.progress import bar, tracked


@dataclass(frozen=True)
class LocalShards:
    """The `MapShards` of one process. `workers` says into how many shards work is cut at least."""

    workers: int = 1
    threads: int = 0
    gpus: int = 0

    def share(self, value: Any) -> Any:
        return value

    def map(self, work: Work, shards: Shards, desc: str = "shards", gpu: bool = False) -> Results:
        for position, shard in enumerate(tracked(shards, desc) if len(shards) > 1 else shards):
            yield position, work(*shard)

    def map_texts(
        self, work: Work, shared: Any, pieces: Pieces, desc: str = "embedding", gpu: bool = False
    ) -> Results:
        for position, texts in tracked(pieces, desc) if len(pieces) > 1 else pieces:
            yield position, work(shared, list(texts))


class _GivenUp(Exception):
    """A shard that did not begin, since another one failed."""


@dataclass(frozen=True)
class GpuShards(LocalShards):
    """The `MapShards` of one process with several GPUs: shards that need one run on all of them at once.

    A thread waits for each GPU while it works, and "cuda" means that GPU to whatever runs in the thread.
    Everything else, embedding included, runs as with `LocalShards`, on the first GPU.
    """

    devices: tuple[str, ...] = ()

    def map(self, work: Work, shards: Shards, desc: str = "shards", gpu: bool = False) -> Results:
        if not gpu:
            yield from super().map(work, shards, desc)
            return
        free: queue.SimpleQueue[str] = queue.SimpleQueue()
        for device in self.devices:
            free.put(device)
        failed = threading.Event()

        def one(shard: tuple[Any, ...]) -> Any:
            device = free.get()
            try:
                if failed.is_set():  # the other shard's failure is raised
                    raise _GivenUp
                with _current(device):
                    return work(*shard)
            except BaseException:
                failed.set()
                raise
            finally:
                free.put(device)

        shown = bar(len(shards), desc, "shard")
        pool = ThreadPoolExecutor(len(self.devices))
        try:
            under_way = {pool.submit(one, shard): position for position, shard in enumerate(shards)}
            for done in as_completed(under_way):
                shown.update(1)
                if not isinstance(done.exception(), _GivenUp):
                    yield under_way.pop(done), done.result()
        finally:  # a failure, or a caller that leaves: what has not begun never does
            pool.shutdown(wait=True, cancel_futures=True)
            shown.close()


def gpu_shards() -> GpuShards:
    """All GPUs of this machine."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise InputError(
            "no GPU here",
            where="`distributed='gpus'`",
            why="PyTorch sees none",
            remedy="Leave `distributed` out: the scan then runs on this machine's cores",
        )
    return GpuShards(workers=count, gpus=count, devices=tuple(f"cuda:{k}" for k in range(count)))


def _current(device: str) -> contextlib.AbstractContextManager[Any]:
    """Within, "cuda" is this GPU, for this thread alone."""
    import torch

    return torch.cuda.device(device) if device.startswith("cuda") else contextlib.nullcontext()
