"""The answer to one modern POST: a JSON object, or a stream once something has to be said before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import trio

from .._channel import Outgoing
from .._codec._jsonrpc import Encoded, encode_error, encode_notification
from .._core._http_admission import HttpRefused
from .._core._http_status import status_of_error
from .._core._sse import encode_sse_comment, encode_sse_event
from .._errors import LocalProtocolError
from .._limits import Limits
from .._logs import Log
from .._peer._exchange import Exchange, OnProgress
from .._peer._interposed import interpose, notification
from .._peer._middleware import Message, Middleware
from .._peer._outbox import Outbox, OutboxEntry
from .._peer._reply import Reply
from ._call import HttpCall
from ._request_loans import SMALL
from ._turnstile import Turnstile

__all__ = ["COPIES", "KEEP_ALIVE", "PostAnswer", "cut_stream"]

_log: Final = Log("trio_mcp.http")

KEEP_ALIVE: Final = encode_sse_comment()

COPIES: Final = 2
"""How often a piece of a stream is there while it is sent: as events, and in what HTTP makes of them."""


def cut_stream(call: HttpCall, refused: HttpRefused) -> None:
    """End a stream at once: there is no room for what its client does not read."""
    _log.info("a stream to %s is cut: %s", call.client, refused)
    call.cut()


@final
class PostAnswer:
    """Where what an exchange sends goes; see `ExchangeSink`.

    A stream has a task of its own that writes it, so that a handler which is cancelled while it waits for room
    tears nothing.

    Args:
        call: The POST.
        nursery: Where that task runs.
        limits: How much may lie ready, and how large a message may be.
        middleware: What notifications pass.
        turnstile: Where senders of notifications wait for their turn.
        keep_alive: How long a stream is silent before it shows that it lives, in seconds.
        may_stream: Whether the answer may be a stream; if not, what is said before it goes nowhere.
    """

    def __init__(
        self,
        call: HttpCall,
        nursery: trio.Nursery,
        limits: Limits,
        middleware: Sequence[Middleware],
        turnstile: Turnstile,
        *,
        keep_alive: float,
        may_stream: bool,
    ) -> None:
        self._call = call
        self._nursery = nursery
        self._limits = limits
        self._middleware = middleware
        self._turnstile = turnstile
        self._keep_alive = keep_alive
        self._may_stream = may_stream
        self._outbox: Outbox | None = None
        self._writing: trio.CancelScope | None = None
        self._is_ending = False
        self._sending = 0
        self._covered = SMALL

    def stream(self) -> None:
        """Make a stream of it, unless it is one, or must be none. Never waits."""
        if self._outbox is None and self._may_stream:
            self._outbox = Outbox(self._limits.max_outbox_bytes)
            self._writing = trio.CancelScope()
            self._nursery.start_soon(
                self._write, self._outbox, self._writing, name=f"streaming to {self._call.client}"
            )

    async def _write(self, outbox: Outbox, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await self._write_events(outbox)
        except HttpRefused as refused:
            cut_stream(self._call, refused)
        except Exception:
            # The boundary of one answer: the nursery is that of all of them.
            _log.exception("a stream to %s failed", self._call.client)
        finally:
            outbox.close()

    async def _write_events(self, outbox: Outbox) -> None:
        call = self._call
        await call.start_stream()
        if not outbox.size:
            await call.send(KEEP_ALIVE)  # some proxies send the head on only when something follows it
        while True:
            entries: Sequence[OutboxEntry] = ()
            with trio.move_on_after(self._keep_alive):
                entries = await outbox.take()
            data = b"".join([encode_sse_event(entry.message.data) for entry in entries]) or KEEP_ALIVE
            self._sending = COPIES * len(data)
            self._cover(outbox)
            if self._is_ending and not outbox.size:
                call.on_answer()
                for entry in entries:
                    if entry.exchange is not None:
                        entry.exchange.companion = None
                await call.finish(data)
                return
            await call.send(data)
            self._sending = 0
            self._cover(outbox)

    def _cover(self, outbox: Outbox, more: int = 0) -> None:
        """Let what the client has not taken yet be lent to it.

        Raises:
            HttpRefused: There is no room for so much.
        """
        size = outbox.size + self._sending + more
        if size > self._covered or (size <= SMALL < self._covered):
            self._covered = self._call.loans.grow_answer(size, self._call.cut)

    async def finish(self, reply: Reply, exchange: Exchange) -> None:
        """Send what the request is answered with, and wait until the wire has it.

        Until then what another task does for the request ends with it: the client has not been told how to go on.
        """
        if self._outbox is None:
            exchange.companion = None
            self._may_stream = False
            code = reply.error_code
            status = 200 if code is None else status_of_error(code, modern=True)
            await self._call.respond(status, reply.data)
        else:
            self._is_ending = True
            data, id = reply.data, exchange.request.id
            try:
                self._cover(self._outbox, len(data))
            except HttpRefused as refused:
                _log.info("no room for the answer to %s: %s", self._call.client, refused)
                data = encode_error(id, refused.error)
            self._outbox.put(OutboxEntry(Outgoing(data, answers=(id,)), exchange=exchange))
            await self._outbox.wait_empty()

    def close(self) -> None:
        """Nothing more is sent. Without `finish`, what was begun stays torn."""
        self._may_stream = False
        if self._writing is not None:
            self._writing.cancel(reason="the request is over")

    # What an exchange asks.

    async def send_notification(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to the exchange, waiting for room."""
        if not self._middleware or method == "notifications/progress":
            await self._send(exchange, method, params)
            return

        async def send(message: Message) -> None:
            await self._send(exchange, message.method, message.params)

        await interpose(self._middleware, notification(method, params), send)

    async def _send(self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._turnstile.enter(self._call.loans.key)
        data = self._encoded(method, params)
        self.stream()
        if self._outbox is not None:
            await self._outbox.wait_room()
            if not exchange.is_over and self._has_room_for(data):
                self._outbox.put(OutboxEntry(Outgoing(data)))
        await trio.lowlevel.cancel_shielded_checkpoint()

    def send_notification_nowait(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to the exchange, if there is room.

        Raises:
            trio.WouldBlock: There is no room; nothing was sent.
        """
        data = self._encoded(method, params)
        self.stream()
        if self._outbox is not None and not exchange.is_over:
            if self._outbox.is_full or not self._has_room_for(data):
                raise trio.WouldBlock
            self._outbox.put(OutboxEntry(Outgoing(data)))

    def _has_room_for(self, data: bytes) -> bool:
        """Whether a notification may be put. A client that reads so little that there is no room for it goes."""
        try:
            if self._outbox is not None:
                self._cover(self._outbox, len(data))
        except HttpRefused as refused:
            cut_stream(self._call, refused)
            return False
        return True

    def _encoded(self, method: str, params: Mapping[str, Any] | Encoded | None) -> bytes:
        data = encode_notification(method, params)
        limit = self._limits.max_message_bytes
        if len(data) > limit:
            raise LocalProtocolError(f"{method} is {len(data)} bytes as a message; max_message_bytes is {limit}")
        return data

    async def send_request(
        self,
        exchange: Exchange,
        method: str,
        params: Mapping[str, Any] | None,
        on_progress: OnProgress | None,
    ) -> dict[str, Any]:
        """Refuse to ask: there are no requests of servers in the modern era.

        Raises:
            LocalProtocolError: Always.
        """
        del exchange, params, on_progress
        await trio.lowlevel.checkpoint()
        raise LocalProtocolError(
            f"{method}: {self._call.method} {self._call.path} cannot carry a server's request"
        )
