"""What the tests of kept sessions share in several layers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from http_raw import Answer, Raw
from raw import initialize

from trio_mcp import HttpServerSettings

HOG, HONEST, THIRD = "203.0.113.1", "203.0.113.2", "203.0.113.3"

PING = {"jsonrpc": "2.0", "id": 9, "method": "ping"}

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}

EVENTS = {"Accept": "text/event-stream"}


def settings(**options: Any) -> HttpServerSettings:
    """Settings under which a test says from which address a request comes."""
    return HttpServerSettings(trusted_proxies=frozenset({"127.0.0.1"}), **options)


class Client:
    """A client at an address of its own."""

    def __init__(self, raw: Raw, address: str) -> None:
        self.raw = raw
        self.address = {"X-Forwarded-For": address}

    def headers(self, id: str) -> dict[str, str | None]:
        return {**self.address, "Mcp-Session-Id": id, "MCP-Protocol-Version": "2025-11-25"}

    async def ask(self, **said: Any) -> Answer:
        request = initialize("2025-11-25")
        request["params"] |= said
        return await self.raw.send(request, self.address)

    async def begin(self) -> str:
        """Begin a session as clients do, and return its id."""
        answer = await self.ask()
        assert answer.status == 200, answer
        id = answer.headers["mcp-session-id"]
        assert (await self.send(id, INITIALIZED)).status == 202
        return id

    async def send(self, id: str, message: Mapping[str, Any] = PING) -> Answer:
        return await self.raw.send(message, self.headers(id))

    @asynccontextmanager
    async def listening(self, id: str) -> AsyncGenerator[None]:
        async with self.raw.open(None, {**self.headers(id), **EVENTS}, method="GET") as response:
            assert response.status == 200
            yield
