"""What one end of a connection says: its requests, its notifications, and how everything gets to the wire.

put ──> the outbox ──> at once, if nobody else has anything to say and the wire takes it
──> the writer, if the wire does not
──> whoever holds the outbox, together with what it says itself
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import trio

from .._channel import Channel, Outgoing
from .._codec._jsonrpc import Encoded, RequestId, encode_notification
from .._errors import ConnectionLost, LocalProtocolError, RequestError
from .._limits import Limits
from .._parking_lot import LightParkingLot
from ._calls import Calls
from ._exchange import Exchange, OnProgress
from ._frames import Frames
from ._interposed import interpose, interpose_batch, notification
from ._middleware import Message, Middleware
from ._outbox import Outbox, OutboxEntry

__all__ = ["Outlet"]


@final
class Outlet:
    """Puts in line what this end says, and writes it. It is the `ExchangeSink` of the connection.

    Args:
        channel: Where to.
        outbox: The line.
        limits: How large a message may be.
        frames: Shows what is written, if anybody looks.
        middleware: What requests and notifications go through.
        changed: Woken when a request is made.
        rests: Whether the writer goes when there is nothing to write, because the outbox wakes the next.
        serving: How many requests of the other side may have something to say.
        refusal: Why nothing is said any more; `None` while anything is.
        on_failure: Called with what writing has failed with.

    Attributes:
        calls: The requests of this end.
    """

    # A session that idles keeps all of this, and there may be thousands of them.
    __slots__ = (
        "_channel",
        "_frames",
        "_limits",
        "_middleware",
        "_on_failure",
        "_outbox",
        "_refusal",
        "_rests",
        "_serving",
        "calls",
    )

    def __init__(
        self,
        channel: Channel,
        outbox: Outbox,
        limits: Limits,
        frames: Frames | None,
        middleware: Sequence[Middleware],
        changed: LightParkingLot,
        *,
        rests: bool,
        serving: Callable[[], int],
        refusal: Callable[[], Exception | None],
        on_failure: Callable[[Exception], object],
    ) -> None:
        self._channel = channel
        self._outbox = outbox
        self._limits = limits
        self._frames = frames
        self._middleware = middleware
        self._rests = rests
        self._serving = serving
        self._refusal = refusal
        self._on_failure = on_failure
        self.calls = Calls(channel, outbox, self.put, limits, changed)

    # Requests.

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        on_progress: OnProgress | None = None,
        on_id: Callable[[RequestId], object] | None = None,
        exchange: Exchange | None = None,
    ) -> dict[str, Any]:
        """Send a request and wait for its result; see `Peer.request`."""
        if not self._middleware:
            return await self.calls.request(
                method, params, on_progress=on_progress, on_id=on_id, exchange=exchange
            )

        async def send(message: Message) -> Mapping[str, Any]:
            return await self.calls.request(
                message.method, message.params, on_progress=on_progress, exchange=exchange, on_id=on_id
            )

        result = await interpose(self._middleware, Message("sent", method, params), send)
        assert result is not None
        return dict(result)

    async def request_batch(
        self, requests: Sequence[tuple[str, Mapping[str, Any] | None]]
    ) -> list[dict[str, Any] | RequestError]:
        """Send several requests as one batch, and wait for all answers; see `Peer.request_batch`."""
        if self._middleware and requests:
            return await interpose_batch(self._middleware, requests, self.calls.request_batch, self._send)
        return await self.calls.request_batch(requests)

    async def _send(self, message: Message) -> Mapping[str, Any]:
        return await self.calls.request(message.method, message.params)

    async def send_request(
        self,
        exchange: Exchange,
        method: str,
        params: Mapping[str, Any] | None,
        on_progress: OnProgress | None,
    ) -> dict[str, Any]:
        """Ask on behalf of an exchange; see `ExchangeSink`."""
        return await self.request(method, params, on_progress=on_progress, exchange=exchange)

    # Notifications.

    async def notify(
        self, method: str, params: Mapping[str, Any] | Encoded | None, exchange: Exchange | None = None
    ) -> None:
        """Send a notification; see `Peer.notify`."""
        # Progress belongs to its request, and there may be a lot of it; see `_interposed`.
        if not self._middleware or method == "notifications/progress":
            await self._send_notification(method, params, exchange)
            return

        async def send(message: Message) -> None:
            await self._send_notification(message.method, message.params, exchange)

        await interpose(self._middleware, notification(method, params), send)

    async def send_notification(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to an exchange; see `ExchangeSink`."""
        if self._middleware:
            await self.notify(method, params, exchange)
        else:
            await self._send_notification(method, params, exchange)

    def send_notification_nowait(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to an exchange, if there is room; see `ExchangeSink`."""
        if self._outbox.is_full or not self._channel.has_room(exchange.origin):
            raise trio.WouldBlock
        self._put_notification(self._encoded(method, params), exchange)

    async def _send_notification(
        self, method: str, params: Mapping[str, Any] | Encoded | None, exchange: Exchange | None
    ) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        data = self._encoded(method, params)
        origin = None if exchange is None else exchange.origin
        await self._channel.wait_turn(origin)
        if self._outbox.is_full or not self._channel.has_room(origin):
            await self._outbox.wait_room()
            while not self._channel.has_room(origin):
                await self._channel.wait_room(origin)
                await self._outbox.wait_room()
        self._put_notification(data, exchange)
        await trio.lowlevel.cancel_shielded_checkpoint()

    def _encoded(self, method: str, params: Mapping[str, Any] | Encoded | None) -> bytes:
        data = encode_notification(method, params)
        if len(data) > self._limits.max_message_bytes:
            raise LocalProtocolError(
                f"{method} is {len(data)} bytes as a message; "
                f"max_message_bytes is {self._limits.max_message_bytes}"
            )
        return data

    def _put_notification(self, data: bytes, exchange: Exchange | None) -> None:
        refusal = self._refusal()
        if refusal is not None:
            raise refusal
        if exchange is None:
            self.put(OutboxEntry(Outgoing(data)))
        elif not exchange.is_over:
            self.put(OutboxEntry(Outgoing(data, (), (), exchange.origin), (), exchange))

    # Writing.

    def put(self, entry: OutboxEntry) -> None:
        """Say something: at once, if nobody else seems to have anything to say; else with what they say."""
        outbox = self._outbox
        # What lies there already could not be written at once, and its writer is awake. To try again with each
        # new entry would look at all the others each time.
        if outbox.is_held or self._serving() + len(self.calls) > 1 or not outbox.is_empty:
            outbox.put(entry)
        else:
            outbox.is_held = True
            outbox.put(entry)
            self.flush()

    def flush(self) -> None:
        """Write what is ready, as far as the wire takes it now; the writer does the rest. Never waits."""
        outbox = self._outbox
        outbox.is_held = False
        while first := outbox.first():
            try:
                is_written = self._channel.send_nowait([entry.message for entry in first])
            except trio.WouldBlock:
                outbox.wake_writer()
                return
            except (ConnectionLost, trio.ClosedResourceError) as error:
                self._on_failure(error)
                return
            self._mark_written(first)
            outbox.remove_first(len(first), has_rest=not is_written)

    async def write(self) -> None:
        """Be the writer: as long as the connection lasts, or as long as there is something to write."""
        try:
            while not (self._rests and self._outbox.may_rest()):
                taken = await self._outbox.take()
                self._mark_written(taken)
                await self._channel.send([entry.message for entry in taken])
        except (ConnectionLost, trio.ClosedResourceError, trio.BrokenResourceError) as error:
            self._on_failure(error)

    def _mark_written(self, entries: Sequence[OutboxEntry]) -> None:
        for entry in entries:
            self.calls.written += 1
            if entry.requests or entry.goodbye_to is not None:
                self.calls.mark_written(entry)
            if self._frames is not None:
                self._frames.sent(entry.message.data)
