"""Handlers that wait for their client between two of its requests (2026-07-28, basic/patterns/mrtr)."""

from __future__ import annotations

import base64
import json
import logging
import math
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import Any, Literal

import attrs
import pytest
import trio
import trio.testing
from shared.server_parking import CAPABLE, FORM, MODERN, Asking, ask_name, call
from wires import ScriptedChannel

from trio_mcp import (
    Client,
    ConnectionLost,
    Context,
    InputRequired,
    Limits,
    LocalProtocolError,
    RequestError,
    Server,
    fail_after_silence,
    open_client,
)
from trio_mcp.types import (
    ElicitRequestFormParams,
    ElicitResult,
    ListRootsRequest,
    RequestedSchema,
    StringSchema,
)

REFUSED = "requestState is not valid for this request, or not any more"


def accepted(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


def answering(required: dict[str, Any], *answers: object, **again: Any) -> dict[str, Any]:
    """Return the parameters of a request that is sent again with the answers."""
    responses = dict(zip(required["inputRequests"], answers, strict=False))
    return {**call(), **again, "requestState": required["requestState"], "inputResponses": responses}


async def refused(client: Client, params: dict[str, Any]) -> str:
    with pytest.raises(RequestError) as caught:
        await client.request("tools/call", params)
    return f"{caught.value.message} {caught.value.code}"


def text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


async def test_it_is_parked_and_goes_on_where_it_stopped() -> None:
    asking = Asking()
    async with asking.client() as client:
        required = await client.request("tools/call", call())
        assert required["resultType"] == "input_required"
        [question] = required["inputRequests"].values()
        assert question == {"method": "elicitation/create", "params": {"mode": "form", **FORM}}
        assert "ttlMs" not in required  # not cacheable: server/utilities/caching
        result = await client.request("tools/call", answering(required, accepted("Ada")))
        assert text(result) == "Hello, Ada"
        assert asking.started == 1
        assert asking.ended == ["answered"]


async def test_work_that_outlives_it_is_that_of_the_connection_which_brings_the_answers() -> None:
    """The one over which it was called may have ended meanwhile."""
    server, ended = Server("asking"), list[str]()

    @server.tool
    async def begin(ctx: Context[Any]) -> str:
        async def work(name: str) -> None:
            try:
                await trio.sleep_forever()
            finally:
                ended.append(name)

        name = await ask_name(ctx)
        ctx.start_soon(work, name)
        return "begun"

    async with server.open() as running:

        async def ask_over_a_new_connection(params: dict[str, Any], *, ends: list[str]) -> dict[str, Any]:
            async with open_client(running, revision=MODERN, capabilities=CAPABLE) as client:
                result = await client.request("tools/call", params)
                await trio.testing.wait_all_tasks_blocked()
                assert ended == []
            assert ended == ends
            return result

        required = await ask_over_a_new_connection(call("begin"), ends=[])
        again = answering(required, accepted("Ada"), **call("begin"))
        assert text(await ask_over_a_new_connection(again, ends=["Ada"])) == "begun"


async def test_a_question_that_is_given_up_at_once_is_never_sent() -> None:
    """Whichever of the two tasks Trio lets run first, the handler's or that of its request."""
    server = Server("impatient")

    @server.tool
    async def begin(ctx: Context[Any]) -> str:
        with trio.move_on_after(0):
            return await ask_name(ctx)
        return "given up"

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        for _ in range(20):
            assert text(await client.request("tools/call", call("begin"))) == "given up"


@pytest.mark.spec("basic/patterns/mrtr", "InputRequests", revisions="2026-07-28")
async def test_what_a_nursery_asks_at_once_goes_out_as_one() -> None:
    server = Server("many")

    @server.tool
    async def several(ctx: Context[Any]) -> list[str]:
        names: list[str] = []

        async def one(which: str) -> None:
            names.append(f"{which} {await ask_name(ctx, which)}")

        async with trio.open_nursery() as nursery:
            for which in ("first", "second", "third"):
                nursery.start_soon(one, which)
        return sorted(names)

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        required = await client.request("tools/call", call("several"))
        asked = {key: question["params"]["message"] for key, question in required["inputRequests"].items()}
        assert sorted(asked.values()) == ["first", "second", "third"]
        # Half an answer: the rest is asked again (mrtr, "Error Handling").
        one, *others = asked
        again = call("several") | {"requestState": required["requestState"]}
        required = await client.request("tools/call", {**again, "inputResponses": {one: accepted("A")}})
        assert set(required["inputRequests"]) == set(others)
        rest = {key: accepted("B") for key in others} | {"unknown": accepted("C")}
        again["requestState"] = required["requestState"]
        result = await client.request("tools/call", {**again, "inputResponses": rest})
        names = sorted(f"{message} {'A' if key == one else 'B'}" for key, message in asked.items())
        assert result["structuredContent"] in (names, {"result": names})


@pytest.mark.spec("basic/patterns/mrtr", "Server Requirements (Basic Workflow)", revisions="2026-07-28")
async def test_a_state_wakes_once() -> None:
    asking = Asking()
    async with asking.client() as client:
        required = await client.request("tools/call", call())
        again = answering(required, accepted("Ada"))
        assert text(await client.request("tools/call", again)) == "Hello, Ada"
        assert await refused(client, again) == f"{REFUSED} -32602"
        assert asking.started == 1


@pytest.mark.spec("basic/patterns/mrtr", "Server Requirements (Basic Workflow)", revisions="2026-07-28")
@pytest.mark.spec("basic/patterns/mrtr", "Security Considerations", revisions="2026-07-28")
async def test_any_changed_bit_of_a_state_is_refused() -> None:
    asking = Asking()
    async with asking.client() as client:
        required = await client.request("tools/call", call())
        state: str = required["requestState"]
        for index in range(len(state)):
            for other in "Az0-":
                if state[index] != other:
                    again = answering(required, accepted("Eve"), requestState="")
                    again["requestState"] = state[:index] + other + state[index + 1 :]
                    if _same_bytes(again["requestState"], state):
                        continue
                    assert await refused(client, again) == f"{REFUSED} -32602"
        for bad in (state + "A", state[:-1], "", "x", 5):
            again = answering(required, accepted("Eve")) | {"requestState": bad}
            assert await refused(client, again)
        assert text(await client.request("tools/call", answering(required, accepted("Ada")))) == "Hello, Ada"


def _same_bytes(one: str, other: str) -> bool:
    """Whether two texts in base64 differ only in bits that mean nothing."""

    def decode(text: str) -> bytes:
        body = text.rpartition(".")[2]
        return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))

    try:
        return one.rpartition(".")[0] == other.rpartition(".")[0] and decode(one) == decode(other)
    except ValueError:
        return False


@pytest.mark.spec("basic/patterns/mrtr", "Server Requirements (Basic Workflow)", revisions="2026-07-28")
async def test_a_state_is_good_only_for_its_request() -> None:
    asking = Asking()

    @asking.server.tool
    async def other(greeting: str, ctx: Context[Any]) -> str:
        return await ask_name(ctx)

    async with asking.client() as client:
        required = await client.request("tools/call", call())
        for changed in (
            {"arguments": {"greeting": "Bye"}},
            {"arguments": {"greeting": "Hello", "more": 1}},
            {"name": "other"},
        ):
            assert await refused(client, answering(required, accepted("Eve"), **changed)) == f"{REFUSED} -32602"
        assert asking.started == 1
        assert text(await client.request("tools/call", answering(required, accepted("Ada")))) == "Hello, Ada"


@pytest.mark.spec("basic/patterns/mrtr", "Security Considerations", revisions="2026-07-28")
async def test_a_state_is_good_only_for_its_server() -> None:
    asking, other = Asking(), Asking()
    async with asking.client() as client, other.client() as other_client:
        required = await client.request("tools/call", call())
        assert await refused(other_client, answering(required, accepted("Eve"))) == f"{REFUSED} -32602"


@attrs.frozen
class Principal:
    principal: str | None


@pytest.mark.spec("basic/patterns/mrtr", "Server Requirements (Basic Workflow)", revisions="2026-07-28")
@pytest.mark.spec("basic/patterns/mrtr", "Security Considerations", revisions="2026-07-28")
@pytest.mark.spec("client/elicitation", "Security Considerations", revisions="2026-07-28")
@pytest.mark.spec("client/elicitation", "Statefulness", revisions="2026-07-28")
async def test_another_principal_cannot_wake_it() -> None:
    asking = Asking()
    wire = ScriptedChannel()
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    ids = iter(range(100))

    async def ask(principal: str | None, params: dict[str, Any]) -> Any:
        id = next(ids)
        request: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": id,
            "method": "tools/call",
            "params": {**params, "_meta": meta},
        }
        wire.say_as(Principal(principal), request)
        while True:
            for message in wire.sent:
                if message["id"] == id:
                    return message
            await trio.sleep(0.001)

    async with trio.open_nursery() as nursery:
        await nursery.start(asking.server.serve_channel, wire)
        required = (await ask("alice", call()))["result"]
        for other in ("bob", None, ""):
            answer = await ask(other, answering(required, accepted("Eve")))
            assert answer["error"] == {"code": -32602, "message": REFUSED}
        answer = await ask("alice", answering(required, accepted("Ada")))
        assert text(answer["result"]) == "Hello, Ada"
        wire.hang_up()


async def test_how_many_may_be_parked_is_limited_altogether_and_for_one_principal() -> None:
    asking = Asking(Limits(max_parked=20))
    async with asking.client() as client:
        first = await client.request("tools/call", call())
        await client.request("tools/call", call())
        assert "max_parked" in await refused(client, call())
        assert "max_parked" in asking.ended[0]  # the handler sees it, too
        await client.request("tools/call", answering(first, accepted("Ada")))
        assert (await client.request("tools/call", call()))["resultType"] == "input_required"


async def test_a_principal_gets_its_parked_places_back(autojump_clock: trio.testing.MockClock) -> None:
    """A tenth of max_parked: what is answered, has expired or has ended with serving is not parked any more."""
    asking, wire = Asking(Limits(max_parked=20, parked_timeout=60)), ScriptedChannel()
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    last_id = 0

    async def ask(principal: str, params: dict[str, Any]) -> dict[str, Any]:
        nonlocal last_id
        last_id += 1
        params = {**params, "_meta": meta}
        wire.say_as(
            Principal(principal), {"jsonrpc": "2.0", "id": last_id, "method": "tools/call", "params": params}
        )
        await trio.testing.wait_all_tasks_blocked()
        answer: dict[str, Any] = wire.sent[-1]
        assert answer["id"] == last_id
        return answer

    def is_refused(answer: dict[str, Any]) -> bool:
        return "a tenth of max_parked" in json.dumps(answer)

    async with trio.open_nursery() as nursery:
        await nursery.start(asking.server.serve_channel, wire)
        for again in range(3):
            first = (await ask("alice", call()))["result"]
            second = (await ask("alice", call()))["result"]
            assert is_refused(await ask("alice", call()))
            assert "requestState" in (bob := (await ask("bob", call()))["result"]), "others have their own"
            assert text((await ask("alice", answering(first, accepted("Ada"))))["result"]) == "Hello, Ada"
            first = (await ask("alice", call()))["result"]
            assert "requestState" in first, f"given back by an answer, the {again + 1}. time"
            assert is_refused(await ask("alice", call()))
            for required in (first, second):
                await ask("alice", answering(required, accepted("Ada")))
            assert text((await ask("bob", answering(bob, accepted("Bo"))))["result"]) == "Hello, Bo"
        for _ in range(2):
            assert "requestState" in (await ask("alice", call()))["result"]
        assert is_refused(await ask("alice", call()))
        await trio.sleep(61)
        for _ in range(2):
            assert "requestState" in (await ask("alice", call()))["result"], "given back when they expire"
        assert is_refused(await ask("alice", call()))
        wire.hang_up()


@pytest.mark.spec("basic/patterns/mrtr", "Server Requirements (Basic Workflow)", revisions="2026-07-28")
async def test_it_expires_to_the_second(autojump_clock: trio.testing.MockClock) -> None:
    asking = Asking(Limits(parked_timeout=60))
    async with asking.client() as client:
        required = await client.request("tools/call", call())
        await trio.sleep(59.9)
        assert asking.ended == []
        assert text(await client.request("tools/call", answering(required, accepted("Ada")))) == "Hello, Ada"
        required = await client.request("tools/call", call())
        await trio.sleep(60.1)
        assert asking.ended == ["answered", "cancelled"]
        assert await refused(client, answering(required, accepted("Ada"))) == f"{REFUSED} -32602"


async def test_while_parked_it_has_the_deadline_of_its_caller(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 5: deadlines shrink inward, and the caller's own goes on while its user answers."""
    asking = Asking(Limits(parked_timeout=60))
    async with asking.client() as client:
        with trio.move_on_after(10):
            await client.request("tools/call", call())
            await trio.sleep(9)
            assert asking.ended == []
            await trio.sleep(2)
        await trio.testing.wait_all_tasks_blocked()
        assert asking.ended == ["cancelled"]
        with trio.fail_after(70):
            required = await client.request("tools/call", call())
            await trio.sleep(59)
            assert asking.ended == ["cancelled"]
            answered = await client.request("tools/call", answering(required, accepted("Ada")))
        assert text(answered) == "Hello, Ada"


async def test_a_parked_handler_whose_time_is_over_is_gone_while_it_cleans_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Promise 5: the second request is refused at once, and does not wait for the cleanup of the first one's handler."""
    server = Server("slow")

    @server.tool
    async def greet(greeting: str, ctx: Context[Any]) -> str:
        try:
            return f"{greeting}, {await ask_name(ctx)}"
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(10)

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        begun: list[dict[str, Any]] = []
        with trio.move_on_after(10):
            begun.append(await client.request("tools/call", call()))
            await trio.sleep(11)
        (required,) = begun
        with trio.fail_after(1):
            assert await refused(client, answering(required, accepted("Ada"))) == f"{REFUSED} -32602"


@pytest.mark.parametrize("clock", ["request_timeout", "fail_after_silence"])
async def test_a_parked_handler_outlives_a_clock_that_stands_still(
    clock: str, autojump_clock: trio.testing.MockClock
) -> None:
    """While the user answers, neither runs; so the handler has no deadline of theirs meanwhile."""
    asking = Asking()

    async def slow(_: object) -> dict[str, Any]:
        await trio.sleep(100)
        return {"name": "Ada"}

    options: dict[str, Any] = {"request_timeout": 5} if clock == "request_timeout" else {}
    async with open_client(asking.server, revision=MODERN, on_elicit=slow, **options) as client:
        with fail_after_silence(5, at_most=math.inf) if not options else nullcontext():
            assert (await client.call_tool("greet", {"greeting": "Hello"}, returns=str)) == "Hello, Ada"


async def test_the_deadline_that_a_handler_sees_is_its_callers_while_it_is_parked_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """`Context.deadline` is not that of whatever else the connection serves meanwhile."""
    server = Server("seen")
    seen: list[float] = []

    @server.tool
    async def greet(greeting: str, ctx: Context[Any]) -> str:
        async with trio.open_nursery() as nursery:

            async def look() -> None:
                await trio.sleep(1)
                seen.append(ctx.deadline)

            nursery.start_soon(look)
            answer = await ask_name(ctx)
        return f"{greeting}, {answer}"

    @server.tool
    async def nap() -> None:
        await trio.sleep(5)

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        with trio.fail_after(100):
            deadline = trio.current_effective_deadline()
            required = await client.request("tools/call", call())
            await client.call_tool("nap", {})
            await client.request("tools/call", answering(required, accepted("Ada")))
    assert seen == [pytest.approx(deadline)]


async def test_the_deadline_of_the_request_that_woke_it_counts(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("slow")
    ended: list[float] = []

    @server.tool
    async def slow(ctx: Context[Any]) -> None:
        await ask_name(ctx)
        try:
            await trio.sleep(100)
        finally:
            ended.append(trio.current_time())

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        required = await client.request("tools/call", call("slow"))
        again = answering(required, accepted("Ada")) | call("slow")
        start = trio.current_time()
        with trio.move_on_after(2) as scope:
            await client.request("tools/call", again)
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert [at - start for at in ended] == [pytest.approx(2)]
        assert await refused(client, again) == f"{REFUSED} -32602"


async def test_cancelling_the_request_that_attends_cancels_the_handler(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = Server("slow")
    ended: list[str] = []

    @server.tool
    async def slow(ctx: Context[Any]) -> None:
        try:
            if ctx.input_responses == {}:
                await trio.sleep(100)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            ended.append("cleaned up")
            raise

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        with trio.move_on_after(2):
            await client.request("tools/call", call("slow"))
        await trio.sleep(1.5)
        assert ended == ["cleaned up"]
        assert client.statistics().calls == 0


META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


def asked_by(id: int, params: dict[str, Any], **meta: object) -> dict[str, Any]:
    """Return a call as it is on the wire."""
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {**params, "_meta": {**META, **meta}}}


def given_up(id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


@pytest.mark.parametrize("how", ["it is given up", "the connection ends"])
async def test_a_handler_whose_question_was_never_written_ends_with_its_request(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 4: a question that still lies in the send queue is taken back, and then nobody can ever answer it."""
    asking, wire = Asking(Limits(goodbye_timeout=1)), ScriptedChannel()

    async with asking.server.open() as running, trio.open_nursery() as nursery:  # it goes on without this client
        await nursery.start(running.serve_channel, wire)
        wire.stop_reading()
        wire.say({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": META}})  # blocks the wire
        await trio.testing.wait_all_tasks_blocked()
        wire.say(asked_by(2, call()))
        await trio.testing.wait_all_tasks_blocked()
        assert (asking.started, asking.ended) == (1, [])
        if how == "it is given up":
            wire.say(given_up(2))
        else:
            wire.hang_up(ConnectionLost("it is gone"))
        await trio.testing.wait_all_tasks_blocked()
        assert asking.ended == ["cancelled"]
        wire.reading.set()
        await trio.testing.wait_all_tasks_blocked()
        assert 2 not in [message["id"] for message in wire.sent]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("how", ["it is given up", "the connection ends", "its time is over"])
async def test_a_handler_ends_with_the_request_that_would_wake_it_and_waits_for_a_place(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 4: it belongs to the call that its caller gives up, and would wait for answers that never come again."""
    asking, wire = Asking(Limits(goodbye_timeout=1, max_inbound_requests=1, drain_timeout=1)), ScriptedChannel()

    @asking.server.tool
    async def hold() -> None:
        await trio.sleep(10)

    async with asking.server.open() as running, trio.open_nursery() as nursery:
        await nursery.start(running.serve_channel, wire)
        wire.say(asked_by(1, call()))
        await trio.testing.wait_all_tasks_blocked()
        retry = answering(wire.sent[-1]["result"], accepted("Ada"))
        granted = {"trio-mcp/timeoutMs": 5_000} if how == "its time is over" else {}
        wire.say(asked_by(2, call("hold")), asked_by(3, retry, **granted))
        await trio.sleep(1)
        assert asking.ended == []
        if how == "it is given up":
            wire.say(given_up(3))
            await trio.testing.wait_all_tasks_blocked()
            assert asking.ended == ["cancelled"]
        elif how == "the connection ends":
            wire.hang_up(ConnectionLost("it is gone"))
            await trio.testing.wait_all_tasks_blocked()
            assert asking.ended == ["cancelled"]
        else:
            await trio.sleep(15)
            assert asking.ended == ["cancelled"]
            assert wire.sent[-1]["error"]["code"] == -31001
        nursery.cancel_scope.cancel()


async def test_a_handler_ends_with_the_request_that_would_wake_it_and_is_still_in_middleware(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Promise 4, where what keeps the request is middleware: nobody attends the handler yet."""
    ended: list[str] = []

    async def slow(message: Any, call_next: Any) -> Any:
        if message.method == "tools/call" and "requestState" in message.params:
            await trio.sleep(5)
        return await call_next(message)

    server = Server("asking", middleware=[slow])

    @server.tool
    async def greet(greeting: str, ctx: Context[Any]) -> str:
        try:
            return await ask_name(ctx)
        except trio.Cancelled:
            ended.append("cancelled")
            raise

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        required = await client.request("tools/call", call())
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def give_up() -> None:
                    await trio.sleep(1)
                    assert ended == []
                    scope.cancel()

                nursery.start_soon(give_up)
                await client.request("tools/call", answering(required, accepted("Ada")))
        await trio.testing.wait_all_tasks_blocked()
        assert ended == ["cancelled"]


async def test_it_is_cancelled_with_the_server() -> None:
    asking = Asking()
    async with asking.client() as client:
        for _ in range(3):
            await client.request("tools/call", call())
        assert asking.ended == []
    assert asking.ended == ["cancelled"] * 3


async def test_what_it_asks_in_its_cleanup_when_the_server_ends_is_asked_too_late() -> None:
    """No client comes back to it, so it would wait for ever, and the server with it."""
    server, raised = Server("asking"), list[str]()

    @server.tool
    async def greet(ctx: Context[Any]) -> None:
        try:
            await ask_name(ctx)
        finally:
            with trio.fail_after(5, shield=True):
                with pytest.raises(LocalProtocolError) as caught:
                    await ask_name(ctx)
                raised.append(str(caught.value))

    async with server.open() as running, open_client(running, revision=MODERN, capabilities=CAPABLE) as client:
        await client.request("tools/call", {"name": "greet", "arguments": {}})
    assert raised == ["elicitation/create cannot be asked: the request has ended already"]


async def test_a_handler_that_stops_waiting_goes_on_and_its_result_is_kept(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = Server("impatient")

    @server.tool
    async def impatient(ctx: Context[Any]) -> str:
        with trio.move_on_after(5):
            return await ask_name(ctx)
        return "nobody"

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        required = await client.request("tools/call", call("impatient"))
        await trio.sleep(10)
        again = answering(required, accepted("Ada")) | call("impatient")
        assert text(await client.request("tools/call", again)) == "nobody"
        assert await refused(client, again) == f"{REFUSED} -32602"


async def test_a_result_that_is_not_fetched_expires(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("impatient", limits=Limits(parked_timeout=20))

    @server.tool
    async def impatient(ctx: Context[Any]) -> str:
        with trio.move_on_after(5):
            await ask_name(ctx)
        return "nobody"

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        required = await client.request("tools/call", call("impatient"))
        await trio.sleep(21)
        assert await refused(client, answering(required) | call("impatient")) == f"{REFUSED} -32602"


def reporting(count: int, limits: Limits | None = None) -> Server[None]:
    """Return a server whose tool reports progress while it is parked, too."""
    server = Server("progress", limits=limits)

    @server.tool
    async def work(ctx: Context[Any]) -> str:
        async with ctx.progress() as progress:
            await progress.advance()
            async with trio.open_nursery() as nursery:

                async def meanwhile() -> None:
                    await trio.sleep(1)
                    for _ in range(count):
                        await progress.advance()  # nobody attends
                        await ctx.warning(f"so far {progress.value:g}")
                        ctx.log_nowait("warning", "still here")

                nursery.start_soon(meanwhile)
                await ask_name(ctx)
            await progress.advance()
        return "done"

    return server


async def test_what_is_said_while_parked_goes_to_the_next_request_that_attends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Promise 9: in order, before anything that the handler says when it goes on."""
    heard: list[object] = []
    async with open_client(
        reporting(2), revision=MODERN, capabilities=CAPABLE, on_log=lambda message: heard.append(message.data)
    ) as client:
        await client.set_log_level("warning")

        def hear(progress: Any) -> None:
            heard.append(progress.progress)

        required = await client.request("tools/call", call("work"), on_progress=hear)
        assert heard == [1]
        await trio.sleep(2)
        assert heard == [1]
        again = answering(required, accepted("Ada")) | call("work")
        await client.request("tools/call", again, on_progress=hear)
        assert [each for each in heard if isinstance(each, (int, float))] == [1, 2, 3, 4]
        assert [each for each in heard if isinstance(each, str)] == [
            "so far 2", "still here", "so far 3", "still here",
        ]  # fmt: skip


async def test_of_what_is_said_while_parked_the_oldest_makes_room(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise 10: a handler may wait for ten minutes and talk all the time."""
    server = reporting(500, Limits(max_notifications=10))
    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        heard: list[float] = []

        def hear(progress: Any) -> None:
            heard.append(progress.progress)

        required = await client.request("tools/call", call("work"), on_progress=hear)
        await trio.sleep(2)
        again = answering(required, accepted("Ada")) | call("work")
        await client.request("tools/call", again, on_progress=hear)
    assert heard == [1, *range(492, 503)]
    assert "490 notifications of a parked handler" in caplog.text


async def test_what_tasks_say_while_parked_keeps_its_order(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 9: whichever of a handler's tasks Trio lets run first, no report overtakes another and makes it void."""
    server = Server("progress")
    reported = 0

    @server.tool
    async def work(ctx: Context[Any]) -> str:
        async def report() -> None:
            nonlocal reported
            for _ in range(50):
                reported += 1
                await ctx.report_progress(reported)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(report)
            await ask_name(ctx)
        return "done"

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        heard: list[float] = []

        def hear(progress: Any) -> None:
            heard.append(progress.progress)

        required = await client.request("tools/call", call("work"), on_progress=hear)
        again = answering(required, accepted("Ada")) | call("work")
        await client.request("tools/call", again, on_progress=hear)
    assert heard == list(range(1, 151))


async def test_what_is_kept_waits_for_room_and_what_comes_after_it_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Promise 9: where the wire is slow, a handler that goes on does not overtake what it has said before."""
    server, wire = reporting(20, Limits(max_outbox_bytes=100)), ScriptedChannel()

    def asked(id: int, params: dict[str, Any]) -> dict[str, Any]:
        return asked_by(id, params, progressToken="t")

    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve_channel, wire)
        wire.say(asked(1, call("work")))
        await trio.sleep(2)
        wire.stop_reading()
        wire.say(asked(2, answering(wire.sent[-1]["result"], accepted("Ada")) | call("work")))
        await trio.sleep(2)
        wire.reading.set()
        await trio.testing.wait_all_tasks_blocked()
        told = [message["params"]["progress"] for message in wire.sent if "method" in message]
        assert told == list(range(1, 23))
        assert text(wire.sent[-1]["result"]) == "done"
        nursery.cancel_scope.cancel()


@pytest.mark.spec("basic/patterns/mrtr", "Error Handling", revisions="2026-07-28")
async def test_unusable_answers_wake_no_handler() -> None:
    asking = Asking()
    async with asking.client() as client:
        required = await client.request("tools/call", call())
        [key] = required["inputRequests"]
        cases: list[tuple[object, str]] = [
            ({key: {"roots": []}}, f"inputResponses.{key} does not answer elicitation/create"),
            ({key: 5}, "inputResponses"),
            ([], "inputResponses"),
        ]
        for bad, problem in cases:
            again = {**call(), "requestState": required["requestState"], "inputResponses": bad}
            assert problem in await refused(client, again)
        assert asking.ended == []
        assert text(await client.request("tools/call", answering(required, accepted("Ada")))) == "Hello, Ada"


async def test_its_failure_is_masked_and_logged_whichever_request_attends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("failing")

    @server.tool
    async def fail(ctx: Context[Any]) -> None:
        await ask_name(ctx)
        raise ValueError("secret")

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        required = await client.request("tools/call", call("fail"))
        with caplog.at_level(logging.ERROR):
            result = await client.request("tools/call", answering(required, accepted("A")) | call("fail"))
    assert result["isError"]
    assert "secret" not in text(result)
    assert "secret" in caplog.text


async def test_a_client_of_which_nothing_can_be_asked_is_not_parked_for() -> None:
    asking = Asking()
    async with open_client(asking.server, revision=MODERN) as client:
        with pytest.raises(RequestError):
            await client.request("tools/call", call())


@pytest.mark.spec("basic/patterns/mrtr", "Supported Requests", revisions="2026-07-28")
async def test_other_methods_cannot_ask() -> None:
    server = Server("custom")

    @server.request_handler("x/ask")
    async def ask(params: Any, ctx: Context[Any]) -> object:
        with pytest.raises(LocalProtocolError):
            await ctx.request("elicitation/create", FORM)
        return {}

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        assert (await client.request("x/ask"))["resultType"] == "complete"


# Those that never ask

KINDS = {
    "tools/call": {"name": "greet"},
    "prompts/get": {"name": "greet"},
    "resources/read": {"uri": "greet://you"},
}
Resume = Literal["park", "replay", "never"]


def asking_everywhere(method: str, how: str, resume: Resume, tasks: list[bool]) -> Server[Any]:
    """Return a server with a handler that asks if its client has declared anything, and notes whose task it has."""
    server: Server[Any] = Server("asking")

    async def greet(ctx: Context[Any]) -> str:
        task = trio.lowlevel.current_task()
        tasks.append(task.name.startswith("handler of"))
        return await ask_name(ctx) if ctx.meta.get("x/ask") else "nobody"

    if how == "whole method":

        @server.request_handler(method, resume=resume)
        async def serve(params: Mapping[str, Any], ctx: Context[Any]) -> object:
            name = await greet(ctx)
            if method == "tools/call":
                return {"content": [{"type": "text", "text": name}]}
            if method == "prompts/get":
                return {"messages": [{"role": "user", "content": {"type": "text", "text": name}}]}
            return {"contents": [{"uri": "greet://you", "text": name}]}

    elif method == "tools/call":
        server.tool(resume=resume)(greet)
    elif method == "prompts/get":
        server.prompt(resume=resume)(greet)
    else:
        server.resource("greet://you", resume=resume)(greet)
    return server


@pytest.mark.parametrize("how", ["function", "whole method"])
@pytest.mark.parametrize("method", KINDS)
async def test_how_it_is_resumed_is_said_where_it_is_registered(method: str, how: str) -> None:
    """Tools, prompts, resources, and handlers of the whole methods; without a word they are parked."""
    asks = {**KINDS[method], "_meta": {"x/ask": True}}
    ways: dict[Resume, int] = {"park": 1, "replay": 2}
    for resume, runs in ways.items():
        tasks: list[bool] = []
        server = asking_everywhere(method, how, resume, tasks)
        async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
            required = await client.request(method, asks)
            assert required["resultType"] == "input_required"
            [key] = required["inputRequests"]
            answers = {"requestState": required["requestState"], "inputResponses": {key: accepted("Ada")}}
            assert "Ada" in json.dumps(await client.request(method, {**asks, **answers}))
        assert tasks == [True] * runs


@pytest.mark.parametrize("how", ["function", "whole method"])
@pytest.mark.parametrize("method", KINDS)
async def test_what_never_asks_has_no_task_of_its_own(
    method: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """If it asks nevertheless, the log says which option to leave out; nothing is parked."""
    tasks: list[bool] = []
    server = asking_everywhere(method, how, "never", tasks)
    target = next(iter(KINDS[method].values()))
    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        assert "nobody" in json.dumps(await client.request(method, KINDS[method]))
        result: dict[str, Any] = {}
        with suppress(RequestError):
            result = await client.request(method, {**KINDS[method], "_meta": {"x/ask": True}})
        assert result.get("isError", True)
    assert tasks == [False, False]
    assert (
        f"elicitation/create cannot be asked: what serves {method} of {target!r} is registered with"
        in caplog.text
    )
    assert 'resume="never"; leave that out' in caplog.text


async def test_what_never_asks_may_return_its_questions() -> None:
    """It is called again with the answers, and there still cannot ask."""
    server: Server[Any] = Server("by hand")

    @server.tool(resume="never")
    async def greet(greeting: str, ctx: Context[Any]) -> str | InputRequired:
        if not ctx.input_responses:
            return InputRequired({"name": ListRootsRequest()}, state=1)
        with pytest.raises(LocalProtocolError, match="leave that out"):
            await ask_name(ctx)
        return f"{greeting}, {ctx.request_state}"

    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        required = await client.request("tools/call", call())
        result = await client.request("tools/call", answering(required, {"roots": []}))
        assert text(result) == "Hello, 1"


async def test_in_the_era_of_requests_it_makes_no_difference() -> None:
    """There nothing is parked, and asking is a request."""
    server = asking_everywhere("tools/call", "function", "never", [])
    async with open_client(server, revision="2025-11-25", on_elicit=lambda _: {"name": "Ada"}) as client:
        result = await client.request("tools/call", {**KINDS["tools/call"], "_meta": {"x/ask": True}})
        assert text(result) == "Ada"


def test_only_what_can_ask_is_resumed() -> None:
    """Elsewhere the option would do nothing."""
    server: Server[Any] = Server("asking")
    with pytest.raises(
        ValueError, match="x/y is never resumed: resume is for prompts/get, resources/read, tools/call"
    ):
        server.request_handler("x/y", resume="never")
    wrong: Any = "again"
    with pytest.raises(ValueError, match="resume takes 'park' or 'replay' or 'never', not 'again'"):
        server.request_handler("tools/call", resume=wrong)


# Run again instead of parked


def replaying(keys: list[bytes] | None = None, limits: Limits | None = None) -> tuple[Server, list[str]]:
    server, ran = Server("replaying", request_state_keys=keys, limits=limits), list[str]()

    @server.tool(resume="replay")
    async def greet(greeting: str, ctx: Context[Any]) -> str:
        ran.append("began")
        try:
            first = await ask_name(ctx, "first")
            last = await ask_name(ctx, "last")
            again = await ask_name(ctx, "first")
        finally:
            ran.append("ended")
        return f"{greeting}, {first} {last} {again}"

    return server, ran


@pytest.mark.spec("basic/patterns/mrtr", "Basic Workflow", revisions="2026-07-28")
async def test_replayed_it_finds_the_answers_it_has_got_even_in_another_process() -> None:
    keys = [b"k" * 32]
    params, answers = call(), iter(["Ada", "Lovelace", "Byron"])
    ran: list[str] = []
    result: dict[str, Any] = {}
    for _ in range(4):
        server, ran_here = replaying(keys)  # each time a new server, as after a restart or behind a balancer
        async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
            result = await client.request("tools/call", params)
        ran += ran_here
        if result["resultType"] == "complete":
            break
        [key] = result["inputRequests"]
        params = call() | {
            "requestState": result["requestState"],
            "inputResponses": {key: accepted(next(answers))},
        }
    assert text(result) == "Hello, Ada Lovelace Byron"
    assert ran == ["began", "ended"] * 4


async def test_replayed_it_needs_the_keys() -> None:
    server, _ = replaying([b"k" * 32])
    other, _ = replaying([b"o" * 32])
    rotated, _ = replaying([b"n" * 32, b"k" * 32])
    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        required = await client.request("tools/call", call())
    async with open_client(other, revision=MODERN, capabilities=CAPABLE) as client:
        assert await refused(client, answering(required, accepted("Eve"))) == f"{REFUSED} -32602"
    async with open_client(rotated, revision=MODERN, capabilities=CAPABLE) as client:
        result = await client.request("tools/call", answering(required, accepted("Ada")))
        assert result["resultType"] == "input_required"


async def test_the_state_of_a_replay_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    server, _ = replaying()
    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        required = await client.request("tools/call", call())
        with pytest.raises(RequestError, match="65536 are allowed"):
            await client.request("tools/call", answering(required, accepted("A" * 70_000)))


# By hand


def by_hand() -> Server:
    server = Server("by hand")
    schema = RequestedSchema(properties={"name": StringSchema()}, required=["name"])

    @server.tool
    async def greet(greeting: str, ctx: Context[Any]) -> str | InputRequired:
        if "name" not in ctx.input_responses:
            assert ctx.request_state is None
            return InputRequired(
                {"name": ElicitRequestFormParams(message="Who?", requested_schema=schema)}, {"tries": [1]}
            )
        if "roots" not in ctx.input_responses:
            assert ctx.request_state == {"tries": [1]}
            name = ctx.input_responses["name"]
            assert isinstance(name, ElicitResult)
            assert name.content is not None
            return InputRequired({"roots": ListRootsRequest(), "name": ListRootsRequest()}, name.content["name"])
        return f"{greeting}, {ctx.request_state}"

    return server


async def test_by_hand_the_handler_is_called_again() -> None:
    async with open_client(by_hand(), revision=MODERN, capabilities=CAPABLE) as client:
        required = await client.request("tools/call", call())
        assert list(required["inputRequests"]) == ["name"]
        required = await client.request("tools/call", answering(required, accepted("Ada")))
        assert set(required["inputRequests"]) == {"name", "roots"}
        result = await client.request("tools/call", answering(required, {"roots": []}, {"roots": []}))
        assert text(result) == "Hello, Ada"


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_by_hand_works_in_the_era_of_requests_too(revision: str) -> None:
    async def elicit(params: Any) -> dict[str, Any]:
        return accepted("Ada")

    async def roots(params: Any) -> dict[str, Any]:
        return {"roots": []}

    handlers = {"elicitation/create": elicit, "roots/list": roots}
    async with open_client(
        by_hand(), revision=revision, capabilities=CAPABLE, request_handlers=handlers
    ) as client:
        result = await client.request("tools/call", call())
        assert text(result) == "Hello, Ada"


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_by_hand_it_may_just_ask_to_be_called_again(revision: str) -> None:
    server = Server("again")

    @server.tool
    async def again(ctx: Context[Any]) -> str | InputRequired:
        tries = 0 if ctx.request_state is None else ctx.request_state
        return InputRequired(state=tries + 1) if tries < 3 else "at last"

    async with open_client(server, revision=revision, capabilities=CAPABLE) as client:
        result = await client.request("tools/call", call("again"))
        for _ in range(3):
            if "requestState" in result:
                assert "inputRequests" not in result
                result = await client.request(
                    "tools/call", call("again") | {"requestState": result["requestState"]}
                )
        assert text(result) == "at last"


async def test_by_hand_there_is_an_end_in_the_era_of_requests() -> None:
    server = Server("again", limits=Limits(max_input_rounds=4))
    calls = 0

    @server.tool
    async def again(ctx: Context[Any]) -> InputRequired:
        nonlocal calls
        calls += 1
        return InputRequired(state=1)

    async with open_client(server, revision="2025-11-25", capabilities=CAPABLE) as client:
        with pytest.raises(RequestError, match="max_input_rounds"):
            await client.request("tools/call", call("again"))
    assert calls == 5


def test_json_states_are_not_readable() -> None:
    """What a client carries says nothing, not even which tool it is for."""

    async def main() -> str:
        async with open_client(by_hand(), revision=MODERN, capabilities=CAPABLE) as client:
            return str((await client.request("tools/call", call()))["requestState"])

    state = trio.run(main)
    raw = base64.urlsafe_b64decode(state.rpartition(".")[2] + "==")
    assert b"tries" not in raw
    assert b"greet" not in raw
    assert json.dumps({"tries": [1]}) not in state


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_more_answers_than_anybody_asks_for_are_refused_before_any_is_read(revision: str) -> None:
    """90,000 of them for a tool that never asks held the loop for seconds; that the last is none is not seen."""
    server = Server("never asks")

    @server.tool
    async def greet(greeting: str) -> str:
        return greeting

    answers: dict[str, Any] = {f"a{number}": accepted("Eve") for number in range(1_000)}
    async with open_client(server, revision=revision, capabilities=CAPABLE) as client:
        assert text(await client.request("tools/call", call() | {"inputResponses": answers})) == "Hello"
        many = {"inputResponses": answers | {"last": "no answer"}}
        told = "invalid params: inputResponses has 1001 members; 1000 are allowed -32602"
        assert await refused(client, call() | many) == told
