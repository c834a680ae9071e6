"""One value gives a pair its score and probability: bi-encoder, corrections, head, re-ranker, calibration.

`scorer.py` has the value and applies it; `corrections.py` has neighbour smoothing and hubness correction;
`saving.py` writes and reads a scorer's folder.
"""

from pairsieve.scorer.corrections import (
    CorrectedRows,
    Corrections,
    ExactNeighbours,
    NeighbourFinder,
    correct_rows,
    make_corrections,
    smooth_rows,
)
from pairsieve.scorer.saving import load_scorer, save_scorer
from pairsieve.scorer.scorer import ScoredSpace, Scorer, score_matrix, score_space, score_texts
