"""The HTTP client: pools of connections by origin, and redirects within one."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Final, final

import attrs
import trio

from .._errors import RemoteProtocolError
from ._connect import connect, system_ssl_context
from ._connection import HttpConnection
from ._pool import OriginPool, PoolStatistics
from ._request import HttpRequest
from ._response import HttpResponse, HttpTransport
from ._settings import HttpSettings
from ._target import HttpTarget

__all__ = ["HttpClient", "open_http_client", "request_following"]

DISCARDED_BYTES: Final = 16 * 1024
"""How much of the body of a redirect is read so that its connection can be used again."""


@final
class HttpClient:
    """Sends requests over connections that it opens, keeps and closes. Made by `open_http_client`."""

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._pools: dict[str, OriginPool] = {}
        self._ssl_context = settings.ssl_context

    def statistics(self) -> Mapping[str, PoolStatistics]:
        """Return counters by origin, for tests and debugging."""
        return {origin: pool.statistics() for origin, pool in self._pools.items()}

    @asynccontextmanager
    async def request(self, request: HttpRequest, *, urgent: bool = False) -> AsyncGenerator[HttpResponse]:
        """Send a request; see `HttpTransport.request`.

        Entering waits for a connection, for the server to take the request, and for the head of the response.
        Leaving before the response is complete, in whatever way, closes the connection without another word. A
        request of which a byte may have been processed is never sent again.
        """
        target = request.target
        with self._pool(target) as pool:
            async with pool.request(request, urgent=urgent) as response:
                encoding = response.headers.get("content-encoding")
                if encoding is not None and encoding.lower() != "identity":
                    raise RemoteProtocolError(
                        f"{target.origin} answered with {encoding!r}, which was not asked for"
                    )
                yield response

    @contextmanager
    def _pool(self, target: HttpTarget) -> Generator[OriginPool]:
        pool = self._pools.get(target.origin)
        if pool is None:

            async def open_connection() -> HttpConnection:
                return await connect(target, self._settings, self._context(target))

            pool = self._pools[target.origin] = OriginPool(open_connection, self._settings)
        pool.users += 1
        try:
            yield pool
        finally:
            pool.users -= 1
            if pool.is_unused:
                del self._pools[target.origin]

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


@asynccontextmanager
async def request_following(
    transport: HttpTransport, request: HttpRequest, *, urgent: bool = False, max_redirects: int = 5
) -> AsyncGenerator[HttpResponse]:
    """Send a request and follow redirects within its origin.

    A redirect that is not followed is the response. That is one to another origin, which has no right to what the
    request says, one too many, and one that would make a GET of a POST and lose its body (301, 302, 303).

    Raises:
        Like `HttpTransport.request`.
    """
    for remaining in range(max_redirects, -1, -1):
        async with transport.request(request, urgent=urgent) as response:
            target = _redirect_of(request, response) if remaining else None
            if target is None:
                yield response
                return
            await response.read_excerpt(DISCARDED_BYTES)
        request = attrs.evolve(request, target=target)


def _redirect_of(request: HttpRequest, response: HttpResponse) -> HttpTarget | None:
    """Return where to send the same request again, if it is to be."""
    location = response.headers.get("location")
    if location is None or response.status not in (301, 302, 303, 307, 308):
        return None
    if response.status in (301, 302, 303) and request.method not in ("GET", "HEAD"):
        return None
    try:
        target = request.target.join(location)
    except ValueError:
        return None
    return target if target.origin == request.target.origin else None
