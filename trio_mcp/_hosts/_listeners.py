"""The sockets that a server listens on: addresses and ports, or a Unix socket."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias, final

import trio

from .._sockets import take_over

if sys.platform != "win32":
    from ._unix_sockets import listen_at

__all__ = ["Accepted", "Listeners", "accept_waiting", "open_listeners"]

BACKLOG: Final = 1_024
"""Connections that wait to be accepted."""

PORT_ATTEMPTS: Final = 8
"""How often a port is looked for that is free on all addresses of a name."""


Accepted: TypeAlias = tuple[socket.socket, "str | None"]
"""A connection that does not block, and its client's address; `None` where there are no addresses."""


async def accept_waiting(listener: trio.SocketListener, most: int) -> list[Accepted]:
    """Wait for a connection, and return all that wait to be accepted, but for those whose clients have gone.

    Trio's own way takes a turn of the event loop for each. Whoever opens and closes thousands would crowd the
    system's queue, and everybody else were behind them.

    Args:
        listener: Where they are accepted.
        most: How many may be.

    Raises:
        OSError: The first one could not be accepted. What is wrong with another is known when it is the first.
    """
    first = take_over(await listener.accept())
    found = [(first, _address_of(first))]
    listening = listener.socket
    # The descriptor stays Trio's, which has made it non-blocking.
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
    """Return the other side's address, if it has one, and is still there to say it."""
    try:
        return _host_of(connection.getpeername())
    except OSError:
        return None


def _host_of(address: str | bytes | tuple[str, int]) -> str | None:
    return address[0] if isinstance(address, tuple) else None  # a Unix socket has at most a path


def _is_there(connection: socket.socket) -> bool:
    """Whether the other side may still ask something. If not, close the connection."""
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
    """What a server listens on.

    Attributes:
        each: One for each address.
    """

    def __init__(
        self, each: Sequence[trio.SocketListener], remove_file: Callable[[], None] | None = None
    ) -> None:
        self.each: Final = tuple(each)
        self._remove_file = remove_file

    def close(self) -> None:
        """Listen no more; again does nothing.

        The file of a Unix socket goes first: as long as the socket is there, no other can be mistaken for it.
        """
        remove_file, self._remove_file = self._remove_file, None
        if remove_file is not None:
            remove_file()
        _close(self.each)


@asynccontextmanager
async def open_listeners(
    host: str | None, port: int, unix_path: str | os.PathLike[str] | None, unix_mode: int
) -> AsyncGenerator[Listeners]:
    """Listen while the body runs, and leave nothing behind.

    Args:
        host: A name or an address; `None` for every address of this machine.
        port: The port; 0 for one that is free. All addresses of a name get the same.
        unix_path: Where a Unix socket is to be, instead of host and port. One that a process has left there which
            was killed is taken away, and one where somebody listens is not.
        unix_mode: Who may connect to it.

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
