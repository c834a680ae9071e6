"""What does a round's matcher make of the texts? Its training, its embeddings, its search and its figures.

Everything made here is an artifact under a key that names all it was made from; `loop.py` decides when.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore, key_digest, load_array, save_array
from pairsieve.campaign.figures import read_json
from pairsieve.contracts import MapShards, generator_for
from pairsieve.errors import InputError, SettingsError
from pairsieve.ledger import Ledger, open_ledger
from pairsieve.pairs import CrossPairs, Ids, PairSpace, pair_rows
from pairsieve.settings import CAMPAIGN_FILE, load_settings
from pairsieve.tasks import Collection, Split, Task, load_task

if TYPE_CHECKING:
    from pairsieve.campaign.view import Trained
    from pairsieve.models import Encoder, FullLearner, ProjectionLearner
    from pairsieve.scan import Scan
    from pairsieve.search import PairSearch
    from pairsieve.search.leaning import Leans

Rows = NDArray[np.float32]

_AT_ONCE = 1 << 16  # pairs whose rows are multiplied together


class Scoring:
    """The part of a campaign that knows texts and models: what a folder's settings, task and labels make."""

    def __init__(self, folder: Path, cache: Path | None = None, shards: MapShards | None = None) -> None:
        """`cache`: a folder of embeddings shared with other campaigns; without it they stay in `folder`.
        `shards`: the machines that embed and scan (see the room cluster); None is this one."""
        self.folder = Path(folder)
        self.settings = load_settings(self.folder / CAMPAIGN_FILE)
        self.store = ArtifactStore(self.folder / "artifacts")
        self.shared = ArtifactStore(cache) if cache else self.store
        self.shards = shards
        self._seconds: dict[str, float] = {}
        self._last_index: tuple[str, tuple[NDArray[np.int64], Rows]] | None = None

    @cached_property
    def task(self) -> Task:
        place = self.settings.task_folder(self.folder)
        task = load_task(place)
        if task.fingerprint != self.settings.task_fingerprint:
            raise SettingsError(
                f"{self.folder} belongs to another task: it began with "
                f"{self.settings.task_fingerprint[:12]}, {place} now holds {task.fingerprint[:12]}. "
                "Put the old task folder back, or begin a new campaign with: pairsieve init"
            )
        return task

    @property
    def split(self) -> Split:
        return self.task.splits[self.settings.split]

    @cached_property
    def ledger(self) -> Ledger:
        return open_ledger(self.settings.ledger_place(self.folder), self.settings.task_fingerprint)

    @cached_property
    def learner(self) -> FullLearner | ProjectionLearner:
        from pairsieve.models import encoder_named, learner_named

        told = self.settings
        device = None if told.device == "auto" else told.device
        encoder = encoder_named(told.encoder, told.max_length, told.left_prefix, told.right_prefix, device)
        encoder.token_cache.store = self.shared  # a collection is tokenised once, for all campaigns
        more: dict[str, Any] = {"shared": False} if told.separate_encoders else {}
        if told.learning_rate is not None:
            more["learning_rate"] = told.learning_rate
        return learner_named(told.learner, encoder, device, told.recipe, **more)

    def latest(self) -> int:
        """The last round whose questions are all answered; 0 before the first."""
        done = [count.round for count in self.ledger.counts() if not count.open]
        return max(done, default=0)

    def trained_round(self, wanted_for: str = "") -> int:
        """The latest round with a model; before the first an error in words, such as no model "to audit"."""
        number = self.latest()
        if number == 0:
            raise InputError(
                "no round is complete yet" + (f", so there is no model {wanted_for}" if wanted_for else ""),
                where=str(self.folder),
                remedy=f"pairsieve run {self.folder}",
            )
        return number

    @property
    def crowding(self) -> float:
        """How much a pair counts less where its texts have near rivals; 0 is the plain cosine."""
        from pairsieve.search.crowding import STRENGTH

        return self._unless_told(self.settings.crowding, STRENGTH)

    @property
    def leaning(self) -> float:
        """How much a text leans on its nearest; 0: not at all."""
        from pairsieve.search.leaning import STRENGTH

        return self._unless_told(self.settings.leaning, STRENGTH)

    def _unless_told(self, told: float | None, ours: float) -> float:
        """A setting of the score, as told or as the recipe has it: the paper's knows plain cosines only."""
        if told is not None:
            return told
        return ours if self.settings.recipe == "best" else 0.0

    @property
    def scored_by(self) -> dict[str, Any]:
        """What besides the model decides the score of a pair; empty where it is the plain cosine."""
        if not self.crowding and not self.leaning:
            return {}
        return {"crowding": self.crowding, "leaning": self.leaning, "search": self._listed}

    def matcher(self, number: int) -> Trained:
        """The matcher of a round, its head over the scores that `embeddings` give, neighbours counted."""
        plain = self.plain_matcher(number)
        if not self.scored_by or number == 0:
            return plain
        key = {"model": self._model_key(number), **self.scored_by}
        place = self.store.get("head", key, lambda p: self._fit_head(p, plain, number))
        told = read_json(place / "head.json")
        return dataclasses.replace(plain, weight=float(told["weight"]), bias=float(told["bias"]))

    def _fit_head(self, place: Path, plain: Trained, number: int) -> None:
        from pairsieve.models.head import fit_head

        ids, labels = self.ledger.labels(through=number)
        weight, bias = fit_head(self._scores(plain, number, ids), labels)
        (place / "head.json").write_text(json.dumps({"weight": weight, "bias": bias}))

    def _scores(self, matcher: Trained, number: int, ids: Ids) -> NDArray[np.float64]:
        """Scores of chosen pairs of the asked split by a round's rows."""
        left, right = self.embeddings(matcher, self.split, number)
        made = np.empty(len(ids))
        for first in range(0, len(ids), _AT_ONCE):
            one, other = pair_rows(ids[first : first + _AT_ONCE])
            rows = left[one].astype(np.float64), (left if right is None else right)[other]
            made[first : first + _AT_ONCE] = np.einsum("nd,nd->n", *rows)
        return made

    def plain_matcher(self, number: int) -> Trained:
        """The matcher of a round as it was trained, its head over plain cosines; round 0: the encoder."""
        from pairsieve.models import CosineMatcher, ProjectionLearner, load_map, load_matcher

        learner = self.learner
        if number == 0:
            return learner.pretrained()
        place = self.store.get("model", self._model_parts(number), lambda p: self._fit(p, number))
        self._note("train", read_json(place / "seconds.json")["train"])
        if isinstance(learner, ProjectionLearner):
            return load_map(place, learner.encoder)
        trained = load_matcher(place, learner.encoder.requested_device)
        if isinstance(trained, CosineMatcher):  # the same texts, the same tokeniser: tokenised once
            trained.left.token_cache = trained.right.token_cache = learner.encoder.token_cache
        return trained

    def _fit(self, place: Path, number: int) -> None:
        from pairsieve.models import ProjectionLearner

        ids, labels = self.ledger.labels(through=number)
        if len(ids) == 0:
            raise InputError(
                "there is no label to train on",
                where=str(self.folder),
                why='every answer so far is "unsure"',
                remedy="Answer some of the questions again, then run again",
            )
        part, rng = self.split, generator_for(self.settings.seed, number, "train")
        learner = self.learner
        if isinstance(learner, ProjectionLearner):
            left, right = self.plain_embeddings(learner.pretrained(), part, 0)
            began = time.perf_counter()
            learner.fit_embedded(left, left if right is None else right, ids, labels, rng).save_map(place)
        else:
            began = time.perf_counter()
            learner.fit(part.left.texts, part.right.texts, ids, labels, rng).save(place)
        (place / "seconds.json").write_text(json.dumps({"train": time.perf_counter() - began}))

    def embeddings(self, matcher: Trained, part: Split, number: int) -> tuple[Rows, Rows | None]:
        """Rows of both sides of a split (right None for one collection), longer where no rival is near."""
        left, right = self.leaned(matcher, part, number)
        if not self.crowding:
            return left, right
        mine, yours = self.lengths(matcher, part, number)
        if not self.leaning:  # else the rows are a copy already
            left, right = left.copy(), None if right is None else right.copy()
        left *= mine[:, None]
        if right is not None:
            right *= yours[:, None]
        return left, right

    def lengths(self, matcher: Trained, part: Split, number: int) -> tuple[Rows, Rows]:
        """How long the rows of both sides of a split are: the longer, the smaller their crowd."""
        from pairsieve.search.crowding import lengths

        mine, yours = self.crowds(matcher, part, number)
        left, right = self.strengths
        return lengths(mine, left), lengths(yours, right)

    @property
    def strengths(self) -> tuple[float, float]:
        """How much the crowd of a left and of a right text counts, in every split as in the asked one."""
        from pairsieve.search.crowding import shared

        return shared(self.split.space, self.crowding)

    def crowds(self, matcher: Trained, part: Split, number: int) -> tuple[Rows, Rows]:
        """The crowd of each left and of each right text of a split, by the cosines of leaned rows."""
        from pairsieve.search.crowding import crowds, crowds_listed

        def build() -> dict[str, Any]:
            left, right = self.leaned(matcher, part, number)
            with self._timed("select" if part is self.split else "measure"):
                if part is self.split and self._listed:
                    near = crowds_listed(part.space, *self._index(matcher, number))
                else:
                    near = crowds(self.plain_scan, part.space, left, right)
            return dict(zip(("left", "right"), near))

        held = self._near("crowds", matcher, part, number, build)
        return held["left"], held["right"]

    def leaned(self, matcher: Trained, part: Split, number: int) -> tuple[Rows, Rows | None]:
        """Unit rows of both sides of a split, each leaning on its nearest."""
        left, right = self.plain_embeddings(matcher, part, number)
        if not self.leaning:
            return left, right
        mine, *yours = self.leans(matcher, part, number)
        if right is None:
            return mine.all_mixed(left, left), None
        return mine.all_mixed(left, right), yours[0].all_mixed(right, left)

    def leans(self, matcher: Trained, part: Split, number: int) -> tuple[Leans, ...]:
        """On which text each text of a side leans, and how much; one side in one collection."""
        from pairsieve.search.leaning import leans, nearest

        def build() -> dict[str, Any]:
            left, right = self.plain_embeddings(matcher, part, number)
            with self._timed("select" if part is self.split else "measure"):
                if part is self.split and self._listed:
                    ways = [(part.space, left, right)]
                    if right is not None:
                        ways.append((CrossPairs(*reversed(part.space.shape)), right, left))
                    near = [self._indexed(*way, 1) for way in ways]
                else:
                    near = nearest(self.plain_scan, part.space, left, right)
            made: dict[str, Any] = {}
            for side, (columns, cosines) in enumerate(near):
                made |= {f"on-{side}": columns.reshape(-1), f"cosine-{side}": cosines.reshape(-1)}
            return made

        held = self._near("leans", matcher, part, number, build)
        sides = range(1 if part.space.symmetric else 2)
        near = [(held[f"on-{side}"], held[f"cosine-{side}"]) for side in sides]
        return leans(part.space, near, self.leaning)

    def _near(
        self, kind: str, matcher: Trained, part: Split, number: int, build: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Arrays that the neighbours of a split's texts make, by name, kept as an artifact."""

        def write(place: Path) -> None:
            for name, values in build().items():
                save_array(place / f"{name}.npy", values)

        sides = [self._rows_key(matcher, part.left, "left", number)[1]]
        if not part.space.symmetric:
            sides.append(self._rows_key(matcher, part.right, "right", number)[1])
        listed = self._listed if part is self.split else ""
        key: dict[str, Any] = {"rows": sides, "search": listed, **_map_of(matcher)}
        if kind == "crowds" and self.leaning:
            key["leaning"] = self.leaning
        place = (self.store if number else self.shared).get(kind, key, write)
        return {file.stem: load_array(file) for file in sorted(place.glob("*.npy"))}

    @property
    def _listed(self) -> str:
        """The index that lists neighbours of the asked split; empty where every pair is visited."""
        index = self.settings.search.startswith("faiss")
        return f"{self.settings.search} {self.settings.neighbours}" if index else ""

    def _index(self, matcher: Trained, number: int) -> tuple[NDArray[np.int64], Rows]:
        """Each text's neighbours in the asked split by the index of the settings, and their cosines."""
        key = self._model_key(number) if number else "0"
        if self._last_index is None or self._last_index[0] != key:
            rows = self.leaned(matcher, self.split, number)
            self._last_index = key, self._indexed(self.split.space, *rows, self.settings.neighbours)
        return self._last_index[1]

    def _indexed(
        self, space: PairSpace, left: Rows, right: Rows | None, count: int
    ) -> tuple[NDArray[np.int64], Rows]:
        """Up to `count` neighbours of each row by the index of the settings, and their cosines."""
        from pairsieve.distributed import index_by_shards
        from pairsieve.scan import unit_rows

        mine = unit_rows(left)
        yours = mine if right is None else unit_rows(right)
        count = min(count, space.shape[1] - space.symmetric)
        return index_by_shards(self.shards, space, mine, yours, count, self.settings.search)

    def plain_embeddings(self, matcher: Trained, part: Split, number: int) -> tuple[Rows, Rows | None]:
        """Unit rows of both sides of a split (right None for one collection)."""
        left = self._rows(matcher, part.left, "left", number)
        return left, None if part.space.symmetric else self._rows(matcher, part.right, "right", number)

    def _rows(self, matcher: Trained, texts: Collection, side: str, number: int) -> Rows:
        from pairsieve.models import ProjectionMatcher

        encoder, key = self._rows_key(matcher, texts, side, number)
        if isinstance(matcher, ProjectionMatcher):
            base = self._embedded(self.shared, key, encoder, texts, side)
            with self._timed("embed"):
                return matcher.project(base, side)
        return self._embedded(self.shared if number == 0 else self.store, key, encoder, texts, side)

    def _rows_key(
        self, matcher: Trained, texts: Collection, side: str, number: int
    ) -> tuple[Encoder, dict[str, Any]]:
        """The encoder that embeds a side, and the key of what it makes of the texts."""
        from pairsieve.models import ProjectionMatcher

        if isinstance(matcher, ProjectionMatcher):
            encoder, named = matcher.encoder, matcher.base_fingerprint
        else:
            encoder = matcher.right if side == "right" else matcher.left
            if number:
                return encoder, self._own_rows_key(number, texts, side)
            named = encoder.fingerprint
        return encoder, {
            "encoder": named,
            "texts": texts.fingerprint,
            "prefix": encoder.prefix(side),
        }

    def _embedded(
        self, store: ArtifactStore, key: dict[str, Any], encoder: Encoder, texts: Collection, side: str
    ) -> Rows:
        from pairsieve.distributed import embedded_rows

        with self._timed("embed"):
            return embedded_rows(store, key, encoder, texts.texts, side, self.shards)

    def scan(self, space: PairSpace, left: Rows, right: Rows | None) -> Scan:
        """The scan of a space by what `embeddings` gave, here or by the shards of a cluster."""
        from pairsieve.distributed import scan_by

        lengths = self.crowding > 0
        return scan_by(self.shards, space, left, right, device=self.settings.device, lengths=lengths)

    def plain_scan(self, space: PairSpace, left: Rows, right: Rows | None) -> Scan:
        """The same by what `plain_embeddings` gave: the score is the cosine."""
        from pairsieve.distributed import scan_by

        return scan_by(self.shards, space, left, right, device=self.settings.device)

    def _own_rows_key(self, number: int, texts: Collection, side: str) -> dict[str, Any]:
        """The key of rows that only a round's own encoder gives."""
        return {"model": self._model_key(number), "texts": texts.fingerprint, "side": side, "round": number}

    def _forget_embeddings(self, number: int) -> None:
        """Drop what a round's own encoder embedded, once it has chosen; it can be made again."""
        for name in (self.settings.split, *self.settings.measure_splits):
            part = self.task.splits[name]
            for side, texts in (("left", part.left), ("right", part.right)):
                place = self.store.place("embeddings", self._own_rows_key(number, texts, side))
                shutil.rmtree(place, ignore_errors=True)

    def search(self, number: int) -> tuple[PairSearch, Trained]:
        """The search over the training split by a round's matcher, as the settings ask for it."""
        from pairsieve.search import ExactSearch, NeighbourSearch, neighbour_recall

        matcher, told, space = self.matcher(number), self.settings, self.split.space
        if told.search in ("exact", "neighbours"):
            scan = self.scan(space, *self.embeddings(matcher, self.split, number))
            if told.search == "exact":
                return ExactSearch(scan), matcher
            return NeighbourSearch.exact(scan, told.neighbours), matcher
        columns, scores = self._index(matcher, number)
        exact = self.plain_scan(space, *self.leaned(matcher, self.split, number))
        recall = neighbour_recall(
            exact, columns, generator_for(told.seed, number, "recall"), told.recall_rows
        )
        if self.crowding:
            mine, yours = self.lengths(matcher, self.split, number)
            scores = scores * mine[:, None] * np.where(columns >= 0, yours[columns], np.float32(1))
        words = f"{told.search}, {columns.shape[1]} neighbours a row"
        return NeighbourSearch(space, columns, scores, words, recall), matcher

    def measure(self, matcher: Trained, part: Split, number: int) -> dict[str, Any]:
        """Exact figures of a round's matcher over all pairs of a split."""
        from pairsieve.measure.figures import exact_figures

        left, right = self.embeddings(matcher, part, number)
        with self._timed("measure"):
            scan = self.scan(part.space, left, right)
            found, _ = exact_figures(scan, part.positives, part.stated_negatives)
        return found

    def _model_parts(self, number: int) -> dict[str, Any]:
        ids, labels = self.ledger.labels(through=number)
        return {
            "learner": self.learner.fingerprint,
            "texts": [self.split.left.fingerprint, self.split.right.fingerprint],
            "labels": digest_of(ids, labels),
            "round": number,
            "seed": self.settings.seed,
        }

    def _model_key(self, number: int) -> str:
        return key_digest(self._model_parts(number))

    def _note(self, phase: str, seconds: float) -> None:
        self._seconds[phase] = self._seconds.get(phase, 0.0) + seconds

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._note(phase, time.perf_counter() - began)


def _map_of(matcher: Trained) -> dict[str, str]:
    """What a matcher makes of its encoder's rows: a linear map has a fingerprint of its own."""
    from pairsieve.models import ProjectionMatcher

    return {"map": matcher.map_fingerprint} if isinstance(matcher, ProjectionMatcher) else {}


def digest_of(*arrays: NDArray[Any]) -> str:
    """sha256 of arrays: their types, shapes and values."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}\n".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
