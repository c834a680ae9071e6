"""`pairsieve label`: the labelling page and the dashboard."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from pairsieve.cli import Stopped, app, say
from pairsieve.errors import InputError, MissingExtra


@app.command()
def label(
    folder: Path = typer.Argument(..., help="The campaign folder."),
    host: str = typer.Option(
        "127.0.0.1", "--host", help="Address to serve; other than loopback needs a token."
    ),
    port: int = typer.Option(0, "--port", min=0, max=65535, help="Port; 0 takes a free one."),
    token: str = typer.Option(
        "",
        "--token",
        envvar="PAIRSIEVE_TOKEN",
        help="What people must give to come in, 16 characters or more.",
    ),
    overlap: float = typer.Option(
        0.0, "--overlap", min=0, max=1, help="Share of the pairs that two people label, to measure agreement."
    ),
    split: str | None = typer.Option(
        None, "--split", help="The split of an audit, where it is not the campaign's own."
    ),
    no_train: bool = typer.Option(False, "--no-train", help="Do not train in the background between rounds."),
    cache: Path | None = typer.Option(
        None, "--cache", envvar="PAIRSIEVE_CACHE", help="Embeddings shared between campaigns."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the address as JSON."),
) -> None:
    """Label in the browser, alone or with others.

    Serves the labelling page and the dashboard until stopped. When a round's answers are in, training
    starts in the background and the next pairs appear. Every answer is kept at once. With --split, the
    questions of that split's audit (pairsieve audit --split) are answered instead, and nothing is trained.
    """
    from pairsieve.campaign import Campaign

    try:
        from pairsieve.web.app import serve
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "pydantic"):
            raise
        raise MissingExtra(str(error.name), "The labelling page", "pip install 'pairsieve[web]'") from None
    from pairsieve.web import Desk
    from pairsieve.web.safety import check_host

    check_host(host, token)
    campaign = Campaign(folder, cache)
    desk = Desk(campaign, overlap, split=split)
    if not desk.place.own and not len(desk.place.ledger.questions()):
        raise InputError(
            f"no audit of {desk.place.name} has been begun",
            where=str(folder),
            remedy=f"pairsieve audit {folder} --split {desk.place.name}",
        )
    if desk.place.own and campaign.split.has_truth:
        say("This task has its truth: the rounds in the background are answered from it, not by people.")

    def announce(url: str) -> None:
        where = f"Labelling page: {url}   Dashboard: {url}dashboard   Stop with Ctrl-C."
        typer.echo(json.dumps({"url": url, "dashboard": f"{url}dashboard"}) if as_json else where)
        if token:
            say("People need the token to come in.")

    try:
        serve(desk, host, port, token, not no_train, announce, cache)
    except (Stopped, KeyboardInterrupt):  # the usual way to end it, not a failure
        say(f"Stopped; every answer is kept. Go on with: pairsieve label {folder}")
    except OSError as error:
        raise InputError(
            f"cannot serve at {host}:{port}",
            why=error.strerror or str(error),
            remedy="Choose another --port or --host",
        ) from None
