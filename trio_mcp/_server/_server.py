"""The server: what it offers, and the serving of it over whatever channel there is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, final

import attrs
import trio
from typing_extensions import TypeVar

from .._channel import Channel
from .._codec import _json
from .._codec._jsonrpc import Encoded
from .._core._account import PoolStatistics
from .._core._changes import ListKind
from .._core._http_headers import HeaderMark
from .._core._lifecycle import Agreement
from .._core._sealing import Sealer
from .._errors import LocalProtocolError
from .._limits import Limits
from .._peer._middleware import Middleware
from .._peer._outbox import OnFrame
from .._peer._peer import open_peer
from .._revisions import Revision
from ..types import (
    Icon,
    Implementation,
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    ToolsCapability,
)
from ._application import MethodHandler, ServerExtension, ServerExtensions
from ._changes import Announcement, ChangeHub
from ._context import NotificationHandler, check_announcement, check_notification_method
from ._input_required import Asking, ExtensionResult
from ._lifetimes import Background, Shutdown, open_background
from ._listing import CacheHint, Listing
from ._log_handler import current_holder
from ._offers import PromptOffers, ResourceOffers, ToolOffers
from ._parking import EndedBeforeStart, Lifetime, Service, open_service
from ._prompts import Completer, PromptRegistry
from ._resources import ResourceRegistry
from ._serve import run_http, run_stdio, serve_until_end
from ._session import ServerSession
from ._threads import Threads
from ._tools import ToolRegistry

if TYPE_CHECKING:  # a program that serves a pipe has no use for it
    from .._core._http_rules import HttpHost, HttpServerSettings


StateT = TypeVar("StateT", default=Any)

_OURS: Final = frozenset({"initialize", "ping", "server/discover", "logging/setLevel"})


@final
class Server(ToolOffers, PromptOffers, ResourceOffers, Generic[StateT]):
    """Tools, and whatever else a program offers to models, for clients of every revision.

    Args:
        name: Its name, for programs.
        version: Its version.
        title: Its name, for people.
        description: What it does.
        website_url: Where to read about it.
        icons: What to show for it.
        instructions: How a model should use it.
        lifespan: Called with the server; gives an async context manager that is entered before it serves and left
            when it does not serve any more. What it yields is `Context.state`.
        limits: What each connection may cost, and how long ending may take.
        revisions: The revisions it speaks; all, unless told otherwise.
        middleware: What every request and notification passes, of clients and to them, the handshake included;
            the first is the outermost. Cancellations and progress belong to their requests and pass by.
        extensions: The extensions of the protocol that it knows.
        request_state_keys: Secrets that seal what clients carry from one request to the next, the first for new
            states, all for old ones, so that keys can be rotated. Without any, a state is good for this object
            only; replicas and restarts need shared ones.
        single_use_states: Whether a state that a client carries for a handler which is run again
            (``resume="replay"``, `InputRequired`) is good for one request only, as that of a parked handler is
            always. A request that brings it uses it up, however it ends. This process remembers which were used
            until they expire (`Limits.parked_timeout`), within `Limits.max_used_states`; replicas and restarts do
            not know of it, and take such a state once each.
        page_size: How many items a page of a list has; `None` for all of them.
        cursor_key: The secret, at least 16 bytes, by which the cursors between pages are protected from changes.
            Processes that share one understand each other's cursors. By default each server has its own.
        cache: What clients are told about keeping results: one `CacheHint` for all lists and for
            `server/discover`, or hints by method. By default nothing is to be kept.

    Raises:
        ValueError: There is no name, or no revision; an option is out of bounds.
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
            raise ValueError("a server needs a name")
        if not revisions:
            raise ValueError("a server needs a revision to speak")
        self._info = Implementation(
            name=name,
            version=version,
            title=title,
            description=description,
            website_url=website_url,
            icons=icons,
        )
        self._instructions = instructions
        self._services: list[Service[StateT | None]] = []
        self._lifespan = lifespan
        self._limits = Limits() if limits is None else limits
        self._revisions = tuple(Revision(revision) for revision in revisions)
        self._changes = ChangeHub(self._limits)
        self._threads = Threads(self._limits, current_holder)
        self._listing = Listing(page_size=page_size, cursor_key=cursor_key, cache=cache)
        self._tools = ToolRegistry()
        self._tools.entries.on_change = partial(self._changes.list_changed, "tools")
        self._prompts = PromptRegistry()
        self._prompts.entries.on_change = partial(self._changes.list_changed, "prompts")
        self._resources = ResourceRegistry(self._limits, self._threads, self._listing)
        self._resources.entries.on_change = partial(self._changes.list_changed, "resources")
        self._changes.knows = self._knows
        self._completer = Completer(self._prompts, self._resources, check=self._resources.check_typed)
        self._custom: dict[str, MethodHandler] = {}
        self._middleware = tuple(middleware)
        self._sealer = Sealer(request_state_keys)
        self._single_use_states = single_use_states
        self._notification_handlers: dict[str, NotificationHandler] = {}
        self._extensions = ServerExtensions(extensions)
        for extension in extensions:
            for function in extension.tools:
                self.tool(function)

    @property
    def info(self) -> Implementation:
        """What the server is."""
        return self._info

    @property
    def instructions(self) -> str | None:
        """How a model should use it."""
        return self._instructions

    @property
    def limits(self) -> Limits:
        """What each connection may cost."""
        return self._limits

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions it speaks."""
        return self._revisions

    # Registering.

    def request_handler(self, method: str) -> Callable[[MethodHandler], MethodHandler]:
        """Register who serves a method, of the protocol or your own: ``@server.request_handler("x/y")``.

        The handler is called with the parameters as plain JSON and the `Context`, and returns an object of
        `trio_mcp.types` or plain JSON. For a method of the protocol it takes the place of what the server does.

        Args:
            method: The method.

        Raises:
            ValueError: The method is part of the handshake, or has such a handler already.
        """
        if method in _OURS or method in self._custom:
            problem = "is served by the connection itself" if method in _OURS else "has a handler already"
            raise ValueError(f"{method} {problem}")

        def register(handler: MethodHandler) -> MethodHandler:
            self._custom[method] = handler
            return handler

        return register

    def notification_handler(self, method: str) -> Callable[[NotificationHandler], NotificationHandler]:
        """Register who handles a notification of clients: ``@server.notification_handler("x/y")``.

        The handler is called with the parameters as plain JSON and a `NotificationContext`: one notification
        after another, in the order in which they came over the connection. The next one waits for it, so it
        should be brief. What it raises is logged. A notification that the client's revision does not have is
        ignored.

        Args:
            method: The method, of the protocol or your own.

        Raises:
            ValueError: It has such a handler already, the connection itself handles it, or no client sends it.
        """
        check_notification_method(method)
        if method in self._notification_handlers:
            raise ValueError(f"{method} has a handler already")

        def register(handler: NotificationHandler) -> NotificationHandler:
            self._notification_handlers[method] = handler
            return handler

        return register

    # Telling of changes.

    async def resource_updated(self, uri: str) -> None:
        """Tell every client that wants to know that a resource has changed.

        Returns at once: each client is told as fast as it reads, and several changes of a resource that it has
        not been told of yet are one. Nothing happens while nobody is served.

        Args:
            uri: The resource, as clients have subscribed to it.

        Spec: 2026-07-28, basic/patterns/subscriptions; 2025-11-25, server/resources, "Subscriptions".
        """
        self._changes.resource_updated(uri)
        await trio.lowlevel.checkpoint()

    def list_changed(self, kind: ListKind) -> None:
        """Tell every client that wants to know that a list has changed. Never waits, and works in any thread.

        What is registered and taken away here is told without this. It is for lists that you serve yourself, with
        `request_handler`.

        Args:
            kind: ``"tools"``, ``"prompts"`` or ``"resources"``; templates are resources, too.

        Raises:
            KeyError: There is no such list.
        """
        self._changes.list_changed(kind)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send all sessions a notification of your own. Never waits, and works in any thread.

        Sessions are those of the legacy era that are initialized, over every transport; over HTTP it goes to the
        stream that the client holds open with GET. They get it in order with other such notifications. For one
        that does not read, `Limits.max_announcements` and `max_announcement_bytes` of them wait; then the oldest
        are dropped, which `dropped_notifications` counts. Nothing happens while nobody is served.

        From 2026-07-28 on a server sends nothing outside of requests but what a client has subscribed to, and
        there is no subscription to methods of your own: clients of that era get nothing by this. Within a request
        `Context.notify` reaches them, too.

        Args:
            method: The method.
            params: Its parameters, as plain JSON.

        Raises:
            ValueError: The library sends this method by itself; the error says how.
            LocalProtocolError: It is another method of the protocol; or it is larger than a message may be.
            TypeError: The parameters are no plain JSON.

        Spec: 2025-11-25, basic, "Notifications"; 2026-07-28, basic/patterns, "Request and Response".
        """
        check_announcement(method)
        one = Announcement.of(method, None if params is None else Encoded(_json.encode(dict(params))))
        most = self._limits.max_message_bytes
        if one.size > most:
            raise LocalProtocolError(f"{method} is {one.size} bytes as a message; max_message_bytes is {most}")
        self._changes.announce(one)

    @property
    def dropped_notifications(self) -> int:
        """How many notifications of `notify` were not sent to a session, because it did not read those before."""
        return self._changes.dropped

    # What a session asks.

    @property
    def changes(self) -> ChangeHub:
        """What has changed, and who wants to know."""
        return self._changes

    def capabilities(self) -> ServerCapabilities:
        """Return what the server can do, as it stands."""
        custom = self._custom.keys()
        has_tools = self._tools.entries.was_used or "tools/list" in custom
        has_prompts = self._prompts.entries.was_used or "prompts/list" in custom
        has_resources = self._resources.entries.was_used or not custom.isdisjoint(
            ("resources/list", "resources/read")
        )
        can_complete = self._completer.can_complete or "completion/complete" in custom
        return ServerCapabilities(
            tools=ToolsCapability(list_changed=True) if has_tools else None,
            prompts=PromptsCapability(list_changed=True) if has_prompts else None,
            resources=ResourcesCapability(list_changed=True, subscribe=True) if has_resources else None,
            completions={} if can_complete else None,
            logging={},
            extensions=self._extensions.settings or None,
        )

    def cache_hint(self, method: str) -> CacheHint:
        """Return what clients are told about keeping the results of a method."""
        return self._listing.hints.of(method)

    def handler_for(self, method: str) -> MethodHandler | None:
        """Return who serves a method; nobody, if it belongs to a capability that the server has not."""
        return (
            self._custom.get(method)
            or self._extensions.request_handlers.get(method)
            or self._tool_handler(method)
            or self._prompt_handler(method)
            or self._resources.handler_for(method)
        )

    def asking(self, method: str, params: Mapping[str, Any]) -> Asking:
        """Return whether the handler of a request may ask its client, and what becomes of it then."""
        if method in self._custom:
            return Asking.PARK
        match method:
            case "tools/call":
                return self._tools.asking(params.get("name"))
            case "prompts/get":
                return self._prompts.asking(params.get("name"))
            case "resources/read":
                return self._resources.asking(params.get("uri"))
            case _:
                return Asking.NEVER

    def notification_handler_for(self, method: str) -> NotificationHandler | None:
        """Return who handles the notifications of a method."""
        return self._notification_handlers.get(method) or self._extensions.notification_handlers.get(method)

    def extension_result(self, result: ExtensionResult, agreement: Agreement) -> Mapping[str, Any]:
        """Return a result of an extension as plain JSON.

        Raises:
            TypeError: No extension of the server adds the type.
            RequestError: The client has not declared the extension.
        """
        return self._extensions.plain(result, agreement)

    def _knows(self, uri: str) -> bool:
        """Whether a client may subscribe to a resource; who serves reading by hand knows better than we do."""
        by_hand = "resources/read" in self._custom or not self._resources.entries.was_used
        return by_hand or self._resources.knows(uri)

    # Serving.

    @asynccontextmanager
    async def _lifespan_state(self) -> AsyncGenerator[StateT | None]:
        if self._lifespan is None:
            yield None
        else:
            async with self._lifespan(self) as state:
                yield state

    async def serve_channel(
        self,
        channel: Channel,
        *,
        shutdown: Shutdown | None = None,
        on_frame: OnFrame | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve the client at the other end of a channel until it goes, then return.

        When the client says nothing more, or `shutdown` says so, what was asked is still answered, within
        `Limits.drain_timeout`. Cancelled, every handler is cancelled and its cleanup runs. Either way the channel
        is closed and nothing is left. A lifespan that `shutdown` interrupts while it is being entered is
        cancelled, and this returns without having served.

        Every call enters the lifespan anew. `open` is for several channels that share one.

        Args:
            channel: The channel; it is closed in the end.
            shutdown: Says when to end.
            on_frame: Called with ``"sent"`` or ``"received"`` and each message.
            task_status: Told when the client can be served.
        """
        shutdown = Shutdown() if shutdown is None else shutdown
        lifetime = Lifetime(shutdown, self._limits, of_client=True)
        try:
            async with (
                channel.reading_ahead(lifetime.lose_client, self._limits.max_waiting_bytes),
                self.open_service(lifetime) as service,
            ):
                await self.serve_one(service, channel, shutdown, on_frame=on_frame, task_status=task_status)
        except EndedBeforeStart:
            pass
        finally:
            with trio.move_on_after(self._limits.goodbye_timeout, shield=True):
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
        block, so that nobody is served any more when it is left.

        Spec: none; `serve_http` does the same for all its clients.
        """
        async with self.open_service() as service:
            running = RunningServer(self, service)
            try:
                yield running
            finally:
                running._is_over = True  # noqa: SLF001 - this module's own

    # What hosts of several connections ask.

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """What every message passes."""
        return self._middleware

    def marks_of(self, method: str, params: Mapping[str, Any]) -> tuple[HeaderMark, ...]:
        """Return which arguments of a request header fields carry, over HTTP."""
        return self._tools.marks_of(params.get("name")) if method == "tools/call" else ()

    def open_service(
        self, lifetime: Lifetime | None = None
    ) -> AbstractAsyncContextManager[Service[StateT | None]]:
        """Run the server: enter its lifespan, and leave it when no connection is served any more.

        Raises:
            EndedBeforeStart: The lifespan was cancelled while it was being entered.
        """
        return self._counted(
            open_service(
                self._info.name,
                self._lifespan_state(),
                self._sealer,
                self._limits,
                lifetime,
                single_use_states=self._single_use_states,
            )
        )

    @asynccontextmanager
    async def _counted(
        self, opening: AbstractAsyncContextManager[Service[StateT | None]]
    ) -> AsyncGenerator[Service[StateT | None]]:
        async with opening as service:
            self._services.append(service)
            try:
                yield service
            finally:
                self._services.remove(service)

    def statistics(self) -> tuple[Mapping[str, PoolStatistics], ...]:
        """Return what is kept for clients, for each run of the server; mostly there is one.

        By what it is counted in: ``"bytes"`` of `Limits.max_kept_bytes`, and places. May be called from any task.
        """
        return tuple(service.account.statistics() for service in self._services)

    async def serve_one(
        self,
        service: Service[StateT | None],
        channel: Channel,
        shutdown: Shutdown,
        *,
        on_frame: OnFrame | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve one client of a running server, until it goes or `shutdown` says so."""
        async with open_background(f"the session with {channel.description}") as background:
            await self.serve_beside(
                background, service, channel, shutdown, on_frame=on_frame, task_status=task_status
            )

    async def serve_beside(
        self,
        background: Background,
        service: Service[StateT | None],
        channel: Channel,
        shutdown: Shutdown,
        *,
        assumed: Agreement | None = None,
        holder: str | None = None,
        keep: Callable[[int], object] | None = None,
        on_frame: OnFrame | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve one client of a running server, whose background tasks somebody else owns.

        What it keeps is lent to `holder`; `keep` is told how much it keeps of subscriptions (`ServerSession`).
        """
        session = ServerSession(self, service, background, assumed, holder=holder, keep=keep)
        opening = open_peer(channel, session, self._limits, on_frame=on_frame, middleware=self._middleware)
        async with session.subscriptions.connected(opening) as peer:
            task_status.started()
            await serve_until_end(peer, shutdown)

    def run(
        self,
        transport: Literal["stdio", "streamable-http", "sse"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        http: HttpHost = "hypercorn",
        settings: HttpServerSettings | None = None,
    ) -> None:
        """Run a program that is this server, until its client goes or a signal ends it.

        Over stdio: standard input and output belong to the protocol, and what is printed goes to standard error.
        SIGTERM, or the end of input, lets handlers finish within `Limits.drain_timeout`; both, or SIGINT, cancels
        them at once. Their cleanup and the lifespan's run. Over HTTP it is the same but for the end of input. A
        further signal cancels a lifespan that does not end, and the third one ends the process, whatever it does;
        see `run_until_signal`.

        Args:
            transport: How clients are reached: ``"streamable-http"`` serves every revision at one endpoint, and
                ``"sse"`` beside it HTTP+SSE, the deprecated transport of 2024-11-05.
            host: The address to listen on, for HTTP. Only this machine can reach the default; others need to be
                let in by `HttpServerSettings.allowed_hosts` as well.
            port: The port, for HTTP.
            http: What reads and writes HTTP: ``"hypercorn"``, or the faster ``"lean"``; see `serve_http`.
            settings: What is served over HTTP, and to whom.

        Raises:
            SystemExit: With status 130 after SIGINT, as shells expect it.
            ValueError: There is no such transport.
            OSError: The address cannot be listened on.
        """
        if transport == "stdio":
            run_stdio(self)
        elif transport in ("streamable-http", "sse"):
            if transport == "sse":
                from .._core._http_rules import HttpServerSettings

                settings = attrs.evolve(settings or HttpServerSettings(), sse=True)
            run_http(self, host=host, port=port, http=http, settings=settings)
        else:
            raise ValueError(f"transport must be 'stdio', 'streamable-http' or 'sse', not {transport!r}")


@final
class RunningServer(Generic[StateT]):
    """A server that runs, and serves the channels it is given; `Server.open` makes it."""

    def __init__(self, server: Server[StateT], service: Service[Any]) -> None:
        self._server = server
        self._service = service
        self._is_over = False

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
            shutdown: Says when to end.
            on_frame: Called with ``"sent"`` or ``"received"`` and each message.
            task_status: Told when the client can be served.

        Raises:
            trio.ClosedResourceError: The server does not run any more. The channel is closed all the same.
        """
        server = self._server
        try:
            if self._is_over:
                raise trio.ClosedResourceError("this server does not run any more")
            await server.serve_one(
                self._service, channel, shutdown or Shutdown(), on_frame=on_frame, task_status=task_status
            )
        finally:
            with trio.move_on_after(server.limits.goodbye_timeout, shield=True):
                await channel.aclose()
