"""Serving over the wires there are, and ending in good order. Knows of a server only that it serves channels."""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol, final

import trio

from .._bindings._stdio_server import open_stdio_channel
from .._channel import Channel
from .._limits import Limits
from .._peer._peer import Peer
from .._peer._send_queue import OnFrame
from .._trio import open_hidden_nursery
from ._lifetimes import Shutdown

if TYPE_CHECKING:  # a program that serves a pipe has no use for it
    from .._core._http_rules import HttpHost, HttpServerSettings


INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit status of a program that SIGINT ended, as shells give it."""

MAX_SIGNALS: Final = 3
"""After how many signals a program has been asked often enough."""


class RunsHttp(Protocol):
    """Runs a program that serves HTTP."""

    def __call__(
        self, server: Any, *, host: str, port: int, http: HttpHost, settings: HttpServerSettings | None
    ) -> None:
        """Run until a signal ends it."""
        ...


_http_runners: Final[list[RunsHttp]] = []


def register_http(runner: RunsHttp) -> None:
    """Tell who serves HTTP. Servers do not know the floors above them."""
    _http_runners[:] = [runner]


def run_http(server: Any, *, host: str, port: int, http: HttpHost, settings: HttpServerSettings | None) -> None:
    """Run a program that serves HTTP and obeys signals; see `Server.run`."""
    (runner,) = _http_runners
    runner(server, host=host, port=port, http=http, settings=settings)


class Servable(Protocol):
    """A server, as far as serving it goes."""

    @property
    def limits(self) -> Limits:
        """What each connection may cost."""
        ...

    async def serve_channel(
        self,
        channel: Channel,
        *,
        shutdown: Shutdown | None = None,
        on_frame: OnFrame | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve the client at the other end of a channel."""
        ...


async def serve_until_end(peer: Peer, shutdown: Shutdown) -> None:
    """Serve until the client says nothing more or we are told to end; then let what was asked finish.

    A second reason to end leaves no time for that: a client that has closed its input and then asks the process
    to terminate will kill it next, and cleanup must have run by then. Which of the two is seen first is chance.
    """
    shutdown.call_on_drain(peer.look_again)
    try:
        while not (peer.has_input_ended or shutdown.is_draining):
            await peer.wait_to_look()
    finally:
        shutdown.do_not_call(peer.look_again)
    if peer.end is None:
        await _first(peer.drain, shutdown.wait_abort, peer.wait_input_ended)
    else:
        await _first(peer.drain, shutdown.wait_drain)
    if shutdown.is_aborting:
        peer.abort()


async def _first(*waits: Callable[[], Awaitable[object]]) -> None:
    """Run all of them until one returns."""
    async with open_hidden_nursery() as nursery:

        async def run(wait: Callable[[], Awaitable[object]]) -> None:
            await wait()
            nursery.cancel_scope.cancel()

        for wait in waits:
            nursery.start_soon(run, wait)


async def serve_stdio(
    server: Servable,
    *,
    shutdown: Shutdown | None = None,
    on_frame: OnFrame | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the client at this process's standard input and output until it goes, then return.

    Meanwhile the two belong to the protocol: standard input reads as empty for everybody else, and what is
    printed goes to standard error. No signal is handled here; `Server.run` does that for a whole program.

    Args:
        server: The server.
        shutdown: Says when to end.
        on_frame: Called with ``"sent"`` or ``"received"`` and each message.
        task_status: Told when the client can be served.

    Raises:
        OSError: Standard input or output is closed or cannot be used.

    Spec: 2026-07-28, basic/transports/stdio.
    """
    async with open_stdio_channel(server.limits) as channel:
        await server.serve_channel(channel, shutdown=shutdown, on_frame=on_frame, task_status=task_status)


def run_stdio(server: Servable) -> None:
    """Run a program that serves standard input and output and obeys signals; see `Server.run`."""
    run_until_signal(partial(serve_stdio, server))


class Serves(Protocol):
    """Something that serves until it is told to end."""

    async def __call__(self, *, shutdown: Shutdown) -> None:
        """Serve."""
        ...


def run_until_signal(serve: Serves) -> None:
    """Run a program that serves: ``run_until_signal(partial(serve_http, server, unix_path="mcp.sock"))``.

    It ends when it has nothing to serve any more, or by signals, of which each says more than the one before:

    1. SIGTERM lets handlers finish within `Limits.drain_timeout`, and the lifespan take its time. SIGINT says
       already what the second signal says.
    2. A second one cancels handlers at once, and a lifespan that is being left. One that is left only after that
       has `Limits.goodbye_timeout`.
    3. A third one ends the process there and then, whatever it does: handlers that shield themselves, an event
       loop that is blocked. It dies of the signal; no more code of yours runs, and a line on standard error says
       so.

    A lifespan that is still being entered is cancelled by the first one: there is nothing to finish. Once there
    was a signal, the count goes on after this has returned, while the program ends; else both signals are as
    before.

    Once HTTP is served, what was made until then is left out by the garbage collector (`gc.freeze`): the process
    is taken to be there for nothing else, and its pauses would hold up every client.

    `Server.run` is this for the usual cases. To be called in the main thread.

    Args:
        serve: Serves until the `Shutdown` says when to end.

    Raises:
        SystemExit: With status 130 after SIGINT.
        Others: What `serve` raises, as it is: an `OSError` for a port that is in use, what the lifespan raises.
    """
    shutdown = Shutdown()
    shutdown.own_process()

    async def main() -> None:
        signals.obey()
        await serve(shutdown=shutdown)

    with _hearing_signals(shutdown) as signals:
        trio.run(main)
    if signals.was_interrupted:
        raise SystemExit(INTERRUPTED)


@final
class _Signals:
    """The signals that ask the program to end, counted where Python hears them: the event loop may be blocked.

    Args:
        shutdown: Told of them, in the event loop.
    """

    def __init__(self, shutdown: Shutdown) -> None:
        self._shutdown = shutdown
        self._heard: list[int] = []
        self._obeyed = 0
        self._run: trio.lowlevel.TrioToken | None = None

    @property
    def were_heard(self) -> bool:
        """Whether there was one."""
        return bool(self._heard)

    @property
    def was_interrupted(self) -> bool:
        """Whether one of them was SIGINT."""
        return signal.SIGINT in self._heard

    def hear(self, number: int, _: FrameType | None) -> None:
        """Be the handler of a signal."""
        self._heard.append(number)
        if len(self._heard) >= MAX_SIGNALS:
            _die_of(number)
        if self._run is not None:
            with suppress(trio.RunFinishedError):
                self._run.run_sync_soon(self.obey)

    def obey(self) -> None:
        """Do what was heard. Called in the event loop, for the first time when it begins."""
        self._run = trio.lowlevel.current_trio_token()
        while self._obeyed < len(self._heard):
            number = self._heard[self._obeyed]
            self._obeyed += 1
            if number == signal.SIGINT or self._shutdown.is_draining:
                self._shutdown.abort()
            else:
                self._shutdown.drain()


@contextmanager
def _hearing_signals(shutdown: Shutdown) -> Generator[_Signals]:
    """Hear signals while the body runs; and also after it, once there was one: the program is on its way out.

    Clients that are in a hurry ask twice, and what is left of the program must not look killed then. But it can
    still hang, in a thread of its own for example, and three signals are three signals.
    """
    signals = _Signals(shutdown)
    before = {number: signal.signal(number, signals.hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        if signals.were_heard:
            # From when the interpreter is taken down nobody hears any more.
            atexit.register(signal.signal, signal.SIGTERM, signal.SIG_IGN)
        else:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _die_of(number: int) -> None:
    """End the process by a signal, as if nobody had ever heard it."""
    name = signal.Signals(number).name
    with suppress(OSError, ValueError):
        # Whoever reads standard error may have stopped, and that must not hold us up.
        if sys.platform == "win32" or select.select([], [2], [], 0)[1]:
            os.write(2, f"the third signal, {name}: this process ends without cleaning up\n".encode())
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    os._exit(128 + number)
