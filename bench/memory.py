"""How much memory does each command take? Every step of a small campaign, as its own process, with its peak.

    python bench/memory.py [--texts 3000] [--most-gib 2] [--json FILE]

Made questions; a campaign of two rounds by the projection learner, measured on the test split. The peak is
what the system counted for the command's process. Fails where one passes `--most-gib`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from claims import Claim, busy, finish, parser

COMMAND = f"""
import atexit, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from claims import peak_gib
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


def main() -> None:
    from pairsieve.demo import made_task
    from pairsieve.tasks import save_task

    made = parser(__doc__)
    made.add_argument("--texts", type=int, default=3000)
    made.add_argument("--most-gib", type=float, default=2.0)
    asked = made.parse_args()
    claims = []
    with tempfile.TemporaryDirectory() as folder:
        save_task(made_task(asked.texts, 0), Path(folder) / "task")
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
            ["ledger", "verify", "mine"],
            ["export", "mine", "--out", "model"],
        ):
            seconds, peak = peak_of(words, Path(folder))
            what = "Memory: pairsieve " + (" ".join(words[:2]) if words[0] == "ledger" else words[0])
            size = f"{asked.texts:,} texts"
            bound = f"under {asked.most_gib:g} GiB"
            claims.append(Claim(what, "one process", seconds, "", None, None, bound, peak, size, busy()))
    finish(claims, asked.json)
    over = [one.claim for one in claims if one.peak_gib is not None and one.peak_gib > asked.most_gib]
    if over:
        raise SystemExit(f"More than {asked.most_gib:g} GiB: {', '.join(over)}.")


if __name__ == "__main__":
    main()
