"""Letters of several scripts, common words and abbreviations, for synthetic records."""

from __future__ import annotations

_CONSONANTS = "b br c d dr f g gr h k l m n p r s st t tr v w"
_VOWELS = "a e i o u ai ea ou"
LETTERS: dict[str, tuple[list[str], list[str]]] = {  # consonants, vowels; without vowels: characters
    "latin": (_CONSONANTS.split(), _VOWELS.split()),
    "cyrillic": (list("бвгджзклмнпрстфхцчш"), list("аеиоуыяю")),
    "greek": (list("βγδζθκλμνξπρστφχψ"), list("αειουηω")),
    "chinese": ([chr(0x4E00 + 7 * step) for step in range(600)], []),
}

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
STREETS = ("Street", "Road", "Avenue", "Lane", "Square", "Drive")

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
