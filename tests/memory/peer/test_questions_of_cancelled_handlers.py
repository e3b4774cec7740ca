"""What becomes of a handler's question when the handler is cancelled, or its connection ends."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from inside_peer import Exchange, Hooks, Peer, open_peer
from peers import Handlers, cancelled, note, request
from wires import ScriptedChannel

from trio_mcp import ConnectionLost, Limits, LocalProtocolError, Notification

ENDS = ["closed", "aborted", "lost"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("where", ["for its answer", "for a place"])
async def test_a_handler_that_asks_while_its_connection_ends_is_cancelled_there(
    where: str, end: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 4: it ends as at any other await; what its question would have failed with is nobody's failure."""
    outcomes: list[str] = []

    async def ask(exchange: Exchange) -> dict[str, object]:
        try:
            return await exchange.ask("x/question")
        except BaseException as error:
            outcomes.append(type(error).__name__)
            raise

    channel = ScriptedChannel()
    limits = Limits(max_outbound_requests=1 if where == "for a place" else 10)
    async with open_peer(channel, Handlers({"x/ask": ask}), limits) as peer:
        channel.say(request(1, "x/ask"), request(2, "x/ask"))
        await trio.testing.wait_all_tasks_blocked()
        assert peer.statistics().exchanges == 2
        match end:
            case "closed":
                await peer.aclose()
            case "aborted":
                peer.abort()
            case _:
                channel.hang_up(ConnectionLost("the cable was cut"))
        await trio.testing.wait_all_tasks_blocked()
    assert outcomes == ["Cancelled", "Cancelled"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("waits", ["for room", "for an event"])
async def test_what_a_handler_says_while_it_cleans_up_is_dropped_when_its_connection_ends(
    waits: str, end: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Behind a shield it is not cancelled, and has no use for an error of a connection that ends it anyway."""
    outcomes: list[str] = []
    has_ended = trio.Event()

    async def clean_up(exchange: Exchange) -> dict[str, object]:
        try:
            with trio.CancelScope(shield=True):
                if waits == "for an event":
                    await has_ended.wait()
                for step in range(2):
                    await exchange.notify("x/cleaned")
                    await exchange.report(step, None, None)
                exchange.notify_nowait("x/cleaned")
            await trio.lowlevel.checkpoint()
        except BaseException as error:
            outcomes.append(type(error).__name__)
            raise
        return {}

    channel = ScriptedChannel()
    async with open_peer(channel, Handlers({"x/call": clean_up}), Limits(max_outbox_bytes=1)) as peer:
        channel.stop_reading()
        for _ in range(2):  # the first is being written, the second lies there
            await peer.notify("x/stuck")
            await trio.testing.wait_all_tasks_blocked()
        channel.say({**request(1, "x/call"), "params": {"_meta": {"progressToken": 1}}})
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            match end:
                case "closed":
                    nursery.start_soon(peer.aclose)
                case "aborted":
                    peer.abort()
                case _:
                    channel.hang_up(ConnectionLost("the cable was cut"))
            await trio.testing.wait_all_tasks_blocked()
            has_ended.set()
    assert outcomes == ["Cancelled"]


@pytest.mark.parametrize("how", ["openly", "behind a shield"])
@pytest.mark.parametrize("waits", ["to be written", "for room"])
async def test_a_question_that_was_not_written_goes_with_its_request(
    waits: str, how: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 4: nothing more is sent, not even what lay in the send queue; and who asked behind a shield learns of it."""
    outcomes: list[str] = []

    async def ask(exchange: Exchange) -> dict[str, object]:
        try:
            with trio.CancelScope(shield=how == "behind a shield"):
                await exchange.ask("x/question")
        except BaseException as error:
            outcomes.append(type(error).__name__)
            raise
        return {}

    channel = ScriptedChannel()
    limits = Limits(max_outbox_bytes=1 if waits == "for room" else 1_000)
    async with open_peer(channel, Handlers({"x/ask": ask}), limits) as peer:
        channel.stop_reading()
        for _ in range(2):  # the first is being written, the second lies there
            await peer.notify("x/stuck")
            await trio.testing.wait_all_tasks_blocked()
        channel.say(request(1, "x/ask"))
        await trio.testing.wait_all_tasks_blocked()
        assert peer.statistics().calls == (0 if waits == "for room" else 1)
        channel.say(cancelled(1))
        await trio.testing.wait_all_tasks_blocked()
        if (waits, how) != ("for room", "behind a shield"):
            assert len(outcomes) == 1
        channel.reading.set()
        await trio.testing.wait_all_tasks_blocked()
        assert peer.statistics().calls == peer.statistics().exchanges == 0
    assert outcomes == ["Cancelled" if how == "openly" else LocalProtocolError.__name__]
    assert [message["method"] for message in channel.sent] == ["x/stuck", "x/stuck"]


async def test_a_question_lies_nowhere_from_the_moment_its_request_is_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Promise 4: before the handler has its turn another task, such as the reader, may write what is queued."""
    channel = ScriptedChannel()
    sizes: list[int] = []
    peers: list[Peer] = []

    async def ask(exchange: Exchange) -> dict[str, object]:
        return await exchange.ask("x/question")

    def look(_: Notification) -> None:
        sizes.append(peers[0].statistics().outbox_bytes)

    async with open_peer(
        channel, Handlers({"x/ask": ask}), Limits(), hooks=Hooks(on_notification_read=look)
    ) as peer:
        peers.append(peer)
        channel.stop_reading()
        await peer.notify("x/stuck")
        await trio.testing.wait_all_tasks_blocked()
        channel.say(request(1, "x/ask"))
        await trio.testing.wait_all_tasks_blocked()
        channel.say(note("x/before"), cancelled(1), note("x/behind"))
        await trio.testing.wait_all_tasks_blocked()
        channel.reading.set()
    assert sizes[0] > 0
    assert sizes[1] == 0
