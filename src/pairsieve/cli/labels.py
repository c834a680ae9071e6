"""`pairsieve label | ask | import | ask-model`, and `pairsieve ledger export | verify | vacuum`: answers."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import typer
from typer import Argument, Option

from pairsieve.cli import Stopped, app, call, say, show
from pairsieve.cli.options import ADDRESS_JSON, CACHE, FOLDER, HOST, JSON, PORT, PUBLIC_URL, TRUSTED_PROXY
from pairsieve.plurals import counted

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

    They fill in the column label: 1, yes, y, match or true; 0, no, n, no match or false; unsure, u, ? or
    maybe. A file name that ends in .json gives Label Studio tasks, with the labelling configuration beside
    them (.xml).
    """
    from pairsieve import write_questions
    from pairsieve.campaign.status import disagreement

    found = write_questions(folder, out, format=format_, count=count, person=person, split=split)
    if found.questions:
        who = shlex.quote(person) if person else "NAME"
        there = f" --split {split}" if split else ""
        words = f"{', '.join(map(str, found.files))}: {counted(found.questions, 'question')}. "
        words += "When the file is answered, bring it back with: "
        words += f"pairsieve import {folder} {out} --who {who}{there}"
        words = "\n".join(filter(None, (words, disagreement(found.disagreements, folder, split))))
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

    All rows are checked before the first is written. Importing a file twice changes nothing. Who answered
    is in the file's column who, or is asked for in a terminal.
    """
    from pairsieve import import_answers, next_command, open_campaign
    from pairsieve.campaign.status import disagreement
    from pairsieve.sources.exchange import NobodyNamed

    campaign = open_campaign(folder)
    try:
        found = import_answers(campaign, file, who=who, format=format_, split=split)
    except NobodyNamed:
        if not sys.stdin.isatty():
            raise
        who = typer.prompt(f"Who gave the answers in {file.name}?", err=True)
        found = import_answers(campaign, file, who=who, format=format_, split=split)
    people = ", ".join(f"{name} {answers:,}" for name, answers in found.by_person.items()) or "nobody"
    words = f"{counted(found.written, 'answer')} written ({people}), {found.known:,} known already, "
    words += f"{counted(found.unanswered, 'row')} without an answer. "
    words += f"{counted(found.waiting, 'question waits', 'questions wait')}."
    own = split is None or split == campaign.settings.split
    next_ = next_command(campaign) if own else f"pairsieve audit {folder} --split {split}"
    if found.checks_waiting:
        next_ = f"pairsieve label {shlex.quote(str(folder))}" + ("" if own else f" --split {split}")
    elif found.checked:
        next_ = "the pairsieve match command of this check again, as it was"
    undecided = disagreement(found.disagreements, folder, split)
    words = "\n".join(filter(None, (words + (f" Next: {next_}" if next_ else ""), undecided)))
    show(found.as_json(), as_json, words)


@ledger_app.command("export")
def export_ledger(
    folder: Path = FOLDER,
    out: Path = Option(..., help="The file to write: .parquet, .csv, .tsv or .jsonl."),
    as_json: bool = JSON,
) -> None:
    """Write every question and answer, with keys, to a file."""
    from pairsieve.library.ledgers import export_ledger

    found = export_ledger(folder, out)
    show(found.as_json(), as_json, f"{out}: {found.events:,} events.")


@ledger_app.command()
def verify(folder: Path = FOLDER, as_json: bool = JSON) -> None:
    """Check that no question or answer was changed or lost."""
    from pairsieve.library.ledgers import verify_ledger

    verified = verify_ledger(folder)
    report = verified.found
    lines = [f"{'ok' if check.ok else 'WRONG':>5}  {check.name}: {check.found}" for check in report.checks]
    lines.append(
        f"{report.questions:,} questions, {report.answers:,} answer events. "
        + ("All is as it was written." if report.ok else "Restore the ledger from a copy.")
    )
    show(verified.as_json(), as_json, "\n".join(lines))
    if not verified.ok:
        raise typer.Exit(2)


@ledger_app.command()
def vacuum(folder: Path = FOLDER, as_json: bool = JSON) -> None:
    """Compact the database, to free disk space."""
    from pairsieve.library.ledgers import compact_ledger

    found = compact_ledger(folder)
    words = f"{found.ledger}: {found.bytes_before:,} bytes before, {found.bytes_after:,} after."
    show(found.as_json(), as_json, words)


# ── the labelling page ───────────────────────────────────────────────────────────────────────────


@app.command()
def label(
    folder: Path = FOLDER,
    host: str = HOST,
    port: int = PORT,
    token: str = Option("", envvar="PAIRSIEVE_TOKEN", help="Password of the page, 16 characters or more."),
    overlap: float = Option(
        0.0, min=0, max=1, help="Share of the pairs that two people label, to measure agreement."
    ),
    split: str | None = Option(None, help="Answer the audit of another split than the campaign's own."),
    no_train: bool = Option(False, "--no-train", help="Do not train in the background between rounds."),
    public_url: str = PUBLIC_URL,
    trusted_proxy: list[str] = TRUSTED_PROXY,
    cache: Path | None = CACHE,
    as_json: bool = ADDRESS_JSON,
) -> None:
    """Label in the browser, alone or with others.

    Serves the labelling page and the dashboard until stopped. When a round is answered, training starts in
    the background and the next pairs appear. Every answer is saved at once. With --split, the page has the
    questions of that split's audit (pairsieve audit --split), and nothing is trained.
    """
    options = locals()
    from pairsieve.library.labelling import serve_labelling_page

    def announce(url: str) -> None:
        where = f"Labelling page: {url}   Dashboard: {url}dashboard   Stop with Ctrl-C."
        typer.echo(json.dumps({"url": url, "dashboard": f"{url}dashboard"}) if as_json else where)
        if token:
            say("People need the token to come in.")

    try:
        call(serve_labelling_page, options, folder, announce, train=not no_train, say=say)
    except (Stopped, KeyboardInterrupt):  # the usual way to end it, not a failure
        say(f"Stopped; every answer is kept. Go on with: pairsieve label {folder}")


# ── a language model ─────────────────────────────────────────────────────────────────────────────


@app.command("ask-model")
def ask_model(
    folder: Path = FOLDER,
    endpoint: str = Option(..., help="URL of an OpenAI-compatible API, such as https://HOST/v1."),
    model: str = Option(..., help="Name of the model at the endpoint."),
    spend_cap: str | None = Option(None, help="Limit of the costs of all runs; needs both prices."),
    price_in: str | None = Option(None, help="Price of a million input tokens."),
    price_out: str | None = Option(None, help="Price of a million output tokens."),
    token_cap: int | None = Option(None, help="Limit of the tokens of all runs."),
    request_cap: int | None = Option(None, help="Limit of the requests of all runs."),
    key_variable: str | None = Option(
        None, help="Environment variable that holds the API key. [no key is sent]"
    ),
    definition: Path | None = Option(
        None, help="Text file that says what counts as a match. [the campaign's guideline]"
    ),
    count: int | None = Option(None, min=0, help="At most this many open questions. [all]"),
    purpose: str = Option("train", help="Which questions: train or audit."),
    overlap: float = Option(
        0.1, min=0, max=1, help="Share of the pairs answered by people to ask too, to measure agreement."
    ),
    examples: int = Option(6, min=0, help="Labelled pairs in the prompt, as examples."),
    pairs_per_request: int = Option(1, help="Pairs in one request; more is cheaper."),
    answer_tokens: int = Option(64, help="Output tokens per pair; more for models that reason first."),
    concurrency: int = Option(4, help="Requests at the same time."),
    timeout_seconds: float = Option(60, help="Seconds to wait for a reply."),
    retries: int = Option(4, help="Further tries after a failed request."),
    as_json: bool = JSON,
) -> None:
    """Let a language model answer open questions, under a spend cap.

    Answers are saved as they come; stop at any moment and run again. A share of the pairs that people
    answered is asked too, to measure the model; these answers never count as labels.
    """
    options = locals()
    from pairsieve import ask_language_model, next_command
    from pairsieve.sources.endpoint import Endpoint
    from pairsieve.sources.spending import SpendCap, amount

    prices = {"spend_cap": spend_cap, "price_in": price_in, "price_out": price_out}
    money, per_read, per_written = (
        None if value is None else amount(f"`{name}`", value) for name, value in prices.items()
    )
    cap = SpendCap(
        money=money, price_in=per_read, price_out=per_written, tokens=token_cap, requests=request_cap
    )
    found = call(ask_language_model, options, folder, call(Endpoint, options, url=endpoint), cap, say=say)
    spent, next_ = found.spent, next_command(folder)
    words = f"{found.report.words()}\nIn all runs together: {spent.money:.4f} spent, "
    words += f"{spent.requests:,} requests.\n{found.agreement.as_text()}\n"
    words += f"{found.still_open:,} questions are open.{f' Next: {next_}' if next_ else ''}"
    show(found.as_json(), as_json, words)
