"""What is kept of requests over HTTP: in whose name, how much at most, what is refused, and who goes on working."""

from __future__ import annotations

import socket
import tracemalloc
from contextlib import AsyncExitStack

import attrs
import trio
from http_raw import call_tool
from http_wire import Served, Wire, head_for, request_for, serving
from inside_endpoint import RequestBody
from kept import kept_by
from raw import initialize
from shared.http_server_what_requests_keep import (
    HOG,
    HONEST,
    MIB,
    SETTINGS,
    bytes_of,
    calling,
    echo_server,
    large_server,
    until_lent,
)

from trio_mcp import Limits, Server


async def test_a_body_in_tiny_pieces_weighs_what_is_in_it(host: str) -> None:
    """Each piece was an object of its own, of forty bytes for one."""
    server = echo_server()
    with trio.fail_after(60):
        async with serving(server, SETTINGS) as served, served.wire() as wire:
            head = head_for(0, HOG).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
            await wire.stream.send_all(head + b"4e20\r\n" + b" " * 20_000 + b"\r\n")
            await until_lent(server, least=1)
            tracemalloc.start()
            try:
                for _ in range(40):
                    await wire.stream.send_all(b"1\r\n \r\n" * 500)
                await trio.sleep(0.1)
                assert kept_by(RequestBody) < 64 * 1024
            finally:
                tracemalloc.stop()


async def test_a_body_is_not_read_before_it_is_known_who_sends_it(host: str) -> None:
    """Nobody is there yet in whose name it could be kept; what the system holds is the sender's own."""
    gate = trio.Event()

    async def authenticate(_: object) -> str:
        await gate.wait()
        return "somebody"

    server = echo_server(Limits())
    message = call_tool("echo", text="x" * 3_000_000)
    with trio.fail_after(30):
        async with serving(server, SETTINGS, authenticate=authenticate) as served, served.wire() as wire:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wire.stream.send_all, request_for(message, HONEST))
                tracemalloc.start()
                try:
                    await trio.sleep(0.3)
                    assert (
                        kept_by(RequestBody) < 200 * 1024
                    )  # the body is 3 MB; a read of the socket brings 64 KiB
                finally:
                    tracemalloc.stop()
                gate.set()
            assert (await wire.answer())[0] == 200


async def test_what_is_sent_ahead_is_bounded(host: str) -> None:
    """Behind a request that is served, little is read, and for nobody's account: there can be so many connections."""
    gate = trio.Event()
    server = Server("gate")

    @server.tool
    async def wait() -> None:
        await gate.wait()

    async with serving(server, SETTINGS) as served, served.wire() as wire:
        with trio.fail_after(30):
            tracemalloc.start()
            try:
                await wire.stream.send_all(request_for(call_tool("wait")))
                with trio.move_on_after(0.5):
                    await wire.stream.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200_000)
                taken, _ = tracemalloc.get_traced_memory()
                only = tracemalloc.Filter(inclusive=True, filename_pattern="*/_hosts/*")
                traces = tracemalloc.take_snapshot().filter_traces([only]).traces
                assert sum(trace.size for trace in traces) < 64 * 1024, taken
            finally:
                tracemalloc.stop()
                gate.set()


# What sessions say and nobody reads.


async def begin_2024(served: Served, wire: Wire) -> str:
    """Begin a session of HTTP with SSE whose stream nobody reads any more. Returns where its messages go."""
    wire.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    head = f"GET /sse HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {HOG['X-Forwarded-For']}\r\n"
    await wire.stream.send_all(f"{head}Accept: text/event-stream\r\n\r\n".encode())
    said = b""
    while b"\n" not in said.partition(b"session_id=")[2]:
        said += await wire.stream.receive_some()
    path = "/messages" + said.partition(b"/messages")[2].split()[0].decode()
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    for message in (initialize("2024-11-05"), note):
        assert (await served.raw.send(message, HOG, path=path)).status == 202
    return path


async def test_sessions_that_find_no_room_keep_nothing(host: str) -> None:
    """Once what they had not sent stayed, uncounted, until the client was given up: a server took 520 MiB."""
    limits = Limits(max_kept_bytes=48 * MIB, max_kept_bytes_per_principal=24 * MIB)
    gate = large_server(limits)
    settings = attrs.evolve(SETTINGS, sse=True, send_timeout=600)
    with trio.fail_after(60):
        async with serving(gate.server, settings) as served, AsyncExitStack() as stack:
            wires = [await stack.enter_async_context(served.wire()) for _ in range(8)]
            paths = [await begin_2024(served, wire) for wire in wires]
            tracemalloc.start()
            stack.callback(tracemalloc.stop)
            for path in paths:
                call = calling("legacy", "large", size=6_000_000)
                assert (await served.raw.send(call, HOG, path=path)).status == 202
                assert bytes_of(gate.server).lent <= 24 * MIB
            assert bytes_of(gate.server).refused
            with trio.fail_after(10):
                while tracemalloc.get_traced_memory()[0] > bytes_of(gate.server).lent + 2 * MIB:
                    await trio.sleep(0.01)
