"""A worker: reads what to do, a JSON object a line, and answers each with one.

``{"do": "probe", …}`` looks at a server; ``{"do": "open", …}`` starts one and connects; ``{"do": "measure", …}``
measures; the end of input ends both. The clients of other implementations are workers as well, so whoever runs
them need not tell them apart.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, final

import attrs

from ._client_runs import measure_client
from ._http_links import HttpLink
from ._links import LoadError
from ._loops import Sample, counted
from ._offers import look_at
from ._opening import Opened, open_server
from ._processes import pinned
from ._trials import LINKED, OPENED, measure_start

Linked: TypeAlias = Callable[[Any, Mapping[str, Any], float], Sample]
"""Measures over one link; it is warmed up."""
Alone: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], Sample]
"""Starts processes of its own: gets the job and its options."""


@final
@attrs.frozen(kw_only=True)
class Kinds:
    """What a worker can measure.

    Attributes:
        linked: Over one link.
        opened: Of a server, with links of its own.
        alone: With processes of its own.
        settling: What is asked of a server that has just started, by options of the first of `linked`: then
            compilers at run time have seen something.
        count_tools: Returns how many tools a server has.
    """

    linked: Mapping[str, Linked]
    opened: Mapping[str, Callable[[Opened, Mapping[str, Any], float], Sample]]
    alone: Mapping[str, Alone]
    settling: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    count_tools: Callable[[Opened], int] | None = None


TARGETS = Kinds(linked=LINKED, opened=OPENED, alone={"start": measure_start, "client": measure_client})
"""What can be measured of any server and any client."""


@final
class _Worker:
    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._opened: Opened | None = None
        self._tools: int | None = None
        self._is_settled = False

    def do(self, job: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do what a job says.

        Raises:
            LoadError: It cannot be done.
        """
        pinned(job.get("cores"))
        match job["do"]:
            case "probe":
                return look_at(job)
            case "open":
                self._opened = opened = open_server(job)
                if job.get("settle"):
                    next(iter(self._kinds.linked.values()))(opened.link, self._kinds.settling, job["settle"])
                if self._kinds.count_tools is not None:
                    self._tools = self._kinds.count_tools(opened)
                return {}
            case _:
                return self._measure(job)

    def _measure(self, job: Mapping[str, Any]) -> Mapping[str, Any]:
        """Warm up, measure, and describe what was found."""
        options, kind, seconds = job["options"], job["kind"], job["seconds"]
        tools = job.get("tools", self._tools)
        facts: dict[str, float] = {} if tools is None else {"tools": tools}
        if kind in self._kinds.alone:
            return described(self._kinds.alone[kind](job, options), facts)
        opened = self._opened
        if opened is None:
            raise LoadError("nothing is open")
        if isinstance(opened.link, HttpLink):
            # Meanwhile others were measured, for so long perhaps that servers have closed what was idle.
            opened.link.close_connections()
        linked = self._kinds.linked.get(kind)
        warm_up = job["warm_up"] if self._is_settled else max(job["warm_up"], job.get("settle_first", 0.0))
        if linked is not None and warm_up:
            self._is_settled = True
            linked(opened.link, options, warm_up)
        gc.collect()
        gc.disable()
        try:
            before = opened.cpu_seconds()
            if linked is not None:
                sample = linked(opened.link, options, seconds)
            else:
                sample = self._kinds.opened[kind](opened, options, seconds)
            cpu = opened.cpu_seconds() - before
            if cpu and sample.operations:
                facts["cpu_us"] = cpu / sample.operations * 1e6
            return described(sample, facts)
        finally:
            gc.enable()

    def explain(self, error: LoadError) -> str:
        """Return an error with what the server has written."""
        words = "" if self._opened is None else self._opened.last_words()
        return f"{error}; it wrote: {words}" if words else str(error)

    def close(self) -> None:
        """End what was opened."""
        if self._opened is not None:
            self._opened.close()


def described(sample: Sample, facts: Mapping[str, float]) -> Mapping[str, Any]:
    """Return a sample as JSON."""
    return {
        "value": sample.value,
        "operations": sample.operations,
        "seconds": sample.seconds,
        "latencies": counted(sample.latencies),
        "facts": {**facts, **sample.facts},
        **({"curve": sample.curve} if sample.curve else {}),
    }


def _leave(*_: object) -> None:
    sys.exit(0)


def obey(kinds: Kinds) -> None:
    """Obey until the input ends, or SIGTERM comes."""
    signal.signal(signal.SIGTERM, _leave)
    worker = _Worker(kinds)
    try:
        for line in sys.stdin:
            answer: Mapping[str, Any]
            try:
                answer = worker.do(json.loads(line))
            except LoadError as error:
                answer = {"error": worker.explain(error)}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        worker.close()


def main() -> None:
    """Measure any server, and any client."""
    obey(TARGETS)
