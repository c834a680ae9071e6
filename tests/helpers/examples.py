"""How many examples a property is tried on: all of them in `make test`, few in `make test-fast`."""

from __future__ import annotations

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "full")
FAST = 10  # examples of a property in `make test-fast`


def examples(full: int) -> int:
    """`full`, or the few of `make test-fast`: a number in a test's own settings is above any profile's."""
    return min(full, FAST) if PROFILE == "fast" else full
