"""Bias and coverage of the sampled measures, on spaces that can be enumerated.

    python -m experiments.bench.estimator_coverage [--draws 300] [--repeats 200] [--texts 400]

Each regime is a synthetic task with a scorer like a cross-encoder's: a score of its own for every pair, drawn
towards a reference embedding but not monotone in it, so that some far pairs score high. Columns: the
expected sampled false positives at recall 0.2 and what one of them weighs relative to everything counted
there; z, the distance of the mean of all draws from the exact value in standard errors ("z plain": of
the AP of the uncorrected counts, on the same draws); the share of
95 % intervals that cover the exact value, for other texts ("texts") and for this space alone ("draw").
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from pairsieve.measure.curve import Curve, curve_from_scores
from pairsieve.measure.estimated import Resampled, estimate
from pairsieve.measure.sampling import Floats, draw, near_pairs
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, Scores, is_member


@dataclass(frozen=True)
class SyntheticTask:
    """A space enumerated: every pair's id and score, the positives, and the near negatives."""

    space: PairSpace
    ids: Ids
    scores: Scores
    positives: Ids
    near: Ids
    exact: Curve


def synthetic_task(
    rng: np.random.Generator,
    texts: int = 400,
    *,
    cross: bool = False,
    high_far_share: float = 0.01,
    hub_share: float = 0.0,
    tied: bool = False,
    neighbours: int = 5,
) -> SyntheticTask:
    """Clusters of about three texts around random centres; score = 4·cosine + noise, plus surprises.

    `high_far_share` of all pairs score like positives whatever their distance; `hub_share` of the texts
    score high with everybody; `tied` rounds scores to halves.
    """
    dim, centres = 16, rng.normal(size=(max(texts // 3, 1), 16))
    member = rng.integers(len(centres), size=(2, texts))
    points = centres[member] + 0.6 * rng.normal(size=(2, texts, dim))
    points /= np.linalg.norm(points, axis=2, keepdims=True)
    other = 1 if cross else 0
    space: PairSpace = CrossPairs(texts, texts) if cross else AllPairs(texts)
    ids = space.unrank(np.arange(space.size))
    left, right = ids >> 32, ids & 0xFFFFFFFF
    cosine = points[0] @ points[other].T
    positive = member[0][left] == member[other][right]
    scores = 4.0 * cosine[left, right] + rng.normal(size=space.size) - 2.0
    scores += 1.5 * positive
    surprise = rng.random(space.size) < high_far_share
    scores[surprise] = rng.normal(2.0, 1.0, size=int(surprise.sum()))
    hubs = np.flatnonzero(rng.random(texts) < hub_share)
    scores += 2.0 * np.isin(left, hubs)
    if tied:
        scores = np.round(scores * 2) / 2
    scores = scores.astype(np.float32)
    if not cross:
        np.fill_diagonal(cosine, -2.0)
    nearest = np.argsort(-cosine, axis=1)[:, :neighbours]
    positives = ids[positive]
    near, _ = near_pairs(space, nearest, positives)
    exact = curve_from_scores(scores[positive], scores[~positive])
    return SyntheticTask(space, ids, scores, positives, near, exact)


@dataclass(frozen=True)
class Study:
    """What `draws` samples of one task gave: figures (draws,) and whether the intervals covered."""

    average_precision: Floats
    plain_average_precision: Floats  # of the uncorrected counts
    false_positives: Floats  # at the threshold of recall 0.2
    covered_ap: float
    covered_p20: float
    covered_f1: float
    width_ap: float  # mean width of the interval


def study(
    task: SyntheticTask, sample: int, draws: int, repeats: int, resample: Resampled, rng: np.random.Generator
) -> Study:
    """Draw, estimate, and compare with the enumerated truth, `draws` times."""
    exact_ap, exact_p20 = task.exact.average_precision(), task.exact.precision_at_recall(0.2)
    exact_f1 = task.exact.best_f1().value
    point = task.exact.at_recall(0.2)
    ap, plain, fp, hits, widths = [], [], [], [], []
    for _ in range(draws):
        drawn = draw(task.space, task.positives, task.near, sample, rng)
        scores = task.scores[np.searchsorted(task.ids, drawn.ids)]
        found = estimate(drawn, scores, task.space, rng=rng, repeats=repeats, resample=resample)
        estimated, p20, f1 = found.average_precision, found.precision_at_recall[0.2], found.best_f1
        ap.append(estimated.value)
        plain.append(found.curve.average_precision())
        fp.append(found.curve.false_positives[point])
        hits.append(
            [
                estimated.low <= exact_ap <= estimated.high,
                p20.low <= exact_p20 <= p20.high,
                f1.low <= exact_f1 <= f1.high,
            ]
        )
        widths.append(estimated.high - estimated.low)
    covered_ap, covered_p20, covered_f1 = np.mean(hits, axis=0).tolist()
    width = float(np.mean(widths))
    return Study(np.array(ap), np.array(plain), np.array(fp), covered_ap, covered_p20, covered_f1, width)


def standard_errors_off(values: Floats, exact: float) -> float:
    """(mean - exact) / standard error of the mean."""
    spread = values.std(ddof=1) / np.sqrt(len(values))
    return float((values.mean() - exact) / spread) if spread > 0 else 0.0


REGIMES: dict[str, tuple[dict[str, object], float]] = {
    # name: (how the task is made, the share of far negatives drawn)
    "many hits": ({"high_far_share": 0.02}, 0.1),
    "many hits, two collections": ({"high_far_share": 0.02, "cross": True}, 0.05),
    "hubs": ({"high_far_share": 0.002, "hub_share": 0.02}, 0.05),
    "tied scores": ({"high_far_share": 0.01, "tied": True}, 0.05),
    "half drawn": ({"high_far_share": 0.005}, 0.5),
    "few hits": ({"high_far_share": 0.004}, 0.03),
    "few and heavy": ({"high_far_share": 0.02}, 0.02),
    "rare and heavy": ({"high_far_share": 0.02}, 0.008),
    "rarer and heavier": ({"high_far_share": 0.02}, 0.003),
    "almost none, heaviest": ({"high_far_share": 0.004}, 0.002),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="regimes whose name contains this")
    asked = parser.parse_args()
    print(
        f"{'regime':28}{'AP':>6}{'hits':>7}{'weight':>8}{'z FP':>7}{'z AP':>7}{'z plain':>8}  "
        f"{'texts: AP':>10}{'P@R20':>7}{'F1':>7}{'width':>7}  "
        f"{'draw: AP':>9}{'P@R20':>7}{'F1':>7}{'width':>7}"
    )
    for number, (name, (regime, share)) in enumerate(REGIMES.items()):
        if asked.only not in name:
            continue
        rng = np.random.default_rng([asked.seed, number])
        task = synthetic_task(rng, asked.texts, **regime)  # type: ignore[arg-type]
        point = task.exact.at_recall(0.2)
        far = task.space.size - len(task.positives) - len(task.near)
        sample = max(1, round(share * far))
        tp, fp = task.exact.true_positives[point], task.exact.false_positives[point]
        negative = ~is_member(task.ids, np.union1d(task.positives, task.near))
        high_far = int((task.scores[negative] >= task.exact.thresholds[point]).sum())
        texts = study(task, sample, asked.draws, asked.repeats, "texts", rng)
        alone = study(task, sample, asked.draws, asked.repeats, "draw", rng)
        exact_ap = task.exact.average_precision()
        print(
            f"{name:28}{exact_ap:6.3f}{high_far * share:7.1f}{1 / share / (tp + fp - high_far):8.2f}"
            f"{standard_errors_off(alone.false_positives, fp):7.2f}"
            f"{standard_errors_off(alone.average_precision, exact_ap):7.2f}"
            f"{standard_errors_off(alone.plain_average_precision, exact_ap):8.2f}  "
            f"{texts.covered_ap:10.1%}{texts.covered_p20:7.1%}{texts.covered_f1:7.1%}{texts.width_ap:7.3f}  "
            f"{alone.covered_ap:9.1%}{alone.covered_p20:7.1%}{alone.covered_f1:7.1%}{alone.width_ap:7.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
