"""The store of tasks in Redis, with a real one: its bounds, other processes, and a Redis that is away. Real time."""

from __future__ import annotations

import logging
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trustme
from inside_base import SERVER_BUSY
from inside_server import ADD
from redis_server import Redis, free_port, running_redis
from stored_tasks import done, task

from trio_mcp import Context, RequestError, Server, open_client
from trio_mcp import open_redis_task_store as open_store

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Redis and its sockets are those of Unix"),
]

SOUND = """
local tasks, bytes = 0, 0
for _, key in ipairs(redis.call('KEYS', 'trio-mcp:task:*')) do
  tasks = tasks + 1
  bytes = bytes + tonumber(redis.call('HGET', key, 'size'))
end
for _, key in ipairs(redis.call('KEYS', 'trio-mcp:messages:*')) do
  for _, data in ipairs(redis.call('HVALS', key)) do bytes = bytes + #data + 200 end
end
local counted = redis.call('HMGET', 'trio-mcp:totals', 'tasks', 'bytes')
return (counted[1] or '0') .. ' ' .. (counted[2] or '0') .. ' ' .. tasks .. ' ' .. bytes
"""
"""What is counted, and what is there."""


@pytest.fixture
def redis() -> Generator[Redis]:
    with running_redis() as running:
        yield running


async def totals(redis: Redis) -> tuple[int, int]:
    """Return what is counted, after a look that it is what is there."""
    counted_tasks, counted_bytes, tasks, size = (await redis.ask("EVAL", SOUND, "0")).split(b"\r\n")[1].split()
    assert (counted_tasks, counted_bytes) == (tasks, size)
    return int(tasks), int(size)


async def keys(redis: Redis) -> set[str]:
    words = (await redis.ask("KEYS", "*")).decode().split("\r\n")
    return {word.removeprefix("trio-mcp:") for word in words if word.startswith("trio-mcp:")}


# Bounds.


async def test_redis_is_bounded_in_tasks_and_bytes(redis: Redis) -> None:
    """With questions, results and messages; but a small end has room always."""
    bounds: dict[str, Any] = {"max_tasks": 2, "max_bytes": 10_000}
    async with open_store(redis.url, **bounds) as store, open_store(redis.url, **bounds) as other:
        one = task("a")
        await store.add(one)
        await store.add(task("b"))
        with pytest.raises(RequestError, match=r"Redis has 2 \(max_tasks is 2\)") as caught:
            await store.add(task("c"))
        assert caught.value.code == SERVER_BUSY
        await store.remove("b")
        for refused in (
            partial(store.replace, done(one, 20_000)),
            partial(store.add, task("b", call={"name": "t", "params": "x" * 20_000})),
            partial(other.send, "a", {"answers": "x" * 20_000}),
        ):
            with pytest.raises(RequestError, match="max_bytes is 10000"):
                await refused()
        assert await store.find("a") == one
        await other.send("a", {"answers": "x" * 9_000})
        failed = attrs.evolve(one, status="failed", error={"code": 1, "message": "m" * 2_000})
        await store.replace(failed)
        assert await other.find("a") == failed
        assert (await totals(redis))[0] == 1
        assert "messages:a" not in await keys(redis)


async def test_only_so_many_messages_wait_for_a_task(redis: Redis) -> None:
    async with open_store(redis.url) as store, open_store(redis.url) as other:
        await store.add(task("a"))
        for number in range(100):
            await other.send("a", {"answers": {"1": number}})
            await other.send("a", {"answers": {"1": number}})  # what is there already is not kept again
        with pytest.raises(RequestError, match="100 messages wait for the task already"):
            await other.send("a", {"cancel": True})
        messages = await store.receive()
        assert [message.content["answers"]["1"] for message in messages] == list(range(100))
        await store.done([message.number for message in messages])
        assert (await totals(redis))[0] == 1
        await other.send("a", {"cancel": True})
        await store.remove("a")
        assert await store.receive() == []
        assert await totals(redis) == (0, 0)


async def test_what_has_expired_is_removed(redis: Redis) -> None:
    """By wall time; a task without a time of its own has `max_age`. Nothing is left when all have."""
    old = {"created_at": time.time() - 1_000, "updated_at": time.time() - 1_000}
    async with open_store(redis.url, max_age=900) as store:
        await store.add(task("asked", **old))
        await store.add(task("kept", ttl=None, **old))
        await store.add(task("over", ttl=None, **old))
        await store.replace(done(task("over", ttl=None, **old)))
        assert await store.versions(["asked", "over"]) == {}
        assert await store.find("asked") is None
        assert await store.find("kept") is not None
        await store.add(task("left", call={"name": "t"}, **old))
        await store.add(task("new"))
        for id in ("kept", "new", "left"):
            await store.remove(id)
    assert await keys(redis) == {"totals"}
    assert await totals(redis) == (0, 0)


async def test_servers_with_other_prefixes_know_nothing_of_each_other(redis: Redis) -> None:
    async with open_store(redis.url) as store, open_store(redis.url, prefix="b", max_tasks=1) as other:
        await store.add(task("a"))
        assert await other.find("a") is None
        await other.add(task("a", owner="ada"))
        assert (await store.find("a") or task("?")).owner is None


# Who lives.

PROCESS = """
import sys, trio, trio_mcp, time, itertools, attrs
URL, ID, KIND = sys.argv[1:]
async def live(store, name):
    for number in itertools.count():
        now = time.time()
        one = trio_mcp.StoredTask(
            id=f"{ID} {name} {number}", owner=None, created_at=now, updated_at=now, ttl=60, poll=1,
            call={"name": "pack"} if name else None,
        )
        await store.add(one)
        await store.send(one.id, {"answers": {"1": "x" * 500}})
        await store.replace(attrs.evolve(one, status="completed", result={"text": "x" * 2_000}))
        if number % 3:
            with trio.move_on_after(0.0005):
                await store.remove(one.id)
        if number == 3 and name == 0:
            print("ready", flush=True)
async def hold(store):
    now = time.time()
    one = trio_mcp.StoredTask(id=ID, owner=None, created_at=now, updated_at=now, ttl=60, poll=1)
    await store.add(one)
    before = time.monotonic()
    print("ready", flush=True)
    while time.monotonic() - before < 0.5:  # it is stopped here, and goes on much later
        before = time.monotonic()
        await trio.sleep(0.02)
    print([message.content for message in await store.receive()], flush=True)
    await store.replace(attrs.evolve(one, status="completed", result={}))
    await store.add(attrs.evolve(one, id=ID + " again"))
    print("added", flush=True)
    await trio.sleep_forever()
async def main():
    async with trio_mcp.open_redis_task_store(URL, lease=1) as store, trio.open_nursery() as nursery:
        if KIND == "hold":
            await hold(store)
        for name in range(3):
            nursery.start_soon(live, store, name)
trio.run(main)
"""


@asynccontextmanager
async def process(redis: Redis, id: str, kind: str = "hold") -> AsyncGenerator[subprocess.Popen[bytes]]:
    """Run a process that has a task, or makes many."""
    words = [sys.executable, "-c", PROCESS, redis.url, id, kind]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as running:
        try:
            assert await line(running) == "ready"
            yield running
        finally:
            running.kill()


async def line(running: subprocess.Popen[bytes]) -> str:
    assert running.stdout is not None
    return (await trio.to_thread.run_sync(running.stdout.readline)).decode().strip()


async def status(store: Any, id: str, *, other_than: str = "") -> str:
    """Return the status of a task, once it is another one."""
    with trio.fail_after(10):
        while True:
            found = await store.find(id)
            assert found is not None
            if found.status != other_than:
                return str(found.status)
            await trio.sleep(0.05)


async def test_a_process_that_was_killed_is_found_dead_after_its_lease(redis: Redis) -> None:
    async with process(redis, "theirs") as running, open_store(redis.url, lease=1) as store:
        await store.add(task("ours"))
        await trio.sleep(1.5)
        assert await status(store, "theirs") == "working", "it renews its lease"
        running.kill()
        assert await status(store, "theirs", other_than="working") == "failed"
        assert await status(store, "ours") == "working"
        with trio.fail_after(5):
            while "runner:" in str(await keys(redis) - {f"runner:{store._runner}"}):
                await trio.sleep(0.05)


async def test_a_process_that_was_away_for_too_long_changes_its_tasks_no_more(redis: Redis) -> None:
    """It learns that, and goes on with others."""
    async with open_store(redis.url, lease=1) as store, process(redis, "theirs") as running:
        running.send_signal(signal.SIGSTOP)
        assert await status(store, "theirs", other_than="working") == "failed"
        running.send_signal(signal.SIGCONT)
        assert await line(running) == "[{'lost': True}]"
        assert await line(running) == "added"
        assert await status(store, "theirs") == "failed", "it has changed what is not its own any more"
        assert await status(store, "theirs again") == "working"


async def test_what_a_former_connection_still_says_is_not_done(redis: Redis) -> None:
    """It may be on its way for as long as Redis was stopped."""
    async with open_store(redis.url) as store:
        await store.add(task("a"))
        one, former = store._row(task("b")), store._head()
        await store._link.request(store._greet)
        late = [*former, one[0], "", *one[1:], 10, 10_000]
        assert await store._link.request(lambda it: store._link.run_on(it, ADD, late)) == [b"fenced"]
        assert await store.find("b") is None


async def test_processes_that_are_killed_in_the_middle_leave_all_sound(redis: Redis) -> None:
    """At whatever moment: nothing is half there, and what is counted is what is there."""
    for number in range(3):
        async with process(redis, str(number), "live") as running:
            await trio.sleep(0.017 * number)
            running.kill()
        await totals(redis)
    await trio.sleep(1)
    async with open_store(redis.url) as store:
        for key in await keys(redis):
            kind, _, id = key.partition(":")
            if kind == "task":
                found = await store.find(id)
                assert found is not None
                assert found.status in {"completed", "failed"} or found.call is not None
        while await store.claim(["pack"]) is not None:
            pass
        await totals(redis)


async def test_the_handler_of_a_task_that_is_lost_is_cancelled(redis: Redis) -> None:
    """And clients are told what the others say, at once."""
    cancelled = trio.Event()
    async with open_store(redis.url) as store, open_store(redis.url) as other:
        server = Server("archive", task_store=store)

        @server.tool(task="required", poll=0.1)
        async def pack() -> None:
            try:
                await trio.sleep_forever()
            finally:
                cancelled.set()

        async with open_client(server) as client, client.start_task("pack") as handle:
            await redis.ask("DEL", f"trio-mcp:runner:{store._runner}")  # its lease is over
            id = handle.detach()
            assert id is not None
            assert (await other.find(id) or task("?")).status == "failed"
            with trio.fail_after(5):
                with pytest.raises(RequestError, match="the process that ran the task ended"):
                    await handle.result()
                await cancelled.wait()
        assert (await other.find(id) or task("?")).status == "failed"


async def test_a_task_is_answered_and_cancelled_through_another_server(redis: Redis) -> None:
    """Each as if it were all in one."""
    async with open_store(redis.url) as store, open_store(redis.url) as other:
        runs, serves = Server("archive", task_store=store), Server("archive", task_store=other)
        ended: list[str] = []

        async def pack(ctx: Context[Any]) -> str:
            try:
                return f"packed {(await ctx.elicit('Which?', str)).value}"
            finally:
                ended.append("pack")

        for server in (runs, serves):
            server.tool(task="required", poll=0.1)(pack)

        asked: list[str] = []

        def answer(question: Any) -> dict[str, Any]:
            asked.append(question.message)
            return {"value": "all"}

        async with runs.open() as one, serves.open() as another:
            async with open_client(one, on_elicit=answer) as client:
                ids: list[Any] = []
                for _ in range(2):
                    async with client.start_task("pack") as handle:
                        ids.append(handle.detach())
            async with open_client(another, on_elicit=answer) as client, client.resume_task(ids[0]) as handle:
                assert (await handle.result()).text == "packed all"
            async with open_client(another) as client, client.resume_task(ids[1]):
                pass  # leaving it cancels it
            with trio.fail_after(5):
                while len(ended) < 2:  # noqa: ASYNC110 - it is told through Redis
                    await trio.sleep(0.05)
            assert await status(store, ids[1], other_than="input_required") == "cancelled"
            assert asked == ["Which?"]


# A Redis that is away.


async def test_a_redis_that_stops_for_a_while_loses_nothing(redis: Redis) -> None:
    """Who waits goes on; all is done once, and all processes live."""
    async with open_store(redis.url, lease=5) as store, open_store(redis.url, lease=5) as other:
        tasks = [task(str(number)) for number in range(20)]
        for one in tasks:
            await store.add(one)
        redis.stop()
        async with trio.open_nursery() as nursery:
            for one in tasks:
                nursery.start_soon(store.replace, done(one))
                nursery.start_soon(store.add, task(f"{one.id} b"))
                nursery.start_soon(other.send, one.id, {"cancel": True})
            await trio.sleep(2)
            redis.go_on()
        for one in tasks:
            assert await other.find(one.id) == done(one)
            assert await status(other, f"{one.id} b") == "working"
        assert await totals(redis) == (40, (await totals(redis))[1])


async def test_a_redis_that_does_not_answer_gives_an_error_within_a_bound(redis: Redis) -> None:
    """A call that need not be a task has its result; and what was given up is not done later."""
    async with open_store(redis.url, seconds=0.5, lease=20) as store:
        server = Server("archive", task_store=store)

        @server.tool(task="optional")
        async def pack() -> str:
            return "packed"

        kept = task("kept")
        await store.add(kept)
        redis.stop()
        begin = trio.current_time()
        with pytest.raises(RequestError, match=r"Redis has not answered within 0\.5 s") as caught:
            await store.add(task("late"))
        assert caught.value.code == SERVER_BUSY
        assert trio.current_time() - begin < 1
        async with open_client(server, tasks="always") as client:
            assert (await client.call_tool("pack")).text == "packed"
        redis.go_on()
        with trio.fail_after(5):
            while True:
                try:
                    await store.replace(done(kept))
                    break
                except RequestError:
                    await trio.sleep(0.05)
        assert await store.find("kept") == done(kept)
        with trio.fail_after(5):
            while await totals(redis) != (1, (await totals(redis))[1]):
                await trio.sleep(0.05)
        assert await store.find("late") is None


async def test_a_redis_that_was_emptied_is_used_again(redis: Redis, caplog: pytest.LogCaptureFixture) -> None:
    """What was in it is gone; who ran it is told."""
    async with open_store(redis.url, lease=20) as store:
        await store.add(task("a"))
        redis.kill()
        redis.start()
        await store.add(task("b"))
        assert await store.find("a") is None
        assert await store.find("b") is not None
        assert [(message.id, message.content) for message in await store.receive()] == [("a", {"lost": True})]
        await store.replace(done(task("a")))
        assert await store.receive() == []
        assert await totals(redis) == (1, (await totals(redis))[1])
    assert "1 tasks that it was running are not its own any more" in caplog.text


async def test_leaving_is_bounded_while_redis_does_not_answer(redis: Redis) -> None:
    async with open_store(redis.url) as store:
        await store.add(task("a"))
        redis.stop()
        begin = trio.current_time()
    assert 1 < trio.current_time() - begin < 6
    redis.go_on()


async def test_what_is_cancelled_leaves_the_connection_usable(redis: Redis) -> None:
    """At whatever moment; it is the same connection, and nothing is left behind."""
    async with open_store(redis.url) as store:
        await store.find("?")
        for number in range(100):
            one = task(str(number), call={"name": "pack"})
            with trio.move_on_after(number * 0.00001):
                await store.add(one)
                await store.release(one)
                await store.claim(["pack"])
                await store.send(one.id, {"cancel": True})
                await store.receive()
            assert await store.find("?") is None
            await store.remove(one.id)
        with trio.fail_after(5):
            while await totals(redis) != (0, 0):
                await trio.sleep(0.02)
        clients = (await redis.ask("CLIENT", "LIST")).decode()
        assert clients.count("id=") == 2, "the store's, and the one that asks"


async def test_a_claim_of_which_nobody_knows_is_given_back(redis: Redis) -> None:
    async with open_store(redis.url, seconds=0.3) as store, open_store(redis.url) as other:
        one = task("a", call={"name": "pack"})
        await store.add(one)
        await store.release(one)
        redis.stop()
        with pytest.raises(RequestError):
            await store.claim(["pack"])
        redis.go_on()
        with trio.fail_after(5):
            while (got := await other.claim(["pack"])) is None:
                await trio.sleep(0.02)
        assert got.id == "a"


async def test_a_redis_that_is_full_says_so(redis: Redis) -> None:
    async with open_store(redis.url) as store:
        await store.add(task("a"))
        await redis.ask("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(RequestError, match="Redis cannot be used now") as caught:
            await store.add(task("b"))
        assert caught.value.code == SERVER_BUSY
        await redis.ask("CONFIG", "SET", "maxmemory", "0")
        await store.add(task("c"))
        assert (await totals(redis))[0] == 2


# Where it is.

SECRET = "s3cr%3Aet"
SECRETS = ("s3cr:et", SECRET)


async def test_a_password_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with running_redis("--requirepass", "s3cr:et") as redis:
        async with open_store(f"unix://:{SECRET}@{redis.folder}/s", seconds=0.5) as store:
            await store.add(task("a"))
            texts = [repr(store), str(vars(store)), repr(store._link._place), repr(store._link._connection)]
            redis.stop()
            with pytest.raises(RequestError) as late:
                await store.find("a")
            redis.go_on()
        with pytest.raises(ConnectionError) as refused:
            async with open_store(f"unix://:wrong{SECRET}@{redis.folder}/s"):
                raise AssertionError
        assert "cannot be used" in str(refused.value)
    for url in (f"redis://:{SECRET}@host:port", f"http://:{SECRET}@host", f"redis://:{SECRET}@host/x"):
        with pytest.raises(ValueError, match=r"^url: it ") as wrong:
            async with open_store(url):
                raise AssertionError
        texts.append(str(wrong.value))
    texts += [str(late.value), str(refused.value), caplog.text]
    assert not [text for text in texts if any(secret in text for secret in SECRETS)]


async def test_tls_is_verified(tmp_path: Path) -> None:
    authority, port = trustme.CA(), free_port()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "chain.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    words = ["--tls-port", str(port), "--tls-auth-clients", "no", "--tls-key-file", f"{tmp_path}/key.pem"]
    words += ["--tls-cert-file", f"{tmp_path}/chain.pem", "--tls-ca-cert-file", f"{tmp_path}/ca.pem"]
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]
    with running_redis(*words):
        async with open_store(f"rediss://localhost:{port}/2", ssl_context=context) as store:
            await store.add(task("a"))
            assert await store.find("a") is not None
        for url, trusted in ((f"rediss://localhost:{port}", None), (f"rediss://127.0.0.1:{port}", context)):
            with pytest.raises(ConnectionError, match="cannot be used"):
                async with open_store(url, ssl_context=trusted):
                    raise AssertionError


async def test_without_coredis_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coredis.connection", None)
    with pytest.raises(RuntimeError, match=r"pip install 'trio-mcp\[redis\]'"):
        async with open_store("redis://localhost"):
            raise AssertionError


async def test_where_nothing_listens_opening_fails_at_once() -> None:
    pytest.importorskip("coredis")
    with trio.fail_after(4), pytest.raises(ConnectionError, match="cannot be used"):
        async with open_store(f"redis://127.0.0.1:{free_port()}"):
            raise AssertionError


@pytest.mark.parametrize("name", ["max_tasks", "max_bytes", "max_age", "seconds", "lease"])
async def test_bounds_are_more_than_nothing(name: str) -> None:
    bounds: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=name):
        async with open_store("redis://localhost", **bounds):
            raise AssertionError
