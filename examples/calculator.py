"""The first server: two tools, and an error that the model can act on.

Any MCP host can start it with ``python examples/calculator.py``; it speaks over standard input and output.
`calculator_client.py` does, and prints what comes back.
"""

from trio_mcp import Server, ToolError

server = Server("calculator", version="1.0", instructions="Use these tools instead of doing sums in your head.")


@server.tool
async def add(a: float, b: float) -> float:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


@server.tool
async def divide(a: float, b: float) -> float:
    """Divide a number by another.

    Args:
        a: What is divided.
        b: By what; not 0.
    """
    if b == 0:
        raise ToolError("b is 0, and nothing can be divided by that; ask for another number")
    return a / b


if __name__ == "__main__":
    server.run()
