"""Responses that come compressed although nobody asked are read, within the limits, and as they come."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from http_mcp import MODERN_DISCOVERY, HttpCall, McpScript, result
from http_sessions import URL
from inside_core import Headers
from inside_http import HttpRequest, HttpResponse, decoded_excerpt, parse_target
from inside_transports import HandshakeAnswer
from oauth_script import ProtectedScript, oauth

from trio_mcp import (
    HttpServerParameters,
    HttpStatusError,
    Limits,
    Progress,
    RemoteProtocolError,
    open_client,
)

MIB = 1024 * 1024


def bare(data: bytes) -> bytes:
    """Deflate without its head, as some servers send it."""
    return zlib.compress(data, wbits=-15)


def members(data: bytes) -> bytes:
    return gzip.compress(data[:5]) + gzip.compress(b"") + gzip.compress(data[5:])


@attrs.define(eq=False)
class Source:
    """A body in pieces."""

    pieces: list[bytes]

    async def receive_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return self.pieces.pop(0) if self.pieces else b""

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def response(coding: str, *pieces: bytes) -> HttpResponse:
    request = HttpRequest(method="GET", target=parse_target("http://a.example/"))
    return HttpResponse(
        request, 200, Headers([(b"Content-Encoding", coding.encode())]), Source([*pieces])
    ).decoded()


async def test_each_coding_is_decoded_however_it_is_cut(subtests: pytest.Subtests) -> None:
    body = json.dumps({"it": ["is", "long"] * 20_000}).encode()
    rows: list[tuple[str, bytes]] = [
        ("gzip", gzip.compress(body)),
        ("GZip", gzip.compress(body)),
        ("x-gzip", gzip.compress(body)),
        ("gzip", members(body)),
        ("deflate", zlib.compress(body)),
        ("deflate", bare(body)),
        ("identity", body),
    ]
    for coding, data in rows:
        for size in (1, 7, len(data)):
            with subtests.test(coding=coding, size=size):
                pieces = [data[at : at + size] for at in range(0, len(data), size)]
                if len(pieces) < 10_000:
                    assert await response(coding, *pieces).read(MIB) == body
        with subtests.test(coding=coding, of="nothing"):
            assert await response(coding).read(MIB) == b""


async def test_what_is_not_so_encoded_says_so(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "brotli", None)
    whole = gzip.compress(b"x" * 1000)
    rows: list[tuple[str, bytes, str]] = [
        ("gzip", b"{}", "not gzip"),
        ("deflate", b"\xff\xff", "not deflate"),
        ("gzip", whole[:-1], "ends early"),
        ("gzip", whole + b"more", "not gzip"),
        ("zstd", b"x", "Content-Encoding 'zstd'"),
        ("gzip, gzip", whole, "Content-Encoding 'gzip, gzip'"),
        ("br", b"x", "the package brotli"),
        ("\x1b[2J", b"x", "x1b"),
    ]
    for coding, data, shown in rows:
        with subtests.test(coding=coding, data=data):
            with pytest.raises(RemoteProtocolError, match=r"http://a\.example answered") as refused:
                await response(coding, data).read(MIB)
            assert shown in str(refused.value)
            assert "\x1b" not in str(refused.value)


class OldBrotli:
    """Does not limit what comes out."""

    def process(self, data: bytes) -> bytes:
        return data


class Brotli:
    """Doubles each byte, and gives out no more than it is asked for."""

    def __init__(self) -> None:
        self.kept = b""
        self.ended = False

    def process(self, data: bytes, output_buffer_limit: int) -> bytes:
        assert not (data and self.kept)
        self.ended = self.ended or data.endswith(b".")
        self.kept += bytes(byte for byte in data for _ in range(2))
        out, self.kept = self.kept[:output_buffer_limit], self.kept[output_buffer_limit:]
        return out

    def can_accept_more_data(self) -> bool:
        return not self.kept

    def is_finished(self) -> bool:
        return self.ended and not self.kept


async def test_brotli_is_read_where_its_package_limits_what_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("brotli")
    monkeypatch.setitem(sys.modules, "brotli", module)
    module.Decompressor = OldBrotli
    with pytest.raises(RemoteProtocolError, match=r"brotli from 1\.2 on"):
        await response("br", b"abc").read(MIB)
    module.Decompressor = Brotli
    assert await response("br", b"a" * 200_000, b"b", b".").read(MIB) == b"a" * 400_000 + b"bb.."
    with pytest.raises(RemoteProtocolError, match="ends early"):
        await response("br", b"ab").read(MIB)


async def test_a_bomb_is_as_large_as_it_is_read() -> None:
    """64 MiB of nothing: what comes at once is bounded, others have their turns, and the limit is named."""
    bomb = response("gzip", gzip.compress(bytes(64 * MIB)))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        assert len(await bomb.receive_some()) == 64 * 1024
        with pytest.raises(RemoteProtocolError, match=r"more than 1048576 bytes \(max_message_bytes\)"):
            await bomb.read(MIB, "max_message_bytes")
        assert turns > 10
        nursery.cancel_scope.cancel()


def compressing(app: Callable[..., Awaitable[object]], coding: str, compressor: Callable[[], Any]) -> Any:
    """An application behind a proxy that compresses what it sends, chunk by chunk."""

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        compress = compressor()

        async def encoded(message: Any) -> None:
            message = dict(message)
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-encoding", coding.encode())]
            elif message["type"] == "http.response.body":
                is_last = not message.get("more_body", False)
                body = compress.compress(message["body"])
                message["body"] = body + compress.flush(zlib.Z_FINISH if is_last else zlib.Z_SYNC_FLUSH)
            await send(message)

        await app(scope, receive, encoded)

    return behind


def gzipping() -> Any:
    return zlib.compressobj(wbits=31)


async def test_messages_streams_and_errors_come_through(autojump_clock: trio.testing.MockClock) -> None:
    """Each event when it comes; a message that is too large out of a small one fails alone, by the limit."""
    heard: list[float] = []
    may_answer = trio.Event()

    async def serve(call: HttpCall) -> None:
        if call.rpc == "server/discover":
            await call.answer(result(call.id, **MODERN_DISCOVERY))
        elif call.rpc == "x/stream":
            token = call.message["params"]["_meta"]["progressToken"]
            params = {"progressToken": token, "progress": 1}
            await call.stream()
            await call.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            await may_answer.wait()
            await call.event(result(call.id, ok=True))
            await call.end()
        elif call.rpc == "x/bomb":
            await call.answer(result(call.id, pad="x" * MIB))
        elif call.rpc == "x/stream_bomb":
            await call.stream()
            await call.event(result(call.id, pad="x" * MIB))
            await call.end()
        else:
            await call.answer(b"we are closed", status=503, content_type="text/plain")

    def on_progress(progress: Progress) -> None:
        heard.append(progress.progress)
        may_answer.set()

    app = compressing(McpScript(serve), "gzip", gzipping)
    limits = Limits(max_message_bytes=100_000)
    async with open_client(HttpServerParameters(URL, app=app), limits=limits) as client:
        assert (await client.request("x/stream", on_progress=on_progress))["ok"] is True
        assert heard == [1]
        for method in ("x/bomb", "x/stream_bomb"):
            with pytest.raises(RemoteProtocolError, match="max_message_bytes"):
                await client.request(method)
        with pytest.raises(HttpStatusError, match="we are closed"):
            await client.request("x/closed")


async def test_documents_of_authorization_servers_are_read(autojump_clock: trio.testing.MockClock) -> None:
    script = ProtectedScript("2025-11-25")
    app = compressing(script, "deflate", lambda: zlib.compressobj(wbits=-15))
    async with open_client(attrs.evolve(script.parameters(), app=app), auth=oauth(script)) as client:
        await client.call_tool("one")
    assert script.grants() == ["authorization_code"]


def test_a_refused_handshake_says_why() -> None:
    body = gzip.compress(b"we are closed")
    answer = HandshakeAnswer("the server", 1000)
    head = b"HTTP/1.1 503 No\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    with pytest.raises(HttpStatusError, match="we are closed"):
        answer.feed(head + body)
    zstd = Headers([(b"content-encoding", b"zstd")])
    assert decoded_excerpt(zstd, b"\x28\xb5", "it") == b""
