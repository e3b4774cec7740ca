"""HTTP requests written by hand to a server of the library, in this process, and what came back."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
from http_hosted import open_hosted
from inside_core import HeaderField, HttpHost, SseEvent, SseReader
from inside_http import HttpRequest, HttpResponse, HttpTarget, HttpTransport, parse_target
from inside_wire import is_object
from raw import META

from trio_mcp import AsgiClient, HttpServerSettings, McpASGI, open_asgi_client

__all__ = ["HOSTED", "MODERN", "Answer", "Raw", "call_tool", "modern", "open_raw"]

MODERN: Final = "2026-07-28"
HOSTED: Final[list[HttpHost]] = []
"""Which host `open_raw` serves under; none for an application."""

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"


def modern(
    method: str, id: int | str = 1, _meta: Mapping[str, Any] | None = None, **params: Any
) -> dict[str, Any]:
    """Return a request of the modern era."""
    meta = {**META, VERSION_KEY: MODERN, **(_meta or {})}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta}}


def call_tool(
    name: str, id: int | str = 1, _meta: Mapping[str, Any] | None = None, **arguments: Any
) -> dict[str, Any]:
    """Return a modern request that calls a tool."""
    return modern("tools/call", id, _meta, name=name, arguments=arguments)


@attrs.frozen
class Answer:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes
    events: list[SseEvent]

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type") == "text/event-stream"

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages in it, in order."""
        if self.is_stream:
            return [json.loads(event.data) for event in self.events if event.data]
        return [json.loads(self.body)] if self.body else []

    @property
    def message(self) -> dict[str, Any]:
        """The last message."""
        return self.messages[-1]

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.message["error"]
        return error


def _headers_for(message: Any) -> dict[str, str]:
    """Return what a good client says of a message."""
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if not is_object(message):
        return headers
    params: dict[str, Any] = message.get("params") or {}
    version: str | None = params.get("_meta", {}).get(VERSION_KEY)
    if version is not None:
        headers["MCP-Protocol-Version"] = version
        headers["Mcp-Method"] = str(message.get("method", ""))
        name = params.get("name", params.get("uri"))
        if name is not None:
            headers["Mcp-Name"] = name
    return headers


class Raw:
    """Sends requests."""

    def __init__(self, transport: HttpTransport, target: HttpTarget) -> None:
        self.transport = transport
        self.target = target

    @asynccontextmanager
    async def open(
        self,
        message: Any = None,
        headers: Mapping[str, str | None] | None = None,
        *,
        method: str = "POST",
        path: str | None = None,
    ) -> AsyncGenerator[HttpResponse]:
        """Send a request, and stay while its answer comes."""
        body = message if isinstance(message, bytes) else b"" if message is None else json.dumps(message).encode()
        fields: dict[str, str | None] = {**(_headers_for(message) if method == "POST" else {}), **(headers or {})}
        raw: list[HeaderField] = [(k.encode(), v.encode()) for k, v in fields.items() if v is not None]
        target = self.target if path is None else attrs.evolve(self.target, path=path)
        request = HttpRequest(method=method, target=target, headers=raw, body=body)
        async with await self.transport.send(request) as response:
            yield response

    async def send(
        self,
        message: Any = None,
        headers: Mapping[str, str | None] | None = None,
        *,
        method: str = "POST",
        path: str | None = None,
    ) -> Answer:
        """Send a request and wait for the whole answer."""
        async with self.open(message, headers, method=method, path=path) as response:
            body = await response.read(1 << 24)
        fields = {n.decode().lower(): v.decode() for n, v in response.headers}
        is_stream = fields.get("content-type") == "text/event-stream"
        events = [e for e in SseReader(1 << 24).feed(body) if isinstance(e, SseEvent)] if is_stream else []
        return Answer(response.status, fields, body, events)


@asynccontextmanager
async def open_raw(
    server: Any, settings: HttpServerSettings | None = None, **options: Any
) -> AsyncGenerator[Raw]:
    """Serve in this process, and talk to it without sockets: to an application, or to what `HOSTED` says."""
    target = parse_target("http://localhost:8000/mcp")
    if HOSTED:
        async with open_hosted(server, settings, HOSTED[0], **options) as hosted:
            yield Raw(hosted, target)
    else:
        async with open_asgi_client(McpASGI(server, settings, **options)) as transport:
            yield Raw(transport, target)


class Events:
    """The events of an answer, as they come."""

    def __init__(self, response: HttpResponse) -> None:
        self._response = response
        self._reader = SseReader(1 << 24)
        self._ready: list[SseEvent] = []
        self.has_ended = False
        self.comments = 0

    async def next(self) -> SseEvent | None:
        """Return the next event; `None` once there is none."""
        while not self._ready:
            data = await self._response.receive_some()
            if not data:
                self.has_ended = True
                return None
            self.comments += data.startswith(b":")
            self._ready += [e for e in self._reader.feed(data) if isinstance(e, SseEvent)]
        return self._ready.pop(0)

    async def message(self) -> dict[str, Any]:
        """Return the next message."""
        event = await self.next()
        while event is not None and not event.data:
            event = await self.next()
        assert event is not None, "the stream has ended"
        message: dict[str, Any] = json.loads(event.data)
        return message


__all__ += ["AsgiClient", "Events"]
