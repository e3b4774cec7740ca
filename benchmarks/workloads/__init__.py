"""All workloads. A new one is one entry in one of these modules."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from benchmarks.peers.contender import REVISIONS
from benchmarks.workloads.answering import ASKS, CANCELS, FANOUTS, GIVEN_UP, SESSIONS
from benchmarks.workloads.calls import CALLS
from benchmarks.workloads.floods import FLOODS
from benchmarks.workloads.processes import CODECS, PROCESSES
from trio_mcp._bench._plan import Cell, Stage, Workload

__all__ = ["CELLS", "STAGES", "WORKLOADS", "find_cells"]

WORKLOADS: Final[tuple[Workload, ...]] = (
    *CALLS,
    *FLOODS,
    *ASKS,
    *CANCELS,
    GIVEN_UP,
    *FANOUTS,
    *SESSIONS,
    *PROCESSES,
    *CODECS,
)
STAGES: Final = (
    Stage(side="process", transport="stdio", era="legacy"),
    Stage(side="process", transport="http", era="legacy", is_minor=True),
    Stage(side="process", transport="http", era="modern", is_minor=True),
    *(Stage(side="codec", transport="none", era=revision) for revision in sorted(REVISIONS)),
    Stage(side="server", transport="stdio", era="legacy"),
    Stage(side="server", transport="stdio", era="modern"),
    Stage(side="server", transport="http", era="modern"),
    Stage(side="server", transport="http", era="legacy", is_minor=True),
    Stage(side="server", transport="sse", era="legacy", is_minor=True),
    Stage(side="server", transport="unix", era="modern", is_minor=True),
    Stage(side="server", transport="tcp", era="modern", is_minor=True),
    Stage(side="server", transport="websocket", era="modern", is_minor=True),
    Stage(side="client", transport="stdio", era="legacy"),
    Stage(side="client", transport="stdio", era="modern"),
    Stage(side="client", transport="http", era="legacy"),
    Stage(side="client", transport="http", era="modern"),
    Stage(side="both", transport="memory", era="legacy"),
    Stage(side="both", transport="memory", era="modern"),
    Stage(side="both", transport="stdio", era="modern"),
    Stage(side="both", transport="http", era="modern"),
)
CELLS: Final = tuple(
    Cell(stage=stage, workload=workload) for stage in STAGES for workload in WORKLOADS if workload.is_in(stage)
)


def find_cells(patterns: Iterable[str]) -> tuple[Cell, ...]:
    """Return the cells whose names match one of the patterns, or have it as a part; all if there is none.

    Raises:
        ValueError: A pattern fits nothing.
    """
    wanted = tuple(patterns)
    for pattern in wanted:
        if not any(_fits(cell.name, pattern) for cell in CELLS):
            raise ValueError(f"{pattern!r} fits no cell; `python -m benchmarks list` shows all")
    return tuple(cell for cell in CELLS if not wanted or any(_fits(cell.name, pattern) for pattern in wanted))


def _fits(name: str, pattern: str) -> bool:
    # Whole words: `echo` is all echoes, `echo-1` is not `echo-16`.
    return re.search(rf"(^|/){re.escape(pattern)}($|[/-])", name) is not None or fnmatchcase(name, pattern)
