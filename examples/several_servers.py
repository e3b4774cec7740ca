"""Several servers at once: one in this process, one in a process of its own, and one that is not there.

No server waits for another. A tool is called by the name of its server and its own, as a model would be given it.

Run ``python examples/several_servers.py``. You see::

    weather: ready
    calculator: ready
    missing: failed
    weather_temperature, calculator_add, calculator_divide
    calculator_add gives 42.0
    [weather asks: Which city?]
    weather_temperature gives 31
"""

import sys
from pathlib import Path

import trio

from trio_mcp import Context, Server, StdioServerParameters, open_clients
from trio_mcp.types import ElicitRequestParams

weather = Server("weather", version="1.0")


@weather.tool
async def temperature(ctx: Context) -> str:
    """Return how warm it is in a city that the user is asked for, in degrees Celsius."""
    city = await ctx.elicit("Which city?", str)
    return {"Oslo": "12", "Rome": "31"}.get(str(city.value), "unknown")


def ask_user(server: str, params: ElicitRequestParams) -> dict[str, str]:
    """Answer for the user; the name of the server comes first."""
    print(f"[{server} asks: {params.message}]")
    return {"value": "Rome"}


async def main() -> None:
    """Open all, see which are ready, and use them by name."""
    calculator = Path(__file__).with_name("calculator.py")
    servers = {
        "weather": weather,
        "calculator": StdioServerParameters(sys.executable, [str(calculator)], restart=True),
        "missing": StdioServerParameters("no-such-program"),
    }
    async with open_clients(servers, on_elicit=ask_user) as group:
        with trio.move_on_after(20):
            await group.wait_settled()
        for state in group.states.values():
            print(f"{state.server}: {state.status}")
        print(", ".join(tool.name for tool in await group.list_tools()))
        for name, arguments in (("calculator_add", {"a": 20, "b": 22}), ("weather_temperature", {})):
            print(name, "gives", (await group.call_tool(name, arguments)).text)


if __name__ == "__main__":
    trio.run(main)
