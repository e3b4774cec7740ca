"""Several servers at once: states, waiting for them, and that nothing of one server is felt at another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
import trio.testing
from shared.client_group import ENOUGH, SOON, Odd, be_silent, make_server, statuses, text_of

from tests.simulation.play import ordered_by
from trio_mcp import (
    Channel,
    ClientGroup,
    Context,
    Limits,
    RestartPolicy,
    Resynced,
    ServerUnavailable,
    memory_channel_pair,
    open_client,
    open_clients,
)


async def hang_up(channel: Channel) -> None:
    await channel.aclose()


async def crash(_: Channel) -> None:
    raise ZeroDivisionError("the server has a bug")


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


async def test_wrong_options_are_errors_of_the_call() -> None:
    """Before anything is started; of single servers, too."""
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (TypeError, {"nothing": 1}),
        (TypeError, {"server_options": {"a": {"nothing": 1}}}),
        (TypeError, {"server_timeout": "soon"}),
        (ValueError, {"server_options": {"b": {}}}),
        (ValueError, {"server_timeout": 0}),
        (ValueError, {"request_timeout": 0}),
        (TypeError, {"max_input_rounds": 5}),
    ]
    for kind, options in wrong:
        with pytest.raises(kind):
            async with open_clients({"a": make_server()}, **options):
                pytest.fail("entered")


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


async def test_whatever_a_server_is_it_can_be_restarted(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """And is opened once, however often that is said before the old client is closed."""
    del autojump_clock
    rows: list[
        tuple[Callable[[Channel], Awaitable[object]] | None, Callable[[ClientGroup], Awaitable[None]], str]
    ] = [
        (hang_up, fail, "failed"),
        (crash, fail, "failed"),
        (be_silent, connect_in_vain, "connecting"),
        (serve_well, close, "closed"),
        (serve_well, close_now, "closed"),
        (serve_well, get_ready, "ready"),
        (None, begin, "connecting"),
    ]
    for serve, before, status in rows:
        for times in (1, 3):
            with subtests.test(serve=serve, before=before, status=status, times=times):
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


async def test_a_restart_begins_the_policy_anew(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """Also in the very step in which the pause between two attempts is over."""
    del autojump_clock
    for order in range(8):
        with subtests.test(order=order):
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
