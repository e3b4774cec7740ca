"""An MCP server over HTTP that speaks what a test wants it to, follows the rules, and can forget its sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, final

import trio
from http_mcp import MODERN_DISCOVERY, HttpCall, McpScript, error, result

from trio_mcp import HttpServerParameters, Revision

__all__ = ["KINDS", "LEGACY", "SSE", "URL", "HttpServer"]

URL: Final = "http://localhost:8000/mcp"
SSE: Final = "sse"
LEGACY: Final = [str(revision) for revision in Revision if not revision.is_modern]
KINDS: Final = [*LEGACY[1:], "2026-07-28", SSE]
"""What a server can speak: a revision over Streamable HTTP, or 2024-11-05 over HTTP+SSE."""

Handler = Callable[[HttpCall], Awaitable[object]]


@final
class HttpServer:
    """One endpoint.

    Attributes:
        speaks: A revision, or ``"sse"``.
        handlers: Who serves which method.
        script: The application, and what was received.
        sessions: Those that it knows, the newest last.
        capabilities: What it says it can do.
        stream_refusals: The statuses with which the next requests for the stream are refused.
        down: Answers that are sent instead of anything else, while there is one: status and body.
    """

    def __init__(
        self,
        speaks: str,
        handlers: Mapping[str, Handler] | None = None,
        *,
        capabilities: Mapping[str, Any] | None = None,
        has_stream: bool = True,
    ) -> None:
        self.speaks = speaks
        self.handlers: dict[str, Handler] = dict(handlers or {})
        self.capabilities = dict(capabilities or {})
        self.script = McpScript(self._serve)
        self.sessions: list[str] = []
        self.down: tuple[int, bytes] | None = None
        self.has_stream = has_stream
        self.streams: list[HttpCall] = []
        self.stream_refusals: list[int] = []
        self._begun = 0
        self._forgotten = trio.Event()

    @property
    def revision(self) -> str:
        return "2024-11-05" if self.speaks == SSE else self.speaks

    @property
    def is_modern(self) -> bool:
        return self.speaks == "2026-07-28"

    def parameters(self, **options: Any) -> HttpServerParameters:
        return HttpServerParameters(URL, app=self.script, **options)

    def forget_sessions(self) -> None:
        """Do what a server does that was started again."""
        self.sessions.clear()
        self._forgotten.set()
        self._forgotten = trio.Event()

    def asked(self, rpc: str) -> list[HttpCall]:
        """Return the requests or notifications of a method."""
        return [call for call in self.script.calls if call.rpc == rpc]

    async def reply(self, call: HttpCall, **members: Any) -> None:
        """Answer a request, in the way of what is spoken."""
        if self.is_modern:
            members = {"resultType": "complete", **members}
        await self.send(call, result(call.id, **members))

    async def refuse(
        self, call: HttpCall, code: int, message: str = "no", status: int = 200, **data: Any
    ) -> None:
        await self.send(call, error(call.id, code, message, **data), status)

    async def send(self, call: HttpCall, message: Any, status: int = 200, **headers: str) -> None:
        if self.speaks == SSE:
            await call.answer(b"Accepted", 202, "text/plain")
            await self.streams[-1].event(message)
        else:
            await call.answer(message, status, **headers)

    async def _serve(self, call: HttpCall) -> None:
        if self.down is not None:
            await call.answer(self.down[1], self.down[0], "text/plain")
        elif self.is_modern:
            await self._serve_modern(call)
        elif self.speaks == SSE:
            await self._serve_sse(call)
        else:
            await self._serve_session(call)

    async def _serve_modern(self, call: HttpCall) -> None:
        if call.method != "POST":
            await call.answer(b"", 405, None)
        elif call.headers.get("mcp-protocol-version") is None:
            await call.answer(error(call.id, -32020, "no MCP-Protocol-Version"), 400)
        elif call.rpc == "server/discover" and call.rpc not in self.handlers:
            await call.answer(result(call.id, **{**MODERN_DISCOVERY, "capabilities": self.capabilities}))
        else:
            await self._handle(call)

    async def _serve_session(self, call: HttpCall) -> None:
        session = call.headers.get("mcp-session-id")
        if call.rpc == "initialize":
            self._begun += 1
            self.sessions.append(f"session-{self._begun}")
            await self._initialize(call, Mcp_Session_Id=self.sessions[-1])
        elif session is None:
            await call.answer(error(None, -32600, "Bad Request: no session"), 400)
        elif session not in self.sessions:
            await call.answer(error(None, -32001, "Session not found"), 404)
        elif call.method == "DELETE":
            self.sessions.remove(session)
            await call.answer(b"", 200, None)
        elif call.method == "GET":
            await self._stream(call)
        elif call.id_or_none is None:
            await call.answer(b"", 202, None)
        else:
            await self._handle(call)

    async def _stream(self, call: HttpCall) -> None:
        if not self.has_stream or self.stream_refusals:
            await call.answer(b"", self.stream_refusals.pop(0) if self.stream_refusals else 405, None)
            return
        await call.stream()
        await call.raw(b": hello\n\n")
        self.streams.append(call)
        await self._forgotten.wait()

    async def _serve_sse(self, call: HttpCall) -> None:
        if call.method == "GET":
            await call.stream()
            self.streams.append(call)
            await call.event(b"/messages", event="endpoint")
            await self._forgotten.wait()
        elif call.path != "/messages":
            await call.answer(b"Method Not Allowed", 405, "text/plain")
        elif call.rpc == "initialize":
            await self._initialize(call)
        elif call.id_or_none is None:
            await call.answer(b"Accepted", 202, "text/plain")
        else:
            await self._handle(call)

    async def _initialize(self, call: HttpCall, **headers: str) -> None:
        said = {
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "serverInfo": {"name": "scripted", "version": "1"},
        }
        await self.send(call, result(call.id, **said), 200, **headers)

    async def _handle(self, call: HttpCall) -> None:
        assert call.rpc is not None
        handler = self.handlers.get(call.rpc)
        if handler is not None:
            await handler(call)
        elif call.rpc == "x/hang":
            with suppress(trio.Cancelled):
                await trio.sleep_forever()
        elif call.rpc == "x/echo":
            params = dict(call.message.get("params") or {})
            params.pop("_meta", None)
            await self.reply(call, echo=params)
        elif call.rpc in {"resources/subscribe", "resources/unsubscribe", "logging/setLevel", "ping"}:
            await self.reply(call)
        else:
            await self.refuse(call, -32601, f"no method {call.rpc}", 404 if self.is_modern else 200)
