"""Texts of unknown origin, escaped for a page or a terminal: control characters become visible.

Control characters would move a terminal's cursor or be dropped by a browser, and marks that turn the
direction of writing would turn the words around them as well.
"""

from __future__ import annotations

_TURNING = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_CONTROLS: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20)},  # the pictures of control characters
    0x7F: "␡",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),  # half a character
    **dict.fromkeys([0xFFFE, 0xFFFF], "\ufffd"),
    **dict.fromkeys([0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029], " "),
}


def visible_lines(text: str) -> str:
    """The same of several lines, which stay lines."""
    return "\n".join(map(visible, text.split("\n")))


def visible(text: str, most: int | None = None) -> str:
    """`text` in one line, fit for a page or a terminal; past `most` characters it is cut."""
    cut = text if most is None or len(text) <= most else text[:most]
    shown = cut.translate(_CONTROLS | _TURNING)
    return shown if len(cut) == len(text) else f"{shown}… ({len(text):,} characters)"
