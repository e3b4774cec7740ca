"""What an error's frames have is gone with the request, the connection or the call, and not when the garbage collector comes.

An error that its own frames refer to is a cycle. What they have, such as arguments and answers, would stay.
"""

from __future__ import annotations

import contextlib
import gc
import json
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
from lines import ALL_LINES, LEGACY, MODERN, open_line
from raw import initialize

from trio_mcp import (
    Context,
    Depends,
    HttpRefused,
    HttpServerParameters,
    HttpServerSettings,
    Limits,
    McpASGI,
    McpError,
    RequestError,
    Server,
    StreamChannel,
    ToolError,
    open_asgi_client,
    open_client,
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


async def test_what_was_sent_in_a_session_that_is_lost(autojump_clock: trio.testing.MockClock) -> None:
    """It is sent again in the next one. The first keeps why it has ended."""
    asgi = McpASGI(Server("idle"), HttpServerSettings(session_idle_timeout=60))

    async def without_streams(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "GET":  # a client whose stream is open is not idle
            await send({"type": "http.response.start", "status": 405, "headers": [(b"allow", b"POST")]})
            await send({"type": "http.response.body"})
        else:
            await asgi(scope, receive, send)

    async with open_asgi_client(without_streams) as app:
        target = HttpServerParameters("http://localhost/mcp", app=app)
        async with open_client(target, revision=LEGACY) as client:
            await trio.sleep(120)
            with nothing_kept():
                await client.request("ping", Params())


async def test_what_is_too_large_for_a_server(autojump_clock: trio.testing.MockClock) -> None:
    """Over HTTP+SSE, where the answer comes on a stream and the refusal does not."""
    settings = HttpServerSettings(max_body_bytes=10_000)
    async with open_line(Server("small"), "sse", "2024-11-05", settings) as line:
        with nothing_kept(), contextlib.suppress(McpError):
            await line.client.request("ping", Params(text="x" * 20_000))


async def _refuse_everything(stream: trio.SocketStream | trio.StapledStream[Any, Any]) -> None:
    async for data in stream:
        for line in data.splitlines():
            id = json.loads(line).get("id")
            error = {"code": -32050, "message": "no"}
            await stream.send_all(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode() + b"\n")


async def test_a_refused_handshake(autojump_clock: trio.testing.MockClock) -> None:
    """The refusal itself, with what the server has sent."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_refuse_everything, theirs)
        with nothing_kept():
            try:
                async with open_client(StreamChannel(ours, ours)):
                    pass
            except McpError as error:
                HELD.append(weakref.ref(error))
        nursery.cancel_scope.cancel()


async def test_what_a_callback_that_is_cancelled_has(autojump_clock: trio.testing.MockClock) -> None:
    """By a client that leaves."""
    server: Server[Any] = Server("telling")

    @server.tool
    async def tell(context: Context[Any]) -> str:
        await context.info("something")
        return "told"

    async def on_log(_: object) -> None:
        large = [Large()]
        await trio.Event().wait()
        assert large

    with nothing_kept():
        async with open_line(server, "memory", LEGACY, on_log=on_log) as line:
            await line.client.call_tool("tell")
            await trio.testing.wait_all_tasks_blocked()


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
            raise
    raise kept.pop()


async def nothing() -> AsyncGenerator[None]:  # noqa: ASYNC900 - a dependency
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


async def test_what_a_handler_has_that_cannot_be_parked(autojump_clock: trio.testing.MockClock) -> None:
    """It hears of its refusal, and goes on."""
    server: Server[Any] = Server("full", limits=Limits(max_kept_bytes=4_000))

    @server.tool
    async def ask(context: Context[Any]) -> str:
        HELD.append(weakref.ref(context))
        try:
            await context.list_roots()
        except RequestError as error:
            return str(error)
        return "asked"

    async with open_line(server, "memory", MODERN, roots=[]) as line:
        with nothing_kept():
            assert "no more requests can wait" in (await line.client.call_tool("ask")).text


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
