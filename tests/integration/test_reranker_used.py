"""Whether a campaign uses its re-ranker: by its labels, by dev, as a cross-encoder, distilled."""

from dataclasses import replace

import numpy as np
import pytest

from pairsieve.campaign.training import Trainer
from pairsieve.reranker import fit
from pairsieve.reranker.features import feature_count
from pairsieve.scorer import load_scorer
from pairsieve.settings import Schedule
from synthetic_task import begin, synthetic_task

pytestmark = pytest.mark.xdist_group("reranker")  # one campaign serves the module: made once


# ── in a campaign ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_encoder):
    root = tmp_path_factory.mktemp("reranker")
    task = synthetic_task(root / "task", two=True, sizes={"train": 200, "dev": 60, "test": 60})
    schedule = Schedule(first_batch=110, growth=1.0, rounds=2)
    settings = {"strategy": "stated", "seed_set": "stated", "reranker": "on", "schedule": schedule}
    campaign = begin(root / "campaign", task, tiny_encoder, **settings)
    campaign.run()
    return campaign


def test_a_re_ranker_is_used_where_it_helps_and_both_are_named(trained, monkeypatch):
    labels = trained.labels(2)
    known = trained.trainer._reranked(trained.trainer.bi_encoder(labels), labels, False)
    for setting, helps, used in (("auto", False, False), ("auto", True, True), ("on", False, True)):
        changed = replace(trained.trainer.settings, reranker=setting)
        trainer = replace(trained.trainer, settings=changed)  # one that remembers no scorer
        monkeypatch.setattr(type(trainer), "_reranked", lambda *given: (*known[:2], helps))  # noqa: B023
        assert (trainer.scorer(labels).reranker is not None) is used
        assert set(trainer.out_of_fold(labels).average_precision) == {"bi-encoder", "re-ranker"}


@pytest.mark.parametrize("best_by", ["bi-encoder", "re-ranker"])
def test_dev_decides_where_its_truth_is_known(trained, monkeypatch, best_by):
    """Dev's matches are the 30 pairs that one of the two ranks best."""
    labels, dev = trained.labels(2), trained.task.splits["dev"]
    known = trained.trainer._reranked(alone := trained.trainer.bi_encoder(labels), labels, False)
    monkeypatch.setattr(Trainer, "_reranked", lambda *given: (*known[:2], True))
    scorer = alone if best_by == "bi-encoder" else known[0]
    scored = trained.trainer.scores.score(scorer, dev, trained.trainer.model_key(labels))
    every = dev.space.ids(*np.divmod(np.arange(dev.space.size), dev.space.shape[1]))
    best = np.sort(every[np.argsort(-scored.scan.scores(every), kind="stable")[:30]])
    auto = replace(trained.trainer.settings, reranker="auto")
    trainer = replace(
        trained.trainer, settings=auto, dev=replace(dev, positives=best, stated_negatives=best[:0])
    )
    tried = trainer.tried(labels).dev
    assert tried[best_by] == pytest.approx(1.0) and min(tried.values()) < 0.99
    assert (trainer.scorer(labels).reranker is not None) is (best_by == "re-ranker")
    assert replace(trainer, dev=None).scorer(labels).reranker is not None


@pytest.mark.slow
def test_a_cross_encoder_joins_as_columns_of_its_own(trained, monkeypatch):
    monkeypatch.setattr(fit, "CROSS_FOLDS", 2)
    monkeypatch.setattr(fit, "FEWEST_CANDIDATES", 0)
    monkeypatch.setattr(fit, "CANDIDATES_A_TEXT", 2)
    monkeypatch.setattr("pairsieve.campaign.training.CROSS_EPOCHS", 1)
    labels, trainer = trained.labels(2), trained.trainer
    plain = trainer.scorer(labels).reranker
    scorer, out_of_fold, _ = trainer._reranked(trainer.bi_encoder(labels), labels, cross=True)
    assert len(scorer.reranker.cross_encoders) == 2 and len(plain.cross_encoders) == 0
    assert len(scorer.reranker.linear.weights) == len(plain.linear.weights) + 3 == feature_count(3)
    assert len(out_of_fold) == len(labels.ids)


@pytest.mark.slow
def test_distilling_is_kept_only_where_it_ranks_better(trained, tmp_path, monkeypatch):
    """Both sides of the comparison are corrected and calibrated alike; without new pairs they are equal."""
    labels, trainer = trained.labels(2), trained.trainer
    always = trainer.scorer(labels)
    monkeypatch.setattr(type(trainer), "scorer", lambda self, labels: always)
    result = trainer.distil(labels, tmp_path / "distilled")
    assert result.kept == (result.after > result.before) == (tmp_path / "distilled").exists()
    assert result.pairs > 0
    if result.kept:
        left, right = trained.split.left.texts, trained.split.right.texts
        assert load_scorer(tmp_path / "distilled").scores(left[:5], right[:4]).shape == (5, 4)
    nothing = np.empty(0, np.int64), np.empty(0, bool)
    before, after = trainer._out_of_fold(labels), trainer._out_of_fold(labels, nothing)
    assert np.array_equal(before.log_odds, after.log_odds)
