"""A server process on the client's side: started, watched, and ended with all it has started.

Knows pipes and processes. No message, no protocol, and no belief about why a process exits. What differs between
operating systems is in `_process_posix` and `_process_windows`.

How a server ends. Its input is closed, which tells it that it is no longer needed. If it is still there after
`terminate_timeout`, or has left descendants behind, they are asked to exit (SIGTERM) and waited for once more.
Last, the whole group is killed, whatever came before. No step waits for ever, not even for a process that cannot
be killed.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, final

import attrs
import trio

from .._errors import ConnectionLost
from .._groups import open_hidden_nursery
from .._limits import Limits
from .._logs import Log
from ._parameters import StdioServerParameters
from ._stderr import StderrReader, open_sink

if sys.platform == "win32":
    from ._process_windows import ProcessTree
else:
    from ._process_posix import ProcessTree

__all__ = ["ServerProcess", "ServerProcessStatistics", "open_process"]

_log = Log("trio_mcp.stdio")

LAST_WORDS_SECONDS: Final = 0.25
"""How long the standard error of a process that has exited may stay open before it is taken as all there is."""

KILL_SECONDS: Final = 1.0
"""How long a killed process may take to be gone. A process that waits for a device may take longer."""


@final
@attrs.frozen(kw_only=True)
class ServerProcessStatistics:
    """Counters of a server process.

    Attributes:
        stderr_bytes: How much of its standard error was read.
        stderr_dropped: Lines of its standard error, or pieces of lines, that the sink was too slow to take.
    """

    stderr_bytes: int
    stderr_dropped: int


@final
class ServerProcess:
    """A server process, running or ended. Made by `open_process` only.

    Attributes:
        stdin: What is sent here the server reads from its standard input.
        stdout: What the server writes to its standard output is received here.
        description: What this is, for errors and logs.
        pid: Its process number.
        exit_status: Its exit status, negative for a signal; `None` while it is running.
        on_exit: Called when it has exited and its last words have been read. Set it before the first checkpoint.
    """

    def __init__(
        self, tree: ProcessTree, stderr: StderrReader, description: str, terminate_timeout: float
    ) -> None:
        self.stdin: trio.abc.SendStream = tree.stdin
        self.stdout: trio.abc.ReceiveStream = tree.stdout
        self.description = description
        self.pid = tree.pid
        self.exit_status: int | None = None
        self.on_exit: Callable[[], object] | None = None
        self._tree = tree
        self._stderr = stderr
        self._terminate_timeout = terminate_timeout
        self._exited = trio.Event()
        # Shielded: the server's last words are heard also when the program is being cancelled.
        self._watching = trio.CancelScope(shield=True)
        self._closing = trio.Lock()
        self._closed = False

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """The last lines of its standard error, oldest first: at most 20, each cut at 1,000 characters."""
        return self._stderr.tail

    def statistics(self) -> ServerProcessStatistics:
        """Return counters, for tests and debugging."""
        return ServerProcessStatistics(
            stderr_bytes=self._stderr.received_bytes, stderr_dropped=self._stderr.dropped_pieces
        )

    async def wait_exit(self) -> int:
        """Wait until the process has exited and its last words to standard error have been read.

        Descendants it has left behind are not waited for.

        Returns:
            Its exit status, negative for a signal.

        Raises:
            ConnectionLost: It could not be killed, and nobody watches it any more.
        """
        await self._exited.wait()
        if self.exit_status is None:
            raise self.connection_lost()
        return self.exit_status

    def connection_lost(self) -> ConnectionLost:
        """Return the error for work this process did not finish: what became of it, and its last words."""
        return ConnectionLost(
            f"{self.description} {_fate(self.exit_status)}", exit_status=self.exit_status, stderr=self.stderr_tail
        )

    async def aclose(self) -> None:
        """End the process and all it has started, and release what belongs to it.

        Takes at most twice `Limits.terminate_timeout` and little more than a second, whatever the process does.
        Cancellation does not shorten it. Closing again does nothing.

        Spec: 2026-07-28, basic/transports/stdio, "Shutdown"; 2025-11-25, basic/lifecycle, "Shutdown".
        """
        with trio.CancelScope(shield=True):
            async with self._closing:
                if not self._closed:
                    await self._end()
                    self._closed = True

    async def _watch(self) -> None:
        with self._watching:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stderr.run)
                self.exit_status = await self._tree.wait_exit()
                # A descendant may hold it open for as long as it likes.
                with trio.move_on_after(LAST_WORDS_SECONDS):
                    await self._stderr.at_end.wait()
                self._exited.set()
                if self.on_exit is not None:
                    self.on_exit()

    async def _end(self) -> None:
        try:
            await self.stdin.aclose()
            with trio.move_on_after(self._terminate_timeout):
                await self._exited.wait()
            # That its standard error is at its end is the best sign there is that no descendant is left.
            is_gone = self.exit_status is not None and self._stderr.at_end.is_set()
            if not is_gone and self._tree.ask_to_exit():
                with trio.move_on_after(self._terminate_timeout):
                    await self._exited.wait()
                    await self._stderr.at_end.wait()
            self._tree.kill()
            with trio.move_on_after(KILL_SECONDS):
                await self._exited.wait()
            with trio.move_on_after(LAST_WORDS_SECONDS):
                await self._stderr.delivered.wait()
            await self.stdout.aclose()
        finally:
            self._tree.kill()  # again, in case a KeyboardInterrupt came before
            self._watching.cancel(reason=f"{self.description} has been ended")
            self.exit_status = self._tree.release()
            self._exited.set()
        if self.exit_status is None:
            _log.error("%s could not be killed and is left behind", self.description)


def _fate(exit_status: int | None) -> str:
    if exit_status is None:
        return "has not exited"
    if exit_status >= 0:
        return f"exited with status {exit_status}"
    try:
        return f"was killed by {signal.Signals(-exit_status).name}"
    except ValueError:
        return f"was killed by signal {-exit_status}"


@asynccontextmanager
async def open_process(params: StdioServerParameters, limits: Limits) -> AsyncGenerator[ServerProcess]:
    """Start a server process, and end it and all it has started when the block is left.

    That the process exits does not end the block. What the block raises comes out as itself. Both ends are
    checkpoints; see `ServerProcess.aclose` for how long leaving takes, which no cancellation shortens.

    Args:
        params: What to start.
        limits: `Limits.terminate_timeout` is for ending the process, `Limits.slow_consumer_timeout` is how long a
            stuck sink may hold up reading its standard error.

    Raises:
        ConnectionLost: It could not be started, and why.

    Spec: 2026-07-28, basic/transports/stdio.
    """
    async with open_sink(params.stderr) as sink:
        tree = await _start(params)
        description = f"stdio server {params.command!r} (pid {tree.pid})"
        stderr = StderrReader(tree.stderr, sink, patience=limits.slow_consumer_timeout, source=description)
        process = ServerProcess(tree, stderr, description, limits.terminate_timeout)
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(process._watch)  # noqa: SLF001  # this is its owner
            try:
                yield process
            finally:
                await process.aclose()


async def _start(params: StdioServerParameters) -> ProcessTree:
    try:
        return await ProcessTree.start(params.command, params.args, env=params.environment(), cwd=params.cwd)
    except OSError as error:
        cause = error.strerror or str(error)
        if params.cwd is not None and error.filename == params.cwd:
            cause = f"its directory {str(params.cwd)!r} cannot be used: {cause}"
        elif isinstance(error, FileNotFoundError):
            cause = "command not found"
        raise ConnectionLost(f"could not start the stdio server {params.command!r}: {cause}") from error
