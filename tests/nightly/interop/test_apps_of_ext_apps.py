"""Apps between our half and the other half of ext-apps' own package, in both eras: their server, and their host.

Its view, in a browser, is in `test_apps_in_a_browser.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import trio
from environments import EXT_APPS, node

from trio_mcp import (
    SHOWS_APPS,
    AppCsp,
    AppPermissions,
    AppView,
    Era,
    StdioServerParameters,
    open_client,
    serve_view,
)

HERE: Final = Path(__file__).parent
TYPE: Final = "text/html;profile=mcp-app"

OURS: Final = """
from trio_mcp import AppCsp, AppPermissions, Context, Server

server = Server("ours")
csp = AppCsp(connect=["https://api.example.com"], resource=["https://*.example.com"])
permissions = AppPermissions(geolocation=True, clipboard_write=True)
server.add_app("ui://ours", "<!doctype html>", csp=csp, permissions=permissions, domain="x.example", prefers_border=True)


@server.tool(ui="ui://ours")
async def tell(ctx: Context) -> str:
    return str(ctx.client_apps)


@server.tool(ui="ui://ours", visibility={"app"})
async def refresh() -> str:
    return "fresh"


@server.tool(visibility={"model"})
async def think() -> str:
    return "thought"


server.run()
"""


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_of_theirs_is_shown_by_us(era: Era) -> None:
    """Their `registerAppTool`, `registerAppResource` and `getUiCapability`."""
    EXT_APPS.require()
    program = str(HERE / "servers" / "apps_typescript_2.mjs")
    target = StdioServerParameters(str(node()), [program], cwd=EXT_APPS.directory, stderr=lambda _: None)
    with trio.fail_after(60):
        async with open_client(target, era=era, extensions=[SHOWS_APPS]) as client:
            tools = await client.list_tools()
            assert [tool.name for tool in await client.list_tools(for_model=True)] == ["add"]
            page = await client.read_app(tools[0])
            assert page == await client.read_app(tools[1])
            assert page.html == "<!DOCTYPE html><p>theirs"
            assert page.csp == AppCsp(connect=["https://api.example.com"], frame=["https://video.example.com"])
            assert page.permissions == AppPermissions(microphone=True)
            assert (page.allow, page.prefers_border) == ("microphone", False)
            view = AppView(page=page, tools=tools)
            hello: dict[str, object] = {"appInfo": {}, "appCapabilities": {}}
            await serve_view(
                client, view, {"jsonrpc": "2.0", "id": 0, "method": "ui/initialize", "params": hello}
            )
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "refresh"}}
            (answer,) = await serve_view(client, view, call)
            (block,) = answer["result"]["content"]
            if era == "legacy":  # what is declared with each request, their McpServer does not show
                assert json.loads(block["text"]) == {"mimeTypes": [TYPE]}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_host_of_theirs_shows_a_server_of_ours(tmp_path: Path, mode: str) -> None:
    """Their functions and schemas for what a server says."""
    EXT_APPS.require()
    program = tmp_path / "ours.py"
    program.write_text(OURS, encoding="utf-8")
    host = HERE / "clients" / "apps_typescript_2.mjs"
    command = [str(part) for part in (node(), host, mode, sys.executable, program)]
    ran = subprocess.run(command, cwd=EXT_APPS.directory, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {
        "revision": "2026-07-28" if mode == "auto" else "2025-11-25",
        "declared": {"io.modelcontextprotocol/ui": {}},
        "pages": ["ui://ours", "ui://ours", None],
        "appOnly": [False, True, False],
        "modelOnly": [False, False, True],
        "mimeType": TYPE,
        "meta": {
            "csp": {
                "connectDomains": ["https://api.example.com"],
                "resourceDomains": ["https://*.example.com"],
            },
            "permissions": {"geolocation": {}, "clipboardWrite": {}},
            "domain": "x.example",
            "prefersBorder": True,
        },
        "allow": "geolocation; clipboard-write",
        "told": f"('{TYPE}',)",
    }
