"""Reader of Excel and OpenDocument sheets: .xlsx through openpyxl, all through python-calamine.

calamine makes room for every cell up to the last one, so that a file of a kilobyte with one cell far away
takes all memory: where both can read a file, it is openpyxl that does.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

from pairsieve.errors import InputError, MissingExtra, PairsieveError, nearest
from pairsieve.tasks.archives import Unpacked, read_unpacked

SHEET_SUFFIXES = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")
MOST_CELLS = 200_000_000  # of a sheet, empty ones among them


def read_sheet(file: Unpacked, sheet: str | None = None) -> list[list[Any]]:
    """The rows of a sheet (the first, unless named), the header among them; an empty cell is None.

    Rows stand where the sheet has them; columns and rows that are empty at its end are cut off.
    """
    _check_size(file)
    cells: list[list[Any]] = []
    width = 0
    try:
        for row in _rows(file, sheet):
            kept = [None if cell == "" else cell for cell in row]
            while kept and kept[-1] is None:
                kept.pop()
            cells.append(kept)
            width = max(width, len(kept))
    except (PairsieveError, MemoryError):
        raise
    except Exception as error:  # the readers raise whatever they stumble over in a damaged file
        raise _damaged(file, error) from error
    while cells and not cells[-1]:
        cells.pop()
    if len(cells) * width > MOST_CELLS:
        raise file.error(
            f"the sheet reaches over {len(cells):,} rows and {width:,} columns",
            why=f"more than {MOST_CELLS:,} cells, most of them surely empty",
            remedy="Delete what stands far away from the table, or save it as CSV",
        )
    return [[*row, *[None] * (width - len(row))] for row in cells]


def _rows(file: Unpacked, sheet: str | None) -> Iterable[Sequence[Any]]:
    if find_spec("openpyxl") is not None and file.suffix in (".xlsx", ".xlsm"):
        return _by_openpyxl(file, sheet)
    if find_spec("python_calamine") is not None:
        return _by_calamine(file, sheet)
    package = "openpyxl" if file.suffix in (".xlsx", ".xlsm") else "python-calamine"
    install = "pip install 'pairsieve[excel]'" if package == "openpyxl" else f"pip install {package}"
    raise MissingExtra(package, f"Reading {file.path.name}", install)


def _check_size(file: Unpacked) -> None:
    """Refuse a file whose parts unpack to far more than it holds; a zip in all but .xls."""
    if not zipfile.is_zipfile(io.BytesIO(file.contents)):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(file.contents)) as archive:
            held = 0
            for part in archive.infolist():
                with archive.open(part) as stream:
                    held += len(read_unpacked(file.path, stream, len(file.contents), held))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # encrypted, or packed oddly
        raise _damaged(file, error) from error


def _by_calamine(file: Unpacked, sheet: str | None) -> Sequence[Sequence[Any]]:
    from python_calamine import CalamineWorkbook

    book = CalamineWorkbook.from_filelike(io.BytesIO(file.contents))
    found = book.get_sheet_by_name(_sheet(file, sheet, book.sheet_names))
    return found.to_python(skip_empty_area=False)


def _by_openpyxl(file: Unpacked, sheet: str | None) -> Iterable[Sequence[Any]]:
    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(file.contents), read_only=True, data_only=True)
    rows: Iterable[Sequence[Any]] = book[_sheet(file, sheet, book.sheetnames)].iter_rows(values_only=True)
    return rows


def _sheet(file: Unpacked, wanted: str | None, names: Sequence[str]) -> str:
    if wanted is None:
        return names[0]
    if wanted not in names:
        raise InputError(f"there is no sheet {wanted!r}", where=str(file.path), remedy=nearest(wanted, names))
    return wanted


def _damaged(file: Unpacked, error: Exception) -> InputError:
    why = str(error).splitlines()[0] if str(error) else type(error).__name__
    return file.error("the file is not a whole spreadsheet", why=why, remedy="Save or copy it again")
