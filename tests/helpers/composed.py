"""docs/deploy/compose.yaml run by Docker Compose: empty images, into which this machine is mounted.

The services, their command, user, rights, networks and restarts are those of the file. In place of what an
image would hold, the folders of this Python and of the system are mounted read-only; Caddy's certificate is
our own, and its port a free one.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deployed_proxy import DEPLOY, HOST, free_port
from tls_proxy import TOKEN, make_certificate

SYSTEM = ("/usr", "/bin", "/lib", "/lib64")
OWNER = 12345  # a user that this machine does not know


def compose_command() -> list[str]:
    """`docker compose`, or its older form; skips where there is none, or no engine."""
    for words in (["docker", "compose"], ["docker-compose"]):
        there = shutil.which(words[0]) and subprocess.run([*words, "version"], capture_output=True)
        if there and there.returncode == 0:
            break
    else:
        pytest.skip("Docker Compose is not installed")
    if subprocess.run(["docker", "info"], capture_output=True).returncode:
        pytest.skip("no Docker engine runs here")
    if shutil.which("caddy") is None:
        pytest.skip("caddy is not installed")
    return words


def _empty_image(name: str) -> None:
    """An image that holds nothing but a folder for temporary files."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as made:
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        made.addfile(folder)
    subprocess.run(["docker", "import", "-", name], input=archive.getvalue(), check=True, capture_output=True)


def _write_project(folder: Path, image: str, port: int, certificate: Path, key: Path, encoder: Path) -> None:
    """The two files of docs/deploy, and a second compose file with what this machine does differently."""
    compose, count = re.subn(
        r'ports: \["443:443", "80:80"\]',
        f'ports: ["127.0.0.1:{port}:443"]',
        (DEPLOY / "compose.yaml").read_text(),
    )
    assert count == 1
    (folder / "compose.yaml").write_text(compose)
    sites, count = re.subn(
        r"label\.example\.org {",
        "label.example.org {\n\ttls /certificate.pem /key.pem",
        (DEPLOY / "Caddyfile").read_text(),
    )
    assert count == 1
    sites, count = re.subn(r"match\.example\.org {", "match.example.org {\n\ttls internal", sites)
    assert count == 1
    (folder / "Caddyfile").write_text("{\n\tskip_install_trust\n}\n" + sites)
    source = Path(__file__).parents[2] / "src"
    python = {*map(os.path.realpath, (sys.prefix, sys.base_prefix, source, encoder))}
    system = [each for each in SYSTEM if Path(each).is_dir()]
    mounts = [f"{each}:{each}:ro" for each in sorted({*system, *python})]
    label = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "PYTHONPATH": str(source), "HF_HUB_OFFLINE": "1"}
    caddy = [f"{certificate}:/certificate.pem:ro", f"{key}:/key.pem:ro"]
    run = "caddy run --adapter caddyfile --config /etc/caddy/Caddyfile"  # as the image does
    there = {"XDG_DATA_HOME": "/data", "HOME": "/tmp", "PATH": "/usr/bin"}
    services: dict[str, Any] = {
        "label": {"image": image, "volumes": mounts, "environment": label},
        "caddy": {"image": image, "volumes": [*mounts, *caddy], "command": run, "environment": there},
    }
    (folder / "this-machine.yaml").write_text(json.dumps({"services": services}))  # JSON is YAML


@contextmanager
def composed(folder: Path, encoder: Path) -> Iterator[Any]:
    """The services of compose.yaml over `folder`/mine and `folder`/task; stopped and removed at the end."""
    words, name = compose_command(), f"pairsieve-test-{uuid.uuid4().hex[:8]}"
    certificate, key = make_certificate(folder, HOST)
    proxy = SimpleNamespace(host=HOST, port=free_port(), certificate=certificate)
    _empty_image(name)
    _write_project(folder, name, proxy.port, certificate, key, encoder)
    for path in (folder / "mine", *(folder / "mine").rglob("*")):
        os.chown(path, OWNER, OWNER)
    for path in encoder.rglob("*"):
        path.chmod(0o755)  # its owner is not who runs the service
    environment = {**os.environ, "PAIRSIEVE_TOKEN": TOKEN, "PAIRSIEVE_USER": f"{OWNER}:{OWNER}"}
    files = ["-f", folder / "compose.yaml", "-f", folder / "this-machine.yaml"]

    def compose(*more: str) -> str:
        done = subprocess.run(
            [*words, "-p", name, *files, *more], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    proxy.compose = compose
    try:
        compose("up", "-d")
        yield proxy
    finally:
        compose("down", "-v")
        subprocess.run(["docker", "rmi", name], check=True, capture_output=True)
