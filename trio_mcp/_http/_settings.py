"""How HTTP connections are made and what they may cost."""

from __future__ import annotations

import ssl
from typing import Any, final

import attrs

from .._limits import KIB, _positive, _seconds, _size, check_whole, valid_count
from ._proxy import read_proxy

__all__ = ["HttpSettings"]


def _check_proxy(_instance: object, _attribute: object, value: str | None) -> None:
    if value is not None:
        read_proxy(value)


def _check_head(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_whole(attribute.name, value, at_least=1 * KIB)


@final
@attrs.frozen(kw_only=True)
class HttpSettings:
    """How HTTP connections are made and what they may cost. Durations are in seconds.

    Attributes:
        ssl_context: How TLS is spoken: whom to trust, with which certificate to answer. Default: the system's
            trust store. The context decides about everything, so one that verifies nothing is obeyed.
        proxy: The URL of a proxy for everything but Unix sockets, ``http://`` or ``https://``, perhaps with a
            user name and a password. Whether what goes through it is encrypted says the server's URL.
        use_environment_proxies: Whether ``http_proxy``, ``https_proxy`` and ``no_proxy`` count where there is no
            `proxy`. This machine itself is never asked for through one of those.
        max_connections: Connections to one origin that are in use at once; further requests wait for their turn.
            Answers and cancellations do not, because those that hold the connections may wait for them.
        max_idle_connections: Connections to one origin that are kept for the next request.
        idle_timeout: How long they are kept.
        connect_timeout: From looking up the name until TLS is established, through a proxy if there is one.
        max_head_bytes: The largest head of a response.
        max_redirects: Redirects that are followed for one request, all of them within the origin.
    """

    ssl_context: ssl.SSLContext | None = attrs.field(default=None, repr=False)
    proxy: str | None = attrs.field(default=None, repr=False, validator=_check_proxy)
    use_environment_proxies: bool = True
    max_connections: int = _size(256)
    max_idle_connections: int = attrs.field(default=16, validator=valid_count)
    idle_timeout: float = _seconds(75.0)
    connect_timeout: float = _positive(10.0)
    max_head_bytes: int = attrs.field(default=64 * KIB, validator=_check_head)
    max_redirects: int = attrs.field(default=5, validator=valid_count)
