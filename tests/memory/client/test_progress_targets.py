"""Where progress goes: callbacks, and channels that are closed when the call is over, however it ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
import trio.testing
from eras import ENDS
from scripted_server import MODERN, ScriptedServer

from trio_mcp import Client, Progress, RequestError, Revision, open_client


async def call_tool(client: Client, **options: Any) -> object:
    return cast("object", await client.call_tool("x", **options))


async def get_prompt(client: Client, **options: Any) -> object:
    return await client.get_prompt("x", **options)


async def read_resource(client: Client, **options: Any) -> object:
    return await client.read_resource("x:y", **options)


async def request(client: Client, **options: Any) -> object:
    return await client.request("x/y", **options)


CALLS: dict[str, Callable[..., Awaitable[object]]] = {
    "tools/call": call_tool,
    "prompts/get": get_prompt,
    "resources/read": read_resource,
    "x/y": request,
}


def reporting_server(
    revision: Revision, outcome: Callable[[dict[str, Any]], object] | None = None
) -> ScriptedServer:
    """Return a server that reports progress 1, 2, 3 before it answers anything."""
    server = ScriptedServer(revision)

    def call(message: dict[str, Any]) -> object:
        for n in (1, 2, 3):
            token = message["params"]["_meta"]["progressToken"]
            server.tell("notifications/progress", progressToken=token, progress=n, total=3, message=str(n))
        if outcome is not None:
            return outcome(message)
        return server.complete(content=[], messages=[], contents=[], ttlMs=0, cacheScope="private")

    server.script = dict.fromkeys(CALLS, call)
    return server


@pytest.mark.parametrize("revision", ENDS)
async def test_progress_goes_into_a_channel_that_is_closed_at_the_end(
    subtests: pytest.Subtests, revision: Revision
) -> None:
    """Every revision, basic/utilities/progress."""

    async def check(method: str, buffer: int) -> None:
        seen: list[Progress] = []

        async def receive(channel: trio.MemoryReceiveChannel[Progress]) -> None:
            async for progress in channel:
                seen.append(progress)

        async with (
            open_client(reporting_server(revision), revision=revision) as client,
            trio.open_nursery() as nursery,
        ):
            sender, receiver = trio.open_memory_channel[Progress](buffer)
            nursery.start_soon(receive, receiver)
            await CALLS[method](client, on_progress=sender)
        assert seen == [Progress(n, 3, str(n)) for n in (1, 2, 3)]

    for method in CALLS:
        for buffer in (0, 10):
            with subtests.test(method=method, buffer=buffer):
                await check(method, buffer)


@pytest.mark.parametrize("end", ["error", "cancelled", "closed client"])
async def test_the_channel_is_closed_however_the_call_ends(
    end: str, autojump_clock: trio.testing.MockClock
) -> None:
    def outcome(message: dict[str, Any]) -> object:
        if end == "error":
            return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": 1, "message": "no"}}
        return None

    sender, receiver = trio.open_memory_channel[Progress](10)
    async with open_client(reporting_server(MODERN, outcome)) as client:
        if end == "closed client":
            await client.aclose()
            with pytest.raises(trio.ClosedResourceError):
                await client.call_tool("x", on_progress=sender)
        elif end == "error":
            with pytest.raises(RequestError):
                await client.call_tool("x", on_progress=sender)
        else:
            with trio.move_on_after(5):
                await client.call_tool("x", on_progress=sender)
    assert len([progress async for progress in receiver]) == (0 if end == "closed client" else 3)
    with pytest.raises(trio.ClosedResourceError):
        sender.send_nowait(Progress(4))


@pytest.mark.parametrize("who", ["receiver", "sender"])
async def test_a_call_goes_on_when_its_progress_is_no_longer_received(who: str) -> None:
    sender, receiver = trio.open_memory_channel[Progress](0)

    def outcome(message: dict[str, Any]) -> object:
        (receiver if who == "receiver" else sender).close()
        return {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", "content": []}}

    async with open_client(reporting_server(MODERN, outcome)) as client:
        assert (await client.call_tool("x", on_progress=sender)).content == ()


async def test_progress_for_a_call_that_is_over_is_ignored() -> None:
    seen: list[Progress] = []
    server = reporting_server(MODERN)
    async with open_client(server) as client:
        await client.call_tool("x", on_progress=seen.append)
        token = server.requests("tools/call")[0]["params"]["_meta"]["progressToken"]
        server.tell("notifications/progress", progressToken=token, progress=4)
        server.tell("notifications/progress", progressToken="never given", progress=5)
        server.tell("notifications/progress", progressToken=None, progress=6)
        await trio.testing.wait_all_tasks_blocked()
        await still_works(client)
    assert len(seen) == 3


async def still_works(client: Client) -> None:
    assert (await client.call_tool("x", on_progress=lambda _: None)).content == ()
