"""Extensions of a server, and of a client that knows them (2026-07-28, basic/versioning, "Extension Negotiation")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS, LEGACY_ENDS
from wires import ScriptedChannel

from trio_mcp import (
    ClientExtension,
    Context,
    ExtensionResult,
    NotificationContext,
    RequestError,
    Revision,
    Server,
    ServerExtension,
    open_client,
)
from trio_mcp.types import CallToolResult, TextContent

NOTES = "com.example/notes"
MODERN = Revision.V2026_07_28
LEGACY = [revision for revision in Revision if not revision.is_modern]


class Notes:
    """An extension with something of everything."""

    def __init__(self) -> None:
        self.heard: list[Mapping[str, Any]] = []

        async def read(params: Mapping[str, Any], ctx: Context[Any]) -> object:
            await trio.lowlevel.checkpoint()
            return {"note": params["id"], "settings": dict(ctx.client_extensions[NOTES])}

        async def hear(params: Mapping[str, Any], ctx: NotificationContext) -> None:
            await trio.lowlevel.checkpoint()
            self.heard.append(params)

        async def jot(text: str) -> str:
            """Jot something down."""
            return text

        self.extension = ServerExtension(
            NOTES,
            settings={"max": 5},
            request_handlers={"notes/read": read},
            notification_handlers={"notifications/notes/torn": hear},
            result_types=["note"],
            tools=[jot],
        )
        self.server = Server("notes", extensions=[self.extension])

        @self.server.tool
        async def write(text: str, ctx: Context[Any]) -> str | ExtensionResult:
            return ExtensionResult("note", {"id": 7}) if NOTES in ctx.client_extensions else f"wrote {text}"

        @self.server.tool
        async def force() -> ExtensionResult:
            return ExtensionResult("note", {"id": 8})

        @self.server.tool
        async def foreign() -> ExtensionResult:
            return ExtensionResult("unknown")


async def finish(
    client: Any, method: str, params: Mapping[str, Any], result: Mapping[str, Any]
) -> dict[str, Any]:
    note = await client.request("notes/read", {"id": result["id"]})
    return {"content": [{"type": "text", "text": f"note {note['note']}"}]}


KNOWN = ClientExtension(NOTES, settings={"colour": "red"}, result_types={"note": finish})


def text(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("revision", ENDS)
async def test_both_sides_know_it(revision: Revision) -> None:
    """SEP-2133, "Negotiation": it is declared in `initialize`, too."""
    notes = Notes()
    async with open_client(notes.server, revision=revision, extensions=[KNOWN]) as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.extensions == {NOTES: {"max": 5}}
        assert [tool.name for tool in await client.list_tools()] == ["jot", "write", "force", "foreign"]
        assert text(await client.call_tool("write", {"text": "x"})) == "note 7"
        answer = await client.request("notes/read", {"id": 1})
        assert (answer["note"], answer["settings"]) == (1, {"colour": "red"})
        await client.notify("notifications/notes/torn", {"id": 1})
        await client.ping()
        await trio.testing.wait_all_tasks_blocked()
        assert [params["id"] for params in notes.heard] == [1]


async def test_a_modern_client_that_does_not_know_it_gets_an_error_that_names_it() -> None:
    async with open_client(Notes().server, revision=MODERN) as client:
        assert text(await client.call_tool("write", {"text": "x"})) == "wrote x"
        assert text(await client.call_tool("jot", {"text": "y"})) == "y"
        for attempt in (client.request("notes/read", {"id": 1}), client.call_tool("force")):
            with pytest.raises(RequestError) as caught:
                await attempt
            assert caught.value.code == -32021
            assert caught.value.data == {"requiredCapabilities": {"extensions": {NOTES: {}}}}


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_legacy_client_that_does_not_know_it_gets_an_error_that_names_it(revision: Revision) -> None:
    async with open_client(Notes().server, revision=revision) as client:
        assert text(await client.call_tool("write", {"text": "x"})) == "wrote x"
        for attempt in (client.request("notes/read", {"id": 1}), client.call_tool("force")):
            with pytest.raises(
                RequestError, match=r"has not declared the extension com\.example/notes"
            ) as caught:
                await attempt
            assert caught.value.code == -32601


async def test_a_type_of_result_that_no_extension_adds_is_our_mistake(caplog: pytest.LogCaptureFixture) -> None:
    async with open_client(Notes().server, revision=MODERN, extensions=[KNOWN]) as client:
        with pytest.raises(RequestError, match="internal error"):
            await client.call_tool("foreign")
    assert "no extension of this server adds the result type 'unknown'" in caplog.text


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: ServerExtension("notes"), "prefix/name"),
        (lambda: ServerExtension(NOTES, result_types=["complete"]), "the protocol's own"),
        (lambda: ServerExtension(NOTES, request_handlers={"tools/list": print}), "claims the method tools/list"),
        (lambda: ExtensionResult("input_required"), "the protocol's own"),
        (lambda: Server("s", extensions=[ServerExtension(NOTES)] * 2), "two extensions claim the identifier"),
        (
            lambda: Server(
                "s", extensions=[ServerExtension(f"a.b/{n}", result_types=["same"]) for n in ("one", "two")]
            ),
            "two extensions claim the result type same",
        ),
    ],
)
def test_what_is_not_theirs_is_refused(make: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make()


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
async def test_odd_capabilities_of_a_client_do_not_cost_the_connection(
    subtests: pytest.Subtests, revision: Revision
) -> None:
    """What is no object is declared without settings, or with ``false`` and ``null`` not declared."""

    async def check(odd: object) -> None:
        channel, server = ScriptedChannel(), Notes().server
        seen: list[bool] = []

        @server.tool
        async def look(ctx: Context[Any]) -> None:
            seen.extend([ctx.client_capabilities.roots is not None, NOTES in ctx.client_extensions])

        capabilities = {"roots": odd, "extensions": {NOTES: odd}}
        params: dict[str, Any] = {}
        if revision.is_modern:
            said = {"protocolVersion": revision, "clientCapabilities": capabilities}
            params["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in said.items()}
        else:
            client = {"name": "odd", "version": "1"}
            hello = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client}
            channel.say({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        channel.say(
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {**params, "name": "look"}},
            {"jsonrpc": "2.0", "id": 3, "method": "notes/read", "params": {**params, "id": 5}},
        )
        channel.hang_up()
        await server.serve_channel(channel)
        is_declared = odd in (True, [])
        assert seen == [is_declared, is_declared]
        (note,) = [message for message in channel.sent if message["id"] == 3]
        assert (note.get("result", {}).get("settings") == {}) is is_declared

    rows: list[object] = [True, [], False, None]
    for odd in rows:
        with subtests.test(odd=odd):
            await check(odd)
