"""Refuses texts and keys that cannot be matched: nothing to read, too long, or not Unicode."""

from __future__ import annotations

from pairsieve.errors import InputError

LONGEST_TEXT = 100_000  # characters; an encoder reads the first few hundred
LONGEST_KEY = 500  # characters


class TooLong(InputError):
    """A text that is longer than any encoder would read."""


def check_key(key: str) -> None:
    """Refuse a key that is empty, too long or not Unicode."""
    if not 1 <= len(key) <= LONGEST_KEY:
        remedy = f"Give a key of 1 to {LONGEST_KEY} characters"
        raise InputError(f"a key of {len(key):,} characters", remedy=remedy)
    check_unicode(key, "key")


def check_text(text: str) -> None:
    """Refuse a text that cannot be matched: nothing to read, too long, or not Unicode."""
    if len(text) > LONGEST_TEXT:
        why = f"at most {LONGEST_TEXT:,} are taken, and an encoder reads only the first few hundred words"
        raise TooLong(f"a text of {len(text):,} characters", why=why, remedy="Send the part that matters")
    if not any(character.isprintable() and not character.isspace() for character in text):
        raise InputError("the text is empty", why="there is nothing to match", remedy="Give some words")
    check_unicode(text, "text")


def check_unicode(words: str, what: str) -> None:
    try:
        words.encode()
    except UnicodeEncodeError:
        message = f"the {what} holds half a surrogate pair, which is no character"
        raise InputError(message, remedy="Send UTF-8") from None
