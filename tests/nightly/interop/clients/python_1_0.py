"""A client on the Python SDK 1.0: ``python_1_0.py MARKER URL|COMMAND…``; says what it found, a line of JSON each.

That release knows neither progress callbacks nor a way to cancel, and its user reads the notifications.
"""

# It runs in another environment, on a package that is not installed in this one.
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import json
import sys

import anyio
from mcp import types
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client

BIG = "x" * 3_000_000

logged = []
both_logged = anyio.Event()


def found(name, value):
    print(json.dumps({"finding": name, "value": value}), flush=True)


def reach(target, *args):
    if target.startswith("http:"):
        return sse_client(target)
    return stdio_client(StdioServerParameters(command=target, args=args))


async def read_notifications(session):
    async for message in session.incoming_messages:
        if isinstance(message, types.ServerNotification) and message.root.method == "notifications/message":
            logged.append(message.root.params.data)
            if logged[-2:] == ["one", "two"]:
                both_logged.set()


async def main():
    async def call_tool(name, **arguments):
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        request = types.CallToolRequest(method="tools/call", params=params)
        return await session.send_request(types.ClientRequest(request), types.CallToolResult)

    async def call(finding, name, **arguments):
        result = await call_tool(name, **arguments)
        found(finding, {"error": result.isError, "text": "".join(block.text for block in result.content)})

    server = sys.argv[2:]
    async with (
        reach(*server) as streams,
        ClientSession(*streams) as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(read_notifications, session)
        agreed = await session.initialize()
        found("agreed", {"revision": agreed.protocolVersion, "server": agreed.serverInfo.name})
        listed = await session.send_request(
            types.ClientRequest(types.ListToolsRequest(method="tools/list")), types.ListToolsResult
        )
        found("tools", [tool.name for tool in listed.tools])
        await session.send_ping()
        await call("add", "add", a=1, b=2)
        await call("sync_add", "sync_add", a=1, b=2)
        await call("echo", "echo", text="Grüße, 世界 🌍 \u2028 \n")
        await call("structured", "structured", place="Berlin")
        await call("divide", "divide", a=1, b=0)
        await call("fail", "fail")
        await call("wrong", "add", a="one", b=2)
        await call("noisy", "noisy")
        found("big", (await call_tool("echo", text=BIG)).content[0].text == BIG)
        sums = {}

        async def add(number):
            result = await call_tool("add", a=number, b=number)
            sums[number] = result.content[0].text

        async with anyio.create_task_group() as crowd:
            for number in range(50):
                crowd.start_soon(add, number)
        found("crowd", [sums[number] for number in range(50)])
        await session.set_logging_level("info")
        await call("log", "log", words=["one", "two"])
        await both_logged.wait()
        found("logged", logged)
        tasks.cancel_scope.cancel()
    found("closed", value=True)


anyio.run(main)
