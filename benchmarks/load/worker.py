"""A worker: reads what to do, a JSON object a line, and answers each with one.

``{"do": "open", …}`` starts a server and connects; ``{"do": "measure", …}`` measures; the end of input ends both.
The clients of other implementations are workers as well, so whoever runs them need not tell them apart.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from .asks import measure_asks
from .calls import Sample, measure_calls
from .cancels import measure_cancels
from .fanouts import measure_fanout
from .floods import measure_flood
from .http_link import HttpLink
from .link import LoadError
from .opening import Opened, open_server
from .processes import measure_codec, measure_import, measure_start
from .server_process import pinned
from .sessions import measure_connects, measure_idle

__all__ = ["main"]

LINKED: Final = {"calls": measure_calls, "flood": measure_flood, "asks": measure_asks, "cancel": measure_cancels}
"""What is measured over one link; it is warmed up."""
OPENED: Final = {"listen": measure_fanout, "connect": measure_connects, "idle": measure_idle}
"""What makes links of its own."""
SETTLING: Final = {"what": "echo", "in_flight": 16}
"""What is asked of a server that has just started: compilers at run time have seen something then."""
ALONE: Final = {"start": measure_start, "import": measure_import, "codec": measure_codec}
"""What starts processes of its own."""


def counted(latencies: Iterable[int]) -> list[tuple[int, int]]:
    """Return how often each latency was seen, with ten binary digits of each."""
    counts: dict[int, int] = {}
    for latency in latencies:
        shift = max(0, latency.bit_length() - 10)
        rounded = latency >> shift << shift
        counts[rounded] = counts.get(rounded, 0) + 1
    return sorted(counts.items())


def measure(opened: Opened | None, job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Warm up, measure, and describe what was found."""
    options, kind, seconds = job["options"], job["kind"], job["seconds"]
    if kind in ALONE:
        return described(ALONE[kind](job, options), 0.0)
    if opened is None:
        raise LoadError("nothing is open")
    if isinstance(opened.link, HttpLink):
        # Meanwhile others were measured, for so long perhaps that servers have closed what was idle.
        opened.link.close_connections()
    if kind in LINKED and job["warm_up"]:
        LINKED[kind](opened.link, options, job["warm_up"])
    gc.collect()
    gc.disable()
    try:
        before = opened.server.cpu_seconds()
        if kind in LINKED:
            sample = LINKED[kind](opened.link, options, seconds)
        else:
            sample = OPENED[kind](opened, options, seconds)
        return described(sample, opened.server.cpu_seconds() - before)
    finally:
        gc.enable()


def described(sample: Sample, cpu: float) -> Mapping[str, Any]:
    """Return a sample as JSON."""
    facts = dict(sample.facts)
    if cpu and sample.operations:
        facts["cpu_us"] = cpu / sample.operations * 1e6
    return {
        "value": sample.value,
        "operations": sample.operations,
        "seconds": sample.seconds,
        "latencies": counted(sample.latencies),
        "facts": facts,
    }


def main() -> None:
    """Obey until the input ends."""
    opened: Opened | None = None
    try:
        for line in sys.stdin:
            job = json.loads(line)
            answer: Mapping[str, Any] = {}
            try:
                if job["do"] == "open":
                    pinned(job.get("cores"))
                    opened = open_server(job)
                    if job.get("settle"):
                        measure_calls(opened.link, SETTLING, job["settle"])
                    answer = {"pid": opened.server.process.pid}
                else:
                    pinned(job.get("cores"))
                    answer = measure(opened, job)
            except LoadError as error:
                words = opened.server.last_words() if opened is not None else ""
                answer = {"error": f"{error}; {words}" if words else str(error)}
            print(json.dumps(answer), flush=True)
    finally:
        if opened is not None:
            opened.close()
