"""What the tests of serving sockets share in several layers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio

from trio_mcp import (
    Context,
    Limits,
    Server,
)


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
