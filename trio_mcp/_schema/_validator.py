"""Schemas that nobody made from hints: checked and compiled, so that values can be held to them.

No reference is followed to a file or over the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, NoReturn

from ._problems import MAX_PROBLEMS, InvalidValue, place

__all__ = ["compile_schema"]


def compile_schema(schema: Mapping[str, Any]) -> Callable[[Any], None]:
    """Compile a JSON Schema, of 2020-12 unless its ``$schema`` says another draft.

    Returns:
        A function that raises `InvalidValue` for a JSON value which does not fit.

    Raises:
        ValueError: It is not a valid schema, or refers to something outside itself.
    """
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
    except jsonschema_rs.ValidationError as error:
        raise ValueError(f"not a valid JSON Schema: {error.message}") from error

    def check(value: Any) -> None:
        if not validator.is_valid(value):
            problems = islice(validator.iter_errors(value), MAX_PROBLEMS)
            raise InvalidValue((place(error.instance_path), error.message) for error in problems)

    return check


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside the schema, and nothing is fetched")
