"""Attacks over connections that carry messages both ways: WebSockets, and lines over TCP, TLS and Unix sockets."""

from __future__ import annotations

import itertools
import json
from typing import Any, Final

import trio
from attacking import LEGACY, LOGGED, META, MIB, Attacker, attack, request
from spoken import Wire, binary, reset

GREATEST: Final = 16 * MIB - 2 * 1024
"""What fits into a message with what is around it."""


def asked(method: str, /, id: object = 1, **params: Any) -> bytes:
    """Return a request of the modern era."""
    return binary(request(method, id, **{"_meta": META, **params}))


def called(name: str, /, id: object = 1, meta: Any = META, **arguments: Any) -> bytes:
    """Return one that calls a tool."""
    return asked("tools/call", id, name=name, arguments=arguments, _meta=meta)


def called_with(name: str, arguments: str) -> bytes:
    """Return the same, with the arguments as they are."""
    hole = "<arguments>"
    return (
        called(name)
        .replace(b'"arguments": {}', f'"arguments": {hole}'.encode())
        .replace(hole.encode(), arguments.encode())
    )


async def keep_sending(me: Attacker, wire: Wire, data: bytes, *, is_read: bool = True) -> None:
    """Send the same again and again, and read, or not, what is answered."""

    async def send() -> None:
        while True:
            await me.send(wire, data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        if is_read:
            await wire.read_to_end()


# Beginnings, and parts.


@attack
async def half_handshakes(me: Attacker) -> None:
    """Half of what begins a connection, more often than there are places."""

    async def work() -> None:
        async with me.stream(is_secured=False) as stream:
            wire = me.wire_over(stream)
            data = b"\x16\x03\x01\x02\x00\x01" if me.host == "tls" else wire.opening
            await me.send(wire, data[: len(data) // 2])
            await wire.read_to_end()

    await me.many(1_200, work)


@attack
async def slow_messages(me: Attacker) -> None:
    """Messages that come byte by byte."""

    async def work() -> None:
        async with me.wire() as wire:
            for byte in wire.whole(called("add", a=1, b=2)):
                await me.send(wire, bytes([byte]))
                await trio.sleep(0.2)

    await me.many(450, work)


@attack
async def half_messages(me: Attacker) -> None:
    """Messages of 16 MB that lack their end."""
    data = me.whole(b" " * GREATEST)[:-1]

    async def work() -> None:
        async with me.wire() as wire:
            await me.send(wire, data)
            await wire.read_to_end()

    await me.many(200, work)


@attack
async def endless_messages(me: Attacker) -> None:
    """Messages that never end: in pieces of a byte, and in great ones."""

    async def work(size: int, count: int) -> None:
        async with me.wire() as wire:
            await me.send(wire, wire.part(b'{"a": "', is_first=True))
            data = wire.part(b"x" * size, is_first=False) * count
            await keep_sending(me, wire, data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(me.many, 4, lambda: work(1, 10_000))
        nursery.start_soon(me.many, 4, lambda: work(0, 10_000))
        nursery.start_soon(me.many, 4, lambda: work(MIB // 4, 4))


@attack
async def empty_messages(me: Attacker) -> None:
    """What says nothing, without end: empty lines, pings."""

    async def work() -> None:
        async with me.wire() as wire:
            await keep_sending(me, wire, wire.empty * 1_000)

    await me.many(16, work)


@attack
async def unread_empty_messages(me: Attacker) -> None:
    """The same, and what is answered is not read."""

    async def work() -> None:
        async with me.wire(slow_reader=True) as wire:
            await keep_sending(me, wire, wire.empty * 1_000, is_read=False)

    await me.many(16, work)


@attack
async def broken_messages(me: Attacker) -> None:
    """What breaks the rules of lines and frames, on a new connection each time."""
    numbers = itertools.count()

    async def work() -> None:
        async with me.wire() as wire:
            await me.send(wire, wire.broken[next(numbers) % len(wire.broken)])
            with trio.move_on_after(0.5):
                await wire.read_to_end()

    await me.many(8, work)


# What is great, or long to read.


@attack
async def great_messages(me: Attacker) -> None:
    """Requests of 16 MB that stay in flight."""
    data = me.whole(called("wait", seconds=600, note="x" * (GREATEST - 1_000)))

    async def work() -> None:
        async with me.wire() as wire:
            await me.send(wire, data)
            await wire.read_to_end()

    await me.many(60, work)


@attack
async def heavy_messages(me: Attacker) -> None:
    """Requests of a megabyte that weigh thirty times as much once they are decoded, and stay in flight."""
    arrays = ",".join(["[]"] * (MIB // 3))
    data = called("wait", meta={**META, "x/y": "<>"}, seconds=600).replace(b'"<>"', f"[{arrays}]".encode())
    whole = me.whole(data)

    async def work() -> None:
        async with me.wire() as wire:
            for _ in range(3):
                await me.send(wire, whole)
            await wire.read_to_end()

    await me.many(60, work)


@attack
async def hostile_messages(me: Attacker) -> None:
    """Numbers and arrays that are long to read, to count and to compare."""
    some = 4 * MIB
    step = 2**61 - 1
    ping = '{"jsonrpc":"2.0","id":%s,"method":"ping","params":{"x":%s}}'
    numbers = ",".join(str(step * n) for n in range(1, some // 26))
    messages = (
        b"[" * some,
        b"[" * (some // 2) + b"]" * (some // 2),
        b'{"a":' * (some // 5),
        b"[%s]" % b",".join([b"[" * 900 + b"]" * 900] * (some // 1801)),
        (ping % ("9" * some, "{}")).encode(),
        (ping % ("1", "1e" + "9" * MIB)).encode(),
        (ping % ("1", "[%s]" % ",".join(["1e308"] * (some // 6)))).encode(),  # noqa: UP031 - braces
        called_with("pick", f'{{"numbers":[{numbers}]}}'),
        called_with("check", '{{"numbers":[{}]}}'.format(",".join(['""'] * (MIB // 3)))),
        called_with("wait", '{{"seconds":0,"note":[{}]}}'.format(",".join(["[]"] * (GREATEST // 3)))),
        called_with("add", f'{{"a":{"9" * some},"b":1}}'),
    )
    turns = itertools.cycle(messages)

    async def work() -> None:
        async with me.wire() as wire:
            await me.send(wire, wire.whole(next(turns)))
            with trio.move_on_after(1):
                await wire.read_to_end()

    await me.many(4, work)


# Floods.


@attack
async def message_floods(me: Attacker) -> None:
    """Small requests, ahead of their answers, and everything read."""

    async def work() -> None:
        async with me.wire() as wire:
            await keep_sending(me, wire, wire.whole(called("add", a=1, b=2)) * 50)

    await me.many(100, work)


@attack
async def unread_message_floods(me: Attacker) -> None:
    """The same, and nothing read."""

    async def work() -> None:
        async with me.wire(slow_reader=True) as wire:
            await keep_sending(me, wire, wire.whole(called("add", a=1, b=2)) * 50, is_read=False)

    await me.many(100, work)


@attack
async def notification_floods(me: Attacker) -> None:
    """Notifications and answers that mean nothing, in sessions and outside."""
    useless: tuple[dict[str, Any], ...] = (
        {"jsonrpc": "2.0", "id": 99_999, "result": {}},
        {"jsonrpc": "2.0", "id": 99_999, "error": {"code": 1, "message": "\n2026 CRITICAL \x1b[2J forged"}},
        {"jsonrpc": "2.0", "method": "notifications/\nforged\x1b[2J"},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "x\n", "progress": 1}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "nothing\n"}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 7},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
    )

    async def work(*, in_session: bool) -> None:
        async with me.wire() as wire:
            if in_session:
                await wire.begin_session()
            await keep_sending(me, wire, b"".join(map(wire.whole, useless)) * 10)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(me.many, 8, lambda: work(in_session=True))
        nursery.start_soon(me.many, 8, lambda: work(in_session=False))


@attack
async def given_up_messages(me: Attacker) -> None:
    """Requests that are given up as soon as they are made: by a notification, by a reset."""

    async def saying() -> None:
        async with me.wire() as wire:
            for id in itertools.count():
                given_up = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
                await me.send(wire, wire.whole(called("wait", id, seconds=600)) + wire.whole(given_up))

    async def closing() -> None:
        async with me.wire() as wire:
            await me.send(wire, wire.whole(called("wait", seconds=600)) * 5)
            reset(wire.stream)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(me.many, 10, saying)
        nursery.start_soon(me.many, 10, closing)


@attack
async def message_batches(me: Attacker) -> None:
    """Batches of a thousand calls."""
    calls = [request("tools/call", n, name="add", arguments={"a": n, "b": 1}) for n in range(1_000)]
    wrong = [request("tools/call", n, name="check", arguments={"numbers": [""] * 500}) for n in range(500)]
    batches = (json.dumps(calls).encode(), json.dumps(wrong).encode())

    async def work() -> None:
        async with me.wire() as wire:
            await wire.begin_session("2025-03-26")
            await keep_sending(me, wire, b"".join(map(wire.whole, batches)))

    await me.many(8, work)


# Places, and what is kept.


@attack
async def uninitialised_wires(me: Attacker) -> None:
    """Sessions whose handshake is never finished, as many as there are places."""
    me_too = {"name": "x", "version": "1"}
    begin = request("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=me_too)

    async def work() -> None:
        async with me.wire() as wire:
            await me.send(wire, wire.whole(begin))
            await wire.read_to_end()

    await me.many(600, work)


@attack
async def wires_begun_and_ended(me: Attacker) -> None:
    """Sessions that are begun and ended, again and again."""

    async def work() -> None:
        async with me.wire() as wire:
            await wire.begin_session()

    await me.many(16, work)


@attack
async def parked_wires(me: Attacker) -> None:
    """Handlers that wait for an answer which never comes, of which some keep a megabyte."""
    notes = itertools.cycle([0, 0, 0, MIB])

    async def work() -> None:
        async with me.wire() as wire:
            for id in range(500):
                await wire.ask(
                    request("tools/call", id, name="ask", arguments={"note": "x" * next(notes)}, _meta=META)
                )

    await me.many(8, work)


@attack
async def asking_wires(me: Attacker) -> None:
    """The same in sessions of the legacy era, where the server asks."""

    async def work() -> None:
        async with me.wire() as wire:
            await wire.begin_session()
            for id in range(500):
                await me.send(wire, wire.whole(request("tools/call", id, name="ask", arguments={})))
            await wire.read_to_end()

    await me.many(50, work)


@attack
async def wire_subscriptions(me: Attacker) -> None:
    """Subscriptions to many resources and to great ones."""

    def listen(uris: list[str]) -> bytes:
        return asked(
            "subscriptions/listen", notifications={"resourceSubscriptions": uris, "toolsListChanged": True}
        )

    requests = itertools.cycle(
        [
            listen([f"book://{n}/line/1" for n in range(900)]),
            listen(["shelf://" + "x" * 8_000 + str(n) for n in range(800)]),
            listen(["book://about"]),
            listen(["shelf://" + "x" * 4 * MIB]),
            listen([""] * MIB),
        ]
    )

    async def work() -> None:
        async with me.wire() as wire:
            await me.send(wire, wire.whole(next(requests)))
            await wire.read_to_end()

    await me.many(100, work)


@attack
async def unread_messages(me: Attacker) -> None:
    """Answers of 8 MB, and logs without end, that nobody reads."""
    turns = itertools.cycle([called("much"), called("chatter", meta=LOGGED)])

    async def work() -> None:
        async with me.wire(slow_reader=True) as wire:
            for _ in range(4):
                await me.send(wire, wire.whole(next(turns)))
            await trio.sleep_forever()

    await me.many(100, work)
