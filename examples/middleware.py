"""Middleware: code of yours around every message. Here it writes down what goes by, measures, and says no.

A middleware gets the message and what hands it on. It may look, change, answer in its own words, or raise.
Clients take the same functions, for what they send and receive.

Run ``python examples/middleware.py``. You see::

    received server/discover: answered
    received tools/call: answered
    received tools/call: RequestError: launch is for Mondays [-32001]
    the client reads: launch is for Mondays
    slowest: tools/call
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from trio_mcp import CallNext, Message, RequestError, Server, open_client

SLOWEST: dict[str, float] = {}


async def write_down(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
    """Print each message, and how it went."""
    outcome = "answered"
    try:
        return await call_next(message)
    except RequestError as error:
        outcome = f"{type(error).__name__}: {error}"
        raise
    finally:
        print(message.direction, f"{message.method}: {outcome}")


async def measure(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
    """Remember how long a message of its kind has taken at most."""
    begin = trio.current_time()
    try:
        return await call_next(message)
    finally:
        taken = trio.current_time() - begin
        SLOWEST[message.method] = max(taken, SLOWEST.get(message.method, 0))


async def forbid_launches(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
    """Refuse one tool."""
    if message.method == "tools/call" and (message.params or {}).get("name") == "launch":
        raise RequestError(-32001, "launch is for Mondays")
    return await call_next(message)


server = Server("rockets", version="1.0", middleware=[write_down, measure, forbid_launches])


@server.tool
async def fuel() -> str:
    """Fill the tank."""
    await trio.sleep(0.3)
    return "full"


@server.tool
async def launch() -> str:
    """Launch the rocket."""
    return "gone"


async def main() -> None:
    """Try both tools."""
    async with open_client(server) as client:
        await client.call_tool("fuel")
        try:
            await client.call_tool("launch")
        except RequestError as error:
            print("the client reads:", error.message)
    print("slowest:", max(SLOWEST, key=SLOWEST.__getitem__))


if __name__ == "__main__":
    trio.run(main)
