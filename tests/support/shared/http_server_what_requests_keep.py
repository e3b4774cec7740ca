"""What the tests of what requests keep share in several layers."""

from __future__ import annotations

from typing import Any, Final

import trio
from http_raw import call_tool

from trio_mcp import Context, HttpServerSettings, Limits, PoolStatistics, Server

MIB: Final = 1 << 20

HOG: Final = {"X-Forwarded-For": "198.51.100.1"}

HONEST: Final = {"X-Forwarded-For": "203.0.113.2"}

SETTINGS: Final = HttpServerSettings(trusted_proxies={"127.0.0.1"}, message_timeout=600)

LIMITS: Final = Limits(max_kept_bytes=2 * MIB, max_kept_bytes_per_principal=1 * MIB)


def echo_server(limits: Limits = LIMITS) -> Server[None]:
    """Return a server that says what it is told."""
    server = Server("echo", limits=limits)

    @server.tool
    async def echo(text: str) -> int:
        return len(text)

    return server


def bytes_of(server: Server[Any]) -> PoolStatistics:
    """Return what is lent of memory."""
    (statistics,) = server.statistics()
    return statistics["bytes"]


async def until_lent(server: Server[Any], *, least: int) -> None:
    """Wait until so much is lent."""
    while bytes_of(server).lent < least:
        await trio.sleep(0.01)


# Requests that are served.
class Gate:
    """A server whose handlers wait at a gate."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.server = Server("gate", limits=limits)
        self.opened = trio.Event()
        self.inside = 0

        @self.server.tool
        async def hold(items: list[Any]) -> int:
            self.inside += 1
            try:
                await self.opened.wait()
            finally:
                self.inside -= 1
            return len(items)

        @self.server.notification_handler("notifications/note")
        async def noted(_params: Any, _context: Any) -> None:
            await self.opened.wait()

    async def until_inside(self, number: int) -> None:
        while self.inside < number:
            await trio.sleep(0.01)


# Answers that nobody reads.
def large_server(limits: Limits = LIMITS) -> Gate:
    """Return a gate whose server has tools that say much."""
    gate = Gate(limits)

    @gate.server.tool
    async def large(size: int) -> str:
        return "x" * size

    @gate.server.tool
    async def chat(ctx: Context[None]) -> str:
        for number in range(200):
            await ctx.report_progress(number, message="x" * 10_000)
        return "done"

    return gate


def calling(era: str, name: str, **arguments: Any) -> dict[str, Any]:
    if era == "modern":
        return call_tool(name, **arguments)
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
