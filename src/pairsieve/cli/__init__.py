"""The command line: parse options, call the library, print the result.

stdout is data, stderr is progress and remarks; input that cannot be used exits with 2.
"""

from __future__ import annotations

import _thread
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from typing import Any, TypeVar

import typer
from typer.core import TyperGroup

from pairsieve import __version__
from pairsieve.cli.flags import command_of, in_flags
from pairsieve.errors import PairsieveError
from pairsieve.progress import above_bars
from pairsieve.visible import visible_lines

ORDER = (
    *(
        "demo",
        "data",
        "init",
        "run",
        "label",
        "status",
        "extend",
        "audit",
        "evaluate",
        "draw",
        "match",
        "cluster",
    ),
    *("export", "serve", "report", "explain", "ask", "import", "ask-model", "ledger"),
)

_ABOUT = """Find the rare matching pairs among billions, with few labels.

A task is a folder of texts, made by `data`. A campaign spends labels on a task in rounds: choose pairs,
ask for their labels, train, measure (`init`, `run`, `label`). Then use the matches (`match`, `cluster`,
`serve`, `export`).

AP is average precision; P@R20 is precision at 20 % recall. Other terms: the glossary in ARCHITECTURE.md.
"""
MODULES = (*("audit", "campaign", "data", "demo", "evaluate"), *("labels", "match", "report", "serve"))
Result = TypeVar("Result")


class InOrder(TyperGroup):
    """Commands in the order in which people meet them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


app = typer.Typer(
    name="pairsieve",
    cls=InOrder,
    help=_ABOUT,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pairsieve {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """What the program is about, and --version."""


def show(data: Any, as_json: bool, words: str, escaped: bool = False) -> None:
    """Print `data` as JSON, or `words` for a person.

    Names of columns, keys and texts are somebody's: what would command the terminal is made visible, unless
    the words are `escaped` already.
    """
    words = words if escaped else visible_lines(words)
    typer.echo(json.dumps(data, indent=2, allow_nan=False) if as_json else words)


def say(words: str) -> None:
    """A remark for the person at the terminal, never part of the data."""
    with above_bars():
        typer.echo(visible_lines(words), err=True)


def call(function: Callable[..., Result], options: Mapping[str, Any], *first: Any, **others: Any) -> Result:
    """Call a function of the library with a command's `options`, those that it has an argument for.

    Arguments are called like options. `first` and `others` are given as they are.
    """
    taken = [*signature(function).parameters][len(first) :]
    named = {name.rstrip("_"): value for name, value in options.items()}
    return function(*first, **{name: named[name] for name in taken if name in named} | others)


def all_commands() -> typer.Typer:
    """The command line with every command in it."""
    for module in MODULES:
        import_module(f"pairsieve.cli.{module}")  # adds its commands to `app`
    return app


def main(commands: typer.Typer | None = None) -> None:
    """Run the command line, or other `commands`; a failure the user can act on is printed in words."""
    before = {kind: signal.signal(kind, _stop) for kind in (signal.SIGINT, signal.SIGTERM)}
    hook, sys.unraisablehook = sys.unraisablehook, _stop_again
    try:
        (commands or all_commands())()
    except (Stopped, PairsieveError) as error:
        command = command_of(typer.main.get_command(app), sys.argv[1:])
        say(f"pairsieve: {in_flags(str(error), command)}")
        sys.exit(error.exit_code)
    except OSError as error:  # a folder that cannot be written, a disk that went away
        what = f"{error.filename or 'a file'}: {error.strerror or error}"
        say(f"pairsieve: {what}. Check the path, its rights and its disk.")
        sys.exit(2)
    except RuntimeError as error:  # how pathlib says it, before Python 3.13
        if "Symlink loop" not in str(error):
            raise
        say(f"pairsieve: {error}. Check the path.")
        sys.exit(2)
    except MemoryError as error:
        why = f" ({error})" if str(error) else ""
        say(f"pairsieve: there is not enough memory{why}. Give it less at once.")
        sys.exit(2)
    finally:
        sys.unraisablehook = hook
        for kind, handler in before.items():
            if signal.getsignal(kind) is _stop:  # else it is ending: a second signal ends it at once
                signal.signal(kind, handler)


class Stopped(BaseException):
    """Ctrl-C or SIGTERM; no Exception, so that nothing on the way takes it for a failure of its own."""

    def __init__(self, kind: int = signal.SIGINT) -> None:
        self.exit_code = 128 + kind
        super().__init__("stopped. What was finished is kept; run the same command again to go on.")


def _stop(kind: int, _: object) -> None:
    """The first signal ends in good order; the second at once, without a traceback."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _stop_now)
    raise Stopped(kind)


def _stop_now(kind: int, _: object) -> None:
    os._exit(128 + kind)


def _stop_again(lost: sys.UnraisableHookArgs) -> None:
    """A signal that came inside a finaliser, where exceptions are lost: it comes once more, soon after."""
    if not isinstance(lost.exc_value, Stopped):
        sys.__unraisablehook__(lost)
        return
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _stop)
    kind = lost.exc_value.exit_code - 128
    threading.Timer(0.05, _thread.interrupt_main, (kind,)).start()
