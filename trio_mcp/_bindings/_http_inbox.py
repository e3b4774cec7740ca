"""Where everything meets that comes back over HTTP: many responses and streams, and one reader."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, final

import trio

from .._channel import Incoming, OriginGone, Received, TooLarge
from .._codec import _json
from .._codec._cost import explain_cost, is_costlier
from .._codec._invalid import kind_of
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import (
    ErrorResponse,
    InvalidMessage,
    RequestId,
    answered_id,
    answered_in_fragment,
    encode_error,
    id_of_fragment,
    is_answer_fragment,
    is_asked_in_fragment,
    parse_message,
)
from .._core._sse import OversizedSseEvent, SseReader, SseReceived
from .._errors import (
    TRANSPORT_FAILED,
    ConnectionLost,
    McpError,
    RemoteProtocolError,
    RequestError,
)
from .._limits import Limits
from .._logs import Log
from .._parking_lot import LightParkingLot
from ._http_exchange import HttpExchange, answered_ids
from ._http_room import ResponseRoom

__all__ = ["HttpInbox"]

_log: Final = Log("trio_mcp.http")

LARGE: Final = 4096
"""From how many bytes on a message is large."""

MAX_TAKEN: Final = 100
"""Messages that are handed over at once."""


def _asked(exchange: HttpExchange | None) -> frozenset[RequestId]:
    """Return what may be answered where a message comes from."""
    return frozenset() if exchange is None else exchange.asked


def _is_nameless(message: Any) -> bool:
    """Whether a message is an answer that does not say to what: an error, if it is valid."""
    return is_object(message) and "method" not in message and message.get("id") is None


def _has_nameless(value: Any) -> bool:
    return any(map(_is_nameless, value)) if is_array(value) else _is_nameless(value)


@final
class HttpInbox:
    """What was received, and which requests it has answered.

    Nothing is buffered: whoever delivers waits until the reader has taken it, so a reader that is slow is felt by
    the servers' sockets.

    What comes with the response to a POST can answer what was asked with that POST, and a stream that belongs to
    no request can answer nothing; any other answer is dropped. Only HTTP+SSE has one stream for all answers.

    Args:
        description: Who sends, for errors and logs.
        limits: What one message may take in memory, and what unfinished responses may.

    Attributes:
        room: What is kept of responses that are being read.
        exchanges: The requests without an answer, by id.
    """

    def __init__(self, description: str, limits: Limits) -> None:
        self._description = description
        self._max_decoded_bytes = limits.max_decoded_bytes
        self._has_large = False  # one is decoded, and not taken yet
        self._large_gone = LightParkingLot()
        self._reading_lines = trio.Lock()
        self.room: Final = ResponseRoom(limits.max_inbound_bytes)
        self._send, self._receive = trio.open_memory_channel[Received](0)
        self._lost: ConnectionLost | None = None
        self.exchanges: Final[dict[RequestId, HttpExchange]] = {}

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        try:
            received = [await self._receive.receive()]
        except trio.EndOfChannel:
            if self._lost is not None:
                raise self._lost.renewed() from None
            raise
        try:
            while len(received) < MAX_TAKEN:
                received.append(self._receive.receive_nowait())
        except (trio.WouldBlock, trio.EndOfChannel):
            pass
        return received

    def expect(self, exchange: HttpExchange) -> None:
        """Somebody waits for the answers to an exchange."""
        for id in exchange.message.request_ids:
            self.exchanges[id] = exchange

    def forget(self, exchange: HttpExchange) -> None:
        """Nobody waits any more."""
        for id in exchange.message.request_ids:
            self.exchanges.pop(id, None)

    async def deliver(self, data: bytes, exchange: HttpExchange | None, *, answers_all: bool = False) -> None:
        """Hand over one message, or a batch.

        Large ones wait as bytes until it is their turn: only one of them is decoded and not yet taken.

        Args:
            data: Its bytes.
            exchange: Whose response it came with; `None` for a stream that belongs to no request.
            answers_all: Whether it may answer whatever was asked, as on the stream of HTTP+SSE.
        """
        if len(data) <= LARGE:
            await self._deliver(data, exchange, answers_all=answers_all)
            return
        while self._has_large:
            await self._large_gone.park()
        self._has_large = True
        try:
            await self._deliver(data, exchange, answers_all=answers_all)
        finally:
            self._has_large = False
            self._large_gone.unpark_all()

    async def _deliver(self, data: bytes, exchange: HttpExchange | None, *, answers_all: bool) -> None:
        if is_costlier(data, self._max_decoded_bytes):
            problem = explain_cost(len(data), self._max_decoded_bytes)
            await self._deliver_nonsense(data, problem, exchange, answers_all=answers_all)
            return
        try:
            value: Any = _json.decode(data)
        except (ValueError, RecursionError) as error:
            await self._deliver_nonsense(
                data, f"a message that is not JSON: {error}", exchange, answers_all=answers_all
            )
            return
        answered = answered_ids(value)
        if exchange is not None and exchange.unanswered and exchange.unanswered.isdisjoint(answered):
            failure = self._misfit(value, answered, exchange)
            if failure is not None:
                await self.fail(exchange, failure)
                return
        waits = exchange is not None and bool(exchange.unanswered)  # for an error without an id, for example
        if not answers_all and not (
            _asked(exchange).issuperset(answered) and (waits or not _has_nameless(value))
        ):
            value = self._without_strangers(value, exchange, waits=waits)
            if not value:
                await trio.lowlevel.checkpoint()
                return
            data, answered = _json.encode(value), answered_ids(value)
        if len(answered) == 1 and is_object(value) and is_object(result := value.get("result")):
            asked = self.exchanges.get(answered[0])
            if asked is not None and asked.on_result is not None and asked.on_result(result):
                data = _json.encode(value)
        await self._put(Incoming(data, exchange, value=value))
        for id in answered:
            self._settle(id)

    def _without_strangers(self, value: Any, exchange: HttpExchange | None, *, waits: bool) -> Any:
        """Return what is left of a message, or a batch, without the answers to what was not asked there.

        A server, or whoever writes into one of its responses, could answer another request with them.
        """
        asked = _asked(exchange)
        messages: list[Any] = value if is_array(value) else [value]
        kept: list[Any] = []
        dropped: list[RequestId | None] = []
        for message in messages:
            id = answered_id(message)
            if (waits or not _is_nameless(message)) if id is None else id in asked:
                kept.append(message)
            else:
                dropped.append(id)
        self._log_strangers(dropped)
        return kept if is_array(value) else None

    def _log_strangers(self, dropped: Sequence[RequestId | None]) -> None:
        more = f" and {len(dropped) - 1} more" if len(dropped) > 1 else ""
        _log.warning(
            "%s answered %r%s on a stream or with a response where that was not asked; dropped",
            self._description,
            dropped[0],
            more,
        )

    async def read_events(self, reader: SseReader, data: bytes, *, is_part: bool) -> list[SseReceived]:
        """Feed the reader of one stream.

        Args:
            reader: The reader.
            data: What came.
            is_part: Whether it is a part of what has very many lines (`pieces_of`). Of all streams only one is
                fed such a part before others have their turn.
        """
        if not is_part:
            return reader.feed(data)
        async with self._reading_lines:
            return reader.feed(data)

    async def deliver_event(
        self, event: SseReceived, exchange: HttpExchange | None, *, answers_all: bool = False
    ) -> None:
        """Hand over the message in an event, if it is one; what only primes for a reconnection is none.

        Args:
            event: The event.
            exchange: Like that of `deliver`.
            answers_all: Like that of `deliver`.
        """
        if event.event != "message":
            _log.debug("%s sent an event of type %r, which is ignored", self._description, event.event)
            await trio.lowlevel.checkpoint()
        elif isinstance(event, OversizedSseEvent):
            id = id_of_fragment(event.head, event.tail)
            answered = id if is_answer_fragment(event.head, event.tail) else None
            if answered is not None and not answers_all and answered not in _asked(exchange):
                self._log_strangers([answered])
                if exchange is not None:
                    exchange.problem = f"it answers {answered!r}, which was not asked with it"
                await trio.lowlevel.checkpoint()
                return
            await self._put(TooLarge(event.size, event.head, event.tail, exchange))
            if answered is not None:
                self._settle(answered)
        elif event.data:
            await self.deliver(event.data, exchange, answers_all=answers_all)
        else:
            await trio.lowlevel.checkpoint()

    async def fail(self, exchange: HttpExchange, error: McpError) -> None:
        """There will be no answer to what is unanswered in an exchange, and why."""
        for id in exchange.message.request_ids:
            if id in exchange.unanswered:
                said = error if isinstance(error, RequestError) else RequestError(TRANSPORT_FAILED, str(error))
                await self._put(Incoming(encode_error(id, said), exchange, error))
                self._settle(id)

    async def end(self, exchange: HttpExchange) -> None:
        """Nothing more comes of an exchange, and nobody waits for what it was asked."""
        await self._put(OriginGone(exchange))

    async def report(self, failure: McpError) -> None:
        """Hand over what has failed without being anybody's request."""
        await self._put(Incoming(encode_error(None, RequestError(TRANSPORT_FAILED, str(failure))), None, failure))

    @staticmethod
    def _misfit(value: Any, answered: list[RequestId], exchange: HttpExchange) -> McpError | None:
        """Look at what came with a response and answers nothing that was asked with it.

        Returns:
            The failure of the exchange, if that is what it says: an answer without an id is to the only thing
            that the server was asked here. Anything else is kept, for the case that no answer follows.
        """
        if is_object(value) and "method" not in value and value.get("id") is None:
            try:
                message = parse_message(value)
            except InvalidMessage as error:
                return RemoteProtocolError(f"the server answered with an invalid message: {error.reason}")
            return message.error if isinstance(message, ErrorResponse) else None
        if answered:
            exchange.problem = f"it answers {answered[0]!r}, which was not asked with it"
        elif not is_object(value):
            exchange.problem = f"what came is {kind_of(value)}"
        return None

    async def _deliver_nonsense(
        self, data: bytes, what: str, exchange: HttpExchange | None, *, answers_all: bool
    ) -> None:
        """Hand over what cannot be decoded, as the failure of the request that it visibly answers."""
        problem = f"{self._description} sent {what}"
        id = answered_in_fragment(data)
        may_be_meant = id is not None and (answers_all or id in _asked(exchange))
        asked = self.exchanges.get(id) if id is not None and may_be_meant else None
        if asked is None and exchange is not None and not is_asked_in_fragment(data):
            asked = exchange  # whatever it is, there will be no other
        if asked is not None and asked.unanswered:
            await self.fail(asked, RemoteProtocolError(problem))
            return
        if exchange is not None:
            exchange.problem = problem
        _log.warning("%s", problem)
        await trio.lowlevel.checkpoint()

    async def _put(self, received: Received) -> None:
        # Nobody may read any more; then everybody who waited knows.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            try:
                self._send.send_nowait(received)  # saves a turn of the event loop where the reader waits
            except trio.WouldBlock:
                await self._send.send(received)

    def give_up(self, id: RequestId | None) -> HttpExchange | None:
        """Nobody waits for the answer to a request any more. Returns what it was sent with, if it is known."""
        return None if id is None else self._settle(id)

    def _settle(self, id: RequestId) -> HttpExchange | None:
        exchange = self.exchanges.pop(id, None)
        if exchange is not None:
            exchange.unanswered.discard(id)
        return exchange

    def lose(self, why: ConnectionLost) -> None:
        """Nothing will come any more, and why."""
        self._lost = self._lost or why
        self._send.close()

    def close(self) -> None:
        """Nobody reads any more: reading raises `trio.ClosedResourceError`."""
        self._send.close()
        self._receive.close()
