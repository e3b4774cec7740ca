"""What stores of events keep, of whom, and beside whom: bounds, shares, rights, and other processes."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from inside_core import Pool
from inside_endpoint import count_against

from trio_mcp import EventStore, MemoryEventStore, StoredEvent
from trio_mcp import open_sqlite_event_store as open_store

posix = pytest.mark.skipif(os.name != "posix", reason="elsewhere files have other rights")
PLENTY = 1 << 40


async def numbers(store: EventStore, session: str) -> list[int]:
    events: Sequence[StoredEvent] = await store.read(session, 1, 0, 100_000)
    return [number for number, _ in events]


def events(first: int, count: int, size: int) -> list[StoredEvent]:
    return [(number, b"x" * size) for number in range(first, first + count)]


async def test_a_file_is_bounded_in_bytes_for_each_session(tmp_path: Path) -> None:
    """It was bounded by number alone: 10,000 events of 16 MiB for each session."""
    async with open_store(tmp_path / "e", max_session_bytes=100_000) as store:
        await store.append("small", 1, events(1, 3, 10))
        for first in range(1, 100, 10):
            await store.append("s", 1, events(first, 10, 9_800))
        assert await numbers(store, "s") == list(range(91, 101))
        await store.append("s", 1, events(101, 1, 200_000))
        assert await numbers(store, "s") == [], "what is too large for itself is not kept, nor what came before"
        await store.append("s", 1, events(102, 1, 10))
        assert await numbers(store, "s") == [102]
        assert await numbers(store, "small") == [1, 2, 3]


async def test_a_file_is_bounded_in_bytes_over_all_sessions(tmp_path: Path) -> None:
    """One client with many sessions takes nothing from another with one."""
    account = Pool("none", PLENTY)
    async with open_store(tmp_path / "e", max_bytes=100_000) as store:
        count_against(store, "mine", "honest", account)
        await store.append("mine", 1, events(1, 2, 9_800))
        for n in range(20):
            count_against(store, f"s{n}", "hog", account)
            await store.append(f"s{n}", 1, events(1, 1, 19_800))
        assert await numbers(store, "mine") == [1, 2]
        left = [n for n in range(20) if await numbers(store, f"s{n}")]
        assert left == [18, 19], "as much as is left to others; its oldest go"
    assert account.lent == 0, "what is on a disk is not in memory"


async def test_what_a_session_says_takes_time_linear_in_what_it_says(tmp_path: Path) -> None:
    """At its bound, too: what goes is found without looking at what stays."""
    steps: list[int] = []
    for times in (1, 8):
        seen = 0

        def step() -> int:
            nonlocal seen
            seen += 1
            return 0

        async with open_store(tmp_path / f"e{times}", max_session_events=1_000) as store:
            await store.append("s", 1, events(1, 1_000, 10))
            store._database.set_progress_handler(step, 100)
            for n in range(100 * times):
                await store.append("s", 1, events(1_001 + n, 1, 10))
        steps.append(seen)
    assert steps[1] / steps[0] < 16


async def test_memory_counts_against_the_client_whose_session_it_is() -> None:
    """With everything else that is kept for it; and for more it loses the events of its oldest session."""
    store, account = MemoryEventStore(), Pool("max_kept_bytes", 100_000)
    for session, client in (("mine", "honest"), *((f"s{n}", "hog") for n in range(21))):
        count_against(store, session, client, account)
    await store.append("mine", 1, events(1, 2, 9_800))
    for n in range(20):
        await store.append(f"s{n}", 1, events(1, 1, 19_800))
    assert await numbers(store, "mine") == [1, 2]
    assert [n for n in range(20) if await numbers(store, f"s{n}")] == [18, 19]
    assert (account.lent, store.size) == (60_000, 60_000)
    account.lend("hog", "something", 0)
    account.lend("third", "something", 20_000)
    await store.append("s20", 1, events(1, 1, 9_800))
    assert [n for n in range(20) if await numbers(store, f"s{n}")] == [19], (
        "for what is taken of the account, too"
    )
    assert store.size == account.lent - 20_000 == 50_000
    for session in ("mine", "s19", "s20"):
        await store.forget(session)
    assert (account.lent, store.size) == (20_000, 0)


async def test_an_event_counts_for_itself_too() -> None:
    """Ten million empty ones are more than a gigabyte."""
    store = MemoryEventStore(max_session_bytes=10_000, max_session_events=1_000_000)
    await store.append("s", 1, events(1, 1_000, 0))
    assert await numbers(store, "s") == list(range(951, 1_001))


@posix
@pytest.mark.parametrize("is_there", [False, True])
async def test_no_other_user_can_read_a_file(tmp_path: Path, *, is_there: bool) -> None:
    """Nor what SQLite keeps beside it: what tools say is in there."""
    path = tmp_path / "e"
    if is_there:
        sqlite3.connect(path).close()
        path.touch(0o644)
        path.chmod(0o644)
    before = os.umask(0)
    try:
        async with open_store(path) as store:
            await store.append("s", 1, events(1, 1, 10))
            rights = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert rights == {"e": 0o600, "e-wal": 0o600, "e-shm": 0o600}


@posix
async def test_no_other_user_can_read_what_a_link_leads_to(tmp_path: Path) -> None:
    """Also if there is nothing yet: the file was made by SQLite then, for everybody to read."""
    (tmp_path / "link").symlink_to(tmp_path / "e")
    before = os.umask(0)
    try:
        async with open_store(tmp_path / "link") as store:
            await store.append("s", 1, events(1, 1, 10))
            found = [one for one in tmp_path.iterdir() if not one.is_symlink()]
            rights = {one.name: stat.S_IMODE(one.stat().st_mode) for one in found}
    finally:
        os.umask(before)
    assert rights == {"e": 0o600, "e-wal": 0o600, "e-shm": 0o600}


@posix
async def test_what_is_no_file_of_events_stays_as_it_is(tmp_path: Path) -> None:
    """A folder that nobody could enter any more, for one."""
    (tmp_path / "text").write_text("no database" * 100)
    (tmp_path / "text").chmod(0o644)
    (tmp_path / "folder").mkdir(0o755)
    for name, problem in (("text", "file is not a database"), ("folder", "unable to open database file")):
        path = tmp_path / name
        before = path.stat().st_mode
        with pytest.raises(sqlite3.DatabaseError, match=f"^{re.escape(f'{path}: {problem}')}$"):
            async with open_store(path):
                raise AssertionError
        assert path.stat().st_mode == before


async def test_what_a_killed_process_has_left_goes_when_it_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whose it was; so it has its time like everything else."""
    path, now = tmp_path / "e", 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    with sqlite3.connect(path) as left:  # a file as it was before events had a time
        left.execute(
            "CREATE TABLE events (position INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, "
            "stream INTEGER NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL)"
        )
        left.execute("INSERT INTO events (session, stream, number, data) VALUES ('older', 1, 1, x'00')")
    left.close()
    async with open_store(path, max_age=100) as store:
        assert await numbers(store, "older") == []
        await store.append("s", 1, events(1, 1, 10))
        now += 60
        await store.append("s", 1, events(2, 1, 10))
        with sqlite3.connect(path) as other:
            other.execute(
                "INSERT INTO events (session, stream, number, data, at) VALUES ('killed', 1, 1, x'00', ?)",
                (now - 99,),
            )
        other.close()
        assert await numbers(store, "killed") == [1]
        now += 50
        await store.append("t", 1, events(1, 1, 10))
        assert (await numbers(store, "s"), await numbers(store, "killed")) == ([2], [])
        assert store._shares.size == 2 * 210


@pytest.mark.parametrize("option", ["max_session_bytes", "max_bytes", "max_age"])
async def test_bounds_of_files_are_checked(option: str, tmp_path: Path) -> None:
    """The message names the option."""
    with pytest.raises(ValueError, match=option):
        async with open_store(tmp_path / "x", **{option: 0}):
            pass
