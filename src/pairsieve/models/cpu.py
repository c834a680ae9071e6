"""Embedding on the CPU: a core takes whole batches, by oneDNN, plain PyTorch or ONNX Runtime.

A batch holds about a thousand tokens, little enough that what passes between the layers stays in the cache,
and one thread takes it from end to end. What comes out does not depend on the number of threads (up to 31).

The back-end is the forward pass written out in `packed_cpu.py` (`packed`) for the networks it knows. For
others it is plain PyTorch (`torch`), or ONNX Runtime (`onnx`) where it is installed and texts are enough to
pay for the conversion; `PAIRSIEVE_CPU_BACKEND` names one for good. The rule never looks at a clock, so the
same texts on the same machine are embedded the same way twice. `packed` and `onnx` are compared with PyTorch
on two batches before they are used, and left aside where a row lies further than 5e-6 from the reference
(then a cosine could be off by more than 1e-5). So all back-ends share one fingerprint and one cache.
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
from weakref import WeakKeyDictionary

import numpy as np

from pairsieve.errors import InputError, MissingExtra, nearest
from pairsieve.models.encoder import Embeddings, Tokens, pooled, quietly, state_sha256
from pairsieve.pairs import Rows
from pairsieve.progress import bar

BACKENDS = ("auto", "packed", "torch", "onnx")
CHOICE = "PAIRSIEVE_CPU_BACKEND"
BATCH_TOKENS = {"packed": 1024, "torch": 1024, "onnx": 512}  # padding included
WORTH_CONVERTING = 300_000  # tokens from which converting (some seconds) is won back on two cores
COMPARED = 8  # texts of a batch, or up to twice as many
FARTHEST = 5e-6  # a row of a converted network from the reference's: no cosine is off by more than twice that
MOST_WORKERS = 16  # beyond, Python itself would be the queue; more cores share their batches

Embed = Callable[[Rows], Embeddings]  # texts of a batch (n,), longest first -> (n, d)

_log = logging.getLogger("pairsieve")
_sessions: dict[str, Any] = {}  # the networks converted last, by their weights
_agreed: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()  # networks whose packed rows were compared
_lock, _here = threading.Lock(), threading.local()
_inside, _outside = 0, 1  # threads inside `threads_each` now; PyTorch's threads before the first of them


def embed_on_cpu(network: Any, tokens: Tokens, pad: int, backend: str | None = None) -> Embeddings:
    """Mean-pooled unit rows (n, d) of tokenised texts, on as many threads as PyTorch has been given."""
    import torch

    from pairsieve.models.packed_cpu import PackedCpuNetwork, can_pack  # which imports this file

    with threads_each(1) as threads:
        plain = _plain(network, tokens, pad)
        chosen = chosen_backend(int(tokens.starts[-1]), backend, can_pack(network))
        if chosen != "torch":
            batches = batched(tokens.lengths, BATCH_TOKENS[chosen])
            embed: Embed | None
            if chosen == "packed":
                embed = _packed(PackedCpuNetwork(network), tokens) if can_pack(network) else None
            else:
                embed = _converted(network, tokens, pad)
            if embed is not None and _agrees(chosen, network, embed, plain, (batches[0], batches[-1])):
                return _spread(embed, batches, threads)
        each = max(1, threads // MOST_WORKERS)
        begin = partial(torch.set_num_threads, each)  # which holds for the thread that calls it
        return _spread(plain, batched(tokens.lengths, BATCH_TOKENS["torch"]), threads // each, begin)


def embed_packed_on_cpu(packed: Any, tokens: Tokens) -> Embeddings:
    """As `embed_on_cpu`, by a network that is prepared already (`packed_cpu.PackedCpuNetwork`)."""
    with threads_each(1) as threads:
        return _spread(_packed(packed, tokens), batched(tokens.lengths, BATCH_TOKENS["packed"]), threads)


def chosen_backend(tokens: int, backend: str | None = None, packs: bool = False) -> str:
    """The back-end for so many tokens: as asked for, by argument or environment, or by the rule above."""
    asked = backend or os.environ.get(CHOICE) or "auto"
    if asked not in BACKENDS:
        where = CHOICE if backend is None else "backend"
        raise InputError(f"unknown CPU back-end {asked!r}", where=where, remedy=nearest(asked, BACKENDS))
    missing = [name for name in ("onnxruntime", "onnx") if importlib.util.find_spec(name) is None]
    if asked == "onnx" and missing:
        raise MissingExtra(missing[0], "embedding by ONNX Runtime", "pip install 'pairsieve[onnx]'")
    if asked != "auto":
        return asked
    if packs:
        return "packed"
    return "onnx" if not missing and tokens >= WORTH_CONVERTING else "torch"


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
    embed: Embed, batches: list[Rows], workers: int, begin: Callable[[], None] | None = None
) -> Embeddings:
    """The rows of all batches, a batch to a thread; each thread calls `begin` first."""
    first = embed(batches[0])  # the longest: what does not fit fails at once
    rows = np.empty((sum(map(len, batches)), first.shape[1]), np.float32)
    rows[batches[0]] = first
    shown = bar(len(rows), "embedding", "text")
    shown.update(len(first))
    pool = ThreadPoolExecutor(workers, initializer=begin)
    try:
        for batch, embedded in zip(batches[1:], pool.map(embed, batches[1:])):
            rows[batch] = embedded
            shown.update(len(batch))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the rest
    shown.close()
    return rows


def _plain(network: Any, tokens: Tokens, pad: int) -> Embed:
    import torch

    def embed(batch: Rows) -> Embeddings:
        ids, mask = map(torch.from_numpy, _padded(tokens, batch, pad))
        with torch.no_grad():  # per thread
            rows: Embeddings = pooled(network, ids, mask).numpy()
        return rows

    return embed


def _packed(packed: Any, tokens: Tokens) -> Embed:
    return lambda batch: packed.rows(tokens.take(batch))


def _converted(network: Any, tokens: Tokens, pad: int) -> Embed | None:
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

    def embed(batch: Rows) -> Embeddings:
        ids, mask = _padded(tokens, batch, pad)
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


def _agrees(name: str, network: Any, embed: Embed, plain: Embed, batches: tuple[Rows, ...]) -> bool:
    """Whether a back-end gives the reference's rows on these batches; `packed` is asked once a network."""
    if name == "packed" and network in _agreed:
        return _agreed[network]
    found = all(_same(name, embed, plain, batch) for batch in batches)
    if name == "packed":
        _agreed[network] = found
    return found


def _same(name: str, embed: Embed, plain: Embed, batch: Rows) -> bool:
    some = batch[:: max(1, len(batch) // COMPARED)]  # longest first too
    try:
        off = float(np.linalg.norm(embed(some) - plain(some), axis=1).max())
    except Exception as error:  # ONNX Runtime's own kinds: a width that was traced as a constant
        _log.warning("Back-end %s fails on %d texts (%s); using PyTorch.", name, len(some), error)
        return False
    if not off <= FARTHEST:
        message = "Rows of back-end %s differ from PyTorch's by %.1e on %d texts; using PyTorch."
        _log.warning(message, name, off, len(some))
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
