"""`pairsieve ask-model`: let a language model answer open questions of a campaign, under a spend cap."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pairsieve.cli import app, say, show
from pairsieve.errors import InputError

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign
    from pairsieve.contracts import Answer

GUIDELINE = "guideline.md"  # the campaign's own words on what counts as a match


@app.command("ask-model")
def ask_model(
    folder: Path = typer.Argument(..., help="The campaign folder."),
    endpoint: str = typer.Option(..., "--endpoint", help="OpenAI-compatible, such as https://HOST/v1."),
    model: str = typer.Option(..., "--model", help="The model, as the endpoint names it."),
    spend_cap: str | None = typer.Option(None, "--spend-cap", help="Most money in all runs; needs prices."),
    price_in: str | None = typer.Option(None, "--price-in", help="Price of a million tokens read."),
    price_out: str | None = typer.Option(None, "--price-out", help="Price of a million tokens written."),
    token_cap: int | None = typer.Option(None, "--token-cap", help="Most tokens, in all runs together."),
    request_cap: int | None = typer.Option(None, "--request-cap", help="Most requests, in all runs."),
    key_variable: str | None = typer.Option(
        None, "--key-variable", help="Environment variable that holds the key. [no key is sent]"
    ),
    definition: Path | None = typer.Option(
        None, "--definition", help="Text file: what counts as a match. [the campaign's guideline]"
    ),
    count: int | None = typer.Option(None, "--count", min=0, help="Most open questions to ask. [all]"),
    purpose: str = typer.Option("train", "--purpose", help="Questions to train on, or of an audit."),
    overlap: float = typer.Option(
        0.1, "--overlap", min=0, max=1, help="Share of people's pairs asked too, to measure agreement."
    ),
    examples: int = typer.Option(6, "--examples", min=0, help="Labelled pairs shown to the model."),
    pairs_per_request: int = typer.Option(1, "--pairs-per-request", help="More is cheaper."),
    answer_tokens: int = typer.Option(64, "--answer-tokens", help="Allowed per pair; more for thinkers."),
    concurrency: int = typer.Option(4, "--concurrency", help="Requests under way at once."),
    timeout_seconds: float = typer.Option(60, "--timeout-seconds", help="For one reply."),
    retries: int = typer.Option(4, "--retries", help="After the first try."),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Let a language model answer open questions, under a spend cap.

    Answers are written as they come; stop at any time and run again. A share of the pairs that people
    answered is asked too, first, and only to measure the model: these answers never count as labels.
    """
    from pairsieve.campaign import Campaign
    from pairsieve.contracts import generator_for
    from pairsieve.measure.agreement import overlap_agreement
    from pairsieve.sources.language_model import LanguageModelSource
    from pairsieve.sources.overlap import (
        FOLDER,
        OVERLAP_FILE,
        SOURCE,
        SPENT_FILE,
        known_answers,
        overlap_writer,
        plan,
    )
    from pairsieve.sources.prompt import Prompt
    from pairsieve.sources.spending import Purse, SpendCap, amount
    from pairsieve.sources.wire import Endpoint

    cap = SpendCap(
        money=None if spend_cap is None else amount("--spend-cap", spend_cap),
        price_in=None if price_in is None else amount("--price-in", price_in),
        price_out=None if price_out is None else amount("--price-out", price_out),
        tokens=token_cap,
        requests=request_cap,
    )
    where = Endpoint(
        url=endpoint,
        model=model,
        key_variable=key_variable,
        concurrency=concurrency,
        timeout_seconds=timeout_seconds,
        retries=retries,
        pairs_per_request=pairs_per_request,
        answer_tokens=answer_tokens,
    )
    where.key()  # a missing key is said before anything is read
    campaign = Campaign(folder)
    ledger, seed = campaign.ledger, campaign.settings.seed
    rng = generator_for(seed, 1, "ask-model")
    words, from_where = definition_of(campaign, definition)
    beside = campaign.folder / FOLDER
    run = uuid.uuid4().hex

    def keep(answers: Sequence[Answer]) -> None:
        tokens = [f"{run}:{answer.id}" for answer in answers]  # handed on twice, it is written once
        ledger.answer(answers, who=model, source=SOURCE, tokens=tokens)

    with Purse(cap, beside / SPENT_FILE) as purse:
        said = known_answers(ledger, beside / OVERLAP_FILE, model, words)
        work = plan(ledger, said, texts_of(campaign), overlap, examples, purpose, seed)
        asked = work.open[:count]
        asker = LanguageModelSource(where, Prompt(words, work.examples), texts_of(campaign), purse, rng)
        if len(asked) or len(work.overlap):
            say(
                f"Asking {model} at {where.url} about {len(asked):,} open pairs and {len(work.overlap):,} "
                "that people answered; their texts leave this machine."
            )
        asker.on_answer = overlap_writer(beside / OVERLAP_FILE, model, words)
        asker.answer(work.overlap)
        if not asker.report.stopped:
            asker.on_answer = keep
            asker.answer(asked)
        report, spent = asker.report, purse.spent
    said = known_answers(ledger, beside / OVERLAP_FILE, model, words)
    agreement = overlap_agreement(said.model, said.people, rng)
    still_open = len(ledger.open_questions(purpose=purpose))
    show(
        {
            "campaign": str(folder),
            "model": model,
            "definition": from_where,
            "examples": len(work.examples),
            "asked": {"open": len(asked), "overlap": len(work.overlap)},
            **report.as_json(),
            "spent_in_all_runs": spent.as_json(),
            "agreement": agreement.as_json(),
            "still_open": still_open,
        },
        as_json,
        f"{report.words()}\nIn all runs together: {spent.money:.4f} spent, {spent.requests:,} requests.\n"
        f"{agreement.words()}\n{still_open:,} questions are open. Next: pairsieve run {folder}",
    )


def texts_of(campaign: Campaign) -> Callable[[int], tuple[str, str]]:
    """Pair id -> the two texts."""
    left, right = campaign.split.left.texts, campaign.split.right.texts
    return lambda pair: (left[pair >> 32], right[pair & 0xFFFF_FFFF])


def definition_of(campaign: Campaign, file: Path | None) -> tuple[str, str]:
    """What counts as a match, and where it is written: the file, the campaign's guideline, or a default."""
    from pairsieve.sources.prompt import DEFINITIONS

    place = file or campaign.folder / GUIDELINE
    if file is not None or place.exists():
        try:
            words = place.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                "the definition cannot be read",
                where=str(place),
                why=str(error),
                remedy="Give a text file in UTF-8",
            ) from None
        if words:
            return words, str(place)
        if file is not None:
            raise InputError("the definition is empty", where=str(file), remedy="Say what counts as a match")
    return DEFINITIONS[campaign.task.relation], f"default for {campaign.task.relation}"
