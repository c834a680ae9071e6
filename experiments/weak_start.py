"""Masked language modelling that undoes an encoder's sentence-level training, to start where BERT does.

    python -m experiments.weak_start --encoder FOLDER --task TASK [--task TASK] --steps 2000 --out FOLDER
        [--preset gpu|cpu] [--save-at 250 500 1000] [--measure-at 0 500] [--layers 6] [--seed 0]

A sentence encoder ranks pairs well before any label; BERT's cosines say next to nothing. Masked language
modelling (Devlin et al., 2019: 15 % of the tokens, of which 80 % become [MASK], 10 % a random token and 10 %
stay) on the tasks' unlabelled training texts, without prefixes, takes a sentence encoder back to such a start
while it keeps its language. The rate is constant after a warm-up, so that every step saved on the way is a
start of its own strength.

    OUT/weak-NAME-STEPS/     an encoder folder for `--encoder`, with its provenance in weak_start.json
                             (--seed 1: weak-NAME-STEPS-seed1; --steps 0 --layers 6: NAME-6layers)
    OUT/weak_start.json      the settings, and the curve: loss and zero-label dev AP of every task by steps
    OUT/checkpoint.pt        weights, optimiser and step; the same command goes on from there

A step's batch, masks and dropout follow from the seed and the step alone, so a resumed run is the same run.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import generator_for
from pairsieve.errors import InputError, SettingsError
from pairsieve.files import atomic_file, atomic_folder, write_json
from pairsieve.measure.curve import measure_exactly
from pairsieve.models.encoder import TOKENISER_FILES, Encoder, Tokens, as_float32, encoder_named, quietly
from pairsieve.models.folders import NO_CODE, transformer_folder
from pairsieve.models.token_cache import texts_sha256
from pairsieve.scan import open_scan
from pairsieve.tasks import Task, load_task

PROVENANCE = "weak_start.json"
CHECKPOINT = "checkpoint.pt"
SORTED_BATCHES = 16  # so many batches are drawn together and sorted by length, to spend little on padding


@dataclass(frozen=True, kw_only=True)
class WeakStartSettings:
    """What decides the weights, beside the encoder and the texts."""

    batch_texts: int = 256
    learning_rate: float = 2e-4  # constant after the warm-up
    warmup_steps: int = 100
    masked_share: float = 0.15
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    max_length: int = 128  # tokens of a text that are read
    layers: int = 0  # keep the first layers only; 0: all
    seed: int = 0


PRESETS = {
    "gpu": (2000, WeakStartSettings()),
    # Fewer texts and a larger rate, for a few cores; how long it takes was not measured.
    "cpu": (200, WeakStartSettings(batch_texts=32, learning_rate=5e-4, warmup_steps=20, max_length=64)),
}


def training_texts(tasks: Sequence[Task]) -> list[str]:
    """The distinct texts of the tasks' training collections, both sides, in order."""
    sides = [side for task in tasks for side in (task.splits["train"].left, task.splits["train"].right)]
    return list(dict.fromkeys(text for side in sides for text in side.texts))


def batch_rows(lengths: NDArray[np.int64], settings: WeakStartSettings, step: int) -> NDArray[np.int64]:
    """The texts (b,) of a step: `SORTED_BATCHES` batches are drawn at once, sorted by length and dealt."""
    group, at = divmod(step, SORTED_BATCHES)
    rng = generator_for(settings.seed, group, "masked language modelling")
    wanted = SORTED_BATCHES * settings.batch_texts
    rows = rng.choice(len(lengths), wanted, replace=len(lengths) < wanted)
    rows = rows[np.argsort(lengths[rows], kind="stable")].reshape(SORTED_BATCHES, settings.batch_texts)
    chosen: NDArray[np.int64] = rows[rng.permutation(SORTED_BATCHES)[at]]
    return chosen


def mask_tokens(
    ids: Any, maskable: Any, mask_token: int, vocabulary: int, share: float, generator: Any
) -> tuple[Any, Any]:
    """Inputs and labels (n, width), labels -100 where nothing is asked.

    A `share` of the `maskable` tokens is asked: 80 % as `mask_token`, 10 % as a random token, 10 % as it is.
    """
    import torch

    draw = torch.rand(ids.shape, generator=generator, device=ids.device)
    asked = (draw < share) & maskable
    kind = torch.rand(ids.shape, generator=generator, device=ids.device)
    other = torch.randint(0, vocabulary, ids.shape, generator=generator, device=ids.device)
    inputs = torch.where(asked & (kind < 0.8), mask_token, ids)
    inputs = torch.where(asked & (kind >= 0.9), other, inputs)
    return inputs, torch.where(asked, ids, -100)


def load_masked_model(encoder: Encoder, settings: WeakStartSettings) -> Any:
    """The encoder with a language-modelling head; a head that its folder lacks starts from the seed."""
    import torch
    from transformers import AutoModelForMaskedLM

    with quietly(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        folder = transformer_folder(encoder.folder)
        model = AutoModelForMaskedLM.from_pretrained(
            str(folder), use_safetensors=True, **NO_CODE, **as_float32()
        )
    if settings.layers:
        stack = getattr(getattr(model.base_model, "encoder", None), "layer", ())
        if not 1 <= settings.layers <= len(stack):
            raise SettingsError(
                f"layers {settings.layers}: this encoder has a list of {len(stack)} layers. "
                "Leave --layers out to keep all."
            )
        model.base_model.encoder.layer = stack[: settings.layers]
        model.config.num_hidden_layers = settings.layers
    return model.float().to(encoder.device)


def zero_label_figures(
    encoder: Encoder, network: Any, task: Task, split_name: str = "dev"
) -> dict[str, float]:
    """AP and precision at recall 0.2 over all pairs of a split by plain cosines, before any label."""
    training = network.training
    trial, split = encoder.with_network(network), task.splits[split_name]
    left = trial.embed(split.left.texts, "left")
    right = None if split.space.symmetric else trial.embed(split.right.texts, "right")
    network.train(training)
    scan = open_scan(split.space, left, right, device=encoder.device.split(":")[0])
    curve = measure_exactly(scan, split.positives).curve
    return {
        "average_precision": curve.average_precision(),
        "precision_at_recall_0.2": curve.precision_at_recall(0.2),
    }


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How far to go, and what to leave on the way."""

    steps: int
    save_at: tuple[int, ...] = ()  # the last step is always saved
    measure_at: tuple[int, ...] = (0,)  # dev AP at these steps and at the saved ones; empty: at none
    checkpoint_every: int = 250

    @property
    def saved(self) -> list[int]:
        return sorted({*self.save_at, self.steps})

    @property
    def measured(self) -> list[int]:
        return sorted({*self.measure_at, *self.saved}) if self.measure_at else []


def make_weak_start(
    encoder: Encoder,
    tasks: Sequence[Task],
    plan: Plan,
    settings: WeakStartSettings,
    out: Path,
    command: str = "",
    say: Callable[[str], None] = lambda words: None,
) -> list[Path]:
    """Train up to `plan.steps`, from the checkpoint where there is one; the encoder folders it saved."""
    import torch

    if encoder.left_prefix or encoder.right_prefix:
        raise SettingsError("a weak start reads plain texts. Name the encoder without prefixes.")
    texts = training_texts(tasks)
    tokens = encoder.tokens(texts)
    about = _about(encoder, tasks, texts, settings, command)
    out.mkdir(parents=True, exist_ok=True)
    model = load_masked_model(encoder, settings)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    first, curve = _resume(out, about, model, optimiser, encoder.device)
    if first:
        say(f"going on from step {first:,}")
    vocabulary = _Vocabulary(encoder)
    losses: list[Any] = []
    began = time.perf_counter()
    with torch.random.fork_rng(devices=[encoder.device] if encoder.device.startswith("cuda") else []):
        for step in range(first, plan.steps + 1):
            if step in plan.measured and all(point["steps"] != step for point in curve):
                curve.append(_measure(encoder, model, tasks, step, losses, time.perf_counter() - began))
                say(_in_words(curve[-1]))
                losses = []
            if step in plan.saved:
                _save(out / start_name(encoder, settings, step), model, encoder, about, step, curve)
            if step == plan.steps or (step > first and step % plan.checkpoint_every == 0):
                _checkpoint(out, about, model, optimiser, step, curve)
            if step < plan.steps:
                losses.append(_train_step(model, optimiser, vocabulary, tokens, settings, step))
    return [out / start_name(encoder, settings, step) for step in plan.saved]


class _Vocabulary:
    """Special tokens of a tokeniser, on the device."""

    def __init__(self, encoder: Encoder) -> None:
        import torch

        tokenizer = encoder.tokenizer
        if tokenizer.mask_token_id is None:
            raise InputError("a tokeniser without a mask token", where=encoder.name)
        self.device, self.pad = encoder.device, encoder.pad
        self.mask_token = int(tokenizer.mask_token_id)
        self.size = len(tokenizer)
        special = torch.zeros(self.size, dtype=torch.bool)
        special[torch.tensor(sorted(set(tokenizer.all_special_ids)))] = True
        self.special = special.to(self.device)


def _train_step(
    model: Any, optimiser: Any, on: _Vocabulary, tokens: Tokens, settings: WeakStartSettings, step: int
) -> Any:
    import torch

    rows = batch_rows(tokens.lengths, settings, step)
    padded = tokens.padded(rows, int(tokens.lengths[rows].max()), on.pad)
    ids, mask = (torch.from_numpy(each).to(on.device) for each in padded)
    number = int(generator_for(settings.seed, step, "masks").integers(2**62))
    generator = torch.Generator(on.device).manual_seed(number)
    maskable = mask.bool() & ~on.special[ids]
    inputs, labels = mask_tokens(ids, maskable, on.mask_token, on.size, settings.masked_share, generator)
    torch.manual_seed(number)  # dropout's
    model.train()
    for group in optimiser.param_groups:
        group["lr"] = settings.learning_rate * min(1.0, (step + 1) / max(1, settings.warmup_steps))
    optimiser.zero_grad(set_to_none=True)
    with torch.autocast(on.device.split(":")[0], dtype=torch.bfloat16, enabled=on.device.startswith("cuda")):
        logits = model(input_ids=inputs, attention_mask=mask).logits
        asked = labels >= 0
        loss = torch.nn.functional.cross_entropy(logits[asked].float(), labels[asked])
    if asked.any():  # a batch of very short texts may ask for nothing; its mean is not a number
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
        optimiser.step()
    return loss.detach()


def _measure(
    encoder: Encoder, model: Any, tasks: Sequence[Task], step: int, losses: list[Any], seconds: float
) -> dict[str, Any]:
    import torch

    loss = float(torch.stack(losses).nanmean()) if losses else None  # mean since the last point
    dev = {task.name: zero_label_figures(encoder, model.base_model, task) for task in tasks}
    return {"steps": step, "loss": loss, "seconds": round(seconds, 1), "dev": dev}


def _in_words(point: dict[str, Any]) -> str:
    aps = ", ".join(f"{task} dev AP {found['average_precision']:.4f}" for task, found in point["dev"].items())
    loss = "" if point["loss"] is None else f"loss {point['loss']:.3f}, "
    return f"step {point['steps']:,}: {loss}{aps}, {point['seconds']:.0f} s"


# ── provenance, saved starts, checkpoints ───────────────────────────────────────────────────────


def _about(
    encoder: Encoder, tasks: Sequence[Task], texts: Sequence[str], settings: WeakStartSettings, command: str
) -> dict[str, Any]:
    """Where a start comes from: all that decides its weights, and the command."""
    import torch
    import transformers

    return {
        "source": Path(encoder.name).name,
        "source_fingerprint": encoder.fingerprint,
        "objective": "masked language modelling",
        "tasks": {task.name: task.fingerprint for task in tasks},
        "texts": len(texts),
        "texts_sha256": texts_sha256(texts),
        **asdict(settings),
        "device": encoder.device,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "command": command,
    }


def start_name(encoder: Encoder, settings: WeakStartSettings, step: int) -> str:
    """A start's folder, by which rows name it; layers cut without a step of training have no seed."""
    name = Path(encoder.name).name + (f"-{settings.layers}layers" if settings.layers else "")
    if settings.layers and not step:
        return name
    return f"weak-{name}-{step}" + (f"-seed{settings.seed}" if settings.seed else "")


def _save(
    folder: Path, model: Any, encoder: Encoder, about: dict[str, Any], step: int, curve: list[dict[str, Any]]
) -> None:
    """Write an encoder folder whole or not at all; the tokeniser's files are the source's, byte by byte."""
    if folder.exists():
        return
    with atomic_folder(folder) as beside:
        with quietly():
            model.base_model.save_pretrained(str(beside), safe_serialization=True)
        for path in transformer_folder(encoder.folder).glob("*"):
            if path.name in TOKENISER_FILES:
                shutil.copyfile(path, beside / path.name)
        saved_at = datetime.now(UTC).isoformat(timespec="seconds")
        write_json(beside / PROVENANCE, {**about, "steps": step, "made_at": saved_at, "curve": curve})


def _checkpoint(
    out: Path, about: dict[str, Any], model: Any, optimiser: Any, step: int, curve: list[dict[str, Any]]
) -> None:
    import torch

    state = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step}
    with atomic_file(out / CHECKPOINT) as beside:
        torch.save(state | {"of": _identity(about), "curve": json.dumps(curve)}, beside)
    write_json(out / PROVENANCE, {**about, "steps": step, "curve": curve})


def _resume(
    out: Path, about: dict[str, Any], model: Any, optimiser: Any, device: str
) -> tuple[int, list[dict[str, Any]]]:
    """The step reached before and the curve up to it; 0 and nothing without a checkpoint."""
    import torch

    path = out / CHECKPOINT
    if not path.exists():
        return 0, []
    state = torch.load(path, map_location=device, weights_only=True)
    if state["of"] != _identity(about):
        raise SettingsError(
            f"{path} was made from another encoder, other texts or other settings. Choose another --out."
        )
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    return int(state["step"]), list(json.loads(state["curve"]))


def _identity(about: dict[str, Any]) -> str:
    """What must be the same for a checkpoint to be gone on with; more steps may be asked for."""
    free = {"command", "versions", "device"}
    return json.dumps({key: value for key, value in about.items() if key not in free}, sort_keys=True)


def read_provenance(folder: Path) -> dict[str, Any]:
    """Where a start comes from; an encoder that was not weakened is its own source, after 0 steps."""
    path = folder / PROVENANCE
    if path.exists():
        return dict(json.loads(path.read_text()))
    return {"source": folder.name, "steps": 0, "layers": 0, "texts": 0, "seed": 0, "command": ""}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--encoder", required=True, help="folder or name of the encoder to weaken")
    parser.add_argument("--task", type=Path, action="append", required=True, help="task folder; repeat")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--preset", choices=tuple(PRESETS), default="gpu")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch-texts", type=int)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument(
        "--save-at", type=int, nargs="*", default=[], help="steps saved as starts of their own"
    )
    parser.add_argument(
        "--measure-at",
        type=int,
        nargs="*",
        default=[0],
        help="measure dev AP at these steps and the saved ones; without steps: never",
    )
    parser.add_argument("--checkpoint-every", type=int, default=250)
    parser.add_argument("--device", default=None)
    given = parser.parse_args(arguments)
    steps, settings = PRESETS[given.preset]
    names = ("batch_texts", "learning_rate", "max_length", "layers", "seed")
    settings = replace(
        settings, **{name: getattr(given, name) for name in names if getattr(given, name) is not None}
    )
    plan = Plan(
        steps=steps if given.steps is None else given.steps,
        save_at=tuple(given.save_at),
        measure_at=tuple(given.measure_at),
        checkpoint_every=given.checkpoint_every,
    )
    encoder = encoder_named(given.encoder, settings.max_length, device=given.device)
    tasks = [load_task(folder) for folder in given.task]
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = "python -m experiments.weak_start " + shlex.join(_short(words))
    saved = make_weak_start(
        encoder,
        tasks,
        plan,
        settings,
        given.out,
        command,
        lambda line: print(line, file=sys.stderr, flush=True),
    )
    for folder in saved:
        print(folder)


def _short(words: Sequence[str]) -> list[str]:
    """The arguments with folders by their last name: a path of one machine says nothing elsewhere."""
    return [Path(word).name if "/" in word else word for word in words]


if __name__ == "__main__":
    main()
