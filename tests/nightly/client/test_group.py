"""Several servers at once: states, waiting for them, and that nothing of one server is felt at another."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import pytest
import trio
import trio.testing
from children import has_children, overlook_children
from shared.client_group import ENOUGH, Odd, be_silent, child, make_server, text_of
from steps import after_steps, cancelled_after_steps

from tests.simulation.play import ordered_by
from trio_mcp import (
    ConnectionLost,
    RestartPolicy,
    ServerUnavailable,
    StdioServerParameters,
    open_clients,
)

# What happens to one.


async def test_one_is_killed_in_a_call_and_the_others_do_not_notice() -> None:
    """The call under way fails with the reason, those of others go on, and the server comes back."""
    overlook_children()
    servers = {"first": child(restart=True), "second": child(restart=True), "here": make_server()}
    async with open_clients(servers) as group:
        changes = group.changes()
        with trio.fail_after(ENOUGH):
            assert await group.wait_ready() == ["first", "second", "here"]
            pid = await group.call_tool("first_pid", returns=int)
            other = await group.call_tool("second_pid", returns=int)
            client = group["first"]
            lost: list[ConnectionLost] = []
            results: list[str] = []

            async def wait() -> None:
                with pytest.raises(ConnectionLost) as caught:
                    await group.call_tool("first_wait", on_progress=lambda _: os.kill(pid, signal.SIGKILL))
                assert group.states["first"].status == "lost"  # not later than the call knows
                lost.append(caught.value)

            async def go_on() -> None:
                results.append(await text_of(group, "second_slow"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(go_on)
                nursery.start_soon(wait)
            assert results == ["done"]
            assert lost
            assert await group.wait_ready("first") == ["first"]
            assert await group.call_tool("first_pid", returns=int) != pid
            assert await group.call_tool("second_pid", returns=int) == other
            assert group["first"] is client
            of_first = group.states["first"]
            while await anext(changes) != of_first:  # an iterator that is late gets the last state alone
                pass
    assert not has_children()


async def test_a_lost_server_says_so_until_it_is_back() -> None:
    """In its state, at once, and in the error of each call to it."""
    async with open_clients({"child": child(restart=RestartPolicy(first_delay=60))}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            changes = group.changes()
            os.kill(await group.call_tool("child_pid", returns=int), signal.SIGKILL)
            state = await anext(changes)
            assert (state.server, state.status) == ("child", "lost")
            with pytest.raises(ServerUnavailable, match="the server 'child' is not ready: lost: "):
                await text_of(group, "child_pid")


async def test_a_server_that_is_not_restarted_has_failed_when_it_is_lost() -> None:
    """No policy, no hope; unless `retry` says so, and then there is another client."""
    for retry in (None, True):
        async with open_clients({"child": child()}, retry=retry) as group:
            with trio.fail_after(ENOUGH):
                await group.wait_ready()
                client = group["child"]
                os.kill(await group.call_tool("child_pid", returns=int), signal.SIGKILL)
                while group.states["child"].status in {"ready", "lost"}:
                    await anext(group.changes())
                if retry is None:
                    assert group.states["child"].status == "failed"
                    continue
                await group.wait_ready()
                assert group["child"] is not client
                assert isinstance(await group.call_tool("child_pid", returns=int), int)


@pytest.mark.parametrize("order", range(4))
async def test_a_server_can_be_restarted_at_any_step(order: int, autojump_clock: trio.testing.MockClock) -> None:
    """Of connecting, of a call, of a restart; it takes no time, and leaves nothing."""
    del autojump_clock
    living = trio.lowlevel.current_statistics().tasks_living
    step, is_over = 0, False
    with ordered_by(order):
        while not is_over:
            step += 1
            restarted: list[str] = []
            async with open_clients({"a": make_server()}) as group:

                def restart() -> None:
                    restarted.append("a")  # noqa: B023 - called in this turn alone
                    group.restart("a")

                with after_steps(step, restart):
                    while not restarted:
                        try:
                            await group.wait_ready()
                            await text_of(group, "a_hello")
                            is_over = not restarted
                            break
                        except (trio.ClosedResourceError, ServerUnavailable):
                            assert restarted
                await group.wait_ready()
                assert await text_of(group, "a_hello") == "hello from here"
            assert trio.current_time() == 0
            assert trio.lowlevel.current_statistics().tasks_living == living
    assert step > 8


# Leaving.


async def test_leaving_while_connecting_takes_no_time() -> None:
    """Nothing is waited for that cannot come; no process is left."""
    overlook_children()
    deaf = StdioServerParameters(sys.executable, ["-c", "import time; time.sleep(600)"])
    servers = {"deaf": deaf, "silent": Odd(be_silent), "starting": child(), "good": make_server()}
    with trio.fail_after(ENOUGH):
        async with open_clients(servers) as group:
            await group.wait_ready("good")
    assert not has_children()


# Cancelled anywhere.


async def use_a_group(servers: dict[str, Any]) -> None:
    async with open_clients(servers) as group:
        await group.wait_ready("a", "b")
        await group.list_tools()
        async with group.listen(tools_list_changed=True):
            await group.call_tool("a_hello")


@pytest.mark.parametrize("first", range(1, 8))
async def test_a_group_can_be_cancelled_at_any_step(first: int) -> None:
    """It ends, and soon, with nothing left; the servers serve the next client."""
    servers = {"a": make_server("a"), "b": make_server("b")}
    before = trio.lowlevel.current_statistics().tasks_living
    for step in range(first, 1_000, 7):
        with trio.fail_after(ENOUGH), cancelled_after_steps(step) as scope:
            await use_a_group(servers)
        if not scope.cancelled_caught:
            break  # it was over by then
    else:
        pytest.fail("more steps than were looked at")
    assert step > 50
    assert trio.lowlevel.current_statistics().tasks_living == before
