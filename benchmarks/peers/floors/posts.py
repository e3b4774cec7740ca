"""The floors of HTTP: a POST read, answered and written on Trio, and nothing else; or an ASGI host's "hello".

``python posts.py h11|httptools|hypercorn|anycorn``. An answer of several messages is a stream of events, as
elsewhere.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from typing import Any, Final

import h11
import trio

from benchmarks.peers.floors.answers import answer

CHUNK: Final = 1 << 16
JSON: Final = b"application/json"
EVENTS: Final = b"text/event-stream"


def events_of(messages: list[bytes]) -> bytes:
    """Return a stream of events with these messages."""
    return b"".join(b"event: message\ndata: " + message + b"\n\n" for message in messages)


def respond(body: bytes) -> tuple[int, bytes, bytes]:
    """Return status, content type and body."""
    messages = list(answer(body))
    if not messages:
        return 202, JSON, b""
    if len(messages) == 1:
        return 200, JSON, messages[0]
    return 200, EVENTS, events_of(messages)


async def serve_h11(stream: trio.SocketStream) -> None:
    """Serve one connection with h11."""
    connection = h11.Connection(h11.SERVER)
    body: list[bytes] = []
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(CHUNK))
        elif isinstance(event, h11.Data):
            body.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            status, kind, said = respond(b"".join(body))
            body.clear()
            headers = [(b"content-type", kind), (b"content-length", str(len(said)).encode())]
            parts = (
                connection.send(h11.Response(status_code=status, headers=headers)),
                connection.send(h11.Data(data=said)),
                connection.send(h11.EndOfMessage()),
            )
            await stream.send_all(b"".join(part for part in parts if part))
            connection.start_next_cycle()
        elif isinstance(event, h11.ConnectionClosed):
            return


async def serve_httptools(stream: trio.SocketStream) -> None:
    """Serve one connection with httptools."""
    import httptools

    class Parsed:
        def __init__(self) -> None:
            self.body: list[bytes] = []
            self.bodies: list[bytes] = []

        def on_body(self, data: bytes) -> None:
            self.body.append(data)

        def on_message_complete(self) -> None:
            self.bodies.append(b"".join(self.body))
            self.body.clear()

    parsed = Parsed()
    parser = httptools.HttpRequestParser(parsed)
    while data := await stream.receive_some(CHUNK):
        parser.feed_data(data)
        for body in parsed.bodies:
            status, kind, said = respond(body)
            head = b"HTTP/1.1 %d OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (status, kind, len(said))
            await stream.send_all(head + said)
        parsed.bodies.clear()


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer a POST, as an ASGI application."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    status, kind, said = respond(body)
    headers = [(b"content-type", kind), (b"content-length", str(len(said)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": said})


async def main(kind: str) -> None:
    """Serve without a host, and say where."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=2048)
    print("http://{}:{}/mcp".format(*listener.socket.getsockname()), flush=True)
    handler = serve_h11 if kind == "h11" else serve_httptools

    async def guarded(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, h11.RemoteProtocolError):
            await handler(stream)

    await trio.serve_listeners(guarded, [listener])


if __name__ == "__main__":
    if sys.argv[1] in {"hypercorn", "anycorn"}:
        hosting: Any = importlib.import_module("benchmarks.peers.hosting")  # it has no types
        hosting.serve(app, sys.argv[1], "/mcp")
    else:
        trio.run(main, sys.argv[1])
