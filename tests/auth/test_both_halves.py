"""Our client logs in at our authorization server and uses a server that it protects; and it is not fooled."""

from __future__ import annotations

import http.client
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, get_args
from urllib.parse import urlsplit

import pytest
import trio

from trio_mcp import (
    AuthorizationFailed,
    AuthorizationRefused,
    Client,
    Context,
    OAuth,
    Server,
    open_client,
    serve_http,
)
from trio_mcp.testing import AuthorizationServer, Misbehaviour

HARMLESS = {"refused-refreshes", "same-refresh-token", "no-refresh-token"}
"""What a client lives with."""

SLOW = {"hanging-metadata", "hanging-token-endpoint"}


def _visit(url: str) -> str | None:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        return connection.getresponse().getheader("Location")
    finally:
        connection.close()


async def log_in(url: str) -> str | None:
    return await trio.to_thread.run_sync(_visit, url)


@asynccontextmanager
async def logged_in(login: AuthorizationServer, revision: str, **options: Any) -> AsyncGenerator[Client]:
    server: Server[Any] = Server("orders")

    @server.tool
    async def whoami(ctx: Context[Any]) -> str:
        assert ctx.principal is not None
        return ctx.principal.subject

    @server.tool(scopes={"orders:write"})
    async def order(title: str) -> str:
        return f"ordered {title}"

    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    resource = f"http://127.0.0.1:{port}/mcp"
    auth = OAuth(open_page=log_in, listen=False, redirect_uri="http://localhost:3000/callback", **options)
    failure: Exception | None = None
    async with login.serving(), trio.open_nursery() as nursery:
        protection = login.protect(resource, scopes={"orders:read"})
        await nursery.start(partial(serve_http, server, port=port, auth=protection))
        try:
            async with open_client(resource, auth=auth, revision=revision) as client:
                yield client
        except Exception as error:  # comes out as itself, not as a group of the nursery
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@pytest.mark.parametrize("dpop", [None, "bound", "with nonces"])
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_person_logs_in_and_comes_back_with_more(revision: str, dpop: str | None) -> None:
    login = AuthorizationServer(dpop="offered" if dpop is None else "required", dpop_nonces=dpop == "with nonces")
    with trio.fail_after(20):
        async with logged_in(login, revision, dpop=None if dpop is None else True) as client:
            assert (await client.call_tool("whoami")).text == "ann"
            assert (await client.call_tool("order", {"title": "Dune"})).text == "ordered Dune"
            assert (await client.call_tool("whoami")).text == "ann"
    assert login.grants["authorization_code"] >= 2
    assert "refresh_token" not in login.grants


@pytest.mark.parametrize("wrong", sorted(set(get_args(Misbehaviour)) - SLOW))
async def test_an_authorization_server_that_does_wrong_gets_nothing(wrong: Any) -> None:
    login = AuthorizationServer(misbehaviours={wrong})
    with trio.fail_after(20):
        if wrong in HARMLESS:
            async with logged_in(login, "2026-07-28") as client:
                assert (await client.call_tool("whoami")).text == "ann"
            return
        with pytest.raises((AuthorizationFailed, AuthorizationRefused)):
            async with logged_in(login, "2026-07-28") as client:
                await client.call_tool("whoami")
