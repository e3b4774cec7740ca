"""What something costs, and how much memory it holds, with so much of one thing: each in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from trio_mcp._bench._http_links import HttpLink
from trio_mcp._bench._links import Link, LoadError, now
from trio_mcp._bench._loops import HANGS, Sample, keep_in_flight
from trio_mcp._bench._opening import Opened, ask_once, open_server
from trio_mcp._bench._processes import peak_memory_of

from .calls import plan_calls
from .fanouts import UPDATED, assemble
from .sessions import keep_idle, memory_at_rest

__all__ = ["measure_growing"]

LEAST: Final = 20
"""How many passes are measured at least.

The garbage collector looks at all there is once in a while: what it takes belongs to the many that were made
before, and may come in the first pass.
"""
BEFORE: Final = 3
"""How many of the same there were before, so that what is loaded once is not counted."""


class Found(NamedTuple):
    """What a pass over all of them costs, and what they hold.

    Attributes:
        seconds: How long it takes on the clock, at best: what else goes on only ever adds to that.
        cpu: How long the server computes.
        held: How many bytes they hold; 0 if that is not looked at.
    """

    seconds: float
    cpu: float
    held: float = 0.0


def measure_growing(job: Mapping[str, Any], options: Mapping[str, Any]) -> Sample:
    """Measure a thing with so many, or so much, of it.

    Raises:
        LoadError: The server does not want that.
    """
    began = time.monotonic()
    found = KINDS[options["of"]](job, options["count"], job["seconds"])
    facts = {"bytes": found.held, "cpu_ms": found.cpu * 1e3}
    return Sample(value=found.seconds * 1e3, operations=1, seconds=time.monotonic() - began, facts=facts)


def passes(opened: Opened, do: Callable[[], object], seconds: float) -> Found:
    """Do something for so long, and return what it costs."""
    do()
    took: list[float] = []
    end = time.monotonic() + seconds
    before = opened.cpu_seconds()
    while len(took) < LEAST or time.monotonic() < end:
        began = now()
        do()
        took.append((now() - began) / 1e9)
    return Found(min(took), (opened.cpu_seconds() - before) / len(took))


def sessions(job: Mapping[str, Any], count: int, seconds: float) -> Found:
    """A call in each of so many sessions, one after the other."""
    opened = open_server(job)
    links: list[Link] = []
    try:
        keep_idle(opened, BEFORE, links)
        before = memory_at_rest(opened)
        keep_idle(opened, count, links)
        held = memory_at_rest(opened) - before
        mine = links[BEFORE:]
        calls = plan_calls({"what": "echo", "size": 100})

        def call_each() -> None:
            for link in mine:
                ask_once(link, calls.method, calls.params)
                assert isinstance(link, HttpLink)
                link.close_connections()

        return passes(opened, call_each, seconds)._replace(held=held)
    finally:
        for link in links:
            link.close()
        opened.close()


def listeners(job: Mapping[str, Any], count: int, seconds: float) -> Found:
    """A change, until each of so many listeners has heard of it."""
    opened = open_server(job)
    try:
        assemble(opened, BEFORE).close()
        before = memory_at_rest(opened)
        audience = assemble(opened, count)
        held = memory_at_rest(opened) - before
        caller = opened.link
        caller.open_lanes(1)
        touch = caller.template("tools/call", {"name": "touch", "arguments": {}})

        def change() -> None:
            id = caller.ids.take()
            caller.send(0, touch.fill(id))
            caller.flush()
            audience.wait(UPDATED, count, id)

        try:
            return passes(opened, change, seconds)._replace(held=held)
        finally:
            audience.close()
    finally:
        opened.close()


def in_flight(job: Mapping[str, Any], count: int, seconds: float) -> Found:
    """So many calls at once, and as many handlers that wait."""
    opened = open_server(job)
    try:
        calls = plan_calls({"what": "echo", "size": 100})

        def call_all() -> None:
            keep_in_flight(opened.link, calls, count, 0.0)

        found = passes(opened, call_all, seconds)
        hold(opened, BEFORE)
        before = memory_at_rest(opened)
        hold(opened, count)
        return found._replace(held=memory_at_rest(opened) - before)
    finally:
        opened.close()


def hold(opened: Opened, count: int) -> None:
    """Begin so many calls that are never answered, and wait until all their handlers run.

    Raises:
        LoadError: They do not.
    """
    link = opened.link
    for number in range(count):
        call = {"name": "hold", "arguments": {"key": str(number)}}
        link.send(number, link.template("tools/call", call, progress=True).fill(link.ids.take()))
    started = 0
    while started < count:
        messages = link.poll(HANGS)
        if not messages:
            raise LoadError(f"only {started} of {count} handlers started")
        started += sum(message.get("method") == "notifications/progress" for _, message in messages)


def listed(job: Mapping[str, Any], count: int, seconds: float) -> Found:
    """The whole list of so many tools."""
    base = memory_with_tools(job, 1)
    opened = open_server(with_tools(job, count))
    try:

        def ask_for_all() -> None:
            params: dict[str, Any] = {}
            found = 0
            while True:
                result = ask_once(opened.link, "tools/list", params)
                found += len(result["tools"])
                if not result.get("nextCursor"):
                    break
                params = {"cursor": result["nextCursor"]}
            if found != count:
                raise LoadError(f"{found} tools instead of {count}")

        return passes(opened, ask_for_all, seconds)._replace(held=memory_at_rest(opened) - base)
    finally:
        opened.close()


def called(job: Mapping[str, Any], count: int, seconds: float) -> Found:
    """A call of one tool among so many."""
    opened = open_server(with_tools(job, count))
    try:
        calls = plan_calls({"what": "echo", "size": 100})
        return passes(opened, lambda: ask_once(opened.link, calls.method, calls.params), seconds)
    finally:
        opened.close()


def with_tools(job: Mapping[str, Any], count: int) -> Mapping[str, Any]:
    """Return the same job for a server with so many tools."""
    return {**job, "command": [*job["command"], str(count)]}


def memory_with_tools(job: Mapping[str, Any], count: int) -> int:
    """Return how much memory a server with so many tools has, once it has listed them."""
    opened = open_server(with_tools(job, count))
    try:
        ask_once(opened.link, "tools/list")
        return memory_at_rest(opened)
    finally:
        opened.close()


def sizes(job: Mapping[str, Any], count: int, seconds: float) -> Found:
    """A text of so many bytes, there and back."""
    opened = open_server(job)
    try:
        small = plan_calls({"what": "echo", "size": 100})
        ask_once(opened.link, small.method, small.params)
        before = memory_at_rest(opened)
        calls = plan_calls({"what": "echo", "size": count})

        def call() -> None:
            keep_in_flight(opened.link, calls, 1, 0.0)

        found = passes(opened, call, seconds)
        return found._replace(held=peak_memory_of(opened.process().process.pid) - before)
    finally:
        opened.close()


KINDS: Final[Mapping[str, Callable[[Mapping[str, Any], int, float], Found]]] = {
    "sessions": sessions,
    "listeners": listeners,
    "in-flight": in_flight,
    "listed": listed,
    "called": called,
    "sizes": sizes,
}
