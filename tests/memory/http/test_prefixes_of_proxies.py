"""HTTP+SSE behind a proxy that removes the beginning of the path: the endpoint that the server names lacks it."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import trio.testing
from http_mcp import HttpCall, McpScript

from trio_mcp import HttpServerParameters, HttpServerSettings, McpASGI, RequestError, Server, open_client


class Proxy:
    """Forwards what is below a prefix without it, and knows nothing else."""

    def __init__(self, app: Any, prefix: str) -> None:
        self.app = app
        self.prefix = prefix
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        self.asked.append(f"{scope['method']} {scope['path']}")
        if not scope["path"].startswith(f"{self.prefix}/"):
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b"not here"})
            return
        path = scope["path"].removeprefix(self.prefix)
        await self.app({**scope, "path": path, "raw_path": path.encode()}, receive, send)


def make_server() -> Server:
    server = Server("small")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    return server


async def test_the_prefix_goes_before_the_endpoint(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """It is tried once, when the first POST finds nothing."""
    rows: list[tuple[str, str, str, Literal["auto", "sse"]]] = [
        ("/proxy", "/sse", "/messages", "sse"),
        ("/proxy", "/sse", "/messages", "auto"),
        ("/a/b", "/sse", "/messages/", "sse"),
        ("/proxy", "/mcp/sse", "/mcp/messages", "sse"),
        ("/proxy", "/mcp/sse", "/mcp/messages/in", "sse"),
        ("", "/a/sse/", "/a/messages", "sse"),
        ("", "/a/sse", "/messages", "sse"),
    ]
    for prefix, sse_path, messages_path, transport in rows:
        with subtests.test(prefix=prefix, sse_path=sse_path, messages_path=messages_path, transport=transport):
            settings = HttpServerSettings(sse=True, sse_path=sse_path, messages_path=messages_path)
            proxy = Proxy(McpASGI(make_server(), settings), prefix)
            url = f"http://localhost{prefix}{sse_path}"
            parameters = HttpServerParameters(url, app=proxy, transport=transport)
            async with open_client(parameters) as client:
                assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
            strays = [each for each in proxy.asked if prefix and not each.split()[1].startswith(prefix)]
            assert strays == ([f"POST {messages_path}"] if prefix else [])


async def test_what_is_nowhere_is_said_of_the_endpoint_that_was_named(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def serve(call: HttpCall) -> None:
        if call.method == "GET":
            await call.stream()
            await call.event(b"/messages", event="endpoint")
            await call.wait_gone()
        else:
            await call.answer(f"nothing at {call.path}".encode(), 404, "text/plain")

    script = McpScript(serve)
    with pytest.raises(RequestError, match="nothing at /messages"):
        async with open_client(HttpServerParameters("http://localhost/proxy/sse", app=script, transport="sse")):
            raise AssertionError
    assert [call.path for call in script.calls if call.method == "POST"] == ["/messages", "/proxy/messages"]
