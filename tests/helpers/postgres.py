"""A private PostgreSQL for tests: its own folder, a free port, gone when the tests are."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

UNPRIVILEGED = ("postgres", "nobody")  # the server refuses to run as root
# The tests kill writers, never the server: it need not wait for the disk.
SETTINGS = ("-h", "127.0.0.1", "-c", "fsync=off")


def _binaries() -> Path | None:
    on_path = shutil.which("postgres")
    places = [Path(on_path).parent] if on_path else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


class Postgres:
    """A server of its own that can be stopped and started; its data stay."""

    def __init__(self, binaries: Path, folder: Path, run: dict[str, Any]) -> None:
        self._binaries, self._folder, self._run = binaries, folder, run
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"postgresql://pairsieve@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        log = self._folder / "log"
        place = ["-D", self._folder / "data", "-k", self._folder, "-p", str(self.port)]
        with log.open("a") as words:
            self._server = subprocess.Popen(
                [self._binaries / "postgres", *place, *SETTINGS], stdout=words, stderr=words, **self._run
            )
        _wait(self.port, self._server, log)

    def stop(self) -> None:
        """A fast shutdown: clients are cut off."""
        self._server.send_signal(signal.SIGINT)
        self._server.wait(timeout=30)


@contextmanager
def private_postgres() -> Iterator[Postgres]:
    """A running server; skips, with the reason, where there is none."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'psycopg[binary]'")
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server on this machine (looked on PATH and in /usr/lib/postgresql)")
    owner = next((name for name in UNPRIVILEGED if _exists(name)), None) if os.geteuid() == 0 else None
    if os.geteuid() == 0 and owner is None:
        pytest.skip(f"PostgreSQL does not run as root, and there is no user {' or '.join(UNPRIVILEGED)}")
    folder = Path(tempfile.mkdtemp(prefix="pairsieve-pg-", dir="/tmp"))  # a socket's path must be short
    if owner:
        shutil.chown(folder, owner)
    become = {"user": owner, "group": pwd.getpwnam(owner).pw_gid, "extra_groups": []} if owner else {}
    run = {"cwd": folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(folder)}, **become}
    try:
        subprocess.run(
            [
                binaries / "initdb",
                "-D",
                folder / "data",
                *["-U", "pairsieve", "-A", "trust", "-E", "UTF8", "--no-sync"],
            ],
            check=True,
            capture_output=True,
            **run,  # type: ignore[call-overload]
        )
        server = Postgres(binaries, folder, run)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A server for one test, which may stop it."""
    with private_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with private_postgres() as server:
        yield server.url


@pytest.fixture
def postgres_place(postgres_url: str) -> Callable[[], str]:
    """Makes URLs of empty ledgers: each call gives a schema of its own."""
    import psycopg

    def fresh() -> str:
        schema = f"ledger_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
        return f"{postgres_url}?options=-csearch_path%3D{schema}"

    return fresh


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    for _ in range(300):
        try:
            psycopg.connect(f"postgresql://pairsieve@127.0.0.1:{port}/postgres").close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None:
                break
            time.sleep(0.1)
    raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}")
