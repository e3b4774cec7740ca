"""One end of one connection, brought to life by Trio.

    wire ──> workers, one of which reads ──> the intake ──> calls, notices, exchanges
    wire <── whoever has something to say, or the writer <── the outlet <── calls, notifications, answers

Who owns what: `open_peer` owns the nursery. The writer and the notification task are shielded and end with
`aclose`, so that a body that is being cancelled can still say goodbye. Workers and exchanges are not shielded;
if they are cancelled, a shielded task goes on reading. At a channel that can wake them (`Channel.may_rest`) all
of these are there only while there is something to do. Callers wait in their own tasks and own nothing here but
their entry in a table.

Knows no tools, no resources, no eras and no transports.

The tasks of a connection that serve no request: they read, write and deliver notifications.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import copy_context
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from .._channel import Channel
from .._codec._jsonrpc import Encoded, Notification, RequestId
from .._errors import SERVER_BUSY, ConnectionLost, RequestError
from .._limits import Limits
from .._logs import Log
from .._trio import LightParkingLot, open_hidden_nursery
from ._exchange import Dispatcher, OnProgress
from ._exchanges import Exchanges
from ._middleware import InterposedDispatcher, Middleware
from ._notifications import Notices
from ._outbox import Frames, OnFrame, Outbox
from ._receiver import Intake, OnFailure, OnNotice
from ._sending import Outlet
from ._serving import Workers

Work: TypeAlias = Callable[[], Awaitable[object]]


@final
class Servants:
    """Tasks that are shielded, and end when they have nothing more to do or with `end`.

    The body of a connection goes first and its servants after it, so that what cleans up can still say something.
    Each task has a shielded scope of its own inside the nursery of the connection, and whatever wakes it, it runs
    with the context variables of the task that has opened the connection.

    Args:
        nursery: Where they run.
        owner: Whose they are, for their names.
    """

    def __init__(self, nursery: trio.Nursery, owner: str) -> None:
        self._nursery = nursery
        self._owner = owner
        self._variables = copy_context()
        self._scopes: dict[Work, trio.CancelScope] = {}
        self._has_ended = False

    def wake(self, work: Work, doing: str) -> bool:
        """Start a task, unless it runs already or everything has ended. Returns whether it did. Never waits.

        Args:
            work: What it does. Between finding that nothing is left and its return there must be no checkpoint.
            doing: The same in words.
        """
        if work in self._scopes or self._has_ended:
            return False
        self._scopes[work] = trio.CancelScope(shield=True)
        name = f"{doing} {self._owner}"
        self._variables.run(lambda: self._nursery.start_soon(self._run, work, name=name))
        return True

    async def _run(self, work: Work) -> None:
        try:
            with self._scopes[work]:
                await work()
        finally:
            del self._scopes[work]

    def end(self, reason: str) -> None:
        """Cancel them all, and start none any more. Never waits."""
        self._has_ended = True
        for scope in self._scopes.values():
            scope.cancel(reason=reason)


_log: Final = Log("trio_mcp.peer")


@final
@attrs.frozen
class PeerStatistics:
    """What is going on at one end of a connection.

    Attributes:
        calls: Requests of ours without an answer.
        exchanges: Requests of the other side that are being served.
        standing: Requests of the other side that stand open, such as subscriptions; not counted in `exchanges`.
        waiting: Requests of the other side that wait for their turn.
        outbox_bytes: What lies ready to be written.
        dropped_notifications: Notifications that had to make room because they were handled too slowly.
    """

    calls: int
    exchanges: int
    standing: int
    waiting: int
    outbox_bytes: int
    dropped_notifications: int


@final
class Peer:
    """One end of one connection: asks, is asked, notifies and is notified. Made by `open_peer`."""

    def __init__(
        self,
        channel: Channel,
        dispatcher: Dispatcher,
        nursery: trio.Nursery,
        limits: Limits,
        on_frame: OnFrame | None,
        middleware: Sequence[Middleware] = (),
        on_notice: OnNotice | None = None,
        on_failure: OnFailure | None = None,
    ) -> None:
        if middleware:
            dispatcher = InterposedDispatcher(dispatcher, middleware)
        self._channel = channel
        self._limits = limits
        self._servants = Servants(nursery, channel.description)
        self._rests = channel.rests(self._wake_reader)
        self._outbox = Outbox(limits.max_outbox_bytes, self._wake_writer if self._rests else None)
        frames = None if on_frame is None else Frames(on_frame)
        changed = LightParkingLot()
        serving = f"serving {channel.description}"
        self._outlet = outlet = Outlet(
            channel,
            self._outbox,
            limits,
            frames,
            middleware,
            changed,
            rests=self._rests,
            serving=self._serving,
            refusal=self._refusal,
            on_failure=self._fail,
        )
        self._calls = outlet.calls
        self._notices = Notices(self._calls, dispatcher, limits, self._wake_notices if self._rests else None)
        self._exchanges = Exchanges(
            nursery, dispatcher, outlet, self._outbox, outlet.put, self._calls, limits, changed, serving
        )
        intake = Intake(
            channel,
            dispatcher,
            self._outbox,
            self._calls,
            self._notices,
            self._exchanges,
            limits,
            show=None if frames is None else frames.received,
            on_notice=on_notice,
            on_failure=on_failure,
        )
        self._intake = intake
        self._workers = Workers(
            nursery,
            intake,
            self._exchanges,
            self._outbox,
            limits,
            name=serving,
            keeps_idle=not self._rests,
            flush=outlet.flush,
            on_end=self._end_reading,
            on_cancelled=self._wake_reader,
        )
        # No message will come any more, or its owner does not wait.
        self.has_input_ended: bool = False
        self._owner_waits = LightParkingLot()
        self._end: ConnectionLost | None = None  # why nothing comes any more
        self._lost: ConnectionLost | None = None  # why nothing goes any more either
        self._closing = False
        self._closed: trio.Event | None = None  # for those who close while somebody closes
        self._is_closed = False

    # What the floor above says.

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        on_id: Callable[[RequestId], object] | None = None,
    ) -> dict[str, Any]:
        """Send a request and wait for its result.

        The caller's deadline covers waiting for room, writing and waiting for the answer. A caller that is
        cancelled leaves at once: a request that was not written is taken back, for one that was written the
        cancellation follows it on the wire, and neither is waited for.

        Args:
            method: The method.
            params: Its parameters as plain JSON; what the connection adds goes into their `_meta`.
            on_progress: Called in this task with each progress notification, all of them before this returns.
            on_id: Called with the request's id before a byte of it is written, and thus before anything that
                refers to it can come. Not called if the request is refused before that.

        Raises:
            RequestError: The answer is an error.
            RemoteProtocolError: The answer cannot be used.
            LocalProtocolError: The request is larger than `Limits.max_message_bytes`.
            ConnectionLost: The connection ended first; or only what this request needed of it, where a transport
                can lose that alone: then `end` is `None`.
            trio.ClosedResourceError: This end was closed.
        """
        return await self._outlet.request(method, params, on_progress=on_progress, on_id=on_id)

    def fail_request(self, id: RequestId, error: Exception) -> bool:
        """Let a request of ours end with an error, because the other side said that it will not answer.

        Whoever waits for it raises the error. The other side is told nothing: it knows.

        Returns:
            Whether somebody waited for it.
        """
        return self._calls.fail(id, error)

    def clocks_stopped(self) -> AbstractContextManager[None]:
        """Stop `fail_after_silence` and `request_timeout` for every request that is pending, during a block."""
        return self._calls.clocks_stopped()

    def deliver(self, notification: Notification) -> None:
        """Put a notification of this side's own in line with those that were received. Never waits."""
        self._notices.offer(notification, None)

    async def request_batch(
        self, requests: Sequence[tuple[str, Mapping[str, Any] | None]]
    ) -> list[dict[str, Any] | RequestError]:
        """Send several requests as one batch, and wait for all answers.

        Returns:
            For each request its result, or the error that answers it.

        Raises:
            ValueError: There are none, or more than `Limits.max_batch_messages` or
                `Limits.max_outbound_requests`.
            Others: As `request`.

        Spec: 2025-03-26, basic, "Batching". Whether the revision has batches is the caller's business.
        """
        return await self._outlet.request_batch(requests)

    async def notify(self, method: str, params: Mapping[str, Any] | Encoded | None = None) -> None:
        """Send a notification. Returns when it is in line to be written; cancelled, it was not sent.

        Raises:
            LocalProtocolError: It is larger than `Limits.max_message_bytes`.
            ConnectionLost: The connection is gone.
            trio.ClosedResourceError: This end was closed.
        """
        await self._outlet.notify(method, params)

    async def wait_input_ended(self) -> None:
        """Wait until no message will come any more."""
        if self.has_input_ended:
            await trio.lowlevel.checkpoint()
        while not self.has_input_ended:
            await self.wait_to_look()

    async def wait_to_look(self) -> None:
        """Wait until `has_input_ended` has changed, or somebody has called `look_again`."""
        await self._owner_waits.park()

    def look_again(self) -> None:
        """Let those go who are in `wait_to_look`. Never waits."""
        self._owner_waits.unpark_all()

    def _input_has_ended(self) -> None:
        self.has_input_ended = True
        self.look_again()

    @property
    def end(self) -> ConnectionLost | None:
        """Why no message will come any more, once that is so and unless this side closed."""
        return self._end

    def statistics(self) -> PeerStatistics:
        """Return counters, for tests and debugging."""
        return PeerStatistics(
            calls=len(self._calls),
            exchanges=self._exchanges.running,
            standing=self._exchanges.standing,
            waiting=self._exchanges.waiting,
            outbox_bytes=self._outbox.size,
            dropped_notifications=self._notices.dropped,
        )

    # The tasks of the connection.

    def _serving(self) -> int:
        return self._exchanges.running

    def _begin(self) -> None:
        """Start them, unless they are started when there is something to do."""
        self._wake_reader()
        if not self._rests:
            self._wake_writer()
            self._wake_notices()

    def _wake_reader(self) -> None:
        """Let somebody read. What is left of workers that were cancelled may still have something to hear."""
        if not self._workers.wake():
            self._servants.wake(self._read, "reading from")

    def _wake_writer(self) -> None:
        self._servants.wake(self._outlet.write, "writing to")

    def _wake_notices(self) -> bool:
        return self._servants.wake(self._notices.deliver, "notifications of")

    async def _read(self) -> None:
        try:
            while True:
                ready = self._intake.next_request(None)
                if ready is not None:
                    self._exchanges.start(ready)
                elif self._intake.must_wait:
                    await self._intake.wait()
                elif self._intake.may_rest():
                    return
                else:
                    await self._intake.receive()
        except (trio.EndOfChannel, ConnectionLost, trio.ClosedResourceError, trio.BrokenResourceError) as error:
            self._end_reading(error)

    def _end_reading(self, error: Exception) -> None:
        if isinstance(error, trio.EndOfChannel):
            self._end_input(ConnectionLost(f"{self._channel.description} closed the connection"))
        else:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """The channel cannot be used any more."""
        self._lose(self._loss(error))

    def _loss(self, error: Exception) -> ConnectionLost:
        """Say why the channel cannot be used any more. Its owner may have closed it while it was in use."""
        if isinstance(error, ConnectionLost):
            return error
        how = "was closed" if isinstance(error, trio.ClosedResourceError) else f"failed: {error}"
        lost = ConnectionLost(f"the channel to {self._channel.description} {how}")
        lost.__cause__ = error
        return lost

    # How it ends.

    def _end_input(self, why: ConnectionLost) -> None:
        """No message will come any more. What is being served may still be answered."""
        if self._end is None and not self._closing:
            self._end = why
            self._calls.fail_all(why.renewed)
        self._input_has_ended()

    def _lose(self, why: ConnectionLost) -> None:
        """The connection is gone in both directions."""
        _log.debug("%s is lost: %s", self._channel.description, why.reason)
        self._exchanges.give_up(why.reason)  # before their questions fail, as in `_close`
        self._end_input(why)
        self._lost = why
        self._outbox.close()

    def _refusal(self) -> Exception | None:
        """Return why nothing is said any more; `None` while anything is."""
        return self._why_closed() if self._closing or self._lost is not None else None

    def _why_closed(self) -> Exception:
        if self._end is not None:
            return self._end.renewed()
        return trio.ClosedResourceError("this end of the connection was closed")

    async def drain(self) -> None:
        """Refuse new requests, let what came finish within `Limits.drain_timeout`, cancel the rest."""
        self._exchanges.refuse_new(RequestError(SERVER_BUSY, "serving is about to end"))
        self._exchanges.end_standing()
        with trio.move_on_after(self._limits.drain_timeout):
            await self._exchanges.wait_done()
            await self._notices.wait_delivered()
        self._exchanges.stop("serving ended")
        await self._exchanges.wait_done()

    def abort(self) -> None:
        """Let go of the connection without another word; what `aclose` does, but for the goodbye. Never waits."""
        if self._closing:
            return
        self._close()
        self._let_go()

    def _close(self) -> None:
        """Ask and serve nothing more."""
        self._closing = True
        # Handlers first: one that waits for an answer is cancelled there, and does not see its question fail.
        self._exchanges.give_up("this end of the connection was closed")
        self._calls.leave(self._why_closed)

    def _let_go(self) -> None:
        self._outbox.close()
        self._workers.end()
        self._servants.end("the connection was closed")
        self._input_has_ended()
        self._is_closed = True
        if self._closed is not None:
            self._closed.set()

    async def aclose(self) -> None:
        """Say goodbye and let go of the connection; the channel itself is its owner's to close.

        Every request of ours that is written and not answered is given up on the wire, every caller that waits
        gets `trio.ClosedResourceError`, every exchange is cancelled. What is still to be said has
        `Limits.goodbye_timeout` to be taken. May be cancelled, and even then leaves nothing.
        """
        if not self._closing:
            self._close()
            # Shielded, or a cancelled task could not say goodbye; bounded, or a stuck peer could hold it.
            try:
                with trio.move_on_after(self._limits.goodbye_timeout, shield=True):
                    await self._outbox.wait_empty()
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
    on_notice: OnNotice | None = None,
    on_failure: OnFailure | None = None,
) -> AsyncGenerator[Peer]:
    """Run one end of a connection for as long as the body runs, then say goodbye.

    The end of the connection does not end the body: what is asked then raises `ConnectionLost`. An exception of
    the body comes out as itself. Leaving is the checkpoint; it takes at most `Limits.goodbye_timeout` plus the
    cleanup of the handlers that still run.

    Args:
        channel: The transport; the caller closes it afterwards.
        dispatcher: Says what the messages of the other side mean.
        limits: What the connection may cost.
        on_frame: Called with each message in either direction.
        middleware: What every request and notification goes through, in either direction.
        on_notice: Called with each notification as it is read. It must neither wait nor raise.
        on_failure: Called with failures that are no single request's. It must neither wait nor raise.
    """
    async with open_hidden_nursery() as nursery:
        peer = Peer(channel, dispatcher, nursery, limits, on_frame, middleware, on_notice, on_failure)
        peer._begin()  # noqa: SLF001 - the peer's owner
        try:
            yield peer
        except BaseException:
            with trio.CancelScope(shield=True):  # bounded by itself; `Cancelled` would take the exception's place
                await peer.aclose()
            raise
        await peer.aclose()
