"""A server over its own standard streams, spoken to by hand: how it reads, writes, and ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from raw import initialize, modern
from shared.bindings_stdio_server import WITNESS, call, discover, witness
from shared.bindings_stdio_server import diary as diary

WAITING_FOR_EVER = {"drain_timeout": 1_000, "goodbye_timeout": 1_000}
"""Limits of a server that must not wait: if it does, it is still there when the test's time is over."""


async def wait_for(diary: Path, line: str) -> None:
    while line not in diary.read_text().splitlines():
        await trio.sleep(0.01)


# What is not a message costs itself.


@pytest.mark.spec("basic/transports/stdio", "Receiving Messages", revisions="2026-07-28")
async def test_bad_lines_cost_themselves(diary: Path) -> None:
    """-32700 without id for what is not JSON, -32600 with the id where there is one; the session goes on."""
    table: list[tuple[bytes, object, int]] = [
        (b"this is not JSON", None, -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": ', None, -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"n": NaN}}', None, -32700),
        (b'\xff\xfe{"jsonrpc": "2.0"}', None, -32700),
        (b"[" * 100_000, None, -32700),
        (b'{"id": 1, "method": "ping"}', 1, -32600),
        (b'{"jsonrpc": "1.0", "id": "one", "method": "ping"}', "one", -32600),
        (b'{"jsonrpc": "2.0", "id": 2, "method": 7}', 2, -32600),
        (b'{"jsonrpc": "2.0", "id": 3}', 3, -32600),
        (b'{"jsonrpc": "2.0", "id": 4, "method": "ping", "params": [1]}', 4, -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', None, -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', None, -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, -32600),
        (b'"a string"', None, -32600),
        (b"17", None, -32600),
        (b"null", None, -32600),
        (b"[]", None, -32600),
        (b'[{"jsonrpc": "2.0", "id": 5, "method": "ping"}]', None, -32600),
    ]
    async with witness(diary) as server:
        for line, id, code in table:
            await server.send(line)
            answer = await server.receive()
            assert (answer.get("id"), answer["error"]["code"]) == (id, code), line[:60]
            assert ("id" in answer) == (id is not None), line[:60]
        await server.send(call(99, "echo", text="still here"))
        assert (await server.receive())["result"]["content"][0]["text"] == "still here"
        await server.close_input()
        assert await server.receive_all() == []
    assert server.process.returncode == 0


async def test_what_looks_like_an_answer_is_never_answered(diary: Path) -> None:
    """Two peers that answer each other's errors would never stop."""
    lines = [
        b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
        b'{"jsonrpc": "2.0", "id": 1, "result": 5}',
        b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}, "result": {}}',
        b'{"jsonrpc": "2.0", "error": {"code": -32700, "message": "x"}}',
        b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "x"}}',
        b'{"id": 1, "error": "odd"}',
        b"",
        b"   \t ",
        b"\r",
    ]
    async with witness(diary) as server:
        await server.send(*lines)
        await discover(server)
        await server.close_input()
        assert await server.receive_all() == []


async def test_a_duplicate_id_in_flight_is_refused(diary: Path, tmp_path: Path) -> None:
    """2026-07-28, basic: an id must not match another that is not answered yet; and 1 is not "1"."""
    async with witness(diary) as server:
        await server.send(
            call(1, "until", path=str(tmp_path / "go on")),
            call(1, "echo", text="b"),
            call("1", "echo", text="c"),
        )
        refused, other = [await server.receive() for _ in range(2)]
        (tmp_path / "go on").touch()
        first = await server.receive()
        assert (refused["id"], refused["error"]["code"]) == (1, -32600)
        assert (other["id"], other["result"]["content"][0]["text"]) == ("1", "c")
        assert (first["id"], first["result"]["content"][0]["text"]) == (1, "there")
        await server.send(call(1, "echo", text="free again"))
        assert (await server.receive())["result"]["content"][0]["text"] == "free again"
        await server.close_input()


async def test_batches_of_2025_03_26(diary: Path) -> None:
    """2025-03-26, basic, "Batching": received as an array, answered as an array, notifications and errors included."""
    async with witness(diary) as server:
        await server.send(initialize("2025-03-26"))
        assert (await server.receive())["result"]["protocolVersion"] == "2025-03-26"
        plain = {"jsonrpc": "2.0", "method": "tools/call"}
        batch = [
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {**plain, "id": 1, "params": {"name": "echo", "arguments": {"text": "one"}}},
            {"jsonrpc": "2.0", "id": 2, "method": "ping"},
            {"jsonrpc": "2.0", "id": 3, "method": "no/such"},
            {"jsonrpc": "2.0", "id": 4},
            {**plain, "id": 5, "params": {"name": "sleep", "arguments": {"seconds": 60, "name": "given up"}}},
        ]
        await server.send(batch)
        await wait_for(diary, "started given up")
        await server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
        answers = await server.receive()
        assert {a["id"]: "result" if "result" in a else a["error"]["code"] for a in answers} == {
            1: "result",
            2: "result",
            3: -32601,
            4: -32600,
        }
        await server.send(
            [{"jsonrpc": "2.0", "method": "notifications/x"}], {"jsonrpc": "2.0", "id": 9, "method": "ping"}
        )
        assert await server.receive() == {"jsonrpc": "2.0", "id": 9, "result": {}}
        await server.close_input()


@pytest.mark.spec("basic/transports/stdio", "Backward Compatibility", revisions="2026-07-28")
@pytest.mark.spec("basic/transports/index", "Backward Compatibility", revisions="2026-07-28")
async def test_both_eras_on_one_pipe(diary: Path) -> None:
    """2026-07-28, basic/versioning: a dual-era server may serve both at once; each request says which it is of."""
    async with witness(diary) as server:
        await server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        refused = await server.receive()
        assert refused["error"]["code"] == -32602
        await server.send(initialize("2024-11-05"))
        assert (await server.receive())["result"]["protocolVersion"] == "2024-11-05"
        await server.send({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, modern(3, "tools/list"))
        old, new = sorted([await server.receive(), await server.receive()], key=lambda m: m["id"])
        assert "resultType" not in old["result"]
        assert new["result"]["resultType"] == "complete"
        await server.send(initialize("2025-11-25"), modern(4, "initialize"), modern(5, "ping"), modern(6, "x/y"))
        again, *gone = [await server.receive() for _ in range(4)]
        assert again["error"]["code"] == -32600
        assert [m["error"]["code"] for m in gone] == [-32601] * 3
        odd = modern(7, "tools/list")
        odd["params"]["_meta"] = {
            **odd["params"]["_meta"],
            "io.modelcontextprotocol/protocolVersion": "1900-01-01",
        }
        await server.send(odd)
        error = (await server.receive())["error"]
        assert error["code"] == -32022
        assert error["data"]["requested"] == "1900-01-01"
        assert "2026-07-28" in error["data"]["supported"]
        await server.close_input()


# Standard output is the protocol's.


@pytest.mark.spec("basic/transports/stdio", "Sending Messages", revisions="2026-07-28")
async def test_whatever_is_printed_goes_to_standard_error(diary: Path) -> None:
    """By Python, by a bare write, by a child process; and standard input reads as empty for everybody else."""
    async with witness(diary) as server:
        await server.send(call(1, "chatter"))
        answer = await server.receive()
        assert answer["result"]["content"] == [{"type": "text", "text": ""}]
        await server.close_input()
        assert await server.receive_all() == []
    for words in (b"a stray print", b"a stray write", b"a stray child", b"on standard error"):
        assert words in server.stderr


async def test_a_server_imports_neither_asyncio_nor_hypercorn(diary: Path) -> None:
    """The process start is what users of stdio wait for."""
    async with witness(diary) as server:
        await server.send(call(1, "info"))
        info = (await server.receive())["result"]["structuredContent"]
        assert info["state"] == "alive"
        assert not {"asyncio", "hypercorn", "h11", "wsproto", "trio_websocket", "pydantic"} & set(info["modules"])
        await server.close_input()


async def test_errors_are_logged_in_full_and_shown_masked(diary: Path) -> None:
    """`ToolError` is for the model; everything else says nothing to strangers."""
    async with witness(diary) as server:
        await server.send(call(1, "fail", kind="tool"), call(2, "fail", kind="other"))
        answers = {m["id"]: m["result"] for m in [await server.receive(), await server.receive()]}
        assert all(result["isError"] for result in answers.values())
        assert answers[1]["content"][0]["text"] == "for the model"
        assert "secret" not in json.dumps(answers[2])
        await server.close_input()
    assert b"ValueError: a secret" in server.stderr


# How it ends.


@pytest.mark.spec("basic/transports/stdio", "Shutdown", revisions="2026-07-28")
async def test_the_end_of_input_drains(diary: Path) -> None:
    """What was asked is answered, then the lifespan ends, then the process, with status 0."""
    async with witness(diary, **WAITING_FOR_EVER) as server:
        await server.send(*(call(n, "sleep", seconds=n / 5, name=str(n)) for n in range(3)))
        await server.close_input()
        answers = {m["id"]: m for m in await server.receive_all()}
    assert [answers[n]["result"]["content"][0]["text"] for n in range(3)] == ["slept"] * 3
    assert server.process.returncode == 0
    assert diary.read_text().splitlines()[-2:] == ["finished 2", "lifespan ends"]


async def test_sigterm_drains_and_takes_nothing_new(diary: Path, tmp_path: Path) -> None:
    """SIGTERM, like the end of input, but the pipe is still there: what comes now is refused."""
    async with witness(diary, **WAITING_FOR_EVER) as server:
        await server.send(call(1, "until", path=str(tmp_path / "refused")))
        await wait_for(diary, "started until")
        server.process.send_signal(signal.SIGTERM)
        while True:
            await server.send(call("late", "echo", text="x"))
            answer = await server.receive()
            if "error" in answer:
                break
        assert answer["error"]["message"] == "serving is about to end"
        (tmp_path / "refused").touch()
        answers = await server.receive_all()
        assert [m["result"]["content"][0]["text"] for m in answers if m["id"] == 1] == ["there"]
    assert server.process.returncode == 0
    assert diary.read_text().splitlines()[-1] == "lifespan ends"


async def test_sigterm_after_the_end_of_input_does_not_wait(diary: Path) -> None:
    """Who closes the input and then terminates will kill next: cleanup must run now."""
    async with witness(diary, **WAITING_FOR_EVER) as server:
        await server.send(call(1, "sleep", seconds=60, name="it"))
        await wait_for(diary, "started it")
        await server.close_input()
        server.process.send_signal(signal.SIGTERM)
        await server.process.wait()
    assert diary.read_text().splitlines()[-2:] == ["cancelled it", "lifespan ends"]


async def test_one_sigint_ends_it_at_once_without_a_traceback(diary: Path) -> None:
    """Whatever runs: a sleeping handler, a thread that is stuck, a client that does not read."""
    async with witness(diary, **WAITING_FOR_EVER) as server:
        await server.send(call(1, "sleep", seconds=60, name="it"), call(2, "block", seconds=60))
        await server.send(*(call(i, "echo", text="x" * 100_000) for i in range(3, 20)))
        await wait_for(diary, "started it")
        await wait_for(diary, "blocking")
        server.process.send_signal(signal.SIGINT)
        await server.process.wait()
    assert server.process.returncode == 130
    assert b"Traceback" not in server.stderr
    assert diary.read_text().splitlines()[-2:] == ["cancelled it", "lifespan ends"]


async def test_a_stuck_thread_does_not_hold_the_exit(diary: Path) -> None:
    """A thread cannot be cancelled; the process ends without it."""
    async with witness(diary) as server:
        await server.send(call(1, "block", seconds=60))
        await wait_for(diary, "blocking")
        await server.close_input()
        await server.process.wait()
    assert server.process.returncode == 0


async def test_a_client_that_is_gone_ends_the_handlers(diary: Path) -> None:
    """Output that nobody can read any more is a reason to stop."""
    async with witness(diary) as server:
        await server.send(call(1, "sleep", seconds=60, name="it"))
        await wait_for(diary, "started it")
        assert server.process.stdout is not None
        await server.process.stdout.aclose()
        await server.send(call(2, "echo", text="x"))
        await server.process.wait()
    assert server.process.returncode == 0
    assert diary.read_text().splitlines()[-2:] == ["cancelled it", "lifespan ends"]


# Other standard streams than pipes.


def run(diary: Path, stdin: Any, stdout: Any) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "DIARY": str(diary)}
    return subprocess.run(
        [sys.executable, str(WITNESS)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=env,
        timeout=30,
        check=True,
    )


def test_files_as_standard_streams(diary: Path, tmp_path: Path) -> None:
    """``server < requests > answers``: descriptors that no event loop can wait for are read and written in threads."""
    requests, answers = tmp_path / "requests", tmp_path / "answers"
    lines = [json.dumps(call(i, "echo", text="x" * i)) for i in range(150)]
    requests.write_text("\n".join(lines))  # the last line has no newline
    with requests.open("rb") as stdin, answers.open("wb") as stdout:
        run(diary, stdin, stdout)
    found = [json.loads(line) for line in answers.read_text().splitlines()]
    assert sorted(m["id"] for m in found) == list(range(150))


def test_nothing_as_standard_input(diary: Path) -> None:
    """``server < /dev/null``: the end of input, at once."""
    assert run(diary, subprocess.DEVNULL, subprocess.PIPE).stdout == b""
    assert diary.read_text().splitlines() == ["lifespan begins", "lifespan ends"]


def test_a_terminal_as_standard_streams(diary: Path) -> None:
    """By hand in a terminal; and standard error, which shares it, stays blocking."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(WITNESS)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "DIARY": str(diary)},
    )
    try:
        os.write(controller, json.dumps(call(1, "echo", text="typed by hand")).encode() + b"\n")
        seen = b""
        while seen.count(b"typed by hand") < 2:  # the echo of the terminal, and the answer
            seen += os.read(controller, 4096)
        assert os.get_blocking(terminal)
        os.write(controller, b"\x04")
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        os.close(controller)
        os.close(terminal)


def test_the_standard_streams_are_given_back(tmp_path: Path) -> None:
    """A program that serves for a while and then goes on has its own standard streams again."""
    script = tmp_path / "for_a_while.py"
    script.write_text(
        "import os, sys, trio\n"
        "from trio_mcp import Server, serve_stdio\n"
        "async def main():\n"
        "    shutdown = __import__('trio_mcp').Shutdown()\n"
        "    async with trio.open_nursery() as nursery:\n"
        "        async def serve(task_status=trio.TASK_STATUS_IGNORED):\n"
        "            await serve_stdio(Server('x'), shutdown=shutdown, task_status=task_status)\n"
        "        await nursery.start(serve)\n"
        "        print('meanwhile')\n"
        "        shutdown.drain()\n"
        "print('before')\n"
        "trio.run(main)\n"
        "print('after', sys.stdin.readline().strip(), os.get_blocking(0), os.get_blocking(1))\n"
    )
    process = subprocess.run(
        [sys.executable, str(script)], input=b"", capture_output=True, timeout=30, check=True
    )
    out = process.stdout.decode().splitlines()
    assert out[0] == "before"
    assert out[-1] == "after  True True"
    assert process.stderr.decode().splitlines() == ["meanwhile"]


def test_printing_what_the_encoding_lacks_fails_nothing(tmp_path: Path) -> None:
    """The lifespan, a handler of `logging`, a tool that has done its work: what they print is for people to read."""
    script = tmp_path / "prints.py"
    script.write_text(
        "import contextlib, logging, sys, trio\n"
        "from trio_mcp import Server, Shutdown, serve_stdio\n"
        "log = logging.getLogger('of the program')\n"
        "log.addHandler(logging.StreamHandler(sys.stdout))\n"
        "@contextlib.asynccontextmanager\n"
        "async def lifespan(server):\n"
        "    print('entered \\u20ac')\n"
        "    log.warning('logged \\u20ac')\n"
        "    print('below \\u20ac', file=sys.__stdout__)\n"
        "    yield\n"
        "async def main():\n"
        "    shutdown = Shutdown()\n"
        "    async with trio.open_nursery() as nursery:\n"
        "        async def serve(task_status=trio.TASK_STATUS_IGNORED):\n"
        "            server = Server('x', lifespan=lifespan)\n"
        "            await serve_stdio(server, shutdown=shutdown, task_status=task_status)\n"
        "        await nursery.start(serve)\n"
        "        shutdown.drain()\n"
        "trio.run(main)\n"
        "print(sys.stdout.errors, sys.__stdout__.errors)\n"
    )
    process = subprocess.run(
        [sys.executable, str(script)],
        input=b"",
        capture_output=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict", "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr.decode().splitlines() == ["entered \\u20ac", "logged \\u20ac", "below \\u20ac"]
    assert process.stdout.decode().split() == ["strict", "strict"]
