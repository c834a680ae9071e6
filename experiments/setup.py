"""Setup of an experiment: one task with one encoder, and the embeddings and neighbours that all runs share.

Embeddings of the untrained encoder, its neighbour lists and the tokens of every text are computed once for
all runs and kept under `OUT/shared` (or --cache), as artifacts named by what they were computed from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore, load_array, save_array
from pairsieve.measure.sampling import near_pairs
from pairsieve.pairs import Ids
from pairsieve.tasks import Split, Task, load_task

if TYPE_CHECKING:
    from pairsieve.models import Encoder
    from pairsieve.scan import Scan

MEASURED_SPLITS = ("dev", "test")
NEARBY = 100  # neighbours of a text whose pairs count as nearby, as in the paper


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A task, an encoder, what is measured, and the sample sizes where not every pair can be scored."""

    task_folder: Path
    encoder_name: str
    out: Path  # folder of the results; runs are in a folder below it
    measured_splits: tuple[str, ...] = MEASURED_SPLITS
    left_prefix: str | None = None  # None: as the encoder was trained
    right_prefix: str | None = None
    learner: str = "auto"
    device: str = "auto"
    cache: Path | None = None
    near: int = NEARBY  # neighbours of a text whose pairs a slow model scores; the paper: 100
    random: int = 1_000_000  # random negatives beyond those; the paper: 10 million
    labels: Path | None = None  # a person's labels, for the experiment "manual"
    keep_models: bool = False  # otherwise a finished run keeps its figures and its ledger
    source: str = ""  # the command, stored beside each figure
    shared: ArtifactStore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shared", ArtifactStore(self.cache or self.out / "shared"))

    @cached_property
    def task(self) -> Task:
        return load_task(self.task_folder)

    @property
    def prefixes(self) -> tuple[str, str]:
        """Prefixes of left and right texts: as given, or as encoders of the E5 family were trained."""
        usual = ("", "")
        if Path(self.encoder_name).name.lower().startswith("e5-"):
            usual = ("query: ", "passage: " if self.task.relation == "directed" else "query: ")
        given = (self.left_prefix, self.right_prefix)
        left, right = (default if prefix is None else prefix for prefix, default in zip(given, usual))
        return left, right

    @property
    def encoder_label(self) -> str:
        """The encoder's name as tables print it."""
        return Path(self.encoder_name).name

    @cached_property
    def encoder(self) -> Encoder:
        """The untrained encoder; all runs share its cache of tokens."""
        from pairsieve.models import encoder_named

        device = None if self.device == "auto" else self.device
        encoder = encoder_named(self.encoder_name, 128, *self.prefixes, device)
        encoder.token_cache.store = self.shared  # one process tokenises, the others read
        return encoder

    @property
    def learner_name(self) -> str:
        """The learner's name: of `auto`, what the device allows."""
        if self.learner != "auto":
            return self.learner
        return "full" if self.encoder.device.startswith("cuda") else "projection"

    def measurable(self) -> list[Split]:
        """The measured splits that the task has, where every label is known."""
        splits = [self.task.splits[name] for name in self.measured_splits if name in self.task.splits]
        return [split for split in splits if split.has_truth and len(split.positives)]

    def rows(self, split: Split) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """The untrained encoder's rows of a split, named and stored as a campaign does."""
        from pairsieve.models import cached_embeddings

        rows: list[Any] = []
        for side, texts in (("left", split.left), ("right", split.right)):
            if side == "right" and split.space.symmetric:
                rows.append(None)
                continue
            prefix = self.encoder.prefix(side)
            key = {"encoder": self.encoder.fingerprint, "texts": texts.fingerprint, "prefix": prefix}
            rows.append(cached_embeddings(self.shared, key, self.encoder, texts.texts, side))
        return rows[0], rows[1]

    def scan(self, split: Split) -> Scan:
        """Every pair of a split by the untrained encoder's cosines."""
        from pairsieve.scan import open_scan

        return open_scan(split.space, *self.rows(split), device=self.device)

    def nearby(self, split: Split, count: int = NEARBY) -> tuple[Ids, NDArray[np.float32]]:
        """Negatives among each text's nearest by the untrained encoder, and how often lists name each.

        A pair of one collection counts 2 where each text is in the other's list: the released code's count.
        """
        key = {
            "encoder": self.encoder.fingerprint,
            "texts": [split.left.fingerprint, split.right.fingerprint],
            "truth": len(split.positives),
            "prefixes": list(self.prefixes),
            "neighbours": count,
        }
        place = self.shared.get("nearby", key, lambda folder: self._write_nearby(folder, split, count))
        return load_array(place / "ids.npy"), load_array(place / "times.npy")

    def _write_nearby(self, folder: Path, split: Split, count: int) -> None:
        most = split.space.shape[1] - split.space.symmetric
        columns, _ = self.scan(split).neighbours(min(count, most))
        ids, times = near_pairs(split.space, columns, split.positives, "ordered")
        save_array(folder / "ids.npy", ids)
        save_array(folder / "times.npy", times)
