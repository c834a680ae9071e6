"""Embedding on CUDA beside sentence-transformers on the same texts: seconds and largest difference.

    PYTHONPATH=src python3 -m experiments.bench.embedding_cuda --encoder FOLDER [--texts 40000] [--json FILE]

Prints texts a second of our packed pass (tokens given, and tokenising included), of the network's own forward
pass by length-sorted batches, and of `sentence_transformers` encode (float32); and the largest difference
of a cosine between the packed pass and the network's own, over 1,000 texts.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.synthetic import synthetic_questions
from pairsieve import __version__
from pairsieve.models import encoder_named
from pairsieve.models import packed_embedding as packed
from pairsieve.models.encoder import embed_tokens


def timed(work: Any) -> tuple[float, Any]:
    torch.cuda.synchronize()
    began = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return time.perf_counter() - began, result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--texts", type=int, default=40_000)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    base = list(synthetic_questions().texts)
    words = sorted({word for text in base for word in text.split()})
    texts = [f"{base[i % len(base)]} {words[rng.integers(len(words))]}" for i in range(args.texts)]
    encoder = encoder_named(args.encoder)
    network = encoder.network
    spent, tokens = timed(lambda: encoder.tokens(texts))
    print(f"{len(texts):,} texts, {len(tokens.ids):,} tokens, tokenised in {spent:.2f} s", flush=True)
    seconds = {
        "first packed pass, compiling": timed(lambda: embed_tokens(network, tokens, encoder.pad, "cuda"))[0]
    }
    seconds["packed"], packed_rows = timed(lambda: embed_tokens(network, tokens, encoder.pad, "cuda"))
    taken, packed.embed_packed = packed.embed_packed, lambda *_: None
    embed_tokens(network, tokens.take(np.arange(1000)), encoder.pad, "cuda")
    seconds["the network's own pass"], own = timed(lambda: embed_tokens(network, tokens, encoder.pad, "cuda"))
    packed.embed_packed = taken
    some = rng.choice(len(texts), 1000, replace=False)
    gap = float(np.abs(packed_rows[some] @ packed_rows[some].T - own[some] @ own[some].T).max())
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(str(encoder.folder), device="cuda")
    peer.encode(texts[:500], batch_size=256)
    seconds["sentence-transformers encode"] = timed(lambda: peer.encode(texts, batch_size=256))[0]
    for name, value in seconds.items():
        print(f"  {name:32} {value:8.3f} s  {len(texts) / value:12,.0f} texts/s", flush=True)
    print(f"  largest difference of a cosine, packed against own: {gap:.1e}")
    ours, peer_seconds = seconds["packed"] + spent, seconds["sentence-transformers encode"]
    if args.json:
        row = {
            "claim": "embedding on CUDA, tokenising included",
            "ours": "packed",
            "ours_s": ours,
            "peer": "sentence-transformers encode, float32, batch 256",
            "peer_s": peer_seconds,
            "ratio": peer_seconds / ours,
            "asked": "",
            "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
            "size": f"{len(texts):,} texts, {Path(args.encoder).name}",
            "cosine_gap": gap,
            "machine": f"{torch.cuda.get_device_name()}; pairsieve {__version__}",
        }
        args.json.write_text(json.dumps([row], indent=1))


if __name__ == "__main__":
    main()
