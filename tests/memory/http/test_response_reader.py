"""What is read as a response, and what is refused: with each parser the same, and no less than h11 refuses."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_core import ReadFields, h11_fields, httptools_fields
from inside_http import ResponseReader

from trio_mcp import ConnectionLost, RemoteProtocolError

PARSERS = [h11_fields, httptools_fields()]
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def read(data: bytes, read_fields: ReadFields, step: int | None = None, method: str = "POST") -> ResponseReader:
    reader = ResponseReader("it", 10_000, read_fields)
    reader.begin(method)
    step = step or len(data)
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
    return reader


def test_however_it_is_cut(read_fields: ReadFields, subtests: pytest.Subtests) -> None:
    """RFC 9112, sections 6.3, 7.1 and 9.3: where it ends, and whether another one may follow."""
    rows: list[tuple[bytes, bytes, bool, bool]] = [
        (OK + b"Content-Length: 5\r\n\r\nhello", b"hello", True, True),
        (OK + b"content-length:5 \r\nConnection: keep-alive\r\n\r\nhello", b"hello", True, True),
        (OK + b"Content-Length: 5\r\n\r\nhell", b"hell", False, False),
        (OK + b"Content-Length: 5\r\nConnection: x, Close\r\n\r\nhello", b"hello", True, False),
        (OK + b"Content-Length: 5\r\n\r\nhello\r\n", b"hello", True, False),
        (OK + b"Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n", b"hello", True, False),
        (OK + b"Content-Length: 0\r\n\r\n", b"", True, True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello", b"hello", True, False),
        (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", b"hello", True, True),
        (CHUNKED + b"5;x=y\r\nhello\r\n0\r\nX: y\r\nZ: \r\n\r\n", b"hello", True, True),
        (CHUNKED + b"5  \r\nhello\r\n0\r\n\r\n", b"hello", True, True),
        (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n\r\n", b"hello", True, False),
        (CHUNKED + b"5\r\nhello\r\n0\r\n", b"hello", False, False),
        (OK + b"\r\nhello", b"hello", False, False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True, True),
        (b"HTTP/1.1 204 No Content\r\n\r\nx", b"", True, False),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b"", True, True),
        (
            b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 103\r\nX: y\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\nx",
            b"x",
            True,
            True,
        ),
    ]
    steps: list[int | None] = [1, 2, 3, 7, None]
    for data, body, is_complete, is_reusable in rows:
        for step in steps:
            with subtests.test(data=data, body=body, is_complete=is_complete, is_reusable=is_reusable, step=step):
                reader = read(data, read_fields, step)
                assert (reader.take(), reader.is_complete, reader.is_reusable) == (body, is_complete, is_reusable)
                assert reader.take() == b""


def test_what_a_head_says(read_fields: ReadFields) -> None:
    head = read(b"HTTP/1.1 299 Caf\xe9 \r\nX-Twice: 1\r\nx-twice:2 \t\r\nX-Empty:\r\n\r\n", read_fields).head
    assert head is not None
    assert (head.status, head.reason, head.framing) == (299, "Caf\xe9 ", None)
    assert (head.headers.get("x-twice"), head.headers.get("x-empty")) == ("1, 2", "")


def test_the_answer_to_head_has_no_body(read_fields: ReadFields) -> None:
    """Whatever it says of one (RFC 9110, section 9.3.2)."""
    assert read(OK + b"Content-Length: 5\r\n\r\n", read_fields, method="HEAD").is_reusable


def test_the_end_in_the_middle_is_a_loss(read_fields: ReadFields, subtests: pytest.Subtests) -> None:
    rows: list[bytes] = [
        b"",
        OK,
        OK + b"Content-Length: 5\r\n\r\nhell",
        CHUNKED + b"5\r\nhello\r\n",
        b"HTTP/1.1 100\r\n\r\n",
    ]
    for data in rows:
        with subtests.test(data=data):
            reader = ResponseReader("it", 10_000, read_fields)
            reader.begin("POST")
            if data:
                reader.feed(data)
            with pytest.raises(ConnectionLost):
                reader.feed(b"")
            assert not reader.is_reusable


def test_the_end_may_be_what_ends_a_body(read_fields: ReadFields) -> None:
    """RFC 9112, section 6.3, 8: then nothing can follow."""
    reader = read(OK + b"\r\nhello", read_fields)
    reader.feed(b"")
    assert (reader.take(), reader.is_complete, reader.is_reusable) == (b"hello", True, False)


REFUSED = {
    "both framings": OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "both framings, in the other order": OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
    "two lengths": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "one length twice": OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
    "one length twice, at the beginning": b"HTTP/1.1 200\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\n",
    "a list of lengths": OK + b"Content-Length: 5, 5\r\n\r\n",
    "a signed length": OK + b"Content-Length: +5\r\n\r\n",
    "no length": OK + b"Content-Length:\r\n\r\n",
    "a length with an underscore": OK + b"Content-Length: 1_0\r\n\r\n",
    "an endless length": OK + b"Content-Length: 99999999999999999999999999\r\n\r\n",
    "another coding": OK + b"Transfer-Encoding: gzip\r\n\r\n",
    "two codings": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "chunked twice": OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "an empty coding": OK + b"Transfer-Encoding:\r\n\r\n",
    "chunked in HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a blank before the colon": OK + b"Content-Length : 5\r\n\r\n",
    "a tab before the colon": OK + b"Transfer-Encoding\t: chunked\r\n\r\n",
    "no colon": OK + b"Content-Length 5\r\n\r\n",
    "no name": OK + b": 5\r\n\r\n",
    "a name that is no token": OK + b"Content(Length): 5\r\n\r\n",
    "obs-fold": OK + b"X: a\r\n b: c\r\n\r\n",
    "obs-fold with a tab": OK + b"X: a\r\n\tTransfer-Encoding: chunked\r\n\r\n",
    "obs-fold at the beginning": OK + b" X: a\r\n\r\n",
    "a bare LF": OK + b"X: y\nZ: z\r\n\r\n",
    "bare LFs, and nothing more": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "a bare CR": OK + b"X: a\rContent-Length: 5\r\n\r\n",
    "NUL in a value": OK + b"X: a\x00b\r\n\r\n",
    "a control character in a value": OK + b"X: a\x01b\r\n\r\n",
    "a vertical tab": OK + b"Transfer-Encoding:\x0bchunked\r\n\r\n",
    "NUL in the status line": b"HTTP/1.1 200 O\x00K\r\n\r\n",
    "an empty line before": b"\r\n" + OK + b"\r\n",
    "another version": b"HTTP/2.0 200 OK\r\n\r\n",
    "no version": b"HTTP 200 OK\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.9",
    "an encrypted one": b"\x15\x03\x03\x00\x02",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "a status below all": b"HTTP/1.1 099 OK\r\n\r\n",
    "two blanks": b"HTTP/1.1  200 OK\r\n\r\n",
    "a request": b"GET / HTTP/1.1\r\n\r\n",
    "a new protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "interim responses without end": b"HTTP/1.1 100 \r\n\r\n" * 33,
    "a head that is too large": OK + b"X: " + b"y" * 10_000 + b"\r\n\r\n",
    "a head that will be too large": OK + b"X: " + b"y" * 10_000,
    "a bare LF behind a size": CHUNKED + b"5\nhello\r\n0\r\n\r\n",
    "a chunk that is longer than it says": CHUNKED + b"5\r\nhelloX\r\n0\r\n\r\n",
    "a size in another notation": CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    "a signed size": CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
    "a trailer with a bare LF": CHUNKED + b"0\r\nX: y\n\r\n",
    "a trailer that is no field": CHUNKED + b"0\r\nX\r\n\r\n",
    "trailers without end": CHUNKED + b"0\r\n" + b"X: y\r\n" * 10_000,
}


def test_what_can_be_read_in_two_ways_is_refused(read_fields: ReadFields, subtests: pytest.Subtests) -> None:
    """RFC 9112, sections 2.2, 4, 5.1, 5.2, 6.1, 6.3, 7.1 and 11.1: at once, since no more of it may come."""
    steps: list[int | None] = [1, None]
    for what in REFUSED:
        for step in steps:
            with (
                subtests.test(what=what, step=step),
                pytest.raises(RemoteProtocolError, match=r"^it (does not speak HTTP/1\.1: |sen)"),
            ):
                read(REFUSED[what], read_fields, step)


def by_h11(data: bytes) -> tuple[list[tuple[bytes, bytes]], bytes] | None:
    """Return fields and body as h11 reads them, at the end of the connection."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("Host", "x"), ("Content-Length", "0")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    fields: list[tuple[bytes, bytes]] = []
    body = b""
    try:
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                connection.receive_data(b"")
            elif isinstance(event, h11.Response):
                fields = [(name, value) for name, value in event.headers]
            elif isinstance(event, h11.Data):
                body += event.data
    except h11.RemoteProtocolError:
        return None
    return fields, body


def by_us(data: bytes, read_fields: ReadFields) -> tuple[list[tuple[bytes, bytes]], bytes] | None:
    try:
        reader = read(data, read_fields)
        if not reader.is_complete:
            reader.feed(b"")
    except (RemoteProtocolError, ConnectionLost):
        return None
    assert reader.head is not None
    return [(name.lower(), value.strip(b" \t")) for name, value in reader.head.headers], reader.take()


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [b"Content-Length: 3", b"Transfer-Encoding: chunked", b"A:b", b"A :b", b" a", b"A: b c", b"\t"]
            ),
            st.binary(max_size=8),
            st.from_regex(rb"[!-~]{1,3}:[ -~]{0,4}", fullmatch=True),
        ),
        max_size=5,
    ),
    st.sampled_from([b"", b"abc", b"abcdef", b"3\r\nabc\r\n0\r\n\r\n", b"3\nabc\n0\n\n"]),
)
def test_whatever_is_taken_h11_takes_as_well(lines: list[bytes], body: bytes) -> None:
    """And reads the same in it; and both parsers take the same."""
    data = b"\r\n".join([b"HTTP/1.1 200 OK", *lines]) + b"\r\n\r\n" + body
    ours, other = [by_us(data, parser) for parser in PARSERS]
    assert ours == other
    assert ours is None or ours == by_h11(data)


@pytest.mark.parametrize("read_fields", PARSERS)
def test_a_response_in_chunks_of_one_byte_is_an_error_of_its_server(read_fields: ReadFields) -> None:
    """It keeps a client busy for hundreds of times what it weighs."""
    with pytest.raises(RemoteProtocolError, match=r"it does not speak HTTP/1\.1: its chunks are too short"):
        read(CHUNKED + b"1\r\nx\r\n" * 400_000, read_fields, 65_536)
