"""Lets processes of several machines serve one server, by what they keep in Redis.

What a store must do is in `_endpoint/_shared`; what is done in Redis in `_redis_store_scripts`, and how it is
reached in `_server/_redis_link`. Events are in `_redis_events`, tasks in `_server/_redis_tasks`.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, final

import attrs
import trio

from .._endpoint._event_store import EventStore
from .._endpoint._shared import SessionStore, SharedStore, TakenSession
from .._errors import SERVER_BUSY, RequestError
from .._limits import check_seconds, check_whole
from .._logs import Log
from .._server._redis_link import RedisLink, RedisPlace
from .._server._redis_scripts import Script
from .._server._redis_tasks import (
    ATTEMPTS,
    CLOSE_SECONDS,
    LONGEST_LEASE,
    RENEWALS,
    SHORTEST_LEASE,
    RedisTaskStore,
    open_redis_task_store,
)
from .._server._task_store import SharedTaskStore
from .._trio import check_trio_runs, open_hidden_nursery
from . import _redis_store_scripts as scripts
from ._members import Store
from ._redis_events import EventBounds, RedisEvents, key_bytes, milliseconds

_log: Final = Log("trio_mcp.workers")

SECRET_BYTES: Final = 32

FIRST: Final = 9 * 10**8
"""Up to which number a Redis begins that was started or emptied; all have nine digits at most."""


@final
@attrs.frozen
class _Bounds:
    max_sessions: int
    max_age: float
    lease: float
    host: str | None
    events: EventBounds


@final
class RedisStore(Store):
    """What processes of several machines share that serve one server: in one Redis.

    Each process has a lease there, which it renews; whose lease is over is gone for the others, which then take
    its sessions as their clients come. A process that was taken for gone, and is not, goes on with those that
    nobody has taken. While Redis is away, the connection is tried again and again; what is wanted meanwhile waits
    for `seconds`. Sessions that Redis forgets when it is started again are kept there anew; events and tasks that
    it forgets are lost.

    Args:
        url: ``redis://user:password@host:6379/0``, ``rediss://…`` for TLS, or ``unix:///path?db=0``. One Redis of
            version 6 or newer, no cluster.
        prefix: What all its keys begin with, before a colon. Servers with another one know nothing of these.
        max_sessions: How many sessions are kept, of all processes; beyond, those go first whose process is gone.
        max_age: For how many seconds sessions are kept whose process is gone; and events, after the last of their
            session.
        max_session_events: How many events of one session are kept. The oldest go first.
        max_session_bytes: What the events of one session may weigh, each with 200 bytes for itself. Redis takes
            about 500 bytes more for each.
        max_bytes: The same for all sessions of all processes together; beyond, the session that has most loses
            half of its events.
        host: The address of this machine at which the other processes reach this one; by default the one by which
            it reaches Redis. It listens there, at a free port.
        seconds: How long anything may take that is wanted of Redis, in seconds, with the wait for a connection.
        lease: After how many seconds without a sign of life a process is gone, by the clock of Redis. At least 1.
        ssl_context: For ``rediss://``; by default what the system trusts, and the name is checked.

    Raises:
        TypeError: A bound is no number, or no whole number where one is needed.
        ValueError: A bound is too small, or the URL is none.
        RuntimeError: coredis is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "trio-mcp",
        max_sessions: int = 100_000,
        max_age: float = 3_600.0,
        max_session_events: int = 10_000,
        max_session_bytes: int = 64 * 1024 * 1024,
        max_bytes: int = 1024 * 1024 * 1024,
        host: str | None = None,
        seconds: float = 5.0,
        lease: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        max_age = check_seconds("max_age", max_age, may_be_zero=False)
        events = EventBounds(
            check_whole("max_session_events", max_session_events),
            check_whole("max_session_bytes", max_session_bytes),
            check_whole("max_bytes", max_bytes),
            max_age,
        )
        self._bounds: Final = _Bounds(
            check_whole("max_sessions", max_sessions),
            max_age,
            check_seconds("lease", lease, may_be_zero=False),
            host,
            events,
        )
        if not SHORTEST_LEASE <= lease <= LONGEST_LEASE:
            raise ValueError(f"lease must be from {SHORTEST_LEASE:g} to {LONGEST_LEASE:g} seconds, not {lease!r}")
        self._seconds: Final = check_seconds("seconds", seconds, may_be_zero=False)
        self._prefix: Final = prefix
        self._place: Final = RedisPlace(url, ssl_context)

        def open_tasks() -> AbstractAsyncContextManager[RedisTaskStore]:
            return open_redis_task_store(
                url, prefix=prefix, seconds=seconds, lease=lease, ssl_context=ssl_context
            )

        self._open_tasks: Final = open_tasks  # a function shows nobody the password

    def open(self) -> AbstractAsyncContextManager[SharedStore]:
        """Join for as long as the block runs, as one more process.

        Leaving waits for at most ten seconds if Redis does not answer; the process is gone then when its lease is
        over.

        Raises:
            ConnectionError: Redis cannot be used.
        """
        check_trio_runs("RedisStore.open()")
        return self._joined()

    @asynccontextmanager
    async def _joined(self) -> AsyncGenerator[SharedStore]:
        async with self._open_tasks() as tasks, open_hidden_nursery() as nursery:
            store = RedisSharedStore(self._place, self._prefix, self._bounds, self._seconds, tasks)
            nursery.start_soon(store.link.run, name="connection to Redis")
            await store.link.connected()
            renewing = trio.CancelScope()

            async def renew() -> None:
                with renewing:
                    await store.renew()

            nursery.start_soon(renew, name="lease in Redis")
            try:
                yield store
            finally:
                renewing.cancel(reason="the store is left")
                with trio.move_on_after(CLOSE_SECONDS, shield=True), suppress(RequestError):
                    await store.leave()
                nursery.cancel_scope.cancel(reason="the store is left")


@final
class RedisSharedStore:
    """Redis, as a process that has joined it sees it; see `SharedStore`. Made by `RedisStore.open`.

    Args:
        place: Where Redis is.
        prefix: What all keys begin with, before a colon.
        bounds: What is kept, how long a lease is, and where this machine is.
        seconds: How long any request may take, with the wait for a connection.
        tasks: Its tasks, over a connection of their own.

    Attributes:
        link: The connection.
        number: See `SharedStore`.
        secret: See `SharedStore`; another one than before, if Redis was emptied and others have been there first.
        host: See `SharedStore`.
    """

    def __init__(
        self, place: RedisPlace, prefix: str, bounds: _Bounds, seconds: float, tasks: RedisTaskStore
    ) -> None:
        self.link: Final = RedisLink(place, seconds, self._greet)
        self.number = 0
        self.secret = secrets.token_bytes(SECRET_BYTES)
        self.host: str | None = None
        self.on_doubt: Callable[[], object] = _nothing
        self.tasks: SharedTaskStore = tasks
        self._kept: Final = RedisSessions(self, bounds)
        self.sessions: SessionStore = self._kept
        self.events: EventStore = RedisEvents(self.run, bounds.events)
        self._prefix: Final = f"{prefix}:"
        self._bounds: Final = bounds
        self._generation = self._known = 0  # of its connection; and the last that Redis has answered
        self._server = b""
        self._address = ""
        self._greeting: Final = trio.Lock()
        self._is_leaving = False
        self._wanted = trio.Event()

    # This process, as others see it.

    async def _greet(self, connection: Any, after: int | None = None) -> None:
        """Say who this is, in a new connection; or in one that knows nobody of this generation any more."""
        async with self._greeting:
            if after is not None and self._generation != after:
                return  # another task has done it meanwhile
            host = self.link.local_host(connection)  # if it has broken, so does what follows
            answer = [b"late"]
            while answer == [b"late"] and not self._is_leaving:
                answer = await self._greet_once(connection)
            if self._is_leaving:
                return
            state, number, self.secret, self._server = answer
            self._known = self._generation
            self.number = int(number)
            self.host = self._bounds.host or host
        if state == b"doubt":
            _log.warning(
                "this process was away from Redis for longer than its lease of %g s, or was taken for gone, or "
                "Redis was started again: others may have its sessions by now",
                self._bounds.lease,
            )
            self.on_doubt()
        self.want_renewal()

    async def _greet_once(self, connection: Any) -> list[Any]:
        self._generation += 1
        rest = [self.secret, self._address, self._known, self._server, 1 + secrets.randbelow(FIRST)]
        arguments = [*self._head(), *self._times(), *rest]
        try:
            answer: list[Any] = await self.link.run_on(connection, scripts.GREET, arguments)
        except BaseException:
            self._generation += 1  # nothing is done as the one of which nobody knows the answer
            raise
        return answer

    def want_renewal(self) -> None:
        """Renew the lease at once, and do what is left to do."""
        self._wanted.set()

    def _head(self) -> list[Any]:
        return [self._prefix, self.number, self._generation]

    def _times(self) -> list[int]:
        return [milliseconds(self._bounds.lease), milliseconds(self._bounds.max_age)]

    async def renew(self) -> None:
        """Renew the lease, and remove what is too old, until this is cancelled."""
        while True:
            with trio.move_on_after(self._bounds.lease / RENEWALS):
                await self._wanted.wait()
            self._wanted = trio.Event()
            try:
                await self._kept.settle()
                while (await self.run(scripts.RENEW, *self._times()))[1]:
                    pass  # a hundred of each kind at a time
            except RequestError:
                # It has been logged; and whoever is connected again renews its lease at once.
                await trio.sleep(self._bounds.lease / RENEWALS)

    async def leave(self) -> None:
        """Be gone, once everything is settled.

        Raises:
            RequestError: Redis does not answer. This process is gone when its lease is over.
        """
        await self._kept.settle()
        self._is_leaving = True
        await self.run(scripts.LEAVE, self._times()[1])

    async def announce(self, address: str) -> None:
        """Say where this process listens; see `SharedStore.announce`."""
        self._address = address  # whatever comes now says it as well
        await self.run(scripts.ANNOUNCE, address)

    # The others.

    async def others(self) -> Mapping[int, str]:
        """Return where the others listen; see `SharedStore.others`."""
        found = await self.run(scripts.OTHERS)
        pairs = zip(found[::2], found[1::2], strict=True)
        return {int(number): address.decode() for number, address in pairs}

    async def address_of(self, number: int) -> str | None:
        """Return where a process listens; see `SharedStore.address_of`."""
        (address,) = await self.run(scripts.ADDRESS, number)
        return address.decode() or None

    async def gone(self, number: int) -> None:
        """Note that a process is gone; see `SharedStore.gone`. One that is not joins again when it notices."""
        await self.run(scripts.GONE, self._times()[1], number)

    async def run(self, script: Script, *arguments: Any) -> list[Any]:
        """Run a script, also if it must be said first who this is.

        Args:
            script: The script.
            arguments: Its arguments, after those that all have. A function is called when they are sent.

        Raises:
            RequestError: Redis does not answer in time, or refuses it.
        """
        generation = 0

        async def ask(connection: Any) -> Any:
            nonlocal generation
            generation = self._generation
            rest = (each() if callable(each) else each for each in arguments)
            return await self.link.run_on(connection, script, [*self._head(), *rest])

        for _ in range(ATTEMPTS):
            answer: list[Any] = await self.link.request(ask)
            if answer != [b"fenced"]:
                return answer
            if self._is_leaving:
                raise RequestError(SERVER_BUSY, "this process leaves the store in Redis")
            await self.link.request(partial(self._greet, after=generation))
        raise RequestError(SERVER_BUSY, "the lease of this process in Redis ends before it can be used")


@final
class RedisSessions:
    """Keeps sessions in Redis; see `SessionStore`. Its methods raise a `RequestError` if Redis does not answer.

    Once begun they are done or not done, even if they are cancelled.
    """

    def __init__(self, store: RedisSharedStore, bounds: _Bounds) -> None:
        self._store: Final = store
        self._max_sessions: Final = bounds.max_sessions
        self._max_age: Final = milliseconds(bounds.max_age)
        self._own: dict[str, int] = {}  # and how often they were taken
        # Those of which nobody knows what has become of them, and what is to be done there.
        self._unsure: dict[str, Script] = {}

    async def keep(self, id: str, data: bytes) -> bool:
        """Keep a session; see `SessionStore.keep`.

        Raises:
            RequestError: There is no room, or Redis does not answer. A new session is not kept then.
        """
        turn = self._own.get(id, 0)
        after = None if id in self._own else scripts.FORGET
        answer = await self._surely(id, after, scripts.KEEP, data, turn, self._max_sessions)
        match answer:
            case [b"full", count]:
                problem = (
                    f"no more sessions can be kept: Redis has {count} (max_sessions is {self._max_sessions})"
                )
                raise RequestError(SERVER_BUSY, problem)
            case [b"taken"]:
                self._own.pop(id, None)
                return False
            case _:
                self._own.setdefault(id, turn)
                return True

    async def find(self, id: str) -> bytes | None:
        """Return what is kept of a session; see `SessionStore.find`."""
        found: list[bytes] = await self._store.run(scripts.FIND, key_bytes(id))
        return found[0] if found else None

    async def take(self, id: str) -> TakenSession | int | None:
        """Make a session one of this process; see `SessionStore.take`. If it raises, any process can take it."""
        if id in self._unsure:  # it may have ended here
            await self._settle(id, self._unsure[id])
        match await self._surely(id, scripts.RELEASE, scripts.TAKE):
            case [b"taken", data, turn]:
                self._own[id] = turn
                return TakenSession(data, turn)
            case [b"owner", number]:
                return int(number)
            case _:
                return None

    async def release(self, id: str) -> None:
        """Let any process take a session; see `SessionStore.release`."""
        await self._end(id, scripts.RELEASE)

    async def forget(self, id: str) -> None:
        """Keep a session no longer; see `SessionStore.forget`."""
        await self._end(id, scripts.FORGET)

    async def _end(self, id: str, script: Script) -> None:
        self._own.pop(id, None)
        self._unsure[id] = script
        try:
            await self._settle(id, script)
        except BaseException:
            self._store.want_renewal()  # then it is done later
            raise

    async def _surely(self, id: str, after: Script | None, script: Script, *arguments: Any) -> list[Any]:
        """Run a script for a session; if it is not known whether it was done, have another one run later."""
        before, is_sent = self._unsure.pop(id, None), False

        def key() -> bytes:
            nonlocal is_sent
            is_sent = True
            return key_bytes(id)

        try:
            return await self._store.run(script, key, *arguments)
        except BaseException:
            after = before or (after if is_sent else None)
            if after is not None:
                self._unsure[id] = after
                self._store.want_renewal()
            raise

    async def settle(self) -> None:
        """Do what is to be done with those of which nobody knows what has become of them."""
        for id, script in list(self._unsure.items()):
            await self._settle(id, script)

    async def _settle(self, id: str, script: Script) -> None:
        def key() -> bytes:
            # Sent again after something else was done with it, this does nothing.
            return key_bytes(id) if self._unsure.get(id) is script else b""

        await self._store.run(script, key, self._max_age)
        if self._unsure.get(id) is script:
            del self._unsure[id]


def _nothing() -> None:
    """Do nothing: it is doubted before anybody has sessions."""
