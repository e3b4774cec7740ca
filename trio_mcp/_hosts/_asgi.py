"""A server as an ASGI application, for any framework that runs on Trio, and one request or WebSocket of its host.

ASGI reports a disconnect once; a task that is cancelled while it receives may lose the report. So one task owns
`receive` from the first instant of a request to its last, and all others ask that task.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias, final

import attrs
import trio

from .._audit import SERVED
from .._auth._verifiers import ResourceServer
from .._channel import Origin
from .._core._frames import POLICY_VIOLATION, SUBPROTOCOL, check_subprotocol
from .._core._http1 import HeaderField, Headers
from .._core._http_rules import HttpServerSettings
from .._endpoint._call import SMALL, Authenticate, HttpCall
from .._endpoint._endpoint import Endpoint, open_endpoint
from .._endpoint._event_store import EventStore
from .._endpoint._groups import Store
from .._endpoint._session_channel import FEW_PASSES
from .._endpoint._websockets import GOODBYE, WebSocketCall
from .._errors import ConnectionLost
from .._limits import Limits, check_given, check_kind
from .._logs import Log
from .._oauth._principal import ClientCertificate
from .._server._server import Servable
from .._trio import (
    PASS,
    Contained,
    LightParkingLot,
    check_thread,
    check_trio_runs,
    noticing_waits,
    open_hidden_nursery,
)
from ._requests import CLOSE, RequestBody

if TYPE_CHECKING:  # an application without WebSockets does not load the library for them
    from ._asgi_websockets import AsgiWebSocketChannel

_log: Final = Log("trio_mcp.http")

AsgiScope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
AsgiReceive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
AsgiSend: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]


class DirectSender(Protocol):
    """Sends pieces of an answer without ASGI's messages; see `HttpCall`."""

    def send_nowait(self, data: bytes, /) -> bool:
        """Send as much as the connection takes now."""
        ...

    async def send_rest(self) -> None:
        """Send the rest of it."""
        ...

    def hold(self, data: bytes, /) -> None:
        """Send the last piece together with the end of the answer, which follows."""
        ...


class AsgiCall(HttpCall):
    """One request of an ASGI server.

    Args:
        scope: Its ASGI scope.
        send: Takes the answer.
        settings: What its body may cost.
        headers: Its header fields, if they were parsed already.
        ask_for_body: Called when the body is wanted and nothing of it was received.
        receive: Waits for the messages of the request; `None` if its host brings them (`take`).

    Attributes:
        body: Its body, as far as it has come.
        kind: What the messages of its answer are called.
        find_certificate: Returns the certificate of the client.
        on_cut: Closes the connection of the answer at once, as far as the server lets that be done; `None` if it
            does not.
        has_waited: Whether there was a checkpoint: not every host waits in what it gives.
        pumping: The scope of the task that receives, while there is one beside its own.
        pumped: Who waits for the end of that task; set with it.
    """

    kind: ClassVar[str] = "http.response"

    def __init__(
        self,
        scope: AsgiScope,
        send: AsgiSend,
        settings: HttpServerSettings,
        *,
        headers: Headers | None = None,
        ask_for_body: Callable[[], Awaitable[object]] | None = None,
        receive: AsgiReceive | None = None,
    ) -> None:
        client = scope.get("client")
        scheme = str(scope.get("scheme", "http"))
        root = str(scope.get("root_path") or "").rstrip("/")
        super().__init__(
            method=str(scope.get("method", "GET")),
            path=_path_of(scope, root),
            headers=headers or Headers([(bytes(name), bytes(value)) for name, value in scope["headers"]]),
            query=bytes(scope.get("query_string") or b"").decode("latin-1"),
            client=None if client is None else str(client[0]),
            scheme=_SCHEMES.get(scheme, scheme),
            root=root,
            target=scope.get("raw_path") or b"",
        )
        self._send = send
        self.on_cut: Callable[[], object] | None = None
        self.find_certificate: Callable[[], ClientCertificate | None] = partial(_certificate_in, scope)
        self._is_open = False
        self._rest = b""  # of an answer whose client is gone
        self._is_one_one = scope.get("http_version") in ("1.0", "1.1")
        self.body: Final = RequestBody(settings, _declared(self.headers.get("content-length")), self.closing)
        self._ask_for_body = ask_for_body
        self._receive = receive
        self._is_fetching = False
        self.has_waited = False
        self.pumping: trio.CancelScope | None = None
        self.pumped: LightParkingLot
        self._passes = 0  # of the event loop, without anything that it has waited for
        self._is_whole = False  # the answer, which is being sent
        self._directly: DirectSender | None = None

    def send_through(self, sender: DirectSender) -> None:
        """Send pieces of the body through this from now on, once the answer has begun."""
        self._directly = sender
        self.sends_now = True

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

    def pump_when_waiting(self, nursery: trio.Nursery, trap: object) -> None:
        """Receive in a task of its own from now on, unless that is not needed. Before each wait of its own task.

        Most requests wait for their body alone, for a pass of the event loop in which their session takes it, and
        for their answer to be sent. For these no task is needed that notices that the client has gone.
        """
        self.has_waited = True
        if self._receive is None or self._is_fetching or self._is_whole:
            return
        self._passes += trap is PASS
        if trap is not PASS or self._passes > FEW_PASSES:
            receive, self._receive = self._receive, None
            block, self.pumped = Contained(self._note_failure), LightParkingLot()
            try:
                nursery.start_soon(self._pump, receive, block, name=f"receiving {self.method} {self.path}")
                self.pumping = block.scope
            except RuntimeError:  # the application has ended, and nobody would notice that the client leaves
                if self.on_cut is not None:
                    self.on_cut()

    async def _pump(self, receive: AsgiReceive, block: Contained) -> None:
        try:
            with block:
                await self.pump(receive)
        finally:
            self.pumping = None
            self.pumped.unpark_all()
            if not block.scope.cancel_called:  # the client has gone, the host failed, or the application ended
                self.body.end()
                self.gone()

    def _note_failure(self, error: BaseException) -> None:
        """Log what comes out of `receive`. It costs one request: the nursery is shared by all of them."""
        _log.error("%s %s: nothing more can be received", self.method, self.path, exc_info=error)

    async def _fetch(self) -> None:
        assert self._receive is not None
        self._is_fetching = True
        try:
            self.take(await self._receive())
        finally:
            self._is_fetching = False

    async def read_body(self) -> bytes:
        if self._ask_for_body is not None and not (self.body.is_complete or self.body.has_begun):
            self.body.check_length()
            await self._ask_for_body()
        return await self.body.read(self.loans, None if self._receive is None else self._fetch)

    @property
    def certificate(self) -> ClientCertificate | None:
        return self.find_certificate()

    @property
    def closing(self) -> tuple[HeaderField, ...]:
        return (CLOSE,) if self._is_one_one else ()

    async def send_head(self, status: int, headers: Sequence[HeaderField]) -> None:
        self._is_open = not self.is_gone
        head = {"type": f"{self.kind}.start", "status": status, "headers": list(headers)}
        await self.send_unless_gone(head)

    async def send_whole(self, status: int, headers: Sequence[HeaderField], body: bytes) -> None:
        self._is_whole = True
        await super().send_whole(status, headers, body)

    async def send(self, data: bytes) -> None:
        if self.left is not None:
            data = self.within(data)
        await self.send_unless_gone({"type": f"{self.kind}.body", "body": data, "more_body": True})

    def send_nowait(self, data: bytes) -> bool:
        assert self._directly is not None
        if self.left is not None:
            data = self.within(data)
        return not self._is_open or self.is_gone or self._directly.send_nowait(data)

    async def send_rest(self) -> None:
        assert self._directly is not None
        await self._directly.send_rest()

    async def finish(self, data: bytes = b"") -> None:
        if self.is_gone:
            self._rest = data
        else:
            self._is_open = False
            if self.left is not None:
                data = self.within(data, is_last=True)
            if self._directly is not None and 0 < len(data) <= SMALL:
                self._directly.hold(data)
                data = b""
        await self.send_unless_gone({"type": f"{self.kind}.body", "body": data, "more_body": False})

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
                await self._send({"type": f"{self.kind}.body", "body": self._rest, "more_body": False})

    async def send_unless_gone(self, message: AsgiMessage) -> bool:
        """Send a message to the host. Once the client is gone nothing more is sent, not even an answer's end.

        Returns:
            Whether the client is there.
        """
        if self.is_gone:
            await trio.lowlevel.checkpoint()
            return False
        try:
            await self._send(message)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            self.gone()  # how ASGI lets hosts report a disconnect
        return not self.is_gone


_SCHEMES: Final = {"ws": "http", "wss": "https"}


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


DENIAL: Final = "websocket.http.response"
"""The extension by which a handshake can be refused with a status and a body."""


@final
class AsgiWebSocketCall(AsgiCall, WebSocketCall):
    """One WebSocket of an ASGI server, from its handshake on.

    Args:
        scope: Its ASGI scope.
        send: Takes the answer and, once it is accepted, messages.
        settings: Who is served.
        receive: Waits for the messages of the WebSocket.
    """

    kind = DENIAL

    def __init__(
        self, scope: AsgiScope, send: AsgiSend, settings: HttpServerSettings, receive: AsgiReceive
    ) -> None:
        super().__init__(scope, send, settings, receive=receive)
        self._can_be_refused = DENIAL in (scope.get("extensions") or {})
        self._channel: AsgiWebSocketChannel | None = None

    # What arrives.

    def take(self, message: AsgiMessage) -> None:
        """Take a message of the WebSocket, or its end."""
        if message["type"] == "websocket.disconnect":
            if self._channel is not None:
                self._channel.note_disconnect(message.get("code"), message.get("reason"))
            self.gone()
        elif message["type"] == "websocket.receive" and self._channel is not None:
            self._channel.take(message.get("text"))

    async def pump(self, receive: AsgiReceive) -> None:
        """Receive until the client is gone; not while too much waits to be looked at."""
        try:
            while not self.is_gone:
                if self._channel is not None:
                    await self._channel.wait_to_take()
                self.take(await receive())
        finally:
            if self._channel is not None:
                self._channel.note_silence()

    # Its refusal.

    async def send_head(self, status: int, headers: Sequence[HeaderField]) -> None:
        if self._can_be_refused:
            await super().send_head(status, headers)
        else:
            await trio.lowlevel.checkpoint()

    async def finish(self, data: bytes = b"") -> None:
        if self._can_be_refused:
            await super().finish(data)
        else:  # before it is accepted, that is a refusal with the status 403
            await self.send_unless_gone({"type": "websocket.close", "code": POLICY_VIOLATION})

    # The WebSocket.

    def check_handshake(self) -> None:
        check_subprotocol(self.headers)  # the rest is the host's part, and different in HTTP/2

    def make_channel(
        self,
        limits: Limits,
        settings: HttpServerSettings,
        origin_of: Callable[[bytes], Origin | None],
        on_kept: Callable[[int], object],
    ) -> AsgiWebSocketChannel:
        from ._asgi_websockets import AsgiWebSocketChannel

        del settings
        description = "the client" if self.client is None else f"the client at {self.client}"
        self._channel = AsgiWebSocketChannel(
            limits, description, GOODBYE, origin_of, on_kept, send=self.send_unless_gone
        )
        return self._channel

    @asynccontextmanager
    async def open_channel(self) -> AsyncGenerator[None]:
        assert self._channel is not None
        self.note_started()
        headers = list(self.answer_headers)
        accept = {"type": "websocket.accept", "subprotocol": SUBPROTOCOL, "headers": headers}
        if not await self.send_unless_gone(accept):
            raise ConnectionLost(f"{self._channel.description} left in the handshake")
        try:
            yield
        finally:
            with trio.CancelScope(shield=True):  # bounded by `Limits.goodbye_timeout`
                await self._channel.aclose()


_CUT: Final = "there is no room for the answer, or nobody takes it"
_ANSWERED: Final = "the request is answered"


@final
@attrs.define(eq=False, repr=False, slots=False)
class McpASGI:
    """A server as an ASGI application: ``McpASGI(server)``.

    Run it by itself, or mount it under a path in a framework that runs on Trio, such as Starlette or Quart-Trio
    on Hypercorn's Trio worker. It needs the lifespan protocol: where a framework does not pass that on to what it
    mounts, enter `running` in that framework's own lifespan.

    An application cannot bound the connections of its host, nor clients that do not read; `serve_http` does. With
    `HttpServerSettings.websocket` WebSockets of the host are served as well, as far as it lets that be done: it
    alone decides how large a message may be before it is complete, whether they are compressed, and about pings.

    Args:
        server: The server.
        settings: What is served, and to whom.
        authenticate: Authenticates each request: returns its principal, or raises `HttpRefused`. If it returns
            `None`, the request is refused (401), unless `HttpServerSettings.allow_anonymous` is set. It may take
            half a minute. `None` for no authentication: all clients are anonymous.
        auth: Protects the server by OAuth, instead. Where the application is mounted under a path, clients look
            for its metadata at the root of the host as well: mount `well_known` there.
        event_store: Keeps events for clients of the legacy era that lost a connection; in memory by default.
        store: Makes one server of all processes that serve with it; see `serve_http`.
    """

    _server: Servable[Any]
    _settings: HttpServerSettings | None = None
    _authenticate: Authenticate | None = attrs.field(default=None, alias="authenticate", kw_only=True)
    _auth: ResourceServer | None = attrs.field(default=None, alias="auth", kw_only=True)
    _event_store: EventStore | None = attrs.field(default=None, alias="event_store", kw_only=True)
    _store: Store | None = attrs.field(default=None, alias="store", kw_only=True)
    _endpoint: Endpoint | None = attrs.field(default=None, init=False)
    _nursery: trio.Nursery = attrs.field(init=False)  # while it runs: where requests notice that clients leave
    _name: str | None = attrs.field(default=None, init=False)
    _thread: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        given = {
            "server": self._server,
            "settings": self._settings,
            "authenticate": self._authenticate,
            "auth": self._auth,
            "event_store": self._event_store,
        }
        check_given(open_endpoint, given)
        check_kind("store", self._store, Store | None)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve while a block runs: ``async with app.running():``. Instead of the lifespan protocol.

        Leaving lets requests finish within `Limits.drain_timeout`, and the lifespan take its time.
        Cancelled, both are cancelled.

        Raises:
            RuntimeError: It runs already.
        """
        check_trio_runs("McpASGI, for example on Hypercorn with --worker-class trio,")
        if self._endpoint is not None:
            raise RuntimeError("McpASGI runs already")
        async with (
            nullcontext() if self._store is None else self._store.join() as group,
            open_endpoint(
                self._server,
                self._settings,
                authenticate=self._authenticate,
                auth=self._auth,
                event_store=self._event_store,
                group=group,
            ) as endpoint,
            nullcontext() if group is None else group.serving(endpoint),
            open_hidden_nursery() as self._nursery,
        ):
            self._endpoint, self._name, self._thread = endpoint, SERVED.get(), get_ident()
            try:
                yield
                await endpoint.drain()
            finally:
                self._endpoint = None
                self._nursery.cancel_scope.cancel(reason="the application has ended")

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
        kind, endpoint = scope["type"], self._endpoint
        SERVED.set(self._name)
        if kind == "lifespan":
            await self._lifespan(receive, send)
        elif kind not in ("http", "websocket"):
            raise NotImplementedError(f"ASGI {kind} is not served")
        elif endpoint is None:
            raise RuntimeError("McpASGI does not run: its host has no lifespan; enter McpASGI.running() there")
        elif kind == "http":
            check_thread(self._thread, "McpASGI", "app")
            await trio.lowlevel.checkpoint_if_cancelled()  # what follows may have nothing to wait for
            await self._serve(AsgiCall(scope, send, endpoint.settings, receive=receive), endpoint)
        elif (await receive())["type"] != "websocket.connect":
            pass  # its client has left
        elif endpoint.serves_websockets:
            await self._serve(AsgiWebSocketCall(scope, send, endpoint.settings, receive), endpoint)
        else:
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})

    async def _serve(self, call: AsgiCall, endpoint: Endpoint) -> None:
        with trio.CancelScope() as scope:
            call.on_cut = partial(scope.cancel, reason=_CUT)
            try:
                await noticing_waits(endpoint.handle(call), partial(call.pump_when_waiting, self._nursery))
                await call.end()
                if not call.has_waited:
                    await trio.lowlevel.cancel_shielded_checkpoint()
            finally:
                if call.pumping is not None:  # the host may receive when this is done
                    call.pumping.cancel(reason=_ANSWERED)
                    with trio.CancelScope(shield=True):
                        await call.pumped.park()

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
            kind, told = "shutdown" if has_started else "startup", type(error).__name__
            if self._endpoint is not None and not has_started:
                told = "it runs already; clients of one application share what open_asgi_client(app) opens"
            await send({"type": f"lifespan.{kind}.failed", "message": told})
        else:
            await send({"type": "lifespan.shutdown.complete"})
