"""How many connections this process can have: each takes a descriptor, and so does every file that is open."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from ._places import MAX_WAITING

if sys.platform != "win32":
    import resource

__all__ = ["most_connections"]

LEAST_RESERVE: Final = 32
RESERVED_PART: Final = 8
"""At least so many descriptors, and one in so many, are left to what handlers open."""


def most_connections(wanted: int) -> int:
    """Return how many connections there may be, if so many are wanted: as many as there can be, and at least one.

    The limit of the process is left as it is: whoever runs it has set it.
    """
    if sys.platform == "win32":
        return wanted
    else:  # noqa: RET505 - type checkers look at one branch for each platform
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit == resource.RLIM_INFINITY:
            return wanted
        reserve = max(LEAST_RESERVE, limit // RESERVED_PART)
        # Those that wait for a place have one as well.
        return max(1, min(wanted, limit - _open_descriptors() - reserve - MAX_WAITING))


def _open_descriptors() -> int:
    try:
        return sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:
        return LEAST_RESERVE  # nobody says
