"""URI templates (RFC 6570): reading and expanding them, all four levels.

The other direction, from a URI to the variables, is `_uri_matching`. Plain functions over text; no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final

import attrs

from ._uris import pct_encoded

__all__ = ["Expression", "TemplateValue", "UriTemplate", "VariableSpec"]

TemplateValue: TypeAlias = (
    str | int | float | bool | Sequence[str | int | float] | Mapping[str, str | int | float] | None
)
"""What a variable may be: text, a number, a list, or pairs of a name and a value; `None` if it is not defined."""

MAX_TEMPLATE: Final = 4096
"""Characters of a template. It is an address, not a document."""

_NAME: Final = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_VARIABLE: Final = re.compile(rf"({_NAME}+(?:\.{_NAME}+)*)(?:(\*)|:([1-9][0-9]{{0,3}}))?")
_RESERVED_FOR_LATER: Final = "=,!@|"
_NOT_LITERAL: Final = re.compile(r"""[\x00-\x20"'<>\\^`{|}\x7f]|%(?![0-9A-Fa-f]{2})""")


@final
@attrs.frozen
class Operator:
    """How the expressions that begin with one character are expanded (RFC 6570, appendix A).

    Attributes:
        first: What the expansion begins with, if any variable is defined.
        separator: What stands between variables.
        named: Whether a variable's name is written.
        if_empty: What follows the name of a variable that is empty.
        reserved: Whether reserved characters stay as they are.
    """

    first: str = ""
    separator: str = ","
    named: bool = False
    if_empty: str = ""
    reserved: bool = False


OPERATORS: Final[Mapping[str, Operator]] = {
    "": Operator(),
    "+": Operator(reserved=True),
    "#": Operator(first="#", reserved=True),
    ".": Operator(first=".", separator="."),
    "/": Operator(first="/", separator="/"),
    ";": Operator(first=";", separator=";", named=True),
    "?": Operator(first="?", separator="&", named=True, if_empty="="),
    "&": Operator(first="&", separator="&", named=True, if_empty="="),
}


@final
@attrs.frozen
class VariableSpec:
    """One variable of an expression.

    Attributes:
        name: Its name.
        explode: Whether each part of a list stands for itself: ``{name*}``.
        prefix: How many characters of it are used: ``{name:3}``; `None` for all.
    """

    name: str
    explode: bool = False
    prefix: int | None = None


@final
@attrs.frozen
class Expression:
    """What stands between braces.

    Attributes:
        text: As it is written, with the braces.
        operator: The character it begins with, or nothing.
        variables: What it is made of.
    """

    text: str
    operator: str
    variables: tuple[VariableSpec, ...]


@final
class UriTemplate:
    """A URI template: ``UriTemplate("orders://{id}{?page}").expand(id=7)``.

    Args:
        template: The template.

    Raises:
        ValueError: It is none, and why.

    Spec: RFC 6570; 2026-07-28, server/resources, "Resource Templates".
    """

    def __init__(self, template: str) -> None:
        if len(template) > MAX_TEMPLATE:
            raise ValueError(f"a template has at most {MAX_TEMPLATE} characters, not {len(template)}")
        self._template = template
        self._parts = tuple(_read(template))

    def __str__(self) -> str:
        return self._template

    def __repr__(self) -> str:
        return f"UriTemplate({self._template!r})"

    @property
    def parts(self) -> tuple[str | Expression, ...]:
        """Its literals, percent-encoded where they must be, and its expressions."""
        return self._parts

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of its variables, each once, in the order in which they first occur."""
        expressions = (part for part in self._parts if isinstance(part, Expression))
        return tuple(dict.fromkeys(spec.name for part in expressions for spec in part.variables))

    def expand(self, values: Mapping[str, TemplateValue] | None = None, /, **more: TemplateValue) -> str:
        """Return the URI that the values of the variables make. A variable without a value leaves no trace.

        Args:
            values: Values by name.
            **more: The same, for names that Python can write.

        Raises:
            ValueError: A list or pairs are to be cut to a length.
            TypeError: A value is of no type that a variable may have.
        """
        known = {**(values or {}), **more}
        return "".join(part if isinstance(part, str) else _expanded(part, known) for part in self._parts)


def _read(template: str) -> list[str | Expression]:
    parts: list[str | Expression] = []
    end = 0
    while end < len(template):
        start = template.find("{", end)
        literal = template[end:] if start < 0 else template[end:start]
        if literal:
            wrong = _NOT_LITERAL.search(literal)
            if wrong is not None and wrong[0] != "'":
                raise ValueError(f"{wrong[0]!r} may not stand in the text of a template: {template!r}")
            parts.append(pct_encoded(literal, keep_reserved=True))
        if start < 0:
            break
        closed = template.find("}", start)
        if closed < 0:
            raise ValueError(f"an expression is not closed: {template!r}")
        end = closed + 1
        parts.append(_expression(template[start:end]))
    return parts


def _expression(text: str) -> Expression:
    inside = text[1:-1]
    operator = inside[:1] if inside[:1] in OPERATORS else ""
    if inside[:1] and inside[0] in _RESERVED_FOR_LATER:
        raise ValueError(f"{text} begins with an operator that RFC 6570 keeps for later")
    variables: list[VariableSpec] = []
    for said in inside[len(operator) :].split(","):
        found = _VARIABLE.fullmatch(said)
        if found is None:
            raise ValueError(f"{said!r} in {text} is no variable; write name, name* or name:3")
        name, star, length = found.groups()
        variables.append(VariableSpec(name, star is not None, None if length is None else int(length)))
    return Expression(text, operator, tuple(variables))


def _expanded(expression: Expression, values: Mapping[str, TemplateValue]) -> str:
    operator = OPERATORS[expression.operator]
    written: list[str] = []
    for spec in expression.variables:
        value = values.get(spec.name)
        if value is None:
            continue
        if isinstance(value, (str, int, float)):
            text = _text(value)
            cut = text if spec.prefix is None else text[: spec.prefix]
            written.append(_named(operator, spec.name, pct_encoded(cut, keep_reserved=operator.reserved)))
        elif not isinstance(cast("Any", value), (Mapping, Sequence)):
            raise TypeError(f"{spec.name} must be text, a number, a list or pairs, not {value!r:.60}")
        elif spec.prefix is not None:
            raise ValueError(f"{expression.text}: a list or pairs cannot be cut to a length")
        elif value:
            written.append(_several(operator, spec, value))
    return operator.first + operator.separator.join(written) if written else ""


def _several(
    operator: Operator, spec: VariableSpec, value: Sequence[str | int | float] | Mapping[str, str | int | float]
) -> str:
    def encoded(part: str | int | float) -> str:
        return pct_encoded(_text(part), keep_reserved=operator.reserved)

    if isinstance(value, Mapping):
        pairs = [(encoded(name), encoded(part)) for name, part in value.items()]
        if spec.explode:
            empty = operator.if_empty if operator.named else "="
            return operator.separator.join(f"{name}={part}" if part else name + empty for name, part in pairs)
        return _named(operator, spec.name, ",".join(part for pair in pairs for part in pair))
    if spec.explode:
        return operator.separator.join(_named(operator, spec.name, encoded(part)) for part in value)
    return _named(operator, spec.name, ",".join(map(encoded, value)))


def _named(operator: Operator, name: str, text: str) -> str:
    if not operator.named:
        return text
    return f"{name}={text}" if text else name + operator.if_empty


def _text(value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            raise TypeError(f"what is in a list or in pairs must be text or a number, not {value!r:.60}")
