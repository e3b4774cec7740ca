"""A client of a server that lists hundreds of tools, each with a large schema, run with little memory.

Run as a program by `test_remembering`.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Sequence
from typing import Any

import trio

from trio_mcp import Channel, Incoming, McpError, Outgoing, open_client

TOOLS = 300
TOOLS_OF_PAGE = 20


def schema() -> dict[str, Any]:
    """Return a schema of 200 kB, which takes fifteen times as much once it is decoded and compiled."""
    properties = {f"property{n}": {"type": "array", "items": {"type": "string"}} for n in range(3_200)}
    return {"type": "object", "properties": properties}


class Hostile(Channel):
    """The server's end: it answers at once."""

    @property
    def description(self) -> str:
        """What errors call it."""
        return "the hostile server"

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[bytes](100)
        self._schema = json.dumps(schema(), separators=(",", ":")).encode()

    def _page(self, begin: int) -> bytes:
        tools = [
            b'{"name":"t%d","inputSchema":{"type":"object"},"outputSchema":%b}' % (number, self._schema)
            for number in range(begin, begin + TOOLS_OF_PAGE)
        ]
        end = begin + TOOLS_OF_PAGE
        cursor = b"" if end >= TOOLS else b',"nextCursor":"%d"' % end
        return b'{"resultType":"complete","ttlMs":3600000,"cacheScope":"private","tools":[%b]%b}' % (
            b",".join(tools),
            cursor,
        )

    def _result(self, message: dict[str, Any]) -> bytes:
        params = message["params"]
        if message["method"] == "tools/list":
            return self._page(int(params.get("cursor", 0)))
        if message["method"] == "tools/call":
            return b'{"resultType":"complete","content":[],"structuredContent":{"property1":[]}}'
        return (
            b'{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},'
            b'"ttlMs":0,"cacheScope":"private"}'
        )

    async def send(self, messages: Sequence[Outgoing]) -> None:
        for sent in messages:
            message = json.loads(sent.data)
            if "id" in message:
                answer = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (
                    json.dumps(message["id"]).encode(),
                    self._result(message),
                )
                await self._send.send(answer)

    async def receive(self) -> Sequence[Incoming]:
        return [Incoming(await self._receive.receive())]

    async def aclose(self) -> None:
        self._send.close()
        await trio.lowlevel.checkpoint()


async def main(memory: int) -> None:
    """List the tools one by one and in one go, and call some, with so many bytes of memory."""
    async with open_client(Hostile()) as client:
        await client.call_tool("unknown")  # what is needed is loaded
        in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_AS, (in_use + memory, in_use + memory))
        names = [tool.name async for tool in client.list_tools()]
        assert len(names) == TOOLS
        for name in names[::50]:
            await client.call_tool(name)
        try:
            await client.list_tools()
        except McpError as error:
            assert "max_message_bytes" in str(error)
        else:
            raise AssertionError("more was gathered than may be")
        print("alive")


trio.run(main, int(sys.argv[1]))
