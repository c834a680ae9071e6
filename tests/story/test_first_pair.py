"""The page of a new campaign shows its first pair, the one that `run` asks first; its time is logged."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from experiments.bench.first_pair import first_pair
from pairsieve.campaign import Campaign
from synthetic_task import begin, synthetic_task

pytestmark = pytest.mark.slow


def test_the_first_pair_of_the_page_comes_from_the_batch_that_run_asks(
    tiny_encoder: Path, tmp_path: Path
) -> None:
    task = synthetic_task(tmp_path / "task", truth=False, stated=False, sizes={"train": 300})
    begin(tmp_path / "page", task, tiny_encoder, measure_splits=()).ledger.close()
    shutil.copytree(tmp_path / "page", tmp_path / "command")
    seconds, pair = first_pair(tmp_path / "page", tmp_path / "cache")
    logging.getLogger(__name__).warning("first pair of 300 texts after %.1f s", seconds)
    command, page = Campaign(tmp_path / "command", tmp_path / "other"), Campaign(tmp_path / "page")
    assert command.run().name == "label"  # people owe answers
    assert pair["pair"] and command.ledger.digest() == page.ledger.digest()
