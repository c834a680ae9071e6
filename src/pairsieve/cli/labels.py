"""`pairsieve ask | import`, and `pairsieve ledger export | verify | vacuum`: answers that come in files."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer
from typer import Argument, Option

from pairsieve.cli import app, show
from pairsieve.cli.options import FOLDER, JSON

_FORMAT = Option(None, "--format", help="csv, jsonl, parquet or label-studio. [by the file's name]")
_SPLIT = Option(None, "--split", help="The audit of another split than the campaign's own.")
ledger_app = typer.Typer(
    help="Export, verify or compact the record of questions and answers.", no_args_is_help=True
)
app.add_typer(ledger_app, name="ledger")


@app.command()
def ask(
    folder: Path = FOLDER,
    out: Path = Option(..., help="The file to write: .csv, .jsonl, .parquet, .json."),
    format_: str | None = _FORMAT,
    count: int | None = Option(None, min=1, help="At most this many questions. [all]"),
    person: str | None = Option(
        None, "--for", help="Questions that this person has not answered, even if others have."
    ),
    split: str | None = _SPLIT,
    as_json: bool = JSON,
) -> None:
    """Write the open questions to a file, for people to answer.

    They fill in the column label: 1, yes or match; 0, no or no match; unsure. A file name that ends in .json
    gives Label Studio tasks, with the labelling configuration beside them (.xml).
    """
    from pairsieve import write_questions

    found = write_questions(folder, out, format=format_, count=count, person=person, split=split)
    if found.questions:
        who = shlex.quote(person) if person else "NAME"
        there = f" --split {split}" if split else ""
        words = f"{', '.join(map(str, found.files))}: {found.questions:,} questions. Answered, bring them "
        words += f"back with: pairsieve import {folder} {out} --who {who}{there}"
    else:
        words = f"No question waits{f' for {person}' if person else ''}; nothing was written."
    show(found.as_json(), as_json, words)


@app.command(name="import")
def import_(
    folder: Path = FOLDER,
    file: Path = Argument(..., help="The answered batch, or a Label Studio export."),
    who: str | None = Option(None, help="Who answered, if the file does not say."),
    format_: str | None = _FORMAT,
    split: str | None = _SPLIT,
    as_json: bool = JSON,
) -> None:
    """Import answers from a file.

    All rows are checked before the first is written. Importing a file twice changes nothing.
    """
    from pairsieve import import_answers, next_command, open_campaign

    campaign = open_campaign(folder)
    found = import_answers(campaign, file, who=who, format=format_, split=split)
    people = ", ".join(f"{name} {answers:,}" for name, answers in found.by_person.items()) or "nobody"
    words = f"{found.written:,} answers written ({people}), {found.known:,} known already, "
    words += f"{found.unanswered:,} rows without an answer. {found.waiting:,} questions wait."
    own = split is None or split == campaign.settings.split
    next_ = next_command(campaign) if own else f"pairsieve audit {folder} --split {split}"
    show(found.as_json(), as_json, words + (f" Next: {next_}" if next_ and not found.waiting else ""))


@ledger_app.command("export")
def export_ledger(
    folder: Path = FOLDER,
    out: Path = Option(..., help="The file to write: .parquet, .csv, .tsv or .jsonl."),
    as_json: bool = JSON,
) -> None:
    """Write every question and answer, with keys, to a file."""
    from pairsieve import open_campaign

    events = open_campaign(folder).ledger.export(out)
    show({"file": str(out), "events": events}, as_json, f"{out}: {events:,} events.")


@ledger_app.command()
def verify(folder: Path = FOLDER, as_json: bool = JSON) -> None:
    """Check that no question or answer was changed or lost."""
    from pairsieve import open_campaign

    ledger = open_campaign(folder).open_ledger()
    report = ledger.verify()
    lines = [f"{'ok' if check.ok else 'WRONG':>5}  {check.name}: {check.found}" for check in report.checks]
    lines.append(
        f"{report.questions:,} questions, {report.answers:,} answer events. "
        + ("All is as it was written." if report.ok else "Restore the ledger from a copy.")
    )
    show({"ledger": ledger.place, **report.as_json()}, as_json, "\n".join(lines))
    if not report.ok:
        raise typer.Exit(2)


@ledger_app.command()
def vacuum(folder: Path = FOLDER, as_json: bool = JSON) -> None:
    """Compact the database, to free disk space."""
    from pairsieve import open_campaign

    ledger = open_campaign(folder).ledger
    before, after = ledger.vacuum()
    figures = {"ledger": ledger.place, "bytes_before": before, "bytes_after": after}
    show(figures, as_json, f"{ledger.place}: {before:,} bytes before, {after:,} after.")
