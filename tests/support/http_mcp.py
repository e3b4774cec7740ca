"""MCP servers over HTTP that follow a script, as ASGI applications in this process: no sockets, any clock."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, final

import trio
from inside_core import Headers, encode_sse_event

__all__ = ["MODERN_DISCOVERY", "HttpCall", "McpScript", "error", "result"]

MODERN_DISCOVERY: Final[dict[str, Any]] = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}


def result(id: object, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": members}


def error(id: object, code: int, message: str = "no", **data: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}}


@final
class HttpCall:
    """One HTTP request, and ways to answer it."""

    def __init__(self, scope: Any, body: bytes, receive: Any, send: Any) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = Headers(scope["headers"])
        self.body = body
        self.message: Any = json.loads(body) if body else None
        self._receive = receive
        self._send = send
        self.is_complete = False

    @property
    def rpc(self) -> str | None:
        """The method of the message, if it is a request or a notification."""
        method: str | None = None if isinstance(self.message, list | None) else self.message.get("method")
        return method

    @property
    def id(self) -> Any:
        return self.message.get("id")

    @property
    def id_or_none(self) -> Any:
        """The id of a request; `None` for a notification, an answer or a batch."""
        return self.message.get("id") if self.rpc is not None else None

    async def answer(
        self, body: Any = b"", status: int = 200, content_type: str | None = "application/json", **headers: str
    ) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        if content_type is not None:
            fields.append((b"content-type", content_type.encode()))
        await self._send({"type": "http.response.start", "status": status, "headers": fields})
        self.is_complete = True
        await self._send({"type": "http.response.body", "body": data})

    async def stream(self, **headers: str) -> None:
        fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        fields.append((b"content-type", b"text/event-stream"))
        await self._send({"type": "http.response.start", "status": 200, "headers": fields})

    async def event(self, message: Any = None, **options: Any) -> None:
        data = message if message is None or isinstance(message, bytes) else json.dumps(message).encode()
        await self.raw(encode_sse_event(data, **options))

    async def raw(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        self.is_complete = True
        await self._send({"type": "http.response.body", "body": b""})

    async def wait_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


@final
class McpScript:
    """A server: a function that is called for each HTTP request, and what was received.

    Attributes:
        calls: All requests, in order.
        gone: The messages whose responses the client has left before they were complete.
    """

    def __init__(self, handler: Callable[[HttpCall], Awaitable[object]]) -> None:
        self._handler = handler
        self.calls: list[HttpCall] = []
        self.gone: list[Any] = []
        self.running = 0

    @property
    def said(self) -> list[str]:
        """What was asked, in short: ``POST tools/call``, ``GET``, ``DELETE``."""
        return [f"{call.method} {call.rpc or ''}".rstrip() for call in self.calls]

    def call(self, rpc: str) -> HttpCall:
        """Return the one call of a method."""
        (call,) = (call for call in self.calls if call.rpc == rpc)
        return call

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            if not message["more_body"]:
                break
        call = HttpCall(scope, body, receive, send)
        self.calls.append(call)
        self.running += 1
        try:
            async with trio.open_nursery() as nursery:

                async def watch() -> None:
                    await call.wait_gone()
                    if not call.is_complete:
                        self.gone.append(call.message)
                        nursery.cancel_scope.cancel()

                nursery.start_soon(watch)
                with suppress(BrokenPipeError):
                    await self._handler(call)
                nursery.cancel_scope.cancel()
        finally:
            self.running -= 1
