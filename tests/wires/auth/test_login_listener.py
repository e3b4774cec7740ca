"""The port that a browser brings the answer to: which requests it takes, and what is left of it."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import threading
from contextlib import AsyncExitStack, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest
import trio
import trio.testing
from authorization_pages import shows
from inside_oauth import OpenPage, open_listener, path_for
from oauth_script import ORIGIN, ProtectedScript
from patient_clock import pass_time
from places import ROOT
from unmeasured import unmeasured

from trio_mcp import AuthorizationFailed, FileTokenStore, OAuth, open_client


async def fetch(url: str, *, method: str = "GET", host: str | None = None) -> tuple[int, str]:
    """Send one request as a browser would; returns status and page."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    stream = await trio.open_tcp_stream(parts.hostname, parts.port or 80)
    async with stream:
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        await stream.send_all(f"{method} {target} HTTP/1.1\r\nHost: {host or parts.netloc}\r\n\r\n".encode())
        data = b"".join([chunk async for chunk in stream])
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


@shows("Open Redirection")
async def test_the_one_answer_is_taken_and_everything_else_is_turned_away() -> None:
    async with open_listener(None) as listener, trio.open_nursery() as nursery:
        uri = listener.redirect_uri
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/callback", uri)
        answers: list[str] = []

        async def wait() -> None:
            answers.append(await listener.wait_answer(lambda url: "state=right" in url))
            await listener.finish(accepted=True)

        assert (await fetch(f"{uri}?state=right"))[0] == 400, "before anybody waits"
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert (await fetch(f"{uri}?state=wrong"))[0] == 400
        assert (await fetch(f"{uri}s?state=right"))[0] == 404
        assert (await fetch(f"{uri}?state=right", host="evil.example"))[0] == 404
        assert (await fetch(f"{uri}?state=right", method="POST"))[0] == 400
        status, page = await fetch(f"{uri}?state=right&code=<script>")
        assert status == 200
        assert "You are logged in" in page
        assert "script" not in page
    assert answers == [f"{uri}?state=right&code=<script>"]


async def test_a_refused_answer_is_shown_as_one_and_the_port_is_free_afterwards() -> None:
    async with open_listener(None) as listener, trio.open_nursery() as nursery:
        pages: list[tuple[int, str]] = []

        async def browse() -> None:
            pages.append(await fetch(f"{listener.redirect_uri}?x"))

        nursery.start_soon(browse)
        await listener.wait_answer(lambda _: True)
        await listener.finish(accepted=False)
    uri = listener.redirect_uri
    assert "not logged in" in pages[0][1]
    async with open_listener(uri) as again:
        assert again.redirect_uri == uri


async def test_a_page_does_not_say_what_is_not_known(mock_clock: trio.testing.MockClock) -> None:
    """The token is asked for while the browser waits, which does not do so for ever."""
    pages: list[str] = []
    async with open_listener(None) as listener, trio.open_nursery() as nursery:

        async def browse() -> None:
            pages.append((await fetch(f"{listener.redirect_uri}?x"))[1])

        nursery.start_soon(browse)
        await listener.wait_answer(lambda _: True)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(7.9)
        await trio.testing.wait_all_tasks_blocked()
        assert not pages
        mock_clock.jump(0.2)
    assert "has arrived" in pages[0]
    assert "You are" not in pages[0]


@pytest.mark.parametrize("fails", [False, True])
async def test_the_page_shows_what_came_of_the_exchange(fails: bool) -> None:
    script = ProtectedScript()
    pages: list[str] = []
    if fails:
        script.answers["/token"] = [(400, {"error": "invalid_grant"})]

    async def browse(answer: str) -> None:
        pages.append((await fetch(answer))[1])

    async def open_page(url: str) -> None:
        await browse(script.visit(url))

    auth = OAuth(open_page=open_page)
    with pytest.raises(AuthorizationFailed, match="invalid_grant") if fails else nullcontext():
        async with open_client(script.parameters(), auth=auth) as client:
            await client.call_tool("one")
    assert ("You are not logged in" in pages[0]) is fails
    assert ("You are logged in" in pages[0]) is not fails


@shows("Mix-Up Attacks")
async def test_an_answer_at_the_path_of_another_authorization_server_is_turned_away() -> None:
    """One that says nothing of who it is: only where the browser is sent tells which it was."""
    script = ProtectedScript()
    script.server["authorization_response_iss_parameter_supported"] = False
    honest = path_for("https://honest.example")
    statuses: list[int] = []

    async def browse(answer: str) -> None:
        answer = re.sub(r"&iss=[^&]*", "", answer)
        ours = urlsplit(answer).path
        assert ours == path_for(ORIGIN)
        assert ours != honest
        for path in (honest, "/callback", f"{ours}/", ours.upper()):
            statuses.append((await fetch(answer.replace(ours, path)))[0])
        statuses.append((await fetch(answer))[0])

    async def open_page(url: str) -> None:
        await browse(script.visit(url))

    auth = OAuth(open_page=open_page)
    async with open_client(script.parameters(), auth=auth) as client:
        await client.call_tool("one")
    assert statuses == [404, 404, 404, 404, 200]
    (registered,) = script.at("/register")
    redirect_uris: list[str] = registered.form["redirect_uris"]
    assert [urlsplit(each).path for each in redirect_uris] == [path_for(ORIGIN)]


def follow(url: str) -> bytes:
    with urlopen(url, timeout=30) as response:
        page: bytes = response.read()
    return page


@pytest.mark.parametrize("kind", ["plain", "waits for its thread", "abandons its thread", "returns a coroutine"])
async def test_open_page_may_follow_the_page_itself(kind: str) -> None:
    """As tests of programs do, with whatever they have; the loop runs meanwhile, and nothing waits for long."""
    script = ProtectedScript()
    pages: list[bytes] = []
    variable = ContextVar("variable", default="nothing")
    variable.set("kept")

    def plain(url: str) -> None:
        assert variable.get() == "kept"
        pages.append(follow(script.visit(url)))

    async def in_thread(url: str) -> None:
        await trio.to_thread.run_sync(plain, url, abandon_on_cancel=kind.startswith("abandons"))

    open_pages: dict[str, OpenPage] = {"plain": plain, "returns a coroutine": lambda url: in_thread(url)}
    async with open_client(script.parameters(), auth=OAuth(open_page=open_pages.get(kind, in_thread))) as client:
        await client.call_tool("one")
    assert b"You are logged in" in pages[0]


async def test_a_plain_open_page_that_never_ends_is_left_alone() -> None:
    called, release = threading.Event(), threading.Event()

    def never_end(_: str) -> None:
        called.set()
        release.wait()

    async def pass_the_time() -> None:
        while not called.is_set():
            await trio.sleep(0.01)
        await pass_time(20)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pass_the_time)
            with pytest.raises(AuthorizationFailed, match="login_timeout"):
                async with open_client(
                    ProtectedScript().parameters(), auth=OAuth(open_page=never_end, login_timeout=20)
                ):
                    pass
    finally:
        release.set()


def _raises(url: str) -> None:
    raise RuntimeError(f"cannot open {url} SECRET")


async def _raises_later(url: str) -> None:
    await trio.lowlevel.checkpoint()
    _raises(url)


@pytest.mark.parametrize("open_page", [_raises, _raises_later])
async def test_what_open_page_raises_is_only_for_the_caller(
    open_page: OpenPage, caplog: pytest.LogCaptureFixture
) -> None:
    """It may have the code and the state in it, which are good for a login."""
    caplog.set_level("DEBUG")
    with pytest.raises(AuthorizationFailed, match=r"^open_page raised RuntimeError$") as caught:
        async with open_client(ProtectedScript().parameters(), auth=OAuth(open_page=open_page)):
            pass
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "SECRET" in str(caught.value.__cause__)
    assert "SECRET" not in caplog.text
    assert "state=" not in caplog.text


async def test_open_page_returns_a_url_or_nothing() -> None:
    def shown(url: str) -> int:
        return len(url)

    wrong: Any = shown
    with pytest.raises(AuthorizationFailed, match=r"open_page must return None, or the URL .*, and not int"):
        async with open_client(ProtectedScript().parameters(), auth=OAuth(open_page=wrong)):
            pass


async def test_what_open_page_raises_after_the_answer_changes_nothing() -> None:
    script = ProtectedScript()

    async def open_page(url: str) -> None:
        await fetch(script.visit(url))
        raise RuntimeError("too late")

    async with open_client(script.parameters(), auth=OAuth(open_page=open_page)) as client:
        await client.call_tool("one")


async def test_silent_connections_do_not_keep_the_answer_away() -> None:
    """Any page can open them, to any port of this machine, and they may stay for ten seconds."""
    async with open_listener(None) as listener, AsyncExitStack() as stack:
        port = urlsplit(listener.redirect_uri).port
        assert port is not None
        silent = [
            await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port)) for _ in range(40)
        ]
        assert (await fetch(f"{listener.redirect_uri}?state=x"))[0] == 400
        assert await silent[0].receive_some() == b"", "the oldest have given way"


async def test_cancelled_nothing_is_left() -> None:
    uris: list[str] = []
    with trio.CancelScope() as scope:
        async with open_listener(None) as listener:
            uris.append(listener.redirect_uri)
            scope.deadline = trio.current_time() + 0.05
            await listener.wait_answer(lambda _: True)
    with pytest.raises(OSError):
        await fetch(uris[0])


async def test_a_login_through_the_listener() -> None:
    """As users have it, but for the browser."""
    script = ProtectedScript()

    async def browse(answer: str) -> None:
        assert (await fetch(answer))[0] == 200

    async def open_page(url: str) -> None:
        await browse(script.visit(url))

    auth = OAuth(open_page=open_page)
    async with open_client(script.parameters(), auth=auth) as client:
        await client.call_tool("one")
        script.tokens.clear()
        script.refresh_tokens.clear()
        await client.call_tool("two")
    assert len(script.pages) == 2
    redirects = {parse_qs(urlsplit(page).query)["redirect_uri"][0] for page in script.pages}
    assert len(redirects) == 1, "the port that was registered is used again"
    assert len(script.at("/register")) == 1


# The file that processes share.

WRITER = """
import sys, trio
from trio_mcp import FileTokenStore

async def main():
    store = FileTokenStore(sys.argv[1])
    for n in range(20):
        async with store.exclusive("counter"):
            count = int(await store.get("counter") or 0)
            await store.set("counter", str(count + 1))
        await store.set(f"{sys.argv[2]} {n}", "x")

trio.run(main)
"""


def test_processes_share_a_file_without_losing_anything(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name],
            env={**unmeasured(), "PYTHONPATH": str(ROOT)},
        )
        for name in ("one", "two")
    ]
    for writer in writers:
        assert writer.wait(60) == 0

    async def read() -> None:
        store = FileTokenStore(path)
        assert await store.get("counter") == "40"
        assert await store.get("one 19") == "x"
        assert await store.get("two 0") == "x"
        await store.delete("two 0")
        assert await store.get("two 0") is None

    trio.run(read)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(tmp_path.glob(".tokens.json.*")), "nothing half written is left"
