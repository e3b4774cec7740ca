"""`resources/subscribe` and `resources/unsubscribe`, as all revisions of the legacy era have them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS, LEGACY_ENDS
from inside_base import INVALID_PARAMS, LEGACY, METHOD_NOT_FOUND, SERVER_BUSY
from talking import connect, full_server, listen, note, request
from wires import ScriptedChannel

from trio_mcp import Context, Limits, Revision, Server

NEWEST = LEGACY[-1]
URI = "file:///project/src/main.rs"


def updated(uri: str = URI) -> dict[str, Any]:
    return note("notifications/resources/updated", uri=uri)


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_subscribers_are_notified(revision: Revision, nursery: trio.Nursery) -> None:
    """Every legacy revision: server/resources, "Subscriptions". The answer says nothing but that it is so."""
    server = full_server()
    talk, other = await connect(nursery, server), await connect(nursery, server)
    await talk.shake_hands(revision)
    await other.shake_hands(revision)
    assert (await talk.ask("resources/subscribe", revision, uri=URI))["result"] == {}
    await talk.new()
    await server.resource_updated(URI)
    await server.resource_updated("file:///project")
    assert await talk.new() == [updated()]
    assert await other.new() == []
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_subscribing_and_unsubscribing_twice_is_once(revision: Revision, nursery: trio.Nursery) -> None:
    server = full_server()
    talk = await connect(nursery, server)
    await talk.shake_hands(revision)
    for _ in range(2):
        assert (await talk.ask("resources/subscribe", revision, uri=URI))["result"] == {}
    await talk.new()
    await server.resource_updated(URI)
    assert await talk.new() == [updated()]
    for _ in range(2):
        assert (await talk.ask("resources/unsubscribe", revision, uri=URI))["result"] == {}
    await talk.new()
    await server.resource_updated(URI)
    assert await talk.new() == []
    nursery.cancel_scope.cancel()


async def test_what_is_not_subscribed_to_any_more_is_not_kept(nursery: trio.Nursery) -> None:
    """max_kept_bytes: also if nothing else is subscribed to afterwards."""
    server = full_server()
    talk = await connect(nursery, server)
    await talk.shake_hands(Revision.V2025_11_25)

    def kept() -> int:
        (statistics,) = server.statistics()
        return statistics["bytes"].of.get("subscriptions", 0)

    await talk.ask("resources/subscribe", Revision.V2025_11_25, uri=URI)
    assert kept() > len(URI)
    await talk.ask("resources/unsubscribe", Revision.V2025_11_25, uri=URI)
    assert kept() == 0
    nursery.cancel_scope.cancel()


async def test_what_was_not_said_yet_is_not_said_after_unsubscribing(nursery: trio.Nursery) -> None:
    server = full_server(Limits(max_outbox_bytes=1))
    talk = await connect(nursery, server)
    await talk.shake_hands(NEWEST)
    uris = [f"x:{letter}" for letter in "abcd"]
    for uri in uris:
        await talk.ask("resources/subscribe", NEWEST, uri=uri)
    await talk.new()
    talk.channel.stop_reading()
    for uri in uris:  # one being written, one in the send queue, one waiting for room, one noted
        await server.resource_updated(uri)
        await trio.testing.wait_all_tasks_blocked()
    await talk.say(request("u", "resources/unsubscribe", NEWEST, uri="x:d"))
    talk.channel.reading.set()
    messages = await talk.new()
    assert [m["params"]["uri"] for m in messages if "method" in m] == ["x:a", "x:b", "x:c"]
    assert [m["id"] for m in messages if "id" in m] == ["u"]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_resource_that_does_not_exist_is_not_found(revision: Revision, nursery: trio.Nursery) -> None:
    """Every legacy revision: server/resources, "Error Handling": -32002, and which resource."""
    server = full_server()
    server._application.changes.knows = lambda uri: uri == URI
    talk = await connect(nursery, server)
    await talk.shake_hands(revision)
    answer = await talk.ask("resources/subscribe", revision, uri="file:///no")
    assert answer["error"] == {"code": -32002, "message": "Resource not found", "data": {"uri": "file:///no"}}
    assert "result" in await talk.ask("resources/subscribe", revision, id=2, uri=URI)
    assert "result" in await talk.ask("resources/unsubscribe", revision, id=3, uri="file:///no")
    assert (await talk.ask("resources/templates/list", revision, id=4))["error"]["code"] == METHOD_NOT_FOUND
    nursery.cancel_scope.cancel()


async def test_a_resource_that_has_gone_can_still_be_unsubscribed_from(nursery: trio.Nursery) -> None:
    server = full_server()
    known = {URI}
    server._application.changes.knows = known.__contains__
    talk = await connect(nursery, server)
    await talk.shake_hands(NEWEST)
    await talk.ask("resources/subscribe", NEWEST, uri=URI)
    known.clear()
    assert "result" in await talk.ask("resources/subscribe", NEWEST, id=2, uri=URI), "it is subscribed to already"
    assert "result" in await talk.ask("resources/unsubscribe", NEWEST, id=3, uri=URI)
    assert "error" in await talk.ask("resources/subscribe", NEWEST, id=4, uri=URI)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_request_without_a_uri_is_refused_by_name(
    subtests: pytest.Subtests, revision: Revision, nursery: trio.Nursery
) -> None:
    talk = await connect(nursery, full_server())
    await talk.shake_hands(revision)
    given: list[dict[str, Any]] = [{}, {"uri": 7}, {"uri": None}]
    for method in ("resources/subscribe", "resources/unsubscribe"):
        for params in given:
            with subtests.test(method=method, params=params):
                answer = await talk.ask(method, revision, **params)
                assert answer["error"]["code"] == INVALID_PARAMS
                assert "uri" in answer["error"]["message"]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", ENDS)
@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_who_has_no_resources_has_no_subscriptions(
    revision: Revision, method: str, nursery: trio.Nursery
) -> None:
    """And 2026-07-28 does not have these methods at all: changelog, 4."""
    server = full_server() if revision.is_modern else Server("bare")
    talk = await connect(nursery, server)
    if not revision.is_modern:
        await talk.shake_hands(revision)
    answer = await talk.ask(method, revision, uri=URI)
    assert answer["error"]["code"] == METHOD_NOT_FOUND
    nursery.cancel_scope.cancel()


async def test_a_handler_of_the_users_own_takes_its_place(nursery: trio.Nursery) -> None:
    server = full_server()
    asked: list[object] = []

    @server.request_handler("resources/subscribe")
    async def mine(params: Mapping[str, Any], _: Context[Any]) -> dict[str, Any]:
        asked.append(params["uri"])
        return {}

    talk = await connect(nursery, server)
    await talk.shake_hands(NEWEST)
    await talk.ask("resources/subscribe", NEWEST, uri=URI)
    await talk.new()
    await server.resource_updated(URI)
    assert (asked, await talk.new()) == ([URI], [])
    nursery.cancel_scope.cancel()


async def test_as_many_resources_as_the_limit_says(nursery: trio.Nursery) -> None:
    """Limits.max_subscriptions and half of Limits.max_message_bytes, per connection."""
    server = full_server(Limits(max_subscriptions=3, max_message_bytes=2_000))
    talk = await connect(nursery, server)
    await talk.shake_hands(NEWEST)
    for number, uri in enumerate("abc"):
        assert "result" in await talk.ask("resources/subscribe", NEWEST, id=number, uri=uri)
    answer = await talk.ask("resources/subscribe", NEWEST, id=4, uri="d")
    assert answer["error"]["code"] == SERVER_BUSY
    assert "max_subscriptions" in answer["error"]["message"]
    await talk.ask("resources/unsubscribe", NEWEST, id=5, uri="a")
    answer = await talk.ask("resources/subscribe", NEWEST, id=6, uri="1" * 999)
    assert answer["error"]["code"] == SERVER_BUSY
    assert "half of max_message_bytes" in answer["error"]["message"]
    assert "result" in await talk.ask("resources/subscribe", NEWEST, id=7, uri="1" * 998)
    other = await connect(nursery, server)
    await other.shake_hands(NEWEST)
    assert "result" in await other.ask("resources/subscribe", NEWEST, uri="a"), "each connection has its own"
    nursery.cancel_scope.cancel()


async def test_it_needs_no_place_among_the_requests(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = full_server(Limits(max_inbound_requests=1))

    @server.tool
    async def slow() -> None:
        await trio.sleep(10)

    talk = await connect(nursery, server)
    await talk.shake_hands(NEWEST)
    await talk.say(request(1, "tools/call", NEWEST, name="slow", arguments={}))
    assert "result" in await talk.ask("resources/subscribe", NEWEST, uri=URI)
    nursery.cancel_scope.cancel()


async def test_subscribers_are_notified_even_before_the_client_is_initialized(nursery: trio.Nursery) -> None:
    """What a client has asked for by name is not held back; some never say that they are ready."""
    server = full_server()
    talk = await connect(nursery, server)
    await talk.shake_hands(NEWEST, initialized=False)
    await talk.ask("resources/subscribe", NEWEST, uri=URI)
    await talk.new()
    await server.resource_updated(URI)
    server.list_changed("tools")
    assert await talk.new() == [updated()]
    nursery.cancel_scope.cancel()


async def test_both_eras_may_subscribe_to_the_same_over_one_pipe(nursery: trio.Nursery) -> None:
    server = full_server()
    talk = await connect(nursery, server)
    await talk.shake_hands(NEWEST)
    await talk.ask("resources/subscribe", NEWEST, uri=URI)
    await talk.say(listen(7, resourceSubscriptions=[URI]))
    await talk.new()
    await server.resource_updated(URI)
    assert sorted(("_meta" in m["params"]) for m in await talk.new()) == [False, True]
    nursery.cancel_scope.cancel()


async def test_an_update_right_after_subscribing_is_notified(nursery: trio.Nursery) -> None:
    """There is a receiver before the first message is read, and the change follows the answer."""
    server = full_server()
    channel = ScriptedChannel()

    def change(direction: str, data: bytes) -> None:
        if direction == "received" and b"resources/subscribe" in data:
            trio.lowlevel.current_trio_token().run_sync_soon(server._application.changes.resource_updated, URI)

    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    channel.say(
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
        note("notifications/initialized"),
        request(1, "resources/subscribe", Revision.V2025_06_18, uri=URI),
    )
    nursery.start_soon(partial(server.serve_channel, channel, on_frame=change))
    await trio.testing.wait_all_tasks_blocked()
    assert [m.get("id", m.get("method")) for m in channel.sent] == [0, 1, "notifications/resources/updated"]
    nursery.cancel_scope.cancel()
