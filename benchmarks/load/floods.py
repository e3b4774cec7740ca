"""Floods: one request, and very many notifications before its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trio_mcp._bench._links import Link
from trio_mcp._bench._loops import Sample, receive_floods

__all__ = ["measure_flood"]

NOTIFIED: Final = {"flood": "notifications/progress", "shout": "notifications/message"}
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"


def measure_flood(link: Link, options: Mapping[str, Any], seconds: float) -> Sample:
    """Have a tool send notifications, in runs of so many, for so long.

    Raises:
        LoadError: Notifications were missing, out of order or wrong.
    """
    tool, count = options["tool"], options["count"]
    meta = {LOG_LEVEL: "debug"} if link.dialect.is_modern else None
    link.payload = b""
    link.open_lanes(1)
    template = link.template(
        "tools/call", {"name": tool, "arguments": {"count": count}}, progress=tool == "flood", meta=meta
    )
    return receive_floods(link, template, seconds, notification=NOTIFIED[tool], count=count)
