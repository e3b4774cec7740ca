"""What is wrong with a value, and where: the one exception of this package and how it is worded.

Paths and reasons are in wire terms (``orders[2].title``, "expected an integer"), because a model or a person
on the other side reads them. No conversion happens here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final, final

from .._printable import printable

__all__ = ["InvalidValue", "Problem", "Problems", "expected", "place", "problem", "shown"]

MAX_PROBLEMS: Final = 10
"""Problems that are told at once; a value with more of them is not looked at further."""

MAX_SHOWN: Final = 60
"""Characters of a value, or of a member's name, that are repeated to whoever sent it."""

MAX_TOLD: Final = 20_000
"""Characters of all problems together."""

MAX_SHOWN_BITS: Final = 200
"""Python refuses to print enormous integers, and nobody wants to read them."""

Problem = tuple[str, str]
"""A path and a reason. The path of the value itself is empty."""

_PLAIN_NAME: Final = r"[A-Za-z0-9_$-]{1,60}"


@final
class InvalidValue(ValueError):
    """A value does not fit its type.

    Attributes:
        problems: Pairs of path and reason, at most 10, in the order in which they were found. A path reads
            ``orders[2].title``; it is empty for the value as a whole.
    """

    problems: tuple[Problem, ...]

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)[:MAX_PROBLEMS]
        super().__init__(self.problems)

    def __str__(self) -> str:
        # The words of a validator repeat what was sent.
        told = printable(
            "; ".join(f"{path}: {reason}" if path else reason for path, reason in self.problems), MAX_TOLD
        )
        return f"{told}; and perhaps more" if len(self.problems) == MAX_PROBLEMS else told


@final
class Problems:
    """The problems of an array or object, gathered from its parts while it is being converted."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, step: str | int, error: InvalidValue) -> None:
        """Take over a part's problems.

        Args:
            step: The part: a member's name or an item's index.
            error: What the part's conversion raised.

        Raises:
            InvalidValue: There are as many problems now as may be told.
        """
        self._found += [(_joined(_step(step), path), reason) for path, reason in error.problems]
        if len(self._found) >= MAX_PROBLEMS:
            raise InvalidValue(self._found) from None

    def raise_any(self) -> None:
        """Raise `InvalidValue` if there is a problem."""
        if self._found:
            raise InvalidValue(self._found) from None


def problem(reason: str) -> InvalidValue:
    """Return the error for a value that is wrong as a whole."""
    return InvalidValue([("", reason)])


def expected(noun: str, value: object) -> InvalidValue:
    """Return the error for a value of the wrong kind, for example ``expected an integer, got "5"``."""
    return problem(f"expected {noun}, got {shown(value)}")


def shown(value: object) -> str:
    """Return a short text for a value: JSON for scalars, the kind for everything else."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            bits = value.bit_length()
            return f"an integer of {bits} bits" if bits > MAX_SHOWN_BITS else int.__repr__(value)
        case float():
            return float.__repr__(value)
        case str():
            cut = value if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]}…"
            # JSON itself escapes some of what is not printable, and leaves the rest as it is.
            return printable(json.dumps(cut, ensure_ascii=False))
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return f"a Python object of type {type(value).__qualname__}"


def place(steps: Sequence[str | int]) -> str:
    """Return the path that leads over these members and items."""
    path = ""
    for step in reversed(steps):
        path = _joined(_step(step), path)
    return path


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return step if re.fullmatch(_PLAIN_NAME, step) else f"[{shown(step)}]"


def _joined(step: str, path: str) -> str:
    if not path:
        return step
    return f"{step}{path}" if path.startswith("[") else f"{step}.{path}"
