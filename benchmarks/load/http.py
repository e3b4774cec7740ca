"""Messages over HTTP/1.1, by hand: a connection for each lane, kept alive; answers as JSON or as a stream of events."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping
from typing import Any, Final, final
from urllib.parse import urlsplit

import msgspec

from .dialect import Dialect
from .link import Ids, LoadError, Message
from .lines import decode
from .template import Template

__all__ = ["HttpConnection", "HttpLink"]

CHUNK: Final = 1 << 18
CONNECT_SECONDS: Final = 20.0


@final
class HttpConnection:
    """One connection and the response that is being read from it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, CONNECT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)  # noqa: FBT003 - the standard library's
        self.out = b""
        self.closes = False
        self.session: str | None = None
        self.status = 0
        self._in = b""
        self._pieces: list[bytes] = []
        self._has_head = False
        self._is_chunked = False
        self._is_stream = False
        self._left = 0
        self._size = 0
        self._event = b""

    def fileno(self) -> int:
        """Return what `select` watches."""
        return self.socket.fileno()

    def write(self) -> bool:
        """Write what can be written; return whether that was all."""
        try:
            sent = self.socket.send(self.out)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise LoadError(f"the server does not read any more: {error}") from error
        self.out = self.out[sent:]
        return not self.out

    def read(self, payload: bytes) -> tuple[list[Message], bool]:
        """Read what has come; return the messages in it, and whether the response is complete."""
        try:
            data = self.socket.recv(CHUNK)
        except BlockingIOError:
            return [], False
        except OSError as error:
            raise LoadError(f"the connection is broken: {error}") from error
        if not data:
            raise LoadError("the server closed the connection in the middle of a response")
        if self._left > len(data) and not self._is_chunked:
            self._pieces.append(data)
            self._left -= len(data)
            return [], False
        self._in = self._in + data if self._in else data
        if not self._has_head and not self._read_head():
            return [], False
        return self._read_chunks(payload) if self._is_chunked else self._read_whole(payload)

    def _read_head(self) -> bool:
        end = self._in.find(b"\r\n\r\n")
        if end < 0:
            return False
        said = self._in[:end] + b"\r\n"
        head = said.lower()
        self._in = self._in[end + 4 :]
        self.status = int(head[9:12])
        self._has_head = True
        self._is_chunked = b"transfer-encoding: chunked" in head
        self._is_stream = b"content-type: text/event-stream" in head
        self.closes = b"connection: close" in head
        self._left = int(_field(said, head, b"content-length") or 0)
        if b"mcp-session-id" in head:
            self.session = _field(said, head, b"mcp-session-id").decode()
        return True

    def _read_whole(self, payload: bytes) -> tuple[list[Message], bool]:
        if len(self._in) < self._left:
            self._pieces.append(self._in)
            self._left -= len(self._in)
            self._in = b""
            return [], False
        self._pieces.append(self._in)
        body = b"".join(self._pieces)
        self._pieces.clear()
        self._in = b""
        self._left = 0
        self._has_head = False
        messages = self._events(body + b"\n\n", payload) if self._is_stream else self._whole(body, payload)
        return messages, True

    def _whole(self, body: bytes, payload: bytes) -> list[Message]:
        if self.status >= 400:  # noqa: PLR2004 - HTTP's
            raise LoadError(f"status {self.status}: {body[:300]!r}")
        return [decode(body, payload)] if body else []

    def _read_chunks(self, payload: bytes) -> tuple[list[Message], bool]:
        messages: list[Message] = []
        data = self._in
        at = 0
        done = False
        while True:
            if not self._size:
                end = data.find(b"\r\n", at)
                if end < 0:
                    break
                size = int(data[at:end].split(b";")[0], 16)
                if not size:
                    if len(data) < end + 4:
                        break
                    at = end + 4
                    done = True
                    break
                self._size = size + 2
                at = end + 2
            if len(data) - at < self._size:
                # A large chunk is taken piece by piece, so that it is not looked at again and again.
                taken = min(len(data) - at, self._size - 2)
                if taken > 0:
                    self._pieces.append(data[at : at + taken])
                    at += taken
                    self._size -= taken
                break
            self._pieces.append(data[at : at + self._size - 2])
            at += self._size
            self._size = 0
            if self._is_stream:
                messages += self._events(b"".join(self._pieces), payload)
                self._pieces.clear()
        self._in = data[at:]
        if done:
            self._has_head = False
            if not self._is_stream:
                messages = self._whole(b"".join(self._pieces), payload)
            self._pieces.clear()
        return messages, done

    def _events(self, data: bytes, payload: bytes) -> list[Message]:
        text = (self._event + data).replace(b"\r\n", b"\n")
        *blocks, self._event = text.split(b"\n\n")
        messages: list[Message] = []
        for block in blocks:
            lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
            body = b"\n".join(lines)
            if body:
                messages.append(decode(body, payload))
        return messages


def _field(said: bytes, head: bytes, name: bytes) -> bytes:
    """Return the value of a field as it was said; `head` is the same in lower case."""
    at = head.find(b"\r\n" + name + b":")
    if at < 0:
        return b""
    start = at + len(name) + 3
    return said[start : head.index(b"\r\n", start)].strip()


@final
class HttpLink:
    """A link to a URL. In the legacy era it has a session, once there was a handshake."""

    def __init__(self, url: str, dialect: Dialect) -> None:
        parts = urlsplit(url)
        self.dialect = dialect
        self.ids = Ids()
        self.payload = b""
        self.session: str | None = None
        self.path = parts.path
        self.host = parts.netloc
        self.address = (parts.hostname or "", parts.port or 80)
        self.lanes: list[HttpConnection] = []
        self._held: dict[int, Message] = {}
        self._by_fd: dict[int, int] = {}
        self._ready: list[int] = []
        self._poller = select.epoll()

    def template(
        self, method: str, params: Mapping[str, Any] | None = None, *, progress: bool = False, **how: Any
    ) -> Template:
        """Return a request as a POST."""
        return self.dialect.post(self.path, self.host, self.session, method, params, progress=progress, **how)

    def open_lanes(self, count: int) -> None:
        """Have so many connections."""
        while len(self.lanes) < count:
            self.lanes.append(HttpConnection(self.address))
            self._enter(len(self.lanes) - 1)
        while len(self.lanes) > count:
            self._leave(len(self.lanes) - 1)
            self.lanes.pop()

    def send(self, lane: int, data: bytes) -> None:
        """Send a request, with the next poll."""
        self.lanes[lane].out += data
        self._ready.append(lane)

    def reply(self, lane: int, message: Message) -> None:
        """Post an answer or a notification on a connection of its own, and wait until it has arrived."""
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        method = message.get("method")
        head = self.dialect.head(self.path, self.host, self.session, len(body), method)
        self.open_lanes(max(lane, len(self.lanes) - 1) + 1)
        self.send(lane, head + body)

    def give_up(self, lane: int, id: int) -> None:
        """Close the request's connection, or say so in a notification: as the era has it."""
        if self.dialect.is_modern:
            self.reopen(lane)
            return
        raise NotImplementedError

    def reopen(self, lane: int) -> None:
        """Close a connection, and open another in its place."""
        self._leave(lane)
        self.lanes[lane] = HttpConnection(self.address)
        self._enter(lane)

    def poll(self, seconds: float) -> list[tuple[int, Message]]:
        """Write what is to be written, and return what has come."""
        for lane in self._ready:
            if self.lanes[lane].out and not self.lanes[lane].write():
                self._poller.modify(self.lanes[lane].fileno(), select.EPOLLIN | select.EPOLLOUT)
        self._ready.clear()
        messages: list[tuple[int, Message]] = []
        end = 0.0
        while True:
            ready = self._poller.poll(seconds)
            for fd, events in ready:
                lane = self._by_fd[fd]
                if events & select.EPOLLOUT and self.lanes[lane].write():
                    self._poller.modify(fd, select.EPOLLIN)
                if events & ~select.EPOLLOUT:
                    self._receive(lane, messages)
            if messages or not ready:
                return messages
            end = end or time.monotonic() + seconds
            seconds = max(0.0, end - time.monotonic())

    def close(self) -> None:
        """Close all connections."""
        self.open_lanes(0)
        self._poller.close()

    def _receive(self, lane: int, messages: list[tuple[int, Message]]) -> None:
        connection = self.lanes[lane]
        received, is_done = connection.read(self.payload)
        for message in received:
            # An answer frees its lane, so it is held back until the response is over.
            if "method" not in message and not is_done:
                self._held[lane] = message
            else:
                messages.append((lane, message))
        if is_done:
            if lane in self._held:
                messages.append((lane, self._held.pop(lane)))
            elif not received:
                messages.append((lane, {"status": connection.status}))
            if connection.closes:
                self.reopen(lane)

    def _enter(self, lane: int) -> None:
        fd = self.lanes[lane].fileno()
        self._by_fd[fd] = lane
        self._poller.register(fd, select.EPOLLIN)

    def _leave(self, lane: int) -> None:
        fd = self.lanes[lane].fileno()
        self._poller.unregister(fd)
        del self._by_fd[fd]
        self._held.pop(lane, None)
        self.lanes[lane].socket.close()
