"""The HTTP client: a pool of connections for each server address, and redirects within one address.

A pool keeps idle connections, and lends each of the others to exactly one request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Self, TypeAlias, final

import attrs
import trio

from .._core._http1 import fastest_fields
from .._trio import LightParkingLot
from ._connection import Admit, Dialer, HttpConnection, OnConnected
from ._messages import HttpRequest, HttpResponse, HttpTransport
from ._target import HttpSettings, HttpTarget

Connect: TypeAlias = Callable[[], Awaitable[HttpConnection]]


@final
@attrs.frozen
class ConnectionPoolStatistics:
    """Counters of the connections to one server address.

    Attributes:
        idle: Connections that wait for a request.
        in_use: Requests that have a connection, or are opening one.
        waiting: Requests that wait for their turn.
    """

    idle: int
    in_use: int
    waiting: int


@final
class ConnectionPool:
    """The connections to one server address.

    Requests are served in the order in which they came. The connection that was idle for the shortest time is
    used first, so that those that are not needed grow old; old ones are closed when the next request comes, as
    are those that the server has closed.

    Args:
        connect: Opens another connection.
        settings: How many, and for how long.
        on_unused: Called when the pool holds no connection and no request.
    """

    def __init__(self, connect: Connect, settings: HttpSettings, on_unused: Callable[[], object]) -> None:
        self._connect = connect
        self._settings = settings
        self._on_unused = on_unused
        # Each with when it is to be closed, oldest first.
        self._idle: deque[tuple[HttpConnection, float]] = deque()
        self._turns = trio.Semaphore(settings.max_connections, max_value=settings.max_connections)
        self._requests = 0  # with a connection, or waiting for one
        self._in_use = 0
        self._closed = False

    def statistics(self) -> ConnectionPoolStatistics:
        """Return counters, for tests and debugging."""
        return ConnectionPoolStatistics(len(self._idle), self._in_use, self._turns.statistics().tasks_waiting)

    async def send(self, request: HttpRequest, *, urgent: bool) -> HttpResponse:
        """Send a request over a connection that it has alone; see `HttpTransport.send`."""
        self._requests += 1
        try:
            if not urgent:
                try:
                    self._turns.acquire_nowait()  # saves a turn of the event loop; sending is a checkpoint
                except trio.WouldBlock:
                    await self._turns.acquire()
        except BaseException:
            self._leave()
            raise
        lease = _Lease(self, urgent)
        self._in_use += 1
        try:
            lease.connection = connection = await self._get()
            head = await connection.start(request)
        except BaseException:
            await lease.aclose()
            raise
        return HttpResponse(request, head.status, head.headers, lease, reason=head.reason)

    async def take_back(self, connection: HttpConnection | None, *, urgent: bool) -> None:
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
        self._requests -= 1
        if not self._idle and not self._requests:
            self._on_unused()

    async def _get(self) -> HttpConnection:
        """Return a connection that no request has and that the server has not closed so far."""
        now = trio.current_time()
        while self._idle and self._idle[0][1] <= now:
            await self._idle.popleft()[0].aclose()
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.is_stale:
                return connection
            # Nothing of the request was sent, so it can be sent on another connection.
            await connection.aclose()
        return await self._connect()

    def _keep(self, connection: HttpConnection) -> bool:
        """Keep a connection, if it can be used again and not too many are idle. Returns whether it did."""
        if self._closed or len(self._idle) >= self._settings.max_idle_connections or not connection.is_reusable:
            return False
        self._idle.append((connection, trio.current_time() + self._settings.idle_timeout))
        return True

    async def aclose(self) -> None:
        """Close the idle connections, and keep none from now on. The others are closed with their responses."""
        self._closed = True
        while self._idle:
            await self._idle.popleft()[0].aclose()
        await trio.lowlevel.checkpoint()


@final
@attrs.define(eq=False)
class _Lease:
    """A turn, and a connection once there is one, lent to one request. Given back exactly once."""

    _pool: ConnectionPool | None
    _is_urgent: bool
    connection: HttpConnection | None = None

    async def receive_some(self) -> bytes:
        connection = self.connection
        if self._pool is None or connection is None:
            raise trio.ClosedResourceError("the response was closed")
        return await connection.receive_some()

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.take_back(self.connection, urgent=self._is_urgent)


DISCARDED_BYTES: Final = 16 * 1024
"""How much of the body of a redirect is read so that its connection can be used again."""


@final
class HttpClient:
    """Sends requests over connections that it opens, keeps and closes. Made by `open_http_client`."""

    def __init__(
        self, settings: HttpSettings, admit: Admit | None = None, on_connected: OnConnected | None = None
    ) -> None:
        self._settings = settings
        self._dialer = Dialer(settings, fastest_fields(), admit, on_connected)
        self._pools: dict[str, ConnectionPool] = {}

    def statistics(self) -> Mapping[str, ConnectionPoolStatistics]:
        """Return counters by server address, for tests and debugging."""
        return {address: pool.statistics() for address, pool in self._pools.items()}

    async def send(self, request: HttpRequest, *, urgent: bool = False) -> HttpResponse:
        """Send a request; see `HttpTransport.send`.

        Waits for a connection, for the server to take the request, and for the head of the response. A request is
        never sent again once a byte of it may have been processed.
        """
        target = request.target
        pool = self._pools.get(target.address) or self._open_pool(target)
        return await pool.send(request, urgent=urgent)

    def _open_pool(self, target: HttpTarget) -> ConnectionPool:
        address = target.address

        connect = partial(self._dialer.connect, target)
        pool = ConnectionPool(connect, self._settings, lambda: self._pools.pop(address))
        self._pools[address] = pool
        return pool

    async def aclose(self) -> None:
        """Close the idle connections; see `open_http_client`."""
        for pool in tuple(self._pools.values()):
            await pool.aclose()
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def open_http_client(
    settings: HttpSettings | None = None, *, admit: Admit | None = None, on_connected: OnConnected | None = None
) -> AsyncGenerator[HttpClient]:
    """Open an HTTP client for as long as the block runs.

    Requests must have ended before it does: run them in a nursery inside the block. Leaving closes the idle
    connections, also when cancelled, and does not wait for the peers.

    Args:
        settings: How connections are made.
        admit: Called with each address before a connection is made to it; what it raises comes out of the
            request. A proxy's address is not asked about.
        on_connected: Called with each address that a connection was made to.
    """
    client = HttpClient(settings or HttpSettings(), admit, on_connected)
    try:
        yield client
    finally:
        with trio.CancelScope(shield=True):  # closing forcefully waits for nothing
            await client.aclose()


async def send_following(
    transport: HttpTransport, request: HttpRequest, *, urgent: bool = False, max_redirects: int = 5
) -> HttpResponse:
    """Send a request, follow redirects to the same server address, and decode the body of the response.

    A redirect that is not followed is the response: one to another address, which must not get the request's
    headers and body, one too many, and one that would make a GET of a POST and lose its body (301, 302, 303).

    Raises:
        Like `HttpTransport.send`.
    """
    remaining = max_redirects
    while True:
        response = await transport.send(request, urgent=urgent)
        target = _redirect_of(request, response) if remaining else None
        if target is None:
            return response.decoded()
        async with response:
            await response.read_excerpt(DISCARDED_BYTES)
        request = attrs.evolve(request, target=target)
        remaining -= 1


def _redirect_of(request: HttpRequest, response: HttpResponse) -> HttpTarget | None:
    """Return where to send the same request again, if the redirect is to be followed."""
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


@final
@attrs.define(eq=False)
class ResponsePlace:
    """What one response keeps of the room; nothing once its block is left.

    Attributes:
        size: How many bytes.
    """

    _room: ResponseRoom
    size: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._room.change(self, 0)

    async def hold(self, size: int) -> None:
        """Keep so many bytes. Waits, before more of the response is read, while all keep too much together.

        The response that has begun first never waits, or all would. Does not checkpoint if there is room.
        """
        self._room.change(self, size)
        while self._room.must_wait(self):
            await self._room.changed.park()


@final
class ResponseRoom:
    """Limits how much the responses that are being read keep together, in bytes.

    Args:
        max_bytes: From how much on all but the oldest of them wait.

    Attributes:
        changed: Woken when less is kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._taken = 0
        self._holding: dict[ResponsePlace, None] = {}  # those that keep anything, oldest first
        self.changed = LightParkingLot()

    def place(self) -> ResponsePlace:
        """Return a place for one response: a context manager around reading it."""
        return ResponsePlace(self)

    def change(self, place: ResponsePlace, size: int) -> None:
        """Count so many bytes for a response instead of what was counted before."""
        less = size < place.size
        self._taken += size - place.size
        place.size = size
        if size:
            self._holding[place] = None
        else:
            self._holding.pop(place, None)
        if less:
            self.changed.unpark_all()

    def must_wait(self, place: ResponsePlace) -> bool:
        """Whether a response should not be read on."""
        return self._taken > self._max_bytes and place.size > 0 and next(iter(self._holding)) is not place
