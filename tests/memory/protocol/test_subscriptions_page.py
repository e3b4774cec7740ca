"""The page basic/patterns/subscriptions of 2026-07-28, and what older revisions have in its place."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from meeting import LEGACY, MODERN, Meeting, meet
from talking import SUBSCRIPTION_ID, connect, listen, request
from tape import Tape

from trio_mcp import (
    ConnectionLost,
    ResourceUpdated,
    Revision,
    Server,
    Shutdown,
    ToolsListChanged,
    memory_channel_pair,
    open_client,
)

SUBSCRIPTIONS = "basic/patterns/subscriptions"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TODAY = "note://today"


@pytest.mark.spec(SUBSCRIPTIONS, "Opening a Stream")
@pytest.mark.spec(SUBSCRIPTIONS, "Notification Filter")
@pytest.mark.spec(SUBSCRIPTIONS, "Acknowledgment")
@pytest.mark.spec(SUBSCRIPTIONS, "Receiving Notifications")
@pytest.mark.parametrize("revision", [MODERN])
@meet
async def test_only_what_was_asked_for_is_notified_and_after_the_acknowledgment(meeting: Meeting) -> None:
    client = meeting.client
    async with client.listen(tools_list_changed=True, resources=[TODAY]) as events:
        (asked,) = meeting.requests("subscriptions/listen")
        wanted = {"toolsListChanged": True, "resourceSubscriptions": [TODAY]}
        assert asked["params"]["notifications"] == wanted
        acknowledged = {"_meta": {SUBSCRIPTION_ID: asked["id"]}, "notifications": wanted}
        assert meeting.notes(ACKNOWLEDGED) == [acknowledged]
        assert list(events.acknowledged.resource_subscriptions or ()) == [TODAY]
        for kind in ("prompts", "resources", "tools"):
            for _ in range(2):
                await client.call_tool("change", {"kind": kind})
        assert await anext(events) == ToolsListChanged()
        await client.call_tool("update", {"uri": TODAY})
        while await anext(events) != ResourceUpdated(TODAY):
            pass
    of_it = [m for m in meeting.received if SUBSCRIPTION_ID in m.get("params", {}).get("_meta", {})]
    assert of_it[0]["method"] == ACKNOWLEDGED
    assert {m["method"] for m in of_it[1:]} == {
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    }
    assert {m["params"]["_meta"][SUBSCRIPTION_ID] for m in of_it} == {asked["id"]}
    notes = [m for m in meeting.received if "id" not in m]
    assert notes == of_it, "nothing is told but what belongs to the subscription"


@pytest.mark.spec(SUBSCRIPTIONS, "Acknowledgment", revisions=str(MODERN))
@pytest.mark.spec(SUBSCRIPTIONS, "Notification Filter", revisions=str(MODERN))
async def test_what_a_server_has_not_is_left_out_of_the_acknowledgment() -> None:
    server = Server("tools only")
    server.tool(name="only")(lambda: "x")
    asked: Any = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
    async with (
        open_client(server, revision=MODERN) as client,
        client.listen(resources=["x://y"], **asked) as events,
    ):
        agreed = events.acknowledged
        assert agreed.tools_list_changed is True
        assert not agreed.prompts_list_changed
        assert not agreed.resources_list_changed
        assert not agreed.resource_subscriptions


@pytest.mark.spec(SUBSCRIPTIONS, "Opening a Stream", revisions=str(MODERN))
@pytest.mark.parametrize(
    "params", [{}, {"notifications": 5}, {"notifications": {"toolsListChanged": "yes"}}], ids=str
)
async def test_a_request_that_cannot_be_read_is_refused(params: dict[str, Any], nursery: trio.Nursery) -> None:
    talk = await connect(nursery, Server("any"))
    (answer,) = await talk.say(request(1, "subscriptions/listen", MODERN, **params))
    assert answer["error"]["code"] == -32602
    nursery.cancel_scope.cancel()


@pytest.mark.spec(SUBSCRIPTIONS, "Graceful Closure", revisions=str(MODERN))
@pytest.mark.spec(SUBSCRIPTIONS, "Cancellation", revisions=str(MODERN))
async def test_a_server_that_ends_answers_its_subscriptions() -> None:
    """The client goes on listening, until there is no connection any more."""
    server, shutdown, tape = Server("ending"), Shutdown(), Tape()
    server.tool(name="only")(lambda: "x")
    ours, theirs = memory_channel_pair()
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await server.serve_channel(theirs, shutdown=shutdown)

        nursery.start_soon(serve)
        async with (
            open_client(ours, revision=MODERN, on_frame=tape) as client,
            client.listen(tools_list_changed=True) as events,
        ):
            shutdown.drain()
            with pytest.raises(ConnectionLost):
                await anext(events)
    (id,) = tape.requests("subscriptions/listen")
    (answer,) = [m for m in tape.received if m.get("id") == id]
    assert answer["result"]["resultType"] == "complete"
    assert answer["result"]["_meta"][SUBSCRIPTION_ID] == id


@pytest.mark.parametrize("revision", LEGACY)
async def test_older_revisions_have_no_such_request(revision: Revision, nursery: trio.Nursery) -> None:
    talk = await connect(nursery, Server("any"))
    await talk.shake_hands(revision)
    asked = listen(1, toolsListChanged=True)
    del asked["params"]["_meta"]
    (answer,) = await talk.say(asked)
    assert answer["error"]["code"] == -32601
    nursery.cancel_scope.cancel()
