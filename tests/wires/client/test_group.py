"""Several servers at once: states, waiting for them, and that nothing of one server is felt at another."""

from __future__ import annotations

import os
import signal
import sys

import pytest
import trio
import trio.testing
from children import has_children, overlook_children
from shared.client_group import ENOUGH, SOON, Odd, be_silent, child, make_server, statuses, text_of

from trio_mcp import (
    ConnectionLost,
    Limits,
    RestartPolicy,
    ServerUnavailable,
    StdioServerParameters,
    open_clients,
)

DEAD = StdioServerParameters("/nonexistent/server")


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


async def test_trying_again_ends_where_the_policy_ends(autojump_clock: trio.testing.MockClock) -> None:
    """With the last reason."""
    del autojump_clock
    policy = RestartPolicy(max_restarts=2, first_delay=1)
    async with open_clients({"dead": DEAD}, retry=policy) as group:
        await group.wait_settled()
        assert group.states["dead"].status == "failed"
        assert group.states["dead"].attempts == 3


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


async def test_an_exception_of_the_block_is_raised_as_itself() -> None:
    """Whatever became of the servers."""
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        servers = {"a": make_server(), "dead": DEAD, "silent": Odd(be_silent)}
        async with open_clients(servers, limits=SOON) as group:
            await group.wait_ready("a")
            raise error
    assert caught.value is error
