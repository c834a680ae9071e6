"""Turn the argument names of a library error into the flags of the command that was run.

Library errors name arguments in backticks: `first_batch`, `precision=0.9`, `quotes=False`. A person at a
terminal typed --first-batch, --precision 0.9 or --no-quotes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_ARGUMENT = re.compile(r"`([a-z_0-9]+)(?:=([^`]*))?`")
_EITHER = re.compile(rf"({_ARGUMENT.pattern}) or ({_ARGUMENT.pattern})")


def in_flags(message: str, command: Any) -> str:
    """`message` with each argument that `command` has an option for named by that option's flag.

    Of "`one` or `other`" what the command does not have is left out.
    """
    options = {param.name.rstrip("_"): param for param in command.params}

    def flag(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if name in options and options[name].param_type_name == "argument":
            return name.upper()
        if name in options:
            written = _flags(options[name].opts)
            turned_off = _flags(options[name].secondary_opts)
        elif f"no_{name}" in options:  # an argument that is true by default
            written, turned_off = "", _flags(options[f"no_{name}"].opts)
        else:
            return found[0]
        if value in ("False", "True") or not written:
            return (turned_off if value == "False" else written) or turned_off or written
        return written if value is None else f"{written} {value.strip(chr(39) + chr(34))}"

    def either(found: re.Match[str]) -> str:
        there = [each for each in (found[1], found[4]) if _ARGUMENT.sub(flag, each) != each]
        return there[0] if len(there) == 1 else found[0]

    return _ARGUMENT.sub(flag, _EITHER.sub(either, message))


def command_of(group: Any, words: Sequence[str]) -> Any:
    """The command that `words` (the command line without the program) name; the group where none."""
    for word in words:
        if not hasattr(group, "commands"):
            break
        group = group.commands.get(word, group)
    return group


def _flags(opts: Sequence[str]) -> str:
    return max(opts, key=len, default="")
