"""`pairsieve data …`: make a task folder from what is there, and print its row of the data table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer
from typer import Option

from pairsieve.cli import app, call, say, show
from pairsieve.cli.options import FIGURES_JSON
from pairsieve.progress import doing

if TYPE_CHECKING:
    from pairsieve.tasks import Task

data = typer.Typer(
    help="Make a task folder from your tables or a benchmark.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(data, name="data")

_OUT = Option(..., "--out", help="The task folder to write; an older task there is replaced.")
_SEED = Option(0, "--seed", min=0, help="Seed of the splits.")
_NAME = Option(None, "--name", help="Name of the task in reports.")
_KIND = Option(
    [],
    "--kind",
    metavar="COLUMN=KIND",
    help="Kind of a field that was guessed wrongly: text, name, number, date, latitude, longitude, code, "
    "category or ignore; repeatable.",
)


@data.command()
def qqp(
    source: Path = Option(..., "--from", help="The 2017 TSV or Kaggle's train.csv, plain or compressed."),
    out: Path = _OUT,
    seed: int = _SEED,
    name: str = Option("qqp", help="Name of the task in reports."),
    as_json: bool = FIGURES_JSON,
) -> None:
    """Quora Question Pairs, one collection.

    Duplicates are closed transitively. Questions that were paired stay in the same split.
    """
    from pairsieve.tasks import qqp_task

    _make(lambda: qqp_task(source, seed, name), out, as_json)


@data.command()
def wikiqa(
    source: Path = Option(..., "--from", help="The folder with WikiQA-train/dev/test.tsv."),
    out: Path = _OUT,
    seed: int = Option(0, min=0, help="Not used: the splits are the original ones."),
    name: str = Option("wikiqa", help="Name of the task in reports."),
    as_json: bool = FIGURES_JSON,
) -> None:
    """WikiQA: questions and answering sentences.

    The original splits; each question is paired with every sentence of the corpus.
    """
    from pairsieve.tasks import wikiqa_task

    _make(lambda: wikiqa_task(source, name), out, as_json)


@data.command()
def matching(
    source: Path | None = Option(None, "--from", help="A benchmark folder; its layout is recognised."),
    out: Path = _OUT,
    left: Path | None = Option(None, help="The left table, in place of --from."),
    right: Path | None = Option(None, help="The right table, in place of --from."),
    mapping: Path | None = Option(None, help="The matches, in place of --from."),
    text: list[str] = Option([], help="Column with the text; repeat for several."),
    template: str | None = Option(None, help='The text, as "{title} by {author}".'),
    kinds: list[str] = _KIND,
    encoding: str | None = Option(None, help="Encoding of the tables. [recognised]"),
    seed: int = _SEED,
    name: str | None = _NAME,
    as_json: bool = FIGURES_JSON,
) -> None:
    """A matching benchmark: two tables.

    With a mapping (as the Leipzig sets have it), or with labelled pairs (as DeepMatcher's have them).
    """
    options = locals()
    from pairsieve.tasks import matching_task
    from pairsieve.tasks.fields import read_kinds

    _make(lambda: call(matching_task, options, source, kinds=read_kinds(kinds)), out, as_json)


@data.command()
def tables(
    table: str = Option(
        ..., "--from", help="A table: CSV, TSV, JSON Lines, Parquet or Excel; or a database's URL."
    ),
    out: Path = _OUT,
    right: str | None = Option(None, help="A second table, to be matched with the first."),
    text: list[str] = Option([], help="Column with the text; repeat for several; or all. [text, or all]"),
    template: str | None = Option(None, help='The text that the encoder reads, as "{title} by {author}".'),
    key: str | None = Option(None, help="Column with the key. [what the pairs name, or the row from 0]"),
    kinds: list[str] = _KIND,
    source: str | None = Option(
        None, help="Column that names the source of a row; pairs within a source are no pairs."
    ),
    also: list[str] = Option([], help="A further table, as a source of its own; repeatable."),
    within_sources: bool = Option(False, "--within-sources", help="Pairs within a source are pairs too."),
    left_text: list[str] = Option([], help="--text of the first table."),
    right_text: list[str] = Option([], help="--text of the second table."),
    left_template: str | None = Option(None, help="--template of the first table."),
    right_template: str | None = Option(None, help="--template of the second table."),
    left_key: str | None = Option(None, help="--key of the first table."),
    right_key: str | None = Option(None, help="--key of the second table."),
    matches: str | None = Option(None, help="File of all matching pairs (the truth)."),
    labels: str | None = Option(None, help="File of some pairs, labelled 1 or 0."),
    relation: str | None = Option(None, help="What a match means: equivalence, match or directed."),
    split: str | None = Option(
        None, help="Percentages, as 50/25/25 or 80/20, or none. [50/25/25; none without --matches]"
    ),
    encoding: str | None = Option(None, help="Encoding of the tables. [utf-8]"),
    right_encoding: str | None = Option(None, help="--encoding of the second table."),
    delimiter: str | None = Option(None, help="comma, tab, semicolon, pipe, or a character. [by the header]"),
    right_delimiter: str | None = Option(None, help="--delimiter of the second table."),
    header: bool | None = Option(None, "--header/--no-header", help="Whether row 1 has column names. [yes]"),
    sheet: str | None = Option(None, help="Sheet of an Excel file. [the first]"),
    right_sheet: str | None = Option(None, help="--sheet of the second table."),
    query: str | None = Option(None, help="SQL query, where --from is a database's URL."),
    right_query: str | None = Option(None, help="--query of the second table."),
    matches_query: str | None = Option(None, help="SQL query, where --matches is a database's URL."),
    labels_query: str | None = Option(None, help="SQL query, where --labels is a database's URL."),
    no_quotes: bool = Option(False, "--no-quotes", help="Quotes are ordinary characters in these tables."),
    seed: int = _SEED,
    name: str | None = _NAME,
    as_json: bool = FIGURES_JSON,
) -> None:
    """Your own table, to find its duplicates, or two, to match them.

    Columns are kept as fields and compared by their kinds. Known matches or labelled pairs, if there are any,
    come by --matches or --labels.
    """
    options = locals()
    from pairsieve.tasks import tables_task
    from pairsieve.tasks.fields import read_kinds
    from pairsieve.tasks.tables import Side

    first = Side(table, left_text, left_template, left_key)
    own = (right_text, right_template, right_key, right_encoding, right_delimiter)
    second = Side(right, *own, sheet=right_sheet, query=right_query) if right else None
    ways = {"quotes": not no_quotes, "kinds": read_kinds(kinds)}
    _make(lambda: call(tables_task, options, first, second, **ways), out, as_json)


def _make(load: Callable[[], Task], out: Path, as_json: bool) -> None:
    """Make the task folder and print what is in it."""
    from pairsieve.library.tasks import make_task

    with doing("reading"):
        made = make_task(load, out)
    task = made.task
    show(made.as_json(), as_json, table_in_words(task))
    for line in report_in_words(task.report):
        say(line)
    for words in fields_in_words(task):
        say(f"{words} Correct a kind with --kind COLUMN=KIND.")
    say(f"{task.name} is written to {out}\nNext: pairsieve init CAMPAIGN --task {quote(str(out))}")


def fields_in_words(task: Task) -> list[str]:
    """The fields of each side and their kinds, as a sentence each; one where both sides are alike."""
    from pairsieve.library.tasks import fields_of_task
    from pairsieve.tasks.fields import kinds_in_words

    found = fields_of_task(task)
    if len(found) == 2 and found["left"] == found["right"]:
        found = {"texts": found["left"]}
    heads = {"texts": "Fields", "left": "Left fields", "right": "Right fields"}
    return [f"{heads[side]}: {kinds_in_words(kinds)}." for side, kinds in found.items()]


def table_in_words(task: Task) -> str:
    """The rows of the paper's data table: positives, all pairs, ratio, stated negatives."""
    rows = [("split", "texts", "positives", "all pairs", "ratio", "stated neg.")]
    for name, split in task.splits.items():
        sides = [len(split.left)] if split.space.symmetric else [len(split.left), len(split.right)]
        texts, positives = " × ".join(f"{side:,}" for side in sides), f"{len(split.positives):,}"
        if not split.has_truth:  # labels tell of some matches, at least
            positives = f"{positives} known" if len(split.positives) else "unknown"
        ratio = ratio_in_words(split.ratio if split.has_truth else None)
        stated = f"{len(split.stated_negatives):,}"
        rows.append((name, texts, positives, f"{split.space.size:,}", ratio, stated))
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def ratio_in_words(ratio: float | None) -> str:
    """One positive in how many pairs, to two digits as in the paper: 1:53K."""
    if ratio is None:
        return "-"
    rounded = float(f"{ratio:.2g}")
    units = ((1e9, "B"), (1e6, "M"), (1e3, "K"), (1, ""))
    unit, sign = next((each for each in units if rounded >= each[0]), units[-1])
    return f"1:{rounded / unit:{'.2g' if rounded < 100 * unit else '.0f'}}{sign}"


_SENTENCES = {  # of one, of several
    "pairs_stated_both_ways": (
        "{} pair is stated both as match and as no match; it counts as a match.",
        "{} pairs are stated both as match and as no match; they count as matches.",
    ),
    "negatives_inside_closure": (
        "{} stated negative follows from matches; it counts as a match.",
        "{} stated negatives follow from matches; they count as matches.",
    ),
    "matches_added_by_closure": (
        "{} match follows from the known ones and was added.",
        "{} matches follow from the known ones and were added.",
    ),
    "labelled_matches_not_among_known": (
        "{} labelled match was not among the known matches; now it is.",
        "{} labelled matches were not among the known matches; now they are.",
    ),
    "matches_within_a_source": (
        "{} match is within a source; it is left out.",
        "{} matches are within a source; they are left out.",
    ),
    "rows_without_label": (
        "{} row of the labels has no label, or an unsure one, and is left out: {first}.",
        "{} rows of the labels have no label, or an unsure one, and are left out; the first is {first}.",
    ),
    "repeated_rows": (
        "{} row repeats a pair with the same label.",
        "{} rows repeat a pair with the same label.",
    ),
    "self_pairs_dropped": (
        "{} row pairs a question with itself; it is dropped.",
        "{} rows pair a question with itself; they are dropped.",
    ),
    "questions_with_other_spellings": (
        "{} question id comes with more than one spelling; the first stands.",
        "{} question ids come with more than one spelling; the first stands.",
    ),
    "sentences_with_other_spellings": (
        "{} sentence id comes with more than one text; the first stands.",
        "{} sentence ids come with more than one text; the first stands.",
    ),
    "empty_texts": ("{} text is empty; it is kept.", "{} texts are empty; they are kept."),
    "stated_negatives_between_splits": (
        "{} stated negative falls between two splits and stands only in 'all'.",
        "{} stated negatives fall between two splits and stand only in 'all'.",
    ),
}


def report_in_words(report: dict[str, Any]) -> list[str]:
    """The report as sentences: what happened, and nothing of what did not."""
    lines = [
        words[report[what] != 1].format(f"{report[what]:,}", first=report.get("first_row_without_label", ""))
        for what, words in _SENTENCES.items()
        if report.get(what)
    ]
    hidden = ", ".join(report.get("columns_left_out", []))
    if hidden:
        lines.append(f"Left out of the text, because it gives the matches away: {hidden}.")
    unread = ", ".join(report.get("columns_without_texts", []))
    if unread:
        lines.append(f"Left out, because it holds lists, objects or bytes: {unread}.")
    return lines
