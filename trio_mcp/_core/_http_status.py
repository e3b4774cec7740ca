"""HTTP statuses and JSON-RPC errors: which of one the other means, in either direction. No I/O.

Spec: 2026-07-28, basic/transports/streamable-http, "Protocol Version Header" and "Server Validation"; 2025-11-25,
basic/transports, "Sending Messages to the Server".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Final

from .._codec import _json
from .._codec._json import is_object
from .._codec._jsonrpc import ErrorResponse, InvalidMessage, parse_message
from .._errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    SERVER_BUSY,
    UNSUPPORTED_PROTOCOL_VERSION,
    RequestError,
)

__all__ = ["error_in", "parse_retry_after", "status_of_error"]

_MODERN: Final[Mapping[int, int]] = MappingProxyType(
    {
        PARSE_ERROR: 400,
        INVALID_REQUEST: 400,
        # Only a broken `_meta` must be 400; whatever else is wrong with parameters is told the same way.
        INVALID_PARAMS: 400,
        METHOD_NOT_FOUND: 404,
        HEADER_MISMATCH: 400,
        MISSING_REQUIRED_CLIENT_CAPABILITY: 400,
        UNSUPPORTED_PROTOCOL_VERSION: 400,
        SERVER_BUSY: 503,
    }
)
_LEGACY: Final[Mapping[int, int]] = MappingProxyType({PARSE_ERROR: 400, INVALID_REQUEST: 400})

MAX_RETRY_AFTER: Final = 10 * 365 * 86_400.0
"""Seconds beyond which `Retry-After` is no plan but a mistake."""


def status_of_error(code: int, *, modern: bool) -> int:
    """Return the HTTP status for an answer that is this JSON-RPC error and nothing else.

    Once something has been streamed the status is gone, and the error is the last event.
    """
    return (_MODERN if modern else _LEGACY).get(code, 200)


def error_in(body: bytes) -> RequestError | None:
    """Return the JSON-RPC error in the body of an HTTP error, if there is one; its id is not looked at.

    Servers answer with the id of the request, with null, or without any.
    """
    try:
        value = _json.decode(body)
        if is_object(value) and "error" in value:
            message = parse_message({**value, "id": None, "jsonrpc": "2.0"})
            return message.error if isinstance(message, ErrorResponse) else None
    except (ValueError, RecursionError, InvalidMessage):
        pass
    return None


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Return how many seconds a server asks to wait, or `None` if it does not say so in a way that can be read.

    Args:
        value: `Retry-After`: a number of seconds or a date (RFC 9110, section 10.2.3).
        now: The time of day, in seconds since 1970.
    """
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        seconds = float(value) if len(value) < 20 else math.inf
    else:
        try:
            date = parsedate_to_datetime(value)
        except (ValueError, TypeError, OverflowError):
            return None
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now
    return max(0.0, seconds) if seconds <= MAX_RETRY_AFTER else None
