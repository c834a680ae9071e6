"""The re-ranker: its features, its trees, that it learns, and is left out where it does not help."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from examples import examples
from pairsieve.errors import InputError
from pairsieve.measure.curve import curve_from_scores
from pairsieve.models.folds import cross_fitted_log_odds, fold_of
from pairsieve.pairs import AllPairs, CrossPairs, ScoredPairs, is_member
from pairsieve.reranker import _neighbour_ids, find_candidates, fit
from pairsieve.reranker.features import TextReader, count_pieces, describe
from pairsieve.reranker.fit import out_of_fold_logits
from pairsieve.reranker.saving import load_reranker, save_reranker
from pairsieve.reranker.trees import fit_trees
from pairsieve.scan import open_scan
from pairsieve.scorer import load_scorer
from pairsieve.scorer.reranked import RerankedScan, combined, squash
from pairsieve.settings import Schedule
from synthetic_task import begin, synthetic_task

pytestmark = pytest.mark.xdist_group("reranker")  # one campaign serves the module: made once

LEFT = ["Canon scanner 8800F | silver | 199.00", "Sony radio ICF-38 | 25.00"]
RIGHT = ["canon 8800 f scanner | 235.50", "Sony radio ICF38 | 24.00", "Sony radio SRF 59 | 15.00"]


def described(left, right, ids, scores):
    space = CrossPairs(len(left), len(right))
    pieces = TextReader(count_pieces([left, right])).take_apart(space, left, right)
    return describe(pieces, ids, [np.asarray(scores, float)])


def test_a_pair_is_described_by_its_lead_over_its_competitors():
    """Radio against its own (0.9) and the other radio (0.8): it leads by 0.1, the other trails by 0.1.

    Columns 0 to 2 are the cosine, the lead among the left text's candidates, and among the right text's.
    """
    space = CrossPairs(2, 3)
    ids = space.ids([0, 1, 1], [0, 1, 2])
    columns = described(LEFT, RIGHT, ids, [0.7, 0.9, 0.8])
    assert columns[:, 0].tolist() == pytest.approx([0.7, 0.9, 0.8])
    assert columns[1:, 1].tolist() == pytest.approx([0.1, -0.1])
    assert columns[:, 2].tolist() == pytest.approx([1, 1, 1])  # nobody else is a candidate of those


def test_codes_agree_however_they_are_spaced():
    """Columns 13 on are the codes: "ICF-38" and "ICF38" agree, "SRF 59" does not."""
    space = CrossPairs(2, 3)
    ids = space.ids([1, 1], [1, 2])
    codes = described(LEFT, RIGHT, ids, [0.9, 0.9])[:, 13]
    assert codes[0] > codes[1]


def test_the_last_number_is_compared_and_may_be_missing():
    """199.00 against 235.50 differ by 36.5/235.5; a text without a number gives no figure."""
    space = CrossPairs(2, 2)
    columns = described(LEFT, ["canon | 235.50", "no number here"], space.ids([0, 0], [0, 1]), [0.5, 0.5])
    assert columns[0, -2] == pytest.approx(36.5 / 235.5)
    assert np.isnan(columns[1, -2])


@settings(max_examples=examples(30))
@given(st.lists(st.text("ab1 |", max_size=8), min_size=3, max_size=6))
def test_in_one_collection_the_order_of_a_pair_means_nothing(texts):
    """The same texts in reverse order: every pair is described as before."""
    space = AllPairs(len(texts))
    ids = space.unrank(np.arange(space.size))
    left, right = ids >> 32, ids & 0xFFFFFFFF
    scores = np.cos(left * 1.7 + right * 1.7)
    back = space.ids(len(texts) - 1 - left, len(texts) - 1 - right)
    order = np.argsort(back)
    words = count_pieces([texts])
    one = describe(TextReader(words).take_apart(space, texts, texts), ids, [scores])
    turned = texts[::-1]
    other = describe(TextReader(words).take_apart(space, turned, turned), back[order], [scores[order]])
    assert np.allclose(one[order], other, atol=1e-5, equal_nan=True)


def test_out_of_fold_logits_come_from_trees_that_did_not_see_the_left_text():
    """Labels are noise that only the left text's number gives away: seen trees know it, others cannot."""
    rng = np.random.default_rng(0)
    left = np.repeat(np.arange(60), 5)
    labels = (rng.random(60) < 0.5)[left]
    features = left[:, None].astype(np.float32)
    seen = fit_trees(features, labels, 0).logits(features)
    unseen = out_of_fold_logits(features, labels, left, 0)
    assert ((seen > 0) == labels).mean() > 0.9
    assert ((unseen > 0) == labels).mean() < 0.7


def test_a_column_without_a_value_is_not_missed():
    """No text has a number: the trees learn from the other columns."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, 2)).astype(np.float32)
    features[:, 1] = np.nan
    labels = features[:, 0] > 0
    logits = fit_trees(features, labels, 0).logits(features)
    assert ((logits > 0) == labels).all()


def test_the_trees_are_those_of_scikit_learn():
    """Logits from plain arrays equal the library's own, missing values included."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(3)
    features = rng.normal(size=(300, 6)).astype(np.float32)
    features[rng.random(features.shape) < 0.15] = np.nan
    labels = np.nan_to_num(features[:, 0]) + rng.normal(size=300) > 0
    model = HistGradientBoostingClassifier(
        max_iter=150,
        max_depth=4,
        learning_rate=0.07,
        l2_regularization=1.0,
        min_samples_leaf=3,
        early_stopping=False,
        random_state=7,
    ).fit(features, labels)
    ours = fit_trees(features, labels, 7).logits(features)
    assert ours == pytest.approx(model.decision_function(features), abs=1e-9)


def test_candidates_are_neighbours_from_either_side():
    space = CrossPairs(2, 3)
    one = _neighbour_ids(space, np.array([[0], [-1]]), flipped=False)
    other = _neighbour_ids(space, np.array([[1], [1], [0]]), flipped=True)
    found = np.unique(np.concatenate([one, other]))
    assert found.tolist() == np.sort(space.ids([0, 1, 1, 0], [0, 0, 1, 2])).tolist()


def test_a_pair_is_described_alike_in_every_collection():
    """How rare a word is comes from the collection it was fitted on: other texts beside it change nothing."""
    words = count_pieces([LEFT, RIGHT])
    small, large = CrossPairs(1, 1), CrossPairs(2, 3)
    alone = describe(
        TextReader(words).take_apart(small, LEFT[:1], RIGHT[:1]), small.ids([0], [0]), [np.array([0.5])]
    )
    among = describe(TextReader(words).take_apart(large, LEFT, RIGHT), large.ids([0], [0]), [np.array([0.5])])
    assert np.array_equal(alone, among, equal_nan=True)


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32 - 1), st.booleans(), st.floats(0.5, 60), st.floats(-40, 5))
def test_counts_over_re_ranked_pairs_are_exact(seed, symmetric, weight, bias):
    """Some pairs have scores of their own, all others the bi-encoder's: as brute force over all pairs."""
    rng = np.random.default_rng(seed)
    left, right = (rng.standard_normal((size, 3)).astype(np.float32) for size in (9, 7))
    space = AllPairs(9) if symmetric else CrossPairs(9, 7)
    base = open_scan(space, left, None if symmetric else right)
    every = space.unrank(np.arange(space.size))
    ids = np.sort(rng.choice(every, 12, replace=False))
    log_odds = rng.normal(0, 5, 12)
    scan = RerankedScan(base, weight, bias, ids, log_odds)
    scores = squash(weight * base.scores(every).astype(np.float64) + bias)
    scores[is_member(every, ids)] = squash(combined(weight, bias, base.scores(ids), log_odds))
    assert np.array_equal(scan.scores(every), scores)
    thresholds = np.concatenate([scores, rng.uniform(-1, 1, 5).astype(np.float32), [-1.0, 1.0]])
    thresholds = thresholds.astype(np.float32)
    assert scan.count_reaching(thresholds).tolist() == [(scores >= t).sum() for t in thresholds]
    low, high = np.sort(rng.choice(scores, 2))
    found: list[int] = []
    scan.collect(float(low), float(high), lambda some, values: found.extend(some.tolist()))
    assert sorted(found) == every[(scores >= low) & (scores <= high)].tolist()


def test_a_calibration_never_sees_the_fold_it_scores():
    """Noise scores and 60 labels at 20 %: the average precision of cross-fitted log-odds is the base rate's,
    where heads fitted to the fold they score have 0.2 more."""
    gains, leaks = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        scores, labels = rng.normal(size=60), rng.random(60) < 0.2
        fold = fold_of(np.arange(60), seed, 5)
        if not labels.any():
            continue
        log_odds = cross_fitted_log_odds(scores, labels, fold)
        base = curve_from_scores(scores[labels], scores[~labels]).average_precision()
        gains.append(curve_from_scores(log_odds[labels], log_odds[~labels]).average_precision() - base)
        leaked = np.empty(60)
        for one in range(5):
            out = fold == one
            leaked[out] = cross_fitted_log_odds(scores[out], labels[out], np.zeros(out.sum(), np.int64))
        leaks.append(curve_from_scores(leaked[labels], leaked[~labels]).average_precision() - base)
    assert np.mean(gains) < 0.02
    assert np.mean(leaks) > 0.1


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_encoder):
    root = tmp_path_factory.mktemp("reranker")
    task = synthetic_task(root / "task", two=True, sizes={"train": 200, "dev": 60, "test": 60})
    schedule = Schedule(first_batch=140, growth=1.0, rounds=2)
    settings = {"strategy": "reranker-uncertainty", "seed_set": "stated", "schedule": schedule}
    campaign = begin(root / "campaign", task, tiny_encoder, **settings)
    campaign.run()
    return campaign


def test_the_strategy_asks_where_the_re_ranker_is_in_doubt(trained):
    """Every pair of round 2 lies nearer one half, by the re-ranker after round 1, than any not asked."""
    labels = trained.labels(1)
    scorer = trained.trainer.reranked(labels)
    scored = trained.score(trained.split, 1, scorer)
    log_odds = scorer.log_odds(scored.scan.scores(scored.candidates))
    first, second = (trained.ledger.questions(round).ids for round in (1, 2))
    doubt = ScoredPairs(scored.candidates, np.abs(log_odds).astype(np.float32)).without(np.sort(first))
    asked = np.isin(doubt.ids, second)
    assert asked.sum() == len(second) == 140
    assert doubt.scores[asked].max() <= doubt.scores[~asked].min()


def test_the_better_scorer_is_used_and_the_other_named(trained, monkeypatch):
    """With out-of-fold log-odds of the bi-encoder that no re-ranker can beat, it is left out; with useless
    ones it is used."""
    labels = trained.labels(2)
    for sign, reranked in ((1.0, False), (-1.0, True)):
        perfect = np.where(labels.values, sign, -sign)
        monkeypatch.setattr(type(trained.trainer), "_out_of_fold", lambda *given: (perfect, perfect))  # noqa: B023
        assert (trained.trainer.scorer(labels).reranker is not None) is reranked
        tried = trained.trainer.out_of_fold(labels).average_precision
        assert set(tried) == {"bi-encoder", "re-ranker"}


def test_a_re_ranker_is_written_and_read_without_loss(trained, tmp_path):
    reranker = trained.trainer.reranked(trained.labels(2)).reranker
    save_reranker(tmp_path, reranker)
    again = load_reranker(tmp_path)
    assert again.vocabulary.counts == reranker.vocabulary.counts
    features = np.random.default_rng(0).normal(size=(50, 40)).astype(np.float32)
    assert np.array_equal(again.log_odds(features), reranker.log_odds(features))


@pytest.mark.parametrize(
    ("array", "value", "words"),
    [
        ("column", 10_000, "a column or node that does not exist"),
        ("roots", 10**9, "a column or node that does not exist"),
        ("left", 10**9, "a node that does not exist"),
        ("right", -5, "a node that does not exist"),
        ("left", 0, "stands before it"),
        ("value", np.nan, "infinite or not a number"),
        ("threshold", np.nan, "infinite or not a number"),
        ("baseline", np.inf, "infinite or not a number"),
    ],
)
def test_damaged_trees_are_refused_before_they_are_read(trained, tmp_path, array, value, words):
    """The compiled loop reads wherever it is led, and a circle has no end."""
    save_reranker(tmp_path, trained.trainer.reranked(trained.labels(1)).reranker)
    file = tmp_path / "reranker-trees.safetensors"
    arrays = {name: np.array(values) for name, values in load_file(file).items()}
    arrays[array][0] = value
    save_file(arrays, file)
    with pytest.raises(InputError, match=f"the re-ranker cannot be read.*{words}"):
        load_reranker(tmp_path)


@pytest.mark.parametrize("change", [{"weight": float("nan")}, {"bias": float("inf")}, {"neighbours": 0}])
def test_a_calibration_that_is_no_number_is_refused(trained, tmp_path, change):
    save_reranker(tmp_path, trained.trainer.reranked(trained.labels(1)).reranker)
    file = tmp_path / "reranker.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(InputError, match="are no re-ranker"):
        load_reranker(tmp_path)


@pytest.mark.slow
def test_a_cross_encoder_joins_as_columns_of_its_own(trained, monkeypatch):
    monkeypatch.setattr(fit, "CROSS_FOLDS", 2)
    monkeypatch.setattr("pairsieve.campaign.training.CROSS_EPOCHS", 1)
    labels = trained.labels(2)
    trainer = trained.trainer
    plain = trainer.reranked(labels).reranker
    monkeypatch.setattr(fit, "find_candidates", lambda *args, **also: find_candidates(*args, 2, also["also"]))
    scorer, out_of_fold = trainer._reranked(trainer.bi_encoder(labels), labels, cross=True)
    assert len(scorer.reranker.cross_encoders) == 2 and len(plain.cross_encoders) == 0
    assert scorer.reranker.trees.column.max() > plain.trees.column.max() - 3
    assert len(out_of_fold) == len(labels.ids)


@pytest.mark.slow
def test_distilling_is_kept_only_where_it_ranks_better(trained, tmp_path, monkeypatch):
    """Both sides of the comparison are corrected and calibrated alike; without new pairs they are equal."""
    labels, trainer = trained.labels(2), trained.trainer
    always = trainer.reranked(labels)
    monkeypatch.setattr(type(trainer), "scorer", lambda self, labels: always)
    result = trainer.distil(labels, tmp_path / "distilled")
    assert result["kept"] == (result["after"] > result["before"]) == (tmp_path / "distilled").exists()
    assert result["pairs"] > 0
    if result["kept"]:
        left, right = trained.split.left.texts, trained.split.right.texts
        assert load_scorer(tmp_path / "distilled").scores(left[:5], right[:4]).shape == (5, 4)
    nothing = np.empty(0, np.int64), np.empty(0, bool)
    before, after = trainer._out_of_fold(labels), trainer._out_of_fold(labels, nothing)
    assert np.array_equal(before[1], after[1])
