"""Keeps the events of streams in an SQLite file, for more of them than should be in memory."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Final, TypeVar, final

import attrs
import trio

from .._limits import check_seconds, check_whole
from .._server._sqlite_files import connect, naming
from .._trio import check_trio_runs
from ._event_store import EVENT_BYTES, EventShares, StoredEvent, weight_of

CLOSE_SECONDS: Final = 5.0
"""How long closing the file may take, in seconds; SQLite itself waits as long for a lock."""

TRIMMED_AT_ONCE: Final = 256
"""So many of the oldest events of a session are looked at to find those to drop."""

_T = TypeVar("_T")

# `at` was added later; rows without it count as older than all others.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL,
    stream INTEGER NOT NULL,
    number INTEGER NOT NULL,
    data BLOB NOT NULL,
    at REAL NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS by_stream ON events (session, stream, number);
CREATE INDEX IF NOT EXISTS by_session ON events (session, position);
"""
_BY_TIME: Final = "CREATE INDEX IF NOT EXISTS by_time ON events (at)"


@final
@attrs.define
class _SessionSize:
    """What the file holds of one session of ours."""

    count: int = 0
    size: int = 0


@final
@attrs.frozen
class _Bounds:
    max_session_events: int = 10_000
    max_session_bytes: int = 64 * 1024 * 1024
    max_bytes: int = 1024 * 1024 * 1024
    max_age: float = 3_600.0
    are_taken_over: bool = False


@final
class SqliteEventStore:
    """Keeps events in an SQLite file; see `EventStore`. Made by `open_sqlite_event_store`.

    One thread at a time works on it, so that everything happens in order; events that come together are written
    together.
    """

    # Other processes may use the file, too. Each bounds, and at its end drops, the events of its own sessions,
    # which no other process has; any process drops what is too old. Only who has `_lock` touches `_sessions`.
    # Where processes take over sessions (`_workers/_sqlite_store`), the events of these stay in the file, and who
    # has one next begins to count with what is there.

    def __init__(self, database: sqlite3.Connection, bounds: _Bounds) -> None:
        self._database = database
        self._bounds = bounds
        self._limiter = trio.CapacityLimiter(1)
        self._lock = threading.Lock()
        self._sessions: dict[str, _SessionSize] = {}
        self._losers: list[str] = []
        self._aged_at = time.time()
        self._shares: Final = EventShares(bounds.max_bytes, self._losers.append)

    async def append(self, session: str, stream: int, events: Sequence[StoredEvent]) -> None:
        """Keep events; see `EventStore.append`. Once begun it is done, even if it is cancelled."""

        def work(database: sqlite3.Connection) -> None:
            now = time.time()
            rows = [(session, stream, number, data, now) for number, data in events]
            if self._bounds.are_taken_over and session not in self._sessions:
                self._look_again(database, session)
            kept = self._sessions.setdefault(session, _SessionSize())
            try:
                with database:
                    database.executemany(
                        "INSERT INTO events (session, stream, number, data, at) VALUES (?, ?, ?, ?, ?)", rows
                    )
                    kept.count += len(rows)
                    kept.size += sum(weight_of(data) for _, data in events)
                    self._trim(database, session, kept)
                    if not 0 <= now - self._aged_at < self._bounds.max_age / 10:
                        self._aged_at = now
                        self._drop_old(database, now - self._bounds.max_age)
            except BaseException:
                self._look_again(database, session)
                raise

        await self._run(work)

    def _trim(self, database: sqlite3.Connection, session: str, kept: _SessionSize) -> None:
        """Drop events until the session, and all sessions together, are within their bounds."""
        bounds = self._bounds
        while (
            kept.count > bounds.max_session_events
            or kept.size > bounds.max_session_bytes
            or not self._shares.set(session, kept.size)
        ):
            oldest = database.execute(
                "SELECT position, coalesce(length(data), 0) FROM events WHERE session = ? "
                "ORDER BY position LIMIT ?",
                (session, TRIMMED_AT_ONCE),
            ).fetchall()
            if not oldest:
                kept.count = kept.size = 0
                break
            is_within = kept.count <= bounds.max_session_events and kept.size <= bounds.max_session_bytes
            # If all together have too much, half of its events go, so that this is not done each time.
            most = kept.size // 2 if is_within else bounds.max_session_bytes
            gone = 0
            while gone < len(oldest) and (kept.count > bounds.max_session_events or kept.size > most):
                kept.count -= 1
                kept.size -= EVENT_BYTES + oldest[gone][1]
                gone += 1
            last = oldest[gone - 1][0]
            database.execute("DELETE FROM events WHERE session = ? AND position <= ?", (session, last))
        while self._losers:
            loser = self._losers.pop()
            self._sessions.pop(loser, None)
            database.execute("DELETE FROM events WHERE session = ?", (loser,))

    def _drop_old(self, database: sqlite3.Connection, before: float) -> None:
        """Drop what is too old, of any process."""
        found = database.execute("SELECT DISTINCT session FROM events WHERE at < ?", (before,)).fetchall()
        database.execute("DELETE FROM events WHERE at < ?", (before,))
        for (session,) in found:
            if session in self._sessions:
                self._look_again(database, session)
        if self._bounds.are_taken_over:
            # What others have dropped of ours meanwhile is not known here: each is counted anew when it has more.
            self._sessions.clear()

    def _look_again(self, database: sqlite3.Connection, session: str) -> None:
        """Read from the file how much it holds of a session of ours."""
        with suppress(sqlite3.Error):
            count, size = database.execute(
                "SELECT count(*), coalesce(sum(length(data)), 0) FROM events WHERE session = ?", (session,)
            ).fetchone()
            self._sessions[session] = _SessionSize(count, size + count * EVENT_BYTES)
            self._shares.set(session, size + count * EVENT_BYTES)

    async def read(self, session: str, stream: int, after: int, limit: int) -> Sequence[StoredEvent]:
        """Return events; see `EventStore.read`."""

        def work(database: sqlite3.Connection) -> list[StoredEvent]:
            found = database.execute(
                "SELECT number, data FROM events WHERE session = ? AND stream = ? AND number > ? "
                "AND typeof(number) = 'integer' AND typeof(data) = 'blob' ORDER BY number LIMIT ?",
                (session, stream, after, limit),
            )
            # What others have written there is no reason to fail, nor to return an event twice.
            return list(dict[int, bytes](found).items())

        return await self._run(work)

    async def forget(self, session: str) -> None:
        """Drop a session; see `EventStore.forget`."""

        def work(database: sqlite3.Connection) -> None:
            self._sessions.pop(session, None)
            self._shares.forget(session)
            with database:
                database.execute("DELETE FROM events WHERE session = ?", (session,))

        await self._run(work)

    def _let_go(self, session: str) -> None:
        """Count the events of a session no longer: another process has it, or had it meanwhile. In a thread."""
        with self._lock:
            self._sessions.pop(session, None)
            self._shares.forget(session)

    async def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        def locked() -> _T:
            with self._lock:
                return work(self._database)

        # Abandoned, it is still done, or not at all; and a disk that hangs does not delay the end of a session.
        return await trio.to_thread.run_sync(locked, abandon_on_cancel=True, limiter=self._limiter)

    async def _close(self) -> None:
        def close() -> None:
            with self._lock:
                try:
                    own = [] if self._bounds.are_taken_over else [(session,) for session in self._sessions]
                    with suppress(sqlite3.Error), self._database as database:
                        database.executemany("DELETE FROM events WHERE session = ?", own)
                finally:
                    self._database.close()

        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await trio.to_thread.run_sync(close, abandon_on_cancel=True)


@asynccontextmanager
async def open_sqlite_event_store(
    path: str | os.PathLike[str],
    *,
    max_session_events: int = 10_000,
    max_session_bytes: int = 64 * 1024 * 1024,
    max_bytes: int = 1024 * 1024 * 1024,
    max_age: float = 3_600.0,
) -> AsyncGenerator[SqliteEventStore]:
    """Open a store for as long as the block runs.

    Leaving drops the events of its sessions, which end with their process. Several processes may use a file at
    the same time: no process drops events of another before they are too old; nor events that a killed process
    has left. The file, and what SQLite keeps beside it, can be read by its owner alone.

    The oldest events of a session are dropped first. A client that asks for dropped events is sent those that are
    left, or refused (400) if none are.

    Args:
        path: The file; it is created if there is none.
        max_session_events: How many events of one session are kept.
        max_session_bytes: What the events of one session may weigh, each with 200 bytes for itself.
        max_bytes: The same for all sessions of this store together, of which one client gets at most as much as
            is left to others; beyond, it loses those of its session without new events for the longest time.
        max_age: How long events are kept at most, in seconds.

    Raises:
        TypeError: A bound is no number, or no whole number where one is needed.
        ValueError: A bound is not more than 0.
        OSError: The file cannot be created, or has another owner.
        sqlite3.Error: The file cannot be used.
    """
    check_trio_runs("open_sqlite_event_store()")
    bounds = _Bounds(
        check_whole("max_session_events", max_session_events),
        check_whole("max_session_bytes", max_session_bytes),
        check_whole("max_bytes", max_bytes),
        check_seconds("max_age", max_age, may_be_zero=False),
    )
    async with _opened(path, bounds) as store:
        yield store


def open_events_of_group(
    path: str | os.PathLike[str], *, max_age: float
) -> AbstractAsyncContextManager[SqliteEventStore]:
    """The same for processes that take over each other's sessions: their events stay when one of them leaves."""
    return _opened(path, _Bounds(max_age=max_age, are_taken_over=True))


@asynccontextmanager
async def _opened(path: str | os.PathLike[str], bounds: _Bounds) -> AsyncGenerator[SqliteEventStore]:
    name = os.fspath(path)

    def begin() -> sqlite3.Connection:
        database = connect(name, does_begin=True)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            # A crash ends the sessions of what it loses, too; but a file that has tasks in it must stay sound.
            database.execute(f"PRAGMA synchronous = {'NORMAL' if bounds.are_taken_over else 'OFF'}")
            database.executescript(_SCHEMA)
            with database:
                columns = database.execute("PRAGMA table_info(events)").fetchall()
                if all(column[1] != "at" for column in columns):
                    database.execute("ALTER TABLE events ADD COLUMN at REAL NOT NULL DEFAULT 0")
                database.execute(_BY_TIME)
                database.execute("DELETE FROM events WHERE at < ?", (time.time() - bounds.max_age,))
        except BaseException:
            database.close()
            raise
        return database

    with naming(name):
        database = await trio.to_thread.run_sync(begin)
    store = SqliteEventStore(database, bounds)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store._close)
        yield store
