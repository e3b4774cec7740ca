"""The page basic/utilities/tasks of 2025-11-25, an experiment of that revision: servers of ours have tasks, clients have none.

First what it demands of those who do not offer tasks.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from meeting import Meeting, meet, text_of
from scripted_server import ScriptedServer
from tape import Tape
from wires import ScriptedChannel

from trio_mcp import (
    Client,
    Context,
    HttpServerParameters,
    LocalProtocolError,
    McpASGI,
    RequestError,
    Revision,
    Server,
    ToolError,
    open_asgi_client,
    open_client,
    types,
)

TASKS = "basic/utilities/tasks"
pytestmark = pytest.mark.parametrize("revision", [Revision.V2025_11_25])


@pytest.mark.spec(TASKS, "Capabilities")
@pytest.mark.spec(TASKS, "Server Capabilities")
@pytest.mark.spec(TASKS, "Client Capabilities")
@pytest.mark.spec(TASKS, "Capability Negotiation")
@meet
async def test_neither_side_declares_tasks(meeting: Meeting) -> None:
    answers = [m for way, m in meeting.tape.frames if way == "received" and "capabilities" in m.get("result", {})]
    assert len(answers) == 1
    assert "tasks" not in answers[0]["result"]["capabilities"]
    assert "tasks" not in meeting.declared()


@pytest.mark.spec(TASKS, "Tool-Level Negotiation")
@meet
async def test_no_tool_says_that_it_can_be_a_task(meeting: Meeting) -> None:
    """Which means that it cannot."""
    async for page in meeting.client.list_tools().pages():
        assert all(tool.execution is None for tool in page.tools)
    assert "execution" not in str(meeting.received)


@pytest.mark.spec(TASKS, "Task Support and Handling")
@meet
async def test_a_request_that_wants_to_be_a_task_is_served_as_usual(meeting: Meeting) -> None:
    """Who has not declared tasks MUST ignore what a request says of them."""
    params = {"name": "echo", "arguments": {"text": "at once"}, "task": {"ttl": 60_000}}
    await meeting.client.request("tools/call", params)
    assert meeting.result("tools/call") == {"content": [{"type": "text", "text": "at once"}]}


@pytest.mark.spec(TASKS, "Task Support and Handling")
async def test_a_question_that_wants_to_be_a_task_is_answered_as_usual(revision: Revision) -> None:
    server = ScriptedServer(revision)
    message = {"role": "user", "content": {"type": "text", "text": "?"}}
    params: dict[str, Any] = {"messages": [message], "maxTokens": 9, "task": {"ttl": 60_000}}
    async with open_client(server, revision=revision, on_sample=lambda _: "at once"):
        answer = await server.ask("sampling/createMessage", params)
    assert answer["result"]["content"] == {"type": "text", "text": "at once"}
    assert "task" not in answer["result"]


@pytest.mark.spec(TASKS, "Error Handling")
@pytest.mark.spec(TASKS, "Protocol Errors")
@meet
async def test_there_are_no_methods_for_tasks(meeting: Meeting, subtests: pytest.Subtests) -> None:
    for method in ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel"):
        with subtests.test(method=method):
            await meeting.refused(partial(meeting.client.request, method, {"taskId": "x"}), -32601)
            assert text_of(await meeting.client.call_tool("echo", {"text": "still here"})) == "still here"


# A server that has tools whose calls become tasks.

RELATED = "io.modelcontextprotocol/related-task"
UNKNOWN = "there is no such task, or it has expired"
BOTH_WAYS = pytest.mark.parametrize("way", ["memory", "asgi"])


class Work:
    """A server with tools that wait until they are let go, ask, and fail."""

    def __init__(self, **options: Any) -> None:
        self.server: Server[Any] = Server("work", **options)
        self.gate = trio.Event()
        self.ended: list[str] = []

        @self.server.tool(task="optional", ttl=60, poll=0.1)
        async def work(ctx: Context[Any], name: str = "w") -> str:
            await ctx.report_progress(1, 2, "half of it")
            try:
                await self.gate.wait()
            finally:
                self.ended.append(name)
            return f"done {name}"

        @self.server.tool(task="required", ttl=None)
        async def must(fail: str = "") -> str:
            if fail == "tool":
                raise ToolError("it rains")
            if fail == "protocol":
                raise RequestError(-32050, "no", {"why": "rain"})
            return "did"

        @self.server.tool(task="optional", ask_first=True)
        async def ask(ctx: Context[Any]) -> str:
            first = await ctx.elicit("Who?", str)
            return f"{first.value} {(await ctx.sample('?', max_tokens=9)).text}"

        @self.server.tool
        async def plain() -> str:
            return "plain"


@asynccontextmanager
async def met(server: Server[Any], way: str = "memory", **options: Any) -> AsyncGenerator[Client]:
    """Connect a client that speaks the revision with tasks, over memory or HTTP."""
    if way == "memory":
        async with open_client(server, revision=Revision.V2025_11_25, **options) as client:
            yield client
        return
    async with open_asgi_client(McpASGI(server)) as app:
        target = HttpServerParameters("http://localhost/mcp", app=app)
        async with open_client(target, revision=Revision.V2025_11_25, **options) as client:
            yield client


async def start(client: Client, name: str, task: object = None, /, **arguments: object) -> dict[str, Any]:
    """Have a call become a task; return the task."""
    params = {"name": name, "arguments": arguments, "task": {} if task is None else task}
    created = await client.request("tools/call", params)
    assert created.keys() == {"task"}
    found: dict[str, Any] = created["task"]
    return found


def saying(answer: object) -> Callable[[object], Any]:
    return lambda _: answer


async def about(client: Client, method: str, task: Mapping[str, Any]) -> dict[str, Any]:
    return await client.request(method, {"taskId": task["taskId"]})


async def refused(client: Client, method: str, params: Mapping[str, Any]) -> RequestError:
    with pytest.raises(RequestError) as caught:
        await client.request(method, params)
    return caught.value


@pytest.mark.spec(TASKS, "Capabilities")
@pytest.mark.spec(TASKS, "Server Capabilities")
@pytest.mark.spec(TASKS, "Tool-Level Negotiation")
async def test_a_server_with_such_tools_declares_tasks_in_this_revision_alone(revision: Revision) -> None:
    for spoken in Revision:
        tape = Tape()
        async with open_client(Work().server, revision=spoken, on_frame=tape, tasks="always") as client:
            tools = {tool.name: tool.execution async for tool in client.list_tools()}
        received = str([message for way, message in tape.frames if way == "received"])
        assert ("taskSupport" in received) == (spoken is revision)
        assert ("'tasks': {'" in received) == (spoken is revision)
        assert ("io.modelcontextprotocol/tasks" in received) == spoken.is_modern
        if spoken is revision:
            support = {name: execution and execution.task_support for name, execution in tools.items()}
            assert support == {"work": "optional", "must": "required", "ask": "optional", "plain": None}
            assert client.server_capabilities is not None
            assert client.server_capabilities.tasks == types.ServerTasksCapability(
                list={}, cancel={}, requests=types.ServerTaskRequests(tools=types.ToolTaskRequests(call={}))
            )


@pytest.mark.spec(TASKS, "Server Capabilities")
async def test_who_serves_calls_by_hand_declares_no_tasks(revision: Revision) -> None:
    """For its tools are not called."""
    work = Work()

    @work.server.request_handler("tools/call")
    async def call(_: object, ctx: Context[Any]) -> dict[str, Any]:
        assert not ctx.is_task
        return {"content": []}

    async with met(work.server) as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.tasks is None
        assert await client.request("tools/call", {"name": "must", "task": {}}) == {"content": []}


@pytest.mark.spec(TASKS, "Tool-Level Negotiation")
@pytest.mark.spec(TASKS, "Task Support and Handling")
async def test_a_tool_is_a_task_as_far_as_it_says(revision: Revision) -> None:
    async with met(Work().server) as client:
        several: list[Any] = [{"name": "must"}, {"name": "must", "task": None}, {"name": "plain", "task": {}}]
        for params in several:
            assert (await refused(client, "tools/call", params)).code == -32601
        assert (await refused(client, "tools/call", {"name": "other", "task": {}})).code == -32602
        assert "content" in await client.request("tools/call", {"name": "plain", "task": None})
        assert "task" in await client.request("tools/call", {"name": "must", "task": {}})
    for older in (each for each in Revision if each < revision):
        work = Work()
        work.gate.set()
        async with open_client(work.server, revision=older) as client:
            answer = await client.request("tools/call", {"name": "work", "task": {}})
            assert answer["content"][0]["text"] == "done w"


@BOTH_WAYS
@pytest.mark.spec(TASKS, "Protocol Messages")
@pytest.mark.spec(TASKS, "Creating Tasks")
@pytest.mark.spec(TASKS, "Getting Tasks")
@pytest.mark.spec(TASKS, "Retrieving Task Results")
@pytest.mark.spec(TASKS, "Result Retrieval")
@pytest.mark.spec(TASKS, "Related Task Metadata")
@pytest.mark.spec(TASKS, "Message Flow")
@pytest.mark.spec(TASKS, "Basic Task Lifecycle")
@pytest.mark.spec(TASKS, "Task Status Lifecycle")
async def test_a_task_is_begun_looked_at_and_waited_for(revision: Revision, way: str) -> None:
    work, results = Work(), list[Any]()
    async with met(work.server, way) as client, trio.open_nursery() as nursery:
        task = await start(client, "work", {"ttl": 9_000}, name="x")
        assert task.keys() == {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
        assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", 9_000, 100)

        async def wait() -> None:
            results.append(await about(client, "tasks/result", task))

        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert results == []
        seen = await about(client, "tasks/get", task)
        assert seen.pop("lastUpdatedAt") >= task.pop("lastUpdatedAt")
        assert seen == {**task, "statusMessage": "half of it"}
        work.gate.set()
    meta = {RELATED: {"taskId": task["taskId"]}}
    assert results == 2 * [{"content": [{"type": "text", "text": "done x"}], "_meta": meta}]


@pytest.mark.spec(TASKS, "Data Types")
@pytest.mark.spec(TASKS, "Task")
@pytest.mark.spec(TASKS, "Task Parameters")
@pytest.mark.spec(TASKS, "Task ID Requirements")
@pytest.mark.spec(TASKS, "TTL and Resource Management")
@pytest.mark.spec(TASKS, "Resource Management")
async def test_ids_and_times(revision: Revision, autojump_clock: trio.testing.MockClock) -> None:
    """The tool's own ``ttl`` is the longest, an id cannot be guessed, and a task is gone when its time is over."""
    work = Work()
    async with met(work.server) as client:
        tasks = [
            *[await start(client, "work", {"ttl": ttl}) for ttl in (1, 60_000, 60_001, None, 10**400)],
            *[await start(client, "must", {"ttl": ttl}) for ttl in (None, 5, 10**400)],
        ]
        assert [task["ttl"] for task in tasks] == [1, 60_000, 60_000, 60_000, 60_000, None, 5, 10**12]
        assert len({task["taskId"] for task in tasks}) == len(tasks)
        assert all(len(bytes.fromhex(task["taskId"].partition("-")[2])) == 20 for task in tasks)
        bads: list[Any] = [*({"ttl": bad} for bad in (-1, 0, "1", 1.5, True)), "task", []]
        for bad in bads:
            error = await refused(client, "tools/call", {"name": "work", "task": bad})
            assert error.code == -32602
        await trio.sleep(100)
        found = [await refused(client, "tasks/get", {"taskId": task["taskId"]}) for task in tasks[:5]]
        assert {(error.code, error.message) for error in found} == {(-32602, UNKNOWN)}
        assert work.ended == 5 * ["w"]
        listed = {task["taskId"] for task in (await client.request("tasks/list"))["tasks"]}
        assert listed == {tasks[5]["taskId"], tasks[7]["taskId"]}
        statistics = work.server.statistics()[0]
        assert statistics["tasks"].lent == 2


@BOTH_WAYS
@pytest.mark.spec(TASKS, "Task Status")
@pytest.mark.spec(TASKS, "Task Execution Errors")
@pytest.mark.spec(TASKS, "Result Retrieval")
async def test_a_task_that_fails_has_what_its_call_would_have_been_answered(revision: Revision, way: str) -> None:
    async with met(Work().server, way) as client:
        for fail, status, message in (("", "completed", None), ("tool", "failed", "it rains")):
            task = await start(client, "must", fail=fail)
            result = await about(client, "tasks/result", task)
            assert result.pop("_meta") == {RELATED: {"taskId": task["taskId"]}}
            assert result.get("isError", False) == (status == "failed")
            seen = await about(client, "tasks/get", task)
            assert (seen["status"], seen.get("statusMessage")) == (status, message)
        task = await start(client, "must", fail="protocol")
        for _ in range(2):
            error = await refused(client, "tasks/result", {"taskId": task["taskId"]})
            assert (error.code, error.message, error.data) == (-32050, "no", {"why": "rain"})
        seen = await about(client, "tasks/get", task)
        assert (seen["status"], seen["statusMessage"]) == ("failed", "no")


@BOTH_WAYS
@pytest.mark.spec(TASKS, "Input Required Status")
@pytest.mark.spec(TASKS, "Associating Task-Related Messages")
@pytest.mark.spec(TASKS, "Related Task Metadata")
@pytest.mark.spec(TASKS, "Task-Augmented Tool Call With Elicitation")
@pytest.mark.spec(TASKS, "Task Status Notification")
@pytest.mark.spec(TASKS, "Task Notifications")
@pytest.mark.spec(TASKS, "Task Status Lifecycle")
async def test_a_task_asks_its_client_while_that_waits_for_the_result(revision: Revision, way: str) -> None:
    """Also what another call would ask before it is a task."""
    tape = Tape()

    def received(method: str) -> list[Any]:
        return [m for come, m in tape.frames if come == "received" and m.get("method") == method]

    options: Any = {"on_elicit": saying({"value": "ada"}), "on_sample": saying("says hello")}
    async with met(Work().server, way, on_frame=tape, **options) as client:
        task = await start(client, "ask")
        while (await about(client, "tasks/get", task))["status"] != "input_required":
            await trio.testing.wait_all_tasks_blocked()
        assert received("elicitation/create") == []
        other = {"_meta": {RELATED: {"taskId": "another"}}}  # the parameter counts
        result = await client.request("tasks/result", {"taskId": task["taskId"], **other})
        assert result["content"][0]["text"] == "ada says hello"
        meta = {RELATED: {"taskId": task["taskId"]}}
        for method in ("elicitation/create", "sampling/createMessage"):
            [question] = received(method)
            assert question["params"]["_meta"] == meta
        notified = [note["params"] for note in received("notifications/tasks/status")]
        assert {note["status"] for note in notified} <= {"working", "input_required"}
        assert notified[-1].keys() == {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
        assert (await about(client, "tasks/get", task))["status"] == "completed"


@BOTH_WAYS
@pytest.mark.spec(TASKS, "Cancelling Tasks")
@pytest.mark.spec(TASKS, "Task Cancellation")
@pytest.mark.spec(TASKS, "Task Cancellation Flow")
@pytest.mark.spec(TASKS, "Protocol Errors")
async def test_a_task_is_cancelled_before_that_is_answered(revision: Revision, way: str) -> None:
    work = Work()
    async with met(work.server, way) as client:
        task = await start(client, "work")
        errors = list[RequestError]()
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                errors.append(await refused(client, "tasks/result", {"taskId": task["taskId"]}))

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert (await about(client, "tasks/cancel", task))["status"] == "cancelled"
        assert work.ended == ["w"]
        assert (await about(client, "tasks/get", task))["status"] == "cancelled"
        done = await start(client, "must")
        await about(client, "tasks/result", done)
        for over in (task, done):
            assert (await refused(client, "tasks/cancel", {"taskId": over["taskId"]})).code == -32602
        assert (
            errors[0].code == (await refused(client, "tasks/result", {"taskId": task["taskId"]})).code == -32603
        )


@BOTH_WAYS
@pytest.mark.spec(TASKS, "Task Progress Notifications")
async def test_progress_becomes_the_status_message(revision: Revision, way: str) -> None:
    """And is told with the status, so that no token is used after the task is over, or another one."""
    tape, server, gate = Tape(), Server("s"), trio.Event()

    @server.tool(task="optional")
    async def steps(ctx: Context[Any]) -> None:
        await gate.wait()
        async with ctx.progress(total=2) as progress:
            await progress.advance()
            await trio.testing.wait_all_tasks_blocked(0.01)
            await progress.advance(message="there")
            await trio.testing.wait_all_tasks_blocked(0.01)

    async with met(server, way, on_frame=tape) as client, trio.open_nursery() as nursery:
        params = {"name": "steps", "task": {}, "_meta": {"progressToken": "p"}}
        task = (await client.request("tools/call", params))["task"]
        nursery.start_soon(about, client, "tasks/result", task)
        await trio.testing.wait_all_tasks_blocked(0.01)
        gate.set()
    notes = [m for come, m in tape.frames if come == "received" and "id" not in m]
    assert {note["method"] for note in notes} == {"notifications/tasks/status"}
    assert [note["params"].get("statusMessage") for note in notes] == ["1 of 2", "there"]


@pytest.mark.spec(TASKS, "Task Cancellation")
@pytest.mark.spec(TASKS, "Task Status Lifecycle")
async def test_a_cancelled_task_stays_cancelled_whatever_its_handler_does(revision: Revision) -> None:
    server, gate, late = Server("s"), trio.Event(), list[str]()

    @server.tool(task="optional")
    async def stubborn(ctx: Context[Any], fail: bool = False) -> str:
        with trio.CancelScope(shield=True):
            await gate.wait()
            await ctx.report_progress(1, message="still here")
            with pytest.raises(LocalProtocolError):
                await ctx.elicit("Who?", str)
            late.append("asked")
        if fail:
            raise RequestError(-32050, "no")
        return "done"

    async with met(server, on_elicit=saying({"value": "never"})) as client:
        tasks = [await start(client, "stubborn"), await start(client, "stubborn", fail=True)]
        cancelled = [await about(client, "tasks/cancel", task) for task in tasks]
        assert [task["status"] for task in cancelled] == ["cancelled", "cancelled"]
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert late == ["asked", "asked"]
        assert [await about(client, "tasks/get", task) for task in tasks] == cancelled
        assert server.activity().requests == ()


@BOTH_WAYS
@pytest.mark.spec(TASKS, "Error Handling")
@pytest.mark.spec(TASKS, "Protocol Errors")
async def test_what_is_no_task_is_refused(revision: Revision, way: str) -> None:
    async with met(Work().server, way) as client:
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            for params in ({"taskId": "x"}, {"taskId": 7}, {"taskId": None}, {}):
                assert (await refused(client, method, params)).code == -32602
        for cursor in ("x", 7):
            assert (await refused(client, "tasks/list", {"cursor": cursor})).code == -32602


@pytest.mark.spec(TASKS, "Listing Tasks")
@pytest.mark.spec(TASKS, "Task Listing")
async def test_tasks_are_listed_page_by_page(revision: Revision) -> None:
    work = Work(page_size=2)
    async with met(work.server) as client:
        ids = [(await start(client, "work"))["taskId"] for _ in range(5)]
        found, page = list[str](), await client.request("tasks/list")
        while True:
            assert len(page["tasks"]) <= 2
            found += [task["taskId"] for task in page["tasks"]]
            if "nextCursor" not in page:
                break
            page = await client.request("tasks/list", {"cursor": page["nextCursor"]})
        assert found == ids
        seen = (await client.request("tasks/list"))["tasks"][0]
        assert seen == await about(client, "tasks/get", seen)
    async with met(Work().server) as client:
        ids = [(await start(client, "must"))["taskId"] for _ in range(101)]
        page = await client.request("tasks/list")
        assert (len(page["tasks"]), "nextCursor" in page) == (100, True)
        page = await client.request("tasks/list", {"cursor": page["nextCursor"]})
        assert [task["taskId"] for task in page["tasks"]] == ids[100:]
        assert page.keys() == {"tasks"}


@attrs.frozen(eq=False)
class From:
    """An origin with a principal, or without one."""

    principal: str | None


class Sessions:
    """A server that one session speaks to for several principals; each message has its own."""

    def __init__(self, server: Server[Any]) -> None:
        self.server = server
        self.wires: dict[From, ScriptedChannel] = {}

    async def ask(self, who: From, method: str, /, **params: object) -> dict[str, Any]:
        wire = self.wires[who]
        before = len(wire.sent)
        wire.say_as(who, {"jsonrpc": "2.0", "id": f"{method} {before}", "method": method, "params": params})
        await trio.testing.wait_all_tasks_blocked()
        return dict(wire.sent[before])

    @asynccontextmanager
    async def served(self, *those: From) -> AsyncGenerator[dict[From, Any]]:
        declared: dict[From, Any] = {}
        async with self.server.open() as running, trio.open_nursery() as nursery:
            for who in those:
                self.wires[who] = ScriptedChannel()
                nursery.start_soon(running.serve_channel, self.wires[who])  # noqa: ASYNC113 - what is said waits
                info: Any = {"capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
                answer = await self.ask(who, "initialize", protocolVersion="2025-11-25", **info)
                declared[who] = answer["result"]["capabilities"]["tasks"]
            yield declared
            nursery.cancel_scope.cancel()


@pytest.mark.spec(TASKS, "Security Considerations")
@pytest.mark.spec(TASKS, "Task Isolation and Access Control")
async def test_a_task_belongs_to_its_principal(revision: Revision) -> None:
    """Where nobody authenticates the id is the key, and a session lists what it knows."""
    sessions = Sessions(Work().server)
    ada, bob, nobody, other = From("ada"), From("bob"), From(None), From(None)
    async with sessions.served(ada, bob, nobody, other) as declared:
        assert all("list" in each for each in declared.values())
        ids = dict[From, str]()
        for who in (ada, bob, nobody):
            created = await sessions.ask(who, "tools/call", name="work", task={})
            ids[who] = created["result"]["task"]["taskId"]
        for who in (ada, bob, nobody):
            listed = await sessions.ask(who, "tasks/list")
            assert [task["taskId"] for task in listed["result"]["tasks"]] == [ids[who]]
        assert (await sessions.ask(other, "tasks/list"))["result"] == {"tasks": []}
        seen = (await sessions.ask(other, "tasks/get", taskId=ids[nobody]))["result"]
        assert (await sessions.ask(other, "tasks/list"))["result"] == {"tasks": [seen]}
        for who, others in ((bob, ada), (nobody, ada), (ada, nobody)):
            for method in ("tasks/get", "tasks/result", "tasks/cancel"):
                error = (await sessions.ask(who, method, taskId=ids[others]))["error"]
                assert (error["code"], error["message"]) == (-32602, UNKNOWN)
        assert (await sessions.ask(ada, "tasks/cancel", taskId=ids[ada]))["result"]["status"] == "cancelled"
