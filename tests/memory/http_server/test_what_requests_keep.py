"""What is kept of requests over HTTP: in whose name, how much at most, what is refused, and who goes on working."""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping, MutableMapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

import attrs
import pytest
import trio
import trio.testing
from http_raw import Answer, Events, Raw, call_tool, open_raw
from http_server_fixtures import EVERY_HOST
from inside_endpoint import EventStream
from inside_http import HttpResponse
from raw import META, initialize
from shared.http_server_what_requests_keep import (
    HOG,
    HONEST,
    MIB,
    SETTINGS,
    Gate,
    bytes_of,
    calling,
    echo_server,
    large_server,
)

from trio_mcp import ConnectionLost, Context, HttpServerSettings, Limits, McpASGI, Server


class Asgi:
    """A request to an application whose host hands over its body as it comes, and takes the answer as it is read."""

    def __init__(self, app: McpASGI, address: str, headers: Mapping[str, str]) -> None:
        self._app = app
        self._scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/mcp",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": (address, 1),
        }
        self._to_app, self._receive = trio.open_memory_channel[MutableMapping[str, Any]](1000)
        self._send, self.answer = trio.open_memory_channel[MutableMapping[str, Any]](0)
        self.has_ended = trio.Event()

    async def run(self) -> None:
        try:
            await self._app(self._scope, self._receive.receive, self._send.send)
        finally:
            self.has_ended.set()

    def feed(self, data: bytes, *, more: bool) -> None:
        self._to_app.send_nowait({"type": "http.request", "body": data, "more_body": more})

    async def status(self) -> int:
        status: int = (await self.answer.receive())["status"]
        return status

    async def body(self) -> bytes:
        message = await self.answer.receive()
        data: bytes = message["body"]
        while message["more_body"]:
            message = await self.answer.receive()
            data += message["body"]
        return data


def fields_of(message: Mapping[str, Any], length: int) -> dict[str, str]:
    """Return the header fields of a modern request."""
    return {
        "Host": "localhost",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(length),
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": str(message["method"]),
        "Mcp-Name": str(message["params"]["name"]),
    }


async def test_unfinished_bodies_of_an_application_are_kept_in_their_senders_names(
    autojump_clock: object,
) -> None:
    """Under any host: beyond its share a client is refused, what had begun goes on, and so do other addresses."""
    server = echo_server()
    app = McpASGI(server, HttpServerSettings(message_timeout=600))
    message = call_tool("echo", text="x" * 100_000)
    async with app.running(), trio.open_nursery() as nursery:
        hogs = [Asgi(app, "198.51.100.1", fields_of(message, 200_000)) for _ in range(20)]
        for hog in hogs:
            nursery.start_soon(hog.run)
            hog.feed(b" " * 120_000, more=True)
            await trio.testing.wait_all_tasks_blocked()
        for hog in hogs[8:]:
            assert await hog.status() == 429
            assert b"max_kept_bytes" in await hog.body()
            await hog.has_ended.wait()
        assert bytes_of(server).of == {"bodies": 1 * MIB}

        body = json.dumps(message).encode()
        honest = Asgi(app, "203.0.113.2", fields_of(message, len(body)))
        nursery.start_soon(honest.run)
        honest.feed(body, more=False)
        assert await honest.status() == 200
        assert b"100000" in await honest.body()
        nursery.cancel_scope.cancel()


COSTLY: Final[list[Any]] = [[]] * 1500
"""About 10 KB as it is sent, and some 250 KB of objects, as estimated."""

MANY_ERAS: Final = pytest.mark.parametrize("era", ["modern", "legacy", "stateless", "batch"])


def plain_call(items: list[Any], id: int = 1) -> dict[str, Any]:
    """Return a request of the legacy era."""
    params = {"name": "hold", "arguments": {"items": items}}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


async def begin(raw: Raw, headers: Mapping[str, str], revision: str = "2025-11-25") -> dict[str, str]:
    """Begin a session, and return the header fields of its requests."""
    answer = await raw.send(initialize(revision), headers)
    fields = {**headers, "Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": revision}
    assert (await raw.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, fields)).status == 202
    return fields


@MANY_ERAS
@EVERY_HOST
async def test_requests_in_flight_cost_what_their_objects_take(
    era: str, under: str, autojump_clock: object
) -> None:
    """Four MiB of brackets are a hundred of objects: the client with most is refused, and others are served."""
    gate = Gate()
    settings = attrs.evolve(SETTINGS, stateless=era == "stateless")
    async with open_raw(gate.server, settings) as raw, trio.open_nursery() as nursery:
        answers: dict[str, list[Answer]] = {"hog": [], "honest": []}
        is_batch, revision = era == "batch", "2025-03-26" if era == "batch" else "2025-11-25"

        async def fields_of(address: dict[str, str]) -> dict[str, str]:
            return await begin(raw, address, revision) if era in ("batch", "legacy") else dict(address)

        async def ask(name: str, fields: dict[str, str]) -> None:
            message: Any = call_tool("hold", items=COSTLY) if era == "modern" else plain_call(COSTLY)
            answers[name].append(await raw.send([message] if is_batch else message, fields))

        for fields in [await fields_of(HOG) for _ in range(20)]:
            nursery.start_soon(ask, "hog", fields)
            await trio.testing.wait_all_tasks_blocked()
        inside = gate.inside
        assert 2 <= inside < 8
        assert len(answers["hog"]) == 20 - inside
        for answer in answers["hog"]:
            assert answer.status == 429
            assert answer.headers["retry-after"] == "1"
            assert "max_kept_bytes" in answer.error["message"]
        of = bytes_of(gate.server).of["requests"]
        assert 200_000 * inside < of < 350_000 * inside

        nursery.start_soon(ask, "honest", await fields_of(HONEST))
        await trio.testing.wait_all_tasks_blocked()
        assert gate.inside == inside + 1
        gate.opened.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [answer.status for answer in answers["honest"]] == [200]
        assert len(answers["hog"]) == 20
        assert "requests" not in bytes_of(gate.server).of


@EVERY_HOST
async def test_a_message_that_costs_more_than_there_ever_is_says_so(under: str, autojump_clock: object) -> None:
    """To ask again is of no use: 413, with the limit's name."""
    gate = Gate(Limits(max_message_bytes=12_500))
    async with open_raw(gate.server) as raw:
        answer = await raw.send(call_tool("hold", items=COSTLY))
        assert answer.status == 413
        assert "8 times max_message_bytes is 100000" in answer.error["message"]
    gate = Gate(Limits(max_kept_bytes_per_principal=100_000))
    async with open_raw(gate.server) as raw:
        answer = await raw.send(call_tool("hold", items=COSTLY))
        assert answer.status == 413
        assert "max_kept_bytes_per_principal is 100000" in answer.error["message"]
        assert bytes_of(gate.server).lent == 0


async def test_a_request_whose_client_has_left_is_kept_until_it_is_served(autojump_clock: object) -> None:
    """In the legacy era a handler goes on when its POST ends, with all it was given."""
    gate = Gate()
    async with open_raw(gate.server, SETTINGS) as raw:
        fields = await begin(raw, HOG)
        for id in range(2):
            with trio.move_on_after(1):
                await raw.send(plain_call(COSTLY, id), fields)
        await trio.testing.wait_all_tasks_blocked()
        assert gate.inside == 2
        assert bytes_of(gate.server).of["requests"] > 2 * 200_000
        gate.opened.set()
        await trio.testing.wait_all_tasks_blocked()
        assert "requests" not in bytes_of(gate.server).of


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_notifications_are_kept_until_they_are_handled(era: str, autojump_clock: object) -> None:
    """Their POSTs are answered at once."""
    gate = Gate()
    note: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/note", "params": {"items": COSTLY}}
    async with open_raw(gate.server, SETTINGS) as raw:
        fields = dict(HOG)
        if era == "modern":
            note["params"]["_meta"] = META
            fields |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "notifications/note"}
        else:
            fields = await begin(raw, HOG)
        found = [(await raw.send(note, fields)).status for _ in range(8)]
        assert found[:2] == [202, 202]
        assert found[-2:] == [429, 429]
        assert bytes_of(gate.server).of["requests"] > 2 * 200_000
        gate.opened.set()
        await trio.testing.wait_all_tasks_blocked()
        assert "requests" not in bytes_of(gate.server).of


async def test_messages_of_http_with_sse_are_kept_until_they_are_served(autojump_clock: object) -> None:
    """Each POST is answered at once, and its message waits in the session."""
    gate = Gate()
    settings = attrs.evolve(SETTINGS, sse=True)
    fields = {**HOG, "Accept": "text/event-stream"}
    async with (
        open_raw(gate.server, settings) as raw,
        raw.open(None, fields, method="GET", path="/sse") as response,
    ):
        events = Events(response)
        first = await events.next()
        assert first is not None
        path = first.data.decode()
        assert (await raw.send(initialize("2024-11-05"), HOG, path=path)).status == 202
        await events.message()
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await raw.send(note, HOG, path=path)).status == 202
        found = [(await raw.send(plain_call(COSTLY, id), HOG, path=path)).status for id in range(8)]
        assert found[:2] == [202, 202]
        assert found[-2:] == [429, 429]
        assert bytes_of(gate.server).of["requests"] > 2 * 200_000
        gate.opened.set()
        for _ in range(found.count(202)):
            assert (await events.message())["result"]["content"][0]["text"] == "1500"
        assert "requests" not in bytes_of(gate.server).of


async def begin_if(era: str, raw: Raw, address: dict[str, str]) -> dict[str, str]:
    return dict(address) if era == "modern" else await begin(raw, address)


@pytest.mark.parametrize("era", ["modern", "legacy"])
@EVERY_HOST
async def test_of_answers_that_are_not_read_no_more_are_made(
    era: str, under: str, autojump_clock: object
) -> None:
    """Their places were free before they were sent: forty of 8 MB were 600 MiB. Those that were made can be read."""
    gate = large_server()
    async with open_raw(gate.server, SETTINGS) as raw, AsyncExitStack() as stack:
        fields = await begin_if(era, raw, HOG)
        responses: list[HttpResponse] = []
        for id in range(10):
            message = calling(era, "large", size=300_000) | {"id": id}
            responses.append(await stack.enter_async_context(raw.open(message, fields)))
            await trio.testing.wait_all_tasks_blocked()
            assert bytes_of(gate.server).lent <= 1 * MIB
        assert [response.status for response in responses[:3]] == [200] * 3
        for response in responses[3:]:
            refusal = await response.read(1 << 10)
            assert response.status == (200 if era == "legacy" else 429)
            assert b"there is no room for" in refusal
            assert b"max_kept_bytes" in refusal
        assert bytes_of(gate.server).of["answers"] >= 3 * 300_000

        answer = await raw.send(calling(era, "large", size=300_000), await begin_if(era, raw, HONEST))
        assert answer.status == 200
        assert len(answer.body) > 300_000

        assert len(await responses[0].read(1 << 20)) > 300_000
        await stack.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert "answers" not in bytes_of(gate.server).of


@EVERY_HOST
async def test_an_answer_that_finds_no_room_is_an_error(
    under: str, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Something is always answered: here, that it is too much, and when to ask again."""
    caplog.set_level("INFO", "trio_mcp.http")
    gate = large_server()
    async with open_raw(gate.server, SETTINGS) as raw, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(raw.send, call_tool("hold", items=COSTLY), HOG)
        await gate.until_inside(3)
        answer = await raw.send(call_tool("large", size=300_000), HOG)
        assert answer.status == 429
        assert answer.headers["retry-after"] == "1"
        assert "no room for the answer" in answer.error["message"]
        assert "max_kept_bytes_per_principal" in answer.error["message"]
        assert "no room for the answer" in caplog.text
        assert (await raw.send(call_tool("large", size=300_000), HONEST)).status == 200
        gate.opened.set()


@pytest.mark.parametrize("era", ["modern", "legacy"])
@EVERY_HOST
async def test_streams_that_are_not_read_are_cut_for_lack_of_room(
    era: str, under: str, autojump_clock: object
) -> None:
    """Each may have `max_outbox_bytes` ready, and there are as many as connections."""
    most = (1 if era == "modern" else 4) * MIB  # what a session says is kept for who comes back, too
    limits = Limits(max_kept_bytes=2 * most, max_kept_bytes_per_principal=most, max_outbox_bytes=256 * 1024)
    gate = large_server(limits)
    async with open_raw(gate.server, SETTINGS) as raw, AsyncExitStack() as stack:

        def chatting() -> dict[str, Any]:
            message = calling(era, "chat")
            message["params"].setdefault("_meta", {})["progressToken"] = 1
            return message

        for _ in range(5):
            fields = await begin_if(era, raw, HOG)
            with suppress(ConnectionLost):  # cut before its head was sent
                await stack.enter_async_context(raw.open(chatting(), fields))
            await trio.testing.wait_all_tasks_blocked()
            assert 0 < bytes_of(gate.server).lent <= most
        answer = await raw.send(chatting(), await begin_if(era, raw, HONEST))
        assert answer.status == 200
        assert answer.message["result"]["content"][0]["text"] == "done"
        assert len(answer.messages) == 201
        await stack.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert "answers" not in bytes_of(gate.server).of


@EVERY_HOST
async def test_answers_that_are_not_read_take_places(under: str, autojump_clock: object) -> None:
    """As many as may be served may wait to be read; then their client asks nothing more."""
    gate = large_server(Limits())
    settings = attrs.evolve(SETTINGS, max_requests_per_principal=2)
    async with open_raw(gate.server, settings) as raw, AsyncExitStack() as stack:
        statuses: list[int] = []
        for _ in range(5):
            response = await stack.enter_async_context(raw.open(call_tool("large", size=100_000), HOG))
            statuses.append(response.status)
            await trio.testing.wait_all_tasks_blocked()
        assert statuses == [200, 200, 200, 429, 429]
        assert (await raw.send(call_tool("large", size=100_000), HONEST)).status == 200


async def test_what_an_ended_session_has_queued_is_kept_until_it_is_read(autojump_clock: object) -> None:
    """Whoever reads it gets all of it, in pieces; who does not read it pays for it, although the session is over."""
    limits = Limits(max_kept_bytes=8 * MIB, max_kept_bytes_per_principal=4 * MIB, max_outbox_bytes=1 * MIB)
    server: Server[Any] = Server("s", limits=limits)

    @server.tool
    async def chat(ctx: Context) -> str:
        for _ in range(15):
            await ctx.info("x" * 60_000)
        return "said"

    async with open_raw(server, attrs.evolve(SETTINGS, json_only=True)) as raw:
        fields = await begin(raw, HOG)
        assert (await raw.send(calling("legacy", "chat"), fields)).status == 200
        assert bytes_of(server).of["streams"] > 15 * 60_000
        listening = {**fields, "Accept": "text/event-stream"}
        async with raw.open(None, listening, method="GET") as response:
            await trio.testing.wait_all_tasks_blocked()
            assert 0 < bytes_of(server).of["answers"] <= 2 * 256 * 1024 + 64 * 1024
            assert (await raw.send(None, fields, method="DELETE")).status == 204
            await trio.testing.wait_all_tasks_blocked()
            assert bytes_of(server).of["streams"] > 10 * 60_000
            assert "sessions" not in bytes_of(server).of
            events = Events(response)
            for _ in range(15):
                assert len((await events.message())["params"]["data"]) == 60_000
        await trio.testing.wait_all_tasks_blocked()
        assert not bytes_of(server).of


async def test_what_nobody_will_read_goes_with_its_session(autojump_clock: object) -> None:
    """When it is given back it is gone, and not when the garbage collector happens to come."""
    server: Server[Any] = Server("s", limits=Limits(max_outbox_bytes=4 * MIB))

    @server.tool
    async def chat(ctx: Context) -> str:
        for _ in range(50):
            await ctx.info("x" * 60_000)
        return "said"

    def queued() -> int:
        streams = [found for found in gc.get_objects() if isinstance(found, EventStream)]
        return sum(len(data) for stream in streams for data in stream._queue.values())

    gc.collect()
    gc.disable()
    try:
        async with open_raw(server, attrs.evolve(SETTINGS, json_only=True)) as raw:
            fields = await begin(raw, HOG)
            assert (await raw.send(calling("legacy", "chat"), fields)).status == 200
            assert queued() > 50 * 60_000
            assert (await raw.send(None, fields, method="DELETE")).status == 204
            await trio.testing.wait_all_tasks_blocked()
            assert not bytes_of(server).of
            assert not queued()
    finally:
        gc.enable()


async def test_what_a_session_never_takes_is_given_back_when_its_client_leaves(autojump_clock: object) -> None:
    """It has no room for requests for a while, and takes neither that POST nor what it weighs."""
    gate = Gate(Limits(max_inbound_requests=1, max_waiting_bytes=1, slow_consumer_timeout=3_600))
    async with open_raw(gate.server) as raw, trio.open_nursery() as nursery:
        begun = await raw.send(initialize("2025-11-25"))
        headers = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": begun.headers["mcp-session-id"]}

        def post(id: int, items: list[Any]) -> trio.CancelScope:
            params = {"name": "hold", "arguments": {"items": items}}
            message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
            scope = trio.CancelScope()

            async def send() -> None:
                with scope:
                    await raw.send(message, headers)

            nursery.start_soon(send)
            return scope

        for id in (1, 2):
            post(id, [])
            await trio.testing.wait_all_tasks_blocked()
        assert "requests" not in bytes_of(gate.server).of
        leaving = post(3, ["x" * 100_000])
        await trio.testing.wait_all_tasks_blocked()
        assert bytes_of(gate.server).of["requests"] > 100_000
        leaving.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert "requests" not in bytes_of(gate.server).of
        gate.opened.set()
