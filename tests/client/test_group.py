"""Several servers at once: states, waiting for them, and that nothing of one server is felt at another."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from children import has_children, overlook_children
from steps import after_steps, cancelled_after_steps

import trio_mcp
from tests.simulation.play import ordered_by
from trio_mcp import (
    Channel,
    ClientGroup,
    ConnectionLost,
    Context,
    Limits,
    RestartPolicy,
    Resynced,
    Server,
    ServerUnavailable,
    StdioServerParameters,
    memory_channel_pair,
    open_client,
    open_clients,
)

ENOUGH = 120
TREE = str(Path(trio_mcp.__file__).parents[1])

CHILD = """
import os, trio, trio_mcp
server = trio_mcp.Server("child")

@server.tool
async def pid() -> int:
    return os.getpid()

@server.tool
async def wait(ctx: trio_mcp.Context) -> str:
    await ctx.report_progress(1)
    await trio.sleep_forever()

@server.tool
async def slow() -> str:
    await trio.sleep(0.5)
    return "done"

server.run()
"""


def child(**options: Any) -> StdioServerParameters:
    return StdioServerParameters(sys.executable, ["-c", CHILD], env={"PYTHONPATH": TREE}, **options)


def make_server(name: str = "here") -> Server[None]:
    server: Server[None] = Server(name)

    @server.tool
    async def hello() -> str:
        return f"hello from {name}"

    return server


class Odd:
    """A server in this process that is told what to do at each connection."""

    def __init__(self, *serve: Callable[[Channel], Awaitable[object]]) -> None:
        self._serve = iter(serve)

    async def serve_channel(
        self, channel: Channel, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        task_status.started()
        await next(self._serve)(channel)


async def be_silent(channel: Channel) -> None:
    del channel
    await trio.sleep_forever()


async def hang_up(channel: Channel) -> None:
    await channel.aclose()


async def crash(_: Channel) -> None:
    raise ZeroDivisionError("the server has a bug")


DEAD = StdioServerParameters("/nonexistent/server")

SOON = Limits(goodbye_timeout=0.1)
"""For a group with a server that is silent: leaving it waits no longer, in real time."""


def statuses(group: ClientGroup) -> dict[str, str]:
    return {name: state.status for name, state in group.states.items()}


async def text_of(group: ClientGroup, tool: str) -> str:
    return (await group.call_tool(tool)).text


# Opening.


async def test_opening_waits_for_no_server() -> None:
    """The block begins at once; each server gets ready, or not, by itself."""
    servers = {
        "good": make_server(),
        "silent": Odd(be_silent),
        "dead": DEAD,
        "off": {"command": "x", "disabled": True},
    }
    with trio.fail_after(ENOUGH):
        async with open_clients(servers, limits=SOON) as group:
            assert list(group) == list(servers)
            assert len(group) == 4
            assert "good" in group
            assert statuses(group) == {
                "good": "connecting",
                "silent": "connecting",
                "dead": "connecting",
                "off": "disabled",
            }
            assert await group.wait_ready("good") == ["good"]
            assert await text_of(group, "good_hello") == "hello from here"
            with pytest.raises(
                ServerUnavailable, match=r"the server 'dead' is not ready: failed: .*command not found"
            ):
                await group.wait_ready("dead")
            assert statuses(group) == {
                "good": "ready",
                "silent": "connecting",
                "dead": "failed",
                "off": "disabled",
            }
            assert list(group.clients) == ["good"]
            assert isinstance(group.states["dead"].error, ConnectionLost)
        assert statuses(group) == {"good": "closed", "silent": "closed", "dead": "failed", "off": "disabled"}


async def test_a_server_that_never_answers_fails_after_its_time(autojump_clock: trio.testing.MockClock) -> None:
    """It has `connect_timeout`, as everywhere."""
    del autojump_clock
    servers = {"good": make_server(), "silent": Odd(be_silent, be_silent)}
    async with open_clients(servers, limits=Limits(connect_timeout=7, goodbye_timeout=1)) as group:
        began = trio.current_time()
        await group.wait_settled()
        assert trio.current_time() - began == pytest.approx(7 + 1)
        assert statuses(group) == {"good": "ready", "silent": "failed"}
        assert group.states["silent"].reason == (
            "the server in this process has not agreed on a revision within 7 s (connect_timeout); if it only needs "
            "longer, pass limits=Limits(connect_timeout=...)"
        )
        with pytest.raises(ServerUnavailable) as caught:
            group["silent"]
        assert (caught.value.server, caught.value.status) == ("silent", "failed")
        assert caught.value.__cause__ is group.states["silent"].error


async def test_a_server_that_could_not_be_opened_is_tried_again(autojump_clock: trio.testing.MockClock) -> None:
    """If asked for; with pauses that grow, and its state says how often that was in vain, and why."""
    del autojump_clock
    good = make_server()
    flaky = Odd(hang_up, hang_up, crash, good.serve_channel)
    policy = RestartPolicy(max_restarts=3, first_delay=1, max_delay=60)
    async with open_clients({"flaky": flaky}, retry=policy) as group:
        changes = group.changes()
        began = trio.current_time()
        seen = [await anext(changes) for _ in range(3)]
        assert [state.status for state in seen] == ["connecting", "connecting", "ready"]
        assert [state.attempts for state in seen] == [1, 2, 0]
        assert "bug" in (seen[1].reason or "")
        assert trio.current_time() - began == pytest.approx(1 + 2)
        assert await text_of(group, "flaky_hello") == "hello from here"


async def test_trying_again_ends_where_the_policy_ends(autojump_clock: trio.testing.MockClock) -> None:
    """With the last reason."""
    del autojump_clock
    policy = RestartPolicy(max_restarts=2, first_delay=1)
    async with open_clients({"dead": DEAD}, retry=policy) as group:
        await group.wait_settled()
        assert group.states["dead"].status == "failed"
        assert group.states["dead"].attempts == 3


async def test_wrong_options_are_errors_of_the_call() -> None:
    """Before anything is started; of single servers, too."""
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (TypeError, {"nothing": 1}),
        (TypeError, {"server_options": {"a": {"nothing": 1}}}),
        (TypeError, {"server_timeout": "soon"}),
        (ValueError, {"server_options": {"b": {}}}),
        (ValueError, {"server_timeout": 0}),
        (ValueError, {"max_input_rounds": 0}),
    ]
    for kind, options in wrong:
        with pytest.raises(kind):
            async with open_clients({"a": make_server()}, **options):
                pytest.fail("entered")


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


async def test_the_reason_of_a_dead_server_is_one_sentence() -> None:
    """With the last line that it has written, and no line break spelled out; the error has all lines."""
    program = "import sys; sys.exit('Traceback of three lines:\\n  in main\\nNoSuchFile: orders.db')"
    async with open_clients({"dead": StdioServerParameters(sys.executable, ["-c", program])}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_settled()
        state = group.states["dead"]
        assert state.reason is not None
        assert state.reason.endswith("; the last line of its standard error: NoSuchFile: orders.db")
        assert "\\n" not in state.reason
        assert isinstance(state.error, ConnectionLost)
        assert len(state.error.stderr) == 3


async def test_a_bug_in_a_server_in_this_process_is_that_servers() -> None:
    """What its program raises is its state, not the block's error."""
    good = make_server()
    broken = trio.Event()

    async def break_later(channel: Channel) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(good.serve_channel, channel)
            await broken.wait()
            raise ZeroDivisionError("the server has a bug")

    async with open_clients({"bad": Odd(break_later), "good": make_server()}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            broken.set()
            with pytest.raises(ServerUnavailable):
                while await group.wait_ready("bad"):
                    await anext(group.changes())
            assert "bug" in (group.states["bad"].reason or "")
            assert await text_of(group, "good_hello") == "hello from here"


async def test_a_client_that_is_closed_is_closed_alone() -> None:
    """Its owner may close it; it is not opened again."""
    async with open_clients({"a": make_server(), "b": make_server("b")}, retry=True) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            await group["a"].aclose()
            while group.states["a"].status == "ready":
                await anext(group.changes())
            assert statuses(group) == {"a": "closed", "b": "ready"}
            assert await text_of(group, "b_hello") == "hello from b"


async def test_a_cancelled_call_cancels_one_request() -> None:
    """On the wire of its own server, and nothing else."""
    cancelled = trio.Event()
    begun = trio.Event()
    server = make_server()

    @server.tool
    async def wait(ctx: Context) -> str:
        del ctx
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    sent: list[tuple[str, bytes]] = []
    servers = {"a": server, "b": make_server("b")}
    async with open_clients(servers, on_frame=lambda server, _, data: sent.append((server, data))) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(group.call_tool, "a_wait")
                    await begun.wait()
                    scope.cancel()
            await cancelled.wait()
            assert [name for name, data in sent if b"notifications/cancelled" in data] == ["a"]
            assert await text_of(group, "a_hello") == "hello from here"
            assert await text_of(group, "b_hello") == "hello from b"


# Waiting.


async def test_waiting_for_some_of_them() -> None:
    """By number, by name; what cannot be any more is an error, not a wait without end."""
    servers = {
        "a": make_server(),
        "silent": Odd(be_silent),
        "dead": DEAD,
        "b": make_server(),
        "off": {"disabled": True},
    }
    async with open_clients(servers, limits=SOON) as group:
        with trio.fail_after(ENOUGH):
            assert await group.wait_ready(at_least=2) == ["a", "b"]
            assert await group.wait_ready("b", "b") == ["b"]
            assert await group.wait_ready("dead", "a", at_least=1) == ["a"]
            assert await group.wait_ready("off", at_least=0) == []
            for names, at_least, about in (
                ((), None, "dead"),
                ((), 4, "dead"),
                (("off",), None, "off"),
                (("off", "dead"), 1, "off"),
            ):
                with pytest.raises(ServerUnavailable) as caught:
                    await group.wait_ready(*names, at_least=at_least)
                assert caught.value.server == about
            with trio.move_on_after(0.01) as scope:
                await group.wait_ready("silent")
            assert scope.cancelled_caught
        with pytest.raises(KeyError, match="there is no server 'c' in this group: a, silent, dead, b, off"):
            await group.wait_ready("c")
        with pytest.raises(KeyError):
            group["c"]
        with pytest.raises(ValueError, match="at_least is 5, and there are 4 servers"):
            await group.wait_ready(at_least=5)
        with pytest.raises(ValueError, match="at_least"):
            await group.wait_ready(at_least=-1)


async def test_a_task_that_waits_when_the_group_is_left_gets_an_error() -> None:
    """And an iteration over changes ends."""
    errors: list[ServerUnavailable] = []
    seen: list[tuple[str, str]] = []

    async def wait() -> None:
        with pytest.raises(ServerUnavailable) as caught:
            await group.wait_ready("silent")
        errors.append(caught.value)

    async def watch() -> None:
        async for state in group.changes():
            seen.append((state.server, state.status))

    with trio.fail_after(ENOUGH):
        silent = {"silent": Odd(be_silent)}
        async with trio.open_nursery() as nursery, open_clients(silent, limits=SOON) as group:
            nursery.start_soon(wait)
            nursery.start_soon(watch)
            await trio.testing.wait_all_tasks_blocked()
    assert [error.status for error in errors] == ["closed"]
    assert seen == [("silent", "closed")]


async def test_waiting_checkpoints_also_when_nothing_is_to_be_waited_for() -> None:
    """As every call does."""
    async with open_clients({"a": make_server()}) as group:
        await group.wait_ready()
        with trio.testing.assert_checkpoints():
            await group.wait_ready()
        with trio.testing.assert_checkpoints():
            await group.wait_settled()


# Restarting.


async def test_a_process_that_hangs_is_restarted() -> None:
    """The call under way fails at once, the next waits for another process, and other servers go on."""
    overlook_children()
    limits = Limits(terminate_timeout=0.1)
    async with open_clients({"child": child(), "here": make_server()}, limits=limits) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            pid = await group.call_tool("child_pid", returns=int)
            client, other = group["child"], group["here"]
            begun = trio.Event()

            async def wait() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await group.call_tool("child_wait", on_progress=lambda _: begun.set())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await begun.wait()
                os.kill(pid, signal.SIGSTOP)
                group.restart("child")
                assert statuses(group) == {"child": "connecting", "here": "ready"}
                with pytest.raises(ServerUnavailable, match="the server 'child' is not ready: connecting"):
                    group["child"]
            assert await group.wait_ready("child") == ["child"]
            assert await group.call_tool("child_pid", returns=int) != pid
            assert group["child"] is not client
            assert group["here"] is other
            with pytest.raises(trio.ClosedResourceError):
                await client.call_tool("pid")
    assert not has_children()


async def fail(group: ClientGroup) -> None:
    with pytest.raises(ServerUnavailable):
        await group.wait_ready()


async def connect_in_vain(group: ClientGroup) -> None:
    del group
    await trio.testing.wait_all_tasks_blocked()


async def close(group: ClientGroup) -> None:
    await group.wait_ready()
    await group["odd"].aclose()
    while group.states["odd"].status == "ready":
        await anext(group.changes())


async def close_now(group: ClientGroup) -> None:
    await group.wait_ready()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(group["odd"].aclose)


async def get_ready(group: ClientGroup) -> None:
    await group.wait_ready()


async def begin(group: ClientGroup) -> None:
    del group


good_server = make_server()


async def serve_well(channel: Channel) -> None:
    await good_server.serve_channel(channel)


@pytest.mark.parametrize(
    ("serve", "before", "status"),
    [
        (hang_up, fail, "failed"),
        (crash, fail, "failed"),
        (be_silent, connect_in_vain, "connecting"),
        (serve_well, close, "closed"),
        (serve_well, close_now, "closed"),
        (serve_well, get_ready, "ready"),
        (None, begin, "connecting"),
    ],
)
@pytest.mark.parametrize("times", [1, 3])
async def test_whatever_a_server_is_it_can_be_restarted(
    serve: Callable[[Channel], Awaitable[object]] | None,
    before: Callable[[ClientGroup], Awaitable[None]],
    status: str,
    times: int,
    autojump_clock: trio.testing.MockClock,
) -> None:
    """And is opened once, however often that is said before the old client is closed."""
    del autojump_clock
    attempts = 0 if serve is None else 2 if serve is hang_up else 1  # see `Connector.survives_probe`
    serves = [serve_well if serve is None else serve] * attempts + [serve_well]
    living = trio.lowlevel.current_statistics().tasks_living
    began = trio.current_time()
    async with open_clients({"odd": Odd(*serves)}) as group:
        await before(group)
        assert statuses(group) == {"odd": status}
        for _ in range(times):
            group.restart("odd")
        assert statuses(group) == {"odd": "connecting"}
        await group.wait_ready()
        assert await text_of(group, "odd_hello") == "hello from here"
        assert (group.states["odd"].attempts, group.states["odd"].reason) == (0, None)
    assert trio.current_time() - began == (Limits().goodbye_timeout if serve is be_silent else 0)
    assert statuses(group) == {"odd": "closed"}
    assert trio.lowlevel.current_statistics().tasks_living == living


async def test_a_server_that_is_lost_is_restarted_without_the_pause_of_its_policy() -> None:
    """For whoever knows that it can be reached again."""
    async with open_clients({"child": child(restart=RestartPolicy(first_delay=10_000))}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            os.kill(await group.call_tool("child_pid", returns=int), signal.SIGKILL)
            while group.states["child"].status != "lost":
                await anext(group.changes())
            group.restart("child")
            await group.wait_ready()
            assert isinstance(await group.call_tool("child_pid", returns=int), int)


@pytest.mark.parametrize("order", range(8))
async def test_a_restart_begins_the_policy_anew(order: int, autojump_clock: trio.testing.MockClock) -> None:
    """Also in the very step in which the pause between two attempts is over."""
    del autojump_clock
    policy = RestartPolicy(max_restarts=1, first_delay=3.0, max_delay=3.0)
    flaky = Odd(*[hang_up] * 3, *[serve_well] * 2)
    with ordered_by(order):
        async with open_clients({"flaky": flaky}, retry=policy) as group:
            changes = group.changes()
            assert (await anext(changes)).attempts == 1
            await trio.sleep(3.0)
            if group.states["flaky"].attempts == 1:
                group.restart("flaky")
                assert group.states["flaky"].attempts == 0
            with trio.fail_after(ENOUGH):
                while group.states["flaky"].status != "ready":
                    if (await anext(changes)).status == "failed":
                        group.restart("flaky")
            assert await text_of(group, "flaky_hello") == "hello from here"


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


async def test_a_server_that_does_not_end_is_restarted_within_bounds(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Those of an end; and a group that is left meanwhile has no more time than for any other."""
    del autojump_clock

    async def stay(channel: Channel) -> None:
        await serve_well(channel)
        await trio.sleep_forever()

    limits = Limits(goodbye_timeout=1, drain_timeout=2, lifespan_timeout=3, terminate_timeout=4)
    async with open_clients({"stays": Odd(stay, stay)}, limits=limits) as group:
        await group.wait_ready()
        began = trio.current_time()
        for _ in range(3):
            group.restart("stays")
            with trio.move_on_after(2):
                await group.wait_ready()
        await group.wait_ready()
        assert trio.current_time() - began == pytest.approx(1 + 2 + 3 + 2 * 4)
        assert await text_of(group, "stays_hello") == "hello from here"
        group.restart("stays")
        await trio.sleep(5)
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(1 + 2 + 3 + 2 * 4 - 5)


async def test_restarting_and_leaving_at_once_takes_no_time(autojump_clock: trio.testing.MockClock) -> None:
    """Not even for a callback that hangs."""
    del autojump_clock
    called = trio.Event()

    async def hang(server: str) -> None:
        assert server == "a"
        called.set()
        await trio.sleep_forever()

    server = make_server()
    began = trio.current_time()
    async with open_clients({"a": server}, on_tools_list_changed=hang) as group:
        await group.wait_ready()
        await trio.testing.wait_all_tasks_blocked()  # the client has subscribed
        server.list_changed("tools")
        with trio.fail_after(ENOUGH):
            await called.wait()
        group.restart("a")
    assert trio.current_time() == began


async def test_listeners_are_told_to_fetch_anew_what_was_restarted() -> None:
    """It may have changed meanwhile."""
    with trio.fail_after(ENOUGH):
        async with open_clients({"a": make_server()}) as group:
            await group.wait_ready()
            async with group.listen(tools_list_changed=True) as events:
                group.restart("a")
                event = await anext(events)
    assert (event.server, event.change) == ("a", Resynced("the server has become ready"))


async def test_what_cannot_be_restarted() -> None:
    """A server that is not there, one that is disabled, a channel that was used, and any once the block is left."""
    ours, theirs = memory_channel_pair()
    servers = {"given": ours, "off": {"disabled": True}}
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(make_server().serve_channel, theirs)
            async with open_clients(servers) as group:
                with pytest.raises(KeyError, match="there is no server 'c' in this group: given, off"):
                    group.restart("c")
                with pytest.raises(ServerUnavailable, match=r"^the server 'off' is not ready: disabled$"):
                    group.restart("off")
                await group.wait_ready("given")
                group.restart("given")
                await group.wait_settled()
                assert group.states["given"].status == "failed"
                assert group.states["given"].reason == "the channel to the server in this process was closed"
            with pytest.raises(ServerUnavailable, match=r"^the server 'given' is not ready: closed$"):
                group.restart("given")
            assert statuses(group) == {"given": "failed", "off": "disabled"}


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


async def test_all_are_left_at_the_same_time(autojump_clock: trio.testing.MockClock) -> None:
    """What each may take is taken once, not once for each server."""
    del autojump_clock

    async def linger(channel: Channel) -> None:
        await good.serve_channel(channel)
        await trio.sleep(5)

    good = make_server()
    async with open_clients({str(number): Odd(linger) for number in range(20)}) as group:
        await group.wait_ready()
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(5)


@pytest.mark.parametrize("how", ["normally", "cancelled"])
async def test_a_server_that_does_not_end_does_not_keep_the_block(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    """There is a bound for each part of an end; a cancelled task waits for the shortest alone."""
    del autojump_clock

    async def stay(channel: Channel) -> None:
        await good.serve_channel(channel)
        await trio.sleep_forever()

    good = make_server()
    began = trio.current_time()
    limits = Limits(goodbye_timeout=1, drain_timeout=2, lifespan_timeout=3, terminate_timeout=4)
    with trio.CancelScope() as scope:
        async with open_clients({"stays": Odd(stay)}, limits=limits) as group:
            await group.wait_ready()
            began = trio.current_time()
            if how == "cancelled":
                scope.cancel()
                await trio.lowlevel.checkpoint()
    assert trio.current_time() - began == pytest.approx(1 if how == "cancelled" else 1 + 2 + 3 + 2 * 4)


async def test_an_exception_of_the_block_is_raised_as_itself() -> None:
    """Whatever became of the servers."""
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        servers = {"a": make_server(), "dead": DEAD, "silent": Odd(be_silent)}
        async with open_clients(servers, limits=SOON) as group:
            await group.wait_ready("a")
            raise error
    assert caught.value is error


async def test_the_block_may_still_call_while_it_cleans_up_after_cancellation() -> None:
    """The body goes first."""
    said: list[str] = []
    with trio.CancelScope() as scope:
        async with open_clients({"a": make_server()}) as group:
            await group.wait_ready()
            try:
                scope.cancel()
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    said.append(await text_of(group, "a_hello"))
    assert said == ["hello from here"]


# The idiom that people try first.


async def test_an_exit_stack_with_several_clients_works() -> None:
    """One task, and deadlines around the whole."""
    with trio.fail_after(ENOUGH):
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(open_client(make_server(name))) for name in "ab"]
            assert [(await client.call_tool("hello")).text for client in clients] == [
                "hello from a",
                "hello from b",
            ]


async def test_a_deadline_around_entering_alone_is_explained() -> None:
    """Trio's own error is about its internal state."""
    with pytest.raises(
        RuntimeError, match="was left before the block: put it around the whole block, or set Limits"
    ):
        async with AsyncExitStack() as stack:
            with trio.fail_after(ENOUGH):
                await stack.enter_async_context(open_client(make_server()))
            pytest.fail("Trio does not notice it any more")


async def test_leaving_in_another_task_is_explained() -> None:
    """Also when the task that entered it has ended already."""
    with pytest.raises(RuntimeError, match="was entered in one task and left in another"):
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            nursery.start_soon(stack.enter_async_context, open_client(make_server()))


async def test_a_given_channel_is_a_target_too() -> None:
    """Whatever `open_client` takes."""
    ours, theirs = memory_channel_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(make_server().serve_channel, theirs)
        async with open_clients({"given": ours}) as group:
            with trio.fail_after(ENOUGH):
                await group.wait_ready()
                assert await text_of(group, "given_hello") == "hello from here"


async def test_a_given_channel_is_closed_however_soon_the_group_is_left() -> None:
    """Its task has not had a step then."""
    ours, theirs = memory_channel_pair()
    with pytest.raises(KeyError):
        async with open_clients({"given": ours}):
            raise KeyError
    with pytest.raises(trio.EndOfChannel):
        await theirs.receive()


@pytest.mark.parametrize("passes", range(4))
async def test_leaving_before_or_while_a_server_is_opened_again_takes_no_time(
    passes: int, autojump_clock: trio.testing.MockClock
) -> None:
    """The pause between two attempts is over when the group is left."""
    del autojump_clock
    began = -1.0
    policy = RestartPolicy(max_restarts=1, first_delay=3.0, max_delay=3.0)
    with pytest.raises(KeyError):
        async with open_clients({"fails": Odd(hang_up, be_silent)}, retry=policy) as group:
            async for state in group.changes():
                if state.attempts:
                    break
            await trio.sleep(3.0 if passes else 0)
            for _ in range(passes):
                await trio.lowlevel.checkpoint()
            began = trio.current_time()
            raise KeyError
    assert trio.current_time() == began


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
