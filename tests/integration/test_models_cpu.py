"""Embedding without a GPU: whole batches to a core, the same rows by every back-end, texts tokenised once."""

from __future__ import annotations

import importlib.util
import logging
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore
from pairsieve.errors import InputError, MissingExtra
from pairsieve.models import cpu, encoder_named
from pairsieve.models.cpu import batched, chosen_backend, embed_on_cpu, threads_each
from pairsieve.models.encoder import Encoder, Tokens, pooled
from pairsieve.models.token_cache import KEPT_FROM, TokenCache, texts_sha256

WORDS = ["how", "do", "i", "reset", "the", "password", "of", "my", "card", "river", "glacier", "cave"]


def some_texts(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 30))) for _ in range(count)]


def need_onnx() -> None:
    for package in ("onnxruntime", "onnx"):
        pytest.importorskip(package, reason="the extra pairsieve[onnx] is not installed")


def one_by_one(encoder: Encoder, tokens: Tokens) -> NDArray[np.float32]:
    """The reference: every text by itself, without padding, through the network as it is."""
    import torch

    rows = []
    for first, last in zip(tokens.starts[:-1], tokens.starts[1:]):
        ids = torch.from_numpy(tokens.ids[first:last].astype(np.int64))[None]
        with torch.no_grad():
            rows.append(pooled(encoder.network, ids, torch.ones_like(ids)).numpy())
    return np.concatenate(rows)


def test_a_batch_is_cut_where_padding_to_its_longest_text_would_pass_the_budget() -> None:
    """Lengths 7, 6, 5, 3, 2 with 14 tokens a batch: two of at most 7 tokens, then two of 5, then the last."""
    batches = batched(np.array([3, 7, 2, 6, 5]), 14)
    assert [batch.tolist() for batch in batches] == [[1, 3], [4, 0], [2]]


@given(arrays(np.int64, st.integers(1, 60), elements=st.integers(1, 40)), st.integers(1, 100))
def test_every_text_is_in_one_batch_and_no_batch_of_several_passes_the_budget(
    lengths: NDArray[np.int64], budget: int
) -> None:
    batches = batched(lengths, budget)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert all(len(batch) * lengths[batch].max() <= budget or len(batch) == 1 for batch in batches)
    assert (np.diff(lengths[np.concatenate(batches)]) <= 0).all()


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlnet", "albert"])
def test_batches_give_the_rows_of_texts_embedded_one_by_one(
    architecture: str, tiny_architectures: dict[str, Path]
) -> None:
    encoder = encoder_named(tiny_architectures[architecture], device="cpu")
    tokens = encoder.tokens(some_texts(150))
    assert len(batched(tokens.lengths, cpu.BATCH_TOKENS["torch"])) > 2
    rows = embed_on_cpu(encoder.network, tokens, encoder.pad, "torch")
    assert np.abs(rows - one_by_one(encoder, tokens)).max() < 2e-6


def test_rows_do_not_depend_on_the_number_of_threads_and_the_number_is_put_back(tiny_encoder: Path) -> None:
    import torch

    encoder = encoder_named(tiny_encoder, device="cpu")
    tokens = encoder.tokens(some_texts(300))
    made = []
    for threads in (1, 2, 3):
        with threads_each(threads):
            made.append(embed_on_cpu(encoder.network, tokens, encoder.pad, "torch"))
            assert torch.get_num_threads() == threads
    assert (made[0] == made[1]).all() and (made[0] == made[2]).all()


def test_the_number_of_threads_survives_several_at_once() -> None:
    """A second comes in while the first has set 1, and leaves last; each finds again what it had."""
    import torch

    inside, leave = threading.Event(), threading.Event()
    seen: list[int] = []

    def second() -> None:
        with threads_each(1) as available:
            seen.append(available)
            inside.set()
            leave.wait(10)
        seen.append(torch.get_num_threads())

    with threads_each(3):
        other = threading.Thread(target=second)
        with threads_each(1) as available:
            other.start()
            assert inside.wait(10) and available == 3
        assert torch.get_num_threads() == 3
        leave.set()
        other.join()
        assert seen[0] == seen[1] and torch.get_num_threads() == 3


def test_the_backend_is_chosen_by_what_is_installed_and_by_the_number_of_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(cpu.CHOICE, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert chosen_backend(cpu.WORTH_CONVERTING) == "onnx"
    assert chosen_backend(cpu.WORTH_CONVERTING - 1) == "torch"
    assert chosen_backend(1, "onnx") == "onnx"
    assert chosen_backend(1, packs=True) == chosen_backend(10**9, packs=True) == "packed"
    monkeypatch.setenv(cpu.CHOICE, "torch")
    assert chosen_backend(10**9) == chosen_backend(1, packs=True) == "torch"
    monkeypatch.setenv(cpu.CHOICE, "torhc")
    with pytest.raises(InputError, match=r"PAIRSIEVE_CPU_BACKEND: unknown.*Did you mean 'torch'"):
        chosen_backend(1)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert chosen_backend(10**9, "auto") == "torch"
    with pytest.raises(MissingExtra, match=r"pip install 'pairsieve\[onnx\]'"):
        chosen_backend(1, "onnx")


def off_by(far: float, plain: cpu.Embed) -> cpu.Embed:
    """Rows that lie `far` from the reference's, spread over 32 dimensions."""
    return lambda batch: plain(batch) + np.float32(far / np.sqrt(32))


def failing(batch: NDArray[np.int64]) -> NDArray[np.float32]:
    raise RuntimeError("a width of 7 was wanted")


@pytest.mark.parametrize(("far", "said"), [(1e-5, "differ"), (np.nan, "differ"), (None, "a width of 7")])
def test_a_converted_network_that_is_off_is_not_used(
    far: float | None,
    said: str,
    tiny_encoder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A row may lie 5e-6 from the reference; 1e-5 is too far."""
    encoder = encoder_named(tiny_encoder, device="cpu")
    tokens = encoder.tokens(some_texts(50))
    plain = cpu._plain(encoder.network, tokens, encoder.pad)
    right = embed_on_cpu(encoder.network, tokens, encoder.pad, "torch")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    wrong = failing if far is None else off_by(far, plain)
    monkeypatch.setattr(cpu, "_converted", lambda network, tokens, pad: wrong)
    with caplog.at_level(logging.WARNING, logger="pairsieve"):
        rows = embed_on_cpu(encoder.network, tokens, encoder.pad, "onnx")
    assert said in caplog.text and "using PyTorch" in caplog.text and (rows == right).all()
    monkeypatch.setattr(cpu, "_converted", lambda network, tokens, pad: off_by(1e-6, plain))
    assert 0 < np.abs(embed_on_cpu(encoder.network, tokens, encoder.pad, "onnx") - right).max() < 1e-6


@pytest.mark.parametrize("architecture", ["bert", "xlnet"])
def test_onnx_runtime_gives_the_same_cosines(architecture: str, tiny_architectures: dict[str, Path]) -> None:
    """By the converted network, or by the reference where it does not take the architecture."""
    need_onnx()
    encoder = encoder_named(tiny_architectures[architecture], device="cpu")
    tokens = encoder.tokens(some_texts(200))
    converted = embed_on_cpu(encoder.network, tokens, encoder.pad, "onnx")
    plain = embed_on_cpu(encoder.network, tokens, encoder.pad, "torch")
    assert np.abs(converted @ converted.T - plain @ plain.T).max() < 1e-5
    if architecture == "bert":
        assert (converted != plain).any()  # it did not fall back


def test_onnx_runtime_converts_again_when_weights_change(tiny_encoder: Path) -> None:
    need_onnx()
    import torch

    encoder = encoder_named(tiny_encoder, device="cpu")
    tokens = encoder.tokens(some_texts(50))
    network = encoder.fresh_network()
    before = embed_on_cpu(network, tokens, encoder.pad, "onnx")
    with torch.no_grad():
        next(network.parameters()).mul_(-1.0)
    after = embed_on_cpu(network, tokens, encoder.pad, "onnx")
    assert np.abs(after - before).max() > 0.01
    assert np.abs(after - embed_on_cpu(network, tokens, encoder.pad, "torch")).max() < 5e-6


class Counting:
    """A maker of tokens that counts how often it is asked."""

    def __init__(self, encoder: Encoder, texts: list[str]) -> None:
        self.encoder, self.texts, self.calls = encoder, texts, 0

    def __call__(self) -> Tokens:
        self.calls += 1
        return self.encoder._tokenised(self.texts, "")


def test_a_collection_is_tokenised_once_in_memory_and_on_disk(tiny_encoder: Path, tmp_path: Path) -> None:
    encoder, texts = encoder_named(tiny_encoder), some_texts(KEPT_FROM)
    make = Counting(encoder, texts)
    cache = TokenCache(ArtifactStore(tmp_path))
    first = cache.get("t", texts, "", 128, make)
    assert cache.get("t", list(texts), "", 128, make) is first and make.calls == 1
    again = TokenCache(ArtifactStore(tmp_path)).get("t", texts, "", 128, make)
    assert make.calls == 1 and (again.ids == first.ids).all() and (again.starts == first.starts).all()
    for tokeniser, others, prefix, longest in (
        ("u", texts, "", 128),
        ("t", texts[::-1], "", 128),
        ("t", texts, "query: ", 128),
        ("t", texts, "", 64),
    ):
        before = make.calls
        cache.get(tokeniser, others, prefix, longest, make)
        assert make.calls == before + 1


def test_few_texts_leave_nothing_on_disk(tiny_encoder: Path, tmp_path: Path) -> None:
    encoder = encoder_named(tiny_encoder)
    encoder.token_cache.store = ArtifactStore(tmp_path)
    encoder.tokens(some_texts(KEPT_FROM - 1))
    assert not (tmp_path / "tokens").exists()
    encoder.tokens(some_texts(KEPT_FROM))
    assert len(list((tmp_path / "tokens").iterdir())) == 1


def test_a_fine_tuned_copy_shares_the_tokens(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, texts = encoder_named(tiny_encoder, device="cpu"), some_texts(KEPT_FROM)
    first = encoder.tokens(texts)
    copy = encoder.with_network(encoder.fresh_network())
    assert copy.tokens(texts) is first
    assert encoder.tokens(texts, "right") is first  # no prefix on either side


def test_memory_for_tokens_is_bounded(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairsieve.models.token_cache.MOST_BYTES", 1)
    encoder = encoder_named(tiny_encoder)
    texts = some_texts(KEPT_FROM), some_texts(KEPT_FROM, seed=1)
    first = encoder.tokens(texts[0])
    encoder.tokens(texts[1])  # pushes the first out
    again = encoder.tokens(texts[0])
    assert again is not first and (again.ids == first.ids).all()


def test_lists_that_join_alike_are_told_apart() -> None:
    assert len({texts_sha256(texts) for texts in (["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""])}) == 4
