"""Whatever reads what others send takes at most about twice the time for twice the size.

Each reader gets the texts that are hard for readers of its kind, and the same eight times as long: sixteen times
the time is more than in proportion, and sixty-four is what the square of it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, unquote

import pytest
import trio
import trio.testing
from inside_core import (
    EVENT_STREAM,
    JSON,
    ChunkedReader,
    CursorSeal,
    HeaderField,
    HeaderMark,
    Headers,
    HostRules,
    LineReader,
    ProxyHeaders,
    ProxyRules,
    ReadFields,
    SseReader,
    UriMatcher,
    check_accept,
    check_content_type,
    check_request_headers,
    check_uri,
    decode_header_value,
    error_in,
    form_problems,
    h11_fields,
    httptools_fields,
    is_session_id,
    normalised,
    parse_retry_after,
    pct_decoded,
    pct_encoded,
)
from inside_core import forms_module as _forms
from inside_endpoint import RequestBuffer, read_head
from inside_endpoint import _path_of as asgi_path_of
from inside_http import Dialer, ResponseReader, parse_target, read_proxy
from inside_parsers import check_tool_results
from inside_transports import HandshakeAnswer
from inside_wire import answered_id_of_fragment, from_wire
from inside_wire import json_module as _json
from processor_time import costs_of

from trio_mcp import ConnectionLost, HttpRefused, HttpSettings, RemoteProtocolError, RequestError, UriTemplate
from trio_mcp.types import RequestedSchema, SamplingMessage, ToolResultContent, ToolUseContent

Read: TypeAlias = Callable[[str], object]

SIZE: Final = 2_048
TIMES: Final = 8
BOUND: Final = 16
SHORT: Final = 5e-5
"""Seconds. What takes less than this for the smaller size is not compared with less: it says nothing."""

UNITS: Final = (
    ".", "a.", "..", "/../", ",", "a,", ", ", ";", "a;", "; ", "a=b;", "=", "&a=", "?&", '"', '\\"', "\\", " ", "\t",
    " a", "%", "%41", "%zz", "[", ":", "::", "@", "/", "#", "1", "0.", "-", "+", "{", "\xe9", "q=0,", "10.0.0.1,",
    "for=1,", 'for="a",', "chunked, ", "close,", "a",
)  # fmt: skip


def fields(*pairs: tuple[str, str]) -> Headers:
    return Headers([(name.encode(), value.encode("latin-1", "replace")) for name, value in pairs])


def many(name: str, value: str, size: int) -> Headers:
    """Return so many bytes of one field, again and again."""
    field: HeaderField = (name.encode(), value.encode())
    return Headers([field] * (size // sum(map(len, field))))


def of_request(name: str) -> Callable[[str], Headers]:
    return lambda text: fields(("Mcp-Method", "tools/call"), ("Mcp-Name", "x"), (name, text))


def host_of(rules: HostRules) -> Read:
    return lambda text: rules.check(fields(("Host", text), ("Origin", f"http://{text}")))


def origin_of(rules: HostRules) -> Read:
    return lambda text: rules.check(fields(("Host", "localhost"), ("Origin", text)))


MARKS: Final = (HeaderMark("N", ("n",)),)
CALL: Final = {"name": "x", "arguments": {"n": 5}}
HOSTS: Final = {
    "local": HostRules(),
    "below a name": HostRules(allowed_hosts={"*.example.com", "*.example.com:8000"}),
    "any": HostRules(allowed_hosts=None),
}
PROXY_HEADERS: Final[tuple[ProxyHeaders, ...]] = ("x-forwarded", "forwarded")
PROXIES: Final = {kind: ProxyRules({"10.0.0.0/8"}, kind) for kind in PROXY_HEADERS}
TEMPLATES: Final = [
    UriMatcher(UriTemplate(text))
    for text in ("a:{+path}/{name}", "a:{x}/{y}{?q,r*}", "a:{/p*}", "a:{x:5}", "a:/x?b=c{&d*}{#f}")
]
HERE: Final = parse_target("https://example.com/mcp")
SEAL: Final = CursorSeal(bytes(16))

TEXTS: Final[dict[str, Read]] = {
    **{f"Host, where {name} is let in": host_of(rules) for name, rules in HOSTS.items()},
    **{f"Origin, where {name} is let in": origin_of(rules) for name, rules in HOSTS.items()},
    "Content-Type": lambda text: check_content_type(fields(("Content-Type", text))),
    "its parameters": lambda text: check_content_type(fields(("Content-Type", f"{JSON};{text}"))),
    "Accept": lambda text: check_accept(fields(("Accept", text)), JSON, EVENT_STREAM),
    "its weights": lambda text: check_accept(fields(("Accept", f"{JSON};{text}")), JSON, EVENT_STREAM),
    "Mcp-Method": lambda text: check_request_headers(of_request("Mcp-Method")(text), "x", None),
    "Mcp-Name": lambda text: check_request_headers(
        fields(("Mcp-Method", "tools/call"), ("Mcp-Name", text)), "tools/call", {"name": text}
    ),
    "Mcp-Param": lambda text: check_request_headers(of_request("Mcp-Param-N")(text), "tools/call", CALL, MARKS),
    "an encoded value": lambda text: decode_header_value(f"=?base64?{text}?="),
    "a session's id": is_session_id,
    "X-Forwarded-For": lambda text: PROXIES["x-forwarded"].sender(
        "10.0.0.1", "http", fields(("X-Forwarded-For", text), ("X-Forwarded-Proto", text))
    ),
    "Forwarded": lambda text: PROXIES["forwarded"].sender("10.0.0.1", "http", fields(("Forwarded", text))),
    "an address in it": lambda text: PROXIES["forwarded"].sender(
        "10.0.0.1", "http", fields(("Forwarded", f'for="{text}'))
    ),
    "a path": unquote,
    "a path of ASGI": lambda text: asgi_path_of({"path": f"http://{text}"}, "/root"),
    "a query": parse_qs,
    "a URI": lambda text: check_uri(f"a:{text}", max_length=1 << 20),
    "a URI with a host": lambda text: check_uri(f"a://{text}", max_length=1 << 20),
    "how a URI is spelled": normalised,
    "what is encoded": pct_decoded,
    "what is to be encoded": lambda text: pct_encoded(text, keep_reserved=True),
    "a template": UriTemplate,
    "a URI of a template": lambda text: [each.match(f"a:{text}") for each in TEMPLATES],
    "the query of one": lambda text: [each.match(f"a:x/y?{text}") for each in TEMPLATES],
    "more of the query of one": lambda text: [each.match(f"a:/x?b=c&{text}") for each in TEMPLATES],
    "Retry-After": lambda text: parse_retry_after(text, 0),
    "a date in it": lambda text: parse_retry_after(f"Mon, {text}", 0),
    "a URL": lambda text: parse_target(f"http://{text}"),
    "Location": HERE.join,
    "the error in a body": lambda text: error_in(text.encode()),
    "JSON": lambda text: _json.decode(text.encode()),
    "JSON, by the standard library": lambda text: _json.stdlib_decode(text.encode()),
    "what may be JSON": lambda text: answered_id_of_fragment(text.encode()),
    "a cursor": lambda text: SEAL.open("tools/list", text),
    "an address in a form": _forms._is_email,
    "a URI in a form": _forms._is_uri,
    "a time in a form": lambda text: _forms._is_date_time(f"2026-07-28T12:30:00.{text}Z"),
}


def in_place(place: bytes, read_fields: ReadFields) -> Read:
    """Read a head of a request with a text in some place."""
    return lambda text: read_head(place % text.encode("latin-1"), read_fields)


def answered_with(place: bytes, read_fields: ReadFields, step: int = 1 << 20) -> Read:
    """Read a head of a response with a text in some place, so many bytes at a time."""

    def read(text: str) -> None:
        reader = ResponseReader("a server", 1 << 20, read_fields)
        reader.begin("GET")
        data = place % text.encode("latin-1")
        for at in range(0, len(data), step):
            reader.feed(data[at : at + step])

    return read


REQUESTS: Final = (
    b"POST /%b HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST http://%b HTTP/1.1\r\nHost: x\r\n\r\n",
    b"%b / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\n%b: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nX: %b\x01\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nConnection: %b\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %b\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: %b\r\n\r\n",
)
RESPONSES: Final = (
    b"HTTP/1.1 200 %b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: %b\x01\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: %b\r\n\r\n",
)
PARSERS: Final = {"h11": h11_fields, "httptools": httptools_fields()}


def heads(read_fields: ReadFields) -> dict[str, Read]:
    """Return what reads the head of a request or of a response, by what it looks like."""
    requests = {repr(place.decode()): in_place(place, read_fields) for place in REQUESTS}
    return requests | {repr(place.decode()): answered_with(place, read_fields) for place in RESPONSES}


def check(small: Callable[[], object], large: Callable[[], object], what: str) -> None:
    once, more = costs_of(small, large, times=1)
    if more >= BOUND * max(once, SHORT):  # look closer, for something else may have been in the way
        once, more = costs_of(small, large)
    assert more < BOUND * max(once, SHORT), (
        f"{what}: {once * 1e3:.2f} ms, and {more * 1e3:.2f} ms for {TIMES} times as much"
    )


def refused(read: Read, text: str) -> Callable[[], object]:
    def work() -> None:
        with suppress(ValueError, HttpRefused, RequestError, RemoteProtocolError, RecursionError):
            read(text)

    return work


@pytest.mark.parametrize(
    "readers", [TEXTS, *(heads(parser) for parser in PARSERS.values())], ids=["texts", *PARSERS]
)
def test_a_long_text_takes_its_size(readers: dict[str, Read], subtests: pytest.Subtests) -> None:
    """31 KB of dots in `Host` took seconds, before anybody was asked who they are."""
    for what, read in readers.items():
        with subtests.test(what):
            for unit, (before, behind) in product(UNITS, (("", ""), ("a", "!"), ('"', ""))):
                small, large = (before + unit * (size // len(unit)) + behind for size in (SIZE, SIZE * TIMES))
                check(refused(read, small), refused(read, large), repr(before + unit + behind))


MANY: Final[dict[str, Callable[[int], object]]] = {
    "Origin fields": lambda size: HostRules(allowed_hosts=None).check(
        Headers([(b"Host", b"a" * size), *many("Origin", "http://localhost", size)])
    ),
    "X-Forwarded-For fields": lambda size: PROXIES["x-forwarded"].sender(
        "10.0.0.1", "http", many("X-Forwarded-For", "10.0.0.1", size)
    ),
    "Forwarded fields": lambda size: PROXIES["forwarded"].sender(
        "10.0.0.1", "http", many("Forwarded", "for=10.0.0.1", size)
    ),
    "Accept fields": lambda size: check_accept(many("Accept", "text/plain;q=0", size), JSON, EVENT_STREAM),
}


@pytest.mark.parametrize("what", MANY)
def test_many_fields_take_their_number(what: str) -> None:
    """The same for one long text in many."""

    def reading(size: int) -> Callable[[], object]:
        return refused(lambda _: MANY[what](size), "")

    check(reading(SIZE * 4), reading(SIZE * 4 * TIMES), what)


@pytest.mark.parametrize("titled", [False, True])
def test_what_was_chosen_of_many_takes_its_number(titled: bool) -> None:
    """Each was looked for among all options: a form of 20,000 held a client for three seconds."""

    def filling(number: int) -> Callable[[], object]:
        options = [str(n) for n in range(number)]
        items = {"anyOf": [{"const": one, "title": one} for one in options]} if titled else {"enum": options}
        field = {"type": "array", "items": items if titled else {"type": "string", **items}}
        form = from_wire({"type": "object", "properties": {"it": field}}, RequestedSchema)
        assert form_problems(form, {"it": options}) == ()
        return lambda: form_problems(form, {"it": options})

    check(filling(1_000), filling(1_000 * TIMES), "choices")


@pytest.mark.parametrize("answered", ["all but one", "none", "others"])
def test_a_conversation_with_many_tools_takes_their_number(answered: str) -> None:
    """Each use was looked for among all results."""

    def conversation(number: int) -> list[SamplingMessage]:
        uses = [ToolUseContent(id=f"a{n}", name="x", input={}) for n in range(number)]
        ids = (
            []
            if answered == "none"
            else [f"{'a' if answered == 'all but one' else 'b'}{n}" for n in range(number - 1)]
        )
        results = [ToolResultContent(tool_use_id=id, content=()) for id in ids]
        return [SamplingMessage(role="assistant", content=uses), SamplingMessage(role="user", content=results)]

    def checking(number: int) -> Callable[[], object]:
        messages = conversation(number)
        return refused(lambda _: check_tool_results(messages), "")

    with pytest.raises(ValueError, match=r"messages\[1\]: results are missing for tool uses a"):
        check_tool_results(conversation(3))
    check(checking(500), checking(500 * TIMES), answered)


@pytest.mark.parametrize("what", ["Host", "X-1", "Y"])
def test_asking_for_a_field_costs_what_is_there_of_it(what: str) -> None:
    """However many fields a head has, all of them are looked through once and not for each name that is asked for."""

    def asking(number: int) -> Callable[[], object]:
        headers = Headers([(b"Host", b"x"), *((b"X-%d" % (i // 2), b"x") for i in range(number))])
        assert headers.get("X-1") == "x, x"
        return lambda: [headers.get(what) for _ in range(200)]

    once, more = costs_of(asking(100), asking(800))
    assert more < 4 * once


class Heads:
    """The heads of requests, looked for whenever something comes."""

    def __init__(self) -> None:
        self._buffer = RequestBuffer(1 << 20)

    def feed(self, data: bytes) -> None:
        self._buffer.add(data)
        self._buffer.take_head(b"")


LINES: Final[dict[str, Callable[[int], tuple[Callable[[bytes], object], bytes]]]] = {}
"""What is read piece by piece: by what, and so many bytes of it."""


def _add(name: str, make: Callable[[], Any], unit: bytes, before: bytes = b"") -> None:
    LINES[name] = lambda size: (make().feed, before + unit * (size // len(unit)))


for _unit in (
    b"a",
    b"\n",
    b"\r",
    b"a\n",
    b":",
    b"data:a\n",
    b"data:a\n\n",
    b"data: \r",
    b"id: a\n",
    b"retry: 1\n",
    b" ",
):
    for _before in (b"", b"data: ", b"id: ", b":"):
        _add(f"SSE {_before!r} {_unit!r}", lambda: SseReader(SIZE * 2), _unit, _before)
for _unit in (b"a", b"\n", b"a\n", b"\r\n", b" "):
    _add(f"lines {_unit!r}", lambda: LineReader(SIZE * 2), _unit)
for _unit in (b"a", b"\r\n\r", b"X: y\r\n"):
    _add(
        f"the answer to a handshake {_unit!r}",
        lambda: HandshakeAnswer("a server", 1 << 20),
        _unit,
        b"HTTP/1.1 101 ",
    )
for _unit in (b"a", b" ", b"\r", b"\n", b"X: y\r\n", b"\r\n\r"):
    _add(f"the head of a request {_unit!r}", Heads, _unit, b"POST / HTTP/1.1\r\n")
_add("chunks", ChunkedReader, b"1\r\nx\r\n")
_add("chunks with extensions", ChunkedReader, b"1;" + b"x" * 900 + b"\r\nx\r\n")
_add("a large chunk", ChunkedReader, b"a", b"ffffff\r\n")
_add("trailer fields", lambda: ChunkedReader(of_response=True), b"X: y\r\n", b"0\r\n")


@pytest.mark.parametrize("step", [1, 7, 1 << 20], ids=lambda step: f"{step} at a time")
def test_a_stream_takes_its_size(step: int, subtests: pytest.Subtests) -> None:
    """However it is cut: nothing that was searched is searched again."""

    def reading(what: str, size: int) -> Callable[[], object]:
        def read(_: str) -> None:
            feed, data = LINES[what](size)
            for at in range(0, len(data), step):
                feed(data[at : at + step])

        return refused(read, "")

    for what in LINES:
        with subtests.test(what):
            check(reading(what, SIZE), reading(what, SIZE * TIMES), what)


@pytest.mark.parametrize("parser", ["h11", "httptools"])
@pytest.mark.parametrize("place", RESPONSES)
def test_the_head_of_a_response_that_comes_byte_by_byte_takes_its_size(place: bytes, parser: str) -> None:
    """Its end is not looked for again where it was not."""
    read = answered_with(place, PARSERS[parser], step=1)
    for unit in ("a", " ", "\r", ","):
        small, large = (unit * size for size in (SIZE, SIZE * TIMES))
        check(refused(read, small), refused(read, large), unit)


@pytest.mark.parametrize("parser", ["h11", "httptools"])
def test_many_fields_of_a_head_take_their_number(parser: str) -> None:
    """Of a request and of a response."""
    read_fields = PARSERS[parser]

    def reading(field: bytes, size: int) -> Callable[[], object]:
        lines = field * (size // len(field)) + b"\r\n"

        def read(_: str) -> None:
            with suppress(HttpRefused):
                read_head(b"POST / HTTP/1.1\r\n" + lines, read_fields)
            list(read_fields(lines))

        return refused(read, "")

    for field in (b"X: y\r\n", b"X:\r\n", b"Host: x\r\n", b"Content-Length: 5\r\n", b"X: y\r\n z\r\n"):
        check(reading(field, SIZE), reading(field, SIZE * TIMES), field.decode())


@pytest.mark.parametrize("parser", PARSERS)
def test_the_answer_of_a_proxy_takes_its_size(parser: str) -> None:
    """64 KB of blanks in it took 17 seconds."""
    proxy = read_proxy("http://127.0.0.1")
    dialer = Dialer(HttpSettings(max_head_bytes=1 << 20), PARSERS[parser])

    async def ask(answer: bytes) -> None:
        stream, far = trio.testing.memory_stream_pair()
        await far.send_all(answer)
        await far.send_eof()
        with pytest.raises(ConnectionLost):
            await dialer.open_tunnel(stream, proxy, HERE)

    def reading(size: int) -> Callable[[], object]:
        return lambda: trio.run(ask, b"HTTP/1.1 200 OK\r\nX: " + b" " * size + b"\0\r\n\r\n")

    check(reading(SIZE), reading(SIZE * TIMES), parser)
