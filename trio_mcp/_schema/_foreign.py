"""Classes that bring their own schema and conversion: pydantic models and msgspec structs.

Neither library is imported: an object of one of them can only exist where the user has imported it. Their own
rules hold inside their objects, in strict mode.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any, Final, cast

from ._problems import InvalidValue, Problem, place, problem
from ._shapes import ForeignType

__all__ = ["foreign_type"]

_SCHEMA_MAPS: Final = frozenset({"$defs", "dependentSchemas", "patternProperties", "properties"})
_SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMAS: Final = frozenset({"additionalProperties", "items", "not"})
_MSGSPEC_PLACE: Final = r" - at `\$\.?(?P<path>[^`]*)`$"


def foreign_type(hint: Any, cls: type, *, output: bool) -> ForeignType | None:
    """Return how a class converts itself, or `None` if it is none of those.

    Args:
        hint: The class, with type arguments if it is generic.
        cls: The class.
        output: Whether the schema is for what the class writes.
    """
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and issubclass(cls, pydantic.BaseModel):
        return _pydantic_type(pydantic, cls, output=output)
    msgspec = sys.modules.get("msgspec")
    if msgspec is not None and issubclass(cls, msgspec.Struct):
        return _msgspec_type(msgspec, hint, cls)
    return None


def _pydantic_type(pydantic: Any, cls: Any, *, output: bool) -> ForeignType:
    mode = "serialization" if output else "validation"

    def schema(reference: str) -> tuple[dict[str, Any], dict[str, Any]]:
        written = cls.model_json_schema(mode=mode, ref_template=reference.format("{model}"))
        definitions = written.pop("$defs", {})
        return _untitled(written, cls.__name__), _all_untitled(definitions)

    def decode(value: Any) -> Any:
        # From text, because only there strict mode takes "2026-07-28" for a date.
        try:
            text = json.dumps(value, allow_nan=False)
        except ValueError:
            raise problem("contains a number that JSON lacks") from None
        try:
            return cls.model_validate_json(text, strict=True)
        except pydantic.ValidationError as error:
            raise InvalidValue(map(_pydantic_problem, error.errors(include_url=False))) from None

    return ForeignType(cls, schema, decode, lambda value: value.model_dump(mode="json", by_alias=True))


def _pydantic_problem(error: Mapping[str, Any]) -> Problem:
    return place(error["loc"]), str(error["msg"])


def _msgspec_type(msgspec: Any, hint: Any, cls: type) -> ForeignType:
    def schema(reference: str) -> tuple[dict[str, Any], dict[str, Any]]:
        (written,), definitions = msgspec.json.schema_components((hint,), ref_template=reference.format("{name}"))
        return written, _all_untitled(definitions)

    def decode(value: Any) -> Any:
        try:
            return msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            text = str(error)
            where = re.search(_MSGSPEC_PLACE, text)
            path = where["path"] if where else ""
            raise InvalidValue([(path, text[: where.start()] if where else text)]) from None

    return ForeignType(cls, schema, decode, msgspec.to_builtins)


def _all_untitled(schemas: dict[str, Any]) -> dict[str, Any]:
    return {name: _untitled(schema, name) for name, schema in schemas.items()}


def _untitled(schema: Any, name: str = "") -> Any:
    """Return a schema without the titles that only repeat the name of what they are the title of."""
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for keyword, value in cast("dict[str, Any]", schema).items():
        if keyword == "title" and (value == name.replace("_", " ").title() or re.sub(r"\W", "_", value) == name):
            continue
        if keyword in _SCHEMA_MAPS:
            kept[keyword] = _all_untitled(value)
        elif keyword in _SCHEMA_LISTS:
            kept[keyword] = [_untitled(inner) for inner in value]
        elif keyword in _SCHEMAS:
            kept[keyword] = _untitled(value)
        else:
            kept[keyword] = value
    return kept
