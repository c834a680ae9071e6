"""Run an ASGI application with uvicorn on a socket of our own, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable
from typing import Any

from pairsieve.errors import InputError
from pairsieve.http.gate import App, check_host, is_loopback

log = logging.getLogger("pairsieve")


def run_server(
    app: App,
    host: str,
    port: int,
    token: str,
    announce: Callable[[str], None],
    *,
    backlog: int,
    limit_concurrency: int,
    graceful_seconds: int,
    **options: Any,
) -> None:
    """Serve until stopped; requests that were accepted have `graceful_seconds` to finish.

    Port 0 takes a free one. `announce(url)` is called once connections are accepted.
    `options`: further fields of `uvicorn.Config`.
    """
    import uvicorn

    check_host(host, token)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limit_concurrency,
        timeout_graceful_shutdown=graceful_seconds,
        **options,
    )
    server = uvicorn.Server(config)

    def stop(*_: object) -> None:
        server.should_exit = True

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen(backlog)
        except OSError as error:
            raise InputError(
                f"cannot serve at {host}:{port}",
                why=error.strerror or str(error),
                remedy="Choose another `port` or `host`",
            ) from None
        # Until uvicorn has its own handler, and when it raises the signal again after it has stopped: being
        # asked to stop is no failure.
        before = signal.signal(signal.SIGTERM, stop)
        try:
            announce(f"http://{_shown(host)}:{listening.getsockname()[1]}/")
            if not is_loopback(host):
                log.warning("other machines can reach this server, without encryption; it needs the token")
            server.run(sockets=[listening])
        finally:
            signal.signal(signal.SIGTERM, before)


def _shown(host: str) -> str:
    """The host as it stands in a URL; for all addresses, this machine's name."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
