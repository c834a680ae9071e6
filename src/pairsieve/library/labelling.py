"""Serve the labelling page of a campaign until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pairsieve.campaign import Campaign
from pairsieve.errors import InputError, needs_extra
from pairsieve.http.access import check_host
from pairsieve.http.proxy import Proxy
from pairsieve.library.records import Folder


def serve_labelling_page(
    folder: Folder,
    announce: Callable[[str], None],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str = "",
    overlap: float = 0.0,
    split: str | None = None,
    train: bool = True,
    public_url: str = "",
    trusted_proxy: Sequence[str] = (),
    cache: Folder | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> None:
    """Serve the page and the dashboard; port 0 takes a free one. `announce(url)` is called once it is up.

    overlap: share of the pairs that two people label. split: the audit of another split than the campaign's
    own, which trains nothing. train: in the background, where a round is answered. public_url, trusted_proxy:
    of a TLS proxy in front. A `host` that others can reach needs a `token`.
    """
    with needs_extra("web", "The labelling page"):
        from pairsieve.web.app import serve
    from pairsieve.web import LabellingSession

    proxy = Proxy(public_url, tuple(trusted_proxy))
    check_host(host, token, proxy)
    where = None if cache is None else Path(cache)
    campaign = Campaign(Path(folder), where)
    session = LabellingSession(campaign, overlap, split=split)
    if not session.place.own and not len(session.place.ledger.questions()):
        raise InputError(
            f"no audit of {session.place.name} has been begun",
            where=str(folder),
            remedy=f"pairsieve audit {folder} --split {session.place.name}",
        )
    if session.place.own and campaign.split.has_truth:
        say("This task has its truth: the rounds in the background are answered from it, not by people.")
    serve(session, host, port, token, train, announce, where, proxy)
