"""Clients do not notice which process they come to: each request may come to another one. Real processes, behind nginx.

How they share a server makes no difference: processes with one store, or the workers of one program.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
import trio
from http_raw import Events, Raw, call_tool, modern
from session_calls import (
    ASKS,
    STREAM,
    accept,
    answers_to,
    begin,
    cancel,
    counting,
    legacy,
    read_progress,
    said_by,
    tool,
    updated,
)
from store_group import StoreGroup, open_store_group
from worker_group import ENOUGH, text_of

from trio_mcp import RequestError, ResourceUpdated, Revision, TaskCancelled, TaskUpdated, open_client

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="nginx and its sockets are those of Unix"),
]
LEGACY = [revision.value for revision in Revision if not revision.is_modern][1:]
TASKS: dict[str, Any] = {
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
}
LEVEL = {"io.modelcontextprotocol/logLevel": "info"}
ROUNDS = (0, 1)
"""The numbers of the processes; where it can be chosen, a round begins with that one."""


@pytest.fixture(params=["workers", "sqlite", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_all_processes_serve(kind: str) -> None:
    """What goes on with nothing is served where it comes to; a session by the process that has it."""
    async with open_store_group(kind) as group, group.connected() as raw:
        found = set[str]()
        with trio.fail_after(ENOUGH):
            while len(found) < 2:
                found.add(text_of(await raw.send(call_tool("who"))))
        for number in ROUNDS:
            await group.aim(raw, number)
            session = await begin(raw)
            assert len({text_of(await raw.send(tool("who"), session)) for _ in range(5)}) == 1
            for size in (10, 70_000, 500_000):
                text = "ä" * size
                assert text_of(await raw.send(tool("echo", text=text), session)) == text
                assert text_of(await raw.send(call_tool("echo", text=text))) == text


async def test_a_handler_asks_through_any(kind: str) -> None:
    """It is the same handler that goes on, whichever process the answers come to, and an answer counts once."""
    async with open_store_group(kind) as group, group.connected() as raw, group.connected() as other:
        for number in ROUNDS:
            await group.aim(raw, number)
            await ask_in_modern_era(group, raw, f"m{number}")
            await group.aim(raw, number)
            await ask_in_session(group, raw, other, f"s{number}")


async def ask_in_modern_era(group: StoreGroup, raw: Raw, token: str) -> None:
    given: dict[str, Any] = {}
    request: dict[str, Any] = {}
    for value in ("Ann", "Bob"):
        request = modern("tools/call", _meta=ASKS, name="ask", arguments={"token": token}, **given)
        given = answers_to((await raw.send(request)).message["result"], value)
    last = modern("tools/call", _meta=ASKS, name="ask", arguments={"token": token}, **given)
    (began,) = group.notes(token)
    assert text_of(await raw.send(last)) == f"Ann Bob {began.pid}"
    for used in (request, last):
        for _ in ROUNDS:
            assert "not valid" in (await raw.send(used)).error["message"]
    tag, dot, sealed = given["requestState"].partition(".")
    moved = modern("tools/call", _meta=ASKS, name="ask", arguments={"token": token})
    moved["params"] |= {**given, "requestState": f"{tag}9{dot}{sealed}"}
    assert "not valid" in (await raw.send(moved)).error["message"]
    assert group.events(token) == {"began": 1, "ended": 1}


async def ask_in_session(group: StoreGroup, raw: Raw, other: Raw, token: str) -> None:
    session = await begin(raw)
    async with raw.open(tool("ask", token=token), session) as stream:
        events = Events(stream)
        for value in ("Ann", "Bob"):
            question = await events.message()
            assert question["method"] == "elicitation/create"
            assert (await other.send(accept(question, value), session)).status == 202
        message = await events.message()
    (began, _) = group.notes(token)
    assert said_by(message) == f"Ann Bob {began.pid}"
    assert group.events(token) == {"began": 1, "ended": 1}


@pytest.mark.parametrize("revision", list(Revision)[2:])
async def test_clients_of_every_revision(kind: str, revision: Revision) -> None:
    """Several at once: calls with progress, questions, logs, and changes."""

    async def visit(group: StoreGroup, name: str) -> None:
        logs = list[str]()
        async with (
            open_client(
                group.parameters(),
                revision=revision,
                on_elicit=lambda asked: {"value": asked.message},
                on_log=lambda message: logs.append(str(message.data)),
            ) as client,
            client.listen(resources=[f"thing://{name}"]) as changes,
        ):
            for number in range(6):
                progress = list[float]()
                await client.call_tool(
                    "count", {"to": 20}, on_progress=lambda p, to=progress: to.append(p.progress)
                )
                assert progress == list(range(1, 21))
                token = f"{name}-{number}"
                asked = await client.call_tool("ask", {"token": token})
                assert asked.text.startswith(f"{token} one? {token} two? ")
                await client.call_tool("say", {"text": token, "level": "info"})
                await client.call_tool("touch", {"thing": name})
                assert await anext(changes) == ResourceUpdated(f"thing://{name}")
        assert logs == [f"{name}-{number}" for number in range(6)]

    async with open_store_group(kind) as group:
        with trio.fail_after(ENOUGH):
            async with trio.open_nursery() as nursery:
                for name in "abc":
                    nursery.start_soon(visit, group, name)
        assert {each.event for each in group.notes()} == {"began", "ended"}


# Changes.


async def test_listeners_hear_of_changes_in_all(kind: str) -> None:
    """Of each once, whichever process it is told in."""
    wanted = {"resourceSubscriptions": ["thing://one", "thing://two"], "toolsListChanged": True}
    async with open_store_group(kind) as group, group.connected() as raw, group.connected() as other:
        for number in ROUNDS:
            await group.aim(raw, number)
            async with raw.open(modern("subscriptions/listen", notifications=wanted)) as stream:
                events = Events(stream)
                with trio.fail_after(ENOUGH):
                    assert (await events.message())["params"]["notifications"] == wanted
                    for name in ("one", "two", "one", "one"):
                        await other.send(call_tool("touch", thing=name))
                        assert updated(await events.message()) == f"thing://{name}"
                        await other.send(call_tool("touch", thing="unwanted"))
                    for _ in range(3):
                        await other.send(call_tool("touch_tools"))
                        assert (await events.message())["method"] == "notifications/tools/list_changed"


async def test_sessions_hear_of_changes_in_all(kind: str) -> None:
    """On the stream of the session: of what it has subscribed to as long as it has, and of what is told to all."""
    async with open_store_group(kind) as group, group.connected() as raw, group.connected() as other:
        for number in ROUNDS:
            await group.aim(raw, number)
            session = await begin(raw)
            async with raw.open(None, {**session, **STREAM}, method="GET") as stream:
                events = Events(stream)
                for name in ("one", "two"):
                    await other.send(legacy("resources/subscribe", uri=f"thing://{name}"), session)
                with trio.fail_after(ENOUGH):
                    for name in ("one", "two", "one", "one"):
                        await other.send(call_tool("touch", thing=name))
                        assert updated(await events.message()) == f"thing://{name}"
                    await other.send(legacy("resources/unsubscribe", uri="thing://one"), session)
                    for name in ("one", "two"):
                        for _ in ROUNDS:
                            await other.send(call_tool("touch", thing=name))
                    for _ in ROUNDS:
                        assert updated(await events.message()) == "thing://two"
                        await other.send(call_tool("touch", thing="two"))
                    for token in "abcd":
                        await other.send(call_tool("notify", token=token))
                    tokens = list[str]()
                    while len(tokens) < 4:
                        message = await events.message()
                        if message["method"] == "notifications/example/told":
                            tokens.append(message["params"]["token"])
                assert sorted(tokens) == list("abcd")


# Streams that are taken up again.


@pytest.mark.parametrize("revision", LEGACY)
async def test_a_stream_is_taken_up_again(kind: str, revision: str) -> None:
    """Whichever process the client comes back to: it misses nothing, gets nothing twice, and can come once more."""
    async with open_store_group(kind) as group, group.connected() as raw:
        for number in ROUNDS:
            await group.aim(raw, number)
            session = await begin(raw, revision)
            gate = group.gate(str(number))
            message = counting(7, to=6, half=3, gate=str(gate))
            async with group.connected() as leaving, leaving.open(message, session) as stream:
                assert stream.status == 200
                seen = await read_progress(Events(stream), 3)
            gate.touch()
            resuming = {**session, **STREAM, "Last-Event-ID": seen[-1].last_event_id}
            for _ in range(3):
                with trio.fail_after(ENOUGH):
                    rest = await raw.send(None, resuming, method="GET")
                events = seen + rest.events
                messages = [json.loads(event.data) for event in events if event.data]
                assert [each["params"]["progress"] for each in messages[:-1]] == [1, 2, 3, 4, 5, 6]
                assert (messages[-1]["id"], said_by(messages[-1]).split()[0]) == (7, "6")
                ids = [event.last_event_id for event in events]
                assert len(set(ids)) == len(ids), ids


async def test_the_stream_of_a_session_is_taken_up_again(kind: str) -> None:
    """What was told meanwhile is on it."""
    async with open_store_group(kind) as group, group.connected() as raw:
        for number in ROUNDS:
            await group.aim(raw, number)
            session = await begin(raw)
            for name in ("one", "two", "three"):
                await raw.send(legacy("resources/subscribe", uri=f"thing://{name}"), session)
            headers: dict[str, str] = {**session, **STREAM}
            told = ("one", "two", "three", "two", "one")
            for name in told:
                await raw.send(call_tool("touch", thing=name))
                async with group.connected() as leaving, leaving.open(None, headers, method="GET") as stream:
                    events = Events(stream)
                    with trio.fail_after(ENOUGH):
                        event = await events.next()
                        while event is not None and not event.data:
                            event = await events.next()
                assert event is not None
                assert updated(json.loads(event.data)) == f"thing://{name}"
                headers["Last-Event-ID"] = event.last_event_id
                await group.aim(raw, number)


# What is given up.


async def test_a_cancellation_comes_to_the_handler(kind: str) -> None:
    """It may be sent twice, and is done once. In another session the same number is another request's."""
    async with open_store_group(kind) as group, group.connected() as raw:
        for number in ROUNDS:
            await group.aim(raw, number)
            session, foreign = await begin(raw), await begin(raw)
            tokens = [f"{number}{each}" for each in "ab"]
            async with trio.open_nursery() as nursery:
                for id, token in enumerate(tokens):
                    nursery.start_soon(send_alone, group, tool("slow", id, token=token), session)
                    await group.wait_event(token, "began")
                for fields in (foreign, foreign, session, session):
                    assert (await raw.send(cancel(0), fields)).status == 202
                await group.wait_event(tokens[0], "cancelled")
                assert group.events(tokens[1]) == {"began": 1}
                assert (await raw.send(None, session, method="DELETE")).status == 204
                await group.wait_event(tokens[1], "cancelled")
        for number in ROUNDS:
            assert group.events(f"{number}a") == group.events(f"{number}b") == {"began": 1, "cancelled": 1}


async def send_alone(group: StoreGroup, message: Any, session: dict[str, str]) -> None:
    """Send a request that is given up, over a connection of its own."""
    async with group.connected() as raw:
        answer = await raw.send(message, session)
        assert "result" not in (answer.messages or [{}])[-1]


@pytest.mark.parametrize("parked", [False, True])
async def test_a_client_that_goes_cancels_its_handler(kind: str, *, parked: bool) -> None:
    """In the modern era; also one that waited for an answer, and goes on for a request to another process."""
    async with open_store_group(kind) as group, group.connected() as raw:
        for number in ROUNDS:
            token = f"{number}"
            await group.aim(raw, number)
            name = "ask_and_be_slow" if parked else "slow"
            request = modern("tools/call", _meta=ASKS, name=name, arguments={"token": token})
            if parked:
                result = (await raw.send(request)).message["result"]
                request["params"] |= answers_to(result, "Ann")
            async with group.connected() as leaving, trio.open_nursery() as nursery:
                nursery.start_soon(leaving.send, request)
                await group.wait_event(token, "began")
                nursery.cancel_scope.cancel()
            await group.wait_event(token, "cancelled")
            assert group.events(token) == {"began": 1, "cancelled": 1}


# Sessions and whose they are.


async def test_a_session_ends_for_all(kind: str) -> None:
    """It ends once, with its stream; then it is as unknown as any other."""
    async with open_store_group(kind) as group, group.connected() as raw, group.connected() as other:
        for number in ROUNDS:
            await group.aim(raw, number)
            session = await begin(raw)
            async with other.open(None, {**session, **STREAM}, method="GET") as stream:
                events = Events(stream)
                assert (await raw.send(None, session, method="DELETE")).status == 204
                with trio.fail_after(ENOUGH):
                    while await events.next() is not None:
                        pass
            await refused_everywhere(raw, session)


async def refused_everywhere(raw: Raw, session: dict[str, str]) -> None:
    """Check that a session is unknown: whatever is asked of it, and in all processes."""
    for _ in ROUNDS:
        for message, method, more in (
            (legacy("ping"), "POST", {}),
            (None, "GET", STREAM),
            (None, "GET", {**STREAM, "Last-Event-ID": "1-0"}),
            (None, "DELETE", {}),
            (cancel(), "POST", {}),
        ):
            answer = await raw.send(message, {**session, **more}, method=method)
            assert answer.status == 404, (method, answer.status, answer.body)
        await raw.send(call_tool("who"))  # so that the other one's turn is another of them


async def test_sessions_that_there_never_were(kind: str, subtests: pytest.Subtests) -> None:
    """A process that never was, one that is, and what no process would write."""
    async with open_store_group(kind) as group, group.connected() as raw:
        session = await begin(raw)
        id = session["Mcp-Session-Id"]
        tag, dot, rest = id.rpartition(".")
        ids = [
            id[:-1],
            id + "x",
            f"w1.{rest[::-1]}",
            f"w1{dot}{'A' * len(rest)}",
            f"{tag}9{dot}{rest}",
            f"w999999999999999999999.{rest}",
            "w999.abc",
            "w0.abc",
            "w-1.abc",
            "w1.",
            "w.",
            ".",
            "../../etc/passwd",
            "*",
            "'; DROP TABLE sessions; --",
            "x" * 2_000,
        ]
        for each in ids:
            with subtests.test(id=each[:40]):
                await refused_everywhere(raw, {**session, "Mcp-Session-Id": each})
        assert (await raw.send(legacy("ping"), session)).status == 200


async def test_a_session_is_its_principals(kind: str) -> None:
    """To others it does not exist, in any process; and they do not end it."""
    async with open_store_group(kind) as group, group.connected() as raw:
        for number in ROUNDS:
            await group.aim(raw, number)
            session = await begin(raw, **{"X-User": "ann"})
            assert text_of(await raw.send(tool("caller"), session)) == "ann"
            await refused_everywhere(raw, {**session, "X-User": "bob"})
            anonymous = {name: value for name, value in session.items() if name != "X-User"}
            await refused_everywhere(raw, anonymous)
            for _ in range(3):
                assert text_of(await raw.send(tool("caller"), session)) == "ann"


async def test_log_messages(kind: str) -> None:
    """The level that a session has set counts, wherever it was set; that of a modern request is in it."""
    async with open_store_group(kind) as group, group.connected() as raw:
        for number in ROUNDS:
            await group.aim(raw, number)
            session = await begin(raw)
            assert (await raw.send(legacy("logging/setLevel", level="error"), session)).status == 200
            for _ in ROUNDS:
                for level, heard in (("info", []), ("error", ["x"])):
                    answer = await raw.send(tool("say", text="x", level=level), session)
                    assert [each["params"]["data"] for each in answer.messages[:-1]] == heard
            answer = await raw.send(call_tool("say", _meta=LEVEL, text="y", level="info"))
            assert [each["params"]["data"] for each in answer.messages[:-1]] == ["y"]


# Tasks.


async def test_a_task_goes_on_for_whoever_has_its_id(kind: str) -> None:
    """It is started, looked at, listened to, and taken up by another client of the principal; not by others."""
    async with open_store_group(kind) as group, group.connected() as raw:
        ann, bob = group.parameters("ann"), group.parameters("bob")
        for number in ROUNDS:
            await group.aim(raw, number)
            token, gate = f"t{number}", group.gate(f"t{number}")
            async with (
                open_client(ann, era="modern", tasks="always") as client,
                client.start_task("work", {"token": token, "gate": str(gate)}) as task,
            ):
                id = task.detach()
                assert id is not None
                async for state in task.updates():
                    if state.status_message is not None:
                        break
                assert (task.state and task.state.status_message) == "1 of 2"
            async with open_client(bob, era="modern") as client:
                with pytest.raises(RequestError):
                    async with client.resume_task(id):
                        pass
            async with (
                open_client(ann, era="modern") as client,
                client.listen(tasks=[id]) as changes,
                client.resume_task(id) as task,
            ):
                assert not task.is_over
                gate.touch()
                with trio.fail_after(ENOUGH):
                    result = await task.result()
                    async for change in changes:
                        assert isinstance(change, TaskUpdated)
                        if change.state is not None and change.state.status == "completed":
                            break
            (began, _) = group.notes(token)
            assert result.text == f"{token} {began.pid}"
            assert group.events(token) == {"began": 1, "ended": 1}


async def test_a_task_is_cancelled_once(kind: str) -> None:
    """Through any, also when it is asked for twice; then it is cancelled for all."""
    async with open_store_group(kind) as group, group.connected() as raw:
        for number in ROUNDS:
            await group.aim(raw, number)
            token = f"t{number}"
            begun = await raw.send(call_tool("slow_task", _meta=TASKS, token=token))
            id = begun.message["result"]["taskId"]
            await group.wait_event(token, "began")
            named = {"Mcp-Name": id}
            for _ in ROUNDS:
                answer = await raw.send(modern("tasks/cancel", _meta=TASKS, taskId=id), named)
                assert "result" in answer.message, answer.body
            await group.wait_event(token, "cancelled")
            async with open_client(group.parameters(), era="modern") as client, client.resume_task(id) as task:
                with trio.fail_after(ENOUGH), pytest.raises(TaskCancelled):
                    await task.result()
            assert group.events(token) == {"began": 1, "cancelled": 1}
            for unknown in (f"w99.{id}", id[:-1], id + "x"):
                wrong = modern("tasks/get", _meta=TASKS, taskId=unknown)
                assert "error" in (await raw.send(wrong, {"Mcp-Name": unknown})).message


async def test_a_task_asks_through_any(kind: str) -> None:
    """Each question is asked once."""
    async with open_store_group(kind) as group, group.connected() as raw:
        for number in ROUNDS:
            await group.aim(raw, number)
            token = f"t{number}"
            asked = list[str]()

            def answer(question: Any, asked: list[str] = asked) -> dict[str, Any]:
                asked.append(question.message)
                return {"value": question.message}

            async with open_client(group.parameters(), era="modern", on_elicit=answer) as client:
                with trio.fail_after(ENOUGH):
                    result = await client.call_tool("ask_in_task", {"token": token})
            assert asked == [f"{token} one?", f"{token} two?"]
            assert result.text.rpartition(" ")[0] == f"{token} one? {token} two?"
            assert group.events(token) == {"began": 1, "ended": 1}
