"""Tools whose schemas their author has written: kept to the letter, and enforced.

With an input schema the function is called with the arguments as they are: its first parameter that is neither
a `Context` nor a dependency gets the JSON object. With an output schema it returns what fits, or a
`CallToolResult`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from .._schema import CallSpec, InvalidValue, to_json
from .._schema._validator import UnusableSchema, compile_schema
from ._calling import HandlerFunction, read_given

__all__ = ["read_with_schema", "with_output_schema"]


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
