"""The connections to one origin: idle, or owned by exactly one request."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias, final

import attrs
import trio

from ._connection import HttpConnection
from ._request import HttpRequest
from ._response import HttpResponse
from ._settings import HttpSettings

__all__ = ["Connect", "OriginPool", "PoolStatistics"]

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
