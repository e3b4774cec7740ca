"""Values written as strings, as the arguments of prompts and the variables of URIs are.

A parameter that takes text gets the string as it is. Any other is written in JSON: ``5``, ``true``,
``["a", "b"]``. Where both would do, text comes first. Nothing here knows what a prompt is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, final

import attrs

from .._codec import _json
from ._decode import decoder
from ._generate import Schema, schema_of
from ._plain import Scalar
from ._problems import InvalidValue, Problems, expected, problem
from ._shapes import AnyOf, Choice, Member, Plain, Shape, core, kinds, noun

__all__ = ["StringArgument", "describe", "from_strings"]

_STRING: Final = frozenset({"string"})


@final
@attrs.frozen
class StringArgument:
    """A parameter, for somebody who can only give strings.

    Attributes:
        name: Its name in JSON.
        schema: The schema of its value, on its own. Do not change it.
        required: Whether it must be given.
        choices: All strings it can be, if it can be only a few; else empty.
        is_json: Whether it takes nothing but arrays and objects, so that only JSON will do.
    """

    name: str
    schema: Schema
    required: bool
    choices: tuple[str, ...]
    is_json: bool


def describe(member: Member) -> StringArgument:
    """Describe a parameter."""
    return StringArgument(
        name=member.name,
        schema=schema_of(member.shape),
        required=member.required,
        choices=tuple(dict.fromkeys(_choices(member.shape) or ())),
        is_json=kinds(member.shape) <= {"array", "object", "null"},
    )


def _choices(shape: Shape) -> Sequence[str] | None:
    """Return what may be written for a value that is one of a few, without null; `None` if there is more."""
    match core(shape):
        case Choice(options=options):
            return [_written(value) for value, _ in options if value is not None]
        case Plain(kind="boolean"):
            return ["true", "false"]
        case Plain(kind="null"):
            return []
        case AnyOf(branches=branches):
            found: list[str] = []
            for branch in branches:
                choices = _choices(branch)
                if choices is None:
                    return None
                found += choices
            return found
        case _:
            return None


def _written(value: Scalar) -> str:
    return value if isinstance(value, str) else _json.encode(value).decode()


def from_strings(members: Iterable[Member], arguments: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments as plain JSON. Names that are not known stay, for the decoder to refuse.

    Raises:
        InvalidValue: A string is not the JSON that its parameter needs.
    """
    shapes = {member.name: member.shape for member in members}
    values: dict[str, Any] = {}
    problems = Problems()
    for name, text in arguments.items():
        try:
            values[name] = text if name not in shapes else _from_string(shapes[name], text)
        except InvalidValue as error:
            problems.add(name, error)
    problems.raise_any()
    return values


def _from_string(shape: Shape, text: str) -> Any:
    possible = kinds(shape)
    if possible == _STRING or (possible >= _STRING and _fits(shape, text)):
        return text
    try:
        return _json.decode(text.encode())
    except (ValueError, RecursionError):
        if possible >= _STRING:
            return text  # whose decoder says what is wrong with it
    if possible <= {"array", "object", "null"}:
        raise problem(f"expected {noun(shape)}, written in JSON")
    raise expected(noun(shape), text)


def _fits(shape: Shape, text: str) -> bool:
    try:
        decoder(shape)(text)
    except InvalidValue:
        return False
    return True
