"""What the kit offers to be awaited checkpoints, on its short paths too."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeAlias

import pytest
import trio
import trio.testing

from trio_mcp import Channel, Outgoing, Server, memory_channel_pair
from trio_mcp import testing as kit
from trio_mcp.testing import (
    Faulty,
    FaultyApp,
    FaultyStream,
    RecordedFrame,
    Recording,
    ScriptedPeer,
    replay_client,
    scripted_client,
)

Act: TypeAlias = Callable[[], Awaitable[object]]
CASES: Final[list[tuple[str, Callable[[], AbstractAsyncContextManager[Act]]]]] = []


def peer_case(name: str, act: Callable[[ScriptedPeer], Awaitable[object]], answers: bytes | None = None) -> None:
    """Add a method of a peer, whose other end reads, and says this first."""

    @asynccontextmanager
    async def setting() -> AsyncGenerator[Act]:
        near, far = memory_channel_pair()

        async def read() -> None:
            while True:
                await far.receive()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            if answers is not None:
                nursery.start_soon(far.send, [Outgoing(answers)])
            peer = ScriptedPeer(near)
            yield lambda: act(peer)
            nursery.cancel_scope.cancel()

    CASES.append((f"ScriptedPeer.{name}", setting))


peer_case("say", lambda peer: peer.say({"a": 1}))
peer_case("say", lambda peer: peer.say())
peer_case("answer", lambda peer: peer.answer({"id": 1}, {}))
peer_case("refuse", lambda peer: peer.refuse({"id": 1}, -1, "no", {}))
peer_case("notify", lambda peer: peer.notify("a"))
peer_case("request", lambda peer: peer.request("a"))
peer_case("call", lambda peer: peer.call("a"), b'{"jsonrpc":"2.0","id":1,"result":{}}')
peer_case("play", lambda peer: peer.play([]))
peer_case("expect", lambda peer: peer.expect(...), b"1")
peer_case("expect_nothing", lambda peer: peer.expect_nothing())
peer_case("hang_up", lambda peer: peer.hang_up())
peer_case("accept", lambda peer: peer.accept(), b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}')
peer_case(
    "shake_hands",
    lambda peer: peer.shake_hands(),
    b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}',
)


@asynccontextmanager
async def ended() -> AsyncGenerator[Act]:
    near, far = memory_channel_pair()
    await far.aclose()
    yield ScriptedPeer(near).expect_end


CASES.append(("ScriptedPeer.expect_end", ended))


def channel_case(name: str, act: Callable[[Channel, Channel], Awaitable[object]]) -> None:
    @asynccontextmanager
    async def setting() -> AsyncGenerator[Act]:
        near, far = memory_channel_pair()
        async with trio.open_nursery() as nursery:
            if name == "send":
                nursery.start_soon(far.receive)
            if name == "receive":
                nursery.start_soon(far.send, [Outgoing(b"1")])
            yield lambda: act(Faulty(near), far)
            nursery.cancel_scope.cancel()

    CASES.append((f"Faulty.{name}", setting))


channel_case("send", lambda near, _: near.send([Outgoing(b"1")]))
channel_case("send", lambda near, _: near.send([]))
channel_case("receive", lambda near, _: near.receive())
channel_case("aclose", lambda near, _: near.aclose())


def stream_case(name: str, act: Callable[[FaultyStream], Awaitable[object]]) -> None:
    @asynccontextmanager
    async def setting() -> AsyncGenerator[Act]:
        near, far = trio.testing.memory_stream_pair()
        await far.send_all(b"1")
        yield lambda: act(FaultyStream(near))

    CASES.append((f"FaultyStream.{name}", setting))


stream_case("send_all", lambda stream: stream.send_all(b"1"))
stream_case("send_all", lambda stream: stream.send_all(b""))
stream_case("send_eof", lambda stream: stream.send_eof())
stream_case("receive_some", lambda stream: stream.receive_some())
stream_case("aclose", lambda stream: stream.aclose())
stream_case("wait_send_all_might_not_block", lambda stream: stream.wait_send_all_might_not_block())


@asynccontextmanager
async def replayed() -> AsyncGenerator[Act]:
    await trio.lowlevel.checkpoint()
    server: Server[Any] = Server("nothing")
    recording = Recording([RecordedFrame("sent", {"jsonrpc": "2.0", "method": "notifications/initialized"})])
    yield lambda: replay_client(recording, server)


CASES.append(("replay_client", replayed))

# What others implement, or call: Trio's way to wait for room goes by the channel beneath.
NOT_TRIED: Final = {"Faulty.wait_room"}


async def test_it_checkpoints(subtests: pytest.Subtests) -> None:
    """An `await` that never gives way starves everybody else, and cannot be cancelled."""
    for name, setting in CASES:
        with subtests.test(name=name, setting=setting), trio.fail_after(10):
            async with setting() as act:
                with trio.testing.assert_checkpoints():
                    await act()


def test_every_public_async_function_has_a_case() -> None:
    """One that is added must be tried: this is the reminder."""
    found: set[str] = set()
    for name in vars(kit)["__all__"]:
        value = getattr(kit, name)
        if name in {"AuthorizationServer", "ChannelTests", "TaskStoreTests", "SharedTaskStoreTests"}:
            continue  # tests, which nothing awaits but their runner; and a server, whose calls are an application's
        if inspect.iscoroutinefunction(value):
            found.add(name)
        elif inspect.isclass(value):
            found |= {
                f"{name}.{member}"
                for member, function in vars(value).items()
                if member[0] != "_" and inspect.iscoroutinefunction(function)
            }
    assert found - NOT_TRIED <= {name for name, _ in CASES}
    assert "ScriptedPeer.say" in found


async def test_an_application_that_is_called_by_hand_checkpoints() -> None:
    """As ASGI applications do, before they return."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"type": "http.request"}

    async def send(_: object) -> None:
        await trio.lowlevel.checkpoint()

    with trio.testing.assert_checkpoints():
        await FaultyApp(app)({"type": "http", "method": "GET"}, receive, send)


async def test_a_block_that_does_nothing_ends() -> None:
    """Opening and leaving are checkpoints."""
    server: Server[Any] = Server("nothing")
    with trio.testing.assert_checkpoints():
        async with scripted_client(server):
            pass
