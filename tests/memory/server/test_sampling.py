"""Asking the client's model, end to end, in every revision.

Spec: client/sampling of all revisions. That the modern era's questions travel inside results is another matter; here
the modern era is asked for what does not depend on that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio
import trio.testing
from asked import ABLE, LEGACY, AskedClient, FakeAsker, ask_in_tool
from eras import LEGACY_ENDS
from inside_core import Agreement
from inside_server import AskableClient, AskingContext, conversation
from tape import Tape

from trio_mcp import (
    CapabilityMissing,
    Client,
    Context,
    Elicitation,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    Revision,
    Server,
    open_client,
)
from trio_mcp.types import (
    AudioContent,
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitationCapability,
    ImageContent,
    ModelHint,
    ModelPreferences,
    SamplingCapability,
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)

MODERN = Revision.V2026_07_28
WITH_TOOLS = Revision.V2025_11_25
PARIS = {
    "role": "assistant",
    "content": {"type": "text", "text": "Paris"},
    "model": "claude-3-sonnet-20240307",
    "stopReason": "endTurn",
}
WEATHER = Tool(name="get_weather", input_schema={"type": "object", "properties": {"city": {"type": "string"}}})
USE = ToolUseContent(id="c1", name="get_weather", input={"city": "Paris"})
USE_2 = ToolUseContent(id="c2", name="get_weather", input={"city": "London"})
RESULT = ToolResultContent(tool_use_id="c1", content=[TextContent(text="18")])
RESULT_2 = ToolResultContent(tool_use_id="c2", content=[TextContent(text="15")])
PICTURE = ImageContent(data="aGk=", mime_type="image/png")
SOUND = AudioContent(data="aGk=", mime_type="audio/wav")


def user(*blocks: Any) -> SamplingMessage:
    return SamplingMessage(role="user", content=blocks[0] if len(blocks) == 1 else blocks)


def assistant(*blocks: Any) -> SamplingMessage:
    return SamplingMessage(role="assistant", content=blocks[0] if len(blocks) == 1 else blocks)


ASK, SAY = user(TextContent(text="?")), assistant(TextContent(text="!"))


# What is asked, and what comes back.


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_question_to_the_model_carries_all_it_was_given(revision: Revision) -> None:
    """client/sampling, "Creating Messages": every parameter of the first revision, in each."""
    client = AskedClient(PARIS)

    async def ask(ctx: Context[Any]) -> CreateMessageResult:
        return await ctx.sample(
            "What is the capital of France?",
            max_tokens=100,
            system_prompt="You are a helpful assistant.",
            model_preferences=ModelPreferences(hints=[ModelHint(name="claude-3-sonnet")], speed_priority=0.5),
            temperature=0.1,
            stop_sequences=["\n"],
            include_context="thisServer",
            metadata={"trace": 1},
        )

    result = await ask_in_tool(client, revision, ask)
    assert result.text == "Paris"
    assert (result.model, result.stop_reason) == ("claude-3-sonnet-20240307", "endTurn")
    assert client.questions == [
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}],
            "maxTokens": 100,
            "systemPrompt": "You are a helpful assistant.",
            "modelPreferences": {"hints": [{"name": "claude-3-sonnet"}], "speedPriority": 0.5},
            "temperature": 0.1,
            "stopSequences": ["\n"],
            "includeContext": "thisServer",
            "metadata": {"trace": 1},
        }
    ]


async def test_the_modern_era_is_asked_the_same() -> None:
    """2026-07-28, client/sampling; the way is another's business."""
    asker = FakeAsker({**PARIS, "content": [{"type": "text", "text": "Pa"}, {"type": "text", "text": "ris"}]})
    result = await sampled_by(asker, "?", tools=[WEATHER], tool_choice=ToolChoice(mode="auto"))
    assert result.text == "Pa\nris"
    ((method, params),) = asker.asked
    assert method == "sampling/createMessage"
    assert isinstance(params, CreateMessageRequestParams)
    assert params.tools == (WEATHER,)


async def sampled_by(
    asker: FakeAsker, messages: Any, *, capabilities: ClientCapabilities = ABLE, **options: Any
) -> CreateMessageResult:
    from inside_server import sample

    given: dict[str, Any] = dict.fromkeys(
        (
            "system_prompt", "model_preferences", "temperature", "stop_sequences", "include_context", "metadata",
            "tools", "tool_choice", "on_progress",
        )
    )  # fmt: skip
    given.update({"max_tokens": 9, "find_tool": {"get_weather": WEATHER}.__getitem__}, **options)
    return await sample(AskableClient(MODERN, capabilities, asker), messages, **given)


@pytest.mark.parametrize(
    ("wanted", "hints"),
    [
        ("sonnet", [ModelHint(name="sonnet")]),
        (["sonnet", ModelHint(name="claude")], [ModelHint(name="sonnet"), ModelHint(name="claude")]),
    ],
)
async def test_a_model_can_be_wished_for_by_name(wanted: Any, hints: list[ModelHint]) -> None:
    """client/sampling, "Model Hints": in order of preference."""
    asker = FakeAsker(PARIS)
    await sampled_by(asker, "?", model_preferences=wanted)
    params: Any = asker.asked[0][1]
    assert params.model_preferences == ModelPreferences(hints=hints)


def test_the_text_of_an_answer_is_all_its_text() -> None:
    """Whatever else there is; and the tools that the model wants are found as easily."""
    result = CreateMessageResult(
        role="assistant", model="m", content=(TextContent(text="a"), PICTURE, USE, TextContent(text="b"), USE_2)
    )
    assert result.text == "a\nb"
    assert result.tool_uses == (USE, USE_2)
    single = CreateMessageResult(role="assistant", model="m", content=USE)
    assert (single.text, single.blocks, single.tool_uses) == ("", (USE,), (USE,))


@pytest.mark.parametrize("revision", LEGACY)
async def test_pictures_are_sent_to_all_and_sounds_to_those_that_know_them(revision: Revision) -> None:
    """2024-11-05, client/sampling has text and images; 2025-03-26 brought audio, which is told in words before."""
    client = AskedClient({**PARIS, "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}})
    result = await ask_in_tool(client, revision, lambda ctx: ctx.sample([PICTURE, SOUND], max_tokens=1))
    assert result.blocks == (PICTURE,)
    messages = client.questions[0]["messages"]
    blocks = [
        block for m in messages for block in (m["content"] if isinstance(m["content"], list) else [m["content"]])
    ]
    assert blocks[0] == {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    if revision >= Revision.V2025_03_26:
        assert blocks[1] == {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
    else:
        assert blocks[1] == {"type": "text", "text": "[audio: audio/wav, 2 bytes]"}
    assert len(messages) == (1 if revision >= WITH_TOOLS else 2), "blocks side by side came with 2025-11-25"


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_an_invalid_answer_is_the_clients_fault(subtests: pytest.Subtests, revision: Revision) -> None:
    """The error names the member."""

    async def check(answer: Mapping[str, Any], words: str) -> None:
        with pytest.raises(RemoteProtocolError, match=f"sampling/createMessage.*{words}"):
            await ask_in_tool(AskedClient(answer), revision, lambda ctx: ctx.sample("?", max_tokens=1))

    rows: list[tuple[Mapping[str, Any], str]] = [
        ({}, "role"),
        ({**PARIS, "role": "system"}, "role"),
        ({**PARIS, "model": None}, "model"),
        ({**PARIS, "content": "Paris"}, "content"),
        ({**PARIS, "content": {"type": "text"}}, "content.text"),
    ]
    for answer, words in rows:
        with subtests.test(answer=answer, words=words):
            await check(answer, words)


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_user_who_says_no_is_an_error_to_be_caught(revision: Revision) -> None:
    """client/sampling, "Error Handling": -1, user rejected sampling request."""
    client = AskedClient(RequestError(-1, "User rejected sampling request"))
    with pytest.raises(RequestError) as caught:
        await ask_in_tool(client, revision, lambda ctx: ctx.sample("?", max_tokens=1))
    assert caught.value.code == -1


async def test_what_cannot_be_meant_is_refused_before_it_is_sent(subtests: pytest.Subtests) -> None:
    """With the name of what is wrong."""
    rows: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"max_tokens": 0}, ValueError, "max_tokens must be at least 1"),
        ({"max_tokens": True}, TypeError, "max_tokens must be a whole number"),
        ({"max_tokens": 1.5}, TypeError, "max_tokens must be a whole number"),
        ({"temperature": math.nan}, ValueError, "temperature must be a finite number"),
        ({"tool_choice": "required"}, ValueError, "tool_choice is given without tools"),
        ({"tools": "get_weather"}, TypeError, "tools takes .* in a list, not str: write tools="),
        ({"tools": [WEATHER, "get_weather"]}, ValueError, "two tools called 'get_weather'"),
        ({"stop_sequences": "\n"}, TypeError, "stop_sequences"),
    ]
    for options, error, words in rows:
        with subtests.test(options=options, error=error, words=words):
            asker = FakeAsker(PARIS)
            with pytest.raises(error, match=words):
                await sampled_by(asker, "?", **options)
            assert asker.asked == []


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_priorities_are_between_0_and_1(revision: Revision) -> None:
    """client/sampling, "Capability Priorities": normalized."""
    client = AskedClient(PARIS)
    wish = ModelPreferences(cost_priority=2)
    with pytest.raises(LocalProtocolError, match="costPriority"):
        await ask_in_tool(client, revision, lambda ctx: ctx.sample("?", max_tokens=1, model_preferences=wish))
    assert client.questions == []


# Conversations.


def test_a_conversation_is_written_as_is_convenient(subtests: pytest.Subtests) -> None:
    """Text and content are the user's; side by side they are one message; results of tools stay apart."""
    rows: list[tuple[Any, tuple[SamplingMessage, ...]]] = [
        ("?", (ASK,)),
        (TextContent(text="?"), (ASK,)),
        (ASK, (ASK,)),
        (["?"], (ASK,)),
        (["?", PICTURE], (user(TextContent(text="?"), PICTURE),)),
        ([ASK, SAY, "?"], (ASK, SAY, ASK)),
        ((part for part in ["?", SAY, PICTURE, SOUND]), (ASK, SAY, user(PICTURE, SOUND))),
        (["?", CreateMessageResult(role="assistant", model="m", content=TextContent(text="!"))], (ASK, SAY)),
        (CreateMessageResult(role="assistant", model="m", content=TextContent(text="!")), (SAY,)),
        (
            ["?", CreateMessageResult(role="assistant", model="m", content=USE), RESULT, "?"],
            (ASK, assistant(USE), user(RESULT), ASK),
        ),
        (["?", assistant(USE, USE_2), RESULT_2, RESULT], (ASK, assistant(USE, USE_2), user(RESULT_2, RESULT))),
    ]
    for said, messages in rows:
        with subtests.test(said=said, messages=messages):
            assert conversation(said) == messages


def test_what_is_no_conversation_is_refused(subtests: pytest.Subtests) -> None:
    """With the name of what is wrong."""
    rows: list[tuple[Any, type[Exception], str]] = [
        ([], ValueError, "at least one message"),
        (b"?", TypeError, "bytes"),
        ({"role": "user"}, TypeError, "dict"),
        (5, TypeError, "int"),
        ([5], TypeError, "type int"),
        (USE, TypeError, "put it into a SamplingMessage"),
        ([ASK, USE], TypeError, "put it into a SamplingMessage"),
    ]
    for said, error, words in rows:
        with subtests.test(said=said, error=error, words=words), pytest.raises(error, match=words):
            conversation(said)


@pytest.mark.parametrize(
    "messages",
    [
        [ASK, assistant(USE), user(RESULT)],
        [ASK, assistant(USE), user(RESULT), SAY, ASK],
        [ASK, assistant(TextContent(text="I look."), USE, USE_2), user(RESULT_2, RESULT), SAY],
        [ASK, assistant(USE), user(RESULT), assistant(USE), user(RESULT)],
    ],
)
def test_uses_and_results_that_go_together_are_accepted(messages: list[SamplingMessage]) -> None:
    """2025-11-25, client/sampling, "Tool Use and Result Balance"; the order of results is free."""
    assert conversation(messages) == tuple(messages)


def test_uses_and_results_that_do_not_go_together_are_refused(subtests: pytest.Subtests) -> None:
    """2025-11-25, client/sampling, "Message Content Constraints"; before anything is sent."""
    rows: list[tuple[list[SamplingMessage], str]] = [
        ([ASK, assistant(USE), user(RESULT, TextContent(text="so"))], r"messages\[2\]: .*mixed"),
        ([ASK, assistant(USE), SAY], r"messages\[2\]: results are missing for tool uses c1"),
        ([ASK, assistant(USE), ASK], r"messages\[2\]: results are missing for tool uses c1"),
        (
            [ASK, assistant(USE, USE_2), user(RESULT), SAY],
            r"messages\[2\]: results are missing for tool uses c2",
        ),
        ([ASK, assistant(USE)], r"messages\[1\]: no results follow for c1"),
        ([user(RESULT)], r"messages\[0\]: the message before has no tool uses c1"),
        ([ASK, SAY, user(RESULT)], r"messages\[2\]: the message before has no tool uses c1"),
        ([ASK, assistant(USE), user(RESULT, RESULT_2)], r"no tool uses c2"),
        ([ASK, assistant(USE), user(RESULT, RESULT)], r"two results"),
        ([ASK, assistant(USE), user(RESULT), user(RESULT)], r"messages\[3\]: .*no tool uses c1"),
        ([user(USE)], r"messages\[0\]: only messages of the assistant may use tools"),
        ([ASK, assistant(USE), assistant(RESULT)], r"messages\[2\]: only messages of the user may hold results"),
        ([ASK, assistant(USE, USE), user(RESULT, RESULT)], r"messages\[1\]: two uses of tools have the same id"),
    ]
    for messages, words in rows:
        with subtests.test(messages=messages, words=words), pytest.raises(LocalProtocolError, match=words):
            conversation(messages)


# Tools.


async def test_the_model_uses_tools_and_the_server_calls_them() -> None:
    """2025-11-25, client/sampling, "Multi-turn Tool Loop": the server's own tools by name, others as they are."""
    answers = iter(
        [
            {
                "role": "assistant",
                "model": "m",
                "stopReason": "toolUse",
                "content": [
                    {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Paris"}},
                    {"type": "tool_use", "id": "c2", "name": "get_weather", "input": {"city": "London"}},
                ],
            },
            PARIS,
        ]
    )
    client = AskedClient(lambda _: next(answers))
    server = Server("agent")

    @server.tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"18 in {city}"

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        tools: Any = ["weather", WEATHER]
        first = await ctx.sample("Is it warm?", max_tokens=9, tools=tools, tool_choice="required")
        results = [
            ToolResultContent(tool_use_id=use.id, content=[TextContent(text=str(use.input))])
            for use in first.tool_uses
        ]
        return (await ctx.sample(["Is it warm?", first, *results], max_tokens=9, tools=tools)).text

    async with client.open(server, WITH_TOOLS) as opened:
        result = await opened.call_tool("ask")
    assert result.content == (TextContent(text="Paris"),)
    first, second = client.questions
    assert [tool["name"] for tool in first["tools"]] == ["weather", "get_weather"]
    assert first["tools"][0]["description"] == "Tell the weather."
    assert first["toolChoice"] == {"mode": "required"}
    assert "toolChoice" not in second
    assert [m["role"] for m in second["messages"]] == ["user", "assistant", "user"]
    assert [block["toolUseId"] for block in second["messages"][2]["content"]] == ["c1", "c2"]


async def test_a_tool_that_the_server_has_not_cannot_be_offered_by_name() -> None:
    """The mistake is the server's own."""
    client = AskedClient(PARIS)
    with pytest.raises(ValueError, match="no tool called 'nothing'"):
        await ask_in_tool(client, WITH_TOOLS, lambda ctx: ctx.sample("?", max_tokens=1, tools=["nothing"]))
    assert client.questions == []


# What the client must be able to do.

PLAIN = ClientCapabilities(sampling=SamplingCapability())
NO_SAMPLING = ClientCapabilities(elicitation=ElicitationCapability())

Ask = Callable[[Context[Any]], Any]


def plain(ctx: AskingContext) -> Any:
    return ctx.sample("?", max_tokens=1)


def with_tools(ctx: AskingContext) -> Any:
    return ctx.sample("?", max_tokens=1, tools=[WEATHER])


def with_results(ctx: AskingContext) -> Any:
    return ctx.sample(["?", assistant(USE), RESULT], max_tokens=1)


def with_context(ctx: AskingContext) -> Any:
    return ctx.sample("?", max_tokens=1, include_context="allServers")


def with_both(ctx: AskingContext) -> Any:
    return ctx.sample("?", max_tokens=1, tools=[WEATHER], include_context="thisServer")


@pytest.mark.parametrize("revision", [WITH_TOOLS, MODERN])
async def test_a_client_that_cannot_be_asked_is_not_asked(subtests: pytest.Subtests, revision: Revision) -> None:
    """client/sampling, "Capabilities", "Tools in Sampling": servers must not send what was not declared.

    2026-07-28, basic, "_meta": -32021 with exactly what is missing.
    """
    rows: list[tuple[Ask, ClientCapabilities, dict[str, Any]]] = [
        (plain, NO_SAMPLING, {"sampling": {}}),
        (with_tools, NO_SAMPLING, {"sampling": {"tools": {}}}),
        (with_tools, PLAIN, {"sampling": {"tools": {}}}),
        (with_results, PLAIN, {"sampling": {"tools": {}}}),
        (with_context, PLAIN, {"sampling": {"context": {}}}),
        (with_both, PLAIN, {"sampling": {"tools": {}, "context": {}}}),
        (with_both, ClientCapabilities(sampling=SamplingCapability(tools={})), {"sampling": {"context": {}}}),
    ]
    for ask, capabilities, required in rows:
        with subtests.test(ask=ask, capabilities=capabilities, required=required):
            client = AskedClient(PARIS, capabilities=capabilities)
            with pytest.raises(CapabilityMissing) as caught:
                await ask_in_tool(client, revision, ask)
            assert client.questions == []
            assert caught.value.data == {"requiredCapabilities": required}
            assert caught.value.code == (-32021 if revision.is_modern else -32600)


async def test_the_answer_to_the_request_says_what_is_missing() -> None:
    """2026-07-28, basic, "_meta": unless the handler catches it, that is the answer."""
    server = Server("asking")

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        return (await ctx.sample("?", max_tokens=1)).text

    async with AskedClient(capabilities=ClientCapabilities()).open(server, MODERN) as client:
        with pytest.raises(RequestError) as caught:
            await client.call_tool("ask")
    assert caught.value.code == -32021
    assert caught.value.data == {"requiredCapabilities": {"sampling": {}}}


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_client_without_sampling_is_not_asked_in_any_revision(revision: Revision) -> None:
    """2024-11-05, basic/lifecycle, "Operation": only use what was negotiated."""
    client = AskedClient(PARIS, capabilities=ClientCapabilities())
    with pytest.raises(CapabilityMissing, match="has not declared sampling"):
        await ask_in_tool(client, revision, plain)
    assert client.questions == []


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_revisions_before_tools_have_none_but_are_told_of_them_in_words(revision: str) -> None:
    """Tools came with 2025-11-25 (SEP-1577); a conversation that had some can go on."""
    client = AskedClient(PARIS)
    with pytest.raises(CapabilityMissing, match=rf"{revision}.* has no sampling with tools"):
        await ask_in_tool(client, revision, with_tools)
    assert client.questions == []
    await ask_in_tool(client, revision, with_results)
    (question,) = client.questions
    assert [m["content"]["type"] for m in question["messages"]] == ["text"] * 3


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_before_2025_11_25_the_context_needs_no_capability(revision: str) -> None:
    """2025-06-18, client/sampling: whose context to include is part of sampling."""
    client = AskedClient(PARIS, capabilities=PLAIN)
    await ask_in_tool(client, revision, with_context)
    assert client.questions[0]["includeContext"] == "allServers"


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_no_context_needs_no_capability(revision: Revision) -> None:
    """2025-11-25, client/sampling: it defaults to none."""
    client = AskedClient(PARIS, capabilities=PLAIN)
    await ask_in_tool(client, revision, lambda ctx: ctx.sample("?", max_tokens=1, include_context="none"))
    assert client.questions[0]["includeContext"] == "none"


# Asking inside of asking, and giving it all up.


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_progress_of_the_model_reaches_the_handler(revision: Revision) -> None:
    """basic/utilities/progress: of any request, a server's too."""
    client = AskedClient(PARIS)
    await ask_in_tool(client, revision, lambda ctx: ctx.sample("?", max_tokens=1, on_progress=print))
    assert "progressToken" in client.questions[0]["_meta"]


class Deep:
    """A tool that asks the model, whose client calls a tool that asks the user: three questions deep.

    Attributes:
        tape: What the client sent and received.
        ended: What was cancelled, innermost first.
    """

    def __init__(self) -> None:
        self.tape = Tape()
        self.ended: list[str] = []
        self.asked = trio.Event()
        self.inner_scope = trio.CancelScope()
        self.server = Server("deep")

        @self.server.tool
        async def outer(ctx: Context[Any]) -> str:
            result: CreateMessageResult = await self._noting("outer", ctx.sample("?", max_tokens=1))
            return result.text

        @self.server.tool
        async def inner(ctx: Context[Any]) -> str:
            with self.inner_scope:
                answer: Elicitation[str] = await self._noting("inner", ctx.elicit("Who?", str))
                return answer.value
            return "nobody"

    async def _noting(self, name: str, waiting: Any) -> Any:
        try:
            return await waiting
        except trio.Cancelled:
            self.ended.append(name)
            raise

    def connect(self, revision: str, *, user_answers: bool) -> Any:
        """Connect a client whose model calls the inner tool, and whose user answers or never does."""
        held: list[Client] = []

        async def model(_: Mapping[str, Any]) -> dict[str, Any]:
            result = await self._noting("model", held[0].call_tool("inner"))
            (block,) = result.content
            assert isinstance(block, TextContent)
            return {**PARIS, "content": {"type": "text", "text": f"model heard {block.text}"}}

        async def user(_: Mapping[str, Any]) -> dict[str, Any]:
            self.asked.set()
            if not user_answers:
                await self._noting("user", trio.Event().wait())
            return {"action": "accept", "content": {"value": "Joe"}}

        opened = open_client(
            self.server,
            revision=revision,
            capabilities=ABLE,
            request_handlers={"sampling/createMessage": model, "elicitation/create": user},
            on_frame=self.tape,
        )
        return opened, held

    def check_cancellations(self, *methods: str) -> None:
        """Check that of all requests, either way, exactly these were given up, each once and after it was sent."""
        asked: dict[tuple[str, Any], str] = {}
        gone: list[str] = []
        for direction, message in self.tape.frames:
            if "id" in message and "method" in message:
                asked[direction, message["id"]] = message["method"]
            elif message.get("method") == "notifications/cancelled":
                gone.append(asked[direction, message["params"]["requestId"]])
        assert sorted(gone) == sorted(methods)
        self.tape.check_endings()


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_tool_asks_the_model_that_calls_a_tool_that_asks_the_user(revision: str) -> None:
    """client/elicitation and client/sampling, "User Interaction Model": nested inside other features."""
    deep = Deep()
    opened, held = deep.connect(revision, user_answers=True)
    with trio.fail_after(5):
        async with opened as client:
            held.append(client)
            result = await client.call_tool("outer")
    assert result.content == (TextContent(text="model heard Joe"),)
    deep.check_cancellations()


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_cancelling_the_outermost_call_cancels_every_question_once(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 5 of the cancellation contract, four requests deep."""
    deep = Deep()
    opened, held = deep.connect(revision, user_answers=False)
    async with opened as client:
        held.append(client)
        with trio.move_on_after(5) as scope:
            await client.call_tool("outer")
        await trio.sleep(1)
        assert scope.cancelled_caught
        assert sorted(deep.ended) == ["inner", "model", "outer", "user"]
    deep.check_cancellations("tools/call", "sampling/createMessage", "tools/call", "elicitation/create")


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_cancelling_the_innermost_question_leaves_the_rest_alone(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The user is asked no more; the model and both tools go on."""
    deep = Deep()
    opened, held = deep.connect(revision, user_answers=False)
    async with opened as client, trio.open_nursery() as nursery:
        held.append(client)

        @nursery.start_soon
        async def _() -> None:
            await deep.asked.wait()
            await trio.sleep(1)
            deep.inner_scope.cancel()

        result = await client.call_tool("outer")
    assert result.content == (TextContent(text="model heard nobody"),)
    assert sorted(deep.ended) == ["inner", "user"]
    deep.check_cancellations("elicitation/create")


async def test_capabilities_that_cannot_be_read_are_the_clients_fault() -> None:
    """2026-07-28, basic, "_meta": a malformed request is answered with -32602."""
    capabilities: Any = "all of them"
    agreement = Agreement(MODERN, capabilities, None, None)
    unseen: Any = None  # not even looked at
    with pytest.raises(RequestError, match="invalid capabilities") as caught:
        await AskingContext(agreement, unseen, unseen).sample("?", max_tokens=1)
    assert caught.value.code == -32602
