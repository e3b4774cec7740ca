"""Wires that do what wires do when they are at their worst, as a seed decides, and note what passes.

Below every duplex transport there is a `Weather`, which stalls either direction or breaks the connection. What one end
gives to the wire is noted as ``out``, and what the other end is given as ``in``, each as the text it is.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, final

import attrs
import trio

from trio_mcp import (
    Channel,
    ConnectionLost,
    Incoming,
    MemoryChannel,
    Notification,
    Outgoing,
    Received,
    RequestId,
)
from trio_mcp.testing import FaultyApp, HttpFault

from .program import Damage
from .record import End, Log

ENDS: Final[tuple[End, End]] = ("client", "server")


@attrs.define(eq=False)
class Weather:
    """What befalls one connection, and its part of the log.

    Attributes:
        log: Where it is noted.
        conn: The number of the connection.
        rng: Decides what the program does not say.
        link: How many connections of that number there were before: each that connects again has a wire of its own.
        until: Until when an end gets nothing.
        is_cut: Whether the connection is broken.
        changed: Who waits for any of that.
    """

    log: Log
    conn: int
    rng: random.Random
    link: int = 0
    until: dict[End, float] = attrs.field(factory=lambda: {"client": -math.inf, "server": -math.inf})
    is_cut: bool = False
    changed: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)
    on_change: list[Callable[[], object]] = attrs.field(factory=list[Callable[[], object]])

    def _change(self) -> None:
        self.changed.unpark_all()
        for call in self.on_change:
            call()

    def stall(self, end: End, seconds: float) -> None:
        """Let an end get nothing for a while."""
        self.log.add("stall", conn=self.conn, end=end, seconds=seconds)
        self.until[end] = max(self.until[end], trio.current_time() + seconds)
        self._change()

    def cut(self) -> None:
        """Break the connection; what is under way is lost."""
        if not self.is_cut:
            self.log.add("cut", conn=self.conn)
            self.is_cut = True
            self._change()

    def is_clear(self, end: End) -> bool:
        """Whether an end gets anything now."""
        return self.is_cut or trio.current_time() >= self.until[end]

    async def wait_clear(self, end: End) -> None:
        """Wait until an end gets something, or the connection is broken."""
        while not self.is_clear(end):
            with trio.move_on_at(self.until[end]):
                await self.changed.park()

    def check(self) -> None:
        """Raise if the connection is broken."""
        if self.is_cut:
            raise ConnectionLost("the wire was cut")

    def note(self, way: str, end: End, data: bytes | str, together: int = 1) -> None:
        """Note a message."""
        raw = data.decode() if isinstance(data, bytes) else data
        more = {"together": together} if together > 1 else {}
        if self.link:
            more["link"] = self.link
        self.log.add(way, conn=self.conn, end=end, raw=raw, **more)


# ---- messages ----


@final
class MemoryWire(Channel):
    """One end of `memory_channel_pair`, whose reader looks away when its weather says so."""

    def __init__(self, inner: MemoryChannel, weather: Weather, end: End) -> None:
        self._inner = inner
        self._weather = weather
        self._end: End = end
        self._kept: deque[Received] = deque()
        self._one_by_one = weather.rng.random() < 0.6
        self._waiting: set[trio.CancelScope] = set()
        self._closed = False
        weather.on_change.append(self._wake)

    def _wake(self) -> None:
        if not self._weather.is_clear(self._end) or self._weather.is_cut:
            for scope in self._waiting:
                scope.cancel()

    async def receive(self) -> Sequence[Received]:
        while True:
            await trio.lowlevel.checkpoint_if_cancelled()
            if not self._closed:
                await self._weather.wait_clear(self._end)
                self._weather.check()
            if self._kept:
                return [self._note(self._kept.popleft(), 1)]
            with trio.CancelScope() as scope:
                self._waiting.add(scope)
                try:
                    received = await self._inner.receive()
                finally:
                    self._waiting.discard(scope)
                if self._one_by_one and len(received) > 1:
                    self._kept.extend(received)
                    continue
                return [self._note(message, len(received)) for message in received]

    def _note(self, message: Received, together: int) -> Received:
        assert isinstance(message, Incoming)
        self._weather.note("in", self._end, message.data, together)
        return message

    async def send(self, messages: Sequence[Outgoing]) -> None:
        self._weather.check()
        for message in messages:
            self._weather.note("out", self._end, message.data)
        with trio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                await self._inner.send(messages)
            finally:
                self._waiting.discard(scope)
        if scope.cancelled_caught:
            if self._weather.is_cut:
                self._weather.check()
            await self._inner.send(messages)  # cancelled, it was not sent; this end does not read, and may write

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        self._weather.check()
        taken = self._inner.send_nowait(messages)
        for message in messages:
            self._weather.note("out", self._end, message.data)
        return taken

    def give_up(self, request_id: RequestId, reason: str | None) -> Notification | None:
        return self._inner.give_up(request_id, reason)

    async def aclose(self) -> None:
        self._closed = True
        self._weather.log.add("closing", conn=self._weather.conn, end=self._end)
        self._weather.changed.unpark_all()
        await self._inner.aclose()


class _Direction:
    """One way of messages: each with a latency, through a pipe that is short."""

    def __init__(self, weather: Weather, to: End) -> None:
        rng = weather.rng
        self.weather = weather
        self.to: End = to
        self.capacity = rng.choice((1, 2, 8))
        self.latencies = (0.0,) if rng.random() < 0.4 else (0.0, 0.0, 0.001, 0.05, 1.0)
        self.at_once = rng.random() < 0.7
        self.queue: deque[tuple[float, bytes]] = deque()
        self.ended = False
        self.unread = False

    def touch(self) -> None:
        self.weather.changed.unpark_all()

    def _append(self, data: bytes) -> None:
        last = self.queue[-1][0] if self.queue else 0.0
        due = trio.current_time() + self.weather.rng.choice(self.latencies)
        self.queue.append((max(last, due), data))
        self.touch()

    async def put(self, data: bytes) -> None:
        while len(self.queue) >= self.capacity:
            self.check_open()
            await self.weather.changed.park()
        self.check_open()
        self._append(data)

    def put_nowait(self, data: bytes) -> None:
        self.check_open()
        if len(self.queue) >= self.capacity or self.weather.rng.random() < 0.3:
            raise trio.WouldBlock
        self._append(data)

    def check_open(self) -> None:
        self.weather.check()
        if self.ended:
            raise trio.ClosedResourceError("this end is closed")
        if self.unread:
            raise ConnectionLost("the other end is closed")

    async def get(self) -> list[bytes]:
        while True:
            self.weather.check()
            if self.unread:
                raise trio.ClosedResourceError("this end is closed")
            if not self.weather.is_clear(self.to):
                await self.weather.wait_clear(self.to)
            elif self.queue:
                if self.queue[0][0] <= trio.current_time():
                    break
                with trio.move_on_at(self.queue[0][0]):
                    await self.weather.changed.park()
            elif self.ended:
                raise trio.EndOfChannel
            else:
                await self.weather.changed.park()
        arrived: list[bytes] = []
        for _ in range(self.weather.rng.randint(1, 3)):
            if not self.queue or self.queue[0][0] > trio.current_time():
                break
            arrived.append(self.queue.popleft()[1])
        self.touch()
        return arrived


@final
class MessageWire(Channel):
    """One end of a wire of messages, which takes some of what it is given at once, and the rest when there is room."""

    def __init__(self, outgoing: _Direction, incoming: _Direction, end: End) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._end: End = end
        self._weather = outgoing.weather
        self._rest: deque[bytes] = deque()

    async def receive(self) -> Sequence[Received]:
        await trio.lowlevel.checkpoint()
        arrived = await self._incoming.get()
        for data in arrived:
            self._weather.note("in", self._end, data, len(arrived))
        return [Incoming(data) for data in arrived]

    async def send(self, messages: Sequence[Outgoing]) -> None:
        for message in messages:  # before anything waits: from here on it is as good as sent
            self._weather.note("out", self._end, message.data)
            self._rest.append(message.data)
        await trio.lowlevel.checkpoint()
        while self._rest:
            await self._outgoing.put(self._rest[0])
            self._rest.popleft()

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        assert not self._rest, "the rest comes first"
        if not self._outgoing.at_once:
            raise trio.WouldBlock
        for index, message in enumerate(messages):
            try:
                self._outgoing.put_nowait(message.data)
            except trio.WouldBlock:
                if not index:
                    raise
                for rest in messages[index:]:
                    self._weather.note("out", self._end, rest.data)
                    self._rest.append(rest.data)
                return False
            self._weather.note("out", self._end, message.data)
        return True

    async def aclose(self) -> None:
        self._weather.log.add("closing", conn=self._weather.conn, end=self._end)
        self._outgoing.ended = self._incoming.unread = True
        self._weather.changed.unpark_all()
        await trio.lowlevel.checkpoint()


def message_wire_pair(weather: Weather) -> tuple[MessageWire, MessageWire]:
    """Return the client's end and the server's."""
    there, back = _Direction(weather, "server"), _Direction(weather, "client")
    return MessageWire(there, back, "client"), MessageWire(back, there, "server")


# ---- bytes ----


class Splitter(Protocol):
    """Finds the messages in bytes, to note them."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete now."""
        ...

    @property
    def rest(self) -> bytes:
        """What is not complete."""
        ...

    @property
    def close_code(self) -> int | None:
        """The code with which the connection was closed, if the wire has such codes and it was."""
        ...


@final
class LineSplitter:
    """One message a line."""

    close_code = None

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [line for line in lines if line]


@final
class FrameSplitter:
    """One message a text frame, behind a handshake (RFC 6455, 5.2). Of frames of control only closing is read."""

    def __init__(self) -> None:
        self.rest = b""
        self.close_code: int | None = None
        self._message = b""
        self._is_open = False
        self._has_ended = False

    def feed(self, data: bytes) -> list[bytes]:
        self.rest += data
        found: list[bytes] = []
        if not self._is_open:
            head, mark, rest = self.rest.partition(b"\r\n\r\n")
            if not mark:
                return []
            del head
            self._is_open, self.rest = True, rest
        while len(self.rest) >= 2:
            first, second = self.rest[0], self.rest[1]
            size, at = second & 0x7F, 2
            if size > 125:
                width = 2 if size == 126 else 8
                if len(self.rest) < at + width:
                    break
                size = int.from_bytes(self.rest[at : at + width], "big")
                at += width
            mask = b""
            if second & 0x80:
                mask, at = self.rest[at : at + 4], at + 4
            if len(self.rest) < at + size:
                break
            payload, self.rest = self.rest[at : at + size], self.rest[at + size :]
            if mask and payload:
                repeated = (mask * (size // 4 + 1))[:size]
                payload = (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
            if first & 0x0F == 8:
                self.close_code = int.from_bytes(payload[:2], "big")
            elif first & 0x0F in {0, 1}:
                self._message += payload
                if first & 0x80:
                    found.append(self._message)
                    self._message = b""
        return found


class _Pipe:
    """One way of bytes: what is read comes in pieces of any size, late, and only so much lies in it."""

    def __init__(self, weather: Weather, to: End, split: Callable[[], Splitter]) -> None:
        rng = weather.rng
        self.weather = weather
        self.to: End = to
        self.capacity = rng.choice((50, 700, 8_000, 65_536, 65_536))
        self.piece = rng.choice((13, 200, 3_000, 65_536, 65_536))
        self.latency = 0.0 if rng.random() < 0.5 or self.capacity < 700 else rng.choice((0.001, 0.05, 0.5))
        self.pieces: deque[tuple[float, bytes]] = deque()
        self.size = 0
        self.ended = False
        self.closed = False
        self.is_closing = False
        self.written, self.read = split(), split()

    def check(self) -> None:
        if self.weather.is_cut:
            raise trio.BrokenResourceError("the wire was cut")

    async def write(self, data: bytes) -> None:
        end: End = "client" if self.to == "server" else "server"
        for message in self.written.feed(data):  # before anything waits: from here on it is as good as sent
            self.weather.note("out", end, message)
        if self.written.close_code is not None and not self.is_closing:
            self.is_closing = True
            self.weather.log.add("hanging-up", conn=self.weather.conn, end=end, code=self.written.close_code)
        await trio.lowlevel.checkpoint()
        view, at = bytes(data), 0
        while at < len(view):
            self.check()
            if self.ended:
                raise trio.ClosedResourceError("this end is closed")
            if self.closed:
                raise trio.BrokenResourceError("the other end is closed")
            room = self.capacity - self.size
            if room <= 0:
                await self.weather.changed.park()
                continue
            piece = view[at : at + min(room, self.piece)]
            at += len(piece)
            self.size += len(piece)
            self.pieces.append((trio.current_time() + self.latency, piece))
            self.weather.changed.unpark_all()

    async def receive(self, most: int) -> bytes:
        while True:
            if self.closed:
                raise trio.ClosedResourceError("this end is closed")
            self.check()
            if not self.weather.is_clear(self.to):
                await self.weather.wait_clear(self.to)
            elif self.pieces:
                if self.pieces[0][0] <= trio.current_time():
                    break
                with trio.move_on_at(self.pieces[0][0]):
                    await self.weather.changed.park()
            elif self.ended:
                return b""
            else:
                await self.weather.changed.park()
        taken = bytearray()
        while self.pieces and self.pieces[0][0] <= trio.current_time() and len(taken) < min(most, self.piece):
            due, piece = self.pieces.popleft()
            room = min(most, max(self.piece, 1)) - len(taken)
            taken += piece[:room]
            if piece[room:]:
                self.pieces.appendleft((due, piece[room:]))
        self.size -= len(taken)
        messages = self.read.feed(bytes(taken))
        for message in messages:
            self.weather.note("in", self.to, message, len(messages))
        self.weather.changed.unpark_all()
        return bytes(taken)


@final
class ByteWire(trio.abc.HalfCloseableStream):
    """One end of a connection of bytes."""

    def __init__(self, outgoing: _Pipe, incoming: _Pipe, end: End) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._end: End = end

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._outgoing.write(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        return await self._incoming.receive(max_bytes or 65_536)

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()
        self._outgoing.ended = True
        self._outgoing.weather.changed.unpark_all()

    def close(self) -> None:
        """Close both directions at once."""
        weather = self._outgoing.weather
        if not self._incoming.closed:
            weather.log.add("closing", conn=weather.conn, end=self._end)
        self._outgoing.ended = self._incoming.closed = True
        weather.changed.unpark_all()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()


def byte_wire_pair(weather: Weather, split: Callable[[], Splitter]) -> tuple[ByteWire, ByteWire]:
    """Return the client's end and the server's."""
    there, back = _Pipe(weather, "server", split), _Pipe(weather, "client", split)
    return ByteWire(there, back, "client"), ByteWire(back, there, "server")


# ---- HTTP ----

SHOWN: Final = frozenset({"mcp-session-id", "mcp-protocol-version", "last-event-id", "content-type"})
"""Header fields that are worth a note."""


@final
class _Exchange:
    """One HTTP request on its way."""

    def __init__(self, number: int, body: bytes) -> None:
        self.number = number
        self.body = body
        self.has_arrived = trio.Event()
        self.gone = trio.Event()
        self.is_over = False
        self.has_reported = False
        self.scope = trio.CancelScope()
        self.send, self.receive = trio.open_memory_channel[dict[str, Any]](0)


@final
class HttpWire:
    """An ASGI application between a client and a server, which may be another one later.

    The server's tasks are not the client's: they run in a nursery beside it, and learn of a disconnect as under any host.
    Single requests arrive behind the next one, and responses are split, damaged or end early, by two `FaultyApp`.

    Attributes:
        app: The server, or what stands for one that does not run.
    """

    def __init__(
        self, weather: Weather, server: HttpTarget, damages: Sequence[Damage] = (), *, has_get: bool
    ) -> None:
        self._weather = weather
        self._server = server
        self._has_get = has_get
        self._open: set[_Exchange] = set()
        late = [HttpFault("reorder", each.at, "POST") for each in damages if each.kind == "reorder"]
        self._arriving = FaultyApp(self._arrive, late) if late else None  # a step more would be another course
        self._patience = max([each.seconds for each in damages], default=0.0)
        rest = [
            HttpFault(each.kind, each.at, size=each.size, seconds=each.seconds)
            for each in damages
            if each.kind != "reorder"
        ]
        self._answering = FaultyApp(self._answer, rest) if rest else None
        self._happened = 0
        self._ending: set[int] = set()  # the responses that are to end early

    def break_streams(self) -> None:
        """Break the responses that are under way."""
        for exchange in sorted(self._open, key=lambda one: one.number):
            self._end(exchange, "broken")
            exchange.scope.cancel()

    def _end(self, exchange: _Exchange, how: str) -> None:
        if not exchange.is_over:
            exchange.is_over = True
            self._weather.log.add("http-end", conn=self._weather.conn, stream=exchange.number, how=how)
        exchange.gone.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        log, conn = self._weather.log, self._weather.conn
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        exchange = _Exchange(self._server.next_stream(), body)
        shown = _shown(scope)
        about = {"conn": conn, "stream": exchange.number}
        log.add("http-sent", **about, method=scope["method"], headers=shown, raw=body.decode())
        self._open.add(exchange)
        try:
            with exchange.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._listen, exchange, receive)
                    await self._weather.wait_clear("server")
                    if self._arriving is None:
                        await self._arrive({**scope, "exchange": exchange}, None, send)
                    else:
                        nursery.start_soon(self._hurry, exchange, self._arriving)
                        await self._arriving({**scope, "exchange": exchange}, _receive_of(exchange), send)
                    self._end(exchange, "complete" if exchange.is_over is False else "left")
                    nursery.cancel_scope.cancel()
        finally:
            self._open.discard(exchange)
            self._end(exchange, "left")
            exchange.receive.close()

    async def _hurry(self, exchange: _Exchange, arriving: FaultyApp) -> None:
        """Let a request that is to arrive behind the next one arrive behind that of another client, if none comes."""
        with trio.move_on_after(self._patience):
            await exchange.has_arrived.wait()
        if not exchange.has_arrived.is_set():
            await arriving({"type": "http", "method": "OPTIONS"}, _receive_of(_Exchange(0, b"")), _nowhere)

    async def _arrive(self, scope: Any, receive: Any, send: Any) -> None:
        """Be the server, for the requests of a client."""
        exchange: _Exchange | None = scope.pop("exchange", None)
        if exchange is None:
            return
        exchange.has_arrived.set()
        app, about = self._server.app, {"conn": self._weather.conn, "stream": exchange.number}
        if app is None or (scope["method"] == "GET" and not self._has_get):
            status = 503 if app is None else 405
            self._weather.log.add("http-head", **about, status=status, headers={})
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        raw, shown = exchange.body.decode(), _shown(scope)
        self._weather.log.add("http-request", **about, method=scope["method"], headers=shown, raw=raw)
        self._server.exchanges.start_soon(self._serve, app, exchange, dict(scope))
        if receive is not None:
            await receive()  # what was to arrive behind it arrives now
        await self._pass_on(exchange, send)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Be the application that runs now, behind what befalls its responses."""
        app, stream = scope.pop("app"), scope.pop("stream")
        assert self._answering is not None
        for fault in self._answering.happened[self._happened :]:
            if fault.kind == "half_close":
                self._ending.add(stream)
            elif fault.kind == "split" and fault.pause:
                about = {"conn": self._weather.conn, "stream": stream}
                self._weather.log.add("stall", **about, end="client", seconds=fault.pause)
        self._happened = len(self._answering.happened)
        await _run(app, scope, receive, send)

    def _note_damage(self, stream: int, message: dict[str, Any]) -> None:
        """Note what has been damaged when it shows: a program says nothing but ASCII."""
        kind = None if bytes(message.get("body", b"")).isascii() else "corrupt"
        if message["type"] == "http.response.body" and not message.get("more_body") and stream in self._ending:
            kind = "half_close"
        if kind is not None:
            self._weather.log.add("damage", conn=self._weather.conn, stream=stream, kind=kind)

    async def _listen(self, exchange: _Exchange, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._end(exchange, "left")
        exchange.scope.cancel()

    async def _pass_on(self, exchange: _Exchange, send: Any) -> None:
        is_complete = False
        about = {"conn": self._weather.conn, "stream": exchange.number}
        async for message in exchange.receive:
            if not self._weather.is_clear("client"):
                await self._weather.wait_clear("client")
            body = bytes(message.get("body", b""))
            if message["type"] == "http.response.body":
                is_complete = not message.get("more_body", False)
                if body:
                    self._weather.log.add("http-heard", **about, raw=_text(body))
                if is_complete:
                    self._end(exchange, "complete")
            await send(message)
            if is_complete:
                return
        if not is_complete:
            self._end(exchange, "failed")

    async def _serve(self, app: Any, exchange: _Exchange, scope: dict[str, Any]) -> None:
        bodies = deque([{"type": "http.request", "body": exchange.body, "more_body": False}])
        about = {"conn": self._weather.conn, "stream": exchange.number}

        async def receive() -> dict[str, Any]:
            await trio.lowlevel.checkpoint()
            if bodies and not exchange.gone.is_set():
                return bodies.popleft()
            await exchange.gone.wait()
            if exchange.has_reported:
                await trio.sleep_forever()  # as Hypercorn: a disconnect is reported once
            exchange.has_reported = True
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            await trio.lowlevel.checkpoint()
            self._note_damage(exchange.number, message)
            if message["type"] == "http.response.start":
                headers = {
                    bytes(name).decode().lower(): bytes(value).decode("latin-1")
                    for name, value in message.get("headers", ())
                }
                shown = {name: value for name, value in headers.items() if name in SHOWN}
                self._weather.log.add("http-head", **about, status=message["status"], headers=shown)
            elif body := bytes(message.get("body", b"")):
                self._weather.log.add("http-said", **about, raw=_text(body))
            if exchange.gone.is_set():
                return
            try:
                await exchange.send.send(dict(message))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return

        try:
            if self._answering is None:
                await _run(app, scope, receive, send)
            else:
                await self._answering({**scope, "app": app, "stream": exchange.number}, receive, send)
        except Exception as error:
            self._weather.log.add("http-failed", **about, how=repr(error))
        finally:
            exchange.send.close()
            self._weather.log.add("http-served", **about)


async def _run(app: Any, scope: Any, receive: Any, send: Any) -> None:
    """Run an application, unless it has ended meanwhile."""
    if app._endpoint is None:
        await send({"type": "http.response.start", "status": 503})
        await send({"type": "http.response.body"})
    else:
        await app(scope, receive, send)


def _shown(scope: Any) -> dict[str, str]:
    fields = ((name.decode(), value.decode("latin-1")) for name, value in scope["headers"])
    return {name: value for name, value in fields if name in SHOWN}


def _text(data: bytes) -> str:
    """Return what is noted of bytes. What was damaged is no text, and no JSON either."""
    return data.decode("utf-8", "backslashreplace")


def _receive_of(exchange: _Exchange) -> Callable[[], Awaitable[Any]]:
    """Return the `receive` of an application: the body, and then that the client has gone."""
    bodies = deque([{"type": "http.request", "body": exchange.body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        if bodies:
            return bodies.popleft()
        await exchange.gone.wait()
        return {"type": "http.disconnect"}

    return receive


async def _nowhere(_: object) -> None:
    await trio.lowlevel.checkpoint()


class HttpTarget(Protocol):
    """Where a wire of HTTP leads to."""

    @property
    def app(self) -> Any:
        """The application; `None` while none runs."""
        ...

    @property
    def exchanges(self) -> trio.Nursery:
        """Where its requests are served."""
        ...

    def next_stream(self) -> int:
        """Return a number for a request."""
        ...
