"""Serving HTTP, and WebSockets alone: what listens, what accepts, and in which order all of it ends.

    listeners ──> the accept loops ──> one task for each connection ──> the endpoint

To end: no connection is accepted any more; the endpoint drains, so that requests are answered; connections that
rest are closed, and the others finish; the remaining ones are cut. Each step is bounded.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final, cast, final
from urllib.parse import quote

import attrs
import trio

from .._auth._verifiers import ResourceServer
from .._core._http_rules import HttpHost, HttpServerSettings
from .._endpoint._call import Authenticate, HttpCall
from .._endpoint._endpoint import Endpoint, open_endpoint
from .._endpoint._event_store import EventStore
from .._endpoint._groups import Group, Store
from .._endpoint._routes import Route, Routes
from .._http._asgi import AsgiApplication, open_asgi_client
from .._http._messages import HttpRequest
from .._http._target import bracketed, parse_target
from .._limits import check_given, check_port
from .._logs import Log
from .._server._lifetimes import Shutdown
from .._server._serve import run_until_first
from .._server._server import Servable, hosted
from ._connections import Connections, OpenConnection
from ._listening import ConnectionBounds, Hosting, Listeners, check_mode, open_listeners, serve_until_drain
from ._requests import ConnectionIO, SocketIO, TlsIO

_log: Final = Log("trio_mcp.http")

_OF_CONNECTION: Final = frozenset((b"transfer-encoding", b"connection", b"keep-alive"))
_OF_REQUEST: Final = _OF_CONNECTION | {b"host", b"content-length"}
"""Fields that belong to one connection, and are written anew for another."""


RETIRE_SECONDS: Final = 1.0
"""How long a process that others replace still serves its connections, each until its next answer, in seconds.
A connection that is closed while its client sends loses the request."""


async def _retire(connections: Connections[ConnectionIO]) -> None:
    connections.end_with_answers()
    with trio.move_on_after(RETIRE_SECONDS):
        await connections.limits.wait_empty()
    connections.limits.cut_resting()


def _host(http: HttpHost, endpoint: Endpoint, settings: HttpServerSettings) -> OpenConnection[ConnectionIO]:
    if http == "hypercorn":
        from ._hypercorn import hypercorn_connections

        return hypercorn_connections(endpoint, settings)
    if http == "lean":
        from ._lean import lean_connections

        return lean_connections(endpoint, settings)
    raise ValueError(f"http must be 'hypercorn' or 'lean', not {http!r}")


async def serve_http(
    server: Servable[Any],
    host: str | None = "127.0.0.1",
    port: int = 8000,
    *,
    http: HttpHost = "hypercorn",
    settings: HttpServerSettings | None = None,
    ssl_context: ssl.SSLContext | None = None,
    unix_path: str | os.PathLike[str] | None = None,
    unix_mode: int = 0o600,
    authenticate: Authenticate | None = None,
    auth: ResourceServer | None = None,
    event_store: EventStore | None = None,
    store: Store | None = None,
    routes: Routes | AsgiApplication | None = None,
    shutdown: Shutdown | None = None,
    task_status: trio.TaskStatus[tuple[str, ...]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTP until `shutdown`: ``urls = await nursery.start(serve_http, server)``.

    One endpoint serves clients of all revisions. It serves HTTP/1.1; for HTTP/2 put a reverse proxy in front.
    What fails on one connection ends no other. At `shutdown` no more connections are accepted, requests are
    answered within `Limits.drain_timeout`, and the remaining ones are cancelled. Cancelled, all handlers are
    cancelled and their cleanup runs. Either way no task, socket or file is left. A lifespan that `shutdown`
    interrupts while it is being entered is cancelled, and this returns without having served.

    Args:
        server: The server.
        host: The name or address to listen on; `None` for all. Only this machine can reach the default.
        port: The port; 0 for one that is free.
        http: What reads and writes HTTP: ``"hypercorn"``; or ``"lean"``, which implements only what this library
            needs, and is two to three times as fast. Both have the same rules of what is valid HTTP, and end a
            connection that breaks them. The lean one parses with httptools where that is installed
            (``trio-mcp[lean]``), else with h11.
        settings: What is served, to whom, and what it may cost.
        ssl_context: The certificate for TLS, and whether clients need one; `None` for no TLS.
        unix_path: A Unix socket to listen on instead. One that a killed process has left there is replaced; if a
            server listens at it, this fails. The file is removed when no more connections are accepted, if it is
            still the same.
        unix_mode: Who may connect to that, as for `chmod`.
        authenticate: Authenticates each request: returns its principal, or raises `HttpRefused`. If it returns
            `None`, the request is refused (401), unless `HttpServerSettings.allow_anonymous` is set. It may take
            half a minute. `None` for no authentication: all clients are anonymous.
        auth: Protects the server by OAuth: clients need access tokens. Instead of `authenticate`.
        event_store: Keeps events for clients of the legacy era that lost a connection; in memory by default.
        store: `SqliteStore` or `RedisStore`: all processes that serve with the same one are one server, whichever
            of them a request comes to, and sessions, events and tasks outlive their process. See the chapter on
            deployment.
        routes: What is served at other paths: functions by path, ``{"/version": version}``, each of which is
            called with the `HttpCall` and answers it by `HttpCall.respond`; or an ASGI application for all of
            them, whose lifespan is entered before clients can connect. Who asks for them is not authenticated;
            `Host` and `Origin` are checked as for the endpoint.
        shutdown: When to end.
        task_status: Gets the URLs of the endpoint once clients can connect.

    Raises:
        OSError: The store cannot be used; or the address cannot be listened on, or not any more. An error of one
            connection, in accepting it included, ends that connection alone.
        ssl.SSLError: `ssl_context` is for clients.
        TypeError: `port` or `unix_mode` is no whole number.
        ValueError: There is no such `http`, `port` or `unix_mode`.
    """
    site = Site(
        server,
        host,
        port,
        http,
        HttpServerSettings() if settings is None else settings,
        ssl_context=ssl_context,
        unix_path=unix_path,
        unix_mode=unix_mode,
        authenticate=authenticate,
        auth=auth,
        event_store=event_store,
        store=store,
        routes=routes,
    )
    await serve_site(site, shutdown, task_status)


async def serve_websocket(
    server: Servable[Any],
    host: str | None = "127.0.0.1",
    port: int = 8000,
    *,
    path: str | None = None,
    settings: HttpServerSettings | None = None,
    ssl_context: ssl.SSLContext | None = None,
    unix_path: str | os.PathLike[str] | None = None,
    unix_mode: int = 0o600,
    authenticate: Authenticate | None = None,
    auth: ResourceServer | None = None,
    shutdown: Shutdown | None = None,
    task_status: trio.TaskStatus[tuple[str, ...]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve WebSockets until `shutdown`: ``urls = await nursery.start(serve_websocket, server)``.

    Each connection is one session, of any revision, which ends with it. The handshake passes through the same
    rules as a request over HTTP: `Host` and `Origin`, `authenticate`, and how many connections and sessions there
    may be; a refused one gets a status of HTTP. What fails on one connection ends no other. To serve HTTP at the
    same port, call `serve_http` with ``HttpServerSettings(websocket=True)`` instead.

    At `shutdown` no more connections are accepted, requests are answered within `Limits.drain_timeout`, and the
    remaining ones are cancelled; then each client gets a Close (1001), and has `Limits.goodbye_timeout` to answer
    it. Cancelled, all handlers are cancelled and their cleanup runs. Either way no task, socket or file is left.

    Args:
        server: The server.
        host: The name or address to listen on; `None` for all. Only this machine can reach the default.
        port: The port; 0 for one that is free.
        path: The path of the endpoint; by default that of the settings, ``/mcp``.
        settings: Who is served, and what it may cost. What concerns bodies and streams has no meaning here.
        ssl_context: The certificate for TLS, and whether clients need one; `None` for no TLS.
        unix_path: A Unix socket to listen on instead; see `serve_http`.
        unix_mode: Who may connect to that, as for `chmod`.
        authenticate: Authenticates each handshake; see `serve_http`. Context variables that it sets are those of
            the handlers.
        auth: Protects the server by OAuth: handshakes need access tokens. Instead of `authenticate`.
        shutdown: When to end.
        task_status: Gets the URLs of the endpoint once clients can connect.

    Raises:
        Others: As `serve_http`.

    Spec: RFC 6455; 2026-07-28, basic/transports, "Custom Transports".
    """
    settings = HttpServerSettings() if settings is None else settings
    if path is not None:
        settings = attrs.evolve(settings, path=path)
    site = Site(
        server,
        host,
        port,
        "lean",
        settings,
        ssl_context=ssl_context,
        unix_path=unix_path,
        unix_mode=unix_mode,
        authenticate=authenticate,
        auth=auth,
        only_websockets=True,
    )
    await serve_site(site, shutdown, task_status)


@final
@attrs.frozen
class Site:
    """What is served where, and to whom; see `serve_http`.

    Attributes:
        only_websockets: Whether it is WebSockets and nothing else.
    """

    server: Servable[Any]
    host: str | None
    port: int
    http: HttpHost
    settings: HttpServerSettings
    ssl_context: ssl.SSLContext | None = None
    unix_path: str | os.PathLike[str] | None = None
    unix_mode: int = 0o600
    authenticate: Authenticate | None = None
    auth: ResourceServer | None = None
    event_store: EventStore | None = None
    store: Store | None = None
    routes: Routes | AsgiApplication | None = None
    only_websockets: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.host, int):
            raise TypeError(f"host takes a name or an address, not {self.host!r}: write port={self.host!r}")
        check_given(Site, {name: getattr(self, name) for name in Site.__annotations__})
        check_port(self.port, at_least=0)
        check_mode("unix_mode", self.unix_mode)
        if self.ssl_context is not None:
            self.ssl_context.set_alpn_protocols(["http/1.1"])
            # This refuses what is for clients.
            self.ssl_context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)

    @property
    def bounds(self) -> ConnectionBounds:
        """How many connections there may be, and how long they may say nothing."""
        settings = self.settings
        return ConnectionBounds(
            settings.max_connections,
            settings.max_connections_per_address,
            settings.idle_timeout,
            settings.message_timeout / 2,
            settings.proxy_rules(),
        )

    def url_at(self, listener: trio.SocketListener) -> str:
        """Return its URL at a listener."""
        return url_of(listener, "ws" if self.only_websockets else "http", self.ssl_context, self.settings.path)


async def serve_site(
    site: Site,
    shutdown: Shutdown | None,
    task_status: trio.TaskStatus[tuple[str, ...]],
    listening: AbstractAsyncContextManager[Listeners] | None = None,
    group: Group | None = None,
    is_retiring: Callable[[], bool] = lambda: False,
) -> None:
    """Serve an endpoint until `shutdown`: over HTTP, or WebSockets and nothing else. See `serve_http`.

    In a group of processes the sockets are given, and the group says who serves what; `is_retiring` says whether
    this one ends because another one replaces it.
    """
    hosted(site.server, "serve_websocket()" if site.only_websockets else "serve_http()")
    check_given(serve_site, {"shutdown": shutdown})
    shutdown = Shutdown() if shutdown is None else shutdown
    if listening is None:
        listening = open_listeners(site.host, site.port, site.unix_path, site.unix_mode)
    running = _open_hosting(site, shutdown, group, is_retiring)
    await serve_until_drain(running, listening, shutdown, _log, task_status.started)


@asynccontextmanager
async def _open_hosting(
    site: Site, shutdown: Shutdown, workers: Group | None, is_retiring: Callable[[], bool]
) -> AsyncGenerator[Hosting[ConnectionIO]]:
    """Run the endpoint; yield how connections to it are served."""
    async with (
        _open_application(site.routes) as rest,
        nullcontext(workers) if site.store is None else site.store.join() as group,
        open_endpoint(
            site.server,
            site.settings,
            authenticate=site.authenticate,
            auth=site.auth,
            event_store=site.event_store,
            shutdown=shutdown,
            only_websockets=site.only_websockets,
            routes=_by_path(site.routes),
            rest=rest,
            group=group,
        ) as endpoint,
        nullcontext() if group is None else group.serving(endpoint),
    ):

        async def finish(connections: Connections[ConnectionIO]) -> None:
            if is_retiring():
                await run_until_first(partial(_retire, connections), shutdown.wait_abort)
            await run_until_first(endpoint.drain, shutdown.wait_abort)
            with trio.move_on_after(site.server.limits.goodbye_timeout):
                await run_until_first(connections.finish, shutdown.wait_abort)

        yield Hosting(
            _host(site.http, endpoint, site.settings),
            site.bounds,
            lambda connection, client: _wire_over(connection, client, site.settings, site.ssl_context),
            site.url_at,
            finish,
            cuts_rest=True,
            task_name="an HTTP connection",
        )


def _by_path(routes: Routes | AsgiApplication | None) -> Routes | None:
    return cast("Any", routes) if isinstance(routes, Mapping) else None


@asynccontextmanager
async def _open_application(routes: Routes | AsgiApplication | None) -> AsyncGenerator[Route | None]:
    """Run an ASGI application; yield a function that has it answer requests."""
    if routes is None or isinstance(routes, Mapping):
        yield None
        return
    async with open_asgi_client(routes) as application:

        async def answer(call: HttpCall) -> None:
            path = call.raw_path.decode("ascii") + (f"?{call.query}" if call.query else "")
            server = parse_target(f"{call.scheme}://{call.headers.get('host') or 'localhost'}/")
            target = attrs.evolve(server, path=path)
            fields = [(name, value) for name, value in call.headers if name.lower() not in _OF_REQUEST]
            request = HttpRequest(method=call.method, target=target, headers=fields, body=await call.read_body())
            client = None if call.client is None else (call.client, 0)
            async with await application.send(request, client=client) as response:
                kept = [(name, value) for name, value in response.headers if name.lower() not in _OF_CONNECTION]
                await call.start(response.status, kept)
                while data := await response.receive_some():
                    await call.send(data)
                await call.finish()

        yield answer


def _wire_over(
    connection: socket.socket,
    client: str | None,
    settings: HttpServerSettings,
    ssl_context: ssl.SSLContext | None,
) -> ConnectionIO:
    if ssl_context is None:
        return SocketIO(client, settings.send_timeout, connection)
    transport = trio.SocketStream(trio.socket.from_stdlib_socket(connection))
    stream = trio.SSLStream(transport, ssl_context, server_side=True, https_compatible=True)
    return TlsIO(client, settings.send_timeout, stream, settings.message_timeout)


def url_of(listener: trio.SocketListener, protocol: str, ssl_context: ssl.SSLContext | None, path: str) -> str:
    """Return the URL of the endpoint at a listener."""
    scheme = protocol if ssl_context is None else f"{protocol}s"
    address = listener.socket.getsockname()
    if isinstance(address, str):
        return f"{scheme}+unix://{quote(address, safe='')}{path}"
    return f"{scheme}://{bracketed(address[0])}:{address[1]}{path}"
