"""A server and the tests of it: ``pytest -o trio_mode=true ours_tested.py``."""

import pytest
import trio

from trio_mcp import Server, ToolError
from trio_mcp.testing import open_client

server = Server("shop")
given_up: list[str] = []


@server.tool
async def price(title: str) -> float:
    """Return the price of a book."""
    if title != "Dune":
        raise ToolError(f"there is no {title}")
    return 9.5


@server.tool
async def reserve(title: str) -> str:
    """Reserve a book, which takes for ever."""
    try:
        await trio.sleep_forever()
    finally:
        given_up.append(title)


async def test_price() -> None:
    """The answer is of its type."""
    async with open_client(server) as client:
        assert await client.call_tool("price", {"title": "Dune"}, returns=float) == 9.5


async def test_no_such_book() -> None:
    """An error is for the model to read."""
    async with open_client(server) as client:
        result = await client.call_tool("price", {"title": "Emma"})
        assert result.is_error
        assert "there is no Emma" in result.text


async def test_timeout() -> None:
    """Who gives up stops the handler, and the server is there."""
    async with open_client(server) as client:
        with pytest.raises(trio.TooSlowError), trio.fail_after(0.1):
            await client.call_tool("reserve", {"title": "Dune"})
        await client.ping()
        assert given_up == ["Dune"]
