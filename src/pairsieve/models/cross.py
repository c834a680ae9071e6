"""The cross-encoder (the paper's ConcatBERT), which reads both texts of a pair at once.

A cross-encoder over the two texts joined by the tokeniser's separator, one logit, binary cross-entropy, with
the dropout of its architecture (paper, section on models: BERT, XLNet, RoBERTa and ALBERT). It cannot be
searched, so it scores given pairs only, and its average precision is estimated from sampled ones.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.errors import InputError
from pairsieve.models.cpu import batched
from pairsieve.models.encoder import TOKENS_PER_BATCH, Encoder, Tokens, as_float32, quietly, readable_errors
from pairsieve.models.export import write_json, write_transformer
from pairsieve.models.folders import NO_CODE, read_json, transformer_folder, weight_files
from pairsieve.models.interface import Rng, Sides, Texts, fingerprint_of
from pairsieve.models.training import DeviceTokens, TrainingSettings, additive, train
from pairsieve.pairs import Ids, Mask, Scores, pair_rows
from pairsieve.progress import bar
from pairsieve.tasks.joined import without_gaps

CROSS_FILE = "cross.json"
_PAIRS_AT_ONCE = 20_000  # tokenised together when scoring


@dataclass(frozen=True, eq=False)
class CrossEncoder:
    """Fine-tunes a fresh cross-encoder from `encoder`'s weights; its prefixes are not used."""

    encoder: Encoder
    training: TrainingSettings = field(default_factory=TrainingSettings)
    name: str = "cross"

    @property
    def fingerprint(self) -> str:
        """Names what it would make of the same labels and the same random numbers."""
        return fingerprint_of(self.name, self.encoder.fingerprint, dataclasses.asdict(self.training))

    def fit(self, texts: Sides, ids: Ids, labels: Mask, rng: Rng) -> CrossMatcher:
        """A matcher for pairs `ids` of two text lists."""
        network = _network(transformer_folder(self.encoder.folder), self.encoder, int(rng.integers(2**31)))
        matcher = CrossMatcher(self.encoder, network)
        job = _ConcatJob(matcher, *matcher.tokens(*texts, ids), np.asarray(labels, bool))
        network.train()
        train(job, self.training, rng, self.encoder.device)
        network.eval()
        return matcher


@dataclass(frozen=True, eq=False)
class CrossMatcher:
    """A trained cross-encoder: its logit of a pair depends on both texts together."""

    encoder: Encoder  # tokeniser, length and device; the weights are `network`'s
    network: Any

    def logits(self, left_texts: Texts, right_texts: Texts, ids: Ids) -> Scores:
        """(n,) float32 logits of the pairs `ids`, in the order given."""
        import torch

        device = self.encoder.device
        scores = np.empty(len(ids), dtype=np.float32)
        shown = bar(len(ids), "scoring", "pair")
        for first in range(0, len(ids), _PAIRS_AT_ONCE):
            some = ids[first : first + _PAIRS_AT_ONCE]
            gather = _Inputs(self, *self.tokens(left_texts, right_texts, some))
            with torch.no_grad():
                for rows in batched(gather.widths, TOKENS_PER_BATCH[device.split(":")[0]]):
                    width = int(gather.widths[rows[0]])
                    inputs = gather(torch.from_numpy(rows).to(device), width, prepared=False)
                    scores[first + rows] = self.network(**inputs)[0].squeeze(1).float().cpu().numpy()
                    shown.update(len(rows))
        shown.close()
        return scores

    def tokens(self, left_texts: Texts, right_texts: Texts, ids: Ids) -> tuple[Tokens, Tokens]:
        """Token ids and token types of the joined pairs; the longer text is cut first."""
        left, right = pair_rows(ids)
        tokenised = self.encoder.tokenizer(
            [without_gaps(left_texts[row]) for row in left.tolist()],
            [without_gaps(right_texts[row]) for row in right.tolist()],
            truncation="longest_first",
            max_length=self.encoder.max_length,
            return_attention_mask=False,
            return_token_type_ids=True,
        )
        return Tokens.of(tokenised["input_ids"]), Tokens.of(tokenised["token_type_ids"])

    def save(self, folder: Path) -> None:
        """A transformers folder: sequence classification with one label, in safetensors."""
        folder = Path(folder)
        write_transformer(folder, self.network, self.encoder)
        write_json(folder / CROSS_FILE, {"max_length": self.encoder.max_length, "encoder": self.encoder.name})


def load_cross(folder: Path | str, device: str | None = None) -> CrossMatcher:
    """The cross-encoder that `save` wrote into a folder."""
    folder = Path(folder)
    if not (folder / CROSS_FILE).is_file():
        raise InputError(
            f"no trained cross-encoder: {CROSS_FILE} is missing",
            where=str(folder),
            remedy="Name a folder that a cross-encoder's save() wrote",
        )
    weight_files(folder)
    about = read_json(folder / CROSS_FILE)
    encoder = Encoder(str(about["encoder"]), folder, int(about["max_length"]), requested_device=device)
    return CrossMatcher(encoder, _network(folder, encoder, seed=0))


class _Inputs:
    """What the network is called with for some rows of tokenised pairs."""

    def __init__(self, matcher: CrossMatcher, tokens: Tokens, types: Tokens) -> None:
        encoder, config = matcher.encoder, matcher.network.config
        # XLNet reads its answer off the last token, so its pairs are filled up on the left.
        left_padded = encoder.tokenizer.padding_side == "left"
        longest, device = encoder.max_length, encoder.device
        self.widths = tokens.lengths
        self._tokens = DeviceTokens(tokens, encoder.pad, device, longest, left_padded)
        # RoBERTa knows one type of token, DistilBERT none: neither marks which text a token is from.
        typed = config.model_type == "xlnet" or getattr(config, "type_vocab_size", 0) > 1
        self._types = DeviceTokens(types, 0, device, longest, left_padded) if typed else None

    def __call__(self, rows: Any, width: int, prepared: bool) -> dict[str, Any]:
        ids, mask = self._tokens(rows, width)
        inputs = {"input_ids": ids, "attention_mask": additive(mask) if prepared else mask}
        if self._types is not None:
            inputs["token_type_ids"] = self._types(rows, width)[0]
        return inputs


class _ConcatJob:
    """Binary cross-entropy of the network's one logit."""

    def __init__(self, matcher: CrossMatcher, tokens: Tokens, types: Tokens, labels: Mask) -> None:
        import torch

        self.networks = [matcher.network]
        self.kept: dict[str, Any] = {}
        self.longest = matcher.encoder.max_length
        self.widths = tokens.lengths
        self._inputs = _Inputs(matcher, tokens, types)
        self._labels = torch.from_numpy(labels.astype(np.float32)).to(matcher.encoder.device)

    def groups(self) -> list[tuple[list[Any], float]]:
        return [(list(self.networks[0].parameters()), 1.0)]

    def outputs(self, rows: Any, width: int, prepared: bool) -> Any:
        return self.networks[0](**self._inputs(rows, width, prepared))[0].squeeze(1).float()

    def loss(self, outputs: Any, rows: Any) -> Any:
        import torch

        return torch.nn.functional.binary_cross_entropy_with_logits(outputs, self._labels[rows])

    def settle(self) -> None:
        """Nothing is constrained."""

    def packed(self) -> None:
        """Its network sees both texts at once, with dropout: it runs as it is."""


def _network(folder: Path, encoder: Encoder, seed: int) -> Any:
    """A sequence classifier with one logit; what the folder lacks (the classifier) is drawn from `seed`."""
    import torch
    from transformers import AutoModelForSequenceClassification

    with quietly(), readable_errors(encoder.name, "weights"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = AutoModelForSequenceClassification.from_pretrained(
            str(folder), num_labels=1, use_safetensors=True, **NO_CODE, **as_float32()
        )
    return network.float().to(encoder.device).eval()
