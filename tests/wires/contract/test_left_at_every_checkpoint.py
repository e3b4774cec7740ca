"""A client, or a group of them, is left at every step of connecting, in every way, and that takes no time.

`test_cancelled_at_every_checkpoint` does the same to a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

import pytest
import trio
import trio.testing
from lines import LEGACY, MODERN, open_target
from steps import after_steps, cancelled_after_steps

from tests.simulation.play import ordered_by
from trio_mcp import ClientGroup, Server, ServerUnavailable, Target, open_client, open_clients, run_client

FAR: Final = 10_000
PATIENCE: Final = 5.0
"""Seconds of real time without anything to do after which a mock clock jumps, where there are processes and sockets."""

ORDERS: Final = 4
"""In how many orders the tasks run that are ready at once."""

SESSION_IDLE: Final = 1_801
"""Seconds after which a server ends a session whose client has gone."""


class Mine(Exception):
    """What a body raises."""


def make_server() -> Server[None]:
    server: Server[None] = Server("left soon")

    @server.tool
    async def quick() -> str:
        await trio.lowlevel.checkpoint()
        return "done"

    return server


# How a group is left. The body waits until it is to do that.


async def returns(group: ClientGroup) -> None:
    del group


async def raises(group: ClientGroup) -> None:
    del group
    raise Mine


async def calls(group: ClientGroup) -> None:
    """What everybody does who forgets `wait_ready`."""
    await group.call_tool("a_quick")


async def closes(group: ClientGroup) -> None:
    for client in group.clients.values():
        await client.aclose()
    raise Mine


async def restarts(group: ClientGroup) -> None:
    group.restart("a")


async def is_cancelled(group: ClientGroup) -> None:
    del group
    await trio.sleep(FAR)


Leave: TypeAlias = Callable[[ClientGroup], Awaitable[None]]


async def leave_group(leave: Leave, target: Target, revision: str, n: int) -> bool:
    """Leave a group after the n-th step. Returns whether its member was ready before."""
    due = trio.Event()
    was_ready = False

    async def become_ready(group: ClientGroup) -> None:
        nonlocal was_ready
        with suppress(ServerUnavailable):
            await group.wait_ready()
            was_ready = not due.is_set()
            due.set()

    with trio.CancelScope() as scope:

        def act() -> None:
            due.set()
            if leave is is_cancelled:
                scope.cancel(reason="in the middle of things")

        async with trio.open_nursery() as watching:
            with suppress(Mine, ServerUnavailable), after_steps(n, act):
                async with open_clients({"a": target}, revision=revision) as group:
                    watching.start_soon(become_ready, group)
                    if not due.is_set():
                        await due.wait()  # and nothing else: the next step may be the one that matters
                    if was_ready:
                        act()
                    await leave(group)
            watching.cancel_scope.cancel(reason="the group was left")
    return was_ready


async def leave_client(target: Target, revision: str, n: int) -> bool:
    """The same for a client that is opened by `open_client`, which only a cancellation leaves while it connects."""
    with cancelled_after_steps(n) as scope:
        async with open_client(target, revision=revision):
            pass
    return not scope.cancelled_caught


async def leave_task(target: Target, revision: str, n: int) -> bool:
    """The same for `run_client`."""
    with cancelled_after_steps(n) as scope:
        async with trio.open_nursery() as nursery:
            client = await nursery.start(partial(run_client, target, revision=revision))
            await client.aclose()
    return not scope.cancelled_caught


LeaveAt: TypeAlias = Callable[[Target, str, int], Awaitable[bool]]


@pytest.mark.parametrize(
    "leave",
    [
        *(partial(leave_group, leave) for leave in (returns, raises, calls, closes, restarts, is_cancelled)),
        leave_client,
        leave_task,
    ],
    ids=["returns", "raises", "calls", "closes", "restarts", "cancelled", "block", "task"],
)
@pytest.mark.parametrize(
    ("binding", "revision"),
    [
        ("memory", LEGACY),
        ("memory", MODERN),
        ("http", MODERN),
        pytest.param("http", LEGACY, marks=pytest.mark.nightly),
        pytest.param("stdio", MODERN, marks=pytest.mark.nightly),
        pytest.param("http-lean", MODERN, marks=pytest.mark.nightly),
        pytest.param("unix", MODERN, marks=pytest.mark.nightly),
        pytest.param("proxy", MODERN, marks=pytest.mark.nightly),
    ],
)
async def test_left_at_every_checkpoint(
    leave: LeaveAt, binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promises 3 and 8: nothing is waited for that has not connected yet, and nothing of it is left."""
    is_real = binding not in {"memory", "http"}
    async with open_target(make_server(), binding) as target:
        autojump_clock.autojump_threshold = PATIENCE if is_real else 0
        before = trio.lowlevel.current_statistics().tasks_living
        for order in range(1 if is_real else ORDERS):
            began, n, was_ready = trio.current_time(), 0, False
            with ordered_by(order):
                while not was_ready:
                    n += 1
                    was_ready = await leave(target, revision, n)
                    assert trio.current_time() == began, (order, n)
                    if binding == "memory":
                        assert trio.lowlevel.current_statistics().tasks_living == before
            assert n > 8, "there were steps to be left at"
        autojump_clock.autojump_threshold = 0
        if (binding, revision) == ("http", LEGACY):
            await trio.sleep(SESSION_IDLE)  # sessions whose ids have reached nobody
