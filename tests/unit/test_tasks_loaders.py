"""QQP, WikiQA and the matching benchmarks: tiny files made here, then the real ones where they are."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pairsieve.errors import InputError
from pairsieve.pairs import pair_rows
from pairsieve.tasks import Task, load_task, matching_task, qqp_task, save_task, wikiqa_task

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
HEADER = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")


def real(name: str) -> Path:
    if not (SHARED / name).exists():
        pytest.skip(f"{name} is not beside the repository (shared/data)")
    return SHARED / name


def delimited(rows: list[tuple[object, ...]], delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()


def qqp_rows() -> list[tuple[object, ...]]:
    """Eight groups of three questions: a chain a=b=c and a negative to a loner, with every oddity once."""
    rows: list[tuple[object, ...]] = []
    for group in range(8):
        a, b, c, d = (f"{group}{letter}" for letter in "abcd")
        text = {key: f'Is {key} "the same", or\tnot?' for key in (a, b, c, d)}
        rows += [
            (0, a, b, text[a], text[b], 1),
            (0, b, c, text[b], text[c], 1),
            (0, c, d, text[c], text[d], 0),
        ]
    rows += [
        (0, "0a", "0c", "Is 0a spelled otherwise?", rows[1][4], 0),  # a negative inside the closure
        (0, "1b", "1a", rows[3][4], rows[3][3], 0),  # stated both ways
        (0, "2b", "2a", rows[6][4], rows[6][3], 1),  # the same pair, mirrored
        (0, "3a", "3a", rows[9][3], rows[9][3], 1),  # with itself
        (0, "4a", "4e", rows[12][3], "", 0),  # an empty text, as in the original file
    ]
    return rows


def matches_by_key(task: Task, field: str = "positives") -> set[frozenset[str]]:
    found = set()
    for split in task.splits.values():
        left, right = pair_rows(getattr(split, field))
        found |= {frozenset((split.left.keys[a], split.right.keys[b])) for a, b in zip(left, right)}
    return found


def test_qqp_counts_every_oddity_and_closes(tmp_path: Path) -> None:
    path = tmp_path / "quora.tsv"
    path.write_text(delimited([HEADER, *qqp_rows()], "\t"))
    task = qqp_task(path, seed=1)
    assert task.report == {
        "rows": 29,
        "questions": 33,
        "stated_positives": 16,
        "stated_negatives": 11,
        "positives_after_closure": 24,
        "pairs_stated_both_ways": 1,
        "negatives_inside_closure": 1,
        "repeated_rows": 1,
        "self_pairs_dropped": 1,
        "questions_with_other_spellings": 1,
        "empty_texts": 1,
        "components": 8,
        "largest_component": 5,
    }
    expected = {
        frozenset((f"{g}{x}", f"{g}{y}")) for g in range(8) for x, y in (("a", "b"), ("a", "c"), ("b", "c"))
    }
    assert matches_by_key(task) == expected
    assert len(matches_by_key(task, "stated_negatives")) == 9
    texts = dict(zip(task.splits["train"].left.keys, task.splits["train"].left.texts))
    texts |= dict(zip(task.splits["dev"].left.keys, task.splits["dev"].left.texts))
    texts |= dict(zip(task.splits["test"].left.keys, task.splits["test"].left.texts))
    assert texts["0a"] == 'Is 0a "the same", or\tnot?'  # the first spelling stands


def test_qqp_reads_every_packing_of_both_layouts_alike(tmp_path: Path) -> None:
    tsv, comma = (delimited([HEADER, *qqp_rows()], mark).encode() for mark in "\t,")
    (tmp_path / "q.tsv").write_bytes(tsv)
    (tmp_path / "train.csv").write_bytes(comma)
    (tmp_path / "q.tsv.gz").write_bytes(gzip.compress(tsv))
    (tmp_path / "q.tsv.xz").write_bytes(lzma.compress(tsv))
    (tmp_path / "q.tsv.bz2").write_bytes(bz2.compress(tsv))
    with zipfile.ZipFile(tmp_path / "train.csv.zip", "w") as archive:
        archive.writestr("train.csv", comma)
        archive.writestr("__MACOSX/._train.csv", "x")
    prints = {qqp_task(path, seed=2).fingerprint for path in sorted(tmp_path.iterdir())}
    assert len(prints) == 1
    assert qqp_task(tmp_path / "q.tsv", seed=3).fingerprint not in prints


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((0, "x", "y", "X", "Y", 2), r"q\.tsv, row 31, column 'is_duplicate': the label is '2'.*1 .* or 0"),
        ((0, "", "y", "X", "Y", 1), r"q\.tsv, row 31, column 'qid1': the question id is empty"),
        ((0, "x", "y", "X"), r"q\.tsv, row 31: the row has 4 fields, the header has 6"),
    ],
)
def test_qqp_names_the_bad_row(tmp_path: Path, row: tuple[object, ...], words: str) -> None:
    path = tmp_path / "q.tsv"
    path.write_text(delimited([HEADER, *qqp_rows(), row], "\t"))
    with pytest.raises(InputError, match=words):
        qqp_task(path)


def test_qqp_without_labels_or_with_too_few_rows(tmp_path: Path) -> None:
    path = tmp_path / "test.csv"
    path.write_text("test_id,question1,question2\n0,a,b\n")
    with pytest.raises(InputError, match=r"no column 'qid1'.*Known: question1, question2, test_id"):
        qqp_task(path)
    path.write_text(delimited([HEADER, (0, 1, 2, "a", "b", 1)]))
    with pytest.raises(InputError, match=r"the split train would have no positive pair"):
        qqp_task(path)


WIKIQA = ("QuestionID", "Question", "DocumentID", "DocumentTitle", "SentenceID", "Sentence", "Label")


def wikiqa_folder(root: Path) -> Path:
    title, other = ("D1", "Title"), ("D3", "Other")
    parts = {
        "train": [
            ("Q1", 'why "so?', *title, "D1-0", 'an "odd quote', 1),
            ("Q1", 'why "so?', *title, "D1-1", "b", 0),
        ],
        "dev": [("Q2", "who", *title, "D1-1", "b", 1)],
        "test": [("Q3", "what", *other, "D3-0", "c", 1), ("Q4", "when", *other, "D3-0", "c", 0)],
    }
    for part, rows in parts.items():
        lines = ["\t".join(map(str, row)) for row in (WIKIQA, *rows)]
        (root / f"WikiQA-{part}.tsv").write_text("\n".join(lines) + "\n")
    return root


def test_wikiqa_pairs_each_question_with_every_sentence(tmp_path: Path) -> None:
    task = wikiqa_task(wikiqa_folder(tmp_path))
    assert task.relation == "directed"
    assert {name: split.space.shape for name, split in task.splits.items()} == {
        "train": (1, 3),
        "dev": (1, 3),
        "test": (2, 3),
    }
    sentences = task.splits["dev"].right
    assert list(zip(sentences.keys, sentences.texts)) == [
        ("D1-0", 'Title . an "odd quote'),
        ("D1-1", "Title . b"),
        ("D3-0", "Other . c"),
    ]
    assert matches_by_key(task) == {
        frozenset(("Q1", "D1-0")),
        frozenset(("Q2", "D1-1")),
        frozenset(("Q3", "D3-0")),
    }
    assert matches_by_key(task, "stated_negatives") == {frozenset(("Q1", "D1-1")), frozenset(("Q4", "D3-0"))}


def test_wikiqa_says_which_part_is_missing(tmp_path: Path) -> None:
    wikiqa_folder(tmp_path)
    (tmp_path / "WikiQA-dev.tsv").unlink()
    with pytest.raises(InputError, match=r"the split WikiQA-dev\.tsv is missing"):
        wikiqa_task(tmp_path)
    with pytest.raises(InputError, match="there is no such folder"):
        wikiqa_task(tmp_path / "none")


def test_wikiqa_refuses_a_question_in_two_parts(tmp_path: Path) -> None:
    wikiqa_folder(tmp_path)
    dev = tmp_path / "WikiQA-dev.tsv"
    dev.write_text(dev.read_text().replace("Q2", "Q1"))
    with pytest.raises(InputError, match=r"WikiQA-dev\.tsv, row 2.*question Q1 stands in train and in dev"):
        wikiqa_task(tmp_path)


def leipzig_folder(root: Path) -> Path:
    """A benchmark in a shape of its own: other id names, `;` in the mapping, latin-1, mapping elsewhere."""
    (root / "tables").mkdir()
    (root / "truth").mkdir()
    left = [("title", "ref", "year"), *((f"caf\xe9 {i}", f"s/{i}", 1990 + i) for i in range(10))]
    right = [("id", "name"), *((str(i), f"coffee house {i}") for i in range(12))]
    (root / "tables" / "Shops1.csv").write_text(delimited(left), encoding="latin-1")
    (root / "tables" / "Guide.csv").write_text(delimited(right))
    mapping = [("idShops", "idGuide"), *((f"s/{i}", i) for i in range(8))]
    (root / "truth" / "Shops-Guide_perfectMapping.csv").write_text(delimited(mapping, ";"))
    (root / "README.txt").write_text("Two tables, and, well,\na mapping.\n")
    return root


def test_an_unseen_leipzig_folder_resolves_by_values(tmp_path: Path) -> None:
    task = matching_task(leipzig_folder(tmp_path), seed=4)
    whole = task.splits["all"]
    assert whole.space.shape == (10, 12)
    assert whole.left.keys[3] == "s/3"
    assert whole.left.texts[3] == "café 3 | 1993"
    assert whole.right.texts[3] == "coffee house 3"
    assert len(whole.positives) == 8
    assert task.provenance["keys"] == ["ref", "id"]
    assert [file["encoding"] for file in task.provenance["files"]] == ["latin-1", "utf-8", "utf-8"]
    parts = [task.splits[name] for name in ("train", "dev", "test")]
    assert [len(part.positives) for part in parts] == [4, 2, 2]
    assert sorted(key for part in parts for key in part.right.keys) == sorted(whole.right.keys)


def test_explicit_files_equal_the_folder_and_a_template_replaces_the_text(tmp_path: Path) -> None:
    root = leipzig_folder(tmp_path)
    files = {
        "left": root / "tables" / "Shops1.csv",
        "right": root / "tables" / "Guide.csv",
        "mapping": root / "truth" / "Shops-Guide_perfectMapping.csv",
    }
    assert matching_task(**files).fingerprint == matching_task(root).fingerprint
    (root / "tables" / "Guide.csv").write_text(
        delimited([("id", "title"), *((i, f"t{i}") for i in range(12))])
    )
    task = matching_task(root, template="<{title}>")
    assert task.splits["all"].left.texts[0] == "<café 0>"
    assert task.splits["all"].right.texts[0] == "<t0>"
    with pytest.raises(InputError, match="either a benchmark folder, or both tables"):
        matching_task(root, left=files["left"])


def test_a_mapping_to_nowhere_names_row_and_key(tmp_path: Path) -> None:
    root = leipzig_folder(tmp_path)
    path = root / "truth" / "Shops-Guide_perfectMapping.csv"
    path.write_text(path.read_text() + "s/99;3\n")
    with pytest.raises(InputError, match=r"row 10, column 'idShops': the key 's/99' is not in Shops1\.csv"):
        matching_task(root)


def test_a_folder_in_no_known_layout(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("id,name\n1,a\n")
    with pytest.raises(InputError, match=r"no known way.*one\.csv.*pairsieve data tables"):
        matching_task(tmp_path)
    with pytest.raises(InputError, match="there is no such folder"):
        matching_task(tmp_path / "none")


def deepmatcher_folder(root: Path) -> Path:
    table = [("id", "name", "code"), *((i, f"name {i}", 100 + i) for i in range(8))]
    (root / "tableA.csv").write_text(delimited(table))
    (root / "tableB.csv").write_text(delimited(table))
    head = ("ltable_id", "rtable_id", "label")
    parts = {"train": range(4), "valid": range(4, 6), "test": range(6, 8)}
    for part, rows in parts.items():
        pairs = [(i, i, 1) for i in rows] + [(i, (i + 1) % 8, 0) for i in rows]
        (root / f"{part}.csv").write_text(delimited([head, *pairs]))
    return root


def test_deepmatcher_labels_become_one_truth_and_new_splits(tmp_path: Path) -> None:
    task = matching_task(deepmatcher_folder(tmp_path))
    assert len(task.splits["all"].positives) == len(task.splits["all"].stated_negatives) == 8
    kept = sum(len(task.splits[name].stated_negatives) for name in ("train", "dev", "test"))
    assert task.report["stated_negatives_between_splits"] == 8 - kept > 0
    assert task.provenance["layout"] == "labelled pairs"


def test_deepmatcher_pairs_without_labels_are_refused(tmp_path: Path) -> None:
    (deepmatcher_folder(tmp_path) / "valid.csv").write_text("ltable_id,rtable_id\n1,1\n")
    with pytest.raises(InputError, match=r"valid\.csv, row 1: no column holds labels"):
        matching_task(tmp_path)


def test_a_column_that_gives_the_matches_away_stays_out_of_the_text(tmp_path: Path) -> None:
    task = matching_task(deepmatcher_folder(tmp_path))
    # `code` holds numbers, none twice, equal in every match: an id in disguise. `name` is no number.
    assert task.report["columns_left_out"] == ["code"]
    assert task.splits["all"].left.texts[0] == "name 0"
    asked_for = matching_task(tmp_path, text=["name", "code"])
    assert asked_for.report["columns_left_out"] == []
    assert asked_for.splits["all"].left.texts[0] == "name 0 | 100"


# The real files, where they lie beside the repository.


@pytest.mark.shared
def test_wikiqa_has_the_published_counts() -> None:
    task = wikiqa_task(real("wikiqa"))
    assert [split.counts() for split in task.splits.values()] == [
        dict(zip(("left", "right", "pairs", "positives", "ratio", "stated_negatives"), row))
        for row in (
            (2118, 26270, 55_639_860, 1040, 55_639_860 / 1040, 19320),
            (296, 26270, 7_775_920, 140, 7_775_920 / 140, 2593),
            (633, 26270, 16_628_910, 293, 16_628_910 / 293, 5872),
        )
    ]


@pytest.fixture(scope="module")
def qqp_174k() -> Task:
    return qqp_task(real("qqp/quora_duplicate_questions.tsv.xz"), seed=0, name="qqp-174k")


@pytest.mark.shared
def test_qqp_174k_has_the_stated_counts(qqp_174k: Task) -> None:
    report = qqp_174k.report
    assert report["rows"] == 160_010
    assert report["questions"] == 174_472
    assert report["stated_negatives"] == 16_039
    assert report["stated_positives"] + report["repeated_rows"] == 143_971
    assert report["positives_after_closure"] == 228_973
    assert report["questions_with_other_spellings"] == 53
    assert (report["components"], report["largest_component"]) == (71_394, 188)
    assert report["self_pairs_dropped"] == 0


@pytest.mark.shared
def test_qqp_174k_keeps_every_question_and_stated_pair_in_one_split(qqp_174k: Task) -> None:
    splits = list(qqp_174k.splits.values())
    keys = [key for split in splits for key in split.left.keys]
    assert len(keys) == len(set(keys)) == 174_472
    assert sum(len(split.positives) for split in splits) == 228_973
    # None of the stated negatives is lost: those not inside a closure lie inside a split.
    lost = qqp_174k.report["negatives_inside_closure"] + qqp_174k.report["pairs_stated_both_ways"]
    assert sum(len(split.stated_negatives) for split in splits) == 16_039 - lost
    shares = np.array([len(split.left) for split in splits]) / 174_472
    assert np.abs(shares - [0.5, 0.25, 0.25]).max() < 0.002


@pytest.mark.shared
def test_qqp_174k_same_seed_same_bytes(qqp_174k: Task, tmp_path: Path) -> None:
    again = qqp_task(real("qqp/quora_duplicate_questions.tsv.xz"), seed=0, name="qqp-174k")
    save_task(qqp_174k, tmp_path / "one")
    save_task(again, tmp_path / "two")
    for file in sorted((tmp_path / "one").rglob("*.*")):
        assert file.read_bytes() == (tmp_path / "two" / file.relative_to(tmp_path / "one")).read_bytes()
    assert load_task(tmp_path / "one").fingerprint == again.fingerprint


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "left", "right", "matches", "encodings"),
    [
        ("abt-buy", 1081, 1092, 1097, ["utf-8", "utf-8"]),
        ("amazon-google", 1363, 3226, 1300, ["latin-1", "latin-1"]),
        ("dblp-acm", 2616, 2294, 2224, ["latin-1", "utf-8"]),
        ("fodors-zagats", 533, 331, 110, ["utf-8", "utf-8"]),
    ],
)
def test_matching_benchmarks(name: str, left: int, right: int, matches: int, encodings: list[str]) -> None:
    task = matching_task(real(f"matching/{name}"))
    whole = task.splits["all"]
    assert (whole.space.shape, len(whole.positives)) == ((left, right), matches)
    assert [file["encoding"] for file in task.provenance["files"][:2]] == encodings
    parts = [task.splits[part] for part in ("train", "dev", "test")]
    assert sum(len(part.positives) for part in parts) == matches
    assert sum(len(part.left) for part in parts) == left
    assert sum(len(part.right) for part in parts) == right


@pytest.mark.shared
def test_fodors_zagats_hides_its_class_column() -> None:
    assert matching_task(real("matching/fodors-zagats")).report["columns_left_out"] == ["class"]
