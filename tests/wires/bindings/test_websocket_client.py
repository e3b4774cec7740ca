"""The client's end of a WebSocket, against servers that say what they like, byte by byte."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
import trio
from patient_clock import pass_time
from shared.bindings_websocket_client import accept
from websocket_raw import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, RawSocket, frame
from wires import wait_lost

from trio_mcp import (
    Auth,
    AuthRequest,
    AuthResponse,
    ConnectionLost,
    HttpStatusError,
    Limits,
    McpError,
    RemoteProtocolError,
    RequestError,
    RestartPolicy,
    Server,
    Shutdown,
    WebSocketServerParameters,
    open_client,
    serve_websocket,
)

ENOUGH = 280
LIMITS = Limits(goodbye_timeout=0.5)
Script = Callable[[RawSocket], Awaitable[object]]


async def discover(socket: RawSocket) -> None:
    """Answer the first request: this is a server of the modern era."""
    found = await socket.receive()
    assert found.opcode == TEXT
    result: dict[str, Any] = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
    await socket.send(
        frame(
            TEXT,
            json.dumps({"jsonrpc": "2.0", "id": json.loads(found.payload)["id"], "result": result}),
            is_masked=False,
        )
    )


@asynccontextmanager
async def scripted(script: Script) -> AsyncGenerator[str]:
    """Run a server that does what the script says on each connection, and return its URL."""

    async def serve(stream: trio.SocketStream) -> None:
        with suppress(EOFError, trio.BrokenResourceError):
            await script(RawSocket(stream))

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield f"ws://127.0.0.1:{listener.socket.getsockname()[1]}/mcp?token=secret"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ((1001).to_bytes(2) + b"we close at six", r"1001 \(going away\): we close at six"),
        ((1013).to_bytes(2), r"1013 \(try again later\)"),
        ((4000).to_bytes(2) + b"a \x1b[31m red\nreason", r"4000: a \\x1b\[31m red\\nreason"),
        (b"", r"1005 \(no status code\)"),
    ],
)
async def test_the_close_code_and_the_reason_reach_every_call(payload: bytes, shown: str) -> None:
    """And they are printable."""

    async def script(socket: RawSocket) -> None:
        await accept(socket)
        await discover(socket)
        await socket.receive()
        await socket.receive()
        await socket.send(frame(CLOSE, payload, is_masked=False))
        assert (await socket.receive()).payload[:2] == payload[:2]

    losses: list[ConnectionLost] = []
    with trio.fail_after(ENOUGH):
        async with (
            scripted(script) as url,
            open_client(url, limits=LIMITS) as client,
            trio.open_nursery() as nursery,
        ):

            async def lose() -> None:
                losses.append(await wait_lost(lambda: client.request("x/y")))

            nursery.start_soon(lose)
            nursery.start_soon(lose)
    assert len(losses) == 2
    for lost in losses:
        with pytest.raises(ConnectionLost, match=shown):
            raise lost
        assert "secret" not in lost.reason


async def test_a_server_that_vanishes_is_lost_with_the_reason() -> None:
    async def script(socket: RawSocket) -> None:
        await accept(socket)
        await discover(socket)
        await socket.receive()
        await socket.stream.aclose()

    with trio.fail_after(ENOUGH):
        async with scripted(script) as url, open_client(url, limits=LIMITS) as client:
            lost = await wait_lost(lambda: client.request("x/y"))
            assert "without a closing handshake" in lost.reason


EMOJI = "\N{GRINNING FACE}".encode()


def sent(opcode: int, payload: bytes | str = b"", *, is_last: bool = True, reserved: int = 0) -> bytes:
    """Return the bytes of a frame of a server."""
    return frame(opcode, payload, is_last=is_last, reserved=reserved, is_masked=False)


BROKEN = {
    "masked": (frame(TEXT, "{}"), 1002),  # a server must not mask
    "a masked ping": (frame(PING, "x"), 1002),
    "binary": (sent(BINARY, "{}"), 1003),
    "not UTF-8": (sent(TEXT, b"\xff"), 1007),
    "half a character": (sent(TEXT, EMOJI[:2], is_last=False) + sent(CONTINUATION, "{}"), 1007),
    "half a surrogate": (sent(TEXT, b"\xed\xa0\x80"), 1007),
    "too large": (sent(TEXT, "x" * 10_001), 1009),
    "too large in fragments": (sent(TEXT, "x" * 6_000, is_last=False) + sent(CONTINUATION, "x" * 6_000), 1009),
    "too many fragments": (sent(TEXT, is_last=False) + sent(CONTINUATION, is_last=False) * 200, 1009),
    "compressed": (sent(TEXT, "{}", reserved=0x40), 1002),
    "reserved bits": (sent(TEXT, "{}", reserved=0x30), 1002),
    "a reserved opcode": (sent(5, "{}"), 1002),
    "a reserved control opcode": (sent(14), 1002),
    "a continuation of nothing": (sent(CONTINUATION, "{}"), 1002),
    "a message in a message": (sent(TEXT, "{", is_last=False) + sent(TEXT, "}"), 1002),
    "a ping in fragments": (sent(PING, "x", is_last=False), 1002),
    "a large ping": (sent(PING, b"x" * 126), 1002),
    "a Close of one byte": (sent(CLOSE, b"\x03"), 1002),
    "a Close with the code 1005": (sent(CLOSE, (1005).to_bytes(2)), 1002),
    "a Close with the code 2999": (sent(CLOSE, (2999).to_bytes(2)), 1002),
    "a Close whose reason is not UTF-8": (sent(CLOSE, (1000).to_bytes(2) + b"\xff"), 1007),
}


async def test_a_server_that_breaks_the_rules_is_closed_with_the_code(subtests: pytest.Subtests) -> None:
    due: list[bytes] = []
    seen: list[int] = []

    async def script(socket: RawSocket) -> None:
        await accept(socket)
        await discover(socket)
        await socket.receive()
        await socket.send(due.pop())
        while (found := await socket.receive()).opcode != CLOSE:
            pass
        seen.append(found.code)

    limits = Limits(goodbye_timeout=0.5, max_message_bytes=10_000)
    async with scripted(script) as url:
        for name, (data, code) in BROKEN.items():
            due[:], seen[:] = [data], []
            with subtests.test(name), trio.fail_after(ENOUGH):
                async with open_client(url, limits=limits) as client:
                    lost = await wait_lost(partial(client.request, "x/y"))
                    assert str(code) in lost.reason
                assert seen == [code]


NOT_ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"


async def test_a_refused_handshake_says_why(subtests: pytest.Subtests) -> None:
    cases: list[tuple[bytes, type[McpError], str]] = [
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nnope", HttpStatusError, "401.*nope"),
        (b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", HttpStatusError, "503"),
        (
            b"HTTP/1.1 400 Bad\r\nContent-Length: 80\r\n\r\n"
            + json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "odd"}})
            .ljust(80)
            .encode(),
            RequestError,
            r"refused the WebSocket with HTTP status 400 Bad: odd \[-32600\]$",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 100_000, HttpStatusError, "200"),
        (
            b"HTTP/1.1 302 Found\r\nLocation: ws://evil.example/\r\nContent-Length: 0\r\n\r\n",
            HttpStatusError,
            "302",
        ),
        (b"SSH-2.0-OpenSSH_9.7\r\n", RemoteProtocolError, "HTTP"),
        (b"", ConnectionLost, "closed the connection in the handshake"),
        (NOT_ACCEPTED, RemoteProtocolError, "Sec-WebSocket-Accept must be '.*=', and is missing"),
        (
            b"HTTP/1.1 101 Switching Protocols\r\n" + b"x: " + b"y" * 100_000,
            RemoteProtocolError,
            r"65536 bytes \(max_h",
        ),
    ]

    async def script(socket: RawSocket) -> None:
        await socket._receive_more()
        await socket.stream.send_all(answer)
        await socket.stream.aclose()

    async with scripted(script) as url:
        for answer, error, shown in cases:
            with subtests.test(answer=answer), trio.fail_after(ENOUGH):
                with pytest.raises(error, match=shown) as refused:
                    async with open_client(url, limits=LIMITS):
                        raise AssertionError
                if b"Retry-After" in answer:
                    assert isinstance(refused.value, HttpStatusError)
                    assert refused.value.retry_after == 7
                assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"Sec-WebSocket-Accept": "AAAA"}, "Sec-WebSocket-Accept must be '.*=', and is 'AAAA'"),
        ({"Sec-WebSocket-Protocol": ""}, "Sec-WebSocket-Protocol must be 'mcp', and is missing"),
        ({"Sec-WebSocket-Protocol": "chat"}, "Sec-WebSocket-Protocol must be 'mcp', and is 'chat'"),
        (
            {"Sec-WebSocket-Extensions": "permessage-deflate"},
            "Sec-WebSocket-Extensions is 'permessage-deflate', and none was offered",
        ),
        ({"Upgrade": "h2c"}, "Upgrade must be 'websocket', and is 'h2c'"),
        ({"Connection": "close"}, "Connection must be 'upgrade', and is 'close'"),
        ({"X": "a\tb\x01"}, "control characters"),
    ],
)
async def test_an_answer_that_does_not_fit_the_handshake_is_refused(fields: dict[str, str], shown: str) -> None:
    """RFC 6455, section 4.1; the error says what is wrong."""

    async def script(socket: RawSocket) -> None:
        await accept(socket, **fields)
        await trio.sleep_forever()

    with trio.fail_after(ENOUGH):
        async with scripted(script) as url:
            with pytest.raises(RemoteProtocolError, match=shown):
                async with open_client(url, limits=LIMITS):
                    raise AssertionError


async def test_what_the_handshake_says() -> None:
    seen: list[dict[str, str]] = []

    async def script(socket: RawSocket) -> None:
        seen.append(await accept(socket))
        await discover(socket)
        await socket.receive()

    async def headers() -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        return {"Authorization": "Bearer it"}

    with trio.fail_after(ENOUGH):
        async with (
            scripted(script) as url,
            open_client(WebSocketServerParameters(url, headers=headers), limits=LIMITS),
        ):
            pass
    (said,) = seen
    assert said["sec-websocket-protocol"] == "mcp"
    assert said["authorization"] == "Bearer it"
    assert said["target"] == "/mcp?token=secret"
    assert said["host"].startswith("127.0.0.1:")
    assert "sec-websocket-extensions" not in said
    assert "origin" not in said


async def test_a_cookie_of_a_refusal_goes_with_the_next_handshake() -> None:
    """A balancer would send it to another node."""
    seen: list[str] = []

    class Persistent(Auth):
        async def headers_for(self, request: AuthRequest) -> dict[str, str]:
            await trio.lowlevel.checkpoint()
            return {"Authorization": f"Bearer number-{request.sends}"}

        async def on_refused(self, request: AuthRequest, response: AuthResponse) -> bool:
            await trio.lowlevel.checkpoint()
            return request.sends < 2

    async def script(socket: RawSocket) -> None:
        if not seen:
            while b"\r\n\r\n" not in socket.buffer:
                await socket._receive_more()
            seen.append(bytes(socket.buffer).decode())
            answer = "HTTP/1.1 401 No\r\nSet-Cookie: AWSALB=node-1; Path=/\r\nContent-Length: 0\r\n\r\n"
            await socket.stream.send_all(answer.encode())
            return
        seen.append((await accept(socket))["cookie"])
        await discover(socket)
        await socket.receive()

    with trio.fail_after(ENOUGH):
        async with scripted(script) as url, open_client(url, auth=Persistent(), limits=LIMITS):
            pass
    assert "Cookie" not in seen[0]
    assert seen[1:] == ["AWSALB=node-1"]


async def test_cookies_survive_connecting_again() -> None:
    """The balancer sets one when it accepts; the node that has the session is found by it."""
    seen: list[str | None] = []
    again = trio.Event()

    async def script(socket: RawSocket) -> None:
        number = len(seen)
        seen.append((await accept(socket, **{"Set-Cookie": f"AWSALB=node-{number}; Path=/"})).get("cookie"))
        await discover(socket)
        if number < 2:
            await socket.receive()
            await socket.stream.aclose()
        else:
            again.set()
            await socket.receive()

    with trio.fail_after(ENOUGH):
        async with scripted(script) as url:
            parameters = WebSocketServerParameters(url, restart=RestartPolicy(first_delay=0.01))
            async with open_client(parameters, limits=LIMITS) as client:
                for _ in range(2):
                    with pytest.raises(ConnectionLost):
                        await client.request("x/y")
                await again.wait()
            async with open_client(url, limits=LIMITS):
                pass
    assert seen == [None, "AWSALB=node-0", "AWSALB=node-1", None]


async def test_a_silent_server_is_given_up() -> None:
    """connect_timeout, and ping_timeout once it is connected."""

    async def silent(_: RawSocket) -> None:
        await trio.sleep_forever()

    async def falls_silent(socket: RawSocket) -> None:
        await accept(socket)
        await discover(socket)
        await trio.sleep_forever()

    with trio.fail_after(ENOUGH):
        async with scripted(silent) as url, trio.open_nursery() as nursery:
            nursery.start_soon(pass_time, 20)
            with pytest.raises(ConnectionLost, match="connect_timeout"):
                async with open_client(url, limits=Limits(connect_timeout=20)):
                    raise AssertionError
        async with scripted(falls_silent) as url, trio.open_nursery() as nursery:
            parameters = WebSocketServerParameters(url, ping_interval=10, ping_timeout=20)
            async with open_client(parameters, limits=LIMITS) as client:

                @nursery.start_soon
                async def pass_the_time() -> None:
                    await pass_time(10)
                    await pass_time(20)

                lost = await wait_lost(lambda: client.request("x/y"))
                assert "ping_timeout" in lost.reason


async def test_fragments_are_put_together() -> None:
    """With pings between them, and characters cut in two."""
    text = json.dumps({"text": "\N{GRINNING FACE}"}, ensure_ascii=False)

    async def script(socket: RawSocket) -> None:
        await accept(socket)
        await discover(socket)
        id = json.loads((await socket.receive()).payload)["id"]
        data = f'{{"jsonrpc": "2.0", "id": {json.dumps(id)}, "result": {text}}}'.encode()
        await socket.send(sent(TEXT, data[:1], is_last=False))
        for byte in data[1:-1]:
            await socket.send(sent(CONTINUATION, bytes([byte]), is_last=False), sent(PING))
        await socket.send(sent(CONTINUATION, data[-1:]))
        while (await socket.receive()).opcode == PONG:
            pass

    with trio.fail_after(ENOUGH):
        async with scripted(script) as url, open_client(url, limits=LIMITS) as client:
            assert (await client.request("x/y"))["text"] == "\N{GRINNING FACE}"


async def test_pings_of_the_server_are_answered() -> None:
    seen: list[bytes] = []

    async def script(socket: RawSocket) -> None:
        await accept(socket)
        await discover(socket)
        await socket.send(frame(PING, b"there?", is_masked=False))
        found = await socket.receive()
        assert found.opcode == PONG
        seen.append(found.payload)

    with trio.fail_after(ENOUGH):
        async with scripted(script) as url, open_client(url, limits=LIMITS) as client:
            await wait_lost(lambda: client.request("x/y"))
    assert seen == [b"there?"]


async def test_a_server_that_answers_no_close_does_not_hold_the_block() -> None:
    """Limits.goodbye_timeout."""

    async def script(socket: RawSocket) -> None:
        await accept(socket)
        await discover(socket)
        await trio.sleep_forever()

    with trio.fail_after(ENOUGH):
        async with scripted(script) as url, open_client(url, limits=LIMITS):
            pass


async def test_a_lost_server_is_connected_to_again() -> None:
    """`WebSocketServerParameters.restart`: as with a process."""
    server: Server[Any] = Server("returns")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:

            async def serve(port: int) -> tuple[Shutdown, int]:
                shutdown = Shutdown()
                (url,) = await nursery.start(partial(serve_websocket, server, port=port, shutdown=shutdown))
                return shutdown, int(url.rpartition(":")[2].partition("/")[0])

            running, port = await serve(0)
            parameters = WebSocketServerParameters(
                f"ws://127.0.0.1:{port}/mcp", restart=RestartPolicy(first_delay=0.05, max_restarts=20)
            )
            async with open_client(parameters, limits=LIMITS) as client:
                assert (await client.call_tool("add", {"a": 1, "b": 1})).text == "2"
                for _ in range(2):
                    running.drain()
                    while nursery.child_tasks:
                        await trio.sleep(0.01)
                    running, _ = await serve(port)
                    assert (await client.call_tool("add", {"a": 1, "b": 1})).text == "2"
            nursery.cancel_scope.cancel()
