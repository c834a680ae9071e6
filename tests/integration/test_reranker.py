"""The re-ranker: its features, candidates and models, what it learns, and how it is kept on disk."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from examples import examples
from experiments.synthetic import synthetic_questions
from pairsieve.errors import InputError
from pairsieve.measure.curve import curve_from_scores
from pairsieve.models.head import cross_fitted_log_odds, fold_of
from pairsieve.pairs import AllPairs, CrossPairs, is_member, pair_rows
from pairsieve.reranker import Cuts, candidate_scans, fit, read_texts, rerank
from pairsieve.reranker.features import TextReader, count_pieces, describe, feature_count
from pairsieve.reranker.fit import Base, fit_reranker, out_of_fold_logits
from pairsieve.reranker.lexical import fit_lexical
from pairsieve.reranker.linear import fit_linear
from pairsieve.reranker.saving import load_reranker, save_reranker
from pairsieve.reranker.trees import fit_trees
from pairsieve.scan import open_scan
from pairsieve.scorer.scorer import RerankedScan, below_candidates, softsign

pytestmark = pytest.mark.xdist_group("reranker")  # one campaign serves the module: made once

LEFT = ["Canon scanner 8800F | silver | 199.00", "Sony radio ICF-38 | 25.00"]
RIGHT = ["canon 8800 f scanner | 235.50", "Sony radio ICF38 | 24.00", "Sony radio SRF 59 | 15.00"]


# ── features ──────────────────────────────────────────────────────────────────────────────────────


def described(left, right, ids, scores):
    space = CrossPairs(len(left), len(right))
    pieces = TextReader(count_pieces([left, right])).take_apart(space, left, right)
    columns = describe(pieces, ids, [np.asarray(scores, float)])
    assert columns.shape == (len(ids), feature_count(1))
    return columns


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


def test_a_partner_with_the_same_text_is_no_competitor():
    """Two copies of the radio, one in capitals: each leads the scanner by 0.4 or 0.3, not the other copy."""
    space = CrossPairs(1, 3)
    right = [RIGHT[1], RIGHT[1].upper() + " ", RIGHT[0]]
    ids = space.ids([0, 0, 0], [0, 1, 2])
    assert described(LEFT[1:], right, ids, [0.9, 0.8, 0.5])[:, 1].tolist() == pytest.approx([0.4, 0.3, -0.4])
    alone = described(LEFT[1:], right, ids[:2], [0.9, 0.8])[:, 1]
    assert alone.tolist() == pytest.approx([1.0, 0.9]), "one text alone leads by 1, its best copy at least"


def test_in_one_collection_all_candidates_of_a_text_compete():
    """The pairs 0-1 (0.9), 0-2 (0.6) and 1-3 (0.7): the first leads by 0.3 at text 0 and by 0.2 at text 1."""
    space, texts = AllPairs(4), ["a", "b", "c", "d"]
    pieces = TextReader(count_pieces([texts])).take_apart(space, texts, texts)
    columns = describe(pieces, space.ids([0, 0, 1], [1, 2, 3]), [np.array([0.9, 0.6, 0.7])])
    assert columns[:, 1].tolist() == pytest.approx([0.2, -0.3, -0.2])  # the smaller lead
    assert columns[:, 2].tolist() == pytest.approx([0.3, 1.0, 1.0])


def test_codes_agree_however_they_are_spaced():
    """Column 13 is the cosine of the codes: "ICF-38" and "ICF38" agree, "SRF 59" does not."""
    space = CrossPairs(2, 3)
    ids = space.ids([1, 1], [1, 2])
    codes = described(LEFT, RIGHT, ids, [0.9, 0.9])[:, 13]
    assert codes[0] > codes[1]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("scanner 8800 | 199.00", "235.50 or 8800", [1 / 2, 36.5 / 235.5 / 2, 36.5 / 235.5]),
        ("1,250 m", "1250 | 3 | 7.5", [1, 0, 0]),  # the text with fewer numbers is looked at
        ("1250 | 3 | 7.5", "1,250 m", [1, 0, 0]),
        ("0 degrees", "0.0 degrees", [1, 0, 0]),
        ("1 or 100", "50 or 100", [1 / 2, (49 / 50 + 1 / 2) / 4, (49 / 50 + 1 / 2) / 2]),  # mean of both ways
        ("1 and 1", "11 and 1", [3 / 4, 10 / 11 / 4, 10 / 11 / 2]),
        ("no number here", "235.50", [-1, -1, -1]),
        ("235.50", "none", [-1, -1, -1]),
    ],
)
def test_numbers_are_compared(left, right, expected):
    """The share that the other text has too, the mean and the largest relative difference; -1 without."""
    columns = described([left], [right], CrossPairs(1, 1).ids([0], [0]), [0.5])
    assert columns[0, -4:-1].tolist() == pytest.approx(expected)


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


def test_a_pair_is_described_alike_in_every_collection():
    """How rare a word is comes from the collection it was fitted on: other texts beside it change nothing."""
    words = count_pieces([LEFT, RIGHT])
    small, large = CrossPairs(1, 1), CrossPairs(2, 3)
    alone = describe(
        TextReader(words).take_apart(small, LEFT[:1], RIGHT[:1]), small.ids([0], [0]), [np.array([0.5])]
    )
    among = describe(TextReader(words).take_apart(large, LEFT, RIGHT), large.ids([0], [0]), [np.array([0.5])])
    assert np.array_equal(alone, among, equal_nan=True)


# ── candidates ────────────────────────────────────────────────────────────────────────────────────


def unit(rng, count, width=8):
    rows = rng.normal(size=(count, width))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("two", [False, True])
def test_candidates_are_the_pairs_that_reach_a_cut(two):
    """By cosine, by lexical cosine, or by the mean of both; against products written out."""
    rng = np.random.default_rng(1)
    sides = [synthetic_questions(40, seed=one).texts for one in range(1 + two)]
    space = CrossPairs(40, 40) if two else AllPairs(40)
    encoder = fit_lexical(sides)
    rows, lexical = [unit(rng, 40) for _ in sides], [encoder.embed(side) for side in sides]
    both = [(*found, None)[:2] for found in (rows, lexical)]
    scans = candidate_scans(open_scan, space, *both)
    cuts = scans.cuts(100)
    every = space.unrank(np.arange(space.size))
    left, right = pair_rows(every)
    cosine, other = (np.einsum("nd,nd->n", side[0][left], side[-1][right]) for side in (rows, lexical))
    mean = (cosine + other) / 2
    assert 80 < (cosine >= cuts.cosine).sum() <= 100 and 80 < (mean >= cuts.mean).sum() <= 100
    assert 50 < (other >= cuts.lexical).sum() <= 100
    expected = every[(cosine >= cuts.cosine) | (mean >= cuts.mean) | (other >= cuts.lexical)]
    assert scans.reaching(cuts).tolist() == expected.tolist() and len(expected) > 110
    far = every[[int(np.argmin(cosine + mean))]]
    assert scans.reaching(cuts, also=far).tolist() == np.sort(np.append(expected, far)).tolist()


def test_texts_that_share_letters_are_near_by_lexical_rows():
    texts = ["Panasonic KX-TG6700B", "panasonic kxtg6700b phone", "a river in the north", ""]
    rows = fit_lexical([texts, synthetic_questions(50, seed=0).texts]).embed(texts)
    assert np.linalg.norm(rows, axis=1).tolist() == pytest.approx([1, 1, 1, 0])
    assert rows[0] @ rows[1] > 0.4 > 0.2 > rows[0] @ rows[2]


# ── models ────────────────────────────────────────────────────────────────────────────────────────


def made_features(seed, rows=300, columns=6):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, columns)).astype(np.float32)
    return features, features[:, 0] + rng.normal(size=rows) > 0


def test_the_trees_are_those_of_scikit_learn():
    """Probabilities from plain arrays equal the library's own, kept from 0 and 1."""
    from sklearn.ensemble import ExtraTreesClassifier

    features, labels = made_features(3)
    features[:50] += 20
    labels[:50] = True
    model = ExtraTreesClassifier(200, min_samples_leaf=2, max_features=0.5, random_state=7).fit(
        features, labels
    )
    expected = np.clip(model.predict_proba(features)[:, 1], 0.005, 0.995)
    assert (expected == 0.995).any()
    ours = fit_trees(features, labels, 7).logits(features)
    assert 1 / (1 + np.exp(-ours)) == pytest.approx(expected, abs=1e-9)


def test_the_linear_model_is_that_of_scikit_learn():
    """Over columns of unit variance, clipped at 6; a column without variance says nothing."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    features, labels = made_features(4)
    features[:, 1] *= 1000
    features[:, 2] = 3.0
    scaled = StandardScaler().fit_transform(features.astype(np.float64))
    model = LogisticRegression(C=0.3, max_iter=2000).fit(scaled, labels)
    ours = fit_linear(features, labels)
    assert ours.logits(features) == pytest.approx(np.clip(model.decision_function(scaled), -6, 6), abs=1e-4)
    assert ours.weights[2] == 0
    assert set(np.abs(ours.logits(100 * features)[:20])) == {6.0}


def test_out_of_fold_logits_come_from_models_that_did_not_see_the_left_text():
    """Labels are noise that only the left text's number gives away: models that saw it know it."""
    rng = np.random.default_rng(0)
    left = np.repeat(np.arange(60), 5)
    labels = (rng.random(60) < 0.5)[left]
    features = left[:, None].astype(np.float32)
    seen = fit_trees(features, labels, 0).logits(features)
    unseen = out_of_fold_logits(features, labels, left, 0, features[:0])
    assert ((seen > 0) == labels).mean() > 0.9
    assert ((unseen[0] > 0) == labels).mean() < 0.7


@dataclass
class Fitted:
    """A re-ranker fitted to half of the pairs of synthetic questions, and what it was fitted to."""

    reranker: object
    space: AllPairs
    texts: list
    rows: np.ndarray
    labelled: np.ndarray
    labels: np.ndarray
    out_of_fold: np.ndarray


@pytest.fixture(scope="module")
def fitted():
    made, space, rng = synthetic_questions(80, seed=5), AllPairs(80), np.random.default_rng(0)
    centres = unit(rng, int(made.cluster.max()) + 1)
    rows = centres[made.cluster] + 0.3 * rng.normal(size=(80, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    every = space.unrank(np.arange(space.size))
    left, right = pair_rows(every)
    truth = made.cluster[left] == made.cluster[right]
    cosines = np.einsum("nd,nd->n", rows[left], rows[right])
    kept = truth | (rng.random(len(every)) < 0.05)

    def log_odds_of(ids):
        return 10 * cosines[np.searchsorted(every, ids)] - 7

    base = Base(cosines[kept], log_odds_of(every[kept]), int(truth.sum()), log_odds_of)
    texts = made.texts, made.texts
    given = open_scan, space, texts, read_texts(space, texts), (rows, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "FEWEST_CANDIDATES", 0)
        patch.setattr(fit, "CANDIDATES_A_TEXT", 10)
        found = fit_reranker(*given, every[kept], truth[kept], base, seed=0)
    return Fitted(found.reranker, space, list(made.texts), rows, every[kept], truth[kept], found.out_of_fold)


def test_it_learns_which_candidates_match(fitted):
    """Out of fold it ranks labelled pairs far better than chance, and its log-odds are calibrated."""
    labels = fitted.labels
    ranked = curve_from_scores(fitted.out_of_fold[labels], fitted.out_of_fold[~labels])
    assert ranked.average_precision() > 0.8 > labels.mean() + 0.2
    chance = 1 / (1 + np.exp(-fitted.out_of_fold))
    assert chance.mean() == pytest.approx(labels.mean(), abs=0.05)


def test_every_candidate_of_a_space_gets_its_logit(fitted):
    found = rerank(
        fitted.reranker, open_scan, fitted.space, (fitted.texts, fitted.texts), (fitted.rows, None)
    )
    assert 400 < len(found["ids"]) <= 1600 and (np.diff(found["ids"]) > 0).all()
    nothing = replace(fitted.reranker, cuts=Cuts(1.1, 1.1, 1.1))
    none = rerank(nothing, open_scan, fitted.space, (fitted.texts, fitted.texts), (fitted.rows, None))
    assert len(none["ids"]) == len(none["logits"]) == 0


def test_identical_texts_get_identical_scores_with_the_same_partner(fitted):
    """Text 0 three times, one of them in capitals: with every partner the three have the same logit."""
    texts = [*fitted.texts, fitted.texts[0], fitted.texts[0].upper()]
    rows = fitted.rows[[*range(80), 0, 0]]
    space = AllPairs(82)
    found = rerank(fitted.reranker, open_scan, space, (texts, texts), (rows, None))
    logit = dict(zip(found["ids"].tolist(), found["logits"].tolist()))
    partners = [at for at in range(1, 80) if int(space.ids(0, at)) in logit]
    assert len(partners) > 5
    for at in partners:
        first, second, capitals = (logit[int(space.ids(copy, at))] for copy in (0, 80, 81))
        assert first == second == capitals


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
    scores = softsign(below_candidates(weight * base.scores(every).astype(np.float64) + bias))
    assert scores.max() <= softsign(np.array(-2.0))
    scores[is_member(every, ids)] = softsign(log_odds)
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


# ── on disk ───────────────────────────────────────────────────────────────────────────────────────


def test_a_re_ranker_is_written_and_read_without_loss(fitted, tmp_path):
    reranker = fitted.reranker
    save_reranker(tmp_path, reranker)
    again = load_reranker(tmp_path)
    assert vars(again.vocabulary) == vars(reranker.vocabulary) and again.cuts == reranker.cuts
    assert again.stack == reranker.stack
    assert np.array_equal(again.lexical.rarity, reranker.lexical.rarity)
    given = open_scan, fitted.space, (fitted.texts, fitted.texts), (fitted.rows, None)
    one, other = rerank(reranker, *given), rerank(again, *given)
    assert all(np.array_equal(one[name], other[name]) for name in ("ids", "logits"))


@pytest.mark.parametrize(
    ("name", "array", "value", "words"),
    [
        ("trees", "column", 10_000, "a column or node that does not exist"),
        ("trees", "roots", 10**9, "a column or node that does not exist"),
        ("trees", "left", 10**9, "a node that does not exist"),
        ("trees", "right", -5, "a node that does not exist"),
        ("trees", "left", 0, "stands before it"),
        ("trees", "value", np.nan, "infinite or not a number"),
        ("trees", "threshold", np.nan, "infinite or not a number"),
        ("arrays", "weights", np.nan, "infinite or not a number"),
        ("arrays", "bias", np.inf, "infinite or not a number"),
        ("arrays", "rarity", -np.inf, "infinite or not a number"),
    ],
)
def test_damaged_arrays_are_refused_before_they_are_read(fitted, tmp_path, name, array, value, words):
    """The compiled loop reads wherever it is led, and a circle has no end."""
    save_reranker(tmp_path, fitted.reranker)
    file = tmp_path / f"reranker-{name}.safetensors"
    arrays = {name: np.array(values) for name, values in load_file(file).items()}
    arrays[array][0] = value
    save_file(arrays, file)
    with pytest.raises(InputError, match=f"the re-ranker cannot be read.*{words}"):
        load_reranker(tmp_path)


@pytest.mark.parametrize(
    ("array", "words"),
    [("weights", "weights for 36 columns"), ("bias", "weights for"), ("rarity", "buckets")],
)
def test_arrays_of_another_shape_are_refused(fitted, tmp_path, array, words):
    save_reranker(tmp_path, fitted.reranker)
    file = tmp_path / "reranker-arrays.safetensors"
    arrays = {name: np.array(values) for name, values in load_file(file).items()}
    save_file(arrays | {array: np.append(arrays[array], arrays[array][:1])}, file)
    with pytest.raises(InputError, match=f"the re-ranker cannot be read.*{words}"):
        load_reranker(tmp_path)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [("stack", "trees", "nan"), ("stack", "bias", "inf"), ("cuts", "mean", "nan"), ("stack", "base", None)],
)
def test_a_stack_or_cut_that_is_no_number_is_refused(fitted, tmp_path, part, name, value):
    save_reranker(tmp_path, fitted.reranker)
    file = tmp_path / "reranker.json"
    about = json.loads(file.read_text())
    about[part][name] = value
    file.write_text(json.dumps(about))
    with pytest.raises(InputError, match="the re-ranker cannot be read"):
        load_reranker(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *("reranker.json", "reranker-vocabulary.json"),
        *("reranker-trees.safetensors", "reranker-arrays.safetensors"),
    ],
)
def test_a_cut_off_or_missing_file_is_refused(fitted, tmp_path, name):
    save_reranker(tmp_path, fitted.reranker)
    file = tmp_path / name
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(InputError, match="the re-ranker cannot be read"):
        load_reranker(tmp_path)
    file.unlink()
    with pytest.raises(InputError, match="the re-ranker cannot be read"):
        load_reranker(tmp_path)
