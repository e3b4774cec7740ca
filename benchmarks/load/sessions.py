"""What sessions cost: opening one after the other, many at once, and keeping many that do nothing."""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping
from typing import Any, Final

from trio_mcp._bench._http_links import HttpLink
from trio_mcp._bench._links import Link, LoadError, now
from trio_mcp._bench._loops import HANGS, Sample
from trio_mcp._bench._opening import Opened, agree, open_server

from .calls import plan_calls
from .fanouts import ACKNOWLEDGED, Audience, listen
from .processes import count_tools

__all__ = ["keep_idle", "measure_burst", "measure_idle"]

SETTLE_SECONDS: Final = 0.3
ECHO: Final = {"what": "echo", "size": 100}


def measure_burst(opened: Opened, options: Mapping[str, Any], seconds: float) -> Sample:
    """Keep a server busy, connect so many times at once with a call each, and see when all are answered.

    Raises:
        LoadError: A call was not answered.
    """
    count: int = options["connections"]
    busy: int = options["busy"]
    caller = opened.link
    assert isinstance(caller, HttpLink)
    calls = plan_calls(ECHO)
    template = calls.template(caller)
    caller.payload = b""
    caller.open_lanes(busy)
    pending: dict[int, int] = {}
    took: list[float] = []
    latencies: array[int] = array("Q")

    def keep_busy() -> None:
        for lane in set(range(busy)) - set(pending.values()):
            id = caller.ids.take()
            pending[id] = lane
            caller.send(lane, template.fill(id))

    def take() -> None:
        for _, message in caller.poll(0):
            if message.get("id") in pending:
                pending.pop(message["id"])

    began = time.monotonic()
    while time.monotonic() - began < seconds or not took:
        keep_busy()
        crowd = HttpLink(caller.url, caller.dialect, caller.fields)
        crowd.session = caller.session
        at = now()
        crowd.open_lanes(count)
        waiting = {crowd.ids.take(): lane for lane in range(count)}
        for id, lane in waiting.items():
            crowd.send(lane, template.fill(id))
        crowd.flush()
        while waiting:
            take()
            keep_busy()
            caller.flush()
            for _, message in crowd.poll(0.001):
                if "method" not in message:
                    waiting.pop(message["id"])
                    latencies.append(now() - at)
            if now() - at > HANGS * 1e9:
                raise LoadError(f"{len(waiting)} of {count} new connections were not answered")
        took.append((now() - at) / 1e6)
        crowd.close()
    while pending and time.monotonic() - began < HANGS:
        take()
    caller.open_lanes(0)
    return Sample(
        value=sorted(took)[len(took) // 2],
        operations=len(latencies),
        seconds=time.monotonic() - began,
        latencies=latencies,
    )


def measure_idle(job: Mapping[str, Any], options: Mapping[str, Any]) -> Sample:
    """Open many sessions, or listening streams where there are no sessions, and see how much memory each takes.

    In a process of its own, in which nothing was measured before: what that had left would be used again.

    Raises:
        LoadError: The server does not want that, or nobody can tell how much memory it has.
    """
    count: int = options["sessions"]
    began = time.monotonic()
    opened = open_server(job)
    links: list[Link] = []
    try:
        # What is loaded and kept when it is first needed is not a session's.
        keep_idle(opened, options["before"], links)
        before = memory_at_rest(opened)
        keep_idle(opened, count, links)
        after = memory_at_rest(opened)
        tools = count_tools(opened)
    finally:
        for link in links:
            link.close()
        opened.close()
    return Sample(
        value=(after - before) / count / 1024,
        operations=count,
        seconds=time.monotonic() - began,
        facts={"tools": tools},
    )


def keep_idle(opened: Opened, count: int, links: list[Link]) -> None:
    """Open so many sessions, or listening streams, and add what holds them to the links.

    Raises:
        LoadError: The server does not want that.
    """
    caller = opened.link
    assert isinstance(caller, HttpLink)
    if caller.dialect.is_modern:
        crowd = HttpLink(caller.url, caller.dialect)
        links.append(crowd)
        audience = Audience(crowd, ())
        crowd.open_lanes(count)
        listen(crowd, count)
        audience.wait(ACKNOWLEDGED, count)
    else:
        for _ in range(count):
            session = HttpLink(caller.url, caller.dialect)
            links.append(session)
            agree(session)
            session.close_connections()


def memory_at_rest(opened: Opened) -> int:
    """Return how much memory the server has when it has come to rest.

    Raises:
        LoadError: Nobody can tell.
    """
    time.sleep(SETTLE_SECONDS)
    return opened.memory_bytes()
