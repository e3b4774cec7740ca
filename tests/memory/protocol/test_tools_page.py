"""The page server/tools of every revision, between our client and our server."""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import Any

import pytest
from meeting import ALL, MODERN, Meeting, meet, text_of

from trio_mcp import RemoteProtocolError, Revision, Server, open_client

TOOLS = "server/tools"
STRUCTURED = Revision.V2025_06_18
PNG_BASE64 = "iVBORw0KGgoAAAANSUhEUg=="


async def tool(meeting: Meeting, name: str) -> dict[str, Any]:
    """Return a tool as it was listed on the wire."""
    pages = [page async for page in meeting.client.list_tools().pages()]
    assert pages
    ids = [message["id"] for message in meeting.requests("tools/list")]
    answers = [m["result"] for m in meeting.received if m.get("id") in ids and "result" in m]
    (found,) = [one for answer in answers for one in answer["tools"] if one["name"] == name]
    listed: dict[str, Any] = found
    return listed


@pytest.mark.spec(TOOLS, "Capabilities")
@meet
async def test_the_capability_is_declared(meeting: Meeting) -> None:
    capabilities = (await meeting.client.discover()).capabilities
    assert capabilities.tools is not None
    assert capabilities.tools.list_changed is True
    bare = Server("bare")
    async with open_client(bare, revision=meeting.revision) as other:
        assert (await other.discover()).capabilities.tools is None
        await meeting.refused(lambda: other.call_tool("echo"), -32601)


@pytest.mark.spec(TOOLS, "Listing Tools")
@pytest.mark.spec(TOOLS, "Capabilities")
@pytest.mark.spec(TOOLS, "Message Flow")
@meet
async def test_tools_are_listed_by_pages_and_always_in_the_same_order(meeting: Meeting) -> None:
    first = [one.name async for one in meeting.client.list_tools()]
    assert len(meeting.requests("tools/list")) > 1
    assert meeting.params("tools/list").keys() == {"cursor"}
    again = [one.name async for one in meeting.client.list_tools(fresh=True)]
    assert first == again
    assert len(set(first)) == len(first)
    assert {"echo", "weather", "admin.tools.list"} <= set(first)
    result = meeting.result("tools/list")
    assert "nextCursor" not in result
    if meeting.is_modern:
        assert result["ttlMs"] == 0
        assert result["cacheScope"] == "private"
    else:
        assert result.keys() == {"tools"}


@pytest.mark.spec(TOOLS, "Tool")
@pytest.mark.spec(TOOLS, "Tool with default 2020-12 schema")
@meet
async def test_a_tool_is_described_as_far_as_the_revision_can(meeting: Meeting) -> None:
    listed = await tool(meeting, "echo")
    schema = listed.pop("inputSchema")
    assert schema["type"] == "object"
    assert schema["properties"] == {"text": {"type": "string", "description": "What to say."}}
    assert schema["required"] == ["text"]
    assert schema.get("$schema", "2020-12").count("2020-12") == 1
    expected: dict[str, Any] = {"name": "echo", "description": "Say it back."}
    if meeting.revision >= "2025-03-26":
        expected["annotations"] = {"readOnlyHint": True}
    if meeting.revision >= "2025-06-18":
        expected["title"] = "Echo"
    if meeting.revision >= "2025-11-25":
        icon = {"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}
        expected["icons"] = [icon]
    assert listed == expected


@pytest.mark.spec(TOOLS, "Tool with explicit draft-07 schema")
@meet
async def test_a_schema_of_an_older_draft_is_sent_to_the_letter_and_enforced(meeting: Meeting) -> None:
    schema = (await tool(meeting, "draft_07"))["inputSchema"]
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert text_of(await meeting.client.call_tool("draft_07", {"a": 1, "b": 2})) == "3"
    assert (await meeting.client.call_tool("draft_07", {"a": 1})).is_error


@pytest.mark.spec(TOOLS, "Tool with no parameters")
@pytest.mark.spec(TOOLS, "Tool Names")
@meet
async def test_a_tool_without_parameters_takes_none(meeting: Meeting) -> None:
    assert (await tool(meeting, "admin.tools.list"))["inputSchema"] == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    assert text_of(await meeting.client.call_tool("admin.tools.list")) == "nothing taken"
    assert text_of(await meeting.client.call_tool("admin.tools.list", {"x": 1})) == "nothing taken"
    await meeting.refused(lambda: meeting.client.call_tool("Admin.Tools.List"), -32602)


@pytest.mark.spec(TOOLS, "Tool Names", revisions=ALL)
def test_names_that_tools_should_not_have_are_refused(subtests: pytest.Subtests) -> None:
    for name in ("", "a b", "a,b", "ä", "x" * 129):
        with subtests.test(name=name), pytest.raises(ValueError, match="name"):
            Server("bare").tool(name=name)(lambda: "x")


@pytest.mark.spec(TOOLS, "x-mcp-header")
@meet
async def test_a_parameter_says_in_which_header_it_also_travels(meeting: Meeting) -> None:
    """Over these bindings nothing comes of it; older clients take it for an unknown keyword."""
    region = (await tool(meeting, "route"))["inputSchema"]["properties"]["region"]
    assert region == {"type": "string", "description": "Where to.", "x-mcp-header": "Region"}
    result = await meeting.client.call_tool("route", {"region": "us-west1", "statement": "go"})
    assert text_of(result) == "go in us-west1"


@pytest.mark.spec(TOOLS, "Calling Tools")
@pytest.mark.spec(TOOLS, "Text Content")
@pytest.mark.spec(TOOLS, "Message Flow")
@meet
async def test_a_call_is_a_request_with_name_and_arguments(meeting: Meeting) -> None:
    result = await meeting.client.call_tool("echo", {"text": "hello"})
    assert text_of(result) == "hello"
    assert not result.is_error
    assert meeting.params("tools/call") == {"name": "echo", "arguments": {"text": "hello"}}
    assert meeting.result("tools/call") == {"content": [{"type": "text", "text": "hello"}]}


ANNOTATIONS = {"audience": ["user"], "priority": 0.9}
SHOWN = {
    "text": {"type": "text", "text": "a text"},
    "image": {"type": "image", "data": PNG_BASE64, "mimeType": "image/png"},
    "audio": {"type": "audio", "data": "UklGRiQAAABXQVZFZm10IA==", "mimeType": "audio/wav"},
    "embedded": {
        "type": "resource",
        "resource": {"uri": "note://today", "mimeType": "text/plain", "text": "a note"},
    },
    "link": {
        "type": "resource_link",
        "uri": "note://today",
        "name": "today",
        "description": "Of today.",
        "mimeType": "text/plain",
    },
    "blob": {
        "type": "resource",
        "resource": {"uri": "picture://logo", "mimeType": "image/png", "blob": "iVBORw=="},
    },
}


@pytest.mark.spec(TOOLS, "Tool Result")
@pytest.mark.spec(TOOLS, "Text Content")
@pytest.mark.spec(TOOLS, "Image Content")
@pytest.mark.spec(TOOLS, "Audio Content")
@pytest.mark.spec(TOOLS, "Resource Links")
@pytest.mark.spec(TOOLS, "Embedded Resources")
@pytest.mark.spec("server/resources", "Annotations")
@meet
async def test_every_kind_of_content_arrives_or_is_said_in_words(
    meeting: Meeting, subtests: pytest.Subtests
) -> None:
    """2024-11-05 has no sound, and nothing before 2025-06-18 has links: it gets text in their place."""
    for what in SHOWN:
        with subtests.test(what=what):
            await look_at(meeting, what)


async def look_at(meeting: Meeting, what: str) -> None:
    """Have something shown, and compare what has come."""
    result = await meeting.client.call_tool("show", {"what": what})
    (block,) = meeting.result("tools/call")["content"]
    since = {"audio": "2025-03-26", "link": "2025-06-18"}.get(what, "2024-11-05")
    annotations = block.pop("annotations", None)
    if meeting.revision < since:
        assert block["type"] == "text"
        assert what.replace("link", "resource link") in block["text"]
        return
    assert block == SHOWN[what]
    assert result.content[0].type == block["type"]
    if what in {"text", "image", "embedded", "link"}:
        modified = {"lastModified": "2025-01-12T15:00:58Z"} if meeting.revision >= "2025-06-18" else {}
        assert annotations == {**ANNOTATIONS, **modified}


@pytest.mark.spec(TOOLS, "Structured Content")
@pytest.mark.spec(TOOLS, "Output Schema")
@pytest.mark.spec(TOOLS, "Tool Result")
@meet
async def test_structured_output_is_also_sent_as_text_and_fits_the_schema(meeting: Meeting) -> None:
    listed = await tool(meeting, "weather")
    result = await meeting.client.call_tool("weather", {"city": "New York"})
    expected = {"temperature": 22.5, "conditions": "Partly cloudy in New York"}
    wire = meeting.result("tools/call")
    assert json.loads(text_of(result)) == expected
    if meeting.revision < STRUCTURED:
        assert "outputSchema" not in listed
        assert "structuredContent" not in wire
        return
    schema = listed["outputSchema"]
    assert schema["properties"]["temperature"] == {"type": "number", "description": "In degrees Celsius."}
    assert schema["required"] == ["temperature", "conditions"]
    assert wire["structuredContent"] == expected


@pytest.mark.spec(TOOLS, "Structured Content")
@pytest.mark.spec(TOOLS, "Output Schema")
@meet
async def test_an_array_is_structured_and_older_clients_get_it_in_an_object(meeting: Meeting) -> None:
    """From 2026-07-28 on any JSON value may be structured; before, only objects."""
    listed = await tool(meeting, "users")
    await meeting.client.call_tool("users")
    wire = meeting.result("tools/call")
    expected = [{"temperature": 1, "conditions": "one"}, {"temperature": 2, "conditions": "two"}]
    assert json.loads(wire["content"][0]["text"]) == expected
    if meeting.is_modern:
        assert listed["outputSchema"]["type"] == "array"
        assert wire["structuredContent"] == expected
    elif meeting.revision >= STRUCTURED:
        assert listed["outputSchema"]["type"] == "object"
        assert wire["structuredContent"] == {"result": expected}


@pytest.mark.spec(TOOLS, "Output Schema")
@pytest.mark.parametrize("revision", [one for one in ALL if one >= STRUCTURED])
@meet
async def test_a_result_that_breaks_its_schema_is_not_sent(meeting: Meeting) -> None:
    """The server must conform; it does not let its own handler break the promise."""
    result = await meeting.client.call_tool("broken_promise")
    assert result.is_error
    assert "structuredContent" not in meeting.result("tools/call")


@pytest.mark.spec(TOOLS, "Output Schema")
@pytest.mark.parametrize("revision", [one for one in ALL if one >= STRUCTURED])
async def test_a_client_refuses_a_result_that_breaks_the_schema(revision: Revision) -> None:
    liar = Server("liar")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    @liar.request_handler("tools/list")
    async def _list(params: Any, ctx: Any) -> dict[str, Any]:
        listed = {"name": "lie", "inputSchema": {"type": "object"}, "outputSchema": schema}
        return {"tools": [listed], "ttlMs": 0, "cacheScope": "private"}

    @liar.request_handler("tools/call")
    async def _call(params: Any, ctx: Any) -> dict[str, Any]:
        return {"content": [], "structuredContent": {"n": "x"}}

    async with open_client(liar, revision=revision) as client:
        assert [one.name async for one in client.list_tools()] == ["lie"]
        with pytest.raises(RemoteProtocolError, match="n"):
            await client.call_tool("lie")


@pytest.mark.spec(TOOLS, "Input Required Tool Results")
@pytest.mark.parametrize("revision", [MODERN])
@meet
async def test_a_tool_that_needs_input_is_called_again(meeting: Meeting) -> None:
    result = await meeting.client.call_tool("ask", {"form": "name"})
    assert text_of(result) == "accept: 'octocat'"
    first, second = meeting.requests("tools/call")
    assert first["id"] != second["id"]
    (required,) = [m["result"] for m in meeting.received if m.get("id") == first["id"]]
    assert required["resultType"] == "input_required"
    ((key, question),) = required["inputRequests"].items()
    assert question["method"] == "elicitation/create"
    again = meeting.params("tools/call")
    assert again == {
        "name": "ask",
        "arguments": {"form": "name"},
        "inputResponses": {key: {"action": "accept", "content": {"value": "octocat"}}},
        "requestState": required["requestState"],
    }


@pytest.mark.spec(TOOLS, "Stateful Tools")
@meet
async def test_a_state_is_kept_under_a_handle_in_any_connection(meeting: Meeting) -> None:
    first = json.loads(text_of(await meeting.client.call_tool("baskets")))
    more = await meeting.client.call_tool("baskets", {"basket": first["basket"], "item": "apple"})
    assert json.loads(text_of(more))["items"] == ["apple"]
    lost = await meeting.client.call_tool("baskets", {"basket": "bsk_unknown"})
    assert lost.is_error
    assert text_of(lost) == "There is no basket bsk_unknown. Make a new one."


# What goes wrong.


@pytest.mark.spec(TOOLS, "Error Handling")
@meet
async def test_an_unknown_tool_is_an_error_of_the_protocol(meeting: Meeting) -> None:
    error = await meeting.refused(lambda: meeting.client.call_tool("invalid_tool_name"), -32602)
    assert "invalid_tool_name" in error.message
    assert meeting.answer("tools/call")["error"]["code"] == -32602


@pytest.mark.spec(TOOLS, "Error Handling")
@meet
async def test_a_malformed_call_is_an_error_of_the_protocol(meeting: Meeting, subtests: pytest.Subtests) -> None:
    rows: list[dict[str, object]] = [{}, {"name": 5}, {"name": "echo", "arguments": []}]
    for params in rows:
        with subtests.test(params=params):
            await meeting.refused(partial(meeting.client.request, "tools/call", params), -32602)


@pytest.mark.spec(TOOLS, "Error Handling")
@pytest.mark.spec(TOOLS, "Security Considerations")
@meet
async def test_arguments_that_cannot_be_are_told_to_the_model(
    meeting: Meeting, subtests: pytest.Subtests
) -> None:
    """Validated by the schema or by the tool, it is a result that the model can act on (SEP-1303)."""
    rows: list[tuple[dict[str, Any], str]] = [
        ({}, "day"),
        ({"day": "tomorrow"}, "day"),
        ({"day": "2025-09-01", "seats": 10}, "seats"),
        ({"day": "2025-09-01", "seats": "two"}, "seats"),
        ({"day": "2025-08-01"}, "Invalid departure date: must be in the future. Current date is 08/08/2025."),
    ]
    for arguments, told in rows:
        with subtests.test(arguments=arguments):
            result = await meeting.client.call_tool("depart", arguments)
            assert result.is_error
            wire = meeting.result("tools/call")
            assert wire["isError"] is True
            assert told in wire["content"][0]["text"]


@pytest.mark.spec(TOOLS, "Error Handling")
@pytest.mark.spec(TOOLS, "Security Considerations")
@meet
async def test_a_failing_tool_shows_nothing_of_the_server(
    meeting: Meeting, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL, "trio_mcp"):
        result = await meeting.client.call_tool("fail", {"kind": "bug"})
    assert result.is_error
    assert "secret" not in json.dumps(meeting.received)
    error = await meeting.refused(lambda: meeting.client.call_tool("fail", {"kind": "protocol"}), -32050)
    assert error.data == {"why": "a test"}
