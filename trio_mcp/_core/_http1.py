"""HTTP/1.1 heads as both ends read them: lines, fields, framing, and the chunked coding; and MCP's own fields.

What two readers may read differently is refused, because a proxy and we would then disagree where a message ends
(request smuggling). First lines, and where a head ends in a stream, belong to the client and the hosts. Which
Host, Origin and media types are accepted is decided in `_http_rules`. No I/O.

Spec: RFC 9112, sections 2.2 to 6.3 and 7.1.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast, final, overload

import attrs

from .._codec import _json
from .._codec._json import is_object
from .._errors import HEADER_MISMATCH, LocalProtocolError, RequestError
from .._revisions import PROTOCOL_VERSION_KEY
from ._output_schemas import direct_subschemas

# Header fields: a container for them, and those in which a request repeats what its body holds: revision, method,
# name, and the arguments that a tool's input schema marks with `x-mcp-header`. The client writes the latter and
# the server checks them.
#
# Spec: 2026-07-28, basic/transports/streamable-http, "Request Metadata", "Schema Extension", "Client Behavior";
# server/tools, "x-mcp-header"; 2025-11-25, basic/transports, "Session Management", "Protocol Version Header".


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
    field = _encoded_field(name, value)
    if field[0].lower() in _FRAMING:
        raise ValueError(f"{name!r} cannot be set: the HTTP host sets it")
    return field


def _encoded_field(name: str | bytes, value: str | bytes) -> HeaderField:
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
    if _VALUE.fullmatch(content) is None:
        raise ValueError(f"{value!r} cannot be sent in a header field: it contains a control character")
    return encoded, content


def answer_fields(given: Iterable[HeaderField]) -> tuple[list[HeaderField], int | None]:
    """Check the header fields of an answer that an author writes.

    Returns:
        The fields as they go on the wire, and the length of the body if one of them declares it.

    Raises:
        LocalProtocolError: One cannot be sent. The error names it.
    """
    fields: list[HeaderField] = []
    declared: int | None = None
    for name, value in given:
        try:
            field = _encoded_field(name, value)
            if (key := field[0].lower()) == b"transfer-encoding":
                raise ValueError("the HTTP host sets it")
            if key == b"content-length":
                if declared is not None or not field[1].isdigit() or len(field[1]) > MAX_DIGITS:
                    raise ValueError(f"it must be sent once, as a number, not as {value!r:.100}")
                declared = int(field[1])
        except (TypeError, ValueError) as error:
            raise LocalProtocolError(f"the header field {name!r:.100} cannot be sent: {error}") from error
        fields.append(field)
    return fields, declared


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
        last: The value of each field as on the wire, by its name in lower case; of several the last.
    """

    __slots__ = ("_all", "fields", "has_repeats", "last")

    def __init__(self, fields: Iterable[HeaderField] = ()) -> None:
        self.fields: tuple[HeaderField, ...] = tuple(fields)
        self.last: dict[bytes, bytes] = {name.lower(): value for name, value in self.fields}
        self._all: dict[bytes, list[bytes]] | None = None  # made when first needed, if a name occurs twice
        self.has_repeats: bool = len(self.last) < len(self.fields)

    @property
    def size(self) -> int:
        """What the names and the values weigh together, in bytes."""
        return sum(map(len, chain.from_iterable(self.fields)))

    @overload
    def get(self, name: str) -> str | None: ...
    @overload
    def get(self, name: str, default: str) -> str: ...
    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the value of a field, several joined by commas (RFC 9110, section 5.3); else the default."""
        value = self.last.get(_key(name))
        if value is None:
            return default
        if self.has_repeats:
            return ", ".join(self.get_all(name))
        return value.decode("latin-1").strip(" \t")

    def get_all(self, name: str) -> list[str]:
        """Return the values of all fields of a name."""
        key = _key(name)
        last = self.last.get(key)
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
        return isinstance(name, str) and _key(name) in self.last

    def __iter__(self) -> Iterator[HeaderField]:
        return iter(self.fields)

    def __repr__(self) -> str:
        # Values may be credentials.
        return f"<Headers {', '.join(name.decode('latin-1') for name in self.last)}>"


CREDENTIALS: Final = frozenset({b"authorization", b"proxy-authorization", b"cookie", b"dpop"})
"""The fields that show who a client is. Handlers get none of them: they might send them on."""


@final
class ShownHeaders(Mapping[str, str]):
    """The header fields of a request as handlers see them: without credentials, and read-only.

    Args:
        headers: The fields.
    """

    __slots__ = ("_headers",)

    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def __getitem__(self, name: str) -> str:
        value = None if _key(name) in CREDENTIALS else self._headers.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        seen = dict.fromkeys(name.lower() for name, _ in self._headers.fields)
        return (name.decode("latin-1") for name in seen if name not in CREDENTIALS)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<ShownHeaders {', '.join(self)}>"  # values may be secrets


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
            f"not {kind or 'a union'!r}"
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

Params: TypeAlias = Mapping[str, Any] | None
Names: TypeAlias = Mapping[str, str]

NAME_SOURCES: Final[Names] = MappingProxyType(
    {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        # The tasks extension (SEP-2663, "Streamable HTTP: Routing Headers"), which a proxy passes on unseen.
        "tasks/get": "taskId",
        "tasks/update": "taskId",
        "tasks/cancel": "taskId",
    }
)
"""Which member of the parameters `Mcp-Name` mirrors, by method. Extensions may add methods of their own."""

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
    # Half a surrogate pair has no UTF-8, so the body is refused; an error about a header would not say where.
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


def version_of(params: Params) -> str | None:
    """Return the revision that a request names in its `_meta`, if it does (modern era)."""
    meta = None if params is None else params.get("_meta")
    version = meta.get(PROTOCOL_VERSION_KEY) if is_object(meta) else None
    return version if isinstance(version, str) else None


def request_headers(
    method: str, params: Params, marks: Sequence[HeaderMark] = (), names: Names = NAME_SOURCES
) -> list[HeaderField]:
    """Return the header fields that a modern request carries beside its body.

    Args:
        method: Its method.
        params: Its parameters as they are sent, with the revision in their `_meta`.
        marks: The marks in the schema of the tool that it calls.
        names: Which member of the parameters names what a request is about, by method.

    Raises:
        LocalProtocolError: A value that must be mirrored cannot be sent in a header field.
    """
    version = version_of(params)
    fields: list[tuple[str, str]] = []
    if version is not None:
        fields.append((PROTOCOL_VERSION, _plain(version, "the protocol version")))
    fields.append((METHOD, _plain(method, "the method")))
    if (name := name_of(method, params, names)) is not None:
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


def name_of(method: str, params: Params, names: Names = NAME_SOURCES) -> str | None:
    """Return what a request is about, which a header field repeats: the name of a tool, or a URI."""
    source = names.get(method)
    name = None if source is None or params is None else params.get(source)
    return name if isinstance(name, str) else None


def _argument(params: Params, mark: HeaderMark) -> Any:
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
    headers: Headers, method: str, params: Params, marks: Sequence[HeaderMark] = (), names: Names = NAME_SOURCES
) -> None:
    """Compare the header fields of a modern request with its body.

    If the body names no revision, the version field is not checked: the body is refused for that elsewhere.

    Args:
        headers: The fields of the POST.
        method: The method in its body.
        params: The parameters in its body.
        marks: The marks in the schema of the tool that it calls.
        names: Which member of the parameters names what a request is about, by method.

    Raises:
        RequestError: They differ, one is missing, or one cannot be read: ``-32020``, with HTTP status 400.
    """
    version = version_of(params)
    name = name_of(method, params, names)
    if not marks and _agree_exactly(headers, version, method, name):
        return
    if version is not None:
        _check(PROTOCOL_VERSION, _single(headers, PROTOCOL_VERSION), version)
    _check(METHOD, _single(headers, METHOD), method)
    if name is not None:
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


def _agree_exactly(headers: Headers, version: str | None, method: str, name: str | None) -> bool:
    """Whether each field is sent once, and is what the body has, to the letter: as nearly always."""
    last = headers.last
    return (
        not headers.has_repeats
        and version is not None
        and _SAFE.fullmatch(version) is not None
        and last.get(b"mcp-protocol-version") == version.encode("ascii")
        and _SAFE.fullmatch(method) is not None
        and last.get(b"mcp-method") == method.encode("ascii")
        and (
            name is None
            or (
                _SAFE.fullmatch(name) is not None
                and not name.startswith(_PREFIX)
                and last.get(b"mcp-name") == name.encode("ascii")
            )
        )
    )


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


# Heads: their fields, and what follows from these.
#
# httptools or h11 read the field lines; the first line of a head is read by the caller. Both libraries read whole
# messages only, so the fields are given to them behind a forged first line, always that of a response. One reader
# thus serves requests and responses, and the libraries are kept from deciding anything else: a response with
# status 200 gives no field another meaning, while a request line would bring their own rules about Host, methods
# and upgrades. This is worth it because httptools reads fields in C, and h11 knows every rule about them.
#
# What keeps it safe: `check_lines` comes before and refuses what the two libraries read differently (bare line
# feeds, folded lines, control characters), `framing_of` comes after and decides the length of the body from the
# fields alone, never from the library. Without either, a head could pass that h11 alone would refuse.

_ALLOWED: Final = bytes([0x09, 0x0A, 0x0D, *range(0x20, 0x7F), *range(0x80, 0x100)])
BODILESS: Final = frozenset({204, 304})
"""Statuses of answers that end with their head, whatever its fields say (RFC 9112, section 6.3)."""

MAX_DIGITS: Final = 18
_LENGTH: Final = re.compile(rf"[0-9]{{1,{MAX_DIGITS}}}")
_LENGTH_FIELD: Final = b"\ncontent-length:"
_FIRST_LINE: Final = b"HTTP/1.1 200 OK\r\n"

ReadFields: TypeAlias = Callable[[bytes], Iterable[HeaderField]]
"""Reads all lines of a head but the first, down to the empty one. Raises `ValueError`."""


def h11_fields(lines: bytes) -> Iterable[HeaderField]:
    """Read fields with h11; see `ReadFields`."""
    import h11

    connection = h11.Connection(h11.CLIENT)
    connection.receive_data(_FIRST_LINE + lines)
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError as error:
        raise ValueError(str(error)) from error
    if not isinstance(event, h11.Response):
        raise ValueError("it is not complete")
    check_lengths(lines)
    return event.headers


def check_lengths(lines: bytes) -> None:
    """Refuse several equal lengths, of which h11 makes one.

    Args:
        lines: All lines but the first.

    Raises:
        ValueError: Content-Length occurs more than once.
    """
    lines = b"\n" + lines.lower()
    at = lines.find(_LENGTH_FIELD)
    if at >= 0:
        end = lines.find(b"\n", at + 1)
        if b"," in lines[at:end] or _LENGTH_FIELD in lines[end:]:
            raise ValueError("Content-Length occurs more than once")


def httptools_fields() -> ReadFields:
    """Return a function that reads fields with httptools; see `ReadFields`.

    Raises:
        ModuleNotFoundError: httptools is not installed.
    """
    import httptools

    def read(lines: bytes) -> Iterable[HeaderField]:
        fields = _Fields()
        try:
            httptools.HttpResponseParser(fields).feed_data(_FIRST_LINE + lines)
        except httptools.HttpParserUpgrade:
            pass  # a connection is never upgraded here; the fields were read
        except httptools.HttpParserError as error:
            raise ValueError(str(error)) from error
        if not fields.is_complete:
            raise ValueError("it is not complete")
        return fields.fields

    return read


@final
class _Fields:
    """Collects what httptools reads; httptools calls the methods."""

    __slots__ = ("fields", "is_complete")

    def __init__(self) -> None:
        self.fields: list[HeaderField] = []
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        self.is_complete = True


def fastest_fields() -> ReadFields:
    """Return the fastest reader that is installed."""
    return h11_fields if importlib.util.find_spec("httptools") is None else httptools_fields()


def check_lines(head: bytes) -> None:
    """Check that a head is made of lines that end with CRLF and hold no control characters.

    Raises:
        ValueError: A line does not, or holds one, or goes on in the next line.
    """
    if head.translate(None, _ALLOWED):
        raise ValueError("it contains control characters")
    if not head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r"):
        raise ValueError("a line does not end with CRLF")
    if b"\r\n " in head or b"\r\n\t" in head:
        raise ValueError("a field goes on in the next line")


def closes(headers: Headers) -> bool:
    """Whether a message is the last on its connection by its own declaration (RFC 9112, section 9.6)."""
    if b"connection" not in headers.last:
        return False
    connection = headers.get("connection")
    return connection is not None and "close" in [each.strip() for each in connection.lower().split(",")]


def framing_of(headers: Headers, *, is_one_one: bool) -> int | Literal["chunked"] | None:
    """Return the declared length of a body, ``"chunked"``, or `None` for neither (RFC 9112, section 6.3).

    Args:
        headers: The fields of the message.
        is_one_one: Whether the message is HTTP/1.1, and not 1.0.

    Raises:
        ValueError: The length is declared in more than one way, or cannot be read.
    """
    if not headers.has_repeats and b"transfer-encoding" not in headers.last:
        declared = headers.last.get(b"content-length")
        if declared is None:
            return None
        if declared.isdigit() and len(declared) <= MAX_DIGITS:
            return int(declared)
    coding = headers.get("transfer-encoding")
    length = headers.get("content-length")
    if coding is not None:
        if length is not None:
            raise ValueError("a message may not have both Transfer-Encoding and Content-Length")
        if not is_one_one:
            raise ValueError("HTTP/1.0 has no Transfer-Encoding")
        if coding.lower() != "chunked":
            raise ValueError(f"Transfer-Encoding must be chunked, not {coding[:100]!r}")
        return "chunked"
    if length is None:
        return None
    if _LENGTH.fullmatch(length) is None:  # several are joined by commas, equal or not
        raise ValueError(f"Content-Length must be one number of at most 18 digits, not {length[:100]!r}")
    return int(length)


# Chunks. Their extensions and trailer fields are read and ignored; they may not change a message's meaning.

MAX_SIZE_LINE: Final = 1024
"""Bytes in the line before a chunk, with its extensions, and in one trailer field."""

MAX_TRAILER_BYTES: Final = 16 * 1024
"""Bytes in all trailer fields together."""

MAX_FRAMING_BYTES: Final = 64 * 1024
"""Bytes of size lines and line ends that a request may have, besides an eighth of its data. No client needs more.

Reading a chunk of one byte takes as long as reading a chunk of thousands of bytes.
"""

MAX_FRAMING_OF_RESPONSE: Final = 1024 * 1024
"""The same for a response, besides twice its data: a long-lived stream of short events has very many chunks."""

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e]*)?")
_PADDED_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[\t ]*|;[\t\x20-\x7e]*)")
_TRAILER: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n")


@final
class ChunkedReader:
    """Reads one body, from its first byte to its last. Memory is bounded, and nothing is read twice.

    Args:
        of_response: Whether blanks may follow a size, with which some servers pad it, and chunks may be short.

    Attributes:
        is_complete: Whether the whole body was read.
        rest: The bytes behind the body.
    """

    def __init__(self, *, of_response: bool = False) -> None:
        self._size = _PADDED_SIZE if of_response else _SIZE
        self._is_response = of_response
        self._data_bytes = 0
        self._framing_bytes = 0
        self._trailer_left = MAX_TRAILER_BYTES
        self._line = bytearray()
        self._left = 0  # of the chunk that is being read, with the CRLF behind it
        self._is_last = False
        self.is_complete = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes and return the data of the body in them.

        Raises:
            ValueError: They break the chunked coding, or a bound.
        """
        parts: list[bytes] = []
        at = 0
        while at < len(data) and not self.is_complete:
            if self._left > 2:
                parts.append(data[at : at + self._left - 2])
                at += len(parts[-1])
                self._left -= len(parts[-1])
            elif self._left:
                expected = b"\r\n"[-self._left :]
                found = data[at : at + self._left]
                if not expected.startswith(found):
                    raise ValueError("a chunk is longer than its size")
                at += len(found)
                self._left -= len(found)
            else:
                at = self._read_line(data, at)
        if self.is_complete:
            self.rest = data[at:]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_line(self, data: bytes, at: int) -> int:
        """Read a line: a size, a trailer field, or the empty one at the end. Return where the next begins."""
        line = self._line
        end = data.find(b"\n", at, at + MAX_SIZE_LINE + 1 - len(line)) + 1
        line += data[at : end or at + MAX_SIZE_LINE + 1 - len(line)]
        if not end:
            if len(line) > MAX_SIZE_LINE:
                raise ValueError(f"the line before or behind a chunk is longer than {MAX_SIZE_LINE} bytes")
            return len(data)
        if self._is_last:
            self._trailer_left -= len(line)
            if bytes(line) == b"\r\n":
                self.is_complete = True
            elif self._trailer_left < 0 or not _TRAILER.fullmatch(line):
                raise ValueError("after the last chunk, trailer fields are too large or cannot be read")
        else:
            found = self._size.fullmatch(line, 0, len(line) - 2) if line.endswith(b"\r\n") else None
            if found is None:
                raise ValueError("the size of a chunk must be 1 to 16 hexadecimal digits and end with CRLF")
            size = int(found[1], 16)
            self._is_last = not size
            self._left = size + 2 if size else 0
            self._count(size, len(line) + 2)
        line.clear()
        return end

    def _count(self, data: int, framing: int) -> None:
        """Count the declared size of a chunk, and the bytes around it."""
        self._data_bytes += data
        self._framing_bytes += framing
        if self._is_response:
            most = MAX_FRAMING_OF_RESPONSE + 2 * self._data_bytes
        else:
            most = MAX_FRAMING_BYTES + self._data_bytes // 8
        if self._framing_bytes > most:
            raise ValueError(
                f"its chunks are too short: {self._framing_bytes} bytes around {self._data_bytes} bytes of data"
            )
