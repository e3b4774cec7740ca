"""Texts in header fields, URLs, URIs and their templates, cursors and sealed states."""

from __future__ import annotations

import contextlib
import ipaddress
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from fuzzing import chance_of, ending, target, text_of
from inside_client import RootList
from inside_core import (
    EVENT_STREAM,
    JSON,
    BadCursor,
    CursorSeal,
    Headers,
    HostRules,
    InvalidMarks,
    Position,
    ProxyHeaders,
    ProxyRules,
    Sealer,
    StateRefused,
    UriMatcher,
    VariableRule,
    check_accept,
    check_content_type,
    check_handshake,
    check_request_headers,
    check_uri,
    decode_header_value,
    encode_header_value,
    error_in,
    h11_fields,
    header_marks,
    is_session_id,
    normalised,
    parse_retry_after,
    pct_decoded,
    pct_encoded,
    request_headers,
)
from inside_endpoint import _path_of as asgi_path_of
from inside_endpoint import read_head
from inside_http import HttpRequest, encode_head, parse_target, read_proxy
from inside_oauth import format_challenge, our_challenge, parse_challenges
from inside_parsers import answer_field, check_web_url, closes, framing_of, shown_url, wants_websocket
from inside_transports import parse_socket_url
from inside_wire import decode, is_array, is_object

from trio_mcp import HttpRefused, LocalProtocolError, RequestError, UriTemplate
from trio_mcp.types import Root

SUITE: Final = Path(__file__).parents[1] / "data" / "uritemplate"

# Header fields.


@target(
    "header values",
    ValueError,
    shape="text",
    tokens=("=?base64?", "?=", "=", "YQ==", "4pyT", "\u00e9", "\ud800", "\t", " ", "\x7f", "\r\n"),
    hard=("a", " ", "=", ("=?base64?", "YWFh", "?="), ("=?base64?", "=", "?="), "\u00e9"),
    seeds=lambda: ["plain", "=?base64?4pyT?=", "=?base64??=", " a", "a\tb", "\u00e9"],
)
def read_header_values(data: bytes) -> None:
    text = text_of(data)
    written = encode_header_value(text)
    assert written.isascii()
    assert written.isprintable() or "\t" in written
    assert len(written) <= 4 * len(data) + 16
    assert decode_header_value(written) == text.encode("utf-16-le", "surrogatepass").decode(
        "utf-16-le", "replace"
    )
    read = decode_header_value(text)
    assert decode_header_value(encode_header_value(read)) == read


@target(
    "mirrored arguments",
    InvalidMarks,
    LocalProtocolError,
    RecursionError,
    shape="json",
    tokens=("x-mcp-header", "properties", "type", "string", "integer", "boolean", "number", "items", "allOf", "$ref", "Region", "A B", "a", "b"),
    hard=(
        ('[{"properties":{', '"a":{"type":"string","x-mcp-header":"A"},', '"b":{}}},{}]'),
        ('[{"allOf":[', "{},", '{"x-mcp-header":"A"}]},{}]'),
        ('[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}},{"a":"', "\u00e9", '"}]'),
    ),
    seeds=lambda: [
        '[{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"integer","x-mcp-header":"C"}}}}},{"a":"\u00e9","b":{"c":5}}]',
        '[{"properties":{"a":{"type":"boolean","x-mcp-header":"A"},"b":{"type":"integer","x-mcp-header":"B"}}},{"a":true,"b":1.0}]',
    ],
)  # fmt: skip
def read_mirrored_arguments(data: bytes) -> None:
    try:
        given = decode(data)
    except ValueError:
        return
    if not is_array(given) or len(given) != 2 or not is_object(given[0]) or not is_object(given[1]):
        return
    marks = header_marks(given[0])
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    params = {"name": "t\u00e9", "arguments": given[1], "_meta": meta}
    fields = request_headers("tools/call", params, marks)
    # What a client mirrors, a server accepts; and nothing else for the same name.
    check_request_headers(Headers(fields), "tools/call", params, marks)
    for index, (name, value) in enumerate(fields):
        changed = [*fields[:index], (name, value + b"x"), *fields[index + 1 :]]
        assert (
            ending(partial(check_request_headers, Headers(changed), "tools/call", params, marks), RequestError)
            is RequestError
        )
    with contextlib.suppress(RequestError):
        check_request_headers(Headers(fields[:-1]), "tools/call", params, marks)


PROXY_HEADERS: Final[tuple[ProxyHeaders, ...]] = ("x-forwarded", "forwarded")
PROXIES: Final = [ProxyRules({"10.0.0.0/8", "::1"}, kind) for kind in PROXY_HEADERS]
HOSTS: Final = (HostRules(), HostRules(allowed_hosts={"*.example.com", "a:1"}), HostRules(allowed_hosts=None))
NAMES: Final = (
    "Host", "Origin", "Accept", "Content-Type", "Content-Encoding", "X-Forwarded-For", "X-Forwarded-Proto", "Forwarded",
    "Retry-After", "Connection", "Upgrade", "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Protocol",
    "Transfer-Encoding", "Content-Length", "WWW-Authenticate", "Mcp-Session-Id", "Authorization", "Mcp-Method", "Mcp-Name",
)  # fmt: skip


def _fields(data: bytes) -> list[tuple[bytes, bytes]]:
    pairs = (line.partition(b":") for line in data.split(b"\n"))
    return [(name, value) for name, _, value in pairs if name and value]


@target(
    "header fields",
    shape="text",
    tokens=(*(f"\n{name}: " for name in NAMES), "localhost:8000", "[::1]", "http://", "*/*", ";q=0", "application/json", "charset=",
            "for=", "proto=https", '"', "10.0.0.1", ", ", "websocket", "13", "Mon, 01 Jan 2026 00:00:00 GMT", "+9999", "mcp"),
    hard=(
        ("Host: ", "a.", ""), ("Origin: http://", "a", ""), ("Accept: ", "a/b;q=0,", ""), ("Content-Type: application/json", ";a=b", ""),
        ("X-Forwarded-For: ", "10.0.0.1,", ""), ("Forwarded: ", "for=10.0.0.1,", ""), ('Forwarded: for="', "\\", ""), ("Retry-After: ", "1 ", ""),
        ("Retry-After: Mon, ", "(", ""), ("Retry-After: ", "a,", ""), ("Connection: ", "a,", ""), "Host: a\n", ("WWW-Authenticate: ", 'a b="c",', ""),
    ),
    seeds=lambda: [
        "Host: localhost:8000\nOrigin: http://localhost\nAccept: application/json;q=1, text/event-stream\nContent-Type: application/json; charset=utf-8",
        "Host: a.example.com\nX-Forwarded-For: 1.2.3.4, 10.0.0.1\nX-Forwarded-Proto: https\nRetry-After: Mon, 01 Jan 2026 00:00:00 GMT",
        'Forwarded: for="[2001:db8::1]:80";proto=https, for=10.0.0.2\nRetry-After: 5\nContent-Length: 5',
        "Connection: keep-alive, Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Protocol: mcp",
    ],
)  # fmt: skip
def read_header_fields(data: bytes) -> None:
    headers = Headers(_fields(data))
    size = len(data)
    for rules in HOSTS:
        with contextlib.suppress(HttpRefused):
            rules.check(headers)
    for work in (
        lambda: check_content_type(headers),
        lambda: check_accept(headers, JSON, EVENT_STREAM),
        lambda: check_handshake(headers),
        lambda: check_request_headers(headers, "tools/call", {"name": "x", "arguments": {}}),
    ):
        try:
            work()
        except (HttpRefused, RequestError) as error:
            assert len(str(error)) < 1_000 + 8 * size
    for proxy in PROXIES:
        client, scheme = proxy.sender("10.0.0.1", "http", headers)
        assert client is not None
        ipaddress.ip_address(client)
        assert scheme in {"http", "https"}
    wait = parse_retry_after(headers.get("retry-after"), 1.8e9)
    assert wait is None or 0 <= wait < 1e9
    wants_websocket(headers)
    closes(headers)
    length = ending(lambda: framing_of(headers, is_one_one=True), ValueError)
    assert length in {None, "chunked", ValueError} or (isinstance(length, int) and length >= 0)
    is_session_id(headers.get("mcp-session-id") or "")
    shown = repr(headers)
    assert (
        all(
            value.strip() == b"" or len(value) < 8 or value.decode("latin-1") not in shown for _, value in headers
        )
        or len(shown) > 8
    )
    for name, value in headers:
        field = ending(partial(answer_field, name, value), ValueError)
        assert field is ValueError or (
            isinstance(field, tuple) and b"\r" not in field[1] and b"\n" not in field[1]
        )


@target(
    "challenges",
    shape="text",
    tokens=("Bearer ", "DPoP ", "Basic ", 'realm="', 'scope="a b"', "resource_metadata=", "error=", ", ", '"', "\\", "=", "abc==", "\t", "http://a/b"),
    hard=("a", "a ", "a=b,", 'a="', 'a="\\', ("Bearer ", "a=b,", ""), ("Bearer ", " ", "="), ",", ("Bearer ", "a", "="), "Bearer ", ('Bearer a="', "\\", '"')),
    seeds=lambda: [
        'Bearer resource_metadata="http://localhost/.well-known/oauth-protected-resource", scope="a b"',
        'DPoP algs="ES256", error="use_dpop_nonce", Bearer error="invalid_token", error_description="it \\"expired\\""',
        "Negotiate abc==, Bearer realm=x",
    ],
)  # fmt: skip
def read_challenges(data: bytes) -> None:
    fields = text_of(data).split("\n")
    found = parse_challenges(fields)
    assert sum(len(name) + len(value) for each in found for name, value in each.parameters.items()) <= len(data)
    ours = our_challenge(found)
    assert ours is None or ours.scheme in {"bearer", "dpop"}
    for each in found:
        written = format_challenge(each.scheme, each.parameters)
        assert written.isprintable()
        (again,) = parse_challenges([written])
        if all(value.isascii() and value.isprintable() for value in each.parameters.values()):
            assert again.parameters == each.parameters


@target(
    "errors in bodies",
    shape="json",
    tokens=("error", "code", "message", "data", "id", "jsonrpc"),
    hard=("[", '{"error":', ('{"error":{"code":1,"message":"', "a", '"}}')),
    seeds=lambda: [
        '{"error":{"code":-32600,"message":"no"}}',
        '{"jsonrpc":"2.0","id":null,"error":{"code":1.0,"data":[]}}',
    ],
)
def read_errors_in_bodies(data: bytes) -> None:
    error = error_in(data)
    assert error is None or isinstance(error.code, int)
    assert error is None or len(str(error)) <= 10_000


# URLs.

URL_TOKENS: Final = (
    "http://", "https://", "http+unix://", "ws://", "tcp://", "tls://", "unix:///", "%2F", "%25", "%00", "[::1]", "[fe80::1%25eth0]", ":8000",
    ":0", ":99999", "@", "user:pass@", "?", "#", "..", "//", "\\", "\u00e9", "\u3002", "xn--", "\u2100", "example.com", "\t", ";", "a" * 64,
)  # fmt: skip


@target(
    "urls",
    ValueError,
    shape="text",
    tokens=URL_TOKENS,
    hard=("a", ("http://", "a.", ""), ("http://", "\u00e9", ""), ("http://a/", "../", ""), ("http://a/", "%41", ""), ("http://[", ":", "]"), ("http://a?", "&a", ""), "@", ("http://", "[", "")),
    seeds=lambda: ["http://localhost:8000/mcp?a=b", "https://ex\u00e4mple.com/\u00e9?q=\u00e9#f", "http+unix://%2Frun%2Fmcp.sock/mcp", "http://[fe80::1%25eth0]:80/", "tcp://a:1", "unix:///run/x"],
)  # fmt: skip
def read_urls(data: bytes) -> None:
    text = text_of(data)
    shown = shown_url(text)
    assert shown.isprintable()
    assert "@" not in shown or "@" not in text
    for work in (parse_socket_url, read_proxy, check_web_url):
        with contextlib.suppress(ValueError):
            work(text)
    here = parse_target("https://example.com/a/b?c")
    with contextlib.suppress(ValueError):
        joined = here.join(text)
        assert joined.path.startswith("/")
    asgi_path_of({"path": text}, "/root")
    found = parse_target(text)
    assert parse_target(found.url) == found, found.url
    assert found.path.isascii()
    request = encode_head(HttpRequest(method="GET", target=found))
    # Our own server reads what our own client writes, and nothing else.
    head = read_head(request, h11_fields)
    assert head.target.decode() == found.path
    assert head.headers.get("host") == found.authority
    again = found.join("x/../y?z")
    assert (again.scheme, again.host, again.port) == (found.scheme, found.host, found.port)


@target(
    "uris",
    ValueError,
    shape="text",
    tokens=(
        "file:///",
        "a:",
        "%2e%2e",
        "%00",
        "%252e",
        "..",
        "/",
        "\\",
        "C:",
        "//",
        "?",
        "#",
        "[",
        "]",
        "%",
        "%zz",
        "\u00e9",
        "localhost",
        "~",
    ),
    hard=(
        "a",
        "%41",
        "%",
        "../",
        "a:",
        ("file:///", "a/", ""),
        ("a:", "%c3%a9", ""),
        ("a://", "[", ""),
        "%25",
        ("%", "25", "41"),
    ),
    seeds=lambda: ["file:///srv/a%20b.txt", "note://7?x=y#z", "a:%7e%2Fb", "file://localhost/C:/x", "..%2f%252e"],
)
def read_uris(data: bytes) -> None:
    text = text_of(data)
    normal = normalised(text)
    if ending(lambda: check_uri(text, max_length=1 << 20), ValueError) is None:
        assert normalised(normal) == normal
    decoded = ending(lambda: pct_decoded(text), ValueError)
    if decoded is not ValueError:
        assert isinstance(decoded, str)
        if text.isprintable():
            assert pct_decoded(pct_encoded(decoded)) == decoded
    if text.isascii():
        assert pct_encoded(pct_encoded(text, keep_reserved=True), keep_reserved=True) == pct_encoded(
            text, keep_reserved=True
        )
    rule = VariableRule(with_slashes=frozenset({"b"}), windows=chance_of(data).random() < 0.5)
    for name in ("a", "b"):
        safe = ending(partial(rule.check, {name: text}), ValueError) is None
        assert not safe or ("\0" not in text and ".." not in text.replace("\\", "/").split("/"))
    with contextlib.suppress(ValueError):
        path = Root(uri=text).path
        assert "\0" not in str(path)
    with contextlib.suppress(ValueError):
        RootList([text])
    check_uri(text, max_length=1 << 20)
    check_uri(normal, max_length=1 << 20)


# Templates.


def templates() -> Iterator[str]:
    for name in ("spec-examples.json", "extended-tests.json", "negative-tests.json"):
        for group in json.loads((SUITE / name).read_text(encoding="utf-8")).values():
            values: dict[str, Any] = {
                key: value for key, value in group["variables"].items() if type(value) in {str, int, list}
            }
            for template, _ in group["testcases"][::4]:
                yield json.dumps([template, {key: value for key, value in values.items() if key in template}])


@target(
    "uri templates",
    ValueError,
    TypeError,
    shape="json",
    tokens=("{a}", "{+b}", "{#c}", "{/d}", "{/d*}", "{.e}", "{?f,g*}", "{&h}", "{;i}", "{a:3}", "{", "}", "*", ":9999", "%41", "%", "?", "&", "#", "/", "x:", "a", "b", "'"),
    hard=(
        ('["x:', "{a}", '",{"a":"b"}]'), ('["x:', "{/a}", '",{"a":"b"}]'), ('["x:', "{a,", 'b}",{}]'), ('["x:{+a}", {"a":"', "%41", '"}]'), ('["', "a", '",{}]'),
        ('["x:{?a}",{"a":"', "\u00e9", '"}]'), ('["x:{/a*}",{"a":[', '"b",', '"c"]}]'),
    ),
    seeds=templates,
)  # fmt: skip
def read_uri_templates(data: bytes) -> None:
    try:
        given = decode(data)
    except (ValueError, RecursionError):
        return
    if not is_array(given) or len(given) != 2 or not isinstance(given[0], str) or not is_object(given[1]):
        return
    template, values = UriTemplate(given[0]), given[1]
    try:
        uri = template.expand(values)
    finally:
        matcher = UriMatcher(template)
    assert uri.isascii()
    found = matcher.match(uri)
    if found is None or "%" in str(found):  # what is not encoded further looks encoded
        return
    # What a server finds, it finds again where it writes the URI itself.
    again = template.expand(found)
    assert matcher.match(again) == found, again
    assert matcher.match(normalised(uri)) == found


@target(
    "uris of templates",
    shape="text",
    tokens=("a:", "/", "?", "&", "=", "q=", "r=", "%2F", "%", "%41", "#", ",", "x", "b=c", "\u00e9", ".."),
    hard=(
        ("a:", "a/", ""),
        ("a:x/y?", "q=1&", ""),
        ("a:/x?b=c&", "d=1&", ""),
        ("a:", "%41", ""),
        ("a:", "%", ""),
        "/",
    ),
    seeds=lambda: ["a:x/y/z", "a:x/y?q=1&r=2&r=3", "a:/p/q/r", "a:abcde", "a:/x?b=c&d=e#f"],
)
def read_uris_of_templates(data: bytes) -> None:
    for template, matcher in MATCHERS:
        found = matcher.match(text_of(data))
        if found is not None:
            assert "%" in str(found) or matcher.match(template.expand(found)) == found
            assert sum(len(each) for each in found.values()) <= len(data)


_TEMPLATES: Final = (
    "a:{+path}/{name}",
    "a:{x}/{y}{?q,r*}",
    "a:{/p*}",
    "a:{x:5}",
    "a:/x?b=c{&d*}{#f}",
    "a:{x}/{+z}",
)
MATCHERS: Final = [(each, UriMatcher(each)) for each in map(UriTemplate, _TEMPLATES)]


# What a client keeps for a server.

CURSORS: Final = CursorSeal(bytes(16))
SEALER: Final = Sealer([bytes(32), bytes([1]) * 32])


@target(
    "cursors",
    BadCursor,
    shape="text",
    tokens=("=", "-", "_", "+", "/", "AAAA", "\u00e9", "\n", ":", "\ud800"),
    hard=("A", "=", "\u00e9"),
    seeds=lambda: [
        "",
        "AAAA",
        CURSORS.seal("tools/list", Position("ab", 3, "name")),
        CURSORS.seal("tools/list", Position("", 0, "\ud800:")),
    ],
)
def read_cursors(data: bytes) -> None:
    text = text_of(data)
    chance = chance_of(data)
    position = Position("0f", chance.randrange(1 << 40), text)
    sealed = CURSORS.seal("tools/list", position)
    assert CURSORS.open("tools/list", sealed) == position
    at = chance.randrange(len(sealed))
    wrong = sealed[:at] + chance.choice("AB-_=+/\u00e9") + sealed[at + 1 :]
    if wrong != sealed:
        assert ending(lambda: CURSORS.open("tools/list", wrong), BadCursor) is BadCursor
    assert ending(lambda: CURSORS.open("prompts/list", sealed), BadCursor) is BadCursor
    read = CURSORS.open("tools/list", text)
    assert CURSORS.seal("tools/list", read) == text


@target(
    "states",
    StateRefused,
    tokens=("1.", "2.", "A", "-", "_", "=", "AAAA"),
    hard=(("1.", "A", ""), ("1.", "=", ""), "A"),
    seeds=lambda: ["", "1.", "1." + "A" * 64, SEALER.seal(b"payload", binding=b"b", now=0, ttl=10)],
)
def read_states(data: bytes) -> None:
    chance = chance_of(data)
    sealed = SEALER.seal(data, binding=b"here", now=100.0, ttl=5)
    assert SEALER.open(sealed, binding=b"here", now=104.9) == data
    at = chance.randrange(2, len(sealed))
    wrong = sealed[:at] + chance.choice("AB-_=") + sealed[at + 1 :]
    for state, binding, now in ((wrong, b"here", 100.0), (sealed, b"there", 100.0), (sealed, b"here", 105.0)):
        if state != sealed or (binding, now) != (b"here", 100.0):
            assert ending(partial(SEALER.open, state, binding=binding, now=now), StateRefused) is StateRefused
    SEALER.open(text_of(data), binding=b"b", now=0)
