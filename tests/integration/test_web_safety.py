"""Who may come in, and with what: tokens, origins, sizes, paths, headers, and requests made of noise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from examples import examples
from fuzzing import fuzz_by_schema
from pairsieve.campaign import Campaign
from pairsieve.errors import InputError
from pairsieve.http.access import (
    COOKIE,
    FAILURES,
    LARGEST_BODY,
    Failures,
    check_host,
    cookie_for,
    is_loopback,
)
from pairsieve.web.app import make_app
from pairsieve.web.session import LabellingSession
from web_campaign import HERE, asked_campaign

TOKEN = "correct-horse-battery"
OURS = {"X-Pairsieve": "1"}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Campaign:
    return asked_campaign(tmp_path_factory.mktemp("safety"), tiny_encoder)


@pytest.fixture
def client(campaign: Campaign) -> TestClient:
    return TestClient(make_app(LabellingSession(campaign)), base_url=HERE)


def guarded(campaign: Campaign, **more: Any) -> TestClient:
    return TestClient(make_app(LabellingSession(campaign), TOKEN, **more), base_url="http://host.example")


def test_loopback_is_known() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "localhost", "::1", "127.8.8.8")))
    assert not any(map(is_loopback, ("0.0.0.0", "192.168.1.2", "::", "localhost.example", "")))


def test_another_host_needs_a_token_and_a_long_one() -> None:
    check_host("127.0.0.1", "")
    check_host("0.0.0.0", TOKEN)
    with pytest.raises(InputError, match="without a token"):
        check_host("0.0.0.0", "")
    with pytest.raises(InputError, match="5 characters"):
        check_host("127.0.0.1", "short")


def test_every_answer_carries_the_headers(client: TestClient) -> None:
    for path in ("/", "/dashboard", "/static/label.js", "/api/campaign", "/nothing", "/api/next"):
        response = client.get(path)
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy, path
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    "headers",
    [
        {},  # a plain form of a foreign page can send this much
        {**OURS, "Origin": "http://evil.example"},
        {**OURS, "Origin": "null"},
        {**OURS, "Origin": "http://127.0.0.1:9"},
        {**OURS, "Sec-Fetch-Site": "cross-site"},
        {**OURS, "Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_write_from_elsewhere_is_refused(client: TestClient, headers: dict[str, str]) -> None:
    for method, path in (("POST", "/api/answers"), ("POST", "/api/undo"), ("PUT", "/api/guideline")):
        response = client.request(method, path, json={}, headers=headers)
        assert response.status_code == 403, path
    assert client.post("/api/skip", json={}, headers={**OURS, "Origin": HERE}).status_code == 422, (
        "ours goes on"
    )


CROSS = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}


def test_a_foreign_page_cannot_take_pairs_by_reading(client: TestClient) -> None:
    """An image or a script of another site with the address of /api/next would lease every open pair."""
    for headers in (CROSS, CROSS | {"Sec-Fetch-Mode": "navigate"}, {"Origin": "http://evil.example"}):
        response = client.get("/api/next?who=Eve&count=50", headers=headers)
        assert response.status_code == 403 and "pairs" not in response.text
    assert len(client.get("/api/next?who=Ann&count=50").json()["pairs"]) == 10, "all are free"
    assert client.get("/", headers=CROSS | {"Sec-Fetch-Mode": "navigate"}).status_code == 200, "a link"
    assert client.get("/", headers=CROSS).status_code == 403, "a frame or an image"


def test_a_foreign_name_that_points_here_is_refused(client: TestClient) -> None:
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 421
    assert client.get("/", headers={"Host": "127.0.0.1.evil.example"}).status_code == 421
    assert client.get("/", headers={"Host": "localhost:8000"}).status_code == 200
    assert client.get("/", headers={"Host": "[::1]:8000"}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/..%2f..%2fapp.py",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static//etc/passwd",
        "/static/label.html",
        "/static/..%5capp.py",
        "/etc/passwd",
        "/static/style.css%00.js",
    ],
)
def test_no_path_leads_outside(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404 and "import" not in response.text


def test_without_the_token_nothing_is_shown(campaign: Campaign) -> None:
    client = guarded(campaign)
    assert client.get("/", follow_redirects=False).headers["location"] == "/login"
    assert client.get("/login").status_code == 200
    for path in ("/api/next?who=Ann", "/api/campaign", "/api/dashboard", "/api/openapi.json"):
        assert client.get(path).status_code == 401, path
    assert client.post("/api/answers", json={}, headers=OURS).status_code == 401


@pytest.mark.parametrize("other", ['{"a": 1}=x', "a=" + '"' + "\\" * 50_000 + '"', "=", "pairsieve2=x"])
def test_somebody_elses_cookies_keep_nobody_out(campaign: Campaign, other: str) -> None:
    own = f"{COOKIE}={cookie_for(TOKEN)}"
    answer = guarded(campaign).get("/api/campaign", headers={"Cookie": f"{other}; {own}"})
    assert answer.status_code == 200


def test_a_length_of_thousands_of_digits_is_too_large(client: TestClient) -> None:
    answer = client.post("/api/login", content=b"{}", headers={**OURS, "Content-Length": "9" * 5000})
    assert answer.status_code == 413


def test_the_token_gives_a_cookie_that_scripts_cannot_read(campaign: Campaign) -> None:
    client = guarded(campaign)
    answer = client.post("/api/login", json={"token": TOKEN}, headers=OURS)
    held = answer.headers["set-cookie"]
    assert "HttpOnly" in held and "samesite=strict" in held.lower() and TOKEN not in held
    assert client.get("/api/campaign").status_code == 200
    stranger = guarded(campaign)
    assert stranger.get("/api/campaign", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert (
        stranger.get("/api/campaign", headers={"Cookie": f"{COOKIE}={cookie_for('x' * 20)}"}).status_code
        == 401
    )


def test_wrong_tokens_are_counted_and_then_must_wait(campaign: Campaign) -> None:
    now = [0.0]
    client = guarded(campaign, failures=Failures(lambda: now[0]))
    for _ in range(FAILURES):
        assert client.post("/api/login", json={"token": "wrong"}, headers=OURS).status_code == 401
    late = client.post("/api/login", json={"token": "wrong"}, headers=OURS)
    assert late.status_code == 429 and int(late.headers["retry-after"]) > 0
    assert client.get("/api/campaign", headers={"Authorization": "Bearer wrong"}).status_code == 429
    # Who knows the token is not kept out by who guesses.
    assert client.get("/api/campaign", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.post("/api/login", json={"token": TOKEN}, headers=OURS).status_code == 200
    now[0] = 61.0
    assert client.post("/api/login", json={"token": "wrong"}, headers=OURS).status_code == 401


def test_a_large_body_is_refused_with_and_without_its_length(client: TestClient) -> None:
    large = b"x" * (LARGEST_BODY + 1)
    assert client.post("/api/answers", content=large, headers=OURS).status_code == 413
    pieces = iter([large[: LARGEST_BODY // 2]] * 3)
    assert client.post("/api/answers", content=pieces, headers=OURS).status_code == 413


def test_what_is_wrong_is_said_without_sending_it_back(client: TestClient) -> None:
    body = b'{"who": "\\ud800<script>", "answers": [NaN], "more": 1}'
    response = client.post("/api/answers", content=body, headers={**OURS, "Content-Type": "application/json"})
    assert response.status_code == 422 and "<script>" not in response.text


PATHS = ["/api/answers", "/api/undo", "/api/skip", "/api/disputes", "/api/login", "/api/rounds/retry"]
PIECES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=80)
    | st.sampled_from(["match", "unsure", "1", "0" * 19, "9" * 19, "abcdefgh", "Ann"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["who", "pair", "label", "token", "answers", "answer", "text", "version", "x"]),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)
NEARLY = st.fixed_dictionaries(
    {"who": st.text(max_size=70)},
    optional={
        "pair": st.none() | st.from_regex(r"[0-9]{1,19}", fullmatch=True),
        "token": st.from_regex(r"[A-Za-z0-9_-]{8,12}", fullmatch=True),
        "answers": st.lists(
            st.fixed_dictionaries(
                {
                    "pair": st.sampled_from(["1", "2", "4294967298", "9" * 19]),
                    "label": st.sampled_from(["match", "no match", "unsure"]),
                    "token": st.sampled_from(["aaaaaaaa", "bbbbbbbb", "cccccccc"]),
                }
            ),
            max_size=3,
        ),
    },
)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), body=PIECES | NEARLY)
def test_no_request_made_of_noise_gives_a_500(client: TestClient, path: str, body: Any) -> None:
    response = client.post(
        path, content=json.dumps(body).encode(), headers={**OURS, "Content-Type": "application/json"}
    )
    assert response.status_code < 500


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(who=st.text(max_size=80), count=st.integers() | st.text(max_size=5), raw=st.binary(max_size=60))
def test_no_query_or_raw_body_gives_a_500(client: TestClient, who: str, count: Any, raw: bytes) -> None:
    who = who.encode("utf-8", "replace").decode()
    assert client.get("/api/next", params={"who": who, "count": count}).status_code < 500
    assert client.get("/api/state", params={"who": who}).status_code < 500
    headers = {**OURS, "Content-Type": "application/json"}
    assert client.put("/api/guideline", content=raw, headers=headers).status_code < 500


@pytest.mark.slow
def test_schemathesis_finds_no_500(client: TestClient) -> None:
    document = client.get("/api/openapi.json").json()
    assert fuzz_by_schema(client, document, HERE, examples(250)).total() >= examples(250)
