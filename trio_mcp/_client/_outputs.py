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

_PROMISE_BYTES: Final = 512
"""What a promise takes in memory beside its schema and its name."""

_MOST_BYTES_OF_LETTER: Final = 4

_COMPILED_BYTES: Final = 16 * 1024
"""What the smallest compiled schema takes, by a wide estimate: nobody tells."""

_COMPILED_BYTE: Final = 32
"""What each byte of a schema takes once it is compiled."""

FIRST_WITH_SCHEMAS: Final = Revision.V2025_06_18


@final
@attrs.define(eq=False)
class _Promise:
    """What a tool says about its structured output.

    Attributes:
        schema: As it was listed, as JSON, which takes a tenth of the memory; `None` if it is far too large.
        validator: The same compiled, when it was needed and if it can be used.
        is_reported: Whether it was logged that it cannot be used.
    """

    schema: bytes | None
    validator: SchemaValidator | None = None
    is_reported: bool = False


@final
class OutputChecks:
    """The output schemas of the tools that a client has listed.

    Args:
        max_tools: How many are remembered; those listed longest ago are forgotten.
        max_schema_bytes: How large a schema may be.
        max_bytes: What all of it may take in memory. One half is for the schemas, of which those listed longest
            ago are forgotten, and one for those that are compiled, of which those not needed for longest are
            compiled again when they are.
    """

    def __init__(self, max_tools: int, max_schema_bytes: int, max_bytes: int) -> None:
        self._max_tools = max_tools
        self._max_schema_bytes = max_schema_bytes
        self._max_bytes = max_bytes // 2
        self._promises: OrderedDict[str, _Promise] = OrderedDict()
        self._bytes = 0
        self._compiled: OrderedDict[_Promise, int] = OrderedDict()
        self._compiled_bytes = 0
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
            if known is not None:
                self._bytes -= _weight(tool.name, known)
            promise = None if tool.output_schema is None else _Promise(self._as_json(tool.output_schema))
            if known is not None and promise is not None and known.schema == promise.schema:
                promise = known
            elif known is not None:
                self._drop_compiled(known)
            if promise is not None:
                self._promises[tool.name] = promise
                self._bytes += _weight(tool.name, promise)
        while len(self._promises) > self._max_tools or self._bytes > self._max_bytes:
            name, promise = self._promises.popitem(last=False)
            self._bytes -= _weight(name, promise)
            self._drop_compiled(promise)

    def _as_json(self, schema: Mapping[str, Any]) -> bytes | None:
        try:
            data = _json.encode(schema)
        except (ValueError, RecursionError):  # which nests deeper than any that can be used
            return None
        # What its size is as JSON depends on who writes it, but not so much.
        return data if len(data) <= _MOST_BYTES_OF_LETTER * self._max_schema_bytes else None

    def forget(self) -> None:
        """Forget everything: the tools may have changed."""
        self._stamp += 1
        self._promises.clear()
        self._compiled.clear()
        self._bytes = self._compiled_bytes = 0

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
            validator = self._validator_of(promise)
            if validator is not None:
                validator.check(result.structured_content)
        except UnusableSchema as error:
            if not promise.is_reported:
                promise.is_reported = True
                _log.warning("results of tool %s are not checked against its output schema: %s", name, error)
        except InvalidValue as error:
            raise RemoteProtocolError(f"tool {name}: the result breaks its output schema: {error}") from error

    def _validator_of(self, promise: _Promise) -> SchemaValidator | None:
        if promise.validator is not None:
            self._compiled.move_to_end(promise)
        elif not promise.is_reported:
            if promise.schema is None:
                raise UnusableSchema(f"it is much larger than {self._max_schema_bytes} bytes, or nests too deep")
            schema = _json.decode(promise.schema)
            promise.validator = SchemaValidator(schema, max_bytes=self._max_schema_bytes)
            self._compiled[promise] = size = _COMPILED_BYTES + _COMPILED_BYTE * len(promise.schema)
            self._compiled_bytes += size
            while self._compiled_bytes > self._max_bytes and len(self._compiled) > 1:
                self._drop_compiled(next(iter(self._compiled)))
        return promise.validator

    def _drop_compiled(self, promise: _Promise) -> None:
        self._compiled_bytes -= self._compiled.pop(promise, 0)
        promise.validator = None


def _weight(name: str, promise: _Promise) -> int:
    return _PROMISE_BYTES + _MOST_BYTES_OF_LETTER * len(name) + len(promise.schema or b"")


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
