"""`trio_mcp.testing.open_client`: what a handler raises comes out of the test, as itself."""

from __future__ import annotations

import traceback
from typing import Any, Literal, NoReturn

import pytest
import trio
import trio.testing

import trio_mcp
from trio_mcp import Context, Principal, RequestError, Revision, Server, ToolError, memory_channel_pair
from trio_mcp.testing import Faulty, open_client

ERAS = ["2025-03-26", "2025-11-25", "2026-07-28"]


class OutOfPaper(Exception):
    """What nobody but the printer raises."""


def printer() -> Server[Any]:
    server: Server[Any] = Server("printer")

    @server.tool
    async def jam() -> None:
        await trio.lowlevel.checkpoint()
        raise OutOfPaper("tray 2")

    @server.tool
    def jam_in_a_thread() -> None:
        raise OutOfPaper("tray 3")

    @server.tool
    def refuse() -> None:
        raise ToolError("not today")

    @server.tool
    def misuse() -> None:
        raise RequestError(-32099, "no such tray")

    @server.tool
    async def jam_while_cancelled(*, ctx: Context[Any]) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OutOfPaper("while it was cancelled")

    @server.tool
    async def jam_after_asking(*, ctx: Context[Any]) -> None:
        await ctx.elicit("Which tray?", bool)
        raise OutOfPaper("after asking")

    @server.tool
    async def jam_later(until: Literal["session", "server"], ctx: Context[Any]) -> str:
        async def jam() -> None:
            await trio.lowlevel.checkpoint()
            raise OutOfPaper("afterwards")

        ctx.start_soon(jam, until=until)
        return "printing"

    @server.tool(task="required", ttl=86_400, poll=60)
    async def jam_overnight() -> None:
        await trio.sleep(8 * 3_600)
        raise OutOfPaper("in the morning")

    @server.resource("printer://tray")
    def tray() -> str:
        raise OutOfPaper("read")

    @server.prompt
    def beg() -> str:
        raise OutOfPaper("begged")

    return server


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("tool", ["jam", "jam_in_a_thread"])
async def test_an_exception_of_a_handler_comes_out_of_the_call(revision: str, tool: str) -> None:
    """As itself, with the traceback that shows where it was raised; the next call is answered."""
    async with open_client(printer(), revision=revision) as client:
        for _ in range(2):
            with pytest.raises(OutOfPaper) as caught:
                await client.call_tool(tool)
            frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
            assert tool in frames
        assert client.revision == revision


@pytest.mark.parametrize("revision", ERAS)
async def test_resources_and_prompts_too(revision: str) -> None:
    """Whatever serves a request."""
    async with open_client(printer(), revision=revision) as client:
        with pytest.raises(OutOfPaper, match="read"):
            await client.read_resource("printer://tray")
        with pytest.raises(OutOfPaper, match="begged"):
            await client.get_prompt("beg")


@pytest.mark.parametrize("revision", ERAS)
async def test_what_is_said_on_purpose_is_an_answer(revision: str) -> None:
    """An error for the model, an error for the program, arguments that do not fit."""
    async with open_client(printer(), revision=revision) as client:
        assert (await client.call_tool("refuse")).text == "not today"
        with pytest.raises(RequestError, match="no such tray"):
            await client.call_tool("misuse")
        assert (await client.call_tool("jam_later", {"until": "noon"})).is_error


async def test_a_result_that_does_not_fit_says_whose_it_is() -> None:
    """What its annotation refuses reads like an argument that is wrong, otherwise."""
    server: Server[Any] = Server("liar")

    @server.tool
    async def count() -> int:
        return "1 is text"  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    @server.tool
    def describe() -> dict[str, int]:
        return {"n": None}  # type: ignore[dict-item]  # pyright: ignore[reportReturnType]

    async with open_client(server) as client:
        for tool, problem in (
            ("count", 'expected an integer, got "1 is text"'),
            ("describe", "n: expected an int"),
        ):
            with pytest.raises(TypeError) as caught:
                await client.call_tool(tool)
            says = f"the result of tool {tool} does not fit its annotation: {problem}"
            assert str(caught.value).startswith(says)


async def test_exceptions_stay_inside_if_asked_to() -> None:
    """Then the test sees what any other client would."""
    async with open_client(printer(), raise_exceptions=False) as client:
        assert (await client.call_tool("jam")).is_error
        with pytest.raises(RequestError):
            await client.read_resource("printer://tray")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_after_a_question_the_exception_belongs_to_the_last_round(revision: str) -> None:
    """A parked handler fails in another request than it began in."""
    async with open_client(printer(), revision=revision, on_elicit=lambda _: {"value": True}) as client:
        with pytest.raises(OutOfPaper, match="after asking"):
            await client.call_tool("jam_after_asking")


@pytest.mark.parametrize("revision", ERAS)
async def test_what_no_call_raises_comes_out_at_the_end(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The caller has given up; the handler's cleanup fails all the same."""
    with pytest.raises(OutOfPaper, match="while it was cancelled"):
        async with open_client(printer(), revision=revision) as client:
            with trio.move_on_after(1):
                await client.call_tool("jam_while_cancelled")
            await client.ping() if not Revision(revision).is_modern else None
            await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("until", ["session", "server"])
@pytest.mark.parametrize("revision", ERAS)
async def test_what_a_task_raises_that_a_handler_has_started_comes_out_at_the_end(
    revision: str, until: str
) -> None:
    """Its call has been answered."""
    with pytest.raises(OutOfPaper, match="afterwards"):
        async with open_client(printer(), revision=revision) as client:
            assert (await client.call_tool("jam_later", {"until": until})).text == "printing"
            await trio.testing.wait_all_tasks_blocked()
    async with open_client(printer(), revision=revision, raise_exceptions=False) as client:
        await client.call_tool("jam_later", {"until": until})
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_a_task_of_the_extension_raises_comes_out_at_the_end(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Its request was answered long ago. What polls for it is answered as ever."""
    with pytest.raises(OutOfPaper, match="in the morning"):
        async with open_client(printer(), revision=revision) as client:
            assert (await client.call_tool("jam_overnight")).is_error


async def test_the_exception_of_a_block_comes_out_with_a_note_of_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nothing is hidden, and nothing is in the way of what the test itself has found."""
    with pytest.raises(KeyError) as caught:
        async with open_client(printer()) as client:
            with trio.move_on_after(1):
                await client.call_tool("jam_while_cancelled")
            await trio.testing.wait_all_tasks_blocked()
            raise KeyError("the test's own")
    assert "OutOfPaper" in caught.value.__notes__[0]


@pytest.mark.parametrize("revision", ERAS)
async def test_what_calls_were_given_that_were_cancelled_at_once_is_not_lost(revision: str) -> None:
    """The first of several calls that fails cancels the others, whose answers may be there already."""
    server: Server[Any] = Server("printers")
    begun, all_there = 0, trio.Event()

    @server.tool
    async def jam_together() -> None:
        nonlocal begun
        begun += 1
        if begun % 3 == 0:
            all_there.set()
        await all_there.wait()
        raise OutOfPaper("all trays")

    for _ in range(10):
        all_there = trio.Event()
        failures: list[OutOfPaper] = []
        with pytest.raises(OutOfPaper) as caught:
            async with open_client(server, revision=revision) as client:
                try:
                    async with trio.open_nursery() as nursery:
                        for _ in range(3):
                            nursery.start_soon(client.call_tool, "jam_together")
                except* OutOfPaper as group:
                    failures += [failure for failure in group.exceptions if isinstance(failure, OutOfPaper)]
                raise failures[0]
        assert len(failures) + len(getattr(caught.value, "__notes__", [])) == 3


async def test_a_handler_of_the_client_that_fails_is_no_secret() -> None:
    """An `assert` in `on_elicit` would otherwise be an error that the server gets."""

    def on_elicit(_: object) -> NoReturn:
        raise AssertionError("asked something else")

    with pytest.raises((AssertionError, RequestError)) as caught:
        async with open_client(printer(), revision="2025-11-25", on_elicit=on_elicit) as client:
            await client.call_tool("jam_after_asking")
    assert "asked something else" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


async def test_batches_are_answered_and_their_exceptions_come_out_at_the_end() -> None:
    """One answer stands for several requests."""
    with pytest.raises(OutOfPaper):
        async with open_client(printer(), revision="2025-03-26") as client:
            answers = await client.request_many([("tools/call", {"name": "jam"}), ("ping", None)], batch=True)
            assert len(answers) == 2


async def test_one_client_has_no_part_in_the_failures_of_another() -> None:
    """Clients in clients, each with its own."""
    async with open_client(printer()) as one:
        async with open_client(printer(), raise_exceptions=False) as other:
            assert (await other.call_tool("jam")).is_error
        async with trio_mcp.open_client(printer()) as other:
            assert (await other.call_tool("jam")).is_error
        assert (await one.call_tool("refuse")).is_error


async def test_a_client_can_be_somebody() -> None:
    """So that scopes and principals are tested without HTTP."""
    server: Server[Any] = Server("vault")

    @server.tool(scopes=["vault:open"])
    def open_it(ctx: Context[Any]) -> str:
        return f"opened for {ctx.principal}"

    async with open_client(server, principal=Principal("ann", scopes=["vault:open"])) as client:
        assert (await client.call_tool("open_it")).text == "opened for ann"
    async with open_client(server, principal="eve") as client:
        assert [tool.name async for tool in client.list_tools()] == []
    async with open_client(server) as client:
        assert (await client.call_tool("open_it")).text == "opened for None"


async def test_the_transport_is_the_one_beneath(caplog: pytest.LogCaptureFixture) -> None:
    """In records, too, which a test may want to see; also where things go wrong on it."""
    server: Server[Any] = Server("printer")
    with caplog.at_level("INFO", logger="trio_mcp.access"):
        async with open_client(server) as client:
            await client.list_tools()
    assert {getattr(record, "transport", None) for record in caplog.records} == {"memory"}
    assert Faulty(memory_channel_pair()[0]).transport == "memory"


async def test_only_servers_in_this_process_are_opened_so() -> None:
    """Others have their exceptions elsewhere."""
    with pytest.raises(TypeError, match=r"not of str; trio_mcp\.open_client opens all others"):
        async with open_client("http://localhost/mcp"):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            pass
    a_class: Any = Server  # which has the methods that a server has
    with pytest.raises(TypeError, match=r"not of the class Server; trio_mcp\.open_client opens all others"):
        async with open_client(a_class):
            pass


async def test_thirty_idle_minutes_take_no_time(autojump_clock: trio.testing.MockClock) -> None:
    """A timeout is counted on Trio's clock, wherever it is."""
    server: Server[Any] = Server("slow")

    @server.tool(timeout=1_800)
    async def sleep() -> None:
        await trio.sleep_forever()

    begin = trio.current_time()
    async with open_client(server) as client:
        result = await client.call_tool("sleep")
    assert result.is_error
    assert "took longer than 1800 s" in result.text
    assert trio.current_time() - begin == pytest.approx(1_800, abs=1)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_a_handler_opens_reports_to_nobody(revision: str) -> None:
    """A client inside of a handler has its own ids, and its server its own failures."""
    server: Server[Any] = Server("outer")

    @server.tool
    async def print_it() -> str:
        async with trio_mcp.open_client(printer()) as inner:
            await inner.call_tool("jam_later", {"until": "session"})
            results = [await inner.call_tool("jam") for _ in range(5)]
        return " ".join(str(result.is_error) for result in results)

    @server.tool
    async def print_it_or_fail() -> None:
        async with open_client(printer()) as inner:
            await inner.call_tool("jam")

    async with open_client(server, revision=revision) as client:
        assert (await client.call_tool("print_it")).text == "True True True True True"
        with pytest.raises(OutOfPaper, match="tray 2"):
            await client.call_tool("print_it_or_fail")
        assert (await client.call_tool("print_it")).text == "True True True True True"
