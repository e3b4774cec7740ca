"""Completion of prompts' arguments, as clients of every revision see it."""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

import pytest
from eras import ENDS

from trio_mcp import Context, Depends, Field, RequestError, Revision, Server, open_client, types

EVERY = pytest.mark.parametrize("revision", list(Revision))
NEWEST = Revision.V2026_07_28


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


async def complete(
    server: Server,
    argument: str,
    value: str,
    *,
    revision: Revision = NEWEST,
    ref: Mapping[str, str] | None = None,
    context: Mapping[str, str] | None = None,
) -> Any:
    params: dict[str, Any] = {
        "ref": {"type": "ref/prompt", "name": "order"} if ref is None else ref,
        "argument": {"name": argument, "value": value},
    }
    if context is not None:
        params["context"] = {"arguments": context}
    async with open_client(server, revision=revision) as client:
        return (await client.request("completion/complete", params))["completion"]


def shelf_of(ctx: Context) -> str:
    return f"shelf of {ctx.method}"


def ordering() -> Server:
    server = Server("s")

    @server.prompt
    def order(
        title: str,
        colour: Annotated[Literal["red", "Rose", "green"] | None, Field("Of the cover.")] = None,
        size: Size = Size.SMALL,
        gift: bool = False,
        copies: Literal[1, 10, 100] = 1,
        kind: Literal["a", "b"] | None = None,
        mixed: bool | int = True,
    ) -> str:
        return ""

    return server


# By type.


@pytest.mark.parametrize("revision", ENDS)
async def test_arguments_of_few_values_complete_themselves(subtests: pytest.Subtests, revision: Revision) -> None:
    """Every revision, server/utilities/completion, "Completion Results"."""
    rows: list[tuple[str, str, list[str]]] = [
        ("colour", "", ["red", "Rose", "green"]),
        ("colour", "r", ["red", "Rose"]),
        ("colour", "RO", ["Rose"]),
        ("colour", "x", []),
        ("size", "l", ["large"]),
        ("gift", "", ["true", "false"]),
        ("gift", "T", ["true"]),
        ("copies", "10", ["10", "100"]),
        ("kind", "", ["a", "b"]),
        ("title", "", []),
        ("mixed", "", []),
    ]
    for argument, value, values in rows:
        with subtests.test(argument=argument, value=value, values=values):
            completion = await complete(ordering(), argument, value, revision=revision)
            assert completion == {"values": values, "total": len(values), "hasMore": False}


@EVERY
async def test_the_capability_is_declared_when_something_can_be_completed(revision: Revision) -> None:
    """2025-03-26 on, server/utilities/completion, "Capabilities"; 2024-11-05 has completion, but no capability."""
    async with open_client(ordering(), revision=revision) as client:
        assert client.server_capabilities is not None
        is_declared = client.server_capabilities.completions is not None
        assert is_declared is (revision > Revision.V2024_11_05)


@pytest.mark.parametrize("revision", ENDS)
async def test_without_anything_to_complete_there_is_no_such_method(revision: Revision) -> None:
    """2025-03-26 on, server/utilities/completion, "Error Handling": -32601, capability not supported."""
    server = Server("s")

    @server.prompt
    def order(title: str) -> str:
        return title

    async with open_client(server, revision=revision) as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.completions is None
    with pytest.raises(RequestError) as caught:
        await complete(server, "title", "", revision=revision)
    assert caught.value.code == -32601


@pytest.mark.parametrize("revision", ENDS)
async def test_an_unknown_reference_is_refused(subtests: pytest.Subtests, revision: Revision) -> None:
    """Every revision, server/utilities/completion, "Error Handling": -32602."""
    rows: list[tuple[dict[str, str], str, str]] = [
        ({"type": "ref/prompt", "name": "other"}, "size", "Unknown prompt: other"),
        ({"type": "ref/prompt", "name": "order"}, "weight", "no argument 'weight'; it has title, colour"),
        ({"type": "ref/resource", "uri": "x://{size}"}, "size", "x://{size}"),
        ({"type": "ref/resource", "uri": "order"}, "size", "Unknown template: order"),
        ({"type": "ref/tool", "name": "order"}, "size", "ref"),
    ]
    for ref, argument, told in rows:
        with subtests.test(ref=ref, argument=argument, told=told):
            with pytest.raises(RequestError) as caught:
                await complete(ordering(), argument, "", revision=revision, ref=ref)
            assert caught.value.code == -32602
            assert told in caught.value.message


async def test_a_hidden_prompt_completes_nothing() -> None:
    server = ordering()

    @server.completion("order", "title")
    def titles(value: str) -> list[str]:
        return [value]

    server.disable_prompt("order")
    with pytest.raises(RequestError) as caught:
        await complete(server, "title", "")
    assert caught.value.code == -32602


# By function.


@pytest.mark.parametrize("revision", ENDS)
async def test_a_function_completes_an_argument(revision: Revision) -> None:
    server = ordering()

    @server.completion("order", "title")
    async def titles(begun: str) -> Iterable[str]:
        return [f"{begun} 1", f"{begun} 2"]

    @server.completion("order", "size")
    def sizes(value: str) -> Iterator[str]:
        yield f"{value}, and by the function"

    completion = await complete(server, "title", "Dune", revision=revision)
    assert completion == {"values": ["Dune 1", "Dune 2"], "total": 2, "hasMore": False}
    completion = await complete(server, "size", "la", revision=revision)
    assert completion["values"] == ["la, and by the function"]


@pytest.mark.parametrize("revision", ENDS)
async def test_a_function_sees_what_is_filled_in_its_context_and_its_dependencies(revision: Revision) -> None:
    """2025-06-18 on, server/utilities/completion, "Requesting Completions": context.arguments.

    A member of a newer revision is accepted from a client that is ahead of the one it agreed to.
    """
    server = ordering()

    @server.completion("order", "title", thread=False)
    def titles(
        value: str,
        *,
        arguments: Mapping[str, str],
        ctx: Context,
        shelf: Annotated[str, Depends(shelf_of)],
        limit: int = 3,
    ) -> list[str]:
        return [value, arguments.get("colour", "?"), str(ctx.revision), shelf, str(limit)]

    completion = await complete(server, "title", "D", revision=revision, context={"colour": "red"})
    assert completion["values"] == ["D", "red", str(revision), "shelf of completion/complete", "3"]
    completion = await complete(server, "title", "D", revision=revision)
    assert completion["values"][1] == "?"


@pytest.mark.parametrize("revision", ENDS)
async def test_a_template_is_completed_by_function(revision: Revision) -> None:
    """Every revision, server/utilities/completion, "Reference Types"."""
    server = Server("s")

    @server.completion("orders://{year}/{id}", "id")
    def ids(value: str, arguments: Mapping[str, str]) -> list[str]:
        return ["12", "15"]

    @server.resource("orders://{year}/{id}")
    def order(year: str, id: str) -> str:
        return year + id

    ref = {"type": "ref/resource", "uri": "orders://{year}/{id}"}
    completion = await complete(server, "id", "1", revision=revision, ref=ref)
    assert completion["values"] == ["12", "15"]
    with pytest.raises(RequestError) as caught:
        await complete(server, "month", "1", revision=revision, ref=ref)
    assert caught.value.code == -32602


async def test_a_template_that_is_completed_is_there_when_serving_begins() -> None:
    """A misspelt one would never be completed. One of a directory counts, and a hidden one."""

    def completing(reference: str, argument: str) -> Server:
        server = Server("s")

        @server.completion(reference, argument)
        def complete(value: str) -> list[str]:
            return []

        def order(id: str) -> str:
            return id

        server.resource("orders://{id}")(order)
        server.resource("drafts://{id}")(order)
        server.disable_resource("drafts://{id}")
        server.add_directory(".", uri="dir:///")
        return server

    for reference, argument in (("orders://{id}", "id"), ("drafts://{id}", "id"), ("dir:///{+path}", "path")):
        async with open_client(completing(reference, argument)):
            pass
    texts = {
        ("order://{id}", "id"): (
            "completion('order://{id}', 'id') has nothing to complete: this server has no template order://{id}"
        ),
        ("orders://{id}", "ids"): (
            "completion('orders://{id}', 'ids') has nothing to complete yet: "
            "template orders://{id} has no variable 'ids'; it has id"
        ),
    }
    for (reference, argument), text in texts.items():
        with pytest.raises(ValueError) as caught:
            async with open_client(completing(reference, argument)):
                pass
        assert str(caught.value) == text


async def test_templates_of_a_handler_of_ones_own_are_not_known() -> None:
    """Its author serves them."""
    server = Server("s")

    @server.completion("orders://{id}", "id")
    def ids(value: str) -> list[str]:
        return ["12"]

    @server.request_handler("resources/read")
    async def read(params: Mapping[str, Any], ctx: Context) -> types.ReadResourceResult:
        return types.ReadResourceResult(contents=[])

    completion = await complete(server, "id", "1", ref={"type": "ref/resource", "uri": "orders://{id}"})
    assert completion["values"] == ["12"]


class Templates:
    """Stands for a registry of templates."""

    has_choices = True

    def choices(
        self, reference: types.PromptReference | types.ResourceTemplateReference, argument: str
    ) -> Iterable[str] | None:
        return ("red", "green") if isinstance(reference, types.ResourceTemplateReference) else None


async def test_other_registries_can_say_what_they_know() -> None:
    server = ordering()
    server._application.completer._sources += (Templates(),)
    ref = {"type": "ref/resource", "uri": "x://{colour}"}
    assert (await complete(server, "colour", "g", ref=ref))["values"] == ["green"]
    assert (await complete(server, "size", "l"))["values"] == ["large"]


async def test_at_most_a_hundred_values_are_sent(subtests: pytest.Subtests) -> None:
    """Every revision, server/utilities/completion, "Completion Results": a maximum, a total, and whether more."""

    async def check(count: int, lazy: bool) -> None:
        server = ordering()

        @server.completion("order", "title")
        def titles(value: str) -> Iterable[str]:
            values = [str(number) for number in range(count)]
            return iter(values) if lazy else values

        completion = await complete(server, "title", "")
        assert completion["values"] == [str(number) for number in range(min(count, 100))]
        assert completion["hasMore"] is (count > 100)
        assert completion.get("total") == (None if lazy and count > 100 else count)

    for count in (99, 100, 101, 1000):
        for lazy in (False, True):
            with subtests.test(count=count, lazy=lazy):
                await check(count, lazy)


async def test_a_whole_completion_is_sent_as_far_as_it_may() -> None:
    server = ordering()
    given = types.Completion(values=["a"], total=7, has_more=True)

    @server.completion("order", "title")
    def titles(value: str) -> types.Completion:
        return given

    assert await complete(server, "title", "") == {"values": ["a"], "total": 7, "hasMore": True}
    given = types.Completion(values=["a"])
    assert await complete(server, "title", "") == {"values": ["a"]}
    given = types.Completion(values=["a"] * 101)
    assert await complete(server, "title", "") == {"values": ["a"] * 100, "total": 101, "hasMore": True}
    given = types.Completion(values=["a"] * 101, total=500)
    assert await complete(server, "title", "") == {"values": ["a"] * 100, "total": 500, "hasMore": True}


@pytest.mark.parametrize("returned", ["text", None, 5, {"a": "b"}, ["a", 1]])
async def test_what_is_no_completion_is_an_error_and_in_the_log(
    returned: object, caplog: pytest.LogCaptureFixture
) -> None:
    server = ordering()

    @server.completion("order", "title")
    def titles(value: str) -> object:
        return returned

    with pytest.raises(RequestError) as caught, caplog.at_level(logging.ERROR):
        await complete(server, "title", "")
    assert (caught.value.code, caught.value.message) == (-32603, "internal error")
    assert "a completion returns strings" in caplog.text


def test_what_cannot_be_a_completion_is_refused() -> None:
    server = ordering()

    def nothing(*, ctx: Context) -> list[str]:
        return []

    def rest(**values: str) -> list[str]:
        return []

    def two(value: str, other: str) -> list[str]:
        return []

    def good(value: str) -> list[str]:
        return []

    for bad in (nothing, rest):
        with pytest.raises(TypeError, match="needs a parameter for the value typed so far"):
            server.completion("order", "title")(bad)
    with pytest.raises(TypeError, match="the parameter 'other' needs a default"):
        server.completion("order", "title")(two)
    server.completion("order", "title")(good)
    with pytest.raises(ValueError, match="'order' has a completion for 'title' already"):
        server.completion("order", "title")(good)


async def test_more_filled_in_arguments_than_anybody_has_are_refused() -> None:
    """They are counted before any is read: 90,000 of them would hold the loop."""
    with pytest.raises(RequestError, match=r"context.arguments has 1001 members; 1000 are allowed") as caught:
        await complete(ordering(), "size", "s", context={f"a{i}": "" for i in range(1_001)})
    assert caught.value.code == -32602
    assert await complete(ordering(), "size", "s", context={f"a{i}": "" for i in range(1_000)})
