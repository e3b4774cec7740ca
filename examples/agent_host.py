"""The host of an agent: four servers, a model that uses their tools, and a person who allows each call, or not.

One server is a process, one is reached over HTTP, two live in this program. `model` stands in for yours: replace
that one function. What the person declines is told to the model, as is what fails; neither ends the conversation.

Run ``python examples/agent_host.py`` and answer. With ``y``, ``y``, ``y`` and ``n`` you see::

    weather_temperature {"city": "Rome"}. Allow it? [y/n] y
    calculator_add {"a": 31, "b": 2}. Allow it? [y/n] y
    diary_write {"line": "Rome: 33 tomorrow"}. Allow it? [y/n] y
    mail_send {"to": "all@example.com", "text": "Rome: 33"}. Allow it? [y/n] n
    31 / 33.0 / written: Rome: 33 tomorrow / The user has declined this call.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import trio

from trio_mcp import ClientGroup, McpError, Server, StdioServerParameters, open_clients, serve_http
from trio_mcp.types import Tool

weather, diary, mail = Server("weather"), Server("diary"), Server("mail")
MAX_TURNS, SECONDS_FOR_A_CALL = 10, 30
CALCULATOR = Path(__file__).with_name("calculator.py")


@weather.tool
async def temperature(city: str) -> int:
    """Return how warm it is in a city, in degrees Celsius."""
    return {"Oslo": 12, "Rome": 31}[city]


@diary.tool
async def write(line: str) -> str:
    """Write a line into the diary."""
    return f"written: {line}"


@mail.tool
async def send(to: str, text: str) -> str:
    """Send a letter."""
    return f"sent to {to}: {text}"


class ToolCall(NamedTuple):
    """What a model wants to be called."""

    tool: str
    arguments: Mapping[str, Any]


SCRIPT = (
    ToolCall("weather_temperature", {"city": "Rome"}),
    ToolCall("calculator_add", {"a": 31, "b": 2}),
    ToolCall("diary_write", {"line": "Rome: 33 tomorrow"}),
    ToolCall("mail_send", {"to": "all@example.com", "text": "Rome: 33"}),
)


def model(task: str, results: Sequence[str], tools: Mapping[str, Tool]) -> ToolCall | str:
    """Return the next call, or the answer. Ask your provider here; it runs in a thread, and may block."""
    return SCRIPT[len(results)] if len(results) < len(SCRIPT) else " / ".join(results)


async def is_allowed(call: ToolCall) -> bool:
    """Show the whole call to the person, as JSON, which disarms it. Anything but yes is no."""
    question = f"{call.tool} {json.dumps(call.arguments)}. Allow it? [y/n] "
    answer = await trio.to_thread.run_sync(input, question, abandon_on_cancel=True)
    return answer.strip().lower() in {"y", "yes"}


async def run_call(group: ClientGroup, call: ToolCall) -> str:
    """Return what a call gives, for the model. The time of the person does not count."""
    if not await is_allowed(call):
        return "The user has declined this call."
    try:
        with trio.fail_after(SECONDS_FOR_A_CALL):
            return (await group.call_tool(call.tool, call.arguments)).text
    except (McpError, trio.TooSlowError) as error:
        return f"The call has failed: {error!r}"


async def run_agent(group: ClientGroup, task: str) -> str:
    """Let the model call tools until it has an answer."""
    results: list[str] = []
    for _ in range(MAX_TURNS):
        tools = {tool.name: tool.item for tool in await group.list_tools()}
        said = await trio.to_thread.run_sync(model, task, results, tools, abandon_on_cancel=True)
        if isinstance(said, str):
            return said
        results.append(await run_call(group, said))
    return f"There is no answer after {MAX_TURNS} calls."


async def main() -> None:
    """Serve one of the servers over HTTP, connect to all, and run the agent."""
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(partial(serve_http, weather, port=0))
        servers = {
            "calculator": StdioServerParameters(sys.executable, [str(CALCULATOR)], restart=True),
            "weather": url,
            "diary": diary,
            "mail": mail,
        }
        async with open_clients(servers) as group:
            await group.wait_settled()  # what could not be opened is missing from the tools, and harms no other
            print(await run_agent(group, "Tell everybody how warm it will be in Rome."))
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
