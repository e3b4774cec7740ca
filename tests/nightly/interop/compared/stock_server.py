"""A server that any of the clients starts: ``stock_server.py NAME``."""

import sys

from trio_mcp import Server

server = Server(sys.argv[1])


@server.tool
async def stock(title: str) -> str:
    """Return how many copies there are."""
    return f"has 3 of {title}"


server.run()
