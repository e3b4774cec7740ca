"""Keeps tasks in Redis, which outlives the server, and which processes of several machines may share.

What a store must do is in `_task_store`, who uses it in `_tasks`; what is done in Redis in `_redis_scripts`, and
how it is reached in `_redis_link`.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, final

import attrs
import trio

from .._codec import _json
from .._core._tasks import StoredTask, left_by_the_dead
from .._errors import SERVER_BUSY, RequestError
from .._limits import check_seconds, check_whole
from .._logs import Log
from .._trio import check_trio_runs, open_hidden_nursery, wall_time
from . import _redis_scripts as scripts
from ._redis_link import RedisLink, RedisPlace
from ._redis_scripts import Script
from ._task_rows import (
    MAX_WAITING,
    ROW_BYTES,
    SMALL_BYTES,
    expiry_of,
    read_content,
    read_row,
    released,
    tool_of,
    written_row,
)
from ._task_store import TaskMessage

_log: Final = Log("trio_mcp.server")

CLOSE_SECONDS: Final = 5.0

RENEWALS: Final = 4
"""How often a lease is renewed while it lasts."""

SHORTEST_LEASE: Final = 1.0
LONGEST_LEASE: Final = 86_400.0

ATTEMPTS: Final = 3
"""How often a script is sent by a process that has to say first who it is."""

LOST: Final[Mapping[str, Any]] = {"lost": True}
"""The message by which a process learns that a task is not its own any more."""


@final
@attrs.frozen
class _Bounds:
    max_tasks: int
    max_bytes: int
    max_age: float
    seconds: float
    lease: float


@final
class RedisTaskStore:
    """Keeps tasks in Redis; see `SharedTaskStore`. Made by `open_redis_task_store`.

    What was begun is done or not done, even if it is cancelled. Where Redis is full, or does not answer in time,
    its methods raise a `RequestError` that says so.
    """

    def __init__(self, place: RedisPlace, prefix: str, bounds: _Bounds) -> None:
        self._bounds = bounds
        self._prefix = f"{prefix}:"
        self._link = RedisLink(place, bounds.seconds, self._greet)
        self._runner = secrets.token_hex(8)
        self._is_new = True
        self._generation = 0
        self._running: set[str] = set()  # what this process runs, under its present name
        self._lost: dict[str, int] = {}  # and the numbers of the messages that say so
        self._losses = 0
        self._turn = trio.Lock()
        self._greeting = trio.Lock()
        self._is_closing = False
        self._claims = 0
        self._unsure_claim: int | None = None
        self._unsure_adds: set[str] = set()
        self._wanted = trio.Event()

    # This process, as others see it.

    async def _greet(self, connection: Any, after: int | None = None) -> None:
        """Say who this is, in a new connection; or in one that knows nobody of this generation any more."""
        async with self._greeting:
            if after is not None and self._generation != after:
                return  # another task has done it meanwhile
            while not self._is_closing:
                self._generation += 1
                arguments = [*self._head(), self._milliseconds(), int(self._is_new)]
                answer = await self._link.run_on(connection, scripts.GREET, arguments)
                if answer == b"ok":
                    self._is_new = False
                    self._wanted.set()
                    return
                if answer == b"lost":
                    self._lose()

    def _lose(self) -> None:
        """Begin anew under another name, for nobody may use that of a process that was found dead."""
        if self._running:
            _log.error(
                "this process was away from Redis for longer than its lease of %g s, or Redis was emptied: "
                "%d tasks that it was running are not its own any more",
                self._bounds.lease,
                len(self._running),
            )
        for id in self._running:
            self._losses += 1
            self._lost[id] = -self._losses
        self._running.clear()
        self._unsure_adds.clear()
        self._unsure_claim = None
        self._runner, self._is_new = secrets.token_hex(8), True

    def _head(self) -> list[Any]:
        return [self._prefix, self._runner, self._generation, repr(wall_time())]

    def _milliseconds(self) -> int:
        return round(self._bounds.lease * 1_000)

    async def _keep(self) -> None:
        """Renew the lease, and do what others have left undone, until this is cancelled."""
        while True:
            with trio.move_on_after(self._bounds.lease / RENEWALS):
                await self._wanted.wait()
            self._wanted = trio.Event()
            try:
                await self._keep_once()
            except RequestError:
                # It has been logged; and whoever is connected again renews its lease at once.
                await trio.sleep(self._bounds.lease / RENEWALS)

    async def _keep_once(self) -> None:
        async with self._turn:
            await self._settle_claim()
        for id in list(self._unsure_adds):
            await self.remove(id)
            self._unsure_adds.discard(id)
        _, *dead = await self._run(scripts.RENEW, self._milliseconds())
        for runner in dead:
            if runner.decode() != self._runner:
                await self._bury(runner.decode())

    async def _bury(self, runner: str) -> None:
        """End the tasks of a process that is gone."""
        while await self._mourn(runner):
            pass  # up to a hundred at a time

    async def _mourn(self, runner: str, ids: Iterable[bytes] = (), *, is_own: bool = False) -> bool:
        """End these tasks of a process that is gone, or some of them. Returns whether there were any."""
        left = await self._run(scripts.MOURN, runner, int(is_own), *ids)
        for id, data, version in zip(left[::3], left[1::3], left[2::3], strict=True):
            task = read_row(_name(id), data)
            row: list[Any] = ["", "", "", "", "", ""]
            if task is not None:
                task = left_by_the_dead(task, wall_time())
                row = [*self._row(task)[1:], int(task.is_final)]
            await self._run(scripts.LEAVE, runner, id, version, *row)
        return bool(left)

    # Tasks.

    async def add(self, task: StoredTask) -> None:
        """Keep a new task; see `TaskStore.add`.

        Raises:
            RequestError: There is no room, or Redis does not answer.
        """
        bounds = self._bounds
        id, *row = self._row(task)
        self._unsure_adds.discard(task.id)
        try:
            answer = await self._run(scripts.ADD, id, "", *row, bounds.max_tasks, bounds.max_bytes)
        except BaseException:
            self._unsure_adds.add(task.id)  # it may be there all the same, and is removed
            self._wanted.set()
            raise
        self._check(answer)
        self._running.add(task.id)

    async def find(self, id: str) -> StoredTask | None:
        """Return a task; see `TaskStore.find`. One whose process is gone has failed, or waits to be run again."""
        name = _bytes(id)
        found = await self._run(scripts.FIND, name)
        if len(found) > 1:
            await self._mourn(found[1].decode(), [name])
            self._wanted.set()  # for its other tasks
            found = await self._run(scripts.FIND, name)
        return read_row(id, found[0]) if found else None

    async def replace(self, task: StoredTask) -> None:
        """Replace a task that this process runs; see `TaskStore.replace`. Any other stays as it is.

        Raises:
            RequestError: There is no room for what has become of it, or Redis does not answer.
        """
        await self._write(task, is_left=False)

    async def release(self, task: StoredTask) -> None:
        """Leave a task of this process to be claimed; see `SharedTaskStore.release`."""
        await self._write(released(task), is_left=True)

    async def _write(self, task: StoredTask, *, is_left: bool) -> None:
        id, *row = self._row(task)
        is_small = is_left or (task.is_final and row[3] <= SMALL_BYTES)
        ends = is_left or task.is_final

        def runner() -> str:
            return "" if ends else self._runner

        most = self._bounds.max_bytes
        self._check(await self._run(scripts.REPLACE, id, runner, *row, most, int(is_small), int(task.is_final)))
        if ends:
            self._forget(task.id)

    def _forget(self, id: str) -> None:
        self._running.discard(id)
        self._lost.pop(id, None)

    async def remove(self, id: str) -> None:
        """Remove a task; see `TaskStore.remove`."""
        await self._run(scripts.REMOVE, _bytes(id))
        self._forget(id)

    # Other processes.

    async def send(self, id: str, content: Mapping[str, Any]) -> None:
        """Keep a message for the process that runs a task; see `SharedTaskStore.send`.

        Raises:
            RequestError: Too many wait for it already, there is no room, or Redis does not answer.
        """
        # Sent a second time it might come a second time.
        data, most = _json.encode(content), self._bounds.max_bytes
        self._check(await self._run(scripts.SEND, _bytes(id), data, most, MAX_WAITING, once=True))

    async def receive(self) -> Sequence[TaskMessage]:
        """Return messages for tasks of this process; see `SharedTaskStore.receive`."""
        found = await self._run(scripts.RECEIVE)
        lost = [TaskMessage(number, id, LOST) for id, number in self._lost.items()]
        triples = zip(found[::3], found[1::3], found[2::3], strict=True)
        return lost + [TaskMessage(int(number), _name(id), read_content(data)) for number, id, data in triples]

    async def done(self, numbers: Collection[int]) -> None:
        """Remove messages; see `SharedTaskStore.done`."""
        await self._run(scripts.DONE, *(number for number in numbers if number > 0))
        self._lost = {id: number for id, number in self._lost.items() if number not in numbers}

    async def versions(self, ids: Collection[str]) -> Mapping[str, int]:
        """Return numbers that change with the tasks; see `SharedTaskStore.versions`."""
        named = [_bytes(id) for id in ids]
        found = await self._run(scripts.VERSIONS, *named)
        dead: dict[bytes, list[bytes]] = {}
        for id, runner in zip(found[::3], found[2::3], strict=True):
            if runner:
                dead.setdefault(runner, []).append(id)
        for runner, tasks in dead.items():
            await self._mourn(runner.decode(), tasks)
        if dead:
            self._wanted.set()  # for their other tasks
            found = await self._run(scripts.VERSIONS, *named)
        return {_name(id): int(number) for id, number in zip(found[::3], found[1::3], strict=True)}

    async def claim(self, tools: Collection[str]) -> StoredTask | None:
        """Take over a call that waits to be run again; see `SharedTaskStore.claim`."""
        async with self._turn:
            await self._settle_claim()
            while True:
                self._claims += 1
                self._unsure_claim = self._claims
                try:
                    _, *found = await self._run(scripts.CLAIM, self._claims, *sorted(tools))
                    task = await self._claimed(*found) if found else None
                except BaseException:
                    self._wanted.set()  # it may be claimed all the same, and is given back
                    raise
                self._unsure_claim = None
                if task is not None or not found:
                    return task

    async def _claimed(self, id: bytes, data: bytes) -> StoredTask | None:
        """Return a task that is this process's own now, unless it cannot be read, or is lost at once."""
        task = read_row(_name(id), data)
        if task is None:
            await self.remove(_name(id))
            return None
        self._running.add(task.id)
        try:
            task = attrs.evolve(task, runs=task.runs + 1)
            await self._write(task, is_left=False)
        except BaseException:
            self._running.discard(task.id)
            raise
        return task if task.id in self._running else None

    async def _settle_claim(self) -> None:
        """Give back what was claimed, if nobody knows of it."""
        if self._unsure_claim is not None:
            await self._run(scripts.UNCLAIM, self._unsure_claim)
            self._unsure_claim = None

    # Rows and scripts.

    def _row(self, task: StoredTask) -> list[Any]:
        """Return how a task is written: id, tool, created, expires, size, data."""
        data, expires = written_row(task), expiry_of(task, self._bounds.max_age)
        until = "" if expires is None else repr(expires)
        return [_bytes(task.id), tool_of(task) or "", repr(task.created_at), until, len(data) + ROW_BYTES, data]

    async def _run(self, script: Script, *rest: Any, once: bool = False) -> list[Any]:
        """Run a script, also if it must be said first who this is.

        Args:
            script: The script.
            rest: Its arguments; a function is called when they are sent.
            once: Whether it must not be sent a second time.

        Raises:
            RequestError: Redis does not answer.
        """
        generation = 0

        async def ask(connection: Any) -> Any:
            nonlocal generation
            generation = self._generation
            arguments = [*self._head(), *(each() if callable(each) else each for each in rest)]
            return await self._link.run_on(connection, script, arguments)

        for _ in range(ATTEMPTS):
            answer: list[Any] = await self._link.request(ask, once=once)
            if answer != [b"fenced"]:
                return answer
            await self._link.request(partial(self._greet, after=generation))
        raise RequestError(SERVER_BUSY, "the lease of this process in Redis ends before it can be used")

    def _check(self, answer: list[Any]) -> None:
        """Raise if something was refused.

        Raises:
            RequestError: There is no room.
        """
        most = self._bounds.max_bytes
        match answer:
            case [b"full", size, more]:
                problem = (
                    f"the tasks in Redis have {size} bytes, and no room for {more} more (max_bytes is {most})"
                )
            case [b"tasks", count]:
                most = self._bounds.max_tasks
                problem = f"no more tasks can be kept: Redis has {count} (max_tasks is {most})"
            case [b"waiting", count]:
                problem = f"{count} messages wait for the task already"
            case _:
                return
        raise RequestError(SERVER_BUSY, problem)

    async def _close(self) -> None:
        with trio.move_on_after(CLOSE_SECONDS, shield=True), suppress(RequestError):
            while await self._mourn(self._runner, is_own=True):
                pass


def _bytes(id: str) -> bytes:
    """Write an id, which a client may have made up of anything."""
    return id.encode("utf-8", "surrogatepass")


def _name(id: bytes) -> str:
    return id.decode("utf-8", "surrogatepass")


@asynccontextmanager
async def open_redis_task_store(
    url: str,
    *,
    prefix: str = "trio-mcp",
    max_tasks: int = 100_000,
    max_bytes: int = 256 * 1024 * 1024,
    max_age: float = 7 * 86_400.0,
    seconds: float = 5.0,
    lease: float = 30.0,
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncGenerator[RedisTaskStore]:
    """Open a store of tasks for as long as the block runs, for ``Server(task_store=…)``.

    Processes of several machines may use it at the same time. Each has a lease there, which it renews; whose
    lease is over is dead for the others. A task that was running there has failed, and its error says so; or it
    is run again, if its tool has ``restartable=True``. A process that was taken for dead, and is not, changes
    these tasks no more, and its handlers of them are cancelled.

    While Redis is away, the connection is tried again and again; what is wanted meanwhile waits for ``seconds``.
    Tasks are removed when their ``ttl`` is over, in wall time. Leaving waits for at most five seconds. A method
    that is cancelled was done or not done.

    Args:
        url: ``redis://user:password@host:6379/0``, ``rediss://…`` for TLS, or ``unix:///path?db=0``. One Redis of
            version 6 or newer, no cluster.
        prefix: What all its keys begin with, before a colon. Servers with another one do not know these tasks.
        max_tasks: How many tasks are kept, of all processes.
        max_bytes: What tasks and messages between processes may weigh together, each with 200 bytes for itself.
            Redis takes about 1,000 bytes more for each.
        max_age: For how many seconds a task without a ``ttl`` is kept after it has ended.
        seconds: How long anything may take that is wanted of Redis, in seconds, with the wait for a connection.
        lease: After how many seconds without a sign of life a process is dead, by the clock of Redis. At least 1.
        ssl_context: For ``rediss://``; by default what the system trusts, and the name is checked.

    Raises:
        TypeError: A bound is no number, or no whole number where one is needed.
        ValueError: A bound is too small, or the URL is none.
        RuntimeError: coredis is not installed.
        ConnectionError: Redis cannot be used.
    """
    check_trio_runs("open_redis_task_store()")
    bounds = _Bounds(
        check_whole("max_tasks", max_tasks),
        check_whole("max_bytes", max_bytes),
        check_seconds("max_age", max_age, may_be_zero=False),
        check_seconds("seconds", seconds, may_be_zero=False),
        check_seconds("lease", lease, may_be_zero=False),
    )
    if not SHORTEST_LEASE <= bounds.lease <= LONGEST_LEASE:
        raise ValueError(f"lease must be from {SHORTEST_LEASE:g} to {LONGEST_LEASE:g} seconds, not {lease!r}")
    store = RedisTaskStore(RedisPlace(url, ssl_context), prefix, bounds)
    link = store._link
    async with open_hidden_nursery() as nursery:
        nursery.start_soon(link.run, name="connection to Redis")
        await link.connected()
        keeper = trio.CancelScope()

        async def keep() -> None:
            with keeper:
                await store._keep()

        nursery.start_soon(keep, name="lease in Redis")
        try:
            yield store
        finally:
            store._is_closing = True
            keeper.cancel(reason="the store is left")
            await store._close()  # noqa: ASYNC102 - shields itself, and is bounded
            nursery.cancel_scope.cancel(reason="the store is left")
