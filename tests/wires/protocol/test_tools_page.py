"""The page server/tools of every revision, between our client and our server."""

from __future__ import annotations

import pytest
from meeting import Meeting, meet, text_of

TOOLS = "server/tools"


@pytest.mark.spec(TOOLS, "List Changed Notification")
@pytest.mark.spec(TOOLS, "Message Flow")
@meet
async def test_clients_are_notified_when_the_list_changes(meeting: Meeting) -> None:
    client = meeting.client
    async with client.listen(tools_list_changed=True) as events:
        await client.call_tool("change", {"kind": "tools"})
        await anext(events)
        (note,) = meeting.notes("notifications/tools/list_changed")
        if meeting.is_modern:
            (asked,) = meeting.requests("subscriptions/listen")
            assert asked["params"]["notifications"] == {"toolsListChanged": True}
            assert note == {"_meta": {"io.modelcontextprotocol/subscriptionId": asked["id"]}}
        else:
            assert note == {}
        assert "extra" in [one.name async for one in client.list_tools()]
        assert text_of(await client.call_tool("extra")) == "extra"
        await client.call_tool("change", {"kind": "tools"})
        await anext(events)
    await meeting.refused(lambda: client.call_tool("extra"), -32602)
    assert "extra" not in [one.name async for one in client.list_tools()]
