"""Time from `pairsieve label DIR` to the first pair on its page, with no embedding in the cache.

    python -m experiments.bench.first_pair [--texts 10000] [--precision float32 bfloat16] [--json FILE]

Synthetic products without truth, the bundled encoder, two processes of the command itself (the page, and the
one that embeds and chooses). Asked: 15 s on two cores for 10,000 texts.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from experiments.bench.claims import Claim, busy, finish, parser


def first_pair(campaign: Path, cache: Path, patience: float = 600.0) -> tuple[float, dict[str, Any]]:
    """Seconds until the page of a new campaign has a pair, and that pair."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "pairsieve", "label", str(campaign), "--cache", str(cache), "--json"]
    page = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert page.stdout is not None
    try:
        url = json.loads(page.stdout.readline())["url"].rstrip("/")
        ask = urllib.request.Request(f"{url}/api/next?who=ann&count=1", headers={"X-Pairsieve": "1"})
        while time.perf_counter() - start < patience:
            with urllib.request.urlopen(ask, timeout=60) as answer:
                state = json.load(answer)
            if state["pairs"]:
                return time.perf_counter() - start, state["pairs"][0]
            if state["training"]["error"]:
                raise RuntimeError(state["training"]["error"])
            time.sleep(0.05)
        raise TimeoutError(f"no pair within {patience:g} s")
    finally:
        page.terminate()
        page.wait(timeout=90)
        page.stdout.close()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--texts", type=int, default=10_000)
    arguments.add_argument("--precision", nargs="+", default=["float32", "bfloat16"])
    asked = arguments.parse_args()
    finish([measured(asked.texts, precision) for precision in asked.precision], asked.json)


def measured(texts: int, precision: str) -> Claim:
    from experiments.synthetic.records import table_of
    from pairsieve import create_campaign, task_from_tables
    from pairsieve.synthetic import Roughness, group_sizes

    made = table_of("products", group_sizes(texts, {2: 0.3}), 15, Roughness(typo=0.3))
    rows = [{"id": f"r{at}", "text": text} for at, text in enumerate(made.texts())]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        task = task_from_tables(rows, key="id", text=["text"])
        create_campaign(folder / "mine", task, device="cpu", precision=precision).ledger.close()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds, _ = first_pair(folder / "mine", folder / "cache")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Claim(
        f"First pair on the labelling page, nothing embedded yet, {precision}",
        "pairsieve label",
        seconds,
        "what was asked for 10,000 texts",
        15.0,
        15.0 / seconds,
        "within 15 s",
        None,
        f"{texts:,} texts, {os.cpu_count()} cores",
        f"processor seconds {cpu:.1f}, the page and its training process together; {busy()}",
    )


if __name__ == "__main__":
    main()
