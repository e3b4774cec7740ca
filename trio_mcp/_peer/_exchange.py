"""One request of the other side while it is being served, and the interface to the floor above: `Dispatcher`.

`InboundTable` decides which requests run, which wait and which are refused. An exchange is what a handler runs
in: its request, its cancel scope, its deadline, and its sink for notifications and for requests back to the
caller. It knows no connection: on a pipe the sink is the peer's sender, over HTTP the response to one POST.
`make_reply` runs a handler in it and makes its reply, whatever happens.
"""

from __future__ import annotations

import enum
import math
from builtins import id as identity_of
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import get_ident
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, final

import attrs
import trio

from .._audit import audit
from .._channel import Origin, client_of
from .._codec._json import is_object, weight_of
from .._codec._jsonrpc import Encoded, Notification, Request, RequestId, encode_error, encode_response, read_id
from .._core._lifecycle import target_of
from .._errors import (
    CANCELLED_BY_DEADLINE,
    INTERNAL_ERROR,
    SERVER_BUSY,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
)
from .._limits import KIB, Limits
from .._logs import Log
from .._revisions import PROGRESS_TOKEN_KEY, TIMEOUT_KEY
from .._trio import Contained, LightParkingLot, check_thread, propagating

# The table of inbound requests. Decisions only: no I/O, no Trio, no clock. The peer starts and cancels tasks; the
# table decides when. Exchanges and their replies follow it.


_log: Final = Log("trio_mcp.peer")

WAITING_OVERHEAD: Final = 256
"""Bytes that a waiting request takes besides its own: its entry, its id, the object around its bytes."""

_K = TypeVar("_K")
_V = TypeVar("_V")
_R = TypeVar("_R")  # what the owner keeps for a running request
_W = TypeVar("_W")  # what the owner keeps for a waiting request


@final
class Admission(enum.Enum):
    """What to do with a request that was received."""

    RUN = "start it now"
    WAIT = "keep it: as many as may run are running"
    DUPLICATE = "refuse it: a request with this id is not answered yet"


@final
class Several(dict[_K, dict[_V, None]]):
    """Finds values by a key, which several may have, in order."""

    __slots__ = ()

    def add(self, key: _K, value: _V) -> None:
        """Add a value."""
        self.setdefault(key, {})[value] = None

    def remove(self, key: _K, value: _V) -> None:
        """Remove a value, if it is there."""
        if (values := self.get(key)) is not None:
            values.pop(value, None)
            if not values:
                del self[key]


@final
@attrs.define(eq=False)
class InboundTable(Generic[_R, _W]):
    """The requests of the peer that are not answered yet.

    A request runs at once unless `max_inbound_requests` run already, or those that run have `max_inbound_bytes`
    together. Then it waits, in order of arrival. Responses, cancellations and pings are not entered here, so they
    are never delayed.

    A long-lived request is open until one of the two sides ends it. It takes no place among those that run, or a
    hundred of them would leave none for a short one; there are separate limits for them.

    Args:
        limits: How many requests may run, how many places long-lived ones may take, of which one may take more
            than one, and what each kind may weigh together; beyond `max_waiting_bytes` it `is_overfull`.

    Attributes:
        is_overfull: Whether so much waits that no more should be put off.
        active: The requests that run, each with its weight and origin.
    """

    _limits: Limits
    is_overfull: bool = attrs.field(default=False, init=False)
    active: dict[RequestId, tuple[_R, int, object]] = attrs.field(
        factory=dict[RequestId, tuple[_R, int, object]], init=False
    )
    _running_bytes: int = attrs.field(default=0, init=False)
    _unweighed: dict[RequestId, bytes] = attrs.field(factory=dict[RequestId, bytes], init=False)
    _long_lived: dict[RequestId, tuple[_R, int, int, object]] = attrs.field(
        factory=dict[RequestId, tuple[_R, int, int, object]], init=False
    )
    _long_lived_places: int = attrs.field(default=0, init=False)
    _long_lived_bytes: int = attrs.field(default=0, init=False)
    _waiting: OrderedDict[RequestId, tuple[_W, int, object]] = attrs.field(
        factory=OrderedDict[RequestId, tuple[_W, int, object]], init=False
    )
    _waiting_bytes: int = attrs.field(default=0, init=False)
    # By identity of the origin.
    _from: Several[int, RequestId] = attrs.field(factory=Several[int, RequestId], init=False)

    @property
    def running(self) -> int:
        """How many requests run."""
        return len(self.active)

    @property
    def long_lived(self) -> int:
        """How many long-lived requests there are."""
        return len(self._long_lived)

    @property
    def waiting(self) -> int:
        """How many requests wait for a place."""
        return len(self._waiting)

    @property
    def is_relieved(self) -> bool:
        """Whether the waiting requests take at most half of `max_waiting_bytes`."""
        return self._waiting_bytes * 2 <= self._limits.max_waiting_bytes

    def admit(self, id: RequestId) -> Admission:
        """Decide about a new request. Call `run`, `run_long_lived` or `wait` next, with no checkpoint between."""
        if id in self.active or id in self._long_lived or id in self._waiting:
            return Admission.DUPLICATE
        if not self._waiting and (
            len(self.active) < self._limits.max_inbound_requests
            and self._running_bytes < self._limits.max_inbound_bytes
        ):
            return Admission.RUN
        return Admission.RUN if not self._waiting and self._has_room else Admission.WAIT

    @property
    def _has_room(self) -> bool:
        if len(self.active) >= self._limits.max_inbound_requests:
            return False
        return self._running_bytes < self._limits.max_inbound_bytes or self._has_room_weighed()

    def _has_room_weighed(self) -> bool:
        """Weigh the running ones whose weight is only a guess, and decide again. Each is weighed once."""
        for id, data in self._unweighed.items():
            request, guessed, origin = self.active[id]
            size = weight_of(data)
            self.active[id] = request, size, origin
            self._running_bytes += size - guessed
        self._unweighed.clear()
        return self._running_bytes < self._limits.max_inbound_bytes

    # Each of these three takes the origin of the request, for `all_from`.

    def run(
        self, id: RequestId, request: _R, size: int, origin: object = None, *, data: bytes | None = None
    ) -> None:
        """Enter a request as running.

        Args:
            id: Its id.
            request: What the owner keeps for it.
            size: Its size in bytes.
            origin: Where it came from.
            data: Its JSON, if `size` is only an upper bound: it is weighed when there is no room for another
                request.
        """
        self.active[id] = request, size, origin
        if data is not None:
            self._unweighed[id] = data
        self._running_bytes += size
        if origin is not None:  # as `Several.add`
            self._from.setdefault(identity_of(origin), {})[id] = None

    def has_room_for_long_lived(self, places: int, size: int) -> bool:
        """Whether there is room for one more long-lived request."""
        return (
            self._long_lived_places + places <= self._limits.max_subscriptions
            and self._long_lived_bytes + size <= self._limits.max_subscription_bytes
        )

    def run_long_lived(self, id: RequestId, request: _R, places: int, size: int, origin: object = None) -> None:
        """Enter a long-lived request."""
        self._long_lived[id] = request, places, size, origin
        self._long_lived_places += places
        self._long_lived_bytes += size
        if origin is not None:
            self._from.add(identity_of(origin), id)

    def wait(self, id: RequestId, request: _W, size: int, origin: object = None) -> None:
        """Enter a request as waiting."""
        size += WAITING_OVERHEAD
        self._waiting[id] = request, size, origin
        self._weigh_waiting(size)
        if origin is not None:
            self._from.add(identity_of(origin), id)

    def all_from(self, origin: object) -> tuple[RequestId, ...]:
        """Return the ids of all requests from an origin."""
        return tuple(self._from.get(identity_of(origin), ()))

    def finish(self, id: RequestId) -> None:
        """Take out a running or long-lived request: it is answered, or never will be."""
        if id in self._long_lived:
            _, places, size, origin = self._long_lived.pop(id)
            self._long_lived_places -= places
            self._long_lived_bytes -= size
        else:
            _, size, origin = self.active.pop(id)
            self._unweighed.pop(id, None)
            self._running_bytes -= size
        if origin is not None:  # as `Several.remove`
            ids = self._from[identity_of(origin)]
            del ids[id]
            if not ids:
                del self._from[identity_of(origin)]

    def next_waiting(self) -> _W | None:
        """Take out the request that has waited longest, if there is one and there is room to run it."""
        if not self._waiting or not self._has_room:
            return None
        return self._taken_out(*self._waiting.popitem(last=False))

    def cancel_waiting(self, id: RequestId) -> _W | None:
        """Take out a request that has not been started: the peer has cancelled it."""
        found = self._waiting.pop(id, None)
        return None if found is None else self._taken_out(id, found)

    def _taken_out(self, id: RequestId, waited: tuple[_W, int, object]) -> _W:
        request, size, origin = waited
        self._weigh_waiting(-size)
        if origin is not None:
            self._from.remove(identity_of(origin), id)
        return request

    def get_running(self, id: RequestId) -> _R | None:
        """Return the request with this id, if it runs or is long-lived."""
        found = self.active.get(id) or self._long_lived.get(id)
        return None if found is None else found[0]

    def all_running(self) -> tuple[_R, ...]:
        """Return the running requests, oldest first, and then the long-lived ones."""
        return (
            *(request for request, _, _ in self.active.values()),
            *(request for request, _, _, _ in self._long_lived.values()),
        )

    def forget_waiting(self) -> tuple[tuple[RequestId, _W], ...]:
        """Take out all requests that have not been started, with their ids, oldest first."""
        forgotten = tuple((id, request) for id, (request, _, _) in self._waiting.items())
        for id, (_, _, origin) in self._waiting.items():
            if origin is not None:
                self._from.remove(identity_of(origin), id)
        self._waiting.clear()
        self._weigh_waiting(-self._waiting_bytes)
        return forgotten

    def _weigh_waiting(self, size: int) -> None:
        self._waiting_bytes += size
        self.is_overfull = self._waiting_bytes > self._limits.max_waiting_bytes


def hold_message(origin: Origin | None) -> None:
    """Note that something goes on with a message from an origin until `end_message`; see `Origin`."""
    hold = None if origin is None else getattr(origin, "hold", None)
    if hold is not None:
        hold()


def end_message(origin: Origin | None) -> None:
    """Note that a message that was received, or what went on with it, is done with; see `Origin`."""
    done = None if origin is None else getattr(origin, "done", None)
    if done is not None:
        done()


MAX_GRANTED_MS: Final = 2**53
"""The longest time a caller can grant, in milliseconds: what every JSON library keeps exactly."""

Answer: TypeAlias = Mapping[str, Any] | Encoded
"""A result as plain JSON, or already encoded."""


@final
@attrs.frozen
class Progress:
    """How much of a request is done.

    Attributes:
        progress: How much is done; greater each time.
        total: How much there is to do, if it is known.
        message: What is being done, for people.

    Spec: 2026-07-28, basic/patterns/progress.
    """

    progress: float
    total: float | None = None
    message: str | None = None


OnProgress: TypeAlias = Callable[[Progress], object]
"""Called in the task that waits for the request; if it returns an awaitable, that is awaited there too."""


class ExchangeSink(Protocol):
    """Sends what a handler sends: notifications and requests that belong to its exchange."""

    @property
    def transport(self) -> str:
        """The name of the transport."""
        ...

    def send_notification(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> Awaitable[None]:
        """Send a notification that belongs to the exchange, waiting for room. Does not checkpoint if there is."""
        ...

    def send_notification_nowait(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to the exchange, if there is room.

        Raises:
            trio.WouldBlock: There is no room; nothing was sent.
        """
        ...

    def send_request(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Send a request for the exchange and wait for the result."""
        ...


@final
@attrs.define(eq=False)
class Exchange:
    """A request of the other side that is being served.

    Attributes:
        request: The request.
        origin: Where it came from, as far as the transport knows.
        received_at: When it was received, on Trio's clock.
        sink: Sends what its handler sends.
        scope: Cancelled when the other side gives the request up, when its time is over, and when serving ends.
            A task that serves one request after another uses one for all, until it is cancelled.
        silenced: Whether nothing more may be sent for it, because it was given up or is answered.
        given_up: Whether the other side gave it up.
        stopped: Whether serving ended before it did.
        cancel_parked: Cancels, for a reason, the parked handler that serves this request in another task. Called
            when the request ends, unless an answer gets to the wire: the client may go on with that.
        on_drain: Called when serving is to end, for a long-lived request.
        deadline: When the time that the caller granted is over, on Trio's clock. Unlike that of the scope it
            stays when the request is done.
        waits_for: What its handler waits for, as far as that is known, for people; see `waiting`.
    """

    request: Request
    origin: Origin | None
    received_at: float
    sink: ExchangeSink
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    silenced: bool = False
    given_up: bool = False
    stopped: bool = False
    cancel_parked: Callable[[str], object] | None = None
    on_drain: Callable[[], object] | None = None
    deadline: float = math.inf
    waits_for: str | None = None
    _abandoned: LightParkingLot | None = None
    _last_progress: float = -math.inf
    _thread: int = attrs.field(factory=get_ident, init=False)

    def check_thread(self) -> None:
        """Check that this is the thread of the handler; see there."""
        check_thread(self._thread, "this request", "ctx.info")

    @property
    def is_over(self) -> bool:
        """Whether nothing more may be sent for it.

        Also when the time that its caller granted has passed: then the caller's cancellation is on its way.
        """
        return self.silenced or (self.is_overdue and not self.stopped)

    @property
    def is_overdue(self) -> bool:
        """Whether the time that its caller granted has passed."""
        return self.deadline != math.inf and self.scope.cancel_called

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`, empty if it has none."""
        params = self.request.params
        meta = None if params is None else params.get("_meta")
        return meta if is_object(meta) else {}

    def begin(self, handler: Handler, dispatcher: Dispatcher) -> Handler:
        """Give the scope the deadline the caller granted, counted from when the request was received.

        Returns what is to serve it: the handler, unless that time is over already. Then it must not be begun, and
        the parked handler that it would have resumed is cancelled.
        """
        params = self.request.params
        meta: Any = None if params is None else params.get("_meta")
        granted = meta.get(TIMEOUT_KEY) if meta.__class__ is dict else None
        if granted is None:
            return handler
        if isinstance(granted, (int, float)) and not isinstance(granted, bool) and granted >= 0:
            # An integer may be too large to be a float; what is so far away is no deadline.
            self.deadline = self.scope.deadline = self.received_at + min(granted, MAX_GRANTED_MS) / 1000
            if self.deadline <= trio.current_time():
                if self.cancel_parked is None:
                    self.cancel_parked = dispatcher.parked_canceller(self.request, self.origin)
                return not_begun
        return handler

    def follow(self, other: Exchange) -> None:
        """Continue the progress of the last request of the same call: what was reported is not sent again."""
        self._last_progress = other._last_progress

    def give_up(self, reason: str) -> None:
        """The other side waits no longer: cancel the handler, and send nothing more."""
        self.given_up = True
        self.silenced = True
        self._cancel(reason)

    def stop(self, reason: str) -> None:
        """Cancel the handler because serving ends."""
        self.stopped = True
        self._cancel(reason)

    def _cancel(self, reason: str) -> None:
        self.scope.cancel(reason=reason)
        self.end_parked(reason)
        if self._abandoned is not None:
            self._abandoned.unpark_all()

    def end_parked(self, reason: str) -> None:
        """Cancel the parked handler of this request, if there is one.

        Also for an answered request whose answer was never written.
        """
        if self.cancel_parked is not None:
            self.cancel_parked(reason)

    async def wait_abandoned(self) -> None:
        """Wait until the other side gives the request up, or serving ends. Does not checkpoint if so."""
        if self._abandoned is None:
            self._abandoned = LightParkingLot()
        while not (self.given_up or self.stopped):
            await self._abandoned.park()

    async def notify(
        self, method: str, params: Mapping[str, Any] | Encoded | None = None, *, checkpoints: bool = True
    ) -> None:
        """Send a notification that belongs to this request; silently nothing once it is over.

        Nor does a handler get an error of its connection that was cancelled because that has ended, and cleans up
        behind a shield. Without `checkpoints` it waits for room alone.
        """
        if get_ident() != self._thread:
            self.check_thread()
        if self.is_over:
            await trio.lowlevel.checkpoint()
            return
        try:
            await self.sink.send_notification(self, method, params)
            if checkpoints:
                await trio.lowlevel.cancel_shielded_checkpoint()
        except (ConnectionLost, trio.ClosedResourceError):
            if not self.scope.cancel_called:
                raise

    def notify_nowait(self, method: str, params: Mapping[str, Any] | Encoded | None = None) -> None:
        """Send a notification that belongs to this request, if there is room; silently nothing once it is over.

        Raises:
            trio.WouldBlock: There is no room; nothing was sent.
            LocalProtocolError: It is larger than a message may be.
            ConnectionLost: The connection is gone.
            trio.ClosedResourceError: This end was closed.
        """
        self.check_thread()
        if not self.is_over:
            try:
                self.sink.send_notification_nowait(self, method, params)
            except (ConnectionLost, trio.ClosedResourceError):
                if not self.scope.cancel_called:
                    raise

    async def ask(
        self, method: str, params: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """Send a request for this exchange. Cancelling the handler cancels it, on the wire too.

        Raises:
            LocalProtocolError: This exchange is over already, and the current task is not cancelled with it: it
                cleans up behind a shield, or is not the handler's.
        """
        self.check_thread()
        if self.is_over:
            await trio.lowlevel.checkpoint()  # a handler that was cancelled ends here, as at any other await
        self.check_may_ask(method)
        try:
            with self.waiting(f"the client: {method}"):
                return await self.sink.send_request(self, method, params, on_progress)
        except (RequestError, RemoteProtocolError, ConnectionLost) as error:
            error.question = method  # so that it is not taken for the answer to this request
            raise

    @contextmanager
    def waiting(self, what: str) -> Generator[None]:
        """Note that its handler waits for something while the body runs; of several things, the latest."""
        before, self.waits_for = self.waits_for, what
        try:
            yield
        finally:
            self.waits_for = before

    def check_may_ask(self, method: str) -> None:
        """Check that this request is not over.

        Raises:
            LocalProtocolError: It is.
        """
        if self.is_over:
            raise self.too_late_to_ask(method)

    def too_late_to_ask(self, method: str) -> LocalProtocolError:
        """Return the error for a request that is made when this exchange is over."""
        return LocalProtocolError(f"{method} cannot be asked: {self.request.method} is over already")

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Send progress, if the caller wants it and it is more than was reported last.

        Spec: 2026-07-28, basic/patterns/progress: the value must increase with each notification.
        """
        token = read_id(self.meta.get(PROGRESS_TOKEN_KEY))
        if get_ident() != self._thread:  # `is_over` would look at another clock
            self.check_thread()
        if token is None or progress <= self._last_progress or self.is_over:
            await trio.lowlevel.checkpoint()
            return
        self._last_progress = progress
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self.notify("notifications/progress", params)


Handler: TypeAlias = Callable[[Exchange], Awaitable[Answer]]
"""Serves one exchange. A `RequestError` it raises is the answer; any other exception is masked."""


async def not_begun(exchange: Exchange) -> Answer:
    """Be the handler of an exchange whose time is over already: its scope is cancelled here at once."""
    await trio.lowlevel.checkpoint()
    raise AssertionError(f"{exchange.request.method} is not over")


@final
@attrs.frozen
class LongLived:
    """How a request is served that is open until one of the two sides ends it.

    It takes no place among other requests, and never waits for one; `Limits.max_subscriptions` bounds how many
    there are. When serving is to end, it is asked to end first, so that draining does not wait for it.

    Attributes:
        handler: Serves it.
        on_drain: Called when serving is to end; the handler then returns its answer soon. Must not wait.
        places: How many of `Limits.max_subscriptions` it takes.
    """

    handler: Handler
    on_drain: Callable[[], object]
    places: int = 1


@final
@attrs.frozen
class AtOnce:
    """How a request is served that changes something and never waits.

    It takes no place among other requests. Middleware comes first: a request that it refuses, or that is given up
    before it is let through, has changed nothing.

    Attributes:
        serve: Called with the request as middleware has left it. May raise `RequestError`.
    """

    serve: Callable[[Request], Answer]


class Dispatcher(Protocol):
    """Decides what the messages of one connection mean. A client is one, and a server has one per connection."""

    @property
    def accepts_batches(self) -> bool:
        """Whether the revision in use has batches."""
        ...

    @property
    def answers_unreadable(self) -> bool:
        """Whether an error may be sent for a message that could not even be read as a request.

        True for a server; a client may have read a line that a library of the server printed to its output.
        """
        ...

    @property
    def answers_malformed(self) -> bool:
        """Whether an error may be sent for an invalid message that has a request id: its sender waits for it."""
        ...

    def route(self, request: Request, origin: Origin | None) -> Handler | LongLived | AtOnce | Answer | None:
        """Decide what a request means, before any later message is looked at.

        It may be asked twice, if the request has to wait for a place.

        Returns:
            The handler to run in an exchange, or a `LongLived` one; or what to do `AtOnce`; or the answer itself,
            which then needs no place among the requests being served; or `None` for a request that must not be
            answered at all.

        Raises:
            RequestError: The request is refused with this error.
        """
        ...

    def take_back(self, request: Request) -> None:
        """Undo what `route` has answered at once: middleware has let the request fail all the same."""
        ...

    def parked_canceller(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Return a function that cancels, for a reason, the parked handler that a request would resume, if any.

        For a request that cannot be served at once, and may be given up before it is.
        """
        ...

    def notification_key(self, notification: Notification) -> Hashable | None:
        """Return a key that is equal for notifications that repeat each other; `None` if each is new."""
        ...

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Handle a notification. They come one at a time, in wire order."""
        ...


def forget_frames(error: BaseException) -> None:
    """Forget where an error that is kept was raised, and in the handling of which others.

    Frames that refer to their own error are a cycle, and so is a group with the error that was raised out of it.
    It would keep all it has, such as the answer for which there was no room, until the garbage collector comes.
    """
    raised: BaseException | None = error
    while raised is not None and raised.__traceback__ is not None:
        context, raised.__context__ = raised.__context__, None
        raised.__traceback__ = None
        raised = context


@final
@attrs.frozen
class Reply:
    """What answers a request.

    Attributes:
        data: The message.
        error_code: The code of the error that it is; `None` for a result.
        is_failure: Whether it is a result that says that a tool has failed.
        retry_after: In how many seconds to send the request again, if the error says so.
        is_own_share: Whether the error says that the client has used up what it may have.
    """

    data: bytes
    error_code: int | None = None
    is_failure: bool = False
    retry_after: float | None = None
    is_own_share: bool = False

    @classmethod
    def of_error(cls, id: RequestId, error: RequestError) -> Reply:
        """Return the reply that is this error. What had raised it is not known any more; see `forget_frames`."""
        forget_frames(error)
        data = encode_error(id, error)
        return cls(data, error.code, retry_after=error.retry_after, is_own_share=error.is_own_share)


OnServed: TypeAlias = Callable[[Request, Origin | None, float, Reply | None], object]
"""Called once for each request of the other side, when it is answered or given up.

With the request, its origin, when it was received on Trio's clock, and its reply; `None` if it was given up. Must
neither wait nor raise."""


def audit_refusal(
    request: Request, origin: Origin | None, error: RequestError, transport: str | None, limit: str | None = None
) -> None:
    """Write the audit record of a request that is refused before it is served."""
    audit(
        "request",
        error.message,
        code=error.code,
        limit=limit,
        method=request.method,
        target=target_of(request.params),
        transport=transport,
        client=client_of(origin),
        principal=None if origin is None else origin.principal,
    )


def reply_at_once(request: Request, decision: AtOnce | Answer | None) -> Reply | None:
    """Return what answers a request that is not served in an exchange; `None` if it must not be answered.

    Raises:
        RequestError: It is refused.
    """
    answer = decision.serve(request) if isinstance(decision, AtOnce) else decision
    return None if answer is None else Reply(encode_response(request.id, answer))


def refused(request: Request, origin: Origin | None, error: BaseException, sink: object, transport: str) -> Reply:
    """Return the reply to a request that is not served, and write its audit record.

    This is the boundary of one request: a bug of its dispatcher answers it, logged in full and masked on the
    wire, and ends nothing else.

    Args:
        request: The request.
        origin: Where it came from.
        error: What was raised where it was decided how to serve it. That never waits, so it is no cancellation.
        sink: What takes the failures of the connection; see `report_failure`.
        transport: The name of the transport.

    Raises:
        KeyboardInterrupt: The error is that.
    """
    if isinstance(error, KeyboardInterrupt):
        raise error
    if not isinstance(error, RequestError):
        _log.error("%s could not be served", request.method, exc_info=error)
        report_failure(sink, request.id, error)
        error = RequestError(INTERNAL_ERROR, "internal error")
    audit_refusal(request, origin, error, transport)
    return Reply.of_error(request.id, error)


async def reply_to(
    exchange: Exchange, handler: Handler, limits: Limits, wait_room: Callable[[], Awaitable[None]] | None = None
) -> Reply | None:
    """Run the handler of an exchange. What it raises becomes the reply.

    Args:
        exchange: The request; its scope is entered here.
        handler: Serves it.
        limits: How large a reply may be, and how long to wait for the cancellation of a caller whose time is
            over.
        wait_room: Waits, inside the exchange, until there is room for the reply.

    Returns:
        The reply; `None` if the other side has given the request up.
    """
    reply: Reply | None = None
    failures: list[BaseException] = []
    with Contained(failures.append, exchange.scope):
        if not exchange.given_up:
            reply = await make_reply(exchange, handler, limits, wait_room)
    if failures:
        reply = note_failure(exchange, failures.pop())  # its frames have this one: kept here, it would be a cycle
    if reply is None or exchange.scope.cancel_called:
        return await settle(exchange, reply, limits)
    return reply


async def settle(exchange: Exchange, reply: Reply | None, limits: Limits) -> Reply | None:
    """Return the reply to an exchange whose scope was cancelled, so that its caller is not left waiting.

    Args:
        exchange: The request; its scope is left.
        reply: The reply of its handler, if it made one all the same. It is used where serving ends, and not when
            the granted time is over: then the answer is that error, whatever the handler has swallowed.
        limits: How long to wait for the cancellation of a caller whose time is over.

    Returns:
        The reply; `None` if the other side has given the request up.
    """
    # When only the granted time is over, the caller's cancellation is on its way, and an answer would cross it.
    # If it does not come, the caller must not be left waiting.
    with trio.move_on_after(limits.goodbye_timeout):
        await exchange.wait_abandoned()
    if exchange.given_up:
        return None
    exchange.end_parked("the request has ended")
    return reply if reply is not None and exchange.stopped else _too_late(exchange)


def note_failure(exchange: Exchange, error: BaseException) -> Reply:
    """Return the reply to a request whose handler has failed, and log the failure; the reply does not show it.

    Args:
        exchange: The request.
        error: What its handler has raised, or has left behind.
    """
    when = " while it was being cancelled" if exchange.scope.cancel_called else ""
    _log.error("the handler of %s failed%s", exchange.request.method, when, exc_info=error)
    report_failure(exchange.sink, exchange.request.id, error)
    return Reply.of_error(exchange.request.id, RequestError(INTERNAL_ERROR, "internal error"))


@final
@attrs.define(eq=False)
class FailureReport:
    """What is told of the failures of one connection that its answers do not show; for tests.

    Attributes:
        channel: The channel of the connection.
        note: Called with what a handler has raised, and the id of its request; `None` for that of a notification.
        sink: Where the exchanges of the connection send, once it is open.
    """

    channel: object
    note: Callable[[RequestId | None, BaseException], object]
    sink: object = None


reporting_failures: Final[ContextVar[FailureReport | None]] = ContextVar("trio_mcp_failures", default=None)
"""Set where a connection is opened. What handlers open inherits it, and is told apart by its sink."""


def report_failure(sink: object, id: RequestId | None, error: BaseException) -> None:
    """Tell whoever has opened the connection, if they want to know, what a handler has raised.

    A task is a sink of its own, with that of the request which it was as `caller`.
    """
    report = reporting_failures.get()
    if report is not None and report.sink is getattr(sink, "caller", sink):
        report.note(id, error)


FEW_BYTES: Final = 4 * KIB
"""Answers of up to so many bytes are not counted one by one; the queue bounds what they take together."""


async def make_reply(
    exchange: Exchange, handler: Handler, limits: Limits, wait_room: Callable[[], Awaitable[None]] | None
) -> Reply:
    """Run the handler of an exchange, whose scope is entered, and return what answers its request.

    Args:
        exchange: The request.
        handler: Serves it.
        limits: How large a reply may be.
        wait_room: Waits until there is room for the reply.
    """
    request = exchange.request
    try:
        try:
            answer = await handler(exchange)
            is_failure = isinstance(answer, dict) and answer.get("isError") is True
            reply = Reply(encode_response(request.id, answer), None, is_failure)
            del answer  # it may be as large again, and the reply may have to wait
        except RequestError as error:
            reply = Reply.of_error(request.id, error)
        if len(reply.data) > limits.max_message_bytes:
            problem = f"the answer is {len(reply.data)} bytes; max_message_bytes is {limits.max_message_bytes}"
            _log.error("%s: %s", request.method, problem)
            reply = Reply.of_error(exchange.request.id, RequestError(INTERNAL_ERROR, problem))
        if len(reply.data) > FEW_BYTES and exchange.origin is not None:
            reply = _kept(reply, exchange)
    except BaseException as error:  # noqa: ASYNC103
        # The boundary of one request: a handler's failure answers it, logged in full and masked on the wire.
        passing = propagating(error)
        if passing is error:
            del passing  # with its traceback, which refers to this frame, it would be a cycle
            raise
        reply = note_failure(exchange, error)
        if passing is not None:
            raise passing from None  # noqa: ASYNC104
    if wait_room is not None:
        await wait_room()
    return reply


def _kept(reply: Reply, exchange: Exchange) -> Reply:
    """Return the reply, or the error instead if there is no room to keep it until it is written; see `Origin`."""
    keep = getattr(exchange.origin, "keep_answer", None)
    try:
        if keep is not None:
            keep(len(reply.data))
    except RequestError as error:
        return Reply.of_error(exchange.request.id, error)
    return reply


def _too_late(exchange: Exchange) -> Reply:
    """Return the reply to a request whose handler was cancelled, although the caller has not given it up."""
    if exchange.stopped:
        error = RequestError(SERVER_BUSY, "serving ended before the request was done")
    else:
        error = RequestError(CANCELLED_BY_DEADLINE, "the time granted for the request is over")
    return Reply.of_error(exchange.request.id, error)
