"""Nobody waits for what a command does not need: heavy packages are loaded by the work, not by the import."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "faiss", "transformers", "sentence_transformers", "numba", "matplotlib", "fastapi", "ray")
HELP = """
import sys
sys.argv = ["pairsieve", "--help"]
from pairsieve.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
"""


@pytest.mark.parametrize(
    "code", ["import pairsieve", "import pairsieve.models, pairsieve.search, pairsieve.measure", HELP]
)
def test_heavy_packages_are_not_loaded_before_there_is_work(code: str) -> None:
    listing = f"\nimport sys\nprint(*[name for name in {HEAVY} if name in sys.modules], sep=',')"
    done = subprocess.run([sys.executable, "-c", code + listing], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""
    if code == HELP:
        assert "Usage" in done.stdout
