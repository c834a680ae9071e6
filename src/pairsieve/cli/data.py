"""`pairsieve data …`: make a task folder from what is there, and print its row of the data table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pairsieve.cli import app, say, show

if TYPE_CHECKING:
    from pairsieve.tasks import Task

data = typer.Typer(
    help="Make a task folder from your tables or a benchmark.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(data, name="data")

_OUT = typer.Option(..., "--out", help="The task folder to write; an older task there is replaced.")
_SEED = typer.Option(0, "--seed", min=0, help="Seed of the splits: same seed, same bytes.")
_JSON = typer.Option(False, "--json", help="Print the figures as JSON.")
_NAME = typer.Option(None, "--name", help="What reports call the task.")


@data.command()
def qqp(
    source: Path = typer.Option(..., "--from", help="The 2017 TSV or Kaggle's train.csv, plain or packed."),
    out: Path = _OUT,
    seed: int = _SEED,
    name: str = typer.Option("qqp", "--name", help="What reports call the task."),
    as_json: bool = _JSON,
) -> None:
    """Quora Question Pairs, one collection.

    Duplicates by transitive closure, split by components of paired questions.
    """
    from pairsieve.tasks import qqp_task

    _make(lambda: qqp_task(source, seed, name), out, as_json)


@data.command()
def wikiqa(
    source: Path = typer.Option(..., "--from", help="The folder with WikiQA-train/dev/test.tsv."),
    out: Path = _OUT,
    seed: int = typer.Option(0, "--seed", min=0, help="Not used: the splits are the original ones."),
    name: str = typer.Option("wikiqa", "--name", help="What reports call the task."),
    as_json: bool = _JSON,
) -> None:
    """WikiQA: questions × every sentence.

    The questions of each original part, each with every sentence of the corpus.
    """
    from pairsieve.tasks import wikiqa_task

    _make(lambda: wikiqa_task(source, name), out, as_json)


@data.command()
def matching(
    source: Path | None = typer.Option(None, "--from", help="A benchmark folder; its layout is recognised."),
    out: Path = _OUT,
    left: Path | None = typer.Option(None, "--left", help="The left table, in place of --from."),
    right: Path | None = typer.Option(None, "--right", help="The right table, in place of --from."),
    mapping: Path | None = typer.Option(None, "--mapping", help="The matches, in place of --from."),
    text: list[str] = typer.Option([], "--text", help="A column of the text; repeat for several."),
    template: str | None = typer.Option(None, "--template", help='The text, as "{title} by {author}".'),
    encoding: str | None = typer.Option(None, "--encoding", help="Encoding of the tables, if not told."),
    seed: int = _SEED,
    name: str | None = _NAME,
    as_json: bool = _JSON,
) -> None:
    """A matching benchmark: two tables.

    With a mapping (the Leipzig sets), or with labelled pairs (DeepMatcher's).
    """
    from pairsieve.tasks import matching_task

    _make(
        lambda: matching_task(
            source,
            left=left,
            right=right,
            mapping=mapping,
            text=text,
            template=template,
            encoding=encoding,
            seed=seed,
            name=name,
        ),
        out,
        as_json,
    )


@data.command()
def tables(
    source: Path = typer.Option(..., "--from", help="A table: CSV, TSV, JSON Lines or Parquet."),
    out: Path = _OUT,
    right: Path | None = typer.Option(None, "--right", help="A second table, to be matched with the first."),
    text: list[str] = typer.Option([], "--text", help="A column of the text; repeat for several. [text]"),
    template: str | None = typer.Option(None, "--template", help='The text, as "{title} by {author}".'),
    key: str | None = typer.Option(None, "--key", help="The key column; without it the row number from 0."),
    left_text: list[str] = typer.Option([], "--left-text", help="--text of the first table."),
    right_text: list[str] = typer.Option([], "--right-text", help="--text of the second table."),
    left_template: str | None = typer.Option(None, "--left-template", help="--template of the first table."),
    right_template: str | None = typer.Option(None, "--right-template", help="… of the second table."),
    left_key: str | None = typer.Option(None, "--left-key", help="--key of the first table."),
    right_key: str | None = typer.Option(None, "--right-key", help="--key of the second table."),
    matches: Path | None = typer.Option(None, "--matches", help="Every matching pair: the truth."),
    labels: Path | None = typer.Option(None, "--labels", help="Some pairs, labelled 1 or 0."),
    relation: str | None = typer.Option(None, "--relation", help="equivalence, match or directed."),
    split: str | None = typer.Option(
        None, "--split", help="50/25/25, 80/20, or none. [none without matches]"
    ),
    encoding: str | None = typer.Option(None, "--encoding", help="Encoding of the tables. [utf-8]"),
    right_encoding: str | None = typer.Option(None, "--right-encoding", help="… of the second table."),
    delimiter: str | None = typer.Option(None, "--delimiter", help="comma, tab, semicolon, pipe, or a sign."),
    right_delimiter: str | None = typer.Option(None, "--right-delimiter", help="… of the second table."),
    no_quotes: bool = typer.Option(False, "--no-quotes", help="Quotes mean nothing in these tables."),
    seed: int = _SEED,
    name: str | None = _NAME,
    as_json: bool = _JSON,
) -> None:
    """Your own table, or two.

    One: find its duplicates. Two: match them. With whatever you know of their pairs.
    """
    from pairsieve.tasks import tables_task
    from pairsieve.tasks.tables import Side

    first = Side(source, left_text, left_template, left_key)
    second = (
        Side(right, right_text, right_template, right_key, right_encoding, right_delimiter) if right else None
    )
    _make(
        lambda: tables_task(
            first,
            second,
            text=text,
            template=template,
            key=key,
            matches=matches,
            labels=labels,
            relation=relation,
            split=split,
            encoding=encoding,
            delimiter=delimiter,
            quotes=not no_quotes,
            seed=seed,
            name=name,
        ),
        out,
        as_json,
    )


def _make(load: Callable[[], Task], out: Path, as_json: bool) -> None:
    """Load, save, print; whether `out` may be written is asked before the work is done."""
    from pairsieve.tasks import save_task
    from pairsieve.tasks.folder import check_replaceable

    check_replaceable(out)
    task = load()
    save_task(task, out)
    figures: dict[str, Any] = {
        "task": task.name,
        "relation": task.relation,
        "fingerprint": task.fingerprint,
        "out": str(out),
        "splits": {name: split.counts() for name, split in task.splits.items()},
        "report": task.report,
    }
    show(figures, as_json, table_in_words(task))
    for line in report_in_words(task.report):
        say(line)
    say(f"{task.name} is written to {out}")


def table_in_words(task: Task) -> str:
    """The rows of the paper's data table: positives, all pairs, ratio, stated negatives."""
    rows = [("split", "texts", "positives", "all pairs", "ratio", "stated neg.")]
    for name, split in task.splits.items():
        sides = [len(split.left)] if split.space.symmetric else [len(split.left), len(split.right)]
        rows.append(
            (
                name,
                " × ".join(f"{side:,}" for side in sides),
                f"{len(split.positives):,}" if split.has_truth else _known(len(split.positives)),
                f"{split.space.size:,}",
                ratio_in_words(split.ratio if split.has_truth else None),
                f"{len(split.stated_negatives):,}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _known(positives: int) -> str:
    """How many matches, where the truth is not known: those that labels tell, at least."""
    return f"{positives:,} known" if positives else "unknown"


def ratio_in_words(ratio: float | None) -> str:
    """One positive in how many pairs, to two digits as in the paper: 1:53K."""
    if ratio is None:
        return "-"
    rounded = float(f"{ratio:.2g}")
    for unit, sign in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if rounded >= unit:
            return (
                f"1:{rounded / unit:.2g}{sign}" if rounded < 100 * unit else f"1:{rounded / unit:.0f}{sign}"
            )
    return f"1:{rounded:.2g}" if rounded < 100 else f"1:{rounded:.0f}"


_SENTENCES = {
    "pairs_stated_both_ways": "{} pairs are stated both as match and as no match; they count as matches.",
    "negatives_inside_closure": "{} stated negatives follow from matches; they count as matches.",
    "matches_added_by_closure": "{} matches follow from the known ones and were added.",
    "labelled_matches_not_among_known": "{} labelled matches were not among the known matches; now they are.",
    "repeated_rows": "{} rows repeat a pair with the same label.",
    "self_pairs_dropped": "{} rows pair a question with itself; they are dropped.",
    "questions_with_other_spellings": "{} question ids come with more than one spelling; the first stands.",
    "sentences_with_other_spellings": "{} sentence ids come with more than one text; the first stands.",
    "empty_texts": "{} texts are empty; they are kept.",
    "stated_negatives_between_splits": "{} stated negatives fall between two splits and stand only in 'all'.",
}
_ALWAYS = ("pairs_stated_both_ways", "negatives_inside_closure")


def report_in_words(report: dict[str, Any]) -> list[str]:
    """The report as sentences: contradictions always, everything else where it happened."""
    lines = [
        words.format(f"{report[what]:,}")
        for what, words in _SENTENCES.items()
        if what in report and (report[what] or what in _ALWAYS)
    ]
    hidden = ", ".join(report.get("columns_left_out", []))
    if hidden:
        lines.append(f"Left out of the text, because it gives the matches away: {hidden}.")
    return lines
