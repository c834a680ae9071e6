"""Tables of the bench of strangers: real ones read from the data folder, synthetic ones of many kinds.

A table is made into a task with its whole truth. Where answers are wrong or unsure, the campaign gets the
task without its truth and the bench answers by itself.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from experiments.bench.held_out_tables import TABLES as HELD_OUT_TABLES
from experiments.bench.strangers_kinds import Columns, devices, songs
from experiments.synthetic.records import table_of
from pairsieve.demo import ROUGHNESS, SIZES
from pairsieve.pairs import AllPairs, CrossPairs, Ids, is_member, pair_rows
from pairsieve.synthetic import CITATIONS, Roughness, group_sizes, same_cluster, synthetic_records
from pairsieve.tasks import Collection, Split, Task, matching_task, qqp_task, tables_task, wikiqa_task
from pairsieve.tasks.fields import make_fields
from pairsieve.tasks.joined import joined_rows

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
CORA_COLUMNS = ("author", "title", "venue", "year", "pages")
PLACE_COLUMNS = ("label", "lat", "lon")
NOTHING = np.empty(0, np.int64)
HELD_OUT = "held-out"  # of the data folder: what `held_out_tables` makes


@dataclass(frozen=True)
class StrangerTable:
    """A table of the bench: what is awkward about it, how it is made, and who answers.

    answers: "truth", "wrong" (one in twenty is the other way round) or "unsure" (all of them).
    budgets: numbers of labels of its own, where the common ones do not fit. edge: only the outcome counts.
    """

    name: str
    about: str
    make: Callable[[Path], Task]
    answers: str = "truth"
    budgets: tuple[int, ...] = ()
    edge: bool = False
    file: str = ""  # below the data folder; synthetic tables need none

    @property
    def kind(self) -> str:
        if self.name in HELD_OUT_TABLES:
            return "held out"
        return "real" if self.file else "synthetic"

    def place(self, data: Path, held_out: Path | None = None) -> Path | None:
        """Where its files are; tables of kind "held out" may lie in a folder of their own."""
        if held_out is not None and self.kind == "held out":
            return held_out / self.name
        return data / self.file if self.file else None

    def task(self, data: Path, held_out: Path | None = None) -> Task:
        if held_out is not None and self.kind == "held out":
            return held_out_task(held_out / self.name)
        return self.make(data)


# ── real tables ─────────────────────────────────────────────────────────────────────────────────


def _only_all(split: Split, task: Task) -> Task:
    return Task(task.name, task.relation, {"all": replace(split, name="all")}, task.provenance, task.report)


def _matching(name: str, data: Path) -> Task:
    task = matching_task(data / "matching" / name)
    return _only_all(task.splits["all"], task)


def _one_table(name: str, keys: Iterable[str], texts: Iterable[str], positives: Ids) -> Task:
    side = Collection(list(keys), list(texts))
    split = Split("all", AllPairs(len(side)), side, side, positives, NOTHING, True)
    return Task(name, "equivalence", {"all": split}, {"source": name}, {})


def _with_fields(name: str, table: dict[str, list[str]], key: str, columns: Iterable[str], ids: Ids) -> Task:
    """A table as `pairsieve data tables` keeps it: texts of the columns, and these as fields."""
    own = {column: table[column] for column in columns}
    side = Collection(table[key], joined_rows(list(own.values())), make_fields(own))
    split = Split("all", AllPairs(len(side)), side, side, ids, NOTHING, True)
    return Task(name, "equivalence", {"all": split}, {"source": name}, {})


def _closed(count: int, pairs: Iterable[tuple[int, int]]) -> Ids:
    """Sorted ids of all pairs that follow from `pairs` by transitivity."""
    group = list(range(count))

    def root(row: int) -> int:
        while group[row] != row:
            group[row] = group[group[row]]
            row = group[row]
        return row

    for one, other in pairs:
        group[root(one)] = root(other)
    return same_cluster(np.array([root(row) for row in range(count)], np.int64))


def _csv_columns(path: Path, delimiter: str) -> dict[str, list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    return {name: [row[at] for row in rows[1:]] for at, name in enumerate(rows[0]) if name}


def _cora(data: Path) -> Task:
    table = _csv_columns(data / "cora" / "cora.csv", "|")
    keys = table["Entity Id"]
    row = {key: at for at, key in enumerate(keys)}
    lines = (data / "cora" / "gt.csv").read_text(encoding="utf-8").split()
    pairs = [(row[a], row[b]) for a, b in (line.split("|")[:2] for line in lines)]
    return _with_fields("cora", table, "Entity Id", CORA_COLUMNS, _closed(len(keys), pairs))


def _settlements(data: Path) -> Task:
    table = _csv_columns(data / "settlements" / "settlements.csv", ",")
    truth = _csv_columns(data / "settlements" / "ground_truth.csv", ",")
    keys = table["id"]
    row = {key: at for at, key in enumerate(keys)}
    ends = zip(truth["id1"], truth["id2"])
    ids = AllPairs(len(keys)).ids(*np.array([(row[a], row[b]) for a, b in ends]).T)
    return _with_fields("settlements", table, "id", PLACE_COLUMNS, np.unique(ids))


def _questions(texts: int, data: Path) -> Task:
    """A part of qqp-174k: whole groups of duplicates in a random order until half is full, then others."""
    task = qqp_task(data / "qqp" / "quora_duplicate_questions.tsv.xz")
    split = task.splits["train"]
    left, right = pair_rows(split.positives)
    group = _groups(len(split.left), left, right)
    sizes = np.bincount(group)
    rng = np.random.default_rng(174)
    chosen: list[int] = []
    members = np.argsort(group, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    duplicates = np.flatnonzero(sizes > 1)
    for number in rng.permutation(duplicates).tolist():
        if len(chosen) >= texts // 2:
            break
        chosen += members[starts[number] : starts[number + 1]].tolist()
    taken = set(group[chosen].tolist())
    for row in rng.permutation(len(split.left)).tolist():  # one text of a group: it matches nothing
        if len(chosen) >= texts:
            break
        if int(group[row]) not in taken:
            taken.add(int(group[row]))
            chosen.append(row)
    rows = np.sort(np.array(chosen))
    keys, lines = ([column[row] for row in rows.tolist()] for column in (split.left.keys, split.left.texts))
    return _one_table(f"qqp-174k-{texts}", keys, lines, same_cluster(_renumbered(group[rows])))


def _groups(count: int, left: Ids, right: Ids) -> Ids:
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    graph = coo_matrix((np.ones(len(left), np.int8), (left, right)), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], np.int64)


def _renumbered(group: Ids) -> Ids:
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _wikiqa(data: Path) -> Task:
    return wikiqa_task(data / "wikiqa")


def held_out_task(folder: Path) -> Task:
    """A table as a new user gives it: its files, the key and the truth, every column."""
    names = ("records.csv",) if (folder / "records.csv").exists() else ("left.csv", "right.csv")
    return tables_task(
        *(folder / name for name in names), key="id", matches=folder / "matches.csv", split="none"
    )


def _held_out(name: str, data: Path) -> Task:
    return held_out_task(data / HELD_OUT / name)


# ── synthetic tables ────────────────────────────────────────────────────────────────────────────


def _made(
    kind: str,
    records: int,
    shares: dict[int, float],
    data: Path,
    *,
    script: str = "english",
    seed: int = 15,
    **rough: float,
) -> Task:
    table = table_of(kind, group_sizes(records, shares), seed, Roughness(**rough), script)
    keys = [f"r{row}" for row in range(records)]
    return _one_table(kind, keys, table.texts(), same_cluster(table.entity))


def _demo(records: int, splits: tuple[str, ...], data: Path) -> Task:
    """The demo's table; with several splits, as many such tables that share no record and no key."""
    made = {}
    for seed, name in enumerate(splits):
        table = synthetic_records(CITATIONS, group_sizes(records, SIZES), seed, ROUGHNESS)
        side = Collection([f"{name}-{row}" for row in range(records)], table.texts())
        matches = same_cluster(table.entity)
        made[name] = Split(name, AllPairs(records), side, side, matches, NOTHING, True)
    return Task("demo", "equivalence", made, {"source": "demo"}, {})


def _two_tables(kind: str, left: int, right: int, matches: int, data: Path, **rough: float) -> Task:
    """Entities of both tables have one record in each; all others one record in one of them."""
    sizes = [2] * matches + [1] * (left + right - 2 * matches)
    table = table_of(kind, sizes, 15, Roughness(**rough))
    texts, entity = table.texts(), table.entity
    size = np.bincount(entity)
    first = np.unique(entity, return_index=True)[1]
    single = np.flatnonzero(size == 1)
    on_left = np.zeros(len(texts), bool)
    on_left[first[size > 1]] = True
    on_left[first[single[: left - matches]]] = True
    sides = []
    for prefix, rows in (("a", np.flatnonzero(on_left)), ("b", np.flatnonzero(~on_left))):
        numbered = [f"{prefix}{row}" for row in range(len(rows))]
        sides.append((Collection(numbered, [texts[row] for row in rows.tolist()]), entity[rows]))
    right_row = {int(number): row for row, number in enumerate(sides[1][1])}
    pairs = [(row, right_row[int(e)]) for row, e in enumerate(sides[0][1]) if int(e) in right_row]
    space = CrossPairs(len(sides[0][0]), len(sides[1][0]))
    positives = np.unique(space.ids(*np.array(pairs).T))
    split = Split("all", space, sides[0][0], sides[1][0], positives, NOTHING, True)
    return Task(kind, "match", {"all": split}, {"source": "synthetic"}, {})


def _own_kind(records: int, make: Callable[[int, int], tuple[Columns, list[int]]], data: Path) -> Task:
    """A table of `strangers_kinds` in a random order, with its columns as fields."""
    columns, entity = make(records, 15)
    order = np.random.default_rng(15).permutation(records)
    table = {name: [values[row] for row in order] for name, values in columns.items()}
    table["key"] = [f"r{row}" for row in range(records)]
    truth = same_cluster(np.array(entity, np.int64)[order])
    return _with_fields(make.__name__, table, "key", columns, truth)


GROUPS = {2: 0.3, 3: 0.2, 5: 0.15, 8: 0.1}
TO_200 = {200: 0.14, 100: 0.1, 50: 0.1, 20: 0.1, 10: 0.1, 5: 0.1, 2: 0.16}


def _table(name: str, about: str, make: Callable[..., Task], *made: object, **more: object) -> StrangerTable:
    own = {key: more.pop(key) for key in ("answers", "budgets", "edge", "file") if key in more}
    return StrangerTable(name, about, partial(make, *made, **more), **own)  # type: ignore[arg-type]


TABLES = {
    table.name: table
    for table in (
        *(
            _table(name, about, _matching, name, file=f"matching/{name}")
            for name, about in (
                ("abt-buy", "two shops, long names"),
                ("amazon-google", "two shops, software"),
                ("dblp-acm", "two bibliographies"),
                ("fodors-zagats", "two restaurant guides"),
            )
        ),
        _table("cora", "citations, groups of up to 64, identical records", _cora, file="cora"),
        _table("settlements", "places of four sources, coordinates", _settlements, file="settlements"),
        _table("qqp-5k", "part of qqp-174k", _questions, 5_000, file="qqp"),
        _table("qqp-20k", "part of qqp-174k", _questions, 20_000, file="qqp"),
        _table("wikiqa", "questions and sentences; AP of dev, list of train", _wikiqa, file="wikiqa"),
        _table("demo", "the demo's citations", _demo, 1_000, ("all",)),
        _table("demo-splits", "the same kind; list of train", _demo, 1_000, ("train", "dev", "test")),
        _table("products", "groups of 1 to 8", _made, "products", 3_000, GROUPS),
        _table(
            "people", "typing errors", _made, "people", 5_000, {2: 0.4, 3: 0.2, 4: 0.1}, typo=0.4, missing=0.2
        ),
        _table("citations-200", "groups of 1 to 200", _made, "citations", 3_000, TO_200),
        _table("citations-1-in-20", "groups of 100", _made, "citations", 2_000, {100: 1.0}, typo=0.3),
        _table("products-1-in-500000", "100 matches", _made, "products", 10_000, {2: 0.02}, typo=0.3),
        _table(
            "half-identical",
            "half of the records are copies",
            _made,
            "products",
            3_000,
            {2: 0.2, 4: 0.4, 8: 0.4},
            identical=0.72,
        ),
        _table(
            "none-identical",
            "no copies, rough",
            _made,
            "citations",
            3_000,
            GROUPS,
            identical=0.0,
            typo=0.5,
            abbreviated=0.5,
            reordered=0.3,
            missing=0.25,
        ),
        _table(
            "places",
            "names and coordinates, namesakes",
            _made,
            "places",
            3_000,
            {2: 0.4, 4: 0.3},
            near_misses=0.4,
            missing=0.3,
        ),
        _table("short-names", "two words a record", _made, "names", 2_000, {2: 0.4, 3: 0.2}, abbreviated=0.1),
        _table("long-notes", "texts of 150 words", _made, "notes", 1_500, {2: 0.4, 4: 0.2}, near_misses=0.4),
        _table("cyrillic", "another script", _made, "citations", 2_000, GROUPS, script="cyrillic"),
        _table("greek", "another script", _made, "people", 2_000, GROUPS, script="greek"),
        _table("chinese", "another script", _made, "products", 2_000, GROUPS, script="chinese"),
        _table("codes", "random codes, which the encoder cannot read", _made, "codes", 2_000, GROUPS),
        _table(
            "two-tables",
            "2,500 × 22,000, most values missing",
            _two_tables,
            "products",
            2_500,
            22_000,
            1_100,
            missing=0.6,
            typo=0.3,
            abbreviated=0.4,
        ),
        _table("devices", "serials, most values missing, two registers", _own_kind, 2_000, devices),
        _table("songs", "featured artists, versions, lengths in two units", _own_kind, 2_000, songs),
        _table(
            "wrong-answers",
            "products; one answer in twenty is wrong",
            _made,
            "products",
            3_000,
            GROUPS,
            answers="wrong",
        ),
        _table("no-match", "no match exists", _made, "products", 1_000, {}, edge=True, budgets=(50, 400)),
        _table(
            "all-match",
            "every pair matches",
            _made,
            "products",
            300,
            {300: 1.0},
            edge=True,
            budgets=(50, 400),
        ),
        _table(
            "all-unsure",
            "every answer is unsure",
            _made,
            "products",
            1_000,
            GROUPS,
            answers="unsure",
            edge=True,
            budgets=(50, 400),
        ),
        _table(
            "five-labels", "five labels in all", _made, "products", 1_000, GROUPS, edge=True, budgets=(5,)
        ),
        *(
            _table(each.name, each.about, _held_out, each.name, file=f"{HELD_OUT}/{each.name}")
            for each in HELD_OUT_TABLES.values()
        ),
    )
}


def without_truth(task: Task) -> Task:
    """The task as a user has it who must answer the questions."""
    splits = {
        name: replace(split, positives=NOTHING, stated_negatives=NOTHING, has_truth=False)
        for name, split in task.splits.items()
    }
    return Task(task.name, task.relation, splits, task.provenance, {})


def wrong_answers(ids: Ids, positives: Ids, seed: int) -> list[bool]:
    """The truth of each pair, the other way round in one of twenty; a pair is always answered alike."""
    mixed = (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)) >> np.uint64(33)
    flipped = mixed % np.uint64(20) == 0
    return [bool(match) for match in is_member(ids, positives) ^ flipped]
