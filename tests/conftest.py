"""Fixtures that every test may use: tiny random encoders, synthetic tasks, and campaigns finished on them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from examples import FAST, PROFILE

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a test never asks the network; set before any import
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny networks: threads would only wait for each other

pytest.register_assert_rewrite("browser", "postgres")  # plug-ins that tests import from as well

# The first example of a property may compile kernels; a busy machine is no failure.
settings.register_profile("full", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=FAST)
settings.load_profile(PROFILE)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the groups of `--dist loadgroup`: xdist 3.8 writes them to `_nodeid`, pytest 9.2 reads `_id`."""
    for item in items:
        grouped = getattr(item, "_nodeid", item.nodeid)
        if grouped != item.nodeid:
            from _pytest.nodeid import coerce_node_id

            item._id = coerce_node_id(grouped)


@pytest.fixture(scope="session")
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run have in common."""
    place = tmp_path_factory.getbasetemp()
    return place.parent if "PYTEST_XDIST_WORKER" in os.environ else place


@pytest.fixture(scope="session")
def tiny_encoder(shared_place: Path) -> Path:
    """Folder of a tiny random BERT in the sentence-transformers layout."""
    from pairsieve.files import locked
    from tiny import write_tiny_sentence_transformer

    with locked(shared_place / "tiny-bert.lock"):
        folder = shared_place / "tiny-bert"
        return folder if folder.exists() else write_tiny_sentence_transformer(folder)


@pytest.fixture(scope="session")
def tiny_architectures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tiny random transformers by architecture: bert, roberta, xlnet, albert."""
    from tiny import ARCHITECTURES, write_tiny

    root = tmp_path_factory.mktemp("architectures")
    return {name: write_tiny(name, root / name) for name in ARCHITECTURES}


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic task of one collection."""
    from synthetic_task import synthetic_task

    return synthetic_task(tmp_path_factory.mktemp("tasks") / "one")


@pytest.fixture(scope="session")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic task of two collections."""
    from synthetic_task import synthetic_task

    return synthetic_task(tmp_path_factory.mktemp("tasks") / "two", two=True)


@pytest.fixture(scope="session")
def finished(shared_place: Path, task: Path, tiny_encoder: Path) -> dict[str, Path]:
    """A campaign that nobody disturbed, for each learner; made when it is first asked for, by one worker."""
    from pairsieve.campaign import Campaign, Step
    from pairsieve.files import locked
    from synthetic_task import begin

    class Finished(dict[str, Path]):
        def __missing__(self, learner: str) -> Path:
            folder = shared_place / f"finished-{learner}"
            with locked(shared_place / f"finished-{learner}.lock"):
                made = (
                    Campaign(folder)
                    if folder.exists()
                    else begin(folder, task, tiny_encoder, learner=learner)
                )
                assert made.run() == Step("finished", 3)
            return self.setdefault(learner, folder)

    return Finished()
