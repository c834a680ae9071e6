"""`pairsieve serve`: match new texts against a collection, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from pairsieve.cli import app, say
from pairsieve.errors import InputError, MissingExtra


@app.command()
def serve(
    folder: Path = typer.Argument(..., help="A campaign folder, or a model that pairsieve export wrote."),
    collection: str | None = typer.Option(
        None,
        "--collection",
        help="What to search: a split, a task folder, or a table. [all texts of the campaign]",
    ),
    key: str | None = typer.Option(
        None, "--key", help="Key column of a table given as --collection. [row numbers]"
    ),
    text: list[str] = typer.Option([], "--text", help="Text column of that table; repeat for more. [text]"),
    side: str | None = typer.Option(
        None, "--side", help="The collection's side where the sides differ: left or right. [right]"
    ),
    round_: int | None = typer.Option(None, "--round", help="Which round's model. [the latest]"),
    state: Path | None = typer.Option(
        None, "--state", help="Folder that keeps additions and removals. [FOLDER/serving]"
    ),
    host: str = typer.Option(
        "127.0.0.1", "--host", help="Address to serve; other than loopback needs a token."
    ),
    port: int = typer.Option(0, "--port", min=0, max=65535, help="Port; 0 takes a free one."),
    token: str = typer.Option(
        "", "--token", envvar="PAIRSIEVE_TOKEN", help="What clients must send, 16 characters or more."
    ),
    waiting: int = typer.Option(
        1024, "--waiting", min=1, help="Texts that may wait before requests are refused with 429."
    ),
    batch: int = typer.Option(256, "--batch", min=1, help="Texts embedded together at most."),
    cache: Path | None = typer.Option(
        None, "--cache", envvar="PAIRSIEVE_CACHE", help="Embeddings shared between campaigns."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the address as JSON."),
) -> None:
    """Match new texts against a collection, over HTTP.

    POST /match gives the earlier texts nearest to a new one, with probabilities. PUT and DELETE /texts/KEY
    change what is searched, at once and for good. Serves until stopped; then finishes what it accepted.
    """
    try:
        from pairsieve.serving.app import serve as serve_http
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "pydantic", "prometheus_client"):
            raise
        raise MissingExtra(str(error.name), "Serving", "pip install 'pairsieve[web]'") from None
    from pairsieve.serving import Service
    from pairsieve.web.safety import check_host

    check_host(host, token)
    with Service.open(
        folder,
        collection,
        key=key,
        text=tuple(text),
        side=side,
        round=round_,
        state=state,
        cache=cache,
        most_waiting=waiting,
        most_at_once=batch,
    ) as service:

        def announce(url: str) -> None:
            told = {"url": url, **service.about()}
            words = (
                f"{told['serving']}: {len(service):,} texts at {url}   How to ask: {url}docs   Stop: Ctrl-C."
            )
            typer.echo(json.dumps(told) if as_json else words)
            if service.replayed:
                say(f"{service.replayed:,} earlier additions and removals are in force.")
            if token:
                say("Clients need the token.")

        try:
            serve_http(service, host, port, token, announce)
        except OSError as error:
            raise InputError(
                f"cannot serve at {host}:{port}",
                why=error.strerror or str(error),
                remedy="Choose another --port or --host",
            ) from None
