"""What becomes of what cannot be had where HTTP is served without streams, or without sessions.

Every feature that these modes have is in `tests/memory/matrix`, and why they have no others.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from meeting import MODES, Meeting, meet, text_of

from trio_mcp import Revision

JSON = pytest.mark.parametrize("binding", ["json"])
STATELESS = pytest.mark.parametrize("binding", ["stateless"])
SESSIONS = pytest.mark.parametrize("revision", MODES["stateless"])


@JSON
@pytest.mark.parametrize("revision", MODES["json"])
@meet
async def test_without_streams_every_answer_is_one_object(meeting: Meeting) -> None:
    await meeting.client.call_tool("count", {"to": 3}, on_progress=lambda _: None)
    assert text_of(await meeting.client.call_tool("echo", {"text": "x"})) == "x"
    posts = [one for one in meeting.seen if "id" in one.message]
    assert len(posts) >= 2
    assert {one.content_type for one in posts} == {"application/json"}


@JSON
@pytest.mark.parametrize("revision", MODES["json"])
@meet
async def test_without_streams_reports_take_the_sessions_own_or_none(meeting: Meeting) -> None:
    """They all come, and in their order, but not in order with the answer; the modern era has no other stream."""
    seen: list[float] = []
    await meeting.client.set_log_level("critical")
    await meeting.client.call_tool("count", {"to": 3}, on_progress=lambda one: seen.append(one.progress))
    await meeting.client.call_tool("log_all")
    if meeting.is_modern:
        await meeting.client.call_tool("echo", {"text": "later"})
        assert not [m for m in meeting.received if "method" in m]
        assert not seen
        return
    await meeting.heard(3)
    assert [one["progress"] for one in meeting.notes("notifications/progress")] == [1, 2, 3, 3.5]
    assert [one.level for one in meeting.host.logged] == ["critical", "alert", "emergency"]


@JSON
@pytest.mark.parametrize("revision", MODES["json"])
@meet
async def test_without_streams_a_call_is_given_up_all_the_same(meeting: Meeting) -> None:
    name = f"without streams in {meeting.revision}"
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(meeting.client.call_tool, "wait", {"name": name})
            await meeting.noted(f"{name} began")
            scope.cancel()
    await meeting.noted(f"{name} was cancelled")
    (call,) = [m for m in meeting.requests("tools/call") if m["params"]["name"] == "wait"]
    assert meeting.goodbyes() == [call["id"]]
    assert not [m for m in meeting.received if m.get("id") == call["id"]]


@STATELESS
@SESSIONS
@meet
async def test_without_sessions_there_is_no_id_and_no_stream_of_the_servers_own(meeting: Meeting) -> None:
    """The client tries to listen once, and sends no cancellation: there is nothing to end."""
    await meeting.client.ping()
    assert not [one for one in meeting.log.seen if "mcp-session-id" in one.headers]
    assert [one.status for one in meeting.log.seen if one.method == "GET"] == [405]
    assert {one.method for one in meeting.log.seen} == {"GET", "POST"}


@STATELESS
@SESSIONS
@pytest.mark.parametrize(
    ("tool", "arguments", "capability"),
    [("where", {}, "roots"), ("sample", {"what": "text"}, "sampling"), ("insist", {}, "elicitation")],
)
@meet
async def test_without_sessions_a_client_can_be_asked_nothing(
    meeting: Meeting, tool: str, arguments: dict[str, Any], capability: str
) -> None:
    """Nobody remembers what it can do. The refusal is that of a client that cannot, and comes at once."""
    error = await meeting.refused(lambda: meeting.client.call_tool(tool, arguments), -32600)
    if meeting.revision >= Revision.V2025_06_18 or capability != "elicitation":
        required: Any = error.data
        assert list(required["requiredCapabilities"]) == [capability]
    assert not [m for m in meeting.received if "method" in m]
    asked = await meeting.client.call_tool("ask", {"form": "name"})
    assert text_of(asked).startswith("cannot ask: ")


@STATELESS
@SESSIONS
@meet
async def test_without_sessions_no_client_is_notified_of_changes(meeting: Meeting) -> None:
    """Subscribing is for nothing, and what has changed is found by looking."""
    client = meeting.client
    async with client.listen(tools_list_changed=True, resources=["note://today"]):
        names = {tool.name async for tool in client.list_tools()}
        await client.call_tool("change", {"kind": "tools"})
        await client.call_tool("update", {"uri": "note://today"})
        assert {tool.name async for tool in client.list_tools(fresh=True)} ^ names == {"extra"}
        await client.call_tool("change", {"kind": "tools"})
    assert not [m for m in meeting.received if "method" in m]


@STATELESS
@SESSIONS
@meet
async def test_without_sessions_a_log_level_is_not_kept(meeting: Meeting) -> None:
    """Each request has the level that holds before there is one."""
    await meeting.client.set_log_level("emergency")
    await meeting.client.call_tool("log_all")
    assert meeting.notes("notifications/message")[0]["level"] == "info"


@STATELESS
@SESSIONS
@meet
async def test_without_sessions_what_is_given_up_is_cancelled_by_the_disconnect(meeting: Meeting) -> None:
    """The notification finds nobody, and the client that has said it leaves the response."""
    name = f"without sessions in {meeting.revision}"
    with trio.CancelScope() as scope:
        await meeting.client.call_tool("wait", {"name": name}, on_progress=lambda _: scope.cancel())
    await meeting.noted(f"{name} was cancelled")
    assert len(meeting.goodbyes()) == 1
