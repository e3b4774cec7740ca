"""Whose requests begin when many come at once: in passes of the event loop, not in seconds."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from http_raw import Answer, Raw, call_tool, modern, open_raw
from inside_core import SHARE, TIMES
from inside_endpoint import FEW, GREAT, Turnstile, _metered, is_great
from passes import Passes, counted
from raw import initialize

from trio_mcp import Context, HttpServerSettings, Server

SETTINGS = HttpServerSettings(trusted_proxies={"127.0.0.1"})
HOG, HONEST = {"X-Forwarded-For": "192.0.2.1"}, {"X-Forwarded-For": "192.0.2.2"}
MANY = 10 * SHARE


@pytest.fixture(autouse=True)
def _the_loop_is_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a step may take long for no reason of its own, and would be charged."""
    monkeypatch.setattr(Turnstile.__init__, "__kwdefaults__", {"clock": lambda: 0.0})


class Watched:
    """A server that notes who begins what in which pass."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, str]] = []
        self.passes = Passes()
        self.server: Server[Any] = Server("watched")

        @self.server.tool
        async def note(who: str, text: str = "") -> str:
            self.begun.append((self.passes.number, who))
            return who

    def in_one_pass(self, who: str) -> int:
        """Return how many of somebody's requests began in the pass in which most did."""
        passes = [number for number, name in self.begun if name == who]
        return max(passes.count(number) for number in passes)


async def ask(
    raw: Raw, headers: dict[str, str], who: str, statuses: list[int] | None = None, **more: Any
) -> Answer:
    answer = await raw.send(call_tool("note", who=who, **more), headers)
    if statuses is not None:
        statuses.append(answer.status)
    return answer


async def test_a_client_with_few_requests_does_not_wait_for_one_with_many(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A flood once began in one pass, whose end everybody waited for. Everything is answered all the same."""
    watched, statuses = Watched(), list[int]()
    async with open_raw(watched.server, SETTINGS) as raw:
        await ask(raw, HONEST, "honest")
        with counted() as watched.passes:
            async with trio.open_nursery() as nursery:
                for _ in range(MANY):
                    nursery.start_soon(ask, raw, HOG, "hog", statuses)
                nursery.start_soon(ask, raw, HONEST, "honest", statuses)
    assert statuses == [200] * (MANY + 1)
    assert watched.in_one_pass("hog") <= FEW + 2 * SHARE  # until it is seen, and at the seam of two passes
    order = [who for _, who in watched.begun[1:]]
    assert order.index("honest") <= FEW + 3 * SHARE
    numbers = [number for number, who in watched.begun if who == "hog"]
    assert numbers[-1] - numbers[0] <= MANY // SHARE + 1  # and no pass was without any


async def test_a_sole_client_never_waits(autojump_clock: trio.testing.MockClock) -> None:
    """All of a single client's requests begin in the pass in which they come."""
    watched = Watched()
    async with open_raw(watched.server, SETTINGS) as raw:
        with counted() as watched.passes:
            async with trio.open_nursery() as nursery:
                for _ in range(MANY):
                    nursery.start_soon(ask, raw, HOG, "hog")
    assert watched.in_one_pass("hog") == MANY


async def test_a_great_request_waits_for_what_the_one_before_took(autojump_clock: trio.testing.MockClock) -> None:
    """It holds the loop by itself: its client's next one begins after a multiple of that, while others ask, too."""
    watched = Watched()
    times: list[float] = []
    now = iter(range(1_000_000))

    async def great(raw: Raw) -> None:
        await ask(raw, HOG, "hog", text="x" * GREAT)
        times.append(trio.current_time())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Turnstile.__init__, "__kwdefaults__", {"clock": lambda: next(now) / 100}
        )  # each step takes 10 ms
        async with open_raw(watched.server, SETTINGS) as raw:
            await great(raw)
            await great(raw)
            assert times == [0.0, 0.0]  # nobody else has asked
            await ask(raw, HONEST, "honest")
            await great(raw)
            assert times[-1] < 0.01
            await ask(raw, HOG, "hog")
            assert trio.current_time() < 0.01  # what is small goes on
            await great(raw)
            assert TIMES * 0.01 <= times[-1] <= 1.5


async def test_what_waits_is_given_up_when_its_client_goes(autojump_clock: trio.testing.MockClock) -> None:
    """It never begins, and nothing is left of it."""
    watched = Watched()
    now = iter(range(1_000_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Turnstile.__init__, "__kwdefaults__", {"clock": lambda: next(now) / 10})
        async with open_raw(watched.server, SETTINGS) as raw:
            await ask(raw, HONEST, "honest")
            await ask(raw, HOG, "first", text="x" * GREAT)
            with trio.move_on_after(0.01) as scope:
                await ask(raw, HOG, "second", text="x" * GREAT)
            assert scope.cancelled_caught
            await trio.sleep(60)
            await ask(raw, HOG, "third", text="x" * GREAT)
    assert [who for _, who in watched.begun] == ["honest", "first", "third"]


async def test_what_waits_when_serving_ends_is_answered_before(autojump_clock: trio.testing.MockClock) -> None:
    """Draining opens the turnstile: nobody waits for a turn that never comes."""
    watched, statuses = Watched(), list[int]()
    now = iter(range(1_000_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Turnstile.__init__, "__kwdefaults__", {"clock": lambda: next(now) / 10})
        async with trio.open_nursery() as nursery:
            async with open_raw(watched.server, SETTINGS) as raw:
                await ask(raw, HONEST, "honest")
                await ask(raw, HOG, "hog", text="x" * GREAT)
                before = trio.current_time()

                async def last() -> None:
                    statuses.append((await ask(raw, HOG, "hog", text="x" * GREAT)).status)

                nursery.start_soon(last)
                await trio.testing.wait_all_tasks_blocked()
                assert not statuses
            assert trio.current_time() - before < 0.1
    assert len(statuses) == 1


async def test_cancellations_overtake_great_requests_that_wait(autojump_clock: trio.testing.MockClock) -> None:
    """In the legacy era cancellations are POSTs as well: they are small, and wait for no great one."""
    watched = Watched()
    now = iter(range(1_000_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Turnstile.__init__, "__kwdefaults__", {"clock": lambda: next(now) / 10})
        async with open_raw(watched.server, SETTINGS) as raw:
            begun = await raw.send(initialize("2025-11-25"), HOG)
            mine = {
                **HOG,
                "Mcp-Session-Id": begun.headers["mcp-session-id"],
                "MCP-Protocol-Version": "2025-11-25",
            }
            await raw.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, mine)
            await ask(raw, HONEST, "honest")
            await ask(raw, HOG, "hog", text="x" * GREAT)
            before = trio.current_time()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: ask(raw, HOG, "hog", text="x" * GREAT))
                await trio.testing.wait_all_tasks_blocked()
                cancellation = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
                assert (await raw.send(cancellation, mine)).status == 202
                assert trio.current_time() == before
            assert trio.current_time() > before


async def begin(raw: Raw, who: dict[str, str], revision: str = "2025-11-25") -> dict[str, str]:
    """Begin a session, and return what its requests say in their heads."""
    begun = await raw.send(initialize(revision), who)
    mine = {**who, "Mcp-Session-Id": begun.headers["mcp-session-id"], "MCP-Protocol-Version": revision}
    await raw.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, mine)
    return mine


@pytest.mark.parametrize("is_modern", [False, True])
async def test_who_sends_many_notifications_sends_a_few_in_each_pass(
    is_modern: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Each holds the loop for a moment, and handlers of one client that send without end left nothing to others."""
    watched = Watched()
    number = 5

    @watched.server.tool
    async def chatter(ctx: Context) -> str:
        for _ in range(number):
            await ctx.log("error", "x")
            watched.begun.append((watched.passes.number, "hog"))
        return "done"

    async with open_raw(watched.server, SETTINGS) as raw:
        await ask(raw, HONEST, "honest")
        mine = HOG if is_modern else await begin(raw, HOG)
        logged = {"io.modelcontextprotocol/logLevel": "debug"}

        async def chat(id: int) -> None:
            message = (
                modern("tools/call", id, name="chatter", arguments={}, _meta=logged)
                if is_modern
                else {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "chatter"}}
            )
            answer = await raw.send(message, mine)
            assert len(answer.messages) == number + 1

        with counted() as watched.passes:
            async with trio.open_nursery() as nursery:
                for id in range(MANY):
                    nursery.start_soon(chat, id)
    sent = [number for number, who in watched.begun if who == "hog"]
    assert len(sent) == MANY * number
    assert watched.in_one_pass("hog") <= FEW + 2 * SHARE


async def test_great_answers_of_sessions_are_charged(autojump_clock: trio.testing.MockClock) -> None:
    """They are made by tasks of the session, in which nobody measures."""
    watched = Watched()

    @watched.server.tool
    async def much() -> str:
        return "x" * 10_000_000

    async with open_raw(watched.server, SETTINGS) as raw:
        mine = await begin(raw, HOG)
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "much"}}
        for _ in range(FEW):
            await raw.send(message, mine)
        assert trio.current_time() == 0  # nobody else has asked
        await ask(raw, HONEST, "honest")
        for _ in range(FEW):
            await raw.send(message, mine)
        assert trio.current_time() > 0.2
        before = trio.current_time()
        for _ in range(FEW):
            await ask(raw, HONEST, "honest")
        assert trio.current_time() == before


async def test_the_requests_of_a_batch_are_charged(autojump_clock: trio.testing.MockClock) -> None:
    """One after the other they hold the loop, after the POST that has brought them was read."""
    watched = Watched()
    async with open_raw(watched.server, SETTINGS) as raw:
        mine = await begin(raw, HOG, "2025-03-26")
        batch = [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in range(200)]
        assert (await raw.send(batch, mine)).status == 200
        assert (await raw.send(batch, mine)).status == 200
        assert trio.current_time() == 0  # nobody else has asked
        await ask(raw, HONEST, "honest")
        assert (await raw.send(batch, mine)).status == 200
        before = trio.current_time()
        assert (await raw.send(batch, mine)).status == 200
        assert trio.current_time() - before > 0.2


def test_what_is_great() -> None:
    """Batches, whatever they hide behind, and what is large."""
    rows: list[tuple[bytes, bool]] = [
        (b'{"jsonrpc":"2.0"}', False),
        (b'[{"jsonrpc":"2.0"}]', True),
        (b" [1]", True),
        (b"{" + b" " * GREAT, True),
    ]
    for body, great in rows:
        assert is_great(body) == great


async def test_what_is_charged_is_the_time_in_which_the_loop_was_held() -> None:
    """Not that in which a request waited; and what is raised at a step goes on into it."""
    charged: list[float] = []
    clock = trio.testing.MockClock()  # stands still but for what is said below

    async def work() -> None:
        clock.jump(1)
        try:
            await trio.sleep_forever()
        finally:
            clock.jump(2)

    async def run() -> None:
        await _metered(work(), clock.current_time, charged.append)

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(100)
            scope.cancel()
    assert charged == [1, 2]
