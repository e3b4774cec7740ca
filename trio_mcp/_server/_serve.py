"""Serving over the wires there are, and ending in good order. Knows of a server only that it serves channels."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from .._bindings._stdio_server import open_stdio_channel
from .._channel import Channel
from .._groups import open_hidden_nursery
from .._limits import Limits
from .._peer._frames import OnFrame
from .._peer._peer import Peer
from ._shutdown import Shutdown

if TYPE_CHECKING:  # a program that serves a pipe has no use for it
    from .._core._http_settings import HttpHost, HttpServerSettings

__all__ = [
    "Servable",
    "register_http",
    "run_http",
    "run_stdio",
    "run_until_signal",
    "serve_stdio",
    "serve_until_end",
]

INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit status of a program that SIGINT ended, as shells give it."""


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

    It ends when it has nothing to serve any more, or by a signal: SIGTERM lets handlers finish within
    `Limits.drain_timeout`, a second one or SIGINT cancels them at once. `Server.run` is this for the usual cases.

    Args:
        serve: Serves until the `Shutdown` says when to end.

    Raises:
        SystemExit: With status 130 after SIGINT.
        Others: What `serve` raises, as it is: an `OSError` for a port that is in use, what the lifespan raises.
    """

    async def main() -> bool:
        shutdown = Shutdown()
        interrupted = trio.Event()
        async with open_hidden_nursery() as nursery:
            await nursery.start(_obey_signals, shutdown, interrupted)
            await serve(shutdown=shutdown)
            is_terminated = shutdown.is_draining and not interrupted.is_set()
            nursery.cancel_scope.cancel()
        if is_terminated:
            # Clients that are in a hurry ask twice. The program is on its way out, and must not look killed.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return interrupted.is_set()

    if trio.run(main):
        raise SystemExit(INTERRUPTED)


async def _obey_signals(
    shutdown: Shutdown,
    interrupted: trio.Event,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """SIGTERM drains, and then aborts; SIGINT aborts."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGINT:
                interrupted.set()
                shutdown.abort()
            elif shutdown.is_draining:
                shutdown.abort()
            else:
                shutdown.drain()
