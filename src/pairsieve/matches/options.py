"""How a list of matches is looked for, checked and written."""

from __future__ import annotations

from dataclasses import dataclass

from pairsieve.errors import InputError

CHECK_LABELS = 100


@dataclass(frozen=True)
class ListOptions:
    """How matches are looked for and written."""

    source: str | None = None  # what the threshold is chosen on; None is what fits
    search: str = "exact"
    one_to_one: bool = False
    texts: bool = False
    columns: bool = True  # the columns of the records, where the task has them
    known: bool = True  # labelled matches stay in the list, labelled non-matches out of it
    check_labels: int = (
        CHECK_LABELS  # asked for at most, to show that the list has the precision or recall wanted
    )
    confidence: float = 0.95  # of that
    as_table: bool = False  # of groups: the collection's own rows and columns, then the group
    grouped: bool = False  # the pairs inside the groups of `find_clusters`, not all above the threshold

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            remedy = "Give a share above 0 and below 1, such as 0.95"
            raise InputError(f"`confidence={self.confidence:g}`", remedy=remedy)
        if self.check_labels < 0:
            remedy = "Give how many labels may be asked at most; 0 for no check"
            raise InputError(f"`check_labels={self.check_labels}`", remedy=remedy)
