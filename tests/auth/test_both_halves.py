"""Our client logs in at our authorization server and uses a server that it protects; and it is not fooled."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import AsyncGenerator, Mapping
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
    HttpServerSettings,
    OAuth,
    Resynced,
    Server,
    ToolsListChanged,
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
async def logged_in(
    login: AuthorizationServer,
    revision: str,
    protection: Mapping[str, Any] | None = None,
    settings: HttpServerSettings | None = None,
    **options: Any,
) -> AsyncGenerator[Client]:
    server: Server[Any] = Server("orders")

    @server.tool
    async def whoami(ctx: Context[Any]) -> str:
        assert ctx.principal is not None
        return ctx.principal.subject

    def buy() -> str:
        return "bought"

    @server.tool
    async def open_shop() -> str:
        server.tool(buy)
        return "open"

    @server.tool(scopes={"orders:write"})
    async def order(title: str) -> str:
        return f"ordered {title}"

    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    resource = f"http://127.0.0.1:{port}/mcp"
    auth = OAuth(open_page=log_in, listen=False, redirect_uri="http://localhost:3000/callback", **options)
    failure: Exception | None = None
    async with login.serving(), trio.open_nursery() as nursery:
        protected = login.protect(resource, scopes={"orders:read"}, **(protection or {}))
        serve = partial(serve_http, server, port=port, http="lean", settings=settings, auth=protected)
        await nursery.start(serve)
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


async def test_a_thousand_calls_with_an_expired_token_refresh_it_once() -> None:
    """Each request carries the token, and each is refused: whoever comes first refreshes it for all."""
    login = AuthorizationServer()
    many = HttpServerSettings(
        max_requests=3_000, max_requests_per_principal=3_000, max_connections_per_address=1_000
    )
    answers: list[str | None] = []
    with trio.fail_after(60):
        async with logged_in(login, "2026-07-28", settings=many) as client:
            assert (await client.call_tool("whoami")).text == "ann"
            login.now = lambda: time.time() + 2 * login.lifetime

            async def call() -> None:
                answers.append((await client.call_tool("whoami")).text)

            async with trio.open_nursery() as nursery:
                for _ in range(1_000):
                    nursery.start_soon(call)
    assert answers == ["ann"] * 1_000
    assert dict(login.grants) == {"authorization_code": 1, "refresh_token": 1}


async def test_a_listener_outlives_the_token_with_which_it_was_opened() -> None:
    """The server ends the stream when the token expires; the client subscribes again with a fresh one."""
    login = AuthorizationServer(lifetime=2.0)
    with trio.fail_after(30):
        async with (
            logged_in(login, "2026-07-28", {"leeway": 0.0}) as client,
            client.listen(tools_list_changed=True) as changes,
        ):
            login.lifetime = 3_600.0  # of the next one
            assert isinstance(await anext(changes), Resynced), "changes may have been missed meanwhile"
            assert dict(login.grants)["refresh_token"] >= 1
            await client.call_tool("open_shop")
            assert isinstance(await anext(changes), ToolsListChanged), "they are heard again"
    assert login.grants["authorization_code"] == 1, "nobody was asked again"
