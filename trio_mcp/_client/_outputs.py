"""What a tool gave to programs: checked against what it promised, and read as a Python type.

Spec: 2025-06-18 and later, server/tools, "Structured Content" and "Output Schema".
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, final

import attrs

from .._absent import ABSENT
from .._codec import _json
from .._errors import RemoteProtocolError, ToolError
from .._logs import Log
from .._revisions import Revision
from .._schema import InvalidValue, JsonType
from .._schema._validator import SchemaValidator, UnusableSchema
from ..types import CallToolResult, TextContent, Tool

__all__ = ["OutputChecks", "output_type", "read_output"]

_log: Final = Log("trio_mcp.client")

FIRST_WITH_SCHEMAS: Final = Revision.V2025_06_18


@final
@attrs.define(eq=False)
class _Promise:
    """What a tool says about its structured output.

    Attributes:
        schema: As it was listed.
        validator: The same compiled, when it was first needed and if it can be used.
        is_reported: Whether it was logged that it cannot be used.
    """

    schema: Mapping[str, Any]
    validator: SchemaValidator | None = None
    is_reported: bool = False


@final
class OutputChecks:
    """The output schemas of the tools that a client has listed.

    Args:
        max_tools: How many are remembered; those listed longest ago are forgotten.
        max_schema_bytes: How large a schema may be.
    """

    def __init__(self, max_tools: int, max_schema_bytes: int) -> None:
        self._max_tools = max_tools
        self._max_schema_bytes = max_schema_bytes
        self._promises: OrderedDict[str, _Promise] = OrderedDict()
        self._stamp = 0

    @property
    def stamp(self) -> int:
        """A number that changes whenever what was listed before may not be so any more."""
        return self._stamp

    def learn(self, tools: Iterable[Tool], revision: Revision, stamp: int) -> None:
        """Remember what listed tools promise.

        Args:
            tools: The tools.
            revision: What is spoken; older ones know no output schemas.
            stamp: What `stamp` was before they were asked for.
        """
        if revision < FIRST_WITH_SCHEMAS or stamp != self._stamp:
            return
        for tool in tools:
            known = self._promises.pop(tool.name, None)
            if tool.output_schema is None:
                continue
            if known is None or not _is_same(known.schema, tool.output_schema):
                known = _Promise(tool.output_schema)
            self._promises[tool.name] = known
        while len(self._promises) > self._max_tools:
            self._promises.popitem(last=False)

    def forget(self) -> None:
        """Forget everything: the tools may have changed."""
        self._stamp += 1
        self._promises.clear()

    def check(self, name: str, result: CallToolResult) -> None:
        """Check what a tool gave, if it is known what it promised.

        A schema that cannot be used checks nothing, which is logged once.

        Raises:
            RemoteProtocolError: It is not what was promised.
        """
        promise = self._promises.get(name)
        if promise is None or result.is_error:
            return
        if result.structured_content is ABSENT:
            raise RemoteProtocolError(
                f"tool {name}: it has an output schema, and its result no structuredContent"
            )
        try:
            self._compiled(promise)
            if promise.validator is not None:
                promise.validator.check(result.structured_content)
        except UnusableSchema as error:
            if not promise.is_reported:
                promise.is_reported = True
                _log.warning("results of tool %s are not checked against its output schema: %s", name, error)
        except InvalidValue as error:
            raise RemoteProtocolError(f"tool {name}: the result breaks its output schema: {error}") from error

    def _compiled(self, promise: _Promise) -> None:
        if promise.validator is None and not promise.is_reported:
            promise.validator = SchemaValidator(promise.schema, max_bytes=self._max_schema_bytes)


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    try:
        return one == other
    except RecursionError:  # which nests deeper than any that can be used
        return False


def read_output(name: str, result: CallToolResult, kind: JsonType) -> Any:
    """Read what a tool gave as a Python type.

    That is its structured content; or the `result` in it, where that alone is of the type: it had to be wrapped,
    because older revisions know objects only. Where there is none, as in revisions before 2025-06-18, it is
    the tool's text: as it is for `str`, else read as JSON.

    Args:
        name: The tool.
        result: Its result.
        kind: The type, from `output_type`.

    Raises:
        ToolError: The tool failed, and says why.
        RemoteProtocolError: What it gave is not of the type.
    """
    if result.is_error:
        raise ToolError(_text_of(result) or f"tool {name} failed and does not say why")
    value = _value_of(result, kind)
    try:
        try:
            return kind.decode(value)
        except InvalidValue:
            if not (_json.is_object(value) and value.keys() == {"result"}):
                raise
        return kind.decode(value["result"])
    except InvalidValue as error:
        raise RemoteProtocolError(f"tool {name}: the result is not what `returns` says: {error}") from error


def output_type(hint: Any) -> JsonType:
    """Compile a type that results are read as; those used most recently stay compiled.

    Raises:
        TypeError: It has no form in JSON.
    """
    return _compiled_type(hint) if isinstance(hint, Hashable) else JsonType(hint, direction="output")


@functools.lru_cache(maxsize=256)
def _compiled_type(hint: Any) -> JsonType:
    return JsonType(hint, direction="output")


def _value_of(result: CallToolResult, kind: JsonType) -> object:
    if result.structured_content is not ABSENT:
        return result.structured_content
    text = _text_of(result)
    if kind.schema.get("type") == "string":
        return text
    try:
        return _json.decode(text.encode())
    except (ValueError, RecursionError):
        return text


def _text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
