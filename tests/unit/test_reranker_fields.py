"""Fields of joined texts: taken apart by place, compared by kind, the same from texts alone."""

from __future__ import annotations

import numpy as np
import pytest

from pairsieve.pairs import AllPairs, CrossPairs
from pairsieve.reranker.features import TextReader, count_pieces, describe, feature_count
from pairsieve.reranker.fields import NO_FIELDS, UNKNOWN, Layout, compare_dense, dense_values, find_layout
from pairsieve.tasks import Collection, tables_task
from pairsieve.tasks.fields import make_fields
from pairsieve.tasks.joined import BESIDE, joined, joined_rows, read_part, rendered, taken_apart, without_gaps
from pairsieve.web.records import find_columns

TABLE = {
    "name": ["Jane Doe", "J. Doe", "Ann Lee", "Bo Li"] * 2,
    "born": ["1970-01-01", "1970-01-11", "", "1999-05-05"] * 2,
    "lat": ["48.0", "48.0", "10.5", "-3"] * 2,
    "lon": ["16.0", "16.0", "11.5", "4"] * 2,
    "price": ["100", "90", "", "7"] * 2,
}


def collection(table=TABLE, fields=True):
    rows = joined_rows(list(table.values()))
    return Collection([str(at) for at in range(len(rows))], rows, make_fields(table) if fields else None)


def test_a_missing_value_leaves_its_place_empty():
    text = joined(["Ann Lee", "", " 10.5 ", ""])
    assert text == "Ann Lee |  | 10.5 | "
    assert taken_apart(text) == taken_apart(text.strip()) == ["Ann Lee", "", "10.5", ""]
    assert without_gaps(text) == "Ann Lee | 10.5"
    assert without_gaps("plain text") == "plain text"
    assert joined(["", " "]) == ""
    assert taken_apart(joined(["one | other", "x |"])) == ["one / other", "x"]


def test_values_beside_the_text_are_compared_and_not_read():
    text = joined(["Ann Lee", ""], ["", "red | wine"])
    assert taken_apart(text) == ["Ann Lee", "", "", "red / wine"]
    assert taken_apart(joined(["Ann"], [""]).strip()) == ["Ann", ""]
    assert read_part(text) == "Ann Lee | "
    assert without_gaps(text) == "Ann Lee"
    assert joined(["", ""], ["red"]) == ""
    assert joined([f"a{BESIDE}b"], ["c"]).count(BESIDE.strip()) == 1


def test_a_text_by_a_template_keeps_its_values_behind_it():
    text = rendered("Ann Lee, born ; Graz", ["Ann Lee", "", "Graz | Steiermark"])
    assert read_part(text) == without_gaps(text) == "Ann Lee, born ; Graz"
    assert taken_apart(text) == taken_apart(text.strip()) == ["Ann Lee", "", "Graz / Steiermark"]
    assert rendered("only Ann", ["Ann"]) == "only Ann"  # the text says it all
    assert taken_apart(rendered("a ␞ b", ["a ␞ b", "c"])) == ["a   b", "c"]


def test_records_by_a_template_are_compared_field_by_field_like_joined_ones():
    """The template changes what is read, not what is compared; {name} stands twice and is one field."""
    plain = tables_task(TABLE, text=["name", "born", "price"]).splits["all"]
    made = tables_task(TABLE, template="{name}: {born}; {price} {name}").splits["all"]
    assert read_part(made.left.texts[2]) == "Ann Lee: ;  Ann Lee"
    layout = find_layout(made.left, made.left)
    assert layout == find_layout(plain.left, plain.left) != NO_FIELDS
    assert [taken_apart(text) for text in made.left.texts] == [taken_apart(text) for text in plain.left.texts]
    assert find_columns(made.left, made.left).names == ("name", "born", "price")


def test_a_rare_category_in_common_weighs_more_than_a_common_one():
    """Equal is equal by cosine; how rare the value is stands in a column of its own."""
    table = {"name": [f"n{at}" for at in range(40)], "colour": ["red"] * 36 + ["teal"] * 3 + [""]}
    beside = joined_rows([table["name"]], [table["colour"]])
    side = Collection([str(at) for at in range(40)], beside, make_fields(table))
    layout = find_layout(side, side)
    assert [(field.name, field.kind) for field in layout.fields][1] == ("colour", "category")
    space = AllPairs(40)
    pieces = TextReader(count_pieces([side.texts], layout)).take_apart(space, side.texts, side.texts)
    ids = np.sort(
        space.ids(np.array([0, 36, 0, 0]), np.array([1, 37, 37, 39]))
    )  # equal, unlike, missing, rare
    scores = np.zeros(4)
    found = describe(pieces, ids, [scores, scores])
    assert found.shape[1] == feature_count(2, layout)
    columns = [column for column in found.T[feature_count(2) :] if column[3] > column[0] > column[1] >= 0.0]
    assert len(columns) == 1
    assert columns[0][2] == np.float32(UNKNOWN)
    np.testing.assert_allclose(columns[0][[0, 3]], np.log(41 / np.array([36, 3])), rtol=1e-6)


def test_places_get_the_names_and_kinds_of_the_columns_they_hold():
    side = collection()
    layout = find_layout(side, side)
    found = {field.name: (field.kind, field.left) for field in layout.fields}
    kinds = {"name": ("name", (0,)), "born": ("date", (1,)), "lat, lon": ("place", (2, 3))}
    assert found == {**kinds, "price": ("number", (4,))}
    assert layout.values == (5, 5)
    assert Layout.of(layout.as_json()) == layout


def test_texts_without_kept_columns_are_fields_by_place():
    side = collection(fields=False)
    assert [field.kind for field in find_layout(side, side).fields][:2] == ["name", "date"]


@pytest.mark.parametrize("texts", [["plain", "texts"], ["a | b", "one value"], []])
def test_texts_without_common_places_have_no_fields(texts):
    side = Collection([str(at) for at in range(len(texts))], texts)
    assert find_layout(side, side) == NO_FIELDS


def test_columns_of_two_tables_under_different_names_are_found_by_kind_and_by_words():
    """The only date and the only number of either side; names share their words, notes share none."""
    left = {"who": TABLE["name"], "since": TABLE["born"], "fee": TABLE["price"], "hint": ["x y z"] * 8}
    right = {
        "entry": ["1 Jan 1970", "11 Jan 1970", "2 Feb 1980", "5 May 1999"] * 2,
        "person": [f"{name} of Graz" for name in TABLE["name"]],
        "amount": TABLE["price"],
        "remark": ["something else entirely"] * 8,
    }
    layout = find_layout(collection(left), collection(right))
    found = {field.name: (field.left, field.right) for field in layout.fields}
    assert found == {
        "since / entry": ((1,), (0,)),
        "fee / amount": ((2,), (2,)),
        "who / person": ((0,), (1,)),
    }


def test_two_tables_are_compared_in_the_columns_both_have():
    other = {"cost": TABLE["price"], "name": TABLE["name"], "born": TABLE["born"]}
    layout = find_layout(collection(), collection(other))
    assert {field.name: (field.left, field.right) for field in layout.fields} == {
        "name": ((0,), (1,)),
        "born": ((1,), (2,)),
        "price / cost": ((4,), (0,)),
    }


@pytest.mark.parametrize(
    ("kind", "one", "other", "near"),
    [
        ("number", [[100.0]], [[100.0]], 1.0),
        ("number", [[100.0]], [[-100.0]], 0.0),
        ("date", [[0.0]], [[36_525.0]], 0.0),
        ("place", [[48.0, 16.0]], [[48.0, 16.0]], 1.0),
        # A degree of longitude on the equator is 111.19 km: 1 - log(112.19) / log(20,001).
        ("place", [[0.0, 0.0]], [[0.0, 1.0]], 1 - np.log(112.1949) / np.log(20_001)),
        ("number", [[np.nan]], [[3.0]], UNKNOWN),
    ],
)
def test_values_are_near_by_their_kind(kind, one, other, near):
    found, equal = compare_dense(kind, np.array(one), np.array(other))
    assert found[0] == pytest.approx(near, abs=1e-5)
    assert equal[0] == (UNKNOWN if np.isnan(one).any() else one == other)


def test_a_pair_is_described_field_by_field_from_the_texts_alone():
    """Jane Doe and J. Doe: the same initials and place, ten days apart; Ann Lee lacks the date and price."""
    side = collection()
    layout = find_layout(side, side)
    space, vocabulary = AllPairs(len(side)), count_pieces([side.texts], layout)
    ids = space.ids([0, 0], [1, 2])
    pieces = TextReader(vocabulary).take_apart(space, side.texts, side.texts)
    columns = describe(pieces, ids, [np.array([0.9, 0.1])])
    assert columns.shape == (2, feature_count(1, layout))
    own = columns[:, feature_count(1) :]
    # How alike, then the lead over the worse and the better competitor: words, letters and initials of the
    # name; letters of born; then how near born, place and price are.
    alike, leads = own[:, :21:3], own[:, :21].reshape(2, 7, 3)[:, :, 1:]
    assert alike[0, 2] == pytest.approx(1.0)
    assert alike[0, 0] < 1.0
    assert alike[1, 3] == UNKNOWN
    assert alike[0, 4:].tolist() == pytest.approx([1 - np.log(11) / np.log(36_526), 1.0, alike[0, 6]])
    assert alike[1, [4, 6]].tolist() == [UNKNOWN, UNKNOWN]
    # Both pairs are of text 0, where they compete; texts 1 and 2 have no other candidate, and a lead of 1.
    np.testing.assert_allclose(leads[0, :, 0], np.minimum(alike[0] - alike[1], 1.0), atol=1e-6)
    np.testing.assert_allclose(leads[:, :, 1], 1.0, atol=1e-6)
    shares, equal, missing = own[:, 21:25], own[:, 25:28], own[:, 28:]
    assert (shares[0] <= 1.0).all()
    assert shares[0].any()
    assert equal[:, :2].tolist() == [[0.0, 1.0], [UNKNOWN, 0.0]]
    assert missing.tolist() == [[0, 0, 0, 0], [0, 0.5, 0, 0.5]]  # by field
    # A service holds other texts: the same two have the same columns there, but for their competitors.
    few = [side.texts[0], side.texts[1]]
    small = TextReader(vocabulary).take_apart(CrossPairs(1, 1), few[:1], few[1:])
    again = describe(small, CrossPairs(1, 1).ids([0], [0]), [np.array([0.9])])
    np.testing.assert_allclose(again[0, feature_count(1) :][:21:3], alike[0], atol=1e-6)
    np.testing.assert_allclose(again[0, feature_count(1) :][21:], own[0, 21:], atol=1e-6)


def test_words_of_a_field_are_looked_for_in_the_whole_other_text():
    """First and last name swapped: nothing in common field by field, everything anywhere."""
    table = {"first": ["Ada", "Lovell", "Ada"], "last": ["Lovell", "Ada", "Stone"]}
    side = Collection([*"abc"], joined_rows(list(table.values())), make_fields(table))
    layout = find_layout(side, side)
    space = AllPairs(3)
    pieces = TextReader(count_pieces([side.texts], layout)).take_apart(space, side.texts, side.texts)
    columns = describe(pieces, space.ids([0, 0], [1, 2]), [np.zeros(2)])[:, feature_count(1) :]
    at = 3 * layout.competing  # of each field: shares of its value, then shares found anywhere
    assert columns[0, at : at + 8].tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert columns[1, at : at + 8].tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


def test_places_are_compared_by_the_coordinate_that_both_have():
    nan = np.nan
    here = np.array([[48.0, 16.0]] * 4)
    there = np.array([[48.0, nan], [nan, 16.5], [nan, nan], [49.0, 16.0]])
    near, equal = compare_dense("place", here, there)
    assert (near[0], equal[0]) == (1.0, 1.0)
    assert (near[2], equal[2]) == (UNKNOWN, UNKNOWN)
    assert 0.7 > near[1] > near[3] > 0.5, "37 km, 111 km"
    turned, _ = compare_dense("place", there, here)
    np.testing.assert_allclose(turned, near)


def spelt(one, other):
    """Of a pair: how alike it is spelt, both shares, the worst word."""
    texts = [one, other]
    pieces = TextReader(count_pieces([texts])).take_apart(AllPairs(2), texts, texts)
    found = describe(pieces, AllPairs(2).ids([0], [1]), [np.zeros(1)])[0]
    return found[[23, 24, 25, 28]]


def test_words_that_are_spelt_alike_count_in_part():
    """A typing error, an initial, another word; Jaro and Winkler's own example has 0.961."""
    assert spelt("martha stone", "marhta stone")[3] == pytest.approx(0.9611, abs=1e-4)
    assert spelt("martha stone", "stone martha").tolist() == [1.0, 1.0, 1.0, 1.0]
    typed, initial, another = (spelt("martha stone", f"{word} stone") for word in ("marhta", "m", "bruce"))
    for at in range(4):
        assert 1 > typed[at] > initial[at] > another[at]
    assert spelt("martha stone", "")[3] == 0
    assert spelt("stone", "martha stone")[[2, 3]].tolist() == [1.0, 1.0], "all of the shorter text is there"
    long = [" ".join(f"{letter}{at}x" for at in range(40)) for letter in "ab"]
    assert spelt(*long).tolist() == [0, 0, 0, 0], "too many words to compare each with each"


def test_a_number_is_as_far_from_nought_as_any_other():
    zero, some = np.array([[0.0]]), np.array([[7.0]])
    assert [column[0] for column in compare_dense("number", zero, some)] == [UNKNOWN, UNKNOWN]
    assert [column[0] for column in compare_dense("number", zero, zero)] == [1.0, 1.0]


def test_a_text_with_other_places_has_all_fields_missing():
    side = collection()
    layout = find_layout(side, side)
    vocabulary = count_pieces([side.texts], layout)
    pieces = TextReader(vocabulary).take_apart(CrossPairs(1, 1), [side.texts[0]], ["Jane Doe"])
    columns = describe(pieces, CrossPairs(1, 1).ids([0], [0]), [np.array([0.9])])[0, feature_count(1) :]
    assert {*columns[:21:3].tolist(), *columns[21:23].tolist(), *columns[24:-4].tolist()} == {UNKNOWN}
    assert columns[23] == 1.0, "its name stands in the other text all the same"
    assert columns[-4:].tolist() == [0.5] * 4


def test_either_side_writes_numbers_and_dates_in_its_own_way():
    """€ 27.200 of 13.2.2020 here is 27,200 USD of 02/13/2020 there; the scorer's folder keeps both ways."""
    here = {"name": ["a", "b"], "price": ["€ 27.200", "€ 1.100"], "sold": ["13.2.2020", "4.3.2020"]}
    there = {"name": ["a", "b"], "price": ["27,200 USD", "990"], "sold": ["02/13/2020", "03/04/2020"]}
    layout = find_layout(collection(here), collection(there))
    assert {field.name: field.formats for field in layout.fields if field.kind != "name"} == {
        "price": ("decimal comma", ""),
        "sold": ("day first", ""),
    }
    assert Layout.of(layout.as_json()) == layout
    left, right = (
        dense_values(layout, joined_rows(list(t.values())), side) for side, t in enumerate((here, there))
    )
    assert (left[0] == [[27_200], [1_100]]).all() and (right[0] == [[27_200], [990]]).all()
    assert (left[1] == right[1]).all(), "both days are the same"
    lone = dense_values(layout, [joined_rows([["c"], ["€ 5.000"], ["1.4.2020"]])[0]], 0)
    assert lone[0].item() == 5_000, "a text alone is read as its side writes"


def test_numbers_under_other_names_go_by_how_they_spread():
    """asking and length here are loa and price there, in another unit; weight has no counterpart."""
    here = {
        "boat": [f"boat {at}" for at in range(40)],
        "asking": [f"€ {10 + at}.000" for at in range(40)],
        "length": [f"{9 + at / 10:.1f} m".replace(".", ",") for at in range(40)],
    }
    there = {
        "title": [f"boat {at}" for at in range(40)],
        "loa": [f"{(9 + at / 10) * 3.28084:.1f} ft" for at in range(40)],
        "price": [str(10_000 + 990 * at) for at in range(40)],
        "weight": [str(300 + at) for at in range(40)],
    }
    layout = find_layout(collection(here), collection(there))
    assert [field.name for field in layout.dense] == ["asking / price", "length / loa"]


def test_spelling_that_was_compared_before_is_kept():
    """Candidates of one round are nearly those of the next: kept values are those computed anew."""
    texts = [f"martha{at % 7} stone bruce{at % 5}" for at in range(30)]
    space = AllPairs(30)
    read = TextReader(count_pieces([texts])).take_apart
    ids = np.array([one << 32 | other for one in range(29) for other in range(one + 1, 30)], np.int64)
    pieces, fresh = read(space, texts, texts), read(space, texts, texts)
    describe(pieces, ids[::2], [np.zeros(len(ids[::2]))])
    assert len(pieces.spelt[0]) == len(ids[::2])
    again, anew = (describe(each, ids, [np.zeros(len(ids))]) for each in (pieces, fresh))
    assert np.array_equal(again, anew) and len(pieces.spelt[0]) == len(ids)
