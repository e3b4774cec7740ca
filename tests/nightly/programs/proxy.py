"""Stands between a client and an HTTP server on loopback: hands on bytes, looks away, and writes down what they mean."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import attrs
import trio

from tests.simulation.record import Log
from tests.simulation.wires import SHOWN


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
    """One TCP connection of a client, and what is said on it: one HTTP request after another."""

    log: Log
    conn: int
    numbers: Iterator[int]
    number: int = 0
    request: list[str] = attrs.field(factory=list[str])
    body: bytearray = attrs.field(factory=bytearray)
    is_open: bool = False

    def add(self, ev: str, **data: Any) -> None:
        self.log.add(ev, conn=self.conn, stream=self.number, **data)

    def request_head(self, lines: list[str]) -> bool:
        self.request = lines
        self.body.clear()
        return True

    def request_end(self) -> None:
        self.number, self.is_open = next(self.numbers), True
        fields = dict(line.lower().split(": ", 1) for line in self.request[1:])
        about: dict[str, Any] = {
            "method": self.request[0].split()[0],
            "headers": {name: fields[name] for name in SHOWN & fields.keys()},
            "raw": self.body.decode(),
        }
        self.add("http-sent", **about)
        self.add("http-request", **about)

    def response_head(self, lines: list[str]) -> bool:
        status = int(lines[0].split()[1])
        fields = dict(line.lower().split(": ", 1) for line in lines[1:])
        self.add("http-head", status=status, headers={name: fields[name] for name in SHOWN & fields.keys()})
        return status not in {204, 304}

    def response_body(self, part: bytes) -> None:
        raw = part.decode("utf-8", "replace")
        self.add("http-said", raw=raw)
        self.add("http-heard", raw=raw)

    def end(self, how: str) -> None:
        if self.is_open:
            self.is_open = False
            self.add("http-end", how=how)


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
    log: Log,
    conn: int,
    port: int,
    stalls: Sequence[tuple[str, float, float]],
    *,
    task_status: trio.TaskStatus[Proxy],
) -> None:
    """Relay to a port on loopback, from a port of our own, which is told."""
    numbers = itertools.count(1_000 * conn)
    proxy = Proxy(0)

    async def look_away(end: str) -> None:
        for stalled, at, seconds in stalls:
            if stalled == end and at <= trio.current_time():
                await trio.sleep_until(at + seconds)

    async def relay(near: trio.SocketStream) -> None:
        proxy.streams += 1
        try:
            await relay_stream(near)
        finally:
            proxy.streams -= 1

    async def relay_stream(near: trio.SocketStream) -> None:
        stream = Stream(log, conn, numbers)
        inward = HttpReader(stream.request_head, stream.body.extend, stream.request_end)
        outward = HttpReader(stream.response_head, stream.response_body, partial(stream.end, "complete"))
        try:
            far = await trio.open_tcp_stream("127.0.0.1", port)
        except OSError:
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
            stream.end("left")
            scope.cancel()  # nobody here closes one half only

        async def to_client(scope: trio.CancelScope) -> None:
            try:
                while chunk := await far.receive_some(65536):
                    await look_away("client")
                    outward.feed(chunk)
                    await near.send_all(chunk)
            except trio.BrokenResourceError:
                pass
            stream.end("failed")
            scope.cancel()

        async with near, far, trio.open_nursery() as nursery:
            nursery.start_soon(to_server, nursery.cancel_scope)
            nursery.start_soon(to_client, nursery.cancel_scope)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, relay, 0, host="127.0.0.1"))
        proxy.port = listeners[0].socket.getsockname()[1]
        task_status.started(proxy)
