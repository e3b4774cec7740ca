"""Tools: functions registered to be called by a model, and the calling of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final, get_origin

import attrs
import trio

from .._errors import INVALID_PARAMS, RequestError, ToolError
from .._schema import CallSpec, InvalidValue, inspect_callable
from ..types import CallToolResult, Icon, TextContent, Tool, ToolAnnotations
from ._context import Context
from ._results import has_no_schema, tool_result, with_media_read

__all__ = ["RegisteredTool", "ToolRegistry"]

_log: Final = logging.getLogger("trio_mcp.server")

_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
"""What a tool may be called (SEP-986)."""


@final
@attrs.frozen(kw_only=True)
class RegisteredTool:
    """A function as a tool.

    Attributes:
        tool: What clients are told about it.
        spec: How the function is called.
        function: The function.
        in_thread: Whether it is called in a thread, because it may block.
    """

    tool: Tool
    spec: CallSpec
    function: Callable[..., Any]
    in_thread: bool

    async def call(
        self,
        arguments: Mapping[str, Any],
        context: Context[Any],
        threads: trio.CapacityLimiter,
        max_file_bytes: int,
    ) -> CallToolResult:
        """Call the function, and turn whatever comes of it into a result.

        Arguments that do not fit are the model's to mend, so they are a result, too (SEP-1303).

        Args:
            arguments: The arguments, as they came.
            context: The request.
            threads: How many threads there may be.
            max_file_bytes: How large a file in the result may be.

        Raises:
            RequestError: The function raised it.
        """
        name = self.tool.name
        try:
            args, kwargs = self.spec.bind(arguments, dict.fromkeys(self.spec.injected, context))
        except InvalidValue as error:
            return _failure(f"Invalid arguments for {name}: {error}")
        try:
            returned = await self._run(args, kwargs, threads)
            if self.spec.output_schema is None:
                returned = await with_media_read(returned, threads, max_file_bytes)
            return tool_result(returned, self.spec)
        except ToolError as error:
            return _failure(str(error))
        except RequestError:
            raise
        except Exception:
            # The boundary of one call. What the exception says was not written for strangers.
            _log.exception("tool %s failed", name)
            return _failure(f"{name} failed. The server's log says why.")

    async def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], threads: trio.CapacityLimiter) -> object:
        if self.spec.is_async:
            return await self.function(*args, **kwargs)
        if not self.in_thread:
            await trio.lowlevel.checkpoint()
            return self.function(*args, **kwargs)
        # A thread cannot be cancelled. The call is, and the thread is left to end by itself: waiting for it would
        # let one stuck function hold up a cancellation, or the end of the program.
        return await trio.to_thread.run_sync(
            lambda: self.function(*args, **kwargs), abandon_on_cancel=True, limiter=threads
        )


@final
class ToolRegistry:
    """The tools of a server, in the order in which they were registered."""

    def __init__(self) -> None:
        self._tools: dict[str, RegisteredTool] = {}

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def listed(self) -> tuple[Tool, ...]:
        """What clients are told."""
        return tuple(registered.tool for registered in self._tools.values())

    def add(
        self,
        function: Callable[..., Any],
        *,
        name: str | None,
        title: str | None,
        description: str | None,
        annotations: ToolAnnotations | None,
        icons: Sequence[Icon] | None,
        meta: Mapping[str, object] | None,
        thread: bool,
    ) -> RegisteredTool:
        """Register a function as a tool.

        Raises:
            TypeError: Its parameters or its result have no form in JSON.
            ValueError: Its name is none that a tool may have, or another tool has it.
        """
        spec = inspect_callable(function, injected=_is_context, unstructured=has_no_schema)
        name = spec.name if name is None else name
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"a tool's name is 1 to 128 of A-Z a-z 0-9 _ - . and not {name!r} (SEP-986)")
        if name in self._tools:
            raise ValueError(f"there is a tool called {name!r} already")
        tool = Tool(
            name=name,
            title=title,
            description=spec.description if description is None else description,
            input_schema=spec.input_schema,
            output_schema=spec.output_schema,
            annotations=annotations,
            icons=icons,
            meta=meta,
        )
        registered = RegisteredTool(tool=tool, spec=spec, function=function, in_thread=thread)
        self._tools[name] = registered
        return registered

    def get(self, name: str) -> RegisteredTool:
        """Return the tool of this name.

        Raises:
            RequestError: There is none.
        """
        registered = self._tools.get(name)
        if registered is None:
            raise RequestError(INVALID_PARAMS, f"Unknown tool: {name[:128]}")
        return registered


def _is_context(hint: Any) -> bool:
    return hint is Context or get_origin(hint) is Context


def _failure(text: str) -> CallToolResult:
    return CallToolResult(content=(TextContent(text=text),), is_error=True)
