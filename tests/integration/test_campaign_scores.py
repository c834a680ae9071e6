"""What a campaign scores by: trained encoder, corrections, exported model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pairsieve import export_model
from pairsieve.campaign import Campaign
from pairsieve.measure.curve import curve_from_scores, measure_exactly
from pairsieve.models.head import fit_head
from pairsieve.pairs import is_member, pair_rows
from synthetic_task import begin, synthetic_task

one_worker = pytest.mark.xdist_group("finished")  # its campaigns take seconds: made once
PLAIN = {"hubness_correction": 0.0, "neighbour_smoothing": 0.0}  # the score is the cosine


@one_worker
@pytest.mark.parametrize("learner", ["projection", pytest.param("full", marks=pytest.mark.slow)])
def test_the_exported_model_gives_the_campaigns_cosines(
    learner: str, finished: dict[str, Path], tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    campaign = Campaign(finished[learner])
    exported = export_model(campaign, tmp_path / "model")
    matcher = campaign.scorer().matcher
    split = campaign.task.splits["test"]
    rows, right = campaign.score(split).corrected.unit
    assert right is None
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    theirs = loaded.encode(list(split.left.texts))
    assert np.abs(theirs @ theirs.T - np.asarray(rows) @ np.asarray(rows).T).max() < 1e-5
    head = json.loads((tmp_path / "model" / "head.json").read_text())
    assert (head["weight"], head["bias"]) == (matcher.weight, matcher.bias)  # over plain cosines
    card = (tmp_path / "model" / "README.md").read_text()
    assert exported.split == "dev" and exported.held_out
    plain = measure_exactly(campaign.score(split, scorer=campaign.scorer().plain()).scan, split.positives)
    every = split.space.unrank(np.arange(split.space.size))
    cosines = (theirs @ theirs.T)[pair_rows(every)]
    match = is_member(every, split.positives)
    by_hand = curve_from_scores(cosines[match], cosines[~match]).average_precision()
    assert plain.curve.average_precision() == pytest.approx(by_hand, abs=1e-3)  # but for ties
    for figure in (exported.average_precision, exported.plain_average_precision):
        assert f"{figure:.4f}" in card and f"{figure:.4f}" in str(exported)


@one_worker
@pytest.mark.parametrize("learner", ["projection", pytest.param("full", marks=pytest.mark.slow)])
def test_a_score_is_the_cosine_after_neighbour_smoothing_and_hubness_correction(
    learner: str, finished: dict[str, Path]
) -> None:
    """By hand from the encoder's rows; the floor of smoothing comes from the training split, in any split."""
    campaign = Campaign(finished[learner])
    last = campaign.latest()
    scorer = campaign.trainer.bi_encoder(campaign.labels(last))

    def cosines_of(rows: np.ndarray) -> np.ndarray:
        found = rows @ rows.T
        np.fill_diagonal(found, -1)
        return found

    floor = None
    for split in (campaign.split, campaign.task.splits["dev"]):
        plain = np.asarray(campaign.score(split, last, scorer).corrected.unit[0], float)
        nearest = cosines_of(plain)
        twin, near = nearest.argmax(axis=1), nearest.max(axis=1)
        floor = np.quantile(near, 0.1) if floor is None else floor
        smooth = plain + np.clip((near - floor) / (1 - floor), 0, 1)[:, None] * plain[twin]
        cosines = cosines_of(smooth / np.linalg.norm(smooth, axis=1, keepdims=True))
        density = cosines.max(axis=1)
        ids = split.space.unrank(np.arange(split.space.size))
        left, right = pair_rows(ids)
        scores = cosines[left, right] / (density[left] * density[right]) ** 0.25
        found = campaign.score(split, last, scorer).scan.scores(ids)
        assert found == pytest.approx(scores, abs=1e-4)
    ids, labels = campaign.ledger.labels(through=last)
    scores = campaign.score(campaign.split, last, scorer).scan.scores(ids)
    assert fit_head(scores, labels) == pytest.approx((scorer.weight, scorer.bias), rel=1e-2)


def test_the_papers_recipe_and_no_corrections_score_by_plain_cosines(
    task: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    for name, settings in (("paper", {"recipe": "paper"}), ("none", PLAIN | {"reranker": "off"})):
        campaign = begin(tmp_path / name, task, tiny_encoder, rounds=1, **settings)
        campaign.run()
        scorer = campaign.scorer(1)
        assert scorer.corrections.none and scorer.reranker is None
        assert scorer.fingerprint == scorer.plain().fingerprint
        rows, _ = campaign.score(campaign.split, 1).corrected.rows
        assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_the_bundled_encoder_from_a_campaign_to_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    place = synthetic_task(tmp_path / "task", sizes={"train": 20, "dev": 20, "test": 20})
    campaign = begin(tmp_path / "c", place, "all-MiniLM-L6-v2", rounds=1, strategy="stratified-all")
    campaign.run()
    export_model(campaign, tmp_path / "model")
    texts = list(campaign.split.left.texts)
    rows, _ = campaign.score(campaign.split, 1).corrected.unit
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(texts)
    assert theirs.shape == (20, 384)
    assert np.abs(theirs @ theirs.T - np.asarray(rows) @ np.asarray(rows).T).max() < 1e-5
