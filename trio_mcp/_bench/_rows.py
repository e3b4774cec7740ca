"""What is measured of any server and of any client: a row each."""

from __future__ import annotations

from typing import Any, Final

from ._plan import Stage, Workload

SERVERS: Final = Stage(side="target", transport="any", era="any")
CLIENTS: Final = Stage(side="target", transport="any", era="client")
MEGABYTE: Final = 1_000_000
LESS_IS_BETTER: Final = frozenset({"s", "ms", "µs", "ms/s", "KiB", "MiB"})
"""Units."""


def _server(
    name: str,
    title: str,
    unit: str,
    kind: str,
    meaning: str,
    *,
    feature: str = "",
    most_rounds: int | None = None,
    **options: Any,
) -> Workload:
    return Workload(
        name=name,
        title=title,
        unit=unit,
        more_is_better=unit not in LESS_IS_BETTER,
        kind=kind,
        meaning=meaning,
        feature=feature,
        most_rounds=most_rounds,
        options=options,
        transports=("any",),
        eras=("any",),
        sides=("target",),
    )


def _client(name: str, title: str, unit: str, mode: str, meaning: str) -> Workload:
    return Workload(
        name=name,
        title=title,
        unit=unit,
        more_is_better=unit not in LESS_IS_BETTER,
        kind="client",
        meaning=meaning,
        options={"mode": mode, "wanted": name},
        transports=("any",),
        eras=("client",),
        sides=("target",),
    )


ROWS: Final = (
    _server(
        "start",
        "start to the first answer",
        "ms",
        "start",
        "from the start of the process until its first call is answered, the handshake included",
        feature="command",
    ),
    _server(
        "memory",
        "memory after the first answers",
        "MiB",
        "memory",
        "resident memory of the process and all its children",
        feature="process",
    ),
    _server("call-1", "calls, one at a time", "calls/s", "calls", "each waits for the one before", in_flight=1),
    _server("call-16", "calls, 16 in flight", "calls/s", "calls", "16 always wait for an answer", in_flight=16),
    _server("call-64", "calls, 64 in flight", "calls/s", "calls", "64 always wait for an answer", in_flight=64),
    _server(
        "list",
        "tools/list",
        "lists/s",
        "calls",
        "the first page of the list of tools",
        feature="list",
        in_flight=1,
    ),
    _server(
        "large",
        "requests of 1 MB",
        "MB/s",
        "calls",
        "calls with a megabyte that means nothing in _meta, one at a time",
        in_flight=1,
        size=MEGABYTE,
    ),
    _server(
        "large-echo",
        "1 MB there and back",
        "MB/s",
        "calls",
        "calls whose argument of a megabyte comes back, one at a time; a megabyte is counted once",
        feature="echo",
        in_flight=1,
        size=MEGABYTE,
    ),
    _server(
        "flood",
        "flood of progress",
        "notifications/s",
        "flood",
        "what the tool of --flood reports before it answers",
        feature="flood",
    ),
    _server(
        "notified",
        "flood of notifications to the server",
        "notifications/s",
        "notified",
        "cancellations of nothing, which a server must read and ignore",
        feature="lines",
    ),
    _server(
        "give-up",
        "a slow call given up until another is answered",
        "ms",
        "give-up",
        "from the cancellation to the answer of a call behind it; what is answered all the same is counted",
        feature="slow",
    ),
    _server(
        "connect",
        "connect, agree, one call, leave",
        "connections/s",
        "connect",
        "one after the other, each on a connection of its own",
        feature="addressed",
    ),
    _server(
        "idle",
        "processor time while nothing is asked",
        "ms/s",
        "idle",
        "with one client connected that says nothing",
        feature="process",
    ),
    _server(
        "growth",
        "growth of memory in 1,000 calls",
        "KiB",
        "growth",
        "the slope of the second half of an hour's calls (ten a second), made as fast as they go; once",
        feature="process",
        in_flight=16,
        most_rounds=1,
    ),
    _server(
        "memory-after",
        "memory after all that",
        "MiB",
        "memory",
        "resident memory of the process and all its children",
        feature="process",
    ),
)
CLIENT_ROWS: Final = (
    _client("start", "start to the first message", "ms", "plain", "from the start of the client's process"),
    _client("ready", "start to the first call of a tool", "ms", "plain", "with all that it asks before"),
    _client(
        "calls",
        "calls of tools",
        "calls/s",
        "plain",
        "from its first to its last, at a server that answers at once",
    ),
    _client(
        "turnaround", "from an answer to the next request", "µs", "plain", "the client's own time, the median"
    ),
    _client(
        "cpu", "processor time of a whole run", "ms", "plain", "of the process and the children it has waited for"
    ),
    _client("memory", "most memory in a run", "MiB", "plain", "resident, of the process alone"),
    _client(
        "flood",
        "flood of notifications to the client",
        "notifications/s",
        "flood",
        "a thousand before each answer: progress if it asks for that, else log messages",
    ),
    _client("large", "results of 1 MiB", "MB/s", "large", "until it asks for something else, or ends"),
    _client(
        "given-up",
        "a call that is never answered until it is given up",
        "s",
        "silent",
        "until a cancellation comes, or its connection ends",
    ),
)
