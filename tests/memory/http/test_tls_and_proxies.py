"""HTTPS with real certificates, and proxies that tunnel, forward, refuse or are passed by."""

from __future__ import annotations

import pytest
from inside_http import HttpClient, HttpRequest, HttpTarget, open_http_client, parse_target, proxy_for

from trio_mcp import ConnectionLost

pytestmark = pytest.mark.timeout(60)


async def fetch(client: HttpClient, target: HttpTarget, body: bytes = b"{}") -> bytes:
    async with await client.send(HttpRequest(method="POST", target=target, body=body)) as response:
        return await response.read(10_000_000)


def test_the_environment_says_when_a_proxy_is_asked(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """As curl and Python do: suffixes in no_proxy, with or without a port."""
    rows: list[tuple[str, str, str, bool]] = [
        ("http_proxy", "http://proxy:3128", "http://example.com/", True),
        ("HTTP_PROXY", "http://proxy:3128", "http://example.com/", True),
        ("http_proxy", "http://proxy:3128", "https://example.com/", False),
        ("https_proxy", "http://proxy:3128", "https://example.com/", True),
        ("all_proxy", "http://proxy:3128", "https://example.com/", True),
        ("http_proxy", "", "http://example.com/", False),
        ("http_proxy", "http://proxy:3128", "http://127.8.9.1/", False),
        ("http_proxy", "http://proxy:3128", "http://[::1]/", False),
        ("http_proxy", "http://proxy:3128", "http://app.localhost/", False),
        ("http_proxy", "http://proxy:3128", "http+unix://%2Fa/", False),
        ("http_proxy", "http://proxy:3128", "http://internal.example.com/", False),
        ("http_proxy", "http://proxy:3128", "http://deep.internal.example.com:8000/", False),
        ("http_proxy", "http://proxy:3128", "http://example.org:8000/", False),
        ("http_proxy", "http://proxy:3128", "http://example.org/", True),
    ]
    for variable, value, url, proxied in rows:
        row = subtests.test(variable=variable, value=value, url=url, proxied=proxied)
        with row, monkeypatch.context() as patch:
            look_for_a_proxy(patch, variable, value, url, proxied)


def look_for_a_proxy(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, url: str, proxied: bool) -> None:
    """Set a variable, and ask which proxy a URL is asked through."""
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("no_proxy", "internal.example.com,example.org:8000")
    proxy = proxy_for(parse_target(url))
    assert (proxy is not None) is proxied
    if proxy is not None:
        assert proxy.target.address == "http://proxy:3128"


async def test_a_kind_of_proxy_that_we_cannot_use_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Going past it would go past somebody's intention."""
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
    async with open_http_client() as client:
        with pytest.raises(ConnectionLost, match="socks5 proxies are not supported"):
            await fetch(client, parse_target("http://example.com/"))
