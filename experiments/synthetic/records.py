"""Synthetic record tables of many kinds and scripts: products, people, places, names, notes, codes.

`pairsieve.synthetic` has what they share, and citations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pairsieve.synthetic import (
    CITATIONS,
    CONSONANTS,
    VOWELS,
    Draw,
    Kind,
    Roughness,
    SyntheticRecords,
    Values,
    Words,
    initial,
    made_words,
    mistyped,
    sentence,
    synthetic_records,
    vary_number,
    vary_words,
)

STREETS = ("Street", "Road", "Avenue", "Lane", "Square", "Drive")
LETTERS: dict[str, tuple[Sequence[str], Sequence[str]]] = {  # consonants, vowels; without vowels: characters
    "latin": (CONSONANTS, VOWELS),
    "cyrillic": ("бвгджзклмнпрстфхцчш", "аеиоуыяю"),
    "greek": ("βγδζθκλμνξπρστφχψ", "αειουηω"),
    "chinese": ([chr(0x4E00 + 7 * step) for step in range(600)], []),
}


def table_of(
    kind: str, sizes: Sequence[int], seed: int, roughness: Roughness | None = None, script: str = "english"
) -> SyntheticRecords:
    """A table of a kind of `KINDS`; `script` as in `LETTERS`, or english."""
    words_of = None if script == "english" else partial(_words_in, script)
    return synthetic_records(KINDS[kind], sizes, seed, roughness, words_of)


def _words_in(script: str, draw: Draw) -> Words:
    """Names and common words made of a script's letters."""
    common = [word.lower() for word in made_words(draw, *LETTERS[script], 300, 1, 3)]
    counts = ((120,), (400,), (60, 1), (80,))
    given, family, brands, towns = (made_words(draw, *LETTERS[script], *each) for each in counts)
    venues = [" ".join(draw.pick(common) for _ in range(4)) for _ in range(20)]
    return Words(given, family, brands, towns, common[:100], common[100:], venues)


def _code(draw: Draw) -> str:
    return "".join(draw.pick("ABCDEFGHKLMNPRSTVWXZ") for _ in range(2)) + "-" + draw.digits(draw.whole(3, 5))


def _price(draw: Draw) -> str:
    return f"{draw.whole(3, 900)}.{draw.pick(('00', '49', '95', '99'))}"


def _product(draw: Draw, words: Words) -> Values:
    brand, size = (
        draw.pick(words.brands),
        draw.pick(("", f"{draw.whole(1, 40)} {draw.pick(('cm', 'l', 'kg'))}")),
    )
    name = f"{brand} {sentence(draw, words, 2, 5)} {size}".strip()
    return [name, _code(draw), draw.pick(words.nouns), _price(draw)]


def _other_product(draw: Draw, words: Words, values: Values) -> Values:
    """Another size or model of the same product."""
    name = values[0].split()
    name[draw.whole(1, len(name) - 1)] = draw.pick(words.adjectives)
    return [" ".join(name), values[1][:-2] + draw.digits(2), values[2], _price(draw)]


def _date(draw: Draw) -> str:
    return f"{draw.whole(1930, 2015)}-{draw.whole(1, 12):02d}-{draw.whole(1, 28):02d}"


def _person(draw: Draw, words: Words) -> Values:
    street = f"{draw.whole(1, 180)} {draw.pick(words.family)} {draw.pick(STREETS)}"
    name = f"{draw.pick(words.given)} {draw.pick(words.family)}"
    return [name, street, draw.pick(words.towns), draw.digits(5), _date(draw), draw.digits(9)]


def _relative(draw: Draw, words: Words, values: Values) -> Values:
    """Another given name and birthday, the same family and address."""
    name = f"{draw.pick(words.given)} {values[0].split()[-1]}"
    return [name, *values[1:4], _date(draw), draw.digits(9)]


def _place(draw: Draw, words: Words) -> Values:
    ending = draw.pick(("", "", "", f" {draw.pick(words.nouns)}", f" ({draw.pick(words.towns)})"))
    latitude, longitude = (
        f"{draw.whole(*span) / 10000:.4f}" for span in ((-600000, 700000), (-1790000, 1790000))
    )
    return [draw.pick(words.family) + ending, latitude, longitude]


def _namesake(draw: Draw, words: Words, values: Values) -> Values:
    """Another place of the same name."""
    return [values[0], *_place(draw, words)[1:]]


def _name(draw: Draw, words: Words) -> Values:
    return [f"{draw.pick(words.given)} {draw.pick(words.family)}"]


def _other_name(draw: Draw, words: Words, values: Values) -> Values:
    given, family = values[0].split()[:2]
    return [draw.pick((f"{draw.pick(words.given)} {family}", f"{given} {draw.pick(words.family)}"))]


def _note(draw: Draw, words: Words) -> Values:
    sentences = [sentence(draw, words, 6, 14).capitalize() + "." for _ in range(draw.whole(8, 20))]
    return [sentence(draw, words, 3, 6), " ".join(sentences)]


def _other_note(draw: Draw, words: Words, values: Values) -> Values:
    """Half of the sentences are the same."""
    old, new = (each[1].split(". ") for each in (values, _note(draw, words)))
    return [values[0], ". ".join([*old[: len(old) // 2], *new[: len(new) // 2]])]


def _codes(draw: Draw, words: Words) -> Values:
    return ["-".join(draw.digits(3) + draw.pick("QXZJKV") + draw.digits(2) for _ in range(3)), draw.digits(8)]


def _other_codes(draw: Draw, words: Words, values: Values) -> Values:
    return [values[0][:-3] + draw.digits(3), draw.digits(8)]


def _vary_name(draw: Draw, value: str, roughness: Roughness) -> str:
    if draw.chance(roughness.abbreviated):
        value = initial(value)
    if draw.chance(roughness.reordered):
        given, _, family = value.rpartition(" ")
        value = f"{family}, {given}"
    return mistyped(draw, value, roughness.typo)


def _vary_sentences(draw: Draw, value: str, roughness: Roughness) -> str:
    parts = value.split(". ")
    if draw.chance(roughness.reordered):
        at = draw.whole(0, len(parts) - 1)
        parts = parts[at:] + parts[:at]
    if len(parts) > 3 and draw.chance(roughness.abbreviated):
        del parts[draw.whole(0, len(parts) - 1)]
    return mistyped(draw, ". ".join(parts), roughness.typo * 3)


def _vary_code(draw: Draw, value: str, roughness: Roughness) -> str:
    if draw.chance(roughness.abbreviated):
        value = value.replace("-", draw.pick(("", " ")))
    if draw.chance(roughness.typo / 2):
        at = draw.whole(0, len(value) - 1)
        value = value[:at] + draw.digits(1) + value[at + 1 :]
    return value


def _vary_date(draw: Draw, value: str, roughness: Roughness) -> str:
    year, month, day = value.split("-")
    return f"{day}/{month}/{year}" if draw.chance(roughness.reordered) else value


KINDS = {
    "products": Kind(
        {"name": vary_words, "model": _vary_code, "category": vary_words, "price": vary_number},
        _product,
        _other_product,
    ),
    "people": Kind(
        {
            "name": _vary_name,
            "street": vary_words,
            "town": vary_words,
            "postcode": _vary_code,
            "born": _vary_date,
            "phone": _vary_code,
        },
        _person,
        _relative,
    ),
    "citations": CITATIONS,
    "places": Kind(
        {"name": vary_words, "latitude": vary_number, "longitude": vary_number}, _place, _namesake
    ),
    "names": Kind({"name": _vary_name}, _name, _other_name),
    "notes": Kind({"subject": vary_words, "body": _vary_sentences}, _note, _other_note),
    "codes": Kind({"code": _vary_code, "number": _vary_code}, _codes, _other_codes),
}
