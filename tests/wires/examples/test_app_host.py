"""The example host, without a browser: what it serves, from which origin, by which policy, and to whom."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import trio
from http_raw import Raw
from inside_http import open_http_client, parse_target
from places import EXAMPLES

from trio_mcp import AppCsp, AppPermissions, Server

HOST: Final[dict[str, Any]] = runpy.run_path(str(EXAMPLES / "app_host.py"))


def curious_server() -> Server[Any]:
    server: Server[Any] = Server("curious")
    csp = AppCsp(connect=["https://api.example.com"])
    server.add_app("ui://curious", "<!doctype html>", csp=csp, permissions=AppPermissions(camera=True))

    @server.tool(ui="ui://curious")
    async def show() -> str:
        return "<b>$view</b>"

    return server


@asynccontextmanager
async def shown(server: Server[Any], tool: str) -> AsyncGenerator[tuple[Raw, str]]:
    """Serve the host, and return what asks it, and its origin."""
    async with trio.open_nursery() as nursery:
        url: str = await nursery.start(partial(HOST["show_app"], server, tool, {}))
        async with open_http_client() as http:
            yield Raw(http, parse_target(url)), url
        nursery.cancel_scope.cancel()


async def test_the_page_and_the_sandbox_are_of_two_origins_with_policies_of_their_own() -> None:
    """SEP-1865, "Sandbox proxy"; what a server writes is shown as text, and fills in nothing."""
    async with shown(curious_server(), "show") as (host, origin):
        page = await host.send(method="GET", path="/")
        text = page.body.decode()
        assert page.status == 200
        assert "<p>&lt;b&gt;$view&lt;/b&gt;</p>" in text
        frame = re.search(r'<iframe id="sandbox" src="([^"]+)" sandbox="([^"]+)" allow="([^"]*)">', text)
        assert frame is not None
        assert frame[2].split() == ["allow-scripts", "allow-same-origin"]
        assert frame[3] == "camera"
        sandbox = urlsplit(frame[1])
        assert f"http://{sandbox.netloc}" != origin
        assert f"frame-src http://{sandbox.netloc};" in page.headers["content-security-policy"]
        other = Raw(host.transport, parse_target(frame[1]))
        inner = await other.send(method="GET", path=f"/?{sandbox.query}")
        policy = inner.headers["content-security-policy"]
        assert "connect-src 'self' https://api.example.com;" in policy
        assert policy.endswith(f"frame-ancestors {origin}")
        assert f'const host = "{origin}";' in inner.body.decode()
        assert (await other.send(method="GET", path="/?guessed")).status == 404


async def test_an_app_speaks_for_itself_only() -> None:
    """Who does not know the name of a view speaks for none; names differ, and the oldest are forgotten."""
    dice = runpy.run_path(str(EXAMPLES / "dice_app.py"))
    async with shown(dice["server"], "roll") as (host, _):

        async def visit() -> str:
            text = (await host.send(method="GET", path="/")).body.decode()
            (view,) = re.findall(r'"/messages\?([^"]+)"', text)
            return str(view)

        async def say(view: str, method: str, id: int | None = None, **params: Any) -> Any:
            message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
            answer = await host.send(json.dumps(message).encode(), path=f"/messages?{view}")
            return json.loads(answer.body) if answer.status == 200 else answer.status

        first = await visit()
        (ready,) = await say(first, "ui/notifications/sandbox-proxy-ready")
        assert ready["params"]["html"] == dice["PAGE"]
        assert await say(first, "ui/initialize", 1, appCapabilities={})
        kept = await say(first, "ui/notifications/initialized")
        assert [message["method"] for message in kept] == [
            "ui/notifications/tool-input",
            "ui/notifications/tool-result",
        ]
        (answer,) = await say(first, "tools/call", 2, name="rolls", arguments={})
        assert answer["result"]["content"][0]["text"] == "1"
        (answer,) = await say(first, "ui/open-link", 3, url="https://example.com")
        assert answer["error"]["code"] == -32601
        assert await say("guessed", "ping", 1) == 404
        assert (await host.send(method="GET", path=f"/messages?{first}")).status == 405
        assert (await host.send(b"", path="/")).status == 405
        names = {await visit() for _ in range(HOST["MAX_VIEWS"])}
        assert len(names) == HOST["MAX_VIEWS"]
        assert await say(first, "ping", 4) == 404
        assert await say(names.pop(), "ping", 4) != 404
