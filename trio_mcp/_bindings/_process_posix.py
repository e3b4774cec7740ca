"""A server process and its descendants on POSIX: one process group, in its own session.

Starts, waits, signals. When to do which is decided in `_stdio_client`. A descendant that has left the group
(``setsid``, ``setpgid``) is out of reach.
"""

# A number is a process's until it is reaped, and a group's until its last member is; a signal sent to it after
# that may hit another process. So the leader is not reaped when it exits. It stays a zombie, which keeps its
# number and its group's taken, until `ProcessTree.release`. Its exit is seen through a pidfd on Linux, by a
# thread in `waitid` elsewhere, and its status is read without reaping it. Where that is impossible (macOS before
# Python 3.13) or where other code in this program reaps it (`SIGCHLD` is ignored, say), the group is killed at
# once when the exit is seen, without a checkpoint between, and never signalled again.

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import final

import trio

assert sys.platform != "win32"


@final
class ProcessTree:
    """A running server process, the leader, and its descendants.

    Attributes:
        stdin: The write end of the leader's standard input.
        stdout: The read end of its standard output.
        stderr: The read end of its standard error.
        pid: The leader's process number, which is the group's too.
    """

    def __init__(self, leader: trio.Process) -> None:
        assert leader.stdin is not None
        assert leader.stdout is not None
        assert leader.stderr is not None
        self.stdin = leader.stdin
        self.stdout = leader.stdout
        self.stderr = leader.stderr
        self.pid = leader.pid
        self._leader = leader
        self._pidfd = _open_pidfd(leader.pid)
        self._number_is_ours = True

    @classmethod
    async def start(
        cls, command: str, args: tuple[str, ...], *, env: dict[str, str], cwd: str | os.PathLike[str] | None
    ) -> ProcessTree:
        """Start a process. If this is cancelled, none was started.

        Raises:
            OSError: It could not be started.
        """
        return cls(
            await trio.lowlevel.open_process(
                [command, *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        )

    async def wait_exit(self) -> int:
        """Wait until the leader has exited. For one task at a time.

        Returns:
            Its exit status. Negative: the signal that killed it. 0 if other code has reaped it.
        """
        try:
            if self._pidfd is not None:
                await trio.lowlevel.wait_readable(self._pidfd)
            else:
                # If this is cancelled the thread is abandoned until the leader exits, and does no harm.
                await trio.to_thread.run_sync(
                    _wait_unreaped, self.pid, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1)
                )
            return _wait_unreaped(self.pid)
        except ChildProcessError:
            status = await self._leader.wait()
            # No checkpoint since it was reaped, so its number cannot be another process's yet.
            self.kill()
            self._number_is_ours = False
            return status

    def ask_to_exit(self) -> bool:
        """Ask every process of the group to exit.

        Returns:
            Whether there is a way to ask. On POSIX there is.
        """
        self._signal(signal.SIGTERM)
        # A stopped process gets SIGTERM only when it continues.
        self._signal(signal.SIGCONT)
        return True

    def kill(self) -> None:
        """Kill every process of the group."""
        self._signal(signal.SIGKILL)

    def release(self) -> int | None:
        """Reap the leader if it has exited, and release its number: nothing is signalled after this.

        Returns:
            Its exit status as `wait_exit` has it, or `None` if it is still running.
        """
        self._number_is_ours = False
        if self._pidfd is not None:
            trio.lowlevel.notify_closing(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        return self._leader.poll()

    def _signal(self, number: signal.Signals) -> None:
        if self._number_is_ours:
            # No process is left, or only another user's, or, on macOS, only zombies.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def _open_pidfd(pid: int) -> int | None:
    if sys.platform == "linux":
        # Not every kernel, sandbox and build of Python has it.
        with suppress(AttributeError, OSError):
            return os.pidfd_open(pid)
    return None


if sys.platform != "darwin" or sys.version_info >= (3, 13):

    def _wait_unreaped(pid: int) -> int:
        """Block until a child has exited, and return its status without reaping it."""
        result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert result is not None  # it is `None` only with WNOHANG
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

else:

    def _wait_unreaped(pid: int) -> int:
        raise ChildProcessError(f"process {pid} cannot be waited for without reaping it")
