"""A server with answers made in advance, to measure clients alone: ``main(transport, era, …)``.

It understands just enough of a request to answer it, is far faster than any client, and notes when what came.
Calls of tools are answered as is wanted of it: at once (``plain``), after a thousand notifications (``flood``),
with a megabyte (``large``), or never (``silent``).
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Final, final

from .._codec._json import decode, encode, without_middle
from ._links import stamp
from ._loops import counted
from ._messages import LEGACY, LEGACY_REVISIONS, MODERN, Message

CHUNK: Final = 1 << 20
LARGE: Final = 1 << 16
"""From this size on, in bytes, a text in a request is counted and not decoded."""
FLOOD: Final = 1_000
"""How many notifications come before an answer, where they were wanted."""
BIG: Final = 1 << 20
"""How long the text of a large answer is, in bytes."""
IDLE_SECONDS: Final = 0.05
"""After how long without a message what was seen is written down: a client may kill its server."""
REVISION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"

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
TEXT: Final = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@final
class Watch:
    """When what came, on the clock of this machine."""

    def __init__(self) -> None:
        self.ended_at: dict[str, int] = {}
        self._held: dict[Any, str] = {}
        self._seen: dict[str, Any] = {"messages": 0, "calls": 0, "in_flight": 0, "absorbed": []}
        self._turnarounds: list[int] = []
        self._answered_at = 0
        self._absorbing: tuple[int, int] | None = None
        self.has_news = False

    def begin(self, method: str, waiting: int) -> None:
        """Note a message: its method, and how many came with it."""
        at = stamp()
        seen = self._seen
        self.has_news = True
        seen["messages"] += 1
        seen.setdefault("first", at)
        seen["in_flight"] = max(seen["in_flight"], waiting)
        if method == "tools/call":
            seen["calls"] += 1
            seen.setdefault("first_call", at)
            seen["last_call"] = at
        if self._answered_at:
            self._turnarounds.append(at - self._answered_at)
            self._answered_at = 0
        self.absorbed(at)

    def absorbed(self, at: int) -> None:
        """Note that what was sent last has been taken."""
        if self._absorbing is not None:
            amount, began = self._absorbing
            self._seen["absorbed"].append((amount, at - began))
            self._absorbing = None

    def send(self, amount: int) -> None:
        """Note that so much is about to be sent, which a client is measured taking."""
        if amount:
            self._absorbing = amount, stamp()

    def sent(self) -> None:
        """Note that all answers have been written."""
        self._answered_at = stamp()

    def hold(self, id: object, key: str) -> None:
        """Note a call that is not answered."""
        self._held[id] = key
        self._seen.setdefault("asked", stamp())

    def give_up(self, id: object, how: str) -> None:
        """Note that an answer is no longer wanted."""
        key = self._held.pop(id, None)
        if key is not None:
            at = stamp()
            self.ended_at[key] = at
            self._seen.setdefault("given_up", (at, how))
            self.has_news = True

    def give_up_all(self, how: str) -> None:
        """Note that no answer is wanted any more."""
        for id in list(self._held):
            self.give_up(id, how)

    def write(self, path: Path) -> None:
        """Write down what was seen, whole or not at all."""
        self.has_news = False
        seen = {**self._seen, "turnarounds": counted(self._turnarounds)}
        new = path.with_suffix(".new")
        new.write_text(json.dumps(seen))
        new.replace(path)


@final
class Answers:
    """What is answered in an era, or in both.

    Attributes:
        watch: What was seen.
    """

    def __init__(self, era: str, mode: str = "plain") -> None:
        self._eras = {"legacy", "modern"} if era == "both" else {era}
        self._mode = mode
        self.watch = Watch()
        self._texts: dict[int, bytes] = {}
        tools = [
            {"name": f"filler_{number}", "description": "Do nothing, at some length.", "inputSchema": SCHEMA}
            for number in range(49)
        ]
        echo = {"name": "echo", "inputSchema": TEXT, "annotations": {"readOnlyHint": True}}
        listed: Message = {"tools": [echo, *tools]}
        self._tools = {
            "legacy": encode(listed),
            "modern": encode({**listed, **DONE, "ttlMs": 0, "cacheScope": "private"}),
        }
        self._capabilities: Message = {"tools": {}, "logging": {}} if mode == "flood" else {"tools": {}}
        self._info = {"name": "fixed", "version": "1"}
        self._discovered = encode(
            {
                "supportedVersions": [MODERN],
                "capabilities": self._capabilities,
                "_meta": {"io.modelcontextprotocol/serverInfo": self._info},
                **DONE,
                "ttlMs": 0,
                "cacheScope": "private",
            }
        )

    def answer(self, data: bytes, waiting: int = 1) -> list[bytes]:
        """Return the messages that answer a message.

        Args:
            data: The message.
            waiting: How many came at once.
        """
        rest = without_middle(data) if len(data) > LARGE else data
        cut = len(data) - len(rest)
        request: Any = decode(rest)
        method: str = request.get("method") or ""
        params: Any = request.get("params") or {}
        self.watch.begin(method, waiting)
        if method == "notifications/cancelled":
            self.watch.give_up(params.get("requestId"), "a notification")
        if "id" not in request or not method:
            return []
        id = request["id"]
        head = b'{"jsonrpc":"2.0","id":' + encode(id)
        era = self._era_of(params)
        match method:
            case "tools/call":
                if cut and params.get("name") in {"echo", "report"}:
                    params, cut = decode(data)["params"], 0
                return self._call(id, params, cut, head, era)
            case "tools/list":
                result = self._tools[era]
            case "initialize" if "legacy" in self._eras:
                result = encode(self._handshake(params))
            case "server/discover" if "modern" in self._eras:
                result = self._discovered
            case "ping" | "logging/setLevel":
                result = b"{}"
            case _:
                return [head + b',"error":{"code":-32601,"message":"Method not found"}}']
        return [head + b',"result":' + result + b"}"]

    def _era_of(self, params: Message) -> str:
        if len(self._eras) == 1:
            return next(iter(self._eras))
        return "modern" if REVISION_KEY in (params.get("_meta") or {}) else "legacy"

    def _handshake(self, params: Message) -> Message:
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in LEGACY_REVISIONS else LEGACY,
            "capabilities": self._capabilities,
            "serverInfo": self._info,
        }

    def _call(self, id: object, params: Message, cut: int, head: bytes, era: str) -> list[bytes]:
        name: str = params.get("name", "")
        arguments: Message = params.get("arguments") or {}
        meta: Message = params.get("_meta") or {}
        if name == "hold" or self._mode == "silent":
            self.watch.hold(id, str(arguments.get("key", "")))
            return []
        match name:
            case "echo" | "report":
                text = encode(arguments.get("text", "done"))
            case "blob":
                text = self._text(arguments["size"])
            case "swallow":
                text = b'"%d"' % (cut or len(arguments["text"].encode()))
            case "ended":
                text = encode(json.dumps(self.watch.ended_at))
                self.watch.ended_at.clear()
            case _:
                text = b'"done"'
        if self._mode == "large":
            text = self._text(BIG)
            self.watch.send(BIG)
        messages = self._notifications(name, arguments, meta, era)
        extra = b',"resultType":"complete"' if era == "modern" else b""
        messages.append(b'%b,"result":{"content":[{"type":"text","text":%b}]%b}}' % (head, text, extra))
        return messages

    def _text(self, size: int) -> bytes:
        if size not in self._texts:
            self._texts[size] = b'"' + b"x" * size + b'"'
        return self._texts[size]

    def _notifications(self, name: str, arguments: Message, meta: Message, era: str) -> list[bytes]:
        count: int = arguments.get("count", 0) if name == "flood" else int(name == "report")
        if self._mode == "flood":
            count = FLOOD if "progressToken" in meta or era == "legacy" or LEVEL_KEY in meta else 0
            self.watch.send(count)
        if "progressToken" in meta or self._mode != "flood":
            token = encode(meta.get("progressToken"))
            form = (
                b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,"progress":%d}}'
            )
            return [form % (token, step) for step in range(1, count + 1)]
        log = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a message"}}'
        return [log] * count


def serve_lines(answers: Answers, seen: Path | None) -> None:
    """Answer lines on standard input until it ends."""
    pieces: list[bytes] = []
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    while True:
        if seen is not None and answers.watch.has_news and not selector.select(IDLE_SECONDS):
            answers.watch.write(seen)
        data = os.read(0, CHUNK)
        if not data:
            answers.watch.give_up_all("the end of the connection")
            return
        if b"\n" not in data:
            pieces.append(data)
            continue
        *lines, rest = (b"".join(pieces) + data).split(b"\n")
        pieces = [rest] if rest else []
        lines = [line for line in lines if line.strip()]
        out = memoryview(
            b"".join(message + b"\n" for line in lines for message in answers.answer(line, len(lines)))
        )
        if out:
            while out:
                out = out[os.write(1, out) :]
            answers.watch.sent()


@final
class _Connection:
    """A connection over which requests are posted."""

    def __init__(self, stream: socket.socket, answers: Answers) -> None:
        self.stream = stream
        self._answers = answers
        self._pieces: list[bytes] = []
        self._size = 0
        self._held: Any = None

    def serve(self) -> bool:
        """Answer what has come; return whether the connection is still of use."""
        try:
            data = self.stream.recv(CHUNK)
        except OSError:
            data = b""
        if not data:
            if self._held is not None:
                self._answers.watch.give_up(self._held, "the end of its connection")
            return False
        self._pieces.append(data)
        self._size += len(data)
        while self._serve_one():
            pass
        return True

    def _serve_one(self) -> bool:
        if not self._size:
            return False
        head, found, _ = self._pieces[0].partition(b"\r\n\r\n")
        if not found:
            self._pieces = [b"".join(self._pieces)]
            head, found, _ = self._pieces[0].partition(b"\r\n\r\n")
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
        self._send(self._respond(low, body))
        return bool(left)

    def _respond(self, head: bytes, body: bytes) -> bytes:
        if not head.startswith(b"post"):
            return ACCEPTED if head.startswith(b"delete") else REFUSED
        messages = self._answers.answer(body)
        if not messages:
            request: Any = decode(body) if len(body) < LARGE else {}
            if request.get("method") == "tools/call":
                self._held = request.get("id")
                return b""
            return ACCEPTED
        if len(messages) == 1:
            session = SESSION if b'"initialize"' in body[:1_000] else b""
            return JSON_HEAD % (session, len(messages[0])) + messages[0]
        events = b"".join(b"event: message\ndata: " + message + b"\n\n" for message in messages)
        return STREAM_HEAD % len(events) + events

    def _send(self, data: bytes) -> None:
        if not data:
            return
        # Blocking is right here: a client that does not read its answers is measured doing so.
        self.stream.setblocking(True)
        self.stream.sendall(data)
        self.stream.setblocking(False)
        if data is not ACCEPTED:
            self._answers.watch.sent()


def serve_http(answers: Answers, seen: Path | None) -> None:
    """Answer POSTs for ever."""
    selector = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    sys.stdout.write("http://{}:{}/mcp\n".format(*listener.getsockname()))
    sys.stdout.flush()
    selector.register(listener, selectors.EVENT_READ, None)
    while True:
        events = selector.select(IDLE_SECONDS if seen is not None and answers.watch.has_news else None)
        if not events and seen is not None:
            answers.watch.write(seen)
        for key, _ in events:
            connection: _Connection | None = key.data
            if connection is None:
                stream, _ = listener.accept()
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                stream.setblocking(False)
                selector.register(stream, selectors.EVENT_READ, _Connection(stream, answers))
            elif not connection.serve():
                selector.unregister(connection.stream)
                connection.stream.close()


def _leave(*_: object) -> None:
    sys.exit(0)


def main(transport: str, era: str, mode: str = "plain", seen: str = "") -> None:
    """Serve, and write down at the end, and whenever nothing comes, what was seen.

    Args:
        transport: ``stdio`` or ``http``.
        era: ``legacy``, ``modern`` or ``both``.
        mode: What calls of tools are answered.
        seen: The file for what was seen.
    """
    path = Path(seen) if seen else None
    answers = Answers(era, mode)
    signal.signal(signal.SIGTERM, _leave)
    try:
        (serve_lines if transport == "stdio" else serve_http)(answers, path)
    except (BrokenPipeError, ConnectionError):
        pass  # the client has gone
    finally:
        answers.watch.absorbed(stamp())
        if path is not None:
            answers.watch.write(path)
