"""Which values of a template's variables may be handed to a function that takes them for a part of a path.

A variable is decoded before it is handed over, so ``file:///logs/{name}`` would give ``../../etc/passwd`` to who
opens files by it. What is refused here is nobody's name of a thing, on any system:

* a NUL, and ``..`` as a part between separators: a slash or a backslash;
* a separator at the beginning, a drive of Windows with a separator behind it (on Windows: any drive), and an
  empty part before others in a list, which joins to the same;
* a separator anywhere, in a variable that the template ends at a slash: it can only be there encoded.

The same, hidden under one more encoding: a function that decodes what it is given would find it. Plain functions
over text; what is done about it is not known here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final, final
from urllib.parse import unquote

import attrs

__all__ = ["VariableRule"]

MAX_ENCODINGS: Final = 4
"""How many encodings within each other are looked through. Honest values have none left."""

_SEPARATOR: Final = re.compile(r"[/\\]")
# Windows drops dots and blanks at the end of a name.
_UP: Final = re.compile(r"\.\.[. ]*")
_DRIVE: Final = re.compile(r"[A-Za-z]:[/\\]")
_ANY_DRIVE: Final = re.compile(r"[A-Za-z]:")


@final
@attrs.frozen(kw_only=True)
class VariableRule:
    """What the variables of a template may be.

    Attributes:
        with_slashes: Those that may contain a slash, as ``{+x}``, ``{#x}`` and the pairs of a query may.
        unsafe: Those that are not looked at.
        windows: Whether paths are those of Windows.
    """

    with_slashes: frozenset[str]
    unsafe: frozenset[str] = frozenset()
    windows: bool = os.name == "nt"

    def check(self, values: Mapping[str, str | Sequence[str]]) -> None:
        """Check the variables that were found in a URI.

        Raises:
            ValueError: One may be no name but a way to somewhere else. The message names the variable.
        """
        for name, value in values.items():
            if name in self.unsafe:
                continue
            problem = self._problem(value, may_have_slashes=name in self.with_slashes)
            if problem is not None:
                raise ValueError(f"the variable {name} {problem}")

    def _problem(self, value: str | Sequence[str], *, may_have_slashes: bool) -> str | None:
        if isinstance(value, str):
            return self._problem_of_text(value, may_have_slashes=may_have_slashes)
        if len(value) > 1 and not value[0]:
            return "begins with an empty part"
        problems = (self._problem_of_text(part, may_have_slashes=may_have_slashes) for part in value)
        return next((problem for problem in problems if problem is not None), None)

    def _problem_of_text(self, text: str, *, may_have_slashes: bool) -> str | None:
        for _ in range(MAX_ENCODINGS):
            parts = _SEPARATOR.split(text)
            if "\0" in text:
                return "contains a NUL"
            if any(map(_UP.fullmatch, parts)):
                return "contains .. as a part of a path"
            if len(parts) > 1 and not parts[0]:
                return "begins with a slash or a backslash"
            if (_ANY_DRIVE if self.windows else _DRIVE).match(text) is not None:
                return "begins with a drive"
            if len(parts) > 1 and not may_have_slashes:
                return "contains a slash or a backslash"
            decoded = unquote(text) if "%" in text else text
            if decoded == text:
                return None
            text = decoded
        return "is encoded too many times"
