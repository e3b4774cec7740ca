"""Clients that mean harm, in numbers and at the limits: each costs itself, and the others are served meanwhile.

The hostile ones come from an address of their own, as they would, and come back when they are cut. A good client,
and one that connects anew for each call, must be answered all the while; afterwards nothing is left, and nothing
that happened was worth an error in the log. The pauses of the hostile ones are their pace, and decide nothing.
"""
# trustme takes the contexts of a library that is not here as well.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import logging
import os
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import attrs
import pytest
import trio
import trustme
from http_raw import call_tool
from http_wire import Served, head_for, request_for, serving

from trio_mcp import Context, HttpServerParameters, HttpServerSettings, HttpSettings, Limits, Server, open_client

pytestmark = [pytest.mark.usefixtures("host")]

Attack: TypeAlias = Callable[[trio.SocketStream], Awaitable[object]]

PLACES: Final = 20
"""Connections at once: fewer than there are attackers, who get half of them."""

ATTACKERS: Final = 30
CALLS: Final = 8
LOGGING: Final = {"io.modelcontextprotocol/logLevel": "debug"}
THEIRS: Final = "127.0.0.2" if sys.platform == "linux" else None

SETTINGS: Final = HttpServerSettings(
    max_connections=PLACES if sys.platform == "linux" else 2 * PLACES,  # elsewhere all have one address
    max_requests_per_principal=PLACES // 3,
    max_body_bytes=256 * 1024,
    # Nobody who is slow is cut by these before the others have been answered: that is not what keeps the server up.
    message_timeout=30.0,
    send_timeout=20.0,
    idle_timeout=30.0,
)


def make_server() -> Server[Any]:
    server: Server[Any] = Server("besieged", limits=Limits(drain_timeout=2.0, goodbye_timeout=1.0))

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def flood(ctx: Context) -> None:
        while True:
            await ctx.log("info", "x" * 60_000)

    @server.tool
    async def much() -> str:
        return "x" * 3_000_000

    return server


async def trickle(stream: trio.SocketStream, data: bytes) -> None:
    """Send byte after byte, for as long as it is taken."""
    for byte in data:
        await stream.send_all(bytes([byte]))
        await trio.sleep(0.02)


# The attacks. Each is one connection; it ends when the server has ended it, or when it has had enough.


async def never_reads_a_stream(stream: trio.SocketStream) -> None:
    await stream.send_all(request_for(call_tool("flood", _meta=LOGGING)))
    await trio.sleep_forever()


async def never_reads_much(stream: trio.SocketStream) -> None:
    await stream.send_all(request_for(call_tool("much")))
    await trio.sleep_forever()


async def sends_its_head_slowly(stream: trio.SocketStream) -> None:
    await trickle(stream, request_for(call_tool("add", a=1, b=1), {"X": "x" * 4_000}))


async def sends_its_body_slowly(stream: trio.SocketStream) -> None:
    await stream.send_all(head_for(100_000))
    await trickle(stream, b" " * 100_000)


async def sends_small_chunks(stream: trio.SocketStream) -> None:
    await stream.send_all(head_for(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"))
    while True:
        await stream.send_all(b"1;x=y\r\n \r\n" * 50)
        await trio.sleep(0.1)


async def sends_bad_chunks(stream: trio.SocketStream) -> None:
    await stream.send_all(head_for(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"))
    await stream.send_all(b"fffffffffffffffffffff\r\n" + b"x" * 10_000)
    await read_to_end(stream)


async def leaves_in_its_head(stream: trio.SocketStream) -> None:
    await stream.send_all(b"POST /mcp HTTP/1.1\r\nHost: loc")


async def leaves_in_its_body(stream: trio.SocketStream) -> None:
    await stream.send_all(head_for(10_000) + b'{"jsonrpc":')


async def resets(stream: trio.SocketStream) -> None:
    """Leaves by a reset, in the middle of what it asked for."""
    await stream.send_all(request_for(call_tool("flood", _meta=LOGGING)))
    await stream.receive_some(100)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


async def says_nothing(stream: trio.SocketStream) -> None:
    await read_to_end(stream)


async def sends_a_long_head(stream: trio.SocketStream) -> None:
    await stream.send_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
    while True:
        await stream.send_all(b"X-%d: x\r\n" % int.from_bytes(os.urandom(4)) * 1_000)


async def sends_a_long_field(stream: trio.SocketStream) -> None:
    await stream.send_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: ")
    while True:
        await stream.send_all(b"x" * 65_536)


async def sends_a_long_target(stream: trio.SocketStream) -> None:
    await stream.send_all(b"GET /" + b"a/../" * 10_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await read_to_end(stream)


async def sends_many_at_once(stream: trio.SocketStream) -> None:
    """Pipelines, and reads no answer."""
    requests = request_for(call_tool("add", a=1, b=1)) * 200
    while True:
        await stream.send_all(requests)
        await trio.sleep(2)


async def stops_sending(stream: trio.SocketStream) -> None:
    """A half-close, in the middle of a request that is never complete."""
    await stream.send_all(head_for(1_000) + b"{")
    await stream.send_eof()
    await read_to_end(stream)


async def asks_and_stops_sending(stream: trio.SocketStream) -> None:
    """A half-close that comes with a request."""
    await stream.send_all(request_for(call_tool("flood", _meta=LOGGING)))
    await stream.send_eof()
    await trio.sleep_forever()


async def knows_that_it_is_http2(stream: trio.SocketStream) -> None:
    frames = b"".join(
        [
            bytes.fromhex("000006040000000000") + bytes.fromhex("0004ffffffff"),  # SETTINGS with a bad window
            bytes.fromhex("00400001050000000f") + os.urandom(64),  # HEADERS that are shorter than they say
            os.urandom(2_000),
        ]
    )
    await stream.send_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frames)
    await read_to_end(stream)


async def wants_another_protocol(stream: trio.SocketStream) -> None:
    upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    await stream.send_all(request_for(call_tool("add", a=1, b=1), upgrade))
    assert b" 101 " not in await stream.receive_some()
    await stream.send_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(1_000))
    await read_to_end(stream)


async def sends_noise(stream: trio.SocketStream) -> None:
    await stream.send_all(os.urandom(5_000))
    await read_to_end(stream)


async def sends_deep_json(stream: trio.SocketStream) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b'{"a":' * 40_000
    await stream.send_all(head_for(len(body)) + body)
    assert b" 4" in await stream.receive_some()


async def sends_a_large_body(stream: trio.SocketStream) -> None:
    await stream.send_all(head_for(1 << 40))
    while True:
        await stream.send_all(bytes(65_536))


async def read_to_end(stream: trio.SocketStream) -> None:
    while await stream.receive_some():
        pass


ATTACKS: Final[list[Attack]] = [
    never_reads_a_stream, never_reads_much, sends_its_head_slowly, sends_its_body_slowly, sends_small_chunks,
    sends_bad_chunks, leaves_in_its_head, leaves_in_its_body, resets, says_nothing, sends_a_long_head,
    sends_a_long_field, sends_a_long_target, sends_many_at_once, stops_sending, asks_and_stops_sending,
    knows_that_it_is_http2, wants_another_protocol, sends_noise, sends_deep_json, sends_a_large_body,
]  # fmt: skip


async def attack_again_and_again(port: int, attack: Attack, *, task_status: trio.TaskStatus[None]) -> None:
    has_begun = False
    while True:
        try:
            async with await trio.open_tcp_stream("127.0.0.1", port, local_address=THEIRS) as stream:
                if not has_begun:
                    task_status.started()
                    has_begun = True
                await attack(stream)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        await trio.sleep(0.3)


def tasks() -> int:
    """Return how many tasks there are."""
    found, ahead = 0, [trio.lowlevel.current_root_task()]
    while ahead:
        task = ahead.pop()
        if task is not None:
            found += 1
            ahead += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


async def besieged(served: Served, attack: Attack, http: HttpSettings | None = None) -> None:
    """Attack, and see that others are answered meanwhile and nothing is left afterwards."""
    parameters = HttpServerParameters(served.urls[0], http=http or HttpSettings())
    async with open_client(parameters) as client:
        assert (await client.call_tool("add", {"a": 0, "b": 0})).text == "0"
        before = tasks()
        async with trio.open_nursery() as nursery:
            for _ in range(ATTACKERS):
                await nursery.start(attack_again_and_again, served.port, attack)
            for number in range(CALLS):
                assert (await client.call_tool("add", {"a": number, "b": 1})).text == str(number + 1)
                answer = await served.raw.send(call_tool("add", a=number, b=2))
                assert (answer.status, answer.message["result"]["content"][0]["text"]) == (200, str(number + 2))
            nursery.cancel_scope.cancel()
        while tasks() > before:
            await trio.sleep(0.02)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
async def test_it_costs_only_itself(attack: Attack, caplog: pytest.LogCaptureFixture) -> None:
    """More of them than there are places for connections."""
    async with serving(make_server(), SETTINGS, http=HttpSettings(max_idle_connections=0)) as served:
        await besieged(served, attack)
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []


async def greets_and_says_nothing(stream: trio.SocketStream) -> None:
    await stream.send_all(bytes.fromhex("16030100800100007c0303") + os.urandom(32))
    await read_to_end(stream)


async def speaks_plain_http(stream: trio.SocketStream) -> None:
    await stream.send_all(request_for(call_tool("add", a=1, b=1)))
    await read_to_end(stream)


CARELESS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CARELESS.check_hostname, CARELESS.verify_mode = False, ssl.CERT_NONE
CARELESS.set_alpn_protocols(["h2"])


async def breaks_its_records(stream: trio.SocketStream) -> None:
    """Agrees on TLS, offering HTTP/2 alone, and then sends what no key fits."""
    secured = trio.SSLStream(stream, CARELESS)
    await secured.do_handshake()
    assert secured.selected_alpn_protocol() != "h2"
    await stream.send_all(bytes.fromhex("1703030100") + os.urandom(256))
    await read_to_end(stream)


@pytest.mark.parametrize(
    "attack",
    [says_nothing, greets_and_says_nothing, sends_noise, speaks_plain_http, breaks_its_records],
    ids=lambda attack: attack.__name__,
)
async def test_it_costs_only_itself_over_tls(attack: Attack, caplog: pytest.LogCaptureFixture) -> None:
    """The same before HTTP and below it."""
    authority = trustme.CA()
    context, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(trusting)
    http = HttpSettings(ssl_context=trusting)
    anew = attrs.evolve(http, max_idle_connections=0)
    async with serving(make_server(), SETTINGS, ssl_context=context, http=anew) as served:
        await besieged(served, attack, http)
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []


async def test_pipelined_requests_are_answered_in_order() -> None:
    """Who sends many at once and reads is no enemy."""
    async with serving(make_server()) as served, served.wire() as wire, trio.open_nursery() as nursery:
        requests = [request_for(call_tool("add", id=number, a=number, b=1)) for number in range(300)]
        nursery.start_soon(wire.stream.send_all, b"".join(requests))
        for number in range(300):
            status, body = await wire.answer()
            assert (status, b'"text":"%d"' % (number + 1) in body) == (200, True)
