"""The connections of a host: how many there may be and how long they may rest; and what is read over HTTP.

    accepted ──> is there room, or one that rests? ──> it rests, works, rests … and leaves
                     └──> it is refused

How heads are parsed and answers encoded is left to the subclasses of `HostConnection`. Connections are accepted,
and ended together, in `_listening`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar, TypeVarTuple, final

import attrs
import trio

from .._audit import audit
from .._core._account import client_at
from .._core._http1 import ReadFields
from .._core._http_rules import MAX_HEAD_BYTES, HttpRefused, HttpServerSettings, ProxyRules
from .._endpoint._endpoint import Endpoint
from .._logs import Log
from .._trio import InlineTask, LightParkingLot, open_hidden_nursery
from ._requests import (
    READ_AHEAD,
    WHOLE,
    BodyReader,
    ConnectionIO,
    HostedSocket,
    RequestBody,
    RequestBuffer,
    RequestHead,
    ServedConnection,
    body_reader,
    read_head,
    refusal_of,
)
from ._upgrades import UpgradeCall, is_upgrade

_log: Final = Log("trio_mcp.http")

_Args = TypeVarTuple("_Args")

_NAME: Final = "an HTTP connection"
"""The name of its tasks."""

_T = TypeVar("_T", bound=Hashable)
_IO = TypeVar("_IO", bound=HostedSocket)


@final
@attrs.define(eq=False, weakref_slot=False)
class _Address(Generic[_T]):
    """One address, or one connection without a known address.

    Attributes:
        key: The address, or what stands for it.
        count: How many connections it has, without those that were cut.
        resting: Those of them that rest, the longest first.
    """

    key: Hashable
    count: int = attrs.field(default=0, init=False)
    resting: dict[_T, None] = attrs.field(factory=dict[_T, None], init=False)


@final
class ConnectionLimits(Generic[_T]):
    """Limits the connections, in total and by address.

    A connection rests before its first request, and when all its requests are answered. If there are as many as
    there may be, the one that has rested longest is ended for a new one: one of the same address, if that has as
    many as it may have. If none rests, the new one is refused.

    Args:
        limit: How many there may be.
        address_limit: How many of them one address may have.
        cut: Ends a connection at once; its task then leaves. Must not wait.
    """

    def __init__(self, limit: int, address_limit: int, cut: Callable[[_T], None]) -> None:
        self._limit, self._address_limit, self._cut = limit, address_limit, cut
        self._addresses: dict[Hashable, _Address[_T]] = {}
        self._address_of: dict[_T, _Address[_T]] = {}  # of all connections whose tasks have not left
        self._cut_ones = set[_T]()  # among them
        self._resting: dict[_T, float] = {}  # since when; the longest first
        self._timed: dict[_T, float] = {}  # the same, without those that may rest for ever
        self._begun: dict[_T, float] = {}  # of those that rest: since when a part of the next head is there
        self._changed, self._alarm = LightParkingLot(), LightParkingLot()
        self._sleeps = False
        self._warned_of: set[str] = set()

    # Coming and going.

    def enter(self, connection: _T, address: str | None) -> bool:
        """Admit a connection, which rests. Returns whether there is room for it.

        Args:
            connection: The connection.
            address: The address of its client; `None` if that does not tell clients apart.
        """
        key: Hashable = (None, connection) if address is None else address
        of = self._addresses.get(key) or _Address[_T](key)
        if not self._makes_room(of):
            return False
        if len(self._address_of) - len(self._cut_ones) >= self._limit:
            self._warn("max_connections", self._limit)
            if not self.make_room():
                return False
        self._add(connection, of)
        self.rest(connection)
        return True

    def _makes_room(self, of: _Address[_T]) -> bool:
        """Whether an address may have one more; if it has as many as it may, one of its own is ended."""
        if of.count < self._address_limit:
            return True
        self._warn("max_connections_per_address", self._address_limit)
        return self._end_first(of.resting)

    def make_room(self) -> bool:
        """End the connection that has rested longest. Returns whether one rests."""
        return self._end_first(self._resting)

    def _end_first(self, resting: Iterable[_T]) -> bool:
        longest = next(iter(resting), None)
        if longest is not None:
            self._end(longest)
        return longest is not None

    def _add(self, connection: _T, of: _Address[_T]) -> None:
        of.count += 1
        self._addresses[of.key] = self._address_of[connection] = of

    def _remove(self, connection: _T) -> None:
        """Count it for its address no more."""
        self.work(connection)
        of = self._address_of[connection]
        of.count -= 1
        if not of.count:
            self._addresses.pop(of.key, None)

    def belong_to(self, connection: _T, client: str) -> bool:
        """Count a connection for who its client turned out to be, and not for its address any more.

        Returns:
            Whether it may stay: whether that client may have one more.
        """
        if connection in self._cut_ones:
            return False
        if self._address_of[connection].key == client:
            return True
        of = self._addresses.get(client) or _Address[_T](client)
        if not self._makes_room(of):
            return False
        since, is_timed = self._resting.get(connection), connection in self._timed
        self._remove(connection)
        self._add(connection, of)
        if since is not None:
            self.rest(connection, is_timed=is_timed)
        return True

    def work(self, connection: _T) -> None:
        """Note that a request has arrived."""
        if self._resting.pop(connection, None) is not None:
            del self._address_of[connection].resting[connection]
            self._timed.pop(connection, None)
        if self._begun:
            self._begun.pop(connection, None)

    def begin(self, connection: _T) -> None:
        """Note that a part of a head has arrived. It still rests; half of `message_timeout` bounds the rest."""
        if connection in self._resting and connection not in self._begun:
            self._begun[connection] = trio.current_time()
            if len(self._begun) == 1:
                self._alarm.unpark_all()

    def rest(self, connection: _T, *, is_timed: bool = True) -> None:
        """Note that its requests are answered.

        Args:
            connection: The connection.
            is_timed: Whether `idle_timeout` bounds how long it rests.
        """
        if connection in self._address_of and connection not in self._cut_ones:
            now = self._resting[connection] = trio.current_time()
            self._address_of[connection].resting[connection] = None
            if is_timed:
                self._timed[connection] = now
            if self._sleeps:
                self._alarm.unpark_all()

    def leave(self, connection: _T) -> None:
        """Note that its task has ended."""
        if connection not in self._cut_ones:
            self._remove(connection)
        del self._address_of[connection]
        self._cut_ones.discard(connection)
        if len(self._address_of) <= min(self._limit, self._address_limit) // 2:
            self._warned_of.clear()
        self._changed.unpark_all()

    def _end(self, connection: _T) -> None:
        """Cut a connection. It counts no longer."""
        self._remove(connection)
        self._cut_ones.add(connection)
        self._cut(connection)

    def _warn(self, setting: str, limit: int) -> None:
        if setting not in self._warned_of:
            self._warned_of.add(setting)
            _log.warning("%d connections are open (%s); those that rest give way", limit, setting)

    # Time.

    async def attend(self, idle_timeout: float, head_timeout: float) -> None:
        """End connections that rest for too long, for as long as this runs.

        One task does it for all connections, so that a request costs no timer.

        Args:
            idle_timeout: How long one may rest, in seconds.
            head_timeout: How long one may rest once a part of a head has arrived, in seconds.
        """
        while True:
            due = self._end_overdue(idle_timeout, head_timeout)
            self._sleeps = due == math.inf
            with trio.move_on_at(due):
                await self._alarm.park()
            self._sleeps = False

    def _end_overdue(self, idle_timeout: float, head_timeout: float) -> float:
        """End connections that are overdue. Returns when the next one will be."""
        due = math.inf
        for since_of, timeout in ((self._begun, head_timeout), (self._timed, idle_timeout)):
            while (first := next(iter(since_of), None)) is not None:
                if (ends := since_of[first] + timeout) > trio.current_time():
                    due = min(due, ends)
                    break
                self._end(first)
        return due

    def cut_resting(self) -> None:
        """End connections that rest, at once."""
        for connection in tuple(self._resting):
            self._end(connection)

    async def wait_empty(self) -> None:
        """Wait until all have left."""
        while self._address_of:
            await self._changed.park()

    def cut_all(self) -> None:
        """End all of them at once."""
        for connection in tuple(self._address_of):
            self._cut(connection)


OpenConnection: TypeAlias = Callable[[_IO, ConnectionLimits[_IO]], ServedConnection]


@final
@attrs.define(eq=False)
class Connections(Generic[_IO]):
    """All connections of one server.

    Args:
        open_connection: Makes one.
        limits: How many there may be.
        proxies: Which addresses are those of proxies, so that they do not tell clients apart.
        task_name: The name of the task of each.

    Attributes:
        limits: Limits how many there are.
        task_name: The name of the task of each.
    """

    _open_connection: OpenConnection[_IO]
    limits: ConnectionLimits[_IO]
    _proxies: ProxyRules
    task_name: str = _NAME
    _connections: set[ServedConnection] = attrs.field(factory=set[ServedConnection], init=False)
    _is_draining: bool = attrs.field(default=False, init=False)

    def enter(self, io: _IO) -> bool:
        """Admit a connection. Returns false if it must be closed."""
        client = None if io.client is None or self._proxies.trusts(io.client) else client_at(io.client)
        return self.limits.enter(io, client)

    async def serve(self, io: _IO) -> None:
        """Serve a connection until it ends. What fails on it ends no other."""
        connection: ServedConnection | None = None
        try:
            connection = self._open_connection(io, self.limits)
            connection.is_draining = self._is_draining
            self._connections.add(connection)
            await io.start()
            await connection.serve()
        except trio.BrokenResourceError as error:  # the TLS handshake failed
            audit("connection", str(error.__cause__ or error), transport="tls", client=io.client)
        except Exception:
            # The boundary of one connection.
            _log.exception("a connection failed")
        finally:
            if connection is not None:
                self._connections.discard(connection)
            self.limits.leave(io)
            io.cut()

    async def wait_empty(self) -> None:
        """Wait until all have left, which end by themselves."""
        await self.limits.wait_empty()

    def end_with_answers(self) -> None:
        """Have each connection end with its next answer."""
        self._is_draining = True
        for connection in self._connections:
            connection.is_draining = True

    async def finish(self) -> None:
        """End connections that rest, and wait until the others have answered their requests."""
        self.end_with_answers()
        self.limits.cut_resting()
        await self.wait_empty()


@attrs.define(eq=False)
class HostConnection(abc.ABC):
    """One connection. It reads here; subclasses answer requests and send.

    A task reads as long as the connection lasts, so that a client that goes is noticed at once. One request is
    served at a time. What follows it is kept, up to `READ_AHEAD` bytes, until it is answered:

        no request: receive ──> append to the buffer ──> a whole head? ──> `_begin` begins the request
        a request whose body is incomplete: receive ──> `_hand_over` ──> what follows the body goes to the buffer
        a request whose body is complete: receive ──> append to the buffer; wait for its answer once that is full
        a request for a WebSocket: nothing more is read here; the WebSocket has the bytes from then on

    After bytes that are not a valid request (`_is_irregular`) everything received is dropped.

    Most requests are answered without waiting for anything. So the task that has read one serves it on the spot
    (`InlineTask`), which saves a task, and a turn of the event loop: a fifth of a small request. One that waits
    keeps that task, and another one reads on: the task of the connection if that rests, else a new one, which
    ends when it has served a request that waited. Kept true: one task reads at a time (`_lead`), or none once
    reading is over; `stop_reading` cancels nothing but its waiting, so a request that this task serves goes on.

    Args:
        io: Its bytes.
        limits: Notified when it rests and when it works.
        settings: What it may cost.
        endpoint: Answers its requests.
        read_fields: Parses the fields of heads.

    Attributes:
        io: Its bytes.
        is_draining: Whether the request that is being served is the last one.
        has_stopped: Whether nothing more is to be read.
    """

    io: Final[ConnectionIO]
    _limits: ConnectionLimits[ConnectionIO]
    _settings: HttpServerSettings
    _endpoint: Endpoint
    _read_fields: ReadFields
    is_draining: bool = attrs.field(default=False, init=False)
    _nursery: trio.Nursery = attrs.field(init=False)  # set by `serve`
    has_stopped: bool = attrs.field(default=False, init=False)
    _waiting: trio.CancelScope | None = attrs.field(default=None, init=False)  # of the task that waits to read
    _rests: bool = attrs.field(default=False, init=False)  # whether the task of the connection does
    _woken: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)  # where it rests
    _is_over: bool = attrs.field(default=False, init=False)  # whether reading is
    _serves_itself: bool = attrs.field(default=False, init=False)  # whether the caller of `begin` serves
    _begun: Coroutine[Any, Any, object] | None = attrs.field(default=None, init=False)  # the request, then
    _variables: Context = attrs.field(factory=copy_context, init=False)
    _buffer: RequestBuffer = attrs.field(init=False)
    _is_irregular: bool = attrs.field(default=False, init=False)
    _has_room: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _upgrade: UpgradeCall | None = attrs.field(default=None, init=False)
    # Both belong to the request that is being served.
    _body_reader: BodyReader | None = attrs.field(default=None, init=False)
    _body: RequestBody | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._buffer = RequestBuffer(MAX_HEAD_BYTES)

    @final
    async def serve(self) -> None:
        """Serve it until it ends."""
        try:
            async with open_hidden_nursery() as self._nursery:
                await self._read(rests=True)
        finally:
            if self._begun is not None:  # what has read it has failed
                self._begun.close()
            self.io.cut()

    @final
    def start(self, async_fn: Callable[[*_Args], Awaitable[object]], *args: *_Args) -> None:
        """Start a task for a request, with the context variables of the connection.

        The task of the request before it may be what calls this, and its variables are its own.
        """
        self._variables.run(lambda: self._nursery.start_soon(async_fn, *args, name="an HTTP request"))

    @final
    def begin(self, async_fn: Callable[[*_Args], Coroutine[Any, Any, object]], *args: *_Args) -> None:
        """Begin a request: in the task that reads it, once its body is handed over, or in a task of its own."""
        if self._serves_itself:
            self._begun = async_fn(*args)
        else:
            self.start(async_fn, *args)

    # Reading.

    async def _read(self, *, rests: bool) -> None:
        """Read and serve; end the connection when reading is over.

        Args:
            rests: Whether to rest while another task reads; if not, this ends then.
        """
        if await self._lead(rests=rests):
            try:
                if self._upgrade is None:
                    await self._end()
                else:
                    await self._upgrade.serve(self._endpoint, self.start)
            finally:
                self._is_over = True
                self._woken.unpark_all()

    async def _lead(self, *, rests: bool) -> bool:
        """Read and serve. Returns whether this task has found that reading is over."""
        task = trio.lowlevel.current_task()
        with trio.CancelScope() as scope:
            while not self.has_stopped:
                self._waiting = scope
                data = await self._receive()
                self._waiting = None
                if not data:
                    break
                if not (self._is_irregular or self.has_stopped):  # received before reading could be stopped
                    self._serves_itself = True
                    await self._take(data)
                    self._serves_itself = False
                del data  # it may be large, and a request may wait for long
                if self._body_reader is None and (self._buffer or self._is_irregular):
                    self._limits.begin(self.io)
                if self._begun is not None:
                    request = InlineTask(self._begun, self._variables.copy())
                    self._begun = None
                    waits = not request.begin(task)
                    if waits:
                        self._let_another_read()
                        await request.go_on(task)
                    del request  # a connection that rests keeps nothing of its last request
                    if waits and not await self._rest_until_woken(rests=rests):
                        return False
        self._waiting, self.has_stopped = None, True  # nothing that was sent ahead is begun any more
        return True

    async def _rest_until_woken(self, *, rests: bool) -> bool:
        """Rest while another task reads. Returns whether this one is to read now."""
        if rests and not self._is_over:
            self._rests = True
            await self._woken.park()
            self._rests = False
        return rests and not self._is_over

    def _let_another_read(self) -> None:
        """Let another task read: this one stays with a request that waits."""
        if self._rests:
            self._woken.unpark_all()
        else:
            self._variables.run(lambda: self._nursery.start_soon(partial(self._read, rests=False), name=_NAME))

    async def _receive(self) -> bytes:
        """Wait for the next bytes for which there is room; none once the client has closed."""
        while True:
            size, reader, body = READ_AHEAD, self._body_reader, self._body
            if reader is not None and body is not None:
                if not reader.is_complete:
                    await body.wait_asked()
                    size = body.read_size
                elif self._buffer.is_full:
                    await self._has_room.park()
                    continue
            return await self.io.receive(size)

    async def _take(self, data: bytes) -> None:
        """Take what was received, as far as it can be used now; the rest goes to the buffer."""
        reader = self._body_reader
        if reader is None:
            try:
                if (lines := self._buffer.take_head(data)) is None:
                    return
                head = read_head(lines, self._read_fields)
            except HttpRefused as refused:
                self._is_irregular = True
                self.start(self.refuse, refused)
                return
            if self._endpoint.serves_websockets and is_upgrade(head):
                rest = partial(self._limits.rest, is_timed=False)  # pings show whether its client is there
                self._upgrade = UpgradeCall(self.io, head, self._buffer.take(None), self._limits.work, rest)
                self._limits.work(self.io)
                self.stop_reading("the connection is to become a WebSocket")
                return
            data = b"" if head.length == 0 else self._buffer.take(head.length)
            is_whole = len(data) == head.length
            self._body_reader = reader = WHOLE if is_whole else body_reader(head.length)
            self._limits.work(self.io)
            self._body = await self._begin(head)
            if is_whole:
                if data:
                    await self._hand_over(data, is_complete=True)
                return
        if not reader.is_complete:
            try:
                piece = reader.feed(data)
            except ValueError as error:
                self._is_irregular = True
                if self._body is not None:
                    self._body.fail(f"the body cannot be read: {error}")
                return
            await self._hand_over(piece, is_complete=reader.is_complete)
            data = reader.rest
        if data:
            self._buffer.add(data)

    async def _take_next(self) -> None:
        """The request is answered: serve what its client has sent ahead."""
        self._body_reader = self._body = None
        if self._buffer and not (self._is_irregular or self.has_stopped):
            await self._take(b"")
        self._has_room.unpark_all()

    @abc.abstractmethod
    async def _begin(self, head: RequestHead) -> RequestBody | None:
        """Begin a request, and return what its body goes to. Waits for nothing."""

    @abc.abstractmethod
    async def _hand_over(self, piece: bytes, *, is_complete: bool) -> None:
        """Give the request a piece of its body. Waits for nothing."""

    @abc.abstractmethod
    async def _end(self) -> None:
        """Nothing more will be read: abandon the request that is being served, if there is one."""

    # What the request that is being served calls.

    @final
    def rest(self) -> None:
        """Note that the request is answered, so that the connection rests, or ends if it must."""
        self._limits.rest(self.io)
        self._buffer.skip_empty_line()
        if self._buffer:
            self._limits.begin(self.io)
        if self.is_draining:
            self.stop_reading("no more requests are served")

    @final
    async def refuse(self, refused: HttpRefused) -> None:
        """Answer bytes that are not a valid request, and end the connection."""
        with suppress(trio.BrokenResourceError):
            await self.io.send(refusal_of(refused, self.io.client))
        self.stop_reading("what was received is not a valid request")

    @final
    def stop_reading(self, reason: str) -> None:
        """Read no further."""
        self.has_stopped = True
        if self._waiting is not None:
            self._waiting.cancel(reason=reason)
