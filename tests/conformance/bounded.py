"""Run a program and whatever it starts for so long and no longer: ``python bounded.py SECONDS PROGRAM ARGUMENT…``.

The conformance suite ends only the shell that it starts a client with, and waits for what is left. It also takes a
client that was killed for one that ended well.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

TOO_LATE: Final = 124
"""The exit status of what took too long, as `timeout` of the GNU project has it."""

KILLED: Final = 128
"""What shells add to the number of the signal that ended a program."""


def run_bounded(seconds: float, command: Sequence[str]) -> int:
    """Run a program in a process group of its own, of which nothing is left afterwards.

    Returns:
        Its exit status; more than 128 if a signal ended it, and 124 if it took longer than that.
    """
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            print(f"{command[0]} did not end within {seconds} s", file=sys.stderr)
            status = TOO_LATE
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if status >= 0:
        return status
    print(f"{command[0]} was ended by {signal.Signals(-status).name}", file=sys.stderr)
    return KILLED - status


if __name__ == "__main__":
    sys.exit(run_bounded(float(sys.argv[1]), sys.argv[2:]))
