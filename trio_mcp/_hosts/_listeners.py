"""The sockets that a server listens on: addresses and ports, or a Unix socket."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, final

import trio

if sys.platform != "win32":
    import fcntl

__all__ = ["Listeners", "open_listeners"]

BACKLOG: Final = 1_024
"""Connections that wait to be accepted."""

PORT_ATTEMPTS: Final = 8
"""How often a port is looked for that is free on all addresses of a name."""

LOCK_ATTEMPTS: Final = 100
LOCK_SECONDS: Final = 0.01
"""How often, and after how long, a folder is asked for in which another server makes its socket just now. That
takes a moment; whoever holds it for longer is no server, and is not waited for."""


@final
class Listeners:
    """What a server listens on.

    Attributes:
        each: One for each address.
    """

    def __init__(self, each: Sequence[trio.SocketListener], socket_file: _SocketFile | None = None) -> None:
        self.each: Final = tuple(each)
        self._socket_file = socket_file

    def close(self) -> None:
        """Listen no more; again does nothing.

        The file of a Unix socket goes first: as long as the socket is there, no other can be mistaken for it.
        """
        socket_file, self._socket_file = self._socket_file, None
        if socket_file is not None:
            socket_file.remove()
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


# Unix sockets. Their file outlives them, and says nothing of who made it: a server that ends must not take away
# the file of the one that has taken its place, nor one that starts that of one which is there.


@final
class _SocketFile:
    """The file of a socket that was just bound.

    Args:
        path: Where it is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = _identity(path.lstat())

    def remove(self) -> None:
        """Take it away, unless something else is there by now. The socket must not be closed yet."""
        with suppress(OSError):
            if _identity(self._path.lstat()) == self._identity:
                self._path.unlink()


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


async def _unix_listeners(path: Path, mode: int) -> Listeners:
    if sys.platform == "win32":
        raise ValueError("unix_path needs Unix sockets, which Python has not on Windows")
    else:  # noqa: RET506 - type checkers look at one branch for each platform
        async with _alone_in(path.parent):
            return _bind(path, mode)


def _bind(path: Path, mode: int) -> Listeners:
    """Listen at a path. Does not wait: in between, others would find a socket at which nobody listens yet."""
    _make_way(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        socket_file = _SocketFile(path)
        try:
            path.chmod(mode)
            sock.listen(BACKLOG)
            return Listeners([trio.SocketListener(trio.socket.from_stdlib_socket(sock))], socket_file)
        except BaseException:
            socket_file.remove()
            raise
    except BaseException:
        sock.close()
        raise


def _make_way(path: Path) -> None:
    """Take away a socket at which nobody listens any more.

    Raises:
        OSError: Something else is there (``EADDRINUSE``).
    """
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise OSError(errno.EADDRINUSE, "what is there is no socket", str(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        found = probe.connect_ex(str(path))
    if found == errno.ECONNREFUSED:
        path.unlink(missing_ok=True)
    elif found in (0, errno.EAGAIN, errno.EINPROGRESS):
        raise OSError(errno.EADDRINUSE, "another server listens there", str(path))
    elif found != errno.ENOENT:
        problem = f"a socket is there, and nobody can tell whether it is in use ({os.strerror(found)})"
        raise OSError(errno.EADDRINUSE, problem, str(path))


@asynccontextmanager
async def _alone_in(folder: Path) -> AsyncGenerator[None]:
    """Keep other servers from making their sockets in a folder at the same time, if the system can do that."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        yield  # it may be written to without being read; whether it is there at all, binding says
        return
    try:
        for _ in range(LOCK_ATTEMPTS):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await trio.sleep(LOCK_SECONDS)
            except OSError:
                break  # this file system has no locks
            else:
                break
        yield
    finally:
        os.close(descriptor)
