"""Where no request of a client may go, whatever servers name; and WebSockets, which are authorized once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from authorization_pages import shows
from inside_http import Reached, open_http_client, parse_target
from inside_oauth import AuthorizationServerMetadata, Fetch, Fetcher

from trio_mcp import (
    AuthorizationFailed,
    HttpSettings,
    ProtectedServer,
)


class Names(trio.abc.HostnameResolver):
    """Knows some names."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    async def getaddrinfo(
        self, host: bytes | None, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        await trio.lowlevel.checkpoint()
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name not in self.names:
            raise OSError("no such name")
        return [
            (
                trio.socket.AF_INET6 if ":" in address else trio.socket.AF_INET,
                trio.socket.SOCK_STREAM,
                6,
                "",
                (address, port),
            )
            for address in self.names[name].split()
        ]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        raise NotImplementedError


NAMES = {
    "mcp.example": "93.184.216.34",
    "auth.example": "93.184.216.35",
    "rebound.example": "10.1.2.3",
    "metadata.example": "169.254.169.254",
    "intranet.local": "192.168.1.5",
    "both.example": "93.184.216.36 10.1.2.3",
    "here.example": "127.0.0.1",
}


@asynccontextmanager
async def fetcher_for(url: str, *insecure: str) -> AsyncGenerator[Fetcher]:
    trio.socket.set_custom_hostname_resolver(Names(NAMES))
    await trio.lowlevel.checkpoint()
    target, reached = parse_target(url), Reached()
    for address in NAMES.get(target.host, "").split():
        reached.note(target, address)
    yield Fetcher(ProtectedServer(url, target, HttpSettings(), None, reached), insecure)


@shows("Communication Security")
async def test_what_is_not_called(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, str]] = [
        ("https://mcp.example/mcp", "http://auth.example/x", "not https"),
        ("https://mcp.example/mcp", "http://127.0.0.1:9000/x", "not https"),
        ("https://mcp.example/mcp", "https://127.0.0.1:9000/x", "on this machine"),
        ("https://mcp.example/mcp", "https://localhost/x", "on this machine"),
        ("https://mcp.example/mcp", "https://[::1]/x", "on this machine"),
        ("https://mcp.example/mcp", "https://[::ffff:10.0.0.1]/x", "private"),
        ("https://mcp.example/mcp", "https://10.0.0.1/x", "private"),
        ("https://mcp.example/mcp", "https://169.254.169.254/latest/meta-data", "private"),
        ("https://mcp.example/mcp", "https://rebound.example/x", "private"),
        ("https://mcp.example/mcp", "https://metadata.example/x", "private"),
        ("https://mcp.example/mcp", "https://[fec0::1]/x", "private"),
        ("https://mcp.example/mcp", "https://192.88.99.1/x", "private"),
        ("https://mcp.example/mcp", "https://vault/x", "a name of a private network"),
        ("https://mcp.example/mcp", "https://vault.:8200/x", "a name of a private network"),
        ("https://mcp.example/mcp", "https://user:secret@auth.example/x", "password"),
        ("https://mcp.example/mcp", "ftp://auth.example/x", "http or https"),
        ("https://mcp.example/mcp", "file:///etc/passwd", "http or https"),
        ("https://mcp.example/mcp", "https://auth.example/a b", "characters"),
        ("https://mcp.example/mcp", "https://auth.example/" + "x" * 10_000, "too long"),
        ("https://mcp.example/mcp", "https://017700000001/x", "on this machine"),
        ("https://both.example/mcp", "https://10.0.0.1/x", "private"),
        ("https://both.example/mcp", "https://rebound.example/x", "private"),
        ("https://both.example/mcp", "http://127.0.0.1:9000/x", "not https"),
        ("https://nowhere.example/mcp", "https://10.0.0.1/x", "private"),
        ("https://intranet.local/mcp", "http://intranet.local/x", "not https"),
        ("https://intranet.local/mcp", "https://metadata.example/x", "169.254"),
        ("http://127.0.0.1:8000/mcp", "https://169.254.169.254/x", "169.254"),
        ("http://127.0.0.1:8000/mcp", "https://[::ffff:169.254.169.254]/x", "169.254|a9fe"),
        ("http://127.0.0.1:8000/mcp", "http://auth.example/x", "not https"),
        # A server in a private network is none on this machine.
        ("https://intranet.local/mcp", "http://127.0.0.1:6379/x", "not https"),
        ("https://intranet.local/mcp", "http://localhost:8080/x", "not https"),
        ("https://intranet.local/mcp", "https://127.0.0.1/x", "nearer than the server"),
        ("https://intranet.local/mcp", "https://localhost/x", "nearer than the server"),
        ("https://intranet.local/mcp", "https://[::1]/x", "nearer than the server"),
        ("https://intranet.local/mcp", "https://0.0.0.0/x", "nearer than the server"),
        ("https://intranet.local/mcp", "https://[::ffff:127.0.0.1]/x", "nearer than the server"),
        ("https://intranet.local/mcp", "https://here.example/x", "nearer than the server"),
        ("https://10.0.0.3/mcp", "https://127.0.0.1/x", "nearer than the server"),
        ("https://10.0.0.3/mcp", "http://10.0.0.3/x", "not https"),
    ]
    for server, url, problem in rows:
        with subtests.test(server=server, url=url, problem=problem):
            with pytest.raises(AuthorizationFailed, match=problem) as failed:
                async with (
                    fetcher_for(server) as fetcher,
                    open_http_client(HttpSettings(use_environment_proxies=False), admit=fetcher.admit) as client,
                ):
                    fetcher.client = client
                    await fetcher.get(Fetch(url))
            assert "secret" not in str(failed.value)


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("https://mcp.example/mcp", "https://auth.example/x"),
        ("https://mcp.example/mcp", "https://mcp.example/x"),
        ("http://127.0.0.1:8000/mcp", "http://127.0.0.1:9000/x"),
        ("http://localhost:8000/mcp", "http://localhost:9000/x"),
        ("https://intranet.local/mcp", "https://10.0.0.1/x"),
        ("https://intranet.local/mcp", "https://auth.example/x"),
    ],
)
async def test_what_may_be_called(server: str, url: str) -> None:
    async with fetcher_for(server) as fetcher:
        target = fetcher.check(url)
        fetcher.admit(target, NAMES.get(target.host, target.host))


async def test_what_the_user_has_named_may_be_in_a_private_network(subtests: pytest.Subtests) -> None:
    """It is not the word of a server on the internet. TLS is demanded there, too."""

    async def check(named: str, url: str, problem: str) -> None:
        names = {"idp.local": "10.1.2.5", "other.local": "10.1.2.6"}
        target, reached = parse_target("https://mcp.example/mcp"), Reached()
        reached.note(target, "93.184.216.34")
        server = ProtectedServer("https://mcp.example/mcp", target, HttpSettings(), None, reached)
        fetcher = Fetcher(server, (), [named, None])

        def call() -> None:
            called = fetcher.check(url)
            fetcher.admit(called, names.get(called.host, called.host))

        await trio.lowlevel.checkpoint()
        if url == "https://10.9.9.9/token":  # only what an issuer there has named
            with pytest.raises(AuthorizationFailed, match="private"):
                call()
            metadata = AuthorizationServerMetadata(issuer=named, token_endpoint=url)
            fetcher.trust_endpoints(metadata)
            with pytest.raises(AuthorizationFailed, match="private"):
                call()
            fetcher.note(parse_target(named), "10.1.2.5")
            fetcher.trust_endpoints(metadata)
            call()
        elif problem:
            with pytest.raises(AuthorizationFailed, match=problem):
                call()
        else:
            call()

    rows: list[tuple[str, str, str]] = [
        ("https://idp.local", "https://10.9.9.9/token", ""),
        ("https://idp.local/realms/a", "https://idp.local/token", ""),
        ("https://127.0.0.1:8443", "https://127.0.0.1:8443/token", ""),
        ("https://idp.local", "https://idp.local:8443/token", "private"),
        ("https://idp.local", "https://other.local/token", "private"),
        ("http://idp.local", "http://idp.local/token", "not https"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/token", "not https"),
        ("https://169.254.169.254", "https://169.254.169.254/token", "clouds"),
        ("no URL", "https://idp.local/token", "private"),
    ]
    for named, url, problem in rows:
        with subtests.test(named=named, url=url, problem=problem):
            await check(named, url, problem)


async def test_hosts_without_tls_can_be_named() -> None:
    async with fetcher_for("http://mcp:8000/mcp", "keycloak") as fetcher:
        assert fetcher.check("http://keycloak:8080/realms/x").host == "keycloak"
