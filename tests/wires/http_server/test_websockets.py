"""WebSockets as the server serves them, spoken to byte by byte: RFC 6455, who is let in, and what ends nothing."""

from __future__ import annotations

import json
import ssl
import zlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
import trustme
from inside_core import HttpHost
from patient_clock import STILL, pass_time
from raw import META
from watching import ENOUGH, Watcher, answer, authenticate, call
from websocket_raw import (
    BINARY,
    CLOSE,
    CONTINUATION,
    EVERYWHERE,
    PING,
    PONG,
    TEXT,
    Frame,
    RawSocket,
    frame,
    raw_socket,
    served,
)

from trio_mcp import (
    ConnectionLost,
    HttpCall,
    HttpServerParameters,
    HttpServerSettings,
    HttpSettings,
    HttpStatusError,
    RequestError,
    Server,
    Shutdown,
    WebSocketServerParameters,
    open_client,
    serve_http,
    serve_websocket,
)


async def still_works(port: int) -> None:
    """Check that others are served."""
    async with open_client(f"ws://127.0.0.1:{port}/mcp") as client:
        assert (await client.call_tool("add", {"a": 20, "b": 22})).text == "42"


# Frames.


async def test_a_message_in_fragments_with_control_frames_between_them() -> None:
    """RFC 6455, section 5.4: a ping in the middle of a message is answered at once."""
    payload = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "tools/call",
            "params": {"name": "add", "arguments": {"a": 20, "b": 22}, "_meta": META},
        }
    )
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server) as port, raw_socket(port) as socket:
            await socket.send(frame(TEXT, payload[:5], is_last=False))
            await socket.send(frame(PING, b"are you there"))
            assert (await socket.receive()) == Frame(PONG, b"are you there")
            for letter in payload[5:-1]:
                await socket.send(frame(CONTINUATION, letter, is_last=False))
            await socket.send(frame(CONTINUATION, b"", is_last=False), frame(CONTINUATION, payload[-1]))
            assert (await answer(socket))["id"] == 7


async def test_characters_may_be_cut_between_fragments() -> None:
    """RFC 6455, section 5.6: only the whole message need be UTF-8. In every place of four bytes."""
    params = {"name": "echo", "arguments": {"text": "\N{GRINNING FACE}\xfc"}, "_meta": META}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    data = json.dumps(request, ensure_ascii=False).encode()
    watcher = Watcher()

    @watcher.server.tool
    def echo(text: str) -> str:
        return text

    with trio.fail_after(ENOUGH):
        async with served(watcher.server) as port, raw_socket(port) as socket:
            await socket.send(frame(TEXT, data[:1], is_last=False))
            for byte in data[1:-1]:
                await socket.send(frame(CONTINUATION, bytes([byte]), is_last=False))
            await socket.send(frame(CONTINUATION, data[-1:]))
            assert (await answer(socket))["result"]["content"][0]["text"] == "\N{GRINNING FACE}\xfc"


async def test_control_frames_of_every_allowed_size_are_answered_in_order() -> None:
    """RFC 6455, section 5.5: up to 125 bytes of anything; pongs that nobody has asked for are no answers."""
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server) as port, raw_socket(port) as socket:
            payloads = [b"", b"\xff\xfe", bytes(125), *(b"%d" % number for number in range(20))]
            await socket.send(frame(PONG, b"nobody asked"), *(frame(PING, payload) for payload in payloads))
            assert [await socket.receive() for _ in payloads] == [Frame(PONG, payload) for payload in payloads]
            await socket.send(call("add", a=20, b=22))
            assert (await answer(socket))["id"] == 1


async def test_a_close_in_the_middle_of_a_message_ends_it() -> None:
    """RFC 6455, section 5.4; what comes behind the Close is not looked at."""
    watcher = Watcher()
    with trio.fail_after(ENOUGH):
        async with served(watcher.server) as port, raw_socket(port) as socket:
            await socket.send(
                frame(TEXT, "{", is_last=False),
                frame(CLOSE, (1000).to_bytes(2) + "f\xfcr immer".encode()),
                call("hang"),
            )
            assert (await socket.receive()).code == 1000
            await socket.wait_end()
        assert not watcher.begun.is_set()


EMOJI = "\N{GRINNING FACE}".encode()

BROKEN = {
    "binary": (frame(BINARY, b"{}"), 1003),
    "not UTF-8": (frame(TEXT, b"\xff\xfe"), 1007),
    "half a character at the end": (frame(TEXT, EMOJI[:3]), 1007),
    "half a surrogate": (frame(TEXT, b"\xed\xa0\x80"), 1007),
    "an overlong character": (frame(TEXT, b"\xc0\xaf"), 1007),
    "beyond Unicode": (frame(TEXT, b"\xf4\x90\x80\x80"), 1007),
    "half a character in a fragment, and no other half": (
        frame(TEXT, EMOJI[:2], is_last=False) + frame(CONTINUATION, b"{}"),
        1007,
    ),
    "not masked": (frame(TEXT, "{}", is_masked=False), 1002),
    "compressed": (frame(TEXT, "{}", reserved=0x40), 1002),
    "another reserved bit": (frame(TEXT, "{}", reserved=0x10), 1002),
    "the second reserved bit": (frame(TEXT, "{}", reserved=0x20), 1002),
    "a reserved bit of a fragment": (
        frame(TEXT, "{", is_last=False) + frame(CONTINUATION, "}", reserved=0x40),
        1002,
    ),
    "a reserved bit of a ping": (frame(PING, b"", reserved=0x40), 1002),
    "a compressed bomb": (frame(TEXT, zlib.compress(bytes(16 << 20)), reserved=0x40), 1002),
    "a reserved opcode": (frame(3, "{}"), 1002),
    "a length in more bytes than it needs": (b"\x81\xfe\x00\x02" + bytes(4) + b"{}", 1002),
    "a length in many more bytes than it needs": (b"\x81\xff" + (2).to_bytes(8) + bytes(4) + b"{}", 1002),
    "a length that is larger than anything": (b"\x81\xff" + b"\xff" * 8 + bytes(4), 1009),
    "a reserved control opcode": (frame(11, b""), 1002),
    "a continuation of nothing": (frame(CONTINUATION, "{}"), 1002),
    "a message in a message": (frame(TEXT, "{", is_last=False) + frame(TEXT, "}"), 1002),
    "a ping in fragments": (frame(PING, b"x", is_last=False), 1002),
    "a large ping": (frame(PING, b"x" * 126), 1002),
    "a ping that is announced as very large": (frame(PING, b"x" * 70_000)[:20], 1002),
    "a Close in fragments": (frame(CLOSE, (1000).to_bytes(2), is_last=False), 1002),
    "a large Close": (frame(CLOSE, (1000).to_bytes(2) + b"x" * 124), 1002),
    "a Close of one byte": (frame(CLOSE, b"\x03"), 1002),
    **{
        f"a Close with the code {code}, which is not for peers": (frame(CLOSE, code.to_bytes(2)), 1002)
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535)
    },
    "a Close whose reason is not UTF-8": (frame(CLOSE, (1000).to_bytes(2) + b"\xff"), 1007),
    "too large": (frame(TEXT, "x" * 20_001), 1009),
    "too large in bytes, not in characters": (frame(TEXT, EMOJI * 5_001), 1009),
    "too large in fragments": (
        frame(TEXT, "x" * 9_000, is_last=False) + frame(CONTINUATION, "x" * 12_000, is_last=False),
        1009,
    ),
    "too many fragments": (
        frame(TEXT, "x", is_last=False) + frame(CONTINUATION, b"", is_last=False) * 400,
        1009,
    ),
}


@EVERYWHERE
async def test_what_breaks_the_rules_closes_its_own_connection_with_the_right_code(http: HttpHost | None) -> None:
    """RFC 6455, sections 5 to 8; other connections go on.

    All of them at once, with a peer that leaves without a word and one that never reads, and on every host.
    """
    watcher = Watcher(max_message_bytes=20_000)
    codes: dict[str, int] = {}

    async def break_rules(port: int, what: str) -> None:
        async with raw_socket(port) as socket:
            await socket.send(BROKEN[what][0])
            codes[what] = await socket.closed_with()

    async def leave(port: int, data: bytes) -> None:
        async with raw_socket(port) as socket:
            await socket.send(data)

    with trio.fail_after(ENOUGH):
        async with served(watcher.server, http) as port, raw_socket(port) as other:
            async with trio.open_nursery() as nursery:
                for what in BROKEN:
                    nursery.start_soon(break_rules, port, what)
                for data in (b"", call("exit"), call("hang")[:10], call("hang"), frame(PING), b"GET / HTTP/1.1"):
                    nursery.start_soon(leave, port, data)
            await other.send(call("add", a=20, b=22))
            assert (await answer(other))["id"] == 1
            await still_works(port)
    assert codes == {what: code for what, (_, code) in BROKEN.items()}


@pytest.mark.parametrize("step", [1, 3, 1000])
async def test_it_does_not_matter_how_the_bytes_are_cut(step: int) -> None:
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server) as port, raw_socket(port) as socket:
            data = call("add", 1, a=1, b=1) + frame(PING, b"?") + call("large", 2, size=70_000)
            for at in range(0, len(data), step):
                await socket.send(data[at : at + step])
                await trio.lowlevel.checkpoint()
            seen = [await socket.receive() for _ in range(3)]
            assert sorted(each.opcode for each in seen) == [TEXT, TEXT, PONG]


async def test_messages_up_to_the_limit_are_received() -> None:
    """max_message_bytes: exactly as large, in one frame."""
    watcher = Watcher(max_message_bytes=20_000)
    with trio.fail_after(ENOUGH):
        async with served(watcher.server) as port, raw_socket(port) as socket:
            await socket.send(frame(TEXT, "x" * 20_000))
            assert (await answer(socket))["error"]["code"] == -32700


async def test_close_is_answered_and_ends_the_handlers(subtests: pytest.Subtests) -> None:
    """RFC 6455, section 5.5.1: with the same code; nothing more can be sent, so handlers are cancelled."""
    cases: list[int | None] = [
        1000,
        1001,
        1002,
        1003,
        1007,
        1008,
        1009,
        1010,
        1011,
        1012,
        1013,
        3000,
        3999,
        4000,
        4999,
        None,
    ]
    for code in cases:
        with subtests.test(code=code):
            watcher = Watcher()
            with trio.fail_after(ENOUGH):
                async with served(watcher.server) as port, raw_socket(port) as socket:
                    await socket.send(call("hang"))
                    await watcher.begun.wait()
                    payload = b"" if code is None else code.to_bytes(2) + b"bye"
                    await socket.send(frame(CLOSE, payload))
                    found = await socket.receive()
                    assert found.opcode == CLOSE
                    assert found.payload[:2] == payload[:2]
                    await watcher.cancelled.wait()


# What ends other libraries' servers.


@EVERYWHERE
async def test_odd_bytes_in_the_handshake_end_nothing(http: HttpHost | None, subtests: pytest.Subtests) -> None:
    odd: list[dict[str, str]] = [
        {"Sec-WebSocket-Protocol": "mcp, gr\xfc\xdfe"},
        {"Sec-WebSocket-Protocol": "\N{GRINNING FACE}"},
        {"Host": "xn--a\N{LATIN SMALL LETTER U WITH DIAERESIS}"},
        {"Sec-WebSocket-Extensions": "permessage-deflate; \xff\xfe"},
    ]
    async with served(Watcher().server, http) as port:
        for headers in odd:
            with subtests.test(headers=headers), trio.fail_after(ENOUGH):
                async with raw_socket(port, headers) as socket:
                    assert socket.status in (101, 400, 421)
                    assert "sec-websocket-extensions" not in socket.headers, "nothing is compressed"
                await still_works(port)


@EVERYWHERE
async def test_pings_while_the_server_closes_end_nothing(http: HttpHost | None) -> None:
    """They may not be answered any more, and the client's Close behind them still counts: no timeout is needed."""
    watcher, shutdown = Watcher(goodbye_timeout=600), Shutdown()
    with trio.fail_after(ENOUGH):
        async with served(watcher.server, http, shutdown=shutdown) as port, raw_socket(port) as socket:
            await socket.send(call("add", a=1, b=1))
            await answer(socket)
            shutdown.drain()
            found = await socket.receive()
            assert (found.code, found.reason) == (1001, "the server stops")
            await socket.send(*(frame(PING, b"?") for _ in range(100)), frame(CLOSE, found.payload))
            with pytest.raises((EOFError, trio.BrokenResourceError)):
                await socket.receive()


@EVERYWHERE
async def test_a_handler_that_raises_costs_its_own_call(http: HttpHost | None) -> None:
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, http) as port:
            for how in ("exit", "fail"):
                async with raw_socket(port) as socket:
                    await socket.send(call(how, 1), call("add", 2, a=1, b=1))
                    seen = {(message := await answer(socket))["id"]: message for _ in range(2)}
                    assert "error" in seen[1] or seen[1]["result"]["isError"], how
                    assert "result" in seen[2], how


@EVERYWHERE
async def test_authenticating_that_fails_costs_its_own_handshake(http: HttpHost | None) -> None:
    async def authenticate(call: HttpCall) -> str | None:
        await trio.lowlevel.checkpoint()
        if "x-fail" in call.headers:
            raise RuntimeError("a bug")
        return "alice"

    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, http, authenticate=authenticate) as port:
            async with raw_socket(port) as other, raw_socket(port, {"X-Fail": "please"}) as socket:
                assert socket.status == 500
                await other.send(call("add", a=20, b=22))
                assert (await answer(other))["id"] == 1
            await still_works(port)


async def test_a_client_that_vanishes_ends_its_handlers_alone() -> None:
    watcher = Watcher()
    with trio.fail_after(ENOUGH):
        async with served(watcher.server) as port:
            async with raw_socket(port) as socket:
                await socket.send(call("hang"))
                await watcher.begun.wait()
            await watcher.cancelled.wait()
            await still_works(port)


# Nobody holds anything.


async def test_a_client_that_does_not_read_holds_nothing() -> None:
    """Limits.goodbye_timeout: serving ends in time although neither an answer nor Close can be written."""
    watcher, shutdown = Watcher(drain_timeout=20, goodbye_timeout=20), Shutdown()
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            urls = await nursery.start(partial(serve_websocket, watcher.server, port=0, shutdown=shutdown))
            port = int(urls[0].rpartition(":")[2].partition("/")[0])
            async with raw_socket(port) as socket:
                for number in range(3):
                    await socket.send(call("large", number, size=6_000_000))
                await socket.send(call("hang", 9))
                await watcher.begun.wait()
                await still_works(port)
                shutdown.drain()
                for _ in range(2):
                    await pass_time(20)
                while nursery.child_tasks:
                    await trio.sleep(0.01)
    assert not watcher.running


async def test_a_client_that_does_not_answer_close_is_cut() -> None:
    watcher, shutdown = Watcher(), Shutdown()
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            urls = await nursery.start(partial(serve_websocket, watcher.server, port=0, shutdown=shutdown))
            port = int(urls[0].rpartition(":")[2].partition("/")[0])
            async with raw_socket(port) as socket:
                shutdown.drain()
                assert (await socket.receive()).code == 1001
                while nursery.child_tasks:
                    await trio.sleep(0.01)


async def test_a_client_that_is_silent_after_a_ping_is_cut() -> None:
    """keep_alive_interval, and twice that."""
    watcher = Watcher()
    settings = HttpServerSettings(keep_alive_interval=20)
    with trio.fail_after(ENOUGH):
        async with served(watcher.server, settings=settings) as port, raw_socket(port) as socket:
            await socket.send(call("hang"))
            await pass_time(20)
            assert (await socket.receive()).opcode == PING
            assert not watcher.cancelled.is_set()
            await pass_time(40)
            await watcher.cancelled.wait()


async def test_a_client_is_not_silent_while_nothing_of_it_is_read() -> None:
    """max_waiting_bytes: its pongs are behind requests that wait, and reading pauses."""
    watcher = Watcher(max_inbound_requests=1, max_waiting_bytes=20_000, slow_consumer_timeout=ENOUGH)
    settings = HttpServerSettings(keep_alive_interval=10)
    with trio.fail_after(ENOUGH):
        async with served(watcher.server, settings=settings) as port, raw_socket(port) as socket:
            await socket.send(call("hang"))
            await watcher.begun.wait()
            async with trio.open_nursery() as nursery:
                more = b"".join(call("add", number, a=1, b=1, more="x" * 1_000) for number in range(1, 200))
                nursery.start_soon(socket.send, more)  # the server takes a part of it
                for _ in range(5):
                    await pass_time(10)
                await trio.testing.wait_all_tasks_blocked(STILL)
                assert not watcher.cancelled.is_set()
                nursery.cancel_scope.cancel()


async def test_pings_are_answered_while_all_handlers_are_busy() -> None:
    watcher = Watcher(max_inbound_requests=2)
    with trio.fail_after(ENOUGH):
        async with served(watcher.server) as port, raw_socket(port) as socket:
            for number in range(50):
                await socket.send(call("hang", number))
            await socket.send(frame(PING, b"there?"))
            while (found := await socket.receive()).opcode != PONG:
                pass
            assert found.payload == b"there?"


# Who is let in.

REFUSED: dict[str, tuple[int, dict[str, str | None]]] = {
    "host": (421, {"Host": "evil.example"}),
    "origin": (403, {"Origin": "https://evil.example"}),
    "opaque origin": (403, {"Origin": "null"}),
    "version": (426, {"Sec-WebSocket-Version": "8"}),
    "no version": (400, {"Sec-WebSocket-Version": None}),
    "key": (400, {"Sec-WebSocket-Key": "short"}),
    "no key": (400, {"Sec-WebSocket-Key": None}),
    "connection": (400, {"Connection": "keep-alive"}),
    "subprotocol": (400, {"Sec-WebSocket-Protocol": "chat"}),
    "no subprotocol": (400, {"Sec-WebSocket-Protocol": None}),
    "no upgrade": (426, {"Upgrade": None}),
}


async def test_handshakes_are_refused_by_a_status(subtests: pytest.Subtests) -> None:
    """RFC 6455, section 4.2.2."""
    async with served(Watcher().server) as port:
        for what, (status, headers) in REFUSED.items():
            with subtests.test(what), trio.fail_after(ENOUGH):
                async with raw_socket(port, headers) as socket:
                    assert socket.status == status
                    if status == 426:
                        assert socket.headers["upgrade"] == "websocket"
                    if what == "version":
                        assert socket.headers["sec-websocket-version"] == "13"
                    if what != "no upgrade":  # an ordinary request, after which others may follow
                        await socket.wait_end()
                await still_works(port)


async def test_another_path_is_not_found() -> None:
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, path="/there") as port:
            async with raw_socket(port) as socket:
                assert socket.status == 404
            async with raw_socket(port, path="/there") as socket:
                assert socket.status == 101


async def test_pages_of_this_machine_are_let_in() -> None:
    with trio.fail_after(ENOUGH):
        async with (
            served(Watcher().server) as port,
            raw_socket(port, {"Origin": "http://localhost:3000"}) as socket,
        ):
            assert socket.status == 101
            assert socket.headers["sec-websocket-protocol"] == "mcp"


async def test_the_principal_is_known_to_handlers() -> None:
    """And so are context variables that `authenticate` has set, such as the address."""
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, authenticate=authenticate) as port:
            parameters = WebSocketServerParameters(
                f"ws://127.0.0.1:{port}/mcp", headers={"Authorization": "Bearer good"}
            )
            async with open_client(parameters) as client:
                assert (await client.call_tool("who")).text == "alice 127.0.0.1"


@pytest.mark.parametrize(("headers", "challenge"), [({}, "Bearer"), ({"Authorization": "Bearer bad"}, "invalid")])
async def test_a_client_that_is_not_authenticated_gets_a_challenge(
    headers: dict[str, str], challenge: str
) -> None:
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, authenticate=authenticate) as port:
            async with raw_socket(port, headers) as socket:
                assert socket.status == 401
                assert challenge in socket.headers["www-authenticate"]
            url = WebSocketServerParameters(f"ws://127.0.0.1:{port}/mcp", headers=headers)
            with pytest.raises(RequestError) as refused:
                async with open_client(url):
                    raise AssertionError
            assert refused.value.status == 401


async def test_a_session_gives_way_to_another_of_its_client() -> None:
    """max_sessions_per_principal: the one that was first is closed, with 1013."""
    settings = HttpServerSettings(max_sessions=20)
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, settings=settings) as port, AsyncExitStack() as stack:
            sockets = [await stack.enter_async_context(raw_socket(port)) for _ in range(11)]
            statuses = [socket.status for socket in sockets]
            if statuses == [101] * 11:
                assert await sockets[0].closed_with() == 1013
            else:
                assert statuses == [*[101] * 10, 429]
                assert int(sockets[-1].headers["retry-after"]) >= 1


@EVERYWHERE
async def test_a_connection_that_rests_gives_way_to_another_of_its_address(http: HttpHost | None) -> None:
    """max_connections_per_address: a WebSocket rests while no request is open, not even a subscription."""
    settings = HttpServerSettings(max_connections=20)
    listen = {"_meta": META, "notifications": {"toolsListChanged": True}}
    subscribe = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": listen})
    with trio.fail_after(ENOUGH):
        async with (
            served(Watcher().server, http, settings=settings) as port,
            raw_socket(port) as first,
            raw_socket(port) as second,
            AsyncExitStack() as stack,
        ):
            busy = [await stack.enter_async_context(raw_socket(port)) for _ in range(8)]
            for socket in busy:
                await socket.send(call("hang", 2))
            for socket in (first, second, *busy):
                await socket.send(call("add", a=1, b=1))
                await answer(socket)
            async with raw_socket(port) as third:
                await first.wait_end()
                await second.send(frame(TEXT, subscribe))
                await answer(second)
                await third.send(call("hang", 2), call("add", 3, a=1, b=1))
                assert (await answer(third))["id"] == 3
                async with raw_socket(port) as fourth:
                    assert fourth.status == 503
                await second.send(call("add", 3, a=1, b=1))
                assert (await answer(second))["id"] == 3


@EVERYWHERE
async def test_a_connection_may_rest_for_as_long_as_its_client_is_there(http: HttpHost | None) -> None:
    """idle_timeout, and half of message_timeout for a head, are HTTP's: here pings show who is there."""
    settings = HttpServerSettings(idle_timeout=10, message_timeout=30, keep_alive_interval=1_000)
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, http, settings=settings) as port, raw_socket(port) as socket:
            data = call("add", a=1, b=1)
            await socket.send(data)
            await answer(socket)
            await pass_time(20)
            await socket.send(data[:9])
            await pass_time(20)
            await socket.send(data[9:])
            assert (await answer(socket))["id"] == 1


@EVERYWHERE
async def test_an_upgrade_where_streams_are_begins_none(http: HttpHost | None) -> None:
    """Nothing would notice that its client leaves: refused, however the path is written."""
    settings = HttpServerSettings(sse=True)
    fields = {"Accept": "text/event-stream"}
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, http, settings=settings) as port:
            for path in ("/sse", "/sse/", "/%73se", "/messages", "/"):
                async with raw_socket(port, fields, path) as socket:
                    assert socket.status == 404
                    await socket.wait_end()
            await still_works(port)


async def test_what_has_arrived_of_a_message_is_lent() -> None:
    """max_kept_bytes: as much as has arrived, not what is announced; given back when it is served."""
    watcher = Watcher()

    def lent() -> int:
        (kept,) = watcher.server.statistics()
        return kept["bytes"].lent

    with trio.fail_after(ENOUGH):
        async with served(watcher.server) as port, raw_socket(port) as socket:
            await socket.send(call("add", a=1, b=1))
            await answer(socket)
            before = lent()
            data = frame(TEXT, "x" * 2_000_000)
            await socket.send(data[:1_000_000])
            while lent() < before + 800_000:
                await trio.sleep(0.01)
            assert lent() < before + 1_200_000
            await socket.send(data[1_000_000:])
            assert "error" in await answer(socket)
            await socket.send(call("add", a=1, b=1))  # the loop holds the last message until the next one comes
            await answer(socket)
            while lent() > before:
                await trio.sleep(0.01)


async def test_who_keeps_too_much_of_messages_gives_way() -> None:
    """max_kept_bytes_per_principal: 1013, and it is the account that says so."""
    watcher = Watcher(max_kept_bytes=4_000_000, max_kept_bytes_per_principal=1_000_000)
    with trio.fail_after(ENOUGH):
        async with served(watcher.server) as port:
            async with raw_socket(port) as socket:
                with suppress(trio.BrokenResourceError):
                    await socket.send(frame(TEXT, "x" * 3_000_000)[:2_500_000])
                assert await socket.closed_with() == 1013
            await still_works(port)


# Beside HTTP, over TLS, at a Unix socket.


@pytest.mark.parametrize("http", ["lean", "hypercorn"])
async def test_both_protocols_at_one_port(http: HttpHost) -> None:
    """HttpServerSettings.websocket: a connection that has served requests can become one, too."""
    watcher = Watcher()
    settings = HttpServerSettings(websocket=True)
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            (url,) = await nursery.start(
                partial(serve_http, watcher.server, port=0, http=http, settings=settings)
            )
            for target in (url, url.replace("http", "ws")):
                async with open_client(target) as client:
                    assert (await client.call_tool("add", {"a": 20, "b": 22})).text == "42"
            port = int(url.rpartition(":")[2].partition("/")[0])
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(b"OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b"405" in await stream.receive_some()
                socket = RawSocket(stream)
                await socket.shake_hands()
                assert socket.status == 101
                await socket.send(call("add", a=1, b=1))
                assert (await answer(socket))["id"] == 1
            async with raw_socket(port, {"Origin": "https://evil.example"}) as socket:
                assert socket.status == 403
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("http", ["lean", "hypercorn"])
async def test_without_the_setting_http_alone_is_served(http: HttpHost) -> None:
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            (url,) = await nursery.start(partial(serve_http, Watcher().server, port=0, http=http))
            async with raw_socket(int(url.rpartition(":")[2].partition("/")[0])) as socket:
                assert socket.status in (400, 405, 406)
            with pytest.raises(RequestError) as refused:
                async with open_client(url.replace("http", "ws")):
                    raise AssertionError
            assert refused.value.status == socket.status
            nursery.cancel_scope.cancel()


async def test_over_tls() -> None:
    ca = trustme.CA()
    ours, theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    ca.issue_cert("localhost").configure_cert(ours)  # pyright: ignore[reportUnknownMemberType] - no stubs
    ca.configure_trust(theirs)  # pyright: ignore[reportUnknownMemberType] - no stubs
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, ssl_context=ours) as port:
            url = f"wss://localhost:{port}/mcp"
            async with open_client(
                WebSocketServerParameters(url, http=HttpSettings(ssl_context=theirs))
            ) as client:
                assert (await client.call_tool("add", {"a": 20, "b": 22})).text == "42"
                assert len((await client.call_tool("large", {"size": 1_000_000})).text) == 1_000_000
            with pytest.raises(ConnectionLost, match="certificate"):
                async with open_client(url):
                    raise AssertionError


async def test_at_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            (url,) = await nursery.start(partial(serve_websocket, Watcher().server, unix_path=path))
            assert url.startswith("ws+unix://")
            async with open_client(url) as client:
                assert (await client.call_tool("add", {"a": 20, "b": 22})).text == "42"
            nursery.cancel_scope.cancel()
        assert not path.exists()


async def test_one_lifespan_for_all_connections() -> None:
    entered = 0

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        nonlocal entered
        entered += 1
        await trio.lowlevel.checkpoint()
        yield None

    server: Server[Any] = Server("one", lifespan=lifespan)
    with trio.fail_after(ENOUGH):
        async with served(server) as port:
            for _ in range(3):
                async with open_client(f"ws://127.0.0.1:{port}/mcp") as client:
                    await client.ping()
    assert entered == 1


async def test_serving_http_and_websockets_by_a_wrong_scheme_says_what_to_do() -> None:
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server) as port:
            with pytest.raises((RequestError, HttpStatusError)) as refused:
                async with open_client(HttpServerParameters(f"http://127.0.0.1:{port}/mcp")):
                    raise AssertionError
            assert refused.value.status in (405, 426)


async def test_a_client_that_sends_no_message_is_closed() -> None:
    """message_timeout: pongs show that it is there, and nothing else."""
    settings = HttpServerSettings(message_timeout=20)
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, settings=settings) as port, raw_socket(port) as socket:
            await socket.send(frame(PONG))
            await pass_time(20)
            assert await socket.closed_with() == 1008
