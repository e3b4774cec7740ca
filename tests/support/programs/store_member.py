"""A process that shares an SQLite file with others: ``python store_member.py FILE join|work|hold``.

``join`` says that it is ready, and with the next line from stdin opens the file, prints its number and a digest of the
secret, and leaves with the line after; then it does so with further files. ``work`` prints the sessions that it has
kept, as soon as they are; ``hold`` has one, and waits.
"""

from __future__ import annotations

import hashlib
import itertools
import sys

import trio
from inside_endpoint import SharedStore

from trio_mcp import SqliteStore


async def line() -> None:
    assert await trio.to_thread.run_sync(sys.stdin.readline)


async def join(path: str) -> None:
    for attempt in itertools.count():
        print("ready", flush=True)
        await line()
        async with SqliteStore(f"{path}.{attempt}").open() as store:
            print(store.number, hashlib.sha256(store.secret).hexdigest(), flush=True)
            await line()
        print("left", flush=True)


async def work(path: str) -> None:
    """Do everything that writes, in several tasks, so that there is always something that is not done yet."""
    async with SqliteStore(path).open() as store, trio.open_nursery() as nursery:
        await store.announce("at work")
        for name in "ab":
            nursery.start_soon(keep, store, f"{store.number}{name}")
        nursery.start_soon(release, store)


async def keep(store: SharedStore, name: str) -> None:
    for number in itertools.count():
        id, data = f"{name}-{number}", b"%d " % number * 200
        assert await store.sessions.keep(id, b"new")
        await store.events.append(id, 1, [(1, data), (2, data)])
        assert await store.sessions.keep(id, data)
        print(id, flush=True)
        if number % 3 == 2:
            await store.sessions.forget(f"{name}-{number - 1}")


async def release(store: SharedStore) -> None:
    for number in itertools.count():
        id = f"free {store.number} {number}"
        await store.sessions.keep(id, b"1")
        await store.sessions.release(id)
        await store.sessions.take(id)


async def hold(path: str) -> None:
    async with SqliteStore(path).open() as store:
        await store.announce("held")
        await store.sessions.keep("held", b"1")
        await store.events.append("held", 1, [(1, b"x")])
        print(store.number, flush=True)
        await trio.sleep_forever()


trio.run({"join": join, "work": work, "hold": hold}[sys.argv[2]], sys.argv[1])
