"""One end of one connection, and the tasks that it needs.

    wire ──> the serve loop ──> the receiver ──> calls, notifications, exchanges
    wire <── the current task, or the writer task <── the send queue <── calls, notifications, answers

Who owns what: `open_peer` owns the nursery, and `Link` starts tasks in it. The writer and the notification task
are shielded and end with `aclose`, so that a body that is being cancelled can still send. The tasks of the serve
loop are not shielded; if they are cancelled, a shielded task goes on reading. At a channel that can wake them
(`Channel.rests`) all of these run only while there is something to do. Callers wait in their own tasks and own
nothing here but their entry in a table.

`Peer` makes the parts from the bottom up: each gets those that it uses, and none is set in another afterwards.

Knows no tools, no resources, no eras and no transports.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Final, Literal, final

import attrs
import trio

from .._channel import Channel
from .._codec._jsonrpc import Encoded, Notification, RequestId
from .._errors import SERVER_BUSY, ConnectionLost, RequestError
from .._limits import Limits
from .._logs import Log
from .._trio import LightParkingLot, open_hidden_nursery
from ._call import Calls
from ._exchange import Dispatcher, Exchange, InboundTable, forget_frames, reporting_failures
from ._exchanges import Arrival, Exchanges
from ._middleware import ConnectionInfo, Middleware, MiddlewareDispatcher, sessions_of
from ._notifications import Notifications
from ._receiver import Receiver, ServeLoop
from ._send_queue import Hooks, Link, Writer
from ._sender import Sender

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


_NO_HOOKS: Final = Hooks()


@final
class Peer:
    """One end of one connection: sends and serves requests and notifications. Made by `open_peer`.

    Attributes:
        connection: What middleware learns of it; `None` without middleware.
        request: Sends a request and waits for its result; see `Sender.request`.
        has_input_ended: Whether no message will come any more, or the owner does not wait for it.
        end: Why no message will come any more; `None` while one may, or if this side closed.
    """

    def __init__(
        self,
        channel: Channel,
        dispatcher: Dispatcher,
        nursery: trio.Nursery,
        limits: Limits,
        hooks: Hooks,
        middleware: Sequence[Middleware],
        max_silence: float,
    ) -> None:
        self.connection: ConnectionInfo | None = None
        if middleware:
            side: Literal["client", "server"] = "server" if dispatcher.answers_unreadable else "client"
            self.connection = ConnectionInfo(side, channel.transport, channel.description)
            dispatcher = MiddlewareDispatcher(dispatcher, middleware, self.connection)
        rests = channel.rests(self._start_reading)
        self._link = link = Link(channel, dispatcher, limits, hooks, rests, self._end_reading, nursery)
        calls, inbound = Calls(), InboundTable[Exchange, Arrival](limits)
        self._writer = writer = Writer(link, calls, inbound)
        self._sender = sender = Sender(link, calls, writer, middleware, self.connection, max_silence)
        self._notifications = notifications = Notifications(link, sender)
        self._exchanges = exchanges = Exchanges(link, sender, inbound)
        self._receiver = receiver = Receiver(link, sender, notifications, exchanges)
        self._serve_loop = ServeLoop(link, writer, receiver, exchanges)
        self.request: Final = sender.request
        self.has_input_ended: bool = False
        self._owner_waits = LightParkingLot()
        self.end: ConnectionLost | None = None
        self._closing = False
        self._is_closed = False

    # What clients and servers send.

    def fail_request(self, id: RequestId, error: Exception) -> bool:
        """End a request of this side with an error, because the other side has reported that it will not answer.

        Its caller raises the error. No cancellation is sent.

        Returns:
            Whether a caller waited for it.
        """
        return self._sender.fail(id, error)

    def clocks_stopped(self) -> AbstractContextManager[None]:
        """Stop `fail_after_silence` and `request_timeout` for every request that is pending, during a block."""
        return self._sender.clocks_stopped()

    @property
    def is_waited_for(self) -> bool:
        """Whether the caller of a request has not gone on yet: once it is answered, callbacks may still run."""
        return bool(self._sender.calls)

    def cut_callbacks(self) -> None:
        """The connection is lost, and its owner leaves: nothing that had come before is handled any more."""
        for call in self._sender.calls.values():
            call.cut_callbacks()

    def deliver(self, notification: Notification) -> None:
        """Deliver a notification of this side to itself, in line with those that were received. Never waits."""
        self._notifications.offer(notification, None)

    async def finish_notifications(self) -> None:
        """Wait until the notifications received so far are handled, for `Limits.goodbye_timeout` at most.

        Does not checkpoint if they are, or in a handler of one. What is left is dropped when this end closes.
        """
        seconds = self._link.limits.goodbye_timeout
        with trio.move_on_after(seconds) as scope:
            await self._notifications.wait_received()
        if scope.cancelled_caught:
            _log.warning(
                "notifications of %s were not handled within %g s (goodbye_timeout), and are dropped",
                self.description,
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
        await trio.lowlevel.cancel_shielded_checkpoint()

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
    def description(self) -> str:
        """The name of the other side; see `Channel.description`."""
        return self._link.channel.description

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
            outbox_bytes=self._writer.queue.size,
            dropped_notifications=self._notifications.dropped,
        )

    def exchanges(self) -> tuple[Exchange, ...]:
        """Return the requests of the other side that are being served, oldest first, then the long-lived ones."""
        return self._exchanges.table.all_running()

    # The tasks of the connection.

    def _begin(self) -> None:
        """Start them, unless they are started when there is something to do."""
        self._start_reading()
        if not self._link.rests:
            self._writer.start()
            self._notifications.start()

    def _start_reading(self) -> None:
        self._serve_loop.start()

    def _end_reading(self, error: Exception) -> None:
        """The channel has ended, or cannot be used any more: then the connection is gone in both directions."""
        forget_frames(error)  # those of the writer have the answers that it could not write
        if isinstance(error, trio.EndOfChannel):
            self._end_input(ConnectionLost(f"{self.description} closed the connection"))
            return
        why = self._loss(error)
        _log.debug("%s is lost: %s", self.description, why.reason)
        self._exchanges.give_up(why.reason)  # before their questions fail, as in `_close`
        self._end_input(why)
        self._sender.lose(self._why_closed)

    def _loss(self, error: Exception) -> ConnectionLost:
        """Return why the channel cannot be used any more. Its owner may have closed it while it was in use."""
        if isinstance(error, ConnectionLost):
            return error
        problem = str(error) or type(error).__name__
        how = "was closed" if isinstance(error, trio.ClosedResourceError) else f"failed: {problem}"
        lost = ConnectionLost(f"the channel to {self.description} {how}")
        lost.__cause__ = error
        return lost

    # How it ends.

    def _end_input(self, why: ConnectionLost) -> None:
        """No message will come any more. What is being served may still be answered."""
        if self.end is None and not self._closing:
            self.end = why
            self._sender.end_input(why.renewed)
        self._input_has_ended()

    def _why_closed(self) -> Exception:
        if self.end is not None:
            return self.end.renewed()
        return trio.ClosedResourceError("this end of the connection was closed")

    async def drain(self) -> None:
        """Refuse new requests, let what came finish within `Limits.drain_timeout`, cancel the rest."""
        self._exchanges.refuse_new(RequestError(SERVER_BUSY, "serving is about to end"))
        with trio.move_on_after(self._link.limits.drain_timeout):
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
        self._writer.queue.close()
        self._serve_loop.end()
        self._link.end("the connection was closed")
        self._notifications.abandon()
        self._is_closed = True
        self._input_has_ended()

    async def aclose(self) -> None:
        """Cancel what is under way and release the connection. The channel is its owner's to close.

        Every request of this side that is written and not answered is cancelled on the wire, every caller that
        waits gets `trio.ClosedResourceError`, every exchange is cancelled. What is still queued is written within
        `Limits.goodbye_timeout`. May be cancelled, and even then leaves nothing.
        """
        if not self._closing:
            self._close()
            self._link.channel.about_to_close()
            # Shielded, or a cancelled task could not send its cancellations; bounded, or a stuck peer could hold
            # it.
            try:
                with trio.move_on_after(self._link.limits.goodbye_timeout, shield=True):
                    await self._writer.queue.wait_empty()
            finally:
                self._let_go()  # after Ctrl+C, too: it comes out of what the main task waits for, shielded or not
        if self._is_closed:
            await trio.lowlevel.checkpoint()
        while not self._is_closed:  # another task closes
            await self.wait_to_look()


@asynccontextmanager
async def open_peer(
    channel: Channel,
    dispatcher: Dispatcher,
    limits: Limits,
    *,
    hooks: Hooks = _NO_HOOKS,
    middleware: Sequence[Middleware] = (),
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
        hooks: What its owner wants to learn.
        middleware: What requests and notifications pass through, in either direction; see `_middleware`.
        max_silence: Seconds after which a request of this side fails of which nothing was heard: no answer, no
            progress, and no question of the other side.
    """
    async with open_hidden_nursery() as nursery:
        peer = Peer(channel, dispatcher, nursery, limits, hooks, middleware, max_silence)
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
