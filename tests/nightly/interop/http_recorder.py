"""Stands between clients and a server over HTTP: hands every byte on as it is, and records what is said.

What is understood here is only what is recorded; it changes nothing of what goes through. A client that leaves a
connection, and a server that does, are followed at once, since leaving means something over HTTP.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, final
from urllib.parse import urlsplit, urlunsplit

import h11
import trio
from inside_wire import is_array, is_object
from official_wire import Side
from recordings import HttpExchange, Recording

PIECE: Final = 64 * 1024
LONGEST_HEAD: Final = 256 * 1024


@final
class HttpRecorder:
    """Records all that goes to one server. Made by `open_http_recorder`.

    Attributes:
        url: Where clients find the server.
        recording: What went by, in its order.
    """

    def __init__(self, url: str, port: int) -> None:
        self.url = url
        self.recording = Recording()
        self._port = port
        self._connections: dict[trio.CancelScope, trio.Event] = {}

    async def cut(self, url: str | None = None) -> None:
        """Cut all connections, as a broken network does; the next ones go to the server at a URL, if one is told."""
        await trio.lowlevel.checkpoint()
        if url is not None:
            self._port = _port_of(url)
        connections = dict(self._connections)
        for scope in connections:
            scope.cancel(reason="the network breaks")
        for is_cut in connections.values():
            await is_cut.wait()

    async def hand_on(self, client: trio.SocketStream) -> None:
        """Serve one connection."""
        try:
            server = await trio.open_tcp_stream("127.0.0.1", self._port)
        except OSError:
            await trio.aclose_forcefully(client)  # it has ended
            return
        overhearing = _Overhearing(self.recording)
        async with client, server, trio.open_nursery() as nursery:
            is_over = self._connections[nursery.cancel_scope] = trio.Event()
            for source, target, overhear in (
                (client, server, overhearing.take_from_client),
                (server, client, overhearing.take_from_server),
            ):
                nursery.start_soon(_pump, source, target, overhear, nursery.cancel_scope)
        del self._connections[nursery.cancel_scope]
        is_over.set()


def _port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


async def _pump(
    source: trio.SocketStream,
    target: trio.SocketStream,
    overhear: Callable[[bytes], None],
    scope: trio.CancelScope,
) -> None:
    """Copy one direction until it ends, which ends the other too."""
    try:
        async for piece in source:
            overhear(bytes(piece))
            await target.send_all(piece)
        overhear(b"")
    except trio.BrokenResourceError:
        pass  # whoever has gone has been followed
    scope.cancel(reason="one side has gone")


@asynccontextmanager
async def open_http_recorder(url: str) -> AsyncGenerator[HttpRecorder]:
    """Record what goes to the server at a URL."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]
    recorder = HttpRecorder(urlunsplit(urlsplit(url)._replace(netloc=f"127.0.0.1:{port}")), _port_of(url))
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(trio.serve_listeners, recorder.hand_on, [listener]))
        yield recorder
        nursery.cancel_scope.cancel(reason="nobody connects any more")


@final
class _Overhearing:
    """Understands what goes over one connection."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._requests = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        self._responses: h11.Connection | None = None
        self._exchange: HttpExchange | None = None
        self._body = bytearray()
        self._answer = bytearray()

    def take_from_client(self, piece: bytes) -> None:
        """Take what the client wrote next; nothing at its end."""
        if not piece:
            return  # it may go in the middle
        self._requests.receive_data(piece)
        while True:
            match self._requests.next_event():
                case h11.Request() as request:
                    self._begin(request)
                case h11.Data(data=data):
                    self._body += data
                case h11.EndOfMessage():
                    self._record("client", bytes(self._body))
                    self._body.clear()
                    rest, _ = self._requests.trailing_data
                    self._requests = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
                    if not rest:
                        return
                    self._requests.receive_data(rest)
                case _:
                    return

    def _begin(self, request: h11.Request) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        self._exchange = HttpExchange(request.method.decode(), request.target.decode(), headers)
        self._recording.exchanges.append(self._exchange)
        self._responses = h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST_HEAD)
        self._responses.send(h11.Request(method=request.method, target=request.target, headers=[("Host", "x")]))
        self._responses.send(h11.EndOfMessage())

    def take_from_server(self, piece: bytes) -> None:
        """Take what the server wrote next; nothing at its end."""
        if self._responses is None or self._exchange is None:
            return
        self._responses.receive_data(piece)
        while True:
            try:
                event = self._responses.next_event()
            except h11.RemoteProtocolError:
                return  # it went in the middle
            match event:
                case h11.Response(status_code=status, headers=headers):
                    self._exchange.status = status
                    self._exchange.answered = {name.decode(): value.decode("latin-1") for name, value in headers}
                case h11.Data(data=data):
                    self._answer += data
                    if self._streams():
                        self._take_events()
                case h11.EndOfMessage():
                    self._exchange.is_complete = True
                    if not self._streams():
                        self._record("server", bytes(self._answer))
                    self._answer.clear()
                    return
                case h11.InformationalResponse():
                    pass
                case _:
                    return

    def _streams(self) -> bool:
        assert self._exchange is not None
        return self._exchange.answered.get("content-type", "").startswith("text/event-stream")

    def _take_events(self) -> None:
        """Record the messages in the events that are complete."""
        *events, rest = self._answer.replace(b"\r\n", b"\n").split(b"\n\n")
        self._answer[:] = rest
        for event in events:
            fields = [line.partition(b":") for line in bytes(event).split(b"\n")]
            assert self._exchange is not None
            self._exchange.event_ids += [value.decode().strip() for name, _, value in fields if name == b"id"]
            kinds = [value.strip() for name, _, value in fields if name == b"event"]
            if kinds in ([], [b"message"]):
                data = [value.removeprefix(b" ") for name, _, value in fields if name == b"data"]
                self._record("server", b"\n".join(data))

    def _record(self, side: Side, body: bytes) -> None:
        """Record the messages in a body, if there are any in it."""
        try:
            said: Any = json.loads(body)
        except ValueError:
            return
        for message in said if is_array(said) else [said]:
            if is_object(message) and "jsonrpc" in message:
                if side == "client" and self._exchange is not None:
                    self._exchange.messages.append(message)
                self._recording.lines.append((side, json.dumps(message).encode()))
