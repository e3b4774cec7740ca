"""The tests that transports are tested with: ours pass them, and each of them fails for a channel that breaks it."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final

import pytest
import trio
import trio.testing

from trio_mcp import (
    Channel,
    ConnectionLost,
    Incoming,
    Notification,
    Outgoing,
    Received,
    TooLarge,
    memory_channel_pair,
)
from trio_mcp.testing import ChannelTests


class TestMemory(ChannelTests):
    @asynccontextmanager
    async def open_pair(self) -> AsyncGenerator[tuple[Channel, Channel]]:
        yield memory_channel_pair()


class Faulty(Channel):
    """One end of a connection in memory, which leaves the rest as it is."""

    def __init__(self, inner: Channel) -> None:
        self.inner = inner

    async def receive(self) -> Sequence[Received]:
        return await self.inner.receive()

    async def send(self, messages: Sequence[Outgoing]) -> None:
        await self.inner.send(messages)

    async def aclose(self) -> None:
        await self.inner.aclose()


class LosesOne(Faulty):
    async def send(self, messages: Sequence[Outgoing]) -> None:
        await self.inner.send([one for one in messages if b'"id":7,' not in one.data])


class Repeats(Faulty):
    async def send(self, messages: Sequence[Outgoing]) -> None:
        await self.inner.send([*messages, *messages])


class Reorders(Faulty):
    async def send(self, messages: Sequence[Outgoing]) -> None:
        await self.inner.send(messages[::-1])


class EscapesBadly(Faulty):
    async def send(self, messages: Sequence[Outgoing]) -> None:
        await self.inner.send([Outgoing(one.data.replace(rb"\n", b" ")) for one in messages])


class CutsShort(Faulty):
    async def send(self, messages: Sequence[Outgoing]) -> None:
        await self.inner.send([Outgoing(one.data[:65_536]) for one in messages])


class ForgetsWhenCancelled(Faulty):
    async def receive(self) -> Sequence[Received]:
        received = await self.inner.receive()
        for _ in range(2):
            await trio.lowlevel.checkpoint()
        return received


class EndsInSilence(Faulty):
    async def receive(self) -> Sequence[Received]:
        try:
            return await self.inner.receive()
        except trio.EndOfChannel:
            await trio.sleep_forever()  # noqa: ASYNC120
            raise


class DoesNotWake(Faulty):
    async def receive(self) -> Sequence[Received]:
        try:
            return await self.inner.receive()
        except trio.ClosedResourceError:
            await trio.sleep_forever()  # noqa: ASYNC120
            raise


class SendsIntoNothing(Faulty):
    is_closed = False

    async def send(self, messages: Sequence[Outgoing]) -> None:
        if not self.is_closed:
            await self.inner.send(messages)

    async def aclose(self) -> None:
        self.is_closed = True
        await self.inner.aclose()


class ClosesOnlyInPeace(Faulty):
    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
        await self.inner.aclose()


class KeepsEverything(Faulty):
    def __init__(self, inner: Channel) -> None:
        super().__init__(inner)
        self.kept: list[Outgoing] = []

    async def send(self, messages: Sequence[Outgoing]) -> None:
        await trio.lowlevel.checkpoint()
        self.kept += messages


class CancelsNothing(Faulty):
    def give_up(self, request_id: Any, reason: str | None) -> None:
        del request_id, reason


class DeliversOneOfMany(Faulty):
    def __init__(self, inner: Channel) -> None:
        super().__init__(inner)
        self.count = itertools.count()

    async def receive(self) -> Sequence[Received]:
        return [
            one
            for one in await self.inner.receive()
            if not (isinstance(one, Incoming) and b"notifications/progress" in one.data and next(self.count) == 3)
        ]


class LeaksErrors(Faulty):
    """The errors of its stream are not those of a channel."""

    async def send(self, messages: Sequence[Outgoing]) -> None:
        try:
            await self.inner.send(messages)
        except ConnectionLost as error:
            raise trio.BrokenResourceError from error


class SaysNothingOfTheEnd(Faulty):
    async def send(self, messages: Sequence[Outgoing]) -> None:
        with suppress(ConnectionLost):
            await self.inner.send(messages)


class CallsEveryEndAFailure(Faulty):
    async def receive(self) -> Sequence[Received]:
        try:
            return await self.inner.receive()
        except trio.EndOfChannel as error:
            raise ConnectionLost("the end") from error


class SwallowsCancellation(Faulty):
    async def receive(self) -> Sequence[Received]:
        try:
            return await self.inner.receive()
        except trio.Cancelled:  # noqa: ASYNC103 - the fault
            return []  # noqa: ASYNC104


class TakesItsOwnEndForTheOthers(Faulty):
    async def receive(self) -> Sequence[Received]:
        try:
            return await self.inner.receive()
        except trio.ClosedResourceError:
            raise trio.EndOfChannel from None


class CancelsTwice(Faulty):
    """By itself, and by what it returns."""

    def __init__(self, inner: Channel) -> None:
        super().__init__(inner)
        self.also: list[Outgoing] = []

    def give_up(self, request_id: Any, reason: str | None) -> Notification | None:
        notification = super().give_up(request_id, reason)
        assert notification is not None
        message = {"jsonrpc": "2.0", "method": notification.method, "params": notification.params}
        self.also.append(Outgoing(json.dumps(message).encode()))
        return notification

    async def send(self, messages: Sequence[Outgoing]) -> None:
        also, self.also = self.also, []
        await self.inner.send([*messages, *also])


class LosesWhatItReadsAhead(Faulty):
    @asynccontextmanager
    async def reading_ahead(self, on_end: Callable[[], object], max_bytes: int) -> AsyncGenerator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.inner.receive)
            yield
            nursery.cancel_scope.cancel()


class SleepsOn(Faulty):
    def rests(self, wake: Callable[[], object]) -> bool:
        return True

    def may_rest(self) -> bool:
        return True


class EndsTooSoon(Faulty):
    @asynccontextmanager
    async def reading_ahead(self, on_end: Callable[[], object], max_bytes: int) -> AsyncGenerator[None]:
        on_end()
        yield


class EndsBeforeItsMessages(Faulty):
    """It reports the end as soon as there is one, and not when what was sent before it has been received."""

    def __init__(self, inner: Channel) -> None:
        super().__init__(inner)
        self.received: list[Received] = []
        self.has_ended = False

    async def receive(self) -> Sequence[Received]:
        with suppress(trio.EndOfChannel):
            while not self.has_ended:
                with trio.move_on_after(0.01):
                    self.received += await self.inner.receive()
                    continue
                if self.received:
                    received, self.received = self.received, []
                    return received
        self.has_ended = True
        await trio.lowlevel.checkpoint()
        raise trio.EndOfChannel


class ReturnsNothingAtTheEnd(Faulty):
    """At once, so that a loop around it lets no other task run."""

    has_ended = False

    async def receive(self) -> Sequence[Received]:
        if not self.has_ended:
            with suppress(trio.EndOfChannel):
                return await self.inner.receive()
        self.has_ended = True
        return []


class RaisesErrorsOfTheSystem(Faulty):
    async def receive(self) -> Sequence[Received]:
        try:
            return await self.inner.receive()
        except trio.EndOfChannel:
            raise ConnectionResetError from None


class BlocksInSend(Faulty):
    async def send(self, messages: Sequence[Outgoing]) -> None:
        await trio.sleep_forever()


class ClosesForEver(Faulty):
    async def aclose(self) -> None:
        await self.inner.aclose()
        await trio.sleep_forever()


class LeavesATask(Faulty):
    async def aclose(self) -> None:
        trio.lowlevel.spawn_system_task(trio.sleep_forever, name="the reader of a channel")
        await self.inner.aclose()


class HangsWhenClosed(Faulty):
    """A task that waits is woken, and one that comes later is not."""

    is_closed = False

    async def receive(self) -> Sequence[Received]:
        if self.is_closed:
            await trio.sleep_forever()
        return await self.inner.receive()

    async def aclose(self) -> None:
        await self.inner.aclose()
        self.is_closed = True


class LeaksItsOwnEnd(Faulty):
    async def send(self, messages: Sequence[Outgoing]) -> None:
        try:
            await self.inner.send(messages)
        except trio.ClosedResourceError:
            raise trio.BrokenResourceError from None


class ReturnsText(Faulty):
    async def receive(self) -> Any:
        return [one.data.decode() for one in await self.inner.receive() if isinstance(one, Incoming)]


class ReturnsOne(Faulty):
    async def receive(self) -> Any:
        return (await self.inner.receive())[0]


class TakesLittle(Faulty):
    async def receive(self) -> Sequence[Received]:
        received = [one for one in await self.inner.receive() if isinstance(one, Incoming)]
        return [TooLarge(len(one.data), b"", b"") if len(one.data) > 50_000 else one for one in received]


class NeverWaits(Faulty):
    async def receive(self) -> Sequence[Received]:
        return []


class EndsInTheMiddle(Faulty):
    async def receive(self) -> Sequence[Received]:
        received = await self.inner.receive()
        if any(isinstance(one, Incoming) and b'"id":7,' in one.data for one in received):
            raise trio.EndOfChannel
        return received


FAULTS: Final[Sequence[tuple[Callable[[Channel], Channel], str, str]]] = (
    (LosesOne, "test_messages_arrive_in_order", "id 8 has come before the message with the id 7"),
    (Repeats, "test_messages_arrive_in_order", "id 0 has come twice"),
    (Reorders, "test_messages_arrive_in_order", "id 2 has come before the message with the id 1"),
    (EscapesBadly, "test_messages_arrive_whole", "a message has come as it was not sent"),
    (CutsShort, "test_messages_arrive_whole", "of 65536 bytes"),
    (ForgetsWhenCancelled, "test_a_cancelled_receive_loses_nothing", "which is lost, or late"),
    (
        EndsInSilence,
        "test_the_end_of_one_side_is_the_end_for_the_other",
        r"waits for receive\(\) to report the end",
    ),
    (DoesNotWake, "test_closing_wakes_who_receives", r"waits for receive\(\) to raise trio.ClosedResourceError"),
    (SendsIntoNothing, "test_nothing_is_sent_through_a_closed_channel", "raised nothing"),
    (ClosesOnlyInPeace, "test_closing_when_cancelled_closes", "after its cancelled aclose"),
    (KeepsEverything, "test_who_does_not_read_stops_who_sends", r"send\(\) has taken \d+ MB"),
    (LosesOne, "test_calls_are_answered", "answers to 100 calls: "),
    (DeliversOneOfMany, "test_progress_arrives_in_order_and_before_the_answer", r"came as \[1, 2, 3, 5"),
    (
        CancelsNothing,
        "test_a_caller_that_gives_up_cancels_the_handler_once",
        "handler of a cancelled call to be cancelled",
    ),
    (EndsInSilence, "test_a_lost_connection_fails_every_call", "five calls to fail"),
    (LeaksErrors, "test_sending_to_a_side_that_has_gone_fails", "ConnectionLost, not BrokenResourceError"),
    (SaysNothingOfTheEnd, "test_sending_to_a_side_that_has_gone_fails", r"send\(\) to raise ConnectionLost"),
    (SwallowsCancellation, "test_a_cancelled_receive_is_cancelled", "was cancelled and returned"),
    (TakesItsOwnEndForTheOthers, "test_closing_wakes_who_receives", "has raised EndOfChannel"),
    (CancelsTwice, "test_giving_up_notifies_at_most_once", "notified 2 times"),
    (LosesWhatItReadsAhead, "test_what_is_read_ahead_is_received_later", "which is lost, or late"),
    (EndsTooSoon, "test_what_is_read_ahead_is_received_later", "reported the end of the input before"),
    (SleepsOn, "test_a_channel_that_rests_wakes_when_a_message_comes", "the call of wake"),
    (
        EndsBeforeItsMessages,
        "test_the_end_of_one_side_is_the_end_for_the_other",
        "reports the end by EndOfChannel before",
    ),
    (
        ReturnsNothingAtTheEnd,
        "test_the_end_of_one_side_is_the_end_for_the_other",
        "to report the end of the other side",
    ),
    (
        CallsEveryEndAFailure,
        "test_the_end_of_one_side_is_the_end_for_the_other",
        "an end in good order by trio.EndOfChannel, not ConnectionLost: the end",
    ),
    (
        RaisesErrorsOfTheSystem,
        "test_the_end_of_one_side_is_the_end_for_the_other",
        "ConnectionLost, not ConnectionReset",
    ),
    (
        BlocksInSend,
        "test_messages_arrive_whole",
        r"5 of 5 messages, .* id 1 among them; send\(\) has not returned",
    ),
    (ClosesForEver, "test_messages_arrive_whole", r"aclose\(\) has not returned within 1 s"),
    (LeavesATask, "test_nothing_is_left", "a task: the reader of a channel"),
    (HangsWhenClosed, "test_closing_wakes_who_receives", r"receive\(\) to raise .* after aclose"),
    (LeaksItsOwnEnd, "test_nothing_is_sent_through_a_closed_channel", "not BrokenResourceError"),
    (NeverWaits, "test_a_cancelled_receive_loses_nothing", "still waits for 200 of 200 messages"),
    (NeverWaits, "test_giving_up_notifies_at_most_once", "still waits for the end"),
    (EndsInTheMiddle, "test_a_cancelled_receive_loses_nothing", "the end by EndOfChannel before the message"),
    (
        LeaksItsOwnEnd,
        "test_who_does_not_read_stops_who_sends",
        r"a send\(\) that waits .* not BrokenResourceError",
    ),
    (ReturnsText, "test_messages_arrive_whole", r"receive\(\) must return a list of Incoming or .*, not \['"),
    (ReturnsOne, "test_messages_arrive_in_order", r"must return a list of Incoming or .*, not Incoming\("),
    (TakesLittle, "test_messages_arrive_whole", "`sizes` must go through, and 70061 bytes were TooLarge"),
)


@pytest.mark.parametrize(("fault", "test", "text"), FAULTS, ids=lambda each: getattr(each, "__name__", each))
async def test_each_test_finds_a_channel_that_breaks_its_promise(
    fault: Callable[[Channel], Channel], test: str, text: str
) -> None:
    """A test that cannot fail says nothing, and one that only fails says little."""

    class Tests(ChannelTests):
        seconds = 1

        def open_pair(self) -> AbstractAsyncContextManager[tuple[Channel, Channel]]:
            return faulty_pair(fault)

    with pytest.RaisesGroup(
        pytest.RaisesExc(AssertionError, match=text), allow_unwrapped=True, flatten_subgroups=True
    ):
        await getattr(Tests(), test)()


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        (ForgetsWhenCancelled, "test_a_cancelled_receive_loses_nothing"),
        (LosesWhatItReadsAhead, "test_what_is_read_ahead_is_received_later"),
        (SleepsOn, "test_a_channel_that_rests_wakes_when_a_message_comes"),
        (EndsInSilence, "test_the_end_of_one_side_is_the_end_for_the_other"),
        (SwallowsCancellation, "test_a_cancelled_receive_is_cancelled"),
        (LeaksErrors, "test_sending_to_a_side_that_has_gone_fails"),
        (DoesNotWake, "test_closing_wakes_who_receives"),
        (SendsIntoNothing, "test_nothing_is_sent_through_a_closed_channel"),
        (ClosesOnlyInPeace, "test_closing_when_cancelled_closes"),
        (KeepsEverything, "test_who_does_not_read_stops_who_sends"),
        (Reorders, "test_messages_arrive_in_order"),
    ],
)
@pytest.mark.parametrize("end", [0, 1])
async def test_a_fault_of_either_end_is_found(
    fault: Callable[[Channel], Channel], test: str, end: int, autojump_clock: trio.testing.MockClock
) -> None:
    """The two ends of a transport may be two classes, one for clients and one for servers."""

    class Tests(ChannelTests):
        seconds = 1

        @asynccontextmanager
        async def open_pair(self) -> AsyncGenerator[tuple[Channel, Channel]]:
            ends: list[Channel] = list(memory_channel_pair())
            ends[end] = fault(ends[end])
            yield ends[0], ends[1]

    with pytest.RaisesGroup(AssertionError, allow_unwrapped=True, flatten_subgroups=True):
        await getattr(Tests(), test)()


class DoesNotSubclass:
    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_what_is_no_channel_is_named() -> None:
    """Whoever has the methods alone lacks those with a default."""

    class Tests(ChannelTests):
        @asynccontextmanager
        async def open_pair(self) -> AsyncGenerator[Any]:
            yield DoesNotSubclass(), DoesNotSubclass()

    with pytest.raises(TypeError, match=r"subclasses of Channel, not <class .*DoesNotSubclass'>"):
        await Tests().test_messages_arrive_whole()


@asynccontextmanager
async def faulty_pair(fault: Callable[[Channel], Channel]) -> AsyncGenerator[tuple[Channel, Channel]]:
    one, other = memory_channel_pair()
    yield fault(one), fault(other)
