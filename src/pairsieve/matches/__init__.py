"""The matches of a trained campaign: as a list of pairs, or as groups of duplicates.

threshold.py   targets (F1, precision, recall, count) and the threshold that meets one on a curve
calibration.py the expected curve: from dev's truth, from labels, from an audit; never from test
checks.py      labels asked to show that a list has the precision or recall wanted
ranking.py     the pairs of a split by score: all, or the neighbours that an index lists; unreadable.py
listing.py     the list on disk: in bands, resumable, in any format; listed.py: its figures by drawn labels
assignment.py  at most one partner a text
clusters.py    groups of duplicates that a weak bridge does not merge; group_table.py, merging.py
find.py        all of it in one call: `find_matches`, `find_clusters`; options.py: how; figures.py: results
"""

from pairsieve.matches.assignment import one_to_one
from pairsieve.matches.clusters import constrained_average_linkage, representatives
from pairsieve.matches.find import find_clusters, find_matches
from pairsieve.matches.options import ListOptions
from pairsieve.matches.threshold import Target
