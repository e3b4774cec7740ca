"""A server with an app: a page that a host shows beside what the tool returns; `app_host.py` is such a host.

The page has no library: it talks to its host by `postMessage`, as SEP-1865 says. When it begins it asks for the
rolls so far, by a tool that is for pages only; when its tool has returned, it shows the roll, and tells the model
what is seen. A client that shows no pages gets the text.

Run by ``python examples/app_host.py``; or ``python examples/dice_app.py`` over stdio, for any host.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from trio_mcp import Server

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>dice</title>
<style>body { font-family: sans-serif } output { font-size: 3em }</style>
<output id="shown">?</output>
<button id="again">again</button>
<p id="before"></p>
<script>
const waiting = new Map();
let last = 0;

const send = (message) => window.parent.postMessage({jsonrpc: "2.0", ...message}, "*");
const ask = (method, params) => new Promise((resolve, reject) => {
  waiting.set(++last, {resolve, reject});
  send({id: last, method, params});
});

function show(result) {
  const {shown, sides} = result.structuredContent;
  document.getElementById("shown").textContent = shown;
  const text = `The user sees ${shown} of ${sides}. ${document.getElementById("before").textContent}`;
  ask("ui/update-model-context", {content: [{type: "text", text}]}).catch(() => {});
}

window.addEventListener("message", (event) => {
  if (event.source !== window.parent) return;
  const message = event.data;
  if (message.method === "ui/notifications/tool-result") show(message.params);
  if (message.method === "ui/resource-teardown") send({id: message.id, result: {}});
  if (message.method !== undefined || !waiting.has(message.id)) return;
  const {resolve, reject} = waiting.get(message.id);
  waiting.delete(message.id);
  message.error ? reject(new Error(message.error.message)) : resolve(message.result);
});

document.getElementById("again").onclick = async () => {
  show(await ask("tools/call", {name: "roll", arguments: {}}));
};

async function begin() {
  const appInfo = {name: "dice", version: "1.0"};
  await ask("ui/initialize", {appInfo, appCapabilities: {}, protocolVersion: "2026-01-26"});
  const before = await ask("tools/call", {name: "rolls", arguments: {}});
  document.getElementById("before").textContent = `Rolls so far: ${before.content[0].text}.`;
  send({method: "ui/notifications/initialized"});
  const {width, height} = document.documentElement.getBoundingClientRect();
  send({method: "ui/notifications/size-changed", params: {width, height}});
}
begin();
</script>
"""


@dataclass
class Roll:
    """What was rolled."""

    shown: int
    sides: int


server = Server("dice", version="1.0")
server.add_app("ui://dice/table.html", PAGE, prefers_border=True)
rolled: list[int] = []


@server.tool(ui="ui://dice/table.html")
async def roll(sides: int = 6) -> Roll:
    """Roll a die."""
    rolled.append(random.randint(1, sides))  # noqa: S311 - it is a game
    return Roll(rolled[-1], sides)


@server.tool(visibility={"app"})
async def rolls() -> int:
    """Return how often a die was rolled."""
    return len(rolled)


if __name__ == "__main__":
    server.run()
