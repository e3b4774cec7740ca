"""What the tests of kept subscriptions share in several layers."""

from __future__ import annotations

from typing import Any

from http_raw import modern

from trio_mcp import HttpServerSettings, Limits, Server

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
