"""What is decided about frames before they are decoded: no byte is lost, and limits hold however bytes are cut."""

from __future__ import annotations

import random

import pytest
from inside_core import (
    LEAST_FRAGMENT,
    MAX_CONTROL_FRAMES,
    PIECE_BYTES,
    FrameGuard,
    is_utf8,
    shown_close,
    text_head,
)
from websocket_raw import BINARY, CLOSE, CONTINUATION, PING, TEXT, frame
from wsproto.frame_protocol import FrameProtocol, ParseFailed

GREAT = 10**9


def handed(*frames: bytes) -> bytes:
    """Return frames as they are handed on: text as binary."""
    return b"".join(bytes([each[0] + (each[0] & 15 == TEXT)]) + each[1:] for each in frames)


def conversation(chance: random.Random) -> tuple[list[bytes], int]:
    """Return messages with control frames between their fragments, and how many messages there are."""
    wire: list[bytes] = []
    for _ in range(10):
        if chance.random() < 0.3:
            wire.append(frame(PING, b"x" * chance.randrange(126)))
        count = chance.randrange(1, 4)
        for number in range(count):
            payload = b"y" * chance.choice((0, 5, 200, PIECE_BYTES, 2 * PIECE_BYTES + 7))
            wire.append(frame(CONTINUATION if number else TEXT, payload, is_last=number == count - 1))
            if chance.random() < 0.3:
                wire.append(frame(PING))
    return wire, 10


def fed(guard: FrameGuard, wire: bytes, chance: random.Random) -> bytes:
    """Feed it in pieces of any size, and return what it hands on."""
    handed = bytearray()
    at = 0
    while at < len(wire):
        size = chance.choice((7, 100, 1000, 65_536))
        handed += guard.feed(wire[at : at + size])
        at += size
    return bytes(handed)


@pytest.mark.parametrize("seed", range(6))
def test_everything_is_handed_on_in_order(seed: int) -> None:
    chance = random.Random(seed)
    wire, messages = conversation(chance)
    guard = FrameGuard(GREAT)
    assert fed(guard, b"".join(wire), chance) == handed(*wire)
    assert guard.messages == messages
    assert guard.size == 0
    assert guard.refused is None


@pytest.mark.parametrize("seed", range(6))
def test_behind_a_refused_message_only_close_is_handed_on(seed: int) -> None:
    chance = random.Random(seed)
    wire, messages = conversation(chance)
    close = frame(CLOSE, (1003).to_bytes(2))
    guard = FrameGuard(GREAT)
    data = b"".join(wire)
    found = fed(guard, data + frame(BINARY, b"z" * 200_000) + data + close + data[:50], chance)
    assert found == handed(*wire) + close
    assert guard.messages == messages
    assert guard.refused is not None
    assert guard.refused.code == 1003


def test_a_frame_that_was_begun_is_handed_on_to_its_end() -> None:
    """Otherwise what follows would be taken for the rest of it."""
    guard = FrameGuard(GREAT)
    long = frame(TEXT, b"x" * (3 * PIECE_BYTES))
    begun = guard.feed(long[: 2 * PIECE_BYTES])
    guard.drop()
    close = frame(CLOSE)
    rest = guard.feed(long[2 * PIECE_BYTES :] + frame(PING) + frame(TEXT, "{}") + close)
    assert begun + rest == handed(long) + close


def test_one_byte_at_a_time() -> None:
    guard = FrameGuard(GREAT)
    frames = frame(TEXT, "{}"), frame(PING, b"?"), frame(TEXT, "x" * 300)
    wire = b"".join(frames)
    assert b"".join(guard.feed(wire[at : at + 1]) for at in range(len(wire))) == handed(*frames)
    assert guard.messages == 2


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_the_limit_is_in_bytes_and_exact(size: int) -> None:
    guard, other = FrameGuard(size), FrameGuard(size)
    assert guard.feed(frame(TEXT, b"x" * size))
    assert guard.refused is None
    assert not other.feed(frame(TEXT, b"x" * (size + 1)))
    assert other.refused is not None
    assert other.refused.code == 1009


def test_it_is_refused_by_its_head_before_it_arrives() -> None:
    guard = FrameGuard(1000)
    assert not guard.feed(frame(TEXT, b"x" * 2000)[:8])
    assert guard.refused is not None


def test_empty_fragments_count() -> None:
    guard = FrameGuard(10 * LEAST_FRAGMENT)
    guard.feed(frame(TEXT, b"", is_last=False))
    codes: list[int | None] = []
    for _ in range(12):
        guard.feed(frame(CONTINUATION, b"", is_last=False))
        codes.append(None if guard.refused is None else guard.refused.code)
    assert codes == [None] * 10 + [1009] * 2


def test_control_frames_do_not_count() -> None:
    guard = FrameGuard(1500)
    assert guard.feed(frame(TEXT, b"x" * 900, is_last=False))
    for _ in range(100):
        assert guard.feed(frame(PING, b"x" * 100))
    assert guard.feed(frame(CONTINUATION, b"x" * 30))
    assert guard.refused is None


def test_control_frames_are_no_conversation() -> None:
    """Thousands in a row hold the event loop; messages and pauses between them make them harmless."""
    ping, message = frame(PING), frame(TEXT, "{}")
    patient, paused, hasty = FrameGuard(GREAT), FrameGuard(GREAT), FrameGuard(GREAT)
    for _ in range(3):
        patient.feed(ping * MAX_CONTROL_FRAMES + message)
        paused.feed(ping * MAX_CONTROL_FRAMES)
        paused.note_pause()
    assert patient.refused is paused.refused is None
    assert hasty.feed(ping * (MAX_CONTROL_FRAMES + 5)) == ping * MAX_CONTROL_FRAMES
    assert hasty.refused is not None
    assert hasty.refused.code == 1008


def test_a_control_frame_that_is_too_large_is_handed_on_at_once() -> None:
    """The library refuses it by its head, and need not wait for the rest."""
    wire = frame(PING, b"x" * 70_000)
    guard = FrameGuard(GREAT)
    assert guard.feed(wire[:20]) == wire[:20]


def test_a_head_that_breaks_the_protocol_is_handed_on_at_once(subtests: pytest.Subtests) -> None:
    """RFC 6455, sections 5.1 to 5.5: the library closes the connection, and does not wait for the payload."""
    cases: dict[str, bytes] = {
        "large ping": b"\x89\xff" + (1 << 62).to_bytes(8) + bytes(4),
        "ping in fragments": b"\x09\x80" + bytes(4),
        "unmasked": b"\x80\x7f" + (100_000).to_bytes(8),
        "opcode": b"\x83\xff" + (100_000).to_bytes(8) + bytes(4),
        "reserved": b"\xc0\xff" + (100_000).to_bytes(8) + bytes(4),
        "126": b"\x80\xfe" + (125).to_bytes(2) + bytes(4),
        "127": b"\x80\xff" + (65_535).to_bytes(8) + bytes(4),
        "sign": b"\x80\xff" + (1 << 63).to_bytes(8) + bytes(4),
    }
    for name, head in cases.items():
        with subtests.test(name):
            guard = FrameGuard(1 << 64)
            guard.is_masked = True
            handed_on = guard.feed(head)
            assert handed_on == head
            library = FrameProtocol(client=False, extensions=[])
            library.receive_bytes(handed_on)
            with pytest.raises(ParseFailed):
                list(library.received_frames())


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_a_message_of_a_server_has_the_head_that_the_library_would_write(size: int) -> None:
    expected = FrameProtocol(client=False, extensions=[]).send_data("x" * size)
    assert text_head(size) + b"x" * size == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", True),
        (b"{}", True),
        (b"x" * (PIECE_BYTES - 1) + "\N{GRINNING FACE}".encode(), True),
        (b"x" * (PIECE_BYTES - 1) + "\N{GRINNING FACE}".encode()[:3], False),
        (b"\xed\xa0\x80", False),
    ],
)
def test_text_is_told_from_other_bytes(data: bytes, expected: bool) -> None:
    assert is_utf8(data) is expected


def test_close_codes_are_shown() -> None:
    assert shown_close(1001, None) == "1001 (going away)"
    assert shown_close(4001, "bye\x1b") == "4001: bye\\x1b"
