"""Keeps tasks in an SQLite file, which outlives the server, and which several processes of a machine may share.

What a store must do is in `_task_store`, who uses it in `_tasks`.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, final

import attrs
import trio

from .._codec import _json
from .._core._tasks import StoredTask, left_by_the_dead
from .._errors import SERVER_BUSY, RequestError
from .._limits import check_seconds, check_whole
from .._trio import check_trio_runs, wall_time
from ._sqlite_files import LifeSign, SqliteThread, connect, lives, naming, use_wal
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

REMOVED_AT_ONCE: Final = 100
READ_AT_ONCE: Final = 100

_COLUMNS: Final = ["id", "runner", "tool", "version", "expires", "size", "data"]

# A process is known by the random name of its `runner`, and by its life sign, a file of that name which it has
# locked (`_sqlite_files`). What is kept true:
#
# * A runner is in the table only if its life sign was locked before. So who finds it there, and the file unlocked
#   or gone, knows that it is dead. Its tasks are then ended, or left to be claimed, in one transaction with the
#   removal of the runner.
# * Whoever writes a task that runs names itself as its runner. A process that was taken for dead therefore
#   changes nothing any more, whatever it still does.
# * `expires` is null for a task that lasts, so that nobody looks at it to find those that do not.
# * Triggers count what is in the file, for all processes.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS task_runners (name TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS tasks (
    id TEXT PRIMARY KEY,
    runner TEXT,
    tool TEXT,
    version INTEGER NOT NULL,
    expires REAL,
    size INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS tasks_by_end ON tasks (expires) WHERE expires IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_by_runner ON tasks (runner) WHERE runner IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_to_run ON tasks (tool) WHERE tool IS NOT NULL AND runner IS NULL;
CREATE TABLE IF NOT EXISTS task_messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    size INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS task_messages_by_task ON task_messages (id);
CREATE TABLE IF NOT EXISTS task_totals (tasks INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT INTO task_totals SELECT 0, 0 WHERE NOT EXISTS (SELECT * FROM task_totals);
CREATE TRIGGER IF NOT EXISTS task_added AFTER INSERT ON tasks BEGIN
    UPDATE task_totals SET tasks = tasks + 1, bytes = bytes + new.size;
END;
CREATE TRIGGER IF NOT EXISTS task_resized AFTER UPDATE OF size ON tasks BEGIN
    UPDATE task_totals SET bytes = bytes + new.size - old.size;
END;
CREATE TRIGGER IF NOT EXISTS task_removed AFTER DELETE ON tasks BEGIN
    DELETE FROM task_messages WHERE id = old.id;
    UPDATE task_totals SET tasks = tasks - 1, bytes = bytes - old.size;
END;
CREATE TRIGGER IF NOT EXISTS task_message_added AFTER INSERT ON task_messages BEGIN
    UPDATE task_totals SET bytes = bytes + new.size;
END;
CREATE TRIGGER IF NOT EXISTS task_message_removed AFTER DELETE ON task_messages BEGIN
    UPDATE task_totals SET bytes = bytes - old.size;
END;
COMMIT;
"""


@final
@attrs.frozen
class _Bounds:
    max_tasks: int
    max_bytes: int
    max_age: float


@final
class SqliteTaskStore:
    """Keeps tasks in an SQLite file; see `SharedTaskStore`. Made by `open_sqlite_task_store`.

    One thread at a time works on it. What was begun is done or not done, even if it is cancelled. Where the file
    is full or broken, or does not answer in time, its methods raise a `RequestError` that says so.
    """

    def __init__(self, database: sqlite3.Connection, bounds: _Bounds, path: str | None) -> None:
        self._database = database
        self._bounds = bounds
        self._path = path
        self._thread = SqliteThread(database, "the file of tasks")
        self._run = self._thread.run
        self._runner = secrets.token_hex(8)
        self._life: LifeSign | None = None

    def _begin(self, now: float) -> None:
        """Make the tables, enter this runner, and end what was left. In a thread."""
        if self._path is not None:
            self._life = LifeSign(self._sign_of(self._runner))
        database = self._database
        use_wal(database)
        found = [row[1] for row in database.execute("PRAGMA table_info(tasks)")]
        if found and found != _COLUMNS:
            raise sqlite3.DatabaseError("its tasks are of another program, or of another version of this library")
        with database:
            database.executescript("BEGIN IMMEDIATE;" + _SCHEMA)
            database.execute("INSERT INTO task_runners VALUES (?)", (self._runner,))
        runners = [name for (name,) in database.execute("SELECT name FROM task_runners")]
        self._bury_dead(runners, now)
        with database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("DELETE FROM tasks WHERE expires <= ?", (now,))

    # Tasks.

    async def add(self, task: StoredTask) -> None:
        """Keep a new task; see `TaskStore.add`.

        Raises:
            RequestError: There is no room, or the file does not answer.
        """
        now, row = wall_time(), self._row(task, self._runner)
        bounds = self._bounds

        def work(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.execute(
                    "DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE expires <= ? LIMIT ?)",
                    (now, REMOVED_AT_ONCE),
                )
                self._check_room(row["size"], database)
                [count] = database.execute("SELECT tasks FROM task_totals").fetchone()
                if count >= bounds.max_tasks:
                    problem = f"no more tasks can be kept: the file has {count} (max_tasks is {bounds.max_tasks})"
                    raise RequestError(SERVER_BUSY, problem)
                database.execute(
                    "INSERT INTO tasks (id, runner, tool, version, expires, size, data) "
                    "VALUES (:id, :runner, :tool, 1, :expires, :size, :data)",
                    row,
                )

        await self._run(work)

    async def find(self, id: str) -> StoredTask | None:
        """Return a task; see `TaskStore.find`. One whose process is gone has failed, or waits to be run again."""
        now = wall_time()

        def work(database: sqlite3.Connection) -> StoredTask | None:
            query = "SELECT data, runner, expires FROM tasks WHERE id = ?"
            found = database.execute(query, (id,)).fetchone()
            if found is not None and found[1] is not None and self._bury_dead([found[1]], now):
                found = database.execute(query, (id,)).fetchone()
            if found is None:
                return None
            if found[2] is not None and found[2] <= now:
                with database:
                    database.execute("DELETE FROM tasks WHERE id = ? AND expires <= ?", (id, now))
                return None
            return read_row(id, found[0])

        return await self._run(work)

    async def replace(self, task: StoredTask) -> None:
        """Replace a task that this process runs; see `TaskStore.replace`. Any other stays as it is.

        Raises:
            RequestError: There is no room for what has become of it, or the file does not answer.
        """
        await self._write(task, self._runner)

    async def release(self, task: StoredTask) -> None:
        """Leave a task of this process to be claimed; see `SharedTaskStore.release`."""
        await self._write(released(task), None)

    async def _write(self, task: StoredTask, runner: str | None) -> None:
        row: dict[str, Any] = {**self._row(task, runner), "me": self._runner}
        is_small = task.is_final and row["size"] <= SMALL_BYTES

        def work(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                found = database.execute("SELECT size FROM tasks WHERE id = :id AND runner = :me", row).fetchone()
                if found is None:
                    return  # it has expired, or has been ended already
                if not is_small and row["size"] > found[0]:
                    self._check_room(row["size"] - found[0], database)
                self._update(row, database)
                if task.is_final:
                    database.execute("DELETE FROM task_messages WHERE id = :id", row)

        await self._run(work)

    async def remove(self, id: str) -> None:
        """Remove a task; see `TaskStore.remove`."""

        def work(database: sqlite3.Connection) -> None:
            with database:
                database.execute("DELETE FROM tasks WHERE id = ?", (id,))

        await self._run(work)

    # Other processes.

    async def send(self, id: str, content: Mapping[str, Any]) -> None:
        """Keep a message for the process that runs a task; see `SharedTaskStore.send`.

        Raises:
            RequestError: Too many wait for it already, there is no room, or the file does not answer.
        """
        data = _json.encode(content)
        size = len(data) + ROW_BYTES

        def work(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                found = database.execute("SELECT runner, tool FROM tasks WHERE id = ?", (id,)).fetchone()
                if found is None or found == (None, None):
                    return
                [count, is_there] = database.execute(
                    "SELECT count(*), coalesce(max(data = ?), 0) FROM task_messages WHERE id = ?", (data, id)
                ).fetchone()
                if is_there:
                    return
                if count >= MAX_WAITING:
                    raise RequestError(SERVER_BUSY, f"{count} messages wait for the task already")
                self._check_room(size, database)
                database.execute("INSERT INTO task_messages (id, size, data) VALUES (?, ?, ?)", (id, size, data))

        await self._run(work)

    async def receive(self) -> Sequence[TaskMessage]:
        """Return messages for tasks of this process; see `SharedTaskStore.receive`."""

        def work(database: sqlite3.Connection) -> list[TaskMessage]:
            found = database.execute(
                "SELECT number, m.id, m.data FROM task_messages m JOIN tasks t ON t.id = m.id "
                "WHERE t.runner = ? ORDER BY number LIMIT ?",
                (self._runner, READ_AT_ONCE),
            ).fetchall()
            return [TaskMessage(number, id, read_content(data)) for number, id, data in found]

        return await self._run(work)

    async def done(self, numbers: Collection[int]) -> None:
        """Remove messages; see `SharedTaskStore.done`."""

        def work(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                rows = [(number,) for number in numbers]
                database.executemany("DELETE FROM task_messages WHERE number = ?", rows)

        await self._run(work)

    async def versions(self, ids: Collection[str]) -> Mapping[str, int]:
        """Return numbers that change with the tasks; see `SharedTaskStore.versions`."""
        now, named = wall_time(), list(ids)

        def look(database: sqlite3.Connection) -> tuple[dict[str, int], set[Any]]:
            versions, runners = dict[str, int](), set[Any]()
            for id in named:
                found = database.execute(
                    "SELECT version, runner FROM tasks WHERE id = ? AND (expires IS NULL OR expires > ?)",
                    (id, now),
                ).fetchone()
                if found is not None:
                    versions[id] = found[0]
                    runners.update(found[1:])
            runners.discard(None)
            return versions, runners

        def work(database: sqlite3.Connection) -> dict[str, int]:
            versions, runners = look(database)
            return look(database)[0] if self._bury_dead(runners, now) else versions

        return await self._run(work)

    async def claim(self, tools: Collection[str]) -> StoredTask | None:
        """Take over a call that waits to be run again; see `SharedTaskStore.claim`."""
        now, named = wall_time(), sorted(tools)

        def work(database: sqlite3.Connection) -> StoredTask | None:
            for tool in named:
                query = (
                    "SELECT id, data FROM tasks WHERE tool = ? AND runner IS NULL "
                    "AND (expires IS NULL OR expires > ?) LIMIT 1"
                )
                if database.execute(query, (tool, now)).fetchone() is None:
                    continue  # looking locks nothing
                with database:
                    database.execute("BEGIN IMMEDIATE")
                    found = database.execute(query, (tool, now)).fetchone()
                    task = None if found is None else read_row(*found)
                    if task is not None:
                        task = attrs.evolve(task, runs=task.runs + 1)
                        self._update(self._row(task, self._runner), database)
                        return task
            return None

        return await self._run(work)

    # Rows.

    def _row(self, task: StoredTask, runner: str | None) -> dict[str, Any]:
        data = written_row(task)
        return {
            "id": task.id,
            "runner": None if task.is_final else runner,
            "tool": tool_of(task),
            "expires": expiry_of(task, self._bounds.max_age),
            "size": len(data) + ROW_BYTES,
            "data": data,
        }

    @staticmethod
    def _update(row: Mapping[str, Any], database: sqlite3.Connection) -> None:
        database.execute(
            "UPDATE tasks SET runner = :runner, tool = :tool, version = version + 1, expires = :expires, "
            "size = :size, data = :data WHERE id = :id",
            row,
        )

    def _check_room(self, more: int, database: sqlite3.Connection) -> None:
        [size] = database.execute("SELECT bytes FROM task_totals").fetchone()
        most = self._bounds.max_bytes
        if size + more > most:
            problem = f"the file of tasks has {size} bytes, and no room for {more} more (max_bytes is {most})"
            raise RequestError(SERVER_BUSY, problem)

    # Runners. In the thread.

    def _sign_of(self, runner: str) -> str:
        return f"{self._path}-runner-{runner}"

    def _bury_dead(self, runners: Iterable[str], now: float) -> bool:
        """End the tasks of those that are gone. Returns whether any is."""
        dead = [each for each in runners if each != self._runner and not lives(self._sign_of(each))]
        for runner in dead:
            self._bury(runner, now)
            with suppress(OSError):
                Path(self._sign_of(runner)).unlink()
        return bool(dead)

    def _bury(self, runner: str, now: float) -> None:
        with self._database as database:
            database.execute("BEGIN IMMEDIATE")
            for id, data in database.execute("SELECT id, data FROM tasks WHERE runner = ?", (runner,)).fetchall():
                task = read_row(id, data)
                if task is None:
                    database.execute("DELETE FROM tasks WHERE id = ?", (id,))
                    continue
                left = left_by_the_dead(task, now)
                self._update(self._row(left, None), database)
                if left.is_final:
                    database.execute("DELETE FROM task_messages WHERE id = ?", (id,))
            database.execute("DELETE FROM task_runners WHERE name = ?", (runner,))

    async def _close(self) -> None:
        now = wall_time()

        def last(_: sqlite3.Connection) -> None:
            try:
                self._bury(self._runner, now)
            finally:
                if self._life is not None:
                    self._life.end()

        await self._thread.close(last)


@asynccontextmanager
async def open_sqlite_task_store(
    path: str | os.PathLike[str],
    *,
    max_tasks: int = 100_000,
    max_bytes: int = 1024 * 1024 * 1024,
    max_age: float = 7 * 86_400.0,
) -> AsyncGenerator[SqliteTaskStore]:
    """Open a store of tasks for as long as the block runs, for ``Server(task_store=…)``.

    What has ended is still there when the file is opened again. A task that was running when its process died has
    failed, and its error says so; or it is run again, if its tool has ``restartable=True``. Several processes of
    one machine may use a file at the same time. Each keeps a file beside it locked, by which the others know that
    it runs: the file's name, ``-runner-`` and a random text. These files, that of SQLite and what it keeps beside
    it can be read by their owner alone.

    Tasks are removed when their ``ttl`` is over, in wall time. Leaving waits for at most five seconds.

    Args:
        path: The file; it is created if there is none. Not on a network file system.
        max_tasks: How many tasks are kept, of all processes.
        max_bytes: What tasks and messages between processes may weigh together, each with 200 bytes for itself.
        max_age: For how many seconds a task without a ``ttl`` is kept after it has ended.

    Raises:
        TypeError: A bound is no number, or no whole number where one is needed.
        ValueError: A bound is not more than 0.
        OSError: The file cannot be created, has another owner, or its file system has no locks.
        sqlite3.Error: The file cannot be used: it is none of SQLite, or of another version of this library.
    """
    check_trio_runs("open_sqlite_task_store()")
    bounds = _Bounds(
        check_whole("max_tasks", max_tasks),
        check_whole("max_bytes", max_bytes),
        check_seconds("max_age", max_age, may_be_zero=False),
    )
    name = os.fspath(path)
    is_file, now = bool(name) and name != ":memory:", wall_time()

    def begin() -> SqliteTaskStore:
        database = connect(name)
        store = SqliteTaskStore(database, bounds, os.path.realpath(name) if is_file else None)
        try:
            store._begin(now)
        except BaseException:
            database.close()
            if store._life is not None:
                store._life.end()
            raise
        return store

    with naming(name):
        store = await trio.to_thread.run_sync(begin)
    try:
        yield store
    finally:
        await store._close()  # noqa: ASYNC102 - shields itself, and is bounded
