"""A connection to Redis that is made again whenever it breaks, and requests over it that are bounded in time.

What is kept there is in `_redis_tasks`. coredis is imported when a link is made. Its pool is not used: a caller
that is cancelled while the pool connects takes a place of the pool with it for ever, and here it must be known in
which connection a request was.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, final
from urllib.parse import unquote, urlsplit

import trio

from .._errors import SERVER_BUSY, RequestError
from .._logs import Log
from .._trio import open_hidden_nursery
from ._redis_scripts import Script

_log: Final = Log("trio_mcp.server")

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""Seconds until a connection that could not be made is tried again: at first, and at most."""

_PORT: Final = 6379

_STREAMS: Final = tuple(
    f"_{kind}_buffer_{end}" for kind in ("write", "push_message", "streamed_message") for end in ("in", "out")
)


@final
class RedisPlace:
    """Where a Redis is, and how to log in there.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``, with what it takes to log in. No error shows it.
        context: For TLS; `None` for the authorities that the system trusts.

    Attributes:
        name: Where it is, for people: without what it takes to log in.

    Raises:
        ValueError: It is no such URL.
        RuntimeError: coredis is not installed.
    """

    def __init__(self, url: str, context: ssl.SSLContext | None) -> None:
        try:
            coredis: Any = import_module("coredis.connection")  # by its name: it is not there for everybody
        except ImportError as error:
            raise RuntimeError("a store in Redis needs coredis: pip install 'trio-mcp[redis]'") from error
        problem = _problem(url)
        if problem is not None:
            raise ValueError(f"url: {problem}")
        parts = urlsplit(url)
        self._kind: Any
        self._location: Any
        if parts.scheme == "unix":
            path, _, db = unquote(parts.path), None, parts.query.removeprefix("db=")
            self._kind, self._location = (
                coredis.UnixDomainSocketConnection,
                coredis.UnixDomainSocketLocation(path=path),
            )
            self.name: str = path
        else:
            host, port, db = str(parts.hostname), parts.port or _PORT, parts.path.removeprefix("/")
            self._kind, self._location = coredis.TCPConnection, coredis.TCPLocation(host=host, port=port)
            self.name = f"{host}:{port}"
        if parts.scheme != "rediss":
            context = None
        elif context is None:
            context = ssl.create_default_context()
        self._options: dict[str, Any] = {
            "db": int(db or 0),
            "username": unquote(parts.username) if parts.username else None,
            "password": unquote(parts.password) if parts.password else None,
            "ssl_context": context,
        }

    def connection(self, seconds: float) -> Any:
        """Return a connection that is not made yet."""
        return self._kind(self._location, connect_timeout=seconds, stream_timeout=seconds, **self._options)


def _problem(url: str) -> str | None:
    """Return what is wrong with a URL, without anything of it."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it cannot be read"
    if parts.scheme not in ("redis", "rediss", "unix"):
        return "it must begin with redis://, rediss:// or unix://"
    if parts.scheme == "unix":
        database, is_there = parts.query.removeprefix("db="), bool(parts.path)
        if host or (parts.query and not parts.query.startswith("db=")):
            is_there = False
    else:
        database, is_there = parts.path.removeprefix("/"), bool(host) and not parts.query
    if not is_there or parts.fragment or not (database == "" or (database.isascii() and database.isdigit())):
        return "it must be like redis://user:password@host:6379/0 or unix:///path?db=0"
    return None


@final
class RedisLink:
    """Keeps a connection while `run` runs.

    Args:
        place: Where to.
        seconds: How long any request may take, with the wait for a connection.
        greet: Called with each new connection, before anything else is said there.
    """

    def __init__(self, place: RedisPlace, seconds: float, greet: Callable[[Any], Awaitable[None]]) -> None:
        errors: Any = import_module("coredis.exceptions")
        self._place = place
        self._seconds = seconds
        self._greet = greet
        self._connection: Any = None
        self._changed = trio.Event()
        self._problem: BaseException | None = None
        self._errors: tuple[Any, Any, Any] = (errors.NoScriptError, errors.ConnectionError, errors.RedisError)

    async def run(self) -> None:
        """Keep a connection until this is cancelled."""
        pause = FIRST_PAUSE
        while True:
            try:
                async with open_hidden_nursery() as nursery:
                    connection = self._place.connection(self._seconds)
                    with trio.fail_after(self._seconds):
                        await nursery.start(self._hold, connection, nursery)
                        await self._greet(connection)
                    pause = FIRST_PAUSE
                    self._set(connection)
            except Exception as error:
                if not self._is_about_redis(error):
                    raise
                if self._problem is None:
                    _log.warning("Redis at %s cannot be used now: %s", self._place.name, _text(error))
                self._problem = error
                self._changed.set()
            finally:
                self._connection = None
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _is_about_redis(self, error: Exception) -> bool:
        parts: tuple[Exception, ...] = getattr(error, "exceptions", ())  # of a group
        if parts:
            return all(self._is_about_redis(each) for each in parts)
        return isinstance(error, (*self._errors, OSError, trio.TooSlowError))

    @staticmethod
    async def _hold(  # noqa: ASYNC114, ASYNC128 - coredis calls it
        connection: Any, nursery: trio.Nursery, *, task_status: Any
    ) -> None:
        try:
            await connection.run(task_status=task_status)
        finally:
            for name in _STREAMS:  # coredis leaves them open where it could not connect, and anyio warns of that
                stream = getattr(connection, name, None)
                if stream is not None:
                    stream.close()
        nursery.cancel_scope.cancel(reason="the connection has ended")

    def _set(self, connection: Any) -> None:
        if self._problem is not None:
            _log.warning("Redis at %s can be used again", self._place.name)
        self._connection, self._problem = connection, None
        self._changed.set()
        self._changed = trio.Event()

    async def connected(self) -> None:
        """Wait for the first connection.

        Raises:
            ConnectionError: It could not be made.
        """
        with trio.move_on_after(self._seconds):
            await self._changed.wait()
        if self._connection is None:
            problem = f"no answer within {self._seconds:g} s" if self._problem is None else _text(self._problem)
            raise ConnectionError(f"Redis at {self._place.name} cannot be used: {problem}") from self._problem

    async def request(self, work: Callable[[Any], Awaitable[Any]], *, once: bool = False) -> Any:
        """Return what a function returns for the connection, or for the next one if that breaks meanwhile.

        Args:
            work: The function.
            once: Whether it must not be called a second time.

        Raises:
            RequestError: There is no answer in time, or Redis refuses it.
        """
        _, disconnected, refused = self._errors
        connection: Any = None
        problem, since = "", 0.0
        try:
            with trio.fail_after(self._seconds):
                while True:  # noqa: ASYNC913 - any request is a checkpoint
                    while self._connection is None:
                        await self._next_connection()
                    connection, since = self._connection, trio.current_time()
                    try:
                        return await work(connection)
                    except disconnected:
                        if once:
                            raise
                        if self._connection is connection:
                            self._connection = None
                            connection.invalidate()
        except (trio.TooSlowError, TimeoutError):
            if connection is not None and trio.current_time() - since >= self._seconds / 2:
                # Or what was asked in vain would pile up there. One that has just been made is another matter.
                connection.invalidate()
                if self._connection is connection:
                    self._connection = None
            problem = f"Redis has not answered within {self._seconds:g} s"
        except refused as error:
            problem = f"Redis cannot be used now: {_text(error)}"
        _log.warning("%s", problem)
        raise RequestError(SERVER_BUSY, problem)

    async def _next_connection(self) -> None:
        changed = self._changed
        if changed.is_set():  # it was set by a failure, and is replaced by the next connection
            changed = self._changed = trio.Event()
        await changed.wait()

    @staticmethod
    def local_host(connection: Any) -> str | None:
        """Return the address of this end of a connection; `None` for a Unix socket, or if it has broken."""
        # What coredis has there is a stream of anyio, which has words of its own for this.
        attribute: Any = import_module("anyio.abc").SocketAttribute.local_address
        address: Any = ""
        with suppress(OSError):
            if connection.stream is not None:
                address = connection.stream.extra_attributes[attribute]()
        return None if isinstance(address, (str, bytes)) else str(address[0])

    async def run_on(self, connection: Any, script: Script, arguments: list[Any]) -> Any:
        """Run a script in a connection."""
        unknown = self._errors[0]
        try:
            return await connection.create_request(b"EVALSHA", script.name, 0, *arguments)
        except unknown:
            return await connection.create_request(b"EVAL", script.source, 0, *arguments)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300] if str(error) else type(error).__name__
