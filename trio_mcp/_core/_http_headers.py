"""What a request says of itself in HTTP header fields: written by the client, checked by the server.

Pure functions over decoded messages. The marks in tools' schemas are read in `_header_marks`; which Host, Origin
and media types are taken is decided in `_http_admission`.

Spec: 2026-07-28, basic/transports/streamable-http, "Request Metadata"; 2025-11-25, basic/transports, "Session
Management" and "Protocol Version Header".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from .._codec import _json
from .._codec._json import is_object
from .._errors import HEADER_MISMATCH, LocalProtocolError, RequestError
from .._revisions import PROTOCOL_VERSION_KEY
from ._header_marks import HeaderMark
from ._headers import HeaderField, Headers

__all__ = [
    "LAST_EVENT_ID",
    "METHOD",
    "NAME",
    "PARAM_PREFIX",
    "PROTOCOL_VERSION",
    "SESSION_ID",
    "check_request_headers",
    "decode_header_value",
    "encode_header_value",
    "is_session_id",
    "request_headers",
    "version_of",
]

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
        ValueError: It contains what no such value may, or what is between the sentinels is not Base64 of UTF-8:
            alphabet and padding must be exact.
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
    """Return the revision that a request names in its `_meta`, if it names one as the modern era does."""
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
        marks: What the schema of the tool it calls has marked.

    Raises:
        LocalProtocolError: Something that has to be in a header field cannot be.
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
    """Return an argument as text, or nothing if there is none or it is none of the kinds that are mirrored."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            raise LocalProtocolError(
                f"{'.'.join(mark.path)} is {value}, and the server wants it in the header {PARAM_PREFIX}"
                f"{mark.header}, where only integers up to {MAX_SAFE_INTEGER} are allowed"
            )
        return str(value)
    if isinstance(value, float):
        return _json.encode(value).decode("ascii")
    return value if isinstance(value, str) else None


def check_request_headers(
    headers: Headers, method: str, params: Mapping[str, Any] | None, marks: Sequence[HeaderMark] = ()
) -> None:
    """Hold the header fields of a modern request against its body.

    A body without revision is not judged by its version: what is wrong with it is something else.

    Args:
        headers: The fields of the POST.
        method: The method in its body.
        params: The parameters in its body.
        marks: What the schema of the tool it calls has marked.

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
            continue  # its type is wrong, and the schema says so better
        if value is None:
            if field in headers:
                raise _mismatch(f"{field} is there, and the body has no {'.'.join(mark.path)}")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            _check_number(field, _decoded(headers, field), value)
        else:
            _check(field, _decoded(headers, field), value if isinstance(value, str) else str(value).lower())


def _single(headers: Headers, name: str) -> str | None:
    if not headers.has_repeats:
        return headers.get(name)
    values = headers.get_all(name)
    if len(values) > 1:
        raise _mismatch(f"{name} is there {len(values)} times")
    return values[0] if values else None


def _decoded(headers: Headers, name: str) -> str | None:
    value = _single(headers, name)
    try:
        return None if value is None else decode_header_value(value)
    except ValueError as error:
        raise _mismatch(f"{name} cannot be read: {error}") from error


def _check(name: str, value: str | None, body: str) -> None:
    if value is None:
        raise _mismatch(f"{name} is missing, and the body says {_shown(body)}")
    if value != body:
        raise _mismatch(f"{name} is {_shown(value)}, and the body says {_shown(body)}")


def _check_number(name: str, value: str | None, body: float) -> None:
    """Compare as numbers: ``42.0`` is 42 ("Server Validation")."""
    shown = _json.encode(body).decode("ascii")
    if value is not None and _NUMBER.fullmatch(value) and Decimal(value) == Decimal(shown):
        return
    _check(name, value, shown)


def _shown(value: str) -> str:
    return repr(value if len(value) <= 100 else f"{value[:100]}…")


def _mismatch(problem: str) -> RequestError:
    return RequestError(HEADER_MISMATCH, f"header mismatch: {problem}")
