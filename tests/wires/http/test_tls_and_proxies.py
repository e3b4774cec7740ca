"""HTTPS with real certificates, and proxies that tunnel, forward, refuse or are passed by."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Awaitable, Callable

import pytest
import trio
import trustme
from http_script import ReceivedRequest, ServerConnection, serve_http_script
from inside_http import HttpClient, HttpRequest, HttpTarget, open_http_client, parse_target

from trio_mcp import ConnectionLost, HttpSettings

pytestmark = [pytest.mark.usefixtures("read_fields")]


async def fetch(client: HttpClient, target: HttpTarget, body: bytes = b"{}") -> bytes:
    async with await client.send(HttpRequest(method="POST", target=target, body=body)) as response:
        return await response.read(10_000_000)


async def echo(connection: ServerConnection) -> None:
    while (request := await connection.read()) is not None:
        await connection.answer(request.body)


class Authority:
    """A certificate authority, a server with a certificate of it, and a client that trusts it."""

    def __init__(self, *names: str) -> None:
        self.ca = trustme.CA()
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names).configure_cert(self.server)  # pyright: ignore[reportUnknownMemberType]
        self.client = ssl.create_default_context()
        self.ca.configure_trust(self.client)  # pyright: ignore[reportUnknownMemberType]
        self.asked_for: list[str | None] = []
        self.server.sni_callback = lambda _socket, name, _context: self.asked_for.append(name)

    def wrap(self, stream: trio.SocketStream) -> trio.abc.Stream:
        return trio.SSLStream(stream, self.server, server_side=True, https_compatible=True)

    @property
    def settings(self) -> HttpSettings:
        return HttpSettings(ssl_context=self.client)


def named(target: HttpTarget, host: str) -> HttpTarget:
    return parse_target(f"{target.scheme}://{host}:{target.port}{target.path}")


async def test_https_is_spoken_with_the_name_that_was_asked_for() -> None:
    """A connection is used again, and large bodies go through the same pipe both ways."""
    authority = Authority("localhost")
    async with (
        serve_http_script(echo, wrap=authority.wrap) as server,
        open_http_client(authority.settings) as client,
    ):
        target = named(server.target, "localhost")
        for body in (b"{}", bytes(2_000_000), b"{}"):
            assert await fetch(client, target, body) == body
        assert server.connections == 1
        assert authority.asked_for == ["localhost"]


async def test_an_address_has_a_certificate_too() -> None:
    authority = Authority("127.0.0.1")
    async with (
        serve_http_script(echo, wrap=authority.wrap) as server,
        open_http_client(authority.settings) as client,
    ):
        assert await fetch(client, server.target) == b"{}"


@pytest.mark.parametrize(("names", "trusted"), [(["other.example"], True), (["localhost"], False)])
async def test_a_certificate_that_proves_nothing_is_refused(names: list[str], trusted: bool) -> None:
    """Of another name, or of nobody the system trusts. It says which."""
    authority = Authority(*names)
    settings = authority.settings if trusted else HttpSettings()
    async with serve_http_script(echo, wrap=authority.wrap) as server, open_http_client(settings) as client:
        match = "Hostname mismatch" if trusted else "local issuer|self.signed"
        with pytest.raises(ConnectionLost, match=f"certificate cannot be trusted: .*({match})"):
            await fetch(client, named(server.target, "localhost"))
        await server.wait_all_gone()


async def test_a_server_that_speaks_no_tls_is_refused() -> None:
    """And one that speaks only TLS does not answer to plain HTTP in a way that could be taken for an answer."""

    async def plain(connection: ServerConnection) -> None:
        await connection.stream.receive_some(1000)
        await connection.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serve_http_script(plain) as server, open_http_client() as client:
        target = parse_target(f"https://127.0.0.1:{server.target.port}/")
        with pytest.raises(ConnectionLost, match="TLS failed"):
            await fetch(client, target)


async def test_a_client_certificate_is_shown() -> None:
    """Mutual TLS is a matter of the context."""
    authority = Authority("localhost")
    authority.server.verify_mode = ssl.CERT_REQUIRED
    authority.ca.configure_trust(authority.server)  # pyright: ignore[reportUnknownMemberType]
    async with serve_http_script(echo, wrap=authority.wrap) as server:
        target = named(server.target, "localhost")
        async with open_http_client(authority.settings) as client:
            with pytest.raises(ConnectionLost):
                await fetch(client, target)
        authority.ca.issue_cert("client@example.com").configure_cert(authority.client)  # pyright: ignore[reportUnknownMemberType]
        async with open_http_client(authority.settings) as client:
            assert await fetch(client, target) == b"{}"


async def test_leaving_a_tls_response_does_not_wait_for_the_server() -> None:
    """A polite end of TLS would wait for the other side to agree."""
    authority = Authority("localhost")

    async def endless(connection: ServerConnection) -> None:
        await connection.read()
        await connection.start_chunked()
        while True:
            await connection.chunk(b"x" * 10_000)

    async with (
        serve_http_script(endless, wrap=authority.wrap) as server,
        open_http_client(authority.settings) as client,
    ):
        request = HttpRequest(method="GET", target=named(server.target, "localhost"))
        async with await client.send(request) as response:
            await response.receive_some()
        await server.wait_all_gone()


# Proxies.


def proxy_script(
    seen: list[ReceivedRequest], *, upstream: int | None = None, status: str = "200 Connection established"
) -> Callable[[ServerConnection], Awaitable[None]]:
    async def handler(connection: ServerConnection) -> None:
        request = await connection.read()
        assert request is not None
        seen.append(request)
        if request.method != "CONNECT":
            await connection.answer(b"forwarded")
            return
        await connection.write(f"HTTP/1.1 {status}\r\n\r\n".encode("latin-1"))
        if upstream is None:
            return
        async with await trio.open_tcp_stream("127.0.0.1", upstream) as there, trio.open_nursery() as nursery:
            for source, sink in ((connection.stream, there), (there, connection.stream)):

                async def pump(source: trio.abc.Stream = source, sink: trio.abc.Stream = sink) -> None:
                    try:
                        while data := await source.receive_some(65536):
                            await sink.send_all(data)
                    except trio.BrokenResourceError:
                        pass
                    nursery.cancel_scope.cancel()

                nursery.start_soon(pump)

    return handler


@pytest.mark.parametrize(
    "status", ["200 OK", "200 OK\r\nTransfer-Encoding: chunked", "299 x\r\nContent-Length: 5"]
)
async def test_https_goes_through_a_tunnel(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    """RFC 9110, section 9.3.6: TLS is with the server, and the proxy learns nothing but its name.

    What it says of a body counts for nothing: there is none.
    """
    authority = Authority("mcp.example.com")
    seen: list[ReceivedRequest] = []
    async with serve_http_script(echo, wrap=authority.wrap) as server:
        script = proxy_script(seen, upstream=server.target.port, status=status)
        async with serve_http_script(script) as proxy, open_http_client(authority.settings) as client:
            monkeypatch.setenv("https_proxy", f"http://user:p%40ss@127.0.0.1:{proxy.target.port}")
            target = parse_target("https://mcp.example.com/mcp")
            for _ in range(2):
                assert await fetch(client, target) == b"{}"
    (request,) = seen
    assert (request.method, request.target) == ("CONNECT", "mcp.example.com:443")
    assert request.headers.get("proxy-authorization") == "Basic " + base64.b64encode(b"user:p@ss").decode()
    assert authority.asked_for == ["mcp.example.com"]


async def test_http_is_forwarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 9112, section 3.2.2: the request line has the whole URL."""
    seen: list[ReceivedRequest] = []
    async with serve_http_script(proxy_script(seen)) as proxy, open_http_client() as client:
        monkeypatch.setenv("http_proxy", f"127.0.0.1:{proxy.target.port}")
        assert await fetch(client, parse_target("http://mcp.example.com:8000/mcp?a")) == b"forwarded"
    assert seen[0].target == "http://mcp.example.com:8000/mcp?a"
    assert seen[0].headers.get("host") == "mcp.example.com:8000"


@pytest.mark.parametrize("status", ["407 Proxy Authentication Required", "502 Bad Gateway", "403 Forbidden"])
async def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    """Its answer must not be taken for the server's, and its password must not get into the message."""
    async with serve_http_script(proxy_script([], status=status)) as proxy, open_http_client() as client:
        monkeypatch.setenv("https_proxy", f"http://u:secret@127.0.0.1:{proxy.target.port}")
        with pytest.raises(ConnectionLost, match=f"{proxy.target.port} refuses a tunnel to .*{status}") as caught:
            await fetch(client, parse_target("https://mcp.example.com/"))
    assert "secret" not in str(caught.value)


async def test_the_words_of_a_proxy_do_nothing_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come from the owner of the network."""
    status = "403 no\x9b2J\x851m"  # other control characters are no HTTP, and are refused
    async with serve_http_script(proxy_script([], status=status)) as proxy, open_http_client() as client:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.target.port}")
        with pytest.raises(ConnectionLost) as caught:
            await fetch(client, parse_target("https://mcp.example.com/"))
    assert str(caught.value).endswith(r": 403 no\x9b2J\x851m")
    assert str(caught.value).isprintable()


async def test_a_proxy_that_speaks_something_else_is_named(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    answers = (
        b"",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nearly bytes",
        b"HTTP/1.1 200 OK\n\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 100 + b"HTTP/1.1 200 OK\r\n\r\n",
    )

    async def handler(connection: ServerConnection) -> None:
        await connection.read()
        await connection.write(answer)

    async with serve_http_script(handler) as proxy, open_http_client() as client:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.target.port}")
        for answer in answers:
            with subtests.test(answer=answer), pytest.raises(ConnectionLost, match="the proxy http"):
                await fetch(client, parse_target("https://mcp.example.com/"))


async def test_the_environment_can_be_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And this machine is never asked for through a proxy."""
    seen: list[ReceivedRequest] = []
    async with serve_http_script(proxy_script(seen)) as proxy, serve_http_script(echo) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.target.port}")
        async with open_http_client() as client:
            assert await fetch(client, server.target) == b"{}"
            assert await fetch(client, named(server.target, "localhost")) == b"{}"
        settings = HttpSettings(use_environment_proxies=False, connect_timeout=0.2)
        async with open_http_client(settings) as client:
            with pytest.raises(ConnectionLost):
                await fetch(client, parse_target("http://nobody.invalid/"))
    assert not seen
