"""``bridge``: any server behind any listener, through processes of their own."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from commands import SHOP, Run
from patient_clock import pass_time
from terminals import ENOUGH

import trio_mcp
from trio_mcp import Era, RequestError, StdioServerParameters, open_client

COMMAND = [sys.executable, "-m", "trio_mcp", "bridge"]
TREE = str(Path(trio_mcp.__file__).parents[1])

LISTENERS: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "http": ("http://127.0.0.1:0/shop", []),
    "sse": ("sse://127.0.0.1:0", ["--era", "sse"]),
    "ws": ("ws://127.0.0.1:0/shop", []),
    "tcp": ("tcp://127.0.0.1:0", []),
    "unix": ("unix://{}/bridge.socket", []),
}

CHILD = """
import os, sys, trio, trio_mcp
server = trio_mcp.Server("child")
marks = sys.argv[1]

@server.tool
async def pid() -> int:
    return os.getpid()

@server.tool
async def wait(ctx: trio_mcp.Context) -> None:
    with open(marks + "/began", "w"):
        pass
    try:
        await trio.sleep_forever()
    finally:
        with open(marks + "/cancelled", "w") as file:
            file.write(str(ctx.deadline - trio.current_time()))

if len(sys.argv) > 2:
    import logging
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    server.run("streamable-http", port=0)
else:
    server.run()
"""


@contextmanager
def bridging(*words: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Run a bridge that listens; yield its process and where it can be reached."""
    with subprocess.Popen(
        [*COMMAND, *words], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        try:
            url = ""
            for line in process.stderr:
                if "serving at " in line:
                    url = line.partition("serving at ")[2].split(",")[0].strip()
                    break
            assert url, "the bridge did not start"
            yield process, url
        finally:
            process.kill()


def stdio_bridge(*words: str) -> StdioServerParameters:
    """Return a bridge as a server process."""
    arguments = ["-m", "trio_mcp", "bridge", "stdio", *words]
    return StdioServerParameters(sys.executable, arguments, env={"PYTHONPATH": TREE})


@pytest.mark.parametrize("listener", LISTENERS)
def test_every_listener_leads_to_the_server(run: Run, shop: str, listener: str, tmp_path: Path) -> None:
    """A Python file behind one of them; SIGTERM ends the bridge and the process behind it."""
    name, era = LISTENERS[listener]
    with bridging(name.format(tmp_path), str(SHOP) if listener == "unix" else shop) as (process, url):
        done = run("call", url.replace("/mcp", "/sse") if era else url, "add", "a=20", "b=22", *era)
        assert (done.status, done.out, done.err) == (0, "42\n", "")
        process.send_signal(signal.SIGTERM)
        assert process.wait(ENOUGH) == 0


def test_a_server_at_a_url_is_reached_over_standard_input(run: Run, shop: str) -> None:
    """Each message of the bridge to the server is on standard error, or in a file, for who asks for it."""
    done = run("call", "add", "a=1", "b=2", "--", *COMMAND, "stdio", shop, "--wire")
    assert (done.status, done.out) == (0, "3\n")
    assert '"name":"add"' in done.err
    assert " s --> " in done.err


def test_messages_are_recorded(tmp_path: Path) -> None:
    """As for every other command."""
    record = tmp_path / "record.jsonl"
    handshake = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    lines: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": handshake},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "add", "arguments": {"a": 1, "b": 2}},
        },
    ]
    done = subprocess.run(
        [*COMMAND, "stdio", str(SHOP), "--record", str(record)],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=ENOUGH,
        check=True,
    )
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, done.stdout.splitlines())}
    assert answers[1]["protocolVersion"] == "2025-06-18"
    assert answers[2]["content"][0]["text"] == "3.0"
    recorded = [json.loads(line) for line in record.read_text().splitlines()]
    assert [one["message"]["method"] for one in recorded if one["direction"] == "sent"] == [
        line["method"] for line in lines
    ]


@pytest.mark.parametrize("scheme", ["tcp", "http", "sse", "ws"])
def test_an_address_that_is_taken_is_one_line(run: Run, shop: str, scheme: str) -> None:
    """As with `run`."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("bridge", f"{scheme}://127.0.0.1:{port}", shop)
    assert (done.status, done.err) == (
        1,
        (
            f"trio-mcp: cannot listen at 127.0.0.1:{port}: Address already in use; "
            "stop what listens there, or choose another port or path\n"
        ),
    )


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("is_listening", [False, True])
async def test_a_deadline_at_the_client_cancels_the_handler_behind(
    tmp_path: Path, era: Era, is_listening: bool
) -> None:
    """Through two processes, over stdio or HTTP to the second; the handler knows the time that is left."""
    program = tmp_path / "child.py"
    program.write_text(CHILD)
    command = [sys.executable, str(program), str(tmp_path)]
    with ExitStack() as processes:
        words = ["--", *command]
        if is_listening:
            process = processes.enter_context(
                subprocess.Popen([*command, "listen"], stderr=subprocess.PIPE, text=True)
            )
            processes.callback(process.kill)
            assert process.stderr is not None
            words = [process.stderr.readline().partition("serving at ")[2].split(",")[0].strip()]
        with trio.fail_after(ENOUGH):
            async with open_client(stdio_bridge(*words), era=era) as client:
                await client.list_tools()
                async with trio.open_nursery() as nursery:

                    @nursery.start_soon
                    async def pass_the_time() -> None:
                        while not (tmp_path / "began").exists():
                            await trio.sleep(0.01)
                        await pass_time(50)

                    with trio.move_on_after(50) as scope:
                        await client.call_tool("wait")
                assert scope.cancelled_caught
                while not (tmp_path / "cancelled").exists():
                    await trio.sleep(0.01)
                await client.call_tool("pid")
    assert math.isfinite(float((tmp_path / "cancelled").read_text()))


async def test_a_server_that_is_killed_during_a_call_is_started_again(tmp_path: Path) -> None:
    """The call fails with the reason; the same session goes on with another process, and none is left."""
    program = tmp_path / "child.py"
    program.write_text(CHILD)
    bridge = stdio_bridge("--", sys.executable, str(program), str(tmp_path))
    with trio.fail_after(ENOUGH):
        async with open_client(bridge, era="legacy") as client:
            pid = int((await client.call_tool("pid")).text)
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def kill() -> None:
                    while not (tmp_path / "began").exists():
                        await trio.sleep(0.01)
                    os.kill(pid, signal.SIGKILL)

                with pytest.raises(RequestError, match="behind this proxy is lost"):
                    await client.call_tool("wait")
            again = int((await client.call_tool("pid")).text)
            assert again != pid
        while True:
            try:
                os.kill(again, 0)
            except ProcessLookupError:
                break
            await trio.sleep(0.01)
