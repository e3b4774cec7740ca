"""What a TARGET stands for: a file, a command, a configured name, a URL with headers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import SHOP, Run
from http_process import HttpProcess
from places import EXAMPLES, ROOT


def configure(path: Path, **servers: Any) -> None:
    """Write an ``mcp.json``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


def entry(**more: Any) -> dict[str, Any]:
    """Return an entry that starts the shop."""
    return {"command": sys.executable, "args": ["-m", "trio_mcp", "run", str(SHOP)], **more}


def paths() -> dict[str, str]:
    """Return the variables with which a process finds this package, wherever the tests have it from."""
    return {"PYTHONPATH": str(ROOT)}


def test_a_file_is_run_by_this_interpreter(run: Run) -> None:
    """It need not run itself."""
    done = run("call", SHOP, "add", "a=20", "b=22")
    assert (done.status, done.out, done.err) == (0, "42\n", "")
    assert run("call", f"{SHOP}:server", "add", "a=1", "b=2").out == "3\n"


def test_a_file_without_a_server_cannot_be_reached(run: Run, tmp_path: Path) -> None:
    """The process says why on its standard error, which is shown harmless."""
    (tmp_path / "empty.py").write_text("print('\\x1b[31mhello')")
    done = run("list", tmp_path / "empty.py")
    assert (done.status, done.out) == (4, "")
    assert "\\x1b[31mhello\n" in done.err
    assert "has no server: no variable of the module is a trio_mcp.Server" in done.err
    assert "exited with status 2" in done.err.splitlines()[-1]
    assert "\x1b" not in done.err


def test_a_command_follows_two_dashes(run: Run) -> None:
    """With its own options; it gets the environment of the terminal."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / "calculator.py")]
    done = run("call", "divide", "a=84", "b=2", "--", *command)
    assert (done.status, done.out, done.err) == (0, "42\n", "")
    assert run("list", "tools", "--", *command).out.startswith("add(a, b)")


def test_a_command_that_is_not_there_cannot_be_started(run: Run) -> None:
    """It is said which."""
    done = run("ping", "--", "no-such-program-anywhere")
    assert (done.status, done.out) == (4, "")
    assert "no-such-program-anywhere" in done.err


@pytest.mark.parametrize("place", ["mcp.json", ".mcp.json", "../home/.config/mcp/mcp.json"])
def test_a_name_is_found_where_such_files_are(run: Run, place: str) -> None:
    """In the current directory, where it is said what is started and nothing that is secret, then the user's."""
    configure(Path(place), shop=entry(env=paths(), args=[*entry()["args"], "--", "--token", "hush"]))
    done = run("call", "shop", "add", "a=1", "b=2")
    assert done.out == "3\n"
    said = (
        f"trio-mcp: {place} in this directory starts shop: {sys.executable} -m trio_mcp run {SHOP} -- --token …\n"
    )
    assert (said in done.err) is not place.startswith("..")
    assert "hush" not in done.err


def test_the_first_file_that_has_the_name_counts(run: Run, shop: str, tmp_path: Path) -> None:
    """A project's file is before the user's; one that is given is the only one."""
    configure(Path("mcp.json"), shop={"url": shop})
    configure(Path(".mcp.json"), shop={"url": "http://127.0.0.1:9/"}, other={"url": shop})
    configure(tmp_path / "given.json", third={"url": shop})
    assert run("ping", "shop").status == run("ping", "other").status == 0
    assert run("ping", "third", "--config", tmp_path / "given.json").status == 0
    done = run("ping", "shop", "--config", tmp_path / "given.json")
    assert (done.status, "; there are third; " in done.err) == (2, True)


def test_variables_are_expanded(run: Run, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the environment, or to what is given otherwise; in VS Code's file as well."""
    monkeypatch.setenv("SHOP", shop)
    monkeypatch.delenv("ELSEWHERE", raising=False)
    Path("mcp.json").write_text(
        '{"servers": {"a": {"url": "${SHOP}"}, "b": {"url": "${ELSEWHERE:-gopher://x}"}}}'
    )
    assert run("ping", "a").status == 0
    assert "gopher" in run("ping", "b").err


def test_headers_are_for_http(run: Run, shop: str) -> None:
    """What is wrong with one is said without repeating it, for it may be a secret."""
    assert run("ping", shop, "--header", "X-Token: secret").status == 0
    malformed = run("ping", shop, "--header", "sesame")
    assert (malformed.status, malformed.err) == (2, "trio-mcp: --header must be 'Name: value'\n")
    elsewhere = run("ping", SHOP, "--header", "X-Token: secret")
    assert elsewhere.status == 2
    assert "--header is for servers that are reached over HTTP or a WebSocket, not for" in elsewhere.err
    assert "secret" not in elsewhere.err
    refused = run("ping", shop, "--header", "Content-Type: text/html")
    assert (refused.status, "set by the library" in refused.err) == (2, True)


def test_headers_go_with_the_handshake_of_a_websocket(run: Run) -> None:
    """Of a URL and of a configured name; a refusal is shown as over HTTP."""
    guarded = HttpProcess(
        SHOP.with_name("guarded.py"), env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")}, how=("guarded",)
    )
    try:
        url = guarded.url
        assert url.startswith("ws://")
        assert run("call", url, "who", "--header", "Authorization: Bearer sesame").out == "alice\n"
        configure(Path("mcp.json"), live={"url": url, "headers": {"Authorization": "Bearer sesame", "X": "y"}})
        assert run("call", "live", "who", "--header", "X: z").out == "alice\n"
        refused = run("call", url, "who", "--header", "Authorization: Bearer hush")
        assert refused.status == 4
        assert refused.err.endswith(
            "/mcp refused the request with HTTP status 401; the token that was sent is not accepted: not this token\n"
        )
        assert "hush" not in refused.err
        malformed = run("call", url, "who", "--header", "Sec-WebSocket-Key: hush")
        assert (malformed.status, "set by the library" in malformed.err) == (2, True)
    finally:
        guarded.terminate()
        guarded.wait()


def test_what_may_be_secret_in_a_url_is_not_repeated(run: Run) -> None:
    """Messages end up in logs."""
    done = run("ping", "http://127.0.0.1:9/mcp?token=hush")
    assert done.status == 4
    assert "cannot connect to http://127.0.0.1:9/mcp?…: " in done.err
    assert "hush" not in done.err


def test_what_a_process_writes_is_marked(run: Run, tmp_path: Path) -> None:
    """It is another program's, however it begins."""
    script = "import sys; print('trio-mcp: your token has expired', file=sys.stderr); sys.exit(3)"
    done = run("ping", "--", sys.executable, "-c", script)
    assert done.status == 4
    assert done.err.startswith("| trio-mcp: your token has expired\n")
    assert [line for line in done.err.splitlines() if line.startswith("trio-mcp: your")] == []
