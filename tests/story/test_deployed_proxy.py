"""docs/deploy as it stands: login, labelling and serving behind nginx and Caddy, and the systemd unit."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployed_proxy import DEPLOY, deployed_proxy
from pairsieve.campaign import Campaign
from serving_campaign import finished_campaign
from tls_proxy import TOKEN, behind, send
from web_campaign import asked_campaign

pytestmark = pytest.mark.slow


@pytest.fixture(params=["nginx", "caddy"])
def proxy(request: pytest.FixtureRequest) -> Iterator[Any]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    with tempfile.TemporaryDirectory() as folder, deployed_proxy(request.param, Path(folder)) as running:
        yield running


def test_people_log_in_and_label(proxy: Any, tmp_path: Path, tiny_encoder: Path) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder, questions=4)
    campaign.ledger.close()
    with behind(proxy, "label", campaign.folder, "--no-train"):
        ours = {"Origin": proxy.url, "X-Pairsieve": "1"}
        assert (
            send(proxy, "/api/login", {"token": TOKEN}, **{**ours, "Origin": "https://evil.test"})[0] == 403
        )
        assert send(proxy, "/api/login", {"token": "wrong-but-long-enough"}, **ours)[0] == 401
        status, headers, _ = send(proxy, "/api/login", {"token": TOKEN}, **ours)
        held = headers["set-cookie"]
        assert status == 200 and "Secure" in held and "HttpOnly" in held
        cookie = held.partition(";")[0]
        assert send(proxy, "/api/next?who=Ann")[0] == 401
        status, _, told = send(proxy, "/api/next?who=Ann", Cookie=cookie)
        pair = told["pairs"][0]["pair"]
        answer = {"who": "Ann", "answers": [{"pair": pair, "label": "match", "token": "a" * 8}]}
        assert send(proxy, "/api/answers", answer, **ours, Cookie=cookie)[0] == 200
    with Campaign(campaign.folder).ledger as kept:
        assert kept.answers_by_person() == {"Ann": {int(pair): 1}}


def test_texts_are_matched(proxy: Any, tmp_path: Path, tiny_encoder: Path) -> None:
    with behind(proxy, "serve", finished_campaign(tmp_path, tiny_encoder)):
        asked = {"text": "Where is the nearest bank?", "count": 2}
        assert send(proxy, "/match", asked)[0] == 401
        status, _, told = send(proxy, "/match", asked, Authorization=f"Bearer {TOKEN}")
        assert status == 200 and len(told["matches"]) == 2


def test_the_unit_is_one(tmp_path: Path) -> None:
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (DEPLOY / "pairsieve-label.service").read_text()
    assert unit.count("ExecStart=/opt/pairsieve/bin/pairsieve ") == 1
    copy = tmp_path / "pairsieve-label.service"
    copy.write_text(unit.replace("/opt/pairsieve/bin/pairsieve", sys.executable))
    found = subprocess.run([analyse, "verify", copy], capture_output=True, text=True)
    assert found.returncode == 0 and not found.stderr, found.stderr
