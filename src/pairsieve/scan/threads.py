"""Work on tiles spread over the cores, a thread to a tile; the products release the GIL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch


def in_threads(threads: int, items: Sequence[Any], work: Callable[[Any], None]) -> None:
    """`work` on every item, begun in their order; the first failure (or Ctrl-C) stops the rest."""
    threads = min(threads, len(items))
    if threads <= 1:  # starting a thread takes longer than a small piece of work
        for item in items:
            work(item)
        return
    waiting = iter(items)
    taking = threading.Lock()
    stop = threading.Event()
    none = object()

    def worker() -> None:
        while not stop.is_set():
            with taking:
                item = next(waiting, none)
            if item is none:
                return
            try:
                work(item)
            except BaseException:
                stop.set()
                raise

    with ThreadPoolExecutor(threads) as pool:
        try:
            for each in [pool.submit(worker) for _ in range(threads)]:
                each.result()
        except BaseException:
            stop.set()
            raise


class single_thread:
    """Products inside run on the calling thread alone: the pool already fills the cores."""

    def __enter__(self) -> None:
        self._before = torch.get_num_threads()
        torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._before)


def cores() -> int:
    """Cores this process may use."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
