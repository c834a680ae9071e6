"""What was asked, and who answered what? The durable, append-only record of a campaign."""

from pairsieve.ledger.check import check_ledger
from pairsieve.ledger.store import Answers, Ledger, Questions, RoundCount, open_ledger

__all__ = ["Answers", "Ledger", "Questions", "RoundCount", "check_ledger", "open_ledger"]
