"""The values of a record joined into one text, each in its place, and taken apart again.

A missing value leaves its place empty, so that the second value of every text is of the second column. What
reads a text as words (an encoder, n-grams) reads it without the gaps, and without the values behind `BESIDE`:
these are compared field by field and say too little for their length to be read. A text by a template has its
values behind `RENDERED`: what stands before is read, what stands behind is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

BETWEEN = " | "  # stands between the values
BESIDE = " ␟ "  # stands before the values that are compared only; U+241F, which no text has
RENDERED = " ␞ "  # stands between a text by a template and the values it was made of; U+241E


def joined(values: Iterable[str], beside: Iterable[str] = ()) -> str:
    """One text of the values, stripped; "" where all of them are empty, whatever is `beside`."""
    read, compared = ([_plain(value) for value in each] for each in (values, beside))
    if not any(read):
        return ""
    return BETWEEN.join(read) + (BESIDE + BETWEEN.join(compared) if compared else "")


def joined_rows(columns: Sequence[Sequence[str]], beside: Sequence[Sequence[str]] = ()) -> list[str]:
    """The texts of a table given by its columns; those of a single column as they are."""
    if len(columns) == 1 and not beside:
        return list(columns[0])
    others = zip(*beside) if beside else [()] * len(columns[0])
    return [joined(row, other) for row, other in zip(zip(*columns), others)]


def rendered(text: str, values: Sequence[str]) -> str:
    """A text by a template with the values it was made of, where there are several; "" where it is empty."""
    plain = _unmarked(text)
    return f"{plain}{RENDERED}{joined(values)}" if len(values) > 1 and plain.strip() else plain


def _plain(value: str) -> str:
    return _unmarked(value.strip().replace(BETWEEN, " / ")).strip("|").strip()


def _unmarked(text: str) -> str:
    return text.replace(BESIDE.strip(), " ").replace(RENDERED.strip(), " ")


def taken_apart(text: str) -> list[str]:
    """The values of a joined text, "" where one is missing; a plain text is one value."""
    if RENDERED in text:
        text = text.partition(RENDERED)[2]
    return [value.strip() for value in f" {text} ".replace(BESIDE, BETWEEN, 1).split(BETWEEN)]


def read_part(text: str) -> str:
    """A joined text without the values that are compared only; any other text as it is."""
    if RENDERED in text:
        return text.partition(RENDERED)[0]
    return f"{text} ".partition(BESIDE)[0] if BESIDE.strip() in text else text


def without_gaps(text: str) -> str:
    """What is read of a joined text: no places of missing values, none that is compared only."""
    text = read_part(text)
    if BETWEEN.strip() not in text:
        return text
    values = taken_apart(text)
    return text if all(values) else BETWEEN.join(filter(None, values))
