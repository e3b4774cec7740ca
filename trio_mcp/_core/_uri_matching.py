"""From a URI to the variables of the template from which it was expanded. Plain functions over text; no I/O.

Expansion and the syntax of templates are in `_uri_template`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never, final

import attrs

from ._uri_template import (
    OPERATORS,
    RESERVED,
    UNRESERVED,
    Expression,
    UriTemplate,
    VariableSpec,
    normalised,
    pct_decoded,
    respelled,
)

# Every template that is accepted here can be read in one way only, and that way is found without backtracking:
#
# * ``{?…}`` and ``{#…}`` at the end are cut off at the first ``?`` and ``#``.
# * What is before them is read from the left. A variable ends at the first character that it cannot contain. So
#   what may follow a variable must begin with such a character.
# * One variable, the pivot, may break that rule: then the rest is read from the right, by the same rule reversed,
#   and what neither side takes is the pivot's. ``{+path}/{name}`` is read that way.
#
# A template for which this does not work is refused, with the reason, when it is registered. Matching reads each
# character once per part of the template.
#
# By RFC 6570, a variable in ``{x}`` contains no reserved character unless encoded. Clients that write URIs by
# hand forget that, so ``:``, ``@``, ``,`` and the like are accepted where nothing that follows begins with them.

Found: TypeAlias = dict[str, str | list[str]]
"""Variables by name; those that are not in the URI are missing. An exploded one is a list."""

MAX_PARTS: Final = 64
"""Literals and variables of a template, which bound the work that one URI can cause."""

_ENCODED: Final = UNRESERVED | {"%"}
_LENIENT: Final = frozenset("!$&'()*+,;=:@")
_MAY_HAVE_SLASHES: Final = frozenset("+#?&")
_NOT_IN_QUERY: Final = frozenset("#[]&")


@final
@attrs.frozen
class _Field:
    """A variable that is found by its place.

    Attributes:
        name: Its name.
        must: The characters that it can contain.
        may: Characters that are accepted as well, unless something that follows begins with them.
        lead: The character that it begins with; without that, it is not defined.
        separator: The character between its parts, if it is exploded.
        prefix: How many characters it can have at most.
        filled: Whether it cannot be empty.
    """

    name: str
    must: frozenset[str]
    may: frozenset[str]
    lead: str = ""
    separator: str | None = None
    prefix: int | None = None
    filled: bool = True


_Part: TypeAlias = str | _Field


@final
@attrs.frozen
class _Step:
    """A part, and the characters that it may take in its place."""

    part: _Part
    takes: str = ""


@final
class _Query:
    """The variables of ``{?a,b}`` and ``{&c}`` at the end: pairs in any order, each of them optional.

    A URI with an unknown name, or with the same name twice, does not match.
    """

    def __init__(self, lead: str) -> None:
        self.lead = lead
        self.variables: dict[str, VariableSpec] = {}

    def read(self, text: str) -> Found | None:
        found: Found = {}
        for pair in text.split("&"):
            name, _, value = pair.partition("=")
            spec = self.variables.get(name)
            twice = spec is not None and spec.name in found and not spec.explode
            if spec is None or twice or not _NOT_IN_QUERY.isdisjoint(value):
                return None
            decoded = _decoded(value, spec.prefix)
            if decoded is None:
                return None
            if spec.explode:
                several = found.setdefault(spec.name, [])
                assert isinstance(several, list)
                several.append(decoded)
            else:
                found[spec.name] = decoded
        return found


@final
class UriMatcher:
    """Finds the variables of a template in URIs.

    Args:
        template: The template.

    Raises:
        ValueError: URIs could be read in several ways. The message gives the reason.
    """

    def __init__(self, template: UriTemplate) -> None:
        self._template = template
        self._query: _Query | None = None
        self._fragment: _Field | None = None
        parts = self._parts()
        if len(parts) > MAX_PARTS:
            raise ValueError(f"{template} has {len(parts)} parts; at most {MAX_PARTS} can be matched")
        self._left: list[_Step] = []
        self._pivot: _Step | None = None
        self._right: list[_Step] = []
        self._arrange(parts)
        specs = [
            (spec, part.operator)
            for part in template.parts
            if isinstance(part, Expression)
            for spec in part.variables
        ]
        self.names = template.variables
        """The variables, in the order of the template."""
        self.optional = frozenset(self.names) - {
            part.name for part in parts if isinstance(part, _Field) and not part.lead
        }
        """The variables that a URI of the template may lack."""
        self.lists = frozenset(spec.name for spec, _ in specs if spec.explode)
        """The variables that are found as lists."""
        self.with_slashes = frozenset(self.names) - {
            spec.name for spec, operator in specs if operator not in _MAY_HAVE_SLASHES
        }
        """The variables in which a URI may have a slash that is not encoded, wherever they occur."""

    def match(self, uri: str) -> Found | None:
        """Return the variables of a URI, decoded, or `None` if it does not match."""
        text = normalised(uri)
        found: list[tuple[str, str | list[str] | None, int | None]] = []
        if self._fragment is not None:
            text, lead, fragment = text.partition("#")
            if lead:
                found.append(_value(self._fragment, fragment))
        query: Found | None = {}
        if self._query is not None:
            text, lead, pairs = self._cut_query(text)
            if lead:
                query = self._query.read(pairs)
        if query is None or not self._read_left(text, found):
            return None
        return _merged(query, found)

    # Reading.

    def _cut_query(self, text: str) -> tuple[str, str, str]:
        assert self._query is not None
        if self._query.lead == "?":
            return text.partition("?")
        # The question mark is in the text of the template, and some pairs may be behind it there.
        start = text.find("?")
        for _ in range(self._own_pairs):
            start = text.find("&", start + 1)
            if start < 0:
                return text, "", ""
        return text[:start], "&", text[start + 1 :]

    def _read_left(self, text: str, found: list[tuple[str, str | list[str] | None, int | None]]) -> bool:
        for step in self._left:
            part = step.part
            if isinstance(part, str):
                if not text.startswith(part):
                    return False
                text = text[len(part) :]
                continue
            if part.lead:
                if not text.startswith(part.lead):
                    continue
                text = text[1:]
            rest = text.lstrip(step.takes)
            found.append(_value(part, text[: len(text) - len(rest)]))
            text = rest
        if self._pivot is None:
            return not text
        return self._read_right(text, found)

    def _read_right(self, text: str, found: list[tuple[str, str | list[str] | None, int | None]]) -> bool:
        for step in self._right:
            part = step.part
            if isinstance(part, str):
                if not text.endswith(part):
                    return False
                text = text[: len(text) - len(part)]
            else:
                rest = text.rstrip(step.takes)
                found.append(_value(part, text[len(rest) :]))
                text = rest
        assert self._pivot is not None
        part = self._pivot.part
        assert isinstance(part, _Field)
        if part.lead:
            if not text:
                return True
            if not text.startswith(part.lead):
                return False
            text = text[1:]
        if text.strip(self._pivot.takes):
            return False
        found.append(_value(part, text))
        return True

    # Compiling.

    def _parts(self) -> list[_Part]:
        parts: list[_Part] = []
        tails = {part.operator for part in self._template.parts if isinstance(part, Expression)}
        # What `{+x}` cannot contain, because the URI is cut there.
        cuts = frozenset("?#" if tails & {"?", "&"} else "#" if "#" in tails else "")
        self._own_pairs = 0
        for part in self._template.parts:
            if self._fragment is not None or (self._query is not None and not _may_follow_query(part)):
                raise self._refusal(f"{part if isinstance(part, str) else part.text} comes after the end")
            if isinstance(part, str):
                self._own_pairs += part.count("&") + part.count("?")
                parts.append(respelled(part) if parts else normalised(part))
            elif part.operator in {"?", "&"}:
                self._add_query(part, parts)
            else:
                fields = self._fields(part, cuts)
                if part.operator == "#":
                    if len(fields) > 1 or not isinstance(fields[0], _Field):
                        raise self._refusal(f"{part.text} could be split in several ways")
                    self._fragment = fields[0]
                else:
                    parts += fields
        return parts

    def _add_query(self, part: Expression, before: Sequence[_Part]) -> None:
        has_mark = any("?" in one for one in before if isinstance(one, str))
        if part.operator == "?" and (has_mark or self._query is not None):
            raise self._refusal(f"{part.text} comes after a ?; write {{&…}}")
        if part.operator == "&" and not has_mark and self._query is None:
            raise self._refusal(f"{part.text} needs a ? before it; write {{?…}}")
        if any("#" in one for one in before if isinstance(one, str)):
            raise self._refusal(f"{part.text} comes after a #")
        query = self._query = self._query or _Query(part.operator)
        for spec in part.variables:
            if query.variables.setdefault(respelled(spec.name), spec) is not spec:
                raise self._refusal(f"{spec.name} is twice in the query")

    def _fields(self, expression: Expression, cuts: frozenset[str]) -> list[_Part]:
        operator = OPERATORS[expression.operator]
        if operator.named:
            raise self._refusal(f"{expression.text}: path parameters cannot be matched")
        must, may = _ENCODED, _LENIENT
        nothing: frozenset[str] = frozenset()
        if expression.operator == "#":
            must, may = _ENCODED | RESERVED, nothing
        elif operator.reserved:
            # A query and a fragment are not part of a path, although RFC 6570 would expand them into one.
            must, may = _ENCODED | RESERVED - {"?", "#"}, frozenset("?#") - cuts
        several = len(expression.variables) > 1
        parts: list[_Part] = []
        for spec in expression.variables:
            if several and (operator.first or parts):
                parts.append(operator.separator if parts else operator.first)
            separator = operator.separator if spec.explode else None
            if separator is not None and separator in must:
                raise self._refusal(f"{expression.text}: its parts may contain {separator!r} themselves")
            parts.append(
                _Field(
                    spec.name,
                    must=must if separator is None else must | {separator},
                    may=may if separator is None else may - {separator},
                    lead="" if several else operator.first,
                    separator=separator,
                    prefix=spec.prefix,
                    filled=not operator.first,
                )
            )
        return parts

    def _arrange(self, parts: Sequence[_Part]) -> None:
        """Decide which parts are read from which side."""
        if self._query is not None and self._query.lead == "&":
            parts = self._before_pairs(parts)
        for place, part in enumerate(parts):
            if isinstance(part, str):
                self._left.append(_Step(part))
                continue
            follow = _edge(parts[place + 1 :], at_start=True)
            if follow.isdisjoint(part.must | {part.lead}):
                self._left.append(_Step(part, "".join(sorted(part.must | (part.may - follow)))))
            else:
                self._pivot = _Step(part, "".join(sorted(part.must | part.may)))
                self._right = self._from_right(parts[place:])
                return

    def _before_pairs(self, parts: Sequence[_Part]) -> Sequence[_Part]:
        """Return the parts before `{&…}` so that none of those after the question mark contains an ``&``."""
        mark = next(place for place, part in enumerate(parts) if isinstance(part, str) and "?" in part)
        for part in parts[mark:]:
            if isinstance(part, _Field) and "&" in part.must:
                raise self._refusal(f"{part.name} may contain the & that begins the next pair")
        return [attrs.evolve(part, may=part.may - {"&"}) if isinstance(part, _Field) else part for part in parts]

    def _from_right(self, parts: Sequence[_Part]) -> list[_Step]:
        pivot = parts[0]
        assert isinstance(pivot, _Field)
        steps: list[_Step] = []
        for place in range(len(parts) - 1, 0, -1):
            part = parts[place]
            if isinstance(part, str):
                steps.append(_Step(part))
                continue
            before = _edge(parts[:place], at_start=False)
            if part.lead or not before.isdisjoint(part.must):
                raise self._refusal(
                    f"where {pivot.name} ends and {part.name} begins cannot be told, because the one may contain "
                    "what separates it from the other; put a / between them, or make them one variable"
                )
            steps.append(_Step(part, "".join(sorted(part.must | (part.may - before)))))
        return steps

    def _refusal(self, reason: str) -> ValueError:
        return ValueError(f"{self._template} cannot be matched: {reason}")


def _may_follow_query(part: str | Expression) -> bool:
    return isinstance(part, Expression) and part.operator in {"?", "&", "#"}


def _edge(parts: Sequence[_Part], *, at_start: bool) -> frozenset[str]:
    """Return the characters with which a sequence of parts may begin, or end."""
    found: frozenset[str] = frozenset()
    for part in parts if at_start else reversed(parts):
        match part:
            case str():
                return found | {part[0] if at_start else part[-1]}
            case _Field():
                if part.lead and at_start:
                    found |= {part.lead}
                else:
                    found |= part.must | set(part.lead)
                if part.filled:
                    return found
            case _:
                assert_never(part)
    return found


def _decoded(text: str, prefix: int | None) -> str | None:
    try:
        decoded = pct_decoded(text)
    except ValueError:
        return None
    return None if prefix is not None and len(decoded) > prefix else decoded


def _value(field: _Field, text: str) -> tuple[str, str | list[str] | None, int | None]:
    """Return the name of a field, its value (`None` if it cannot have it), and the length to which it is cut."""
    if field.filled and not text:
        return field.name, None, None
    if field.separator is None:
        return field.name, _decoded(text, field.prefix), field.prefix
    decoded = [_decoded(part, None) for part in text.split(field.separator)]
    several = [part for part in decoded if part is not None]
    return field.name, several if len(several) == len(decoded) else None, None


def _merged(found: Found, placed: Sequence[tuple[str, str | list[str] | None, int | None]]) -> Found | None:
    """Add the values that were found by place. A variable that occurs more than once must have one value."""
    cuts: list[tuple[str, str, int]] = []
    for name, value, prefix in placed:
        if value is None:
            return None
        if isinstance(value, str) and prefix is not None:
            cuts.append((name, value, prefix))
        elif found.setdefault(name, value) != value:
            return None
    # The longest first: if the whole variable occurs nowhere, that is the best known value.
    for name, value, prefix in sorted(cuts, key=lambda cut: -cut[2]):
        whole = found.setdefault(name, value)
        if not isinstance(whole, str) or whole[:prefix] != value:
            return None
    return found
