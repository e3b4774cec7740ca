"""A request that asks for its connection to become a WebSocket, on both hosts: its bytes, and how it is refused.

Spec: RFC 6455, section 4.2.2; RFC 9110, section 7.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, final
from urllib.parse import unquote

import trio

from .._core._frames import wants_websocket
from .._core._http1 import HeaderField
from .._endpoint._call import HttpCall
from .._oauth._certificates import ClientCertificate
from ._requests import CLOSE, READ_BYTES, ConnectionIO, RequestHead, encode_head


def is_upgrade(head: RequestHead) -> bool:
    """Whether a request asks for a WebSocket, and may: the protocol demands a GET of HTTP/1.1 without a body."""
    return wants_websocket(head.headers) and head.method == "GET" and head.is_one_one and head.length == 0


@final
class UpgradedWire:
    """The bytes of a connection behind the request.

    Args:
        io: The connection.
        ahead: What was received behind the request.
    """

    def __init__(self, io: ConnectionIO, ahead: bytes) -> None:
        self._io = io
        self._ahead = ahead
        self.send: Final = io.send
        self.send_eof: Final = io.send_eof
        self.cut: Final = io.cut

    async def receive(self, most: int = READ_BYTES) -> bytes:
        """Return the next bytes; none at the end."""
        ahead, self._ahead = self._ahead, b""
        if ahead:
            await trio.lowlevel.checkpoint()
            return ahead
        return await self._io.receive(most)


@final
class UpgradeCall(HttpCall):
    """The request; it is refused as HTTP/1.1, and then the connection ends.

    Args:
        io: Its connection, which nothing else reads any more.
        head: Its head.
        ahead: What was received behind it.
    """

    def __init__(self, io: ConnectionIO, head: RequestHead, ahead: bytes) -> None:
        path, _, query = head.target.decode("ascii").partition("?")
        super().__init__(
            method=head.method,
            path=unquote(path) if "%" in path else path,
            headers=head.headers,
            query=query,
            client=io.client,
            scheme=io.scheme,
        )
        self.wire = UpgradedWire(io, ahead)
        self._io = io
        self._head = b""

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
