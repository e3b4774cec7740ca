"""MCP over real HTTP connections: a client of the library against a scripted server on a port of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing
from http_mcp import MODERN_DISCOVERY, result
from http_script import ServerConnection, serve_http_script
from inside_transports import open_streamable_http
from patient_clock import STILL

from trio_mcp import ConnectionLost, HttpServerParameters, Limits, open_client


async def serve(connection: ServerConnection) -> None:
    """A modern server that does what the name of the method says."""
    while (request := await connection.read()) is not None:
        message: dict[str, Any] = json.loads(request.body)
        method, id = message["method"], message["id"]
        answer = json.dumps(result(id, connection=connection.number)).encode()
        if method == "server/discover":
            await connection.answer(json.dumps(result(id, **MODERN_DISCOVERY)).encode())
        elif method == "x/stream":
            await connection.start_chunked()
            for byte in b": hi\r\n\r\ndata: %b\r\n" % answer:
                await connection.chunk(bytes([byte]))
            # What completes the event, and the end of the stream, in one write: a client that has the answer may ask
            # again at once, and then the connection must be free.
            await connection.write(b"1\r\n\r\r\n1\r\n\n\r\n0\r\n\r\n")
        elif method == "x/cut":
            await connection.start_chunked()
            await connection.chunk(b"data: {")
            return
        elif method == "x/reset":
            return
        elif method == "x/hang":
            await connection.wait_gone()
            return
        else:
            await connection.answer(answer)


async def test_calls_share_connections_and_failures_stay_where_they_are() -> None:
    """JSON and streams on one connection; a reset, a cut stream and a cancelled call each cost only themselves."""
    async with (
        serve_http_script(serve) as server,
        open_streamable_http(HttpServerParameters(server.target.url), Limits()) as channel,
        open_client(channel) as client,
    ):
        for method in ("x/json", "x/stream", "x/json", "x/stream"):
            assert (await client.request(method))["connection"] == 1
        for method in ("x/reset", "x/cut"):
            with pytest.raises(ConnectionLost, match="closed the connection"):
                await client.request(method)
            assert "connection" in await client.request("x/json")
        before = server.connections
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.request, "x/hang")
            await trio.testing.wait_all_tasks_blocked(STILL)
            nursery.cancel_scope.cancel()
        while server.open > 1:  # the server sees the disconnect
            await trio.sleep(0.001)
        async with trio.open_nursery() as nursery:
            for n in range(50):
                nursery.start_soon(client.request, ("x/json", "x/stream")[n % 2])
        assert server.connections > before
    await server.wait_all_gone()


async def test_many_cancelled_calls_leave_nothing_behind() -> None:
    """Neither a connection in use nor an id that waits, after hundreds of deadlines at any moment."""
    async with (
        serve_http_script(serve) as server,
        open_streamable_http(HttpServerParameters(server.target.url), Limits()) as channel,
        open_client(channel) as client,
    ):

        async def ask(n: int) -> None:
            with trio.move_on_after(n % 17 / 500):
                await client.request(("x/json", "x/stream", "x/hang")[n % 3])

        async with trio.open_nursery() as nursery:
            for n in range(300):
                nursery.start_soon(ask, n)
        assert "connection" in await client.request("x/json")
        assert not channel._inbox.unanswered
        while server.open > 16:
            await trio.sleep(0.001)
    await server.wait_all_gone()
