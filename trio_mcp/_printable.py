r"""Untrusted text, made safe for a log, an error message and a terminal. No I/O.

A path, a message, the name of a tool or the output of a child process can contain line breaks that forge a line
of the log, escape sequences that a terminal obeys, and marks that reverse the direction of text. Characters that
are not printable are escaped as in a string of Python: ``\n``, ``\x1b``, ``\u202e``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MAX_PRINTED: Final = 2_000
"""The longest text that is shown as a whole, in characters: some lines of a terminal."""

MAX_LINES: Final = 200
"""The number of lines of a text that are shown."""


def printable(text: str, limit: int = MAX_PRINTED) -> str:
    """Return a text as one line of printable characters, cut with an ellipsis if it is too long.

    Args:
        text: The untrusted text.
        limit: The most characters of the result, without the ellipsis.
    """
    shown = text[:limit]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return shown if len(shown) <= limit and len(text) <= limit else f"{shown[:limit]}…"


def shown(value: object, spelled: Callable[[object], str] = repr) -> str:
    """Return an untrusted value as one printable line. Does not raise.

    Of a value that Python cannot format, such as a deeply nested list or a number of thousands of digits, it is
    the type.

    Args:
        value: The value.
        spelled: What makes it a text: `repr` or `str`.
    """
    try:
        return printable(spelled(value))
    except Exception:  # an error in the value's own code must not become one of the code that reports it
        return f"<{type(value).__name__}, which cannot be shown>"


def printable_lines(text: str, indent: str = "    ") -> str:
    """Return a text of several lines, each of them printable; those after the first are indented.

    So none of them looks like the beginning of another record. Of more than `MAX_LINES`, those in the middle are
    left out.

    Args:
        text: The untrusted text.
        indent: The beginning of the lines after the first.
    """
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        lines[MAX_LINES // 2 : -MAX_LINES // 2] = [f"… {len(lines) - MAX_LINES} lines are left out …"]
    return f"\n{indent}".join(map(printable, lines))
