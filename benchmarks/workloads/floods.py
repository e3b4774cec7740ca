"""Very many notifications."""

from __future__ import annotations

from typing import Final

from trio_mcp._bench._plan import Workload

__all__ = ["FLOODS"]

FLOODS: Final = (
    Workload(
        name="progress",
        title="progress flood",
        unit="notifications/s",
        kind="flood",
        options={"tool": "flood", "count": 1_000},
        sides=("server", "client", "both"),
        transports=("stdio", "http", "memory"),
    ),
    Workload(
        name="log",
        is_minor=True,
        title="flood of log messages",
        unit="notifications/s",
        kind="flood",
        options={"tool": "shout", "count": 1_000},
    ),
)
