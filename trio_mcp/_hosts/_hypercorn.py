"""Hypercorn under our own accept loop. The only module that knows Hypercorn; it is imported when a server starts.

Hypercorn's own `serve` lets one odd client end the whole server, and one that does not read hold up its end. So
connections are accepted, guarded, bounded and ended here, and Hypercorn only reads and writes HTTP on each.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import logging
from collections.abc import Callable
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
from ._guarded import GuardedStream, WireStream, address_of, cut
from ._places import Places

__all__ = ["HypercornConnections"]

_log: Final = logging.getLogger("trio_mcp.http")

MAX_BODY_QUEUE: Final = 10
"""Pieces of a body that Hypercorn reads ahead."""


async def _no_other_protocol(event: object) -> None:
    """Stay with HTTP/1.1: a client cannot talk its way into HTTP/2 without TLS."""


@final
class _Connection(TCPServer):
    """One connection.

    Hypercorn's own ends only when its client has gone and `idle_timeout` has passed as well, and never when the
    client has sent more than was read before it was closed.
    """

    stream: Any
    on_idle: Callable[[bool], None]

    def __init__(self, *args: Any, on_idle: Callable[[bool], None]) -> None:
        super().__init__(*args)
        self.on_idle = on_idle
        self._reading = trio.CancelScope()
        self._has_ended = False

    async def protocol_send(self, event: Event) -> None:
        if isinstance(event, Updated):
            if self._has_ended:
                return  # nobody waits for another request
            self.on_idle(event.idle)
        await super().protocol_send(event)
        if isinstance(event, Closed) or self.stream.is_broken:
            self._reading.cancel(reason="the connection is closed")

    async def _read_data(self) -> None:
        with self._reading:
            await super()._read_data()
        self._has_ended = True
        await self.idle_task.stop()

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
        self._places = Places[WireStream](settings.max_connections, settings.max_connections_per_address, cut)
        self._proxies = settings.proxy_rules()

    async def wait_place(self) -> None:
        """Wait until there may be one more connection."""
        await self._places.wait_place()

    def enter(self, stream: WireStream) -> bool:
        """Count a connection that is about to be served, or say that it must not be."""
        address = address_of(stream)
        return self._places.enter(stream, None if self._proxies.trusts(address) else address)

    async def serve(self, stream: WireStream) -> None:
        """Serve one connection until it ends. Whatever happens on it costs nobody else theirs."""
        places = self._places
        guarded: Any = GuardedStream(stream, self._settings.send_timeout)
        connection = _Connection(
            self._app,
            self._config,
            self._context,
            ConnectionState(LifespanState({})),
            guarded,
            on_idle=lambda idle: places.rest(stream) if idle else places.work(stream),
        )
        try:
            await connection.run()
        except trio.ClosedResourceError:
            pass  # it was cut
        except Exception:
            # The boundary of one connection.
            _log.exception("a connection failed")
        finally:
            places.leave(stream)
            await trio.aclose_forcefully(stream)

    async def finish(self) -> None:
        """Close what is idle, and let the rest finish what was begun."""
        await self._context.terminated.set()
        await self._places.wait_empty()

    def abort(self) -> None:
        """Cut every connection: a write that nobody reads ignores being cancelled."""
        self._places.cut_all()
