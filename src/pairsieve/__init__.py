"""pairsieve finds the rare matching pairs among billions, with few labels."""

__version__ = "0.1.0"
