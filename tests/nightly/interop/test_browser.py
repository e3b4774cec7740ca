"""A real browser and our WebSockets: a page of an allowed origin calls a tool, and one of another origin cannot."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import pytest
import trio
from chromium import browsing, processes_with
from other_hosts import hosted
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import Route

from trio_mcp import HttpServerSettings, McpASGI, Server, serve_http, serve_websocket

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Debian's browser"),
]

ENOUGH: Final = 280
"""Seconds in which a browser has started and a page has run, on a machine that is busy with other things."""

PAGE: Final = """<!DOCTYPE html>
<title>a client</title>
<output id="shown"></output>
<script>
function ask(url) {
  return new Promise((resolve) => {
    const socket = new WebSocket(url, "mcp");
    const send = (message) => socket.send(JSON.stringify({jsonrpc: "2.0", ...message}));
    let opened = false;
    socket.onopen = () => {
      opened = true;
      const clientInfo = {name: "a page", version: "1"};
      const params = {protocolVersion: "2025-11-25", capabilities: {}, clientInfo};
      send({id: 1, method: "initialize", params});
    };
    socket.onmessage = (event) => {
      const message = JSON.parse(event.data);
      if (message.id === 1) {
        send({method: "notifications/initialized"});
        send({id: 2, method: "tools/call", params: {name: "add", arguments: {a: 20, b: 22}}});
      } else if (message.id === 2) {
        resolve(message.result.content[0].text);
        socket.close(1000);
      }
    };
    socket.onclose = (event) => resolve(opened ? "lost " + event.code : "refused");
  });
}
async function run() {
  const answers = [];
  for (const url of URLS) answers.push(await ask(url));
  document.getElementById("shown").textContent = answers.join(" ");
  await fetch("/outcome", {method: "POST", body: document.getElementById("shown").textContent});
}
run();
</script>
"""


@final
class Page:
    """A page, and what it has shown."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.outcome = ""
        self.is_done = trio.Event()
        self.app = Starlette(routes=[Route("/", self._page), Route("/outcome", self._take, methods=["POST"])])

    async def _page(self, request: Request) -> HTMLResponse:
        await trio.lowlevel.checkpoint()
        return HTMLResponse(PAGE.replace("URLS", json.dumps(self.urls)))

    async def _take(self, request: Request) -> PlainTextResponse:
        self.outcome = (await request.body()).decode()
        self.is_done.set()
        return PlainTextResponse("")


def make_server() -> Server[Any]:
    server: Server[Any] = Server("calculator")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    return server


@asynccontextmanager
async def serving_everywhere(origin: str) -> AsyncGenerator[list[str]]:
    """Serve on every host there is to pages of one origin, and return the URLs."""
    settings = HttpServerSettings(websocket=True, allowed_origins={origin})
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        urls: list[str] = []
        for serve in (
            partial(serve_websocket, make_server()),
            partial(serve_http, make_server(), http="lean"),
            partial(serve_http, make_server(), http="hypercorn"),
        ):
            (url,) = await nursery.start(partial(serve, port=0, settings=settings))
            urls.append(url.replace("http://", "ws://"))
        for host in ("hypercorn", "anycorn"):
            base = await stack.enter_async_context(hosted(host, McpASGI(make_server(), settings)))
            urls.append(f"{base.replace('http', 'ws')}/mcp")
        yield urls
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_allowed", [True, False], ids=["allowed", "another"])
async def test_a_page_calls_a_tool_if_its_origin_is_allowed(tmp_path: Path, *, is_allowed: bool) -> None:
    """The handshake is the browser's own, with its Origin, and with the compression that it always offers."""
    page, other = Page(), Page()
    with trio.fail_after(ENOUGH):
        async with (
            hosted("anycorn", page.app) as here,
            hosted("anycorn", other.app) as elsewhere,
            serving_everywhere(here if is_allowed else elsewhere) as urls,
        ):
            page.urls = urls
            async with browsing(tmp_path, here):
                await page.is_done.wait()
    expected = "42" if is_allowed else "refused"
    assert page.outcome.split() == [expected] * len(urls)
    assert not processes_with(str(tmp_path))
