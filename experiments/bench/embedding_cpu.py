"""Embedding on a CPU: our back-ends in float32, and bfloat16, beside sentence-transformers' encode.

    python -m experiments.bench.embedding_cpu [--texts 2000] [--task FOLDER --split test] [--encoder NAME]
        [--json FILE]

Synthetic questions or the texts of a task's split, each once, through the bundled encoder; normalised rows
with texts cut at 128 tokens on both sides. Tokenising is inside both clocks; converting (ONNX, once per
network) is outside, and printed. The farthest row from plain PyTorch, text by text, is printed beside the
seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.claims import Claim, Side, busy, finish, in_turns, parser

LENGTH = 128


def ours(encoder: str, texts: list[str], threads: int, backend: str) -> Callable[[], Any]:
    import torch

    from pairsieve.models import encoder_named
    from pairsieve.models.cpu import embed_on_cpu, embed_packed_on_cpu

    torch.set_num_threads(threads)
    half = backend == "bfloat16"
    ours = encoder_named(encoder, LENGTH, device="cpu", precision="bfloat16" if half else "float32")

    def embed(tokens: Any) -> Any:
        if half:
            return embed_packed_on_cpu(ours._reduced, tokens)
        return embed_on_cpu(ours.network, tokens, ours.pad, backend)

    start = time.perf_counter()
    embed(ours.tokens(texts[:64]))
    first = time.perf_counter() - start

    def work() -> Any:
        tokens = ours._tokenised(texts, "")  # without the cache: the peer has none
        return embed(tokens), first, float(tokens.lengths.mean())

    return work


def sentence_transformers(encoder: str, texts: list[str], threads: int) -> Callable[[], Any]:
    import torch
    from sentence_transformers import SentenceTransformer

    from pairsieve.models.folders import folder_named

    torch.set_num_threads(threads)
    model = SentenceTransformer(str(folder_named(encoder)), device="cpu")
    model.max_seq_length = LENGTH
    model.encode(texts[:64], show_progress_bar=False)
    return lambda: model.encode(texts, normalize_embeddings=True, show_progress_bar=False)


def reference(encoder: str, texts: list[str]) -> Callable[[], Any]:
    """Every text by itself through plain PyTorch."""
    import torch

    from pairsieve.models import encoder_named
    from pairsieve.models.encoder import pooled

    torch.set_num_threads(1)
    ours = encoder_named(encoder, LENGTH, device="cpu")

    def work() -> Any:
        rows = []
        for text in texts:
            ids = torch.tensor([ours.tokenizer(text, truncation=True, max_length=LENGTH)["input_ids"]])
            with torch.no_grad():
                rows.append(pooled(ours.network, ids, torch.ones_like(ids)).numpy())
        return np.concatenate(rows)

    return work


def main() -> None:
    asked = arguments()
    texts, name = chosen_texts(asked.task, asked.split, asked.texts)
    backends = ["packed", "bfloat16", "torch"] + (["onnx"] if asked.onnx else [])
    sides = [Side(sentence_transformers, asked.encoder, texts, asked.threads)]
    sides += [Side(ours, asked.encoder, texts, asked.threads, backend) for backend in backends]
    best = in_turns(sides, asked.repeats)
    some = min(100, len(texts))
    plain = Side(reference, asked.encoder, texts[:some])
    plain.run()
    plain.close()
    peer_peak = sides[0].close()
    claims = []
    for backend, side, seconds in zip(backends, sides[1:], best[1:]):
        rows, first, tokens = side.result
        far = float(np.linalg.norm(rows[:some] - plain.result, axis=1).max())
        cosines = float(np.abs(rows[:some] @ rows[:some].T - plain.result @ plain.result.T).max())
        claims.append(
            Claim(
                f"Embedding on a CPU by {backend}, {name}",
                f"pairsieve, {backend}",
                seconds,
                "sentence-transformers encode",
                best[0],
                best[0] / seconds,
                "at least 3 times" if backend in ("packed", "bfloat16") else "at least 1.3 times",
                side.close(),
                f"{len(texts):,} texts of {tokens:.0f} tokens, {asked.threads} threads, {asked.encoder}",
                f"{len(texts) / seconds:,.0f} texts a second; farthest row {far:.0e}, farthest cosine "
                f"{cosines:.0e} from plain PyTorch; first use {first:.1f} s; "
                f"peer's peak {peer_peak:.2f} GiB; {busy(side, sides[0])}",
            )
        )
    finish(claims, asked.json)


def chosen_texts(task: Path | None, split: str, count: int) -> tuple[list[str], str]:
    """`count` distinct texts and what to call them."""
    if task is None:
        from experiments.synthetic import synthetic_questions

        return synthetic_questions(max(count, 100)).texts[:count], "synthetic questions"
    from pairsieve.tasks import load_task

    loaded = load_task(task)
    part = loaded.splits[split]
    distinct = list(dict.fromkeys([*part.right.texts, *part.left.texts]))
    order = np.random.default_rng(0).permutation(len(distinct))[:count]
    return [distinct[at] for at in order], loaded.name


def arguments() -> Any:
    import importlib.util

    from pairsieve.models.folders import BUNDLED

    arguments = parser(__doc__)
    arguments.add_argument("--texts", type=int, default=2000)
    arguments.add_argument("--task", type=Path, help="task folder; synthetic questions without one")
    arguments.add_argument("--split", default="test")
    arguments.add_argument("--encoder", default=BUNDLED)
    chosen = arguments.parse_args()
    chosen.onnx = all(importlib.util.find_spec(name) is not None for name in ("onnxruntime", "onnx"))
    return chosen


if __name__ == "__main__":
    main()
