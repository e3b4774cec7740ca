"""The pages basic/utilities/progress and basic/patterns/progress, between our client and our server."""

from __future__ import annotations

from typing import Any

import pytest
from meeting import LEGACY, Meeting, meet, shows
from tape import Tape

from trio_mcp import Context, Progress, Revision, Server, open_client
from trio_mcp.types import CreateMessageResult, TextContent

PAGES = ("basic/utilities/progress", "basic/patterns/progress")


@shows(PAGES, "Progress Flow")
@shows(PAGES, "Behavior Requirements")
@meet
async def test_progress_carries_the_token_of_its_request_and_only_grows(meeting: Meeting) -> None:
    """`message` exists from 2025-03-26 on. What would not be more than before is not sent."""
    seen: list[Progress] = []
    await meeting.client.call_tool("count", {"to": 3}, on_progress=seen.append)
    token = meeting.request("tools/call")["params"]["_meta"]["progressToken"]
    assert isinstance(token, (str, int))
    expected: list[dict[str, Any]] = [
        {"progressToken": token, "progress": 1, "total": 3, "message": "at 1"},
        {"progressToken": token, "progress": 2, "total": 3, "message": "at 2"},
        {"progressToken": token, "progress": 3, "total": 3, "message": "at 3"},
        {"progressToken": token, "progress": 3.5, "total": 3, "message": "half more"},
    ]
    if meeting.revision == "2024-11-05":
        for one in expected:
            del one["message"]
    assert meeting.notes("notifications/progress") == expected
    assert [(one.progress, one.total) for one in seen] == [(1, 3), (2, 3), (3, 3), (3.5, 3)]


@shows(PAGES, "Behavior Requirements")
@meet
async def test_a_total_that_is_not_known_is_left_out(meeting: Meeting) -> None:
    await meeting.client.call_tool("count", {"to": 1, "total": False}, on_progress=lambda _: None)
    notes = meeting.notes("notifications/progress")
    assert [one["progress"] for one in notes] == [1, 1.5]
    assert not [one for one in notes if "total" in one]


@shows(PAGES, "Progress Flow")
@shows(PAGES, "Behavior Requirements")
@meet
async def test_who_does_not_ask_for_progress_gets_none(meeting: Meeting) -> None:
    await meeting.client.call_tool("count", {"to": 3})
    assert "progressToken" not in meeting.request("tools/call")["params"].get("_meta", {})
    assert not meeting.notes("notifications/progress")


@shows(PAGES, "Implementation Notes")
@shows(PAGES, "Behavior Requirements")
@meet
async def test_progress_stops_with_the_answer(meeting: Meeting) -> None:
    await meeting.client.call_tool("count", {"to": 3}, on_progress=lambda _: None)
    assert "id" in meeting.received[-1]
    assert [message.get("method") for message in meeting.received].count("notifications/progress") == 4


@pytest.mark.spec(PAGES[0], "Progress Flow")
@pytest.mark.spec(PAGES[0], "Behavior Requirements")
@pytest.mark.parametrize("revision", LEGACY)
async def test_a_server_asks_for_progress_as_well(revision: Revision) -> None:
    """In the legacy era either side may."""
    server, tape, seen = Server("asking"), Tape(), list[float]()

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.sample("?", max_tokens=1, on_progress=lambda one: seen.append(one.progress))
        return answer.text

    async def model(_: Any) -> CreateMessageResult:
        (question,) = [m for m in tape.received if m.get("method") == "sampling/createMessage"]
        token = question["params"]["_meta"]["progressToken"]
        await client.notify("notifications/progress", {"progressToken": token, "progress": 0.5, "total": 1})
        return CreateMessageResult(role="assistant", content=TextContent(text="x"), model="m")

    async with open_client(server, revision=revision, on_sample=model, on_frame=tape) as client:
        await client.call_tool("ask")
    assert seen == [0.5]
