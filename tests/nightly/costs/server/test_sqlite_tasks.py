"""The store of tasks in an SQLite file: its bounds, its rights, other processes, and files that cannot be used."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing
from inside_base import SERVER_BUSY
from shared.server_sqlite_tasks import rows
from stored_tasks import task

from trio_mcp import (
    RequestError,
)
from trio_mcp import open_sqlite_task_store as open_store

# Files that cannot be used.


async def test_a_locked_file_gives_an_error_within_a_bound(tmp_path: Path) -> None:
    """To who adds, and to who ends; then it goes on. Who only reads is not in the way of who writes."""
    path = tmp_path / "t"
    async with open_store(path) as store:
        await store.add(task("a"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            begin = trio.current_time()
            with pytest.raises(RequestError, match="cannot be used now: database is locked") as caught:
                await store.add(task("b"))
            assert caught.value.code == SERVER_BUSY
            assert trio.current_time() - begin < 5
            assert await store.find("a") is not None
            other.execute("ROLLBACK")
        await store.add(task("b"))
        assert rows(path) == ["a", "b"]


async def test_a_disk_that_hangs_hangs_nobody(tmp_path: Path) -> None:
    """Whoever waits is told after five seconds, and who is cancelled goes at once."""
    async with open_store(tmp_path / "t") as store:
        release = threading.Event()
        try:
            async with trio.open_nursery() as nursery:

                async def hang() -> None:
                    with pytest.raises(RequestError, match="has not answered within 5 s"):
                        await store._run(lambda _: release.wait(30))

                nursery.start_soon(hang)
                await trio.testing.wait_all_tasks_blocked()
                with trio.move_on_after(0.1) as scope:
                    await store.find("a")
                assert scope.cancelled_caught
                begin = trio.current_time()
                with pytest.raises(RequestError, match="has not answered within 5 s"):
                    await store.find("a")
                assert trio.current_time() - begin < 7
        finally:
            release.set()
        assert await store.find("a") is None
