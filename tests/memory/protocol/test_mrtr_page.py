"""The pages basic/patterns/mrtr and basic/patterns/index of 2026-07-28, between our client and our server."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from meeting import MODERN, Meeting, meet, text_of
from scripted_server import ScriptedServer

from trio_mcp import RemoteProtocolError, open_client
from trio_mcp.types import InputRequiredResult, Root

MRTR = "basic/patterns/mrtr"
INDEX = "basic/patterns/index"
pytestmark = pytest.mark.parametrize("revision", [MODERN])

REQUESTS: dict[str, dict[str, Any]] = {
    "tools/call": {"name": "insist", "arguments": {}},
    "prompts/get": {"name": "personal"},
    "resources/read": {"uri": "asking://name"},
}


def answering(required: dict[str, Any], **content: object) -> dict[str, Any]:
    """Return what a request that is made again brings."""
    assert required["resultType"] == "input_required"
    answer = {"action": "accept", "content": content or {"value": "octocat"}}
    answers = dict.fromkeys(required["inputRequests"], answer)
    return {"inputResponses": answers, "requestState": required["requestState"]}


@pytest.mark.spec(INDEX, "Request and Response")
@pytest.mark.spec("basic/patterns/cancellation", "Behavior Requirements")
@meet
async def test_every_interaction_begins_with_the_client(meeting: Meeting) -> None:
    """Notifications of a request come before its answer; a server asks nothing, a client answers nothing."""
    await meeting.client.call_tool("count", {"to": 2}, on_progress=lambda _: None)
    await meeting.client.call_tool("both")
    methods = [message.get("method", "answer") for message in meeting.received]
    assert methods == [*["notifications/progress"] * 3, "answer", "answer", "answer"]
    assert all("method" in message for message in meeting.sent)
    assert not [message for message in meeting.received if "method" in message and "id" in message]


@pytest.mark.spec(MRTR, "Multi Round-Trip Requests")
@pytest.mark.spec(MRTR, "Supported Requests")
@pytest.mark.spec(MRTR, "Basic Workflow")
@pytest.mark.spec(INDEX, "Multi Round-Trip Requests")
@meet
async def test_a_request_is_made_again_with_the_answers(meeting: Meeting, subtests: pytest.Subtests) -> None:
    for method, params in REQUESTS.items():
        with subtests.test(method=method):
            required = await meeting.client.request(method, params)
            assert required["resultType"] == "input_required"
            assert "ttlMs" not in required
            assert "cacheScope" not in required
            result = await meeting.client.request(method, {**params, **answering(required)})
            assert result["resultType"] == "complete"
            assert "octocat" in str(result)
            first, second = meeting.requests(method)
            assert first["id"] != second["id"]


@pytest.mark.spec(MRTR, "InputRequests")
@pytest.mark.spec(MRTR, "InputResponses")
@pytest.mark.spec(MRTR, "InputRequiredResult")
@pytest.mark.spec(MRTR, "Client Requirements (Basic Workflow)")
@meet
async def test_what_is_asked_at_once_is_answered_at_once(meeting: Meeting) -> None:
    meeting.host.places = [[Root(uri="file:///one"), Root(uri="file:///two")]]
    await meeting.client.call_tool("both")
    first, second = meeting.requests("tools/call")
    (required,) = [m["result"] for m in meeting.received if m["id"] == first["id"]]
    asked = required["inputRequests"]
    assert sorted(one["method"] for one in asked.values()) == ["roots/list", "sampling/createMessage"]
    assert all(set(one) <= {"method", "params"} for one in asked.values())
    brought = second["params"]
    assert brought["inputResponses"].keys() == asked.keys()
    assert brought["requestState"] == required["requestState"]
    keys = {one["method"]: key for key, one in asked.items()}
    assert brought["inputResponses"][keys["roots/list"]] == {
        "roots": [{"uri": "file:///one"}, {"uri": "file:///two"}]
    }
    assert brought["inputResponses"][keys["sampling/createMessage"]]["content"] == {
        "type": "text",
        "text": "Paris",
    }
    assert "inputResponses" not in first["params"]
    assert "requestState" not in first["params"]


@pytest.mark.spec(MRTR, "Client Requirements (Basic Workflow)")
@meet
async def test_answers_belong_to_one_request_alone(meeting: Meeting) -> None:
    await meeting.client.call_tool("insist")
    await meeting.client.call_tool("echo", {"text": "x"})
    assert meeting.params("tools/call") == {"name": "echo", "arguments": {"text": "x"}}
    result = await meeting.client.call_tool("insist", input_required="return")
    assert isinstance(result, InputRequiredResult)
    assert result.request_state is not None


@pytest.mark.spec(MRTR, "Basic Workflow")
@pytest.mark.spec(MRTR, "Server Requirements (Basic Workflow)")
@meet
async def test_a_request_may_take_several_rounds(meeting: Meeting) -> None:
    meeting.host.answers = [{"value": "one"}, {"value": "two"}]
    assert text_of(await meeting.client.call_tool("replayed")) == "one, two"
    assert len(meeting.requests("tools/call")) == 3
    states = [m["result"].get("requestState") for m in meeting.received]
    assert states[0] != states[1]
    assert states[2] is None


@pytest.mark.spec(MRTR, "Server Requirements (Basic Workflow)")
@pytest.mark.spec(MRTR, "Security Considerations")
@pytest.mark.spec(MRTR, "InputRequiredResult")
@pytest.mark.parametrize("tool", ["insist", "replayed"])
@meet
async def test_a_state_is_good_for_its_request_alone_and_unchanged(meeting: Meeting, tool: str) -> None:
    """Tampered with, or brought with other parameters or another method: refused, always in the same words."""
    params: dict[str, Any] = {"name": tool, "arguments": {}}
    required = await meeting.client.request("tools/call", params)
    again = answering(required)
    state: str = required["requestState"]
    flipped = state[:-5] + ("A" if state[-5] != "A" else "B") + state[-4:]
    bad: list[tuple[str, dict[str, Any]]] = [
        ("tools/call", {**params, **again, "requestState": flipped}),
        ("tools/call", {**params, **again, "requestState": "eyJsb2NhdGlvbiI6Ik5ldyBZb3JrIn0"}),
        ("tools/call", {**params, **again, "name": "ask", "arguments": {"form": "name"}}),
        ("prompts/get", {"name": "personal", **again}),
    ]
    messages = set[str]()
    for method, request in bad:
        error = await meeting.refused(lambda: meeting.client.request(method, request), -32602)  # noqa: B023
        messages.add(error.message)
    assert len(messages) == 1
    result = await meeting.client.request("tools/call", {**params, **again})
    assert result["resultType"] in {"complete", "input_required"}, "unharmed by all that"


@pytest.mark.spec(MRTR, "Server Requirements (Basic Workflow)")
@meet
async def test_a_state_wakes_a_handler_once(meeting: Meeting) -> None:
    params: dict[str, Any] = {"name": "insist", "arguments": {}}
    again = answering(await meeting.client.request("tools/call", params))
    await meeting.client.request("tools/call", {**params, **again})
    await meeting.refused(lambda: meeting.client.request("tools/call", {**params, **again}), -32602)


@pytest.mark.spec(MRTR, "Error Handling")
@pytest.mark.spec(MRTR, "InputResponses")
@pytest.mark.parametrize("tool", ["insist", "replayed"])
@meet
async def test_what_is_missing_is_asked_again_and_what_is_too_much_is_ignored(
    meeting: Meeting, tool: str
) -> None:
    params: dict[str, Any] = {"name": tool, "arguments": {}}
    required = await meeting.client.request("tools/call", params)
    nothing = {"inputResponses": {"unheard of": {"action": "accept"}}, "requestState": required["requestState"]}
    again = await meeting.client.request("tools/call", {**params, **nothing})
    assert again["resultType"] == "input_required"
    assert list(again["inputRequests"].values()) == list(required["inputRequests"].values())
    brought = answering(again)
    brought["inputResponses"]["unheard of"] = {"roots": []}
    result = await meeting.client.request("tools/call", {**params, **brought})
    assert result["resultType"] == ("complete" if tool == "insist" else "input_required")


@pytest.mark.spec(MRTR, "Error Handling")
@meet
async def test_invalid_input_responses_are_refused(meeting: Meeting, subtests: pytest.Subtests) -> None:
    params: dict[str, Any] = {"name": "insist", "arguments": {}}
    rows: list[object] = [5, [], {"x": 5}]
    for responses in rows:
        with subtests.test(responses=responses):
            required = await meeting.client.request("tools/call", params)
            if isinstance(responses, dict):
                responses = dict.fromkeys(required["inputRequests"], 5)
            brought = {"inputResponses": responses, "requestState": required["requestState"]}
            call = partial(meeting.client.request, "tools/call", {**params, **brought})
            await meeting.refused(call, -32602)


@pytest.mark.spec(MRTR, "Server Requirements (Basic Workflow)")
@meet
async def test_what_a_client_has_not_declared_is_not_asked(meeting: Meeting) -> None:
    """Per request: the same connection can be asked for roots in one request and not in the next."""
    capabilities = "io.modelcontextprotocol/clientCapabilities"
    params: dict[str, Any] = {"name": "where", "arguments": {}}
    roots: dict[str, Any] = {**params, "_meta": {capabilities: {"roots": {}}}}
    required = await meeting.client.request("tools/call", roots)
    assert required["resultType"] == "input_required"
    nothing: dict[str, Any] = {**params, "_meta": {capabilities: {"sampling": {}}}}
    error = await meeting.refused(lambda: meeting.client.request("tools/call", nothing), -32021)
    assert error.data == {"requiredCapabilities": {"roots": {}}}


@pytest.mark.spec(MRTR, "Client Requirements (Basic Workflow)")
@pytest.mark.spec(MRTR, "InputRequiredResult")
async def test_a_state_is_echoed_as_it_is_and_only_if_there_was_one(revision: str) -> None:
    """Whatever is in it; and without questions the request is made again at once."""
    odd = " {not: json} \u2713 \\u0041 ==  "
    rounds: list[dict[str, Any]] = [
        {"requestState": odd},
        {"inputRequests": {}},
        {"content": [], "resultType": "complete"},
    ]
    server = ScriptedServer(
        MODERN,
        {
            "tools/call": lambda _: {
                "resultType": "input_required",
                **rounds[len(server.requests("tools/call")) - 1],
            }
        },
    )
    async with open_client(server, revision=revision) as client:
        await client.call_tool("x")
    first, second, third = (m["params"] for m in server.requests("tools/call"))
    assert "requestState" not in first
    assert second["requestState"] == odd
    assert "requestState" not in third
    assert len({m["id"] for m in server.requests("tools/call")}) == 3


@pytest.mark.spec(MRTR, "Supported Requests")
@pytest.mark.spec(MRTR, "InputRequests")
@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("tools/list", {"requestState": "x"}),
        ("tools/call", {}),
        ("tools/call", {"inputRequests": {"q": {"method": "tools/call", "params": {"name": "x"}}}}),
    ],
    ids=["another request", "nothing asked", "something else asked"],
)
async def test_a_client_refuses_what_a_server_must_not_ask(
    revision: str, method: str, result: dict[str, Any]
) -> None:
    server = ScriptedServer(MODERN, {method: {"resultType": "input_required", **result}})
    async with open_client(server, revision=revision) as client:
        with pytest.raises(RemoteProtocolError):
            await (client.call_tool("x") if method == "tools/call" else client.list_tools().pages().__anext__())
    assert len(server.requests(method)) == 1


@pytest.mark.spec(INDEX, "Subscribe and Notify")
@meet
async def test_a_subscription_is_a_request_that_stays_open(meeting: Meeting) -> None:
    async with meeting.client.listen(tools_list_changed=True):
        (asked,) = meeting.requests("subscriptions/listen")
        (note,) = meeting.received
        assert note["method"] == "notifications/subscriptions/acknowledged"
        assert note["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": asked["id"]}
