"""The precision of embeddings on a CPU: whether a new campaign takes bfloat16 or float32."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pairsieve.models.encoder import Encoder

PAYS_FROM = 20_000  # texts from which deciding (five seconds) is won back; float32 takes them half a minute
SAMPLE = 128  # texts on which it is tried
INSTRUCTIONS = {"avx512_bf16", "amx_bf16", "bf16"}  # of x86, x86 with tiles, Arm; emulated, it is slow
FARTHEST_COSINE = 0.01  # from float32's, between any two texts of the sample; seen: 0.004

_log = logging.getLogger("pairsieve")


def chosen_precision(encoder: Encoder, texts: Sequence[str]) -> str:
    """ "bfloat16" where the processor multiplies it and cosines are float32's to within 0.01; else "float32".

    Cosines are compared on a sample of the texts. No clock decides, so one machine decides once.
    """
    if len(texts) < PAYS_FROM or not has_bfloat16():
        return "float32"
    from pairsieve.models.packed_cpu import PackedCpuNetwork, can_pack  # which imports this file, and torch

    if encoder.device != "cpu" or not can_pack(encoder.network):
        return "float32"
    chosen = np.linspace(0, len(texts) - 1, SAMPLE).astype(np.int64)
    tokens = encoder._tokenised([texts[row] for row in chosen.tolist()], encoder.left_prefix)
    tokens = tokens.take(np.argsort(-tokens.lengths, kind="stable"))
    exact, half = (PackedCpuNetwork(encoder.network, name).rows(tokens) for name in ("float32", "bfloat16"))
    off = float(np.abs(exact @ exact.T - half @ half.T).max())
    taken = off <= FARTHEST_COSINE
    message = "Embedding in bfloat16: cosines within %.4f of float32's on a sample; %s."
    _log.info(message, off, "taken" if taken else "not taken")
    return "bfloat16" if taken else "float32"


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 by itself, as Linux tells; elsewhere no."""
    info = Path("/proc/cpuinfo")
    words = info.read_text().split() if info.exists() else []
    return not INSTRUCTIONS.isdisjoint(words)
