"""The tutorial notebook runs from top to bottom, and shows what it showed when it was written."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("pandas", reason="pandas is not installed")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # as a reader runs it
def test_the_cells_of_the_tutorial_run_in_order(tmp_path: Path) -> None:
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    outputs = runpy.run_path(str(ROOT / "docs" / "run_notebook.py"))["run_cells"](cells, tmp_path)
    code = [at for at, cell in enumerate(cells) if cell["cell_type"] == "code"]
    assert len(code) >= 6
    for at in code:
        kept = cells[at]["outputs"]
        assert [each["output_type"] for each in outputs[at]] == [each["output_type"] for each in kept]
        assert kept, "every cell shows something"
    # The table, its fields and the task do not depend on a model: they are the same to the letter.
    for at in code[:3]:
        assert outputs[at][-1]["data"]["text/plain"] == cells[at]["outputs"][-1]["data"]["text/plain"]
