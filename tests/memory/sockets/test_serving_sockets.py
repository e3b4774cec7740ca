"""Servers at TCP ports and Unix sockets: who is served, what connections share, and how it ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from trio_mcp import (
    Context,
    Limits,
    Server,
    serve_tcp,
    serve_unix,
)

pytestmark = pytest.mark.timeout(60)


class House:
    """A server with a lifespan, and what was done in it."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.log: list[str] = []
        self.server = Server("house", lifespan=self._lifespan, limits=limits)
        self.begun = trio.Event()

        @self.server.tool
        async def who(ctx: Context[Any]) -> str:
            await trio.lowlevel.checkpoint()
            return str(ctx.principal)

        @self.server.tool
        async def wait(seconds: float) -> str:
            self.begun.set()
            try:
                await trio.sleep(seconds)
            except trio.Cancelled:
                self.log.append("cancelled")
                raise
            return "done"

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncGenerator[None]:
        self.log.append("entered")
        await trio.lowlevel.checkpoint()
        try:
            yield
        finally:
            self.log.append("left")


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
