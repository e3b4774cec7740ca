"""What is left of a block: tasks, descriptors, child processes, threads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from .._printable import printable
from .._trio import is_cancellation

_IDLE_THREAD: Final = re.compile(r"Trio thread \d+")
"""Threads that Trio keeps for the next call, for ten seconds. While they work they have another name."""

MAX_SHOWN: Final = 200
"""How much of a command line is shown, in characters."""

_DESCRIPTORS: Final = ("/proc/self/fd", "/dev/fd")


@attrs.frozen
class Living:
    """What there is at one time, by something that no other has: each with a name for people."""

    tasks: dict[Any, str]
    descriptors: dict[tuple[int, str], str]
    processes: dict[int, str]
    threads: dict[threading.Thread, str]

    @classmethod
    def now(cls) -> Living:
        """Look at everything."""
        threads = [each for each in threading.enumerate() if _IDLE_THREAD.fullmatch(each.name) is None]
        named = {each: f"a thread: {each.name}" for each in threads}
        return cls(dict(_tasks()), dict(_descriptors()), dict(_processes()), named)

    def since(self, before: Living) -> list[str]:
        """Return the names of what was not there before."""
        kinds: Any = zip(attrs.astuple(self, recurse=False), attrs.astuple(before, recurse=False), strict=True)
        return [name for now, then in kinds for key, name in now.items() if key not in then]

    def check_since(self, before: Living) -> None:
        """Check that nothing has come since.

        Raises:
            AssertionError: Something has.
        """
        left = self.since(before)
        if left:
            raise AssertionError("\n  ".join(["the block has left something behind:", *left]))


@contextmanager
def assert_nothing_left() -> Generator[None]:
    """Check that the block leaves nothing behind: no task, no open descriptor, no child process, no thread.

    Inside a Trio program, or around one (``with assert_nothing_left(): trio.run(main)``). What counts is what is
    there at the end of the block and was not there at its beginning, at once and without a grace: what this
    library opens is gone when its block has been left, and so it should be with what you write. Idle threads that
    Trio keeps for a while are none of it. Tasks of other tests or fixtures that begin meanwhile would be taken
    for left ones.

    If the block raises something, that comes out, with a note of what is left; but in place of a cancellation,
    which nobody would see with its note, comes the `AssertionError`.

    Descriptors are seen on Linux and macOS, child processes on all but Windows.

    Raises:
        AssertionError: Something is left; the text names each: a task and where it waits, a descriptor and what
            it is, a process and its command, a thread.
    """
    before = Living.now()
    try:
        yield
    except BaseException as error:
        if is_cancellation(error):
            Living.now().check_since(before)
        for name in Living.now().since(before):
            error.add_note(f"besides, the block has left {name}")
        raise
    Living.now().check_since(before)


def _tasks() -> Iterator[tuple[Any, str]]:
    if not trio.lowlevel.in_trio_run():
        return
    root = trio.lowlevel.current_root_task()
    ahead = [] if root is None else [root]
    while ahead:
        task = ahead.pop()
        yield task, f"a task: {_described(task)}"
        for nursery in task.child_nurseries:
            ahead += nursery.child_tasks


def _described(task: trio.lowlevel.Task) -> str:
    """Return the name of a task, and the innermost place where it is, outside of Trio."""
    where = ""
    if task is not trio.lowlevel.current_task():
        with suppress(Exception):  # what a coroutine of another kind cannot tell is not worth a failure
            for frame, line in task.iter_await_frames():
                if frame.f_globals.get("__name__", "").partition(".")[0] == "trio":
                    continue  # how it waits says less than who does
                where = f", at {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
    return f"{task.name}{where}"


def _descriptors() -> Iterator[tuple[tuple[int, str], str]]:
    folder = next((Path(path) for path in _DESCRIPTORS if Path(path).is_dir()), None)
    for entry in () if folder is None else list(folder.iterdir()):
        number = int(entry.name)
        try:
            status = os.fstat(number)
        except OSError:
            continue  # that by which the folder was read
        target = ""
        with suppress(OSError):
            target = str(entry.readlink())
        # Numbers are used again; what is behind one tells two of them apart.
        yield (number, f"{status.st_dev}:{status.st_ino}"), f"a descriptor: {number} {target}".rstrip()


def _processes() -> Iterator[tuple[int, str]]:
    if Path("/proc/self/stat").exists():
        for pid in _children_on_linux():
            with suppress(OSError):  # it has gone meanwhile
                yield pid, f"a process: {pid} ({_command_on_linux(pid)})"
    elif sys.platform != "win32":
        with subprocess.Popen(["/bin/ps", "-axo", "pid=,ppid=,comm="], stdout=subprocess.PIPE, text=True) as ps:
            for line in ps.communicate()[0].splitlines():
                pid_text, parent, name = line.split(None, 2)
                if int(parent) == os.getpid() and int(pid_text) != ps.pid:
                    yield int(pid_text), f"a process: {pid_text} ({name})"


def _children_on_linux() -> Iterator[int]:
    lists = list(Path("/proc/self/task").glob("*/children"))
    if lists:  # most kernels have them; looking at all processes takes long where there are many
        for path in lists:
            with suppress(OSError):  # a thread that has ended
                yield from map(int, path.read_text().split())
        return
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if _stat_on_linux(path)[2] == os.getpid():
                yield int(path.parent.name)


def _stat_on_linux(path: Path) -> tuple[str, str, int]:
    """Return the name of a process, its state, and the number of its parent."""
    # The name, in parentheses, may hold anything.
    name, _, rest = path.read_text(errors="replace").rpartition(")")
    state, parent = rest.split()[:2]
    return name.partition("(")[2], state, int(parent)


def _command_on_linux(pid: int) -> str:
    """Return the command line of a process, as far as it is short; its name, and that it has ended, if so."""
    with Path(f"/proc/{pid}/cmdline").open("rb") as file:
        words = file.read(MAX_SHOWN + 1).rstrip(b"\0").decode(errors="replace").replace("\0", " ")
    if not words:
        name, state, _ = _stat_on_linux(Path(f"/proc/{pid}/stat"))
        return f"{name}, which has ended and was not waited for" if state == "Z" else name
    return printable(words, MAX_SHOWN)
