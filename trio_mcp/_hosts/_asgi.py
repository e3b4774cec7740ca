"""A server as an ASGI application, for any framework that runs on Trio.

ASGI tells a disconnect once, and never again; a task that is cancelled while it receives may lose it. So one task
owns `receive` from the first instant of a request to its last, and everybody else asks that task.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, final
from urllib.parse import unquote_to_bytes

import trio

from .._core._headers import HeaderField, Headers
from .._core._http_admission import HttpRefused
from .._core._http_settings import HttpServerSettings
from .._endpoint._call import Authenticate, HttpCall
from .._endpoint._endpoint import Endpoint, open_endpoint
from .._endpoint._event_store import EventStore
from .._groups import sole_error
from .._server._server import Server

__all__ = ["AsgiApp", "AsgiScope", "McpASGI", "serve_asgi_request"]

_log: Final = logging.getLogger("trio_mcp.http")

AsgiScope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
AsgiReceive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
AsgiSend: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[AsgiScope, AsgiReceive, AsgiSend], Awaitable[None]]

_CLOSE: Final = (b"connection", b"close")


@final
class _AsgiCall(HttpCall):
    """One request of an ASGI server."""

    def __init__(
        self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend, settings: HttpServerSettings
    ) -> None:
        client = scope.get("client")
        root = str(scope.get("root_path") or "").rstrip("/")
        super().__init__(
            method=str(scope["method"]).upper(),
            path=_path_of(scope, root),
            headers=Headers((bytes(name), bytes(value)) for name, value in scope["headers"]),
            query=bytes(scope.get("query_string") or b"").decode("latin-1"),
            client=None if client is None else str(client[0]),
            scheme=str(scope.get("scheme", "http")),
            root=root,
        )
        self._receive = receive
        self._send = send
        self._limit = settings.max_body_bytes
        self._timeout = settings.body_timeout
        self._is_one_one = scope.get("http_version") in ("1.0", "1.1")
        self._body: list[bytes] = []
        self._size = 0
        self._is_complete = False
        self._is_gone = False
        self._changed = trio.lowlevel.ParkingLot()

    async def pump(self) -> None:
        """Receive until the other side is gone. Keeps of the body what may be kept."""
        while not self._is_gone:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._is_gone = True
            elif message["type"] == "http.request":
                data = bytes(message.get("body", b""))
                self._size += len(data)
                if self._size <= self._limit:
                    self._body.append(data)
                else:
                    self._body.clear()
                self._is_complete = not message.get("more_body", False)
            self._changed.unpark_all()

    async def read_body(self) -> bytes:
        length = self.headers.get("content-length")
        if length is not None and length.isdigit() and int(length[:20]) > self._limit:
            raise self._too_large(f"{length[:20]} bytes")
        with trio.move_on_after(self._timeout) as deadline:
            while not (self._is_complete or self._is_gone) and self._size <= self._limit:
                await self._changed.park()
        if self._size > self._limit:
            raise self._too_large(f"more than {self._limit} bytes")
        if self._is_complete:
            body = b"".join(self._body)
            self._body.clear()
            return body
        if deadline.cancelled_caught:
            problem = f"the body did not arrive within {self._timeout:g} seconds (body_timeout)"
            raise HttpRefused(408, problem, self.closing)
        raise HttpRefused(400, "the client went away before its request was complete", self.closing)

    def _too_large(self, what: str) -> HttpRefused:
        return HttpRefused(413, f"a body of {what}; max_body_bytes is {self._limit}", self.closing)

    @property
    def closing(self) -> tuple[HeaderField, ...]:
        return (_CLOSE,) if self._is_one_one else ()

    async def wait_disconnected(self) -> None:
        while not self._is_gone:
            await self._changed.park()

    async def send_head(self, status: int, headers: Sequence[HeaderField]) -> None:
        await self._send_unless_gone(
            {"type": "http.response.start", "status": status, "headers": list(headers)}
        )

    async def send(self, data: bytes) -> None:
        await self._send_unless_gone({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self) -> None:
        await self._send_unless_gone({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_unless_gone(self, message: AsgiMessage) -> None:
        """Send a part of the answer. Of an answer that nobody reads no part is sent any more: not even its end."""
        if self._is_gone:
            await trio.lowlevel.checkpoint()
        else:
            await self._send(message)


def _path_of(scope: AsgiScope, root: str) -> str:
    """Return the path without what the application is mounted under, whether the framework has cut it or not."""
    path = str(scope["path"])
    if path.startswith(("http://", "https://")):  # the absolute form of a target, which proxies use
        raw = path.partition("://")[2]
        path = unquote_to_bytes("/" + raw.partition("/")[2]).decode("utf-8", "replace")
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    return path or "/"


async def serve_asgi_request(
    endpoint: Endpoint, settings: HttpServerSettings, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend
) -> None:
    """Answer one request of an ASGI server."""
    call = _AsgiCall(scope, receive, send, settings)
    error: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call.pump, name=f"receiving {call.method} {call.path}")
            await endpoint.handle(call)
            nursery.cancel_scope.cancel(reason="the request is answered")
    except BaseExceptionGroup as group:
        error = sole_error(group)
        if error is None:
            raise
    if error is not None:
        raise error


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
        authenticate: Finds out who sends a request.
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

        Leaving lets requests finish within `Limits.drain_timeout`.

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
            await serve_asgi_request(self._endpoint, self._settings, scope, receive, send)
        elif kind == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        else:
            raise NotImplementedError(f"ASGI {kind} is not served")

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
