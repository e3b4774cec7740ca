"""What the tests of both halves share in several layers."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
from logging_in import log_in_at

from trio_mcp import (
    Client,
    Context,
    HttpServerSettings,
    OAuth,
    Server,
    open_client,
    serve_http,
)
from trio_mcp.testing import AuthorizationServer


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
    auth = OAuth(open_page=log_in_at, listen=False, redirect_uri="http://localhost:3000/callback", **options)
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
