"""Processes with one store, all of them in this one: what goes wrong between them at a chosen moment."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import trio.testing
from http_raw import Answer, Raw, open_raw
from inside_endpoint import KeptSession, LegacySession, SharedStore, TakenSession
from inside_http import open_http_client, parse_target
from inside_workers import Store
from session_calls import begin, legacy, said_by, tool
from shared.server_sqlite_tasks import rows

from trio_mcp import HttpRefused, RequestError, Server, Shutdown, SqliteStore, serve_http


class Watched(Store):
    """A file, of which somebody hears when a process wants something of its sessions, or has got it.

    Attributes:
        before: What is awaited first, by the name of the method.
        after: What is awaited then.
        joined: The processes, in their order.
    """

    def __init__(self, path: Path) -> None:
        self._store = SqliteStore(path)
        self.before: Final = dict[str, Callable[[], Awaitable[object]]]()
        self.after: Final = dict[str, Callable[[], Awaitable[object]]]()
        self.joined: Final = list[SharedStore]()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[SharedStore]:
        async with self._store.open() as store:
            sessions: Any = WatchedSessions(self, store.sessions)
            store.sessions = sessions
            self.joined.append(store)
            yield store


class WatchedSessions:
    def __init__(self, watched: Watched, sessions: Any) -> None:
        self._watched = watched
        self._sessions = sessions

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            if name in self._watched.before:
                await self._watched.before[name]()
            found = await getattr(self._sessions, name)(*arguments)
            if name in self._watched.after:
                await self._watched.after[name]()
            return found

        return call


def named(name: str) -> Server:
    """Return a server whose tool says which of several it is."""
    server = Server("x")

    @server.tool
    async def who() -> str:
        return name

    @server.resource("thing://{number}")
    async def thing(number: str) -> str:
        return number

    return server


async def test_tmp_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of systemd may have folders for temporary files of their own: nobody is taken for gone for that."""
    store, first, second = SqliteStore(tmp_path / "s"), tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(first))
    async with open_raw(named("a"), store=store) as a:
        session = await begin(a)
        first.rename(tmp_path / "3")  # as the other process sees it
        monkeypatch.setattr(tempfile, "tempdir", str(second))
        async with open_raw(named("b"), store=store) as b:
            for raw in (b, a, b):
                assert said_by((await raw.send(tool("who"), session)).message) == "a"


async def test_one_that_drains_while_it_takes_a_session(tmp_path: Path) -> None:
    """Its client does not lose that: it is refused, and goes on elsewhere."""
    store, shutdown, answers = Watched(tmp_path / "s"), Shutdown(), list[Answer]()
    taken, go_on = trio.Event(), trio.Event()

    async def hold() -> None:
        taken.set()
        await go_on.wait()

    async def call(raw: Raw, session: dict[str, str]) -> None:
        answers.append(await raw.send(tool("who"), session))

    async with open_raw(named("a"), store=store) as a:
        session = await begin(a)
    store.after["take"] = hold
    async with open_http_client() as client, trio.open_nursery() as nursery:
        serving = partial(serve_http, named("b"), port=0, store=store, shutdown=shutdown)
        urls: tuple[str, ...] = await nursery.start(serving)
        nursery.start_soon(call, Raw(client, parse_target(urls[0])), session)
        await taken.wait()
        shutdown.drain()
        await trio.testing.wait_all_tasks_blocked()
        go_on.set()
    assert [answer.status for answer in answers] == [503]
    del store.after["take"]
    async with open_raw(named("c"), store=store) as c:
        assert said_by((await c.send(tool("who"), session)).message) == "c"


async def test_one_that_has_no_room_for_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It serves none that has not heard what was said before, and does not end what others may serve."""
    store = SqliteStore(tmp_path / "s")
    async with open_raw(named("a"), store=store) as a:
        session = await begin(a)

    def full(*_: object) -> None:
        raise HttpRefused(503, "no room")

    async with open_raw(named("b"), store=store) as b:
        with monkeypatch.context() as patched:
            patched.setattr(LegacySession, "keep", full)
            for _ in range(2):
                refused = await b.send(tool("who"), session)
                assert (refused.status, refused.error["message"]) == (503, "no room")
        assert said_by((await b.send(tool("who"), session)).message) == "b"


async def test_what_is_refused_is_not_kept(tmp_path: Path) -> None:
    """However much it is; nor does it keep out, or replace, what is not refused."""
    path, huge = tmp_path / "s", "x" * 1_000_000
    store = SqliteStore(path)
    async with open_raw(named("a"), store=store) as a:
        session = await begin(a, "2025-11-25")
        wanted = [
            legacy("initialize", protocolVersion=huge, capabilities={}, clientInfo={"name": "x", "version": "1"}),
            legacy("logging/setLevel", level="error"),
            legacy("logging/setLevel", level=huge),
            *(legacy("resources/subscribe", uri=f"none://{each}") for each in range(1_000)),
            legacy("resources/subscribe", uri="thing://1"),
        ]
        answers = [(await a.send(each, session)).message for each in wanted]
        assert ["error" in each for each in answers] == [True, False, *[True] * 1_001, False]
        await a.send(legacy("initialize", protocolVersion=huge, capabilities={"x": huge}, clientInfo={}))
        await a.send(
            legacy("initialize", protocolVersion=huge, capabilities={}, clientInfo={"name": "x", "version": "1"})
        )
        kept = [KeptSession.decode(data) for data in rows(path, "SELECT data FROM sessions ORDER BY rowid")]
        assert all(len(each.encode()) < 1_000 for each in kept)
        assert [each["params"] for each in kept[0].messages()[2:]] == [{"level": "error"}, {"uri": "thing://1"}]
    async with open_raw(named("b"), store=store) as b:
        assert said_by((await b.send(tool("who"), session)).message) == "b"


async def test_a_session_that_is_over_is_over_at_once(tmp_path: Path) -> None:
    """For whoever asks, wherever, and whatever a handler of it still does."""
    server, began, go_on = named("a"), trio.Event(), trio.Event()

    @server.tool
    async def tidy() -> None:
        began.set()
        with trio.CancelScope(shield=True):
            await go_on.wait()

    store = SqliteStore(tmp_path / "s")
    async with open_raw(server, store=store) as a, open_raw(named("b"), store=store) as b:
        session = await begin(a)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.send, tool("tidy", 5), session)
            await began.wait()
            assert (await b.send(None, session, method="DELETE")).status == 204
            for raw in (a, b):
                with trio.fail_after(10):
                    assert (await raw.send(tool("who"), session)).status == 404
            go_on.set()


async def test_who_was_taken_for_gone_looks_until_it_knows(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """What is its own, even if the store does not say so at once."""
    store, asked, known = Watched(tmp_path / "s"), trio.Event(), trio.Event()

    async def away() -> None:
        asked.set()
        del store.before["keep"]
        store.after["keep"] = know
        raise RequestError(-32000, "away")

    async def know() -> None:
        known.set()

    async with open_raw(named("a"), store=store) as a, open_raw(named("b"), store=store):
        session = await begin(a)
        first, second = store.joined
        (tmp_path / f"s-process-{first.number}").unlink()  # which it keeps locked
        assert await second.gone(first.number)
        assert isinstance(await second.sessions.take(session["Mcp-Session-Id"]), TakenSession)
        assert said_by((await a.send(tool("who"), session)).message) == "a"
        store.before["keep"] = away
        first.on_doubt()
        await asked.wait()
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(10)
        await known.wait()
        assert (await a.send(tool("who"), session)).status == 503
