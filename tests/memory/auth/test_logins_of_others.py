"""A login that another connection does, or another process: waited for, not charged, and nothing held meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from inside_oauth import person_of
from oauth_script import CALLBACK, Person, ProtectedScript, oauth

from trio_mcp import (
    AuthorizationFailed,
    AuthorizationRefused,
    FileTokenStore,
    Limits,
    MemoryTokenStore,
    OAuth,
    TokenStore,
    open_client,
)


class Held(TokenStore):
    """Notes which keys are held."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, str] = {}
        self.held: set[str] = set()

    async def get(self, key: str) -> str | None:
        await trio.lowlevel.checkpoint()
        return self.kept.get(key)

    async def set(self, key: str, value: str) -> None:
        await trio.lowlevel.checkpoint()
        self.kept[key] = value

    async def delete(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        self.kept.pop(key, None)

    @asynccontextmanager
    async def exclusive(self, key: str) -> AsyncGenerator[None]:
        async with self._within(key):
            self.held.add(key)
            try:
                yield
            finally:
                self.held.discard(key)


@pytest.mark.parametrize("same", ["auth", "store"])
async def test_a_login_of_another_connection_is_not_charged(
    same: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Neither to calls nor to connecting, of whoever has the same authorization, or the same store."""
    script = ProtectedScript()
    person = Person(script)
    memory = MemoryTokenStore()
    shared = oauth(script, open_page=person.open_page, store=memory)

    def auth() -> OAuth:
        return shared if same == "auth" else oauth(script, open_page=person.open_page, store=memory)

    limits = Limits(connect_timeout=10.0, discover_timeout=3.0)
    done: list[float] = []

    async def call() -> None:
        async with open_client(script.parameters(), auth=auth(), limits=limits, request_timeout=5.0) as client:
            await client.call_tool("one")
        done.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(call)
        await trio.sleep(100)
        assert not done
        person.log_in()
    assert person.asked == len(script.pages) == 1
    assert min(done) >= 100
    assert script.grants() == ["authorization_code"]


async def test_nor_is_one_of_who_has_the_same_file(tmp_path: Path) -> None:
    """Each has a store of its own. In real time, for a file is read by threads."""
    script = ProtectedScript()
    person = Person(script)
    limits = Limits(connect_timeout=1.0, discover_timeout=0.5)

    async def call() -> None:
        auth = oauth(script, open_page=person.open_page, store=FileTokenStore(tmp_path / "tokens.json"))
        async with open_client(script.parameters(), auth=auth, limits=limits, request_timeout=1.0) as client:
            await client.call_tool("one")

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(call)
            await trio.sleep(2.5)
            person.log_in()
    assert person.asked == len(script.pages) == 1
    assert script.grants() == ["authorization_code"]


async def test_nothing_is_held_while_a_person_logs_in(autojump_clock: trio.testing.MockClock) -> None:
    """Somebody else can log out, or store a token, and it is seen."""
    script, store = ProtectedScript(), Held()
    person = Person(script)
    auth = oauth(script, open_page=person.open_page, store=store)
    async with trio.open_nursery() as nursery:

        async def call() -> None:
            async with open_client(script.parameters(), auth=auth) as client:
                await client.call_tool("one")

        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        while not person.asked:
            await trio.sleep(0.1)
        assert store.held == set()
        with trio.fail_after(1):
            assert not await auth.log_out("http://localhost:8000/mcp")
        person.log_in()
    assert store.held == set()
    assert len(script.pages) == 1
    assert not any(key.startswith("login") for key in store.kept), "the note for other processes is gone"


async def test_who_waits_for_a_login_that_fails_fails_likewise(autojump_clock: trio.testing.MockClock) -> None:
    """Nobody is asked again who has just said no."""
    script = ProtectedScript()
    pages: list[str] = []

    async def decline(url: str) -> str:
        pages.append(url)
        await trio.sleep(10)
        state = url.partition("state=")[2].partition("&")[0]
        return f"{CALLBACK}?error=access_denied&state={state}&iss={script.server['issuer']}"

    auth = oauth(script, open_page=decline)
    failures: list[AuthorizationFailed] = []

    async def call() -> None:
        with pytest.raises(AuthorizationFailed, match="access_denied") as failed:
            async with open_client(script.parameters(), auth=auth, era="modern"):
                pass
        failures.append(failed.value)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(call)
    assert len(pages) == 1
    assert len({id(each) for each in failures}) == 3


async def test_who_waits_for_a_login_that_is_given_up_does_it_instead(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = ProtectedScript()
    person = Person(script)
    auth = oauth(script, open_page=person.open_page)
    done: list[str] = []

    async def call(name: str, patience: float) -> None:
        with trio.move_on_after(patience):
            async with open_client(script.parameters(), auth=auth, era="modern", request_timeout=5.0) as client:
                await client.call_tool("one")
            done.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, "hasty", 20)
        await trio.sleep(1)
        nursery.start_soon(call, "patient", 1000)
        nursery.start_soon(call, "patient", 1000)
        await trio.sleep(50)
        assert (person.asked, person.gave_up) == (2, 1)
        person.log_in()
    assert done == ["patient", "patient"]
    assert len(script.pages) == 1, "the others were given up"


async def test_who_may_ask_nobody_does_not_spoil_the_login_of_who_may(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """They have the same store, and are set up otherwise."""
    script, store = ProtectedScript(), MemoryTokenStore()
    person = Person(script)
    silent = oauth(script, open_page=None, store=store)
    asking = oauth(script, open_page=person.open_page, store=store)

    async def call() -> None:
        async with open_client(script.parameters(), auth=asking, era="modern"):
            pass

    async def fail_at_once() -> None:
        with pytest.raises(AuthorizationFailed, match="open_page=None"):
            async with open_client(script.parameters(), auth=silent, era="modern"):
                pass
        assert trio.current_time() < 30

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail_at_once)
        nursery.start_soon(call)
        await trio.sleep(20)
        nursery.start_soon(fail_at_once)
        await trio.sleep(20)
        person.log_in()
    assert len(script.pages) == 1


async def test_a_greater_authorization_is_asked_for_once_for_all(autojump_clock: trio.testing.MockClock) -> None:
    script, store = ProtectedScript(), MemoryTokenStore()
    script.needs["tools/call"] = "write"
    async with trio.open_nursery() as nursery:

        async def call() -> None:
            auth = oauth(script, store=store)
            async with open_client(script.parameters(), auth=auth, era="modern") as client:
                await client.call_tool("one")

        for _ in range(20):
            nursery.start_soon(call)
    assert [page.partition("scope=")[2].partition("&")[0] for page in script.pages] == ["mcp", "mcp+write"]


async def test_many_connections_with_an_ended_token_refresh_it_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A refresh token is good for once, and what goes on meanwhile is no person's time."""
    script, store = ProtectedScript(), MemoryTokenStore()
    async with open_client(script.parameters(), auth=oauth(script, store=store)) as client:
        await client.call_tool("one")
    script.tokens.clear()
    script.before["/token"] = partial(trio.sleep, 2)

    async def call() -> None:
        async with open_client(script.parameters(), auth=oauth(script, store=store)) as client:
            await client.call_tool("one")

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(call)
    assert script.grants() == ["authorization_code", "refresh_token"]
    assert len(script.pages) == 1


# How many pages.


@pytest.mark.parametrize("lifetime", [0, 1, 3600])
async def test_a_server_that_takes_no_token_for_long_gets_few_pages_shown(
    lifetime: int, autojump_clock: trio.testing.MockClock
) -> None:
    """Each of its tokens is good for one request. It may also end the connection in between."""
    script = ProtectedScript()
    script.lifetime = lifetime
    issue, serve = script._issue, script._serve_mcp

    def issue_alone(form: Any) -> Any:
        status, answer = issue(form)
        del answer["refresh_token"]
        return status, answer

    async def serve_once(scope: Any, receive: Any, send: Any, headers: Any) -> None:
        await serve(scope, receive, send, headers)
        script.tokens.clear()

    script._issue = issue_alone  # type: ignore[method-assign]
    script._serve_mcp = serve_once  # type: ignore[method-assign]
    auth = oauth(script)
    failures: list[str] = []
    for _ in range(10):
        try:
            async with open_client(script.parameters(), auth=auth, era="modern") as client:
                for _ in range(3):
                    await client.call_tool("one")
                    await trio.sleep(2)
        except (AuthorizationFailed, AuthorizationRefused) as error:
            failures.append(str(error))
    assert len(script.pages) == 5
    assert failures[-1] == (
        f"somebody was asked 5 times within 300 s to log in for {script.url}, and is not asked again so soon: it takes "
        "no token for long, or nobody logs in"
    )
    assert not any("auth=OAuth()" in each for each in failures), "it was given"
    await trio.sleep(301)
    with pytest.raises(AuthorizationFailed, match="5 times"):
        async with open_client(script.parameters(), auth=auth, era="modern") as client:
            for _ in range(9):
                await client.call_tool("one")
    assert len(script.pages) == 10


async def test_a_store_is_not_taken_for_one_that_is_gone() -> None:
    """Its object may be where that one was. What was asked for that one is not counted for it."""
    await trio.lowlevel.checkpoint()
    for _ in range(20):
        person_of(MemoryTokenStore(), "token").count_page("http://localhost:8000/mcp", is_step_up=False)


async def test_a_token_that_is_good_for_no_time_is_used_until_it_is_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """That says nothing about how long it is good."""
    script = ProtectedScript()
    script.lifetime = 0
    async with open_client(script.parameters(), auth=oauth(script)) as client:
        for _ in range(3):
            await client.call_tool("one")
    assert script.grants() == ["authorization_code"]


async def test_the_store_of_a_user_need_not_be_one_that_can_be_compared(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Odd(Held):
        def __eq__(self, other: object) -> bool:
            return True

    script = ProtectedScript()
    async with open_client(script.parameters(), auth=oauth(script, store=Odd())) as client:
        await client.call_tool("one")


@pytest.mark.parametrize(
    "note", ["", "no JSON", "{}", '{"by": "x"}', '{"by": 7, "until": "x"}', '{"by": "x", "until": 1e400}']
)
async def test_a_note_that_makes_no_sense_holds_nobody_up(
    note: str, autojump_clock: trio.testing.MockClock
) -> None:
    script, store = ProtectedScript(), Held()
    store.kept[f"login token person  {script.url}"] = note
    async with open_client(script.parameters(), auth=oauth(script, store=store)) as client:
        await client.call_tool("one")
    assert len(script.pages) == 1
