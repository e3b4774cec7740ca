"""``key=value``, read by a tool's input schema. Plain functions, no I/O.

The schema is the server's and may be anything. It only decides how a text is read; whether the arguments are
valid the server says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, final

from .._codec._json import encode, is_array, is_object
from ._layout import DEEPEST, parameters_of, resolved, shown_line, type_name
from ._parser import Exit, Failure

_TYPE_OF: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


MAX_STEPS: Final = 64
"""How many names with dots between them may lead to a value."""


@final
class _Nothing:
    """The type of the mark for a text that is no JSON."""


_NOTHING: Final = _Nothing()


def split_pairs(pairs: Sequence[str]) -> dict[str, list[str]]:
    """Return the values by their keys, in order.

    Raises:
        Failure: One has no key, or no equals sign.
    """
    given: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise Failure(Exit.USAGE, f"{pair!r} must be key=value")
        given.setdefault(key, []).append(text)
    return given


def read_arguments(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a tool as plain JSON.

    * A value whose parameter is a string is taken as it is.
    * Integers, numbers, booleans, ``null``, arrays and objects are written as JSON.
    * Where a string or something else is possible, it is something else if it is JSON of that type.
    * A repeated key makes an array, and so does one value for an array that is not written as one.
    * ``address.street=…`` sets a member of an object, unless the tool has a parameter of that very name.

    Args:
        pairs: The arguments, each ``key=value``.
        schema: The tool's input schema.

    Raises:
        Failure: A value is not of the type that the schema says, or no text, or the tool has no such parameter.
    """
    arguments: dict[str, Any] = {}
    for key, texts in split_pairs(pairs).items():
        path, of_value = _find(key, schema)
        place = arguments
        for step in path[:-1]:
            inner: object = place.setdefault(step, {})
            if not is_object(inner):
                raise Failure(Exit.USAGE, f"{key}: {step} is given as a whole as well")
            place = inner
        if path[-1] in place:
            raise Failure(Exit.USAGE, f"{key} is given as a whole and in parts")
        place[path[-1]] = _read(key, texts, of_value, schema)
    check_sendable(arguments)
    return arguments


def _find(key: str, root: Mapping[str, Any]) -> tuple[Sequence[str], object]:
    """Return the names that lead to a parameter, and its schema; ``{}`` if the server does not say."""
    here = resolved(root, root)
    steps = key.split(".")
    if len(steps) > MAX_STEPS:
        raise Failure(
            Exit.USAGE, f"{key:.60}… names a member {len(steps)} levels deep, and at most {MAX_STEPS} are"
        )
    if key in parameters_of(here) or len(steps) == 1:
        if key not in parameters_of(here) and here.get("additionalProperties") is False:
            known = ", ".join(map(shown_line, parameters_of(here))) or "none"
            raise Failure(Exit.USAGE, f"the tool has no parameter {key!r}; it has {known}")
        return [key], parameters_of(here).get(key, _of_others(here))
    if steps[0] not in parameters_of(here):
        return [key], _of_others(here)
    for step in steps:
        of_step = parameters_of(here).get(step, _of_others(here))
        here = resolved(_object_in(of_step, root), root)
    return steps, here


def _of_others(schema: Mapping[str, Any]) -> object:
    """Return the schema of members that have no name."""
    others: object = schema.get("additionalProperties")
    return others if is_object(others) else {}


def _object_in(schema: object, root: Mapping[str, Any]) -> object:
    """Return the alternative of a schema that is an object with members, or the schema itself."""
    here = resolved(schema, root)
    for several in ("anyOf", "oneOf", "allOf"):
        if is_array(here.get(several)):
            for each in here[several]:
                if parameters_of(resolved(each, root)):
                    return each
    return here


def _read(key: str, texts: Sequence[str], schema: object, root: Mapping[str, Any], depth: int = 0) -> Any:
    types = types_of(schema, root)
    items = _items_of(schema, root)
    if len(texts) > 1:
        if types and "array" not in types:
            raise Failure(Exit.USAGE, f"{key} is given {len(texts)} times, and is no array")
        return [_read(key, [text], items, root) for text in texts]
    (text,) = texts
    if "string" in types and types <= {"string", "null"}:
        return text
    value = _json(text)
    if not isinstance(value, _Nothing) and (not types or _is_one_of(value, types)):
        return value
    if not types or "string" in types:
        return text
    if "array" in types and not is_array(value) and depth < DEEPEST:  # its items may be arrays like itself
        return [_read(key, [text], items, root, depth + 1)]
    wanted = "true or false" if types == frozenset({"boolean"}) else shown_line(type_name(schema, root))
    raise Failure(Exit.USAGE, f"{key}: expected {wanted}, not {text!r}")


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return _NOTHING


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refuse(digits)


def check_sendable(parts: Mapping[str, Any]) -> None:
    """Check that what was typed can be sent as JSON. Bytes that are not UTF-8 are half surrogate pairs in Python.

    Args:
        parts: What is sent, by where it was typed.

    Raises:
        Failure: A text in it is none, or a number is not finite.
    """
    try:
        encode(parts)
    except (ValueError, RecursionError) as error:
        raise Failure(Exit.USAGE, str(error)) from None


def _is_one_of(value: object, types: frozenset[str]) -> bool:
    kind = "null" if value is None else _TYPE_OF[type(value)]
    if kind == "number" and isinstance(value, float) and value.is_integer() and "integer" in types:
        return True
    return kind in types or (kind == "integer" and "number" in types)


def types_of(schema: object, root: Mapping[str, Any]) -> frozenset[str]:
    """Return the types of JSON that a schema admits, as far as it says; none if it does not say."""
    found: set[str] = set()
    ahead: list[object] = [schema]
    seen: set[int] = set()
    while ahead:
        here = resolved(ahead.pop(), root)
        if id(here) in seen:  # a schema may refer to itself
            continue
        seen.add(id(here))
        kinds: object = here.get("type")
        if isinstance(kinds, str) or is_array(kinds):
            found.update([kinds] if isinstance(kinds, str) else map(str, kinds))
            continue
        values: list[object] = here["enum"] if is_array(here.get("enum")) else []
        if "const" in here:
            values = [here["const"]]
        found.update("null" if value is None else _TYPE_OF.get(type(value), "object") for value in values)
        if "properties" in here and not values:
            found.add("object")
        for several in ("anyOf", "oneOf", "allOf"):
            if is_array(here.get(several)):
                ahead += here[several]
    return frozenset(found)


def _items_of(schema: object, root: Mapping[str, Any]) -> object:
    """Return the schema of the items of an array, or of the alternative that is an array."""
    here = resolved(schema, root)
    if "items" in here:
        return here["items"]
    for several in ("anyOf", "oneOf", "allOf"):
        if is_array(here.get(several)):
            for each in here[several]:
                if "items" in resolved(each, root):
                    return resolved(each, root)["items"]
    return {}


def read_object(text: str, source: str) -> dict[str, Any]:
    """Return arguments that are written as one JSON object.

    Args:
        text: The JSON.
        source: Where it comes from, for errors.

    Raises:
        Failure: It is not an object, or cannot be sent.
    """
    try:
        value: object = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Failure(Exit.USAGE, f"{source} must be a JSON object: {error}") from None
    if not is_object(value):
        raise Failure(Exit.USAGE, f"{source} must be a JSON object")
    check_sendable({source: value})
    return value
