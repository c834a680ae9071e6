"""`pairsieve ask-model`: let a language model answer open questions of a campaign, under a spend cap."""

from __future__ import annotations

from pathlib import Path

from typer import Option

from pairsieve.cli import app, call, say, show
from pairsieve.cli.options import FOLDER, JSON


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
