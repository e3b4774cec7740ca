"""Our client and the servers of other implementations: real processes over stdio, on the real clock.

Whatever a test is about, the end is the same: see `connected`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from children import has_children
from connecting import HANGS, LIMITS, connected, each_started, every, recorded, target, text_of
from official_wire import FOREIGN_METHOD
from recordings import Recording
from their_servers import (
    EVERY_EVERYTHING_2025,
    EVERY_EVERYTHING_2026,
    EVERYTHING_2025,
    EVERYTHING_2026,
    GIT,
    ONE_OF_EACH,
    RELEASED_SERVERS,
    SDK_SERVERS,
    TIME,
    TheirServer,
)

import trio_mcp
from trio_mcp import (
    Client,
    ClientOptions,
    Progress,
    RemoteProtocolError,
    RequestError,
    Revision,
)
from trio_mcp.types import (
    CallToolResult,
    ClientCapabilities,
    ElicitationCapability,
    EmbeddedResource,
    ImageContent,
    LoggingMessageNotificationParams,
    ResourceLink,
    RootsCapability,
    SamplingCapability,
    TextContent,
)


async def complaint_about(call: Awaitable[CallToolResult]) -> str:
    """Return what a server says about a call it refuses: implementations differ in how they say it."""
    try:
        result = await call
    except RequestError as error:
        return error.message
    assert result.is_error
    return text_of(result)


def assert_given_up(recording: Recording, tool: str) -> None:
    """Check that the server was told once that a call is given up, in the way of its transport and era."""
    (question,) = [
        message for message in recording.messages("client", "tools/call") if message["params"]["name"] == tool
    ]
    goodbyes = recording.messages("client", "notifications/cancelled")
    if recording.exchanges and Revision.V2026_07_28 in json.dumps(question):
        (carrier,) = [exchange for exchange in recording.exchanges if question in exchange.messages]
        assert not carrier.is_complete
        assert goodbyes == []
    else:
        (goodbye,) = goodbyes
        assert goodbye["params"]["requestId"] == question["id"]
        sent = recording.messages("client")
        assert sent.index(question) < sent.index(goodbye)


# Connecting.


@every([*SDK_SERVERS, *RELEASED_SERVERS])
async def test_the_newest_common_revision_is_agreed_on(server: TheirServer) -> None:
    """2026-07-28, basic/versioning: probe, then speak the newest that both know, or shake hands."""
    async with connected(server, revision=None) as (client, recordings):
        assert client.revision == server.agreed
        assert client.server_info is not None
        assert client.server_info.name == server.name
        assert client.server_capabilities is not None
        assert client.server_capabilities.tools is not None
    assert recordings[0].messages("client")[0]["method"] == "server/discover"
    assert len(recordings) == (1 if server.answers_probe else 2)  # the second is not asked


@pytest.mark.parametrize(
    ("server", "revision"),
    [
        pytest.param(server, revision, id=f"{server.id}-{revision}")
        for server in ONE_OF_EACH
        for revision in (*server.legacy, *([server.agreed] if server.agreed.is_modern else []))
    ],
    indirect=["server"],
)
async def test_a_revision_can_be_insisted_on(server: TheirServer, revision: Revision) -> None:
    """`revision=` leaves no choice, and all that follows is of that revision."""
    async with connected(server, revision=revision) as (client, _):
        assert client.revision == revision
        assert sorted([tool.name async for tool in client.list_tools()]) == sorted(server.tools)
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"


@every([server for server in ONE_OF_EACH if Revision.V2025_06_18 not in server.legacy])
async def test_a_server_that_wants_another_revision_is_refused(server: TheirServer) -> None:
    """2025-11-25, basic/lifecycle, "Version Negotiation": the client should disconnect."""
    with trio.fail_after(HANGS):
        async with recorded(server) as (place, _):
            with pytest.raises(RemoteProtocolError, match=Revision.V2024_11_05):
                async with trio_mcp.open_client(place, revision=Revision.V2025_06_18, limits=LIMITS):
                    pytest.fail("there is no common revision")
            assert server.transport != "stdio" or not has_children()


# Asking.


@every(SDK_SERVERS)
async def test_tools_are_listed_and_their_results_arrive_as_they_are(server: TheirServer) -> None:
    """2026-07-28, server/tools; server/utilities/pagination: the cursors are followed to the end."""
    async with connected(server) as (client, recordings):
        tools = {tool.name: tool async for tool in client.list_tools()}
        assert list(tools) == server.tools
        assert text_of(await client.call_tool("add", {"a": 20, "b": 22})) == "42"
        picture = await client.call_tool("picture")
        (image,) = (block for block in picture.content if isinstance(block, ImageContent))
        assert image.mime_type == "image/png"
        assert base64.b64decode(image.data).startswith(b"\x89PNG")
        if server.has_measure:
            assert tools["measure"].output_schema is not None
            measured = await client.call_tool("measure")
            assert measured.structured_content == {"celsius": 21.5}
    assert len(recordings[-1].messages("client", "tools/list")) == server.pages


@every(SDK_SERVERS)
async def test_failures_and_refusals_cost_one_request(server: TheirServer) -> None:
    """2026-07-28, server/tools, "Error Handling"; JSON-RPC 2.0, section 5.1."""
    async with connected(server) as (client, _):
        failure = await client.call_tool("fail")
        assert failure.is_error
        assert "fail" in text_of(failure)
        assert "nonsense" in await complaint_about(client.call_tool("nonsense"))
        if server.answers_unknown_methods:
            with pytest.raises(RequestError) as caught:
                await client.request(FOREIGN_METHOD)
            assert caught.value.code in {-32601, -32602}  # some find the parameters wrong instead
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"


# Listening.


@every(SDK_SERVERS)
async def test_progress_and_log_messages_come_in_order(server: TheirServer) -> None:
    """Promise 9: in wire order, and all progress before the result."""
    progress: list[Progress] = []
    send_log, receive_log = trio.open_memory_channel[LoggingMessageNotificationParams](3)
    async with connected(server, on_log=send_log.send) as (client, _):
        if server.serves_log_level:
            await client.set_log_level("info")
        assert text_of(await client.call_tool("count", {"to": 3}, on_progress=progress.append)) == "counted to 3"
        if server.shows_progress:
            assert progress == [Progress(1, 3), Progress(2, 3), Progress(3, 3)]
        messages = [await receive_log.receive() for _ in range(3)]
        assert [(message.level, message.data) for message in messages] == [
            ("info", "step 1"),
            ("info", "step 2"),
            ("info", "step 3"),
        ]


# Giving up.


@every([server for server in SDK_SERVERS if server.cancels and server.shows_progress])
async def test_a_deadline_cancels_their_handler_and_nothing_else(server: TheirServer) -> None:
    """Promise 1: the server hears of it exactly once, after the request; the session goes on."""
    async with connected(server) as (client, recordings):
        with trio.move_on_after(HANGS) as scope:

            def give_up(_: Progress) -> None:  # its handler runs now
                scope.deadline = trio.current_time()

            await client.call_tool("block", on_progress=give_up)
        assert scope.cancelled_caught
        assert text_of(await client.call_tool("ended")) == "a block ended"
    assert_given_up(recordings[-1], "block")


@every([server for server in SDK_SERVERS if not (server.cancels and server.shows_progress)])
async def test_giving_up_does_not_need_the_server(server: TheirServer) -> None:
    """Promises 1 and 3, with servers that go on regardless, or break down over a cancellation."""
    async with connected(server) as (client, recordings):
        with trio.move_on_after(0.3) as scope:
            await client.call_tool("block")
        assert scope.cancelled_caught
        assert trio.current_time() - scope.deadline < LIMITS.goodbye_timeout
    assert_given_up(recordings[-1], "block")


@every([server for server in ONE_OF_EACH if server.shows_progress])
async def test_leaving_in_the_middle_of_a_call_gives_it_up(server: TheirServer) -> None:
    """Promises 1, 7 and 8: the server is told, the caller too, and the end is as bounded as ever."""
    called = trio.Event()

    async def call(client: Client) -> None:
        with pytest.raises(trio.ClosedResourceError):
            await client.call_tool("block", on_progress=lambda _: called.set())

    async with trio.open_nursery() as nursery, connected(server) as (client, recordings):
        nursery.start_soon(call, client)
        await called.wait()
    assert_given_up(recordings[-1], "block")


# Processes.


@every([server for server in ONE_OF_EACH if server.transport == "stdio"])
async def test_what_a_server_writes_to_its_standard_error_is_passed_on(server: TheirServer) -> None:
    """2026-07-28, basic/transports/stdio: servers may log there; nothing stands between the two here."""
    lines: list[str] = []
    with trio.fail_after(HANGS):
        heard = target(server, stderr=lines.append)
        async with trio_mcp.open_client(heard, limits=LIMITS, revision=server.legacy[-1]) as client:
            assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
    assert "ready to serve" in lines
    assert not has_children()


# Servers that were not written for these tests.


@each_started(EVERY_EVERYTHING_2025)
async def test_everything_of_2025(everything: TheirServer) -> None:
    """The reference server as it was when there was one revision."""
    progress: list[Progress] = []
    async with connected(everything) as (client, _):
        assert "longRunningOperation" in [tool.name async for tool in client.list_tools()]
        assert "42" in text_of(await client.call_tool("add", {"a": 20, "b": 22}))
        await client.call_tool("longRunningOperation", {"duration": 0.1, "steps": 4}, on_progress=progress.append)
        assert progress == [Progress(step, 4) for step in range(1, 5)]
        picture = await client.call_tool("getTinyImage", {})  # this one wants them, if only empty
        assert [type(block) for block in picture.content] == [TextContent, ImageContent, TextContent]


@every(EVERY_EVERYTHING_2026)
async def test_everything_of_2026(server: TheirServer) -> None:
    """The reference server of today: every kind of content there is in a tool's result."""
    progress: list[Progress] = []
    send_log, receive_log = trio.open_memory_channel[LoggingMessageNotificationParams](1)
    async with connected(server, on_log=send_log.send) as (client, recordings):
        tools = {tool.name: tool async for tool in client.list_tools()}
        assert tools["get-structured-content"].output_schema is not None
        assert "42" in text_of(await client.call_tool("get-sum", {"a": 20, "b": 22}))
        weather = await client.call_tool("get-structured-content", {"location": "Chicago"})
        assert weather.structured_content == {
            "temperature": 36,
            "conditions": "Light rain / drizzle",
            "humidity": 82,
        }
        links = await client.call_tool("get-resource-links", {"count": 2})
        assert [type(block) for block in links.content] == [TextContent, ResourceLink, ResourceLink]
        embedded = await client.call_tool("get-resource-reference", {"resourceType": "Text", "resourceId": 1})
        assert EmbeddedResource in [type(block) for block in embedded.content]
        annotated = await client.call_tool(
            "get-annotated-message", {"messageType": "error", "includeImage": True}
        )
        priorities = [
            block.annotations.priority
            for block in annotated.content
            if isinstance(block, (TextContent, ImageContent)) and block.annotations is not None
        ]
        assert priorities == [1, 0.5]
        duration = {"duration": 0.1, "steps": 4}
        await client.call_tool("trigger-long-running-operation", duration, on_progress=progress.append)
        assert progress == [Progress(step, 4) for step in range(1, 5)]
        await client.set_log_level("debug")
        await client.call_tool("toggle-simulated-logging")
        assert (await receive_log.receive()).data
        with trio.move_on_after(0.2) as scope:
            await client.call_tool("trigger-long-running-operation", {"duration": 30, "steps": 3})
        assert scope.cancelled_caught
        assert text_of(await client.call_tool("echo", {"message": "still here"})) == "Echo: still here"
    assert len(recordings[-1].messages("client", "notifications/cancelled")) == 1


async def test_a_server_may_ask_while_it_is_asked() -> None:
    """2025-11-25, client/roots, client/sampling, client/elicitation: the answers reach the handler that asked."""

    async def list_roots(_: Mapping[str, Any]) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"roots": [{"uri": "file:///somewhere", "name": "somewhere"}]}

    async def sample(params: Mapping[str, Any]) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        asked = params["messages"][0]["content"]["text"]
        return {"role": "assistant", "content": {"type": "text", "text": f"heard: {asked}"}, "model": "none"}

    async def elicit(_: Mapping[str, Any]) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"action": "decline"}

    options = ClientOptions(
        capabilities=ClientCapabilities(
            roots=RootsCapability(), sampling=SamplingCapability(), elicitation=ElicitationCapability()
        ),
        request_handlers={
            "roots/list": list_roots,
            "sampling/createMessage": sample,
            "elicitation/create": elicit,
        },
    )
    async with connected(EVERYTHING_2025, **options) as (client, _):
        assert "why?" in text_of(await client.call_tool("sampleLLM", {"prompt": "why?"}))
    async with connected(EVERYTHING_2026, **options) as (client, _):
        assert "why?" in text_of(await client.call_tool("trigger-sampling-request", {"prompt": "why?"}))
        assert "file:///somewhere" in text_of(await client.call_tool("get-roots-list"))
        assert "decline" in text_of(await client.call_tool("trigger-elicitation-request"))


async def test_the_time_server() -> None:
    """The modern era, as its authors show it: structured results, and errors for the model to read."""
    async with connected(TIME) as (client, _):
        assert {tool.name async for tool in client.list_tools()} == {"get_current_time", "convert_time"}
        now = await client.call_tool("get_current_time", {"timezone": "Europe/Berlin"})
        assert json.loads(text_of(now))["timezone"] == "Europe/Berlin"
        assert now.structured_content == json.loads(text_of(now))
        noon = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "UTC"}
        converted = json.loads(text_of(await client.call_tool("convert_time", noon)))
        assert converted["time_difference"] == "-9.0h"
        mistake = await client.call_tool("get_current_time", {"timezone": "Mars/Olympus"})
        assert mistake.is_error
        assert "Mars/Olympus" in text_of(mistake)
        with pytest.raises(RequestError, match="nonsense") as caught:
            await client.call_tool("nonsense")
        assert caught.value.code == -32602


@pytest.mark.parametrize("revision", [None, Revision.V2025_11_25])
async def test_the_git_server(tmp_path: Path, revision: Revision | None) -> None:
    """Either era: a server that does things outside, many at once; each of its tools."""
    await trio.run_process(("git", "init", "--quiet", "--initial-branch", "main", str(tmp_path)))
    for setting in (("user.name", "Ada"), ("user.email", "ada@example.com")):
        await trio.run_process(("git", "-C", str(tmp_path), "config", *setting))
    (tmp_path / "file.txt").write_text("words\n")
    async with connected(GIT, revision=revision) as (client, _):
        used: set[str] = set()

        async def git(name: str, **arguments: object) -> str:
            used.add(f"git_{name}")
            result = await client.call_tool(f"git_{name}", {"repo_path": str(tmp_path), **arguments})
            assert not result.is_error, text_of(result)
            return text_of(result)

        assert "file.txt" in await git("status")
        await git("add", files=["file.txt"])
        assert "words" in await git("diff_staged")
        await git("commit", message="first")
        assert "first" in await git("log")
        assert "words" in await git("show", revision="HEAD")
        await git("create_branch", branch_name="other")
        await git("checkout", branch_name="other")
        assert "other" in await git("branch", branch_type="local")
        (tmp_path / "file.txt").write_text("other words\n")
        assert "other words" in await git("diff_unstaged")
        await git("add", files=["file.txt"])
        await git("reset")
        assert "no changes added" in await git("status")
        await git("add", files=["file.txt"])
        await git("commit", message="second")
        assert "other words" in await git("diff", target="main")
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(git, "status")
        assert used == {tool.name async for tool in client.list_tools()}
        with pytest.raises(AssertionError, match="no-such-revision"):
            await git("show", revision="no-such-revision")
