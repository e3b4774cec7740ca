"""Plain functions, which run in threads: what becomes of them when their call is given up. Threads: real time."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from typing import Annotated, Any, Literal, TypeAlias

import pytest
import trio
import trio.testing
from inside_base import SERVER_BUSY
from shared.server_threads import ONE_THREAD, Busy, Question, until

from trio_mcp import Context, Depends, Limits, RequestError, Server, open_client
from trio_mcp.types import ElicitResult

Era: TypeAlias = Literal["modern", "legacy"]
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


class Diary:
    """What has happened, in any thread."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.asked = trio.Event()

    def note_end(self, name: str, function: Callable[..., Any], *args: Any) -> None:
        """Call something in the event loop, and note how that ends."""
        try:
            trio.from_thread.run(function, *args)
        except BaseException as error:
            self.lines.append(f"{name}: {type(error).__name__}")
            raise
        self.lines.append(f"{name}: done")

    async def on_elicit(self, _: Any) -> ElicitResult:
        """Be the user who never answers."""
        self.asked.set()
        try:
            await trio.sleep_forever()
        finally:
            self.lines.append("the question is closed")
        raise AssertionError


async def test_a_thread_that_asks_ends_with_its_call() -> None:
    """Its question is taken back, it is told so by `trio.Cancelled`, and its place is another call's."""
    server, diary = Server("asking", limits=ONE_THREAD), Diary()

    @server.tool
    def ask(ctx: Context) -> str:
        diary.note_end("asking", ctx.elicit, "Well?", bool)
        return "answered"

    @server.tool
    def plain() -> str:
        return "served"

    with trio.fail_after(20):
        async with open_client(server, era="legacy", on_elicit=diary.on_elicit) as client:
            for _ in range(3):
                diary.asked, diary.lines = trio.Event(), []
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "ask")
                    await diary.asked.wait()
                    nursery.cancel_scope.cancel()
                assert (await client.call_tool("plain")).text == "served"
                await until(lambda: len(diary.lines) == 2)
                assert sorted(diary.lines) == ["asking: Cancelled", "the question is closed"]


async def test_a_thread_that_asks_ends_when_its_handler_was_parked_for_too_long() -> None:
    """In the modern era no request is open while the client is asked. Whether it comes back shows in time."""
    server, diary = Server("parking", limits=Limits(max_threads=1, parked_timeout=0.1)), Diary()

    @server.tool
    def ask(ctx: Context) -> str:
        diary.note_end("asking", ctx.elicit, "Well?", bool)
        return "answered"

    @server.tool
    def plain() -> str:
        return "served"

    with trio.fail_after(20):
        async with open_client(server, era="modern", on_elicit=diary.on_elicit) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "ask")
                await diary.asked.wait()
                nursery.cancel_scope.cancel()
            assert (await client.call_tool("plain")).text == "served"
            await until(lambda: len(diary.lines) == 2)
    assert sorted(diary.lines) == ["asking: Cancelled", "the question is closed"]


@ERAS
async def test_a_thread_that_asks_ends_when_its_client_leaves(era: Era) -> None:
    """Nothing is left of a connection: no question, and no thread that waits for its answer."""
    server, diary = Server("left", limits=Limits(drain_timeout=0)), Diary()

    @server.tool
    def ask(ctx: Context) -> str:
        diary.note_end("asking", ctx.elicit, "Well?", bool)
        return "answered"

    with trio.fail_after(20):
        async with (
            trio.open_nursery() as nursery,
            open_client(server, era=era, on_elicit=diary.on_elicit) as client,
        ):
            nursery.start_soon(_ignoring_the_end, client.call_tool, "ask")
            await diary.asked.wait()
            nursery.cancel_scope.cancel()
        await until(lambda: len(diary.lines) == 2)
    assert sorted(diary.lines) == ["asking: Cancelled", "the question is closed"]


async def _ignoring_the_end(function: Callable[..., Awaitable[object]], *args: Any) -> None:
    with suppress(RequestError, trio.ClosedResourceError):
        await function(*args)


async def test_a_thread_that_was_blocking_ends_at_what_it_says_next(subtests: pytest.Subtests) -> None:
    """As an async function ends at its next checkpoint. Until then nothing can be done about it."""

    async def check(era: Era, said: str) -> None:
        server, diary = Server("blocking", limits=ONE_THREAD), Diary()
        began, go_on = trio.Event(), threading.Event()

        @server.tool
        def block(ctx: Context) -> str:
            trio.from_thread.run_sync(began.set)
            go_on.wait()
            said_so: dict[str, tuple[Any, ...]] = {
                "report_progress": (ctx.report_progress, 1),
                "log": (ctx.log, "info", "still here"),
                "request": (ctx.request, "roots/list"),
                "elicit": (ctx.elicit, "Well?", bool),
            }
            diary.note_end(said, *said_so[said])
            return "done"

        with trio.fail_after(20):
            async with open_client(server, era=era, roots=[], on_elicit=diary.on_elicit) as client:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "block")
                    await began.wait()
                    nursery.cancel_scope.cancel()
                await trio.testing.wait_all_tasks_blocked()
                go_on.set()
                await until(lambda: diary.lines)
        assert diary.lines == [f"{said}: Cancelled"]

    for era in ("modern", "legacy"):
        for said in ("report_progress", "log", "request", "elicit"):
            with subtests.test(era=era, said=said):
                await check(era, said)


def _answer(ctx: Context[Diary]) -> bool:
    ctx.state.note_end("asking", ctx.elicit, "Well?", bool)
    return True


async def test_a_dependency_in_a_thread_ends_with_its_call() -> None:
    """It is a plain function like others."""
    diary = Diary()
    server = Server("depending", limits=ONE_THREAD, lifespan=lambda _: nullcontext(diary))

    @server.tool
    async def use(said: Annotated[bool, Depends(_answer, thread=True)]) -> str:
        return str(said)

    with trio.fail_after(20):
        async with open_client(server, era="legacy", on_elicit=diary.on_elicit) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "use")
                await diary.asked.wait()
                nursery.cancel_scope.cancel()
            await until(lambda: len(diary.lines) == 2)
    assert sorted(diary.lines) == ["asking: Cancelled", "the question is closed"]


async def test_what_a_thread_has_started_goes_on_without_it() -> None:
    """`Context.start_soon` is for what outlives the request, from whichever task it is called."""
    server, diary = Server("starting", limits=ONE_THREAD), Diary()
    began, go_on = trio.Event(), trio.Event()

    @server.tool
    def start(ctx: Context) -> str:
        async def outlive() -> None:
            await go_on.wait()
            await ctx.report_progress(1)  # nobody listens any more
            diary.lines.append("outlived it")

        trio.from_thread.run_sync(ctx.start_soon, outlive)
        trio.from_thread.run_sync(began.set)
        diary.note_end("asking", ctx.elicit, "Well?", bool)
        return "done"

    with trio.fail_after(20):
        async with open_client(server, era="legacy", on_elicit=diary.on_elicit) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "start")
                await diary.asked.wait()
                nursery.cancel_scope.cancel()
            go_on.set()
            await until(lambda: "outlived it" in diary.lines)


@ERAS
async def test_users_who_think_keep_no_plain_function_from_running(era: Era) -> None:
    """A thread that waits for an answer does nothing: its place is others' meanwhile."""
    server, user = Server("thinking", limits=ONE_THREAD), Question()
    answers: list[str] = []

    @server.tool
    def ask(ctx: Context) -> str:
        return f"answered: {trio.from_thread.run(ctx.elicit, 'Well?', bool).action}"

    @server.tool
    def plain() -> str:
        return "served"

    async def call() -> None:
        answers.append((await client.call_tool("ask")).text)

    with trio.fail_after(20):
        async with (
            open_client(server, era=era, on_elicit=user.on_elicit) as client,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(call)
            await user.asked.wait()
            assert (await client.call_tool("plain")).text == "served"
            user.may_answer.set()
        assert answers == ["answered: accept"]


async def test_a_client_that_gives_up_between_two_requests_costs_no_place() -> None:
    """2026-07-28: nothing shows that it will not come back, before `parked_timeout` is over."""
    limits = Limits(max_threads=1, parked_timeout=1000, drain_timeout=0)
    server, diary = Server("given up", limits=limits), Diary()

    @server.tool
    def ask(ctx: Context) -> str:
        diary.note_end("asking", ctx.elicit, "Well?", bool)
        return "answered"

    @server.tool
    def plain() -> str:
        return "served"

    with trio.fail_after(20):
        async with open_client(server, era="modern", on_elicit=diary.on_elicit) as client:
            for _ in range(3):
                diary.asked = trio.Event()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "ask")
                    await diary.asked.wait()
                    nursery.cancel_scope.cancel()
                assert (await client.call_tool("plain")).text == "served"


@ERAS
@pytest.mark.parametrize("asking", ["ask", "ask_twice"])
async def test_a_thread_with_its_answer_waits_for_a_place_before_it_goes_on(era: Era, asking: str) -> None:
    """There are never more at work than `max_threads`."""
    busy = Busy()
    with trio.fail_after(20):
        async with (
            open_client(busy.server, era=era, on_elicit=busy.user.on_elicit) as client,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(client.call_tool, asking)
            await busy.user.asked.wait()
            nursery.start_soon(client.call_tool, "hold")
            await busy.began.wait()
            busy.user.may_answer.set()
            await trio.testing.wait_all_tasks_blocked(0.05)
            busy.free()
        assert busy.lines == ["freed", "went on"]


async def test_a_thread_whose_question_is_cancelled_waits_for_no_place() -> None:
    """Nothing that is cancelled can wait. It goes on with the place of one that asks, and gives that back at its end."""
    busy = Busy(Limits(max_threads=1, max_asking_threads=1))
    with trio.fail_after(20):
        async with (
            open_client(busy.server, era="legacy", on_elicit=busy.user.on_elicit) as client,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(client.call_tool, "ask_briefly")
            await busy.user.asked.wait()
            nursery.start_soon(client.call_tool, "hold")
            await busy.began.wait()
            busy.scope.cancel()
            await until(lambda: busy.lines)
            busy.free()
            busy.user.may_answer.set()
            await until(lambda: busy.lines == ["went on", "freed"])
            assert (await client.call_tool("ask")).text == "answered"


@ERAS
async def test_questions_of_threads_beyond_their_limit_are_refused(era: Era) -> None:
    """max_asking_threads: each is a thread, if an idle one. The error says which limit it is."""
    busy = Busy(Limits(max_threads=1, max_asking_threads=1, parked_timeout=1000))
    with trio.fail_after(20):
        async with (
            open_client(busy.server, era=era, on_elicit=busy.user.on_elicit) as client,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(client.call_tool, "ask")
            await busy.user.asked.wait()
            with pytest.raises(RequestError, match="max_asking_threads") as caught:
                await client.call_tool("ask")
            assert caught.value.code == SERVER_BUSY
            busy.user.may_answer.set()
    assert busy.lines == ["went on"]
