"""Configurations of servers: what is read from them, and what is said about what is wrong in them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from inside_client import read_config

from trio_mcp import (
    ConfigError,
    HttpServerParameters,
    McpError,
    RestartPolicy,
    Server,
    ServerUnavailable,
    StdioServerParameters,
    TcpServerParameters,
    WebSocketServerParameters,
    open_clients,
)

ENVIRONMENT = {"TOKEN": "secret", "HOME": "/home/x", "EMPTY": ""}


async def read(config: Any) -> dict[str, Any]:
    return {name: entry.target for name, entry in (await read_config(config, ENVIRONMENT)).items()}


async def problems_of(config: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        await read(config)
    return caught.value.problems


async def test_an_entry_with_a_command_is_a_process() -> None:
    """It is started again when it dies, by the default policy."""
    entry = {"command": "uvx", "args": ["mcp-server-time"], "env": {"A": "b"}, "cwd": "/tmp", "type": "stdio"}
    assert await read({"mcpServers": {"time": entry}}) == {
        "time": StdioServerParameters(
            "uvx", ["mcp-server-time"], env={"A": "b"}, cwd="/tmp", restart=RestartPolicy()
        )
    }


@pytest.mark.parametrize("kind", ["", "ws", "websocket"])
async def test_headers_go_with_the_handshake_of_a_websocket(kind: str) -> None:
    """With the rules of header fields over HTTP; and it is connected to again when it is lost, also without any."""
    entry = {"url": "wss://example.com/mcp", "type": kind or None, "headers": {"Authorization": "${TOKEN}"}}
    (made,) = (await read({"servers": {"live": entry}})).values()
    again = RestartPolicy(max_restarts=10)
    headers = {"Authorization": "secret"}
    assert made == WebSocketServerParameters("wss://example.com/mcp", headers=headers, restart=again)
    assert await read({"servers": {"live": {"url": "ws://x/"}, "line": {"url": "tcp://x:1"}}}) == {
        "live": WebSocketServerParameters("ws://x/", restart=again),
        "line": TcpServerParameters("x", 1, restart=again),
    }
    for name in ("Sec-WebSocket-Protocol", "host", "Upgrade"):
        (problem,) = await problems_of({"servers": {"live": {"url": "ws://x/", "headers": {name: "${TOKEN}"}}}})
        assert problem == f"servers.live: the header {name} is set by the library; leave it out"


@pytest.mark.parametrize(
    ("more", "transport"),
    [
        ({}, "auto"),
        ({"type": "http"}, "auto"),
        ({"type": "streamable-http"}, "streamable-http"),
        ({"transport": "streamableHttp"}, "streamable-http"),
        ({"type": "sse"}, "sse"),
    ],
)
async def test_an_entry_with_a_url_is_a_server_there(more: dict[str, Any], transport: Any) -> None:
    """By the transport that it names; Visual Studio Code means both by "http"."""
    entry = {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer x"}, **more}
    (made,) = (await read({"servers": {"web": entry}})).values()
    assert isinstance(made, HttpServerParameters)
    assert (made.url, made.headers, made.transport) == (entry["url"], entry["headers"], transport)


async def test_a_mapping_of_names_takes_whatever_a_client_is_opened_on() -> None:
    """Also entries of a configuration; strings are as they are."""
    server = Server("here")
    given = {"here": server, "web": "https://example.com/${TOKEN}", "time": {"command": "uvx"}}
    assert await read(given) == {**given, "time": StdioServerParameters("uvx", restart=True)}


async def test_variables_are_replaced() -> None:
    """With defaults as in a shell: also where a variable is empty."""
    entry = {
        "command": "${HOME}/server",
        "args": [
            "${env:TOKEN}",
            "${EMPTY}",
            "${EMPTY:-a}",
            "${UNSET:-b:-c}",
            "${UNSET:-}",
            "$${TOKEN}",
            "$HOME $${",
        ],
        "env": {"KEY": "${TOKEN}-${TOKEN}"},
    }
    (made,) = (await read({"mcpServers": {"one": entry}})).values()
    assert made.command == "/home/x/server"
    assert made.args == ("secret", "", "a", "b:-c", "", "${TOKEN}", "$HOME $${")
    assert made.env == {"KEY": "secret-secret"}


async def test_what_is_replaced_is_not_replaced_again() -> None:
    """The value of a variable is data."""
    entries = await read_config({"mcpServers": {"one": {"command": "${A}"}}}, {"A": "${B}", "B": "no"})
    assert entries["one"].target == StdioServerParameters("${B}", restart=True)


@pytest.mark.parametrize("how", [{"disabled": True}, {"enabled": False}])
async def test_a_disabled_server_may_be_wrong(how: Mapping[str, Any]) -> None:
    """It is not looked at: its variables may be set on another machine."""
    assert await read({"mcpServers": {"off": {"command": "${UNSET}", **how}}}) == {"off": None}


async def test_one_error_names_everything_that_is_wrong() -> None:
    """Verbatim, because this is what people get to see; nothing in it is a value of args, env or headers."""
    servers = {
        "time": {"command": "uvx", "args": ["--zone=${ZONE}", 7], "env": {"KEY": ["s3cret"]}},
        "web": {"url": "ftp://example.com/", "headers": {"Authorization": "Bearer ${input:key}"}},
        "both": {"command": "x", "url": "http://x/"},
        "none": {"description": "nothing"},
        "odd": {"url": "http://x/", "type": "grpc"},
        "crossed": {"url": "http://x/", "type": "stdio"},
        "sent": {"command": "x", "headers": {"A": "s3cret"}},
        "socket": {"url": "https://x/", "type": "websocket"},
        "empty": {"command": ""},
        "list": ["uvx"],
        "flag": {"command": "x", "disabled": "yes"},
        "path": {"command": "x", "cwd": 3},
    }
    with pytest.raises(ConfigError) as caught:
        await read({"mcpServers": servers})
    assert str(caught.value) == (
        "configuration: 14 problems:\n"
        "    mcpServers.time.args[0]: the environment variable ZONE is not set; set it, or write ${ZONE:-default}\n"
        "    mcpServers.time.args[1]: expected a string, not a number\n"
        "    mcpServers.time.env.KEY: expected a string, not an array\n"
        "    mcpServers.web.headers.Authorization: ${input:key} asks a person, and nobody is asked here; "
        "write ${env:NAME}\n"
        "    mcpServers.both: both command and url: expected one of them\n"
        "    mcpServers.none: neither command nor url\n"
        "    mcpServers.odd.type: expected one of stdio, websocket, ws, tcp, tls, unix, http, streamable-http, "
        "streamable_http, streamableHttp, sse, not 'grpc'\n"
        "    mcpServers.crossed.type: stdio goes with command\n"
        "    mcpServers.sent.headers: goes with url, not with command\n"
        "    mcpServers.socket.url: expected ws:// or wss:// for websocket\n"
        "    mcpServers.empty: command must not be empty\n"
        "    mcpServers.list: expected an object with command or url, not an array\n"
        "    mcpServers.flag.disabled: expected true or false, not a string\n"
        "    mcpServers.path.cwd: expected a string, not a number"
    )
    assert isinstance(caught.value, McpError)
    assert isinstance(caught.value, ValueError)


async def test_a_file_that_is_no_configuration(subtests: pytest.Subtests, tmp_path: Path) -> None:
    """It names the file and the place."""
    rows: list[tuple[str, str, str]] = [
        ("syntax", "{", "line 1, column 2: Expecting property name enclosed in double quotes"),
        ("array", "[]", "expected an object with mcpServers, not an array"),
        ("nothing", "{}", "the file has no mcpServers (or servers)"),
        ("both", '{"mcpServers": {}, "servers": {}}', "the file has both mcpServers and servers: expected one"),
        ("servers", '{"mcpServers": []}', "mcpServers: expected an object, not an array"),
        (
            "twice",
            '{"mcpServers": {"a": {"command": "x"}}, "mcpServers": {}}',
            "mcpServers: expected an object, not two values: the name is there twice",
        ),
        ("encoding", "\udcff", "not JSON in UTF-8: UnicodeDecodeError"),
        ("size", " " * 1_048_577, "more than 1048576 bytes"),
        ("depth", "[" * 100_000, "not JSON in UTF-8: RecursionError"),
    ]
    for name, text, problem in rows:
        with subtests.test(name):
            path = tmp_path / "mcp.json"
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
            assert await problems_of(str(path)) == (problem,)


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The same error: the user who starts the program has to do something about it."""
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        await read(tmp_path / "mcp.json")


async def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"a": {"command": "x"}}}', encoding="utf-8-sig")
    assert list(await read(path)) == ["a"]


@pytest.mark.parametrize("given", [7, None, ["uvx"], "https://example.com/mcp"])
async def test_what_is_no_configuration_is_a_wrong_type(given: Any) -> None:
    """A URL is not a path."""
    with pytest.raises(TypeError, match="a configuration is a path or a mapping, not"):
        await read(given)


async def test_targets_that_cannot_be_opened_are_problems_too() -> None:
    """All of them at once."""
    first, second = await problems_of({"a": 7, "b": "nothing", "c": Server("c")})
    assert first.startswith("a: a client is opened on a URL, ")
    assert second.startswith("b: ")


async def test_a_group_refuses_a_wrong_configuration_before_it_starts_anything() -> None:
    """No block is entered."""
    with pytest.raises(ConfigError) as caught:
        async with open_clients({"mcpServers": {"a": {"command": "x"}, "b": {}}}):
            pytest.fail("entered")
    assert str(caught.value) == "configuration: mcpServers.b: neither command nor url"


async def test_a_file_of_vs_code_is_read(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """It has comments and last commas; what looks like them in a string is text."""
    folder = tmp_path / ".vscode"
    folder.mkdir()
    path = folder / "mcp.json"
    path.write_text(
        """// for all of us
{
    "servers": { /* local, // and
        remote */
        "a": {
            "command": "x", // its program
            "args": ["/*", "a//b", "\\",//", ",]", "${workspaceFolder}/src",],
            "env": {"PORT": 8000, "RATIO": 0.5, "DEBUG": true, "TOKEN": "${env:TOKEN}", },
        },
        "b": {"serverUrl": "https://a.example/mcp"},
        "c": {"httpUrl": "https://a.example/mcp", "type": "http"},
    },
}
"""
    )
    found = await read(path)
    assert found["a"] == StdioServerParameters(
        "x",
        ["/*", "a//b", '",//', ",]", f"{tmp_path}/src"],
        env={"PORT": "8000", "RATIO": "0.5", "DEBUG": "true", "TOKEN": "secret"},
        restart=RestartPolicy(),
    )
    assert found["b"] == found["c"] == HttpServerParameters("https://a.example/mcp")
    plain = tmp_path / "mcp.json"
    plain.write_text('{"mcpServers": {"a": {"command": "${workspaceFolder}/x"}}}')
    assert (await read(plain))["a"].command == f"{tmp_path}/x"
    rows = [
        ('{"servers": {}, /* "a": 1\n}', "line 2, column 2: Expecting property name enclosed in double quotes"),
        ("[1 /* , */ 2]", "line 1, column 12: Expecting ',' delimiter"),
        ('{"a": "b', "line 1, column 7: Unterminated string starting at"),
    ]
    for text, problem in rows:
        with subtests.test(text):
            plain.write_text(text)
            assert await problems_of(plain) == (problem,)


async def test_one_url_is_one() -> None:
    """Two names of it are no choice of ours; and a file that is none has no folder."""
    entry = {"url": "https://a/", "httpUrl": "https://b/"}
    assert await problems_of({"servers": {"a": entry}}) == (
        "servers.a: url and httpUrl are one thing: expected one of them",
    )
    (problem,) = await problems_of({"servers": {"a": {"command": "${workspaceFolder}"}}})
    assert "workspaceFolder is not set" in problem


async def test_a_server_of_a_file_that_cannot_be_used_costs_no_other(tmp_path: Path) -> None:
    """The file is for several programs, and some entry of it is for another one. Its state says why it has failed."""
    path = tmp_path / "mcp.json"
    entries = {
        "off": {"command": "x", "disabled": True},
        "asks": {"url": "https://a.example/", "headers": {"X": "${input:key}"}},
        "both": {"command": "x", "url": "https://a.example/", "type": "what"},
        "text": 5,
    }
    path.write_text(json.dumps({"servers": entries}))
    async with open_clients(path) as group:
        states = group.states
        assert {name: state.status for name, state in states.items()} == {
            "off": "disabled",
            "asks": "failed",
            "both": "failed",
            "text": "failed",
        }
        assert states["asks"].reason == (
            f"{path}: servers.asks.headers.X: ${{input:key}} asks a person, and nobody is asked here; write ${{env:NAME}}"
        )
        assert isinstance(states["text"].error, ConfigError)
        with pytest.raises(
            ServerUnavailable, match=r"the server 'text' is not ready: failed: .*expected an object"
        ):
            await group.wait_ready("text")
        assert not await group.list_tools()
        with pytest.raises(ServerUnavailable):
            _ = group["both"]
        with pytest.raises(ServerUnavailable):
            group.restart("both")


async def test_what_is_there_twice_or_has_no_name_costs_one_server(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """One of the two would be lost silently. What is for other programs may be whatever they like."""
    path = tmp_path / "mcp.json"
    good = '"good": {"command": "x", "timeout": 1, "timeout": %s}' % ("9" * 5_000)
    twice = "not two values: the name is there twice"
    rows = [
        ('"": {"command": "x"}', "", "mcpServers.'': expected a name that is not empty"),
        (
            '"a": {"command": "x"}, "a": {"command": "y"}',
            "a",
            f"mcpServers.a: expected an object with command or url, {twice}",
        ),
        ('"a": 1, "a": {"command": "y"}', "a", f"mcpServers.a: expected an object with command or url, {twice}"),
        (
            '"a": {"command": "x", "args": [{}], "args": []}',
            "a",
            f"mcpServers.a.args: expected an array of strings, {twice}",
        ),
        (
            '"a": {"command": "x", "env": {"A": "b", "A": "c"}}',
            "a",
            f"mcpServers.a.env.A: expected a string, {twice}",
        ),
        (
            '"a": {"command": "x", "disabled": true, "disabled": false}',
            "a",
            f"mcpServers.a.disabled: expected true or false, {twice}",
        ),
    ]
    for wrong, name, problem in rows:
        with subtests.test(wrong):
            path.write_text(f'{{"mcpServers": {{{good}, {wrong}}}}}')
            entries = await read_config(path, ENVIRONMENT)
            assert list(entries) == ["good", name]
            assert entries["good"].target == StdioServerParameters("x", restart=True)
            assert str(entries[name].error) == f"{path}: {problem}"
    path.write_text('{"mcpServers": {"": {"command": "x"}, "b": {"command": "x", "disabled": true}}}')
    async with open_clients(path) as group:
        assert {name: state.status for name, state in group.states.items()} == {"": "failed", "b": "disabled"}


async def test_a_server_with_many_problems_says_how_many_more_there_are(tmp_path: Path) -> None:
    """It tells the first hundred."""
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "x", "args": [1] * 150}, "b": {}}}))
    entries = await read_config(path, ENVIRONMENT)
    first, second = entries["a"].error, entries["b"].error
    assert first is not None
    assert len(first.problems) == 101
    assert first.problems[-1] == "and 50 more"
    assert second is not None
    assert second.problems == ("mcpServers.b: neither command nor url",)


async def test_numbers_of_variables_are_as_they_are_written(tmp_path: Path) -> None:
    """A version is 3.10, which is not 3.1."""
    path = tmp_path / "mcp.json"
    written = ["3.10", "1e3", "10.0", "-0", "1E400", "-1.50e-07", "9" * 5_000, "8000", "true"]
    env = ", ".join(f'"V{number}": {text}' for number, text in enumerate(written))
    path.write_text(f'{{"servers": {{"a": {{"command": "x", "env": {{{env}}}}}}}}}')
    made = (await read(path))["a"]
    assert list(made.env.values()) == written
    path.write_text('{"servers": {"a": {"command": "x", "args": [3.10], "cwd": 1e400}}}')
    entry = (await read_config(path, ENVIRONMENT))["a"]
    assert entry.error is not None
    assert entry.error.problems == (
        "servers.a.args[0]: expected a string, not a number",
        "servers.a.cwd: expected a string, not a number",
    )


async def test_the_variables_of_vs_code_are_replaced_in_a_file(tmp_path: Path) -> None:
    """They are no variables of the environment, in which nobody would set them."""
    path = tmp_path / "project" / ".vscode" / "mcp.json"
    path.parent.mkdir(parents=True)
    args = ["${userHome}", "${workspaceFolder}${/}x${pathSeparator}y", "${workspaceFolderBasename}"]
    path.write_text(json.dumps({"servers": {"a": {"command": "x", "args": args}}}))
    project = path.parent.parent
    assert (await read(path))["a"].args == (str(Path.home()), f"{project}{os.sep}x{os.sep}y", "project")


async def test_a_reference_within_a_reference_is_an_error() -> None:
    """The inner one alone was replaced, and the program was started with the rest of the text."""
    for text in ("${A:-${TOKEN}}", "a${A:-{}}", "${{"):
        (problem,) = await problems_of({"servers": {"a": {"command": "x", "args": [text]}}})
        assert problem.startswith("servers.a.args[0]: ${")
        assert "is no environment variable: expected ${NAME}, ${NAME:-default} or ${env:NAME}" in problem
    entry = {"command": "x", "args": ["$${A:-${TOKEN}}", "${", "{${TOKEN}}", "${A:-}}"]}
    assert (await read({"servers": {"a": entry}}))["a"].args == ("${A:-${TOKEN}}", "${", "{secret}", "}")
