"""A scan answers as brute force does, on the CPU and on CUDA where there is one (kit: `scan_check.py`)."""

import numpy as np
import pytest
import torch

from pairsieve.scan.cpu import CpuScan
from scan_check import KINDS, check_scan, synthetic_case

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")


devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])


def scan_of(case, double, device):
    kind = np.float64 if double else np.float32
    left = case.left.astype(kind)
    right = left if case.space.symmetric else case.right.astype(kind)
    if device == "cpu":
        return CpuScan(case.space, left, right, double=double, threads=2)
    from pairsieve.scan.cuda import CudaScan  # needs triton, which comes with CUDA builds of torch

    return CudaScan(case.space, left, right, double=double, tile=1024)


def faults(case, double, device):
    told = check_scan(scan_of(case, double, device), case, double)
    return [f"{question}: {fault}" for question, fault in told if fault]


@devices
@pytest.mark.parametrize("double", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("symmetric", [True, False])
def test_a_scan_tells_the_truth(symmetric, kind, double, device):
    """All pairs of 1,100 texts, or 200 × 1,300: several tiles of 1,024, the last ones padded."""
    rows = 1100 if symmetric else 200
    assert not faults(synthetic_case(symmetric, kind, rows, columns=1300, width=24, seed=7), double, device)


@devices
def test_copies_tie_at_the_width_of_real_encoders(device):
    """A sum of 768 products in float32 is off by more than one of 24, and copies must still score one."""
    case = synthetic_case(True, "copies", rows=300, columns=300, width=768, seed=7)
    assert not faults(case, False, device)


def test_the_kit_sees_a_scan_that_lies():
    """One pair counted above its score, and one text that is its own neighbour: both are reported."""
    case = synthetic_case(True, "continuous", rows=60, columns=60, width=8, seed=1)

    class Lying(CpuScan):
        def count_reaching(self, thresholds, desc="all pairs"):
            return super().count_reaching(thresholds, desc) + (np.arange(len(thresholds)) == 0)

        def neighbours(self, count, rows=None, desc="neighbours"):
            columns, scores = super().neighbours(count, rows, desc)
            columns[0, 0] = 0
            return columns, scores

    scan = Lying(case.space, case.left, case.left, double=True, threads=1)
    faulty = {question for question, fault in check_scan(scan, case, double=True) if fault}
    assert {"count on a grid", "neighbours of all rows"} <= faulty
