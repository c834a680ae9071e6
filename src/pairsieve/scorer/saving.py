"""Writes a scorer as a folder that sentence-transformers loads too, and reads it back whole.

The folder holds the plain part as a sentence-transformers model with its head (`head.json`, see
`models/export.py`), the corrections, head and calibration (`scorer.json`), and the re-ranker in `reranker/`.
`checksums.json` has the SHA-256 of all these files, so that one that was edited or damaged is refused.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pairsieve.errors import InputError
from pairsieve.files import CHECKSUMS, check_checksums, load_json, write_checksums, write_json
from pairsieve.models import load_matcher
from pairsieve.scorer.calibration import Calibration
from pairsieve.scorer.corrections import Corrections
from pairsieve.scorer.scorer import Scorer

SCORER_FILE = "scorer.json"
_FORMAT = 5
_RERANKER = "reranker"


def save_scorer(scorer: Scorer, folder: Path) -> None:
    """Write a scorer into an empty folder."""
    scorer.matcher.save(folder)
    if scorer.reranker is not None:
        from pairsieve.reranker.saving import save_reranker

        (folder / _RERANKER).mkdir()
        save_reranker(folder / _RERANKER, scorer.reranker)
    about: dict[str, Any] = {"format": _FORMAT, "weight": scorer.weight, "bias": scorer.bias}
    about |= {"corrections": asdict(scorer.corrections), "reranked": scorer.reranker is not None}
    about["calibration"] = asdict(scorer.calibration) if scorer.calibration is not None else None
    write_json(folder / SCORER_FILE, about)
    write_checksums(folder)


def load_scorer(folder: Path | str, device: str | None = None) -> Scorer:
    """The scorer that `pairsieve export` wrote into a folder, for any collection."""
    folder = Path(folder)
    path = folder / SCORER_FILE
    if not path.is_file():
        remedy = "Name a folder that pairsieve export wrote; a sentence-transformers model alone has no "
        remedy += "corrections and no calibration"
        raise InputError(f"no scorer: {SCORER_FILE} is missing", where=str(folder), remedy=remedy)
    try:
        about = load_json(path)
        if about["format"] != _FORMAT:
            what, why = f"format {about['format']} of a scorer", f"this pairsieve reads format {_FORMAT}"
            raise InputError(what, where=str(path), why=why, remedy="Export it again")
        if not (folder / CHECKSUMS).is_file():
            raise ValueError(f"{CHECKSUMS} is missing")
        check_checksums(folder)
        corrections = _corrections(about["corrections"])
        weight, bias = float(about["weight"]), float(about["bias"])
        if not (math.isfinite(weight) and math.isfinite(bias) and weight > 0):
            raise ValueError(f"weight {weight} and bias {bias} are no head")
        calibration = Calibration(**about["calibration"]) if about["calibration"] is not None else None
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        what, remedy = "the scorer cannot be read", "Export it again"
        raise InputError(what, where=str(path), why=str(error), remedy=remedy) from error
    reranker = None
    if about.get("reranked"):
        from pairsieve.reranker.saving import load_reranker

        reranker = load_reranker(folder / _RERANKER, device)
    return Scorer(load_matcher(folder, device), corrections, weight, bias, reranker, calibration)


def _corrections(given: dict[str, Any]) -> Corrections:
    hubness, smoothing = (tuple(map(float, given[name])) for name in ("hubness", "smoothing"))
    if len(hubness) != 2 or len(smoothing) != 2:
        raise ValueError("corrections have a left and a right side")
    floor = float(given["floor"])
    if not all(0 <= value <= 2 for value in (*hubness, *smoothing)) or not -1 <= floor <= 1:
        raise ValueError("corrections that are not numbers from 0 to 2, with a floor from -1 to 1")
    return Corrections(bool(given["symmetric"]), hubness, smoothing, floor)
