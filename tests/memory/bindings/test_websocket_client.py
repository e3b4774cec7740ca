"""The client's end of a WebSocket, against servers that say what they like, byte by byte."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
import trio.testing
from inside_core import FrameGuard
from inside_transports import (
    GuardedStream,
    HandshakeAnswer,
    StreamWire,
    WebSocketChannel,
    open_websocket_channel,
    propose,
)
from shared.bindings_websocket_client import accept
from websocket_raw import CLOSE, TEXT, RawSocket, frame

from trio_mcp import (
    ConnectionLost,
    Limits,
    WebSocketServerParameters,
)


async def test_a_server_that_leaves_while_it_is_sent_the_handshake_is_lost_at_once(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Promise 7: the library would wait for an answer to what it could not send."""
    near, far = trio.testing.memory_stream_pair()
    await far.aclose()
    stream = GuardedStream(StreamWire(near), FrameGuard(1000), lambda _: None, lambda: None)
    with trio.fail_after(1), pytest.raises(ConnectionLost, match="closed the connection in the handshake"):
        await propose(nursery, stream, "localhost", "/", [], HandshakeAnswer("the server", 1000))


async def test_a_channel_that_is_full_is_closed_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """max_waiting_bytes: nothing is read while so much waits, but Close is, which is behind it."""
    near, far = trio.testing.memory_stream_pair()
    socket = RawSocket(far)
    limits = Limits(max_waiting_bytes=2_000, goodbye_timeout=5)
    channel = WebSocketChannel(
        limits, "the server", wire=StreamWire(near), ping_interval=math.inf, ping_timeout=math.inf
    )

    async def connect(tasks: trio.Nursery, stream: GuardedStream) -> Any:
        return await propose(tasks, stream, "localhost", "/mcp", [], HandshakeAnswer("the server", 1 << 16))

    async def serve() -> None:
        await accept(socket)
        for _ in range(200):
            await socket.send(frame(TEXT, "x" * 1_000, is_masked=False))
            await trio.testing.wait_all_tasks_blocked()
        assert (await socket.receive()).opcode == CLOSE
        await socket.send(frame(CLOSE, (1000).to_bytes(2), is_masked=False))
        await far.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with open_websocket_channel(channel, connect):
            await trio.sleep(1)
            closed_at = trio.current_time()
            assert channel._stream.is_paused
    assert trio.current_time() == closed_at


@pytest.mark.parametrize("url", ["ws:/x", "ws://", "http://x/", "ws://user:secret@x/", "wss+unix://x", 7])
def test_urls_that_cannot_be_used(url: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        WebSocketServerParameters(url)
    assert "secret" not in str(refused.value)


def test_headers_that_cannot_be_sent(subtests: pytest.Subtests) -> None:
    """As over HTTP; the message does not repeat the value."""
    rows: list[tuple[Any, type[Exception]]] = [
        ({"Sec-WebSocket-Key": "secret"}, ValueError),
        ({"connection": "secret"}, ValueError),
        ({"Upgrade": "secret"}, ValueError),
        ({"Host": "secret"}, ValueError),
        ({"X": "secret\r\nY: z"}, ValueError),
        ({"X": "secret\N{GRINNING FACE}"}, ValueError),
        ({"a b": "secret"}, ValueError),
        ({"X": 7}, TypeError),
        ("X: secret", TypeError),
    ]
    for headers, error in rows:
        with subtests.test(headers=headers, error=error):
            with pytest.raises(error) as refused:
                WebSocketServerParameters("ws://x/", headers=headers)
            assert "secret" not in str(refused.value) or headers == "X: secret"


def test_secrets_are_not_shown() -> None:
    parameters = WebSocketServerParameters("wss://x/mcp?key=secret", headers={"Authorization": "secret"})
    assert "secret" not in repr(parameters)
    assert "secret" not in parameters.description


async def test_a_message_that_was_begun_is_dropped_with_its_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What comes of it behind that is no message: its beginning is not there any more."""
    near, far = trio.testing.lockstep_stream_pair()  # so Close waits until the server reads
    socket = RawSocket(far)
    channel = WebSocketChannel(
        Limits(), "the server", wire=StreamWire(near), ping_interval=math.inf, ping_timeout=math.inf
    )
    data = frame(TEXT, " " * 300_000 + "{}", is_masked=False)

    async def connect(tasks: trio.Nursery, stream: GuardedStream) -> Any:
        return await propose(tasks, stream, "localhost", "/mcp", [], HandshakeAnswer("the server", 1 << 16))

    async def serve() -> None:
        await accept(socket)
        await socket.send(data[:200_000])
        channel.lose("there is no room")
        await socket.send(data[200_000:])
        await trio.sleep(1)
        assert (await socket.receive()).opcode == CLOSE
        await far.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with open_websocket_channel(channel, connect):
            await trio.sleep(0.5)
            with pytest.raises(ConnectionLost, match="there is no room"):
                await channel.receive()
