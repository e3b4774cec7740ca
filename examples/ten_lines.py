"""A server in ten lines. Run it over stdio: any MCP host can start it with ``python examples/ten_lines.py``."""

from trio_mcp import Server

server = Server("ten-lines")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    server.run()
