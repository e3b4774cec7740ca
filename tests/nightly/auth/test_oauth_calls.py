"""`OAuth` as calls see it: who is asked, what is sent, and what is left when somebody is cancelled."""

from __future__ import annotations

import trio
import trio.testing
from oauth_script import (
    ProtectedScript,
    connected,
)


async def test_a_thousand_calls_with_an_ended_token_refresh_it_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A refresh token is good for once: a second refresh with it ends the login."""
    script = ProtectedScript()
    async with connected(script) as client:
        await client.call_tool("one")
        script.tokens.clear()
        async with trio.open_nursery() as nursery:
            for _ in range(1000):
                nursery.start_soon(client.call_tool, "many")
    assert script.grants() == ["authorization_code", "refresh_token"]
    assert len(script.pages) == 1
    assert len(script.mcp.asked("tools/call")) == 1001
