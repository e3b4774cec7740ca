"""Whatever waits, expires or ages does so on Trio's clock: on a `MockClock`, half an hour takes no time."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio
import trio.testing

import trio_mcp
from trio_mcp import (
    CacheHint,
    ConnectionLost,
    Context,
    HttpServerParameters,
    HttpServerSettings,
    Limits,
    McpASGI,
    RequestError,
    Server,
    SessionLost,
    memory_channel_pair,
    open_client,
)
from trio_mcp.testing import FaultyApp, HttpFault, assert_nothing_left, scripted_client

PACKAGE: Final = Path(trio_mcp.__file__).parent

# Who reads another clock, and why.
OTHERS: Final = {
    "_trio.py": "`wall_time`, which on a `MockClock` is that one's",
    "_auth/_flow.py": "tokens say when they end, in seconds from when they were given (RFC 6749, section 5.1)",
    "_auth/_person.py": "registrations say when they end, in the time of the authorization server",
    "_auth/_session.py": "tokens and proofs say when they end, in seconds since 1970 (RFC 6749, RFC 9449)",
    "_auth/_stores.py": "a file of tokens is older than the process",
    "_endpoint/_authorization.py": "likewise, and certificates",
    "testing/_authorization_server.py": "likewise; `now` replaces it",
    "_http/_cookies.py": "`Expires` is a date (RFC 6265, section 5.2.1); what follows from it is on Trio's clock",
    "_http/_auth.py": "`Retry-After` may be a date (RFC 9110, section 10.2.3)",
    "_hosts/_requests.py": "the field `Date`",
    "_endpoint/_sqlite_events.py": "the age of what other processes have written into a file",
    "_audit.py": "when a record was written, as in every record of Python's logs",
    "_logs.py": "how often a line is written in a minute, from any thread, with or without Trio",
    "_bench/_links.py": "how long others take, which run on the clock of the machine",
    "_bench/_records.py": "when something was measured",
    "_peer/_frame_record.py": "the dates in a record, beside Trio's time",
    "_server/_files.py": "the date of a file",
    "_server/_skills.py": "how long ago a file was changed, by the clock of its file system",
    "_core/_tasks.py": "writes a time that it is given as a date",
}
_CLOCKS: Final = {
    "time",
    "monotonic",
    "perf_counter",
    "time_ns",
    "monotonic_ns",
    "perf_counter_ns",
    "process_time",
}
_MAY_LOOK: Final = re.compile(r"\b(import|from)\b.*\btime\b|\.(now|utcnow|today|fromtimestamp)\b")


def looks_at_another_clock(source: str) -> bool:
    """Return whether a module takes the time from anywhere but Trio."""
    if _MAY_LOOK.search(source) is None:
        return False  # most need not be looked at more closely
    tree = ast.parse(source)
    modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "time"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            return True
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if (owner in modules and node.attr in _CLOCKS) or (
                node.attr in {"now", "utcnow", "today", "fromtimestamp"} and owner in {"datetime", "date", "dt"}
            ):
                return True
    return False


@pytest.mark.parametrize(
    ("source", "looks"),
    [
        ("import time\ntime.monotonic()", True),
        ("import time as t\nx = t.perf_counter", True),
        ("from time import monotonic", True),
        ("from datetime import datetime\ndatetime.now()", True),
        ("import time\ntime.sleep", False),
        ("import trio\ntrio.current_time()", False),
        ("time = 1\nself.time.time", False),
    ],
)
def test_other_clocks_are_noticed(source: str, looks: bool) -> None:
    """A rule that is kept by a blind test is not kept."""
    assert looks_at_another_clock(source) is looks


def test_nobody_else_reads_another_clock() -> None:
    """Each exception has a reason, and each reason somebody who needs it."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if looks_at_another_clock(path.read_text(encoding="utf-8"))
    }
    assert found == set(OTHERS)


def slow(**options: Any) -> Server[Any]:
    server: Server[Any] = Server("slow", **options)

    @server.tool
    async def wait(seconds: float = 1e9) -> str:
        await trio.sleep(seconds)
        return "done"

    @server.tool
    async def ask(*, ctx: Context[Any]) -> bool:
        return bool(await ctx.elicit("Well?", bool))

    @server.tool(resume="replay")
    async def ask_again(*, ctx: Context[Any]) -> bool:
        return bool(await ctx.elicit("Well?", bool))

    return server


def in_memory(server: Server[Any], **options: Any) -> AbstractAsyncContextManager[Any]:
    return open_client(server, **options)


def over_http(server: Server[Any], **options: Any) -> AbstractAsyncContextManager[Any]:
    return open_client(HttpServerParameters("http://localhost/mcp", app=McpASGI(server)), **options)


WAYS: Final = pytest.mark.parametrize("way", [in_memory, over_http])
ERAS: Final = pytest.mark.parametrize("era", ["legacy", "modern"])


@WAYS
@ERAS
async def test_thirty_idle_minutes(
    way: Callable[..., AbstractAsyncContextManager[Any]], era: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Whatever keeps a connection alive meanwhile; it still works then."""
    with assert_nothing_left():
        async with way(slow(), era=era) as client:
            await trio.sleep(1_800)
            assert (await client.call_tool("wait", {"seconds": 0})).text == "done"
    assert trio.current_time() >= 1_800


@WAYS
@ERAS
async def test_a_call_of_ten_minutes(
    way: Callable[..., AbstractAsyncContextManager[Any]], era: str, autojump_clock: trio.testing.MockClock
) -> None:
    """That is answered, and one that is not."""
    async with way(slow(), era=era, request_timeout=601) as client:
        assert (await client.call_tool("wait", {"seconds": 600})).text == "done"
        with pytest.raises(trio.TooSlowError):
            await client.call_tool("wait")
    assert 1_201 <= trio.current_time() < 1_230


async def test_a_session_that_is_idle_too_long(autojump_clock: trio.testing.MockClock) -> None:
    """Without a stream, which would keep it: the server ends it, and the client begins another one."""
    settings = HttpServerSettings(session_idle_timeout=1_000)
    app = FaultyApp(McpASGI(slow(), settings), [HttpFault("status", 1, "GET", status=405)])
    async with open_client(HttpServerParameters("http://localhost/mcp", app=app), era="legacy") as client:
        await trio.sleep(900)
        assert (await client.call_tool("wait", {"seconds": 0})).text == "done"
        assert app.requests["initialize"] == 1
        await trio.sleep(1_100)
        with suppress(SessionLost):
            await client.call_tool("wait", {"seconds": 0})
        assert (await client.call_tool("wait", {"seconds": 0})).text == "done"
        assert app.requests["initialize"] == 2


async def test_a_silent_peer(autojump_clock: trio.testing.MockClock) -> None:
    """Connecting has an end."""
    ours, _ = memory_channel_pair()
    with pytest.raises(ConnectionLost):
        async with open_client(ours, limits=Limits(connect_timeout=1_700)):
            pass
    assert trio.current_time() == pytest.approx(1_700, abs=30)


async def test_the_age_of_a_cached_list(autojump_clock: trio.testing.MockClock) -> None:
    """It is asked for again when it is too old, and not before."""
    sent: list[bytes] = []
    server = slow(cache=CacheHint(ttl=900))
    async with open_client(
        server, era="modern", on_frame=lambda direction, data: sent.append(data) if direction == "sent" else None
    ) as client:
        for expected in (1, 1, 2):
            assert [tool.name async for tool in client.list_tools()][:1] == ["wait"]
            assert sum(b"tools/list" in data for data in sent) == expected
            await trio.sleep(600)


@pytest.mark.parametrize("tool", ["ask", "ask_again"])
@pytest.mark.parametrize(("minutes", "is_good"), [(9, True), (11, False)])
async def test_an_answer_to_a_question_that_comes_late(
    tool: str, minutes: int, is_good: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """A handler that is parked, and one that is run again from its sealed state, wait for it equally long."""
    server = slow(limits=attrs.evolve(Limits(), parked_timeout=600))

    async def think(_: object) -> dict[str, Any]:
        await trio.sleep(minutes * 60)
        return {"value": True}

    async with open_client(server, era="modern", on_elicit=think) as client:
        if is_good:
            assert await client.call_tool(tool, returns=bool) is True
        else:
            with pytest.raises(RequestError):
                await client.call_tool(tool, returns=bool)


async def test_scripts_wait_on_it_too(autojump_clock: trio.testing.MockClock) -> None:
    """So do all deadlines of this kit."""
    async with scripted_client(slow(), within=2_000) as peer:
        await peer.shake_hands("2025-06-18")
        arguments = {"name": "wait", "arguments": {"seconds": 1_800}}
        assert (await peer.call("tools/call", arguments))["content"][0]["text"] == "done"
