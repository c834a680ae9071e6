"""Question and answer files for annotators: CSV, JSON Lines, Parquet, Label Studio.

A batch has one row per pair: left_key, right_key, left_text, right_text, and empty columns label, who and
comment. People fill in the label, in the words of `tasks.label_words`; empty means unanswered. Rows are
numbered as a spreadsheet shows them: the header of a CSV file is row 1; in JSON Lines the row is the line; in
Parquet the first record is row 1.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pairsieve.contracts import Answer
from pairsieve.errors import InputError, nearest
from pairsieve.files import write_errors, write_text
from pairsieve.ledger.names import person_name
from pairsieve.pairs import Ids
from pairsieve.tables import from_spreadsheet, write_rows
from pairsieve.tasks.archives import unpack
from pairsieve.tasks.decoding import decode
from pairsieve.tasks.label_words import ACCEPTED_LABELS, LABEL_WORDS, plain_label
from pairsieve.tasks.reading import Table, parse_table


class NobodyNamed(InputError):
    """An answer in a file of which neither the file nor anybody else says who gave it."""


COLUMNS = ("left_key", "right_key", "left_text", "right_text", "label", "who", "comment")
FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet", ".json": "label-studio"}
_WORDS = {1: "match", 0: "no match", None: "unsure"}


@dataclass(frozen=True)
class QuestionBatch:
    """Questions with the texts to read; all columns have the same length."""

    ids: Ids
    left_keys: Sequence[str]
    right_keys: Sequence[str]
    left_texts: Sequence[str]
    right_texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self) -> Iterator[dict[str, str]]:
        """One dict per question, the label still empty."""
        columns = zip(self.left_keys, self.right_keys, self.left_texts, self.right_texts, strict=True)
        return (dict(zip(COLUMNS, [*row, "", "", ""])) for row in columns)


@dataclass(frozen=True)
class AskedPairs:
    """What a file may answer: the id of each asked pair of keys; all keys tell a slip from an unknown key."""

    ids: Mapping[tuple[str, str], int]
    left_keys: frozenset[str]
    right_keys: frozenset[str]

    @staticmethod
    def of(
        ids: Ids,
        left_keys: Sequence[str],
        right_keys: Sequence[str],
        all_left: Sequence[str],
        all_right: Sequence[str],
        symmetric: bool,
    ) -> AskedPairs:
        """In a symmetric space (b, a) names the same pair as (a, b)."""
        named = dict(zip(zip(left_keys, right_keys), ids.tolist(), strict=True))
        if symmetric:
            named |= {(right, left): id for (left, right), id in list(named.items())}
        return AskedPairs(named, frozenset(all_left), frozenset(all_right))

    def id(self, left: str, right: str, where: str) -> int:
        """The id of the asked pair, or an error that says what is wrong with it."""
        found = self.ids.get((left, right))
        if found is not None:
            return found
        for side, key, known in (("left", left, self.left_keys), ("right", right, self.right_keys)):
            if key not in known:
                numeric = key.lstrip("0") in {other.lstrip("0") for other in known} and key != ""
                what = f"there is no text with the {side} key {key!r}"
                why = "a spreadsheet may have dropped the zeros in front of it" if numeric else ""
                remedy = "Keep the keys as they are in the batch; import key columns as text"
                raise InputError(what, where=where, why=why, remedy=remedy)
        what, why = (
            f"the pair ({left!r}, {right!r}) was never asked",
            "only questions in the ledger take answers",
        )
        remedy = "Answer the rows of a batch written by pairsieve ask, and add none"
        raise InputError(what, where=where, why=why, remedy=remedy)


@dataclass(frozen=True)
class FileAnswer:
    """One answer in a file: what, by whom, and where it stands."""

    id: int
    label: int | None
    who: str
    comment: str
    where: str


@dataclass(frozen=True)
class AnswerFile:
    """The answers of a file, one per person and pair; rows without a label and cancelled ones are counted."""

    answers: tuple[FileAnswer, ...]
    unanswered: int
    cancelled: int = 0

    def by_person(self) -> dict[str, tuple[list[Answer], list[str]]]:
        """{who: (answers, comments)} in the order of the file."""
        found: dict[str, tuple[list[Answer], list[str]]] = {}
        for each in self.answers:
            given, comments = found.setdefault(each.who, ([], []))
            given.append(Answer(each.id, each.label))
            # What is no character, and the zero that PostgreSQL does not keep, is replaced.
            comments.append(each.comment.encode(errors="replace").decode().replace("\0", "\ufffd"))
        return found


def format_of(path: Path, named: str | None = None) -> str:
    """The format named, or the one that the file's name tells."""
    known = set(FORMATS.values())
    if named is not None and named not in known:
        raise InputError(f"unknown format {named!r}", where="`format`", remedy=nearest(named, known))
    if named is None and path.suffix not in FORMATS:
        what = f"cannot tell the format of a {path.suffix or 'suffix-less'} file"
        remedy = f"Choose a name that ends in {', '.join(FORMATS)}, or pass `format`"
        raise InputError(what, where=str(path), remedy=remedy)
    return named or FORMATS[path.suffix]


def write_batch(
    path: Path, batch: QuestionBatch, format: str | None = None, guideline: str = ""
) -> list[Path]:
    """Write the questions, whole or not at all; returns the files written.

    Label Studio gets two: the tasks, and beside them the labelling configuration, with `guideline` on top.
    """
    form = format_of(path, format)
    if form == "label-studio":
        from pairsieve.sources.label_studio import labelling_config, tasks_json

        config = path.with_suffix(".xml")
        with write_errors("the file", path):
            write_text(path, tasks_json(batch))
            write_text(config, labelling_config(guideline))
        return [path, config]
    rows = batch.rows() if form != "jsonl" else (row | {"label": None} for row in batch.rows())
    # With a byte-order mark in CSV, as a spreadsheet would otherwise take the texts for another encoding.
    encoding = "utf-8-sig" if form == "csv" else "utf-8"
    with write_errors("the file", path):
        write_rows(path, dict.fromkeys(COLUMNS, "string"), rows, suffix=f".{form}", encoding=encoding)
    return [path]


def read_answers(
    path: Path, asked: AskedPairs, who: str | None = None, format: str | None = None
) -> AnswerFile:
    """The answers in a file; `who` answers where the file names nobody. Any fault names file, row and key.

    Refused: unknown keys, pairs never asked, labels outside the vocabulary, and two rows by one person that
    contradict each other. The same row twice counts once.
    """
    form = format_of(path, format)
    if form == "label-studio":
        from pairsieve.sources.label_studio import read_export

        return read_export(path, asked, who)
    table = _read_table(path, form)
    present = {*COLUMNS[:2], *table.names}  # texts, who and comment may be missing
    if {*COLUMNS[:2]} <= {*table.names} and "label" not in table.names:
        raise no_labels(str(path), table.names)
    columns = [table.strings(name) if name in present else [""] * len(table) for name in COLUMNS]
    if form == "csv":
        columns = [list(map(from_spreadsheet, column)) for column in columns]
    answers: dict[tuple[str, int], FileAnswer] = {}
    unanswered = 0
    for row, *cells in zip(table.numbers, *columns):
        if not any(cells):
            continue
        left, right, _, _, *given = cells
        text, name, comment = map(str.strip, given)
        where = f"{path}, row {row}, pair ({left!r}, {right!r})"
        id = asked.id(left, right, where)
        if text == "":
            unanswered += 1
            continue
        name = name or who or ""
        if not name:
            remedy = "Fill in the column 'who', or pass `who`"
            raise NobodyNamed("nobody is named for this answer", where=where, remedy=remedy)
        name = person_name(name, where=where)
        new = FileAnswer(id, read_label(text, where), name, comment, where)
        before = answers.setdefault((name, id), new)
        if before.label != new.label:
            here, there = (_WORDS[each.label] for each in (new, before))
            what = f"{name} says {here} here, and {there} at {before.where}"
            raise InputError(what, where=where, remedy="Keep one of the two rows")
    return AnswerFile(tuple(answers.values()), unanswered)


def no_labels(where: str, names: Iterable[str]) -> InputError:
    """The error of a file with the keys of pairs and no place for their answers."""
    names = list(names)
    close = difflib.get_close_matches("label", [name.lower() for name in names], n=1, cutoff=0.5)
    near = next((name for name in names if [name.lower()] == close), "")
    return InputError(
        "there is no column 'label', so there are no answers",
        where=where,
        why=f"the columns are {', '.join(names)}",
        remedy=f"Rename {near!r} to 'label'" if near else "Call the column with the answers 'label'",
    )


def read_label(text: str, where: str) -> int | None:
    """1, 0 or None (unsure), as people write them."""
    plain = plain_label(text)
    if plain not in LABEL_WORDS:
        remedy = f"Write {ACCEPTED_LABELS}; or leave it empty"
        raise InputError(f"the label is {text!r}", where=where, remedy=remedy)
    label = LABEL_WORDS[plain]
    return None if label is None else int(label)


def read_text(path: Path) -> str:
    """A text file, which is UTF-8."""
    return decode(unpack(path), "UTF-8", guess=False)[0]


def _read_table(path: Path, form: str) -> Table:
    file = replace(unpack(path), suffix=f".{form}")
    try:
        return parse_table(
            file, encoding="UTF-8", sniff=True
        )  # some countries' spreadsheets write semicolons
    except InputError as error:
        remedy = "Save it as the batch was written: UTF-8, one row a pair (in a spreadsheet: CSV UTF-8)"
        raise InputError(error.what, where=error.where, why=error.why, remedy=remedy) from error
