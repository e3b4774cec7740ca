"""Pages of a server: what is declared, listed and read in each era, and what an author is told."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import trio
from eras import ENDS
from inside_base import repetitions

from trio_mcp import (
    SHOWS_APPS,
    AppCsp,
    AppPermissions,
    Client,
    ClientExtension,
    Context,
    Limits,
    RequestError,
    Revision,
    Server,
    ServerExtension,
    ToolError,
    memory_channel_pair,
    open_client,
)
from trio_mcp.types import CallToolResult, ImageContent, TextContent

UI = "io.modelcontextprotocol/ui"
HTML = "<!doctype html><title>clock</title>"
TYPE = "text/html;profile=mcp-app"
WITH_META = [revision for revision in Revision if revision >= Revision.V2025_06_18]


def declared(client: Client) -> object:
    return None if client.server_capabilities is None else client.server_capabilities.extensions


def clock_server(**options: Any) -> Server[Any]:
    server: Server[Any] = Server("clock")
    server.add_app("ui://clock", HTML, **options)

    @server.tool(ui="ui://clock", visibility={"app", "model"}, meta={"com.example/x": 1})
    async def tell(ctx: Context[Any]) -> str:
        return f"apps: {ctx.client_apps}"

    return server


@pytest.mark.parametrize("revision", WITH_META)
async def test_a_tool_and_its_page_are_seen(revision: Revision) -> None:
    """SEP-1865, "UI Resource Format", "Resource Discovery"."""
    server = clock_server(
        csp=AppCsp(connect=["https://a.example"]),
        permissions=AppPermissions(clipboard_write=True),
        domain="clock.example",
        prefers_border=True,
        title="Clock",
        meta={"com.example/y": 2},
    )
    ui: dict[str, object] = {
        "csp": {"connectDomains": ["https://a.example"]},
        "permissions": {"clipboardWrite": {}},
        "domain": "clock.example",
        "prefersBorder": True,
    }
    async with open_client(server, revision=revision) as client:
        assert declared(client) == {UI: {}}
        (tool,) = await client.list_tools()
        assert tool.meta == {
            "com.example/x": 1,
            "ui": {"resourceUri": "ui://clock", "visibility": ["model", "app"]},
            "ui/resourceUri": "ui://clock",
        }
        (listed,) = await client.list_resources()
        assert (listed.uri, listed.name, listed.title, listed.mime_type) == ("ui://clock", "clock", "Clock", TYPE)
        result = await client.read_resource("ui://clock")
        (contents,) = result.contents
        assert (contents.uri, contents.mime_type, result.text) == ("ui://clock", TYPE, HTML)
        assert listed.meta == contents.meta == {"com.example/y": 2, "ui": ui}


@pytest.mark.parametrize("revision", ENDS)
async def test_what_a_client_shows_is_known_in_every_era(revision: Revision) -> None:
    """SEP-1865, "Capability Negotiation"; and who shows no pages gets the text."""
    server = clock_server()
    async with open_client(server, revision=revision, extensions=[SHOWS_APPS]) as client:
        assert declared(client) == {UI: {}}
        assert (await client.call_tool("tell")).text == f"apps: ('{TYPE}',)"
    async with open_client(server, revision=revision, extensions=[ClientExtension(UI)]) as client:
        assert (await client.call_tool("tell")).text == "apps: ()"
    async with open_client(server, revision=revision) as client:
        assert (await client.call_tool("tell")).text == "apps: None"


async def test_a_page_may_be_left_out_of_the_list() -> None:
    """SEP-1865, "Behavior": hosts find it by its tools."""
    async with open_client(clock_server(listed=False)) as client:
        assert await client.list_resources() == []
        assert (await client.read_resource("ui://clock")).text == HTML


async def test_a_page_in_a_file_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "clock.html"
    path.write_text(HTML, encoding="utf-8")
    server: Server[Any] = Server("clock", limits=Limits(max_file_bytes=1_000))
    server.add_app("ui://clock/page.html", path)
    async with open_client(server) as client:
        (listed,) = await client.list_resources()
        assert listed.name == "page.html"
        assert (await client.read_resource("ui://clock/page.html")).text == HTML
        for wrong in ("nothing of a page", HTML + "x" * 1_000):
            path.write_text(wrong, encoding="utf-8")
            with pytest.raises(RequestError, match="Reading the resource failed"):
                await client.read_resource("ui://clock/page.html")
        path.write_text(HTML + "ü", encoding="utf-8")
        assert (await client.read_resource("ui://clock/page.html")).text == HTML + "ü"


async def test_a_server_without_apps_declares_nothing() -> None:
    async with open_client(Server("plain")) as client:
        assert declared(client) is None
    mine: Server[Any] = Server("mine", extensions=[ServerExtension(UI, settings={"x": 1})])
    mine.add_app("ui://clock", HTML)
    async with open_client(mine) as client:
        assert declared(client) == {UI: {"x": 1}}, "its author's own settings stay"


async def test_a_tool_whose_page_is_missing_is_not_served() -> None:
    """SEP-1865, "Behavior": the resource must exist. The error says which tool, and which page."""
    server: Server[Any] = Server("clock")

    @server.tool(ui="ui://clock")
    async def tell() -> str:
        return "noon"

    missing = pytest.raises(
        ValueError, match=r"the tool tell is shown by ui://clock, which this server does not have"
    )
    with missing:
        async with server.open():
            pass
    with missing:
        await server.serve_channel(memory_channel_pair()[1])
    server.add_app("ui://clock", HTML)
    async with server.open():
        pass
    server.disable_resource("ui://clock")
    with missing:
        async with server.open():
            pass
    server.disable_tool("tell")
    async with server.open():
        pass


@pytest.mark.parametrize("uri", ["ui://clock", "ui://{name}"])
async def test_a_page_may_be_any_resource(uri: str) -> None:
    server: Server[Any] = Server("clock")

    @server.tool(ui="ui://clock")
    async def tell() -> str:
        return "noon"

    if uri == "ui://clock":

        @server.resource(uri, mime_type=TYPE)
        async def page() -> str:
            return HTML

    else:

        @server.resource(uri, mime_type=TYPE)
        async def pages(name: str) -> str:
            return HTML + name

    async with open_client(server, extensions=[SHOWS_APPS]) as client:
        assert declared(client) == {UI: {}}
        (tool,) = await client.list_tools()
        assert (await client.read_app(tool)).html.startswith(HTML)


async def test_pages_that_are_read_by_hand_are_not_looked_for() -> None:
    server: Server[Any] = Server("clock")

    @server.tool(ui="ui://clock")
    async def tell() -> str:
        return "noon"

    @server.request_handler("resources/read")
    async def read(params: Any, ctx: Context[Any]) -> object:
        await trio.lowlevel.checkpoint()
        return {"contents": [{"uri": params["uri"], "mimeType": TYPE, "text": HTML}]}

    async with open_client(server) as client:
        assert (await client.read_app("ui://clock")).html == HTML


async def test_a_tool_only_for_apps_is_listed_and_called() -> None:
    """The server refuses nobody: who may call what, the host knows."""
    server = clock_server()

    @server.tool(visibility=["app"])
    async def wind() -> str:
        return "wound"

    async with open_client(server) as client:
        _, tool = await client.list_tools()
        assert tool.meta == {"ui": {"visibility": ["app"]}}
        assert (await client.call_tool("wind")).text == "wound"


async def test_a_result_without_text_is_remarked(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    """SEP-1865, "Graceful Degradation": clients without pages, and models, read it."""

    async def check(returned: Any, warns: bool) -> None:
        caplog.clear()
        repetitions.forget()
        server = clock_server()

        @server.tool(ui="ui://clock")
        async def show() -> Any:
            if isinstance(returned, Exception):
                raise returned
            return returned

        @server.tool
        async def plain() -> Any:
            return returned if not isinstance(returned, Exception) else None

        caplog.set_level(logging.WARNING)
        async with open_client(server) as client:
            await client.call_tool("plain")
            assert not caplog.records
            await client.call_tool("show")
        assert [("no text" in record.getMessage()) for record in caplog.records] == [True] * warns

    rows: list[tuple[Any, bool]] = [
        (None, True),
        ([], True),
        (CallToolResult(content=(), structured_content={"a": 1}), True),
        (ImageContent(data="", mime_type="image/png"), True),
        ("noon", False),
        ({"a": 1}, False),
        (["noon"], False),
        ([TextContent(text="noon"), ImageContent(data="", mime_type="image/png")], False),
        (ToolError("no"), False),
    ]
    for returned, warns in rows:
        with subtests.test(returned=returned, warns=warns):
            await check(returned, warns)


def test_authors_are_told_of_mistakes(tmp_path: Path) -> None:
    server: Any = Server("clock")  # whose programs are not checked
    with pytest.raises(ValueError, match=r"begins with ui://, not 'https://a\.example'"):
        server.add_app("https://a.example", HTML)
    with pytest.raises(
        ValueError, match=r"begins with <!doctype html>, not 'clock\.html': for a file write Path"
    ):
        server.add_app("ui://clock", "clock.html")
    with pytest.raises(ValueError, match=r"begins with <!doctype html>, not '<p>'$"):
        server.add_app("ui://clock", "<p>")
    with pytest.raises(FileNotFoundError):
        server.add_app("ui://clock", tmp_path / "clock.html")
    with pytest.raises(ValueError, match="cannot be registered"):
        server.add_app("ui://a b", HTML)
    with pytest.raises(ValueError, match="meta has ui"):
        server.add_app("ui://clock", HTML, meta={"ui": {}})
    with pytest.raises(TypeError, match="csp takes AppCsp"):
        server.add_app("ui://clock", HTML, csp={"connectDomains": []})
    with pytest.raises(TypeError, match="mime_type"):
        server.add_app("ui://clock", HTML, mime_type="text/html")
    server.add_app("ui://clock", HTML)
    with pytest.raises(ValueError, match="ui://clock"):
        server.add_app("ui://clock", HTML)

    def tell() -> str:
        return "noon"

    with pytest.raises(ValueError, match="ui takes the URI of a page"):
        server.tool(ui="clock.html")(tell)
    with pytest.raises(ValueError, match="meta has ui already"):
        server.tool(ui="ui://clock", meta={"ui": {}})(tell)
    with pytest.raises(ValueError, match="visibility takes"):
        server.tool(visibility=["user"])(tell)
    with pytest.raises(ValueError, match="visibility takes"):
        server.tool(visibility=[])(tell)
    with pytest.raises(ValueError, match="visibility takes 'model' or 'app' in a list, not 'app'"):
        server.tool(visibility="app")(tell)
    server.tool(meta={"ui": {"resourceUri": "ui://by-hand"}})(tell)  # of who does it by hand


async def test_how_often_a_page_is_read_is_bounded_as_for_any_resource() -> None:
    server: Server[Any] = Server("clock")
    server.add_app("ui://clock", HTML, rate="1/hour", ttl=60, scope="public")
    async with open_client(server) as client:
        result = await client.read_resource("ui://clock")
        assert (result.ttl_ms, result.cache_scope) == (60_000, "public")
        with pytest.raises(RequestError, match="1/hour by each client"):
            await client.read_resource("ui://clock", fresh=True)
