"""The channel of a legacy session: many POSTs to us, and a stream for each, and one more stream, from us.

Also the body of a legacy POST, cancellations that arrive before their requests, and what the memory of a session
costs its client. When a session begins and ends is decided by `_session`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Container, Sequence
from typing import Any, Final, Literal, TypeVar, final

import attrs
import trio

from .._audit import audit
from .._channel import Channel, Incoming, Origin, Outgoing, Received
from .._codec._json import is_array
from .._codec._jsonrpc import Message, Notification, Request, RequestId, encode_error, read_id
from .._core._account import Account, Loan, Overdrawn, Pool, lend_all
from .._core._http1 import Headers
from .._core._http_rules import HttpRefused, HttpServerSettings, busy
from .._errors import SERVER_BUSY, TRANSPORT_FAILED, RequestError
from .._logs import Log
from .._peer._exchange import end_message, hold_message
from .._trio import LightParkingLot
from ._call import RETRY_AFTER, HttpCall, RequestLoans, nothing
from ._streams import EventStream

_T = TypeVar("_T")

_log: Final = Log("trio_mcp.http")

SESSION_BYTES: Final = 24 * 1024
"""What a session costs that has done nothing yet, with little in its streams. A test holds it to 20 KiB."""

STEP: Final = 4 * 1024
"""The loans of a session grow in steps of so many bytes: a message that is read at once changes no loan."""

FEW_PASSES: Final = 2
"""In so many passes of the event loop a session takes a message, nearly always; as tasks run in any order, it may
have taken it after the first."""

KEPT_FOR: Final = 30.0
"""How long a cancellation is kept whose request has not arrived, in seconds: about as long as a busy server may
take to read the request."""

MAX_IDS: Final = 512
MAX_ID_LENGTH: Final = 64

ID_BYTES: Final = 256
"""What it takes to remember an id: one of the longest, or, where numbers are ids, one and a half of them."""


def session_places(account: Account, settings: HttpServerSettings) -> Pool:
    """Return the pool of places for sessions, of which over HTTP and over WebSockets there is one."""
    return account.places(
        "sessions",
        "max_sessions",
        settings.max_sessions,
        settings.max_sessions_per_principal,
        "max_sessions_per_principal",
    )


def too_many(error: Overdrawn) -> HttpRefused:
    """Return the refusal for want of room: 429 if the client itself has too much, else 503."""
    return busy(429 if error.is_own else 503, str(error), RETRY_AFTER)


@attrs.define(eq=False)
class _PostedOrigin:
    """What a POST has brought to a session, which may go on to serve it when the client has left the POST.

    Kept true: `_messages` is how many of its messages the session has and is not done with. While the POST is
    open, their loan is that of the POST; from then on it is here, until there are none.
    """

    _messages: int = attrs.field(default=0, init=False)
    _outlived: dict[Loan, None] | None = attrs.field(default=None, init=False)
    _loan: Loan | None = attrs.field(default=None, init=False)

    @property
    def is_served(self) -> bool:
        """Whether the session has messages of it that it is not done with."""
        return self._messages > 0

    def hold(self) -> None:
        """The session has a message, or a part of one that lasts by itself; see `Origin`."""
        self._messages += 1

    def done(self) -> None:
        """A message is done with; see `Origin`."""
        self._messages -= 1
        if self._loan is not None and self._outlived is not None and not self._messages:
            self._outlived.pop(self._loan, None)
            self._loan.give_back()

    def outlive(self, loans: RequestLoans, outlived: dict[Loan, None]) -> None:
        """The POST is over, and the session still serves it: take over its loan.

        Args:
            loans: The loans of the POST.
            outlived: Such loans of the session, which gives them back when it ends.
        """
        if loans.served is not None:
            self._loan, loans.served = loans.served, None
            self._outlived = outlived
            outlived[self._loan] = None


@final
@attrs.define(eq=False)
class HttpOrigin(_PostedOrigin):
    """One request as the origin of a message; see `Origin`.

    Attributes:
        principal: Who sent it.
        client_key: The client that is counted.
        headers: Its header fields.
        on_answered: Called when its request is answered, where the POST itself gets no answer.
        client: The address of who has sent it.
    """

    principal: str | None
    client_key: str
    headers: Headers | None = None
    on_answered: Callable[[], object] = nothing
    client: str | None = None


@final
@attrs.define(eq=False)
class PostBody:
    """The body of a POST, decoded once: a message or a batch.

    Attributes:
        body: Its bytes.
        value: Decoded.
        messages: The messages in it; empty if it is left to the session's peer to refuse it.
        is_batch: Whether it is a batch.
        begins: Whether it is the handshake.
        requests: The requests in it.
        cancelled: The ids of the requests that it cancels.
    """

    body: bytes
    value: Any
    messages: Sequence[Message]
    is_batch: bool = attrs.field(init=False)
    begins: bool = attrs.field(default=False, init=False)
    requests: Sequence[Request] = attrs.field(default=(), init=False)
    cancelled: Sequence[RequestId] = attrs.field(default=(), init=False)

    def __attrs_post_init__(self) -> None:
        self.is_batch = is_array(self.value)
        sole = self.messages[0] if self.messages and not self.is_batch else None
        if isinstance(sole, Request):
            self.requests = (sole,)
            self.begins = sole.method == "initialize"
            return
        self.requests = [message for message in self.messages if isinstance(message, Request)]
        self.cancelled = [id for message in self.messages if (id := _cancelled_by(message)) is not None]

    def without(self, ids: Container[RequestId]) -> PostBody | None:
        """Return it without the requests of these ids; `None` if nothing is left."""
        return self._only(lambda message: not isinstance(message, Request) or message.id not in ids)

    def only_cancelling(self, ids: Container[RequestId]) -> PostBody | None:
        """Return it with nothing but what cancels the requests of these ids; `None` if nothing is left."""
        return self._only(lambda message: (id := _cancelled_by(message)) is not None and id in ids)

    def _only(self, is_wanted: Callable[[Message], bool]) -> PostBody | None:
        left = [n for n, message in enumerate(self.messages) if is_wanted(message)]
        if not left:
            return None
        value = [self.value[n] for n in left] if self.is_batch else self.value
        return PostBody(self.body, value, [self.messages[n] for n in left])

    def incoming(self, origin: Origin) -> Incoming:
        """Return it as what a peer receives."""
        return Incoming(self.body, origin, value=self.value)


def _cancelled_by(message: Message) -> RequestId | None:
    """Return the id of the request that a message cancels; `None` if it cancels none."""
    if not isinstance(message, Notification) or message.method != "notifications/cancelled":
        return None
    return read_id((message.params or {}).get("requestId"))


@final
@attrs.define(eq=False)
class PostOrigin(_PostedOrigin):
    """A POST with requests, as the origin of its messages.

    Args:
        principal: Who sent it.
        answers: The stream for the answers.
        messages: The stream for everything else that belongs to its requests.
        on_answered: Called when all its requests are answered; ends the stream for the answers.
        headers: Its header fields.
        is_releasable: Whether its client knows how to reconnect.
        client: The address of who has sent it.
        keep_answer: Checks that there is room for an answer of so many bytes; see `Origin`.
    """

    principal: str | None
    answers: EventStream
    messages: EventStream
    on_answered: Callable[[], object]
    headers: Headers
    _is_releasable: bool = attrs.field(alias="is_releasable", kw_only=True)
    client: str | None = attrs.field(default=None, kw_only=True)
    keep_answer: Callable[[int], object] = attrs.field(kw_only=True)

    def release(self, retry_after: float | None) -> None:
        """Close its connection; see `ReleasableOrigin`."""
        if self._is_releasable:
            self.answers.release(retry_after)


@final
class EarlyCancellations:
    """The requests that one client has cancelled before they arrived; bounded in number and in time.

    In the legacy era a request and its cancellation have a POST each, and no order. The cancellation of a request
    that arrived before is not kept, even if the request is long answered: a client that uses an id twice, which
    it must not, then gets its second answer.
    """

    __slots__ = ("_early", "_seen")

    def __init__(self) -> None:
        self._seen: dict[RequestId, None] = {}
        self._early: dict[RequestId, float] = {}

    @property
    def has_any(self) -> bool:
        """Whether any request was cancelled that has not arrived."""
        return bool(self._early)

    @property
    def size(self) -> int:
        """How many bytes they take at most."""
        return ID_BYTES * (len(self._seen) + len(self._early))

    def add(self, id: RequestId, now: float) -> None:
        """Note that a request was cancelled."""
        if id not in self._seen and not _is_long(id):
            while self._early and now - self._early[oldest := next(iter(self._early))] >= KEPT_FOR:
                del self._early[oldest]
            _keep(self._early, id, now)

    def take(self, id: RequestId, now: float) -> bool:
        """Note that a request has arrived, and return whether it was cancelled before."""
        if not _is_long(id):
            _keep(self._seen, id, None)
        cancelled_at = self._early.pop(id, None)
        return cancelled_at is not None and now - cancelled_at < KEPT_FOR


def _keep(kept: dict[RequestId, _T], id: RequestId, value: _T) -> None:
    """Keep a value as the newest, and drop the oldest beyond `MAX_IDS`."""
    kept.pop(id, None)
    kept[id] = value
    if len(kept) > MAX_IDS:
        del kept[next(iter(kept))]


def _is_long(id: RequestId) -> bool:
    """Whether an id is too long to be kept, as no honest client's is."""
    return isinstance(id, str) and len(id) > MAX_ID_LENGTH


@final
@attrs.define(eq=False)
class _Arrival:
    message: Incoming
    after: Callable[[], object] | None
    is_taken: bool = False
    waiter: LightParkingLot = attrs.field(factory=LightParkingLot)


@final
@attrs.define(eq=False)
class SessionChannel(Channel):
    """Takes what POSTs bring, and sorts what is sent into the streams it belongs to. Waits for no client.

    Args:
        description: What it is, for logs.
        standalone: The stream for messages that belong to no POST.
        on_question: Called with the number and the ids of requests that are queued on that stream.
        on_lost: Called with the ids of requests that no client will ever read.
        withdraw: Withdraws a request, if no client was sent it yet, and returns whether that was so.
    """

    transport = "http"
    _description: str
    _standalone: EventStream
    _on_question: Callable[[int, tuple[RequestId, ...]], object] = attrs.field(alias="on_question", kw_only=True)
    _on_lost: Callable[[tuple[RequestId, ...]], object] = attrs.field(alias="on_lost", kw_only=True)
    _withdraw: Callable[[RequestId], bool] = attrs.field(alias="withdraw", kw_only=True)
    _arrivals: OrderedDict[_Arrival, None] = attrs.field(factory=OrderedDict[_Arrival, None], init=False)
    _after: Callable[[], object] | None = attrs.field(default=None, init=False)
    _wake: Callable[[], object] = attrs.field(default=nothing, init=False)
    _has_all: bool = attrs.field(default=False, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    # Receiving.

    async def put(
        self,
        message: Incoming,
        call: HttpCall,
        after: Callable[[], object] | None = None,
        leave: Callable[[], Incoming | None] = nothing,
    ) -> bool:
        """Hand over what a POST has brought, and wait until the peer takes it, or the client has gone.

        Args:
            message: The message, or a batch.
            call: The POST.
            after: Called when the peer asks for the next one: what could be done at once is done. Then this does
                not return in the pass of the event loop in which the message is taken.
            leave: Called when the client has gone before; returns what the peer takes all the same, in its place.

        Returns:
            Whether the peer has taken it.

        Raises:
            trio.BrokenResourceError: The session has ended.
        """
        arrival = _Arrival(message, after)
        self._arrivals[arrival] = None
        hold_message(message.origin)
        self._wake()
        call.on_gone = arrival.waiter.unpark  # a cancel scope for each request would cost more
        try:
            for _ in range(FEW_PASSES):
                if after is not None or not arrival.is_taken:
                    await trio.lowlevel.checkpoint()
            while not arrival.is_taken:
                if self._is_closed:
                    raise trio.BrokenResourceError("the session has ended")
                if call.is_gone:
                    return False
                await arrival.waiter.park()
            return True
        finally:
            call.on_gone = nothing
            left = None if arrival.is_taken else leave()
            if left is not None:
                arrival.message = left
            elif not arrival.is_taken:
                del self._arrivals[arrival]
                end_message(message.origin)

    def put_nowait(self, message: Incoming) -> None:
        """Hand over what no POST has brought. Never waits."""
        hold_message(message.origin)
        self._arrivals[_Arrival(message, None)] = None
        self._wake()

    def fail(self, ids: Sequence[RequestId], error: RequestError) -> None:
        """Let requests of ours fail that cannot be answered. Never waits."""
        for id in ids:
            instead = encode_error(id, RequestError(TRANSPORT_FAILED, error.message))
            self._arrivals[_Arrival(Incoming(instead, failure=error), None)] = None
        self._wake()

    def end_input(self) -> None:
        """Note that no POST will bring anything more. Never waits."""
        self._has_all = True
        self._wake()

    def rests(self, wake: Callable[[], object]) -> bool:
        """No task waits here for messages; see `Channel.rests`."""
        self._wake = wake
        return True

    def may_rest(self) -> bool:
        """Whether nothing waits to be taken; see `Channel.may_rest`."""
        after, self._after = self._after, None
        if after is not None:
            after()
        return not self._arrivals and not self._has_all

    async def receive(self) -> Sequence[Received]:
        """Return the next message, or nothing if its POST was cancelled meanwhile; see `Channel.receive`.

        Raises:
            trio.EndOfChannel: There will be no more.
        """
        if not self._arrivals:
            await trio.lowlevel.checkpoint()
        if not self._arrivals:
            if self._has_all:
                raise trio.EndOfChannel
            return ()
        await trio.lowlevel.checkpoint_if_cancelled()  # what arrived has waited for a turn of the event loop
        arrival, _ = self._arrivals.popitem(last=False)
        arrival.is_taken = True
        self._after = arrival.after
        arrival.waiter.unpark()
        return (arrival.message,)

    # Sending.

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Sort messages into their streams, before any checkpoint."""
        self.send_nowait(messages)
        await trio.lowlevel.checkpoint()

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Sort messages into their streams; see `Channel.send_nowait`."""
        for message in messages:
            origin = message.origin
            if isinstance(origin, PostOrigin) and message.answers:
                origin.answers.put(message.data, is_answer=True)
                origin.on_answered()
                continue
            if message.answers and isinstance(origin, HttpOrigin):
                origin.on_answered()
            stream = self._stream_for(origin)
            number = stream.put(message.data)
            if message.request_ids:
                if number is None:
                    self._on_lost(message.request_ids)
                elif stream is self._standalone:
                    self._on_question(number, message.request_ids)
        return True

    def give_up(self, request_id: RequestId, reason: str | None) -> Notification | None:
        """Withdraw a request that waits for its client, or return what cancels it; see `Channel.give_up`."""
        return None if self._withdraw(request_id) else super().give_up(request_id, reason)

    def has_room(self, origin: Origin | None) -> bool:
        """Whether more may be queued on a stream."""
        return self._stream_for(origin).has_room

    async def wait_room(self, origin: Origin | None) -> None:
        """Wait until more may be queued on a stream; senders on other streams do not wait."""
        await self._stream_for(origin).wait_room()

    def _stream_for(self, origin: Origin | None) -> EventStream:
        # A cancellation may be sent after its request was answered: then it goes to the standalone stream.
        if isinstance(origin, PostOrigin) and not origin.messages.is_ended:
            return origin.messages
        return self._standalone

    async def aclose(self) -> None:
        """Close it: what POSTs bring from now on is refused."""
        self._is_closed = True
        for arrival in self._arrivals:
            arrival.waiter.unpark()
        await trio.lowlevel.checkpoint()


@final
@attrs.define(eq=False, weakref_slot=False)
class SessionLoans:
    """The loans of one session, in the name of its client.

    Its place can be taken back while no request of the client is open; then it ends, and gives everything back.
    What is queued in its streams and unread is lent by itself: if there is no room for that, it is dropped, or
    the session ends if that cannot be.

    Args:
        places: Lends its place among the sessions; `None` if it lasts for one request alone. Then it needs no
            place, and is never ended for others.
        bytes: Lends bytes.
        client: The client whose session it is.
        let_go: Called with whether the session has to end, or only to drop what is queued and may never be read,
            and why. Must not wait.

    Raises:
        Overdrawn: There is no room for it.
    """

    _places: Pool | None
    _bytes: Pool
    client: str
    _let_go: Callable[[bool, str], object]
    # A dict of these four would weigh on every session.
    handshake: int = attrs.field(default=0, init=False)
    ids: int = attrs.field(default=0, init=False)
    subscriptions: int = attrs.field(default=0, init=False)
    followed: int = attrs.field(default=0, init=False)
    _kept: int = attrs.field(default=0, init=False)
    _unread: int = attrs.field(default=0, init=False)
    _unread_loan: Loan | None = attrs.field(default=None, init=False)
    _loans: tuple[Loan, ...] = attrs.field(default=(), init=False)

    def __attrs_post_init__(self) -> None:
        place = () if self._places is None else ((self._places, 1),)
        give_way = None if self._places is None else self._make_room
        amounts = (*place, (self._bytes, SESSION_BYTES))
        self._loans = lend_all(amounts, self.client, "sessions", give_way, own_gives_way=True)

    def hold(self) -> None:
        """Note that a request of the client is open."""
        for loan in self._loans:
            loan.hold()

    def rest(self) -> None:
        """Note that no request of the client is open."""
        for loan in self._loans:
            loan.rest()

    def keep(self, what: Literal["handshake", "ids", "subscriptions", "followed"], amount: int) -> None:
        """Borrow for what the client declared, and the session keeps.

        Args:
            what: What that is; replaces the amount for the same before.
            amount: How much, in bytes.

        Raises:
            Overdrawn: There is no room for it; nothing has changed.
        """
        kept = self._kept + amount - int(getattr(self, what))
        size = SESSION_BYTES + max(0, math.ceil(kept / STEP) - 1) * STEP
        if self._loans and self._loans[-1].amount != size:
            self._loans[-1].change(size)
        setattr(self, what, amount)
        self._kept = kept

    def unread(self, amount: int) -> None:
        """Borrow for so many more queued bytes, or less. If there is no room for them, they are dropped."""
        self._unread += amount
        if self._unread <= STEP and self._unread_loan is None:
            return
        size = max(0, math.ceil(self._unread / STEP) - 1) * STEP
        loan = self._unread_loan
        try:
            if loan is not None:
                if loan.amount != size:
                    loan.change(size)
            elif size and self._loans:
                self._unread_loan = self._bytes.lend(self.client, "streams", size)
        except Overdrawn as problem:
            self._drop_unread(f"there is no room for what is not read: {problem}")
        else:
            if loan is not None and not size:
                loan.give_back()
                self._unread_loan = None

    def check_room(self, size: int) -> None:
        """Check that there is room for so many more bytes, which are about to be queued.

        Raises:
            RequestError: There is none.
        """
        try:
            self._bytes.lend(self.client, "streams", size).give_back()
        except Overdrawn as problem:
            refusal = RequestError(SERVER_BUSY, f"there is no room for an answer of {size} bytes: {problem}")
            raise problem.marked(refusal) from None

    def _make_room(self) -> None:
        _log.info("a session of %.100s gives way to another", self.client)
        self._end("this session had to make room for another", "max_sessions")

    def _end(self, why: str, limit: str) -> None:
        audit("session", why, limit=limit, transport="http", client=self.client)
        self.give_back()
        self._let_go(True, why)

    def _drop_unread(self, why: str) -> None:
        """Drop what is queued; end the session, if that is not enough."""
        loan, self._unread_loan = self._unread_loan, None
        if loan is not None:
            loan.give_back()
        loans, self._loans = self._loans, ()  # `unread` borrows nothing meanwhile
        self._let_go(False, why)
        self._loans = loans
        if self._unread > STEP:
            _log.info("a session of %.100s is ended: %s", self.client, why)
            self._end(why, "max_kept_bytes")

    def give_back(self, *, is_read: bool = True) -> None:
        """Give back all loans. Again does nothing.

        Args:
            is_read: Whether nothing is queued any more. If connections still read it, that loan is kept.
        """
        loans, self._loans = self._loans, ()
        for loan in loans:
            loan.give_back()
        if self._unread_loan is not None and is_read:
            self._unread_loan.give_back()
            self._unread_loan = None
