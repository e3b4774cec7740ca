"""What is wrong with data that came over the wire, said in the wire's own terms. No conversion happens here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias, final

from .._printable import printable

__all__ = ["MAX_PROBLEMS", "InvalidData", "Problem", "kind_of", "located", "show"]

MAX_PROBLEMS: Final = 10
"""How many problems are looked for. A hostile list of a million wrong items must not cost as many exceptions."""

MAX_TOLD: Final = 20_000
"""How many characters of all problems together are told."""

MAX_SHOWN: Final = 60
"""How many characters of a value or a name from the wire are shown."""

Problem: TypeAlias = tuple[str, str]
"""Where something is wrong, as ``tools[3].inputSchema``, and what is."""


@final
class InvalidData(ValueError):
    """Data is not what the specification says it must be.

    Attributes:
        problems: Where something is wrong and what is, the first ten of them. The path is in the names of the
            wire, and empty if it is the whole that is wrong.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)[:MAX_PROBLEMS]
        super().__init__(self.problems)

    def __str__(self) -> str:
        # What is not shown by `show` may repeat what was sent as it is.
        told = "; ".join(f"{path}: {reason}" if path else reason for path, reason in self.problems)
        return printable(told, MAX_TOLD)


_KINDS: Final[Mapping[type, str]] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def kind_of(value: object) -> str:
    """Say what a value is: ``a string``, ``an object``, ``null``."""
    return _KINDS.get(type(value), type(value).__name__)


def show(value: object) -> str:
    """Show a value as JSON, cut to 60 characters."""
    if type(value) in (list, dict):
        return kind_of(value)
    text = printable(json.dumps(value, ensure_ascii=False, default=repr))
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def located(where: str | int, problems: Sequence[Problem]) -> list[Problem]:
    """Say of problems in a part where they are in the whole, given the part's name or index."""
    if isinstance(where, int):
        prefix = f"[{where}]"
    elif where.isprintable() and where and not set(where) & set('.[]" '):
        prefix = where if len(where) <= MAX_SHOWN else f"{where[: MAX_SHOWN - 1]}…"
    else:
        prefix = f"[{show(where)}]"
    return [
        (f"{prefix}.{path}" if path and path[0] != "[" else prefix + path, reason) for path, reason in problems
    ]
