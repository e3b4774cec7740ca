"""What a server asks, answered by the same handlers in every revision.

In the legacy era a question is a request of the server; in 2026-07-28 it is part of an `InputRequiredResult`. The
tests put the same question in the way of the revision, and look at the same answer.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS, LEGACY_ENDS
from inside_base import repetitions
from scripted_server import ALL, MODERN, ScriptedServer, never_asked
from typing_extensions import Unpack

from trio_mcp import (
    ClientOptions,
    ElicitMode,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    Revision,
    RootLike,
    open_client,
)
from trio_mcp.types import (
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitationCapability,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ImageContent,
    Root,
    SamplingCapability,
    SamplingMessageContentBlock,
    TextContent,
    ToolUseContent,
)

REVISIONS = pytest.mark.parametrize("revision", ALL)
WITH_ELICITATION = pytest.mark.parametrize("revision", [r for r in ALL if r >= Revision.V2025_06_18])
WITH_URLS = pytest.mark.parametrize("revision", [Revision.V2025_11_25, MODERN])

SAMPLING: dict[str, Any] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "2 + 2?"}}],
    "maxTokens": 10,
}
FORM: dict[str, Any] = {
    "message": "Who are you?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 30}},
        "required": ["name"],
    },
}
URL: dict[str, Any] = {"mode": "url", "message": "Log in", "url": "https://x.test/", "elicitationId": "e1"}


async def put(
    revision: Revision, method: str, params: dict[str, Any] | None = None, /, **options: Unpack[ClientOptions]
) -> dict[str, Any]:
    """Put one question to a client with these options and return its answer.

    Raises:
        RequestError: The client of the legacy era answers with an error.
        Others: The call of the client of the modern era fails.
    """
    server = ScriptedServer(revision)
    question = {"method": method} if params is None else {"method": method, "params": params}
    answers: list[dict[str, Any]] = []

    def call(message: dict[str, Any]) -> dict[str, Any]:
        brought = message["params"].get("inputResponses")
        if brought is None:
            return {"resultType": "input_required", "inputRequests": {"q": question}}
        answers.append(brought["q"])
        return server.complete(content=[])

    server.script["tools/call"] = call
    options["revision"] = revision
    async with open_client(server, **options) as client:
        if revision.is_modern:
            await client.call_tool("asks")
            return answers[0]
        answer = await server.ask(method, params)
        if "error" in answer:
            raise RequestError(answer["error"]["code"], answer["error"]["message"])
        result: dict[str, Any] = answer["result"]
        return result


async def declared(revision: Revision, /, **options: Unpack[ClientOptions]) -> dict[str, Any]:
    """Return the capabilities that a client with these options declares."""
    server = ScriptedServer(revision, {"ping": {}})
    options["revision"] = revision
    async with open_client(server, **options) as client:
        await client.ping()
        return server.declared


# Sampling.


@pytest.mark.parametrize("revision", ENDS)
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_model_is_asked(revision: Revision, is_async: bool) -> None:
    """Every revision, client/sampling, "Creating Messages"."""
    asked: list[CreateMessageRequestParams] = []

    def plain(params: CreateMessageRequestParams) -> CreateMessageResult:
        asked.append(params)
        return CreateMessageResult(
            role="assistant", content=TextContent(text="4"), model="m", stop_reason="endTurn"
        )

    async def slow(params: CreateMessageRequestParams) -> CreateMessageResult:
        await trio.lowlevel.checkpoint()
        return plain(params)

    answer = await put(revision, "sampling/createMessage", SAMPLING, on_sample=slow if is_async else plain)
    text = {"type": "text", "text": "4"}
    assert answer == {"role": "assistant", "content": text, "model": "m", "stopReason": "endTurn"}
    assert asked[0].max_tokens == 10


@pytest.mark.parametrize("revision", ENDS)
@pytest.mark.parametrize(
    ("said", "content"),
    [
        ("4", {"type": "text", "text": "4"}),
        (
            ImageContent(data="AA==", mime_type="image/png"),
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
        ),
    ],
    ids=["text", "image"],
)
async def test_a_model_may_only_say_something(revision: Revision, said: Any, content: dict[str, Any]) -> None:
    answer = await put(revision, "sampling/createMessage", SAMPLING, on_sample=lambda _: said)
    assert answer == {"role": "assistant", "content": content, "model": "unspecified"}


@WITH_URLS
async def test_a_model_may_say_several_things(revision: Revision) -> None:
    """2025-11-25 on, client/sampling: content is one block or several."""
    said: list[SamplingMessageContentBlock] = [
        TextContent(text="I will look."),
        ToolUseContent(id="1", name="look", input={}),
    ]
    answer = await put(
        revision,
        "sampling/createMessage",
        {**SAMPLING, "tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
        on_sample=lambda _: said,
        sampling_tools=True,
    )
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use"]


@pytest.mark.spec("client/sampling", "Tools in Sampling")
@WITH_URLS
@pytest.mark.parametrize(
    "extra", [{"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}, {"toolChoice": {}}]
)
async def test_tools_for_the_model_are_refused_if_not_declared(revision: Revision, extra: dict[str, Any]) -> None:
    """2025-11-25, client/sampling, "Capabilities": tools need sampling.tools. Nobody is asked."""
    error = RemoteProtocolError if revision.is_modern else RequestError
    with pytest.raises(error, match=r"has not declared sampling\.tools"):
        await put(revision, "sampling/createMessage", {**SAMPLING, **extra}, on_sample=never_asked)


@pytest.mark.parametrize("revision", ENDS)
async def test_a_user_may_reject_sampling(revision: Revision) -> None:
    """2025-11-25, client/sampling, "Error Handling": -1. In the modern era the call ends with what was raised."""

    def reject(_: CreateMessageRequestParams) -> str:
        raise RequestError(-1, "User rejected sampling request")

    with pytest.raises(RequestError, match="User rejected") as caught:
        await put(revision, "sampling/createMessage", SAMPLING, on_sample=reject)
    assert caught.value.code == -1


@pytest.mark.parametrize("revision", ENDS)
@pytest.mark.parametrize("answer", [None, 5, ["text"]])
async def test_what_is_no_answer_of_a_model_is_an_error(
    revision: Revision, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    error = TypeError if revision.is_modern else RequestError
    with pytest.raises(error) as caught:
        await put(revision, "sampling/createMessage", SAMPLING, on_sample=lambda _: answer)
    if not revision.is_modern:
        assert str(caught.value) == "internal error [-32603]"  # the server learns nothing, the log everything
        assert "on_sample must return a CreateMessageResult" in caplog.text


# Elicitation.


@WITH_ELICITATION
async def test_a_user_fills_in_a_form(subtests: pytest.Subtests, revision: Revision) -> None:
    """2025-06-18 on, client/elicitation. A field that is left empty has its default."""

    async def check(is_async: bool, filled_in: Any) -> None:
        asked: list[ElicitRequestParams] = []

        def plain(params: ElicitRequestParams) -> Any:
            asked.append(params)
            return filled_in

        async def slow(params: ElicitRequestParams) -> Any:
            await trio.lowlevel.checkpoint()
            return plain(params)

        answer = await put(revision, "elicitation/create", FORM, on_elicit=slow if is_async else plain)
        assert answer == {"action": "accept", "content": {"name": "Ann", "age": 30}}
        assert isinstance(asked[0], ElicitRequestFormParams)

    rows: list[tuple[str, Any]] = [
        ("mapping", {"name": "Ann"}),
        ("None is empty", {"name": "Ann", "age": None}),
        ("result", ElicitResult(action="accept", content={"name": "Ann"})),
    ]
    for is_async in (False, True):
        for name, filled_in in rows:
            with subtests.test(name, is_async=is_async):
                await check(is_async, filled_in)


@WITH_ELICITATION
async def test_a_form_with_too_many_fields_is_refused_before_it_is_read(revision: Revision) -> None:
    """Reading 200,000 fields held the whole program for a second and a half."""
    error = RemoteProtocolError if revision.is_modern else RequestError
    schema = {"type": "object", "properties": {str(n): {"type": "string"} for n in range(1_001)}}
    with pytest.raises(error, match=r"requestedSchema\.properties: a form of 1001 fields; .* 1000 at most"):
        await put(
            revision,
            "elicitation/create",
            {"message": "Who?", "requestedSchema": schema},
            on_elicit=never_asked,
        )


@WITH_ELICITATION
async def test_a_user_may_say_no(subtests: pytest.Subtests, revision: Revision) -> None:
    """2025-06-18, client/elicitation, "Response Actions"; content goes with acceptance only."""

    async def check(action: Any, as_result: bool) -> None:
        answer = ElicitResult(action=action, content={"name": "A"}) if as_result else action
        assert await put(revision, "elicitation/create", FORM, on_elicit=lambda _: answer) == {"action": action}

    for action in ("decline", "cancel"):
        for as_result in (False, True):
            with subtests.test(action=action, as_result=as_result):
                await check(action, as_result)


@WITH_ELICITATION
async def test_an_answer_that_does_not_fit_the_form_is_not_sent(
    subtests: pytest.Subtests, revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    """2025-06-18, client/elicitation, "Security Considerations": both validate. The server learns no more."""

    async def check(filled_in: Any) -> None:
        caplog.clear()
        repetitions.forget()
        error = LocalProtocolError if revision.is_modern else RequestError
        with pytest.raises(error) as caught:
            await put(revision, "elicitation/create", FORM, on_elicit=lambda _: filled_in)
        if not revision.is_modern:
            assert str(caught.value) == "internal error [-32603]"
            assert "the answer does not fit the form" in caplog.text

    rows: list[Any] = [{}, {"name": 5}, {"name": "A", "age": 1.5}, {"name": "A", "x": 1}, "accept"]
    for filled_in in rows:
        with subtests.test(filled_in=filled_in):
            await check(filled_in)


@WITH_ELICITATION
@pytest.mark.parametrize("answer", [None, True, "yes"])
async def test_what_is_no_answer_of_a_user_is_an_error(revision: Revision, answer: Any) -> None:
    with pytest.raises(TypeError if revision.is_modern else RequestError):
        await put(revision, "elicitation/create", FORM, on_elicit=lambda _: answer)


@pytest.mark.spec("client/elicitation", "Safe URL Handling")
@WITH_URLS
@pytest.mark.parametrize(
    "answer", ["accept", {}, ElicitResult(action="accept")], ids=["action", "mapping", "result"]
)
async def test_a_user_agrees_to_go_to_a_url(revision: Revision, answer: Any) -> None:
    """2025-11-25 on, client/elicitation, "URL Mode": the handler sees the whole URL, and nothing is filled in."""
    seen: list[str] = []

    def agree(params: ElicitRequestParams) -> Any:
        assert isinstance(params, ElicitRequestURLParams)
        seen.append(params.url)
        return answer

    modes: list[ElicitMode] = ["form", "url"]
    assert await put(revision, "elicitation/create", URL, on_elicit=agree, elicit_modes=modes) == {
        "action": "accept"
    }
    assert seen == ["https://x.test/"]


@pytest.mark.spec("client/elicitation", "Safe URL Handling")
@WITH_URLS
async def test_a_url_that_is_none_of_the_web_is_not_shown_to_the_user(
    subtests: pytest.Subtests, revision: Revision
) -> None:
    """2025-11-25 on, client/elicitation, "Safe URL Handling": a user who accepts `javascript:` has been deceived."""
    urls: list[str] = [
        "javascript:alert(1)",
        "JavaScript://x.test/%0aalert(1)",
        "file:///etc/passwd",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "x.test",
        "//x.test/",
        "/x",
        "",
        "https:",
        "https:x.test",
        "https:///x.test",
        "https://",
        " https://x.test/",
        "https://x.test/\n",
        "java\tscript:alert(1)",
        "https://x.test/\x1b]8;;",
        "https://x.test\\@good.test/",
        "https://x.test\\.good.test/",
        "https://good.test@x.test/",
        "https://user:secret@x.test/",
        "https://x.t\u0435st/",
        "https://x.test/\u202etxt.exe",
        "https://[::1/",
        "https://x.test:port/",
        "https://x.test:" + "9" * 5_000 + "/",
    ]
    for url in urls:
        with subtests.test(url=url):
            error = RemoteProtocolError if revision.is_modern else RequestError
            with pytest.raises(error, match=r"(invalid params|inputRequests\.\w+): .*url") as caught:
                await put(
                    revision,
                    "elicitation/create",
                    {**URL, "url": url},
                    on_elicit=never_asked,
                    elicit_modes=["form", "url"],
                )
            if isinstance(caught.value, RequestError):
                assert caught.value.code == -32602


@WITH_URLS
async def test_any_other_url_is_shown_as_it_is(subtests: pytest.Subtests, revision: Revision) -> None:
    """What is refused to servers that mean no harm is lost to their users."""

    async def check(url: str) -> None:
        seen: list[object] = []

        def agree(params: ElicitRequestParams) -> Any:
            seen.append(params)
            return "accept"

        await put(revision, "elicitation/create", {**URL, "url": url}, on_elicit=agree, elicit_modes=["url"])
        assert [params.url for params in seen if isinstance(params, ElicitRequestURLParams)] == [url]

    urls: list[str] = [
        "http://127.0.0.1:8000/connect?id=1#a",
        "HTTPS://X.test",
        "https://[::1]:8443/",
        "https://xn--bcher-kva.test/a%20b/@c;d=e",
    ]
    for url in urls:
        with subtests.test(url=url):
            await check(url)


@WITH_URLS
async def test_a_url_is_no_form(revision: Revision) -> None:
    with pytest.raises(LocalProtocolError if revision.is_modern else RequestError):
        await put(
            revision,
            "elicitation/create",
            URL,
            on_elicit=lambda _: {"password": "x"},
            elicit_modes=["form", "url"],
        )


@pytest.mark.spec("client/elicitation", "Error Handling")
@WITH_ELICITATION
@pytest.mark.parametrize(("mode", "params"), [("form", FORM), ("url", URL)])
async def test_a_mode_that_is_not_declared_is_refused(
    revision: Revision, mode: str, params: dict[str, Any]
) -> None:
    """2025-11-25, client/elicitation, "Error Handling": -32602. In the modern era the server broke the protocol."""
    other: list[ElicitMode] = ["url"] if mode == "form" else ["form"]
    error = RemoteProtocolError if revision.is_modern else RequestError
    with pytest.raises(error, match=rf"has not declared elicitation\.{mode}") as caught:
        await put(revision, "elicitation/create", params, on_elicit=never_asked, elicit_modes=other)
    if isinstance(caught.value, RequestError):
        assert caught.value.code == -32602


@pytest.mark.parametrize("modes", ["form", (), ("form", "telepathy")])
async def test_modes_that_do_not_exist_are_refused(modes: Any) -> None:
    with pytest.raises(ValueError, match=r"^elicit_modes (must be|takes) "):
        async with open_client(ScriptedServer(MODERN), on_elicit=lambda _: "cancel", elicit_modes=modes):
            pass


# Roots.


@pytest.mark.parametrize("revision", ENDS)
async def test_roots_are_sent(revision: Revision, tmp_path: Path) -> None:
    """Every revision, client/roots, "Listing Roots"."""
    roots: list[RootLike] = [Root(uri="file:///a", name="A"), "file:///b%20c", tmp_path]
    assert await put(revision, "roots/list", roots=roots) == {
        "roots": [
            {"uri": "file:///a", "name": "A"},
            {"uri": "file:///b%20c"},
            {"uri": tmp_path.as_uri(), "name": tmp_path.name},
        ]
    }


@pytest.mark.parametrize("revision", ENDS)
@pytest.mark.parametrize("is_async", [False, True])
async def test_roots_can_be_found_out_when_asked_for(revision: Revision, is_async: bool) -> None:
    async def slow() -> list[str]:
        await trio.lowlevel.checkpoint()
        return ["file:///now"]

    answer = await put(revision, "roots/list", {}, roots=slow if is_async else lambda: ["file:///now"])
    assert answer == {"roots": [{"uri": "file:///now"}]}


# Handlers of the user's own, and none.


@pytest.mark.parametrize("revision", ENDS)
async def test_a_handler_in_plain_json_answers_too(revision: Revision) -> None:
    """`request_handlers` are for other questions, and go before the handlers of the known ones."""

    async def answer(params: Any) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"got": params}

    assert await put(revision, "x/y", {"z": 1}, request_handlers={"x/y": answer}) == {"got": {"z": 1}}
    handlers = {"roots/list": answer}
    assert await put(revision, "roots/list", request_handlers=handlers, roots=["file:///a"]) == {"got": {}}


@pytest.mark.spec("client/roots", "Error Handling")
@pytest.mark.spec("client/sampling", "Error Handling")
@pytest.mark.spec("client/elicitation", "Error Handling")
@pytest.mark.parametrize("revision", ENDS)
async def test_a_question_without_a_handler_is_refused(
    subtests: pytest.Subtests, revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    """Legacy: -32601 (2025-11-25, client/roots, "Error Handling"). Modern: the server must not have asked."""
    for method in ("sampling/createMessage", "elicitation/create", "roots/list", "x/y"):
        with subtests.test(method=method):
            caplog.clear()
            repetitions.forget()
            params = {"sampling/createMessage": SAMPLING, "elicitation/create": FORM}.get(method, {})
            with pytest.raises(
                RemoteProtocolError if revision.is_modern else RequestError, match="has no method"
            ) as caught:
                await put(revision, method, params)
            if isinstance(caught.value, RequestError):
                assert caught.value.code == -32601
                assert f"refused a question of the server, {method!r}" in caplog.text


@pytest.mark.parametrize("revision", ENDS)
async def test_a_question_that_cannot_be_read_is_refused(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    error = RemoteProtocolError if revision.is_modern else RequestError
    with pytest.raises(error, match="messages") as caught:
        await put(revision, "sampling/createMessage", {"maxTokens": 1}, on_sample=never_asked)
    if isinstance(caught.value, RequestError):
        assert caught.value.code == -32602
        assert "messages: " in caplog.text


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_questions_are_answered_concurrently(revision: Revision) -> None:
    both = trio.Event()
    running = 0

    async def together(_: CreateMessageRequestParams) -> str:
        nonlocal running
        running += 1
        if running == 2:
            both.set()
        await both.wait()
        return "done"

    server = ScriptedServer(revision)
    async with open_client(server, revision=revision, on_sample=together), trio.open_nursery() as nursery:
        nursery.start_soon(lambda: server.ask("sampling/createMessage", SAMPLING, id="a"))
        nursery.start_soon(lambda: server.ask("sampling/createMessage", SAMPLING, id="b"))


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_question_given_up_by_the_server_ends_its_handler(revision: Revision) -> None:
    """Every legacy revision, basic/utilities/cancellation; the server gets no answer."""
    ended = trio.Event()
    started = trio.Event()

    async def forever(_: CreateMessageRequestParams) -> str:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    server = ScriptedServer(revision)
    async with open_client(server, revision=revision, on_sample=forever):
        server.say({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": SAMPLING})
        await started.wait()
        server.tell("notifications/cancelled", requestId="q")
        await ended.wait()
        await trio.testing.wait_all_tasks_blocked()
    assert not [message for message in server.sent if message.get("id") == "q"]


async def test_a_modern_server_that_sends_a_request_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    """2026-07-28, basic/patterns: there are no requests of servers, and no answers to them."""
    server = ScriptedServer(MODERN)
    async with open_client(server, on_sample=never_asked):
        with caplog.at_level(logging.WARNING, "trio_mcp.client"):
            server.say({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": SAMPLING})
            await trio.testing.wait_all_tasks_blocked()
    assert not [message for message in server.sent if message.get("id") == "q"]
    assert "ignored a request of the server, sampling/createMessage" in caplog.text


# What is declared.


@pytest.mark.parametrize("revision", ENDS)
async def test_nothing_is_declared_without_handlers(revision: Revision) -> None:
    assert await declared(revision) == {}


@REVISIONS
async def test_what_is_declared_follows_from_the_handlers(revision: Revision) -> None:
    """Each revision is told what it knows: elicitation since 2025-06-18, its modes and tools since 2025-11-25."""
    everything = await declared(
        revision,
        on_sample=lambda _: "",
        sampling_tools=True,
        sampling_context=True,
        on_elicit=lambda _: "cancel",
        elicit_modes=("form", "url"),
        roots=[],
    )
    expected: dict[str, Any] = {"roots": {} if revision.is_modern else {"listChanged": True}, "sampling": {}}
    if revision >= Revision.V2025_06_18:
        expected["elicitation"] = {}
    if revision >= Revision.V2025_11_25:
        expected |= {"sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}}}
    assert everything == expected


@REVISIONS
async def test_what_is_declared_by_hand_stands(revision: Revision) -> None:
    by_hand = ClientCapabilities(
        sampling=SamplingCapability(tools={}), elicitation=ElicitationCapability(form={}), experimental={"x": {}}
    )
    found = await declared(
        revision, capabilities=by_hand, on_sample=lambda _: "", on_elicit=lambda _: "cancel", elicit_modes=["url"]
    )
    expected: dict[str, Any] = {"sampling": {}, "experimental": {"x": {}}}
    if revision >= Revision.V2025_06_18:
        expected["elicitation"] = {}
    if revision >= Revision.V2025_11_25:
        expected |= {"sampling": {"tools": {}}, "elicitation": {"form": {}}}
    assert found == expected


@pytest.mark.parametrize("revision", [Revision.V2025_06_18])
async def test_elicitation_by_url_alone_is_not_declared_to_a_revision_without_it(revision: Revision) -> None:
    assert await declared(revision, on_elicit=lambda _: "cancel", elicit_modes=["url"]) == {}


# The end of an elicitation by URL.


async def test_the_end_of_an_elicitation_by_url_is_notified() -> None:
    """2025-11-25, client/elicitation, "Completion Notifications": unknown and completed ids must be ignored."""
    done: list[str] = []
    other: list[str] = []
    server = ScriptedServer(Revision.V2025_11_25)
    async with open_client(
        server,
        revision="2025-11-25",
        on_elicit=lambda _: "accept",
        elicit_modes=("url",),
        on_elicitation_complete=done.append,
        on_notification=lambda method, _: other.append(method),
    ):
        server.tell("notifications/elicitation/complete", elicitationId="e1")  # not asked yet
        await trio.testing.wait_all_tasks_blocked()
        await server.ask("elicitation/create", URL)
        server.tell("notifications/elicitation/complete", elicitationId="e2")
        server.tell("notifications/elicitation/complete", elicitationId=5)
        server.tell("notifications/elicitation/complete", elicitationId="e1")
        server.tell("notifications/elicitation/complete", elicitationId="e1")
        await trio.testing.wait_all_tasks_blocked()
    assert done == ["e1"]
    assert other == []


@pytest.mark.spec(
    "client/elicitation", "Completion Notifications for URL Mode Elicitation", revisions="2025-11-25"
)
async def test_the_end_of_an_elicitation_that_an_error_demanded_is_notified() -> None:
    """2025-11-25, client/elicitation, "URL Elicitation Required Error": its ids are known from then on."""
    done: list[str] = []
    server = ScriptedServer(Revision.V2025_11_25)
    data: list[object] = [{"elicitations": [URL]}, {"elicitations": "none"}]

    def refuse(message: dict[str, Any]) -> dict[str, Any]:
        error = {"code": -32042, "message": "go there first", "data": data.pop()}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}

    server.script["tools/call"] = refuse

    async def note(id: str) -> None:
        await trio.lowlevel.checkpoint()
        done.append(id)

    async with open_client(server, revision="2025-11-25", on_elicitation_complete=note) as client:
        for _ in range(2):
            with pytest.raises(RequestError, match="go there first"):
                await client.call_tool("x")
        server.tell("notifications/elicitation/complete", elicitationId="e1")
        await trio.testing.wait_all_tasks_blocked()
    assert done == ["e1"]


async def test_only_so_many_open_elicitations_are_remembered() -> None:
    """MAX_OPEN_ELICITATIONS; a server that asks for ever does not fill our memory."""
    done: list[str] = []
    server = ScriptedServer(Revision.V2025_11_25)
    async with open_client(
        server,
        revision="2025-11-25",
        on_elicit=lambda _: "accept",
        elicit_modes=["url"],
        on_elicitation_complete=done.append,
    ):
        for n in range(1_001):
            await server.ask("elicitation/create", {**URL, "elicitationId": f"e{n}"}, id=n)
        for n in (0, 1, 1_000):
            server.tell("notifications/elicitation/complete", elicitationId=f"e{n}")
        await trio.testing.wait_all_tasks_blocked()
    assert done == ["e1", "e1000"]


async def test_without_a_handler_the_end_of_an_elicitation_is_a_notification_like_others() -> None:
    told: list[str] = []
    server = ScriptedServer(Revision.V2025_11_25)
    async with open_client(server, revision="2025-11-25", on_notification=lambda method, _: told.append(method)):
        server.tell("notifications/elicitation/complete", elicitationId="e1")
        await trio.testing.wait_all_tasks_blocked()
    assert told == ["notifications/elicitation/complete"]
