"""A proxy in front: whose forwarded headers count, and what an origin is."""

from __future__ import annotations

from typing import Any

import pytest

from pairsieve.errors import InputError
from pairsieve.http.access import check_host
from pairsieve.http.proxy import Proxy, neighbourhood

PUBLIC = "https://label.example.org"


def scope(address: str) -> dict[str, Any]:
    return {"client": (address, 4711), "scheme": "http"}


@pytest.mark.parametrize(
    ("address", "forwarded", "client"),
    [
        ("127.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "", "127.0.0.1"),  # somebody on this machine, without a proxy
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),  # not from the proxy: anybody can write the header
        ("127.0.0.1", "198.51.100.1, 203.0.113.7", "203.0.113.7"),  # the first was written by the client
        ("127.0.0.1", "198.51.100.1, 127.0.0.1", "198.51.100.1"),  # two proxies of ours, one after the other
        ("127.0.0.1", "nonsense", "127.0.0.1"),
        ("127.0.0.1", "[2001:db8::1]", "2001:db8::1"),
    ],
)
def test_the_client_is_the_last_address_that_is_no_proxy(address: str, forwarded: str, client: str) -> None:
    assert Proxy(PUBLIC).client(scope(address), {"x-forwarded-for": forwarded}) == client


def test_without_a_public_url_nobody_is_trusted() -> None:
    assert Proxy().client(scope("127.0.0.1"), {"x-forwarded-for": "203.0.113.7"}) == "127.0.0.1"
    assert Proxy().scheme(scope("127.0.0.1"), {"x-forwarded-proto": "https"}) == "http"
    within = Proxy(trusted=("10.0.0.0/24",))
    assert within.scheme(scope("10.0.0.5"), {"x-forwarded-proto": "https"}) == "https"
    assert within.scheme(scope("10.0.1.5"), {"x-forwarded-proto": "https"}) == "http"


def test_the_origin_is_as_a_browser_writes_it() -> None:
    assert Proxy("https://Label.example.org:443/").origin == PUBLIC
    assert Proxy("https://label.example.org:8443").host == "label.example.org:8443"
    assert Proxy("https://[2001:db8::1]").origin == "https://[2001:db8::1]"


@pytest.mark.parametrize(
    "url", ["label.example.org", "ftp://x", "https://x/label", "https://x:y", "https://"]
)
def test_what_is_no_public_url_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="public URL"):
        Proxy(url)


def test_a_proxy_is_named_by_its_address_and_needs_a_token() -> None:
    with pytest.raises(InputError, match="no address"):
        Proxy(PUBLIC, ("proxy.example.org",))
    with pytest.raises(InputError, match="without a token"):
        check_host("127.0.0.1", "", Proxy(PUBLIC))


def test_one_client_is_an_ipv4_address_or_a_network_of_ipv6() -> None:
    assert neighbourhood("203.0.113.7") == "203.0.113.7"
    assert neighbourhood("::ffff:203.0.113.7") == "203.0.113.7"
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8::ffff:2") == "2001:db8::/64"
