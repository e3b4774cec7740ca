"""What becomes of clients when a process may open few files. Real processes and sockets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from http_raw import call_tool
from http_wire import Wire

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere this machine has one address"),
]

PROGRAM = """
import logging, resource, sys
from functools import partial
import trio
from trio_mcp import HttpServerSettings, Server, serve_http

kept = []
server = Server("small")

@server.tool
async def opens(files: int) -> int:
    try:
        for _ in range(files):
            kept.append(open("/dev/null"))
    except OSError:
        pass
    return len(kept)

async def main():
    urls = None
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(partial(serve_http, server, port=0, http=sys.argv[2]))
        print(urls[0].split(":")[2].split("/")[0], flush=True)

logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2)
trio.run(main)
"""


@asynccontextmanager
async def small_server(files: int, http: str) -> AsyncGenerator[tuple[int, trio.Process]]:
    """Run a server that may open so many files; yields its port."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", PROGRAM, str(files), http], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        yield int(await process.stdout.receive_some()), process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()
            await process.stderr.aclose()


@asynccontextmanager
async def connected(port: int, address: str) -> AsyncGenerator[Wire]:
    stream = await trio.open_tcp_stream("127.0.0.1", port, local_address=address)
    try:
        yield Wire(stream)
    finally:
        await trio.aclose_forcefully(stream)


async def ask(port: int, address: str, files: int = 0) -> int:
    """Call the tool over a connection of its own."""
    async with connected(port, address) as wire:
        await wire.stream.send_all(wire.request(call_tool("opens", files=files), {"Connection": "close"}))
        status, body = await wire.answer()
        assert status == 200
        return int(body.split(b'"text":"')[1].split(b'"')[0])


@pytest.mark.parametrize("http", ["hypercorn", "lean"])
async def test_silent_connections_do_not_shut_out_others_where_files_are_very_few(http: str) -> None:
    """So many that handlers and waiting connections had all of them in reserve, and one connection was left."""
    async with small_server(64, http) as (port, _), AsyncExitStack() as stack:
        for n in range(90):
            await stack.enter_async_context(connected(port, f"127.0.0.{n % 3 + 2}"))
        for n in range(10):
            assert await ask(port, f"127.0.0.{n + 9}") == 0


@pytest.mark.parametrize("http", ["hypercorn", "lean"])
@pytest.mark.parametrize("use", ["silent", "half a head"])
async def test_silent_connections_do_not_shut_out_others_where_files_are_few(http: str, use: str) -> None:
    """They were kept for `idle_timeout`, 75 s, and nobody else got in: `max_connections` was never reached."""
    async with small_server(256, http) as (port, process), AsyncExitStack() as stack:
        for n in range(600):
            wire = await stack.enter_async_context(connected(port, f"127.0.0.{n % 3 + 2}"))
            if use == "half a head":
                await wire.stream.send_all(b"POST /mcp HT")
        for n in range(10):
            assert await ask(port, f"127.0.0.{n + 9}") == 0
        assert await ask(port, "127.0.0.9", 30) == 30, "a reserve is left to handlers"
        assert process.stderr is not None
        process.kill()
        said = (await process.stderr.receive_some(1 << 20)).decode()
        assert said.count("(max_connections); raise RLIMIT_NOFILE") == 1
        assert "no room for another connection" not in said


@pytest.mark.parametrize("http", ["hypercorn", "lean"])
async def test_who_has_most_gives_way_when_no_file_can_be_opened_any_more(http: str) -> None:
    """Whatever else the process has opened meanwhile."""
    async with small_server(256, http) as (port, process), AsyncExitStack() as stack:
        for _ in range(100):
            await stack.enter_async_context(connected(port, "127.0.0.2"))
        assert await ask(port, "127.0.0.3") == 0, "what is imported late is there by now"
        assert await ask(port, "127.0.0.3", 1_000) > 30
        for _ in range(3):  # the one that this call has left
            await stack.enter_async_context(connected(port, "127.0.0.2"))
        for n in range(5):
            await ask(port, f"127.0.0.{n + 9}")
        assert process.stderr is not None
        process.kill()
        said = (await process.stderr.receive_some(1 << 20)).decode()
        assert said.count("no room for another connection") <= 1


@pytest.mark.parametrize("http", ["hypercorn", "lean"])
async def test_who_rests_keeps_its_connection_while_another_address_opens_more_than_there_are_places(
    http: str,
) -> None:
    """Where files were few, one address could have all places, and then that of whoever rested longest."""
    async with (
        small_server(256, http) as (port, _),
        connected(port, "127.0.0.9") as mine,
        AsyncExitStack() as stack,
    ):
        for _ in range(2):
            await mine.stream.send_all(mine.request(call_tool("opens", files=0)))
            assert (await mine.answer())[0] == 200
            for _ in range(300):
                await stack.enter_async_context(connected(port, "127.0.0.2"))
