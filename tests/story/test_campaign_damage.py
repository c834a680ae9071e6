"""One byte of a campaign's files is damaged: the same result, or a refusal in words; never another result.

20 places by default; PAIRSIEVE_DAMAGES=200 for the whole story.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pairsieve.campaign import Campaign
from pairsieve.errors import PairsieveError
from synthetic_task import begin, picture

pytestmark = pytest.mark.slow
DAMAGES = int(os.environ.get("PAIRSIEVE_DAMAGES", "20"))
KINDS = ("ledger.sqlite", "artifacts/*/*/*", "rounds/*.json", "campaign.toml", "../task/**/*")


def result(folder: Path) -> dict[str, Any]:
    """Run to the end, and everything that comes of it: answers, figures, the scorer and its scores."""
    campaign = Campaign(folder)
    campaign.run()
    found = picture(folder) | {"scorer": campaign.scorer().fingerprint}
    found["status"] = [(row["round"], row["labels"]) for row in campaign.status()["rounds"]]
    campaign.ledger.close()
    return found


def test_a_damaged_byte_never_gives_another_result(
    tmp_path: Path, task: Path, tiny_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(task, whole / "task")
    begin(whole / "campaign", whole / "task", tiny_encoder, rounds=2).run()
    expected = result(whole / "campaign")
    with contextlib.closing(sqlite3.connect(whole / "campaign" / "ledger.sqlite")) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else what counts lies in the write-ahead log
    dice, outcomes, others = random.Random(18), Counter[str](), list[str]()
    for number in range(DAMAGES):
        folder = shutil.copytree(whole, tmp_path / "damaged")
        campaign, kind = folder / "campaign", KINDS[number % len(KINDS)]
        files = [path for path in sorted(campaign.glob(kind)) if path.is_file() and path.stat().st_size]
        path = dice.choice(files)
        data = bytearray(path.read_bytes())
        place, bit = dice.randrange(len(data)), 1 << dice.randrange(8)
        data[place] ^= bit
        path.write_bytes(bytes(data))
        try:
            outcome = "the same" if result(campaign) == expected else "another"
        except PairsieveError as error:
            outcome = "refused"
            assert str(error).strip()
        if outcome == "another":
            others.append(f"{path.relative_to(folder)} byte {place} bit {bit}")
        outcomes[f"{kind}: {outcome}"] += 1
        shutil.rmtree(folder)
    with capsys.disabled():
        print(f"\n{DAMAGES} damaged bytes: {dict(sorted(outcomes.items()))}")
    assert not others, others
