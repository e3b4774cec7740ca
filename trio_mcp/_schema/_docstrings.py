"""Docstrings in the three usual styles (Google, NumPy, reST) read into plain text.

Nothing here knows of types or schemas. Odd text is never an error: what is not understood is description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, final

import attrs

# Sections that explain the members of a signature or class. If a member occurs twice, the first counts.
_MEMBER_SECTIONS: Final = frozenset(
    {
        "args",
        "arguments",
        "attributes",
        "fields",
        "keyword args",
        "keyword arguments",
        "members",
        "other parameters",
        "parameters",
        "params",
    }
)
_RETURNS_SECTIONS: Final = frozenset({"return", "returns"})
# Sections for Python programmers, not for callers of a tool. Prose sections (Note, Example, Warning) are not
# listed: they stay where they are in the description.
_DROPPED_SECTIONS: Final = frozenset(
    {"raises", "receives", "references", "see also", "todo", "warns", "yield", "yields"}
)
_SECTIONS: Final = _MEMBER_SECTIONS | _RETURNS_SECTIONS | _DROPPED_SECTIONS

_MEMBER_FIELDS: Final = frozenset(
    {"arg", "argument", "attribute", "cvar", "ivar", "key", "keyword", "param", "parameter", "var"}
)
_RETURNS_FIELDS: Final = frozenset({"return", "returns"})
_DROPPED_FIELDS: Final = frozenset(
    {"except", "exception", "meta", "raise", "raises", "rtype", "type", "vartype", "yield", "yields"}
)
_FIELDS: Final = _MEMBER_FIELDS | _RETURNS_FIELDS | _DROPPED_FIELDS

# Patterns are compiled when the first docstring is read, not when the module is imported. None of them tries more
# than a few ways to read a line.
_GOOGLE_ENTRY: Final = r"\*{0,2}(\w[\w.-]*)\s*(?:\(.*?\)\s*)?:(?:\s+(.*)|$)"
_NUMPY_UNDERLINE: Final = r"\s*(?:-{3,}|={3,})\s*"
_NUMPY_ENTRY: Final = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?"
_REST_FIELD: Final = r"\s*:(\w+)(?:\s++([^:]*+))?:(?:\s+(.*)|$)"
# `bool`, `list[str]`, `str | None` before the colon of a returns text. What is between the first bracket and the
# last one is not looked at.
_NAMES: Final = r"(?:\s*+\|\s*+[\w.]++)*+"
_RETURNED_TYPE: Final = rf"(?s:[A-Za-z_][\w.]*+{_NAMES}(?:\[.*\]{_NAMES})?)"
_LIST_ITEM: Final = r"(?:[-*+•]|\d+[.)])\s"


@final
@attrs.frozen
class Docstring:
    """The parts of a docstring.

    Attributes:
        summary: The whole description, without the sections about arguments, results and errors.
        arguments: Descriptions of arguments or attributes by name, without the asterisks.
        returns: The description of the result, or `None`.
    """

    summary: str = ""
    arguments: Mapping[str, str] = MappingProxyType({})
    returns: str | None = None

    @property
    def first_paragraph(self) -> str:
        """The summary up to the first empty line, on one line."""
        return " ".join(self.summary.split("\n\n", 1)[0].split())


def parse_docstring(text: str | None) -> Docstring:
    """Read a docstring of any style. Never raises.

    Args:
        text: The docstring as written, indented or not.
    """
    reader = _Reader(inspect.cleandoc(text or "").splitlines())
    reader.read()
    summary = re.sub(r"\n{3,}", "\n\n", "\n".join(reader.prose)).strip()
    return Docstring(summary, MappingProxyType(reader.arguments), reader.returns)


class _Reader:
    """One pass over the lines; each line goes to the section it belongs to, or to the prose."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = [line.rstrip() for line in lines]
        self.prose: list[str] = []
        self.arguments: dict[str, str] = {}
        self.returns: str | None = None

    def read(self) -> None:
        at = 0
        while at < len(self._lines):
            at = self._numpy_section(at) or self._google_section(at) or self._rest_field(at) or self._keep(at)

    # Each of these returns the line after what it took, or 0 if the line is not the start of its kind.

    def _keep(self, at: int) -> int:
        self.prose.append(self._lines[at])
        return at + 1

    def _numpy_section(self, at: int) -> int:
        title = self._lines[at].strip().lower()
        if title not in _SECTIONS or not self._is_underline(at + 1):
            return 0
        end = start = at + 2
        while end < len(self._lines) and not self._is_underline(end + 1) and not self._is_prose_again(start, end):
            end += 1
        body = self._lines[start:end]
        if title in _MEMBER_SECTIONS:
            for names, lines in _numpy_entries(body):
                for name in names.split(","):
                    self._tell(name.strip().lstrip("*"), _prose(lines))
        elif title in _RETURNS_SECTIONS:
            entries = _numpy_entries(body)
            text = [line for _, lines in entries for line in lines]
            self._set_returns(_prose(text) or _prose(body))
        return end

    def _google_section(self, at: int) -> int:
        title = _title_of(self._lines[at])
        if title is None:
            return 0
        end = self._indented_end(at)
        if end == at + 1:
            # Nothing below is indented: take the lines up to the next empty one if they look like entries.
            if title in _RETURNS_SECTIONS or end >= len(self._lines) or not self._is_entry(end):
                return 0
            while end < len(self._lines) and self._lines[end] and not self._is_header(end):
                end += 1
        body = self._lines[at + 1 : end]
        if title in _MEMBER_SECTIONS:
            for name, lines in _google_entries(body):
                self._tell(name, _prose(lines))
        elif title in _RETURNS_SECTIONS:
            self._set_returns(_without_type(_prose(body)))
        return end

    def _rest_field(self, at: int) -> int:
        field = re.fullmatch(_REST_FIELD, self._lines[at])
        if field is None or field[1] not in _FIELDS:
            return 0
        end = at + 1
        while end < len(self._lines) and self._lines[end] and not re.fullmatch(_REST_FIELD, self._lines[end]):
            end += 1
        end = max(end, self._indented_end(at))
        text = _prose([field[3] or "", *self._lines[at + 1 : end]])
        words = (field[2] or "").split()
        if field[1] in _MEMBER_FIELDS and words:
            self._tell(words[-1].lstrip("*"), text)  # `:param int copies:` names the type first
        elif field[1] in _RETURNS_FIELDS:
            self._set_returns(text)
        return end

    def _tell(self, name: str, text: str) -> None:
        if text:
            self.arguments.setdefault(name, text)

    def _set_returns(self, text: str) -> None:
        if text and self.returns is None:
            self.returns = text

    def _is_header(self, at: int) -> bool:
        return _title_of(self._lines[at]) is not None

    def _is_entry(self, at: int) -> bool:
        return re.fullmatch(_GOOGLE_ENTRY, self._lines[at].strip()) is not None and not self._is_header(at)

    def _is_underline(self, at: int) -> bool:
        return at < len(self._lines) and re.fullmatch(_NUMPY_UNDERLINE, self._lines[at]) is not None

    def _is_prose_again(self, start: int, at: int) -> bool:
        """Whether a NumPy section ends here because of a paragraph that is neither entry nor indented."""
        line = self._lines[at]
        if at == start or self._lines[at - 1] or not line or _indent(line) > _indent(self._lines[start]):
            return False
        return self._indented_end(at) == at + 1 and re.fullmatch(_NUMPY_ENTRY, line.strip()) is None

    def _indented_end(self, at: int) -> int:
        """Return the line after the last one that is indented deeper than the line `at`."""
        depth = _indent(self._lines[at])
        end = at + 1
        for here in range(at + 1, len(self._lines)):
            if self._lines[here]:
                if _indent(self._lines[here]) <= depth:
                    break
                end = here + 1
        return end


def _title_of(line: str) -> str | None:
    """Return the title of the section in Google's style that a line begins; `None` if it begins none."""
    text = line.strip()
    title = " ".join(text[:-1].lower().split()) if text.endswith(":") else ""
    return title if title in _SECTIONS else None


def _without_type(text: str) -> str:
    """Return a returns text without the type in front of it."""
    kind, _, rest = text.partition(":")
    return rest.lstrip() if rest[:1].isspace() and re.fullmatch(_RETURNED_TYPE, kind) else text


def _google_entries(body: list[str]) -> list[tuple[str, list[str]]]:
    entries: list[tuple[str, list[str]]] = []
    depth = 0
    for line in body:
        entry = re.fullmatch(_GOOGLE_ENTRY, line.strip())
        if entry is not None and (not entries or _indent(line) <= depth):
            depth = _indent(line)
            entries.append((entry[1], [entry[2] or ""]))
        elif entries:
            entries[-1][1].append(line)
    return entries


def _numpy_entries(body: list[str]) -> list[tuple[str, list[str]]]:
    entries: list[tuple[str, list[str]]] = []
    depth = _indent(body[0]) if body else 0
    for line in body:
        if line and _indent(line) <= depth:
            entry = re.fullmatch(_NUMPY_ENTRY, line.strip())
            entries.append((entry[1] if entry else "", []))
        elif entries:
            entries[-1][1].append(line)
    return entries


def _prose(lines: list[str]) -> str:
    """Join wrapped lines into paragraphs; empty lines and list items keep their line of their own."""
    text = ""
    gap = ""
    for line in map(str.strip, lines):
        if not line:
            gap = "\n\n" if text else ""
        else:
            text += (gap or "\n" if re.match(_LIST_ITEM, line) else gap or " ") + line if text else line
            gap = ""
    return text


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
