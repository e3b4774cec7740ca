"""The audit record of each refusal: over HTTP, over sockets, and of single messages."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest
import trio
from http_raw import call_tool, modern, open_raw
from http_server_fixtures import EVERY_HOST
from shared.http_server_audit_records import audited as audited
from shared.http_server_audit_records import make_server, told

from trio_mcp import (
    CallNext,
    Context,
    HttpCall,
    HttpServerSettings,
    Incoming,
    Message,
    Outgoing,
    RequestError,
    Server,
    memory_channel_pair,
    open_client,
)

pytestmark = [pytest.mark.timeout(60)]


async def authenticate(call: HttpCall) -> str | None:
    return {"Bearer of-ann": "ann"}.get(call.headers.get("authorization") or "")


@EVERY_HOST
@pytest.mark.usefixtures("under")
async def test_each_refusal_over_http_is_one_record(audited: pytest.LogCaptureFixture) -> None:
    """Status, path, address and principal; nothing of a token."""
    settings = HttpServerSettings(max_body_bytes=4_000)
    good = {"Authorization": "Bearer of-ann"}
    async with open_raw(make_server(), settings, authenticate=authenticate) as raw:
        await raw.send(call_tool("echo", text="a"), good)
        assert not told(audited, "status")
        await raw.send(call_tool("echo", text="a"), {"Authorization": "Bearer secret-of-nobody"})
        await raw.send(call_tool("echo", text="a"), {**good, "Origin": "https://evil.example"})
        await raw.send(call_tool("echo", text="a" * 5_000), good)
        await raw.send(call_tool("echo", text="a"), good, path="/elsewhere")
        await raw.send(b"{", good)
        await raw.send(modern("no/such"), good)
    assert told(audited, "event", "status", "target", "principal") == [
        ("http", 401, "/mcp", None),
        ("http", 403, "/mcp", None),
        ("http", 413, "/mcp", "ann"),
        ("http", 404, "/elsewhere", None),
        ("http", 400, "/mcp", "ann"),
        ("request", None, None, "ann"),
    ]
    assert all(client is not None for (client,) in told(audited, "client"))
    assert all(outcome == "refused" for (outcome,) in told(audited, "outcome"))
    assert "secret" not in repr([record.__dict__ for record in audited.records])


@pytest.mark.usefixtures("under")
async def test_a_rate_that_is_exceeded_is_recorded(audited: pytest.LogCaptureFixture) -> None:
    """429, with the name of the limit."""
    settings = HttpServerSettings(rate="2/2 seconds")
    async with open_raw(make_server(), settings) as raw:
        statuses = {(await raw.send(call_tool("echo", text="a"))).status for _ in range(4)}
    assert statuses == {200, 429}
    for status, reason in told(audited, "status", "reason"):
        assert status == 429
        assert "HttpServerSettings.rate" in str(reason)


async def test_messages_that_are_refused_are_recorded(audited: pytest.LogCaptureFixture) -> None:
    """What cannot be read, an id that is taken, a method that does not exist, and no room."""
    server = make_server()
    ours, theirs = memory_channel_pair()
    requests = [
        b"{",
        b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
        json.dumps(call_tool("stay", id=2)).encode(),
        b'{"jsonrpc": "2.0", "id": 2, "method": "ping"}',
    ]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_channel, theirs)
        answers = 0
        for request in requests:
            await ours.send([Outgoing(request)])
        while answers < 3:
            answers += sum(isinstance(each, Incoming) for each in await ours.receive())
        await ours.aclose()
    found = told(audited, "event", "code", "method", "transport")
    assert found == [
        ("message", -32700, None, "memory"),
        ("message", -32600, None, "memory"),
        ("request", -32600, "ping", "memory"),
    ]


async def pass_on(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
    """A middleware: what it may change is routed, and refused, before it sees it."""
    return await call_next(message)


@pytest.mark.usefixtures("under")
async def test_what_is_refused_behind_middleware_names_the_transport(audited: pytest.LogCaptureFixture) -> None:
    """And the server, also where the tasks are those of another host."""
    server: Server[Any] = Server("guarded", middleware=[pass_on])
    async with open_raw(server, HttpServerSettings(), authenticate=authenticate) as raw:
        await raw.send(modern("no/such"), {"Authorization": "Bearer of-ann"})
    assert told(audited, "event", "code", "method", "transport", "principal") == [
        ("request", -32601, "no/such", "http", "ann")
    ]


@pytest.mark.usefixtures("under")
@pytest.mark.parametrize("of", ["the tool", "the server"])
async def test_what_is_used_too_often_is_recorded_as_what_it_is(
    audited: pytest.LogCaptureFixture, of: str
) -> None:
    """Whose rate it is stands in the reason; the target is that of the request."""
    server: Server[Any] = Server("guarded", rate="1/minute" if of == "the server" else None)

    @server.tool(rate=None if of == "the server" else "1/minute")
    async def echo(text: str) -> str:
        return text

    async with open_raw(server, HttpServerSettings(), authenticate=authenticate) as raw:
        for _ in range(2):
            await raw.send(call_tool("echo", text="a"), {"Authorization": "Bearer of-ann"})
    names = ("event", "limit", "code", "method", "target", "transport", "principal")
    assert told(audited, *names) == [("request", "rate", -31002, "tools/call", "echo", "http", "ann")]
    ((client, reason),) = told(audited, "client", "reason")
    assert client in {"127.0.0.1", "testclient", "client"}
    name = "the tool echo" if of == "the tool" else "the server guarded"
    assert reason == f"{name} may be used 1/minute by each client (rate): try again in 60 s"


async def test_each_of_two_servers_has_its_own_records(caplog: pytest.LogCaptureFixture) -> None:
    """In one program, under one log; what clients refuse is none of them."""
    caplog.set_level(logging.INFO, logger="trio_mcp.audit")
    one: Server[Any] = Server("one")
    other: Server[Any] = Server("other")

    @one.tool
    async def ask_other(ctx: Context) -> str:
        with pytest.raises(RequestError):
            async with open_client(other) as client:
                await client.request("no/such")
        with pytest.raises(RequestError):
            await ctx.request("no/such/at/the/client")
        return "done"

    async with one.open() as running, other.open() as running_other, trio.open_nursery() as nursery:
        for each in (running, running_other):
            ours, theirs = memory_channel_pair()
            nursery.start_soon(each.serve_channel, theirs)
            async with open_client(ours, revision="2025-11-25") as client:
                with pytest.raises(RequestError):
                    await client.request("no/such/here")
                if each is running:
                    await client.call_tool("ask_other")
    assert told(caplog, "method", "server") == [
        ("no/such/here", "one"),
        ("no/such", "other"),
        ("no/such/at/the/client", None),
        ("no/such/here", "other"),
    ]
