"""`pairsieve serve`: match new texts against a collection, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from typer import Argument, Option

from pairsieve.cli import app, call, say
from pairsieve.cli.options import ADDRESS_JSON, CACHE, HOST, PORT, PUBLIC_URL, TRUSTED_PROXY
from pairsieve.errors import needs_extra


@app.command()
def serve(
    folder: Path = Argument(..., help="A campaign folder, or one that pairsieve export wrote."),
    collection: str | None = Option(
        None, help="What to search: a split, a task folder, or a table. [all texts of the campaign]"
    ),
    key: str | None = Option(None, help="Key column of a table given as --collection. [row numbers]"),
    text: list[str] = Option([], help="Text column of that table; repeat for more. [text]"),
    source: str | None = Option(None, help="Column of that table that names where each text is from."),
    side: str | None = Option(
        None, help="The collection's side where the sides differ: left or right. [right]"
    ),
    queries: str | None = Option(
        None,
        help="Known texts of the other side: a split, a task folder, or a table. [those of the collection]",
    ),
    round_: int | None = Option(None, "--round", help="Which round's model. [the latest]"),
    state: Path | None = Option(None, help="Folder that keeps additions and removals. [FOLDER/serving]"),
    host: str = HOST,
    port: int = PORT,
    token: str = Option("", envvar="PAIRSIEVE_TOKEN", help="What clients must send, 16 characters or more."),
    public_url: str = PUBLIC_URL,
    trusted_proxy: list[str] = TRUSTED_PROXY,
    waiting: int = Option(1024, min=1, help="Texts that may wait before requests are refused with 429."),
    batch: int = Option(256, min=1, help="Texts embedded together at most."),
    cache: Path | None = CACHE,
    as_json: bool = ADDRESS_JSON,
) -> None:
    """Match new texts against a collection, over HTTP.

    POST /match gives the earlier texts that match a text best, with scores and probabilities. PUT and DELETE
    /texts/KEY change what is searched, at once and for good. Serves until stopped, and finishes what it took.
    """
    options = locals()
    with needs_extra("web", "Serving"):
        from pairsieve.serving.app import serve as serve_http
    from pairsieve.http.access import check_host
    from pairsieve.http.proxy import Proxy
    from pairsieve.serving import Service

    proxy = Proxy(public_url, tuple(trusted_proxy))
    check_host(host, token, proxy)
    opened = call(Service.open, options, folder, text=tuple(text), most_waiting=waiting, most_at_once=batch)
    with opened as service:

        def announce(url: str) -> None:
            about = {"url": url, **service.about()}
            words = (
                f"{about['serving']}: {len(service):,} texts at {url}   How to ask: {url}docs   Stop: Ctrl-C."
            )
            typer.echo(json.dumps(about) if as_json else words)
            if service.replayed:
                say(f"{service.replayed:,} earlier additions and removals are in force.")
            if token:
                say("Clients need the token.")

        serve_http(service, host, port, token, announce, proxy)
