"""A server over HTTP that is restarted in good order, as each deploy does: its clients hear of changes afterwards."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from trio_mcp import (
    CacheHint,
    Client,
    HttpServerParameters,
    McpASGI,
    Proxy,
    Resynced,
    Server,
    ToolsListChanged,
    open_asgi_client,
    open_client,
    open_clients,
)
from trio_mcp.types import Tool

ERAS = pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])


def make_server(tool: str, **options: Any) -> Server[Any]:
    server = Server("deployed", cache=CacheHint(ttl=3600), **options)
    server.tool(name=tool)(lambda: "done")
    return server


@attrs.define
class Deployed:
    """An endpoint behind which one process after another serves."""

    make: Callable[[str], Any] = make_server
    server: Any = None
    tool: str = "old"
    _app: Any = None
    _stop: trio.Event = attrs.field(factory=trio.Event)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        elif self._app is None:
            await send({"type": "http.response.start", "status": 502, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._app(scope, receive, send)

    async def serving(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve with one process after another."""
        while True:
            self.server = self.make(self.tool)
            self._stop = trio.Event()
            self._app = McpASGI(self.server)
            async with open_asgi_client(self._app):
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                await self._stop.wait()
            self._app = None
            await trio.sleep(40)

    def restart(self, tool: str) -> None:
        """End in good order, and begin again 40 s later."""
        self.tool = tool
        self._stop.set()


@asynccontextmanager
async def deployed(
    make: Callable[[str], Any] = make_server,
) -> AsyncGenerator[tuple[Deployed, HttpServerParameters]]:
    app = Deployed(make)
    async with trio.open_nursery() as nursery:
        await nursery.start(app.serving)
        yield app, HttpServerParameters("http://localhost/mcp", app=app)
        nursery.cancel_scope.cancel()


def names(tools: list[Tool]) -> list[str]:
    return [tool.name for tool in tools]


async def hears_of_changes(client: Client, app: Deployed, heard: list[float]) -> None:
    """Across a deploy, and afterwards; and nothing from before it is served."""
    assert names([tool async for tool in client.list_tools()]) == ["old"]
    app.restart("new")
    await trio.sleep(120)
    assert heard
    assert names([tool async for tool in client.list_tools()]) == ["new"]
    before = len(heard)
    app.server.tool(name="newer")(lambda: "done")
    await trio.sleep(1)
    assert len(heard) == before + 1


@ERAS
async def test_callbacks_are_called_and_nothing_old_is_served(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    heard: list[float] = []

    def changed() -> None:
        heard.append(trio.current_time())

    async with (
        deployed() as (app, target),
        open_client(target, revision=revision, on_tools_list_changed=changed) as client,
    ):
        await hears_of_changes(client, app, heard)


@ERAS
async def test_listeners_go_on(revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """Of a client, and of a group of clients."""
    async with (
        deployed() as (app, target),
        open_client(target, revision=revision) as client,
        open_clients({"it": target}, revision=revision) as group,
        client.listen(tools_list_changed=True) as events,
        group.listen(tools_list_changed=True) as all_events,
    ):
        await trio.sleep(1)
        app.restart("new")
        with trio.fail_after(120):
            assert isinstance(await anext(events), Resynced)
            while (
                not isinstance((event := await anext(all_events)).change, Resynced)
                or "ready" in event.change.reason
            ):
                pass
        assert names([tool async for tool in client.list_tools()]) == ["new"]
        await trio.sleep(60)
        app.server.tool(name="newer")(lambda: "done")
        with trio.fail_after(1):
            assert await anext(events) == ToolsListChanged()
            assert (await anext(all_events)).change == ToolsListChanged()


@pytest.mark.parametrize("behind", ["2026-07-28", "2025-11-25"])
@ERAS
async def test_clients_of_a_proxy_hear_of_it(
    revision: str, behind: str, autojump_clock: trio.testing.MockClock
) -> None:
    """In every pair of eras."""
    heard: list[float] = []

    def changed() -> None:
        heard.append(trio.current_time())

    async with (
        deployed(partial(make_server, revisions=[behind])) as (app, target),
        open_client(Proxy(target), revision=revision, on_tools_list_changed=changed) as client,
    ):
        await hears_of_changes(client, app, heard)
