r"""Text that somebody else wrote, made fit for a log, an error message and a terminal. No I/O.

A path, a message, the name of a tool or what a child process writes can hold line breaks that forge a line of the
log, escape sequences that a terminal obeys, and marks that turn the direction of what is read. Whatever is no
printable character is shown as Python would spell it in a string: ``\n``, ``\x1b``, ``\u202e``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MAX_PRINTED: Final = 2_000
"""The longest text that is shown whole, in characters: some lines of a terminal."""

MAX_LINES: Final = 200
"""How many lines of a text are shown."""


def printable(text: str, limit: int = MAX_PRINTED) -> str:
    """Return a text as one line of printable characters, cut with an ellipsis if it is too long.

    Args:
        text: What somebody else wrote.
        limit: How many characters are shown at most, in characters of the result.
    """
    shown = text[:limit]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return shown if len(shown) <= limit and len(text) <= limit else f"{shown[:limit]}…"


def shown(value: object, spelled: Callable[[object], str] = repr) -> str:
    """Return a value of others as one printable line, whatever Python makes of it.

    What is nested too deeply, and a number of thousands of digits, cannot be spelled.

    Args:
        value: What somebody else sent.
        spelled: How a text is made of it: `repr` or `str`.
    """
    try:
        return printable(spelled(value))
    except Exception:  # its own mistake, which must not become one of whoever reports it
        return f"<{type(value).__name__}, which cannot be shown>"


def printable_lines(text: str, indent: str = "    ") -> str:
    """Return a text of several lines, each of them printable; those after the first are indented.

    So none of them can be taken for the beginning of something else. Of very many, those in the middle are left
    out.

    Args:
        text: What somebody else wrote.
        indent: What the lines after the first begin with.
    """
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        lines[MAX_LINES // 2 : -MAX_LINES // 2] = [f"… {len(lines) - MAX_LINES} lines are left out …"]
    return f"\n{indent}".join(map(printable, lines))
