"""Connections that carry messages both ways, spoken by hand: a message a line, and WebSockets.

Shares no code with the library. A WebSocket's frames are masked with zeros, which leaves their bytes as they are.
"""

from __future__ import annotations

import abc
import errno
import json
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final, cast, final

import trio

__all__ = ["LineWire", "WebSocketWire", "Wire", "binary", "connected", "frame", "wire_over"]

KIB: Final = 1024
CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10


def frame(opcode: int, payload: bytes = b"", *, is_last: bool = True, reserved: int = 0) -> bytes:
    """Return the bytes of a client's frame."""
    head = bytes([(0x80 if is_last else 0) | reserved | opcode])
    size = len(payload)
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + struct.pack("!H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack("!Q", size)
    return head + bytes(4) + payload


def binary(message: Any) -> bytes:
    """Return a message as it is sent, or the bytes that are given."""
    return message if isinstance(message, bytes) else json.dumps(message).encode()


class Wire(abc.ABC):
    """One end of a connection.

    Attributes:
        empty: What is sent to say nothing.
        broken: What is sent by who breaks the rules, each on a connection of its own.
        opening: What begins a connection.
    """

    empty: bytes
    broken: Sequence[bytes]
    opening: bytes

    def __init__(self, stream: trio.abc.Stream, headers: Mapping[str, str]) -> None:
        self.stream = stream
        self._buffer = bytearray()

    @staticmethod
    @abc.abstractmethod
    def whole(message: Any) -> bytes:
        """Return the bytes of a message."""

    @staticmethod
    @abc.abstractmethod
    def part(data: bytes, *, is_first: bool) -> bytes:
        """Return the bytes of a part of a message that is not its last."""

    @abc.abstractmethod
    async def shake_hands(self) -> None:
        """Do what comes before the first message.

        Raises:
            EOFError: It was refused.
        """

    @abc.abstractmethod
    async def receive(self) -> Any:
        """Return the next message.

        Raises:
            EOFError: The connection has ended.
        """

    async def send(self, *messages: Any) -> None:
        """Send messages, at once."""
        await self.stream.send_all(b"".join(map(self.whole, messages)))

    async def ask(self, message: Mapping[str, Any]) -> Any:
        """Send a request, and return its answer."""
        await self.send(message)
        while True:
            received: Any = await self.receive()
            answer = cast("dict[str, Any]", received if isinstance(received, dict) else {})
            if answer.get("id") == message["id"] and "method" not in answer:
                return answer

    async def begin_session(self, version: str = "2025-11-25") -> None:
        """Begin a session of the legacy era."""
        me = {"name": "x", "version": "1"}
        params: dict[str, Any] = {
            "protocolVersion": version,
            "capabilities": {"elicitation": {}},
            "clientInfo": me,
        }
        answer = await self.ask({"jsonrpc": "2.0", "id": "begin", "method": "initialize", "params": params})
        if "result" not in answer:
            raise EOFError(f"refused: {answer}")
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._read()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def _read(self) -> None:
        data = await self.stream.receive_some(64 * KIB)
        if not data:
            raise EOFError("closed")
        self._buffer += data

    async def read_to_end(self) -> None:
        """Read, and forget, whatever comes, until the connection ends.

        Raises:
            EOFError: It has ended.
        """
        while await self.stream.receive_some(64 * KIB):
            pass
        raise EOFError("closed")


@final
class LineWire(Wire):
    """A message a line."""

    empty = b"\n"
    opening = b'{"jsonrpc": "2.0", '
    broken = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"\x00" * 10_000 + b"\n",
        b"{" * 10_000 + b"\n",
        b'{"jsonrpc": "2.0"}\n' * 1_000,
        b"\xff\xfe{}\n",
        b"[]\n" * 1_000,
        b"7\n",
        b"\r\n" * 10_000 + b"x\n",
    )

    @staticmethod
    def whole(message: Any) -> bytes:
        return binary(message) + b"\n"

    @staticmethod
    def part(data: bytes, *, is_first: bool) -> bytes:
        return data

    async def shake_hands(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive(self) -> Any:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            await self._read()
        return json.loads(await self._exactly(end + 1))


@final
class WebSocketWire(Wire):
    """A WebSocket."""

    empty = frame(PING)
    broken = (
        frame(TEXT, b"{}", reserved=0x40),
        frame(3, b"x"),
        frame(CONTINUATION, b"x"),
        frame(TEXT, b"a", is_last=False) + frame(TEXT, b"b"),
        frame(PING, b"x" * 126),
        frame(PING, is_last=False),
        frame(BINARY, b"{}"),
        frame(TEXT, b"\xff\xfe"),
        frame(CLOSE, b"\x00"),
        frame(CLOSE, b"\x03\xed"),
        b"\x81\x02{}",
        b"\x81\xff" + b"\x7f" * 8 + bytes(4) + b"x",
        b"\x81\xff" + b"\xff" * 8 + bytes(4) + b"x",
        b"GET / HTTP/1.1\r\n\r\n",
    )

    def __init__(self, stream: trio.abc.Stream, headers: Mapping[str, str]) -> None:
        super().__init__(stream, headers)
        fields = {
            "Host": "localhost",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Protocol": "mcp",
            **headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.opening = f"GET /mcp HTTP/1.1\r\n{lines}\r\n".encode()

    @staticmethod
    def whole(message: Any) -> bytes:
        return frame(TEXT, binary(message))

    @staticmethod
    def part(data: bytes, *, is_first: bool) -> bytes:
        return frame(TEXT if is_first else CONTINUATION, data, is_last=False)

    async def shake_hands(self) -> None:
        await self.stream.send_all(self.opening)
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            await self._read()
        head = await self._exactly(end + 4)
        if not head.startswith(b"HTTP/1.1 101"):
            raise EOFError(head.partition(b"\r\n")[0].decode("latin-1"))

    async def receive(self) -> Any:
        while True:
            first, second = await self._exactly(2)
            size = second & 0x7F
            if size == 126:
                size = int.from_bytes(await self._exactly(2))
            elif size == 127:
                size = int.from_bytes(await self._exactly(8))
            payload = await self._exactly(size)
            opcode = first & 0x0F
            if opcode == PING:
                await self.stream.send_all(frame(PONG, payload))
            elif opcode == CLOSE:
                raise EOFError(f"closed with {int.from_bytes(payload[:2])}: {payload[2:].decode()}")
            elif opcode == TEXT and first & 0x80:
                return json.loads(payload)
            elif opcode != PONG:
                raise AssertionError(f"a frame with {first:#x}")


def kind_of(host: str) -> type[LineWire | WebSocketWire]:
    """Return what speaks to what serves."""
    return WebSocketWire if host.startswith("websocket") else LineWire


def wire_over(host: str, stream: trio.abc.Stream, headers: Mapping[str, str]) -> Wire:
    """Return the end of a client, whatever serves."""
    return kind_of(host)(stream, headers)


@cache
def trusting() -> ssl.SSLContext:
    """Return a context that asks for no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@asynccontextmanager
async def connected(
    host: str, at: str, *, address: str | None = None, slow_reader: bool = False, is_secured: bool = True
) -> AsyncGenerator[trio.abc.Stream]:
    """Connect to what serves, and close that when the block is left.

    Args:
        host: What serves.
        at: Its port, or the path of its socket.
        address: Where the connection comes from; not at a Unix socket.
        slow_reader: Whether as little as possible fits into what the system keeps for the reader.
        is_secured: Whether TLS begins, where that is served.
    """
    is_path = "/" in at
    bare = trio.socket.socket(socket.AF_UNIX if is_path else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if slow_reader:
            bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
        if is_path:
            await bare.connect(at)
            while not _is_connected(bare):
                await trio.sleep(0.05)
                await bare.connect(at)
        else:
            if address is not None:
                await bare.bind((address, 0))
            await bare.connect(("127.0.0.1", int(at)))
        stream: trio.abc.Stream = trio.SocketStream(bare)
        if host == "tls" and is_secured:
            secured = trio.SSLStream(trio.SocketStream(bare), trusting())
            await secured.do_handshake()
            stream = secured
    except BaseException:
        bare.close()
        raise
    try:
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


def _is_connected(at_path: trio.socket.SocketType) -> bool:
    """Whether Trio is right in that. It is not where the queue of a Unix socket was full."""
    try:
        at_path.getpeername()
    except OSError as error:
        return error.errno != errno.ENOTCONN
    return True


def reset(stream: trio.abc.Stream) -> None:
    """Let closing a connection be a reset."""
    below: Any = cast("Any", stream).transport_stream if isinstance(stream, trio.SSLStream) else stream
    if isinstance(below, trio.SocketStream):
        below.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
