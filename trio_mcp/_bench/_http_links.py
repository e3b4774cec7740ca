"""Messages over HTTP/1.1: a connection for each lane, kept alive; answers as JSON or as a stream of events.

HTTP is spoken by hand: no library is in the way of what is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Self, final
from urllib.parse import urljoin, urlsplit

import attrs

from .._codec._json import encode
from .._printable import excerpt
from ._links import (
    READ,
    WRITE,
    Ended,
    Ids,
    LoadError,
    Wire,
    make_poller,
    open_wire,
    read_message,
    seconds_now,
)
from ._messages import Dialect, Message, Template

READ_SIZE: Final = 1 << 18
FIRST_SIDE: Final = 1 << 20
"""Lanes from here on carry what `reply` posts, and are nobody else's business."""
STREAM: Final = FIRST_SIDE - 1
"""The lane of the standing stream, where there is one."""
FIRST_REFUSAL: Final = 300
"""Statuses from here on are no answers; nobody is followed elsewhere."""
NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})


class Refused(LoadError):
    """The server has refused a request by a status.

    Attributes:
        status: Which one.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@final
@attrs.frozen
class Address:
    """Where requests go.

    Attributes:
        name: The name of the host.
        port: The port.
        is_tls: Whether under TLS.
        path: What is asked for there.
        host: The value of ``Host``, and what further header fields follow it in each request.
    """

    name: str
    port: int
    is_tls: bool
    path: str
    host: str

    @classmethod
    def of(cls, url: str, fields: Mapping[str, str]) -> Self:
        """Read a URL. A token may follow it as its fragment."""
        parts = urlsplit(url)
        more = dict(fields)
        if parts.fragment:
            more["Authorization"] = f"Bearer {parts.fragment}"
        is_tls = parts.scheme == "https"
        host = "\r\n".join(
            (parts.netloc.rpartition("@")[2], *(f"{name}: {value}" for name, value in more.items()))
        )
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.hostname or "", parts.port or (443 if is_tls else 80), is_tls, path, host)

    def open(self) -> Wire:
        """Connect."""
        return open_wire(self.name, self.port, tls=self.is_tls)


@final
class HttpConnection:
    """One connection and the response that is being read from it."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.out = b""
        self.is_idle = True
        self.closes = False
        self.session: str | None = None
        self.endpoint: str | None = None
        self.status = 0
        self._in = b""
        self._pieces: list[bytes] = []
        self._has_head = False
        self._is_chunked = False
        self._is_stream = False
        self._left = 0
        self._size = 0
        self._event = b""
        self._lasts_until_the_end = False

    def fileno(self) -> int:
        """Return what `select` watches."""
        return self.wire.read_fd

    def write(self) -> bool:
        """Write what can be written; return whether that was all."""
        try:
            sent = self.wire.write(self.out)
        except OSError as error:
            raise Ended(f"the server does not read any more: {error}") from error
        self.out = self.out[sent:]
        return not self.out

    def read(self, payload: bytes) -> tuple[list[Message], bool]:
        """Read what has come; return the messages in it, and whether the response is complete.

        Raises:
            LoadError: There is nothing more to come, and no status that says well done.
        """
        try:
            data = self.wire.read(READ_SIZE)
        except OSError as error:
            raise Ended(f"the connection is broken: {error}") from error
        if data is None:
            return [], False
        if not data:
            if self._has_head and self._lasts_until_the_end:
                return self._finish(payload)
            status = f" with status {self.status}" if self._has_head else ""
            raise Ended(f"the server closed the connection in the middle of a response{status}")
        if self._left > len(data) and not self._is_chunked:
            self._pieces.append(data)
            self._left -= len(data)
            return [], False
        self._in = self._in + data if self._in else data
        if not self._has_head and not self._read_head():
            return [], False
        if self._lasts_until_the_end:
            messages = self._events(self._in, payload) if self._is_stream else []
            if not self._is_stream:
                self._pieces.append(self._in)
            self._in = b""
            return messages, False
        return self._read_chunks(payload) if self._is_chunked else self._read_whole(payload)

    def _finish(self, payload: bytes) -> tuple[list[Message], bool]:
        """Return what is left of a response that ends with its connection."""
        self.closes = True
        self._has_head = self._lasts_until_the_end = False
        body = b"".join(self._pieces)
        self._pieces.clear()
        return (self._events(b"\n\n", payload) if self._is_stream else self._whole(body, payload)), True

    def _read_head(self) -> bool:
        while True:
            end = self._in.find(b"\r\n\r\n")
            if end < 0:
                return False
            as_sent = self._in[:end] + b"\r\n"
            head = as_sent.lower()
            if not head.startswith(b"http/1.") or not head[9:12].isdigit():
                raise LoadError(f"no response of HTTP/1.1: {excerpt(as_sent)}")
            self._in = self._in[end + 4 :]
            self.status = status = int(head[9:12])
            if not 100 <= status < 200:  # "go on" and the like are no responses yet
                break
        self._has_head = True
        self._is_chunked = b"transfer-encoding: chunked" in head
        self._is_stream = b"content-type: text/event-stream" in head
        self.closes = b"connection: close" in head or head.startswith(b"http/1.0")
        length = _field(as_sent, head, b"content-length")
        self._left = int(length or 0)
        self._lasts_until_the_end = not length and not self._is_chunked and status not in {202, 204, 304}
        if b"mcp-session-id" in head:
            self.session = _field(as_sent, head, b"mcp-session-id").decode()
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
        if self.status >= FIRST_REFUSAL:
            raise Refused(self.status, f"status {self.status}: {excerpt(body)}")
        return [read_message(body, payload)] if body.startswith(b"{") else []

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
            if body.startswith(b"{"):
                messages.append(read_message(body, payload))
            elif body:
                self.endpoint = body.decode()
        return messages


def _field(as_sent: bytes, head: bytes, name: bytes) -> bytes:
    """Return the value of a field as it was sent; `head` is the same in lower case."""
    at = head.find(b"\r\n" + name + b":")
    if at < 0:
        return b""
    start = at + len(name) + 3
    return as_sent[start : head.index(b"\r\n", start)].strip()


class _Connections:
    """Connections, each with a number."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lanes: dict[int, HttpConnection] = {}
        self._by_fd: dict[int, int] = {}
        self._ready: list[int] = []
        self._idle_sides: list[int] = []
        self._last_side = FIRST_SIDE
        self._poller = make_poller()

    def have(self, lane: int) -> HttpConnection:
        """Return the connection with this number, which is opened if need be."""
        connection = self._lanes.get(lane)
        if connection is None:
            connection = self._lanes[lane] = HttpConnection(self._address.open())
            self._by_fd[connection.fileno()] = lane
            self._poller.register(connection.fileno(), READ)
        return connection

    def drop(self, lane: int) -> None:
        """Close a connection."""
        connection = self._lanes.pop(lane, None)
        if connection is not None:
            self._poller.unregister(connection.fileno())
            del self._by_fd[connection.fileno()]
            connection.wire.close()

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

    def _new_side(self) -> int:
        self._last_side += 1
        return self._last_side

    def flush(self) -> None:
        """Write what can be written."""
        for lane in self._ready:
            connection = self._lanes.get(lane)
            if connection is not None and connection.out and not connection.write():
                self._poller.modify(connection.fileno(), READ | WRITE)
        self._ready.clear()

    def poll(self, seconds: float, payload: bytes) -> list[tuple[int, list[Message], bool]]:
        """Return what has come on which lanes, and whether that was the end of a response."""
        self.flush()
        received: list[tuple[int, list[Message], bool]] = []
        for fd, events in self._poller.poll(seconds):
            lane = self._by_fd[fd]
            connection = self._lanes[lane]
            if events & WRITE and connection.write():
                self._poller.modify(fd, READ)
            if not events & ~WRITE:
                continue
            if connection.is_idle:
                # Nothing was asked, so nothing can come but the end.
                self.drop(lane)
                if lane in self._idle_sides:
                    self._idle_sides.remove(lane)
                continue
            messages, is_done = connection.read(payload)
            connection.is_idle = is_done
            if is_done and connection.status >= FIRST_REFUSAL:
                raise Refused(connection.status, f"status {connection.status} for what was posted")
            if is_done and connection.closes:
                self.drop(lane)
            elif lane >= FIRST_SIDE and is_done:
                self._idle_sides.append(lane)
            received.append((lane, messages, is_done))
        return received

    def wait_sides(self, seconds: float) -> list[tuple[int, list[Message], bool]]:
        """Wait until what was posted aside has been taken; return what has come meanwhile."""
        received: list[tuple[int, list[Message], bool]] = []
        end = seconds_now() + seconds
        while len(self._idle_sides) < sum(lane >= FIRST_SIDE for lane in self._lanes):
            if seconds_now() > end:
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


class _ConnectedLink:
    """A link over connections of HTTP."""

    def __init__(self, url: str, dialect: Dialect, fields: Mapping[str, str] = NO_FIELDS) -> None:
        self.dialect = dialect
        self.ids = Ids()
        self.payload = b""
        self.address = Address.of(url, fields)
        self.host = self.address.host
        self._connections = _Connections(self.address)

    def poll(self, seconds: float) -> list[tuple[int, Message]]:
        """Write what is to be written, and return what has come."""
        end = 0.0
        while True:
            received = self._connections.poll(seconds, self.payload)
            messages = self._taken(received)
            if messages or not received:
                return messages
            end = end or seconds_now() + seconds
            seconds = max(0.0, end - seconds_now())

    def _taken(self, received: list[tuple[int, list[Message], bool]]) -> list[tuple[int, Message]]:
        raise NotImplementedError

    def fileno(self) -> int:
        """Return what `select` watches to know that something has come."""
        return self._connections.fileno()

    def flush(self) -> None:
        """Write what can be written."""
        self._connections.flush()

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()


@final
class HttpLink(_ConnectedLink):
    """A link to a URL. In the legacy era it has a session, once there was a handshake."""

    def __init__(self, url: str, dialect: Dialect, fields: Mapping[str, str] = NO_FIELDS) -> None:
        super().__init__(url, dialect, fields)
        self.session: str | None = None
        self.url = url
        self.fields = fields
        self.path = self.address.path
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
        body = encode({"jsonrpc": "2.0", **message})
        head = self.dialect.head(self.path, self.host, self.session, len(body), message.get("method"))
        self._connections.post_aside(head + body)

    def give_up(self, lane: int, id: int) -> None:
        """Close the request's connection, or say so in a notification: as the era has it."""
        if self.dialect.is_modern:
            self._connections.drop(lane)
        else:
            self.reply({"method": "notifications/cancelled", "params": {"requestId": id}})

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

    def _taken(self, received: list[tuple[int, list[Message], bool]]) -> list[tuple[int, Message]]:
        messages: list[tuple[int, Message]] = []
        for lane, came, is_done in received:
            for message in came:
                # An answer frees its lane, so it is held back until the response is over.
                if "method" not in message and not is_done:
                    self._held[lane] = message
                else:
                    messages.append((lane, message))
            if is_done and lane in self._held:
                messages.append((lane, self._held.pop(lane)))
        return messages


@final
class SseLink(_ConnectedLink):
    """A link to the deprecated HTTP+SSE: everything comes on one stream, and is posted beside it."""

    def __init__(self, url: str, dialect: Dialect, fields: Mapping[str, str] = NO_FIELDS) -> None:
        super().__init__(url, dialect, fields)
        path = self.address.path
        lines = (f"GET {path} HTTP/1.1", f"Host: {self.host}", "Accept: text/event-stream", "", "")
        self._connections.post(STREAM, "\r\n".join(lines).encode())
        stream = self._connections.have(STREAM)
        end = seconds_now() + 10.0
        while stream.endpoint is None:
            if seconds_now() > end:
                raise LoadError("the stream did not say where to post")
            self._connections.poll(1.0, b"")
        posted = urlsplit(urljoin(path, stream.endpoint))
        self._path = f"{posted.path}?{posted.query}" if posted.query else posted.path

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
        body = encode({"jsonrpc": "2.0", **message})
        self._connections.post_aside(self.dialect.head(self._path, self.host, None, len(body), None) + body)

    def give_up(self, lane: int, id: int) -> None:
        """Say so in a notification."""
        self.reply({"method": "notifications/cancelled", "params": {"requestId": id}})

    def _taken(self, received: list[tuple[int, list[Message], bool]]) -> list[tuple[int, Message]]:
        return [(-1, message) for lane, came, _ in received if lane == STREAM for message in came]
