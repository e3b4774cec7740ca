"""Where tokens and registrations are kept: in memory, in a file that processes share, in the system's keyring.

What is kept are strings of JSON under keys; `TokenStore` is also for stores of the user's own. While a token is
being had, its key is held (`TokenStore.exclusive`), so that clients, and processes, do not use up each other's
refresh token.
"""

from __future__ import annotations

import abc
import hashlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, final
from weakref import WeakValueDictionary

import trio

from .._codec._json import is_object
from .._errors import AuthorizationFailed
from .._limits import MIB
from .._logs import Log

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_log: Final = Log("trio_mcp.auth")

MAX_FILE_BYTES: Final = 1 * MIB
"""The largest file of tokens that is read."""

LOCK_PAUSE: Final = 0.05
"""How often a lock that another process has is tried, in seconds: the system wakes nobody without a thread."""


class TokenStore(abc.ABC):
    """Keeps tokens and registrations. Its values are secrets.

    Subclass it to keep them elsewhere. Keys and values are strings. Every method may be called by several tasks.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()

    @abc.abstractmethod
    async def get(self, key: str) -> str | None:
        """Return what is kept under a key; `None` for nothing."""

    @abc.abstractmethod
    async def set(self, key: str, value: str) -> None:
        """Keep something under a key. Cancelled, either the old or the new value is kept."""

    @abc.abstractmethod
    async def delete(self, key: str) -> None:
        """Keep nothing under a key."""

    def exclusive(self, key: str) -> AbstractAsyncContextManager[None]:
        """Hold a key for a block: no other block that holds it runs at the same time.

        The default holds it within this object. A store that processes share must hold it among them.
        """
        return self._within(key)

    @asynccontextmanager
    async def _within(self, key: str) -> AsyncGenerator[None]:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = trio.Lock()
        async with lock:
            yield


@final
class MemoryTokenStore(TokenStore):
    """Keeps tokens for as long as this object is there."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<MemoryTokenStore with {len(self._kept)} entries>"

    async def get(self, key: str) -> str | None:
        """Return what is kept under a key."""
        await trio.lowlevel.checkpoint()
        return self._kept.get(key)

    async def set(self, key: str, value: str) -> None:
        """Keep something under a key."""
        await trio.lowlevel.checkpoint()
        self._kept[key] = value

    async def delete(self, key: str) -> None:
        """Keep nothing under a key."""
        await trio.lowlevel.checkpoint()
        self._kept.pop(key, None)


def default_directory() -> Path:
    """Return where this library keeps what belongs to a user."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return base / "trio-mcp"


@final
class FileTokenStore(TokenStore):
    """Keeps tokens in a file that only its owner may read (mode 0600). Several processes can share it.

    The file is replaced as a whole, so that it is never half written. It is not encrypted.

    Args:
        path: The file. Default: ``tokens.json`` in the directory for such files of the system:
            ``~/.local/state/trio-mcp`` on Linux. Beside it lie files that serve as locks.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self._path = default_directory() / "tokens.json" if path is None else Path(path)

    def __repr__(self) -> str:
        return f"FileTokenStore({str(self._path)!r})"

    async def get(self, key: str) -> str | None:
        """Return what is kept under a key.

        Raises:
            AuthorizationFailed: The file cannot be read.
        """
        kept: dict[str, str] = await self._in_thread(self._read)
        return kept.get(key)

    async def set(self, key: str, value: str) -> None:
        """Keep something under a key.

        Raises:
            AuthorizationFailed: The file cannot be written.
        """
        await self._change(lambda kept: kept.__setitem__(key, value))

    async def delete(self, key: str) -> None:
        """Keep nothing under a key.

        Raises:
            AuthorizationFailed: The file cannot be written.
        """
        await self._change(lambda kept: kept.pop(key, None))

    @asynccontextmanager
    async def exclusive(self, key: str) -> AsyncGenerator[None]:
        """Hold a key for a block, among all processes that use the file.

        Raises:
            AuthorizationFailed: The directory cannot be written.
        """
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        async with self._within(key), self._lock(f"{self._path.name}.{name}.lock"):
            yield

    async def _change(self, change: Callable[[dict[str, str]], object]) -> None:
        def replace() -> None:
            kept = self._read()
            change(kept)
            self._write(kept)

        async with self._within(""), self._lock(f"{self._path.name}.lock"):
            # A thread that goes on alone would write without the lock.
            with trio.CancelScope(shield=True):
                await self._in_thread(replace)
        await trio.lowlevel.checkpoint()

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        try:
            return await trio.to_thread.run_sync(work)
        except (OSError, ValueError) as error:
            raise AuthorizationFailed(f"the file of tokens {self._path} cannot be used: {error}") from error

    @asynccontextmanager
    async def _lock(self, name: str) -> AsyncGenerator[None]:
        descriptor: int = await self._in_thread(lambda: self._open_lock(name))
        try:
            while not _try_lock(descriptor):  # noqa: ASYNC110 - another process wakes nobody here
                await trio.sleep(LOCK_PAUSE)
            yield
        finally:
            os.close(descriptor)  # which gives up the lock

    def _open_lock(self, name: str) -> int:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self._path.with_name(name), os.O_RDWR | os.O_CREAT, 0o600)

    def _read(self) -> dict[str, str]:
        try:
            with self._path.open("rb") as file:
                if sys.platform != "win32":
                    mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                    if mode & 0o077:
                        _log.warning("the file of tokens %s could be read by others; now it cannot", self._path)
                        os.fchmod(file.fileno(), 0o600)
                data = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return {}
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"it is larger than {MAX_FILE_BYTES} bytes")
        try:
            value: Any = json.loads(data)
        except (ValueError, RecursionError):
            raise ValueError("it is not JSON") from None  # the error would show a part of it
        if not is_object(value) or not all(isinstance(each, str) for each in value.values()):
            raise ValueError("it is not an object with strings")
        return value

    def _write(self, kept: dict[str, str]) -> None:
        data = json.dumps(kept, indent=1).encode("ascii")
        if len(data) > MAX_FILE_BYTES:  # it could not be read again, and everything in it would be lost
            raise ValueError(f"it would be larger than {MAX_FILE_BYTES} bytes")
        # mkstemp gives mode 0600.
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@final
class KeyringTokenStore(TokenStore):
    """Keeps tokens in the keyring of the system, by the package ``keyring``.

    Processes that use the same keyring wait for each other as those that share a file do.

    Args:
        service: The name under which the keyring shows them.

    Raises:
        RuntimeError: ``keyring`` is not installed.
    """

    def __init__(self, service: str = "trio-mcp") -> None:
        super().__init__()
        try:
            keyring = import_module("keyring")
        except ImportError as error:
            raise RuntimeError("KeyringTokenStore needs keyring: pip install keyring") from error
        self._keyring: Any = keyring
        self._service = service
        self._locks_of_processes = FileTokenStore(default_directory() / f"{service}.keyring")

    def __repr__(self) -> str:
        return f"KeyringTokenStore({self._service!r})"

    async def get(self, key: str) -> str | None:
        """Return what is kept under a key.

        Raises:
            AuthorizationFailed: The keyring refuses.
        """
        value: str | None = await self._call("get_password", key)
        return value

    async def set(self, key: str, value: str) -> None:
        """Keep something under a key.

        Raises:
            AuthorizationFailed: The keyring refuses.
        """
        await self._call("set_password", key, value)

    async def delete(self, key: str) -> None:
        """Keep nothing under a key.

        Raises:
            AuthorizationFailed: The keyring refuses.
        """
        if await self.get(key) is not None:
            await self._call("delete_password", key)

    def exclusive(self, key: str) -> AbstractAsyncContextManager[None]:
        """Hold a key for a block, among the processes of this user."""
        return self._locks_of_processes.exclusive(key)

    async def _call(self, name: str, *arguments: str) -> Any:
        try:
            call = partial(getattr(self._keyring, name), self._service, *arguments)
            # It may ask the person for a password, as long as they like.
            return await trio.to_thread.run_sync(call, abandon_on_cancel=True)
        except Exception as error:
            # Each backend has errors of its own.
            raise AuthorizationFailed(f"the keyring cannot be used: {type(error).__name__}") from error
