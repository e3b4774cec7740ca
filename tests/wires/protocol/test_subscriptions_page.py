"""The page basic/patterns/subscriptions of 2026-07-28, and what older revisions have in its place."""

from __future__ import annotations

import pytest
from meeting import Meeting, meet
from talking import SUBSCRIPTION_ID

from trio_mcp import (
    PromptsListChanged,
    ToolsListChanged,
)

SUBSCRIPTIONS = "basic/patterns/subscriptions"
TODAY = "note://today"


@pytest.mark.spec(SUBSCRIPTIONS, "Multiple Concurrent Subscriptions")
@pytest.mark.spec(SUBSCRIPTIONS, "Receiving Notifications")
@meet
async def test_several_listeners_receive_what_each_has_asked_for(meeting: Meeting) -> None:
    """By ids of their own in the modern era; in the legacy era the client tells them apart."""
    client = meeting.client
    async with (
        client.listen(tools_list_changed=True) as tools,
        client.listen(prompts_list_changed=True) as prompts,
    ):
        await client.call_tool("change", {"kind": "prompts"})
        assert await anext(prompts) == PromptsListChanged()
        await client.call_tool("change", {"kind": "tools"})
        assert await anext(tools) == ToolsListChanged()
        assert tools.waiting == prompts.waiting == 0
        await client.call_tool("change", {"kind": "tools"})
        await client.call_tool("change", {"kind": "prompts"})
        await anext(tools)
        await anext(prompts)
    if meeting.is_modern:
        ids = [message["id"] for message in meeting.requests("subscriptions/listen")]
        assert len(set(ids)) == 2
        for method, id in zip(("tools", "prompts"), ids, strict=True):
            notes = meeting.notes(f"notifications/{method}/list_changed")
            assert {note["_meta"][SUBSCRIPTION_ID] for note in notes} == {id}


@pytest.mark.spec(SUBSCRIPTIONS, "Cancellation")
@pytest.mark.spec("basic/patterns/cancellation", "Transport-Specific Cancellation")
@meet
async def test_leaving_ends_the_subscription(meeting: Meeting) -> None:
    """By a cancellation in the modern era, by unsubscribing before."""
    client = meeting.client
    async with client.listen(tools_list_changed=True, resources=[TODAY]):
        pass
    await client.call_tool("update", {"uri": TODAY})
    if meeting.is_modern:
        (asked,) = meeting.requests("subscriptions/listen")
        assert meeting.goodbyes() == [asked["id"]]
    else:
        assert meeting.params("resources/unsubscribe") == {"uri": TODAY}
        assert not meeting.goodbyes()
    assert not meeting.notes("notifications/resources/updated")
