"""Middleware of a client: everything passes, may be changed, answered or dropped, and costs nothing if not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS, LEGACY_ENDS
from inside_peer import compose
from scripted_server import LEGACY, MODERN, ScriptedServer
from tape import Tape
from wires import answer

from trio_mcp import (
    CallNext,
    Encoded,
    LocalProtocolError,
    Message,
    Middleware,
    Progress,
    RequestError,
    Revision,
    open_client,
)

SAMPLING: dict[str, Any] = {"messages": [], "maxTokens": 1}


def recorder(into: list[tuple[str, str, bool]]) -> Middleware:
    async def record(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        into.append((message.direction, message.method, message.is_notification))
        return await call_next(message)

    return record


@pytest.mark.parametrize("revision", ENDS)
async def test_everything_passes_the_handshake_included(revision: Revision) -> None:
    seen: list[tuple[str, str, bool]] = []
    server = ScriptedServer(revision)
    server.script["tools/call"] = server.complete(content=[])
    async with open_client(
        server, revision=revision, middleware=[recorder(seen)], roots=[], on_sample=lambda _: "hi"
    ) as client:
        await client.call_tool("x")
        await client.roots_changed()
        server.tell("notifications/tools/list_changed")
        await trio.testing.wait_all_tasks_blocked()
        if not revision.is_modern:
            await server.ask("ping", id="q1")
            await server.ask("sampling/createMessage", SAMPLING, id="q2")
            await server.ask("x/y", id="q3")
    if revision.is_modern:
        assert seen == [
            ("sent", "server/discover", False),
            ("sent", "tools/call", False),
            ("received", "notifications/tools/list_changed", True),
        ]
    else:
        assert seen == [
            ("sent", "initialize", False),
            ("sent", "notifications/initialized", True),
            ("sent", "tools/call", False),
            ("sent", "notifications/roots/list_changed", True),
            ("received", "notifications/tools/list_changed", True),
            ("received", "ping", False),
            ("received", "sampling/createMessage", False),
            ("received", "x/y", False),
        ]


@pytest.mark.parametrize("revision", ENDS)
async def test_what_is_sent_and_received_can_be_changed(revision: Revision) -> None:
    async def change(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        if message.method != "x/y":
            return await call_next(message)
        result = await call_next(message.evolve(params={**(message.params or {}), "added": 1}))
        return None if result is None else {**result, "and": "more"}

    server = ScriptedServer(revision, {"x/y": lambda message: {"got": message["params"]["added"]}})
    heard: list[Any] = []

    async def serve(params: Mapping[str, Any]) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"served": params["added"]}

    async with open_client(
        server,
        revision=revision,
        middleware=[change],
        on_notification=lambda _, params: heard.append(params["added"]),
        request_handlers={"x/y": serve},
    ) as client:
        assert await client.request("x/y", {}) == {"got": 1, "and": "more"}
        await client.notify("x/y", {"b": 2})
        server.tell("x/y")
        await trio.testing.wait_all_tasks_blocked()
        if not revision.is_modern:
            assert (await server.ask("x/y"))["result"] == {"served": 1, "and": "more"}
    assert heard == [1]
    assert server.notifications("x/y")[0]["params"] == {"b": 2, "added": 1}


async def test_the_first_is_the_outermost() -> None:
    order: list[str] = []

    def named(name: str) -> Middleware:
        async def middleware(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
            order.append(f"{name} in")
            try:
                return await call_next(message)
            finally:
                order.append(f"{name} out")

        return middleware

    server = ScriptedServer(MODERN, {"x/y": {}})
    async with open_client(server, middleware=[named("a"), named("b")]) as client:
        order.clear()
        await client.request("x/y")
    assert order == ["a in", "b in", "b out", "a out"]


async def test_a_request_can_be_answered_without_being_sent() -> None:
    async def cache(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        return {"kept": True} if message.method == "x/y" else await call_next(message)

    server = ScriptedServer(MODERN)
    async with open_client(server, middleware=[cache]) as client:
        with trio.testing.assert_checkpoints():
            assert await client.request("x/y") == {"kept": True}
    assert server.requests("x/y") == []


async def test_notifications_can_be_dropped() -> None:
    async def drop(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        return None if message.is_notification else await call_next(message)

    heard: list[str] = []
    server = ScriptedServer(MODERN)
    async with open_client(
        server, middleware=[drop], on_notification=lambda method, _: heard.append(method)
    ) as client:
        with trio.testing.assert_checkpoints():
            await client.notify("x/y")
        server.tell("x/y")
        await trio.testing.wait_all_tasks_blocked()
    assert server.notifications("x/y") == []
    assert heard == []


async def test_a_request_can_be_tried_again() -> None:
    async def retry(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        try:
            return await call_next(message)
        except RequestError:
            return await call_next(message)

    tries: list[object] = []

    def flaky(message: dict[str, Any]) -> dict[str, Any]:
        tries.append(message["id"])
        if len(tries) == 1:
            return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": 1, "message": "busy"}}
        return {"ok": True}

    async with open_client(ScriptedServer(MODERN, {"x/y": flaky}), middleware=[retry]) as client:
        assert await client.request("x/y") == {"ok": True}
    assert len(set(tries)) == 2


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_question_of_the_server_can_be_answered_or_refused(revision: Revision) -> None:
    async def guard(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        if message.direction == "received" and message.method == "x/forbidden":
            raise RequestError(-32001, "not here")
        if message.direction == "received" and message.method == "x/unknown":
            return {"known": "to the middleware"}
        return await call_next(message)

    server = ScriptedServer(revision)
    async with open_client(server, revision=revision, middleware=[guard]):
        assert (await server.ask("x/forbidden", id="a"))["error"] == {"code": -32001, "message": "not here"}
        assert (await server.ask("x/unknown", id="b"))["result"] == {"known": "to the middleware"}
        assert (await server.ask("x/y", id="c"))["error"]["code"] == -32601
        assert (await server.ask("ping", id="d"))["result"] == {}


async def test_a_modern_server_gets_no_answer_through_middleware_either() -> None:
    server = ScriptedServer(MODERN)
    seen: list[tuple[str, str, bool]] = []
    async with open_client(server, middleware=[recorder(seen)]):
        server.say({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
        await trio.testing.wait_all_tasks_blocked()
    assert [message for message in server.sent if message.get("id") == "q"] == []
    assert seen == [("sent", "server/discover", False)]


async def test_middleware_that_loses_a_result_is_reported() -> None:
    async def lose(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        result = await call_next(message)
        return result if message.method in {"initialize", "notifications/initialized"} else None

    server = ScriptedServer(LEGACY[-1], {"x/y": {}})
    async with open_client(server, revision=LEGACY[-1], middleware=[lose]) as client:
        with pytest.raises(TypeError, match="the middleware returned no result for x/y"):
            await client.request("x/y")
        assert (await server.ask("ping"))["error"]["code"] == -32603


async def test_a_deadline_covers_the_middleware(autojump_clock: trio.testing.MockClock) -> None:
    """And a request it is waiting for is given up as ever, once."""
    tape = Tape()

    async def slow(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        await trio.sleep(3 if message.method == "x/y" else 0)
        return await call_next(message)

    server = ScriptedServer(MODERN, {"x/y": lambda _: None})
    async with open_client(server, middleware=[slow], on_frame=tape) as client:
        for seconds in (2, 4):
            with trio.move_on_after(seconds):
                await client.request("x/y")
        await trio.testing.wait_all_tasks_blocked()
    (request,) = server.requests("x/y")
    assert tape.goodbyes() == {request["id"]: 1}


async def test_progress_and_cancellation_stay_with_their_request() -> None:
    """They are not shown: giving up waits for nobody, and progress goes where it is wanted."""
    seen: list[tuple[str, str, bool]] = []
    server = ScriptedServer(MODERN)

    def call(message: dict[str, Any]) -> dict[str, Any]:
        server.tell(
            "notifications/progress", progressToken=message["params"]["_meta"]["progressToken"], progress=1
        )
        return answer(message, {})

    server.script["x/y"] = call
    progress: list[Progress] = []
    async with open_client(server, middleware=[recorder(seen)]) as client:
        await client.request("x/y", on_progress=progress.append)
    assert [p.progress for p in progress] == [1]
    assert seen[1:] == [("sent", "x/y", False)]


def test_without_middleware_nothing_is_wrapped() -> None:
    async def innermost(message: Message) -> Mapping[str, Any] | None:
        raise NotImplementedError

    assert compose([], innermost) is innermost


# Batches (2025-03-26 only).

BATCHING = Revision.V2025_03_26


async def test_a_batch_is_not_sent_through_middleware() -> None:
    async with open_client(ScriptedServer(BATCHING), revision=BATCHING, middleware=[recorder([])]) as client:
        with pytest.raises(
            LocalProtocolError, match="requests that pass through middleware are not sent as a batch"
        ):
            await client.request_many([("x/y", None)], batch=True)


async def test_a_batch_of_the_server_is_answered_as_one() -> None:
    """What would be answered on the spot takes its way through the middleware, and the batch waits for it."""
    seen: list[tuple[str, str, bool]] = []
    frames: list[bytes] = []
    server = ScriptedServer(BATCHING)
    async with open_client(
        server,
        revision=BATCHING,
        middleware=[recorder(seen)],
        on_frame=lambda direction, data: frames.append(data) if direction == "sent" else None,
    ):
        seen.clear()
        server.say(b'[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"b","method":"x/y"}]')
        server.say(b"what a library prints")
        await server.wait_for(lambda message: message.get("id") == "b")
    assert sorted(seen) == [("received", "ping", False), ("received", "x/y", False)]
    assert frames[-1].startswith(b"[")


async def test_what_is_encoded_already_is_shown_in_plain() -> None:
    seen: list[Message] = []

    async def look(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        seen.append(message)
        return await call_next(message)

    server = ScriptedServer(MODERN)
    async with open_client(server, middleware=[look]) as client:
        await client._reconnecting.agreed.peer.notify("x/y", Encoded(b'{"a":1}'))
        await server.wait_for(lambda message: message.get("method") == "x/y")
    assert seen[-1] == Message("sent", "x/y", {"a": 1}, is_notification=True)
