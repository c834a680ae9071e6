"""Shards run on a Ray cluster: scans as Ray tasks, texts as a Ray Data stream.

Shared values are put into the object store of the driver's node, so that losing any other node loses no
input; Ray runs the tasks of a lost node again elsewhere. Nothing of ours is pickled to disk.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np

from pairsieve.contracts import MapShards, Pieces, Results, Shards, Work
from pairsieve.distributed.local import gpu_shards
from pairsieve.errors import InputError, MissingExtra, PairsieveError
from pairsieve.progress import bar

log = logging.getLogger("pairsieve")
RETRIES = 10  # times a shard is run again after its worker was lost, before the run gives up
AHEAD = 2  # shards submitted beyond those that run, so that no worker waits for the driver


def open_shards(where: str | None) -> MapShards | None:
    """What `distributed` names: `gpus` are all of this machine's without Ray, `local` starts a cluster here,
    anything else is a cluster's address; or none."""
    if where is None:
        return None
    if where == "gpus":
        return gpu_shards()
    if where == "local":
        # Ray reads it when it is imported: its servers then listen on 127.0.0.1 alone, not on every address.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray = _ray()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    if not ray.is_initialized():
        try:
            check_reachable(where)
            ray.init(
                address=where,
                include_dashboard=False if where == "local" else None,
                logging_level="ERROR",
                log_to_driver=False,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(
                f"no Ray cluster answers at {where!r}",
                where="`distributed`",
                why=str(error).splitlines()[0] if str(error) else type(error).__name__,
                remedy="Give host:port of its head node (ray start --head prints it), auto for the cluster "
                "of this machine, or local to start one here",
            ) from error
        if where == "local" and ray.util.get_node_ip_address() != "127.0.0.1":
            log.warning("Ray listens on all addresses of this machine, and runs what anybody sends it")
    return RayShards()


def check_reachable(where: str) -> None:
    """OSError where nobody listens at host:port; Ray itself would try for minutes."""
    host, _, port = where.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=5).close()


class RayShards:
    """The `MapShards` of the Ray cluster that this process is connected to."""

    threads = 1

    def __init__(self) -> None:
        self._ray = _ray()

    @property
    def workers(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    @property
    def gpus(self) -> int:
        return int(self._ray.cluster_resources().get("GPU", 0))

    def share(self, value: Any) -> Any:
        return self._ray.put(value)

    def map(self, work: Work, shards: Shards, desc: str = "shards", gpu: bool = False) -> Results:
        ray = self._ray

        def run(*shard: Any) -> Any:  # Ray takes plain functions only
            return work(*shard)

        remote = ray.remote(num_cpus=1, num_gpus=int(gpu), max_retries=RETRIES, scheduling_strategy="SPREAD")
        task = remote(run)
        under_way: dict[Any, int] = {}
        to_come = iter(enumerate(shards))
        shown = bar(len(shards), desc, "shard")
        try:
            while True:
                while len(under_way) < AHEAD * self.workers:  # asked anew: a cluster grows and shrinks
                    position, shard = next(to_come, (-1, ()))
                    if position < 0:
                        break
                    under_way[task.remote(*shard)] = position
                if not under_way:
                    return
                for done in ray.wait(list(under_way))[0]:
                    position = under_way.pop(done)
                    with _explained(desc):
                        result = ray.get(done)
                    shown.update(1)
                    yield position, result
        finally:
            shown.close()
            for left_over in under_way:
                with contextlib.suppress(Exception):  # the caller is leaving; the cluster may be gone
                    ray.cancel(left_over)

    def map_texts(
        self, work: Work, shared: Any, pieces: Pieces, desc: str = "embedding", gpu: bool = False
    ) -> Results:
        import pyarrow as pa
        import ray.data as ray_data
        import torch

        ray, threads = self._ray, torch.get_num_threads()
        handle = ray.put(shared)
        tables = [
            pa.table({"position": np.full(len(texts), position), "text": pa.array(texts, pa.string())})
            for position, texts in pieces
        ]

        def one(table: Any) -> dict[str, Any]:
            """One row: the position of the piece, and its rows as bytes; so no piece is ever cut in two."""
            # As many as the driver: libraries may add up in another order with another number of threads.
            torch.set_num_threads(threads)
            rows, refused = np.zeros((0, 0), np.float32), ""
            try:
                found = work(ray.get(handle), table.column("text").to_pylist())
                rows = np.ascontiguousarray(found, np.float32)
            except PairsieveError as error:  # Ray Data would hand on only that something failed
                refused = str(error)
            position = table.column("position")[0].as_py()
            row = {"position": position, "width": rows.shape[1], "refused": refused, "rows": rows.tobytes()}
            return {name: [value] for name, value in row.items()}

        ray_data.DataContext.get_current().enable_progress_bars = False  # ours is shown instead
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        options: dict[str, Any] = {"num_gpus": 1} if gpu else {"num_cpus": min(threads, self._smallest())}
        # Ray Data runs a piece again as often as its worker is lost.
        stream = ray_data.from_arrow(tables).map_batches(
            one, batch_size=None, batch_format="pyarrow", **options
        )
        with bar(len(tables), desc, "shard") as shown, _explained(desc):
            batches: Any = stream.iter_batches(batch_size=None, batch_format="pyarrow")
            for batch in batches:
                for row in batch.to_pylist():
                    if row["refused"]:
                        raise PairsieveError(row["refused"])
                    shown.update(1)
                    yield row["position"], np.frombuffer(row["rows"], np.float32).reshape(-1, row["width"])

    def _smallest(self) -> int:
        """Cores of the smallest machine that works: a shard that asks for more would wait forever."""
        nodes = [node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"]]
        return max(1, int(min((cores for cores in nodes if cores), default=1)))


@contextlib.contextmanager
def _explained(desc: str) -> Iterator[None]:
    """An error inside a shard surfaces as itself; a shard that is lost again and again says what to do."""
    from ray.exceptions import RayError, RayTaskError

    try:
        yield
    except RayTaskError as error:
        if isinstance(error.cause, PairsieveError):
            raise error.cause from error
        raise
    except RayError as error:
        raise PairsieveError(
            f"{desc}: a shard was lost with its worker {RETRIES + 1} times "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}). Give the workers "
            "more memory or use fewer of them on a machine, and run again: what was finished is kept."
        ) from error


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "`distributed`", "pip install 'pairsieve[distributed]'") from None
    return ray
