"""A proxy: an old server on a port, for a client that speaks nothing but the newest revision.

The server asks its user while it works, by a request to the client, as revisions before 2026-07-28 have it. The
client gets the question as that revision has it. Its deadline ends the handler, two connections away.

Run ``python examples/proxy.py``. You see::

    the client speaks 2026-07-28 with bakery
    [How many loaves?]
    3 loaves of rye
    [the oven is off]
    the client waits no longer
"""

import trio

from trio_mcp import Context, Proxy, Server, open_client, serve_tcp
from trio_mcp.types import ElicitRequestParams

bakery = Server("bakery", version="1.0", revisions=["2025-06-18"])


@bakery.tool
async def order(bread: str, ctx: Context) -> str:
    """Order bread; the user is asked how much."""
    count = await ctx.elicit("How many loaves?", int)
    return f"{count.value} loaves of {bread}"


@bakery.tool
async def bake() -> str:
    """Bake for an hour."""
    try:
        await trio.sleep(3600)
    finally:
        print("[the oven is off]")
    return "warm bread"


def ask_user(params: ElicitRequestParams) -> dict[str, int]:
    """Answer for the user."""
    print(f"[{params.message}]")
    return {"value": 3}


async def main() -> None:
    """Serve the proxy on a port, and use the server through it."""
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(serve_tcp, Proxy(bakery), "127.0.0.1", 0)
        async with open_client(url, era="modern", on_elicit=ask_user) as client:
            assert client.server_info is not None
            print("the client speaks", client.revision, "with", client.server_info.name)
            print((await client.call_tool("order", {"bread": "rye"})).text)
            with trio.move_on_after(0.5):
                await client.call_tool("bake")
            await client.list_tools()  # by now the cancellation has arrived
        print("the client waits no longer")
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
