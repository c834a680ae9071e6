"""The packed forward pass on the CPU: the network's own rows in float32, close ones in bfloat16."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pairsieve as ps
from pairsieve.campaign import Campaign
from pairsieve.errors import InputError, SettingsError
from pairsieve.models import CosineMatcher, cpu, encoder_named, load_matcher, packed_cpu, precision
from pairsieve.models.cpu import embed_on_cpu
from pairsieve.models.encoder import Encoder
from pairsieve.models.packed_cpu import PackedCpuNetwork, can_pack
from pairsieve.models.precision import chosen_precision
from pairsieve.settings import CAMPAIGN_FILE, load_settings
from tiny import write_tiny

WORDS = ["how", "do", "i", "reset", "the", "password", "of", "my", "card", "river", "glacier", "cave"]


def some_texts(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 30))) for _ in range(count)]


def packable(folder: Path, precision: str = "float32") -> Encoder:
    encoder = encoder_named(folder, device="cpu", precision=precision)
    if not can_pack(encoder.network):
        pytest.skip("this PyTorch has no oneDNN")
    return encoder


@pytest.mark.parametrize("architecture", ["bert", "roberta", "mpnet"])
def test_packed_rows_are_those_of_the_networks_own_forward_pass(
    architecture: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = packable(write_tiny(architecture, tmp_path / architecture))
    tokens = encoder.tokens([*some_texts(150), ""])
    packed = embed_on_cpu(encoder.network, tokens, encoder.pad, "packed")
    plain = embed_on_cpu(encoder.network, tokens, encoder.pad, "torch")
    assert not caplog.text and (packed != plain).any()  # it did not fall back
    assert np.abs(packed - plain).max() < 2e-6


def test_a_packed_network_that_is_off_is_not_used(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = packable(tiny_encoder)
    tokens = encoder.tokens(some_texts(50))
    plain = embed_on_cpu(encoder.network, tokens, encoder.pad, "torch")
    monkeypatch.setattr(packed_cpu, "_rounded", lambda count: count - 1)  # the last token is lost
    rows = embed_on_cpu(encoder.network, tokens, encoder.pad)
    assert "using PyTorch" in caplog.text and (rows == plain).all()
    assert (embed_on_cpu(encoder.network, tokens, encoder.pad) == plain).all()  # nor is it asked again
    assert caplog.text.count("using PyTorch") == 1


@pytest.mark.parametrize("architecture", ["xlnet", "albert"])
def test_other_networks_are_left_to_pytorch_and_refused_in_bfloat16(
    architecture: str, tiny_architectures: dict[str, Path]
) -> None:
    encoder = encoder_named(tiny_architectures[architecture], device="cpu", precision="bfloat16")
    assert not can_pack(encoder.network)
    with pytest.raises(InputError, match=r"no embedding in bfloat16.*float32"):
        encoder.embed(["a text"])
    plain = dataclasses.replace(encoder, precision="float32")
    tokens = plain.tokens(some_texts(20))
    rows = embed_on_cpu(plain.network, tokens, plain.pad, "torch")
    assert (embed_on_cpu(plain.network, tokens, plain.pad, "auto") == rows).all()


def test_weights_that_changed_are_seen(tiny_encoder: Path) -> None:
    import torch

    encoder = packable(tiny_encoder)
    tokens, network = encoder.tokens(some_texts(30)), encoder.fresh_network()
    before = embed_on_cpu(network, tokens, encoder.pad, "packed")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.sin(torch.arange(parameter.numel())).view(parameter.shape) * 0.1)
    after = embed_on_cpu(network, tokens, encoder.pad, "packed")
    assert np.abs(after - before).max() > 0.01
    assert np.abs(after - embed_on_cpu(network, tokens, encoder.pad, "torch")).max() < 2e-6


def test_bfloat16_gives_close_rows_that_do_not_depend_on_threads(tiny_encoder: Path) -> None:
    encoder, texts = packable(tiny_encoder, "bfloat16"), some_texts(200)
    made = []
    for threads in (1, 2):
        with cpu.threads_each(threads):
            made.append(encoder.embed(texts))
    assert (made[0] == made[1]).all()
    exact = packable(tiny_encoder).embed(texts)
    off = np.linalg.norm(made[0] - exact, axis=1)
    assert off.mean() > 1e-6 and off.max() < 0.05
    assert np.allclose(np.linalg.norm(made[0], axis=1), 1, atol=1e-6)


def test_a_text_has_one_row_whatever_it_is_embedded_with(tiny_encoder: Path) -> None:
    """To the bit in a collection, where a repeated text is embedded once; to 0.01 across collections."""
    encoder, texts = packable(tiny_encoder, "bfloat16"), some_texts(60)
    twice = encoder.embed([*texts, *texts])
    assert (twice[:60] == twice[60:]).all()
    assert np.abs(np.concatenate([encoder.embed([text]) for text in texts]) - twice[:60]).max() < 0.01


def test_bfloat16_is_named_by_the_fingerprint_kept_by_a_saved_matcher_and_left_by_training(
    tiny_encoder: Path, tmp_path: Path
) -> None:
    exact, half = packable(tiny_encoder), packable(tiny_encoder, "bfloat16")
    assert exact.fingerprint != half.fingerprint
    CosineMatcher(half, half).save(tmp_path / "half")
    CosineMatcher(exact, exact).save(tmp_path / "exact")
    again = load_matcher(tmp_path / "half", "cpu").encoder_for("left")
    assert again.precision == "bfloat16" and (again.embed(WORDS) == half.embed(WORDS)).all()
    assert load_matcher(tmp_path / "exact").encoder_for("left").precision == "float32"
    assert half.with_network(half.fresh_network()).precision == "float32"


def test_without_the_instruction_bfloat16_is_the_same_rounding_in_float32_products(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign goes on on an older machine: its rows are nearer to bfloat16's than float32's are."""
    encoder = packable(tiny_encoder)
    tokens = encoder.tokens(some_texts(64))
    tokens = tokens.take(np.argsort(-tokens.lengths, kind="stable"))
    exact, rows = PackedCpuNetwork(encoder.network).rows(tokens), []
    for has_it in (True, False):
        monkeypatch.setattr(packed_cpu, "has_bfloat16", lambda has_it=has_it: has_it)
        network = PackedCpuNetwork(encoder.network, "bfloat16")
        assert network.product == (torch.bfloat16 if has_it else torch.float32)
        rows.append(network.rows(tokens))
    half, older = rows
    assert np.abs(older - half).mean() < 0.5 * np.abs(exact - half).mean()
    assert np.abs(older @ older.T - half @ half.T).max() < 0.01


@pytest.mark.parametrize(
    ("has_it", "farthest", "chosen"),
    [(True, 0.01, "bfloat16"), (False, 0.01, "float32"), (True, 0.0, "float32")],
)
def test_bfloat16_is_chosen_where_the_processor_has_it_and_the_cosines_are_the_same(
    has_it: bool, farthest: float, chosen: str, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, texts = packable(tiny_encoder), some_texts(precision.PAYS_FROM)
    monkeypatch.setattr(precision, "has_bfloat16", lambda: has_it)
    monkeypatch.setattr(precision, "FARTHEST_COSINE", farthest)
    assert chosen_precision(encoder, texts) == chosen
    assert chosen_precision(encoder, texts[1:]) == "float32"  # too few to be worth it


@pytest.mark.parametrize(
    ("flags", "has_it"),
    [
        ("flags : fpu avx2 avx512_bf16 avx512_vnni", True),
        ("Features : fp asimd bf16 i8mm", True),
        ("flags : fpu avx2 avx512bw", False),
    ],
)
def test_the_processor_says_what_it_has(
    flags: str, has_it: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor : 0\n{flags}\n")
    monkeypatch.setattr(precision, "Path", lambda _: tmp_path / "cpuinfo")
    assert precision.has_bfloat16() == has_it


def test_what_auto_took_is_in_the_campaigns_file_and_stays(
    tiny_encoder: Path, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packable(tiny_encoder)
    monkeypatch.setattr(precision, "PAYS_FROM", 10)
    monkeypatch.setattr(precision, "has_bfloat16", lambda: True)
    options: Any = {"labels": 20, "rounds": 2, "encoder": str(tiny_encoder), "device": "cpu"}
    campaign = ps.create_campaign(tmp_path / "auto", task, **options)
    assert load_settings(tmp_path / "auto" / CAMPAIGN_FILE).precision == "bfloat16"
    monkeypatch.setattr(precision, "has_bfloat16", lambda: False)  # another machine
    campaign.run()
    again = Campaign(tmp_path / "auto")
    assert again.trainer.learner.encoder.precision == "bfloat16" and len(again.ledger.rounds()) == 2
    slow = ps.create_campaign(tmp_path / "slow", task, precision="auto", **options)
    assert slow.settings.precision == "float32"
    for name, settings in {"paper": {"recipe": "paper"}, "full": {"learner": "full"}}.items():
        trained = ps.create_campaign(tmp_path / name, task, **options, **settings)
        assert trained.settings.precision == "float32"  # whole encoders are trained and embed in float32
    with pytest.raises(SettingsError, match=r"`precision='bfloat'`.*Did you mean 'bfloat16'"):
        ps.create_campaign(tmp_path / "wrong", task, precision="bfloat", **options)
