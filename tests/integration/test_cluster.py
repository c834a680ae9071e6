"""Work cut into shards gives the same as work in one piece, to the bit; nothing here needs Ray."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pairsieve.distributed.local as local
import pairsieve.distributed.scan as sharded
import pairsieve.scan
import pairsieve.scan.cpu
import pairsieve.search.neighbours as indexed
from examples import examples
from experiments.synthetic import synthetic_questions
from pairsieve import distributed
from pairsieve.artifacts import ArtifactStore
from pairsieve.distributed import GpuShards, LocalShards, ShardedScan, open_shards
from pairsieve.distributed.embedding import packed_encoder, unpacked_encoder
from pairsieve.errors import InputError, MissingExtra
from pairsieve.models import cached, cached_embeddings, encoder_named
from pairsieve.models.cached import SHARD
from pairsieve.pairs import AllPairs, CrossPairs
from pairsieve.scan import open_scan, unit_rows
from pairsieve.search import index_neighbours
from scan_check import KINDS, check_scan, collected, synthetic_case

KEY = {"encoder": "tiny", "texts": "made"}


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands of 64 rows, so that a small space has many blocks."""
    monkeypatch.setattr(sharded, "ALIGN", 64)
    monkeypatch.setattr(sharded, "WIDEST", 64)


# ── scans ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("symmetric", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.usefixtures("narrow")
def test_a_sharded_scan_tells_the_truth(symmetric: bool, kind: str) -> None:
    """The kit every device passes, on 200 rows in 4 bands."""
    case = synthetic_case(symmetric, kind, rows=200, columns=150, width=24, seed=1)
    scan = ShardedScan(LocalShards(workers=4), case.space, case.left, case.right, device="cpu")
    complaints = {name: wrong for name, wrong in check_scan(scan, case, double=True) if wrong}
    assert complaints == {}


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
def test_every_answer_equals_that_of_one_scan_to_the_bit(
    symmetric: bool, double: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,300 rows in bands of whole tiles, the last one short; float32 products as well as float64."""
    monkeypatch.setattr(pairsieve.scan, "DOUBLE_BELOW", 5e10 if double else 0)
    monkeypatch.setattr(sharded, "WIDEST", 1024)
    rng = np.random.default_rng(7)
    space = AllPairs(2300) if symmetric else CrossPairs(2300, 1500)
    left, right = (rng.normal(size=(side, 48)).astype(np.float32) for side in space.shape)
    left[5::50] = left[3]  # copies: ties across bands
    whole = open_scan(space, left, right, device="cpu")
    parts = ShardedScan(LocalShards(workers=6), space, left, right, device="cpu")
    assert len(parts._left) == 3
    for low, high in ((0.45, 2.0), (-0.02, -0.0195)):
        mine, theirs = collected(parts, low, high), collected(whole, low, high)
        assert len(mine[0]) > 100
        assert np.array_equal(mine[0], theirs[0]) and np.array_equal(mine[1], theirs[1])
    thresholds = np.unique(whole.scores(space.sample(500, rng)))
    assert np.array_equal(parts.count_reaching(thresholds), whole.count_reaching(thresholds))
    some = rng.permutation(space.sample(3000, rng))
    assert np.array_equal(parts.scores(some), whole.scores(some))
    for rows in (None, np.array([2299, 0, 1024, 1023])):
        mine, theirs = parts.neighbours(15, rows), whole.neighbours(15, rows)
        assert np.array_equal(mine[0], theirs[0]) and np.array_equal(mine[1], theirs[1])


@settings(max_examples=examples(20))
@given(workers=st.integers(1, 40), rows=st.integers(1, 400), symmetric=st.booleans())
def test_the_cut_holds_every_pair_once(workers: int, rows: int, symmetric: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharded, "ALIGN", 32)
        space = AllPairs(rows) if symmetric else CrossPairs(rows, 77)
        ones = [np.ones((side, 2), np.float32) for side in space.shape]
        scan = ShardedScan(LocalShards(workers=workers), space, *ones, device="cpu")
    assert sum(band.count for band in scan._left) == rows
    assert sum(sharded._pairs(*block) for block in scan._blocks()) == space.size


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.usefixtures("narrow")
def test_a_block_with_too_many_pairs_is_halved_until_it_fits(
    symmetric: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 × 64 pairs a block and room for 500: halved three times; every pair still comes once."""
    monkeypatch.setattr(sharded, "MOST_FOUND", 500)
    space = AllPairs(100) if symmetric else CrossPairs(100, 70)
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=(side, 4)) for side in space.shape)
    scan = ShardedScan(LocalShards(), space, left, right, device="cpu")
    pieces: list[int] = []
    scan.collect(-2.0, 2.0, lambda ids, scores: pieces.append(len(ids)))
    assert sum(pieces) == space.size and max(pieces) <= 500
    ids, scores = collected(scan, -2.0, 2.0)
    assert np.array_equal(ids, space.unrank(np.arange(space.size)))
    assert np.array_equal(scores, open_scan(space, left, right, device="cpu").scores(ids))


def test_rows_that_do_not_fit_the_space_are_refused() -> None:
    with pytest.raises(InputError, match=r"embeddings of 3 and 3 texts.*has 4 left and 4 right texts"):
        ShardedScan(LocalShards(), AllPairs(4), np.eye(3, dtype=np.float32))


# ── several GPUs, faked: threads, queue of devices and cut are real, products run on the CPU ────────

THREE = GpuShards(workers=3, gpus=3, devices=("cuda:0", "cuda:1", "cuda:2"))


@pytest.fixture
def faked_gpus(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many shards ran on each "GPU"; a scan on CUDA is one on the CPU, of rows that it scales itself."""
    ran: dict[str, int] = {}

    @contextlib.contextmanager
    def current(device: str) -> Iterator[None]:
        ran[device] = ran.get(device, 0) + 1
        yield

    def cpu_scan(space: Any, left: Any, right: Any, *, double: bool, **told: Any) -> Any:
        assert told["device"] == "cuda"  # the thread's own
        kind = np.float64 if double else np.float32
        mine = unit_rows(left, kind)
        yours = mine if right is left else unit_rows(right, kind)
        return pairsieve.scan.cpu.CpuScan(space, mine, yours, double=double, threads=1)

    monkeypatch.setattr(local, "_current", current)
    monkeypatch.setattr("pairsieve.scan.cuda.CudaScan", cpu_scan)
    return ran


def test_shards_run_on_every_gpu_at_once(faked_gpus: dict[str, int]) -> None:
    """Six shards, each waiting until three are at work: they could never end one after the other."""
    together = threading.Barrier(3, timeout=30)

    def work(number: int) -> int:
        together.wait()
        return number * number

    found = dict(THREE.map(work, [(number,) for number in range(6)], gpu=True))
    assert found == {0: 0, 1: 1, 2: 4, 3: 9, 4: 16, 5: 25}
    assert sorted(faked_gpus) == ["cuda:0", "cuda:1", "cuda:2"]
    assert sum(faked_gpus.values()) == 6
    assert list(THREE.map(lambda: 7, [()])) == [(0, 7)]  # needs no GPU: in this thread
    assert sum(faked_gpus.values()) == 6


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.usefixtures("narrow")
def test_a_scan_on_several_gpus_equals_that_of_one(symmetric: bool, faked_gpus: dict[str, int]) -> None:
    case = synthetic_case(symmetric, KINDS[0], rows=200, columns=150, width=24, seed=2)
    parts = ShardedScan(THREE, case.space, case.left, case.right)  # "auto" finds the GPUs
    assert parts.device == "cuda"
    assert {name: wrong for name, wrong in check_scan(parts, case, double=True) if wrong} == {}
    assert sum(faked_gpus.values()) > 20


def test_what_fails_on_a_gpu_is_told_and_what_has_not_begun_never_does(faked_gpus: dict[str, int]) -> None:
    def work(number: int) -> None:
        raise InputError(f"shard {number}")

    with pytest.raises(InputError, match="shard"):
        list(THREE.map(work, [(number,) for number in range(500)], gpu=True))
    assert sum(faked_gpus.values()) <= 3  # those at work when the first one failed


def test_the_gpus_of_this_machine_are_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = open_shards("gpus")
    assert isinstance(found, GpuShards) and found.gpus == 2 and found.devices == ("cuda:0", "cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=r"`distributed='gpus'`: no GPU here.*Leave `distributed` out"):
        open_shards("gpus")


# ── indexes ─────────────────────────────────────────────────────────────────────────────────────────


def unit_sides(symmetric: bool, rows: int = 700) -> tuple[AllPairs | CrossPairs, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    space = AllPairs(rows) if symmetric else CrossPairs(rows, rows + 200)
    left, right = (unit_rows(rng.normal(size=(side, 16)).astype(np.float32)) for side in space.shape)
    return space, left, left if symmetric else right


@pytest.mark.parametrize("symmetric", [True, False])
def test_one_index_asked_by_shards_is_the_index_itself(
    symmetric: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """700 rows ask in 7 shares; the index travels as bytes."""
    monkeypatch.setattr(indexed, "BATCH", 100)
    space, left, right = unit_sides(symmetric)
    columns, scores = index_neighbours(space, left, right, 10)
    found, theirs = distributed.index_neighbours(LocalShards(workers=4), space, left, right, 10)
    assert np.array_equal(scores, theirs)
    assert np.array_equal(np.sort(columns, axis=1), np.sort(found, axis=1))


@pytest.mark.parametrize("symmetric", [True, False])
def test_several_indexes_find_the_best_of_what_each_finds(
    symmetric: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexes over 250 rows each; one machine and many cut alike, and a text is not its own neighbour."""
    monkeypatch.setattr(indexed, "ROWS_PER_INDEX", 250)
    monkeypatch.setattr(indexed, "BATCH", 100)
    space, left, right = unit_sides(symmetric)
    alone = index_neighbours(space, left, right, 10)
    many = distributed.index_neighbours(LocalShards(workers=4), space, left, right, 10)
    assert np.array_equal(alone[0], many[0]) and np.array_equal(alone[1], many[1])
    truth, _ = open_scan(space, left, right, device="cpu").neighbours(10)
    assert np.mean([np.isin(true, found).mean() for true, found in zip(truth, many[0])]) > 0.9
    assert all(len(set(row)) == 10 for row in many[0].tolist())
    if symmetric:
        assert not (many[0] == np.arange(700)[:, None]).any()
    rows = np.broadcast_to(np.arange(700)[:, None], many[0].shape)
    assert np.allclose(np.einsum("nkd,nkd->nk", left[rows], right[many[0]]), many[1], atol=1e-5)


# ── embeddings ──────────────────────────────────────────────────────────────────────────────────────


class Stopping(LocalShards):
    """Shards of a process that is killed when it has finished two, and remembers which it began."""

    begun: list[int] = []  # noqa: RUF012  (one list for the story)

    def map_texts(self, work, shared, pieces, desc="", gpu=False):  # type: ignore[no-untyped-def]
        for done, (number, texts) in enumerate(pieces):
            if done == 2:
                raise KeyboardInterrupt
            self.begun.append(number)
            yield number, work(shared, list(texts))


def test_a_killed_embedding_goes_on_at_the_shard_it_was_at(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """50 texts in shards of 10: a run that dies after two is finished by three more, and equals one run."""
    monkeypatch.setattr(cached, "TEXTS_PER_SHARD", 10)
    texts = synthetic_questions(50, seed=3).texts
    encoder = encoder_named(tiny_encoder, device="cpu")
    at_once = cached_embeddings(ArtifactStore(tmp_path / "whole"), KEY, encoder, texts, "left")

    store = ArtifactStore(tmp_path / "killed")
    Stopping.begun = []
    with pytest.raises(KeyboardInterrupt):
        distributed.cached_embeddings(Stopping(), store, KEY, encoder, texts, "left")
    assert store.find("embeddings", KEY) is None
    assert len(list((store.folder / SHARD).iterdir())) == 2
    with pytest.raises(KeyboardInterrupt):
        distributed.cached_embeddings(Stopping(), store, KEY, encoder, texts, "left")
    assert Stopping.begun == [0, 1, 2, 3]
    rows = cached_embeddings(store, KEY, encoder, texts, "left")
    assert np.array_equal(rows, at_once)
    assert list((store.folder / SHARD).iterdir()) == []  # the whole stands; its parts are gone


def test_what_a_pass_prepares_is_kept_for_its_parts_and_freed_after(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three parts of 10 texts share one store of prepared things (on a GPU: the packed network)."""
    monkeypatch.setattr(cached, "TEXTS_PER_SHARD", 10)
    encoder = encoder_named(tiny_encoder, device="cpu")
    embed, seen = type(encoder).embed, []

    def watched(self: Any, texts: Any, side: str = "left") -> Any:
        seen.append(id(self.prepared))
        assert self.prepared is not None
        return embed(self, texts, side)

    monkeypatch.setattr(type(encoder), "embed", watched)
    cached_embeddings(ArtifactStore(tmp_path), KEY, encoder, synthetic_questions(30, seed=3).texts, "left")
    assert len(seen) == 3 and len(set(seen)) == 1
    assert encoder.prepared is None


def test_a_torn_shard_is_embedded_again(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "TEXTS_PER_SHARD", 10)
    texts = synthetic_questions(30, seed=3).texts
    encoder, store = encoder_named(tiny_encoder, device="cpu"), ArtifactStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        distributed.cached_embeddings(Stopping(), store, KEY, encoder, texts, "left")
    torn = next((store.folder / SHARD).glob("*/rows.npy"))
    torn.write_bytes(torn.read_bytes()[:-8])
    rows = cached_embeddings(store, KEY, encoder, texts, "left")
    assert np.array_equal(rows, cached_embeddings(ArtifactStore(tmp_path / "b"), KEY, encoder, texts, "left"))


def test_one_shard_is_what_the_encoder_gives_and_copies_are_equal(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = encoder_named(tiny_encoder, device="cpu")
    texts = [*synthetic_questions(20, seed=1).texts, "", "reset my password", ""]
    rows = cached_embeddings(ArtifactStore(tmp_path / "one"), KEY, encoder, texts, "left")
    assert np.array_equal(rows, encoder.embed(texts, "left"))
    monkeypatch.setattr(cached, "TEXTS_PER_SHARD", 7)
    cut = cached_embeddings(ArtifactStore(tmp_path / "cut"), KEY, encoder, [*texts, *texts], "left")
    assert np.array_equal(cut[: len(texts)], cut[len(texts) :])  # a copy in another shard: the same bits
    assert np.abs(cut[: len(texts)] - rows).max() < 1e-5  # other batches: rounding alone
    none = cached_embeddings(ArtifactStore(tmp_path / "none"), KEY, encoder, [], "left")
    assert none.shape == (0, 32)


def test_a_carried_encoder_embeds_as_the_one_it_was(tiny_encoder: Path) -> None:
    """It travels as files, prefixes included, and needs no folder once it is open."""
    encoder = encoder_named(tiny_encoder, 40, "query: ", "passage: ", device="cpu")
    texts = synthetic_questions(30, seed=5).texts
    model = packed_encoder(encoder, "cpu")
    assert {"model.safetensors", "head.json"} <= set(model.files)
    other = unpacked_encoder(model)
    assert other is unpacked_encoder(model) and not other.folder.exists()
    for side in ("left", "right"):
        assert np.array_equal(other.embed(texts, side), encoder.embed(texts, side))
    assert not np.array_equal(encoder.embed(texts, "left"), encoder.embed(texts, "right"))


# ── opening a cluster ───────────────────────────────────────────────────────────────────────────────


def test_a_cluster_that_is_not_there_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_shards(None) is None
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"`distributed` needs the package ray.*pairsieve\[distributed\]"):
        open_shards("local")
    monkeypatch.undo()
    pytest.importorskip("ray")
    with pytest.raises(
        InputError, match=r"`distributed`: no Ray cluster answers at '127.0.0.1:1'.*refused.*ray start"
    ):
        open_shards("127.0.0.1:1")
