"""A worker: a process that a supervisor has started, and what the supervisor says to it.

What it does with the others of its group is in `_members`.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, final

import attrs
import trio

from .._hosts._listening import Listeners
from .._hosts._serve_http import Site, serve_site
from .._logs import Log
from .._revisions import Revision
from .._server._lifetimes import Shutdown
from .._server._serve import run_until_signal
from .._trio import open_hidden_nursery
from ._members import Members
from ._reach import WorkerReach

assert sys.platform != "win32"

_log: Final = Log("trio_mcp.workers")

VARIABLE: Final = "TRIO_MCP_WORKER"
"""The variable that tells a process that it is a worker: its descriptor for the supervisor, and who that is."""

READY: Final = b"ready\n"
LAST_SECONDS: Final = 15.0
"""How long a worker may take to end whose supervisor was killed, in seconds; then it is killed, too."""

_MAX_LINE: Final = 64 * 1024

_MODERN: Final = frozenset(str(each) for each in Revision if each.is_modern)


@final
@attrs.frozen
class Assignment:
    """What a supervisor tells a worker when it starts.

    Attributes:
        number: Its number.
        directory: Where the workers listen for each other.
        sockets: The descriptors of the listening sockets.
        key: The secret of the group. Not in its command line or its environment, which others may read.
        workers: Which workers there are.
        unix_path: The file of the listening socket, if it has one.
    """

    number: int
    directory: str
    sockets: list[int]
    key: bytes = attrs.field(repr=False)
    workers: list[int]
    unix_path: str | None

    def encode(self) -> bytes:
        """Return it as a line."""
        written = attrs.asdict(self) | {"key": base64.b64encode(self.key).decode("ascii")}
        return json.dumps(written).encode("ascii") + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Assignment:
        """Return it from a line."""
        read = json.loads(line)
        return cls(**read | {"key": base64.b64decode(read["key"])})


def shown_to_worker(control: socket.socket) -> str:
    """Return the value of `VARIABLE` for a worker that inherits a connection."""
    return f"{control.fileno()}:{os.fstat(control.fileno()).st_ino}"


def assigned() -> int | None:
    """Return the descriptor by which a supervisor speaks to this process; `None` if it is no worker.

    A program that a worker has started inherits the variable, and not the connection. Who is the parent says
    nothing: a worker whose supervisor was killed must not take itself for one.
    """
    descriptor, _, inode = os.environ.get(VARIABLE, "").partition(":")
    if not (descriptor.isdecimal() and inode.isdecimal()):
        return None
    try:
        found = os.fstat(int(descriptor))
    except OSError:
        return None
    return int(descriptor) if stat.S_ISSOCK(found.st_mode) and found.st_ino == int(inode) else None


def taken_assignment() -> tuple[Assignment, socket.socket] | None:
    """Return what this process was started for, once; `None` if it is no worker.

    Raises:
        SystemExit: The supervisor has ended.
    """
    descriptor = assigned()
    os.environ.pop(VARIABLE, None)
    if descriptor is None:
        return None
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    line = bytearray()
    while not line.endswith(b"\n"):
        data = control.recv(1)  # what follows is read elsewhere
        if not data:
            raise SystemExit(1)
        line += data
    assignment = Assignment.decode(bytes(line))
    for each in assignment.sockets:
        os.set_inheritable(each, False)
    threading.Thread(
        target=_end_with, args=(control.fileno(),), daemon=True, name="end of the supervisor"
    ).start()
    return assignment, control


def _is_open(descriptor: int, timeout: float | None = 0) -> bool:
    """Wait until the other end is closed. Returns whether it still is open after some milliseconds."""
    poll = select.poll()
    poll.register(descriptor, 0)  # reports that the other end was closed, and nothing else
    return not any(found & (select.POLLHUP | select.POLLERR) for _, found in poll.poll(timeout))


def _end_with(descriptor: int) -> None:
    """Kill this process some time after its supervisor has ended, also if its event loop is blocked."""
    while _is_open(descriptor, None):
        pass
    time.sleep(LAST_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


@final
class Worker:
    """A worker, as its supervisor sees it.

    Args:
        assignment: What the supervisor has told it.
        control: The connection to the supervisor.

    Attributes:
        group: Those that it serves with.
        is_retiring: Whether another worker has replaced it.
    """

    def __init__(self, assignment: Assignment, control: socket.socket) -> None:
        self._assignment = assignment
        self._directory = Path(assignment.directory)
        reach = WorkerReach(self._directory, assignment.number)
        self.group: Final = Members(reach, assignment.number, assignment.key)
        self.group.links.know(assignment.workers)
        control.setblocking(False)
        self._control = trio.SocketStream(trio.socket.from_stdlib_socket(control))
        self._has_no_supervisor = False
        self.is_retiring = False

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[Listeners]:
        """Listen on the sockets of the group while the body runs.

        One connection is accepted in a turn of the event loop: so workers that are busy leave those that wait to
        others.
        """
        sockets = [socket.socket(fileno=each) for each in self._assignment.sockets]
        each = [trio.SocketListener(trio.socket.from_stdlib_socket(sock)) for sock in sockets]
        listeners = Listeners(each, most_in_a_turn=1)
        try:
            yield listeners
        finally:
            listeners.close()

    def started(self, value: object = None) -> None:
        """Tell the supervisor that clients can connect; this is a task status."""
        del value
        with suppress(OSError):
            os.write(self._control.socket.fileno(), READY)

    async def obey(self, shutdown: Shutdown) -> None:
        """Do what the supervisor says; end at once when it has ended."""
        rest = b""
        with suppress(trio.BrokenResourceError):
            while data := await self._control.receive_some(_MAX_LINE):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    told = json.loads(line)
                    self.group.links.know(told["workers"])
                    if self._assignment.number not in told["workers"]:
                        self.is_retiring = True
                        shutdown.drain()
        self._has_no_supervisor = True
        shutdown.abort()

    def close(self) -> None:
        """Close the connection to the supervisor, which nobody uses any more."""
        self._control.socket.close()

    def clean_up(self) -> None:
        """Remove what a supervisor leaves that was killed. Each worker does that, and the last one succeeds."""
        if not self._has_no_supervisor and _is_open(self._control.socket.fileno()):
            return
        files = list(self._directory.glob("*.sock"))
        if self._assignment.unix_path is not None:
            files.append(Path(self._assignment.unix_path))
        for path in files:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                if stat.S_ISSOCK(path.lstat().st_mode) and probe.connect_ex(str(path)):
                    path.unlink()
        with suppress(OSError):
            self._directory.rmdir()


def serve_as_worker(taken: tuple[Assignment, socket.socket], site: Site) -> None:
    """Serve until the supervisor, or a signal, ends it.

    Args:
        taken: What `taken_assignment` has returned.
        site: What is served.
    """

    async def serve(*, shutdown: Shutdown) -> None:
        worker = Worker(*taken)
        group = worker.group if site.store is None else None
        try:
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(worker.obey, shutdown)
                await serve_site(site, shutdown, worker, worker.listening(), group, lambda: worker.is_retiring)
                nursery.cancel_scope.cancel(reason="serving ended")
        finally:
            worker.clean_up()
            worker.close()

    run_until_signal(serve)
