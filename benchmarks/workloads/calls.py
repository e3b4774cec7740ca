"""Requests and answers."""

from __future__ import annotations

from typing import Final

from trio_mcp._bench._plan import Side, Workload

__all__ = ["CALLS"]

STREAMS: Final = ("stdio", "tcp", "unix", "websocket")
EVERYWHERE: Final = (*STREAMS, "http", "sse", "memory")
ALL: Final[tuple[Side, ...]] = ("server", "client", "both")
MIB: Final = 1 << 20

CALLS: Final = (
    *(
        Workload(
            name=f"echo-{in_flight}",
            title=f"echo, {in_flight} in flight" if in_flight > 1 else "echo, one at a time",
            options={"what": "echo", "size": 100, "in_flight": in_flight},
            transports=EVERYWHERE,
            is_minor=in_flight in (16, 256),
            sides=ALL if in_flight in (1, 64) else ("server",),
        )
        for in_flight in (1, 16, 64, 256)
    ),
    Workload(
        name="sse-64",
        title="echo with one progress report, 64 in flight",
        options={"what": "report", "size": 100, "in_flight": 64},
    ),
    Workload(
        name="echo-10k",
        is_minor=True,
        title="echo of 10 KiB, 16 in flight",
        options={"what": "echo", "size": 10_240, "in_flight": 16},
    ),
    Workload(
        name="result-1m",
        title="results of 1 MiB, 4 in flight",
        unit="MB/s",
        options={"what": "blob", "size": MIB, "in_flight": 4, "scale": 1e-6},
        sides=("server", "client"),
    ),
    Workload(
        name="result-1mb",
        title="a result of 1 MB, one at a time",
        unit="µs",
        more_is_better=False,
        options={"what": "blob", "size": 1_000_000, "in_flight": 1, "each": True},
    ),
    Workload(
        name="argument-1m",
        title="arguments of 1 MiB, 4 in flight",
        unit="MB/s",
        options={"what": "swallow", "size": MIB, "in_flight": 4, "scale": 1e-6},
        sides=("server", "client"),
    ),
    Workload(
        name="tools-50",
        title="tools/list of 50",
        options={"what": "tools", "count": 50, "in_flight": 1},
        sides=("server", "client"),
    ),
    Workload(
        name="read-text",
        is_minor=True,
        title="resources/read, 10 KiB of text, 16 in flight",
        options={"what": "text", "size": 10_240, "in_flight": 16},
    ),
    Workload(
        name="read-binary",
        is_minor=True,
        title="resources/read, 10 KiB of bytes, 16 in flight",
        options={"what": "binary", "size": 10_240, "in_flight": 16},
    ),
    Workload(
        name="prompt",
        title="prompts/get, 16 in flight",
        options={"what": "prompt", "in_flight": 16},
        is_minor=True,
    ),
)
