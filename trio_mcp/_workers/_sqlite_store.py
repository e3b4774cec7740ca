"""Keeps what processes of one machine share in one SQLite file: who they are, sessions, events and tasks.

What a store must do is in `_endpoint/_shared`, who uses it in `_members`. The events and tasks are those of
`_endpoint/_sqlite_events` and `_server/_sqlite_tasks`, in the same file.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, final

import attrs
import trio

from .._endpoint._event_store import EventStore
from .._endpoint._shared import SessionStore, SharedStore, TakenSession
from .._endpoint._sqlite_events import SqliteEventStore, open_events_of_group
from .._errors import SERVER_BUSY, RequestError
from .._limits import check_seconds, check_whole
from .._server._sqlite_files import LifeSign, SqliteThread, connect, lives, naming, use_wal
from .._server._sqlite_tasks import open_sqlite_task_store
from .._server._task_store import SharedTaskStore
from .._trio import check_trio_runs, open_hidden_nursery, wall_time
from ._members import Store

SECRET_BYTES: Final = 32

REMOVED_AT_ONCE: Final = 100

_COLUMNS: Final = {
    "shared": ["secret", "sessions"],
    "processes": ["number", "address", "is_gone", "at"],
    "sessions": ["id", "owner", "turn", "data"],
}

# What is kept true:
#
# * A process is in the table from when it joins until it is gone and has no sessions. Nothing but `gone` and its
#   own leaving makes it gone; and one that never says where it is, and has no sessions, is not kept for long.
# * Whoever owns a session is in the table. What is released is owned by a process that never was: a new number,
#   gone from the start, so that what holds for the sessions of dead processes holds for these.
# * A number is used once: AUTOINCREMENT gives none again, even if its row was removed.
# * `at` is when a process joined, or, of one that is gone, when it was found so.
# * Triggers count the sessions, for all processes, and remove processes that are gone with their last session.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS shared (secret BLOB NOT NULL, sessions INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS processes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    address TEXT,
    is_gone INTEGER NOT NULL,
    at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS processes_there ON processes (number) WHERE NOT is_gone;
CREATE INDEX IF NOT EXISTS processes_gone ON processes (at) WHERE is_gone;
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY,
    owner INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS sessions_by_owner ON sessions (owner);
CREATE TRIGGER IF NOT EXISTS session_added AFTER INSERT ON sessions BEGIN
    UPDATE shared SET sessions = sessions + 1;
END;
CREATE TRIGGER IF NOT EXISTS session_removed AFTER DELETE ON sessions BEGIN
    UPDATE shared SET sessions = sessions - 1;
    DELETE FROM processes
        WHERE number = old.owner AND is_gone AND NOT EXISTS (SELECT * FROM sessions WHERE owner = old.owner);
END;
CREATE TRIGGER IF NOT EXISTS session_moved AFTER UPDATE OF owner ON sessions BEGIN
    DELETE FROM processes
        WHERE number = old.owner AND is_gone AND NOT EXISTS (SELECT * FROM sessions WHERE owner = old.owner);
END;
"""


@final
class SqliteStore(Store):
    """Keeps what processes of one machine need to serve one server together, in one SQLite file.

    Sessions, their events, and tasks are still there when the process that had them was killed, and when all are
    started again; the last of them are lost if the power fails. The file, and what is kept beside it, can be read
    by its owner alone: it has a secret in it.

    Args:
        path: The file; it is created if there is none. Not on a network file system.
        max_sessions: How many sessions are kept, of all processes. Beyond, those go first whose processes have
            been gone for the longest time; if there are none, no client can begin another one.
        max_age: For how many seconds events are kept, and sessions whose process is gone.

    Raises:
        TypeError: A bound is no number, or no whole number where one is needed.
        ValueError: A bound is not more than 0; or this is no file, but memory, which no other process has.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, max_sessions: int = 100_000, max_age: float = 3_600.0
    ) -> None:
        self._path = os.fspath(path)
        if not self._path or self._path == ":memory:":
            raise ValueError(f"a store that processes share is a file, with a name, not {self._path!r}")
        self._max_sessions = check_whole("max_sessions", max_sessions)
        self._max_age = check_seconds("max_age", max_age, may_be_zero=False)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[SharedStore]:
        """Join the other processes, for as long as the block runs. Leaving waits for at most five seconds.

        Raises:
            OSError: The file cannot be created, has another owner, or its file system has no locks.
            sqlite3.Error: The file cannot be used: it is none of SQLite, or of another version of this library.
        """
        check_trio_runs("SqliteStore.open()")
        now = wall_time()
        # Left all at once, so that this takes no longer than leaving one of them.
        first, second, third = parts = [AsyncExitStack() for _ in range(3)]
        try:
            with naming(self._path):
                joined = await trio.to_thread.run_sync(_join, self._path, now)
            first.push_async_callback(joined.leave)
            events = await second.enter_async_context(open_events_of_group(self._path, max_age=self._max_age))
            tasks = await third.enter_async_context(open_sqlite_task_store(self._path))
            sessions = _Sessions(joined, events, self._max_sessions, self._max_age)
            sign_of = partial(_sign_of, self._path)
            yield _Member(
                joined.thread, sign_of, joined.number, joined.secret, sessions, events, tasks, joined.folder
            )
        finally:
            with trio.CancelScope(shield=True):
                async with open_hidden_nursery() as nursery:
                    for part in parts:
                        nursery.start_soon(part.aclose)


@final
@attrs.frozen
class _Joined:
    """A file that a process has joined."""

    thread: SqliteThread
    number: int
    secret: bytes = attrs.field(repr=False)
    life: LifeSign
    folder: str
    ended: dict[str, None] = attrs.field(factory=dict[str, None], init=False)  # sessions that may still be kept

    async def leave(self) -> None:
        now = wall_time()

        def work(database: sqlite3.Connection) -> None:
            _forget(database, self.number, list(self.ended))
            _mark(self.number, now)(database)

        try:
            await self.thread.close(work)
        finally:
            self.life.end()


def _sign_of(path: str, number: int) -> str:
    """Return the file that a process keeps locked, beside the file of the store."""
    return f"{os.path.realpath(path)}-process-{number}"


def _join(path: str, now: float) -> _Joined:
    """Open a file, and enter a process into it. In a thread."""
    database = connect(path)
    try:
        number, secret = _begin(database, now)
        with suppress(FileNotFoundError):
            Path(_sign_of(path, number)).unlink()  # of a file of this name that was removed
        life = LifeSign(_sign_of(path, number))
    except BaseException:
        database.close()
        raise
    folder = str(Path(path).resolve().parent)
    return _Joined(SqliteThread(database, "the file of sessions"), number, secret, life, folder)


def _begin(database: sqlite3.Connection, now: float) -> tuple[int, bytes]:
    """Make what is not there, and return the number of a new process, and the secret."""
    for table, columns in _COLUMNS.items():
        found = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        if found and found != columns:
            raise sqlite3.DatabaseError(
                f"its table {table} is of another program, or of another version of this library"
            )
    use_wal(database)
    with database:
        database.executescript("BEGIN IMMEDIATE;" + _SCHEMA)
        database.execute(
            "INSERT INTO shared SELECT ?, 0 WHERE NOT EXISTS (SELECT * FROM shared)",
            (secrets.token_bytes(SECRET_BYTES),),
        )
        [secret] = database.execute("SELECT secret FROM shared").fetchone()
        number = database.execute("INSERT INTO processes (is_gone, at) VALUES (0, ?)", (now,)).lastrowid
    assert number is not None
    return number, secret


def _mark(number: int, now: float) -> Callable[[sqlite3.Connection], None]:
    """Return what notes that a process is gone."""

    def work(database: sqlite3.Connection) -> None:
        database.execute(
            "UPDATE processes SET is_gone = 1, at = ? WHERE number = ? AND NOT is_gone", (now, number)
        )

    return work


@final
class _Sessions:
    """See `SessionStore`. What is begun is done or not done, even if it is cancelled."""

    def __init__(self, joined: _Joined, events: SqliteEventStore, max_sessions: int, max_age: float) -> None:
        self._run = joined.thread.run
        self._number = joined.number
        self._ended = joined.ended
        self._events = events
        self._max_sessions = max_sessions
        self._max_age = max_age
        self._cleaned_at: float | None = None

    async def keep(self, id: str, data: bytes) -> bool:
        """Keep a session; see `SessionStore.keep`.

        Raises:
            RequestError: There are too many, or the file does not answer.
        """
        now = wall_time()

        def work(database: sqlite3.Connection) -> bool:
            with database:
                database.execute("BEGIN IMMEDIATE")
                found = database.execute("SELECT owner FROM sessions WHERE id = ?", (id,)).fetchone()
                if found is None:
                    self._make_room(database, now)
                    # Back, if others have taken it for gone and removed it.
                    database.execute(
                        "INSERT OR IGNORE INTO processes (number, is_gone, at) VALUES (?, 0, ?)",
                        (self._number, now),
                    )
                    database.execute("INSERT INTO sessions VALUES (?, ?, 0, ?)", (id, self._number, data))
                elif found[0] == self._number:
                    database.execute("UPDATE sessions SET data = ? WHERE id = ?", (data, id))
            is_ours = found is None or found[0] == self._number
            if not is_ours:
                self._events._let_go(id)
            return is_ours

        await self._forget_ended()
        return await self._run(work)

    async def find(self, id: str) -> bytes | None:
        """Return what is kept of a session; see `SessionStore.find`."""

        def work(database: sqlite3.Connection) -> bytes | None:
            found = database.execute("SELECT data FROM sessions WHERE id = ?", (id,)).fetchone()
            return None if found is None else found[0]

        return await self._run(work)

    async def take(self, id: str) -> TakenSession | int | None:
        """Take over a session; see `SessionStore.take`."""

        def look(database: sqlite3.Connection) -> TakenSession | int | None:
            found = database.execute(
                "SELECT owner, turn, data, EXISTS (SELECT * FROM processes WHERE number = owner AND NOT is_gone) "
                "FROM sessions WHERE id = ?",
                (id,),
            ).fetchone()
            if found is None:
                return None
            owner, turn, data, is_there = found
            return owner if is_there and owner != self._number else TakenSession(data, turn + 1)

        def work(database: sqlite3.Connection) -> TakenSession | int | None:
            if not isinstance(found := look(database), TakenSession):
                return found  # looking locks nothing
            self._events._let_go(id)
            with database:
                database.execute("BEGIN IMMEDIATE")
                if isinstance(found := look(database), TakenSession):
                    database.execute(
                        "UPDATE sessions SET owner = ?, turn = ? WHERE id = ?", (self._number, found.turn, id)
                    )
            return found

        await self._forget_ended()
        return await self._run(work)

    async def release(self, id: str) -> None:
        """Let any process take a session; see `SessionStore.release`."""
        now = wall_time()

        def work(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                nobody = database.execute("INSERT INTO processes (is_gone, at) VALUES (1, ?)", (now,)).lastrowid
                database.execute(
                    "UPDATE sessions SET owner = ? WHERE id = ? AND owner = ?", (nobody, id, self._number)
                )
            self._events._let_go(id)

        await self._run(work)

    async def forget(self, id: str) -> None:
        """Keep a session no longer; see `SessionStore.forget`. If it raises, that is done later."""
        try:
            await self._run(partial(_forget, number=self._number, ended=[id]))
        except BaseException:
            self._ended[id] = None
            raise

    async def _forget_ended(self) -> None:
        """Forget the sessions that could not be forgotten at their end."""
        if ended := list(self._ended):
            await self._run(partial(_forget, number=self._number, ended=ended))
            for id in ended:
                self._ended.pop(id, None)

    def _make_room(self, database: sqlite3.Connection, now: float) -> None:
        """Remove what is too old, now and then; and what is too much, always."""
        if self._cleaned_at is None or not 0 <= now - self._cleaned_at < self._max_age / 10:
            old = database.execute(
                "SELECT id FROM sessions WHERE owner IN (SELECT number FROM processes WHERE is_gone AND at < ?) "
                "LIMIT ?",
                (now - self._max_age, REMOVED_AT_ONCE),
            ).fetchall()
            _remove(database, old)
            if len(old) < REMOVED_AT_ONCE:
                self._cleaned_at = now
            # One that has never said where it is was killed before it served anything, or has not begun to.
            database.execute(
                "DELETE FROM processes WHERE (is_gone OR (address IS NULL AND at < ?)) "
                "AND NOT EXISTS (SELECT * FROM sessions WHERE owner = number)",
                (now - self._max_age,),
            )
        while True:
            [count] = database.execute("SELECT sessions FROM shared").fetchone()
            if count < self._max_sessions:
                return
            oldest = database.execute(
                "SELECT id FROM sessions WHERE owner = (SELECT number FROM processes WHERE is_gone "
                "AND EXISTS (SELECT * FROM sessions WHERE owner = number) ORDER BY at LIMIT 1) "
                "ORDER BY rowid LIMIT ?",
                (count - self._max_sessions + 1,),
            ).fetchall()
            if not oldest:
                problem = (
                    f"no more sessions can be kept: the file has {count} (max_sessions is {self._max_sessions})"
                )
                raise RequestError(SERVER_BUSY, problem)
            _remove(database, oldest)


def _forget(database: sqlite3.Connection, number: int, ended: Sequence[str]) -> None:
    """Keep sessions of a process no longer. Their events are the event store's."""
    with database:
        database.execute("BEGIN IMMEDIATE")
        database.executemany("DELETE FROM sessions WHERE id = ? AND owner = ?", [(id, number) for id in ended])


def _remove(database: sqlite3.Connection, sessions: Sequence[tuple[str]]) -> None:
    """Remove sessions with their events."""
    database.executemany("DELETE FROM sessions WHERE id = ?", sessions)
    database.executemany("DELETE FROM events WHERE session = ?", sessions)


@final
@attrs.define(eq=False)
class _Member:
    """A process that has joined; see `SharedStore`."""

    _thread: SqliteThread
    _sign_of: Callable[[int], str]
    number: int
    secret: bytes = attrs.field(repr=False)
    sessions: SessionStore
    events: EventStore
    tasks: SharedTaskStore
    folder: str | None
    host: str | None = None
    on_doubt: Callable[[], object] = lambda: None  # who is gone here is gone

    async def announce(self, address: str) -> None:
        """Say where this process listens; see `SharedStore.announce`."""
        now = wall_time()

        def work(database: sqlite3.Connection) -> None:
            database.execute(
                "INSERT INTO processes VALUES (?, ?, 0, ?) ON CONFLICT DO UPDATE SET address = excluded.address",
                (self.number, address, now),
            )

        await self._thread.run(work)

    async def others(self) -> Mapping[int, str]:
        """Return where the others listen; see `SharedStore.others`."""

        def work(database: sqlite3.Connection) -> dict[int, str]:
            query = (
                "SELECT number, address FROM processes WHERE NOT is_gone AND address IS NOT NULL AND number != ?"
            )
            return dict(database.execute(query, (self.number,)).fetchall())

        return await self._thread.run(work)

    async def address_of(self, number: int) -> str | None:
        """Return where a process listens; see `SharedStore.address_of`."""

        def work(database: sqlite3.Connection) -> str | None:
            query = "SELECT address FROM processes WHERE number = ? AND NOT is_gone"
            found = database.execute(query, (number,)).fetchone()
            return None if found is None else found[0]

        return await self._thread.run(work)

    async def gone(self, number: int) -> bool:
        """Note that a process is gone, unless it keeps its file locked; see `SharedStore.gone`."""
        mark, sign = _mark(number, wall_time()), self._sign_of(number)

        def work(database: sqlite3.Connection) -> bool:
            if lives(sign):
                return False
            mark(database)
            with suppress(OSError):
                Path(sign).unlink()
            return True

        return await self._thread.run(work)
