"""The page of a new campaign shows its first pair, the one that `run` asks first; its time is logged."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from experiments.bench.first_pair import first_pair
from pairsieve.campaign import Campaign
from pairsieve.campaign.selecting import FIRST_FROM
from synthetic_task import begin, synthetic_task

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("texts", [300, FIRST_FROM])
def test_the_first_pair_of_the_page_comes_from_the_batch_that_run_asks(
    texts: int, tiny_encoder: Path, tmp_path: Path
) -> None:
    """A large table's page is ended while texts are embedded, or soon after; the ledger's end is the same."""
    task = synthetic_task(tmp_path / "task", truth=False, stated=False, sizes={"train": texts})
    begin(tmp_path / "page", task, tiny_encoder, measure_splits=()).ledger.close()
    shutil.copytree(tmp_path / "page", tmp_path / "command")
    seconds, pair = first_pair(tmp_path / "page", tmp_path / "cache")
    logging.getLogger(__name__).warning("first pair of %d texts after %.1f s", texts, seconds)
    command, page = Campaign(tmp_path / "command", tmp_path / "other"), Campaign(tmp_path / "page")
    assert command.run().name == "label"  # people owe answers
    asked = page.ledger.questions().ids.tolist()
    assert pair["pair"] == str(asked[0]) and asked == command.ledger.questions().ids.tolist()[: len(asked)]
    assert page.run() == command.step()
    assert command.ledger.digest() == page.ledger.digest()
