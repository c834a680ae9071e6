"""Fixtures that every test may use: tiny random encoders, made tasks, and campaigns finished on them."""

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


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made task of one collection."""
    from made_task import made_task

    return made_task(tmp_path_factory.mktemp("tasks") / "one")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made task of two collections."""
    from made_task import made_task

    return made_task(tmp_path_factory.mktemp("tasks") / "two", two=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, task: Path, tiny_encoder: Path) -> dict[str, Path]:
    """A campaign that nobody disturbed, for each learner."""
    from made_task import LEARNERS, begin
    from pairsieve.campaign import Step

    folder = tmp_path_factory.mktemp("finished")
    for learner in LEARNERS:
        assert begin(folder / learner, task, tiny_encoder, learner=learner).run() == Step("finished", 3)
    return {learner: folder / learner for learner in LEARNERS}
