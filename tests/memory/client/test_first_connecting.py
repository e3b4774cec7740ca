"""Connecting that is cut short, and connections that end in odd ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from shared.client_first_connecting import ENOUGH, make_server, serve, use_block, use_peer, use_task
from wires import ScriptedChannel, answer, modern_server, wait_lost

from trio_mcp import (
    RemoteProtocolError,
    StreamChannel,
    memory_channel_pair,
    open_client,
)


@pytest.mark.parametrize("use", [use_block, use_task, serve, use_peer])
async def test_nothing_is_begun_under_cancellation(
    use: Callable[[], Any], autojump_clock: trio.testing.MockClock
) -> None:
    """The simplest case of it."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await use()
    assert scope.cancelled_caught
    assert trio.current_time() == 0


async def test_closing_the_channel_of_a_client_ends_its_calls_and_not_its_block(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The owner of the channel may close it. That is a lost connection, and a lost connection ends no block."""
    ours, theirs = memory_channel_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(make_server().serve_channel, theirs)
        async with open_client(ours) as client:
            await ours.aclose()
            lost = await wait_lost(lambda: client.call_tool("quick"))
            assert "was closed" in lost.reason
            assert isinstance(lost.__cause__, trio.ClosedResourceError)


class BreakingChannel(ScriptedChannel):
    """Fails as Trio's own streams do, in the one direction or the other."""

    broken: str = ""
    text: tuple[str, ...] = ("the wire is cut",)

    async def send(self, messages: Any) -> None:
        await super().send(messages)
        if self.broken == "send":
            raise trio.BrokenResourceError(*self.text)

    async def receive(self) -> Any:
        received = await super().receive()
        if self.broken == "receive":
            raise trio.BrokenResourceError(*self.text)
        return received


@pytest.mark.parametrize("direction", ["send", "receive"])
async def test_a_channel_may_fail_as_streams_do(direction: str, autojump_clock: trio.testing.MockClock) -> None:
    """A transport of somebody else's may forget to say `ConnectionLost`."""
    channel = BreakingChannel(modern_server(lambda message: answer(message, {}) if "id" in message else None))
    async with open_client(channel, revision="2026-07-28") as client:
        channel.broken = direction
        lost = await wait_lost(lambda: client.request("x/y"))
        assert lost.reason == "the channel to the scripted peer failed: the wire is cut"


async def test_an_error_without_a_text_is_named(autojump_clock: trio.testing.MockClock) -> None:
    """By its type: most errors of streams have none."""
    channel = BreakingChannel(modern_server(lambda message: answer(message, {}) if "id" in message else None))
    channel.text = ()
    async with open_client(channel, revision="2026-07-28") as client:
        channel.broken = "send"
        lost = await wait_lost(lambda: client.request("x/y"))
        assert lost.reason == "the channel to the scripted peer failed: BrokenResourceError"


async def test_an_answer_that_is_too_large_fails_its_call_whatever_is_in_it() -> None:
    """A result may have a member called `method`; it is an answer all the same, and somebody waits for it."""
    server = make_server()

    @server.request_handler("x/y")
    async def large(params: Any, context: Any) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"method": "GET", "text": "x" * 5000}

    ours, theirs = trio.testing.memory_stream_pair()
    far = StreamChannel(theirs, theirs, max_message_bytes=10**6, description="the client")
    near = StreamChannel(ours, ours, max_message_bytes=2000, description="the server")
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve_channel, far)
            async with open_client(near) as client:
                with pytest.raises(RemoteProtocolError, match="the answer was a message of 5"):
                    await client.request("x/y")
