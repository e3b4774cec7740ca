"""A port for answers to logins that several logins of one process need."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from inside_oauth import _person
from oauth_script import CALLBACK, ProtectedScript

from trio_mcp import AuthorizationFailed, HttpServerParameters, Limits, OAuth, open_client


class Listener:
    """One at which no answer arrives: the page is followed by who has shown it."""

    redirect_uri = CALLBACK

    async def wait_answer(self, is_wanted: Callable[[str], bool]) -> str:
        await trio.sleep_forever()
        raise AssertionError(is_wanted)

    async def finish(self, *, accepted: bool) -> None:
        await trio.lowlevel.checkpoint()


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Let no port be listened on twice, and none really."""
    taken = set[str]()

    @asynccontextmanager
    async def listen(redirect_uri: str) -> AsyncGenerator[Listener]:
        await trio.lowlevel.checkpoint()
        if taken:
            raise AuthorizationFailed(f"cannot listen at {redirect_uri}")
        taken.add(redirect_uri)
        try:
            yield Listener()
        finally:
            taken.clear()

    monkeypatch.setattr(_person, "open_listener", listen)
    return taken


async def test_logins_that_need_one_port_wait_in_line(
    ports: set[str], autojump_clock: trio.testing.MockClock
) -> None:
    """What is waited is a person's time, and costs neither connecting nor calls any of theirs."""
    scripts = {origin: ProtectedScript(origin=origin) for origin in ("http://localhost:1", "http://localhost:2")}
    shown: list[str] = []

    async def visit(url: str) -> str:
        origin = url.partition("/authorize")[0]
        shown.append(origin)
        await trio.sleep(100)
        return scripts[origin].visit(url)

    auth = OAuth(redirect_uri=CALLBACK, open_page=visit)
    limits = Limits(connect_timeout=10.0, discover_timeout=3.0)

    async def connect(script: ProtectedScript) -> None:
        target = HttpServerParameters(script.url, app=script)
        async with open_client(target, auth=auth, limits=limits, request_timeout=5.0) as client:
            await client.call_tool("one")

    async with trio.open_nursery() as nursery:
        for script in scripts.values():
            nursery.start_soon(connect, script)
    assert sorted(shown) == sorted(scripts)
    assert trio.current_time() == pytest.approx(200, abs=5)
    assert not ports


async def test_a_login_that_is_given_up_leaves_the_port_to_the_next(
    ports: set[str], autojump_clock: trio.testing.MockClock
) -> None:
    script = ProtectedScript()
    other = ProtectedScript(origin="http://localhost:2")

    async def visit(url: str) -> str:
        if url.startswith(script.origin):
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return other.visit(url)

    # Objects of their own, of one process.
    auths = [OAuth(redirect_uri=CALLBACK, open_page=visit) for _ in range(2)]
    async with trio.open_nursery() as nursery:

        async def give_up() -> None:
            with trio.move_on_after(30):
                async with open_client(script.parameters(), auth=auths[0]):
                    raise AssertionError("nobody has logged in")

        nursery.start_soon(give_up)
        await trio.testing.wait_all_tasks_blocked()
        assert ports
        async with open_client(HttpServerParameters(other.url, app=other), auth=auths[1]) as client:
            await client.call_tool("one")
        assert trio.current_time() == pytest.approx(30, abs=5)
