"""A server's own handlers of what clients notify it of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS, LEGACY_ENDS
from inside_base import LEGACY
from talking import Talk, connect, note

from trio_mcp import NotificationContext, Revision, Server

ALL_REVISIONS = pytest.mark.parametrize("revision", list(Revision))
ROOTS = "notifications/roots/list_changed"


class Listener:
    """A server that remembers what it was told."""

    def __init__(self, *methods: str, revisions: tuple[Revision, ...] = tuple(Revision)) -> None:
        self.server = Server("listener", lifespan=None, revisions=revisions)
        self.heard: list[tuple[str, Mapping[str, Any]]] = []
        self.contexts: list[NotificationContext[Any]] = []
        for method in methods:
            self.server.notification_handler(method)(self.hear)

    async def hear(self, params: Mapping[str, Any], context: NotificationContext[Any]) -> None:
        self.heard.append((context.method, params))
        self.contexts.append(context)
        await trio.lowlevel.checkpoint()


@ALL_REVISIONS
async def test_a_notification_of_ones_own_is_handled(revision: Revision, nursery: trio.Nursery) -> None:
    listener = Listener("library/opened")
    talk = await connect(nursery, listener.server)
    if not revision.is_modern:
        await talk.shake_hands(revision)
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"} if revision.is_modern else {"x": 1}
    assert await talk.say(note("library/opened", door=1, _meta=meta), note("library/opened"), note("other")) == []
    assert listener.heard == [("library/opened", {"door": 1, "_meta": meta}), ("library/opened", {})]
    context, bare = listener.contexts
    assert (context.revision, context.meta, bare.meta) == (revision, meta, {})
    assert (context.state, context.principal) == (None, None)
    if revision.is_modern:
        assert context.client_info is None
        assert context.client_capabilities.roots is None
    else:
        assert context.client_info is not None
        assert context.client_info.name == "by hand"
        assert context.client_capabilities.roots is not None
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_change_of_roots_is_notified(revision: Revision, nursery: trio.Nursery) -> None:
    """Every legacy revision: client/roots, "Root List Changes"."""
    listener = Listener(ROOTS, "notifications/initialized")
    talk = await connect(nursery, listener.server)
    await talk.shake_hands(revision)
    await talk.say(note(ROOTS))
    assert [method for method, _ in listener.heard] == ["notifications/initialized", ROOTS]
    nursery.cancel_scope.cancel()


async def test_what_the_revision_does_not_have_is_ignored(nursery: trio.Nursery) -> None:
    """2026-07-28, changelog, 5: roots are not told of any more."""
    listener = Listener(ROOTS)
    talk = await connect(nursery, listener.server)
    await talk.say(note(ROOTS))
    await talk.shake_hands(Revision.V2025_11_25)
    await talk.say(note(ROOTS, _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"}))
    assert listener.heard == []
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", ["2027-01-01", 7, "2025-11-25"])
async def test_one_of_no_revision_we_speak_is_ignored(version: object, nursery: trio.Nursery) -> None:
    listener = Listener("x/y")
    talk = await connect(nursery, listener.server)
    await talk.say(note("x/y", _meta={"io.modelcontextprotocol/protocolVersion": version}))
    assert listener.heard == []
    nursery.cancel_scope.cancel()


async def test_a_server_of_the_legacy_era_waits_for_the_handshake(nursery: trio.Nursery) -> None:
    listener = Listener("x/y", revisions=LEGACY)
    talk = await connect(nursery, listener.server)
    await talk.say(note("x/y"))
    assert listener.heard == []
    await talk.shake_hands(Revision.V2024_11_05)
    await talk.say(note("x/y"))
    assert len(listener.heard) == 1
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", ENDS)
async def test_they_are_handled_one_at_a_time_in_the_order_of_the_wire(
    revision: Revision, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Promise 9."""
    server = Server("slow")
    events: list[str] = []

    @server.notification_handler("x/slow")
    async def slow(params: Mapping[str, Any], _: NotificationContext) -> None:
        events.append(f"{params['n']} begins")
        await trio.sleep(1 / params["n"])
        events.append(f"{params['n']} ends")

    @server.notification_handler("x/quick")
    async def quick(_: Mapping[str, Any], __: NotificationContext) -> None:
        events.append("quick")

    talk = await connect(nursery, server)
    if not revision.is_modern:
        await talk.shake_hands(revision)
    await talk.say(note("x/slow", n=1), note("x/slow", n=2), note("x/quick"))
    await trio.sleep(5)
    assert events == ["1 begins", "1 ends", "2 begins", "2 ends", "quick"]
    nursery.cancel_scope.cancel()


async def test_one_that_fails_is_logged_and_affects_no_other(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("broken")
    heard: list[object] = []

    @server.notification_handler("x/y")
    async def broken(params: Mapping[str, Any], _: NotificationContext) -> None:
        heard.append(params)
        raise LookupError("what it says is in the log")

    talk = await connect(nursery, server)
    assert await talk.say(note("x/y"), note("x/y", _meta=7)) == []
    assert len(heard) == 2
    assert caplog.text.count("what it says is in the log") >= 2
    assert "result" in await talk.ask("server/discover", Revision.V2026_07_28)
    nursery.cancel_scope.cancel()


async def test_one_that_hangs_ends_with_the_connection(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = Server("hanging")
    ended: list[str] = []

    @server.notification_handler("x/y")
    async def hang(_: Mapping[str, Any], __: NotificationContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("cleanup")

    talk = Talk(server)
    await nursery.start(talk.serve)
    await talk.say(note("x/y"))
    talk.channel.hang_up()
    await trio.sleep(10)
    assert (ended, talk.ended) == (["cleanup"], True)


def test_what_could_never_be_handled_cannot_be_registered() -> None:
    server = Server("x")
    for method, why in [
        ("notifications/cancelled", "by the connection itself"),
        ("notifications/progress", "by the connection itself"),
        ("notifications/message", "never sent by a client"),
        ("notifications/resources/updated", "never sent by a client"),
    ]:
        with pytest.raises(ValueError, match=why):
            server.notification_handler(method)

    @server.notification_handler("x/y")
    async def handle(_: Mapping[str, Any], __: NotificationContext) -> None: ...

    with pytest.raises(ValueError, match="has a handler already"):
        server.notification_handler("x/y")
    assert server._application.notification_handler_for("x/y", Revision.V2025_11_25) is handle
