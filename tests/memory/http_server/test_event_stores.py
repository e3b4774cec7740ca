"""Where events are kept: in order, within bounds, and gone with their session."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import trio
from http_raw import Events, open_raw
from raw import initialize

from trio_mcp import Context, EventStore, MemoryEventStore, Server, open_sqlite_event_store


@asynccontextmanager
async def open_store(kind: str, path: Path, max_session_events: int = 1_000) -> AsyncGenerator[EventStore]:
    if kind == "memory":
        await trio.lowlevel.checkpoint()
        yield MemoryEventStore(max_session_events=max_session_events)
    else:
        async with open_sqlite_event_store(path / "events.db", max_session_events=max_session_events) as store:
            yield store


both = pytest.mark.parametrize("kind", ["memory", "sqlite"])


@both
async def test_events_come_back_in_order(kind: str, tmp_path: Path) -> None:
    """Of their own session and stream alone, and no more than was asked for."""
    async with open_store(kind, tmp_path) as store:
        await store.append("s", 1, [(1, b"a"), (2, b"b")])
        await store.append("s", 2, [(1, b"other stream")])
        await store.append("t", 1, [(1, b"other session")])
        await store.append("s", 1, [(3, b"c")])
        assert await store.read("s", 1, 0, 10) == [(1, b"a"), (2, b"b"), (3, b"c")]
        assert await store.read("s", 1, 1, 1) == [(2, b"b")]
        assert list(await store.read("s", 1, 3, 10)) == []
        assert list(await store.read("u", 1, 0, 10)) == []
        await store.forget("s")
        await store.forget("u")
        assert list(await store.read("s", 1, 0, 10)) == []
        assert await store.read("t", 1, 0, 10) == [(1, b"other session")]


async def test_what_others_have_written_is_no_event_and_ends_nothing(tmp_path: Path) -> None:
    """A column of SQLite holds anything: a number between two others would be found again and again."""
    async with open_store("sqlite", tmp_path, 2) as store:
        await store.append("s", 1, [(1, b"a")])
        with closing(sqlite3.connect(tmp_path / "events.db")) as database, database:
            for number, data in ((1.5, b"x"), ("1_0", b"x"), (2, "x"), (3, 1 << 40), (1, b"twice")):
                database.execute(
                    "INSERT INTO events (session, stream, number, data, at) VALUES ('s', 1, ?, ?, 9e9)",
                    (number, data),
                )
        assert [number for number, _ in await store.read("s", 1, 0, 10)] == [1]
        assert list(await store.read("s", 1, 1, 10)) == []


async def test_a_file_with_a_table_of_another_kind_is_kept_within_bounds(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "events.db")) as database, database:
        database.execute(
            "CREATE TABLE events (position INTEGER PRIMARY KEY, session, stream, number, data, at REAL DEFAULT 9e9)"
        )
        database.execute("INSERT INTO events (session, stream, number, data) VALUES ('s', 1, 1, NULL)")
    async with open_store("sqlite", tmp_path, 2) as store:
        await store.append("s", 1, [(2, b"a"), (3, b"b"), (4, b"c")])
        await store.append("s", 1, [(5, b"d")])
        assert (await store.read("s", 1, 0, 10))[-2:] == [(4, b"c"), (5, b"d")]


@both
async def test_the_oldest_events_of_a_session_go_first(kind: str, tmp_path: Path) -> None:
    """A session that nobody fetches from cannot fill anything."""
    async with open_store(kind, tmp_path, 3) as store:
        await store.append("t", 1, [(1, b"t")])
        for number in range(1, 6):
            await store.append("s", 1, [(number, b"s")])
        assert [number for number, _ in await store.read("s", 1, 0, 10)] == [3, 4, 5]
        assert [number for number, _ in await store.read("t", 1, 0, 10)] == [1]


@both
async def test_stores_checkpoint(kind: str, tmp_path: Path) -> None:
    """As every public function."""
    async with open_store(kind, tmp_path) as store:
        for work in (
            lambda: store.append("s", 1, [(1, b"a")]),
            lambda: store.read("s", 1, 0, 1),
            lambda: store.read("none", 1, 0, 1),
            lambda: store.forget("none"),
        ):
            with trio.CancelScope() as scope:
                scope.cancel()
                await work()
            assert scope.cancelled_caught


async def test_memory_is_bounded_over_all_sessions() -> None:
    """Nobody has more than is left to others: who says more loses its own oldest events, and nobody else any."""
    each = 200  # what an event counts beside its message
    store = MemoryEventStore(max_bytes=100_000, max_session_bytes=60_000)
    await store.append("old", 1, [(1, b"x" * 45_000)])
    await store.append("new", 1, [(1, b"x" * 20_000), (2, b"x" * 20_000)])
    assert store.size == 85_000 + 3 * each
    await store.append("new", 1, [(3, b"x" * 20_000)])
    assert [number for number, _ in await store.read("new", 1, 0, 9)] == [2, 3]
    await store.append("newer", 1, [(1, b"x" * 20_000)])
    assert (list(await store.read("newer", 1, 0, 9)), store.size) == ([], 85_000 + 3 * each)
    await store.append("newer", 1, [(2, b"x" * 5_000)])
    assert [number for number, _ in await store.read("newer", 1, 0, 9)] == [2]
    await store.append("huge", 1, [(1, b"x" * 200_000)])
    assert (list(await store.read("huge", 1, 0, 9)), store.size) == ([], 90_000 + 4 * each)
    assert [number for number, _ in await store.read("old", 1, 0, 9)] == [1]


async def test_a_session_whose_events_take_all_of_the_memory_loses_its_oldest() -> None:
    """Not all of them: as many stay as there may be of one client, whose only session it is."""
    store = MemoryEventStore(max_bytes=20_000)
    for number in range(1, 28):
        await store.append("one", 1, [(number, b"x" * 1_800)])
    assert [number for number, _ in await store.read("one", 1, 0, 99)] == [23, 24, 25, 26, 27]


async def test_a_file_begins_empty(tmp_path: Path) -> None:
    """What it holds belongs to sessions that are gone."""
    async with open_store("sqlite", tmp_path) as store:
        await store.append("s", 1, [(1, b"a")])
    async with open_store("sqlite", tmp_path) as store:
        assert list(await store.read("s", 1, 0, 1)) == []


@pytest.mark.parametrize("option", ["max_bytes", "max_session_bytes", "max_session_events"])
async def test_bounds_are_checked(option: str, tmp_path: Path) -> None:
    """The message names the option."""
    with pytest.raises(ValueError, match=option):
        MemoryEventStore(**{option: 0})
    with pytest.raises(ValueError, match="max_session_events"):
        async with open_sqlite_event_store(tmp_path / "x", max_session_events=0):
            pass


@pytest.mark.spec("basic/transports", "Resumability and Redelivery")
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
@both
async def test_a_broken_stream_is_taken_up_again(kind: str, revision: str, tmp_path: Path) -> None:
    """With either store, while the handler goes on and after it is done."""
    server = Server("s")
    go = trio.Event()

    @server.tool
    async def steps(ctx: Context) -> str:
        async with ctx.progress() as progress:
            await progress.advance()
            await go.wait()
            await progress.advance()
        return "done"

    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": "steps", "_meta": {"progressToken": 1}}
    with trio.fail_after(20):
        async with open_store(kind, tmp_path) as store, open_raw(server, event_store=store) as raw:
            id = (await raw.send(initialize(revision))).headers["mcp-session-id"]
            session = {"Mcp-Session-Id": id, "MCP-Protocol-Version": revision}
            async with raw.open({**message, "params": params}, session) as response:
                first = await Events(response).next()
            assert first is not None
            ids = ["2-0", "2-1", "2-2", "2-3"]
            assert first.last_event_id == ids[0 if revision == "2025-11-25" else 1]  # who knows priming events
            go.set()
            headers = {**session, "Accept": "text/event-stream", "Last-Event-ID": first.last_event_id}
            for _ in range(2):
                answer = await raw.send(None, headers, method="GET")
                assert [one.last_event_id for one in answer.events] == ids[ids.index(first.last_event_id) + 1 :]
                assert answer.message["result"]["content"][0]["text"] == "done"
            await raw.send(None, session, method="DELETE")
        assert list(await store.read(id, 2, 0, 9)) == [] if kind == "memory" else True


class BrokenStore:
    """A store that has lost its disk."""

    async def append(self, session: str, stream: int, events: object) -> None:
        raise OSError("no space")

    async def read(self, session: str, stream: int, after: int, limit: int) -> list[tuple[int, bytes]]:
        raise OSError("no space")

    async def forget(self, session: str) -> None:
        raise OSError("no space")


async def test_a_store_that_fails_costs_only_what_it_holds(caplog: pytest.LogCaptureFixture) -> None:
    """The connection that is there still gets everything; the failure is in the log and nowhere else."""
    server = Server("s")

    @server.tool
    async def steps(ctx: Context) -> str:
        async with ctx.progress() as progress:
            for _ in range(3):
                await progress.advance()
                await trio.testing.wait_all_tasks_blocked()
        return "done"

    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": "steps", "_meta": {"progressToken": 1}}
    async with open_raw(server, event_store=BrokenStore()) as raw:
        session = {"Mcp-Session-Id": (await raw.send(initialize("2025-11-25"))).headers["mcp-session-id"]}
        answer = await raw.send({**message, "params": params}, session)
        assert [m.get("method") for m in answer.messages] == ["notifications/progress"] * 3 + [None]
        headers = {**session, "Accept": "text/event-stream", "Last-Event-ID": "2-1"}
        again = await raw.send(None, headers, method="GET")
        assert again.status == 500
        assert b"no space" not in again.body
    assert "no space" in caplog.text
