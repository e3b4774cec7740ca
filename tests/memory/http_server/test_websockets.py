"""WebSockets as the server serves them, spoken to byte by byte: RFC 6455, who is let in, and what ends nothing."""

from __future__ import annotations

from typing import final

import pytest
import trio
import trio.testing
from inside_core import FrameGuard, FrameRefused
from inside_transports import GuardedStream
from websocket_raw import (
    CLOSE,
    CONTINUATION,
    PONG,
    TEXT,
    frame,
)

# What is kept, and how often.


@final
class _HeardWire:
    """A wire that notes what it is given to send, and brings something now and then.

    Attributes:
        sent: What it was given, piece by piece.
        arriving: What it brings, each after so many seconds; nothing after that.
    """

    def __init__(self, *arriving: tuple[float, bytes]) -> None:
        self.sent: list[bytes] = []
        self.arriving = list(arriving)

    async def receive(self, most: int = 0) -> bytes:
        del most
        if not self.arriving:
            await trio.sleep_forever()
        seconds, data = self.arriving[0]
        await trio.sleep(seconds)
        del self.arriving[0]
        return data

    async def send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(data)

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()

    def cut(self) -> None:
        raise AssertionError


async def test_a_large_answer_is_sent_without_a_copy() -> None:
    """Who does not read it keeps it in memory once; what was gathered before it goes first, Close ends all."""
    wire = _HeardWire()
    stream = GuardedStream(wire, FrameGuard(1000), lambda _: None, lambda: None)
    small, large = b"{}", b"x" * 1_000_000
    stream.gather()
    await stream.send_text(small)
    assert not wire.sent
    await stream.send_text(large)
    assert b"".join(wire.sent) == b"\x81\x02{}" + b"\x81\x7f" + (1_000_000).to_bytes(8) + large
    assert wire.sent[-1] is large
    await stream.send_all(frame(CLOSE))
    for data in (small, large):
        with pytest.raises(trio.BrokenResourceError, match="Close was sent"):
            await stream.send_text(data)


MESSAGE, HALF = frame(TEXT, "{}"), frame(TEXT, "{", is_last=False)
NONE = "no message has come within 30 s (message_timeout)"
NO_END = "a message has not ended within 30 s (message_timeout)"
DROP, REST = frame(CONTINUATION, " ", is_last=False), frame(CONTINUATION, "}")


@pytest.mark.parametrize(
    ("arriving", "reason", "after"),
    [
        ([], NONE, 30),
        ([(9, frame(PONG))] * 5, NONE, 30),
        ([(1, HALF), *[(8, DROP)] * 5], NONE, 30),
        ([(1, MESSAGE), (50, HALF)], NO_END, 81),
        ([(1, MESSAGE), (50, HALF), *[(9, DROP)] * 5], NO_END, 81),
        ([(1, MESSAGE), (50, HALF), *[(9, frame(PONG))] * 5], NO_END, 81),
        ([(1, MESSAGE), (50, MESSAGE[:1])], NO_END, 81),
        ([(1, MESSAGE), (1, HALF), *[(9, REST + HALF)] * 5, (9, REST)], None, 1000),
        ([(1, MESSAGE), *[(50, frame(PONG))] * 5], None, 1000),
    ],
)
async def test_messages_must_come_in_time(
    arriving: list[tuple[float, bytes]], reason: str | None, after: float, autojump_clock: trio.testing.MockClock
) -> None:
    """The first one since the handshake, each later one since its first byte; control frames are none."""
    refused: list[tuple[FrameRefused, float]] = []
    begin = trio.current_time()
    stream = GuardedStream(
        _HeardWire(*arriving),
        FrameGuard(1_000_000),
        lambda why: refused.append((why, trio.current_time() - begin)),
        lambda: None,
        30,
    )
    stream.open()
    with trio.move_on_after(1000):
        while True:
            await stream.receive_some()
    if reason is None:
        assert not refused
    else:
        [(error, when)] = refused
        assert error == FrameRefused(1008, reason)
        assert when == pytest.approx(after)
