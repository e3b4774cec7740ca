"""What a client is told about a server that it reaches over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, final

import attrs

from .._core._headers import HeaderField
from .._http._settings import HttpSettings
from .._http._target import HttpTarget, parse_target

__all__ = ["HttpServerParameters"]


def _check_url(_instance: object, _attribute: object, value: str) -> None:
    parse_target(value)


@final
@attrs.frozen
class HttpServerParameters:
    """A server at a URL.

    Durations are in seconds.

    Attributes:
        url: Its endpoint: ``http://``, ``https://``, or ``http+unix://`` with the percent-encoded path of a
            Unix socket for the host.
        headers: What every request says beside what the protocol wants, such as ``Authorization``.
        http: How connections are made and what they may cost.
        transport: ``"streamable-http"``, ``"sse"`` for HTTP+SSE of 2024-11-05, or ``"auto"`` for the first and,
            if the server does not know it, the second.
        stream_timeout: How long the first call of a legacy session waits for the server to open the stream on
            which it speaks unasked; and how long a server of HTTP+SSE may take to name its endpoint.
        notification_timeout: How long the server may take to accept a notification or an answer before it counts
            as lost.
        max_resumptions: How often in a row resuming a broken stream may fail before its request does.
    """

    url: str = attrs.field(validator=_check_url)
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], kw_only=True, repr=False)
    http: HttpSettings = attrs.field(factory=HttpSettings, kw_only=True)
    transport: Literal["auto", "streamable-http", "sse"] = attrs.field(
        default="auto", kw_only=True, validator=attrs.validators.in_(("auto", "streamable-http", "sse"))
    )
    stream_timeout: float = attrs.field(default=3.0, kw_only=True, validator=attrs.validators.ge(0))
    notification_timeout: float = attrs.field(default=30.0, kw_only=True, validator=attrs.validators.gt(0))
    max_resumptions: int = attrs.field(default=5, kw_only=True, validator=attrs.validators.ge(0))

    @property
    def target(self) -> HttpTarget:
        """The URL, taken apart."""
        return parse_target(self.url)

    @property
    def header_fields(self) -> tuple[HeaderField, ...]:
        """The headers as they go on the wire."""
        return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items())
