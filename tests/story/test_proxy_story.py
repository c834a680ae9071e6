"""Login, labelling and serving through a TLS proxy."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from browser import IN_BROWSER, Person
from pairsieve.campaign import Campaign
from serving_campaign import finished_campaign
from tls_proxy import TOKEN, ask, behind, tls_proxy
from web_campaign import asked_campaign

pytest_plugins = ("browser",)
pytestmark = IN_BROWSER


def test_people_log_in_and_label_through_the_proxy(tmp_path: Path, tiny_encoder: Path, chromium: Any) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder, questions=4)
    with tls_proxy(tmp_path) as proxy, behind(proxy, "label", campaign.folder, "--no-train") as announced:
        assert announced["url"] == f"{proxy.url}/"
        # Ten wrong tokens of somebody else, through the same proxy, keep nobody out.
        proxy.client = "198.51.100.66"
        seen = set()
        for _ in range(12):
            try:
                ask(proxy, "/api/campaign", Authorization="Bearer wrong")
            except urllib.error.HTTPError as error:
                seen.add(error.code)
                error.close()
        assert seen == {401, 429}
        proxy.client = "203.0.113.7"
        try:
            ask(proxy, "/api/campaign", Authorization="Bearer wrong")
        except urllib.error.HTTPError as error:
            assert error.code == 401, "another client, counted apart"
            error.close()
        ann = Person(chromium, proxy.url, "Ann", TOKEN, ignore_https_errors=True)
        said = {ann.press("y"): 1, ann.press("n"): 0}
        ann.saved()
        (cookie,) = ann.context.cookies()
        assert cookie["secure"] and cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        ann.leave()
    with Campaign(campaign.folder).ledger as kept:
        assert kept.answers_by_person() == {"Ann": {int(pair): label for pair, label in said.items()}}


def test_texts_are_matched_through_the_proxy(tmp_path: Path, tiny_encoder: Path) -> None:
    campaign = finished_campaign(tmp_path, tiny_encoder)
    with tls_proxy(tmp_path, "match.test") as proxy, behind(proxy, "serve", campaign):
        assert ask(proxy, "/health")["status"] == "ok"
        right = {"Authorization": f"Bearer {TOKEN}"}
        found = ask(proxy, "/match", {"text": "Where is the nearest bank?", "count": 2}, **right)
        assert len(found["matches"]) == 2
        for wrong in ({}, {"Authorization": "Bearer wrong"}, {**right, "Host": "evil.example"}):
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask(proxy, "/match", {"text": "bank"}, **wrong)
            assert refused.value.code in (401, 421)
            refused.value.close()
