"""Logging in from a terminal: the browser, the file of tokens, and what later commands make of it."""

from __future__ import annotations

import importlib
import socket
import stat
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trio
from commands import Run
from hypercorn.config import Config
from oauth_script import ProtectedScript
from shared.cli_login import browser as browser
from terminals import at_terminal
from unmeasured import unmeasured


@pytest.fixture
def script() -> Generator[ProtectedScript]:
    """Return a protected server, which a thread of this process serves."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        script = ProtectedScript(origin=f"http://127.0.0.1:{listener.getsockname()[1]}")
        config = Config()
        config.bind = [f"fd://{listener.fileno()}"]
        config.errorlog = config.accesslog = None
        done: list[trio.Event] = []
        tokens: list[trio.lowlevel.TrioToken] = []
        ready = threading.Event()

        async def main() -> None:
            done.append(trio.Event())
            tokens.append(trio.lowlevel.current_trio_token())
            ready.set()
            hypercorn: Any = importlib.import_module("hypercorn.trio")  # whose types are not all known
            await hypercorn.serve(script, config, shutdown_trigger=done[0].wait)

        thread = threading.Thread(target=trio.run, args=(main,))
        thread.start()
        ready.wait()
        try:
            yield script
        finally:
            tokens[0].run_sync_soon(done[0].set)
            thread.join()
            listener.detach()


@pytest.mark.usefixtures("browser")
@pytest.mark.skipif(sys.platform != "linux", reason="where files of users are depends on the system")
def test_a_login_is_kept_for_later_commands_until_it_is_forgotten(
    run: Run, script: ProtectedScript, tmp_path: Path
) -> None:
    refused = run("ping", script.url)
    assert refused.status == 4
    assert refused.err.endswith("wants a login (--auth), or a token (--header): HTTP status 401\n")

    logged_in = run("login", script.url)
    assert (logged_in.status, logged_in.out) == (
        0,
        f"logged in at {script.url}, as far as it wants that; so are commands with --auth\n",
    )
    assert f"{script.origin}/authorize?" in logged_in.err
    file = tmp_path / "home" / ".local" / "state" / "trio-mcp" / "tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    called = run("call", script.url, "reserve", "--auth")
    assert (called.status, called.out, called.err) == (0, "done\n", "")
    assert len(script.pages) == 1

    logged_out = run("logout", script.url)
    assert (logged_out.status, logged_out.out) == (0, f"logged out of {script.url}\n")
    assert [each.form["token"] for each in script.at("/revoke")] == ["refresh-1"]
    assert "access-1" not in file.read_text()
    assert run("logout", script.url).status == 1


@pytest.mark.parametrize("command", ["login", "ping --auth", "logout"])
def test_options_that_do_not_go_with_a_login_are_refused_before_anything_is_asked(
    run: Run, script: ProtectedScript, command: str
) -> None:
    name, *more = command.split()
    done = run(name, script.url, *more, "--header", "authorization:Bearer x")
    assert (done.status, "--header Authorization" in done.err) == (2, True)
    done = run(name, script.url, *more, "--issuer", "javascript:x")
    assert (done.status, "--issuer must be an https URL" in done.err) == (2, True)
    done = run(name, script.url, *more, "--client-id", "")
    assert (done.status, "client_id must not be empty" in done.err) == (2, True)
    assert not script.asked
    assert not script.seen


@pytest.mark.usefixtures("browser")
def test_a_client_id_is_shown_to_the_first_authorization_server_alone(run: Run, script: ProtectedScript) -> None:
    assert run("login", script.url, "--client-id", "x").status == 0
    first = script.server["issuer"]
    second = script.move()
    script.tokens.clear()
    script.refresh_tokens.clear()
    done = run("login", script.url, "--client-id", "x")
    assert done.status == 1
    assert f"the client x was first used at {first}, and {script.url} names {second}" in done.err
    assert "--issuer" in done.err


@pytest.mark.usefixtures("browser")
@pytest.mark.skipif(sys.platform != "linux", reason="where files of users are depends on the system")
def test_what_is_printed_and_recorded_shows_no_secret(run: Run, script: ProtectedScript, tmp_path: Path) -> None:
    """In the middle of a login, a refresh, and a revocation."""
    record = tmp_path / "record.jsonl"
    shown: list[str] = []
    for _ in range(2):
        done = run("call", script.url, "reserve", "--auth", "--wire", "--record", str(record))
        shown += [done.out, done.err, record.read_text()]
        assert done.status == 0, done.err
        assert "tools/call" in done.err
        script.tokens.clear()
    shown.append(run("logout", script.url).err)
    assert script.grants() == ["authorization_code", "refresh_token"]
    verifiers = [each.form["code_verifier"] for each in script.at("/token") if "code_verifier" in each.form]
    text = "".join(shown)
    for secret in ("access-1", "access-2", "refresh-1", "refresh-2", "code-1", *verifiers):
        assert secret not in text, secret
    assert "Authorization" not in text


# Without a browser.


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
def test_where_a_login_ends_can_be_pasted(script: ProtectedScript, tmp_path: Path) -> None:
    """The browser is on another machine, where nothing listens: the person copies the address that it shows."""
    env = {**unmeasured(), "HOME": str(tmp_path), "BROWSER": "false", "COLUMNS": "5000"}
    with at_terminal("login", script.url, "--no-browser", env=env) as terminal:
        terminal.wait_for("To log in, open this page in a browser:\r\n  ")
        page = terminal.wait_for("\r\n").strip()
        terminal.wait_for(
            "It ends at an address that begins with http://127.0.0.1 and need not show anything: paste it"
        )
        terminal.wait_for("address: ")
        there = script.visit(page)
        assert there.startswith("http://127.0.0.1:")
        terminal.type("nonsense\n")
        terminal.wait_for("That is not where this login ends")
        terminal.wait_for("address: ")
        terminal.type(f"{there.replace('state=', 'state=x')}\n")
        terminal.wait_for("That is not where this login ends")
        terminal.wait_for("address: ")
        terminal.type(f"  {there}\n")
        terminal.wait_for(f"logged in at {script.url}")
        assert terminal.wait() == 0
    assert [each.form["code"] for each in script.at("/token")] == ["code-1"]
    assert parse_qs(urlsplit(page).query)["redirect_uri"] == [there.partition("?")[0]]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
def test_an_address_of_another_machine_is_asked_for(script: ProtectedScript, tmp_path: Path) -> None:
    """It is registered for a client, and nothing can listen there."""
    env = {**unmeasured(), "HOME": str(tmp_path), "BROWSER": "false", "COLUMNS": "5000"}
    uri = "https://reader.example/callback"
    with at_terminal("login", script.url, "--client-id", "reader", "--redirect-uri", uri, env=env) as terminal:
        page = terminal.wait_for("address: ").partition("browser:\r\n  ")[2].partition("\r\n")[0].strip()
        there = script.visit(page)
        assert there.startswith(f"{uri}?")
        terminal.type(f"{there}\n")
        terminal.wait_for(f"logged in at {script.url}")
        assert terminal.wait() == 0
    assert script.at("/token")[0].form["redirect_uri"] == uri


@pytest.mark.usefixtures("browser")
def test_an_answer_comes_to_the_address_that_is_registered(run: Run, script: ProtectedScript) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    uri = f"http://127.0.0.1:{port}/registered"
    done = run("login", script.url, "--client-id", "reader", "--redirect-uri", uri)
    assert done.status == 0, done.err
    assert script.at("/token")[0].form["redirect_uri"] == uri


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
def test_a_login_without_a_browser_may_still_come_by_itself(script: ProtectedScript, tmp_path: Path) -> None:
    """Over a forwarded port, or by a browser of this machine after all."""
    env = {**unmeasured(), "HOME": str(tmp_path), "BROWSER": "false", "COLUMNS": "5000"}
    with at_terminal("login", script.url, "--no-browser", env=env) as terminal:
        terminal.wait_for("To log in, open this page in a browser:\r\n  ")
        there = urlsplit(script.visit(terminal.wait_for("\r\n").strip()))
        assert there.hostname is not None
        terminal.wait_for("address: ")
        terminal.type("\x04")
        with socket.create_connection((there.hostname, there.port or 80)) as stream:
            stream.sendall(f"GET {there.path}?{there.query} HTTP/1.1\r\nHost: {there.netloc}\r\n\r\n".encode())
            terminal.wait_for(f"logged in at {script.url}")
        assert terminal.wait() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="where files of users are depends on the system")
def test_a_code_can_be_entered_elsewhere(run: Run, script: ProtectedScript) -> None:
    code = {
        "device_code": "d",
        "user_code": "ABCD",
        "verification_uri": f"{script.origin}/device",
        "expires_in": 99,
    }
    code |= {"verification_uri_complete": f"{script.origin}/device?c=ABCD", "interval": 1}
    script.server["device_authorization_endpoint"] = f"{script.origin}/device_authorization"
    script.answers["/device_authorization"] = [(200, code)]
    script.answers["/token"] = [
        (400, {"error": "authorization_pending"}),
        (200, {"access_token": "access-1", "token_type": "Bearer"}),
    ]
    script.tokens["access-1"] = frozenset()
    done = run("login", script.url, "--device")
    assert (done.status, done.out) == (
        0,
        f"logged in at {script.url}, as far as it wants that; so are commands with --auth\n",
    )
    assert done.err == (
        f"To log in, open {script.origin}/device and enter the code ABCD\n"
        f"  or open {script.origin}/device?c=ABCD\n"
    )
    assert run("login", script.url, "--device", "--no-browser").status == 2


# What a refusal says.


def test_who_has_sent_a_token_is_told_what_is_wrong_with_it(run: Run, script: ProtectedScript) -> None:
    script.tokens["good"] = frozenset({"mcp"})
    script.needs["tools/call"] = "bank:read bank:write"
    done = run("ping", script.url, "--header", "Authorization: Bearer nonsense")
    assert (done.status, done.err) == (
        4,
        (
            f"trio-mcp: {script.url} refused the request with HTTP status 401 (invalid_token); it asks for the scope 'mcp'; "
            "the token that was sent is not accepted\n"
        ),
    )
    done = run("ping", script.url, "--header", "Authorization: other")
    assert (done.status, done.err) == (
        4,
        (
            f"trio-mcp: {script.url} refused the request with HTTP status 401 (invalid_token); it asks for the scope 'mcp'; "
            "the field Authorization that was sent must begin with 'Bearer ', before the token\n"
        ),
    )
    done = run("call", script.url, "pay", "--header", "Authorization: Bearer good")
    assert (done.status, done.err) == (
        4,
        (
            f"trio-mcp: {script.url} refused the request with HTTP status 403 (insufficient_scope); it asks for the scope "
            """'bank:read bank:write': {"error": "no"}\n"""
        ),
    )
    assert run("ping", script.url).err.endswith(
        "wants a login (--auth), or a token (--header): HTTP status 401\n"
    )
