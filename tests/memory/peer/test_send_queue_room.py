"""What lies ready to be written: who waits for room is woken, one by one while there is room, all at the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from inside_peer import Peer, QueuedMessage, SendQueue, open_peer
from peers import Handlers, request
from wires import ScriptedChannel

from trio_mcp import ConnectionLost, Limits, Outgoing


def entry(size: int, *, urgent: bool = False) -> QueuedMessage:
    return QueuedMessage(Outgoing(b"x" * size), urgent=urgent)


@pytest.mark.parametrize("waiting", ["wait_room", "wait_urgent_room", "wait_empty"])
async def test_closing_wakes_every_waiter(waiting: str) -> None:
    """Whatever they wait for will not come: nothing is written any more."""
    queue = SendQueue(100)
    queue.put(entry(100, urgent=True))
    gone: list[int] = []

    async def wait(number: int) -> None:
        await getattr(queue, waiting)()
        gone.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(wait, number)
        await trio.testing.wait_all_tasks_blocked()
        assert gone == []
        queue.close()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gone) == [0, 1, 2]
        for wait_again in (queue.wait_room, queue.wait_urgent_room, queue.wait_empty):
            await wait_again()
        queue.put(entry(1_000, urgent=True))
        assert (queue.size, queue.is_full, queue.is_overfull) == (0, False, False)


async def test_the_room_of_a_large_message_is_for_all_who_fit() -> None:
    """Its leaving wakes the first who waits, and nothing else leaves that could wake the others."""
    queue = SendQueue(100)
    queue.put(entry(100))
    order: list[int] = []

    async def put(number: int) -> None:
        await queue.wait_room()
        queue.put(entry(40))
        order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(put, number)
            await trio.testing.wait_all_tasks_blocked()
        await queue.take()
        await trio.testing.wait_all_tasks_blocked()
        assert order == [0, 1, 2], "the third finds 80 bytes and makes it full, the fourth does not fit"
        await queue.take()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(order) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("rounds", [1, 20])
async def test_senders_that_wait_for_room_are_not_overtaken(rounds: int) -> None:
    """Who is woken for room that something urgent has taken keeps its place, and who comes meanwhile waits behind it."""
    queue = SendQueue(100)
    queue.put(entry(100))
    order: list[object] = []

    async def put(name: object) -> None:
        await queue.wait_room()
        queue.put(entry(100))
        order.append(name)

    async with trio.open_nursery() as nursery:
        for name in ("first", "second", "third"):
            nursery.start_soon(put, name)
            await trio.testing.wait_all_tasks_blocked()
        for number in range(rounds):
            await queue.take()  # wakes the first, which finds
            queue.put(entry(100, urgent=True))  # this in its place
            nursery.start_soon(put, number)
            await trio.testing.wait_all_tasks_blocked()
            assert order == []
        for _ in range(3 + rounds):
            await queue.take()
            assert queue.is_full, "there is room, and others who wait for it"
            await trio.testing.wait_all_tasks_blocked()
    assert order == ["first", "second", "third", *range(rounds)]
    await queue.take()
    assert not queue.is_full


async def test_a_line_for_room_ends_with_those_who_give_up_waiting() -> None:
    """Cancelled, they leave nothing behind that others would have to wait for."""
    queue = SendQueue(100)
    queue.put(entry(100))
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(queue.wait_room)
        await trio.testing.wait_all_tasks_blocked()
        await queue.take()
        nursery.cancel_scope.cancel()
    assert not queue.is_full
    with trio.fail_after(1):
        await queue.wait_room()


async def _fill(peer: Peer) -> None:
    """Leave the writer with one message that is stuck, and the send queue full with another one."""
    for method in ("x/stuck", "x/full"):
        await peer.notify(method, {"much": "x" * 200})
        await trio.testing.wait_all_tasks_blocked()


async def test_senders_that_wait_for_room_go_on_as_soon_as_there_is(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One large message goes out, the wire is stuck again, and all who fit into its room have it."""
    channel = ScriptedChannel()
    sent: list[str] = []

    async def notify(peer: Peer, method: str) -> None:
        await peer.notify(method)
        sent.append(method)

    limits = Limits(max_outbox_bytes=200, goodbye_timeout=1)
    async with open_peer(channel, Handlers(), limits) as peer, trio.open_nursery() as nursery:
        channel.stop_reading()
        reading = channel.reading
        await _fill(peer)
        for i in range(3):
            nursery.start_soon(notify, peer, f"x/{i}")
            await trio.testing.wait_all_tasks_blocked()
        assert sent == []
        channel.stop_reading()
        reading.set()  # for the first message alone
        await trio.testing.wait_all_tasks_blocked()
        assert [message["method"] for message in channel.sent] == ["x/stuck"]
        assert sent == ["x/0", "x/1", "x/2"]


async def test_the_loss_of_the_connection_ends_every_wait_for_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Promise 7: who notifies, who asks, and a handler that has something to say, none of them waits on."""
    channel = ScriptedChannel()
    ended: list[str] = []

    async def expect_lost(name: str, say: Callable[[str], Awaitable[object]]) -> None:
        with pytest.raises(ConnectionLost, match="the cable was cut"):
            await say(name)
        ended.append(name)

    with trio.fail_after(60):
        async with open_peer(channel, Handlers(), Limits(max_outbox_bytes=200)) as peer:
            async with trio.open_nursery() as nursery:
                channel.stop_reading()
                await _fill(peer)
                for name, say in (("x/1", peer.notify), ("x/2", peer.request), ("x/3", peer.notify)):
                    nursery.start_soon(expect_lost, name, say)
                await trio.testing.wait_all_tasks_blocked()
                assert ended == []
                begin = trio.current_time()
                channel.hang_up(ConnectionLost("the cable was cut"))
            assert sorted(ended) == ["x/1", "x/2", "x/3"]
            assert trio.current_time() == begin
        assert trio.current_time() == begin, "there is no peer left to write to"


async def test_leaving_waits_no_longer_for_a_wire_that_is_lost_meanwhile(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What is queued is given its time as long as the other end may still read it."""
    channel = ScriptedChannel()

    async def lose() -> None:
        await trio.sleep(1)
        channel.hang_up(ConnectionLost("the cable was cut"))

    async with trio.open_nursery() as nursery:
        async with open_peer(channel, Handlers(), Limits(goodbye_timeout=30)) as peer:
            channel.stop_reading()
            await _fill(peer)
            nursery.start_soon(lose)
        assert trio.current_time() == 1


async def test_a_reader_that_pauses_because_its_answers_are_not_read_is_released(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What it answers itself fills the send queue; then writing fails, and who asked something learns it."""

    class Cut(ScriptedChannel):
        async def send(self, messages: object) -> None:
            await self.reading.wait()
            raise ConnectionLost("the cable was cut")

    channel = Cut()
    with trio.fail_after(60):
        async with open_peer(channel, Handlers({"ping": {}}), Limits(max_outbox_bytes=100)) as peer:
            channel.stop_reading()
            channel.say(*(request(i, "ping") for i in range(100)))
            await trio.testing.wait_all_tasks_blocked()
            assert 0 < peer.statistics().outbox_bytes < 1_000
            channel.reading.set()
            await peer.wait_input_ended()
            with pytest.raises(ConnectionLost, match="the cable was cut"):
                await peer.notify("x/y")
