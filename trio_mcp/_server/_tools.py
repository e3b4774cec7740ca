"""Tools: functions registered to be called by a model, and the calling of them.

From what a tool returned to the result its caller gets.

Tools whose schemas their author has written: kept to the letter, and enforced.

With an input schema the function is called with the arguments as they are: its first parameter that is neither
a `Context` nor a dependency gets the JSON object. With an output schema it returns what fits, or a
`CallToolResult`.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypedDict, Union, cast, final, get_args, get_origin

import attrs

from .._absent import ABSENT
from .._codec import _json
from .._core._http_headers import HeaderMark, header_marks
from .._core._output_schemas import RESULT_MEMBER, needs_wrapping, wrapped_schema
from .._errors import INVALID_PARAMS, RequestError, ToolError
from .._logs import Log
from .._revisions import Revision
from .._schema import CallSpec, InvalidValue, is_unstructured, to_json
from .._schema._schema_cost import UnusableSchema
from .._schema._validator import compile_schema
from .._trio import going_on
from ..types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    Icon,
    ImageContent,
    ResourceLink,
    TextContent,
    Tool,
    ToolAnnotations,
    UnknownContent,
)
from ..types._fields import evolve
from ._asking import is_unusable_answer
from ._context import Context
from ._functions import HandlerFunction, Overdue, anything, read_given, read_handler, said
from ._input_required import Asking, NonFinalResult
from ._listing import Registry
from ._threads import Threads

_MEDIA: Final = f"{__package__}._media"
_BYTES: Final = (bytes, bytearray)
_BLOCKS: Final = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, UnknownContent)


def has_no_schema(hint: Any) -> bool:
    """Whether a tool annotated so returns what is shown, not structured output.

    That is text, bytes, files, pictures, sound, blocks, and a whole result. A list of text is a value with a
    schema; a list with blocks in it is shown.
    """
    if is_unstructured(hint) or _is_block(hint):
        return True
    parts = [part for part in get_args(hint) if part is not Ellipsis]
    if get_origin(hint) in {Union, types.UnionType}:
        return all(has_no_schema(part) for part in parts)
    is_list = get_origin(hint) in {list, tuple, Sequence}
    return is_list and all(has_no_schema(part) for part in parts) and any(_has_block(part) for part in parts)


def _read_first() -> tuple[type, ...]:
    """Return what must be read before it can be shown: bytes, files, pictures and sound.

    The latter are not imported for that: there can only be one where its class was imported.
    """
    media = sys.modules.get(_MEDIA)
    return _BYTES if media is None else (*_BYTES, media.File, media.Image, media.Audio)


def _is_block(hint: Any) -> bool:
    return hint is CallToolResult or hint in _BLOCKS or hint in _read_first()


def _has_block(hint: Any) -> bool:
    return _is_block(hint) or any(_has_block(part) for part in get_args(hint))


async def with_media_read(returned: Any, threads: Threads, max_bytes: int) -> Any:
    """Return what a tool returned, with blocks in the place of bytes, files, pictures and sound.

    Where something else is in a list with them, it is left as it is.

    Args:
        returned: What it returned.
        threads: How many threads there may be.
        max_bytes: How large a file may be.

    Raises:
        OSError: A file cannot be read.
        FileTooLarge: A file is too large.
        ValueError: A file is no picture, or no sound, although it should be.
    """
    read_first = _read_first()
    if isinstance(returned, read_first):
        return await _as_read_block(returned, threads, max_bytes)
    parts = _parts(returned)
    if parts is None or not any(isinstance(part, read_first) for part in parts):
        return returned
    if not all(_is_shown(part) or isinstance(part, read_first) for part in parts):
        return returned
    return [await _as_read_block(part, threads, max_bytes) for part in parts]


async def _as_read_block(part: Any, threads: Threads, max_bytes: int) -> Any:
    from ._media import block_of_bytes, block_of_media, is_media

    if isinstance(part, (bytes, bytearray)):
        return block_of_bytes(bytes(part))
    return await block_of_media(part, threads, max_bytes) if is_media(part) else part


def tool_result(returned: object, spec: CallSpec) -> CallToolResult:
    """Return the result for what a tool returned.

    With an output schema that is structured output, and the same as text for clients that only read text
    (2025-06-18, server/tools, "Structured Content"). Without, text and blocks are shown as they are, and any
    other value as JSON.

    Raises:
        InvalidValue: It does not fit what the tool is annotated with.
        TypeError: It has no form in JSON.
    """
    if isinstance(returned, CallToolResult):
        return returned
    if spec.output_schema is not None:
        value = spec.encode_result(returned)
        return CallToolResult(content=(_as_text(value),), structured_content=value)
    if returned is None:
        return CallToolResult(content=())
    if _is_shown(returned):
        return CallToolResult(content=(_as_block(returned),))
    parts = _parts(returned)
    if parts is not None and all(_is_shown(part) for part in parts):
        return CallToolResult(content=tuple(_as_block(part) for part in parts))
    plain = to_json(returned)
    return CallToolResult(
        content=(_as_text(plain),), structured_content=plain if _json.is_object(plain) else ABSENT
    )


def _parts(value: Any) -> Sequence[object] | None:
    return cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else None


def _is_shown(value: object) -> bool:
    return isinstance(value, (str, *_BLOCKS))


def _as_block(value: Any) -> Any:
    return TextContent(text=value) if isinstance(value, str) else value


def _as_text(value: object) -> TextContent:
    return TextContent(text=value if isinstance(value, str) else _json.encode(value).decode())


_log: Final = Log("trio_mcp.server")

_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
"""What a tool may be called (SEP-986)."""


class _Options(TypedDict):
    unstructured: Callable[[Any], bool]
    thread: bool
    timeout: float | None
    limit: int | None


@final
@attrs.frozen(kw_only=True, eq=False)
class RegisteredTool:
    """A function as a tool.

    Attributes:
        tool: What clients are told about it.
        older_tool: What clients are told that know only objects as structured output.
        handler: The function.
        marks: Which arguments header fields carry, over HTTP.
        check_output: Holds structured output to a schema that was not made from hints.
        asking: Whether it may ask its client, and what becomes of it then.
        is_simple: Whether there is nothing around the function.
    """

    tool: Tool
    older_tool: Tool
    handler: HandlerFunction
    marks: tuple[HeaderMark, ...]
    check_output: Callable[[Any], None] | None
    asking: Asking
    is_simple: bool

    def seen_by(self, revision: Revision) -> Tool:
        """Return what a client of a revision is told."""
        return self.tool if revision.is_modern else self.older_tool

    async def call(
        self,
        arguments: Mapping[str, Any],
        context: Context[Any],
        threads: Threads,
        max_file_bytes: int,
    ) -> object:
        """Call the function, and turn whatever comes of it into a result.

        Arguments that do not fit are the model's to mend, so they are a result, too (SEP-1303).

        Args:
            arguments: The arguments, as they came.
            context: The request.
            threads: How many threads there may be.
            max_file_bytes: How large a file in the result may be.

        Returns:
            A result; as plain JSON if that is the same in every revision.

        Raises:
            RequestError: The function raised it.
        """
        handler, name = self.handler, self.tool.name
        try:
            values = handler.spec.decode(arguments)
        except InvalidValue as error:
            return _failure(f"Invalid arguments for {name}: {error}")
        try:
            try:
                if self.is_simple:
                    returned = await handler.call_simply(values, context)
                    if returned.__class__ is str and self.tool.output_schema is None:
                        return {"content": [{"type": "text", "text": returned}]}
                    result = await self._result(returned, threads, max_file_bytes)
                else:
                    result = await handler.call(
                        values, context, threads, lambda returned: self._result(returned, threads, max_file_bytes)
                    )
            except BaseExceptionGroup as group:
                alone = said(group)
                if alone is None:
                    raise
                raise alone from None
        except ToolError as error:
            return _failure(_written(error))
        except Overdue as error:
            return _failure(f"{name} {error} and was cancelled")
        except RequestError as error:
            if error.question is None:
                raise
            return _failure(f"The client refused {error.question}: {error.message}")
        except BaseException as error:  # noqa: ASYNC103
            if going_on(error) is not None:
                raise
            if is_unusable_answer(error):
                return _failure(str(error))  # noqa: ASYNC104
            # The boundary of one call. What the exception says was not written for strangers.
            _log.exception("tool %s failed", name)
            return _failure(f"{name} failed. The server's log says why.")  # noqa: ASYNC104
        if isinstance(result, NonFinalResult) or self.older_tool is self.tool or context.revision.is_modern:
            return result
        return _wrapped(result)

    async def _result(
        self, returned: object, threads: Threads, max_file_bytes: int
    ) -> CallToolResult | NonFinalResult:
        if isinstance(returned, NonFinalResult):
            return returned
        if self.handler.spec.output_schema is None:
            returned = await with_media_read(returned, threads, max_file_bytes)
        result = tool_result(returned, self.handler.spec)
        schema = self.tool.output_schema
        if result is returned and schema is not None and not result.is_error:
            # Made by hand; what is made here fits by construction (server/tools, "Output Schema").
            if result.structured_content is ABSENT:
                raise TypeError(f"{self.tool.name} has an output schema, but its result no structured_content")
            _check_of(self, schema)(result.structured_content)
        return result


@final
class ToolRegistry:
    """The tools of a server, in the order in which they were registered."""

    def __init__(self) -> None:
        self.entries: Final = Registry[RegisteredTool]("tool")

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
        timeout: float | None,
        limit: int | None,
        resume: Literal["park", "replay"],
        input_schema: Mapping[str, Any] | None,
        output_schema: Mapping[str, Any] | None,
    ) -> None:
        """Register a function as a tool.

        Raises:
            TypeError: Its parameters or its result have no form in JSON.
            ValueError: Its name is none that a tool may have, or another tool has it; a schema is not valid; an
                option is out of bounds.
        """
        unstructured = has_no_schema if output_schema is None else anything
        options: _Options = {"unstructured": unstructured, "thread": thread, "timeout": timeout, "limit": limit}
        if input_schema is None:
            handler = read_handler(function, **options)
        else:
            handler = read_with_schema(function, input_schema, **options)
        spec = handler.spec
        check_output: Callable[[Any], None] | None = None
        if output_schema is not None:
            spec, check_output = with_output_schema(spec, output_schema)
            handler = attrs.evolve(handler, spec=spec)
        name = spec.name if name is None else name
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"a tool's name is 1 to 128 of A-Z a-z 0-9 _ - . and not {name!r} (SEP-986)")
        try:
            marks = header_marks(spec.input_schema)
        except ValueError as error:
            raise ValueError(f"tool {name!r}: parameter {error}") from error
        tool = older_tool = Tool(
            name=name,
            title=title,
            description=spec.description if description is None else description,
            input_schema=spec.input_schema,
            output_schema=spec.output_schema,
            annotations=annotations,
            icons=icons,
            meta=meta,
        )
        if spec.output_schema is not None and needs_wrapping(spec.output_schema):
            older_tool = evolve(tool, output_schema=wrapped_schema(spec.output_schema))
        registered = RegisteredTool(
            tool=tool,
            older_tool=older_tool,
            handler=handler,
            marks=marks,
            check_output=check_output,
            is_simple=handler.is_simple,
            asking=(Asking.REPLAY if resume == "replay" else Asking.PARK) if handler.may_ask else Asking.NEVER,
        )
        self.entries.add(name, registered)

    def asking(self, name: object) -> Asking:
        """Return whether a tool may ask its client, and what becomes of it then."""
        registered = self.entries.get(name) if isinstance(name, str) else None
        return Asking.NEVER if registered is None else registered.asking

    def marks_of(self, name: object) -> tuple[HeaderMark, ...]:
        """Return which arguments of a tool header fields carry."""
        registered = self.entries.get(name) if isinstance(name, str) else None
        return () if registered is None else registered.marks

    def get(self, name: str) -> RegisteredTool:
        """Return the tool of this name.

        Raises:
            RequestError: There is none.
        """
        registered = self.entries.get(name)
        if registered is None:
            raise RequestError(INVALID_PARAMS, f"Unknown tool: {name[:128]}")
        return registered


def _check_of(tool: RegisteredTool, schema: Mapping[str, Any]) -> Callable[[Any], None]:
    """Return what holds structured output that was made by hand to its schema."""
    from .._schema._validator import compile_schema  # few tools make their results by hand

    return tool.check_output or compile_schema(schema)


def _written(error: ToolError) -> str:
    """Return what a tool says of its failure, as it says it: the model reads that, and no terminal."""
    return str(error) if type(error).__str__ is not ToolError.__str__ else Exception.__str__(error)


def _wrapped(result: CallToolResult) -> CallToolResult:
    """Return a result for clients that know only objects as structured output."""
    if result.is_error or result.structured_content is ABSENT:
        return result
    return evolve(result, structured_content={RESULT_MEMBER: result.structured_content})


def _failure(text: str) -> CallToolResult:
    return CallToolResult(content=(TextContent(text=text),), is_error=True)


def read_with_schema(
    function: Callable[..., Any],
    schema: Mapping[str, Any],
    *,
    unstructured: Callable[[Any], bool],
    thread: bool,
    timeout: float | None,
    limit: int | None,
) -> HandlerFunction:
    """Read a function whose arguments have a schema of their own.

    Raises:
        TypeError: It has no parameter for the arguments, or one that nobody fills.
        ValueError: The schema is not valid, or not one of an object; an option is out of bounds.
    """
    if schema.get("type") != "object":
        raise ValueError(f'input_schema must have the type "object", not {schema.get("type")!r}')
    check = _compiled("input_schema", schema)

    def decode(arguments: Mapping[str, Any]) -> list[Any]:
        try:
            check(arguments)
        except UnusableSchema as error:  # the schema is our own, and fine: the arguments are too much for it
            raise InvalidValue([("", str(error))]) from None
        return [arguments]

    handler = read_given(
        function,
        decode,
        what="the arguments",
        unstructured=unstructured,
        thread=thread,
        timeout=timeout,
        limit=limit,
    )
    return attrs.evolve(handler, spec=attrs.evolve(handler.spec, input_schema=dict(schema)))


def with_output_schema(spec: CallSpec, schema: Mapping[str, Any]) -> tuple[CallSpec, Callable[[Any], None]]:
    """Return the spec with a schema for its results, and what holds a plain JSON value to it.

    Raises:
        ValueError: The schema is not valid.
    """
    check = _compiled("output_schema", schema)

    def encode(result: Any) -> Any:
        plain = to_json(result)
        check(plain)
        return plain

    return attrs.evolve(spec, output_schema=dict(schema), encode=encode), check


def _compiled(what: str, schema: Mapping[str, Any]) -> Callable[[Any], None]:
    try:
        return compile_schema(schema)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
