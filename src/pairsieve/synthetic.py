"""Synthetic tables of citations with the whole truth, for the demo and for trying things out.

A table holds entities, each written down one or more times: records of one entity match. A record is its
entity with typing errors, abbreviations, swapped order, other formats and missing fields; some are exact
copies of an earlier record. A near miss is an entity of its own that shares most fields with another, such as
the second part of an article.

All names are made of syllables by rule; other words come from short lists. Every choice is a number in [0, 1)
drawn with `Generator.random`, so that a seed gives the same table under every Python and numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import AllPairs, same_cluster
from pairsieve.tasks import Collection, Split, Task
from pairsieve.tasks.joined import joined_rows

SHORT = 4  # letters of a word below which no typing error is made
GROUPS = {2: 0.3, 3: 0.2, 5: 0.15}  # of a synthetic task: share of the records in groups of each size
Option = TypeVar("Option")

_SYLLABLES = "b br c d dr f g gr h k l m n p r s st t tr v w", "a e i o u ai ea ou"
CONSONANTS, VOWELS = (letters.split() for letters in _SYLLABLES)
_ADJECTIVES = """
small large light heavy fast quiet bright dark soft hard warm cold flat round deep wide narrow
simple double folding portable electric digital wireless outdoor compact sealed modern classic
natural linear random sparse robust local global hidden adaptive gradual stable recursive optimal
parallel dynamic static weighted general efficient discrete temporal partial joint early late green
blue red white black silver golden wooden metal plastic cotton leather stainless
"""
_NOUNS = """
kettle lamp chair table heater speaker cable charger printer camera mixer blender router monitor
keyboard battery filter toaster radio clock drill ladder bottle basket bench garden kitchen office
travel learning search retrieval networks graphs memory databases queries systems models analysis
sampling estimation clustering languages compilers robots planning vision signals control matching
records storage protocols scheduling caching parsing trees rules features kernels agents markets
sensors images texts speech music weather rivers forests cities traffic energy water stones bridges
engines wheels
"""
ADJECTIVES, NOUNS = tuple(_ADJECTIVES.split()), tuple(_NOUNS.split())
VENUES = (
    "international conference on systems and data",
    "annual symposium on learning theory",
    "journal of applied computing",
    "proceedings of the national workshop on networks",
    "transactions on information management",
    "european conference on machine intelligence",
    "department of computer science technical report",
    "advances in signals and control",
    "international journal of robotics",
    "annual conference on language and speech",
)
ABBREVIATIONS = {
    "international": "intl.",
    "conference": "conf.",
    "proceedings": "proc.",
    "symposium": "symp.",
    "journal": "j.",
    "transactions": "trans.",
    "department": "dept.",
    "national": "natl.",
    "european": "eur.",
    "technical": "tech.",
    "report": "rep.",
    "street": "St",
    "road": "Rd",
    "avenue": "Ave",
    "lane": "Ln",
    "square": "Sq",
    "drive": "Dr",
    "electric": "elec.",
    "portable": "port.",
    "stainless": "ss",
    "wireless": "w/less",
    "black": "blk",
    "white": "wht",
    "silver": "slvr",
    "databases": "dbs",
    "systems": "sys.",
    "networks": "nets",
}


@dataclass(frozen=True, kw_only=True)
class Roughness:
    """How far the records of an entity differ. Shares are of records, or of their fields where it says so."""

    identical: float = 0.15  # of records after an entity's first: exact copies of an earlier one
    typo: float = 0.15  # of fields
    abbreviated: float = 0.25  # of fields
    reordered: float = 0.15  # of fields of several words
    missing: float = 0.1  # of fields but the first
    near_misses: float = 0.2  # of entities


@dataclass(frozen=True)
class SyntheticRecords:
    """A table by columns, and the entity of each record ((n,) int64): records match where it is equal."""

    columns: dict[str, list[str]]
    entity: NDArray[np.int64]

    def texts(self) -> list[str]:
        """A record as one text: its values joined by " | ", the places of those missing left empty."""
        return joined_rows(list(self.columns.values()))


class Draw:
    """Random choices, each made of one number in [0, 1)."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def chance(self, share: float) -> bool:
        return float(self._rng.random()) < share

    def whole(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return low + int(self._rng.random() * (high - low + 1))

    def pick(self, options: Sequence[Option]) -> Option:
        return options[self.whole(0, len(options) - 1)]

    def digits(self, count: int) -> str:
        return "".join(str(self.whole(0, 9)) for _ in range(count))

    def shuffled(self, count: int) -> list[int]:
        return np.argsort(self._rng.random(count), kind="stable").tolist()


@dataclass(frozen=True)
class Words:
    """The words of a table: names and brands made of syllables, common words of English or others."""

    given: list[str]
    family: list[str]
    brands: list[str]
    towns: list[str]
    adjectives: Sequence[str]
    nouns: Sequence[str]
    venues: Sequence[str]


Values = list[str]
Vary = Callable[["Draw", str, Roughness], str]  # a value as somebody else would write it down


@dataclass(frozen=True)
class Kind:
    """A kind of record: its fields and how each varies, a new entity, and a near miss of one."""

    fields: dict[str, Vary]
    entity: Callable[[Draw, Words], Values]
    near: Callable[[Draw, Words, Values], Values]


def synthetic_records(
    kind: Kind,
    sizes: Sequence[int],
    seed: int,
    roughness: Roughness | None = None,
    words_of: Callable[[Draw], Words] | None = None,
) -> SyntheticRecords:
    """A table of one kind with so many records of each entity; `words_of`: None is English."""
    roughness, draw = roughness or Roughness(), Draw(seed)
    words = (words_of or english_words)(draw)
    entities: list[Values] = []
    rows: list[Values] = []
    numbers: list[int] = []
    for number, size in enumerate(sizes):
        near = bool(entities) and draw.chance(roughness.near_misses)
        entity = kind.near(draw, words, draw.pick(entities)) if near else kind.entity(draw, words)
        entities.append(entity)
        records: list[Values] = []
        for _ in range(size):
            if records and draw.chance(roughness.identical):
                records.append(draw.pick(records))
            else:
                records.append(_record(draw, kind, entity, roughness))
        rows += records
        numbers += [number] * size
    order = draw.shuffled(len(rows))
    columns = {name: [rows[at][place] for at in order] for place, name in enumerate(kind.fields)}
    return SyntheticRecords(columns, np.array([numbers[at] for at in order], np.int64))


def group_sizes(records: int, shares: dict[int, float]) -> list[int]:
    """Sizes that add up to `records`; shares: size -> share of the records in groups of it; singles fill."""
    sizes = [size for size, share in shares.items() if size > 1 for _ in range(int(records * share / size))]
    return sizes + [1] * (records - sum(sizes))


def synthetic_task(texts: int, seed: int) -> Task:
    """Synthetic citations as a task: whole groups at random, half of the records each for train and test."""
    sizes = group_sizes(texts, GROUPS)
    table = synthetic_records(CITATIONS, sizes, seed)
    groups = np.random.default_rng([seed, 1]).permutation(len(sizes))
    before = np.cumsum(np.array(sizes)[groups]) - np.array(sizes)[groups] / 2
    in_train = np.isin(table.entity, groups[before <= texts / 2])
    splits = {"train": _split("train", table, in_train), "test": _split("test", table, ~in_train)}
    provenance = {"source": "pairsieve.synthetic", "texts": texts, "seed": seed}
    return Task("synthetic-citations", "equivalence", splits, provenance, {})


def records_task(name: str, table: SyntheticRecords, truth: bool = True) -> Task:
    """The duplicates of one table of records: one split `all`, with its truth or without."""
    split = _split("all", table, np.ones(len(table.entity), bool), truth)
    return Task(name, "equivalence", {"all": split}, {"source": "pairsieve.synthetic"}, {})


def _split(name: str, table: SyntheticRecords, kept: NDArray[np.bool_], truth: bool = True) -> Split:
    """The records that `kept` (n,) names, under their numbers in the table."""
    texts, rows, nothing = table.texts(), np.flatnonzero(kept).tolist(), np.empty(0, np.int64)
    side = Collection([f"r{row:05d}" for row in rows], [texts[row] for row in rows])
    positives = same_cluster(table.entity[kept]) if truth else nothing
    return Split(name, AllPairs(len(side)), side, side, positives, nothing, truth)


# ── words ────────────────────────────────────────────────────────────────────────────────────────


def english_words(draw: Draw) -> Words:
    """Made names, and the common words of this module."""
    counts = ((120,), (400,), (60, 1), (80,))
    given, family, brands, towns = (made_words(draw, CONSONANTS, VOWELS, *each) for each in counts)
    return Words(given, family, brands, towns, ADJECTIVES, NOUNS, VENUES)


def made_words(
    draw: Draw, consonants: Sequence[str], vowels: Sequence[str], count: int, least: int = 2, most: int = 3
) -> list[str]:
    """So many words of `least` to `most` syllables; without vowels a syllable is one character."""
    words = []
    for _ in range(count):
        syllables = [
            draw.pick(consonants) + (draw.pick(vowels) if vowels else "")
            for _ in range(draw.whole(least, most))
        ]
        end = draw.pick(consonants) if vowels and draw.chance(0.5) else ""
        words.append(("".join(syllables) + end[:1]).capitalize())
    return words


def sentence(draw: Draw, words: Words, low: int, high: int) -> str:
    """Common words in a row; the early words of the lists are the frequent ones."""
    chosen = []
    for at in range(draw.whole(low, high)):
        options = words.adjectives if at % 2 == 0 else words.nouns
        chosen.append(options[min(draw.whole(0, len(options) - 1), draw.whole(0, len(options) - 1))])
    return " ".join(chosen)


# ── citations, and records of them ───────────────────────────────────────────────────────────────


def _citation(draw: Draw, words: Words) -> Values:
    authors = ", ".join(
        f"{draw.pick(words.given)} {draw.pick(words.family)}" for _ in range(draw.whole(1, 4))
    )
    first = draw.whole(1, 900)
    pages = f"{first}-{first + draw.whole(4, 30)}"
    return [
        authors,
        sentence(draw, words, 4, 10),
        draw.pick(words.venues),
        str(draw.whole(1985, 2020)),
        pages,
    ]


def _sequel(draw: Draw, words: Words, values: Values) -> Values:
    """The same authors write on: a word of the title, the year and the pages are others."""
    other = _citation(draw, words)
    title = values[1].split()
    title[draw.whole(0, len(title) - 1)] = draw.pick(words.nouns)
    return [values[0], " ".join(title), draw.pick((values[2], other[2])), *other[3:]]


def vary_names(draw: Draw, value: str, roughness: Roughness) -> str:
    """Names with commas between: "et al.", initials."""
    parts = value.split(", ")
    if len(parts) > 2 and draw.chance(roughness.abbreviated / 2):
        parts = [parts[0], "et al."]
    short = draw.chance(roughness.abbreviated)
    parts = [initial(part) if short else part for part in parts]
    return mistyped(draw, ", ".join(parts), roughness.typo)


def vary_words(draw: Draw, value: str, roughness: Roughness) -> str:
    """Words abbreviated, left out or swapped."""
    words = value.split()
    if draw.chance(roughness.abbreviated):
        words = [ABBREVIATIONS.get(word.lower(), word) for word in words]
        if len(words) > 3:
            del words[draw.whole(1, len(words) - 1)]
    if len(words) > 2 and draw.chance(roughness.reordered):
        at = draw.whole(0, len(words) - 2)
        words[at : at + 2] = words[at + 1], words[at]
    return mistyped(draw, " ".join(words), roughness.typo)


def vary_number(draw: Draw, value: str, roughness: Roughness) -> str:
    """Pages without the last, or fewer decimals."""
    if draw.chance(roughness.abbreviated):
        if "-" in value[1:]:
            return value.partition("-")[0]
        return value[:-1] if "." in value else value
    return value


def _record(draw: Draw, kind: Kind, entity: Values, roughness: Roughness) -> Values:
    values = []
    for place, (value, vary) in enumerate(zip(entity, kind.fields.values())):
        if place and draw.chance(roughness.missing):
            values.append("")
            continue
        values.append(vary(draw, value, roughness))
    if draw.chance(0.2):
        values = [value.lower() for value in values]
    return values


def initial(name: str) -> str:
    first, _, rest = name.partition(" ")
    return f"{first[0]}. {rest}" if rest else name


def mistyped(draw: Draw, value: str, share: float) -> str:
    """The value with at most one letter in it swapped, dropped, doubled or replaced by the next one."""
    words = value.split(" ")
    long = [at for at, word in enumerate(words) if len(word) >= SHORT and word.isalpha()]
    if not long or not draw.chance(share):
        return value
    which = draw.pick(long)
    word = words[which]
    at = draw.whole(1, len(word) - 2)
    words[which] = draw.pick(
        (
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
            word[:at] + word[at + 1] + word[at + 1 :],
        )
    )
    return " ".join(words)


CITATIONS = Kind(
    {
        "authors": vary_names,
        "title": vary_words,
        "venue": vary_words,
        "year": vary_number,
        "pages": vary_number,
    },
    _citation,
    _sequel,
)
