"""Records that the ledger returns: columns of equal length, in the order of asking or answering."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Ids


@dataclass(frozen=True)
class _Columns:
    """Columns of the same length, the first of which are pair ids."""

    ids: Ids

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Questions(_Columns):
    """Questions in the order of asking."""

    left_keys: list[str]
    right_keys: list[str]
    rounds: NDArray[np.int64]
    why: list[str]
    strategy: list[str]
    inclusion_probability: NDArray[np.float64]  # nan where there is none
    purpose: list[str]
    asked_at: list[str]


@dataclass(frozen=True)
class Answers(_Columns):
    """Answer events in the order they came."""

    labels: list[int | None]
    who: list[str]
    source: list[str]
    rounds: NDArray[np.int64]
    answered_at: list[str]
    kind: list[str]  # "answer", "inferred", "adjudication", or "withdrawal" of one of these
    about: list[str]  # what the event speaks as: `kind`, or, of a withdrawal, the kind it takes back
    tokens: list[str | None]  # the click it came from
    rests_on: list[list[tuple[int, int]] | None]  # of "inferred": the (pair, label) it follows from
    comments: list[str | None]


@dataclass(frozen=True)
class Votes(_Columns):
    """How each pair stands, in the order of asking."""

    matches: NDArray[np.int64]  # people whose latest answer is "match"
    no_matches: NDArray[np.int64]
    unsure: NDArray[np.int64]
    labels: list[int | None]  # the label that counts; None where there is none
    state: list[str]  # "labelled", "unsure" or "open"
    basis: list[str]  # what the state rests on: "votes", "adjudication", "inferred", or "" (nothing yet)


@dataclass(frozen=True)
class RoundCount:
    """Where one round stands. asked = labelled + unsure + open; positives are among the labelled."""

    round: int
    asked: int
    labelled: int
    positives: int
    unsure: int
    open: int
    inferred: int = 0  # among the labelled: implied by other labels, not given by anybody

    @property
    def answered(self) -> int:
        return self.labelled + self.unsure
