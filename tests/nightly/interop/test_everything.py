"""Our client and the reference server that has everything: all it offers is used, and its questions are answered."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
import trio
from connecting import connected, each_started, every, text_of
from their_servers import EVERY_EVERYTHING_2025, EVERY_EVERYTHING_2026, TheirServer

from trio_mcp import (
    Client,
    ElicitAnswer,
    Progress,
    RequestError,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from trio_mcp.types import (
    BlobResourceContents,
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitRequestURLParams,
    EmbeddedResource,
    ImageContent,
    LoggingMessageNotificationParams,
    PromptMessage,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

TEXT_URI: Final = "demo://resource/dynamic/text/7"
BLOB_URI: Final = "demo://resource/dynamic/blob/7"
CALLS: Final[Mapping[str, Mapping[str, object]]] = {
    "echo": {"message": "hello"},
    "get-annotated-message": {"messageType": "success", "includeImage": True},
    "get-env": {},
    "get-resource-links": {"count": 3},
    "get-resource-reference": {"resourceType": "Blob", "resourceId": 2},
    "get-roots-list": {},
    "get-structured-content": {"location": "Los Angeles"},
    "get-sum": {"a": 20, "b": 22},
    "get-tiny-image": {},
    "gzip-file-as-resource": {"name": "hello.gz", "data": "data:text/plain,hello"},
    "simulate-research-query": {"topic": "python", "ambiguous": True},
    "toggle-simulated-logging": {},
    "toggle-subscriber-updates": {},
    "trigger-elicitation-request": {},
    "trigger-long-running-operation": {"duration": 0.1, "steps": 4},
    "trigger-sampling-request": {"prompt": "why?"},
    "trigger-url-elicitation": {"url": "https://example.com/pay"},
}
"""Every tool it has for a client that can be asked everything."""

TASKS_ONLY: Final = "simulate-research-query"
"""The one that is only to be had as a task, an experiment of 2025-11-25 which is left to the low level."""


def sample(params: CreateMessageRequestParams) -> CreateMessageResult:
    asked = params.messages[-1].content
    assert isinstance(asked, TextContent)
    content = TextContent(text=f"heard {asked.text} of {params.max_tokens}")
    return CreateMessageResult(role="assistant", content=content, model="scripted", stop_reason="endTurn")


def elicit(params: ElicitRequestParams) -> ElicitAnswer:
    """Agree to go to a URL; fill in what a form requires, and leave the rest to its defaults."""
    if isinstance(params, ElicitRequestURLParams):
        return "accept"
    filled = {"name": "Ada", "interpretation": "comedy"}
    return {name: filled[name] for name in params.requested_schema.required or ()}


def said(messages: Sequence[PromptMessage]) -> list[str]:
    return [message.content.text for message in messages if isinstance(message.content, TextContent)]


async def research(client: Client, outcome: list[Mapping[str, Any]]) -> None:
    """Have the tool that is only to be had as a task: its questions come with the request for its result."""
    arguments = CALLS[TASKS_ONLY]
    began = await client.request(
        "tools/call", {"name": TASKS_ONLY, "arguments": arguments, "task": {"ttl": 60_000}}
    )
    assert began["task"]["status"] == "working"
    outcome.append(await client.request("tasks/result", {"taskId": began["task"]["taskId"]}))


@every(EVERY_EVERYTHING_2026)
async def test_every_tool_of_2026(server: TheirServer) -> None:
    """2025-11-25, server/tools, client/sampling, client/elicitation, client/roots: with all its tools can ask."""
    results: dict[str, CallToolResult] = {}
    progress: list[Progress] = []
    researched: list[Mapping[str, Any]] = []
    send_log, receive_log = trio.open_memory_channel[LoggingMessageNotificationParams](100)
    async with (
        connected(
            server,
            on_sample=sample,
            on_elicit=elicit,
            elicit_modes=("form", "url"),
            roots=["/somewhere"],
            on_log=send_log.send,
        ) as (client, _),
        trio.open_nursery() as nursery,
    ):
        tools = {tool.name: tool async for tool in client.list_tools()}
        assert set(tools) == set(CALLS)
        assert all(tool.title and tool.annotations for tool in tools.values() if tool.name != TASKS_ONLY)
        nursery.start_soon(research, client, researched)
        await client.set_log_level("debug")
        for name, arguments in CALLS.items():
            if name != TASKS_ONLY:
                results[name] = await client.call_tool(name, arguments, on_progress=progress.append)
                assert not results[name].is_error
        await client.set_roots(["/somewhere", "/else"])
        while (await receive_log.receive()).data != "Roots updated: 2 root(s) received from client":
            pass
        assert "file:///else" in text_of(await client.call_tool("get-roots-list"))
        assert "# Research Report" in text_of(await client.call_tool(TASKS_ONLY, CALLS[TASKS_ONLY]))

    assert progress == [Progress(step, 4) for step in range(1, 5)]
    assert text_of(results["echo"]) == "Echo: hello"
    assert text_of(results["get-sum"]) == "The sum of 20 and 22 is 42."
    assert "PATH" in json.loads(text_of(results["get-env"]))
    assert results["get-structured-content"].structured_content == {
        "temperature": 73,
        "conditions": "Sunny / Clear",
        "humidity": 48,
    }
    message, image = results["get-annotated-message"].content
    assert isinstance(message, TextContent)
    assert isinstance(image, ImageContent)
    assert message.annotations is not None
    assert message.annotations.audience == ("user",)
    pictures = [block for block in results["get-tiny-image"].content if isinstance(block, ImageContent)]
    assert base64.b64decode(pictures[0].data).startswith(b"\x89PNG")
    links = [block.uri for block in results["get-resource-links"].content if isinstance(block, ResourceLink)]
    assert [uri.split("/")[-2:] for uri in links] == [["blob", "1"], ["text", "2"], ["blob", "3"]]
    (embedded,) = (
        block for block in results["get-resource-reference"].content if isinstance(block, EmbeddedResource)
    )
    assert isinstance(embedded.resource, BlobResourceContents)
    assert "file:///somewhere" in text_of(results["get-roots-list"])
    sampled = text_of(results["trigger-sampling-request"])
    assert "heard Resource trigger-sampling-request context: why? of 100" in sampled
    form = text_of(results["trigger-elicitation-request"])
    for filled in (
        '"name": "Ada"',
        '"integer": 42',
        '"untitledMultipleSelectEnum": [',
        '"legacyTitledEnum": "pet-1"',
    ):
        assert filled in form
    assert "completed the URL elicitation flow" in text_of(results["trigger-url-elicitation"])
    assert "Python programming language" not in researched[0]["content"][0]["text"]
    assert "python (comedy)" in researched[0]["content"][0]["text"]


@every(EVERY_EVERYTHING_2026)
async def test_every_resource_of_2026(server: TheirServer) -> None:
    """2025-11-25, server/resources: static, by template, text and binary, added while connected, and updated."""
    async with connected(server) as (client, _):
        resources = [resource async for resource in client.list_resources()]
        assert "architecture.md" in [resource.name for resource in resources]
        for resource in resources:
            (document,) = (await client.read_resource(resource.uri)).contents
            assert isinstance(document, TextResourceContents)
            assert document.mime_type == resource.mime_type == "text/markdown"
            assert document.text
        templates = [template.uri_template async for template in client.list_resource_templates()]
        assert [uri.partition("{")[0] for uri in templates] == [
            "demo://resource/dynamic/text/",
            "demo://resource/dynamic/blob/",
        ]
        (text,) = (await client.read_resource(TEXT_URI)).contents
        assert isinstance(text, TextResourceContents)
        assert text.text.startswith("Resource 7:")
        (blob,) = (await client.read_resource(BLOB_URI)).contents
        assert isinstance(blob, BlobResourceContents)
        assert base64.b64decode(blob.blob).startswith(b"Resource 7:")
        with pytest.raises(RequestError, match="not found"):
            await client.read_resource("demo://nothing")

        async with client.listen(resources_list_changed=True, resources=[TEXT_URI]) as events:
            made = await client.call_tool("gzip-file-as-resource", CALLS["gzip-file-as-resource"])
            (link,) = made.content
            assert isinstance(link, ResourceLink)
            assert await anext(events) == ResourcesListChanged()
            assert link.uri in [resource.uri async for resource in client.list_resources()]
            (packed,) = (await client.read_resource(link.uri)).contents
            assert isinstance(packed, BlobResourceContents)
            assert gzip.decompress(base64.b64decode(packed.blob)) == b"hello"
            await client.call_tool("toggle-subscriber-updates")
            assert await anext(events) == ResourceUpdated(TEXT_URI)


@every(EVERY_EVERYTHING_2026)
async def test_every_prompt_of_2026(server: TheirServer) -> None:
    """2025-11-25, server/prompts, server/utilities/completion: with arguments, resources and what they may be."""
    async with connected(server) as (client, _):
        prompts = {prompt.name: prompt async for prompt in client.list_prompts()}
        assert set(prompts) == {"simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"}
        assert said((await client.get_prompt("simple-prompt")).messages) == [
            "This is a simple prompt without arguments."
        ]
        weather = await client.get_prompt("args-prompt", {"city": "Kyiv", "state": "UA"})
        assert said(weather.messages) == ["What's weather in Kyiv, UA?"]
        with pytest.raises(RequestError) as caught:
            await client.get_prompt("args-prompt")
        assert caught.value.code == -32602

        team = prompts["completable-prompt"]
        departments = await client.complete(team, "department", "S")
        assert list(departments.completion.values) == ["Sales", "Support"]
        names = await client.complete(team, "name", "", context={"department": "Sales"})
        assert list(names.completion.values) == ["David", "Eve", "Frank"]
        promoted = await client.get_prompt("completable-prompt", {"department": "Sales", "name": "Eve"})
        assert said(promoted.messages) == ["Please promote Eve to the head of the Sales team."]

        template, _ = [template async for template in client.list_resource_templates()]
        assert list((await client.complete(template, "resourceId", "12")).completion.values) == ["12"]
        assert list((await client.complete(template, "resourceId", "x")).completion.values) == []
        for kind, contents in (("Text", TextResourceContents), ("Blob", BlobResourceContents)):
            shown = await client.get_prompt("resource-prompt", {"resourceType": kind, "resourceId": "1"})
            embedded = shown.messages[1].content
            assert isinstance(embedded, EmbeddedResource)
            assert isinstance(embedded.resource, contents)
        with pytest.raises(RequestError, match="Invalid resourceId"):
            await client.get_prompt("resource-prompt", {"resourceType": "Text", "resourceId": "none"})


@every(EVERY_EVERYTHING_2026)
async def test_tools_of_2026_come_with_what_the_client_can_do(server: TheirServer) -> None:
    """2025-11-25, basic/lifecycle, "Capability Negotiation": what cannot be asked is not offered."""
    async with connected(server) as (client, _):
        async with client.listen(tools_list_changed=True) as events:
            assert client.server_capabilities is not None
            names = {tool.name async for tool in client.list_tools()}
            if TASKS_ONLY not in names:  # it is added after the handshake
                assert await anext(events) == ToolsListChanged()
                names = {tool.name async for tool in client.list_tools()}
        asking = {"trigger-elicitation-request", "trigger-url-elicitation", "trigger-sampling-request"}
        assert names == CALLS.keys() - asking - {"get-roots-list"}


@every(EVERY_EVERYTHING_2026)
async def test_a_url_that_must_be_visited_first_is_told_as_an_error(server: TheirServer) -> None:
    """2025-11-25, client/elicitation, "URL Elicitation Required Error": and then the same call goes through."""
    asked: list[ElicitRequestParams] = []

    def accept(params: ElicitRequestParams) -> ElicitAnswer:
        asked.append(params)
        return "accept"

    arguments = {"url": "https://example.com/pay", "errorPath": True}
    async with connected(server, on_elicit=accept, elicit_modes=("url",)) as (client, _):
        with pytest.raises(RequestError) as caught:
            await client.call_tool("trigger-url-elicitation", arguments)
        assert caught.value.code == -32042
        told: Any = caught.value.data
        assert [first["url"] for first in told["elicitations"]] == ["https://modelcontextprotocol.io"]
        assert not asked
        assert "completed" in text_of(await client.call_tool("trigger-url-elicitation", arguments))
    assert [params.url for params in asked if isinstance(params, ElicitRequestURLParams)] == [
        "https://example.com/pay"
    ]


@each_started(EVERY_EVERYTHING_2025)
async def test_all_of_2025(everything: TheirServer) -> None:
    """2024-11-05: a hundred resources in pages, prompts, completion, and a question that comes with a subscription."""
    async with connected(everything, on_sample=sample) as (client, recordings):
        assert [tool.name async for tool in client.list_tools()] == [
            "echo",
            "add",
            "printEnv",
            "longRunningOperation",
            "sampleLLM",
            "getTinyImage",
        ]
        assert text_of(await client.call_tool("echo", {"message": "hello"})) == "Echo: hello"
        assert "PATH" in text_of(await client.call_tool("printEnv"))
        sampled = await client.call_tool("sampleLLM", {"prompt": "why?", "maxTokens": 5})
        assert "heard Resource sampleLLM context: why? of 5" in text_of(sampled)

        resources = [resource async for resource in client.list_resources()]
        assert len(resources) == 100
        for resource in resources[:2]:
            (contents,) = (await client.read_resource(resource.uri)).contents
            kind = TextResourceContents if resource.mime_type == "text/plain" else BlobResourceContents
            assert isinstance(contents, kind)
        (template,) = [template async for template in client.list_resource_templates()]
        assert list((await client.complete(template, "id", "3")).completion.values) == ["3"]

        simple, complex_ = [prompt async for prompt in client.list_prompts()]
        assert said((await client.get_prompt(simple.name)).messages)
        styles = await client.complete(complex_, "style", "f")
        assert list(styles.completion.values) == ["formal", "friendly"]
        filled = await client.get_prompt(complex_.name, {"temperature": "1", "style": "formal"})
        assert [type(message.content) for message in filled.messages] == [TextContent, TextContent, ImageContent]

        async with client.listen(resources=[resources[0].uri]):
            pass
    assert len(recordings[-1].messages("client", "resources/list")) == 10
    assert recordings[-1].messages("server", "sampling/createMessage")
    assert recordings[-1].messages("client", "resources/unsubscribe")
