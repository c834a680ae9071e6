"""List of the benches: what each measures and the command that runs it (`make bench`)."""

from __future__ import annotations

import ast
from pathlib import Path

# no benches of their own
SHARED = (
    *("__init__", "__main__", "claims", "kept", "synthetic_rows"),
    *("strangers_page", "strangers_tables", "strangers_kinds"),
)


def benches() -> dict[str, tuple[str, list[str]]]:
    """Name -> the first line of its docstring and its commands, as the docstring lists them."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem not in SHARED:
            lines = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()
            found[path.stem] = (lines[0], _commands(lines))
    return found


def _commands(lines: list[str]) -> list[str]:
    """The indented lines that start with a command, each with its continuation lines."""
    commands: list[str] = []
    for line in lines:
        if line.startswith("    ") and "python" in line.split("-m")[0]:
            commands.append(line.strip())
        elif line.startswith("        ") and commands:
            commands[-1] += f" {line.strip()}"
    return commands


def main() -> None:
    stored = {path.stem for path in (Path(__file__).parent / "results").glob("*.json")}
    for name, (what, commands) in benches().items():
        print(f"{name}: {what}" + (f" Stored: results/{name}.json." if name in stored else ""))
        for command in commands:
            print(f"    {command}")


if __name__ == "__main__":
    main()
