"""Benches: timings, coverage studies, comparisons with peers; `python -m experiments.bench` lists them."""
