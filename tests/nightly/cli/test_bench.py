"""`trio-mcp bench`: any server and any client, whatever they do; and nothing is left running."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import jsonschema_rs
import pytest
from commands import SHOP, Done, Run
from http_process import HttpProcess
from inside_cli import benching_module
from places import PROGRAMS, ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is measured on Windows")

ODD = PROGRAMS / "odd_server.py"
SCHEMA = json.loads((ROOT / "benchmarks" / "schema.json").read_text())
CALLING = PROGRAMS / "calling.py"


@pytest.fixture
def shown() -> None:
    """Skip where what shows figures is not installed."""
    for module in ("hdrh", "matplotlib", "rich"):
        pytest.importorskip(module)


class Odd(Protocol):
    """Returns the command of a server that is odd in some ways."""

    def __call__(self, *words: str) -> str: ...


@pytest.fixture
def odd(tmp_path: Path) -> Odd:
    """Return it for a program of this test alone."""
    program = tmp_path / ODD.name
    shutil.copy(ODD, program)

    def command(*words: str) -> str:
        return f"{sys.executable} {program} {' '.join(words)}"

    return command


def record_of(folder: Path) -> Mapping[str, Any]:
    """Return what a run has kept."""
    record: Mapping[str, Any] = json.loads((folder / "record.json").read_text())
    return record


def figures_of(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the results of the only target, by row."""
    cells = record_of(folder)["cells"].values()
    return {cell["workload"]: next(iter(cell["results"].values())) for cell in cells}


def left_running(folder: Path) -> list[str]:
    """Return the programs in a folder that still run."""
    found: list[str] = []
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(folder / ODD.name).encode() in words:
            found.append(b" ".join(words).decode())
    return found


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """Whatever a server does, it has ended afterwards."""
    yield
    assert left_running(tmp_path) == []


@pytest.mark.parametrize("words", [["plain"], ["picky"], ["chatty"]])
@pytest.mark.usefixtures("shown")
def test_any_server_is_measured(run: Run, odd: Odd, tmp_path: Path, words: list[str]) -> None:
    """Of a revision that is long gone, one that ends at what it does not know, one that prints to its output."""
    done = run("bench", odd(*words), "--quick", "--growth", "0.2", "--output", tmp_path / "out")
    assert done.status == 0, done.out
    assert 'is odd 7, speaks 2025-06-18, has 1 tools; called is echo(text="hello")' in " ".join(done.out.split())
    jsonschema_rs.validate(SCHEMA, record_of(tmp_path / "out"))
    figures = figures_of(tmp_path / "out")
    assert set(figures) >= {
        "start",
        "memory",
        "call-1",
        "call-64",
        "list",
        "large",
        "large-echo",
        "idle",
        "growth",
    }
    assert all(figure["values"] and not figure["errors"] for figure in figures.values())
    assert figures["growth"]["curve"][-1][0] == figures["growth"]["facts"]["calls"][0] > 0
    assert figures["call-1"]["facts"]["tools"] == [1]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "record.json",
        "calls.svg",
        "latency.svg",
        "growth.svg",
    }
    said = "prints what is no message to standard output, such as 'Welcome to the odd server!'"
    assert (said in " ".join(done.out.split())) == ("chatty" in words)


@pytest.mark.usefixtures("shown")
def test_giving_up_is_measured_at_a_tool_that_is_slow(run: Run, odd: Odd, tmp_path: Path) -> None:
    """It is found by its name and the duration in its schema; what is answered all the same is counted."""
    done = run("bench", odd("plain", "slow"), "--quick", "--only", "give-up", "--output", tmp_path / "out")
    assert done.status == 0, done.out
    figure = figures_of(tmp_path / "out")["give-up"]
    assert 0 < figure["values"][0] < 4_000
    assert figure["facts"]["late"] == [0]


@pytest.mark.usefixtures("shown")
def test_no_tool_is_called_that_may_do_harm(run: Run, odd: Odd, tmp_path: Path) -> None:
    """Unless somebody names it."""
    out = tmp_path / "out"
    done = run("bench", odd("dangerous"), "--quick", "--only", "call-1", "--output", out)
    assert "no tool is called, as none declares that it only reads" in " ".join(done.out.split())
    assert record_of(out)["offers"][next(iter(record_of(out)["contenders"]))]["call"]["method"] == "ping"
    words = ["--tool", "delete_everything", "--arguments", '{"text": "no"}']
    done = run("bench", odd("dangerous"), "--quick", "--only", "call-1", "--output", out, *words)
    assert done.status == 0
    assert 'called is delete_everything(text="no")' in " ".join(done.out.split())


@pytest.mark.usefixtures("shown")
def test_a_server_without_tools_is_pinged(run: Run, odd: Odd, tmp_path: Path) -> None:
    """There is always something to ask."""
    done = run("bench", odd("bare"), "--quick", "--only", "call", "--output", tmp_path / "out")
    assert done.status == 0, done.out
    assert "has 0 tools; called is ping" in " ".join(done.out.split())


@pytest.mark.usefixtures("shown")
def test_a_server_that_breaks_down_costs_its_own_rows(run: Run, odd: Odd, tmp_path: Path) -> None:
    """It is said which, and why, and the others have their figures."""
    words = ["--quick", "--only", "call-1", "--only", "list", "--output", tmp_path / "out"]
    done = run("bench", odd("crashing"), *words)
    assert done.status == 1
    assert "the server has ended; it wrote: out of paper" in " ".join(done.out.split())
    figures = figures_of(tmp_path / "out")
    assert (figures["call-1"]["values"], bool(figures["list"]["values"])) == ([], True)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{sys.executable} -c 'raise SystemExit(7)'", "the server has ended"),
        ("there-is-no-such-program --flag", "there-is-no-such-program cannot be started"),
        (f"{sys.executable} -c 'import time; time.sleep(1000)'", "the server has answered nothing within 0.5 s"),
        ("mute", "tools/call was not answered within 0.5 s"),
    ],
)
@pytest.mark.usefixtures("shown")
def test_a_server_of_no_use_is_told_at_once(run: Run, odd: Odd, command: str, message: str) -> None:
    """Nothing is measured of it."""
    done = run("bench", odd(command) if command == "mute" else command, "--quick", "--timeout", "0.5")
    assert done.status == 4
    assert message in done.err


@pytest.mark.usefixtures("shown")
def test_two_servers_are_compared_and_two_records(run: Run, odd: Odd, tmp_path: Path) -> None:
    """In one run they take turns; in two they may have been measured on different days."""
    words = ["--quick", "--only", "call-1", "--output"]
    done = run("bench", odd("plain"), odd("chatty"), *words, tmp_path / "both")
    assert done.status == 0
    assert "second: python odd_server.py chatty" in done.out.replace(Path(sys.executable).name, "python")
    assert next(iter(record_of(tmp_path / "both")["contenders"])).endswith("odd_server.py plain")
    for name in ("one", "two"):
        assert run("bench", odd("plain"), *words, tmp_path / name).status == 0
    paths = [tmp_path / name / "record.json" for name in ("one", "two")]
    assert "times as good" in run("bench", *paths).out
    assert "calls, one at a time" in run("bench", paths[0]).out


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.usefixtures("shown")
def test_a_server_over_http_is_measured(run: Run, shop: str, tmp_path: Path, era: str) -> None:
    """It runs already, so nothing is said of its memory."""
    done = run("bench", shop, "--era", era, "--tool", "add", "--quick", "--output", tmp_path / "out")
    assert done.status == 0, done.out
    figures = figures_of(tmp_path / "out")
    assert {"call-1", "call-16", "call-64", "list", "large", "connect"} == set(figures)
    assert record_of(tmp_path / "out")["offers"][shop]["era"] == era


@pytest.mark.parametrize("transport", ["websocket", "tcp", "unix", "sse", "streamable-http"])
@pytest.mark.usefixtures("shown")
def test_a_command_can_serve_at_an_address(run: Run, tmp_path: Path, transport: str) -> None:
    """Then its start, its memory and what it costs when idle are measured as those of any process."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    address = {
        "websocket": f"ws://127.0.0.1:{port}/mcp",
        "tcp": f"tcp://127.0.0.1:{port}",
        "unix": f"unix://{tmp_path}/it.sock",
        "sse": f"http://127.0.0.1:{port}/sse",
        "streamable-http": f"http://127.0.0.1:{port}/mcp",
    }[transport]
    where = f"--path {tmp_path}/it.sock" if transport == "unix" else f"--port {port}"
    command = f"{sys.executable} -m trio_mcp run {ROOT}/examples/calculator.py --transport {transport} {where}"
    words = ["--quick", "--only", "start", "--only", "call-16", "--only", "memory", "--output", tmp_path / "out"]
    if transport == "sse":
        words += ["--era", "sse"]
    done = run("bench", f"{command} @ {address}", *words)
    assert done.status == 0, done.out + done.err
    figures = figures_of(tmp_path / "out")
    assert set(figures) == {"start", "call-16", "memory", "memory-after"}
    assert figures["memory"]["values"][0] > 10


@pytest.mark.usefixtures("shown")
def test_a_server_that_wants_a_token_gets_it_by_a_header(run: Run, tmp_path: Path) -> None:
    """Else it is said what is missing. The record does not have it."""
    process = HttpProcess(
        SHOP.with_name("guarded.py"), env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")}, how=("guarded",)
    )
    try:
        url = process.url
        refused = run("bench", url, "--quick")
        assert refused.status == 4
        assert "the server refused the WebSocket: 'HTTP/1.1 401" in refused.err
        words = ["--header", "Authorization: Bearer sesame", "--quick", "--only", "call-1"]
        done = run("bench", url, *words, "--output", tmp_path / "out")
        assert done.status == 0, done.err
        assert "sesame" not in (tmp_path / "out" / "record.json").read_text()
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("where", ["{url}", "{server}"])
@pytest.mark.usefixtures("shown")
def test_a_client_is_measured(run: Run, tmp_path: Path, where: str) -> None:
    """By its command, which is run at a server that notes when what comes."""
    command = f"{sys.executable} {CALLING} {where}"
    done = run("bench", "--client", command, "--rounds", "1", "--output", tmp_path / "out")
    assert done.status == 0, done.out
    figures = figures_of(tmp_path / "out")
    assert set(figures) == {
        "start", "ready", "calls", "turnaround", "cpu", "memory", "flood", "large", "given-up",
    }  # fmt: skip
    assert 0.2 <= figures["given-up"]["values"][0] < 5
    assert figures["given-up"]["facts"]["told"] == [1.0 if where == "{server}" else 0.0]
    assert figures["calls"]["operations"] == 20


def run_until(command: list[str], seen: str, number: signal.Signals) -> Done:
    """Run a command until it has printed something, send it a signal, and return what it did."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "150", "PYTHONUNBUFFERED": "1"},
        text=True,
        process_group=0,
    )
    assert process.stdout is not None
    out = ""
    while seen not in out:
        out += process.stdout.readline()
    time.sleep(0.5)
    process.send_signal(number)
    rest, err = process.communicate(timeout=60)
    return Done(process.returncode, out + rest, err)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.usefixtures("shown")
def test_a_signal_ends_everything_and_keeps_what_was_measured(
    odd: Odd, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    """In the middle of a measurement."""
    command = [sys.executable, "-m", "trio_mcp", "bench", odd("plain"), "--output", str(tmp_path / "out")]
    done = run_until([*command, "--only", "memory", "--only", "call", "--seconds", "3"], "speaks", number)
    assert done.status == status, done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a TARGET is missing; see trio-mcp bench --help"),
        (["gopher://example.com/"], "gopher://example.com/ cannot be measured; what can begins with http, https"),
        (
            ["nothing-like-it"],
            "'nothing-like-it' is not a URL such as http://localhost:8000/mcp, not a Python file, and not a name",
        ),
        (["nothing.py"], "there is no file nothing.py"),
        (["tcp://127.0.0.1:1", "--header", "A: b"], "--header is for servers that are reached over HTTP"),
        (["http://127.0.0.1:1/mcp", "--arguments", "[1]"], "--arguments must be a JSON object"),
        (["http://127.0.0.1:1/mcp", "--slow-arguments", "{"], "--slow-arguments must be a JSON object: "),
        (["http://127.0.0.1:1/mcp", "--only", "typo"], "there is no row 'typo'; there are start, memory, call-1"),
        (["--client", "my-client"], "the command of a client needs {url} or {server}"),
        (["a 'b"], '"a \'b" is no command: No closing quotation'),
    ],
)
@pytest.mark.usefixtures("shown")
def test_a_mistake_is_told(run: Run, words: list[str], message: str) -> None:
    """With the exit status for usage."""
    done = run("bench", *words)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"trio-mcp: {message}")


def test_what_is_missing_is_told_with_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody who has installed the package alone sees a traceback."""
    monkeypatch.setattr(benching_module, "NEEDED", {"no_such_module": "no-such-package"})
    done = run("bench", "http://127.0.0.1:1/mcp")
    assert done.status == 2
    assert done.err == (
        "trio-mcp: measuring needs no-such-package, which the extra brings: pip install 'trio-mcp[bench]'\n"
    )


def test_what_makes_load_needs_nothing_of_the_extra() -> None:
    """A worker starts without what shows figures, and without an event loop."""
    script = (
        "import json, sys\nimport trio_mcp._bench._worker\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert not set(json.loads(done.stdout)) & {"rich", "matplotlib", "hdrh", "trio", "cattrs"}
