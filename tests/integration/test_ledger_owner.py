"""A ledger belongs to one campaign, task and split, is found to be whole, and can be looked at read-only."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from pairsieve.campaign import Campaign
from pairsieve.errors import LedgerError, LedgerUnavailable
from pairsieve.ledger import open_ledger
from pairsieve.serving import Service
from pairsieve.settings import CAMPAIGN_FILE
from serving_campaign import finished_campaign
from small_disk import small_disk
from synthetic_task import begin, synthetic_task
from web_campaign import Page, asked_campaign


def edit(campaign: Campaign, old: str, new: str) -> None:
    file = campaign.folder / CAMPAIGN_FILE
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def test_another_split_in_the_settings_does_not_reinterpret_the_answers(
    tmp_path: Path, tiny_encoder: Path
) -> None:
    task = synthetic_task(tmp_path / "task")
    campaign = begin(tmp_path / "campaign", task, tiny_encoder, rounds=1, reranker="off")
    campaign.run()
    campaign.ledger.close()
    edit(campaign, '\nsplit = "train"', '\nsplit = "test"')
    with pytest.raises(
        LedgerError, match="questions about the split 'train', the campaign asks about 'test'"
    ):
        Campaign(campaign.folder, accept_settings=True).run()
    edit(campaign, '\nsplit = "test"', '\nsplit = "train"')
    assert Campaign(campaign.folder).run().name == "finished"


def test_two_campaigns_do_not_share_a_ledger(tmp_path: Path, tiny_encoder: Path) -> None:
    task = synthetic_task(tmp_path / "task")
    place = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    first = begin(tmp_path / "first", task, tiny_encoder, ledger=place)
    assert first.ledger.counts() == []
    second = begin(tmp_path / "second", task, tiny_encoder, ledger=place)
    with pytest.raises(LedgerError, match="belongs to another campaign of the same task"):
        second.run()


def test_a_ledger_that_is_gone_is_said_so_where_rounds_were_measured(
    tmp_path: Path, tiny_encoder: Path
) -> None:
    task = synthetic_task(tmp_path / "task")
    campaign = begin(tmp_path / "campaign", task, tiny_encoder, rounds=1, reranker="off")
    campaign.run()
    campaign.ledger.close()
    (campaign.folder / "ledger.sqlite").rename(tmp_path / "copy.sqlite")
    with pytest.raises(LedgerError, match=r"empty or missing, yet .*rounds holds figures"):
        Campaign(campaign.folder).status()
    assert not (campaign.folder / "ledger.sqlite").exists(), "nothing is made in its place"
    (campaign.folder / "ledger.sqlite").touch()
    with pytest.raises(LedgerError, match=r"empty or missing, yet .*rounds holds figures"):
        Campaign(campaign.folder).status()
    (tmp_path / "copy.sqlite").rename(campaign.folder / "ledger.sqlite")
    assert Campaign(campaign.folder).status().state == "finished"


def test_an_answer_changed_behind_the_ledgers_back_stops_everything_that_reads_it(
    tmp_path: Path, tiny_encoder: Path
) -> None:
    page = Page(asked_campaign(tmp_path, tiny_encoder))
    page.answer("Ann", page.pairs("Ann")[0], "match")
    folder = page.session.campaign.folder
    page.session.campaign.ledger.close()
    with sqlite3.connect(folder / "ledger.sqlite") as raw:
        (guard,) = raw.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'answers_refuse_update'"
        ).fetchone()
        raw.execute("DROP TRIGGER answers_refuse_update")
        raw.execute("UPDATE answers SET label = 0")
        raw.execute(guard)
    raw.close()
    for read in (Campaign.run, Campaign.status):
        with pytest.raises(LedgerError, match=r"not as it was written .*answers: 1 of 1 rows"):
            read(Campaign(folder))


@pytest.mark.slow
@pytest.mark.parametrize("log", [False, True], ids=["closed", "with a write-ahead log"])
def test_a_read_only_campaign_can_be_looked_at(tmp_path: Path, tiny_encoder: Path, log: bool) -> None:
    with small_disk(tmp_path / "disk", 16) as disk:
        page = Page(asked_campaign(disk.folder, tiny_encoder))
        pair = page.pairs("Ann")[0]
        page.answer("Ann", pair)
        campaign = page.session.campaign
        if log:  # a copy made while it was in use, as a snapshot of a disk is
            copies = {each: each.read_bytes() for each in campaign.folder.glob("ledger.sqlite*")}
        campaign.ledger.close()
        if log:
            for each, contents in copies.items():
                if not each.name.endswith("-shm"):
                    each.write_bytes(contents)
        disk.protect()
        looked_at = Campaign(campaign.folder)
        assert looked_at.status().rounds[0].labels == 1, "what was committed last is seen"
        assert looked_at.open_ledger().verify().ok
        with pytest.raises(LedgerUnavailable, match="allow writing in its folder"):
            looked_at.ledger.withdraw([int(pair)], "Ann", "page")  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_read_only_campaign_can_be_served(
    tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pairsieve.serving.opening.KEEP_LISTS_FROM", 1)  # lists are kept on disk
    with small_disk(tmp_path / "disk", 32) as disk:
        folder = finished_campaign(disk.folder, tiny_encoder)
        disk.protect()
        with Service.open(folder, state=tmp_path / "state") as service:
            service.add("new", "what is this")
            assert service.match("what is this", 1)[0].key == "new"


def test_a_password_with_an_at_sign_is_not_half_printed() -> None:
    with pytest.raises(LedgerError) as caught:
        open_ledger("postgresql://user:p@ss@host/labels", "task")
    assert "ss@" not in str(caught.value) and "%40" in str(caught.value)


def test_a_campaign_file_with_a_password_is_for_its_owner_alone(tmp_path: Path, tiny_encoder: Path) -> None:
    task = synthetic_task(tmp_path / "task")
    places = {"sqlite": "ledger.sqlite", "open": "postgresql://me@host/labels"}
    places |= {"secret": "postgresql://me:word@host/labels", "query": "postgresql://h/l?password=word"}
    for name, place in places.items():
        campaign = begin(tmp_path / name, task, tiny_encoder, ledger=place)
        mode = stat.S_IMODE((campaign.folder / CAMPAIGN_FILE).stat().st_mode)
        assert (mode == 0o600) == (name in ("secret", "query")), (name, oct(mode))
