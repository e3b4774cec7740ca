"""Plain sockets without the stream that Trio puts around them: what the system takes at once costs no turn."""

from __future__ import annotations

import socket

import trio

__all__ = ["close", "send_some", "take_over"]


def take_over(stream: trio.SocketStream) -> socket.socket:
    """Return the socket of a stream, which is of no more use then."""
    old = stream.socket
    # What it is must not be asked of the system: some do not say it any more when the other side has gone.
    taken = socket.socket(old.family, old.type, old.proto, fileno=old.detach())
    taken.setblocking(False)
    return taken


def send_some(connection: socket.socket, data: bytes | memoryview) -> int:
    """Send as much as the system takes now. Never waits.

    Returns:
        How many bytes that were.

    Raises:
        trio.BrokenResourceError: The other side is gone.
    """
    try:
        return connection.send(data)
    except BlockingIOError:
        return 0
    except OSError as error:
        raise trio.BrokenResourceError("the other side is gone") from error


def close(connection: socket.socket) -> None:
    """Close it at once; again does nothing. Whoever waits for it finds it closed."""
    if connection.fileno() >= 0:
        trio.lowlevel.notify_closing(connection)
        connection.close()
