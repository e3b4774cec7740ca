"""Our client logs in at our authorization server and uses a server that it protects; and it is not fooled."""

from __future__ import annotations

import time

import trio
from shared.auth_both_halves import logged_in

from trio_mcp import (
    HttpServerSettings,
)
from trio_mcp.testing import AuthorizationServer


async def test_a_thousand_calls_with_an_expired_token_refresh_it_once() -> None:
    """Each request carries the token, and each is refused: whoever comes first refreshes it for all."""
    login = AuthorizationServer()
    many = HttpServerSettings(max_requests=3_000, max_requests_per_principal=3_000, max_connections=2_000)
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
