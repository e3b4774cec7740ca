"""Keeps the events of streams in a file, when there are more of them than memory is for."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar, final

import trio

from .._limits import check_whole
from ._event_store import StoredEvent

__all__ = ["SqliteEventStore", "open_sqlite_event_store"]

CLOSE_SECONDS: Final = 5.0
"""How long closing the file may take at most; SQLite waits as long for a lock by itself."""

_T = TypeVar("_T")

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL,
    stream INTEGER NOT NULL,
    number INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS by_stream ON events (session, stream, number);
"""


@final
class SqliteEventStore:
    """Keeps events in an SQLite file; see `EventStore`. Made by `open_sqlite_event_store`.

    One thread at a time works on it, so that everything happens in order; events that come together are written
    together.
    """

    def __init__(self, database: sqlite3.Connection, max_session_events: int) -> None:
        self._database = database
        self._max_session_events = max_session_events
        self._limiter = trio.CapacityLimiter(1)
        self._lock = threading.Lock()

    async def append(self, session: str, stream: int, events: Sequence[StoredEvent]) -> None:
        """Keep events; see `EventStore.append`. Once begun it is done, even if it is cancelled."""
        rows = [(session, stream, number, data) for number, data in events]

        def work(database: sqlite3.Connection) -> None:
            with database:
                database.executemany(
                    "INSERT INTO events (session, stream, number, data) VALUES (?, ?, ?, ?)", rows
                )
                database.execute(
                    "DELETE FROM events WHERE session = ? AND position <= (SELECT position FROM events "
                    "WHERE session = ? ORDER BY position DESC LIMIT 1 OFFSET ?)",
                    (session, session, self._max_session_events),
                )

        await self._run(work)

    async def read(self, session: str, stream: int, after: int, limit: int) -> Sequence[StoredEvent]:
        """Return events; see `EventStore.read`."""

        def work(database: sqlite3.Connection) -> list[StoredEvent]:
            found = database.execute(
                "SELECT number, data FROM events WHERE session = ? AND stream = ? AND number > ? "
                "ORDER BY number LIMIT ?",
                (session, stream, after, limit),
            )
            return [(int(number), bytes(data)) for number, data in found]

        return await self._run(work)

    async def forget(self, session: str) -> None:
        """Drop a session; see `EventStore.forget`."""

        def work(database: sqlite3.Connection) -> None:
            with database:
                database.execute("DELETE FROM events WHERE session = ?", (session,))

        await self._run(work)

    async def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        def locked() -> _T:
            with self._lock:
                return work(self._database)

        # Abandoned, it is done all the same, or not at all; and a disk that hangs holds up no end of a session.
        return await trio.to_thread.run_sync(locked, abandon_on_cancel=True, limiter=self._limiter)

    async def _close(self) -> None:
        def close() -> None:
            with self._lock:
                self._database.close()

        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await trio.to_thread.run_sync(close, abandon_on_cancel=True)


@asynccontextmanager
async def open_sqlite_event_store(
    path: str | os.PathLike[str], *, max_session_events: int = 10_000
) -> AsyncGenerator[SqliteEventStore]:
    """Open a store for as long as the block runs.

    What the file holds from before is dropped: it belongs to sessions that have ended with their process. One
    server uses a file at a time.

    Args:
        path: The file; it is made if there is none.
        max_session_events: How many events of one session are kept.

    Raises:
        TypeError: `max_session_events` is no whole number.
        ValueError: `max_session_events` is less than 1.
        sqlite3.Error: The file cannot be used.
    """
    check_whole("max_session_events", max_session_events)

    def connect() -> sqlite3.Connection:
        database = sqlite3.connect(path, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            # What a crash loses belongs to sessions that it loses as well.
            database.execute("PRAGMA synchronous = OFF")
            database.executescript(_SCHEMA)
            with database:
                database.execute("DELETE FROM events")
        except BaseException:
            database.close()
            raise
        return database

    database = await trio.to_thread.run_sync(connect)
    store = SqliteEventStore(database, max_session_events)
    try:
        yield store
    finally:
        await store._close()  # noqa: SLF001, ASYNC102 - its owner; shields itself, and is bounded
