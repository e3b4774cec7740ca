"""Everything that servers offer and ask, once in every cell of the matrix; each page of it in detail is in `tests/memory/protocol`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import attrs
import pytest
import trio
import trio.testing
from lines import open_line
from transports import carried

from trio_mcp import (
    Context,
    Field,
    LocalProtocolError,
    PromptsListChanged,
    RequestError,
    ResourcesListChanged,
    ResourceUpdated,
    Revision,
    Server,
    ToolError,
    ToolsListChanged,
)
from trio_mcp.types import (
    BlobResourceContents,
    CreateMessageResult,
    ImageContent,
    PromptReference,
    Root,
    TextContent,
    TextResourceContents,
)

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")


@attrs.frozen
class Weather:
    """The weather."""

    celsius: float
    sky: str


def make_server() -> Server[Any]:
    """Make a server that offers something of each kind, two on a page."""
    server: Server[Any] = Server("offering", page_size=2)

    @server.tool
    async def add(a: int, b: Annotated[int, Field(ge=0)]) -> str:
        """Add two numbers."""
        return str(a + b)

    @server.tool
    async def weather() -> Weather:
        return Weather(21.5, "clear")

    @server.tool
    async def picture() -> ImageContent:
        return ImageContent(data="iVBORw==", mime_type="image/png")

    @server.tool
    async def fail(how: str) -> str:
        if how == "tool":
            raise ToolError("no ink")
        if how == "protocol":
            raise RequestError(-32050, "refused on purpose", {"why": "a test"})
        raise ValueError("a secret of the server")

    @server.resource("note://today", mime_type="text/plain")
    async def today() -> str:
        return "buy milk"

    @server.resource("picture://logo", mime_type="image/png")
    async def logo() -> bytes:
        return PNG

    @server.resource("note://{author}/{title}")
    async def note(author: str, title: str) -> str:
        return f"{title} is by {author}"

    @server.completion("note://{author}/{title}", "author")
    async def authors(typed: str) -> list[str]:
        return [name for name in ("lem", "orwell") if name.startswith(typed)]

    for number in range(3):
        server.add_resource(f"numbered://{number}", str(number))

    @server.prompt
    def review(title: str) -> str:
        """Review a book."""
        return f"Review {title}."

    @server.completion("review", "title")
    async def titles(typed: str) -> list[str]:
        return [title for title in ("solaris", "solo") if title.startswith(typed)]

    return server


@carried()
async def test_tools_are_listed_and_called(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Server/tools: in pages, with structured content where the revision has it, and other content everywhere."""
    async with open_line(make_server(), binding, revision) as line:
        client = line.client
        tools = {tool.name: tool async for tool in client.list_tools()}
        assert list(tools) == ["add", "weather", "picture", "fail"]
        assert len(line.tape.requests("tools/list")) == 2, "two on a page"
        assert tools["add"].description == "Add two numbers."
        properties: Any = tools["add"].input_schema["properties"]
        assert properties["b"] == {"type": "integer", "minimum": 0}
        assert (await client.call_tool("add", {"a": 40, "b": 2})).text == "42"
        result = await client.call_tool("weather")
        if revision >= "2025-06-18":
            assert tools["weather"].output_schema is not None
            assert result.structured_content == {"celsius": 21.5, "sky": "clear"}
            assert await client.call_tool("weather", returns=Weather) == Weather(21.5, "clear")
        else:
            assert result.text == '{"celsius":21.5,"sky":"clear"}'
        (block,) = (await client.call_tool("picture")).content
        assert block == ImageContent(data="iVBORw==", mime_type="image/png")


@carried()
async def test_what_is_wrong_costs_that_request_alone(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Errors of tools are results; those of the protocol have their codes; and nothing of the server's is told."""
    async with open_line(make_server(), binding, revision) as line:
        client = line.client

        async def code(ask: Callable[[], Any]) -> int:
            with pytest.raises(RequestError) as caught:
                await ask()
            assert "secret" not in str(caught.value)
            return caught.value.code

        failed = await client.call_tool("fail", {"how": "tool"})
        assert (failed.is_error, failed.text) == (True, "no ink")
        wrong = await client.call_tool("add", {"a": 1, "b": -1})
        assert wrong.is_error
        assert "b: " in wrong.text
        bug = await client.call_tool("fail", {"how": "bug"})
        assert bug.is_error
        assert "secret" not in bug.text
        assert await code(lambda: client.call_tool("fail", {"how": "protocol"})) == -32050
        assert await code(lambda: client.call_tool("nothing")) == -32602
        assert await code(lambda: client.request("x/unknown")) == -32601
        assert await code(lambda: client.request("tools/call", {"name": 5})) == -32602
        missing = -32602 if Revision(revision).is_modern else -32002
        assert await code(lambda: client.read_resource("nowhere://x")) == missing
        assert await code(lambda: client.get_prompt("nothing")) == -32602
        assert await code(lambda: client.request("tools/list", {"cursor": "no cursor"})) == -32602
        assert (await client.call_tool("add", {"a": 40, "b": 2})).text == "42"
    line.check_endings()


@carried()
async def test_resources_are_listed_and_read(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Server/resources: in pages, text and bytes, templates."""
    async with open_line(make_server(), binding, revision) as line:
        client = line.client
        uris = [resource.uri async for resource in client.list_resources()]
        assert uris == ["note://today", "picture://logo", *(f"numbered://{number}" for number in range(3))]
        assert len(line.tape.requests("resources/list")) == 3
        templates = [template.uri_template async for template in client.list_resource_templates()]
        assert templates == ["note://{author}/{title}"]
        (text,) = (await client.read_resource("note://today")).contents
        assert text == TextResourceContents(uri="note://today", mime_type="text/plain", text="buy milk")
        (data,) = (await client.read_resource("picture://logo")).contents
        assert isinstance(data, BlobResourceContents)
        assert data.blob == "iVBORw0KGgoAAAANSUhEUg=="
        (made,) = (await client.read_resource("note://orwell/animal%20farm")).contents
        assert isinstance(made, TextResourceContents)
        assert made.text == "animal farm is by orwell"


@carried()
async def test_prompts_and_completions_are_given(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Server/prompts and server/utilities/completion."""
    async with open_line(make_server(), binding, revision) as line:
        client = line.client
        (prompt,) = [prompt async for prompt in client.list_prompts()]
        assert (prompt.name, prompt.description) == ("review", "Review a book.")
        (message,) = (await client.get_prompt("review", {"title": "Solaris"})).messages
        assert (message.role, message.content) == ("user", TextContent(text="Review Solaris."))
        found = await client.complete(PromptReference(name="review"), "title", "sol")
        assert list(found.completion.values) == ["solaris", "solo"]
        (template,) = [template async for template in client.list_resource_templates()]
        found = await client.complete(template, "author", "o")
        assert list(found.completion.values) == ["orwell"]


@carried()
async def test_a_server_that_is_there_answers_a_ping(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2025-11-25, basic/utilities/ping; 2026-07-28 has none, and `server/discover` says as much."""
    async with open_line(make_server(), binding, revision) as line:
        for _ in range(3):
            await line.client.ping()
        method = "server/discover" if Revision(revision).is_modern else "ping"
        assert len(line.tape.requests(method)) >= 3


@carried("reports")
async def test_progress_is_reported(binding: str, revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """Basic/utilities/progress: all of it, and before the answer; and none to who does not ask for it."""
    server: Server[Any] = Server("working")

    @server.tool
    async def work(ctx: Context[Any]) -> str:
        async with ctx.progress(total=3) as progress:
            for number in range(3):
                await progress.advance(1, f"step {number}")
        return "done"

    seen: list[tuple[float, float | None, str | None]] = []
    async with open_line(server, binding, revision) as line:
        await line.client.call_tool(
            "work", on_progress=lambda one: seen.append((one.progress, one.total, one.message))
        )
        said = ["step 0", "step 1", "step 2"] if revision > "2024-11-05" else [None] * 3
        assert seen == [(number + 1, 3, text) for number, text in enumerate(said)]
        await line.client.call_tool("work")
    assert sum(message.get("method") == "notifications/progress" for message in line.tape.received) == 3


@carried("levels", "reports")
async def test_messages_are_logged(binding: str, revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """Server/utilities/logging: from the level on that the client has asked for."""
    server: Server[Any] = Server("logging")

    @server.tool
    async def work(ctx: Context[Any]) -> str:
        await ctx.debug("not this")
        await ctx.warning({"disk": "nearly full"}, logger="disks")
        await ctx.error("disk full")
        return "done"

    logged: list[tuple[str, str | None, object]] = []
    async with open_line(
        server, binding, revision, on_log=lambda one: logged.append((one.level, one.logger, one.data))
    ) as line:
        await line.client.set_log_level("warning")
        await line.client.call_tool("work")
        await trio.testing.wait_all_tasks_blocked()
    assert logged == [("warning", "disks", {"disk": "nearly full"}), ("error", None, "disk full")]


@carried("changes")
async def test_changes_are_notified(binding: str, revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """2026-07-28, basic/patterns/subscriptions; before, `list_changed` and server/resources, "Subscriptions"."""
    server = make_server()
    async with (
        open_line(server, binding, revision) as line,
        line.client.listen(
            tools_list_changed=True,
            prompts_list_changed=True,
            resources_list_changed=True,
            resources=["note://today"],
        ) as events,
    ):
        server.remove_tool("add")
        assert await anext(events) == ToolsListChanged()
        assert "add" not in [tool.name async for tool in line.client.list_tools()]
        server.remove_prompt("review")
        assert await anext(events) == PromptsListChanged()
        server.add_resource("one://more", "one more")
        assert await anext(events) == ResourcesListChanged()
        await server.resource_updated("numbered://0")  # nobody has asked for that
        await server.resource_updated("note://today")
        assert await anext(events) == ResourceUpdated("note://today")
        assert events.waiting == 0
    assert line.client.statistics().calls == 0


@carried("questions")
async def test_a_model_and_roots_are_asked_for(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Client/sampling and client/roots: requests of the server, and in 2026-07-28 basic/patterns/mrtr."""
    server: Server[Any] = Server("asking")

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        answer = await ctx.sample("What is the capital of France?", max_tokens=10)
        roots = await ctx.list_roots()
        return f"{answer.model}: {answer.text}, {[root.uri for root in roots]}"

    async def sample(params: Any) -> CreateMessageResult:
        assert params.max_tokens == 10
        return CreateMessageResult(role="assistant", content=TextContent(text="Paris"), model="m")

    roots = [Root(uri="file:///home")]
    async with open_line(server, binding, revision, on_sample=sample, roots=roots) as line:
        for _ in range(2):
            assert (await line.client.call_tool("ask")).text == "m: Paris, ['file:///home']"
        await line.client.set_roots([Root(uri="file:///elsewhere")])
        assert (await line.client.call_tool("ask")).text == "m: Paris, ['file:///elsewhere']"
    changes = [m for m in line.tape.sent if m.get("method") == "notifications/roots/list_changed"]
    assert len(changes) == (0 if Revision(revision).is_modern else 1)
    line.check_endings()


@carried("forms")
async def test_a_user_is_asked(binding: str, revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """Client/elicitation: accepted, declined, cancelled, and an answer that does not fit the form."""
    server: Server[Any] = Server("asking")

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        answer = await ctx.elicit("How many?", Annotated[int, Field(ge=1)])
        return f"{answer.action} {answer.value}" if answer.accepted else answer.action

    answers: list[Any] = [{"value": 3}, "decline", "cancel"]

    def elicit(params: Any) -> Any:
        assert params.message == "How many?"
        return answers.pop(0)

    async with open_line(server, binding, revision, on_elicit=elicit) as line:
        for expected in ("accept 3", "decline", "cancel"):
            assert (await line.client.call_tool("ask")).text == expected
    line.check_endings()


@carried("questions")
async def test_a_client_that_cannot_be_asked_is_not_asked(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """It has not declared it: the handler learns it at once, and the call is refused."""
    server: Server[Any] = Server("asking")

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        return str(await ctx.list_roots())

    async with open_line(server, binding, revision) as line:
        with pytest.raises(RequestError) as caught:
            await line.client.call_tool("ask")
        assert "roots" in str(caught.value)
        with pytest.raises(LocalProtocolError):
            await line.client.roots_changed()
    assert not [message for message in line.tape.received if "method" in message]


@carried("batches", also=[(each, "2025-03-26") for each in ("stdio", "tcp", "websocket", "sse", "proxy")])
async def test_a_batch_is_answered(binding: str, revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """2025-03-26, basic, "Batching": each request of it by itself, the one that fails too."""
    async with open_line(make_server(), binding, revision) as line:
        first, second, third = await line.client.request_many(
            [
                ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
                ("x/unknown", {}),
                ("ping", None),
            ],
            batch=True,
        )
    assert isinstance(first, dict)
    assert first["content"] == [{"type": "text", "text": "3"}]
    assert isinstance(second, RequestError)
    assert second.code == -32601
    assert third == {}
    line.check_endings()
