"""URIs and their templates as text: syntax, encoding, expansion (RFC 6570), and safe values of variables.

Plain functions over text; no I/O. The other direction, from a URI to the variables, is `_uri_matching`.
"""

from __future__ import annotations

import os
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final
from urllib.parse import unquote, urlsplit

import attrs

# URIs: percent-encoding, the syntax of RFC 3986, and which URIs are the same.

UNRESERVED: Final = frozenset(string.ascii_letters + string.digits + "-._~")
"""What never needs an encoding, and never has a meaning of its own (RFC 3986, section 2.3)."""

RESERVED: Final = frozenset(":/?#[]@!$&'()*+,;=")
"""What may delimit the parts of a URI (RFC 3986, section 2.2)."""

_URI_CHARACTERS: Final = UNRESERVED | RESERVED

MAX_URI_LENGTH: Final = 8 * 1024
"""Characters of a URI that a client asks for, or a server offers: what HTTP servers take in a request line."""

_TRIPLET: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_TRIPLETS: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(?=:)")

# Each class is disjoint from what ends it, so matching is linear.
_PCHAR: Final = r"[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2}"
_AUTHORITY: Final = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@\[\]]|%[0-9A-Fa-f]{2})*"
_URI: Final = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.\-]*:(?://{_AUTHORITY}(?=[/?#]|\Z))?(?:{_PCHAR}|/)*"
    rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:\#(?:{_PCHAR}|[/?])*)?"
)


def scheme_of(text: str) -> str | None:
    """Return the scheme a URI, or the text before a template's first expression, begins with."""
    found = _SCHEME.match(text)
    return None if found is None else found[0].lower()


def check_uri(uri: str, *, max_length: int = MAX_URI_LENGTH) -> None:
    """Check that a text is a URI: absolute, and of the syntax of RFC 3986.

    Args:
        uri: The text.
        max_length: How many characters it may have.

    Raises:
        ValueError: It is not. The message gives the reason.

    Spec: 2026-07-28, server/resources, "Security Considerations".
    """
    if len(uri) > max_length:
        raise ValueError(f"a URI of {len(uri)} characters is too long; {max_length} are allowed")
    if _SCHEME.match(uri) is None:
        raise ValueError("a URI begins with a scheme and a colon, such as file: or orders:")
    if _URI.fullmatch(uri) is None:
        raise ValueError("a character in it is not allowed there in a URI, or needs percent-encoding")


def check_web_url(url: str) -> None:
    """Check that a URL can be shown to a user and opened: http or https, and read alike by browsers and here.

    Browsers take backslashes for slashes, skip line feeds and tabs, and show some letters of other alphabets
    like Latin ones: with any of these the host that a user sees may differ from the one that is reached.

    Raises:
        ValueError: It cannot. The message gives the reason.

    Spec: 2025-11-25 and later, client/elicitation, "Safe URL Handling".
    """
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("url must be of printable ASCII without spaces and backslashes: encode everything else")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"url is not a URL: {error!s:.60}") from error
    if parts.scheme not in {"http", "https"} or not host:
        raise ValueError("url must begin with https:// (or http://) and a host")
    if "@" in parts.netloc:
        raise ValueError("url must not contain credentials: everyone who sees the URL could use them")


def normalised(uri: str) -> str:
    """Return the normal form of a URI (RFC 3986, sections 6.2.2.1 and 6.2.2.2).

    The scheme is in lower case, unreserved characters are not encoded, and triplets have capital letters. Paths
    are not changed: ``..`` stays.
    """
    uri = respelled(uri)  # first: what is encoded before the colon may come out as a scheme
    scheme = scheme_of(uri)
    return uri if scheme is None else scheme + uri[len(scheme) :]


def respelled(text: str) -> str:
    """Return the normal form of a part of a URI that has no scheme."""
    return _TRIPLET.sub(_respelled_triplet, text) if "%" in text else text


def _respelled_triplet(found: re.Match[str]) -> str:
    character = chr(int(found[0][1:], 16))
    return character if character in UNRESERVED else found[0].upper()


def pct_encoded(text: str, *, keep_reserved: bool = False) -> str:
    """Percent-encode a text as UTF-8.

    Args:
        text: The text.
        keep_reserved: Whether reserved characters and triplets stay as they are.
    """
    if not keep_reserved:
        return _encoded(text, UNRESERVED)
    pieces: list[str] = []
    end = 0
    for found in _TRIPLET.finditer(text):
        pieces += (_encoded(text[end : found.start()], _URI_CHARACTERS), found[0])
        end = found.end()
    return "".join((*pieces, _encoded(text[end:], _URI_CHARACTERS)))


def _encoded(text: str, kept: frozenset[str]) -> str:
    if kept.issuperset(text):
        return text
    return "".join(c if c in kept else "".join(f"%{byte:02X}" for byte in c.encode()) for c in text)


def pct_decoded(text: str) -> str:
    """Decode percent-encoding.

    Raises:
        ValueError: A ``%`` has no two hexadecimal digits behind it, or the bytes are not UTF-8.
    """
    if "%" not in text:
        return text
    if "%" in _TRIPLETS.sub("", text):
        raise ValueError("a % without two hexadecimal digits")
    return _TRIPLETS.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), text)


# Templates.

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
        first: The text before the first variable that is defined.
        separator: The text between variables.
        named: Whether the name of a variable is written.
        if_empty: The text after the name of an empty variable.
        reserved: Whether reserved characters are not encoded.
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
        explode: Whether each part of a list is a value by itself: ``{name*}``.
        prefix: How many characters of it are used: ``{name:3}``; `None` for all.
    """

    name: str
    explode: bool = False
    prefix: int | None = None


@final
@attrs.frozen
class Expression:
    """An expression of a template.

    Attributes:
        text: As it is written, with the braces.
        operator: The character that it begins with, or nothing.
        variables: Its variables.
    """

    text: str
    operator: str
    variables: tuple[VariableSpec, ...]


@final
class UriTemplate:
    """A URI template: ``UriTemplate("orders://{id}{?page}").expand(id=7)``.

    Args:
        template: The template.

    Attributes:
        parts: Its literals, percent-encoded where they must be, and its expressions.

    Raises:
        ValueError: It is not a template. The message gives the reason.

    Spec: RFC 6570; 2026-07-28, server/resources, "Resource Templates".
    """

    def __init__(self, template: str) -> None:
        if len(template) > MAX_TEMPLATE:
            raise ValueError(f"a template has at most {MAX_TEMPLATE} characters, not {len(template)}")
        self._template = template
        self.parts: Final = tuple(_read(template))

    def __str__(self) -> str:
        return self._template

    def __repr__(self) -> str:
        return f"UriTemplate({self._template!r})"

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of its variables, each once, in the order in which they first occur."""
        expressions = (part for part in self.parts if isinstance(part, Expression))
        return tuple(dict.fromkeys(spec.name for part in expressions for spec in part.variables))

    def expand(self, values: Mapping[str, TemplateValue] | None = None, /, **more: TemplateValue) -> str:
        """Return the URI for some values of the variables. A variable without a value is left out.

        Args:
            values: Values by name.
            **more: The same, for names that are Python identifiers.

        Raises:
            ValueError: A variable with a prefix length has a list or pairs.
            TypeError: A value is not a `TemplateValue`.
        """
        known = {**(values or {}), **more}
        return "".join(part if isinstance(part, str) else _expanded(part, known) for part in self.parts)


def _read(template: str) -> list[str | Expression]:
    parts: list[str | Expression] = []
    end = 0
    while end < len(template):
        start = template.find("{", end)
        literal = template[end:] if start < 0 else template[end:start]
        if literal:
            wrong = _NOT_LITERAL.search(literal)
            if wrong is not None and wrong[0] != "'":
                raise ValueError(f"{wrong[0]!r} must be percent-encoded in the text of a template: {template!r}")
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
    for variable in inside[len(operator) :].split(","):
        found = _VARIABLE.fullmatch(variable)
        if found is None:
            raise ValueError(f"{variable!r} in {text} is no variable; write name, name* or name:3")
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


# Safe values. A variable is decoded before a function gets it, so ``file:///logs/{name}`` would give
# ``../../etc/passwd`` to a function that opens files. Refused is what is not the name of a thing on any system:
#
# * a NUL, and ``..`` as a part between separators: slashes or backslashes;
# * a separator at the beginning, a drive of Windows with a separator behind it (on Windows: any drive), and an
#   empty part before others in a list, which joins to the same;
# * a separator anywhere in a variable that the template ends at a slash: it can only be there encoded;
# * the same under further encodings: a function that decodes its argument would find it.

MAX_ENCODINGS: Final = 4
"""How many encodings within each other are decoded. Honest values have none left."""

# A value without any of these, which is the usual case, is safe.
_SUSPICIOUS: Final = re.compile(r"\.\.|[/\\%:\0]")
_SEPARATOR: Final = re.compile(r"[/\\]")
# Windows drops dots and blanks at the end of a name.
_UP: Final = re.compile(r"\.\.[. ]*")
_DRIVE: Final = re.compile(r"[A-Za-z]:[/\\]")
_ANY_DRIVE: Final = re.compile(r"[A-Za-z]:")


@final
@attrs.frozen(kw_only=True)
class VariableRule:
    """Which values the variables of a template may have.

    Attributes:
        with_slashes: The variables that may contain a slash, as ``{+x}``, ``{#x}`` and the pairs of a query may.
        unsafe: The variables that are not checked.
        windows: Whether paths are those of Windows.
    """

    with_slashes: frozenset[str]
    unsafe: frozenset[str] = frozenset()
    windows: bool = os.name == "nt"

    def check(self, values: Mapping[str, str | Sequence[str]]) -> None:
        """Check the variables that were found in a URI.

        Raises:
            ValueError: A value may lead to another place. The message names the variable.
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
        if _SUSPICIOUS.search(text) is None:
            return None
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
