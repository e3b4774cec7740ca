"""What went over the wire between a client and a server of HTTP: listened to in between, by neither of the two.

Either around an ASGI application in this process, or as a proxy of bytes between real sockets.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, final

import attrs
import h11
import trio
from inside_base import open_hidden_nursery
from inside_wire import is_array
from tape import Tape

__all__ = ["HttpLog", "Seen", "open_http_tap", "tap_application"]

_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError)
_MAX_HEAD = 1 << 20
_App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


@attrs.define(eq=False)
class Seen:
    """One HTTP request.

    Attributes:
        method: Of HTTP.
        headers: Its header fields, names in lower case.
        message: Its body; `None` if there is none, or not all of it yet.
        status: Of the answer; `None` until there is one.
        content_type: Of the answer.
        end: How the answer ended: ``"complete"``; ``"left"`` if the client went first, and ``"cut"`` if the server
            did. `None` until it does.
    """

    method: str
    headers: dict[str, str]
    message: Any
    status: int | None = None
    content_type: str | None = None
    end: Literal["complete", "left", "cut"] | None = None

    @property
    def rpc(self) -> str | None:
        """The method of the message, if it is one message that has one."""
        method: str | None = (
            None if self.message is None or is_array(self.message) else self.message.get("method")
        )
        return method

    def take_head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Note the head of the answer."""
        self.status = status
        found = [bytes(value) for name, value in headers if bytes(name).lower() == b"content-type"]
        self.content_type = found[0].decode("latin-1") if found else None


@final
class HttpLog:
    """All requests, in order."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def of(self, rpc: str) -> list[Seen]:
        """Return the requests that bring a message of a method."""
        return [one for one in self.seen if one.rpc == rpc]

    def requests(self) -> set[Any]:
        """Return the ids of all requests of the protocol."""
        messages: list[Any] = []
        for one in self.seen:
            messages += one.message if is_array(one.message) else [one.message]
        return {m["id"] for m in messages if m is not None and "method" in m and "id" in m}

    def left(self) -> Counter[Any]:
        """Return the ids of the requests whose answers the client has left."""
        return Counter(one.message["id"] for one in self.seen if one.end == "left" and one.message is not None)

    def told(self) -> Counter[Any]:
        """Return the ids of the requests that the client has given up by a notification."""
        return Counter(one.message["params"]["requestId"] for one in self.of("notifications/cancelled"))

    def told_of(self, tape: Tape, *, is_sse: bool) -> Counter[Any]:
        """Return the same, and check that it is what the client has said there.

        Over HTTP+SSE a goodbye waits until its request is accepted; an answer that comes first takes it back.
        """
        told, said = self.told(), tape.goodbyes()
        taken_back = said - told
        assert told == said - taken_back
        assert not taken_back or (is_sse and taken_back.keys() <= tape.answers().keys())
        return told

    def add(self, method: str, headers: dict[str, str], message: Any = None) -> Seen:
        """Note a request."""
        one = Seen(method, headers, message)
        self.seen.append(one)
        return one


def tap_application(app: _App, log: HttpLog) -> _App:
    """Return an ASGI application that notes what passes."""

    async def tapped(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        one = log.add(scope["method"], headers)
        body = b""

        async def listen() -> Any:
            nonlocal body
            message = await receive()
            if message["type"] == "http.disconnect":
                one.end = one.end or "left"
            else:
                body += message.get("body", b"")
                if body and not message.get("more_body", False):
                    one.message = json.loads(body)
            return message

        async def speak(message: Any) -> None:
            if message["type"] == "http.response.start":
                one.take_head(message["status"], message.get("headers", ()))
            elif not message.get("more_body", False):
                one.end = one.end or "complete"
            await send(message)

        try:
            await app(scope, listen, speak)
        finally:
            one.end = one.end or "cut"

    return tapped


@asynccontextmanager
async def open_http_tap(port: int, log: HttpLog) -> AsyncGenerator[int]:
    """Pass on what comes to a port of its own, which is returned, and note it."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")

    async def handle(client: trio.SocketStream) -> None:
        await _Connection(client, log).run(port)

    async with open_hidden_nursery() as nursery:
        await nursery.start(trio.serve_listeners, handle, listeners)
        try:
            yield listeners[0].socket.getsockname()[1]
        finally:
            nursery.cancel_scope.cancel()


@final
class _Connection:
    """One connection through the tap."""

    def __init__(self, client: trio.SocketStream, log: HttpLog) -> None:
        self._client = client
        self._log = log
        self._requests = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        self._responses = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        self._head: h11.Request | None = None
        self._body = b""
        self._one: Seen | None = None

    async def run(self, port: int) -> None:
        try:
            server = await trio.open_tcp_stream("127.0.0.1", port)
        except OSError:
            await trio.aclose_forcefully(self._client)  # as if nobody were there
            return
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._client)
            raise
        try:
            async with trio.open_nursery() as nursery:

                async def pump(source: trio.SocketStream, sink: trio.SocketStream, end: Any, read: Any) -> None:
                    with suppress(*_BROKEN):
                        while data := await source.receive_some():
                            read(bytes(data))
                            try:
                                await sink.send_all(data)
                            except _BROKEN:
                                return  # what the other has said before it went is still passed on
                    if self._one is not None and self._one.end is None:
                        self._one.end = end
                    nursery.cancel_scope.cancel()

                nursery.start_soon(pump, self._client, server, "left", self._asked)
                nursery.start_soon(pump, server, self._client, "cut", self._answered)
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._client)
                await trio.aclose_forcefully(server)

    def _asked(self, data: bytes) -> None:
        parser = self._requests
        parser.receive_data(data)
        while isinstance(event := parser.next_event(), (h11.Request, h11.Data, h11.EndOfMessage)):
            if isinstance(event, h11.Request):
                self._head, self._body = event, b""
            elif isinstance(event, h11.Data):
                self._body += bytes(event.data)
            else:
                assert self._head is not None
                headers = {name.decode(): value.decode("latin-1") for name, value in self._head.headers}
                message = json.loads(self._body) if self._body else None
                self._one = self._log.add(self._head.method.decode(), headers, message)
                self._responses.send(h11.Request(method=self._head.method, target="/", headers=[("host", "x")]))
                self._responses.send(h11.EndOfMessage())
                parser.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                parser.send(h11.EndOfMessage())
                parser.start_next_cycle()

    def _answered(self, data: bytes) -> None:
        parser = self._responses
        parser.receive_data(data)
        while isinstance(event := parser.next_event(), (h11.Response, h11.Data, h11.EndOfMessage)):
            if self._one is None:
                continue
            if isinstance(event, h11.Response):
                self._one.take_head(event.status_code, event.headers)
            elif isinstance(event, h11.EndOfMessage):
                self._one.end = "complete"
                if parser.their_state is h11.DONE:
                    parser.start_next_cycle()
