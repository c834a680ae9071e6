"""One byte of a file is damaged: the same result, or a refusal in words; never another result.

20 places by default; PAIRSIEVE_DAMAGES=200 for the whole story, of each kind of thing that is kept.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pairsieve
from pairsieve.campaign import Campaign
from pairsieve.errors import PairsieveError
from pairsieve.scorer import load_scorer
from pairsieve.serving.record import FILE, Change, Record
from pairsieve.tasks import save_task, tables_task
from pairsieve.web.predictions import Predictions, write_predictions
from serving_campaign import finished_campaign
from synthetic_task import begin, picture

pytestmark = pytest.mark.slow
DAMAGES = int(os.environ.get("PAIRSIEVE_DAMAGES", "20"))
KINDS = ("ledger.sqlite", "artifacts/*/*/*", "rounds/*.json", "campaign.toml", "../task/**/*")


def damage_and_look(
    whole: Path, kinds: tuple[str, ...], look: Callable[[Path], Any], scratch: Path
) -> tuple[Counter[str], list[str]]:
    """Flip one bit in copies of a folder, each kind of file in turn: outcomes by kind, and where it is
    another result."""
    expected = look(whole)
    dice, outcomes, others = random.Random(18), Counter[str](), list[str]()
    for number in range(DAMAGES):
        folder, kind = shutil.copytree(whole, scratch), kinds[number % len(kinds)]
        files = [path for path in sorted(folder.glob(kind)) if path.is_file() and path.stat().st_size]
        path = dice.choice(files)
        data = bytearray(path.read_bytes())
        place, bit = dice.randrange(len(data)), 1 << dice.randrange(8)
        data[place] ^= bit
        path.write_bytes(bytes(data))
        try:
            outcome = "the same" if look(folder) == expected else "another"
        except PairsieveError as error:
            outcome = "refused"
            assert str(error).strip()
        if outcome == "another":
            others.append(f"{path.relative_to(folder)} byte {place} bit {bit}")
        outcomes[f"{kind}: {outcome}"] += 1
        shutil.rmtree(folder)
    return outcomes, others


def report(what: str, outcomes: Counter[str], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{what}, {DAMAGES} damaged bytes: {dict(sorted(outcomes.items()))}")


def records_task(folder: Path) -> Path:
    """A table with fields of several kinds and two sources, and its truth."""
    dice = random.Random(0)
    words = [
        f"{one}{other}" for one in ("bar", "kel", "mon", "tor", "vin") for other in ("a", "en", "ist", "um")
    ]
    rows, matches = ["key,name,year,price,shop"], ["left,right"]
    for number in range(60):
        name, year = " ".join(dice.sample(words, 3)), 1950 + dice.randrange(60)
        for shop in "ab":
            price = f"{dice.randrange(900) + 100}.{dice.randrange(90) + 10}"
            rows.append(f"{shop}{number},{name} {dice.choice(words)},{year},{price},{shop}")
        matches.append(f"a{number},b{number}")
    for name, lines in (("table", rows), ("matches", matches)):
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    task = tables_task(
        folder / "table.csv", key="key", source="shop", matches=folder / "matches.csv", split="none"
    )
    save_task(task, folder / "task")
    return folder / "task"


def result(folder: Path) -> dict[str, Any]:
    """Run to the end, and everything that comes of it: answers, figures, the scorer and its scores."""
    campaign = Campaign(folder / "campaign")
    campaign.run()
    found = picture(folder / "campaign") | {"scorer": campaign.scorer().fingerprint}
    found["status"] = [(row.round, row.labels) for row in campaign.status().rounds]
    if (folder / "campaign" / "rounds" / "predictions.json").exists():
        write_predictions(campaign)  # as the page does after each run
        found["match_scores"] = Predictions(folder / "campaign").by_pair()
    campaign.ledger.close()
    return found


@pytest.mark.parametrize("kind", ["texts", "records"])
def test_a_damaged_byte_of_a_campaign_never_gives_another_result(
    kind: str, tmp_path: Path, task: Path, tiny_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    if kind == "texts":
        shutil.copytree(task, whole / "task")
        begin(whole / "campaign", whole / "task", tiny_encoder, rounds=2).run()
    else:
        chosen: dict[str, Any] = {"split": "all", "first_batch": 60, "rounds": 2, "measuring_share": None}
        campaign = begin(whole / "campaign", records_task(whole), tiny_encoder, reranker="on", **chosen)
        campaign.run()
        assert write_predictions(campaign) and campaign.scorer().reranker is not None
        campaign.ledger.close()
    with contextlib.closing(sqlite3.connect(whole / "campaign" / "ledger.sqlite")) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else what counts lies in the write-ahead log
    kinds = tuple(each.removeprefix("../") if "task" in each else f"campaign/{each}" for each in KINDS)
    outcomes, others = damage_and_look(whole, kinds, result, tmp_path / "damaged")
    report(kind, outcomes, capsys)
    assert not others, others


def test_a_damaged_byte_of_an_export_never_gives_another_score(
    tmp_path: Path, tiny_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairsieve.export_model(finished_campaign(tmp_path, tiny_encoder), tmp_path / "exported")
    texts = ["what is a bank", "how can i find a bank", "where is it"]
    outcomes, others = damage_and_look(
        tmp_path / "exported",
        ("**/*",),
        lambda folder: np.nan_to_num(load_scorer(folder).scores(texts)).tolist(),
        tmp_path / "damaged",
    )
    report("export", outcomes, capsys)
    assert not others, others


def test_a_damaged_byte_of_added_texts_never_gives_another_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    record = Record(tmp_path / "state")
    for number, row in enumerate(rows):
        source = "shop" if number % 2 else None
        record.write([Change(f"key-{number}", f"text {number} " * 20, row, "model", source=source)])
    record.write([Change("key-3", None), Change("key-4", "another text", rows[0], "model")])
    record.close()

    def look(folder: Path) -> list[Any]:
        with contextlib.closing(Record(folder)) as opened:
            return [
                (c.key, c.text, c.row if c.row is None else c.row.tobytes(), c.source) for c in opened.read()
            ]

    outcomes, others = damage_and_look(tmp_path / "state", (FILE,), look, tmp_path / "damaged")
    report("added texts", outcomes, capsys)
    assert not others, others
