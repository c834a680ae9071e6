"""How good is a scorer over all pairs?

`exact.py` counts every pair; `estimated.py` and `sampling.py` speak for scorers that cannot visit every
pair; `manual.py` corrects by people's labels; `balanced.py` says what the stated pairs alone would claim.
"""

from pairsieve.measure.balanced import best_threshold, pair_measures, question_f1, rank_measures
from pairsieve.measure.curve import BestF1, Curve, curve_from_scores
from pairsieve.measure.estimated import EstimatedMeasures, estimate
from pairsieve.measure.exact import ExactMeasures, Histogram, measure_exactly
from pairsieve.measure.manual import corrected_precision, to_verify
from pairsieve.measure.sampling import PairSample, draw, listed_sample, near_pairs

__all__ = [
    "BestF1",
    "Curve",
    "EstimatedMeasures",
    "ExactMeasures",
    "Histogram",
    "PairSample",
    "best_threshold",
    "corrected_precision",
    "curve_from_scores",
    "draw",
    "estimate",
    "listed_sample",
    "measure_exactly",
    "near_pairs",
    "pair_measures",
    "question_f1",
    "rank_measures",
    "to_verify",
]
