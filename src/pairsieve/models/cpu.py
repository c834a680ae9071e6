"""Embedding on the CPU: a core takes whole batches, by PyTorch or ONNX Runtime.

A batch holds about a thousand tokens, little enough that what passes between the layers stays in the cache,
and one thread takes it from end to end. What comes out does not depend on the number of threads (up to 31).

The back-end is plain PyTorch (`torch`), or ONNX Runtime (`onnx`, float32) where it is installed and texts are
enough to pay for the conversion; `PAIRSIEVE_CPU_BACKEND` names one for good. The rule never looks at a clock,
so the same texts on the same machine are embedded the same way twice. A converted network is compared with
PyTorch on two batches before it is used, and left aside where a row lies further than 5e-6 from the reference
(then a cosine could be off by more than 1e-5). So both back-ends share one fingerprint and one cache.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from pairsieve.errors import InputError, MissingExtra, nearest
from pairsieve.models.encoder import Embeddings, Tokens, pooled, quietly, state_sha256
from pairsieve.pairs import Rows
from pairsieve.progress import bar

BACKENDS = ("auto", "torch", "onnx")
CHOICE = "PAIRSIEVE_CPU_BACKEND"
BATCH_TOKENS = {"torch": 1024, "onnx": 512}  # padding included
WORTH_CONVERTING = 300_000  # tokens from which converting (some seconds) is won back on two cores
FARTHEST = 5e-6  # a row of a converted network from the reference's: no cosine is off by more than twice that
MOST_WORKERS = 16  # beyond, Python itself would be the queue; more cores share their batches

Embed = Callable[[Rows, Rows], Embeddings]  # ids and mask (n, width) -> (n, d)

_log = logging.getLogger("pairsieve")
_sessions: dict[str, Any] = {}  # the networks converted last, by their weights
_lock, _here = threading.Lock(), threading.local()
_inside, _outside = 0, 1  # threads inside `threads_each` now; PyTorch's threads before the first of them


def embed_on_cpu(network: Any, tokens: Tokens, pad: int, backend: str | None = None) -> Embeddings:
    """Mean-pooled unit rows (n, d) of tokenised texts, on as many threads as PyTorch has been given."""
    import torch

    with threads_each(1) as threads:
        if chosen_backend(int(tokens.starts[-1]), backend) == "onnx":
            batches = batched(tokens.lengths, BATCH_TOKENS["onnx"])
            embed = _converted(network)
            if embed is not None and _agrees(embed, network, tokens, pad, (batches[0], batches[-1])):
                return _spread(embed, tokens, pad, batches, threads)
        each = max(1, threads // MOST_WORKERS)
        begin = partial(torch.set_num_threads, each)  # which holds for the thread that calls it
        batches = batched(tokens.lengths, BATCH_TOKENS["torch"])
        return _spread(_plain(network), tokens, pad, batches, threads // each, begin)


def chosen_backend(tokens: int, backend: str | None = None) -> str:
    """The back-end for so many tokens: as asked for, by argument or environment, or by the rule above."""
    asked = backend or os.environ.get(CHOICE) or "auto"
    if asked not in BACKENDS:
        where = CHOICE if backend is None else "backend"
        raise InputError(f"unknown CPU back-end {asked!r}", where=where, remedy=nearest(asked, BACKENDS))
    missing = [name for name in ("onnxruntime", "onnx") if importlib.util.find_spec(name) is None]
    if asked == "onnx" and missing:
        raise MissingExtra(missing[0], "embedding by ONNX Runtime", "pip install 'pairsieve[onnx]'")
    if asked == "auto":
        return "onnx" if not missing and tokens >= WORTH_CONVERTING else "torch"
    return asked


def batched(lengths: Rows, budget: int) -> list[Rows]:
    """Rows by falling length, cut where a batch padded to its longest text would pass `budget` tokens."""
    order = np.argsort(-lengths, kind="stable")
    batches, first = [], 0
    while first < len(order):
        count = max(1, budget // max(1, int(lengths[order[first]])))
        batches.append(order[first : first + count])
        first += count
    return batches


def _spread(
    embed: Embed,
    tokens: Tokens,
    pad: int,
    batches: list[Rows],
    workers: int,
    begin: Callable[[], None] | None = None,
) -> Embeddings:
    """The rows of all batches, a batch to a thread; each thread calls `begin` first."""

    def one(batch: Rows) -> Embeddings:
        return embed(*_padded(tokens, batch, pad))

    first = one(batches[0])  # the longest: what does not fit fails at once
    rows = np.empty((len(tokens.lengths), first.shape[1]), np.float32)
    rows[batches[0]] = first
    shown = bar(len(rows), "embedding", "text")
    shown.update(len(first))
    pool = ThreadPoolExecutor(workers, initializer=begin)
    try:
        for batch, embedded in zip(batches[1:], pool.map(one, batches[1:])):
            rows[batch] = embedded
            shown.update(len(batch))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the rest
    shown.close()
    return rows


def _plain(network: Any) -> Embed:
    import torch

    def embed(ids: Rows, mask: Rows) -> Embeddings:
        with torch.no_grad():  # per thread
            rows: Embeddings = pooled(network, torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
        return rows

    return embed


def _converted(network: Any) -> Embed | None:
    """The network with its pooling, in ONNX Runtime; None where it cannot be converted."""
    import torch

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, ids: Any, mask: Any) -> Any:
            return pooled(self.network, ids, mask)

    key = state_sha256(network)
    if key not in _sessions:
        try:
            with quietly(), torch.no_grad():
                session = _session(Pooled().eval())
        except Exception as error:  # whatever an exporter meets in an unknown network: the reference works
            reason = str(error).splitlines()[0] if str(error) else ""
            _log.warning("ONNX does not take this network (%s: %s).", type(error).__name__, reason)
            return None
        while len(_sessions) >= 2:
            _sessions.pop(next(iter(_sessions)))
        _sessions[key] = session
    session = _sessions[key]

    def embed(ids: Rows, mask: Rows) -> Embeddings:
        return session.run(None, {"ids": ids, "mask": mask})[0]

    return embed


def _session(module: Any) -> Any:
    import onnxruntime
    import torch

    ids, mask = torch.ones((2, 7), dtype=torch.int64), torch.ones((2, 7), dtype=torch.int64)
    mask[1, 5:] = 0  # something is masked, or the mask would be traced away
    both = {0: "texts", 1: "width"}
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing remarks on every branch it follows; `_agrees` decides
        torch.onnx.export(
            module,
            (ids, mask),
            file,  # type: ignore[arg-type]
            input_names=["ids", "mask"],
            output_names=["rows"],
            dynamic_axes={"ids": both, "mask": both, "rows": {0: "texts"}},
            opset_version=17,
            dynamo=False,
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # it works in the thread that calls it
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])


def _agrees(embed: Embed, network: Any, tokens: Tokens, pad: int, batches: tuple[Rows, ...]) -> bool:
    """Whether the converted network gives the reference's rows on these batches."""
    plain = _plain(network)
    for batch in batches:
        ids, mask = _padded(tokens, batch, pad)
        try:
            off = float(np.linalg.norm(embed(ids, mask) - plain(ids, mask), axis=1).max())
        except Exception as error:  # ONNX Runtime's own kinds: a width that was traced as a constant
            _log.warning("ONNX Runtime fails on a batch of %s (%s); using PyTorch.", ids.shape, error)
            return False
        if not off <= FARTHEST:
            message = "ONNX Runtime's rows differ from PyTorch's by %.1e on a batch of %s; using PyTorch."
            _log.warning(message, off, ids.shape)
            return False
    return True


def _padded(tokens: Tokens, batch: Rows, pad: int) -> tuple[Rows, Rows]:
    return tokens.padded(batch, int(tokens.lengths[batch[0]]), pad)


@contextlib.contextmanager
def threads_each(count: int) -> Iterator[int]:
    """PyTorch with `count` threads inside an operation; yields the number it had, and puts it back.

    Several threads may be inside at once (a server's): a thread that begins meanwhile is given `count` by
    PyTorch, so the number from before the first came in is kept for all of them.
    """
    import torch

    global _inside, _outside
    nested = getattr(_here, "depth", 0)
    with _lock:
        now = torch.get_num_threads()
        if _inside == 0:
            _outside = now
        _inside += 1
        before = now if nested or _inside == 1 else _outside
    _here.depth = nested + 1
    torch.set_num_threads(count)
    try:
        yield before
    finally:
        _here.depth = nested
        with _lock:
            _inside -= 1
            torch.set_num_threads(before)
