"""CosineBERT: the whole encoder fine-tuned so that the cosine of two texts tells whether they match.

The paper's recipe (section on the model, appendix on training): fresh from the pre-trained encoder, no
dropout, the cosine normalised over the batch (no affine) before a head whose rate is 10⁴ times larger, w
kept at 0 or above; then the embeddings are frozen and the head is fitted to convergence on raw cosines.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.models.encoder import Encoder, Tokens, embed_tokens, pooled
from pairsieve.models.head import fit_head
from pairsieve.models.matchers import CosineMatcher
from pairsieve.models.training import DeviceTokens, TrainingSettings, additive, train
from pairsieve.pairs import Ids, pair_rows

NARROW = 512  # dimensions; below, the paper's rate for BERT-base moves too little
NARROW_RATE = (
    3e-5  # e5-small (12 layers): best of 3e-5, 5e-5, 1e-4 on WikiQA's dev split, three rounds, one seed
)
NARROW_SHALLOW_RATE = 1e-4  # MiniLM-L6 (6 layers)


def rate_for(encoder: Encoder) -> float:
    """The learning rate that suits the encoder's size: the paper's 2e-5 for BERT-base and larger."""
    if encoder.dimension >= NARROW:
        return TrainingSettings().learning_rate
    layers = int(encoder.config.get("num_hidden_layers", 12))
    return NARROW_SHALLOW_RATE if layers <= 6 else NARROW_RATE


@dataclass(frozen=True, eq=False)
class FullLearner:
    """Fine-tunes a fresh copy of `encoder` every time; two copies where the sides are not `shared`."""

    encoder: Encoder
    training: TrainingSettings = field(default_factory=TrainingSettings)
    head_weight: float = 10.0  # where w starts, over batch-normalised cosines; as the paper's released code
    head_bias: float = -50.0  # where b starts; so high that at first only the positives pull
    shared: bool = True  # False where the relation has a direction and both sides are one collection
    name: str = "full"

    @property
    def fingerprint(self) -> str:
        """Names what it would make of the same labels and the same random numbers."""
        settings = dataclasses.asdict(self.training)
        head = [self.head_weight, self.head_bias, self.shared]
        words = json.dumps([self.name, self.encoder.fingerprint, settings, head])
        return hashlib.sha256(words.encode()).hexdigest()

    def pretrained(self) -> CosineMatcher:
        """The encoder as it comes: its cosine is its logit."""
        return CosineMatcher(self.encoder, self.encoder)

    def fit(
        self,
        left_texts: Sequence[str],
        right_texts: Sequence[str],
        ids: Ids,
        labels: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> CosineMatcher:
        labels = np.asarray(labels, dtype=bool)
        left, right = pair_rows(ids)
        left_used, left = np.unique(left, return_inverse=True)
        right_used, right = np.unique(right, return_inverse=True)
        one = self.encoder.tokens([left_texts[row] for row in left_used], "left")
        other = self.encoder.tokens([right_texts[row] for row in right_used], "right")
        device = self.encoder.device
        networks = [self.encoder.fresh_network() for _ in range(1 if self.shared else 2)]
        if labels.any() and not labels.all():  # labels of one class leave nothing to tell apart
            job = _PairJob(self, networks, one, other, left, right, labels, device)
            train(job, self.training, rng, device)
        embedded = [
            embed_tokens(network.eval(), tokens, self.encoder.pad, device)
            for network, tokens in ((networks[0], one), (networks[-1], other))
        ]
        cosines = np.einsum("nd,nd->n", embedded[0][left], embedded[1][right])
        weight, bias = fit_head(cosines, labels)
        encoders = [self.encoder.with_network(network) for network in networks]
        words = f"{len(labels):,} labelled pairs, {int(labels.sum()):,} of them matches"
        return CosineMatcher(encoders[0], encoders[-1], weight, bias, self.name, words)


class _PairJob:
    """Cross-entropy of σ(w·z + b), where z is the cosine normalised over the batch."""

    def __init__(
        self,
        learner: FullLearner,
        networks: list[Any],
        left_tokens: Tokens,
        right_tokens: Tokens,
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        labels: NDArray[np.bool_],
        device: str,
    ) -> None:
        import torch

        self.longest = learner.encoder.max_length
        self.widths = np.maximum(left_tokens.lengths[left], right_tokens.lengths[right])
        both = _joined(left_tokens, right_tokens)
        self._tokens = DeviceTokens(both, learner.encoder.pad, device, self.longest)
        self._left = torch.from_numpy(left.astype(np.int64)).to(device)
        self._right = torch.from_numpy(right.astype(np.int64) + len(left_tokens.lengths)).to(device)
        self._labels = torch.from_numpy(labels.astype(np.float32)).to(device)
        self.networks = networks
        self._head_rate = learner.training.head_rate_factor
        self._weight = torch.tensor(learner.head_weight, device=device, requires_grad=True)
        self._bias = torch.tensor(learner.head_bias, device=device, requires_grad=True)

    def groups(self) -> list[tuple[list[Any], float]]:
        body = [parameter for network in self.networks for parameter in network.parameters()]
        return [(body, 1.0), ([self._weight, self._bias], self._head_rate)]

    def scores(self, rows: Any, width: int, prepared: bool) -> Any:
        """The cosines of the pairs."""
        import torch

        sides = (self._left[rows], self._right[rows])
        if len(self.networks) == 1:  # both sides in one pass: half the launches
            one, other = self._embed(self.networks[0], torch.cat(sides), width, prepared).chunk(2)
        else:
            one, other = (
                self._embed(network, side, width, prepared)
                for network, side in zip(self.networks, sides, strict=True)
            )
        return (one * other).sum(1)

    def loss(self, scores: Any, rows: Any) -> Any:
        import torch

        centred = scores - scores.mean()
        normalised = centred / (centred.square().mean() + 1e-5).sqrt()
        logits = self._weight * normalised + self._bias
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, self._labels[rows])

    def settle(self) -> None:
        import torch

        with torch.no_grad():
            self._weight.clamp_(min=0.0)

    def _embed(self, network: Any, rows: Any, width: int, prepared: bool) -> Any:
        ids, mask = self._tokens(rows, width)
        return pooled(network, ids, mask, additive(mask) if prepared else None)


def _joined(one: Tokens, other: Tokens) -> Tokens:
    """The texts of both, those of `other` numbered after those of `one`."""
    return Tokens(
        np.concatenate([one.ids, other.ids]),
        np.concatenate([one.starts, one.starts[-1] + other.starts[1:]]),
    )
