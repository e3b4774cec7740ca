"""Floods: one request, and very many notifications before its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .calls import HANGS, Sample
from .link import Link, LoadError, now

__all__ = ["measure_flood"]

NOTIFIED: Final = {"flood": "notifications/progress", "shout": "notifications/message"}
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"


def measure_flood(link: Link, options: Mapping[str, Any], seconds: float) -> Sample:
    """Have a tool send notifications, in runs of so many, for so long.

    Raises:
        LoadError: Notifications were missing, out of order or wrong.
    """
    tool, count = options["tool"], options["count"]
    expected = NOTIFIED[tool]
    meta = {LOG_LEVEL: "debug"} if link.dialect.is_modern else None
    link.payload = b""
    link.open_lanes(1)
    template = link.template(
        "tools/call", {"name": tool, "arguments": {"count": count}}, progress=tool == "flood", meta=meta
    )
    received = 0
    began = now()
    end = began + int(seconds * 1e9)
    last = began
    while last < end or not received:
        id = link.ids.take()
        link.send(0, template.fill(id))
        run = 0
        is_answered = False
        while not is_answered:
            messages = link.poll(HANGS)
            if not messages:
                raise LoadError(f"the flood stopped after {run} of {count} notifications")
            for _, message in messages:
                if message.get("method") == expected:
                    run += 1
                    if tool == "flood" and message["params"]["progress"] != run:
                        raise LoadError(f"wrong progress: {message}, as number {run}")
                elif "method" not in message:
                    if message.get("id") != id or "result" not in message:
                        raise LoadError(f"wrong answer: {str(message)[:500]}")
                    is_answered = True
        if run != count:
            raise LoadError(f"{run} notifications came instead of {count}")
        received += run
        last = now()
    took = (last - began) / 1e9
    return Sample(value=received / took, operations=received, seconds=took)
