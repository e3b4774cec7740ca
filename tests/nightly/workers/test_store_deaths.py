"""A session outlives its process: whichever it comes to next takes it over, and goes on with it. Real processes.

Each test chooses the process that a request comes to, and the one that dies or leaves.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
import trio
from http_raw import Answer, Events, Raw, call_tool, modern
from session_calls import (
    ASKS,
    STREAM,
    accept,
    answers_to,
    begin,
    counting,
    legacy,
    read_progress,
    said_by,
    tool,
    updated,
)
from store_group import Member, open_store_group
from worker_group import text_of

from trio_mcp import HttpServerParameters, McpError, RequestError, Revision, open_client

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Unix sockets, and processes as Linux has them"),
]
LEGACY = [revision.value for revision in Revision if not revision.is_modern][1:]
GONE = (OSError, EOFError, trio.BrokenResourceError, McpError)
"""How a connection may break."""


@pytest.fixture(params=["sqlite", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[signal.SIGKILL, signal.SIGTERM], ids=["killed", "left"])
def how(request: pytest.FixtureRequest) -> signal.Signals:
    number: signal.Signals = request.param
    return number


async def end(member: Member, how: signal.Signals) -> None:
    """End a process, and look that it has ended as it should."""
    with trio.fail_after(60):
        assert await member.end(how) == (0 if how == signal.SIGTERM else -how)


def status_of(answer: Answer) -> str:
    """Return the status of an answer, and what it says."""
    return f"{answer.status} {answer.body[:300]!r}"


# What goes on.


@pytest.mark.parametrize("revision", LEGACY)
async def test_a_session_goes_on_elsewhere(kind: str, revision: str, how: signal.Signals) -> None:
    """With what was agreed and set in it. It can be taken over again and again, and ends where it is then."""
    async with open_store_group(kind, nginx=False) as group:
        a, b = group.members
        async with a.connected() as at_a, b.connected() as at_b:
            session = await begin(at_a, revision, **{"X-User": "ann"})
            assert (await at_a.send(legacy("logging/setLevel", level="error"), session)).status == 200
            for raw in (at_a, at_b):
                assert text_of(await raw.send(tool("who"), session)) == str(a.pid)
        await end(a, how)
        for turn, (member, other) in enumerate(((b, a), (a, b), (b, a))):
            if turn:
                await end(other, how)
            async with member.connected() as raw:
                stranger = await raw.send(tool("who"), {**session, "X-User": "bob"})
                assert stranger.status == 404, status_of(stranger)
                answer = await raw.send(tool("who"), session)
                assert answer.status == 200, status_of(answer)
                assert text_of(answer) == str(member.pid)
                assert text_of(await raw.send(tool("caller"), session)) == "ann"
                for level, heard in (("info", []), ("error", ["x"])):
                    answer = await raw.send(tool("say", text="x", level=level), session)
                    assert [each["params"]["data"] for each in answer.messages[:-1]] == heard
                if revision >= "2025-06-18":
                    await ask(raw, session, member)
                await other.start()
                async with other.connected() as through:
                    assert text_of(await through.send(tool("who"), session)) == str(member.pid)
        async with a.connected() as at_a, b.connected() as at_b:
            assert (await at_a.send(None, session, method="DELETE")).status == 204
            for raw in (at_a, at_b):
                assert (await raw.send(legacy("ping"), session)).status == 404


async def ask(raw: Raw, session: Mapping[str, str], member: Member) -> None:
    """Let a handler ask: it is known what the client can be asked."""
    async with raw.open(tool("ask", token=f"t{member.pid}"), session) as stream, member.connected() as other:
        events = Events(stream)
        for value in ("Ann", "Bob"):
            question = await events.message()
            assert question.get("method") == "elicitation/create", question
            assert (await other.send(accept(question, value), session)).status == 202
        assert said_by(await events.message()) == f"Ann Bob {member.pid}"


async def test_sessions_outlive_all_processes(kind: str, how: signal.Signals) -> None:
    """Both end, and both are started again. A session that had only begun is among them, and one that had ended."""
    async with open_store_group(kind, nginx=False) as group:
        sessions = list[dict[str, str]]()
        for member in group.members:
            async with member.connected() as raw:
                sessions += [await begin(raw) for _ in range(3)]
        async with group.members[1].connected() as raw:
            ended = await begin(raw)
            assert (await raw.send(None, ended, method="DELETE")).status == 204
            me = {"name": "x", "version": "1"}
            params: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": me}
            begun = await raw.send(legacy("initialize", 0, **params))
            only_begun = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
            only_begun["MCP-Protocol-Version"] = "2025-11-25"
        for member in group.members:
            await end(member, how)
        for member in group.members:
            await member.start()
        async with group.members[0].connected() as at_a, group.members[1].connected() as at_b:
            for number, session in enumerate(sessions):
                first, second = (at_a, at_b) if number % 2 else (at_b, at_a)
                answer = await first.send(tool("who"), session)
                assert answer.status == 200, status_of(answer)
                assert text_of(answer) == str(group.members[(number + 1) % 2].pid)
                assert text_of(await second.send(tool("who"), session)) == text_of(answer)
            initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await at_b.send(initialized, only_begun)).status == 202
            assert text_of(await at_a.send(tool("who"), only_begun)) == str(group.members[1].pid)
            for raw in (at_a, at_b):
                assert (await raw.send(legacy("ping"), ended)).status == 404


async def test_of_many_that_take_a_session_one_gets_it(kind: str) -> None:
    """Requests that come to several processes at the same time are all answered by the same."""
    async with open_store_group(kind, members=3, nginx=False) as group:
        a, b, c = group.members
        async with a.connected() as raw:
            sessions = [await begin(raw) for _ in range(5)]
        await end(a, signal.SIGKILL)
        for session in sessions:
            pids = list[str]()

            async def call(member: Member, session: dict[str, str] = session, pids: list[str] = pids) -> None:
                async with member.connected() as raw:
                    answer = await raw.send(tool("who"), session)
                    assert answer.status == 200, status_of(answer)
                    pids.append(text_of(answer))

            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    for _ in range(5):
                        nursery.start_soon(call, b)
                        nursery.start_soon(call, c)
            assert len(pids) == 10
            assert len(set(pids)) == 1, pids


async def test_a_stopped_process_keeps_its_sessions(kind: str) -> None:
    """It is not gone: others say that they cannot have it now, and nobody takes it."""
    async with open_store_group(kind, nginx=False) as group:
        a, b = group.members
        async with a.connected() as at_a, b.connected() as at_b:
            session = await begin(at_a)
            a.send_signal(signal.SIGSTOP)
            with trio.fail_after(60):
                answer = await at_b.send(tool("who"), session)
                assert answer.status == 503, status_of(answer)
                assert text_of(await at_b.send(call_tool("who"))) == str(b.pid)
            a.send_signal(signal.SIGCONT)
            for raw in (at_a, at_b):
                assert text_of(await raw.send(tool("who"), session)) == str(a.pid)


async def test_a_client_that_goes_while_its_session_is_looked_for() -> None:
    """Nobody is answered then, and nothing fails. Who waits for a store that is away is told so in time."""
    async with open_store_group("redis", nginx=False) as group:
        a, b = group.members
        assert group.redis is not None
        async with a.connected() as at_a:
            session = await begin(at_a)
        await end(a, signal.SIGKILL)
        group.redis.stop()
        try:
            async with b.connected() as at_b:
                with trio.move_on_after(1):
                    await at_b.send(tool("who"), session)
            with trio.fail_after(60):
                async with b.connected() as at_b:
                    answer = await at_b.send(tool("who"), session)
            assert answer.status == 503, status_of(answer)
        finally:
            group.redis.go_on()
        async with b.connected() as at_b:
            with trio.fail_after(15):  # its lease lasts for 30 s, but it is known that it is gone
                while (answer := await at_b.send(tool("who"), session)).status == 503:
                    await trio.sleep(0.2)
            assert text_of(answer) == str(b.pid)
        assert "failed" not in "".join(line for line in group.said().splitlines() if "trio_mcp.http" in line)


# What is told.


async def test_nothing_is_missed_that_was_followed(kind: str, how: signal.Signals) -> None:
    """After a takeover all that a session has subscribed to is told as changed, once; then what changes."""
    async with open_store_group(kind, nginx=False) as group:
        a, b = group.members
        async with a.connected() as at_a, b.connected() as at_b:
            session = await begin(at_a)
            for raw, method, name in (
                (at_a, "resources/subscribe", "one"),
                (at_b, "resources/subscribe", "two"),
                (at_a, "resources/subscribe", "three"),
                (at_b, "resources/unsubscribe", "three"),
            ):
                assert (await raw.send(legacy(method, uri=f"thing://{name}"), session)).status == 200
            async with b.connected() as c, c.open(None, {**session, **STREAM}, method="GET") as stream:
                events = Events(stream)
                await at_b.send(call_tool("touch", thing="one"))
                event = await events.next()
                while event is not None and not event.data:
                    event = await events.next()
                assert event is not None
                assert updated(json.loads(event.data)) == "thing://one"
                await end(a, how)
                with trio.fail_after(60):
                    try:
                        while await events.next() is not None:
                            pass
                    except GONE:
                        pass
            last = {"Last-Event-ID": event.last_event_id}
            async with b.connected() as c, c.open(None, {**session, **STREAM, **last}, method="GET") as stream:
                assert stream.status == 200
                events = Events(stream)
                with trio.fail_after(60):
                    found = [updated(await told(events, "notifications/resources/updated")) for _ in range(2)]
                    assert sorted(found) == ["thing://one", "thing://two"]
                    for name in ("three", "one", "two", "one"):
                        await at_b.send(call_tool("touch", thing=name))
                        if name != "three":
                            message = await told(events, "notifications/resources/updated")
                            assert updated(message) == f"thing://{name}"


async def told(events: Events, method: str) -> dict[str, Any]:
    """Return the next notification, beside those of lists: these may all have changed after a takeover."""
    message = await events.message()
    while message["method"].endswith("/list_changed"):
        message = await events.message()
    assert message["method"] == method, message
    return message


async def test_what_was_told_before_is_still_there(kind: str, how: signal.Signals) -> None:
    """Events that a client has not read, when the process with its session went, are on the stream it takes up."""
    async with open_store_group(kind, nginx=False) as group:
        a, b = group.members
        async with a.connected() as at_a, b.connected() as at_b:
            session = await begin(at_a)
            async with a.connected() as c, c.open(None, {**session, **STREAM}, method="GET") as stream:
                events = Events(stream)
                await at_a.send(call_tool("notify", token="first"))
                event = await events.next()
                while event is not None and not event.data:
                    event = await events.next()
            assert event is not None
            await at_a.send(call_tool("notify", token="missed"))
            await at_a.send(tool("who"), session)
            await trio.sleep(1)  # what is kept is written a moment later
            await end(a, how)
            last = {"Last-Event-ID": event.last_event_id}
            async with at_b.open(None, {**session, **STREAM, **last}, method="GET") as stream:
                assert stream.status == 200
                events = Events(stream)
                with trio.fail_after(60):
                    message = await told(events, "notifications/example/told")
                    assert message["params"]["token"] == "missed"
                    async with b.connected() as c:
                        await c.send(call_tool("notify", token="last"))
                    message = await told(events, "notifications/example/told")
                    assert message["params"]["token"] == "last"


# Calls that are being served.


async def test_a_call_ends_with_its_process(kind: str) -> None:
    """One that was forwarded: its client gets an answer that says why, or the connection breaks. It is not done again."""
    async with open_store_group(kind, nginx=False) as group:
        a, b = group.members
        async with a.connected() as at_a:
            session = await begin(at_a)
        outcomes = list[str]()

        async def call(message: dict[str, Any], fields: Mapping[str, str], through: Member) -> None:
            try:
                async with through.connected() as raw:
                    answer = await raw.send(message, fields)
                outcomes.append(status_of(answer) if answer.status == 503 else f"odd: {status_of(answer)}")
            except GONE as error:
                outcomes.append(str(error) or f"odd: {error!r}")

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, tool("slow", 1, token="b"), session, b)
                nursery.start_soon(call, tool("slow", 2, token="a"), session, a)
                nursery.start_soon(call, call_tool("slow", token="m"), dict[str, str](), a)
                for token in "bam":
                    await group.wait_event(token, "began")
                await end(a, signal.SIGKILL)
        assert len(outcomes) == 3
        assert not [each for each in outcomes if each.startswith("odd")], outcomes
        async with b.connected() as at_b:
            assert text_of(await at_b.send(tool("who"), session)) == str(b.pid)
        assert all(group.events(token) == {"began": 1} for token in "bam")


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("through", [0, 1], ids=["direct", "forwarded"])
@pytest.mark.parametrize("kept", [False, True], ids=["at-once", "kept"])
async def test_a_stream_is_taken_up_after_its_process(
    kind: str, revision: str, through: int, *, kept: bool
) -> None:
    """What was said is on it, if it was kept, and then an error that answers the call. So it is for who comes again."""
    async with open_store_group(kind, nginx=False) as group:
        a, b = group.members
        async with a.connected() as at_a, b.connected() as at_b:
            session = await begin(at_a, revision)
            earlier = await at_a.send(counting(3, to=4), session)
            gate = str(group.gate("never"))
            message = counting(7, to=6, half=3, gate=gate)
            async with group.members[through].connected() as c, c.open(message, session) as stream:
                seen = await read_progress(Events(stream), 3)
                await trio.sleep(1 if kept else 0)  # what is kept is written a moment later
                await end(a, signal.SIGKILL)
            ids = [event.last_event_id for event in seen if event.data]
            known = {event.last_event_id for event in [*earlier.events, *seen]}
            for missed in (0, 2, 0) if kept else (0, 0):
                resuming = {**session, **STREAM, "Last-Event-ID": ids[-1 - missed]}
                with trio.fail_after(60):
                    rest = await at_b.send(None, resuming, method="GET")
                assert rest.status == 200, status_of(rest)
                assert [each["params"]["progress"] for each in rest.messages[:-1]] == [2, 3][:missed]
                assert rest.message["id"] == 7
                assert rest.error["message"]
                resumed = [event.last_event_id for event in rest.events if event.data]
                assert resumed[:-1] == ids[1:][:missed]
                assert resumed[-1] not in known
            # Event ids go on: those of before are still good, and none is used again.
            later = await at_b.send(counting(8, to=4), session)
            assert known.isdisjoint(event.last_event_id for event in later.events if event.data)
            if kept:
                old = {**session, **STREAM, "Last-Event-ID": earlier.events[-2].last_event_id}
                assert (await at_b.send(None, old, method="GET")).message == earlier.message


async def test_one_that_leaves_answers_what_it_has_begun(kind: str) -> None:
    """Through others, too; who comes meanwhile is told to come again, or is served."""
    async with open_store_group(kind, nginx=False) as group:
        a, b = group.members
        gate = group.gate("half")
        async with a.connected() as at_a, b.connected() as at_b:
            session = await begin(at_a)
            async with b.connected() as c, c.open(counting(7, to=6, half=3, gate=str(gate)), session) as stream:
                events = Events(stream)
                await read_progress(events, 3)
                a.send_signal(signal.SIGTERM)
                await trio.sleep(0.5)
                meanwhile = await at_b.send(tool("who"), session)
                assert meanwhile.status in (200, 503), status_of(meanwhile)
                gate.touch()
                with trio.fail_after(60):
                    messages = [await events.message() for _ in range(4)]
            assert [each["params"]["progress"] for each in messages[:-1]] == [4, 5, 6]
            assert said_by(messages[-1]) == f"6 {a.pid}"
            await end(a, signal.SIGTERM)
            assert text_of(await at_b.send(tool("who"), session)) == str(b.pid)


async def test_a_handler_that_waits_for_an_answer_ends_with_its_process(kind: str, how: signal.Signals) -> None:
    """The answer comes to another one, which knows of no such question; only what may run again does."""
    async with open_store_group(kind, nginx=False) as group:
        a, b = group.members
        async with a.connected() as at_a, b.connected() as at_b:
            requests = list[dict[str, Any]]()
            for name in ("ask", "ask_again"):
                request = modern("tools/call", _meta=ASKS, name=name, arguments={"token": name})
                result = (await at_a.send(request)).message["result"]
                request["params"] |= answers_to(result, "Ann")
                requests.append(request)
            session = await begin(at_a)
            async with at_a.open(tool("ask", token="legacy"), session) as stream:
                question = await Events(stream).message()
                await end(a, how)
            with trio.fail_after(60):
                assert "not valid" in (await at_b.send(requests[0])).error["message"]
                assert text_of(await at_b.send(requests[1])) == f"Ann {b.pid}"
                answer = await at_b.send(accept(question, "Ann"), session)
                assert answer.status in (202, 400), status_of(answer)
                assert text_of(await at_b.send(tool("who"), session)) == str(b.pid)
            assert group.events("ask")["ended"] == group.events("legacy")["ended"] == 0


# Tasks.


def parameters(member: Member) -> HttpServerParameters:
    return HttpServerParameters(member.url)


async def test_tasks_of_a_process_that_is_gone(kind: str, how: signal.Signals) -> None:
    """What was done is there, what ran has failed with a reason, and what may run again does so elsewhere."""
    gates: dict[str, Any] = {}
    async with open_store_group(kind, nginx=False) as group:
        a, b = group.members
        ids: dict[str, str] = {}
        async with open_client(parameters(a), era="modern", tasks="always") as client:
            for token, name in (("done", "work"), ("failed", "work"), ("again", "work_again")):
                gates[token] = group.gate(token)
                async with client.start_task(name, {"token": token, "gate": str(gates[token])}) as task:
                    ids[token] = task.detach() or ""
                await group.wait_event(token, "began")
            gates["done"].touch()
            async with client.resume_task(ids["done"]) as task:
                first = await task.result()
        await end(a, how)
        with trio.fail_after(120):
            async with open_client(parameters(b), era="modern") as client:
                async with client.resume_task(ids["done"]) as task:
                    assert await task.result() == first
                async with client.resume_task(ids["failed"]) as task:
                    with pytest.raises(RequestError) as caught:
                        await task.result()
                    assert caught.value.message
                gates["again"].touch()
                async with client.resume_task(ids["again"]) as task:
                    assert (await task.result()).text == f"again {b.pid}"
        assert group.events("failed")["ended"] == 0
        assert group.events("again")["ended"] == 1


# HTTP+SSE, and what is left.


async def test_the_transport_of_2024(kind: str) -> None:
    """What is posted comes to one of them, and the session with its stream is with the other. It ends with that one."""
    async with open_store_group(kind, nginx=False) as group:
        a, b = group.members
        async with a.connected() as at_a, b.connected() as raw:
            async with at_a.open(None, STREAM, method="GET", path="/sse") as stream:
                events = Events(stream)
                endpoint = await events.next()
                assert endpoint is not None
                at = endpoint.data.decode().partition("?")[2]
                at_b = Raw(raw.transport, attrs.evolve(raw.target, path=f"/messages?{at}"))
                me = {
                    "protocolVersion": "2024-11-05",
                    "capabilities": {},
                    "clientInfo": {"name": "x", "version": "1"},
                }
                for message in (
                    legacy("initialize", 0, **me),
                    {"jsonrpc": "2.0", "method": "notifications/initialized"},
                    tool("who", 1),
                ):
                    assert (await at_b.send(message)).status == 202
                with trio.fail_after(60):
                    assert (await events.message())["id"] == 0
                    assert said_by(await events.message()) == str(a.pid)
                    assert (await at_b.send(tool("slow", 2, token="s"))).status == 202
                    await group.wait_event("s", "began")
            await group.wait_event("s", "cancelled")
            with trio.fail_after(60):
                assert (await at_b.send(legacy("ping"))).status == 404


async def test_nothing_is_left(kind: str) -> None:
    """Of processes that were killed nothing but the store is left when the others have ended."""
    async with open_store_group(kind, nginx=False) as group:
        a, b = group.members
        async with a.connected() as at_a, b.connected() as at_b:
            session = await begin(at_a)
            await end(a, signal.SIGKILL)
            assert text_of(await at_b.send(tool("who"), session)) == str(b.pid)
        await a.start()
        async with a.connected() as at_a:
            assert text_of(await at_a.send(tool("who"), session)) == str(b.pid)
        for member in group.members:
            await end(member, signal.SIGTERM)
        assert group.left() == []
        assert "Traceback" not in group.said()
