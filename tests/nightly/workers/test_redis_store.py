"""What processes share in Redis, with a real one: who lives, bounds, and a Redis that is away. Real time."""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, cast

import pytest
import trio
from inside_base import SERVER_BUSY
from inside_endpoint import TakenSession
from inside_workers import KEEP, RedisSharedStore
from redis_server import Redis, free_port, running_redis

from trio_mcp import RedisStore, RequestError

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Redis and its sockets are those of Unix"),
]

SOUND = """
local function key(kind, session) return 'trio-mcp:' .. kind .. ':' .. session end
local sum, found = 0, {}
for _, name in ipairs(redis.call('KEYS', 'trio-mcp:events:*')) do
  local session = string.match(name, '^trio%-mcp:events:(.*)$')
  local size, count = 0, 0
  for _, data in ipairs(redis.call('HVALS', name)) do size, count = size + #data + 200, count + 1 end
  sum = sum + size
  if redis.call('ZCARD', key('event-index', session)) ~= count then return 'index' end
  if redis.call('LLEN', key('event-order', session)) ~= count then return 'order' end
  if tonumber(redis.call('ZSCORE', 'trio-mcp:event-sizes', 's' .. session)) ~= size then return 'size' end
end
if tonumber(redis.call('ZSCORE', 'trio-mcp:event-sizes', 'all') or 0) ~= sum then return 'sum' end
return 'sum ' .. sum
"""
"""What is counted, and what is there."""


@pytest.fixture
def redis() -> Generator[Redis]:
    with running_redis() as running:
        yield running


@asynccontextmanager
async def joined(redis: Redis, **options: Any) -> AsyncGenerator[RedisSharedStore]:
    async with RedisStore(redis.url, **options).open() as store:
        yield cast("RedisSharedStore", store)


async def weight(redis: Redis) -> int:
    """Return what all events weigh, after a look that it is what is there."""
    (answer,) = (await redis.ask("EVAL", SOUND, "0")).split(b"\r\n")[1:2]
    assert answer.startswith(b"sum "), answer
    return int(answer.removeprefix(b"sum "))


async def keys(redis: Redis) -> set[str]:
    """Return all keys but those of tasks."""
    words = (await redis.ask("KEYS", "*")).decode().split("\r\n")
    found = {word.removeprefix("trio-mcp:") for word in words if word.startswith("trio-mcp:")}
    return {key for key in found if key.partition(":")[0] not in {"runner", "runners", "totals"}}


def doubts_of(store: RedisSharedStore, **sessions: bytes) -> list[bool]:
    """Keep sessions again when the store doubts, as servers do. Returns the answers, once they come."""
    answers: list[bool] = []

    async def keep() -> None:
        for id, data in sessions.items():
            answers.append(await store.sessions.keep(id, data))
        if not sessions:
            answers.append(True)

    store.on_doubt = lambda: trio.lowlevel.spawn_system_task(keep)
    return answers


async def until(found: Any, *, seconds: float = 10) -> None:
    """Wait until an asynchronous function returns something that is true."""
    with trio.fail_after(seconds):
        while not await found():  # noqa: ASYNC110 - it is another process that does it
            await trio.sleep(0.02)


# Who lives.


async def test_no_number_is_given_twice(redis: Redis) -> None:
    """Not even where Redis has forgotten what it gave; who was there goes on with its own."""
    seen: set[int] = set()
    async with joined(redis) as one, joined(redis) as other:
        seen |= {one.number, other.number}
        await redis.ask("SAVE")
        for number in range(12):
            async with joined(redis) as third:
                seen.add(third.number)
                assert third.secret == one.secret == other.secret
                assert len(third.secret) == 32
            if number % 4:
                await redis.ask("FLUSHALL")
            else:
                redis.kill()  # it begins with what it had at first, each time
                redis.start()
            for each in (one, other):  # it says who it is
                await each.sessions.keep("a", b"")
        assert len(seen) == 14
        assert {one.number, other.number} <= seen
        assert max(seen) < 10**9


async def test_who_leaves_is_gone_at_once_and_its_events_stay(redis: Redis) -> None:
    async with joined(redis) as other:
        async with joined(redis) as one:
            await one.announce("tcp:10.0.0.1:5")
            await one.sessions.keep("a", b"data")
            await one.events.append("a", 0, [(1, b"x")])
            assert await other.others() == {one.number: "tcp:10.0.0.1:5"}
            assert await other.sessions.take("a") == one.number
        assert await other.others() == {}
        assert await other.address_of(one.number) is None
        assert await other.sessions.take("a") == TakenSession(b"data", 1)
        assert await other.events.read("a", 0, 0, 10) == [(1, b"x")]


PROCESS = """
import sys, time, trio
sys.path[:0] = sys.argv[2:]
from trio_mcp import RedisStore
async def main():
    async with RedisStore(sys.argv[1], lease=1).open() as store:
        doubts = []
        store.on_doubt = lambda: doubts.append(1)
        await store.announce("theirs")
        await store.sessions.keep("taken", b"1")
        await store.sessions.keep("left", b"2")
        number = store.number
        print(number, flush=True)
        while not doubts:
            await trio.sleep(0.02)
        kept = [await store.sessions.keep(id, b"3") for id in ("taken", "left")]
        print(store.number == number, kept, flush=True)
        await trio.sleep_forever()
trio.run(main)
"""


@asynccontextmanager
async def process(redis: Redis) -> AsyncGenerator[tuple[subprocess.Popen[bytes], int]]:
    """Run a process that has two sessions, and return its number."""
    words = [sys.executable, "-c", PROCESS, redis.url, *sys.path]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as running:
        try:
            yield running, int(await line(running))
        finally:
            running.kill()


async def line(running: subprocess.Popen[bytes]) -> str:
    assert running.stdout is not None
    return (await trio.to_thread.run_sync(running.stdout.readline)).decode().strip()


async def test_a_process_that_was_killed_is_gone_after_its_lease(redis: Redis) -> None:
    async with (
        joined(redis, lease=1) as one,
        joined(redis, lease=1) as other,
        process(redis) as (running, number),
    ):
        await trio.sleep(1.5)
        assert await one.sessions.take("left") == number, "it renews its lease"
        assert await one.others() == {number: "theirs"}
        running.kill()

        async def take() -> bool:
            taken: list[Any] = []
            async with trio.open_nursery() as nursery:
                for each in (one, other):
                    nursery.start_soon(lambda store: appended(taken, store.sessions.take("left")), each)
            return any(isinstance(found, TakenSession) for found in taken) and check(taken)

        def check(taken: list[Any]) -> bool:
            (got,) = [found for found in taken if isinstance(found, TakenSession)]
            assert got == TakenSession(b"2", 1)
            assert [found for found in taken if found in {one.number, other.number}], "one gets it"
            return True

        await until(take)
        assert await one.address_of(number) is None


async def appended(found: list[Any], awaitable: Any) -> None:
    found.append(await awaitable)


async def test_a_process_that_was_away_for_too_long_goes_on_with_what_nobody_took(redis: Redis) -> None:
    """Under its own number, and at its address; it learns what others have taken."""
    async with joined(redis) as store, process(redis) as (running, number):
        running.send_signal(signal.SIGSTOP)

        async def take() -> bool:
            return await store.sessions.take("taken") == TakenSession(b"1", 1)

        await until(take)
        running.send_signal(signal.SIGCONT)
        assert await line(running) == "True [False, True]"
        assert await store.sessions.take("left") == number
        assert await store.others() == {number: "theirs"}
        assert await store.sessions.find("taken") == b"1"


async def test_who_is_taken_for_gone_and_is_not_joins_again(redis: Redis) -> None:
    async with joined(redis, lease=4) as one, joined(redis) as other:
        await one.announce("here")
        await one.sessions.keep("a", b"1")
        await one.sessions.keep("b", b"1")
        answers = doubts_of(one, a=b"2", b=b"2")
        await one.gone(one.number)
        await one.gone(12345)
        assert await other.sessions.take("a") == one.number, "nobody says that of itself"
        await other.gone(one.number)
        assert await other.sessions.take("a") == TakenSession(b"1", 1)

        async def is_known() -> bool:
            return len(answers) == 2

        await until(is_known)
        assert answers == [False, True]
        assert await other.others() == {one.number: "here"}
        assert await other.sessions.take("b") == one.number


async def test_what_a_former_connection_still_says_is_not_done(redis: Redis) -> None:
    """It may be on its way for as long as Redis was stopped."""
    async with joined(redis) as store:
        late = [*store._head(), b"a", b"data", 0, 100]
        await store.link.request(store._greet)
        assert await store.link.request(lambda it: store.link.run_on(it, KEEP, late)) == [b"fenced"]
        assert await store.sessions.find("a") is None


# Sessions.


async def test_sessions_are_bounded_and_those_of_the_gone_go_first(redis: Redis) -> None:
    async with joined(redis, max_sessions=3) as store:
        async with joined(redis) as gone:
            await gone.sessions.keep("gone", b"")
            await gone.events.append("gone", 0, [(1, b"x")])
        async with joined(redis) as other:
            await other.sessions.keep("released", b"")
            await other.sessions.release("released")
            for id in "abc":
                assert await store.sessions.keep(id, b"")
            assert await store.sessions.keep("a", b"again")
            with pytest.raises(RequestError, match=r"Redis has 3 \(max_sessions is 3\)") as caught:
                await store.sessions.keep("d", b"")
            assert caught.value.code == SERVER_BUSY
            assert [await other.sessions.find(id) for id in ("gone", "released", "d")] == [None, None, None]
            assert await weight(redis) == 0
            await store.sessions.forget("b")
            assert await store.sessions.keep("d", b"")


async def test_what_was_taken_and_forgotten_does_not_come_back(redis: Redis) -> None:
    """Its client has ended it while the process that had it was away."""
    async with joined(redis) as one, joined(redis) as other:
        await one.sessions.keep("a", b"")
        answers = doubts_of(one, a=b"")
        await other.gone(one.number)
        await other.sessions.take("a")
        await other.sessions.forget("a")
        await one.announce("here")  # which finds that it was taken for gone

        async def is_known() -> bool:
            return len(answers) == 1

        await until(is_known)
        assert answers == [False]
        assert await one.sessions.find("a") is None


async def test_sessions_of_the_gone_are_removed_and_those_of_the_living_are_not(redis: Redis) -> None:
    """With their events, however long nobody has touched them."""
    async with joined(redis, lease=1, max_age=1) as store:
        async with joined(redis, lease=1, max_age=1) as gone:
            for number in range(250):
                await gone.sessions.keep(f"gone {number}", b"")
            await gone.events.append("gone 7", 0, [(1, b"x")])
        await store.sessions.keep("old", b"")
        await store.sessions.keep("released", b"")
        await store.sessions.release("released")
        await store.sessions.keep("mine", b"data")
        await trio.sleep(1.5)

        async def is_removed() -> bool:
            return not {key for key in await keys(redis) if key.partition(":")[2] not in {"", "mine", "old"}} - {
                f"{kind}:{store.number}" for kind in ("member", "sessions")
            }

        await until(is_removed)
        assert await store.sessions.find("mine") == b"data"
        await store.sessions.forget("mine")
        await store.sessions.forget("old")
    assert await keys(redis) == {"secret", "numbers"}


# Events.


async def test_events_that_are_appended_again_are_there_once(redis: Redis) -> None:
    """An answer may be lost with its connection. What had no room does not come again."""
    async with joined(redis, max_session_events=3) as store:
        events = [(number, b"%d" % number) for number in range(1, 6)]
        for _ in range(2):
            await store.events.append("a", 7, events)
            assert await store.events.read("a", 7, 0, 10) == events[2:]
        await store.events.append("a", 8, [(0, b"0")])
        await store.events.append("a", 8, [(0, b"0"), (1, b"1")])
        assert await store.events.read("a", 8, -1, 10) == [(0, b"0"), (1, b"1")]
        assert await store.events.read("a", 7, 0, 10) == events[4:]
        assert await weight(redis) == 3 * 201


async def test_events_are_bounded_in_each_session_and_in_all(redis: Redis) -> None:
    """The oldest of a session go first, and of all those of the session that has most."""
    bounds = {"max_session_bytes": 5_000, "max_bytes": 12_000}
    async with joined(redis, **bounds) as store, joined(redis, **bounds) as other:
        for number in range(20):
            await store.events.append("a", number % 2, [(number, b"x" * 800)])
        assert [number for number, _ in await other.events.read("a", 0, -1, 10)] == [16, 18]
        assert [number for number, _ in await other.events.read("a", 1, -1, 1)] == [15]
        assert await weight(redis) == 5_000
        await store.events.append("large", 0, [(1, b"x" * 5_000)])
        assert await store.events.read("large", 0, 0, 10) == []
        for id in ("b", "c"):
            await other.events.append(id, 0, [(number, b"x" * 50) for number in range(1, 17)])
        assert await weight(redis) == 5_000 + 2 * 16 * 250 - 3_000, "half of those of `a`"
        assert [number for number, _ in await store.events.read("a", 0, -1, 10)] == [18]
        assert len(await store.events.read("b", 0, 0, 100)) == len(await store.events.read("c", 0, 0, 100)) == 16
        await other.events.forget("b")
        assert await store.events.read("b", 0, 0, 100) == []
        await redis.ask("DEL", "trio-mcp:events:c", "trio-mcp:event-order:c", "trio-mcp:event-index:c")
        await store.events.append("c", 0, [(1, b"")])
        await store.events.forget("a")
        await store.events.forget("c")
        assert await weight(redis) == 0, "what others have removed does not count for ever"


async def test_events_grow_old(redis: Redis) -> None:
    async with joined(redis, lease=1, max_age=1) as store:
        for id in ("old", "new"):
            await store.events.append(id, 0, [(1, b"x")])
        with trio.fail_after(5):
            number = 1
            while await store.events.read("old", 0, 0, 1):
                number += 1
                await store.events.append("new", 0, [(number, b"x")])
                await trio.sleep(0.1)
        assert len(await store.events.read("new", 0, 0, 1_000)) == number
        assert await weight(redis) == number * 201


# A Redis that is away.


async def test_a_redis_that_stops_for_a_while_loses_nothing(redis: Redis) -> None:
    """Who waits goes on; all is done once."""
    async with joined(redis) as one, joined(redis) as other:
        await one.announce("one")
        taken: list[Any] = []
        await one.sessions.keep("mine", b"")
        redis.stop()
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(one.sessions.keep, str(number), b"data")
                nursery.start_soon(other.events.append, str(number), 0, [(1, b"x"), (2, b"y")])
                nursery.start_soon(lambda: appended(taken, other.sessions.take("mine")))
            await trio.sleep(2)
            redis.go_on()
        assert taken == [one.number] * 20
        for number in range(20):
            assert await other.sessions.find(str(number)) == b"data"
            assert await one.events.read(str(number), 0, 0, 10) == [(1, b"x"), (2, b"y")]
        assert await other.others() == {one.number: "one"}


async def test_a_redis_that_stops_for_longer_gives_errors_within_a_bound(redis: Redis) -> None:
    """What was given up is not done later, and what was begun is settled."""
    options = {"seconds": 0.5, "lease": 20}
    async with joined(redis, **options) as store, joined(redis, **options) as other:
        async with joined(redis) as gone:
            await gone.sessions.keep("theirs", b"")
        await store.sessions.keep("ended", b"")
        await store.sessions.keep("kept", b"old")
        redis.stop()
        begin = trio.current_time()
        failing: list[Any] = [
            partial(store.sessions.keep, "late", b""),
            partial(store.sessions.keep, "kept", b"new"),
            partial(store.sessions.forget, "ended"),
            partial(store.sessions.take, "theirs"),
            partial(store.events.append, "kept", 0, [(1, b"x")]),
            partial(store.events.read, "kept", 0, 0, 10),
            store.others,
        ]

        async def fail(work: Any) -> None:
            with pytest.raises(RequestError, match="Redis has not answered within") as caught:
                await work()
            assert caught.value.code == SERVER_BUSY

        async with trio.open_nursery() as nursery:
            for work in failing:
                nursery.start_soon(fail, work)
        assert trio.current_time() - begin < 1
        await trio.sleep(1)
        redis.go_on()

        async def is_settled() -> bool:
            try:
                found = [await other.sessions.find(id) for id in ("late", "ended")]
                return found == [None, None] and isinstance(await other.sessions.take("theirs"), TakenSession)
            except RequestError:
                return False

        await until(is_settled)
        await trio.sleep(0.2)
        assert await store.sessions.find("late") is None
        assert await store.sessions.keep("kept", b"newer")
        await store.events.append("kept", 0, [(1, b"x")])
        assert await other.events.read("kept", 0, 0, 10) == [(1, b"x")]


@asynccontextmanager
async def losing_answers(redis: Redis, every: int) -> AsyncGenerator[str]:
    """Pass on what clients say to Redis, but break each connection instead of passing on its last answer."""
    listening = trio.socket.socket(socket.AF_UNIX)
    await listening.bind(f"{redis.folder}/losing")
    listening.listen()
    listener = trio.SocketListener(listening)

    async def ask(client: trio.SocketStream, server: trio.SocketStream, scope: trio.CancelScope) -> None:
        with suppress(trio.BrokenResourceError):
            async for chunk in client:
                await server.send_all(chunk)
        scope.cancel()

    async def serve(client: trio.SocketStream) -> None:
        async with await trio.open_unix_socket(f"{redis.folder}/s") as server, trio.open_nursery() as nursery:
            nursery.start_soon(ask, client, server, nursery.cancel_scope)
            with suppress(trio.BrokenResourceError):
                for _ in range(every):
                    await client.send_all(await server.receive_some())
                await server.receive_some()
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [listener])  # noqa: ASYNC113 - it listens already
        yield f"unix://{redis.folder}/losing"
        nursery.cancel_scope.cancel()


async def test_what_is_done_again_because_its_answer_was_lost_is_done_once(redis: Redis) -> None:
    async with losing_answers(redis, 7) as url, joined(redis) as other, RedisStore(url).open() as store:
        events = [(number, b"%d" % number) for number in range(1, 60)]
        for number, data in events:
            id = str(number)
            await store.events.append("a", 0, [(number, data)])
            await other.sessions.keep(id, b"1")
            await other.sessions.release(id)
            taken = await store.sessions.take(id)
            assert taken in {TakenSession(b"1", 1), TakenSession(b"1", 2)}
            assert await store.sessions.keep(id, b"2")
            if number % 2:
                await store.sessions.forget(id)
            else:
                await store.sessions.release(id)
        assert await other.events.read("a", 0, 0, 100) == events
        assert await weight(redis) == sum(200 + len(data) for _, data in events)
        for number, _ in events:
            taken = await other.sessions.take(str(number))
            assert (taken is None) == bool(number % 2), number
        assert store.number != other.number
        assert await other.sessions.keep("mine", b"")
        assert await store.sessions.take("mine") == other.number


async def test_no_doubt_is_lost(redis: Redis) -> None:
    """Neither with the answer that has it, nor with the task that waits for that."""
    async with losing_answers(redis, 5) as url, RedisStore(url).open() as one, joined(redis) as other:
        for number in range(60):
            store = (one, other)[number % 2]
            doubts: list[int] = []
            store.on_doubt = partial(doubts.append, number)
            await redis.ask("FLUSHALL")
            with trio.move_on_after(number * 0.0001 if store is other else 10):
                await store.announce("here")
            await store.announce("there")
            assert doubts
            doubts.clear()
            await store.announce("everywhere")
            assert not doubts


@pytest.mark.parametrize("how", ["flushed", "started again"])
async def test_a_redis_that_was_emptied_is_filled_again(redis: Redis, how: str) -> None:
    """Each process keeps its sessions again. How often they were taken is not forgotten."""
    async with joined(redis, lease=4) as one, joined(redis, lease=4) as other:
        await one.announce("one")
        await other.sessions.keep("taken", b"")
        await one.gone(other.number)
        assert await one.sessions.take("taken") == TakenSession(b"", 1)
        answers = doubts_of(one, taken=b"1", new=b"2")
        if how == "flushed":
            await redis.ask("FLUSHALL")
        else:
            redis.kill()
            redis.start()

        async def is_known() -> bool:
            return len(answers) == 2

        await until(is_known)
        assert answers == [True, True]
        assert await other.others() == {one.number: "one"}
        assert await other.sessions.find("new") == b"2"
        await one.sessions.release("taken")
        assert await other.sessions.take("taken") == TakenSession(b"1", 2)
        await other.events.append("new", 0, [(1, b"x")])
        assert await one.events.read("new", 0, 0, 1) == [(1, b"x")]
        async with joined(redis) as third:
            assert third.secret == one.secret == other.secret
            assert third.number not in {one.number, other.number}


async def test_a_redis_that_was_started_again_with_what_it_had_may_have_lost_the_last(redis: Redis) -> None:
    """So each process looks again, though its lease is still there."""
    async with joined(redis) as store:
        await store.sessions.keep("a", b"1")
        await redis.ask("SAVE")
        await store.sessions.keep("b", b"1")
        answers = doubts_of(store, a=b"2", b=b"2")
        redis.kill()
        redis.start()

        async def is_known() -> bool:
            return len(answers) == 2

        await until(is_known)
        assert answers == [True, True]
        assert await store.sessions.find("b") == b"2"


async def test_a_redis_that_is_full_says_so(redis: Redis) -> None:
    async with joined(redis) as store:
        await store.sessions.keep("a", b"")
        await redis.ask("CONFIG", "SET", "maxmemory", "1")
        for work in (
            partial(store.sessions.keep, "b", b""),
            partial(store.events.append, "a", 0, [(1, b"x")]),
        ):
            with pytest.raises(RequestError, match="Redis cannot be used now") as caught:
                await work()
            assert caught.value.code == SERVER_BUSY
        await redis.ask("CLIENT", "KILL", "TYPE", "normal")
        assert await store.sessions.find("a") == b""
        await store.sessions.forget("a")
        assert await store.sessions.find("a") is None
        await redis.ask("CONFIG", "SET", "maxmemory", "0")
        assert await store.sessions.keep("b", b"")
        assert await weight(redis) == 0


async def test_what_is_cancelled_leaves_nothing_behind(redis: Redis) -> None:
    """At whatever moment; the connection is the same, and a session that nobody knows of is let go."""
    async with joined(redis, lease=2) as store, joined(redis) as other:
        for number in range(60):
            id = str(number)
            await other.sessions.keep(f"their {id}", b"")
            await other.sessions.release(f"their {id}")
            is_kept = is_taken = False
            with trio.move_on_after(number * 0.00002):
                is_kept = await store.sessions.keep(id, b"")
                is_taken = isinstance(await store.sessions.take(f"their {id}"), TakenSession)
                await store.events.append(id, 0, [(1, b"x")])
            if is_kept:
                await store.sessions.forget(id)
            if is_taken:
                await store.sessions.release(f"their {id}")
            await store.events.forget(id)
        assert await weight(redis) == 0

        async def is_settled() -> bool:
            return f"sessions:{store.number}" not in await keys(redis)

        await until(is_settled)
        for number in range(60):
            assert isinstance(await other.sessions.take(f"their {number}"), TakenSession)
        clients = (await redis.ask("CLIENT", "LIST")).decode()
        assert clients.count("id=") == 5, "two of each process, and the one that asks"


async def test_leaving_is_bounded_while_redis_does_not_answer(redis: Redis) -> None:
    async with joined(redis):
        redis.stop()
        begin = trio.current_time()
    assert 1 < trio.current_time() - begin < 12
    redis.go_on()


# Where it is.


async def test_where_a_process_is_reached_redis_shows() -> None:
    port = free_port()
    with running_redis("--port", str(port)) as redis:
        async with RedisStore(f"redis://127.0.0.1:{port}").open() as store, joined(redis) as other:
            assert store.host == "127.0.0.1"
            assert other.host == "127.0.0.1", "over a Unix socket all are on one machine"


async def test_a_password_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "s3cr%3Aet"
    with running_redis("--requirepass", "s3cr:et") as redis:
        place = RedisStore(f"unix://:{secret}@{redis.folder}/s", seconds=0.5)
        async with place.open() as store:
            texts = [repr(place), str(vars(place)), repr(store), str(vars(store))]
            redis.stop()
            with pytest.raises(RequestError) as late:
                await store.sessions.find("a")
            redis.go_on()
        with pytest.raises(ConnectionError, match=f"{redis.folder}/s cannot be used") as refused:
            async with RedisStore(f"unix://:wrong{secret}@{redis.folder}/s").open():
                raise AssertionError
    with pytest.raises(ValueError, match=r"^url: it ") as wrong:
        RedisStore(f"http://:{secret}@host")
    texts += [str(late.value), str(refused.value), str(wrong.value), caplog.text]
    assert not [text for text in texts if secret in text or "s3cr:et" in text]


async def test_where_nothing_listens_opening_fails_at_once() -> None:
    pytest.importorskip("coredis")
    with trio.fail_after(4), pytest.raises(ConnectionError, match="cannot be used"):
        async with RedisStore(f"redis://127.0.0.1:{free_port()}").open():
            raise AssertionError


@pytest.mark.parametrize(
    "name",
    ["max_sessions", "max_age", "max_session_events", "max_session_bytes", "max_bytes", "seconds", "lease"],
)
def test_bounds_are_more_than_nothing(name: str) -> None:
    bounds: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=name):
        RedisStore("redis://localhost", **bounds)
