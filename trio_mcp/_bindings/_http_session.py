"""A session of the legacy era over Streamable HTTP: its id, its own stream, and streams that are taken up again.

Spec: 2025-11-25, basic/transports, "Listening for Messages from the Server", "Resumability and Redelivery",
"Session Management", "Protocol Version Header"; the same in 2025-03-26 and 2025-06-18.
"""

from __future__ import annotations

import random
from typing import Any, Final, final

import trio

from .._core._headers import HeaderField
from .._core._http_headers import PROTOCOL_VERSION, SESSION_ID, is_session_id
from .._core._reconnect import MAX_DELAY, Reconnect
from .._core._sse import SseReader
from .._errors import (
    ConnectionLost,
    HttpStatusError,
    McpError,
    RemoteProtocolError,
    RequestError,
    SessionLost,
)
from .._http._response import HttpResponse
from .._logs import Log
from ._http_endpoint import HttpEndpoint, error_of, is_event_stream
from ._http_exchange import HttpExchange

__all__ = ["HttpSession"]

_log: Final = Log("trio_mcp.http")


@final
class HttpSession:
    """What `initialize` has begun. A server may do without an id; the rest is the same.

    Args:
        endpoint: Where the server is.
    """

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint
        self._id: str | None = None
        self._version: str | None = None
        self._is_lost = False
        self._has_streams = False
        self.listening_scope: Final = trio.CancelScope()
        self.listening: Final = trio.Event()
        """The server's own stream is open, or the server has none."""

    def take_id(self, response: HttpResponse) -> None:
        """Remember the id that came with the answer to `initialize`.

        Raises:
            RemoteProtocolError: It is none that could be sent back.
        """
        id = response.headers.get(SESSION_ID)
        if id is not None and not is_session_id(id):
            raise RemoteProtocolError(f"{SESSION_ID} must be visible ASCII, not {id[:100]!r}")
        self._id = id

    def take_result(self, result: dict[str, Any]) -> bool:
        """Remember the revision that the result of `initialize` names. Changes nothing."""
        version = result.get("protocolVersion")
        if isinstance(version, str) and is_session_id(version):
            self._version = version
        return False

    @property
    def headers(self) -> list[HeaderField]:
        """What every request of the session says."""
        fields: list[HeaderField] = []
        if self._id is not None:
            fields.append((SESSION_ID.encode(), self._id.encode()))
        if self._version is not None:
            fields.append((PROTOCOL_VERSION.encode(), self._version.encode()))
        return fields

    async def ask(self, exchange: HttpExchange) -> None:
        """Send a request, and bring its answers however many connections that takes.

        Raises:
            SessionLost: The server does not know the session any more; nothing was done.
            RequestError: The response is an error.
            RemoteProtocolError: The response cannot be used.
            ConnectionLost: It broke off and cannot be taken up again.
        """
        reader = self._endpoint.new_reader()
        broken: ConnectionLost | None = None
        try:
            async with await self._endpoint.post(exchange, self.headers) as response:
                if response.status == 404:
                    raise await self._gone(response)
                await self._endpoint.take(response, exchange, reader)
        except ConnectionLost as error:
            if not reader.last_event_id:
                raise
            broken = error
        if exchange.unanswered and reader.last_event_id:
            await self._follow(exchange, reader, broken)
        if exchange.unanswered:
            raise broken or exchange.missing_answer()

    async def listen(self) -> None:
        """Keep the server's own stream open until the session ends or the server says that it has none.

        That the session is lost is reported: whoever only listens would not learn it otherwise.
        """
        with self.listening_scope:
            try:
                await self._follow(None, self._endpoint.new_reader(), None)
            except SessionLost as lost:
                self.listening.set()
                await self._endpoint.inbox.report(lost)
            except McpError as error:
                # Servers that send nothing unasked refuse in many ways; 405 is the regular one.
                _log.debug("there is no stream of the server's own: %s", error)
            finally:
                self.listening.set()

    def replace(self) -> None:
        """There is another session now. What is under way in this one goes on."""
        self._is_lost = True
        self.listening_scope.cancel(reason="there is another session")

    async def _follow(
        self, exchange: HttpExchange | None, reader: SseReader, broken: ConnectionLost | None
    ) -> None:
        """Open a stream by GET, as often as it ends.

        Args:
            exchange: The request whose stream it continues; `None` for the server's own.
            reader: What has read it so far.
            broken: Why it ended, if not in an orderly way.

        Raises:
            McpError: The server refuses it, or it failed too often in a row.
        """
        reconnect = Reconnect(self._endpoint.parameters.max_retry_delay)
        last_event_id, retry = reader.last_event_id, reader.retry
        pause = exchange is not None
        while exchange is None or exchange.unanswered:
            if pause:
                failed = broken is not None
                await trio.sleep(reconnect.next_delay(retry, failed=failed, chance=random.random()))  # noqa: S311
                if exchange is not None and reconnect.failures > self._endpoint.parameters.max_resumptions:
                    assert broken is not None
                    raise broken
            pause = True
            reader = self._endpoint.new_reader()
            opened_at = trio.current_time()
            broken = None
            try:
                async with await self._endpoint.get(self.headers, last_event_id=last_event_id) as response:
                    if is_event_stream(response):
                        self._has_streams = True
                        self.listening.set()
                        await self._endpoint.take_events(response, exchange, reader)
                    else:
                        broken = await self._refusal(response, exchange)
            except ConnectionLost as error:
                broken = error
            self.listening.set()
            # A server that lets a request be polled for sends no more than an id each time.
            is_polled = exchange is not None and bool(reader.last_event_id)
            if reader.messages or is_polled or trio.current_time() - opened_at >= MAX_DELAY:
                reconnect.received()
            last_event_id = reader.last_event_id or last_event_id
            retry = retry if reader.retry is None else reader.retry

    async def _refusal(self, response: HttpResponse, exchange: HttpExchange | None) -> ConnectionLost:
        """Return what is only so for the moment, and raise what will stay so."""
        # Some servers that have no stream of their own say so with 404 instead of 405. That says nothing of the
        # session. Who gives events ids has promised that they can be had by GET.
        if response.status == 404 and (self._has_streams or exchange is not None):
            error = await self._gone(response)
            if exchange is None or not isinstance(error, SessionLost):
                raise error
            # The request was accepted: unlike `SessionLost`, this does not say that it may be sent again.
            raise RemoteProtocolError("the session ended before the request was answered")
        error = await error_of(response)
        if response.status == 429 or response.status >= 500:
            return ConnectionLost(str(error))
        if response.status < 300:
            raise RemoteProtocolError("the server answered a GET with something that is no stream of events")
        raise error

    async def _gone(self, response: HttpResponse) -> RequestError:
        """Return what a 404 means: in a session, that it is over."""
        error = await error_of(response)
        if self._id is None:
            return error
        self._is_lost = True
        body = error.body if isinstance(error, HttpStatusError) else error.message
        return SessionLost(404, "the server does not know the session any more", body=body)

    @property
    def can_be_ended(self) -> bool:
        """Whether there is anything to tell the server when it is over."""
        return self._id is not None and not self._is_lost

    async def end(self) -> None:
        """Tell the server that the session is over. Whatever it says, it is."""
        try:
            async with await self._endpoint.delete(self.headers) as response:
                await response.read_excerpt(1024)
        except McpError as error:
            _log.debug("the session could not be ended: %s", error)
