"""Prompts, as clients of every revision see them."""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import attrs
import pytest
import trio
import trio.testing
from eras import ENDS

from trio_mcp import (
    Context,
    Field,
    RequestError,
    Revision,
    Server,
    assistant_message,
    open_client,
    types,
    user_message,
)

EVERY = pytest.mark.parametrize("revision", list(Revision))
SINCE_TITLES = Revision.V2025_06_18


NO_TAGS: list[str] = []

FAILED = "prompt {} failed. The server's log says why."


class Mood(enum.Enum):
    CALM = "calm"
    STORMY = "stormy"


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Author:
    name: str
    born: int = 1900


async def request(server: Server, revision: Revision, method: str, **params: Any) -> dict[str, Any]:
    async with open_client(server, revision=revision) as client:
        return await client.request(method, params)


async def get(server: Server, name: str, /, revision: Revision = Revision.V2026_07_28, **arguments: str) -> Any:
    result = await request(server, revision, "prompts/get", name=name, arguments=arguments)
    return result["messages"]


def text(role: str, said: str) -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": said}}


# Listing.


@EVERY
async def test_a_prompt_is_listed_with_its_arguments(revision: Revision) -> None:
    """Every revision, server/prompts, "Listing Prompts" and "Prompt": what a revision lacks is left out."""
    server = Server("s")

    @server.prompt(title="Review", icons=[types.Icon(src="https://example.com/i.png")], meta={"example.com/x": 1})
    def review(code: str, language: Annotated[str, Field(title="Tongue")] = "python", *, ctx: Context) -> str:
        """Ask for a review.

        Args:
            code: What to look at.
            language: What it is written in.
        """
        return code + language

    result = await request(server, revision, "prompts/list")
    first: dict[str, Any] = {"name": "code", "description": "What to look at.", "required": True}
    second: dict[str, Any] = {"name": "language", "description": "What it is written in.", "required": False}
    listed: dict[str, Any] = {"name": "review", "description": "Ask for a review.", "arguments": [first, second]}
    if revision >= SINCE_TITLES:
        second["title"] = "Tongue"
        listed |= {"title": "Review", "_meta": {"example.com/x": 1}}
    if revision >= Revision.V2025_11_25:
        listed["icons"] = [{"src": "https://example.com/i.png"}]
    assert result["prompts"] == [listed]


@pytest.mark.parametrize("revision", ENDS)
async def test_the_capability_is_declared_when_there_are_prompts(revision: Revision) -> None:
    """Every revision, server/prompts, "Capabilities": without it the methods do not exist."""
    server = Server("s")
    async with open_client(server, revision=revision) as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.prompts is None
        with pytest.raises(RequestError) as caught:
            await client.request("prompts/list")
        assert caught.value.code == -32601

    @server.prompt
    def hello() -> str:
        return "hello"

    async with open_client(server, revision=revision) as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.prompts == types.PromptsCapability(list_changed=True)
        assert client.server_capabilities.completions is None


async def test_what_takes_only_json_says_what_json() -> None:
    server = Server("s")

    @server.prompt
    def biography(author: Author, tags: Annotated[list[str], "Words."] = NO_TAGS, note: str | None = None) -> str:
        return ""

    result = await request(server, Revision.V2026_07_28, "prompts/list")
    author, tags, note = result["prompts"][0]["arguments"]
    assert author["description"].startswith('In JSON that fits {"type":"object","properties":{"name":')
    assert tags["description"] == 'Words. In JSON that fits {"type":"array","items":{"type":"string"}}'
    assert "description" not in note


async def test_a_prompt_without_arguments_says_nothing_of_them() -> None:
    server = Server("s")

    @server.prompt(name="other", description="Said here.")
    def hello() -> str:
        """Said there."""
        return "hello"

    result = await request(server, Revision.V2026_07_28, "prompts/list")
    assert result["prompts"] == [{"name": "other", "description": "Said here."}]
    got = await request(server, Revision.V2026_07_28, "prompts/get", name="other")
    assert got["description"] == "Said here."


# Arguments.


@pytest.mark.parametrize("revision", ENDS)
async def test_arguments_are_converted_from_strings_by_their_hints(revision: Revision) -> None:
    """Every revision, `GetPromptRequest`: arguments are strings on the wire."""
    server = Server("s")
    got: dict[str, Any] = {}

    @server.prompt
    async def everything(
        words: str,
        number: int,
        ratio: float,
        yes: bool,
        mood: Mood,
        level: Level,
        choice: Literal["a", 7],
        author: Author,
        many: list[int],
        maybe: int | None,
        either: int | str,
        anything: Any,
        text: object,
        default: int = 5,
        *,
        ctx: Context,
    ) -> str:
        got.update(locals())
        return "done"

    await get(
        server,
        "everything",
        revision,
        words="5",
        number="5",
        ratio="2",
        yes="true",
        mood="stormy",
        level="2",
        choice="7",
        author='{"name": "Ann"}',
        many="[1, 2]",
        maybe="null",
        either="5",
        anything="5",
        text="{",
    )
    assert isinstance(got.pop("ctx"), Context)
    got.pop("got", None)
    assert got == {
        "words": "5",
        "number": 5,
        "ratio": 2.0,
        "yes": True,
        "mood": Mood.STORMY,
        "level": Level.HIGH,
        "choice": 7,
        "author": Author("Ann"),
        "many": [1, 2],
        "maybe": None,
        "either": "5",
        "anything": "5",
        "text": "{",
        "default": 5,
    }


@pytest.mark.parametrize("revision", ENDS)
async def test_an_argument_that_does_not_fit_is_refused_by_name(
    subtests: pytest.Subtests, revision: Revision
) -> None:
    """Every revision, server/prompts, "Error Handling": -32602."""

    async def check(arguments: Mapping[str, Any], names: list[str]) -> None:
        server = Server("s")

        @server.prompt
        def write(
            count: Annotated[int, Field(ge=1)],
            mood: Mood = Mood.CALM,
            tags: list[str] | None = None,
            choice: Literal["a", 7] = 7,
        ) -> str:
            pytest.fail("must not be called")

        with pytest.raises(RequestError) as caught:
            await request(server, revision, "prompts/get", name="write", arguments=arguments)
        assert caught.value.code == -32602
        for name in names:
            assert name in caught.value.message

    rows: list[tuple[Mapping[str, Any], list[str]]] = [
        ({}, ["count: is missing"]),
        ({"count": "many"}, ['count: expected an integer, got "many"']),
        ({"count": "0"}, ["count: "]),
        ({"count": "1.5"}, ["count: expected an integer, got 1.5"]),
        ({"count": "1", "mood": "gay"}, ['mood: expected one of "calm", "stormy"']),
        ({"count": "1", "tags": "a, b"}, ["tags: expected an array or null, written in JSON"]),
        ({"count": "1", "tags": "[1]"}, ["tags[0]: expected a string"]),
        ({"count": "1", "tag": "x"}, ["tag: is not known"]),
        ({"count": "1", "choice": "x"}, ['choice: expected one of "a", 7']),
        ({"count": "x", "tags": "x"}, ["count: ", "tags: "]),
        ({"count": 1}, ["count"]),
    ]
    for arguments, names in rows:
        with subtests.test(arguments=arguments, names=names):
            await check(arguments, names)


@pytest.mark.parametrize("revision", ENDS)
async def test_an_unknown_prompt_is_refused(revision: Revision) -> None:
    """Every revision, server/prompts, "Error Handling": -32602."""
    server = Server("s")

    @server.prompt
    def hello() -> str:
        return "hello"

    with pytest.raises(RequestError) as caught:
        await get(server, "hullo" + "o" * 1000, revision)
    assert caught.value.code == -32602
    assert "hullo" in caught.value.message
    assert len(caught.value.message) < 200


# Results.


@pytest.mark.parametrize("revision", ENDS)
async def test_text_is_what_the_user_says(revision: Revision) -> None:
    server = Server("s")

    @server.prompt
    def hello() -> str:
        return "hello"

    assert await get(server, "hello", revision) == [text("user", "hello")]


@EVERY
async def test_a_conversation_of_several_steps(revision: Revision) -> None:
    """Every revision, server/prompts, "PromptMessage": roles, and content of every kind the revision has."""
    server = Server("s")
    sound = types.AudioContent(data="AAAA", mime_type="audio/wav")
    image = types.ImageContent(data="AAAA", mime_type="image/png")
    page = types.EmbeddedResource(
        resource=types.TextResourceContents(uri="x://page", text="page", mime_type="text/plain")
    )
    link = types.ResourceLink(uri="x://link", name="link")

    @server.prompt
    async def talk() -> list[Any]:
        return [
            "question",
            assistant_message("answer"),
            user_message(image),
            types.PromptMessage(role="assistant", content=sound),
            page,
            link,
        ]

    messages = await get(server, "talk", revision)
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user", "user"]
    said = [message["content"] for message in messages]
    assert said[:2] == [{"type": "text", "text": "question"}, {"type": "text", "text": "answer"}]
    assert said[2] == {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    assert said[3]["type"] == ("audio" if revision >= Revision.V2025_03_26 else "text")
    assert said[4]["resource"] == {"uri": "x://page", "mimeType": "text/plain", "text": "page"}
    assert said[5]["type"] == ("resource_link" if revision >= SINCE_TITLES else "text")


async def test_one_block_one_message_and_an_iterator_will_do() -> None:
    server = Server("s")

    @server.prompt
    def block() -> types.TextContent:
        return types.TextContent(text="block")

    @server.prompt
    def message() -> types.PromptMessage:
        return assistant_message("message")

    @server.prompt
    def lazily() -> Any:
        yield "one"
        yield "two"

    assert await get(server, "block") == [text("user", "block")]
    assert await get(server, "message") == [text("assistant", "message")]
    assert await get(server, "lazily") == [text("user", "one"), text("user", "two")]


async def test_a_whole_result_is_sent_as_it_is() -> None:
    server = Server("s")

    @server.prompt
    def whole() -> types.GetPromptResult:
        """What the list says."""
        return types.GetPromptResult(description="own", messages=[user_message("x")], meta={"example.com/a": 1})

    result = await request(server, Revision.V2026_07_28, "prompts/get", name="whole")
    assert result["description"] == "own"
    assert result["messages"] == [text("user", "x")]
    assert result["_meta"]["example.com/a"] == 1


@pytest.mark.parametrize(
    ("returned", "kind"),
    [
        (None, "nothing"),
        (5, "an int"),
        ({"role": "user"}, "a dict"),
        (b"bytes", "a bytes"),
        ([["nested"]], "a list"),
    ],
)
async def test_what_can_be_no_message_is_an_error_and_in_the_log(
    returned: object, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.prompt
    def odd() -> Any:
        return returned

    with pytest.raises(RequestError) as caught, caplog.at_level(logging.ERROR):
        await get(server, "odd")
    assert (caught.value.code, caught.value.message) == (-32603, FAILED.format("odd"))
    (record,) = [each for each in caplog.records if each.exc_info]
    assert record.getMessage() == "prompt odd failed"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == (
        f"prompt odd returned {kind}; return text, blocks of content, messages, a list of those, or a GetPromptResult"
    )


# Errors and time.


@pytest.mark.parametrize("revision", ENDS)
async def test_what_a_prompt_raises_is_masked_unless_it_is_meant(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    """Every revision, server/prompts, "Error Handling": internal errors are -32603."""
    server = Server("s")

    @server.prompt
    async def fail() -> str:
        raise OSError("the password is 1234")

    @server.prompt
    async def refuse() -> str:
        raise RequestError(-32602, "not today", {"day": "Sunday"})

    with pytest.raises(RequestError) as caught, caplog.at_level(logging.ERROR):
        await get(server, "fail", revision)
    assert (caught.value.code, caught.value.message) == (-32603, FAILED.format("fail"))
    assert "the password is 1234" in caplog.text
    with pytest.raises(RequestError) as caught:
        await get(server, "refuse", revision)
    assert (caught.value.code, caught.value.message, caught.value.data) == (
        -32602,
        "not today",
        {"day": "Sunday"},
    )


@pytest.mark.parametrize("revision", ENDS)
async def test_a_prompt_that_takes_too_long_is_cancelled(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    server = Server("s")
    cleaned: list[float] = []

    @server.prompt(timeout=3)
    async def slow() -> str:
        try:
            await trio.sleep_forever()
        finally:
            cleaned.append(trio.current_time())

    with pytest.raises(RequestError) as caught:
        await get(server, "slow", revision)
    assert caught.value.code == -32603
    assert "slow took longer than 3 s" in caught.value.message
    assert cleaned == [3]


# Registration.


def test_what_cannot_be_a_prompt_is_refused() -> None:
    server = Server("s")

    @server.prompt
    def taken() -> str:
        return ""

    with pytest.raises(ValueError, match="a prompt called 'taken' already"):
        server.prompt(taken)
    with pytest.raises(ValueError, match="needs a name"):
        server.prompt(name="")(taken)
    with pytest.raises(ValueError, match="timeout must be more than 0"):
        server.prompt(name="x", timeout=0)(taken)

    def unreadable(what: trio.Event) -> str:
        return ""

    with pytest.raises(TypeError, match="parameter 'what'"):
        server.prompt(unreadable)


@pytest.mark.parametrize("revision", ENDS)
async def test_prompts_can_be_hidden_shown_and_removed(revision: Revision) -> None:
    """2026-07-28, server/prompts, "Capabilities": the list may be empty, and may change."""
    server = Server("s")
    changes: list[int] = []
    server._application.prompts.entries.on_change = lambda: changes.append(1)

    @server.prompt
    def first() -> str:
        return "1"

    @server.prompt
    def second() -> str:
        return "2"

    async with open_client(server, revision=revision) as client:

        async def names() -> list[str]:
            return [prompt["name"] for prompt in (await client.request("prompts/list"))["prompts"]]

        assert await names() == ["first", "second"]
        server.disable_prompt("first")
        server.disable_prompt("first")
        assert await names() == ["second"]
        with pytest.raises(RequestError):
            await client.request("prompts/get", {"name": "first"})
        server.enable_prompt("first")
        assert await names() == ["first", "second"]
        server.remove_prompt("first")
        server.remove_prompt("second")
        assert await names() == []
    assert len(changes) == 2 + 1 + 1 + 2
    with pytest.raises(LookupError, match="no prompt called 'first'"):
        server.remove_prompt("first")


async def test_plain_functions_run_in_a_thread_unless_told_otherwise() -> None:
    server = Server("s")
    main = trio.lowlevel.current_trio_token()

    def where() -> str:
        try:
            return "loop" if trio.lowlevel.current_trio_token() is main else "?"
        except RuntimeError:
            return "thread"

    server.prompt(name="blocking")(where)
    server.prompt(name="quick", thread=False)(where)
    assert await get(server, "blocking") == [text("user", "thread")]
    assert await get(server, "quick") == [text("user", "loop")]
