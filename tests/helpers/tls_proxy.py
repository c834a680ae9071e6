"""A small TLS proxy: it ends TLS with a certificate of its own, and adds the forwarded headers."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path


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
