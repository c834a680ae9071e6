"""Run an ASGI application with uvicorn on a socket of our own, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
from collections.abc import Callable
from typing import Any

from pairsieve.errors import InputError
from pairsieve.http.access import App, check_host, is_loopback
from pairsieve.http.connections import Connections, limited_protocol
from pairsieve.http.proxy import Proxy

MOST_FILES = 8192  # open at once, connections among them, where the system allows so many
log = logging.getLogger("pairsieve")


def run_server(
    app: App,
    host: str,
    port: int,
    token: str,
    announce: Callable[[str], None],
    *,
    proxy: Proxy,
    most_connections: int,
    graceful_seconds: int,
    **options: Any,
) -> None:
    """Serve until stopped; requests that were accepted have `graceful_seconds` to finish.

    Port 0 takes a free one. `announce(url)` is called once connections are accepted.
    `options`: further fields of `uvicorn.Config`.
    """
    import uvicorn

    check_host(host, token, proxy)
    _allow_files(MOST_FILES)
    config = uvicorn.Config(
        app,
        log_level="error",  # what anybody may send is not worth a line each
        access_log=False,
        ws="none",
        server_header=False,
        proxy_headers=False,
        http=limited_protocol(Connections(proxy, most_connections)),
        timeout_graceful_shutdown=graceful_seconds,
        **options,
    )
    server = uvicorn.Server(config)

    def stop(*_: object) -> None:
        server.should_exit = True

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named: else asyncio leaves Nagle's algorithm on, and each answer waits for 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen(2048)
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
            own = f"http://{_shown(host)}:{listening.getsockname()[1]}"
            announce(f"{proxy.origin or own}/")
            if proxy.public_url:
                log.warning("the proxy at %s must pass its requests to %s", proxy.origin, own)
            elif not is_loopback(host):
                log.warning("other machines can reach this server, without encryption; it needs the token")
            server.run(sockets=[listening])
        finally:
            signal.signal(signal.SIGTERM, before)


def _allow_files(most: int) -> None:
    """Raise the number of files this process may open: the usual 1,024 is soon spent on connections."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _shown(host: str) -> str:
    """The host as it stands in a URL; for all addresses, this machine's name."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
