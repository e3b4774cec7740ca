"""`main`: from the words of the command line to an exit status. Loads nothing of the protocol by itself."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

try:  # argparse takes most of the time until `main` is called
    from ._parser import Exit, Failure, Options, read_command_line
except KeyboardInterrupt:
    raise SystemExit(130) from None  # as `INTERRUPTED` below

INTERRUPTED: Final = 130
"""The exit status after Ctrl+C, as shells expect it: 128 and the number of SIGINT."""

LAST_STANDARD_DESCRIPTOR: Final = 2

CUT_OFF: Final = 141
"""The exit status when nobody reads the output any more, as shells expect it: 128 and the number of SIGPIPE."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status; see `Exit`.

    Args:
        argv: The words after the program's name. Default: those of this process.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _fill_standard_descriptors()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # no character is worth an exception
    try:
        try:
            status = _run(sys.argv[1:] if argv is None else argv)
        except SystemExit as ended:  # of argparse, and of a server that was interrupted
            status = _status_of(ended)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # such as after `| head`
        _point_output_nowhere()
        return CUT_OFF
    except OSError as error:  # of the flush: what a served file has printed
        _point_output_nowhere()
        _complain(f"standard output cannot be written: {error.strerror}")
        return Exit.OUTPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _run(argv: Sequence[str]) -> int:
    try:
        name, options = read_command_line(argv)
        return _command(name, options)(options)
    except Failure as failure:
        from ._layout import marked

        _complain(marked(failure.message))
        return failure.status
    except BrokenPipeError:
        raise
    except Exception:  # the boundary to the shell: this program's own errors, and those of a server that it runs
        import traceback

        traceback.print_exc()
        return Exit.BUG


def _command(name: str, options: Options) -> Callable[[Options], int]:
    """Import what runs a command, and return it."""
    if name == "run" and options.workers is not None:
        from ._working import run_workers

        return run_workers
    if name == "run" and options.reload:
        from ._reloading import run_again_and_again

        return run_again_and_again
    if name == "run":
        from ._serving import run

        return run
    if name == "bridge":
        from ._bridging import bridge

        return bridge
    if name == "bench":
        if sys.platform == "win32":
            raise Failure(Exit.USAGE, "measuring needs Linux or macOS")
        else:
            from ._benching import bench

            return bench
    if name in {"install", "config"}:
        from . import _installing

        return _installing.install if name == "install" else _installing.config
    if name in {"logout", "cimd"}:
        from . import _login

        return _login.log_out if name == "logout" else _login.write_document
    from ._conversation import converse

    return lambda options: converse(name, options)


def _status_of(ended: SystemExit) -> int:
    if ended.code is None:
        return Exit.DONE
    if isinstance(ended.code, int):
        return ended.code
    sys.stderr.write(f"{ended.code}\n")
    return Exit.FAILED


def _fill_standard_descriptors() -> None:
    """Let a standard stream that is missing lead nowhere: else the next file or socket would get its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= LAST_STANDARD_DESCRIPTOR:
        pass
    os.close(descriptor)


def _complain(message: str) -> None:
    """Print why a command has failed to standard error, if there is one."""
    with suppress(OSError):
        if sys.stderr is not None:
            sys.stderr.write(f"trio-mcp: {message}\n")


def _point_output_nowhere() -> None:
    """Let what is still in the buffer go nowhere: the interpreter flushes it when it ends."""
    with suppress(OSError, ValueError):  # there may be no file behind it
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
