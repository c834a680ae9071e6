"""What is served? A folder with a model, and a collection, become a matcher and the collection's rows.

The folder is a campaign (the model of its last answered round, its own texts) or what `pairsieve export`
wrote (then the collection is named, or begins empty). Rows come from the cache where they are there, and
are compared with the model's own for a few texts: rows of another model are refused, never searched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore, load_array, save_array
from pairsieve.errors import InputError, nearest
from pairsieve.settings import CAMPAIGN_FILE
from pairsieve.tasks import Collection, Split, Task, load_task, tables_task

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign
    from pairsieve.models import CosineMatcher, Encoder, ProjectionMatcher

    Trained = CosineMatcher | ProjectionMatcher

Vectors = NDArray[np.float32]

STATE = "serving"  # the folder of additions, inside the served folder unless told otherwise
LOOKED_AT = 4  # rows compared with the model's own
LEAST_AGREEMENT = 0.999  # cosine; rounding is a thousand times smaller, another model is far below
NOT_COMPARABLE = -2.0  # below any cosine
EMPTY = Collection((), ())


@dataclass(frozen=True)
class Served:
    """A matcher, the texts it searches and their unit rows."""

    matcher: Trained
    texts: Collection
    rows: Vectors
    side: str  # of the collection in a pair
    asking_side: str  # of a new text; within one collection both are "left"
    name: str  # for people


def open_served(
    folder: Path,
    collection: Collection | Path | str | None,
    *,
    key: str | None = None,
    text: Sequence[str] = (),
    side: str | None = None,
    round: int | None = None,
    state: Path | None = None,
    cache: Path | None = None,
    device: str | None = None,
) -> Served:
    """Open a campaign or an exported model over a collection: see `Service.open`."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(
            "no such folder",
            where=str(folder),
            remedy="Name a campaign folder, or a model folder that pairsieve export wrote",
        )
    if side not in (None, "left", "right"):
        raise InputError(f"side {side!r}", why="a pair has a left and a right", remedy="Give left or right")
    if (folder / CAMPAIGN_FILE).is_file():
        return _open_campaign(folder, collection, key, text, side, round, state, cache)
    if not (folder / "head.json").is_file():
        found = "it is empty" if not any(folder.iterdir()) else "it has neither campaign.toml nor head.json"
        raise InputError(
            "no model to serve",
            where=str(folder),
            why=found,
            remedy="Name a campaign folder, or a model folder that pairsieve export wrote",
        )
    if round is not None:
        raise InputError(
            f"round {round} of an exported model",
            where=str(folder),
            why="it is the model of one round",
            remedy="Leave --round out",
        )
    from pairsieve.models import load_matcher

    matcher = load_matcher(folder, device)
    texts, task = _collection(collection, key, text, side)
    own, asking = _sides(side, tells_sides_apart(matcher) if task is None else _two(task))
    store = ArtifactStore(cache or (state or folder / STATE) / "artifacts")
    rows = rows_of(matcher, texts, own, store)
    return checked(Served(matcher, texts, rows, own, asking, folder.resolve().name))


def _two(task: Task) -> bool:
    return task.relation != "equivalence"


def tells_sides_apart(matcher: Trained) -> bool:
    """Whether a text is embedded differently as the left and as the right of a pair."""
    encoder = encoder_of(matcher, "left")
    return not matcher.shared or encoder.left_prefix != encoder.right_prefix


def _sides(wanted: str | None, two: bool) -> tuple[str, str]:
    """The sides of the collection and of a new text: the collection answers unless told otherwise."""
    if wanted is None and not two:
        return "left", "left"
    return ("left", "right") if wanted == "left" else ("right", "left")


def _open_campaign(
    folder: Path,
    collection: Collection | Path | str | None,
    key: str | None,
    text: Sequence[str],
    side: str | None,
    round: int | None,
    state: Path | None,
    cache: Path | None,
) -> Served:
    from pairsieve.campaign import Campaign

    campaign = Campaign(folder, cache)
    latest = campaign.latest()
    if latest == 0:
        raise InputError(
            "this campaign has no model yet",
            where=str(folder),
            why="no round is answered",
            remedy=f"Go on with it first: pairsieve run {folder}",
        )
    number = latest if round is None else round
    if not 1 <= number <= latest:
        raise InputError(f"no model of round {number}", remedy=f"Choose a round from 1 to {latest}")
    matcher, task = campaign.plain_matcher(number), campaign.task
    if side is not None and not _two(task):
        raise InputError(
            f"side {side!r} of one collection",
            where=str(folder),
            why="duplicates within one collection have no sides",
            remedy="Leave --side out",
        )
    own, asking = _sides(side, _two(task))
    name = f"{folder.resolve().name}, round {number}"
    if collection is None or (isinstance(collection, str) and collection in task.splits):
        names = list(task.splits) if collection is None else [collection]
        texts, rows = _own_texts(campaign, matcher, number, names, own)
    else:
        texts, _ = _collection(collection, key, text, own, task)
        store = ArtifactStore(cache) if cache else campaign.store
        rows = rows_of(matcher, texts, own, store)
    return checked(Served(matcher, texts, rows, own, asking, name))


def _own_texts(
    campaign: Campaign, matcher: Trained, number: int, names: Sequence[str], side: str
) -> tuple[Collection, Vectors]:
    """The texts of some splits, each key once, and the rows that the campaign keeps of them."""
    parts = [campaign.task.splits[name] for name in names]
    texts, places = _union(parts, side)
    pieces = []
    for part, kept in zip(parts, places):
        left, right = campaign.plain_embeddings(matcher, part, number)
        pieces.append((left if right is None or side == "left" else right)[kept])
    return texts, np.concatenate(pieces)


def _union(parts: Sequence[Split], side: str) -> tuple[Collection, list[NDArray[np.int64]]]:
    """Texts of several splits, a key once, and which rows of each split were taken."""
    seen: dict[str, str] = {}
    places: list[NDArray[np.int64]] = []
    for part in parts:
        kept: list[int] = []
        side_texts = part.left if side == "left" else part.right
        for row, (key, text) in enumerate(zip(side_texts.keys, side_texts.texts)):
            if key not in seen:
                seen[key] = text
                kept.append(row)
            elif seen[key] != text:
                raise InputError(
                    f"the key {key!r} stands in two splits with different texts",
                    where=f"split {part.name}",
                    why="a key names one text of what is served",
                    remedy="Serve one split: --collection train",
                )
        places.append(np.array(kept, np.int64))
    return Collection(list(seen), list(seen.values())), places


def _collection(
    given: Collection | Path | str | None,
    key: str | None,
    text: Sequence[str],
    side: str | None,
    task: Task | None = None,
) -> tuple[Collection, Task | None]:
    """A collection given as itself, as a task folder or as a table; and the task it is from, if any."""
    if given is None:
        return EMPTY, None
    if isinstance(given, Collection):
        return given, None
    path = Path(given)
    if path.is_dir():
        read = load_task(path)
        chosen = side or ("left" if read.relation == "equivalence" else "right")
        return _union(list(read.splits.values()), chosen)[0], read
    if path.is_file():
        made = tables_task(path, text=tuple(text) or ("text",), key=key, split="none")
        return next(iter(made.splits.values())).left, None
    remedy = "Name a task folder, or a table (CSV, TSV, JSON Lines, Parquet)"
    if task is not None:
        remedy += f", or a split of this campaign. {nearest(str(given), task.splits)}"
    raise InputError(f"no collection {str(given)!r}", why="there is no such file or folder", remedy=remedy)


def rows_of(matcher: Trained, texts: Collection, side: str, store: ArtifactStore) -> Vectors:
    """Unit rows of a collection, kept in the store; a frozen encoder's under the key that campaigns use."""
    from pairsieve.models import ProjectionMatcher

    def kept(key: dict[str, Any], make: Callable[[], Vectors]) -> Vectors:
        place = store.get("embeddings", key, lambda p: save_array(p / "rows.npy", make()))
        rows: Vectors = load_array(place / "rows.npy", mmap=True)
        return rows

    if len(texts) == 0:
        return matcher.embed(["nothing"], side)[:0]
    if isinstance(matcher, ProjectionMatcher):
        encoder = matcher.encoder
        key = {
            "encoder": matcher.base_fingerprint,
            "texts": texts.fingerprint,
            "prefix": encoder.prefix(side),
        }
        return matcher.project(kept(key, lambda: encoder.embed(texts.texts, side)), side)
    key = {"matcher": matcher.fingerprint, "texts": texts.fingerprint, "side": side}
    return kept(key, lambda: matcher.embed(texts.texts, side))


def encoder_of(matcher: Trained, side: str) -> Encoder:
    """The encoder that reads the texts of a side."""
    from pairsieve.models import ProjectionMatcher

    if isinstance(matcher, ProjectionMatcher):
        return matcher.encoder
    return matcher.right if side == "right" else matcher.left


def checked(served: Served) -> Served:
    """Refuse a key that stands twice, and rows that the matcher would not make itself."""
    texts, rows = served.texts, served.rows
    if len(set(texts.keys)) != len(texts):
        twice = next(key for key, count in Counter(texts.keys).items() if count > 1)
        raise InputError(f"the key {twice!r} stands twice", where=served.name, why="a key names one text")
    if rows.shape[0] != len(texts):
        raise InputError(f"{rows.shape[0]:,} embeddings of {len(texts):,} texts", where=served.name)
    for side in ("left", "right"):  # requests come one by one: what a GPU needs is made once, and kept
        encoder_of(served.matcher, side).prepared = {}
    found = agreement(served.matcher, texts.texts, rows, served.side)
    if found < LEAST_AGREEMENT:
        raise InputError(
            "the collection's embeddings are of another model",
            where=served.name,
            why=f"the model's own embedding of a text has cosine {found:.3f} with the one kept for it"
            if found > NOT_COMPARABLE
            else f"they have {rows.shape[1]} dimensions, the model's have another number",
            remedy="Serve with the model that made them, or remove them (--cache, or artifacts/embeddings)",
        )
    return served


def agreement(matcher: Trained, texts: Sequence[str], rows: Vectors, side: str) -> float:
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
