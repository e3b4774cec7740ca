"""Hosts: the tools that a model may see, the page of a tool, and what a page asks for."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio

from trio_mcp import (
    SHOWS_APPS,
    AppCsp,
    AppPermissions,
    AppView,
    Client,
    Context,
    RemoteProtocolError,
    RequestError,
    Server,
    ToolError,
    ViewAsk,
    open_client,
    open_clients,
    serve_view,
)

HTML = "<!doctype html><title>clock</title>"
TYPE = "text/html;profile=mcp-app"


def clock_server(happened: list[str] | None = None) -> Server[Any]:
    server: Server[Any] = Server("clock")
    server.add_app(
        "ui://clock", HTML, csp=AppCsp(connect=("https://a.example",)), permissions=AppPermissions(camera=True)
    )
    happened = [] if happened is None else happened

    @server.tool(ui="ui://clock")
    async def tell(zone: str = "UTC") -> dict[str, str]:
        return {"time": f"noon in {zone}"}

    @server.tool(visibility={"app"})
    async def wind() -> str:
        return "wound"

    @server.tool(visibility={"model"})
    async def smash() -> str:
        happened.append("smashed")
        return "smashed"

    @server.tool
    async def fail() -> str:
        raise ToolError("no spring")

    @server.tool
    async def wait(ctx: Context[Any]) -> None:
        happened.append("waiting")
        try:
            await trio.sleep_forever()
        finally:
            happened.append("cleaned up")

    return server


async def test_a_model_sees_no_tools_that_are_for_apps() -> None:
    """SEP-1865, "Visibility": by item, by page and all at once; and in a group."""
    async with open_client(clock_server(), extensions=[SHOWS_APPS]) as client:
        assert [tool.name for tool in await client.list_tools()] == ["tell", "wind", "smash", "fail", "wait"]
        seen = ["tell", "smash", "fail", "wait"]
        assert [tool.name for tool in await client.list_tools(for_model=True)] == seen
        assert [tool.name async for tool in client.list_tools(for_model=True)] == seen
        page = await anext(client.list_tools(for_model=True).pages())
        assert [tool.name for tool in page.tools] == seen
        assert len(await client.list_tools()) == 5, "what is cached is whole"
    async with open_clients({"one": clock_server(), "two": clock_server()}) as group:
        await group.wait_ready()
        assert len(await group.list_tools()) == 10
        assert len(await group.list_tools(for_model=True)) == 8


async def test_the_page_of_a_tool_is_read_with_its_policies() -> None:
    async with open_client(clock_server()) as client:
        tell, wind, *_ = await client.list_tools()
        page = await client.read_app(tell)
        assert (page.uri, page.html, page.allow) == ("ui://clock", HTML, "camera")
        assert "connect-src 'self' https://a.example;" in page.csp_header
        assert page == await client.read_app("ui://clock", fresh=True)
        with pytest.raises(ValueError, match="the tool wind has no page"):
            await client.read_app(wind)
        with pytest.raises(ValueError, match="begins with ui://"):
            await client.read_app("file:///etc/passwd")
        with pytest.raises(RequestError):
            await client.read_app("ui://another")
        with pytest.raises(TypeError, match="tool takes"):
            await cast("Any", client).read_app(7)
        with pytest.raises(ValueError, match="max_bytes"):
            await client.read_app("ui://clock", max_bytes=0)


@asynccontextmanager
async def server_with(*contents: Any) -> AsyncGenerator[Client]:
    server: Server[Any] = Server("strange")

    @server.request_handler("resources/read")
    async def read(params: Any, ctx: Context[Any]) -> object:
        await trio.lowlevel.checkpoint()
        return {"contents": list(contents)}

    async with open_client(server) as client:
        yield client


def text(html: str = HTML, kind: str | None = TYPE, **meta: Any) -> dict[str, Any]:
    return {"uri": "ui://clock", "text": html, "_meta": meta, **({} if kind is None else {"mimeType": kind})}


def blob(data: bytes | str) -> dict[str, Any]:
    encoded = base64.b64encode(data).decode() if isinstance(data, bytes) else data
    return {"uri": "ui://clock", "blob": encoded, "mimeType": TYPE}


async def test_what_is_no_page_is_not_shown(subtests: pytest.Subtests) -> None:
    rows: list[tuple[list[Any], str]] = [
        ([], "0 contents"),
        ([text(), text()], "2 contents"),
        ([text(kind="text/html")], "type 'text/html'"),
        ([text(kind=None)], "type None"),
        ([text(HTML + "x" * 1_000)], "more than max_bytes, 1000"),
        ([text(HTML + "ü" * 490)], "more than max_bytes, 1000"),
        ([blob(HTML.encode() + b"x" * 1_000)], "more than max_bytes, 1000"),
        ([blob(b"x" * 10_000)], "more than max_bytes, 1000"),
        ([blob("*")], "no text in base64"),
        ([blob("é")], "no text in base64"),
        ([blob(b"\xff\xfe")], "no text in base64"),
        ([text(ui="x")], "no object"),
        ([text(ui={"csp": {"connectDomains": ["*"]}})], "csp that cannot be used"),
    ]
    for contents, problem in rows:
        with subtests.test(contents=contents, problem=problem):
            async with server_with(*contents) as client:
                with pytest.raises(RemoteProtocolError, match=problem):
                    await client.read_app("ui://clock", max_bytes=1_000)


async def test_a_page_may_come_in_base64() -> None:
    """SEP-1865, "Content Requirements"."""
    async with server_with(blob(HTML.encode())) as client:
        page = await client.read_app("ui://clock")
        assert page.html == HTML
        assert "connect-src 'none'" in page.csp_header
    async with server_with(text("<p>clock", kind="text/html; profile=mcp-app")) as client:
        assert (await client.read_app("ui://clock")).html == "<p>clock", "browsers take that, and so do hosts"


def request(method: str, params: Any = None, id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


async def view_of(client: Client, **options: Any) -> AppView:
    tools = await client.list_tools()
    view = AppView(page=await client.read_app(tools[0]), tools=tools, tool=tools[0], **options)
    (answer,) = await serve_view(client, view, request("ui/initialize", {"appCapabilities": {}}, 0))
    assert answer["result"]["hostContext"]["toolInfo"]["tool"]["name"] == "tell"
    await serve_view(client, view, {"jsonrpc": "2.0", "method": "ui/notifications/initialized"})
    assert view.is_initialized
    return view


async def test_a_page_uses_its_server_through_its_host() -> None:
    happened: list[str] = []
    async with open_client(clock_server(happened)) as client:
        view = await view_of(client)
        call = request("tools/call", {"name": "tell", "arguments": {"zone": "Bern"}})
        (answer,) = await serve_view(client, view, call)
        assert answer["id"] == 1
        assert answer["result"]["structuredContent"] == {"time": "noon in Bern"}
        assert "resultType" not in answer["result"]
        (answer,) = await serve_view(client, view, request("tools/call", {"name": "wind"}))
        assert answer["result"]["content"] == [{"type": "text", "text": "wound"}]
        (answer,) = await serve_view(client, view, request("tools/call", {"name": "fail"}))
        assert answer["result"]["isError"] is True
        (answer,) = await serve_view(client, view, request("tools/call", {"name": "smash"}))
        assert "not for apps" in answer["error"]["message"]
        assert not happened, "it has not reached the server"
        (answer,) = await serve_view(client, view, request("resources/read", {"uri": "ui://clock"}))
        assert answer["result"]["contents"][0]["text"] == HTML
        (answer,) = await serve_view(client, view, request("resources/read", {"uri": "ui://no"}))
        assert answer["error"]["code"] == -32602
        assert await serve_view(client, view, "no message") == []


async def test_a_call_that_is_given_up_is_cancelled_and_frees_its_place() -> None:
    happened: list[str] = []
    async with open_client(clock_server(happened)) as client:
        view = await view_of(client, max_open_requests=1)
        for number in range(3):
            with trio.move_on_after(0.05) as scope:
                await serve_view(client, view, request("tools/call", {"name": "wait"}, number))
            assert scope.cancelled_caught
        while happened.count("cleaned up") < 3:
            await trio.sleep(0.01)
        (answer,) = await serve_view(client, view, request("tools/call", {"name": "wind"}))
        assert "result" in answer


async def test_a_server_that_is_silent_costs_the_page_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """And nobody else: the host's loop of messages goes on."""
    happened: list[str] = []
    async with open_client(clock_server(happened), request_timeout=0.05) as client:
        view = await view_of(client, max_open_requests=1, offers=["ui/open-link"])
        for number in range(2):
            (answer,) = await serve_view(client, view, request("tools/call", {"name": "wait"}, number))
            assert answer["error"] == {"code": -32603, "message": "the server could not be asked"}
        assert "was not answered within 0.05 s (request_timeout)" in caplog.text

        def slow(ask: ViewAsk) -> None:
            raise trio.TooSlowError

        with pytest.raises(trio.TooSlowError):  # which is the host's own
            await serve_view(client, view, request("ui/open-link", {"url": "https://a.example"}), on_ask=slow)


async def test_a_host_does_what_is_left() -> None:
    asked: list[ViewAsk] = []

    async def do(ask: ViewAsk) -> dict[str, Any] | None:
        asked.append(ask)
        await trio.lowlevel.checkpoint()
        if ask.method == "ui/message":
            raise RequestError(-32000, "not now")
        return None

    link = request("ui/open-link", {"url": "https://a.example"})
    message = request("ui/message", {"role": "user", "content": {"type": "text", "text": "x"}})
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
    async with open_client(clock_server()) as client:
        view = await view_of(client, offers=["ui/open-link", "ui/message"])
        (answer,) = await serve_view(client, view, link, on_ask=do)
        assert answer["result"] == {}
        (answer,) = await serve_view(client, view, message, on_ask=do)
        assert answer["error"] == {"code": -32000, "message": "not now"}
        assert await serve_view(client, view, log, on_ask=do) == []
        assert [ask.method for ask in asked] == ["ui/open-link", "ui/message", "notifications/message"]

        def refuse(ask: ViewAsk) -> None:
            raise RequestError(-32000, ask.method)

        assert await serve_view(client, view, log, on_ask=refuse) == []
        (answer,) = await serve_view(client, view, link)
        assert "does not serve" in answer["error"]["message"]
        assert await serve_view(client, view, log) == []
        (answer,) = await serve_view(client, view, link, on_ask=lambda ask: {"opened": ask.params["url"]})
        assert answer["result"] == {"opened": "https://a.example"}


async def test_a_server_that_is_gone_costs_the_page_an_error() -> None:
    async with open_client(clock_server()) as client:
        view = await view_of(client)
        await client.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await serve_view(client, view, request("tools/call", {"name": "wind"}))
