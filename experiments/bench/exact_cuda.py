"""The exact scan on a GPU: checked against float64 brute force, and timed beside the bare product.

    PYTHONPATH=src python3 -m experiments.bench.exact_cuda [--out FOLDER] [--skip-correctness] [--small]

First it is held against brute force on small spaces (the kit of `tests/scan_check.py`): one line each, exit
code 1 if any fails. Then it is timed on synthetic collections of the size of qqp-174k's test split and of the
whole QQP training split (38 billion pairs, 768 dimensions). Everything is timed with the device
synchronised, and the preparation of the embeddings (the copy to the GPU, unit rows there) apart.
`exact_cuda.json` is written to --out (or $OUT); without either the JSON is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.bench.synthetic_rows import SyntheticRows, synthetic_rows
from pairsieve import __version__
from pairsieve.measure.curve import measure_exactly
from pairsieve.pairs import AllPairs, CrossPairs
from pairsieve.scan import unit_rows
from pairsieve.scan.cuda import CudaScan
from pairsieve.search import ExactSearch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "helpers"))
from scan_check import KINDS, check_scan, collected, synthetic_case

# Texts, width, positives, pairs to select: qqp-174k's test split; QQP's training split in the paper's size.
SIZES = {"test split": (43_600, 384, 57_000, 16_640), "38 billion": (276_000, 768, 124_625, 78_732)}
CENTRE = 0.6  # where the boundary of a trained matcher would lie
TILE = 16384


def main() -> None:
    asked = arguments()
    if not torch.cuda.is_available():
        raise SystemExit("No CUDA device here: run this on a machine with an NVIDIA GPU.")
    result: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    print(f"{result['device']}, torch {result['torch']}", flush=True)
    failed = 0 if asked.skip_correctness else correctness()
    result["failed_checks"] = failed
    result["error"] = errors()
    for name, size in SIZES.items():
        if asked.small:
            size = (size[0] // 8, size[1], size[2] // 8, size[3] // 8)
        result[name] = speed(name, *size)
    report(result, asked.out)
    raise SystemExit(1 if failed else 0)


def correctness() -> int:
    """How many checks fail; prints a line for each space, and one for each fault."""
    failed = 0
    for symmetric in (True, False):
        for kind in KINDS:
            for double in (True, False):
                for tile, width in ((1024, 24), (0, 65), (0, 768)):  # several tiles; an odd width; a real one
                    case = synthetic_case(symmetric, kind, rows=1100, columns=2100, width=width, seed=7)
                    precision = np.float64 if double else np.float32
                    left = case.left.astype(precision)
                    right = left if symmetric else case.right.astype(precision)
                    scan = CudaScan(case.space, left, right, double=double, tile=tile)
                    checks = list(check_scan(scan, case, double))
                    faults = [f"    FAILED {question}: {fault}" for question, fault in checks if fault]
                    space = "all pairs" if symmetric else "cross"
                    product = "float64" if double else "six bf16"
                    words = f"{space:9}  {kind:10}  {product:8}  width {width:3}  tile {scan.tile}"
                    state = "FAILED" if faults else "ok"
                    print("\n".join([f"  {words}  {len(checks)} checks  {state}", *faults]), flush=True)
                    failed += len(faults)
    return failed


def errors(rows: int = 2048, width: int = 768) -> dict[str, float]:
    """Largest error against float64 of the scan's product, of plain float32 and of one bf16 product."""
    collection = synthetic_rows(2 * rows, width, rows // 2, seed=3).rows
    left, right = collection[:rows], collection[rows:]
    one, other = (torch.as_tensor(side, device="cuda") for side in (left, right))
    true = one.double() @ other.double().T
    scan = CudaScan(CrossPairs(rows, rows), left, right, double=False)
    ours = torch.as_tensor(collected(scan, -2.0, 2.0)[1], device="cuda").reshape(rows, rows)
    found = {
        "six_bf16": ours,
        "float32": one @ other.T,
        "one_bf16": torch.mm(one.bfloat16(), other.bfloat16().T, out_dtype=torch.float32),
    }
    worst = {name: float((product - true).abs().max()) for name, product in found.items()}
    typical = {
        f"{name}_rms": float((product - true).square().mean().sqrt()) for name, product in found.items()
    }
    print(f"largest error on {rows} × {rows} pairs of {width} dimensions, against float64")
    for name, error in worst.items():
        print(f"  {name:10} {error:.1e}   root mean square {typical[name + '_rms']:.1e}", flush=True)
    return worst | typical


def speed(name: str, texts: int, width: int, positives: int, wanted: int) -> dict[str, float]:
    """Seconds of the copy, of evaluation and selection (first and second time), and of the bare products."""
    warm_up(width)
    collection = synthetic_rows(texts, width, positives)
    space = AllPairs(texts)
    seconds: dict[str, float] = {"pairs": space.size, "width": width, "positives": positives}
    seconds["copy and unit rows"], scan = timed(
        lambda: CudaScan(space, collection.rows, collection.rows, double=False)
    )
    for turn in ("first", "second"):
        seconds[f"exact evaluation, {turn}"], measures = timed(
            lambda: measure_exactly(scan, collection.positives)
        )
    seconds["average precision"] = measures.curve.average_precision()
    counted = int(measures.histogram.positives.sum() + measures.histogram.negatives.sum())
    if counted != space.size:
        raise SystemExit(f"{counted:,} pairs were counted, the space has {space.size:,}.")
    asked = space.sample(10_000, np.random.default_rng(0))
    for turn in ("first", "second"):  # a new search each time: both passes
        seconds[f"select {wanted:,}, {turn}"], found = timed(
            lambda: ExactSearch(scan).closest(CENTRE, wanted, asked)
        )
    if len(found.pairs) != wanted:
        raise SystemExit(f"{len(found.pairs):,} pairs were selected instead of {wanted:,}.")
    seconds |= bare_products(scan, unit_rows(collection.rows))
    seconds["GPU memory, GiB"] = torch.cuda.max_memory_allocated() / 2**30
    print(f"{name}: {texts:,} texts, {space.size:,} pairs, {width} dimensions, {positives:,} positives")
    for what, value in list(seconds.items())[3:]:
        print(f"  {what:32} {value:9.4f}")
    sys.stdout.flush()
    return seconds


def bare_products(scan: CudaScan, rows: Any) -> dict[str, float]:
    """Seconds of nothing but the product of every tile, each pair once, in three arithmetics."""
    tile = scan.tile
    bands = range(-(-len(rows) // tile))
    whole = torch.zeros(len(bands) * tile, rows.shape[1], device="cuda")
    whole[: len(rows)] = torch.as_tensor(rows, device="cuda")
    out = torch.empty(tile, tile, device="cuda")

    def every(left: Callable[[int], torch.Tensor], right: Callable[[int], torch.Tensor], **kind: Any) -> None:
        for r in bands:
            for c in range(r, len(bands)):
                torch.mm(left(r), right(c).T, out=out, **kind)

    def band(of: torch.Tensor) -> Callable[[int], torch.Tensor]:
        return lambda number: of[number * tile : (number + 1) * tile]

    plain, half = band(whole), band(whole.bfloat16())
    # The scan's own operands, so that what is timed is what it multiplies.
    ours = lambda number: scan._band("left", number), lambda number: scan._band("right", number)
    runs: dict[str, Callable[[], None]] = {
        "bare product, one bf16": lambda: every(half, half, out_dtype=torch.float32),
        "bare product, float32": lambda: every(plain, plain),
        "bare product, six bf16": lambda: every(*ours, out_dtype=torch.float32),
    }
    for run in runs.values():
        run()
    return {name: timed(run)[0] for name, run in runs.items()}


def warm_up(width: int) -> None:
    """Compile the counting kernel and load the libraries' own before the clock runs."""
    small: SyntheticRows = synthetic_rows(4096, width, 3000)
    scan = CudaScan(AllPairs(4096), small.rows, small.rows, double=False)
    seconds, _ = timed(lambda: measure_exactly(scan, small.positives))
    ExactSearch(scan).closest(CENTRE, 1000, small.positives[:10])
    print(f"warm-up on a small space, compiling: {seconds:.2f} s", flush=True)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def report(result: dict[str, Any], out: Path | None) -> None:
    words = json.dumps(result, indent=2)
    if out is None:
        print(words)
    else:
        out.mkdir(parents=True, exist_ok=True)
        (out / "exact_cuda.json").write_text(words + "\n")
        (out / "exact_cuda_claims.json").write_text(json.dumps(claims(result), indent=1) + "\n")


def claims(result: dict[str, Any]) -> list[dict[str, Any]]:
    """One row a claim, as `performance.py` reads them, beside a bare product of the same pairs."""
    rows = []
    for name, asked in (("test split", ("", "")), ("38 billion", ("under 1 s", "under 1.5 s"))):
        seconds = result[name]
        selection = next(key for key in seconds if key.startswith("select") and key.endswith("second"))
        size = f"{seconds['pairs']:,} pairs, {seconds['width']} dimensions"
        for claim, ours, bare, wanted in (
            (f"exact uncertain selection ({selection.rsplit(',', 1)[0]})", selection, "one bf16", asked[0]),
            ("exact average precision", "exact evaluation, second", "six bf16", asked[1]),
        ):
            peer = seconds[f"bare product, {bare}"]
            rows.append(
                {
                    "claim": f"{claim}, {name}",
                    "ours": "exact over all pairs",
                    "ours_s": seconds[ours],
                    "peer": f"bare product, {bare}",
                    "peer_s": peer,
                    "ratio": peer / seconds[ours],
                    "asked": wanted,
                    "peak_gib": seconds["GPU memory, GiB"],
                    "size": size,
                    "machine": f"{result['device']}; pairsieve {__version__}",
                }
            )
    return rows


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    folder = os.environ.get("OUT")
    parser.add_argument("--out", type=Path, default=Path(folder) if folder else None)
    parser.add_argument("--skip-correctness", action="store_true")
    parser.add_argument("--small", action="store_true", help="an eighth of the texts, to try the bench")
    return parser.parse_args()


if __name__ == "__main__":
    main()
