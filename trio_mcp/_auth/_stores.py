"""Where tokens and registrations are kept: in memory, in a file that processes share, in the system's keyring.

What is kept are strings of JSON under keys; `TokenStore` is also for stores of the user's own. While a token is
requested, its key is held (`TokenStore.exclusive`), so that clients, and processes, do not use up each other's
refresh token. While a person logs in, it is not: others see that there is a login (`AskedPerson`, and a note in
the store for other processes), and wait for its end.

Servers decide how much there is to keep: each can name another authorization server each time. So it is bounded
in bytes, and what was not used for longest gives way: never what is held, and never what binds credentials to an
authorization server (`BINDING`), since without that they would be shown to the next one.
"""

from __future__ import annotations

import abc
import hashlib
import json
import os
import secrets
import stat
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, final
from weakref import WeakValueDictionary

import attrs
import trio

from .._codec._json import is_object
from .._errors import AuthorizationFailed
from .._limits import MIB, check_whole
from .._logs import Log
from .._printable import printable
from .._trio import open_hidden_nursery

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_log: Final = Log("trio_mcp.auth")

STORE_BYTES: Final = 1 * MIB
"""How much a store keeps, keys and values."""

KEEP_SECONDS: Final = 180 * 24 * 3600.0
"""How long a file keeps what nobody uses."""

TOUCH_SECONDS: Final = 24 * 3600.0
"""After how long a file is written again only because something in it was read."""

BINDING: Final = "issuer "
"""How keys begin whose values never give way."""

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

    def _is_held(self, key: str) -> bool:
        lock = self._locks.get(key)
        return lock is not None and lock.locked()

    @property
    def _place(self) -> object:
        """Where things are kept: equal for stores that have the same. It can be hashed, which they may not."""
        return self._itself

    @cached_property
    def _itself(self) -> object:
        """What stands for this store where it is not held. Its id may be that of another when it is gone."""
        return object()


def _giving_way(sizes: Mapping[str, int], max_bytes: int, is_spared: Callable[[str], bool]) -> list[str]:
    """Return what gives way so that the rest is not too large.

    Args:
        sizes: The bytes under each key, the least recently used first.
        max_bytes: How many there may be.
        is_spared: Whether something must stay.

    Raises:
        ValueError: That is not enough.
    """
    excess, chosen = sum(sizes.values()) - max_bytes, list[str]()
    for key, size in sizes.items():
        if excess <= 0:
            break
        if not key.startswith(BINDING) and not is_spared(key):
            chosen.append(key)
            excess -= size
    if excess > 0:
        raise ValueError(f"it would be larger than {max_bytes} bytes")
    return chosen


@final
class MemoryTokenStore(TokenStore):
    """Keeps tokens for as long as this object is there.

    Args:
        max_bytes: How much it keeps, keys and values. What was not used for longest gives way.
    """

    def __init__(self, *, max_bytes: int = STORE_BYTES) -> None:
        super().__init__()
        check_whole("max_bytes", max_bytes, at_least=1)
        self._max_bytes = max_bytes
        self._kept: dict[str, str] = {}  # the least recently used first

    def __repr__(self) -> str:
        return f"<MemoryTokenStore with {len(self._kept)} entries>"

    async def get(self, key: str) -> str | None:
        """Return what is kept under a key."""
        await trio.lowlevel.checkpoint()
        if key in self._kept:
            self._kept[key] = self._kept.pop(key)
        return self._kept.get(key)

    async def set(self, key: str, value: str) -> None:
        """Keep something under a key.

        Raises:
            AuthorizationFailed: There is no room for it.
        """
        await trio.lowlevel.checkpoint()
        kept = {name: each for name, each in self._kept.items() if name != key} | {key: value}
        sizes = {name: len(name.encode()) + len(each.encode()) for name, each in kept.items()}
        try:
            others = _giving_way(sizes, self._max_bytes, lambda name: name == key or self._is_held(name))
        except ValueError as error:
            raise AuthorizationFailed(f"the store of tokens has no room: {error} (max_bytes)") from None
        for name in others:
            del kept[name]
        self._kept = kept

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


@attrs.frozen
class _Entry:
    """What a file has under a key.

    Attributes:
        value: The value.
        used: The time of day when it was used, in seconds since 1970.
    """

    value: str = attrs.field(repr=False)
    used: float


_FORMAT: Final = "trio-mcp tokens"
"""The member by which files of this library are known."""

_HEAD, _TAIL = f'{{"{_FORMAT}": 1, "entries": {{\n', "\n}}\n"


@final
class FileTokenStore(TokenStore):
    """Keeps tokens in a file that only its owner may read (mode 0600). Several processes can share it.

    The file is replaced as a whole, so that it is never half written. It is not encrypted. One that others may
    write, or that belongs to another user, is refused; one that they may only read is made 0600 again, with a
    warning. What was not used for 180 days is left out when it is written again.

    Args:
        path: The file. Default: ``tokens.json`` in the directory for such files of the system:
            ``~/.local/state/trio-mcp`` on Linux. Files that serve as locks lie beside it meanwhile.
        max_bytes: How large it gets. What was not used for longest gives way.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, max_bytes: int = STORE_BYTES) -> None:
        super().__init__()
        check_whole("max_bytes", max_bytes, at_least=1)
        self._path = default_directory() / "tokens.json" if path is None else Path(path)
        self._max_bytes = max_bytes
        self._read_since: dict[str, None] = {}  # what was read since the file was written, in order

    def __repr__(self) -> str:
        return f"FileTokenStore({str(self._path)!r})"

    async def get(self, key: str) -> str | None:
        """Return what is kept under a key.

        Raises:
            AuthorizationFailed: The file cannot be read.
        """
        kept: dict[str, _Entry] = await self._in_thread(self._read)
        entry = kept.get(key)
        if entry is None:
            return None
        self._read_since.pop(key, None)
        self._read_since[key] = None
        if time.time() - entry.used > TOUCH_SECONDS:
            try:
                await self._change(lambda _: None)
            except AuthorizationFailed as error:
                _log.debug("what was read is not marked as used: %s", error)
        return entry.value

    async def set(self, key: str, value: str) -> None:
        """Keep something under a key.

        Raises:
            AuthorizationFailed: The file cannot be written, or has no room.
        """

        def put(kept: dict[str, _Entry]) -> None:
            kept.pop(key, None)
            kept[key] = _Entry(value, time.time())

        await self._change(put, key)

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
        async with self._within(key), self._lock(self._lock_name(key)):
            yield

    def _lock_name(self, key: str) -> str:
        return f"{self._path.name}.{hashlib.sha256(key.encode()).hexdigest()[:16]}.lock"

    @property
    def _place(self) -> object:
        return str(self._path.absolute())

    async def _change(self, change: Callable[[dict[str, _Entry]], object], written: str | None = None) -> None:
        def replace() -> None:
            kept = self._read()
            now = time.time()
            for key in used:
                if key in kept:
                    kept[key] = attrs.evolve(kept.pop(key), used=now)
            change(kept)
            self._write(kept, now, written)

        async with self._within(""), self._lock(f"{self._path.name}.lock"):
            used, self._read_since = list(self._read_since), {}
            # A thread that goes on alone would write without the lock.
            with trio.CancelScope(shield=True):
                await self._in_thread(replace)
        await trio.lowlevel.checkpoint()

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        try:
            return await trio.to_thread.run_sync(work)
        except (OSError, ValueError) as error:
            raise AuthorizationFailed(f"the file of tokens {self._path} cannot be used: {error}") from error

    # Locks are files, which are removed by whoever holds them.

    @asynccontextmanager
    async def _lock(self, name: str) -> AsyncGenerator[None]:
        path = self._path.with_name(name)
        is_ours = False
        while not is_ours:
            descriptor: int = await self._in_thread(lambda: self._open_lock(path))
            try:
                while not _try_lock(descriptor):  # noqa: ASYNC110 - another process wakes nobody here
                    await trio.sleep(LOCK_PAUSE)
                is_ours = _is_at(descriptor, path)  # another process may have removed it meanwhile
                if is_ours:
                    try:
                        yield
                    finally:
                        with suppress(OSError):  # Windows removes no file that is open
                            path.unlink()
            finally:
                os.close(descriptor)  # which gives up the lock

    def _open_lock(self, path: Path) -> int:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def _is_held_by_anybody(self, key: str) -> bool:
        try:
            descriptor = os.open(self._path.with_name(self._lock_name(key)), os.O_RDWR)
        except OSError:
            return False
        try:
            return not _try_lock(descriptor)
        finally:
            os.close(descriptor)

    # The file.

    def _read(self) -> dict[str, _Entry]:
        try:
            if not stat.S_ISREG(self._path.stat().st_mode):
                raise ValueError("it is not a regular file")
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                _check_owner(status)
                data = file.read(self._max_bytes + 1)
        except FileNotFoundError:
            return {}
        if len(data) > self._max_bytes:
            raise ValueError(f"it is larger than {self._max_bytes} bytes (max_bytes)")
        entries = _entries_in(data)
        if entries is None:
            raise ValueError(
                "it is damaged, or not one that FileTokenStore has written: it is left as it is; move it away to "
                "log in anew"
            )
        if sys.platform != "win32" and status.st_mode & 0o077:
            _log.warning("the file of tokens %s could be read by others; now it cannot", self._path)
            self._path.chmod(0o600)
        return entries

    def _write(self, kept: Mapping[str, _Entry], now: float, written: str | None) -> None:
        lines = {
            key: f"{json.dumps(key)}: {json.dumps([entry.value, int(entry.used)])}"
            for key, entry in kept.items()
            if key == written or key.startswith(BINDING) or now - entry.used < KEEP_SECONDS
        }
        sizes = {key: len(line) + 2 for key, line in lines.items()}
        room = self._max_bytes - len(_HEAD) - len(_TAIL)
        try:
            others = _giving_way(sizes, room, lambda key: key == written or self._is_held_by_anybody(key))
        except ValueError:
            raise ValueError(f"it would be larger than {self._max_bytes} bytes (max_bytes)") from None
        for key in others:
            del lines[key]
        data = "".join((_HEAD, ",\n".join(lines.values()), _TAIL)).encode("ascii")
        # One name, which the lock makes ours: what a process that was killed has left there does not stay.
        path = self._path.with_name(f".{self._path.name}.new")
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            with open(os.open(path, flags, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            path.replace(self._path)
        except BaseException:
            with suppress(OSError):
                path.unlink()
            raise


def _check_owner(status: os.stat_result) -> None:
    """Check that nobody else could write a file: what is in it says where tokens and secrets are sent.

    Raises:
        ValueError: Somebody could. So OpenSSH does with its configuration.
    """
    if sys.platform != "win32":
        if status.st_uid not in (0, os.geteuid()):
            raise ValueError(f"it belongs to another user (uid {status.st_uid})")
        if status.st_mode & 0o022:
            mode = stat.S_IMODE(status.st_mode)
            raise ValueError(
                f"others may write it (mode {mode:04o}), so what it says may be theirs: look at it, and "
                "chmod 600 it or move it away to log in anew"
            )


def _entries_in(data: bytes) -> dict[str, _Entry] | None:
    """Return what a file has, the least recently used first; `None` if it is none of ours."""
    try:
        value: Any = json.loads(data)
        if not is_object(value) or value.get(_FORMAT) != 1:
            return None
        entries: Any = value["entries"].items()
        found: list[tuple[str, Any, float]] = [(key, text, float(used)) for key, (text, used) in entries]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None  # the error would show a part of it
    if not all(isinstance(text, str) for _, text, _ in found):
        return None
    return {key: _Entry(text, used) for key, text, used in found}


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


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

    Processes that use the same keyring wait for each other as those that share a file do. A keyring lists
    nothing: what is in it stays until it is deleted there.

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

    @property
    def _place(self) -> object:
        return self._locks_of_processes._place

    async def _call(self, name: str, *arguments: str) -> Any:
        try:
            call = partial(getattr(self._keyring, name), self._service, *arguments)
            # It may ask the person for a password, as long as they like.
            return await trio.to_thread.run_sync(call, abandon_on_cancel=True)
        except Exception as error:
            # Each backend has errors of its own.
            raise AuthorizationFailed(f"the keyring cannot be used: {type(error).__name__}") from error


# The person who logs in.

MAX_PAGES: Final = 5
MAX_STEP_UPS: Final = 3
PAGE_SECONDS: Final = 300.0
"""In this time a person is shown `MAX_PAGES` pages for one server at most, and `MAX_STEP_UPS` of them because it
asks for more scopes."""

NOTE_SECONDS: Final = 15.0
"""How long a note for other processes is good that a person is logging in here. It is written anew meanwhile."""

NOTED_PAUSE: Final = 0.5
"""How often it is looked at whether a login of another process is over: it wakes nobody here."""

_SOMEBODY: Final = secrets.token_hex(8)
"""What notes of this process are known by: together with its number, for it may be a fork."""

LEAVING_SECONDS: Final = 2.0
"""How long something is done for others while a connection is being left."""


@final
class Login:
    """A login that is under way.

    Args:
        need: What it is for, and whose connection does it: who waits for the same has the same failure.

    Attributes:
        over: Set when it is over, by whatever way.
        failure: Why there is no token; `None` if there is one, or if it was given up.
    """

    def __init__(self, need: object) -> None:
        self.need: Final = need
        self.over: Final = trio.Event()
        self.failure: AuthorizationFailed | None = None


@final
@attrs.define(eq=False)
class AskedPerson:
    """Who logs in for one token of a store: what the connections of a process know of it together.

    Attributes:
        login: The login that is under way; `None` for none.
    """

    login: Login | None = None
    _pages: deque[float] = attrs.field(factory=lambda: deque[float](maxlen=MAX_PAGES))
    _step_ups: deque[float] = attrs.field(factory=lambda: deque[float](maxlen=MAX_STEP_UPS))

    @property
    def is_forgotten(self) -> bool:
        """Whether there is nothing to know any more."""
        return self.login is None and not _are_recent(self._pages, 1)

    def count_page(self, url: str, *, is_step_up: bool) -> None:
        """Note that a person is about to be shown a page. Servers can have reasons for one without end.

        Args:
            url: The server.
            is_step_up: Whether it is for more scopes.

        Raises:
            AuthorizationFailed: They were shown enough.
        """
        if is_step_up and _are_recent(self._step_ups, MAX_STEP_UPS):
            raise AuthorizationFailed(
                f"{printable(url)} has asked for more scopes {MAX_STEP_UPS} times within {PAGE_SECONDS:g} s, and "
                "nobody is shown a further page so soon; scopes= asks for all at once"
            )
        if _are_recent(self._pages, MAX_PAGES):
            raise AuthorizationFailed(
                f"somebody was asked {MAX_PAGES} times within {PAGE_SECONDS:g} s to log in for {printable(url)}, "
                "and is not asked again so soon: it takes no token for long, or nobody logs in"
            )
        for pages in (self._pages, self._step_ups) if is_step_up else (self._pages,):
            pages.append(trio.current_time())


def _are_recent(pages: deque[float], count: int) -> bool:
    return len(pages) >= count and trio.current_time() - pages[-count] < PAGE_SECONDS


_people: Final = trio.lowlevel.RunVar[dict[tuple[object, str], AskedPerson]]("trio_mcp: people who log in")


def person_of(store: TokenStore, key: str) -> AskedPerson:
    """Return who logs in for a token of a store. It may be another object later, unless there is a login."""
    people = _people.get({})
    _people.set(people)
    name = (store._place, key)
    people[name] = person = people.pop(name) if name in people else AskedPerson()  # the last
    while (oldest := next(iter(people))) != name and people[oldest].is_forgotten:
        del people[oldest]
    return person


@final
class LoginNote:
    """Tells other processes, by a note in the store that they share, that a person is logging in.

    Args:
        store: The store.
        key: The key of the token.
    """

    def __init__(self, store: TokenStore, key: str) -> None:
        self._store = store
        self._key = f"login {key}"
        self._by = f"{_SOMEBODY} {os.getpid()}"
        self._is_written = False

    async def is_of_others(self) -> bool:
        """Whether a person is logging in for another process."""
        text = await self._store.get(self._key)
        try:
            note: Any = json.loads(text or "null")
            return is_object(note) and note["by"] != self._by and 0 < note["until"] - time.time() <= NOTE_SECONDS
        except (KeyError, TypeError, ValueError):
            return False

    async def write(self) -> None:
        """Say that a person is logging in here."""
        self._is_written = True
        await self._store.set(self._key, json.dumps({"by": self._by, "until": time.time() + NOTE_SECONDS}))

    @asynccontextmanager
    async def kept(self) -> AsyncGenerator[None]:
        """Write it again and again while a block runs."""

        async def go_on() -> None:
            while True:
                await trio.sleep(NOTE_SECONDS / 3)
                with suppress(AuthorizationFailed):  # it is for the comfort of others
                    await self.write()

        async with open_hidden_nursery() as nursery:
            nursery.start_soon(go_on)
            yield
            nursery.cancel_scope.cancel(reason="nobody is logging in any more")

    async def delete(self) -> None:
        """Delete it, if it was written: also when cancelled, within `LEAVING_SECONDS`."""
        if self._is_written:
            with trio.move_on_after(LEAVING_SECONDS, shield=True), suppress(AuthorizationFailed):
                await self._store.delete(self._key)
        await trio.lowlevel.checkpoint()
