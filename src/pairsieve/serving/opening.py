"""Opens what is served: a campaign or an exported scorer, a collection to search, and its known queries.

The folder is a campaign (the scorer of its last answered round, its own texts) or what `pairsieve export`
wrote (then the collection is named, or begins empty). Rows come from the cache where they are there, and
are compared with the model's own for a few texts: rows of another model are refused, never searched.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore
from pairsieve.campaign import Campaign
from pairsieve.campaign.probability import calibrated_scorer
from pairsieve.errors import InputError, nearest
from pairsieve.models import Matcher, cached_embeddings
from pairsieve.scorer import Scorer, load_scorer
from pairsieve.scorer.corrections import Arrays, Memo, compute
from pairsieve.scorer.saving import SCORER_FILE
from pairsieve.serving.held import SPARE, HeldTexts
from pairsieve.serving.index import Index
from pairsieve.settings import CAMPAIGN_FILE
from pairsieve.tasks import Collection, Split, Task, load_task, tables_task

Vectors = NDArray[np.float32]
Source = Collection | Path | str | None

STATE = "serving"  # the folder of additions, inside the served folder unless another is given
LOOKED_AT = 4  # rows compared with the model's own
LEAST_AGREEMENT = 0.999  # cosine; rounding is a thousand times smaller, another model is far below
NOT_COMPARABLE = -2.0  # below any cosine
EMPTY = Collection((), ())
KEEP_LISTS_FROM = 5000  # texts from which the neighbours of all texts are kept on disk for the next start


@dataclass(frozen=True)
class Served:
    """A scorer, the texts it searches, the known texts of the other side, and the unit rows of both."""

    scorer: Scorer
    texts: Collection
    rows: Vectors
    side: str  # of the collection in a pair
    query_side: str  # of a query; within one collection both are "left"
    name: str  # for people
    queries: Collection
    query_rows: Vectors
    store: ArtifactStore
    device: str = "auto"  # of scans
    source_names: tuple[str, ...] = ()  # of the numbers in `texts.sources`


@dataclass(frozen=True)
class Wanted:
    """What is to be served: see `Service.open`."""

    collection: Source = None
    key: str | None = None
    text: Sequence[str] = ()
    source: str | None = None
    side: str | None = None
    queries: Source = None
    round: int | None = None
    state: Path | None = None
    cache: Path | None = None
    device: str | None = None


def open_served(folder: Path, wanted: Wanted) -> Served:
    """Open a campaign or an exported scorer over a collection."""
    is_campaign, is_export = ((folder / name).is_file() for name in (CAMPAIGN_FILE, SCORER_FILE))
    if not is_campaign and not is_export:
        what = "no model to serve" if folder.is_dir() else "no such folder"
        empty = folder.is_dir() and not any(folder.iterdir())
        why = "it is empty" if empty else f"it has neither {CAMPAIGN_FILE} nor {SCORER_FILE}"
        remedy = "Name a campaign folder, or a folder that pairsieve export wrote"
        raise InputError(what, where=str(folder), why=why if folder.is_dir() else "", remedy=remedy)
    if wanted.side not in (None, "left", "right"):
        why = "a pair has a left and a right"
        raise InputError(f"`side={wanted.side!r}`", why=why, remedy="Give left or right")
    if is_campaign:
        return _open_campaign(folder, wanted)
    if wanted.round is not None:
        what, why = f"round {wanted.round} of an exported model", "it is the model of one round"
        raise InputError(what, where=str(folder), why=why, remedy="Leave `round` out")
    store = ArtifactStore(wanted.cache or (wanted.state or folder / STATE) / "artifacts")
    name, device = folder.resolve().name, wanted.device or "auto"
    return _served(load_scorer(folder, wanted.device), wanted, name, store, device, None, None)


def _open_campaign(folder: Path, wanted: Wanted) -> Served:
    cache = wanted.cache
    if cache is None and wanted.state is not None and not os.access(folder, os.W_OK):
        cache = wanted.state / "artifacts"  # of a campaign that can only be looked at
    campaign = Campaign(folder, cache)
    latest = campaign.latest()
    if latest == 0:
        what, why = "this campaign has no model yet", "no round with a label is answered"
        remedy = f"Go on with it first: {campaign.more_labels()}"
        raise InputError(what, where=str(folder), why=why, remedy=remedy)
    round = latest if wanted.round is None else wanted.round
    if not 1 <= round <= latest or not campaign.labels(round).round:
        raise InputError(f"no model of round {round}", remedy=f"Choose a round from 1 to {latest}")
    scorer, store = calibrated_scorer(campaign, round), ArtifactStore(cache) if cache else campaign.store

    def own_rows(split: Split, side: str) -> Vectors:
        model = campaign.trainer.model_key(campaign.labels(round))
        left, right = campaign.trainer.scores.unit_rows(scorer.matcher, split, model)
        return left if right is None or side == "left" else right

    name, device = f"{folder.resolve().name}, round {round}", campaign.settings.device
    return _served(scorer, wanted, name, store, device, campaign.task, own_rows)


def _served(
    scorer: Scorer,
    wanted: Wanted,
    name: str,
    store: ArtifactStore,
    device: str,
    task: Task | None,
    own_rows: Callable[[Split, str], Vectors] | None,
) -> Served:
    """A scorer over what is wanted. task: a campaign's, whose rows it keeps (`own_rows`)."""
    one, own = scorer.corrections.symmetric, {} if task is None else task.splits

    def texts_and_rows(source: Collection | list[Split], side: str) -> tuple[Collection, Vectors]:
        if isinstance(source, Collection):
            return source, rows_of(scorer.matcher, source, side, store)
        texts, places = _union(source, "right" if one else side)
        if own_rows is None or not all(split is own.get(split.name) for split in source):
            return texts, rows_of(scorer.matcher, texts, side, store)
        return texts, np.concatenate([own_rows(split, side)[kept] for split, kept in zip(source, places)])

    for option, value in (("side", wanted.side), ("queries", wanted.queries)):
        if one and value is not None:
            what, remedy = f"`{option}` with one collection", f"Leave `{option}` out"
            why = "duplicates within one collection have no sides"
            raise InputError(what, where=name, why=why, remedy=remedy)
    source, its_task = _source(wanted.collection, wanted, task)
    queries = EMPTY if wanted.queries is None else _source(wanted.queries, wanted, task)[0]
    if wanted.queries is None and isinstance(source, list) and not any(s.space.symmetric for s in source):
        queries = source
    # The right collection answers unless asked otherwise.
    side, asking = ("left", "right") if wanted.side == "left" else ("right", "left")
    if one:
        side, asking, queries = "left", "left", EMPTY
    texts, rows = texts_and_rows(source, side)
    known, known_rows = texts_and_rows(queries, asking)
    names = () if texts.sources is None else source_names(its_task, texts.sources)
    both = (known, known_rows)
    return checked(Served(scorer, texts, rows, side, asking, name, *both, store, device, names))


def _source(given: Source, wanted: Wanted, task: Task | None) -> tuple[Collection | list[Split], Task | None]:
    """What was named: a collection, itself or in a table, or splits: all of the campaign, one, a task's; and
    the task that it is from."""
    own = {} if task is None else task.splits
    if given is None:
        return list(own.values()) or EMPTY, task
    if isinstance(given, Collection):
        return given, None
    if given in own:
        return [own[str(given)]], task
    path = Path(given)
    if path.is_dir():
        other = load_task(path)
        return list(other.splits.values()), other
    if path.is_file():
        columns = tuple(wanted.text) or ("text",)
        table = tables_task(path, text=columns, key=wanted.key, source=wanted.source, split="none")
        return next(iter(table.splits.values())).left, table
    remedy = "Name a task folder, or a table (CSV, TSV, JSON Lines, Parquet)"
    if own:
        remedy += f", or a split of this campaign. {nearest(str(given), own)}"
    raise InputError(f"no collection {str(given)!r}", why="there is no such file or folder", remedy=remedy)


def _union(splits: Sequence[Split], side: str) -> tuple[Collection, list[NDArray[np.int64]]]:
    """Texts of several splits, a key once, and which rows of each split were taken."""
    seen: dict[str, str] = {}
    places: list[NDArray[np.int64]] = []
    sources: list[NDArray[np.int64]] = []
    for split in splits:
        kept: list[int] = []
        side_texts = split.left if side == "left" else split.right
        for row, (key, text) in enumerate(zip(side_texts.keys, side_texts.texts)):
            if key not in seen:
                seen[key] = text
                kept.append(row)
            elif seen[key] != text:
                what = f"the key {key!r} stands in two splits with different texts"
                remedy = "Serve one split: `collection='train'`"
                where, why = f"split {split.name}", "a key names one text of what is served"
                raise InputError(what, where=where, why=why, remedy=remedy)
        places.append(np.array(kept, np.int64))
        if side_texts.sources is not None:
            sources.append(side_texts.sources[places[-1]])
    of_sources = np.concatenate(sources) if sources else None
    return Collection(list(seen), list(seen.values()), sources=of_sources), places


def source_names(task: Task | None, sources: NDArray[np.int64]) -> tuple[str, ...]:
    """The names of the numbered sources of a task; their numbers where they have no names."""
    names = [str(number) for number in range(int(sources.max(initial=-1)) + 1)]
    column = None if task is None else task.provenance.get("source")
    for split in () if task is None or column is None else task.splits.values():
        fields, numbers = split.left.fields, split.left.sources
        if fields is not None and numbers is not None and column in fields.names:
            for number, name in zip(numbers.tolist(), fields.column(column)):
                names[number] = name or names[number]
    return tuple(names)


def make_index(served: Served) -> Index:
    """The held texts under the scorer, ready to search."""
    smoothing, reranker = any(served.scorer.corrections.smoothing), served.scorer.reranker
    memo = _memo(served)

    def held(texts: Collection, rows: Vectors, name: str) -> HeldTexts:
        numbers = () if texts.sources is None or name == "asking" else texts.sources.tolist()
        sources = [served.source_names[number] for number in numbers]
        lexical = None
        if reranker is not None:
            encoder = reranker.lexical
            lexical = memo(f"lexical {name}", lambda: {"rows": encoder.embed(texts.texts)})["rows"]
        return HeldTexts(texts.keys, texts.texts, rows, smoothing, lexical, sources)

    answering = held(served.texts, served.rows, "answering")
    asking = held(served.queries, served.query_rows, "asking")
    side = 0 if served.side == "left" else 1
    return Index(answering, served.scorer, asking, side, served.device, memo)


def _memo(served: Served) -> Memo:
    """Keeps what takes long to find for large collections: neighbours, candidates and lexical rows."""
    if max(len(served.texts), len(served.queries)) < KEEP_LISTS_FROM:
        return compute
    scorer = served.scorer
    key = {
        "matcher": scorer.matcher.fingerprint,
        "texts": [served.texts.fingerprint, served.queries.fingerprint],
        "side": served.side,
        "spare": SPARE,
    }
    # Lists by plain cosine depend on the matcher alone, those by smoothed rows on the corrections too.
    more = {"plain": "matcher", "smoothed": repr(scorer.corrections)}

    def memo(kind: str, build: Callable[[], Arrays]) -> Arrays:
        by = more.get(kind) or scorer.fingerprint
        return served.store.arrays("served-neighbours", {**key, "kind": kind, "by": by}, build)

    return memo


def rows_of(matcher: Matcher, texts: Collection, side: str, store: ArtifactStore) -> Vectors:
    """Unit rows of a collection, kept in the store; a frozen encoder's under the key that campaigns use."""
    encoder = matcher.encoder_for(side)
    key = {"encoder": matcher.rows_key(side), "texts": texts.fingerprint, "prefix": encoder.prefix(side)}
    return matcher.transform(cached_embeddings(store, key, encoder, texts.texts, side), side)


def checked(served: Served) -> Served:
    """Refuse a key that stands twice, and rows that the matcher would not make itself."""
    matcher, where = served.scorer.matcher, served.name
    sides = ((served.side, served.texts, served.rows), (served.query_side, served.queries, served.query_rows))
    for side, texts, rows in sides:
        if len(set(texts.keys)) != len(texts):
            twice = next(key for key, count in Counter(texts.keys).items() if count > 1)
            raise InputError(f"the key {twice!r} stands twice", where=where, why="a key names one text")
        if rows.shape[0] != len(texts):
            raise InputError(f"{rows.shape[0]:,} embeddings of {len(texts):,} texts", where=where)
        # Requests come one by one: what a GPU needs is made once, and kept.
        matcher.encoder_for(side).prepared = {}
        if not finite(matcher.embed(["nothing"], side)):
            what, why = "the model gives scores that are not numbers", "a weight is infinite or no number"
            remedy = "Export it again, or put back a copy of the folder"
            raise InputError(what, where=where, why=why, remedy=remedy)
        found = agreement(matcher, texts.texts, rows, side)
        if not found >= LEAST_AGREEMENT or not finite(rows):
            why = f"the model's own embedding of a text has cosine {found:.3f} with the one kept for it"
            if found == NOT_COMPARABLE:
                why = f"they have {rows.shape[1]} dimensions, the model's have another number"
            remedy = "Serve with the model that made them, or remove them (`cache`, or artifacts/embeddings)"
            what = "the collection's embeddings are of another model"
            raise InputError(what, where=where, why=why, remedy=remedy)
    return served


def finite(rows: Vectors) -> bool:
    """Whether all values are numbers; looked at in pieces."""
    return all(np.isfinite(rows[first : first + 65536]).all() for first in range(0, len(rows), 65536))


def agreement(matcher: Matcher, texts: Sequence[str], rows: Vectors, side: str) -> float:
    """The lowest cosine between rows and the matcher's own, over a few texts from first to last; 1 for none.

    `NOT_COMPARABLE` where the rows have another width.
    """
    if len(texts) == 0:
        return 1.0
    places = np.unique(np.linspace(0, len(texts) - 1, LOOKED_AT).astype(np.int64))
    own = matcher.embed([texts[row] for row in places.tolist()], side)
    if own.shape[1] != rows.shape[1]:
        return NOT_COMPARABLE
    return float(np.min(np.sum(own * rows[places], axis=1)))
