"""Clients at sockets: URLs and parameters, TLS, and connections that are made again."""
# trustme takes the contexts of a library that is not here as well.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import socket
import ssl
import sys
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing
import trustme
from inside_base import open_unix_socket
from inside_transports import parse_socket_url
from line_sockets import ENOUGH, KINDS, Kind, Line
from patient_clock import STILL
from shared.sockets_socket_client import make_server
from wires import wait_lost

from trio_mcp import (
    ConnectionLost,
    Limits,
    RestartPolicy,
    Shutdown,
    TcpServerParameters,
    open_client,
    serve_tcp,
    serve_unix,
)


@KINDS
async def test_where_nobody_listens_there_is_no_connection(kind: Kind, tmp_path: Path) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    url = f"tcp://127.0.0.1:{port}" if kind == "tcp" else f"unix://{tmp_path / 'none'}"
    with pytest.raises(ConnectionLost, match=f"could not connect to {url}: .*(refused|[Nn]o such file)"):
        async with open_client(url):
            raise AssertionError


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the connection is refused")
async def test_who_connects_while_many_wait_to_be_accepted_waits_as_well(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Trio took it for connected, and the first write failed."""
    del autojump_clock
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(path))
        listener.listen(0)
        first.connect(str(path))
        opened: list[trio.SocketStream] = []

        async def connect() -> None:
            opened.append(await open_unix_socket(path))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(connect)
            await trio.sleep(1)
            assert not opened
            listener.accept()[0].close()
        async with opened[0] as stream:
            with listener.accept()[0] as accepted:
                await stream.send_all(b"here")
                assert accepted.recv(4) == b"here"


# TLS.


async def test_messages_go_over_tls() -> None:
    """With a server that is trusted, and a client that has a certificate where one is wanted."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    known, anonymous = ssl.create_default_context(), ssl.create_default_context()
    authority.configure_trust(known)
    authority.configure_trust(anonymous)
    authority.issue_cert("client@example.com").configure_cert(known)
    tasks = trio.lowlevel.current_statistics().tasks_living
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            (url,) = await nursery.start(partial(serve_tcp, make_server(), port=0, ssl_context=context))
            host, _, port = url.removeprefix("tls://").rpartition(":")
            assert url.startswith("tls://")
            for era in ("legacy", "modern"):
                parameters = TcpServerParameters(host, int(port), tls=known)
                async with open_client(parameters, era=era) as client:  # type: ignore[arg-type,unused-ignore]
                    text = "x" * 500_000
                    assert (await client.call_tool("echo", {"text": text})).text == text
                    async with trio.open_nursery() as calls:
                        calls.start_soon(client.call_tool, "sleep")
                        await trio.testing.wait_all_tasks_blocked(STILL)
                        calls.cancel_scope.cancel()
                    assert (await client.call_tool("echo", {"text": "after"})).text == "after"
            with pytest.raises(ConnectionLost, match="TLS failed"):
                async with open_client(url):
                    raise AssertionError
            with pytest.raises(ConnectionLost):
                async with open_client(TcpServerParameters(host, int(port), tls=anonymous)):
                    raise AssertionError
            with pytest.raises(ConnectionLost):
                async with open_client(f"tcp://{host}:{port}", limits=Limits(discover_timeout=1)):
                    raise AssertionError
            nursery.cancel_scope.cancel()
    assert trio.lowlevel.current_statistics().tasks_living == tasks


# Lost connections.


@KINDS
async def test_a_lost_connection_is_made_again(kind: Kind, tmp_path: Path) -> None:
    """By the policy: what was under way fails, and what comes later waits for the new server."""
    restart = RestartPolicy(first_delay=0.05)
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:

            async def serve(port: int) -> tuple[str, Shutdown]:
                shutdown = Shutdown()
                serve: Any = (
                    partial(serve_tcp, make_server(), port=port)
                    if kind == "tcp"
                    else partial(serve_unix, make_server(), tmp_path / "it")
                )
                (url,) = await nursery.start(partial(serve, shutdown=shutdown))
                return url, shutdown

            url, shutdown = await serve(0)
            parameters = attrs.evolve(parse_socket_url(url), restart=restart)
            port = parameters.port if isinstance(parameters, TcpServerParameters) else 0
            async with open_client(parameters) as client:
                for turn in range(3):
                    assert (await client.call_tool("echo", {"text": str(turn)})).text == str(turn)
                    async with trio.open_nursery() as calls:
                        calls.start_soon(wait_lost, partial(client.call_tool, "sleep"))
                        while not client.statistics().calls:
                            await trio.sleep(0.01)
                        shutdown.abort()
                    _, shutdown = await serve(port)
            shutdown.abort()


@KINDS
async def test_without_a_policy_a_lost_connection_stays_lost(kind: Kind, tmp_path: Path) -> None:
    """And says why, to those who wait and to those who come later."""
    shutdown = Shutdown()
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            serve: Any = (
                partial(serve_tcp, make_server(), port=0)
                if kind == "tcp"
                else partial(serve_unix, make_server(), tmp_path / "it")
            )
            (url,) = await nursery.start(partial(serve, shutdown=shutdown))
            async with open_client(url) as client:
                async with trio.open_nursery() as calls:
                    calls.start_soon(wait_lost, partial(client.call_tool, "sleep"))
                    while not client.statistics().calls:
                        await trio.sleep(0.01)
                    shutdown.abort()
                lost = await wait_lost(partial(client.call_tool, "echo", {"text": "x"}))
                assert url in lost.reason


async def test_what_follows_a_reset_is_the_reason() -> None:
    """A server that resets is not one that has closed."""
    with trio.fail_after(ENOUGH):
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]

        async def serve(stream: trio.SocketStream) -> None:
            await Line(stream).receive()
            stream.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve, listeners)
            with pytest.raises(ConnectionLost, match=r"the server at tcp://127\.0\.0\.1"):
                async with open_client(f"tcp://127.0.0.1:{port}", limits=Limits(connect_timeout=2)):
                    raise AssertionError
            nursery.cancel_scope.cancel()
