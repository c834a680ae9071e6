"""One value gives a pair its score and its probability: bi-encoder, corrections, calibration, re-ranker.

`scorer.py` has the value and applies it to a pair space. `corrections.py` stands on `hubness.py` and
`smoothing.py`; `reranked.py` lays the re-ranker's scores over the bi-encoder's; `out_of_fold.py` scores
labelled pairs by models that did not see them; `saving.py` writes and reads a scorer's folder.
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
