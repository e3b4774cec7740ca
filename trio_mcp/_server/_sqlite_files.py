"""Files of SQLite that only their owner can read, and how processes that share one know which of them still run.

No tables: what is in the files, those know that open them.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import final

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def make_private(path: str) -> None:
    """Create the file if there is none, readable for its owner alone; SQLite gives its other files the same mode.

    Raises:
        OSError: It cannot be created, or has another owner.
    """
    path = os.path.realpath(path)  # the target of a link, which may not exist yet
    try:
        # With this mode from the first moment. It is not open elsewhere, so closing it here ends no lock.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        for one in (path, f"{path}-wal", f"{path}-shm"):
            with suppress(FileNotFoundError):
                Path(one).chmod(0o600)  # by its name: closing a file that SQLite has open ends its locks


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
