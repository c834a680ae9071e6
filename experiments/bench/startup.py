"""Start-up time of `pairsieve --help` and `import pairsieve`, beside bare Python.

    python -m experiments.bench.startup [--repeats 10] [--json FILE]

Each run is a process of its own; the best counts, as of a command that has been used before. What an import
pulls in is asked of the process itself: neither torch nor Faiss may be there.
"""

from __future__ import annotations

import subprocess
import sys
import time

from experiments.bench.claims import Claim, busy, finish, parser

HEAVY = ("torch", "faiss", "transformers", "numba", "pyarrow", "matplotlib", "fastapi", "ray")
MEASURED = """
import resource, sys
used = resource.getrusage(resource.RUSAGE_SELF)
sys.stderr.write(f" {used.ru_maxrss} {used.ru_utime + used.ru_stime}")
"""
HELP = f"""
import sys
sys.argv = ["pairsieve", "--help"]
from pairsieve.cli import main
try:
    main()
except SystemExit:
    pass
{MEASURED}
"""


def seconds_of(code: str, repeats: int) -> tuple[float, float, float]:
    """Best seconds of a fresh interpreter that runs `code`, best processor seconds, and its peak in GiB."""
    best, cpu, peak = float("inf"), float("inf"), 0.0
    for _ in range(repeats):
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        best = min(best, time.perf_counter() - start)
        memory, spent = done.stderr.split()[-2:]
        cpu, peak = min(cpu, float(spent)), int(memory) / 2**20
    return best, cpu, peak


def main() -> None:
    arguments = parser(__doc__)
    arguments.set_defaults(repeats=10)
    asked = arguments.parse_args()
    bare, bare_cpu, _ = seconds_of(MEASURED, asked.repeats)
    claims = []
    for words, code, wanted in (
        ("pairsieve --help", HELP, "under 0.3 s"),
        ("import pairsieve", "import pairsieve\n" + MEASURED, "loads neither torch nor Faiss"),
    ):
        seconds, cpu, peak = seconds_of(code, asked.repeats)
        listing = code + f"\nprint([name for name in {HEAVY} if name in sys.modules])"
        shown = subprocess.run([sys.executable, "-c", listing], check=True, capture_output=True, text=True)
        loaded = shown.stdout.splitlines()[-1]
        claims.append(
            Claim(
                f"Start-up: {words}",
                words,
                seconds,
                "the bare interpreter",
                bare,
                bare / seconds,
                wanted,
                peak,
                f"best of {asked.repeats}",
                f"heavy packages loaded: {loaded}; processor seconds {cpu:.2f} and {bare_cpu:.2f}; {busy()}",
            )
        )
    finish(claims, asked.json)


if __name__ == "__main__":
    main()
