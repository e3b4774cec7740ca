"""The store of tasks in an SQLite file: its bounds, its rights, other processes, and files that cannot be used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from shared.server_sqlite_tasks import posix, rows, totals
from stored_tasks import task

from trio_mcp import open_sqlite_task_store as open_store

# Whose tasks are whose.

HOLD = """
import sys, trio, trio_mcp, time
async def main():
    async with trio_mcp.open_sqlite_task_store(sys.argv[1]) as store:
        now = time.time()
        await store.add(trio_mcp.StoredTask(id=sys.argv[2], owner=None, created_at=now, updated_at=now, ttl=60, poll=1))
        print("ready", flush=True)
        await trio.sleep_forever()
trio.run(main)
"""


@asynccontextmanager
async def holding(path: Path, id: str) -> AsyncGenerator[subprocess.Popen[bytes]]:
    """Run a process that has a task."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path), id], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert await trio.to_thread.run_sync(process.stdout.readline) == b"ready\n"
            yield process
        finally:
            process.kill()


@posix
async def test_the_tasks_of_a_process_that_lives_are_never_ended(tmp_path: Path) -> None:
    """Nor of one that does nothing at all, such as one that was stopped; and that it was killed is seen at once."""
    path = tmp_path / "t"
    async with holding(path, "theirs") as process, open_store(path) as store:
        process.send_signal(19)  # it is stopped, and could give no sign of life by itself
        for number in range(3):
            async with open_store(path) as another:
                assert (await another.find("theirs") or task("?")).status == "working"
                assert len(await another.versions(["theirs"])) == 1
            await store.add(task(f"ours {number}"))
        process.kill()
        process.wait()
        found = await store.find("theirs")
        assert found is not None
        assert found.status == "failed"
        assert (await store.find("ours 0") or task("?")).status == "working", "only its own tasks are ended"


BUSY = """
import sys, trio, trio_mcp, time, itertools, attrs
async def main():
    async with trio_mcp.open_sqlite_task_store(sys.argv[1]) as store, trio.open_nursery() as nursery:
        async def live(name):
            for number in itertools.count():
                now = time.time()
                task = trio_mcp.StoredTask(
                    id=f"{sys.argv[2]} {name} {number}", owner=None, created_at=now, updated_at=now, ttl=60, poll=1
                )
                await store.add(task)
                await store.send(task.id, {"answers": {"1": "x" * 500}})
                await store.replace(attrs.evolve(task, status="completed", result={"text": "x" * 2_000}))
                if number % 3:
                    with trio.move_on_after(0.0005):
                        await store.remove(task.id)
                if number >= 3 and name == 0:
                    print(number, flush=True)
        for name in range(3):
            nursery.start_soon(live, name)
trio.run(main)
"""


@posix
async def test_a_process_that_is_killed_in_the_middle_leaves_a_sound_file(tmp_path: Path) -> None:
    """At whatever moment: nothing is half there, and what is counted is what is there."""
    path = tmp_path / "t"
    for number in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", BUSY, str(path), str(number)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            for done in range(1 + 5 * number):
                assert await trio.to_thread.run_sync(process.stdout.readline) == b"%d\n" % (3 + done)
            process.kill()
        assert rows(path, "PRAGMA integrity_check") == ["ok"]
        totals(path)
        async with open_store(path) as store:
            for id in rows(path):
                found = await store.find(id)
                assert found is not None
                assert found.status in {"completed", "failed"}
            totals(path)
        assert rows(path, "SELECT name FROM task_runners") == []
    assert not list(tmp_path.glob("*-runner-*"))
