"""Processes that serve together begin, die, are replaced and end. Real processes, real time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from unmeasured import unmeasured
from worker_group import ENOUGH, begin_session, gone, open_group, wait_until

from trio_mcp import ConnectionLost, HttpStatusError, McpError, open_client

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them"),
]


class Load:
    """Clients that call all the time, each over connections of its own.

    Attributes:
        answered: How many calls were answered.
        failures: Why others were not.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.answered = 0
        self.failures: list[Exception] = []
        self.must_end = False

    async def client(self) -> None:
        while not self.must_end:
            try:
                async with open_client(self.url) as client:
                    for _ in range(5):
                        with trio.fail_after(ENOUGH):
                            await client.call_tool("brief")
                        self.answered += 1
            except (McpError, HttpStatusError, ConnectionLost, trio.TooSlowError, OSError) as error:
                self.failures.append(error)
                await trio.sleep(0.05)

    async def until(self, answered: int) -> None:
        """Wait until so many more calls are answered."""
        wanted = self.answered + answered
        await wait_until(lambda: self.answered >= wanted)


@pytest.mark.parametrize("http", ["lean", "hypercorn"])
async def test_they_are_replaced_and_no_request_is_lost(tmp_path: Path, http: str) -> None:
    """By SIGHUP, one after another. A session ends with the one that had it."""
    async with open_group(tmp_path, http=http) as group:
        before = await group.pids()
        load = Load(group.url)
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(load.client)
            await load.until(30)
            async with group.connected() as raw:
                session = await begin_session(raw)
            for _ in range(2):
                old = group.workers()
                group.process.send_signal(signal.SIGHUP)
                await wait_until(lambda: len(group.workers()) == 2 and not group.workers() & old)  # noqa: B023
                await load.until(30)
            load.must_end = True
        assert load.failures == []
        assert not await group.pids() & before
        async with group.connected() as raw:
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert (await raw.send(ping, session)).status == 404


async def test_what_cannot_begin_replaces_nobody(tmp_path: Path) -> None:
    """The program cannot be loaded any more: those that serve go on, and do so once it can."""
    async with open_group(tmp_path, broken=str(tmp_path / "broken")) as group:
        old = group.workers()
        (tmp_path / "broken").touch()
        group.process.send_signal(signal.SIGHUP)
        await wait_until(lambda: "could not be started; the others stay" in group.said())
        await wait_until(lambda: group.workers() == old)
        assert await group.pids() == old
        group.process.send_signal(signal.SIGHUP)
        await wait_until(lambda: group.said().count("could not be started; the others stay") == 2)
        await wait_until(lambda: group.workers() == old)
        assert "another one starts" not in group.said(), "nobody tries it unasked"
        (tmp_path / "broken").unlink()
        group.process.send_signal(signal.SIGHUP)
        await wait_until(lambda: len(group.workers()) == 2 and not group.workers() & old)


async def test_it_can_end_while_they_are_replaced(tmp_path: Path) -> None:
    """However often that was wanted. Nothing has failed then, and the log says nothing of that."""
    async with open_group(tmp_path) as group:
        for _ in range(10):
            group.process.send_signal(signal.SIGHUP)
        await wait_until(lambda: len(group.workers()) == 3)
        group.process.send_signal(signal.SIGTERM)
        with trio.fail_after(ENOUGH):
            assert await group.process.wait() == 0
        assert "could not be started" not in group.said()
        assert list(group.directory.iterdir()) == []


async def test_one_that_is_killed_is_back(tmp_path: Path) -> None:
    """Every call meanwhile is answered or fails with a reason."""
    async with open_group(tmp_path) as group:
        load = Load(group.url)
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(load.client)
            await load.until(30)
            for times in (1, 2):
                victim = min(group.workers())
                async with group.each() as each:
                    sessions = {pid: await begin_session(raw) for pid, raw in each}
                os.kill(victim, signal.SIGKILL)
                await wait_until(lambda: group.said().count("another one starts in") == times)  # noqa: B023
                async with group.connected() as raw:
                    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                    assert (await raw.send(ping, sessions[victim])).status == 404
                await wait_until(lambda: len(group.workers()) == 2)
                assert victim not in await group.pids()
                await load.until(30)
            load.must_end = True
        assert not [error for error in load.failures if isinstance(error, trio.TooSlowError)]
        assert len(load.failures) < 40


async def test_tasks_in_a_file_outlive_all_of_them(tmp_path: Path) -> None:
    """Each worker opens the store for itself. What runs is run again by another one."""
    async with open_group(tmp_path, tasks=str(tmp_path / "tasks.db")) as group:
        path = tmp_path / "go"
        async with open_client(group.url) as client, client.start_task("long", {"path": str(path)}) as task:
            id = task.detach()
            assert id is not None
        for victim in group.workers():
            os.kill(victim, signal.SIGKILL)
        await wait_until(lambda: group.said().count("another one starts in") == 2)
        path.touch()
        with trio.fail_after(ENOUGH):
            async with open_client(group.url) as client, client.resume_task(id) as task:
                by = int((await task.result()).text)
        assert by in group.workers()


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGKILL"])
async def test_nothing_is_left(tmp_path: Path, how: str) -> None:
    """No process, no socket, no file; also if the supervisor is killed."""
    path = tmp_path / "mcp.sock"
    async with open_group(tmp_path, unix_path=str(path)) as group:
        workers = group.workers()
        assert len(workers) == 2
        assert len(list(group.directory.glob("trio-mcp-*/*.sock"))) == 2
        assert {(entry.stat().st_mode & 0o777) for entry in group.directory.iterdir()} == {0o700}
        noted = tmp_path / "hang"
        async with trio.open_nursery() as nursery:

            async def hang() -> None:
                with suppress(McpError, ConnectionLost, BaseExceptionGroup):
                    async with open_client(group.url) as client:
                        await client.call_tool("hang", {"path": str(noted)})

            nursery.start_soon(hang)
            await wait_until(noted.exists)
            group.process.send_signal(getattr(signal, how))
            await wait_until(lambda: all(map(gone, workers)))
        assert "ended in" in noted.read_text()
        assert await group.process.wait() == {"SIGTERM": 0, "SIGINT": 130, "SIGKILL": -9}[how]
        await wait_until(lambda: not path.exists() and not list(group.directory.iterdir()))


def run(folder: Path, source: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "served.py").write_text(source)
    command = [sys.executable, "-m", "trio_mcp", "run", "served.py", "--workers", "2", *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False, env=unmeasured()
    )


def test_what_always_fails_ends_with_its_error(tmp_path: Path) -> None:
    done = run(tmp_path, "import no_such_thing", "--transport", "streamable-http", "--port", "0")
    assert done.returncode == 1
    assert "No module named 'no_such_thing'" in done.stderr
    assert "ended with status 2 before it served" in done.stderr
    lasting = "from trio_mcp import Server\nserver = Server('x')\n"
    done = run(tmp_path, lasting)
    assert (done.returncode, done.stderr) == (2, "trio-mcp: --workers does not go with --transport stdio\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run(tmp_path, lasting, "--transport", "sse", "--port", port)
    assert done.returncode == 1
    assert f"cannot listen at 127.0.0.1:{port}" in done.stderr


def test_a_file_is_served(tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(
        "import os, sys\nfrom trio_mcp import Server\nserver = Server('x')\n"
        "@server.tool\nasync def who() -> str:\n    return f'{os.getpid()} {sys.argv[1:]}'\n"
    )
    words = [
        "run",
        "served.py",
        "--workers",
        "2",
        "--transport",
        "streamable-http",
        "--port",
        "0",
        "--path",
        "/x",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "trio_mcp", *words, "--", "--colour", "red"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            said = next(line for line in process.stderr if "workers serve at " in line)
            url = said.partition(" at ")[2].strip()
            assert url.endswith("/x")
            call = [sys.executable, "-m", "trio_mcp", "call", url, "who"]
            done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=True)
            pid, _, argv = done.stdout.strip().partition(" ")
            assert pid != str(process.pid)
            assert argv == "['--colour', 'red']"
            process.send_signal(signal.SIGINT)
            process.stderr.read()
            assert process.wait(ENOUGH) == 130
        finally:
            process.kill()
