"""The wire of a session of the legacy era: many POSTs towards us, and a stream each, and one more, from us."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, final

import attrs
import trio

from .._channel import Channel, Incoming, Origin, Outgoing, Received
from .._codec._jsonrpc import Request, RequestId, encode_error
from .._errors import TRANSPORT_FAILED, RequestError
from .._parking_lot import LightParkingLot
from ._call import HttpOrigin
from ._event_stream import EventStream
from ._load import Place
from ._request_loans import Served
from ._turnstile import Turnstiles

__all__ = ["PostOrigin", "SessionChannel"]


@final
class PostOrigin:
    """A POST with requests: what belongs to these goes to its stream.

    Args:
        principal: Who sent it.
        stream: Where its answers go.
        spoken: Where everything else goes that belongs to its requests.
        answered: Called when all its requests are answered.
        is_releasable: Whether its client knows how to come back.
        served: What is lent for its messages, for as long as anybody has them.
    """

    def __init__(
        self,
        principal: str | None,
        stream: EventStream,
        spoken: EventStream,
        answered: Callable[[], object],
        *,
        is_releasable: bool,
        served: Served | None = None,
    ) -> None:
        self.principal: Final = principal
        self.served: Final = served
        self.answered: Final = answered
        self.stream: Final = stream
        self.spoken: Final = spoken
        self._is_releasable = is_releasable

    def release(self, retry_after: float | None) -> None:
        """Let its connection go; see `ReleasableOrigin`."""
        if self._is_releasable:
            self.stream.release(retry_after)


@final
@attrs.define(eq=False)
class _Arrival:
    message: Incoming
    after: Callable[[], object] | None
    is_taken: bool = False
    waiter: LightParkingLot = attrs.field(factory=LightParkingLot)


def _nothing() -> None:
    pass


@final
class SessionChannel(Channel):
    """Takes what POSTs bring, and sorts what is said into the streams it belongs to. Waits for no client.

    Args:
        description: What this is, for logs.
        standalone: The stream for what belongs to no POST.
        on_question: Called with the number and the ids of requests that are said on that stream.
        on_lost: Called with the ids of requests that nobody will ever read.
        turnstiles: Where its client is charged for great answers, and its handlers wait to send notifications.
        holder: Who that client is.
    """

    def __init__(
        self,
        description: str,
        standalone: EventStream,
        *,
        on_question: Callable[[int, tuple[RequestId, ...]], object],
        on_lost: Callable[[tuple[RequestId, ...]], object],
        turnstiles: Turnstiles,
        holder: str,
    ) -> None:
        self._description = description
        self._standalone = standalone
        self._on_question = on_question
        self._on_lost = on_lost
        self._turnstiles = turnstiles
        self._holder = holder
        # What requests of HTTP+SSE take, whose POSTs are over, until they are answered.
        self._places: dict[RequestId, Place] | None = None
        self._arrivals: OrderedDict[_Arrival, None] = OrderedDict()
        self._after: Callable[[], object] | None = None
        self._wake: Callable[[], object] = _nothing
        self._has_all = False
        self._is_closed = False

    @property
    def description(self) -> str:
        """What this is."""
        return self._description

    async def put(self, message: Incoming, after: Callable[[], object] | None = None) -> None:
        """Hand over what a POST has brought, and wait until it is taken.

        Args:
            message: The message, or a batch.
            after: Called when it was dealt with, as far as that happens before the next one is.

        Raises:
            trio.BrokenResourceError: The session has ended.
        """
        arrival = _Arrival(message, after)
        self._arrivals[arrival] = None
        self._wake()
        try:
            while not arrival.is_taken:
                if self._is_closed:
                    raise trio.BrokenResourceError("the session has ended")
                await arrival.waiter.park()
        finally:
            if not arrival.is_taken:
                del self._arrivals[arrival]

    def rests(self, wake: Callable[[], object]) -> bool:
        """Nobody waits here while nothing comes; see `Channel.rests`."""
        self._wake = wake
        return True

    def may_rest(self) -> bool:
        """Whether nothing waits to be taken; see `Channel.may_rest`."""
        after, self._after = self._after, None
        if after is not None:
            after()
        return not self._arrivals and not self._has_all

    def end_input(self) -> None:
        """Say that no POST will bring anything more. Never waits."""
        self._has_all = True
        self._wake()

    async def receive(self) -> Sequence[Received]:
        """Return the next message, or nothing if whoever brought it has gone; see `Channel.receive`.

        Raises:
            trio.EndOfChannel: There will be no more.
        """
        if not self._arrivals:
            await trio.lowlevel.checkpoint()
        if not self._arrivals:
            if self._has_all:
                raise trio.EndOfChannel
            return ()
        await trio.lowlevel.checkpoint_if_cancelled()  # what is here has waited for a turn of the event loop
        arrival, _ = self._arrivals.popitem(last=False)
        arrival.is_taken = True
        self._after = arrival.after
        arrival.waiter.unpark()
        return (arrival.message,)

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Sort messages into their streams. No checkpoint comes before that."""
        self.send_nowait(messages)
        await trio.lowlevel.checkpoint()

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Sort messages into their streams; see `Channel.send_nowait`."""
        for message in messages:
            origin = message.origin
            if isinstance(origin, PostOrigin) and message.answers:
                origin.stream.put(message.data)
                origin.stream.end()
                origin.answered()
                self._turnstiles.requests.charge_answer(self._holder, len(message.data))
                continue
            if message.answers and isinstance(origin, HttpOrigin):
                self.answered(message.answers, origin.place)
            stream = self._spoken(origin)
            number = stream.put(message.data)
            if message.request_ids:
                if number is None:
                    self._on_lost(message.request_ids)
                elif stream is self._standalone:
                    self._on_question(number, message.request_ids)
        return True

    def keep_places(self, requests: Sequence[Request], place: Place) -> None:
        """Let requests have a place until they are answered or given up, or this is closed."""
        self._places = {} if self._places is None else self._places
        for request in requests:
            self._places.setdefault(request.id, place)

    def answered(self, ids: Sequence[RequestId], place: Place | None) -> None:
        """Give back what requests took."""
        if place is not None and self._places is not None:
            place.leave()
            for id in ids:
                if self._places.get(id) is place:
                    del self._places[id]

    def gave_up(self, ids: Sequence[RequestId]) -> None:
        """Give back what requests took that are never answered."""
        if self._places is not None:
            for id in ids:
                self.answered([id], self._places.get(id))

    def fail(self, ids: Sequence[RequestId], error: RequestError) -> None:
        """Let requests of ours fail that cannot be answered. Never waits."""
        for id in ids:
            instead = encode_error(id, RequestError(TRANSPORT_FAILED, error.message))
            self._arrivals[_Arrival(Incoming(instead, failure=error), None)] = None
        self._wake()

    def has_room(self, origin: Origin | None) -> bool:
        """Whether more may be said on a stream."""
        return self._spoken(origin).has_room

    async def wait_room(self, origin: Origin | None) -> None:
        """Wait until more may be said on a stream; others do not wait."""
        await self._spoken(origin).wait_room()

    async def wait_turn(self, origin: Origin | None) -> None:
        """Wait until the session's client may be sent one more notification, on whichever stream."""
        del origin
        await self._turnstiles.notifications.enter(self._holder)

    def _spoken(self, origin: Origin | None) -> EventStream:
        # A goodbye may come when its request has been answered: then it goes where the client hears the rest.
        if isinstance(origin, PostOrigin) and not origin.spoken.is_ended:
            return origin.spoken
        return self._standalone

    async def aclose(self) -> None:
        """End it: what POSTs bring from now on is refused."""
        self._is_closed = True
        for place in (self._places or {}).values():
            place.leave()
        for arrival in self._arrivals:
            arrival.waiter.unpark()
        await trio.lowlevel.checkpoint()
