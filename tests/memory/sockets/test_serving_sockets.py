"""Servers at TCP ports and Unix sockets: who is served, what connections share, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared.sockets_serving_sockets import House

from trio_mcp import (
    Server,
    serve_tcp,
    serve_unix,
)

pytestmark = pytest.mark.timeout(60)


# Options and programs.


@pytest.mark.parametrize("port", [-1, 65_536])
async def test_there_are_no_such_ports(port: int) -> None:
    with pytest.raises(ValueError, match="port must be"):
        await serve_tcp(House().server, port=port)


async def test_there_are_no_such_modes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mode must be 0o0 to 0o777"):
        await serve_unix(House().server, tmp_path / "it", mode=0o1000)


def test_a_unix_socket_needs_a_path() -> None:
    with pytest.raises(ValueError, match="path"):
        Server("x").run("unix")
