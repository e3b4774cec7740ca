"""One change, and very many who want to know of it."""

from __future__ import annotations

import select
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from trio_mcp._bench._http_links import HttpLink
from trio_mcp._bench._links import LineLink, Link, LoadError, now
from trio_mcp._bench._loops import HANGS, Sample
from trio_mcp._bench._opening import Opened, agree, ask_once

__all__ = ["measure_fanout"]

URI: Final = "bench://watched"
UPDATED: Final = "notifications/resources/updated"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
LISTEN: Final = {"notifications": {"resourceSubscriptions": [URI]}}


@final
class Audience:
    """Those who listen. Each hears on a link of its own, or all on one."""

    def __init__(self, caller: Link, links: Sequence[Link]) -> None:
        self._caller = caller
        self._links = {link.fileno(): link for link in (caller, *links)}
        self._poller = select.epoll()
        for fd in self._links:
            self._poller.register(fd, select.EPOLLIN)

    def wait(self, method: str, count: int, answer: int | None = None) -> list[int]:
        """Wait for so many notifications, and for an answer; return when the notifications came.

        Raises:
            LoadError: They did not come.
        """
        came: list[int] = []
        while len(came) < count or answer is not None:
            ready = self._poller.poll(HANGS)
            if not ready:
                raise LoadError(f"only {len(came)} of {count} were told by {method}")
            for fd, _ in ready:
                for _, message in self._links[fd].poll(0):
                    if message.get("method") == method:
                        came.append(now())
                    elif "error" in message:
                        raise LoadError(f"not to be listened to: {message}")
                    elif message.get("id") == answer:
                        answer = None
        return came

    def close(self) -> None:
        """Let go of all who listen."""
        self._poller.close()
        for link in self._links.values():
            if link is not self._caller:
                link.close()


def measure_fanout(opened: Opened, options: Mapping[str, Any], seconds: float) -> Sample:
    """Change something again and again, each time until all have heard of it.

    Raises:
        LoadError: Somebody did not hear.
    """
    count: int = options["listeners"]
    caller = opened.link
    caller.payload = b""
    caller.open_lanes(1)
    touch = caller.template("tools/call", {"name": "touch", "arguments": {}})
    audience = assemble(opened, count)
    latencies: array[int] = array("Q")
    try:
        began = last = now()
        while last - began < seconds * 1e9 or not latencies:
            id = caller.ids.take()
            caller.send(0, touch.fill(id))
            touched = now()
            caller.flush()
            latencies.extend(at - touched for at in audience.wait(UPDATED, count, id))
            last = now()
    finally:
        audience.close()
    took = (last - began) / 1e9
    return Sample(value=len(latencies) / took, operations=len(latencies), seconds=took, latencies=latencies)


def assemble(opened: Opened, count: int) -> Audience:
    """Have so many listen.

    Raises:
        LoadError: They cannot.
    """
    caller = opened.link
    if isinstance(caller, LineLink) or not isinstance(caller, HttpLink):
        if not caller.dialect.is_modern:
            if count > 1:
                raise LoadError("one pipe has one listener in the legacy era")
            ask_once(caller, "resources/subscribe", {"uri": URI})
            return Audience(caller, ())
        audience = Audience(caller, ())
        listen(caller, count)
    elif caller.dialect.is_modern:
        link = HttpLink(caller.url, caller.dialect)
        audience = Audience(caller, (link,))
        link.open_lanes(count)
        listen(link, count)
    else:
        return Audience(caller, [open_session(caller) for _ in range(count)])
    audience.wait(ACKNOWLEDGED, count)
    return audience


def listen(link: Link, count: int) -> None:
    """Ask to be told, so many times."""
    template = link.template("subscriptions/listen", LISTEN)
    for lane in range(count):
        link.send(lane, template.fill(link.ids.take()))
    link.flush()


def open_session(caller: HttpLink) -> HttpLink:
    """Open a session that listens on its standing stream."""
    link = HttpLink(caller.url, caller.dialect)
    agree(link)
    link.open_stream()
    ask_once(link, "resources/subscribe", {"uri": URI})
    link.open_lanes(0)
    return link
