"""The assertions of JSON Schema that a converter enforces: each keyword with its limit becomes a check.

The checks look at JSON values and mean what JSON Schema means: `minimum` says nothing about a string. Which
keyword a Python bound becomes is decided by who reads the hints.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any, Final

from ._plain import have_colliding_hashes, is_array, same_key
from ._problems import InvalidValue, shown

__all__ = ["ASSERTIONS", "Check", "bound_check", "keyword_checks", "refuse"]

Check = Callable[[Any], str | None]
"""Looks at a value and returns what is wrong with it, or `None`."""


def keyword_checks(keywords: Mapping[str, object]) -> list[Check]:
    """Return a check for each keyword that is an assertion; other keywords are for the reader.

    Raises:
        ValueError: A limit is not one, or a pattern is not a regular expression.
    """
    return [ASSERTIONS[keyword](limit) for keyword, limit in keywords.items() if keyword in ASSERTIONS]


def bound_check(bound: str, limit: Any, said: str) -> Check:
    """Return the check of a bound that JSON Schema cannot express, on a Python value (dates, decimals, bytes).

    Args:
        bound: `ge`, `gt`, `le`, `lt`, `multiple_of`, `min_length` or `max_length`.
        limit: What to compare with.
        said: The limit as the error message has it.
    """
    holds, wording = _PYTHON_BOUNDS[bound]

    def check(value: Any) -> str | None:
        try:
            return None if holds(value, limit) else wording.format(said)
        except TypeError:  # a time with an offset against one without
            return f"cannot be compared with {said}"
        except ArithmeticError:  # a decimal divided by one that is smaller by more digits than are kept
            return f"has too many digits to be compared with {said}"

    return check


def refuse(checks: Iterable[Check], value: object) -> None:
    """Raise `InvalidValue` with every reason that the checks find."""
    broken = [("", reason) for check in checks if (reason := check(value)) is not None]
    if broken:
        raise InvalidValue(broken)


def _number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _comparison(holds: Callable[[Any, Any], bool], wording: str) -> Callable[[Any], Check]:
    def compile_check(limit: Any) -> Check:
        if not _number(limit):
            raise ValueError(f"{shown(limit)} is not a number")
        reason = wording.format(shown(limit))

        def check(value: Any) -> str | None:
            if not _number(value) or holds(value, limit):
                return None
            return f"{reason}, got {shown(value)}"

        return check

    return compile_check


def _size(
    kind: type[Sized], holds: Callable[[int, int], bool], wording: str, unit: str
) -> Callable[[Any], Check]:
    def compile_check(limit: Any) -> Check:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
            raise ValueError(f"{shown(limit)} is not a length")
        reason = f"must have {wording} {limit} {unit if limit == 1 else _PLURALS[unit]}"

        def check(value: Any) -> str | None:
            if not isinstance(value, kind) or holds(len(value), limit):
                return None
            return f"{reason}, has {len(value)}"

        return check

    return compile_check


_PLURALS: Final = {"character": "characters", "item": "items", "member": "members"}


def _pattern(limit: Any) -> Check:
    try:
        search = re.compile(_ecma(limit), re.ASCII).search
    except (re.error, TypeError) as error:
        raise ValueError(f"{shown(limit)} is not a regular expression: {error}") from error

    def check(value: Any) -> str | None:
        if not isinstance(value, str) or search(value):
            return None
        return f"must match {limit}, got {shown(value)}"

    return check


def _ecma(pattern: str) -> str:
    r"""Return the pattern with each `$` outside of a class turned into `\Z`.

    JSON Schema means ECMA-262's `$`, which is the very end; Python's also matches before a last line feed.
    """
    return re.sub(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|\$", lambda m: m[1] or r"\Z", pattern, flags=re.DOTALL)


def _multiple_of(limit: Any) -> Check:
    if not _number(limit) or not limit > 0:
        raise ValueError(f"{shown(limit)} is not a number above 0")
    from fractions import Fraction  # used by few

    # Decimal fractions, as written: 0.3 is a multiple of 0.1 although the nearest binary fractions are not.
    divisor = limit if isinstance(limit, int) else Fraction(str(limit))

    def check(value: Any) -> str | None:
        if not _number(value):
            return None
        exact = value if isinstance(value, int) else Fraction(str(value))
        return f"must be a multiple of {limit}, got {shown(value)}" if exact % divisor else None

    return check


def _unique_items(limit: Any) -> Check:
    def check(value: Any) -> str | None:
        if limit is not True or not is_array(value):
            return None
        keys = list(map(same_key, value))
        if have_colliding_hashes(keys):
            return "contains too many items that Python's tables cannot tell apart"
        return "must not contain the same item twice" if len(set(keys)) < len(keys) else None

    return check


ASSERTIONS: Final[Mapping[str, Callable[[Any], Check]]] = {
    "minimum": _comparison(operator.ge, "must be at least {}"),
    "exclusiveMinimum": _comparison(operator.gt, "must be greater than {}"),
    "maximum": _comparison(operator.le, "must be at most {}"),
    "exclusiveMaximum": _comparison(operator.lt, "must be less than {}"),
    "multipleOf": _multiple_of,
    "minLength": _size(str, operator.ge, "at least", "character"),
    "maxLength": _size(str, operator.le, "at most", "character"),
    "pattern": _pattern,
    "minItems": _size(list, operator.ge, "at least", "item"),
    "maxItems": _size(list, operator.le, "at most", "item"),
    "uniqueItems": _unique_items,
    "minProperties": _size(dict, operator.ge, "at least", "member"),
    "maxProperties": _size(dict, operator.le, "at most", "member"),
}
"""Keywords that are enforced, each with what turns its limit into a check."""

_PYTHON_BOUNDS: Final[Mapping[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "ge": (operator.ge, "must be at least {}"),
    "gt": (operator.gt, "must be greater than {}"),
    "le": (operator.le, "must be at most {}"),
    "lt": (operator.lt, "must be less than {}"),
    "multiple_of": (lambda value, divisor: not value % divisor, "must be a multiple of {}"),
    "min_length": (lambda value, limit: len(value) >= limit, "must be at least {} bytes long"),
    "max_length": (lambda value, limit: len(value) <= limit, "must be at most {} bytes long"),
}
