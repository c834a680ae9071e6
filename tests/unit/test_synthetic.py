"""The synthetic collection: what it promises about size, truth, near misses and plain reading."""

from __future__ import annotations

import hashlib
import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from experiments.synthetic import FAMILIES, SyntheticQuestions, jaccard, synthetic_questions
from experiments.synthetic.phrases import CLOSINGS, OPENINGS, PEOPLE, PLACES, SETTINGS, TIMES, wording
from pairsieve.errors import InputError

# Digests of the collections as the tables in Python wrote them, before they became a data file.
SHA256_OF_COLLECTION = {  # (texts, seed): keys, texts, clusters and stated negatives
    (6400, 0): "576843748ad97afdfa9c5e94eef3e9be61b576a1c9f712d496e659dc03a8888a",
    (800, 3): "e45a51ae67ecd2e62247872f91b211008d95943b9546b20c2c75acbc9cd98379",
}
SHA256_OF_SEED_0 = "2054c3882ec1e2daa883160e95ae3e2ff0581850a708d029b11cd36b76560edc"


@pytest.fixture(scope="module")
def questions() -> SyntheticQuestions:
    return synthetic_questions()


def matches(cluster: np.ndarray) -> int:
    sizes = np.bincount(cluster)
    return int((sizes * (sizes - 1) // 2).sum())


def test_sizes_and_rarity_of_matches(questions: SyntheticQuestions) -> None:
    pairs = 6400 * 6399 // 2
    assert len(questions.texts) == len(questions.keys) == len(questions.cluster) == 6400
    assert pairs == 20_476_800
    assert 3_500 < matches(questions.cluster) < pairs / 4_000
    assert questions.cluster.dtype == np.int64


def test_clusters_have_one_to_eight_texts_and_half_are_single(questions: SyntheticQuestions) -> None:
    sizes = np.bincount(questions.cluster)
    assert sizes.min() == 1
    assert sizes.max() == 8
    assert 0.5 < (sizes == 1).mean() < 0.65


def test_texts_and_keys_are_distinct(questions: SyntheticQuestions) -> None:
    # Distinct even with capitals and marks aside: no two clusters hold the same text.
    assert len(set(questions.keys)) == 6400
    assert len(set(questions.texts)) == 6400
    bare: dict[str, set[int]] = {}
    for text, number in zip(questions.texts, questions.cluster.tolist()):
        bare.setdefault(" ".join(re.findall(r"\w+", text.lower())), set()).add(number)
    assert all(len(numbers) == 1 for numbers in bare.values())


def test_same_seed_same_texts_everywhere(questions: SyntheticQuestions) -> None:
    digest = hashlib.sha256("\n".join(questions.texts).encode()).hexdigest()
    assert digest == SHA256_OF_SEED_0


@pytest.mark.parametrize(("texts", "seed"), SHA256_OF_COLLECTION)
def test_the_whole_collection_is_the_same_to_the_byte(texts: int, seed: int) -> None:
    made = synthetic_questions(texts, seed)
    lines = [*made.keys, *made.texts, repr(made.cluster.tolist()), repr(made.stated_negatives)]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert digest == SHA256_OF_COLLECTION[texts, seed]


def test_another_seed_writes_other_texts_with_as_many_matches(questions: SyntheticQuestions) -> None:
    other = synthetic_questions(seed=1)
    assert matches(other.cluster) == matches(questions.cluster)
    assert len(set(other.texts) & set(questions.texts)) < 640


def test_every_text_is_readable(questions: SyntheticQuestions) -> None:
    for text in questions.texts:
        assert not re.search(r"[{}\[\]|]|\s\s|^\s|\s$", text), text
        assert 4 <= len(text.split()) <= 36, text
    words = [len(text.split()) for text in questions.texts]
    assert 8 <= np.mean(words) <= 18


def test_paraphrases_are_other_sentences(questions: SyntheticQuestions) -> None:
    # A match shares far fewer words than a stated negative: word overlap misleads on purpose.
    order = np.argsort(questions.cluster, kind="stable")
    pairs = [(a, b) for a, b in itertools.pairwise(order) if questions.cluster[a] == questions.cluster[b]]
    texts = questions.texts
    same = np.mean([jaccard(texts[a], texts[b]) for a, b in pairs])
    near = np.mean([jaccard(texts[a], texts[b]) for a, b in questions.stated_negatives])
    assert same < 0.35 < 0.5 < near


def test_stated_negatives_are_near_misses(questions: SyntheticQuestions) -> None:
    stated = questions.stated_negatives
    assert len(set(stated)) == len(stated) == matches(questions.cluster)
    for one, other in stated:
        assert one < other
        assert questions.cluster[one] != questions.cluster[other]
        assert jaccard(questions.texts[one], questions.texts[other]) >= 0.5


def test_share_of_words() -> None:
    # 4 words in both, 6 in either; capitals and marks do not count.
    assert jaccard("Move money from savings now?", "move MONEY from savings slowly") == 4 / 6


@settings(max_examples=examples(25))
@given(texts=st.integers(1, 300), seed=st.integers(0, 2**32 - 1))
def test_any_size_and_seed(texts: int, seed: int) -> None:
    made = synthetic_questions(texts, seed)
    assert len(set(made.texts)) == texts
    assert np.array_equal(np.unique(made.cluster), np.arange(made.cluster.max() + 1))
    assert np.bincount(made.cluster).max() <= 8
    assert synthetic_questions(texts, seed).texts == made.texts


@pytest.mark.parametrize("texts", [0, -5, 1_000_000])
def test_an_impossible_number_names_what_is_possible(texts: int) -> None:
    with pytest.raises(InputError, match=r"texts: cannot make .* meanings.* Ask for 1 to [\d,]+"):
        synthetic_questions(texts)


def test_wording_settles_choices_in_order() -> None:
    assert wording("how [can|do] I [fix|mend|repair] it", [0.6, 0.99]) == "how do I repair it"
    assert wording("no choice here", [0.5]) == "no choice here"


def test_the_tables_are_well_formed() -> None:
    for family in FAMILIES:
        names = [name for entry in family.objects for name in entry.split("|")]
        assert len(set(names)) == len(names), family.name
        patterns = [pattern for intent in family.intents for pattern in intent.patterns]
        assert len(set(patterns)) == len(patterns), family.name
        for intent in family.intents:
            assert len(intent.patterns) >= 3, family.name
            aspects = [name for entry in intent.attributes for name in entry.split("|")]
            assert len(set(aspects)) == len(aspects), (family.name, aspects)
            for pattern in intent.patterns:
                assert pattern.count("{o}") == 1, pattern
                assert pattern.count("{a}") == (intent.attributes != ("",)), pattern
                assert pattern.count("[") == pattern.count("]") <= 2, pattern
    around = [*OPENINGS, *SETTINGS, *CLOSINGS]
    for words in around:
        assert words[-1] in ",.:!" or words.endswith("but"), words
    for options in (PLACES, PEOPLE, TIMES, OPENINGS, SETTINGS, CLOSINGS):
        assert len(set(options)) == len(options)
