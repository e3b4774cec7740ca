"""Listening to changes: what is said on the wire, what is heard, and how it ends, in both eras."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS, LEGACY_ENDS
from inside_base import repetitions
from scripted import (
    LEGACY,
    MODERN,
    NO_ANSWER,
    SUBSCRIPTION_ID,
    ScriptedServer,
    acknowledge,
    note,
    open_scripted,
    settle,
    the_end,
)
from tape import Tape
from wires import refusal

from trio_mcp import (
    Change,
    Client,
    ConnectionLost,
    Events,
    Lagged,
    Limits,
    PromptsListChanged,
    RemoteProtocolError,
    RequestError,
    ResourcesListChanged,
    ResourceUpdated,
    Resynced,
    ToolsListChanged,
)


def is_modern(revision: str) -> bool:
    return revision == MODERN


def subscription(server: ScriptedServer, index: int = -1) -> Any:
    """The id of a subscription that the client has asked for, or nothing in the legacy era."""
    return server.requests("subscriptions/listen")[index]["id"] if is_modern(server.revision) else None


async def take(events: Events, count: int) -> list[Change]:
    return [await events.__anext__() for _ in range(count)]


# Both eras.


@pytest.mark.parametrize("revision", ENDS)
async def test_changes_are_received_in_the_order_they_came(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, basic/patterns/subscriptions, "Receiving Notifications"; 2025-11-25, server/tools, server/prompts,
    server/resources, "List Changed Notification", and server/resources, "Subscriptions"."""
    server = ScriptedServer(revision)
    async with open_scripted(server) as client:
        everything = client.listen(
            tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True, resources=["a:b"]
        )
        async with everything as events:
            assert events.acknowledged.tools_list_changed is True
            assert events.acknowledged.resource_subscriptions == ("a:b",)
            id = subscription(server)
            server.say(
                note("prompts/list_changed", id),
                note("resources/updated", id, uri="a:b"),
                note("tools/list_changed", id),
                note("resources/list_changed", id),
            )
            assert await take(events, 4) == [
                PromptsListChanged(),
                ResourceUpdated("a:b"),
                ToolsListChanged(),
                ResourcesListChanged(),
            ]


@pytest.mark.parametrize("revision", ENDS)
async def test_changes_that_were_not_asked_for_are_not_received(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, "Opening a Stream": the server must not send it; if it does all the same, nobody hears it."""
    server = ScriptedServer(revision)
    async with open_scripted(server) as client, client.listen(tools_list_changed=True) as events:
        id = subscription(server)
        server.say(
            note("prompts/list_changed", id),
            note("resources/updated", id, uri="a:b"),
            note("resources/updated", id, uri=5),
            note("something/else", id),
            note("tools/list_changed", id),
        )
        assert await take(events, 1) == [ToolsListChanged()]
        assert events.waiting == 0


@pytest.mark.parametrize("revision", ENDS)
async def test_equal_changes_that_wait_are_one(revision: str, autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer(revision)
    async with (
        open_scripted(server) as client,
        client.listen(tools_list_changed=True, resources=["a:b"], max_events=2) as events,
    ):
        id = subscription(server)
        for _ in range(1000):
            server.say(note("tools/list_changed", id), note("resources/updated", id, uri="a:b"))
        await settle()
        assert events.waiting == 2
        assert await take(events, 2) == [ToolsListChanged(), ResourceUpdated("a:b")]
        server.say(note("tools/list_changed", id))
        assert await take(events, 1) == [ToolsListChanged()]


@pytest.mark.parametrize("revision", ENDS)
async def test_a_listener_that_is_too_slow_is_ended_with_an_error_and_holds_up_no_other(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """What was heard is given out, then the end; the subscription is over at once, and the connection is not."""
    server = ScriptedServer(revision)
    async with open_scripted(server) as client:
        async with client.listen(tools_list_changed=True, resources=["a:"], max_events=2) as events:
            id = subscription(server)
            server.say(
                note("tools/list_changed", id), *(note("resources/updated", id, uri=f"a:/{i}") for i in range(5))
            )
            await settle()
            assert events.waiting == 2
            if is_modern(revision):
                assert server.goodbyes() == [id]
            else:
                assert len(server.requests("resources/unsubscribe")) == 1
            assert await client.request("x/still-there") == {}
            assert len(await take(events, 2)) == 2
            for _ in range(2):
                with pytest.raises(Lagged, match="more than 2 different changes") as caught:
                    await events.__anext__()
                assert caught.value.max_events == 2
        assert len(server.goodbyes()) == (1 if is_modern(revision) else 0)


async def test_how_many_changes_may_wait_is_a_limit(autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer()
    async with (
        open_scripted(server, limits=Limits(max_notifications=1)) as client,
        client.listen(tools_list_changed=True, prompts_list_changed=True) as events,
    ):
        server.say(
            note("tools/list_changed", subscription(server)), note("prompts/list_changed", subscription(server))
        )
        await trio.testing.wait_all_tasks_blocked()
        assert await take(events, 1) == [ToolsListChanged()]
        with pytest.raises(Lagged):
            await events.__anext__()


@pytest.mark.spec("basic/patterns/subscriptions", "Multiple Concurrent Subscriptions")
@pytest.mark.parametrize("revision", ENDS)
async def test_several_listeners_hear_what_is_theirs(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, "Multiple Concurrent Subscriptions"."""
    server = ScriptedServer(revision)
    async with (
        open_scripted(server) as client,
        client.listen(tools_list_changed=True) as tools,
        client.listen(tools_list_changed=True, resources=["a:b"]) as both,
    ):
        if is_modern(revision):
            first, second = subscription(server, 0), subscription(server, 1)
            assert first != second
            server.say(note("tools/list_changed", second), note("resources/updated", second, uri="a:b"))
            assert await take(both, 2) == [ToolsListChanged(), ResourceUpdated("a:b")]
            assert tools.waiting == 0
            server.say(note("tools/list_changed", first))
        else:
            server.say(note("tools/list_changed"), note("resources/updated", uri="a:b"))
            assert await take(both, 2) == [ToolsListChanged(), ResourceUpdated("a:b")]
        assert await take(tools, 1) == [ToolsListChanged()]
        assert both.waiting == tools.waiting == 0


@pytest.mark.spec("basic/patterns/subscriptions", "Cancellation")
@pytest.mark.parametrize("revision", ENDS)
async def test_leaving_the_block_ends_the_subscription_exactly_once(
    subtests: pytest.Subtests, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, "Cancellation"; 2025-11-25, server/resources, "Subscriptions"."""

    async def check(way: str) -> None:
        server = ScriptedServer(revision)
        tape = Tape()

        async def listen() -> None:
            async with client.listen(tools_list_changed=True, resources=["a:b", "a:c", "a:b"]) as events:
                if way == "exception":
                    raise ArithmeticError
                if way == "leaving":
                    return
                await events.__anext__()

        async with open_scripted(server, on_frame=tape) as client:
            if way == "exception":
                with pytest.raises(ArithmeticError):
                    await listen()
            elif way == "deadline":
                with trio.move_on_after(3) as scope:
                    await listen()
                assert scope.cancelled_caught
                assert trio.current_time() == 3
            else:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(listen)
                    await settle()
                    nursery.cancel_scope.cancel()
            await settle()
            if is_modern(revision):
                assert server.goodbyes() == [subscription(server)]
            else:
                assert server.goodbyes() == []
                for method in ("resources/subscribe", "resources/unsubscribe"):
                    assert sorted(r["params"]["uri"] for r in server.requests(method)) == ["a:b", "a:c"]
            assert client.statistics().calls == 0
        tape.check_endings()

    for way in ("leaving", "exception", "cancel", "deadline"):
        with subtests.test(way=way):
            await check(way)


@pytest.mark.parametrize("revision", ENDS)
async def test_cancelled_at_any_moment_it_leaves_nothing(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Whatever the server was asked for, it is told that nobody wants it any more, and never twice."""
    for steps in range(25):
        server = ScriptedServer(revision)
        tape = Tape()
        async with open_scripted(server, on_frame=tape) as client:
            await settle()
            async with trio.open_nursery() as nursery:

                async def listen(client: Client = client) -> None:
                    async with client.listen(tools_list_changed=True, resources=["a:b", "a:c"]) as events:
                        await events.__anext__()

                nursery.start_soon(listen)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            await settle()
            assert client.statistics().calls == 0
            if is_modern(revision):
                assert len(server.goodbyes()) == len(server.requests("subscriptions/listen"))
            else:
                left = {r["params"]["uri"] for r in server.requests("resources/unsubscribe")}
                assert {r["params"]["uri"] for r in server.requests("resources/subscribe")} <= left
        tape.check_endings()


@pytest.mark.parametrize("revision", ENDS)
async def test_after_the_block_there_is_nothing_to_hear(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer(revision)
    async with open_scripted(server) as client:
        async with client.listen(tools_list_changed=True) as events:
            server.say(note("tools/list_changed", subscription(server)))
            await settle()
        with pytest.raises(trio.ClosedResourceError):
            await events.__anext__()


@pytest.mark.parametrize("revision", ENDS)
async def test_one_task_iterates(revision: str, autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer(revision)
    async with (
        open_scripted(server) as client,
        client.listen(tools_list_changed=True) as events,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(take, events, 1)
        await settle()
        with pytest.raises(trio.BusyResourceError):
            await events.__anext__()
        server.say(note("tools/list_changed", subscription(server)))


@pytest.mark.parametrize("revision", ENDS)
async def test_iterating_checkpoints_and_gives_out_nothing_when_cancelled(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer(revision)
    async with open_scripted(server) as client, client.listen(tools_list_changed=True) as events:
        with trio.move_on_after(1):
            await events.__anext__()
        server.say(note("tools/list_changed", subscription(server)))
        await settle()
        with trio.CancelScope() as scope:
            scope.cancel()
            await events.__anext__()
        with trio.testing.assert_checkpoints():
            assert await events.__anext__() == ToolsListChanged()


@pytest.mark.parametrize("revision", ENDS)
async def test_the_end_of_the_connection_ends_the_iteration(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """What was heard comes first."""
    server = ScriptedServer(revision)
    server.restart = None
    async with (
        open_scripted(server) as client,
        client.listen(tools_list_changed=True, resources=["a:b"]) as events,
    ):
        server.say(note("tools/list_changed", subscription(server)))
        server.lose()
        assert await take(events, 1) == [ToolsListChanged()]
        for _ in range(2):
            with pytest.raises(ConnectionLost, match="fell over"):
                await events.__anext__()


@pytest.mark.parametrize("revision", ENDS)
async def test_closing_the_client_ends_the_iteration(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer(revision)
    async with (
        open_scripted(server) as client,
        client.listen(tools_list_changed=True, resources=["a:b"]) as events,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.aclose)
        with pytest.raises(trio.ClosedResourceError):
            await events.__anext__()
    assert len(server.goodbyes()) == (1 if is_modern(revision) else 0)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, ValueError),
        ({"resources": ()}, ValueError),
        ({"resources": "a:b"}, TypeError),
        ({"tools_list_changed": True, "max_events": 0}, ValueError),
    ],
)
async def test_nonsense_is_refused_at_once(arguments: dict[str, Any], error: type[Exception]) -> None:
    server = ScriptedServer()
    async with open_scripted(server) as client:
        with pytest.raises(error):
            client.listen(**arguments)
        assert server.requests("subscriptions/listen") == []


def be_silent(_: ScriptedServer, __: dict[str, Any]) -> object:
    return NO_ANSWER


@pytest.mark.parametrize("revision", ENDS)
async def test_the_time_a_request_may_take_covers_entering_only(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer(revision)
    async with open_scripted(server, request_timeout=5) as client:
        async with client.listen(tools_list_changed=True, resources=["a:b"]) as events:
            await trio.sleep(60)
            server.say(note("tools/list_changed", subscription(server)))
            assert await take(events, 1) == [ToolsListChanged()]
        server.script = be_silent
        with pytest.raises(trio.TooSlowError):
            async with client.listen(resources=["a:b"]):
                raise AssertionError("nobody has agreed")


# The modern era.


async def test_the_block_begins_when_the_server_has_agreed(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, basic/patterns/subscriptions, "Acknowledgment"; what is missing is said in the log."""
    server = ScriptedServer(script=lambda _, __: NO_ANSWER)
    async with open_scripted(server) as client, trio.open_nursery() as nursery:

        async def grant_some() -> None:
            await trio.sleep(5)
            granted = {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}
            server.say(acknowledge(subscription(server), granted))

        nursery.start_soon(grant_some)
        wanted = client.listen(tools_list_changed=True, prompts_list_changed=True, resources=["a:b", "a:c"])
        async with wanted as events:
            assert trio.current_time() == 5
            assert events.acknowledged.tools_list_changed is True
            assert events.acknowledged.prompts_list_changed is None
            assert events.acknowledged.resource_subscriptions == ("a:b",)
    (asked,) = server.requests("subscriptions/listen")
    assert asked["params"]["notifications"] == {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourceSubscriptions": ["a:b", "a:c"],
    }
    assert asked["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN
    assert "trio-mcp/timeoutMs" not in asked["params"]["_meta"]
    assert "prompts_list_changed, a:c" in caplog.text


async def test_after_an_orderly_end_it_listens_again(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """2026-07-28, "Graceful Closure": what came before the answer is heard, and nothing is cancelled.

    A server ends its subscriptions in good order whenever it is restarted.
    """
    server = ScriptedServer()
    async with open_scripted(server) as client, client.listen(tools_list_changed=True) as events:
        id = subscription(server)
        server.say(note("tools/list_changed", id), the_end(id), note("tools/list_changed", id))
        assert await anext(events) == ToolsListChanged()
        assert await anext(events) == Resynced("the server has ended the subscription")
        server.say(note("tools/list_changed", subscription(server)))
        assert await anext(events) == ToolsListChanged()
        assert server.goodbyes() == []
        assert len(server.requests("subscriptions/listen")) == 2
    assert "listening was interrupted and goes on: the server has ended the subscription" in caplog.text


async def test_an_end_that_names_another_subscription_is_an_end(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer()
    async with open_scripted(server) as client, client.listen(tools_list_changed=True) as events:
        odd = the_end(subscription(server))
        odd["result"]["_meta"][SUBSCRIPTION_ID] = 77
        server.say(odd)
        assert isinstance(await anext(events), Resynced)
    assert "named another one" in caplog.text


async def test_a_cancellation_by_the_server_is_an_end(autojump_clock: trio.testing.MockClock) -> None:
    """2026-07-28, basic/patterns/cancellation: a server cancels a subscription, and nothing else, to end it."""
    server = ScriptedServer()
    tape = Tape()
    async with open_scripted(server, on_frame=tape) as client, client.listen(tools_list_changed=True) as events:
        id = subscription(server)
        server.say(
            note("cancelled", requestId=999),
            note("cancelled", requestId=str(id)),
            note("cancelled"),
            note("tools/list_changed", id),
            note("cancelled", requestId=id),
            the_end(id),
        )
        assert await anext(events) == ToolsListChanged()
        assert isinstance(await anext(events), Resynced)
        assert server.goodbyes() == []
    tape.check_endings()


@pytest.mark.parametrize("end", ["result", "cancelled"])
async def test_an_end_before_the_acknowledgement_breaks_the_rules(
    end: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, "Acknowledgment": it must be the first message of a subscription."""

    def script(_: ScriptedServer, message: dict[str, Any]) -> object:
        id = message["id"]
        return the_end(id) if end == "result" else note("cancelled", requestId=id)

    async with open_scripted(ScriptedServer(script=script)) as client:
        with pytest.raises(RemoteProtocolError, match="without having been acknowledged"):
            async with client.listen(tools_list_changed=True):
                raise AssertionError("nobody has agreed")


@pytest.mark.parametrize(("code", "says"), [(-32601, "does not let clients listen"), (-32602, "no such thing")])
async def test_a_refusal_comes_out_of_entering(
    code: int, says: str, autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer(script=lambda _, message: refusal(message, code, "no such thing"))
    async with open_scripted(server) as client:
        with pytest.raises(RequestError, match=says) as caught:
            async with client.listen(tools_list_changed=True):
                raise AssertionError("nobody has agreed")
        assert caught.value.code == code
        assert len(server.requests("subscriptions/listen")) == 1


async def test_giving_up_while_entering_sends_one_cancellation(autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer(script=lambda _, __: NO_ANSWER)
    async with open_scripted(server) as client:
        with trio.move_on_after(2) as scope:
            async with client.listen(tools_list_changed=True):
                raise AssertionError("nobody has agreed")
        assert scope.cancelled_caught
        await settle()
        assert server.goodbyes() == [subscription(server)]


STRAYS: dict[str, tuple[Callable[[Any], object], str]] = {
    "unknown": (lambda own: note("tools/list_changed", own + 1), "for a subscription that does not exist"),
    "string": (lambda own: note("tools/list_changed", str(own)), "for a subscription that does not exist"),
    "boolean": (lambda _: note("tools/list_changed", True), "for a subscription that does not exist"),
    "none": (lambda _: note("tools/list_changed"), "for a subscription that does not exist"),
    "unasked": (lambda own: note("prompts/list_changed", own), "not asked for"),
    "foreign": (lambda own: acknowledge(own + 1, {}), "acknowledgement of a subscription that does not exist"),
    "second": (lambda own: acknowledge(own, {}), "second acknowledgement"),
}


async def test_strays_are_ignored_and_logged_once(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, "Receiving Notifications": the id is that of the request, in type and value."""
    for kind in STRAYS:
        with subtests.test(kind=kind):
            caplog.clear()
            repetitions.forget()
            stray, says = STRAYS[kind]
            server = ScriptedServer()
            async with open_scripted(server) as client, client.listen(tools_list_changed=True) as events:
                id = subscription(server)
                server.say(stray(id), stray(id), stray(id), note("tools/list_changed", id))
                assert await take(events, 1) == [ToolsListChanged()]
                assert events.waiting == 0
                assert events.acknowledged.tools_list_changed is True
            assert len([r for r in caplog.records if says in r.getMessage()]) == 1


async def test_what_was_sent_before_giving_up_is_no_fault_of_the_server(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """An acknowledgement and the first changes may be under way by then. An id that was never used is a fault."""
    server = ScriptedServer(script=lambda _, __: NO_ANSWER)
    async with open_scripted(server) as client:
        for _ in range(3):
            with trio.move_on_after(1):
                async with client.listen(tools_list_changed=True):
                    raise AssertionError("nobody has agreed")
        ids = [request["id"] for request in server.requests("subscriptions/listen")]
        await settle()
        assert server.goodbyes() == ids
        for id in ids:
            server.say(acknowledge(id, {"toolsListChanged": True}), note("tools/list_changed", id))
        await settle()
        assert caplog.records == []
        server.say(acknowledge(max(ids) + 1, {}))
        await settle()
    assert "the acknowledgement of a subscription that does not exist" in caplog.text


async def test_what_comes_before_the_acknowledgement_is_ignored(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, "Acknowledgment": the server must not; and one that cannot be read is none."""
    server = ScriptedServer(script=lambda _, __: NO_ANSWER)
    async with open_scripted(server) as client, trio.open_nursery() as nursery:

        async def misbehave() -> None:
            await settle()
            id = subscription(server)
            server.say(note("tools/list_changed", id), note("subscriptions/acknowledged", id, notifications=5))
            server.say(acknowledge(id, {"toolsListChanged": True}))

        nursery.start_soon(misbehave)
        async with client.listen(tools_list_changed=True) as events:
            await settle()
            assert events.waiting == 0
    assert "before the subscription was acknowledged" in caplog.text
    assert "cannot be read" in caplog.text


async def test_a_subscription_made_by_hand_goes_to_on_notification(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    heard: list[str] = []

    def hear(method: str, _: object) -> None:
        heard.append(method)

    server = ScriptedServer()
    async with (
        open_scripted(server, on_notification=hear) as client,
        trio.open_nursery() as nursery,
    ):
        by_hand = {"notifications": {"toolsListChanged": True}}
        nursery.start_soon(client.request, "subscriptions/listen", by_hand)
        await settle()
        server.say(note("tools/list_changed", subscription(server)))
        await settle()
        nursery.cancel_scope.cancel()
    assert heard == ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]
    assert "notifications/tools/list_changed" not in caplog.text


async def test_warnings_of_strays_are_bounded(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer(script=lambda _, __: NO_ANSWER)
    async with open_scripted(server) as client, trio.open_nursery() as nursery:

        async def misbehave() -> None:
            await settle()
            id = subscription(server)
            server.say(
                *(
                    note("subscriptions/acknowledged", id, notifications={"toolsListChanged": i})
                    for i in range(9, 99)
                )
            )
            server.say(acknowledge(id, {}))

        nursery.start_soon(misbehave)
        with pytest.raises(RequestError, match="does not notify changes of: tools_list_changed"):
            async with client.listen(tools_list_changed=True):
                raise AssertionError("nothing is notified")
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) <= 21


# The legacy era.


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_lists_need_no_request(revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """2025-11-25, server/tools, "List Changed Notification": what a server sends unasked is heard if it is wanted.

    Also from a server that has not declared it, as many do not.
    """
    server = ScriptedServer(revision, capabilities={})
    async with open_scripted(server) as client:
        await settle()
        before = len(server.sent)
        async with client.listen(tools_list_changed=True) as events:
            assert events.acknowledged.tools_list_changed is None
            server.say(note("tools/list_changed"))
            assert await take(events, 1) == [ToolsListChanged()]
        assert len(server.sent) == before


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_resource_is_subscribed_to_once_for_all(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2025-11-25, server/resources, "Subscriptions": the first subscribes, and the last unsubscribes."""
    server = ScriptedServer(revision)
    async with open_scripted(server) as client:
        async with client.listen(resources=["a:b"]) as one:
            async with client.listen(resources=["a:b", "a:c"]) as two:
                server.say(note("resources/updated", uri="a:b"))
                assert await take(one, 1) == await take(two, 1) == [ResourceUpdated("a:b")]
                assert [r["params"]["uri"] for r in server.requests("resources/subscribe")] == ["a:b", "a:c"]
            assert [r["params"]["uri"] for r in server.requests("resources/unsubscribe")] == ["a:c"]
            server.say(note("resources/updated", uri="a:b"), note("resources/updated", uri="a:c"))
            assert await take(one, 1) == [ResourceUpdated("a:b")]
        assert [r["params"]["uri"] for r in server.requests("resources/unsubscribe")] == ["a:c", "a:b"]
        async with client.listen(resources=["a:b"]):
            assert len(server.requests("resources/subscribe")) == 3


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_part_of_a_resource_is_heard_of(revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """2025-11-25, schema, `ResourceUpdatedNotification`: it may be a sub-resource of what was subscribed to."""
    server = ScriptedServer(revision)
    async with open_scripted(server) as client, client.listen(resources=["file:///d", "x:/y/"]) as events:
        for uri in ("file:///d/e", "file:///dd", "file:///", "x:/y/z", "x:/y", "file:///d#part"):
            server.say(note("resources/updated", uri=uri))
        heard = await take(events, 3)
        assert heard == [
            ResourceUpdated("file:///d/e"),
            ResourceUpdated("x:/y/z"),
            ResourceUpdated("file:///d#part"),
        ]
        assert events.waiting == 0


@pytest.mark.parametrize("revision", LEGACY_ENDS)
@pytest.mark.parametrize("code", [-32601, -32002])
async def test_a_refusal_leaves_nothing_subscribed(
    code: int, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    def script(_: ScriptedServer, message: dict[str, Any]) -> object:
        is_refused = message["method"] == "resources/subscribe" and message["params"]["uri"] == "a:no"
        return refusal(message, code, "no") if is_refused else None

    server = ScriptedServer(revision, script)
    async with open_scripted(server) as client:
        with pytest.raises(RequestError) as caught:
            async with client.listen(resources=["a:yes", "a:no"]):
                raise AssertionError("nobody has agreed")
        assert caught.value.code == code
        assert [r["params"]["uri"] for r in server.requests("resources/unsubscribe")] == ["a:yes"]


@pytest.mark.parametrize("revision", LEGACY_ENDS)
@pytest.mark.parametrize("capabilities", [{}, {"resources": {}}, {"resources": {"subscribe": False}}])
async def test_a_server_that_does_not_say_that_it_tells_of_resources_is_asked(
    capabilities: dict[str, Any], revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Servers made with the reference implementation declare ``subscribe: false`` and serve subscriptions."""
    server = ScriptedServer(revision, capabilities=capabilities)
    async with open_scripted(server) as client, client.listen(resources=["a:b"]) as events:
        server.say(note("resources/updated", uri="a:b"))
        assert await take(events, 1) == [ResourceUpdated("a:b")]


@pytest.mark.parametrize("revision", LEGACY_ENDS)
@pytest.mark.parametrize("capabilities", [{}, {"resources": {"subscribe": False}}])
async def test_a_server_that_does_not_tell_of_resources_says_so_itself(
    capabilities: dict[str, Any], revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    def script(_: ScriptedServer, message: dict[str, Any]) -> object:
        return refusal(message, -32601, "what is that?") if message["method"] == "resources/subscribe" else None

    server = ScriptedServer(revision, script, capabilities=capabilities)
    async with open_scripted(server) as client:
        with pytest.raises(
            RequestError, match=r"does not let clients subscribe to resources: what is that\?"
        ) as caught:
            async with client.listen(resources=["a:b"]):
                raise AssertionError("nobody has agreed")
        assert caught.value.code == -32601
        assert server.requests("resources/unsubscribe") == []


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_leaving_a_silent_server_takes_no_longer_than_goodbye_timeout(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    def script(_: ScriptedServer, message: dict[str, Any]) -> object:
        return NO_ANSWER if message["method"] == "resources/unsubscribe" else None

    server = ScriptedServer(revision, script)
    tape = Tape()
    async with open_scripted(server, limits=Limits(goodbye_timeout=2), on_frame=tape) as client:
        async with client.listen(resources=["a:b"]):
            pass
        assert trio.current_time() == 2
        assert client.statistics().calls == 0
    tape.check_endings()


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_listener_that_comes_while_another_leaves_is_subscribed(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The server is told of leaving and coming in this order, so the last word is that somebody listens."""
    server = ScriptedServer(revision)
    held: list[dict[str, Any]] = []

    def script(_: ScriptedServer, message: dict[str, Any]) -> object:
        if message["method"] == "resources/unsubscribe":
            held.append(message)
            return NO_ANSWER
        return None

    server.script = script
    async with open_scripted(server) as client, trio.open_nursery() as nursery:

        async def come_and_go() -> None:
            async with client.listen(resources=["a:b"]):
                pass

        async def come_and_stay() -> None:
            async with client.listen(resources=["a:b"]) as events:
                assert await take(events, 1) == [ResourceUpdated("a:b")]

        nursery.start_soon(come_and_go)
        await settle()
        nursery.start_soon(come_and_stay)
        await settle()
        server.say({"jsonrpc": "2.0", "id": held[0]["id"], "result": {}})
        await settle()
        methods = [m["method"] for m in server.sent if m["method"].startswith("resources/")]
        assert methods == ["resources/subscribe", "resources/unsubscribe", "resources/subscribe"]
        server.say(note("resources/updated", uri="a:b"))


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_listener_that_comes_in_the_pass_in_which_another_leaves_is_subscribed(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Trio runs the tasks of a pass in any order, so it is tried several times."""
    server = ScriptedServer(revision)
    async with open_scripted(server) as client:
        for _ in range(16):
            async with trio.open_nursery() as nursery:
                left, entered = trio.Event(), trio.Event()

                async def leave(left: trio.Event = left) -> None:
                    async with client.listen(resources=["a:b"]):
                        await left.wait()

                async def come(left: trio.Event = left, entered: trio.Event = entered) -> None:
                    await left.wait()
                    async with client.listen(resources=["a:b"]):
                        entered.set()
                        await trio.sleep_forever()

                nursery.start_soon(leave)
                nursery.start_soon(come)
                await settle()
                left.set()
                await settle()
                assert entered.is_set()
                said = [m["method"] for m in server.sent if m["method"].startswith("resources/")]
                assert said[-1] == "resources/subscribe"
                nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", LEGACY_ENDS)
@pytest.mark.parametrize("is_written", [False, True])
async def test_a_listener_cancelled_before_it_was_subscribed_leaves_the_next_one_to_subscribe(
    is_written: bool, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """What the server has not confirmed is nobody's subscription: it may never have been asked."""
    answering = False

    def script(_: ScriptedServer, message: dict[str, Any]) -> object:
        return None if answering or message["method"] != "resources/subscribe" else NO_ANSWER

    server = ScriptedServer(revision, script)
    acknowledged = trio.Event()
    async with open_scripted(server) as client, trio.open_nursery() as nursery:

        async def listen(scope: trio.CancelScope, entered: trio.Event) -> None:
            with scope:
                async with client.listen(resources=["a:b"]):
                    entered.set()
                    await trio.sleep_forever()

        if not is_written:
            server.channel.stop_reading()
            nursery.start_soon(client.notify, "notifications/x/first")  # the writer is stuck with this one
            await settle()
        first, second = trio.CancelScope(), trio.CancelScope()
        nursery.start_soon(listen, first, trio.Event())
        await settle()
        nursery.start_soon(listen, second, acknowledged)
        await settle()
        first.cancel()
        await settle()
        assert not acknowledged.is_set()
        answering = True
        server.channel.reading.set()
        await settle()
        if is_written:
            server.say({"jsonrpc": "2.0", "id": server.requests("resources/subscribe")[-1]["id"], "result": {}})
        with trio.fail_after(1):
            await acknowledged.wait()
        asked = server.requests("resources/subscribe")
        assert asked[-1]["id"] not in server.goodbyes()
        assert len(asked) == (2 if is_written else 1)
        assert server.requests("resources/unsubscribe") == []
        second.cancel()
        await settle()
        assert len(server.requests("resources/unsubscribe")) == 1


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_whenever_one_listener_is_cancelled_the_other_one_is_subscribed(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The last word about the resource that the server can have heeded is that somebody listens."""
    for steps in range(40):
        server = ScriptedServer(revision)
        async with open_scripted(server) as client:
            await settle()
            async with trio.open_nursery() as nursery:
                scope = trio.CancelScope()

                async def come_and_go(client: Client = client, scope: trio.CancelScope = scope) -> None:
                    with scope:
                        async with client.listen(resources=["a:b"]):
                            await trio.sleep_forever()

                async def come_and_stay(client: Client = client) -> None:
                    async with client.listen(resources=["a:b"]) as events:
                        assert await take(events, 1) == [ResourceUpdated("a:b")]

                nursery.start_soon(come_and_go)
                nursery.start_soon(come_and_stay)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
                await settle()
                heeded = [
                    message["method"]
                    for message in server.sent
                    if message["method"].startswith("resources/") and message["id"] not in server.goodbyes()
                ]
                assert heeded[-1:] == ["resources/subscribe"], f"cancelled after {steps} steps"
                server.say(note("resources/updated", uri="a:b"))
            await settle()
            assert server.requests("resources/unsubscribe")


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_resource_that_is_slow_to_be_given_back_does_not_let_another_be_forgotten(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """A resource is remembered until everybody has given it back, or what is asked about it would lose its order."""
    held: list[dict[str, Any]] = []

    def script(_: ScriptedServer, message: dict[str, Any]) -> object:
        if message["method"] != "resources/unsubscribe":
            return None
        if message["params"]["uri"] == "a:fast" and not held:
            return None
        held.append(message)
        return NO_ANSWER

    server = ScriptedServer(revision, script)

    async def come_and_go(*uris: str) -> None:
        async with client.listen(resources=uris):
            pass

    async def come_and_stay() -> None:
        async with client.listen(resources=["a:fast"]):
            await trio.sleep_forever()

    def answer_held(index: int) -> None:
        server.say({"jsonrpc": "2.0", "id": held[index]["id"], "result": {}})

    async with open_scripted(server) as client, trio.open_nursery() as nursery:
        nursery.start_soon(come_and_go, "a:fast", "a:slow")
        await settle()
        held.sort(key=lambda message: str(message["params"]["uri"]) == "a:slow", reverse=True)
        assert held[0]["params"]["uri"] == "a:slow"
        if len(held) > 1:
            answer_held(1)
            del held[1]
            await settle()
        nursery.start_soon(come_and_go, "a:fast")
        await settle()
        assert [message["params"]["uri"] for message in held] == ["a:slow", "a:fast"]
        answer_held(0)  # the first listener has given everything back
        await settle()
        before = len(server.requests("resources/subscribe"))
        nursery.start_soon(come_and_stay)
        await settle()
        assert len(server.requests("resources/subscribe")) == before, "the server is still asked to end it"
        answer_held(1)
        await settle()
        assert len(server.requests("resources/subscribe")) == before + 1
        nursery.cancel_scope.cancel()


# After an interruption.


@pytest.mark.spec("basic/patterns/subscriptions", "Graceful Closure", revisions="2026-07-28")
@pytest.mark.parametrize("revision", ENDS)
async def test_a_connection_that_is_restored_is_listened_to_again(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, "Graceful Closure": on stdio the client must subscribe again when the connection is back."""
    server = ScriptedServer(revision)
    async with (
        open_scripted(server) as client,
        client.listen(tools_list_changed=True, resources=["a:b"]) as events,
    ):
        server.say(note("tools/list_changed", subscription(server)))
        await settle()
        for restarts in (1, 2):
            server.lose()
            await trio.sleep(30)
            assert server.connections == 1 + restarts
            asked = "subscriptions/listen" if is_modern(revision) else "resources/subscribe"
            assert len(server.requests(asked)) == 1
            server.say(note("resources/updated", subscription(server), uri="a:b"))
            (again, change) = await take(events, 2)
            assert isinstance(again, Resynced), "and what waited before is part of it"
            assert "fell over" in again.reason
            assert change == ResourceUpdated("a:b")
            assert events.waiting == 0
    if is_modern(revision):
        assert server.goodbyes() == [subscription(server)]
    else:
        assert len(server.requests("resources/unsubscribe")) == 1


@pytest.mark.parametrize("revision", ENDS)
async def test_a_connection_that_is_not_restored_ends_the_iteration(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer(revision)

    async with open_scripted(server) as client, client.listen(tools_list_changed=True) as events:
        for _ in range(4):
            server.lose()
            await trio.sleep(20)
        assert isinstance(await events.__anext__(), Resynced)
        with pytest.raises(ConnectionLost):
            await events.__anext__()


async def test_a_connection_that_has_lasted_is_restored_however_often(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """`RestartPolicy.lasting`: only those in a row that do not last are counted."""
    server = ScriptedServer()
    async with open_scripted(server) as client:
        for restarts in range(1, 10):
            await trio.sleep(100)
            server.lose()
            await trio.sleep(2)
            assert server.connections == 1 + restarts
        assert await client.request("x/y") == {}


async def test_a_server_that_is_started_a_second_time_has_no_more_time_to_begin(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """`Limits.connect_timeout` is for being connected."""
    server = ScriptedServer(LEGACY[-1])
    server.survives_probe, server.restart = True, None
    asked: list[str] = []

    def reply(message: dict[str, Any]) -> object:
        asked.append(message["method"])
        return None

    server._reply = reply  # type: ignore[method-assign]
    server.channel.reply = reply

    async def fall_over() -> None:
        await trio.sleep(6)
        server.lose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fall_over)
        with pytest.raises(ConnectionLost, match="connect_timeout"):
            async with open_scripted(server, limits=Limits(connect_timeout=10, discover_timeout=9)):
                raise AssertionError
    assert trio.current_time() == 10
    assert (asked, server.connections) == (["initialize"] * 2, 2)


async def test_a_subscription_that_fails_is_made_again_after_a_growing_pause(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """While the connection lives, and for as long as it takes."""
    asked: list[float] = []

    def script(_: ScriptedServer, message: dict[str, Any]) -> object:
        asked.append(trio.current_time())
        return refusal(message, -32603, "just now not") if 1 < len(asked) < 20 else None

    server = ScriptedServer(script=script)
    async with open_scripted(server) as client, client.listen(tools_list_changed=True) as events:
        server.say(refusal({"id": subscription(server)}, -32603, "something broke"))
        assert await anext(events) == Resynced("just now not [-32603]")
        pauses = [later - earlier for earlier, later in itertools.pairwise(asked)]
        assert len(pauses) == 19
        for number, pause in enumerate(pauses):
            longest = min(0.1 * 2**number, 30)
            assert longest / 2 - 1e-6 <= pause <= longest + 1e-6
        assert server.connections == 1


def refuse_to_go_on(_: ScriptedServer, message: dict[str, Any]) -> object:
    return refusal(message, -32601, "not any more")


def ignore_the_first(server: ScriptedServer, _: dict[str, Any]) -> object:
    return NO_ANSWER if len(server.requests("subscriptions/listen")) == 1 else None


async def test_a_subscription_that_is_refused_later_ends_the_iteration(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = ScriptedServer()
    async with open_scripted(server) as client, client.listen(tools_list_changed=True) as events:
        server.script = refuse_to_go_on
        server.lose()
        with pytest.raises(RequestError, match="does not let clients listen"):
            await events.__anext__()
        assert len(server.requests("subscriptions/listen")) == 1


async def test_a_renewal_that_is_not_acknowledged_is_given_up_and_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The server is not told the client's patience as the deadline of the subscription."""
    server = ScriptedServer()
    async with (
        open_scripted(server, limits=Limits(connect_timeout=7)) as client,
        client.listen(tools_list_changed=True) as events,
    ):
        server.script = ignore_the_first
        server.lose()
        resynced = await events.__anext__()
        assert isinstance(resynced, Resynced)
        assert "within 7 s" in resynced.reason
        first, second = server.requests("subscriptions/listen")
        assert server.goodbyes() == [first["id"]]
        assert "trio-mcp/timeoutMs" not in first["params"]["_meta"]
        await trio.sleep(100)
        server.say(note("tools/list_changed", second["id"]))
        assert await take(events, 1) == [ToolsListChanged()]


async def test_losing_the_connection_while_entering_comes_out_of_entering(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def fall_over(server: ScriptedServer, _: dict[str, Any]) -> object:
        server.lose()
        return NO_ANSWER

    server = ScriptedServer(script=fall_over)
    async with open_scripted(server) as client:
        with pytest.raises(ConnectionLost, match="fell over"):
            async with client.listen(tools_list_changed=True):
                raise AssertionError("nobody has agreed")
