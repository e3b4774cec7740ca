"""Calls of a client over HTTP: what fails alone and how it says so, header fields, tools that want some, sockets."""

from __future__ import annotations

import select
import ssl
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
import trustme
from http_mcp import MODERN_DISCOVERY, result
from http_script import ServerConnection, serve_http_script
from inside_base import plain_stream
from inside_wire import json_module as _json

from trio_mcp import (
    ConnectionLost,
    HttpServerParameters,
    HttpSettings,
    open_client,
)

# Real sockets.


async def serve_modern(connection: ServerConnection) -> None:
    while (request := await connection.read()) is not None:
        message: dict[str, Any] = _json.decode(request.body)
        if message["method"] == "server/discover":
            answer = result(message["id"], **MODERN_DISCOVERY)
        else:
            answer = result(message["id"], token=request.headers.get("x-token"), target=request.target)
        await connection.answer(_json.encode(answer))


async def test_a_url_is_enough() -> None:
    async with serve_http_script(serve_modern) as server, open_client(server.target.url) as client:
        assert client.revision == "2026-07-28"
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(client.request, "x/y")
    await server.wait_all_gone()


def private_authority() -> tuple[ssl.SSLContext, Callable[[trio.SocketStream], trio.abc.Stream]]:
    """Return what trusts an authority of our own, and what speaks TLS with its certificate."""
    authority = trustme.CA()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(theirs)  # pyright: ignore[reportUnknownMemberType]
    ours = ssl.create_default_context()
    authority.configure_trust(ours)  # pyright: ignore[reportUnknownMemberType]

    def wrap(stream: trio.SocketStream) -> trio.abc.Stream:
        return trio.SSLStream(stream, theirs, server_side=True, https_compatible=True)

    return ours, wrap


@pytest.mark.parametrize("is_secure", [False, True])
@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_server_can_see_that_a_call_was_given_up_before_its_caller_goes_on(
    is_secure: bool, has_begun: bool
) -> None:
    """2026-07-28: the end of the response is the cancellation, and the caller may compute for long."""
    ours, wrap = private_authority()
    asked = trio.Event()
    sockets: list[int] = []

    async def serve(connection: ServerConnection) -> None:
        while (request := await connection.read()) is not None:
            message: dict[str, Any] = _json.decode(request.body)
            if message["method"] == "server/discover":
                await connection.answer(_json.encode(result(message["id"], **MODERN_DISCOVERY)))
            elif message["method"] == "x/slow":
                plain = plain_stream(connection.stream)
                assert isinstance(plain, trio.SocketStream)
                sockets.append(plain.socket.fileno())
                if has_begun:
                    await connection.start_chunked()
                asked.set()
                await connection.wait_gone()
                return
            else:
                await connection.answer(_json.encode(result(message["id"])))

    async def give_up(scope: trio.CancelScope) -> None:
        await asked.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not select.select(sockets, [], [], 0)[0]
        scope.cancel()

    async with serve_http_script(serve, wrap=wrap if is_secure else None) as server:
        parameters = HttpServerParameters(server.target.url, http=HttpSettings(ssl_context=ours))
        async with open_client(parameters) as client, trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                nursery.start_soon(give_up, scope)
                await client.request("x/slow")
            assert select.select(sockets, [], [], 0)[0] == sockets
            await client.request("x/y")
        await server.wait_all_gone()


async def test_tls_with_a_context_of_ones_own() -> None:
    """Certificates of a private authority; without it the server is not trusted."""
    ours, wrap = private_authority()
    async with serve_http_script(serve_modern, wrap=wrap) as server:
        parameters = HttpServerParameters(
            server.target.url, headers={"X-Token": "t"}, http=HttpSettings(ssl_context=ours)
        )
        async with open_client(parameters) as client:
            assert (await client.request("x/y"))["token"] == "t"
        with pytest.raises(ConnectionLost, match="certificate cannot be trusted"):
            async with open_client(server.target.url):
                raise AssertionError


async def test_a_proxy_of_ones_own_is_asked_for_everything() -> None:
    """Also for this machine, unlike one that the environment names."""
    async with serve_http_script(serve_modern) as proxy:
        address = f"http://user:word@127.0.0.1:{proxy.target.port}"
        parameters = HttpServerParameters("http://127.0.0.1:9/mcp", http=HttpSettings(proxy=address))
        async with open_client(parameters) as client:
            assert (await client.request("x/y"))["target"] == "http://127.0.0.1:9/mcp"
    assert "word" not in repr(parameters)
    for wrong in ("socks5://127.0.0.1", "http://"):
        with pytest.raises(ValueError, match=r"prox|URL"):
            HttpSettings(proxy=wrong)
