"""Latency of `pairsieve serve` with 200 clients at once over 100,000 texts, then kill -9 under load.

    python -m experiments.bench.serving [--texts 100000] [--clients 200] [--seconds 60] [--task FOLDER]
        [--json FILE]

The bundled encoder with an untrained head and both corrections serves synthetic questions (each stands
several times under its own key: the encoder reads it once, the search pays for all), or the texts of a task.
Each client asks as soon as it has its answer; one request in twenty adds a text and the next asks for it.
Then the server is killed with -9 in the middle of this and started again: every acknowledged addition must be
there. Beside it, timed before the server starts: the bare encoder on the same questions. Exit status 1 if a
request failed, an added text was not found by the next request, or an acknowledged addition is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.claims import machine
from experiments.synthetic import synthetic_questions
from pairsieve.models import encoder_named, learner_named
from pairsieve.scorer import Corrections, Scorer, save_scorer

ADDS = 0.05  # share of requests that add a text


@dataclass
class Noted:
    """What the clients saw."""

    match_seconds: list[float] = field(default_factory=list)
    add_seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    end: bool = False  # the server is being killed: from here on a broken connection is no error
    seconds: float = 0.0
    peak_gib: float = 0.0


def main() -> None:
    asked = arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = run(asked, folder)
    print(as_words(result))
    if asked.json:
        asked.json.write_text(json.dumps([as_claim(result)], indent=2) + "\n", encoding="utf-8")
    sys.exit(1 if result["errors"] or result["missed"] or result["lost"] else 0)


def run(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    encoder = encoder_named(asked.encoder, device="cpu")
    questions = synthetic_questions(min(asked.distinct, asked.texts), seed=1).texts
    bare = {size: bare_seconds(encoder, questions, size) for size in (1, 64)}
    matcher = learner_named("projection", encoder).pretrained()
    (folder / "model").mkdir()
    corrections = Corrections(True, (0.25, 0.25), (1.0, 1.0), floor=0.5)
    save_scorer(Scorer(matcher, corrections, 1.0, 0.0), folder / "model")
    collection = ["--collection", str(asked.task)]
    if asked.task is None:
        table = folder / "texts.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["key", "text"])
            rows.writerows((f"k{n}", questions[n % len(questions)]) for n in range(asked.texts))
        collection = ["--collection", str(table), "--key", "key"]
    words = ["serve", str(folder / "model"), *collection, "--state", str(folder / "state"), "--json"]
    words += ["--batch", str(asked.batch)] + (["--cache", str(asked.cache)] if asked.cache else [])
    server, started, _ = start(words)
    port = int(started["url"].rstrip("/").rpartition(":")[2])
    noted = Noted()
    try:
        asyncio.run(load(port, asked.clients, asked.seconds, questions, noted, server))
    finally:
        server.kill()
        server.wait()
    again, after, start_seconds = start(words)
    again.send_signal(signal.SIGTERM)
    again.wait()
    lost = missing(folder / "state", noted.acknowledged)
    return {
        "texts": started["texts"],
        "clients": asked.clients,
        "seconds": noted.seconds,
        "cores": len(os.sched_getaffinity(0)),
        "answers": len(noted.match_seconds) + len(noted.add_seconds),
        "match": quantiles(noted.match_seconds),
        "add": quantiles(noted.add_seconds),
        "bare_alone": bare[1],
        "bare_in_batch": bare[64],
        "errors": noted.errors,
        "missed": noted.missed,
        "acknowledged": len(noted.acknowledged),
        "lost": lost,
        "texts_after": after["texts"],
        "start_again_seconds": start_seconds,
        "peak_gib": noted.peak_gib,
    }


def bare_seconds(encoder: Any, questions: list[str], size: int) -> float:
    """Seconds a text of the bare encoder at this batch size: the best of three half seconds or more."""
    encoder.embed(questions[:size])
    best = float("inf")
    for _ in range(3):
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < 0.5:
            at = done % (len(questions) - size)
            encoder.embed(questions[at : at + size])
            done += size
        best = min(best, (time.perf_counter() - began) / done)
    return best


def start(words: list[str]) -> tuple[subprocess.Popen[str], dict[str, Any], float]:
    """The server as a process, what it printed, and the seconds until then."""
    began = time.perf_counter()
    server = subprocess.Popen([sys.executable, "-m", "pairsieve", *words], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line:
        raise SystemExit("The server did not start.")
    return server, json.loads(line), time.perf_counter() - began


async def load(
    port: int, clients: int, seconds: float, questions: list[str], noted: Noted, server: subprocess.Popen[str]
) -> None:
    """All clients for a while; then the server is killed under them."""
    began = time.perf_counter()
    tasks = [asyncio.create_task(client(port, number, questions, noted)) for number in range(clients)]
    await asyncio.sleep(seconds)
    noted.seconds, noted.peak_gib = time.perf_counter() - began, peak_gib(server.pid)
    noted.end = True
    server.kill()
    await asyncio.gather(*tasks)


async def client(port: int, number: int, questions: list[str], noted: Noted) -> None:
    """One connection: ask, wait, ask again. A question is made new by a word of its own."""
    rng = random.Random(number)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    turn = 0
    try:
        while not noted.end:
            turn += 1
            text = f"{rng.choice(questions)} {rng.choice(questions).split()[-1]}"
            if rng.random() >= ADDS:
                await timed(reader, writer, "POST", "/match", {"text": text}, noted, noted.match_seconds)
                continue
            key = f"new-{number}-{turn}"
            text = f"{text} {number} {turn}"
            if await timed(reader, writer, "PUT", f"/texts/{key}", {"text": text}, noted, noted.add_seconds):
                noted.acknowledged.append(key)
                found = await timed(
                    reader, writer, "POST", "/match", {"text": text}, noted, noted.match_seconds
                )
                if found is not None and key not in [m["key"] for m in found["matches"]]:
                    noted.missed.append(key)
    except (OSError, asyncio.IncompleteReadError) as error:
        if not noted.end:
            noted.errors.append(repr(error))
    finally:
        writer.close()


async def timed(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    path: str,
    body: dict[str, Any],
    noted: Noted,
    seconds: list[float],
) -> dict[str, Any] | None:
    """One request and its answer; None, and noted, where it is no success."""
    sent = json.dumps(body).encode()
    began = time.perf_counter()
    writer.write(
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Pairsieve: 1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n".encode()
        + sent
    )
    await writer.drain()
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length:")[2].partition("\r\n")[0])
    answer = await reader.readexactly(length)
    status = head.split(maxsplit=2)[1]
    if status not in ("200", "201"):
        noted.errors.append(f"{status} {answer[:200]!r}")
        return None
    if not noted.end:
        seconds.append(time.perf_counter() - began)
    fields: dict[str, Any] = json.loads(answer)
    return fields


def peak_gib(pid: int) -> float:
    """The largest resident memory a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def missing(state: Path, acknowledged: list[str]) -> list[str]:
    """Acknowledged keys that are not on disk."""
    from pairsieve.serving.record import Record

    record = Record(state)
    kept = {change.key for change in record.read()}
    record.close()
    return [key for key in acknowledged if key not in kept]


def quantiles(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {"p50": float("nan"), "p99": float("nan")}
    return {"p50": float(np.quantile(seconds, 0.5)), "p99": float(np.quantile(seconds, 0.99))}


def as_words(result: dict[str, Any]) -> str:
    size = f"{result['texts']:,} texts, {result['clients']} clients for {result['seconds']:.0f} s"
    rate, bare_rate = result["answers"] / result["seconds"], 1 / result["bare_in_batch"]
    floor = result["clients"] * result["bare_in_batch"]

    def times(found: dict[str, float]) -> str:
        return f"p50 {1000 * found['p50']:8,.0f} ms   p99 {1000 * found['p99']:8,.0f} ms"

    kept = f"{result['acknowledged']:,} additions acknowledged, {len(result['lost'])} lost"
    seen = f"{len(result['missed'])} not found by the next request"
    back = f"back in {result['start_again_seconds']:.1f} s with {result['texts_after']:,} texts"
    bare = f"one text {1000 * result['bare_alone']:,.1f} ms; "
    bare += f"{result['clients']} texts, 64 at once, {1000 * floor:,.0f} ms"
    rows = [
        f"{size}, {result['cores']} cores: {result['answers']:,} answers, {len(result['errors'])} errors",
        f"  /match                    {times(result['match'])}",
        f"  PUT /texts, on disk       {times(result['add'])}",
        f"  the bare encoder          {bare}",
        f"  answers a second          {rate:,.1f}; the bare encoder, 64 at once, {bare_rate:,.1f} texts",
        f"  peak memory of the server {result['peak_gib']:.2f} GiB",
        f"  kill -9 under this load   {kept}, {seen}; {back}",
    ]
    return "\n".join([*rows, *(f"  error: {words}" for words in result["errors"][:5])])


def as_claim(result: dict[str, Any]) -> dict[str, Any]:
    floor = result["clients"] * result["bare_in_batch"]
    kept = f"{len(result['lost'])} of {result['acknowledged']:,} additions lost by kill -9"
    ours = f"{len(result['errors'])} errors in {result['answers']:,} answers, {kept}"
    return {
        "claim": f"serving: p50 of {result['clients']} clients at once beside the bare encoder",
        "ours": f"p50 of /match; p99 {result['match']['p99']:.3f} s; {ours}",
        "ours_s": result["match"]["p50"],
        "peer": f"bare encoder, {result['clients']} texts, 64 at once",
        "peer_s": floor,
        "ratio": floor / result["match"]["p50"],
        "asked": "no error, none lost",
        "peak_gib": result["peak_gib"],
        "size": f"{result['texts']:,} texts, {result['clients']} clients, {result['seconds']:.0f} s",
        "machine": machine(),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--distinct", type=int, default=6400, help="different synthetic questions among them")
    parser.add_argument(
        "--task", type=Path, help="a task folder whose texts are served, in place of synthetic ones"
    )
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--batch", type=int, default=256, help="texts embedded together at most")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--cache", type=Path, help="keeps the embeddings for the next run")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
