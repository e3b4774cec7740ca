"""Whether what was filled in fits the form that was shown. Plain values in, problems out; nothing is converted.

A form's schema says little, so this is all of it. Both ends look: a client before it sends an answer, a server
when it gets one.

Spec: 2026-07-28, client/elicitation, "Requested Schema".

The rules of conversations with a model in which tools are used. Pure functions; no I/O, no Trio.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never
from urllib.parse import urlsplit

from .. import types
from .._codec._json import is_array
from .._codec._jsonrpc import show

FormProblem: TypeAlias = tuple[str, str]
"""The name of a field, and what is wrong with it."""

_Misfit: TypeAlias = tuple[str, str]
"""The rule that is broken, and by what."""

MAX_TOLD_OPTIONS: Final = 20
"""Options that are listed when something else was chosen."""


def form_problems(
    schema: types.RequestedSchema, content: Mapping[str, Any], *, quotes: bool = True
) -> tuple[FormProblem, ...]:
    """Say what is wrong with the content of a form, field by field. Members that are no fields are not looked at.

    Args:
        schema: The form.
        content: What was filled in, as plain JSON.
        quotes: Whether to tell what was filled in, besides the rules it breaks.
    """
    return tuple(_problems(schema, content, quotes=quotes))


def options_in(field: types.PrimitiveSchemaDefinition) -> tuple[str, ...] | None:
    """Return what a field lets the user choose from, or `None` if it is no choice."""
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


def _problems(
    schema: types.RequestedSchema, content: Mapping[str, Any], *, quotes: bool
) -> Iterator[FormProblem]:
    required = frozenset(schema.required or ())
    for name, field in schema.properties.items():
        if name in content:
            misfit = _misfit(field, content[name])
            if misfit is not None:
                yield name, ", ".join(misfit) if quotes else misfit[0]
        elif name in required:
            yield name, "is missing"


def _misfit(field: types.PrimitiveSchemaDefinition, value: Any) -> _Misfit | None:
    match field:
        case types.StringSchema():
            return _text_misfit(field, value)
        case types.NumberSchema():
            return _number_misfit(field, value)
        case types.BooleanSchema():
            return None if isinstance(value, bool) else _expected("a boolean", value)
        case types.UntitledMultiSelectEnumSchema() | types.TitledMultiSelectEnumSchema():
            return _choices_misfit(field, value)
        case (
            types.UntitledSingleSelectEnumSchema()
            | types.TitledSingleSelectEnumSchema()
            | types.LegacyTitledEnumSchema()
        ):
            options = options_in(field) or ()
            return None if isinstance(value, str) and value in options else _expected(_one_of(options), value)
        case _:
            assert_never(field)


def _expected(what: str, value: object) -> _Misfit:
    return f"expected {what}", f"got {show(value)}"


def _one_of(options: tuple[str, ...]) -> str:
    told = ", ".join(map(show, options[:MAX_TOLD_OPTIONS]))
    return f"one of {told}{', ...' if len(options) > MAX_TOLD_OPTIONS else ''}"


def _text_misfit(field: types.StringSchema, value: Any) -> _Misfit | None:
    if not isinstance(value, str):
        return _expected("a string", value)
    if field.min_length is not None and len(value) < field.min_length:
        return f"must have at least {field.min_length} characters", f"has {len(value)}"
    if field.max_length is not None and len(value) > field.max_length:
        return f"must have at most {field.max_length} characters", f"has {len(value)}"
    if field.format is not None:
        called, fits = _FORMATS[field.format]
        return None if fits(value) else _expected(called, value)
    return None


def _number_misfit(field: types.NumberSchema, value: Any) -> _Misfit | None:
    called = "an integer" if field.type == "integer" else "a number"
    is_finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    is_number = is_finite and not isinstance(value, bool)
    if not is_number or (field.type == "integer" and isinstance(value, float) and not value.is_integer()):
        return _expected(called, value)
    if field.minimum is not None and value < field.minimum:
        return f"must be at least {show(field.minimum)}", f"got {show(value)}"
    if field.maximum is not None and value > field.maximum:
        return f"must be at most {show(field.maximum)}", f"got {show(value)}"
    return None


def _choices_misfit(
    field: types.UntitledMultiSelectEnumSchema | types.TitledMultiSelectEnumSchema, value: Any
) -> _Misfit | None:
    if not is_array(value):
        return _expected("an array", value)
    if field.min_items is not None and len(value) < field.min_items:
        return f"must have at least {field.min_items} of the options", f"has {len(value)}"
    if field.max_items is not None and len(value) > field.max_items:
        return f"must have at most {field.max_items} of the options", f"has {len(value)}"
    options = options_in(field) or ()
    known = frozenset(options)
    for chosen in value:
        if not isinstance(chosen, str) or chosen not in known:
            return _expected(_one_of(options), chosen)
    return None


# Formats. What a person types is looked at for its shape, no more.

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


def blocks_of(message: types.SamplingMessage) -> Sequence[types.SamplingMessageContentBlock]:
    """Return what a message says, block by block."""
    return message.content if isinstance(message.content, Sequence) else (message.content,)


def check_tool_results(messages: Sequence[types.SamplingMessage]) -> None:
    """Check that each use of a tool is answered by its result in the message after it, and by nothing else.

    Raises:
        ValueError: It is not.

    Spec: 2025-11-25, client/sampling, "Message Content Constraints".
    """
    open_uses: list[str] = []
    for number, message in enumerate(messages):
        here = f"messages[{number}]"
        blocks = blocks_of(message)
        uses = [block.id for block in blocks if isinstance(block, types.ToolUseContent)]
        results = [block.tool_use_id for block in blocks if isinstance(block, types.ToolResultContent)]
        if uses and message.role != "assistant":
            raise ValueError(f"{here}: only the assistant uses tools")
        if results and message.role != "user":
            raise ValueError(f"{here}: only the user gives results of tools")
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
    lacking = [use for use in uses if use not in results]
    if lacking:
        return f"{here}: lacks results of tools for {', '.join(lacking)}"
    foreign = [result for result in results if result not in uses]
    if foreign:
        return f"{here}: the message before has no uses of tools {', '.join(foreign)}"
    return f"{here}: a use of a tool has two results"
