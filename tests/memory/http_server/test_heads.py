"""The heads of requests, read by each parser: the same is taken and refused, and no less than h11 refuses."""

from __future__ import annotations

import h11
import pytest
from hostile_requests import HOST, REFUSED_HEADS, head
from hypothesis import given
from hypothesis import strategies as st
from inside_core import ReadFields, h11_fields, httptools_fields
from inside_endpoint import RequestHead, read_head

from trio_mcp import HttpRefused

PARSERS = {"h11": h11_fields, "httptools": httptools_fields()}


@pytest.fixture(params=PARSERS)
def read_fields(request: pytest.FixtureRequest) -> ReadFields:
    return PARSERS[request.param]


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


def test_whether_another_request_may_follow(read_fields: ReadFields, subtests: pytest.Subtests) -> None:
    """RFC 9112, section 9.3; 1.0 never, which is always allowed."""
    rows: list[tuple[bytes, bool]] = [
        (head(HOST, b"Connection: keep-alive"), True),
        (head(HOST, b"Connection: x, Close"), False),
        (head(HOST, b"Connection: x", b"connection: close"), False),
        (head(HOST, b"Connection: Upgrade", b"Upgrade: h2c"), True),
        (head(HOST, b"Connection: closed"), True),
        (head(HOST, line=b"POST / HTTP/1.0"), False),
        (head(line=b"POST / HTTP/1.0"), False),
        (head(HOST, b"Connection: keep-alive", line=b"POST / HTTP/1.0"), False),
    ]
    for data, keeps_alive in rows:
        with subtests.test(data=data, keeps_alive=keeps_alive):
            assert read_head(data, read_fields).keeps_alive is keeps_alive


def test_the_body_in_chunks_and_the_one_that_waits(read_fields: ReadFields) -> None:
    """RFC 9112, section 6.1; RFC 9110, section 10.1.1."""
    assert read_head(head(HOST, b"Transfer-Encoding: Chunked"), read_fields).length is None
    assert read_head(head(HOST, b"Expect: 100-Continue"), read_fields).expects_continue


def test_the_path_in_a_target(read_fields: ReadFields, subtests: pytest.Subtests) -> None:
    """RFC 9112, section 3.2: proxies send the whole URL, which names the host that Host names."""
    rows: list[tuple[bytes, bytes]] = [
        (b"POST http://localhost/mcp?a=b HTTP/1.1", b"/mcp?a=b"),
        (b"POST HTTPS://LocalHost:443/mcp HTTP/1.1", b"/mcp"),
        (b"POST http://localhost HTTP/1.1", b"/"),
        (b"POST http://localhost?a HTTP/1.1", b"/?a"),
        (b"POST http://localhost/%2568 HTTP/1.1", b"/%2568"),
        (b"POST /http://elsewhere/mcp HTTP/1.1", b"/http://elsewhere/mcp"),
        (b"POST //elsewhere/mcp HTTP/1.1", b"//elsewhere/mcp"),
        (b"OPTIONS * HTTP/1.1", b"*"),
    ]
    for line, target in rows:
        with subtests.test(line=line, target=target):
            assert read_head(head(HOST, line=line), read_fields).target == target


def test_what_can_be_read_in_two_ways_is_refused(read_fields: ReadFields, subtests: pytest.Subtests) -> None:
    """RFC 9112, sections 2.2, 5.1, 5.2, 6.1, 6.3 and 11.2: request smuggling."""
    for what in REFUSED_HEADS:
        with subtests.test(what=what):
            data, status = REFUSED_HEADS[what]
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
