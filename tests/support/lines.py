"""Clients and servers of ours in one process, over every transport, and what goes over the wire between them.

In memory a mock clock works, and everything is deterministic. So it does where there are sockets and pipes: what one
end has written is there for the other in the same turn of the event loop, and the clock jumps only when nothing has
come for a moment.
"""
# trustme takes the contexts of a library that is not here as well.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import functools
import math
import socket
import ssl
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, final

import attrs
import pytest
import trio
import trio.testing
import trustme
from http_tap import HttpLog, open_http_tap, tap_application
from inside_base import open_hidden_nursery
from inside_server import Servable
from tape import Tape
from transports import BY_NAME
from typing_extensions import Unpack
from websocket_lines import open_websocket_line

from trio_mcp import (
    Channel,
    Client,
    ClientOptions,
    Endpoint,
    EndpointStatistics,
    HttpServerParameters,
    HttpServerSettings,
    Limits,
    McpASGI,
    Proxy,
    Revision,
    Server,
    Shutdown,
    StdioServerParameters,
    StreamChannel,
    Target,
    TcpServerParameters,
    UnixServerParameters,
    WebSocketServerParameters,
    open_asgi_client,
    open_client,
    serve_http,
    serve_tcp,
    serve_unix,
    serve_websocket,
)

__all__ = [
    "ALL_LINES",
    "LEGACY",
    "LEGACY_LINES",
    "LINES",
    "MODERN",
    "Line",
    "open_line",
    "open_target",
]

T = TypeVar("T")

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
"""Every era over every kind of transport, without sockets: for tests that are no scenarios of the matrix."""


def _lines(*lines: tuple[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("binding", "revision"), lines)


LINES: Final = _lines(*ALL_LINES)
"""Every era over every kind of transport."""
LEGACY_LINES: Final = _lines(*(line for line in ALL_LINES if line[1] != MODERN))
"""Those where servers ask."""

MODES: Final = {"json": {"json_only": True}, "stateless": {"stateless": True}}
"""Settings of the transports that are modes of serving HTTP."""
STILL: Final = 0.005
"""Seconds without anything coming in after which a mock clock jumps, where there are sockets."""
STILL_WHILE_CLOSING: Final = 0.3
"""The same while a process ends."""


@final
class Line:
    """A client that is connected.

    Attributes:
        client: The client.
        another: Opens one like it, where there can be more than one.
        drain: Lets the server end as it does when it is asked to: what is under way may finish.
        tape: What the client has sent and received.
        log: What went over HTTP.
    """

    def __init__(self, binding: str, revision: str) -> None:
        self.client: Client
        self.another: Callable[[], AbstractAsyncContextManager[Client]]
        self.drain: Callable[[], None]
        self.tape = Tape()
        self.log = HttpLog()
        self.endpoint: Endpoint | None = None
        self.is_duplex = BY_NAME[binding].kind == "duplex"
        self._is_modern = revision == MODERN
        self._is_sse = binding == "sse"

    def goodbyes(self) -> Counter[Any]:
        """Return how often each request was given up, on the wire, in the way of the wire.

        Over HTTP the modern era closes responses and says nothing, and the legacy era says it.
        """
        if self.is_duplex:
            return self.tape.goodbyes()
        told = self.log.told_of(self.tape, is_sse=self._is_sse)
        if self._is_modern:
            assert not told
            return self.log.left()
        return told

    def answers(self) -> Counter[Any]:
        """Return how often each request was answered; in the modern era over HTTP: on the wire, heeded or not."""
        if self.is_duplex or not self._is_modern:
            return self.tape.answers()
        return Counter(one.message["id"] for one in self.log.seen if one.end == "complete")

    def requests(self) -> set[Any]:
        """Return the ids of the requests that the server has, as far as the wire tells."""
        return set(self.tape.requests()) if self.is_duplex else self.log.requests()

    def check_endings(self) -> None:
        """Check how every request has ended; see `Tape.check_endings`."""
        self.tape.check_endings()
        assert all(count == 1 for count in self.goodbyes().values())

    def statistics(self) -> EndpointStatistics:
        """Return what is going on at the endpoint, where it is in memory."""
        assert self.endpoint is not None
        return self.endpoint.statistics()


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
    options.setdefault("revision", spoken)
    mode, _, host = binding.partition("-")
    if mode == "sse":
        options["era"] = "sse"
    reach = _reach(line, server, binding, settings, options.get("limits", Limits()))
    has_sockets = (bool(host) and mode != "proxy") or mode in {"stdio", "tcp", "tls", "unix"}
    if has_sockets:
        options.setdefault("request_timeout", math.inf)  # a clock that jumps would jump to the end of a silence
    with _Patience(has_sockets=has_sockets) as patience:
        async with reach as target:
            line.another = lambda: open_client(target, **options)
            async with open_client(target, **options) as line.client:
                patience.connected()
                try:
                    yield line
                finally:
                    patience.closing()


@asynccontextmanager
async def open_target(server: Server[Any], binding: str) -> AsyncGenerator[Target]:
    """Open what `open_line` connects to, for clients of the test's own. Nothing of them may be left there."""
    async with _reach(Line(binding, MODERN), server, binding, None, Limits()) as target:
        yield target


def _reach(
    line: Line, server: Server[Any], binding: str, settings: HttpServerSettings | None, limits: Limits
) -> AbstractAsyncContextManager[Any]:
    mode, _, host = binding.partition("-")
    modes: dict[str, Any] = MODES.get(mode, {})
    settings = attrs.evolve(settings or HttpServerSettings(), sse=True, websocket=mode == "websocket", **modes)
    if mode == "memory":
        return _in_memory(line, server)
    if binding == "websocket":
        return _websocket_in_memory(line, server, settings, limits)
    if mode == "stdio":
        return _stdio(line, server)
    if mode in {"tcp", "tls", "unix"}:
        return _socket(line, server, mode)
    if mode == "proxy":
        return _proxy(line, server, settings, host)
    if host:
        return _hosted(line, server, settings, mode, host)
    return _asgi(line, server, settings, mode)


@final
class _Patience:
    """Holds a mock clock up where there are sockets and processes, which it knows nothing of.

    While a client connects time stands still. Then it jumps when nothing has come for `STILL`: what the other end has
    written is in the kernel already, so that is enough however busy the machine is.
    """

    def __init__(self, *, has_sockets: bool) -> None:
        clock = trio.lowlevel.current_clock()
        self._clock = clock if has_sockets and isinstance(clock, trio.testing.MockClock) else None
        self._before = 0.0

    def __enter__(self) -> _Patience:
        if self._clock is not None:
            self._before = self._clock.autojump_threshold
            self._clock.autojump_threshold = math.inf
        return self

    def connected(self) -> None:
        """Let time pass."""
        if self._clock is not None:
            self._clock.autojump_threshold = STILL

    def closing(self) -> None:
        """Let a process end."""
        if self._clock is not None:
            self._clock.autojump_threshold = STILL_WHILE_CLOSING

    def __exit__(self, *_: object) -> None:
        if self._clock is not None:
            self._clock.autojump_threshold = self._before


def _check_empty(left: EndpointStatistics) -> None:
    kept = {name: pool.lent for name, pool in left.kept.items() if pool.lent and name != "upstreams"}
    assert not kept, "nothing is kept for clients that have gone, but a proxy's connection for the next one"
    assert attrs.evolve(left, kept={}) == EndpointStatistics(requests=0, standing=0, sessions=0)


@asynccontextmanager
async def _checked(line: Line, nursery: trio.Nursery, endpoint: Endpoint) -> AsyncGenerator[None]:
    """Look whether clients leave anything at an endpoint."""
    line.endpoint = endpoint
    line.drain = lambda: nursery.start_soon(endpoint.drain)
    try:
        yield
    finally:
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
        _check_empty(endpoint.statistics())


@asynccontextmanager
async def _apart(context: AbstractAsyncContextManager[T]) -> AsyncGenerator[T]:
    """Keep something open that is none of the clients' business: their being cancelled does not cancel it."""
    end = trio.Event()

    async def run(*, task_status: trio.TaskStatus[T]) -> None:  # noqa: ASYNC114 - it is started right here
        with trio.CancelScope(shield=True):
            async with context as opened:
                task_status.started(opened)
                await end.wait()

    async with open_hidden_nursery() as nursery:
        opened: T = await nursery.start(run)
        try:
            yield opened
        finally:
            end.set()


@asynccontextmanager
async def _serving(line: Line, serve: Callable[..., Awaitable[object]]) -> AsyncGenerator[Any]:
    """Run a server until it is asked to end, which is at the latest after its clients, and then it must."""
    shutdown = Shutdown()
    line.drain = shutdown.drain
    async with trio.open_nursery() as nursery:
        yield await nursery.start(partial(serve, shutdown=shutdown))
        shutdown.drain()


# The transports.


@final
class _InProcess:
    """A server in this process that can be asked to end."""

    def __init__(self, server: Servable[Any]) -> None:
        self._server = server
        self.shutdown = Shutdown()

    async def serve_channel(
        self, channel: Channel, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve one client."""
        await self._server.serve_channel(channel, shutdown=self.shutdown, task_status=task_status)


@asynccontextmanager
async def _in_memory(line: Line, server: Servable[Any]) -> AsyncGenerator[_InProcess]:
    target = _InProcess(server)
    line.drain = target.shutdown.drain
    yield target


@asynccontextmanager
async def _websocket_in_memory(
    line: Line, server: Server[Any], settings: HttpServerSettings, limits: Limits
) -> AsyncGenerator[Channel]:
    async with (
        open_hidden_nursery() as nursery,
        open_websocket_line(server, settings, limits) as (channel, endpoint),
        _checked(line, nursery, endpoint),
    ):
        yield channel


@asynccontextmanager
async def _asgi(
    line: Line, server: Servable[Any], settings: HttpServerSettings, mode: str
) -> AsyncGenerator[HttpServerParameters]:
    app = McpASGI(server, settings)
    async with (
        _apart(open_asgi_client(tap_application(app, line.log))) as shared,
        open_hidden_nursery() as nursery,
    ):
        assert app._endpoint is not None
        async with _checked(line, nursery, app._endpoint):
            yield HttpServerParameters(f"http://localhost/{_path(mode)}", app=shared)


@asynccontextmanager
async def _hosted(
    line: Line, server: Server[Any], settings: HttpServerSettings, mode: str, host: Any
) -> AsyncGenerator[HttpServerParameters | WebSocketServerParameters]:
    if mode == "websocket" and host == "lean":
        serve: Callable[..., Awaitable[object]] = partial(serve_websocket, server, port=0, settings=settings)
    else:
        serve = partial(serve_http, server, port=0, http=host, settings=settings)
    async with _apart(_serving(line, serve)) as (url,):
        if mode == "websocket":
            yield WebSocketServerParameters(url.replace("http", "ws"))
            return
        port = int(url.split("/")[2].split(":")[1])
        async with _apart(open_http_tap(port, line.log)) as tapped:
            yield HttpServerParameters(f"http://127.0.0.1:{tapped}/{_path(mode)}")


def _proxy(
    line: Line, server: Server[Any], settings: HttpServerSettings, crossing: str
) -> AbstractAsyncContextManager[Any]:
    """Stand a proxy before the server, with the server's own limits."""
    if crossing:
        server._application.revisions = (Revision(MODERN if crossing == "to-modern" else LEGACY),)
    proxy = Proxy(server, limits=server.limits)
    return _asgi(line, proxy, settings, "http") if crossing else _in_memory(line, proxy)


def _path(mode: str) -> str:
    return "sse" if mode == "sse" else "mcp"


@functools.cache
def _certificates() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a context for servers, and one for clients that trust them."""
    authority = trustme.CA()
    serving, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    authority.configure_trust(trusting)
    return serving, trusting


@asynccontextmanager
async def _socket(
    line: Line, server: Server[Any], mode: str
) -> AsyncGenerator[TcpServerParameters | UnixServerParameters]:
    with tempfile.TemporaryDirectory() as folder:
        serving, trusting = _certificates() if mode == "tls" else (None, None)
        serve: Callable[..., Awaitable[object]] = (
            partial(serve_unix, server, Path(folder, "socket"))
            if mode == "unix"
            else partial(serve_tcp, server, port=0, ssl_context=serving)
        )
        async with _apart(_serving(line, serve)) as (url,):
            if mode == "unix":
                yield UnixServerParameters(Path(folder, "socket"))
            else:
                port = int(url.rpartition(":")[2])
                yield TcpServerParameters("127.0.0.1", port, tls=trusting or False)


LENDING: Final = """\
import os, socket, sys
lender = socket.socket(socket.AF_UNIX)
lender.connect(sys.argv[1])
socket.send_fds(lender, [b"x"], [0, 1])
os.close(0)
os.close(1)
lender.recv(1)
os._exit(0)
"""
"""A process whose standard input and output another one serves: the client starts and ends a real one, without the
time that importing a server takes, and the server's handlers are where the test is. Processes that serve their own are in
`tests/wires/contract/test_contract_over_a_process.py`.
"""


@asynccontextmanager
async def _stdio(line: Line, server: Server[Any]) -> AsyncGenerator[StdioServerParameters]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "socket"))

        async def serve(*, shutdown: Shutdown, task_status: trio.TaskStatus[None]) -> None:
            listener = trio.socket.socket(socket.AF_UNIX)
            await listener.bind(path)
            listener.listen()

            async def lend(stream: trio.SocketStream) -> None:
                incoming, outgoing = await _descriptors(stream.socket)
                async with stream:
                    await server.serve_channel(
                        StreamChannel(
                            trio.lowlevel.FdStream(incoming),
                            trio.lowlevel.FdStream(outgoing),
                            max_message_bytes=server.limits.max_message_bytes,
                        ),
                        shutdown=shutdown,
                    )

            async with open_hidden_nursery() as connections, open_hidden_nursery() as nursery:
                listeners = [trio.SocketListener(listener)]
                await nursery.start(partial(trio.serve_listeners, lend, listeners, handler_nursery=connections))
                task_status.started()
                await shutdown.wait_drain()
                nursery.cancel_scope.cancel()

        async with _apart(_serving(line, serve)):
            command = ["-I", "-S", "-c", LENDING, path]
            yield StdioServerParameters(sys.executable, command, stderr=lambda _: None)


async def _descriptors(connection: trio.socket.SocketType) -> tuple[int, int]:
    """Receive two of them."""
    pair = struct.Struct("2i")
    _, ((_, _, data),), _, _ = await connection.recvmsg(1, socket.CMSG_SPACE(pair.size))
    incoming, outgoing = pair.unpack(data[: pair.size])
    return incoming, outgoing
