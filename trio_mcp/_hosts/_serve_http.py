"""Serving HTTP: what listens, who accepts, and in which order it all ends.

    listeners ──> the accept loops ──> one task for each connection ──> the endpoint

To end: nobody is accepted any more; the endpoint drains, so that what came is answered; idle connections are
closed and the others finish; what is left is cut. Each step is bounded.
"""

from __future__ import annotations

import errno
import logging
import os
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import quote

import trio

from .._core._http_settings import HttpHost, HttpServerSettings
from .._endpoint._call import Authenticate
from .._endpoint._endpoint import Endpoint, open_endpoint
from .._endpoint._event_store import EventStore
from .._groups import open_hidden_nursery
from .._server._serve import run_until_signal
from .._server._server import Server
from .._server._service import EndedBeforeStart
from .._server._shutdown import Shutdown
from ._connections import Connections, OpenConnection
from ._listeners import open_listeners
from ._wires import SocketWire, TlsWire, Wire

__all__ = ["serve_http"]

_log: Final = logging.getLogger("trio_mcp.http")

_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_GONE: Final = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EPERM})
NO_ROOM_SECONDS: Final = 0.1
"""How long accepting pauses when the machine has no room for another connection."""


def _host(http: HttpHost, endpoint: Endpoint, settings: HttpServerSettings) -> OpenConnection:
    if http == "hypercorn":
        from ._hypercorn import hypercorn_connections

        return hypercorn_connections(endpoint, settings)
    if http == "lean":
        from ._lean import lean_connections

        return lean_connections(endpoint, settings)
    raise ValueError(f"http must be 'hypercorn' or 'lean', not {http!r}")


async def serve_http(
    server: Server[Any],
    host: str | None = "127.0.0.1",
    port: int = 8000,
    *,
    http: HttpHost = "hypercorn",
    settings: HttpServerSettings | None = None,
    ssl_context: ssl.SSLContext | None = None,
    unix_path: str | os.PathLike[str] | None = None,
    unix_mode: int = 0o600,
    authenticate: Authenticate | None = None,
    event_store: EventStore | None = None,
    shutdown: Shutdown | None = None,
    task_status: trio.TaskStatus[tuple[str, ...]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTP until told to end: ``urls = await nursery.start(serve_http, server)``.

    One endpoint serves clients of every revision. It speaks HTTP/1.1; for HTTP/2 put a reverse proxy in front.
    What one connection does costs no other anything. When `shutdown` says so, nobody new is accepted, what came
    is answered within `Limits.drain_timeout`, and what is left then is cancelled. Cancelled, every handler is
    cancelled and its cleanup runs. Either way nothing is left. A lifespan that `shutdown` interrupts while it is
    being entered is cancelled, and this returns without having served.

    Args:
        server: The server.
        host: The name or address to listen on; `None` for all. Only this machine can reach the default.
        port: The port; 0 for one that is free.
        http: What reads and writes HTTP: ``"hypercorn"``; or ``"lean"``, which does nothing that this library has
            no use for, and is two to three times as fast. Both keep the same rules of what is proper HTTP, and
            end a connection over which something else comes. The lean one parses with httptools where that is
            installed (``trio-mcp[lean]``), else with h11.
        settings: What is served, to whom, and what it may cost.
        ssl_context: How TLS is spoken: with which certificate, and whether clients need one; `None` for no TLS.
        unix_path: A Unix socket to listen on instead.
        unix_mode: Who may connect to that.
        authenticate: Finds out who sends a request.
        event_store: Keeps events for clients of the legacy era that lost a connection; in memory by default.
        shutdown: Says when to end.
        task_status: Told the URLs of the endpoint once clients can connect.

    Raises:
        OSError: The address cannot be listened on.
        ValueError: There is no such `http`.
    """
    settings = HttpServerSettings() if settings is None else settings
    shutdown = Shutdown() if shutdown is None else shutdown
    if ssl_context is not None:
        ssl_context.set_alpn_protocols(["http/1.1"])
    try:
        async with (
            open_endpoint(
                server, settings, authenticate=authenticate, event_store=event_store, shutdown=shutdown
            ) as endpoint,
            open_listeners(host, port, unix_path, unix_mode) as listeners,
        ):
            connections = Connections(_host(http, endpoint, settings), settings)
            urls = tuple(_url_of(listener, ssl_context, settings.path) for listener in listeners)
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(connections.end_idle)
                try:
                    async with open_hidden_nursery() as accepting:
                        for listener in listeners:
                            accepting.start_soon(_accept, listener, connections, settings, ssl_context, nursery)
                        _log.info("serving at %s", ", ".join(urls))
                        task_status.started(urls)
                        await shutdown.wait_drain()
                        accepting.cancel_scope.cancel(reason="no more connections are accepted")
                    for listener in listeners:
                        listener.socket.close()
                    await _unless(shutdown.wait_abort, endpoint.drain)
                    with trio.move_on_after(server.limits.goodbye_timeout):
                        await _unless(shutdown.wait_abort, connections.finish)
                finally:
                    connections.abort()
                    nursery.cancel_scope.cancel(reason="serving ended")
    except EndedBeforeStart:
        _log.info("told to end before serving began")


async def _unless(ending: Callable[[], Awaitable[None]], work: Callable[[], Awaitable[None]]) -> None:
    """Do something, unless something else comes first."""
    async with open_hidden_nursery() as nursery:

        async def end() -> None:
            await ending()
            nursery.cancel_scope.cancel()

        nursery.start_soon(end)
        await work()
        nursery.cancel_scope.cancel()


async def _accept(
    listener: trio.SocketListener,
    connections: Connections,
    settings: HttpServerSettings,
    ssl_context: ssl.SSLContext | None,
    nursery: trio.Nursery,
) -> None:
    while True:
        await connections.wait_place()
        has_room = True
        try:
            accepted = await listener.accept()
        except OSError as error:
            has_room = error.errno not in _NO_ROOM
            if has_room and error.errno not in _GONE:
                raise
        else:
            wire: Wire
            if ssl_context is None:
                wire = SocketWire(accepted, settings.send_timeout)
            else:
                stream = trio.SSLStream(accepted, ssl_context, server_side=True, https_compatible=True)
                wire = TlsWire(stream, settings.send_timeout, handshake_timeout=settings.body_timeout)
            if connections.enter(wire):
                nursery.start_soon(connections.serve, wire, name="an HTTP connection")
            else:
                wire.cut()
        if not has_room:
            _log.error("this machine has no room for another connection; accepting pauses")
            await trio.sleep(NO_ROOM_SECONDS)


def _url_of(listener: trio.SocketListener, ssl_context: ssl.SSLContext | None, path: str) -> str:
    scheme = "http" if ssl_context is None else "https"
    address = listener.socket.getsockname()
    if isinstance(address, str):
        return f"{scheme}+unix://{quote(address, safe='')}{path}"
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"{scheme}://{host}:{address[1]}{path}"


def run_http(
    server: Server[Any], *, host: str, port: int, http: HttpHost, settings: HttpServerSettings | None
) -> None:
    """Run a program that serves HTTP and obeys signals; see `Server.run`."""

    async def serve(*, shutdown: Shutdown) -> None:
        await serve_http(server, host, port, http=http, settings=settings, shutdown=shutdown)

    run_until_signal(serve)
