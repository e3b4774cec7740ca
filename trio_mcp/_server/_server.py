"""The server: its options, its lifespan, and the serving of clients over channels, stdio or HTTP.

What it offers is registered and looked up in the classes it inherits from; one connection is in `_session`.
"""

from __future__ import annotations

import abc
import inspect
import os
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypedDict, cast, final

import attrs
import trio
from typing_extensions import TypeVar, Unpack

from .._audit import SERVED
from .._bindings._stdio_server import open_stdio_channel
from .._channel import Channel
from .._core._account import Account, PoolStatistics
from .._core._http1 import NAME_SOURCES, HeaderMark
from .._core._lifecycle import Agreement
from .._core._sealing import Sealer
from .._lazily import name_as_methods_of, names_for_users
from .._limits import Limits, SocketServerSettings, check_given, check_options
from .._oauth._principal import Principal
from .._peer._exchange import Dispatcher
from .._peer._middleware import Middleware
from .._peer._peer import Peer, open_peer
from .._peer._send_queue import Hooks, OnFrame
from .._revisions import Revision
from .._trio import check_nothing_runs, check_trio_runs
from ..types import Icon, Implementation
from ._access import ServerActivity, WatchedSession, access_log, activity_in
from ._application import Application, Registration
from ._apps import AppRegistration, check_pages
from ._changes import ChangeHub
from ._extensions import ServerExtension, ServerExtensions
from ._functions import name_of
from ._lifetimes import Background, EndedBeforeStart, Lifetime, Shutdown, open_background
from ._listing import CacheHint, Listing
from ._parking import Service, open_service
from ._permits import read_throttle
from ._serve import announce_stdio, run_hosted, run_until_signal, serve_until_end
from ._session import ServerSession, current_client, current_exchange
from ._task_store import MemoryTaskStore, TaskStore
from ._threads import Threads

if TYPE_CHECKING:  # a program that serves stdio does not load it
    from .._auth._verifiers import ResourceServer
    from .._core._http_rules import HttpServerSettings
    from ._tasks import Tasks


StateT = TypeVar("StateT", default=Any)


class RunOptions(TypedDict, total=False):
    """The options of `Server.run`, all for the transports that are named here; they have none over stdio.

    Attributes:
        host: The address to listen on, for HTTP, WebSockets and TCP; `None` for all. Only this machine can reach
            the default, 127.0.0.1; except over TCP, others need to be let in by
            `HttpServerSettings.allowed_hosts` as well.
        port: The port, likewise; 0 for one that is free. Default: 8000.
        path: Where the endpoint is, for HTTP and WebSockets: by default that of the settings, ``/mcp``. For
            ``"unix"``, where the socket is to be.
        http: The implementation of HTTP: ``"hypercorn"``, the default, or the faster ``"lean"``.
        settings: Which clients are let in, and what they may cost: `HttpServerSettings` for HTTP and WebSockets,
            `SocketServerSettings` for TCP and Unix sockets.
        ssl_context: The certificate for TLS, and whether clients need one, for HTTP, WebSockets and TCP.
        unix_path: A Unix socket to listen on instead of host and port, for HTTP and WebSockets.
        unix_mode: Who may connect to a Unix socket, as for `chmod`. Default: 0o600.
        authenticate: Authenticates requests over HTTP, and handshakes of WebSockets; see `serve_http`.
        auth: Protects HTTP and WebSockets by OAuth, instead; see `ResourceServer`.
        event_store: An `EventStore` that keeps events for clients of the legacy era over HTTP that lost a
            connection. Default: in memory.
        store: A `SqliteStore` or `RedisStore`, by which several processes are one server; see `serve_http`.
        routes: What is served over HTTP at other paths; see `serve_http`.
    """

    host: str | None
    port: int
    path: str | os.PathLike[str] | None
    http: Literal["hypercorn", "lean"]
    settings: HttpServerSettings | SocketServerSettings | None
    ssl_context: ssl.SSLContext | None
    unix_path: str | os.PathLike[str] | None
    unix_mode: int
    authenticate: Callable[[Any], Awaitable[str | None] | str | None] | None
    auth: ResourceServer | None
    event_store: Any
    store: Any
    routes: Mapping[str, Callable[[Any], Awaitable[object]]] | Callable[..., Awaitable[Any]] | None


SERVES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "stdio": "serve_stdio",
        "streamable-http": "serve_http",
        "sse": "serve_http",
        "websocket": "serve_websocket",
        "tcp": "serve_tcp",
        "unix": "serve_unix",
    }
)
"""The transports of `Server.run`, and the public functions that serve them."""

_OF_LISTENERS: Final = frozenset({"host", "port", "settings", "ssl_context"})
_OF_WEBSOCKETS: Final = _OF_LISTENERS | {"path", "unix_path", "unix_mode", "authenticate", "auth"}
_OF_HTTP: Final = _OF_WEBSOCKETS | {"http", "event_store", "store", "routes"}
_OPTIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "stdio": frozenset[str](),
        "streamable-http": _OF_HTTP,
        "sse": _OF_HTTP,
        "websocket": _OF_WEBSOCKETS,
        "tcp": _OF_LISTENERS,
        "unix": frozenset({"path", "settings", "unix_path", "unix_mode"}),
    }
)
"""Which options each transport has."""


def _checked(transport: str, options: RunOptions) -> dict[str, Any]:
    """Return the options that are given, all of which the transport has.

    Raises:
        TypeError: There is no such option, or the settings are those of other transports.
        ValueError: There is no such transport, or it has no such option.
    """
    check_options(options, RunOptions)
    if transport not in _OPTIONS:
        *others, last = map(repr, _OPTIONS)
        raise ValueError(f"transport must be {', '.join(others)} or {last}, not {transport!r}")
    given = {name: value for name, value in options.items() if value is not None or name == "host"}
    for name in given:
        if name not in _OPTIONS[transport]:
            having = [repr(each) for each, names in _OPTIONS.items() if name in names]
            listed = having[0] if len(having) == 1 else f"{', '.join(having[:-1])} and {having[-1]}"
            raise ValueError(
                f"{name} is an option of {listed}, not of {transport!r}: "
                f"write run({having[0]}, {name}=...), or leave it out"
            )
    is_http = "authenticate" in _OPTIONS[transport]
    settings = given.get("settings")
    if settings is not None and isinstance(settings, SocketServerSettings) is is_http:
        raise TypeError(f"settings must be {'Http' if is_http else 'Socket'}ServerSettings over {transport}")
    return given


def _renamed(options: dict[str, Any], **names: str) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in options.items()}


class ClientSession(Dispatcher, Protocol):
    """Dispatches the messages of one client, or over HTTP of all that are served request by request."""

    @property
    def revision(self) -> Revision | None:
        """The revision that the handshake agreed on; `None` without one."""
        ...

    def connected(self, opening: AbstractAsyncContextManager[Peer]) -> AbstractAsyncContextManager[Peer]:
        """Open the connection that it dispatches, for as long as the body runs."""
        ...


class NewSession(Protocol):
    """Makes what dispatches the messages of one client."""

    def __call__(
        self,
        service: Service[Any],
        background: Background,
        assumed: Agreement | None = None,
        *,
        client: str | None = None,
        keep: Callable[[int], object] | None = None,
    ) -> ClientSession:
        """Return it; see `Hosted.serve_beside`."""
        ...


@final
@attrs.define(eq=False)
class Hosted:
    """What hosts use of a `Server` or a `Proxy`, and its author does not.

    Args:
        servable: The server or the proxy.
        limits: Limits of each connection.
        new_service: Returns what `open_service` opens.
        new_session: Makes what dispatches the messages of one client.
        marks_of: Returns which arguments of a request header fields carry, over HTTP.
        lacking_scopes: Returns the scopes that a request needs, if its principal lacks some; by default those of
            all suffice.
        names: Which parameter of a method a header field repeats.
        join: Called with a key for cursors where several processes serve together; returns what tells clients of
            changes, if it does that itself.

    Attributes:
        services: The runs of it that there are; usually one.
    """

    _servable: Servable[Any]
    limits: Limits
    _new_service: Callable[[Lifetime | None, TaskStore | None], AbstractAsyncContextManager[Service[Any]]]
    new_session: NewSession
    marks_of: Callable[[str, Mapping[str, Any]], tuple[HeaderMark, ...]]
    lacking_scopes: Callable[[str, Mapping[str, Any], Principal | None], frozenset[str] | None] = (
        lambda _method, _params, _principal: None
    )
    names: Mapping[str, str] = NAME_SOURCES
    join: Callable[[bytes], ChangeHub | None] = lambda _key: None
    services: list[Service[Any]] = attrs.field(init=False, factory=list[Service[Any]])

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions it speaks."""
        return self._servable.revisions

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """What wraps every request and notification."""
        return self._servable.middleware

    @asynccontextmanager
    async def open_service(
        self, lifetime: Lifetime | None = None, tasks: TaskStore | None = None
    ) -> AsyncGenerator[Service[Any]]:
        """Run it: enter its lifespan, and leave it after all connections have ended.

        Its tasks are kept in `tasks`, unless its author has said where.

        Raises:
            EndedBeforeStart: The lifespan was cancelled while it was being entered.
        """
        async with self._new_service(lifetime, tasks) as service:
            self.services.append(service)
            SERVED.set(service.name)  # for the tasks that are started in the block
            try:
                yield service
            finally:
                self.services.remove(service)

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
        client: str | None = None,
        keep: Callable[[int], object] | None = None,
        on_frame: OnFrame | None = None,
        after_id: int = 0,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve one client of a running server, with background tasks that the caller owns.

        What it keeps is lent to `client`; `keep` is called with how much its subscriptions keep. What it is asked
        has ids greater than `after_id`.
        """
        SERVED.set(service.name)
        session = self.new_session(service, background, assumed, client=client, keep=keep)
        on_served = access_log(service.records, service.name, channel.transport, session)
        hooks = Hooks(on_frame=on_frame, on_served=on_served, after_id=after_id)
        opening = open_peer(channel, session, self.limits, hooks=hooks, middleware=self.middleware)
        async with session.connected(opening) as peer:
            service.watched[peer] = WatchedSession(peer, channel, client, session)
            try:
                task_status.started()
                await serve_until_end(peer, shutdown)
            finally:
                del service.watched[peer]


class Servable(abc.ABC, Generic[StateT]):
    """What is served over channels, stdio, sockets and HTTP: a `Server`, or a `Proxy`.

    Attributes:
        middleware: Wraps every request and notification, from clients and to them; the first is the outermost.
    """

    middleware: tuple[Middleware, ...]
    _hosted: Hosted
    _wanted = "a Server or a Proxy"

    def __dir__(self) -> list[str]:
        return names_for_users(self)

    @property
    @abc.abstractmethod
    def limits(self) -> Limits:
        """Limits of each connection."""

    @property
    @abc.abstractmethod
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions it speaks."""

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
        served = hosted(self, "serve_channel()")
        check_given(Servable.serve_channel, locals())
        shutdown = Shutdown() if shutdown is None else shutdown
        lifetime = Lifetime(shutdown, self.limits, of_client=True)
        try:
            async with (
                channel.reading_ahead(lifetime.lose_client, self.limits.max_waiting_bytes),
                served.open_service(lifetime) as service,
            ):
                await served.serve_one(service, channel, shutdown, on_frame=on_frame, task_status=task_status)
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
        async with hosted(self, "Server.open()").open_service() as service:
            running = RunningServer(self._hosted, service)
            try:
                yield running
            finally:
                running._is_over = True

    def statistics(self) -> tuple[Mapping[str, PoolStatistics], ...]:
        """Return what is kept for clients, for each run of the server; usually there is one run.

        Keyed by the unit: ``"bytes"`` of `Limits.max_kept_bytes`, and places. May be called from any task.
        """
        return tuple(service.account.statistics() for service in self._hosted.services)

    def activity(self) -> ServerActivity:
        """Return what it is doing now: sessions, requests, for how long, and what their handlers wait for.

        Nothing is kept for that; it takes as long as there are sessions and requests, a few microseconds each.
        Call it in Trio's thread, from any task. Empty while the server does not run.
        """
        found = [
            activity_in(
                each.watched.values(),
                [*each.parking.activity(), *(each.tasks.activity() if each.tasks is not None else ())],
            )
            for each in self._hosted.services
        ]
        sessions = [session for sessions, _ in found for session in sessions]
        requests = [request for _, requests in found for request in requests]
        requests.sort(key=lambda request: -request.seconds)
        return ServerActivity(tuple(sessions), tuple(requests))

    def run(
        self,
        transport: Literal["stdio", "streamable-http", "http", "sse", "websocket", "tcp", "unix"] = "stdio",
        **options: Unpack[RunOptions],
    ) -> None:
        """Run this server as a whole program, until its client goes or a signal ends it.

        Over stdio: standard input and output belong to the protocol, and what is printed goes to standard error.
        SIGTERM, or the end of input, lets handlers finish within `Limits.drain_timeout`; both, or SIGINT, cancels
        them at once. Their cleanup and the lifespan's run. Over HTTP it is the same but for the end of input. A
        further signal cancels a lifespan that does not end, and the third one ends the process at once;
        see `run_until_signal`.

        Where it serves is logged (INFO); and shown at a terminal, on standard error, if that log is not.

        Args:
            transport: How clients are reached: ``"streamable-http"``, or ``"http"``, serves every revision at one
                endpoint, and ``"sse"`` beside it HTTP+SSE, the deprecated transport of 2024-11-05;
                ``"websocket"`` serves WebSockets, and nothing else. ``"tcp"`` and ``"unix"`` serve many clients
                with one message a line, as over stdio; see `serve_tcp`, `serve_unix`.
            **options: See `RunOptions`.

        Raises:
            SystemExit: With status 130 after SIGINT, as shells expect it.
            RuntimeError: It is called inside Trio, or inside asyncio, whose event loop it would keep waiting.
            TypeError: There is no such option, or the settings are those of other transports.
            ValueError: There is no such transport or port, or the transport has no such option.
            OSError: The address cannot be listened on. If nobody catches it, or the error of a port, the program
                ends with status 1 and one line on standard error, without a traceback.
        """
        transport = "streamable-http" if transport == "http" else transport
        given = _checked(transport, options)
        check_nothing_runs("run()", f"trio_mcp.{SERVES[transport]}", "server, ...")
        if transport == "stdio":
            announce_stdio()
            run_until_signal(partial(serve_stdio, self))
            return
        if transport == "unix":
            path = given.pop("path", given.pop("unix_path", None))
            if path is None:
                raise ValueError("a Unix socket needs its path: run('unix', path=...)")
            run_hosted("serve_unix", self, path, **_renamed(given, unix_mode="mode"))
            return
        path = given.pop("path", None)
        if transport in ("streamable-http", "sse") and (path is not None or transport == "sse"):
            from .._core._http_rules import HttpServerSettings

            settings = given.get("settings", HttpServerSettings())
            sse = settings.sse or transport == "sse"
            given["settings"] = attrs.evolve(settings, sse=sse, path=settings.path if path is None else path)
        elif path is not None:
            given["path"] = path
        run_hosted(SERVES[transport], self, **given)


def hosted(server: Servable[Any], what: str) -> Hosted:
    """Return what hosts use of a server that is about to be served.

    Args:
        server: What a user wants to have served.
        what: What serves it, as users write it.

    Raises:
        RuntimeError: Trio does not run the caller.
        TypeError: It is neither a `Server` nor a `Proxy`.
    """
    check_trio_runs(what)
    check_given(hosted, {"server": server})
    return server._hosted


def _check_name_and_revisions(name: str, revisions: Sequence[Revision | str]) -> None:
    if not name:
        raise ValueError("a server needs a name, not ''")
    if not revisions:
        raise ValueError("a server needs a revision to speak: give one in revisions, or leave it out for all")


def _check_lifespan(lifespan: Callable[..., object] | None) -> None:
    """Refuse what is no lifespan before it is entered, which may be long after.

    Raises:
        TypeError: It is not a function of the server, or needs `asynccontextmanager`.
    """
    if lifespan is None:
        return
    given: Any = lifespan
    if not callable(given) or hasattr(given, "__aenter__"):  # what a decorated function returns
        raise TypeError(f"lifespan takes the function itself, without parentheses, not {type(given).__name__}")
    name = name_of(lifespan)
    if inspect.isasyncgenfunction(lifespan) or inspect.iscoroutinefunction(lifespan):
        raise TypeError(f"lifespan {name}() needs @asynccontextmanager above it, and to yield once")
    try:
        inspect.signature(lifespan).bind(None)
    except TypeError:
        raise TypeError(
            f"lifespan {name}() is called with the server: write async def {name}(server: Server)"
        ) from None
    except ValueError:  # of some written in C
        pass


_Method = TypeVar("_Method", bound=Callable[..., None])


def _refusing_options_of_run(init: _Method) -> _Method:
    """Return a constructor that says where options of `Server.run` belong, which other libraries take here."""

    @wraps(init)
    def construct(self: object, *args: Any, **options: Any) -> None:
        for name in options.keys() & RunOptions.__annotations__.keys():
            raise TypeError(f"{name} is an option of run(): write server.run('streamable-http', {name}=...)")
        init(self, *args, **options)

    return cast("_Method", construct)


@final
class Server(AppRegistration, Servable[StateT]):
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
        rate: How often each client may send requests, such as ``"600/minute"``, over every transport; as many at
            once as in one period. Further ones are refused with ``SERVER_BUSY`` and the seconds after which to
            try again. Counted is what a handler serves, in the name of a principal, an address without
            authentication, or a connection; not pings, handshakes, subscriptions and notifications. Default:
            `None`, for any number.
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
            until they expire (`Limits.parked_timeout`), 100,000 of them; each replica, and each restart, accepts
            such a state once more.
        page_size: How many items a page of a list has; `None`, the default, for all of them.
        cursor_key: The secret, at least 16 bytes, by which the cursors between pages are protected from changes.
            Processes that share one understand each other's cursors. By default each server has its own.
        task_store: Where tasks are kept (`tool`, ``task=``); or a function that opens that each time the server
            runs, around its lifespan: ``partial(open_sqlite_task_store, "tasks.db")``. Default: in memory, while
            the server runs.
        cache: How long clients may keep results, and for whom: one `CacheHint` for all lists and for
            `server/discover`, or hints by method. By default clients keep nothing.
        strict_input: Whether tools refuse arguments that do not fit their schemas to the letter. Some clients and
            models write JSON into a string (``"3"``), or add arguments of their own. By default such JSON is
            read, at any depth, where the schema takes no string, and what a schema made from hints does not know
            is left out, with a line in the log; but a name much like one that is missing is refused.
        inline_refs: Whether the schemas of tools that are made from hints are written without ``$ref``, for hosts
            that follow no reference. A class that is used twice is then written twice; a tool with one that
            contains itself is refused. By default such a class is a definition.

    Raises:
        TypeError: The rate is no text.
        ValueError: The name is empty, there is no revision, or an option is out of bounds.
    """

    @_refusing_options_of_run
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
        rate: str | None = None,
        revisions: Sequence[Revision | str] = tuple(Revision),
        middleware: Sequence[Middleware] = (),
        extensions: Sequence[ServerExtension] = (),
        request_state_keys: Sequence[bytes] | None = None,
        single_use_states: bool = False,
        page_size: int | None = None,
        cursor_key: bytes | None = None,
        task_store: TaskStore | Callable[[], AbstractAsyncContextManager[TaskStore]] | None = None,
        cache: CacheHint | Mapping[str, CacheHint] | None = None,
        strict_input: bool = False,
        inline_refs: bool = False,
    ) -> None:
        check_given(Server.__init__, locals())
        _check_name_and_revisions(name, revisions)
        _check_lifespan(lifespan)
        limits = Limits() if limits is None else limits
        info = Implementation(
            name=name, version=version, title=title, description=description, website_url=website_url, icons=icons
        )
        self._application = application = Application(
            info,
            instructions,
            limits,
            tuple(Revision(revision) for revision in revisions),
            read_throttle(rate, f"the server {name}"),
            Threads(limits, current_client, current_exchange),
            Listing(page_size=page_size, cursor_key=cursor_key, cache=cache),
            ServerExtensions(extensions),
        )
        application.tools.is_strict, application.tools.is_inline = strict_input, inline_refs
        self.middleware: tuple[Middleware, ...] = tuple(middleware)
        self._lifespan = lifespan
        self._sealer = Sealer(request_state_keys)
        self._single_use_states = single_use_states
        self._task_store = task_store
        self._hosted = Hosted(
            self,
            limits,
            self._new_service,
            partial(ServerSession, application),
            application.marks_of,
            application.lacking_scopes,
            application.extensions.names,
            self._join,
        )
        for extension in extensions:
            self._offer(extension)

    def _join(self, key: bytes) -> ChangeHub:
        """Be one of several processes; see `Hosted`."""
        application = self._application
        application.listing.join(key)
        application.changes.forget = application.kept_lists.forget
        return application.changes

    def _offer(self, extension: ServerExtension) -> None:
        """Register what an extension adds for every client."""
        for function in extension.tools:
            self.tool(function)
        for function in extension.prompts:
            self.prompt(function)
        for uri, content in extension.resources.items():
            if isinstance(content, (str, bytes)):
                self.add_resource(uri, content)
            else:
                self.resource(uri)(content)

    @asynccontextmanager
    async def _lifespan_state(self) -> AsyncGenerator[StateT | None]:
        if self._lifespan is None:
            yield None
        else:
            opening = self._lifespan(self)
            if not hasattr(opening, "__aenter__"):
                raise TypeError(
                    f"lifespan {name_of(self._lifespan)}() has returned {type(opening).__name__}, which is no "
                    "async context manager: write @asynccontextmanager above an async def that yields"
                )
            try:
                async with opening as state:
                    yield state
            except RuntimeError as error:
                place = error.__traceback__ and error.__traceback__.tb_next
                if not str(error).startswith("generator didn't ") or place is None or place.tb_next is not None:
                    raise  # of something within it
                name = name_of(self._lifespan)
                raise RuntimeError(f"lifespan {name}() must yield exactly once: the state, or nothing") from error

    @asynccontextmanager
    async def _lifespan_in(
        self, open_store: Callable[[], AbstractAsyncContextManager[TaskStore]], stores: list[TaskStore]
    ) -> AsyncGenerator[StateT | None]:
        async with open_store() as store, self._lifespan_state() as state:
            stores.append(store)
            yield state

    def _new_service(
        self, lifetime: Lifetime | None, shared: TaskStore | None
    ) -> AbstractAsyncContextManager[Service[StateT | None]]:
        application = self._application
        check_pages(application)
        if application.custom.keys().isdisjoint(("resources/read", "resources/templates/list")):
            application.completer.check_templates(application.resources.templates())
        given, stores = shared if self._task_store is None else self._task_store, list[TaskStore]()
        if given is None or not callable(given):
            lifespan = self._lifespan_state()
            stores += [] if given is None else [given]
        else:
            lifespan = self._lifespan_in(given, stores)
        opening = open_service(
            self.info.name,
            lifespan,
            self._sealer,
            self.limits,
            lifetime,
            single_use_states=self._single_use_states,
            make_tasks=partial(self._make_tasks, stores),
        )
        takes_over = self._task_store is not None or (shared is not None and application.tools.restartable())
        return self._taking_over(opening) if takes_over else opening

    @asynccontextmanager
    async def _taking_over(
        self, opening: AbstractAsyncContextManager[Service[StateT | None]]
    ) -> AsyncGenerator[Service[StateT | None]]:
        from ._restarts import Restarts

        async with opening as service:
            application = self._application
            names = application.tools.restartable
            service.get_tasks().restart_by(
                Restarts(service, names, application.find_tool, application.handler_for)
            )
            yield service

    def _make_tasks(self, stores: list[TaskStore], background: Background, account: Account) -> Tasks:
        from ._tasks import Tasks  # few servers have any

        store = stores[0] if stores else MemoryTaskStore()
        return Tasks(background, self.limits, account, store, self._application.changes.task_changed)


@final
@attrs.define(eq=False, repr=False)
class RunningServer(Generic[StateT]):
    """A server that runs, and serves the channels it is given; `Server.open` makes it."""

    _hosted: Hosted
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
        hosted = self._hosted
        try:
            if self._is_over:
                raise trio.ClosedResourceError("this server has ended; serve within the block of Server.open()")
            await hosted.serve_one(
                self._service, channel, shutdown or Shutdown(), on_frame=on_frame, task_status=task_status
            )
        finally:
            with trio.move_on_after(hosted.limits.goodbye_timeout, shield=True):
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
    limits = hosted(server, "serve_stdio()").limits
    check_given(serve_stdio, locals())
    async with open_stdio_channel(limits) as channel:
        await server.serve_channel(channel, shutdown=shutdown, on_frame=on_frame, task_status=task_status)


name_as_methods_of("Server", Servable, Registration, AppRegistration)
