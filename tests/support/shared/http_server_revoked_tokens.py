"""What the tests of revoked tokens share in several layers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio
from http_raw import Raw, open_raw

from trio_mcp import (
    Context,
    HttpServerSettings,
    ResourceServer,
    Server,
)

ISSUER = "https://login.test"

OTHER = "https://other.test"

RESOURCE = "https://mcp.test/mcp"

SETTINGS = HttpServerSettings(sse=True, keep_alive_interval=20, message_timeout=5_000)


class Tokens:
    """An authorization server that is asked about tokens: ``{subject}@{issuer} {scopes…}``, unless they are revoked."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()
        self.scopes: dict[str, str] = {}
        self.asked = 0
        self.failure: Exception | None = None
        self.hangs = False

    async def verify(self, token: str) -> dict[str, Any] | None:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        if self.hangs:
            await trio.sleep_forever()
        if self.failure is not None:
            raise self.failure
        subject, _, issuer = token.partition("@")
        if token in self.revoked:
            return None
        return {
            "sub": subject,
            "iss": issuer or ISSUER,
            "aud": RESOURCE,
            "scope": self.scopes.get(token, "mcp orders:write"),
        }


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def make_server() -> Server[Any]:
    server: Server[Any] = Server("protected")

    @server.tool
    async def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    @server.tool
    async def wait(seconds: int) -> str:
        await trio.sleep(seconds)
        return "done"

    @server.tool
    async def ask(ctx: Context) -> str:
        return "yes" if await ctx.elicit("Sure?", bool) else "no"

    @server.tool(scopes={"orders:write"})
    async def order() -> str:
        return "ordered"

    server.add_resource("public://x", "x")
    return server


@asynccontextmanager
async def protected(tokens: Tokens, **options: Any) -> AsyncGenerator[Raw]:
    given: dict[str, Any] = {
        "authorization_servers": [ISSUER, OTHER],
        "scopes": {"mcp"},
        "keep_for": 60,
        **options,
    }
    auth = ResourceServer(RESOURCE, verifier=tokens.verify, **given)
    async with open_raw(make_server(), SETTINGS, auth=auth) as raw:
        yield raw
