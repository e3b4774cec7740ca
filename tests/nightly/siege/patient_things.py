"""What somebody sends once a minute, for hours: each function is one of the `SCENARIOS`."""

from __future__ import annotations

import json
from typing import Any

import trio
from attacking import LEGACY, LOGGED, META, call, head, modern, post, request
from patience import Patient, patient

HTTP = ("lean", "hypercorn")
WIRES = ("websocket", "unix")

NOTIFIED = "notifications/cancelled"


def notification(method: str, **params: Any) -> dict[str, Any]:
    """Return a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


# Over HTTP.


@patient(*HTTP)
async def sessions(me: Patient) -> None:
    """A session that is not used."""
    async with me.connection() as connection:
        await me.begin_session(connection)
    await me.minute()


@patient(*HTTP)
async def uninitialised_sessions(me: Patient) -> None:
    """A session whose handshake is never finished."""
    async with me.connection() as connection:
        await me.begin_session(connection, is_initialized=False)
    await me.minute()


@patient("lean")
async def abandoned_calls(me: Patient) -> None:
    """A call in a session, whose client goes."""
    async with me.connection() as connection:
        mine = await me.begin_session(connection)
        await connection.send(post(request("tools/call", name="wait", arguments={"seconds": 600}), mine))
    await me.minute()


@patient(*HTTP)
async def parked_handlers(me: Patient) -> None:
    """A handler that waits for an answer which never comes."""
    await me.ask_once(call("ask"))
    await me.minute()


@patient("lean")
async def subscriptions(me: Patient) -> None:
    """A subscription whose client goes, to a resource that nobody else has named."""
    uris = [f"book://{me.number}/line/1"]
    async with me.connection() as connection:
        await connection.send(modern("subscriptions/listen", notifications={"resourceSubscriptions": uris}))
        await connection.read_some()
    await me.minute()


@patient("lean")
async def stored_events(me: Patient) -> None:
    """A session whose events are not fetched."""
    async with me.connection() as connection:
        mine = await me.begin_session(connection)
        await connection.ask(post(request("logging/setLevel", level="debug"), mine))
        arguments = {"count": 20, "size": 1_000}
        async with me.connection() as other:
            await other.send(post(request("tools/call", name="chatter", arguments=arguments), mine))
            await other.read_some()
    await me.minute()


@patient("lean")
async def sse_sessions(me: Patient) -> None:
    """A session of HTTP+SSE whose client goes."""
    async with me.connection() as connection:
        await connection.send(head(None, {}, "GET", "/sse"))
        await connection.read_some()
    await me.minute()


@patient(*HTTP)
async def refused_requests(me: Patient) -> None:
    """Something that is refused, in words of its own."""
    number = me.number
    session = {"Mcp-Session-Id": f"{number:040}", "MCP-Protocol-Version": LEGACY}
    things = (
        head(0, {"Host": f"evil-{number}.example"}),
        head(0, {"Origin": f"https://evil-{number}.example"}),
        head(0, {}, "GET", f"/{number}"),
        head(0, {}, f"PUT{number}"),
        post(request("ping"), session),
        post(f"{{{number}".encode()),
        modern(f"no/such-{number}"),
        call(f"no such tool {number}"),
        call("add", a=f"{number}", b=[]),
        modern("resources/read", uri=f"nothing://{number}"),
        modern("resources/read", uri=f"book://{number}/line/1"),
        modern("tools/list", cursor=f"forged {number}"),
        modern("tools/call", name="ask", arguments={}, requestState=f"forged{number}", inputResponses={}),
        head(None, {**session, "Last-Event-ID": f"{number}"}, "GET"),
    )
    await me.ask_once(things[number % len(things)])
    await me.minute()


@patient("lean")
async def half_bodies(me: Patient) -> None:
    """Half a body, on a connection that stays open."""
    async with me.connection() as connection, trio.open_nursery() as nursery:
        await connection.send(head(10_000) + b" " * 5_000)
        await me.minute()
        nursery.cancel_scope.cancel()


@patient("lean", events=64 * 1024)
async def things_in_a_session(me: Patient) -> None:
    """Something that means nothing, in one session that lasts."""
    async with me.connection() as connection:
        mine = await me.begin_session(connection)
    while True:
        number = await me.minute()
        things: tuple[dict[str, Any], ...] = (
            notification(NOTIFIED, requestId=number),
            notification(NOTIFIED, requestId=f"no request {number}"),
            notification("notifications/progress", progressToken=f"{number}", progress=1),
            notification(f"notifications/x{number}"),
            {"jsonrpc": "2.0", "id": number, "result": {}},
            {"jsonrpc": "2.0", "id": f"{number}", "error": {"code": 1, "message": f"{number}"}},
            request(f"no/such-{number}", number),
            request("completion/complete", number, ref={"type": "ref/prompt", "name": f"{number}"}, argument={}),
        )
        async with me.connection() as connection:
            await connection.ask(post(things[number % len(things)], mine))


@patient("lean", events=64 * 1024)
async def subscribed_and_not(me: Patient) -> None:
    """A subscription in one session that lasts, which is ended a minute later."""
    async with me.connection() as connection:
        mine = await me.begin_session(connection)
    while True:
        number = await me.minute()
        for method in ("resources/subscribe", "resources/unsubscribe"):
            async with me.connection() as connection:
                await connection.ask(post(request(method, uri=f"book://{number}/line/1"), mine))


@patient("lean", by_port=True)
async def addresses(me: Patient) -> None:
    """A call from an address that nobody has seen."""
    await me.ask_once(call("add", a=1, b=2))
    await me.minute()


@patient("lean", protected=True)
async def tokens(me: Patient) -> None:
    """A call with a new token, of somebody new."""
    name = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "add"}
    message = request("tools/call", name="add", arguments={"a": 1, "b": 2}, _meta=META)
    await me.ask_once(post(message, {**name, "Authorization": f"Bearer friend-{me.number}"}))
    await me.minute()


@patient("lean", protected=True)
async def refused_tokens(me: Patient) -> None:
    """A token that was never issued."""
    await me.ask_once(head(0, {"Authorization": f"Bearer {me.number}"}))
    await me.minute()


# Over WebSockets, and a message a line.


@patient(*WIRES)
async def things_on_a_wire(me: Patient) -> None:
    """Something that means nothing, on one connection that lasts."""
    async with me.wire() as wire:
        await wire.begin_session()
        while True:
            number = await me.minute(wire)
            things: tuple[dict[str, Any], ...] = (
                notification(NOTIFIED, requestId=number),
                notification(NOTIFIED, requestId=f"no request {number}"),
                notification("notifications/progress", progressToken=f"{number}", progress=1),
                notification(f"notifications/x{number}"),
                {"jsonrpc": "2.0", "id": number, "result": {}},
                {"jsonrpc": "2.0", "id": f"{number}", "error": {"code": 1, "message": f"{number}"}},
                request(f"no/such-{number}", number),
                request("tools/call", number, name=f"no such tool {number}", arguments={}),
                request("resources/read", number, uri=f"book://{number}/line/1"),
                request(
                    "completion/complete", number, ref={"type": "ref/prompt", "name": f"{number}"}, argument={}
                ),
            )
            await wire.send(things[number % len(things)])
            await wire.stream.send_all(wire.empty)


@patient(*WIRES)
async def parked_on_a_wire(me: Patient) -> None:
    """A handler that waits for an answer which never comes, on one connection that lasts."""
    async with me.wire() as wire:
        while True:
            await wire.send(request("tools/call", me.number, name="ask", arguments={}, _meta=META))
            await me.minute(wire)


@patient(*WIRES)
async def asked_and_given_up(me: Patient) -> None:
    """A question of the server's that is not answered, and whose request is given up a minute later."""
    async with me.wire() as wire:
        await wire.begin_session()
        while True:
            number = await me.minute(wire)
            await wire.send(request("tools/call", number, name="ask", arguments={}))
            number = await me.minute(wire)
            await wire.send(notification(NOTIFIED, requestId=number - 1))


@patient(*WIRES)
async def subscriptions_on_a_wire(me: Patient) -> None:
    """A subscription on one connection that lasts, which is given up a minute later."""
    async with me.wire() as wire:
        while True:
            number = me.number
            wanted = {"resourceSubscriptions": [f"book://{number}/line/1"], "toolsListChanged": True}
            await wire.send(request("subscriptions/listen", number, notifications=wanted, _meta=LOGGED))
            await me.minute(wire)
            await wire.send(notification(NOTIFIED, requestId=number))


@patient(*WIRES)
async def calls_and_cuts(me: Patient) -> None:
    """A call, half another one, and an end without a word."""
    async with me.wire() as wire:
        data = wire.whole(
            json.dumps(request("tools/call", 1, name="wait", arguments={"seconds": 9}, _meta=META)).encode()
        )
        await wire.stream.send_all(data + data[:-5])
    await me.minute()


@patient(*WIRES)
async def silent_wires(me: Patient) -> None:
    """A connection over which nothing comes, kept for as long as it may be."""
    async with me.stream() as stream:
        with trio.move_on_after(1):
            await stream.receive_some()
        await me.minute()
