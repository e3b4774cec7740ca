"""``run``: which server of a file is served, over what, and what is said if it cannot be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import SHOP, Run

COMMAND = [sys.executable, "-m", "trio_mcp"]
ENOUGH = 30
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


def test_an_address_that_is_taken_is_said(run: Run) -> None:
    """With the status of what cannot be reached."""
    with serving(str(SHOP), "--transport", "streamable-http", "--port", "0") as (_, url):
        port = url.rpartition(":")[2].partition("/")[0]
        done = subprocess.run(
            [*COMMAND, "run", str(SHOP), "--transport", "streamable-http", "--port", port],
            capture_output=True,
            text=True,
            timeout=ENOUGH,
            check=False,
        )
    assert done.returncode == 4
    assert f"cannot be served over streamable-http (port {port}): " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere.py", "there is no file nowhere.py"),
        ("nowhere.py:x", "there is no file nowhere.py"),
        ("two.py", "two.py has several servers; its servers are one, two, alias; name one: two.py:one"),
        ("two.py:three", "two.py has no three; its servers are one, two, alias"),
        ("two.py:number", "number in two.py is an int, not a Server"),
        ("none.py", "none.py has no server: no variable of the module is a trio_mcp.Server"),
        ("text.txt", "text.txt is not a Python file"),
    ],
)
def test_which_server_is_meant_must_be_clear(run: Run, spec: str, message: str) -> None:
    """Else it is said what there is."""
    Path("two.py").write_text(TWO)
    Path("none.py").write_text("a = 1")
    Path("text.txt").write_text("a")
    done = run("run", spec)
    assert (done.status, done.out, done.err) == (2, "", f"trio-mcp: {message}\n")


@pytest.mark.parametrize("name", ["server", "mcp", "app"])
def test_the_usual_name_is_preferred(run: Run, name: str) -> None:
    """If there are several."""
    Path("usual.py").write_text(f"{TWO}\n{name} = Server('the usual')\n")
    assert "the usual" in run("discover", "usual.py").out


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--transport", "pigeon"), "invalid choice: 'pigeon'"),
        (("--transport", "streamable-http", "--path", "no-slash"), "must be a path that begins with a slash"),
        (("--port", "80"), "--port does not go with --transport stdio"),
        (("--transport", "tcp", "--port", "0", "--path", "/x"), "--path does not go with --transport tcp"),
        (("--transport", "unix", "--host", "::1"), "--host does not go with --transport unix"),
        (("--transport", "unix"), "--transport unix needs the --path of the socket"),
        (("--transport", "tcp", "--host", "a" * 64), "is no name of a host: "),
        (("--reload",), "--reload needs a --transport over which clients come again"),
    ],
)
def test_what_cannot_be_served_is_explained(run: Run, words: tuple[str, ...], message: str) -> None:
    """Nothing has begun."""
    done = run("run", SHOP, *words)
    assert (done.status, message in done.err) == (2, True)


def test_a_lifespan_that_fails_is_not_a_mistake_of_the_command_line(tmp_path: Path) -> None:
    """Its traceback is shown, whatever it raises."""
    file = tmp_path / "failing.py"
    file.write_text(
        "import contextlib, trio_mcp\n"
        "@contextlib.asynccontextmanager\n"
        "async def lifespan(_):\n    raise ValueError('no database')\n    yield\n"
        "server = trio_mcp.Server('failing', lifespan=lifespan)\n"
    )
    done = subprocess.run(
        [*COMMAND, "run", str(file)], input="", capture_output=True, text=True, timeout=ENOUGH, check=False
    )
    assert done.returncode == 70
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("ValueError: no database\n")


def test_reloading_needs_watchfiles(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said how to get it."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    done = run("run", SHOP, "--reload", "--transport", "streamable-http")
    assert (done.status, done.out) == (2, "")
    assert done.err == "trio-mcp: --reload needs the package watchfiles: pip install 'trio-mcp[reload]'\n"


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
        [*COMMAND, "run", str(SHOP), "--reload", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=ENOUGH,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout == (
        f"{SHOP.parent} command 7 -P -m trio_mcp run {SHOP} "
        "--transport streamable-http --host ::1 --port 0 --path /a b\n"
    )
