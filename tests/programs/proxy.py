"""Stands between a client and an HTTP server on loopback: hands on bytes, looks away, and writes down what they mean."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
import trio

from .plan import LookAway
from .record import Record, message_token


@attrs.define
class HttpReader:
    """Finds the messages of one direction of an HTTP/1.1 connection.

    Attributes:
        on_head: Called with the lines of a head; returns whether a body can follow.
        on_body: Called with parts of a body.
        on_end: Called at the end of a message.
    """

    on_head: Callable[[list[str]], bool]
    on_body: Callable[[bytes], None]
    on_end: Callable[[], None]
    _buffer: bytearray = attrs.field(factory=bytearray)
    _left: int = 0
    _state: str = "head"

    def feed(self, data: bytes) -> None:
        """Take bytes as they come."""
        self._buffer += data
        while self._step():
            pass

    @property
    def is_between(self) -> bool:
        """Whether the last message is complete, and nothing of the next one has come."""
        return self._state == "head" and not self._buffer

    def _line(self) -> bytes | None:
        line, found, _ = bytes(self._buffer).partition(b"\r\n")
        if not found:
            return None
        del self._buffer[: len(line) + 2]
        return line

    def _end(self) -> bool:
        self._state = "head"
        self.on_end()
        return True

    def _step(self) -> bool:
        match self._state:
            case "head":
                head, found, _ = bytes(self._buffer).partition(b"\r\n\r\n")
                if not found:
                    return False
                del self._buffer[: len(head) + 4]
                lines = head.decode("latin-1").split("\r\n")
                fields = {
                    name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
                }
                if lines[0].startswith("HTTP/1.1 1"):
                    return True
                if not self.on_head(lines):
                    return self._end()
                if "chunked" in fields.get("transfer-encoding", ""):
                    self._state = "size"
                    return True
                if "content-length" in fields:
                    self._left, self._state = int(fields["content-length"]), "body"
                    return True
                if lines[0].startswith("HTTP/"):
                    self._state = "rest"
                    return True
                return self._end()
            case "size":
                if (line := self._line()) is None:
                    return False
                self._left = int(line.split(b";")[0], 16)
                self._state = "chunk" if self._left else "trailer"
                return True
            case "trailer":
                return self._line() is not None and self._end()
            case "chunk":
                if len(self._buffer) < self._left + 2:
                    return False
                self.on_body(bytes(self._buffer[: self._left]))
                del self._buffer[: self._left + 2]
                self._state = "size"
                return True
            case "rest":
                self.on_body(bytes(self._buffer))
                self._buffer.clear()
                return False
            case _:
                if self._left and not self._buffer:
                    return False
                part = bytes(self._buffer[: self._left])
                del self._buffer[: len(part)]
                self._left -= len(part)
                self.on_body(part)
                return self._left == 0 and self._end()


@attrs.define(eq=False)
class Stream:
    """One TCP connection of a client, and what is said on it."""

    record: Record
    client: int
    number: int
    request: list[str] = attrs.field(factory=list[str])
    body: bytearray = attrs.field(factory=bytearray)
    answer: bytearray = attrs.field(factory=bytearray)
    message: Any = None
    is_events: bool = False
    is_open: bool = False

    def add(self, kind: str, **data: Any) -> None:
        self.record.add(kind, self.client, message_token(self.message), stream=self.number, **data)

    def request_head(self, lines: list[str]) -> bool:
        self.request = lines
        self.body.clear()
        return True

    def request_end(self) -> None:
        self.message = json.loads(self.body) if self.body else None
        self.is_open = True
        self.add("http-request", method=self.request[0].split()[0], message=self.message)

    def response_head(self, lines: list[str]) -> bool:
        status = int(lines[0].split()[1])
        self.is_events = any("text/event-stream" in line.lower() for line in lines)
        self.answer.clear()
        self.add("http-status", status=status)
        return status not in {204, 304}

    def response_body(self, part: bytes) -> None:
        self.answer += part
        while self.is_events and b"\n\n" in self.answer.replace(b"\r\n", b"\n"):
            event, _, rest = bytes(self.answer).replace(b"\r\n", b"\n").partition(b"\n\n")
            self.answer[:] = rest
            data = b"\n".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
            if data:
                self.said(data)

    def said(self, data: bytes) -> None:
        try:
            self.add("http-said", message=json.loads(data))
        except ValueError:
            self.record.add("torn", self.client, end="server", way="out", data=repr(data[:200]))

    def response_end(self) -> None:
        if self.answer and not self.is_events:
            self.said(bytes(self.answer))
        self.is_open = False
        self.add("http-response-end")
        self.message = None


@attrs.define(eq=False)
class Proxy:
    """A proxy that is being served.

    Attributes:
        port: Where, on loopback.
        streams: How many connections are open.
    """

    port: int
    streams: int = 0

    async def wait_idle(self) -> None:
        """Wait until every connection has ended, and the end of each is written down."""
        await trio.sleep(0.05)  # for one that was not accepted yet
        while self.streams:
            await trio.sleep(0.02)


async def serve_proxy(  # noqa: ASYNC114
    record: Record, client: int, port: int, away: Sequence[LookAway], *, task_status: trio.TaskStatus[Proxy]
) -> None:
    """Relay to a port on loopback, from a port of our own, which is told."""
    begin = trio.current_time()
    count = 0
    proxy = Proxy(0)

    async def look_away(end: str) -> None:
        for window in away:
            if window.end == end and begin + window.at <= trio.current_time():
                await trio.sleep_until(begin + window.at + window.seconds)

    async def relay(near: trio.SocketStream) -> None:
        proxy.streams += 1
        try:
            await relay_stream(near)
        finally:
            proxy.streams -= 1

    async def relay_stream(near: trio.SocketStream) -> None:
        nonlocal count
        count += 1
        stream = Stream(record, client, count)
        inward = HttpReader(stream.request_head, stream.body.extend, stream.request_end)
        outward = HttpReader(stream.response_head, stream.response_body, stream.response_end)
        try:
            far = await trio.open_tcp_stream("127.0.0.1", port)
        except OSError:
            stream.add("http-refused")
            await near.aclose()
            return

        async def to_server(scope: trio.CancelScope) -> None:
            try:
                while chunk := await near.receive_some(65536):
                    await look_away("server")
                    inward.feed(chunk)
                    await far.send_all(chunk)
            except trio.BrokenResourceError:
                pass
            stream.add("http-hang-up", is_open=stream.is_open, is_between=inward.is_between)
            scope.cancel()  # nobody here closes one half only

        async def to_client(scope: trio.CancelScope) -> None:
            try:
                while chunk := await far.receive_some(65536):
                    await look_away("client")
                    outward.feed(chunk)
                    await near.send_all(chunk)
            except trio.BrokenResourceError:
                pass
            stream.add("http-server-gone", is_open=stream.is_open)
            scope.cancel()

        async with near, far, trio.open_nursery() as nursery:
            nursery.start_soon(to_server, nursery.cancel_scope)
            nursery.start_soon(to_client, nursery.cancel_scope)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, relay, 0, host="127.0.0.1"))
        proxy.port = listeners[0].socket.getsockname()[1]
        task_status.started(proxy)
