"""Requests that a proxy before the server may read otherwise than the server does."""

from __future__ import annotations

from typing import Any

import pytest
from http_raw import call_tool, open_raw
from http_server_fixtures import EVERY_HOST

from trio_mcp import Server

pytestmark = pytest.mark.usefixtures("under")


def make_server() -> Server[Any]:
    server: Server[Any] = Server("plain")

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


@EVERY_HOST
async def test_what_readers_on_the_way_may_see_otherwise_is_refused(subtests: pytest.Subtests) -> None:
    """A body that is said to be compressed and is not; and two sayings of who sends it."""
    rows: list[tuple[dict[str, str | None], int]] = [
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Encoding": "identity"}, 200),
        ({"Authorization": "Bearer a", "authorization": "Bearer b"}, 400),
        ({"Authorization": "Bearer a"}, 200),
    ]
    async with open_raw(make_server()) as raw:
        for fields, status in rows:
            with subtests.test(fields=fields, status=status):
                assert (await raw.send(call_tool("echo", text="x"), fields)).status == status
