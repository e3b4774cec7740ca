"""Extensions of a client: what they declare, and what they take over. Spec: 2026-07-28, basic/versioning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS, LEGACY_ENDS
from scripted_server import MODERN, ScriptedServer
from tape import Tape

from trio_mcp import ClientExtension, ExtensionClient, RemoteProtocolError, Revision, open_client
from trio_mcp.types import ClientCapabilities, TextContent

TASK = {"resultType": "task", "taskId": "t1"}


async def finish(
    client: ExtensionClient, method: str, params: Mapping[str, Any], result: Mapping[str, Any]
) -> Mapping[str, Any]:
    assert client.revision is MODERN
    assert method == "tools/call"
    assert params["name"] == "x"
    return await client.request("notes/get", {"taskId": result["taskId"]})


NOTES = ClientExtension("com.example/notes", settings={"deep": {"er": 1}}, result_types={"task": finish})


async def test_an_extension_is_declared_to_modern_servers() -> None:
    """basic/versioning, "Extension Negotiation": identifier and settings; beside what is declared by hand."""
    server = ScriptedServer(MODERN, {"x/y": {}})
    by_hand = ClientCapabilities(extensions={"com.example/mine": {}})
    async with open_client(server, extensions=[NOTES], capabilities=by_hand) as client:
        await client.request("x/y")
    assert server.declared == {"extensions": {"com.example/mine": {}, "com.example/notes": {"deep": {"er": 1}}}}


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_an_extension_is_declared_in_initialize_too(revision: Revision) -> None:
    """SEP-2133, "Negotiation": its example is an `initialize` of 2025-06-18, and capabilities are an open set."""
    server = ScriptedServer(revision)
    async with open_client(server, revision=revision, extensions=[NOTES]):
        pass
    assert server.declared == {"extensions": {"com.example/notes": {"deep": {"er": 1}}}}


async def test_a_result_of_its_own_type_is_finished_by_the_extension() -> None:
    """basic, "ResultType": extensions may add values."""
    server = ScriptedServer(MODERN, {"tools/call": TASK})
    server.script["notes/get"] = server.complete(content=[{"type": "text", "text": "done"}])
    async with open_client(server, extensions=[NOTES]) as client:
        assert (await client.call_tool("x")).content == (TextContent(text="done"),)
        by_hand = await client.call_tool("x", input_required="return")
        assert by_hand == await client.call_tool("x")


async def test_what_the_extension_makes_must_be_complete() -> None:
    server = ScriptedServer(MODERN, {"tools/call": TASK, "notes/get": TASK})
    async with open_client(server, extensions=[NOTES]) as client:
        with pytest.raises(
            RemoteProtocolError, match="the extension that handles task returned no complete result"
        ):
            await client.call_tool("x")


async def test_a_deadline_covers_the_extension(autojump_clock: trio.testing.MockClock) -> None:
    """And what it asks is given up on the wire."""
    tape = Tape()
    server = ScriptedServer(MODERN, {"tools/call": TASK, "notes/get": lambda _: None})
    async with open_client(server, extensions=[NOTES], request_timeout=5, on_frame=tape) as client:
        with pytest.raises(trio.TooSlowError):
            await client.call_tool("x")
        await trio.testing.wait_all_tasks_blocked()
    assert tape.goodbyes() == {server.requests("notes/get")[0]["id"]: 1}


@pytest.mark.parametrize("revision", ENDS)
async def test_its_notifications_go_to_the_extension(revision: Revision) -> None:
    heard: list[str] = []
    others: list[str] = []

    def hear(params: Mapping[str, Any]) -> None:
        heard.append(params["id"])

    extension = ClientExtension("a.b/c", notification_handlers={"notes/changed": hear})
    server = ScriptedServer(revision)
    async with open_client(
        server, revision=revision, extensions=[extension], on_notification=lambda method, _: others.append(method)
    ):
        server.tell("notes/changed", id="n1")
        await trio.testing.wait_all_tasks_blocked()
    assert (heard, others) == (["n1"], [])


@pytest.mark.parametrize("revision", ENDS)
async def test_its_questions_go_to_the_extension(revision: Revision) -> None:
    """As requests in the legacy era, as input requests in the modern."""

    async def answer(params: Mapping[str, Any]) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"got": params["x"]}

    extension = ClientExtension("a.b/c", request_handlers={"notes/which": answer})
    server = ScriptedServer(revision)
    question = {"method": "notes/which", "params": {"x": 1}}
    rounds = [{"resultType": "input_required", "inputRequests": {"q": question}}, server.complete(content=[])]
    server.script["tools/call"] = lambda _: rounds.pop(0)
    async with open_client(server, revision=revision, extensions=[extension]) as client:
        if revision.is_modern:
            await client.call_tool("x")
            assert server.requests("tools/call")[1]["params"]["inputResponses"] == {"q": {"got": 1}}
        else:
            assert (await server.ask("notes/which", {"x": 1}))["result"] == {"got": 1}


def test_an_identifier_has_a_prefix(subtests: pytest.Subtests) -> None:
    """basic/versioning: the rules of `_meta` keys, with a mandatory prefix."""
    for identifier in ("notes", "/notes", "1a/b", "a-/b", "a..b/c", "a/-b", "a/b-", "a b/c", "", "a/b/c"):
        with (
            subtests.test(identifier=identifier),
            pytest.raises(ValueError, match="an extension is called prefix/name"),
        ):
            ClientExtension(identifier)


@pytest.mark.parametrize("identifier", ["io.modelcontextprotocol/tasks", "a/b", "a-b.c1/x.y_z-1", "com.example/"])
def test_identifiers_that_are_allowed(identifier: str) -> None:
    assert ClientExtension(identifier).identifier == identifier


async def _answer(_: object) -> Mapping[str, Any]:
    raise NotImplementedError


@pytest.mark.parametrize(
    "claims",
    [
        {"result_types": {"complete": finish}},
        {"result_types": {"input_required": finish}},
        {"notification_handlers": {"notifications/message": print}},
        {"request_handlers": {"roots/list": _answer}},
        {"request_handlers": {"sampling/createMessage": _answer}},
    ],
)
def test_what_is_the_protocols_own_cannot_be_claimed(claims: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"a\.b/c claims the .*, which is the protocol's own"):
        ClientExtension("a.b/c", **claims)


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        (NOTES, ClientExtension("com.example/notes"), "identifier com.example/notes"),
        (NOTES, ClientExtension("a.b/c", result_types={"task": finish}), "result type task"),
    ],
)
async def test_two_extensions_cannot_claim_the_same(
    one: ClientExtension, other: ClientExtension, what: str
) -> None:
    with pytest.raises(ValueError, match=f"two extensions have the {what}"):
        async with open_client(ScriptedServer(MODERN), extensions=[one, other]):
            pass
