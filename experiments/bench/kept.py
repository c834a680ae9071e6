"""Kept campaigns of the bench of strangers, worked on by several processes: for `promises` and
`reliability`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from experiments.bench.strangers_tables import TABLES
from pairsieve.files import write_text

THREADS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class KeptCampaign:
    """The folder of a finished campaign, the name of its rows, and where its embeddings are."""

    folder: Path
    name: str
    cache: Path | None


def add_options(parser: argparse.ArgumentParser) -> None:
    """--campaign, --kept, --cache, --jobs and --out."""
    parser.add_argument("--campaign", type=Path, nargs="*", default=[])
    parser.add_argument("--kept", type=Path, nargs="*", default=[], help="--out of strangers --keep")
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help="rows of the same campaign are replaced")


def campaigns(asked: argparse.Namespace) -> list[KeptCampaign]:
    """Those named, and all of a bench of strangers that were kept, have the truth and ended well."""
    found = [KeptCampaign(folder, _name(folder), asked.cache) for folder in asked.campaign]
    for out in asked.kept:
        for path in sorted((out / "cells").glob("*.json")):
            row, folder = json.loads(path.read_text(encoding="utf-8")), out / "campaigns" / path.stem
            ended = row["outcome"] == "ok" and (folder / "campaign").is_dir()
            if ended and not row["edge"] and TABLES[row["table"]].answers == "truth":
                found.append(KeptCampaign(folder / "campaign", path.stem, asked.cache or out / "cache"))
    return found


def _name(folder: Path) -> str:
    folder = folder.resolve()
    return folder.parent.name if folder.name == "campaign" else folder.name


def for_each(
    asked: argparse.Namespace,
    work: Callable[..., list[dict[str, Any]]],
    *more: Any,
    say: Callable[[dict[str, Any]], str],
) -> int:
    """Run work(campaign, *more) for each campaign, print and keep its rows; how many failed."""
    failed, rows = 0, list[dict[str, Any]]()
    if asked.out and asked.out.is_file():
        rows = json.loads(asked.out.read_text(encoding="utf-8"))
    for name in THREADS:
        os.environ.setdefault(name, str(max(1, (os.cpu_count() or 1) // asked.jobs)))
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        jobs = {pool.submit(work, each, *more): each.name for each in campaigns(asked)}
        for job in as_completed(jobs):
            try:
                made = job.result()
            except Exception as error:  # one campaign of many: the others go on
                failed += 1
                print(f"{jobs[job]}: {error!r}", flush=True)
                continue
            print("\n".join(say(row) for row in made), flush=True)
            rows = [row for row in rows if row["campaign"] != jobs[job]] + made
            rows.sort(key=lambda row: str(row["campaign"]))  # those of one campaign stay in their order
            if asked.out:
                write_text(asked.out, json.dumps(rows, indent=1) + "\n")
    return failed
