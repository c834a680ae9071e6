"""The training loop of bi-encoders and cross-encoders, on CPU and CUDA.

AdamW without weight decay, the rate warmed up over the first tenth of the steps and then brought down to zero
in a straight line, shuffled batches, the last partial batch of an epoch dropped where there is a full one.

Small batches leave a GPU waiting for launches, not for arithmetic. So on CUDA the whole step (forward,
backward, optimiser) is captured once per shape as a CUDA graph and replayed; tokens, labels, order and rates
lie on the device, and nothing waits for the host inside an epoch. Networks that `packed.py` knows run there,
without padding; others run as they are, padded. `graph=False` runs the plain step: it is the reference, and
what a CPU does.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import SettingsError
from pairsieve.models.encoder import Tokens
from pairsieve.pairs import Rows
from pairsieve.progress import tracked

if TYPE_CHECKING:
    from pairsieve.models.packed import PackedNetwork
    from pairsieve.models.packed_batches import PackedSteps

Losses = NDArray[np.float32]
Groups = list[tuple[list[Any], float]]  # parameters, and the factor on their learning rate

BETAS = (0.9, 0.999)  # AdamW's
WIDTH_STEP = 16  # captured widths are multiples of this: at most 8 graphs for 128 tokens


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The paper's training, except where a comment says otherwise (appendix on training details)."""

    learning_rate: float = 2e-5  # of the transformer, at the top of the schedule
    head_rate_factor: float = 1e4  # the head learns this many times faster
    epsilon: float = 1e-6  # AdamW's
    weight_decay: float = 0.0
    batch_size: int = 16  # pairs
    epochs: int = 2
    steps: int = 0  # at least so many: few examples are seen more often
    warmup: float = 0.1  # share of all steps over which the rate rises
    graph: bool = True  # CUDA only: capture the step; ours, changes speed and rounding only
    bf16: bool = True  # CUDA only: the transformer in bfloat16 autocast, head and loss in float32; ours


class Job(Protocol):
    """What is trained: a loss over rows of labelled examples that lie on the device."""

    networks: list[Any]  # in training mode where dropout is wanted
    widths: Rows  # (n,) tokens that each example needs, on the host
    longest: int  # tokens that the network takes at most
    kept: dict[str, Any]  # what a training leaves for the next one of the same job

    def groups(self) -> Groups:
        """Parameters, with the factor on the learning rate for each group."""

    def outputs(self, rows: Any, width: int, prepared: bool) -> Any:
        """What the network makes of examples `rows` (b,), padded to `width` tokens, in float32.

        `prepared` asks for an additive 4-D attention mask, which transformers takes as it is; of a 2-D mask
        it would first ask the host whether anything is masked at all, and a captured step cannot.
        """

    def loss(self, outputs: Any, rows: Any) -> Any:
        """Mean loss of the outputs against the labels of `rows`."""

    def settle(self) -> None:
        """Put constraints back in force after a step."""

    def packed(self) -> tuple[PackedNetwork, Tokens, Rows, int] | None:
        """For a job whose outputs are one network's unit rows: that network packed, all tokens, the texts
        (n, k) of every example, and the padding token; the outputs of a batch are then those of
        texts[rows].T, flattened. The first of `groups` must be that network's parameters. None otherwise."""


class DeviceTokens:
    """Tokens on the device, padded there: rows (b,) -> ids and mask (b, width)."""

    def __init__(
        self, tokens: Tokens, pad: int, device: str, longest: int, left_padded: bool = False
    ) -> None:
        import torch

        self._ids = torch.from_numpy(tokens.ids.astype(np.int64)).to(device)
        self._starts = torch.from_numpy(tokens.starts[:-1].copy()).to(device)
        self._lengths = torch.from_numpy(tokens.lengths.copy()).to(device)
        self._columns = torch.arange(longest, device=device)
        self._pad, self._left_padded = pad, left_padded

    def __call__(self, rows: Any, width: int) -> tuple[Any, Any]:
        columns = self._columns[:width].unsqueeze(0)
        lengths = self._lengths[rows].unsqueeze(1)
        if self._left_padded:
            columns = columns - (width - lengths)
        mask = (columns >= 0) & (columns < lengths)
        at = (self._starts[rows].unsqueeze(1) + columns).clamp(0, len(self._ids) - 1)
        return self._ids[at].masked_fill(~mask, self._pad), mask.to(self._ids.dtype)


def additive(mask: Any) -> Any:
    """A 4-D attention mask (n, 1, 1, width): 0 where a token stands, -30,000 elsewhere (its softmax is 0)."""
    return (1.0 - mask.float()).mul(-30000.0)[:, None, None, :]


def schedule(steps: int, warmup: float) -> NDArray[np.float64]:
    """Factor on the learning rate at each step: up in a line over `warmup · steps`, then down to 0."""
    step = np.arange(steps)
    rising = max(1, int(warmup * steps))
    return np.where(step < rising, (step + 1) / rising, (steps - step) / max(1, steps - rising))


def batches(count: int, settings: TrainingSettings, rng: np.random.Generator) -> list[Rows]:
    """The rows of every step over all epochs, each epoch in a fresh random order."""
    size = settings.batch_size
    full = count // size * size or count
    epochs = max(settings.epochs, -(-settings.steps // max(1, -(-full // size))))
    orders = [rng.permutation(count)[:full] for _ in range(epochs)]
    return [order[at : at + size] for order in orders for at in range(0, full, size)]


def train(job: Job, settings: TrainingSettings, rng: np.random.Generator, device: str) -> Losses:
    """Run the job's training in place; returns the loss of every step."""
    import torch

    steps = batches(len(job.widths), settings, rng)
    needed = [int(job.widths[rows].max()) for rows in steps]
    on_cuda = device.startswith("cuda")
    with torch.random.fork_rng(devices=[torch.device(device)] if on_cuda else []):
        torch.manual_seed(int(rng.integers(2**62)))  # dropout's random numbers, where there is dropout
        packed = job.packed() if on_cuda and settings.graph and settings.bf16 else None
        if packed is not None:
            with torch.cuda.device(device):
                losses = _train_packed(job, settings, steps, packed, device)
        elif on_cuda and settings.graph and takes_prepared_mask(job, steps[0], settings, device):
            with torch.cuda.device(device):
                losses = _train_captured(job, settings, steps, needed, device)
        else:
            losses = _train_eagerly(job, settings, steps, needed, device)
    mean = float(losses[-max(1, len(job.widths) // settings.batch_size) :].mean())  # of the last epoch
    if not math.isfinite(mean):
        raise SettingsError(
            f"training diverged: the mean loss of the last epoch is {mean}. "
            f"Lower the learning rate (now {settings.learning_rate:g})."
        )
    return losses


def takes_prepared_mask(job: Job, rows: Rows, settings: TrainingSettings, device: str) -> bool:
    """Whether the network gives the same scores with the additive 4-D mask as with the plain one."""
    import torch

    if any(getattr(network.config, "model_type", "") == "mpnet" for network in job.networks):
        return False  # it makes its relative positions on the host, which a captured step cannot
    at = torch.from_numpy(rows).to(device)
    width = min(int(job.widths[rows].max()) + WIDTH_STEP, job.longest)  # so that something is masked
    modes = [network.training for network in job.networks]
    try:
        with torch.no_grad():
            for network in job.networks:
                network.eval()
            plain = job.outputs(at, width, prepared=False)
            prepared = job.outputs(at, width, prepared=True)
            with _autocast(settings, device):
                job.outputs(at, width, prepared=True)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return False  # XLNet, for one, wants two dimensions: such a network trains without capture
    finally:
        for network, mode in zip(job.networks, modes, strict=True):
            network.train(mode)
    return bool(torch.allclose(plain, prepared, rtol=1e-3, atol=1e-3))


def _train_eagerly(
    job: Job, settings: TrainingSettings, steps: list[Rows], needed: list[int], device: str
) -> Losses:
    import torch

    factors = schedule(len(steps), settings.warmup)
    groups = job.groups()
    optimiser = _adamw(groups, settings, [settings.learning_rate * factor for _, factor in groups])
    losses: list[Any] = []
    for rows, width, rate in tracked(list(zip(steps, needed, factors, strict=True)), "training", "step"):
        for group, (_, factor) in zip(optimiser.param_groups, groups, strict=True):
            group["lr"] = settings.learning_rate * factor * float(rate)
        optimiser.zero_grad(set_to_none=True)
        at_device = torch.from_numpy(rows).to(device)
        with _autocast(settings, device):
            outputs = job.outputs(at_device, width, prepared=False)
        loss = job.loss(outputs, at_device)
        loss.backward()
        optimiser.step()
        job.settle()
        losses.append(loss.detach())
    return _on_host(torch.stack(losses))


def _train_captured(
    job: Job, settings: TrainingSettings, steps: list[Rows], needed: list[int], device: str
) -> Losses:
    """The same steps, each a replay of the graph captured for its width."""
    import torch

    groups = job.groups()
    factors = torch.from_numpy(schedule(len(steps), settings.warmup)).to(device, torch.float32)
    order = torch.from_numpy(np.stack(steps)).to(device)
    widths = [min(-(-width // WIDTH_STEP) * WIDTH_STEP, job.longest) for width in needed]

    rows = order[0].clone()  # the one buffer every graph reads its batch from
    rates = [torch.zeros((), device=device) for _ in groups]
    tops = [settings.learning_rate * factor for _, factor in groups]
    losses = torch.zeros(len(steps), device=device)
    cursor = torch.zeros(1, dtype=torch.int64, device=device)
    optimiser = _adamw(groups, settings, rates, capturable=True)

    def step(width: int) -> None:
        optimiser.zero_grad(set_to_none=True)
        # Weights are cast afresh inside every step: a cast kept from one capture would be stale in the next.
        with _autocast(settings, device, cached=False):
            outputs = job.outputs(rows, width, prepared=True)
        loss = job.loss(outputs, rows)
        loss.backward()
        optimiser.step()
        job.settle()
        losses.index_copy_(0, cursor, loss.detach()[None])

    with _put_back(groups, optimiser):
        graphs = _captured(step, widths, warm_up=3, before_capture=optimiser.zero_grad)
    positions = torch.arange(len(steps), device=device)
    for at, width in enumerate(tracked(widths, "training", "step")):
        cursor.copy_(positions[at : at + 1])
        rows.copy_(order[at])
        for rate, top in zip(rates, tops, strict=True):
            torch.mul(factors[at], top, out=rate)
        graphs[width].replay()
    torch.cuda.synchronize()
    optimiser.zero_grad(set_to_none=True)
    return _on_host(losses)


def _train_packed(
    job: Job,
    settings: TrainingSettings,
    steps: list[Rows],
    packed: tuple[PackedNetwork, Tokens, Rows, int],
    device: str,
) -> Losses:
    """The same steps over packed tokens, each a replay of the graph captured for its shape."""
    import torch

    from pairsieve.models.packed_batches import PackedSteps

    network, tokens, texts, pad = packed
    all_rows = np.stack(steps)
    laid = PackedSteps(
        tokens, texts[all_rows].transpose(0, 2, 1).reshape(len(steps), -1), pad, network.offset, device
    )
    order = torch.from_numpy(all_rows).to(device)
    captured: _PackedSteps | None = job.kept.get("steps")
    if captured is None or not captured.holds(laid):
        captured = job.kept["steps"] = _PackedSteps(job, settings, network, laid, torch.zeros_like(order[0]))
    hypers = torch.from_numpy(_hypers(settings, len(steps))).to(device, torch.float32)
    return captured.run(laid, order, hypers)


class _PackedSteps:
    """A job's captured steps over packed tokens, with the buffers they read, for all its trainings."""

    def __init__(
        self, job: Job, settings: TrainingSettings, network: PackedNetwork, laid: PackedSteps, rows: Any
    ) -> None:
        """`rows` (b,): the buffer for the examples of a batch."""
        import torch

        from pairsieve.models.packed_batches import BatchBuffers

        self._job, self._network, self._buffers = job, network, BatchBuffers(laid)
        self._room = laid.room
        self._rows, device = rows, rows.device
        self._hyper = torch.zeros(3, device=device)
        self._heads = job.groups()[1:]
        self._rates = [torch.zeros((), device=device) for _ in self._heads]
        rates = self._rates
        self._optimiser = _adamw(self._heads, settings, rates, capturable=True) if self._heads else None
        self._losses = torch.zeros(self._room[0], device=device)
        self._cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self._adam = network.adamw(self._hyper, *BETAS, settings.epsilon, settings.weight_decay)
        self._graphs: dict[tuple[int, int], Any] = {}

    def holds(self, laid: PackedSteps) -> bool:
        return all(have >= wanted for have, wanted in zip(self._room, laid.room, strict=True))

    def _step(self, shape: tuple[int, int]) -> None:
        import torch

        from pairsieve.models.packed import pooled_rows

        network, batch, optimiser = self._network, self._buffers.batch(shape), self._optimiser
        with torch.no_grad():
            hidden = network.forward(batch)
        hidden.requires_grad_()
        if optimiser is not None:
            optimiser.zero_grad(set_to_none=True)
            for rate, (_, factor) in zip(self._rates, self._heads, strict=True):
                torch.mul(self._hyper[0], factor, out=rate)
        loss = self._job.loss(pooled_rows(hidden, batch), self._rows)
        loss.backward()
        with torch.no_grad():
            if optimiser is not None:
                network.aside(optimiser.step)
            network.backward(batch, hidden.grad, self._adam)
            self._job.settle()
            self._losses.index_copy_(0, self._cursor, loss.detach()[None])

    def run(self, laid: PackedSteps, order: Any, hypers: Any) -> Losses:
        """One training from the network's weights, over batches `order` (S, b) of the job's examples."""
        import torch

        shapes = laid.shapes()
        first_of = {shape: at for at, shape in reversed(list(enumerate(shapes)))}
        new = [shape for shape in shapes if shape not in self._graphs]

        def prepare(shape: tuple[int, int]) -> None:
            self._buffers.fill(laid.batch(first_of[shape]))
            self._rows.copy_(order[first_of[shape]])

        with _put_back(self._heads, self._optimiser):
            self._graphs |= _captured(self._step, new, prepare)
        self._network.load()  # the steps above have moved the weights
        positions = torch.arange(len(shapes), device=order.device)
        for at, shape in enumerate(tracked(shapes, "training", "step")):
            self._cursor.copy_(positions[at : at + 1])
            self._buffers.fill(laid.batch(at))
            self._rows.copy_(order[at])
            self._hyper.copy_(hypers[at])
            self._graphs[shape].replay()
        self._network.store()
        torch.cuda.synchronize()
        return _on_host(self._losses[: len(shapes)])


def _captured(
    step: Callable[[Any], None],
    shapes: Sequence[Any],
    prepare: Callable[[Any], None] = lambda shape: None,
    warm_up: int = 1,
    before_capture: Callable[[], None] = lambda: None,
) -> dict[Any, Any]:
    """The CUDA graph of `step(shape)` for each distinct shape.

    The first shape runs `warm_up` times before its capture, the others once: kernels are compiled and
    libraries set themselves up outside the capture.
    """
    import torch

    graphs: dict[Any, Any] = {}
    pool = torch.cuda.graph_pool_handle()
    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    for shape in sorted(set(shapes), reverse=True):  # the largest first, so that the others fit its memory
        prepare(shape)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), warnings.catch_warnings():
            # AdamW remarks that a step made for capture runs without one: these few are meant to.
            warnings.filterwarnings("ignore", message=".*capturable=True.*")
            for _ in range(1 if graphs else warm_up):
                step(shape)
        torch.cuda.current_stream().wait_stream(side)
        graphs[shape] = torch.cuda.CUDAGraph()
        before_capture()
        with torch.cuda.graph(graphs[shape], pool=pool):
            step(shape)
    return graphs


@contextlib.contextmanager
def _put_back(groups: Groups, optimiser: Any) -> Iterator[None]:
    """Undo what steps inside do to parameters and optimiser, in place: graphs hold their addresses."""
    import torch

    parameters = [parameter for group, _ in groups for parameter in group]
    before = [parameter.detach().clone() for parameter in parameters]
    yield
    with torch.no_grad():
        for parameter, value in zip(parameters, before, strict=True):
            parameter.copy_(value)
        for state in optimiser.state.values() if optimiser is not None else ():
            for value in state.values():
                value.zero_()


def _on_host(losses: Any) -> Losses:
    return losses.float().cpu().numpy()


def _hypers(settings: TrainingSettings, steps: int) -> NDArray[np.float64]:
    """(steps, 3): the rate, and AdamW's two corrections for moments that began at zero."""
    at = np.arange(1, steps + 1)
    rate = settings.learning_rate * schedule(steps, settings.warmup)
    return np.stack([rate, *(1 / (1 - beta**at) for beta in BETAS)], axis=1)


def _adamw(groups: Groups, settings: TrainingSettings, rates: list[Any], capturable: bool = False) -> Any:
    import torch

    return torch.optim.AdamW(
        [{"params": group, "lr": rate} for (group, _), rate in zip(groups, rates, strict=True)],
        betas=BETAS,
        eps=settings.epsilon,
        weight_decay=settings.weight_decay,
        fused=True,
        capturable=capturable,
    )


def _autocast(settings: TrainingSettings, device: str, cached: bool = True) -> Any:
    import torch

    return torch.autocast(
        device.split(":")[0],
        dtype=torch.bfloat16,
        enabled=settings.bf16 and device.startswith("cuda"),
        cache_enabled=cached,
    )
