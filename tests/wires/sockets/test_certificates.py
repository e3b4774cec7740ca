"""Clients with certificates: who they are, what is counted by that, and programs that serve over TLS."""
# trustme takes the contexts of a library that is not here as well.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trustme
from line_sockets import ENOUGH, Line

from trio_mcp import (
    Context,
    HttpSettings,
    Server,
    SocketServerSettings,
    TcpServerParameters,
    WebSocketServerParameters,
    open_client,
    serve_tcp,
)


def make_server() -> Server[Any]:
    server: Server[Any] = Server("known")

    @server.tool
    async def who(ctx: Context[Any]) -> str:
        await trio.lowlevel.checkpoint()
        return str(ctx.principal)

    @server.tool
    async def sleep() -> None:
        await trio.sleep_forever()

    return server


@attrs.frozen
class Authority:
    """Who signs certificates."""

    ca: trustme.CA = attrs.field(factory=trustme.CA)

    def server(self, verify: ssl.VerifyMode) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.ca.issue_cert("127.0.0.1").configure_cert(context)
        self.ca.configure_trust(context)
        context.verify_mode = verify
        return context

    def client(self, name: str | None) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        if name is not None:
            leaf = self.ca.issue_cert(
                f"{name.partition(',')[0]}@example.com",
                common_name=name,
                organization_name="A+B",
                organization_unit_name="Tests",
            )
            leaf.configure_cert(context)
        return context


@asynccontextmanager
async def serving(
    authority: Authority, verify: ssl.VerifyMode = ssl.CERT_REQUIRED, settings: SocketServerSettings | None = None
) -> AsyncGenerator[int]:
    """Serve over TLS, and yield the port."""
    context = authority.server(verify)
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            serve = partial(serve_tcp, make_server(), port=0, ssl_context=context, settings=settings)
            (url,) = await nursery.start(serve)
            yield int(url.rpartition(":")[2])
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("verify", [ssl.CERT_REQUIRED, ssl.CERT_OPTIONAL])
async def test_the_principal_is_the_subject_of_the_certificate(verify: ssl.VerifyMode) -> None:
    """In the order and with the escapes of RFC 4514; without a certificate nobody is known."""
    authority = Authority()
    async with serving(authority, verify) as port:
        parameters = TcpServerParameters("127.0.0.1", port, tls=authority.client("alice, really"))
        async with open_client(parameters) as client:
            assert (await client.call_tool("who")).text == "CN=alice\\, really,OU=Tests,O=A\\+B"
        if verify is ssl.CERT_OPTIONAL:
            anonymous = TcpServerParameters("127.0.0.1", port, tls=authority.client(None))
            async with open_client(anonymous) as client:
                assert (await client.call_tool("who")).text == "None"


@asynccontextmanager
async def line(port: int, context: ssl.SSLContext) -> AsyncGenerator[Line]:
    """Connect by hand."""
    stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, ssl_context=context, https_compatible=True)
    try:
        await stream.do_handshake()  # until then it counts for the address
        found: Any = stream
        yield Line(found)
    finally:
        await trio.aclose_forcefully(stream)


async def test_connections_are_counted_by_certificate(caplog: pytest.LogCaptureFixture) -> None:
    """max_connections_per_address: all come from one address, and each has its own number of places.

    One that is cut is no error: closing it would write to a socket that is closed.
    """
    authority = Authority()
    alice, bob = authority.client("alice"), authority.client("bob")
    settings = SocketServerSettings(max_connections_per_address=2)
    async with (
        serving(authority, settings=settings) as port,
        line(port, alice) as first,
        line(port, alice) as second,
        line(port, bob) as other,
    ):
        for each in (first, second, other):
            await each.ask(1, "server/discover")
        async with line(port, alice) as third:
            await third.ask(1, "server/discover")
            assert await first.wait_end() == b"", "the oldest that rests has given way"
            for each in (second, third):
                await each.ask(2, "subscriptions/listen", notifications={"toolsListChanged": True})
            async with line(port, alice) as fourth:
                assert await fourth.wait_end() == b"", "none of hers rests"
        await other.ask(2, "server/discover")
        await second.ask(3, "server/discover")
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


# Programs.

PROGRAM = """
import logging, ssl, sys, trio_mcp

folder, transport, kind = sys.argv[1:]
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
server = trio_mcp.Server("program")

@server.tool
def who(ctx: trio_mcp.Context) -> str:
    return str(ctx.principal)

context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(f"{folder}/server.pem")
context.load_verify_locations(f"{folder}/ca.pem")
if transport == "tcp":
    context.verify_mode = ssl.CERT_REQUIRED
settings = getattr(trio_mcp, kind)(max_connections=7)
server.run(transport, port=0, ssl_context=context, settings=settings)
"""


@pytest.mark.parametrize("transport", ["tcp", "websocket"])
async def test_a_program_serves_over_tls(transport: str, tmp_path: Path) -> None:
    """`Server.run` takes the TLS context and the settings."""
    authority = Authority()
    authority.ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    kind = "SocketServerSettings" if transport == "tcp" else "HttpServerSettings"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), transport, kind],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            with trio.fail_after(ENOUGH):
                said = await trio.to_thread.run_sync(process.stdout.readline)
                url = said.strip().removeprefix("serving at ")
                context = authority.client("alice")
                if transport == "tcp":
                    assert url.startswith("tls://")
                    target: Any = TcpServerParameters("127.0.0.1", int(url.rpartition(":")[2]), tls=context)
                    principal = "CN=alice,OU=Tests,O=A\\+B"
                else:
                    assert url.startswith("wss://")
                    target = WebSocketServerParameters(url, http=HttpSettings(ssl_context=context))
                    principal = "None"
                async with open_client(target) as client:
                    assert (await client.call_tool("who")).text == principal
        finally:
            process.kill()
