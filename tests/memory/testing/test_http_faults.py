"""Faults of HTTP between a client and an application in this process: who notices, and how."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
import trio
import trio.testing

from trio_mcp import (
    Client,
    ConnectionLost,
    Context,
    Era,
    HttpServerParameters,
    HttpServerSettings,
    HttpStatusError,
    McpASGI,
    McpError,
    RemoteProtocolError,
    Server,
    open_client,
)
from trio_mcp.testing import Fault, FaultyApp, HttpFault, assert_nothing_left

ERAS: list[Era] = ["legacy", "modern"]


class Till:
    """A server that notes what becomes of its calls."""

    def __init__(self) -> None:
        self.server: Server[Any] = Server("till")
        self.booked: list[int] = []
        self.cancelled = 0

        @self.server.tool
        async def book(amount: int, *, ctx: Context[Any]) -> int:
            self.booked.append(amount)
            try:
                await ctx.report_progress(1, 2)
                await trio.sleep(0.1)
            except trio.Cancelled:
                self.cancelled += 1
                raise
            return sum(self.booked)


@asynccontextmanager
async def faulty(till: Till, faults: list[HttpFault], era: Era) -> AsyncGenerator[tuple[Client, FaultyApp]]:
    app = FaultyApp(McpASGI(till.server), faults)
    async with open_client(HttpServerParameters("http://localhost/mcp", app=app), era=era) as client:
        yield client, app


async def book(client: Client, amount: int) -> int:
    return await client.call_tool("book", {"amount": amount}, returns=int, on_progress=lambda _: None)


@pytest.mark.parametrize("era", ERAS)
async def test_a_request_that_is_late(era: Era, autojump_clock: trio.testing.MockClock) -> None:
    """On Trio's clock; no request before or after it."""
    till = Till()
    async with faulty(till, [HttpFault("delay", 2, "tools/call", seconds=200)], era) as (client, _):
        begin = trio.current_time()
        assert await book(client, 1) == 1
        assert trio.current_time() - begin < 1
        assert await book(client, 2) == 3
        assert 200 <= trio.current_time() - begin < 202


@pytest.mark.parametrize("era", ERAS)
async def test_a_request_that_never_arrives(era: Era, autojump_clock: trio.testing.MockClock) -> None:
    """The server has not seen it, and the client says that the connection was lost."""
    till = Till()
    async with faulty(till, [HttpFault("reset", 1, "tools/call")], era) as (client, app):
        with pytest.raises(ConnectionLost):
            await book(client, 1)
        assert till.booked == []
        assert await book(client, 2) == 2
        assert [fault.kind for fault in app.happened] == ["reset"]
        assert app.requests["tools/call"] == 2


@pytest.mark.parametrize("era", ERAS)
async def test_a_gateway_that_answers_instead(era: Era, autojump_clock: trio.testing.MockClock) -> None:
    """With its status."""
    till = Till()
    faults = [HttpFault("status", 1, "tools/call", status=502)]
    async with faulty(till, faults, era) as (client, _):
        with pytest.raises(HttpStatusError) as caught:
            await book(client, 1)
        assert caught.value.status == 502
        assert till.booked == []
        assert await book(client, 2) == 2


@pytest.mark.parametrize("era", ERAS)
async def test_a_response_that_is_lost(era: Era, autojump_clock: trio.testing.MockClock) -> None:
    """The server has done it all the same: what a caller must reckon with."""
    till = Till()
    async with faulty(till, [HttpFault("drop", 1, "tools/call")], era) as (client, _):
        with pytest.raises(ConnectionLost):
            await book(client, 1)
        assert till.booked == [1]
        assert await book(client, 2) == 3


async def test_a_request_that_arrives_twice(autojump_clock: trio.testing.MockClock) -> None:
    """As after a gateway that tries again: what is not idempotent is done twice."""
    till = Till()
    async with faulty(till, [HttpFault("duplicate", 1, "tools/call")], "modern") as (client, _):
        assert await book(client, 5) == 10
    assert till.booked == [5, 5]


@pytest.mark.parametrize("size", [0, 1, 30])
async def test_a_response_that_is_cut(size: int, autojump_clock: trio.testing.MockClock) -> None:
    """Anywhere in it: the call fails, and the handler is cancelled, because the client has gone."""
    till = Till()
    faults = [HttpFault("cut", 1, "tools/call", size=size)]
    async with faulty(till, faults, "modern") as (client, _):
        with pytest.raises(ConnectionLost):
            await book(client, 1)
        assert till.cancelled == 1
        assert await book(client, 2) == 3


@pytest.mark.parametrize("era", ERAS)
async def test_a_stream_that_stalls(era: Era, autojump_clock: trio.testing.MockClock) -> None:
    """The connection stays open and nothing comes: the caller's deadline ends it, and the handler with it."""
    till = Till()
    faults = [HttpFault("stall", 1, "tools/call", size=10)]
    async with faulty(till, faults, era) as (client, _):
        with pytest.raises(trio.TooSlowError), trio.fail_after(200):
            await book(client, 1)
        assert await book(client, 2) == 3
    assert trio.current_time() == pytest.approx(200, abs=10)


async def test_a_stream_that_stalls_for_a_while(autojump_clock: trio.testing.MockClock) -> None:
    """Then it goes on, and nothing is lost."""
    till = Till()
    faults = [HttpFault("stall", 1, "tools/call", size=10, seconds=30)]
    async with faulty(till, faults, "modern") as (client, _):
        assert await book(client, 1) == 1
    assert 30 <= trio.current_time() < 32


@pytest.mark.parametrize("size", [0, 10])
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_goes_ends_a_stall(
    era: Era, size: int, autojump_clock: trio.testing.MockClock
) -> None:
    """At once: neither the application nor leaving waits for what will not come."""
    till = Till()
    async with faulty(till, [HttpFault("stall", 1, "tools/call", size=size)], era) as (client, _):
        with trio.move_on_after(1) as scope:
            await book(client, 1)
        assert scope.cancelled_caught
        left_at = trio.current_time()
    assert trio.current_time() == left_at
    assert till.booked == [1]


@pytest.mark.parametrize("era", ERAS)
async def test_a_request_that_arrives_after_the_next_one(
    era: Era, autojump_clock: trio.testing.MockClock
) -> None:
    """Both are answered, each with its own answer."""
    till = Till()
    answers: dict[int, int] = {}

    async def note(amount: int) -> None:
        await trio.sleep(amount)
        answers[amount] = await book(client, amount)

    async with faulty(till, [HttpFault("reorder", 1, "tools/call")], era) as (client, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(note, 1)
            nursery.start_soon(note, 7)
        assert till.booked == [7, 1]
        assert answers == {1: 8, 7: 7 + 1}


async def test_a_request_that_arrives_after_a_stream_has_begun(autojump_clock: trio.testing.MockClock) -> None:
    """And not when the stream ends: nobody reads the body of a GET."""
    arrived: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        arrived.append(scope["method"])
        if scope["method"] == "GET":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await trio.sleep_forever()
        await receive()

    def body() -> Callable[[], Any]:
        parts: list[dict[str, Any]] = [{"type": "http.request", "body": b""}]

        async def receive() -> Any:
            await trio.lowlevel.checkpoint()
            return parts.pop() if parts else await trio.sleep_forever()

        return receive

    async def nowhere(_: object) -> None:
        await trio.lowlevel.checkpoint()

    faulty_app = FaultyApp(app, [HttpFault("reorder", 1)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(faulty_app, {"type": "http", "method": "POST"}, body(), nowhere)
        await trio.sleep(1)
        assert arrived == []
        nursery.start_soon(faulty_app, {"type": "http", "method": "GET"}, body(), nowhere)
        await trio.sleep(10)
        assert arrived == ["GET", "POST"]
        nursery.cancel_scope.cancel()


async def test_a_request_after_which_nothing_comes_stays_away(autojump_clock: trio.testing.MockClock) -> None:
    """What the docs say: put deadlines around calls. Its caller's going brings nothing, the next request does."""
    till = Till()
    async with faulty(till, [HttpFault("reorder", 1, "tools/call")], "modern") as (client, _):
        with trio.move_on_after(100) as scope:
            await book(client, 1)
        assert scope.cancelled_caught
        assert till.booked == []
        assert await book(client, 2) == 3
        assert till.booked == [2, 1]
        assert till.cancelled == 1
        left_at = trio.current_time()
    assert trio.current_time() == left_at


async def test_a_response_that_is_split(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """Nothing is lost, wherever it is split; the rest is late by as much."""
    rows: list[float | None] = [None, 5.0]
    for size in (0, 1, 30, 100):
        for seconds in rows:
            for era in ERAS:
                with subtests.test(size=size, seconds=seconds, era=era):
                    till = Till()
                    faults = [HttpFault("split", 1, "tools/call", size=size, seconds=seconds)]
                    async with faulty(till, faults, era) as (client, app):
                        begin = trio.current_time()
                        assert await book(client, 1) == 1
                        assert trio.current_time() - begin == pytest.approx((seconds or 0) + 0.1, abs=0.11)
                        assert app.happened == tuple(faults)


@pytest.mark.parametrize("json_only", [True, False])
async def test_a_response_that_is_damaged(json_only: bool, autojump_clock: trio.testing.MockClock) -> None:
    """One byte of it: the call fails, with what the client makes of it, and no other call does."""
    till = Till()
    app = McpASGI(till.server, HttpServerSettings(json_only=json_only))
    size = 1 if json_only else 10  # behind "data: {"
    faulty_app = FaultyApp(app, [HttpFault("corrupt", 1, "tools/call", size=size)])
    async with open_client(HttpServerParameters("http://localhost/mcp", app=faulty_app), era="modern") as client:
        with pytest.raises(RemoteProtocolError, match="a message that is not JSON"):
            await client.call_tool("book", {"amount": 1})
        assert till.booked == [1]
        assert await book(client, 2) == 3


@pytest.mark.parametrize("size", [0, 1, 30])
async def test_a_response_that_ends_early_and_in_good_order(
    size: int, autojump_clock: trio.testing.MockClock
) -> None:
    """As behind a gateway that gives up quietly: what has come is no answer, and the handler is cancelled."""
    till = Till()
    faults = [HttpFault("half_close", 1, "tools/call", size=size)]
    async with faulty(till, faults, "modern") as (client, _):
        with pytest.raises(RemoteProtocolError, match=r"the server at \S+ ended the response without an answer"):
            await book(client, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert till.cancelled == 1
        assert await book(client, 2) == 3


async def test_the_stream_of_a_session_that_breaks_is_opened_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Requests are counted by their methods, of HTTP too."""
    till = Till()
    async with faulty(till, [HttpFault("cut", 1, "GET", size=0)], "legacy") as (client, app):
        await trio.sleep(60)
        assert await book(client, 1) == 1
        assert app.requests["GET"] >= 2


async def test_by_seed(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same each time, and no call waits for ever or is answered by another one's answer."""
    for seed in range(15):
        for era in ERAS:
            with subtests.test(seed=seed, era=era):
                outcomes: list[list[object]] = []
                happened: list[int] = []
                for _ in range(2):
                    till, outcome = Till(), list[object]()
                    app = FaultyApp.random(McpASGI(till.server), seed, rate=0.2)
                    with suppress(McpError), assert_nothing_left():
                        async with open_client(
                            HttpServerParameters("http://localhost/mcp", app=app), era=era
                        ) as client:
                            for amount in range(12):
                                try:
                                    with trio.fail_after(100):
                                        outcome.append(await book(client, amount))
                                except (McpError, trio.TooSlowError) as error:
                                    outcome.append(type(error).__name__)
                    outcomes.append([*outcome, app.happened])
                    happened.append(len(app.happened))
                assert outcomes[0] == outcomes[1]
                printed = capsys.readouterr().err.splitlines()
                assert printed[0] == f"faults by seed {seed}: FaultyApp.random(app, {seed}, …) repeats them"
                assert len(printed) == 2 + sum(happened)


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: HttpFault("explode", 1), "kind must be one of delay,"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: HttpFault("drop", 0), "at must be at least 1"),
    (lambda: HttpFault("status", 1, status=200), "status must be from 400 to 599"),
    (lambda: HttpFault("cut", 1, size=-1), "size must be at least 0"),
    (lambda: HttpFault("delay", 1, seconds=-1), "seconds"),
    (lambda: FaultyApp(McpASGI(Server("x")), [Fault("drop", "sent", 1)]), "an HttpFault, not Fault"),  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    (lambda: FaultyApp.random(McpASGI(Server("x")), 1, kinds=[]), "kinds must be some of delay, "),
    (lambda: FaultyApp(cast("Any", Server("x"))), r"an ASGI application, as McpASGI\(server\), not Server"),
    (lambda: HttpFault("status", 1, retry_after=-5), "retry_after must be at least 0, not -5"),
    (lambda: HttpFault("status", 1, status=cast("Any", "503")), "status must be a whole number, not '503'"),
]


def test_mistakes_are_told(subtests: pytest.Subtests) -> None:
    """With the name of what is wrong."""
    for mistake, problem in MISTAKES:
        with (
            subtests.test(mistake=mistake, problem=problem),
            pytest.raises((ValueError, TypeError), match=problem),
        ):
            mistake()


def test_a_fault_is_shown_as_it_is_written() -> None:
    """So that what has happened can be made a script."""
    fault = HttpFault("status", 3, "tools/call", status=504, retry_after=2)
    assert repr(fault) == "HttpFault('status', 3, method='tools/call', status=504, retry_after=2)"
    assert eval(repr(fault), {"HttpFault": HttpFault}) == fault
