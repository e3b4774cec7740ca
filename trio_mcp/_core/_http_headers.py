"""HTTP header fields: a container for them, and those in which a request repeats what its body holds.

The client writes the latter and the server checks them: revision, method, name, and the arguments that the input
schema of a tool marks with `x-mcp-header`. Pure functions over decoded messages, no I/O. Which Host, Origin and
media types are accepted is decided in `_http_rules`.

Spec: 2026-07-28, basic/transports/streamable-http, "Request Metadata", "Schema Extension" and "Client Behavior";
server/tools, "x-mcp-header"; 2025-11-25, basic/transports, "Session Management" and "Protocol Version Header".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, cast, final

import attrs

from .._codec import _json
from .._codec._json import is_array, is_object
from .._errors import HEADER_MISMATCH, LocalProtocolError, RequestError
from .._revisions import PROTOCOL_VERSION_KEY
from ._output_schemas import direct_subschemas

HeaderField = tuple[bytes, bytes]
"""A name and a value, as on the wire."""

_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
"""The name of a header field (RFC 9110, section 5.6.2)."""
_NAME: Final = re.compile(_TOKEN)
_NAME_BYTES: Final = re.compile(_TOKEN.encode("ascii"))
_VALUE: Final = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


def answer_field(name: str | bytes, value: str | bytes) -> HeaderField:
    """Check a header field that the application adds to a response, and return it as it goes on the wire.

    Args:
        name: Its name.
        value: Its value; the blanks around it are removed.

    Raises:
        TypeError: One of them is neither text nor bytes.
        ValueError: It is not exactly one field, or it frames the response, which the host does (RFC 9110,
            section 5.5).
    """
    fields: list[bytes] = []
    for part in cast("tuple[object, ...]", (name, value)):
        if not isinstance(part, (str, bytes)):
            raise TypeError(
                f"the name and the value of a header field must be str or bytes, not {type(part).__name__}"
            )
        try:
            fields.append(part.encode("latin-1") if isinstance(part, str) else part)
        except UnicodeEncodeError as error:
            raise ValueError(f"{part!r} cannot be sent in a header field, which is Latin-1") from error
    encoded, content = fields[0], fields[1].strip(b" \t")
    if _NAME_BYTES.fullmatch(encoded) is None:
        raise ValueError(f"{name!r} is not the name of a header field")
    if encoded.lower() in _FRAMING:
        raise ValueError(f"{name!r} cannot be set: the HTTP host sets it")
    if _VALUE.fullmatch(content) is None:
        raise ValueError(f"{value!r} cannot be sent in a header field: it contains a control character")
    return encoded, content


@lru_cache(maxsize=1024)
def _key(name: str) -> bytes:
    return name.lower().encode("latin-1", "replace")


@final
class Headers:
    """Header fields in their order. Names are compared without case (RFC 9110, section 5.1).

    Values are returned as text with one character per byte, without the blanks around them, and are not decoded
    before they are asked for.

    Args:
        fields: Names and values, as on the wire.

    Attributes:
        has_repeats: Whether a name occurs more than once.
    """

    __slots__ = ("_all", "_last", "fields", "has_repeats")

    def __init__(self, fields: Iterable[HeaderField] = ()) -> None:
        self.fields: tuple[HeaderField, ...] = tuple(fields)
        self._last = {name.lower(): value for name, value in self.fields}
        self._all: dict[bytes, list[bytes]] | None = None  # made when first needed, if a name occurs twice
        self.has_repeats: bool = len(self._last) < len(self.fields)

    @property
    def size(self) -> int:
        """What the names and the values weigh together, in bytes."""
        return sum(map(len, chain.from_iterable(self.fields)))

    def get(self, name: str) -> str | None:
        """Return the value of a field, several joined by commas (RFC 9110, section 5.3); `None` for none."""
        value = self._last.get(_key(name))
        if value is None:
            return None
        if self.has_repeats:
            return ", ".join(self.get_all(name))
        return value.decode("latin-1").strip(" \t")

    def get_all(self, name: str) -> list[str]:
        """Return the values of all fields of a name."""
        key = _key(name)
        last = self._last.get(key)
        if last is None:
            return []
        if not self.has_repeats:
            return [last.decode("latin-1").strip(" \t")]
        if self._all is None:
            # Otherwise each lookup would search thousands of fields.
            self._all = {}
            for each, value in self.fields:
                self._all.setdefault(each.lower(), []).append(value)
        return [value.decode("latin-1").strip(" \t") for value in self._all[key]]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _key(name) in self._last

    def __iter__(self) -> Iterator[HeaderField]:
        return iter(self.fields)

    def __repr__(self) -> str:
        # Values may be credentials.
        return f"<Headers {', '.join(name.decode('latin-1') for name in self._last)}>"


# Arguments of tools that are mirrored into header fields.

HEADER_KEYWORD: Final = "x-mcp-header"
"""The keyword by which a schema names the header field that carries an argument."""

_PRIMITIVE: Final = frozenset({"string", "integer", "boolean"})


@final
@attrs.frozen
class HeaderMark:
    """One argument that is mirrored.

    Attributes:
        header: The name of the field, after ``Mcp-Param-``.
        path: The names of the properties that lead to the argument.
    """

    header: str
    path: tuple[str, ...]


@final
class InvalidMarks(ValueError):
    """A mark breaks a rule, so the tool cannot be used over HTTP."""


def header_marks(schema: Mapping[str, Any]) -> tuple[HeaderMark, ...]:
    """Return the marks in the input schema of a tool.

    Raises:
        InvalidMarks: One of them breaks a rule. The message names both.
    """
    marks: list[HeaderMark] = []
    names: dict[str, HeaderMark] = {}
    for part, path in _subschemas(schema):
        if HEADER_KEYWORD not in part:
            continue
        mark = _read(part, path)
        if (other := names.setdefault(mark.header.lower(), mark)) is not mark:
            raise InvalidMarks(
                f"{_at(mark.path)} and {_at(other.path)} have the same {HEADER_KEYWORD} {mark.header!r}, "
                "but for case"
            )
        marks.append(mark)
    return tuple(marks)


def _subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...] | None]]:
    """Yield each schema in a schema, in document order, with its path where only `properties` lead to it."""
    # A loop and not a recursion: the server chooses the depth.
    ahead: list[tuple[Mapping[str, Any], tuple[str, ...] | None]] = [(schema, ())]
    while ahead:
        part, path = ahead.pop()
        yield part, path
        inner: list[tuple[Mapping[str, Any], tuple[str, ...] | None]] = []
        for keyword, name, further in direct_subschemas(part):
            if keyword == "properties" and path is not None and name is not None:
                inner.append((further, (*path, name)))
            else:
                inner.append((further, None))
        ahead.extend(reversed(inner))


def _read(part: Mapping[str, Any], path: tuple[str, ...] | None) -> HeaderMark:
    header: Any = part[HEADER_KEYWORD]
    if not path:
        raise InvalidMarks(f"{HEADER_KEYWORD} {header!r} is not on a property that only `properties` lead to")
    if not isinstance(header, str) or not _NAME.fullmatch(header):
        raise InvalidMarks(f"{HEADER_KEYWORD} of {_at(path)} must be the name of a header field, not {header!r}")
    kind: Any = part.get("type")
    if not isinstance(kind, str) or kind not in _PRIMITIVE:
        raise InvalidMarks(
            f"{_at(path)} has {HEADER_KEYWORD} {header!r}, so its type must be string, integer or boolean, "
            f"not {kind!r}"
        )
    return HeaderMark(header, path)


def _at(path: tuple[str, ...]) -> str:
    return ".".join(path)


# Fields of a request.

PROTOCOL_VERSION: Final = "MCP-Protocol-Version"
SESSION_ID: Final = "Mcp-Session-Id"
LAST_EVENT_ID: Final = "Last-Event-ID"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
PARAM_PREFIX: Final = "Mcp-Param-"

NAME_SOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        # The tasks extension (SEP-2663, "Streamable HTTP: Routing Headers").
        "tasks/get": "taskId",
        "tasks/update": "taskId",
        "tasks/cancel": "taskId",
    }
)
"""Which member of the parameters `Mcp-Name` mirrors, by method. No other method needs the field."""

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly; no larger one may be mirrored."""

_PREFIX: Final = "=?base64?"
_SUFFIX: Final = "?="
_SAFE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_VALID: Final = re.compile(r"[\x20-\x7e\t]*")
_NUMBER: Final = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,3})?")
_SESSION_ID: Final = re.compile(r"[\x21-\x7e]+")


def encode_header_value(value: str) -> str:
    """Return any text as the value of a header field: itself if that is safe, else in Base64 between sentinels.

    Spec: 2026-07-28, basic/transports/streamable-http, "Value Encoding".
    """
    if not value:
        return ""
    if _SAFE.fullmatch(value) and not (value.startswith(_PREFIX) and value.endswith(_SUFFIX)):
        return value
    # Half a surrogate pair has no UTF-8; the body carries it as U+FFFD, and so does the header.
    data = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")
    return f"{_PREFIX}{base64.b64encode(data).decode('ascii')}{_SUFFIX}"


def decode_header_value(value: str) -> str:
    """Return the text that the value of a header field stands for.

    Raises:
        ValueError: It contains a character other than visible ASCII, or between the sentinels is not Base64 of
            UTF-8, with exact alphabet and padding.
    """
    value = value.strip(" \t")
    if not _VALID.fullmatch(value):
        raise ValueError("it contains characters that are not visible ASCII")
    if not (value.startswith(_PREFIX) and value.endswith(_SUFFIX) and len(value) >= len(_PREFIX) + len(_SUFFIX)):
        return value
    encoded = value[len(_PREFIX) : -len(_SUFFIX)]
    try:
        data = base64.b64decode(encoded, validate=True)
        if base64.b64encode(data).decode("ascii") != encoded:  # bits beyond the end, padding in the middle
            raise ValueError("it is not canonical Base64")
        return data.decode("utf-8")
    except binascii.Error as error:
        raise ValueError(f"it is not Base64: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError("it is not Base64 of UTF-8") from error


def is_session_id(value: str) -> bool:
    """Whether a text may be a session id: visible ASCII, and not empty (2025-11-25, "Session Management")."""
    return _SESSION_ID.fullmatch(value) is not None


def version_of(params: Mapping[str, Any] | None) -> str | None:
    """Return the revision that a request names in its `_meta`, if it does (modern era)."""
    meta = None if params is None else params.get("_meta")
    version = meta.get(PROTOCOL_VERSION_KEY) if is_object(meta) else None
    return version if isinstance(version, str) else None


def request_headers(
    method: str, params: Mapping[str, Any] | None, marks: Sequence[HeaderMark] = ()
) -> list[HeaderField]:
    """Return the header fields that a modern request carries beside its body.

    Args:
        method: Its method.
        params: Its parameters as they are sent, with the revision in their `_meta`.
        marks: The marks in the schema of the tool that it calls.

    Raises:
        LocalProtocolError: A value that must be mirrored cannot be sent in a header field.
    """
    version = version_of(params)
    fields: list[tuple[str, str]] = []
    if version is not None:
        fields.append((PROTOCOL_VERSION, _plain(version, "the protocol version")))
    fields.append((METHOD, _plain(method, "the method")))
    if (name := _name_of(method, params)) is not None:
        fields.append((NAME, encode_header_value(name)))
    for mark in marks:
        text = _text_of(_argument(params, mark), mark)
        if text is not None:
            fields.append((PARAM_PREFIX + mark.header, encode_header_value(text)))
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in fields]


def _plain(value: str, what: str) -> str:
    if not _SAFE.fullmatch(value):
        raise LocalProtocolError(f"{what} must be visible ASCII to go over HTTP, not {value!r}")
    return value


def _name_of(method: str, params: Mapping[str, Any] | None) -> str | None:
    source = NAME_SOURCES.get(method)
    name = None if source is None or params is None else params.get(source)
    return name if isinstance(name, str) else None


def _argument(params: Mapping[str, Any] | None, mark: HeaderMark) -> Any:
    value: Any = None if params is None else params.get("arguments")
    for step in mark.path:
        if not is_object(value):
            return None
        value = value.get(step)
    return value


def _text_of(value: Any, mark: HeaderMark) -> str | None:
    """Return an argument as text, or `None` if it is missing or not of a type that is mirrored."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            raise LocalProtocolError(
                f"{_at(mark.path)} is {value}, but the server requires it in the header {PARAM_PREFIX}"
                f"{mark.header}, where only integers up to {MAX_SAFE_INTEGER} are allowed"
            )
        return str(value)
    if isinstance(value, float):
        return _json.encode(value).decode("ascii")
    return value if isinstance(value, str) else None


def check_request_headers(
    headers: Headers, method: str, params: Mapping[str, Any] | None, marks: Sequence[HeaderMark] = ()
) -> None:
    """Compare the header fields of a modern request with its body.

    If the body names no revision, the version field is not checked: the body is refused for that elsewhere.

    Args:
        headers: The fields of the POST.
        method: The method in its body.
        params: The parameters in its body.
        marks: The marks in the schema of the tool that it calls.

    Raises:
        RequestError: They differ, one is missing, or one cannot be read: ``-32020``, with HTTP status 400.
    """
    version = version_of(params)
    if version is not None:
        _check(PROTOCOL_VERSION, _single(headers, PROTOCOL_VERSION), version)
    _check(METHOD, _single(headers, METHOD), method)
    if (name := _name_of(method, params)) is not None:
        _check(NAME, _decoded(headers, NAME), name)
    for mark in marks:
        field = PARAM_PREFIX + mark.header
        value = _argument(params, mark)
        if isinstance(value, (dict, list)):
            continue  # its type is wrong; the check against the schema reports that better
        if value is None:
            if field in headers:
                raise _mismatch(f"{field} was sent, but the body has no {_at(mark.path)}")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            _check_number(field, _decoded(headers, field), value)
        else:
            _check(field, _decoded(headers, field), value if isinstance(value, str) else str(value).lower())


def _single(headers: Headers, name: str) -> str | None:
    if not headers.has_repeats:
        return headers.get(name)
    values = headers.get_all(name)
    if len(values) > 1:
        raise _mismatch(f"{name} was sent {len(values)} times")
    return values[0] if values else None


def _decoded(headers: Headers, name: str) -> str | None:
    value = _single(headers, name)
    try:
        return None if value is None else decode_header_value(value)
    except ValueError as error:
        raise _mismatch(f"{name} cannot be read: {error}") from error


def _check(name: str, value: str | None, body: str) -> None:
    if value is None:
        raise _mismatch(f"{name} is missing, but the body has {quoted(body)}")
    if value != body:
        raise _mismatch(f"{name} is {quoted(value)}, but the body has {quoted(body)}")


def _check_number(name: str, value: str | None, body: float) -> None:
    """Compare as numbers: ``42.0`` is 42 ("Server Validation")."""
    shown = _json.encode(body).decode("ascii")
    if value is not None and _NUMBER.fullmatch(value) and Decimal(value) == Decimal(shown):
        return
    _check(name, value, shown)


def quoted(value: str) -> str:
    """Return a value for an error message: in quotes, and cut after 100 characters."""
    return repr(value if len(value) <= 100 else f"{value[:100]}…")


def _mismatch(problem: str) -> RequestError:
    return RequestError(HEADER_MISMATCH, f"header mismatch: {problem}")


# What a client remembers.

MAX_TOOLS: Final = 10_000
"""Tools with marks that are remembered; those that were seen first are forgotten first."""

TEXT_BYTES: Final = 128
"""Bytes that a string takes in memory besides its characters, with its entry in a container."""


@final
class MarkedTools:
    """The marks of the tools that a client has seen in `tools/list`.

    Args:
        max_bytes: What they may take in memory; the tools that were seen first are forgotten first.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._marks: dict[str, tuple[HeaderMark, ...]] = {}
        self._bytes = 0

    def marks_of(self, method: str, params: Mapping[str, Any] | None) -> tuple[HeaderMark, ...]:
        """Return the marks that a request must mirror; none for a tool that was never listed."""
        name = params.get("name") if method == "tools/call" and params is not None else None
        return self._marks.get(name, ()) if isinstance(name, str) else ()

    def learn(self, result: dict[str, Any]) -> list[str]:
        """Remember the marks in a result of `tools/list`, and remove the tools from it whose marks break a rule.

        Returns:
            One sentence for each tool that was removed, with the reason.
        """
        tools = result.get("tools")
        if not is_array(tools):
            return []
        problems: list[str] = []
        kept: list[Any] = []
        for tool in tools:
            name = tool.get("name") if is_object(tool) else None
            schema = tool.get("inputSchema") if is_object(tool) else None
            if isinstance(name, str) and is_object(schema):
                try:
                    self._remember(name, header_marks(schema))
                except InvalidMarks as error:
                    self._forget(name)
                    problems.append(f"tool {name!r} cannot be used over HTTP: {error}")
                    continue
            kept.append(tool)
        if problems:
            result["tools"] = kept
        return problems

    def _remember(self, name: str, marks: tuple[HeaderMark, ...]) -> None:
        self._forget(name)
        if marks:
            self._marks[name] = marks
            self._bytes += _weight(name, marks)
            while len(self._marks) > MAX_TOOLS or self._bytes > self._max_bytes:
                self._forget(next(iter(self._marks)))

    def _forget(self, name: str) -> None:
        marks = self._marks.pop(name, None)
        if marks is not None:
            self._bytes -= _weight(name, marks)


def _weight(name: str, marks: tuple[HeaderMark, ...]) -> int:
    """Return what the marks of a tool take in memory at most: four bytes for each character, and the objects."""
    texts = [name, *(text for mark in marks for text in (mark.header, *mark.path))]
    return TEXT_BYTES * (1 + len(texts) + len(marks)) + 4 * sum(map(len, texts))
