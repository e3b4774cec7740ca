"""The page client/sampling of every revision, between our client and our server."""

from __future__ import annotations

from typing import Any

import pytest
from meeting import ALL, TOOLS, Meeting, meet, text_of
from scripted_server import ScriptedServer

from trio_mcp import RequestError, Revision, open_client
from trio_mcp.types import CreateMessageResult, TextContent, ToolUseContent

SAMPLING = "client/sampling"
METHOD = "sampling/createMessage"
ANSWER = CreateMessageResult(
    role="assistant",
    content=TextContent(text="The capital of France is Paris."),
    model="claude-3-sonnet-20240307",
    stop_reason="endTurn",
)


@pytest.mark.spec(SAMPLING, "Capabilities")
@meet
async def test_the_capability_is_declared(meeting: Meeting) -> None:
    await meeting.client.call_tool("echo", {"text": "x"})
    expected: dict[str, Any] = {"tools": {}, "context": {}} if meeting.revision in TOOLS else {}
    assert meeting.declared()["sampling"] == expected


@pytest.mark.spec(SAMPLING, "Creating Messages")
@pytest.mark.spec(SAMPLING, "Messages")
@pytest.mark.spec(SAMPLING, "Text Content")
@pytest.mark.spec(SAMPLING, "Message Flow")
@pytest.mark.spec(SAMPLING, "System Prompt")
@pytest.mark.spec(SAMPLING, "Sampling Parameters")
@pytest.mark.spec(SAMPLING, "Result Fields")
@meet
async def test_a_model_is_asked(meeting: Meeting) -> None:
    meeting.host.replies = [ANSWER]
    result = await meeting.client.call_tool("sample", {"what": "text"})
    assert text_of(result) == "claude-3-sonnet-20240307 (endTurn): The capital of France is Paris."
    content = {"type": "text", "text": "What is the capital of France?"}
    (question,) = meeting.questions(METHOD)
    assert question == {
        "messages": [{"role": "user", "content": content}],
        "systemPrompt": "You are a helpful assistant.",
        "temperature": 0.1,
        "maxTokens": 100,
        "stopSequences": ["END"],
        "metadata": {"trace": "x"},
    }
    assert meeting.replies(METHOD) == [
        {
            "role": "assistant",
            "content": {"type": "text", "text": "The capital of France is Paris."},
            "model": "claude-3-sonnet-20240307",
            "stopReason": "endTurn",
        }
    ]
    (sampled,) = meeting.host.sampled
    assert sampled.max_tokens == 100


@pytest.mark.spec(SAMPLING, "Image Content")
@pytest.mark.spec(SAMPLING, "Audio Content")
@pytest.mark.spec(SAMPLING, "Messages")
@meet
async def test_pictures_and_sound_are_sent_or_said_in_words(meeting: Meeting) -> None:
    """One message may have several blocks from 2025-11-25 on; before, each becomes a message."""
    await meeting.client.call_tool("sample", {"what": "media"})
    (question,) = meeting.questions(METHOD)
    messages = question["messages"]
    if meeting.revision in TOOLS:
        (message,) = messages
        blocks = message["content"]
    else:
        blocks = [message["content"] for message in messages]
    assert {message["role"] for message in messages} == {"user"}
    text, image, audio = blocks
    assert text == {"type": "text", "text": "Look and listen"}
    assert image == {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
    if meeting.revision == "2024-11-05":
        assert audio["type"] == "text"
    else:
        assert audio == {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}


@pytest.mark.spec(SAMPLING, "Model Preferences")
@pytest.mark.spec(SAMPLING, "Capability Priorities")
@pytest.mark.spec(SAMPLING, "Model Hints")
@meet
async def test_preferences_are_sent(meeting: Meeting) -> None:
    await meeting.client.call_tool("sample", {"what": "preferences"})
    await meeting.client.call_tool("sample", {"what": "hints"})
    all_of_them, hints = (question["modelPreferences"] for question in meeting.questions(METHOD))
    assert all_of_them == {
        "hints": [{"name": "claude-3-sonnet"}, {"name": "claude"}],
        "costPriority": 0.3,
        "speedPriority": 0.8,
        "intelligencePriority": 0.5,
    }
    assert hints == {"hints": [{"name": "sonnet"}, {"name": "claude"}]}
    assert [one.model_preferences.hints[0].name for one in meeting.host.sampled] == ["claude-3-sonnet", "sonnet"]


@pytest.mark.spec(SAMPLING, "Context Inclusion")
@pytest.mark.spec(SAMPLING, "Capabilities")
@meet
async def test_context_is_asked_for_where_the_client_allows_it(meeting: Meeting) -> None:
    await meeting.client.call_tool("sample", {"what": "context"})
    (question,) = meeting.questions(METHOD)
    assert question["includeContext"] == "thisServer"
    if meeting.revision in TOOLS and meeting.binding == "memory":
        async with meeting.another(on_sample=meeting.host.sample) as other:
            code = -32021 if meeting.is_modern else -32600
            await meeting.refused(lambda: other.call_tool("sample", {"what": "context"}), code)
        assert len(meeting.host.sampled) == 1


# Tools.

PARIS = ToolUseContent(id="call_abc123", name="get_weather", input={"city": "Paris"})
LONDON = ToolUseContent(id="call_def456", name="get_weather", input={"city": "London"})
USES = CreateMessageResult(role="assistant", content=[PARIS, LONDON], model="m", stop_reason="toolUse")


@pytest.mark.spec(SAMPLING, "Tools in Sampling")
@pytest.mark.spec(SAMPLING, "Sampling with Tools")
@pytest.mark.spec(SAMPLING, "Multi-turn Tool Loop")
@pytest.mark.spec(SAMPLING, "Tool Result Messages")
@pytest.mark.spec(SAMPLING, "Tool Use and Result Balance")
@pytest.mark.spec(SAMPLING, "Message Roles")
@pytest.mark.spec(SAMPLING, "Parallel Tool Use")
@pytest.mark.spec(SAMPLING, "Result Fields")
@meet
async def test_a_model_uses_tools_until_it_is_done(meeting: Meeting) -> None:
    """Before 2025-11-25 there are no tools in sampling, and the server says so instead of asking."""
    meeting.host.replies = [USES, ANSWER]
    if meeting.revision not in TOOLS:
        error = await meeting.refused(lambda: meeting.client.call_tool("agent"), -32600)
        assert "tools" in error.message
        assert not meeting.questions(METHOD)
        return
    assert text_of(await meeting.client.call_tool("agent")) == "The capital of France is Paris."
    first, second = meeting.questions(METHOD)
    assert first["toolChoice"] == {"mode": "auto"}
    (tool,) = first["tools"]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("get_weather", ["city"])
    question, uses, results = second["messages"]
    assert question == first["messages"][0]
    paris = {"type": "tool_use", "id": "call_abc123", "name": "get_weather", "input": {"city": "Paris"}}
    london = {"type": "tool_use", "id": "call_def456", "name": "get_weather", "input": {"city": "London"}}
    assert uses == {"role": "assistant", "content": [paris, london]}
    assert results["role"] == "user"
    assert [(one["type"], one["toolUseId"]) for one in results["content"]] == [
        ("tool_result", "call_abc123"),
        ("tool_result", "call_def456"),
    ]
    assert results["content"][0]["content"] == [{"type": "text", "text": "Sunny in Paris"}]
    reply = meeting.replies(METHOD)[0]
    assert reply["stopReason"] == "toolUse"
    assert reply["content"] == [paris, london]


@pytest.mark.spec(SAMPLING, "Tool Choice Modes")
@pytest.mark.spec(SAMPLING, "Security Considerations")
@pytest.mark.parametrize("revision", TOOLS)
@meet
async def test_a_tool_choice_ends_the_loop(meeting: Meeting) -> None:
    meeting.host.replies = [USES, USES, ANSWER]
    await meeting.client.call_tool("agent", {"choice": "required"})
    modes = [question["toolChoice"]["mode"] for question in meeting.questions(METHOD)]
    assert modes == ["required", "required", "none"]


@pytest.mark.spec(SAMPLING, "Message Content Constraints")
@pytest.mark.spec(SAMPLING, "Tool Result Messages")
@pytest.mark.spec(SAMPLING, "Tool Use and Result Balance")
@pytest.mark.spec(SAMPLING, "Security Considerations")
@pytest.mark.parametrize("revision", TOOLS)
@meet
async def test_a_server_does_not_send_a_conversation_that_must_not_be(meeting: Meeting) -> None:
    for bad in ("missing", "mixed"):
        meeting.begin()
        meeting.host.replies = [USES, ANSWER]
        assert (await meeting.client.call_tool("agent", {"bad": bad})).is_error, bad
        assert len(meeting.questions(METHOD)) == 1, bad


def _conversation(*results: dict[str, Any]) -> dict[str, Any]:
    use: dict[str, Any] = {"type": "tool_use", "id": "1", "name": "x", "input": {}}
    uses = [use, {**use, "id": "2"}]
    said: list[dict[str, Any]] = [{"role": "user", "content": {"type": "text", "text": "?"}}]
    said += [{"role": "assistant", "content": uses}, {"role": "user", "content": list(results)}]
    return {"messages": said, "maxTokens": 9, "tools": [{"name": "x", "inputSchema": {"type": "object"}}]}


_RESULT: dict[str, Any] = {"type": "tool_result", "toolUseId": "1", "content": []}
_OTHER: dict[str, Any] = {**_RESULT, "toolUseId": "2"}


@pytest.mark.spec(SAMPLING, "Error Handling")
@pytest.mark.spec(SAMPLING, "Tool Result Messages")
@pytest.mark.spec(SAMPLING, "Tool Use and Result Balance")
@pytest.mark.parametrize("revision", [Revision.V2025_11_25])
@pytest.mark.parametrize(
    ("results", "told"),
    [((_RESULT,), "2"), ((_RESULT, _OTHER, {"type": "text", "text": "!"}), "mixed"), ((_RESULT, _OTHER), "")],
    ids=["missing", "mixed", "good"],
)
async def test_a_client_refuses_a_conversation_that_must_not_be(
    revision: Revision, results: tuple[dict[str, Any], ...], told: str
) -> None:
    """2025-11-25: -32602 for results that are missing or mixed with other content. The model is not asked."""
    asked: list[object] = []
    server = ScriptedServer(revision)

    def model(params: object) -> str:
        asked.append(params)
        return "fine"

    async with open_client(server, revision=revision, on_sample=model, sampling_tools=True):
        answer = await server.ask(METHOD, _conversation(*results))
    if told:
        assert answer["error"]["code"] == -32602
        assert told in answer["error"]["message"]
    else:
        assert answer["result"]["content"] == {"type": "text", "text": "fine"}
    assert len(asked) == (0 if told else 1)


# What goes wrong.


@pytest.mark.spec(SAMPLING, "Error Handling")
@pytest.mark.spec(SAMPLING, "Message Flow")
@meet
async def test_a_user_may_reject(meeting: Meeting) -> None:
    """In the legacy era the server is told, by -1; in the modern era it just hears nothing more."""
    meeting.host.replies = [RequestError(-1, "User rejected sampling request")]
    if meeting.is_modern:
        await meeting.refused(lambda: meeting.client.call_tool("sample", {"what": "text"}), -1)
        assert len(meeting.requests("tools/call")) == 1
    else:
        await meeting.turned_down("sample", {"what": "text"}, METHOD, "User rejected sampling request")
        assert meeting.replies(METHOD) == [{"code": -1, "message": "User rejected sampling request"}]


@pytest.mark.spec(SAMPLING, "Capabilities")
@pytest.mark.spec(SAMPLING, "Tools in Sampling")
@pytest.mark.parametrize("binding", ["memory"])
@pytest.mark.parametrize("has_model", [False, True])
@meet
async def test_a_client_is_not_asked_what_it_has_not_declared(meeting: Meeting, has_model: bool) -> None:
    code = -32021 if meeting.is_modern else -32600
    options: Any = {"on_sample": meeting.host.sample} if has_model else {}
    async with meeting.another(**options) as other:
        error = await meeting.refused(lambda: other.call_tool("agent"), code)
        if meeting.revision in TOOLS:
            assert error.data == {"requiredCapabilities": {"sampling": {"tools": {}}}}
        if not has_model:
            await meeting.refused(lambda: other.call_tool("sample", {"what": "text"}), code)
    assert not meeting.host.sampled


@pytest.mark.spec(SAMPLING, "Security Considerations", revisions=ALL)
@pytest.mark.spec(SAMPLING, "Result Fields")
@meet
async def test_an_invalid_answer_is_refused(meeting: Meeting) -> None:
    """Both sides look at what they get: here the client at its own handler's."""
    meeting.host.replies = [5]
    if meeting.is_modern:
        with pytest.raises(TypeError, match="on_sample"):
            await meeting.client.call_tool("sample", {"what": "text"})
    else:
        await meeting.turned_down("sample", {"what": "text"}, METHOD, "internal error")
        (reply,) = meeting.replies(METHOD)
        assert reply["code"] == -32603
