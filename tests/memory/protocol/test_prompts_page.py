"""The page server/prompts of every revision, between our client and our server."""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import Any

import pytest
from meeting import Meeting, meet

from trio_mcp import Server, open_client
from trio_mcp.types import TextContent

PROMPTS = "server/prompts"


async def prompt(meeting: Meeting, name: str) -> dict[str, Any]:
    """Return a prompt as it was listed on the wire."""
    assert [one.name async for one in meeting.client.list_prompts()]
    (found,) = [one for one in meeting.result("prompts/list")["prompts"] if one["name"] == name]
    listed: dict[str, Any] = found
    return listed


@pytest.mark.spec(PROMPTS, "Capabilities")
@pytest.mark.spec(PROMPTS, "Implementation Considerations")
@meet
async def test_the_capability_is_declared(meeting: Meeting) -> None:
    capabilities = (await meeting.client.discover()).capabilities
    assert capabilities.prompts is not None
    assert capabilities.prompts.list_changed is True
    async with open_client(Server("bare"), revision=meeting.revision) as other:
        assert (await other.discover()).capabilities.prompts is None
        await meeting.refused(lambda: other.get_prompt("gallery"), -32601)


@pytest.mark.spec(PROMPTS, "Listing Prompts")
@pytest.mark.spec(PROMPTS, "Prompt")
@pytest.mark.spec(PROMPTS, "Message Flow")
@meet
async def test_a_prompt_is_described_as_far_as_the_revision_can(meeting: Meeting) -> None:
    listed = await prompt(meeting, "code_review")
    code = {"name": "code", "description": "The code to review.", "required": True}
    language = {"name": "language", "description": "What it is written in.", "required": False}
    expected: dict[str, Any] = {
        "name": "code_review",
        "description": "Ask for a review.",
        "arguments": [code, language],
    }
    if meeting.revision >= "2025-06-18":
        expected["title"] = "Request code review"
    if meeting.revision >= "2025-11-25":
        icon = {"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}
        expected["icons"] = [icon]
    assert listed == expected
    assert "arguments" not in await prompt(meeting, "gallery")


@pytest.mark.spec(PROMPTS, "Getting a Prompt")
@pytest.mark.spec(PROMPTS, "PromptMessage")
@pytest.mark.spec(PROMPTS, "Text Content")
@pytest.mark.spec(PROMPTS, "Message Flow")
@meet
async def test_a_prompt_is_filled_in(meeting: Meeting) -> None:
    result = await meeting.client.get_prompt("code_review", {"code": "x = 1", "language": "rust"})
    assert meeting.params("prompts/get") == {
        "name": "code_review",
        "arguments": {"code": "x = 1", "language": "rust"},
    }
    text = "Please review this rust code:\nx = 1"
    message = {"role": "user", "content": {"type": "text", "text": text}}
    assert meeting.result("prompts/get") == {"description": "Ask for a review.", "messages": [message]}
    assert result.messages[0].content == TextContent(text=text)


@pytest.mark.spec(PROMPTS, "PromptMessage")
@pytest.mark.spec(PROMPTS, "Text Content")
@pytest.mark.spec(PROMPTS, "Image Content")
@pytest.mark.spec(PROMPTS, "Audio Content")
@pytest.mark.spec(PROMPTS, "Resource Links")
@pytest.mark.spec(PROMPTS, "Embedded Resources")
@meet
async def test_every_kind_of_content_arrives_or_is_said_in_words(meeting: Meeting) -> None:
    await meeting.client.get_prompt("gallery")
    messages = meeting.result("prompts/get")["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant", "user", "user", "user"]
    text, image, audio, link, embedded = (one["content"] for one in messages)
    assert text["text"] == "Look:"
    assert text["annotations"]["audience"] == ["user"]
    assert image == {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
    if meeting.revision >= "2025-03-26":
        assert audio == {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
    else:
        assert audio["type"] == "text"
    if meeting.revision >= "2025-06-18":  # its schema has links here, whatever its page says
        assert link == {"type": "resource_link", "uri": "note://today", "name": "today", "mimeType": "text/plain"}
    else:
        assert link["type"] == "text"
        assert "note://today" in link["text"]
    resource = {"uri": "note://today", "mimeType": "text/plain", "text": "a note"}
    assert embedded == {"type": "resource", "resource": resource}


@pytest.mark.spec(PROMPTS, "Getting a Prompt")
@meet
async def test_a_prompt_may_ask_its_client(meeting: Meeting) -> None:
    """In the modern era with a result that requires input; before 2025-06-18 nobody can be asked."""
    if meeting.revision < "2025-06-18":
        error = await meeting.refused(lambda: meeting.client.get_prompt("personal"), -32600)
        assert "elicitation" in error.message
        return
    result = await meeting.client.get_prompt("personal")
    assert result.messages[0].content == TextContent(text="for octocat")
    assert len(meeting.requests("prompts/get")) == (2 if meeting.is_modern else 1)


@pytest.mark.spec(PROMPTS, "List Changed Notification")
@pytest.mark.spec(PROMPTS, "Message Flow")
@meet
async def test_clients_are_notified_when_the_list_changes(meeting: Meeting) -> None:
    client = meeting.client
    async with client.listen(prompts_list_changed=True) as events:
        await client.call_tool("change", {"kind": "prompts"})
        await anext(events)
        assert len(meeting.notes("notifications/prompts/list_changed")) == 1
        assert "extra" in [one.name async for one in client.list_prompts()]
        await client.call_tool("change", {"kind": "prompts"})
        await anext(events)
    assert "extra" not in [one.name async for one in client.list_prompts()]


@pytest.mark.spec(PROMPTS, "Error Handling")
@pytest.mark.spec(PROMPTS, "Implementation Considerations")
@pytest.mark.spec(PROMPTS, "Security")
@meet
async def test_what_cannot_be_filled_in_is_refused_by_name(meeting: Meeting, subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, dict[str, str], str]] = [
        ("no_such_prompt", {}, "no_such_prompt"),
        ("code_review", {}, "code"),
        ("code_review", {"code": "x", "language": "klingon"}, "language"),
        ("code_review", {"code": "x", "more": "y"}, "more"),
    ]
    for name, arguments, told in rows:
        with subtests.test(name=name, arguments=arguments):
            error = await meeting.refused(partial(meeting.client.get_prompt, name, arguments), -32602)
            assert told in error.message


@pytest.mark.spec(PROMPTS, "Error Handling")
@pytest.mark.spec(PROMPTS, "Security")
@meet
async def test_a_failing_prompt_is_an_internal_error_that_shows_nothing(
    meeting: Meeting, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL, "trio_mcp"):
        await meeting.refused(lambda: meeting.client.get_prompt("broken_prompt"), -32603)
    assert "secret" not in json.dumps(meeting.received)
