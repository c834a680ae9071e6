"""Is it worth going on: matches of the next batch, matches left, AP to come, and rules that stop a campaign.

advice.py          all figures after a round, and one sentence
batch_yield.py     matches of the next batch, from text similarity (features.py) and earlier rounds
remaining.py       matches left among all unasked pairs
learning_curve.py  AP after the next batch, and the regression behind the forecasts
stop_rules.py      rules such as "positives < 5%"
"""

from pairsieve.advice.advice import Advice, SavedSelection, advise, advise_after, save_scores
from pairsieve.advice.stop_rules import parse_stop_rule, stop_reason
