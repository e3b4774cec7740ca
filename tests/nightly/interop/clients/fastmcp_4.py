"""A client on FastMCP 4: ``fastmcp_4.py MODE MARKER URL|COMMAND…``; says what it found, a line of JSON each."""

# It runs in another environment, on a package that is not installed in this one.
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import asyncio
import json
import sys
from pathlib import Path

from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp import MCPError

BIG = "x" * 3_000_000
LARGEST_EVENT = 1024 * 1024  # what the SDK reads of HTTP+SSE at once; there is no option for more

logged = []
both_logged = asyncio.Event()


def found(name, value):
    print(json.dumps({"finding": name, "value": value}), flush=True)


async def has_ended(marker):
    # The goodbye comes first, but handlers end at their own pace; and over HTTP it travels beside the call after it.
    for _ in range(500):
        if Path(marker).exists():
            return True
        await asyncio.sleep(0.01)
    return False


def reach(target, *args):
    if target.endswith("/sse"):
        return SSETransport(target)
    if target.startswith("http:"):
        return StreamableHttpTransport(target)
    return StdioTransport(target, list(args), keep_alive=False)


async def on_log(message):
    logged.append(message.data)
    if logged[-2:] == ["one", "two"]:
        both_logged.set()


async def main():
    async def call(finding, name, **arguments):
        result = await client.call_tool_mcp(name, arguments)
        text = "".join(block.text for block in result.content)
        found(finding, {"error": result.is_error, "text": text, "structured": result.structured_content})

    mode, marker, *server = sys.argv[1:]
    async with Client(reach(*server), mode=mode, log_handler=on_log) as client:
        name = client.server_info.name if client.server_info else None
        found("agreed", {"revision": client.protocol_version, "server": name})
        found("tools", [tool.name for tool in await client.list_tools()])
        await call("add", "add", a=1, b=2)
        await call("sync_add", "sync_add", a=1, b=2)
        await call("echo", "echo", text="Grüße, 世界 🌍 \u2028 \n")
        await call("structured", "structured", place="Berlin")
        await call("divide", "divide", a=1, b=0)
        await call("fail", "fail")
        await call("wrong", "add", a="one", b=2)
        await call("noisy", "noisy")
        big = BIG[: LARGEST_EVENT // 2] if server[0].endswith("/sse") else BIG
        found("big", (await client.call_tool("echo", {"text": big})).content[0].text == big)
        sums = {}

        async def add(number):
            result = await client.call_tool("add", {"a": number, "b": number})
            sums[number] = result.content[0].text

        async with asyncio.TaskGroup() as crowd:
            for number in range(50):
                crowd.create_task(add(number))
        found("crowd", [sums[number] for number in range(50)])
        try:
            await client.call_tool("nonsense", {})
        except MCPError as error:
            found("unknown", error.code)
        progress = []
        async with asyncio.TaskGroup() as tasks:

            async def on_progress(value, total, message):
                progress.append([value, total, message])
                tasks.create_task(client.call_tool("proceed", {}))

            await client.call_tool("slow", {"steps": 3}, progress_handler=on_progress)
        found("progress", progress)
        await call("log", "log", words=["one", "two"])
        await both_logged.wait()
        found("logged", logged)

        blocking = asyncio.Event()

        async def on_block(value, total, message):
            blocking.set()

        given_up = asyncio.create_task(client.call_tool("block", {"marker": marker}, progress_handler=on_block))
        await blocking.wait()
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await call("after", "add", a=20, b=22)
        found("cancelled", await has_ended(marker))
    found("closed", value=True)
    if server[0].endswith("/sse"):
        try:
            async with Client(reach(*server), mode=mode) as client:
                await client.call_tool("echo", {"text": BIG})
        except Exception as error:
            while inner := getattr(error, "exceptions", None):
                error = inner[0]
            found("too_big", str(error))


asyncio.run(main())
