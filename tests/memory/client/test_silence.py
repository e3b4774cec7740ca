"""Without a `request_timeout`, a request fails after five minutes in which nothing was heard of it."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
import trio
import trio.testing
from lines import LEGACY, LINES, MODERN, open_line
from tape import Tape

from trio_mcp import Context, ResourceUpdated, Server, open_client

ERAS = pytest.mark.parametrize("revision", [LEGACY, MODERN])


def slow_server() -> Server[None]:
    server: Server[None] = Server("slow")

    @server.tool
    async def sleep(seconds: float) -> str:
        await trio.sleep(seconds)
        return "done"

    @server.tool
    async def report(ctx: Context[Any], times: int) -> str:
        for count in range(times):
            await trio.sleep(200)
            await ctx.report_progress(count)
        await trio.sleep(200)
        return "done"

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        await trio.sleep(200)
        await ctx.sample("?", max_tokens=1)
        await trio.sleep(200)
        return "done"

    @server.tool
    def work() -> str:
        threading.Event().wait(0.001)  # in a thread, for which a mock clock does not wait
        return "done"

    return server


@LINES
async def test_a_silent_request_fails_after_five_minutes_with_one_cancellation(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_line(slow_server(), binding, revision) as line:
        begin = trio.current_time()
        with pytest.raises(
            trio.TooSlowError,
            match=r"^tools/call was not answered within 300 s.* \(request_timeout; math.inf waits for ever\)$",
        ):
            await line.client.call_tool("sleep", {"seconds": 1_000})
        assert trio.current_time() - begin == 300
        assert (await line.client.call_tool("sleep", {"seconds": 299})).text == "done"
        line.tape.check_endings()


@ERAS
async def test_each_request_has_its_own_five_minutes(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_client(slow_server(), revision=revision) as client:

        async def call(after: float) -> None:
            await trio.sleep(after)
            with pytest.raises(trio.TooSlowError):
                await client.request("tools/call", {"name": "sleep", "arguments": {"seconds": 1_000}})
            assert trio.current_time() == after + 300

        async with trio.open_nursery() as nursery:
            for after in (0, 7, 299, 301, 1_000):
                nursery.start_soon(call, after)


@ERAS
async def test_progress_starts_the_time_again(revision: str, autojump_clock: trio.testing.MockClock) -> None:
    async with open_client(slow_server(), revision=revision) as client:
        result = await client.call_tool("report", {"times": 4}, on_progress=lambda _: None)
        assert (result.text, trio.current_time()) == ("done", 1_000)


@ERAS
async def test_a_question_starts_the_time_again_and_it_stands_still_meanwhile(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def think(_: object) -> str:
        await trio.sleep(500)
        return "yes"

    async with open_client(slow_server(), revision=revision, on_sample=think) as client:
        assert (await client.call_tool("ask")).text == "done"
        assert trio.current_time() == 200 + 500 + 200


@ERAS
async def test_the_callers_own_slowness_is_no_silence(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """A callback that takes its time holds up its own call; the answer has come."""

    async def take(_: object) -> None:
        await trio.sleep(1_000)

    async with open_client(slow_server(), revision=revision) as client:
        result = await client.call_tool("report", {"times": 1}, on_progress=take)
        assert (result.text, trio.current_time()) == ("done", 200 + 1_000)


async def test_infinity_is_for_ever_and_any_number_is_for_all_of_the_request(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_client(slow_server(), request_timeout=math.inf) as client:
        assert (await client.call_tool("sleep", {"seconds": 100_000})).text == "done"
    async with open_client(slow_server(), request_timeout=500) as client:
        with pytest.raises(trio.TooSlowError, match="500 s"):
            await client.call_tool("report", {"times": 4}, on_progress=lambda _: None)


async def test_a_server_gets_no_deadline_of_silence(autojump_clock: trio.testing.MockClock) -> None:
    tape = Tape()
    async with open_client(slow_server(), on_frame=tape) as client:
        await client.call_tool("sleep", {"seconds": 1})
    (call,) = [message for message in tape.sent if message["method"] == "tools/call"]
    assert "trio-mcp/timeoutMs" not in call["params"]["_meta"]


async def test_listening_may_be_silent(autojump_clock: trio.testing.MockClock) -> None:
    server = slow_server()

    @server.resource("notes://all")
    async def notes() -> str:
        return ""

    async with open_client(server, revision=MODERN) as client, client.listen(resources=["notes://all"]) as events:
        await trio.sleep(10_000)
        await server.resource_updated("notes://all")
        async for event in events:
            assert isinstance(event, ResourceUpdated)
            break


async def test_a_plain_tool_takes_no_time_of_a_mock_clock(autojump_clock: trio.testing.MockClock) -> None:
    async with open_client(slow_server()) as client:
        for _ in range(20):
            assert (await client.call_tool("work")).text == "done"
    assert trio.current_time() == 0
