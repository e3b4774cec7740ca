"""An extension of your own, both sides of it: methods, a type of results, and a hand in every call of a tool.

Tickets: who declares the extension gets a ticket instead of waiting for a slow tool, and fetches what came of it.
Others wait. The field `Mcp-Name` has the number of the ticket over HTTP, and anybody may ask how many there are.
Run ``python examples/extension.py``. You see::

    a client that knows nothing of tickets reads: baked bread
    it may ask how many there are: 0
    ticket 1 for bake
    the other reads: baked bread
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from trio_mcp import (
    ClientExtension,
    Context,
    ExtensionClient,
    ExtensionResult,
    MethodHandler,
    Server,
    ServerExtension,
    open_client,
)

TICKETS = "com.example/tickets"
waiting: dict[str, tuple[MethodHandler, Mapping[str, Any]]] = {}


async def give_ticket(params: Mapping[str, Any], ctx: Context, call_tool: MethodHandler) -> object:
    """Give a ticket to who has declared the extension with this request, and serve all others at once."""
    if TICKETS not in ctx.client_extensions:
        return await call_tool(params, ctx)
    number = str(len(waiting) + 1)
    waiting[number] = (call_tool, params)
    return ExtensionResult("ticket", {"ticket": number})


async def fetch(params: Mapping[str, Any], ctx: Context) -> object:
    """Serve ``tickets/fetch``: run the tool that waits."""
    call_tool, call = waiting.pop(params["ticket"])
    return await call_tool(call, ctx)


async def count(params: Mapping[str, Any], ctx: Context) -> dict[str, int]:
    """Serve ``tickets/count``."""
    return {"count": len(waiting)}


async def redeem(
    client: ExtensionClient, method: str, params: Mapping[str, Any], result: Mapping[str, Any]
) -> dict[str, Any]:
    """Turn a ticket into what `call_tool` returns."""
    print("ticket", result["ticket"], "for", params["name"])
    return await client.request("tickets/fetch", {"ticket": result["ticket"]})


server_side = ServerExtension(
    TICKETS,
    request_handlers={"tickets/fetch": fetch, "tickets/count": count},
    result_types=["ticket"],
    open_to_all=["tickets/count"],
    names={"tickets/fetch": "ticket"},
    wrap_call=give_ticket,
)
client_side = ClientExtension(TICKETS, methods={"tickets/fetch": "ticket"}, result_types={"ticket": redeem})
server = Server("bakery", extensions=[server_side])


@server.tool
async def bake(what: str) -> str:
    """Bake something."""
    return f"baked {what}"


async def main() -> None:
    """Call the tool from both kinds of clients."""
    async with open_client(server) as client:
        result = await client.call_tool("bake", {"what": "bread"})
        print("a client that knows nothing of tickets reads:", result.text)
        print("it may ask how many there are:", (await client.request("tickets/count"))["count"])
    async with open_client(server, extensions=[client_side]) as client:
        print("the other reads:", (await client.call_tool("bake", {"what": "bread"})).text)


if __name__ == "__main__":
    trio.run(main)
