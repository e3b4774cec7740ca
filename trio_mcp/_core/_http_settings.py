"""What an HTTP endpoint serves, whom it lets in, and what it may cost. Nothing here does anything."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, final, get_args

import attrs

from .._limits import KIB, MIB, _positive, _size, check_number, check_seconds
from ._forwarding import ProxyHeaders, ProxyRules
from ._http_admission import LOCAL_HOSTS, LOCAL_ORIGINS, HostRules

__all__ = ["HttpHost", "HttpServerSettings"]

HttpHost: TypeAlias = Literal["hypercorn", "lean"]
"""What reads and writes HTTP for an endpoint; see `serve_http`."""


def _check_rate(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if check_number(attribute.name, value, is_finite=False) <= 0:
        raise ValueError(f"{attribute.name} must be more than 0, not {value!r}")


def _check_delay(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_seconds(attribute.name, value, may_be_zero=False, is_told=True)


def _check_path(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or not value.startswith("/") or "?" in value or "#" in value:
        raise ValueError(f"{attribute.name} must be a path that begins with a slash, not {value!r}")


def _path(default: str) -> str:
    path: str = attrs.field(default=default, validator=_check_path)
    return path


def _several(names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise TypeError(f"hosts, origins and proxies come as several, not as {names!r}")
    return frozenset(names)


def _names(names: Iterable[str] | None) -> frozenset[str] | None:
    return None if names is None else _several(names)


@final
@attrs.frozen(kw_only=True)
class HttpServerSettings:
    """What an HTTP endpoint serves, whom it lets in, and what it may cost.

    By default it lets in who calls it by a name of this machine itself, and the web pages of this machine. Sizes
    are bytes, durations are seconds; ``math.inf`` means "never" for a duration.

    Attributes:
        path: Where the endpoint is, for every revision with Streamable HTTP.
        allowed_hosts: The values of `Host` that are let in, against DNS rebinding: ``example.com`` with any port,
            ``example.com:8000`` with that port only, ``*.example.com`` for every name below; `None` for all. A
            server that others reach by a name needs that name here. Others get 421.
        allowed_origins: The values of `Origin` that are let in: ``https://example.com``, or
            ``http://localhost:*`` for any port; `None` for all. Others get 403.
        trusted_proxies: Who is believed when it says for whom it sends a request: addresses (``10.0.0.7``),
            networks (``10.0.0.0/8``), and ``unix`` for whatever connects to a Unix socket. The address and the
            scheme of a request are then those that the last proxy that is not listed here would have seen.
        proxy_headers: Where proxies say it: in ``X-Forwarded-For`` and ``X-Forwarded-Proto``, or in ``Forwarded``
            (RFC 7239). The other is not looked at: who sends a request may have written it.
        allow_anonymous: Whether a request is let in, without a principal, of which `authenticate` says by `None`
            that it is nobody's; otherwise it gets 401. Without `authenticate` all are let in, whatever this says.
        authenticate_timeout: How long `authenticate` may take; 503 beyond.
        cors: Whether web pages of the allowed origins may read what is answered (the Fetch standard's CORS).
        json_only: Whether requests are answered by one JSON object each and never by a stream. What a handler
            reports meanwhile then goes nowhere in the modern era, and to the session's own stream in the legacy
            era. ``subscriptions/listen`` is a stream all the same.
        stateless: Whether requests of the legacy era are served one by one, without sessions. Handlers can then
            ask their clients nothing, and nobody is told of changes.
        sse: Whether HTTP+SSE, the deprecated transport of 2024-11-05, is served beside it.
        sse_path: Where its stream is.
        messages_path: Where its messages are posted to.
        max_body_bytes: The largest body of a request; 413 beyond.
        max_head_bytes: What the header fields of a request may weigh together; 431 beyond.
        body_timeout: How long a body may take to arrive; 408 beyond.
        send_timeout: How long a client may read nothing of what is written to it before its connection is cut.
        head_timeout: How long the head of a request may take to arrive, from its first byte. Then its connection
            is cut.
        idle_timeout: How long a connection is kept without a request.
        max_connections: Connections at once. Once all are taken, the address that has most gives way to one that
            has less: what rests, without a request, at once, and what is served after a second. Where all have as
            much, further ones take the place of the one that has rested longest, or wait for one. There are fewer
            if the process may not open so many files.
        max_connections_per_address: The same, of one address (IPv6: one network) that is no trusted proxy's.
            Further ones take the place of the one of theirs that rests longest; where none does, they are closed.
        keep_alive_interval: How long a stream is silent before a comment shows that it lives, and how long a
            request may take before its answer becomes a stream.
        max_requests: Requests that are served at once, of all clients; 503 beyond. As many messages may be read
            at once beside them, so that cancellations and answers to what handlers ask get through. Among these
            is all of which `authenticate` has still to say whose it is.
        max_requests_per_principal: The same, of one client: a principal, or an address where nobody
            authenticates; 429 beyond. What `authenticate` looks at, or has refused, is its address's.
        max_request_rate: Requests per second of one client, in the long run; 429 beyond. All methods count.
        request_burst: How many requests may come at once before that counts.
        max_sessions: Sessions of the legacy era at once. For a further one the session gives way that is idle for
            longest, of the client which has most of them; 503 if none of those is idle.
        max_sessions_per_principal: The same, of one client: a principal, or an address where nobody
            authenticates. For a further one its own session ends that is idle for longest; 429 if none is, or
            if more than a hundred of them, and then all of them in 30 seconds, were replaced so.
        session_idle_timeout: How long a session is kept while its client has no request and no stream open.
        handshake_timeout: The same, while its client has done nothing but begin it. What a client says of itself
            when it begins one is bounded by `Limits.max_client_info_bytes`.
        stream_timeout: How long what a handler asks waits for the client to open the stream of its session (GET),
            where answers are no streams (`json_only`). Then the handler learns that the client cannot be asked
            (`CapabilityMissing`).
        retry_delay: How long clients of the legacy era are asked to wait before they take a stream up again; not
            ``math.inf``, for they would not come back.
    """

    path: str = _path("/mcp")
    allowed_hosts: frozenset[str] | None = attrs.field(default=LOCAL_HOSTS, converter=_names)
    allowed_origins: frozenset[str] | None = attrs.field(default=LOCAL_ORIGINS, converter=_names)
    trusted_proxies: frozenset[str] = attrs.field(default=frozenset[str](), converter=_several)
    proxy_headers: ProxyHeaders = attrs.field(
        default="x-forwarded", validator=attrs.validators.in_(get_args(ProxyHeaders))
    )
    allow_anonymous: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    authenticate_timeout: float = _positive(30.0)
    cors: bool = False
    json_only: bool = False
    stateless: bool = False
    sse: bool = False
    sse_path: str = _path("/sse")
    messages_path: str = _path("/messages")
    max_body_bytes: int = _size(4 * MIB)
    max_head_bytes: int = _size(32 * KIB)
    body_timeout: float = _positive(30.0)
    send_timeout: float = _positive(30.0)
    head_timeout: float = _positive(15.0)
    idle_timeout: float = _positive(75.0)
    max_connections: int = _size(1_000)
    max_connections_per_address: int = _size(500)
    keep_alive_interval: float = _positive(15.0)
    max_requests: int = _size(1_000)
    max_requests_per_principal: int = _size(200)
    max_request_rate: float = attrs.field(default=math.inf, validator=_check_rate)
    request_burst: int = _size(100)
    max_sessions: int = _size(10_000)
    max_sessions_per_principal: int = _size(2_000)
    session_idle_timeout: float = _positive(1_800.0)
    handshake_timeout: float = _positive(30.0)
    stream_timeout: float = _positive(5.0)
    retry_delay: float = attrs.field(default=1.0, validator=_check_delay)

    def __attrs_post_init__(self) -> None:
        self.host_rules()  # what cannot be read is refused here, and not at the first request
        self.proxy_rules()
        paths = (self.path, self.sse_path, self.messages_path) if self.sse else (self.path,)
        if len(set(paths)) < len(paths):
            raise ValueError("path, sse_path and messages_path must differ")

    def host_rules(self) -> HostRules:
        """Return who is let in."""
        return HostRules(allowed_hosts=self.allowed_hosts, allowed_origins=self.allowed_origins)

    def proxy_rules(self) -> ProxyRules:
        """Return which proxies are believed."""
        return ProxyRules(self.trusted_proxies, self.proxy_headers)
