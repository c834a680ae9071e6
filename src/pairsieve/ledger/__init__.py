"""What was asked, and who answered what? The durable, append-only record of a campaign."""

from pairsieve.ledger.check import check_ledger
from pairsieve.ledger.records import Answers, Questions, RoundCount, Votes
from pairsieve.ledger.store import Ledger, open_ledger
from pairsieve.ledger.upkeep import Check, Verification

__all__ = [
    "Answers",
    "Check",
    "Ledger",
    "Questions",
    "RoundCount",
    "Verification",
    "Votes",
    "check_ledger",
    "open_ledger",
]
