"""A request that asks for its connection to become a WebSocket, on both hosts: its bytes, and how it is refused.

Spec: RFC 6455, section 4.2.2; RFC 9110, section 7.8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import unquote

import trio

from .._channel import Origin
from .._core._frames import check_handshake, wants_websocket
from .._core._http1 import HeaderField
from .._core._http_rules import HttpServerSettings
from .._endpoint._endpoint import Endpoint
from .._endpoint._websockets import GOODBYE, WebSocketCall
from .._limits import Limits
from .._oauth._principal import ClientCertificate
from ._requests import CLOSE, READ_AHEAD, READ_BYTES, ConnectionIO, RequestHead, encode_head

if TYPE_CHECKING:  # a server without WebSockets does not load the library for them
    from .._bindings._guarded_stream import GuardedStream
    from .._bindings._websocket import WebSocketChannel


def is_upgrade(head: RequestHead) -> bool:
    """Whether a request asks for a WebSocket, and may: the protocol demands a GET of HTTP/1.1 without a body."""
    return wants_websocket(head.headers) and head.method == "GET" and head.is_one_one and head.length == 0


@final
class UpgradedWire:
    """The bytes of a connection behind the request.

    Until the WebSocket begins, `watch` reads ahead, so that a client that leaves is noticed.

    Args:
        io: The connection.
        ahead: What was received behind the request.
    """

    def __init__(self, io: ConnectionIO, ahead: bytes) -> None:
        self._io = io
        self._ahead = bytearray(ahead)
        self._watching = trio.CancelScope()
        self._has_watched = trio.Event()
        self.send: Final = io.send
        self.send_eof: Final = io.send_eof
        self.cut: Final = io.cut

    async def watch(self, on_gone: Callable[[], object]) -> None:
        """Read ahead until the client is gone, or something else reads."""
        try:
            with self._watching:
                while len(self._ahead) < READ_AHEAD:
                    data = await self._io.receive(READ_AHEAD)
                    if not data:
                        on_gone()
                        break
                    self._ahead += data
        finally:
            self._has_watched.set()
        await trio.lowlevel.checkpoint()

    async def stop_watching(self) -> None:
        """Let something else read."""
        self._watching.cancel(reason="the WebSocket begins, or is refused")
        await self._has_watched.wait()

    async def receive(self, most: int = READ_BYTES) -> bytes:
        """Return the next bytes; none at the end."""
        if not self._has_watched.is_set():
            await self.stop_watching()
        ahead, self._ahead = bytes(self._ahead), bytearray()
        if ahead:
            await trio.lowlevel.checkpoint()
            return ahead
        return await self._io.receive(most)


@final
class UpgradeCall(WebSocketCall):
    """The request; it is refused as HTTP/1.1, and then the connection ends.

    Args:
        io: Its connection, which nothing else reads any more.
        head: Its head.
        ahead: What was received behind it.
        work: Called when a request of the client is open.
        rest: Called when none is open any more.

    Attributes:
        wire: The bytes behind it.
    """

    _key: str
    _channel: WebSocketChannel

    def __init__(
        self,
        io: ConnectionIO,
        head: RequestHead,
        ahead: bytes,
        work: Callable[[ConnectionIO], object],
        rest: Callable[[ConnectionIO], object],
    ) -> None:
        path, _, query = head.target.decode("ascii").partition("?")
        super().__init__(
            method=head.method,
            path=unquote(path) if "%" in path else path,
            headers=head.headers,
            query=query,
            client=io.client,
            scheme=io.scheme,
            target=head.target,
        )
        self.wire: Final = UpgradedWire(io, ahead)
        self._io = io
        self._head = b""
        self._work = work
        self._rest = rest

    async def serve(self, endpoint: Endpoint, start: Callable[..., None]) -> None:
        """Let an endpoint serve it, with a task of the connection that watches it meanwhile."""
        start(self.wire.watch, self.gone)
        await endpoint.handle(self)
        await self.wire.stop_watching()
        await self._io.linger()  # after a refusal; a WebSocket has ended by itself

    # The WebSocket.

    def check_handshake(self) -> None:
        self._key = check_handshake(self.headers)

    def make_channel(
        self,
        limits: Limits,
        settings: HttpServerSettings,
        origin_of: Callable[[bytes], Origin | None],
        on_kept: Callable[[int], object],
    ) -> WebSocketChannel:
        from .._bindings._websocket import WebSocketChannel

        self._channel = WebSocketChannel(
            limits,
            "the client" if self.client is None else f"the client at {self.client}",
            GOODBYE,
            origin_of,
            on_kept,
            wire=self.wire,
            ping_interval=settings.keep_alive_interval,
            ping_timeout=2 * settings.keep_alive_interval,
            ping_setting="twice keep_alive_interval",
            patience=settings.message_timeout,
        )
        return self._channel

    def open_channel(self) -> AbstractAsyncContextManager[object]:
        from .._bindings._websocket import accept, open_websocket_channel

        async def connect(nursery: trio.Nursery, stream: GuardedStream) -> Any:
            self.note_started()
            return await accept(nursery, stream, self._key, list(self.answer_headers))

        return open_websocket_channel(self._channel, connect)

    def work(self) -> None:
        self._work(self._io)

    def rest(self) -> None:
        self._rest(self._io)

    # Its refusal.

    async def read_body(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return b""

    @property
    def certificate(self) -> ClientCertificate | None:
        return self._io.certificate

    @property
    def closing(self) -> tuple[HeaderField, ...]:
        return (CLOSE,)

    async def send_head(self, status: int, headers: Sequence[HeaderField]) -> None:
        await trio.lowlevel.checkpoint()
        self._head = encode_head(status, [*(field for field in headers if field != CLOSE), CLOSE])

    async def send(self, data: bytes) -> None:
        head, self._head = self._head, b""
        with suppress(trio.BrokenResourceError):
            await self._io.send(head + data)
        await trio.lowlevel.checkpoint()

    async def finish(self, data: bytes = b"") -> None:
        await self.send(data)

    def cut(self) -> None:
        self.gone()
        self._io.cut()
