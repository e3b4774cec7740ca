"""Requests as they are sent: what a server reads in them, and that nobody can slip anything in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_core import HeaderField, HeaderMark, request_headers
from inside_http import HttpRequest, HttpTarget, encode_head, parse_target
from inside_transports import headers_from

from trio_mcp import ConnectionLost, HttpServerParameters, LocalProtocolError

TARGET = parse_target("http://localhost:8000/mcp?a=b")
BREAKS = ["a\r\nEvil: yes", "a\nEvil: yes", "a\rEvil: yes", "a\0b", "a\r\n\r\nGET /evil HTTP/1.1\r\nHost: x"]


def read(data: bytes) -> tuple[h11.Request, bytes, bytes]:
    """Return the request that h11 reads, its body, and what is behind it."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    request, body = connection.next_event(), b""
    assert isinstance(request, h11.Request)
    while not isinstance(event := connection.next_event(), h11.EndOfMessage):
        assert isinstance(event, h11.Data)
        body += event.data
    return request, body, connection.trailing_data[0]


def encode_request(request: HttpRequest, through_proxy: Sequence[HeaderField] | None = None) -> bytes:
    return encode_head(request, through_proxy) + request.body


def post(*headers: HeaderField, target: HttpTarget = TARGET, body: bytes = b"{}") -> HttpRequest:
    return HttpRequest(method="POST", target=target, headers=headers, body=body)


def test_a_request_is_what_was_asked() -> None:
    """With what every request says, and what the caller says in place of that."""
    request, body, rest = read(
        encode_request(post((b"X-8", b"\xe9 \t!"), (b"X-Empty", b""), (b"X", b"1"), (b"x", b"2")))
    )
    assert (request.method, request.target, body, rest) == (b"POST", b"/mcp?a=b", b"{}", b"")
    headers = [(name, value) for name, value in request.headers if name != b"user-agent"]
    assert sorted(headers) == sorted(
        [
            (b"host", b"localhost:8000"),
            (b"x-8", b"\xe9 \t!"),
            (b"x-empty", b""),
            (b"x", b"1"),
            (b"x", b"2"),
            (b"accept-encoding", b"identity"),
            (b"content-length", b"2"),
        ]
    )
    mine = dict(read(encode_request(post((b"User-Agent", b"mine"), (b"accept-encoding", b"*"))))[0].headers)
    assert (mine[b"user-agent"], mine[b"accept-encoding"]) == (b"mine", b"*")


def test_only_what_has_a_body_has_a_length() -> None:
    """RFC 9110, section 8.6."""
    rows: list[tuple[str, bytes | None]] = [("POST", b"0"), ("GET", None), ("DELETE", None)]
    for method, length in rows:
        request, _, _ = read(encode_request(HttpRequest(method=method, target=TARGET)))
        assert dict(request.headers).get(b"content-length") == length


def test_a_proxy_is_sent_the_whole_url() -> None:
    request, _, _ = read(encode_request(post(), [(b"Proxy-Authorization", b"Basic x")]))
    assert request.target == b"http://localhost:8000/mcp?a=b"
    assert (b"proxy-authorization", b"Basic x") in list(request.headers)


def test_nothing_can_be_slipped_in(subtests: pytest.Subtests) -> None:
    """Wherever it comes from: this is the last one to look. The error does not show values."""
    for place in ("name", "value", "method", "path", "host", "proxy"):
        for text in BREAKS:
            with subtests.test(place=place, text=text):
                slip_in(text, place)


def slip_in(text: str, place: str) -> None:
    """Put the text into this place of a request."""
    request, through_proxy = post(), None
    match place:
        case "name":
            request = post((text.encode(), b"x"))
        case "value":
            request = post((b"X", b"secret " + text.encode()))
        case "method":
            request = attrs.evolve(request, method=text)
        case "path":
            request = post(target=attrs.evolve(TARGET, path=f"/{text}"))
        case "host":
            request = post(target=attrs.evolve(TARGET, host=text))
        case _:
            through_proxy = [(b"Proxy-Authorization", text.encode())]
    with pytest.raises(LocalProtocolError) as caught:
        encode_request(request, through_proxy)
    assert "secret" not in str(caught.value)


def test_what_frames_a_request_is_not_said_twice(subtests: pytest.Subtests) -> None:
    rows: list[bytes] = [
        b"Host",
        b"content-length",
        b"Transfer-Encoding",
        b"CONNECTION",
        b"Upgrade",
        b"",
        b"a b",
        b"a:",
        b"\xe9",
    ]
    for name in rows:
        with subtests.test(name=name), pytest.raises(LocalProtocolError):
            encode_request(post((name, b"1")))


def test_values_are_what_servers_read(subtests: pytest.Subtests) -> None:
    """RFC 9110, section 5.5: blanks around them would be lost."""
    for value in (b" a", b"a ", b"\ta", b" ", b"\x7f", b"a\x0bb"):
        with subtests.test(value=value), pytest.raises(LocalProtocolError):
            encode_request(post((b"X", value)))


FIELDS = st.lists(
    st.tuples(
        st.one_of(st.sampled_from([b"X", b"Y-z"]), st.binary(max_size=4)),
        st.one_of(st.sampled_from([b"", b"a", b"a\r\nB: c", b"a\r\n", b"\r\n"]), st.binary(max_size=6)),
    ),
    max_size=4,
)


@given(FIELDS)
def test_what_is_sent_is_read_as_it_was_said(fields: list[HeaderField]) -> None:
    """Or is not sent."""
    try:
        data = encode_request(post(*fields))
    except LocalProtocolError:
        return
    request, body, rest = read(data)
    said = [(name.lower(), value) for name, value in fields]
    ours = (b"host", b"user-agent", b"accept-encoding", b"content-length")
    assert [field for field in request.headers if field[0] not in ours or field in said] == said
    assert (body, rest) == (b"{}", b"")


# What users say, on its way here.


async def test_headers_of_the_user_slip_nothing_in(subtests: pytest.Subtests) -> None:
    """At once if they are constant, else with the request that they were made for."""
    for text in BREAKS:
        with subtests.test(text=text):
            await give_in_headers(text)


async def give_in_headers(text: str) -> None:
    """Give the text in a name, in a value and in a URL."""
    for headers in ({"X": text}, {text: "x"}):
        with pytest.raises(ValueError, match=r"header"):
            HttpServerParameters("http://localhost/", headers=headers)
        with pytest.raises(ConnectionLost):
            await headers_from(lambda headers=headers: headers)  # type: ignore[misc]
    with pytest.raises(ValueError, match=r"URL"):
        HttpServerParameters(f"http://localhost/{text}")


def test_names_and_arguments_slip_nothing_in(subtests: pytest.Subtests) -> None:
    """Names of tools, URIs and marked arguments may be any text (2026-07-28, "Value Encoding")."""
    rows: list[str] = [*BREAKS, "é", " a", ""]
    for text in rows:
        with subtests.test(text=text):
            params: dict[str, Any] = {"name": text, "arguments": {"place": text}}
            mark = HeaderMark("Place", ("place",))
            request, body, rest = read(encode_request(post(*request_headers("tools/call", params, [mark]))))
            assert (body, rest) == (b"{}", b"")
            names = {name for name, _ in request.headers}
            assert names >= {b"mcp-method", b"mcp-name", b"mcp-param-place"}
            assert b"evil" not in names


def test_methods_and_revisions_slip_nothing_in(subtests: pytest.Subtests) -> None:
    for text in BREAKS:
        with subtests.test(text=text):
            with pytest.raises(LocalProtocolError):
                request_headers(text, {})
            meta = {"io.modelcontextprotocol/protocolVersion": text}
            with pytest.raises(LocalProtocolError):
                request_headers("tools/list", {"_meta": meta})
