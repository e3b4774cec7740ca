"""``run``: which server of a file is served, over what, and what is said if it cannot be."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import SHOP, Run
from unmeasured import unmeasured

COMMAND = [sys.executable, "-m", "trio_mcp"]
ENOUGH = 280
"""Seconds in which a server has ended that was asked to."""

TWO = """
from trio_mcp import Server
one = Server("one")
two = Server("two")
alias = two
number = 5
"""


SERVED = {
    "streamable-http": ["--port", "0"],
    "sse": ["--port", "0"],
    "websocket": ["--port", "0"],
    "tcp": ["--port", "0"],
    "unix": ["--path", "shop.socket"],
}
"""The transports that a process of its own can serve, and where."""


@contextmanager
def serving(*words: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Run a server over HTTP; yield its process and its URL."""
    command = [*COMMAND, "run", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        try:
            url = ""
            for line in process.stderr:
                if "serving at " in line:
                    url = line.partition("serving at ")[2].split(",")[0].strip()
                    break
            assert url, "the server did not start"
            yield process, url
        finally:
            process.kill()


ROOM = """
import argparse, os, sys
from trio_mcp import Server
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, required=True)
size = parser.parse_args().size
level = os.environ["LEVEL"]
server = Server("room")

@server.tool
async def describe() -> str:
    return f"{sys.argv[0]}: {size} {level}"
"""
"""A server that reads its command line and a variable while it is loaded."""


def test_a_file_has_a_command_line_of_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were run by itself: none of this program's words are in it."""
    Path("room.py").write_text(ROOM)
    monkeypatch.setenv("LEVEL", "7")
    served = ["--", *COMMAND, "run", "room.py"]
    done = run("call", "describe", *served, "--", "--size", "5")
    assert (done.status, done.out, done.err) == (0, "room.py: 5 7\n", "")
    for words, message in (
        ([], "the following arguments are required: --size"),
        (["--"], "the following arguments are required: --size"),
        (["--", "--size", "x"], "argument --size: invalid int value: 'x'"),
    ):
        done = run("ping", *served, *words)
        assert done.status == 4
        assert f"| room.py: error: {message}\n" in done.err


def test_a_host_starts_a_file_with_its_command_line_and_its_variables(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is loaded with them before they are written, and nothing of that is left in this process."""
    Path("room.py").write_text(ROOM)
    monkeypatch.delenv("LEVEL", raising=False)
    before = list(sys.argv)
    path = f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}"
    words = ["install", "room.py", "--to", "mcp-json", "--yes", "--env", "LEVEL=9", "--env", path]
    done = run(*words, "--", "--size", "3")
    assert done.status == 0
    assert (sys.argv, os.environ.get("LEVEL")) == (before, None)
    done = run("call", "room", "describe")
    assert (done.status, done.out) == (0, f"{Path('room.py').resolve()}: 3 9\n")


@pytest.mark.parametrize("transport", SERVED)
def test_every_transport_gives_the_same_answer(run: Run, transport: str) -> None:
    """Where the server can be reached is on standard error; Ctrl+C ends it."""
    with serving(str(SHOP), "--transport", transport, *SERVED[transport]) as (process, url):
        done = run("call", url, "add", "a=20", "b=22")
        assert (done.status, done.out, done.err) == (0, "42\n", "")
        process.send_signal(signal.SIGINT)
        assert process.wait(ENOUGH) == 130


def test_the_path_of_an_endpoint_can_be_chosen(run: Run) -> None:
    """HTTP+SSE has its own beside it."""
    with serving(str(SHOP), "--transport", "sse", "--path", "/shop", "--port", "0") as (_, url):
        assert url.endswith("/shop")
        assert run("ping", url).status == 0
        assert run("ping", url.replace("/shop", "/sse"), "--era", "sse").status == 0


@pytest.mark.parametrize("transport", ["streamable-http", "sse", "websocket", "tcp"])
def test_an_address_that_is_taken_is_one_line(run: Run, transport: str) -> None:
    """With the status that `Server.run` has, and the same text."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("run", SHOP, "--transport", transport, "--port", port)
    assert (done.status, done.out, done.err) == (
        1,
        "",
        (
            f"trio-mcp: cannot listen at 127.0.0.1:{port}: Address already in use; "
            "stop what listens there, or choose another port or path\n"
        ),
    )


def test_a_process_whose_port_is_taken_ends_with_one_line() -> None:
    """As a process of its own, which has the exit status for others."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = [*COMMAND, "run", str(SHOP), "--transport", "tcp", "--port", str(port)]
        done = subprocess.run(
            words, env=unmeasured(), capture_output=True, text=True, check=False, timeout=ENOUGH
        )
    assert done.returncode == 1
    assert done.stderr == (
        f"trio-mcp: cannot listen at 127.0.0.1:{port}: Address already in use; "
        "stop what listens there, or choose another port or path\n"
    )


@pytest.mark.parametrize("name", ["server", "mcp", "app"])
def test_the_usual_name_is_preferred(run: Run, name: str) -> None:
    """If there are several."""
    Path("usual.py").write_text(f"{TWO}\n{name} = Server('the usual')\n")
    assert "the usual" in run("discover", "usual.py").out


def test_extensions_without_settings_are_shown(run: Run) -> None:
    """They are declared like those that have some."""
    Path("job.py").write_text(
        "import trio_mcp\nserver = trio_mcp.Server('job')\n"
        "@server.tool(task='optional', visibility={'app'})\nasync def build() -> str: return 'built'\n"
    )
    out = " ".join(run("discover", "job.py").out.split())
    assert "extensions (io.modelcontextprotocol/tasks, io.modelcontextprotocol/ui)" in out


def test_a_file_that_cannot_be_loaded_shows_its_own_part_of_the_traceback(run: Run) -> None:
    """How it came to be loaded interests nobody."""
    Path("broken.py").write_text("def f():\n    raise KeyError('gone')\n\nf()\n")
    done = run("run", "broken.py")
    assert done.status == 2
    assert done.err.count('File "') == 2
    assert done.err.endswith("KeyError: 'gone'\ntrio-mcp: broken.py cannot be loaded\n")
    elsewhere = run("list", "broken.py")
    assert elsewhere.status == 4
    assert elsewhere.err.count("KeyError: 'gone'") == 1, "it is started once"
    Path("worse.py").write_text("def f(:\n")
    worse = run("run", "worse.py")
    assert worse.status == 2
    assert "SyntaxError" in worse.err


def test_a_file_finds_its_neighbours_and_hides_no_module(run: Run) -> None:
    """Its folder is where it imports from, and its name may be that of a library."""
    Path("neighbour.py").write_text("NAME = 'next door'")
    Path("json.py").write_text(
        "import neighbour, trio_mcp, json\nserver = trio_mcp.Server(neighbour.NAME)\nprint('not the protocol')\n"
    )
    done = run("discover", "json.py")
    assert (done.status, "next door" in done.out) == (0, True)
    assert done.err == "| not the protocol\n"


OVER_HTTP = ("--transport", "streamable-http", "--port", "0")


@pytest.mark.parametrize(
    ("words", "body", "message"),
    [
        ((), "raise ValueError('no database')\n    yield", "ValueError: no database"),
        ((), "raise BrokenPipeError('gone')\n    yield", "BrokenPipeError: gone"),
        ((), "yield\n    raise OSError('no flush at /x')", "OSError: no flush at /x"),
        (
            OVER_HTTP,
            "raise ConnectionRefusedError(111, 'no')\n    yield",
            "ConnectionRefusedError: [Errno 111] no",
        ),
        (OVER_HTTP, "yield\n    raise OSError('no flush at /x')", "OSError: no flush at /x"),
    ],
)
def test_a_lifespan_that_fails_is_not_a_mistake_of_the_command_line(
    tmp_path: Path, words: tuple[str, ...], body: str, message: str
) -> None:
    """Its own part of the traceback is shown, whatever it raises, and whether before or after it has yielded."""
    file = tmp_path / "failing.py"
    file.write_text(
        "import contextlib, trio_mcp\n"
        "@contextlib.asynccontextmanager\n"
        f"async def lifespan(_):\n    {body}\n"
        "server = trio_mcp.Server('failing', lifespan=lifespan)\n"
    )
    with subprocess.Popen(
        [*COMMAND, "run", str(file), *words], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.close()  # which ends serving over stdio
        said = ""
        for line in process.stderr:
            said += line
            if line.startswith("serving at "):
                process.send_signal(signal.SIGTERM)
        assert process.wait(ENOUGH) == 70, said
    _, _, shown = said.partition("Traceback (most recent call last):\n")
    assert shown.startswith(f'  File "{file}", line ')
    assert shown.count("  File ") == 1
    assert "cannot be served" not in said
    assert said.endswith(f"{message}\n")


def test_reloading_hands_the_words_on(tmp_path: Path) -> None:
    """The child gets the command line without ``--reload``, and the folder of the file is watched."""
    (tmp_path / "watchfiles.py").write_text(
        "import shlex\n"
        "class PythonFilter: pass\n"
        "def run_process(*paths, target, target_type, watch_filter, sigint_timeout):\n"
        "    assert type(watch_filter) is PythonFilter\n"
        "    print(*map(str, paths), target_type, sigint_timeout, *shlex.split(target)[1:])\n"
    )
    words = ["--transport", "streamable-http", "--port", "0", "--path", "/a b", "--host", "::1"]
    done = subprocess.run(
        [*COMMAND, "run", str(SHOP), "--reload", *words, "--", "--size", "a b"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=ENOUGH,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout == (
        f"{SHOP.parent} command 7 -P -m trio_mcp run {SHOP} "
        "--transport streamable-http --host ::1 --port 0 --path /a b -- --size a b\n"
    )


def test_an_error_that_no_line_of_the_file_has_made_is_shown_whole(tmp_path: Path) -> None:
    """As one of a lifespan from another module."""
    (tmp_path / "elsewhere.py").write_text("def lifespan(_):\n    raise KeyError('no key')\n")
    file = tmp_path / "here.py"
    file.write_text("import elsewhere, trio_mcp\nserver = trio_mcp.Server('s', lifespan=elsewhere.lifespan)\n")
    done = subprocess.run(
        [*COMMAND, "run", str(file)], input="", capture_output=True, text=True, timeout=ENOUGH, check=False
    )
    assert (done.returncode, done.stdout) == (70, "")
    assert '/elsewhere.py", line 2, in lifespan\n' in done.stderr
    assert done.stderr.endswith("KeyError: 'no key'\n")
