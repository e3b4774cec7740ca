"""Servers that ask back, are told to stop, and tell of changes."""

from __future__ import annotations

from typing import Final

from trio_mcp._bench._plan import Workload

__all__ = ["ASKS", "CANCELS", "FANOUTS", "GIVEN_UP", "SESSIONS"]

ASKS: Final = (
    Workload(
        name="ask",
        is_minor=True,
        title="calls that ask the user, 16 in flight",
        kind="asks",
        options={"tool": "ask", "in_flight": 16},
        feature="ask",
    ),
    Workload(
        name="sample",
        is_minor=True,
        title="calls that ask the model, 16 in flight",
        kind="asks",
        options={"tool": "sample", "in_flight": 16},
        feature="sample",
    ),
)
CANCELS: Final = tuple(
    Workload(
        name=f"cancel-{in_flight}",
        title=f"given up until the handler's finally, {in_flight} at once",
        unit="ms",
        more_is_better=False,
        kind="cancel",
        options={"in_flight": in_flight},
        is_minor=in_flight > 1,
        feature="cancel",
    )
    for in_flight in (1, 64)
)
GIVEN_UP: Final = Workload(
    name="give-up",
    is_minor=True,
    title="given up until the server knows, while the caller computes for 18 ms",
    unit="ms",
    more_is_better=False,
    kind="give-up",
    sides=("client",),
    feature="give-up",
)
FANOUTS: Final = (
    Workload(
        name="listen-1",
        is_minor=True,
        title="a change told to 1 listener",
        unit="notifications/s",
        kind="listen",
        options={"listeners": 1},
        feature="listen",
    ),
    Workload(
        name="listen-100",
        is_minor=True,
        title="a change told to 100 listeners",
        unit="notifications/s",
        kind="listen",
        options={"listeners": 100},
        transports=("http",),
        feature="listen",
    ),
    Workload(
        name="listen-1000",
        is_minor=True,
        title="a change told to 1,000 listeners",
        unit="notifications/s",
        kind="listen",
        options={"listeners": 1_000},
        transports=("http",),
        eras=("modern",),
        feature="listen",
    ),
)
SESSIONS: Final = (
    Workload(
        name="connect",
        is_minor=True,
        title="connect, agree, leave; one after the other",
        unit="connections/s",
        kind="connect",
        transports=("http", "tcp", "unix"),
        feature="connect",
    ),
    Workload(
        name="burst",
        title="64 connections at once at a busy server, until all are answered",
        unit="ms",
        more_is_better=False,
        kind="burst",
        options={"connections": 64, "busy": 64},
        transports=("http",),
        feature="burst",
    ),
    Workload(
        name="idle",
        title="memory of an idle session (legacy) or listener (modern), in a process of its own",
        unit="KiB",
        more_is_better=False,
        kind="idle",
        options={"sessions": 500, "before": 50},
        transports=("http",),
        sides=("process",),
        feature="idle",
    ),
)
