"""On what is an experiment run? One task with one encoder, and what all of its cells share.

Embeddings of the untrained encoder, its neighbour lists and the tokens of every text are made once for all
cells and kept under `OUT/shared` (or the --cache given), as artifacts named by what they were made from.
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

MEASURED = ("dev", "test")
NEARBY = 100  # neighbours of a text whose pairs count as nearby, as in the paper


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A task, an encoder, and how much is drawn where not every pair can be scored."""

    task_folder: Path
    encoder_name: str
    out: Path  # cells stand below it, results beside them
    left_prefix: str | None = None  # None: as the encoder is known to want it
    right_prefix: str | None = None
    learner: str = "auto"
    device: str = "auto"
    cache: Path | None = None
    near: int = NEARBY  # neighbours of a text whose pairs a slow model scores; the paper: 100
    random: int = 1_000_000  # random negatives beyond those; the paper: 10 million
    labels: Path | None = None  # a person's labels, for the experiment "manual"
    keep_models: bool = False  # otherwise a finished cell keeps figures, questions and answers only
    source: str = ""  # the command, as it is written beside each figure
    shared: ArtifactStore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shared", ArtifactStore(self.cache or self.out / "shared"))

    @cached_property
    def task(self) -> Task:
        return load_task(self.task_folder)

    @property
    def prefixes(self) -> tuple[str, str]:
        """What stands before left and right texts: as told, or as encoders of the E5 family were trained."""
        wanted = ("", "")
        if Path(self.encoder_name).name.lower().startswith("e5-"):
            wanted = ("query: ", "passage: " if self.task.relation == "directed" else "query: ")
        given = (self.left_prefix, self.right_prefix)
        left, right = (mine if told is None else told for told, mine in zip(given, wanted))
        return left, right

    @property
    def encoder_label(self) -> str:
        """The encoder's name as tables print it."""
        return Path(self.encoder_name).name

    @cached_property
    def encoder(self) -> Encoder:
        """The untrained encoder; its tokens serve every cell."""
        from pairsieve.models import encoder_named

        device = None if self.device == "auto" else self.device
        return encoder_named(self.encoder_name, 128, *self.prefixes, device)

    @property
    def trained_by(self) -> str:
        """The learner's name: of `auto`, what the device allows."""
        if self.learner != "auto":
            return self.learner
        return "full" if self.encoder.device.startswith("cuda") else "projection"

    def measurable(self) -> list[Split]:
        """The splits that are measured: dev and test, where every label is known."""
        parts = [self.task.splits[name] for name in MEASURED if name in self.task.splits]
        return [part for part in parts if part.has_truth and len(part.positives)]

    def rows(self, part: Split) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """The untrained encoder's rows of a split, as a campaign would name and keep them."""
        from pairsieve.distributed import embedded_rows

        made: list[Any] = []
        for side, texts in (("left", part.left), ("right", part.right)):
            if side == "right" and part.space.symmetric:
                made.append(None)
                continue
            prefix = self.encoder.prefix(side)
            key = {"encoder": self.encoder.fingerprint, "texts": texts.fingerprint, "prefix": prefix}
            made.append(embedded_rows(self.shared, key, self.encoder, texts.texts, side))
        return made[0], made[1]

    def scan(self, part: Split) -> Scan:
        """Every pair of a split by the untrained encoder's cosines."""
        from pairsieve.scan import open_scan

        return open_scan(part.space, *self.rows(part), device=self.device)

    def nearby(self, part: Split, count: int = NEARBY) -> tuple[Ids, NDArray[np.float32]]:
        """Negatives among each text's nearest by the untrained encoder, and how often lists name each.

        A pair of one collection counts 2 where each text is in the other's list: the released code's count.
        """
        key = {
            "encoder": self.encoder.fingerprint,
            "texts": [part.left.fingerprint, part.right.fingerprint],
            "truth": len(part.positives),
            "prefixes": list(self.prefixes),
            "neighbours": count,
        }
        place = self.shared.get("nearby", key, lambda folder: self._write_nearby(folder, part, count))
        return load_array(place / "ids.npy"), load_array(place / "times.npy")

    def _write_nearby(self, folder: Path, part: Split, count: int) -> None:
        most = part.space.shape[1] - part.space.symmetric
        columns, _ = self.scan(part).neighbours(min(count, most))
        ids, times = near_pairs(part.space, columns, part.positives, "ordered")
        save_array(folder / "ids.npy", ids)
        save_array(folder / "times.npy", times)
