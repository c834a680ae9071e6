"""HTML for a notebook: one small table, nothing loaded from anywhere.

Every word that comes from a user (paths, keys, texts) passes through `shown`; numbers are written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pairsieve.visible import visible

LONGEST = 200  # characters of a text that a cell shows
LONGEST_FOOT = 2000
_CELL = "padding:2px 8px;text-align:{}"


def html_table(
    head: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    foot: str = "",
    words: Sequence[str] = (),
) -> str:
    """A table with a caption; the columns named in `words` are aligned as words, the others as numbers."""
    sides = ["left" if column in words else "right" for column in columns]

    def line(cells: Sequence[str], tag: str, more: str = "") -> str:
        parts = (
            f'<{tag}{more} style="{_CELL.format(side)}">{shown(cell)}</{tag}>'
            for cell, side in zip(cells, sides)
        )
        return f"<tr>{''.join(parts)}</tr>"

    caption = f'<caption style="text-align:left;font-weight:bold">{shown(head)}</caption>'
    names = line(columns, "th", ' scope="col"')
    body = "".join(line(row, "td") for row in rows)
    below = f"<p>{shown(foot, LONGEST_FOOT)}</p>" if foot else ""
    return f"<div><table>{caption}<thead>{names}</thead><tbody>{body}</tbody></table>{below}</div>"


def shown(words: str, most: int = LONGEST) -> str:
    """Somebody else's words as HTML: what could be a tag is no tag, what cannot be seen is made visible."""
    return escape(visible(words, most))
