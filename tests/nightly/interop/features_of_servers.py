"""What there is to be found of the full servers of other implementations: each step of our client, and what it finds.

The steps are the same for all of them; what a server lacks, or does in another way, is said with `Differs`.
"""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias, final

import attrs
import trio
from their_servers import TheirServer

from trio_mcp import (
    Client,
    ClientOptions,
    LocalProtocolError,
    Progress,
    PromptsListChanged,
    RequestError,
    ResourcesListChanged,
    ResourceUpdated,
    Revision,
    SampleAnswer,
    ToolsListChanged,
)
from trio_mcp.types import (
    BlobResourceContents,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    EmbeddedResource,
    LoggingMessageNotificationParams,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    ToolUseContent,
)

LEGACY: Final = Revision.V2025_11_25
MODERN: Final = Revision.V2026_07_28
HANGS: Final = 20
"""Seconds after which one step hangs; a step takes some milliseconds."""
SHORT: Final = 0.3
"""The same where it is known that it hangs."""
MOST_LOGGED: Final = 10
"""How many log messages wait to be looked at."""

Expected: TypeAlias = Any
"""What is found, a `Refused`, the class of an error of ours, or a function that tells one of these for a revision."""

Step: TypeAlias = Callable[["User", Client], Awaitable[Any]]


@final
@attrs.define
class User:
    """Answers what servers ask, and remembers what was said.

    Attributes:
        sampled: The questions to the model.
        elicited: The questions to the user.
        completed: The visits to URLs that the server said are over.
        updated: The resources that the server said have changed.
        bookings: What is answered to the form, in turn.
        logs: The log messages of the server, from where they come to where they are looked at.
    """

    sampled: list[CreateMessageRequestParams] = attrs.field(factory=list[CreateMessageRequestParams])
    elicited: list[ElicitRequestParams] = attrs.field(factory=list[ElicitRequestParams])
    completed: list[str] = attrs.field(factory=list[str])
    updated: list[str] = attrs.field(factory=list[str])
    bookings: list[ElicitResult] = attrs.field(
        factory=lambda: [
            ElicitResult(action="accept", content={"name": "Ada", "nights": 2, "room": "double"}),
            ElicitResult(action="decline"),
            ElicitResult(action="cancel"),
        ]
    )
    logs: tuple[
        trio.MemorySendChannel[LoggingMessageNotificationParams],
        trio.MemoryReceiveChannel[LoggingMessageNotificationParams],
    ] = attrs.field(factory=lambda: trio.open_memory_channel[LoggingMessageNotificationParams](MOST_LOGGED))

    def options(self, revision: Revision | None) -> ClientOptions:
        """Return what makes a client this user's."""
        return ClientOptions(
            revision=revision,
            on_sample=self.sample,
            sampling_tools=True,
            on_elicit=self.elicit,
            elicit_modes=("form", "url"),
            on_elicitation_complete=self.completed.append,
            on_resource_updated=self.updated.append,
            roots=["/somewhere"],
        )

    def sample(self, params: CreateMessageRequestParams) -> SampleAnswer:
        """Say what was heard, or use a tool if there is one."""
        self.sampled.append(params)
        if params.tools:
            use = ToolUseContent(id="use-1", name=params.tools[0].name, input={"city": "Kyiv"})
            return CreateMessageResult(role="assistant", content=[use], model="scripted", stop_reason="toolUse")
        asked = params.messages[-1].content
        assert isinstance(asked, TextContent)
        content = TextContent(text=f"heard {asked.text}")
        return CreateMessageResult(role="assistant", content=content, model="scripted", stop_reason="endTurn")

    def elicit(self, params: ElicitRequestParams) -> ElicitResult:
        """Fill in the form, or agree to go to the URL."""
        self.elicited.append(params)
        if isinstance(params, ElicitRequestFormParams):
            return self.bookings.pop(0)
        return ElicitResult(action="accept")


# The steps; what each returns is what is found.


async def list_resources(_: User, client: Client) -> Any:
    return [(one.uri, one.title, one.mime_type) async for one in client.list_resources()]


async def list_templates(_: User, client: Client) -> Any:
    return [template.uri_template async for template in client.list_resource_templates()]


async def read(client: Client, uri: str) -> Any:
    (contents,) = (await client.read_resource(uri)).contents
    if isinstance(contents, BlobResourceContents):
        return contents.mime_type, base64.b64decode(contents.blob)[:4]
    assert isinstance(contents, TextResourceContents)
    return contents.mime_type, contents.text


async def read_text(_: User, client: Client) -> Any:
    return await read(client, "notes://today")


async def read_binary(_: User, client: Client) -> Any:
    return await read(client, "notes://picture")


async def read_template(_: User, client: Client) -> Any:
    return await read(client, "notes://lem/solaris")


async def read_missing(_: User, client: Client) -> Any:
    return await read(client, "notes://nothing")


async def list_prompts(_: User, client: Client) -> Any:
    return [
        (
            prompt.name,
            prompt.title,
            [(argument.name, argument.required or False) for argument in prompt.arguments or ()],
        )
        async for prompt in client.list_prompts()
    ]


async def get_prompt(_: User, client: Client) -> Any:
    got = await client.get_prompt("review", {"title": "Solaris", "tone": "honest"})
    found: list[tuple[str, str]] = []
    for message in got.messages:
        if isinstance(message.content, TextContent):
            found.append((message.role, message.content.text))
        else:
            assert isinstance(message.content, EmbeddedResource)
            found.append((message.role, message.content.resource.uri))
    return found


async def get_prompt_without(_: User, client: Client) -> Any:
    return await client.get_prompt("review")


async def complete_prompt(_: User, client: Client) -> Any:
    (prompt,) = [prompt async for prompt in client.list_prompts()]
    return list((await client.complete(prompt, "tone", "h")).completion.values)


async def complete_template(_: User, client: Client) -> Any:
    template = ResourceTemplate(uri_template="notes://{author}/{title}", name="note")
    return list((await client.complete(template, "title", "so", context={"author": "lem"})).completion.values)


async def call(client: Client, name: str, **arguments: object) -> str:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.text
    return result.text


async def summarise(user: User, client: Client) -> Any:
    said = await call(client, "summarise", text="a long text")
    return said, user.sampled[-1].system_prompt, user.sampled[-1].max_tokens


async def research(user: User, client: Client) -> Any:
    said = await call(client, "research")
    choice = user.sampled[-1].tool_choice
    return said, choice and choice.mode


async def book(user: User, client: Client) -> Any:
    booked = json.loads(await call(client, "book"))
    asked = user.elicited[-1]
    assert isinstance(asked, ElicitRequestFormParams)
    return booked, asked.message, sorted(asked.requested_schema.properties)


async def refuse_to_book(_: User, client: Client) -> Any:
    return await call(client, "book"), await call(client, "book")


async def pay(user: User, client: Client) -> Any:
    return await call(client, "pay"), getattr(user.elicited[-1], "url", None)


async def pay_completed(user: User, client: Client) -> Any:
    await call(client, "where")  # what was said before this is here
    return user.completed


async def where(_: User, client: Client) -> Any:
    before = await call(client, "where")
    await client.set_roots(["/somewhere", "/else"])
    return before, await call(client, "where")


async def listen(_: User, client: Client) -> Any:
    async with client.listen(
        tools_list_changed=True,
        prompts_list_changed=True,
        resources_list_changed=True,
        resources=["notes://today"],
    ) as events:
        return await changes(client, events, 4)


async def listen_to_lists(_: User, client: Client) -> Any:
    async with client.listen(
        tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
    ) as events:
        return await changes(client, events, 3)


async def subscribe_by_hand(user: User, client: Client) -> Any:
    user.updated.clear()  # listeners hear the same
    await client.request("resources/subscribe", {"uri": "notes://today"})
    await call(client, "change")
    await call(client, "where")  # what was said before this is here
    return user.updated


async def changes(client: Client, events: Any, count: int) -> set[object]:
    await call(client, "change")
    return {await anext(events) for _ in range(count)}


async def list_tools(_: User, client: Client) -> Any:
    return sorted([tool.name async for tool in client.list_tools()])


async def count(user: User, client: Client) -> Any:
    progress: list[Progress] = []
    with suppress(RequestError):  # of a server that cannot be told, and sends all
        await client.set_log_level("info")
    said = (await client.call_tool("count", {"to": 2}, on_progress=progress.append)).text
    logged = [await user.logs[1].receive() for _ in progress]
    return said, progress, [(each.level, each.logger, each.data) for each in logged]


async def give_up(_: User, client: Client) -> Any:
    with trio.CancelScope() as scope:
        await client.call_tool("block", on_progress=lambda _: scope.cancel(reason="its handler runs now"))
    return scope.cancelled_caught, await call(client, "where")


@final
@attrs.frozen
class Refused:
    """An error as the answer.

    Attributes:
        codes: What its code may be: implementations and their versions do not agree.
    """

    codes: frozenset[int]


@final
@attrs.frozen
class Differs:
    """What a server does otherwise than it should.

    Attributes:
        found: What is found.
        reason: Why.
    """

    found: Any
    reason: str


def visits_completed(revision: Revision) -> Any:
    """2025-11-25 alone has a word for it."""
    return [] if revision.is_modern else ["payment-7"]


def subscribed_by_hand(revision: Revision) -> Any:
    """The modern era has no such request."""
    return LocalProtocolError if revision.is_modern else ["notes://today"]


LISTS: Final = {ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()}
FEATURES: Final[Mapping[str, tuple[Step, Expected]]] = {
    "resources": (
        list_resources,
        [("notes://today", "Today", "text/plain"), ("notes://picture", None, "image/png")],
    ),
    "templates": (list_templates, ["notes://{author}/{title}"]),
    "read_text": (read_text, ("text/plain", "buy milk")),
    "read_binary": (read_binary, ("image/png", b"\x89PNG")),
    "read_template": (read_template, ("text/plain", "solaris is by lem")),
    "read_missing": (read_missing, Refused(frozenset({-32002, -32602}))),
    "prompts": (list_prompts, [("review", "Review", [("title", True), ("tone", False)])]),
    "prompt": (
        get_prompt,
        [("user", "Review Solaris in a honest way."), ("assistant", "Which edition?"), ("user", "notes://today")],
    ),
    "prompt_wrong": (get_prompt_without, Refused(frozenset({-32602}))),
    "complete_prompt": (complete_prompt, ["harsh", "honest"]),
    "complete_template": (complete_template, ["so by lem"]),
    "summarise": (summarise, ("scripted: heard Summarise: a long text", "Be brief.", 100)),
    "research": (research, ("toolUse: weather Kyiv", "required")),
    "book": (
        book,
        (
            {"name": "Ada", "nights": 2, "room": "double", "breakfast": True},
            "Your booking, please.",
            ["breakfast", "name", "nights", "room"],
        ),
    ),
    "book_refused": (refuse_to_book, ("decline", "cancel")),
    "pay": (pay, ("accept", "https://example.com/pay")),
    "pay_completed": (
        pay_completed,
        visits_completed,
    ),
    "where": (where, ("file:///somewhere", "file:///somewhere, file:///else")),
    "listen": (listen, {*LISTS, ResourceUpdated("notes://today")}),
    "listen_to_lists": (listen_to_lists, LISTS),
    "subscribe_by_hand": (
        subscribe_by_hand,
        subscribed_by_hand,
    ),
}
"""Each step, and what is found where nothing differs."""

RECORDED: Final[Mapping[str, tuple[Step, Expected]]] = {
    "tools": (
        list_tools,
        ["block", "book", "change", "count", "pay", "research", "summarise", "where"],
    ),
    "count": (
        count,
        (
            "counted to 2",
            [Progress(1, 2), Progress(2, 2)],
            [("info", "count", f"step {step}") for step in (1, 2)],
        ),
    ),
    "given_up": (give_up, (True, "file:///somewhere")),
    **FEATURES,
}
"""The same of a recording, with what others find of the servers that have less; see `record`."""

CODE_0: Final = "it answers what goes wrong in a handler with code 0"
ASKING: Final = ("summarise", "research", "book", "book_refused", "pay", "pay_completed", "where")
"""The steps at which a server asks its client."""


def all_of(steps: Sequence[str], found: Any, reason: str) -> Mapping[str, Differs]:
    """Return what differs in the same way at several steps."""
    return dict.fromkeys(steps, Differs(found, reason))


TOO_SLOW: Final = trio.TooSlowError
NO_WAY_BACK: Final = (
    "a request that is answered by one JSON object, or without a session, has no way to the client"
)
UNHEARD: Final = "without a session there is no stream on which it could speak unasked"
DIFFERENCES: Final[Mapping[tuple[str, Revision], Mapping[str, Differs]]] = {
    ("full_python_1.py", LEGACY): {
        "read_missing": Differs(Refused(frozenset({0})), CODE_0),
        "prompt_wrong": Differs(Refused(frozenset({0})), CODE_0),
    },
    ("full_python_2.py", LEGACY): {"prompt_wrong": Differs(Refused(frozenset({0})), CODE_0)},
    ("full_python_2.py", MODERN): {
        "prompt_wrong": Differs(Refused(frozenset({-32603})), "it finds the server at fault")
    },
    ("full_typescript_2.mjs", LEGACY): {
        "pay_completed": Differs([], "written for both eras, it asks in the handler's place and leaves that out"),
    },
    ("python-1.30-full_python_1-streamable-http-json", LEGACY): {
        **all_of(
            ("book", "book_refused", "pay"),
            TOO_SLOW,
            "it loses what belongs to a request that is answered by one JSON object, and waits for ever",
        ),
        "pay_completed": Differs([], "the call before did not come so far"),
    },
    ("python-1.30-full_python_1-streamable-http-stateless", LEGACY): {
        **all_of((*ASKING, "subscribe_by_hand"), TOO_SLOW, "it asks all the same, and nobody hears the answer"),
        "research": Differs(AssertionError, "it does not remember what the client can do"),
        **all_of(("listen", "listen_to_lists"), TOO_SLOW, UNHEARD),
    },
    ("python-2.3-full_python_2-streamable-http-json", LEGACY): all_of(
        (*ASKING, "subscribe_by_hand"), Refused(frozenset({-32600})), NO_WAY_BACK
    ),
    ("python-2.3-full_python_2-streamable-http-stateless", LEGACY): {
        **all_of((*ASKING, "subscribe_by_hand"), Refused(frozenset({-32600})), NO_WAY_BACK),
        **all_of(("listen", "listen_to_lists"), TOO_SLOW, UNHEARD),
    },
    ("typescript-2.4-full_typescript_2-streamable-http-stateless", LEGACY): {
        **all_of((*ASKING, "subscribe_by_hand"), AssertionError, NO_WAY_BACK),
        **all_of(("listen", "listen_to_lists"), TOO_SLOW, UNHEARD),
    },
}


def differences_of(server: TheirServer, revision: Revision) -> Mapping[str, Differs]:
    """Return what a server does otherwise: by its SDK, and by how it is reached."""
    by_sdk = DIFFERENCES.get((server.program.name, revision), {})
    return {**by_sdk, **DIFFERENCES.get((server.id, revision), {})}


def expected_of(server: TheirServer, revision: Revision, step: str) -> Any:
    """Return what is found at a step with a server."""
    difference = differences_of(server, revision).get(step)
    expected = RECORDED[step][1] if difference is None else difference.found
    return expected(revision) if inspect.isfunction(expected) else expected


async def take_steps(
    server: TheirServer, user: User, client: Client, steps: Mapping[str, tuple[Step, Expected]] = FEATURES
) -> dict[str, Any]:
    """Take every step with a server, whatever has become of those before it; return what is found, or the errors."""
    found: dict[str, Any] = {}
    for name, (step, _) in steps.items():
        patience = SHORT if expected_of(server, client.revision, name) is trio.TooSlowError else HANGS
        try:
            with trio.fail_after(patience):
                found[name] = await step(user, client)
        except Exception as error:
            found[name] = error
    return found


def check(server: TheirServer, revision: Revision, step: str, found: Any) -> None:
    """Check that what was found at a step is what there is."""
    expected = expected_of(server, revision, step)
    if isinstance(expected, Refused):
        assert isinstance(found, RequestError), found
        assert found.code in expected.codes
    elif isinstance(expected, type):
        assert isinstance(found, expected)
    else:
        assert found == expected
