"""The port that a browser brings the answer to: which requests it takes, and what is left of it."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import trio
import trio.testing
from authorization_pages import shows
from inside_oauth import open_listener
from oauth_script import ProtectedScript
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
    with trio.fail_after(10):
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
    with trio.fail_after(10):
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


async def test_silent_connections_do_not_keep_the_answer_away() -> None:
    """Any page can open them, to any port of this machine, and they may stay for ten seconds."""
    async with open_listener(None) as listener, AsyncExitStack() as stack:
        port = urlsplit(listener.redirect_uri).port
        assert port is not None
        silent = [
            await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port)) for _ in range(40)
        ]
        with trio.fail_after(5):
            assert (await fetch(f"{listener.redirect_uri}?state=x"))[0] == 400
            assert await silent[0].receive_some() == b"", "the oldest have given way"


async def test_cancelled_nothing_is_left() -> None:
    uris: list[str] = []
    with trio.fail_after(10):
        with trio.move_on_after(0.05):
            async with open_listener(None) as listener:
                uris.append(listener.redirect_uri)
                await listener.wait_answer(lambda _: True)
        with pytest.raises(OSError):
            await fetch(uris[0])


@pytest.mark.parametrize("uri", ["https://127.0.0.1/x", "http://example.com/x", "com.example:/x"])
async def test_elsewhere_nobody_listens(uri: str) -> None:
    with pytest.raises(AuthorizationFailed, match="open_page"):
        async with open_listener(uri):
            pass


async def test_a_login_through_the_listener() -> None:
    """As users have it, but for the browser."""
    script = ProtectedScript()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:

            async def browse(answer: str) -> None:
                assert (await fetch(answer))[0] == 200

            def open_page(url: str) -> None:
                nursery.start_soon(browse, script.visit(url))

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
            env={**unmeasured(), "PYTHONPATH": str(Path(__file__).parents[2])},
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


async def test_a_file_that_others_could_read_is_closed_to_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens.json"
    path.write_text('{"a": "b"}')
    path.chmod(0o644)
    assert await FileTokenStore(path).get("a") == "b"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "could be read by others" in caplog.text


@pytest.mark.parametrize("content", ["[]", "{", '{"a": 5}', '"s3cret', "x" * 2_000_000])
async def test_a_file_with_something_else_is_reported_and_not_shown(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(content)
    with pytest.raises(AuthorizationFailed, match=r"tokens\.json") as failed:
        await FileTokenStore(path).get("a")
    assert "s3cret" not in str(failed.value)
    assert path.read_text() == content


async def test_what_does_not_fit_into_the_file_costs_nothing_else(tmp_path: Path) -> None:
    """What is kept comes from authorization servers: none of them makes the tokens of others unreadable."""
    store = FileTokenStore(tmp_path / "tokens.json")
    await store.set("good", "token")
    with pytest.raises(AuthorizationFailed, match="larger than 1048576 bytes"):
        await store.set("huge", "x" * 1_100_000)
    assert await store.get("good") == "token"
    await store.delete("good")
    assert await store.get("good") is None
    assert not list(tmp_path.glob(".tokens.json.*"))
