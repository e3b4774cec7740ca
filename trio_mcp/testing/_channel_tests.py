"""What transports are tested with, for those who write their own.

    class TestMyChannel(trio_mcp.testing.ChannelTests):
        @asynccontextmanager
        async def open_pair(self):
            ...
            yield one_end, other_end

The tests are asynchronous methods, for pytest-trio with ``trio_mode = true``. Nothing here imports pytest.
"""

from __future__ import annotations

import abc
import itertools
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final

import trio
import trio.testing

from .._channel import Channel, Incoming, Outgoing, Received
from .._client._client import Client
from .._client._open import open_client
from .._errors import ConnectionLost, McpError
from .._server._context import Context
from .._server._server import Server

_END: Final = (trio.EndOfChannel, ConnectionLost)
"""How the other side's end is told."""


class ChannelTests(abc.ABC):
    """What every transport promises, as tests: subclass it, and say how two connected ends are opened.

    The first half sends and receives by hand. The second half runs a client and a server over the two ends, and
    checks the contract of docs/cancellation.md where a transport could break it.

    Attributes:
        seconds: How long each test may take.
        sizes: The sizes of messages, in bytes, that must go through.
        has_order: Whether all messages of one direction arrive in the order in which they were sent. Only a
            transport with several streams may say no, and then each request has one of its own.
    """

    seconds: float = 30
    sizes: Sequence[int] = (100, 4_000, 70_000, 1_000_000)
    has_order: bool = True

    @abc.abstractmethod
    def open_pair(self) -> AbstractAsyncContextManager[tuple[Channel, Channel]]:
        """Open two ends of one connection, the first for a client. The tests close both before they leave."""

    # By hand.

    async def test_messages_arrive_whole(self) -> None:
        """Whatever is in them, and however large they are."""
        odd = _message(1, 'a line\nbreak, a \\ and a " and \u2028, \x00, é, 😀')
        messages = [odd, *(_message(id, "x" * size) for id, size in enumerate(self.sizes, 2))]
        async with self._opened() as (one, other):
            for sender, receiver in ((one, other), (other, one)):
                assert _sorted(await _carried(sender, receiver, messages)) == messages

    async def test_messages_arrive_in_order(self) -> None:
        """Those that are sent together, and one by one; each once."""
        messages = [_message(id, str(id)) for id in range(300)]
        async with self._opened() as (one, other), trio.open_nursery() as nursery:
            nursery.start_soon(_send_in_groups, one, messages)
            found = await _received(other, len(messages))
        assert _sorted(found) == messages
        if self.has_order:
            assert found == messages

    async def test_a_cancelled_receive_loses_nothing(self) -> None:
        """A task that is cancelled while it waits for messages leaves them to the next one."""
        messages = [_message(id, "x" * 3_000) for id in range(200)]
        found: list[bytes] = []
        async with self._opened() as (one, other), trio.open_nursery() as nursery:
            nursery.start_soon(_send_in_groups, one, messages)
            for passes in itertools.cycle((1, 2, 3, 4)):
                if len(found) == len(messages):
                    break
                with trio.CancelScope() as scope:
                    nursery.start_soon(_cancel_after, passes, scope)
                    found += _data(await other.receive())
        assert _sorted(found) == messages

    async def test_the_end_of_one_side_is_the_end_for_the_other(self) -> None:
        """After everything that was sent before it. It is told again and again, and not as silence."""
        messages = [_message(id, "x") for id in range(10)]
        async with self._opened() as (one, other):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_send_and_close, one, messages)
                found = await _received(other, len(messages))
            assert found == messages
            for _ in range(2):
                assert await _ends(other)

    async def test_a_cancelled_receive_is_cancelled(self) -> None:
        """It does not take the cancellation for an end, or for nothing that has come."""
        async with self._opened() as (one, _):
            with trio.CancelScope() as scope:
                scope.cancel()
                received = await one.receive()
                raise AssertionError(f"receive() was cancelled and returned {received!r}")
            assert scope.cancelled_caught

    async def test_sending_to_a_side_that_has_gone_fails(self) -> None:
        """By `ConnectionLost`, sooner or later: what is on its way then may be lost in silence."""
        piece = Outgoing(_message(1, "x" * 100_000), (1,))
        async with self._opened() as (one, other):
            await other.aclose()
            while True:
                try:
                    await one.send([piece])
                except ConnectionLost:
                    return
                except Exception as error:
                    raise AssertionError(
                        f"sending to a side that has gone must raise ConnectionLost, not {type(error).__name__}"
                    ) from error
                await trio.lowlevel.checkpoint()

    async def test_closing_wakes_who_receives(self) -> None:
        """By `trio.ClosedResourceError`: this side has closed the channel, and not the other one."""
        async with self._opened() as (one, _), trio.open_nursery() as nursery:
            told: list[type[BaseException]] = []

            async def wait() -> None:
                try:
                    await one.receive()
                except (trio.ClosedResourceError, *_END) as error:
                    told.append(type(error))

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await one.aclose()
            await one.aclose()  # again: does nothing
            await _until(lambda: bool(told))
            assert told == [trio.ClosedResourceError]

    async def test_nothing_is_sent_through_a_closed_channel(self) -> None:
        """Neither in silence nor for ever."""
        async with self._opened() as (one, _):
            await one.aclose()
            try:
                await one.send([Outgoing(_message(1, "x"))])
            except (trio.ClosedResourceError, ConnectionLost):
                return
            raise AssertionError("sending through a closed channel raised nothing")

    async def test_closing_when_cancelled_closes(self) -> None:
        """`aclose` releases everything although it is cancelled, so the other side sees the end."""
        async with self._opened() as (one, other):
            with trio.CancelScope() as scope:
                scope.cancel()
                await one.aclose()
            assert await _ends(other)

    async def test_who_does_not_read_stops_who_sends(self) -> None:
        """What is sent to a side that does not read is not kept without bound; and closing ends the wait."""
        piece = Outgoing(_message(1, "x" * 1_000_000), request_ids=(1,))
        async with self._opened() as (one, _), trio.open_nursery() as nursery:
            sent = itertools.count()
            last = 0

            async def flood() -> None:
                nonlocal last
                with suppress(trio.ClosedResourceError, *_END):
                    while True:
                        await one.send([piece])
                        last = next(sent)

            nursery.start_soon(flood)
            for _ in range(1_000):
                before = last
                await trio.sleep(0.05)
                if last == before:
                    break
            assert last < 200, f"{last} MB were taken for a side that reads nothing"
            await one.aclose()

    # With a client and a server.

    async def test_calls_are_answered(self) -> None:
        """A hundred at once, each with its own answer."""
        async with self._connected() as (client, _):
            answers: dict[int, str] = {}

            async def call(number: int) -> None:
                answers[number] = (await client.call_tool("echo", {"text": str(number)})).text

            async with trio.open_nursery() as nursery:
                for number in range(100):
                    nursery.start_soon(call, number)
            assert answers == {number: str(number) for number in range(100)}

    async def test_progress_arrives_in_order_and_before_the_answer(self) -> None:
        """Each report once."""
        async with self._connected() as (client, _):
            seen: list[float] = []
            await client.call_tool(
                "count", {"to": 20}, on_progress=lambda progress: seen.append(progress.progress)
            )
            assert seen == list(range(1, 21))

    async def test_a_caller_that_gives_up_cancels_the_handler_once(self) -> None:
        """By a cancellation, and by a deadline. The caller goes on at once, and the next call is answered."""
        async with self._connected() as (client, events):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "wait")
                await _until(lambda: "begun" in events)
                nursery.cancel_scope.cancel()
            await _until(lambda: "cancelled" in events)
            with trio.move_on_after(0.2) as scope:
                await client.call_tool("wait")
            assert scope.cancelled_caught
            await _until(lambda: events.count("cancelled") == 2)
            assert (await client.call_tool("echo", {"text": "again"})).text == "again"
            assert events.count("cancelled") == events.count("begun") == 2

    async def test_giving_up_notifies_at_most_once(self) -> None:
        """What `give_up` returns is sent, so it must not notify the other side by itself as well."""
        async with self._opened() as (one, other):
            count = 0

            async def read() -> None:
                nonlocal count
                with suppress(trio.ClosedResourceError, *_END):
                    while True:
                        for data in _data(await other.receive()):
                            count += b"notifications/cancelled" in data

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await one.send([Outgoing(_message(1, "x"), (1,))])
                notification = one.give_up(1, None)
                if notification is not None:
                    params = {"jsonrpc": "2.0", "method": notification.method, "params": notification.params}
                    await one.send([Outgoing(json.dumps(params).encode())])
                await one.aclose()
                # The reader sees everything before the end.
            assert count <= 1, f"the other side is notified {count} times that one request was given up"

    async def test_callers_that_are_cancelled_tear_no_message(self) -> None:
        """Great calls are cancelled at any time, while others are under way."""
        text = "x" * 200_000
        async with self._connected() as (client, _):

            async def give_up(after: float) -> None:
                with trio.move_on_after(after):
                    await client.call_tool("echo", {"text": text})

            async with trio.open_nursery() as nursery:
                for number in range(40):
                    nursery.start_soon(give_up, number / 2_000)
                for number in range(10):
                    answer = await client.call_tool("echo", {"text": str(number) * 1_000})
                    assert answer.text == str(number) * 1_000

    async def test_a_lost_connection_fails_every_call(self) -> None:
        """With a reason, and without a wait; the block of the client goes on."""
        failures: list[McpError] = []

        async def call(client: Client) -> None:
            try:
                await client.call_tool("wait")
            except McpError as error:
                failures.append(error)

        with trio.fail_after(self.seconds):
            async with self.open_pair() as (one, other), trio.open_nursery() as nursery:
                server, events = _server()
                nursery.start_soon(server.serve_channel, other)
                async with open_client(one) as client:
                    for _ in range(5):
                        nursery.start_soon(call, client)
                    await _until(lambda: events.count("begun") == 5)
                    await other.aclose()
                    await _until(lambda: len(failures) == 5)
        assert all(isinstance(failure, ConnectionLost) and str(failure) for failure in failures)

    async def test_nothing_is_left(self) -> None:
        """When both ends are closed, no task is left, whatever was under way."""
        before = trio.lowlevel.current_statistics().tasks_living
        async with self._connected() as (client, events), trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await _until(lambda: "begun" in events)
            nursery.cancel_scope.cancel()
        await _until(lambda: trio.lowlevel.current_statistics().tasks_living <= before)

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[tuple[Channel, Channel]]:
        with trio.fail_after(self.seconds):
            async with self.open_pair() as (one, other):
                try:
                    yield one, other
                finally:
                    with trio.move_on_after(self.seconds, shield=True):
                        await one.aclose()
                        await other.aclose()

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[tuple[Client, list[str]]]:
        with trio.fail_after(self.seconds):
            async with self.open_pair() as (one, other), trio.open_nursery() as nursery:
                server, events = _server()
                nursery.start_soon(server.serve_channel, other)
                async with open_client(one) as client:
                    yield client, events
                nursery.cancel_scope.cancel()


def _server() -> tuple[Server[Any], list[str]]:
    server: Server[Any] = Server("tests of a channel")
    events: list[str] = []

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def count(to: int, ctx: Context[Any]) -> str:
        for number in range(to):
            await ctx.report_progress(number + 1, to)
        return "done"

    @server.tool
    async def wait() -> None:
        events.append("begun")
        try:
            await trio.sleep_forever()
        finally:
            events.append("cancelled")

    return server, events


def _message(id: int, text: str) -> bytes:
    request = {"jsonrpc": "2.0", "id": id, "method": "ping", "params": {"text": text}}
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def _data(received: Sequence[Received]) -> list[bytes]:
    return [one.data for one in received if isinstance(one, Incoming)]


def _sorted(messages: Sequence[bytes]) -> list[bytes]:
    return sorted(messages, key=lambda message: int(json.loads(message)["id"]))


async def _received(channel: Channel, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        found += _data(await channel.receive())
    return found


async def _carried(sender: Channel, receiver: Channel, messages: Sequence[bytes]) -> list[bytes]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_send_in_groups, sender, messages)
        return await _received(receiver, len(messages))


async def _send_in_groups(channel: Channel, messages: Sequence[bytes]) -> None:
    """Send one message, then two, three, one again …, at once where the channel takes them so."""
    at = 0
    for size in itertools.cycle((1, 2, 3)):
        group = [Outgoing(data, (int(json.loads(data)["id"]),)) for data in messages[at : at + size]]
        at += size
        if not group:
            return
        try:
            if not channel.send_nowait(group):
                await channel.send([])
        except trio.WouldBlock:
            await channel.send(group)


async def _send_and_close(channel: Channel, messages: Sequence[bytes]) -> None:
    await _send_in_groups(channel, messages)
    await channel.aclose()


async def _ends(channel: Channel) -> bool:
    """Return whether the end is told; everything before it is dropped."""
    try:
        while True:
            await channel.receive()
    except _END:
        return True


async def _cancel_after(passes: int, scope: trio.CancelScope) -> None:
    for _ in range(passes):
        await trio.lowlevel.checkpoint()
    scope.cancel()


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - what is waited for happens in a channel that knows no event of ours
        await trio.sleep(0.005)
