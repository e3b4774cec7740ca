"""What stores of events keep, of whom, and beside whom: bounds, shares, rights, and other processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from trio_mcp import EventStore, StoredEvent
from trio_mcp import open_sqlite_event_store as open_store


async def numbers(store: EventStore, session: str) -> list[int]:
    events: Sequence[StoredEvent] = await store.read(session, 1, 0, 100_000)
    return [number for number, _ in events]


def events(first: int, count: int, size: int) -> list[StoredEvent]:
    return [(number, b"x" * size) for number in range(first, first + count)]


PROGRAM = """
import sys, trio
from trio_mcp import open_sqlite_event_store

async def main():
    async with open_sqlite_event_store(sys.argv[1]) as store:
        await store.append("theirs", 1, [(1, b"theirs")])
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        print(list(await store.read("theirs", 1, 0, 9)), flush=True)

trio.run(main)
"""


async def test_a_second_process_neither_loses_nor_deletes_what_the_first_has(tmp_path: Path) -> None:
    """Opening a file dropped all that was in it, and with it what a server at work had there."""
    path = tmp_path / "e"
    command = [sys.executable, "-c", PROGRAM, str(path)]

    async def line(process: trio.Process) -> bytes:
        assert process.stdout is not None
        said = b""
        while not said.endswith(b"\n"):
            received = await process.stdout.receive_some()
            assert received, "it has ended"
            said += received
        return said.strip()

    async with open_store(path) as store:
        await store.append("mine", 1, [(1, b"mine")])
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert await line(process) == b"ready"
            assert await numbers(store, "mine") == [1]
            await store.append("mine", 1, [(2, b"mine")])
            async with open_store(path):
                pass
            await store.forget("another")
            assert process.stdin is not None
            await process.stdin.send_all(b"\n")
            assert await line(process) == b"[(1, b'theirs')]"
            assert await process.wait() == 0
            assert await numbers(store, "mine") == [1, 2]
            assert await numbers(store, "theirs") == [], "what it had goes with it"
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
