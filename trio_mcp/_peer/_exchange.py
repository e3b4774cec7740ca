"""One request of the other side while it is being served, and the interface to the floor above: `Dispatcher`.

An exchange is what a handler runs in: its request, its cancel scope, its deadline, and its sink for notifications
and for requests back to the caller. It knows no connection: on a pipe the sink is the peer's sender, over HTTP
the response to one POST.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from typing import Any, Final, Protocol, TypeAlias, final

import attrs
import trio

from .._channel import Origin
from .._codec._json import is_object
from .._codec._jsonrpc import Encoded, Notification, Request, read_id
from .._errors import LocalProtocolError, RemoteProtocolError, RequestError
from .._revisions import PROGRESS_TOKEN_KEY, TIMEOUT_KEY
from .._trio import LightParkingLot

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

    async def send_notification(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to the exchange, waiting for room."""
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
        self,
        exchange: Exchange,
        method: str,
        params: Mapping[str, Any] | None,
        on_progress: OnProgress | None,
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
    _abandoned: LightParkingLot | None = None
    _last_progress: float = -math.inf

    @property
    def is_over(self) -> bool:
        """Whether nothing more may be sent for it.

        Also when the time that its caller granted has passed: then the caller's cancellation is on its way.
        """
        return self.silenced or (self.is_overdue and not self.stopped)

    @property
    def is_overdue(self) -> bool:
        """Whether the time that its caller granted has passed."""
        scope = self.scope
        return scope.deadline != math.inf and scope.cancel_called

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`, empty if it has none."""
        params = self.request.params
        meta = None if params is None else params.get("_meta")
        return meta if is_object(meta) else {}

    def start_clock(self) -> bool:
        """Give the scope the deadline the caller granted, counted from when the request was received.

        Returns whether it is over already: then the request must not be begun.
        """
        params = self.request.params
        meta = None if params is None else params.get("_meta")
        granted = meta.get(TIMEOUT_KEY) if is_object(meta) else None
        if granted is None:
            return False
        if isinstance(granted, (int, float)) and not isinstance(granted, bool) and granted >= 0:
            # An integer may be too large to be a float; what is so far away is no deadline.
            self.deadline = self.scope.deadline = self.received_at + min(granted, MAX_GRANTED_MS) / 1000
            return self.deadline <= trio.current_time()
        return False

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

    async def notify(self, method: str, params: Mapping[str, Any] | Encoded | None = None) -> None:
        """Send a notification that belongs to this request; silently nothing once it is over."""
        if self.is_over:
            await trio.lowlevel.checkpoint()
        else:
            await self.sink.send_notification(self, method, params)

    def notify_nowait(self, method: str, params: Mapping[str, Any] | Encoded | None = None) -> None:
        """Send a notification that belongs to this request, if there is room; silently nothing once it is over.

        Raises:
            trio.WouldBlock: There is no room; nothing was sent.
            LocalProtocolError: It is larger than a message may be.
            ConnectionLost: The connection is gone.
            trio.ClosedResourceError: This end was closed.
        """
        if not self.is_over:
            self.sink.send_notification_nowait(self, method, params)

    async def ask(
        self, method: str, params: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """Send a request for this exchange. Cancelling the handler cancels it, on the wire too.

        Raises:
            LocalProtocolError: This exchange is over already, and the current task is not cancelled with it: it
                cleans up behind a shield, or is not the handler's.
        """
        if self.is_over:
            await trio.lowlevel.checkpoint()  # a handler that was cancelled ends here, as at any other await
        self.check_may_ask(method)
        try:
            return await self.sink.send_request(self, method, params, on_progress)
        except (RequestError, RemoteProtocolError) as error:
            error.question = method  # so that it is not taken for the answer to this request
            raise

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
        if token is None or progress <= self._last_progress or self.is_over:
            await trio.lowlevel.checkpoint()
            return
        self._last_progress = progress
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self.sink.send_notification(self, "notifications/progress", params)


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

    def route(self, request: Request, origin: Origin | None) -> Handler | LongLived | Answer | None:
        """Decide what a request means, before any later message is looked at.

        Returns:
            The handler to run in an exchange, or a `LongLived` one; or the answer itself, which then needs no
            place among the requests being served; or `None` for a request that must not be answered at all.

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
