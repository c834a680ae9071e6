"""Measures of a scorer over all pairs: exact, estimated, corrected by people, and over stated pairs alone.

`curve.py` counts every pair; `estimated.py` and `sampling.py` speak for scorers that cannot visit every
pair; `manual.py` corrects by people's labels; `figures.py` has the figures as records.
"""

from pairsieve.measure.curve import Curve, measure_exactly
from pairsieve.measure.estimated import estimate
from pairsieve.measure.manual import corrected_precision, to_verify
from pairsieve.measure.sampling import PairSample, draw, listed_sample, near_pairs
