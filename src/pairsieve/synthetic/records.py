"""Synthetic record tables with the whole truth: products, people, citations, places, names, notes, codes.

A table holds entities, each written down one or more times: records of one entity match. A record is its
entity with typing errors, abbreviations, swapped order, other formats and missing fields; some are exact
copies of an earlier record. A near miss is an entity of its own that shares most fields with another: another
size of the same product, a brother at the same address, the second part of an article.

All words are made of syllables by rule, or come from short lists of common words in `record_words.py`. Every
choice is a number in [0, 1) drawn with `Generator.random`, so that a seed gives the same table under every
Python and numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pairsieve.synthetic.record_words import ABBREVIATIONS, ADJECTIVES, LETTERS, NOUNS, STREETS, VENUES
from pairsieve.tasks.joined import joined_rows

SHORT = 4  # letters of a word below which no typing error is made
Option = TypeVar("Option")


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
        order: list[int] = np.argsort(self._rng.random(count), kind="stable").tolist()
        return order


@dataclass(frozen=True)
class _Words:
    """The words of a table: names and brands made of syllables, common words of English or made as well."""

    given: list[str]
    family: list[str]
    brands: list[str]
    towns: list[str]
    adjectives: Sequence[str]
    nouns: Sequence[str]
    venues: Sequence[str]


Values = list[str]


@dataclass(frozen=True)
class Kind:
    """A kind of record: its fields, how each may vary, a new entity, and a near miss of one."""

    fields: dict[str, str]  # name -> how it varies: words, name, names, number, code, date
    entity: Callable[[Draw, _Words], Values]
    near: Callable[[Draw, _Words, Values], Values]


def synthetic_records(
    kind: str, sizes: Sequence[int], seed: int, roughness: Roughness | None = None, script: str = "english"
) -> SyntheticRecords:
    """A table of one kind with so many records of each entity; `script` as in `LETTERS`, or english."""
    roughness, draw, made = roughness or Roughness(), Draw(seed), KINDS[kind]
    words = _vocabulary(draw, script)
    entities: list[Values] = []
    rows: list[Values] = []
    numbers: list[int] = []
    for number, size in enumerate(sizes):
        near = bool(entities) and draw.chance(roughness.near_misses)
        entity = made.near(draw, words, draw.pick(entities)) if near else made.entity(draw, words)
        entities.append(entity)
        records: list[Values] = []
        for _ in range(size):
            if records and draw.chance(roughness.identical):
                records.append(draw.pick(records))
            else:
                records.append(_record(draw, made, entity, roughness))
        rows += records
        numbers += [number] * size
    order = draw.shuffled(len(rows))
    columns = {name: [rows[at][place] for at in order] for place, name in enumerate(made.fields)}
    return SyntheticRecords(columns, np.array([numbers[at] for at in order], np.int64))


def group_sizes(records: int, shares: dict[int, float]) -> list[int]:
    """Sizes that add up to `records`; shares: size -> share of the records in groups of it; singles fill."""
    sizes = [size for size, share in shares.items() if size > 1 for _ in range(int(records * share / size))]
    return sizes + [1] * (records - sum(sizes))


# ── words ───────────────────────────────────────────────────────────────────────────────────────


def _vocabulary(draw: Draw, script: str) -> _Words:
    english = script == "english"
    letters = "latin" if english else script

    def some(count: int, least: int = 2, most: int = 3) -> list[str]:
        return [_word(draw, letters, least, most).capitalize() for _ in range(count)]

    common = [] if english else [word.lower() for word in some(300, 1, 3)]
    return _Words(
        given=some(120),
        family=some(400),
        brands=some(60, 1, 3),
        towns=some(80),
        adjectives=ADJECTIVES if english else common[:100],
        nouns=NOUNS if english else common[100:],
        venues=VENUES if english else [" ".join(draw.pick(common) for _ in range(4)) for _ in range(20)],
    )


def _word(draw: Draw, script: str, least: int, most: int) -> str:
    """A word of so many syllables; in Chinese characters a syllable is one character."""
    consonants, vowels = LETTERS[script]
    syllables = [
        draw.pick(consonants) + (draw.pick(vowels) if vowels else "") for _ in range(draw.whole(least, most))
    ]
    end = draw.pick(consonants) if vowels and draw.chance(0.5) else ""
    return "".join(syllables) + end[:1]


def _sentence(draw: Draw, words: _Words, low: int, high: int) -> str:
    """Common words in a row; the early words of the lists are the frequent ones."""
    chosen = []
    for at in range(draw.whole(low, high)):
        options = words.adjectives if at % 2 == 0 else words.nouns
        chosen.append(options[min(draw.whole(0, len(options) - 1), draw.whole(0, len(options) - 1))])
    return " ".join(chosen)


# ── entities and their near misses ──────────────────────────────────────────────────────────────


def _code(draw: Draw) -> str:
    return "".join(draw.pick("ABCDEFGHKLMNPRSTVWXZ") for _ in range(2)) + "-" + draw.digits(draw.whole(3, 5))


def _price(draw: Draw) -> str:
    return f"{draw.whole(3, 900)}.{draw.pick(('00', '49', '95', '99'))}"


def _product(draw: Draw, words: _Words) -> Values:
    brand, size = (
        draw.pick(words.brands),
        draw.pick(("", f"{draw.whole(1, 40)} {draw.pick(('cm', 'l', 'kg'))}")),
    )
    name = f"{brand} {_sentence(draw, words, 2, 5)} {size}".strip()
    return [name, _code(draw), draw.pick(words.nouns), _price(draw)]


def _other_product(draw: Draw, words: _Words, values: Values) -> Values:
    """Another size or model of the same product."""
    name = values[0].split()
    name[draw.whole(1, len(name) - 1)] = draw.pick(words.adjectives)
    return [" ".join(name), values[1][:-2] + draw.digits(2), values[2], _price(draw)]


def _date(draw: Draw) -> str:
    return f"{draw.whole(1930, 2015)}-{draw.whole(1, 12):02d}-{draw.whole(1, 28):02d}"


def _person(draw: Draw, words: _Words) -> Values:
    street = f"{draw.whole(1, 180)} {draw.pick(words.family)} {draw.pick(STREETS)}"
    name = f"{draw.pick(words.given)} {draw.pick(words.family)}"
    return [name, street, draw.pick(words.towns), draw.digits(5), _date(draw), draw.digits(9)]


def _relative(draw: Draw, words: _Words, values: Values) -> Values:
    """Another given name and birthday, the same family and address."""
    name = f"{draw.pick(words.given)} {values[0].split()[-1]}"
    return [name, *values[1:4], _date(draw), draw.digits(9)]


def _citation(draw: Draw, words: _Words) -> Values:
    authors = ", ".join(
        f"{draw.pick(words.given)} {draw.pick(words.family)}" for _ in range(draw.whole(1, 4))
    )
    first = draw.whole(1, 900)
    pages = f"{first}-{first + draw.whole(4, 30)}"
    return [
        authors,
        _sentence(draw, words, 4, 10),
        draw.pick(words.venues),
        str(draw.whole(1985, 2020)),
        pages,
    ]


def _sequel(draw: Draw, words: _Words, values: Values) -> Values:
    """The same authors write on: a word of the title, the year and the pages are others."""
    other = _citation(draw, words)
    title = values[1].split()
    title[draw.whole(0, len(title) - 1)] = draw.pick(words.nouns)
    return [values[0], " ".join(title), draw.pick((values[2], other[2])), *other[3:]]


def _place(draw: Draw, words: _Words) -> Values:
    ending = draw.pick(("", "", "", f" {draw.pick(words.nouns)}", f" ({draw.pick(words.towns)})"))
    latitude, longitude = (
        f"{draw.whole(*span) / 10000:.4f}" for span in ((-600000, 700000), (-1790000, 1790000))
    )
    return [draw.pick(words.family) + ending, latitude, longitude]


def _namesake(draw: Draw, words: _Words, values: Values) -> Values:
    """Another place of the same name."""
    return [values[0], *_place(draw, words)[1:]]


def _name(draw: Draw, words: _Words) -> Values:
    return [f"{draw.pick(words.given)} {draw.pick(words.family)}"]


def _other_name(draw: Draw, words: _Words, values: Values) -> Values:
    given, family = values[0].split()[:2]
    return [draw.pick((f"{draw.pick(words.given)} {family}", f"{given} {draw.pick(words.family)}"))]


def _note(draw: Draw, words: _Words) -> Values:
    sentences = [_sentence(draw, words, 6, 14).capitalize() + "." for _ in range(draw.whole(8, 20))]
    return [_sentence(draw, words, 3, 6), " ".join(sentences)]


def _other_note(draw: Draw, words: _Words, values: Values) -> Values:
    """Half of the sentences are the same."""
    old, new = (each[1].split(". ") for each in (values, _note(draw, words)))
    return [values[0], ". ".join([*old[: len(old) // 2], *new[: len(new) // 2]])]


def _codes(draw: Draw, words: _Words) -> Values:
    return ["-".join(draw.digits(3) + draw.pick("QXZJKV") + draw.digits(2) for _ in range(3)), draw.digits(8)]


def _other_codes(draw: Draw, words: _Words, values: Values) -> Values:
    return [values[0][:-3] + draw.digits(3), draw.digits(8)]


KINDS = {
    "products": Kind(
        {"name": "words", "model": "code", "category": "words", "price": "number"}, _product, _other_product
    ),
    "people": Kind(
        {
            "name": "name",
            "street": "words",
            "town": "words",
            "postcode": "code",
            "born": "date",
            "phone": "code",
        },
        _person,
        _relative,
    ),
    "citations": Kind(
        {"authors": "names", "title": "words", "venue": "words", "year": "number", "pages": "number"},
        _citation,
        _sequel,
    ),
    "places": Kind({"name": "words", "latitude": "number", "longitude": "number"}, _place, _namesake),
    "names": Kind({"name": "name"}, _name, _other_name),
    "notes": Kind({"subject": "words", "body": "sentences"}, _note, _other_note),
    "codes": Kind({"code": "code", "number": "code"}, _codes, _other_codes),
}


# ── records of an entity ────────────────────────────────────────────────────────────────────────


def _record(draw: Draw, kind: Kind, entity: Values, roughness: Roughness) -> Values:
    values = []
    for place, (value, varies) in enumerate(zip(entity, kind.fields.values())):
        if place and draw.chance(roughness.missing):
            values.append("")
            continue
        values.append(_varied(draw, value, varies, roughness))
    if draw.chance(0.2):
        values = [value.lower() for value in values]
    return values


def _varied(draw: Draw, value: str, varies: str, roughness: Roughness) -> str:
    """A value as somebody else would write it down."""
    if varies == "names":
        parts = value.split(", ")
        if len(parts) > 2 and draw.chance(roughness.abbreviated / 2):
            parts = [parts[0], "et al."]
        short = draw.chance(roughness.abbreviated)
        parts = [_initial(part) if short else part for part in parts]
        return _mistyped(draw, ", ".join(parts), roughness.typo)
    if varies == "name":
        if draw.chance(roughness.abbreviated):
            value = _initial(value)
        if draw.chance(roughness.reordered):
            given, _, family = value.rpartition(" ")
            value = f"{family}, {given}"
        return _mistyped(draw, value, roughness.typo)
    if varies == "words":
        words = value.split()
        if draw.chance(roughness.abbreviated):
            words = [ABBREVIATIONS.get(word.lower(), word) for word in words]
            if len(words) > 3:
                del words[draw.whole(1, len(words) - 1)]
        if len(words) > 2 and draw.chance(roughness.reordered):
            at = draw.whole(0, len(words) - 2)
            words[at : at + 2] = words[at + 1], words[at]
        return _mistyped(draw, " ".join(words), roughness.typo)
    if varies == "sentences":
        parts = value.split(". ")
        if draw.chance(roughness.reordered):
            at = draw.whole(0, len(parts) - 1)
            parts = parts[at:] + parts[:at]
        if len(parts) > 3 and draw.chance(roughness.abbreviated):
            del parts[draw.whole(0, len(parts) - 1)]
        return _mistyped(draw, ". ".join(parts), roughness.typo * 3)
    if varies == "code":
        if draw.chance(roughness.abbreviated):
            value = value.replace("-", draw.pick(("", " ")))
        if draw.chance(roughness.typo / 2):
            at = draw.whole(0, len(value) - 1)
            value = value[:at] + draw.digits(1) + value[at + 1 :]
        return value
    if varies == "date":
        year, month, day = value.split("-")
        return f"{day}/{month}/{year}" if draw.chance(roughness.reordered) else value
    if draw.chance(roughness.abbreviated):  # pages without the last, or fewer decimals
        if "-" in value[1:]:
            return value.partition("-")[0]
        return value[:-1] if "." in value else value
    return value


def _initial(name: str) -> str:
    first, _, rest = name.partition(" ")
    return f"{first[0]}. {rest}" if rest else name


def _mistyped(draw: Draw, value: str, share: float) -> str:
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
