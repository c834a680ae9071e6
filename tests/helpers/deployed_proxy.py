"""The proxy configurations of docs/deploy, run by nginx or Caddy with a free port and our own certificate."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tls_proxy import make_certificate

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
HOST = "label.example.org"
ANYBODY = {"user": "nobody", "group": "nogroup"}  # who runs it, where this runs as root


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def nginx(folder: Path, proxy: SimpleNamespace) -> list[str]:
    """The command that runs docs/deploy/nginx.conf; what surrounds a server block is what any nginx has."""
    block = (DEPLOY / "nginx.conf").read_text()
    for old, new in (
        (r"listen 443 ssl", f"listen 127.0.0.1:{proxy.port} ssl"),
        (r"ssl_certificate +\S+;", f"ssl_certificate {proxy.certificate};"),
        (r"ssl_certificate_key +\S+;", f"ssl_certificate_key {proxy.key};"),
        (r"127\.0\.0\.1:8001", f"127.0.0.1:{proxy.to}"),
    ):
        block, count = re.subn(old, new, block)
        assert count == 1, old
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    own = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    whole = f"daemon off; pid {folder}/pid; error_log {folder}/log;\nevents {{}}\n"
    (folder / "whole.conf").write_text(f"{whole}http {{ access_log off; {own}\n{block}}}\n")
    return [shutil.which("nginx") or "", "-e", f"{folder}/log", "-c", f"{folder}/whole.conf"]


def caddy(folder: Path, proxy: SimpleNamespace) -> list[str]:
    """The command that runs docs/deploy/Caddyfile, with our certificate in place of a fetched one."""
    sites = (DEPLOY / "Caddyfile").read_text()
    for old, new in (
        (r"label\.example\.org {", f"{proxy.url} {{\n\ttls {proxy.certificate} {proxy.key}"),
        (r"match\.example\.org {", f"https://match.example.org:{proxy.port} {{\n\ttls internal"),
    ):
        sites, count = re.subn(old, new, sites)
        assert count == 1, old
    options = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n"
    (folder / "Caddyfile").write_text(options + sites)
    command = ["run", "--adapter", "caddyfile", "--config", f"{folder}/Caddyfile"]
    return [shutil.which("caddy") or "", *command]


@contextmanager
def deployed_proxy(kind: str, folder: Path) -> Iterator[Any]:
    """nginx or caddy in front of the port `to`, where nobody listens yet."""
    certificate, key = make_certificate(folder, HOST)
    proxy = SimpleNamespace(certificate=certificate, key=key, host=HOST, port=free_port(), to=free_port())
    proxy.url = f"https://{HOST}:{proxy.port}"
    command = {"nginx": nginx, "caddy": caddy}[kind](folder, proxy)
    who: dict[str, Any] = {}
    if os.geteuid() == 0:
        who = ANYBODY
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, *ANYBODY.values())
    home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    home["LABEL_SERVER"] = f"127.0.0.1:{proxy.to}"
    with (folder / "output").open("wb") as output:
        running = subprocess.Popen(
            command, env={**os.environ, **home}, stdout=output, stderr=output, cwd=folder, **who
        )
    try:
        for _ in range(600):
            assert running.poll() is None, (folder / "output").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", proxy.port)) == 0:
                    break
            time.sleep(0.1)
        yield proxy
    finally:
        running.terminate()
        running.wait(timeout=60)
