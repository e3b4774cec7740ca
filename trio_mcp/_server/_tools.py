"""Tools: functions registered to be called by a model, the calling of them, and their results.

Schemas come from the function's hints, or are written by its author. How functions are called is in `_functions`;
how files, pictures and sound are read, in `_media`.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Union, cast, final, get_args, get_origin

import attrs

from .._absent import ABSENT
from .._channel import Origin
from .._codec import _json
from .._core._http1 import HeaderMark, header_marks
from .._core._output_schemas import RESULT_MEMBER, needs_wrapping, wrapped_schema
from .._errors import INVALID_PARAMS, RequestError, ToolError
from .._logs import Log
from .._revisions import Revision
from .._schema import CallSpec, InvalidValue, is_unstructured, to_json
from .._trio import propagating
from ..types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
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
from ._functions import HandlerFunction, Overdue, RunOptions, anything, error_for_caller, read_given, read_handler
from ._input_required import Asking, NonFinalResult
from ._listing import Description, Registry, described
from ._permits import read_scopes
from ._threads import Threads

_log: Final = Log("trio_mcp.server")

_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
"""Valid names of tools (SEP-986)."""


class ToolOptions(Description, RunOptions, total=False):
    """The options of `Server.tool`, which describes them."""

    annotations: ToolAnnotations | None
    limit: int | None
    resume: Literal["park", "replay"]
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None


@final
@attrs.frozen(kw_only=True, eq=False)
class RegisteredTool:
    """A function as a tool.

    Attributes:
        tool: What clients see of it.
        older_tool: What clients see that know only objects as structured output.
        handler: The function.
        marks: The arguments that HTTP header fields repeat.
        check_output: Validates structured output against a schema that was not made from hints.
        asking: Whether it may ask its client, and what happens to it meanwhile.
        is_simple: Whether `HandlerFunction.call_simply` can call it.
    """

    tool: Tool
    older_tool: Tool
    handler: HandlerFunction
    marks: tuple[HeaderMark, ...]
    check_output: Callable[[Any], None] | None
    asking: Asking
    is_simple: bool

    def seen_by(self, revision: Revision) -> Tool:
        """Return what a client of a revision sees."""
        return self.tool if revision.is_modern else self.older_tool

    async def call(
        self,
        arguments: Mapping[str, Any],
        context: Context[Any],
        threads: Threads,
        max_file_bytes: int,
    ) -> object:
        """Call the function, and make a result of what it returns or raises.

        The model can correct arguments that do not fit, so that error is a result, too (SEP-1303).

        Args:
            arguments: The arguments, as plain JSON.
            context: The request.
            threads: The threads that call functions and read files.
            max_file_bytes: The largest file that is read for the result.

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
                alone = error_for_caller(group)
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
            if propagating(error) is not None:
                raise
            if is_unusable_answer(error):
                return _failure(str(error))  # noqa: ASYNC104
            # The boundary of one call. The exception may hold what clients must not see.
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
            # The function made the result; results made here fit (server/tools, "Output Schema").
            if result.structured_content is ABSENT:
                raise TypeError(f"{self.tool.name} has an output schema: its result needs structured_content")
            check = self.check_output or _compiled("output_schema", schema)
            check(result.structured_content)
        return result


@final
class ToolRegistry:
    """The tools of a server, in the order in which they were registered."""

    def __init__(self) -> None:
        self.entries: Final = Registry[RegisteredTool]("tool")

    def add(self, function: Callable[..., Any], options: ToolOptions) -> None:
        """Register a function as a tool.

        Raises:
            TypeError: Its parameters or its result have no form in JSON.
            ValueError: Its name is not valid for a tool, or another tool has it; a schema is not valid; an option
                is out of bounds.
        """
        input_schema, output_schema = options.get("input_schema"), options.get("output_schema")
        unstructured, limit = has_no_schema if output_schema is None else anything, options.get("limit")
        if input_schema is None:
            handler = read_handler(function, options, limit=limit, unstructured=unstructured)
        else:
            handler = read_with_schema(function, input_schema, options, limit=limit, unstructured=unstructured)
        spec = handler.spec
        check_output: Callable[[Any], None] | None = None
        if output_schema is not None:
            spec, check_output = with_output_schema(spec, output_schema)
            handler = attrs.evolve(handler, spec=spec)
        description = described(options, spec.name, spec.description)
        name = description["name"]
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"a tool's name is 1 to 128 of A-Z a-z 0-9 _ - . and not {name!r} (SEP-986)")
        try:
            marks = header_marks(spec.input_schema)
        except ValueError as error:
            raise ValueError(f"tool {name!r}: parameter {error}") from error
        tool = older_tool = Tool(
            input_schema=spec.input_schema,
            output_schema=spec.output_schema,
            annotations=options.get("annotations"),
            **description,
        )
        if spec.output_schema is not None and needs_wrapping(spec.output_schema):
            older_tool = evolve(tool, output_schema=wrapped_schema(spec.output_schema))
        asking = Asking.REPLAY if options.get("resume") == "replay" else Asking.PARK
        registered = RegisteredTool(
            tool=tool,
            older_tool=older_tool,
            handler=handler,
            marks=marks,
            check_output=check_output,
            is_simple=handler.is_simple,
            asking=asking if handler.may_ask else Asking.NEVER,
        )
        self.entries.add(name, registered, read_scopes(options.get("scopes")))

    def asking(self, name: object) -> Asking:
        """Return whether a tool may ask its client, and what happens to it meanwhile."""
        registered = self.entries.get(name) if isinstance(name, str) else None
        return Asking.NEVER if registered is None else registered.asking

    def marks_of(self, name: object) -> tuple[HeaderMark, ...]:
        """Return which arguments of a tool HTTP header fields repeat."""
        registered = self.entries.get(name) if isinstance(name, str) else None
        return () if registered is None else registered.marks

    def get(self, name: str) -> RegisteredTool:
        """Return the tool of this name.

        Raises:
            RequestError: No tool has this name.
        """
        registered = self.entries.get(name)
        if registered is None:
            raise _unknown(name)
        return registered

    def check_permit(self, name: object, origin: Origin | None) -> None:
        """Check that whoever has sent a message may call a tool, if there is one.

        Raises:
            RequestError: Not so.
        """
        permit = self.entries.permit(name)
        if permit is not None and not permit.allows(origin):
            raise permit.refusal(_unknown(str(name)))


def _unknown(name: str) -> RequestError:
    return RequestError(INVALID_PARAMS, f"Unknown tool: {name[:128]}")


def _written(error: ToolError) -> str:
    """Return a tool's own text of its failure, unescaped: a model reads it, not a terminal."""
    return str(error) if type(error).__str__ is not ToolError.__str__ else Exception.__str__(error)


def _wrapped(result: CallToolResult) -> CallToolResult:
    """Return a result for clients that know only objects as structured output."""
    if result.is_error or result.structured_content is ABSENT:
        return result
    return evolve(result, structured_content={RESULT_MEMBER: result.structured_content})


def _failure(text: str) -> CallToolResult:
    return CallToolResult(content=(TextContent(text=text),), is_error=True)


# Schemas that the author has written.


def read_with_schema(
    function: Callable[..., Any],
    schema: Mapping[str, Any],
    options: RunOptions,
    *,
    limit: int | None,
    unstructured: Callable[[Any], bool],
) -> HandlerFunction:
    """Read a function whose author has written the schema of its arguments.

    Raises:
        TypeError: It has no parameter for the arguments, or one that is never filled.
        ValueError: The schema is not valid, or not one of an object; an option is out of bounds.
    """
    if schema.get("type") != "object":
        raise ValueError(f'input_schema must have the type "object", not {schema.get("type")!r}')
    from .._schema._schema_cost import UnusableSchema

    check = _compiled("input_schema", schema)

    def decode(arguments: Mapping[str, Any]) -> list[Any]:
        try:
            check(arguments)
        except UnusableSchema as error:  # the schema is fine: validating these arguments takes too long
            raise InvalidValue([("", str(error))]) from None
        return [arguments]

    handler = read_given(function, decode, options, what="the arguments", limit=limit, unstructured=unstructured)
    return attrs.evolve(handler, spec=attrs.evolve(handler.spec, input_schema=dict(schema)))


def with_output_schema(spec: CallSpec, schema: Mapping[str, Any]) -> tuple[CallSpec, Callable[[Any], None]]:
    """Return the spec with a schema for its results, and the check of a plain JSON value.

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
    from .._schema._validator import compile_schema  # loaded by few servers

    try:
        return compile_schema(schema)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


# Results.

_MEDIA: Final = f"{__package__}._media"
_BYTES: Final = (bytes, bytearray)
_BLOCKS: Final = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, UnknownContent)


def has_no_schema(hint: Any) -> bool:
    """Whether a tool with this return annotation has no structured output: its result is only shown.

    Text, bytes, files, pictures, sound, blocks and a whole result are shown. A list of text has a schema; a list
    with blocks in it is shown.
    """
    if is_unstructured(hint) or _is_block(hint):
        return True
    parts = [part for part in get_args(hint) if part is not Ellipsis]
    if get_origin(hint) in {Union, types.UnionType}:
        return all(has_no_schema(part) for part in parts)
    is_list = get_origin(hint) in {list, tuple, Sequence}
    return is_list and all(has_no_schema(part) for part in parts) and any(_has_block(part) for part in parts)


def _read_first() -> tuple[type, ...]:
    """Return the classes that must be read before they can be shown: bytes, files, pictures and sound.

    The classes of media are not imported for that: a value of one exists only if its module is loaded.
    """
    media = sys.modules.get(_MEDIA)
    return _BYTES if media is None else (*_BYTES, media.File, media.Image, media.Audio)


def _is_block(hint: Any) -> bool:
    return hint is CallToolResult or hint in _BLOCKS or hint in _read_first()


def _has_block(hint: Any) -> bool:
    return _is_block(hint) or any(_has_block(part) for part in get_args(hint))


async def with_media_read(returned: Any, threads: Threads, max_bytes: int) -> Any:
    """Return what a tool returned, with bytes, files, pictures and sound read and replaced by blocks.

    A list with other values in it is returned as it is.

    Args:
        returned: What it returned.
        threads: The threads that read files.
        max_bytes: The largest file that is read.

    Raises:
        OSError: A file cannot be read.
        FileTooLarge: A file is too large.
        ValueError: A file given as a picture or as sound is neither.
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
        InvalidValue: It does not fit the tool's return annotation.
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
