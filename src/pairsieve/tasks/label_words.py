"""Labels as people write them in files: which words mean match, no match and unsure."""

from __future__ import annotations

LABEL_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("1", "1.0", "yes", "y", "match", "true"), True),
    **dict.fromkeys(("0", "0.0", "no", "n", "no match", "nomatch", "false"), False),
    **dict.fromkeys(("unsure", "u", "?", "maybe"), None),
}


def plain_label(text: str) -> str:
    """A label as `LABEL_WORDS` has it: small letters, single spaces for "_", "-" and other gaps."""
    return " ".join(text.replace("_", " ").replace("-", " ").lower().split())


def _listed(meaning: bool | None) -> str:
    *words, last = [word for word, label in LABEL_WORDS.items() if label is meaning]
    return f"{', '.join(words)} or {last}"


ACCEPTED_LABELS = "; ".join(map(_listed, (True, False, None)))  # every word, in the words of a remedy
