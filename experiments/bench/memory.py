"""Peak memory of each command of a campaign, each in a process of its own.

    python -m experiments.bench.memory [--texts 3000] [--most-gib 2] [--cache FOLDER] [--json FILE]

Synthetic questions; a campaign of two rounds by the projection learner, measured on the test split, and one
that people answer. The peak is what the system counted for the command's process; `label` and `serve` are
asked for a page and stopped. Fails where one passes `--most-gib`. Not here: `ask-model`, which needs an
endpoint, and `demo` and `experiment`, which are campaigns. Both campaigns share a cache of embeddings; with
`--cache` it is kept, and a second run measures `run` without embedding. Other sizes in FILE are kept.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from experiments.bench.claims import Claim, busy, finish, parser

COMMAND = f"""
import atexit, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from experiments.bench.claims import peak_gib
atexit.register(lambda: sys.stderr.write(f" {{peak_gib()}}"))
from pairsieve.cli import main
main()
"""


def peak_of(words: list[str], folder: Path) -> tuple[float, float]:
    """Seconds and peak GiB of `pairsieve words`."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", COMMAND, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"pairsieve {' '.join(words)} exited {done.returncode}: {done.stderr}")
    return time.perf_counter() - start, float(done.stderr.split()[-1])


def peak_of_server(words: list[str], folder: Path) -> tuple[float, float]:
    """The same of a command that serves until it is stopped: started, asked once, interrupted."""
    start = time.perf_counter()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", COMMAND, *words, "--port", str(port)]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as server:
        while server.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
                break
            except urllib.error.HTTPError:  # it answers
                break
            except OSError:
                time.sleep(0.1)
        server.send_signal(signal.SIGINT)
        errors = server.communicate(timeout=600)[1]
    return time.perf_counter() - start, float(errors.split()[-1])


def questions(folder: Path, texts: Sequence[str]) -> None:
    """A table of texts, for the command that makes a task of one."""
    with (folder / "questions.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["key", "text"])
        rows.writerows((f"k{number}", text) for number, text in enumerate(texts))


def answered(folder: Path) -> None:
    """Answers to a batch, as a person would write them into the file."""
    with (folder / "batch.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (folder / "batch.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(row | {"label": str(number % 2)} for number, row in enumerate(rows))


def main() -> None:
    import numpy as np

    from experiments.synthetic import questions_task
    from pairsieve.files import write_json
    from pairsieve.tasks import save_task

    arguments = parser(__doc__)
    arguments.add_argument("--texts", type=int, default=3000)
    arguments.add_argument("--most-gib", type=float, default=2.0)
    arguments.add_argument("--cache", type=Path, help="keep embeddings in this folder")
    asked = arguments.parse_args()
    claims = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        os.environ["PAIRSIEVE_CACHE"] = str((asked.cache or place / "cache").resolve())
        task = questions_task(asked.texts, 0)
        save_task(task, place / "task")
        questions(place, task.splits["train"].left.texts)
        test = task.splits["test"].left
        rows = np.random.default_rng(0).standard_normal((len(test), 384)).astype(np.float32)
        np.savez(place / "rows.npz", texts=rows)
        one, other = test.keys[:2]
        for words in (
            ["--help"],
            ["init", "mine", "--task", "task", "--first-batch", "200", "--rounds", "2", "--measure", "test"],
            ["run", "mine"],
            ["status", "mine", "--json"],
            ["evaluate", "mine", "--split", "test", "--json"],
            ["audit", "mine", "--split", "test", "--budget", "200"],
            ["match", "mine", "--out", "matches.csv"],
            ["cluster", "mine", "--out", "groups.csv"],
            ["report", "mine"],
            ["explain", "mine", one, other, "--split", "test"],
            ["ledger", "verify", "mine"],
            ["ledger", "export", "mine", "--out", "ledger.csv"],
            ["export", "mine", "--out", "model"],
            ["draw", "task", "--embeddings", "rows.npz", "--random", "10000", "--out", "pairs.parquet"],
            ["data", "tables", "--from", "questions.csv", "--key", "key", "--text", "text", "--out", "own"],
            ["init", "people", "--task", "own", "--first-batch", "40", "--rounds", "2"],
            ["run", "people"],
            ["ask", "people", "--out", "batch.csv"],
            ["import", "people", "batch.csv", "--who", "ann"],
            ["label", "people"],
            ["serve", "mine"],
        ):
            seconds, peak = (peak_of_server if words[0] in ("label", "serve") else peak_of)(words, place)
            if words[0] == "ask":
                answered(place)
            if words[1:2] == ["people"] and words[0] in ("init", "run"):
                continue  # measured above
            named = " ".join(words[:2]) if words[0] in ("ledger", "data") else words[0]
            what = f"Memory: pairsieve {named}"
            size = f"{asked.texts:,} texts"
            bound = f"under {asked.most_gib:g} GiB"
            claims.append(Claim(what, "one process", seconds, "", None, None, bound, peak, size, busy()))
            finish(claims[-1:], None)
    if asked.json:
        kept = json.loads(asked.json.read_text()) if asked.json.exists() else []
        kept = [one for one in kept if one["size"] != claims[0].size] + [asdict(one) for one in claims]
        write_json(asked.json, sorted(kept, key=lambda one: int(one["size"].split()[0].replace(",", ""))))
    over = [one.claim for one in claims if one.peak_gib is not None and one.peak_gib > asked.most_gib]
    if over:
        raise SystemExit(f"More than {asked.most_gib:g} GiB: {', '.join(over)}.")


if __name__ == "__main__":
    main()
