"""Tools: functions registered to be called by a model, the calling of them, and their results.

Schemas come from the function's hints, or are written by its author. How functions are called is in `_functions`;
how files, pictures and sound are read, in `_media`.
"""

from __future__ import annotations

import inspect
import itertools
import re
import sys
import types
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NoReturn, Union, cast, final, get_args, get_origin

import attrs

from .._absent import ABSENT
from .._codec import _json
from .._core._apps import Visibility, tool_meta
from .._core._changes import ListKind
from .._core._http1 import HeaderMark, header_marks
from .._core._output_schemas import RESULT_MEMBER, needs_wrapping, wrapped_schema
from .._errors import RequestError, ToolError
from .._limits import Limits
from .._logs import Log
from .._peer._exchange import forget_frames, report_failure
from .._revisions import INPUT_METHODS, Revision
from .._schema import CallSpec, InvalidValue, is_unstructured, items_of, result_to_json
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
from ._asking import failed_by_client
from ._context import Context, sink_of_request
from ._functions import (
    HandlerFunction,
    MethodHandler,
    Overdue,
    RunOptions,
    anything,
    error_for_caller,
    name_of,
    read_given,
    read_handler,
    refuse_uncallable,
)
from ._input_required import Asking, NonFinalResult
from ._listing import FIRST_PAGE, Description, Kept, NamedRegistry, are_plain, described
from ._threads import Threads

_log: Final = Log("trio_mcp.server")

MAX_NAMED: Final = 10
"""How many unknown arguments of a call the log names."""

MAX_NAME: Final = 64
"""How much of such a name it shows, in characters."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
"""Valid names of tools (SEP-986)."""


class ToolOptions(Description, RunOptions, total=False):
    """The options of `Server.tool`, which describes them."""

    annotations: ToolAnnotations | None
    limit: int | None
    task: Literal["never", "optional", "required"]
    ttl: float | None
    poll: float
    ask_first: bool
    restartable: bool
    strict_input: bool
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    ui: str | None
    visibility: Collection[Visibility] | None


@attrs.frozen(kw_only=True, eq=False)
class RegisteredTool:
    """A function as a tool. One whose calls may become tasks is a `TaskTool`.

    Attributes:
        tool: What clients see of it.
        older_tool: What clients see that know only objects as structured output.
        handler: The function.
        marks: The arguments that HTTP header fields repeat.
        check_output: Validates structured output against a schema that was not made from hints.
        is_simple: Whether it is called here, as `HandlerFunction.is_simple` says.
        is_strict: Whether arguments must be what the schema says.
        has_own_schema: Whether its author has written the schema.
        is_open: Whether it returns a list of anything: a value, or what is shown if blocks or media are in it.
        is_wrapped: Whether its structured output is wrapped for clients that know only objects there.
        is_text: Whether a `str` that it returns is its result.
        page: The URI of the page by which hosts show its results; `None` for most.
    """

    tool: Tool
    older_tool: Tool
    handler: HandlerFunction
    marks: tuple[HeaderMark, ...]
    check_output: Callable[[Any], None] | None
    is_simple: bool
    is_strict: bool
    has_own_schema: bool
    is_open: bool
    is_wrapped: bool
    is_text: bool
    page: str | None = None

    @property
    def is_restartable(self) -> bool:
        """Whether its calls are run again if their process dies."""
        return False

    @property
    def can_be_task(self) -> bool:
        """Whether its calls may become tasks."""
        return False

    def seen_by(self, revision: Revision) -> Tool:
        """Return what a client of a revision sees."""
        return self.tool if revision.is_modern else self.older_tool

    async def call(
        self, arguments: Mapping[str, Any], context: Context[Any], threads: Threads, limits: Limits
    ) -> object:
        """Call the function, and make a result of what it returns or raises.

        The model can correct arguments that do not fit, so that error is a result, too (SEP-1303).

        Args:
            arguments: The arguments, as plain JSON.
            context: The request.
            threads: The threads that call functions and read files.
            limits: What may be read of files for the result, and of JSON in strings.

        Returns:
            A result; as plain JSON if that is the same in every revision.

        Raises:
            RequestError: The function raised it.
        """
        handler, name, max_file_bytes = self.handler, self.tool.name, limits.max_file_bytes
        try:
            values = self._decoded(arguments, limits.max_decoded_bytes)
        except InvalidValue as error:
            return _failure(f"Invalid arguments for {name}: {error}")
        try:
            try:
                if self.is_simple:
                    for parameter in handler.injection.contexts:
                        values[parameter] = context
                    args, kwargs = handler.spec.arrange(values)
                    returned = await handler.function(*args, **kwargs)
                    if returned.__class__ is str and self.is_text:
                        return {"content": [{"type": "text", "text": returned}]}
                    if self.tool.output_schema is not None and not isinstance(returned, _RESULTS):
                        return self._structured(returned, context)
                    result = await self._result(returned, context, threads, max_file_bytes)
                else:
                    result = await handler.call(
                        values,
                        context,
                        threads,
                        lambda returned: self._result(returned, context, threads, max_file_bytes),
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
            if failed_by_client(error):
                forget_frames(error)
                return _failure(str(error))  # noqa: ASYNC104
            # The boundary of one call. The exception may hold what clients must not see.
            if isinstance(error, InvalidValue):
                self._report_misfit(error, context)
                text = f"{name} has run, but its result cannot be sent. Do not repeat the call; the log says why."
                return _failure(text)  # noqa: ASYNC104
            _log.exception("tool %s failed", name)
            # The error has no other name here: it refers to this frame, and that to the whole request.
            report_failure(*sink_of_request(context), error)
            return _failure(f"{name} failed. The server's log says why.")  # noqa: ASYNC104
        if isinstance(result, NonFinalResult) or not self.is_wrapped or context.revision.is_modern:
            return result
        return _wrapped(result)

    def _decoded(self, arguments: Mapping[str, Any], most: int) -> dict[str, Any]:
        spec = self.handler.spec
        try:
            return spec.decode(arguments)
        except InvalidValue:
            if self.is_strict:
                raise
            if (found := spec.decode_leniently(arguments, most, leaves_out=not self.has_own_schema)) is None:
                raise
        values, left_out = found
        if left_out:
            names = [name[:MAX_NAME] for name in dict.fromkeys(left_out)]
            named, more = ", ".join(names[:MAX_NAMED]), ", ..." if len(names) > MAX_NAMED else ""
            _log.warning("tool %s ignored arguments it does not know: %s%s", self.tool.name, named, more)
        return values

    def _structured(self, returned: object, context: Context[Any]) -> dict[str, Any] | CallToolResult:
        """Return what `tool_result` makes of structured output, as plain JSON of a revision: it is made often.

        Raises:
            InvalidValue: It does not fit the tool's return annotation.
        """
        if returned.__class__ is types.CoroutineType:
            self._refuse_coroutine(returned)
        try:
            value = self.handler.spec.encode_result(returned)
        except InvalidValue as error:
            return self._shown_misfit(returned, error, context)
        text = value if isinstance(value, str) else _json.encode_answer(value).decode()
        result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
        if context.revision >= Revision.V2025_06_18:
            is_seen_as_is = not self.is_wrapped or context.revision.is_modern
            result["structuredContent"] = value if is_seen_as_is else {RESULT_MEMBER: value}
        return result

    async def _result(
        self, returned: object, context: Context[Any], threads: Threads, max_file_bytes: int
    ) -> CallToolResult | NonFinalResult:
        if isinstance(returned, NonFinalResult):
            return returned
        if returned.__class__ is types.CoroutineType:
            self._refuse_coroutine(returned)
        if isinstance(returned, (deque, Iterator)):
            returned = items_of(iter(cast("Iterable[object]", returned)))
        spec = self.handler.spec
        if spec.output_schema is None or (self.is_open and _has_shown_parts(returned)):
            if not isinstance(returned, CallToolResult):
                spec.check_returned(returned)
            result = shown_result(await with_media_read(returned, threads, max_file_bytes))
        else:
            try:
                result = tool_result(returned, spec)
            except InvalidValue as error:
                return self._shown_misfit(returned, error, context)
        if self.page is not None and not any(isinstance(block, TextContent) for block in result.content):
            _log.warning(
                "the tool %s has returned no text: who cannot show %s sees nothing", self.tool.name, self.page
            )
        schema = self.tool.output_schema
        if result is returned and schema is not None and not result.is_error:
            # The function made the result; results made here fit (server/tools, "Output Schema").
            if not result.has_structured_content:
                problem = f"{self.tool.name} has an output schema: its result needs structured_content"
                raise InvalidValue([("", problem)])
            check = self.check_output or _compiled("output_schema", schema)
            check(result.structured_content)
            try:
                _json.encode(result.structured_content)
            except ValueError as error:
                raise InvalidValue([("", str(error))]) from error
        return result

    def _shown_misfit(self, returned: object, error: InvalidValue, context: Context[Any]) -> CallToolResult:
        """Return the failure of a tool that has done its work, with what it returned: NaN where a number is due.

        A failure without a result would be called again, so nothing is raised: dependencies see a success.

        Raises:
            InvalidValue: `error`, if the value is not even of the type that was promised.
        """
        try:
            shown = _as_text(self.handler.spec.show_result(returned)).text
        except InvalidValue:
            raise error from None
        self._report_misfit(error, context)
        return _failure(
            f"{self.tool.name} has run, but its result does not fit its output schema: {error}. "
            f"This is the result:\n{shown}"
        )

    def _report_misfit(self, error: InvalidValue, context: Context[Any]) -> None:
        name = self.tool.name
        _log.error("tool %s failed: its result does not fit its annotation", name, exc_info=error)
        problem = f"the result of tool {name} does not fit its annotation: {error}"
        report_failure(*sink_of_request(context), TypeError(problem))

    def _refuse_coroutine(self, returned: Any) -> NoReturn:
        returned.close()  # else Python warns as well
        raise TypeError(f"{self.tool.name} returned a coroutine: did you forget await?")


@final
class ToolRegistry(NamedRegistry[RegisteredTool]):
    """The tools of a server, in the order in which they were registered.

    Attributes:
        is_strict: Whether arguments must be what the schemas say, unless a tool says otherwise.
        is_inline: Whether schemas of further tools that are made from hints are written without references.
        has_apps: Whether a tool was ever registered that a page shows, or that says who may call it.
    """

    is_strict = False
    is_inline = False
    has_apps = False

    def add(
        self,
        function: Callable[..., Any],
        options: ToolOptions,
        make: Callable[..., RegisteredTool] = RegisteredTool,
    ) -> None:
        """Register a function as a tool, which `make` makes of what was read.

        Raises:
            TypeError: Its parameters or its result have no form in JSON.
            ValueError: Its name is not valid for a tool, or another tool has it; a schema is not valid; an option
                is out of bounds.
        """
        input_schema, output_schema = options.get("input_schema"), options.get("output_schema")
        unstructured, limit = has_no_schema if output_schema is None else anything, options.get("limit")
        if input_schema is None:
            handler = read_handler(function, options, limit=limit, unstructured=unstructured)
            if self.is_inline:
                handler = attrs.evolve(handler, spec=handler.spec.without_references())
        else:
            handler = read_with_schema(function, input_schema, options, limit=limit, unstructured=unstructured)
        spec = handler.spec
        check_output: Callable[[Any], None] | None = None
        if output_schema is not None:
            spec, check_output = with_output_schema(spec, output_schema)
            handler = attrs.evolve(handler, spec=spec)
        page, visibility = options.get("ui"), options.get("visibility")
        if page is not None or visibility is not None:
            options = {**options, "meta": tool_meta(options.get("meta"), page, visibility)}
        description = described(options, spec.name, spec.description)
        name, annotations = description["name"], options.get("annotations")
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"a tool's name is 1 to 128 of A-Z a-z 0-9 _ - . and not {name!r} (SEP-986)")
        try:
            marks = header_marks(spec.input_schema)
        except ValueError as error:
            raise ValueError(f"tool {name!r}: parameter {error}") from error
        # A schema would promise structured output, which blocks are not.
        is_open = output_schema is None and _is_of_any_list(spec.output_schema)
        tool = older_tool = Tool(
            input_schema=spec.input_schema,
            output_schema=None if is_open else spec.output_schema,
            annotations=annotations,
            **description,
        )
        is_wrapped = spec.output_schema is not None and needs_wrapping(spec.output_schema)
        if tool.output_schema is not None and is_wrapped:
            older_tool = evolve(tool, output_schema=wrapped_schema(tool.output_schema))
        registered = make(
            tool=tool,
            older_tool=older_tool,
            handler=handler,
            marks=marks,
            check_output=check_output,
            is_simple=handler.is_simple,
            is_strict=options.get("strict_input", self.is_strict),
            has_own_schema=input_schema is not None,
            is_open=is_open,
            is_wrapped=is_wrapped,
            is_text=spec.output_schema is None and spec.may_return(str),
            page=page,
        )
        self.register(name, registered, options)
        self.has_apps = self.has_apps or page is not None or visibility is not None

    def asking(self, name: object) -> Asking:
        """Return whether a tool may ask its client, and what happens to it meanwhile."""
        registered = self.entries.shown.get(name) if isinstance(name, str) else None
        return Asking.NEVER if registered is None else registered.handler.asking

    def restartable(self) -> list[str]:
        """Return the tools whose calls are run again if their process dies."""
        return [name for name, tool in self.entries.shown.items() if tool.is_restartable]

    def can_be_task(self, name: object) -> bool:
        """Whether calls of a tool may become tasks."""
        registered = self.entries.shown.get(name) if isinstance(name, str) else None
        return registered is not None and registered.can_be_task

    def marks_of(self, name: object) -> tuple[HeaderMark, ...]:
        """Return which arguments of a tool HTTP header fields repeat."""
        registered = self.entries.shown.get(name) if isinstance(name, str) else None
        return () if registered is None else registered.marks


def _written(error: ToolError) -> str:
    """Return a tool's own text of its failure, unescaped: a model reads it, not a terminal. Forget its frames."""
    text = str(error) if type(error).__str__ is not ToolError.__str__ else Exception.__str__(error)
    forget_frames(error)
    return text or "the tool failed without a message"


def read_method_handler(method: str, function: MethodHandler) -> MethodHandler:
    """Read a function that serves a method by itself.

    Returns:
        The function; for ``tools/call`` one that makes a result of its `ToolError`, as that of any tool.

    Raises:
        TypeError: It cannot be called with the parameters and the context.
    """
    refuse_uncallable(function)
    name = name_of(function)
    if not takes(function, {}, None):
        raise TypeError(
            f"{name}() serves {method}, and is called with its parameters as plain JSON and the Context: "
            f"write async def {name}(params, ctx: Context)"
        )
    if not inspect.iscoroutinefunction(function):
        function = _awaited(function, method, name)
    if method != "tools/call":
        return function

    return partial(with_failures, function)


async def with_failures(function: Callable[..., object], *args: object) -> object:
    """Call what answers a call of a tool. Its `ToolError` becomes a result, as that of any tool."""
    try:
        try:
            result: Any = function(*args)
            return (await result) if hasattr(result, "__await__") else result
        except BaseExceptionGroup as group:
            alone = error_for_caller(group)
            if alone is None:
                raise
            raise alone from None
    except ToolError as error:
        return _failure(_written(error))


def takes(function: Callable[..., Any], *args: object) -> bool:
    """Whether a function can be called with these arguments, as far as that can be seen."""
    try:
        inspect.signature(function).bind(*args)
    except TypeError:
        return False
    except ValueError:  # of some written in C
        pass
    return True


def _awaited(function: Callable[..., object], method: str, name: str) -> MethodHandler:
    async def call(params: Mapping[str, Any], context: Context[Any]) -> object:
        result: Any = function(params, context)
        if not hasattr(result, "__await__"):
            raise TypeError(
                f"{name}() serves {method}, and is not async: write async def {name}(params, ctx: Context)"
            )
        return await result

    return call


KINDS_OF_LISTS: Final[Mapping[str, ListKind]] = types.MappingProxyType(
    {
        "tools/list": "tools",
        "prompts/list": "prompts",
        "resources/list": "resources",
        "resources/templates/list": "resources",
    }
)
"""The methods whose results are lists, and what `Server.list_changed` calls these."""


def check_options_of_method(method: str, *, keep: bool, resume: str) -> None:
    """Refuse options of the handler of a whole method that do nothing for that method.

    Raises:
        ValueError: They do nothing.
    """
    if keep and method not in KINDS_OF_LISTS:
        raise ValueError(f"{method} is no list: keep=True is for {', '.join(KINDS_OF_LISTS)}")
    if resume != "park" and method not in INPUT_METHODS:
        raise ValueError(f"{method} is never resumed: resume is for {', '.join(sorted(INPUT_METHODS))}")


@final
class KeptLists:
    """The first pages of lists that handlers of whole methods make, until it is said that these have changed."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, Revision], Kept] = {}
        self._changes: dict[ListKind, int] = {}
        self._serials = itertools.count(1)

    def keeping(self, method: str, handler: MethodHandler) -> MethodHandler:
        """Return the handler of a method that calls another one only for what is not kept."""
        kind = KINDS_OF_LISTS[method]

        async def keep(params: Mapping[str, Any], context: Context[Any]) -> object:
            if not are_plain(params, FIRST_PAGE):
                return await handler(params, context)
            changes = self._changes.get(kind, 0)  # before the handler looks: there may be more meanwhile
            kept = self._kept.get((method, context.revision))
            if kept is None or kept.changes != changes:
                result = await handler(params, context)
                kept = self._kept[method, context.revision] = Kept(result, changes)
            return kept

        return keep

    def forget(self, kind: ListKind) -> None:
        """Forget what has changed. In any thread."""
        self._changes[kind] = next(self._serials)


def _wrapped(result: CallToolResult) -> CallToolResult:
    """Return a result for clients that know only objects as structured output."""
    if result.is_error or not result.has_structured_content:
        return result
    return evolve(result, structured_content={RESULT_MEMBER: result.structured_content})


def _failure(text: str) -> CallToolResult:
    return CallToolResult(content=(TextContent(text=text),), is_error=True)


_RESULTS: Final = (CallToolResult, NonFinalResult)
"""What a function returns that makes its result itself."""


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
        plain = result_to_json(result)
        check(plain)
        return plain

    return attrs.evolve(spec, output_schema=dict(schema), encode=encode, show=None, exact=None), check


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

    Other values in a list stay what they are.

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
    if parts is None or not _has_shown_parts(parts) or not any(isinstance(part, read_first) for part in parts):
        return returned
    return [await _as_read_block(part, threads, max_bytes) for part in parts]


async def _as_read_block(part: Any, threads: Threads, max_bytes: int) -> Any:
    from ._media import block_of_bytes, block_of_media, is_media

    if isinstance(part, (bytes, bytearray)):
        return block_of_bytes(bytes(part))
    return await block_of_media(part, threads, max_bytes) if is_media(part) else part


def tool_result(returned: object, spec: CallSpec) -> CallToolResult:
    """Return the result for what a tool with an output schema returned.

    That is structured output, and the same as text for clients that only read text (2025-06-18, server/tools,
    "Structured Content").

    Raises:
        InvalidValue: It does not fit the tool's return annotation.
    """
    if isinstance(returned, CallToolResult):
        return returned
    value = spec.encode_result(returned)
    return CallToolResult(content=(_as_text(value),), structured_content=value)


def shown_result(returned: object) -> CallToolResult:
    """Return the result for what a tool without an output schema returned.

    Text and blocks are shown as they are, and any other value as JSON, also one beside blocks in a list.

    Raises:
        InvalidValue: It has no form in JSON.
    """
    if isinstance(returned, CallToolResult):
        return returned
    if returned is None:
        return CallToolResult(content=())
    if isinstance(returned, (str, *_BLOCKS)):
        return CallToolResult(content=(_as_block(returned),))
    parts = _parts(returned)
    if parts is not None and (_has_shown_parts(parts) or all(isinstance(part, str) for part in parts)):
        return CallToolResult(content=tuple(_as_block(part) for part in parts))
    plain = result_to_json(returned)
    return CallToolResult(
        content=(_as_text(plain),), structured_content=plain if _json.is_object(plain) else ABSENT
    )


def _is_of_any_list(schema: Mapping[str, Any] | None) -> bool:
    """Whether results may be a list of anything, also besides something else."""
    if schema is None:
        return False
    branches = [
        {k: v for k, v in branch.items() if k != "description"} for branch in schema.get("anyOf", [schema])
    ]
    return {"type": "array"} in branches


def _has_shown_parts(returned: object) -> bool:
    """Whether a list is shown part by part: a block or media is in it, or bytes among nothing but text."""
    parts = _parts(returned)
    if parts is None:
        return False
    others = [part for part in parts if not isinstance(part, (str, *_BYTES))]
    if others:
        return any(isinstance(part, (*_BLOCKS, *_read_first())) for part in others)
    return any(isinstance(part, _BYTES) for part in parts)


def _parts(value: Any) -> Sequence[object] | None:
    return cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else None


def _as_block(value: Any) -> Any:
    return (
        value
        if isinstance(value, _BLOCKS)
        else _as_text(value if isinstance(value, str) else result_to_json(value))
    )


def _as_text(value: object) -> TextContent:
    return TextContent(text=value if isinstance(value, str) else _json.encode_answer(value).decode())
