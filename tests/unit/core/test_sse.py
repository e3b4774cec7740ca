"""Server-sent events: the same events however the bytes are cut, at a cost that is bounded, and back to bytes."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from inside_core import (
    KEPT_ENDS,
    OversizedSseEvent,
    SseEvent,
    SseReader,
    SseReceived,
    encode_sse_comment,
    encode_sse_event,
)
from places import DATA
from shared.core_sse import ENDS, by_size, message, read

BOM: Final = b"\xef\xbb\xbf"

patiently = settings(deadline=None)


CASES: Final[list[tuple[bytes, list[SseReceived]]]] = [
    (b"", []),
    (b"\n\n\n", []),
    (b"data: a\n\n", [message(b"a")]),
    (b"data:a\n\n", [message(b"a")]),
    # One space goes, not two, and no tab.
    (b"data:  a\n\ndata:\ta\n\n", [message(b" a"), message(b"\ta")]),
    # A stream that ends before the blank line has not sent the event, nor its id.
    (b"data: a", []),
    (b"data: a\n", []),
    (b"id: 1\ndata: a\n\nid: 2\ndata: b\n", [message(b"a", "1")]),
    # Lines of data are joined, the last newline goes.
    (b"data: a\ndata: b\ndata:\n\n", [message(b"a\nb\n")]),
    # Empty data is data; no data is none.
    (b"data:\n\n", [message(b"")]),
    (b"data\n\n", [message(b"")]),
    (b"data\ndata\n\n", [message(b"\n")]),
    (b"event: x\n\ndata: a\n\n", [message(b"a")]),
    # The three line ends, mixed.
    (b"data: a\r\rdata: b\r\n\r\ndata: c\n\n", [message(b"a"), message(b"b"), message(b"c")]),
    (b"data: a\r\ndata: b\rdata: c\n\r\n", [message(b"a\nb\nc")]),
    (b"data: a\n\rdata: b\n\n", [message(b"a"), message(b"b")]),
    # Nothing else ends a line: JSON holds U+2028 and U+0085 as they are.
    (
        'data: "\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e"\n\n'.encode(),
        [message('"\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e"'.encode())],
    ),
    # A byte order mark goes once.
    (BOM + b"data: a\n\n", [message(b"a")]),
    (BOM + BOM + b"data: a\n\ndata: b\n\n", [message(b"b")]),
    (BOM[:2] + b"data: a\n\ndata: b\n\n", [message(b"b")]),
    (b"data: a\n\n" + BOM + b"data: b\n\n", [message(b"a")]),
    (b"\n" + BOM + b"data: a\n\n", []),
    # Comments, unknown fields, and fields that are only nearly known.
    (b": hello\n:\ndata: a\n\n", [message(b"a")]),
    (b"datas: x\n data: x\nDATA: x\ndat: x\nfoo\n\n", []),
    (b"data : x\n\n", []),
    # The type is the event's alone; an empty one is none.
    (b"event: endpoint\ndata: /m\n\ndata: a\n\n", [SseEvent("endpoint", b"/m"), message(b"a")]),
    (b"event: a\nevent: b\ndata: x\n\nevent: a\nevent\ndata: y\n\n", [SseEvent("b", b"x"), message(b"y")]),
    # The id stays until another one comes; it counts without data, and can be taken back.
    (b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", [message(b"a", "1"), message(b"b", "1"), message(b"c")]),
    (b"id: 7\n\ndata: a\n\n", [message(b"a", "7")]),
    (b"id: 1\nid: 2\ndata: a\n\n", [message(b"a", "2")]),
    (b"id: 1\0\ndata: a\n\n", [message(b"a")]),
    (b"id: 1\ndata: a\n\nid: \0\ndata: b\n\n", [message(b"a", "1"), message(b"b", "1")]),
    (b"id: caf\xc3\xa9\ndata: a\n\n", [message(b"a", "café")]),
    # A colon in the value is the value's.
    (b"data: a: b:\nid::1\n\n", [message(b"a: b:", ":1")]),
    # Bytes that are no UTF-8 are not ours to judge in data.
    (b"data: \xff\nevent: \xff\n\n", [SseEvent("\ufffd", b"\xff")]),
]  # fmt: skip


def test_chunk_boundaries_do_not_matter(subtests: pytest.Subtests) -> None:
    """HTML, "Interpreting an event stream"; a network cuts where it likes."""
    for wire, events in CASES:
        with subtests.test(wire=wire, events=events):
            for size in (10**6, 7, 3, 2, 1):
                assert read(by_size(wire, size)) == events, f"in pieces of {size} bytes"


def test_retry_counts_only_if_all_of_it_is_ascii_digits(subtests: pytest.Subtests) -> None:
    """HTML, "Interpreting an event stream", field `retry`."""
    cases: list[tuple[bytes, int | None]] = [
        (b"retry: 500\n", 500),  # it counts at once, without an event
        (b"retry:0\n\n", 0),
        (b"retry: 007\n", 7),
        (b"retry: 1\nretry: 2\n", 2),
        (b"retry: 500", None),
        (b"retry:\n", None),
        (b"retry: 5s\n", None),
        (b"retry: -5\n", None),
        (b"retry: +5\n", None),
        (b"retry: 1.5\n", None),
        (b"retry:  5\n", None),
        (b"retry: 1_0\n", None),
        ("retry: \u0665\n".encode(), None),
        (b"retry: 5\nretry: x\n", 5),
        (b"retry: " + b"9" * 5000 + b"\n", None),
    ]
    for wire, retry in cases:
        with subtests.test(wire=wire):
            for size in (10**6, 3, 1):
                reader = SseReader(10_000)
                for chunk in by_size(wire, size):
                    assert not reader.feed(chunk)
                assert reader.retry == retry


def test_the_id_to_resume_after_is_that_of_the_last_blank_line() -> None:
    """An event that was cut off will be sent again; resuming after it would lose it."""
    reader = SseReader(100)
    assert reader.last_event_id == ""
    reader.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n")
    assert reader.last_event_id == "1"
    reader.feed(b"\n")
    assert reader.last_event_id == "2"
    reader.feed(b"id: 3\n\n")  # no event, but a place to resume from
    assert reader.last_event_id == "3"
    reader.feed(b"id\n\n")
    assert reader.last_event_id == ""


def by_the_book(wire: bytes, max_event: int) -> list[SseReceived]:
    """Read a whole stream by the letter of the standard, with nothing of the reader's thrift."""
    events: list[SseReceived] = []
    data: list[bytes] = []
    event = last_id = ""
    *lines, _ = re.split(rb"\r\n|\r|\n", wire.removeprefix(BOM))
    for line in lines:
        if not line:
            if data:
                whole = b"\n".join(data)
                if len(whole) <= max_event:
                    events.append(SseEvent(event or "message", whole, last_id))
                else:
                    ends = whole[:ENDS], whole[-ENDS:]
                    events.append(OversizedSseEvent(event or "message", len(whole), *ends, last_id))
            data = []
            event = ""
            continue
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            data.append(value)
        elif name == b"event" and len(line) <= max_event:
            event = value.decode(errors="replace")
        elif name == b"id" and b"\0" not in value and len(line) <= max_event:
            last_id = value.decode(errors="replace")
    return events


PIECES: Final = st.lists(
    st.sampled_from(
        [b"\n", b"\r", b"\r\n", b"\n\n", b"data", b"data:", b"data: ", b"id: ", b"event:", b":", b" ", b"a", b"bc",
         "é\u2028".encode(), b"x" * 700, b"\0", BOM, BOM[:1], BOM[1:], b"retry: 1"]
    ),
    max_size=24,
).map(b"".join)  # fmt: skip


@patiently
@given(PIECES, st.lists(st.integers(0, 3000), max_size=10), st.sampled_from([1, 2, 5, 6, 20, 1000, 5000]))
@example(b"data: a\r\n\r\ndata: b\r\r", [8, 9, 10], 10)
@example(b"data\n\n", [2, 4, 5], 1)
def test_any_cut_gives_the_same_events(wire: bytes, cuts: list[int], max_event: int) -> None:
    """As above, against a reading of the whole by simpler means."""
    expected = by_the_book(wire, max_event)
    assert read([wire], max_event) == expected
    places = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    assert read([wire[start:end] for start, end in pairwise(places)], max_event) == expected


def test_an_event_is_given_out_with_its_blank_line() -> None:
    """A peer that waits for an answer sends nothing more: not the LF that may follow a CR either."""
    reader = SseReader(10)
    assert reader.feed(b"data: a\r\n\r") == [message(b"a")]
    assert reader.feed(b"\n") == []
    assert reader.feed(b"") == []
    assert reader.feed(b"data: b\r") == []
    assert reader.feed(b"") == []
    assert reader.feed(b"\ndata: c\r\n") == []
    assert reader.feed(b"\r") == [message(b"b\nc")]


def test_an_event_that_is_too_large_costs_only_itself() -> None:
    """Promise 10, and the request it answers can still be failed by the id at one of its ends."""
    data = bytes(n % 90 + 33 for n in range(5000))
    wire = b"id: 5\ndata: %b\n\ndata: b\n\n" % data
    for size in (1, 100, 1023, 1024, 10_000):
        assert read(by_size(wire, size), 4999) == [
            OversizedSseEvent("message", 5000, data[:ENDS], data[-ENDS:], "5"),
            message(b"b", "5"),
        ]
    assert read([wire], 5000) == [message(data, "5"), message(b"b", "5")]


def test_events_are_written_as_the_standard_reads_them() -> None:
    """2026-07-28, basic/transports/streamable-http, "Receiving Messages"; 2025-11-25 for ids and retry."""
    cases: list[tuple[bytes, bytes]] = [
        (b"data: {}\n\n", encode_sse_event(b"{}")),
        (b"data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n", encode_sse_event(b"a\nb\r\nc\rd\n")),
        (b"event: endpoint\ndata: /m\n\n", encode_sse_event(b"/m", event="endpoint")),
        (b"id: 7\nretry: 500\ndata: \n\n", encode_sse_event(b"", id="7", retry=500)),
        (b"id: 7\n\n", encode_sse_event(id="7")),
        (b"id: \ndata: a\n\n", encode_sse_event(b"a", id="")),
        (b":\n\n", encode_sse_comment()),
        (b": still here\n\n", encode_sse_comment("still here")),
    ]
    for wire, event in cases:
        assert event == wire


@pytest.mark.parametrize(
    "options", [{"event": "a\nb"}, {"event": "a\r"}, {"id": "1\n"}, {"id": "1\r"}, {"id": "1\0"}, {"retry": -1}]
)
def test_what_would_end_its_own_line_is_not_written(options: dict[str, str]) -> None:
    """Ids and types may come from users, and must not become events of their own."""
    with pytest.raises(ValueError, match=r"\S"):
        encode_sse_event(b"a", **options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="comment"):
        encode_sse_comment("a\n\ndata: b")


RECORDINGS: Final = DATA / "wire-corpus" / "http.jsonl"


def test_what_others_have_streamed_is_read_as_messages() -> None:
    """Every event another implementation has sent holds one JSON-RPC message, or primes for a reconnection."""
    streams = 0
    for line in RECORDINGS.read_text(encoding="utf-8").splitlines():
        response = json.loads(line)["response"]
        if not dict(response["headers"]).get("content-type", "").startswith("text/event-stream"):
            continue
        streams += 1
        body = response["body"].encode()
        for event in (events := read([body])):
            assert isinstance(event, SseEvent)
            if event.event == "endpoint":
                assert event.data.startswith(b"/")
            else:
                assert event.data == b"" or json.loads(event.data)["jsonrpc"] == "2.0"
        assert len(events) == body.count(b"data:")
        assert read(by_size(body, 5)) == events
    assert streams > 50


TEXT: Final = st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), max_size=10)


@patiently
@given(st.lists(st.tuples(st.binary(max_size=40), TEXT, TEXT), max_size=6), st.integers(1, 50))
def test_what_is_written_is_what_is_read(events: list[tuple[bytes, str, str]], size: int) -> None:
    """The two halves of the module agree, comments in between or not."""
    wire = b"".join(
        encode_sse_event(data, event=event, id=id) + encode_sse_comment("between") for data, event, id in events
    )
    expected = [SseEvent(event or "message", re.sub(rb"\r\n|\r", b"\n", data), id) for data, event, id in events]
    assert read(by_size(wire, size)) == expected


@pytest.mark.parametrize("size", [1, 4096, 4097, 100_000])
def test_an_id_that_no_header_field_could_hold_is_none(size: int) -> None:
    """Promise 10: what is remembered of a stream between its events must not be as large as a message."""
    reader = SseReader(1_000_000)
    (event,) = reader.feed(b"id: first\nevent: %b\ndata: 1\n\n" % (b"e" * size))
    assert len(event.event) == min(size, 4096)
    reader.feed(b"id: %b\ndata: 2\n\n" % (b"x" * size))
    assert reader.last_event_id == ("x" * size if size <= 4096 else "")


def test_an_id_that_a_header_field_cannot_hold_as_it_is_resumes_nothing(subtests: pytest.Subtests) -> None:
    """RFC 9110, section 5.5: blanks at the ends are lost on the way, and control characters are refused."""
    for id in ("7 ", "7\t", " 7", "a\x1bb", "\x7f", "a\tb\x01", " ", "\x0b"):
        with subtests.test(id=id):
            reader = SseReader(1_000)
            (event,) = reader.feed(b"id: %b\ndata: 1\n\n" % id.encode())
            assert isinstance(event, SseEvent)
            assert event.last_event_id == id
            assert reader.last_event_id == ""
            reader.feed("id: a b\t\xe9\n\n".encode())
            assert reader.last_event_id == "a b\t\xe9"


def test_it_is_known_what_is_kept_of_an_unfinished_event() -> None:
    """So that many streams together can be held to a limit."""
    reader = SseReader(1_000)
    sizes: list[int] = []
    for piece in (b"id: 7", b"\n", b"data: 1234", b"5\ndata: 6", b"\n\n", b"data: ", b"x" * 2_000, b"\n\n"):
        reader.feed(piece)
        sizes.append(reader.size)
    assert sizes == [5, 0, 4, 7, 0, 0, 2 * KEPT_ENDS, 0]


@pytest.mark.parametrize("line", [b":\n", b"\n", b":\r\n", b"\r", b": x\n\n", b"foo\n"])
def test_lines_that_mean_nothing_cost_no_step_each(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server could hold up everything with a stream of comments or blank lines, which are the shortest."""
    steps: list[bytes] = []
    end_line = SseReader._end_line

    def count(self: SseReader, piece: bytes, events: list[SseReceived]) -> None:
        steps.append(piece)
        end_line(self, piece, events)

    monkeypatch.setattr(SseReader, "_end_line", count)
    reader = SseReader(1000)
    assert not reader.feed(b"data: a\n" + line * 10_000 + b":")[1:]
    assert len(steps) < 10
