"""Whose request it is when it comes through proxies, and whose word is taken for it."""

from __future__ import annotations

from typing import Final

import pytest
from inside_core import UNIX, Headers, ProxyRules

NEAR: Final = ProxyRules(["10.0.0.0/8", "fd00::7", UNIX], "x-forwarded")
RFC: Final = ProxyRules(["10.0.0.0/8", "fd00::7", UNIX], "forwarded")


def fields(*pairs: tuple[str, str]) -> Headers:
    return Headers((name.encode(), value.encode("latin-1")) for name, value in pairs)


def x(*values: str, proto: tuple[str, ...] = ()) -> Headers:
    return fields(*(("X-Forwarded-For", v) for v in values), *(("x-forwarded-proto", v) for v in proto))


def test_x_forwarded() -> None:
    """From the right, the first address that is none of ours."""
    cases: list[tuple[str | None, Headers, str | None, str]] = [
        ("10.1.2.3", x("192.0.2.1", proto=("https",)), "192.0.2.1", "https"),
        (None, x("192.0.2.1", proto=("https",)), "192.0.2.1", "https"),
        ("fd00:0::7", x("2001:DB8::1"), "2001:db8::1", "http"),
        ("::ffff:10.1.2.3", x("::ffff:192.0.2.1"), "192.0.2.1", "http"),
        # An untrusted address is not believed, whichever others are trusted.
        ("192.0.2.9", x("192.0.2.1", proto=("https",)), "192.0.2.9", "http"),
        ("testclient", x("192.0.2.1"), "testclient", "http"),
        # What is left of the first untrusted address was written by untrusted clients.
        ("10.0.0.1", x("127.0.0.1, 10.0.0.9, 192.0.2.1"), "192.0.2.1", "http"),
        ("10.0.0.1", x("127.0.0.1", "192.0.2.1"), "192.0.2.1", "http"),
        # Several of our own proxies, one behind the other.
        ("10.0.0.1", x("6.6.6.6, 192.0.2.1, 10.0.0.3, 10.0.0.2"), "192.0.2.1", "http"),
        ("10.0.0.1", x("10.0.0.3, 10.0.0.2"), "10.0.0.3", "http"),
        # Ports, as some write them.
        ("10.0.0.1", x("192.0.2.1:4711"), "192.0.2.1", "http"),
        ("10.0.0.1", x("[2001:db8::1]:4711"), "2001:db8::1", "http"),
        ("10.0.0.1", x("[2001:db8::1]"), "2001:db8::1", "http"),
        # Who hides whom it speaks for is as far as one can see.
        ("10.0.0.1", x("192.0.2.1, unknown"), "10.0.0.1", "http"),
        ("10.0.0.1", x("192.0.2.1, , 10.0.0.2"), "10.0.0.2", "http"),
        ("10.0.0.1", x("192.0.2.1; drop table"), "10.0.0.1", "http"),
        ("10.0.0.1", fields(), "10.0.0.1", "http"),
        (None, fields(), None, "http"),
        # The scheme that the client used, not that between our own proxies.
        ("10.0.0.1", x("192.0.2.1, 10.0.0.2", proto=("https, http",)), "192.0.2.1", "https"),
        ("10.0.0.1", x("192.0.2.1, 10.0.0.2", proto=("https",)), "192.0.2.1", "https"),
        ("10.0.0.1", x("6.6.6.6, 192.0.2.1", proto=("https", "http")), "192.0.2.1", "http"),
        ("10.0.0.1", x("192.0.2.1", proto=("gopher",)), "192.0.2.1", "http"),
        ("10.0.0.1", x(proto=("HTTPS",)), "10.0.0.1", "https"),
        # The other field may come from the client.
        ("10.0.0.1", fields(("Forwarded", "for=6.6.6.6;proto=https")), "10.0.0.1", "http"),
    ]
    for peer, headers, client, scheme in cases:
        assert NEAR.sender(peer, "http", headers) == (client, scheme)


def test_forwarded(subtests: pytest.Subtests) -> None:
    """RFC 7239: the same rule, in another grammar."""
    cases: list[tuple[list[str], str, str]] = [
        (["for=192.0.2.1;proto=https;by=203.0.113.43"], "192.0.2.1", "https"),
        (['For="[2001:db8:cafe::17]:4711" ; PROTO=https'], "2001:db8:cafe::17", "https"),
        (['for="192.0.2.1:80"'], "192.0.2.1", "http"),
        (["for=192.0.2.1:80"], "192.0.2.1", "http"),
        (["for=6.6.6.6;proto=https, for=192.0.2.1;proto=http"], "192.0.2.1", "http"),
        (["for=6.6.6.6", "for=192.0.2.1, for=10.0.0.2"], "192.0.2.1", "http"),
        (["for=192.0.2.1;proto=https,for=10.0.0.2;proto=http"], "192.0.2.1", "https"),
        ([r'for="192.0.2.\1"'], "192.0.2.1", "http"),
        (["for=192.0.2.1, for=_hidden"], "10.0.0.1", "http"),
        (["for=192.0.2.1, for=unknown;proto=https"], "10.0.0.1", "https"),
        (["for=192.0.2.1,,"], "192.0.2.1", "http"),
        (["proto=https"], "10.0.0.1", "https"),
        ([], "10.0.0.1", "http"),
        # A quote that is not closed swallows what the proxy has written behind it; then nothing is believed.
        (['for="6.6.6.6, for=192.0.2.1'], "10.0.0.1", "http"),
        (['for="6.6.6.6', "for=192.0.2.1"], "192.0.2.1", "http"),
        (["for=6.6.6.6 192.0.2.1"], "10.0.0.1", "http"),
        (["192.0.2.1"], "10.0.0.1", "http"),
        (["for=192.0.2.1; =;proto=https"], "10.0.0.1", "http"),
    ]
    for values, client, scheme in cases:
        with subtests.test(values=values):
            headers = fields(*(("Forwarded", value) for value in values), ("X-Forwarded-For", "6.6.6.6"))
            assert RFC.sender("10.0.0.1", "http", headers) == (client, scheme)


@pytest.mark.parametrize("junk", ['"', " ", "a=", '\\"', "a", ";", ","])
def test_long_nonsense_is_read_once(junk: str) -> None:
    """An untrusted header field takes time in proportion to its length; this would take minutes if it were the square."""
    value = f'for="{junk * 200_000}='
    for rules in (NEAR, RFC):
        assert rules.sender("10.0.0.1", "http", fields(("Forwarded", value), ("X-Forwarded-For", value))) == (
            "10.0.0.1",
            "http",
        )
    assert RFC.sender("10.0.0.1", "http", fields(("Forwarded", junk * 200_000 + "!="))) == ("10.0.0.1", "http")


def test_no_forwarding_header_is_trusted_by_default() -> None:
    """Not even this machine."""
    rules = ProxyRules((), "x-forwarded")
    assert rules.sender("127.0.0.1", "http", x("192.0.2.1", proto=("https",))) == ("127.0.0.1", "http")
    assert rules.sender(None, "http", x("192.0.2.1")) == (None, "http")


@pytest.mark.parametrize("entry", ["proxy.example.com", "10.0.0.1/8", "10.0.0.0/33", "*", ""])
def test_proxies_are_addresses(entry: str) -> None:
    """Names would have to be looked up, and networks with bits beside them are somebody's mistake."""
    with pytest.raises(ValueError, match="trusted proxy"):
        ProxyRules([entry], "forwarded")


def test_a_field_that_is_missing_has_the_default() -> None:
    """And one that is there, even if it is empty, has not."""
    headers = fields(("X-One", "1"), ("X-None", ""))
    assert (headers.get("x-two", "2"), headers.get("x-two")) == ("2", None)
    assert (headers.get("x-one", "2"), headers.get("x-none", "2")) == ("1", "")
