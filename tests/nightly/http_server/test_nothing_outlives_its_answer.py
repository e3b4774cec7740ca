"""What a request brought goes with its answer, and not when the garbage collector happens to come."""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Generator
from typing import Any

import pytest
import trio
import trio.testing
from http_raw import Raw, call_tool, modern, open_raw

from trio_mcp import Context, Server, ToolError

pytestmark = pytest.mark.usefixtures("under", "no_collector")

BALLAST = 5_001
"""How many arrays each request brings, by which what is left of it is found."""

HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


@pytest.fixture
def no_collector(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Only what nothing refers to goes; no log either, for this program keeps its records."""
    monkeypatch.setattr(logging.getLogger("trio_mcp"), "disabled", True)
    for name in ("http", "server", "peer"):
        monkeypatch.setattr(logging.getLogger(f"trio_mcp.{name}"), "disabled", True)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def make_server() -> Server[Any]:
    server: Server[Any] = Server("forgetful")

    @server.tool
    async def echo(text: Any) -> str:
        return str(len(text))

    @server.tool
    async def number(text: int) -> str:
        return str(text)

    @server.tool
    async def refuse(text: Any) -> str:
        raise ToolError("no")

    @server.tool
    async def fail(text: Any) -> str:
        raise ValueError("no")

    @server.tool
    async def wait(text: Any) -> str:
        await trio.sleep(0.01)
        return "done"

    @server.tool
    async def tell(text: Any, *, ctx: Context) -> str:
        await ctx.report_progress(1)
        return "done"

    @server.resource("memo://a")
    async def memo() -> str:
        return "a"

    return server


def loaded(message: dict[str, Any]) -> bytes:
    """Return a message with its ballast, of which this program makes no objects."""
    return json.dumps(message).encode().replace(b'"ballast"', b"[" + b"[]," * (BALLAST - 1) + b"[]]")


def left() -> int:
    """How many requests are still in memory."""
    return sum(type(each) is list and len(each) == BALLAST for each in gc.get_objects())


FIELDS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2026-07-28",
}


def fields_of(message: dict[str, Any], **fields: str) -> dict[str, str | None]:
    name = message["params"].get("name", message["params"].get("uri"))
    named: dict[str, str | None] = {} if name is None else {"Mcp-Name": name}
    return {**FIELDS, "Mcp-Method": message["method"], **named, **fields}


MESSAGES: dict[str, dict[str, Any]] = {
    "a result": call_tool("echo", text="ballast"),
    "arguments that do not fit": call_tool("number", text="ballast"),
    "a tool that refuses": call_tool("refuse", text="ballast"),
    "a tool that fails": call_tool("fail", text="ballast"),
    "a tool that waits": call_tool("wait", text="ballast"),
    "a tool that reports progress": call_tool("tell", _meta={"progressToken": 1}, text="ballast"),
    "a tool that is none": call_tool("nothing", text="ballast"),
    "a method that is none": modern("tools/nothing", text="ballast"),
    "parameters beside those there are": modern("tools/list", text="ballast"),
    "a cursor that is none": modern("tools/list", cursor="ballast"),
    "a resource": modern("resources/read", uri="memo://a", text="ballast"),
    "a resource that is none": modern("resources/read", uri="memo://b", text="ballast"),
    "a prompt that is none": modern("prompts/get", name="nothing", arguments={"text": "ballast"}),
    "a notification": {
        "jsonrpc": "2.0",
        "method": "notifications/x",
        "params": modern("x", text="ballast")["params"],
    },
}


async def test_nothing_of_a_modern_request_outlives_its_answer(subtests: pytest.Subtests) -> None:
    """Whatever becomes of it. A cycle would keep it for as long as the collector finds nothing else to do."""
    for what in MESSAGES:
        gc.collect()  # a row that has failed is no other's failure
        with subtests.test(what=what):
            message = MESSAGES[what]
            async with open_raw(make_server()) as raw:
                for _ in range(3):
                    await raw.send(loaded(message), fields_of(message))
                    await trio.testing.wait_all_tasks_blocked()
                    assert left() == 0


async def test_nothing_of_a_request_outlives_its_refusal(subtests: pytest.Subtests) -> None:
    """Header fields that say something else than the body."""
    for field in ("Mcp-Method", "Mcp-Name", "MCP-Protocol-Version"):
        gc.collect()
        with subtests.test(field=field):
            message = call_tool("echo", text="ballast")
            async with open_raw(make_server()) as raw:
                await raw.send(loaded(message), fields_of(message, **{field: "2020-01-01"}))
                await trio.testing.wait_all_tasks_blocked()
                assert left() == 0


async def _session(raw: Raw) -> dict[str, str | None]:
    begun = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE}
    answer = await raw.send(begun)
    fields: dict[str, str | None] = {
        "Mcp-Session-Id": answer.headers["mcp-session-id"],
        "MCP-Protocol-Version": "2025-11-25",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    await raw.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, fields)
    return fields


async def test_nothing_of_a_request_to_a_session_outlives_its_answer(subtests: pytest.Subtests) -> None:
    """The session goes on, and keeps nothing of it."""
    for what in MESSAGES:
        gc.collect()  # a row that has failed is no other's failure
        with subtests.test(what=what):
            message = dict(MESSAGES[what])
            message["params"] = {key: value for key, value in message["params"].items() if key != "_meta"}
            async with open_raw(make_server()) as raw:
                fields = await _session(raw)
                for id in range(1, 4):
                    if "id" in message:
                        message["id"] = id
                    await raw.send(loaded(message), fields)
                    await trio.testing.wait_all_tasks_blocked()
                    # What a session does is done by tasks that last, and hold what they did last.
                    assert left() <= 1
                await raw.send({"jsonrpc": "2.0", "id": 9, "method": "ping"}, fields)
                await trio.testing.wait_all_tasks_blocked()
                assert left() <= 1
