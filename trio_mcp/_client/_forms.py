"""Whether what a user filled in fits the form a server asked for. Plain functions over values.

The schema of a form is a small part of JSON Schema that has classes of its own, so no validator is needed.
Spec: 2026-07-28, client/elicitation, "Requested Schema".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, assert_never, cast
from urllib.parse import urlsplit

from .._errors import LocalProtocolError
from ..types import (
    BooleanSchema,
    ElicitValue,
    LegacyTitledEnumSchema,
    NumberSchema,
    PrimitiveSchemaDefinition,
    RequestedSchema,
    StringSchema,
    TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema,
    UntitledMultiSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
)

__all__ = ["fill_in"]

_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.?[^@\s]*")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATE_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")


def fill_in(content: Mapping[str, object], schema: RequestedSchema) -> dict[str, ElicitValue]:
    """Return what is sent for what was filled in: checked, with the defaults of fields that were left empty.

    `None` is the same as left empty.

    Raises:
        LocalProtocolError: It does not fit. The message names the field and the rule, never what was filled in,
            which is not for logs.
    """
    problems = [f"{name}: the form has no such field" for name in content if name not in schema.properties]
    filled: dict[str, ElicitValue] = {}
    for name, field in schema.properties.items():
        value = content.get(name)
        if value is None:
            value = field.default
        if value is None:
            if name in (schema.required or ()):
                problems.append(f"{name}: is required")
            continue
        try:
            filled[name] = _checked(value, field)
        except ValueError as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise LocalProtocolError(f"the answer does not fit the form: {'; '.join(problems)}")
    return filled


def _checked(value: object, field: PrimitiveSchemaDefinition) -> ElicitValue:
    match field:
        case StringSchema():
            return _text(value, field)
        case NumberSchema():
            return _number(value, field)
        case BooleanSchema():
            if not isinstance(value, bool):
                raise ValueError("must be true or false")
            return value
        case UntitledSingleSelectEnumSchema() | LegacyTitledEnumSchema():
            return _choice(value, field.enum)
        case TitledSingleSelectEnumSchema():
            return _choice(value, [option.const for option in field.one_of])
        case UntitledMultiSelectEnumSchema():
            return _choices(value, field.items.enum, field)
        case TitledMultiSelectEnumSchema():
            return _choices(value, [option.const for option in field.items.any_of], field)
        case _:
            assert_never(field)


def _text(value: object, field: StringSchema) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    if field.min_length is not None and len(value) < field.min_length:
        raise ValueError(f"must have at least {field.min_length} characters")
    if field.max_length is not None and len(value) > field.max_length:
        raise ValueError(f"must have at most {field.max_length} characters")
    if field.format is not None and not _has_format(value, field.format):
        raise ValueError(f"must be of the format {field.format}")
    return value


def _has_format(value: str, format: str) -> bool:
    try:
        if format == "email":
            return _EMAIL.fullmatch(value) is not None
        if format == "uri":
            return bool(urlsplit(value).scheme) and not re.search(r"\s", value)
        if format == "date":
            return bool(_DATE.fullmatch(value) and date.fromisoformat(value))
        return bool(_DATE_TIME.fullmatch(value) and datetime.fromisoformat(value.upper()))
    except ValueError:
        return False


def _number(value: object, field: NumberSchema) -> int | float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError("must be a number")
    if field.type == "integer" and isinstance(value, float):
        if not value.is_integer():
            raise ValueError("must be a whole number")
        value = int(value)
    if field.minimum is not None and value < field.minimum:
        raise ValueError(f"must be at least {field.minimum}")
    if field.maximum is not None and value > field.maximum:
        raise ValueError(f"must be at most {field.maximum}")
    return value


def _choice(value: object, allowed: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError("must be one of the values to choose from")
    return value


def _choices(
    value: object, allowed: Sequence[str], field: UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema
) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise ValueError("must be a list of values")
    chosen = tuple(_choice(one, allowed) for one in cast("Sequence[Any]", value))
    if field.min_items is not None and len(chosen) < field.min_items:
        raise ValueError(f"must have at least {field.min_items} values")
    if field.max_items is not None and len(chosen) > field.max_items:
        raise ValueError(f"must have at most {field.max_items} values")
    return chosen
