"""`subscriptions/listen`: acknowledged, tagged, bounded, ended by either side (2026-07-28, basic/patterns/subscriptions)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from eras import LEGACY_ENDS
from inside_base import (
    CANCELLED_BY_DEADLINE,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    SERVER_BUSY,
)
from inside_peer import open_peer
from inside_server import ListKind
from raw import modern
from shared.server_serve_listen import ACKNOWLEDGED, acknowledged, ended, tag
from talking import Talk, connect, full_server, listen, note, request, session_of
from wires import ScriptedChannel

from trio_mcp import Context, Incoming, Limits, Outgoing, Revision, Server, Shutdown, memory_channel_pair

V07 = Revision.V2026_07_28
IDS = pytest.mark.parametrize("id", [1, 0, "s", "", -7])


def cancelled(id: int | str) -> dict[str, Any]:
    return note("notifications/cancelled", requestId=id)


# Acknowledgment.


@pytest.mark.spec("basic/patterns/subscriptions", "Acknowledgment", revisions="2026-07-28")
@pytest.mark.spec("basic/patterns/subscriptions", "Receiving Notifications", revisions="2026-07-28")
@IDS
async def test_what_is_granted_is_acknowledged_and_comes_tagged(id: int | str, nursery: trio.Nursery) -> None:
    """ "Acknowledgment", "Receiving Notifications": the value is the request's id, of its own type."""
    server = full_server()
    talk = await connect(nursery, server)
    uri = "file:///project/config.json"
    messages = await talk.say(listen(id, toolsListChanged=True, resourceSubscriptions=[uri, uri]))
    assert messages == [acknowledged(id, toolsListChanged=True, resourceSubscriptions=[uri])]
    await talk.new()
    await server.resource_updated(uri)
    server.list_changed("tools")
    assert await talk.new() == [
        note("notifications/resources/updated", _meta=tag(id), uri=uri),
        note("notifications/tools/list_changed", _meta=tag(id)),
    ]
    nursery.cancel_scope.cancel()


async def test_a_change_costs_each_listener_one_pass(nursery: trio.Nursery) -> None:
    """There may be thousands of them."""
    steps: list[str] = []

    class Steps(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            steps.append(task.name)

    server = full_server()
    talk = await connect(nursery, server)
    for id in range(3):
        await talk.say(listen(id, resourceSubscriptions=["file:///x"]))
    await talk.new()
    trio.lowlevel.add_instrument(instrument := Steps())
    await server.resource_updated("file:///x")
    assert len(await talk.new()) == 3
    trio.lowlevel.remove_instrument(instrument)
    assert len([name for name in steps if name.startswith("serving")]) == 3
    nursery.cancel_scope.cancel()


@pytest.mark.spec("basic/patterns/subscriptions", "Notification Filter", revisions="2026-07-28")
@pytest.mark.parametrize("kind", ["tools", "prompts", "resources"])
async def test_each_kind_is_asked_for_by_itself(kind: Any, nursery: trio.Nursery) -> None:
    """ "Notification Filter": omitting a field, or `false`, is not subscribing."""
    server = full_server()
    talk = await connect(nursery, server)
    others = {f"{other}ListChanged": False for other in ("tools", "prompts", "resources") if other != kind}
    wanted = {f"{kind}ListChanged": True, **others}
    assert await talk.say(listen(1, **wanted)) == [acknowledged(1, **{f"{kind}ListChanged": True})]
    await talk.new()
    for other in ("tools", "prompts", "resources"):
        server.list_changed(other)
    await server.resource_updated("file:///x")
    assert await talk.new() == [note(f"notifications/{kind}/list_changed", _meta=tag(1))]
    nursery.cancel_scope.cancel()


async def test_what_the_server_does_not_have_is_left_out(nursery: trio.Nursery) -> None:
    """ "Acknowledgment": notification types the server does not support are omitted."""
    server = Server("tools only", version="1")

    @server.tool
    async def one() -> None: ...

    talk = await connect(nursery, server)
    everything = {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources")}
    asked = listen(1, **everything, resourceSubscriptions=["file:///x"])
    assert await talk.say(asked) == [acknowledged(1, toolsListChanged=True)]
    await talk.new()
    server.list_changed("prompts")
    await server.resource_updated("file:///x")
    assert await talk.new() == []
    nursery.cancel_scope.cancel()


async def test_resources_that_do_not_exist_are_left_out(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    server = full_server()

    def knows(uri: str) -> bool:
        if uri == "file:///broken":
            raise OSError(uri)
        return uri == "file:///there"

    server._application.changes.knows = knows
    talk = await connect(nursery, server)
    asked = listen(1, resourceSubscriptions=["file:///there", "file:///absent"])
    assert await talk.say(asked) == [acknowledged(1, resourceSubscriptions=["file:///there"])]
    (refused,) = await talk.say(listen(3, resourceSubscriptions=["file:///there", "file:///not there"]))
    assert refused["error"]["data"] == {"uri": "file:///not there"}, "that is no URI"
    (broken,) = await talk.say(listen(2, resourceSubscriptions=["file:///broken"]))
    assert broken["error"] == {"code": -32603, "message": "internal error"}
    assert "file:///broken" in caplog.text
    nursery.cancel_scope.cancel()


async def test_an_empty_wish_is_granted_and_stays_open(nursery: trio.Nursery) -> None:
    talk = await connect(nursery, full_server())
    assert await talk.say(listen(1)) == [acknowledged(1)]
    assert await talk.say(listen(1)) != [], "the id is in use"
    nursery.cancel_scope.cancel()


@pytest.mark.spec("basic/patterns/subscriptions", "Acknowledgment", revisions="2026-07-28")
async def test_nothing_comes_before_the_acknowledgement(nursery: trio.Nursery) -> None:
    """ "Acknowledgment": MUST be first; what changes in between follows it."""
    server = full_server(Limits(max_outbox_bytes=1))
    talk = await connect(nursery, server)
    talk.channel.stop_reading()
    await talk.say(
        listen(1, toolsListChanged=True), listen(2, toolsListChanged=True), listen(3, promptsListChanged=True)
    )
    server.list_changed("tools")
    server.list_changed("prompts")
    talk.channel.reading.set()
    messages = await talk.new()
    for id, kind in ((1, "tools"), (2, "tools"), (3, "prompts")):
        own = [message["method"] for message in messages if message["params"]["_meta"] == tag(id)]
        assert own == [ACKNOWLEDGED, f"notifications/{kind}/list_changed"]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (None, "notifications"),
        ([], "notifications"),
        ({"toolsListChanged": "yes"}, "notifications.toolsListChanged"),
        ({"promptsListChanged": 1}, "notifications.promptsListChanged"),
        ({"resourceSubscriptions": "file:///x"}, "notifications.resourceSubscriptions"),
        ({"resourceSubscriptions": [7]}, "notifications.resourceSubscriptions[0]"),
    ],
)
async def test_invalid_parameters_of_listen_are_refused_by_name(
    wanted: object, field: str, nursery: trio.Nursery
) -> None:
    talk = await connect(nursery, full_server())
    params = {} if wanted is None else {"notifications": wanted}
    (answer,) = await talk.say(modern(1, "subscriptions/listen", **params))
    assert answer["error"]["code"] == INVALID_PARAMS
    assert field in answer["error"]["message"]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_the_legacy_era_does_not_have_it(revision: Revision, nursery: trio.Nursery) -> None:
    talk = await connect(nursery, full_server())
    await talk.shake_hands(revision)
    answer = await talk.ask("subscriptions/listen", revision, notifications={})
    assert answer["error"]["code"] == METHOD_NOT_FOUND
    nursery.cancel_scope.cancel()


async def test_a_handler_of_the_users_own_takes_its_place(nursery: trio.Nursery) -> None:
    server = full_server()

    @server.request_handler("subscriptions/listen")
    async def mine(params: Mapping[str, Any], _: Context[Any]) -> dict[str, Any]:
        return {"_meta": {"mine": params["notifications"]}}

    talk = await connect(nursery, server)
    (answer,) = await talk.say(listen(1, toolsListChanged=True))
    assert answer["result"]["_meta"]["mine"] == {"toolsListChanged": True}
    nursery.cancel_scope.cancel()


# How it ends.


@pytest.mark.spec("basic/patterns/subscriptions", "Cancellation", revisions="2026-07-28")
async def test_the_client_cancels_it(nursery: trio.Nursery) -> None:
    """ "Cancellation": nothing more is said, not even an answer; the others go on."""
    server = full_server()
    talk = await connect(nursery, server)
    await talk.say(listen(1, toolsListChanged=True), listen("1", toolsListChanged=True))
    await talk.new()
    assert await talk.say(cancelled(1)) == []
    server.list_changed("tools")
    assert await talk.new() == [note("notifications/tools/list_changed", _meta=tag("1"))]
    assert server._application.changes.receivers == 2, "the one that listens, and the connection"
    assert await talk.say(listen(1)) == [acknowledged(1)], "the id is free again"
    nursery.cancel_scope.cancel()


async def test_cancelled_before_it_began_it_says_nothing(nursery: trio.Nursery) -> None:
    server = full_server(Limits(max_subscriptions=1))
    talk = await connect(nursery, server)
    assert await talk.say(listen(1, toolsListChanged=True), cancelled(1)) == []
    assert await talk.say(listen(2)) == [acknowledged(2)], "its place is free again"
    nursery.cancel_scope.cancel()


async def test_what_is_still_queued_is_withdrawn(nursery: trio.Nursery) -> None:
    """Promise 4: nothing more is sent for a request that was given up."""
    server = full_server()
    talk = await connect(nursery, server)
    await talk.say(listen(1, toolsListChanged=True), listen(2, toolsListChanged=True))
    await talk.new()
    talk.channel.stop_reading()
    await talk.say(modern("p", "tools/list"))  # is being written
    server.list_changed("tools")
    await trio.testing.wait_all_tasks_blocked()
    await talk.say(cancelled(1))
    talk.channel.reading.set()
    assert [m.get("params", {}).get("_meta") for m in await talk.new()] == [None, tag(2)]
    nursery.cancel_scope.cancel()


@pytest.mark.spec("basic/patterns/subscriptions", "Graceful Closure", revisions="2026-07-28")
@pytest.mark.parametrize("how", ["drain", "end of input"])
async def test_it_ends_gracefully_and_at_once_when_serving_ends(
    how: str, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """ "Graceful Closure": the result names the subscription; draining does not wait for listeners."""
    server = full_server()
    talk = await connect(nursery, server)
    await talk.say(*(listen(id, toolsListChanged=True) for id in range(50)))
    await talk.new()
    start = trio.current_time()
    server.list_changed("tools")  # still to be said
    if how == "drain":
        talk.shutdown.drain()
    else:
        talk.channel.hang_up()
    messages = await talk.new()
    assert talk.ended
    assert trio.current_time() == start, "nobody was waited for"
    assert server._application.changes.receivers == 0
    for id in range(50):
        own = [m for m in messages if m.get("id") == id or m.get("params", {}).get("_meta") == tag(id)]
        assert own == [note("notifications/tools/list_changed", _meta=tag(id)), ended(id)]


async def test_one_that_has_not_begun_ends_as_well(nursery: trio.Nursery) -> None:
    server = full_server()
    talk = Talk(server)
    talk.channel.say(listen(1, toolsListChanged=True))
    talk.channel.hang_up()
    await nursery.start(talk.serve)
    assert await talk.new() == [acknowledged(1, toolsListChanged=True), ended(1)]
    assert talk.ended


async def test_a_handler_that_still_runs_may_finish_after_the_listeners_have_ended(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = full_server()

    @server.tool
    async def slow() -> str:
        await trio.sleep(1)
        return "done"

    talk = await connect(nursery, server)
    await talk.say(listen(1), modern(2, "tools/call", name="slow", arguments={}))
    await talk.new()
    talk.shutdown.drain()
    assert await talk.new() == [ended(1)]
    (refused,) = await talk.say(listen(3))
    assert refused["error"]["code"] == SERVER_BUSY, "nobody may begin to listen any more"
    await trio.sleep(1.5)
    assert talk.channel.sent[-1]["id"] == 2
    assert talk.ended


async def test_what_waits_to_be_sent_when_serving_ends_is_sent_before_the_end(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """To a client that is slow, and reads on in time."""
    server = full_server(Limits(max_outbox_bytes=1, drain_timeout=5))
    talk = await connect(nursery, server)
    await talk.say(listen(1, toolsListChanged=True, promptsListChanged=True, resourcesListChanged=True))
    await talk.new()
    talk.channel.stop_reading()
    kinds: list[ListKind] = ["tools", "prompts", "resources"]
    for kind in kinds:
        for _ in range(3):
            server.list_changed(kind)
            await trio.testing.wait_all_tasks_blocked()
    talk.shutdown.drain()
    await trio.sleep(1)
    talk.channel.reading.set()
    messages = await talk.new()
    assert {f"notifications/{kind}/list_changed" for kind in kinds} <= {
        message.get("method") for message in messages
    }
    assert messages[-1] == ended(1)


async def test_a_stuck_listener_does_not_hold_up_the_end(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Draining takes `drain_timeout`, and the goodbye `goodbye_timeout`, whatever the client does."""
    server = full_server(Limits(max_outbox_bytes=1, drain_timeout=5, goodbye_timeout=2))
    talk = await connect(nursery, server)
    await talk.say(listen(1, toolsListChanged=True))
    talk.channel.stop_reading()
    for _ in range(5):
        server.list_changed("tools")
        await trio.testing.wait_all_tasks_blocked()
    start = trio.current_time()
    talk.shutdown.drain()
    while not talk.ended:
        assert trio.current_time() - start < 12
        await trio.sleep(0.5)
    assert server._application.changes.receivers == 0


async def test_its_deadline_applies(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    """Promise 5: who says how long it will listen is listened to; its cancellation is on its way then."""
    limits = Limits(goodbye_timeout=2)
    server = full_server(limits)
    talk = await connect(nursery, server)
    await talk.say(listen(1, 3_000, toolsListChanged=True), listen(2, 3_000, toolsListChanged=True))
    await talk.new()
    await trio.sleep(2.9)
    server.list_changed("tools")
    assert len(await talk.new()) == 2
    await trio.sleep(0.2)
    server.list_changed("tools")
    assert await talk.new() == [], "the time of both is over"
    await talk.say(cancelled(1))
    await trio.sleep(2)
    (answer,) = await talk.new()
    assert (answer["id"], answer["error"]["code"]) == (2, CANCELLED_BY_DEADLINE)
    assert server._application.changes.receivers == 1
    nursery.cancel_scope.cancel()


# What it may cost.


async def test_listeners_take_no_place_of_other_requests(nursery: trio.Nursery) -> None:
    """A hundred of them, and a server that serves one request at a time."""
    server = full_server(Limits(max_inbound_requests=1))
    talk = await connect(nursery, server)
    messages = await talk.say(*(listen(id) for id in range(100)))
    assert len(messages) == 100
    answer = await talk.ask("tools/call", V07, name="count", arguments={})
    assert answer["result"]["structuredContent"] == 1
    nursery.cancel_scope.cancel()


async def test_one_may_begin_to_listen_while_all_places_are_taken(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = full_server(Limits(max_inbound_requests=1))

    @server.tool
    async def slow() -> None:
        await trio.sleep(10)

    talk = await connect(nursery, server)
    calls = [modern(id, "tools/call", name="slow", arguments={}) for id in ("a", "b")]
    assert await talk.say(*calls, listen(1)) == [acknowledged(1)]
    assert await talk.say(cancelled(1), cancelled("b")) == []
    nursery.cancel_scope.cancel()


async def test_as_many_may_listen_as_the_limit_says(nursery: trio.Nursery) -> None:
    """Limits.max_subscriptions: each request is one, and so is each resource it names."""
    talk = await connect(nursery, full_server(Limits(max_subscriptions=5)))
    assert len(await talk.say(listen(1), listen(2, resourceSubscriptions=["a", "b", "a"]))) == 2
    (refused,) = await talk.say(listen(3, resourceSubscriptions=["c"]))
    assert refused["error"]["code"] == SERVER_BUSY
    assert "max_subscriptions is 5" in refused["error"]["message"]
    assert await talk.say(listen(4)) == [acknowledged(4)]
    assert "error" in (await talk.say(listen(5)))[0]
    await talk.say(cancelled(2))
    assert len(await talk.say(listen(5, resourceSubscriptions=["c", "d"]))) == 1
    nursery.cancel_scope.cancel()


async def test_a_request_that_names_too_many_resources_is_refused_by_name(nursery: trio.Nursery) -> None:
    talk = await connect(nursery, full_server(Limits(max_subscriptions=3)))
    (refused,) = await talk.say(listen(1, resourceSubscriptions=["a", "b", "c"]))
    assert refused["error"]["code"] == INVALID_PARAMS
    assert "notifications.resourceSubscriptions" in refused["error"]["message"]
    assert "max_subscriptions is 3" in refused["error"]["message"]
    nursery.cancel_scope.cancel()


async def test_listeners_may_weigh_as_much_as_the_limit_says(nursery: trio.Nursery) -> None:
    """Half of Limits.max_message_bytes: in memory, whatever it is that makes them heavy."""
    talk = await connect(nursery, full_server(Limits(max_message_bytes=12_000)))
    heavy = listen(1)
    heavy["params"]["_meta"] = {**heavy["params"]["_meta"], "x": "y" * 600}
    assert await talk.say(heavy) == [acknowledged(1)]
    (refused,) = await talk.say({**heavy, "id": 2})
    assert "half of max_message_bytes is 6000" in refused["error"]["message"]
    assert await talk.say(cancelled(1)) == []
    assert await talk.say({**heavy, "id": 3}) == [acknowledged(3)]
    nursery.cancel_scope.cancel()


async def test_it_cannot_come_in_a_batch(nursery: trio.Nursery) -> None:
    """2025-03-26, basic, "Batching": all answers go back as one, and this one would keep the others."""
    talk = await connect(nursery, full_server())
    await talk.shake_hands(Revision.V2025_03_26)
    batch = [listen(1), request(2, "ping", Revision.V2025_03_26)]
    answers = {message["id"]: message for message in await talk.say(batch)}
    assert answers[1]["error"]["code"] == INVALID_REQUEST
    assert answers[2]["result"] == {}
    nursery.cancel_scope.cancel()


async def test_statistics_count_them_apart() -> None:
    """`PeerStatistics.standing`."""

    channel = ScriptedChannel()
    server = full_server()
    async with session_of(server) as session, open_peer(channel, session, Limits()) as peer:
        channel.say(listen(1), modern(2, "resources/subscribe", uri="x"))
        await trio.testing.wait_all_tasks_blocked()
        assert (peer.statistics().standing, peer.statistics().exchanges) == (1, 0)
    assert server._application.changes.receivers == 0


async def test_over_a_pair_of_channels_in_memory(nursery: trio.Nursery) -> None:
    """The same over the binding that is in every installation."""
    server = full_server()
    client, end = memory_channel_pair()
    shutdown = Shutdown()

    async def serve(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await server.serve_channel(end, shutdown=shutdown, task_status=task_status)

    async def hear() -> list[dict[str, Any]]:
        with trio.fail_after(5):
            received = await client.receive()
        return [json.loads(message.data) for message in received if isinstance(message, Incoming)]

    await nursery.start(serve)
    await client.send([Outgoing(json.dumps(listen("l", toolsListChanged=True)).encode())])
    assert await hear() == [acknowledged("l", toolsListChanged=True)]
    server.list_changed("tools")
    assert await hear() == [note("notifications/tools/list_changed", _meta=tag("l"))]
    shutdown.drain()
    assert await hear() == [ended("l")]
    await client.aclose()
