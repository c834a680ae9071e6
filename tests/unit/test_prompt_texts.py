"""What a language model reads of a record: a line for each field that has a value."""

from __future__ import annotations

from pairsieve.library.answers import prompt_texts
from pairsieve.tasks import tables_task


def test_a_record_is_lines_of_fields_without_the_missing_ones() -> None:
    rows = [
        {"id": "a", "name": "Petra", "lat": "30.3167", "note": ""},
        {"id": "b", "name": "Bonn | Beuel", "lat": "", "note": "on the Rhine"},
        {"id": "c", "name": "Ulm", "lat": "48.4", "note": "on the Danube"},
    ]
    left, right = prompt_texts(tables_task(rows, key="id", text=["name", "lat", "note"]).splits["all"])
    assert left(0) == "name: Petra\nlat: 30.3167"
    assert right(1).endswith("note: on the Rhine") and "lat" not in right(1)
    assert " | " not in left(2)


def test_plain_texts_stay_as_they_are() -> None:
    rows = [{"id": "a", "text": "how old is it"}, {"id": "b", "text": "what age has it"}]
    left, _ = prompt_texts(tables_task(rows, key="id").splits["all"])
    assert [left(0), left(1)] == ["how old is it", "what age has it"]
