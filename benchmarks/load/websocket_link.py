"""Messages as the text frames of a WebSocket, over one socket. As cheap as it gets: the mask is zero."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any, Final, final
from urllib.parse import urlsplit

import msgspec

from .dialect import Dialect
from .lines import LineLink
from .link import LoadError, Message
from .template import Template

__all__ = ["WebSocketLink", "open_websocket"]

NO_MASK: Final = bytes(4)


def framed(data: bytes) -> bytes:
    """Return a message as one frame."""
    length = len(data)
    if length < 126:
        return bytes((0x81, 0x80 | length)) + NO_MASK + data
    if length < 1 << 16:
        return struct.pack("!BBH", 0x81, 0xFE, length) + NO_MASK + data
    return struct.pack("!BBQ", 0x81, 0xFF, length) + NO_MASK + data


def open_websocket(address: str, dialect: Dialect) -> WebSocketLink:
    """Connect, and shake hands."""
    parts = urlsplit(address)
    stream = socket.create_connection((parts.hostname or "", parts.port or 0))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.sendall(
        f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        "Sec-WebSocket-Protocol: mcp\r\n\r\n".encode("ascii")
    )
    answer = b""
    while b"\r\n\r\n" not in answer:
        data = stream.recv(4096)
        if not data:
            raise LoadError(f"the server refused the WebSocket: {answer!r}")
        answer += data
    if b" 101 " not in answer:
        raise LoadError(f"the server refused the WebSocket: {answer!r}")
    fd = stream.detach()
    return WebSocketLink(fd, fd, dialect)


@final
class WebSocketLink(LineLink):
    """A link over a WebSocket."""

    def template(
        self, method: str, params: Mapping[str, Any] | None = None, *, progress: bool = False, **how: Any
    ) -> Template:
        """Return a request as a frame: its length is that of every id."""
        sample = self.dialect.line(method, params, progress=progress, **how)
        data = sample.fill(100_000_000)[:-1]
        marked = b"907050301".join(sample.parts)[:-1]
        return Template(framed(data)[: -len(data)] + marked)

    def reply(self, message: Message) -> None:
        """Send a message with the next poll."""
        self._out.append(framed(msgspec.json.encode({"jsonrpc": "2.0", **message})))

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
            if data[at] & 0x0F == 1:
                found.append(data[at + head : at + head + length])
            at += head + length
        if at < end:
            self._pieces = [data[at:]]
        return found
