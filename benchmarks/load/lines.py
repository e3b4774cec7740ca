"""Messages as lines, over two pipes or one socket."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .dialect import Dialect
from .link import Ids, LoadError, Message, write_some
from .template import Template

__all__ = ["LineLink"]

CHUNK: Final = 1 << 20
LONG: Final = 16_384
"""Lines longer than this are searched for the payload."""


class LineLink:
    """A link over file descriptors, which it makes non-blocking and does not close."""

    def __init__(self, read_fd: int, write_fd: int, dialect: Dialect) -> None:
        self.dialect = dialect
        self.ids = Ids()
        self.payload = b""
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._out: list[bytes] = []
        self._rest = memoryview(b"")
        self._pieces: list[bytes] = []
        self._poller = select.epoll()
        self._is_writing = False
        self._is_ended = False
        for fd in {read_fd, write_fd}:
            os.set_blocking(fd, False)
        self._poller.register(read_fd, select.EPOLLIN)

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
        self._out.append(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")

    def give_up(self, lane: int, id: int) -> None:
        """Say so in a notification, at once."""
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
                if fd == self._read_fd:
                    lines += self._read()
                if fd == self._write_fd:
                    self._write()
            if lines or not events:
                return [(-1, decode(line, self.payload)) for line in lines if line]
            # A piece of a long line: the time that is left is looked at only now, as it costs something.
            end = end or time.monotonic() + seconds
            seconds = max(0.0, end - time.monotonic())

    def fileno(self) -> int:
        """Return what `select` watches to know that something has come."""
        return self._poller.fileno()

    def flush(self) -> None:
        """Write what can be written."""
        self._write()

    def close(self) -> None:
        """Stop watching the file descriptors; close them if they are one, a socket's."""
        self._poller.close()
        if self._read_fd == self._write_fd:
            os.close(self._read_fd)

    def _write(self) -> None:
        while self._out or self._rest:
            if not self._rest:
                self._rest = memoryview(b"".join(self._out))
                self._out.clear()
            try:
                written = write_some(self._write_fd, self._rest)
            except OSError as error:
                raise LoadError(f"the server does not read any more: {error}") from error
            self._rest = self._rest[written:]
            if not written:
                break
        wants = bool(self._rest)
        if wants != self._is_writing:
            self._is_writing = wants
            self._watch(wants=wants)

    def _watch(self, *, wants: bool) -> None:
        if self._write_fd == self._read_fd:
            self._poller.modify(self._read_fd, select.EPOLLIN | (select.EPOLLOUT if wants else 0))
        elif wants:
            self._poller.register(self._write_fd, select.EPOLLOUT)
        else:
            self._poller.unregister(self._write_fd)

    def _read(self) -> list[bytes]:
        try:
            data = os.read(self._read_fd, CHUNK)
        except BlockingIOError:
            return []
        except OSError as error:
            raise LoadError(f"the connection is broken: {error}") from error
        if not data:
            raise LoadError("the server has ended")
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


def decode(data: bytes, payload: bytes) -> Message:
    """Decode a message, without its payloads if it is long.

    Raises:
        LoadError: It is no JSON object.
    """
    found = 0
    if payload and len(data) > LONG:
        found = data.count(payload)
        data = data.replace(payload, b"")
    try:
        message = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise LoadError(f"no JSON: {error}: {data[:200]!r}") from error
    if not isinstance(message, dict):
        raise LoadError(f"no message: {data[:200]!r}")
    if found:
        message["payloads"] = found
    return message  # pyright: ignore[reportUnknownVariableType] - JSON
