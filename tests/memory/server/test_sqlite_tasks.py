"""The store of tasks in an SQLite file: its bounds, its rights, other processes, and files that cannot be used."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from inside_base import SERVER_BUSY, repetitions
from shared.server_sqlite_tasks import posix, rows, totals
from stored_tasks import done, task

from trio_mcp import (
    Context,
    RequestError,
    Revision,
    Server,
    SqliteTaskStore,
    open_client,
    types,
)
from trio_mcp import open_sqlite_task_store as open_store

MODERN = Revision.V2026_07_28
CAPABLE = types.ClientCapabilities(elicitation=types.ElicitationCapability(form={}, url={}))


# Bounds.


async def test_the_file_is_bounded_in_tasks(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with open_store(path, max_tasks=2) as store:
        await store.add(task("a"))
        await store.add(task("b"))
        with pytest.raises(RequestError, match=r"the file has 2 \(max_tasks is 2\)") as caught:
            await store.add(task("c"))
        assert caught.value.code == SERVER_BUSY
        assert rows(path) == ["a", "b"]
        await store.remove("a")
        await store.add(task("c"))
        assert rows(path) == ["b", "c"]
        assert totals(path)[0] == 2


async def test_the_file_is_bounded_in_bytes(tmp_path: Path) -> None:
    """With questions, results and messages; but a small end has room always."""
    path = tmp_path / "t"
    async with open_store(path, max_bytes=10_000) as store, open_store(path, max_bytes=10_000) as other:
        one = task("a")
        await store.add(one)
        with pytest.raises(RequestError, match="max_bytes is 10000"):
            await store.replace(done(one, 20_000))
        assert await store.find("a") == one
        with pytest.raises(RequestError, match="max_bytes is 10000"):
            await store.add(task("b", call={"name": "t", "params": "x" * 20_000}))
        with pytest.raises(RequestError, match="max_bytes is 10000"):
            await other.send("a", {"answers": "x" * 20_000})
        await other.send("a", {"answers": "x" * 9_000})
        failed = attrs.evolve(one, status="failed", error={"code": 1, "message": "m" * 2_000})
        await store.replace(failed)
        assert await other.find("a") == failed
        assert totals(path) == (1, totals(path)[1])
        assert rows(path, "SELECT count(*) FROM task_messages") == [0]


async def test_only_so_many_messages_wait_for_a_task(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with open_store(path) as store, open_store(path) as other:
        await store.add(task("a"))
        for number in range(100):
            await other.send("a", {"answers": {"1": number}})
            await other.send("a", {"answers": {"1": number}})  # what is there already is not kept again
        with pytest.raises(RequestError, match="100 messages wait for the task already") as caught:
            await other.send("a", {"cancel": True})
        assert caught.value.code == SERVER_BUSY
        messages = await store.receive()
        assert [message.content["answers"]["1"] for message in messages] == list(range(100))
        await store.done([message.number for message in messages])
        await other.send("a", {"cancel": True})
        assert len(await store.receive()) == 1
        totals(path)


async def test_what_has_expired_is_removed_by_whoever_looks(tmp_path: Path) -> None:
    """By wall time, for it is still there after a restart; a task without a time of its own has `max_age`."""
    path = tmp_path / "t"
    long_ago = task("x").created_at - 1_000
    old = {"created_at": long_ago, "updated_at": long_ago}
    async with open_store(path, max_age=900) as store:
        await store.add(task("asked", **old))
        await store.add(task("kept", ttl=None, **old))
        await store.add(task("over", ttl=None, **old))
        await store.replace(done(task("over", ttl=None, **old)))
        assert await store.find("asked") is None
        assert await store.find("over") is None
        assert await store.find("kept") is not None
        assert rows(path) == ["kept"]
        await store.add(task("old", **old))
        assert await store.versions(["old"]) == {}
        await store.add(task("new"))
        assert rows(path) == ["kept", "new"]
        await store.add(task("left", **old))
    async with open_store(path):
        assert "left" not in rows(path)
        totals(path)


@posix
async def test_the_files_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.touch(mode=0o666)
    path.chmod(0o666)
    async with open_store(path) as store:
        await store.add(task("a"))
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
        assert set(modes.values()) == {0o600}, modes
        assert len(modes) == 4, "the file, the two that SQLite keeps beside it, and the sign of life"
    assert [each.name for each in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("name", ["max_tasks", "max_bytes", "max_age"])
async def test_bounds_are_more_than_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        async with open_store(tmp_path / "t", **{name: 0}):
            raise AssertionError


async def test_a_store_in_memory_is_one(tmp_path: Path) -> None:
    async with open_store(":memory:") as store:
        await store.add(task("a"))
        assert await store.find("a") is not None
    assert list(tmp_path.iterdir()) == []


async def test_many_who_look_at_a_living_process_at_once_find_it_alive(tmp_path: Path) -> None:
    """Looking takes a lock for a moment: nobody is taken for dead, or for alive, because another one looks."""
    path = tmp_path / "t"
    async with open_store(path) as one:
        await one.add(task("a"))
        async with trio.open_nursery() as nursery:

            async def look() -> None:
                async with open_store(path) as store:
                    for _ in range(20):
                        assert (await store.find("a") or task("?")).status == "working"

            for _ in range(4):
                nursery.start_soon(look)
        assert (await one.find("a") or task("?")).status == "working"


async def test_a_server_opens_its_store_each_time_it_runs(tmp_path: Path) -> None:
    """Around its lifespan; and what cannot be opened fails the server."""
    path, said = tmp_path / "tasks.db", list[str]()

    @asynccontextmanager
    async def opened() -> AsyncGenerator[SqliteTaskStore]:
        async with open_store(path) as store:
            said.append("opened")
            yield store
        said.append("closed")

    @asynccontextmanager
    async def lifespan(_: Server[None]) -> AsyncGenerator[None]:
        said.append("begins")
        try:
            yield
        finally:
            said.append("ends")

    server = Server("x", task_store=opened, lifespan=lifespan)

    @server.tool(task="required", poll=0.1)
    async def work() -> str:
        return "done"

    async with open_client(server) as client, client.start_task("work") as one:
        assert (await one.result()).text == "done"
        id = one.detach()
        assert id is not None
    async with open_client(server) as client, client.resume_task(id) as one:
        assert (await one.result()).text == "done"
    assert said == ["opened", "begins", "ends", "closed"] * 2
    path.write_bytes(b"something else " * 1_000)
    with pytest.raises(sqlite3.DatabaseError):
        async with server.open():
            raise AssertionError


async def test_a_file_that_is_none_of_sqlite_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"something else " * 1_000)
    with pytest.raises(sqlite3.DatabaseError):
        async with open_store(path):
            raise AssertionError
    with pytest.raises(OSError, match="No such file"):
        async with open_store(tmp_path / "nowhere" / "t"):
            raise AssertionError
    assert [each.name for each in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("columns", ["id, foo", "id, runner, tool, version, expires, size, data, newer NOT NULL"])
async def test_a_file_with_other_tasks_is_refused_and_left(tmp_path: Path, columns: str) -> None:
    """It is not taken for one in which just no more can be kept."""
    path = tmp_path / "tasks.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE tasks ({columns})")
    with pytest.raises(sqlite3.DatabaseError, match=r"tasks\.db: its tasks are .* of another version"):
        async with open_store(path):
            raise AssertionError
    assert rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'") == ["tasks"]
    assert [each.name for each in tmp_path.iterdir() if "-runner-" in each.name] == []


async def test_a_file_that_breaks_gives_an_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with open_store(path) as store:
        await store.add(task("a"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("PRAGMA writable_schema = 1")
            other.execute("DELETE FROM sqlite_schema WHERE name = 'tasks'")
            other.execute("PRAGMA schema_version = 99")
        with pytest.raises(RequestError, match="the file of tasks cannot be used now: ") as caught:
            await store.find("a")
        assert caught.value.code == SERVER_BUSY
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        await store.find("a")


async def test_a_task_that_cannot_be_read_is_none(
    subtests: pytest.Subtests, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Others may have written it. It costs nobody else anything."""
    written: list[object] = [
        b"",
        b"[]",
        b"{",
        b'{"id": "a"}',
        b"\xff",
        None,
        7,
        b'{"id": "a", "status": 1}',
        b"9" * 5_000,
    ]
    for number, data in enumerate(written):
        with subtests.test(data=data):
            caplog.clear()
            repetitions.forget()
            path = tmp_path / str(number)
            async with open_store(path) as store:
                await store.add(task("a"))
                await store.add(task("b"))
                with closing(sqlite3.connect(path)) as other, other:
                    other.execute("UPDATE tasks SET data = ? WHERE id = 'a'", (b"" if data is None else data,))
                assert await store.find("a") is None
                assert "cannot be read: a" in caplog.text
                assert await store.find("b") is not None
            async with open_store(path) as store:
                found = await store.find("b")
                assert found is not None
                assert found.status == "failed"
                assert rows(path) == ["b"]


# Under a server.


def make_server(store: SqliteTaskStore, **options: Any) -> Server[Any]:
    server: Server[Any] = Server("files", task_store=store, **options)

    @server.tool(task="optional", poll=0.1)
    async def large(size: int) -> str:
        return "x" * size

    @server.tool(task="required", poll=0.1)
    async def ask(ctx: Context[Any]) -> str:
        return str((await ctx.elicit("Which?", str)).value)

    return server


async def test_a_call_that_cannot_be_stored_is_answered_without_a_task_or_refused(tmp_path: Path) -> None:
    async with open_store(tmp_path / "t", max_tasks=1) as store:
        await store.add(task("a"))
        async with open_client(
            make_server(store), revision=MODERN, tasks="always", capabilities=CAPABLE
        ) as client:
            assert (await client.call_tool("large", {"size": 3})).text == "xxx"
            with pytest.raises(RequestError, match="no more tasks can be kept: the file has 1") as caught:
                await client.call_tool("ask")
            assert caught.value.code == SERVER_BUSY


async def test_a_result_that_finds_no_room_is_kept_in_memory_until_it_does(tmp_path: Path) -> None:
    """It is tried again, so that other processes see it, too, once there is room."""
    path = tmp_path / "t"
    async with open_store(path, max_bytes=20_000) as store:
        filler = task("filler")
        await store.add(filler)
        await store.replace(done(filler, 15_000))
        async with open_client(make_server(store), revision=MODERN, tasks="always") as client:
            assert (await client.call_tool("large", {"size": 10_000})).text == "x" * 10_000
            assert len(rows(path, "SELECT id FROM tasks WHERE runner IS NOT NULL")) == 1
            await store.remove("filler")
            with trio.fail_after(5):
                while rows(path, "SELECT id FROM tasks WHERE runner IS NOT NULL"):
                    await trio.sleep(0.05)
            [id] = rows(path)
            found = await store.find(id)
            assert found is not None
            assert found.status == "completed"


async def test_nobody_looks_while_nothing_runs(tmp_path: Path) -> None:
    looks: list[str] = []

    def counted(name: str) -> Any:
        def call(self: Any, *arguments: Any) -> Any:
            looks.append(name)
            return getattr(self.store, name)(*arguments)

        return call

    names = ("add", "find", "replace", "remove", "send", "receive", "done", "versions", "claim", "release")
    async with open_store(tmp_path / "t") as store:
        counting: Any = type("Counting", (), {"store": store, **{name: counted(name) for name in names}})
        server = make_server(counting())
        async with open_client(server, revision=MODERN, tasks="always", capabilities=CAPABLE) as client:
            looks.clear()
            await trio.sleep(0.5)
            assert looks == []
            id = (await client.request("tools/call", {"name": "ask", "arguments": {}}))["taskId"]
            with trio.fail_after(60):
                while "receive" not in looks:
                    await trio.sleep(0.05)
            await client.request("tasks/cancel", {"taskId": id})
            with trio.fail_after(60):
                while looks:
                    looks.clear()
                    await trio.sleep(0.5)
