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
import functools
import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any, Final, cast

import trio
import trio.testing

from .._channel import Channel, Incoming, Outgoing, Received, TooLarge
from .._client._client import Client
from .._client._open import open_client
from .._errors import ConnectionLost, McpError
from .._server._context import Context
from .._server._server import Server
from ._leftovers import Living

_END: Final = (trio.EndOfChannel, ConnectionLost)
"""How the other side's end is told."""


def _both_ways(test: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    """Run a test twice, so that each end is the one that sends, or closes, once."""

    @functools.wraps(test)
    async def test_both(tests: Any) -> None:
        await test(tests)
        tests._is_turned = True
        try:
            await test(tests)
        except BaseException as error:
            error.add_note("with the two ends that open_pair yields in the other order")
            raise
        finally:
            tests._is_turned = False

    return test_both


class ChannelTests(abc.ABC):
    """What every transport promises, as tests: subclass it, and say how two connected ends are opened.

    The first half sends and receives by hand, with each end in its turn. The second half runs a client and a
    server over the two ends, and checks the contract of docs/cancellation.md where a transport could break it.

    Attributes:
        seconds: How long each test may take.
        sizes: The sizes of messages, in bytes, that must go through.
        has_order: Whether all messages of one direction arrive in the order in which they were sent. Only a
            transport with several streams may say no, and then each request has one of its own.
    """

    seconds: float = 30
    sizes: Sequence[int] = (100, 4_000, 70_000, 1_000_000)
    has_order: bool = True

    _awaited: Callable[[], str] = staticmethod(lambda: "the two ends to be opened")
    """What a test waits for: it is named when the time is over."""
    _is_sending = False
    _is_turned = False
    _end_of_server: Channel

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
                await self._carry(sender, receiver, messages)

    @_both_ways
    async def test_messages_arrive_in_order(self) -> None:
        """Those that are sent together, and one by one; each once."""
        messages = [_message(id, str(id)) for id in range(300)]
        async with self._opened() as (one, other):
            await self._carry(one, other, messages)

    @_both_ways
    async def test_a_cancelled_receive_loses_nothing(self) -> None:
        """A task that is cancelled while it waits for messages leaves them to the next one."""
        messages = [_message(id, "x" * 3_000) for id in range(200)]
        async with self._opened() as (one, other), trio.open_nursery() as nursery:
            nursery.start_soon(self._send_in_groups, one, messages)
            ahead = self._expected(messages)
            passes = itertools.cycle((1, 2, 3, 4))
            while ahead:
                with trio.CancelScope() as scope:
                    nursery.start_soon(_cancel_after, next(passes), scope)
                    await self._take(other, ahead, messages)
                await trio.lowlevel.checkpoint()  # so that the deadline passes also if `receive` never waits

    @_both_ways
    async def test_what_is_read_ahead_is_received_later(self) -> None:
        """All of it, in order; and that the input has ended is not told before it has."""
        messages = [_message(id, "x" * 300) for id in range(60)]
        ends: list[None] = []
        async with self._opened() as (one, other):
            async with other.reading_ahead(lambda: ends.append(None), 4_000), trio.open_nursery() as nursery:
                nursery.start_soon(self._send_in_groups, one, messages)
                for _ in range(10):
                    await trio.lowlevel.checkpoint()
                await self._receive(other, messages)
                assert not ends, "reading_ahead() has reported the end of the input before it was there"
            await self._carry(one, other, messages[:1])

    @_both_ways
    async def test_a_channel_that_rests_wakes_when_a_message_comes(self) -> None:
        """If it says that it does: while it rests, no task waits for messages."""
        async with self._opened() as (one, other):
            woken: list[None] = []
            if not other.rests(lambda: woken.append(None)):
                return
            await self._until(other.may_rest, "may_rest() to be true while nothing comes")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_in_groups, one, [_message(1, "x")])
                await self._until(lambda: bool(woken), "the call of wake, for a message that has come")
                await self._receive(other, [_message(1, "x")])

    @_both_ways
    async def test_the_end_of_one_side_is_the_end_for_the_other(self) -> None:
        """After everything that was sent before it. It is told again and again, and not as silence."""
        messages = [_message(id, "x") for id in range(10)]
        async with self._opened() as (one, other):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_and_close, one, messages)
                await trio.testing.wait_all_tasks_blocked()  # the end is there before anything is received
                await self._receive(other, messages)
            for _ in range(2):
                await self._end_of(other, is_orderly=True)

    @_both_ways
    async def test_a_cancelled_receive_is_cancelled(self) -> None:
        """It does not take the cancellation for an end, or for nothing that has come."""
        async with self._opened() as (one, _):
            with trio.CancelScope() as scope:
                scope.cancel()
                received = await one.receive()
                raise AssertionError(f"receive() was cancelled and returned {received!r}")
            assert scope.cancelled_caught

    @_both_ways
    async def test_sending_to_a_side_that_has_gone_fails(self) -> None:
        """By `ConnectionLost`, sooner or later: what is on its way then may be lost in silence."""
        piece = Outgoing(_message(1, "x" * 100_000), (1,))
        async with self._opened() as (one, other):
            self._awaited = lambda: "send() to raise ConnectionLost, after the other side was closed"
            await other.aclose()
            while True:
                try:
                    await one.send([piece])
                except ConnectionLost:
                    return
                except Exception as error:
                    raise _wrong("sending to a side that has gone must raise ConnectionLost", error) from error
                await trio.lowlevel.checkpoint()

    @_both_ways
    async def test_closing_wakes_who_receives(self) -> None:
        """By `trio.ClosedResourceError`: this side has closed the channel, and not the other one."""
        async with self._opened() as (one, _), trio.open_nursery() as nursery:
            told: list[str] = []

            async def wait() -> None:
                try:
                    told.append(f"returned {await one.receive()!r}")
                except (trio.ClosedResourceError, *_END) as error:
                    told.append(f"raised {type(error).__name__}")

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            self._awaited = lambda: "aclose() to return, while a task receives"
            await one.aclose()
            await one.aclose()  # again: does nothing
            for _ in range(2):  # who waits, and who comes later
                await self._until(
                    lambda: bool(told), "receive() to raise trio.ClosedResourceError after aclose()"
                )
                problem = f"receive() must raise trio.ClosedResourceError after aclose(), and has {told[0]}"
                assert told.pop() == "raised ClosedResourceError", problem
                nursery.start_soon(wait)

    @_both_ways
    async def test_nothing_is_sent_through_a_closed_channel(self) -> None:
        """Neither in silence nor for ever."""
        async with self._opened() as (one, _):
            await one.aclose()
            self._awaited = lambda: "send() to raise trio.ClosedResourceError after aclose()"
            try:
                await one.send([Outgoing(_message(1, "x"))])
            except (trio.ClosedResourceError, ConnectionLost):
                return
            except Exception as error:
                problem = "sending through a closed channel must raise trio.ClosedResourceError"
                raise _wrong(problem, error) from error
            raise AssertionError("sending through a closed channel raised nothing")

    @_both_ways
    async def test_closing_when_cancelled_closes(self) -> None:
        """`aclose` releases everything although it is cancelled, so the other side sees the end."""
        async with self._opened() as (one, other):
            with trio.CancelScope() as scope:
                scope.cancel()
                await one.aclose()
            await self._end_of(other, "cancelled aclose()")

    @_both_ways
    async def test_who_does_not_read_stops_who_sends(self) -> None:
        """What is sent to a side that does not read is not kept without bound; and closing ends the wait."""
        piece = Outgoing(_message(1, "x" * 1_000_000), request_ids=(1,))
        async with self._opened() as (one, _), trio.open_nursery() as nursery:
            sent = itertools.count()
            last = 0

            async def flood() -> None:
                nonlocal last
                try:
                    while last < 200:
                        await one.send([piece])
                        last = next(sent)
                except (trio.ClosedResourceError, ConnectionLost):
                    pass
                except Exception as error:
                    problem = "a send() that waits must raise trio.ClosedResourceError when aclose() is called"
                    raise _wrong(problem, error) from error

            nursery.start_soon(flood)
            for _ in range(1_000):
                before = last
                await trio.sleep(0.05)
                if last == before or last >= 200:
                    break
            assert last < 200, f"send() has taken {last} MB and more for a side that receives nothing"
            self._awaited = lambda: "aclose() to end a send() that waits"
            await one.aclose()

    # With a client and a server.

    async def test_calls_are_answered(self) -> None:
        """A hundred at once, each with its own answer."""
        async with self._connected() as (client, _):
            answers: dict[int, str] = {}
            self._awaited = lambda: f"the answers to 100 calls: {len(answers)} have come"

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
            self._awaited = lambda: f"the answer to a call, behind 20 progress reports: {len(seen)} have come"
            await client.call_tool("count", {"to": 20}, on_progress=lambda report: seen.append(report.progress))
            assert seen == list(range(1, 21)), f"progress reports 1 to 20 came as {seen}"

    async def test_a_caller_that_gives_up_cancels_the_handler_once(self) -> None:
        """By a cancellation, and by a deadline. The caller goes on at once, and the next call is answered."""
        async with self._connected() as (client, events):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "wait")
                await self._until(lambda: "begun" in events, "a call to reach its handler")
                nursery.cancel_scope.cancel()
            await self._until(lambda: "cancelled" in events, "the handler of a cancelled call to be cancelled")
            with trio.move_on_after(0.2) as scope:
                await client.call_tool("wait")
            assert scope.cancelled_caught
            late = "the handler of a call whose deadline has passed to be cancelled"
            await self._until(lambda: events.count("cancelled") == 2, late)
            self._awaited = lambda: "the answer to a call, after two were given up"
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
                        await trio.lowlevel.checkpoint()

            self._awaited = lambda: "the end, after a request was given up and the side that sent it closed"
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
            self._awaited = lambda: "the answers to calls, while others are cancelled in the middle of sending"

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

        async def call() -> None:
            try:
                await client.call_tool("wait")
            except McpError as error:
                failures.append(error)

        async with self._connected() as (client, events), trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(call)
            await self._until(lambda: events.count("begun") == 5, "five calls to reach their handlers")
            await self._end_of_server.aclose()
            await self._until(lambda: len(failures) == 5, "five calls to fail as the other side was closed")
        assert all(isinstance(failure, ConnectionLost) and str(failure) for failure in failures)

    async def test_nothing_is_left(self) -> None:
        """When both ends are closed, no task is left, whatever was under way."""
        before = Living.now().tasks
        async with self._connected() as (client, events), trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await self._until(lambda: "begun" in events, "a call to reach its handler")
            nursery.cancel_scope.cancel()

        def left() -> list[str]:
            return [name for task, name in Living.now().tasks.items() if task not in before]

        with self._in_time():
            told = "these tasks to end, which both ends have left behind:"
            self._awaited = lambda: "\n  ".join([told, *left()])
            while left():  # noqa: ASYNC110 - as in `_until`
                await trio.sleep(0.005)

    @contextmanager
    def _in_time(self) -> Generator[None]:
        """Fail with what the test waits for, when its time is over."""
        with trio.move_on_after(self.seconds) as scope:
            yield
        if scope.cancelled_caught:
            sending = "; send() has not returned" if self._is_sending else ""
            raise AssertionError(f"after {self.seconds:g} s the test still waits for {self._awaited()}{sending}")

    @asynccontextmanager
    async def _pair(self) -> AsyncGenerator[tuple[Channel, Channel]]:
        async with self.open_pair() as (one, other):
            for end in (one, other):
                if not isinstance(end, Channel):  # pyright: ignore[reportUnnecessaryIsInstance] - users err
                    raise TypeError(f"open_pair must yield two objects of subclasses of Channel, not {type(end)}")
            self._awaited = lambda: "the connection to begin"
            yield one, other

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[tuple[Channel, Channel]]:
        with self._in_time():
            async with self._pair() as (one, other):
                is_over = False
                try:
                    yield (other, one) if self._is_turned else (one, other)
                    is_over = True
                finally:
                    with trio.move_on_after(self.seconds, shield=True) as closing:
                        await one.aclose()
                        await other.aclose()
                if closing.cancelled_caught and is_over:
                    raise AssertionError(f"aclose() has not returned within {self.seconds:g} s")

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[tuple[Client, list[str]]]:
        with self._in_time():
            async with self._pair() as (one, other), trio.open_nursery() as nursery:
                server, events = _server()
                self._end_of_server = other
                nursery.start_soon(server.serve_channel, other)
                async with open_client(one) as client:
                    yield client, events
                    self._awaited = lambda: "the client to be left"
                nursery.cancel_scope.cancel()

    async def _carry(self, sender: Channel, receiver: Channel, messages: Sequence[bytes]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_in_groups, sender, messages)
            await self._receive(receiver, messages)

    async def _send_in_groups(self, channel: Channel, messages: Sequence[bytes]) -> None:
        """Send one message, then two, three, one again …, at once where the channel takes them so."""
        at = 0
        self._is_sending = True
        for size in itertools.cycle((1, 2, 3)):
            group = [Outgoing(data, (int(json.loads(data)["id"]),)) for data in messages[at : at + size]]
            at += size
            if not group:
                break
            try:
                if not channel.send_nowait(group):
                    await channel.send([])
            except trio.WouldBlock:
                await channel.send(group)
        self._is_sending = False

    async def _send_and_close(self, channel: Channel, messages: Sequence[bytes]) -> None:
        await self._send_in_groups(channel, messages)
        await channel.aclose()

    async def _receive(self, channel: Channel, messages: Sequence[bytes]) -> None:
        """Receive these messages: whole, each once, and in order if there is one."""
        ahead = self._expected(messages)
        while ahead:
            await self._take(channel, ahead, messages)
            await trio.lowlevel.checkpoint()

    def _expected(self, messages: Sequence[bytes]) -> list[bytes]:
        ahead = list(messages)
        self._awaited = lambda: f"{len(ahead)} of {len(messages)} messages, {_named(ahead[0])} among them"
        return ahead

    async def _take(self, channel: Channel, ahead: list[bytes], messages: Sequence[bytes]) -> None:
        """Receive, and take what has come from what is still to come.

        Raises:
            AssertionError: It is something else, or the end; the text says what is wrong with it.
        """
        try:
            received = await channel.receive()
        except _END as end:
            problem = f"receive() reports the end by {type(end).__name__} before {_named(ahead[0])} has come"
            raise AssertionError(problem) from end
        for data in _data(received):
            if data in ahead and (data == ahead[0] or not self.has_order):
                ahead.remove(data)
            elif data in ahead:
                raise AssertionError(f"{_named(data)} has come before {_named(ahead[0])}, which is lost, or late")
            elif data in messages:
                raise AssertionError(f"{_named(data)} has come twice")
            else:
                shown = f"{data[:100]!r}{'…' if len(data) > 100 else ''}"
                raise AssertionError(f"a message has come as it was not sent, of {len(data)} bytes: {shown}")

    async def _end_of(self, channel: Channel, how: str = "aclose()", *, is_orderly: bool = False) -> None:
        """Wait for the end of the other side; everything before it is dropped.

        An end is orderly where the side that closes has received everything: a socket that is closed with
        something unread in it resets the connection.
        """
        self._awaited = lambda: f"receive() to report the end of the other side, after its {how}"
        while True:
            try:
                _data(await channel.receive())
            except _END as end:
                if is_orderly and isinstance(end, ConnectionLost):
                    problem = "an end in good order by trio.EndOfChannel, not ConnectionLost"
                    raise AssertionError(f"receive() must report {problem}: {end}") from end
                return
            except AssertionError:
                raise
            except Exception as error:
                problem = "receive() must report the end of the other side by trio.EndOfChannel or ConnectionLost"
                raise _wrong(problem, error) from error
            await trio.lowlevel.checkpoint()

    async def _until(self, is_so: Callable[[], bool], what: str) -> None:
        self._awaited = lambda: what
        while not is_so():  # noqa: ASYNC110 - what is waited for happens in a channel that knows no event of ours
            await trio.sleep(0.005)


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
    given: Any = received  # by what users write
    if not isinstance(given, Sequence) or any(not isinstance(each, Received) for each in cast("Any", given)):
        raise AssertionError(f"receive() must return a list of Incoming or other Received, not {received!r:.100}")
    for each in received:
        if isinstance(each, TooLarge):
            raise AssertionError(f"a message of `sizes` must go through, and {each.size} bytes were TooLarge")
    return [each.data for each in received if isinstance(each, Incoming)]


def _wrong(problem: str, error: Exception) -> AssertionError:
    return AssertionError(f"{problem}, not {type(error).__name__}")


def _named(message: bytes) -> str:
    return f"the message with the id {json.loads(message)['id']}"


async def _cancel_after(passes: int, scope: trio.CancelScope) -> None:
    for _ in range(passes):
        await trio.lowlevel.checkpoint()
    scope.cancel()
