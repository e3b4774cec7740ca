"""One handler's mistakes reach no other request, and no handler can tell how it is served.

A request is served in the task that has read it, on the spot; or it had to wait for a place, and has a task of its
own; or, over HTTP, that of its POST. What a handler sees must be the same.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

import pytest
import trio
import trio.testing
from lines import LEGACY_LINES, LINES, open_line

from trio_mcp import Client, Limits, Server

tenant: Final = ContextVar("tenant", default="nobody")


async def call_text(client: Client, tool: str, **arguments: object) -> str:
    """Call a tool and return the text of its result."""
    content = (await client.call_tool(tool, arguments)).content[0]
    text: str = content.text  # type: ignore[union-attr]
    return text


# Context variables.


class Tenants:
    """A server whose tools set a context variable and look what it was before."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.server = server = Server("tenants", limits=limits)
        self.go = trio.Event()

        @server.tool
        async def visit(name: str) -> str:
            before = tenant.get()
            tenant.set(name)
            return before

        @server.tool
        async def visit_and_wait(name: str) -> str:
            before = tenant.get()
            tenant.set(name)
            await self.go.wait()
            assert tenant.get() == name
            return before

        @server.tool
        def from_thread(name: str) -> str:
            async def look() -> str:
                await trio.lowlevel.checkpoint()
                seen = tenant.get()
                tenant.set("the thread")
                await trio.lowlevel.checkpoint()
                return seen

            tenant.set(name)
            first = trio.from_thread.run(look)
            return f"{first}, {trio.from_thread.run_sync(tenant.get)}, {tenant.get()}"

        @server.tool
        async def with_thread(name: str) -> str:
            async def look() -> str:
                await trio.lowlevel.checkpoint()
                seen = tenant.get()
                tenant.set("the thread")
                return seen

            tenant.set(name)
            seen = await trio.to_thread.run_sync(trio.from_thread.run, look)
            await trio.lowlevel.checkpoint()
            return f"{seen}, {tenant.get()}"


@pytest.mark.parametrize("places", [1, 2])
@LINES
async def test_a_request_that_waited_for_its_place_sees_nothing_of_the_one_before(
    binding: str, revision: str, places: int
) -> None:
    """It is started by the one that makes room, but it is not its child."""
    tenants = Tenants(Limits(max_inbound_requests=places))
    seen: list[str] = []

    async def visit(tool: str, name: str) -> None:
        seen.append(await call_text(line.client, tool, name=name))

    async with open_line(tenants.server, binding, revision) as line, trio.open_nursery() as nursery:
        for n in range(places):
            nursery.start_soon(visit, "visit_and_wait", f"first {n}")
        await trio.testing.wait_all_tasks_blocked()
        for n in range(6):
            nursery.start_soon(visit, "visit_and_wait" if n % 2 else "visit", f"later {n}")
        await trio.testing.wait_all_tasks_blocked()
        tenants.go.set()
    assert seen == ["nobody"] * (places + 6)


@LINES
async def test_what_a_thread_of_a_tool_asks_for_runs_with_the_tools_variables(
    binding: str, revision: str
) -> None:
    """Trio lends the task to it; what it sets goes no further."""
    async with open_line(Tenants().server, binding, revision) as line:
        for name in ("Ann", "Bob"):
            assert await call_text(line.client, "from_thread", name=name) == f"{name}, {name}, {name}"
            assert await call_text(line.client, "with_thread", name=name) == f"{name}, {name}"
        assert await call_text(line.client, "visit", name="Cid") == "nobody"


@LINES
async def test_variables_of_one_request_are_not_seen_by_later_ones(binding: str, revision: str) -> None:
    """On the same connection, over HTTP too, whether they have waited or not."""
    tenants = Tenants()
    tenants.go.set()
    async with open_line(tenants.server, binding, revision) as line:
        for tool in ("visit", "visit_and_wait", "visit_and_wait", "visit"):
            assert await call_text(line.client, tool, name=tool) == "nobody"


@LEGACY_LINES
async def test_variables_of_one_notification_are_not_seen_by_the_next(binding: str, revision: str) -> None:
    """One task handles them all, one after another."""
    server = Server("notified")
    seen: list[str] = []

    @server.notification_handler("x/visit")
    async def visit(params: Any, ctx: Any) -> None:
        seen.append(tenant.get())
        tenant.set("Ann")
        await trio.lowlevel.checkpoint()
        seen.append(tenant.get())

    async with open_line(server, binding, revision) as line:
        for _ in range(2):
            await line.client.notify("x/visit", {})
            await trio.testing.wait_all_tasks_blocked()
    assert seen == ["nobody", "Ann"] * 2
