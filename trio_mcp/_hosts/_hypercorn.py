"""Hypercorn as what reads and writes HTTP on a connection. The only module that knows Hypercorn.

Hypercorn's own `serve` lets one odd client end the whole server, one that does not read hold up its end, and
every request start and stop a timer. So its HTTP/1.1 is given in another way what it asks of a server:
connections are bounded and ended by `_connections`; a request is one task, and what comes for it is handed over
without a channel; head and body go out together. It is imported when a server starts.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, final

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Request
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState, LifespanState

from .._core._http_settings import HttpServerSettings
from .._endpoint._endpoint import Endpoint
from .._endpoint._request_loans import SMALL
from ._asgi import AsgiCall
from ._body import READ_AHEAD
from ._connections import Connection, OpenConnection
from ._places import Places
from ._wires import Wire

__all__ = ["hypercorn_connections"]

_log: Final = logging.getLogger("trio_mcp.http")


def hypercorn_connections(endpoint: Endpoint, settings: HttpServerSettings) -> OpenConnection:
    """Return what makes connections on which Hypercorn speaks."""
    config = Config()
    config.keep_alive_max_requests = 1_000_000_000
    config.h11_max_incomplete_size = settings.max_head_bytes
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = _log
    return lambda wire, places: _HypercornConnection(wire, places, settings, endpoint, config)


@final
class _Protocol(H11Protocol):
    """HTTP/1.1 on one connection, which no client can talk into HTTP/2 or a WebSocket."""

    _held = b""

    async def _check_protocol(self, event: h11.Request) -> None:
        """Stay with HTTP/1.1."""

    async def _create_stream(self, request: h11.Request) -> None:
        """Begin a request: always one that is answered by HTTP."""
        self.stream = HTTPStream(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=list(request.headers),
                http_version=request.http_version.decode("ascii"),
                method=request.method.decode("ascii").upper(),
                raw_path=request.target,
                state=self.connection_state,
            )
        )

    async def _send_h11_event(self, event: Any) -> None:
        """Send what an event makes of bytes: a head with what follows it, and nothing if it makes none."""
        try:
            data = self.connection.send(event) or b""
        except h11.LocalProtocolError:
            if self.connection.their_state != h11.ERROR:
                raise
            return
        if isinstance(event, h11.Response):
            self._held = data
            return
        held, self._held = self._held, b""
        if len(data) > SMALL and held:  # to join them would be a second copy
            await self.send(RawData(data=held))
        elif held:
            data = held + data
        if data:
            await self.send(RawData(data=data))


@final
class _HypercornConnection(Connection):
    """One connection."""

    def __init__(
        self,
        wire: Wire,
        places: Places[Wire],
        settings: HttpServerSettings,
        endpoint: Endpoint,
        config: Config,
    ) -> None:
        super().__init__(wire, places)
        self._settings = settings
        self._endpoint = endpoint
        self._context = WorkerContext(None)
        self._lingers = False
        self._call: AsgiCall | None = None
        framework: Any = None  # never called: `spawn_app` knows what to do
        tasks: Any = self
        client = None if wire.client is None else (wire.client, 0)
        self._protocol = _Protocol(
            framework,
            config,
            self._context,
            tasks,
            ConnectionState(LifespanState({})),
            wire.scheme == "https",
            client,
            None,
            self._send,
        )

    async def _read(self) -> None:
        data = await self.wire.receive(READ_AHEAD)
        while data:
            await self._protocol.handle(RawData(data))
            call = self._call
            if call is not None:
                await call.wait_body_asked()
            data = await self.wire.receive(READ_AHEAD if call is None else call.read_size)

    async def _end(self) -> None:
        await self._protocol.handle(Closed())
        if self._lingers:
            await self.wire.linger()

    async def _send(self, event: Event) -> None:
        """Do what Hypercorn wants done with the connection."""
        if isinstance(event, RawData):
            try:
                await self.wire.send(event.data)
            except trio.BrokenResourceError:
                self.stop_reading("the client is gone")
                await self._protocol.handle(Closed())
        elif isinstance(event, Closed):
            # What it has not read of a request would make its system throw the answer away.
            self._lingers = self._protocol.connection.their_state not in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)
            self.stop_reading("the connection cannot be used again")
            await self._protocol.handle(Closed())
        elif isinstance(event, Updated):
            if event.idle:
                self._call = None
                self.rest(sent_ahead=bool(self._protocol.connection.trailing_data[0]))
            else:
                self.work()

    async def spawn_app(
        self,
        app: object,
        config: object,
        scope: Any,
        send: Callable[[Any], Awaitable[None]],
    ) -> Callable[[Any], Awaitable[None]]:
        """Start what answers a request, and return what takes the rest of it. Hypercorn calls both."""
        del app, config
        call = self._call = AsgiCall(scope, send, self._settings)
        call.on_cut = self.wire.cut
        self.start(self._serve, call, send)

        async def take(message: Any) -> None:  # noqa: ASYNC124 - Hypercorn awaits it
            call.take(message)

        return take

    async def _serve(self, call: AsgiCall, send: Callable[[Any], Awaitable[None]]) -> None:
        try:
            await self._endpoint.handle(call)
        except Exception:
            # The boundary of one request.
            _log.exception("%s %s failed", call.method, call.path)
        await send(None)
