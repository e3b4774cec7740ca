"""What a client is told about a server that it reaches over HTTP."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs

from .._core._headers import HeaderField
from .._core._http_headers import LAST_EVENT_ID, METHOD, NAME, PARAM_PREFIX, PROTOCOL_VERSION, SESSION_ID
from .._core._reconnect import MAX_RETRY
from .._core._restart import RestartPolicy
from .._errors import ConnectionLost
from .._http._asgi import AsgiApplication, AsgiClient
from .._http._settings import HttpSettings
from .._http._target import HttpTarget, parse_target, shown_url
from .._limits import valid_count, valid_positive, valid_seconds

__all__ = ["HeaderSource", "HttpServerParameters", "headers_from"]

HeaderSource: TypeAlias = Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""Header fields by name, or what returns them: a plain or an async function, called for each HTTP request."""

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e\x80-\xff](?:[\x20-\x7e\t\x80-\xff]*[\x21-\x7e\x80-\xff])?|")
_OURS: Final = frozenset(
    name.lower()
    for name in (
        "Accept", "Accept-Encoding", "Cache-Control", "Connection", "Content-Encoding", "Content-Length",
        "Content-Type", "Host", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
        LAST_EVENT_ID, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID,
    )
)  # fmt: skip
"""What follows from the message and the connection, so that saying something else would break them."""


def _check_url(_instance: object, _attribute: object, value: str) -> None:
    parse_target(value)


def _check_headers(_instance: object, _attribute: object, value: HeaderSource) -> None:
    if not callable(value):
        _encode(value)


def _check_app(_instance: object, _attribute: object, value: Any) -> None:
    if value is not None and not isinstance(value, AsgiClient) and not callable(value):
        raise TypeError(f"app is an ASGI application, or an open AsgiClient, not {type(value).__name__}")


def _encode(headers: object) -> tuple[HeaderField, ...]:
    """Return header fields as they go on the wire.

    Raises:
        TypeError: They are none.
        ValueError: One cannot be sent, or is not the user's to choose. The message does not show its value.
    """
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers are a mapping of names to values, not {type(headers).__name__}")
    items = cast("Mapping[object, object]", headers)
    fields: list[HeaderField] = []
    for name, value in items.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"headers are strings: {name!r}")
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a header")
        if name.lower() in _OURS or name.lower().startswith(PARAM_PREFIX.lower()):
            raise ValueError(f"the header {name} follows from what is sent, and cannot be chosen")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the value of the header {name} contains what no header can")
        fields.append((name.encode("ascii"), value.encode("latin-1")))
    return tuple(fields)


async def headers_from(source: HeaderSource) -> tuple[HeaderField, ...]:
    """Return the header fields for one request.

    Raises:
        ConnectionLost: There are none to be had, and so nothing can be sent. The cause is what went wrong.
    """
    try:
        if not callable(source):
            return _encode(source)
        outcome = source()
        return _encode(await outcome if isinstance(outcome, Awaitable) else outcome)
    except Exception as error:
        # The boundary of a callback: it costs the request that it was called for, and whoever waits sees it.
        raise ConnectionLost(f"the headers of a request could not be made: {error!r}") from error


@final
@attrs.frozen
class HttpServerParameters:
    """A server at a URL.

    Durations are in seconds.

    Attributes:
        url: Its endpoint: ``http://``, ``https://``, or ``http+unix://`` with the percent-encoded path of a
            Unix socket for the host. Its query is not shown by ``repr``, in messages and in logs.
        headers: What every request says beside what the protocol wants, such as ``Authorization``: a mapping, or
            a plain or async function that returns one and is called for each HTTP request, so that a token can be
            renewed. What it raises is the cause of the `ConnectionLost` of that request, and costs nothing else.
        http: How connections are made and what they may cost: TLS, proxies, pools.
        app: An ASGI application in this process that is asked instead of the network. It is started and stopped
            with the client; to share one among several clients, hand over what `open_asgi_client` has opened.
            Bodies stream in both directions, and a client that leaves is a disconnect.
        transport: ``"streamable-http"``, ``"sse"`` for HTTP+SSE of 2024-11-05, or ``"auto"`` for the first and,
            if the server does not know it, the second.
        stream_timeout: How long the first call of a legacy session waits for the server to open the stream on
            which it speaks unasked; and how long a server of HTTP+SSE may take to name its endpoint.
        notification_timeout: How long the server may take to accept a notification or an answer before it counts
            as lost.
        max_resumptions: How often in a row resuming a broken stream may fail before its request does.
        max_retry_delay: How long a server may ask to wait before a stream is taken up again (``retry``).
        restart: Whether and how often to begin again when the stream of HTTP+SSE breaks, which is the only
            connection that can be lost over HTTP; calls fail then, and those made later wait for the next one.
    """

    url: str = attrs.field(validator=_check_url, repr=lambda url: repr(shown_url(url)))
    headers: HeaderSource = attrs.field(
        factory=dict[str, str], kw_only=True, repr=False, validator=_check_headers
    )
    http: HttpSettings = attrs.field(factory=HttpSettings, kw_only=True)
    app: AsgiApplication | AsgiClient | None = attrs.field(default=None, kw_only=True, validator=_check_app)
    transport: Literal["auto", "streamable-http", "sse"] = attrs.field(
        default="auto", kw_only=True, validator=attrs.validators.in_(("auto", "streamable-http", "sse"))
    )
    stream_timeout: float = attrs.field(default=3.0, kw_only=True, validator=valid_seconds)
    notification_timeout: float = attrs.field(default=30.0, kw_only=True, validator=valid_positive)
    max_resumptions: int = attrs.field(default=5, kw_only=True, validator=valid_count)
    max_retry_delay: float = attrs.field(default=MAX_RETRY, kw_only=True, validator=valid_seconds)
    restart: RestartPolicy | None = attrs.field(factory=lambda: RestartPolicy(max_restarts=10), kw_only=True)

    @property
    def target(self) -> HttpTarget:
        """The URL, taken apart."""
        return parse_target(self.url)
