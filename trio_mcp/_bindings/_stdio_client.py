"""The client's end of stdio: what to start, its standard error, its process, and its streams as a channel.

What differs between operating systems, and nothing else, is in `_process_posix` and `_process_windows`.

Spec: 2026-07-28, basic/transports/stdio.
"""

from __future__ import annotations

import codecs
import inspect
import io
import logging
import os
import re
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias, final, runtime_checkable

import attrs
import trio

from .._channel import Outgoing, Received
from .._core._framing import OversizedLine
from .._core._reconnect import RestartPolicy, as_policy
from .._errors import ConnectionLost, RemoteProtocolError
from .._limits import Limits, check_kind, valid_kind
from .._logs import Log
from .._printable import excerpt, printable, shown, shown_command, shown_name, shown_process
from .._trio import open_hidden_nursery, unread_bytes
from ._stream import StreamChannel

if sys.platform == "win32":
    from ._process_windows import ProcessTree
else:
    from ._process_posix import ProcessTree

_log: Final = Log("trio_mcp.stdio")


@runtime_checkable
class SupportsWrite(Protocol):
    """A text or binary file, or any object with a `write` like theirs."""

    def write(self, data: Any, /) -> object:
        """Write text or bytes."""
        ...


StderrSink: TypeAlias = SupportsWrite | str | os.PathLike[str] | Callable[[str], object] | logging.Logger | None
"""Where a server's standard error goes.

A file or a path (appended to) gets the text as it comes, a callable is called in Trio's thread with each line,
a logger gets each line at level INFO, made printable, and `None` is this program's standard error, looked up when
the process starts.
"""


def check_sink(sink: object) -> None:
    """Check that an object can be a `StderrSink`.

    Raises:
        TypeError: It is of none of these kinds, or its function is asynchronous.
    """
    if sink is None or isinstance(sink, (str, os.PathLike, logging.Logger)):
        return
    called = getattr(sink, "write", sink)
    if not callable(called):
        raise TypeError(
            f"stderr must be a file, a path, a callable, a logging.Logger or None, not {type(sink).__name__}"
        )
    if inspect.iscoroutinefunction(called):
        raise TypeError("stderr must not be an async function; use a plain function or `write` method")


if sys.platform == "win32":
    _INHERITED: Final = frozenset(
        {
            "APPDATA",
            "COMSPEC",
            "HOMEDRIVE",
            "HOMEPATH",
            "LOCALAPPDATA",
            "NUMBER_OF_PROCESSORS",
            "OS",
            "PATH",
            "PATHEXT",
            "PROCESSOR_ARCHITECTURE",
            "PROGRAMDATA",
            "PROGRAMFILES",
            "PROGRAMFILES(X86)",
            "SYSTEMDRIVE",
            "SYSTEMROOT",
            "TEMP",
            "TMP",
            "USERNAME",
            "USERPROFILE",
            "WINDIR",
        }
    )
else:
    _INHERITED: Final = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})


def _is_inherited(name: str, value: str) -> bool:
    # A value that starts with "()" is a function some shell exported: code, not a setting.
    return (name in _INHERITED or name.startswith("LC_")) and not value.startswith("()")


def _variables(env: Mapping[str, str] | None) -> Mapping[str, str]:
    check_kind("env", env, Mapping | None)
    return MappingProxyType(dict(env or {}))


def _names_only(env: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{name!r}: ...' for name in env)}}}"


def _arguments(args: Sequence[str]) -> tuple[str, ...]:
    if isinstance(args, (str, bytes)):
        raise TypeError("args must be a sequence of strings, not one string")
    check_kind("args", args, Sequence)
    return tuple(args)


def _check_text(name: str, value: object) -> None:
    # The value is not shown: arguments and environments hold passwords, keys and tokens.
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError(f"{name} must not contain a NUL character")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ValueError(f"{name} has characters that cannot be passed to a process") from None


@final
@attrs.frozen
class StdioServerParameters:
    """A server that is started as a child process, with its standard streams as the transport.

    The process is started directly, without a shell. It does not get this program's whole environment, which may
    hold secrets, but only `env` and a few variables that programs need to work at all: on POSIX
    ``HOME``, ``LANG``, ``LC_*``, ``LOGNAME``, ``PATH``, ``SHELL``, ``TERM``, ``TMPDIR``, ``TZ`` and ``USER``; on
    Windows those that say where the system, its programs and the user's files are.

    Args:
        command: The program, looked up in the ``PATH`` the process will have. On Windows also ``.cmd`` and
            ``.bat`` files such as ``npx``.
        args: Its arguments.
        env: Variables set in its environment, over those that are inherited. Their values are not shown by
            ``repr``.
        inherit_env: Whether the process inherits this program's whole environment.
        cwd: The directory it starts in; this program's if `None`.
        stderr: Where its standard error goes: a file, a path that is appended to, a callable that gets each
            line, a `logging.Logger` that gets each line at level INFO, made printable, or `None` for this
            program's standard error, where its escape sequences work as if it had been started in a shell. For
            several servers, a logger for each says whose line it is.
        restart: When a server that died is started again: never, or by a policy, or ``True`` for the policy with
            its defaults. Requests that it had not answered fail; later ones wait until it is started. In
            `open_clients` they fail at once (`ServerUnavailable`) until the server is ready again, so that one
            broken server does not hold up a program that has others; `ClientGroup.wait_ready` waits.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: The command is empty, or a value has characters that cannot be passed to a process.

    Spec: 2026-07-28, basic/transports/stdio.
    """

    command: str
    args: tuple[str, ...] = attrs.field(default=(), converter=_arguments)
    # A mapping has no hash.
    env: Mapping[str, str] = attrs.field(
        default=None, kw_only=True, converter=_variables, repr=_names_only, hash=False
    )
    inherit_env: bool = attrs.field(default=False, kw_only=True, validator=valid_kind)
    cwd: str | os.PathLike[str] | None = attrs.field(default=None, kw_only=True)
    stderr: StderrSink = attrs.field(default=None, kw_only=True)
    restart: RestartPolicy | None = attrs.field(default=None, kw_only=True, converter=as_policy)

    def __attrs_post_init__(self) -> None:
        _check_text("command", self.command)
        if not self.command:
            raise ValueError("command must not be empty")
        for index, argument in enumerate(self.args):
            _check_text(f"args[{index}]", argument)
        for name, text in self.env.items():
            _check_text("a name in env", name)
            if not name or "=" in name:
                raise ValueError(f"a name in env must not be empty or contain '=', as {shown_name(name)!r} does")
            _check_text(f"env[{name!r}]", text)
        if self.cwd is not None:
            _check_text("cwd", os.fspath(self.cwd) if isinstance(self.cwd, os.PathLike) else self.cwd)
        check_sink(self.stderr)

    def environment(self) -> dict[str, str]:
        """Return the environment the process gets, as this program's is now."""
        environment = {
            name: value for name, value in os.environ.items() if self.inherit_env or _is_inherited(name, value)
        }
        for name, value in self.env.items():
            # To Windows `Path` and `PATH` are the same, and os.environ has capitals only.
            environment[name.upper() if sys.platform == "win32" else name] = value
        return environment


MAX_PIECE: Final = 64 * 1024
"""The longest piece of a line that is held back until its end, in characters."""

KEPT_LINES: Final = 20
"""How many of the last lines are kept for errors: a short traceback."""

KEPT_LINE_LENGTH: Final = 1_000
"""How much of each of them is kept, in characters."""


@final
class TextPieces:
    r"""Cuts a stream of bytes into lines of text, and lines that do not end into pieces of `MAX_PIECE`.

    A piece that ends its line ends in ``"\n"``, also where ``"\r\n"`` was written; others do not. Bytes that are
    not UTF-8 become replacement characters.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""  # a line without an end, no longer than `MAX_PIECE`

    def feed(self, data: bytes | bytearray, *, is_last: bool = False) -> list[str]:
        """Take the next bytes and return the pieces that are complete now."""
        *ended, begun = (self._begun + self._decoder.decode(data, is_last)).split("\n")
        pieces: list[str] = []
        for line in ended:
            *full, rest = _cut(line)
            pieces += [*full, rest.removesuffix("\r") + "\n"]
        *full, self._begun = _cut(begun)
        return pieces + full

    def finish(self) -> list[str]:
        """Return the last piece, if the stream ended without a newline after it."""
        pieces = self.feed(b"", is_last=True)
        return [*pieces, self._begun] if self._begun else pieces


def _cut(line: str) -> list[str]:
    return [line[at : at + MAX_PIECE] for at in range(0, len(line), MAX_PIECE)] or [""]


@final
@attrs.frozen
class Sink:
    """A sink that is open.

    Attributes:
        take: Takes the next pieces of text.
        may_block: Whether it must be called in a thread: a file may be a pipe without a reader.
        is_ours: Whether it is this program's standard error.
    """

    take: Callable[[Sequence[str]], object]
    may_block: bool = False
    is_ours: bool = False


@asynccontextmanager
async def open_sink(sink: StderrSink) -> AsyncGenerator[Sink]:
    """Open a sink. Leaving closes the file of a path, and nothing that the user has opened.

    Entering is a checkpoint.

    Raises:
        ConnectionLost: The path could not be opened for appending.
    """
    await trio.lowlevel.checkpoint()
    if isinstance(sink, logging.Logger):
        yield Sink(_calling(lambda line: sink.info("%s", printable(line, MAX_PIECE))))
    elif sink is None and sys.stderr is None:
        yield Sink(lambda _pieces: None)  # a program without a console has no standard error
    elif sink is None or isinstance(sink, SupportsWrite):
        yield Sink(_writing_to(sys.stderr if sink is None else sink), may_block=True, is_ours=sink is None)
    elif callable(sink):
        yield Sink(_calling(sink))
    else:
        try:
            # Opening a named pipe waits for its reader; a thread that is abandoned there does no harm. Closing a
            # file without a buffer never waits for a write that is stuck in another thread.
            opening = partial(Path(sink).open, "ab", buffering=0)
            file = await trio.to_thread.run_sync(opening, abandon_on_cancel=True)
        except OSError as error:
            reason = f"could not open {os.fspath(sink)!r} for a stdio server's standard error: {error.strerror}"
            raise ConnectionLost(reason) from error
        with file:
            yield Sink(_writing_to(file), may_block=True)


def _writing_to(file: Any) -> Callable[[Sequence[str]], None]:
    write: Callable[[Any], int | None] = file.write
    mode = getattr(file, "mode", None)
    is_raw = isinstance(file, io.RawIOBase)
    is_binary = is_raw or isinstance(file, io.BufferedIOBase) or (isinstance(mode, str) and "b" in mode)

    def take(pieces: Sequence[str]) -> None:
        text = "".join(pieces)
        rest = text.encode() if is_binary else text
        while rest:
            written = write(rest)
            # Only an unbuffered file may take less than it is given, and returns how much.
            rest = rest[written:] if is_raw and written is not None else ""
        if hasattr(file, "flush"):
            file.flush()

    return take


def _calling(callback: Callable[[str], object]) -> Callable[[Sequence[str]], None]:
    def take(pieces: Sequence[str]) -> None:
        for piece in pieces:
            callback(piece.removesuffix("\n"))

    return take


@final
class StderrReader:
    """Reads a process's standard error until its end, even if the sink fails or is stuck.

    A sink that raises is logged once and not used again. A sink that is stuck holds up reading once, for
    `patience` seconds. From then on what it cannot take at once is dropped and counted, until it takes something
    again. What is written there need not be an error (2026-07-28, basic/transports/stdio), so it fails nothing.

    Args:
        stream: The read end of the pipe; `run` closes it.
        sink: Where the text goes.
        patience: How long a stuck sink may hold up reading, in seconds.
        source: The process, for the log.

    Attributes:
        at_end: Set once everything was read: no process is left that could write to it.
        delivered: Set once the sink has had everything it will get.
        received_bytes: How much was read.
        dropped_pieces: How many lines, or pieces of lines, a stuck sink did not get.
    """

    def __init__(self, stream: trio.abc.ReceiveStream, sink: Sink, *, patience: float, source: str) -> None:
        self.at_end = trio.Event()
        self.delivered = trio.Event()
        self.received_bytes = 0
        self.dropped_pieces = 0
        self._stream = stream
        self._sink = sink
        self._patience = patience
        self._source = source
        self._pieces = TextPieces()
        self._tail: deque[str] = deque(maxlen=KEPT_LINES)
        self._at_line_start = True
        self._sink_is_stuck = False
        # One thread at a time, and never one from the program's limiter.
        self._threads = trio.CapacityLimiter(1)
        self._send, self._receive = trio.open_memory_channel[list[str]](0)

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines, oldest first, each cut at `KEPT_LINE_LENGTH`."""
        return tuple(self._tail)

    @property
    def is_shown(self) -> bool:
        """Whether all of it went to this program's standard error."""
        return self._sink.is_ours and not self.dropped_pieces

    async def run(self) -> None:
        """Read until the end of the pipe, then close it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._feed_sink)
            await self._read()

    async def _read(self) -> None:
        async with self._stream, self._send:
            try:
                async for chunk in self._stream:
                    self.received_bytes += len(chunk)
                    await self._take(self._pieces.feed(chunk))
            except trio.BrokenResourceError:
                _log.debug("reading the standard error of %s failed", self._source, exc_info=True)
            await self._take(self._pieces.finish())
            self.at_end.set()

    async def _take(self, pieces: list[str]) -> None:
        for piece in pieces:
            if self._at_line_start:
                self._tail.append(piece[:KEPT_LINE_LENGTH].removesuffix("\n"))
            self._at_line_start = piece.endswith("\n")
        await trio.lowlevel.checkpoint()
        if not pieces:
            return
        try:
            if self._sink_is_stuck:
                self._send.send_nowait(pieces)
                self._sink_is_stuck = False
            else:
                with trio.fail_after(self._patience):
                    await self._send.send(pieces)
        except (trio.TooSlowError, trio.WouldBlock):
            if not self.dropped_pieces:
                _log.warning("the sink for the standard error of %s is stuck; lines are dropped", self._source)
            self._sink_is_stuck = True
            self.dropped_pieces += len(pieces)
        except trio.BrokenResourceError:
            pass  # the sink raised, which was logged

    async def _feed_sink(self) -> None:
        async with self._receive:
            try:
                async for pieces in self._receive:
                    if self._sink.may_block:
                        # A thread that is stuck in a write is abandoned: it holds only the file.
                        await trio.to_thread.run_sync(
                            self._sink.take, pieces, abandon_on_cancel=True, limiter=self._threads
                        )
                    else:
                        self._sink.take(pieces)
            except Exception:  # the boundary to the user's sink: an error in it costs the server nothing
                _log.exception("the sink for the standard error of %s raised and is not used again", self._source)
        self.delivered.set()


# How a server ends (2026-07-28, basic/transports/stdio, "Shutdown"): its input is closed, which asks it to exit.
# If it still runs after `terminate_timeout`, or has left descendants, they get SIGTERM and as much time again.
# Last, the whole group is killed in every case. No step waits for ever, even if a process cannot be killed.

LAST_WORDS_SECONDS: Final = 0.25
"""How long the standard error of a process that has exited is read if a descendant keeps it open."""

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
        stdin: The server's standard input, to send to.
        stdout: The server's standard output, to receive from.
        description: Command and process number, for errors and logs.
        pid: Its process number.
        exit_status: Its exit status, negative for a signal; `None` while it is running.
        on_exit: Called when it has exited and its standard error was read. Set it before the first checkpoint.
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
        # Shielded: its last lines are read also while the program is being cancelled.
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
        """Wait until the process has exited and its standard error was read.

        Does not wait for descendants that it has left.

        Returns:
            Its exit status, negative for a signal.

        Raises:
            ConnectionLost: It could not be killed, and is not watched any more.
        """
        await self._exited.wait()
        if self.exit_status is None:
            raise self.connection_lost()
        return self.exit_status

    def connection_lost(self) -> ConnectionLost:
        """Return the error for requests it did not answer: how it ended, and the end of its standard error."""
        return ConnectionLost(
            f"{self.description} {_fate(self.exit_status)}",
            exit_status=self.exit_status,
            stderr=self.stderr_tail,
            is_stderr_shown=self._stderr.is_shown,
        )

    async def aclose(self) -> None:
        """End the process and its descendants, and release what belongs to it.

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
                # A descendant may keep it open.
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
            # The end of its standard error is the best sign that no descendant is left.
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
            _log.error("%s could not be killed and still runs", self.description)


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
async def open_process(
    parameters: StdioServerParameters, limits: Limits, *, name: str | None = None
) -> AsyncGenerator[ServerProcess]:
    """Start a server process, and end it and its descendants when the block is left.

    The block goes on if the process exits. What the block raises comes out as itself. Both ends are checkpoints;
    see `ServerProcess.aclose` for how long leaving takes, which no cancellation shortens.

    Args:
        parameters: What to start.
        limits: `Limits.terminate_timeout` is for ending the process, `Limits.slow_consumer_timeout` is how long a
            stuck sink may hold up reading its standard error.
        name: What errors and logs call it. By default what may be shown of the command.

    Raises:
        ConnectionLost: It could not be started. The message has the cause.

    Spec: 2026-07-28, basic/transports/stdio.
    """
    async with open_sink(parameters.stderr) as sink:
        tree = await _start(parameters)
        name = name or shown_process(parameters.command, parameters.args)
        description = f"stdio server {name!r} (pid {tree.pid})"
        stderr = StderrReader(tree.stderr, sink, patience=limits.slow_consumer_timeout, source=description)
        process = ServerProcess(tree, stderr, description, limits.terminate_timeout)
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(process._watch)
            try:
                yield process
            finally:
                await process.aclose()


async def _start(parameters: StdioServerParameters) -> ProcessTree:
    try:
        return await ProcessTree.start(
            parameters.command, parameters.args, env=parameters.environment(), cwd=parameters.cwd
        )
    except OSError as error:
        command, cause = shown_command(parameters.command), error.strerror or str(error)
        if parameters.cwd is not None and error.filename == parameters.cwd:
            cause = f"its directory {shown(os.fspath(parameters.cwd))} cannot be used: {cause}"
        elif isinstance(error, FileNotFoundError):
            interpreter = _interpreter_of(parameters)
            cause = "command not found" if interpreter is None else f"its interpreter {interpreter} is not there"
            if interpreter is None and not parameters.args and " " in parameters.command:
                program, *arguments = command.split()
                cause += f"; did you mean StdioServerParameters({program!r}, {arguments})?"
        raise ConnectionLost(f"could not start the stdio server {command!r}: {cause}") from error


def _interpreter_of(parameters: StdioServerParameters) -> str | None:
    r"""Return what the first line of a script names. If that is missing, the system says that the script is.

    Often that is ``'/bin/sh\r'``, of a file with the ends of lines of Windows.
    """
    path = parameters.command
    if "/" in path and parameters.cwd is not None:
        path = str(Path(parameters.cwd) / path)
    found = shutil.which(path, path=parameters.environment().get("PATH"))
    if found is None:
        return None
    try:
        with Path(found).open("rb") as file:
            line = file.readline(256)
    except OSError:
        return None
    return repr(line[2:].strip(b" \n").decode("utf-8", "replace")) if line.startswith(b"#!") else None


_LISTENING: Final = re.compile(r"\bhttps?://(?:localhost|127\.|0\.0\.0\.0|\[::)")
"""What a server logs that listens at a port of this machine, in place of its standard input."""

FATE_SECONDS: Final = 1.0
"""How long a server that has closed its output may take to exit, so that errors can say how it ended."""


@final
class StdioServerChannel(StreamChannel):
    """The channel to a server process. Made by `open_stdio_server`.

    The connection ends with the process: with `ConnectionLost`, which has the exit status and the last lines of
    standard error. A descendant that keeps the pipe open does not delay that, unless it goes on writing.
    """

    transport = "stdio"

    def __init__(self, process: ServerProcess, limits: Limits) -> None:
        super().__init__(
            process.stdout,
            process.stdin,
            max_message_bytes=limits.max_message_bytes,
            description=process.description,
        )
        self._process = process
        self._has_exited = False
        self._has_sent = False
        self._has_written = False
        self._printed: str | None = None  # the first line of its output that was no message
        self._receiving = trio.CancelScope()
        process.on_exit = self._exited

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        try:
            if not self._has_exited:
                with trio.CancelScope() as self._receiving:
                    return await super().receive()
            with trio.move_on_after(FATE_SECONDS):
                return await super().receive()
        except (trio.EndOfChannel, ConnectionLost) as error:
            lost = await self._fate("closed its output")  # noqa: ASYNC120 - a cancellation wins
            raise lost from self._unread(lost) or error
        lost = self._lost()
        raise lost from self._unread(lost)

    def explain_unusable(self, data: bytes, problem: str) -> str:
        """Return what to log about a line of standard output that is no message; see `Channel`."""
        del problem  # the line shows it
        line = excerpt(data)
        self._printed = self._printed or line
        return (
            f"{self.description} printed to standard output, where only messages may be: {line}; "
            "let it print to standard error"
        )

    def explain_silence(self) -> str:
        """Return what a server that has written nothing may be instead; see `Channel`."""
        if self._has_written:
            return ""
        listening = next((line for line in reversed(self._process.stderr_tail) if _LISTENING.search(line)), None)
        quoted = "" if listening is None else f" Its standard error says: {excerpt(listening.encode())}"
        return f"it has written nothing to standard output (does it serve stdio?{quoted}); "

    def _lost(self, deed: str | None = None) -> ConnectionLost:
        """Return the error for requests it did not answer.

        Args:
            deed: What it has done, if it has not exited.
        """
        lost = self._process.connection_lost()
        printed = (
            ""
            if self._printed is None
            else f"; it had printed to standard output, where only messages may be: {self._printed}"
        )
        reason = lost.reason if deed is None else f"{self.description} {deed} and has not exited"
        return ConnectionLost(
            reason + printed,
            exit_status=lost.exit_status,
            stderr=lost.stderr,
            is_stderr_shown=lost.is_stderr_shown,
        )

    def _unread(self, lost: ConnectionLost) -> RemoteProtocolError | None:
        """Return an error if the process has ended without having read or written anything.

        Then it has not exited because of what was asked, and would do so in any era.
        """
        has_read = self._has_sent and not unread_bytes(self._process.stdin)
        if lost.exit_status is None or self._has_written or has_read:
            return None
        return RemoteProtocolError(f"{self.description} has ended before it read a message")

    def _received(self, lines: Sequence[bytes | OversizedLine]) -> Sequence[Received]:
        self._has_written = self._has_written or not self._at_end
        return super()._received(lines)

    def _exited(self) -> None:
        """Note that the process has exited: what is in the pipe is still received, and nothing is waited for."""
        self._has_exited = True
        self._receiving.cancel(reason="the process has exited")

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Write messages; see `Channel.send`. Cancelled, it may have written half of one."""
        try:
            await super().send(messages)
            self._has_sent = True
        except ConnectionLost as error:
            lost = await self._fate("closed its input")  # noqa: ASYNC120 - likewise
            raise lost from self._unread(lost) or error

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Write messages, as far as the pipe takes them now; see `Channel.send_nowait`."""
        try:
            is_sent = super().send_nowait(messages)
            self._has_sent = True
        except ConnectionLost:
            raise trio.WouldBlock from None  # `send` fails as well, and can wait for the exit status
        return is_sent

    async def _fate(self, deed: str) -> ConnectionLost:
        """Return the error for a closed stream: how the process ended, after a short wait for that."""
        with trio.move_on_after(FATE_SECONDS):
            await self._process.wait_exit()
        return self._lost(deed if self._process.exit_status is None else None)


@asynccontextmanager
async def open_stdio_server(
    parameters: StdioServerParameters, limits: Limits, *, name: str | None = None
) -> AsyncGenerator[StdioServerChannel]:
    """Start a server process, and end it and its descendants on leaving.

    Args:
        parameters: What to start.
        limits: `Limits.max_message_bytes` bounds a line, `Limits.terminate_timeout` each step of the end.
        name: As for `open_process`.

    Raises:
        ConnectionLost: It could not be started.
    """
    async with open_process(parameters, limits, name=name) as process:
        yield StdioServerChannel(process, limits)
