"""What somebody reads who starts a server, or a client, in a way that does not work; and who starts it by hand."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio

from trio_mcp import (
    Server,
    Shutdown,
    serve_http,
)

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_a_program_of_asyncio_serves_as_it_is_told_to() -> None:
    """What the error says works: in a thread, where no signal can be handled."""
    urls: list[str] = []
    ended = threading.Event()

    async def main() -> None:
        shutdown = Shutdown()

        class Ready:
            def started(self, value: tuple[str, ...]) -> None:
                urls.extend(value)
                shutdown.drain()

        await asyncio.to_thread(
            trio.run,
            functools.partial(serve_http, Server("x"), port=0, shutdown=shutdown, task_status=Ready()),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        )
        ended.set()

    asyncio.run(main())
    assert urls[0].startswith("http://127.0.0.1:")
    assert ended.is_set()


# Programs.


def test_a_port_in_use_is_one_line() -> None:
    """With the address; and the status of a failure."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        program = f"import trio_mcp; trio_mcp.Server('late').run('streamable-http', port={port})"
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"cannot listen at 127.0.0.1:{port}: Address already in use; "
        "stop what listens there, or choose another port or path\n"
    )


@pytest.mark.parametrize(
    ("port", "said"),
    [
        ("99_999", "port must be 0 to 65535, not 99999"),
        ("-1", "port must be 0 to 65535, not -1"),
        ("'x'", "port must be a whole number from 0 to 65535, not 'x'"),
    ],
)
@pytest.mark.parametrize("transport", ["streamable-http", "tcp"])
def test_a_port_that_is_none_is_one_line(transport: str, port: str, said: str) -> None:
    """It was a traceback through the library and Trio."""
    program = f"import trio_mcp; trio_mcp.Server('late').run({transport!r}, port={port})"
    done = subprocess.run(
        [sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{said}\n")


def test_a_socket_in_use_is_one_line(tmp_path: Path) -> None:
    """Likewise."""
    path = tmp_path / "it"
    path.write_text("")
    program = f"import trio_mcp; trio_mcp.Server('late').run('unix', path={str(path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"cannot listen at {path}: the file there is no socket; stop what listens there, or choose another port or path\n"
    )


def at_a_terminal(program: str, until: str) -> str:
    """Return what a program shows at a terminal, until it has shown something or ends."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program], env=ENVIRONMENT, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while until.encode() not in shown:
                shown += os.read(ours, 4096)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)
            os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def test_a_server_says_its_url_at_a_terminal() -> None:
    """Else it looks as if it hangs. With options that are those of `serve_http`."""
    program = "import trio_mcp; trio_mcp.Server('x').run('streamable-http', port=0, path='/orders')"
    shown = at_a_terminal(program, "ends it\n".replace("\n", "\r\n"))
    assert shown.startswith("serving at http://127.0.0.1:")
    assert shown.endswith("/orders; Ctrl+C ends it\n")
    assert shown.count("\n") == 1


def test_a_server_that_logs_it_does_not_say_it_twice() -> None:
    """The log is the program's."""
    program = (
        "import logging, trio_mcp; logging.basicConfig(level='INFO', format='%(name)s: %(message)s'); "
        "trio_mcp.Server('x').run('tcp', port=0)"
    )
    shown = at_a_terminal(program, "\r\n")
    assert shown.startswith("trio_mcp.sockets: serving at tcp://127.0.0.1:")
    assert shown.count("serving at") == 1


def test_a_server_over_stdio_says_that_it_waits_for_a_client() -> None:
    """Whoever starts it by hand looks at a cursor."""
    assert at_a_terminal("import trio_mcp; trio_mcp.Server('x').run()", "\r\n") == (
        "serving at standard input and output, for a client that starts this program, "
        "such as: trio-mcp list FILE; Ctrl+C ends it\n"
    )


async def test_the_url_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """At INFO, for those who run it as a service."""
    caplog.set_level(logging.INFO, "trio_mcp")
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(serve_http, Server("x"), "127.0.0.1", 0)
        nursery.cancel_scope.cancel()
    assert ("trio_mcp.http", logging.INFO, f"serving at {urls[0]}") in caplog.record_tuples


def test_a_program_serves_what_serve_http_serves(tmp_path: Path) -> None:
    """`RunOptions` are the options of `serve_http`, and no others."""
    import inspect

    from trio_mcp import RunOptions

    own = {"server", "shutdown", "task_status"}
    assert {*RunOptions.__annotations__} == {*inspect.signature(serve_http).parameters} - own | {"path"}
    path = tmp_path / "it"
    program = f"""
import trio_mcp
async def version(call): await call.respond(200, b"1.0")
trio_mcp.Server('x').run('sse', unix_path={str(path)!r}, unix_mode=0o640, routes={{'/version': version}}, http='lean')
"""
    with subprocess.Popen([sys.executable, "-c", program], env=ENVIRONMENT) as process:
        try:
            answer = trio.run(ask, path)
            mode = path.stat().st_mode & 0o777
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"1.0")
    assert mode == 0o640


async def ask(path: Path) -> bytes:
    """Ask for a page at a Unix socket, once somebody listens there."""
    while True:
        try:
            stream = await trio.open_unix_socket(str(path))
        except OSError:
            await trio.sleep(0.02)
            continue
        async with stream:
            await stream.send_all(b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return b"".join([bytes(chunk) async for chunk in stream])
