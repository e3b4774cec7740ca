"""Names that stand for another address each time: what counts is where a connection has gone."""

from __future__ import annotations

import pytest
from inside_http import Reached, parse_target
from inside_oauth import Fetch, Fetcher, address_in, is_public_address, tells_secrets

from trio_mcp import (
    AuthorizationFailed,
    HttpSettings,
    ProtectedServer,
)

MCP, LOGIN = "93.184.216.34", "93.184.216.35"
PRIVATE = "10.1.2.3"
URL = "https://mcp.example/mcp"


def test_behind_a_proxy_addresses_are_known_in_every_form(subtests: pytest.Subtests) -> None:
    """It resolves names, so that only what a URL says itself can be judged."""
    hosts: list[str] = [
        "127.1",
        "0x7f000001",
        "2130706433",
        "10.0.0.1.",
        "localhost.",
        "x.localhost",
        "[64:ff9b::a00:1]",
        "0xa9fea9fe",
    ]
    for host in hosts:
        with subtests.test(host=host):
            target, reached = parse_target(URL), Reached()
            reached.note(target, None)
            fetcher = Fetcher(ProtectedServer(URL, target, HttpSettings(), None, reached), ())
            with pytest.raises(AuthorizationFailed, match="private"):
                fetcher.check(f"https://{host}/x")
            assert fetcher.check("https://login.example/x").host == "login.example"


async def test_a_hint_is_judged_where_the_connection_is_there_already() -> None:
    target, reached = parse_target(URL), Reached()
    reached.note(target, MCP)
    server = ProtectedServer(URL, target, HttpSettings(), None, reached)
    fetcher = Fetcher(server, (), ["https://login.example"])
    fetcher.note(parse_target("https://login.example"), PRIVATE)
    with pytest.raises(AuthorizationFailed, match=r"private network \(10\.1\.2\.3\)"):
        await fetcher.get(Fetch("https://login.example/admin", is_hint=True))


def test_where_connections_have_gone() -> None:
    target = parse_target(URL)
    for addresses, is_public in (
        ([PRIVATE], False),
        ([PRIVATE, MCP], True),
        ([MCP, PRIVATE], True),  # once is enough
        ([None], True),  # nobody knows where a proxy finds a name
    ):
        reached = Reached()
        for address in addresses:
            reached.note(target, address)
        assert reached.is_public is is_public, addresses


def test_addresses_in_their_older_forms(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str | None]] = [
        ("127.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("10.0.0.1.", "10.0.0.1"),
        ("0xa9fea9fe", "169.254.169.254"),
        ("::ffff:a00:1", "::ffff:10.0.0.1"),
        ("mcp.example", None),
        ("1.2.3.4.5", None),
        ("256.1.1.1", None),
        ("1.2.3.0x1ff", None),
        ("4294967296", None),
    ]
    for host, address in rows:
        with subtests.test(host=host, address=address):
            found = address_in(host)
            assert found == address or (found is not None and found.endswith(":a00:1"))


def test_what_is_public() -> None:
    for public in ("93.184.216.34", "2606:4700::1111", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"):
        assert is_public_address(public), public
        assert not tells_secrets(public)
    for secret in (
        "169.254.169.254",
        "fe80::1%eth0",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
    ):
        assert tells_secrets(secret), secret
        assert not is_public_address(secret)
