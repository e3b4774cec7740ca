"""Clients and servers of ours in one process, in memory or over HTTP, and what goes over the wire between them.

There are no sockets, so a mock clock works, and everything is deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, final

import attrs
import pytest
import trio
import trio.testing
from http_tap import HttpLog, tap_application
from inside_base import open_hidden_nursery
from tape import Tape
from typing_extensions import Unpack
from websocket_lines import open_websocket_line

from trio_mcp import (
    AsgiApplication,
    AsgiClient,
    Client,
    ClientOptions,
    EndpointStatistics,
    HttpServerParameters,
    HttpServerSettings,
    Limits,
    McpASGI,
    Server,
    open_asgi_client,
    open_client,
)

__all__ = [
    "ALL_LINES",
    "DUPLEX",
    "LEGACY",
    "LEGACY_LINES",
    "LINES",
    "MODERN",
    "TELLING_LINES",
    "Line",
    "open_line",
]

LEGACY: Final[str] = "2025-11-25"
MODERN: Final[str] = "2026-07-28"
ALL_LINES: Final = (
    ("memory", LEGACY),
    ("memory", MODERN),
    ("http", LEGACY),
    ("http", MODERN),
    ("sse", "2024-11-05"),
    ("websocket", LEGACY),
    ("websocket", MODERN),
)
DUPLEX: Final = frozenset({"memory", "websocket"})
"""Those with one wire for everything, where a goodbye is a message in either era."""


def _lines(*lines: tuple[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("binding", "revision"), lines)


LINES: Final = _lines(*ALL_LINES)
"""Every era over every binding."""
LEGACY_LINES: Final = _lines(*(line for line in ALL_LINES if line[1] != MODERN))
"""Those where servers ask."""
TELLING_LINES: Final = _lines(*(line for line in ALL_LINES if line != ("http", MODERN)))
"""Those where a goodbye is a message."""


@final
class Line:
    """A client that is connected.

    Attributes:
        client: The client.
        another: Opens one like it, over HTTP.
        tape: What it has sent and received.
        log: What went over HTTP.
    """

    def __init__(self, binding: str, revision: str) -> None:
        self.client: Client
        self.another: Callable[[], AbstractAsyncContextManager[Client]]
        self.tape = Tape()
        self.log = HttpLog()
        self.app: McpASGI | None = None
        self._binding = binding
        self._is_modern = revision == MODERN

    def goodbyes(self) -> Counter[Any]:
        """Return how often each request was given up, on the wire, in the way of the wire.

        Over HTTP the modern era closes responses and says nothing, and the legacy era says it.
        """
        if self._binding in DUPLEX:
            return self.tape.goodbyes()
        told = self.log.told()
        assert told == self.tape.goodbyes()
        if self._is_modern:
            assert not told
            return self.log.left()
        return told

    def answers(self) -> Counter[Any]:
        """Return how often each request was answered; in the modern era over HTTP: on the wire, heeded or not."""
        if self._binding in DUPLEX or not self._is_modern:
            return self.tape.answers()
        return Counter(one.message["id"] for one in self.log.seen if one.end == "complete")

    def requests(self) -> set[Any]:
        """Return the ids of the requests that the server has, as far as the wire tells."""
        return set(self.tape.requests()) if self._binding in DUPLEX else self.log.requests()

    def check_endings(self) -> None:
        """Check how every request has ended; see `Tape.check_endings`."""
        self.tape.check_endings()
        assert all(count == 1 for count in self.goodbyes().values())

    def statistics(self) -> EndpointStatistics:
        """Return what is going on at the endpoint."""
        assert self.app is not None
        assert self.app._endpoint is not None
        return self.app._endpoint.statistics()


@asynccontextmanager
async def open_line(
    server: Server[Any],
    binding: str,
    spoken: str,
    settings: HttpServerSettings | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncGenerator[Line]:
    """Connect a client to a server. Nothing of it may be left at the server when it has gone."""
    line = Line(binding, spoken)
    options["on_frame"] = line.tape
    options["revision"] = spoken
    if binding == "memory":
        async with open_client(server, **options) as line.client:
            yield line
        return
    if binding == "websocket":
        async with open_websocket_line(server, settings, options.get("limits", Limits())) as (channel, endpoint):
            try:
                async with open_client(channel, **options) as line.client:
                    yield line
            finally:
                with trio.CancelScope(shield=True):
                    await trio.testing.wait_all_tasks_blocked()
                _check_empty(endpoint.statistics())
        return
    line.app = McpASGI(server, attrs.evolve(settings or HttpServerSettings(), sse=True))
    async with _running(tap_application(line.app, line.log)) as shared:
        url = "http://localhost/sse" if binding == "sse" else "http://localhost/mcp"
        options["era"] = "sse" if binding == "sse" else "auto"
        line.another = lambda: open_client(HttpServerParameters(url, app=shared), **options)
        try:
            async with open_client(HttpServerParameters(url, app=shared), **options) as line.client:
                yield line
        finally:
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
            _check_empty(line.statistics())


def _check_empty(left: EndpointStatistics) -> None:
    assert not any(pool.lent for pool in left.kept.values()), "nothing is kept for clients that have gone"
    assert attrs.evolve(left, kept={}) == EndpointStatistics(requests=0, standing=0, sessions=0)


@asynccontextmanager
async def _running(app: AsgiApplication) -> AsyncGenerator[AsgiClient]:
    """Run a server that is none of its clients' business: their being cancelled does not cancel it."""
    end = trio.Event()

    async def _run(*, task_status: trio.TaskStatus[AsgiClient]) -> None:
        with trio.CancelScope(shield=True):
            async with open_asgi_client(app) as shared:
                task_status.started(shared)
                await end.wait()

    async with open_hidden_nursery() as nursery:
        shared: AsgiClient = await nursery.start(_run)
        try:
            yield shared
        finally:
            end.set()
