"""The wire of a session of the legacy era: many POSTs towards us, and a stream each, and one more, from us.

What a POST of the legacy era brings: a message or a batch, decoded once.

What a session of the legacy era keeps, and in whose name it is lent.

Two loans of bytes, because they are taken back for different reasons. What the session is and was told cannot be
taken back while one of its client's requests is open. What it has said and nobody has read can be, always: a
client that reads nothing has everything open, and holds most.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Container, Sequence
from typing import Any, Final, Literal, final

import attrs
import trio

from .._channel import Channel, Incoming, Origin, Outgoing, Received
from .._codec._json import is_array
from .._codec._jsonrpc import Message, Notification, Request, RequestId, encode_error, read_id
from .._core._account import Loan, Overdrawn, Pool, lend_all
from .._core._http_rules import HttpRefused, busy
from .._errors import TRANSPORT_FAILED, RequestError
from .._logs import Log
from .._trio import LightParkingLot
from ._call import HttpOrigin, MessageLoan, RequestSlot
from ._streams import EventStream
from ._turnstile import Turnstiles


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
        served: MessageLoan | None = None,
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
        self._places: dict[RequestId, RequestSlot] | None = None
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

    def keep_places(self, requests: Sequence[Request], place: RequestSlot) -> None:
        """Let requests have a place until they are answered or given up, or this is closed."""
        self._places = {} if self._places is None else self._places
        for request in requests:
            self._places.setdefault(request.id, place)

    def answered(self, ids: Sequence[RequestId], place: RequestSlot | None) -> None:
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


@final
@attrs.frozen(eq=False)
class PostBody:
    """The body of a POST.

    Attributes:
        body: As it came.
        value: Decoded.
        messages: What is in it; nothing if that is for whoever receives it to find out.
    """

    body: bytes
    value: Any
    messages: Sequence[Message]

    @property
    def is_batch(self) -> bool:
        """Whether it is a batch."""
        return is_array(self.value)

    @property
    def begins(self) -> bool:
        """Whether it is the handshake."""
        if self.is_batch or not self.messages:
            return False
        sole = self.messages[0]
        return isinstance(sole, Request) and sole.method == "initialize"

    @property
    def requests(self) -> list[Request]:
        """The requests in it."""
        return [message for message in self.messages if isinstance(message, Request)]

    @property
    def cancelled(self) -> list[RequestId]:
        """The ids of the requests that it gives up."""
        ids = [
            read_id((message.params or {}).get("requestId"))
            for message in self.messages
            if isinstance(message, Notification) and message.method == "notifications/cancelled"
        ]
        return [id for id in ids if id is not None]

    def without(self, ids: Container[RequestId]) -> PostBody | None:
        """Return it without the requests of these ids; `None` if nothing is left."""
        left = [
            n
            for n, message in enumerate(self.messages)
            if not isinstance(message, Request) or message.id not in ids
        ]
        if not left:
            return None
        value = [self.value[n] for n in left] if self.is_batch else self.value
        return PostBody(self.body, value, [self.messages[n] for n in left])

    def incoming(self, origin: Origin) -> Incoming:
        """Return it as what a peer receives."""
        return Incoming(self.body, origin, value=self.value)


_log: Final = Log("trio_mcp.http")

SESSION_BYTES: Final = 24 * 1024
"""What a session costs that has done nothing yet, with little in its streams. A test holds it to 20 KiB."""

STEP: Final = 4 * 1024
"""In these steps more is lent: what is said and read at once changes no loan."""

RETRY_AFTER: Final = 10
"""After how many seconds whoever finds no room may ask again."""


def too_many(error: Overdrawn) -> HttpRefused:
    """Return the refusal of what there is no room for: 429 if its sender has too much, else 503."""
    return busy(429 if error.is_own else 503, str(error), RETRY_AFTER)


@final
class SessionLoans:
    """The loans of one session.

    Args:
        places: Lends its place; `None` if it lasts for one request alone. Then it needs none, and never goes for
            others.
        bytes: Lends bytes.
        holder: In whose name.
        let_go: Called with whether the session has to go, or only what it has said and nobody may ever read. Must
            not wait.

    Raises:
        Overdrawn: There is no room for it.
    """

    __slots__ = (
        "_bytes",
        "_let_go",
        "_loans",
        "_told",
        "_unread",
        "_unread_loan",
        "handshake",
        "holder",
        "ids",
        "subscriptions",
    )

    def __init__(
        self,
        places: Pool | None,
        bytes: Pool,
        holder: str,
        let_go: Callable[[bool], object],
    ) -> None:
        self.holder: Final = holder
        self._bytes = bytes
        self._let_go = let_go
        self.handshake = self.ids = self.subscriptions = 0  # a dict of them would weigh on every session
        self._told = self._unread = 0
        self._unread_loan: Loan | None = None
        amounts = [(bytes, SESSION_BYTES)] if places is None else [(places, 1), (bytes, SESSION_BYTES)]
        give_way = None if places is None else self._take_all
        self._loans: tuple[Loan, ...] = ()  # it may be asked to give way before it has all of them
        self._loans = lend_all(amounts, holder, "sessions", give_way, own_gives_way=True)

    def hold(self) -> None:
        """A request of the client is open."""
        for loan in self._loans:
            loan.hold()

    def rest(self) -> None:
        """None is."""
        for loan in self._loans:
            loan.rest()

    def keep(self, what: Literal["handshake", "ids", "subscriptions"], amount: int) -> None:
        """The session keeps so much of what it was told.

        Args:
            what: What that is; of this it kept another amount before.
            amount: How much, in bytes.

        Raises:
            Overdrawn: There is no room for it; it is as before.
        """
        told = self._told + amount - int(getattr(self, what))
        size = SESSION_BYTES + max(0, math.ceil(told / STEP) - 1) * STEP
        if self._loans and self._loans[-1].amount != size:
            self._loans[-1].change(size, own_gives_way=True)
        setattr(self, what, amount)
        self._told = told

    def unread(self, amount: int) -> None:
        """So much more waits to be read in its streams, or less. If there is no room for it, the session goes."""
        self._unread += amount
        if self._unread <= STEP and self._unread_loan is None:
            return
        size = max(0, math.ceil(self._unread / STEP) - 1) * STEP
        loan = self._unread_loan
        try:
            if loan is not None:
                if loan.amount != size:
                    loan.change(size, own_gives_way=True)
            elif size and self._loans:
                self._unread_loan = self._bytes.lend(
                    self.holder, "streams", size, self._take_unread, own_gives_way=True
                )
        except Overdrawn:
            self._take_unread()
        else:
            if loan is not None and not size:
                loan.give_back()
                self._unread_loan = None

    def _take_all(self) -> None:
        _log.info("a session of %.100s gives way to others", self.holder)
        self.give_back()
        self._let_go(True)

    def _take_unread(self) -> None:
        """Others have use for what waits to be read."""
        loan, self._unread_loan = self._unread_loan, None
        if loan is not None:
            loan.give_back()
        loans, self._loans = self._loans, ()  # nothing is lent meanwhile
        self._let_go(False)
        self._loans = loans
        if self._unread > STEP:
            self._take_all()

    def give_back(self) -> None:
        """Nothing is kept any more. May be called again."""
        loans, self._loans = self._loans, ()
        for loan in loans:
            loan.give_back()
        if self._unread_loan is not None:
            self._unread_loan.give_back()
            self._unread_loan = None
