"""What it costs to start, and to do nothing."""

from __future__ import annotations

from typing import Final

from benchmarks.peers.contender import REVISIONS
from trio_mcp._bench._plan import Workload

__all__ = ["CODECS", "PROCESSES"]

PROCESSES: Final = (
    Workload(
        name="start",
        title="process start to the first answer",
        unit="ms",
        more_is_better=False,
        kind="start",
        options={"wanted": "time"},
        transports=("stdio",),
        eras=("legacy",),
        sides=("process",),
    ),
    Workload(
        name="memory",
        title="resident memory of a stdio server after its first answer",
        unit="MiB",
        more_is_better=False,
        kind="start",
        options={"wanted": "memory"},
        transports=("stdio",),
        eras=("legacy",),
        sides=("process",),
    ),
    Workload(
        name="import",
        title="import of a server and a client",
        unit="ms",
        more_is_better=False,
        kind="import",
        options={"wanted": "time"},
        transports=("stdio",),
        eras=("legacy",),
        sides=("process",),
    ),
    Workload(
        name="modules",
        title="modules that the import loads",
        unit="modules",
        more_is_better=False,
        kind="import",
        options={"wanted": "modules"},
        transports=("stdio",),
        eras=("legacy",),
        sides=("process",),
    ),
)
CODECS: Final = tuple(
    Workload(
        name=name,
        title=title,
        unit="messages/s",
        kind="codec",
        is_minor=True,
        options={"what": name},
        transports=("none",),
        eras=tuple(sorted(REVISIONS)),
        sides=("codec",),
    )
    for name, title in (
        ("read-call", "a call: bytes to typed parameters"),
        ("write-result", "a result: typed to bytes"),
        ("read-tools", "a list of 50 tools: bytes to typed result"),
    )
)
