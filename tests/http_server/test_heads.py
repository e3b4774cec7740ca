"""The heads of requests, read by each parser: the same is taken and refused, and no less than h11 refuses."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import HttpRefused
from trio_mcp._core._http_heads import ReadFields, h11_fields, httptools_fields
from trio_mcp._hosts._heads import RequestHead, read_head

PARSERS = {"h11": h11_fields, "httptools": httptools_fields()}


@pytest.fixture(params=PARSERS)
def read_fields(request: pytest.FixtureRequest) -> ReadFields:
    return PARSERS[request.param]


def head(*fields: bytes, line: bytes = b"POST /mcp?a=b HTTP/1.1") -> bytes:
    return b"\r\n".join([line, *fields]) + b"\r\n\r\n"


HOST = b"Host: localhost"


def test_what_a_head_says(read_fields: ReadFields) -> None:
    """All of it, whatever the case of names."""
    data = head(HOST, b"cOnTent-lEngth:  12 \t", b"X-Empty:", b"X-Twice: 1", b"x-twice:2", b"X-8: \xe9")
    read = read_head(data, read_fields)
    assert (read.method, read.target, read.length) == ("POST", b"/mcp?a=b", 12)
    assert (read.is_one_one, read.keeps_alive, read.expects_continue) == (True, True, False)
    assert read.headers.get("Content-Length") == "12"
    assert read.headers.get("x-empty") == ""
    assert read.headers.get("X-Twice") == "1, 2"
    assert read.headers.get("x-8") == "\xe9"


@pytest.mark.parametrize(
    ("data", "keeps_alive"),
    [
        (head(HOST, b"Connection: keep-alive"), True),
        (head(HOST, b"Connection: x, Close"), False),
        (head(HOST, b"Connection: x", b"connection: close"), False),
        (head(HOST, b"Connection: Upgrade", b"Upgrade: h2c"), True),
        (head(HOST, b"Connection: closed"), True),
        (head(HOST, line=b"POST / HTTP/1.0"), False),
        (head(line=b"POST / HTTP/1.0"), False),
        (head(HOST, b"Connection: keep-alive", line=b"POST / HTTP/1.0"), False),
    ],
)
def test_whether_another_request_may_follow(data: bytes, read_fields: ReadFields, *, keeps_alive: bool) -> None:
    """RFC 9112, section 9.3; 1.0 never, which is always allowed."""
    assert read_head(data, read_fields).keeps_alive is keeps_alive


def test_the_body_in_chunks_and_the_one_that_waits(read_fields: ReadFields) -> None:
    """RFC 9112, section 6.1; RFC 9110, section 10.1.1."""
    assert read_head(head(HOST, b"Transfer-Encoding: Chunked"), read_fields).length is None
    assert read_head(head(HOST, b"Expect: 100-Continue"), read_fields).expects_continue


REFUSED = {
    "both lengths": (head(HOST, b"Content-Length: 5", b"Transfer-Encoding: chunked"), 400),
    "both lengths, in the other order": (head(HOST, b"Transfer-Encoding: chunked", b"Content-Length: 5"), 400),
    "two lengths": (head(HOST, b"Content-Length: 5", b"Content-Length: 6"), 400),
    "one length twice": (head(HOST, b"Content-Length: 5", b"Content-Length: 5"), 400),
    "a list of lengths": (head(HOST, b"Content-Length: 5, 5"), 400),
    "a signed length": (head(HOST, b"Content-Length: +5"), 400),
    "a negative length": (head(HOST, b"Content-Length: -1"), 400),
    "no length": (head(HOST, b"Content-Length:"), 400),
    "a length of words": (head(HOST, b"Content-Length: 0x5"), 400),
    "a length with a blank": (head(HOST, b"Content-Length: 1 2"), 400),
    "a length with an underscore": (head(HOST, b"Content-Length: 1_0"), 400),
    "a length of foreign digits": (head(HOST, b"Content-Length: \xb2"), 400),
    "an endless length": (head(HOST, b"Content-Length: 99999999999999999999999999"), 400),
    "two codings": (head(HOST, b"Transfer-Encoding: gzip, chunked"), 400),
    "a coding that is not chunked": (head(HOST, b"Transfer-Encoding: identity"), 400),
    "chunked twice": (head(HOST, b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), 400),
    "chunked before identity": (head(HOST, b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"), 400),
    "a coding that is nearly chunked": (head(HOST, b"Transfer-Encoding: xchunked"), 400),
    "an empty coding": (head(HOST, b"Transfer-Encoding:"), 400),
    "chunked in HTTP/1.0": (head(HOST, b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.0"), 400),
    "a blank before the colon": (head(HOST, b"Content-Length : 5"), 400),
    "a tab before the colon": (head(HOST, b"Transfer-Encoding\t: chunked"), 400),
    "no colon": (head(HOST, b"Content-Length 5"), 400),
    "no name": (head(HOST, b": 5"), 400),
    "a name that is no token": (head(HOST, b"Content(Length): 5"), 400),
    "a name that is not ASCII": (head(HOST, b"X-\xc3\xa9: 5"), 400),
    "obs-fold": (head(HOST, b"X: a", b" b: c"), 400),
    "obs-fold with a tab": (head(HOST, b"X: a", b"\tTransfer-Encoding: chunked"), 400),
    "obs-fold at the beginning": (head(b" Host: localhost"), 400),
    "a bare LF": (b"POST / HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", 400),
    "a bare LF behind the request line": (b"POST / HTTP/1.1\nHost: localhost\r\n\r\n", 400),
    "a hidden head": (head(HOST, b"X: a\n\nGET / HTTP/1.1"), 400),
    "a bare CR": (head(HOST, b"X: a\rContent-Length: 5"), 400),
    "two CRs": (head(HOST, b"X: a\r"), 400),
    "NUL in a value": (head(HOST, b"X: a\x00b"), 400),
    "a control character in a value": (head(HOST, b"X: a\x01b"), 400),
    "DEL in a value": (head(HOST, b"X: a\x7fb"), 400),
    "a vertical tab": (head(HOST, b"Transfer-Encoding:\x0bchunked"), 400),
    "no Host": (head(), 400),
    "two Hosts": (head(HOST, b"Host: localhost"), 400),
    "two Hosts in HTTP/1.0": (head(HOST, b"Host: evil", line=b"POST / HTTP/1.0"), 400),
    "a method that is no token": (head(HOST, line=b"P(ST / HTTP/1.1"), 400),
    "no target": (head(HOST, line=b"POST HTTP/1.1"), 400),
    "an empty target": (head(HOST, line=b"POST  HTTP/1.1"), 400),
    "a blank in the target": (head(HOST, line=b"POST /a b HTTP/1.1"), 400),
    "a tab in the request line": (head(HOST, line=b"POST\t/ HTTP/1.1"), 400),
    "a target that is not ASCII": (head(HOST, line=b"POST /\xff HTTP/1.1"), 400),
    "a blank at the end": (head(HOST, line=b"POST / HTTP/1.1 "), 400),
    "an empty line before": (b"\r\n" + head(HOST), 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\n", 505),
    "HTTP/1.10": (head(HOST, line=b"POST / HTTP/1.10"), 400),
    "another protocol": (head(HOST, line=b"POST / RTSP/1.0"), 400),
    "an answer": (head(HOST, line=b"HTTP/1.1 200 OK"), 400),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_can_be_read_in_two_ways_is_refused(what: str, read_fields: ReadFields) -> None:
    """RFC 9112, sections 2.2, 5.1, 5.2, 6.1, 6.3 and 11.2: request smuggling."""
    data, status = REFUSED[what]
    with pytest.raises(HttpRefused) as caught:
        read_head(data, read_fields)
    assert caught.value.status == status


def in_both(data: bytes) -> list[RequestHead | int]:
    results: list[RequestHead | int] = []
    for read_fields in PARSERS.values():
        try:
            results.append(read_head(data, read_fields))
        except HttpRefused as refused:
            results.append(refused.status)
    return results


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"Host: x",
                b"Content-Length: 3",
                b"Transfer-Encoding: chunked",
                b"A:b",
                b"A :b",
                b" a",
                b"A: b c",
                b"\t",
            ]
        ),
        st.binary(max_size=8),
        st.from_regex(rb"[!-~]{1,3}:[ -~]{0,4}", fullmatch=True),
    ),
    max_size=5,
)


@given(LINES)
def test_parsers_do_not_differ(lines: list[bytes]) -> None:
    """Whatever the fields: the same are read, or both refuse; and what h11 refuses is refused."""
    data = head(HOST, *lines)
    if data.find(b"\r\n\r\n") != len(data) - 4:
        return
    ours, other = in_both(data)
    if isinstance(ours, RequestHead) and isinstance(other, RequestHead):
        assert [(n.lower(), v.strip(b" \t")) for n, v in ours.headers] == [
            (n.lower(), v.strip(b" \t")) for n, v in other.headers
        ]
        assert (ours.length, ours.keeps_alive) == (other.length, other.keeps_alive)
    else:
        assert ours == other
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    try:
        connection.next_event()
    except h11.RemoteProtocolError:
        assert isinstance(ours, int)
        assert isinstance(other, int)
