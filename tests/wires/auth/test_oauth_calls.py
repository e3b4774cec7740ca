"""`OAuth` as calls see it: who is asked, what is sent, and what is left when somebody is cancelled."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from oauth_script import (
    ORIGIN,
    ProtectedScript,
    connected,
)

from trio_mcp import (
    AuthorizationFailed,
)


async def test_the_next_authorization_server_is_tried_if_the_first_cannot_be_reached(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It does not answer, may not be called, hangs, or fails; only if none is left, it is said why."""
    for first in ("http://127.0.0.1:1", "https://169.254.169.254/x", "http://login.example", f"{ORIGIN}/hangs"):
        script = ProtectedScript()
        script.resource["authorization_servers"] = [first, ORIGIN]
        script.before["/.well-known/oauth-authorization-server/hangs"] = partial(trio.sleep, 20)
        async with connected(script) as client:
            await client.call_tool("one")
        assert len(script.pages) == 1
        script = ProtectedScript()
        script.resource["authorization_servers"] = [first]
        with pytest.raises(AuthorizationFailed):
            async with connected(script):
                pass


# What is refused.


async def fails(script: ProtectedScript, match: str, **options: Any) -> AuthorizationFailed:
    with pytest.raises(AuthorizationFailed, match=match) as failed:
        async with connected(script, **options):
            pass
    assert set(script.seen) == {None}
    assert not script.at("/token")
    return failed.value
