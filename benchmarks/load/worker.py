"""A worker: reads what to do, a JSON object a line, and answers each with one.

``{"do": "open", …}`` starts a server and connects; ``{"do": "measure", …}`` measures; the end of input ends both.
The clients of other implementations are workers as well, so whoever runs them need not tell them apart.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from .calls import Sample, measure_calls
from .floods import measure_flood
from .link import LoadError
from .opening import Opened, open_server
from .processes import measure_import, measure_start
from .server_process import pinned

__all__ = ["main"]

LINKED = {"calls": measure_calls, "flood": measure_flood}
UNLINKED = {"start": measure_start, "import": measure_import}


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
    options = job["options"]
    kind = job["kind"]
    cpu = 0.0
    if kind in UNLINKED:
        sample = UNLINKED[kind](job, options)
    else:
        if opened is None:
            raise LoadError("nothing is open")
        measure_linked = LINKED[kind]
        if job["warm_up"]:
            measure_linked(opened.link, options, job["warm_up"])
        gc.collect()
        gc.disable()
        before = opened.server.cpu_seconds()
        sample = measure_linked(opened.link, options, job["seconds"])
        cpu = opened.server.cpu_seconds() - before
        gc.enable()
    return described(sample, cpu)


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
