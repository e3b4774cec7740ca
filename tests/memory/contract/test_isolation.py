"""One handler's mistakes reach no other request, and no handler can tell how it is served.

A request is served in the task that has read it, on the spot; or it had to wait for a place, and has a task of its
own; or, over HTTP, that of its POST. What a handler sees must be the same.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Annotated, Any, Final, cast

import pytest
import trio
import trio.testing
from inside_base import repetitions
from lines import LEGACY_LINES, LINES, open_line

from trio_mcp import Client, Context, Depends, Limits, RequestError, Server, open_client, types

tenant: Final = ContextVar("tenant", default="nobody")


def forget_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Let the next row of a table be logged as if for the first time."""
    caplog.clear()
    repetitions.forget()


async def call_text(client: Client, tool: str, **arguments: object) -> str:
    """Call a tool and return the text of its result."""
    content = (await client.call_tool(tool, arguments)).content[0]
    assert isinstance(content, types.TextContent)
    return content.text


# Context variables.


class Tenants:
    """A server whose tools set a context variable and look what it was before."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.server = server = Server("tenants", limits=limits)
        self.go = trio.Event()

        @server.tool
        async def visit(name: str) -> str:
            before = tenant.get()
            tenant.set(name)
            return before

        @server.tool
        async def visit_and_wait(name: str) -> str:
            before = tenant.get()
            tenant.set(name)
            await self.go.wait()
            assert tenant.get() == name
            return before

        @server.tool
        def from_thread(name: str) -> str:
            async def look() -> str:
                await trio.lowlevel.checkpoint()
                seen = tenant.get()
                tenant.set("the thread")
                await trio.lowlevel.checkpoint()
                return seen

            tenant.set(name)
            first = trio.from_thread.run(look)
            return f"{first}, {trio.from_thread.run_sync(tenant.get)}, {tenant.get()}"

        @server.tool
        async def with_thread(name: str) -> str:
            async def look() -> str:
                await trio.lowlevel.checkpoint()
                seen = tenant.get()
                tenant.set("the thread")
                return seen

            tenant.set(name)
            seen = await trio.to_thread.run_sync(trio.from_thread.run, look)
            await trio.lowlevel.checkpoint()
            return f"{seen}, {tenant.get()}"


@LINES
async def test_a_request_that_waited_for_its_place_sees_nothing_of_the_one_before(
    binding: str, revision: str, subtests: pytest.Subtests
) -> None:
    """It is started by the one that makes room, but it is not its child."""
    for places in (1, 2):
        with subtests.test(places=places):
            await wait_for_places(binding, revision, places)


async def wait_for_places(binding: str, revision: str, places: int) -> None:
    """Let requests wait until others make room."""
    tenants = Tenants(Limits(max_inbound_requests=places))
    seen: list[str] = []

    async def visit(tool: str, name: str) -> None:
        seen.append(await call_text(line.client, tool, name=name))

    async with open_line(tenants.server, binding, revision) as line, trio.open_nursery() as nursery:
        for n in range(places):
            nursery.start_soon(visit, "visit_and_wait", f"first {n}")
        await trio.testing.wait_all_tasks_blocked()
        for n in range(6):
            nursery.start_soon(visit, "visit_and_wait" if n % 2 else "visit", f"later {n}")
        await trio.testing.wait_all_tasks_blocked()
        tenants.go.set()
    assert seen == ["nobody"] * (places + 6)


@LINES
async def test_what_a_thread_of_a_tool_asks_for_runs_with_the_tools_variables(
    binding: str, revision: str
) -> None:
    """Trio lends the task to it; what it sets goes no further."""
    async with open_line(Tenants().server, binding, revision) as line:
        for name in ("Ann", "Bob"):
            assert await call_text(line.client, "from_thread", name=name) == f"{name}, {name}, {name}"
            assert await call_text(line.client, "with_thread", name=name) == f"{name}, {name}"
        assert await call_text(line.client, "visit", name="Cid") == "nobody"


@LINES
async def test_variables_of_one_request_are_not_seen_by_later_ones(binding: str, revision: str) -> None:
    """On the same connection, over HTTP too, whether they have waited or not."""
    tenants = Tenants()
    tenants.go.set()
    async with open_line(tenants.server, binding, revision) as line:
        for tool in ("visit", "visit_and_wait", "visit_and_wait", "visit"):
            assert await call_text(line.client, tool, name=tool) == "nobody"


@LEGACY_LINES
async def test_variables_of_one_notification_are_not_seen_by_the_next(binding: str, revision: str) -> None:
    """One task handles them all, one after another."""
    server = Server("notified")
    seen: list[str] = []

    @server.notification_handler("x/visit")
    async def visit(params: Any, ctx: Any) -> None:
        seen.append(tenant.get())
        tenant.set("Ann")
        await trio.lowlevel.checkpoint()
        seen.append(tenant.get())

    async with open_line(server, binding, revision) as line:
        for _ in range(2):
            await line.client.notify("x/visit", {})
            await trio.testing.wait_all_tasks_blocked()
    assert seen == ["nobody", "Ann"] * 2


# Everything else that a handler can see.


class Looking:
    """A server whose tools say all that they see of where they run."""

    def __init__(self, limits: Limits) -> None:
        self.server = server = Server("looking", limits=limits)
        self.seen: list[dict[str, object]] = []
        self.go = trio.Event()

        async def look() -> None:
            task = trio.lowlevel.current_task()
            seen: dict[str, object] = {"tenant": tenant.get()}
            tenant.set("the handler")
            for step in range(3):
                nursery = task.parent_nursery
                assert nursery is not None
                seen[f"task {step}"] = (task.name, id(nursery), task is nursery.parent_task, task.child_nurseries)
                seen[f"variables {step}"] = (tenant.get(), task.context.get(tenant), len(task.context))
                seen[f"deadline {step}"] = trio.current_effective_deadline()
                inner: list[object] = []

                async def child(inner: list[object] = inner) -> None:
                    await trio.lowlevel.checkpoint()
                    inner.append((tenant.get(), trio.current_effective_deadline()))
                    tenant.set("a child")

                def thread(inner: list[object] = inner) -> None:
                    inner.append(tenant.get())
                    inner.append(trio.from_thread.run_sync(tenant.get))
                    inner.append(trio.from_thread.run(later))
                    tenant.set("a thread")

                async def later() -> tuple[str, float]:
                    tenant.set(f"{tenant.get()}, for a thread")
                    await trio.lowlevel.checkpoint()
                    return tenant.get(), trio.current_effective_deadline()

                if step:
                    async with trio.open_nursery() as own:
                        own.start_soon(child)
                    await trio.to_thread.run_sync(thread)
                    await trio.lowlevel.checkpoint()
                    await trio.lowlevel.cancel_shielded_checkpoint()
                seen[f"others {step}"] = inner
            self.seen.append(seen)

        @server.tool
        async def look_around() -> None:
            await look()

        @server.tool
        async def stay() -> None:
            tenant.set("a neighbour")
            await self.go.wait()


@pytest.mark.parametrize("granted", [None, 30_000])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_handler_cannot_tell_whether_it_had_to_wait(granted: int | None, revision: str) -> None:
    """Task, variables, deadline, nurseries, threads: all is as when it is served on the spot."""
    looking = Looking(Limits(max_inbound_requests=1))
    meta: dict[str, object] = {} if granted is None else {"trio-mcp/timeoutMs": granted}
    call = {"name": "look_around", "arguments": {}, "_meta": meta}
    tenant.set("the server's")
    async with open_client(looking.server, revision=revision) as client:
        tenant.set("after it was opened")
        await client.request("tools/call", call)  # on the spot
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "stay")
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(2):
                nursery.start_soon(client.request, "tools/call", call)
            await trio.testing.wait_all_tasks_blocked()
            looking.go.set()
        await client.request("tools/call", call)
    first, *others = looking.seen
    assert len(others) == 3
    assert first["tenant"] == "the server's"
    assert first["variables 2"] == (
        "the handler",
        "the handler",
        cast("tuple[object, ...]", first["variables 2"])[2],
    )
    for other in others:
        for what, seen in first.items():
            if granted is None or ("deadline" not in what and "others" not in what):
                assert other[what] == seen, what
            else:
                assert repr(other[what]).count("inf") == repr(seen).count("inf") == 0, what


# What a handler leaves open.


async def in_a_scope(scope: trio.CancelScope) -> AsyncGenerator[int]:  # noqa: ASYNC900 - the mistake
    """Yield inside a scope, as nobody should."""
    with scope:
        yield 1  # noqa: ASYNC119


async def in_a_nursery(work: Callable[[], Any]) -> AsyncGenerator[int]:  # noqa: ASYNC900 - the mistake
    """Yield inside a nursery, as nobody should."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        yield 1  # noqa: ASYNC101, ASYNC119


class Careless:
    """A server whose tools leave something open, and keep it."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.server = server = Server("careless", limits=limits)
        self.kept: list[Any] = []
        self.scopes: list[trio.CancelScope] = []
        self.ended: list[str] = []
        self.go = trio.Event()
        self.staying = 0

        async def child() -> None:
            try:
                await trio.sleep_forever()
            finally:
                self.ended.append("child")

        async def leave(what: str) -> None:
            if what in {"scope", "late scope", "shielded scope"}:
                scope = trio.CancelScope(shield=what == "shielded scope")
                self.scopes.append(scope)
                self.kept.append(in_a_scope(scope))
                await anext(self.kept[-1])
            elif what == "cancelled scope":
                self.kept.append(in_a_scope(trio.CancelScope(deadline=-math.inf)))
                await anext(self.kept[-1])
            elif what == "nursery":
                self.kept.append(in_a_nursery(child))
                await anext(self.kept[-1])
            elif what == "stack":
                stack = AsyncExitStack()
                self.kept.append(stack)
                nursery = await stack.enter_async_context(trio.open_nursery())
                nursery.start_soon(child)

        self.leave = leave

        @server.tool
        async def log(text: str, ctx: Context[Any]) -> str:
            await ctx.info(text)
            return "logged"

        @server.tool
        async def leave_open(what: str) -> str:
            await leave(what)
            return "left"

        @server.tool
        async def wait_and_leave_open(what: str) -> str:
            await trio.lowlevel.checkpoint()
            await leave(what)
            await trio.lowlevel.checkpoint()
            return "left"

        @server.tool
        async def leave_open_and_ask(what: str, ctx: Context[Any]) -> str:
            await leave(what)
            await ctx.elicit("Really?", bool)
            return "left"

        @server.tool
        async def stay() -> str:
            self.staying += 1
            await self.go.wait()
            return "stayed"

        @server.tool
        async def visit() -> str:
            assert trio.current_effective_deadline() == math.inf
            await trio.lowlevel.checkpoint()
            return "hello"


WHAT: Final = ["scope", "shielded scope", "cancelled scope", "nursery", "stack"]


@LINES
async def test_a_scope_that_a_handler_leaves_open_costs_its_request_alone(
    binding: str,
    revision: str,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: trio.testing.MockClock,
    subtests: pytest.Subtests,
) -> None:
    """Whatever becomes of the scope later touches neither neighbours nor the connection."""
    for tool in ("leave_open", "wait_and_leave_open", "leave_open_and_ask"):
        for what in WHAT:
            with subtests.test(tool=tool, what=what):
                forget_the_log(caplog)
                await leave_open_in_a_handler(tool, what, binding, revision, caplog)


async def leave_open_in_a_handler(
    tool: str, what: str, binding: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Let a tool leave this open, and see that only its request fails."""
    if tool == "leave_open_and_ask" and revision == "2024-11-05":
        tool = "leave_open"
    careless = Careless()
    async with (
        open_line(careless.server, binding, revision, on_elicit=lambda _: {"value": True}) as line,
        trio.open_nursery() as nursery,
    ):
        answers: list[str] = []

        async def stay() -> None:
            answers.append(await call_text(line.client, "stay"))

        nursery.start_soon(stay)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(2):
            with pytest.raises(RequestError) as caught:
                await line.client.call_tool(tool, {"what": what})
            assert (caught.value.code, caught.value.message) == (-32603, "internal error")
        assert "stack corrupted" in caplog.text
        if what in {"nursery", "stack"}:
            await trio.testing.wait_all_tasks_blocked()
            assert careless.ended == ["child"] * 2
        for scope in careless.scopes:
            scope.cancel()
        assert await call_text(line.client, "visit") == "hello"
        for kept in careless.kept:
            with trio.move_on_after(1):  # the mistake may show where it is made, and nowhere else
                with suppress(RuntimeError, IndexError):
                    await kept.aclose()
        careless.kept.clear()
        for _ in range(3):
            assert await call_text(line.client, "visit") == "hello"
        assert careless.staying == 1
        careless.go.set()
    assert answers == ["stayed"]


@pytest.mark.filterwarnings("ignore:Async generator")
@LINES
async def test_an_abandoned_generator_touches_nobody_when_it_is_collected(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """Trio closes it in a task of its own, after the handler."""
    rows: list[str] = WHAT[:4]
    for what in rows:
        with subtests.test(what=what):
            await abandon(what, binding, revision)


async def abandon(what: str, binding: str, revision: str) -> None:
    """Let tools leave this open, and keep nothing of it."""
    careless = Careless()
    async with open_line(careless.server, binding, revision) as line:
        for tool in ("leave_open", "wait_and_leave_open"):
            with pytest.raises(RequestError):
                await line.client.call_tool(tool, {"what": what})
            careless.kept.clear()
            await trio.testing.wait_all_tasks_blocked()
            assert await call_text(line.client, "visit") == "hello"


@LINES
async def test_a_cancellation_that_outlives_its_scope_costs_one_request(
    subtests: pytest.Subtests, *, binding: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception that was kept and is raised again cancels nobody."""
    for waits in (False, True):
        with subtests.test(waits=waits):
            forget_the_log(caplog)
            await raise_what_was_kept(waits, binding, revision, caplog)


async def raise_what_was_kept(waits: bool, binding: str, revision: str, caplog: pytest.LogCaptureFixture) -> None:
    """Let a tool raise a cancellation again whose scope it has left."""
    server = Server("keeps")

    @server.tool
    async def fail(ctx: Context[Any]) -> None:
        kept: list[BaseException] = []
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as error:
                kept.append(error)
                raise
        if waits:
            await trio.lowlevel.checkpoint()
        raise kept[0]

    @server.tool
    async def visit() -> str:
        return "hello"

    async with open_line(server, binding, revision, on_elicit=lambda _: {"value": True}) as line:
        for _ in range(2):
            with pytest.raises(RequestError, match="internal error"):
                await line.client.call_tool("fail")
            assert await call_text(line.client, "visit") == "hello"
    assert "a scope that was left before" in caplog.text


@LINES
async def test_a_scope_that_is_left_open_after_waiting_for_a_place_costs_its_request_alone(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """Such a request has a task of its own, whose end must not take the connection down."""
    for what in WHAT:
        with subtests.test(what=what):
            await leave_open_after_waiting(what, binding, revision)


async def leave_open_after_waiting(what: str, binding: str, revision: str) -> None:
    """Let tools leave this open that had to wait for their place."""
    careless = Careless(Limits(max_inbound_requests=1))
    outcomes: list[str] = []
    async with open_line(careless.server, binding, revision) as line, trio.open_nursery() as nursery:

        async def call(tool: str, **arguments: object) -> None:
            try:
                outcomes.append(await call_text(line.client, tool, **arguments))
            except RequestError as error:
                outcomes.append(error.message)

        nursery.start_soon(call, "stay")
        await trio.testing.wait_all_tasks_blocked()
        for tool in ("leave_open", "wait_and_leave_open"):
            nursery.start_soon(partial(call, tool, what=what))
        await trio.testing.wait_all_tasks_blocked()
        careless.go.set()
        await trio.testing.wait_all_tasks_blocked()
        for kept in careless.scopes:
            kept.cancel()
        assert await call_text(line.client, "visit") == "hello"
    assert sorted(outcomes) == ["internal error", "internal error", "stayed"]


@LINES
async def test_what_a_handler_of_notifications_leaves_open_costs_that_notification_alone(
    binding: str,
    revision: str,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: trio.testing.MockClock,
    subtests: pytest.Subtests,
) -> None:
    """At the server and at the client; each handles all of them in one task."""
    for what in WHAT:
        with subtests.test(what=what):
            forget_the_log(caplog)
            await leave_open_in_notifications(what, binding, revision, caplog)


async def leave_open_in_notifications(
    what: str, binding: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Let handlers of notifications leave this open, at both ends."""
    careless = Careless()
    at_server: list[str] = []
    at_client: list[object] = []

    @careless.server.notification_handler("x/tell")
    async def tell(params: Any, ctx: Any) -> None:
        at_server.append(params["name"])
        await careless.leave(what)

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        at_client.append(message.data)
        await careless.leave(what)

    async with open_line(careless.server, binding, revision, on_log=on_log) as line:
        await line.client.set_log_level("info")
        for name in ("one", "two", "three"):
            await line.client.notify("x/tell", {"name": name})
            assert await call_text(line.client, "log", text=name) == "logged"
            await trio.testing.wait_all_tasks_blocked()
            for scope in careless.scopes:
                scope.cancel()
        assert await call_text(line.client, "visit") == "hello"
    assert at_client == at_server == ["one", "two", "three"]
    assert "stack corrupted" in caplog.text


@LINES
async def test_what_a_background_task_leaves_open_costs_that_task_alone(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """It is nobody's but its own."""
    for what in WHAT:
        with subtests.test(what=what):
            await leave_open_in_the_background(what, binding, revision)


async def leave_open_in_the_background(what: str, binding: str, revision: str) -> None:
    """Let a task of a request leave this open."""
    careless = Careless()

    @careless.server.tool
    async def begin(ctx: Context[Any]) -> None:
        ctx.start_soon(careless.leave, what)
        await trio.lowlevel.checkpoint()

    async with open_line(careless.server, binding, revision) as line:
        for _ in range(2):
            await line.client.call_tool("begin")
            await trio.testing.wait_all_tasks_blocked()
        assert await call_text(line.client, "visit") == "hello"


# What a handler raises that is no exception of the usual kind.


class _Oddity(BaseException):
    """What another framework might raise."""


ODD: Final[dict[str, Callable[[], BaseException]]] = {
    "exit": lambda: SystemExit(2),
    "generator exit": GeneratorExit,
    "asyncio": asyncio.CancelledError,
    "odd": _Oddity,
    "group": lambda: BaseExceptionGroup("two", [SystemExit(2), ValueError("the other")]),
    "nested": lambda: BaseExceptionGroup("nested", [BaseExceptionGroup("inner", [asyncio.CancelledError()])]),
}


which_odd: Final = ContextVar[str]("which_odd")


def raise_odd(odd: str) -> None:
    error = ODD[odd]()
    raise error


@asynccontextmanager
async def entering() -> AsyncGenerator[int]:
    await trio.lowlevel.checkpoint()
    raise_odd(which_odd.get())
    yield 1


@asynccontextmanager
async def leaving() -> AsyncGenerator[int]:
    yield 1
    await trio.lowlevel.checkpoint()
    raise_odd(which_odd.get())


class Exiting:
    """A server of which everything raises the same thing."""

    def __init__(self, odd: str) -> None:
        self.server = server = Server("exiting")

        def fail() -> Any:
            raise_odd(odd)

        which_odd.set(odd)

        @server.tool
        async def at_once() -> None:  # noqa: ASYNC910 - not to wait is the point
            fail()

        @server.tool
        async def later() -> None:
            await trio.lowlevel.checkpoint()
            fail()

        @server.tool
        async def in_a_child() -> None:
            async def child() -> None:
                await trio.lowlevel.checkpoint()
                fail()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(child)

        @server.tool
        def in_a_thread() -> None:
            fail()

        @server.tool(thread=False)
        def plain() -> None:
            fail()

        @server.tool
        async def asks_first(ctx: Context[Any]) -> None:
            await ctx.elicit("Really?", bool)
            fail()

        @server.tool
        async def depends(entered: Annotated[int, Depends(entering)]) -> None:
            raise AssertionError

        @server.tool
        async def depended(left: Annotated[int, Depends(leaving)]) -> None:
            await trio.lowlevel.checkpoint()

        @server.tool
        async def in_the_background(ctx: Context[Any]) -> str:
            async def work() -> None:
                await trio.lowlevel.checkpoint()
                fail()

            ctx.start_soon(work)
            await trio.lowlevel.checkpoint()
            return "begun"

        @server.resource("x://it")
        async def resource() -> str:
            fail()
            raise AssertionError

        @server.prompt
        def prompt() -> str:
            fail()
            raise AssertionError

        @server.request_handler("x/ask")
        async def ask(params: Any, ctx: Any) -> Any:
            fail()

        @server.notification_handler("x/tell")
        async def tell(params: Any, ctx: Any) -> None:
            fail()

        @server.tool
        async def visit() -> str:
            return "hello"


@LINES
async def test_what_exits_in_a_handler_costs_that_call_alone(
    binding: str, revision: str, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    """A library's ``sys.exit`` ends no server: it is masked for the client and told to our log, like any failure."""
    for odd in ODD:
        with subtests.test(odd=odd):
            forget_the_log(caplog)
            await exit_in_handlers(odd, binding, revision, caplog)


async def exit_in_handlers(odd: str, binding: str, revision: str, caplog: pytest.LogCaptureFixture) -> None:
    """Let handlers of every kind raise this."""
    exiting = Exiting(odd)
    async with open_line(exiting.server, binding, revision, on_elicit=lambda _: {"value": True}) as line:
        client = line.client

        async def alive() -> None:
            assert "Traceback" in caplog.text, "the log has it in full"
            caplog.clear()
            assert await call_text(client, "visit") == "hello"

        tools = ["at_once", "later", "in_a_child", "in_a_thread", "plain", "depends", "depended"]
        for tool in [*tools, *(["asks_first"] if revision != "2024-11-05" else [])]:
            result = await client.call_tool(tool)
            assert result.is_error
            told = result.content[0]
            assert isinstance(told, types.TextContent)
            assert told.text == f"{tool} failed. The server's log says why."
            await alive()
        asking: list[Callable[[], Any]] = [
            partial(client.read_resource, "x://it"),
            partial(client.get_prompt, "prompt"),
            partial(client.request, "x/ask"),
        ]
        for ask in asking:
            with pytest.raises(RequestError) as caught:
                await ask()
            assert caught.value.code == -32603
            assert "two" not in str(caught.value)
            await alive()
        assert await call_text(client, "in_the_background") == "begun"
        await trio.testing.wait_all_tasks_blocked()
        await alive()
        await client.notify("x/tell", {})
        await trio.testing.wait_all_tasks_blocked()
        await alive()


@LINES
async def test_what_exits_in_middleware_costs_that_call_alone(
    binding: str, revision: str, subtests: pytest.Subtests
) -> None:
    """It is part of serving a request, or of handling a notification."""
    for odd in ODD:
        with subtests.test(odd=odd):
            await exit_in_middleware(odd, binding, revision)


async def exit_in_middleware(odd: str, binding: str, revision: str) -> None:
    """Let middleware raise this."""

    async def fail(message: Any, call_next: Any) -> Any:
        if message.method in {"tools/call", "x/tell"}:
            raise_odd(odd)
        return await call_next(message)

    server = Server("interposed", middleware=[fail])

    @server.notification_handler("x/tell")
    async def tell(params: Any, ctx: Any) -> None:
        raise AssertionError

    @server.tool
    async def visit() -> str:
        return "hello"

    async with open_line(server, binding, revision) as line:
        for _ in range(2):
            with pytest.raises(RequestError, match="internal error"):
                await line.client.call_tool("visit")
            await line.client.notify("x/tell", {})
            await trio.testing.wait_all_tasks_blocked()
        assert [tool.name async for tool in line.client.list_tools()] == ["visit"]


@LEGACY_LINES
async def test_what_exits_in_a_clients_handler_costs_that_question_alone(
    binding: str, revision: str, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    """The server is told "internal error"; the client lives on."""
    for odd in ODD:
        with subtests.test(odd=odd):
            forget_the_log(caplog)
            await exit_in_a_clients_handler(odd, binding, revision, caplog)


async def exit_in_a_clients_handler(
    odd: str, binding: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Let a client that is asked raise this."""
    server = Server("asks")

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        await ctx.warning("I shall ask")
        try:
            await ctx.list_roots()
        except RequestError as error:
            return error.message
        return "answered"

    def fail(*_: object) -> Any:
        raise_odd(odd)

    async with open_line(server, binding, revision, roots=fail, on_log=fail) as line:
        for _ in range(2):
            assert await call_text(line.client, "ask") == "internal error"
    assert "Traceback" in caplog.text


@LINES
async def test_what_exits_in_a_callback_of_the_callers_comes_out_of_its_call(
    binding: str, revision: str, subtests: pytest.Subtests
) -> None:
    """It runs in the caller's task, and is the caller's."""
    for odd in ("exit", "asyncio"):
        with subtests.test(odd=odd):
            await exit_in_a_callback(odd, binding, revision)


async def exit_in_a_callback(odd: str, binding: str, revision: str) -> None:
    """Let the caller's callback raise this."""
    server = Server("reports")

    @server.tool
    async def report(ctx: Context[Any]) -> str:
        async with ctx.progress(total=1) as progress:
            await progress.advance()
        return "done"

    def fail(_: object) -> None:
        raise_odd(odd)

    async with open_line(server, binding, revision) as line:
        with pytest.raises(type(ODD[odd]())):
            await line.client.call_tool("report", on_progress=fail)
        assert await call_text(line.client, "report") == "done"


@pytest.mark.parametrize("waits", [False, True])
async def test_an_interrupt_ends_the_program(*, waits: bool) -> None:
    """Ctrl+C arrives wherever the program happens to be, and that is no failure of the handler's."""
    server = Server("interrupted")

    @server.tool
    async def interrupted() -> None:
        if waits:
            await trio.lowlevel.checkpoint()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        async with open_client(server) as client:
            await client.call_tool("interrupted")
