"""Tasks over real sockets: each look is a POST of its own, and none of them holds the task."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from http_wire import DEFAULTS

from trio_mcp import (
    Context,
    HttpServerParameters,
    Proxy,
    RequestError,
    Revision,
    Server,
    StaticToken,
    TaskUpdated,
    open_client,
    serve_http,
)

MODERN = Revision.V2026_07_28
UNKNOWN = "there is no such task, or it has expired"


async def post(url: str, method: str, id: str, *, name: str | None) -> dict[str, Any]:
    """Ask something of a task by hand; return the answer."""
    meta: Any = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    }
    params: Any = {"taskId": id, "inputResponses": {}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    field = "" if name is None else f"mcp-name: {name}\r\n"
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
        "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        f"mcp-protocol-version: {MODERN}\r\nmcp-method: {method}\r\n{field}\r\n"
    )
    async with await trio.open_tcp_stream("127.0.0.1", int(url.split(":")[2].split("/")[0])) as stream:
        await stream.send_all(head.encode() + body)
        answer = b"".join([part async for part in stream])
    found: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return found


class Work:
    """A server with a tool that asks, and one that waits."""

    def __init__(self) -> None:
        self.server = Server("work")
        self.ended: list[str] = []

        @self.server.tool(task="required", poll=0.1)
        async def ask(ctx: Context[Any]) -> str:
            await ctx.report_progress(1, 2)
            return str((await ctx.elicit("Who?", str)).value)

        @self.server.tool(task="optional", poll=0.1)
        async def work() -> None:
            try:
                await trio.sleep_forever()
            finally:
                self.ended.append("work")

    @asynccontextmanager
    async def served(self, **options: Any) -> AsyncGenerator[str]:
        async with trio.open_nursery() as nursery:
            serve = partial(serve_http, self.server, "127.0.0.1", 0, **DEFAULTS, **options)
            [url, *_] = await nursery.start(serve)
            yield url
            nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("is_proxied", [False, True])
async def test_a_call_waits_for_its_task_and_answers_what_it_asks(*, is_proxied: bool) -> None:
    async with Work().served() as url:
        target: Any = Proxy(HttpServerParameters(url)) if is_proxied else url
        async with open_client(target, revision=MODERN, on_elicit=lambda _: {"value": "Ada"}) as client:
            assert (await client.call_tool("ask")).text == "Ada"
            seen: list[Any] = []
            async with client.start_task("ask") as task:
                assert task.id is not None
                async with client.listen(tasks=[task.id]) as events:
                    async for event in events:
                        assert isinstance(event, TaskUpdated)
                        assert event.state is not None
                        seen.append(event.state.status)
                        if event.state.is_final:
                            break
            assert (seen[0], seen[-1]) == ("input_required", "completed")


@pytest.mark.usefixtures("host")
async def test_the_header_field_names_the_task() -> None:
    """ext-tasks, "Streamable HTTP: Routing Headers"."""
    async with Work().served() as url:
        async with open_client(url, revision=MODERN, tasks="always") as client:
            id = (await client.request("tools/call", {"name": "work"}))["taskId"]
            assert (await client.request("tasks/get", {"taskId": id}))["status"] == "working"
        assert (await post(url, "tasks/get", id, name=id))["result"]["status"] == "working"
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            for name in ("another", None):
                assert (await post(url, method, id, name=name))["error"]["code"] == -32020


@pytest.mark.usefixtures("host")
async def test_a_task_is_found_by_its_principal_over_any_connection_and_by_nobody_else() -> None:
    def who(call: Any) -> str | None:
        return str(call.headers.get("authorization")).removeprefix("Bearer ")

    async with Work().served(authenticate=who) as url:

        def as_(name: str) -> Any:
            return open_client(url, revision=MODERN, auth=StaticToken(name))

        async with as_("ada") as client, client.start_task("work") as task:
            id = task.detach()
        assert id is not None
        async with as_("eve") as client:
            with pytest.raises(RequestError, match=UNKNOWN):
                async with client.resume_task(id):
                    pass
            with pytest.raises(RequestError, match="which it does not have"):
                async with client.listen(tasks=[id]):
                    pass
        async with as_("ada") as client, client.resume_task(id) as task:
            assert task.state is not None
            assert task.state.status == "working"


@pytest.mark.usefixtures("host")
async def test_what_is_kept_for_a_task_is_counted_against_its_client() -> None:
    work = Work()
    async with work.served() as url, open_client(url, revision=MODERN, tasks="always") as client:
        id = (await client.request("tools/call", {"name": "work", "arguments": {}}))["taskId"]
        await trio.testing.wait_all_tasks_blocked(0.05)
        [statistics] = work.server.statistics()
        assert (statistics["tasks"].lent, statistics["tasks"].clients) == (1, 1)
        running = statistics["bytes"].of["tasks"]
        await client.request("tasks/cancel", {"taskId": id})
        while work.ended != ["work"]:
            await trio.sleep(0.01)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert 0 < work.server.statistics()[0]["bytes"].of["tasks"] < running
