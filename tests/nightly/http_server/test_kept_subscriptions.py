"""What subscriptions keep, and of whom; in both eras."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from http_raw import modern, open_raw
from shared.http_server_kept_subscriptions import HOG, SETTINGS, make_server

from trio_mcp import Limits

pytestmark = pytest.mark.usefixtures("under")


async def test_as_many_ordinary_subscriptions_fit_as_are_allowed() -> None:
    """By default, each with one URI: the bound on their bytes was met before max_subscriptions."""
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["x://a-resource-with-a-name-of-its-own"]}
    async with open_raw(make_server(), SETTINGS) as raw, AsyncExitStack() as streams:
        opened = [
            await streams.enter_async_context(
                raw.open(modern("subscriptions/listen", notifications=wanted), {"X-Forwarded-For": HOG})
            )
            for _ in range(Limits().max_subscriptions // 2)
        ]
        assert {answer.status for answer in opened} == {200}
