"""A target that can be lost, and found again as its policy says."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from inside_proxy import proxy_module
from raw_ends import RawServer
from wires import ScriptedChannel

from trio_mcp import Channel, ConnectionLost, Limits, Proxy, RestartPolicy


class LostServer:
    """How channels to a server are opened.

    Args:
        reason: Why it is lost.
        raw: The server; `None` if it cannot be reached at all.
        restart: Whether it is opened again.
    """

    survives_probe = False
    name = "the server"

    def __init__(self, reason: str, raw: RawServer | None = None, restart: RestartPolicy | None = None) -> None:
        self.reason = reason
        self.raw = raw
        self.restart = restart
        self.opened = 0

    @asynccontextmanager
    async def open(self, limits: Limits) -> AsyncGenerator[Channel]:
        """Open a channel."""
        del limits
        await trio.lowlevel.checkpoint()
        if self.raw is None:
            raise ConnectionLost(self.reason)
        self.opened += 1
        self.channel = ScriptedChannel(self.raw.take)
        yield self.channel

    def lose(self) -> None:
        """Let the connection go."""
        self.channel.hang_up(ConnectionLost(self.reason))


def _itself(target: Any) -> Any:
    return target


@asynccontextmanager
async def use(target: Any, **options: Any) -> AsyncGenerator[Proxy]:
    """Yield a proxy before such a target."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proxy_module, "connector_for", _itself)
        yield Proxy(target, **options)
