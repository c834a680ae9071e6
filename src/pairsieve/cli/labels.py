"""`pairsieve ask | import`, and `pairsieve ledger export | verify | vacuum`: answers that come in files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pairsieve.cli import app, show
from pairsieve.errors import InputError

if TYPE_CHECKING:
    from pairsieve.ledger import Ledger
    from pairsieve.pairs import Ids

_DIR = typer.Argument(..., help="The campaign folder.")
_JSON = typer.Option(False, "--json", help="Print as JSON.")
_FORMAT = typer.Option(None, "--format", help="csv, jsonl, parquet or label-studio. [by the file's name]")
_SPLIT = typer.Option(None, "--split", help="The split of an audit, where it is not the campaign's own.")
_GUIDELINE = "guideline.md"  # in the campaign folder: what counts as a match, for those who label
ledger_app = typer.Typer(help="Look after a campaign's ledger: export, verify, vacuum.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")


@app.command()
def ask(
    folder: Path = _DIR,
    out: Path = typer.Option(..., "--out", help="The file to write: .csv, .jsonl, .parquet, .json."),
    format_: str | None = _FORMAT,
    count: int | None = typer.Option(None, "--count", min=1, help="At most this many questions. [all]"),
    person: str | None = typer.Option(
        None, "--for", help="Questions this person has not answered, also those that others have."
    ),
    split: str | None = _SPLIT,
    as_json: bool = _JSON,
) -> None:
    """Write the open questions to a file for people.

    They fill in the column label: 1, yes or match; 0, no or no match; unsure. A name that ends in .json
    writes Label Studio tasks, and beside them the labelling configuration (.xml).
    """
    from pairsieve.campaign import Campaign
    from pairsieve.campaign.audits import audit_place
    from pairsieve.sources.exchange import Batch, format_of, write_batch

    format_of(out, format_)
    place = audit_place(Campaign(folder), split)
    ids = _waiting(place.ledger, person)[:count]
    files: list[Path] = []
    if len(ids):
        left, right, texts = place.part.left, place.part.right, place.ledger.questions()
        keys = {id: (a, b) for id, a, b in zip(texts.ids.tolist(), texts.left_keys, texts.right_keys)}
        rows = [(id >> 32, id & 0xFFFFFFFF) for id in ids.tolist()]
        batch = Batch(
            ids,
            [keys[id][0] for id in ids.tolist()],
            [keys[id][1] for id in ids.tolist()],
            [left.texts[row] for row, _ in rows],
            [right.texts[row] for _, row in rows],
        )
        note = folder / _GUIDELINE
        guideline = note.read_text(encoding="utf-8") if note.is_file() else ""
        files = write_batch(out, batch, format_, guideline)
    words = f"{', '.join(map(str, files))}: {len(ids):,} questions. Answered, bring them back with: "
    words += f"pairsieve import {folder} {out}{'' if place.own else f' --split {place.name}'}"
    if not len(ids):
        words = f"No question waits{f' for {person}' if person else ''}; nothing was written."
    show({"files": [str(file) for file in files], "questions": len(ids)}, as_json, words)


@app.command(name="import")
def import_(
    folder: Path = _DIR,
    file: Path = typer.Argument(..., help="The answered batch, or a Label Studio export."),
    who: str | None = typer.Option(None, "--who", help="Who answered, where the file names nobody."),
    format_: str | None = _FORMAT,
    split: str | None = _SPLIT,
    as_json: bool = _JSON,
) -> None:
    """Bring answers from a file into the ledger.

    All rows are checked before the first is written. An answer that its person has given already is not
    written again, so that importing twice changes nothing.
    """
    from pairsieve.campaign import Campaign
    from pairsieve.campaign.audits import audit_place
    from pairsieve.sources.exchange import Asked, read_answers

    place = audit_place(Campaign(folder), split)
    ledger, part, told = place.ledger, place.part, place.ledger.questions()
    following = f"run {folder}" if place.own else f"audit {folder} --split {place.name}"
    if not len(told):
        raise InputError("no question was asked yet", where=str(folder), remedy=f"pairsieve {following}")
    asked = Asked.of(
        told.ids, told.left_keys, told.right_keys, part.left.keys, part.right.keys, part.space.symmetric
    )
    found = read_answers(file, asked, who, format_)
    stands = ledger.answers_by_person()
    written: dict[str, int] = {}
    for person, (given, comments) in found.by_person().items():
        known = stands.get(person, {})
        new = [at for at, each in enumerate(given) if known.get(each.id, "nothing") != each.label]
        written[person] = ledger.answer(
            [given[at] for at in new], person, f"file {file.name}", comments=[comments[at] for at in new]
        )
    waiting = len(ledger.open_questions())
    data = {
        "file": str(file),
        "written": sum(written.values()),
        "known": len(found.said) - sum(written.values()),
        "unanswered": found.unanswered,
        "cancelled": found.cancelled,
        "by_person": written,
        "waiting": waiting,
    }
    people = ", ".join(f"{name} {number:,}" for name, number in written.items()) or "nobody"
    words = f"{data['written']:,} answers written ({people}), {data['known']:,} known already, "
    words += f"{found.unanswered:,} rows without an answer. {waiting:,} questions wait."
    show(data, as_json, words + ("" if waiting else f" Next: pairsieve {following}"))


@ledger_app.command("export")
def export_ledger(
    folder: Path = _DIR,
    out: Path = typer.Option(..., "--out", help="The file to write: .jsonl, .csv or .parquet."),
    as_json: bool = _JSON,
) -> None:
    """Write every question and answer, with keys, to a file."""
    from pairsieve.campaign import Campaign

    events = Campaign(folder).ledger.export(out)
    show({"file": str(out), "events": events}, as_json, f"{out}: {events:,} events.")


@ledger_app.command()
def verify(folder: Path = _DIR, as_json: bool = _JSON) -> None:
    """Check that the ledger is as it was written."""
    from pairsieve.campaign import Campaign

    ledger = Campaign(folder).ledger
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
def vacuum(folder: Path = _DIR, as_json: bool = _JSON) -> None:
    """Give unused room back to the disk."""
    from pairsieve.campaign import Campaign

    ledger = Campaign(folder).ledger
    before, after = ledger.vacuum()
    show(
        {"ledger": ledger.place, "bytes_before": before, "bytes_after": after},
        as_json,
        f"{ledger.place}: {before:,} bytes before, {after:,} after.",
    )


def _waiting(ledger: Ledger, person: str | None) -> Ids:
    """Open questions, or all that one person has not answered, in the order of asking."""
    import numpy as np

    if person is None:
        return ledger.open_questions()
    said: dict[int, Any] = dict(ledger.answers_by_person().get(person, {}))
    asked = ledger.questions().ids.tolist()
    return np.array([id for id in asked if id not in said], np.int64)
