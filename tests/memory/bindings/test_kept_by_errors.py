"""What an error's frames have is gone with the request, the connection or the call, and not when the garbage collector comes.

An error that its own frames refer to is a cycle. What they have, such as arguments and answers, would stay.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Annotated, Any, final

import pytest
import trio
import trio.testing
from http_raw import open_raw
from inside_wire import InvalidData, from_wire
from lines import ALL_LINES, LEGACY, open_line
from raw import initialize

from trio_mcp import (
    Context,
    Depends,
    HttpRefused,
    McpError,
    RequestError,
    Server,
    StreamChannel,
    ToolError,
)
from trio_mcp.types import CallToolResult

HELD: list[weakref.ref[Any]] = []


@final
class Large:
    """Stands for much, in the variables of a function that fails."""

    def __init__(self) -> None:
        HELD.append(weakref.ref(self))


@final
class Params(dict[str, Any]):
    """Parameters of which it is seen when they are gone."""

    def __init__(self, **members: Any) -> None:
        super().__init__(members)
        HELD.append(weakref.ref(self))


@contextmanager
def nothing_kept() -> Generator[None]:
    """Check that all that was made in the block is gone after it, although no garbage collector has come."""
    gc.collect()
    gc.disable()
    HELD.clear()
    try:
        yield
        assert HELD
        assert not [kept for held in HELD if (kept := held()) is not None]
    finally:
        gc.enable()


@pytest.mark.parametrize("how", ["one", "several"])
@pytest.mark.parametrize(("binding", "revision"), ALL_LINES)
async def test_what_a_refused_request_has_sent(
    binding: str, revision: str, how: str, autojump_clock: trio.testing.MockClock
) -> None:
    """By the client that has sent it."""
    async with open_line(Server("refusing"), binding, revision) as line:
        with nothing_kept():
            if how == "one":
                with contextlib.suppress(RequestError):
                    await line.client.request("x/unknown", Params())
            else:
                await line.client.request_many([("x/unknown", Params()), ("x/unknown", Params())])


async def _in_a_nursery() -> str:
    async with trio.open_nursery():
        raise ToolError("alone in its group")


async def _outlive_its_scope() -> str:
    kept: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            kept.append(error)
    raise kept.pop()


async def nothing() -> AsyncGenerator[None]:
    """Be a dependency."""
    yield


def make_failing() -> Server[Any]:
    """Make a server whose tools fail in every way."""
    server: Server[Any] = Server("failing")

    async def ask(context: Context[Any]) -> str:
        await context.list_roots()
        return "asked"

    ways: dict[str, Callable[[Context[Any]], Awaitable[str]]] = {
        "nursery": lambda _: _in_a_nursery(),
        "stray cancellation": lambda _: _outlive_its_scope(),
        "ask": ask,
    }

    @server.tool
    async def fail(how: str, context: Context[Any]) -> str:
        large = Large()
        try:
            return await ways[how](context)
        except RequestError:
            return f"refused {large}"

    @server.tool
    async def depend(got: Annotated[None, Depends(nothing)]) -> str:
        large = Large()
        raise ValueError(f"{got} {large}")

    @server.tool(task="optional")
    async def later() -> str:
        large = Large()
        await trio.lowlevel.checkpoint()
        raise RequestError(-32050, f"no {large}")

    return server


async def refuse_to_list() -> list[str]:
    """Fail, as a client does that is asked for its roots."""
    await trio.lowlevel.checkpoint()
    raise RequestError(-32050, "no roots")


@pytest.mark.parametrize("how", ["nursery", "stray cancellation", "ask", "dependency", "task"])
async def test_what_a_handler_that_fails_has(
    how: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Alone in a group, with a cancellation of before, by an answer of its client, with a dependency, as a task."""
    caplog.set_level(logging.CRITICAL + 1)  # records would keep the errors
    async with open_line(make_failing(), "memory", LEGACY, roots=refuse_to_list, tasks="required") as line:
        with nothing_kept():
            with contextlib.suppress(McpError):
                if how == "task":
                    async with line.client.start_task("later") as task:
                        await task.result()
                elif how == "dependency":
                    await line.client.call_tool("depend")
                else:
                    await line.client.call_tool("fail", {"how": how})
            await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("refusal", [HttpRefused(401, "no"), HttpRefused(503, "later")])
async def test_what_a_refused_credential_has(
    refusal: HttpRefused, autojump_clock: trio.testing.MockClock
) -> None:
    """Whoever sends it: nobody is known yet."""

    async def authenticate(_: object) -> str:
        large = Large()
        await trio.lowlevel.checkpoint()
        raise HttpRefused(refusal.status, f"no, {large}")

    async with open_raw(Server("closed"), authenticate=authenticate) as raw:
        with nothing_kept():
            assert (await raw.send(initialize(LEGACY))).status == refusal.status


@final
class Broken(trio.abc.SendStream):
    """Breaks when something is sent."""

    async def wait_send_all_might_not_block(self) -> None:
        """Return at once."""
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Do nothing."""
        await trio.lowlevel.checkpoint()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Break."""
        large = Large()
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError(f"{large}")


async def test_what_could_not_be_written(autojump_clock: trio.testing.MockClock) -> None:
    """The connection keeps why it was lost, and its parts refer to each other."""
    ours, theirs = trio.testing.memory_stream_pair()
    server: Server[Any] = Server("lost")
    with nothing_kept():
        await ours.send_all(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        with trio.move_on_after(1):
            await server.serve_channel(StreamChannel(theirs.receive_stream, Broken()))


def test_what_does_not_fit() -> None:
    """A list in an object: what is wrong with the one is raised where the other is read."""
    with nothing_kept(), contextlib.suppress(InvalidData):
        from_wire({"content": [Params(type="text", text=5)]}, CallToolResult)
