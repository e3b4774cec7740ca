"""What a configuration takes from the environment is shown by no error, state or record."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import trio

from trio_mcp import ClientGroup, open_clients

KEY = "Sesame-0123456789"
"""The value of the variable that all of these servers refer to."""


async def echo(stream: trio.SocketStream) -> None:
    """Answer every request as many servers do: with an error that repeats its path."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive_some()
    path = data.split(b" ", 2)[1]
    status, kind = (b"200 OK", b"text/html") if b"/page/" in path else (b"500 No", b"text/plain")
    kind, path = (b"application/json", b"{") if b"/junk/" in path else (kind, b"<p>Cannot POST " + path)
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    await stream.send_all(head % (status, kind, len(path)) + path)
    await stream.aclose()


def told(group: ClientGroup) -> str:
    return "\n".join(f"{state!r} {state.error!r} {state.error}" for state in group.states.values())


async def test_values_of_variables_in_a_servers_entry_are_not_shown(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Many servers have a key in the path of their URL. What else the URL says is still there."""
    caplog.set_level(logging.DEBUG, "trio_mcp")
    listeners = await nursery.start(trio.serve_tcp, echo, 0)
    port = listeners[0].socket.getsockname()[1]
    urls = {
        "error": f"http://127.0.0.1:{port}/a/${{KEY}}/mcp",
        "page": f"http://127.0.0.1:{port}/page/${{KEY}}/mcp",
        "junk": f"http://127.0.0.1:{port}/junk/${{KEY}}/mcp",
        "websocket": f"ws://127.0.0.1:{port}/a/${{KEY}}",
        "port": "http://127.0.0.1:99999/${KEY}/mcp",
        "port of a websocket": "ws://127.0.0.1:99999/${KEY}",
        "scheme": "htp://h/${KEY}",
        "no scheme": "127.0.0.1/${KEY}",
        "blank": "http://127.0.0.1/a b/${KEY}",
        "brackets": "http://[::1/${KEY}",
        "host": "http://${KEY}.invalid:1/mcp",
        "tcp": "tcp://127.0.0.1:9/${KEY}",
        "unix": "unix:///tmp/${KEY}",
        "http over unix": "http+unix://%2Ftmp%2F${KEY}/mcp",
    }
    entries: dict[str, object] = {name: {"url": url} for name, url in urls.items()}
    entries["command"] = {"command": "${KEY}"}
    entries["directory"] = {"command": "true", "cwd": "/nowhere/${KEY}"}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": entries}))
    with trio.fail_after(30):
        async with open_clients(str(file), environment={"KEY": KEY}) as group:
            await group.wait_settled()
            assert {state.status for state in group.states.values()} == {"failed"}
            text = told(group)
    shown = f"{text}\n{caplog.text}"
    assert KEY.lower() not in shown.lower()
    assert f"http://127.0.0.1:{port}/a/***/mcp answered with HTTP status 500" in text
    assert "Cannot POST /page/***/mcp" in text
    assert "/nowhere/***" in text


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            {"url": "http://h/", "headers": {"Authorization: Bearer Sesame": ""}},
            "'Authorization…' is not the name of a header",
        ),
        ({"command": "true", "env": {"TOKEN=Sesame": "1"}}, "a name in env must not be empty or contain '='"),
        ({"command": "true", "env": {"TOKEN=Sesame": {}}}, "env.TOKEN…: expected a string, not an object"),
        ({"command": "true", "TOKEN=Sesame": "1", "args": 1}, "args: expected an array"),
    ],
)
async def test_a_secret_that_stands_in_a_name_is_not_shown(
    entry: dict[str, object], problem: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Somebody has written a whole line in place of a name: what looks like the name is shown."""
    caplog.set_level(logging.DEBUG, "trio_mcp")
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"a": entry}}))
    async with open_clients(str(file)) as group:
        text = told(group)
    assert problem in text
    assert "Sesame" not in f"{text}\n{caplog.text}"
