"""The command line: parse, call, print. stdout is data, stderr is progress and words; bad input exits 2."""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from pairsieve.errors import PairsieveError

ORDER = (
    *("demo", "data", "init", "run", "label", "status", "audit", "evaluate", "draw", "match", "cluster"),
    *("export", "serve", "report", "explain", "ask", "import", "ask-model", "ledger", "experiment"),
)


class InOrder(TyperGroup):
    """Commands in the order in which people meet them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


app = typer.Typer(
    name="pairsieve",
    cls=InOrder,
    help="Find the rare matching pairs among billions, with few labels.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def show(data: Any, as_json: bool, words: str) -> None:
    """Print `data` as JSON, or `words` for a person."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False) if as_json else words)


def say(words: str) -> None:
    """A remark for the person at the terminal, never part of the data."""
    typer.echo(words, err=True)


def all_commands() -> typer.Typer:
    """The command line with every command in it."""
    import pairsieve.cli.ask_model
    import pairsieve.cli.audit
    import pairsieve.cli.campaign
    import pairsieve.cli.data
    import pairsieve.cli.demo
    import pairsieve.cli.evaluate
    import pairsieve.cli.experiment
    import pairsieve.cli.explain
    import pairsieve.cli.label
    import pairsieve.cli.labels
    import pairsieve.cli.match
    import pairsieve.cli.report
    import pairsieve.cli.serve  # noqa: F401  (each adds its commands to `app`)

    return app


def main() -> None:
    """Run the command line; a failure the user can act on is printed in words, without a traceback."""
    before = signal.signal(signal.SIGINT, _stop)
    try:
        all_commands()()
    except (PairsieveError, Stopped) as error:
        say(f"pairsieve: {error}")
        sys.exit(error.exit_code)
    except OSError as error:  # a folder that cannot be written, a disk that went away
        what = f"{error.filename or 'a file'}: {error.strerror or error}"
        say(f"pairsieve: {what}. Check the path, its rights and its disk.")
        sys.exit(2)
    finally:
        signal.signal(signal.SIGINT, before)


class Stopped(BaseException):
    """Ctrl-C; no Exception, so that nothing on the way takes it for a failure of its own."""

    exit_code = 130


def _stop(*_: object) -> None:
    raise Stopped("stopped. What was finished is kept; run the same command again to go on.")
