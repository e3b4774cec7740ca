"""Starting a server and coming to an agreement with it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from .dialect import DIALECTS, Dialect
from .http_link import HttpLink, SseLink
from .lines import LineLink
from .link import Link, LoadError, Message
from .server_process import ServerProcess, start_server
from .websocket_link import open_websocket

__all__ = ["Opened", "ask_once", "connect", "open_server"]

PATIENCE: Final = 60.0


class Opened:
    """A server that runs, and a link to it over which requests can go."""

    def __init__(self, server: ServerProcess, link: Link, address: str | None, dialect: Dialect) -> None:
        self.server = server
        self.link = link
        self.address = address
        self.dialect = dialect

    def close(self) -> None:
        """End both."""
        self.link.close()
        self.server.close()


def open_server(job: Mapping[str, Any]) -> Opened:
    """Start the server of a job, connect to it, and agree.

    Raises:
        LoadError: It does not start, or does not agree.
    """
    dialect = DIALECTS[job["era"]]
    server = start_server(job["command"], cwd=job.get("cwd"), cores=job.get("server_cores"))
    try:
        if job["transport"] == "stdio":
            assert server.process.stdin is not None
            assert server.process.stdout is not None
            link: Link = LineLink(server.process.stdout.fileno(), server.process.stdin.fileno(), dialect)
            address = None
        else:
            address = server.read_address()
            link = connect(address, dialect, job["transport"])
        agree(link)
    except LoadError as error:
        words = server.last_words()
        server.close()
        raise LoadError(f"{error}; it said: {words}" if words else str(error)) from error
    except BaseException:
        server.close()
        raise
    return Opened(server, link, address, dialect)


def connect(address: str, dialect: Dialect, transport: str) -> Link:
    """Return a link to an address, without any agreement."""
    parts = urlsplit(address)
    if parts.scheme == "http":
        return SseLink(address, dialect) if transport == "sse" else HttpLink(address, dialect)
    if parts.scheme == "ws":
        return open_websocket(address, dialect)
    if parts.scheme == "tcp":
        stream = socket.create_connection((parts.hostname or "", parts.port or 0))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.connect(parts.path)
    fd = stream.detach()
    return LineLink(fd, fd, dialect)


def agree(link: Link) -> None:
    """Shake hands, where the era wants it.

    Raises:
        LoadError: The server does not.
    """
    if link.dialect.is_modern:
        return
    result = ask_once(link, "initialize", link.dialect.handshake)
    if result["protocolVersion"] != link.dialect.revision:
        raise LoadError(f"the server wants {result['protocolVersion']}, not {link.dialect.revision}")
    if isinstance(link, HttpLink):
        link.learn_session()
    link.reply({"method": "notifications/initialized"})
    if isinstance(link, HttpLink):
        link.settle()


def ask_once(
    link: Link, method: str, params: Mapping[str, Any] | None = None, *, lane: int = 0, **how: Any
) -> Message:
    """Send one request on a lane that is free, and wait for its result.

    Raises:
        LoadError: It is an error, or does not come.
    """
    if lane == 0:
        link.open_lanes(1)
    id = link.ids.take()
    link.send(lane, link.template(method, params, **how).fill(id))
    while messages := link.poll(PATIENCE):
        for _, message in messages:
            if message.get("id") == id and "method" not in message:
                if "result" not in message:
                    raise LoadError(f"{method} was answered by an error: {message}")
                result: Message = message["result"]
                return result
    raise LoadError(f"{method} was not answered within {PATIENCE} s")
