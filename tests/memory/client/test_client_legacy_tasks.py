"""Tasks of servers of 2025-11-25 as a client sees them: begun, waited for, cancelled, resumed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

import pytest
import trio
import trio.testing
from scripted_server import ScriptedServer
from steps import cancelled_after_steps
from tape import Tape
from wires import answer, refusal

from trio_mcp import (
    Context,
    HttpServerParameters,
    LocalProtocolError,
    McpASGI,
    RemoteProtocolError,
    RequestError,
    Revision,
    Server,
    TaskCancelled,
    fail_after_silence,
    open_asgi_client,
    open_client,
)

LEGACY = Revision.V2025_11_25
PAGE = "basic/utilities/tasks"
ONLY = str(LEGACY)
ID = "task-1"
RELATED = "io.modelcontextprotocol/related-task"
RESULT = {"content": [{"type": "text", "text": "done"}], "_meta": {RELATED: {"taskId": ID}}}
CAN_CALL: Any = {"requests": {"tools": {"call": {}}}}


def task(status: str = "working", **members: object) -> dict[str, Any]:
    times = {"createdAt": "2025-11-25T00:00:00Z", "lastUpdatedAt": "2025-11-25T00:00:01Z", "ttl": 60_000}
    return {"taskId": ID, "status": status, **times, "pollInterval": 1_000, **members}


def silent(_: dict[str, Any]) -> None:
    return None


def refusing(code: int, text: str) -> Callable[[dict[str, Any]], object]:
    return lambda message: refusal(message, code, text)


class Scripted(ScriptedServer):
    """A server with tools of which one must be a task, one may, and one cannot.

    Attributes:
        looks: What it answers to one look after another; the last one for ever.
    """

    def __init__(self, *looks: dict[str, Any], **script: Any) -> None:
        super().__init__(LEGACY, capabilities={"tools": {}, "tasks": {"cancel": {}, **CAN_CALL}})
        self.looks = list(looks or [task("completed")])
        support = {"must": "required", "may": "optional", "never": "forbidden"}
        tools = [
            {"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": each}}
            for name, each in support.items()
        ]
        self.script |= {
            "tools/list": {"tools": [*tools, {"name": "plain", "inputSchema": {"type": "object"}}]},
            "tools/call": self._call,
            "tasks/get": self._look,
            "tasks/result": RESULT,
            "tasks/cancel": task("cancelled"),
            **{name.replace("_", "/"): each for name, each in script.items()},
        }

    def _call(self, message: dict[str, Any]) -> object:
        name, is_to_be_task = message["params"]["name"], "task" in message["params"]
        if name in ({"never", "plain"} if is_to_be_task else {"must"}):
            return refusal(message, -32601, "not so")
        return {"task": task()} if is_to_be_task else RESULT

    def _look(self, _: dict[str, Any]) -> object:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    @property
    def calls(self) -> list[bool]:
        """Of each call of a tool, whether it was to become a task."""
        return ["task" in message["params"] for message in self.requests("tools/call")]


# Which calls become tasks.


@pytest.mark.spec(PAGE, "Tool-Level Negotiation", revisions=ONLY)
@pytest.mark.spec(PAGE, "Capability Negotiation", revisions=ONLY)
@pytest.mark.spec(PAGE, "Task Parameters", revisions=ONLY)
@pytest.mark.parametrize(
    ("tasks", "is_listed", "name", "calls"),
    [
        ("required", False, "must", [False, True]),  # found by the error
        ("required", True, "must", [True]),
        ("required", True, "may", [False]),
        ("always", True, "may", [True]),
        ("always", False, "may", [False]),  # it has not said that it may
        ("always", True, "never", [False]),
        ("always", True, "plain", [False]),
        ("never", True, "may", [False]),
    ],
)
async def test_a_call_becomes_a_task_as_far_as_the_tool_says(
    tasks: Any, is_listed: bool, name: str, calls: list[bool]
) -> None:
    server = Scripted()
    async with open_client(server, revision=LEGACY, tasks=tasks) as client:
        if is_listed:
            await client.list_tools()
        assert (await client.call_tool(name)).text == "done"
        assert server.calls == calls
        assert "tasks" not in server.declared
        assert server.requests("tasks/cancel") == []


async def test_who_wants_no_tasks_has_the_error() -> None:
    server = Scripted()
    async with open_client(server, revision=LEGACY, tasks="never") as client:
        await client.list_tools()
        with pytest.raises(RequestError, match="not so") as caught:
            await client.call_tool("must")
        assert caught.value.code == -32601
        assert server.calls == [False]


@pytest.mark.spec(PAGE, "Tool-Level Negotiation", revisions=ONLY)
@pytest.mark.parametrize("declared", [None, {"list": {}, "cancel": {}}, {"requests": {"tools": {}}}])
async def test_a_server_that_has_declared_no_tasks_is_asked_for_none(declared: Any) -> None:
    """Whatever its tools say."""
    server = Scripted()
    server.capabilities["tasks"] = declared
    async with open_client(server, revision=LEGACY, tasks="always") as client:
        await client.list_tools()
        with pytest.raises(RequestError, match="not so"):
            await client.call_tool("must")
        assert (await client.call_tool("may")).text == "done"
        for begin in (client.start_task, client.resume_task):
            with pytest.raises(LocalProtocolError, match="has declared no tasks"):
                async with begin("must"):
                    pass
        assert not any(server.calls)


async def test_a_tool_is_listed_before_a_task_is_asked_of_it() -> None:
    server = Scripted()
    async with open_client(server, revision=LEGACY) as client:
        async with client.start_task("may") as started:
            assert started.id == ID
            assert (await started.result()).text == "done"
        async with client.start_task("plain") as started:
            assert (started.id, started.state) == (None, None)
            assert (await started.result()).text == "done"
        assert server.calls == [True, False]


# Waiting for them.


@pytest.mark.spec(PAGE, "Getting Tasks", revisions=ONLY)
@pytest.mark.spec(PAGE, "Result Retrieval", revisions=ONLY)
async def test_the_result_is_waited_for_and_the_task_looked_at(autojump_clock: trio.testing.MockClock) -> None:
    """As often as the server wants; the wait for a result is one request, which has no timeout."""
    looks = [task(statusMessage="1 of 2"), task("input_required"), task(), task("completed")]
    server = Scripted(*looks, tasks_result=silent)
    async with (
        open_client(server, revision=LEGACY, request_timeout=2) as client,
        client.start_task("must") as started,
        trio.open_nursery() as nursery,
    ):
        begun, states = trio.current_time(), list[Any]()

        async def watch() -> None:
            states.extend([state async for state in started.updates()])

        nursery.start_soon(watch)
        await trio.sleep(3.5)
        [asked] = server.requests("tasks/result")
        server.say(answer(asked, RESULT))
        assert (await started.result()).text == "done"
        assert trio.current_time() - begun == pytest.approx(3.5)
    assert [state.status for state in states] == ["working", "working", "input_required", "working", "completed"]
    assert (states[1].status_message, states[1].ttl, states[1].poll) == ("1 of 2", 60.0, 1.0)
    assert len(server.requests("tasks/result")) == 1
    assert RELATED not in str(server.requests("tasks/get") + server.requests("tasks/result"))


async def test_a_server_that_shows_the_task_is_not_silent(autojump_clock: trio.testing.MockClock) -> None:
    for looks, is_silent in (([task()] * 20 + [task("completed")], False), ([task(pollInterval=5_000)], True)):
        server = Scripted(*looks, tasks_result=silent)
        async with open_client(server, revision=LEGACY) as client, trio.open_nursery() as nursery:

            async def say(server: Scripted = server) -> None:
                await trio.sleep(20)
                server.say(*(answer(asked, RESULT) for asked in server.requests("tasks/result")))

            nursery.start_soon(say)
            if is_silent:
                with pytest.raises(trio.TooSlowError), fail_after_silence(3, at_most=100):
                    await client.call_tool("must")
            else:
                with fail_after_silence(3, at_most=100):
                    assert (await client.call_tool("must")).text == "done"


@pytest.mark.spec(PAGE, "Task Execution Errors", revisions=ONLY)
async def test_what_a_task_has_come_to() -> None:
    failed = {"content": [{"type": "text", "text": "it rains"}], "isError": True}
    async with open_client(Scripted(task("failed"), tasks_result=failed), revision=LEGACY) as client:
        result = await client.call_tool("must")
        assert (result.is_error, result.text) == (True, "it rains")
    script = refusing(-31002, "the disk is full")  # which is its own, and not that the server is busy
    async with open_client(Scripted(task("failed"), tasks_result=script), revision=LEGACY) as client:
        with pytest.raises(RequestError, match="the disk is full"):
            await client.call_tool("must")
    server = Scripted(task("cancelled", statusMessage="no more"), tasks_result=refusing(-32603, "cancelled"))
    async with open_client(server, revision=LEGACY) as client:
        with pytest.raises(TaskCancelled, match="no more") as caught:
            await client.call_tool("must")
        assert caught.value.id == ID
        async with client.resume_task(ID) as task_of_old:
            with pytest.raises(TaskCancelled):
                await task_of_old.result()
        assert server.requests("tasks/cancel") == []


async def test_answers_that_cannot_be_used(autojump_clock: trio.testing.MockClock) -> None:
    """The task, if there may be one, is cancelled."""
    broken: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"tools_call": {"task": {"taskId": ID}}}, RemoteProtocolError, "status"),
        ({"tools_call": {"task": {**task(), "ttl": "x"}}}, RemoteProtocolError, "ttl"),
        ({"tasks_get": task("completed", taskId="other")}, RemoteProtocolError, "another task"),
        ({"tasks_get": {}, "tasks_result": silent}, RemoteProtocolError, "status"),
        ({"tasks_result": {"content": 7}}, RemoteProtocolError, "content"),
        ({"tasks_get": task(), "tasks_result": refusing(-32050, "no")}, RequestError, "no"),
        ({"tasks_get": refusing(-32602, "gone"), "tasks_result": silent}, RequestError, "gone"),
    ]
    for script, kind, text in broken:
        server = Scripted(**script)
        async with open_client(server, revision=LEGACY, tasks="always") as client:
            await client.list_tools()
            with pytest.raises(kind, match=text):
                await client.call_tool("must")
            is_known_over = text in {"content", "gone"}
            assert len(server.requests("tasks/cancel")) == (0 if is_known_over else 1), text
    async with open_client(Scripted(tools_call={"task": 7}), revision=LEGACY, tasks="always") as client:
        await client.list_tools()
        with pytest.raises(RemoteProtocolError, match="content"):
            await client.call_tool("must")


@pytest.mark.spec(PAGE, "Associating Task-Related Messages", revisions=ONLY)
async def test_an_answer_names_the_task_that_its_question_names() -> None:
    server = Scripted()
    form: dict[str, Any] = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
    async with open_client(server, revision=LEGACY, on_elicit=lambda _: {}):
        answered = await server.ask("elicitation/create", {**form, "_meta": {RELATED: {"taskId": ID}}})
        assert answered["result"] == {"action": "accept", "content": {}, "_meta": {RELATED: {"taskId": ID}}}
        for meta in ({}, {RELATED: 7}, {RELATED: {"taskId": 7}}):
            answered = await server.ask("elicitation/create", {**form, "_meta": meta}, id=str(meta))
            assert answered["result"] == {"action": "accept", "content": {}}


# Giving them up.


@pytest.mark.spec("basic/utilities/cancellation", "Behavior Requirements", revisions=ONLY)
@pytest.mark.spec(PAGE, "Cancelling Tasks", revisions=ONLY)
async def test_a_call_that_is_given_up_before_its_task_is_known_is_cancelled_by_that(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """``tasks/cancel`` takes the place of ``notifications/cancelled``, unless the server does not answer."""
    for is_late in (False, True):
        server = Scripted(tools_call=silent)
        async with open_client(server, revision=LEGACY) as client, trio.open_nursery() as nursery:
            await client.list_tools()

            async def answer_soon(server: Scripted = server, seconds: int = 7 if is_late else 2) -> None:
                await trio.sleep(seconds)
                server.say(answer(server.requests("tools/call")[0], {"task": task()}))

            nursery.start_soon(answer_soon)
            with trio.move_on_after(1) as scope:
                await client.call_tool("must")
            assert scope.cancelled_caught
            assert trio.current_time() % 100 == pytest.approx(3 if is_late else 2)
            await trio.sleep(10)
            assert len(server.requests("tasks/cancel")) == 1
            assert server.requests("tasks/cancel")[0]["params"]["taskId"] == ID
            assert len(server.notifications("notifications/cancelled")) == is_late
            await trio.sleep(100 - trio.current_time() % 100)


async def test_a_server_that_cannot_cancel_is_not_asked_to(autojump_clock: trio.testing.MockClock) -> None:
    server = Scripted(task(), tasks_result=silent)
    server.capabilities["tasks"] = CAN_CALL
    async with open_client(server, revision=LEGACY) as client:
        with trio.move_on_after(5):
            await client.call_tool("must")
        assert server.requests("tasks/cancel") == []


async def test_a_task_that_is_left_is_cancelled_and_one_that_is_detached_goes_on() -> None:
    server = Scripted(task(), tasks_result=silent)
    async with open_client(server, revision=LEGACY) as client:
        async with client.start_task("must") as started:
            started.detach()
        assert server.requests("tasks/cancel") == []
        async with client.resume_task(ID) as found:
            assert found.state is not None
            assert found.state.status == "working"
        assert len(server.requests("tasks/cancel")) == 1


async def test_cancelled_at_any_step_nothing_is_left(autojump_clock: trio.testing.MockClock) -> None:
    """The task is cancelled once, and never its call; with a server of ours."""
    step = 0
    for step in count(1):
        begun, ended, tape = list[str](), list[str](), Tape()
        server: Server[Any] = Server("s")

        @server.tool(task="required", poll=0.5)
        async def must(ctx: Context[Any], begun: list[str] = begun, ended: list[str] = ended) -> str:
            begun.append("x")
            try:
                await trio.sleep(0.3)
                await ctx.elicit("Who?", str)
                await trio.sleep(0.7)
            finally:
                ended.append("x")
            return "done"

        async def on_elicit(_: object) -> dict[str, Any]:
            await trio.sleep(0.2)
            return {"value": "me"}

        async with (
            server.open() as running,
            open_client(running, revision=LEGACY, on_elicit=on_elicit, on_frame=tape) as client,
        ):
            await client.list_tools()
            with cancelled_after_steps(step) as scope:
                assert (await client.call_tool("must")).text == "done"
            cancels = len(tape.requests("tasks/cancel"))
            if not scope.cancelled_caught:
                assert cancels == 0
                break
            await trio.testing.wait_all_tasks_blocked()
            [called] = tape.requests("tools/call")
            assert (cancels, tape.goodbyes()[called]) == (1, 0), f"step {step}"
            await trio.sleep(0.1)
            assert begun == ended, f"step {step}: a handler was left"
            tape.check_endings()
    assert step > 20


@pytest.mark.parametrize("way", ["memory", "asgi"])
async def test_with_a_server_of_ours_it_simply_works(way: str) -> None:
    server: Server[Any] = Server("s")

    @server.tool(task="required", poll=0.1)
    async def must(ctx: Context[Any], fail: bool = False) -> int:
        if fail:
            raise RequestError(-32050, "no", {"why": "rain"})
        return len((await ctx.elicit("Who?", str)).value or "")

    async with AsyncExitStack() as stack:
        target: Any = await stack.enter_async_context(server.open())
        if way == "asgi":
            app = await stack.enter_async_context(open_asgi_client(McpASGI(server)))
            target = HttpServerParameters("http://localhost/mcp", app=app)
        opening = open_client(target, revision=LEGACY, on_elicit=lambda _: {"value": "ada"})
        client = await stack.enter_async_context(opening)
        assert await client.call_tool("must", returns=int) == 3
        with pytest.raises(RequestError) as caught:
            await client.call_tool("must", {"fail": True})
        assert (caught.value.code, caught.value.data) == (-32050, {"why": "rain"})
        async with client.start_task("must") as started:
            id = started.detach()
        assert id is not None
        for is_over in (False, True):
            async with client.resume_task(id) as found:
                assert found.is_over == is_over
                assert (await found.result()).structured_content == {"result": 3}
                await found.cancel()
        async with client.start_task("must") as started:
            await started.cancel()
            with pytest.raises(TaskCancelled):
                await started.result()
        with pytest.raises(RequestError, match="there is no such task"):
            async with client.resume_task("x"):
                pass
