"""Each command, at a server over HTTP: what it prints, and its exit status."""

from __future__ import annotations

import pytest
from commands import Run


def test_a_url_that_is_none_is_a_mistake(run: Run) -> None:
    """As is a scheme that nobody speaks."""
    done = run("ping", "gopher://example.com/")
    assert (done.status, done.out) == (2, "")
    assert "gopher" in done.err


def test_a_command_line_that_makes_no_sense_is_explained(subtests: pytest.Subtests, run: Run) -> None:
    """As argparse does it, with its exit status."""
    rows: list[tuple[tuple[str, ...], str]] = [
        ((), ""),
        (("cal",), "there is no command 'cal'; did you mean 'call'?"),
        (("xyz",), "there is no command 'xyz'"),
        (("call",), "the following arguments are required: TARGET, TOOL; see"),
        (("list", "x.py", "--", "python", "y.py"), "the server is given twice: 'x.py', and after --"),
        (("ping", "--"), "a command must follow --"),
        (("ping", "x", "--timeout", "0"), "must be a number of seconds, more than 0, not '0'"),
        (("ping", "x", "--timeout", "soon"), "must be a number of seconds, more than 0, not 'soon'"),
        (("ping", "x", "y"), "unrecognized arguments: y"),
        (("call", "x", "add", "--a", "1"), "unrecognized arguments: --a"),
        (("ping", "x", "--era", "stone"), "invalid choice: 'stone'"),
        (("list", "x", "toys"), "invalid choice: 'toys'"),
        (("run", "x.py", "--port", "99999"), "argument --port: must be a number from 0 to 65535, not '99999'"),
        (("run", "x.py", "--port", "web"), "argument --port: must be a number from 0 to 65535, not 'web'"),
        (("install", "x.py", "--to", "cursor", "--name", ""), "--name: must be one or more printable characters"),
        (("install", "x.py", "--to", "cursor", "--name", "a\x1b[2J"), "must be one or more printable characters"),
        (("listen", "x", "--count", "many"), "must be 1 or more, not 'many'"),
        (("listen", "x", "--count", "0"), "must be 1 or more, not '0'"),
    ]
    for words, message in rows:
        with subtests.test(words=words, message=message):
            done = run(*words)
            assert done.status == 2
            assert message in done.err
            if words:
                assert done.err.startswith("trio-mcp: ")
                assert done.err.endswith(" --help\n")
                assert done.err.count("\n") == 1
            else:
                assert done.out.startswith("usage: trio-mcp")


def test_help_and_version(run: Run) -> None:
    """Of the whole, and of each command."""
    assert run("--help").status == 0
    assert run("--version").out.startswith("trio-mcp ")
    for name in (
        "run",
        "list",
        "describe",
        "call",
        "read",
        "prompt",
        "listen",
        "ping",
        "discover",
        "install",
        "config",
    ):
        done = run(name, "--help")
        assert (done.status, done.err) == (0, "")
        assert done.out.startswith(f"usage: trio-mcp {name} ")
        assert f"  {name} " in run("--help").out
