"""Tasks as a client sees them: waited for, answered, cancelled, resumed (ext-tasks, 2026-07-28)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import attrs
import pytest
import trio
import trio.testing
from eras import LEGACY_ENDS
from scripted_server import MODERN, ScriptedServer, never_asked
from tape import Tape
from wires import answer, refusal

from trio_mcp import (
    Client,
    Context,
    LocalProtocolError,
    MemoryTaskStore,
    RemoteProtocolError,
    RequestError,
    Revision,
    Server,
    StoredTask,
    TaskCancelled,
    TaskState,
    TaskUpdated,
    fail_after_silence,
    memory_channel_pair,
    open_client,
    open_clients,
    run_client,
    types,
)

TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
ID = "00ff"
TIMES = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:01Z", "ttlMs": 60_000}
RESULT = {"content": [{"type": "text", "text": "done"}]}
FORM: dict[str, Any] = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
ELICIT = {"method": "elicitation/create", "params": FORM}


def task(status: str = "working", **members: object) -> dict[str, Any]:
    return {"taskId": ID, "status": status, **TIMES, "pollIntervalMs": 1_000, **members}


def created(status: str = "working", **members: object) -> dict[str, Any]:
    return {"resultType": "task", **task(status, **members)}


def seen(status: str = "working", **members: object) -> dict[str, Any]:
    return {"resultType": "complete", **task(status, **members)}


DONE = seen("completed", result=RESULT)


Look: TypeAlias = Callable[[dict[str, Any]], object] | dict[str, Any]
"""What a server answers, or a function of the request that returns it."""


class Scripted(ScriptedServer):
    """A server that makes a task of each call.

    Attributes:
        looks: What it answers to one look after another; the last one for ever.
    """

    def __init__(self, *looks: Look, first: Look | None = None) -> None:
        super().__init__(MODERN, capabilities={"extensions": {TASKS: {}}})
        self.looks = list(looks)
        self.times: list[float] = []
        done = {"resultType": "complete"}
        self.script |= {
            "tools/call": first or created(),
            "tasks/get": self._look,
            "tasks/update": done,
            "tasks/cancel": done,
        }

    def _look(self, message: dict[str, Any]) -> object:
        self.times.append(trio.current_time())
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return look(message) if callable(look) else look


def decline(_: object) -> str:
    return "decline"


def refusing(text: str) -> Callable[[dict[str, Any]], object]:
    return lambda message: refusal(message, -32602, text)


async def call(server: Any, **options: Any) -> types.CallToolResult:
    async with open_client(server, tasks="always", **options) as client:
        result: types.CallToolResult = await client.call_tool("x")
        return result


# What is declared.


async def test_by_default_it_is_declared_to_who_demands_it_and_nobody_else() -> None:
    """So that calls of other tools are no longer than before."""

    def only_with_tasks(message: dict[str, Any]) -> object:
        declared = message["params"]["_meta"][CAPABILITIES]
        if TASKS in declared.get("extensions", {}):
            return created()
        needed: Any = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        refused = refusal(message, -32021, "no")
        return {**refused, "error": {**refused["error"], "data": needed}}

    server = Scripted(DONE, first=only_with_tasks)
    async with open_client(server, extensions=()) as client:
        assert (await client.call_tool("x")).text == "done"
    assert [each["method"] for each in server.sent] == [
        *("server/discover", "tools/call", "tools/call", "tasks/get"),
    ]
    first, second, look = (each["params"]["_meta"][CAPABILITIES] for each in server.sent[1:])
    assert (first, second, look) == ({}, {"extensions": {TASKS: {}}}, {"extensions": {TASKS: {}}})


@pytest.mark.parametrize("tasks", ["required", "never"])
async def test_a_task_that_was_not_asked_for_is_no_answer(tasks: Any) -> None:
    async with open_client(Scripted(DONE), tasks=tasks) as client:
        with pytest.raises(RemoteProtocolError, match="of an unknown type: 'task'"):
            await client.call_tool("x")


async def test_who_wants_none_is_refused_by_who_demands_it() -> None:
    server = Server("s")

    @server.tool(task="required")
    async def x() -> None: ...

    async with open_client(server, tasks="never") as client:
        with pytest.raises(RequestError) as caught:
            await client.call_tool("x")
    assert caught.value.code == -32021


async def test_a_task_is_no_answer_to_another_request() -> None:
    server = Scripted(DONE)
    server.script["prompts/get"] = created()
    async with open_client(server, tasks="always") as client:
        with pytest.raises(RemoteProtocolError, match=r"prompts/get: the result is of an unknown type: 'task'"):
            await client.get_prompt("x")


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_older_servers_are_told_nothing(revision: Revision) -> None:
    server = ScriptedServer(revision, {"tools/call": RESULT})
    async with open_client(server, revision=revision, tasks="always") as client:
        assert (await client.call_tool("x")).text == "done"
        with pytest.raises(LocalProtocolError, match=r"has (no such|declared no) tasks"):
            async with client.start_task("x"):
                pass
    assert server.declared == {}


def test_an_unknown_choice_is_refused() -> None:
    odd: Any = "maybe"
    with pytest.raises(ValueError, match="tasks takes 'required' or 'always' or 'never', not 'maybe'"):
        trio.run(lambda: open_client(Server("s"), tasks=odd).__aenter__())


# Waiting.


async def test_a_call_waits_for_what_the_server_makes_of_it(autojump_clock: trio.testing.MockClock) -> None:
    server = Scripted(seen(), seen(pollIntervalMs=3_000), DONE)
    begun = trio.current_time()
    assert (await call(server)).text == "done"
    assert [at - begun for at in server.times] == pytest.approx([1, 2, 5])
    assert server.requests("tasks/cancel") == []


@pytest.mark.parametrize(
    ("interval", "pause"), [({"pollIntervalMs": 1}, 0.1), ({"pollIntervalMs": 10**9}, 60), ({}, 1)]
)
async def test_it_looks_neither_too_often_nor_too_seldom(
    interval: dict[str, int], pause: float, autojump_clock: trio.testing.MockClock
) -> None:
    first = {key: value for key, value in created().items() if key != "pollIntervalMs"} | interval
    server = Scripted(DONE, first=first)
    begun = trio.current_time()
    await call(server)
    assert [at - begun for at in server.times] == pytest.approx([pause])


async def test_a_task_that_is_over_at_once_is_looked_at_at_once(autojump_clock: trio.testing.MockClock) -> None:
    server = Scripted(DONE, first=created("completed"))
    begun = trio.current_time()
    assert (await call(server)).text == "done"
    assert trio.current_time() == begun


async def test_a_failure_is_the_error_and_a_cancelled_one_says_so(autojump_clock: trio.testing.MockClock) -> None:
    error = {"code": -32050, "message": "limit exceeded", "data": [1]}
    server, other = Scripted(seen("failed", error=error)), Scripted(seen("cancelled", statusMessage="by hand"))
    with pytest.raises(RequestError) as caught:
        await call(server)
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32050, "limit exceeded", [1])
    with pytest.raises(TaskCancelled, match="the task 00ff was cancelled: by hand") as ended:
        await call(other)
    assert (ended.value.id, ended.value.reason) == (ID, "by hand")
    assert not server.requests("tasks/cancel") + other.requests("tasks/cancel")


async def test_a_task_that_is_gone_is_not_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    server = Scripted(lambda message: refusal(message, -32602, "expired"))
    with pytest.raises(RequestError, match="expired"):
        await call(server)
    assert server.requests("tasks/cancel") == []


async def test_what_cannot_be_read_is_an_error(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    rows: list[tuple[Any, str]] = [
        (seen("done"), "tasks/get: status: 'done' is none of"),
        ({**seen(), "status": ["working"]}, r"tasks/get: status: \['working'\] is none of"),
        ({**seen(), "taskId": "other"}, "the answer is about another task"),
        (seen("completed"), "tasks/get: result: expected an object"),
        (seen("failed"), "tasks/get: error: expected an object"),
        (seen("failed", error={"code": "x", "message": "y"}), "error: expected a code and a message"),
        (seen("input_required"), "tasks/get: inputRequests: expected an object"),
        (seen("completed", result={"content": 3}), "tools/call: content"),
        (seen("completed", result={**RESULT, "resultType": "task"}), "of an unknown type: 'task'"),
        (seen(pollIntervalMs="1"), "pollIntervalMs: expected a number of milliseconds"),
        ({"resultType": "complete", "status": "working"}, "taskId: expected a string"),
    ]
    for look, problem in rows:
        with subtests.test(look=look, problem=problem), pytest.raises(RemoteProtocolError, match=problem):
            await call(Scripted(look))


@pytest.mark.parametrize(
    ("first", "cancelled"),
    [
        (created(pollIntervalMs="1"), [ID]),
        (created(ttlMs=-1), [ID]),
        ({**created(), "status": {}}, [ID]),
        ({**created(), "taskId": 7}, []),
        ({**created(), "taskId": ""}, []),
    ],
)
async def test_a_task_that_cannot_be_read_is_cancelled_if_it_has_an_id(
    first: Any, cancelled: list[str], autojump_clock: trio.testing.MockClock
) -> None:
    """The server runs it all the same, and nobody would come for it."""
    server = Scripted(DONE, first=first)
    async with open_client(server, tasks="always") as client:
        with pytest.raises(RemoteProtocolError, match="tools/call"):
            await client.call_tool("x")
        with pytest.raises(RemoteProtocolError, match="tools/call"):
            async with client.start_task("x"):
                pass
    assert [each["params"]["taskId"] for each in server.requests("tasks/cancel")] == cancelled * 2
    assert server.requests("tasks/get") == []


async def test_another_task_is_not_resumed(autojump_clock: trio.testing.MockClock) -> None:
    server = Scripted(seen())
    async with open_client(server) as client:
        with pytest.raises(RemoteProtocolError, match="the answer is about another task"):
            async with client.resume_task("11ee"):
                pass
    assert server.requests("tasks/cancel") == []


async def test_a_server_that_is_busy_is_asked_again(autojump_clock: trio.testing.MockClock) -> None:
    server = Scripted(lambda message: refusal(message, -31002, "busy"), seen(), DONE)
    assert (await call(server)).text == "done"
    for_ever = Scripted(lambda message: refusal(message, -31002, "busy"))
    with pytest.raises(RequestError, match="busy"):
        await call(for_ever)
    assert len(for_ever.times) == 7


async def test_the_timeout_of_requests_is_for_each_and_not_for_the_task(
    autojump_clock: trio.testing.MockClock,
) -> None:
    assert (await call(Scripted(*[seen()] * 20, DONE), request_timeout=5)).text == "done"
    silent = Scripted(lambda _: None)
    with pytest.raises(trio.TooSlowError, match="tasks/get was not answered within 5 s"):
        await call(silent, request_timeout=5)
    assert len(silent.requests("tasks/cancel")) == 1


# Questions.


async def test_each_question_is_answered_once(autojump_clock: trio.testing.MockClock) -> None:
    asked: list[str] = []

    async def on_elicit(params: types.ElicitRequestParams) -> str:
        asked.append(params.message)
        await trio.sleep(2.5)  # it is seen several times meanwhile
        return "accept"

    open_one = seen("input_required", inputRequests={"a": ELICIT})
    other = {"method": "elicitation/create", "params": {**FORM, "message": "And?"}}
    both = seen("input_required", inputRequests={"a": ELICIT, "b": other})
    server = Scripted(open_one, open_one, both, both, both, both, both, DONE)
    assert (await call(server, on_elicit=on_elicit)).text == "done"
    assert asked == ["Who?", "And?"]
    updates = [each["params"] for each in server.requests("tasks/update")]
    accepted: Any = {"action": "accept", "content": {}}
    assert [each["inputResponses"] for each in updates] == [{"a": accepted}, {"b": accepted}]
    assert {each["taskId"] for each in updates} == {ID}
    assert all(each["_meta"][CAPABILITIES]["extensions"] == {TASKS: {}} for each in updates)


async def test_a_question_that_is_not_open_any_more_is_not_asked_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ended: list[str] = []

    async def on_elicit(_: object) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(f"at {trio.current_time() - begun:g}")

    server = Scripted(seen("input_required", inputRequests={"a": ELICIT}), seen(), DONE)
    begun = trio.current_time()
    assert (await call(server, on_elicit=on_elicit)).text == "done"
    assert ended == ["at 2"]
    assert server.requests("tasks/update") == []


async def test_what_a_handler_raises_comes_out_and_the_task_is_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def on_elicit(_: object) -> Any:
        raise KeyError("oops")

    server = Scripted(seen("input_required", inputRequests={"a": ELICIT}))
    with pytest.raises(KeyError, match="oops"):
        await call(server, on_elicit=on_elicit)
    assert len(server.requests("tasks/cancel")) == 1


async def test_what_it_may_not_ask_is_an_error(autojump_clock: trio.testing.MockClock) -> None:
    server = Scripted(seen("input_required", inputRequests={"a": ELICIT}))
    with pytest.raises(RemoteProtocolError, match=r"inputRequests\.a: this client has no method elicitation"):
        await call(server)
    assert len(server.requests("tasks/cancel")) == 1
    many = {str(number): ELICIT for number in range(1_001)}
    server = Scripted(seen("input_required", inputRequests=many))
    with pytest.raises(RemoteProtocolError, match="more than 1000 questions"):
        await call(server, on_elicit=never_asked)


async def test_an_answer_that_is_refused_is_an_error_if_the_question_stays(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asking = seen("input_required", inputRequests={"a": ELICIT})
    server = Scripted(asking, asking)
    server.script["tasks/update"] = refusing("not like this")
    with pytest.raises(RequestError, match="not like this"):
        await call(server, on_elicit=decline)
    server = Scripted(asking, DONE)
    server.script["tasks/update"] = refusing("it is over")
    assert (await call(server, on_elicit=decline)).text == "done"


# Giving up.


async def test_a_caller_that_is_cancelled_cancels_the_task_once(autojump_clock: trio.testing.MockClock) -> None:
    server, tape = Scripted(seen()), Tape()
    async with open_client(server, tasks="always", on_frame=tape) as client:
        with trio.move_on_after(2.5) as scope:
            await client.call_tool("x")
        assert scope.cancelled_caught
        await trio.sleep(60)
    assert len(server.times) == 2
    [cancelled] = server.requests("tasks/cancel")
    assert cancelled["params"]["taskId"] == ID
    assert server.notifications("notifications/cancelled") == []
    tape.check_endings()


async def test_giving_up_never_waits_long_for_a_silent_server(autojump_clock: trio.testing.MockClock) -> None:
    server = Scripted(seen())
    server.script["tasks/cancel"] = lambda _: None
    async with open_client(server, tasks="always") as client:
        with trio.move_on_after(2.5):
            await client.call_tool("x")
        assert trio.current_time() <= 2.5 + 2.0 + 0.1  # goodbye_timeout
        await trio.sleep(60)
    assert len(server.requests("tasks/cancel")) == 1


@attrs.define(eq=False)
class SlowStore:
    """Takes some time to have a task."""

    inner: MemoryTaskStore = attrs.field(factory=MemoryTaskStore)

    async def add(self, task: StoredTask) -> None:
        await trio.sleep(0.1)
        await self.inner.add(task)

    async def find(self, id: str) -> StoredTask | None:
        return await self.inner.find(id)

    async def replace(self, task: StoredTask) -> None:
        await self.inner.replace(task)

    async def remove(self, id: str) -> None:
        await self.inner.remove(id)


@attrs.define(eq=False)
class CancelAt(trio.abc.Instrument):
    """Cancels a scope before a task takes its nth step from now on, or after it; 0 is the present one."""

    task: object
    scope: trio.CancelScope
    left: int
    is_after: bool

    def before_task_step(self, task: object) -> None:
        if task is self.task:
            self.left -= 1
            if self.left == 0 and not self.is_after:
                self.scope.cancel()

    def after_task_step(self, task: object) -> None:
        if task is self.task and self.left == 0 and self.is_after:
            self.scope.cancel()


@pytest.mark.parametrize("is_after", [False, True])
async def test_cancelled_at_any_checkpoint_nothing_is_left_and_all_is_cancelled_once(
    autojump_clock: trio.testing.MockClock, *, is_after: bool
) -> None:
    """Whether a task had been made of the call by then or not."""
    moments: set[tuple[int, int]] = set()
    step = 0
    for step in count(0 if is_after else 1):
        begun, ended, tape = list[str](), list[str](), Tape()
        server = Server("s", task_store=SlowStore())

        @server.tool(task="optional", poll=0.5)
        async def x(ctx: Context[Any], begun: list[str] = begun, ended: list[str] = ended) -> str:
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

        async with server.open() as running:
            options: Any = {"tasks": "always", "on_elicit": on_elicit, "on_frame": tape}
            async with open_client(running, revision=MODERN, **options) as client:
                with trio.CancelScope() as scope:
                    instrument = CancelAt(trio.lowlevel.current_task(), scope, step, is_after)
                    trio.lowlevel.add_instrument(instrument)
                    try:
                        await client.call_tool("x")
                    finally:
                        trio.lowlevel.remove_instrument(instrument)
                await trio.testing.wait_all_tasks_blocked()
                cancels = tape.requests("tasks/cancel")
                has_task = any(m.get("result", {}).get("resultType") == "task" for m in tape.received)
                if not scope.cancel_called:
                    assert cancels == []
                    break
                given_up = sum(tape.goodbyes()[id] for id in tape.requests("tools/call"))
                moments.add((given_up, len(cancels)))
                if has_task:
                    gave_up = tape.goodbyes()  # among them a look that shows it as completed, too late
                    looks = [m for m in tape.received if m.get("id") not in gave_up]
                    is_done = any(m.get("result", {}).get("status") == "completed" for m in looks)
                    assert len(cancels) == (0 if is_done else 1)
                else:
                    assert cancels == []
                await trio.sleep(0.1)
                assert begun == ended, f"step {step}: a handler was left"
                tape.check_endings()
    assert step > 5
    assert moments >= ({(1, 0), (0, 1)} if is_after else {(0, 0), (0, 1)})


async def test_a_task_that_answers_a_call_too_late_is_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    """The answer was on its way when the call was given up: nobody knows the id, so nobody would come for it."""
    server = Scripted(seen(), first=lambda _: None)
    async with open_client(server, tasks="always") as client:
        for late in (created(), {"resultType": "complete", **RESULT}, {"resultType": "task", "taskId": 7}):
            with trio.move_on_after(1):
                await client.call_tool("x")
            server.say(answer(server.requests("tools/call")[-1], late))
            await trio.sleep(1)
        [cancelled] = server.requests("tasks/cancel")
        assert cancelled["params"]["taskId"] == ID
        assert cancelled["params"]["_meta"][CAPABILITIES]["extensions"] == {TASKS: {}}
        assert len(server.notifications("notifications/cancelled")) == 3


async def test_closing_the_client_ends_the_waiting_at_once(autojump_clock: trio.testing.MockClock) -> None:
    server = Scripted(seen(pollIntervalMs=50_000))
    async with open_client(server, tasks="always") as client, trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await client.call_tool("x")
            assert trio.current_time() < 20

        nursery.start_soon(wait)
        await trio.sleep(10)
        await client.aclose()


async def test_a_server_that_shows_the_task_is_not_silent(autojump_clock: trio.testing.MockClock) -> None:
    with fail_after_silence(3, at_most=100):
        assert (await call(Scripted(*[seen()] * 20, DONE))).text == "done"
    with pytest.raises(trio.TooSlowError), fail_after_silence(3, at_most=100):
        await call(Scripted(seen(pollIntervalMs=5_000)))


async def test_the_clients_of_a_group_wait_too(autojump_clock: trio.testing.MockClock) -> None:
    server, events = working()
    async with open_clients({"a": server}, tasks="always") as group:
        await group.wait_ready()
        assert (await group.call_tool("a_x")).structured_content == {"parts": 2}
    assert events == ["done"]


async def test_late_tasks_are_cancelled_so_many_at_once(autojump_clock: trio.testing.MockClock) -> None:
    server = Scripted(seen())
    server.script["tasks/cancel"] = lambda _: None
    async with open_client(server, tasks="always") as client:
        server.say(*({"jsonrpc": "2.0", "id": "x", "result": created()} for _ in range(300)))
        await trio.testing.wait_all_tasks_blocked()
        assert len(server.requests("tasks/cancel")) == 100
        await trio.sleep(3)  # goodbye_timeout
        server.say({"jsonrpc": "2.0", "id": "x", "result": created()})
        await trio.testing.wait_all_tasks_blocked()
        assert len(server.requests("tasks/cancel")) == 101
        await client.request("tasks/get", {"taskId": ID})


async def test_a_task_that_comes_while_the_client_is_being_left_ends_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nothing is sent any more that could cancel it; that broke the connection, in the middle of its goodbyes."""
    server = Scripted(seen())
    async with open_client(server, tasks="always") as client, trio.open_nursery() as nursery:
        server.stop_reading()
        nursery.start_soon(client.notify, "x/stuck")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(client.aclose)
        await trio.testing.wait_all_tasks_blocked()
        server.say({"jsonrpc": "2.0", "id": "x", "result": created()})
        await trio.testing.wait_all_tasks_blocked()
        server.reading.set()
    assert server.requests("tasks/cancel") == []


async def test_a_task_that_comes_as_the_client_is_left_ends_nothing() -> None:
    """It is read in the pass in which the nursery ends that would cancel it, before or after that, by chance."""
    for _ in range(10):
        server = Scripted(seen())
        async with open_client(server, tasks="always") as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.aclose)
            await trio.lowlevel.checkpoint()
            server.say({"jsonrpc": "2.0", "id": "x", "result": created()})


# The handle.


def working(name: str = "x", *, ttl: float | None = 3_600, seconds: float = 2) -> tuple[Server, list[str]]:
    """Return a server with a tool that reports what it does, and what has become of it."""
    server, events = Server("s"), list[str]()

    @server.tool(name=name, task="optional", poll=0.5, ttl=ttl)
    async def work(ctx: Context[Any]) -> dict[str, int]:
        try:
            for number in (1, 2):
                await ctx.report_progress(number, 2, f"part {number}")
                await trio.sleep(seconds / 2)
        except trio.Cancelled:
            events.append("cancelled")
            raise
        events.append("done")
        return {"parts": 2}

    return server, events


async def test_a_handle_shows_the_states_and_the_result(autojump_clock: trio.testing.MockClock) -> None:
    server, events = working()
    async with open_client(server) as client:
        async with client.start_task("x") as started:
            assert started.state is not None
            assert (started.state.status, started.is_over) == ("working", False)
            states = [(state.status, state.status_message) async for state in started.updates()]
            assert states[0] == ("working", None)
            assert states[-1] == ("completed", None)
            assert ("working", "part 2") in states
            assert (await started.result()).structured_content == {"parts": 2}
            assert (await started.result()) is (await started.result())
            assert started.is_over
            await started.cancel()  # nothing any more
        assert [state async for state in started.updates()]
    assert events == ["done"]


async def test_a_handle_of_a_call_that_is_answered_at_once(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("s")

    @server.tool
    async def x() -> str:
        return "plain"

    async with open_client(server) as client, client.start_task("x") as started:
        assert (started.id, started.state, started.is_over, started.detach()) == (None, None, True, None)
        assert (await started.result()).text == "plain"
        assert [state async for state in started.updates()] == []
        await started.cancel()


async def test_leaving_the_block_cancels_the_task(autojump_clock: trio.testing.MockClock) -> None:
    server, events = working()
    tape = Tape()
    async with open_client(server, on_frame=tape) as client:
        async with client.start_task("x") as started:
            await trio.sleep(0.6)
        await trio.testing.wait_all_tasks_blocked()
        assert events == ["cancelled"]
        with pytest.raises(trio.ClosedResourceError):
            await started.result()
        with pytest.raises(ValueError, match="mine"):
            async with client.start_task("x"):
                raise ValueError("mine")
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1):
            async with client.start_task("x") as started:
                await started.result()
        await trio.testing.wait_all_tasks_blocked()
    assert events == ["cancelled"] * 3
    assert len(tape.requests("tasks/cancel")) == 3


@pytest.mark.parametrize("revision", [MODERN, Revision.V2025_11_25])
@pytest.mark.parametrize("way", ["call", "start", "detach", "run"])
async def test_leaving_the_client_cancels_the_tasks_that_are_waited_for(
    way: str, revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    """Their callers outlive it. Nobody would come for them, and they would go on until their time is over."""
    (server, events), tape = working(seconds=1_000), Tape()
    async with server.open() as running, trio.open_nursery() as nursery:

        async def wait(client: Client) -> None:
            with pytest.raises(trio.ClosedResourceError):
                if way in ("call", "run"):
                    await client.call_tool("x")
                else:
                    async with client.start_task("x") as task:
                        if way == "detach":
                            task.detach()
                        await task.result()

        options: Any = {"tasks": "always", "revision": revision, "on_frame": tape}
        near, far = memory_channel_pair()
        nursery.start_soon(running.serve_channel, far)
        async with trio.open_nursery() as inner:
            client: Client = await inner.start(partial(run_client, near, **options))
            await client.list_tools()
            nursery.start_soon(wait, client)
            await trio.sleep(10)
            begun = trio.current_time()
            if way == "run":
                inner.cancel_scope.cancel()
            else:
                await client.aclose()
        assert trio.current_time() - begun < 0.1
        await trio.sleep(1)
        assert events == ([] if way == "detach" else ["cancelled"])
        assert len(tape.requests("tasks/cancel")) == (0 if way == "detach" else 1)
        tape.check_endings()


@pytest.mark.parametrize("revision", [MODERN, Revision.V2025_11_25])
async def test_a_block_that_is_cancelled_together_with_its_client_cancels_its_task(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    """Whichever of their tasks runs first, and also if the block cleans up before it ends."""
    (server, events), tape = working(seconds=1_000), Tape()
    async with server.open() as running, trio.open_nursery() as nursery:

        async def wait(client: Client) -> None:
            async with client.start_task("x") as task:
                try:
                    await task.result()
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.sleep(0.01)

        options: Any = {"revision": revision, "on_frame": tape}
        near, far = memory_channel_pair()
        nursery.start_soon(running.serve_channel, far)
        async with trio.open_nursery() as inner:
            client: Client = await inner.start(partial(run_client, near, **options))
            inner.start_soon(wait, client)
            await trio.sleep(10)
            begun = trio.current_time()
            inner.cancel_scope.cancel()
        assert trio.current_time() - begun < 0.1
        await trio.sleep(1)
        assert events == ["cancelled"]
        assert len(tape.requests("tasks/cancel")) == 1
        tape.check_endings()


async def test_leaving_never_waits_long_for_a_server_that_does_not_cancel(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = Scripted(seen(pollIntervalMs=50_000))
    server.script["tasks/cancel"] = lambda _: None
    async with trio.open_nursery() as nursery, open_client(server, tasks="always") as client:

        async def wait() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await client.call_tool("x")

        nursery.start_soon(wait)
        await trio.sleep(10)
        begun = trio.current_time()
        await client.aclose()
        assert trio.current_time() - begun <= 2.0 + 0.1  # goodbye_timeout
    assert len(server.requests("tasks/cancel")) == 1


async def test_cancelling_by_hand(autojump_clock: trio.testing.MockClock) -> None:
    server, events = working()
    tape = Tape()
    async with open_client(server, on_frame=tape) as client, client.start_task("x") as started:
        await started.cancel()
        with pytest.raises(TaskCancelled):
            await started.result()
    assert events == ["cancelled"]
    assert len(tape.requests("tasks/cancel")) == 1


async def test_a_detached_task_is_resumed_by_another_client(autojump_clock: trio.testing.MockClock) -> None:
    server, events = working(seconds=10)
    async with server.open() as running:
        async with open_client(running) as client, client.start_task("x") as started:
            id = started.detach()
        assert id is not None
        assert events == []
        async with open_client(running) as client:
            async with client.resume_task(id) as resumed:
                assert resumed.state is not None
                assert (resumed.id, resumed.state.status) == (id, "working")
                assert (await resumed.result()).structured_content == {"parts": 2}
            async with client.resume_task(id) as again:  # it is kept
                assert (await again.result()).structured_content == {"parts": 2}
            with pytest.raises(RequestError, match="there is no such task"):
                async with client.resume_task("other"):
                    pass
    assert events == ["done"]


async def test_the_handlers_answer_while_the_block_does_something_else(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = Server("s")

    @server.tool(task="optional", poll=0.5)
    async def x(ctx: Context[Any]) -> str:
        answer = await ctx.elicit("Who?", str)
        return str(answer.value)

    async with open_client(server, on_elicit=lambda _: {"value": "me"}) as client, client.start_task("x") as task:
        await trio.sleep(5)
        assert task.is_over
        assert (await task.result()).text == "me"


async def test_what_fails_in_the_background_is_raised_where_it_is_waited_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = Scripted(seen(), seen("odd"))
    async with open_client(server) as client, client.start_task("x") as started:
        with pytest.raises(RemoteProtocolError, match="'odd'"):
            await started.result()
        with pytest.raises(RemoteProtocolError, match="'odd'"):
            async for _ in started.updates():
                pass
    assert len(server.requests("tasks/cancel")) == 1


async def test_the_output_is_checked_against_the_schema(autojump_clock: trio.testing.MockClock) -> None:
    schema = {"type": "object", "properties": {"parts": {"type": "string"}}, "required": ["parts"]}
    tool = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": schema}
    result = {**RESULT, "structuredContent": {"parts": 3}}
    server = Scripted(seen("completed", result=result))
    server.script["tools/list"] = server.complete(tools=[tool], ttlMs=0, cacheScope="public")
    async with open_client(server, tasks="always") as client:
        await client.list_tools()
        with pytest.raises(RemoteProtocolError, match="output"):
            await client.call_tool("x")
        with pytest.raises(RemoteProtocolError, match="output"):
            async with client.start_task("x") as started:
                await started.result()


# Listening.


async def test_changes_that_wait_show_the_newest_state() -> None:
    server = Scripted(seen())
    listening: list[Any] = []
    server.script["subscriptions/listen"] = lambda message: listening.append(message)

    def tell(method: str, **params: object) -> None:
        server.tell(method, _meta={"io.modelcontextprotocol/subscriptionId": listening[0]["id"]}, **params)

    async with open_client(server) as client, trio.open_nursery() as nursery:

        async def acknowledge() -> None:
            await server.wait_for(lambda message: message.get("method") == "subscriptions/listen")
            tell("notifications/subscriptions/acknowledged", notifications={"taskIds": [ID]})

        nursery.start_soon(acknowledge)
        async with client.listen(tasks=[ID, "other"]) as events:
            assert listening[0]["params"]["_meta"][CAPABILITIES] == {"extensions": {TASKS: {}}}
            assert listening[0]["params"]["notifications"] == {"taskIds": [ID, "other"]}
            tell("notifications/tasks", **task(statusMessage="one"))
            tell("notifications/tasks", **task(statusMessage="two"))
            tell("notifications/tasks", **{**task(), "taskId": "not asked for"})
            statuses: list[Any] = ["odd", [], {}]
            for odd in statuses:
                tell("notifications/tasks", **{**task(), "status": odd})
            await trio.testing.wait_all_tasks_blocked()
            assert events.waiting == 1
            event = await anext(events)
            assert isinstance(event, TaskUpdated)
            assert isinstance(event.state, TaskState)
            assert (event.id, event.state.status_message) == (ID, "two")


def test_one_text_is_not_several_ids() -> None:
    async def main() -> None:
        async with open_client(Server("s")) as client:
            with pytest.raises(TypeError, match="tasks must be an iterable of ids"):
                client.listen(tasks="abc")

    trio.run(main)
