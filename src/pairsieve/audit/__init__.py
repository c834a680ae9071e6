"""Audits: precision, recall, AP and the number of matches from a few hundred labels drawn with known chances.

draws.py      strata by score, the pilot sample, where the other labels go, and the draw itself
estimate.py   what the labels say about all pairs, with intervals
rates.py      the posterior of match rates along a ranking
run.py        one audit against a ledger: draw, ask, and once answered, estimate
"""
