"""What an endpoint lets in before it reads a message, and what HTTP statuses and JSON-RPC errors mean to each other."""

from __future__ import annotations

from typing import Final

import pytest
from inside_core import (
    EVENT_STREAM,
    JSON,
    Headers,
    HostRules,
    accepts,
    check_accept,
    check_content_type,
    error_in,
    media_type_of,
    parse_retry_after,
    status_of_error,
)

from trio_mcp import HttpRefused, RequestError


def headers(**fields: str) -> Headers:
    return Headers((name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in fields.items())


LOCAL: Final = HostRules()
PUBLIC: Final = HostRules(
    allowed_hosts={
        "mcp.example.com",
        "*.apps.example.com",
        "*.dev.example.com:81",
        "10.0.0.1:8000",
        "[2001:DB8::1]",
    },
    allowed_origins={"https://app.example.com", "http://localhost:*", "https://app.example.com:8443"},
)


def test_only_known_hosts_are_answered_for(subtests: pytest.Subtests) -> None:
    """2026-07-28, basic/transports/streamable-http, "Security & Endpoint": DNS rebinding."""
    cases: list[tuple[HostRules, str, bool]] = [
        (LOCAL, "localhost", True),
        (LOCAL, "LOCALHOST:8000", True),
        (LOCAL, "127.0.0.1:1", True),
        (LOCAL, "[::1]:8000", True),
        (LOCAL, "localhost.", True),
        (LOCAL, "evil.example.com", False),
        (LOCAL, "localhost.evil.example.com", False),
        (LOCAL, "evil.example.com:localhost", False),
        (LOCAL, "localhost@evil.example.com", False),
        (LOCAL, "localhost:*", False),
        (LOCAL, "127.0.0.2", False),
        (LOCAL, "::1", False),
        (LOCAL, "", False),
        (LOCAL, "localhost, evil.example.com", False),
        (PUBLIC, "mcp.example.com", True),
        (PUBLIC, "mcp.example.com:443", True),
        (PUBLIC, "a.apps.example.com", True),
        (PUBLIC, "a.b.apps.example.com:8443", True),
        (PUBLIC, "apps.example.com", False),
        (PUBLIC, "a.dev.example.com:81", True),
        (PUBLIC, "a.dev.example.com:82", False),
        (PUBLIC, "a.dev.example.com", False),
        (PUBLIC, f"{'a' * 236}.apps.example.com:65535", True),
        (PUBLIC, "evilapps.example.com", False),
        (PUBLIC, "10.0.0.1:8000", True),
        (PUBLIC, "10.0.0.1:8001", False),
        (PUBLIC, "10.0.0.1", False),
        (PUBLIC, "[2001:db8::1]:80", True),
        (PUBLIC, "localhost", False),
        (HostRules(allowed_hosts=None), "anything.example", True),
    ]
    for rules, host, allowed in cases:
        with subtests.test(rules=rules, host=host):
            if allowed:
                rules.check(headers(host=host))
                continue
            with pytest.raises(HttpRefused, match="allowed_hosts") as caught:
                rules.check(headers(host=host))
            assert caught.value.status == 421
            assert repr(host) in str(caught.value)


def test_a_request_without_host_is_not_answered() -> None:
    """HTTP/1.0 may leave it out."""
    with pytest.raises(HttpRefused):
        LOCAL.check(headers())


def test_only_known_pages_may_call(subtests: pytest.Subtests) -> None:
    """The same section: "If the `Origin` header is present and invalid, servers MUST respond with HTTP 403"."""
    cases: list[tuple[HostRules, str, str, bool]] = [
        (LOCAL, "localhost:8000", "http://localhost:3000", True),
        (LOCAL, "localhost:8000", "https://127.0.0.1", True),
        (LOCAL, "localhost:8000", "http://[::1]:3000", True),
        (LOCAL, "localhost:8000", "http://evil.example.com", False),
        (LOCAL, "localhost:8000", "http://localhost.evil.example.com", False),
        (LOCAL, "localhost:8000", "null", False),
        (LOCAL, "localhost:8000", "", False),
        (LOCAL, "localhost:8000", "file://", False),
        (LOCAL, "localhost:8000", "chrome-extension://localhost", False),
        (LOCAL, "localhost:8000", "http://localhost:*", False),
        (LOCAL, "localhost:8000", "http://localhost/path", False),
        (PUBLIC, "mcp.example.com", "https://app.example.com", True),
        (PUBLIC, "mcp.example.com", "HTTPS://App.Example.Com:443", True),
        (PUBLIC, "mcp.example.com", "https://app.example.com:8443", True),
        (PUBLIC, "mcp.example.com", "https://app.example.com:8444", False),
        (PUBLIC, "mcp.example.com", "http://app.example.com", False),
        # Pages of the endpoint itself.
        (PUBLIC, "mcp.example.com", "https://mcp.example.com", True),
        (PUBLIC, "mcp.example.com:8443", "https://mcp.example.com:8443", True),
        (PUBLIC, "mcp.example.com:8443", "https://mcp.example.com", False),
        # Where any host goes, that the origin is the host says nothing: the page has made it so.
        (HostRules(allowed_hosts=None), "evil.example.com", "http://evil.example.com", False),
        (HostRules(allowed_origins=None), "localhost", "null", True),
    ]
    for rules, host, origin, allowed in cases:
        with subtests.test(rules=rules, host=host, origin=origin):
            if allowed:
                rules.check(headers(host=host, origin=origin))
                continue
            with pytest.raises(HttpRefused, match="allowed_origins") as caught:
                rules.check(headers(host=host, origin=origin))
            assert caught.value.status == 403


def test_every_origin_is_looked_at() -> None:
    """A second one must not hide behind the first."""
    fields = Headers(
        [(b"host", b"localhost"), (b"origin", b"http://localhost"), (b"origin", b"http://evil.example")]
    )
    with pytest.raises(HttpRefused):
        LOCAL.check(fields)


@pytest.mark.parametrize("host", ["", "http://localhost", "a b", "*", "*example.com", "a.*.b", "localhost/"])
def test_a_host_that_could_never_match_is_a_mistake(host: str) -> None:
    with pytest.raises(ValueError, match="allowed host"):
        HostRules(allowed_hosts=[host])


@pytest.mark.parametrize("origin", ["", "localhost", "http://", "http://a/b", "null", "https://a.b:x"])
def test_an_origin_that_could_never_match_is_a_mistake(origin: str) -> None:
    with pytest.raises(ValueError, match="allowed origin"):
        HostRules(allowed_origins=[origin])


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
    ],
)
def test_json_is_taken(content_type: str) -> None:
    """2026-07-28, basic/transports/streamable-http, "Sending Messages"."""
    check_content_type(headers(content_type=content_type))


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/jsonp", "", "application/json; charset=latin-1", None]
)
def test_anything_else_is_not_taken(content_type: str | None) -> None:
    """A form of a web page can send text/plain without asking anybody; JSON it cannot."""
    fields = headers() if content_type is None else headers(content_type=content_type)
    with pytest.raises(HttpRefused, match="Content-Type") as caught:
        check_content_type(fields)
    assert caught.value.status == 415


def test_accept_is_read_as_http_says(subtests: pytest.Subtests) -> None:
    """RFC 9110, section 12.5.1: the range that says most about a type decides."""
    cases: list[tuple[str | None, bool, bool]] = [
        (None, True, True),
        ("application/json, text/event-stream", True, True),
        ("application/json", True, False),
        ("TEXT/Event-Stream;q=0.5", False, True),
        ("*/*", True, True),
        ("application/*", True, False),
        ("*/*;q=0.1, text/event-stream;q=0", True, False),
        ("text/event-stream;q=0, */*", True, False),
        ("text/event-stream; q=0.000", False, False),
        ("text/event-stream;q=0.001", False, True),
        ("application/json;profile=x", True, False),
        ("application/jsonp, text/plain", False, False),
        ("", False, False),
        (", ,*/*", True, True),
    ]
    for accept, json, stream in cases:
        with subtests.test(accept=accept):
            assert accepts(accept, JSON) is json
            assert accepts(accept, EVENT_STREAM) is stream
            fields = headers() if accept is None else headers(accept=accept)
            if json and stream:
                check_accept(fields, JSON, EVENT_STREAM)
                continue
            with pytest.raises(HttpRefused, match="Accept") as caught:
                check_accept(fields, JSON, EVENT_STREAM)
            assert caught.value.status == 406
            assert (JSON in str(caught.value).split(", and is")[0]) is not json


def test_a_media_type_is_told_without_its_parameters() -> None:
    assert media_type_of("Text/Event-Stream ; charset=utf-8") == EVENT_STREAM
    assert media_type_of(None) is None


def test_errors_have_the_status_the_specification_gives_them() -> None:
    """2026-07-28, basic/transports/streamable-http, "Protocol Version Header", "Server Validation"."""
    cases: list[tuple[int, int]] = [
        (-32700, 400),
        (-32600, 400),
        (-32601, 404),
        (-32602, 400),
        (-32603, 200),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (7, 200),
    ]
    for code, status in cases:
        assert status_of_error(code) == status


def test_the_body_of_an_http_error_may_be_an_error_of_the_protocol(subtests: pytest.Subtests) -> None:
    """Servers put there the request's id, null or none at all."""
    cases: list[tuple[bytes, int | None]] = [
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"x","data":{"supported":[]}}}', -32022),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}', -32600),
        (b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"x"}}', -32600),
        (b'{"error":{"code":-32600}}', -32600),
        (b'{"error":"invalid_token"}', None),
        (b'{"error":{"code":"no"}}', None),
        (b'{"result":{},"error":{"code":1,"message":""}}', None),
        (b'{"result":{}}', None),
        (b"[]", None),
        (b"<html>", None),
        (b"", None),
        (b"[" * 10_000, None),
    ]
    for body, code in cases:
        with subtests.test(body=body):
            error = error_in(body)
            assert (error.code if isinstance(error, RequestError) else None) == code


def test_retry_after_is_a_number_or_a_date() -> None:
    """RFC 9110, section 10.2.3, all three forms of a date (section 5.6.7)."""
    cases: list[tuple[str | None, float | None]] = [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 60.0),
        ("Wednesday, 21-Oct-15 07:28:00 GMT", 60.0),
        ("Wed Oct 21 07:28:00 2015", 60.0),
        ("Wed, 21 Oct 2015 07:26:00 GMT", 0.0),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("9" * 400, None),
        ("Wed, 99 Foo 99999 07:28:00 GMT", None),
        ("\u0665", None),
    ]
    for value, seconds in cases:
        assert parse_retry_after(value, now=1445412420.0) == seconds
