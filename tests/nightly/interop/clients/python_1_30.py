"""A client on the Python SDK 1.30: ``python_1_30.py MARKER URL|COMMAND…``; says what it found, a line of JSON each."""

# It runs in another environment, on a package that is not installed in this one.
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import json
import sys
from pathlib import Path

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

BIG = "x" * 3_000_000

logged = []
both_logged = anyio.Event()
blocking = anyio.Event()


def found(name, value):
    print(json.dumps({"finding": name, "value": value}), flush=True)


async def has_ended(marker):
    # The goodbye comes first, but handlers end at their own pace; and over HTTP it travels beside the call after it.
    for _ in range(500):
        if Path(marker).exists():
            return True
        await anyio.sleep(0.01)
    return False


def reach(target, *args):
    if target.endswith("/sse"):
        return sse_client(target)
    if target.startswith("http:"):
        return streamable_http_client(target)
    return stdio_client(StdioServerParameters(command=target, args=args))


async def on_log(params):
    logged.append(params.data)
    if logged[-2:] == ["one", "two"]:
        both_logged.set()


async def main():
    async def call(finding, name, **arguments):
        result = await session.call_tool(name, arguments)
        text = "".join(block.text for block in result.content)
        found(finding, {"error": result.isError, "text": text, "structured": result.structuredContent})

    async def report_blocking(progress, total, message):
        blocking.set()

    async def cancel_a_call(marker):
        # This release has the notification but leaves it to its user to send it.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                lambda: session.call_tool("block", {"marker": marker}, progress_callback=report_blocking)
            )
            await blocking.wait()
            params = types.CancelledNotificationParams(requestId=session._request_id - 1, reason="enough")
            await session.send_notification(
                types.ClientNotification(
                    types.CancelledNotification(method="notifications/cancelled", params=params)
                )
            )
            tasks.cancel_scope.cancel()

    marker, *server = sys.argv[1:]
    async with (
        reach(*server) as streams,
        ClientSession(*streams[:2], logging_callback=on_log) as session,
    ):
        agreed = await session.initialize()
        found("agreed", {"revision": agreed.protocolVersion, "server": agreed.serverInfo.name})
        listed = await session.list_tools()
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
        found("big", (await session.call_tool("echo", {"text": BIG})).content[0].text == BIG)
        sums = {}

        async def add(number):
            result = await session.call_tool("add", {"a": number, "b": number})
            sums[number] = result.content[0].text

        async with anyio.create_task_group() as crowd:
            for number in range(50):
                crowd.start_soon(add, number)
        found("crowd", [sums[number] for number in range(50)])
        try:
            await session.call_tool("nonsense", {})
        except McpError as error:
            found("unknown", error.error.code)
        progress = []
        async with anyio.create_task_group() as tasks:

            async def on_progress(value, total, message):
                progress.append([value, total, message])
                tasks.start_soon(session.call_tool, "proceed", {})

            await session.call_tool("slow", {"steps": 3}, progress_callback=on_progress)
        found("progress", progress)
        await session.set_logging_level("info")
        await call("log", "log", words=["one", "two"])
        await both_logged.wait()
        found("logged", logged)
        await cancel_a_call(marker)
        await call("after", "add", a=20, b=22)
        found("cancelled", await has_ended(marker))
    found("closed", value=True)


anyio.run(main)
