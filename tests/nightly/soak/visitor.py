"""Clients that do anything at random, for ever: ``python visitor.py '{"urls": {…}, "child": […], "seed": "1/2"}'``.

A program that is killed at any moment; the process that is soaked has some of its own as well. What a client should
never meet is counted as odd: an answer that is wrong or does not come, an error that is none of the library's.
"""

from __future__ import annotations

import json
import random
import sys
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

sys.path.extend([str(Path(__file__).parents[1] / folder) for folder in ("siege",)])

import attrs
import trio
from spoken import Wire, connected, reset, wire_over

from trio_mcp import (
    Client,
    Era,
    HttpServerParameters,
    McpError,
    StdioServerParameters,
    TcpServerParameters,
    UnixServerParameters,
    WebSocketServerParameters,
    open_client,
)

TASKS: Final = 5
"""What a program does at once."""

PATIENCE: Final = 30.0
"""Seconds in which anything is over, however busy the machine is."""

META: Final[dict[str, Any]] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
GONE: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, EOFError)


class OddError(Exception):
    """Something that should never happen."""


@attrs.frozen
class Places:
    """Where there are servers.

    Attributes:
        urls: By the name of what serves.
        child: The command that starts one as a child process.
    """

    urls: dict[str, str]
    child: Sequence[str]

    def target(self, name: str, chance: random.Random) -> Any:
        """Return what `open_client` takes."""
        restart = chance.random() < 0.3
        if name == "stdio":
            return StdioServerParameters(self.child[0], self.child[1:], restart=restart, stderr=lambda _: None)
        url = self.urls[name]
        if name in ("tcp", "unix"):
            host, _, port = url.partition("://")[2].rpartition(":")
            return (
                UnixServerParameters(url.partition("://")[2], restart=restart)
                if name == "unix"
                else TcpServerParameters(host, int(port), restart=restart)
            )
        headers = {"Authorization": f"Bearer friend {chance.randrange(1_000)}".replace("friend ", "friend-")}
        if name == "websocket" or (name != "protected" and chance.random() < 0.2):
            return WebSocketServerParameters(url.replace("http://", "ws://"), headers=headers)
        if name == "hypercorn" and chance.random() < 0.3:
            url = url.replace("/mcp", "/sse")
        return HttpServerParameters(url, headers=headers)


# Clients of the library.

Act = Callable[[Client, random.Random], Awaitable[None]]


async def add(client: Client, chance: random.Random) -> None:
    a, b = chance.randrange(1_000), chance.randrange(1_000)
    result = await client.call_tool("add", {"a": a, "b": b})
    if result.is_error or result.text != str(a + b):
        raise OddError(f"{a} + {b} is {result!r:.200}")


async def add_many(client: Client, chance: random.Random) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(chance.randrange(2, 20)):
            nursery.start_soon(add, client, chance)
        if chance.random() < 0.3:
            await trio.sleep(chance.uniform(0, 0.01))
            nursery.cancel_scope.cancel()


async def give_up(client: Client, chance: random.Random) -> None:
    with trio.move_on_after(chance.uniform(0, 0.05)):
        await client.call_tool("wait", {"seconds": 60})
        raise OddError("waiting for a minute has ended at once")


async def count(client: Client, chance: random.Random) -> None:
    to, seen = chance.randrange(1, 50), list[float]()
    with trio.move_on_after(chance.choice([0.005, PATIENCE])):
        await client.call_tool("count", {"to": to}, on_progress=lambda progress: seen.append(progress.progress))
    if seen != sorted(set(seen)):
        raise OddError(f"counting has reported {seen}")


async def ask(client: Client, chance: random.Random) -> None:
    with trio.move_on_after(chance.choice([0.005, 0.1, PATIENCE])):
        await client.call_tool("ask", {"times": chance.randrange(1, 4)})


async def nap(client: Client, chance: random.Random) -> None:
    with trio.move_on_after(chance.choice([0.01, PATIENCE])):
        await client.call_tool("nap", {"seconds": chance.uniform(0, 0.05)})


async def repeat(client: Client, chance: random.Random) -> None:
    times = chance.randrange(1, 4_000)
    with trio.move_on_after(chance.choice([0.003, PATIENCE])):
        result = await client.call_tool("repeat", {"text": "x" * 100, "times": times})
        if not result.is_error and len(result.text) != 100 * times:
            raise OddError(f"{len(result.text)} characters, not {100 * times}")


async def listen(client: Client, chance: random.Random) -> None:
    async with client.listen(tools_list_changed=True, resources=[f"page://{chance.randrange(8)}"]) as events:
        await client.call_tool("change", {"number": chance.randrange(8)})
        with trio.move_on_after(chance.uniform(0, 0.2)):
            async for _ in events:
                break


async def look_around(client: Client, chance: random.Random) -> None:
    await client.list_tools()
    await client.read_resource(f"page://{chance.randrange(8)}", fresh=chance.random() < 0.5)
    await client.get_prompt("review", {"title": "Dune"})


async def fail(client: Client, chance: random.Random) -> None:
    await client.call_tool(chance.choice(["fail", "no such tool"]), {})


async def die(client: Client, chance: random.Random) -> None:
    await client.call_tool("die", {})


ACTS: Final[Sequence[Act]] = (
    add,
    add,
    add_many,
    give_up,
    count,
    ask,
    nap,
    repeat,
    listen,
    look_around,
    fail,
    die,
)


async def be_a_client(places: Places, name: str, chance: random.Random) -> None:
    """Open a client, do this and that, and leave, sometimes in the middle of it."""
    era: Era = "legacy" if chance.random() < 0.5 else "modern"

    async def answer(_: object) -> dict[str, Any]:
        await trio.sleep(chance.choice([0, 0, 0, 0.01, 1]))
        return {"value": True}

    target = places.target(name, chance)
    if isinstance(target, HttpServerParameters) and target.url.endswith("/sse"):
        era = "legacy"
    with trio.move_on_after(chance.choice([0.05, 0.5, PATIENCE, PATIENCE])):
        async with open_client(target, era=era, on_elicit=answer) as client:
            for _ in range(chance.randrange(1, 30)):
                try:
                    await chance.choice(ACTS)(client, chance)
                except (McpError, ExceptionGroup) as error:
                    check_expected(error)
                    if chance.random() < 0.5:
                        break


def check_expected(error: BaseException) -> None:
    """Raise what nobody who uses the library should meet.

    Raises:
        OddError: It is something else than that a server fails, refuses or has gone.
    """
    if isinstance(error, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            check_expected(each)
    elif not isinstance(error, McpError):
        raise OddError(f"{error!r:.300}") from error


# What is written by hand, and left in the middle.


def request(method: str, /, id: int = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": META, **params}}


async def break_a_wire(wire: Wire, chance: random.Random) -> None:
    """Begin something, and go."""
    data = wire.whole(request("tools/call", name="wait", arguments={"seconds": 60}))
    if chance.random() < 0.2:
        await wire.stream.send_all(wire.opening[: chance.randrange(1, len(wire.opening))])
    else:
        await wire.shake_hands()
        if chance.random() < 0.5:
            await wire.begin_session()
        for _ in range(chance.randrange(4)):
            await wire.send(request("tools/call", chance.randrange(9), name="ask", arguments={"times": 2}))
            await wire.send(
                request("tools/call", chance.randrange(9, 99), name="wait", arguments={"seconds": 60})
            )
        await wire.stream.send_all(data[: chance.randrange(1, len(data) + 1)])
    await trio.sleep(chance.choice([0, 0.01, 0.2]))


async def break_http(stream: trio.abc.Stream, chance: random.Random) -> None:
    """Begin a request over HTTP, and go; sessions and handlers that wait are left behind."""
    modern = request(
        "tools/call", name=chance.choice(["wait", "ask", "count"]), arguments={"seconds": 60, "to": 9_999}
    )
    me = {"name": "x", "version": "1"}
    begin = request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=me)
    message = chance.choice([modern, begin])
    body = json.dumps(message).encode()
    fields = {
        "Host": "localhost",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Authorization": f"Bearer friend-{chance.randrange(1_000)}",
    }
    if message is modern:
        name = modern["params"]["name"]
        fields |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    data = f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body
    if chance.random() < 0.1:
        data = b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n"
    await stream.send_all(data[: chance.choice([len(data), chance.randrange(1, len(data))])])
    if chance.random() < 0.7:
        with trio.move_on_after(chance.choice([0.01, 0.2])):
            await stream.receive_some()


async def be_rude(places: Places, name: str, chance: random.Random) -> None:
    """Speak by hand, and go in the middle of it."""
    where = places.urls[name].partition("://")[2]
    at = where if name == "unix" else where.partition("/")[0].rpartition(":")[2]
    async with connected(name, at) as stream:
        if name in ("websocket", "tcp", "unix"):
            await break_a_wire(wire_over(name, stream, {}), chance)
        elif name != "protected" and chance.random() < 0.3:
            await break_a_wire(wire_over("websocket", stream, {}), chance)
        else:
            await break_http(stream, chance)
        if chance.random() < 0.3 and name != "unix":
            reset(stream)


def places_of(error: BaseException) -> str:
    """Return where an error was raised, and those in it: of each the three innermost frames."""
    inner: Sequence[BaseException] = ()
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    here = " < ".join(f"{Path(one.filename).name}:{one.lineno}" for one in reversed(frames))
    return "; ".join([f"at {here}", *map(places_of, inner)])


async def visit_for_ever(places: Places, chance: random.Random, counts: Counter[str]) -> None:
    """Do this and that, one after the other, and count what is odd."""
    names = [*places.urls, "stdio"]
    while True:
        name = chance.choice(names)
        if name == "stdio" and chance.random() < 0.7:
            name = chance.choice(list(places.urls))  # a process costs more than all the rest
        try:
            with trio.fail_after(2 * PATIENCE):
                if name != "stdio" and chance.random() < 0.3:
                    await be_rude(places, name, chance)
                else:
                    await be_a_client(places, name, chance)
        except (McpError, *GONE):
            pass
        except (OddError, Exception) as error:
            counts[f"odd: {name}: {error!r:.400} {places_of(error)}"] += 1
        counts[name] += 1
        await trio.sleep(chance.uniform(0, 0.1))


async def main(options: dict[str, Any]) -> None:
    """Visit, and say now and then what was odd."""
    places = Places(options["urls"], options["child"])
    counts: Counter[str] = Counter()
    async with trio.open_nursery() as nursery:
        for number in range(TASKS):
            chance = random.Random(f"{options['seed']}/{number}")
            nursery.start_soon(partial(visit_for_ever, places, chance, counts))
        while True:
            await trio.sleep(0.5)
            if counts:
                print(json.dumps(counts), flush=True)
                counts.clear()


if __name__ == "__main__":
    trio.run(main, json.loads(sys.argv[1]))
