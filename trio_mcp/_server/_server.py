"""The server: its options, its lifespan, and the serving of clients over channels, stdio or HTTP.

What it offers is registered and looked up in the classes it inherits from; one connection is in `_session`.
"""

from __future__ import annotations

import abc
import os
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, final

import attrs
import trio
from typing_extensions import TypeVar

from .._bindings._stdio_server import open_stdio_channel
from .._channel import Channel
from .._core._account import PoolStatistics
from .._core._http1 import HeaderMark
from .._core._lifecycle import Agreement
from .._core._sealing import Sealer
from .._limits import Limits, SocketServerSettings
from .._oauth._principal import Principal
from .._peer._exchange import Dispatcher
from .._peer._middleware import Middleware
from .._peer._peer import Peer, open_peer
from .._peer._send_queue import OnFrame
from .._revisions import Revision
from ..types import Icon, Implementation
from ._application import Application, ServerExtension, ServerExtensions
from ._changes import ChangeHub
from ._context import NotificationHandler
from ._functions import MethodHandler
from ._lifetimes import Background, Shutdown, open_background
from ._listing import CacheHint, Listing
from ._parking import EndedBeforeStart, Lifetime, Service, open_service
from ._prompts import Completer, PromptRegistry
from ._resources import ResourceRegistry
from ._serve import run_hosted, run_until_signal, serve_until_end
from ._session import ServerSession, current_holder
from ._threads import Threads
from ._tools import ToolRegistry

if TYPE_CHECKING:  # a program that serves stdio does not load it
    from .._auth._resource_server import ResourceServer
    from .._core._http_rules import HttpHost, HttpServerSettings


StateT = TypeVar("StateT", default=Any)


class ClientSession(Dispatcher, Protocol):
    """Dispatches the messages of one client, or over HTTP of all that are served request by request."""

    def connected(self, opening: AbstractAsyncContextManager[Peer]) -> AbstractAsyncContextManager[Peer]:
        """Open the connection that it dispatches, for as long as the body runs."""
        ...


class Servable(abc.ABC, Generic[StateT]):
    """What is served over channels, stdio, sockets and HTTP: a `Server`, or a `Proxy`.

    Attributes:
        middleware: Wraps every request and notification, from clients and to them; the first is the outermost.
    """

    middleware: tuple[Middleware, ...]
    _services: list[Service[Any]]

    @property
    @abc.abstractmethod
    def limits(self) -> Limits:
        """Limits of each connection."""

    @property
    @abc.abstractmethod
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions it speaks."""

    @abc.abstractmethod
    def open_service(self, lifetime: Lifetime | None = None) -> AbstractAsyncContextManager[Service[Any]]:
        """Run it: enter its lifespan, and leave it after all connections have ended.

        Raises:
            EndedBeforeStart: The lifespan was cancelled while it was being entered.
        """

    @abc.abstractmethod
    def new_session(
        self,
        service: Service[Any],
        background: Background,
        assumed: Agreement | None = None,
        *,
        holder: str | None = None,
        keep: Callable[[int], object] | None = None,
    ) -> ClientSession:
        """Return what dispatches the messages of one client; see `serve_beside`."""

    def marks_of(self, method: str, params: Mapping[str, Any]) -> tuple[HeaderMark, ...]:
        """Return which arguments of a request header fields carry, over HTTP. Default: none."""
        del method, params
        return ()

    def lacking_scopes(
        self, method: str, params: Mapping[str, Any], principal: Principal | None
    ) -> frozenset[str] | None:
        """Return the scopes that a request needs, if its principal lacks some. Default: those of all suffice."""
        del method, params, principal
        return None

    # Serving.

    async def serve_channel(
        self,
        channel: Channel,
        *,
        shutdown: Shutdown | None = None,
        on_frame: OnFrame | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve the client at the other end of a channel until it goes, then return.

        When the client's messages end, or `shutdown` is drained, open requests are still answered, within
        `Limits.drain_timeout`. Cancelled, every handler is cancelled and its cleanup runs. Either way the channel
        is closed and no task is left. If `shutdown` is drained while the lifespan is being entered, the lifespan
        is cancelled and this returns without having served.

        Every call enters the lifespan again; use `open` for several channels that share one.

        Args:
            channel: The channel; it is closed in the end.
            shutdown: Ends it: drain it, or abort it.
            on_frame: Called with ``"sent"`` or ``"received"`` and each message.
            task_status: Started when the client can be served.
        """
        shutdown = Shutdown() if shutdown is None else shutdown
        lifetime = Lifetime(shutdown, self.limits, of_client=True)
        try:
            async with (
                channel.reading_ahead(lifetime.lose_client, self.limits.max_waiting_bytes),
                self.open_service(lifetime) as service,
            ):
                await self.serve_one(service, channel, shutdown, on_frame=on_frame, task_status=task_status)
        except EndedBeforeStart:
            pass
        finally:
            with trio.move_on_after(self.limits.goodbye_timeout, shield=True):
                await channel.aclose()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[RunningServer[StateT]]:
        """Run the server for as long as the block runs, and serve any number of channels within it.

        ::

            async with server.open() as running, trio.open_nursery() as nursery:
                nursery.start_soon(running.serve_channel, one)
                nursery.start_soon(running.serve_channel, other)

        The lifespan is entered first and left last. In between, tasks that last until the server ends are
        cancelled, and so are handlers that wait for their clients. The nursery that serves belongs inside of the
        block, so that no client is served any more when it is left.

        Spec: none; `serve_http` does the same for all its clients.
        """
        async with self.open_service() as service:
            running = RunningServer(self, service)
            try:
                yield running
            finally:
                running._is_over = True  # noqa: SLF001 - this module's own

    # What hosts of several connections ask.

    def statistics(self) -> tuple[Mapping[str, PoolStatistics], ...]:
        """Return what is kept for clients, for each run of the server; usually there is one run.

        Keyed by the unit: ``"bytes"`` of `Limits.max_kept_bytes`, and places. May be called from any task.
        """
        return tuple(service.account.statistics() for service in self._services)

    async def serve_one(
        self,
        service: Service[Any],
        channel: Channel,
        shutdown: Shutdown,
        *,
        on_frame: OnFrame | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve one client of a running server, until it goes or `shutdown` is drained."""
        async with open_background(f"the session with {channel.description}") as background:
            await self.serve_beside(
                background, service, channel, shutdown, on_frame=on_frame, task_status=task_status
            )

    async def serve_beside(
        self,
        background: Background,
        service: Service[Any],
        channel: Channel,
        shutdown: Shutdown,
        *,
        assumed: Agreement | None = None,
        holder: str | None = None,
        keep: Callable[[int], object] | None = None,
        on_frame: OnFrame | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve one client of a running server, with background tasks that the caller owns.

        What it keeps is lent to `holder`; `keep` is called with how much its subscriptions keep.
        """
        session = self.new_session(service, background, assumed, holder=holder, keep=keep)
        opening = open_peer(channel, session, self.limits, on_frame=on_frame, middleware=self.middleware)
        async with session.connected(opening) as peer:
            task_status.started()
            await serve_until_end(peer, shutdown)

    def run(
        self,
        transport: Literal["stdio", "streamable-http", "sse", "websocket", "tcp", "unix"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        path: str | os.PathLike[str] | None = None,
        http: HttpHost = "hypercorn",
        settings: HttpServerSettings | SocketServerSettings | None = None,
        ssl_context: ssl.SSLContext | None = None,
        authenticate: Callable[[Any], Awaitable[str | None]] | None = None,
        auth: ResourceServer | None = None,
    ) -> None:
        """Run this server as a whole program, until its client goes or a signal ends it.

        Over stdio: standard input and output belong to the protocol, and what is printed goes to standard error.
        SIGTERM, or the end of input, lets handlers finish within `Limits.drain_timeout`; both, or SIGINT, cancels
        them at once. Their cleanup and the lifespan's run. Over HTTP it is the same but for the end of input. A
        further signal cancels a lifespan that does not end, and the third one ends the process at once;
        see `run_until_signal`.

        Args:
            transport: How clients are reached: ``"streamable-http"`` serves every revision at one endpoint, and
                ``"sse"`` beside it HTTP+SSE, the deprecated transport of 2024-11-05; ``"websocket"`` serves
                WebSockets, and nothing else. ``"tcp"`` and ``"unix"`` serve many clients with one message a line,
                as over stdio; see `serve_tcp`, `serve_unix`.
            host: The address to listen on, for HTTP, WebSockets and TCP. Only this machine can reach the default;
                except over TCP, others need to be let in by `HttpServerSettings.allowed_hosts` as well.
            port: The port, likewise.
            path: Where the Unix socket is to be.
            http: The implementation of HTTP: ``"hypercorn"``, or the faster ``"lean"``; see `serve_http`.
            settings: Which clients are let in, and what they may cost: `HttpServerSettings` for HTTP and
                WebSockets, `SocketServerSettings` for TCP and Unix sockets.
            ssl_context: The certificate for TLS, and whether clients need one, for HTTP, WebSockets and TCP.
            authenticate: Authenticates requests over HTTP, and handshakes of WebSockets; see `serve_http`.
            auth: Protects HTTP and WebSockets by OAuth, instead; see `ResourceServer`.

        Raises:
            SystemExit: With status 130 after SIGINT, as shells expect it.
            TypeError: The settings are those of other transports.
            ValueError: There is no such transport, or it has no such option.
            OSError: The address cannot be listened on.
        """
        is_http = transport in ("streamable-http", "sse", "websocket")
        options: dict[str, Any] = {
            "settings": settings,
            "ssl_context": ssl_context,
            "authenticate": authenticate,
            "auth": auth,
        }
        options = {name: value for name, value in options.items() if value is not None}
        for name in options:
            if transport == "stdio" or (name == "ssl_context" and transport == "unix"):
                raise ValueError(f"there is no {name} over {transport}")
            if name in ("auth", "authenticate") and not is_http:
                raise ValueError(f"{name} is for HTTP and WebSockets, not for {transport!r}")
        if isinstance(settings, SocketServerSettings) is is_http and settings is not None:
            raise TypeError(f"settings must be {'Http' if is_http else 'Socket'}ServerSettings over {transport}")
        if transport == "stdio":
            run_until_signal(partial(serve_stdio, self))
        elif transport in ("streamable-http", "sse"):
            if transport == "sse":
                from .._core._http_rules import HttpServerSettings

                options["settings"] = attrs.evolve(options.get("settings", HttpServerSettings()), sse=True)
            run_hosted("serve_http", self, host, port, http=http, **options)
        elif transport == "websocket":
            run_hosted("serve_websocket", self, host, port, **options)
        elif transport == "tcp":
            run_hosted("serve_tcp", self, host, port, **options)
        elif transport == "unix" and path is not None:
            run_hosted("serve_unix", self, path, **options)
        elif transport == "unix":
            raise ValueError("a Unix socket needs its path: run('unix', path=…)")
        else:
            transports = "'stdio', 'streamable-http', 'sse', 'websocket', 'tcp' or 'unix'"
            raise ValueError(f"transport must be {transports}, not {transport!r}")


@final
class Server(Application, Servable[StateT]):
    """A program that offers tools, prompts and resources to models, through clients of every revision.

    Args:
        name: Its name, for programs.
        version: Its version.
        title: Its name, for people.
        description: What it does.
        website_url: Where to read about it.
        icons: Icons to show for it.
        instructions: How a model should use it.
        lifespan: Called with the server; returns an async context manager that is entered before it serves and
            left after it has served. What it yields is `Context.state`.
        limits: What each connection may cost, and how long ending may take.
        revisions: The revisions it speaks. Default: all.
        middleware: Wraps every request and notification, from clients and to them, the handshake included; the
            first is the outermost. Cancellations and progress do not pass through it.
        extensions: The extensions of the protocol that it knows.
        request_state_keys: Secrets that seal what clients carry from one request to the next, the first for new
            states, all for old ones, so that keys can be rotated. Without any, a state is good for this object
            only; replicas and restarts need shared keys.
        single_use_states: Whether a state that a client carries for a handler which is run again
            (``resume="replay"``, `InputRequired`) is good for one request only, as that of a parked handler is
            always. A request that brings it uses it up, however it ends. This process remembers which were used
            until they expire (`Limits.parked_timeout`), within `Limits.max_used_states`; each replica, and each
            restart, accepts such a state once more.
        page_size: How many items a page of a list has; `None`, the default, for all of them.
        cursor_key: The secret, at least 16 bytes, by which the cursors between pages are protected from changes.
            Processes that share one understand each other's cursors. By default each server has its own.
        cache: How long clients may keep results, and for whom: one `CacheHint` for all lists and for
            `server/discover`, or hints by method. By default clients keep nothing.

    Raises:
        ValueError: The name is empty, there is no revision, or an option is out of bounds.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "",
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[Icon] | None = None,
        instructions: str | None = None,
        lifespan: Callable[[Server[StateT]], AbstractAsyncContextManager[StateT]] | None = None,
        limits: Limits | None = None,
        revisions: Sequence[Revision | str] = tuple(Revision),
        middleware: Sequence[Middleware] = (),
        extensions: Sequence[ServerExtension] = (),
        request_state_keys: Sequence[bytes] | None = None,
        single_use_states: bool = False,
        page_size: int | None = None,
        cursor_key: bytes | None = None,
        cache: CacheHint | Mapping[str, CacheHint] | None = None,
    ) -> None:
        if not name:
            raise ValueError("a server needs a name, not ''")
        if not revisions:
            raise ValueError("a server needs a revision to speak: give one in revisions, or leave it out for all")
        self._info = Implementation(
            name=name,
            version=version,
            title=title,
            description=description,
            website_url=website_url,
            icons=icons,
        )
        self._instructions = instructions
        self._services = []
        self._lifespan = lifespan
        self._limits = Limits() if limits is None else limits
        self._revisions = tuple(Revision(revision) for revision in revisions)
        self.changes: ChangeHub = ChangeHub(self._limits)
        self._threads = Threads(self._limits, current_holder)
        self._listing = Listing(page_size=page_size, cursor_key=cursor_key, cache=cache)
        self._tools = ToolRegistry()
        self._tools.entries.on_change = partial(self.changes.list_changed, "tools")
        self._prompts = PromptRegistry()
        self._prompts.entries.on_change = partial(self.changes.list_changed, "prompts")
        self._resources = ResourceRegistry(self._limits, self._threads, self._listing)
        self._resources.entries.on_change = partial(self.changes.list_changed, "resources")
        self.changes.knows = self._knows
        self._completer = Completer(self._prompts, self._resources, check=self._resources.check_typed)
        self._custom: dict[str, MethodHandler] = {}
        self.middleware: tuple[Middleware, ...] = tuple(middleware)
        self._sealer = Sealer(request_state_keys)
        self._single_use_states = single_use_states
        self._notification_handlers: dict[str, NotificationHandler] = {}
        self._extensions = ServerExtensions(extensions)
        for extension in extensions:
            for function in extension.tools:
                self.tool(function)

    # Serving.

    @asynccontextmanager
    async def _lifespan_state(self) -> AsyncGenerator[StateT | None]:
        if self._lifespan is None:
            yield None
        else:
            async with self._lifespan(self) as state:
                yield state

    @asynccontextmanager
    async def open_service(self, lifetime: Lifetime | None = None) -> AsyncGenerator[Service[StateT | None]]:
        """Run the server: enter its lifespan, and leave it after all connections have ended.

        Raises:
            EndedBeforeStart: The lifespan was cancelled while it was being entered.
        """
        async with open_service(
            self._info.name,
            self._lifespan_state(),
            self._sealer,
            self._limits,
            lifetime,
            single_use_states=self._single_use_states,
        ) as service:
            self._services.append(service)
            try:
                yield service
            finally:
                self._services.remove(service)

    def new_session(
        self,
        service: Service[Any],
        background: Background,
        assumed: Agreement | None = None,
        *,
        holder: str | None = None,
        keep: Callable[[int], object] | None = None,
    ) -> ServerSession:
        """Return what dispatches the messages of one client; see `serve_beside`."""
        return ServerSession(self, service, background, assumed, holder=holder, keep=keep)


@final
@attrs.define(eq=False, repr=False)
class RunningServer(Generic[StateT]):
    """A server that runs, and serves the channels it is given; `Server.open` makes it."""

    _server: Servable[StateT]
    _service: Service[Any]
    _is_over: bool = attrs.field(default=False, init=False)

    @property
    def state(self) -> StateT:
        """What the server's lifespan yielded; `None` if it has none."""
        state: StateT = self._service.state
        return state

    def statistics(self) -> Mapping[str, PoolStatistics]:
        """Return what is kept for clients: of `Limits.max_kept_bytes`, as ``"bytes"``, and of places."""
        return self._service.account.statistics()

    async def serve_channel(
        self,
        channel: Channel,
        *,
        shutdown: Shutdown | None = None,
        on_frame: OnFrame | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve the client at the other end of a channel until it goes, then return; see `Server.serve_channel`.

        Cancelled, every handler is cancelled and its cleanup runs; other channels are served on.

        Args:
            channel: The channel; it is closed in the end.
            shutdown: Ends it: drain it, or abort it.
            on_frame: Called with ``"sent"`` or ``"received"`` and each message.
            task_status: Started when the client can be served.

        Raises:
            trio.ClosedResourceError: The server does not run any more. The channel is closed all the same.
        """
        server = self._server
        try:
            if self._is_over:
                raise trio.ClosedResourceError("this server has ended; serve within the block of Server.open()")
            await server.serve_one(
                self._service, channel, shutdown or Shutdown(), on_frame=on_frame, task_status=task_status
            )
        finally:
            with trio.move_on_after(server.limits.goodbye_timeout, shield=True):
                await channel.aclose()


async def serve_stdio(
    server: Servable[Any],
    *,
    shutdown: Shutdown | None = None,
    on_frame: OnFrame | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the client at this process's standard input and output until it goes, then return.

    Meanwhile the two belong to the protocol: for all other code standard input is empty, and what is printed
    goes to standard error. No signal is handled here; `Server.run` does that for a whole program.

    Args:
        server: The server.
        shutdown: Ends it: drain it, or abort it.
        on_frame: Called with ``"sent"`` or ``"received"`` and each message.
        task_status: Started when the client can be served.

    Raises:
        OSError: Standard input or output is closed or cannot be used.

    Spec: 2026-07-28, basic/transports/stdio.
    """
    async with open_stdio_channel(server.limits) as channel:
        await server.serve_channel(channel, shutdown=shutdown, on_frame=on_frame, task_status=task_status)
