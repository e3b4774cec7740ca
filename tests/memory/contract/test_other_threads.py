"""Something of one `trio.run` is used in that of another thread: refused at once, and as good as before."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias

import pytest
import trio
import trio.testing
from shared.contract_other_threads import ENOUGH, make_server

from trio_mcp import (
    Client,
    ClientGroup,
    Context,
    HttpServerParameters,
    McpASGI,
    Server,
    Target,
    ToolsListChanged,
    open_asgi_client,
    open_client,
    open_clients,
)

ERAS: Final = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])

Call: TypeAlias = Callable[[], Awaitable[object]]


def refusal(what: str, call: str) -> str:
    return (
        f"{what} belongs to the trio.run of another thread: write trio.from_thread.run({call}, ...) in this thread, "
        "in place of a trio.run of its own"
    )


async def elsewhere(call: Call) -> object:
    """Run something in another thread with an event loop of its own. Returns what it returns or raises."""

    async def main() -> object:
        with trio.fail_after(ENOUGH):
            return await call()

    def run() -> object:
        try:
            return trio.run(main)
        except Exception as error:
            return error

    return await trio.to_thread.run_sync(run)


async def check_refused(call: Call, what: str, named: str) -> None:
    error = await elsewhere(call)
    assert isinstance(error, RuntimeError), repr(error)
    assert str(error) == refusal(what, named)


async def enter_listening(client: Client) -> None:
    async with client.listen(tools_list_changed=True):
        pass


CALLS: Final[dict[str, Callable[[Client], Awaitable[object]]]] = {
    "call_tool": lambda client: client.call_tool("quick"),
    "list_tools": lambda client: client.list_tools(fresh=True),
    "request": lambda client: client.request("tools/list"),
    "request_many": lambda client: client.request_many([("tools/list", None)]),
    "notify": lambda client: client.notify("x/y"),
    "set_log_level": lambda client: client.set_log_level("error"),
    "roots_changed": lambda client: client.roots_changed(),
    "listen": enter_listening,
    "discover": lambda client: client.discover(fresh=True),
    "aclose": lambda client: client.aclose(),
}


@asynccontextmanager
async def reached(binding: str) -> AsyncGenerator[Target]:
    if binding == "memory":
        yield make_server()
        return
    async with open_asgi_client(McpASGI(make_server())) as shared:
        yield HttpServerParameters("http://localhost/mcp", app=shared)


@ERAS
@pytest.mark.parametrize("binding", ["memory", "http"])
async def test_a_client_is_refused_in_another_thread(
    binding: str, revision: str, subtests: pytest.Subtests
) -> None:
    """It was a bare `AssertionError`, and then the client hung as well."""
    with trio.fail_after(ENOUGH):
        async with reached(binding) as target, open_client(target, revision=revision, roots=[]) as client:
            await client.call_tool("quick")
            for name, call in CALLS.items():
                with subtests.test(name=name):
                    await check_refused(partial(call, client), "this client", "client.call_tool")
                    assert (await client.call_tool("quick")).text == "done"
                    statistics = client.statistics()
                    assert (statistics.calls, statistics.outbox_bytes) == (0, 0)


async def test_a_client_is_refused_while_another_task_waits_for_its_answer() -> None:
    """Nobody takes the other's wake-up."""
    server: Server[None] = Server("slow")
    proceed = trio.Event()

    @server.tool
    async def slow() -> str:
        await proceed.wait()
        return "done"

    texts: list[str] = []

    async def call() -> None:
        texts.append((await client.call_tool("slow")).text)

    with trio.fail_after(ENOUGH):
        async with open_client(server) as client, trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            await check_refused(lambda: client.call_tool("slow"), "this client", "client.call_tool")
            proceed.set()
    assert texts == ["done"]


async def test_what_the_error_says_works() -> None:
    """From a thread of Trio without a loop of its own."""
    async with open_client(make_server()) as client:
        called = await trio.to_thread.run_sync(lambda: trio.from_thread.run(client.call_tool, "quick"))
        assert called.text == "done"


@ERAS
async def test_a_subscription_is_refused_in_another_thread(revision: str) -> None:
    """The next change reaches who listens."""
    server = make_server()
    with trio.fail_after(ENOUGH):
        async with (
            open_client(server, revision=revision) as client,
            client.listen(tools_list_changed=True) as events,
        ):
            await check_refused(lambda: anext(events), "this subscription", "events.__anext__")
            server.list_changed("tools")
            assert isinstance(await anext(events), ToolsListChanged)


async def listen_to_all(group: ClientGroup) -> None:
    async with group.listen(tools_list_changed=True) as events:
        await anext(events)


async def restart(group: ClientGroup) -> None:
    group.restart("a")


@pytest.mark.parametrize("is_ready", [True, False])
async def test_a_group_is_refused_in_another_thread(is_ready: bool) -> None:
    """Also what waits for its servers; who waits for them here is woken."""
    server = make_server()
    with trio.fail_after(ENOUGH):
        async with open_clients({"a": server, "off": {"command": "x", "disabled": True}}) as group:
            changes = group.changes()
            if is_ready:
                await group.wait_ready()
                await check_refused(lambda: group.call_tool("a_quick"), "this client", "client.call_tool")
                await check_refused(lambda: listen_to_all(group), "this group", "group.call_tool")
                async with group.listen(tools_list_changed=True) as events:
                    await check_refused(lambda: anext(events), "this subscription", "events.__anext__")
                    server.list_changed("tools")
                    assert (await anext(events)).server == "a"
            await check_refused(group.list_tools, "this group", "group.call_tool")
            await check_refused(lambda: restart(group), "this group", "group.call_tool")
            await check_refused(lambda: anext(group.changes()), "this group", "group.call_tool")
            await group.wait_ready("a")
            await check_refused(lambda: anext(changes), "this group", "group.call_tool")  # there is one already
            assert (await group.call_tool("a_quick")).text == "done"


ASKS: Final[dict[str, Callable[[Context[Any]], Awaitable[object]]]] = {
    "info": lambda ctx: ctx.info("x"),
    "report_progress": lambda ctx: ctx.report_progress(1),
    "notify": lambda ctx: ctx.notify("x/y"),
    "elicit": lambda ctx: ctx.elicit("?", bool),
    "sample": lambda ctx: ctx.sample("?", max_tokens=1),
    "list_roots": lambda ctx: ctx.list_roots(),
}


def answering(answer: object) -> Callable[[object], object]:
    return lambda _: answer


@ERAS
@pytest.mark.parametrize("binding", ["memory", "http"])
async def test_a_request_is_refused_in_another_thread(
    binding: str, revision: str, subtests: pytest.Subtests
) -> None:
    """The handler goes on, with all the time that it has: the clock there is another one."""
    for name in ASKS:
        with subtests.test(name=name):
            await share_a_request(name, binding, revision)


async def share_a_request(name: str, binding: str, revision: str) -> None:
    """Use a request in another thread, and go on."""
    server = make_server()

    @server.tool
    async def share(ctx: Context[Any]) -> str:
        await check_refused(lambda: ASKS[name](ctx), "this request", "ctx.info")
        await ctx.report_progress(2)
        return "goes on"

    reported: list[float] = []
    options: dict[str, Any] = {
        "on_elicit": answering("decline"),
        "on_sample": answering("x"),
        "roots": [],
        "on_log": answering(None),
    }
    with trio.fail_after(ENOUGH):
        target: Target = server
        async with open_asgi_client(McpASGI(server)) as shared:
            if binding == "http":
                target = HttpServerParameters("http://localhost/mcp", app=shared)
            async with open_client(target, revision=revision, **options) as client:
                for _ in range(3):
                    result = await client.call_tool(
                        "share", on_progress=lambda progress: reported.append(progress.progress)
                    )
                    assert result.text == "goes on"
                assert reported == [2, 2, 2]


async def test_an_application_is_refused_in_another_thread() -> None:
    """It runs where its lifespan does."""
    app = McpASGI(make_server())

    async def ask() -> None:
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": "/mcp",
            "headers": [],
            "query_string": b"",
        }

        async def receive() -> Any:
            await trio.sleep_forever()

        async def send(_: object) -> None:
            await trio.lowlevel.checkpoint()

        await app({"root_path": "", "client": ("127.0.0.1", 1), **scope}, receive, send)

    with trio.fail_after(ENOUGH):
        async with app.running():
            await check_refused(ask, "McpASGI", "app")
            async with open_client(HttpServerParameters("http://localhost/mcp", app=run_by_test(app))) as client:
                assert (await client.call_tool("quick")).text == "done"


def run_by_test(app: McpASGI) -> Callable[..., Awaitable[None]]:
    """Return an application whose lifespan is the test's."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for answer in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{answer}.complete"})

    return call
