"""Learners: the same seed gives the same matcher, training helps, and the recipe is the paper's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pairsieve.errors import InputError, SettingsError
from pairsieve.models import (
    CosineMatcher,
    CrossEncoder,
    FullLearner,
    LossSettings,
    ProjectionLearner,
    ProjectionSettings,
    TrainingSettings,
    encoder_named,
    learner_named,
    load_cross,
    load_matcher,
)
from pairsieve.models.full import Trained, _average, _cosines, _PairJob, rate_for, sound
from pairsieve.models.training import additive, batches, schedule, takes_prepared_mask
from pairsieve.pairs import AllPairs, Ids, pair_ids, pair_rows

THINGS = ["password", "account", "email", "bank", "card", "loan", "city", "river", "glacier", "cave"]
LEFT = [f"how do i {verb} my {thing}" for thing in THINGS for verb in ("reset", "change", "delete")]
RIGHT = [f"the {thing} is {state}" for thing in THINGS for state in ("open", "old", "long")]


def pairs() -> tuple[Ids, np.ndarray]:
    """Every question with four passages, one of them about the same thing."""
    left = np.repeat(np.arange(30), 4)
    right = (left + np.tile([0, 3, 7, 14], 30)) % 30
    return pair_ids(left, right), left // 3 == right // 3


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def margin(matcher: object) -> float:
    """Mean cosine of the labelled matches minus that of the other labelled pairs, in standard deviations."""
    ids, labels = pairs()
    left, right = pair_rows(ids)
    one, other = matcher.embed(LEFT, "left"), matcher.embed(RIGHT, "right")  # type: ignore[attr-defined]
    scores = (one[left] * other[right]).sum(1)
    return float((scores[labels].mean() - scores[~labels].mean()) / scores.std())


def pair_job(learner: FullLearner) -> _PairJob:
    """A job of the labelled pairs, as the learner trains on them."""
    ids, labels = pairs()
    left, right = pair_rows(ids)
    tokens = learner.encoder.tokens(LEFT), learner.encoder.tokens(RIGHT)
    groups = left, -1 - right
    frozen = _cosines([learner.encoder.network], *tokens, left, right, learner.encoder.pad, "cpu")
    return _PairJob(learner, [learner.encoder.network], *tokens, left, right, labels, groups, "cpu", frozen)


FAST = TrainingSettings(learning_rate=1e-3, head_rate_factor=100.0, epochs=8)


@pytest.mark.parametrize("shared", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.parametrize("kind", ["full", "projection"])
def test_training_tells_matches_from_the_rest_and_repeats_itself(
    kind: str, shared: bool, tiny_encoder: Path
) -> None:
    encoder = encoder_named(tiny_encoder, device="cpu")
    learner = (
        FullLearner(encoder, FAST, LossSettings(head_weight=1.0, head_bias=0.0), shared)
        if kind == "full"
        else ProjectionLearner(
            encoder, ProjectionSettings(epochs=40, learning_rate=1e-2, batch_size=32, shared=shared)
        )
    )
    ids, labels = pairs()
    matcher = learner.fit((LEFT, RIGHT), ids, labels, rng())
    assert margin(matcher) > margin(learner.pretrained()) + 0.5
    assert matcher.weight > 0 and np.isfinite(matcher.bias)
    again = learner.fit((LEFT, RIGHT), ids, labels, rng())
    assert again.fingerprint == matcher.fingerprint
    other = learner.fit((LEFT, RIGHT), ids, labels, np.random.default_rng(8))
    assert other.fingerprint != matcher.fingerprint
    assert encoder.embed(LEFT[:1])[0] == pytest.approx(learner.pretrained().embed(LEFT[:1])[0])
    texts = ["how do i open an account"]
    assert (matcher.embed(texts, "left") == matcher.embed(texts, "right")).all() == shared


def test_a_pretrained_matcher_has_the_cosine_for_its_logit(tiny_encoder: Path) -> None:
    for name in ("full", "projection"):
        matcher = learner_named(name, encoder_named(tiny_encoder)).pretrained()
        assert (matcher.weight, matcher.bias) == (1.0, 0.0)
        assert (matcher.embed(LEFT) == encoder_named(tiny_encoder).embed(LEFT)).all()


def test_labels_of_one_class_leave_the_embeddings_as_they_were(tiny_encoder: Path) -> None:
    encoder = encoder_named(tiny_encoder, device="cpu")
    ids, labels = pairs()
    for name in ("full", "projection"):
        learner = learner_named(name, encoder)
        matcher = learner.fit((LEFT, RIGHT), ids, np.zeros_like(labels), rng())
        assert np.abs(matcher.embed(LEFT) - encoder.embed(LEFT)).max() < 1e-6
        assert matcher.weight > 0


# --- the paper's recipe -------------------------------------------------------------------------------


def test_the_defaults_are_the_papers() -> None:
    recipe = TrainingSettings()
    assert (recipe.learning_rate, recipe.epsilon, recipe.weight_decay) == (2e-5, 1e-6, 0.0)
    assert (recipe.batch_size, recipe.epochs, recipe.warmup, recipe.head_rate_factor) == (16, 2, 0.1, 1e4)


def test_small_encoders_learn_faster(tiny_encoder: Path) -> None:
    encoder = encoder_named(tiny_encoder)
    assert rate_for(encoder) == 1e-4
    learner = learner_named("full", encoder, epochs=1)
    assert isinstance(learner, FullLearner)
    assert learner.training.learning_rate == 1e-4 and learner.training.epochs == 1


def test_the_rate_rises_over_a_tenth_and_falls_in_a_line() -> None:
    factors = schedule(20, 0.1)
    assert factors[:3].tolist() == [0.5, 1.0, 1.0]
    assert factors[10] == pytest.approx(10 / 18)
    assert factors[-1] == pytest.approx(1 / 18)
    assert schedule(1, 0.1).tolist() == [1.0]


def test_the_last_partial_batch_is_dropped_unless_it_is_the_only_one() -> None:
    settings = TrainingSettings()
    steps = batches(40, settings, rng())
    assert [len(rows) for rows in steps] == [16, 16, 16, 16]  # two epochs of two batches; 8 pairs dropped
    first, second = np.concatenate(steps[:2]), np.concatenate(steps[2:])
    assert len(set(first.tolist())) == 32 and first.tolist() != second.tolist()
    assert [len(rows) for rows in batches(5, settings, rng())] == [5, 5]


def test_the_loss_is_that_of_a_head_over_batch_normalised_cosines(tiny_encoder: Path) -> None:
    """Against PyTorch's own batch normalisation without affine, in training mode."""
    import torch

    encoder = encoder_named(tiny_encoder, device="cpu")
    learner = FullLearner(encoder, loss=LossSettings(head_weight=2.0, head_bias=-1.0))
    ids, labels = pairs()
    left, right = pair_rows(ids)
    job = pair_job(learner)
    rows = np.arange(16)
    cosines = (encoder.embed(LEFT)[left[rows]] * encoder.embed(RIGHT)[right[rows]]).sum(1)
    norm = torch.nn.BatchNorm1d(1, affine=False).train()
    logits = 2.0 * norm(torch.from_numpy(cosines)[:, None])[:, 0] - 1.0
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, torch.from_numpy(labels[rows].astype(np.float32))
    )
    at, width = torch.from_numpy(rows), int(job.widths[rows].max())
    with torch.no_grad():
        plain = job.loss(job.outputs(at, width, prepared=False), at)
        # A wider padding, as the captured steps use, and the prepared mask leave it as it is.
        wide = job.loss(job.outputs(at, width + 9, prepared=True), at)
    assert plain.tolist() == pytest.approx(wanted.tolist(), abs=1e-4)
    assert wide.tolist() == pytest.approx(wanted.tolist(), abs=1e-4)
    job._weight.data.fill_(-0.5)
    job.settle()
    assert job._weight.tolist() == 0.0  # w >= 0 is put back in force after each step


@pytest.mark.parametrize(
    ("architecture", "taken"), [("bert", True), ("roberta", True), ("albert", True), ("xlnet", False)]
)
def test_which_architectures_can_be_captured(
    architecture: str, taken: bool, tiny_architectures: dict[str, Path]
) -> None:
    encoder = encoder_named(tiny_architectures[architecture], device="cpu")
    job = pair_job(FullLearner(encoder, loss=LossSettings(head_weight=1.0, head_bias=0.0)))
    assert takes_prepared_mask(job, np.arange(16), TrainingSettings(), "cpu") == taken


def test_the_prepared_mask_hides_what_is_filled_up() -> None:
    import torch

    assert additive(torch.tensor([[1, 1, 0]])).tolist() == [[[[0.0, 0.0, -30000.0]]]]


def test_divergence_is_said_in_words(tiny_encoder: Path) -> None:
    encoder = encoder_named(tiny_encoder, device="cpu")
    ids, labels = pairs()
    wild = FullLearner(encoder, TrainingSettings(learning_rate=1e30))
    with pytest.raises(SettingsError, match="diverged"):
        wild.fit((LEFT, RIGHT), ids, labels, rng())


@pytest.mark.parametrize("shared", [True, False])
def test_captured_steps_do_what_eager_steps_do(shared: bool, tiny_encoder: Path) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("CUDA graphs need a GPU")
    encoder = encoder_named(tiny_encoder, device="cuda")
    ids, labels = pairs()
    made = []
    for graph in (True, False):
        training = TrainingSettings(learning_rate=1e-3, head_rate_factor=100.0, graph=graph, bf16=False)
        learner = FullLearner(encoder, training, LossSettings(head_weight=1.0, head_bias=0.0), shared)
        made.append(learner.fit((LEFT, RIGHT), ids, labels, rng()))
    one, other = (matcher.embed(LEFT, "left") @ matcher.embed(RIGHT, "right").T for matcher in made)
    before = encoder.embed(LEFT, "left") @ encoder.embed(RIGHT, "right").T
    assert np.abs(one - other).max() < 0.05 * np.abs(one - before).max()


@pytest.mark.slow
def test_a_training_that_ends_worse_than_it_began_is_tried_again(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trainings that leave all texts alike are discarded; where every one does, the encoder is as it came."""
    import torch

    from pairsieve.models import full

    rates: list[float] = []
    wrecked: set[int] = set()
    plain = full.train

    def train(job: _PairJob, settings: TrainingSettings, *rest: object) -> object:
        rates.append(settings.learning_rate)
        losses = plain(job, settings, *rest)  # type: ignore[arg-type]
        if len(rates) - 1 in wrecked:
            with torch.no_grad():
                for parameter in job.networks[0].parameters():
                    parameter.zero_()
        return losses

    monkeypatch.setattr(full, "train", train)
    encoder = encoder_named(tiny_encoder, device="cpu")
    ids, labels = pairs()

    def fitted(trainings: int, *wrong: int) -> CosineMatcher:
        rates.clear()
        wrecked.clear()
        wrecked.update(wrong)
        loss = LossSettings(head_weight=1.0, head_bias=0.0, trainings=trainings)
        return FullLearner(encoder, FAST, loss).fit((LEFT, RIGHT), ids, labels, rng())

    before = margin(FullLearner(encoder).pretrained())
    assert margin(fitted(1, 0)) > before + 0.5
    assert rates == [1e-3, 5e-4]  # the second time at half the rate
    assert margin(fitted(2, 1)) > before + 0.5
    assert rates == [1e-3, 1e-3]  # the other one is used alone
    assert margin(fitted(1, 0, 1, 2)) == pytest.approx(before, abs=1e-5)
    assert rates == [1e-3, 5e-4, 2.5e-4]


def test_trainings_are_kept_that_lose_less_than_half_of_what_the_others_gained() -> None:
    def kept(*losses: float) -> list[float]:
        trained = [Trained(loss, [], np.zeros(0, np.float32)) for loss in losses]
        return [each.loss for each in sound(trained, untrained=0.7)]

    assert kept(0.2, 0.3, 0.45) == [0.2, 0.3, 0.45]  # up to (0.3 + 0.7) / 2
    assert kept(0.2, 0.3, 0.55) == [0.2, 0.3]
    assert kept(0.2, 0.8, 0.9) == [0.2]
    assert kept(0.7) == [0.7]
    assert kept(0.8, float("nan")) == []


def test_several_trainings_are_averaged_weight_by_weight() -> None:
    import torch

    networks = [torch.nn.Linear(2, 1, bias=False) for _ in range(3)]
    for network, value in zip(networks, (1.0, 2.0, 6.0), strict=True):
        torch.nn.init.constant_(network.weight, value)
    (mean,) = _average([[network] for network in networks])
    assert mean.weight.tolist() == [[pytest.approx(3.0), pytest.approx(3.0)]]


# --- projection ---------------------------------------------------------------------------------------


def test_cached_embeddings_give_the_same_map_as_texts(tiny_encoder: Path) -> None:
    encoder = encoder_named(tiny_encoder, device="cpu")
    learner = ProjectionLearner(encoder)
    ids, labels = pairs()
    one = learner.fit((LEFT, RIGHT), ids, labels, rng())
    other = learner.fit((LEFT, RIGHT), ids, labels, rng(), (encoder.embed(LEFT), encoder.embed(RIGHT)))
    assert one.left_map is not None and other.left_map is not None
    assert np.abs(one.left_map - other.left_map).max() < 1e-3
    assert one.rows_key("left") == encoder.fingerprint
    rows = one.transform(encoder.embed(LEFT))
    assert (rows == one.embed(LEFT)).all()
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(30), abs=1e-6)


def test_a_strong_pull_keeps_the_map_at_the_identity(tiny_encoder: Path) -> None:
    encoder = encoder_named(tiny_encoder, device="cpu")
    ids, labels = pairs()

    def distance(pull: float) -> float:
        settings = ProjectionSettings(pull=pull, epochs=20)
        made = ProjectionLearner(encoder, settings).fit((LEFT, RIGHT), ids, labels, rng()).left_map
        assert made is not None
        return float(np.linalg.norm(made - np.eye(32)))

    assert distance(100.0) < 0.1 < distance(0.0)


def test_a_map_is_kept_without_its_encoder_and_opened_with_it(tiny_encoder: Path, tmp_path: Path) -> None:
    encoder = encoder_named(tiny_encoder, device="cpu")
    ids, labels = pairs()
    for shared in (True, False):
        learner = ProjectionLearner(encoder, ProjectionSettings(shared=shared))
        for name, matcher in {
            "trained": learner.fit((LEFT, RIGHT), ids, labels, rng()),
            "pretrained": learner.pretrained(),
        }.items():
            folder = tmp_path / f"{name}{shared}"
            matcher.save_learned(folder)
            opened = learner.load(folder)
            assert opened.fingerprint == matcher.fingerprint
            assert (opened.embed(RIGHT, "right") == matcher.embed(RIGHT, "right")).all()
    with pytest.raises(InputError, match="another encoder"):
        ProjectionLearner(encoder_named(tiny_encoder, max_length=20)).load(folder)


# --- the interface ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["full", "projection"])
def test_callers_need_not_know_which_learner_it_is(name: str, tiny_encoder: Path, tmp_path: Path) -> None:
    """What is saved comes back; rows are the encoder's, transformed; another head leaves the rows alone."""
    encoder = encoder_named(tiny_encoder, device="cpu")
    learner = learner_named(name, encoder, epochs=1)
    ids, labels = pairs()
    frozen = encoder.embed(LEFT, "left"), encoder.embed(RIGHT, "right")
    matcher = learner.fit((LEFT, RIGHT), ids, labels, rng(), frozen)
    matcher.save_learned(tmp_path)
    opened = learner.load(tmp_path)
    assert (opened.weight, opened.bias) == (matcher.weight, matcher.bias)
    assert opened.trained_on == "120 labelled pairs, 30 of them matches"
    for side, texts in (("left", LEFT), ("right", RIGHT)):
        rows = opened.transform(opened.encoder_for(side).embed(texts, side), side)
        assert (rows == opened.embed(texts, side)).all() and (rows == matcher.embed(texts, side)).all()
        assert learner.pretrained().rows_key(side) == encoder.fingerprint
        assert (opened.rows_key(side) == encoder.fingerprint) == learner.uses_frozen_rows
        assert opened.encoder_for(side).token_cache is encoder.token_cache
    other = opened.with_head(2.0, -1.0)
    assert (other.weight, other.bias) == (2.0, -1.0)
    assert (other.embed(LEFT) == opened.embed(LEFT)).all() and other.fingerprint != opened.fingerprint
    assert bool(opened.map_fingerprint) == learner.uses_frozen_rows


# --- names --------------------------------------------------------------------------------------------


def test_learners_by_name(tiny_encoder: Path) -> None:
    import torch

    encoder = encoder_named(tiny_encoder, device="cpu")
    assert learner_named("auto", encoder).name == "projection"
    if not torch.cuda.is_available():
        assert learner_named("auto", tiny_encoder).name == "projection"
    assert learner_named("full", encoder).fingerprint != learner_named("full", encoder, epochs=3).fingerprint
    with pytest.raises(SettingsError, match="Did you mean 'projection'"):
        learner_named("projektion", encoder)
    with pytest.raises(SettingsError, match="Did you mean 'epochs'"):
        learner_named("full", encoder, epoch=3)


REST = ("roberta", "xlnet", "albert")


# --- cross-encoder ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "architecture", ["bert", *(pytest.param(name, marks=pytest.mark.slow) for name in REST)]
)
def test_a_cross_encoder_fits_its_pairs_and_comes_back_from_its_folder(
    architecture: str, tiny_architectures: dict[str, Path], tmp_path: Path
) -> None:
    encoder = encoder_named(tiny_architectures[architecture], max_length=32, device="cpu")
    texts = ["reset password", "open bank", "old city", "long river"]
    left, right = np.divmod(np.arange(16), 4)
    ids, labels = pair_ids(left, right), left == 0  # matches are the pairs that start with the first text
    learner = CrossEncoder(encoder, TrainingSettings(learning_rate=2e-3, epochs=25, batch_size=8))
    matcher = learner.fit((texts, texts), ids, labels, rng())
    logits = matcher.logits(texts, texts, ids)
    assert logits.dtype == np.float32 and logits.shape == (16,)
    assert logits[labels].min() > logits[~labels].max()
    assert (learner.fit((texts, texts), ids, labels, rng()).logits(texts, texts, ids) == logits).all()
    some = np.array([9, 2, 2, 15])
    assert matcher.logits(texts, texts, ids[some]) == pytest.approx(logits[some], abs=1e-4)
    matcher.save(tmp_path)
    assert load_cross(tmp_path, device="cpu").logits(texts, texts, ids) == pytest.approx(logits, abs=1e-6)


def test_a_folder_that_is_no_cross_encoder_says_so(tiny_encoder: Path) -> None:
    with pytest.raises(InputError, match=r"cross\.json is missing"):
        load_cross(tiny_encoder)
    with pytest.raises(InputError, match=r"head\.json is missing"):
        load_matcher(tiny_encoder)


@pytest.mark.slow
def test_little_is_let_go_where_one_class_has_few_labels(tiny_encoder: Path) -> None:
    """40 % kept, `few` 100: 100 labels of the rarer class let go half of 60 %, very many all of it."""
    loss = LossSettings(pretrained_share=0.4, few=100.0)
    labels = np.arange(2_100) < 2_000
    assert loss.share_kept(labels) == loss.share_kept(~labels) == pytest.approx(1 - 0.6 / 2)
    assert loss.share_kept(np.arange(2_000_000) % 2 == 0) == pytest.approx(0.4, abs=1e-4)
    assert LossSettings(pretrained_share=0.4).share_kept(labels) == pytest.approx(0.4)
    # Two non-matches among many matches: the weights hardly leave the encoder's.
    encoder = encoder_named(str(tiny_encoder))
    texts = [f"how old is river number {number}" for number in range(40)]
    ids = AllPairs(40).unrank(np.arange(64))
    moved = []
    for rarer in (2, 32):
        learner = learner_named("full", encoder, "cpu", "best")
        matcher = learner.fit((texts, texts), ids, np.arange(64) >= rarer, np.random.default_rng(0))
        pairs = zip(matcher.encoder_for("left").network.parameters(), encoder.network.parameters())
        moved.append(sum(float((mine - first).detach().abs().sum()) for mine, first in pairs))
    assert 0 < moved[0] < moved[1] / 4
