"""What do the verbs hand out? Small records that print, iterate, and show themselves in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pairsieve.campaign.notebook import html_table
from pairsieve.contracts import Estimate

if TYPE_CHECKING:
    from pairsieve.measure import Curve
    from pairsieve.report.facts import Missing

Folder: TypeAlias = Path | str
ROWS_SHOWN = 10  # of a list, in a notebook


@dataclass(frozen=True)
class Question:
    """A pair that waits for a label."""

    left_key: str
    right_key: str
    left_text: str
    right_text: str

    @property
    def pair(self) -> tuple[str, str]:
        """The two keys, as `answer_questions` wants them."""
        return self.left_key, self.right_key


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Figures over all pairs of a split, and the curve they come from; printed, a table for a person."""

    figures: dict[str, Any]
    curve: Curve

    @property
    def average_precision(self) -> Estimate:
        return Estimate(**self.figures["average_precision"])

    def plot(self, path: Folder) -> Path:
        """Draw the precision-recall curve as PNG."""
        from pairsieve.report.plots import check_plot, pr_curve

        check_plot(Path(path))
        held = self.figures
        title = f"{held['task']}, {held['split']}: {held['pairs']:,} pairs"
        pr_curve(
            self.curve,
            Path(path),
            title,
            pairs=held["pairs"],
            average_precision=held["average_precision"]["value"],
        )
        return Path(path)

    def __str__(self) -> str:
        from pairsieve.measure.figures import figures_table

        after = f"After round {self.figures['round']}. " if "round" in self.figures else ""
        return after + figures_table(self.figures)

    def __repr__(self) -> str:
        held = self.figures
        return f"<Evaluation of {held['task']}, {held['split']}: AP {self.average_precision.value:.4f}>"


@dataclass(frozen=True, eq=False)
class Listed:
    """A table that was written: where it lies, and the figures about it. Iterating reads its rows."""

    path: Path
    figures: dict[str, Any]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """One dictionary a row; numbers are numbers, an empty cell is None."""
        return self.rows()

    def rows(self, most: int | None = None) -> Iterator[dict[str, Any]]:
        """The first `most` rows, or all; a long list is not held in memory."""
        from pairsieve.matches.listing import read_list

        return read_list(self.path, most)

    def __len__(self) -> int:
        return int(self.figures["matches" if "matches" in self.figures else "texts"])

    def __repr__(self) -> str:
        return f"<{len(self):,} rows in {self.path}>"

    def _repr_html_(self) -> str:
        rows = list(self.rows(ROWS_SHOWN))
        columns = list(rows[0]) if rows else []
        words = [column for column in columns if not isinstance(rows[0][column], float)]
        more = f"The first {len(rows)}." if len(self) > len(rows) else ""
        cells = ([_cell(row[column]) for column in columns] for row in rows)
        return html_table(f"{self.path}: {len(self):,} rows", columns, cells, more, words)


@dataclass(frozen=True)
class Report:
    """A report that was written: its page, its pictures, and what it could not tell."""

    page: Path
    pictures: tuple[Path, ...]
    missing: tuple[Missing, ...]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)
