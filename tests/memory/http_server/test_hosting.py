"""HTTP over real sockets: who is let in, who is slow, who leaves, and how it all ends. Real time."""
# trustme takes the contexts of a library that is not here as well.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trio
from inside_endpoint import READ_BYTES, ConnectionIO, ConnectionLimits, Connections
from shared.http_server_hosting import make_server

from trio_mcp import (
    HttpServerSettings,
    serve_http,
)

pytestmark = pytest.mark.timeout(60)


class SilentWire(ConnectionIO):
    """A connection on which nothing happens."""

    is_cut = False

    async def start(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive(self, most: int = READ_BYTES) -> bytes:
        await trio.sleep_forever()
        raise AssertionError

    async def send(self, *parts: bytes) -> None:
        await trio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()

    def cut(self) -> None:
        self.is_cut = True


async def test_an_ipv6_network_has_the_connections_of_one_client() -> None:
    """A client with one address of it has 2**64."""

    def never(wire: Any, places: Any) -> Any:
        raise AssertionError

    proxy_rules = HttpServerSettings(trusted_proxies={"2001:db8:9::/48"}).proxy_rules()
    places = ConnectionLimits[ConnectionIO](1_000, 2, lambda wire: wire.cut())
    connections = Connections[ConnectionIO](never, places, proxy_rules)
    wires = [SilentWire(f"2001:db8::{n}", 30) for n in range(4)]
    assert [connections.enter(wire) for wire in wires] == [True] * 4
    assert [wire.is_cut for wire in wires] == [True, True, False, False]
    mapped = [SilentWire(client, 30) for client in ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1")]
    assert [connections.enter(wire) for wire in mapped] == [True] * 3
    assert [wire.is_cut for wire in mapped] == [True, False, False]
    proxies = [SilentWire(f"2001:db8:9::{n}", 30) for n in range(4)]
    assert [connections.enter(wire) for wire in proxies] == [True] * 4
    assert not [wire for wire in proxies if wire.is_cut]
    await trio.lowlevel.checkpoint()


@pytest.mark.usefixtures("host")
async def test_what_cannot_be_listened_on_is_said_at_once(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Before anything is begun, with the name of the option: `660` is not `0o660`."""
    rows: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"port": -1}, ValueError, "port must be 0 to 65535, not -1"),
        ({"port": 65_536}, ValueError, "port must be 0 to 65535, not 65536"),
        ({"port": "8000"}, TypeError, "port must be a whole number from 0 to 65535, not '8000'"),
        ({"port": True}, TypeError, "port must be a whole number"),
        ({"port": None}, TypeError, "port must be a whole number"),
        ({"unix_path": "x", "unix_mode": 0o1777}, ValueError, "unix_mode must be 0o0 to 0o777, not 0o1777"),
        ({"unix_path": "x", "unix_mode": 660}, ValueError, "unix_mode must be 0o0 to 0o777, not 0o1224"),
        ({"unix_path": "x", "unix_mode": "660"}, TypeError, "unix_mode must be a whole number"),
        ({"ssl_context": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)}, ssl.SSLError, "(?i)server"),
    ]
    for options, error, named in rows:
        with subtests.test(options=options, error=error, named=named):
            given: dict[str, Any] = {"port": 0, **options}
            if "unix_path" in options:
                given["unix_path"] = tmp_path / "x"
            with trio.fail_after(20), pytest.raises(error, match=named):
                await serve_http(make_server(), **given)
            assert not list(tmp_path.iterdir())
