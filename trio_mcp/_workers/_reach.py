"""How processes that serve together reach each other: by the number of each, over Unix sockets or TCP.

A Unix socket is in a folder that only this user can enter. Over TCP both ends show that they know the secret of
the group before anything else is sent; what follows is not encrypted.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol, final

import trio

from .._core._http_rules import HttpRefused, busy
from .._endpoint._shared import SharedStore
from .._errors import RequestError
from .._hosts._listening import BACKLOG
from .._oauth._metadata import is_loopback
from .._server._serve import CannotJoin
from .._trio import open_unix_socket

CONNECT_SECONDS: Final = 10.0
"""How long a process may take to let another one connect, and again to take a request, in seconds."""

LONGEST: Final = 103 - len("/999999999.sock")
"""How long the path of the folder of sockets may be, in bytes: no system takes longer ones for a socket."""

_GONE: Final = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK})

_KEEP_ALIVE: Final = {
    "TCP_KEEPIDLE": 15,
    "TCP_KEEPALIVE": 15,  # the same on macOS
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
}
"""When the kernel takes another machine for gone that does not answer: after half a minute, in seconds."""

_NONCE_BYTES: Final = 16
_PREFIX: Final = "trio-mcp-"


class Reach(Protocol):
    """How one process of a group reaches the others, and they reach it."""

    async def connect(self, process: int) -> trio.SocketStream | None:
        """Connect to a process; return `None` if it is gone, and nobody will ever have its number again.

        Raises:
            HttpRefused: It does not accept in time, or cannot be looked for now.
        """
        ...

    def listening(self) -> AbstractAsyncContextManager[trio.SocketListener]:
        """Listen for the others while a block runs."""
        ...

    async def admit(self, stream: trio.SocketStream) -> bool:
        """Return whether who has connected is a process of the group."""
        ...


def private_directory(within: str | None = None) -> Path:
    """Make a folder for sockets that only this user can enter: in a folder, or where temporary files are.

    In ``/tmp`` where the names of these are too long for sockets.
    """
    for place in (within, None):
        made = tempfile.mkdtemp(prefix=_PREFIX, dir=place)
        if len(os.fsencode(made)) <= LONGEST:
            return Path(made)
        Path(made).rmdir()
    return Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp"))


def no_answer() -> HttpRefused:
    """Return the refusal of a request whose process does not answer."""
    return busy(503, "the process that has what you go on with does not answer")


@final
class WorkerReach:
    """The workers of one supervisor: each listens in one folder, at a socket with its number.

    Args:
        directory: The folder.
        number: The number of this worker.
    """

    def __init__(self, directory: Path, number: int) -> None:
        self._directory = directory
        self._number = number

    async def connect(self, process: int) -> trio.SocketStream | None:
        """Connect to a worker; see `Reach.connect`."""
        return await _connect(self._path_of(process))

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[trio.SocketListener]:
        """Listen at its socket; see `Reach.listening`."""
        with _listening_at(self._path_of(self._number)) as listener:
            yield listener

    async def admit(self, stream: trio.SocketStream) -> bool:
        """Return true: nobody else can enter the folder."""
        del stream
        await trio.lowlevel.checkpoint()
        return True

    def _path_of(self, process: int) -> Path:
        return self._directory / f"{process}.sock"


@final
class StoreReach:
    """The processes that have joined a store, in which each says where it listens.

    Args:
        store: The store.
    """

    def __init__(self, store: SharedStore) -> None:
        self._store = store
        self._addresses: dict[int, str] = {}

    async def connect(self, process: int) -> trio.SocketStream | None:
        """Connect to a process; see `Reach.connect`. That nothing listens at its address shows that it is gone.

        Raises:
            RequestError: The store cannot be used now.
        """
        address = self._addresses.get(process) or await self._store.address_of(process)
        stream = None
        if address is not None:
            self._addresses.pop(process, None)  # to be looked up again, if it does not answer
            stream = await self._connect_at(address, process)
        if stream is not None and address is not None:
            self._addresses[process] = address
            return stream
        if address is not None:
            if self._is_elsewhere(address) or not await self._store.gone(process):
                raise no_answer()
            _remove(address)
        return None

    def _is_elsewhere(self, address: str) -> bool:
        """Whether an address is one of another machine's own, at which nobody else reaches it."""
        host = address.removeprefix("tcp:").rpartition(":")[0]
        ours = self._store.host
        return is_loopback(host) and ours is not None and not is_loopback(ours)

    async def _connect_at(self, address: str, process: int) -> trio.SocketStream | None:
        kind, _, place = address.partition(":")
        if kind == "unix":
            return await _connect(Path(place))
        host, _, port = place.rpartition(":")
        stream = await _connect((host, int(port)))
        if stream is None:
            return None
        try:
            if await self._is_process(stream, process):
                return stream
            # Whoever has its port now: it is gone when its lease is over. The secret may also just have changed.
            raise no_answer()
        except BaseException:
            stream.socket.close()
            raise

    def listening(self) -> AbstractAsyncContextManager[trio.SocketListener]:
        """Listen at a socket of its own, or at the address that the store names; see `Reach.listening`."""
        host = self._store.host
        if host is None and sys.platform == "win32":
            host = "127.0.0.1"
        return self._listening_in_private() if host is None else self._listening_at(host)

    @asynccontextmanager
    async def _listening_in_private(self) -> AsyncGenerator[trio.SocketListener]:
        directory = private_directory(self._store.folder)
        path = directory / "peers.sock"
        try:
            with _listening_at(path) as listener:
                await self._announce(f"unix:{path}")
                yield listener
        finally:
            with suppress(OSError):
                directory.rmdir()

    @asynccontextmanager
    async def _listening_at(self, host: str) -> AsyncGenerator[trio.SocketListener]:
        (listener,) = await trio.open_tcp_listeners(0, host=host, backlog=BACKLOG)
        with closing(listener.socket):
            port = listener.socket.getsockname()[1]
            await self._announce(f"tcp:{host}:{port}")
            yield listener

    async def _announce(self, address: str) -> None:
        try:
            await self._store.announce(address)
        except RequestError as error:
            raise CannotJoin(f"the store cannot be used: {error.message}") from error

    # Over TCP, who has connected says a random text, and both ends answer with what only the group can compute of
    # it and of one of their own. The number is a part of it: another process may have got the port since.

    async def admit(self, stream: trio.SocketStream) -> bool:
        """Return whether who has connected knows the secret; see `Reach.admit`."""
        if stream.socket.family == getattr(socket, "AF_UNIX", None):
            await trio.lowlevel.checkpoint()
            return True
        _notice_loss(stream.socket)
        ours = secrets.token_bytes(_NONCE_BYTES)
        with trio.move_on_after(CONNECT_SECONDS):
            theirs = await _receive(stream, _NONCE_BYTES)
            if theirs is not None:
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(ours + self._proof(b"has", self._store.number, theirs + ours))
                shown = await _receive(stream, hashlib.sha256().digest_size)
                proof = self._proof(b"wants", self._store.number, theirs + ours)
                return shown is not None and hmac.compare_digest(shown, proof)
        return False

    async def _is_process(self, stream: trio.SocketStream, process: int) -> bool:
        """Return whether this is the process of a number, and show it that this one is of its group.

        Raises:
            HttpRefused: It does not answer in time.
        """
        ours = secrets.token_bytes(_NONCE_BYTES)
        try:
            with trio.fail_after(CONNECT_SECONDS):
                await stream.send_all(ours)
                answer = await _receive(stream, _NONCE_BYTES + hashlib.sha256().digest_size)
                if answer is None:
                    return False
                nonces = ours + answer[:_NONCE_BYTES]
                if not hmac.compare_digest(answer[_NONCE_BYTES:], self._proof(b"has", process, nonces)):
                    return False
                await stream.send_all(self._proof(b"wants", process, nonces))
                return True
        except trio.BrokenResourceError:
            return False
        except trio.TooSlowError:
            raise no_answer() from None

    def _proof(self, what: bytes, process: int, nonces: bytes) -> bytes:
        return hmac.digest(self._store.secret, b"trio-mcp %b %d " % (what, process) + nonces, hashlib.sha256)


async def _receive(stream: trio.SocketStream, size: int) -> bytes | None:
    """Return so many bytes; `None` if it ends before, or breaks."""
    data = b""
    with suppress(trio.BrokenResourceError):
        while len(data) < size:
            more = await stream.receive_some(size - len(data))
            if not more:
                return None
            data += more
        return data
    return None


async def _connect(place: Path | tuple[str, int]) -> trio.SocketStream | None:
    """Connect to a process; `None` if nothing listens there.

    Raises:
        HttpRefused: It does not accept.
    """
    try:
        with trio.fail_after(CONNECT_SECONDS):
            if isinstance(place, Path):
                return await open_unix_socket(place)
            sock = trio.socket.socket(socket.AF_INET6 if ":" in place[0] else socket.AF_INET)
            try:
                _notice_loss(sock)
                await sock.connect(place)
            except BaseException:
                sock.close()
                raise
            return trio.SocketStream(sock)
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise busy(503, "the process that has what you go on with takes no more requests") from None
    except trio.TooSlowError:
        raise no_answer() from None


def _notice_loss(sock: trio.socket.SocketType) -> None:
    """Have a connection break whose other machine has vanished without a word, also while nothing is sent."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


@contextmanager
def _listening_at(path: Path) -> Generator[trio.SocketListener]:
    if sys.platform == "win32":
        raise AssertionError  # there all reach each other over TCP
    else:
        with closing(socket.socket(socket.AF_UNIX)) as sock:
            sock.setblocking(False)
            sock.bind(str(path))
            sock.listen(BACKLOG)
            try:
                yield trio.SocketListener(trio.socket.from_stdlib_socket(sock))
            finally:
                with suppress(OSError):
                    path.unlink()


def _remove(address: str) -> None:
    """Remove what a process has left that was killed."""
    kind, _, place = address.partition(":")
    path = Path(place)
    if kind == "unix" and path.parent.name.startswith(_PREFIX):
        with suppress(OSError):
            path.unlink()
            path.parent.rmdir()
