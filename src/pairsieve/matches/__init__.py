"""Which pairs are the matches, and which texts belong together? What a trained campaign hands out.

wish.py        precision, recall, count, F1 or a threshold -> a line on a curve
evidence.py    the curve: from dev labels, from the labels bought, from an audit; never from test
ranking.py     all pairs by the bi-encoder, or candidates by an index or a second look
looking.py     first look or second look, chosen by held-out average precision; distilling
listing.py     the list on disk: in bands, resumable, Parquet, CSV or JSON Lines
assignment.py  at most one partner a text
clusters.py    groups of duplicates that a weak bridge does not merge
finding.py     all of it in one call: `find_matches`, `find_clusters`
"""

from pairsieve.matches.assignment import one_to_one
from pairsieve.matches.clusters import guarded_clusters, representatives
from pairsieve.matches.finding import find_clusters, find_matches
from pairsieve.matches.wish import Wish

__all__ = ["Wish", "find_clusters", "find_matches", "guarded_clusters", "one_to_one", "representatives"]
