"""A server and the tests of it: ``pytest -o asyncio_mode=auto fastmcp_4_tested.py``."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

import asyncio

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError

server = FastMCP("shop")
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
        await asyncio.Event().wait()
    finally:
        given_up.append(title)


async def test_price() -> None:
    """The answer is of its type."""
    async with Client(server) as client:
        assert (await client.call_tool("price", {"title": "Dune"})).data == 9.5


async def test_no_such_book() -> None:
    """An error is for the model to read."""
    async with Client(server) as client:
        with pytest.raises(ToolError, match="there is no Emma"):
            await client.call_tool("price", {"title": "Emma"})


async def test_timeout() -> None:
    """Who gives up stops the handler, and the server is there."""
    async with Client(server) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.call_tool("reserve", {"title": "Dune"})
        await client.list_tools()
        assert given_up == ["Dune"]
