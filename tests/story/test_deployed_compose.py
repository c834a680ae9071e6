"""docs/deploy/compose.yaml as it stands: login, labelling and training behind its Caddy, over a kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from composed import OWNER, composed
from pairsieve.campaign import Campaign
from tls_proxy import TOKEN, send
from web_campaign import asked_campaign, until

pytestmark = pytest.mark.slow
OURS = {"Origin": "https://label.example.org", "X-Pairsieve": "1", "Host": "label.example.org"}


def status(proxy: Any, path: str, body: Any = None, **headers: str) -> int:
    """Of an answer; 0 where there is none, or none yet."""
    try:
        return send(proxy, path, body, **{**OURS, **headers})[0]
    except OSError:
        return 0


def answer(pair: str, token: str) -> dict[str, Any]:
    return {"who": "Ann", "answers": [{"pair": pair, "label": "match", "token": token}]}


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="gives files to another user")
def test_people_label_through_the_composed_services(tmp_path: Path, tiny_encoder: Path) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder, questions=4, rounds=2)
    campaign.ledger.close()
    campaign.folder.rename(tmp_path / "mine")
    with composed(tmp_path, tiny_encoder) as proxy:
        until(lambda: status(proxy, "/login") == 200, 120)
        assert status(proxy, "/api/login", {"token": TOKEN}, Origin="https://evil.test") == 403
        guesses = [status(proxy, "/api/login", {"token": "wrong-but-long-enough"}) for _ in range(12)]
        assert guesses == [401] * 10 + [429] * 2
        given, headers, _ = send(proxy, "/api/login", {"token": TOKEN}, **OURS)
        held = headers["set-cookie"]
        assert given == 200 and "Secure" in held and "HttpOnly" in held
        cookie = {"Cookie": held.partition(";")[0]}
        pairs = [each["pair"] for each in send(proxy, "/api/next?who=Ann", **OURS, **cookie)[2]["pairs"]]
        assert status(proxy, "/api/answers", answer(pairs[0], "first-one"), **cookie) == 200
        name = proxy.compose("ps", "-q", "label").split()[0]
        about = ["docker", "inspect", "--format", "{{.State.Pid}}", name]
        os.kill(int(subprocess.run(about, check=True, capture_output=True, text=True).stdout), signal.SIGKILL)
        until(lambda: status(proxy, "/login") == 200, 120)
        for pair in pairs[1:]:
            assert status(proxy, "/api/answers", answer(pair, f"token-of-{pair}"), **cookie) == 200

        def of_the_next_round() -> list[str]:
            return [each["pair"] for each in send(proxy, "/api/next?who=Ann", **OURS, **cookie)[2]["pairs"]]

        until(of_the_next_round, 240)  # trained in the background, by a user whom the system does not know
    with Campaign(tmp_path / "mine").ledger as kept:
        assert kept.answers_by_person() == {"Ann": dict.fromkeys(map(int, pairs), 1)}
    assert (tmp_path / "mine" / "ledger.sqlite").stat().st_uid == OWNER
