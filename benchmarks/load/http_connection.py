"""One connection over which HTTP/1.1 is spoken, by hand: no library is in the way of what is measured."""

from __future__ import annotations

import socket
from typing import Final, final

from .lines import decode
from .link import LoadError, Message

__all__ = ["HttpConnection"]

CHUNK: Final = 1 << 18
CONNECT_SECONDS: Final = 20.0


@final
class HttpConnection:
    """One connection and the response that is being read from it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, CONNECT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
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
        """Read what has come; return the messages in it, and whether the response is complete.

        Raises:
            LoadError: There is nothing more to come, and no status that says well done.
        """
        try:
            data = self.socket.recv(CHUNK)
        except BlockingIOError:
            return [], False
        except OSError as error:
            raise LoadError(f"the connection is broken: {error}") from error
        if not data:
            said = f" with status {self.status}" if self._has_head else ""
            raise LoadError(f"the server closed the connection in the middle of a response{said}")
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
        if self.status >= 400:
            raise LoadError(f"status {self.status}: {body[:300]!r}")
        return [decode(body, payload)] if body.startswith(b"{") else []

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
                messages.append(decode(body, payload))
            elif body:
                self.endpoint = body.decode()
        return messages


def _field(said: bytes, head: bytes, name: bytes) -> bytes:
    """Return the value of a field as it was said; `head` is the same in lower case."""
    at = head.find(b"\r\n" + name + b":")
    if at < 0:
        return b""
    start = at + len(name) + 3
    return said[start : head.index(b"\r\n", start)].strip()
