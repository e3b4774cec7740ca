"""The server: what it offers, and the serving of it over whatever channel there is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Generic, Literal, final, overload

import trio
from typing_extensions import TypeVar

from .._channel import Channel
from .._limits import Limits
from .._peer._peer import OnFrame, open_peer
from .._revisions import Revision
from ..types import (
    CallToolRequestParams,
    CallToolResult,
    Icon,
    Implementation,
    ListToolsResult,
    PaginatedRequestParams,
    ResourcesCapability,
    ServerCapabilities,
    ToolAnnotations,
    ToolsCapability,
)
from ._context import Context
from ._resource_offers import ResourceOffers
from ._resources import ResourceRegistry
from ._serve import run_stdio, serve_until_end
from ._session import MethodHandler, ServerSession, read_params
from ._shutdown import Shutdown
from ._tools import ToolRegistry

__all__ = ["Server"]

StateT = TypeVar("StateT", default=Any)
_Function = TypeVar("_Function", bound=Callable[..., Any])

_OURS: Final = frozenset({"initialize", "ping", "server/discover", "logging/setLevel"})


@final
class Server(ResourceOffers, Generic[StateT]):
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
        self._tools = ToolRegistry()
        self._threads = trio.CapacityLimiter(self._limits.max_threads)
        self._resources = ResourceRegistry(self._limits, self._threads)
        self._custom: dict[str, MethodHandler] = {}

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
    ) -> Any:
        """Register a function as a tool: ``@server.tool``, or ``@server.tool(title="…")``.

        Its parameters become the input schema: types from the hints, descriptions from the docstring. A parameter
        annotated `Context` is given the context and is not part of the schema. Its return annotation becomes the
        output schema, unless it is text, content, or nothing. A plain ``def`` runs in a thread of its own, so
        that it may block; cancelled, the call ends at once and the thread is left to itself.

        It may return `File`, `Image`, `Audio` or `bytes`, also in a list with text: they become the block that
        fits them. Bytes that do not begin like a picture or sound become an embedded resource.

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
            )
            return function

        return register if function is None else register(function)

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

    # What a session asks.

    def capabilities(self) -> ServerCapabilities:
        """Return what the server can do, as it stands."""
        has_tools = len(self._tools) or "tools/list" in self._custom
        has_resources = self._resources.is_used or "resources/list" in self._custom
        return ServerCapabilities(
            tools=ToolsCapability() if has_tools else None,
            resources=ResourcesCapability() if has_resources else None,
            logging={},
        )

    def handler_for(self, method: str) -> MethodHandler | None:
        """Return who serves a method; nobody, if it belongs to a capability that the server has not."""
        handler = self._custom.get(method)
        if handler is None and len(self._tools):
            if method == "tools/call":
                return self._call_tool
            if method == "tools/list":
                return self._list_tools
        return handler or self._resources.handler_for(method)

    async def _list_tools(self, params: Mapping[str, Any], _: Context[Any]) -> ListToolsResult:
        read_params(params, PaginatedRequestParams)
        await trio.lowlevel.checkpoint()
        return ListToolsResult(tools=self._tools.listed)

    async def _call_tool(self, params: Mapping[str, Any], context: Context[Any]) -> CallToolResult:
        call = read_params(params, CallToolRequestParams)
        tool = self._tools.get(call.name)
        return await tool.call(call.arguments or {}, context, self._threads, self._limits.max_file_bytes)

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
            async with self._lifespan_state() as state:
                session = ServerSession(self, state)
                async with open_peer(channel, session, self._limits, on_frame=on_frame) as peer:
                    task_status.started()
                    await serve_until_end(peer, Shutdown() if shutdown is None else shutdown)
        finally:
            with trio.move_on_after(self._limits.goodbye_timeout, shield=True):
                await channel.aclose()

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
