"""Asking the client's user, end to end, in every revision that has it.

Spec: client/elicitation of 2025-06-18, 2025-11-25 and 2026-07-28. That the modern era's questions travel inside
results is another matter; here the modern era is asked for what does not depend on that.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

import attrs
import pytest
import trio
import trio.testing
from asked import ABLE, FORM_ERA, TOOL_ERA, AskedClient, FakeAsker, ask_in_tool
from eras import ENDS, LEGACY_ENDS
from inside_server import AskableClient, LegacyInputRequester, elicit, elicit_url
from tape import Tape

from trio_mcp import (
    CapabilityMissing,
    Context,
    Elicitation,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestError,
    Revision,
    Server,
    ToolError,
    URLElicitationRequired,
    types,
)
from trio_mcp.types import (
    CallToolResult,
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    NumberSchema,
    RequestedSchema,
    StringSchema,
    TextContent,
)

MODERN = Revision.V2026_07_28
URL = "https://example.com/connect?id=7"


class Colour(enum.Enum):
    RED = "#f00"
    BLUE = "#00f"


@attrs.frozen
class Contact:
    """Whom to write to.

    Attributes:
        name: The full name.
        age: In years.
    """

    name: str
    age: int | None = None
    colour: Colour = Colour.RED


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def asked_of(capabilities: ClientCapabilities, answer: Mapping[str, Any]) -> tuple[AskableClient, FakeAsker]:
    """Return a modern client that answers at once."""
    asker = FakeAsker(answer)
    return AskableClient(MODERN, capabilities, asker), asker


# Forms.


@pytest.mark.parametrize("revision", FORM_ERA)
async def test_a_form_from_a_class_is_answered_by_its_object(revision: Revision) -> None:
    """client/elicitation, "Structured Data Request": message and schema go out, an object comes back."""
    client = AskedClient(accept(name="Monalisa", age=30, colour="#00f"))
    answer = await ask_in_tool(client, revision, lambda ctx: ctx.elicit("Whom to write to?", Contact))
    assert answer.action == "accept"
    assert answer.accepted
    assert answer
    assert answer.value == Contact("Monalisa", 30, Colour.BLUE)
    (question,) = client.questions
    assert question["message"] == "Whom to write to?"
    properties = question["requestedSchema"]["properties"]
    assert properties["name"] == {"type": "string", "description": "The full name."}
    assert properties["age"] == {"type": "integer", "description": "In years."}
    assert question["requestedSchema"]["required"] == ["name"]
    if revision is Revision.V2025_06_18:
        # It has neither modes nor defaults of choices, and names choices in a list beside them.
        assert "mode" not in question
        assert properties["colour"] == {"type": "string", "enum": ["#f00", "#00f"], "enumNames": ["Red", "Blue"]}
    else:
        assert question["mode"] == "form"
        assert properties["colour"]["oneOf"] == [
            {"const": "#f00", "title": "Red"},
            {"const": "#00f", "title": "Blue"},
        ]
        assert properties["colour"]["default"] == "#f00"


@pytest.mark.parametrize("revision", FORM_ERA)
async def test_a_question_of_yes_or_no_is_true_only_for_yes(
    subtests: pytest.Subtests, revision: Revision
) -> None:
    """``if await ctx.elicit("Send by courier?", bool):`` means what it says."""

    async def check(answer: Mapping[str, Any], is_true: bool) -> None:
        elicited = await ask_in_tool(
            AskedClient(answer), revision, lambda ctx: ctx.elicit("Send by courier?", bool)
        )
        assert bool(elicited) is is_true
        assert elicited.action == answer["action"]

    rows: list[tuple[Mapping[str, Any], bool]] = [
        (accept(value=True), True),
        (accept(value=False), False),
        ({"action": "decline"}, False),
        ({"action": "cancel"}, False),
        ({"action": "cancel", "content": {"value": True}}, False),
    ]
    for answer, is_true in rows:
        with subtests.test(answer=answer, is_true=is_true):
            await check(answer, is_true)


@pytest.mark.parametrize(("action", "words"), [("decline", "declined"), ("cancel", "did not answer")])
@pytest.mark.parametrize("revision", FORM_ERA)
async def test_a_tool_that_needs_the_value_says_why_it_has_none(
    action: str, words: str, revision: Revision
) -> None:
    """client/elicitation, "Response Actions": a handler that does not look at the action still reports to the model what happened."""
    server = Server("asking")

    @server.tool
    async def order(ctx: Context[Any]) -> str:
        answer = await ctx.elicit("Who?", str)
        return answer.value

    async with AskedClient({"action": action}).open(server, revision) as client:
        result = await client.call_tool("order")
    assert result == CallToolResult(content=(TextContent(text=f"The user {words}."),), is_error=True)


def test_what_the_user_did_can_be_shown_and_compared() -> None:
    """In logs and in tests."""
    assert repr(Elicitation("accept", 3)) == "Elicitation('accept', 3)"
    assert repr(Elicitation[int]("decline")) == "Elicitation('decline')"
    assert Elicitation("accept", 3) == Elicitation("accept", 3) != Elicitation("accept", 4)
    assert Elicitation("accept", 0), "zero is an answer"
    with pytest.raises(ToolError):
        _ = Elicitation[int]("cancel").value


@pytest.mark.parametrize("revision", FORM_ERA)
async def test_single_values_of_any_kind_can_be_asked_for(revision: Revision) -> None:
    """Text, a number, a choice; each as one field."""
    asked: dict[str, Any] = {"text": str, "number": float, "letter": Literal["a", "b"], "colour": Colour}
    answers = iter([accept(value="x"), accept(value=1.5), accept(value="b"), accept(value="#00f")])
    client = AskedClient(lambda _: next(answers))

    async def ask_all(ctx: Context[Any]) -> list[Any]:
        return [(await ctx.elicit(name, kind)).value for name, kind in asked.items()]

    assert await ask_in_tool(client, revision, ask_all) == ["x", 1.5, "b", Colour.BLUE]
    assert [question["message"] for question in client.questions] == list(asked)
    assert all(question["requestedSchema"]["required"] == ["value"] for question in client.questions)


@pytest.mark.parametrize("revision", TOOL_ERA)
async def test_several_values_can_be_chosen(revision: Revision) -> None:
    """2025-11-25, client/elicitation, "Multi-select enum" (SEP-1330)."""
    client = AskedClient(accept(value=["#00f", "#f00"]))
    answer = await ask_in_tool(client, revision, lambda ctx: ctx.elicit("Colours?", list[Colour]))
    assert answer.value == [Colour.BLUE, Colour.RED]


async def test_several_values_cannot_be_chosen_in_2025_06_18() -> None:
    """Its schema has no arrays; the handler learns which field, and nothing is sent."""

    @attrs.frozen
    class Pizza:
        size: Literal["s", "l"]
        toppings: list[Literal["ham", "egg"]]

    client = AskedClient()
    with pytest.raises(CapabilityMissing, match=r"2025-06-18.* no choice of several values for toppings"):
        await ask_in_tool(client, "2025-06-18", lambda ctx: ctx.elicit("What?", Pizza))
    assert client.questions == []


@pytest.mark.parametrize("revision", FORM_ERA)
async def test_a_schema_of_ones_own_is_sent_as_it_is(revision: Revision) -> None:
    """For who has one already; the answer is a dictionary."""
    schema = RequestedSchema(
        properties={"name": StringSchema(max_length=9), "age": NumberSchema(type="number")}, required=["age"]
    )
    client = AskedClient(accept(age=30.5))
    answer = await ask_in_tool(client, revision, lambda ctx: ctx.elicit("?", schema))
    assert answer.value == {"age": 30.5}
    assert client.questions[0]["requestedSchema"] == {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "number"}},
        "required": ["age"],
    }


async def test_the_modern_era_is_asked_in_the_newest_terms() -> None:
    """2026-07-28 has all that 2025-11-25 has; the way is another's business."""
    inquiry, asker = asked_of(ABLE, accept(value=["#00f"]))
    answer = await elicit(inquiry, "Colours?", set[Colour])
    assert answer.value == {Colour.BLUE}
    ((method, params),) = asker.asked
    assert method == "elicitation/create"
    assert isinstance(params, ElicitRequestFormParams)
    assert params.message == "Colours?"


async def test_a_wire_without_questions_is_not_used_for_one() -> None:
    """2026-07-28, basic/patterns/mrtr: a server must not send requests of its own."""
    exchange: Any = None  # not even looked at
    with pytest.raises(LocalProtocolError, match="no request elicitation/create"):
        await LegacyInputRequester(exchange, MODERN).ask("elicitation/create", object())


# Answers that cannot be trusted.


@pytest.mark.parametrize("revision", FORM_ERA)
async def test_an_answer_that_does_not_fit_is_the_clients_fault(
    subtests: pytest.Subtests, revision: Revision
) -> None:
    """2025-06-18 and later, client/elicitation: servers should validate; the error names the field."""

    async def check(answer: Mapping[str, Any], words: str) -> None:
        with pytest.raises(RemoteProtocolError, match=r"elicitation/create.* " + words.replace("[", r"\[")):
            await ask_in_tool(AskedClient(answer), revision, lambda ctx: ctx.elicit("?", Contact))

    rows: list[tuple[Mapping[str, Any], str]] = [
        ({}, "action"),
        ({"action": "yes"}, "action"),
        ({"action": "accept"}, "content: is missing"),
        ({"action": "accept", "content": None}, "content: is missing"),
        ({"action": "accept", "content": "Joe"}, "content"),
        ({"action": "accept", "content": []}, "content"),
        (accept(), "content.name: is missing"),
        (accept(name=None), "content.name: is missing"),
        (accept(name=5), "content.name: expected a string, got 5"),
        (accept(name="x", age="30"), 'content.age: expected an integer, got "30"'),
        (accept(name="x", age=True), "content.age: expected an integer, got true"),
        (accept(name="x", colour="green"), "content.colour: expected one of"),
        (accept(name={"first": "x"}), "content.name: expected a string, got an object"),
    ]
    for answer, words in rows:
        with subtests.test(answer=answer, words=words):
            await check(answer, words)


@pytest.mark.parametrize("revision", FORM_ERA)
async def test_what_was_not_asked_for_is_ignored(revision: Revision) -> None:
    """2026-07-28, basic/patterns/mrtr, "Error Handling": unexpected information should be ignored."""
    client = AskedClient({**accept(name="x", else_="y", age=None), "extra": 1, "_meta": {}})
    answer = await ask_in_tool(client, revision, lambda ctx: ctx.elicit("?", Contact))
    assert answer.value == Contact("x")


@pytest.mark.parametrize("revision", FORM_ERA)
async def test_a_form_of_nothing_required_may_come_back_without_content(revision: Revision) -> None:
    """There was nothing to fill in."""

    @attrs.frozen
    class Consent:
        note: str = "none"

    answer = await ask_in_tool(AskedClient({"action": "accept"}), revision, lambda ctx: ctx.elicit("?", Consent))
    assert answer.value == Consent()


@pytest.mark.parametrize("revision", FORM_ERA)
async def test_an_error_of_the_client_is_raised_as_it_is(revision: Revision) -> None:
    """client/elicitation, "Error Handling"."""
    with pytest.raises(RequestError) as caught:
        await ask_in_tool(
            AskedClient(RequestError(-32602, "no")), revision, lambda ctx: ctx.elicit("Really?", bool)
        )
    assert (caught.value.code, caught.value.message) == (-32602, "no")


@pytest.mark.parametrize("revision", ENDS)
async def test_a_type_that_is_no_form_is_refused_before_anything_is_asked(revision: Revision) -> None:
    """In every revision, whatever the client can do."""
    client = AskedClient()
    with pytest.raises(TypeError, match="contact: a form is flat"):
        await ask_in_tool(
            client,
            revision,
            lambda ctx: ctx.elicit("?", attrs.make_class("A", {"contact": attrs.field(type=Contact)})),
        )
    assert client.questions == []


# What the client must be able to do.

FORMS_ONLY = ClientCapabilities(elicitation=ElicitationCapability(form={}))
FORMS_IMPLIED = ClientCapabilities(elicitation=ElicitationCapability())
URLS_ONLY = ClientCapabilities(elicitation=ElicitationCapability(url={}))
NOTHING = ClientCapabilities()


@pytest.mark.parametrize("revision", ENDS)
async def test_a_client_that_cannot_be_asked_is_not_asked(subtests: pytest.Subtests, revision: Revision) -> None:
    """client/elicitation, "Capabilities": servers must not send modes that the client does not support.

    2026-07-28, basic, "_meta": the request is answered with -32021, and the data says what is missing.
    """

    async def check(capabilities: ClientCapabilities, is_url: bool, required: dict[str, Any]) -> None:
        client = AskedClient(capabilities=capabilities)
        tape = Tape()
        server = Server("asking")
        caught: list[CapabilityMissing] = []

        @server.tool
        async def ask(ctx: Context[Any]) -> str:
            try:
                await (ctx.elicit_url("Go", URL) if is_url else ctx.elicit("?", bool))
            except CapabilityMissing as error:
                caught.append(error)
                raise
            return "asked"

        async with client.open(server, revision, tape) as opened:
            with pytest.raises(RequestError) as answered:
                await opened.call_tool("ask")
        (error,) = caught
        assert client.questions == []
        assert [m for m in tape.received if m.get("method")] == []
        assert (answered.value.code, answered.value.data) == (error.code, error.data)
        if revision.is_modern:
            assert error.code == -32021
            assert error.data == {"requiredCapabilities": required}
        else:
            assert error.code == -32600

    rows: list[tuple[ClientCapabilities, bool, dict[str, Any]]] = [
        (NOTHING, False, {"elicitation": {}}),
        (URLS_ONLY, False, {"elicitation": {"form": {}}}),
        (NOTHING, True, {"elicitation": {"url": {}}}),
        (FORMS_ONLY, True, {"elicitation": {"url": {}}}),
        (FORMS_IMPLIED, True, {"elicitation": {"url": {}}}),
    ]
    for capabilities, is_url, required in rows:
        with subtests.test(capabilities=capabilities, is_url=is_url, required=required):
            await check(capabilities, is_url, required)


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_handler_may_do_without_asking(revision: Revision) -> None:
    """One error to catch, in every era."""

    async def ask(ctx: Context[Any]) -> str:
        try:
            return (await ctx.elicit("?", str)).value
        except CapabilityMissing:
            return "nobody"

    assert await ask_in_tool(AskedClient(capabilities=NOTHING), revision, ask) == "nobody"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
async def test_revisions_before_elicitation_have_none(revision: str) -> None:
    """Even if the client says it has: it came with 2025-06-18."""
    client = AskedClient()
    with pytest.raises(CapabilityMissing, match=rf"{revision}.* has no elicitation") as caught:
        await ask_in_tool(client, revision, lambda ctx: ctx.elicit("?", bool))
    assert caught.value.required is None
    assert client.questions == []


@pytest.mark.parametrize("capabilities", [FORMS_ONLY, FORMS_IMPLIED, ABLE])
@pytest.mark.parametrize("revision", FORM_ERA)
async def test_a_client_that_says_elicitation_and_no_more_has_forms(
    capabilities: ClientCapabilities, revision: Revision
) -> None:
    """2025-11-25, client/elicitation, "Capabilities": an empty object is equivalent to form mode."""
    client = AskedClient(accept(value=True), capabilities=capabilities)
    assert await ask_in_tool(client, revision, lambda ctx: ctx.elicit("?", bool))


# URLs.


@pytest.mark.parametrize("revision", TOOL_ERA)
async def test_the_user_is_sent_to_a_url(revision: Revision) -> None:
    """2025-11-25, client/elicitation, "URL Mode Elicitation Requests"."""
    client = AskedClient({"action": "accept"})
    answer = await ask_in_tool(client, revision, lambda ctx: ctx.elicit_url("Connect it", URL, "e-7"))
    assert answer == Elicitation("accept", None, "e-7")
    assert answer
    assert answer.value is None
    assert client.questions == [{"mode": "url", "message": "Connect it", "url": URL, "elicitationId": "e-7"}]


@pytest.mark.parametrize("revision", TOOL_ERA)
async def test_a_visit_has_an_id_of_its_own_unless_it_is_given_one(revision: Revision) -> None:
    """It must be unique within the server (2025-11-25, schema, ElicitRequestURLParams)."""
    client = AskedClient({"action": "decline"})

    async def ask_twice(ctx: Context[Any]) -> list[Elicitation[None]]:
        return [await ctx.elicit_url("Go", URL) for _ in range(2)]

    answers = await ask_in_tool(client, revision, ask_twice)
    ids = [question["elicitationId"] for question in client.questions]
    assert [answer.elicitation_id for answer in answers] == ids
    assert len(set(ids)) == 2
    assert not any(answers)


async def test_in_the_modern_era_a_visit_has_no_id() -> None:
    """2026-07-28 has none: the state that the client brings back says what it was about."""
    inquiry, asker = asked_of(ABLE, {"action": "accept"})
    answer = await elicit_url(inquiry, "Go", URL, "e-7")
    assert answer == Elicitation("accept")
    ((method, params),) = asker.asked
    assert method == "elicitation/create"
    assert isinstance(params, ElicitRequestURLParams)
    assert params.url == URL


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_revisions_before_urls_have_none(revision: str) -> None:
    """They came with 2025-11-25."""
    client = AskedClient()
    with pytest.raises(CapabilityMissing, match=rf"{revision}.* has no elicitation by URL"):
        await ask_in_tool(client, revision, lambda ctx: ctx.elicit_url("Go", URL))
    assert client.questions == []


@pytest.mark.spec("client/elicitation", "Safe URL Handling")
@pytest.mark.parametrize("revision", [Revision.V2024_11_05, Revision.V2025_11_25, MODERN])
async def test_a_url_that_cannot_be_shown_and_opened_is_refused(
    subtests: pytest.Subtests, revision: Revision
) -> None:
    """client/elicitation, "Safe URL Handling": a valid URL, without credentials."""

    async def check(url: str, words: str) -> None:
        client = AskedClient()
        with pytest.raises(ValueError, match=words):
            await ask_in_tool(client, revision, lambda ctx: ctx.elicit_url("Go", url))
        assert client.questions == []

    rows: list[tuple[str, str]] = [
        ("example.com", "https://"),
        ("/connect", "https://"),
        ("https://", "a host"),
        ("https:///path", "a host"),
        ("javascript:alert(1)", "https://"),
        ("file:///etc/passwd", "https://"),
        ("https://user:secret@example.com/", "credentials"),
        ("https://user@example.com/", "credentials"),
        ("https://example.com/a b", "ASCII"),
        ("https://example.com/\n", "ASCII"),
        ("https://ex\u00e4mple.com/", "ASCII"),
        ("https://[::1", "not a URL"),
        ("https://example.com:99999/", "not a URL"),
    ]
    for url, words in rows:
        with subtests.test(url=url, words=words):
            await check(url, words)


@pytest.mark.spec("client/elicitation", "Safe URL Handling")
@pytest.mark.parametrize("url", ["https://example.com", "http://localhost:8000/x?y#z", "https://[::1]:8443/"])
@pytest.mark.parametrize("revision", TOOL_ERA)
async def test_urls_that_can_be_opened_are_sent_as_they_are(url: str, revision: Revision) -> None:
    """In development also without encryption."""
    client = AskedClient({"action": "accept"})
    await ask_in_tool(client, revision, lambda ctx: ctx.elicit_url("Go", url))
    assert client.questions[0]["url"] == url


@pytest.mark.spec("client/elicitation", "Completion Notifications for URL Mode Elicitation")
@pytest.mark.parametrize("revision", list(Revision))
async def test_that_the_user_is_done_is_told_where_the_revision_has_it(revision: Revision) -> None:
    """2025-11-25, client/elicitation, "Completion Notifications for URL Mode Elicitation"; nowhere else."""
    tape = Tape()

    async def tell(ctx: Context[Any]) -> None:
        with trio.testing.assert_checkpoints():
            await ctx.elicitation_complete("e-7")

    await ask_in_tool(AskedClient(), revision, tell, tape)
    told = [m["params"] for m in tape.received if m.get("method") == "notifications/elicitation/complete"]
    assert told == ([{"elicitationId": "e-7"}] if revision is Revision.V2025_11_25 else [])


# The error that says where the user must go first.


def server_that_needs(*elicitations: ElicitRequestURLParams) -> Server:
    server = Server("asking")

    @server.tool
    async def connect() -> str:
        raise URLElicitationRequired(*elicitations)

    @server.request_handler("x/connect")
    async def custom(params: Mapping[str, Any], ctx: Context[Any]) -> object:
        raise URLElicitationRequired(*elicitations)

    return server


GO = ElicitRequestURLParams(message="Connect it", url=URL, elicitation_id="e-7")
GO_TOO = ElicitRequestURLParams(message="And that", url=URL)


async def test_2025_11_25_has_an_error_for_what_needs_a_url_first() -> None:
    """2025-11-25, client/elicitation, "URL Elicitation Required Error": URL mode, each with its id."""
    async with AskedClient().open(server_that_needs(GO, GO_TOO), "2025-11-25") as client:
        with pytest.raises(RequestError) as caught:
            await client.call_tool("connect")
    assert caught.value.code == -32042
    data: Any = caught.value.data
    first, second = data["elicitations"]
    assert first == {"mode": "url", "message": "Connect it", "url": URL, "elicitationId": "e-7"}
    assert second["elicitationId"]


async def test_the_modern_era_says_it_with_a_result() -> None:
    """2026-07-28, basic: -32042 is gone; basic/patterns/mrtr: input is required, and the client asks again."""
    tape = Tape()
    async with AskedClient().open(server_that_needs(GO, GO_TOO), MODERN, tape) as client:
        with suppress(McpError):  # what a client makes of it is the client's business
            await client.request("tools/call", {"name": "connect"})
    result = next(m["result"] for m in tape.received if "inputRequests" in m.get("result", {}))
    assert result["resultType"] == "input_required"
    assert result["inputRequests"] == {
        "url-1": {"method": "elicitation/create", "params": {"mode": "url", "message": "Connect it", "url": URL}},
        "url-2": {"method": "elicitation/create", "params": {"mode": "url", "message": "And that", "url": URL}},
    }


@pytest.mark.parametrize("revision", ENDS)
async def test_a_client_that_goes_nowhere_is_told_that_it_should(revision: Revision) -> None:
    """Servers must not send modes that the client does not support, in an error or a result either."""
    client = AskedClient(capabilities=FORMS_ONLY)
    async with client.open(server_that_needs(GO), revision) as opened:
        with pytest.raises(RequestError) as caught:
            await opened.call_tool("connect")
    assert caught.value.code == (-32021 if revision.is_modern else -32600)


async def test_results_that_cannot_require_input_do_not() -> None:
    """2026-07-28, basic/patterns/mrtr, "Supported Requests": three methods, and no other."""
    async with AskedClient().open(server_that_needs(GO), MODERN) as client:
        with pytest.raises(RequestError) as caught:
            await client.request("x/connect")
    assert caught.value.code == -32603


@pytest.mark.parametrize(
    "elicitations", [(), (types.ElicitRequestURLParams(message="Go", url="javascript:alert(1)"),)]
)
def test_an_error_that_says_nowhere_to_go_is_a_mistake(elicitations: tuple[ElicitRequestURLParams, ...]) -> None:
    """It must include a list of elicitations, and each a valid URL."""
    with pytest.raises(ValueError):
        URLElicitationRequired(*elicitations)


# Several at once, and none left behind.


@pytest.mark.parametrize("revision", FORM_ERA)
async def test_several_questions_at_once_get_each_its_own_answer(revision: Revision) -> None:
    """In a nursery, answered in another order than asked."""
    all_there = trio.Event()

    async def answer(question: Mapping[str, Any]) -> dict[str, Any]:
        if len(client.questions) == 3:
            all_there.set()
        await all_there.wait()
        return accept(value=question["message"].upper())

    client = AskedClient(answer)

    async def ask_all(ctx: Context[Any]) -> dict[str, str]:
        answers: dict[str, str] = {}

        async def ask(name: str) -> None:
            answers[name] = (await ctx.elicit(name, str)).value

        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(ask, name)
        return answers

    with trio.fail_after(5):
        assert await ask_in_tool(client, revision, ask_all) == {"a": "A", "b": "B", "c": "C"}


@pytest.mark.parametrize("revision", FORM_ERA)
async def test_a_handler_that_is_cancelled_gives_up_each_of_its_questions_once(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 5 of the cancellation contract: the caller gives up the call, and the server every question."""
    tape = Tape()
    server = Server("asking")
    cancelled: list[str] = []

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(ctx.elicit, name, str)
        return "answered"

    async def never(question: Mapping[str, Any]) -> dict[str, Any]:
        try:
            await trio.Event().wait()
        finally:
            cancelled.append(question["message"])
        return {}

    async with AskedClient(never).open(server, revision, tape) as client:
        with trio.move_on_after(5):
            await client.call_tool("ask")
        await trio.sleep(1)
        assert sorted(cancelled) == ["a", "b", "c"]
    questions = [m["id"] for m in tape.received if m.get("method") == "elicitation/create"]
    cancelled = [m["params"]["requestId"] for m in tape.received if m.get("method") == "notifications/cancelled"]
    assert len(questions) == 3
    assert sorted(cancelled) == sorted(questions)
    tape.check_endings()
