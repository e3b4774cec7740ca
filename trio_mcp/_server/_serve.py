"""Whole programs that serve, until their client goes or signals end them, and how one connection ends.

Servers themselves are in `_server`; nothing here knows what they offer.
"""

from __future__ import annotations

import atexit
import inspect
import os
import select
import signal
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from types import FrameType, TracebackType
from typing import Any, Final, Protocol, TextIO, final

import trio

from .._limits import check_given, check_port
from .._logs import is_info_shown
from .._peer._peer import Peer
from .._printable import reason_of
from .._trio import check_nothing_runs, open_hidden_nursery
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
    try:
        check_port(options.get("port", 0), at_least=0)
    except (TypeError, ValueError) as error:
        _show_in_one_line(error)
        raise
    try:
        run_until_signal(partial(function, server, *address, task_status=_Announcement(), **options))
    except CannotServe as error:
        _show_in_one_line(error)
        raise


class CannotServe(OSError):
    """What it takes to serve cannot be had. Its text is enough without a traceback."""


@final
class CannotJoin(CannotServe):
    """A store cannot be used."""


@final
class CannotListen(CannotServe):
    """An address cannot be listened on: the error of the system.

    Args:
        error: The error of the system.
        where: The address.
        remedy: What to do about it, if that is known.
    """

    def __init__(self, error: OSError, where: str, remedy: str) -> None:
        super().__init__(error.errno, error.strerror or str(error), error.filename)
        self._text = f"cannot listen at {where}: {reason_of(error)}{remedy}"

    def __str__(self) -> str:
        return self._text


def _show_in_one_line(error: Exception) -> None:
    """Have the interpreter show an error by its text alone if nobody catches it and the program ends with it."""
    show = sys.excepthook

    def show_text(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> None:
        if value is error:
            _say(str(error))
        else:
            show(kind, value, traceback)

    sys.excepthook = show_text


@final
class _Announcement:
    """Tells a person at a terminal where a program serves; of others, who want to know have the log."""

    def started(self, value: tuple[str, ...] | None = None) -> None:
        """Show the URLs, unless the log does."""
        announce_urls(value or ())


def announce_urls(urls: Sequence[str]) -> None:
    """Show URLs at a terminal, unless the log does."""
    if urls and _is_terminal(sys.stderr) and not is_info_shown():
        _say(f"serving at {', '.join(urls)}; Ctrl+C ends it")


def announce_stdio() -> None:
    """Tell a person who has started a server by hand, at a terminal, that it waits for a client."""
    if _is_terminal(sys.stdin) and _is_terminal(sys.stderr):
        _say(
            "serving at standard input and output, for a client that starts this program, "
            "such as: trio-mcp list FILE; Ctrl+C ends it"
        )


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False


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
        serve: Called as ``await serve(shutdown=...)``; serves until that `Shutdown` is drained or aborted. A
            function of yours hands it on: ``await serve_http(server, shutdown=shutdown)``.

    Raises:
        SystemExit: With status 130 after SIGINT.
        RuntimeError: It is called inside Trio or asyncio.
        TypeError: `serve` cannot be called like that.
        Others: What `serve` raises, as it is: an `OSError` for a port that is in use, what the lifespan raises.
    """
    check_nothing_runs("run_until_signal(serve)", "serve", "shutdown=trio_mcp.Shutdown()")
    check_given(run_until_signal, {"serve": serve})
    shutdown = Shutdown()
    with suppress(ValueError):  # some functions written in C have no signature
        try:
            inspect.signature(serve).bind(shutdown=shutdown)
        except TypeError:
            raise TypeError(
                f"run_until_signal calls {getattr(serve, '__name__', 'what it is given')}(shutdown=...): "
                "write async def main(*, shutdown), and await serve_http(server, shutdown=shutdown) in it"
            ) from None
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
