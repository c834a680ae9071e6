"""The projection learner: a linear map trained over the rows of a frozen encoder, without a GPU.

The encoder stays frozen. A square matrix M, the identity at the start, is trained so that the cosine of
M·u and M·v tells matches from the rest: cross-entropy on `scale·cos + bias`, with an L2 pull of M towards
the identity, and with coordinates of u and v dropped at random (the same ones on both sides of a pair),
which keeps M from leaning on few of them. A round takes seconds. The head is then fitted as for every
matcher.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pairsieve.models.cpu import threads_each
from pairsieve.models.encoder import Embeddings, Encoder
from pairsieve.models.head import fit_head
from pairsieve.models.interface import Rng, RowSides, Sides, fingerprint_of
from pairsieve.models.matchers import ProjectionMatcher, load_map
from pairsieve.pairs import Ids, Mask, pair_rows


@dataclass(frozen=True, kw_only=True)
class ProjectionSettings:
    """Chosen on WikiQA's dev split with the bundled encoder; see `fit_maps` for the loss."""

    scale: float = 20.0  # of the cosine inside the loss at the start; it is trained along
    learning_rate: float = 2e-3  # Adam, of the map; warmed up over 10 % of the steps, then down to 0
    head_rate: float = 0.05  # Adam, of scale and bias
    epochs: int = 5
    batch_size: int = 256  # pairs
    drop: float = 0.2  # share of coordinates dropped in a training step
    pull: float = 3e-4  # weight of the squared distance between the map and the identity
    shared: bool = True  # one map for both sides; False: a relation with a direction in one collection


@dataclass(frozen=True, eq=False)
class ProjectionLearner:
    """Trains a map over `encoder`'s frozen embeddings."""

    encoder: Encoder
    settings: ProjectionSettings = field(default_factory=ProjectionSettings)
    name: str = "projection"
    uses_frozen_rows: ClassVar[bool] = True

    @property
    def fingerprint(self) -> str:
        """Names what it would make of the same labels and the same random numbers."""
        return fingerprint_of(self.name, self.encoder.fingerprint, dataclasses.asdict(self.settings))

    def pretrained(self) -> ProjectionMatcher:
        """The frozen encoder itself: its cosine is its logit."""
        return ProjectionMatcher(self.encoder)

    def fit(self, texts: Sides, ids: Ids, labels: Mask, rng: Rng, rows: RowSides = None) -> ProjectionMatcher:
        """Without `rows`, the texts that stand in labelled pairs are embedded."""
        left, right = pair_rows(ids)
        if rows is not None:
            return self._fit_rows(rows[0][left], rows[1][right], labels, rng)
        left_used, left = np.unique(left, return_inverse=True)
        right_used, right = np.unique(right, return_inverse=True)
        left_rows = self.encoder.embed([texts[0][row] for row in left_used], "left")
        right_rows = self.encoder.embed([texts[1][row] for row in right_used], "right")
        return self._fit_rows(left_rows[left], right_rows[right], labels, rng)

    def load(self, folder: Path) -> ProjectionMatcher:
        return load_map(folder, self.encoder)

    def _fit_rows(
        self, left: Embeddings, right: Embeddings, labels: Mask, rng: np.random.Generator
    ) -> ProjectionMatcher:
        labels = np.asarray(labels, dtype=bool)
        left_map, right_map = fit_maps(left, right, labels, self.settings, rng)
        trained_on = f"{len(labels):,} labelled pairs, {int(labels.sum()):,} of them matches"
        matcher = ProjectionMatcher(self.encoder, left_map, right_map, trained_on=trained_on)
        cosines = np.einsum("nd,nd->n", matcher.transform(left, "left"), matcher.transform(right, "right"))
        return matcher.with_head(*fit_head(cosines, labels))


def fit_maps(
    left: Embeddings, right: Embeddings, labels: Mask, settings: ProjectionSettings, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The left and right maps (d, d), the same array where shared.

    left, right: (n, d) unit rows of the labelled pairs; labels: (n,) bool. Minimises
    `mean(CE(scale·cos(M u, M v) + bias)) + pull·|M - I|²` by Adam over shuffled batches. With labels of one
    class there is nothing to tell apart, and the identity is returned.
    """
    import torch

    dimension = left.shape[1]
    if labels.all() or not labels.any():
        identity = np.eye(dimension, dtype=np.float32)
        return identity, identity if settings.shared else identity.copy()
    with threads_each(1):  # small matrices: more gain little alone, and wait for each other where it is busy
        u, v = torch.from_numpy(np.ascontiguousarray(left)), torch.from_numpy(np.ascontiguousarray(right))
        y = torch.from_numpy(labels.astype(np.float32))
        eye = torch.eye(dimension)
        maps = [eye.clone().requires_grad_() for _ in range(1 if settings.shared else 2)]
        scale = torch.tensor([settings.scale], requires_grad=True)
        start = -settings.scale * _cut(left, right, labels)
        bias = torch.tensor([start], dtype=torch.float32, requires_grad=True)
        optimiser = torch.optim.Adam(
            [{"params": maps}, {"params": [scale, bias]}], lr=settings.learning_rate, betas=(0.9, 0.99)
        )
        rates = (settings.learning_rate, settings.head_rate)
        draw = torch.Generator().manual_seed(int(rng.integers(2**62)))
        count = len(y)
        steps = settings.epochs * -(-count // settings.batch_size)
        step = 0
        for _ in range(settings.epochs):
            order = rng.permutation(count)
            for first in range(0, count, settings.batch_size):
                batch = torch.from_numpy(order[first : first + settings.batch_size])
                warm = min(1.0, (step + 1) / (0.1 * steps + 1.0))
                for group, rate in zip(optimiser.param_groups, rates, strict=True):
                    group["lr"] = rate * warm * (1.0 - step / steps)
                step += 1
                one, other = u[batch], v[batch]
                if settings.drop > 0.0:
                    kept = torch.rand(one.shape, generator=draw) >= settings.drop
                    one, other = one * kept, other * kept
                cosines = torch.nn.functional.cosine_similarity(one @ maps[0].T, other @ maps[-1].T)
                loss = torch.nn.functional.binary_cross_entropy_with_logits(scale * cosines + bias, y[batch])
                for matrix in maps:
                    loss = loss + settings.pull * (matrix - eye).square().sum()
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        left_map = maps[0].detach().numpy().copy()
        return left_map, left_map if settings.shared else maps[1].detach().numpy().copy()


def _cut(left: Embeddings, right: Embeddings, labels: Mask) -> float:
    """The cosine above which as many labelled pairs lie as match: where the bias starts the boundary."""
    cosines = np.einsum("nd,nd->n", left, right)
    return float(np.quantile(cosines, 1.0 - float(labels.mean())))
