"""Tasks that are run again when the process that ran them is gone: with what, by whom, and how often."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from wires import ScriptedChannel

from trio_mcp import (
    Context,
    MemoryTaskStore,
    Principal,
    Revision,
    Server,
    StoredTask,
    TaskStore,
    open_client,
    types,
)
from trio_mcp import open_sqlite_task_store as open_store

MODERN = Revision.V2026_07_28
CAPABLE = types.ClientCapabilities(elicitation=types.ElicitationCapability(form={}, url={}))
SECRET = "the-token-itself"


@attrs.frozen
class From:
    """An origin with a principal."""

    principal: str | None


class Archive:
    """A server with a tool that is run again, and waits until it is let go."""

    def __init__(self, store: TaskStore | None, *, restartable: bool = True) -> None:
        self.server: Server[Any] = Server("archive", task_store=store)
        self.gate = trio.Event()
        self.began = trio.Event()
        self.runs = 0

        @self.server.tool(task="required", restartable=restartable, poll=0.1)
        async def index(parts: int, ctx: Context[Any]) -> dict[str, Any]:
            self.runs += 1
            self.began.set()
            await self.gate.wait()
            who = ctx.principal
            assert who is None or isinstance(who, Principal)
            return {
                "parts": parts,
                "who": who and [str(who), who.subject, who.issuer, who.client_id, sorted(who.scopes)],
                "claims": who and dict(who.claims),
                "token": who and who.token,
                "can": ctx.client_capabilities.elicitation is not None,
                "info": ctx.client_info and ctx.client_info.name,
                "headers": dict(ctx.headers),
                "task": await ctx.begin_task(),
            }


async def request(wire: ScriptedChannel, origin: From, method: str, /, **params: object) -> dict[str, Any]:
    meta: Any = {
        "io.modelcontextprotocol/protocolVersion": str(MODERN),
        "io.modelcontextprotocol/clientCapabilities": {
            "extensions": {"io.modelcontextprotocol/tasks": {}},
            "elicitation": {},
        },
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    }
    before = len(wire.sent)
    message: Any = {"jsonrpc": "2.0", "id": before, "method": method, "params": {**params, "_meta": meta}}
    wire.say_as(origin, message)
    while len(wire.sent) == before:  # noqa: ASYNC110 - the file is in a thread
        await trio.sleep(0.01)
    return dict(wire.sent[before])


@asynccontextmanager
async def served(server: Server[Any]) -> AsyncGenerator[ScriptedChannel]:
    wire = ScriptedChannel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_channel, wire)  # noqa: ASYNC113 - what is said meanwhile waits
        yield wire
        nursery.cancel_scope.cancel()


async def result(wire: ScriptedChannel, origin: From, id: str) -> dict[str, Any]:
    while True:
        task = (await request(wire, origin, "tasks/get", taskId=id))["result"]
        if task["status"] != "working":
            return dict(task["result"]["structuredContent"])
        await trio.sleep(0.01)


async def left_running(archive: Archive, parts: int) -> str:
    """Begin a task, and end the server while it runs."""
    async with (
        open_client(archive.server, revision=MODERN) as client,
        client.start_task("index", {"parts": parts}) as task,
    ):
        id = task.detach()
        await archive.began.wait()
    assert id is not None
    return id


@pytest.fixture(autouse=True)
async def _bounded() -> AsyncGenerator[None]:
    with trio.fail_after(20):
        yield


async def test_arguments_principal_and_capabilities_are_kept_and_nothing_secret_is(tmp_path: Path) -> None:
    path = tmp_path / "t"
    ada = From(
        Principal(
            "ada", issuer="https://i", client_id="c1", scopes=["b", "a"], claims={"x": SECRET}, token=SECRET
        )
    )
    async with open_store(path) as store:
        archive = Archive(store)
        async with served(archive.server) as wire:
            id = (await request(wire, ada, "tools/call", name="index", arguments={"parts": 3}))["result"][
                "taskId"
            ]
            await archive.began.wait()
    async with open_store(path) as store:
        archive = Archive(store)
        archive.gate.set()
        async with served(archive.server) as wire:
            await archive.began.wait()
            assert "error" in await request(wire, From("eve"), "tasks/get", taskId=id)
            assert "error" in await request(wire, From(None), "tasks/get", taskId=id)
            assert await result(wire, ada, id) == {
                "parts": 3,
                "who": ["https://i ada", "ada", "https://i", "c1", ["a", "b"]],
                "claims": {},
                "token": None,
                "can": True,
                "info": "c",
                "headers": {},
                "task": True,
            }
    assert archive.runs == 1
    for each in tmp_path.iterdir():
        assert SECRET.encode() not in each.read_bytes()


async def test_a_task_waits_for_a_process_that_serves_its_tool(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with open_store(path) as store:
        id = await left_running(Archive(store), 1)
    async with open_store(path) as store:
        without = Server[Any]("without", task_store=store)

        @without.tool(task="optional")
        async def other() -> None: ...

        async with open_client(without, revision=MODERN, tasks="always") as client:
            assert (await client.request("tasks/get", {"taskId": id}))["status"] == "working"
        archive = Archive(store)
        archive.gate.set()
        async with open_client(archive.server, revision=MODERN) as client, client.resume_task(id) as task:
            assert '"parts":1' in (await task.result()).text.replace(" ", "")
        assert archive.runs == 1


async def test_a_task_of_a_tool_that_has_not_asked_for_it_is_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with open_store(path) as store:
        archive = Archive(store, restartable=False)
        id = await left_running(archive, 1)
    async with open_store(path) as store:
        archive = Archive(store)
        async with open_client(archive.server, revision=MODERN, tasks="always") as client:
            task_now = await client.request("tasks/get", {"taskId": id})
            assert task_now["error"]["message"] == "the server was shut down before the task had ended"
    assert archive.runs == 0


async def test_what_is_kept_of_a_call_and_makes_no_sense_fails_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as what another version of the library has written. The others are run."""
    path = tmp_path / "t"
    now = time.time()
    usual: dict[str, Any] = {"owner": None, "created_at": now, "updated_at": now, "ttl": None, "poll": 1.0}
    async with open_store(path) as store:
        id = await left_running(Archive(store), 2)
        calls: list[dict[str, Any]] = [{}, {"revision": "2031-01-01"}, {"principal": {"name": "x"}}]
        for number, call in enumerate(calls):
            await store.add(StoredTask(id=f"odd {number}", call={"name": "index", **call}, **usual))
    async with open_store(path) as store:
        archive = Archive(store)
        archive.gate.set()
        async with open_client(archive.server, revision=MODERN, tasks="always") as client:
            async with client.resume_task(id) as task:
                assert '"parts":2' in (await task.result()).text.replace(" ", "")
            for number in range(3):
                while (odd := await client.request("tasks/get", {"taskId": f"odd {number}"}))[
                    "status"
                ] == "working":
                    await trio.sleep(0.01)  # they are taken one after another
                assert odd["status"] == "failed"
                assert "the task cannot be run again" in odd["error"]["message"]
    assert archive.runs == 1
    assert "a task cannot be run again" in caplog.text


async def test_a_store_in_memory_runs_nothing_again_and_keeps_no_call() -> None:
    store = MemoryTaskStore()
    id = await left_running(Archive(store), 1)
    found = await store.find(id)
    assert found is not None
    assert (found.status, found.call) == ("failed", None)
