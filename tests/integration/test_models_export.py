"""Export: what leaves the house gives the same cosines in sentence-transformers, and comes back the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pairsieve.errors import InputError
from pairsieve.models import encoder_named, learner_named, load_matcher
from test_models_learners import LEFT, RIGHT, pairs, rng


@pytest.mark.parametrize("prefixes", [("", ""), ("query: ", "query: "), ("query: ", "passage: ")])
@pytest.mark.parametrize("shared", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("learner", ["full", "projection"])
def test_sentence_transformers_gives_the_same_cosines(
    learner: str, shared: bool, prefixes: tuple[str, str], tiny_encoder: Path, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = encoder_named(tiny_encoder, left_prefix=prefixes[0], right_prefix=prefixes[1], device="cpu")
    ids, labels = pairs()
    matcher = learner_named(learner, encoder, shared=shared, epochs=1).fit((LEFT, RIGHT), ids, labels, rng())
    matcher.save(tmp_path)
    ours = matcher.embed(LEFT, "left") @ matcher.embed(RIGHT, "right").T

    one = SentenceTransformer(str(tmp_path if shared else tmp_path / "left"), device="cpu")
    other = one if shared else SentenceTransformer(str(tmp_path / "right"), device="cpu")
    named = [{"prompt_name": side} if any(prefixes) else {} for side in ("left", "right")]
    theirs = one.encode(LEFT, **named[0]) @ other.encode(RIGHT, **named[1]).T
    assert np.abs(theirs - ours).max() < 1e-5
    if prefixes[0] == prefixes[1]:  # then a plain call is right as well
        assert np.abs(one.encode(LEFT) @ other.encode(RIGHT).T - ours).max() < 1e-5

    opened = load_matcher(tmp_path, device="cpu")
    assert (opened.weight, opened.bias) == (matcher.weight, matcher.bias)
    assert np.abs(opened.embed(LEFT, "left") @ opened.embed(RIGHT, "right").T - ours).max() < 1e-6
    assert (opened.embed(LEFT, "left") == opened.embed(LEFT, "right")).all() == (
        shared and prefixes[0] == prefixes[1]
    )
    assert not list(tmp_path.rglob("*.bin")) and not list(tmp_path.rglob("*.pkl"))


def test_the_same_matcher_writes_the_same_bytes(tiny_encoder: Path, tmp_path: Path) -> None:
    encoder = encoder_named(tiny_encoder, device="cpu")
    ids, labels = pairs()
    for name in ("one", "other"):
        learner_named("full", encoder, epochs=1).fit((LEFT, RIGHT), ids, labels, rng()).save(tmp_path / name)
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file())
    assert Path("model.safetensors") in files and Path("head.json") in files and Path("README.md") in files
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes(), file


def test_a_loaded_projection_keeps_the_name_of_its_encoder(tiny_encoder: Path, tmp_path: Path) -> None:
    encoder = encoder_named(tiny_encoder, device="cpu")
    ids, labels = pairs()
    matcher = learner_named("projection", encoder).fit((LEFT, RIGHT), ids, labels, rng())
    matcher.save(tmp_path)
    opened = load_matcher(tmp_path)
    assert opened.rows_key("left") == encoder.fingerprint
    assert opened.fingerprint == matcher.fingerprint


def test_the_card_says_how_a_cosine_becomes_a_probability(tiny_encoder: Path, tmp_path: Path) -> None:
    encoder = encoder_named(tiny_encoder, device="cpu")
    ids, labels = pairs()
    matcher = learner_named("projection", encoder).fit((LEFT, RIGHT), ids, labels, rng())
    matcher.save(tmp_path)
    card = (tmp_path / "README.md").read_text()
    assert "120 labelled pairs, 30 of them matches" in card
    assert f"{matcher.weight:.6g} * cosine" in card
    head = json.loads((tmp_path / "head.json").read_text())
    assert (head["weight"], head["bias"]) == (matcher.weight, matcher.bias)


@pytest.mark.parametrize("content", ['{"weight": 1}', '{"weight": "x", "bias": 0}', "[]", "{"])
def test_a_damaged_head_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "head.json").write_text(content)
    with pytest.raises(InputError, match=r"head\.json"):
        load_matcher(tmp_path)
