"""Campaigns from several starts, as parallel processes on one GPU, with a stored row for every figure.

    python -m experiments.start_runs --out FOLDER --workers 8
        --job "plan=paper task=TASK start=FOLDER seeds=3" --job "plan=strength task=TASK start=FOLDER seeds=1"

Jobs are begun in the order given, seed by seed. A start that `weak_start.py` is still making is waited for.
An interrupted run resumes where it was, a finished one is only read; its rows are stored when it ends, with
the provenance of its start in each. Processes share a GPU better under NVIDIA's MPS
(`nvidia-cuda-mps-control -d`).
"""

from __future__ import annotations

import argparse
import multiprocessing
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from experiments.definitions import (
    ALL_STATED,
    BALANCED_STATED,
    MATCHED,
    SMALL_SCHEDULE,
    Run,
    experiment_named,
    with_dependencies,
)
from experiments.results import SCHEMA, Row
from experiments.runner import rows_of
from experiments.runs import execute, finished, summary
from experiments.setup import NEARBY, Setup
from experiments.weak_start import read_provenance
from pairsieve.errors import InputError, PairsieveError
from pairsieve.files import locked
from pairsieve.settings import Schedule
from pairsieve.tables import write_table

EXPERIMENT = "paper-start"
RESULTS = Path(__file__).parent / "results" / EXPERIMENT
ROWS = "rows.parquet"
RANDOM = 1_000_000  # random negatives that a concatenation model scores
UNTRAINED = Run(model="untrained")


@dataclass(frozen=True, kw_only=True)
class StartRow(Row):
    """A figure with the provenance of the encoder it started from; `encoder` is the start's name."""

    start_source: str  # the encoder that was weakened
    start_source_fingerprint: str
    start_steps: int  # of masked language modelling; 0: the encoder as it came
    start_layers: int  # layers that were kept; 0: all
    start_texts: int  # that it was trained on; 0 where no step was made
    start_seed: int
    start_command: str


@dataclass(frozen=True)
class Job:
    """One run, on one task, from one start."""

    task: Path
    start: Path  # an encoder folder
    run: Run
    near: int = NEARBY  # of a concatenation model's sample; see Setup
    random: int = RANDOM
    words: str = field(default="", compare=False)  # as asked for, stored as the rows' source

    @property
    def name(self) -> str:
        return f"{self.task.name}.{self.start.name}.{self.run.name}"

    def with_run(self, run: Run) -> Job:
        """Another run of the same task and start; only a concatenation model has a sample."""
        near, random = (self.near, self.random) if run.model == "concat" else (NEARBY, RANDOM)
        return replace(self, run=run, near=near, random=random)


def _campaigns(variants: Sequence[tuple[str, str]], schedule: Schedule, seed: int) -> list[Run]:
    more: dict[str, Any] = {"seed_set": "static", "schedule": schedule, "seed": seed}
    return [Run(model="cosine", strategy=name, recipe=recipe, **more) for name, recipe in variants]


PAPER_ORDER = ("uncertainty", "static", "stated", "stratified-all", "random", MATCHED, "adaptive")
PLANS: dict[str, Callable[[Schedule, int], list[Run]]] = {
    # Tables 3, 4 and 5, and our own recipe beside them.
    "paper": lambda schedule, seed: _campaigns(
        [*((strategy, "paper") for strategy in PAPER_ORDER), ("uncertainty", "best")], schedule, seed
    ),
    "strength": lambda schedule, seed: _campaigns(
        [("uncertainty", "paper"), ("static", "paper")], schedule, seed
    ),
    # Batches so small that the decision boundary lies among the pairs that are still unlabelled.
    "small": lambda schedule, seed: _campaigns(
        [("uncertainty", "paper"), ("adaptive", "paper"), ("static", "paper"), ("uncertainty", "best")],
        SMALL_SCHEDULE,
        seed,
    ),
    # Table 2.
    "concatenation": lambda schedule, seed: [Run(model="concat", strategy=ALL_STATED, seed=seed)],
    # The same where few negatives are stated: as many positives as those.
    "balanced": lambda schedule, seed: [Run(model="concat", strategy=BALANCED_STATED, seed=seed)],
    # The figure on seed sets: round 1 from stated pairs.
    "seed-sets": lambda schedule, seed: [
        replace(run, seed_set="stated") for run in _campaigns([("uncertainty", "paper")], schedule, seed)
    ],
    # Table 6: a concatenation model trained on what a cosine model's campaign bought, which is run first.
    "collected": lambda schedule, seed: [
        replace(run, model="concat")
        for run in _campaigns([(name, "paper") for name in PAPER_ORDER[:3]], schedule, seed)
    ],
    "untrained": lambda schedule, seed: [],
}
_KEYS = (
    *("plan", "task", "start", "seeds", "first_seed", "first_batch", "rounds", "strategies"),
    *("near", "random"),
)


def parse_job(words: str) -> list[Job]:
    """The runs of `plan=… task=… start=…`.

    Further: `[seeds=1] [first_seed=0] [first_batch=2048] [rounds=4] [strategies=a,b]`, and of the sample that
    a concatenation model scores `[near=100] [random=1000000]`.
    """
    given = dict(word.partition("=")[::2] for word in shlex.split(words))
    if given.keys() - set(_KEYS) or given.get("plan") not in PLANS or not {"task", "start"} <= given.keys():
        raise InputError(
            f"a job that cannot be read: {words!r}",
            why=f"it wants task=, start= and plan= with one of {', '.join(PLANS)}",
            remedy=f"Write KEY=VALUE with the keys {', '.join(_KEYS)}",
        )
    task, start = Path(given["task"]), Path(given["start"])
    schedule = Schedule(
        first_batch=int(given.get("first_batch", 2048)), growth=1.5, rounds=int(given.get("rounds", 4))
    )
    first = int(given.get("first_seed", 0))
    named = " ".join(f"{key}={Path(value).name}" for key, value in given.items())  # no path of this machine
    runs = [UNTRAINED]
    for seed in range(first, first + int(given.get("seeds", 1))):
        planned = PLANS[given["plan"]](schedule, seed)
        chosen = given.get("strategies", "").split(",")
        runs += [run for run in planned if chosen == [""] or run.strategy in chosen]
    near, random = int(given.get("near", NEARBY)), int(given.get("random", RANDOM))
    first_job = Job(task, start, UNTRAINED, near, random, named)
    return [first_job.with_run(run) for run in runs]


def in_order(jobs: Sequence[Job]) -> list[Job]:
    """Each job once, after those that it depends on."""
    listed: dict[Job, None] = {}
    for job in jobs:
        for run in (UNTRAINED, *with_dependencies(job.run)):
            listed.setdefault(job.with_run(run))
    return list(listed)


# ── rows ────────────────────────────────────────────────────────────────────────────────────────


def provenance_columns(start: Path, fingerprint: str) -> dict[str, Any]:
    """The columns of a row that name the origin of its start; an encoder as it came is its own source."""
    about = read_provenance(start)
    return {
        "start_source": str(about["source"]),
        "start_source_fingerprint": str(about.get("source_fingerprint", fingerprint)),
        "start_steps": int(about["steps"]),
        "start_layers": int(about["layers"]),
        "start_texts": int(about["texts"]) if about["steps"] else 0,
        "start_seed": int(about["seed"]),
        "start_command": str(about["command"]),
    }


def result_rows(job: Job, setup: Setup, done: dict[str, Any]) -> list[StartRow]:
    """The rows of a finished run."""
    columns = provenance_columns(job.start, setup.encoder.fingerprint)
    plain = rows_of(experiment_named("strategies"), setup, job.run, done)
    changed = {"experiment": EXPERIMENT, "source": f'python -m experiments.start_runs --job "{job.words}"'}
    return [StartRow(**(asdict(row) | changed), **columns) for row in plain]


def write_start_rows(path: Path, rows: Sequence[StartRow]) -> None:
    """Write rows whole or not at all, in a fixed order."""
    kinds = {kind.__name__: alias for kind, alias in SCHEMA.items()}
    types = {each.name: kinds[str(each.type)] for each in fields(StartRow)}
    ordered = sorted(rows, key=lambda row: tuple(map(str, row.figure_key)))
    write_table(path, types, {name: [getattr(row, name) for row in ordered] for name in types})


def read_start_rows(path: Path) -> list[StartRow]:
    """The rows of one file, or of every file in a folder."""
    import pyarrow.parquet as pq

    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    return [StartRow(**row) for file in files if file.exists() for row in pq.read_table(file).to_pylist()]


def store_rows(path: Path, rows: Sequence[StartRow], lock: Path) -> None:
    """Add a finished run's rows to a file, in place of its older ones; one process at a time."""
    with locked(lock):
        runs = {row.run_key for row in rows}
        others = [row for row in read_start_rows(path) if row.run_key not in runs]
        write_start_rows(path, [*others, *rows])


# ── workers ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Options:
    """What all workers share."""

    out: Path  # runs, embeddings and locks
    results: Path
    device: str = "auto"
    learner: str = "full"
    until: float = float("inf")  # the time after which nothing is begun


class Worker:
    """One process: takes jobs in order until all are finished, failed, or it is too late to begin one."""

    def __init__(self, jobs: Sequence[Job], options: Options, number: int = 0) -> None:
        self.jobs, self.options, self.number = list(jobs), options, number
        self.done: set[Job] = set()
        self._setups: dict[tuple[Path, Path, int, int], Setup] = {}
        for folder in ("locks", "failed"):
            (options.out / folder).mkdir(parents=True, exist_ok=True)

    def work(self) -> None:
        while len(self.done) < len(self.jobs) and time.time() < self.options.until:
            if not any(self._take(job) for job in self.jobs if job not in self.done):
                time.sleep(0.5)  # what remains is with other workers, or waits for its start

    def _take(self, job: Job) -> bool:
        """Whether the job was this worker's to finish, now or before; then look from the top again."""
        failed = self.options.out / "failed" / f"{job.name}.txt"
        if failed.exists():
            self.done.add(job)
            return True
        if not self._ready(job):
            return False
        with ExitStack() as held:
            try:
                taken = PairsieveError("another process runs it")
                held.enter_context(locked(self.options.out / "locks" / job.name, taken))
            except PairsieveError:
                return False
            try:
                self._run(job)
            except Exception:  # one job must not end the others; what happened is kept and printed
                failed.write_text(traceback.format_exc())
                self._say(f"{job.name}: FAILED\n{traceback.format_exc()}")
        self.done.add(job)
        return True

    def _ready(self, job: Job) -> bool:
        if not (job.start / "config.json").exists():
            return False
        before = [run for run in with_dependencies(job.run) if run != job.run]
        needed = before if job.run == UNTRAINED else [UNTRAINED, *before]  # which embeds for all others
        return all(finished(run, self._setup(job)) is not None for run in needed)

    def _run(self, job: Job) -> None:
        setup, path = self._setup(job), self.options.results / ROWS
        done = finished(job.run, setup)
        if done is None:
            began = time.perf_counter()
            done = execute(job.run, setup, self._say)
            self._say(f"{job.name}: {summary(done)}, {time.perf_counter() - began:.1f} s")
            _free_memory()
        rows = result_rows(job, setup, done)
        if not {row.run_key for row in rows} <= {row.run_key for row in read_start_rows(path)}:
            store_rows(path, rows, self.options.out / "locks" / ROWS)

    def _setup(self, job: Job) -> Setup:
        key = (job.task, job.start, job.near, job.random)
        if key not in self._setups:
            self._setups[key] = Setup(
                task_folder=job.task,
                encoder_name=str(job.start),
                out=self.options.out,
                left_prefix="",  # plain texts: BERT knows no prefixes, nor does a weak start
                right_prefix="",
                learner=self.options.learner,
                device=self.options.device,
                near=job.near,
                random=job.random,
            )
        return self._setups[key]

    def _say(self, words: str) -> None:
        print(f"[{self.number}] {words}", file=sys.stderr, flush=True)


def _work(jobs: Sequence[Job], options: Options, number: int) -> None:
    Worker(jobs, options, number).work()


def run_jobs(jobs: Sequence[Job], options: Options, workers: int = 1) -> list[str]:
    """Run every job with so many processes; the names of those that failed."""
    ordered = in_order(jobs)
    for old in (options.out / "failed").glob("*.txt"):
        old.unlink()
    if workers == 1:
        _work(ordered, options, 0)
    else:
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=_work, args=(ordered, options, n)) for n in range(workers)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    return sorted(path.stem for path in (options.out / "failed").glob("*.txt"))


def _free_memory() -> None:
    import gc

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--job", action="append", required=True, help=parse_job.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="runs, embeddings and locks")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--workers", type=int, default=6, help="processes; eight ran at once on one H200")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--learner", default="full")
    parser.add_argument("--until", type=float, help="begin nothing after so many seconds")
    given = parser.parse_args(arguments)
    try:
        jobs = [job for words in given.job for job in parse_job(words)]
    except PairsieveError as error:
        raise SystemExit(str(error)) from None
    until = float("inf") if given.until is None else time.time() + given.until
    options = Options(given.out, given.results, given.device, given.learner, until)
    failed = run_jobs(jobs, options, given.workers)
    if failed:
        raise SystemExit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
