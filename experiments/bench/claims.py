"""Measurement of a claim about speed: ours and the peer's in turn, each in a process of its own.

A machine that others use does not keep one speed, so the two take turns, and the best turn of each counts.
Peak memory is what the system counted for that process: interpreter, libraries and data are in it. `--json
FILE` writes the claims as a list; those under `experiments/bench/results` are what
`performance.py` makes a page of.
"""

from __future__ import annotations

import argparse
import atexit
import importlib.metadata
import multiprocessing
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pairsieve import __version__

PACKAGES = ("torch", "transformers", "sentence-transformers", "numpy", "faiss-cpu", "onnxruntime", "numba")


def machine() -> str:
    """Processor, cores, memory and the versions that matter, in one line."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":", 1)[1] for line in info.read_text().splitlines() if "model name" in line]
        model = names[0].strip() if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = [f"pairsieve {__version__}", f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"{model}, {cores} cores, {memory:.0f} GiB; {', '.join(versions)}"


@dataclass(frozen=True)
class Claim:
    """One line of the table. `ratio` is how many times as fast as the peer: `peer_s / ours_s`."""

    claim: str
    ours: str
    ours_s: float
    peer: str
    peer_s: float | None
    ratio: float | None
    asked: str  # what was promised, in words; empty where nothing was
    peak_gib: float | None  # ours
    size: str
    note: str = ""  # what else came out: quality, the peer's memory, load of the machine
    machine: str = field(default_factory=machine)


class Side:
    """A process that prepares some work, then does it as often as it is asked."""

    def __init__(self, prepare: Callable[..., Callable[[], Any]], *args: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(other_end, prepare, args))
        self._process.start()
        atexit.register(self._pipe.close)  # whatever ends us ends it: its pipe is at an end
        other_end.close()
        self.result: Any = None
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []
        self._receive()  # prepared

    def run(self) -> float:
        """Do the work once: its seconds; `result` is what it returned."""
        self._pipe.send("run")
        seconds, cpu, self.result = self._receive()
        self.seconds.append(seconds)
        self.cpu_seconds.append(cpu)
        return float(seconds)

    def close(self) -> float:
        """End the process: its peak resident memory in GiB."""
        self._pipe.send("end")
        peak = float(self._receive())
        self._process.join()
        return peak

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError:
            raise SystemExit("A measured process ended early; its message stands above.") from None


def _serve(pipe: Any, prepare: Callable[..., Callable[[], Any]], args: tuple[Any, ...]) -> None:
    work = prepare(*args)
    pipe.send("prepared")
    while _message(pipe) == "run":
        start, cpu = time.perf_counter(), time.process_time()
        result = work()
        pipe.send((time.perf_counter() - start, time.process_time() - cpu, result))
    pipe.send(peak_gib())


def _message(pipe: Any) -> str:
    try:
        return str(pipe.recv())
    except EOFError:  # the one who measures is gone
        raise SystemExit(1) from None


def peak_gib() -> float:
    """The most memory that this process has had resident."""
    status = Path("/proc/self/status")
    if status.exists():  # unlike getrusage, it does not count what the parent had before it began this one
        kib = [int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return kib[0] / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if sys.platform == "darwin" else 2**20)  # bytes on macOS, else KiB


def in_turns(sides: Sequence[Side], repeats: int) -> list[float]:
    """Let the sides work one after the other, `repeats` times; the best seconds of each."""
    for _ in range(repeats):
        for side in sides:
            side.run()
    return [min(side.seconds) for side in sides]


def busy(*sides: Side) -> str:
    """Seconds of processor time, which others' work hardly moves, and how much of that work there was."""
    spent = " and ".join(f"{min(side.cpu_seconds):.2f}" for side in sides)
    words = f"processor seconds {spent}; " if sides else ""
    return words + f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def parser(words: str | None) -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=(words or "").splitlines()[0])
    arguments.add_argument("--json", type=Path, help="write the claims to this file")
    arguments.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    arguments.add_argument("--repeats", type=int, default=3, help="turns of each side; the best counts")
    return arguments


def finish(claims: Sequence[Claim], path: Path | None) -> None:
    """Print the claims; write them whole or not at all."""
    for one in claims:
        print(f"{one.claim} ({one.size})")
        print(f"  {one.ours:44} {one.ours_s:10.3f} s" + (f"  {one.peak_gib:.2f} GiB" if one.peak_gib else ""))
        if one.peer_s is not None:
            print(f"  {one.peer:44} {one.peer_s:10.3f} s")
            print(f"  {'ratio':44} {one.ratio:10.2f}" + (f"    asked: {one.asked}" if one.asked else ""))
        if one.note:
            print(f"  {one.note}")
    if path is not None:
        from pairsieve.files import write_json  # not above: benches of start-up measure what is imported

        write_json(path, [asdict(one) for one in claims])
