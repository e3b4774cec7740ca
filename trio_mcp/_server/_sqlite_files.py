"""Files of SQLite: readable for their owner alone, worked on in threads; and which processes that share one run.

No tables: what is in the files, those know that open them.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar, final

import trio

from .._errors import SERVER_BUSY, RequestError
from .._logs import Log

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_log: Final = Log("trio_mcp.server")

LOCK_SECONDS: Final = 1.5
"""How long SQLite waits for another process that writes: less than `Limits.goodbye_timeout`."""

ANSWER_SECONDS: Final = 5.0
"""How long anything may take that is wanted of a file, in seconds, with its wait for what was wanted before."""

CLOSE_SECONDS: Final = 5.0

WAL_ATTEMPTS: Final = 15

_T = TypeVar("_T")


def connect(path: str, *, does_begin: bool = False) -> sqlite3.Connection:
    """Open a file, or make one, that its owner alone may read, also what SQLite keeps beside it. In a thread.

    What is none of SQLite stays as it is, with its mode.

    Args:
        path: The file; or nothing, or ``:memory:``.
        does_begin: Whether transactions begin by themselves.

    Raises:
        OSError: It cannot be created, or has another owner.
        sqlite3.Error: It cannot be opened, is locked for longer than `LOCK_SECONDS`, or is none of SQLite.
    """
    files: list[str] = []
    if path and path != ":memory:":
        real = os.path.realpath(path)  # the target of a link, which may not exist yet
        try:
            # With this mode from the first moment. It is not open elsewhere, so closing it here ends no lock.
            os.close(os.open(real, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            files = [real, f"{real}-wal", f"{real}-shm"] if Path(real).is_file() else []
    level: Final = "DEFERRED" if does_begin else None
    database = sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=level, check_same_thread=False)
    try:
        if files:
            database.execute("PRAGMA schema_version")  # fails for what is none of SQLite
        for file in files:
            with suppress(FileNotFoundError):
                Path(file).chmod(0o600)  # by its name: closing a file that SQLite has open ends its locks
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def naming(path: str) -> Generator[None]:
    """Let errors name the file: SQLite does not say which it is."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise type(error)(f"{path}: {error}") from error


def use_wal(database: sqlite3.Connection) -> None:
    """Have readers and a writer not wait for each other, and the file be sound if the power fails. In a thread.

    What was written survives the process, but the last of it not a loss of power, for which each write would have
    to wait.

    Raises:
        sqlite3.Error: The file cannot be used, or is locked for longer than `LOCK_SECONDS`.
    """
    # The first to use a file may be refused at once, however long SQLite may wait.
    database.execute("PRAGMA busy_timeout = 0")
    for _ in range(WAL_ATTEMPTS - 1):
        with suppress(sqlite3.OperationalError):
            database.execute("PRAGMA journal_mode = WAL")
            break
        threading.Event().wait(LOCK_SECONDS / WAL_ATTEMPTS)
    else:
        database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA busy_timeout = {LOCK_SECONDS * 1_000:.0f}")
    database.execute("PRAGMA synchronous = NORMAL")


@final
class SqliteThread:
    """Works on a file in threads, one at a time, in order. What was begun is done or not done, even if cancelled.

    Args:
        database: The file. Nobody else uses this connection.
        name: What it is, for errors.
    """

    def __init__(self, database: sqlite3.Connection, name: str) -> None:
        self._database = database
        self._name = name
        self._limiter = trio.CapacityLimiter(1)
        self._lock = threading.Lock()

    async def run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Return what a function returns that works on the file.

        Raises:
            RequestError: The file cannot be used now, or does not answer within `ANSWER_SECONDS`.
        """

        def locked() -> _T:
            with self._lock:
                return work(self._database)

        try:
            with trio.fail_after(ANSWER_SECONDS):
                # Abandoned, it is still done, or not at all; and a disk that hangs delays nobody for longer.
                return await trio.to_thread.run_sync(locked, abandon_on_cancel=True, limiter=self._limiter)
        except trio.TooSlowError:
            problem = f"{self._name} has not answered within {ANSWER_SECONDS:g} s"
        except sqlite3.ProgrammingError:  # it is closed
            raise
        except sqlite3.DatabaseError as error:
            problem = f"{self._name} cannot be used now: {error}"
        _log.warning("%s", problem)
        raise RequestError(SERVER_BUSY, problem)

    async def close(self, last: Callable[[sqlite3.Connection], object]) -> None:
        """Do a last thing, if SQLite lets it, and close the file. Waits for at most `CLOSE_SECONDS`."""

        def close() -> None:
            with self._lock:
                try:
                    with suppress(sqlite3.Error):
                        last(self._database)
                finally:
                    self._database.close()

        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await trio.to_thread.run_sync(close, abandon_on_cancel=True)


@final
class LifeSign:
    """A file that is locked for as long as whoever has made this object runs: the kernel ends the lock.

    It is one of `flock`, so that two in one process count as two, and closing another descriptor ends nothing.
    Nothing is said by numbers of processes, which are used again.

    Args:
        path: The file. There is none yet.

    Raises:
        OSError: It cannot be created, or its file system has no locks.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            _lock(self._file, is_shared=False)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Say that it does not run any more."""
        os.close(self._file)
        with suppress(OSError):  # Windows removes no file that others look at
            Path(self._path).unlink()


def lives(path: str) -> bool:
    """Whether whoever has made a `LifeSign` runs. In doubt it does."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        _lock(file, is_shared=True)  # so that two who look at the same time do not see each other
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(file)


def _lock(file: int, *, is_shared: bool) -> None:
    """Lock a file, or fail at once."""
    if sys.platform == "win32":
        del is_shared
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
