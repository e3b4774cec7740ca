"""What a URL says, and which URLs are refused."""

from __future__ import annotations

import pytest

from trio_mcp import ConnectionLost, open_client


@pytest.mark.parametrize(
    "url", ["TCP://127.0.0.1:9", "UNIX:///nowhere/a.sock", "WS://127.0.0.1:9/", "HTTP://127.0.0.1:9/"]
)
async def test_capitals_do_not_matter_in_schemes(url: str) -> None:
    """RFC 3986, section 3.1."""
    with pytest.raises(ConnectionLost):
        async with open_client(url):
            pass
