"""A ledger that cannot be written for a while: the click is refused as such, and taken when sent again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from small_disk import small_disk
from web_campaign import Page, asked_campaign


def click(page: Page, pair: str, token: str, **more: Any) -> Any:
    given = {"pair": pair, "label": "match", "token": token}
    return page.client.post("/api/answers", json={"who": "Ann", "answers": [given], **more})


@pytest.mark.slow
def test_a_full_disk_is_503_and_the_same_click_counts_once_there_is_room(
    tmp_path: Path, tiny_encoder: Path
) -> None:
    with small_disk(tmp_path / "disk", 4) as disk:
        page = Page(asked_campaign(disk.folder, tiny_encoder))
        pair = page.pairs("Ann")[0]
        disk.fill()
        refused = click(page, pair, "token-one")
        assert refused.status_code == 503, refused.text
        assert int(refused.headers["retry-after"]) > 0
        assert str(disk.folder) not in refused.text and "sqlite" not in refused.text
        assert pair in page.pairs("Ann"), "the page goes on being served"
        version = page.get("/api/guideline")["version"]
        written = page.client.put("/api/guideline", json={"text": "Same product.", "version": version})
        assert written.status_code == 503, written.text
        disk.empty()
        assert [click(page, pair, "token-one").json()["written"] for _ in range(2)] == [1, 0]
        page.session.campaign.ledger.close()


def test_words_of_the_database_do_not_tell_where_it_is(tmp_path: Path, tiny_encoder: Path) -> None:
    page = Page(asked_campaign(tmp_path, tiny_encoder))
    first, second = page.pairs("Ann")[:2]
    click(page, first, "token-one")
    refused = click(page, second, "token-one")
    assert refused.status_code == 409 and "was used for another click" in refused.text
    assert "sqlite" not in refused.text and str(tmp_path) not in refused.text


def test_a_click_for_another_ledger_is_not_taken(tmp_path: Path, tiny_encoder: Path) -> None:
    """Pair numbers mean other texts there: a page left open while the port went to another campaign."""
    page = Page(asked_campaign(tmp_path / "one", tiny_encoder))
    other = Page(asked_campaign(tmp_path / "two", tiny_encoder))
    pair, ledger = page.pairs("Ann")[0], other.get("/api/campaign")["ledger"]
    refused = click(page, pair, "token-one", ledger=ledger)
    assert refused.status_code == 412 and "another campaign" in refused.text
    own = page.get("/api/campaign")["ledger"]
    assert own != ledger and click(page, pair, "token-one", ledger=own).json()["written"] == 1
