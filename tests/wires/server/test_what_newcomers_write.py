"""What is written in the first hour, and meant otherwise: the error says what to write instead."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from trio_mcp import (
    ConnectionLost,
    RequestError,
    Server,
    open_client,
    serve_http,
)


async def error_at(url: str) -> str:
    """Return what a client says that cannot connect."""
    with pytest.raises((ConnectionLost, RequestError)) as refused:
        async with open_client(url):
            raise AssertionError
    return str(refused.value)


async def test_urls_that_are_nearly_right() -> None:
    """The scheme of another server, and a path that was left out."""
    server = Server("first")
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(partial(serve_http, server, port=0))
        base = url.removeprefix("http://").removesuffix("/mcp")
        no_tls = "TLS failed: WRONG_VERSION_NUMBER; the server there seems to speak no TLS: "
        assert (await error_at(f"https://{base}/mcp")).endswith(f"{no_tls}http://?")
        assert (await error_at(f"ws://{base}/mcp")).endswith(
            "refused the WebSocket with HTTP status 400 Bad Request: "
            "no WebSocket is served here, but HTTP; connect to http:// or https:// [-32600]"
        )
        asked = "(is this the URL of its MCP endpoint? Often that ends in /mcp) [-32600]"
        for path in ("/", "/sse/", "/mcp/elsewhere"):
            assert await error_at(f"http://{base}{path}?key=secret") == (
                f"http://{base}{path} answered with HTTP status 404: nothing is served at {path!r} {asked}"
            )
            assert await error_at(f"ws://{base}{path}") == (
                f"the server at ws://{base}{path} refused the WebSocket with HTTP status 404: "
                f"nothing is served at {path!r} {asked}"
            )
        assert (await error_at(f"http://{base}")).startswith(f"http://{base}/ answered with HTTP status 404: ")
        nursery.cancel_scope.cancel()


async def test_tls_to_a_socket_that_has_none() -> None:
    """Likewise, where the server answers what is no message."""

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b'{"jsonrpc": "2.0", "error": {"code": -32700, "message": "no JSON"}}\n')

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
        said = await error_at(f"tls://127.0.0.1:{listener.socket.getsockname()[1]}")
        assert said.endswith("TLS failed: WRONG_VERSION_NUMBER; the server there seems to speak no TLS: tcp://?")
        nursery.cancel_scope.cancel()
