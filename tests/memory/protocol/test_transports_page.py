"""The page basic/transports of every revision, and those below it of 2026-07-28: what goes over the wire, and how.

Between our client and our server. What either does with others, regular and rude, is in `tests/memory/bindings`,
`tests/memory/http` and `tests/memory/http_server`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from meeting import ALL, LEGACY, MODERN, Meeting, meet, text_of
from tape import Tape

from trio_mcp import (
    Channel,
    MemoryChannel,
    Outgoing,
    Received,
    Revision,
    Server,
    memory_channel_pair,
    open_client,
)

OLD = "basic/transports"
INDEX = "basic/transports/index"
STDIO = "basic/transports/stdio"
HTTP = "basic/transports/streamable-http"
BY_HTTP = pytest.mark.parametrize("binding", ["asgi", pytest.param("http", marks=pytest.mark.nightly)])
SESSIONS = pytest.mark.parametrize("revision", LEGACY[1:])
IN_MODERN = pytest.mark.parametrize("revision", [MODERN])
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


@pytest.mark.spec(STDIO, "Request Metadata")
@pytest.mark.spec(INDEX, "Request Metadata")
@pytest.mark.spec(HTTP, "Request Metadata")
@IN_MODERN
@meet
async def test_every_request_says_its_revision(meeting: Meeting) -> None:
    await meeting.client.call_tool("echo", {"text": "x"})
    _ = [tool async for tool in meeting.client.list_tools(fresh=True)]
    requests = [message for message in meeting.sent if "id" in message]
    assert len(requests) > 1
    assert {message["params"]["_meta"][VERSION_KEY] for message in requests} == {MODERN}
    for one in meeting.seen:
        assert one.headers["mcp-protocol-version"] == MODERN
        assert one.headers["mcp-method"] == one.message["method"]


@pytest.mark.spec(OLD, "Streamable HTTP")
@pytest.mark.spec(OLD, "Sending Messages to the Server")
@BY_HTTP
@SESSIONS
@meet
async def test_every_message_is_a_post_of_its_own(meeting: Meeting) -> None:
    """Requests are answered by JSON or a stream, the rest by 202 and nothing."""
    await meeting.client.call_tool("echo", {"text": "x"})
    await meeting.client.call_tool("count", {"to": 2}, on_progress=lambda _: None)
    await meeting.client.call_tool("where")  # asks, and so is answered by a POST
    await meeting.client.roots_changed()
    await meeting.noted("roots changed")
    await meeting.taken()
    posts = [one for one in meeting.seen if one.method == "POST"]
    assert [one.message for one in posts] == meeting.sent
    for one in posts:
        assert {"application/json", "text/event-stream"} <= {
            each.strip() for each in one.headers["accept"].split(",")
        }
        is_request = "id" in one.message and "method" in one.message
        assert one.status == (200 if is_request else 202)
        assert one.content_type in (("application/json", "text/event-stream") if is_request else (None,))
    kinds = {one.message["params"]["name"]: one.content_type for one in posts if one.rpc == "tools/call"}
    assert kinds["echo"] == "application/json"
    assert kinds["count"] == kinds["where"] == "text/event-stream"


@pytest.mark.spec(OLD, "Listening for Messages from the Server")
@pytest.mark.spec(OLD, "Multiple Connections")
@BY_HTTP
@SESSIONS
@meet
async def test_what_belongs_to_no_request_comes_once_and_on_the_servers_own_stream(meeting: Meeting) -> None:
    """The stream is open before the first call; a change is told on it and on no other, also while others are open."""
    asked = [one for one in meeting.log.seen if one.method == "GET" or one.rpc == "tools/call"]
    assert asked[0].method == "GET"
    assert asked[0].content_type == asked[0].headers["accept"] == "text/event-stream"
    async with trio.open_nursery() as nursery, meeting.client.listen(tools_list_changed=True) as events:
        nursery.start_soon(meeting.client.call_tool, "wait", {"name": "on a stream"})
        await meeting.noted("on a stream began")
        for _ in range(2):
            await meeting.client.call_tool("change", {"kind": "tools"})
            await anext(events)
        nursery.cancel_scope.cancel()
    assert len(meeting.notes("notifications/tools/list_changed")) == 2


@pytest.mark.spec(HTTP, "Sending Messages")
@pytest.mark.spec(HTTP, "Receiving Messages")
@pytest.mark.spec(HTTP, "Message Flow")
@BY_HTTP
@IN_MODERN
@meet
async def test_a_request_is_one_post_and_its_response(meeting: Meeting) -> None:
    """JSON if nothing comes before the answer, and else a stream that ends with it; a question is an answer as well."""
    await meeting.client.call_tool("echo", {"text": "x"})
    await meeting.client.call_tool("count", {"to": 2}, on_progress=lambda _: None)
    await meeting.client.call_tool("where")
    assert [one.message for one in meeting.seen] == meeting.sent
    assert [(one.method, one.status, one.end) for one in meeting.seen] == [("POST", 200, "complete")] * 4
    assert [one.content_type for one in meeting.seen] == [
        "application/json", "text/event-stream", "application/json", "application/json",
    ]  # fmt: skip
    assert not [one for one in meeting.seen if "mcp-session-id" in one.headers]


@pytest.mark.spec(HTTP, "Standard Request Headers")
@pytest.mark.spec(HTTP, "Custom Headers from Tool Parameters")
@pytest.mark.spec(HTTP, "Value Encoding")
@pytest.mark.spec(HTTP, "Client Behavior")
@BY_HTTP
@IN_MODERN
@meet
async def test_marked_arguments_are_in_header_fields_as_well(meeting: Meeting) -> None:
    _ = [tool async for tool in meeting.client.list_tools(fresh=True)]
    fields = {
        "us-west1": "us-west1",
        "Hello, 世界": "=?base64?SGVsbG8sIOS4lueVjA==?=",
        " us": "=?base64?IHVz?=",
    }
    for region, header in fields.items():
        result = await meeting.client.call_tool("route", {"region": region, "statement": "SELECT 1"})
        assert text_of(result) == f"SELECT 1 in {region}"
        headers = meeting.seen[-1].headers
        assert headers["mcp-name"] == "route"
        assert headers["mcp-param-region"] == header


class _OwnChannel(Channel):
    """A transport that somebody else has made."""

    def __init__(self, inner: MemoryChannel) -> None:
        self._inner = inner

    async def receive(self) -> Sequence[Received]:
        return await self._inner.receive()

    async def send(self, messages: Sequence[Outgoing]) -> None:
        await self._inner.send(messages)

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.mark.spec(OLD, "Custom Transports")
@pytest.mark.spec(INDEX, "Custom Transports")
@pytest.mark.parametrize("revision", ALL)
async def test_anything_that_carries_messages_both_ways_will_do(revision: Revision) -> None:
    """The messages, and how a connection begins, are the same."""
    server, tape = Server("anywhere"), Tape()

    @server.tool
    async def echo(text: str) -> str:
        return text

    ours, theirs = memory_channel_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_channel, _OwnChannel(theirs))
        async with open_client(_OwnChannel(ours), revision=revision, on_frame=tape) as client:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    hello: dict[str, Any] = tape.sent[0]
    assert hello["method"] == ("server/discover" if revision.is_modern else "initialize")
