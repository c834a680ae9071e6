"""Labels drawn with known chances: precision, recall, AP and matches from them, calibration, and guarantees.

draws.py      strata by score, how many labels each gets, and the draw itself
estimate.py   what the labels say of the ranking, with limits that assume nothing (ranked.py, errors.py)
run.py        one audit against a ledger: draw, ask, and once answered, estimate
calibrate.py  the probability of a match from a scorer's log-odds, by drawn labels (binning.py: by a truth)
guarantee.py  the longest list shown to have a precision
"""
