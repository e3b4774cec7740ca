"""Whole programs that serve, until their client goes or signals end them, and how one connection ends.

Servers themselves are in `_server`; nothing here knows what they offer.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from types import FrameType
from typing import Any, Final, Protocol, final

import trio

from .._peer._peer import Peer
from .._trio import open_hidden_nursery
from ._lifetimes import Shutdown

INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit status of a program that SIGINT ended, as shells give it."""

MAX_SIGNALS: Final = 3
"""After how many signals a program ends at once."""


def run_hosted(serve: str, server: Any, /, *address: object, **options: object) -> None:
    """Run a program that serves and obeys signals; see `Server.run`.

    Args:
        serve: The name of the public function that serves.
        server: The server.
        address: What else the function takes.
        options: Its options.
    """
    # The one call upwards. Servers know no floor above them, so they take the public function, as users do.
    function = getattr(import_module("..", __package__), serve)
    run_until_signal(partial(function, server, *address, **options))


async def serve_until_end(peer: Peer, shutdown: Shutdown) -> None:
    """Serve until the client's messages end or `shutdown` is drained; then let open requests finish.

    If both happen, open requests get no more time: a client that has closed its end and then sends SIGTERM will
    kill the process next, and cleanup must have run by then. The two may be seen in either order.
    """
    shutdown.call_on_drain(peer.look_again)
    try:
        while not (peer.has_input_ended or shutdown.is_draining):
            await peer.wait_to_look()
    finally:
        shutdown.do_not_call(peer.look_again)
    if peer.end is None:
        await run_until_first(peer.drain, shutdown.wait_abort, peer.wait_input_ended)
    else:
        await run_until_first(peer.drain, shutdown.wait_drain)
    if shutdown.is_aborting:
        peer.abort()


async def run_until_first(*waits: Callable[[], Awaitable[object]]) -> None:
    """Run all of them until one returns; the others are then cancelled."""
    async with open_hidden_nursery() as nursery:

        async def run(wait: Callable[[], Awaitable[object]]) -> None:
            await wait()
            nursery.cancel_scope.cancel()

        for wait in waits:
            nursery.start_soon(run, wait)


class Serves(Protocol):
    """Serves until its `Shutdown` ends it."""

    async def __call__(self, *, shutdown: Shutdown) -> None:
        """Serve."""
        ...


def run_until_signal(serve: Serves) -> None:
    """Run a program that serves: ``run_until_signal(partial(serve_http, server, unix_path="mcp.sock"))``.

    It ends when there is nothing to serve any more, or by signals, each stronger than the one before:

    1. SIGTERM lets handlers finish within `Limits.drain_timeout`; leaving the lifespan has no limit. SIGINT acts
       like the second signal.
    2. A second one cancels handlers at once, and a lifespan that is being left. One that is left only after that
       has `Limits.goodbye_timeout`.
    3. A third one ends the process at once, also if handlers shield themselves or the event loop is blocked. It
       dies of the signal; none of your cleanup runs, and a line on standard error reports that.

    A lifespan that is still being entered is cancelled by the first one. After a signal, further ones are still
    counted when this has returned, until the program has ended; without one, the handlers of both signals are
    restored.

    Once HTTP is served, the garbage collector leaves out what exists by then (`gc.freeze`), because its pauses
    would hold up every client: this assumes that the process does nothing but serve.

    `Server.run` does this for the usual cases. Call it in the main thread.

    Args:
        serve: Serves until the `Shutdown` it is given is drained or aborted.

    Raises:
        SystemExit: With status 130 after SIGINT.
        Others: What `serve` raises, as it is: an `OSError` for a port that is in use, what the lifespan raises.
    """
    shutdown = Shutdown()
    shutdown.own_process()

    async def main() -> None:
        signals.obey()
        await serve(shutdown=shutdown)

    with _handling_signals(shutdown) as signals:
        trio.run(main)
    if signal.SIGINT in signals.received:
        raise SystemExit(INTERRUPTED)


@final
class _Signals:
    """The signals that end the program. Counted in Python's handlers, because the event loop may be blocked.

    Args:
        shutdown: Drained or aborted by them, in the event loop.

    Attributes:
        received: The signals that have come, in order.
    """

    def __init__(self, shutdown: Shutdown) -> None:
        self._shutdown = shutdown
        self.received: list[int] = []
        self._obeyed = 0
        self._run: trio.lowlevel.TrioToken | None = None

    def handle(self, number: int, _: FrameType | None) -> None:
        """Count a signal, and act on it."""
        self.received.append(number)
        if len(self.received) >= MAX_SIGNALS:
            _die_of(number)
        if self._run is not None:
            with suppress(trio.RunFinishedError):
                self._run.run_sync_soon(self.obey)

    def obey(self) -> None:
        """Drain or abort. Called in the event loop, for the first time when it begins."""
        self._run = trio.lowlevel.current_trio_token()
        while self._obeyed < len(self.received):
            number = self.received[self._obeyed]
            self._obeyed += 1
            if number == signal.SIGINT or self._shutdown.is_draining:
                self._shutdown.abort()
            else:
                self._shutdown.drain()


@contextmanager
def _handling_signals(shutdown: Shutdown) -> Generator[_Signals]:
    """Handle signals while the body runs; and also after it, if one has come: the program is about to end.

    A client may send a second signal while the interpreter ends, and the exit status must not become that of a
    killed process. But the program can still hang, for example in a thread, so the third signal still kills it.
    """
    signals = _Signals(shutdown)
    before = {number: signal.signal(number, signals.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        if signals.received:
            # While the interpreter is torn down, no Python handler runs.
            atexit.register(signal.signal, signal.SIGTERM, signal.SIG_IGN)
        else:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _die_of(number: int) -> None:
    """End the process by a signal, as if it had never been handled."""
    name = signal.Signals(number).name
    with suppress(OSError, ValueError):
        # A full pipe, whose reader has stopped, must not block this.
        if sys.platform == "win32" or select.select([], [2], [], 0)[1]:
            os.write(2, f"the third signal, {name}: this process ends without cleaning up\n".encode())
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    os._exit(128 + number)
