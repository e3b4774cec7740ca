"""Unix sockets to listen on, where the system has them.

The file of a socket outlives it, and does not show who made it. So a server that ends must not remove the file of
the server that has replaced it, and one that starts must not remove the file of one that listens.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, final

import trio

assert sys.platform != "win32"


LOCK_ATTEMPTS: Final = 100
LOCK_SECONDS: Final = 0.01
"""How often, and after how many seconds, the lock of a folder is tried in which another server makes its socket.
That takes a moment; what holds the lock for longer is no server, and is not waited for."""


@final
class SocketFile:
    """The file of a socket that was just bound.

    Args:
        path: Where it is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()  # the program may change its directory meanwhile
        self._identity = _identity(path.lstat())

    def remove(self) -> None:
        """Remove it, unless another file has its path by now. The socket must not be closed yet."""
        with suppress(OSError):
            if _identity(self._path.lstat()) == self._identity:
                self._path.unlink()


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


async def listen_at(path: Path, mode: int, backlog: int) -> tuple[trio.SocketListener, SocketFile]:
    """Listen on a Unix socket.

    Args:
        path: Where it is to be. A socket that a killed process has left there is removed.
        mode: Who may connect to it, as for `chmod`.
        backlog: How many connections may wait to be accepted.

    Returns:
        The socket, and its file, to be removed before the socket is closed.

    Raises:
        OSError: It cannot be listened on; or another file is there, or another server listens (``EADDRINUSE``).
    """
    async with _alone_in(path.parent):
        return _bind(path, mode, backlog)


def _bind(path: Path, mode: int, backlog: int) -> tuple[trio.SocketListener, SocketFile]:
    """Listen at a path. Does not wait: others would find a socket at which no server listens yet."""
    _make_way(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        socket_file = SocketFile(path)
        try:
            path.chmod(mode)
            sock.listen(backlog)
            return trio.SocketListener(trio.socket.from_stdlib_socket(sock)), socket_file
        except BaseException:
            socket_file.remove()
            raise
    except BaseException:
        sock.close()
        raise


def _make_way(path: Path) -> None:
    """Remove a socket at which no server listens any more.

    Raises:
        OSError: Another file is there, or a server listens (``EADDRINUSE``).
    """
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise OSError(errno.EADDRINUSE, "the file there is no socket", str(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        found = probe.connect_ex(str(path))
    if found == errno.ECONNREFUSED:
        path.unlink(missing_ok=True)
    elif found in (0, errno.EAGAIN, errno.EINPROGRESS):
        raise OSError(errno.EADDRINUSE, "another server listens there", str(path))
    elif found != errno.ENOENT:
        problem = f"a socket is there, and it cannot be told whether it is in use ({os.strerror(found)})"
        raise OSError(errno.EADDRINUSE, problem, str(path))


@asynccontextmanager
async def _alone_in(folder: Path) -> AsyncGenerator[None]:
    """Lock a folder against other servers that make sockets in it, if the system can do that."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        yield  # it may be writable without being readable; if it does not exist, binding fails
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
