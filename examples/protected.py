"""A server that is protected by OAuth, and a client whose user logs in, with a browser, when the server wants it.

The authorization server is the one for development, and asks nobody for a password. For production give
`ResourceServer` the URL of yours, such as Keycloak; nothing else changes. Needs ``pip install trio-mcp[auth]``.

Run ``python examples/protected.py``. You see::

    without a token: 401
    [the browser is sent to log in, for orders:read]
    ann may use: whoami
    [the browser is sent to log in, for orders:read orders:write]
    Dune is on its way to ann
    ann may use: order, whoami
    -- the next client finds the token
    Emma is on its way to ann
"""

from __future__ import annotations

import socket
from functools import partial
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import trio

from trio_mcp import (
    AuthorizationRefused,
    Client,
    Context,
    MemoryTokenStore,
    OAuth,
    ResourceServer,
    Server,
    open_client,
    serve_http,
)
from trio_mcp.testing import AuthorizationServer

server = Server("orders", version="1.0")


def subject_of(ctx: Context) -> str:
    """Return who is calling; on a protected server that is always known."""
    assert ctx.principal is not None
    return ctx.principal.subject


@server.tool
async def whoami(ctx: Context) -> str:
    """Say who is calling."""
    return subject_of(ctx)


@server.tool(scopes={"orders:write"})
async def order(title: str, ctx: Context) -> str:
    """Order a book."""
    return f"{title} is on its way to {subject_of(ctx)}"


def open_page(url: str) -> None:
    """Follow the login page, as the browser does in which the user is logged in already. It runs in a thread.

    Leave ``open_page=`` out, and the browser of this machine is opened instead.
    """
    scopes = sorted(parse_qs(urlsplit(url).query)["scope"][0].split())
    print(f"[the browser is sent to log in, for {' '.join(scopes)}]")
    urlopen(url).close()  # noqa: S310 - `OAuth` has checked where it leads


async def show_tools(client: Client) -> None:
    """Show what is there for the user: what their token does not permit is not listed."""
    name = (await client.call_tool("whoami")).text
    print(name, "may use:", ", ".join(sorted([tool.name async for tool in client.list_tools()])))


async def use(url: str) -> None:
    """Be refused, log in, and be asked for more when more is needed."""
    try:
        async with open_client(url):
            pass
    except AuthorizationRefused as error:
        print("without a token:", error.status)

    store = MemoryTokenStore()  # FileTokenStore() keeps them for the next run of the program
    login = OAuth(client_name="Reader", open_page=open_page, store=store)
    async with open_client(url, auth=login) as client:
        await show_tools(client)
        print((await client.call_tool("order", {"title": "Dune"})).text)  # 403 at first: orders:write is missing
        await show_tools(client)

    print("-- the next client finds the token")
    async with open_client(url, auth=OAuth(client_name="Reader", open_page=None, store=store)) as client:
        print((await client.call_tool("order", {"title": "Emma"})).text)


async def main() -> None:
    """Serve both on free ports, and use them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"  # what tokens are for, so it must be known before it is served
    async with AuthorizationServer().serving() as issuer, trio.open_nursery() as nursery:
        auth = ResourceServer(
            url,
            authorization_servers=[issuer],
            scopes={"orders:read"},
            scope_implies={"orders:write": {"orders:read"}},
        )
        await nursery.start(partial(serve_http, server, port=port, auth=auth))
        await use(url)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
