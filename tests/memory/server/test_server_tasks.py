"""Tasks of a server: calls that go on when their request was answered (ext-tasks, 2026-07-28)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from wires import ScriptedChannel

from trio_mcp import (
    Client,
    ConnectionLost,
    Context,
    InputRequired,
    Limits,
    LocalProtocolError,
    MemoryTaskStore,
    Origin,
    RequestError,
    Revision,
    Server,
    Shutdown,
    StoredTask,
    TaskUpdated,
    ToolError,
    URLElicitationRequired,
    open_client,
    types,
)

MODERN = Revision.V2026_07_28
TASKS = "io.modelcontextprotocol/tasks"
UNKNOWN = "there is no such task, or it has expired"
CAPABLE = types.ClientCapabilities(
    elicitation=types.ElicitationCapability(form={}, url={}), roots=types.RootsCapability()
)
NAME = types.ElicitRequestFormParams(
    message="Who?", requested_schema=types.RequestedSchema(properties={"name": types.StringSchema()})
)


def accepted(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


@asynccontextmanager
async def connected(server: Server, **options: Any) -> AsyncGenerator[Client]:
    async with open_client(server, revision=MODERN, tasks="always", capabilities=CAPABLE, **options) as client:
        yield client


async def call(client: Client, name: str, /, **arguments: object) -> dict[str, Any]:
    return await client.request("tools/call", {"name": name, "arguments": arguments})


async def start(client: Client, name: str, /, **arguments: object) -> str:
    result = await call(client, name, **arguments)
    assert result["resultType"] == "task", result
    return str(result["taskId"])


async def get(client: Client, id: str) -> dict[str, Any]:
    return await client.request("tasks/get", {"taskId": id})


async def settled(client: Client, id: str) -> dict[str, Any]:
    """Return a task as it is when nothing moves any more without the clock."""
    await trio.testing.wait_all_tasks_blocked()
    return await get(client, id)


async def refused(client: Client, method: str, **params: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        await client.request(method, params)
    return caught.value


def text(task: Mapping[str, Any]) -> str:
    return str(task["result"]["content"][0]["text"])


class Work:
    """A server with tools that wait until they are let go."""

    def __init__(self, **options: Any) -> None:
        self.server = Server("work", **options)
        self.gate = trio.Event()
        self.began: list[str] = []
        self.ended: list[str] = []

        @self.server.tool(task="optional")
        async def work(name: str = "w") -> str:
            self.began.append(name)
            try:
                await self.gate.wait()
            finally:
                self.ended.append(name)
            return f"done {name}"

        @self.server.tool(task="optional")
        async def ask(ctx: Context[Any], again: bool = False) -> str:
            first = await ctx.elicit("Who?", NAME.requested_schema)
            second = await ctx.elicit("Who?", NAME.requested_schema) if again else first
            return f"{(first.value or {}).get('name')} {(second.value or {}).get('name')}"

        @self.server.tool(task="required")
        async def must() -> None:
            self.began.append("must")
            await self.gate.wait()

        @self.server.tool
        async def plain() -> str:
            return "plain"


# How a call becomes a task.


async def test_the_call_is_answered_with_a_task_that_goes_on() -> None:
    work = Work()
    async with connected(work.server) as client:
        created = await call(client, "work")
        id = created["taskId"]
        assert created.keys() == {
            *("resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "_meta")
        }
        assert (created["resultType"], created["status"]) == ("task", "working")
        assert (created["ttlMs"], created["pollIntervalMs"]) == (3_600_000, 1_000)
        assert len(bytes.fromhex(id)) >= 16
        running = await settled(client, id)
        assert (running["resultType"], running["status"]) == ("complete", "working")
        assert not running.keys() & {"result", "error", "inputRequests"}
        work.gate.set()
        done = await settled(client, id)
        assert done["status"] == "completed"
        assert text(done) == "done w"
        assert done["result"]["resultType"] == "complete"
        assert done["createdAt"] == created["createdAt"]


async def test_the_extension_is_declared_by_a_server_with_such_tools_and_no_other() -> None:
    async with connected(Work().server) as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.extensions == {TASKS: {}}
        assert client.server_capabilities.tasks is None
    other = Server("other")
    other.tool(name="f", task="never")(lambda: None)
    async with connected(other) as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.extensions is None
        assert (await refused(client, "tasks/get", taskId="x")).code == -32601


@pytest.mark.parametrize("revision", [each for each in Revision if not each.is_modern])
async def test_older_revisions_know_nothing_of_it(revision: Revision) -> None:
    work = Work()
    work.gate.set()

    @work.server.tool(task="required")
    async def only() -> None: ...

    async with open_client(work.server, revision=revision, tasks="always") as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.extensions is None
        assert (await call(client, "work"))["content"][0]["text"] == "done w"
        error = await refused(client, "tools/call", name="only", arguments={})
        assert error.code == -32601


async def test_a_client_that_does_not_declare_it_on_this_request_gets_the_result() -> None:
    work = Work()
    work.gate.set()
    async with open_client(work.server, revision=MODERN, tasks="never") as client:
        result = await call(client, "work")
        assert (result["resultType"], result["content"][0]["text"]) == ("complete", "done w")
    # Two requests of one connection: each for itself.
    async with connected(work.server) as client:
        await start(client, "work")
        bare: Any = {"io.modelcontextprotocol/clientCapabilities": {}}
        result = await client.request("tools/call", {"name": "work", "_meta": bare})
        assert result["resultType"] == "complete"


async def test_a_tool_that_is_always_a_task_refuses_others_and_says_what_is_missing() -> None:
    server = Server("s")

    @server.tool(task="required")
    async def only() -> str:
        return "ran"

    async with open_client(server, revision=MODERN, tasks="never", capabilities=CAPABLE) as client:
        error = await refused(client, "tools/call", name="only", arguments={})
    assert error.code == -32021
    assert error.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_what_is_asked_of_a_task_must_declare_it_too(method: str) -> None:
    """Before the id is looked up: whether there is such a task is not said."""
    async with connected(Work().server) as client:
        bare: Any = {"io.modelcontextprotocol/clientCapabilities": {}}
        error = await refused(client, method, taskId="x", inputResponses={}, _meta=bare)
        assert error.code == -32021
        assert error.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


async def test_a_tool_without_the_option_is_never_a_task_whatever_an_old_client_asks_for() -> None:
    async with connected(Work().server) as client:
        result = await client.request("tools/call", {"name": "plain", "arguments": {}, "task": {"ttl": 60_000}})
        assert result["resultType"] == "complete"


@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_methods_of_the_older_tasks_are_gone(method: str) -> None:
    wire = ScriptedChannel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Work().server.serve_channel, wire)
        [answer] = await asked(wire, method, taskId="x")
        wire.hang_up()
    assert answer["error"]["code"] == -32601


async def asked(
    wire: ScriptedChannel, method: str, /, origin: Origin | None = None, **params: object
) -> list[dict[str, Any]]:
    """Send a request as a client that knows tasks; return what is sent then."""
    meta: Any = {
        "io.modelcontextprotocol/protocolVersion": str(MODERN),
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}, "elicitation": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    }
    before = len(wire.sent)
    message: Any = {
        "jsonrpc": "2.0",
        "id": f"{method} {before}",
        "method": method,
        "params": {**params, "_meta": meta},
    }
    if origin is None:
        wire.say(message)
    else:
        wire.say_as(origin, message)
    await trio.testing.wait_all_tasks_blocked()
    return wire.sent[before:]


# What becomes of it.


async def test_an_error_of_the_tool_is_a_result() -> None:
    server = Server("s")

    @server.tool(task="optional")
    async def fail() -> None:
        raise ToolError("no")

    async with connected(server) as client:
        task = await settled(client, await start(client, "fail"))
    assert task["status"] == "completed"
    assert task["result"]["isError"] is True
    assert "error" not in task


async def test_an_error_of_the_protocol_is_a_failure() -> None:
    server = Server("s")

    @server.tool(task="optional")
    async def fail() -> None:
        raise RequestError(-32050, "limit exceeded", {"wait": 3})

    async with connected(server) as client:
        task = await settled(client, await start(client, "fail"))
    assert task["status"] == "failed"
    assert task["error"] == {"code": -32050, "message": "limit exceeded", "data": {"wait": 3}}
    assert task["statusMessage"] == "limit exceeded"
    assert "result" not in task


async def test_invalid_arguments_are_a_result_too() -> None:
    async with connected(Work().server) as client:
        task = await settled(client, await start(client, "work", name=[]))
        assert task["result"]["isError"] is True


async def test_progress_is_its_status_message_and_log_messages_are_not_sent() -> None:
    server, go_on, go_on_for_ever = Server("s"), trio.Event(), trio.Event()

    @server.tool(task="optional")
    async def count(ctx: Context[Any]) -> str:
        await ctx.info("nobody gets this")
        async with ctx.progress(total=4) as progress:
            await progress.advance(message="one")
            await go_on.wait()
            await progress.advance(2)
            await progress.report(1, "less than was reported is not")
            await go_on_for_ever.wait()
        return ""

    heard: list[str] = []

    def hear(method: str, _: object) -> None:
        heard.append(method)

    async with connected(server, on_notification=hear) as client:
        params = {"name": "count", "arguments": {}, "_meta": {"progressToken": 7}}
        id = (await client.request("tools/call", params))["taskId"]
        assert (await settled(client, id))["statusMessage"] == "one"
        go_on.set()
        assert (await settled(client, id))["statusMessage"] == "3 of 4"
        await client.request("tasks/cancel", {"taskId": id})
    assert heard == []


async def test_a_status_message_is_cut_off() -> None:
    server = Server("s")

    @server.tool(task="optional")
    async def tell(ctx: Context[Any]) -> None:
        await ctx.report_progress(1, message="x" * 5_000)
        await trio.sleep_forever()

    async with connected(server) as client:
        assert len((await settled(client, await start(client, "tell")))["statusMessage"]) == 1_000


async def test_it_does_not_end_with_the_deadline_of_its_call(autojump_clock: trio.testing.MockClock) -> None:
    work = Work()
    async with connected(work.server) as client:
        with trio.fail_after(5):
            id = await start(client, "work")
        await trio.sleep(100)
        assert (await get(client, id))["status"] == "working"


async def test_plain_functions_are_tasks_too() -> None:
    server = Server("s")

    @server.tool(task="optional")
    def add(a: int, b: int) -> int:
        return a + b

    async with connected(server) as client:
        id = await start(client, "add", a=1, b=2)
        while (task := await get(client, id))["status"] == "working":
            await trio.sleep(0.01)
        assert task["result"]["structuredContent"] == 3


# Questions.


async def test_a_question_makes_it_wait_for_input() -> None:
    async with connected(Work().server) as client:
        id = await start(client, "ask")
        task = await settled(client, id)
        assert task["status"] == "input_required"
        [(key, question)] = task["inputRequests"].items()
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Who?"
        done = await client.request("tasks/update", {"taskId": id, "inputResponses": {key: accepted("Ada")}})
        assert done.keys() == {"resultType", "_meta"}
        assert text(await settled(client, id)) == "Ada Ada"


async def test_keys_are_never_used_twice_and_a_second_answer_is_ignored() -> None:
    async with connected(Work().server) as client:
        id = await start(client, "ask", again=True)
        [first] = (await settled(client, id))["inputRequests"]
        await client.request("tasks/update", {"taskId": id, "inputResponses": {first: accepted("Ada")}})
        [second] = (await settled(client, id))["inputRequests"]
        assert second != first
        stale = {first: accepted("Eve"), "never asked": {"what": "ever"}}
        await client.request("tasks/update", {"taskId": id, "inputResponses": stale})
        assert list((await settled(client, id))["inputRequests"]) == [second]
        await client.request("tasks/update", {"taskId": id, "inputResponses": {second: accepted("Bob")}})
        assert text(await settled(client, id)) == "Ada Bob"
        await client.request("tasks/update", {"taskId": id, "inputResponses": {second: accepted("Eve")}})
        assert text(await settled(client, id)) == "Ada Bob"


async def test_some_answers_leave_the_other_questions_open() -> None:
    server = Server("s")

    @server.tool(task="optional")
    async def two(ctx: Context[Any]) -> list[str]:
        names: list[str] = []

        async def one(message: str) -> None:
            answer = await ctx.elicit(message, NAME.requested_schema)
            names.append(f"{message} {(answer.value or {})['name']}")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "a")
            nursery.start_soon(one, "b")
        return sorted(names)

    async with connected(server) as client:
        id = await start(client, "two")
        asked = {
            key: each["params"]["message"] for key, each in (await settled(client, id))["inputRequests"].items()
        }
        assert sorted(asked.values()) == ["a", "b"]
        first, second = asked
        await client.request("tasks/update", {"taskId": id, "inputResponses": {first: accepted("1")}})
        task = await get(client, id)  # at once: an answered question is not open any more
        assert (task["status"], list(task["inputRequests"])) == ("input_required", [second])
        await client.request("tasks/update", {"taskId": id, "inputResponses": {second: accepted("2")}})
        task = await settled(client, id)
        assert sorted(task["result"]["structuredContent"]) == sorted([f"{asked[first]} 1", f"{asked[second]} 2"])


async def test_an_answer_of_the_wrong_kind_is_refused_and_may_be_sent_again() -> None:
    async with connected(Work().server) as client:
        id = await start(client, "ask")
        [key] = (await settled(client, id))["inputRequests"]
        wrong: Any = {key: {"roots": []}}
        error = await refused(client, "tasks/update", taskId=id, inputResponses=wrong)
        assert (error.code, error.message) == (
            -32602,
            f"invalid params: inputResponses.{key} does not answer elicitation/create",
        )
        await client.request("tasks/update", {"taskId": id, "inputResponses": {key: accepted("Ada")}})
        assert (await settled(client, id))["status"] == "completed"


async def test_a_question_that_is_cancelled_is_not_open_any_more(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("s")

    @server.tool(task="optional")
    async def hurry(ctx: Context[Any]) -> str:
        with trio.move_on_after(10):
            await ctx.elicit("Who?", NAME.requested_schema)
        await trio.sleep(10)
        return "nobody"

    async with connected(server) as client:
        id = await start(client, "hurry")
        await trio.sleep(5)
        assert (await get(client, id))["status"] == "input_required"
        await trio.sleep(10)
        assert (await get(client, id))["status"] == "working"
        await trio.sleep(10)
        assert text(await get(client, id)) == "nobody"


async def test_what_a_tool_returns_to_ask_is_asked_in_the_task() -> None:
    server = Server("s")

    @server.tool(task="optional")
    async def by_hand(ctx: Context[Any]) -> str | InputRequired:
        answer = ctx.input_responses.get("name")
        if not isinstance(answer, types.ElicitResult):
            return InputRequired({"name": NAME}, {"seen": 1})
        return f"{(answer.content or {})['name']} {ctx.request_state}"

    @server.tool(task="optional")
    async def visit(ctx: Context[Any]) -> str:
        if not visited:
            visited.append("asked")
            raise URLElicitationRequired(types.ElicitRequestURLParams(message="Pay", url="https://x.example/pay"))
        return "paid"

    visited: list[str] = []
    async with connected(server) as client:
        id = await start(client, "by_hand")
        [key] = (await settled(client, id))["inputRequests"]
        await client.request("tasks/update", {"taskId": id, "inputResponses": {key: accepted("Ada")}})
        assert text(await settled(client, id)) == "Ada {'seen': 1}"
        id = await start(client, "visit")
        [(key, question)] = (await settled(client, id))["inputRequests"].items()
        assert question["params"]["url"] == "https://x.example/pay"
        await client.request("tasks/update", {"taskId": id, "inputResponses": {key: {"action": "accept"}}})
        assert text(await settled(client, id)) == "paid"


@pytest.mark.parametrize("resume", ["park", "replay"])
async def test_what_is_asked_before_the_task_belongs_to_the_request(resume: Any) -> None:
    server, events = Server("s"), list[str]()

    @server.tool(task="optional", ask_first=True, resume=resume)
    async def careful(ctx: Context[Any]) -> str:
        answer = await ctx.elicit("Sure?", NAME.requested_schema)
        events.append(f"task: {ctx.is_task}")
        events.append(f"begun: {await ctx.begin_task()}, again: {await ctx.begin_task()}, task: {ctx.is_task}")
        other = await ctx.elicit("Really?", NAME.requested_schema)
        return f"{(answer.value or {})['name']} {(other.value or {})['name']}"

    async with connected(server) as client:
        required = await call(client, "careful")
        assert required["resultType"] == "input_required"
        assert "taskId" not in required
        [key] = required["inputRequests"]
        answers = {"requestState": required["requestState"], "inputResponses": {key: accepted("yes")}}
        created = await client.request("tools/call", {"name": "careful", "arguments": {}, **answers})
        assert created["resultType"] == "task"
        assert not created.keys() & {"requestState", "inputRequests"}
        id = created["taskId"]
        [key] = (await settled(client, id))["inputRequests"]
        await client.request("tasks/update", {"taskId": id, "inputResponses": {key: accepted("ja")}})
        assert text(await settled(client, id)) == "yes ja"
        assert events == ["task: False", "begun: True, again: True, task: True"]
    async with open_client(server, revision=MODERN, on_elicit=lambda _: {"name": "n"}) as client:
        assert (await client.call_tool("careful")).text == "n n"
        assert events[-2:] == ["task: False", "begun: False, again: False, task: False"]


async def test_a_task_does_not_begin_while_a_question_of_the_request_is_open() -> None:
    server, problems = Server("s"), list[str]()

    @server.tool(task="optional", ask_first=True)
    async def careless(ctx: Context[Any]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ctx.elicit, "Who?", NAME.requested_schema)
            await trio.testing.wait_all_tasks_blocked()
            try:
                await ctx.begin_task()
            except LocalProtocolError as error:
                problems.append(str(error))

    async with connected(server) as client:
        assert (await call(client, "careless"))["resultType"] == "input_required"
        await trio.testing.wait_all_tasks_blocked()
    assert problems == ["a task cannot begin while a question of its handler is open"]


async def test_a_function_in_a_thread_asks_in_its_task() -> None:
    server = Server("s")

    @server.tool(task="optional")
    def ask(ctx: Context[Any]) -> str:
        answer = trio.from_thread.run(ctx.elicit, "Who?", NAME.requested_schema)
        trio.from_thread.run(ctx.report_progress, 1, 2)
        return str((answer.value or {})["name"])

    async with connected(server) as client:
        id = await start(client, "ask")
        while (task := await get(client, id))["status"] == "working":
            await trio.sleep(0.01)
        [key] = task["inputRequests"]
        await client.request("tasks/update", {"taskId": id, "inputResponses": {key: accepted("Ada")}})
        while (task := await get(client, id))["status"] != "completed":
            await trio.sleep(0.01)
        assert text(task) == "Ada"


async def test_who_asks_for_a_task_that_has_ended_asks_too_late() -> None:
    """A task of the server that was started by the handler, and has its context."""
    server, problems = Server("s"), list[str]()

    @server.tool(task="optional")
    async def hurry(ctx: Context[Any]) -> str:
        async def ask() -> None:
            try:
                await ctx.elicit("Who?", NAME.requested_schema)
            except LocalProtocolError as error:
                problems.append(str(error))
            try:
                await ctx.report_progress(5, message="too late")
                await ctx.elicit("Who?", NAME.requested_schema)
            except LocalProtocolError as error:
                problems.append(str(error))

        ctx.start_soon(ask, until="server")
        await trio.testing.wait_all_tasks_blocked()
        return "done"

    async with connected(server) as client:
        task = await settled(client, await start(client, "hurry"))
        await trio.testing.wait_all_tasks_blocked()
        assert (task["status"], text(task)) == ("completed", "done")
        assert "statusMessage" not in await get(client, task["taskId"])
    assert problems == ["elicitation/create cannot be asked: the request has ended already"] * 2


async def test_all_questions_are_counted_and_given_back() -> None:
    server, many = Server("s"), 300

    @server.tool(task="optional")
    async def survey(ctx: Context[Any]) -> int:
        async with trio.open_nursery() as nursery:
            for _ in range(many):
                nursery.start_soon(ctx.elicit, "Who?" * 1_000, NAME.requested_schema)
        return many

    async with connected(server) as client:
        id = await start(client, "survey")
        await trio.testing.wait_all_tasks_blocked()
        running = server.statistics()[0]["bytes"].of["tasks"]
        asked = (await get(client, id))["inputRequests"]
        assert len(asked) == many
        assert running > many * 4_000
        answers = dict.fromkeys(asked, accepted("x"))
        await client.request("tasks/update", {"taskId": id, "inputResponses": answers})
        task = await settled(client, id)
        assert task["result"]["structuredContent"] == many
        assert server.statistics()[0]["bytes"].of["tasks"] < 50_000


# Cancelling.


async def test_cancelling_runs_the_cleanup_and_the_status_changes_only_then() -> None:
    server, finish, events = Server("s"), trio.Event(), list[str]()

    @server.tool(task="optional")
    async def slow() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await finish.wait()
            events.append("cleaned up")

    async with connected(server) as client:
        id = await start(client, "slow")
        await trio.testing.wait_all_tasks_blocked()
        done = await client.request("tasks/cancel", {"taskId": id})
        assert done.keys() == {"resultType", "_meta"}
        assert (await settled(client, id))["status"] == "working"
        finish.set()
        task = await settled(client, id)
        assert (task["status"], events) == ("cancelled", ["cleaned up"])
        assert not task.keys() & {"result", "error", "inputRequests"}
        # And again: harmless.
        await client.request("tasks/cancel", {"taskId": id})
        assert (await get(client, id))["status"] == "cancelled"


async def test_a_handler_that_ends_all_the_same_has_a_result() -> None:
    server = Server("s")

    @server.tool(task="optional")
    async def stubborn() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.01)
        return "done"

    async with connected(server) as client:
        id = await start(client, "stubborn")
        await client.request("tasks/cancel", {"taskId": id})
        while (task := await get(client, id))["status"] == "working":
            await trio.sleep(0.01)
        assert text(task) == "done"
        await client.request("tasks/cancel", {"taskId": id})
        assert text(await get(client, id)) == "done"


async def test_a_task_that_waits_for_an_answer_can_be_cancelled() -> None:
    async with connected(Work().server) as client:
        id = await start(client, "ask")
        assert (await settled(client, id))["status"] == "input_required"
        await client.request("tasks/cancel", {"taskId": id})
        assert (await settled(client, id))["status"] == "cancelled"


async def test_giving_up_the_call_does_nothing_to_its_task() -> None:
    """``notifications/cancelled`` is about a request, and that was answered."""
    wire, work = ScriptedChannel(), Work()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work.server.serve_channel, wire)
        [answer] = await asked(wire, "tools/call", name="work", arguments={})
        wire.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": answer["id"]}})
        [task] = await asked(wire, "tasks/get", taskId=answer["result"]["taskId"])
        assert task["result"]["status"] == "working"
        assert work.ended == []
        wire.hang_up()


@pytest.mark.parametrize("how", ["given up", "hung up"])
async def test_a_task_that_nobody_was_told_of_is_cancelled(how: str) -> None:
    """Its answer waits to be written when the client goes away: it never learns the id."""
    wire, work = ScriptedChannel(), Work()
    async with work.server.open() as running, trio.open_nursery() as nursery:
        nursery.start_soon(running.serve_channel, wire)
        wire.stop_reading()
        assert await asked(wire, "tools/list") == []
        assert await asked(wire, "tools/call", name="work", arguments={}) == []
        assert (work.began, work.ended) == (["w"], [])
        if how == "given up":
            wire.say(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "tools/call 0"}}
            )
        else:
            wire.hang_up(ConnectionLost("gone"))
        await trio.testing.wait_all_tasks_blocked()
        assert work.ended == ["w"]
        nursery.cancel_scope.cancel()


@attrs.define
class SlowStore:
    """A store that waits before it has a new task, and may fail."""

    inner: MemoryTaskStore = attrs.field(factory=MemoryTaskStore)
    gate: trio.Event = attrs.field(factory=trio.Event)
    fails: bool = False
    hangs: bool = False
    slow: trio.Event | None = None
    events: list[str] = attrs.field(factory=list[str])

    async def add(self, task: StoredTask) -> None:
        await self.inner.add(task)
        self.events.append("add")
        await self.gate.wait()
        if self.fails:
            raise OSError("the disk is full")

    async def find(self, id: str) -> StoredTask | None:
        return await self.inner.find(id)

    async def replace(self, task: StoredTask) -> None:
        if self.fails:
            raise OSError("the disk is full")
        if self.hangs:
            await trio.sleep_forever()
        if self.slow is not None:
            await self.slow.wait()
        await self.inner.replace(task)
        self.events.append(task.status)

    async def remove(self, id: str) -> None:
        if self.hangs:
            await trio.sleep_forever()
        await self.inner.remove(id)
        self.events.append("remove")


async def test_it_is_stored_before_the_answer_goes_out() -> None:
    store = SlowStore()
    work, answered = Work(task_store=store), list[str]()
    async with connected(work.server) as client, trio.open_nursery() as nursery:

        async def begin() -> None:
            answered.append(await start(client, "work"))

        nursery.start_soon(begin)
        await trio.testing.wait_all_tasks_blocked()
        assert (store.events, answered, work.began) == (["add"], [], [])
        store.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (len(answered), work.began) == (1, ["w"])
        work.gate.set()
        await settled(client, answered[0])
        assert store.events == ["add", "completed"]


async def test_its_end_is_stored_before_anybody_is_told_of_it() -> None:
    """Not that it has ended, and when this process is killed, that it has failed."""
    store = SlowStore()
    store.gate.set()
    work, told = Work(task_store=store), list[Any]()
    async with connected(work.server) as client, trio.open_nursery() as nursery:
        id = await start(client, "work")

        async def listen() -> None:
            async with client.listen(tasks=[id]) as events:
                async for event in events:
                    told.append(event)

        async def poll() -> None:
            told.append(await get(client, id))

        nursery.start_soon(listen)
        await trio.testing.wait_all_tasks_blocked()
        told.clear()
        store.slow = trio.Event()
        work.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(poll)
        await trio.testing.wait_all_tasks_blocked()
        assert told == []
        store.slow.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(told) == 2
        nursery.cancel_scope.cancel()


async def test_a_call_that_is_given_up_before_its_answer_leaves_no_task() -> None:
    store = SlowStore()
    work = Work(task_store=store)
    async with connected(work.server) as client:
        with trio.move_on_after(0.05) as scope:
            await start(client, "work")
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert (store.events, len(store.inner), work.began) == (["add", "remove"], 0, [])
        assert work.server.statistics()[0]["tasks"].lent == 0


async def test_a_store_that_fails_fails_the_call(caplog: pytest.LogCaptureFixture) -> None:
    store = SlowStore(fails=True)
    store.gate.set()
    async with connected(Work(task_store=store).server) as client:
        error = await refused(client, "tools/call", name="work", arguments={})
    assert (error.code, error.message) == (-32603, "internal error")
    assert "the disk is full" in caplog.text
    assert len(store.inner) == 0


async def test_a_result_that_cannot_be_stored_is_kept_in_memory(caplog: pytest.LogCaptureFixture) -> None:
    store = SlowStore()
    store.gate.set()
    work = Work(task_store=store)
    async with connected(work.server) as client:
        id = await start(client, "work")
        store.fails = True
        work.gate.set()
        assert text(await settled(client, id)) == "done w"
    assert "could not be written to its store" in caplog.text


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_what_a_store_did_not_take_expires_all_the_same(
    how: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that had trouble once must not cost its clients their places for ever."""
    store = SlowStore()
    store.gate.set()
    server = Server("s", task_store=store)

    @server.tool(task="optional", ttl=60)
    async def work() -> str:
        await trio.sleep(1)
        return "done"

    async with connected(server) as client:
        ids = [await start(client, "work") for _ in range(3)]
        setattr(store, how, True)
        await trio.sleep(30)
        for id in ids:
            assert text(await get(client, id)) == "done"
        assert "is kept in memory" in caplog.text
        store.fails = False  # one that hangs goes on to do so: none of the others waits for it long
        await trio.sleep(31)
        for id in ids:
            assert (await refused(client, "tasks/get", taskId=id)).message == UNKNOWN
        statistics = server.statistics()[0]
        assert (statistics["tasks"].lent, statistics["bytes"].lent) == (0, 0)
        assert server.activity().requests == ()
        await trio.sleep(30)
        assert "was not removed from its store in time" in caplog.text or len(store.inner) == 0


async def test_several_tasks_of_a_handler_make_one_task_of_it() -> None:
    server = Server("s")

    @server.tool(task="optional", ask_first=True)
    async def work(ctx: Context[Any]) -> str:
        begun: list[bool] = []

        async def begin() -> None:
            begun.append(await ctx.begin_task())

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(begin)
        await begin()
        return str(begun)

    async with connected(server) as client:
        done = await settled(client, await start(client, "work"))
        assert text(done) == "[True, True, True, True]"
        assert server.statistics()[0]["tasks"].lent == 1


async def test_a_task_does_not_begin_when_its_handler_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing would ever end it: it would be kept as long as the server runs, ttl or not."""
    store = SlowStore()
    server = Server("s", task_store=store)

    @server.tool(task="optional", ask_first=True)
    async def work(ctx: Context[Any]) -> str:
        ctx.start_soon(ctx.begin_task)
        await trio.testing.wait_all_tasks_blocked()
        return "done"

    async with connected(server) as client:
        assert (await client.call_tool("work")).text == "done"
        store.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert "a task cannot begin when its handler has ended" in caplog.text
        assert (len(store.inner), server.statistics()[0]["tasks"].lent) == (0, 0)


@pytest.mark.parametrize(
    ("how", "asks"),
    [
        ("cancelled", "in its cleanup"),
        ("expired", "in its cleanup"),
        ("server ended", "in its cleanup"),
        ("cancelled", "before"),
        ("expired", "before"),
    ],
)
async def test_a_task_that_is_ending_waits_for_no_answer(
    how: str, asks: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Whoever has cancelled it may be gone, and nobody finds what has expired."""
    server, raised = Server("s"), list[BaseException]()

    @server.tool(task="optional", ttl=60)
    async def work(ctx: Context[Any]) -> None:
        try:
            if asks == "in its cleanup":
                await trio.sleep_forever()
        finally:
            with trio.fail_after(1_000, shield=True):
                try:
                    await ctx.elicit("Who?", NAME.requested_schema)
                except LocalProtocolError as error:
                    raised.append(error)
        await trio.lowlevel.checkpoint()

    async with (
        server.open() as running,
        open_client(running, revision=MODERN, tasks="always", capabilities=CAPABLE) as client,
    ):
        id = await start(client, "work")
        await trio.sleep(1)
        if how == "cancelled":
            await client.request("tasks/cancel", {"taskId": id})
            assert (await settled(client, id))["status"] == "cancelled"
        elif how == "expired":
            await trio.sleep(60)
    [error] = raised
    assert "elicitation/create cannot be asked" in str(error)


async def test_tasks_that_run_are_among_what_the_server_is_doing() -> None:
    work = Work()
    async with connected(work.server) as client:
        await start(client, "work")
        await start(client, "ask")
        await trio.testing.wait_all_tasks_blocked()
        seen = {
            each.target: (each.method, each.waits_for, each.transport) for each in work.server.activity().requests
        }
        assert seen == {
            "work": ("tools/call", None, None),
            "ask": ("tools/call", "the client: elicitation/create", None),
        }
        work.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [each.target for each in work.server.activity().requests] == ["ask"]


# Whose it is, and how long.


@attrs.frozen(eq=False)
class From:
    """Where a message comes from."""

    principal: str | None


async def test_tasks_belong_to_their_principal() -> None:
    wire, work = ScriptedChannel(), Work()
    ada, eve, nobody = From("ada"), From("eve"), From(None)

    async def of(origin: From, method: str, /, **params: object) -> dict[str, Any]:
        [answer] = await asked(wire, method, origin, **params)
        return answer

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work.server.serve_channel, wire)
        id = (await of(ada, "tools/call", name="work", arguments={}))["result"]["taskId"]
        for other in (eve, nobody):
            for method in ("tasks/get", "tasks/cancel", "tasks/update"):
                answer = await of(other, method, taskId=id, inputResponses={})
                assert answer["error"] == {"code": -32602, "message": UNKNOWN}
        assert (await of(From("ada"), "tasks/get", taskId=id))["result"]["status"] == "working"
        wire.hang_up()


async def test_it_is_kept_for_its_ttl_and_no_longer(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("s")

    @server.tool(task="optional", ttl=60, poll=2.5)
    async def quick() -> str:
        return "done"

    @server.tool(task="optional", ttl=30)
    async def quicker() -> str:
        return "done"

    async with connected(server) as client:
        created = await call(client, "quick")
        assert (created["ttlMs"], created["pollIntervalMs"]) == (60_000, 2_500)
        await trio.sleep(10)
        other = await start(client, "quicker")  # which is due before
        await trio.sleep(29.9)
        assert (await get(client, other))["status"] == "completed"
        await trio.sleep(0.2)
        assert (await refused(client, "tasks/get", taskId=other)).message == UNKNOWN
        assert (await get(client, created["taskId"]))["status"] == "completed"
        await trio.sleep(20)
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            error = await refused(client, method, taskId=created["taskId"], inputResponses={})
            assert (error.code, error.message) == (-32602, UNKNOWN)
        statistics = server.statistics()[0]
        assert statistics["tasks"].lent == 0
        assert "tasks" not in statistics["bytes"].of


async def test_a_task_that_still_runs_when_its_time_is_over_is_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server, events = Server("s"), list[str]()

    @server.tool(task="optional", ttl=60)
    async def slow() -> None:
        try:
            await trio.sleep_forever()
        finally:
            events.append("cleaned up")

    async with connected(server) as client:
        id = await start(client, "slow")
        await trio.sleep(60)
        await trio.testing.wait_all_tasks_blocked()
        assert events == ["cleaned up"]
        assert (await refused(client, "tasks/get", taskId=id)).message == UNKNOWN
        assert server.statistics()[0]["tasks"].lent == 0


async def test_without_a_ttl_it_is_kept_as_long_as_the_server_runs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = Server("s")

    @server.tool(task="optional", ttl=None)
    async def quick() -> str:
        return "done"

    async with connected(server) as client:
        created = await call(client, "quick")
        assert created["ttlMs"] is None
        await trio.sleep(80_000)
        assert (await get(client, created["taskId"]))["status"] == "completed"


@pytest.mark.parametrize("id", [None, 7, [], {}])
async def test_an_id_is_a_text(id: object) -> None:
    async with connected(Work().server) as client:
        error = await refused(client, "tasks/get", taskId=id)
        assert (error.code, error.message) == (-32602, "invalid params: taskId: expected a string")


async def test_answers_are_an_object() -> None:
    async with connected(Work().server) as client:
        id = await start(client, "ask")
        error = await refused(client, "tasks/update", taskId=id)
        assert error.message == "invalid params: inputResponses: expected an object"


# Limits.


async def test_a_client_has_so_many_tasks() -> None:
    """What must be a task is refused then; what may be one is a call as any other."""
    work = Work(limits=Limits(max_tasks=20))
    async with connected(work.server) as client:
        for _ in range(2):
            await start(client, "must")
        error = await refused(client, "tools/call", name="must", arguments={})
        assert error.code == -31002
        assert "no more tasks can be kept" in error.message
        assert "a tenth of max_tasks is 2" in error.message
        assert work.began == ["must"] * 2  # it did not run
        work.gate.set()
        result = await call(client, "work")
        assert (result["resultType"], result["content"][0]["text"]) == ("complete", "done w")


async def test_one_client_leaves_places_to_others() -> None:
    """`max_tasks` is for all: however many take what they can get, the next one finds room."""
    work = Work(limits=Limits(max_tasks=4))
    async with work.server.open() as running:
        async with open_client(running, tasks="always") as client:
            await start(client, "must")
            error = await refused(client, "tools/call", name="must", arguments={})
            assert (error.code, error.message.endswith("a tenth of max_tasks is 1")) == (-31002, True)
        async with open_client(running, tasks="always") as client:
            await start(client, "must")


async def test_a_result_has_a_size() -> None:
    server = Server("s", limits=Limits(max_message_bytes=2_000))

    @server.tool(task="optional")
    async def large(size: int) -> str:
        return "x" * size

    async with connected(server) as client:
        task = await settled(client, await start(client, "large", size=2_000))
        assert task["status"] == "failed"
        assert "1000 are allowed, half of max_message_bytes" in task["error"]["message"]
        assert (await settled(client, await start(client, "large", size=500)))["status"] == "completed"


async def test_an_error_has_a_size_too_and_must_be_json(caplog: pytest.LogCaptureFixture) -> None:
    """Or nobody could ask for the task, and its place would be lost."""
    server = Server("s", limits=Limits(max_message_bytes=2_000))

    @server.tool(task="optional")
    async def fail(how: str) -> None:
        raise RequestError(7, "no", object() if how == "object" else "x" * int(how))

    async with connected(server) as client:
        for how, message in (
            ("500", "no"),
            ("2000", "the result of the task is 2035 bytes; 1000 are allowed, half of max_message_bytes"),
            ("object", "internal error"),
        ):
            task = await settled(client, await start(client, "fail", how=how))
            assert (task["status"], task["error"]["message"]) == ("failed", message)
        assert server.activity().requests == ()
    assert "the result of a task cannot be sent" in caplog.text


async def test_results_are_counted_with_all_that_is_kept() -> None:
    server = Server("s", limits=Limits(max_kept_bytes=400_000, max_kept_bytes_per_principal=400_000))

    @server.tool(task="optional")
    async def large(size: int) -> str:
        return "x" * size

    async with connected(server) as client:
        task = await settled(client, await start(client, "large", size=100_000))
        assert task["status"] == "completed"
        kept = server.statistics()[0]["bytes"].of["tasks"]
        assert kept > 100_000
        task = await settled(client, await start(client, "large", size=300_000))
        assert task["status"] == "failed"
        assert "there is no room for the result of the task" in task["error"]["message"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"ttl": 5}, "ttl is about tasks: add task='optional', or leave it out"),
        ({"task": "never", "poll": 5}, "poll is about tasks"),
        ({"restartable": True}, "restartable is about tasks"),
        ({"task": "optional", "ttl": 0}, "ttl must be"),
        ({"task": "optional", "poll": -1}, "poll must be"),
        ({"task": "sometimes"}, "task takes 'never' or 'optional' or 'required', not 'sometimes'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Server("s").tool(**options)(lambda: None)


# The end of the server.


@pytest.mark.parametrize("how", ["drain", "abort", "cancel"])
async def test_a_server_that_ends_ends_its_tasks_and_says_so(how: str) -> None:
    store, shutdown, wire = MemoryTaskStore(), Shutdown(), ScriptedChannel()
    work = Work(task_store=store, limits=Limits(drain_timeout=0.1))
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await work.server.serve_channel(wire, shutdown=shutdown)

        nursery.start_soon(serve)
        [answer] = await asked(wire, "tools/call", name="work", arguments={})
        id = answer["result"]["taskId"]
        if how == "cancel":
            nursery.cancel_scope.cancel()
        else:
            getattr(shutdown, how)()
    assert work.ended == ["w"]
    # Another server over the same store shows what has become of it.
    async with connected(Work(task_store=store).server) as client:
        task = await get(client, id)
        assert task["status"] == "failed"
        assert task["error"] == {"code": -32603, "message": "the server was shut down before the task had ended"}
        assert task["statusMessage"] == task["error"]["message"]


async def test_a_task_outlives_its_connection() -> None:
    work = Work()
    async with work.server.open() as running:
        async with open_client(running, revision=MODERN, tasks="always") as client:
            id = await start(client, "work")
        assert work.ended == []
        async with open_client(running, revision=MODERN, tasks="always") as client:
            assert (await get(client, id))["status"] == "working"
            work.gate.set()
            assert text(await settled(client, id)) == "done w"


async def test_a_task_that_another_process_runs_is_seen_but_not_asked() -> None:
    store = MemoryTaskStore()
    one, other = Work(task_store=store), Work(task_store=store)
    async with connected(one.server) as client, connected(other.server) as stranger:
        id = await start(client, "ask")
        await trio.testing.wait_all_tasks_blocked()
        assert (await get(stranger, id))["status"] == "input_required"
        for method in ("tasks/cancel", "tasks/update"):
            error = await refused(stranger, method, taskId=id, inputResponses={})
            assert error.message == "the task does not run in this process"


async def test_a_store_in_memory_forgets_what_servers_that_have_ended_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryTaskStore()
    for _ in range(3):
        work = Work(task_store=store)
        work.gate.set()
        async with connected(work.server) as client:
            await start(client, "work")
            await trio.sleep(1)
        assert len(store) == 1
        await trio.sleep(3_600)


# Being told.


async def test_a_listener_gets_the_whole_task_whenever_it_changes() -> None:
    work = Work()
    async with connected(work.server) as client:
        id, other = await start(client, "work"), await start(client, "ask")
        async with client.listen(tasks=[id, "unknown"]) as events:
            assert events.acknowledged.task_ids == (id,)
            first = await anext(events)
            assert isinstance(first, TaskUpdated)
            assert first.state is not None
            assert (first.id, first.state.status) == (id, "working")
            await client.request("tasks/cancel", {"taskId": other})  # of which it is not told
            work.gate.set()
            last = await anext(events)
            assert isinstance(last, TaskUpdated)
            assert last.state is not None
            assert last.state.result == (await get(client, id))["result"]
            await trio.testing.wait_all_tasks_blocked()
            assert events.waiting == 0


async def test_what_is_sent_is_what_would_be_asked_for_and_it_names_the_subscription() -> None:
    wire, work = ScriptedChannel(), Work()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work.server.serve_channel, wire)
        [answer] = await asked(wire, "tools/call", name="work", arguments={})
        id = answer["result"]["taskId"]
        acknowledged, now = await asked(wire, "subscriptions/listen", notifications={"taskIds": [id, "x"]})
        assert acknowledged["params"]["notifications"] == {"taskIds": [id]}
        meta = acknowledged["params"]["_meta"]
        assert now["method"] == "notifications/tasks"
        [looked] = await asked(wire, "tasks/get", taskId=id)
        expected = {key: value for key, value in looked["result"].items() if key not in ("resultType", "_meta")}
        assert now["params"] == {**expected, "_meta": meta}
        wire.hang_up()


async def test_a_listener_that_does_not_declare_it_is_refused() -> None:
    async with connected(Work().server) as client:
        bare: Any = {"io.modelcontextprotocol/clientCapabilities": {}}
        wanted = {"taskIds": ["x"]}
        error = await refused(client, "subscriptions/listen", notifications=wanted, _meta=bare)
        assert (error.code, error.data) == (-32021, {"requiredCapabilities": {"extensions": {TASKS: {}}}})


async def test_a_listener_names_only_so_many() -> None:
    async with connected(Work(limits=Limits(max_subscriptions=3)).server) as client:
        error = await refused(client, "subscriptions/listen", notifications={"taskIds": ["a", "b", "c"]})
        assert "taskIds 3 tasks" in error.message
        assert "max_subscriptions is 3" in error.message


def test_what_a_store_keeps_is_plain() -> None:
    """So that a store may be a file or a database."""
    task = StoredTask(id="x", owner=None, created_at=1.5, updated_at=2.5, ttl=None, poll=1.0)
    plain: dict[str, Any] = attrs.asdict(task)
    plain["input_requests"] = dict(task.input_requests)
    assert StoredTask(**json.loads(json.dumps(plain))) == task
