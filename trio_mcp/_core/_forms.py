"""The rules for what elicitation and sampling carry. Plain values in, problems out; nothing is converted. No I/O.

* Whether the content of a form fits its schema. The client checks before it sends a response, the server when it
  receives one. The JSON Schema validator is not used: without jsonschema-rs it knows no `uri` and no `date-time`
  and quotes the content, which may not be sent to the other side.
* Whether each use of a tool in a conversation with a model is followed by its result.

Spec: 2026-07-28, client/elicitation, "Requested Schema"; 2025-11-25, client/sampling.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never
from urllib.parse import urlsplit

from .. import types
from .._codec._json import is_array, show
from .._codec._unstructure import blocks_of

FormProblem: TypeAlias = tuple[str, str]
"""The name of a field, and what is wrong with it."""

_Misfit: TypeAlias = tuple[str, str]
"""The rule that is broken, and what broke it."""

MAX_LISTED_OPTIONS: Final = 20
"""Options that are listed in the problem of a value that is none of them."""


def form_problems(
    schema: types.RequestedSchema, content: Mapping[str, Any], *, quotes: bool = True
) -> tuple[FormProblem, ...]:
    """Return what is wrong with the content of a form, field by field. Members without a field are ignored.

    Args:
        schema: The form.
        content: What the user filled in, as plain JSON.
        quotes: Whether a problem quotes the content, besides the rule that it breaks.
    """
    required = frozenset(schema.required or ())
    problems: list[FormProblem] = []
    for name, field in schema.properties.items():
        if name in content:
            misfit = _misfit(field, content[name])
            if misfit is not None:
                problems.append((name, ", ".join(misfit) if quotes else misfit[0]))
        elif name in required:
            problems.append((name, "is missing"))
    return tuple(problems)


def options_in(field: types.PrimitiveSchemaDefinition) -> tuple[str, ...] | None:
    """Return the options of a field, or `None` if the field is not a choice."""
    match field:
        case types.UntitledSingleSelectEnumSchema() | types.LegacyTitledEnumSchema():
            return tuple(field.enum)
        case types.TitledSingleSelectEnumSchema():
            return tuple(option.const for option in field.one_of)
        case types.UntitledMultiSelectEnumSchema():
            return tuple(field.items.enum)
        case types.TitledMultiSelectEnumSchema():
            return tuple(option.const for option in field.items.any_of)
        case types.StringSchema() | types.NumberSchema() | types.BooleanSchema():
            return None
        case _:
            assert_never(field)


def _misfit(field: types.PrimitiveSchemaDefinition, value: Any) -> _Misfit | None:
    match field:
        case types.StringSchema():
            if not isinstance(value, str):
                return _expected("a string", value)
            if wrong := _size_misfit(len(value), field.min_length, field.max_length, "characters"):
                return wrong
            name, fits = _FORMATS[field.format] if field.format is not None else ("", None)
            return None if fits is None or fits(value) else _expected(name, value)
        case types.NumberSchema():
            return _number_misfit(field, value)
        case types.BooleanSchema():
            return None if isinstance(value, bool) else _expected("a boolean", value)
        case types.UntitledMultiSelectEnumSchema() | types.TitledMultiSelectEnumSchema():
            if not is_array(value):
                return _expected("an array", value)
            wrong = _size_misfit(len(value), field.min_items, field.max_items, "of the options")
            return wrong or _choice_misfit(field, value)
        case (
            types.UntitledSingleSelectEnumSchema()
            | types.TitledSingleSelectEnumSchema()
            | types.LegacyTitledEnumSchema()
        ):
            return _choice_misfit(field, (value,))
        case _:
            assert_never(field)


def _expected(what: str, value: object) -> _Misfit:
    return f"expected {what}", f"got {show(value)}"


def _size_misfit(size: int, least: int | None, most: int | None, what: str) -> _Misfit | None:
    if least is not None and size < least:
        return f"must have at least {least} {what}", f"has {size}"
    if most is not None and size > most:
        return f"must have at most {most} {what}", f"has {size}"
    return None


def _number_misfit(field: types.NumberSchema, value: Any) -> _Misfit | None:
    is_integer = field.type == "integer"
    is_finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    is_number = is_finite and not isinstance(value, bool)
    if not is_number or (is_integer and isinstance(value, float) and not value.is_integer()):
        return _expected("an integer" if is_integer else "a number", value)
    if field.minimum is not None and value < field.minimum:
        return f"must be at least {show(field.minimum)}", f"got {show(value)}"
    if field.maximum is not None and value > field.maximum:
        return f"must be at most {show(field.maximum)}", f"got {show(value)}"
    return None


def _choice_misfit(field: types.PrimitiveSchemaDefinition, values: Sequence[Any]) -> _Misfit | None:
    options = options_in(field) or ()
    known = frozenset(options)  # a form may have many options and an answer may choose many
    for value in values:
        if not isinstance(value, str) or value not in known:
            listed = ", ".join(map(show, options[:MAX_LISTED_OPTIONS]))
            more = ", ..." if len(options) > MAX_LISTED_OPTIONS else ""
            return _expected(f"one of {listed}{more}", value)
    return None


# Formats. Only the shape of what a user typed is checked.

_EMAIL: Final = re.compile(r"[^\s@]{1,64}@[^\s@.]+(?:\.[^\s@.]+)*")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
MAX_EMAIL: Final = 320
"""Characters of an address: 64, an at sign and 255 (RFC 5321, section 4.5.3.1)."""


def _is_email(text: str) -> bool:
    return len(text) <= MAX_EMAIL and _EMAIL.fullmatch(text) is not None


def _is_uri(text: str) -> bool:
    if not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path))


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _parses(dt.date.fromisoformat, text)


def _is_date_time(text: str) -> bool:
    return _DATE_TIME.fullmatch(text) is not None and _parses(dt.datetime.fromisoformat, text.upper())


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


_FORMATS: Final[Mapping[str, tuple[str, Callable[[str], bool]]]] = {
    "email": ("an email address", _is_email),
    "uri": ("a URI", _is_uri),
    "date": ("a date such as 2026-07-28", _is_date),
    "date-time": ("a date and time such as 2026-07-28T12:30:00Z", _is_date_time),
}


def check_tool_results(messages: Sequence[types.SamplingMessage]) -> None:
    """Check that each use of a tool has its result in the message after it, and that message holds nothing else.

    Raises:
        ValueError: A result is missing, is not expected or has other content beside it, or a role is wrong.

    Spec: 2025-11-25, client/sampling, "Message Content Constraints".
    """
    open_uses: list[str] = []
    for number, message in enumerate(messages):
        here = f"messages[{number}]"
        blocks = blocks_of(message)
        uses = [block.id for block in blocks if isinstance(block, types.ToolUseContent)]
        results = [block.tool_use_id for block in blocks if isinstance(block, types.ToolResultContent)]
        if uses and message.role != "assistant":
            raise ValueError(f"{here}: only messages of the assistant may use tools")
        if results and message.role != "user":
            raise ValueError(f"{here}: only messages of the user may hold results of tools")
        if results and len(results) < len(blocks):
            raise ValueError(f"{here}: results of tools are mixed with other content")
        if sorted(results) != sorted(open_uses):
            raise ValueError(_mismatch(here, open_uses, results))
        if len(set(uses)) < len(uses):
            raise ValueError(f"{here}: two uses of tools have the same id")
        open_uses = uses
    if open_uses:
        raise ValueError(f"messages[{len(messages) - 1}]: no results follow for {', '.join(open_uses)}")


def _mismatch(here: str, uses: Sequence[str], results: Sequence[str]) -> str:
    used, answered = frozenset(uses), frozenset(results)  # there may be many of them
    lacking = [use for use in uses if use not in answered]
    if lacking:
        return f"{here}: results are missing for tool uses {', '.join(lacking)}"
    foreign = [result for result in results if result not in used]
    if foreign:
        return f"{here}: the message before has no tool uses {', '.join(foreign)}"
    return f"{here}: a use of a tool has two results"
