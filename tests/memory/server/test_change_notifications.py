"""What has changed reaches everybody who wants to know, in both eras, from wherever it changed."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS, LEGACY_ENDS
from inside_peer import open_peer
from inside_server import LIST_CHANGES, ChangeHub, ListKind
from talking import LISTS, SUBSCRIPTION_ID, connect, full_server, listen, note, request, session_of
from wires import ScriptedChannel

from trio_mcp import (
    CallNext,
    ConnectionLost,
    Limits,
    Message,
    Outgoing,
    RequestError,
    ResourceUpdated,
    Revision,
    Server,
    UriTemplate,
    memory_channel_pair,
    open_client,
)

TENANT: ContextVar[str | None] = ContextVar("TENANT", default=None)
V07 = Revision.V2026_07_28


def another_tool(server: Server[Any], name: str = "another") -> None:
    @server.tool(name=name)
    async def another() -> None: ...


# The legacy era.


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_what_changes_is_declared(revision: Revision, nursery: trio.Nursery) -> None:
    """Every legacy revision: server/tools, server/prompts, server/resources, each "Capabilities"."""
    capabilities = await (await connect(nursery, full_server())).shake_hands(revision)
    assert capabilities["tools"] == capabilities["prompts"] == {"listChanged": True}
    assert capabilities["resources"] == {"listChanged": True, "subscribe": True}
    nursery.cancel_scope.cancel()


async def test_what_changes_is_declared_in_discovery(nursery: trio.Nursery) -> None:
    """2026-07-28, server/resources, "Capabilities": `subscribe` now speaks of subscriptions/listen."""
    answer = await (await connect(nursery, full_server())).ask("server/discover", V07)
    assert answer["result"]["capabilities"]["resources"] == {"listChanged": True, "subscribe": True}
    assert answer["result"]["capabilities"]["tools"] == {"listChanged": True}
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", LEGACY_ENDS)
@pytest.mark.parametrize("kind", LISTS)
async def test_a_session_is_notified_of_every_list_that_changes(
    revision: Revision, kind: ListKind, nursery: trio.Nursery
) -> None:
    """Every legacy revision: server/tools, prompts and resources, each "List Changed Notification"."""
    server = full_server()
    talk = await connect(nursery, server)
    await talk.shake_hands(revision)
    server.list_changed(kind)
    assert await talk.new() == [note(f"notifications/{kind}/list_changed")]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_adding_and_removing_a_tool_tells_by_itself(revision: Revision, nursery: trio.Nursery) -> None:
    server = full_server()
    talk = await connect(nursery, server)
    await talk.shake_hands(revision)
    another_tool(server)
    assert await talk.new() == [note("notifications/tools/list_changed")]
    server.remove_tool("another")
    assert await talk.new() == [note("notifications/tools/list_changed")]
    nursery.cancel_scope.cancel()


async def test_removing_the_last_tool_leaves_an_empty_list(nursery: trio.Nursery) -> None:
    """Clients were told that there are tools, and may ask for them to the end."""
    server = Server("shelf")
    another_tool(server)
    talk = await connect(nursery, server)
    await talk.shake_hands(Revision.V2025_11_25)
    server.remove_tool("another")
    assert (await talk.ask("tools/list", Revision.V2025_11_25))["result"]["tools"] == []
    with pytest.raises(LookupError, match="no tool called 'another'"):
        server.remove_tool("another")
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_no_change_is_notified_before_the_client_is_ready(
    revision: Revision, nursery: trio.Nursery
) -> None:
    """basic/lifecycle, "Initialization": nothing but pings and logging before `initialized`."""
    server = full_server()
    talk = await connect(nursery, server)
    server.list_changed("tools")
    assert await talk.new() == [], "not before the handshake"
    assert await talk.say(note("notifications/initialized")) == []
    server.list_changed("tools")
    assert await talk.new() == [], "not after half of one"
    await talk.shake_hands(revision, initialized=False)
    server.list_changed("tools")
    assert await talk.new() == []
    await talk.say(note("notifications/initialized"), note("notifications/initialized"))
    server.list_changed("tools")
    assert await talk.new() == [note("notifications/tools/list_changed")], "once, although it is ready twice"
    nursery.cancel_scope.cancel()


async def test_changes_that_were_not_declared_are_not_notified(nursery: trio.Nursery) -> None:
    """A session that was told of no tools is told of no change of them: basic/lifecycle, "Operation"."""
    server = Server("bare")
    talk = await connect(nursery, server)
    assert "tools" not in await talk.shake_hands(Revision.V2025_06_18)
    another_tool(server)
    for kind in LIST_CHANGES:
        server.list_changed(kind)
    assert await talk.new() == []
    nursery.cancel_scope.cancel()


async def test_changes_are_said_in_order_and_equal_ones_once(nursery: trio.Nursery) -> None:
    """A client that reads slowly is told once of what happened often; nothing grows meanwhile."""
    server = full_server(Limits(max_outbox_bytes=1))
    talk = await connect(nursery, server)
    await talk.shake_hands(Revision.V2025_11_25)
    talk.channel.stop_reading()
    server.list_changed("tools")  # being written, for ever
    await trio.testing.wait_all_tasks_blocked()
    server.list_changed("tools")  # in the send queue, which is full now
    await trio.testing.wait_all_tasks_blocked()
    server.list_changed("resources")  # waits for room, already taken
    await trio.testing.wait_all_tasks_blocked()
    for _ in range(1_000):
        server.list_changed("tools")
        server.list_changed("prompts")
    assert await talk.new() == []
    talk.channel.reading.set()
    assert [m["method"].split("/")[1] for m in await talk.new()] == [
        "tools",
        "tools",
        "resources",
        "tools",
        "prompts",
    ]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", ENDS)
async def test_a_stuck_client_costs_the_others_nothing(revision: Revision, nursery: trio.Nursery) -> None:
    server = full_server(Limits(max_outbox_bytes=1))
    stuck, quick = await connect(nursery, server), await connect(nursery, server)
    for talk in (stuck, quick):
        if revision.is_modern:
            await talk.say(listen("l", toolsListChanged=True))
        else:
            await talk.shake_hands(revision)
        await talk.new()
    stuck.channel.stop_reading()
    for _ in range(20):
        server.list_changed("tools")
        assert len(await quick.new()) == 1
    assert await stuck.new() == []
    stuck.channel.reading.set()
    assert 1 <= len(await stuck.new()) <= 4, "what happened while it did not read has merged"
    nursery.cancel_scope.cancel()


# Where changes come from.


@pytest.mark.parametrize("revision", ENDS)
async def test_a_change_made_by_a_request_of_one_client_reaches_the_other(
    revision: Revision, nursery: trio.Nursery
) -> None:
    server = full_server()

    @server.tool
    async def grow(name: str) -> str:
        another_tool(server, name)
        await server.resource_updated("file:///list")
        return "grown"

    maker, witness = await connect(nursery, server), await connect(nursery, server)
    if revision.is_modern:
        await witness.say(listen("l", toolsListChanged=True, resourceSubscriptions=["file:///list"]))
    else:
        await maker.shake_hands(revision)
        await witness.shake_hands(revision)
        await witness.ask("resources/subscribe", revision, uri="file:///list")
    await witness.new()
    answer = await maker.ask("tools/call", revision, name="grow", arguments={"name": "new"})
    assert answer["result"]["content"][0]["text"] == "grown"
    assert [m["method"] for m in await witness.new()] == [
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ]
    nursery.cancel_scope.cancel()


async def test_a_change_is_notified_without_the_variables_of_who_reports_it() -> None:
    """Middleware of the connection would take them for its own: a tenant's name, say."""
    seen: list[str | None] = []

    async def look(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        if message.method == "notifications/tools/list_changed":
            seen.append(TENANT.get())
        return await call_next(message)

    server: Server[Any] = Server("tenants", middleware=[look])

    @server.tool
    async def change() -> None:
        TENANT.set("Ada")
        another_tool(server)
        await trio.testing.wait_all_tasks_blocked()

    async with open_client(server, revision="2025-11-25") as client:
        await client.call_tool("change")
        TENANT.set("whoever is outside")
        server.list_changed("tools")
        await trio.testing.wait_all_tasks_blocked()
    assert seen == [None, None]


async def test_a_change_made_in_a_thread_is_notified(nursery: trio.Nursery) -> None:
    """A plain function is a tool, too, and runs in a thread; so may whatever else the program has."""
    server = full_server()

    @server.tool
    def grow() -> None:
        another_tool(server)

    async with open_client(server, revision="2025-11-25") as client:
        talk = await connect(nursery, server)
        await talk.shake_hands(Revision.V2025_11_25)
        with trio.fail_after(5):
            await client.call_tool("grow")
            await trio.to_thread.run_sync(server.list_changed, "prompts")
            thread = threading.Thread(target=server.list_changed, args=("resources",))
            thread.start()
            await trio.to_thread.run_sync(thread.join)
        assert [m["method"].split("/")[1] for m in await talk.new()] == ["tools", "prompts", "resources"]
    nursery.cancel_scope.cancel()


def test_changes_outside_any_run_are_silent() -> None:
    """Tools are mostly registered before there is anybody to tell."""
    server = full_server()
    another_tool(server)
    server.list_changed("prompts")
    server._application.changes.resource_updated("file:///x")
    assert server._application.changes.receivers == 0


def test_a_server_can_be_served_by_two_runs_at_once() -> None:
    """Each run is told by its own thread."""
    server = full_server()
    listening = threading.Barrier(3)
    told: list[str] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            talk = await connect(nursery, server)
            await talk.shake_hands(Revision.V2025_11_25)
            await trio.to_thread.run_sync(listening.wait)
            with trio.fail_after(5):
                while not talk.channel.sent:
                    await trio.sleep(0.001)
            told.append((await talk.new())[0]["method"])
            nursery.cancel_scope.cancel()

    threads = [threading.Thread(target=trio.run, args=(main,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    listening.wait(10)
    server.list_changed("tools")
    for thread in threads:
        thread.join(10)
    assert told == ["notifications/tools/list_changed"] * 2
    assert server._application.changes.receivers == 0


def test_a_run_that_has_just_ended_is_not_notified() -> None:
    """Its tasks are gone; only the note that it listened is still there."""
    hub = ChangeHub()

    async def main() -> None:
        await trio.lowlevel.checkpoint()
        manager = hub.receiver(lambda: None)
        kept.append((manager, manager.__enter__()))

    kept: list[Any] = []
    trio.run(main)
    assert hub.receivers == 1
    hub.list_changed("tools")  # raises nothing
    kept[0][0].__exit__(None, None, None)
    assert hub.receivers == 0


async def test_there_is_no_other_list() -> None:
    with pytest.raises(ValueError, match=r"^kind takes 'tools' or 'prompts' or 'resources', not 'roots'$"):
        Server("x").list_changed("roots")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def test_resource_updated_is_a_checkpoint() -> None:
    server = Server("x")
    with trio.testing.assert_checkpoints():
        await server.resource_updated("file:///x")


# The eras beside each other.


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_on_one_pipe_each_era_gets_its_own(revision: Revision, nursery: trio.Nursery) -> None:
    """2026-07-28, basic/patterns/subscriptions: nothing that was not asked for, and everything tagged."""
    server = full_server()
    talk = await connect(nursery, server)
    await talk.say(listen("l", toolsListChanged=True))
    await talk.new()
    for kind in LIST_CHANGES:
        server.list_changed(kind)
    assert await talk.new() == [note("notifications/tools/list_changed", _meta={SUBSCRIPTION_ID: "l"})]
    await talk.shake_hands(revision)
    for kind in ("tools", "prompts"):
        server.list_changed(kind)
    messages = await talk.new()
    key = repr
    assert sorted(messages, key=key) == sorted(
        [
            note("notifications/tools/list_changed", _meta={SUBSCRIPTION_ID: "l"}),
            note("notifications/tools/list_changed"),
            note("notifications/prompts/list_changed"),
        ],
        key=key,
    )
    nursery.cancel_scope.cancel()


async def test_a_modern_client_that_does_not_listen_is_not_notified(nursery: trio.Nursery) -> None:
    server = full_server()
    talk = await connect(nursery, server)
    await talk.ask("tools/list", V07)
    await talk.new()
    for kind in LIST_CHANGES:
        server.list_changed(kind)
    await server.resource_updated("file:///x")
    assert await talk.new() == []
    nursery.cancel_scope.cancel()


# Nothing is left.


@pytest.mark.parametrize("revision", ENDS)
async def test_nothing_is_left_of_a_connection(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 8, for the hub: it lives as long as the server."""
    server = full_server()
    for end in ("it hangs up", "it is lost", "we drain", "we abort", "we are cancelled"):
        async with trio.open_nursery() as nursery:
            talk = await connect(nursery, server)
            if revision.is_modern:
                await talk.say(listen("l", toolsListChanged=True, resourceSubscriptions=["file:///x"]))
            else:
                await talk.shake_hands(revision)
                await talk.ask("resources/subscribe", revision, uri="file:///x")
            assert server._application.changes.receivers == (2 if revision.is_modern else 1)
            if end == "it hangs up":
                talk.channel.hang_up()
            elif end == "it is lost":
                talk.channel.hang_up(ConnectionLost("gone"))
            elif end == "we drain":
                talk.shutdown.drain()
            elif end == "we abort":
                talk.shutdown.abort()
            else:
                nursery.cancel_scope.cancel()
        assert server._application.changes.receivers == 0
        server.list_changed("tools")
        assert not vars(server._application.changes)["_audiences"]


async def test_changes_while_a_connection_is_lost_or_ends_do_no_harm(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """The connection says by itself that it is gone; telling it of changes says nothing more."""
    server = full_server()
    client, end = memory_channel_pair()
    await nursery.start(server.serve_channel, end)
    talk = await connect(nursery, server)
    await talk.shake_hands(Revision.V2025_11_25)
    await talk.say(listen("l", toolsListChanged=True))
    await client.aclose()
    talk.channel.stop_reading()
    talk.shutdown.drain()
    for _ in range(10):
        server.list_changed("tools")
        await trio.testing.wait_all_tasks_blocked()
    while not talk.ended:
        server.list_changed("tools")
        await trio.sleep(0.1)
    server.list_changed("tools")
    assert server._application.changes.receivers == 0


async def test_a_change_that_waits_for_room_goes_with_the_connection(nursery: trio.Nursery) -> None:
    server = full_server(Limits(max_outbox_bytes=1))
    talk = await connect(nursery, server)
    await talk.shake_hands(Revision.V2025_11_25)
    await talk.say(listen("l", toolsListChanged=True))
    talk.channel.stop_reading()
    for kind in (*LIST_CHANGES, *LIST_CHANGES):
        server.list_changed(kind)
        await trio.testing.wait_all_tasks_blocked()
    talk.channel.hang_up(ConnectionLost("gone"))
    await trio.testing.wait_all_tasks_blocked()
    assert talk.ended
    assert server._application.changes.receivers == 0


async def test_what_fails_while_a_connection_is_served_comes_out_as_itself() -> None:
    """Promise 8: the nursery in which changes are told is nobody's business."""
    server = full_server()
    with pytest.raises(LookupError) as caught:
        async with session_of(server) as session:
            opening = open_peer(ScriptedChannel(), session, Limits())
            async with session.subscriptions.connected(opening) as peer:
                assert peer.statistics().standing == 0
                raise LookupError
    assert caught.value.__context__ is None
    assert server._application.changes.receivers == 0


async def test_what_fails_while_a_change_is_notified_ends_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """It is told to the log, and the next change is told."""
    server = full_server()
    told: list[str] = []

    class Broken:
        async def notify(self, method: str, params: object) -> None:
            told.append(method)
            raise ValueError(method)

    @asynccontextmanager
    async def opening() -> AsyncGenerator[Any]:
        yield Broken()

    async with session_of(server) as session, session.subscriptions.connected(opening()):
        session.subscriptions.declared(server._application.capabilities(Revision.V2025_11_25))
        session.subscriptions.initialized()
        for _ in range(2):
            server.list_changed("tools")
            await trio.testing.wait_all_tasks_blocked()
    assert told == ["notifications/tools/list_changed"] * 2
    assert "ValueError: notifications/tools/list_changed" in caplog.text


async def test_a_session_without_a_connection_of_its_own_tells_no_changes() -> None:
    """One that serves single exchanges, which belong to nobody's session, can only be listened to."""
    server = full_server()
    channel = ScriptedChannel()
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    async with session_of(server) as session, open_peer(channel, session, Limits()):
        channel.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        channel.say(note("notifications/initialized"))
        channel.say(request(1, "resources/subscribe", Revision.V2025_11_25, uri="x"))
        channel.say(request(2, "resources/templates/list", Revision.V2025_11_25), listen(3))
        await trio.testing.wait_all_tasks_blocked()
        server.list_changed("tools")
        await trio.testing.wait_all_tasks_blocked()
    assert [message["error"]["code"] for message in channel.sent if "error" in message] == [-32601, -32601]
    assert channel.sent[-1]["method"] == "notifications/subscriptions/acknowledged"


async def test_a_change_that_cannot_be_written_does_not_hold_up_the_next(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """A URI may fit into the request that asks for it, and not into the notification. Escaped it is six times as long."""
    server = full_server(Limits(max_message_bytes=6_080))
    talk = await connect(nursery, server)
    await talk.shake_hands(Revision.V2025_11_25)
    uri = "x:" + "\x01" * 1_000
    assert "result" in await talk.ask("resources/subscribe", Revision.V2025_11_25, uri=uri, id=1)
    await talk.new()
    server._application.changes.resource_updated(uri)
    server.list_changed("tools")
    assert [m["method"] for m in await talk.new()] == ["notifications/tools/list_changed"]
    assert "a change is not sent" in caplog.text
    nursery.cancel_scope.cancel()


# The hub by itself.


async def test_a_receiver_is_woken_when_there_is_something_to_say_and_there_was_nothing() -> None:
    hub = ChangeHub()
    woken: list[int] = []
    with hub.receiver(lambda: woken.append(1)) as receiver:
        receiver.subscribe(ResourceUpdated("a"))
        receiver.subscribe(ResourceUpdated("a"))
        receiver.subscribe(ResourceUpdated("b"))
        for uri in ("b", "a", "b", "c"):
            hub.resource_updated(uri)
        assert len(woken) == 1
        receiver.unsubscribe(ResourceUpdated("b"))
        receiver.unsubscribe(ResourceUpdated("never wanted"))
        assert (receiver.take(), receiver.take()) == (ResourceUpdated("a"), None)
        hub.resource_updated("b")
        hub.resource_updated("a")
        assert len(woken) == 2
    assert receiver.take() is None, "who leaves is told nothing more"


async def test_the_hub_forgets_receivers_that_have_left() -> None:
    hub = ChangeHub()
    with hub.receiver(lambda: None) as receiver:
        for number in range(100):
            receiver.subscribe(ResourceUpdated(str(number)))
        assert hub.receivers == 1
    del receiver
    gc.collect()
    assert hub.receivers == 0
    assert not vars(hub)["_audiences"]


class _CountingChannel(ScriptedChannel):
    """Counts how often messages are offered to a wire that takes none at once."""

    offered = 0

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        self.offered += len(messages)
        return super().send_nowait(messages)


async def test_telling_one_of_many_listeners_costs_what_telling_one_of_few_does(nursery: trio.Nursery) -> None:
    """What the wire did not take is not offered to it again with each further message."""
    count = 400
    server, channel = full_server(), _CountingChannel()
    nursery.start_soon(server.serve_channel, channel)
    channel.say(*(listen(id, toolsListChanged=True) for id in range(count)))
    await trio.testing.wait_all_tasks_blocked()
    assert len(channel.sent) == count, "all are acknowledged"
    channel.offered = 0
    server.list_changed("tools")
    await trio.testing.wait_all_tasks_blocked()
    assert len(channel.sent) == 2 * count
    assert channel.offered <= count
    channel.hang_up()


@pytest.mark.parametrize("revision", ENDS)
async def test_what_is_no_uri_has_not_changed_and_is_not_listened_to(revision: Revision) -> None:
    """Nobody would be notified of it: clients name the resource as it is read. The error says how to make its URI."""
    server = Server("notes")

    @server.resource("note://{title}")
    async def read(title: str) -> str:
        return title

    async with open_client(server, revision=revision) as client:
        for wrong in ("note://My note", "note:///My note", "café", "no uri at all"):
            with pytest.raises(ValueError, match="is no URI of a resource: ") as refused:
                await server.resource_updated(wrong)
            made = "UriTemplate('note://{title}').expand({'title': 'My note'}) is one"
            assert (made in str(refused.value)) == (wrong == "note://My note")
            with pytest.raises(RequestError, match="invalid params: uri: ") as unheard:
                async with client.listen(resources=[wrong]):
                    raise AssertionError
            with pytest.raises(RequestError) as unread:
                await client.read_resource(wrong)
            assert (unheard.value.code, str(unheard.value)) == (unread.value.code, str(unread.value))
        right = UriTemplate("note://{title}").expand({"title": "My note"})
        async with client.listen(resources=[right]) as changes:
            await server.resource_updated(right)
            assert await anext(changes) == ResourceUpdated(right)
