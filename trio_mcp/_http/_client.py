"""The HTTP client: pools of connections by origin, and redirects within one.

The connections to one origin: idle, or owned by exactly one request.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeAlias, final

import attrs
import trio

from .._core._http1 import fastest_fields
from .._errors import RemoteProtocolError
from ._connection import HttpConnection, connect, system_ssl_context
from ._messages import HttpRequest, HttpResponse, HttpTransport
from ._target import HttpSettings, HttpTarget

Connect: TypeAlias = Callable[[], Awaitable[HttpConnection]]


@final
@attrs.frozen
class PoolStatistics:
    """What is going on with one origin.

    Attributes:
        idle: Connections that wait for a request.
        in_use: Requests that hold a connection, or are getting one.
        waiting: Requests that wait for their turn.
    """

    idle: int
    in_use: int
    waiting: int


@final
class OriginPool:
    """The connections to one origin.

    Whoever came first is served first. Idle connections are used latest first, so that those that are not needed
    grow old; old ones are closed when the next request passes by, as are those the server has closed.

    Args:
        connect: Opens another one.
        settings: How many, and for how long.
        on_unused: Called when there is nothing here any more that is worth keeping.
    """

    def __init__(self, connect: Connect, settings: HttpSettings, on_unused: Callable[[], object]) -> None:
        self._connect = connect
        self._settings = settings
        self._on_unused = on_unused
        self._idle: deque[tuple[HttpConnection, float]] = deque()  # with the time until it is kept, oldest first
        self._turns = trio.Semaphore(settings.max_connections, max_value=settings.max_connections)
        self._users = 0  # requests that are here, whether or not they have come to their turn
        self._in_use = 0
        self._closed = False

    def statistics(self) -> PoolStatistics:
        """Return counters, for tests and debugging."""
        return PoolStatistics(len(self._idle), self._in_use, self._turns.statistics().tasks_waiting)

    async def send(self, request: HttpRequest, *, urgent: bool) -> HttpResponse:
        """Send a request over a connection of its own; see `HttpTransport.send`."""
        self._users += 1
        try:
            if not urgent:
                try:
                    self._turns.acquire_nowait()  # saves a turn of the event loop; sending is a checkpoint
                except trio.WouldBlock:
                    await self._turns.acquire()
        except BaseException:
            self._leave()
            raise
        use = _Use(self, is_urgent=urgent)
        self._in_use += 1
        try:
            use.connection = connection = await self._get()
            head = await connection.start(request)
        except BaseException:
            await use.aclose()
            raise
        return HttpResponse(request, head.status, head.headers, use, reason=head.reason)

    async def let_go(self, connection: HttpConnection | None, *, urgent: bool) -> None:
        """Take back what a request had. No checkpoint before its connection is idle or about to be closed."""
        self._in_use -= 1
        if not urgent:
            self._turns.release()
        try:
            if connection is not None and not self._keep(connection):
                await connection.aclose()
        finally:
            self._leave()

    def _leave(self) -> None:
        self._users -= 1
        if not self._idle and not self._users:
            self._on_unused()

    async def _get(self) -> HttpConnection:
        """Return a connection that nobody owns and that was alive a moment ago."""
        now = trio.current_time()
        while self._idle and self._idle[0][1] <= now:
            await self._idle.popleft()[0].aclose()
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.is_stale:
                return connection
            # Nothing of the request has been sent, so another connection may have it.
            await connection.aclose()
        return await self._connect()

    def _keep(self, connection: HttpConnection) -> bool:
        """Put a connection back, if it can be used again and there is room for it."""
        if self._closed or len(self._idle) >= self._settings.max_idle_connections or not connection.is_reusable:
            return False
        self._idle.append((connection, trio.current_time() + self._settings.idle_timeout))
        return True

    async def aclose(self) -> None:
        """Close what is idle, and keep nothing from now on. Requests end with their owners."""
        self._closed = True
        while self._idle:
            await self._idle.popleft()[0].aclose()
        await trio.lowlevel.checkpoint()


@final
class _Use:
    """The use that one request makes of a pool: a turn, and a connection once there is one."""

    __slots__ = ("_is_urgent", "_pool", "connection")

    def __init__(self, pool: OriginPool, *, is_urgent: bool) -> None:
        self._pool: OriginPool | None = pool
        self._is_urgent = is_urgent
        self.connection: HttpConnection | None = None

    async def receive_some(self) -> bytes:
        connection = self.connection
        if self._pool is None or connection is None:
            raise trio.ClosedResourceError("the response was closed")
        return await connection.receive_some()

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.let_go(self.connection, urgent=self._is_urgent)


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
        pool = self._pools.get(target.address) or self._open_pool(target)
        response = await pool.send(request, urgent=urgent)
        encoding = response.headers.get("content-encoding")
        if encoding is not None and encoding.lower() != "identity":
            await response.aclose()
            raise RemoteProtocolError(f"{target.address} answered with {encoding!r}, which was not asked for")
        return response

    def _open_pool(self, target: HttpTarget) -> OriginPool:
        origin = target.address

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
    return target if target.address == request.target.address else None
