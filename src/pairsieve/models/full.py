"""The full learner (the paper's CosineBERT): the whole encoder fine-tuned on the cosine of two texts.

The paper's recipe (section on the model, appendix on training): fresh from the pre-trained encoder, no
dropout, the cosine normalised over the batch (no affine) before a head whose rate is 10⁴ times larger, w
kept at 0 or above; then the embeddings are frozen and the head is fitted to convergence on raw cosines.
"""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairsieve.models.encoder import Encoder, Tokens, embed_tokens, pooled
from pairsieve.models.head import fit_head, head_loss
from pairsieve.models.interface import Matcher, Rng, RowSides, Sides, fingerprint_of
from pairsieve.models.matchers import CosineMatcher, load_matcher
from pairsieve.models.training import DeviceTokens, TrainingSettings, additive, train
from pairsieve.pairs import Ids, Mask, Rows, pair_rows
from pairsieve.tasks.truth import components

if TYPE_CHECKING:
    from pairsieve.models.packed import PackedNetwork

NARROW = 512  # dimensions; below, the paper's rate for BERT-base moves too little
NARROW_RATE = 3e-5  # e5-small (12 layers): best of 3e-5, 5e-5, 1e-4 on WikiQA's dev split, one seed
NARROW_SHALLOW_RATE = 1e-4  # MiniLM-L6 (6 layers)
BEST_FASTER = 10 / 3  # times the paper's rate, for batches four times larger
BEST_FASTEST = 2e-4
SLOWER = (0.5, 0.25)  # times the rate, where a training went wrong: it is tried again so often
AVERAGED = 4  # trainings whose weights the best recipe averages, on CUDA, where they cost seconds
AVERAGED_UP_TO = 100_000  # labels up to which it does

# What each recipe changes of `TrainingSettings` and `LossSettings` (those as they stand are the paper's).
# "best" was chosen on qqp-174k's dev split with e5-small, one change at a time
# (`experiments/bench/training_ablation.py`).
RECIPES: dict[str, dict[str, Any]] = {
    "paper": {},
    "best": {
        "batch_size": 64,
        "steps": 32,
        "normalised": "frozen",
        "head_weight": 3.0,
        "head_bias": 0.0,
        "in_batch_negatives": 1.0,
        "pretrained_share": 0.3,
        "few": 30.0,
    },
}


def settings_for(encoder: Encoder, recipe: str) -> dict[str, Any]:
    """What a recipe changes of `TrainingSettings` and `LossSettings` for this encoder, on its device."""
    changed = {"learning_rate": rate_for(encoder, recipe), **RECIPES[recipe]}
    if recipe == "best" and encoder.device.startswith("cuda"):
        changed["trainings"] = AVERAGED
    return changed


def rate_for(encoder: Encoder, recipe: str = "paper") -> float:
    """The learning rate that suits the encoder's size: the paper's 2e-5 for BERT-base and larger."""
    if encoder.dimension >= NARROW:
        rate = TrainingSettings().learning_rate
    else:
        layers = int(encoder.config.get("num_hidden_layers", 12))
        rate = NARROW_SHALLOW_RATE if layers <= 6 else NARROW_RATE
    return rate if recipe == "paper" else min(BEST_FASTEST, BEST_FASTER * rate)


@dataclass(frozen=True, kw_only=True)
class LossSettings:
    """What is asked of the cosines. As it stands: the paper's, over batch-normalised cosines."""

    normalised: str = "batch"  # over each "batch", or once, by the "frozen" encoder's cosines
    head_weight: float = 10.0  # where w starts, over normalised cosines; as the paper's released code
    head_bias: float = -50.0  # where b starts; so high that at first only the positives pull
    in_batch_negatives: float = 0.0  # weight of pairs that meet in a batch, taken for non-matches
    pretrained_share: float = 0.0  # share of the pre-trained weights in the mixture that is kept in the end
    few: float = 0.0  # labels of the rarer class that let go only half as much
    trainings: int = 1  # whose weights are averaged, each in its own random order

    def share_kept(self, labels: Mask) -> float:
        """The share that is kept: `pretrained_share`, and more where labels of one class are too few."""
        rarer = min(int(labels.sum()), int((~labels).sum()))
        return 1.0 - (1.0 - self.pretrained_share) * rarer / (rarer + self.few)


@dataclass(frozen=True, eq=False)
class FullLearner:
    """Fine-tunes a fresh copy of `encoder` every time; two copies where the sides are not `shared`."""

    encoder: Encoder
    training: TrainingSettings = field(default_factory=TrainingSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    shared: bool = True  # False where the relation has a direction and both sides are one collection
    name: str = "full"
    uses_frozen_rows: ClassVar[bool] = False

    @property
    def fingerprint(self) -> str:
        """Names what it would make of the same labels and the same random numbers."""
        settings = [dataclasses.asdict(self.training), dataclasses.asdict(self.loss), self.shared]
        return fingerprint_of(self.name, self.encoder.fingerprint, settings)

    def _fresh(self) -> list[Any]:
        """Networks to train: one, or one for each side."""
        return [self.encoder.fresh_network() for _ in range(1 if self.shared else 2)]

    def pretrained(self) -> CosineMatcher:
        """The encoder as it comes: its cosine is its logit."""
        return CosineMatcher(self.encoder, self.encoder)

    def fit(self, texts: Sides, ids: Ids, labels: Mask, rng: Rng, rows: RowSides = None) -> CosineMatcher:
        """`rows` are not used: the whole encoder is trained from the texts."""
        labels = np.asarray(labels, dtype=bool)
        left, right = pair_rows(ids)
        groups = positive_groups(left, right, labels, texts[0] is texts[1])
        one, other = self.encoder.tokens(texts[0], "left"), self.encoder.tokens(texts[1], "right")
        return self.fit_tokens(one, other, left, right, labels, rng, groups)

    def fit_tokens(
        self,
        one: Tokens,
        other: Tokens,
        left: Rows,
        right: Rows,
        labels: Mask,
        rng: np.random.Generator,
        groups: tuple[Rows, Rows],
    ) -> CosineMatcher:
        """Fit to pairs of rows of tokenised texts; `groups` of each pair's sides: see `positive_groups`."""
        device = self.encoder.device

        def cosines_of(networks: list[Any]) -> NDArray[np.float32]:
            return _cosines(networks, one, other, left, right, self.encoder.pad, device)

        networks = self._fresh()
        cosines = cosines_of(networks)
        if labels.any() and not labels.all():  # labels of one class leave nothing to tell apart
            job = _PairJob(self, networks, one, other, left, right, labels, groups, device, cosines)
            untrained = head_loss(cosines, labels)

            def trained(slower: float) -> Trained:
                job.restart(self.encoder.network)
                rate = slower * self.training.learning_rate
                train(job, dataclasses.replace(self.training, learning_rate=rate), rng, device)
                after = cosines_of(networks)
                return Trained(head_loss(after, labels), copy.deepcopy(networks), after)

            count = self.loss.trainings if len(labels) <= AVERAGED_UP_TO else 1
            kept = sound([trained(1.0) for _ in range(count)], untrained)
            for slower in SLOWER:
                kept = kept or sound([trained(slower)], untrained)
            job.restart(self.encoder.network)
            job.kept.clear()  # graphs and buffers, which know the job
            if kept:
                networks, cosines = _average([each.networks for each in kept]), kept[0].cosines
                if self.loss.pretrained_share:
                    _interpolate(networks, self.encoder.network, self.loss.share_kept(labels))
                if len(kept) > 1 or self.loss.pretrained_share:
                    cosines = cosines_of(networks)
        weight, bias = fit_head(cosines, labels)
        encoders = [self.encoder.with_network(network) for network in networks]
        trained_on = f"{len(labels):,} labelled pairs, {int(labels.sum()):,} of them matches"
        return CosineMatcher(encoders[0], encoders[-1], weight, bias, self.name, trained_on)

    def load(self, folder: Path) -> Matcher:
        matcher = load_matcher(folder, self.encoder.requested_device)
        for side in ("left", "right"):  # the same texts, the same tokeniser: tokenised once
            matcher.encoder_for(side).token_cache = self.encoder.token_cache
        return matcher


@dataclass(frozen=True, eq=False)
class Trained:
    """Networks after one training, the cosines of its pairs, and the loss of a head fitted to these."""

    loss: float
    networks: list[Any]
    cosines: NDArray[np.float32]


def sound(trained: list[Trained], untrained: float) -> list[Trained]:
    """The trainings whose head lost at most half of what training gained.

    Now and then a training ends in embeddings that are all alike. The paper's released code trains again
    where the loss stays above 0.6; here the loss of the encoder as it came, `untrained`, is the measure, and
    that of the other trainings.
    """
    losses = [each.loss for each in trained if each.loss <= untrained]
    if not losses:
        return []
    limit = (float(np.median(losses)) + untrained) / 2.0
    return [each for each in trained if each.loss <= limit]


def _average(trained: list[list[Any]]) -> list[Any]:
    """The networks of the first training with the mean of the weights of all (Wortsman et al., ICML 2022)."""
    import torch

    with torch.no_grad():
        for sides in zip(*trained, strict=True):
            for parameters in zip(*(network.parameters() for network in sides), strict=True):
                for count, parameter in enumerate(parameters[1:], 2):
                    parameters[0].lerp_(parameter, 1.0 / count)
    return trained[0]


def _interpolate(networks: list[Any], before: Any, share: float) -> None:
    """Put the weights of each network `share` of the way back towards those it began with."""
    import torch

    with torch.no_grad():
        for network in networks:
            for parameter, first in zip(network.parameters(), before.parameters(), strict=True):
                parameter.lerp_(first, share)


def positive_groups(left: Rows, right: Rows, labels: Mask, same: bool) -> tuple[Rows, Rows]:
    """An integer for each side of each pair, equal where labelled matches join the two texts.

    `left` and `right` are rows of the collections, of one collection where they are the `same`.
    """
    far = right if same else right + (int(left.max()) + 1 if len(left) else 0)
    count = int(max(left.max(initial=-1), far.max(initial=-1))) + 1
    group = components(count, left[labels], far[labels])
    return group[left], group[far]


def _cosines(
    networks: list[Any], one: Tokens, other: Tokens, left: Rows, right: Rows, pad: int, device: str
) -> NDArray[np.float32]:
    """Cosines of pairs of rows; only texts that stand in a pair are embedded."""

    def rows_of(network: Any, tokens: Tokens, rows: Rows) -> NDArray[np.float32]:
        used, at = np.unique(rows, return_inverse=True)
        return embed_tokens(network.eval(), tokens.take(used), pad, device)[at]

    if one is other and len(networks) == 1:
        sides = np.split(rows_of(networks[0], one, np.concatenate([left, right])), 2)
    else:
        sides = [rows_of(networks[0], one, left), rows_of(networks[-1], other, right)]
    return np.einsum("nd,nd->n", *sides)


class _PairJob:
    """Cross-entropy of σ(w·z + b), z the normalised cosine, and what else the loss settings ask for."""

    def __init__(
        self,
        learner: FullLearner,
        networks: list[Any],
        left_tokens: Tokens,
        right_tokens: Tokens,
        left: Rows,
        right: Rows,
        labels: Mask,
        groups: tuple[Rows, Rows],
        device: str,
        frozen: NDArray[np.float32],
    ) -> None:
        """`frozen`: the cosines of the pairs by the encoder as it came."""
        import torch

        self.kept: dict[str, Any] = {}
        self.longest = learner.encoder.max_length
        self.widths = np.maximum(left_tokens.lengths[left], right_tokens.lengths[right])
        self._both = _joined(left_tokens, right_tokens)
        self._pad, self._device = learner.encoder.pad, device
        self._tokens = DeviceTokens(self._both, self._pad, device, self.longest)
        self._texts = np.stack([left, right + len(left_tokens.lengths)], axis=1).astype(np.int64)
        self._sides = torch.from_numpy(self._texts).to(device)
        self._labels = torch.from_numpy(labels.astype(np.float32)).to(device)
        self._groups = [torch.from_numpy(group).to(device) for group in groups]
        self.networks = networks
        self._loss, self._head_rate = learner.loss, learner.training.head_rate_factor
        self._centre, self._spread = 0.0, 1.0
        if learner.loss.normalised == "frozen":
            self._centre, self._spread = float(frozen.mean()), float(frozen.std()) + 1e-5
        self._weight = torch.tensor(float(self._loss.head_weight), device=device, requires_grad=True)
        self._bias = torch.tensor(float(self._loss.head_bias), device=device, requires_grad=True)

    def restart(self, before: Any) -> None:
        """Put the networks back to the weights of `before`, and the head to where it begins; in place."""
        import torch

        with torch.no_grad():
            for network in self.networks:
                for parameter, first in zip(network.parameters(), before.parameters(), strict=True):
                    parameter.copy_(first)
            self._weight.fill_(self._loss.head_weight)
            self._bias.fill_(self._loss.head_bias)

    def groups(self) -> list[tuple[list[Any], float]]:
        body = [parameter for network in self.networks for parameter in network.parameters()]
        return [(body, 1.0), ([self._weight, self._bias], self._head_rate)]

    def packed(self) -> tuple[PackedNetwork, Tokens, Rows, int] | None:
        if len(self.networks) > 1:
            return None
        from pairsieve.models.packed import packed_network

        if "network" not in self.kept:
            self.kept["network"] = packed_network(self.networks[0], self._device, self._both, self._pad)
        network = self.kept["network"]
        return None if network is None else (network, self._both, self._texts, self._pad)

    def outputs(self, rows: Any, width: int, prepared: bool) -> Any:
        """Unit rows (2b, d): those of all left texts, then those of all right texts."""
        import torch

        sides = self._sides[rows].T
        if len(self.networks) == 1:  # both sides in one pass: half the launches
            return self._embed(self.networks[0], sides.flatten(), width, prepared)
        both = zip(self.networks, sides, strict=True)
        return torch.cat([self._embed(network, side, width, prepared) for network, side in both])

    def loss(self, outputs: Any, rows: Any) -> Any:
        import torch

        cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
        settings, labels = self._loss, self._labels[rows]
        one, other = outputs.chunk(2)
        cosines = (one * other).sum(1)
        if settings.normalised == "batch":
            centre = cosines.mean()
            spread = ((cosines - centre).square().mean() + 1e-5).sqrt()
        else:
            centre, spread = self._centre, self._spread
        total = cross_entropy(self._weight * ((cosines - centre) / spread) + self._bias, labels)
        if not settings.in_batch_negatives:
            return total
        table = one @ other.T  # (b, b): every left text of the batch with every right one
        negative = self._groups[0][rows][:, None] != self._groups[1][rows][None, :]
        negative.fill_diagonal_(False)
        apart = negative.to(table.dtype)
        logits = self._weight * ((table - centre) / spread) + self._bias
        each = torch.nn.functional.softplus(logits) * apart
        return total + settings.in_batch_negatives * each.sum() / apart.sum().clamp(min=1.0)

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
        np.concatenate([one.ids, other.ids]), np.concatenate([one.starts, one.starts[-1] + other.starts[1:]])
    )
