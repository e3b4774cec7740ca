"""Messages over HTTP/1.1: a connection for each lane, kept alive; answers as JSON or as a stream of events."""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from typing import Any, Final, final
from urllib.parse import urljoin, urlsplit

import msgspec

from .dialect import Dialect
from .http_connection import HttpConnection
from .link import Ids, LoadError, Message
from .template import Template

__all__ = ["HttpLink", "SseLink"]

FIRST_SIDE: Final = 1 << 20
"""Lanes from here on carry what `reply` posts, and are nobody else's business."""
STREAM: Final = FIRST_SIDE - 1
"""The lane of the standing stream, where there is one."""
SERVER_ERRORS: Final = 400


class _Connections:
    """Connections, each with a number."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._lanes: dict[int, HttpConnection] = {}
        self._by_fd: dict[int, int] = {}
        self._ready: list[int] = []
        self._idle_sides: list[int] = []
        self._last_side = FIRST_SIDE
        self._poller = select.epoll()

    def have(self, lane: int) -> HttpConnection:
        """Return the connection with this number, which is opened if need be."""
        connection = self._lanes.get(lane)
        if connection is None:
            connection = self._lanes[lane] = HttpConnection(self._address)
            self._by_fd[connection.fileno()] = lane
            self._poller.register(connection.fileno(), select.EPOLLIN)
        return connection

    def drop(self, lane: int) -> None:
        """Close a connection."""
        connection = self._lanes.pop(lane, None)
        if connection is not None:
            self._poller.unregister(connection.fileno())
            del self._by_fd[connection.fileno()]
            connection.socket.close()

    def keep_lanes(self, count: int) -> None:
        """Have the lanes from 0 to `count`, and close those above."""
        for lane in range(count):
            self.have(lane)
        for lane in [lane for lane in self._lanes if count <= lane < STREAM]:
            self.drop(lane)

    def post(self, lane: int, data: bytes) -> None:
        """Send with the next poll."""
        connection = self.have(lane)
        connection.out += data
        connection.is_idle = False
        self._ready.append(lane)

    def post_aside(self, data: bytes) -> None:
        """Send on a connection that nothing else is sent on, at once."""
        lane = self._idle_sides.pop() if self._idle_sides else self._new_side()
        self.post(lane, data)
        self.flush()

    def spare(self, count: int) -> None:
        """Have so many connections that nothing is sent on."""
        while len(self._idle_sides) < count:
            lane = self._new_side()
            self.have(lane)
            self._idle_sides.append(lane)

    def _sides(self) -> int:
        return sum(1 for lane in self._lanes if lane >= FIRST_SIDE)

    def _new_side(self) -> int:
        self._last_side += 1
        return self._last_side

    def flush(self) -> None:
        """Write what can be written."""
        for lane in self._ready:
            connection = self._lanes.get(lane)
            if connection is not None and connection.out and not connection.write():
                self._poller.modify(connection.fileno(), select.EPOLLIN | select.EPOLLOUT)
        self._ready.clear()

    def poll(self, seconds: float, payload: bytes) -> list[tuple[int, list[Message], bool]]:
        """Return what has come on which lanes, and whether that was the end of a response."""
        self.flush()
        received: list[tuple[int, list[Message], bool]] = []
        for fd, events in self._poller.poll(seconds):
            lane = self._by_fd[fd]
            connection = self._lanes[lane]
            if events & select.EPOLLOUT and connection.write():
                self._poller.modify(fd, select.EPOLLIN)
            if not events & ~select.EPOLLOUT:
                continue
            if connection.is_idle:
                # Nothing was asked, so nothing can come but the end.
                self.drop(lane)
                if lane in self._idle_sides:
                    self._idle_sides.remove(lane)
                continue
            messages, is_done = connection.read(payload)
            connection.is_idle = is_done
            if is_done and connection.status >= SERVER_ERRORS:
                raise LoadError(f"status {connection.status} for what was posted")
            if is_done and connection.closes:
                self.drop(lane)
            elif lane >= FIRST_SIDE and is_done:
                self._idle_sides.append(lane)
            received.append((lane, messages, is_done))
        return received

    def wait_sides(self, seconds: float) -> list[tuple[int, list[Message], bool]]:
        """Wait until what was posted aside has been taken; return what has come meanwhile."""
        received: list[tuple[int, list[Message], bool]] = []
        end = time.monotonic() + seconds
        while len(self._idle_sides) < self._sides():
            if time.monotonic() > end:
                raise LoadError("what was posted was not taken")
            received += self.poll(1.0, b"")
        return received

    def fileno(self) -> int:
        """Return what `select` watches."""
        return self._poller.fileno()

    def clear(self) -> None:
        """Close all connections; others can be opened."""
        for lane in list(self._lanes):
            self.drop(lane)
        self._idle_sides.clear()

    def close(self) -> None:
        """Close all."""
        self.clear()
        self._poller.close()


@final
class HttpLink:
    """A link to a URL. In the legacy era it has a session, once there was a handshake."""

    def __init__(self, url: str, dialect: Dialect) -> None:
        parts = urlsplit(url)
        self.dialect = dialect
        self.ids = Ids()
        self.payload = b""
        self.session: str | None = None
        self.url = url
        self.path = parts.path
        # A protected server puts a token for us behind the URL; each request has it in the line after `Host`.
        self.host = parts.netloc + (f"\r\nAuthorization: Bearer {parts.fragment}" if parts.fragment else "")
        self.address = (parts.hostname or "", parts.port or 80)
        self._connections = _Connections(self.address)
        self._held: dict[int, Message] = {}

    def template(
        self, method: str, params: Mapping[str, Any] | None = None, *, progress: bool = False, **how: Any
    ) -> Template:
        """Return a request as a POST."""
        return self.dialect.post(self.path, self.host, self.session, method, params, progress=progress, **how)

    def open_lanes(self, count: int) -> None:
        """Have so many connections."""
        self._connections.keep_lanes(count)

    def expect_replies(self, count: int) -> None:
        """Have so many connections to spare for what is posted beside requests."""
        self._connections.spare(count)

    def send(self, lane: int, data: bytes) -> None:
        """Send a request, with the next poll."""
        self._connections.post(lane, data)

    def reply(self, message: Message) -> None:
        """Post an answer or a notification on a connection of its own."""
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        head = self.dialect.head(self.path, self.host, self.session, len(body), message.get("method"))
        self._connections.post_aside(head + body)

    def give_up(self, lane: int, id: int) -> None:
        """Close the request's connection, or say so in a notification: as the era has it."""
        if self.dialect.is_modern:
            self._connections.drop(lane)
        else:
            self.reply({"method": "notifications/cancelled", "params": {"requestId": id}})

    def poll(self, seconds: float) -> list[tuple[int, Message]]:
        """Write what is to be written, and return what has come."""
        end = 0.0
        while True:
            messages: list[tuple[int, Message]] = []
            received = self._connections.poll(seconds, self.payload)
            for lane, came, is_done in received:
                self._take(lane, came, is_done, messages)
            if messages or not received:
                return messages
            end = end or time.monotonic() + seconds
            seconds = max(0.0, end - time.monotonic())

    def settle(self) -> None:
        """Wait until what was posted beside requests has been taken, and learn of the session."""
        self._connections.wait_sides(10.0)

    def learn_session(self) -> None:
        """Belong to the session that the last answer on the first lane has named."""
        self.session = self._connections.have(0).session

    def end_session(self) -> None:
        """Say that the session is over, and wait until that is taken."""
        lines = (
            f"DELETE {self.path} HTTP/1.1",
            f"Host: {self.host}",
            f"Mcp-Session-Id: {self.session}",
            f"MCP-Protocol-Version: {self.dialect.revision}",
        )
        self._connections.post_aside("\r\n".join((*lines, "", "")).encode())
        self.settle()

    def close_connections(self) -> None:
        """Keep the session, but no connection."""
        self._connections.clear()

    def open_stream(self) -> None:
        """Open the session's standing stream."""
        lines = (
            f"GET {self.path} HTTP/1.1",
            f"Host: {self.host}",
            "Accept: text/event-stream",
            f"Mcp-Session-Id: {self.session}",
            f"MCP-Protocol-Version: {self.dialect.revision}",
        )
        self._connections.post(STREAM, "\r\n".join((*lines, "", "")).encode())
        self._connections.flush()

    def fileno(self) -> int:
        """Return what `select` watches to know that something has come."""
        return self._connections.fileno()

    def flush(self) -> None:
        """Write what can be written."""
        self._connections.flush()

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def _take(self, lane: int, came: list[Message], is_done: bool, messages: list[tuple[int, Message]]) -> None:  # noqa: FBT001
        for message in came:
            # An answer frees its lane, so it is held back until the response is over.
            if "method" not in message and not is_done:
                self._held[lane] = message
            else:
                messages.append((lane, message))
        if is_done and lane in self._held:
            messages.append((lane, self._held.pop(lane)))


@final
class SseLink:
    """A link to the deprecated HTTP+SSE: everything comes on one stream, and is posted beside it."""

    def __init__(self, url: str, dialect: Dialect) -> None:
        parts = urlsplit(url)
        self.dialect = dialect
        self.ids = Ids()
        self.payload = b""
        self.host = parts.netloc
        self._connections = _Connections((parts.hostname or "", parts.port or 80))
        lines = (f"GET {parts.path} HTTP/1.1", f"Host: {self.host}", "Accept: text/event-stream", "", "")
        self._connections.post(STREAM, "\r\n".join(lines).encode())
        stream = self._connections.have(STREAM)
        end = time.monotonic() + 10.0
        while stream.endpoint is None:
            if time.monotonic() > end:
                raise LoadError("the stream did not say where to post")
            self._connections.poll(1.0, b"")
        self._path = urljoin(parts.path, stream.endpoint)
        if "://" in self._path:
            posted = urlsplit(self._path)
            self._path = f"{posted.path}?{posted.query}"

    def template(
        self, method: str, params: Mapping[str, Any] | None = None, *, progress: bool = False, **how: Any
    ) -> Template:
        """Return a request as a POST."""
        return self.dialect.post(self._path, self.host, None, method, params, progress=progress, **how)

    def open_lanes(self, count: int) -> None:
        """Do nothing: requests are told apart by their ids, and posted on what connection is free."""

    def send(self, lane: int, data: bytes) -> None:
        """Post a request, at once."""
        self._connections.post_aside(data)

    def reply(self, message: Message) -> None:
        """Post an answer or a notification."""
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        self._connections.post_aside(self.dialect.head(self._path, self.host, None, len(body), None) + body)

    def give_up(self, lane: int, id: int) -> None:
        """Say so in a notification."""
        self.reply({"method": "notifications/cancelled", "params": {"requestId": id}})

    def poll(self, seconds: float) -> list[tuple[int, Message]]:
        """Return what has come on the stream."""
        end = 0.0
        while True:
            received = self._connections.poll(seconds, self.payload)
            messages = [(-1, message) for lane, came, _ in received if lane == STREAM for message in came]
            if messages or not received:
                return messages
            end = end or time.monotonic() + seconds
            seconds = max(0.0, end - time.monotonic())

    def fileno(self) -> int:
        """Return what `select` watches to know that something has come."""
        return self._connections.fileno()

    def flush(self) -> None:
        """Write what can be written."""
        self._connections.flush()

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()
