"""The sockets that a server listens on: addresses and ports, or a Unix socket."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trio

__all__ = ["open_listeners"]

BACKLOG: Final = 1_024
"""Connections that wait to be accepted."""

PORT_ATTEMPTS: Final = 8
"""How often a port is looked for that is free on all addresses of a name."""


@asynccontextmanager
async def open_listeners(
    host: str | None, port: int, unix_path: str | os.PathLike[str] | None, unix_mode: int
) -> AsyncGenerator[list[trio.SocketListener]]:
    """Listen while the body runs, and leave nothing behind.

    Args:
        host: A name or an address; `None` for every address of this machine.
        port: The port; 0 for one that is free. All addresses of a name get the same.
        unix_path: Where a Unix socket is to be, instead of host and port.
        unix_mode: Who may connect to it.

    Raises:
        OSError: One cannot be listened on.
    """
    if unix_path is None:
        listeners = await _tcp_listeners(host, port)
    else:
        listeners = [await _unix_listener(Path(unix_path), unix_mode)]
    try:
        yield listeners
    finally:
        _close(listeners)
        if unix_path is not None:
            _unlink_socket(Path(unix_path))


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


async def _unix_listener(path: Path, mode: int) -> trio.SocketListener:
    if sys.platform == "win32":
        raise ValueError("unix_path needs Unix sockets, which Python has not on Windows")
    else:  # noqa: RET506 - type checkers look at one branch for each platform
        _unlink_socket(path)  # what a process has left that was killed
        sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            await sock.bind(str(path))
            path.chmod(mode)  # noqa: ASYNC240 - as quick as any other system call
            sock.listen(BACKLOG)
            return trio.SocketListener(sock)
        except BaseException:
            sock.close()
            raise


def _unlink_socket(path: Path) -> None:
    """Take away a socket, and nothing else that may be called so."""
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
