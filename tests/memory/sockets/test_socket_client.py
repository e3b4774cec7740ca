"""Clients at sockets: URLs and parameters, TLS, and connections that are made again."""
# trustme takes the contexts of a library that is not here as well.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import ssl
from typing import Any, cast

import pytest
from inside_client import identity_of
from inside_transports import parse_socket_url
from shared.sockets_socket_client import make_server

from trio_mcp import (
    TcpServerParameters,
    UnixServerParameters,
    open_client,
    serve_tcp,
)

pytestmark = pytest.mark.timeout(60)


# URLs and parameters.


@pytest.mark.parametrize(
    ("url", "parameters"),
    [
        ("tcp://example.com:8000", TcpServerParameters("example.com", 8000)),
        ("tcp://127.0.0.1:1/", TcpServerParameters("127.0.0.1", 1)),
        ("tcp://[::1]:65535", TcpServerParameters("::1", 65535)),
        ("tls://example.com:443", TcpServerParameters("example.com", 443, tls=True)),
        ("unix:///run/mcp.sock", UnixServerParameters("/run/mcp.sock")),
        ("unix:///a%20b", UnixServerParameters("/a b")),
    ],
)
def test_a_url_says_where_to_connect(url: str, parameters: Any) -> None:
    """And the parameters say the same URL again."""
    assert parse_socket_url(url) == parameters
    assert parse_socket_url(parameters.url) == parameters
    assert identity_of(url) == identity_of(parameters)


@pytest.mark.parametrize(
    "url",
    [
        "tcp://example.com",
        "tcp://example.com:0",
        "tcp://example.com:70000",
        "tcp://:8000",
        "tcp://user:secret@example.com:8000",
        "tcp://example.com:8000/path",
        "tcp://example.com:8000?query=1",
        "tls://exa mple.com:1",
        "unix://relative",
        "unix://",
        "unix:///path?query",
        "unix:///a%00b",
    ],
)
async def test_what_is_no_such_url_is_refused(url: str) -> None:
    """At once, and without a password in the message."""
    with pytest.raises(ValueError, match=r"URL|port|host") as refused:
        async with open_client(url):
            raise AssertionError
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: TcpServerParameters("", 1), ValueError),
        (lambda: TcpServerParameters("[::1]", 1), ValueError),
        (lambda: TcpServerParameters("a", 0), ValueError),
        (lambda: TcpServerParameters("a", 65_536), ValueError),
        (lambda: TcpServerParameters("a", cast("int", "1")), TypeError),
        (lambda: TcpServerParameters("a", 1, tls=cast("bool", "yes")), TypeError),
        (lambda: TcpServerParameters("a", 1, restart=cast("bool", 3)), TypeError),
        (lambda: UnixServerParameters("a\0b"), ValueError),
        (lambda: UnixServerParameters(cast("str", 3)), TypeError),
    ],
)
def test_parameters_are_checked(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


async def test_a_context_for_clients_serves_nobody() -> None:
    with pytest.raises(ssl.SSLError):
        await serve_tcp(make_server(), port=0, ssl_context=ssl.create_default_context())
