"""The process that opens the listening socket, starts the workers, and starts those again that die.

    run_workers ──> the supervisor: a socket, a directory, and for each place a worker
                ──> the same program again, which is told that it is a worker, and serves

Nothing of a server is loaded here but what the program itself loads. A worker is a fresh interpreter: nothing is
forked that runs. It has one connection to the supervisor, by which it is told what there is; the end of that
connection is the end of the worker, however the supervisor has ended.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, final

import attrs
import trio

from .._core._reconnect import Backoff, RestartPolicy
from .._hosts._listening import Listeners, open_listeners
from .._logs import Log
from .._server._lifetimes import Shutdown
from .._server._serve import announce_urls, run_until_signal
from .._trio import open_hidden_nursery
from ._reach import private_directory

if sys.platform != "win32":
    from ._worker import READY, VARIABLE, Assignment, shown_to_worker

assert sys.platform != "win32"

_log: Final = Log("trio_mcp.workers")

KEY_BYTES: Final = 32

LEAVING_SECONDS: Final = 30.0
"""How long the next worker keeps its place while one that was replaced still ends, in seconds. What its handlers
do to clean up has no bound."""


@final
class WorkersFailed(Exception):
    """The workers cannot serve; their own errors are on standard error."""


@final
@attrs.define(eq=False)
class _Worker:
    """A worker.

    Attributes:
        number: Its number, which no other ever has.
        place: Which of the places it has.
        process: Its process.
        control: The connection to it.
        began_at: When it was started.
        has_served: Whether clients could ever connect to it.
        may_end: Whether it was told to end.
        ready: Set once clients can connect, or it has ended.
        ended: Set once it has ended.
    """

    number: int
    place: int
    process: trio.Process
    control: trio.SocketStream
    began_at: float
    has_served: bool = False
    may_end: bool = False
    ready: trio.Event = attrs.field(factory=trio.Event)
    ended: trio.Event = attrs.field(factory=trio.Event)

    def tell(self, line: bytes) -> None:
        """Send it a line. One that has not read thousands of them hangs, and is killed."""
        try:
            is_told = os.write(self.control.socket.fileno(), line) == len(line)
        except BlockingIOError:
            is_told = False
        except OSError:
            return  # it has ended
        if not is_told:
            self.process.kill()

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number if self.has_served else signal.SIGTERM)


@final
class Supervisor:
    """Starts workers, and starts them again.

    Args:
        command: Runs a worker.
        places: How many there are at once.
        listeners: What they listen on.
        policy: When one that died is started again.
        shutdown: Ends all of them.
        on_serving: Called once all can be reached.
    """

    def __init__(
        self,
        command: Sequence[str],
        places: int,
        listeners: Listeners,
        policy: RestartPolicy,
        shutdown: Shutdown,
        on_serving: Callable[[], object],
    ) -> None:
        self._command = command
        self._places = places
        self._listeners = listeners
        self._policy = policy
        self._shutdown = shutdown
        self._on_serving = on_serving
        self._key = secrets.token_bytes(KEY_BYTES)
        self._directory = private_directory()
        name = listeners.each[0].socket.getsockname()
        self._unix_path = str(Path(name).absolute()) if isinstance(name, str) else None
        self._workers: dict[int, _Worker] = {}
        self._backoffs = [Backoff(policy) for _ in range(places)]
        self._last = 0
        self._has_served = False
        self._failure: WorkersFailed | None = None

    async def run(self) -> None:
        """Run the workers until `shutdown`, or until they cannot be started.

        Cancelled or not, none is left when this returns.

        Raises:
            WorkersFailed: One could never be started, or not any more.
        """
        try:
            async with open_hidden_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._restart_on_hangup)
                for place in range(self._places):
                    await self._start(place)
                nursery.start_soon(self._tell_when_serving)
                await self._shutdown.wait_drain()
                await self._end()
                nursery.cancel_scope.cancel(reason="the workers have ended")
        finally:
            await self._kill()
            shutil.rmtree(self._directory, ignore_errors=True)
        if self._failure is not None:
            raise self._failure

    # One worker.

    async def _start(self, place: int) -> _Worker:
        """Start a worker, and watch it."""
        self._last += 1
        number = self._last
        sockets = [listener.socket.fileno() for listener in self._listeners.each]
        ours, theirs = socket.socketpair()
        process: trio.Process | None = None
        with closing(theirs), trio.CancelScope(shield=True):  # a process that has started must be known
            try:
                process = await trio.lowlevel.open_process(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno(), *sockets],
                    env={**os.environ, VARIABLE: shown_to_worker(theirs)},
                    start_new_session=True,  # Ctrl+C in a terminal comes here, and is passed on once
                )
            except BaseException:
                ours.close()
                raise
        assert process is not None
        ours.setblocking(False)
        control = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        worker = _Worker(number, place, process, control, trio.current_time())
        self._workers[number] = worker
        if self._shutdown.is_draining:
            worker.may_end = True
            worker.signal(signal.SIGTERM)
        there = self._there_are()
        assignment = Assignment(number, str(self._directory), sockets, self._key, there, self._unix_path)
        worker.tell(assignment.encode())
        self._nursery.start_soon(self._watch, worker)
        self._nursery.start_soon(self._read, worker)
        self._tell_all()
        return worker

    def _there_are(self) -> list[int]:
        return [number for number, worker in self._workers.items() if not worker.may_end]

    def _tell_all(self) -> None:
        """Tell the workers which there are. Each is told by one line, and nothing waits for it."""
        line = b'{"workers": %s}\n' % str(self._there_are()).encode("ascii")
        for worker in tuple(self._workers.values()):
            worker.tell(line)

    async def _read(self, worker: _Worker) -> None:
        """Wait until a worker says that it serves."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            if await worker.control.receive_some(len(READY)) and not worker.ended.is_set():
                worker.has_served = self._has_served = True
                worker.ready.set()
                if self._shutdown.is_draining:  # it has missed the signal
                    worker.signal(signal.SIGTERM)

    async def _watch(self, worker: _Worker) -> None:
        """Wait until a worker ends; start another one in its place if it should not have."""
        status = await worker.process.wait()
        del self._workers[worker.number]
        worker.ended.set()
        worker.ready.set()
        with suppress(OSError):
            (self._directory / f"{worker.number}.sock").unlink()
        await worker.control.aclose()
        if worker.may_end or self._shutdown.is_draining:
            return
        self._tell_all()
        if any(other.place == worker.place and not other.may_end for other in self._workers.values()):
            return  # its replacement has the place, or whom it was to replace has kept it
        how = f"signal {-status}" if status < 0 else f"status {status}"
        delay = self._backoffs[worker.place].next_delay(trio.current_time() - worker.began_at)
        if delay is None and worker.has_served:
            delay = self._policy.max_delay
        if not self._has_served or delay is None:
            self._failure = self._failure or WorkersFailed(
                f"worker {worker.number} ended with {how} before it served"
            )
            self._shutdown.drain()
            return
        _log.error("worker %d ended with %s; another one starts in %g s", worker.number, how, delay)
        await trio.sleep(delay)
        if not self._shutdown.is_draining:
            await self._start(worker.place)

    async def _tell_when_serving(self) -> None:
        for worker in tuple(self._workers.values()):
            await worker.ready.wait()
        if not self._shutdown.is_draining:
            self._shutdown.serving()
            self._on_serving()

    # All of them.

    async def _restart_on_hangup(self) -> None:
        """Replace workers one after another whenever SIGHUP comes."""
        with trio.open_signal_receiver(signal.SIGHUP) as hangups:
            async for _ in hangups:
                await self._replace_all()

    async def _replace_all(self) -> None:
        _log.info("the workers are replaced, one after another")
        for old in tuple(self._workers.values()):
            if old.may_end or not old.has_served or old.ended.is_set():
                continue  # it is new anyway, or its successor is
            new = await self._start(old.place)
            await new.ready.wait()
            if self._shutdown.is_draining:
                return  # it was told to end
            if new.ended.is_set():
                _log.error("worker %d could not be started; the others stay", new.number)
                return
            old.may_end = True
            self._tell_all()
            with trio.move_on_after(LEAVING_SECONDS):
                await old.ended.wait()

    async def _end(self) -> None:
        """Have all workers end: each signal that comes here is passed on."""
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(self._abort)
            if not self._shutdown.is_aborting:
                self._signal_all(signal.SIGTERM)
            while self._workers:
                await next(iter(self._workers.values())).ended.wait()
            nursery.cancel_scope.cancel()

    async def _abort(self) -> None:
        await self._shutdown.wait_abort()
        self._signal_all(signal.SIGINT)

    def _signal_all(self, number: int) -> None:
        for worker in tuple(self._workers.values()):
            worker.may_end = True
            worker.signal(number)

    async def _kill(self) -> None:
        """Kill those that are left, if this is cancelled."""
        with trio.CancelScope(shield=True):
            for worker in tuple(self._workers.values()):
                worker.may_end = True
                with suppress(ProcessLookupError):
                    worker.process.kill()
            for worker in tuple(self._workers.values()):
                await worker.process.wait()


def supervise(
    command: Sequence[str],
    workers: int,
    address: tuple[str | None, int, str | os.PathLike[str] | None, int],
    url_at: Callable[[trio.SocketListener], str],
    restart: RestartPolicy | None = None,
) -> None:
    """Run workers until signals end them.

    Args:
        command: Runs one.
        workers: How many.
        address: Where they listen; see `open_listeners`.
        url_at: Returns the URL of a listener.
        restart: When one that died is started again.

    Raises:
        SystemExit: As `run_workers`.
        OSError: The address cannot be listened on.
    """

    async def main(*, shutdown: Shutdown) -> None:
        async with open_listeners(*address) as listeners:
            urls = tuple(map(url_at, listeners.each))

            def tell() -> None:
                _log.info("%d workers serve at %s", workers, ", ".join(urls))
                announce_urls(urls)

            policy = RestartPolicy() if restart is None else restart
            await Supervisor(command, workers, listeners, policy, shutdown, tell).run()

    try:
        run_until_signal(main)
    except WorkersFailed as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(1) from None
