"""Tasks in a file, with real processes: what is left after ``kill -9``, and two processes behind one address."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from places import PROGRAMS

from trio_mcp import (
    Client,
    HttpServerParameters,
    HttpSettings,
    RequestError,
    Revision,
    TaskUpdated,
    open_client,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="elsewhere nothing is killed by signal 9")
PROGRAM = PROGRAMS / "task_server.py"
MODERN = Revision.V2026_07_28
GONE = "the process that ran the task ended before the task had"


class Servers:
    """Processes over one file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: list[trio.Process] = []

    async def start(self) -> str:
        command = [sys.executable, str(PROGRAM), str(self.directory / "tasks.db"), str(self.directory)]
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
        self.running.append(process)
        assert process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            line += await process.stdout.receive_some()
        return line.decode().strip()

    async def kill(self, process: trio.Process | None = None, number: int = signal.SIGKILL) -> None:
        process = process or self.running[-1]
        process.send_signal(number)
        await process.wait()
        self.running.remove(process)

    @property
    def log(self) -> list[str]:
        path = self.directory / "log"
        return path.read_text().splitlines() if path.exists() else []

    async def logged(self, *wanted: str) -> None:
        while self.log[-len(wanted) :] != list(wanted):  # noqa: ASYNC110 - it is written by another process
            await trio.sleep(0.01)

    def open_gate(self) -> None:
        (self.directory / "gate").touch()


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncGenerator[Servers]:
    found = Servers(tmp_path)
    yield found
    for process in list(found.running):
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def accepted(value: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": value}}


def answer(_: Any) -> dict[str, Any]:
    return {"value": "this"}


@asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncGenerator[Client]:
    async with open_client(url, revision=MODERN, **options) as client:
        yield client


async def started(url: str, name: str, arguments: dict[str, Any]) -> str:
    async with connected(url, on_elicit=answer) as client, client.start_task(name, arguments) as task:
        id = task.detach()
    assert id is not None
    return id


async def result(url: str, id: str) -> str:
    async with connected(url, on_elicit=answer) as client, client.resume_task(id) as task:
        return (await task.result()).text


async def error(url: str, id: str) -> str:
    with pytest.raises(RequestError) as caught:
        await result(url, id)
    return caught.value.message


async def test_a_finished_task_survives_its_process(servers: Servers) -> None:
    servers.open_gate()
    url = await servers.start()
    id = await started(url, "work", {"name": "a"})
    before = await result(url, id)
    await servers.kill()
    assert await result(await servers.start(), id) == before
    await servers.kill(number=signal.SIGTERM)
    assert await result(await servers.start(), id) == before
    assert servers.log == ["begin a", "end a"]


async def test_a_task_whose_process_was_killed_has_failed_and_says_why(servers: Servers) -> None:
    url = await servers.start()
    id = await started(url, "work", {"name": "a"})
    await servers.logged("begin a")
    await servers.kill()
    url = await servers.start()
    assert await error(url, id) == GONE
    servers.open_gate()
    assert await error(url, id) == GONE
    assert servers.log == ["begin a"]
    assert len(list(servers.directory.glob("*-runner-*"))) == 1, "those of the dead are removed"


async def test_a_task_whose_process_died_is_run_again_if_its_tool_wants_that(servers: Servers) -> None:
    url = await servers.start()
    id = await started(url, "work_again", {"name": "a"})
    await servers.logged("begin a")
    await servers.kill()
    url = await servers.start()
    await servers.logged("begin a", "begin a")
    servers.open_gate()
    assert await result(url, id) == f"done a by None in {servers.running[-1].pid}"
    assert servers.log == ["begin a", "begin a", "end a"]


async def test_a_task_that_is_run_again_asks_again_under_other_keys(servers: Servers) -> None:
    url = await servers.start()
    id = await started(url, "ask_again", {})
    before = set[str]()
    async with connected(url, on_elicit=answer) as client, client.resume_task(id) as task:
        async for state in task.updates():
            if state.input_requests:
                before = set(state.input_requests)
                break
        task.detach()
    await servers.kill()
    url = await servers.start()
    asked: list[str] = []
    async with connected(url, on_elicit=answer) as client, client.resume_task(id) as task:
        async for state in task.updates():
            asked += [key for key in state.input_requests if key not in asked]
        assert (await task.result()).text == "this this"
    assert len(asked) == 2
    assert not before & set(asked)


async def test_a_task_of_a_server_that_ends_orderly_is_run_again_by_the_next(servers: Servers) -> None:
    url = await servers.start()
    id = await started(url, "work_again", {"name": "a"})
    await servers.logged("begin a")
    await servers.kill(number=signal.SIGTERM)
    url = await servers.start()
    await servers.logged("begin a")
    servers.open_gate()
    assert (await result(url, id)).startswith("done a")


async def test_a_process_that_lives_takes_over_what_a_dead_one_has_left(servers: Servers) -> None:
    one, other = await servers.start(), await servers.start()
    again, not_again = await started(one, "work_again", {"name": "a"}), await started(one, "work", {"name": "b"})
    await servers.logged("begin a", "begin b")
    ours = await started(other, "work", {"name": "c"})
    await servers.logged("begin a", "begin b", "begin c")
    await servers.kill(servers.running[0])
    assert await error(other, not_again) == GONE
    async with connected(other) as client, client.resume_task(again) as task:
        await servers.logged("begin b", "begin c", "begin a")
        servers.open_gate()
        assert (await task.result()).text.startswith("done a")
    assert (await result(other, ours)).startswith("done c")
    assert servers.log.count("begin a") == 2
    assert servers.log.count("begin b") == servers.log.count("begin c") == 1


# Two processes over one file, as behind a proxy without stickiness.


@asynccontextmanager
async def alternating(*urls: str) -> AsyncGenerator[HttpServerParameters]:
    """Send each request to another one of the servers than the request before."""
    nexts = itertools.cycle([int(url.split(":")[2].split("/")[0]) for url in urls])

    async def serve(stream: trio.SocketStream) -> None:
        async with (
            await trio.open_tcp_stream("127.0.0.1", next(nexts)) as upstream,
            trio.open_nursery() as nursery,
        ):

            async def copy(source: trio.SocketStream, target: trio.SocketStream) -> None:
                try:
                    async for part in source:
                        await target.send_all(part)
                except trio.BrokenResourceError:
                    pass
                nursery.cancel_scope.cancel()

            nursery.start_soon(copy, stream, upstream)
            nursery.start_soon(copy, upstream, stream)

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/mcp"
        yield HttpServerParameters(url, http=HttpSettings(max_idle_connections=0))
        nursery.cancel_scope.cancel()


async def test_answers_reach_the_task_through_any_process(servers: Servers) -> None:
    """Each question is answered once, by requests that come now to one process and now to the other."""
    async with alternating(await servers.start(), await servers.start()) as both:
        for _ in range(3):
            async with open_client(both, revision=MODERN, on_elicit=answer) as client:
                assert (await client.call_tool("ask")).text == "this this"
    assert servers.log == ["answered ['this', 'this']"] * 3


@pytest.mark.parametrize("by", ["leaving", "request"])
async def test_a_cancellation_reaches_the_task_through_any_process(servers: Servers, by: str) -> None:
    one, other = await servers.start(), await servers.start()
    id = await started(one, "work", {"name": "a"})
    await servers.logged("begin a")
    async with connected(other, tasks="always") as client:
        if by == "request":
            for _ in range(3):  # it is told once
                assert (await client.request("tasks/cancel", {"taskId": id}))["resultType"] == "complete"
        else:
            async with client.resume_task(id):
                pass
        await servers.logged("cancelled a")
        while (await client.request("tasks/get", {"taskId": id}))["status"] != "cancelled":
            await trio.sleep(0.01)
    assert servers.log == ["begin a", "cancelled a"]


async def test_listeners_of_any_process_hear_what_becomes_of_a_task(servers: Servers) -> None:
    one, other = await servers.start(), await servers.start()
    id = await started(one, "ask", {})
    seen: list[str] = []
    async with (
        connected(other, on_elicit=answer, tasks="always") as client,
        client.listen(tasks=[id]) as changes,
    ):
        async for change in changes:
            assert isinstance(change, TaskUpdated)
            assert change.state is not None
            seen.append(change.state.status)
            if change.state.is_final:
                break
            answers = {key: accepted("this") for key in change.state.input_requests}
            await client.request("tasks/update", {"taskId": id, "inputResponses": answers})
    assert seen[0] == "input_required"
    assert seen[-1] == "completed"
    assert await result(one, id) == "this this"


async def test_listeners_hear_that_the_process_of_a_task_was_killed(servers: Servers) -> None:
    one, other = await servers.start(), await servers.start()
    id = await started(one, "work", {"name": "a"})
    await servers.logged("begin a")
    async with connected(other, tasks="always") as client, client.listen(tasks=[id]) as changes:
        states: list[str] = []
        async for change in changes:
            assert isinstance(change, TaskUpdated)
            assert change.state is not None
            states.append(change.state.status)
            if change.state.is_final:
                break
            await servers.kill(servers.running[0])
    assert states == ["working", "failed"]


async def test_an_answer_that_is_none_is_refused_where_it_comes(servers: Servers) -> None:
    one, other = await servers.start(), await servers.start()
    id = await started(one, "ask", {})
    async with connected(other, on_elicit=answer, tasks="always") as client:
        while not (asked := (await client.request("tasks/get", {"taskId": id})).get("inputRequests")):
            await trio.sleep(0.01)
        with pytest.raises(RequestError, match="does not answer elicitation/create"):
            answers: dict[str, Any] = {key: {"roots": []} for key in asked}
            await client.request("tasks/update", {"taskId": id, "inputResponses": answers})
    assert await result(other, id) == "this this"
