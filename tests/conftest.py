"""Fixtures that every test may use: tiny random encoders, written once per session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a test never asks the network; set before any import
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny networks: threads would only wait for each other


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny random BERT in the sentence-transformers layout."""
    from tiny import write_tiny_sentence_transformer

    return write_tiny_sentence_transformer(tmp_path_factory.mktemp("encoders") / "tiny-bert")


@pytest.fixture(scope="session")
def tiny_architectures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tiny random transformers by architecture: bert, roberta, xlnet, albert."""
    from tiny import ARCHITECTURES, write_tiny

    root = tmp_path_factory.mktemp("architectures")
    return {name: write_tiny(name, root / name) for name in ARCHITECTURES}
