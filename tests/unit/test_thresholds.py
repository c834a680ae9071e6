"""Where a list is cut: on a curve one can count by hand, from labels, and never from test."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairsieve.audit.draws import AskedPairs
from pairsieve.campaign.training import OutOfFold
from pairsieve.cli.match import threshold_words
from pairsieve.errors import InputError
from pairsieve.matches.calibration import ExpectedCurve, from_audit, from_dev, from_labels
from pairsieve.matches.figures import threshold_figures
from pairsieve.matches.listing import Known
from pairsieve.matches.ranking import Ranking
from pairsieve.matches.threshold import Target, choose_threshold, point_through, target_from
from pairsieve.measure.curve import curve_from_counts, curve_from_scores
from pairsieve.pairs import AllPairs, CrossPairs, ScoredPairs
from pairsieve.scorer import CorrectedRows, Corrections, ScoredSpace, Scorer
from pairsieve.tasks import Collection
from pairsieve.tasks.task import one_collection, two_collections

NOTHING = np.empty(0, np.int64)


def four_points():
    """10 matches: the best 4 pairs are matches, then the list gets longer and worse."""
    return curve_from_counts([0.9, 0.8, 0.7, 0.6], [4, 6, 8, 9], [0, 1, 4, 21], 10)


def test_the_threshold_of_each_target():
    """Precision 4/4, 6/7, 8/12, 9/30; recall 0.4, 0.6, 0.8, 0.9; F1 8/14, 12/17, 16/22, 18/40."""
    curve = four_points()
    assert choose_threshold(curve, Target()).threshold == np.float32(0.7)
    assert choose_threshold(curve, Target()).f1 == pytest.approx(16 / 22)
    assert choose_threshold(curve, Target("precision", 0.8)).threshold == np.float32(0.8)
    assert choose_threshold(curve, Target("recall", 0.9)).precision == pytest.approx(0.3)
    assert point_through(curve, 0.75).recall == 0.6
    assert np.isnan(point_through(curve, 0.95).precision)


def test_precision_that_dips_and_comes_back_gives_the_longest_list():
    """1 of 1, 1 of 3, 9 of 11: the third point is precise enough again, and holds more."""
    curve = curve_from_counts([0.9, 0.8, 0.7], [1, 2, 9], [0, 2, 2], 10)
    assert choose_threshold(curve, Target("precision", 0.8)).threshold == np.float32(0.7)


def test_what_cannot_be_reached_is_told_with_the_best_that_can():
    curve = curve_from_counts([0.9, 0.8], [3, 5], [1, 5], 10)
    with pytest.raises(InputError, match=r"0\.95 cannot be reached.*best is 0\.7500, at recall 0\.3000"):
        choose_threshold(curve, Target("precision", 0.95))
    with pytest.raises(InputError, match=r"recall of 0\.9 cannot be reached.*highest is 0\.5000"):
        choose_threshold(curve, Target("recall", 0.9))


@pytest.mark.parametrize(
    "options, words",
    [
        ((0.9, 0.8, None, None), "`precision` and `recall` together"),
        ((1.5, None, None, None), "`precision=1.5`"),
        ((None, 0.0, None, None), "`recall=0`"),
        ((None, None, 0, None), "`count=0`"),
        ((None, None, None, float("nan")), "`threshold=nan`"),
    ],
)
def test_targets_that_make_no_sense_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        target_from(*options)


def scored(space, reranked=False):
    """A scorer whose score is its log-odds, without any model behind it."""
    scorer = Scorer(None, Corrections(space.symmetric), 1.0, 0.0)
    if reranked:
        scorer = Reranked(None, Corrections(space.symmetric), 1.0, 0.0, reranker=object())
    rows = np.empty((0, 1), np.float32)
    return ScoredSpace(scorer, CorrectedRows(space, (rows, None), (rows, None)), None, None, NOTHING)


class Reranked(Scorer):
    """One with a re-ranker, whose score is its log-odds too."""

    def log_odds(self, scores):
        return np.asarray(scores, np.float64)


def listed_ranking(scores, positives=NOTHING, left=20, right=50, truth=False, reranked=False):
    """The first `len(scores)` pairs of 20 × 50, with given logits."""
    space = CrossPairs(left, right)
    texts = [
        Collection([f"{side}{row}" for row in range(size)], ["t"] * size)
        for side, size in (("l", left), ("r", right))
    ]
    part = two_collections("all", *texts, positives, NOTHING, truth)
    ids = space.unrank(np.arange(len(scores)))
    listed = ScoredPairs(ids, np.asarray(scores, np.float32))
    return Ranking(part, scored(space, reranked), listed)


def test_labels_tell_the_expected_matches_of_pairs_nobody_asked_about():
    """Labels drawn at random from a ranking whose rate is known: 1,000 pairs, logit s, rate σ(s).

    The curve must find about as many matches above each threshold as there are in expectation.
    """
    rng = np.random.default_rng(5)
    scores = rng.normal(-1.0, 2.5, 1000)
    rate = 1 / (1 + np.exp(-scores))
    ranking = listed_ranking(scores)
    asked = np.sort(rng.choice(1000, 600, replace=False))
    labels = rng.random(600) < rate[asked]
    ids = ranking.listed.ids[asked]
    labelled = OutOfFold(ids, labels, scores[asked], {})
    evidence = from_labels(ranking, labelled, Known(ids, labels))
    for threshold in (-1.0, 0.0, 1.0):
        above = scores >= threshold
        known = (scores[asked] >= threshold) & labels
        expected = known.sum() + rate[np.setdiff1d(np.flatnonzero(above), asked)].sum()
        line = point_through(evidence.curve, threshold)
        assert line.precision == pytest.approx(expected / above.sum(), abs=0.03)
    listed, alone = (point_through(curve, 0.0) for curve in (evidence.listed, evidence.curve))
    assert listed.precision > alone.precision  # a list with labels holds no pair known to be wrong


def test_a_list_with_labels_keeps_known_matches_and_drops_known_others():
    """Ten pairs, logits 5 to -4; the two at 5 and 4 are labelled others, the two at -3 and -4 matches.

    By score down to 0 the list has 6 pairs, 2 of them wrong for sure. As listed it has the 4 unlabelled ones
    and both labelled matches.
    """
    ranking = listed_ranking(np.arange(5, -5, -1))
    ids = ranking.listed.ids
    known = Known(ids[[0, 1, 8, 9]], np.array([False, False, True, True]))
    held_out = np.array([-3.0, -2.0, 2.0, 3.0])
    evidence = from_labels(ranking, OutOfFold(known.ids, known.labels, held_out, {}), known)
    place = int(np.flatnonzero(evidence.curve.thresholds == 0)[0])
    found = evidence.curve.true_positives + evidence.curve.false_positives
    assert found[place] == pytest.approx(6)
    listed = evidence.listed.true_positives + evidence.listed.false_positives
    assert listed[int(np.flatnonzero(evidence.listed.thresholds == 0)[0])] == pytest.approx(4 + 2)


def test_five_labels_do_not_list_every_pair():
    """1,000 pairs, log-odds 5 down to -5; four matches at the top, one non-match at log-odds -1.

    A model that saw the four matches alone puts the non-match at -28: the threshold would lie far below it.
    The scorer itself puts it at -1, and so much is believed.
    """
    ranking = listed_ranking(np.linspace(5, -5, 1000))
    at = [0, 1, 2, 50, 600]
    known = Known(ranking.listed.ids[at], np.array([True] * 4 + [False]))
    held_out = np.array([5.4, 5.4, 5.4, 4.5, -28.0])
    evidence = from_labels(ranking, OutOfFold(known.ids, known.labels, held_out, {}), known)
    assert choose_threshold(evidence.curve, Target()).threshold > -1.0


def test_labels_of_one_kind_draw_no_line():
    ranking = listed_ranking([1.0, 0.0])
    labelled = OutOfFold(ranking.listed.ids, np.array([True, True]), np.array([1.0, 0.0]), {})
    words = r"^all 2 labels given are matches\. A threshold needs at least one match and one non-match\. Ask"
    with pytest.raises(InputError, match=words):
        from_labels(ranking, labelled, Known.nothing())
    first = ranking.listed.ids[:1]
    labelled = OutOfFold(first, np.array([False]), np.array([1.0]), {})
    with pytest.raises(InputError, match=r"^the only label given is a non-match\. A threshold needs"):
        from_labels(ranking, labelled, Known(first, np.array([False])))


def test_a_threshold_from_an_audit_needs_drawn_labels():
    with pytest.raises(InputError, match="Run pairsieve audit first"):
        from_audit(listed_ranking([1.0, 0.0]), AskedPairs.nothing())


def test_a_recall_that_nobody_checks_is_of_the_matches_within_reach():
    """100 matches among the best 110 pairs; of a million others 300 are expected, which is a guess."""
    size = np.array([50, 90, 110, 400, 10_000, 1_000_110])
    right = np.array([50, 88, 100, 101, 104, 400])
    curve = curve_from_counts([0.9, 0.8, 0.7, 0.5, 0.2, -0.9], right, size - right, 400)
    expected = ExpectedCurve(curve, "labels", "labels")
    wanted = Target("recall", 0.95)
    assert choose_threshold(curve, wanted).threshold == np.float32(-0.9)
    assert choose_threshold(expected.within_reach(0.95), wanted).threshold == np.float32(0.7)


def test_a_threshold_from_an_audit_may_lie_inside_a_stratum():
    """Of 1,024 pairs the best 300 match: the best F1 is near there, between the edges 256 and 512."""
    scores = np.linspace(1.0, -1.0, 1024, dtype=np.float32)

    def reaching(edges, *_, **__):
        return 1024 - np.searchsorted(scores[::-1], edges, side="left")

    fine = np.sort(scores)[::4]
    ranking = SimpleNamespace(
        listed=None,
        scored=SimpleNamespace(scan=SimpleNamespace(count_reaching=reaching, space=AllPairs(46))),
        counts=lambda: (fine, reaching(fine)),
        log_odds=lambda at: 40.0 * (np.asarray(at, np.float64) - scores[299]),
    )
    asked = AskedPairs.nothing().then(scores[::4], np.arange(0, 1024, 4) < 300, 1, np.full(256, 0.25))
    expected = from_audit(ranking, asked)
    point = choose_threshold(expected.curve, Target())
    assert int(reaching(np.array([point.threshold]))[0]) == pytest.approx(300, abs=10)
    assert point.precision > 0.95 and expected.curve.positives == pytest.approx(300, rel=0.02)


def test_dev_counts_each_false_match_as_often_as_the_larger_space_has_it():
    """Dev: 10 texts (45 pairs); matched: 30 texts (435 pairs). 435/45 pairs but 30/10 texts: 3.22 times."""

    def part(name, size, positives, truth):
        return one_collection(
            name, Collection(list(map(str, range(size))), ["t"] * size), positives, NOTHING, truth
        )

    space = AllPairs(10)
    positives = space.ids([0, 2], [1, 3])
    ids = np.unique(space.ids([0, 2, 4], [1, 3, 5]))
    dev = Ranking(
        part("dev", 10, positives, True),
        scored(space),
        listed=ScoredPairs(ids, np.array([3.0, 1.0, 2.0], np.float32)),
    )
    evidence = from_dev(dev, part("all", 30, NOTHING, False))
    factor = (435 / 45) / (30 / 10)
    assert evidence.curve.false_positives.tolist() == pytest.approx([0, factor])
    assert f"{factor:.3g} times" in evidence.basis
    # At 1.0 and above: both matches and one false one, (4, 5). No interval: the threshold was chosen there.
    figures = threshold_figures(Target(), evidence, point_through(evidence.curve, 1.0), None, seed=0)
    assert figures.precision == pytest.approx(2 / (2 + factor)) and figures.recall == 1.0
    assert figures.as_json()["of"] == "dev" and not figures.as_json()["measured"]
    words = threshold_words(figures)
    assert words.endswith(f"; on dev, where it was chosen, precision {2 / (2 + factor):.3f}, recall 1.000.")
    counted = threshold_figures(
        Target("count", 3), evidence, point_through(evidence.curve, 1.0), None, seed=0
    )
    assert "chosen" not in threshold_words(counted) and "; on dev precision" in threshold_words(counted)
    asked_about = from_dev(dev, part("all", 30, NOTHING, False), held_out=False)
    assert evidence.trust == "" and "not held out" in asked_about.trust


def test_dev_that_shares_a_side_is_not_scaled():
    """Ten questions in dev, thirty to be matched, against the same five answers: both kinds of pair are
    thrice.
    """
    answers = Collection([f"a{row}" for row in range(5)], ["t"] * 5)

    def part(name, size, positives, truth):
        texts = Collection([f"{name}{row}" for row in range(size)], ["t"] * size)
        return two_collections(name, texts, answers, positives, NOTHING, truth)

    space = CrossPairs(10, 5)
    ids = space.ids(np.array([0, 1]), np.array([0, 1]))
    dev = Ranking(part("dev", 10, ids[:1], True), scored(space), ScoredPairs(ids, np.float32([1, 2])))
    evidence = from_dev(dev, part("all", 30, NOTHING, False))
    assert evidence.curve.false_positives.tolist() == [1.0] and "times" not in evidence.basis


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=40))
def test_no_threshold_beats_the_line_of_the_best_f1(pairs):
    scores = np.array([score for score, _ in pairs], np.float32)
    match = np.array([label for _, label in pairs])
    if not match.any():
        return
    line = choose_threshold(curve_from_scores(scores[match], scores[~match]), Target())
    every = [2 * (match & (scores >= t)).sum() / ((scores >= t).sum() + match.sum()) for t in range(10)]
    assert line.f1 == pytest.approx(max(every))
