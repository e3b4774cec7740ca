"""What somebody reads whose server cannot be reached, does not start, or is none: what was found, and what to write."""

from __future__ import annotations

import http.server
import socket
import sys
import threading
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
import trio
from patient_clock import pass_time
from shared.client_what_connecting_says import program, said_by, without_pid

from trio_mcp import (
    ConnectionLost,
    HttpStatusError,
    Limits,
    RemoteProtocolError,
    Server,
    StdioServerParameters,
    open_client,
    open_clients,
    serve_http,
)

PYTHON = f"stdio server {sys.executable!r} (pid PID)"


# Processes.


async def test_a_crash_at_the_start_is_shown_once(capfd: pytest.CaptureFixture[str]) -> None:
    """The traceback is on standard error as it came; the error repeats its last line, and has all as an attribute."""
    crash = "raise ValueError('no API key: set LIBRARY_KEY')"
    with pytest.raises(ConnectionLost) as caught:
        async with open_client(program(crash)):
            raise AssertionError
    assert without_pid(str(caught.value)) == (
        f"{PYTHON} exited with status 1; its standard error, shown above, ends with: "
        "ValueError: no API key: set LIBRARY_KEY"
    )
    assert capfd.readouterr().err.count("ValueError: no API key: set LIBRARY_KEY\n") == 1
    assert caught.value.stderr[0] == "Traceback (most recent call last):"
    assert caught.value.is_stderr_shown
    assert caught.value.renewed().is_stderr_shown


async def test_a_crash_is_in_the_error_if_it_is_shown_nowhere() -> None:
    """As with a callable, a file or a logger: this library does not know who reads them."""
    crash = "import sys; sys.exit('no API key')"
    said = await said_by(program(crash, stderr=print), ConnectionLost)
    assert said == f"{PYTHON} exited with status 1; the last of its standard error:\n    no API key"


async def test_a_server_that_starts_slowly_is_spoken_to_as_what_it_is(tmp_path: Path) -> None:
    """As with npx, uvx, or a first run: later than `discover_timeout`, an answer to ``server/discover`` counts."""
    asked = tmp_path / "asked"
    slow = program(
        "import array, fcntl, termios, time",
        "def unread():",
        "    size = array.array('i', [0])",
        "    fcntl.ioctl(0, termios.FIONREAD, size)",
        "    return size[0]",
        "while not (first := unread()): time.sleep(0.01)",
        f"open({str(asked)!r}, 'w').close()",
        "while unread() == first: time.sleep(0.01)",  # until the client asks in the other way, too
        "from trio_mcp import Server",
        "Server('slow').run()",
    )

    async def pass_the_time() -> None:
        while not asked.exists():
            await trio.sleep(0.01)
        await pass_time(Limits().discover_timeout)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pass_the_time)
        async with open_client(slow) as client:
            assert client.revision == "2026-07-28"
            await client.ping()
            assert client.revision == "2026-07-28"


async def test_silence_names_the_server_and_the_limit() -> None:
    """Promise 7."""
    assert await said_by(program("import time", "time.sleep(600)"), ConnectionLost, lambda: True) == (
        f"{PYTHON} has not agreed on a revision within 20 s (connect_timeout); it has written nothing to standard "
        "output (does it serve stdio?); if it only needs longer, pass limits=Limits(connect_timeout=...)"
    )


@pytest.mark.parametrize(
    "line",
    [
        "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)",
        "INFO:trio_mcp.http:serving at http://127.0.0.1:8000/mcp",
        "Server listening on http://localhost:3000",
        "[1] Running on http://[::1]:8000",
    ],
)
async def test_a_server_over_http_that_is_started_as_one_over_stdio_is_quoted(line: str, tmp_path: Path) -> None:
    """It is never heard of; what it writes to its standard error says what it does."""
    said = tmp_path / "said"
    serving = program(
        "import sys, time",
        f"print({line!r}, 'docs: https://example.com', sep='\\n', file=sys.stderr, flush=True)",
        f"open({str(said)!r}, 'w').close()",
        "time.sleep(600)",
    )
    assert await said_by(serving, ConnectionLost, said.exists) == (
        f"{PYTHON} has not agreed on a revision within 20 s (connect_timeout); it has written nothing to standard "
        f"output (does it serve stdio? Its standard error says: '{' '.join(line.split())}'); if it only needs "
        "longer, pass limits=Limits(connect_timeout=...)"
    )


async def test_what_a_server_prints_is_quoted(caplog: pytest.LogCaptureFixture) -> None:
    """2026-07-28, basic/transports/stdio: it must not write anything there that is not a message."""
    printing = program("import time", "print('Listening on \\x1b[1mport 8000', flush=True)", "time.sleep(600)")
    why = (
        "printed to standard output, where only messages may be: 'Listening on \\x1b[1mport 8000'; "
        "let it print to standard error"
    )
    assert await said_by(printing, ConnectionLost, lambda: bool(caplog.messages)) == (
        f"{PYTHON} has not agreed on a revision within 20 s (connect_timeout); it {why}"
    )
    assert without_pid(caplog.messages[0]) == f"{PYTHON} {why}"


async def test_what_a_server_prints_says_which_one_it_is(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Several are started by the same Python: in a group its name says it, else what that runs."""
    file = tmp_path / "weather.py"
    file.write_text("from trio_mcp import Server\nprint('hello', flush=True)\nServer('s').run()\n")
    server = StdioServerParameters(sys.executable, [str(file), "s3cret"], inherit_env=True)
    async with open_client(server):
        pass
    async with open_clients({"forecasts": server}) as group:
        await group.wait_ready()
    first, second = (without_pid(message).partition(" printed ")[0] for message in caplog.messages)
    assert first == f"stdio server {f'{sys.executable} {file}'!r} (pid PID)"
    assert second == "stdio server 'forecasts' (pid PID)"


async def test_what_a_program_prints_that_is_no_server_is_quoted() -> None:
    """Such as its usage; and JSON that is a record of a log."""
    for line in ("usage: tool [-h]", '{"level": "info"}'):
        assert await said_by(program(f"print({line!r})"), ConnectionLost) == (
            f"{PYTHON} exited with status 0; it had printed to standard output, where only messages may be: '{line}'"
        )


async def test_pythons_own_server_of_files_is_no_endpoint() -> None:
    """It knows no POST, and says so on a page."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as files:
        threading.Thread(target=files.serve_forever, args=[0.01]).start()
        try:
            url = f"http://127.0.0.1:{files.server_port}/"
            said = await said_by(url, HttpStatusError)
        finally:
            files.shutdown()
    assert said.startswith(
        f"{url} answered with HTTP status 501 Unsupported method ('POST') "
        "(is this the URL of its MCP endpoint? Often that ends in /mcp), text/html: <!DOCTYPE HTML>"
    )


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


async def test_nobody_at_the_address_is_said(free_port: int) -> None:
    """Most often the server was not started."""
    for scheme in ("http", "https", "tcp", "ws", "wss"):
        assert await said_by(f"{scheme}://127.0.0.1:{free_port}", ConnectionLost) == (
            f"could not connect to {scheme}://127.0.0.1:{free_port}: Connection refused (no server listens there)"
        )


async def test_the_socket_of_a_websocket_is_named_as_it_was_written(tmp_path: Path) -> None:
    """With its scheme; the HTTP below is not what the user has asked for."""
    where = f"ws+unix://{quote(str(tmp_path / 'it'), safe='')}"
    assert await said_by(f"{where}/mcp?key=secret", ConnectionLost) == (
        f"could not connect to {where}: No such file or directory"
    )


async def test_a_proxy_that_is_down_is_named(free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the server that fails, and the user may not know of the proxy."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("all_proxy", f"http://127.0.0.1:{free_port}")
    assert await said_by("http://example.com/mcp", ConnectionLost) == (
        f"could not connect to http://example.com: the proxy http://127.0.0.1:{free_port} cannot be reached: "
        "Connection refused (no server listens there); all_proxy names it: correct that, add example.com to no_proxy, "
        "or pass HttpSettings(use_environment_proxies=False)"
    )


async def test_an_era_that_a_url_does_not_serve_is_named() -> None:
    """Its answer alone is about a header field that no reader has heard of."""
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(partial(serve_http, Server("s"), port=0))
        with pytest.raises(RemoteProtocolError) as caught:
            async with open_client(url, era="sse"):
                raise AssertionError
        nursery.cancel_scope.cancel()
    assert str(caught.value) == (
        f'{url} serves no HTTP+SSE, which era="sse" asks for (leave it out; or its URL ends in /sse): '
        "Mcp-Session-Id is missing [-32600]"
    )


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_a_silent_server_at_a_url_is_named(scheme: str) -> None:
    """The limit that passed is the client's, of the whole agreement."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    try:
        assert await said_by(f"{scheme}://127.0.0.1:{port}/mcp", ConnectionLost, lambda: True) == (
            f"the server at {scheme}://127.0.0.1:{port}/mcp has not agreed on a revision within 20 s (connect_timeout); "
            "if it only needs longer, pass limits=Limits(connect_timeout=...)"
        )
    finally:
        for listener in listeners:
            await listener.aclose()


@pytest.fixture
def free_port() -> int:
    """Return a port at which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
