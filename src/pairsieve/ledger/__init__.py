"""The ledger: the durable, append-only record of questions asked and answers given."""

from pairsieve.ledger.maintenance import Check, Verification
from pairsieve.ledger.records import Answers, Questions, RoundCount, Votes
from pairsieve.ledger.store import Ledger, open_ledger
