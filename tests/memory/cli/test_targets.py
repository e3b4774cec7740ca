"""What a TARGET stands for: a file, a command, a configured name, a URL with headers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import SHOP, Run
from inside_cli import reached

from trio_mcp import RestartPolicy, StdioServerParameters, TcpServerParameters, WebSocketServerParameters


def configure(path: Path, **servers: Any) -> None:
    """Write an ``mcp.json``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


def test_a_file_that_is_not_there_is_a_mistake(run: Run) -> None:
    """Of the user, who is told at once."""
    done = run("list", "nowhere.py")
    assert (done.status, done.out, done.err) == (2, "", "trio-mcp: there is no file nowhere.py\n")


def test_a_name_that_nobody_knows_is_a_mistake(run: Run) -> None:
    """It is said what a TARGET can be, where names are, and which there are."""
    configure(Path("mcp.json"), **{"shop": {}, "evil\x1b": {}})
    done = run("ping", "shpo")
    assert done.status == 2
    assert done.err.startswith(
        "trio-mcp: 'shpo' is not a URL such as http://localhost:8000/mcp, not a Python file, and not a name in mcp.json, "
    )
    assert "; there are shop, evil\\x1b; a command to start a server follows --" in done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "mcp.json is not JSON: "),
        ("[]", "mcp.json must hold a JSON object"),
        ('{"mcpServers": {"a": {}}}', "mcp.json: mcpServers.a: neither command nor url"),
        ('{"mcpServers": {"a": {"url": "x", "disabled": true}}}', "mcp.json: a is disabled"),
        (
            '{"mcpServers": {"a": {"url": "${NO_SUCH}"}}}',
            "mcp.json: mcpServers.a.url: the environment variable NO_SUCH is not set; ",
        ),
        (
            '{"mcpServers": {"a": {"command": 5}}}',
            "mcp.json: mcpServers.a.command: expected a string, not a number",
        ),
        # what is wrong with others, or with what is for other programs, changes nothing
        (
            f"""{{"mcpServers": {{"a": {{"url": "x", "disabled": true, "b": {"9" * 5_000}}}, "b": 1, "b": 2}}}}""",
            "mcp.json: a is disabled",
        ),
        (
            '{"mcpServers": {"a": {"url": "x"}, "a": {"url": "y"}}}',
            "mcp.json: mcpServers.a: expected an object with command or url, not two values: the name is there twice",
        ),
        (
            '{"mcpServers": {"a": null}}',
            "mcp.json: mcpServers.a: expected an object with command or url, not null",
        ),
    ],
)
def test_a_configuration_that_cannot_be_used_is_a_mistake(run: Run, text: str, message: str) -> None:
    """It is said in which file, and of which server."""
    Path("mcp.json").write_text(text)
    done = run("ping", "a")
    assert (done.status, done.err.startswith(f"trio-mcp: {message}")) == (2, True)


def test_a_configuration_that_is_named_is_used(run: Run) -> None:
    """If it is missing, that is said; and with what is no name it makes no sense."""
    missing = run("ping", "live", "--config", "nowhere.json")
    assert (missing.status, missing.err) == (2, "trio-mcp: there is no file nowhere.json (--config)\n")
    for words in ((str(SHOP),), ("http://127.0.0.1:9/mcp",)):
        done = run("ping", *words, "--config", "nowhere.json")
        assert (done.status, "--config is for servers that are given by a name" in done.err) == (2, True)


async def test_who_listens_connects_again_to_a_url() -> None:
    """A deploy does not end it, as it does not over HTTP; a process that has exited is not started again."""
    again = RestartPolicy(max_restarts=10)
    own = WebSocketServerParameters("ws://x/", restart=RestartPolicy(max_restarts=1))
    for given, kept in (
        ("ws://x/", WebSocketServerParameters("ws://x/", restart=again)),
        (TcpServerParameters("x", 1), TcpServerParameters("x", 1, restart=again)),
        (own, own),
        (StdioServerParameters("x"), StdioServerParameters("x")),
    ):
        async with reached(given, is_kept=True) as target:
            assert target == kept
        async with reached(given) as target:
            assert target == given
