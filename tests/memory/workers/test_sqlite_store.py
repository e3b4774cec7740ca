"""What processes share in an SQLite file: its bounds, its rights, and files that cannot be used."""

from __future__ import annotations

import sqlite3
import stat
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from inside_base import SERVER_BUSY
from inside_endpoint import SharedStore, TakenSession
from shared.server_sqlite_tasks import posix, rows
from store_tests import SharedStoreTests

from trio_mcp import RequestError, SqliteStore


def seem_gone(path: Path, store: SharedStore) -> None:
    """Have a process look as if it were gone: what it keeps locked is not there."""
    Path(f"{path}-process-{store.number}").unlink(missing_ok=True)


class TestSqlite(SharedStoreTests):
    path: Path

    def seem_gone(self, store: SharedStore) -> None:
        seem_gone(self.path, store)

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "orders.db"

    @asynccontextmanager
    async def open_store(self) -> AsyncGenerator[SharedStore]:
        async with SqliteStore(self.path).open() as store:
            yield store


def sessions_in(path: Path) -> list[Any]:
    """Return the ids of the sessions, after a look that they are counted."""
    ids = rows(path, "SELECT id FROM sessions ORDER BY id")
    assert rows(path, "SELECT sessions FROM shared") == [len(ids)]
    return ids


# Bounds.


async def test_sessions_are_bounded(tmp_path: Path) -> None:
    """Those of processes that are gone make room, the longest gone first; those of living ones never do."""
    path = tmp_path / "s"
    joining = SqliteStore(path, max_sessions=5)
    async with joining.open() as store:
        for number in range(2):
            async with joining.open() as other:
                for each in "ab":
                    await other.sessions.keep(f"gone {number}{each}", b"1")
                    await other.events.append(f"gone {number}{each}", 1, [(1, b"x")])
        await store.sessions.keep("mine 0", b"1")
        for number, left in enumerate((["0b", "1a", "1b"], ["1a", "1b"], ["1b"], []), 1):
            await store.sessions.keep(f"mine {number}", b"1")
            mine = [f"mine {each}" for each in range(number + 1)]
            assert sessions_in(path) == [*(f"gone {each}" for each in left), *mine]
            assert rows(path, "SELECT session FROM events ORDER BY session") == [f"gone {each}" for each in left]
        with pytest.raises(RequestError, match=r"the file has 5 \(max_sessions is 5\)") as caught:
            await store.sessions.keep("one more", b"1")
        assert caught.value.code == SERVER_BUSY
        assert await store.sessions.keep("mine 0", b"2"), "what is there already is kept"
        assert len(sessions_in(path)) == 5
        await store.sessions.forget("mine 0")
        assert await store.sessions.keep("one more", b"1")
        await store.sessions.release("mine 3")
        assert await store.sessions.keep("yet another", b"1"), "nobody serves what was released"
        assert sessions_in(path) == ["mine 1", "mine 2", "mine 4", "one more", "yet another"]
        assert rows(path, "SELECT number FROM processes") == [store.number], "nor is kept who had what"


async def test_what_the_dead_have_left_is_removed(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    """When it is too old, by whoever has a new session; and then the processes that had it."""
    path = tmp_path / "s"
    joining = SqliteStore(path, max_age=100)

    def numbers() -> list[Any]:
        return rows(path, "SELECT number FROM processes ORDER BY number")

    async with joining.open() as store, joining.open() as alive, joining.open() as idle:
        await alive.announce("alive")
        await idle.announce("idle")
        async with joining.open() as killed:
            await killed.announce("killed")
            await killed.sessions.keep("dead", b"1")
            await killed.events.append("dead", 1, [(1, b"x")])
            seem_gone(path, killed)
            assert await store.gone(killed.number)
        await alive.sessions.keep("living", b"1")
        await alive.sessions.keep("released", b"1")
        await alive.sessions.keep("taken", b"1")
        for id in ("released", "taken"):
            await alive.sessions.release(id)
        mock_clock.jump(99)
        await store.sessions.keep("a", b"1")
        assert isinstance(await alive.sessions.take("taken"), TakenSession)
        assert sessions_in(path) == ["a", "dead", "living", "released", "taken"]
        mock_clock.jump(11)
        await store.sessions.keep("b", b"1")
        assert sessions_in(path) == ["a", "b", "living", "taken"]
        assert rows(path, "SELECT session FROM events") == []
        assert numbers() == [store.number, alive.number, idle.number]
        # One that has not said where it is, and has nothing, is not waited for; but it may still come.
        async with joining.open() as late:
            mock_clock.jump(101)
            await store.sessions.keep("c", b"1")
            assert numbers() == [store.number, alive.number, idle.number]
            async with joining.open() as later:
                assert later.number == late.number + 1, "its number is its own"
            assert await late.sessions.keep("d", b"1")
            assert await store.sessions.take("d") == late.number
            await late.announce("late")
            assert (await store.others())[late.number] == "late"


async def test_the_events_of_the_living_are_kept_for_as_long_as_those_of_the_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has not fetched them by then; or a client that never comes back would fill the file."""
    joining = SqliteStore(tmp_path / "s", max_age=100)
    async with joining.open() as store, joining.open() as other:
        await store.sessions.keep("s", b"1")
        await store.events.append("s", 1, [(1, b"x")])
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 101)
        await other.events.append("t", 1, [(1, b"x")])
        await store.events.append("s", 1, [(2, b"x")])
        assert list(await other.events.read("s", 1, 0, 9)) == [(2, b"x")]
        assert await other.sessions.find("s") == b"1"


async def test_what_another_process_found_too_old_counts_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a session that lives for long would lose events for want of room that there is."""
    joining, most = SqliteStore(tmp_path / "s", max_age=100), 10_000
    async with joining.open() as store, joining.open() as other:
        await store.events.append("s", 1, [(number, b"") for number in range(most)])
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 101)
        await other.events.append("t", 1, [(1, b"x")])
        for number in range(most, most + 20):
            await store.events.append("s", 1, [(number, b"")])
        kept = [number for number, _ in await store.events.read("s", 1, 0, 99)]
        assert kept == list(range(most + 1, most + 20)), "all but one, before it looked"


async def test_events_count_for_the_process_that_has_their_session(tmp_path: Path) -> None:
    """Not for one that has released it, or lost it: that would have no room for others any more."""
    joining = SqliteStore(tmp_path / "s")
    async with joining.open() as store, joining.open() as other:
        counted: Any = store.events
        for id in ("released", "lost"):
            await store.sessions.keep(id, b"1")
            await store.events.append(id, 1, [(1, b"x" * 800)])
        assert counted._shares.size == 2_000
        await store.sessions.release("released")
        assert counted._shares.size == 1_000
        assert not await other.gone(store.number), "it lives"
        seem_gone(tmp_path / "s", store)
        assert await other.gone(store.number)
        await other.sessions.take("lost")
        assert await store.sessions.keep("lost", b"2") is False
        assert counted._shares.size == 0
        assert await other.events.read("lost", 1, 0, 9) == [(1, b"x" * 800)]


@pytest.mark.parametrize(
    ("options", "problem"), [({"max_sessions": 0}, "max_sessions"), ({"max_age": 0}, "max_age")]
)
def test_bounds_are_more_than_nothing(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        SqliteStore("s", **options)


# Files.


@posix
async def test_the_files_are_their_owners_alone(tmp_path: Path) -> None:
    """They have a secret in them."""
    path = tmp_path / "s"
    path.touch(mode=0o666)
    path.chmod(0o666)
    async with SqliteStore(path).open() as store:
        await store.sessions.keep("s", b"1")
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
        assert set(modes.values()) == {0o600}, modes
        assert len(modes) == 5, "the file, the two that SQLite keeps beside it, and two signs of life"
    assert [each.name for each in tmp_path.iterdir()] == ["s"]


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_what_nobody_can_share_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="a store that processes share is a file"):
        SqliteStore(path)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("", "not a database"),
        ("sessions (id, user)", "its table sessions is of another program"),
        ("processes (pid)", "its table processes is of another program"),
        ("shared (secret)", "its table shared is of another program"),
        ("events (id)", "no such column"),
        ("tasks (id)", "its tasks are of another program"),
    ],
)
async def test_a_file_of_others_is_refused(tmp_path: Path, table: str, problem: str) -> None:
    """The error says which it is."""
    path = tmp_path / "theirs"
    if table:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(f"CREATE TABLE {table}")
    else:
        path.write_bytes(b"something else" * 1_000)
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(sqlite3.DatabaseError, match=problem) as caught:
        async with SqliteStore(path).open():
            raise AssertionError
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).count(str(path)) == 1
    if not table:
        assert stat.S_IMODE(path.stat().st_mode) == 0o644, "it is not ours"
    if "program" in problem and not problem.startswith("its tasks"):
        assert path.read_bytes() == before


async def test_a_file_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with SqliteStore(tmp_path / "none" / "s").open():
            raise AssertionError


async def test_a_locked_file_is_waited_for_but_not_for_long(tmp_path: Path) -> None:
    """Whoever wants to write then learns that it is busy; who reads does not wait; and one can leave."""
    path = tmp_path / "s"
    with trio.fail_after(60):
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(SqliteStore(path).open())
            await store.sessions.keep("s", b"1")
            with closing(sqlite3.connect(path, isolation_level=None)) as database:
                database.execute("BEGIN IMMEDIATE")
                with pytest.raises(
                    RequestError, match=r"the file of sessions cannot be used now: .*locked"
                ) as caught:
                    await store.sessions.keep("s", b"2")
                assert caught.value.code == SERVER_BUSY
                assert await store.sessions.find("s") == b"1"
                assert await store.others() == {}
                with pytest.raises(sqlite3.OperationalError, match="locked"):
                    async with SqliteStore(path).open():
                        raise AssertionError
                database.execute("ROLLBACK")
                assert await store.sessions.keep("s", b"3")
                database.execute("BEGIN IMMEDIATE")
                await stack.aclose()
        async with SqliteStore(path).open() as other:
            assert await other.sessions.take("s") == store.number, "it could not say that it has left"
            assert await other.gone(store.number)
            assert await other.sessions.take("s") == TakenSession(b"3", 1)


async def test_a_broken_file_is_said_to_be_so(tmp_path: Path) -> None:
    """Whatever has become of it: what fails is what needs it."""
    path = tmp_path / "s"
    async with SqliteStore(path).open() as store:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("DROP TABLE sessions")
        for call in (store.sessions.find, store.sessions.take, store.sessions.release, store.sessions.forget):
            with pytest.raises(RequestError, match="no such table: sessions") as caught:
                await call("s")
            assert caught.value.code == SERVER_BUSY


async def test_what_is_left_is_closed(tmp_path: Path) -> None:
    """It is an error of the program to go on using it."""
    async with SqliteStore(tmp_path / "s").open() as store:
        pass
    with pytest.raises(sqlite3.ProgrammingError):
        await store.others()
    with trio.CancelScope() as scope:
        async with SqliteStore(tmp_path / "s").open() as store:
            await store.announce("a")
            scope.cancel()
            await trio.lowlevel.checkpoint()
    async with SqliteStore(tmp_path / "s").open() as other:
        assert await other.others() == {}, "it has said that it leaves, though it was cancelled"


async def test_what_could_not_be_forgotten_does_not_come_back(tmp_path: Path) -> None:
    """Neither to the process that it was of, nor to another, when the file can be used again."""
    path = tmp_path / "s"
    async with SqliteStore(path).open() as other:
        async with SqliteStore(path).open() as store:
            for id in ("a", "b", "c"):
                await store.sessions.keep(id, b"1")
            for id, use in (
                ("a", store.sessions.take),
                ("b", partial(store.sessions.keep, data=b"1")),
                ("c", None),
            ):
                with closing(sqlite3.connect(path, isolation_level=None)) as database:
                    database.execute("BEGIN IMMEDIATE")
                    with pytest.raises(RequestError):
                        await store.sessions.forget(id)
                if use is not None:
                    await use("a")
                    assert await other.sessions.find(id) is None
        assert await other.sessions.take("c") is None
