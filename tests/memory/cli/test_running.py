"""``run``: which server of a file is served, over what, and what is said if it cannot be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from commands import SHOP, Run
from inside_cli import command_of, read_command_line

from trio_mcp import Server

TWO = """
from trio_mcp import Server
one = Server("one")
two = Server("two")
alias = two
number = 5
"""


def test_a_path_that_is_taken_is_one_line(run: Run) -> None:
    """Likewise."""
    Path("it").write_text("")
    done = run("run", SHOP, "--transport", "unix", "--path", "it")
    assert (done.status, done.out, done.err) == (
        1,
        "",
        (
            "trio-mcp: cannot listen at it: the file there is no socket; "
            "stop what listens there, or choose another port or path\n"
        ),
    )


def test_which_server_is_meant_must_be_clear(subtests: pytest.Subtests, run: Run) -> None:
    """Else it is said what there is."""
    rows: list[tuple[str, str]] = [
        ("nowhere.py", "there is no file nowhere.py"),
        ("nowhere.py:x", "there is no file nowhere.py"),
        ("two.py", "two.py has several servers; its servers are one, two, alias; name one: two.py:one"),
        ("two.py:three", "two.py has no three; its servers are one, two, alias"),
        ("two.py:number", "number in two.py is an int, not a Server"),
        ("none.py", "none.py has no server: no variable of the module is a trio_mcp.Server"),
        ("text.txt", "text.txt is not a Python file"),
    ]
    for spec, message in rows:
        with subtests.test(spec=spec, message=message):
            Path("two.py").write_text(TWO)
            Path("none.py").write_text("a = 1")
            Path("text.txt").write_text("a")
            done = run("run", spec)
            assert (done.status, done.out, done.err) == (2, "", f"trio-mcp: {message}\n")


def test_what_cannot_be_served_is_explained(subtests: pytest.Subtests, run: Run) -> None:
    """Nothing has begun."""
    rows: list[tuple[tuple[str, ...], str]] = [
        (("--transport", "pigeon"), "invalid choice: 'pigeon'"),
        (("--transport", "http", "--path", "no-slash"), "must be a path that begins with a slash"),
        (("--port", "80"), "--port does not go with --transport stdio"),
        (("--transport", "tcp", "--port", "0", "--path", "/x"), "--path does not go with --transport tcp"),
        (("--transport", "unix", "--host", "::1"), "--host does not go with --transport unix"),
        (("--transport", "unix"), "--transport unix needs the --path of the socket"),
        (("--transport", "tcp", "--host", "a" * 64), "is no name of a host: "),
        (("--allow-host", "a.example"), "--allow-host does not go with --transport stdio"),
        (("--transport", "tcp", "--allow-host", "a.example"), "--allow-host does not go with --transport tcp"),
        (("--transport", "sse", "--allow-host", "http://a.example"), "an allowed host must be like example.com"),
        (("--reload",), "--reload needs a --transport over which clients come again"),
    ]
    for words, message in rows:
        with subtests.test(words=words, message=message):
            done = run("run", SHOP, *words)
            assert (done.status, message in done.err) == (2, True)


def test_names_by_which_clients_may_reach_it(
    subtests: pytest.Subtests, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container others reach it, and all that they ask for would be refused; what to write is said at the start."""
    given: list[dict[str, Any]] = []

    def run_server(_self: Server[Any], _transport: str, **options: Any) -> None:
        given.append(options)

    monkeypatch.setattr(Server, "run", run_server)
    said = "only clients that call it localhost are let in; for others add --allow-host "
    rows: list[tuple[tuple[str, ...], str]] = [
        (("--host", "0.0.0.0"), f"{said}NAME, the name in their URL\n"),
        (("--host", "::"), f"{said}NAME, the name in their URL\n"),
        (("--host", "192.0.2.1"), f"{said}192.0.2.1\n"),
        (("--host", "2001:db8::1"), f"{said}[2001:db8::1]\n"),
        (("--host", "127.0.0.1"), ""),
        (("--host", "localhost"), ""),
        ((), ""),
        (("--host", "0.0.0.0", "--allow-host", "a.example", "--allow-host", "b.example:80"), ""),
    ]
    for transport in ("streamable-http", "sse", "websocket"):
        for words, line in rows:
            with subtests.test(transport=transport, words=words):
                given.clear()
                assert run("run", SHOP, "--transport", transport, *words).err == line
                (options,) = given
                if "--allow-host" in words:
                    assert options["settings"].allowed_hosts >= {"localhost", "a.example", "b.example:80"}
                else:
                    assert "settings" not in options
    given.clear()
    assert run("run", SHOP, "--transport", "tcp", "--host", "0.0.0.0").err == ""


def test_a_server_that_starts_again_lets_the_same_in() -> None:
    """Its command is made of the options."""
    _, options = read_command_line(
        ["run", str(SHOP), "--transport", "sse", "--allow-host", "a", "--allow-host", "b"]
    )
    assert command_of(options)[-4:] == ["--allow-host", "a", "--allow-host", "b"]


def test_reloading_needs_watchfiles(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said how to get it."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    done = run("run", SHOP, "--reload", "--transport", "streamable-http")
    assert (done.status, done.out) == (2, "")
    assert done.err == "trio-mcp: --reload needs the package watchfiles: pip install 'trio-mcp[reload]'\n"
