"""HTTP+SSE behind a proxy that removes the beginning of the path: the endpoint that the server names lacks it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Literal

import pytest
import trio.testing
from http_mcp import HttpCall, McpScript, result

from trio_mcp import HttpServerParameters, HttpServerSettings, McpASGI, RequestError, Server, open_client


class Proxy:
    """Forwards what is below a prefix without it, and knows nothing else."""

    def __init__(self, app: Any, prefix: str, status: int = 404) -> None:
        self.app = app
        self.prefix = prefix
        self.status = status
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        self.asked.append(f"{scope['method']} {scope['path']}")
        if not scope["path"].startswith(f"{self.prefix}/"):
            fields = [(b"content-type", b"text/html; charset=utf-8"), (b"location", b"/elsewhere")]
            await send({"type": "http.response.start", "status": self.status, "headers": fields})
            await send({"type": "http.response.body", "body": b"<html>not here</html>"})
            return
        path = scope["path"].removeprefix(self.prefix)
        await self.app({**scope, "path": path, "raw_path": path.encode()}, receive, send)


def posted_at(app: Any, own: str, shown: str) -> Any:
    """Return an application that says and takes another path than its own for messages."""

    async def renamed(scope: Any, receive: Any, send: Any) -> None:
        async def tell(message: Any) -> None:
            body = message.get("body", b"").replace(f"data: {own}?".encode(), f"data: {shown}?".encode())
            await send({**message, "body": body} if body else message)

        if scope["type"] == "http" and scope["path"] == shown:
            scope = {**scope, "path": own, "raw_path": own.encode()}
        await app(scope, receive, tell)

    return renamed


def make_server() -> Server:
    server = Server("small")

    @server.tool
    async def add(a: int, b: int) -> int:
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
            settings = HttpServerSettings(sse=sse_path)
            app = posted_at(McpASGI(make_server(), settings), settings.sse_paths[1], messages_path)
            proxy = Proxy(app, prefix)
            url = f"http://localhost{prefix}{sse_path}"
            parameters = HttpServerParameters(url, app=proxy, transport=transport)
            async with open_client(parameters) as client:
                assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
            strays = [each for each in proxy.asked if prefix and not each.split()[1].startswith(prefix)]
            assert strays == ([f"POST {messages_path}"] if prefix else [])


async def test_what_the_wrong_address_answers_does_not_matter(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """There may be another application, a page that answers for all that is not there, or a gateway to nothing."""
    for status in (200, 301, 308, 400, 401, 403, 404, 405, 502, 503):
        for sse_path, messages_path in (("/sse", "/messages"), ("/sse/", "/messages/")):
            with subtests.test(status=status, sse_path=sse_path):
                settings = HttpServerSettings(sse=sse_path)
                proxy = Proxy(McpASGI(make_server(), settings), "/proxy", status)
                url = f"http://localhost/proxy{sse_path}"
                async with open_client(HttpServerParameters(url, app=proxy, transport="sse")) as client:
                    assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
                posts = [each for each in dict.fromkeys(proxy.asked) if each.startswith("POST")]
                if status == 308:
                    posts.remove("POST /elsewhere")  # which is followed, in vain
                assert posts == [f"POST {messages_path}", f"POST /proxy{messages_path}"]


@pytest.mark.parametrize(("body", "is_taken"), [(b"OK", True), (b"<!doctype html>", False)])
async def test_a_page_is_no_endpoint(body: bytes, is_taken: bool, autojump_clock: trio.testing.MockClock) -> None:
    """A request would wait for ever. A word that a framework calls HTML is none."""
    streams: list[HttpCall] = []

    async def serve(call: HttpCall) -> None:
        if call.method == "GET":
            await call.stream()
            streams.append(call)
            await call.event(b"/messages", event="endpoint")
            await call.wait_gone()
            return
        await call.answer(body, 200, "text/html")
        if call.rpc == "initialize" and is_taken:
            info = {"name": "s", "version": "1"}
            await streams[0].event(
                result(call.id, protocolVersion="2024-11-05", capabilities={}, serverInfo=info)
            )

    parameters = HttpServerParameters("http://localhost/sse", app=McpScript(serve), transport="sse")
    with nullcontext() if is_taken else pytest.raises(RequestError, match="status 200"):
        async with open_client(parameters) as client:
            assert client.revision == "2024-11-05"


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
