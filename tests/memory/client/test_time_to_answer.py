"""The time that the user takes to answer a server's question is neither the server's silence nor its slowness."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from lines import LEGACY, LEGACY_LINES, LINES, MODERN, open_line
from scripted_server import ScriptedServer
from tape import Tape
from wires import answer

from trio_mcp import Context, RequestError, Revision, Server, fail_after_silence, open_client


def asking_server(before: float, after: float) -> Server[None]:
    """Return a server that works, asks, and works again."""
    server: Server[None] = Server("asking")

    @server.tool
    async def work(ctx: Context[Any]) -> str:
        await trio.sleep(before)
        said = (await ctx.sample("?", max_tokens=1)).text
        await trio.sleep(after)
        return said

    return server


async def think(_: object) -> str:
    await trio.sleep(50)
    return "done"


@LINES
@pytest.mark.parametrize("after", [2, 4])
async def test_silence_is_not_counted_while_the_user_is_asked(
    after: float, binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """A question is a sign of life, and from the answer on the idle time begins again."""
    async with open_line(asking_server(2, after), binding, revision, on_sample=think) as line:
        begin = trio.current_time()
        if after == 2:
            with fail_after_silence(3, at_most=1_000):
                assert (await line.client.call_tool("work")).text == "done"
            assert trio.current_time() - begin == 2 + 50 + 2
        else:
            with pytest.raises(trio.TooSlowError, match="no progress"), fail_after_silence(3, at_most=1_000):
                await line.client.call_tool("work")
            assert trio.current_time() - begin == 2 + 50 + 3


@LINES
async def test_the_most_that_silence_allows_stays_the_most(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """`at_most` is what the server was granted, whatever takes the time."""
    async with open_line(asking_server(2, 2), binding, revision, on_sample=think) as line:
        begin = trio.current_time()
        with pytest.raises(trio.TooSlowError, match="not done"), fail_after_silence(3, at_most=30):
            await line.client.call_tool("work")
        assert trio.current_time() - begin == 30


@LINES
@pytest.mark.parametrize("after", [2, 4])
async def test_the_request_timeout_does_not_count_what_the_user_takes(
    after: float, binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """It goes on where it stood; neither end is over before."""
    server = asking_server(2, after)
    async with open_line(server, binding, revision, on_sample=think, request_timeout=5) as line:
        begin = trio.current_time()
        if after == 2:
            assert (await line.client.call_tool("work")).text == "done"
            assert trio.current_time() - begin == 2 + 50 + 2
        else:
            with pytest.raises(trio.TooSlowError, match="request_timeout"):
                await line.client.call_tool("work")
            assert trio.current_time() - begin == 5 + 50


@pytest.mark.parametrize(
    ("revision", "asks", "told"),
    [
        (LEGACY, False, [5_000]),
        (LEGACY, True, [None]),
        (MODERN, False, [5_000]),
        (MODERN, True, [None, None]),
    ],
)
async def test_a_server_is_sent_a_request_timeout_that_cannot_stand_still(
    revision: str, asks: bool, told: list[Any], autojump_clock: trio.testing.MockClock
) -> None:
    """The server's clock would go on, and that of a handler that is parked between two rounds, too."""
    tape = Tape()
    options: dict[str, Any] = {"on_sample": think} if asks else {}
    server = asking_server(2, 2)
    async with open_client(server, revision=revision, on_frame=tape, request_timeout=5, **options) as client:
        with suppress(RequestError):  # where nobody can be asked
            await client.call_tool("work")
    calls = [message for message in tape.sent if message.get("method") == "tools/call"]
    assert [call["params"].get("_meta", {}).get("trio-mcp/timeoutMs") for call in calls] == told


async def test_a_server_is_granted_no_less_time_than_its_caller_has(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """In whole milliseconds: the part of one that is left over would end the handler before the caller gives up."""
    tape = Tape()
    async with open_client(asking_server(0, 0), on_frame=tape) as client:
        with trio.fail_after(2.0001), suppress(RequestError):
            await client.call_tool("work")
    (call,) = [message for message in tape.sent if message.get("method") == "tools/call"]
    assert call["params"]["_meta"]["trio-mcp/timeoutMs"] == 2_001


@LEGACY_LINES
async def test_a_stopped_deadline_of_the_callers_own_is_none(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Trio's own deadlines mean what they say."""
    async with open_line(asking_server(2, 2), binding, revision, on_sample=think) as line:
        begin = trio.current_time()
        with trio.move_on_after(10):
            await line.client.call_tool("work")
        assert trio.current_time() - begin == 10


async def test_only_what_was_pending_when_it_was_asked_stands_still(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A later request cannot be what the question is about; and with its call a stopped clock goes on."""
    channel = ScriptedServer(Revision.V2025_11_25, {"x/first": lambda _: None, "x/later": lambda _: None})
    ended: dict[str, float] = {}

    async def call(client: Any, method: str) -> None:
        with pytest.raises((trio.TooSlowError, RequestError)):
            await client.request(method)
        ended[method] = trio.current_time()

    options: dict[str, Any] = {"on_sample": think, "request_timeout": 5}
    params: dict[str, Any] = {"messages": [], "maxTokens": 1}
    question = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params}
    async with open_client(channel, revision="2025-11-25", **options) as client, trio.open_nursery() as nursery:
        nursery.start_soon(call, client, "x/first")
        await trio.sleep(1)
        channel.say(question)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(call, client, "x/later")
    assert ended == {"x/first": 55, "x/later": 6}


async def test_a_clock_goes_on_when_the_call_that_was_asked_about_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A scope around several calls does not stand still for a question that nobody needs an answer to any more."""
    channel = ScriptedServer(Revision.V2025_11_25, {"x/first": lambda _: None, "x/second": lambda _: None})

    async def never(_: object) -> str:
        await trio.sleep_forever()

    params: dict[str, Any] = {"messages": [], "maxTokens": 1}
    async with open_client(channel, revision="2025-11-25", on_sample=never) as client:

        async def answer_first() -> None:
            await trio.sleep(1)
            channel.say({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params})
            await trio.sleep(30)
            channel.say(answer(channel.requests("x/first")[0], {}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_first)
            with pytest.raises(trio.TooSlowError), fail_after_silence(3, at_most=1_000):
                await client.request("x/first")
                assert trio.current_time() == 31
                await client.request("x/second")
        assert trio.current_time() == 31 + 3


@pytest.mark.parametrize("scope", ["request_timeout", "fail_after_silence"])
async def test_of_two_questions_the_last_answer_lets_the_time_go_on(
    scope: str, autojump_clock: trio.testing.MockClock
) -> None:
    """As long as one of them is open, the person is the one who is waited for."""
    channel = ScriptedServer(Revision.V2025_11_25, {"x/work": lambda _: None})
    times = iter((10, 50))

    async def think(_: object) -> str:
        await trio.sleep(next(times))
        return "done"

    is_silence = scope == "fail_after_silence"
    options: dict[str, Any] = {"on_sample": think, **({} if is_silence else {"request_timeout": 5})}
    params: dict[str, Any] = {"messages": [], "maxTokens": 1}
    async with open_client(channel, revision="2025-11-25", **options) as client, trio.open_nursery() as nursery:

        async def ask_twice() -> None:
            for id in ("first", "second"):
                await trio.sleep(1)
                nursery.start_soon(partial(channel.ask, "sampling/createMessage", params, id=id))

        nursery.start_soon(ask_twice)
        with (
            pytest.raises(trio.TooSlowError),
            fail_after_silence(4, at_most=1_000) if is_silence else nullcontext(),
        ):
            await client.request("x/work")
        assert trio.current_time() == 52 + 4, "asked at 1 and 2, answered at 11 and 52"


async def test_progress_does_not_start_the_time_while_the_user_is_asked(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A server may report that it waits."""
    channel = ScriptedServer(Revision.V2025_11_25, {"x/work": lambda _: None})
    params: dict[str, Any] = {"messages": [], "maxTokens": 1}
    async with open_client(channel, revision="2025-11-25", on_sample=think) as client:

        async def ask_and_report() -> None:
            await trio.sleep(1)
            channel.say({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params})
            await trio.sleep(1)
            token = channel.requests("x/work")[0]["params"]["_meta"]["progressToken"]
            channel.tell("notifications/progress", progressToken=token, progress=1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_and_report)
            with pytest.raises(trio.TooSlowError), fail_after_silence(3, at_most=1_000):
                await client.request("x/work")
        assert trio.current_time() == 1 + 50 + 3


async def test_progress_is_a_sign_of_life_for_every_scope_around_the_call(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Not for the innermost one alone."""
    server: Server[None] = Server("slow")

    @server.tool
    async def work(ctx: Context[Any]) -> str:
        for step in range(4):
            await trio.sleep(2)
            await ctx.report_progress(step + 1)
        return "done"

    async with open_client(server) as client:
        with fail_after_silence(3, at_most=1_000), fail_after_silence(2.5, at_most=500):
            assert (await client.call_tool("work")).text == "done"
        assert trio.current_time() == 8
