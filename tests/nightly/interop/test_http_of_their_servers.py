"""Our client and the servers of other implementations over HTTP: what only HTTP has, on the real clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest
import trio
from connecting import HANGS, LIMITS, every, text_of
from environments import PYTHON_1_30, PYTHON_2_3, TYPESCRIPT_1_32
from http_recorder import HttpRecorder, open_http_recorder
from listening import Listener
from recordings import HttpExchange
from their_servers import HTTP_SERVERS, TheirServer

import trio_mcp
from trio_mcp import Client, Era, McpError, Progress, Revision

LEGACY: Final = Revision.V2025_11_25
STREAMABLE: Final = [server for server in HTTP_SERVERS if server.transport == "streamable-http"]
LOW: Final = [
    server
    for server in STREAMABLE
    if server.name != "python high-level"
    and server.environment in {PYTHON_1_30, PYTHON_2_3, TYPESCRIPT_1_32}
    and server.name != "typescript high-level"
]
"""One of each SDK that keeps what it says for those who lose a connection."""


@asynccontextmanager
async def recording_client(listener: Listener, revision: Revision) -> AsyncGenerator[tuple[Client, HttpRecorder]]:
    """Connect to a server over Streamable HTTP, with the network in hand."""
    with trio.fail_after(HANGS):
        async with (
            open_http_recorder(listener.url("streamable-http")) as recorder,
            trio_mcp.open_client(recorder.url, limits=LIMITS, revision=revision) as client,
        ):
            yield client, recorder
    recorder.recording.check("client")


async def wait_until(condition: Callable[[], object]) -> None:
    """Wait for something that the recorder sees."""
    while not condition():
        await trio.sleep(0.01)


def carriers(recorder: HttpRecorder, tool: str) -> list[HttpExchange]:
    """Return the requests that called a tool."""
    return [
        exchange
        for exchange in recorder.recording.exchanges
        if any(message.get("params", {}).get("name") == tool for message in exchange.messages)
    ]


async def end_a_block(client: Client) -> None:
    """Let those who wait for the end of a `block` go on."""
    with trio.CancelScope() as scope:

        def give_up(_: Progress) -> None:
            scope.cancel()

        await client.call_tool("block", on_progress=give_up)


@pytest.mark.parametrize("other", LOW, ids=[server.id for server in LOW])
async def test_a_call_outlives_its_connection(other: TheirServer) -> None:
    """2025-11-25, basic/transports, "Resumability and Redelivery": what was missed comes by another request."""
    heard: list[str] = []
    with other.open_listener() as listener:
        async with (
            recording_client(listener, LEGACY) as (client, recorder),
            trio.open_nursery() as nursery,
        ):

            async def wait_for_the_end() -> None:
                heard.append(text_of(await client.call_tool("ended")))

            nursery.start_soon(wait_for_the_end)
            await wait_until(lambda: any(exchange.event_ids for exchange in carriers(recorder, "ended")))
            await recorder.cut()
            await end_a_block(client)
    (call,) = carriers(recorder, "ended")
    assert not call.is_complete
    assert heard == ["a block ended"]
    resumed = [
        exchange.asked["last-event-id"]
        for exchange in recorder.recording.exchanges
        if "last-event-id" in exchange.asked
    ]
    assert call.event_ids[-1] in resumed


@pytest.mark.parametrize("other", LOW, ids=[server.id for server in LOW])
async def test_a_lost_session_is_begun_anew(other: TheirServer) -> None:
    """2025-11-25, basic/transports, "Session Management": 404 means one handshake, and the call is made again."""
    with other.open_listener() as listener, other.open_listener() as another:
        async with recording_client(listener, LEGACY) as (client, recorder):
            assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
            await recorder.cut(another.url("streamable-http"))
            assert text_of(await client.call_tool("add", {"a": 20, "b": 22})) == "42"
    assert [exchange.status for exchange in carriers(recorder, "add")] == [200, 404, 200]
    handshakes = recorder.recording.messages("client", "initialize")
    assert len(handshakes) == 2
    goodbyes = [exchange for exchange in recorder.recording.exchanges if exchange.method == "DELETE"]
    assert len(goodbyes) == 1


@every(STREAMABLE)
@pytest.mark.parametrize("era", ["legacy", "modern", "sse"])
async def test_an_era_that_is_told_is_not_asked_for(server: TheirServer, era: Era) -> None:
    """`ClientOptions.era`: what is known is tried alone."""
    speaks = {"legacy": True, "modern": server.agreed.is_modern, "sse": False}[era]
    assert server.url is not None
    with trio.fail_after(HANGS):
        async with open_http_recorder(server.url) as recorder:
            if speaks:
                async with trio_mcp.open_client(recorder.url, era=era, limits=LIMITS) as client:
                    assert client.revision.is_modern == (era == "modern")
                    assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
            else:
                with pytest.raises(McpError):
                    async with trio_mcp.open_client(recorder.url, era=era, limits=LIMITS):
                        pytest.fail("it does not speak that")
    methods = {message["method"] for message in recorder.recording.messages("client")}
    assert ("server/discover" in methods) == (era == "modern")
    assert ("initialize" in methods) == (era == "legacy")
