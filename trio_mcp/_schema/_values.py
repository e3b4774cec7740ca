"""A Python type as JSON: its schema, values read by it, values written by it. How they work is elsewhere."""

from __future__ import annotations

from typing import Any, final

from ._decode import decoder
from ._encode import encoder
from ._generate import Schema, schema_of
from ._hints import Direction, described, read_hint

__all__ = ["JsonType", "json_schema"]


@final
class JsonType:
    """A type hint, compiled. Compile once, use often.

    Args:
        hint: Anything that a parameter can be annotated with: scalars, dates, enumerations, collections, unions,
            attrs classes, dataclasses, `TypedDict`, `NamedTuple`, pydantic models, msgspec structs, and
            `Annotated` with `Field`.
        direction: `input` if others send values to this program: members with a default may be left out,
            unknown members are refused. `output` if this program sends them, or reads what such a program sent:
            all members are there, unknown ones are ignored.
        description: What the schema says about the value, unless `Annotated` says it.

    Raises:
        TypeError: The hint has no form in JSON.
    """

    def __init__(self, hint: Any, *, direction: Direction = "input", description: str | None = None) -> None:
        shape = described(read_hint(hint, direction), description)
        self._schema = schema_of(shape)
        self._decode = decoder(shape)
        self._encode = encoder(shape)

    @property
    def schema(self) -> Schema:
        """The JSON Schema (2020-12). Do not change it.

        References in it begin at its own root (``#`` for a class that contains itself, ``#/$defs/...``), so it
        cannot be put inside another schema as it is.
        """
        return self._schema

    def decode(self, value: object) -> Any:
        """Convert plain JSON to the Python value, strictly.

        Raises:
            InvalidValue: The value does not fit. All problems are named at once, at most 10.
        """
        return self._decode(value)

    def encode(self, value: Any) -> Any:
        """Convert a Python value to plain JSON that fits the schema.

        Raises:
            InvalidValue: The value is not of the type, or contains NaN or an infinity.
        """
        return self._encode(value)


def json_schema(hint: Any, *, direction: Direction = "input") -> Schema:
    """Return the JSON Schema (2020-12) of a type hint.

    Args:
        hint: See `JsonType`.
        direction: See `JsonType`.

    Raises:
        TypeError: The hint has no form in JSON.
    """
    return schema_of(read_hint(hint, direction))
