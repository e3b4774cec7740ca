"""A server as an ASGI application, for any framework that runs on Trio.

ASGI tells a disconnect once, and never again; a task that is cancelled while it receives may lose it. So one task
owns `receive` from the first instant of a request to its last, and everybody else asks that task.

The body of a request while it arrives: bounded in size and time, and gone when its sender goes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeAlias, final

import trio

from .._core._http_headers import HeaderField, Headers
from .._core._http_rules import HttpRefused, HttpServerSettings
from .._endpoint._call import SMALL, Authenticate, HttpCall, RequestLoans, gave_way
from .._endpoint._endpoint import Endpoint, open_endpoint
from .._endpoint._event_store import EventStore
from .._logs import Log
from .._server._server import Server
from .._trio import LightParkingLot, open_hidden_nursery
from ._wires import READ_AHEAD, READ_BYTES


@final
class RequestBody:
    """What has come of a body. What is more than little is lent to its sender, once that is known.

    Args:
        settings: How large it may be, and how long it may take.
        length: How much of it there will be; `None` if nobody has said so.
        closing: What a refusal says besides: that the rest, which nobody reads, costs the connection.

    Attributes:
        is_complete: Whether all of it has come.
    """

    __slots__ = (
        "_asked",
        "_changed",
        "_closing",
        "_covered",
        "_data",
        "_length",
        "_limit",
        "_loans",
        "_refusal",
        "_size",
        "_timeout",
        "is_complete",
    )

    def __init__(
        self, settings: HttpServerSettings, length: int | None, closing: Sequence[HeaderField] = ()
    ) -> None:
        self._length = length
        self._limit = settings.max_body_bytes
        self._timeout = settings.body_timeout
        self._closing = closing
        self._data: bytes | bytearray = b""
        self._size = 0
        self._covered = SMALL
        self._loans: RequestLoans | None = None
        self._refusal: HttpRefused | None = None
        self._changed: LightParkingLot | None = None
        self._asked: LightParkingLot | None = None
        self.is_complete = False

    @property
    def has_begun(self) -> bool:
        """Whether anything of it has come."""
        return self._size > 0

    @property
    def has_failed(self) -> bool:
        """Whether nothing more of it will come that could be used."""
        return self._refusal is not None

    @property
    def is_too_large(self) -> bool:
        """Whether more has come than may."""
        return self._size > self._limit

    @property
    def is_ahead(self) -> bool:
        """Whether no more of it should be read before somebody asks for it."""
        return self._size >= READ_AHEAD and self._loans is None and not self.is_complete

    @property
    def read_size(self) -> int:
        """How much to read next: hardly more than there is of it, so that little lies here of what is behind."""
        if self._length is None or self.is_complete:
            return READ_AHEAD
        return max(READ_AHEAD, min(READ_BYTES, self._length - self._size))

    async def wait_asked(self) -> None:
        """Wait while no more of it should be read. Does not checkpoint if more should."""
        while self.is_ahead:
            if self._asked is None:
                self._asked = LightParkingLot()
            await self._asked.park()

    def feed(self, data: bytes, *, is_complete: bool) -> None:
        """Take what comes next. Of a body that is too large, or has failed, nothing is kept."""
        self._size += len(data)
        if self._size > self._limit or self._refusal is not None:
            self._data = b""
        elif isinstance(self._data, bytearray):
            self._data += data
        elif self._data:
            self._data = bytearray(self._data)  # pieces can be so small that each weighs more than what is in it
            self._data += data
        else:
            self._data = data
        self.is_complete = is_complete
        if self._size > self._covered:
            self._cover()
        if self._changed is not None:
            self._wake()

    def _cover(self) -> None:
        """Let what has come be lent to whoever sends it."""
        if self._loans is not None and self._refusal is None and self._size <= self._limit:
            try:
                self._covered = self._loans.grow_body(self._size, self._give_way)
            except HttpRefused as refused:
                self._refuse(refused)

    def _give_way(self) -> None:
        self._refuse(gave_way("the body that has come"))

    def _refuse(self, refusal: HttpRefused) -> None:
        if self._refusal is None:
            self._refusal = refusal
        self._data = b""
        self._wake()

    def fail(self, problem: str) -> None:
        """Nothing more of it will come that could be used."""
        self._refuse(HttpRefused(400, problem, self._closing))

    def end(self) -> None:
        """Nothing more will come."""
        if not self.is_complete:
            self.fail("the client went away before its request was complete")

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.unpark_all()

    def check_length(self) -> None:
        """Look at the length that the request declares.

        Raises:
            HttpRefused: 413, because it is too large.
        """
        if self._length is not None and self._length > self._limit:
            raise self._too_large(f"{self._length} bytes")

    async def read(self, loans: RequestLoans) -> bytes:
        """Wait for all of it; see `HttpCall.read_body`. Does not checkpoint if it is there.

        Args:
            loans: What is lent to whoever sends it.
        """
        self._loans = loans
        if self._asked is not None:
            self._asked.unpark_all()
        if self._size > self._covered:
            self._cover()
        if self._must_wait:
            self._changed = LightParkingLot()
            with trio.move_on_after(self._timeout):
                while self._must_wait:
                    await self._changed.park()
        if self.is_too_large:
            raise self._too_large(f"more than {self._limit} bytes")
        if self._refusal is not None:
            raise self._refusal
        if self.is_complete:
            data, self._data = self._data, b""
            return bytes(data)
        problem = f"the body did not arrive within {self._timeout:g} seconds (body_timeout)"
        raise HttpRefused(408, problem, self._closing)

    @property
    def _must_wait(self) -> bool:
        return not (self.is_complete or self.has_failed or self.is_too_large)

    def _too_large(self, what: str) -> HttpRefused:
        return HttpRefused(413, f"a body of {what}; max_body_bytes is {self._limit}", self._closing)


_log: Final = Log("trio_mcp.http")

AsgiScope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
AsgiReceive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
AsgiSend: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]

_CLOSE: Final = (b"connection", b"close")


@final
class AsgiCall(HttpCall):
    """One request of an ASGI server.

    Args:
        scope: What ASGI says of it.
        send: Takes the answer.
        settings: What its body may cost.
        headers: Its header fields, where they have been read already.
        ask_for_body: Called when the body is wanted and has not begun to come.

    Attributes:
        on_cut: Ends what the answer is sent over, as far as the server lets that be done; `None` if it does not.
    """

    def __init__(
        self,
        scope: AsgiScope,
        send: AsgiSend,
        settings: HttpServerSettings,
        *,
        headers: Headers | None = None,
        ask_for_body: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        client = scope.get("client")
        root = str(scope.get("root_path") or "").rstrip("/")
        super().__init__(
            method=str(scope["method"]),
            path=_path_of(scope, root),
            headers=headers or Headers((bytes(name), bytes(value)) for name, value in scope["headers"]),
            query=bytes(scope.get("query_string") or b"").decode("latin-1"),
            client=None if client is None else str(client[0]),
            scheme=str(scope.get("scheme", "http")),
            root=root,
        )
        self._send = send
        self.on_cut: Callable[[], object] | None = None
        self._is_open = False
        self._rest = b""  # of an answer whose client has gone
        self._is_one_one = scope.get("http_version") in ("1.0", "1.1")
        self._body = RequestBody(settings, _declared(self.headers.get("content-length")), self.closing)
        self._ask_for_body = ask_for_body

    def take(self, message: AsgiMessage) -> None:
        """Take what the server says of the request."""
        if message["type"] == "http.disconnect":
            self._body.end()
            self.gone()
        elif message["type"] == "http.request":
            is_complete = not message.get("more_body", False)
            self._body.feed(bytes(message.get("body", b"")), is_complete=is_complete)

    def fail(self, problem: str) -> None:
        """Nothing more of the body will come that could be used."""
        self._body.fail(problem)

    async def pump(self, receive: AsgiReceive) -> None:
        """Receive until the other side is gone."""
        while not self.is_gone:
            await self.wait_body_asked()
            self.take(await receive())

    @property
    def read_size(self) -> int:
        """How much to read next, for who reads the connection."""
        return self._body.read_size

    async def wait_body_asked(self) -> None:
        """Wait while no more of the body should be read."""
        await self._body.wait_asked()

    async def read_body(self) -> bytes:
        self._body.check_length()
        if self._ask_for_body is not None and not (self._body.is_complete or self._body.has_begun):
            await self._ask_for_body()
        return await self._body.read(self.loans)

    @property
    def closing(self) -> tuple[HeaderField, ...]:
        return (_CLOSE,) if self._is_one_one else ()

    async def send_head(self, status: int, headers: Sequence[HeaderField]) -> None:
        self._is_open = not self.is_gone
        await self._send_unless_gone({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def send(self, data: bytes) -> None:
        await self._send_unless_gone({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes = b"") -> None:
        if self.is_gone:
            self._rest = data
        else:
            self._is_open = False
        await self._send_unless_gone({"type": "http.response.body", "body": data, "more_body": False})

    def cut(self) -> None:
        self.gone()
        if self.on_cut is not None:
            self.on_cut()

    async def end(self) -> None:
        """End an answer that was begun, although nobody reads it any more. For hosts that are not ours.

        They may wait for that before they look at what came behind the request, and see that nobody is there.
        """
        if self._is_open:
            self._is_open = False
            with suppress(Exception):  # whatever the host makes of it
                await self._send({"type": "http.response.body", "body": self._rest, "more_body": False})

    async def _send_unless_gone(self, message: AsgiMessage) -> None:
        """Send a part of the answer. Once nobody reads it no part is sent any more, not even its end."""
        if self.is_gone:
            await trio.lowlevel.checkpoint()
            return
        try:
            await self._send(message)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            self.gone()  # ASGI lets hosts say so like this


def _declared(length: str | None) -> int | None:
    return int(length[:20]) if length is not None and length.isascii() and length.isdigit() else None


def _path_of(scope: AsgiScope, root: str) -> str:
    """Return the path without what the application is mounted under, whether the framework has cut it or not."""
    path = str(scope["path"])
    # The absolute form of a target, which proxies use; it is decoded.
    if path.startswith(("http://", "https://")):
        path = "/" + path.partition("://")[2].partition("/")[2]
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    return path or "/"


@final
class McpASGI:
    """A server as an ASGI application: ``McpASGI(server)``.

    Run it by itself, or mount it under a path in a framework that runs on Trio, such as Starlette or Quart-Trio
    on Hypercorn's Trio worker. It needs the lifespan protocol: where a framework does not hand that on to what it
    mounts, enter `running` in that framework's own lifespan.

    A server like Hypercorn needs more care than an application can take; `serve_http` takes it.

    Args:
        server: The server.
        settings: What is served, and to whom.
        authenticate: Finds out who sends a request, and returns the principal, or raises `HttpRefused`. One that
            returns `None` lets nobody in, unless `HttpServerSettings.allow_anonymous` says so. It may take
            `HttpServerSettings.authenticate_timeout`. `None` for no such check: everybody is let in, as nobody.
        event_store: Keeps events for clients of the legacy era that lost a connection; in memory by default.
    """

    def __init__(
        self,
        server: Server[Any],
        settings: HttpServerSettings | None = None,
        *,
        authenticate: Authenticate | None = None,
        event_store: EventStore | None = None,
    ) -> None:
        self._server = server
        self._settings = HttpServerSettings() if settings is None else settings
        self._authenticate = authenticate
        self._event_store = event_store
        self._endpoint: Endpoint | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve while a block runs: ``async with app.running():``. Instead of the lifespan protocol.

        Leaving lets requests finish within `Limits.drain_timeout`, and the lifespan take its time. Cancelled,
        both are cancelled.

        Raises:
            RuntimeError: It runs already.
        """
        if self._endpoint is not None:
            raise RuntimeError("McpASGI runs already")
        async with open_endpoint(
            self._server, self._settings, authenticate=self._authenticate, event_store=self._event_store
        ) as endpoint:
            self._endpoint = endpoint
            try:
                yield
                await endpoint.drain()
            finally:
                self._endpoint = None

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answer one request, or run with the server that hosts this."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._lifespan(receive, send)
        elif kind == "http":
            if self._endpoint is None:
                raise RuntimeError(
                    "McpASGI does not run: its host has no lifespan; enter McpASGI.running() there"
                )
            await self._serve(self._endpoint, AsgiCall(scope, send, self._settings), receive)
        elif kind == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        else:
            raise NotImplementedError(f"ASGI {kind} is not served")

    @staticmethod
    async def _serve(endpoint: Endpoint, call: AsgiCall, receive: AsgiReceive) -> None:
        async with open_hidden_nursery() as nursery:
            call.on_cut = partial(nursery.cancel_scope.cancel, reason="the answer had to make room for others")
            nursery.start_soon(call.pump, receive, name=f"receiving {call.method} {call.path}")
            await endpoint.handle(call)
            await call.end()
            nursery.cancel_scope.cancel(reason="the request is answered")

    async def _lifespan(self, receive: AsgiReceive, send: AsgiSend) -> None:
        await receive()
        has_started = False
        try:
            async with self.running():
                has_started = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:
            # The boundary of the application: the host decides what becomes of it.
            _log.exception("the server did not %s", "end in good order" if has_started else "start")
            kind = "shutdown" if has_started else "startup"
            await send({"type": f"lifespan.{kind}.failed", "message": type(error).__name__})
        else:
            await send({"type": "lifespan.shutdown.complete"})
