"""A TLS proxy in front of a server: the URL that people use, and whose forwarded headers are believed.

X-Forwarded-For and X-Forwarded-Proto count only in a request that comes from a trusted address, as anybody
can write them. Of X-Forwarded-For the last address that is not a trusted proxy is the client: each proxy
appends the address it saw.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from pairsieve.errors import InputError

Scope = MutableMapping[str, Any]
LOOPBACK = ("127.0.0.0/8", "::1/128")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Proxy:
    """public_url: scheme://host[:port] in front. trusted: addresses or networks of proxies; with a public
    URL and none given, those of this machine."""

    public_url: str = ""
    trusted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parts = urlsplit(self.public_url)
        try:
            whole = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
        except ValueError:
            whole = False
        if self.public_url and (not whole or parts.path not in ("", "/") or parts.query or parts.username):
            raise InputError(
                f"the public URL {self.public_url!r}",
                why="pages are served at the root of a host",
                remedy="Write it as https://label.example.org",
            )
        _ = self.networks  # an address that is none is said now

    @cached_property
    def networks(self) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
        given = self.trusted or (LOOPBACK if self.public_url else ())
        try:
            return tuple(ipaddress.ip_network(each) for each in given)
        except ValueError as error:
            remedy = "Give the proxy's IP address or network, such as 10.0.0.5 or 10.0.0.0/24"
            raise InputError("a trusted proxy that is no address", why=str(error), remedy=remedy) from None

    @property
    def origin(self) -> str:
        """Of the public URL, as a browser writes it: without a port that is the usual one."""
        parts = urlsplit(self.public_url)
        if not self.public_url:
            return ""
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        usual = parts.port in (None, _PORTS[parts.scheme])
        return f"{parts.scheme}://{host}" + ("" if usual else f":{parts.port}")

    @property
    def host(self) -> str:
        return self.origin.partition("://")[2]

    def trusts(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self.networks)

    def client(self, scope: Scope, headers: Mapping[str, str]) -> str:
        """The address that a request really comes from."""
        address = peer(scope)
        if not self.trusts(address):
            return address
        for each in reversed(headers.get("x-forwarded-for", "").split(",")):
            given = each.strip().removeprefix("[").partition("]")[0]
            try:
                ipaddress.ip_address(given)
            except ValueError:
                return address
            if not self.trusts(given):
                return given
            address = given
        return address

    def scheme(self, scope: Scope, headers: Mapping[str, str]) -> str:
        """http or https, as the browser sees it."""
        if self.trusts(peer(scope)):
            forwarded = headers.get("x-forwarded-proto", "").strip().lower()
            if forwarded in _PORTS:
                return forwarded
            if self.public_url:
                return urlsplit(self.public_url).scheme
        return str(scope.get("scheme", "http"))


def peer(scope: Scope) -> str:
    """The address at the other end of the connection."""
    return str((scope.get("client") or ("unknown",))[0])


def neighbourhood(address: str) -> str:
    """What is counted as one client: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    mapped = found.ipv4_mapped
    return str(mapped) if mapped else str(ipaddress.ip_network((found, 64), strict=False))
