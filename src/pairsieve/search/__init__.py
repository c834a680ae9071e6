"""Search for the unasked pairs that score best or lie nearest a score.

`exact.py` answers over all pairs in two passes (count, then collect). `neighbours.py` looks only at each
row's m nearest, found exactly or by an index (`ivf.py`, or Faiss), as the paper does. Both give the same
`Found`.
"""

from pairsieve.search.exact import ExactSearch, Found, PairSearch
from pairsieve.search.neighbours import INDEXES, NeighbourSearch, index_neighbours, neighbour_recall

__all__ = [
    "INDEXES",
    "ExactSearch",
    "Found",
    "NeighbourSearch",
    "PairSearch",
    "index_neighbours",
    "neighbour_recall",
]
