"""What sessions cost while nothing happens in them, and that they end. Some of it in real time."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from trio_mcp import HttpServerParameters, HttpServerSettings, McpASGI, Server, open_client


async def test_a_client_begins_again_when_its_session_was_idle_for_too_long(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """2025-11-25, basic/transports, "Session Management" 4: once, and the call that was refused is made again."""
    server: Server[Any] = Server("idle")
    begun: list[str] = []
    runs: list[int] = []

    @server.tool
    async def count() -> int:
        runs.append(1)
        return len(runs)

    asgi = McpASGI(server, HttpServerSettings(session_idle_timeout=60))

    async def without_streams(scope: Any, receive: Any, send: Any) -> None:
        """A client whose stream is open is not idle."""
        if scope["type"] == "http" and scope["method"] == "GET":
            await send({"type": "http.response.start", "status": 405, "headers": [(b"allow", b"POST")]})
            await send({"type": "http.response.body"})
            return

        async def sending(message: Any) -> None:
            names = [name.lower() for name, _ in message.get("headers", ())]
            begun.extend("" for name in names if name == b"mcp-session-id")
            await send(message)

        await asgi(scope, receive, sending)

    parameters = HttpServerParameters("http://localhost:8000/mcp", app=without_streams)
    async with open_client(parameters, revision="2025-11-25") as client:
        assert (await client.call_tool("count")).structured_content == {"result": 1}
        assert (len(begun), server._application.changes.receivers) == (1, 1)
        await trio.sleep(61)
        assert server._application.changes.receivers == 0
        results: list[object] = []

        async def call() -> None:
            results.append((await client.call_tool("count")).structured_content)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(call)
        assert (len(begun), server._application.changes.receivers) == (2, 1)
        assert len(results) == 5
        assert len(runs) == 6
