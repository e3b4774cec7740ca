"""What JSON cannot have is an error that says where, for whoever has given it, in both eras: nothing else is sent."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest
from eras import ENDS

from trio_mcp import Context, InputRequired, RequestError, Revision, Server, open_client
from trio_mcp.types import ElicitRequestFormParams, RequestedSchema

HALF = "has half a surrogate pair, which is no text in UTF-8"
WITH_QUESTIONS = pytest.mark.parametrize("revision", [Revision.V2025_11_25, Revision.V2026_07_28])


def asking_server() -> Server:
    server = Server("s")

    @server.tool
    async def form(ctx: Context) -> str:
        return ascii((await ctx.elicit("Name?", str)).value)

    @server.tool
    async def model(ctx: Context) -> str:
        return ascii((await ctx.sample("Hello", max_tokens=5)).content)

    return server


@WITH_QUESTIONS
async def test_an_answer_that_cannot_be_written_is_not_sent_as_other_text(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    """The handler of the client has returned it, so it is the client that has the error, and says where."""

    def elicited(_: object) -> dict[str, str]:
        return {"value": "a\ud800"}

    def sampled(_: object) -> str:
        return "a\ud800"

    server = asking_server()
    async with open_client(server, revision=revision, on_elicit=elicited, on_sample=sampled) as client:
        for name, place in (("form", "content.value"), ("model", "content.text")):
            caplog.clear()
            if revision.is_modern:
                with pytest.raises(ValueError, match=f"{place}: {HALF}"):
                    await client.call_tool(name)
            else:
                assert (await client.call_tool(name)).is_error
                assert f"{place}: {HALF}" in caplog.text


@WITH_QUESTIONS
async def test_a_question_that_cannot_be_written_is_an_error_where_it_is_asked(revision: Revision) -> None:
    """The handler gets it, and may go on; nobody is asked."""
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> list[str]:
        errors: list[str] = []
        for message in ("a\ud800", "fine"):
            try:
                await ctx.elicit(message, str)
            except ValueError as error:
                errors.append(str(error))
            try:
                await ctx.sample(message, max_tokens=5)
            except ValueError as error:
                errors.append(str(error))
        return errors

    asked: list[str] = []

    def answer(params: Any) -> dict[str, str]:
        asked.append(params.message)
        return {"value": "a"}

    async with open_client(server, revision=revision, on_elicit=answer, on_sample=lambda _: "a") as client:
        result = await client.call_tool("ask")
    assert json.loads(result.text) == [f"message: {HALF}", f"messages[0].content.text: {HALF}"]
    assert asked == ["fine"]


@WITH_QUESTIONS
async def test_a_question_that_is_returned_and_cannot_be_written_is_not_asked(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether a handler awaits an answer or returns the question makes no difference."""
    server = Server("s")

    @server.tool
    async def ask() -> InputRequired:
        question = ElicitRequestFormParams(message="a\ud800", requested_schema=RequestedSchema(properties={}))
        return InputRequired({"q": question})

    asked: list[Any] = []

    def answer(params: object) -> dict[str, str]:
        asked.append(params)
        return {}

    async with open_client(server, revision=revision, on_elicit=answer) as client:
        with pytest.raises(RequestError):
            assert not (await client.call_tool("ask")).is_error
    assert f"message: {HALF}" in caplog.text
    assert asked == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are text")
@pytest.mark.parametrize("revision", ENDS)
async def test_a_root_with_a_name_that_is_not_utf_8_costs_no_call(revision: Revision) -> None:
    """Its URI has the bytes, and its name is for people."""
    server = Server("s")

    @server.tool
    async def roots(ctx: Context) -> list[tuple[str, str | None]]:
        return [(root.uri, root.name) for root in await ctx.list_roots()]

    async with open_client(server, revision=revision, roots=["/ok", os.fsdecode(b"/a\xff")]) as client:
        text = (await client.call_tool("roots")).text
    assert text == '[["file:///ok","ok"],["file:///a%FF","a\ufffd"]]'


@pytest.mark.parametrize("revision", ENDS)
async def test_arguments_in_which_a_name_is_there_twice_are_refused(
    revision: Revision, subtests: pytest.Subtests
) -> None:
    """A number and a text may be one name, and then a reader keeps one of the members."""
    server = Server("s")
    received: list[object] = []

    @server.tool
    async def take(object: object) -> None:
        received.append(object)

    cases: list[tuple[Any, str]] = [
        ({1: "one", "1": "uno"}, "arguments.object.1"),
        ([{}, {"a": ({2: 1, "2": 2},)}], "arguments.object[1].a[0].2"),
        ({"a b": {1.5: 1, "1.5": 2}}, 'arguments.object["a b"]["1.5"]'),
    ]
    async with open_client(server, revision=revision) as client:
        for value, place in cases:
            with subtests.test(value=value):
                with pytest.raises(ValueError) as caught:
                    await client.call_tool("take", {"object": value})
                assert str(caught.value) == f"{place}: is the name of two members"
        assert received == []
        fine: list[Any] = [{1: "one", 2: [{}, (), 3]}]
        await client.call_tool("take", {"object": fine})
        assert received == [[{"1": "one", "2": [{}, [], 3]}]]


@pytest.mark.parametrize("revision", ENDS)
async def test_an_integer_of_thousands_of_digits_is_refused_by_its_place(revision: Revision) -> None:
    """Python's own error names none, and its advice is for programs that parse decimal numbers."""
    server = Server("s")

    @server.tool
    async def echo(a: object) -> object:
        return a

    async with open_client(server, revision=revision) as client:
        with pytest.raises(ValueError) as caught:
            await client.call_tool("echo", {"a": [1, 10**5000]})
    assert str(caught.value) == "arguments.a[1]: is an integer of 16610 bits, which has too many digits"
