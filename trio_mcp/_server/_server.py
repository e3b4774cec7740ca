"""The server: what it offers, and the serving of it over whatever channel there is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, Generic, Literal, final, overload

import trio
from typing_extensions import TypeVar

from .._channel import Channel
from .._core._sealing import Sealer
from .._limits import Limits
from .._peer._middleware import Middleware
from .._peer._peer import OnFrame, open_peer
from .._revisions import Revision
from ..types import (
    CallToolRequestParams,
    CallToolResult,
    Icon,
    Implementation,
    ListToolsResult,
    PaginatedRequestParams,
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    Tool,
    ToolAnnotations,
    ToolsCapability,
)
from ._application import MethodHandler
from ._background import open_background
from ._changes import ChangeHub, ListKind
from ._context import Context
from ._input_required import Asking, InputRequired
from ._notifications import NotificationHandler, check_notification_method
from ._params import read_params
from ._serve import run_stdio, serve_until_end
from ._service import Service, open_service
from ._session import ServerSession
from ._shutdown import Shutdown
from ._tools import ToolRegistry

__all__ = ["Server"]

StateT = TypeVar("StateT", default=Any)
_Function = TypeVar("_Function", bound=Callable[..., Any])

_OURS: Final = frozenset({"initialize", "ping", "server/discover", "logging/setLevel"})


@final
class Server(Generic[StateT]):
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
        middleware: What every request and notification of a client passes, the handshake included; the first is
            the outermost.
        request_state_keys: Secrets that seal what clients carry from one request to the next, the first for new
            states, all for old ones, so that keys can be rotated. Without any, a state is good for this object
            only; replicas and restarts need shared ones.

    Raises:
        ValueError: There is no name, or no revision.
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
        request_state_keys: Sequence[bytes] | None = None,
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
        self._lifespan = lifespan
        self._limits = Limits() if limits is None else limits
        self._revisions = tuple(Revision(revision) for revision in revisions)
        self._changes = ChangeHub()
        self._tools = ToolRegistry(partial(self._changes.list_changed, "tools"))
        self._threads = trio.CapacityLimiter(self._limits.max_threads)
        self._custom: dict[str, MethodHandler] = {}
        self._middleware = tuple(middleware)
        self._sealer = Sealer(request_state_keys)
        self._notification_handlers: dict[str, NotificationHandler] = {}

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

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """What every message of a client passes, outermost first."""
        return self._middleware

    # Registering.

    @overload
    def tool(self, function: _Function, /) -> _Function: ...
    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        thread: bool = True,
        resume: Literal["park", "replay"] = "park",
    ) -> Callable[[_Function], _Function]: ...
    def tool(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        thread: bool = True,
        resume: Literal["park", "replay"] = "park",
    ) -> Any:
        """Register a function as a tool: ``@server.tool``, or ``@server.tool(title="…")``.

        Its parameters become the input schema: types from the hints, descriptions from the docstring. A parameter
        annotated `Context` is given the context and is not part of the schema. Its return annotation becomes the
        output schema, unless it is text, content, or nothing. A plain ``def`` runs in a thread of its own, so
        that it may block; cancelled, the call ends at once and the thread is left to itself.

        What the tool raises: `ToolError` is shown to the model; `RequestError` is the answer as it is; anything
        else is logged in full and shown to nobody.

        Args:
            function: The function.
            name: The tool's name; the function's own if `None`.
            title: Its name, for people.
            description: What it does; the docstring if `None`.
            annotations: Hints about what it may change.
            icons: What to show for it.
            meta: Its `_meta`.
            thread: Whether a plain ``def`` runs in a thread; if not, it must not block.
            resume: What becomes of it in the modern era while its client answers a question: it is parked, its
                task waiting in this server, or it is run again from the beginning and finds the answers it has
                got before. The latter outlives restarts and works behind a load balancer (see
                ``request_state_keys``), but what it does before a question it does again.

        Raises:
            TypeError: Its parameters or its result have no form in JSON.
            ValueError: The name is none a tool may have, or is taken.

        Spec: 2026-07-28, server/tools.
        """

        def register(function: _Function) -> _Function:
            self._tools.add(
                function,
                name=name,
                title=title,
                description=description,
                annotations=annotations,
                icons=icons,
                meta=meta,
                thread=thread,
                resume=resume,
            )
            return function

        return register if function is None else register(function)

    def remove_tool(self, name: str) -> None:
        """Take a tool away, and tell the clients that want to know. Calls of it that run go on.

        Args:
            name: The tool's name.

        Raises:
            ValueError: There is no tool of this name.
        """
        self._tools.remove(name)

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

    # What a session asks.

    @property
    def changes(self) -> ChangeHub:
        """What has changed, and who wants to know."""
        return self._changes

    def capabilities(self) -> ServerCapabilities:
        """Return what the server can do, as it stands."""
        has_tools = self._tools.is_used or "tools/list" in self._custom
        has_prompts = "prompts/list" in self._custom
        has_resources = "resources/list" in self._custom or "resources/read" in self._custom
        return ServerCapabilities(
            tools=ToolsCapability(list_changed=True) if has_tools else None,
            prompts=PromptsCapability(list_changed=True) if has_prompts else None,
            resources=ResourcesCapability(list_changed=True, subscribe=True) if has_resources else None,
            logging={},
        )

    def handler_for(self, method: str) -> MethodHandler | None:
        """Return who serves a method; nobody, if it belongs to a capability that the server has not."""
        handler = self._custom.get(method)
        if handler is None and self._tools.is_used:
            if method == "tools/call":
                return self._call_tool
            if method == "tools/list":
                return self._list_tools
        return handler

    def asking(self, method: str, params: Mapping[str, Any]) -> Asking:
        """Return whether the handler of a request may ask its client, and what becomes of it then."""
        if method in self._custom:
            return Asking.PARK
        return self._tools.asking(params.get("name")) if method == "tools/call" else Asking.NEVER

    def find_tool(self, name: str) -> Tool:
        """Return one of the tools, as clients are told of it.

        Raises:
            ValueError: There is none of this name.
        """
        for tool in self._tools.listed:
            if tool.name == name:
                return tool
        raise ValueError(f"this server has no tool called {name!r}")

    def notification_handler_for(self, method: str) -> NotificationHandler | None:
        """Return who handles the notifications of a method."""
        return self._notification_handlers.get(method)

    async def _list_tools(self, params: Mapping[str, Any], _: Context[Any]) -> ListToolsResult:
        read_params(params, PaginatedRequestParams)
        await trio.lowlevel.checkpoint()
        return ListToolsResult(tools=self._tools.listed)

    async def _call_tool(
        self, params: Mapping[str, Any], context: Context[Any]
    ) -> CallToolResult | InputRequired:
        call = read_params(params, CallToolRequestParams)
        tool = self._tools.get(call.name)
        return await tool.call(call.arguments or {}, context, self._threads)

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
        is closed and nothing is left.

        Args:
            channel: The channel; it is closed in the end.
            shutdown: Says when to end.
            on_frame: Called with ``"sent"`` or ``"received"`` and each message.
            task_status: Told when the client can be served.
        """
        try:
            async with open_service(
                self._info.name, self._lifespan_state(), self._sealer, self._limits
            ) as service:
                await self._serve_one(service, channel, shutdown or Shutdown(), on_frame, task_status)
        finally:
            with trio.move_on_after(self._limits.goodbye_timeout, shield=True):
                await channel.aclose()

    async def _serve_one(
        self,
        service: Service[StateT | None],
        channel: Channel,
        shutdown: Shutdown,
        on_frame: OnFrame | None,
        task_status: trio.TaskStatus[None],
    ) -> None:
        """Serve one client of a running server."""
        async with open_background(f"the session with {channel.description}") as background:
            session = ServerSession(self, service, background)
            opening = open_peer(channel, session, self._limits, on_frame=on_frame)
            async with session.subscriptions.connected(opening) as peer:
                task_status.started()
                await serve_until_end(peer, shutdown)

    def run(self, transport: Literal["stdio"] = "stdio") -> None:
        """Run a program that is this server, until its client goes or a signal ends it.

        Over stdio: standard input and output belong to the protocol, and what is printed goes to standard error.
        SIGTERM, or the end of input, lets handlers finish within `Limits.drain_timeout`; both, or SIGINT, cancels
        them at once. Their cleanup and the lifespan's run.

        Args:
            transport: How clients are reached.

        Raises:
            SystemExit: With status 130 after SIGINT, as shells expect it.
            ValueError: There is no such transport.
        """
        if transport != "stdio":
            raise ValueError(f"transport must be 'stdio', not {transport!r}")
        run_stdio(self)
