"""What subscriptions keep, of whom, and who gives way; in both eras."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
from http_raw import modern, open_raw

from trio_mcp import HttpServerSettings, Limits, Server

pytestmark = pytest.mark.usefixtures("under")

HOG, HONEST = "203.0.113.1", "203.0.113.2"
SETTINGS = HttpServerSettings(trusted_proxies=frozenset({"127.0.0.1"}))
PADDING: list[list[int]] = [[] for _ in range(2_000)]


def make_server(**limits: Any) -> Server[Any]:
    server: Server[Any] = Server("s", limits=Limits(**limits))

    @server.resource("x://{name}")
    async def read(name: str) -> str:
        return name

    return server


def listen(uri: str, padding: object = PADDING) -> dict[str, Any]:
    request = modern("subscriptions/listen", notifications={"resourceSubscriptions": [uri]})
    request["params"]["_meta"]["example.com/padding"] = padding
    return request


async def test_as_many_ordinary_subscriptions_fit_as_are_allowed() -> None:
    """By default: the bound on their bytes was met by the 935th of max_subscriptions."""
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["x://a resource with a name of its own"]}
    async with open_raw(make_server(), SETTINGS) as raw, AsyncExitStack() as streams:
        opened = [
            await streams.enter_async_context(
                raw.open(modern("subscriptions/listen", notifications=wanted), {"X-Forwarded-For": HOG})
            )
            for _ in range(Limits().max_subscriptions)
        ]
        assert {answer.status for answer in opened} == {200}
