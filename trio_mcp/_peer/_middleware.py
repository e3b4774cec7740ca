"""Middleware: user code that requests and notifications pass through, in both directions.

The same for a client and a server. No I/O here, and nothing that knows what a message means.

Two kinds of notification belong to a request and do not pass through middleware: ``notifications/cancelled``,
because giving up must not wait, and ``notifications/progress``, which goes to the call that wants it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Final, Literal, Protocol, TypeAlias, final, runtime_checkable

import attrs
import trio

from .._channel import Origin
from .._codec import _json
from .._codec._jsonrpc import Encoded, Notification, Request, RequestId
from .._errors import RequestError
from ._exchange import Answer, AtOnce, Dispatcher, Exchange, Handler, LongLived, audit_refusal


@final
@attrs.frozen(eq=False)
class ConnectionInfo:
    """The connection of a message, or all modern requests of one HTTP endpoint. Equal only to itself.

    Attributes:
        side: Which side of it this program is.
        transport: The transport; see `Channel.transport`.
        description: A name for the other end, as in the logs.
    """

    side: Literal["client", "server"]
    transport: str
    description: str


@final
@attrs.frozen
class Message:
    """A request or notification that this side sends or has received.

    Attributes:
        direction: Whether this side sends it or has received it.
        method: Its method.
        params: Its parameters as plain JSON, `_meta` included; `None` if it has none.
        is_notification: Whether it is a notification, which has no answer.
        id: The id of a request that was received; `None` for one that is about to be sent, which has none yet.
        origin: Where a message that was received came from, as far as the transport knows.
        connection: What it came over, or is sent over.
    """

    direction: Literal["sent", "received"]
    method: str
    params: Mapping[str, Any] | None = None
    is_notification: bool = False
    id: RequestId | None = attrs.field(default=None, eq=False, repr=False)
    origin: Origin | None = attrs.field(default=None, eq=False, repr=False)
    connection: ConnectionInfo | None = attrs.field(default=None, eq=False, repr=False)

    def evolve(self, *, params: Mapping[str, Any] | None) -> Message:
        """Return the same message with other parameters."""
        return attrs.evolve(self, params=params)


CallNext: TypeAlias = Callable[[Message], Awaitable[Mapping[str, Any] | None]]
"""Passes a message on and returns its result as plain JSON; `None` for a notification.

Raises what fails further in: `RequestError` for an error that answers a request.
"""

Middleware: TypeAlias = Callable[[Message, CallNext], Awaitable[Mapping[str, Any] | None]]
"""Takes a message and a function that passes it on, and returns the result; `None` for a notification.

It may pass on another message (see `Message.evolve`), return a result without passing anything on, drop a
notification, pass on twice, or raise. It runs in the task that waits for the message, so a deadline there
covers it.
"""


@runtime_checkable
class SessionMiddleware(Protocol):
    """A `Middleware` that also wants to know when connections begin and end.

    Over HTTP that is a session of the legacy era, or the endpoint's side of one POST where there are no sessions.
    Modern requests over HTTP have no connection.
    """

    def __call__(self, message: Message, call_next: CallNext) -> Awaitable[Mapping[str, Any] | None]:
        """Take a message; see `Middleware`."""
        ...

    def session(self, connection: ConnectionInfo) -> AbstractContextManager[object]:
        """Return what is entered when a connection begins, and left when it has ended. It must not wait."""
        ...


_NOTHING: Final = nullcontext()


def sessions_of(
    middleware: Sequence[Middleware], connection: ConnectionInfo | None
) -> AbstractContextManager[object]:
    """Return what is entered for as long as a connection lasts; `connection` is `None` without middleware."""
    if connection is None:
        return _NOTHING
    with ExitStack() as stack:
        for layer in middleware:
            if isinstance(layer, SessionMiddleware):
                stack.enter_context(layer.session(connection))
        return stack.pop_all()


def compose(middleware: Sequence[Middleware], innermost: CallNext) -> CallNext:
    """Return a function that passes a message through all middleware; the first is the outermost.

    Without any middleware it is the innermost function itself, which costs nothing.
    """
    call_next = innermost
    for layer in reversed(middleware):
        call_next = _wrap(layer, call_next)
    return call_next


def _wrap(layer: Middleware, call_next: CallNext) -> CallNext:
    def call(message: Message) -> Awaitable[Mapping[str, Any] | None]:
        return layer(message, call_next)

    return call


async def send_through(
    middleware: Sequence[Middleware],
    message: Message,
    send: Callable[[Message], Awaitable[Mapping[str, Any] | None]],
) -> Mapping[str, Any] | None:
    """Send a message of this side through middleware.

    Args:
        middleware: What it goes through; the first is the outermost.
        message: The message.
        send: Sends it, if middleware passes it on.

    Returns:
        The result; `None` for a notification.

    Raises:
        TypeError: The middleware returned no result for a request.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    has_waited = False

    async def innermost(message: Message) -> Mapping[str, Any] | None:
        nonlocal has_waited
        result = await send(message)
        has_waited = True
        return result

    result = _checked(message, await compose(middleware, innermost)(message))
    if not has_waited:  # the middleware has answered by itself, or dropped it
        await trio.lowlevel.cancel_shielded_checkpoint()
    return result


def _checked(message: Message, result: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if result is None and not message.is_notification:
        raise TypeError(f"the middleware returned no result for {message.method}")
    return result


async def notify_through(
    middleware: Sequence[Middleware],
    method: str,
    params: Mapping[str, Any] | Encoded | None,
    send: Callable[[str, Mapping[str, Any] | Encoded | None], Awaitable[None]],
    connection: ConnectionInfo | None = None,
) -> None:
    """Send a notification of this side through middleware, or past it if it is progress; see above.

    Args:
        middleware: What it goes through; the first is the outermost.
        method: Its method.
        params: Its parameters.
        send: Sends it, if middleware passes it on.
        connection: What it is sent over.
    """
    if not middleware or method == "notifications/progress":
        await send(method, params)
        return

    def pass_on(message: Message) -> Awaitable[None]:
        return send(message.method, message.params)

    plain: Mapping[str, Any] | None = _json.decode(params) if isinstance(params, Encoded) else params
    message = Message("sent", method, plain, is_notification=True, connection=connection)
    await send_through(middleware, message, pass_on)


@final
class MiddlewareDispatcher:
    """A dispatcher behind middleware.

    What the inner dispatcher answers at once, or refuses, goes through the middleware too, and so becomes an
    exchange like any other; what must not be answered at all does not.

    Args:
        inner: Decides what messages mean.
        middleware: What they go through before; the first is the outermost.
        connection: What they come over.
    """

    def __init__(
        self, inner: Dispatcher, middleware: Sequence[Middleware], connection: ConnectionInfo | None = None
    ) -> None:
        self._inner = inner
        self._middleware = middleware
        self._connection = connection

    @property
    def accepts_batches(self) -> bool:
        """Whether the revision in use has batches."""
        return self._inner.accepts_batches

    @property
    def answers_unreadable(self) -> bool:
        """Whether an error may be sent for an unreadable message."""
        return self._inner.answers_unreadable

    @property
    def answers_malformed(self) -> bool:
        """Whether an error may be sent for an invalid message with the id of a request."""
        return self._inner.answers_malformed

    def route(self, request: Request, origin: Origin | None) -> Handler | LongLived | None:
        """Find the handler of a request now; the middleware may change what that gets, later."""
        try:
            decision = self._inner.route(request, origin)
        except RequestError as error:
            refusal = error
            audit_refusal(request, origin, error, self._connection and self._connection.transport)

            def refuse(_: Exchange) -> Awaitable[Answer]:
                raise refusal

            decision = refuse
        if isinstance(decision, LongLived):
            return attrs.evolve(decision, handler=self._handler(decision.handler))
        return None if decision is None else self._handler(decision)

    def _handler(self, decision: Handler | AtOnce | Answer) -> Handler:
        async def serve(exchange: Exchange) -> Answer:
            has_waited = False

            async def innermost(message: Message) -> Mapping[str, Any]:
                nonlocal has_waited
                exchange.request = Request(exchange.request.id, message.method, _as_dict(message.params))
                if callable(decision):
                    answer = await decision(exchange)
                else:
                    answer = decision.serve(exchange.request) if isinstance(decision, AtOnce) else decision
                    await trio.lowlevel.checkpoint()
                has_waited = True
                return _json.decode(answer) if isinstance(answer, Encoded) else answer

            asked = exchange.request
            if exchange.cancel_parked is None:
                exchange.cancel_parked = self._inner.parked_canceller(asked, exchange.origin)
            message = Message(
                "received",
                asked.method,
                asked.params,
                id=asked.id,
                origin=exchange.origin,
                connection=self._connection,
            )
            try:
                result = _checked(message, await compose(self._middleware, innermost)(message))
            except BaseException:
                if not callable(decision):
                    self._inner.take_back(asked)
                raise
            if not has_waited:  # the middleware has answered by itself
                await trio.lowlevel.checkpoint()
            assert result is not None
            return result

        return serve

    def take_back(self, request: Request) -> None:
        """Do nothing: `route` answers nothing at once."""

    def parked_canceller(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Return what cancels the parked handler that a request would resume."""
        return self._inner.parked_canceller(request, origin)

    def notification_key(self, notification: Notification) -> Hashable | None:
        """Return a key that is equal for notifications that repeat each other."""
        return self._inner.notification_key(notification)

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Pass a notification to its handler, through the middleware."""

        async def innermost(message: Message) -> None:
            await self._inner.notified(Notification(message.method, _as_dict(message.params)), origin)

        message = Message(
            "received",
            notification.method,
            notification.params,
            is_notification=True,
            origin=origin,
            connection=self._connection,
        )
        await compose(self._middleware, innermost)(message)
        await trio.lowlevel.checkpoint()


def _as_dict(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if params is None else dict(params)
