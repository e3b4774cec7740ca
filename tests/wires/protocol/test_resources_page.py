"""The page server/resources of every revision, between our client and our server."""

from __future__ import annotations

import pytest
from meeting import Meeting, meet

RESOURCES = "server/resources"


@pytest.mark.spec(RESOURCES, "Subscriptions")
@pytest.mark.spec(RESOURCES, "Message Flow")
@meet
async def test_clients_are_notified_when_a_resource_they_listen_to_changes(meeting: Meeting) -> None:
    client = meeting.client
    async with client.listen(resources=["note://today"]) as events:
        await client.call_tool("update", {"uri": "picture://logo"})
        await client.call_tool("update", {"uri": "note://today"})
        await anext(events)
        (note,) = meeting.notes("notifications/resources/updated")
        if meeting.is_modern:
            id = meeting.request("subscriptions/listen")["id"]
            meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}
            assert note == {"uri": "note://today", **meta}
        else:
            assert meeting.params("resources/subscribe") == {"uri": "note://today"}
            assert meeting.result("resources/subscribe") == {}
            assert note == {"uri": "note://today"}
    if not meeting.is_modern:
        assert meeting.params("resources/unsubscribe") == {"uri": "note://today"}
    await client.call_tool("update", {"uri": "note://today"})
    assert len(meeting.notes("notifications/resources/updated")) == 1
