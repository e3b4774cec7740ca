"""Callbacks for changes, for those who want no loop."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS, LEGACY_ENDS
from scripted import MODERN, NO_ANSWER, ScriptedServer, note, open_scripted, settle, the_end
from wires import refusal

from trio_mcp import Limits, LocalProtocolError, Server, open_client
from trio_mcp.types import LoggingMessageNotificationParams


class Recorder:
    """Callbacks that remember that they were called."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.pause = 0.0

    async def hear(self, what: str) -> None:
        self.heard.append(f"{what} begins")
        await trio.sleep(self.pause)
        self.heard[-1] = what

    async def hear_log(self, message: LoggingMessageNotificationParams) -> None:
        await self.hear(f"log {message.data}")

    def options(self) -> dict[str, Any]:
        return {
            "on_tools_list_changed": functools.partial(self.hear, "tools"),
            "on_prompts_list_changed": functools.partial(self.hear, "prompts"),
            "on_resources_list_changed": lambda: self.heard.append("resources"),
            "on_resource_updated": self.heard.append,
            "on_log": self.hear_log,
        }


def own_subscription(server: ScriptedServer) -> Any:
    return server.requests("subscriptions/listen")[0]["id"] if server.revision == MODERN else None


@pytest.mark.parametrize("revision", ENDS)
async def test_callbacks_are_called_one_at_a_time_and_in_order(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, basic/patterns/subscriptions: the client subscribes by itself; until 2025-11-25 they come unasked.

    Log messages are in the same order: it is that of the wire.
    """
    server, recorder = ScriptedServer(revision), Recorder()
    recorder.pause = 1
    async with open_scripted(server, **recorder.options()) as client:
        await settle()
        id = own_subscription(server)
        server.say(
            note("tools/list_changed", id),
            note("message", level="info", data=1),
            note("prompts/list_changed", id),
            note("resources/list_changed", id),
            note("resources/updated", id, uri="a:b"),
        )
        assert await client.request("x/not-held-up") == {}
        await trio.sleep(10)
        assert recorder.heard == ["tools", "log 1", "prompts", "resources", "a:b"]
    if revision == MODERN:
        (asked,) = server.requests("subscriptions/listen")
        assert asked["params"]["notifications"] == {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourcesListChanged": True,
        }
        assert server.goodbyes() == [id]


@pytest.mark.parametrize("revision", ENDS)
async def test_after_an_interruption_each_callback_is_called_once(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Something may have changed unheard; that includes resources that somebody listens to."""
    server, recorder = ScriptedServer(revision), Recorder()
    async with (
        open_scripted(server, **recorder.options()) as client,
        client.listen(resources=["a:b"]),
    ):
        server.lose()
        await trio.sleep(10)
        assert server.connections == 2
        assert sorted(recorder.heard) == ["a:b", "prompts", "resources", "tools"]
        server.say(note("tools/list_changed", own_subscription(server)))
        await settle()
        assert recorder.heard[4:] == ["tools"]


@pytest.mark.parametrize("capabilities", [{}, {"tools": {}, "prompts": {"listChanged": False}, "resources": {}}])
async def test_what_the_server_does_not_tell_about_is_not_asked_for(
    capabilities: dict[str, Any], autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer(capabilities=capabilities)
    async with open_scripted(server, **Recorder().options()) as client:
        await client.request("x/anything")
    assert server.requests("subscriptions/listen") == []


async def test_only_what_there_are_callbacks_for_is_asked_for(autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer()
    async with open_scripted(server, on_prompts_list_changed=lambda: None, on_resource_updated=print) as client:
        await client.request("x/anything")
    (asked,) = server.requests("subscriptions/listen")
    assert asked["params"]["notifications"] == {"promptsListChanged": True}


@pytest.mark.parametrize("revision", ENDS)
async def test_without_callbacks_nothing_is_asked_for(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer(revision)
    async with open_scripted(server, on_resource_updated=print) as client:
        await client.request("x/anything")
    assert server.requests("subscriptions/listen") == []


@pytest.mark.parametrize("revision", ENDS)
async def test_resources_are_called_for_while_they_are_listened_to(revision: str) -> None:
    """The callback alone names none to subscribe to. Nobody has to iterate over the events."""
    server: Server[None] = Server("scores")

    @server.resource("score://today")
    async def today() -> str:
        return "0:0"

    heard: list[str] = []

    async def change() -> list[str]:
        await server.resource_updated("score://today")
        await trio.testing.wait_all_tasks_blocked()
        return heard

    async with open_client(server, revision=revision, on_resource_updated=heard.append) as client:
        assert await change() == []
        async with client.listen(resources=["score://today"], max_events=1):
            await change()
            assert await change() == ["score://today"] * 2
        assert await change() == ["score://today"] * 2


async def test_changes_for_a_listener_are_not_the_callbacks(autojump_clock: trio.testing.MockClock) -> None:
    """2026-07-28, "Multiple Concurrent Subscriptions": each change would be called twice otherwise."""
    server, recorder = ScriptedServer(), Recorder()
    async with (
        open_scripted(server, **recorder.options()) as client,
        client.listen(tools_list_changed=True, resources=["a:b"]) as events,
    ):
        ours, theirs = (request["id"] for request in server.requests("subscriptions/listen"))
        server.say(note("tools/list_changed", theirs), note("resources/updated", theirs, uri="a:b"))
        await settle()
        assert recorder.heard == ["a:b"]
        assert events.waiting == 2
        server.say(note("tools/list_changed", ours))
        await settle()
        assert recorder.heard == ["a:b", "tools"]


async def test_a_callback_that_fails_affects_no_other(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    recorder = Recorder()

    def fail() -> None:
        raise ArithmeticError("the user's own")

    server = ScriptedServer()
    async with open_scripted(server, **{**recorder.options(), "on_tools_list_changed": fail}) as client:
        await settle()
        id = own_subscription(server)
        server.say(note("tools/list_changed", id), note("prompts/list_changed", id))
        await settle()
        assert await client.request("x/anything") == {}
    assert recorder.heard == ["prompts"]
    assert "the user's own" in caplog.text


async def test_after_an_orderly_end_it_is_listened_again(autojump_clock: trio.testing.MockClock) -> None:
    """What was missed meanwhile is called for, and what was remembered is fetched again."""
    server, recorder = ScriptedServer(), Recorder()
    async with open_scripted(server, **recorder.options()):
        await settle()
        server.say(the_end(own_subscription(server)))
        await trio.sleep(100)
        assert len(server.requests("subscriptions/listen")) == 2
        assert sorted(recorder.heard) == ["prompts", "resources", "tools"]


@pytest.mark.parametrize(("code", "times"), [(-32601, 1), (-32603, 9)])
async def test_a_server_that_refuses_is_left_alone(
    code: int, times: int, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """At once if it has no such method, else after some more attempts."""
    server = ScriptedServer(script=lambda _, message: refusal(message, code, "no"))
    async with open_scripted(server, on_tools_list_changed=print) as client:
        await trio.sleep(1000)
        assert len(server.requests("subscriptions/listen")) == times
        assert not client.statistics().calls
    assert "not called for changes of lists any more" in caplog.text


async def test_a_subscription_that_fails_is_made_again(autojump_clock: trio.testing.MockClock) -> None:
    server, recorder = ScriptedServer(), Recorder()
    async with open_scripted(server, **recorder.options()):
        await settle()
        server.say(refusal({"id": own_subscription(server)}, -32603, "something broke"))
        await trio.sleep(1)
        assert len(server.requests("subscriptions/listen")) == 2
        assert recorder.heard == ["tools", "prompts", "resources"]


async def test_a_subscription_that_is_not_acknowledged_is_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = ScriptedServer(script=lambda _, __: NO_ANSWER)
    async with open_scripted(server, on_tools_list_changed=print, limits=Limits(connect_timeout=3)) as client:
        await trio.sleep(1000)
        assert len(server.requests("subscriptions/listen")) == len(server.goodbyes()) == 9
        assert not client.statistics().calls


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_closing_with_callbacks_leaves_nothing(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer(revision)
    async with open_scripted(server, **Recorder().options()) as client:
        with pytest.raises(LocalProtocolError):
            await client.request("subscriptions/listen", {})
        await client.aclose()
    assert server.channel.closed is False, "the connector's to close"
