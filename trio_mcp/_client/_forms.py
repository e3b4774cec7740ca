"""What is sent for what a user filled in. Plain functions over values; the rules themselves are `_core._forms`.

Spec: 2026-07-28, client/elicitation, "Requested Schema".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from .._codec._json import is_array
from .._core._forms import form_problems
from .._errors import LocalProtocolError
from ..types import (
    ElicitValue,
    NumberSchema,
    PrimitiveSchemaDefinition,
    RequestedSchema,
    TitledMultiSelectEnumSchema,
    UntitledMultiSelectEnumSchema,
)

__all__ = ["fill_in"]


def fill_in(content: Mapping[str, object], schema: RequestedSchema) -> dict[str, ElicitValue]:
    """Return what is sent for what was filled in: checked, with the defaults of fields that were left empty.

    `None` is the same as left empty; several choices may be in a set.

    Raises:
        LocalProtocolError: It does not fit. The message names the field and the rule, never what was filled in,
            which is not for logs.
    """
    filled: dict[str, Any] = {}
    for name, field in schema.properties.items():
        value = content.get(name)
        if value is None:
            value = field.default
        if value is not None:
            filled[name] = _plain(value, field)
    problems = [(name, "the form has no such field") for name in content if name not in schema.properties]
    problems += form_problems(schema, filled, quotes=False)
    if problems:
        told = "; ".join(f"{name}: {problem}" for name, problem in problems)
        raise LocalProtocolError(f"the answer does not fit the form: {told}")
    return {name: tuple(value) if is_array(value) else value for name, value in filled.items()}


def _plain(value: object, field: PrimitiveSchemaDefinition) -> object:
    """Return a value as plain JSON has it, if it is of a kind that the field takes."""
    match field:
        case UntitledMultiSelectEnumSchema() | TitledMultiSelectEnumSchema():
            if isinstance(value, (list, tuple, set, frozenset)):
                return list(cast("Iterable[object]", value))
            return value
        case NumberSchema(type="integer") if isinstance(value, float) and value.is_integer():
            return int(value)
        case _:
            return value
