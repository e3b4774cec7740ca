"""The files and sockets that this process has open, told from what others in it open and close meanwhile."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path

__all__ = ["open_files"]


def open_files() -> Counter[str]:
    """Return what is open, by the names that the system gives; each pipe and socket has one of its own. On Linux.

    What is left of a later one when an earlier one is taken from it was opened in between. Where another test's
    connections end meanwhile, or garbage is collected, there are fewer than before, and numbers are used again.
    """
    names = Counter[str]()
    for number in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that is read here, and what others have closed
            names[os.readlink(number)] += 1
    return names
