"""The port that a browser brings the answer to: which requests it takes, and what is left of it."""

from __future__ import annotations

import os
import stat
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import trio
from authorization_pages import shows
from inside_oauth import open_listener, path_for
from logging_in import ISSUER, open_person
from oauth_script import ProtectedScript, oauth

from trio_mcp import AuthorizationFailed, FileTokenStore, MemoryTokenStore, TokenStore, open_client
from trio_mcp.testing import AuthorizationServer


@shows("Mix-Up Attacks")
async def test_an_authorization_server_sends_no_code_to_the_path_of_another() -> None:
    """One that was asked to by a third: the browser comes with what this client has sent elsewhere."""
    authorization = AuthorizationServer(issuer=ISSUER)
    authorization.add_client("ours", redirect_uris=[f"http://127.0.0.1{path_for(ISSUER)}"])
    async with open_person(authorization) as person:
        ours = f"http://127.0.0.1:5000{path_for(ISSUER)}"
        assert "code" in (await person.authorize(client_id="ours", redirect_uri=ours)).sent_back
        theirs = f"http://127.0.0.1:5000{path_for('https://evil.example')}"
        said = await person.authorize(client_id="ours", redirect_uri=theirs)
    assert said.status == 400
    assert "location" not in said.headers


async def test_a_store_that_fails_is_not_quoted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(TokenStore):
        async def get(self, key: str) -> str | None:
            await trio.lowlevel.checkpoint()
            return None

        async def set(self, key: str, value: str) -> None:
            await trio.lowlevel.checkpoint()
            raise RuntimeError(f"no room for {value} SECRET")

        async def delete(self, key: str) -> None:
            await trio.lowlevel.checkpoint()

    script = ProtectedScript()
    with pytest.raises(AuthorizationFailed, match="RuntimeError") as caught:
        async with open_client(script.parameters(), auth=oauth(script, store=Broken())):
            pass
    assert "SECRET" in str(caught.value.__cause__)
    assert "having a token failed: RuntimeError" in caplog.text
    assert "SECRET" not in caplog.text


@pytest.mark.parametrize("uri", ["https://127.0.0.1/x", "http://example.com/x", "com.example:/x"])
async def test_elsewhere_nobody_listens(uri: str) -> None:
    with pytest.raises(AuthorizationFailed, match="open_page"):
        async with open_listener(uri):
            pass


async def test_a_file_that_others_could_read_is_closed_to_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens.json"
    await FileTokenStore(path).set("a", "b")
    path.chmod(0o644)
    assert await FileTokenStore(path).get("a") == "b"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "could be read by others" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="modes mean nothing there")
@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
async def test_a_file_that_others_may_write_is_not_used(tmp_path: Path, mode: int) -> None:
    """What is in it says who is logged in, and where secrets are sent; as OpenSSH has it."""
    path = tmp_path / "tokens.json"
    await FileTokenStore(path).set("key", "value")
    before = path.read_bytes()
    path.chmod(mode)
    store = FileTokenStore(path)
    for use in (partial(store.get, "key"), partial(store.set, "key", "new"), partial(store.delete, "key")):
        with pytest.raises(AuthorizationFailed, match=rf"others may write it \(mode {mode:04o}\).*chmod 600"):
            await use()
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == mode
    path.chmod(0o600)
    assert await store.get("key") == "value"


@pytest.mark.skipif(sys.platform == "win32", reason="owners mean nothing there")
async def test_a_file_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens.json"
    store = FileTokenStore(path)
    await store.set("key", "value")
    if os.geteuid() == 0:
        os.chown(path, 4242, 4242)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with pytest.raises(AuthorizationFailed, match="another user"):
        await store.get("key")


async def test_a_file_with_something_else_is_reported_and_not_shown(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    rows: list[str] = [
        "",
        "[]",
        "{",
        '{"a": 5}',
        '{"a": "s3cret"}',
        '"s3cret',
        "\0" * 100,
        "[" * 100_000,
        '{"trio-mcp tokens": 1}',
        '{"trio-mcp tokens": 1, "entries": []}',
        '{"trio-mcp tokens": 1, "entries": {"a": "s3cret"}}',
        '{"trio-mcp tokens": 1, "entries": {"a": ["s3cret", "soon"]}}',
        '{"trio-mcp tokens": 1, "entries": {"a": [5, 5]}}',
        '{"trio-mcp tokens": 1, "entries": {"a": ["s3cret", 1e999, 1]}}',
        "x" * 2_000_000,
    ]
    for content in rows:
        with subtests.test(content=content):
            path = tmp_path / "tokens.json"
            path.write_text(content)
            path.chmod(0o644)
            store = FileTokenStore(path)
            for use in (partial(store.get, "a"), partial(store.set, "a", "b"), partial(store.delete, "a")):
                with pytest.raises(AuthorizationFailed, match=r"tokens\.json.*(FileTokenStore|larger)") as failed:
                    await use()
                assert "s3cret" not in str(failed.value)
            assert path.read_text() == content
            assert stat.S_IMODE(path.stat().st_mode) == 0o644, "whose it is is not known"


async def test_what_a_process_that_was_killed_has_left_does_not_stay(tmp_path: Path) -> None:
    for name in (".tokens.json.new", "tokens.json.lock"):
        (tmp_path / name).write_text('{"trio-mcp tokens": 1, "entries": {"half')
    store = FileTokenStore(tmp_path / "tokens.json")
    await store.set("a", "b")
    assert await store.get("a") == "b"
    assert [each.name for each in tmp_path.iterdir()] == ["tokens.json"]


async def test_a_pipe_is_no_file_of_tokens(tmp_path: Path) -> None:
    """Opening it would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AuthorizationFailed, match="not a regular file"), trio.fail_after(5):
        await FileTokenStore(tmp_path / "pipe").get("a")


@pytest.mark.parametrize("is_file", [False, True])
async def test_what_was_not_used_for_longest_gives_way(is_file: bool, tmp_path: Path) -> None:
    """Servers can name another authorization server each time, so registrations would come without end."""
    store: TokenStore
    store = FileTokenStore(tmp_path / "t", max_bytes=3_000) if is_file else MemoryTokenStore(max_bytes=3_000)
    await store.set("issuer me", "bound")
    await store.set("held", "h" * 100)
    await store.set("old", "o" * 100)
    await store.set("read", "r" * 100)
    assert await store.get("old") is not None
    async with store.exclusive("held"):
        for n in range(100):
            await store.set(f"client {n}", "x" * 200)
            assert await store.get("read") is not None
            if n < 5:
                assert await store.get("client 0") is not None
        assert await store.get("held") == "h" * 100
    assert await store.get("issuer me") == "bound", "credentials stay bound, whatever comes"
    assert await store.get("old") is None
    assert await store.get("client 0") is None
    assert await store.get("client 99") == "x" * 200
    with pytest.raises(AuthorizationFailed, match="max_bytes"):
        await store.set("huge", "x" * 3_000)
    assert await store.get("client 99") == "x" * 200, "what does not fit costs nothing else"
    if is_file:
        assert (tmp_path / "t").stat().st_size <= 3_000
        assert [each.name for each in tmp_path.iterdir()] == ["t"], "no lock is left"


async def test_what_nobody_uses_is_left_out_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileTokenStore(tmp_path / "t")
    now = time.time()
    for name in ("used", "unused", "issuer me"):
        await store.set(name, "x")
    monkeypatch.setattr(time, "time", lambda: now + 100 * 86_400)
    assert await FileTokenStore(tmp_path / "t").get("used") == "x", "which is noted"
    monkeypatch.setattr(time, "time", lambda: now + 200 * 86_400)
    await store.set("another", "x")
    assert await store.get("used") == "x"
    assert await store.get("unused") is None
    assert await store.get("issuer me") == "x"


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
