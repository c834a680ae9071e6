"""Reader of Excel and OpenDocument sheets, through python-calamine or openpyxl, whichever is installed."""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from pairsieve.errors import InputError, MissingExtra, nearest
from pairsieve.tasks.archives import Unpacked

SHEET_SUFFIXES = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")


def read_sheet(file: Unpacked, sheet: str | None = None) -> list[list[Any]]:
    """The rows of a sheet (the first, unless named), the header among them; an empty cell is None.

    Rows stand where the sheet has them; columns and rows that are empty at its end are cut off.
    """
    if find_spec("python_calamine") is not None:
        rows = _by_calamine(file, sheet)
    elif find_spec("openpyxl") is not None and file.suffix in (".xlsx", ".xlsm"):
        rows = _by_openpyxl(file, sheet)
    else:
        package = "openpyxl" if file.suffix in (".xlsx", ".xlsm") else "python-calamine"
        install = "pip install 'pairsieve[excel]'" if package == "openpyxl" else f"pip install {package}"
        raise MissingExtra(package, f"Reading {file.path.name}", install)
    cells = [[None if cell == "" else cell for cell in row] for row in rows]
    width = max((at + 1 for row in cells for at, cell in enumerate(row) if cell is not None), default=0)
    while cells and not any(cell is not None for cell in cells[-1]):
        cells.pop()
    return [[*row[:width], *[None] * (width - len(row))] for row in cells]


def _by_calamine(file: Unpacked, sheet: str | None) -> Sequence[Sequence[Any]]:
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(file.contents))
    except CalamineError as error:
        raise _torn(file, error) from error
    found = book.get_sheet_by_name(_sheet(file, sheet, book.sheet_names))
    return found.to_python(skip_empty_area=False)


def _by_openpyxl(file: Unpacked, sheet: str | None) -> Sequence[Sequence[Any]]:
    import zipfile

    import openpyxl

    try:
        book = openpyxl.load_workbook(io.BytesIO(file.contents), read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise _torn(file, error) from error
    return [list(row) for row in book[_sheet(file, sheet, book.sheetnames)].iter_rows(values_only=True)]


def _sheet(file: Unpacked, wanted: str | None, names: Sequence[str]) -> str:
    if wanted is None:
        return names[0]
    if wanted not in names:
        raise InputError(f"there is no sheet {wanted!r}", where=str(file.path), remedy=nearest(wanted, names))
    return wanted


def _torn(file: Unpacked, error: Exception) -> InputError:
    why = str(error).splitlines()[0] if str(error) else type(error).__name__
    return file.error("the file is not a whole spreadsheet", why=why, remedy="Save or copy it again")
