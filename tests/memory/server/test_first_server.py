"""A server and the contexts of its handlers: what it refuses to be, and what it tells."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from raw import initialize, modern
from tape import Tape
from wires import ScriptedChannel

from trio_mcp import (
    CapabilityMissing,
    Context,
    Encoded,
    Limits,
    LocalProtocolError,
    Progress,
    RequestError,
    Server,
    Shutdown,
    memory_channel_pair,
    open_client,
)
from trio_mcp.types import ClientCapabilities, Implementation, LoggingMessageNotificationParams, RootsCapability

REVISIONS = pytest.mark.parametrize(
    "revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
)
ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


# What a server refuses to be.


def test_a_server_needs_a_name() -> None:
    with pytest.raises(ValueError, match="a server needs a name"):
        Server("")


def test_a_server_needs_a_revision() -> None:
    with pytest.raises(ValueError, match="a server needs a revision to speak"):
        Server("mute", revisions=())


def test_a_server_speaks_known_revisions() -> None:
    with pytest.raises(ValueError, match="2023-01-01"):
        Server("old", revisions=["2023-01-01"])


def test_there_is_no_such_transport() -> None:
    with pytest.raises(ValueError, match=r"transport must be .*'pigeon'"):
        Server("flying").run("pigeon")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("method", ["initialize", "ping", "server/discover", "logging/setLevel"])
def test_the_handshake_is_the_connections(method: str) -> None:
    with pytest.raises(ValueError, match=rf"{method} is served by the connection itself"):
        Server("own").request_handler(method)


def test_a_method_has_one_handler() -> None:
    server: Server[None] = Server("one")

    @server.request_handler("x/y")
    async def _first(params: Mapping[str, Any], ctx: Context[Any]) -> object:
        raise NotImplementedError

    with pytest.raises(ValueError, match="x/y has a handler already"):
        server.request_handler("x/y")


@pytest.mark.parametrize("name", ["", "white space", "ümlaut", "x" * 129, "a/b", "a\n"])
def test_a_tools_name_is_one_that_models_can_write(name: str) -> None:
    """SEP-986."""
    with pytest.raises(ValueError, match=r"a tool's name is 1 to 128 of"):
        Server("names").tool(name=name)(lambda: None)


def test_a_tools_name_is_its_own() -> None:
    server: Server[None] = Server("names")
    server.tool(name="a.b-c_D9")(lambda: None)
    with pytest.raises(ValueError, match=r"there is a tool called 'a.b-c_D9' already"):
        server.tool(name="a.b-c_D9")(lambda: None)


# What it tells of itself.


@REVISIONS
async def test_what_a_server_is(revision: str) -> None:
    server: Server[None] = Server("told", version="3", instructions="Be brief.", limits=Limits(max_threads=1))
    assert server.instructions == "Be brief."
    assert server.info == Implementation(name="told", version="3")
    assert server.limits.max_threads == 1
    async with open_client(server, revision=revision) as client:
        assert client.server_info == server.info
        assert client.instructions == "Be brief."
        assert client.revision == revision
        assert client.server_capabilities is not None
        assert client.server_capabilities.tools is None, "it has none"
        with pytest.raises(RequestError) as caught:
            await client.request("tools/list")
        assert caught.value.code == -32601


@REVISIONS
async def test_a_handler_of_a_method_takes_the_place_of_ours(revision: str) -> None:
    """The low level: plain objects, wire objects, or bytes, for methods of the protocol and for one's own."""
    server: Server[None] = Server("low")

    @server.request_handler("tools/list")
    async def tools(params: Mapping[str, Any], ctx: Context[Any]) -> object:
        await trio.lowlevel.checkpoint()
        assert ctx.method == "tools/list"
        return {"tools": [{"name": "raw", "inputSchema": {"type": "object"}}]}

    @server.request_handler("x/bytes")
    async def bytes_(params: Mapping[str, Any], ctx: Context[Any]) -> object:
        await trio.lowlevel.checkpoint()
        return Encoded(b'{"raw":true}')

    @server.request_handler("x/object")
    async def object_(params: Mapping[str, Any], ctx: Context[Any]) -> object:
        await trio.lowlevel.checkpoint()
        return Implementation(name=params["name"], version="1", title="new in 2025-06-18")

    async with open_client(server, revision=revision) as client:
        assert [tool.name async for tool in client.list_tools()] == ["raw"]
        assert client.server_capabilities is not None
        assert client.server_capabilities.tools is not None
        assert await client.request("x/bytes") == {"raw": True}
        told = await client.request("x/object", {"name": "wire"})
        assert told["name"] == "wire"
        assert ("title" in told) == (revision >= "2025-06-18")
        with pytest.raises(RequestError, match="no method x/other"):
            await client.request("x/other")


@ERAS
async def test_plain_functions_may_stay_in_trios_thread(revision: str) -> None:
    """``thread=False`` for what does not block: it may then touch what belongs to that thread."""
    server: Server[None] = Server("threads")

    @server.tool(thread=False)
    def here() -> str:
        return trio.lowlevel.current_task().name

    async with open_client(server, revision=revision) as client:
        assert (await client.call_tool("here")).content[0] is not None
        assert not (await client.call_tool("here")).is_error


@ERAS
async def test_the_lifespan_is_around_everything(revision: str) -> None:
    """And what it yields is `Context.state`."""
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server[dict[str, int]]) -> AsyncGenerator[dict[str, int]]:
        events.append(f"begins for {server.info.name}")
        await trio.lowlevel.checkpoint()
        yield {"answer": 42}
        events.append("ends")

    server = Server("alive", lifespan=lifespan)

    @server.tool
    async def answer(ctx: Context[dict[str, int]]) -> int:
        await trio.lowlevel.checkpoint()
        events.append("serves")
        return ctx.state["answer"]

    async with open_client(server, revision=revision) as client:
        assert (await client.call_tool("answer")).content[0] is not None
    assert events == ["begins for alive", "serves", "ends"]


async def test_the_error_of_a_lifespan_is_raised_to_the_code_that_serves() -> None:
    @asynccontextmanager
    async def lifespan(_: Server[None]) -> AsyncGenerator[None]:
        await trio.lowlevel.checkpoint()
        open_database()
        yield

    def open_database() -> None:
        raise OSError("no database")

    ours, theirs = memory_channel_pair()
    with pytest.raises(OSError, match="no database"):
        await Server("broken", lifespan=lifespan).serve_channel(theirs)
    with pytest.raises(trio.EndOfChannel):
        await ours.receive()


async def test_one_shutdown_ends_many(autojump_clock: trio.testing.MockClock) -> None:
    """A second word makes it quick; what was told cannot be taken back."""
    shutdown = Shutdown()
    assert [shutdown.is_draining, shutdown.is_aborting] == [False, False]
    server: Server[None] = Server("many", limits=Limits(drain_timeout=100))

    @server.tool
    async def sleep() -> str:
        await trio.sleep(50)
        return "slept"

    channels = [ScriptedChannel() for _ in range(3)]
    async with trio.open_nursery() as nursery:
        for channel in channels:
            nursery.start_soon(partial(server.serve_channel, channel, shutdown=shutdown))
            channel.say(modern(1, "tools/call", name="sleep", arguments={}))
        await trio.testing.wait_all_tasks_blocked()
        shutdown.drain()
        assert [shutdown.is_draining, shutdown.is_aborting] == [True, False]
        await trio.sleep(10)
        assert len(nursery.child_tasks) == 3
        shutdown.abort()
        shutdown.drain()
    assert [shutdown.is_draining, shutdown.is_aborting] == [True, True]
    assert trio.current_time() == 10
    assert all(channel.closed and not channel.sent for channel in channels)


@pytest.mark.parametrize("first", ["told to end", "end of input"])
async def test_two_reasons_to_end_leave_no_time(first: str, autojump_clock: trio.testing.MockClock) -> None:
    """Whichever is seen first: a client that says both will kill the process next. Cleanup has run then."""
    shutdown, channel = Shutdown(), ScriptedChannel()
    server: Server[None] = Server("hurried", limits=Limits(drain_timeout=100))
    cleaned: list[str] = []

    @server.tool
    async def sleep() -> None:
        try:
            await trio.sleep_forever()
        finally:
            cleaned.append("up")

    reasons = [shutdown.drain, channel.hang_up]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(server.serve_channel, channel, shutdown=shutdown))
        channel.say(modern(1, "tools/call", name="sleep", arguments={}))
        await trio.testing.wait_all_tasks_blocked()
        for tell in reasons if first == "told to end" else reversed(reasons):
            assert not cleaned
            tell()
            await trio.testing.wait_all_tasks_blocked()
    assert cleaned == ["up"]
    assert trio.current_time() < 100, "`drain_timeout` was not waited for"


# What a handler can learn.


@REVISIONS
async def test_what_a_context_knows(revision: str) -> None:
    server: Server[None] = Server("knowing")
    seen: list[Context[Any]] = []

    @server.tool
    async def look(ctx: Context[Any]) -> str:
        await trio.lowlevel.checkpoint()
        seen.append(ctx)
        return "looked"

    tape = Tape()
    capabilities = ClientCapabilities(roots=RootsCapability())
    info = Implementation(name="looker", version="9")
    async with open_client(
        server, revision=revision, info=info, capabilities=capabilities, on_frame=tape
    ) as client:
        await client.call_tool("look", meta={"x/trace": "abc"})
    (ctx,) = seen
    assert ctx.revision == revision
    assert ctx.method == "tools/call"
    assert [ctx.request_id] == tape.requests("tools/call")
    assert ctx.meta["x/trace"] == "abc"
    assert ctx.client_info == info
    assert ctx.client_capabilities.roots is not None
    assert ctx.principal is None
    assert ctx.state is None
    assert ctx.deadline == math.inf


async def test_a_client_need_not_say_who_it_is() -> None:
    """2026-07-28, basic, "_meta": clientInfo SHOULD be there."""
    server: Server[None] = Server("untrusted")
    seen: list[Any] = []

    @server.tool
    async def who(ctx: Context[Any]) -> str:
        await trio.lowlevel.checkpoint()
        seen.append(ctx.client_info)
        return "somebody"

    channel = ScriptedChannel()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve_channel, channel)
        channel.say(modern(1, "tools/call", name="who", arguments={}))
        await trio.testing.wait_all_tasks_blocked()
        channel.hang_up()
    assert seen == [None]


async def test_what_a_client_says_of_itself_may_be_nonsense() -> None:
    """Only who asks for it is told, and the client is told what was wrong (-32602)."""
    server: Server[None] = Server("untrusted")

    @server.tool
    async def look(ctx: Context[Any]) -> str:
        await trio.lowlevel.checkpoint()
        return f"{ctx.client_info} {ctx.client_capabilities}"

    @server.tool
    async def ignore() -> str:
        await trio.lowlevel.checkpoint()
        return "ignored"

    channel = ScriptedChannel()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve_channel, channel)
        for id, tool in enumerate(("look", "ignore")):
            request = modern(id, "tools/call", name=tool, arguments={})
            meta = {**request["params"]["_meta"], "io.modelcontextprotocol/clientInfo": {"name": 5}}
            channel.say({**request, "params": {**request["params"], "_meta": meta}})
        await trio.testing.wait_all_tasks_blocked()
        channel.hang_up()
    answers = {message["id"]: message for message in channel.sent}
    assert answers[0]["error"]["code"] == -32602
    assert "result" in answers[1]


# What it can say.


async def test_progress_takes_numbers_that_json_has() -> None:
    server: Server[None] = Server("numbers")

    @server.tool
    async def count(ctx: Context[Any]) -> str:
        async with ctx.progress(total=10) as progress:
            for amount in (-1, math.inf, math.nan):
                with pytest.raises(ValueError, match="progress must grow by a finite number of at least 0"):
                    await progress.advance(amount)
            for value in (math.inf, -math.inf, math.nan):
                with pytest.raises(ValueError, match="progress must be a finite number"):
                    await progress.report(value)
                with pytest.raises(ValueError, match="progress must be a finite number"):
                    await ctx.report_progress(value)
            assert progress.value == 0
            await progress.advance(message="one")
            await progress.advance(0.5)
            await progress.advance(0)
            await progress.report(1)
            await progress.report(9, "nine")
            assert progress.value == 9
        return "counted"

    seen: list[Progress] = []
    async with open_client(server) as client:
        result = await client.call_tool("count", on_progress=seen.append)
    assert not result.is_error, result.content
    assert seen == [Progress(1, 10, "one"), Progress(1.5, 10), Progress(9, 10, "nine")]
    assert [type(progress.progress) for progress in seen] == [int, float, int]


@ERAS
async def test_log_messages_have_a_level(revision: str) -> None:
    server: Server[None] = Server("talking")

    @server.tool
    async def talk(ctx: Context[Any]) -> str:
        with pytest.raises(ValueError, match=r"level must be one of debug, info, .*, not 'loud'"):
            await ctx.log("loud", "x")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        await ctx.debug("d")
        await ctx.info("i", logger="shop")
        await ctx.warning({"w": 1})
        await ctx.error("e")
        await ctx.log("emergency", None)
        return "talked"

    seen: list[LoggingMessageNotificationParams] = []
    async with open_client(server, revision=revision, on_log=seen.append) as client:
        await client.set_log_level("info")
        result = await client.call_tool("talk")
        await trio.testing.wait_all_tasks_blocked()
    assert not result.is_error, result.content
    assert [(message.level, message.data) for message in seen] == [
        ("info", "i"),
        ("warning", {"w": 1}),
        ("error", "e"),
        ("emergency", None),
    ]
    assert [message.logger for message in seen] == ["shop", None, None, None]


@REVISIONS
async def test_a_handler_asks_only_what_a_server_may(revision: str) -> None:
    """2026-07-28 has no requests of servers; the others have those in the specification, and one's own."""
    server: Server[None] = Server("asking")
    problems: list[str] = []

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        for method in ("tools/list", "roots/list", "x/own"):
            try:
                await ctx.request(method)
            except (LocalProtocolError, CapabilityMissing) as error:
                problems.append(str(error))
        return "asked"

    async def roots(_: object) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"roots": []}

    async with open_client(
        server, revision=revision, request_handlers={"roots/list": roots, "x/own": roots}
    ) as client:
        await client.call_tool("ask")
    nothing = f"a server of {revision} has no request"
    if revision == "2026-07-28":
        assert problems[0] == f"{nothing} tools/list"
        assert "the client has not declared roots" in problems[1]
        assert problems[2:] == [f"{nothing} x/own"]
    else:
        assert problems == [f"{nothing} tools/list"]


async def test_nothing_can_be_asked_when_the_request_is_over(autojump_clock: trio.testing.MockClock) -> None:
    """The handler was given up; its cleanup may talk, but nobody is there."""
    server: Server[None] = Server("late")
    problems: list[LocalProtocolError] = []

    @server.tool
    async def ask(ctx: Context[Any]) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await ctx.report_progress(1)
                await ctx.info("too late")
                try:
                    await ctx.request("roots/list")
                except LocalProtocolError as error:
                    problems.append(error)

    channel = ScriptedChannel()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve_channel, channel)
        channel.say(initialize("2025-06-18"))
        params = {"name": "ask", "arguments": {}, "_meta": {"progressToken": 1}}
        channel.say({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        await trio.testing.wait_all_tasks_blocked()
        channel.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        await trio.testing.wait_all_tasks_blocked()
        channel.hang_up()
    assert str(problems[0]) == "roots/list cannot be asked: tools/call is over already"
    assert [message.get("id") for message in channel.sent] == [0]
