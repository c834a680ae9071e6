"""Runs the cells of a notebook in order and keeps what they show: `python docs/run_notebook.py NOTEBOOK`.

A few lines in place of a kernel: each code cell is executed in one namespace, and the value of its last
expression is its output, as HTML where it has such a form.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def run_cells(cells: list[dict[str, Any]], folder: Path) -> list[list[dict[str, Any]]]:
    """The outputs of each cell, executed in `folder`; none for text."""
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    with contextlib.chdir(folder):
        for cell in cells:
            outputs.append(_outputs("".join(cell["source"]), names) if cell["cell_type"] == "code" else [])
    return outputs


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        found.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        found.append({"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": data})
    return found


def main(path: Path) -> None:
    os.environ.setdefault("TQDM_DISABLE", "1")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        outputs = run_cells(notebook["cells"], Path(folder))
    count = 0
    for cell, found in zip(notebook["cells"], outputs):
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            for each in found:
                if "execution_count" in each:
                    each["execution_count"] = count
            cell["outputs"] = found
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
