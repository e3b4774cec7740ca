"""The ASGI application on hosts that are not ours, unchanged: Hypercorn's Trio worker, and anycorn. Real sockets."""

from __future__ import annotations

import os
import sys
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
from http_raw import Events, Raw, call_tool
from http_wire import request_for
from inside_http import open_http_client, parse_target
from other_hosts import HOSTS, hosted, mounted
from shared.http_server_other_hosts import Program

from trio_mcp import McpASGI, open_client

LOGGING = {"io.modelcontextprotocol/logLevel": "debug"}


posix = pytest.mark.skipif(sys.platform == "win32", reason="looks at /dev/fd")


@HOSTS
@pytest.mark.parametrize("is_mounted", [False, True], ids=["alone", "mounted"])
async def test_both_eras_on_another_host(host: str, *, is_mounted: bool) -> None:
    """By itself with the lifespan protocol, and under a path of Starlette, beside another route."""
    program = Program()
    mcp = McpASGI(program.server)
    app: Any = mounted(mcp) if is_mounted else mcp
    async with hosted(host, app) as base, open_http_client() as http:
        url = f"{base}/tools/mcp" if is_mounted else f"{base}/mcp"
        for era in ("modern", "legacy"):
            async with open_client(url, era=era) as client:
                assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        raw = Raw(http, parse_target(url))
        if is_mounted:
            assert (await raw.send(None, method="GET", path="/")).body == b"a page"
            assert (await raw.send(None, method="GET", path="/mcp")).status == 404
        assert program.log == ["opened"]
    assert program.log == ["opened", "closed"]


@HOSTS
async def test_streams_and_disconnects_on_another_host(host: str) -> None:
    """What a handler says arrives before it ends; who goes cancels it, whether anything was said or not."""
    program = Program()
    async with hosted(host, McpASGI(program.server)) as base, open_http_client() as http:
        raw = Raw(http, parse_target(f"{base}/mcp"))
        async with raw.open(call_tool("speak_and_wait", _meta=LOGGING)) as response:
            events = Events(response)
            assert (await events.message())["params"]["data"] == "first"
            program.go_on.set()
            assert (await events.message())["result"]["content"][0]["text"] == "last"
        for text in ("", "hello"):
            program.log.clear()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(raw.send, call_tool("hang", _meta=LOGGING, text=text))
                while program.log != ["began"]:
                    await trio.sleep(0.01)
                nursery.cancel_scope.cancel()
            while program.log != ["began", "ended"]:
                await trio.sleep(0.01)


@HOSTS
@posix
async def test_connections_whose_clients_went_behind_many_requests_are_freed(host: str) -> None:
    """A host reads no further until an answer has ended, although nobody takes it: each kept its descriptor."""
    program = Program()
    async with hosted(host, McpASGI(program.server)) as base, open_http_client() as http:
        raw = Raw(http, parse_target(f"{base}/mcp"))
        assert (await raw.send(call_tool("add", a=1, b=1))).status == 200
        before = len(os.listdir("/dev/fd"))
        target = urlsplit(base)
        request = request_for(call_tool("add", a=1, b=1))
        for _ in range(10):
            stream = await trio.open_tcp_stream(target.hostname or "", target.port or 0)
            await stream.send_all(request * 20)
            assert await stream.receive_some(1), "it has begun with them"
            stream.socket.close()
        while len(os.listdir("/dev/fd")) > before + 2:
            await trio.sleep(0.01)
