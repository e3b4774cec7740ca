"""A server with answers made in advance, to measure clients alone: ``fixed_server.py stdio|http legacy|modern``.

It understands just enough of a request to answer it, and is far faster than any client.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, final

import msgspec

from benchmarks.load.dialect import LEGACY, MODERN

__all__ = ["Answers"]

CHUNK: Final = 1 << 20
DONE: Final = {"resultType": "complete"}
STREAM_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
JSON_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n"
ACCEPTED: Final = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
REFUSED: Final = b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n"
SESSION: Final = b"mcp-session-id: fixed\r\n"
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "What it is done to."},
        "count": {"type": "integer", "description": "How often."},
        "ratio": {"type": "number", "description": "How much of it."},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "What to call it."},
        "dry_run": {"type": "boolean", "default": False, "description": "Whether to do even less."},
    },
    "required": ["name", "count", "ratio", "tags"],
}


class _Meta(msgspec.Struct):
    token: int | str | None = msgspec.field(default=None, name="progressToken")


class _Arguments(msgspec.Struct):
    size: int = 0
    count: int = 0
    text: msgspec.Raw = msgspec.Raw()


class _Params(msgspec.Struct):
    name: str = ""
    arguments: _Arguments = msgspec.field(default_factory=_Arguments)
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")
    revision: str = msgspec.field(default="", name="protocolVersion")


class _Request(msgspec.Struct):
    method: str = ""
    id: int | str | None = None
    params: _Params = msgspec.field(default_factory=_Params)


@final
class Answers:
    """What is answered in an era."""

    def __init__(self, *, is_modern: bool) -> None:
        self._is_modern = is_modern
        self._decode = msgspec.json.Decoder(_Request).decode
        self._encode = msgspec.json.encode
        extra: dict[str, Any] = DONE if is_modern else {}
        kept: dict[str, Any] = {**extra, "ttlMs": 0, "cacheScope": "private"} if is_modern else {}
        self._extra = extra
        self._texts: dict[int, bytes] = {}
        tools = [
            {"name": f"filler_{number}", "description": "Do nothing, at some length.", "inputSchema": SCHEMA}
            for number in range(49)
        ]
        capabilities: dict[str, Any] = {"tools": {}}
        info = {"name": "fixed", "version": "1"}
        echo = {"name": "echo", "inputSchema": {"type": "object"}}
        self._tools = self._encode({"tools": [echo, *tools], **kept})
        self._handshake = {"protocolVersion": LEGACY, "capabilities": capabilities, "serverInfo": info}
        self._discovered = self._encode(
            {
                "supportedVersions": [MODERN],
                "capabilities": capabilities,
                "_meta": {"io.modelcontextprotocol/serverInfo": info},
                **kept,
            }
        )

    def answer(self, data: bytes) -> list[bytes]:
        """Return the messages that answer a message."""
        request = self._decode(data)
        if request.id is None or not request.method:
            return []
        head = b'{"jsonrpc":"2.0","id":' + self._encode(request.id)
        match request.method:
            case "tools/call":
                return self._call(request, head)
            case "tools/list":
                result = self._tools
            case "initialize" if not self._is_modern:
                result = self._encode(self._handshake)
            case "server/discover" if self._is_modern:
                result = self._discovered
            case "ping" | "logging/setLevel":
                result = b"{}"
            case _:
                return [head + b',"error":{"code":-32601,"message":"Method not found"}}']
        return [head + b',"result":' + result + b"}"]

    def _call(self, request: _Request, head: bytes) -> list[bytes]:
        arguments = request.params.arguments
        messages: list[bytes] = []
        match request.params.name:
            case "echo" | "report":
                text = bytes(arguments.text)
            case "blob":
                if arguments.size not in self._texts:
                    self._texts[arguments.size] = b'"' + b"x" * arguments.size + b'"'
                text = self._texts[arguments.size]
            case "swallow":
                text = b'"%d"' % (len(bytes(arguments.text)) - 2)
            case _:
                text = b'"done"'
        if arguments.count or request.params.name == "report":
            token = self._encode(request.params.meta.token)
            notification = (
                b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,"progress":%d}}'
            )
            messages = [notification % (token, step) for step in range(1, (arguments.count or 1) + 1)]
        extra = b',"resultType":"complete"' if self._is_modern else b""
        messages.append(b'%b,"result":{"content":[{"type":"text","text":%b}]%b}}' % (head, text, extra))
        return messages


def serve_lines(answers: Answers) -> None:
    """Answer lines on standard input until it ends."""
    pieces: list[bytes] = []
    while data := os.read(0, CHUNK):
        if b"\n" not in data:
            pieces.append(data)
            continue
        *lines, rest = (b"".join(pieces) + data).split(b"\n")
        pieces = [rest] if rest else []
        out = memoryview(b"".join(message + b"\n" for line in lines for message in answers.answer(line)))
        while out:
            out = out[os.write(1, out) :]


@final
class _Connection:
    """A connection over which requests are posted."""

    def __init__(self, stream: socket.socket, answers: Answers) -> None:
        self.stream = stream
        self._answers = answers
        self._pieces: list[bytes] = []
        self._size = 0

    def serve(self) -> bool:
        """Answer what has come; return whether the connection is still of use."""
        try:
            data = self.stream.recv(CHUNK)
        except OSError:
            return False
        if not data:
            return False
        self._pieces.append(data)
        self._size += len(data)
        while self._serve_one():
            pass
        return True

    def _serve_one(self) -> bool:
        if not self._size:
            return False
        head, found, rest = self._pieces[0].partition(b"\r\n\r\n")
        if not found:
            self._pieces = [b"".join(self._pieces)]
            head, found, rest = self._pieces[0].partition(b"\r\n\r\n")
            if not found:
                return False
        low = head.lower()
        at = low.find(b"content-length:")
        length = int(low[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if self._size < len(head) + 4 + length:
            return False
        whole = b"".join(self._pieces)
        start = len(head) + 4
        body, left = whole[start : start + length], whole[start + length :]
        self._pieces = [left] if left else []
        self._size = len(left)
        del rest
        self._send(self._respond(low, body))
        return bool(left)

    def _respond(self, head: bytes, body: bytes) -> bytes:
        if not head.startswith(b"post"):
            return REFUSED
        messages = self._answers.answer(body)
        if not messages:
            return ACCEPTED
        if len(messages) == 1:
            session = SESSION if b"initialize" in body[:200] else b""
            return JSON_HEAD % (session, len(messages[0])) + messages[0]
        events = b"".join(b"event: message\ndata: " + message + b"\n\n" for message in messages)
        return STREAM_HEAD % len(events) + events

    def _send(self, data: bytes) -> None:
        # Blocking is right here: a client that does not read its answers is measured doing so.
        self.stream.setblocking(True)
        self.stream.sendall(data)
        self.stream.setblocking(False)


def serve_http(answers: Answers) -> None:
    """Answer POSTs for ever."""
    selector = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print("http://{}:{}/mcp".format(*listener.getsockname()), flush=True)
    selector.register(listener, selectors.EVENT_READ, None)
    while True:
        for key, _ in selector.select():
            connection: _Connection | None = key.data
            if connection is None:
                stream, _ = listener.accept()
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                stream.setblocking(False)
                selector.register(stream, selectors.EVENT_READ, _Connection(stream, answers))
            elif not connection.serve():
                selector.unregister(connection.stream)
                connection.stream.close()


def main(binding: str, era: str) -> None:
    """Serve."""
    answers = Answers(is_modern=era == "modern")
    serve: Callable[[Answers], None] = serve_lines if binding == "stdio" else serve_http
    serve(answers)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
