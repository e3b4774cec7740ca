"""A WebSocket spoken by hand: frames as bytes, to say what no library would, and a server of ours for it."""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, final

import attrs
import pytest
import trio
from inside_core import HttpHost

from trio_mcp import HttpServerSettings, Server, serve_http, serve_websocket

__all__ = [
    "BINARY",
    "CLOSE",
    "CONTINUATION",
    "EVERYWHERE",
    "PING",
    "PONG",
    "TEXT",
    "Frame",
    "RawSocket",
    "frame",
    "raw_socket",
    "served",
]

EVERYWHERE: Final = pytest.mark.parametrize(
    "http", [None, "lean", "hypercorn"], ids=["alone", "lean", "hypercorn"]
)
"""All ways of serving WebSockets."""

CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10


def frame(
    opcode: int, payload: bytes | str = b"", *, is_last: bool = True, is_masked: bool = True, reserved: int = 0
) -> bytes:
    """Return the bytes of a frame, valid or not."""
    data = payload.encode() if isinstance(payload, str) else payload
    mark = 0x80 if is_masked else 0
    head = bytes([(0x80 if is_last else 0) | reserved | opcode])
    if len(data) < 126:
        head += bytes([mark | len(data)])
    elif len(data) < 1 << 16:
        head += bytes([mark | 126]) + struct.pack("!H", len(data))
    else:
        head += bytes([mark | 127]) + struct.pack("!Q", len(data))
    if not is_masked:
        return head + data
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[n % 4] for n, byte in enumerate(data))


@attrs.frozen
class Frame:
    """A frame that was received."""

    opcode: int
    payload: bytes
    is_last: bool = True

    @property
    def code(self) -> int:
        """The close code."""
        assert self.opcode == CLOSE
        return int.from_bytes(self.payload[:2])

    @property
    def reason(self) -> str:
        return self.payload[2:].decode()


@final
class RawSocket:
    """One end of a connection.

    Attributes:
        status: What the handshake was answered with.
        headers: The header fields of that.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.status = 0
        self.headers: dict[str, str] = {}
        self.buffer = bytearray()

    async def shake_hands(self, path: str = "/mcp", headers: Mapping[str, str | None] | None = None) -> None:
        """Send the handshake of a client, and read the answer. A header that is `None` is left out."""
        fields: dict[str, str | None] = {
            "Host": "localhost",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
            "Sec-WebSocket-Protocol": "mcp",
            **(headers or {}),
        }
        lines = [f"{name}: {value}\r\n" for name, value in fields.items() if value is not None]
        await self.stream.send_all(f"GET {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode())
        while b"\r\n\r\n" not in self.buffer:
            await self._receive_more()
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        self.buffer = bytearray(rest)
        status, *others = head.decode().split("\r\n")
        self.status = int(status.split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in others)}

    async def _receive_more(self) -> None:
        data = await self.stream.receive_some()
        if not data:
            raise EOFError
        self.buffer += data

    async def send(self, *frames: bytes) -> None:
        await self.stream.send_all(b"".join(frames))

    async def _exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            await self._receive_more()
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    async def receive(self) -> Frame:
        """Read one frame.

        Raises:
            EOFError: The other side has ended the connection.
        """
        first, second = await self._exactly(2)
        length = second & 0x7F
        if length == 126:
            length = int.from_bytes(await self._exactly(2))
        elif length == 127:
            length = int.from_bytes(await self._exactly(8))
        mask = await self._exactly(4) if second & 0x80 else bytes(4)
        payload = await self._exactly(length)
        if any(mask):
            payload = bytes(byte ^ mask[n % 4] for n, byte in enumerate(payload))
        return Frame(first & 0x0F, payload, first >= 0x80)

    async def wait_end(self) -> None:
        """Read until the other side has ended the connection."""
        with suppress(EOFError, trio.BrokenResourceError):
            while True:
                await self._receive_more()

    async def closed_with(self) -> int:
        """Return the code of the Close that comes, and check that the connection then ends."""
        while (found := await self.receive()).opcode != CLOSE:
            pass
        try:
            await self.receive()
        except (EOFError, trio.BrokenResourceError):
            return found.code
        raise AssertionError("something came after Close")


@asynccontextmanager
async def served(server: Server[Any], http: HttpHost | None = None, **options: Any) -> AsyncGenerator[int]:
    """Serve WebSockets at a port while the body runs, and check that nothing has ended that.

    Args:
        server: The server.
        http: The host that serves them beside HTTP; `None` for WebSockets alone.
        **options: Those of what serves.
    """
    serve: Any = serve_websocket
    if http is not None:
        settings = attrs.evolve(options.pop("settings", None) or HttpServerSettings(), websocket=True)
        serve = partial(serve_http, http=http, settings=settings)
    async with trio.open_nursery() as nursery:
        urls: tuple[str, ...] = await nursery.start(partial(serve, server, port=0, **options))
        yield int(urls[0].rpartition(":")[2].partition("/")[0])
        assert not nursery.cancel_scope.cancel_called
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def raw_socket(
    port: int, headers: Mapping[str, str | None] | None = None, path: str = "/mcp"
) -> AsyncGenerator[RawSocket]:
    """Connect to a port, and shake hands."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        socket = RawSocket(stream)
        await socket.shake_hands(path, headers)
        yield socket
