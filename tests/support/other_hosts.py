"""ASGI servers that are not ours, with an application of ours on them: Hypercorn's Trio worker, and anycorn."""
# Both are partially typed.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import anycorn
import anycorn.config
import hypercorn.config
import hypercorn.trio
import pytest
import trio
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from trio_mcp import McpASGI

__all__ = ["HOSTS", "hosted", "mounted"]

HOSTS: Final = pytest.mark.parametrize("host", ["hypercorn", "anycorn"])


@asynccontextmanager
async def hosted(host: str, app: Any, **settings: Any) -> AsyncGenerator[str]:
    """Host an application while the block runs, and let it end in good order; yield its URL."""
    end = trio.Event()
    config: Any = hypercorn.config.Config() if host == "hypercorn" else anycorn.config.Config()
    serve: Any = hypercorn.trio.serve if host == "hypercorn" else anycorn.serve
    config.bind = ["127.0.0.1:0"]
    config.errorlog = logging.getLogger("host")
    for name, value in settings.items():
        setattr(config, name, value)
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(partial(serve, app, config, shutdown_trigger=end.wait))
        yield url
        end.set()


def mounted(mcp: McpASGI) -> Starlette:
    """Return an application of Starlette with a page, and ours under ``/tools``."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with mcp.running():
            yield

    async def page(request: Any) -> PlainTextResponse:
        return PlainTextResponse("a page")

    return Starlette(routes=[Route("/", page), Mount("/tools", mcp)], lifespan=lifespan)
