"""The HTTP client: pools of connections by origin, and redirects within one."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, final

import attrs
import trio

from .._core._http_heads import fastest_fields
from .._errors import RemoteProtocolError
from ._connect import connect, system_ssl_context
from ._connection import HttpConnection
from ._pool import OriginPool, PoolStatistics
from ._request import HttpRequest
from ._response import HttpResponse, HttpTransport
from ._settings import HttpSettings
from ._target import HttpTarget

__all__ = ["HttpClient", "open_http_client", "send_following"]

DISCARDED_BYTES: Final = 16 * 1024
"""How much of the body of a redirect is read so that its connection can be used again."""


@final
class HttpClient:
    """Sends requests over connections that it opens, keeps and closes. Made by `open_http_client`."""

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._pools: dict[str, OriginPool] = {}
        self._ssl_context = settings.ssl_context
        self._read_fields = fastest_fields()

    def statistics(self) -> Mapping[str, PoolStatistics]:
        """Return counters by origin, for tests and debugging."""
        return {origin: pool.statistics() for origin, pool in self._pools.items()}

    async def send(self, request: HttpRequest, *, urgent: bool = False) -> HttpResponse:
        """Send a request; see `HttpTransport.send`.

        Waits for a connection, for the server to take the request, and for the head of the response. A request of
        which a byte may have been processed is never sent again.
        """
        target = request.target
        pool = self._pools.get(target.origin) or self._open_pool(target)
        response = await pool.send(request, urgent=urgent)
        encoding = response.headers.get("content-encoding")
        if encoding is not None and encoding.lower() != "identity":
            await response.aclose()
            raise RemoteProtocolError(f"{target.origin} answered with {encoding!r}, which was not asked for")
        return response

    def _open_pool(self, target: HttpTarget) -> OriginPool:
        origin = target.origin

        async def open_connection() -> HttpConnection:
            return await connect(target, self._settings, self._context(target), self._read_fields)

        pool = OriginPool(open_connection, self._settings, lambda: self._pools.pop(origin))
        self._pools[origin] = pool
        return pool

    def _context(self, target: HttpTarget) -> ssl.SSLContext | None:
        if self._ssl_context is None and target.is_secure:
            self._ssl_context = system_ssl_context()
        return self._ssl_context

    async def aclose(self) -> None:
        """Close the idle connections; see `open_http_client`."""
        for pool in tuple(self._pools.values()):
            await pool.aclose()
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def open_http_client(settings: HttpSettings | None = None) -> AsyncGenerator[HttpClient]:
    """Open an HTTP client for as long as the block runs.

    Requests must have ended before it does: run them in a nursery inside the block. Leaving closes the idle
    connections, also when cancelled, and waits for nobody.
    """
    client = HttpClient(settings or HttpSettings())
    try:
        yield client
    finally:
        with trio.CancelScope(shield=True):  # closing forcefully waits for nothing
            await client.aclose()


async def send_following(
    transport: HttpTransport, request: HttpRequest, *, urgent: bool = False, max_redirects: int = 5
) -> HttpResponse:
    """Send a request and follow redirects within its origin.

    A redirect that is not followed is the response. That is one to another origin, which has no right to what the
    request says, one too many, and one that would make a GET of a POST and lose its body (301, 302, 303).

    Raises:
        Like `HttpTransport.send`.
    """
    remaining = max_redirects
    while True:
        response = await transport.send(request, urgent=urgent)
        target = _redirect_of(request, response) if remaining else None
        if target is None:
            return response
        async with response:
            await response.read_excerpt(DISCARDED_BYTES)
        request = attrs.evolve(request, target=target)
        remaining -= 1


def _redirect_of(request: HttpRequest, response: HttpResponse) -> HttpTarget | None:
    """Return where to send the same request again, if it is to be."""
    if response.status not in (301, 302, 303, 307, 308):
        return None
    location = response.headers.get("location")
    if location is None:
        return None
    if response.status in (301, 302, 303) and request.method not in ("GET", "HEAD"):
        return None
    try:
        target = request.target.join(location)
    except ValueError:
        return None
    return target if target.origin == request.target.origin else None
