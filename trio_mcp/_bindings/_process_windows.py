"""A server process and its descendants on Windows: one job object.

Starts, waits, kills. When to do which is decided in `_stdio_client`.

A job is killed as a whole, by us or when its last handle is closed, so nothing survives this program either. A
process that shares no console with us can only be asked to exit by closing its input (2026-07-28,
basic/transports/stdio, "Shutdown"). What the leader starts before it is put into its job is out of reach.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from ctypes import wintypes
from typing import Final, final

import trio

assert sys.platform == "win32"


# winnt.h, jobapi2.h, processthreadsapi.h
JOB_OBJECT_EXTENDED_LIMIT_INFORMATION: Final = 9
JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE: Final = 0x2000
PROCESS_TERMINATE: Final = 0x0001
PROCESS_SET_QUOTA: Final = 0x0100

KILLED_STATUS: Final = 1
"""The exit status of what is killed. Windows has no signals; `subprocess` uses 1 as well."""


@final
class _BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_ = (
        ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
        ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
        ("LimitFlags", wintypes.DWORD),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", wintypes.DWORD),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", wintypes.DWORD),
        ("SchedulingClass", wintypes.DWORD),
    )


@final
class _IoCounters(ctypes.Structure):
    """IO_COUNTERS."""

    _fields_ = (
        ("ReadOperationCount", ctypes.c_uint64),
        ("WriteOperationCount", ctypes.c_uint64),
        ("OtherOperationCount", ctypes.c_uint64),
        ("ReadTransferCount", ctypes.c_uint64),
        ("WriteTransferCount", ctypes.c_uint64),
        ("OtherTransferCount", ctypes.c_uint64),
    )


@final
class _ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", _IoCounters),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    )


_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
_kernel32.CreateJobObjectW.argtypes = (wintypes.LPVOID, wintypes.LPCWSTR)
_kernel32.CreateJobObjectW.restype = wintypes.HANDLE
_kernel32.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
_kernel32.SetInformationJobObject.restype = wintypes.BOOL
_kernel32.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
_kernel32.AssignProcessToJobObject.restype = wintypes.BOOL
_kernel32.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
_kernel32.TerminateJobObject.restype = wintypes.BOOL
_kernel32.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
_kernel32.OpenProcess.restype = wintypes.HANDLE
_kernel32.CloseHandle.argtypes = (wintypes.HANDLE,)
_kernel32.CloseHandle.restype = wintypes.BOOL


@final
class ProcessTree:
    """A running server process, the leader, and its descendants.

    Attributes:
        stdin: The write end of the leader's standard input.
        stdout: The read end of its standard output.
        stderr: The read end of its standard error.
        pid: The leader's process number.
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
        self._job = _open_job(leader.pid)

    @classmethod
    async def start(
        cls, command: str, args: tuple[str, ...], *, env: dict[str, str], cwd: str | os.PathLike[str] | None
    ) -> ProcessTree:
        """Start a process. If this is cancelled, none was started.

        Raises:
            OSError: It could not be started.
        """
        # CreateProcess itself looks for .exe files only, and in our PATH.
        found = shutil.which(command, path=env.get("PATH"))
        return cls(
            await trio.lowlevel.open_process(
                [found or command, *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=cwd,
                creationflags=subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW,
            )
        )

    async def wait_exit(self) -> int:
        """Wait until the leader has exited. For one task at a time.

        Returns:
            Its exit status.
        """
        return await self._leader.wait()

    def ask_to_exit(self) -> bool:
        """Ask every process of the job to exit.

        Returns:
            Whether there is a way to ask. On Windows there is none.
        """
        return False

    def kill(self) -> None:
        """Kill every process of the job."""
        if self._job is not None:
            _kernel32.TerminateJobObject(self._job, KILLED_STATUS)
        else:
            self._leader.kill()

    def release(self) -> int | None:
        """Close the job, which kills what is still in it: nothing is killed after this.

        Returns:
            The leader's exit status, or `None` if it is still running.
        """
        if self._job is not None:
            _kernel32.CloseHandle(self._job)
            self._job = None
        return self._leader.poll()


def _open_job(pid: int) -> int | None:
    """Put a process into a new job.

    Returns:
        The job's handle, or `None` if Windows refuses: the process has exited, or its job allows no other.
    """
    job: int | None = _kernel32.CreateJobObjectW(None, None)
    if job is None:
        return None
    # The number cannot have gone to another process: the leader's handle is open, in trio.Process.
    process: int | None = _kernel32.OpenProcess(PROCESS_SET_QUOTA | PROCESS_TERMINATE, False, pid)
    try:
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
        if (
            process is not None
            and _kernel32.SetInformationJobObject(
                job, JOB_OBJECT_EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
            )
            and _kernel32.AssignProcessToJobObject(job, process)
        ):
            return job
    finally:
        if process is not None:
            _kernel32.CloseHandle(process)
    _kernel32.CloseHandle(job)
    return None
