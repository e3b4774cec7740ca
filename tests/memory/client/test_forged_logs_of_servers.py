"""Whatever a server says, and whatever a child process writes: no record, error or line of ours is forged by it."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing
from eras import ENDS
from scripted_server import ScriptedServer
from shared.client_forged_logs_of_servers import NASTY, check_log, check_text
from wires import answer, refusal

from trio_mcp import (
    ConnectionLost,
    McpError,
    RequestError,
    Revision,
    ToolError,
    open_client,
)


@pytest.mark.parametrize("revision", ENDS)
async def test_what_a_server_says_forges_nothing(
    revision: Revision, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Answers, errors, items of lists, questions and notifications."""
    server = ScriptedServer(revision, capabilities={"tools": {}, "prompts": {}, "logging": {}})
    server.script["tools/list"] = server.complete(
        tools=[{"name": NASTY, "inputSchema": NASTY}, {NASTY: NASTY}], ttlMs=0, cacheScope="private"
    )
    server.script["tools/call"] = server.complete(content=[{"type": "text", "text": NASTY}], isError=True)
    server.script["prompts/get"] = lambda message: refusal(message, -32602, NASTY)
    server.script["prompts/list"] = lambda message: answer(message, {NASTY: NASTY, "prompts": NASTY})

    async def on_log(_: object) -> None:
        raise AssertionError("called with what cannot be read")

    errors: list[BaseException] = []
    with caplog.at_level(logging.DEBUG, "trio_mcp"):
        async with open_client(server, revision=revision, on_log=on_log) as client:
            server.say(
                NASTY.encode(),
                [NASTY],
                {"jsonrpc": "2.0", "id": NASTY, "result": {}},
                {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": NASTY, "data": NASTY}},
                {"jsonrpc": "2.0", "id": NASTY, "error": {"code": NASTY, "message": 5}},
                {"jsonrpc": "2.0", "id": NASTY, "method": NASTY, "params": {NASTY: NASTY}},
                {"jsonrpc": "2.0", "method": NASTY, "params": {}},
                {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": NASTY, "data": NASTY}},
                {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": NASTY}},
                {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {NASTY: NASTY}},
            )
            async for _ in client.list_tools():
                pass
            for call in (
                lambda: client.call_tool("x", returns=str),
                lambda: client.get_prompt("x"),
                lambda: client.request("no/such", {}),
                lambda: client.read_resource("x:y"),
            ):
                with pytest.raises(McpError) as caught:
                    await call()
                errors.append(caught.value)
            with pytest.raises(McpError) as caught:
                async for _prompt in client.list_prompts():
                    pass
            errors.append(caught.value)
            await trio.testing.wait_all_tasks_blocked()
            server.hang_up(ConnectionLost(NASTY))
            with pytest.raises(ConnectionLost) as lost:
                while True:
                    await client.request("no/such", {})
            errors.append(lost.value)
    assert {type(error) for error in errors} >= {ToolError, RequestError, ConnectionLost}
    for error in errors:
        check_text(str(error))
    check_log(caplog, at_least=4)
