"""What the tests of idle sessions share in several layers."""

from __future__ import annotations

from http_raw import Raw
from raw import initialize


async def begin(raw: Raw) -> str:
    """Begin a session as clients do, and return its id."""
    answer = await raw.send(initialize("2025-11-25"))
    assert answer.status == 200, answer
    id = answer.headers["mcp-session-id"]
    said = await raw.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, {"Mcp-Session-Id": id})
    assert said.status == 202, said
    return id


async def ping(raw: Raw, session: str | None) -> int:
    answer = await raw.send({"jsonrpc": "2.0", "id": 9, "method": "ping"}, {"Mcp-Session-Id": session})
    return answer.status
