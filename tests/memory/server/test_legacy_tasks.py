"""Tasks of a server for clients of 2025-11-25: who is asked what, what is shared with other processes, what is left."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from steps import cancelled_after_steps
from wires import ScriptedChannel

from trio_mcp import (
    Client,
    Context,
    InputRequired,
    Limits,
    RequestError,
    Revision,
    Server,
    ServerExtension,
    SharedTaskStore,
    URLElicitationRequired,
    open_client,
    open_sqlite_task_store,
    types,
)

LEGACY = Revision.V2025_11_25
UNKNOWN = "there is no such task, or it has expired"
NAME = types.ElicitRequestFormParams(
    message="Who?", requested_schema=types.RequestedSchema(properties={"name": types.StringSchema()})
)


class User:
    """Answers questions when it is let go; knows what it was asked.

    Attributes:
        asked: The messages of the questions.
        left: How many questions were taken back.
    """

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.gate = trio.Event()
        self.asked: list[str] = []
        self.left = 0

    async def __call__(self, question: Any) -> Any:
        self.asked.append(question.message)
        try:
            await self.gate.wait()
        except trio.Cancelled:
            self.left += 1
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        is_url = isinstance(question, types.ElicitRequestURLParams)
        return self.answer or ("accept" if is_url else {"name": "ada"})


class Work:
    """A server with tools that wait and ask."""

    def __init__(self, **options: Any) -> None:
        self.server: Server[Any] = Server("work", **options)
        self.gate = trio.Event()
        self.began = self.ended = 0

        @self.server.tool(task="optional", poll=0.1)
        async def work() -> str:
            self.began += 1
            try:
                await self.gate.wait()
            finally:
                self.ended += 1
            return "done"

        @self.server.tool(task="optional", poll=0.1, restartable=True)
        async def ask(ctx: Context[Any]) -> str:
            self.began += 1
            answered = await ctx.elicit("Who?", NAME.requested_schema)
            return f"{answered.action} {(answered.value or {}).get('name')}"

    @property
    def left(self) -> tuple[int, int]:
        """What is lent: places of tasks, and bytes for them."""
        statistics = self.server.statistics()[0]
        places = statistics.get("tasks")  # made with the first task
        return 0 if places is None else places.lent, statistics["bytes"].of.get("tasks", 0)


@asynccontextmanager
async def connected(server: Any, **options: Any) -> AsyncGenerator[Client]:
    async with open_client(server, revision=LEGACY, **options) as client:
        yield client


async def start(client: Client, name: str, ttl: int | None = None) -> str:
    created = await client.request("tools/call", {"name": name, "task": {} if ttl is None else {"ttl": ttl}})
    return str(created["task"]["taskId"])


async def get(client: Client, id: str) -> dict[str, Any]:
    return await client.request("tasks/get", {"taskId": id})


async def text(client: Client, id: str) -> str:
    result = await client.request("tasks/result", {"taskId": id})
    return str(result["content"][0]["text"])


async def refused(client: Client, method: str, params: Mapping[str, Any]) -> RequestError:
    with pytest.raises(RequestError) as caught:
        await client.request(method, params)
    return caught.value


# Who is asked.


async def test_of_several_that_wait_one_is_asked_and_another_one_when_it_leaves() -> None:
    work, first, second = Work(), User(), User()
    results = list[str]()
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(work.server.open())
        one = await stack.enter_async_context(connected(running, on_elicit=first))
        other = await stack.enter_async_context(connected(running, on_elicit=second))
        mute = await stack.enter_async_context(connected(running))
        nursery = await stack.enter_async_context(trio.open_nursery())

        async def wait(client: Client, scope: trio.CancelScope | None = None) -> None:
            with scope or trio.CancelScope():
                results.append(await text(client, asking))

        asking, scope = await start(one, "ask"), trio.CancelScope()
        nursery.start_soon(wait, mute)  # which cannot answer
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wait, one, scope)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wait, other)
        await trio.testing.wait_all_tasks_blocked()
        assert (first.asked, second.asked) == (["Who?"], [])
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert (first.left, second.asked) == (1, ["Who?"])
        second.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert results == ["accept ada", "accept ada"]
        assert first.asked == ["Who?"]


@pytest.mark.parametrize("how", ["cancelled", "expired"])
async def test_a_question_is_taken_back_when_its_task_is_over(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    work, user, errors = Work(), User(), list[RequestError]()
    async with connected(work.server, on_elicit=user) as client, trio.open_nursery() as nursery:
        id = await start(client, "ask", 5_000)

        async def wait() -> None:
            errors.append(await refused(client, "tasks/result", {"taskId": id}))

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert user.asked == ["Who?"]
        if how == "cancelled":
            await client.request("tasks/cancel", {"taskId": id})
        else:
            await trio.sleep(6)
        await trio.testing.wait_all_tasks_blocked()
        assert user.left == 1
        assert [error.code for error in errors] == [-32603 if how == "cancelled" else -32602]
        await trio.sleep(6)
        assert work.left == (0, 0)


async def test_what_the_client_answers_is_the_handler_s() -> None:
    """A refusal, and an error: the tool fails, as outside of a task."""
    for answer, said in (
        ("decline", "The user declined."),
        (RequestError(-32050, "no time"), "The client refused elicitation/create: no time"),
    ):
        work, user = Work(), User(answer)
        user.gate.set()
        async with connected(work.server, on_elicit=user) as client:
            id = await start(client, "ask")
            assert said in await text(client, id)
            assert (await get(client, id))["status"] == "failed"


@pytest.mark.parametrize("answer", [{"action": 7}, {"action": "accept", "content": {"name": 7}}, {}])
async def test_what_is_no_answer_costs_the_call(answer: dict[str, Any]) -> None:
    work, wire = Work(), ScriptedChannel()

    async def asked(method: str, /, **params: object) -> dict[str, Any]:
        before = len(wire.sent)
        wire.say({"jsonrpc": "2.0", "id": before, "method": method, "params": params})
        await trio.testing.wait_all_tasks_blocked()
        return dict(wire.sent[before])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work.server.serve_channel, wire)
        client: Any = {"capabilities": {"elicitation": {}}, "clientInfo": {"name": "c", "version": "1"}}
        await asked("initialize", protocolVersion=str(LEGACY), **client)
        created = await asked("tools/call", name="ask", task={})
        question = await asked("tasks/result", taskId=created["result"]["task"]["taskId"])
        assert question["method"] == "elicitation/create"
        wire.say({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        await trio.testing.wait_all_tasks_blocked()
        assert wire.sent[-1]["result"]["isError"] is True
        assert "elicitation/create" in wire.sent[-1]["result"]["content"][0]["text"]
        nursery.cancel_scope.cancel()


async def test_every_way_to_ask_works_in_a_task() -> None:
    """Also what is wrapped around the call asks, before there is a task."""
    user = User()
    user.gate.set()

    async def wrap(params: Mapping[str, Any], ctx: Context[Any], call: Any) -> object:
        if params["name"] == "wrapped":
            assert (await ctx.elicit("Before?", NAME.requested_schema)).value == {"name": "ada"}
        return await call(params, ctx)

    server = Server("s", extensions=[ServerExtension("com.example/wraps", wrap_call=wrap)])

    @server.tool(task="optional", resume="replay")
    async def returns(ctx: Context[Any]) -> str | InputRequired:
        if "who" not in ctx.input_responses:
            return InputRequired({"who": NAME}, state="s")
        answered = ctx.input_responses["who"]
        assert isinstance(answered, types.ElicitResult)
        return f"{ctx.request_state} {answered.action}"

    paid: list[str] = []

    @server.tool(task="optional")
    async def pays() -> str:
        if not paid:
            paid.append("soon")
            url = "https://x.example/pay"
            raise URLElicitationRequired(types.ElicitRequestURLParams(message="Pay", url=url, elicitation_id="1"))
        return "paid"

    @server.tool(task="optional")
    async def wrapped(ctx: Context[Any]) -> str:
        return str((await ctx.request("x/own", {"a": 1}))["b"])

    async def own(params: Mapping[str, Any]) -> dict[str, Any]:
        return {"b": params["_meta"]["io.modelcontextprotocol/related-task"]["taskId"]}

    options: Any = {"on_elicit": user, "elicit_modes": ("form", "url"), "request_handlers": {"x/own": own}}
    async with connected(server, **options) as client:
        assert await text(client, await start(client, "returns")) == "s accept"
        assert user.asked == ["Who?"]
        id = await start(client, "wrapped")
        assert user.asked == ["Who?", "Before?"]
        assert await text(client, id) == id
        assert await text(client, await start(client, "pays")) == "paid"
        assert user.asked == ["Who?", "Before?", "Pay"]


# Limits, and what is left.


async def test_where_no_more_can_be_kept_a_call_that_wants_to_be_a_task_is_refused() -> None:
    """It may be answered with nothing else."""
    work = Work(limits=Limits(max_tasks=10))
    async with connected(work.server) as client:
        await start(client, "work")
        error = await refused(client, "tools/call", {"name": "work", "task": {}})
        assert error.code == -31002
        assert work.began == 1


async def test_wherever_it_is_given_up_nothing_is_left(autojump_clock: trio.testing.MockClock) -> None:
    """A task goes on or was never begun, and each question that is open can be asked again."""
    n, was_completed = 0, False
    while not was_completed:
        n += 1
        assert n < 500
        work, user = Work(), User()
        user.gate.set()
        async with work.server.open() as running:
            async with connected(running, on_elicit=user) as client:
                with cancelled_after_steps(n) as scope:
                    id = await start(client, "ask", 60_000)
                    assert await text(client, id) == "accept ada"
                was_completed = not scope.cancelled_caught
                await trio.testing.wait_all_tasks_blocked()
                [*tasks] = (await client.request("tasks/list"))["tasks"]
                assert len(tasks) == work.left[0]
                for task in tasks:
                    if task["status"] != "cancelled":  # its id was never sent
                        assert await text(client, task["taskId"]) == "accept ada"
            await trio.sleep(61)
            assert work.left == (0, 0)
            assert work.server.activity().requests == ()
    assert n > 20


# Faces, and processes.


async def test_a_task_is_seen_in_the_era_in_which_it_was_begun() -> None:
    work = Work()
    async with (
        work.server.open() as running,
        connected(running) as old,
        open_client(running, revision="2026-07-28", tasks="always") as new,
    ):
        legacy = await start(old, "work")
        created = await new.request("tools/call", {"name": "work", "arguments": {}})
        for client, id in ((old, created["taskId"]), (new, legacy)):
            for method in ("tasks/get", "tasks/cancel"):
                assert (await refused(client, method, {"taskId": id})).message == UNKNOWN
        assert [task["taskId"] for task in (await old.request("tasks/list"))["tasks"]] == [legacy]
        async with new.listen(tasks=[legacy, created["taskId"]]) as events:
            assert events.acknowledged.task_ids == (created["taskId"],)


async def test_an_extension_that_is_declared_in_the_handshake_makes_no_tasks() -> None:
    """It is that of 2026-07-28; here the request says what it wants."""
    work = Work()
    work.gate.set()
    declared = types.ClientCapabilities(extensions={"io.modelcontextprotocol/tasks": {}})
    async with connected(work.server, capabilities=declared) as client:
        answer = await client.request("tools/call", {"name": "work"})
        assert answer["content"][0]["text"] == "done"
        assert client.server_capabilities is not None
        assert client.server_capabilities.extensions is None


@asynccontextmanager
async def shared(path: Path) -> AsyncGenerator[SharedTaskStore]:
    async with open_sqlite_task_store(path) as store:
        yield store


async def test_another_process_waits_asks_and_cancels(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with shared(tmp_path / "t.db") as here, shared(tmp_path / "t.db") as there:
            work, elsewhere, user = Work(task_store=here), Work(task_store=there), User()
            user.gate.set()
            can_ask = {"on_elicit": user}
            async with connected(work.server, **can_ask) as one, connected(elsewhere.server, **can_ask) as other:
                assert other.server_capabilities is not None
                assert other.server_capabilities.tasks is not None
                assert other.server_capabilities.tasks.list is None  # a file has no list of them
                assert (await refused(other, "tasks/list", {})).code == -32601
                assert await text(other, await start(one, "ask")) == "accept ada"
                assert user.asked == ["Who?"]
                id = await start(one, "work")
                cancelled = await other.request("tasks/cancel", {"taskId": id})
                assert cancelled["status"] == "cancelled"
                assert (await refused(one, "tasks/cancel", {"taskId": id})).code == -32602
                assert (await get(one, id))["status"] == "cancelled"
                assert (work.ended, elsewhere.began) == (1, 0)
                id = await start(one, "ask")
                await here.send(id, {"settled": {"1": 7}})  # which is no answer, and costs nothing
                assert await text(other, id) == "accept ada"
                user.answer = RequestError(-32050, "no time")
                assert "no time" in await text(other, await start(one, "ask"))


async def test_a_task_whose_process_is_gone_is_run_again(tmp_path: Path) -> None:
    user = User()
    user.gate.set()
    with trio.fail_after(60):
        async with (
            shared(tmp_path / "t.db") as store,
            connected(Work(task_store=store).server, on_elicit=user) as c,
        ):
            id = await start(c, "ask")
        async with (
            shared(tmp_path / "t.db") as store,
            connected(Work(task_store=store).server, on_elicit=user) as c,
        ):
            assert await text(c, id) == "accept ada"
