"""The page basic/utilities/ping of the legacy era; the modern era has no ping."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from meeting import LEGACY, MODERN, Meeting, meet
from scripted_server import ScriptedServer

from trio_mcp import Context, LocalProtocolError, Revision, Server, open_client

PING = "basic/utilities/ping"


@pytest.mark.spec(PING, "Overview")
@pytest.mark.spec(PING, "Message Format")
@pytest.mark.spec(PING, "Behavior Requirements")
@pytest.mark.spec(PING, "Usage Patterns")
@pytest.mark.parametrize("revision", LEGACY)
@meet
async def test_a_client_pings_and_is_answered(meeting: Meeting) -> None:
    with trio.CancelScope(shield=True):  # a deadline would be told in `_meta`
        await meeting.client.ping()
    request = meeting.request("ping")
    assert request.keys() == {"jsonrpc", "id", "method"}
    assert meeting.answer("ping") == {"jsonrpc": "2.0", "id": request["id"], "result": {}}


@pytest.mark.spec(PING, "Overview")
@pytest.mark.spec(PING, "Behavior Requirements")
@pytest.mark.spec(PING, "Usage Patterns")
@pytest.mark.parametrize("revision", LEGACY)
async def test_a_server_pings_and_is_answered(revision: Revision) -> None:
    server = ScriptedServer(revision)
    async with open_client(server, revision=revision):
        assert await server.ask("ping", id="p") == {"jsonrpc": "2.0", "id": "p", "result": {}}


@pytest.mark.spec(PING, "Overview")
@pytest.mark.parametrize("revision", LEGACY)
async def test_a_handler_pings_its_client(revision: Revision) -> None:
    server = Server("pinging")
    answers: list[object] = []

    @server.tool
    async def reach(ctx: Context) -> str:
        answers.append(await ctx.request("ping"))
        return "reached"

    async with open_client(server, revision=revision) as client:
        await client.call_tool("reach")
    assert answers == [{}]


@pytest.mark.spec(PING, "Behavior Requirements")
@pytest.mark.spec(PING, "Implementation Considerations")
@pytest.mark.spec(PING, "Error Handling")
@pytest.mark.parametrize("revision", LEGACY)
async def test_a_ping_that_is_not_answered_in_time_fails(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    """How long is the caller's choice; what becomes of the connection then is, too."""
    server = ScriptedServer(revision, {"ping": lambda _: None})
    async with open_client(server, revision=revision) as client:
        with pytest.raises(trio.TooSlowError), trio.fail_after(3):
            await client.ping()
        assert trio.current_time() >= 3
        await trio.testing.wait_all_tasks_blocked()
        (request,) = server.requests("ping")
        (goodbye,) = server.notifications("notifications/cancelled")
        assert goodbye["params"]["requestId"] == request["id"]


@pytest.mark.parametrize("revision", [MODERN])
@meet
async def test_the_modern_era_discovers_instead(meeting: Meeting) -> None:
    await meeting.client.ping()
    assert [message["method"] for message in meeting.sent] == ["server/discover"]
    with pytest.raises(LocalProtocolError):
        await meeting.client.request("ping")
