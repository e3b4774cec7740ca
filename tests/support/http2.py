"""An HTTP/2 client for tests: one connection, and what comes over it, as the server sent it. On h2."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import final

import h2.config
import h2.connection
import h2.events
import trio

__all__ = ["Http2", "open_http2"]


@final
class Http2:
    """One connection. Made by `open_http2`."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream], authority: str) -> None:
        self._stream = stream
        self._authority = authority
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self._h2.initiate_connection()
        self._events: list[h2.events.Event] = []

    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Send a request; return the number of its stream."""
        number = self._h2.get_next_available_stream_id()
        pseudo = {":method": "POST", ":scheme": "https", ":authority": self._authority, ":path": path}
        fields = {**pseudo, **{name.lower(): value for name, value in headers.items()}}
        self._h2.send_headers(number, list(fields.items()))
        self._h2.send_data(number, body, end_stream=True)
        await self._flush()
        return number

    async def reset(self, number: int) -> None:
        """Give a request up."""
        self._h2.reset_stream(number)
        await self._flush()

    async def head(self) -> dict[str, str]:
        """Wait for the head of an answer."""
        while True:
            event = await self._next()
            if isinstance(event, h2.events.ResponseReceived):
                return {str(name): str(value) for name, value in event.headers or []}

    async def data(self) -> bytes:
        """Wait for the next piece of a body; empty at its end."""
        while True:
            event = await self._next()
            if isinstance(event, h2.events.DataReceived):
                self._h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
                await self._flush()
                if event.data:
                    return event.data
            elif isinstance(event, h2.events.StreamEnded):
                return b""

    async def body(self) -> bytes:
        """Wait for the rest of a body."""
        body = b""
        while data := await self.data():
            body += data
        return body

    async def _next(self) -> h2.events.Event:
        while not self._events:
            received = await self._stream.receive_some()
            assert received, "the server has closed the connection"
            self._events += self._h2.receive_data(bytes(received))
            await self._flush()
        return self._events.pop(0)

    async def _flush(self) -> None:
        if data := self._h2.data_to_send():
            await self._stream.send_all(data)


@asynccontextmanager
async def open_http2(port: int, context: ssl.SSLContext, authority: str) -> AsyncGenerator[Http2]:
    """Connect to this machine, and agree on HTTP/2."""
    context.set_alpn_protocols(["h2"])
    tcp = await trio.open_tcp_stream("127.0.0.1", port)
    stream = trio.SSLStream(tcp, context, server_hostname=authority)
    try:
        await stream.do_handshake()
        assert stream.selected_alpn_protocol() == "h2"
        yield Http2(stream, authority)
    finally:
        await trio.aclose_forcefully(stream)
