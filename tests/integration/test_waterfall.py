"""The parts of a pair's log-odds add up to it, for candidates and others, with fields and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pairsieve.campaign import Campaign
from pairsieve.explain import explain
from pairsieve.pairs import is_member
from pairsieve.reranker.features import feature_count
from pairsieve.reranker.trees import fit_trees
from pairsieve.scorer.waterfall import START, column_owners, describe_pair, tree_gains, waterfalls
from pairsieve.settings import Schedule
from synthetic_task import begin, synthetic_task
from web_campaign import finished_records


def few_candidates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("pairsieve.reranker.fit.FEWEST_CANDIDATES", 0)
    patch.setattr("pairsieve.reranker.fit.CANDIDATES_A_TEXT", 6)


def check(campaign: Campaign) -> None:
    split = campaign.split
    scored = campaign.score(split)
    rng = np.random.default_rng(0)
    ids = split.space.sample(60, rng)
    if len(scored.candidates):
        ids = np.unique(np.concatenate([ids, scored.candidates[:: max(1, len(scored.candidates) // 40)]]))
        assert 0 < is_member(ids, scored.candidates).sum() < len(ids)
    found = waterfalls(scored, split, ids)
    log_odds = scored.scorer.log_odds(scored.scan.scores(ids))
    sums = [sum(step.log_odds for step in steps) for steps in found]
    assert sums == pytest.approx(log_odds.tolist(), abs=2e-3)
    assert all(steps[0].name == START for steps in found)


@pytest.mark.parametrize("two", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_parts_add_up_to_the_log_odds(two: bool, tmp_path: Path, tiny_encoder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few_candidates(patch)
        task = synthetic_task(tmp_path / "task", two=two)
        options: dict[str, Any] = {"schedule": Schedule(first_batch=140, rounds=1), "measure_splits": ()}
        options |= {"strategy": "stated", "reranker": "on"}
        campaign = begin(tmp_path / "campaign", task, tiny_encoder, **options)
        campaign.run()
        assert campaign.scorer().reranker is not None
        check(campaign)


def test_each_field_has_its_part(tmp_path: Path, tiny_encoder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few_candidates(patch)
        campaign = finished_records(tmp_path, tiny_encoder, size=60, labels=200, rounds=2, reranker="on")
        reranker = campaign.scorer().reranker
        assert reranker is not None
        check(campaign)
        scored, split = campaign.score(campaign.split), campaign.split
        pair = int(scored.candidates[3])
        keys = [side.keys[row] for side, row in ((split.left, pair >> 32), (split.right, pair & 0xFFFF_FFFF))]
        told = explain(campaign, *keys, count_all=False)
        assert {step.name for step in told.waterfall if step.field} == {"name", "rooms", "town"}
        assert "What made the log-odds:" in str(told) and "together" in str(told)
        # A field's column that changes, changes the field's part and no other.
        row = describe_pair(reranker, scored, split, pair)[0]
        owners = column_owners(2, reranker.vocabulary.layout)
        assert len(owners) == len(row) == feature_count(2, reranker.vocabulary.layout)
        columns = [at for at, (name, is_field) in enumerate(owners) if is_field and name == "rooms"]
        changed = row.copy()
        changed[columns] = 0.0
        before, after = (reranker.linear.weights * each for each in (row, changed))
        assert np.flatnonzero(before != after).tolist() == [c for c in columns if before[c] != 0]


def test_gains_of_trees_are_those_of_their_paths() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(200, 3)).astype(np.float32)
    trees = fit_trees(features, features[:, 1] > 0, 0, count=20)
    start, gains = tree_gains(trees, features[0])
    assert start + gains.sum() == pytest.approx(float(trees.logits(features[:1])[0]))
    assert np.abs(gains).argmax() == 1, "the column that decides"
    alone = np.where(np.arange(3) == 1, features[0], 0).astype(np.float32)
    assert np.sign(tree_gains(trees, alone)[1][1]) == np.sign(features[0, 1])
