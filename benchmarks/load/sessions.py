"""What sessions cost: opening one after the other, and keeping many that do nothing."""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping
from typing import Any, Final

from .calls import Sample
from .fanouts import ACKNOWLEDGED, Audience, listen
from .http_link import HttpLink
from .link import Link, LoadError, now
from .opening import Opened, agree, ask_once, connect

__all__ = ["measure_connects", "measure_idle"]

SETTLE_SECONDS: Final = 0.3


def measure_connects(opened: Opened, options: Mapping[str, Any], seconds: float) -> Sample:
    """Connect, initialise or discover, and leave again; one after the other, each on a connection of its own.

    Raises:
        LoadError: The server does not want that.
    """
    if opened.address is None:
        raise LoadError("nobody can connect to a pipe")
    latencies: array[int] = array("Q")
    began = last = now()
    while last - began < seconds * 1e9 or not latencies:
        link = connect(opened.address, opened.dialect, "")
        if link.dialect.is_modern:
            ask_once(link, "server/discover")
        else:
            agree(link)
            if isinstance(link, HttpLink):
                link.end_session()
        link.close()
        at = now()
        latencies.append(at - last)
        last = at
    took = (last - began) / 1e9
    return Sample(value=len(latencies) / took, operations=len(latencies), seconds=took, latencies=latencies)


def measure_idle(opened: Opened, options: Mapping[str, Any], seconds: float) -> Sample:
    """Open many sessions, or listening streams where there are no sessions; see how much memory each costs.

    Raises:
        LoadError: The server does not want that, or nobody can tell how much memory it has.
    """
    count: int = options["sessions"]
    caller = opened.link
    assert isinstance(caller, HttpLink)
    before = memory_of(opened)
    links: list[Link] = []
    began = time.monotonic()
    try:
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
        after = memory_of(opened)
    finally:
        for link in links:
            link.close()
    return Sample(value=(after - before) / count / 1024, operations=count, seconds=time.monotonic() - began)


def memory_of(opened: Opened) -> int:
    """Return how much memory the server has when it has come to rest.

    Raises:
        LoadError: Nobody can tell.
    """
    time.sleep(SETTLE_SECONDS)
    memory = opened.server.memory_bytes()
    if not memory:
        raise LoadError("this system does not tell how much memory a process has")
    return memory
