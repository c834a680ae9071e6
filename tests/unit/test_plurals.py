"""Counts in words agree with their nouns and verbs."""

from pairsieve.plurals import counted


def test_a_count_agrees_with_its_noun() -> None:
    assert [counted(n, "row") for n in (0, 1, 2048)] == ["0 rows", "1 row", "2,048 rows"]
    assert counted(1, "question waits", "questions wait") == "1 question waits"
    assert counted(3, "question waits", "questions wait") == "3 questions wait"
