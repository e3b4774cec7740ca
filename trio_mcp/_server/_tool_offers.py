"""The part of a server by which its author registers tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, overload

from .. import types
from .._codec._json import is_object
from .._limits import Limits
from ._application import MethodHandler
from ._context import Context
from ._listing import Listing
from ._params import are_plain, read_params
from ._threads import Threads
from ._tools import ToolRegistry

__all__ = ["ToolOffers"]

_CALL_MEMBERS: Final = frozenset({"name", "arguments", "_meta"})

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ToolOffers:
    """Registers tools; a server is one."""

    _limits: Limits
    _threads: Threads
    _listing: Listing
    _tools: ToolRegistry

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
        annotations: types.ToolAnnotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        thread: bool = True,
        timeout: float | None = None,
        limit: int | None = None,
        resume: Literal["park", "replay"] = "park",
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
    ) -> Callable[[_Function], _Function]: ...
    def tool(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: types.ToolAnnotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        thread: bool = True,
        timeout: float | None = None,
        limit: int | None = None,
        resume: Literal["park", "replay"] = "park",
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
    ) -> Any:
        """Register a function as a tool: ``@server.tool``, or ``@server.tool(title="…")``.

        Its parameters become the input schema: types from the hints, descriptions from the docstring. A parameter
        annotated `Context` is given the context, one annotated with `Depends` what that gives; neither is part
        of the schema. Its return annotation becomes the output schema, unless it is text, content, or nothing;
        clients before 2026-07-28, which only know objects there, get any other value as ``{"result": value}``.
        A plain ``def`` runs in a thread of its own, so that it may block; cancelled, the call ends at once and
        the thread is left to itself.

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
            timeout: After how many seconds a call is cancelled, and its cleanup run; the model is told. It counts
                from when the call has its place under `limit`, and time that the client takes to answer the
                tool's own questions counts. `None` for never.
            limit: How many calls run at once. Further ones wait, and can be cancelled meanwhile. `None` for any
                number.
            resume: What becomes of it in the modern era while its client answers a question: it is parked, its
                task waiting in this server, or it is run again from the beginning and finds the answers it has
                got before. The latter outlives restarts and works behind a load balancer (see
                ``request_state_keys``), but what it does before a question it does again.
            input_schema: The schema of the arguments, sent to the letter and enforced. Then the function takes
                the arguments as they are, a mapping, in its first parameter that is neither a context nor a
                dependency: ``async def run(arguments: Mapping[str, Any], ctx: Context) -> …``.
            output_schema: The schema of the structured output, sent to the letter and enforced, in place of the
                return annotation's. The function returns what fits it, or a `CallToolResult` with that.

        Raises:
            TypeError: Its parameters or its result have no form in JSON; a dependency is not sound.
            ValueError: The name is none a tool may have, or is taken; a schema or an option is not valid; a
                `Field.header` is none, is used twice, or marks what a header cannot carry.

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
                timeout=timeout,
                limit=limit,
                resume=resume,
                input_schema=input_schema,
                output_schema=output_schema,
            )
            return function

        return register if function is None else register(function)

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Its calls that are running go on; further ones are to an unknown tool.

        Raises:
            LookupError: There is no such tool.
        """
        self._tools.entries.remove(name)

    def disable_tool(self, name: str) -> None:
        """Hide a tool from clients, as if it were removed, until `enable_tool` shows it again in its old place.

        Raises:
            LookupError: There is no such tool.
        """
        self._tools.entries.switch(name, enabled=False)

    def enable_tool(self, name: str) -> None:
        """Show a tool again that was hidden by `disable_tool`.

        Raises:
            LookupError: There is no such tool.
        """
        self._tools.entries.switch(name, enabled=True)

    # What a session asks.

    def find_tool(self, name: str) -> types.Tool:
        """Return one of the tools, as clients are told of it.

        Raises:
            ValueError: There is none of this name.
        """
        registered = self._tools.entries.get(name)
        if registered is None:
            raise ValueError(f"this server has no tool called {name!r}")
        return registered.tool

    def _tool_handler(self, method: str) -> MethodHandler | None:
        """Return who serves a method of tools; nobody, while there have never been any."""
        if not self._tools.entries.was_used:
            return None
        if method == "tools/call":
            return self._call_tool
        return self._list_tools if method == "tools/list" else None

    async def _list_tools(self, params: Mapping[str, Any], context: Context[Any]) -> object:
        revision, entries = context.revision, self._tools.entries

        def list_page() -> types.ListToolsResult:
            page, members = self._listing.page("tools/list", params, entries.visible)
            return types.ListToolsResult(tools=[tool.seen_by(revision) for tool in page], **members)

        return self._listing.kept("tools/list", params, revision, entries.changes, list_page)  # noqa: ASYNC910 - not public

    async def _call_tool(self, params: Mapping[str, Any], context: Context[Any]) -> object:
        name, arguments = params.get("name"), params.get("arguments")
        if not (isinstance(name, str) and is_object(arguments) and are_plain(params, _CALL_MEMBERS)):
            # Something is missing, wrong, or rare.
            call = read_params(params, types.CallToolRequestParams)
            name, arguments = call.name, call.arguments or {}
        return await self._tools.get(name).call(arguments, context, self._threads, self._limits.max_file_bytes)
