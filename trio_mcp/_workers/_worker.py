"""A worker: a process that a supervisor has started, and that serves with others what one server is.

What its clients carry names it: the ids of sessions and sealed states begin with its tag, ``w7.``. Who it was is
never used again, so a tag whose worker has ended leads nowhere. The tag of a state is part of what it is sealed
for, so that nobody can send it elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import select
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import parse_qs
from weakref import WeakKeyDictionary

import attrs
import trio

from .._codec import _json
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import Request
from .._core._http1 import PROTOCOL_VERSION, SESSION_ID
from .._endpoint._call import HttpCall, RequestSlot
from .._endpoint._endpoint import Endpoint
from .._endpoint._groups import Answers, Decodes, ServesModern
from .._endpoint._session import session_ended
from .._hosts._listening import BACKLOG, Listeners
from .._hosts._serve_http import Site, serve_site
from .._logs import Log
from .._revisions import Revision
from .._server._lifetimes import Shutdown
from .._server._parking import Service, tag_of
from .._server._serve import run_until_signal
from .._server._server import Hosted
from .._trio import open_hidden_nursery
from ._forwarding import ForwardedCall, forward, socket_of
from ._frames import HEAD, LINK, FrameReader
from ._links import Links

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
class WorkerGroup:
    """A worker as its endpoint sees it; a `Group`.

    Args:
        assignment: What the supervisor has told it.
        control: The connection to the supervisor.

    Attributes:
        is_retiring: Whether another worker has replaced it.
    """

    def __init__(self, assignment: Assignment, control: socket.socket) -> None:
        self._assignment = assignment
        self._directory = Path(assignment.directory)
        self._number = assignment.number
        control.setblocking(False)
        self._control = trio.SocketStream(trio.socket.from_stdlib_socket(control))
        self._links = Links(self._directory, self._number)
        self._links.know(assignment.workers)
        self._has_no_supervisor = False
        self.is_retiring = False

    # What the group shares.

    def secret(self, purpose: str) -> bytes:
        """Return a secret that the group shares, for one purpose."""
        return hmac.digest(self._assignment.key, f"trio-mcp workers: {purpose}".encode("ascii"), hashlib.sha256)

    def join(self, service: Service[Any], served: Hosted) -> None:
        """Have a server say in what its clients carry that this worker remembers it."""
        service.join(f"w{self._number}.", self.secret("states"))
        hub = served.join(self.secret("cursors"))
        if hub is not None:
            self._links.attach(hub)

    # The supervisor.

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
                    self._links.know(told["workers"])
                    if self._number not in told["workers"]:
                        self.is_retiring = True
                        shutdown.drain()
        self._has_no_supervisor = True
        shutdown.abort()

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

    # The other workers.

    @asynccontextmanager
    async def serving(self, endpoint: Endpoint) -> AsyncGenerator[None]:
        """Serve what other workers forward to an endpoint while the body runs."""
        path = socket_of(self._directory, self._number)
        with closing(socket.socket(socket.AF_UNIX)) as sock:
            sock.setblocking(False)
            sock.bind(str(path))
            sock.listen(BACKLOG)
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))

            async def serve(stream: trio.SocketStream) -> None:
                await self._serve(stream, endpoint)

            try:
                async with open_hidden_nursery() as nursery:
                    nursery.start_soon(trio.serve_listeners, serve, [listener])  # noqa: ASYNC113 - it listens already
                    await self._links.start(nursery)
                    yield
                    self._links.detach()
                    nursery.cancel_scope.cancel(reason="the endpoint was closed")
            finally:
                with suppress(OSError):
                    path.unlink()

    async def _serve(self, stream: trio.SocketStream, endpoint: Endpoint) -> None:
        """Serve a connection of another worker."""
        reader = FrameReader(stream)
        try:
            async with stream:
                found = await reader.read()
                if found is not None and found[0] == LINK:
                    await self._links.hear(found[1], reader)
                elif found is not None and found[0] == HEAD:
                    call = ForwardedCall(stream, _json.decode(found[1]), endpoint.settings)
                    del found
                    if not await call.take():
                        return  # it was refused there meanwhile: its client may ask again
                    async with open_hidden_nursery() as nursery:
                        nursery.start_soon(call.receive, reader)
                        await endpoint.handle(call)
                        nursery.cancel_scope.cancel()
        except Exception:
            # The boundary of one connection.
            _log.exception("a connection of another worker failed")

    def _owner(self, name: object) -> int | None:
        """Return the number of the other worker that remembers what has this name; `None` if no other does."""
        tag = tag_of(name) if isinstance(name, str) else ""
        number = int(tag[1:-1]) if tag else self._number
        return None if number == self._number else number

    def by_session(self, answer: Answers) -> Answers:
        """Forward requests of sessions that other workers have, and have the others answered."""

        async def serve(call: HttpCall, slot: RequestSlot) -> None:
            id = call.headers.get(SESSION_ID)
            if id is None or (owner := self._owner(id)) is None or not _may_go_on(call):
                await answer(call, slot)
            elif (
                call.headers.get(PROTOCOL_VERSION) in _MODERN
            ):  # it has no sessions, and what it sends names none
                await answer(call, slot)
            else:
                await self._forward(call, owner)

        return serve

    def by_query(self, answer: Answers) -> Answers:
        """The same for HTTP+SSE, where the session is in the query."""

        async def serve(call: HttpCall, slot: RequestSlot) -> None:
            ids = parse_qs(call.query).get("session_id", [])
            owner = self._owner(ids[0]) if len(ids) == 1 else None
            if owner is None or not _may_go_on(call):
                await answer(call, slot)
            else:
                await self._forward(call, owner)

        return serve

    async def _forward(self, call: HttpCall, owner: int) -> None:
        # Nothing here keeps the body while the other one answers.
        if not await forward(
            call, self._directory, owner, await call.read_body() if call.method == "POST" else b""
        ):
            raise session_ended()

    def by_state(self, decode: Decodes, serve: ServesModern) -> tuple[Decodes, ServesModern]:
        """Forward modern requests that go on with what other workers have, and have the others served.

        They are forwarded as they were received: a proof may have a digest of the body. Where the other one has
        ended, the request is served here: a handler that is run again needs no more than its state, and any other
        state is refused.
        """
        # Of requests that are about to be forwarded; others are not kept.
        bodies = WeakKeyDictionary[HttpCall, tuple[int, bytes]]()

        def decode_and_keep(call: HttpCall, body: bytes) -> Any:
            value = decode(call, body)
            if is_object(value) and is_object(params := value.get("params")):
                owner = self._owner(_carried(value.get("method"), params))
                if owner is not None and _may_go_on(call):
                    bodies[call] = owner, body
            return value

        async def serve_or_forward(call: HttpCall, request: Request) -> None:
            found = bodies.pop(call, None)
            if found is None or not await forward(call, self._directory, *found):
                await serve(call, request)

        return decode_and_keep, serve_or_forward


def _may_go_on(call: HttpCall) -> bool:
    """Whether a request may be forwarded: none is twice, and a WebSocket is a session by itself."""
    return not (isinstance(call, ForwardedCall) or call.is_websocket)


def _carried(method: object, params: Mapping[str, Any]) -> object:
    """Return by what a request names what it goes on with: a state, or the id of a task, or the first of several.

    What else is listened to beside tasks is heard in every worker.
    """
    if method == "subscriptions/listen":
        wanted = params.get("notifications")
        tasks = wanted.get("taskIds") if is_object(wanted) else None
        return tasks[0] if is_array(tasks) and tasks else None
    state = params.get("requestState")
    return params.get("taskId") if state is None and str(method).startswith("tasks/") else state


def serve_as_worker(taken: tuple[Assignment, socket.socket], site: Site) -> None:
    """Serve until the supervisor, or a signal, ends it.

    Args:
        taken: What `taken_assignment` has returned.
        site: What is served.
    """

    async def serve(*, shutdown: Shutdown) -> None:
        group = WorkerGroup(*taken)
        try:
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(group.obey, shutdown)
                await serve_site(site, shutdown, group, group.listening(), group)
                nursery.cancel_scope.cancel(reason="serving ended")
        finally:
            group.clean_up()

    run_until_signal(serve)
