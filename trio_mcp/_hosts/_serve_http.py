"""Serving HTTP: what listens, what accepts, and in which order all of it ends.

    listeners ──> the accept loops ──> one task for each connection ──> the endpoint

To end: no connection is accepted any more; the endpoint drains, so that requests are answered; connections that
rest are closed, and the others finish; the remaining ones are cut. Each step is bounded.
"""

from __future__ import annotations

import errno
import math
import os
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, final
from urllib.parse import quote

import trio

from .._core._http_rules import HttpHost, HttpServerSettings
from .._endpoint._call import Authenticate
from .._endpoint._endpoint import Endpoint, open_endpoint
from .._endpoint._event_store import EventStore
from .._limits import check_whole
from .._logs import Log
from .._server._lifetimes import Shutdown
from .._server._parking import EndedBeforeStart
from .._server._serve import run_until_signal
from .._server._server import Server
from .._trio import open_hidden_nursery, take_over
from ._connections import PATIENCE_SECONDS, Connections, OpenConnection
from ._socket_io import ConnectionIO, SocketIO, TlsIO

if sys.platform != "win32":
    from ._unix_sockets import listen_at


BACKLOG: Final = 1_024
"""How many connections may wait in the system's queue to be accepted."""

PORT_ATTEMPTS: Final = 8
"""How often a port is tried that is to be free on all addresses of a name."""


Accepted: TypeAlias = tuple[socket.socket, "str | None"]
"""A connection that does not block, and its client's address; `None` where there are no addresses."""


async def accept_waiting(listener: trio.SocketListener, most: int) -> list[Accepted]:
    """Wait for a connection, and return all that wait to be accepted, without those whose clients have gone.

    Trio's own accept takes a turn of the event loop for each. A client that opens and closes thousands would fill
    the system's queue, with all other clients behind it.

    Args:
        listener: Where they are accepted.
        most: How many are accepted at most.

    Raises:
        OSError: The first one could not be accepted. If another could not, the next call raises.
    """
    first = take_over(await listener.accept())
    found = [(first, _address_of(first))]
    listening = listener.socket
    # Trio keeps the descriptor, which is non-blocking.
    queue = socket.socket(listening.family, listening.type, listening.proto, fileno=listening.fileno())
    try:
        while len(found) < most:
            connection, address = queue.accept()
            connection.setblocking(False)
            found.append((connection, _host_of(address)))
    except OSError:
        pass
    finally:
        queue.detach()
    return [accepted for accepted in found if _is_there(accepted[0])]


def _address_of(connection: socket.socket) -> str | None:
    """Return the client's address, if it has one and is still connected."""
    try:
        return _host_of(connection.getpeername())
    except OSError:
        return None


def _host_of(address: str | bytes | tuple[str, int]) -> str | None:
    return address[0] if isinstance(address, tuple) else None  # a Unix socket has at most a path


def _is_there(connection: socket.socket) -> bool:
    """Whether the client may still send a request. If not, close the connection."""
    try:
        if connection.recv(1, socket.MSG_PEEK):
            return True
    except BlockingIOError:
        return True
    except OSError:
        pass
    connection.close()
    return False


@final
class Listeners:
    """The sockets that a server listens on.

    Attributes:
        each: One for each address.
    """

    def __init__(
        self, each: Sequence[trio.SocketListener], remove_file: Callable[[], None] | None = None
    ) -> None:
        self.each: Final = tuple(each)
        self._remove_file = remove_file

    def close(self) -> None:
        """Close them; again does nothing.

        The file of a Unix socket is removed first: while the socket is open, no other file has its identity.
        """
        remove_file, self._remove_file = self._remove_file, None
        if remove_file is not None:
            remove_file()
        _close(self.each)


@asynccontextmanager
async def open_listeners(
    host: str | None, port: int, unix_path: str | os.PathLike[str] | None, unix_mode: int
) -> AsyncGenerator[Listeners]:
    """Listen while the body runs; leave no socket and no file.

    Args:
        host: A name or an address; `None` for every address of this machine.
        port: The port; 0 for one that is free. All addresses of a name get the same.
        unix_path: Where a Unix socket is to be, instead of host and port. One that a killed process has left
            there is replaced, and one at which a server listens is not.
        unix_mode: Who may connect to it, as for `chmod`.

    Raises:
        OSError: One cannot be listened on.
    """
    if unix_path is None:
        listeners = Listeners(await _tcp_listeners(host, port))
    else:
        listeners = await _unix_listeners(Path(unix_path), unix_mode)
    try:
        yield listeners
    finally:
        listeners.close()


async def _tcp_listeners(host: str | None, port: int) -> list[trio.SocketListener]:
    listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    for _ in range(PORT_ATTEMPTS):
        ports = {listener.socket.getsockname()[1] for listener in listeners}
        if len(ports) == 1:
            break
        # Each address of the name was given a port of its own. One of these will be free on all of them.
        _close(listeners)
        try:
            listeners = await trio.open_tcp_listeners(ports.pop(), host=host, backlog=BACKLOG)
        except OSError:
            listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    return listeners


def _close(listeners: Sequence[trio.SocketListener]) -> None:
    for listener in listeners:
        listener.socket.close()


async def _unix_listeners(path: Path, mode: int) -> Listeners:
    if sys.platform == "win32":
        raise ValueError("unix_path needs Unix sockets, which Python has not on Windows")
    else:  # noqa: RET506 - type checkers look at one branch for each platform
        listener, socket_file = await listen_at(path, mode, BACKLOG)
        return Listeners([listener], socket_file.remove)


_log: Final = Log("trio_mcp.http")

_BROKEN: Final = frozenset({errno.EBADF, errno.EFAULT, errno.EINVAL, errno.ENOTSOCK})
"""The errors of accepting that concern the listening socket: it is invalid, or does not listen any more.

All others concern the one connection that was to be accepted, or the room for it. Linux also passes on network
errors of that connection (ENETDOWN, EPROTO, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP,
ENETUNREACH: accept(2), "Error handling"), and the refusal of a firewall (EPERM).
"""

_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
MOST_IN_A_TURN: Final = 64
"""Connections that are accepted in one turn of the event loop. With one per turn, a client that fills the
system's queue would delay all others there, where its connections cannot give way."""

PAUSE_SECONDS: Final = 0.1
"""How long accepting pauses, in seconds, when there is no room for another connection, or it always fails."""

FAILURES_PER_PAUSE: Final = 100
"""So many failures in a row may be clients that went before they were accepted; more have another cause."""

WARNING_SECONDS: Final = 60.0
"""How long accepting may fail without another line in the log, in seconds."""

MAX_PORT: Final = 65_535
MAX_MODE: Final = 0o777


def _check_range(name: str, value: int, most: int, show: Callable[[int], str]) -> None:
    if check_whole(name, value, at_least=0) > most:
        raise ValueError(f"{name} must be {show(0)} to {show(most)}, not {show(value)}")


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
    """Serve HTTP until `shutdown`: ``urls = await nursery.start(serve_http, server)``.

    One endpoint serves clients of all revisions. It serves HTTP/1.1; for HTTP/2 put a reverse proxy in front.
    What fails on one connection ends no other. At `shutdown` no more connections are accepted, requests are
    answered within `Limits.drain_timeout`, and the remaining ones are cancelled. Cancelled, all handlers are
    cancelled and their cleanup runs. Either way no task, socket or file is left. A lifespan that `shutdown`
    interrupts while it is being entered is cancelled, and this returns without having served.

    Args:
        server: The server.
        host: The name or address to listen on; `None` for all. Only this machine can reach the default.
        port: The port; 0 for one that is free.
        http: What reads and writes HTTP: ``"hypercorn"``; or ``"lean"``, which implements only what this library
            needs, and is two to three times as fast. Both have the same rules of what is valid HTTP, and end a
            connection that breaks them. The lean one parses with httptools where that is installed
            (``trio-mcp[lean]``), else with h11.
        settings: What is served, to whom, and what it may cost.
        ssl_context: The certificate for TLS, and whether clients need one; `None` for no TLS.
        unix_path: A Unix socket to listen on instead. One that a killed process has left there is replaced; if a
            server listens at it, this fails. The file is removed when no more connections are accepted, if it is
            still the same.
        unix_mode: Who may connect to that, as for `chmod`.
        authenticate: Authenticates each request: returns its principal, or raises `HttpRefused`. If it returns
            `None`, the request is refused (401), unless `HttpServerSettings.allow_anonymous` is set. It may take
            `HttpServerSettings.authenticate_timeout`. `None` for no authentication: all clients are anonymous.
        event_store: Keeps events for clients of the legacy era that lost a connection; in memory by default.
        shutdown: When to end.
        task_status: Gets the URLs of the endpoint once clients can connect.

    Raises:
        OSError: The address cannot be listened on, or not any more. An error of one connection, in accepting it
            included, ends that connection alone.
        ssl.SSLError: `ssl_context` is for clients.
        TypeError: `port` or `unix_mode` is no whole number.
        ValueError: There is no such `http`, `port` or `unix_mode`.
    """
    _check_range("port", port, MAX_PORT, str)
    _check_range("unix_mode", unix_mode, MAX_MODE, oct)
    settings = HttpServerSettings() if settings is None else settings
    shutdown = Shutdown() if shutdown is None else shutdown
    if ssl_context is not None:
        ssl_context.set_alpn_protocols(["http/1.1"])
        ssl_context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)  # refuses what is for clients
    try:
        async with (
            open_endpoint(
                server, settings, authenticate=authenticate, event_store=event_store, shutdown=shutdown
            ) as endpoint,
            open_listeners(host, port, unix_path, unix_mode) as listeners,
        ):
            urls = tuple(_url_of(listener, ssl_context, settings.path) for listener in listeners.each)
            async with open_hidden_nursery() as nursery:
                connections = Connections(_host(http, endpoint, settings), settings, nursery)
                nursery.start_soon(connections.attend)
                try:
                    async with open_hidden_nursery() as accepting:
                        for listener in listeners.each:
                            accepting.start_soon(_accept, listener, connections, settings, ssl_context, nursery)
                        _log.info("serving at %s", ", ".join(urls))
                        shutdown.serving()
                        task_status.started(urls)
                        await shutdown.wait_drain()
                        accepting.cancel_scope.cancel(reason="no more connections are accepted")
                    listeners.close()
                    await _unless(shutdown.wait_abort, endpoint.drain)
                    with trio.move_on_after(server.limits.goodbye_timeout):
                        await _unless(shutdown.wait_abort, connections.finish)
                finally:
                    connections.abort()
                    nursery.cancel_scope.cancel(reason="serving ended")
    except EndedBeforeStart:
        _log.info("serving was ended before it began")


async def _unless(ending: Callable[[], Awaitable[None]], work: Callable[[], Awaitable[None]]) -> None:
    """Do some work, unless `ending` returns first; the work is then cancelled."""
    async with open_hidden_nursery() as nursery:

        async def end() -> None:
            await ending()
            nursery.cancel_scope.cancel()

        nursery.start_soon(end)
        await work()
        nursery.cancel_scope.cancel()


@final
class _Failures:
    """The failures of accepting. One ends one connection; many are followed by a pause.

    Args:
        connections: All connections, which give way when the machine has no room for more.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._in_a_row = 0
        self._began_at = 0.0
        self._warned_at = -math.inf

    def end(self) -> None:
        """Note that a connection was accepted."""
        self._in_a_row = 0

    async def add(self, error: OSError) -> None:
        """Note that accepting has failed; make room or pause if that is the remedy."""
        now = trio.current_time()
        if not self._in_a_row:
            self._began_at = now
        self._in_a_row += 1
        has_room = error.errno not in _NO_ROOM
        if now >= self._warned_at + WARNING_SECONDS:
            self._warned_at = now
            if has_room:
                _log.warning("a connection could not be accepted: %s", error)
            else:
                _log.error("this machine has no room for another connection (%s); others give way", error)
        if has_room:
            must_pause = self._in_a_row % FAILURES_PER_PAUSE == 0
        else:
            made = self._connections.make_room(is_patient=now < self._began_at + PATIENCE_SECONDS)
            must_pause = not made or self._in_a_row > 1  # the room made did not help, or was taken by others
        if must_pause:
            await trio.sleep(PAUSE_SECONDS)
        else:
            await trio.lowlevel.checkpoint()


async def _accept(
    listener: trio.SocketListener,
    connections: Connections,
    settings: HttpServerSettings,
    ssl_context: ssl.SSLContext | None,
    nursery: trio.Nursery,
) -> None:
    failures = _Failures(connections)
    while True:
        await connections.wait_door()
        try:
            found = await accept_waiting(listener, MOST_IN_A_TURN)
        except OSError as error:
            if error.errno in _BROKEN:
                raise
            await failures.add(error)
            continue
        failures.end()
        for connection, client in found:
            io = _wire_over(connection, client, settings, ssl_context)
            if connections.enter(io):
                nursery.start_soon(connections.serve, io, name="an HTTP connection")
            else:
                io.cut()


def _wire_over(
    connection: socket.socket,
    client: str | None,
    settings: HttpServerSettings,
    ssl_context: ssl.SSLContext | None,
) -> ConnectionIO:
    if ssl_context is None:
        return SocketIO(connection, client, settings.send_timeout)
    transport = trio.SocketStream(trio.socket.from_stdlib_socket(connection))
    stream = trio.SSLStream(transport, ssl_context, server_side=True, https_compatible=True)
    return TlsIO(stream, client, settings.send_timeout, handshake_timeout=settings.body_timeout)


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
    """Run a program that serves HTTP until a signal ends it; see `Server.run`."""

    async def serve(*, shutdown: Shutdown) -> None:
        await serve_http(server, host, port, http=http, settings=settings, shutdown=shutdown)

    run_until_signal(serve)
