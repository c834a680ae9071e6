"""Exact scans of every pair: one pass over tiles of a matrix product, on CPU or CUDA.

Selection and measurement stand on three questions: how many pairs reach each threshold, which pairs lie
in a range of scores, and who are a row's nearest. The score is the cosine, as float32; or, where rows come
with lengths (hubness correction), their product. Spaces that cost little are multiplied in float64 and
rounded, so that cosines that are equal on paper are equal here; larger ones in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.pairs import AcrossPairs, AllPairs, Ids, PairSpace, Rows, Scores

Take: TypeAlias = Callable[[Ids, Scores], None]  # is handed pairs with their scores, piece by piece
Neighbours: TypeAlias = tuple[Rows, Scores]  # right rows (n, count), -1 where there are fewer, and scores

MAX_ROW_LENGTH = 2**0.5  # of a row, where lengths count
DOUBLE_BELOW = 5e10  # multiply-adds of a pass; float64 costs twice the time, below this under a second


class Scan(Protocol):
    """What any device offers over one pair space and its embeddings."""

    space: PairSpace
    device: str

    def scores(self, ids: Ids) -> Scores:
        """Scores of chosen pairs, to the bit those of a whole pass. Any order."""

    def count_reaching(self, thresholds: Scores, desc: str = ...) -> NDArray[np.int64]:
        """For each of the ascending distinct `thresholds`: how many pairs score at or above it."""

    def collect(self, low: float, high: float, take: Take, desc: str = ...) -> None:
        """Hand every pair with low <= score <= high to `take`, in pieces of any order, one at a time."""

    def neighbours(self, count: int, rows: Rows | None = None, desc: str = ...) -> Neighbours:
        """The `count` best partners of each left row (all, or the chosen `rows`), best first; ties by
        smaller column; -1 where a row has fewer. A text is no neighbour of itself in a symmetric space."""


def open_scan(
    space: PairSpace,
    left: NDArray[Any],
    right: NDArray[Any] | None = None,
    *,
    device: str = "auto",
    threads: int = 0,
    lengths: bool = False,
    alike: PairSpace | None = None,
) -> Scan:
    """A scan of `space` by the cosine of its embeddings: `left` (n, d), and `right` (m, d) for two sides.

    With `lengths` the rows' lengths count: none may be above `MAX_ROW_LENGTH`; the score is the product.
    alike: a space whose arithmetic is used; None for that of `space` itself.
    """
    rows, columns = space.shape
    other = left if right is None or space.symmetric else right
    for name, matrix, count in (("left", left, rows), ("right", other, columns)):
        if matrix.ndim != 2 or len(matrix) != count or matrix.shape[1] != left.shape[1]:
            raise InputError(
                f"{name} embeddings have shape {matrix.shape}",
                why=f"the pair space has {count:,} {name} texts and the left side {left.shape[1]} dimensions",
                remedy="Give one row per text, in the order of the task folder",
            )
    if device == "auto":
        device = "cuda" if _has_cuda() else "cpu"
    if isinstance(space, AcrossPairs):
        from pairsieve.scan.across import AcrossScan

        ways: dict[str, Any] = {"device": device, "threads": threads, "lengths": lengths}
        ways["alike"] = AllPairs(space.texts)
        return AcrossScan(space, left, lambda part, one, other: open_scan(part, one, other, **ways))
    double = few_products(alike or space, left)
    if device.startswith("cuda"):
        from pairsieve.scan.cuda import CudaScan

        tile = min(16384, 1 << max(10, (max((alike or space).shape) - 1).bit_length()))
        scan: Scan = CudaScan(space, left, other, double=double, device=device, tile=tile, lengths=lengths)
        return Doubled(scan) if lengths else scan
    from pairsieve.scan.cpu import CpuScan

    kind = np.float64 if double else np.float32
    left_rows = ready_rows(left, kind, lengths)
    right_rows = left_rows if other is left else ready_rows(other, kind, lengths)
    scan = CpuScan(space, left_rows, right_rows, double=double, threads=threads)
    return Doubled(scan) if lengths else scan


def few_products(space: PairSpace, rows: NDArray[Any]) -> bool:
    """Whether a pass over a space costs so little that float64 is worth its time."""
    return bool(float(space.size) * rows.shape[1] <= DOUBLE_BELOW)


def ready_rows(matrix: NDArray[Any], kind: Any, lengths: bool) -> NDArray[Any]:
    """Rows as a scan on the CPU multiplies them: of length one, or, with `lengths`, over `MAX_ROW_LENGTH`."""
    if not lengths:
        return unit_rows(matrix, kind)
    out = np.empty(matrix.shape, kind)
    for first in range(0, len(matrix), 65536):
        part = matrix[first : first + 65536].astype(np.float64) / MAX_ROW_LENGTH
        check_short(float(np.einsum("ij,ij->i", part, part).max(initial=0.0)))
        out[first : first + 65536] = part
    return out


def check_short(longest: float) -> None:
    """Refuse rows whose longest, given squared, is above one: every bound on rounding rests on that."""
    if not longest <= 1.0 + 1e-5:
        raise InputError(
            f"a row of length {MAX_ROW_LENGTH * longest**0.5:.4g}",
            why=f"where the lengths of rows count, none may be above {MAX_ROW_LENGTH:.4g}",
            remedy="Divide all rows by the longest one's length",
        )


class Doubled:
    """A scan over rows divided by √2 gives half of every product: twice its scores, exact in binary."""

    def __init__(self, half: Any) -> None:
        self.half, self.space, self.device = half, half.space, half.device

    def scores(self, ids: Ids) -> Scores:
        return 2 * self.half.scores(ids)

    def count_reaching(self, thresholds: NDArray[np.float32], desc: str = "all pairs") -> NDArray[np.int64]:
        return self.half.count_reaching(thresholds / np.float32(2), desc)

    def collect(self, low: float, high: float, take: Take, desc: str = "collecting") -> None:
        self.half.collect(low / 2, high / 2, lambda ids, scores: take(ids, 2 * scores), desc)

    def neighbours(self, count: int, rows: Rows | None = None, desc: str = "neighbours") -> Neighbours:
        columns, scores = self.half.neighbours(count, rows, desc)
        return columns, 2 * scores

    def select(self, centre: float | None, count: int, beside: int, take: Take) -> bool:
        """As the scan's own does, where it has such a way; False, and nothing handed over, where not."""
        select = getattr(self.half, "select", None)
        if select is None:
            return False
        half = None if centre is None else centre / 2
        return select(half, count, beside, lambda ids, scores: take(ids, 2 * scores))


def unit_rows(matrix: NDArray[Any], kind: Any = np.float32) -> NDArray[Any]:
    """Rows scaled to length one, in pieces, computed in float64; a row of zeros stays zero."""
    out = np.empty(matrix.shape, kind)
    for first in range(0, len(matrix), 65536):
        part = matrix[first : first + 65536].astype(np.float64)
        length = np.sqrt(np.einsum("ij,ij->i", part, part))[:, None]
        if not np.isfinite(length).all():
            row = first + int(np.argmin(np.isfinite(length)))
            raise InputError(
                f"row {row} of the embeddings has no finite length",
                why="a value in it is infinite or not a number, and so would be its cosines",
                remedy="Embed that text again, or look for an overflow in the model that made it",
            )
        out[first : first + 65536] = part / np.where(length == 0, 1.0, length)
    return out


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()
