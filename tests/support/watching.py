"""A server that notes what becomes of its handlers, and calls of its tools as frames of a WebSocket."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any, Final

import attrs
import trio
from raw import META
from websocket_raw import TEXT, RawSocket, frame

from trio_mcp import Context, HttpCall, HttpRefused, Limits, Server

__all__ = ["ENOUGH", "WHOSE", "Watcher", "answer", "authenticate", "call"]

ENOUGH: Final = 280
"""Seconds in which anything is over, on a machine that is busy with other things."""


class Watcher:
    """A server that says what becomes of its handlers."""

    def __init__(self, **limits: Any) -> None:
        self.server: Server[Any] = Server("watcher", limits=attrs.evolve(Limits(goodbye_timeout=0.5), **limits))
        self.running = 0
        self.cancelled = trio.Event()
        self.begun = trio.Event()

        @self.server.tool
        def add(a: int, b: int) -> int:
            return a + b

        @self.server.tool
        async def hang() -> None:
            self.running += 1
            self.begun.set()
            try:
                await trio.sleep_forever()
            finally:
                self.running -= 1
                self.cancelled.set()

        @self.server.tool
        def exit() -> str:
            raise SystemExit("the handler's own")

        @self.server.tool
        def fail() -> str:
            raise RuntimeError("a bug of the handler")

        @self.server.tool
        def large(size: int) -> str:
            return "x" * size

        @self.server.tool
        def who(ctx: Context[Any]) -> str:
            return f"{ctx.principal} {WHOSE.get(None)}"


WHOSE: Final[ContextVar[str | None]] = ContextVar("WHOSE")


def call(name: str, id: int = 1, **arguments: object) -> bytes:
    """Return the frame of a call."""
    params = {"name": name, "arguments": arguments, "_meta": META}
    return frame(TEXT, json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))


async def answer(socket: RawSocket) -> dict[str, Any]:
    """Return the next message."""
    found = await socket.receive()
    assert found.opcode == TEXT
    message: dict[str, Any] = json.loads(found.payload)
    return message


async def authenticate(call: HttpCall) -> str | None:
    """Let in who has the token, refuse another with a challenge of its own, and let nobody else in."""
    await trio.lowlevel.checkpoint()
    token = call.headers.get("authorization")
    if token == "Bearer bad":
        raise HttpRefused(401, "no", [("www-authenticate", 'Bearer error="invalid_token"')])
    WHOSE.set(call.client)
    return None if token is None else "alice"
