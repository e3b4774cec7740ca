"""A host with a web page: it calls a tool, and shows the tool's app in a sandbox from another origin.

The host's page and the sandbox are served at two ports, so they are of two origins; in production take two
domains. There are two frames: that of the sandbox, whose Content-Security-Policy is the app's and holds for all
within, and in it that of the app, which has no origin at all. Messages of the app go to the sandbox, then to the
host's page, and by POST to this program, where `serve_view` does what an app may ask for. What that returns goes
back the same way.

Run ``python examples/app_host.py`` and open the address that it prints. The app is that of `dice_app.py`.
"""

from __future__ import annotations

import json
import re
import secrets
import sys
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import trio

from trio_mcp import (
    SHOWS_APPS,
    AppView,
    Client,
    HttpCall,
    HttpRefused,
    Server,
    StdioServerParameters,
    Target,
    ViewAsk,
    open_client,
    serve_http,
    serve_view,
    to_json,
)

MAX_VIEWS = 16
"""How many pages may be shown at once; the oldest is forgotten then."""

HOST_PAGE = """<!doctype html>
<meta charset="utf-8">
<title>a host</title>
<p>$text</p>
<iframe id="sandbox" src="$sandbox" sandbox="allow-scripts allow-same-origin" allow="$allow"></iframe>
<script>
const frame = document.getElementById("sandbox");
const origin = new URL(frame.src).origin;
let told = Promise.resolve();  // what the page tells arrives before what it sends next, in their order
window.addEventListener("message", async (event) => {
  if (event.source !== frame.contentWindow || event.origin !== origin) return;
  if (event.data.method === "ui/notifications/size-changed") {
    frame.style.height = `${Math.min(Number(event.data.params.height) + 40, 600)}px`;
  }
  const sent = told.then(() => fetch("/messages?$view", {method: "POST", body: JSON.stringify(event.data)}));
  if (!("id" in event.data)) told = sent.catch(() => {});
  const answer = await sent;
  if (!answer.ok) return;
  for (const message of await answer.json()) frame.contentWindow.postMessage(message, origin);
});
</script>
"""

SANDBOX_PAGE = """<!doctype html>
<meta charset="utf-8">
<style>body { margin: 0 } iframe { border: 0; width: 100%; height: 100vh }</style>
<body>
<script>
const host = "$host";
const inner = document.createElement("iframe");
window.addEventListener("message", (event) => {
  const message = event.data;
  const isOurs = String(message?.method).startsWith("ui/notifications/sandbox-");
  if (event.source === window.parent && event.origin === host) {
    if (message.method === "ui/notifications/sandbox-resource-ready") {
      inner.setAttribute("sandbox", message.params.sandbox);
      inner.setAttribute("allow", "$allow");
      inner.srcdoc = message.params.html;
      document.body.append(inner);
    } else if (!isOurs) {
      inner.contentWindow.postMessage(message, "*");
    }
  } else if (event.source === inner.contentWindow && !isOurs) {
    window.parent.postMessage(message, host);
  }
});
window.parent.postMessage({jsonrpc: "2.0", method: "ui/notifications/sandbox-proxy-ready", params: {}}, host);
</script>
"""


class Host:
    """Calls a tool of a server for each visit, and shows its app."""

    def __init__(self, client: Client, tool: str, arguments: dict[str, Any]) -> None:
        self.client, self.tool, self.arguments = client, tool, arguments
        self.origin = self.sandbox_origin = ""
        self.views: dict[str, AppView] = {}

    async def visit(self, call: HttpCall) -> None:
        """Call the tool as a model would, and answer with the page that shows its app."""
        if call.method != "GET":
            raise HttpRefused(405, "GET this page")
        tools = await self.client.list_tools()
        (tool,) = [tool for tool in tools if tool.name == self.tool]
        page = await self.client.read_app(tool)
        view = AppView(page=page, tools=tools, tool=tool, offers=["ui/update-model-context"])
        result = await self.client.call_tool(tool.name, self.arguments)
        view.tool_input(self.arguments)  # nothing can be sent yet: the view keeps it until the app has begun
        view.tool_result(to_json(result))
        name = secrets.token_urlsafe()  # who knows it may speak for the page
        self.views[name] = view
        while len(self.views) > MAX_VIEWS:
            del self.views[next(iter(self.views))]
        policy = (
            "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
            f"frame-src {self.sandbox_origin}; frame-ancestors 'none'"
        )
        sandbox = f"{self.sandbox_origin}/?{name}"
        await answer(call, HOST_PAGE, policy, text=result.text, sandbox=sandbox, allow=page.allow, view=name)

    async def sandbox(self, call: HttpCall) -> None:
        """Answer with the frame around an app. Its policy is the app's, which what it writes inherits."""
        page = self.view_of(call).page
        policy = f"{page.csp_header}; frame-ancestors {self.origin}"
        await answer(call, SANDBOX_PAGE, policy, host=self.origin, allow=page.allow)

    async def message(self, call: HttpCall) -> None:
        """Do what an app asks for, and answer with the messages for it. It ends with the visit."""
        if call.method != "POST":
            raise HttpRefused(405, "POST the message of an app")
        view = self.view_of(call)
        sent = await serve_view(self.client, view, await call.read_body(), on_ask=self.do)
        await call.respond(200, json.dumps(sent).encode())

    def do(self, ask: ViewAsk) -> None:
        """Show what an app wants to tell: a real host gives it to its model with the next message of the user."""
        if ask.method == "ui/update-model-context":
            for block in ask.params.get("content", []):
                print(f"for the model: {block.get('text')!r}", flush=True)
        elif ask.method == "notifications/message":
            print(f"log of the app: {ask.params.get('data')!r}", flush=True)

    def view_of(self, call: HttpCall) -> AppView:
        """Return the view that a request is about."""
        view = self.views.get(call.query)
        if view is None:
            raise HttpRefused(404, "there is no such view")
        return view


async def answer(call: HttpCall, page: str, policy: str, **values: str) -> None:
    """Answer with a page, and the policy that holds for it."""
    page = re.sub(r"\$([a-z]+)", lambda found: escape(values[found[1]]), page)
    headers = [(b"content-security-policy", policy.encode()), (b"cache-control", b"no-store")]
    await call.respond(200, page.encode(), headers, content_type="text/html; charset=utf-8")


async def show_app(
    target: Target,
    tool: str,
    arguments: dict[str, Any],
    *,
    port: int = 0,
    host_class: type[Host] = Host,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve a host that shows the app of a tool, until it is cancelled."""
    async with open_client(target, extensions=[SHOWS_APPS]) as client, trio.open_nursery() as nursery:
        host = host_class(client, tool, arguments)
        pages = {"/": host.visit, "/messages": host.message}
        (url,) = await nursery.start(partial(serve_http, Server("host"), port=port, routes=pages))
        (other,) = await nursery.start(partial(serve_http, Server("sandbox"), port=0, routes={"/": host.sandbox}))
        host.origin, host.sandbox_origin = (each.removesuffix("/mcp") for each in (url, other))
        task_status.started(host.origin)


async def main() -> None:
    """Show the dice."""
    dice = StdioServerParameters(sys.executable, [str(Path(__file__).with_name("dice_app.py"))])
    async with trio.open_nursery() as nursery:
        url = await nursery.start(partial(show_app, dice, "roll", {"sides": 20}, port=8000))
        print(f"open {url}/ in a browser", flush=True)


if __name__ == "__main__":
    trio.run(main)
