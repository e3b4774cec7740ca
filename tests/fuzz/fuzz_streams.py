"""What is read piece by piece: lines, events, heads and bodies of HTTP, chunks, frames of WebSockets."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import h11
from fuzzing import cut, ending, target
from inside_core import (
    KEPT_ENDS,
    ChunkedReader,
    FrameGuard,
    Headers,
    LineReader,
    OversizedLine,
    OversizedSseEvent,
    ReadFields,
    SseEvent,
    SseReader,
    SseReceived,
    encode_sse_event,
    h11_fields,
    httptools_fields,
    pieces_of,
)
from inside_endpoint import RequestBuffer, read_head
from inside_http import ResponseReader
from inside_transports import HandshakeAnswer
from wsproto.frame_protocol import FrameProtocol, ParseFailed

from trio_mcp import ConnectionLost, HttpRefused, RemoteProtocolError, RequestError

RECORDINGS: Final = Path(__file__).parents[1] / "data" / "wire-corpus" / "http.jsonl"
SMALL: Final = 64
"""A limit that short inputs reach, too."""


def exchanges() -> list[Any]:
    """Return requests and responses over HTTP that programs of others have exchanged."""
    return [json.loads(line) for line in RECORDINGS.read_text(encoding="utf-8").rstrip("\n").split("\n")]


def bodies(kind: str) -> list[str]:
    return [
        each["response"]["body"]
        for each in exchanges()
        if ["content-type", kind] in each["response"]["headers"] and len(each["response"]["body"]) < 900
    ]


# Events.


def _events(data: bytes) -> list[tuple[str, bytes, str]]:
    """Read an event stream as the standard has it, without any limit or haste."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    *lines, _ = re.split(rb"\r\n|\r|\n", data)
    found: list[tuple[str, bytes, str]] = []
    kind, values, id, last = "", list[bytes](), "", ""
    for line in lines:
        if not line:
            last = id
            if values:
                found.append((kind or "message", b"\n".join(values), last))
            kind, values = "", []
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            values.append(value)
        elif name == b"event":
            kind = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            id = value.decode("utf-8", "replace")
    return found


def _fed(reader: SseReader, pieces: Sequence[bytes]) -> tuple[list[SseReceived], int | None, str, int]:
    found = [event for piece in pieces for event in reader.feed(piece)]
    return found, reader.retry, reader.last_event_id, reader.messages


@target(
    "sse",
    tokens=("data:", "data: ", "event: message", "id:", "retry: 1", "\r\n", "\n\n", "\r", ":", " ", "\0", "\ufeff", "datax"),
    hard=("a", "\n", "\r", "\r\n", "data:a\n", "data:a\n\n", "data", "id:a\n", ":\n", "x:\n", ("data:", "a", "\n\n"), "\0"),
    seeds=lambda: bodies("text/event-stream"),
)  # fmt: skip
def read_sse(data: bytes) -> None:
    whole = _fed(SseReader(1 << 20), [data])
    assert _fed(SseReader(1 << 20), cut(data)) == whole
    assert _fed(SseReader(1 << 20), list(pieces_of(data))) == whole
    plain = [(each.event, each.data, each.last_event_id) for each in whole[0] if isinstance(each, SseEvent)]
    assert len(plain) == len(whole[0])
    if not any(len(line) > 4096 for line in re.split(rb"[\r\n]", data)):
        assert plain == _events(data)
    for kind, value, id in plain:
        event = ending(partial(encode_sse_event, value, event=kind, id=id), ValueError)
        if isinstance(event, bytes):
            (again,) = SseReader(1 << 20).feed(event)
            assert again == SseEvent(kind, value, id)
    small = SseReader(SMALL)
    few = [event for piece in cut(data) for event in small.feed(piece)]
    assert small.size <= 2 * SMALL + 16 + 2 * KEPT_ENDS  # the ends of what is dropped are counted as well
    at_once = SseReader(SMALL).feed(data)
    assert few == at_once, "what is too large depends on how it is cut"
    for each in few:
        assert isinstance(each, OversizedSseEvent) or len(each.data) <= SMALL


@target(
    "lines",
    tokens=("\n", "\r\n", "\ufeff", "{", "}", " ", "\t", "a" * 70),
    hard=("a", "\n", "a\n", " ", "\r\n", ("\ufeff", " \n", "")),
    seeds=lambda: ['{"a":1}\n{"b":2}\r\n', "\ufeff{}\n \n\n[]", "a" * 80 + "\nb"],
)
def read_lines(data: bytes) -> None:
    body = data.removeprefix(b"\xef\xbb\xbf")
    lines = body.split(b"\n")
    for limit in (SMALL, 1 << 20):
        reader = LineReader(limit)
        found: list[bytes | OversizedLine] = []
        for piece in cut(data):
            found += reader.feed(piece)
            assert reader.held <= max(limit, 2 * 1024) + 3
        found += reader.finish()
        # What is too long is not kept, so that nobody knows whether it is blank.
        assert [each if isinstance(each, bytes) else each.size for each in found] == [
            line if len(line) <= limit else len(line) for line in lines if len(line) > limit or line.strip()
        ]
        whole = LineReader(limit)
        assert whole.feed(data) + whole.finish() == found


# HTTP/1.1.

FIELDS: Final = (
    "Host: x\r\n", "Content-Length: 5\r\n", "Content-Length: 5, 5\r\n", "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n", "Connection: close\r\n", "Connection: keep-alive, Upgrade\r\n",
    "Upgrade: websocket\r\n", "Expect: 100-continue\r\n", "X: y\r\n", " folded\r\n", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0",
    "POST /mcp HTTP/1.1\r\n", "GET http://x/ HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n", "CONNECT x:1 HTTP/1.1\r\n", "\r\n",
    "\r\n\r\n", "\n", "\r", "\0", "\t", ":", "%2F", "\xa0", "\x85", "é", "+5", "0x5", "5 ", "chunked", "identity", ",",
)  # fmt: skip
READERS: Final[dict[str, ReadFields]] = {"h11": h11_fields, "httptools": httptools_fields()}


def requests() -> list[str]:
    return [
        f"{each['request']['method']} {each['request']['path']} HTTP/1.1\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in each["request"]["headers"])
        + f"content-length: {len(each['request']['body'].encode())}\r\n\r\n"
        + each["request"]["body"]
        for each in exchanges()
        if len(each["request"]["body"]) < 400
    ]


def _plain_fields(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return header fields as both readers have them: h11 writes some in lower case."""
    fields = [(name.lower(), value.strip(b" \t")) for name, value in headers]
    return [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in fields]


def _head(data: bytes, read_fields: ReadFields) -> tuple[object, ...]:
    head = read_head(data, read_fields)
    return (
        head.method, head.target, _plain_fields(head.headers),
        head.is_one_one, head.length, head.keeps_alive, head.expects_continue,
    )  # fmt: skip


def _taken(pieces: Sequence[bytes]) -> bytes | None:
    buffer = RequestBuffer(2048)
    for piece in pieces:
        head = buffer.take_head(piece)
        if head is not None:
            return head
    return None


def _by_h11(data: bytes) -> h11.Request | None:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError:
        return None
    return event if isinstance(event, h11.Request) else None


@target(
    "request heads",
    HttpRefused,
    tokens=FIELDS,
    hard=(
        "a", ("POST /", "a", " HTTP/1.1\r\n\r\n"), ("POST / HTTP/1.1\r\n", "X: y\r\n", "\r\n"), ("POST / HTTP/1.1\r\nX: ", " ", "\0\r\n\r\n"),
        ("POST / HTTP/1.1\r\nHost: x\r\n", "X:\r\n", "\r\n"), ("POST / HTTP/1.1\r\nHost: x\r\nConnection: ", "a,", "\r\n\r\n"),
        ("POST / HTTP/1.1\r\n", "\r", ""), "\r\n\r", "X: y\r\n", ("GET http://", "a", "/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    ),
    seeds=requests,
)  # fmt: skip
def read_request_heads(data: bytes) -> None:
    pieces = cut(data)
    cuttings = [ending(partial(_taken, p), HttpRefused) for p in (pieces, [data])]
    if HttpRefused not in cuttings:
        assert cuttings[0] == cuttings[1], "where the head ends depends on how it is cut"
    head = RequestBuffer(2048).take_head(data)
    if head is None:
        return
    verdicts = {name: ending(partial(_head, head, r), HttpRefused) for name, r in READERS.items()}
    assert verdicts["h11"] == verdicts["httptools"], verdicts
    read = verdicts["h11"]
    if read is HttpRefused:
        return
    method, target_, fields, is_one_one, length, _, _ = read
    # Another reader must see the same request, or there would be two where we see one.
    other = _by_h11(head)
    assert other is not None, "h11 would refuse it"
    assert other.method.decode() == method
    assert other.target == target_ or other.target.endswith(target_) or target_ == b"/" + other.target[-1:]
    assert sorted(other.headers) == sorted(fields)
    assert (other.http_version == b"1.1") == is_one_one
    named = dict(other.headers)
    if b"transfer-encoding" in named:
        assert length is None
    else:
        assert length == int(named.get(b"content-length", b"0"))


def responses() -> list[str]:
    made: list[str] = []
    for each in exchanges():
        answer = each["response"]
        if len(answer["body"]) < 400:
            head = f"HTTP/1.1 {answer['status']} OK\r\n"
            head += "".join(f"{name}: {value}\r\n" for name, value in answer["headers"])
            made.append(f"{head}content-length: {len(answer['body'].encode())}\r\n\r\n{answer['body']}")
            chunk = f"{len(answer['body'].encode()):x}\r\n{answer['body']}\r\n" if answer["body"] else ""
            made.append(f"{head}transfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n")
    return made


def _answer(pieces: Sequence[bytes], read_fields: ReadFields) -> object:
    reader = ResponseReader("a server", 2048, read_fields)
    body = b""
    for piece in pieces:
        reader.feed(piece)
        body += reader.take()
    head = reader.head
    if head is None:
        return None
    return (
        head.status,
        _plain_fields(head.headers),
        head.framing,
        body,
        reader.is_complete,
        reader.is_reusable,
        reader.has_surplus,
    )


@target(
    "responses",
    RemoteProtocolError,
    ConnectionLost,
    tokens=(*FIELDS, "HTTP/1.1 200 OK\r\n", "HTTP/1.1 204 \r\n", "HTTP/1.1 100 \r\n\r\n", "HTTP/1.1 101 \r\n", "1\r\nx\r\n", "0\r\n\r\n"),
    hard=(
        "a", ("HTTP/1.1 200 ", "a", "\r\n\r\n"), ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", ""),
        ("HTTP/1.1 200 OK\r\n", "X: y\r\n", "\r\n"), ("HTTP/1.1 200 OK\r\nX: ", " ", "\0\r\n\r\n"), ("HTTP/1.1 200 OK\r\n\r\n", "a", ""),
        ("", "HTTP/1.1 100 \r\n\r\n", ""),
    ),
    seeds=responses,
)  # fmt: skip
def read_responses(data: bytes) -> None:
    pieces = cut(data)
    refusals = (RemoteProtocolError, ConnectionLost)
    endings = [ending(partial(_answer, p, r), *refusals) for p in (pieces, [data]) for r in READERS.values()]
    assert endings[0] == endings[1], endings
    assert endings[2] == endings[3], endings
    if endings[0] is not None and endings[2] is not None:
        # A piece too few may be missing for a verdict: then it is not complete either way.
        assert endings[0] == endings[2], endings


def _body(reader: ChunkedReader, pieces: Sequence[bytes]) -> tuple[bytes, bool, bytes]:
    body = b""
    for number, piece in enumerate(pieces):
        body += reader.feed(piece)
        if reader.is_complete:
            return body, True, reader.rest + b"".join(pieces[number + 1 :])
    return body, False, b""


@target(
    "chunks",
    ValueError,
    tokens=("0\r\n\r\n", "1\r\nx\r\n", "a\r\n", "\r\n", "\n", ";x=y", ' ;x="\r\n"', "ffffffffffffffff", "X: y\r\n", "-1", "0x1", "\t", "00"),
    hard=("1\r\nx\r\n", ("", "1;x\r\nx\r\n", ""), ("ffffff\r\n", "a", ""), ("0\r\n", "X: y\r\n", "\r\n"), "0", ";", ("1;", "x", "")),
    seeds=lambda: ["5\r\nhello\r\n0\r\n\r\n", "1;a=b\r\nx\r\n0\r\nX: y\r\n\r\nGET", "A \r\n0123456789\r\n0\r\n\r\n"],
)  # fmt: skip
def read_chunks(data: bytes) -> None:
    whole: dict[bool, Any] = {}
    for of_response in (False, True):
        endings = [
            ending(partial(_body, ChunkedReader(of_response=of_response), p), ValueError)
            for p in ([data], cut(data))
        ]
        assert endings[0] == endings[1], endings
        whole[of_response] = endings[0]
    read = whole[False]
    if read is ValueError:
        return
    assert whole[True] == read, "a response is read more leniently, and alike"
    body, is_complete, rest = read
    if is_complete:
        connection = h11.Connection(h11.SERVER)
        connection.receive_data(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + data)
        connection.next_event()
        other = b""
        while isinstance(event := connection.next_event(), h11.Data):
            other += bytes(event.data)
        assert isinstance(event, h11.EndOfMessage)
        assert (other, connection.trailing_data[0]) == (body, rest)


# WebSockets.

_MASKED: Final = bytes([0x81, 0x85, 1, 2, 3, 4]) + bytes(
    a ^ b for a, b in zip(b"hello", b"\1\2\3\4\1", strict=True)
)


def _guarded(limit: int, pieces: Sequence[bytes]) -> tuple[bytes, object, int, int]:
    guard = FrameGuard(limit)
    handed = b"".join([guard.feed(piece) for piece in pieces])
    return handed, guard.refused, guard.messages, guard.frames


@target(
    "frames",
    tokens=(b"\x81\x05hello", b"\x82\x00", b"\x01\x01a", b"\x80\x01b", b"\x88\x02\x03\xe8", b"\x89\x00", b"\x8a\x7d", b"\x81\x7e\x00\x7e",
            b"\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00", b"\xff" * 8, _MASKED, b"\xc1\x00", b"\x83\x00"),
    hard=(b"\x81\x00", b"\x89\x00", b"\x01\x00", b"\x00\x00", (b"\x81\x7f\x00\x00\x00\x00\x7f\xff\xff\xff", b"a", b""), b"\xff", _MASKED),
    seeds=lambda: [_MASKED * 2, b"\x01\x03abc\x00\x03def\x89\x01x\x80\x03ghi\x88\x02\x03\xe8", b"\x81\x7e\x00\x80" + b"a" * 128],
)  # fmt: skip
def read_frames(data: bytes) -> None:
    whole = _guarded(1 << 20, [data])
    in_pieces = _guarded(1 << 20, cut(data))
    # A frame is handed on when it is whole; how much of the last one is, may differ.
    assert in_pieces[1:] == whole[1:]
    short, long = sorted((whole[0], in_pieces[0]), key=len)
    assert long.startswith(short)
    assert len(long) <= len(data)
    guard = FrameGuard(256)
    handed = b""
    for piece in cut(data):
        handed += guard.feed(piece)
        assert guard.arrived <= 256 + 64 * (1 + guard.frames) + len(data)
    # What the library decodes of it is within the limit.
    for is_client in (False, True):
        decoder = FrameProtocol(client=is_client, extensions=[])
        decoder.receive_bytes(handed)
        size = 0
        try:
            for frame in decoder.received_frames():
                if isinstance(frame.payload, (bytes, bytearray)) and frame.opcode < 8:
                    size += len(frame.payload)
                    assert size <= 256, "a message is larger than the limit"
                    size = 0 if frame.message_finished else size
        except ParseFailed:
            pass


def _answered(pieces: Sequence[bytes]) -> object:
    answer = HandshakeAnswer("a server", 1024)
    answer.note_request(b"GET / HTTP/1.1\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    for number, piece in enumerate([*pieces, b""]):
        if (found := answer.feed(piece)) is not None:
            return found + b"".join(pieces[number + 1 :])
    return None


ACCEPTED: Final = (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"
)


@target(
    "handshake answers",
    ConnectionLost,
    RemoteProtocolError,
    RequestError,
    tokens=(*FIELDS, "HTTP/1.1 101 ", "HTTP/1.1 400 Bad\r\n", "Sec-WebSocket-Accept: ", "Sec-WebSocket-Protocol: mcp\r\n", "Sec-WebSocket-Extensions: x\r\n"),
    hard=(("HTTP/1.1 101 ", "a", ""), ("HTTP/1.1 101 \r\n", "X: y\r\n", "\r\n"), ("HTTP/1.1 400 a\r\n\r\n", "a", ""), "a", "H"),
    seeds=lambda: [ACCEPTED, f"{ACCEPTED}\x81\x00", 'HTTP/1.1 400 Bad\r\nContent-Length: 73\r\n\r\n{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not allowed"}}'],
)  # fmt: skip
def read_handshake_answers(data: bytes) -> None:
    refusals = (ConnectionLost, RemoteProtocolError, RequestError)
    whole, in_pieces = (ending(partial(_answered, p), *refusals) for p in ([data], cut(data)))
    assert whole == in_pieces or ConnectionLost in (whole, in_pieces), (whole, in_pieces)
    if isinstance(whole, bytes):
        assert whole == data
    _answered(cut(data))
