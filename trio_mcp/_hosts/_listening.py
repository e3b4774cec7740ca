"""Listening and accepting, for all hosts: sockets and their files, what may fail, and in which order it all ends.

What is served on a connection is the caller's; which one gives way, `_connections` decides.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar, final

import attrs
import trio

from .._audit import audit
from .._core._http_rules import ProxyRules
from .._http._target import bracketed
from .._limits import check_whole
from .._logs import Log
from .._server._lifetimes import EndedBeforeStart, Shutdown
from .._server._serve import CannotListen
from .._trio import open_hidden_nursery, take_over
from ._connections import ConnectionLimits, Connections, OpenConnection
from ._requests import HostedSocket

if sys.platform != "win32":
    import resource

    from ._unix_sockets import listen_at

_IO = TypeVar("_IO", bound=HostedSocket)

BACKLOG: Final = 1_024
"""How many connections may wait in the system's queue to be accepted."""

MOST_IN_A_TURN: Final = 64
"""Connections that are accepted in one turn of the event loop. With one per turn, a client that fills the queue
of the system would delay all others there."""

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
        most_in_a_turn: How many connections are accepted in one turn of the event loop.
    """

    def __init__(
        self,
        each: Sequence[trio.SocketListener],
        remove_file: Callable[[], None] | None = None,
        *,
        most_in_a_turn: int = MOST_IN_A_TURN,
    ) -> None:
        self.each: Final = tuple(each)
        self.most_in_a_turn: Final = most_in_a_turn
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
    try:
        if unix_path is None:
            listeners = Listeners(await _tcp_listeners(host, port))
        else:
            listeners = await _unix_listeners(Path(unix_path), unix_mode)
    except OSError as error:
        where = f"{bracketed(host or '*')}:{port}" if unix_path is None else os.fspath(unix_path)
        raise CannotListen(error, where, _remedy(error)) from error
    try:
        yield listeners
    finally:
        listeners.close()


def _remedy(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "; stop what listens there, or choose another port or path"
    if error.errno == errno.EACCES:
        return "; choose another, such as a port from 1024 on"
    return ""


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
        raise ValueError("a Unix socket is wanted, and Python has none on Windows")
    else:
        listener, socket_file = await listen_at(path, mode, BACKLOG)
        return Listeners([listener], socket_file.remove)


_log: Final = Log("trio_mcp.hosts")

_BROKEN: Final = frozenset({errno.EBADF, errno.EFAULT, errno.EINVAL, errno.ENOTSOCK})
"""The errors of accepting that concern the listening socket: it is invalid, or does not listen any more.

All others concern the one connection that was to be accepted, or the room for it. Linux also passes on network
errors of that connection (ENETDOWN, EPROTO, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP,
ENETUNREACH: accept(2), "Error handling"), and the refusal of a firewall (EPERM).
"""

_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
PAUSE_SECONDS: Final = 0.1
"""How long accepting pauses, in seconds, when there is no room for another connection, or it always fails."""

FAILURES_PER_PAUSE: Final = 100
"""So many failures in a row may be clients that went before they were accepted; more have another cause."""

WARNING_SECONDS: Final = 60.0
"""How long accepting may fail without another line in the log, in seconds."""


MAX_MODE: Final = 0o777


def check_mode(name: str, mode: int) -> None:
    """Check who may connect to a Unix socket.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is no mode.
    """
    if check_whole(name, mode, at_least=0) > MAX_MODE:
        raise ValueError(f"{name} must be {oct(0)} to {oct(MAX_MODE)}, not {oct(mode)}")


@final
class _Failures:
    """The failures of accepting. One ends one connection; many are followed by a pause.

    Args:
        connections: All connections; when the machine has no room for more, one that rests is closed.
    """

    def __init__(self, connections: Connections[Any]) -> None:
        self._connections = connections
        self._in_a_row = 0
        self._warned_at = -math.inf

    def end(self) -> None:
        """Note that a connection was accepted."""
        self._in_a_row = 0

    async def add(self, error: OSError) -> None:
        """Note that accepting has failed; make room or pause if that is the remedy."""
        now = trio.current_time()
        self._in_a_row += 1
        has_room = error.errno not in _NO_ROOM
        if now >= self._warned_at + WARNING_SECONDS:
            self._warned_at = now
            if has_room:
                _log.warning("a connection could not be accepted: %s", error)
            else:
                _log.error("this machine has no room for another connection (%s); idle ones are closed", error)
        if has_room:
            must_pause = self._in_a_row % FAILURES_PER_PAUSE == 0
        else:
            made = self._connections.limits.make_room()
            must_pause = not made or self._in_a_row > 1  # the room made did not help, or was taken by others
        if must_pause:
            await trio.sleep(PAUSE_SECONDS)
        else:
            await trio.lowlevel.checkpoint()


LEAST_RESERVE: Final = 32
RESERVED_PART: Final = 8
"""At least so many descriptors, and one in so many, are left for what handlers open."""
FEW: Final = 4
"""Where descriptors are few, handlers have one in so many, and no more."""


def room_for_connections(wanted: int) -> tuple[int, int]:
    """Return how many connections this process can have, at most `wanted`, and how many it may accept at once.

    Each takes a descriptor, and so does each open file. The process's limit of descriptors is not changed.
    """
    if sys.platform == "win32":
        return wanted, MOST_IN_A_TURN
    else:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit == resource.RLIM_INFINITY:
            return wanted, MOST_IN_A_TURN
        room = limit - _open_descriptors()
        reserve = min(max(LEAST_RESERVE, limit // RESERVED_PART), room // FEW)
        most = max(1, min(wanted, room - reserve))
        # Those that are cut for them keep their descriptors until their tasks have run, and handlers need some.
        return most, max(1, min(MOST_IN_A_TURN, (room - most) // FEW))


def _open_descriptors() -> int:
    try:
        return sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:
        return LEAST_RESERVE  # the system does not list them


@final
@attrs.frozen
class ConnectionBounds:
    """How many connections a host may have, and how long they may rest. Durations are in seconds.

    Attributes:
        max_connections: Connections at once.
        max_connections_per_address: The same, of one address.
        idle_timeout: How long one may rest.
        head_timeout: How long one may rest once a part of something has arrived.
        proxies: Which addresses are those of proxies, so that they do not tell clients apart.
    """

    max_connections: int
    max_connections_per_address: int
    idle_timeout: float
    head_timeout: float
    proxies: ProxyRules


@final
@attrs.frozen
class Hosting(Generic[_IO]):
    """How the connections of a server are served.

    Attributes:
        open_connection: Makes what serves one.
        bounds: How many there may be, and how long they may rest.
        take: Called with each accepted socket, and its client's address if it has one.
        url_of: Returns the URL of a listener.
        finish: Lets what is served end, once no more connections are accepted. Bounded.
        cuts_rest: Whether those that are left then are cut at once, and cannot write what is ready.
        task_name: The name of the task of each connection.
    """

    open_connection: OpenConnection[_IO]
    bounds: ConnectionBounds
    take: Callable[[socket.socket, str | None], _IO]
    url_of: Callable[[trio.SocketListener], str]
    finish: Callable[[Connections[_IO]], Awaitable[object]]
    cuts_rest: bool
    task_name: str


def _connections(hosting: Hosting[_IO], most: int) -> Connections[_IO]:
    """Return that there are none yet, with as many places as this process can have."""
    bounds = hosting.bounds
    if most < bounds.max_connections:
        _log.log(
            logging.INFO if most > bounds.max_connections // 2 else logging.WARNING,
            "this process can have %d connections, not %d (max_connections); raise RLIMIT_NOFILE",
            most,
            bounds.max_connections,
        )
    most_of_one = max(1, bounds.max_connections_per_address * most // bounds.max_connections)
    limits = ConnectionLimits[_IO](most, most_of_one, lambda io: io.cut())
    return Connections(hosting.open_connection, limits, bounds.proxies, hosting.task_name)


async def serve_until_drain(
    running: AbstractAsyncContextManager[Hosting[_IO]],
    listening: AbstractAsyncContextManager[Listeners],
    shutdown: Shutdown,
    log: Log,
    on_serving: Callable[[tuple[str, ...]], object],
) -> None:
    """Serve until `shutdown` is drained: what runs begins first and ends last, and all connections in between.

    Args:
        running: Runs what is served, and says how.
        listening: Listens; see `open_listeners`.
        shutdown: Ends it.
        log: Gets the URLs.
        on_serving: Gets them when clients can connect.
    """
    try:
        async with running as hosting, listening as listeners:
            urls = tuple(map(hosting.url_of, listeners.each))
            async with open_hidden_nursery() as nursery:
                places, at_once = room_for_connections(hosting.bounds.max_connections)
                connections = _connections(hosting, places)
                bounds, limits = hosting.bounds, connections.limits
                nursery.start_soon(limits.attend, bounds.idle_timeout, bounds.head_timeout)
                try:
                    async with open_hidden_nursery() as accepting:
                        for listener in listeners.each:
                            most = min(at_once, listeners.most_in_a_turn)
                            accepting.start_soon(_accept, listener, most, connections, hosting.take, nursery)
                        shutdown.serving()
                        log.info("serving at %s", ", ".join(urls))
                        on_serving(urls)
                        await shutdown.wait_drain()
                        accepting.cancel_scope.cancel(reason="no more connections are accepted")
                    listeners.close()
                    await hosting.finish(connections)
                finally:
                    if hosting.cuts_rest:
                        connections.limits.cut_all()
                    nursery.cancel_scope.cancel(reason="serving ended")
    except EndedBeforeStart:
        log.info("serving was ended before it began")


async def _accept(
    listener: trio.SocketListener,
    most: int,
    connections: Connections[_IO],
    take: Callable[[socket.socket, str | None], _IO],
    nursery: trio.Nursery,
) -> None:
    failures = _Failures(connections)
    while True:
        try:
            found = await accept_waiting(listener, most)
        except OSError as error:
            if error.errno in _BROKEN:
                raise
            await failures.add(error)
            continue
        failures.end()
        _begin(found, connections, take, nursery)
        found.clear()  # this loop waits long, and would keep the last connection alive


def _begin(
    found: Sequence[Accepted],
    connections: Connections[_IO],
    take: Callable[[socket.socket, str | None], _IO],
    nursery: trio.Nursery,
) -> None:
    """Begin to serve connections that were accepted, as far as there may be so many."""
    for connection, client in found:
        io = take(connection, client)
        if connections.enter(io):
            nursery.start_soon(connections.serve, io, name=connections.task_name)
        else:
            limits = "max_connections, max_connections_per_address"
            transport = getattr(io, "transport", "http")  # those of sockets have one
            audit("connection", "too many connections", limit=limits, transport=transport, client=client)
            io.refuse()
