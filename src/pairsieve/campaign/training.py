"""Trains a round's matcher and makes its scorer from the labels; both are kept as artifacts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore, array_digest, key_digest, labels_digest, load_array, save_array
from pairsieve.campaign.scoring import SplitScorer
from pairsieve.contracts import generator_for
from pairsieve.errors import InputError
from pairsieve.files import atomic_folder, load_json
from pairsieve.measure.curve import curve_from_scores, measure_exactly
from pairsieve.models import CrossEncoder, CrossMatcher, Learner, Matcher, TrainingSettings
from pairsieve.models.full import rate_for
from pairsieve.models.head import cross_fitted_log_odds, fit_head, fold_of
from pairsieve.pairs import Ids, is_member, pair_rows
from pairsieve.reranker import fit_lexical, hybrid_rows, lexical_rows
from pairsieve.reranker.fields import find_layout
from pairsieve.reranker.fit import Base, enough_labels, fit_reranker
from pairsieve.reranker.saving import load_reranker, save_reranker
from pairsieve.scan import Scan
from pairsieve.scorer import Corrections, ExactNeighbours, Scorer, correct_rows, make_corrections, save_scorer
from pairsieve.scorer.corrections import HUBNESS_STRENGTH, SMOOTHING_STRENGTH, similarity_floor
from pairsieve.scorer.scorer import out_of_fold_scores
from pairsieve.search import ExactSearch, PairSearch
from pairsieve.settings import CampaignSettings
from pairsieve.tasks import Split

RERANK_UP_TO = 200_000  # texts a side up to which a re-ranker is tried
TRAINED_AGAIN_UP_TO = 3_000  # labels up to which a whole encoder is trained again for each fold
CROSS_EPOCHS = 4  # over the labels
_PAIRS_AT_ONCE = 1 << 16  # pairs whose rows are multiplied together

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Labels:
    """Labelled pairs of the asked split up to a round, sorted by id; of round 0 where there is none."""

    ids: Ids
    values: Mask
    round: int


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Labelled pairs with the log-odds (n,) that models give them which did not see their left text.

    `average_precision`: of the labelled pairs under each kind of scorer that was tried.
    """

    ids: Ids
    labels: Mask
    log_odds: NDArray[np.float64]
    average_precision: Mapping[str, float]


@dataclass(frozen=True)
class Tried:
    """Average precision under bi-encoder and re-ranker: of out-of-fold labels, and over all pairs of dev.

    Empty where no re-ranker was tried, or there is no dev whose truth is known.
    """

    labels: Mapping[str, float] = field(default_factory=dict)
    dev: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"out_of_fold_average_precision": dict(self.labels), "dev_average_precision": dict(self.dev)}


@dataclass(frozen=True, eq=False)
class Trained:
    """What labels make: the scorer, and what was found on the way to it.

    bi_encoder: without re-ranker, calibrated on the pairs that it was trained on. out_of_fold: (n,) log-odds
    of the labelled pairs by models that did not see their left text, where a re-ranker was tried.
    """

    scorer: Scorer
    bi_encoder: Scorer
    tried: Tried
    out_of_fold: NDArray[np.float64] | None


@dataclass(frozen=True)
class Distilled:
    """Average precision of the labelled pairs before and after training on what the re-ranker is sure of."""

    out: Path
    pairs: int  # that the re-ranker is sure of
    before: float
    after: float
    kept: bool  # whether `out` was written

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"out": str(self.out)}


@dataclass(frozen=True, eq=False)
class _BiEncoderOutOfFold:
    """Scores, plain cosines and cross-fitted log-odds (n,) of labelled pairs by held-out bi-encoders."""

    scores: NDArray[np.float64]
    cosines: NDArray[np.float64]
    log_odds: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trainer:
    """What training needs: the learner, the asked split with its rows, and where artifacts are kept.

    dev: a held-out split whose truth is known, where there is one. It has a say in whether a re-ranker helps.
    """

    settings: CampaignSettings
    learner: Learner
    split: Split
    store: ArtifactStore
    scores: SplitScorer
    dev: Split | None = None
    _last: dict[str, Trained] = field(default_factory=dict, init=False)  # of the labels asked for last

    # ── the matcher ─────────────────────────────────────────────────────────────────────────────

    def model_key(self, labels: Labels) -> str:
        """Names the matcher that labels make; empty before the first round."""
        return key_digest(self._model_parts(labels)) if labels.round else ""

    def matcher(self, labels: Labels) -> Matcher:
        """The matcher trained on labels; of round 0, the encoder as it came."""
        if not labels.round:
            return self.learner.pretrained()
        folder = self.store.get("model", self._model_parts(labels), lambda place: self._fit(place, labels))
        self.scores.watch.note("train", load_json(folder / "seconds.json")["train"])
        return self.learner.load(folder)

    def _model_parts(self, labels: Labels) -> dict[str, Any]:
        return {
            "learner": self.learner.fingerprint,
            "texts": [self.split.left.fingerprint, self.split.right.fingerprint],
            "labels": labels_digest(labels.ids, labels.values),
            "round": labels.round,
            "seed": self.settings.seed,
        }

    def _fit(self, folder: Path, labels: Labels) -> None:
        rng = generator_for(self.settings.seed, labels.round, "train")
        texts = self.split.left.texts, self.split.right.texts
        frozen = self.frozen_rows()
        began = time.perf_counter()
        self.learner.fit(texts, labels.ids, labels.values, rng, frozen).save_learned(folder)
        (folder / "seconds.json").write_text(json.dumps({"train": time.perf_counter() - began}))

    def frozen_rows(self) -> tuple[Any, Any] | None:
        """The encoder's own rows of the asked split, where the learner learns from these."""
        if not self.learner.uses_frozen_rows:
            return None
        left, right = self.scores.unit_rows(self.learner.pretrained(), self.split, "")
        return left, left if right is None else right

    # ── the scorer ──────────────────────────────────────────────────────────────────────────────

    def pretrained(self) -> Scorer:
        """The scorer before any label: the encoder as it came, with corrections."""
        return self._uncalibrated(self.learner.pretrained(), "")

    def _uncalibrated(self, matcher: Matcher, model: str) -> Scorer:
        return Scorer(matcher, self._corrections(matcher, model), float(matcher.weight), float(matcher.bias))

    def bi_encoder(self, labels: Labels) -> Scorer:
        """The scorer that labels make, without a re-ranker: matcher, corrections and head."""
        matcher, model = self.matcher(labels), self.model_key(labels)
        scorer = self._uncalibrated(matcher, model)
        if scorer.corrections.none or not labels.round:
            return scorer
        key = {"model": model, **self.scored_by}
        folder = self.store.get("head", key, lambda place: self._fit_head(place, scorer, labels))
        head = load_json(folder / "head.json")
        return replace(scorer, weight=float(head["weight"]), bias=float(head["bias"]))

    @property
    def scored_by(self) -> dict[str, Any]:
        """What of the settings decides the corrections; empty where the score is the plain cosine."""
        hubness, smoothing = correction_strengths(self.settings)
        if not hubness and not smoothing:
            return {}
        search = self.scores.index_name(self.split)
        return {"hubness_correction": hubness, "neighbour_smoothing": smoothing, "search": search}

    def _corrections(self, matcher: Matcher, model: str) -> Corrections:
        hubness, smoothing = correction_strengths(self.settings)
        floor = 1.0
        if smoothing and self.split.space.symmetric:
            floor = similarity_floor(self.scores.nearest(matcher, model)["cosine-0"])
        return make_corrections(self.split.space, hubness, smoothing, floor)

    def _fit_head(self, folder: Path, scorer: Scorer, labels: Labels) -> None:
        left, right = self.scores.corrected_rows(scorer, self.model_key(labels))
        scores = np.empty(len(labels.ids))
        for first in range(0, len(labels.ids), _PAIRS_AT_ONCE):
            one, other = pair_rows(labels.ids[first : first + _PAIRS_AT_ONCE])
            rows = left[one].astype(np.float64), (left if right is None else right)[other]
            scores[first : first + _PAIRS_AT_ONCE] = np.einsum("nd,nd->n", *rows)
        weight, bias = fit_head(scores, labels.values)
        (folder / "head.json").write_text(json.dumps({"weight": weight, "bias": bias}))

    def scorer(self, labels: Labels) -> Scorer:
        """The whole scorer that labels make.

        With labels of both classes a re-ranker is part of it, by default only where labelled matches rank
        better with it among all candidates (`reranker.fit.best_share`).
        """
        return self.train(labels).scorer

    def tried(self, labels: Labels) -> Tried:
        """How bi-encoder and re-ranker compare."""
        return self.train(labels).tried

    def out_of_fold(self, labels: Labels) -> OutOfFold:
        """The labelled pairs under the whole scorer, by models that did not see their left text."""
        if not labels.round:
            return OutOfFold(labels.ids, labels.values, np.empty(0), {})
        trained = self.train(labels)
        tried, log_odds = trained.tried.labels, trained.out_of_fold
        if log_odds is None:
            log_odds = self._out_of_fold(labels).log_odds
            tried = {"bi-encoder": average_precision(log_odds, labels.values)}
        return OutOfFold(labels.ids, labels.values, log_odds, tried)

    def train(self, labels: Labels) -> Trained:
        """Train on labels, or find what was trained on them; without any (round 0) the encoder as it came."""
        model = self.model_key(labels)
        trained = self._last.get(model)
        if trained is None:
            trained = self._train(labels)
            self._last.clear()
            self._last[model] = trained
        return trained

    def _train(self, labels: Labels) -> Trained:
        bi_encoder, wanted = self.bi_encoder(labels), self.reranker_setting
        few, many = not enough_labels(labels.values), len(labels.ids) > TRAINED_AGAIN_UP_TO
        costly = not self.learner.uses_frozen_rows and (few or (many and wanted == "auto"))
        if wanted == "off" or costly or labels.values.all() or not labels.values.any():
            return Trained(bi_encoder, bi_encoder, Tried(), None)
        held_out = self._out_of_fold(labels)
        # By scores that it was not trained on: a map puts even odds far below those of other pairs.
        weight, bias = fit_head(held_out.scores, labels.values)
        scorer = replace(bi_encoder, weight=weight, bias=bias)
        if few:
            return Trained(scorer, bi_encoder, Tried(), None)
        reranked, log_odds, helps = self._reranked(scorer, labels, wanted == "cross-encoder")
        tried = {
            "bi-encoder": average_precision(held_out.log_odds, labels.values),
            "re-ranker": average_precision(log_odds, labels.values),
        }
        dev = self._on_dev(labels, {"bi-encoder": scorer, "re-ranker": reranked}) if helps else {}
        if wanted == "auto" and (not helps or (dev and dev["re-ranker"] < dev["bi-encoder"])):
            return Trained(scorer, bi_encoder, Tried(tried, dev), held_out.log_odds)
        return Trained(reranked, bi_encoder, Tried(tried, dev), log_odds)

    def _on_dev(self, labels: Labels, scorers: dict[str, Scorer]) -> dict[str, float]:
        """Average precision over all pairs of dev by each scorer; empty where its truth is not known.

        What the re-ranker learns of competing texts need not hold where there are others to compete with.
        """
        dev, model = self.dev, self.model_key(labels)
        if dev is None:
            return {}

        def build(folder: Path) -> None:
            found = {
                name: measure_exactly(self.scores.score(scorer, dev, model).scan, dev.positives)
                for name, scorer in scorers.items()
            }
            figures = {name: each.curve.average_precision() for name, each in found.items()}
            (folder / "dev.json").write_text(json.dumps(figures))

        texts = [dev.left.fingerprint, dev.right.fingerprint, array_digest(dev.positives)]
        key = {"model": model, "scorer": scorers["re-ranker"].fingerprint, "dev": texts, **self.scored_by}
        return dict(load_json(self.store.get("dev", key, build) / "dev.json"))

    @property
    def reranker_setting(self) -> str:
        """off, auto, on or cross-encoder, as the settings, the recipe and the texts of the split have it.

        Beside a whole trained encoder it is tried for records only: that one ranks plain texts well alone,
        and would be trained twice more in every round.
        """
        if self.settings.reranker != "auto":
            return self.settings.reranker
        left_out = self.settings.recipe == "paper" or max(self.split.space.shape) > RERANK_UP_TO
        return "off" if left_out or not (self.learner.uses_frozen_rows or self._has_fields) else "auto"

    @cached_property
    def _has_fields(self) -> bool:
        return bool(find_layout(self.split.left, self.split.right).fields)

    def _reranked(
        self, scorer: Scorer, labels: Labels, cross: bool
    ) -> tuple[Scorer, NDArray[np.float64], bool]:
        """The scorer with a re-ranker, its out-of-fold log-odds, and whether it ranks all pairs better."""
        model = self.model_key(labels)

        def build(folder: Path) -> None:
            held_out = self._out_of_fold(labels)
            alone = scorer.bi_encoder()
            scan = self.scores.score(alone, self.split, model).base
            # Labels in doubt can put even odds far below all matches. But half of the labelled matches, which
            # are harder than others, score at least the median: no more than twice the pairs there match.
            middle = float(np.median(held_out.scores[labels.values]))
            edges = np.array(sorted((alone.even_odds, middle)), np.float32)
            pairs = scan.count_reaching(edges, "candidates")[:: 1 if alone.even_odds <= middle else -1]
            likely = int(min(pairs[0], 2 * pairs[1]))

            def log_odds_of(ids: Ids) -> NDArray[np.float64]:
                return alone.log_odds(scan.scores(ids))

            base = Base(held_out.cosines, held_out.log_odds, likely, log_odds_of)
            fitted = fit_reranker(
                self._cosine_scan,
                self.split.space,
                (self.split.left.texts, self.split.right.texts),
                self.scores.read_own_texts(),
                self.scores.unit_rows(scorer.matcher, self.split, model),
                labels.ids,
                labels.values,
                base,
                self.settings.seed,
                self._cross_encoder(labels.round) if cross else None,
            )
            save_reranker(folder, fitted.reranker)
            save_array(folder / "out-of-fold.npy", fitted.out_of_fold)
            (folder / "helps.json").write_text(json.dumps({"helps": fitted.helps}))

        key = {"model": model, "cross": cross, "seed": self.settings.seed, **self.scored_by}
        folder = self.store.get("reranker", key, build)
        reranker = load_reranker(folder, self.learner.encoder.requested_device)
        helps = bool(load_json(folder / "helps.json")["helps"])
        return replace(scorer, reranker=reranker), load_array(folder / "out-of-fold.npy"), helps

    def lexical_search(self, alone: bool = False) -> PairSearch | None:
        """The search by the mean of the frozen encoder's and the lexical cosine; None where none is.

        alone: by the lexical cosine only, for which nothing is embedded.
        """
        if self.reranker_setting == "off" or self.settings.search != "exact":
            return None
        space = self.split.space
        if alone:
            texts = self.split.left.texts, self.split.right.texts
            encoder = fit_lexical(texts[:1] if space.symmetric else texts)
            return ExactSearch(self._cosine_scan(space, *lexical_rows(encoder, space, texts)))
        rows = self.scores.unit_rows(self.learner.pretrained(), self.split, "")
        left, right = (hybrid_rows(*both) for both in zip(rows, self.scores.read_own_texts().lexical))
        return ExactSearch(self._cosine_scan(space, left, right))

    def _cosine_scan(self, space: Any, left: Any, right: Any) -> Scan:
        return self.scores.open_scan(space, left, right, False)

    def _cross_encoder(self, round: int) -> Callable[[Ids, Mask], CrossMatcher]:
        encoder, texts = self.learner.encoder, (self.split.left.texts, self.split.right.texts)
        settings = TrainingSettings(learning_rate=rate_for(encoder), epochs=CROSS_EPOCHS)
        learner = CrossEncoder(encoder, settings)

        def train(ids: Ids, labels: Mask) -> CrossMatcher:
            return learner.fit(texts, ids, labels, generator_for(self.settings.seed, round, "cross"))

        return train

    def _out_of_fold(self, labels: Labels, also: tuple[Ids, Mask] | None = None) -> _BiEncoderOutOfFold:
        """The labelled pairs by bi-encoders fitted without their left texts."""
        folds = 5 if self.learner.uses_frozen_rows else 2  # a whole encoder is not trained for nothing
        model, seed = self.model_key(labels), self.settings.seed
        key = {"model": model, "folds": folds, **self.scored_by}
        if also is not None:
            key["also"] = array_digest(*also)

        def build() -> dict[str, NDArray[np.float64]]:
            scorer = self.bi_encoder(labels)
            fold = fold_of(pair_rows(labels.ids)[0], seed, folds)
            scores, cosines = out_of_fold_scores(
                self.learner,
                (self.split.left.texts, self.split.right.texts),
                self.frozen_rows(),
                self.scores.corrected(scorer, self.split, model),
                labels.ids,
                labels.values,
                fold,
                lambda one: generator_for(seed, labels.round, f"held out {one}"),
                also,
            )
            log_odds = cross_fitted_log_odds(scores, labels.values, fold)
            return {"scores": scores, "cosines": cosines, "log_odds": log_odds}

        return _BiEncoderOutOfFold(**self.store.arrays("out-of-fold", key, build))

    # ── back into one encoder ───────────────────────────────────────────────────────────────────

    def distil(self, labels: Labels, out: Path, sure: float = 0.95) -> Distilled:
        """Train the bi-encoder again on what the re-ranker is sure of; kept in `out` where it ranks better.

        Candidates with a probability above `sure` or below 1 - `sure` join the labels. Judged by the average
        precision of the labelled pairs under learners that saw neither their left text nor what the
        re-ranker said of it, corrected and under a head alike with and without the new pairs.
        """
        scorer = self.scorer(labels)
        if scorer.reranker is None:
            why = "it is switched off, labels are too few for it, or it did not rank better"
            remedy = 'Set reranker = "on" in campaign.toml, or ask for more labels'
            raise InputError("there is no re-ranker to learn from", why=why, remedy=remedy)
        scored = self.scores.score(scorer, self.split, self.model_key(labels))
        chance = scorer.head_probability(scored.scan.scores(scored.candidates))
        wanted = ((chance >= sure) | (chance <= 1 - sure)) & ~is_member(scored.candidates, labels.ids)
        also = scored.candidates[wanted], chance[wanted] >= sure
        before = average_precision(self._out_of_fold(labels).log_odds, labels.values)
        after = average_precision(self._out_of_fold(labels, also).log_odds, labels.values)
        result = Distilled(out, len(also[0]), before, after, kept=after > before)
        if result.kept:
            ids, values = (np.concatenate(both) for both in zip((labels.ids, labels.values), also))
            rng = generator_for(self.settings.seed, labels.round, "distilled")
            texts = self.split.left.texts, self.split.right.texts
            frozen = self.frozen_rows()
            matcher = self.learner.fit(texts, ids, values, rng, frozen)
            left, right = (
                matcher.embed(texts[at], side) if frozen is None else matcher.transform(frozen[at], side)
                for at, side in enumerate(("left", "right"))
            )
            rows = left, None if self.split.space.symmetric else right
            with atomic_folder(out) as folder:
                save_scorer(self._with_head(matcher, rows, labels), folder)
        return result

    def _with_head(self, matcher: Matcher, rows: tuple[Any, Any], labels: Labels) -> Scorer:
        """The scorer of a matcher that is no round's, from its rows of the asked split."""
        finder, space = ExactNeighbours(self._cosine_scan), self.split.space
        floor = similarity_floor(finder.nearest(space, *rows)["cosine-0"]) if space.symmetric else 1.0
        corrections = make_corrections(space, *correction_strengths(self.settings), floor)
        left, right = correct_rows(corrections, space, rows, finder).rows
        one, other = pair_rows(labels.ids)
        scores = np.einsum("nd,nd->n", left[one], (left if right is None else right)[other])
        return Scorer(matcher, corrections, *fit_head(scores, labels.values))


def correction_strengths(settings: CampaignSettings) -> tuple[float, float]:
    """Strengths of hubness correction and neighbour smoothing; the paper's recipe has neither by default."""
    usual = (HUBNESS_STRENGTH, SMOOTHING_STRENGTH) if settings.recipe == "best" else (0.0, 0.0)
    hubness, smoothing = settings.hubness_correction, settings.neighbour_smoothing
    return usual[0] if hubness is None else hubness, usual[1] if smoothing is None else smoothing


def average_precision(log_odds: NDArray[np.float64], labels: Mask) -> float:
    """Average precision of labelled pairs; 0 without a match."""
    if not labels.any():
        return 0.0
    return curve_from_scores(log_odds[labels], log_odds[~labels]).average_precision()
