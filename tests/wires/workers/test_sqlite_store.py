"""What processes share in an SQLite file, when they begin at once, and when they are killed in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import trio
from inside_endpoint import TakenSession
from places import PROGRAMS, ROOT, TESTS
from shared.server_sqlite_tasks import posix, rows

from trio_mcp import SqliteStore

PATHS = os.pathsep.join([str(ROOT), str(TESTS / "support")])


@contextmanager
def member(path: Path, part: str) -> Generator[subprocess.Popen[bytes]]:
    """Run a process that has the file open, and kill it at the end."""
    with subprocess.Popen(
        [sys.executable, str(PROGRAMS / "store_member.py"), str(path), part],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PATHS},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    read = await trio.to_thread.run_sync(process.stdout.readline)
    assert read.endswith(b"\n"), "it has ended"
    return read.decode().strip()


def go_on(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


async def test_processes_that_begin_at_once_make_one_store(tmp_path: Path) -> None:
    """One of them makes the file, and none fails: they have one secret, and each a number of its own."""
    path = tmp_path / "s"
    with ExitStack() as stack:
        processes = [stack.enter_context(member(path, "join")) for _ in range(4)]
        for attempt in range(5):
            for process in processes:
                assert await line(process) == "ready"
            for process in processes:
                go_on(process)
            said = [(await line(process)).split() for process in processes]
            assert sorted(number for number, _ in said) == ["1", "2", "3", "4"]
            assert len({secret for _, secret in said}) == 1
            for process in processes:
                go_on(process)
            for process in processes:
                assert await line(process) == "left"
            query = "SELECT count(*) FROM processes WHERE NOT is_gone"
            assert rows(path.with_suffix(f".{attempt}"), query) == [0]


@posix
async def test_what_a_killed_process_had_is_taken_over(tmp_path: Path) -> None:
    """While it is stopped it is not gone; nobody waits for a sign of life, but it must be said that it is gone."""
    path = tmp_path / "s"
    with member(path, "hold") as process:
        number = int(await line(process))
        async with SqliteStore(path).open() as store:
            process.send_signal(19)  # it is stopped
            assert await store.sessions.take("held") == number
            process.kill()
            process.wait()
            assert await store.others() == {number: "held"}
            assert await store.sessions.take("held") == number
            await store.gone(number)
            assert await store.sessions.take("held") == TakenSession(b"1", 1)
            assert await store.events.read("held", 1, 0, 9) == [(1, b"x")]


@posix
async def test_a_process_that_is_killed_in_the_middle_leaves_a_sound_file(tmp_path: Path) -> None:
    """At whatever moment: what it said it has kept is there, whole, and nothing is counted that is not."""
    path, kept = tmp_path / "s", list[str]()
    for attempt in range(3):
        with member(path, "work") as process, member(path, "work") as other:
            for _ in range(3 + 20 * attempt):
                kept.append(await line(process))
            process.kill()
            process.wait()
            assert process.stdout is not None
            kept += process.stdout.read().decode().split("\n")[:-1]
            for _ in range(3):
                kept.append(await line(other))  # another one goes on
            other.kill()
            other.wait()
        assert rows(path, "PRAGMA integrity_check") == ["ok"]
        assert rows(path, "SELECT sessions FROM shared") == rows(path, "SELECT count(*) FROM sessions")
        assert rows(path, "SELECT * FROM sessions WHERE owner NOT IN (SELECT number FROM processes)") == []
        async with SqliteStore(path).open() as store:
            dead = await store.others()
            assert len(dead) == 2
            for number in dead:
                await store.gone(number)
            for id in kept:
                taken = await store.sessions.take(id)
                number = int(id.partition("-")[2])
                if taken is None:
                    assert number % 3 == 1, "only these were forgotten"
                    continue
                assert taken == TakenSession(b"%d " % number * 200, 1)
                assert len(await store.events.read(id, 1, 0, 9)) == 2
            left = rows(path, f"SELECT id FROM sessions WHERE owner != {store.number}")
            for id in left:
                assert isinstance(await store.sessions.take(id), TakenSession)
            assert len(left) > 1
            for id in rows(path, "SELECT id FROM sessions"):
                await store.sessions.forget(id)
            kept.clear()
    assert not list(tmp_path.glob("*-runner-*"))
