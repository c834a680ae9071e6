"""`pairsieve label`: the labelling page and the dashboard."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from typer import Option

from pairsieve.cli import Stopped, app, needs_extra, say
from pairsieve.cli.options import ADDRESS_JSON, CACHE, FOLDER, HOST, PORT, PUBLIC_URL, TRUSTED_PROXY
from pairsieve.errors import InputError


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
    from pairsieve.campaign import Campaign

    with needs_extra("web", "The labelling page"):
        from pairsieve.web.app import serve
    from pairsieve.http.gate import check_host
    from pairsieve.http.proxy import Proxy
    from pairsieve.web import LabellingSession

    proxy = Proxy(public_url, tuple(trusted_proxy))
    check_host(host, token, proxy)
    campaign = Campaign(folder, cache)
    session = LabellingSession(campaign, overlap, split=split)
    if not session.place.own and not len(session.place.ledger.questions()):
        raise InputError(
            f"no audit of {session.place.name} has been begun",
            where=str(folder),
            remedy=f"pairsieve audit {folder} --split {session.place.name}",
        )
    if session.place.own and campaign.split.has_truth:
        say("This task has its truth: the rounds in the background are answered from it, not by people.")

    def announce(url: str) -> None:
        where = f"Labelling page: {url}   Dashboard: {url}dashboard   Stop with Ctrl-C."
        typer.echo(json.dumps({"url": url, "dashboard": f"{url}dashboard"}) if as_json else where)
        if token:
            say("People need the token to come in.")

    try:
        serve(session, host, port, token, not no_train, announce, cache, proxy)
    except (Stopped, KeyboardInterrupt):  # the usual way to end it, not a failure
        say(f"Stopped; every answer is kept. Go on with: pairsieve label {folder}")
