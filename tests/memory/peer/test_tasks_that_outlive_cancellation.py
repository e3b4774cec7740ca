"""What a connection goes on doing while the body that has opened it is being cancelled."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import pytest
import trio
import trio.testing
from inside_peer import Hooks, Peer, open_peer
from inside_wire import Request
from wires import ScriptedChannel, answer

from trio_mcp import Limits, Notification, Origin


class Noting:
    """A dispatcher that notes the notifications it gets."""

    accepts_batches = False
    answers_unreadable = False
    answers_malformed = False

    def __init__(self) -> None:
        self.notified_of: list[str] = []

    def route(self, request: Request, origin: Origin | None) -> None:
        del request, origin

    def parked_canceller(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Say that no request goes on with anything."""
        return None

    def take_back(self, request: Request) -> None:
        del request

    def notification_key(self, notification: Notification) -> Hashable | None:
        return notification.method

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        del origin
        await trio.lowlevel.checkpoint()
        self.notified_of.append(notification.method)


@pytest.mark.parametrize("task", ["reader", "writer", "notices"])
async def test_a_body_that_is_cancelled_is_still_served(
    task: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 3: the body goes first, so that its cleanup can talk; each of the three tasks is needed for that."""
    overheard: list[str] = []
    dispatcher = Noting()

    def reply(message: dict[str, Any]) -> object:
        return answer(message, {}) if "id" in message else None

    async def clean_up(channel: ScriptedChannel, peer: Peer) -> None:
        if task == "writer":
            await peer.notify("notifications/x")
            await trio.testing.wait_all_tasks_blocked()
            assert [message["method"] for message in channel.sent] == ["notifications/x"]
            return
        channel.say({"jsonrpc": "2.0", "method": "notifications/y"})
        await trio.testing.wait_all_tasks_blocked()
        assert overheard == ["notifications/y"]
        if task == "notices":
            assert dispatcher.notified_of == ["notifications/y"]
        else:
            assert await peer.request("x/y") == {}

    has_cleaned_up = False
    channel = ScriptedChannel(reply)
    with trio.CancelScope() as scope:
        async with open_peer(
            channel,
            dispatcher,
            Limits(),
            hooks=Hooks(on_notification_read=lambda notice: overheard.append(notice.method)),
        ) as peer:
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            with trio.move_on_after(5, shield=True):
                await trio.testing.wait_all_tasks_blocked()
                await clean_up(channel, peer)
                has_cleaned_up = True
    assert has_cleaned_up
