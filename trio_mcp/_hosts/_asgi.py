"""A server as an ASGI application, for any framework that runs on Trio, and one request of an ASGI server.

ASGI reports a disconnect once; a task that is cancelled while it receives may lose the report. So one task owns
`receive` from the first instant of a request to its last, and all others ask that task.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from .._auth._resource_server import ResourceServer
from .._core._http1 import HeaderField, Headers
from .._core._http_rules import HttpServerSettings
from .._endpoint._call import Authenticate, HttpCall
from .._endpoint._endpoint import Endpoint, open_endpoint
from .._endpoint._event_store import EventStore
from .._logs import Log
from .._oauth._certificates import ClientCertificate
from .._server._server import Server
from .._trio import open_hidden_nursery
from ._requests import CLOSE, RequestBody

_log: Final = Log("trio_mcp.http")

AsgiScope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
AsgiReceive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
AsgiSend: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]


@final
class AsgiCall(HttpCall):
    """One request of an ASGI server.

    Args:
        scope: Its ASGI scope.
        send: Takes the answer.
        settings: What its body may cost.
        headers: Its header fields, if they were parsed already.
        ask_for_body: Called when the body is wanted and nothing of it was received.

    Attributes:
        body: Its body, as far as it has come.
        find_certificate: Returns the certificate of the client.
        on_cut: Closes the connection of the answer at once, as far as the server lets that be done; `None` if it
            does not.
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
        self.find_certificate: Callable[[], ClientCertificate | None] = partial(_certificate_in, scope)
        self._is_open = False
        self._rest = b""  # of an answer whose client is gone
        self._is_one_one = scope.get("http_version") in ("1.0", "1.1")
        self.body: Final = RequestBody(settings, _declared(self.headers.get("content-length")), self.closing)
        self._ask_for_body = ask_for_body

    def take(self, message: AsgiMessage) -> None:
        """Take a message of the request: a piece of its body, or its disconnect."""
        if message["type"] == "http.disconnect":
            self.body.end()
            self.gone()
        elif message["type"] == "http.request":
            is_complete = not message.get("more_body", False)
            self.body.feed(bytes(message.get("body", b"")), is_complete=is_complete)

    async def pump(self, receive: AsgiReceive) -> None:
        """Receive until the client is gone."""
        while not self.is_gone:
            await self.body.wait_asked()
            self.take(await receive())

    async def read_body(self) -> bytes:
        self.body.check_length()
        if self._ask_for_body is not None and not (self.body.is_complete or self.body.has_begun):
            await self._ask_for_body()
        return await self.body.read(self.loans)

    @property
    def certificate(self) -> ClientCertificate | None:
        return self.find_certificate()

    @property
    def closing(self) -> tuple[HeaderField, ...]:
        return (CLOSE,) if self._is_one_one else ()

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
        """End an answer that was begun, although its client is gone. For hosts that are not ours.

        They may wait for that before they read on, and notice that the client is gone.
        """
        if self._is_open:
            self._is_open = False
            with suppress(Exception):  # the host may refuse it
                await self._send({"type": "http.response.body", "body": self._rest, "more_body": False})

    async def _send_unless_gone(self, message: AsgiMessage) -> None:
        """Send a part of the answer. Once its client is gone, nothing more is sent, not even its end."""
        if self.is_gone:
            await trio.lowlevel.checkpoint()
            return
        try:
            await self._send(message)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            self.gone()  # how ASGI lets hosts report a disconnect


def _certificate_in(scope: AsgiScope) -> ClientCertificate | None:
    """Return the certificate of the client, where the host has verified it (ASGI's extension for TLS)."""
    extensions: Mapping[str, Any] = scope.get("extensions") or {}
    tls: Mapping[str, Any] = extensions.get("tls") or {}
    chain: Iterable[str] = tls.get("client_cert_chain") or ()
    if not chain or tls.get("client_cert_error"):
        return None
    return ClientCertificate(ssl.PEM_cert_to_DER_cert(next(iter(chain))))


def _declared(length: str | None) -> int | None:
    return int(length[:20]) if length is not None and length.isascii() and length.isdigit() else None


def _path_of(scope: AsgiScope, root: str) -> str:
    """Return the path without what the application is mounted under; only some frameworks have removed that."""
    path = str(scope["path"])
    # The absolute form of a target, which proxies use; the path is decoded.
    if path.startswith(("http://", "https://")):
        path = "/" + path.partition("://")[2].partition("/")[2]
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    return path or "/"


@final
@attrs.define(eq=False, repr=False, slots=False)
class McpASGI:
    """A server as an ASGI application: ``McpASGI(server)``.

    Run it by itself, or mount it under a path in a framework that runs on Trio, such as Starlette or Quart-Trio
    on Hypercorn's Trio worker. It needs the lifespan protocol: where a framework does not pass that on to what it
    mounts, enter `running` in that framework's own lifespan.

    An application cannot bound the connections of its host, nor clients that do not read; `serve_http` does.

    Args:
        server: The server.
        settings: What is served, and to whom.
        authenticate: Authenticates each request: returns its principal, or raises `HttpRefused`. If it returns
            `None`, the request is refused (401), unless `HttpServerSettings.allow_anonymous` is set. It may take
            `HttpServerSettings.authenticate_timeout`. `None` for no authentication: all clients are anonymous.
        auth: Protects the server by OAuth, instead. Where the application is mounted under a path, clients look
            for its metadata at the root of the host as well: mount `well_known` there.
        event_store: Keeps events for clients of the legacy era that lost a connection; in memory by default.
    """

    _server: Server[Any]
    _settings: HttpServerSettings | None = None
    _authenticate: Authenticate | None = attrs.field(default=None, alias="authenticate", kw_only=True)
    _auth: ResourceServer | None = attrs.field(default=None, alias="auth", kw_only=True)
    _event_store: EventStore | None = attrs.field(default=None, alias="event_store", kw_only=True)
    _endpoint: Endpoint | None = attrs.field(default=None, init=False)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve while a block runs: ``async with app.running():``. Instead of the lifespan protocol.

        Leaving lets requests finish within `Limits.drain_timeout`, and the lifespan take its time.
        Cancelled, both are cancelled.

        Raises:
            RuntimeError: It runs already.
        """
        if self._endpoint is not None:
            raise RuntimeError("McpASGI runs already")
        async with open_endpoint(
            self._server,
            self._settings,
            authenticate=self._authenticate,
            auth=self._auth,
            event_store=self._event_store,
        ) as endpoint:
            self._endpoint = endpoint
            try:
                yield
                await endpoint.drain()
            finally:
                self._endpoint = None

    async def well_known(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answer a request for the metadata of the server: ``Mount("/.well-known", app=mcp.well_known)``.

        For frameworks that mount the application under a path. By itself it serves the metadata, too.
        """
        call_scope = {**scope, "root_path": ""}
        if scope["type"] == "http" and not scope["path"].startswith("/.well-known/"):
            # Some frameworks have removed what it is mounted under, and some have not.
            call_scope["path"] = f"/.well-known/{scope['path'].removeprefix('/.well-known').lstrip('/')}"
        await self(call_scope, receive, send)

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
            await self._serve(self._endpoint, AsgiCall(scope, send, self._endpoint.settings), receive)
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
            # The boundary of the application: the host decides how to go on.
            _log.exception("the server did not %s", "end in good order" if has_started else "start")
            kind = "shutdown" if has_started else "startup"
            await send({"type": f"lifespan.{kind}.failed", "message": type(error).__name__})
        else:
            await send({"type": "lifespan.shutdown.complete"})
