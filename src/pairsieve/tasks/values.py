"""Numbers and dates read from the texts of a column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

import numpy as np
from numpy.typing import NDArray

Texts = Sequence[str | None]
Floats = NDArray[np.float64]

_AROUND = " \t\r\n()[]'\",;."  # what stands around a value without being part of it
_NUMBER = re.compile(
    r"(?:[$€£¥]|USD|EUR|GBP)?\s*([+-]?)\s*(?:[$€£¥])?\s*"
    r"(\d{1,3}(?:[ ,\u00a0\u202f]\d{3})+(?:\.\d+)?|\d+,\d{1,2}|\d+,\d{4,}|\d*\.?\d+(?:[eE][+-]?\d+)?|\d+\.)"
    r"\s*(?:[$€£¥%]|USD|EUR|GBP|([a-zA-Zµ]{1,7}\.?|[\"″'′]))?"
)
_MINUTES = re.compile(r"(?:(\d{1,3}):)?(\d{1,3}):([0-5]\d)")  # 3:45, or 1:03:45
# Units in metres, kilograms, litres, seconds, watts, hertz and bytes. A letter behind a house number is none.
_UNITS = {
    unit: factor
    for factor, units in {
        1e-3: "mm g ml ms",
        1e-2: "cm cl",
        0.1: "dl",
        1.0: "m kg l litre litres liter liters s sec w hz",
        1e3: "km kw khz kb",
        1e6: "mhz mb",
        1e9: "ghz gb",
        1e12: "tb",
        1e-6: "mg",
        0.0254: 'in inch inches " ″',
        0.3048: "ft foot feet ' ′",
        1609.344: "mi mile miles",
        0.028349523125: "oz",
        0.45359237: "lb lbs",
        60.0: "min mins minutes",
        3600.0: "hr hrs hours",
        745.69987: "hp",
    }.items()
    for unit in units.split()
}
_SWAPPED = str.maketrans(",.", ".,")
_NUMERAL = re.compile(r"\d[\d.,]*(?<=\d)")
# The last mark is a comma, or a dot, before other than three digits or after groups by the other mark.
_DECIMALS = tuple(
    re.compile(rf"(?:\d+{mark}(?:\d{{1,2}}|\d{{4,}})|\d{{1,3}}(?:{other}\d{{3}})+{mark}\d+)")
    for mark, other in ((",", r"\."), (r"\.", ","))
)
_CURRENCY = re.compile(r"[$€£¥]|USD|EUR|GBP")
_ISO = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*\S{0,6})?")
_COMPACT = re.compile(r"(1[5-9]\d{2}|20\d{2})(\d{2})(\d{2})")
_PARTS = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})")
_YEAR = re.compile(r"(?:c\.|ca\.|circa)?\s*(1[0-9]\d{2}|20\d{2})(?:-(0[1-9]|1[0-2])|[a-z])?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY_MONTH = re.compile(rf"(?:(\d{{1,2}})(?:st|nd|rd|th)?\.?[ -]+)?{_MONTH}[ ,-]+(\d{{4}})", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"{_MONTH}\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}})", re.IGNORECASE)
_EPOCH = date(1970, 1, 1).toordinal()


def as_number(text: str, decimal_comma: bool = False) -> float | None:
    """A number as people write it: 1,234.50, $12, 12,5 or 1e3; None where the text is no number.

    With a unit, in that of its quantity: 33 ft and 10.06 m are alike, as are 3:45 and 225 s.
    decimal_comma: its column writes 1.234,50 (see `decimal_comma_in`).
    """
    text = (text.translate(_SWAPPED) if decimal_comma else text).strip()
    if clock := _MINUTES.fullmatch(text):
        return float(int(clock[1] or 0) * 3600 + int(clock[2]) * 60 + int(clock[3]))
    found = _NUMBER.fullmatch(text)
    unit = 1.0 if found is None or found[3] is None else _UNITS.get(found[3].rstrip(".").lower())
    if found is None or unit is None:
        return None
    digits = re.sub(r"[ \u00a0\u202f]", "", found.group(2))
    if re.fullmatch(r"\d+,(\d{1,2}|\d{4,})", digits):
        digits = digits.replace(",", ".")
    return float(found.group(1) + digits.replace(",", "")) * unit


def column_numbers(texts: Texts, decimal_comma: bool | None = None) -> Floats:
    """(n,) the numbers of a column; nan where a value is missing or no number.

    decimal_comma: whether it writes 1.234,50; by its values where that is not given.
    """
    comma = decimal_comma_in(texts) if decimal_comma is None else decimal_comma
    known: dict[str, float] = {}

    def number(text: str) -> float:
        value = as_number(text, comma)
        return np.nan if value is None else value

    return np.array(
        [np.nan if text is None else known.setdefault(text, number(text)) for text in texts], np.float64
    )


def decimal_comma_in(texts: Texts) -> bool:
    """Whether a column writes 1.234,50 for what others write as 1,234.50.

    Told by values in which the last mark cannot stand before a group of three digits. Where all could be such
    groups (27.200): by a second group, a currency, or other values, all below 1,000 and without a dot.
    """
    written = {text.strip() for text in texts if text is not None}
    found = {text: numeral[0] for text in written if (numeral := _NUMERAL.search(text))}
    marked = [each for each in found.values() if "." in each or "," in each]
    comma, dot = (sum(bool(ends.fullmatch(each)) for each in marked) for ends in _DECIMALS)
    if comma or dot:
        return comma > dot
    if not marked or any("," in each or each.startswith("0") for each in marked):
        return False
    whole = [float(each) for each in found.values() if "." not in each]
    priced = any(map(_CURRENCY.search, found))
    return priced or any(each.count(".") > 1 for each in marked) or bool(whole and max(whole) < 1000)


def column_days(texts: Texts) -> Floats:
    """(n,) the dates of a column in days since 1970; nan where a value is missing or no date.

    Where day and month could be swapped, the column's other values decide; a year or month is its first day.
    """
    day_first = day_first_in(texts)
    return np.array([np.nan if text is None else days_since(text, day_first) for text in texts])


def days_since(text: str, day_first: bool) -> float:
    """A date in days since 1970, whatever stands around it; nan where the text is none."""
    text = text.strip(_AROUND)
    parts: tuple[int, int, int] | None = None
    if found := _ISO.fullmatch(text):
        parts = int(found[1]), int(found[3]), int(found[4])
    elif found := _COMPACT.fullmatch(text):
        parts = int(found[1]), int(found[2]), int(found[3])
    elif found := _PARTS.fullmatch(text):
        one, other, year = int(found[1]), int(found[3]), int(found[4])
        year += 0 if year > 99 else (2000 if year < 50 else 1900)
        parts = (year, other, one) if day_first else (year, one, other)
    elif found := _YEAR.fullmatch(text):
        parts = int(found[1]), int(found[2] or 1), 1
    elif found := _DAY_MONTH.fullmatch(text):
        parts = int(found[3]), 1 + _MONTHS.index(found[2].lower()), int(found[1] or 1)
    elif found := _MONTH_DAY.fullmatch(text):
        parts = int(found[3]), 1 + _MONTHS.index(found[1].lower()), int(found[2])
    try:
        return np.nan if parts is None else float(date(*parts).toordinal() - _EPOCH)
    except ValueError:  # there is no 31 February
        return np.nan


def day_first_in(texts: Texts) -> bool:
    """Whether dates such as 3/4/1990 begin with the day: told by a part above 12, else by the separator."""
    dotted = False
    for text in texts:
        if text is not None and (found := _PARTS.fullmatch(text.strip(_AROUND))):
            if int(found[1]) > 12:
                return True
            if int(found[3]) > 12:
                return False
            dotted = dotted or found[2] == "."
    return dotted
