"""Clients do not notice that several processes serve: whatever goes on, goes on through any of them. Real processes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from http_raw import Events, Raw, call_tool, modern
from worker_group import ENOUGH, Group, begin_session, open_group, text_of, wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them"),
]
OLD = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
ASKS: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}


@pytest.fixture(params=["lean", "hypercorn"])
def http(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def legacy(method: str, id: int = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def tool(name: str, id: int = 1, **arguments: Any) -> dict[str, Any]:
    return legacy("tools/call", id, name=name, arguments=arguments)


def answers_to(result: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters by which a request answers what was asked."""
    ((key, _),) = result["inputRequests"].items()
    accepted = {key: {"action": "accept", "content": {"value": "Ann"}}}
    return {"requestState": result["requestState"], "inputResponses": accepted}


@asynccontextmanager
async def through_the_other(group: Group, pid: int) -> AsyncGenerator[Raw]:
    """Open a connection that is with another process."""
    async with group.each() as each:
        yield next(raw for found, raw in each if found != pid)


async def test_a_session_is_served_by_who_has_it(tmp_path: Path, http: str) -> None:
    """Through either: calls, large bodies and answers, its stream, what cancels, and its end."""
    async with open_group(tmp_path, http=http) as group, group.each() as ((one, a), (other, b)):
        session = await begin_session(a)
        assert text_of(await a.send(tool("who"), session)) == str(one)
        assert text_of(await b.send(tool("who"), session)) == str(one)
        assert text_of(await b.send(tool("who"), await begin_session(b))) == str(other)
        for size in (10, 70_000, 500_000):
            text = "ä" * size
            assert text_of(await b.send(tool("echo", text=text), session)) == text
        noted = tmp_path / "hang"
        async with group.connected() as c, trio.open_nursery() as nursery:
            nursery.start_soon(c.send, tool("hang", 7, path=str(noted)), session)
            await wait_until(noted.exists)
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            assert (await b.send(cancel, session)).status == 202
        assert noted.read_text() == f"ended in {one}"

        async with b.open(None, {**session, "Accept": "text/event-stream"}, method="GET") as stream:
            events = Events(stream)
            await a.send(legacy("resources/subscribe", uri="thing://one"), session)
            async with group.each() as each:  # told in the one that has the session, and in the other one
                for pid, raw in each:
                    assert text_of(await raw.send(call_tool("touch"))) == str(pid)
                    with trio.fail_after(ENOUGH):
                        found = [await events.message(), await events.message()]
                    assert {message["method"] for message in found} == {
                        "notifications/resources/updated",
                        "notifications/example/told",
                    }
                    assert {"by": pid} in [message["params"] for message in found]
        assert (await b.send(None, session, method="DELETE")).status == 204
        for raw in (a, b):
            assert (await raw.send(legacy("ping"), session)).status == 404
        foreign = {**session, "Mcp-Session-Id": "w999.abcdef"}
        assert (await b.send(legacy("ping"), foreign)).status == 404
        too_large = await b.send(tool("echo", text="x" * 5_000_000), session)
        assert too_large.status == 413


async def test_questions_are_answered_through_the_other(tmp_path: Path) -> None:
    """In both eras; and where a state was sealed cannot be changed."""
    async with open_group(tmp_path) as group:
        for first in sorted(group.workers()):
            async with group.each() as each:
                (pid, asked), (_, answered) = sorted(each, key=lambda pair: pair[0] != first)
                await ask_and_answer(group, pid, asked, answered)


async def ask_and_answer(group: Group, pid: int, asked: Raw, answered: Raw) -> None:
    result = (await asked.send(call_tool("asker", _meta=ASKS))).message["result"]
    request = modern("tools/call", _meta=ASKS, name="asker", arguments={}, **answers_to(result))
    state: str = result["requestState"]
    tag, dot, sealed = state.partition(".")
    moved = {**request, "params": {**request["params"], "requestState": f"w3{dot}{sealed}"}}
    assert "not valid" in (await answered.send(moved)).error["message"]
    assert tag in {"w1", "w2"}
    assert text_of(await answered.send(request)) == f"Ann {pid}"
    assert "not valid" in (await answered.send(request)).error["message"]  # it was used

    session = await begin_session(asked)
    async with answered.open(tool("asker"), session) as stream:
        events = Events(stream)
        question = await events.message()
        assert question["method"] == "elicitation/create"
        accept = {"action": "accept", "content": {"value": "Bob"}}
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": accept}
        async with group.connected() as third:
            assert (await third.send(answer, session)).status == 202
        message = await events.message()
        assert message["result"]["content"][0]["text"] == f"Bob {pid}"


async def test_a_client_that_goes_cancels_through_the_other(tmp_path: Path) -> None:
    """A handler was parked, and goes on for a request that came to the other one. The connection of that ends."""
    async with open_group(tmp_path) as group, group.each() as ((one, a), (_, _b)):
        noted = tmp_path / "hang"
        first = call_tool("ask_and_hang", _meta=ASKS, path=str(noted))
        result = (await a.send(first)).message["result"]
        request = {**first, "params": {**first["params"], **answers_to(result)}}
        async with through_the_other(group, one) as b, trio.open_nursery() as nursery:
            nursery.start_soon(b.send, request)
            await wait_until(lambda: noted.exists() and noted.read_text() == "began")
            nursery.cancel_scope.cancel()
        await wait_until(lambda: noted.read_text() != "began")
        assert noted.read_text() == f"ended in {one}"


async def test_the_transport_of_2024(tmp_path: Path) -> None:
    """What is posted comes to one of them, and the session with its stream is with the other."""
    async with open_group(tmp_path) as group, group.each() as ((_, a), (other, b)):
        noted = tmp_path / "hang"
        async with b.open(None, {"Accept": "text/event-stream"}, method="GET", path="/sse") as stream:
            events = Events(stream)
            endpoint = await events.next()
            assert endpoint is not None
            at = endpoint.data.decode().partition("?")[2]
            a = Raw(a.transport, attrs.evolve(a.target, path=f"/messages?{at}"))
            for message in (
                legacy("initialize", 0, **OLD),
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                tool("who", 1),
                tool("hang", 2, path=str(noted)),
            ):
                assert (await a.send(message)).status == 202
            assert (await events.message())["id"] == 0
            assert (await events.message())["result"]["content"][0]["text"] == str(other)
            await wait_until(lambda: noted.exists() and noted.read_text() == "began")
        await wait_until(lambda: noted.read_text() != "began")
        assert noted.read_text() == f"ended in {other}"
        assert (await a.send(legacy("ping"))).status == 404


async def test_modern_listeners_hear_all(tmp_path: Path) -> None:
    """Of a change that is told in the other one."""
    async with open_group(tmp_path) as group, group.each() as ((_, a), (other, b)):
        wanted = {"resourceSubscriptions": ["thing://one"]}
        async with a.open(modern("subscriptions/listen", notifications=wanted)) as stream:
            events = Events(stream)
            with trio.fail_after(ENOUGH):
                assert "acknowledged" in (await events.message())["method"]
                assert text_of(await b.send(call_tool("touch"))) == str(other)
                assert (await events.message())["method"] == "notifications/resources/updated"


async def test_who_a_client_is(tmp_path: Path) -> None:
    """It is authenticated by the one that answers, by what a proxy in front says of it."""
    async with open_group(tmp_path) as group, group.each() as ((_, a), (_, b)):
        ann = {"X-User": "ann", "X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
        session = await begin_session(a, **ann)
        for raw in (a, b):
            assert "ann at 203.0.113.9 over https" in text_of(await raw.send(tool("caller"), session))
            stranger = {**session, "X-User": "bob"}
            assert (await raw.send(tool("caller"), stranger)).status == 404


async def test_a_state_that_is_run_again(tmp_path: Path) -> None:
    """It is good once, whichever it comes to; and not at all when who would know that has ended."""
    async with open_group(tmp_path, single_use=True) as group, group.each() as ((one, a), (_, b)):
        requests: list[dict[str, Any]] = []
        for _ in range(2):
            result = (await a.send(call_tool("again", _meta=ASKS))).message["result"]
            requests.append(modern("tools/call", _meta=ASKS, name="again", arguments={}, **answers_to(result)))
        assert text_of(await b.send(requests[0])) == f"Ann {one}"
        for raw in (a, b):
            assert "not valid" in (await raw.send(requests[0])).error["message"]
        os.kill(one, signal.SIGKILL)
        await wait_until(lambda: "another one starts" in group.said())
        assert "not valid" in (await b.send(requests[1])).error["message"]


async def test_a_task_is_found_through_the_other(tmp_path: Path) -> None:
    """It is asked for, listened to beside other things, and cancelled; each through the one that does not run it."""
    tasks: dict[str, Any] = {
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    }
    async with open_group(tmp_path) as group, group.each() as ((one, a), (other, b)):
        done = tmp_path / "done"
        begun = await a.send(call_tool("long", _meta=tasks, path=str(done)))
        id = begun.message["result"]["taskId"]
        named = {"Mcp-Name": id}
        get = modern("tasks/get", _meta=tasks, taskId=id)
        assert (await b.send(get, named)).message["result"]["status"] == "working"
        wanted = {"taskIds": [id], "resourceSubscriptions": ["thing://one"]}
        async with b.open(modern("subscriptions/listen", _meta=tasks, notifications=wanted)) as stream:
            events = Events(stream)
            with trio.fail_after(ENOUGH):
                assert (await events.message())["params"]["notifications"] == wanted
                assert (await events.message())["params"]["status"] == "working"
                async with through_the_other(group, one) as c:
                    assert text_of(await c.send(call_tool("touch"))) == str(other)
                assert (await events.message())["method"] == "notifications/resources/updated"
                done.touch()
                message = await events.message()
        assert message["params"]["status"] == "completed"
        assert message["params"]["result"]["content"][0]["text"] == str(one)
        unknown = modern("tasks/get", _meta=tasks, taskId=f"w99.{id}")
        assert "error" in (await b.send(unknown, {"Mcp-Name": f"w99.{id}"})).message
