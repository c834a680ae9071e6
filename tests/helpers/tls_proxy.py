"""A small TLS proxy: it ends TLS with a certificate of its own, and adds the forwarded headers."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

TOKEN = "a-token-of-23-characters"


def make_certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """A self-made certificate for a host, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subject = ["-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host},IP:127.0.0.1"]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


class TlsProxy:
    """Passes requests on to `port` of this machine; `client`: the address it says they come from."""

    def __init__(self, folder: Path, host: str) -> None:
        self.certificate, key = make_certificate(folder, host)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, key)
        self.host, self.to, self.client = host, 0, "203.0.113.7"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context), self._loop
        ).result()
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection: its head with the forwarded headers, then whatever comes."""
        with closing(writer), suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            head = await reader.readuntil(b"\r\n\r\n")
            lines = [
                line
                for line in head.split(b"\r\n")[:-2]
                if not line.lower().startswith((b"connection:", b"x-forwarded-proto:"))
            ]
            lines += [f"X-Forwarded-For: {self.client}".encode(), b"X-Forwarded-Proto: https"]
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.to)
            with closing(to_writer):
                to_writer.write(b"\r\n".join([*lines, b"Connection: close", b"", b""]))
                body = asyncio.create_task(_pump(reader, to_writer))
                await _pump(to_reader, writer)
                body.cancel()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(timeout=30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, ssl.SSLError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()


@contextmanager
def tls_proxy(folder: Path, host: str = "label.test") -> Iterator[TlsProxy]:
    proxy = TlsProxy(folder, host)
    try:
        yield proxy
    finally:
        proxy.stop()


@contextmanager
def behind(proxy: Any, *words: Any) -> Iterator[dict[str, Any]]:
    """A command that serves, at the port that the proxy passes requests to."""
    if not proxy.to:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            proxy.to = probe.getsockname()[1]
    options = ["--token", TOKEN, "--public-url", proxy.url, "--port", str(proxy.to), "--json"]
    server = subprocess.Popen(
        [sys.executable, "-m", "pairsieve", *map(str, words), *options], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        yield json.loads(server.stdout.readline())
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)
        server.stdout.close()


def ask(proxy: Any, path: str, body: Any = None, **headers: str) -> Any:
    """One request through the proxy, whose certificate is checked."""
    context = ssl.create_default_context(cafile=str(proxy.certificate))
    data = None if body is None else json.dumps(body).encode()
    all_headers = {"Content-Type": "application/json", "Host": f"{proxy.host}:{proxy.port}", **headers}
    request = urllib.request.Request(f"https://127.0.0.1:{proxy.port}{path}", data, all_headers)
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:
        return json.loads(answer.read())


def send(proxy: Any, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
    """The same, asked by the proxy's name, whatever the status: status, headers, JSON or None."""
    context = ssl.create_default_context(cafile=str(proxy.certificate))
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as plain:
        connection = http.client.HTTPSConnection(proxy.host, proxy.port, context=context)
        connection.sock = context.wrap_socket(plain, server_hostname=proxy.host)
        data = None if body is None else json.dumps(body)
        whole = {"Content-Type": "application/json", **headers}
        connection.request("GET" if body is None else "POST", path, data, whole)
        answer = connection.getresponse()
        read = answer.read()
        connection.close()
    return answer.status, answer.headers, json.loads(read) if read.startswith(b"{") else None
