"""Figures of rounds and audits come back from their files as they were written, to the last digit."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from pairsieve.audit.estimate import AuditResult, Limits, OverAll, Stratum
from pairsieve.campaign.figures import AuditFigures, read_checksummed, write_checksummed
from pairsieve.contracts import Estimate
from pairsieve.measure.curve import BestF1
from pairsieve.measure.figures import (
    BalancedFigures,
    Basis,
    Batch,
    F1Figure,
    Head,
    RankMeasures,
    RoundFigures,
    Searched,
    SplitFigures,
    TriggerMeasures,
)

THIRD = 1.0 / 3.0
ESTIMATE, LIMITS = Estimate(THIRD, 0.1, 0.7, 40, "drawn"), Limits(0.0, THIRD)
AUDIT = AuditResult(
    pairs=7140,
    labels=60,
    unsure=1,
    threshold=0.5,
    reach_pairs=1200,
    reach_score=-1.0,
    precision=ESTIMATE,
    precision_of_new=LIMITS,
    positives=LIMITS,
    left=ESTIMATE,
    recall=None,
    average_precision=LIMITS,
    over_all=OverAll(LIMITS, LIMITS, None, LIMITS),
    recall_of_known=None,
    strata=(Stratum(THIRD, 40, 3, 2, 20, 7, 1.25), Stratum(-1.0, 7100, 0, 0, 40, 0, 0.0)),
    method="drawn",
)
ON_DEV = SplitFigures(
    pairs=1770,
    positives=12,
    method="exact",
    average_precision=Estimate.exact(THIRD, 1770),
    precision_at_recall={0.1: Estimate.exact(1.0, 1770), 0.2: ESTIMATE},
    best_f1=F1Figure(0.75, THIRD, 0.6, 1.0),
    balanced=BalancedFigures(
        *(24, 12, 0.9, BestF1(0.8, THIRD, 0.7, 0.9), 0.85),
        answer_triggering=TriggerMeasures(0.5, 0.6, 0.55, 10, 11, 12),
        by_question=RankMeasures(0.4, 0.5, 9),
    ),
    held_out=False,
)
ROUND = RoundFigures(
    round=2,
    labels=50,
    positives=16,
    batch=Batch(30, 10),
    measures={"dev": ON_DEV, "test": replace(ON_DEV, balanced=None, held_out=True)},
    head=Head(166.2, -167.1),
    threshold=0.875,
    scorer="1c1c",
    reranked=True,
    search=Searched("ivf, 20 neighbours a row", ESTIMATE),
    basis=Basis("9e77", None),
    seconds={"embed": 0.0, "train": 1.25},
    measuring=True,
    estimated=AUDIT,
)


@pytest.mark.parametrize(
    "figures",
    [
        ROUND,
        replace(ROUND, estimated=None),
        replace(ROUND, estimated=None, measuring=False, search=None, measures={}),
        replace(ROUND, search=Searched("re-ranker over 40 candidates", None)),
    ],
)
def test_a_round_is_read_as_it_was_written(tmp_path: Path, figures: RoundFigures) -> None:
    write_checksummed(tmp_path / "round.json", figures.as_json())
    assert read_checksummed(tmp_path / "round.json", RoundFigures.of) == figures


def test_an_audit_is_read_as_it_was_written(tmp_path: Path) -> None:
    figures = AuditFigures(Path("mine"), "train", 2, 0, AUDIT)
    write_checksummed(tmp_path / "audit.json", figures.as_json())
    assert read_checksummed(tmp_path / "audit.json", AuditFigures.of) == figures


def test_the_first_split_is_what_a_round_says_first() -> None:
    row = ROUND.as_json()
    assert row["average_precision"] == row["measures"]["dev"]["average_precision"]
    assert row["precision_at_recall"]["0.2"]["value"] == THIRD and row["best_f1"]["value"] == 0.75
    assert row["measures"]["dev"]["held_out"] is False and "balanced" not in row["measures"]["test"]
    assert "average_precision" not in replace(ROUND, measures={}).as_json()
    assert "estimated" not in replace(ROUND, estimated=None, measuring=False).as_json()
    assert "measuring" not in row and json.dumps(row, allow_nan=False)


@pytest.mark.parametrize("lost", ["basis", "head", "batch"])
def test_a_row_that_is_no_round_is_not_used(
    tmp_path: Path, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    row = {name: each for name, each in ROUND.as_json().items() if name != lost}
    write_checksummed(tmp_path / "round.json", row)
    with caplog.at_level(logging.WARNING, "pairsieve"):
        assert read_checksummed(tmp_path / "round.json", RoundFigures.of) is None
    assert "incomplete or altered" in caplog.text
