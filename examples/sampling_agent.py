"""An agent inside a tool: the server borrows its client's model, and lets the model use the server's tools.

The server has no key of any provider; `Context.sample` asks the client. Here the client's model is a script. A
real one would hand ``params.messages`` and ``params.tools`` to a provider in `on_sample`.

Run ``python examples/sampling_agent.py``. You see::

    [model is asked with 1 message, may use: temperature]
    [model wants to know the temperature in Oslo and in Rome]
    [model is asked with 3 messages, may use: temperature]
    Rome, at 31 degrees. Oslo has only 12.
"""

from __future__ import annotations

import trio

from trio_mcp import Context, Server, ToolError, open_client
from trio_mcp.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)

server = Server("travel", version="1.0")

TEMPERATURES = {"Oslo": 12, "Rome": 31}
MAX_ROUNDS = 5


@server.tool
async def temperature(city: str) -> str:
    """Return how warm it is in a city, in degrees Celsius.

    Args:
        city: Its English name.
    """
    if city not in TEMPERATURES:
        raise ToolError(f"nobody knows how warm it is in {city}")
    return str(TEMPERATURES[city])


async def run_tool(use: ToolUseContent) -> ToolResultContent:
    """Do what the model asks for. What goes wrong is for the model to read."""
    try:
        text, failed = await temperature(str(use.input.get("city"))), False
    except ToolError as error:
        text, failed = str(error), True
    return ToolResultContent(tool_use_id=use.id, content=[TextContent(text=text)], is_error=failed)


@server.tool
async def where_to_go(question: str, ctx: Context) -> str:
    """Find out where to go.

    Args:
        question: What matters to the traveller.
    """
    conversation: list[str | CreateMessageResult | ToolResultContent] = [question]
    for _ in range(MAX_ROUNDS):
        said = await ctx.sample(conversation, max_tokens=500, tools=["temperature"])
        if not said.tool_uses:
            return said.text
        conversation += [said, *[await run_tool(use) for use in said.tool_uses]]
    raise ToolError(f"the model has not made up its mind in {MAX_ROUNDS} rounds")


def scripted_model(params: CreateMessageRequestParams) -> str | list[ToolUseContent]:
    """Answer as a model would: first with wishes for tools, then, knowing what these gave, with text."""
    count = len(params.messages)
    names = ", ".join(tool.name for tool in params.tools or ())
    print(f"[model is asked with {count} message{'s' * (count > 1)}, may use: {names}]")
    if count == 1:
        print("[model wants to know the temperature in Oslo and in Rome]")
        return [
            ToolUseContent(id=f"use-{city}", name="temperature", input={"city": city})
            for city in ("Oslo", "Rome")
        ]
    return "Rome, at 31 degrees. Oslo has only 12."


async def main() -> None:
    """Let the tool think with our model."""
    async with open_client(server, on_sample=scripted_model, sampling_tools=True) as client:
        result = await client.call_tool("where_to_go", {"question": "Where is it warm, Oslo or Rome?"})
        print(result.text)


if __name__ == "__main__":
    trio.run(main)
