"""A server that takes JWTs of one issuer, made for it; to order, one needs a scope more: ``ours_protected.py ISSUER PORT``."""

import sys

from trio_mcp import Context, ResourceServer, Server

issuer, port = sys.argv[1], int(sys.argv[2])
url = f"http://127.0.0.1:{port}/mcp"
server = Server("orders")


@server.tool
async def whoami(ctx: Context) -> str:
    """Say who is calling."""
    assert ctx.principal is not None
    return ctx.principal.subject


@server.tool(scopes={"orders:write"})
async def order(title: str) -> str:
    """Order a book."""
    return f"{title} is on its way"


auth = ResourceServer(url, authorization_servers=[issuer], scopes={"orders:read"})
server.run("streamable-http", port=port, auth=auth)
