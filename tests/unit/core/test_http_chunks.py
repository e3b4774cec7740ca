"""The chunked coding: what is taken, what is refused, and that it does not matter how the bytes are cut."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_core import MAX_SIZE_LINE, ChunkedReader


def read(data: bytes, step: int | None = None, *, of_response: bool = False) -> tuple[bytes, bool, bytes]:
    """Feed some bytes in pieces; return the body, whether it is complete, and what is behind it."""
    reader, body, rest = ChunkedReader(of_response=of_response), b"", b""
    step = step or max(1, len(data))
    for at in range(0, len(data), step):
        if reader.is_complete:
            rest += data[at : at + step]
        else:
            body += reader.feed(data[at : at + step])
            rest += reader.rest
    return body, reader.is_complete, rest


def test_however_it_is_cut() -> None:
    """RFC 9112, section 7.1."""
    cases: list[tuple[bytes, tuple[bytes, bool, bytes]]] = [
        (b"5\r\nhello\r\n0\r\n\r\n", (b"hello", True, b"")),
        (b'5\r\nhello\r\n6;x="y"\r\n world\r\n0\r\n\r\nGET ', (b"hello world", True, b"GET ")),
        (b"A\r\n0123456789\r\n00\r\n\r\n", (b"0123456789", True, b"")),
        (b"2\r\n\r\n\r\n0\r\n\r\n", (b"\r\n", True, b"")),
        (b"0\r\n\r\n\r\n", (b"", True, b"\r\n")),
        (b"5\r\nhel", (b"hel", False, b"")),
        (b"5\r\nhello\r\n0\r\n\r", (b"hello", False, b"")),
    ]
    steps: list[int | None] = [1, 2, 3, 7, None]
    for data, expected in cases:
        for step in steps:
            assert read(data, step) == expected


def test_what_can_be_read_in_two_ways_is_refused(subtests: pytest.Subtests) -> None:
    """A request could hide in it."""
    cases: list[bytes] = [
        b"5\nhello\r\n0\r\n\r\n",  # bare LF behind a size
        b"5\r\nhello\n0\r\n\r\n",  # bare LF behind a chunk
        b"5\r\nhelloX\r\n0\r\n\r\n",  # longer than it says
        b"5\r\nhello\rX0\r\n\r\n",
        b"-1\r\n\r\n",
        b"+5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"5_0\r\nhello\r\n0\r\n\r\n",
        b"\r\n5\r\nhello\r\n0\r\n\r\n",
        b"\r\n",
        b";x\r\n",
        b"5;\x00\r\nhello\r\n0\r\n\r\n",
        b"5;a\rb\r\nhello\r\n0\r\n\r\n",
        b"0\r\n\n",
        b"0\r\n\r\r\n",
        b"0\r\nX: y\n\nGET / HTTP/1.1\r\n\r\n",
        b"11111111111111111\r\nhello\r\n0\r\n\r\n",  # 17 digits
        b"5;" + b"x" * MAX_SIZE_LINE + b"\r\nhello\r\n0\r\n\r\n",
        b"5" * (MAX_SIZE_LINE + 1),
    ]
    steps: list[int | None] = [1, None]
    for data in cases:
        for step in steps:
            with subtests.test(data=data, step=step), pytest.raises(ValueError, match=r"chunk"):
                read(data, step)


def test_trailers_are_passed_over() -> None:
    """RFC 9112, section 7.1.2: clients may send them, and a reader may ignore them."""
    cases: list[tuple[bytes, tuple[bytes, bool, bytes]]] = [
        (b"0\r\nX: y\r\nZ:\r\n\r\nHTTP", (b"", True, b"HTTP")),
        (b"2\r\nab\r\n0\r\nContent-Length: 9\r\nHost: z\r\n\r\nGET /", (b"ab", True, b"GET /")),
        (b"0\r\n" + b"X: y\r\n" * 2_000 + b"\r\n", (b"", True, b"")),
        (b"0\r\nX: y\r\n", (b"", False, b"")),
    ]
    steps: list[int | None] = [1, 2, 3, 7, None]
    for data, expected in cases:
        for step in steps:
            for of_response in (False, True):
                assert read(data, step, of_response=of_response) == expected


@pytest.mark.parametrize("step", [1, 2, None])
def test_responses_may_be_padded(step: int | None) -> None:
    """Some servers do that, and no client may."""
    data = b"5 \t\r\nhello\r\n0  \r\n\r\n"
    assert read(data, step, of_response=True) == (b"hello", True, b"")
    with pytest.raises(ValueError, match=r"chunk"):
        read(data, step)


def test_trailers_are_fields_and_end(subtests: pytest.Subtests) -> None:
    cases: list[bytes] = [
        b" 5\r\nhello\r\n0\r\n\r\n",
        b"5 \nhello\r\n0\r\n\r\n",
        b"0\r\nX: y\n\r\n",
        b"0\r\nX\r\n\r\n",
        b"0\r\nX : y\r\n\r\n",
        b"0\r\n X: y\r\n\r\n",
        b"0\r\nX: \x00\r\n\r\n",
        b"0\r\nX: y\rZ: z\r\n\r\n",
        b"0\r\n" + b"X: y\r\n" * 10_000,
        b"0\r\nX: " + b"y" * MAX_SIZE_LINE + b"\r\n\r\n",
    ]
    steps: list[int | None] = [1, None]
    for data in cases:
        for step in steps:
            with subtests.test(data=data, step=step):
                for of_response in (False, True):
                    with pytest.raises(ValueError, match=r"chunk"):
                        read(data, step, of_response=of_response)


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [b"0", b"1", b"5", b"\r\n", b"\n", b"\r", b";x", b" ", b"\t", b"0\r\n\r\n", b"1\r\na\r\n"]
            ),
            st.binary(max_size=3),
        ),
        max_size=12,
    )
)
def test_whatever_is_taken_another_reader_takes_as_well(pieces: list[bytes]) -> None:
    """And reads the same in it: h11, which is more lenient."""
    data = b"".join(pieces)
    try:
        body, is_complete, rest = read(data)
    except ValueError:
        return
    other = h11.Connection(h11.SERVER)
    other.receive_data(HEAD + data)
    events = [other.next_event()]
    while not isinstance(events[-1], h11.EndOfMessage) and events[-1] is not h11.NEED_DATA:
        events.append(other.next_event())
    assert b"".join(event.data for event in events if isinstance(event, h11.Data)) == body
    assert isinstance(events[-1], h11.EndOfMessage) == is_complete
    if is_complete:
        assert other.trailing_data[0] == rest


@pytest.mark.parametrize("chunk", [b"1\r\nx\r\n", b"8\r\nxxxxxxxx\r\n", b"1f;a=b\r\n" + b"x" * 31 + b"\r\n"])
def test_chunks_that_are_hardly_longer_than_what_stands_around_them_are_refused(chunk: bytes) -> None:
    """Each takes as long as one of thousands of bytes, so a body of 4 MiB in chunks of one byte held a server."""
    body, is_complete, _ = read(chunk * 1_000 + b"0\r\n\r\n")
    assert is_complete
    assert len(body) % 1_000 == 0
    with pytest.raises(ValueError, match=r"its chunks are too short: \d+ bytes around"):
        read(chunk * 20_000)


def test_extensions_of_chunks_are_counted() -> None:
    """Nobody here understands them."""
    with pytest.raises(ValueError, match="too short"):
        read((b"40;" + b"x" * 900 + b"\r\n" + b"x" * 64 + b"\r\n") * 100)


@pytest.mark.parametrize("size", [64, 1024, 1 << 20])
def test_chunks_that_people_send_are_never_too_short(size: int) -> None:
    """However long the body is."""
    data = b"%x\r\n%b\r\n" % (size, bytes(size)) * (4 * (1 << 20) // size)
    body, is_complete, _ = read(data + b"0\r\n\r\n")
    assert is_complete
    assert len(body) == 4 << 20
