"""Matching sets as people really have them: every one is read right, or refused with the way out.

One made set: 12 records on either side, a0 … a11 and b0 … b11, of which the first 9 match. Each story writes
it another way; what comes out must be the same nine matches, or an error that names file, row and remedy.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pairsieve.errors import InputError
from pairsieve.tasks import Task, matching_task

HEAD = ("id", "name", "maker", "price")
LEFT = [(f"a{i}", f"lamp number {i}", "acme", str(10 + i)) for i in range(12)]
RIGHT = [(f"b{i}", f"LAMP {i}, oak", "Acme Inc", str(90 + i)) for i in range(12)]
MATCHES = [(f"a{i}", f"b{i}") for i in range(9)]
Rows = Sequence[Sequence[object]]
Write = Callable[[Path], None]


def table(rows: Rows, head: Sequence[str] = (), mark: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=mark, lineterminator="\n").writerows([head, *rows] if head else rows)
    return text.getvalue()


def files(**contents: str | bytes) -> Write:
    """Files by name, "__" for a dot and "___" for a slash."""

    def write(root: Path) -> None:
        for name, held in contents.items():
            path = root / name.replace("___", "/").replace("__", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(held if isinstance(held, bytes) else held.encode())

    return write


def numbered(rows: Rows, form: str = "{}") -> list[tuple[object, ...]]:
    """Records under numbers in place of a0, b0: the right table's begin at 100."""
    return [(form.format(int(str(key)[1:]) + 100 * str(key).startswith("b")), *rest) for key, *rest in rows]


def lines(rows: Rows, head: Sequence[str]) -> str:
    return "\n".join(json.dumps(dict(zip(head, row))) for row in rows)


A, B, MAP = table(LEFT, HEAD), table(RIGHT, HEAD), table(MATCHES, ("idLeft", "idRight"))
PAIRS = [(i, i + 100) for i in range(9)]
LABELLED = [(one, other, 1) for one, other in PAIRS] + [(i, 100 + (i + 2) % 12, 0) for i in range(12)]
LABEL_HEAD = ("ltable_id", "rtable_id", "label")
PARTS = {
    f"{folder}{name}__csv": table(LABELLED[first::3], LABEL_HEAD)
    for folder in ("", "exp_data___")
    for first, name in enumerate(("train", "valid", "test"))
}
NUMBERED = {"tableA__csv": table(numbered(LEFT), HEAD), "tableB__csv": table(numbered(RIGHT), HEAD)}
MAGELLAN = [
    (at, f"a{one}", f"b{other - 100}", "lamp", "LAMP", label)
    for at, (one, other, label) in enumerate(LABELLED)
]
MAGELLAN_HEAD = ("_id", "ltable.ID", "rtable.ID", "ltable.name", "rtable.name", "gold")
NOTES = "#key=_id\n#ltable=pointer\n#foreign_key_ltable=ltable.ID\n"

READ = {
    "plain": files(Left__csv=A, Right__csv=B, mapping__csv=MAP),
    "other column names": files(
        shop__csv=table(LEFT, ("sku", "title", "brand", "cost")),
        list__csv=table(RIGHT, ("code", "product", "vendor", "usd")),
        gold__csv=table(MATCHES, ("sku", "code")),
    ),
    "semicolons": files(
        Left__csv=table(LEFT, HEAD, ";"), Right__csv=B, mapping__csv=table(MATCHES, ("l", "r"), ";")
    ),
    "tabs named csv": files(Left__csv=table(LEFT, HEAD, "\t"), Right__csv=B, mapping__csv=MAP),
    "latin-1": files(Left__csv=A.replace("acme", "café").encode("latin-1"), Right__csv=B, mapping__csv=MAP),
    "marks": files(Left__csv=A.encode("utf-8-sig"), Right__csv=B.encode("utf-16"), mapping__csv=MAP),
    "line breaks in quotes": files(
        Left__csv=table([(k, f'{n}\n"two", lines', *r) for k, n, *r in LEFT], HEAD),
        Right__csv=B,
        mapping__csv=MAP,
    ),
    "numbers as pandas writes them": files(
        Left__csv=table(numbered(LEFT), HEAD),
        Right__csv=table(numbered(RIGHT, "{:06}"), HEAD),
        mapping__csv=table([(f"{one}.0", other) for one, other in PAIRS], ("l", "r")),
    ),
    "spaces after commas": files(Left__csv=A, Right__csv=B, mapping__csv=MAP.replace(",", ", ")),
    "more columns": files(
        Left__csv=A,
        Right__csv=B,
        mapping__csv=table([(i, *pair, "0.98") for i, pair in enumerate(MATCHES)], ("", "l", "r", "sure")),
    ),
    "right before left": files(
        Left__csv=B, Right__csv=A, mapping__csv=table([(a, b) for a, b in MATCHES], ("idRight", "idLeft"))
    ),
    "a mapping without a header": files(Left__csv=A, Right__csv=B, mapping__csv=table(MATCHES)),
    "a mapping under any name": files(
        Left__csv=A, Right__csv=B, same__csv=table([(*pair, 1) for pair in MATCHES], ("x", "y", "label"))
    ),
    "a mapping with labels": files(
        Left__csv=A,
        Right__csv=B,
        mapping__csv=table([(*pair, 1) for pair in MATCHES] + [("a0", "b5", 0)], ("l", "r", "label")),
    ),
    "packed": files(
        Left__csv__gz=gzip.compress(A.encode()), Right__csv=B, mapping__csv__gz=gzip.compress(MAP.encode())
    ),
    "json lines": files(
        Left__jsonl=lines([(int(str(k)), *r) for k, *r in numbered(LEFT)], HEAD),
        Right__csv=table(numbered(RIGHT), HEAD),
        mapping__csv=table(PAIRS, ("l", "r")),
    ),
    "files that a system hides": files(
        Left__csv=A,
        Right__csv=B,
        mapping__csv=MAP,
        __MACOSX___x__csv=b"\0",
        __DS_Store=b"\0",
        _README__md="x",
    ),
    "records that end in a comma": files(
        Left__csv=table(LEFT, HEAD).replace("\n", ",\n").replace("price,", "price", 1),
        Right__csv=B,
        mapping__csv=MAP,
    ),
    "DeepMatcher": files(**NUMBERED, **{k: v for k, v in PARTS.items() if "exp_data" not in k}),
    "DeepMatcher's subfolder": files(**NUMBERED, **{k: v for k, v in PARTS.items() if "exp_data" in k}),
    "DeepMatcher without negatives": files(
        **NUMBERED, train__csv=table(LABELLED[:5], LABEL_HEAD), test__csv=table(LABELLED[5:9], LABEL_HEAD)
    ),
    "Magellan": files(A__csv=A, B__csv=B, labeled_data__csv=table(MAGELLAN, MAGELLAN_HEAD)),
    "Magellan's notes": files(
        A__csv=A,
        B__csv=B,
        gold__csv=NOTES
        + table([(*r[:3], r[5]) for r in MAGELLAN], ("_id", "ltable.id", "rtable.id", "gold")),
    ),
}


def matched(task: Task) -> set[tuple[int, int]]:
    """The matches of all pairs as the numbers in their keys, the right table's counted from 0."""
    part = task.splits["all"]
    digits = [
        [int("".join(filter(str.isdigit, key))) % 100 for key in side.keys]
        for side in (part.left, part.right)
    ]
    return {(digits[0][pair >> 32], digits[1][pair & 0xFFFF_FFFF]) for pair in part.positives.tolist()}


@pytest.mark.parametrize("story", READ)
def test_a_set_is_read_right(tmp_path: Path, story: str) -> None:
    READ[story](tmp_path)
    task = matching_task(tmp_path)
    assert matched(task) == {(i, i) for i in range(9)}
    assert len(task.splits["all"].left) == len(task.splits["all"].right) == 12
    assert "lamp" in task.splits["all"].left.texts[0].lower()


def test_labels_of_0_are_no_matches(tmp_path: Path) -> None:
    """A mapping with a label column: what it calls no match is stated as none, not taken for one."""
    READ["a mapping with labels"](tmp_path)
    part = matching_task(tmp_path).splits["all"]
    assert part.stated_negatives.tolist() == part.space.ids([0], [5]).tolist()


REFUSED = {
    "no headers": (
        files(Left__csv=table(LEFT), Right__csv=table(RIGHT), mapping__csv=table(MATCHES)),
        r"Left\.csv, row 1: the first row is a record, not a header.*Put the column names",
    ),
    "a key twice": (
        files(Left__csv=table([*LEFT, LEFT[0]], HEAD), Right__csv=B, mapping__csv=MAP),
        r"Left\.csv, row 14.*'a0' stands in rows 2 and 14",
    ),
    "an unknown key": (
        files(Left__csv=A, Right__csv=B, mapping__csv=MAP + "a1,zz\n"),
        r"mapping\.csv, row 11.*'zz' is not in Right\.csv",
    ),
    "a spreadsheet": (
        files(Left__xlsx=b"PK", Right__csv=B, mapping__csv=MAP),
        r"no known way.*not read as tables: Left\.xlsx.*`left`, `right` and `mapping`",
    ),
    "whole records in pairs": (
        files(train__csv="id,label,left_name,right_name\n1,1,x,y\n"),
        r"train\.csv holds pairs of whole records.*ids into two tables",
    ),
    "no labels": (
        files(**NUMBERED, train__csv=table(PAIRS, LABEL_HEAD[:2])),
        r"train\.csv, row 1: no column holds labels.*`mapping`",
    ),
    "one table": (
        files(records__csv=A, mapping__csv=table([("a0", "a1")], ("x", "y"))),
        "pairsieve data tables",
    ),
    "a field too many": (
        files(Left__csv=A + "a99,one,two,3,4\n", Right__csv=B, mapping__csv=MAP),
        r"Left\.csv, row 14: the row has 5 fields, the header has 4",
    ),
}


@pytest.mark.parametrize("story", REFUSED)
def test_a_set_is_refused_with_the_way_out(tmp_path: Path, story: str) -> None:
    write, words = REFUSED[story]
    write(tmp_path)
    with pytest.raises(InputError, match=words):
        matching_task(tmp_path)
