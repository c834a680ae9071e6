"""A Ray cluster that we start on this machine can be reached from this machine alone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("ray", reason="needs pip install 'pairsieve[distributed]'")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

START = """
import json, os, pathlib
from pairsieve.distributed import open_shards

open_shards("local")
import ray
family = {str(os.getpid())}  # this process and everything that Ray started
while True:
    stats = [p.read_text() for p in pathlib.Path("/proc").glob("[0-9]*/stat") if p.exists()]
    more = {s.split()[0] for s in stats if s.rpartition(")")[2].split()[1] in family} | family
    if more == family:
        break
    family = more
sockets = set()
for pid in family:
    for fd in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
        try:
            sockets.add(os.readlink(fd))
        except OSError:
            pass
found = []
for name in ("tcp", "tcp6"):
    for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
        local, state, inode = line.split()[1], line.split()[3], line.split()[9]
        if state == "0A" and f"socket:[{inode}]" in sockets:
            found.append(local.partition(":")[0])
ray.shutdown()
print(json.dumps(found))
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ray_listens_on_loopback_alone() -> None:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found, "Ray listens somewhere"
    assert set(found) <= LOOPBACK
