"""An answer of a client that does not fit the question is an error to the handler, and no failure of the server."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
import trio.testing
from asked import ABLE, AskedClient
from inside_base import repetitions

from trio_mcp import (
    Context,
    InputRequired,
    RemoteProtocolError,
    RequestError,
    Revision,
    Server,
    types,
)

LEGACY_FORM_ERA = (Revision.V2025_06_18, Revision.V2025_11_25)

UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"action": "accept", "content": {"value": "many"}}, r"content\.value: "),
    ({"action": "accept", "content": {}}, r"content\.value: "),
    ({"action": "accept", "content": {"value": ["\n\x1b[2J"]}}, r"content\.value: "),
    ({"action": "accept"}, "content: is missing"),
]

# The modern era refuses these before the handler hears of them: the request that brings them is invalid.
NO_ANSWERS: list[tuple[dict[str, Any], str]] = [({"action": "\n\x1b[2J"}, "action"), ({}, "action")]

CASES = [
    *((revision, *unfit) for revision in (*LEGACY_FORM_ERA, Revision.V2026_07_28) for unfit in UNFIT),
    *((revision, *none) for revision in LEGACY_FORM_ERA for none in NO_ANSWERS),
]


def make_server() -> Server[Any]:
    server: Server[Any] = Server("asking")

    @server.tool
    async def tool(ctx: Context[Any]) -> str:
        return str((await ctx.elicit("How many?", int)).value)

    @server.tool
    async def tool_with_tasks(ctx: Context[Any]) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ctx.elicit, "How many?", int)
        return "done"

    @server.tool
    async def tool_that_goes_on(ctx: Context[Any]) -> str:
        try:
            await ctx.elicit("How many?", int)
        except RemoteProtocolError as error:
            return f"{error.question}: {error}"
        return "not reached"

    @server.prompt
    async def prompt(ctx: Context[Any]) -> str:
        return str((await ctx.elicit("How many?", int)).value)

    @server.resource("x:fixed")
    async def fixed(ctx: Context[Any]) -> str:
        return str((await ctx.elicit("How many?", int)).value)

    return server


async def test_an_answer_that_does_not_fit_is_no_traceback(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It was "tool failed" with a traceback for everybody who fills in nonsense; the caller now reads which field."""

    async def check(revision: Revision, answer: dict[str, Any], says: str) -> None:
        caplog.clear()
        repetitions.forget()
        client = AskedClient(answer)
        with caplog.at_level(logging.DEBUG, "trio_mcp"):
            async with client.open(make_server(), revision) as opened:
                for name in ("tool", "tool_with_tasks", "tool_that_goes_on"):
                    result = await opened.call_tool(name)
                    (block,) = result.content
                    assert isinstance(block, types.TextContent)
                    assert block.text.isprintable()
                    assert "elicitation/create" in block.text
                    assert bool(result.is_error) is (name != "tool_that_goes_on")
                for ask in (lambda: opened.get_prompt("prompt"), lambda: opened.read_resource("x:fixed")):
                    with pytest.raises(RequestError, match=says) as refused:
                        await ask()
                    assert "elicitation/create" in refused.value.message
        servers = [record for record in caplog.records if record.name == "trio_mcp.server"]
        assert len(servers) >= 5
        for record in caplog.records:
            if record.name.startswith("trio_mcp"):
                assert record.levelno < logging.ERROR, record.getMessage()
                assert not record.exc_info

    for revision, answer, says in CASES:
        with subtests.test(revision=revision, answer=answer, says=says):
            await check(revision, answer, says)


async def test_a_question_by_hand_is_held_to_the_same(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """`InputRequired` asks at once in the legacy era; the answer was another way to the same traceback."""
    server: Server[Any] = Server("by hand")

    @server.tool
    async def tool(ctx: Context[Any]) -> Any:
        return InputRequired({"roots": types.ListRootsRequestParams()})

    client = AskedClient({"roots": "none"}, capabilities=ABLE)
    with caplog.at_level(logging.DEBUG, "trio_mcp"):
        async with client.open(server, Revision.V2025_11_25) as opened:
            with pytest.raises(RequestError, match="roots"):
                await opened.call_tool("tool")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_mistake_of_the_server_is_still_a_failure(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Another server's nonsense, met in a handler, is nothing the caller could mend: it is logged and masked."""
    server: Server[Any] = Server("relay")

    @server.tool
    async def tool() -> str:
        raise RemoteProtocolError("another server said nonsense")

    async with AskedClient().open(server, Revision.V2026_07_28) as opened:
        result = await opened.call_tool("tool")
    assert result.is_error
    assert "nonsense" not in str(result.content)
    assert [record for record in caplog.records if record.levelno == logging.ERROR]
