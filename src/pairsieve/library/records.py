"""Typed results of the library's functions; they print, iterate, and show themselves in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pairsieve.campaign.notebook import html_table
from pairsieve.contracts import Estimate
from pairsieve.errors import InputError, MissingExtra
from pairsieve.measure import Curve
from pairsieve.measure.figures import Figures, figures_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from pairsieve.audit.estimate import Limits
    from pairsieve.campaign.figures import AuditFigures
    from pairsieve.matches.figures import ClusterFigures, MatchFigures
    from pairsieve.report.facts import Missing

Folder: TypeAlias = Path | str
ROWS_SHOWN = 10  # of a list, in a notebook


class Record:
    """A dataclass whose fields are the figures that its command prints with --json."""

    def as_json(self) -> dict[str, Any]:
        return {name: _plain(value) for name, value in vars(self).items()}


def _plain(value: Any) -> Any:
    """A figure as JSON has it: paths as texts, records as objects, tuples as lists."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value) if isinstance(value, Path) else value


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


@dataclass(frozen=True)
class QuestionFile(Record):
    """Open questions that were written to files."""

    files: tuple[Path, ...]
    questions: int
    disagreements: int = 0  # of these, pairs on which people disagree


@dataclass(frozen=True)
class ImportedAnswers(Record):
    """What a file of answers brought into the ledger."""

    file: Path
    written: int  # answers
    known: int  # given before
    unanswered: int  # rows without a label
    cancelled: int
    by_person: dict[str, int]  # answers written
    waiting: int  # questions still open
    disagreements: int = 0  # of these, pairs on which people disagree
    checked: int = 0  # answers in the file to questions that check a list of matches
    checks_waiting: int = 0  # of the questions still open, those that check a list


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Figures over all pairs of a split, and the curve they come from; printed, a table for a person."""

    task: str
    split: str
    figures: Figures
    curve: Curve
    round: int | None = None  # of a campaign's model
    notes: tuple[str, ...] = ()  # what to know about how they were made

    @property
    def average_precision(self) -> Estimate:
        return self.figures.average_precision

    def plot(self, path: Folder) -> Path:
        """Draw the precision-recall curve as PNG."""
        from pairsieve.report.plots import check_plot, pr_curve

        check_plot(Path(path))
        pairs = self.figures.pairs
        title = f"{self.task}, {self.split}: {pairs:,} pairs"
        pr_curve(self.curve, Path(path), title, pairs=pairs, average_precision=self.average_precision.value)
        return Path(path)

    def as_json(self) -> dict[str, Any]:
        """As `pairsieve evaluate --json` prints it."""
        of_round = {} if self.round is None else {"round": self.round}
        return {"task": self.task, "split": self.split, **of_round, **self.figures.as_json()}

    def __str__(self) -> str:
        after = "" if self.round is None else f"After round {self.round}. "
        return after + figures_table(self.figures, self.task, self.split)

    def __repr__(self) -> str:
        return f"<Evaluation of {self.task}, {self.split}: AP {self.average_precision.value:.4f}>"


@dataclass(frozen=True)
class ExportedModel(Record):
    """A scorer that was written as a folder, and its average precision over all pairs of a split."""

    path: Path
    round: int
    weight: float
    bias: float
    reranked: bool
    split: str | None  # whose truth it was measured on; None where there is none
    held_out: bool
    average_precision: float | None  # of the whole scorer
    plain_average_precision: float | None  # of the sentence-transformers part alone
    calibrated: bool  # whether `scorer.probabilities` gives any

    def as_json(self) -> dict[str, Any]:
        figures = super().as_json()
        return {"model": figures.pop("path"), **figures}

    def figures(self) -> str:
        """Both average precisions in a sentence; empty where nothing was measured."""
        if self.split is None or self.average_precision is None:
            return ""
        caution = "" if self.held_out else " Not held out: these pairs could be asked about."
        return (
            f"Average precision over all pairs of {self.split}: {self.average_precision:.4f} with "
            f"load_scorer, {self.plain_average_precision:.4f} with SentenceTransformer alone.{caution}"
        )

    def probabilities(self) -> str:
        """Whether it has probabilities, in a sentence."""
        if self.calibrated:
            how = "calibrated on labels drawn with known chances; nan where they are too few"
            return f"`scorer.probabilities(scores)`: {how}."
        return "It gives scores and no probabilities: too few labels were drawn to calibrate them."

    def card(self) -> str:
        """What the model card says of the whole scorer."""
        parts = "neighbour smoothing and hubness correction" + (", and a re-ranker" if self.reranked else "")
        return f"""## The whole scorer

The sentence-transformers model is the plain part. pairsieve adds {parts}:

```python
import pairsieve

scorer = pairsieve.load_scorer("path/to/this/folder")
scores = scorer.scores(["first text", "second text"])  # pairs of one collection; or give two lists
```

{self.probabilities()}
{self.figures()}
"""

    def __str__(self) -> str:
        words = f"{self.path}: the scorer of round {self.round}. All of it: "
        words += f"pairsieve.load_scorer({str(self.path)!r}). Its plain part: "
        words += f"SentenceTransformer({str(self.path)!r})."
        return f"{words}\n{self.probabilities()}\n{self.figures()}".rstrip()


@dataclass(frozen=True)
class DrawnSample:
    """Pairs that were drawn for a slow scorer, in a Parquet file."""

    out: Path
    positive: int
    near: int
    random: int
    of: int  # pairs of the split

    @property
    def pairs(self) -> int:
        return self.positive + self.near + self.random

    def as_json(self) -> dict[str, Any]:
        counts = {"positive": self.positive, "near": self.near, "random": self.random}
        return {"out": str(self.out), "pairs": self.pairs, **counts}


@dataclass(frozen=True)
class Audit:
    """Figures of an audit, or while labels are missing how many; a figure is None until then."""

    state: str  # "waiting" or "audited"
    split: str
    waiting: int
    threshold: float | None
    precision: Estimate | None
    recall: Estimate | None
    average_precision: Estimate | None
    positives: Estimate | None  # matches within reach: see `pairsieve.audit.estimate`
    figures: AuditFigures = field(repr=False)  # with limits and strata

    @staticmethod
    def of(figures: AuditFigures) -> Audit:
        found = figures.result
        if found is None:
            return Audit("waiting", figures.split, figures.waiting, None, None, None, None, None, figures)
        return Audit(
            state="audited",
            split=figures.split,
            waiting=0,
            threshold=found.threshold,
            precision=_estimated(found.precision),
            recall=_estimated(found.recall),
            average_precision=_estimated(found.average_precision),
            positives=_estimated(found.positives),
            figures=figures,
        )

    def as_json(self) -> dict[str, Any]:
        """As `pairsieve audit --json` prints it."""
        return self.figures.as_json()


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold, and the precision and recall expected there; None where nothing is known."""

    threshold: float
    precision: Estimate | float | None
    recall: Estimate | float | None


@dataclass(frozen=True, eq=False)
class WrittenTable:
    """A table that was written: where it lies, and the figures about it. Iterating reads its rows."""

    path: Path
    figures: MatchFigures | ClusterFigures

    @property
    def split(self) -> str:
        return self.figures.ranked.split

    @property
    def operating_point(self) -> OperatingPoint:
        chosen = self.figures.threshold
        if chosen is None:
            raise self._not_written()
        precision, recall = (
            each if isinstance(each, float) else _estimated(each)
            for each in (chosen.precision, chosen.recall)
        )
        return OperatingPoint(chosen.point.threshold, precision, recall)

    def as_json(self) -> dict[str, Any]:
        """As the command prints it with --json."""
        return self.figures.as_json()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """One dictionary a row; numbers are numbers, an empty cell is None."""
        return self.rows()

    def rows(self, most: int | None = None) -> Iterator[dict[str, Any]]:
        """The first `most` rows, or all; a long list is not held in memory."""
        from pairsieve.matches.listing import NUMBERS, read_list

        if not self.path.exists():
            raise self._not_written()
        return read_list(self.path, most, self.figures.columns or NUMBERS)

    def _not_written(self) -> InputError:
        what, remedy = "the list is not written yet", "Answer the questions that wait, and call it again"
        return InputError(what, where=str(self.path), remedy=remedy)

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table; a missing value is null."""
        import pyarrow as pa

        types = self.figures.columns
        columns: dict[str, list[Any]] = {name: [] for name in types}
        for row in self.rows():
            for name in types:
                columns[name].append(None if row[name] == "" else row[name])
        return pa.table({n: pa.array(columns[n], pa.type_for_alias(kind)) for n, kind in types.items()})

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame."""
        try:
            import pandas  # noqa: F401
        except ModuleNotFoundError:
            raise MissingExtra("pandas", "to_pandas", "pip install 'pairsieve[pandas]'") from None
        return self.to_arrow().to_pandas()

    def __len__(self) -> int:
        return self.figures.rows

    def __repr__(self) -> str:
        return f"<{len(self):,} rows in {self.path}>"

    def _repr_html_(self) -> str:
        rows = list(self.rows(ROWS_SHOWN))
        columns = list(rows[0]) if rows else []
        words = [column for column in columns if not isinstance(rows[0][column], float)]
        more = f"The first {len(rows)}." if len(self) > len(rows) else ""
        cells = ([_cell(row[column]) for column in columns] for row in rows)
        return html_table(f"{self.path}: {len(self):,} rows", columns, cells, more, words)


@dataclass(frozen=True, eq=False, repr=False)
class MatchList(WrittenTable):
    """The matches of a collection, best first."""

    figures: MatchFigures

    @property
    def waiting(self) -> int:
        """Labels that people owe before the list is written; 0 where it is."""
        return self.figures.waiting

    @property
    def pairs(self) -> int:
        """Pairs that were searched."""
        return self.figures.pairs


@dataclass(frozen=True, eq=False, repr=False)
class ClusterList(WrittenTable):
    """The group of every text of a collection, or its merged records."""

    figures: ClusterFigures

    @property
    def clusters(self) -> int:
        """Groups of two texts or more."""
        return self.figures.clusters


@dataclass(frozen=True)
class Report(Record):
    """A report that was written: its page, its pictures, its main figures, and what it could not tell."""

    page: Path
    pictures: tuple[Path, ...]
    split: str | None  # None where there is none to measure
    round: int  # of the model shown; 0 where none is trained
    labels: int
    positives: int
    average_precision: Estimate | None
    missing: tuple[Missing, ...]

    def as_json(self) -> dict[str, Any]:
        figures = super().as_json()
        return {"report": figures.pop("page"), **figures}


def _estimated(figure: Estimate | Limits | float | None) -> Estimate | None:
    """None of a figure that has limits alone, or no interval."""
    return figure if isinstance(figure, Estimate) else None


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)
