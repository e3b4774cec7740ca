"""How things look on a terminal: untrusted text, JSON, columns, types. Plain functions, no I/O.

What a server says may hold escape sequences that a terminal obeys, and marks that reverse the direction of text.
All of it is escaped here: outside JSON as in a string of Python, in JSON as JSON does.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from operator import length_hint
from typing import Any, Final

from .._codec._json import is_array, is_object
from .._printable import shown

MIN_WIDTH: Final = 40
"""Narrower terminals are treated like this one; they wrap by themselves."""

MAX_WIDTH: Final = 120
"""Wider lines are hard to read."""

MARK: Final = "| "
"""Begins each line on standard error that is a server's and does not follow words of this program."""

EXACT: Final = 2**53
"""Below it, a float that is whole is one number and no other."""

DEEPEST: Final = 12
"""How many levels of a schema are looked at when a type is described."""

MAX_NAMED: Final = 500
"""How many schemas are looked at for that: each may refer to all the others."""


def shown_text(text: str) -> str:
    r"""Return a text of any length in which only line feeds and tabs are not printable.

    ``\r\n`` becomes a line feed, everything else that is not printable an escape sequence of Python.
    """
    text = text.replace("\r\n", "\n")
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text
    )


def marked(text: str) -> str:
    """Return a text of which each line but the first begins with `MARK`.

    A server's line breaks do not begin lines that look like this program's own, or like another one's question.
    """
    return shown_text(text).replace("\n", f"\n{MARK}")


def shown_line(text: str) -> str:
    r"""Return a text of any length as one printable line."""
    return shown_text(text).replace("\n", "\\n").replace("\t", "\\t")


def json_text(value: object, *, indent: int | None = 2) -> str:
    """Return a value as JSON that a terminal can show.

    Args:
        value: Plain JSON.
        indent: How far each level is indented; `None` for a single line.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent)
    except RecursionError:  # on several lines half as many levels can be written as can be read
        text = json.dumps(value, ensure_ascii=False)
    if text.replace("\n", "").isprintable():
        return text
    # Outside of strings JSON has only printable ASCII and line feeds, so this changes no value.
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def short_numbers(value: Any) -> Any:
    """Return plain JSON with 42 for 42.0: to people, and to JSON, they are the same number."""
    try:
        return _short_numbers(value)
    except RecursionError:
        return value


def _short_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return int(value)
    if is_array(value):
        return [_short_numbers(each) for each in value]
    return {key: _short_numbers(each) for key, each in value.items()} if is_object(value) else value


def number(value: float) -> str:
    """Return a number that a server has sent as a short text."""
    return shown(value, lambda it: f"{it:g}" if isinstance(it, float) else str(it))


def cells(text: str) -> int:
    """Return how many columns of a terminal a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def cut(text: str, width: int) -> str:
    """Return a printable text cut to a number of columns, with an ellipsis if it is longer."""
    if cells(text) <= width:
        return text
    kept: list[str] = []
    room = width - 1
    for character in text:
        room -= cells(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + "…"


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a printable text, broken at blanks; a word that is too long has a line of its own."""
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split():
            if line and cells(line) + 1 + cells(word) > width:
                yield line
                line = word
            else:
                line = f"{line} {word}" if line else word
        yield line


def columns(
    rows: Iterable[tuple[str, str]], width: int, *, indent: int = 2, folded: bool = True
) -> Iterator[str]:
    """Yield the lines of a table of two columns: names, and what is to be said about them.

    A name that is too long for its column has a line of its own.

    Args:
        rows: The rows, as they came.
        width: How wide the terminal is.
        indent: How far the names are indented.
        folded: Whether texts are folded to the width. Commands and addresses are not: people copy them.
    """
    safe = [(shown_line(name), shown_text(text).strip()) for name, text in rows]
    left = min(max((cells(name) for name, _ in safe), default=0), max(16, width * 2 // 5))
    start = " " * (indent + left + 2)
    for name, text in safe:
        lines: list[str] = []
        if text:
            lines += wrapped(text, max(20, width - len(start))) if folded else text.split("\n")
        head = " " * indent + name
        if lines and cells(name) <= left:
            yield head + " " * (left - cells(name) + 2) + lines.pop(0)
        else:
            yield head
        yield from (start + line if line else "" for line in lines)


# Types, as a reader of the schema would say them.


def resolved(schema: object, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema, or what it refers to in the schema around it; an empty one if it is none.

    Args:
        schema: The schema.
        root: The whole schema it is a part of.
    """
    for _ in range(DEEPEST):
        if not is_object(schema):
            return {}
        reference: object = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        found: Any = root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")  # RFC 6901, section 4
            found = found.get(name) if is_object(found) else None
        schema = found
    return {}


def type_name(schema: object, root: Mapping[str, Any]) -> str:
    """Return what a schema admits, in a few words, such as ``array of integer``."""
    return _type_name(schema, root, 0, iter(range(MAX_NAMED)))


def _type_name(schema: object, root: Mapping[str, Any], depth: int, steps: Iterator[int]) -> str:
    if next(steps, None) is None or depth > DEEPEST:
        return "…"
    here = resolved(schema, root)
    if "const" in here:
        return json_text(here["const"], indent=None)
    if is_array(here.get("enum")):
        return " | ".join(json_text(value, indent=None) for value in here["enum"])
    for several in ("anyOf", "oneOf"):
        if is_array(here.get(several)):
            alternatives = takewhile(lambda _: length_hint(steps), here[several])
            return (
                " | ".join(dict.fromkeys(_type_name(each, root, depth + 1, steps) for each in alternatives))
                or "…"
            )
    kinds: object = here.get("type")
    if is_array(kinds):
        return " | ".join(shown(kind, str) for kind in kinds)
    if kinds == "array" and "items" in here:
        return f"array of {_type_name(here['items'], root, depth + 1, steps)}"
    if isinstance(kinds, str):
        return kinds
    return "object" if "properties" in here else "any"


def parameters_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schemas of the properties of an object."""
    properties: object = schema.get("properties")
    return properties if is_object(properties) else {}


def signature_of(name: str, schema: Mapping[str, Any]) -> str:
    """Return a tool's name and parameters; those with a question mark may be left out."""
    listed: Sequence[object] = schema["required"] if is_array(schema.get("required")) else ()
    required = {each for each in listed if isinstance(each, str)}
    parameters = ", ".join(f"{key}{'' if key in required else '?'}" for key in parameters_of(schema))
    return f"{name}({parameters})"


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, or its first paragraph if that is shorter."""
    paragraph = " ".join(re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0].split())
    found = re.match(r".*?[.!?](?=\s|$)", paragraph)
    return paragraph if found is None else found[0]
