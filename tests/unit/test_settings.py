"""The campaign file: what is written is read back, and what is wrong is named."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pairsieve.errors import SettingsError
from pairsieve.settings import (
    FORMAT,
    PAPER_SCHEDULE,
    CampaignSettings,
    Schedule,
    load_settings,
    portable_task,
    save_settings,
    settings_from,
    settings_table,
    settings_text,
)


def test_ten_equal_rounds_unless_told_otherwise() -> None:
    assert Schedule().batches() == (40,) * 10


def test_four_rounds_as_on_wikiqa() -> None:
    assert PAPER_SCHEDULE.batches() == (2048, 3072, 4608, 6912)
    assert PAPER_SCHEDULE.budget() == 16_640


def test_ten_rounds_as_on_qqp() -> None:
    schedule = dataclasses.replace(PAPER_SCHEDULE, rounds=10)
    assert schedule.batches()[-1] == 78_732
    assert schedule.budget() == 232_100


def test_batches_are_rounded_to_the_nearest_with_halves_upward() -> None:
    # 5, 7.5, 11.25, 16.875
    assert Schedule(first_batch=5, growth=1.5, rounds=4).batches() == (5, 8, 11, 17)
    assert Schedule(first_batch=10, growth=1, rounds=3).batches() == (10, 10, 10)
    # 1.1 and its powers are not exact in binary; 100 · 1.1² is 121 all the same
    assert Schedule(first_batch=100, growth=1.1, rounds=3).batches() == (100, 110, 121)


def test_a_schedule_that_explodes_is_refused_in_words() -> None:
    with pytest.raises(SettingsError, match=r"round 1000 would ask for 40 · 100\^999 labels"):
        Schedule(growth=100, rounds=1000)


def test_the_file_explains_itself(tmp_path: Path) -> None:
    path = tmp_path / "campaign.toml"
    save_settings(path, CampaignSettings(task="../wikiqa"))
    text = path.read_text(encoding="utf-8")
    assert 'task = "../wikiqa"' in text
    assert "# labels asked for in round 1; a whole number from 1 to 1000000000\nfirst_batch = 40" in text
    assert "# learning_rate =" in text  # left out: the encoder's own
    assert load_settings(path) == CampaignSettings(task="../wikiqa")
    assert [each.name for each in tmp_path.iterdir()] == ["campaign.toml"]


def test_every_setting_says_what_it_means() -> None:
    known = {field.name for field in dataclasses.fields(CampaignSettings)} - {"schedule"}
    known |= {f"schedule.{field.name}" for field in dataclasses.fields(Schedule)}
    table = settings_table()
    assert {row[0] for row in table} == known
    assert all(allowed and meaning for _, _, allowed, meaning in table)
    assert ("schedule.growth", "1.0") in [(key, default) for key, default, _, _ in table]


def test_round_1_is_spread_over_ranks_and_nearest_under_the_papers_recipe() -> None:
    settings = CampaignSettings(task="t")
    assert settings.first_strategy == "spread"
    assert dataclasses.replace(settings, recipe="paper").first_strategy == "static"
    assert dataclasses.replace(settings, recipe="paper", seed_set="random").first_strategy == "random"


text = st.text(
    st.characters(exclude_categories=["Cs"])
)  # any letter, control or quote; half a character is none


@hypothesis_settings(deadline=None)
@given(
    left_prefix=text,
    encoder=text.filter(lambda words: words.strip() != ""),
    splits=st.lists(text.filter(lambda words: words.strip() != ""), unique=True, max_size=3),
    rate=st.none() | st.floats(1e-9, 10),
    seed=st.integers(0, 2**63 - 1),
    separate=st.booleans(),
    growth=st.floats(1, 3),
)
def test_what_is_written_is_read_back(
    left_prefix: str,
    encoder: str,
    splits: list[str],
    rate: float | None,
    seed: int,
    separate: bool,
    growth: float,
) -> None:
    settings = CampaignSettings(
        task="t",
        left_prefix=left_prefix,
        encoder=encoder,
        measure_splits=tuple(splits),
        learning_rate=rate,
        seed=seed,
        separate_encoders=separate,
        schedule=Schedule(growth=growth),
    )
    written = tomllib.loads(settings_text(settings))
    assert written.pop("format") == FORMAT
    assert settings_from(written) == settings


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("stratgy = 'random'", r"unknown key 'stratgy'. Did you mean 'strategy'\?"),
        ("[schedule]\nfrist_batch = 9", r"unknown key 'schedule.frist_batch'. Did you mean 'first_batch'\?"),
        ("rounds = 3", r"rounds stands outside its table. Write it below \[schedule\]"),
        ("schedule = 3", "schedule is 3. Allowed: a table with first_batch, growth, rounds"),
        (
            "seed_set = 'adaptive'",
            "seed_set is 'adaptive'. Allowed: one of 'auto', 'spread', 'static', 'stated', 'random'",
        ),
        ("seed = -1", "seed is -1. Allowed: a whole number from 0"),
        ("seed = 1.5", "seed is 1.5. Allowed: a whole number"),
        ("seed = true", "seed is True. Allowed: a whole number"),
        ("max_length = '128'", "max_length is '128'. Allowed: a whole number from 2"),
        ("learning_rate = nan", "learning_rate is nan. Allowed: a number"),
        ("separate_encoders = 1", "separate_encoders is 1. Allowed: true or false"),
        ("device = 'gpu'", "device is 'gpu'. Allowed: 'auto', 'cpu', 'cuda' or 'cuda:N'"),
        ("measure_splits = ['dev', 'dev']", "measure_splits is .* Allowed: a list of different texts"),
        ("encoder = ' '", "encoder is ' '. Allowed: a text that is not empty"),
        ("[schedule]\ngrowth = 0.5", "schedule.growth is 0.5. Allowed: a number from 1 to 100"),
        ("seed = ", "cannot be read as TOML: .*line 3"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, written: str, complaint: str) -> None:
    path = tmp_path / "campaign.toml"
    path.write_text(f"format = {FORMAT}; task = '../t'\n{written}\n".replace("; ", "\n", 1), encoding="utf-8")
    with pytest.raises(SettingsError, match=complaint) as caught:
        load_settings(path)
    assert str(path) in str(caught.value)


def test_a_campaign_of_an_earlier_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "campaign.toml"
    path.write_text("task = '../t'\ncrowding = 0.3\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"another version.*pairsieve ledger export.*pairsieve init"):
        load_settings(path)


def test_a_missing_file_names_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="pairsieve init"):
        load_settings(tmp_path / "campaign.toml")


def test_a_file_without_a_task_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "campaign.toml"
    path.write_text(f"format = {FORMAT}\nseed = 1\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="task is missing"):
        load_settings(path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "campaign.toml"
    save_settings(path, CampaignSettings(task="old"))

    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(SettingsError, match=r"campaign.toml: cannot be written \(No space left on device\)"):
        save_settings(path, CampaignSettings(task="new"))
    assert load_settings(path).task == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["campaign.toml"]


def test_the_task_and_the_ledger_are_found_from_the_campaign(tmp_path: Path) -> None:
    campaign, task = tmp_path / "runs" / "one", tmp_path / "tasks" / "wikiqa"
    settings = CampaignSettings(task=portable_task(task, campaign))
    assert settings.task == "../../tasks/wikiqa"
    assert settings.task_folder(campaign) == task.resolve()
    assert settings.ledger_place(campaign) == campaign / "ledger.sqlite"
    elsewhere = dataclasses.replace(settings, ledger="postgresql://host/labels")
    assert elsewhere.ledger_place(campaign) == "postgresql://host/labels"
