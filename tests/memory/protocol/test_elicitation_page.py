"""The page client/elicitation of the revisions that have it, between our client and our server."""

from __future__ import annotations

from typing import Any

import pytest
from meeting import FORMS, MODERN, URLS, Meeting, meet, text_of
from scripted_server import ScriptedServer

from trio_mcp import LocalProtocolError, RemoteProtocolError, RequestError, Revision, open_client
from trio_mcp.types import ClientCapabilities, ElicitationCapability

ELICITATION = "client/elicitation"
METHOD = "elicitation/create"
IN_FORMS = pytest.mark.parametrize("revision", FORMS)
IN_URLS = pytest.mark.parametrize("revision", URLS)


@pytest.mark.spec(ELICITATION, "Capabilities")
@meet
async def test_the_capability_is_declared(meeting: Meeting) -> None:
    """In 2025-06-18 without modes, and before that not at all."""
    await meeting.client.call_tool("echo", {"text": "x"})
    if meeting.revision not in FORMS:
        assert "elicitation" not in meeting.declared()
    else:
        expected: dict[str, Any] = {"form": {}, "url": {}} if meeting.revision in URLS else {}
        assert meeting.declared()["elicitation"] == expected


@pytest.mark.spec(ELICITATION, "Creating Elicitation Requests")
@pytest.mark.spec(ELICITATION, "Simple Text Request")
@pytest.mark.spec(ELICITATION, "Request Schema")
@pytest.mark.spec(ELICITATION, "Elicitation Requests")
@pytest.mark.spec(ELICITATION, "Form Mode Elicitation Requests")
@pytest.mark.spec(ELICITATION, "Requested Schema")
@pytest.mark.spec(ELICITATION, "Example: Simple Text Request")
@pytest.mark.spec(ELICITATION, "Form Mode Flow")
@pytest.mark.spec(ELICITATION, "Message Flow")
@IN_FORMS
@meet
async def test_a_user_is_asked_for_one_value(meeting: Meeting) -> None:
    result = await meeting.client.call_tool("ask", {"form": "name"})
    assert text_of(result) == "accept: 'octocat'"
    (question,) = meeting.questions(METHOD)
    assert question.pop("mode", None) == ("form" if meeting.revision in URLS else None)
    assert question["message"] == "Please fill in: name"
    schema = question["requestedSchema"]
    assert schema["type"] == "object"
    assert schema["properties"]["value"]["type"] == "string"
    assert schema["required"] == ["value"]
    assert meeting.replies(METHOD) == [{"action": "accept", "content": {"value": "octocat"}}]


@pytest.mark.spec(ELICITATION, "Structured Data Request")
@pytest.mark.spec(ELICITATION, "Example: Structured Data Request")
@pytest.mark.spec(ELICITATION, "Supported Schema Types")
@pytest.mark.spec(ELICITATION, "Requested Schema")
@IN_FORMS
@meet
async def test_a_user_is_asked_for_several_values(meeting: Meeting) -> None:
    filled_in = {"name": "Monalisa Octocat", "email": "octocat@github.com", "age": 30}
    meeting.host.answers = [filled_in]
    result = await meeting.client.call_tool("ask", {"form": "contact"})
    assert "Monalisa Octocat" in text_of(result)
    (question,) = meeting.questions(METHOD)
    properties = question["requestedSchema"]["properties"]
    assert properties["name"]["type"] == "string"
    assert properties["name"]["description"] == "Your full name."
    assert properties["email"]["format"] == "email"
    assert properties["age"] == {"type": "integer", "minimum": 18, "description": "Your age."}
    assert question["requestedSchema"]["required"] == ["name", "email"]
    assert meeting.replies(METHOD) == [{"action": "accept", "content": filled_in}]


@pytest.mark.spec(ELICITATION, "Supported Schema Types")
@pytest.mark.spec(ELICITATION, "Requested Schema")
@IN_FORMS
@meet
async def test_every_kind_of_field_can_be_asked_for_and_has_its_default(meeting: Meeting) -> None:
    """Defaults are told from 2025-11-25 on (in 2025-06-18 for booleans), and filled in by the client."""
    meeting.host.answers = [{"colour": "red", "share": 0.5}]
    result = await meeting.client.call_tool("ask", {"form": "wishes"})
    schema = meeting.questions(METHOD)[0]["requestedSchema"]
    properties = schema["properties"]
    assert (properties["colour"]["type"], properties["colour"]["enum"]) == ("string", ["red", "green", "blue"])
    assert properties["share"] == {"type": "number", "minimum": 0, "maximum": 1}
    assert properties["copies"]["type"] == "integer"
    assert properties["gift"] == {"type": "boolean", "default": False}
    assert properties["note"]["maxLength"] == 50
    assert schema["required"] == ["colour", "share"]
    (reply,) = meeting.replies(METHOD)
    if meeting.revision in URLS:
        assert properties["note"]["default"] == "none"
        assert properties["copies"]["default"] == 1
        defaults = {"copies": 1, "gift": False, "note": "none"}
    else:
        assert "default" not in properties["note"]
        assert "default" not in properties["copies"]
        defaults = {"gift": False}
    assert reply["content"] == {"colour": "red", "share": 0.5, **defaults}
    assert "copies=1, gift=False, note='none'" in text_of(result), "and by the server, what is left out"


@pytest.mark.spec(ELICITATION, "Requested Schema")
@IN_FORMS
@meet
async def test_a_choice_of_several_is_asked_for_where_it_exists(meeting: Meeting) -> None:
    meeting.host.answers = [{"colours": ["red", "blue"]}]
    result = await meeting.client.call_tool("ask", {"form": "several"})
    if meeting.revision in URLS:
        (question,) = meeting.questions(METHOD)
        field = question["requestedSchema"]["properties"]["colours"]
        assert (field["type"], field["items"]["enum"]) == ("array", ["red", "green", "blue"])
        assert "['red', 'blue']" in text_of(result)
    else:
        assert text_of(result).startswith("cannot ask: ")
        assert not meeting.questions(METHOD)


@pytest.mark.spec(ELICITATION, "Response Actions")
@pytest.mark.spec(ELICITATION, "Error Handling")
@IN_FORMS
@meet
async def test_a_user_may_decline_or_do_nothing(meeting: Meeting) -> None:
    for action in ("decline", "cancel"):
        meeting.begin()
        meeting.host.answers = [action]
        assert text_of(await meeting.client.call_tool("ask", {"form": "name"})) == action
        assert meeting.replies(METHOD) == [{"action": action}]
        result = await meeting.client.call_tool("insist")
        assert result.is_error
        assert "The user" in text_of(result)


@pytest.mark.spec(ELICITATION, "Security Considerations")
@pytest.mark.spec(ELICITATION, "Form Mode Security")
@pytest.mark.spec(ELICITATION, "Response Actions")
@IN_FORMS
@meet
async def test_what_does_not_fit_the_form_is_not_sent(meeting: Meeting, subtests: pytest.Subtests) -> None:
    """The client validates what its own handler says."""
    rows: list[dict[str, Any]] = [
        {"name": "x"},
        {"name": "x", "email": "no address"},
        {"name": "x", "email": "a@b.org", "age": 17},
    ]
    for filled_in in rows:
        with subtests.test(filled_in=filled_in):
            meeting.begin()
            await fill_in_wrongly(meeting, filled_in)


async def fill_in_wrongly(meeting: Meeting, filled_in: dict[str, Any]) -> None:
    """Answer with what does not fit, and see that nobody gets it."""
    meeting.host.answers = [filled_in]
    if meeting.is_modern:
        with pytest.raises(LocalProtocolError):
            await meeting.client.call_tool("ask", {"form": "contact"})
        assert not meeting.replies(METHOD)
    else:
        await meeting.turned_down("ask", {"form": "contact"}, METHOD, "internal error")
        (reply,) = meeting.replies(METHOD)
        assert reply["code"] == -32603


@pytest.mark.spec(ELICITATION, "Form Mode Security")
@pytest.mark.spec(ELICITATION, "Security Considerations")
@pytest.mark.parametrize("binding", ["memory"])
@IN_FORMS
@meet
async def test_a_server_does_not_take_what_does_not_fit(
    meeting: Meeting, subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that answers in plain JSON, whatever comes to its mind."""
    lies: list[object] = [{}, {"value": 5}, None]
    left = lies.copy()

    async def lie(_: object) -> dict[str, Any]:
        return {"action": "accept", "content": left.pop(0)}

    elicitation = ElicitationCapability(form={})
    async with meeting.another(
        capabilities=ClientCapabilities(elicitation=elicitation), request_handlers={METHOD: lie}
    ) as other:
        for content in lies:
            with subtests.test(content=content):
                caplog.clear()
                assert (await other.call_tool("ask", {"form": "name"})).is_error
                assert "content" in caplog.text


@pytest.mark.spec(ELICITATION, "Capabilities")
@pytest.mark.spec(ELICITATION, "Error Handling")
@pytest.mark.parametrize("binding", ["memory"])
@IN_FORMS
@meet
async def test_a_client_is_not_asked_what_it_has_not_declared(meeting: Meeting) -> None:
    code = -32021 if meeting.is_modern else -32600
    async with meeting.another() as nobody:
        error = await meeting.refused(lambda: nobody.call_tool("insist"), code)
        assert error.data == {"requiredCapabilities": {"elicitation": {}}}
    async with meeting.another(on_elicit=meeting.host.elicit) as forms:
        assert text_of(await forms.call_tool("insist")) == "octocat"
        error = await meeting.refused(lambda: forms.call_tool("visit"), code)
        if meeting.revision in URLS:
            assert error.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    if meeting.revision in URLS:
        async with meeting.another(on_elicit=meeting.host.elicit, elicit_modes=("url",)) as urls:
            error = await meeting.refused(lambda: urls.call_tool("insist"), code)
            assert error.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}
    empty = ClientCapabilities(elicitation=ElicitationCapability())
    async with meeting.another(capabilities=empty, on_elicit=meeting.host.elicit) as forms:
        assert text_of(await forms.call_tool("insist")) == "octocat", "{} means forms"


_FORM: dict[str, Any] = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
_URL = {"mode": "url", "message": "?", "url": "https://example.com/", "elicitationId": "1"}


@pytest.mark.spec(ELICITATION, "Error Handling")
@pytest.mark.spec(ELICITATION, "Elicitation Requests")
@pytest.mark.parametrize(("modes", "params"), [(("url",), _FORM), (("form",), _URL)], ids=["form", "url"])
@pytest.mark.parametrize("revision", [Revision.V2025_11_25])
async def test_a_client_refuses_a_mode_it_has_not_declared(
    revision: Revision, modes: Any, params: dict[str, Any]
) -> None:
    """2025-11-25: -32602. What has no `mode` is a form."""
    server = ScriptedServer(revision)
    async with open_client(server, revision=revision, on_elicit=lambda _: "accept", elicit_modes=modes):
        answer = await server.ask(METHOD, params)
    assert answer["error"]["code"] == -32602


@pytest.mark.spec(ELICITATION, "Error Handling")
@IN_FORMS
@meet
async def test_an_error_of_the_client_reaches_the_handler_that_asked(meeting: Meeting) -> None:
    meeting.host.answers = [RequestError(-32000, "no screen")]
    if meeting.is_modern:
        await meeting.refused(lambda: meeting.client.call_tool("ask", {"form": "name"}), -32000)
        assert len(meeting.requests("tools/call")) == 1
    else:
        await meeting.turned_down("ask", {"form": "name"}, METHOD, "no screen")
        assert meeting.replies(METHOD) == [{"code": -32000, "message": "no screen"}]


# URLs.


@pytest.mark.spec(ELICITATION, "URL Mode Elicitation Requests")
@pytest.mark.spec(ELICITATION, "Example: Request Sensitive Data")
@pytest.mark.spec(ELICITATION, "Elicitation Requests")
@pytest.mark.spec(ELICITATION, "Response Actions")
@pytest.mark.spec(ELICITATION, "URL Mode Flow")
@pytest.mark.spec(ELICITATION, "Completion Notifications for URL Mode Elicitation")
@pytest.mark.spec(ELICITATION, "Example")
@IN_URLS
@meet
async def test_a_user_is_sent_to_a_url_and_its_end_is_notified(meeting: Meeting) -> None:
    """In 2025-11-25 the visit has an id by which its end is told; what is told of others is ignored."""
    meeting.host.answers = ["accept"]
    assert text_of(await meeting.client.call_tool("visit")) == "accept"
    (question,) = meeting.questions(METHOD)
    id = question.pop("elicitationId", None)
    assert question == {"mode": "url", "message": "Please sign in.", "url": "https://example.com/connect"}
    assert meeting.replies(METHOD) == [{"action": "accept"}]
    told = meeting.notes("notifications/elicitation/complete")
    if meeting.is_modern:
        assert id is None
        assert not told
        return
    assert len(id) >= 16
    assert told == [{"elicitationId": id}, {"elicitationId": id}, {"elicitationId": "nobody knows this one"}]
    await meeting.client.set_log_level("debug")
    await meeting.client.call_tool("log_all")
    await meeting.heard(8)  # which come after those
    assert meeting.host.finished == [id]


@pytest.mark.spec(ELICITATION, "Response Actions")
@IN_URLS
@meet
async def test_a_user_may_stay_away(meeting: Meeting) -> None:
    for action in ("decline", "cancel"):
        meeting.begin()
        meeting.host.answers = [action]
        assert text_of(await meeting.client.call_tool("visit")) == action
        assert meeting.replies(METHOD) == [{"action": action}]


@pytest.mark.spec(ELICITATION, "URL Elicitation Required Error")
@pytest.mark.spec(ELICITATION, "URL Mode With Elicitation Required Error Flow")
@pytest.mark.spec(ELICITATION, "Error Handling")
@pytest.mark.spec(ELICITATION, "URL Mode Flow")
@IN_URLS
@meet
async def test_a_request_may_need_a_visit_first(meeting: Meeting) -> None:
    """2025-11-25 has error -32042 for it, 2026-07-28 a result that requires input."""
    meeting.host.answers = ["accept"]
    if meeting.is_modern:
        assert text_of(await meeting.client.call_tool("must_visit")) == "thank you"
        (question,) = meeting.questions(METHOD)
        assert (question["mode"], question["url"]) == ("url", "https://example.com/authorize")
        return
    error = await meeting.refused(lambda: meeting.client.call_tool("must_visit"), -32042)
    data: Any = error.data
    ((elicitation),) = data["elicitations"]
    assert elicitation.pop("elicitationId")
    assert elicitation == {"mode": "url", "message": "Authorize.", "url": "https://example.com/authorize"}


@pytest.mark.spec(ELICITATION, "Elicitation Requests")
@pytest.mark.parametrize("revision", [MODERN])
async def test_a_modern_server_must_not_ask_in_a_mode_that_is_not_declared(revision: Revision) -> None:
    asking = {"q": {"method": METHOD, "params": _URL}}
    server = ScriptedServer(revision, {"tools/call": {"resultType": "input_required", "inputRequests": asking}})
    async with open_client(server, revision=revision, on_elicit=lambda _: "accept") as client:
        with pytest.raises(RemoteProtocolError, match=r"elicitation\.url"):
            await client.call_tool("x")
    assert len(server.requests("tools/call")) == 1
