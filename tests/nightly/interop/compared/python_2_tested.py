"""A server and the tests of it: ``pytest python_2_tested.py``."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

import anyio
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

pytestmark = pytest.mark.anyio
server = MCPServer("shop")
given_up: list[str] = []


@pytest.fixture
def anyio_backend() -> str:
    """One loop is enough."""
    return "asyncio"


@server.tool()
async def price(title: str) -> float:
    """Return the price of a book."""
    if title != "Dune":
        raise ToolError(f"there is no {title}")
    return 9.5


@server.tool()
async def reserve(title: str) -> str:
    """Reserve a book, which takes for ever."""
    try:
        await anyio.sleep_forever()
    finally:
        given_up.append(title)


async def test_price() -> None:
    """The answer is of its type."""
    async with Client(server) as client:
        result = await client.call_tool("price", {"title": "Dune"})
        assert result.structured_content == {"result": 9.5}


async def test_no_such_book() -> None:
    """An error is for the model to read."""
    async with Client(server) as client:
        result = await client.call_tool("price", {"title": "Emma"})
        assert result.is_error
        assert "there is no Emma" in result.content[0].text


async def test_timeout() -> None:
    """Who gives up stops the handler, and the server is there."""
    async with Client(server) as client:
        with pytest.raises(TimeoutError), anyio.fail_after(0.1):
            await client.call_tool("reserve", {"title": "Dune"})
        await client.list_tools()
        assert given_up == ["Dune"]
