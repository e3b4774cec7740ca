"""Hypercorn under our own accept loop. The only module that knows Hypercorn; it is imported when a server starts.

Hypercorn's own `serve` lets one odd client end the whole server, and one that does not read hold up its end. So
connections are accepted, guarded, bounded and ended here, and Hypercorn only reads and writes HTTP on each.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import logging
from typing import Any, Final, final

import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, Updated
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState, LifespanState
from hypercorn.utils import wrap_app

from .._core._http_settings import HttpServerSettings
from ._asgi import AsgiApp
from ._guarded import GuardedStream, WireStream

__all__ = ["HypercornConnections"]

_log: Final = logging.getLogger("trio_mcp.http")

MAX_BODY_QUEUE: Final = 10
"""Pieces of a body that Hypercorn reads ahead."""


async def _no_other_protocol(event: object) -> None:
    """Stay with HTTP/1.1: a client cannot talk its way into HTTP/2 without TLS."""


@final
class _Connection(TCPServer):
    """One connection. It ends with what its client says, and not `idle_timeout` later."""

    _has_ended = False

    async def _read_data(self) -> None:
        await super()._read_data()
        self._has_ended = True
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        if self._has_ended and isinstance(event, Updated) and event.idle:
            event = Closed()  # nobody is there to ask for more
        await super().protocol_send(event)

    def _protocol_of(self) -> ProtocolWrapper:
        return self._wrapper

    def _take_protocol(self, wrapper: ProtocolWrapper) -> None:
        if isinstance(wrapper.protocol, H11Protocol):
            wrapper.protocol._check_protocol = _no_other_protocol  # type: ignore[method-assign]  # noqa: SLF001
        self._wrapper = wrapper

    protocol = property(_protocol_of, _take_protocol)  # pyright: ignore[reportAssignmentType] - Hypercorn sets it


@final
class HypercornConnections:
    """Serves connections, one by one and apart from each other.

    Args:
        app: The ASGI application.
        settings: How long what may take.
    """

    def __init__(self, app: AsgiApp, settings: HttpServerSettings) -> None:
        config = Config()
        config.alpn_protocols = ["http/1.1"]
        config.keep_alive_timeout = settings.idle_timeout
        config.keep_alive_max_requests = 1_000_000_000
        config.max_app_queue_size = MAX_BODY_QUEUE
        config.h11_max_incomplete_size = settings.max_head_bytes
        config.ssl_handshake_timeout = settings.body_timeout
        config.include_server_header = False
        config.accesslog = None
        config.errorlog = _log
        self._config = config
        self._settings = settings
        framework: Any = app
        self._app = wrap_app(framework, 0, "asgi")
        self._context = WorkerContext(None)
        self._streams: set[WireStream] = set()
        self._changed = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._streams)

    async def wait_place(self) -> None:
        """Wait until there may be one more connection."""
        while len(self._streams) >= self._settings.max_connections:
            await self._changed.park()

    def enter(self, stream: WireStream) -> None:
        """Count a connection that is about to be served."""
        self._streams.add(stream)

    async def serve(self, stream: WireStream) -> None:
        """Serve one connection until it ends. Whatever happens on it costs nobody else theirs."""
        guarded: Any = GuardedStream(stream, self._settings.send_timeout)
        try:
            await _Connection(self._app, self._config, self._context, ConnectionState(LifespanState({})), guarded)
        except Exception:
            # The boundary of one connection.
            _log.exception("a connection failed")
        finally:
            self._streams.discard(stream)
            self._changed.unpark_all()
            await trio.aclose_forcefully(stream)

    async def finish(self) -> None:
        """Close what is idle, and let the rest finish what was begun."""
        await self._context.terminated.set()
        while self._streams:
            await self._changed.park()

    async def abort(self) -> None:
        """Cut every connection: a write that nobody reads ignores being cancelled."""
        for stream in tuple(self._streams):
            await trio.aclose_forcefully(stream)
        await trio.lowlevel.checkpoint()
