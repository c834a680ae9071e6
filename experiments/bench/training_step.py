"""A training step of 16 pairs of 16 tokens on CUDA beside the plain loop: milliseconds, loss curves.

    PYTHONPATH=src python3 -m experiments.bench.training_step [--json FILE] [--steps 600]

On CUDA, for networks of the size of BERT-base and e5-small (random weights, as time does not depend on them):
seconds a step of the packed captured step, of the padded captured step and of the plain loop in the same run;
then the loss curves of the packed and the plain loop on the same separable pairs, beside each other.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel

from pairsieve import __version__
from pairsieve.models import training
from pairsieve.models.encoder import Tokens
from pairsieve.models.full import FullLearner, LossSettings, _PairJob
from pairsieve.models.training import TrainingSettings, train

SIZES = {
    "BERT-base size (MPNet)": (MPNetModel, MPNetConfig(pad_token_id=1), 4.5),
    "BERT-base size (BERT)": (BertModel, BertConfig(), 4.5),
    "e5-small size": (
        BertModel,
        BertConfig(hidden_size=384, num_attention_heads=12, intermediate_size=1536),
        3.2,
    ),
}
LENGTH = 16


class Stand:
    """What a job needs of an encoder."""

    max_length, pad = 128, 1

    def __init__(self, device: str) -> None:
        self.device = device


def synthetic_pairs(count: int, seed: int = 0) -> tuple[Tokens, Any, Any]:
    """Pairs of 16 tokens; a match repeats most of the other text's tokens."""
    rng = np.random.default_rng(seed)
    left = rng.integers(1000, 5000, size=(count, LENGTH))
    right = rng.integers(1000, 5000, size=(count, LENGTH))
    labels = rng.random(count) < 0.5
    kept = rng.random((count, LENGTH)) < 0.4
    right[labels] = np.where(kept, left, right)[labels]
    ids = np.concatenate([left, right]).astype(np.int32)
    return Tokens(ids.reshape(-1), np.arange(2 * count + 1) * LENGTH), ids, labels


def one_way(network: Any, tokens: Tokens, labels: Any, steps: int, **how: Any) -> tuple[float, Any, str]:
    """Milliseconds a step, losses, and which way was taken."""
    count = steps * 16
    left, right = np.arange(count), np.arange(count)
    both = len(tokens.lengths) // 2
    one = Tokens(tokens.ids[: both * LENGTH], tokens.starts[: both + 1])
    other = Tokens(tokens.ids[both * LENGTH :], tokens.starts[: both + 1])
    settings = TrainingSettings(epochs=1, **{k: v for k, v in how.items() if k != "packed"})
    learner = FullLearner(Stand("cuda"), settings, LossSettings(head_weight=2.0, head_bias=0.0))  # type: ignore[arg-type]
    job = _PairJob(
        learner,
        [network],
        one,
        other,
        left,
        right,
        labels[:count],
        (left, -1 - right),
        "cuda",
        np.zeros(count, np.float32),
    )
    if not how.get("packed", True):
        job.packed = lambda: None  # type: ignore[method-assign]
    torch.cuda.synchronize()
    spent = Replays()
    began = time.perf_counter()
    with spent:
        losses = train(job, settings, np.random.default_rng(1), "cuda")
    torch.cuda.synchronize()
    whole = time.perf_counter() - began
    looped = time.perf_counter() - spent.began if spent.began else whole
    return 1000 * looped / steps, losses, f"{whole - looped:.1f} s before the first step"


class Replays:
    """Notes when the steps themselves begin: at their progress bar, after capture."""

    def __enter__(self) -> Replays:
        self.began, self._tracked = 0.0, training.tracked

        def noted(*args: Any, **more: Any) -> Any:
            torch.cuda.synchronize()
            self.began = time.perf_counter()
            return self._tracked(*args, **more)

        training.tracked = noted
        return self

    def __exit__(self, *_: Any) -> None:
        training.tracked = self._tracked


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    rows = []
    tokens, _, labels = synthetic_pairs(args.steps * 16)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, 16 pairs of {LENGTH} tokens a step")
    for name, (kind, config, asked) in SIZES.items():
        torch.manual_seed(0)
        network = kind(config).cuda().eval()
        start = {key: value.clone() for key, value in network.state_dict().items()}
        found: dict[str, Any] = {}
        plain_steps = min(args.steps, 200)
        for way, how, steps in (
            ("packed, captured", {}, args.steps),
            ("padded, captured", {"packed": False}, plain_steps),
            ("plain loop", {"graph": False}, plain_steps),
        ):
            network.load_state_dict(start)
            found[way] = one_way(network, tokens, labels, steps, **how)
            print(f"  {name:24} {way:18} {found[way][0]:7.3f} ms a step, {found[way][2]}", flush=True)
        network.load_state_dict(start)
        again = one_way(network, tokens, labels, plain_steps)[1]
        curve, plain = again, found["plain loop"][1]
        gap = float(np.abs(np.convolve(curve - plain, np.ones(20) / 20, "valid")).max())
        print(
            f"  {name:24} loss, packed / plain, first and last 20 of {plain_steps} steps: "
            f"{curve[:20].mean():.4f} / {plain[:20].mean():.4f}, {curve[-20:].mean():.4f} / "
            f"{plain[-20:].mean():.4f}; largest gap of means over 20 steps {gap:.4f}",
            flush=True,
        )
        ours, peer = found["packed, captured"][0], found["plain loop"][0]
        rows.append(
            {
                "claim": f"training step, {name}, 16 pairs of {LENGTH} tokens",
                "ours": "packed, captured",
                "ours_s": ours / 1000,
                "peer": "plain PyTorch loop, bf16 autocast",
                "peer_s": peer / 1000,
                "ratio": peer / ours,
                "asked": f"under {asked} ms",
                "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
                "size": f"{sum(p.numel() for p in network.parameters()) / 1e6:.0f}M parameters",
                "loss_gap": gap,
                "machine": f"{torch.cuda.get_device_name()}; pairsieve {__version__}",
            }
        )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
