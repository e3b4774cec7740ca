"""What carries requests to a server and brings messages back, without an event loop, on POSIX.

Here: bytes over pipes, sockets and TLS; messages as lines, and as the frames of a WebSocket. Nothing here knows
what is measured.
"""

from __future__ import annotations

import base64
import os
import select
import socket
import ssl
import struct
import sys
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol, final
from urllib.parse import urlsplit

from .._codec._json import decode, encode
from .._printable import excerpt
from ._messages import FIRST_ID, MARK, Dialect, Message, Template

now = time.perf_counter_ns
"""Nanoseconds, for how long something takes."""
seconds_now = time.monotonic
stamp = time.monotonic_ns
"""Both read the clock of the whole machine: other processes read the same."""

CHUNK: Final = 1 << 20
BEGINNING: Final = 100
"""So many bytes of a payload are searched for."""
LONG: Final = 16_384
"""Messages longer than this are searched for the payload."""
CONNECT_SECONDS: Final = 20.0
READ: Final = 1
WRITE: Final = 4
"""As in `select.EPOLLIN` and `select.POLLIN`, `select.EPOLLOUT` and `select.POLLOUT`."""


class LoadError(Exception):
    """The server did something that it must not, or nothing at all; the text says what."""


class Ended(LoadError):
    """The connection has ended."""


class Ids:
    """Ids that no two requests have."""

    def __init__(self) -> None:
        self._next = FIRST_ID

    def take(self) -> int:
        """Return the next id."""
        self._next += 1
        return self._next


class Link(Protocol):
    """A way to a server. A lane carries one request at a time; over HTTP it is a connection."""

    dialect: Dialect
    ids: Ids
    payload: bytes
    """A long text that is known to come in answers: it is looked for and cut out instead of decoded."""

    def template(
        self, method: str, params: Mapping[str, Any] | None = None, *, progress: bool = False, **how: Any
    ) -> Template:
        """Return a request as this link sends it."""
        ...

    def open_lanes(self, count: int) -> None:
        """Have so many lanes."""
        ...

    def send(self, lane: int, data: bytes) -> None:
        """Send a request that was made of a template, on a lane that is free. It goes when `poll` is called."""
        ...

    def reply(self, message: Message) -> None:
        """Answer or notify the server; it goes when `poll` is called, or before."""
        ...

    def give_up(self, lane: int, id: int) -> None:
        """Cancel a request at once, in the way of this link and its era."""
        ...

    def poll(self, seconds: float) -> list[tuple[int, Message]]:
        """Wait for messages at most so long; return what came, with its lane, or -1 where lanes cannot be told.

        An answer comes only when its lane is free again. The number of payloads found is in ``"payloads"``.

        Raises:
            LoadError: The server is gone.
        """
        ...

    def fileno(self) -> int:
        """Return what `select` watches to know that something has come."""
        ...

    def flush(self) -> None:
        """Write what can be written at once."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


# Bytes


class Poller(Protocol):
    """What of `select.epoll` is used."""

    def register(self, fd: int, events: int, /) -> object:
        """Watch a descriptor."""
        ...

    def modify(self, fd: int, events: int, /) -> object:
        """Watch it for something else."""
        ...

    def unregister(self, fd: int, /) -> object:
        """Watch it no more."""
        ...

    def poll(self, seconds: float, /) -> list[tuple[int, int]]:
        """Wait at most so many seconds, and return what has happened."""
        ...

    def fileno(self) -> int:
        """Return what another poller can watch."""
        ...

    def close(self) -> None:
        """End watching."""
        ...


@final
class _Poll:
    """`select.poll`, where there is no `select.epoll`."""

    def __init__(self) -> None:
        poll = select.poll()
        self.register, self.modify, self.unregister = poll.register, poll.modify, poll.unregister
        self._poll = poll.poll

    def poll(self, seconds: float) -> list[tuple[int, int]]:
        """Wait at most so many seconds."""
        return self._poll(seconds * 1e3)

    def fileno(self) -> int:
        """Refuse: only the one of Linux can be watched by another.

        Raises:
            LoadError: Always.
        """
        raise LoadError("this needs Linux")

    def close(self) -> None:
        """Do nothing."""


def make_poller() -> Poller:
    """Return the best there is to watch many descriptors."""
    return select.epoll() if sys.platform == "linux" else _Poll()


class Wire(Protocol):
    """Bytes in both directions, without waiting."""

    read_fd: int
    write_fd: int

    def read(self, size: int) -> bytes | None:
        """Return what has come, at most so much; nothing at the end, and `None` if nothing is there now.

        Raises:
            OSError: It is broken.
        """
        ...

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Write what can be written at once; return how much that was.

        Raises:
            OSError: It is broken.
        """
        ...

    def close(self) -> None:
        """Close it, if it is ours."""
        ...


@final
class Descriptors:
    """One descriptor, of a socket, which is closed; or two, of pipes, which are their owner's."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        for fd in {read_fd, write_fd}:
            os.set_blocking(fd, False)

    def read(self, size: int) -> bytes | None:
        """Return what has come."""
        try:
            return os.read(self.read_fd, size)
        except BlockingIOError:
            return None

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Write what can be written."""
        try:
            return os.write(self.write_fd, data)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close a socket."""
        if self.read_fd == self.write_fd:
            os.close(self.read_fd)


@final
class Tls:
    """A socket under TLS."""

    def __init__(self, stream: ssl.SSLSocket) -> None:
        self._stream = stream
        self.read_fd = self.write_fd = stream.fileno()
        stream.setblocking(False)

    def read(self, size: int) -> bytes | None:
        """Return what has come: all of it, since nobody is told of what is already decrypted."""
        parts: list[bytes] = []
        try:
            while size > 0 and (data := self._stream.recv(size)):
                parts.append(data)
                size -= len(data)
                if not self._stream.pending():
                    break
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not parts:
                return None
        return b"".join(parts)

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Write what can be written."""
        try:
            return self._stream.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0

    def close(self) -> None:
        """Close the socket."""
        self._stream.close()


def open_wire(host: str, port: int, *, tls: bool = False) -> Wire:
    """Connect to a port.

    Raises:
        LoadError: Nobody answers there.
    """
    try:
        stream = socket.create_connection((host, port), CONNECT_SECONDS)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            return Tls(ssl.create_default_context().wrap_socket(stream, server_hostname=host))
    except OSError as error:
        raise Ended(f"nobody answers at {host}, port {port}: {error}") from error
    fd = stream.detach()
    return Descriptors(fd, fd)


def open_unix_wire(path: str) -> Wire:
    """Connect to a Unix socket.

    Raises:
        LoadError: Nobody answers there.
    """
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        stream.connect(path)
    except OSError as error:
        stream.close()
        raise Ended(f"nobody answers at {path}: {error}") from error
    fd = stream.detach()
    return Descriptors(fd, fd)


# Messages


class LineLink:
    """A link whose messages are lines.

    Attributes:
        strays: What came that was no message; `None` if that is an error.
    """

    def __init__(self, wire: Wire, dialect: Dialect, *, admits_strays: bool = False) -> None:
        self.dialect = dialect
        self.ids = Ids()
        self.payload = b""
        self.strays: list[str] | None = [] if admits_strays else None
        self._wire = wire
        self._out: list[bytes] = []
        self._rest = memoryview(b"")
        self._pieces: list[bytes] = []
        self._poller = make_poller()
        self._is_writing = False
        self._poller.register(wire.read_fd, READ)

    def template(
        self, method: str, params: Mapping[str, Any] | None = None, *, progress: bool = False, **how: Any
    ) -> Template:
        """Return a request as a line."""
        return self.dialect.line(method, params, progress=progress, **how)

    def open_lanes(self, count: int) -> None:
        """Do nothing: requests are told apart by their ids."""

    def send(self, lane: int, data: bytes) -> None:
        """Send a line with the next poll, together with all others."""
        self._out.append(data)

    def reply(self, message: Message) -> None:
        """Send a message with the next poll."""
        self._out.append(encode({"jsonrpc": "2.0", **message}) + b"\n")

    def give_up(self, lane: int, id: int) -> None:
        """Send the notification, at once."""
        self.reply({"method": "notifications/cancelled", "params": {"requestId": id}})
        self._write()

    def poll(self, seconds: float) -> list[tuple[int, Message]]:
        """Write what is to be written, and return what has come."""
        self._write()
        end = 0.0
        while True:
            lines: list[bytes] = []
            events = self._poller.poll(seconds)
            for fd, _ in events:
                if fd == self._wire.read_fd:
                    lines += self._read()
                if fd == self._wire.write_fd:
                    self._write()
            if lines or not events:
                if self.strays is not None:
                    return [(-1, message) for line in lines if line for message in self._read_leniently(line)]
                return [(-1, read_message(line, self.payload)) for line in lines if line]
            # A piece of a long line: the time that is left is looked at only now, as it costs something.
            end = end or seconds_now() + seconds
            seconds = max(0.0, end - seconds_now())

    def fileno(self) -> int:
        """Return what `select` watches to know that something has come."""
        return self._poller.fileno()

    def flush(self) -> None:
        """Write what can be written."""
        self._write()

    def close(self) -> None:
        """Stop watching, and close what is ours."""
        self._poller.close()
        self._wire.close()

    def _read_leniently(self, line: bytes) -> list[Message]:
        assert self.strays is not None
        try:
            return [read_message(line, self.payload)]
        except LoadError:
            self.strays.append(excerpt(line))
            return []

    def _write(self) -> None:
        while self._out or self._rest:
            if not self._rest:
                self._rest = memoryview(b"".join(self._out))
                self._out.clear()
            try:
                written = self._wire.write(self._rest)
            except OSError as error:
                raise Ended(f"the server does not read any more: {error}") from error
            self._rest = self._rest[written:]
            if not written:
                break
        wants = bool(self._rest)
        if wants != self._is_writing:
            self._is_writing = wants
            self._watch(wants=wants)

    def _watch(self, *, wants: bool) -> None:
        if self._wire.write_fd == self._wire.read_fd:
            self._poller.modify(self._wire.read_fd, READ | (WRITE if wants else 0))
        elif wants:
            self._poller.register(self._wire.write_fd, WRITE)
        else:
            self._poller.unregister(self._wire.write_fd)

    def _read(self) -> list[bytes]:
        try:
            data = self._wire.read(CHUNK)
        except OSError as error:
            raise Ended(f"the connection is broken: {error}") from error
        if data is None:
            return []
        if not data:
            raise Ended("the server has ended")
        return self._split(data)

    def _split(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete now."""
        if b"\n" not in data:
            self._pieces.append(data)
            return []
        lines = data.split(b"\n")
        if self._pieces:
            self._pieces.append(lines[0])
            lines[0] = b"".join(self._pieces)
        last = lines.pop()
        self._pieces = [last] if last else []
        return lines


def read_message(data: bytes, payload: bytes) -> Message:
    """Decode a message, without its payloads if it is long.

    Raises:
        LoadError: It is no JSON object.
    """
    found = 0
    if payload and len(data) > LONG:
        data, found = _without(data, payload)
    try:
        message = decode(data)
    except ValueError as error:
        raise LoadError(f"no JSON: {error}: {data[:200]!r}") from error
    if not isinstance(message, dict):
        raise LoadError(f"no message: {data[:200]!r}")
    if found:
        message["payloads"] = found
    return message  # pyright: ignore[reportUnknownVariableType] - JSON


def _without(data: bytes, payload: bytes) -> tuple[bytes, int]:
    """Remove a long text, and count how often it was there.

    Only its beginning is searched for, and the rest compared: to search for a text of a megabyte takes twenty
    times as long as a server takes to send it.
    """
    parts: list[bytes] = []
    start = 0
    while (at := data.find(payload[:BEGINNING], start)) >= 0 and data.startswith(payload, at):
        parts.append(data[start:at])
        start = at + len(payload)
    return b"".join((*parts, data[start:])), len(parts)


# WebSockets

NO_MASK: Final = bytes(4)
"""Masking is there for proxies that cannot tell a WebSocket from HTTP; this mask costs neither side anything."""
_CONTINUATION: Final = 0
_TEXT: Final = 1
_CLOSE: Final = 8
_PING: Final = 9
_PONG: Final = 10
_FINAL: Final = 0x80


def framed(data: bytes, opcode: int = _TEXT) -> bytes:
    """Return a message as one frame of a client."""
    length, first = len(data), _FINAL | opcode
    if length < 126:
        return bytes((first, 0x80 | length)) + NO_MASK + data
    if length < 1 << 16:
        return struct.pack("!BBH", first, 0xFE, length) + NO_MASK + data
    return struct.pack("!BBQ", first, 0xFF, length) + NO_MASK + data


def open_websocket(address: str, dialect: Dialect, fields: Mapping[str, str]) -> WebSocketLink:
    """Connect, and shake hands.

    Raises:
        LoadError: The server refuses.
    """
    parts = urlsplit(address)
    is_tls = parts.scheme == "wss"
    wire = open_wire(parts.hostname or "", parts.port or (443 if is_tls else 80), tls=is_tls)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    more = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    key = base64.b64encode(os.urandom(16)).decode()
    request = (
        f"GET {path} HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\nConnection: Upgrade\r\n"
        f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        f"Sec-WebSocket-Protocol: mcp\r\n{more}\r\n"
    )
    link = WebSocketLink(wire, dialect)
    link.shake_hands(request.encode())
    return link


@final
class WebSocketLink(LineLink):
    """A link over a WebSocket."""

    def shake_hands(self, request: bytes) -> None:
        """Send the request that opens the WebSocket, and wait for its response.

        Raises:
            LoadError: That is a refusal.
        """
        self._out.append(request)
        self._write()
        answer = b""
        end = seconds_now() + CONNECT_SECONDS
        try:
            while b"\r\n\r\n" not in answer:
                if not self._poller.poll(max(0.0, end - seconds_now())):
                    raise LoadError("the server did not answer the handshake of the WebSocket")
                data = self._wire.read(4096)
                if data == b"":
                    break
                answer += data or b""
        except OSError as error:
            raise Ended(f"the connection is broken: {error}") from error
        head, _, rest = answer.partition(b"\r\n\r\n")
        if b" 101 " not in head:
            raise LoadError(f"the server refused the WebSocket: {excerpt(answer)}")
        if rest:
            self._pieces = [rest]

    def template(
        self, method: str, params: Mapping[str, Any] | None = None, *, progress: bool = False, **how: Any
    ) -> Template:
        """Return a request as a frame: its length is that of every id."""
        sample = self.dialect.line(method, params, progress=progress, **how)
        data = sample.fill(FIRST_ID)[:-1]
        marked = str(MARK).encode().join(sample.parts)[:-1]
        return Template(framed(data)[: -len(data)] + marked)

    def reply(self, message: Message) -> None:
        """Send a message with the next poll."""
        self._out.append(framed(encode({"jsonrpc": "2.0", **message})))

    def _split(self, data: bytes) -> list[bytes]:
        if self._pieces:
            data = b"".join((*self._pieces, data))
            self._pieces = []
        found: list[bytes] = []
        at, end = 0, len(data)
        while end - at >= 2:
            length, head = data[at + 1] & 0x7F, 2
            if length >= 126:
                head += 2 if length == 126 else 8
                if end - at < head:
                    break
                length = int.from_bytes(data[at + 2 : at + head])
            if end - at < head + length:
                break
            self._take(data[at], data[at + head : at + head + length], found)
            at += head + length
        if at < end:
            self._pieces = [data[at:]]
        return found

    _begun: bytes = b""

    def _take(self, first: int, content: bytes, found: list[bytes]) -> None:
        opcode = first & 0x0F
        if opcode in {_TEXT, _CONTINUATION}:
            if first & _FINAL:
                found.append(self._begun + content if self._begun else content)
                self._begun = b""
            else:
                self._begun += content
        elif opcode == _PING:
            self._out.append(framed(content, _PONG))
        elif opcode == _CLOSE:
            code = int.from_bytes(content[:2]) or 1005
            raise Ended(f"the server has closed the WebSocket with {code} {excerpt(content[2:])}")
