"""What there is to be found of ``full_server.py``: each feature, as a client of each revision should find it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, final

import attrs
from full_server import PAY_URL, PAYMENT, PNG, WAV
from inside_wire import is_array, is_object

from trio_mcp import Revision

OLD: Final = Revision.V2024_11_05
LEGACY: Final = Revision.V2025_11_25
MODERN: Final = Revision.V2026_07_28
MISSING: Final = "nothing was found"

Expected: TypeAlias = Any
ByRevision: TypeAlias = Callable[[Revision], Expected]


@final
@attrs.frozen
class Refused:
    """An error as the answer.

    Attributes:
        code: Its code.
        words: What its message says, among other things.
        data: Its data, if they matter.
    """

    code: int
    words: str
    data: Any = None

    def check(self, value: Any) -> None:
        """Check that this was the answer."""
        assert value["refused"] == self.code
        assert self.words in value["message"]
        if self.data is not None:
            assert value["data"] == self.data


@final
@attrs.frozen
class Differs:
    """What a client finds otherwise than it should.

    Attributes:
        finding: What it finds, or `MISSING`.
        reason: Why.
    """

    finding: Expected
    reason: str


@final
@attrs.frozen
class Feature:
    """Something that is found.

    Attributes:
        name: What the finding is called.
        section: Where the specification has it.
        expected: What is found: plain JSON, an error, or what tells either for a revision.
    """

    name: str
    section: str
    expected: Expected | ByRevision

    def for_revision(self, revision: Revision) -> Expected:
        """Return what a client of this revision should find."""
        return self.expected(revision) if callable(self.expected) else self.expected


def essence(value: Any) -> Any:
    """Leave out what each SDK says in its own way, or what says nothing."""
    if is_array(value):
        return [essence(part) for part in value]
    if not is_object(value):
        return value
    said = {name: essence(member) for name, member in value.items()}
    for name in ("resultType", "ttlMs", "cacheScope"):
        said.pop(name, None)
    if said.get("isError") is False:
        del said["isError"]
    if "io.modelcontextprotocol/serverInfo" in said.get("_meta", {}):
        del said["_meta"]
    return said


# What is expected.


def text(said: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": said}


def result(said: str, **more: object) -> dict[str, Any]:
    """Return the result of a tool that said something."""
    return {"content": [text(said)], **more}


def structured(said: str, value: Any) -> ByRevision:
    """Return the result of a tool that gives something to programs, where a revision has that."""

    def expected(revision: Revision) -> Expected:
        if revision < Revision.V2025_06_18:
            return result(said)
        is_sent_as_it_is = revision.is_modern or is_object(value)
        return result(said, structuredContent=value if is_sent_as_it_is else {"result": value})

    return expected


def asked(expected: Expected, since: Revision = Revision.V2025_06_18, what: str = "elicitation") -> ByRevision:
    """Return what comes of asking the client: a refusal where its revision has no such question."""

    def by_revision(revision: Revision) -> Expected:
        return (
            expected if revision >= since else Refused(-32600, f"{OLD}, which the client speaks, has no {what}")
        )

    return by_revision


def since(first: Revision, expected: Expected, before: Expected = MISSING) -> ByRevision:
    """Return what is found from a revision on, and before."""
    return lambda revision: expected if revision >= first else before


def until(last: Revision, expected: Expected, after: Expected = MISSING) -> ByRevision:
    """Return what is found up to a revision, and after."""
    return lambda revision: expected if revision <= last else after


def contents(uri: str, *parts: Mapping[str, str]) -> dict[str, Any]:
    """Return what is read of a resource."""
    return {"contents": [{"uri": uri, **part} for part in parts]}


def encoded(data: bytes) -> str:
    """Return bytes as they are on the wire."""
    return base64.b64encode(data).decode()


def completion(*values: str) -> dict[str, Any]:
    """Return how something may go on."""
    return {"completion": {"values": list(values), "total": len(values), "hasMore": False}}


def expected_contents(revision: Revision) -> Expected:
    """Every kind of content; older clients are told in words of what they do not know."""
    blocks = [
        {**text("some text"), "annotations": {"audience": ["user"], "priority": 0.5}},
        {"type": "image", "data": encoded(PNG), "mimeType": "image/png"},
        {"type": "audio", "data": encoded(WAV), "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "notes://today", "text": "a note"}},
        {"type": "resource_link", "uri": "notes://lem/solaris", "name": "solaris"},
    ]
    if revision == OLD:
        blocks[2] = text(f"[audio: audio/wav, {len(WAV)} bytes]")
        blocks[4] = text('[resource link "solaris": notes://lem/solaris]')
    return {"content": blocks}


def expected_resources(revision: Revision) -> Expected:
    """What can be listed, with as much of it as the revision has."""
    told: dict[str, Any] = {"audience": ["user"], "priority": 0.9}
    today: dict[str, Any] = {"uri": "notes://today", "name": "today", "mimeType": "text/plain", "size": 8}
    if revision > OLD:
        told["lastModified"] = "2026-01-02T03:04:05Z"
        today["title"] = "Today"
    return [
        {**today, "annotations": told},
        {"uri": "notes://picture.png", "name": "picture.png", "mimeType": "image/png", "size": len(PNG)},
        {"uri": "notes://both", "name": "both", "description": "Text and bytes in one."},
        {
            "uri": "notes://diary",
            "name": "diary",
            "description": "What only who knows the word may read.",
            "mimeType": "text/plain",
        },
    ]


def expected_prompts(revision: Revision) -> Expected:
    """The prompts with their arguments."""
    arguments = [
        {"name": "title", "description": "The book.", "required": True},
        {"name": "tone", "description": "How to say it.", "required": False},
    ]
    review = {"name": "review", "description": "Review a book.", "arguments": arguments}
    return [
        {"name": "greet", "description": "Say hello."},
        {**review, "title": "Review"} if revision > OLD else review,
        {"name": "personal", "description": "Ask for a name, and greet its bearer."},
    ]


REPORT: Final = {
    "place": {"city": "Kyiv", "country": "UA"},
    "celsius": 21.5,
    "sky": "clear",
    "hours": [9, 12],
}
REPORT_TEXT: Final = (
    '{"place":{"city":"Kyiv","country":"UA"},"celsius":21.5,"sky":"clear","hours":[9,12]}'  # as it is sent
)
BOOKING: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The guest.", "minLength": 1},
        "nights": {"type": "integer", "minimum": 1, "maximum": 30},
        "breakfast": {"type": "boolean", "default": True},
        "room": {"type": "string", "enum": ["single", "double"], "default": "single"},
    },
    "required": ["name", "nights"],
}
QUESTION: Final = {
    "messages": [{"role": "user", "content": text("Summarise: a long text")}],
    "modelPreferences": {"hints": [{"name": "small"}]},
    "systemPrompt": "Be brief.",
    "temperature": 0.5,
    "maxTokens": 100,
}
BY_URL: Final = "elicitation by URL"
NO_FORM: Final = asked(None)(OLD)
ENDED: Final = {"caller": True, "handler": True, "asked": True}
"""Giving up ends the caller's waiting, the handler, and the handler's question at the client."""

FEATURES: Final = (
    # Tools.
    Feature("weather", "server/tools, Structured Content", structured(REPORT_TEXT, REPORT)),
    Feature("primes", "server/tools, Structured Content", structured("[2,3,5]", [2, 3, 5])),
    Feature("contents", "server/tools, Tool Result", expected_contents),
    Feature("broken", "server/tools, Error Handling", result("it is broken", isError=True)),
    Feature(
        "wrong",
        "server/tools, Error Handling",
        result("Invalid arguments for weather: city: must have at least 1 character, has 0", isError=True),
    ),
    # What is said meanwhile.
    Feature("steps", "basic/patterns/progress", [[1, 2, "step 1"], [2, 2, "step 2"]]),
    Feature("given_up", "basic/patterns/cancellation", structured("[2,3,5]", [2, 3, 5])),  # the next call
    Feature(
        "log",
        "server/utilities/logging",
        [["warning", "full", {"disk": "nearly full"}], ["error", None, "disk full"]],
    ),
    # Resources.
    Feature("resources", "server/resources, Listing Resources", expected_resources),
    Feature(
        "templates",
        "server/resources, Resource Templates",
        [
            {
                "uriTemplate": "notes://{author}/{title}",
                "name": "note",
                "description": "A note about a book.",
                "mimeType": "text/plain",
            }
        ],
    ),
    Feature(
        "read_text",
        "server/resources, Reading Resources",
        contents("notes://today", {"mimeType": "text/plain", "text": "buy milk"}),
    ),
    Feature(
        "read_binary",
        "server/resources, Binary Content",
        contents("notes://picture.png", {"mimeType": "image/png", "blob": encoded(PNG)}),
    ),
    Feature(
        "read_both",
        "server/resources, Resource Contents",
        contents(
            "notes://both",
            {"mimeType": "text/plain", "text": "text"},
            {"mimeType": "application/octet-stream", "blob": encoded(b"\0\1\2\3")},
        ),
    ),
    Feature(
        "read_template",
        "server/resources, Resource Templates",
        contents("notes://orwell/animal%20farm", {"mimeType": "text/plain", "text": "animal farm is by orwell"}),
    ),
    Feature(
        "read_missing",
        "server/resources, Error Handling",
        since(
            MODERN,
            Refused(-32602, "notes://lem/nothing", {"uri": "notes://lem/nothing"}),
            before=Refused(-32002, "notes://lem/nothing", {"uri": "notes://lem/nothing"}),
        ),
    ),
    Feature(
        "read_asking",
        "basic/patterns/mrtr",
        asked(contents("notes://diary", {"mimeType": "text/plain", "text": "read with sesame"})),
    ),
    # Prompts.
    Feature("prompts", "server/prompts, Listing Prompts", expected_prompts),
    Feature(
        "greet",
        "server/prompts, Getting a Prompt",
        {"description": "Say hello.", "messages": [{"role": "user", "content": text("Say hello.")}]},
    ),
    Feature(
        "review",
        "server/prompts, PromptMessage",
        {
            "description": "Review a book.",
            "messages": [
                {"role": "user", "content": text("Review Solaris in a honest way.")},
                {"role": "assistant", "content": text("Which edition?")},
                {
                    "role": "user",
                    "content": {"type": "resource", "resource": {"uri": "notes://today", "text": "a note"}},
                },
            ],
        },
    ),
    Feature(
        "personal",
        "basic/patterns/mrtr",
        asked(
            {
                "description": "Ask for a name, and greet its bearer.",
                "messages": [{"role": "user", "content": text("Greet Ada.")}],
            }
        ),
    ),
    Feature("prompt_wrong", "server/prompts, Error Handling", Refused(-32602, "tone: expected one of")),
    # Completion.
    Feature("complete_prompt", "server/utilities/completion", completion("harsh", "honest")),
    Feature("complete_template", "server/utilities/completion", completion("orwell")),
    Feature(
        "complete_context",
        "server/utilities/completion, Context",
        since(
            Revision.V2025_06_18,
            completion("fiasco", "solaris"),
            before=completion("fiasco", "solaris", "1984", "animal farm"),
        ),
    ),
    # Sampling.
    Feature("summarise", "client/sampling, Creating Messages", result("scripted: heard Summarise: a long text")),
    Feature("summarise_question", "client/sampling, Creating Messages", QUESTION),
    Feature(
        "research",
        "client/sampling, Sampling with Tools",
        asked(result("It is 21.5 degrees warm."), LEGACY, "sampling with tools"),
    ),
    # Elicitation.
    Feature("book", "client/elicitation, Form Mode", asked(result("('Ada', 2, True, 'double')"))),
    Feature("book_declined", "client/elicitation, Response Actions", asked(result("decline"))),
    Feature("book_cancelled", "client/elicitation, Response Actions", asked(result("cancel"))),
    Feature(
        "book_question",
        "client/elicitation, Requested Schema",
        since(LEGACY, {"mode": "form", "message": "Your booking, please.", "requestedSchema": BOOKING}, None),
    ),
    Feature("pizza", "client/elicitation, Enum Schema", asked(result("basil, olives"))),
    Feature("pay", "client/elicitation, URL Mode", asked(result("accept"), LEGACY, BY_URL)),
    Feature(
        "pay_question",
        "client/elicitation, URL Mode",
        {
            OLD: None,
            LEGACY: {"mode": "url", "message": "Please pay.", "url": PAY_URL, "elicitationId": PAYMENT},
            MODERN: {"mode": "url", "message": "Please pay.", "url": PAY_URL},
        }.get,
    ),
    Feature(
        "pay_completed",
        "client/elicitation, Completion Notifications",  # of 2025-11-25 alone
        lambda revision: [PAYMENT] if revision == LEGACY else [],
    ),
    Feature(
        "pay_first",
        "client/elicitation, URL Elicitation Required Error",  # of 2025-11-25 alone
        {
            OLD: asked(None, LEGACY, BY_URL)(OLD),
            LEGACY: Refused(
                -32042,
                "The user must go to a URL",
                {
                    "elicitations": [
                        {
                            "mode": "url",
                            "message": "Please pay first.",
                            "url": PAY_URL,
                            "elicitationId": PAYMENT,
                        }
                    ]
                },
            ),
            MODERN: result("paid"),
        }.get,
    ),
    # Roots.
    Feature("where", "client/roots", structured('["first: file:///first"]', ["first: file:///first"])),
    Feature(
        "where_next",
        "client/roots, Root List Changes",
        lambda revision: (
            MISSING  # the server asks whenever it wants to know
            if revision.is_modern
            else structured('["file:///first","file:///second"]', ["file:///first", "file:///second"])(revision)
        ),
    ),
    # More than one question.
    Feature("wizard", "basic/patterns/mrtr", asked(result("one two"))),
    Feature(
        "ask_all",
        "basic/patterns/mrtr",
        {
            OLD: NO_FORM,
            LEGACY: result("model: heard Well?, roots: 2, user: well"),
            MODERN: result("model: heard Well?, roots: 1, user: well"),
        }.get,
    ),
    # Changes.
    Feature("updates", "basic/patterns/subscriptions", ["notes://today"]),
    Feature("changes", "basic/patterns/subscriptions", ["prompts", "resources", "tools"]),
    # Giving up while being asked.
    Feature(
        "ask_in_vain",
        "basic/patterns/cancellation",
        # A modern client gives up nothing that the server knows of: it owes it an answer, which does not come.
        {OLD: NO_FORM, LEGACY: ENDED, MODERN: {**ENDED, "handler": False}}.get,
    ),
)
FEATURE: Final = {feature.name: feature for feature in FEATURES}

TOOLS: Final = [
    "weather",
    "primes",
    "contents",
    "broken",
    "proceed",
    "steps",
    "log_all",
    "summarise",
    "research",
    "book",
    "pizza",
    "pay",
    "pay_first",
    "where",
    "where_next",
    "wizard",
    "ask_all",
    "ask_in_vain",
    "touch",
    "change_lists",
]
