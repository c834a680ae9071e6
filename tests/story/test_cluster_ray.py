"""A Ray cluster of several node processes: the same results as one process, whatever node is killed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import pairsieve.distributed.scan as sharded
from pairsieve import distributed
from pairsieve.campaign import Campaign
from pairsieve.cli import all_commands
from pairsieve.distributed import RayShards, ShardedScan
from pairsieve.errors import InputError, PairsieveError
from pairsieve.models import cached
from pairsieve.pairs import AllPairs
from pairsieve.scan import open_scan, unit_rows
from pairsieve.search import index_neighbours
from synthetic_task import begin, picture, synthetic_task

ray = pytest.importorskip("ray", reason="needs pip install 'pairsieve[distributed]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("PAIRSIEVE_CLUSTER" not in os.environ, reason="a minute: set PAIRSIEVE_CLUSTER=1"),
    pytest.mark.xdist_group("ray"),  # one cluster, in one process
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),  # Ray Data warns of its own settings
]


class Nodes:
    """A head that only drives, and node processes of one core each; a node is killed, not asked to leave."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        little = {"object_store_memory": 80 * 2**20}
        self._little = little
        noticed = {"health_check_period_ms": 1000, "health_check_failure_threshold": 3}  # a death, in 3 s
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": noticed, **little}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.living: dict[str, Any] = {}
        for _ in range(2):
            self.add()
        ray.init(address=self.cluster.address, logging_level="CRITICAL", log_to_driver=False)

    def add(self) -> None:
        node = self.cluster.add_node(num_cpus=1, **self._little)
        self.living[node.node_id] = node

    def kill(self, node_id: str) -> None:
        self.cluster.remove_node(self.living.pop(node_id), allow_graceful=False)

    def close(self) -> None:
        ray.shutdown()
        self.cluster.shutdown()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Nodes()
    yield made
    made.close()


class Lossy:
    """`RayShards` that lose a node, at work on a shard, after the first result of each of some phases.

    The shards of a doomed node hang until it is killed, so what they did is surely lost.
    """

    def __init__(self, nodes: Nodes, notes: Path, phases: set[str]) -> None:
        self.inner, self.nodes, self.notes = RayShards(), nodes, notes
        self.to_come = set(phases)
        self.lost: dict[str, int] = {}  # phase -> shards that hung
        self.threads, self.gpus, self.workers = 1, 0, 2
        self.share = self.inner.share

    def map(self, work: Callable, shards: list, desc: str = "", gpu: bool = False) -> Iterator:
        return self._losing(desc, self.inner.map(hanging(work, self.notes), shards, desc), len(shards))

    def map_texts(
        self, work: Callable, shared: Any, pieces: list, desc: str = "", gpu: bool = False
    ) -> Iterator:
        through = self.inner.map_texts(hanging(work, self.notes), shared, pieces, desc)
        return self._losing(desc, through, len(pieces))

    def _losing(self, desc: str, results: Iterator, shards: int) -> Iterator:
        doomed = next(iter(self.nodes.living))
        if desc in self.to_come and shards > 5:
            self.to_come.remove(desc)
            (self.notes / doomed).touch()
        for result in results:
            yield result
            if (self.notes / doomed).exists() and desc not in self.lost:
                self.lost[desc] = self._lose(doomed)
                self.nodes.add()

    def _lose(self, doomed: str) -> int:
        until = time.monotonic() + 180
        while not (hung := list(self.notes.glob(f"{doomed}-*"))):
            assert time.monotonic() < until, "the doomed node took no shard"
            time.sleep(0.05)
        self.nodes.kill(doomed)
        return len(hung)


def hanging(work: Callable, notes: Path) -> Callable:
    """`work`, a little slower, and without end on a doomed node."""

    def run(*shard: Any) -> Any:
        time.sleep(0.2)
        node = ray.get_runtime_context().get_node_id()
        while (notes / node).exists():
            (notes / f"{node}-{os.getpid()}").touch()
            time.sleep(0.2)
        return work(*shard)

    return run


PHASES = {"embedding", "counting all pairs", "collecting pairs", "measuring all pairs"}


def test_a_campaign_that_loses_a_node_in_every_phase_equals_one_on_one_machine(
    nodes: Nodes, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """120 texts in 6 shards, their 7,140 pairs in 10 blocks. Each phase loses a node that was at work."""
    monkeypatch.setattr(cached, "TEXTS_PER_SHARD", 20)
    monkeypatch.setattr(sharded, "ALIGN", 32)
    monkeypatch.setattr(sharded, "WIDEST", 32)
    task = synthetic_task(tmp_path / "task", sizes={"train": 120, "dev": 120})
    for name in ("alone", "many"):
        begin(tmp_path / name, task, tiny_encoder, rounds=2)
    Campaign(tmp_path / "alone").run()
    notes = tmp_path / "notes"
    notes.mkdir()
    shards = Lossy(nodes, notes, PHASES)
    step = Campaign(tmp_path / "many", shards=shards).run()
    assert step.name == "finished"
    assert shards.lost == dict.fromkeys(PHASES, 1)  # each lost the shard its one core was at
    assert picture(tmp_path / "many") == picture(tmp_path / "alone")
    left = [next((tmp_path / name).glob("artifacts/embeddings/*")) for name in ("alone", "many")]
    assert left[0].name == left[1].name
    assert (left[0] / "rows.npy").read_bytes() == (left[1] / "rows.npy").read_bytes()


def test_shards_of_a_cluster_give_each_result_once_and_errors_as_they_are(nodes: Nodes) -> None:
    shards = RayShards()
    table = shards.share(np.arange(10.0))

    def pick(values: Any, at: int) -> float:
        if at == 99:
            raise InputError("99 is no place", remedy="Ask for less")
        return float(values[at])

    assert shards.workers == 2 and shards.gpus == 0
    assert sorted(shards.map(pick, [(table, at) for at in range(10)])) == [
        (at, float(at)) for at in range(10)
    ]
    with pytest.raises(InputError, match=r"99 is no place\. Ask for less\."):
        list(shards.map(pick, [(table, 1), (table, 99)]))

    def lengths(shared: int, texts: list[str]) -> Any:
        if "bad" in texts:
            raise InputError("a bad text")
        return np.array([[len(text), shared] for text in texts], np.float32)

    pieces = [(7, ["a", "bb"]), (3, ["ccc"])]
    found = dict(shards.map_texts(lengths, 5, pieces))
    assert {number: rows.tolist() for number, rows in found.items()} == {7: [[1, 5], [2, 5]], 3: [[3, 5]]}
    with pytest.raises(PairsieveError, match="a bad text"):
        list(shards.map_texts(lengths, 5, [(0, ["bad"])]))


def test_a_shard_that_kills_every_worker_ends_in_words(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairsieve.distributed.on_ray.RETRIES", 1)
    with pytest.raises(PairsieveError, match="counting: a shard was lost with its worker 2 times"):
        list(RayShards().map(lambda: os._exit(1), [()], "counting"))


def test_experiments_are_mapped_over_campaigns(nodes: Nodes, tiny_encoder: Path, tmp_path: Path) -> None:
    """A grid of two seeds, one campaign a shard; the folders hold what a run here would leave."""
    task = synthetic_task(tmp_path / "task")
    names = [tmp_path / f"{place}-{seed}" for place in ("here", "there") for seed in (1, 2)]
    for folder in names:
        begin(folder, task, tiny_encoder, rounds=1, seed=int(folder.name[-1]))

    def run_one(folder: Path) -> int:
        return len(Campaign(folder).run().name)

    for folder in names[:2]:
        run_one(folder)
    assert len(list(RayShards().map(run_one, [(folder,) for folder in names[2:]], "campaigns"))) == 2
    assert [picture(folder) for folder in names[2:]] == [picture(folder) for folder in names[:2]]
    assert picture(names[0]) != picture(names[1])


def test_run_and_evaluate_on_a_cluster_print_what_they_print_here(
    nodes: Nodes, tiny_encoder: Path, tmp_path: Path
) -> None:
    task = synthetic_task(tmp_path / "task")
    printed = {}
    for name, more in (("alone", []), ("many", ["--distributed", "auto"])):
        begin(tmp_path / name, task, tiny_encoder, rounds=1)
        ran = CliRunner().invoke(all_commands(), ["run", str(tmp_path / name), *more])
        assert ran.exit_code == 0, ran.output
        done = CliRunner().invoke(all_commands(), ["evaluate", str(tmp_path / name), "--json", *more])
        printed[name] = json.loads(done.stdout)
    assert printed["many"] == printed["alone"]
    assert picture(tmp_path / "many") == picture(tmp_path / "alone")


def test_a_million_pairs_on_a_cluster_equal_one_scan(nodes: Nodes) -> None:
    rows = np.random.default_rng(2).normal(size=(1500, 16)).astype(np.float32)
    space = AllPairs(1500)
    whole, parts = open_scan(space, rows, device="cpu"), ShardedScan(RayShards(), space, rows, device="cpu")
    thresholds = np.linspace(-1, 1, 401, dtype=np.float32)
    assert np.array_equal(parts.count_reaching(thresholds), whole.count_reaching(thresholds))
    mine, theirs = parts.neighbours(10), whole.neighbours(10)
    assert np.array_equal(mine[0], theirs[0]) and np.array_equal(mine[1], theirs[1])
    unit = unit_rows(rows)
    alone = index_neighbours(space, unit, unit, 10)
    many = distributed.index_neighbours(RayShards(), space, unit, unit, 10)
    assert np.array_equal(alone[0], many[0]) and np.array_equal(alone[1], many[1])
