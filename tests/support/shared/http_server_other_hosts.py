"""What the tests of other hosts share in several layers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from trio_mcp import Context, Server


class Program:
    """A server with a lifespan, and what happened to it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.go_on = trio.Event()
        self.server: Server[None] = Server("app", lifespan=self._lifespan)

        @self.server.tool
        async def add(a: int, b: int) -> int:
            return a + b

        @self.server.tool
        async def speak_and_wait(ctx: Context) -> str:
            await ctx.log("info", "first")
            await self.go_on.wait()
            return "last"

        @self.server.tool
        async def hang(ctx: Context, text: str = "") -> str:
            self.log.append("began")
            try:
                if text:
                    await ctx.log("info", text)
                await trio.sleep_forever()
            finally:
                self.log.append("ended")
            raise AssertionError

    @asynccontextmanager
    async def _lifespan(self, server: Server[None]) -> AsyncGenerator[None]:
        self.log.append("opened")
        yield
        self.log.append("closed")
