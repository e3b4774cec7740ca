"""One end of one connection, and the tasks that it needs.

    wire ──> the serve loop ──> the receiver ──> calls, notifications, exchanges
    wire <── the current task, or the writer task <── the send queue <── calls, notifications, answers

Who owns what: `open_peer` owns the nursery. The writer and the notification task are shielded and end with
`aclose`, so that a body that is being cancelled can still send. The tasks of the serve loop are not shielded; if
they are cancelled, a shielded task goes on reading. At a channel that can wake them (`Channel.rests`) all of
these run only while there is something to do. Callers wait in their own tasks and own nothing here but their
entry in a table.

Knows no tools, no resources, no eras and no transports.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import Context, copy_context
from typing import Any, Final, Literal, TypeAlias, final

import attrs
import trio

from .._channel import Channel
from .._codec._jsonrpc import Encoded, Notification, RequestId
from .._errors import SERVER_BUSY, ConnectionLost, RequestError
from .._limits import Limits
from .._logs import Log
from .._trio import LightParkingLot, open_hidden_nursery
from ._exchange import Dispatcher, Exchange, InboundTable, OnProgress, OnServed, reporting_failures
from ._exchanges import Arrival, Exchanges
from ._middleware import ConnectionInfo, Middleware, MiddlewareDispatcher, sessions_of
from ._notifications import Notifications
from ._receiver import OnFailure, OnNotificationRead, Receiver, ServeLoop
from ._send_queue import OnFrame, SendQueue, Writer, frame_hook
from ._sender import Sender

Work: TypeAlias = Callable[[], Awaitable[object]]


@final
@attrs.define(eq=False)
class BackgroundTasks:
    """The shielded tasks of a connection: they end when they have nothing to do, or with `end`.

    The body of a connection ends first and these tasks after it, so that cleanup in the body can still send. Each
    task has a shielded scope inside the nursery of the connection, and runs with the context variables of the
    task that has opened the connection, wherever it is started.
    """

    _nursery: trio.Nursery
    _connection: str  # for the names of the tasks
    _variables: Context = attrs.field(factory=copy_context, init=False)
    _scopes: dict[Work, trio.CancelScope] = attrs.field(factory=dict[Work, trio.CancelScope], init=False)
    _has_ended: bool = attrs.field(default=False, init=False)

    def start(self, work: Work, doing: str) -> bool:
        """Start a task, unless it runs already or `end` was called. Returns whether it did. Never waits.

        Args:
            work: What it does. Between finding that nothing is left and its return there must be no checkpoint.
            doing: What it does, for its name.
        """
        if work in self._scopes or self._has_ended:
            return False
        self._scopes[work] = trio.CancelScope(shield=True)
        name = f"{doing} {self._connection}"
        self._variables.run(lambda: self._nursery.start_soon(self._run, work, name=name))
        return True

    async def _run(self, work: Work) -> None:
        try:
            with self._scopes[work]:
                await work()
        finally:
            del self._scopes[work]

    def end(self, reason: str) -> None:
        """Cancel all of them, and start no more. Never waits."""
        self._has_ended = True
        for scope in self._scopes.values():
            scope.cancel(reason=reason)


_log: Final = Log("trio_mcp.peer")


@final
@attrs.frozen
class PeerStatistics:
    """Counters of one end of a connection.

    Attributes:
        calls: Requests of this side whose callers still wait.
        exchanges: Requests of the other side that are being served.
        standing: Long-lived requests of the other side, such as subscriptions; not counted in `exchanges`.
        waiting: Requests of the other side that wait for their turn.
        outbox_bytes: Bytes that are ready to be written.
        dropped_notifications: Notifications that were dropped because they were handled too slowly, or because
            this end was closed first.
    """

    calls: int
    exchanges: int
    standing: int
    waiting: int
    outbox_bytes: int
    dropped_notifications: int


@final
class Peer:
    """One end of one connection: sends and serves requests and notifications. Made by `open_peer`."""

    def __init__(
        self,
        channel: Channel,
        dispatcher: Dispatcher,
        nursery: trio.Nursery,
        limits: Limits,
        on_frame: OnFrame | None,
        middleware: Sequence[Middleware] = (),
        on_notification_read: OnNotificationRead | None = None,
        on_failure: OnFailure | None = None,
        on_served: OnServed | None = None,
        max_silence: float = math.inf,
    ) -> None:
        self.connection: ConnectionInfo | None = None  # for the middleware
        if middleware:
            side: Literal["client", "server"] = "server" if dispatcher.answers_unreadable else "client"
            self.connection = ConnectionInfo(side, channel.transport, channel.description)
            dispatcher = MiddlewareDispatcher(dispatcher, middleware, self.connection)
        self._channel = channel
        self._limits = limits
        self._background = BackgroundTasks(nursery, channel.description)
        name = f"serving {channel.description}"
        self._serve_loop = loop = ServeLoop(
            nursery, channel, limits, name, self._end_reading, self._start_shielded_reader
        )
        self._queue = queue = SendQueue(limits.max_outbox_bytes, self._start_writer if loop.rests else None)
        frames = frame_hook(on_frame, channel.description)
        changed = LightParkingLot()
        inbound = InboundTable[Exchange, Arrival](limits)
        self._writer = loop.writer = Writer(channel, queue, frames, inbound, self._fail)
        self._sender = sender = Sender(
            channel, self._writer, limits, middleware, changed, self.connection, max_silence, self._start_watch
        )
        self._notifications = Notifications(
            sender, dispatcher, limits, self._start_notifications if loop.rests else None
        )
        self._exchanges = loop.exchanges = Exchanges(
            nursery, dispatcher, sender, inbound, limits, changed, name, on_served
        )
        self._receiver = loop.receiver = Receiver(
            channel,
            dispatcher,
            sender,
            self._notifications,
            self._exchanges,
            limits,
            frames,
            on_notification_read,
            on_failure,
        )
        self.has_input_ended: bool = False  # no message will come any more, or the owner does not wait for it
        self._owner_waits = LightParkingLot()
        self._end: ConnectionLost | None = None  # why no message will come any more
        self._closing = False
        self._closed: trio.Event | None = None  # for those who close while another task closes
        self._is_closed = False

    # What clients and servers send.

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        on_id: Callable[[RequestId], object] | None = None,
        is_watched: bool = True,
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Send a request and wait for its result.

        The caller's deadline covers waiting for room, writing and waiting for the answer. A caller that is
        cancelled leaves at once: a request that was not written is withdrawn, for one that was written the
        cancellation follows it on the wire, and neither is waited for.

        Args:
            method: The method.
            params: Its parameters as plain JSON; what the connection adds goes into their `_meta`.
            on_progress: Called in this task with each progress notification, all of them before this returns.
            on_id: Called with the request's id before a byte of it is written, and thus before anything that
                refers to it can come. Not called if the request is refused before that.
            is_watched: Whether it fails when nothing is heard of it for too long; see `open_peer`.

        Raises:
            RequestError: The answer is an error.
            RemoteProtocolError: The answer cannot be used.
            LocalProtocolError: The request is larger than `Limits.max_message_bytes`.
            ConnectionLost: The connection ended first; or only what this request needed of it, where a transport
                can lose that alone: then `end` is `None`.
            trio.TooSlowError: Nothing was heard of it for too long.
            trio.ClosedResourceError: This end was closed.
        """
        return self._sender.request(method, params, on_progress=on_progress, on_id=on_id, is_watched=is_watched)

    def fail_request(self, id: RequestId, error: Exception) -> bool:
        """End a request of this side with an error, because the other side has reported that it will not answer.

        Its caller raises the error. No cancellation is sent.

        Returns:
            Whether a caller waited for it.
        """
        return self._sender.fail(id, error)

    def call_on_stray(self, take: Callable[[Mapping[str, Any]], object]) -> None:
        """Have a function called with each result that no call waits for: it was given up. It must not wait."""
        self._sender.on_stray = take

    def clocks_stopped(self) -> AbstractContextManager[None]:
        """Stop `fail_after_silence` and `request_timeout` for every request that is pending, during a block."""
        return self._sender.clocks_stopped()

    def cut_callbacks(self) -> None:
        """The connection is lost, and its owner leaves: nothing that had come before is handled any more."""
        self._sender.cut_callbacks()

    def deliver(self, notification: Notification) -> None:
        """Deliver a notification of this side to itself, in line with those that were received. Never waits."""
        self._notifications.offer(notification, None)

    async def finish_notifications(self) -> None:
        """Wait until the notifications received so far are handled, for `Limits.goodbye_timeout` at most.

        Does not checkpoint if they are, or in a handler of one. What is left is dropped when this end closes.
        """
        seconds = self._limits.goodbye_timeout
        with trio.move_on_after(seconds) as scope:
            await self._notifications.wait_received()
        if scope.cancelled_caught:
            _log.warning(
                "notifications of %s were not handled within %g s (goodbye_timeout), and are dropped",
                self._channel.description,
                seconds,
            )

    async def request_batch(
        self, requests: Sequence[tuple[str, Mapping[str, Any] | None]]
    ) -> list[dict[str, Any] | RequestError]:
        """Send several requests as one batch, and wait for all answers.

        Returns:
            For each request its result, or the error that answers it.

        Raises:
            ValueError: There are none, or more than 1,000 or `Limits.max_outbound_requests`.
            Others: As `request`.

        Spec: 2025-03-26, basic, "Batching". Whether the revision has batches is the caller's business.
        """
        return await self._sender.request_batch(requests)

    async def notify(self, method: str, params: Mapping[str, Any] | Encoded | None = None) -> None:
        """Send a notification. Returns when it is queued; cancelled, it was not sent.

        Raises:
            LocalProtocolError: It is larger than `Limits.max_message_bytes`.
            ConnectionLost: The connection is gone.
            trio.ClosedResourceError: This end was closed.
        """
        await self._sender.send_notification(None, method, params)

    async def wait_notified(self) -> None:
        """Wait until the notifications that were read by now are handled, or this end is closed.

        For who must not be answered before them. Does not checkpoint if they are.
        """
        await self._notifications.wait_received()

    async def wait_input_ended(self) -> None:
        """Wait until no message will come any more."""
        if self.has_input_ended:
            await trio.lowlevel.checkpoint()
        while not self.has_input_ended:
            await self.wait_to_look()

    async def wait_to_look(self) -> None:
        """Wait until `has_input_ended` has changed, or `look_again` is called."""
        await self._owner_waits.park()

    def look_again(self) -> None:
        """Wake the tasks in `wait_to_look`. Never waits."""
        self._owner_waits.unpark_all()

    def _input_has_ended(self) -> None:
        self.has_input_ended = True
        self.look_again()

    @property
    def end(self) -> ConnectionLost | None:
        """Why no message will come any more; `None` while one may, or if this side closed."""
        return self._end

    @property
    def description(self) -> str:
        """The name of the other side; see `Channel.description`."""
        return self._channel.description

    @property
    def unusable(self) -> str | None:
        """What a client says about the first thing from its server that was no message; `None` without one."""
        return self._receiver.unusable

    def statistics(self) -> PeerStatistics:
        """Return counters, for tests and debugging."""
        table = self._exchanges.table
        return PeerStatistics(
            calls=len(self._sender.calls),
            exchanges=table.running,
            standing=table.long_lived,
            waiting=table.waiting,
            outbox_bytes=self._queue.size,
            dropped_notifications=self._notifications.dropped,
        )

    def exchanges(self) -> tuple[Exchange, ...]:
        """Return the requests of the other side that are being served, oldest first, then the long-lived ones."""
        return self._exchanges.table.all_running()

    # The tasks of the connection.

    def _begin(self) -> None:
        """Start them, unless they are started when there is something to do."""
        self._serve_loop.start()
        if not self._serve_loop.rests:
            self._start_writer()
            self._start_notifications()

    def _start_shielded_reader(self) -> None:
        self._background.start(self._read, "reading from")

    def _start_writer(self) -> None:
        self._background.start(self._writer.write, "writing to")

    def _start_notifications(self) -> None:
        self._background.start(self._notifications.deliver, "notifications of")

    def _start_watch(self, watch: Work) -> None:
        self._background.start(watch, "silence of")

    async def _read(self) -> None:
        try:
            while True:
                ready = self._receiver.next_request(None)
                if ready is not None:
                    self._exchanges.start(ready)
                elif self._receiver.must_wait:
                    await self._receiver.wait()
                elif self._receiver.may_rest():
                    return
                else:
                    await self._receiver.receive()
        except (trio.EndOfChannel, ConnectionLost, trio.ClosedResourceError, trio.BrokenResourceError) as error:
            self._end_reading(error)

    def _end_reading(self, error: Exception) -> None:
        if isinstance(error, trio.EndOfChannel):
            self._end_input(ConnectionLost(f"{self._channel.description} closed the connection"))
        else:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """The channel cannot be used any more: the connection is gone in both directions."""
        why = self._loss(error)
        _log.debug("%s is lost: %s", self._channel.description, why.reason)
        self._exchanges.give_up(why.reason)  # before their questions fail, as in `_close`
        self._end_input(why)
        self._sender.lose(self._why_closed)

    def _loss(self, error: Exception) -> ConnectionLost:
        """Return why the channel cannot be used any more. Its owner may have closed it while it was in use."""
        if isinstance(error, ConnectionLost):
            return error
        how = (
            "was closed"
            if isinstance(error, trio.ClosedResourceError)
            else f"failed: {str(error) or type(error).__name__}"
        )
        lost = ConnectionLost(f"the channel to {self._channel.description} {how}")
        lost.__cause__ = error
        return lost

    # How it ends.

    def _end_input(self, why: ConnectionLost) -> None:
        """No message will come any more. What is being served may still be answered."""
        if self._end is None and not self._closing:
            self._end = why
            self._sender.end_input(why.renewed)
        self._input_has_ended()

    def _why_closed(self) -> Exception:
        if self._end is not None:
            return self._end.renewed()
        return trio.ClosedResourceError("this end of the connection was closed")

    async def drain(self) -> None:
        """Refuse new requests, let what came finish within `Limits.drain_timeout`, cancel the rest."""
        self._exchanges.refuse_new(RequestError(SERVER_BUSY, "serving is about to end"))
        self._exchanges.end_long_lived()
        with trio.move_on_after(self._limits.drain_timeout):
            await self._exchanges.wait_done()
            await self._notifications.wait_delivered()
        self._exchanges.stop("serving ended")
        await self._exchanges.wait_done()

    def abort(self) -> None:
        """Release the connection without sending anything more; otherwise as `aclose`. Never waits."""
        if self._closing:
            return
        self._close()
        self._let_go()

    def _close(self) -> None:
        """Send and serve no more requests."""
        self._closing = True
        # Handlers first: one that waits for an answer is cancelled there, and does not see its request fail.
        self._exchanges.give_up("this end of the connection was closed")
        self._sender.leave(self._why_closed)

    def _let_go(self) -> None:
        self._queue.close()
        self._serve_loop.end()
        self._background.end("the connection was closed")
        self._notifications.abandon()
        self._input_has_ended()
        self._is_closed = True
        if self._closed is not None:
            self._closed.set()

    async def aclose(self) -> None:
        """Cancel what is under way and release the connection. The channel is its owner's to close.

        Every request of this side that is written and not answered is cancelled on the wire, every caller that
        waits gets `trio.ClosedResourceError`, every exchange is cancelled. What is still queued is written within
        `Limits.goodbye_timeout`. May be cancelled, and even then leaves nothing.
        """
        if not self._closing:
            self._close()
            self._channel.about_to_close()
            # Shielded, or a cancelled task could not send its cancellations; bounded, or a stuck peer could hold
            # it.
            try:
                with trio.move_on_after(self._limits.goodbye_timeout, shield=True):
                    await self._queue.wait_empty()
            finally:
                self._let_go()  # after Ctrl+C, too: it comes out of what the main task waits for, shielded or not
        if self._is_closed:
            await trio.lowlevel.checkpoint()
        else:
            self._closed = self._closed or trio.Event()
            await self._closed.wait()


@asynccontextmanager
async def open_peer(
    channel: Channel,
    dispatcher: Dispatcher,
    limits: Limits,
    *,
    on_frame: OnFrame | None = None,
    middleware: Sequence[Middleware] = (),
    on_notification_read: OnNotificationRead | None = None,
    on_failure: OnFailure | None = None,
    on_served: OnServed | None = None,
    max_silence: float = math.inf,
) -> AsyncGenerator[Peer]:
    """Run one end of a connection for as long as the body runs, then cancel what is under way.

    The end of the connection does not end the body: later requests raise `ConnectionLost`. An exception of the
    body comes out as itself. Leaving is the checkpoint; it takes at most `Limits.goodbye_timeout` plus the
    cleanup of the handlers that still run.

    Args:
        channel: The transport; the caller closes it afterwards.
        dispatcher: Decides what the messages of the other side mean.
        limits: What the connection may cost.
        on_frame: Called with each message in either direction.
        middleware: What requests and notifications pass through, in either direction; see `_middleware`.
        on_notification_read: Called with each notification as it is read. It must neither wait nor raise.
        on_failure: Called with failures that are no single request's. It must neither wait nor raise.
        on_served: Called with each request of the other side that is over.
        max_silence: Seconds after which a request of this side fails of which nothing was heard: no answer, no
            progress, and no question of the other side.
    """
    async with open_hidden_nursery() as nursery:
        peer = Peer(
            channel,
            dispatcher,
            nursery,
            limits,
            on_frame,
            middleware,
            on_notification_read,
            on_failure,
            on_served,
            max_silence,
        )
        report = reporting_failures.get()
        if report is not None and report.channel is channel:
            report.sink = peer._sender
        with sessions_of(middleware, peer.connection):
            peer._begin()
            try:
                yield peer
            except BaseException:
                with trio.CancelScope(shield=True):  # bounded; `Cancelled` would take the exception's place
                    await peer.aclose()
                raise
            await peer.aclose()
