"""Promise 10: every queue, buffer, table and wait is bounded by the limit that names it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from tape import Tape
from wires import BlockableChannel, ScriptedChannel, answer, modern_server

import trio_mcp
from trio_mcp import (
    Channel,
    ConnectionLost,
    Context,
    Limits,
    LocalProtocolError,
    Progress,
    RemoteProtocolError,
    RequestError,
    Server,
    StreamChannel,
    memory_channel_pair,
    open_client,
)
from trio_mcp.types import LoggingMessageNotificationParams

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(id: int | str, method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": META}}


def call(id: int, tool: str, **arguments: object) -> dict[str, Any]:
    return request(id, "tools/call", name=tool, arguments=arguments)


class Gate:
    """A server whose handlers wait at a gate."""

    def __init__(self, limits: Limits) -> None:
        self.server = Server("gate", limits=limits)
        self.running: list[int] = []
        self.most = 0
        self.order: list[int] = []
        self.gate = trio.Event()

        @self.server.tool
        async def wait(number: int, padding: str = "") -> str:
            self.order.append(number)
            self.running.append(number)
            self.most = max(self.most, len(self.running))
            try:
                await self.gate.wait()
            finally:
                self.running.remove(number)
            return str(number)

        @self.server.tool
        async def ask(ctx: Context[Any]) -> str:
            return json.dumps(await ctx.request("roots/list"))


async def test_requests_beyond_the_limit_wait_while_everything_else_gets_through(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """max_inbound_requests: in order, unstarted; pings, cancellations and answers are not held up."""
    gate = Gate(Limits(max_inbound_requests=3))
    channel = ScriptedChannel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.server.serve_channel, channel)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        channel.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        legacy = [
            {
                "jsonrpc": "2.0",
                "id": i,
                "method": "tools/call",
                "params": {"name": "wait", "arguments": {"number": i}},
            }
            for i in range(1, 9)
        ]
        channel.say(*legacy, {"jsonrpc": "2.0", "id": "p", "method": "ping"})
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gate.running) == [1, 2, 3]
        assert [m["id"] for m in channel.sent] == [0, "p"], "the ping was answered"
        for id in (2, 5):  # one that runs, one that waits
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
            channel.say(cancelled)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gate.running) == [1, 3, 4]
        gate.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gate.order) == [1, 2, 3, 4, 6, 7, 8], "5 was never started"
        assert gate.most == 3
        assert sorted(m["id"] for m in channel.sent[2:]) == [1, 3, 4, 6, 7, 8]
        channel.hang_up()


async def test_an_answer_gets_through_when_requests_are_at_their_limit(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """max_inbound_requests: the handlers that fill the limit wait for answers that lie behind more requests."""
    gate = Gate(Limits(max_inbound_requests=2, max_waiting_bytes=2_000))

    async def roots(_: object) -> dict[str, Any]:
        return {"roots": []}

    handlers = {"roots/list": roots}
    async with open_client(gate.server, revision="2025-11-25", request_handlers=handlers) as client:
        outcomes: list[str] = []

        async def ask() -> None:
            try:
                await client.call_tool("ask")
                outcomes.append("answered")
            except RequestError as error:
                outcomes.append(error.message)

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                for _ in range(40):
                    nursery.start_soon(ask)
    refusals = [outcome for outcome in outcomes if outcome != "answered"]
    assert 0 < len(refusals) < 39
    assert all("max_waiting_bytes" in refusal for refusal in refusals)
    assert len(outcomes) == 40


async def test_large_requests_wait_before_many_do(autojump_clock: trio.testing.MockClock) -> None:
    """4 times max_message_bytes: what is being served may not weigh more, however few requests it is."""
    gate = Gate(Limits(max_message_bytes=7_500))
    channel = ScriptedChannel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.server.serve_channel, channel)
        channel.say(*(call(i, "wait", number=i, padding="x" * 4_000) for i in range(6)))
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gate.running) == [0, 1, 2]
        gate.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gate.order) == list(range(6))
        assert gate.most == 3
        channel.hang_up()


async def test_reading_stops_when_enough_waits(autojump_clock: trio.testing.MockClock) -> None:
    """max_waiting_bytes: then the client's writes block; if there is room soon, they go on, and nothing is refused or lost."""
    gate = Gate(Limits(max_inbound_requests=1, max_waiting_bytes=5_000))
    ours, theirs = memory_channel_pair()
    sent = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.server.serve_channel, theirs)

        async def flood() -> None:
            nonlocal sent
            for i in range(100):
                await ours.send([trio_mcp.Outgoing(json.dumps(call(i, "wait", number=i)).encode())])
                sent += 1

        nursery.start_soon(flood)
        await trio.testing.wait_all_tasks_blocked()
        assert 5 < sent < 50
        gate.gate.set()
        answers = 0
        with trio.fail_after(10):
            while answers < 100:
                answers += len(await ours.receive())
        assert sorted(gate.order) == list(range(100))
        await ours.aclose()


def legacy_hello() -> dict[str, Any]:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello}


def give_up(id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


async def test_cancellations_reach_the_handlers_that_take_all_places_before_a_thousand_large_calls(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """max_waiting_bytes: with the limits as they are, what 1,000 calls of 6 kB weigh does not hold reading up."""
    gate = Gate(Limits())
    ours, theirs = memory_channel_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.server.serve_channel, theirs)
        began = trio.current_time()
        with trio.move_on_after(60):
            for id in range(1_000):
                message = call(id, "wait", number=id, padding="x" * 6_000)
                await ours.send([trio_mcp.Outgoing(json.dumps(message).encode())])
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(gate.running) == list(range(100))
            for id in range(100):
                await ours.send([trio_mcp.Outgoing(json.dumps(give_up(id)).encode())])
            await trio.testing.wait_all_tasks_blocked()
        assert sorted(gate.running) == list(range(100, 200))
        assert trio.current_time() == began, "at once"
        gate.gate.set()
        answered: set[int] = set()
        with trio.fail_after(10):
            while len(answered) < 900:
                for received in await ours.receive():
                    assert isinstance(received, trio_mcp.Incoming)
                    reply = json.loads(received.data)
                    assert "result" in reply
                    answered.add(reply["id"])
        assert answered == set(range(100, 1_000))
        await ours.aclose()


async def test_cancellations_get_through_when_the_requests_that_wait_weigh_too_much(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """max_waiting_bytes, slow_consumer_timeout: reading pauses, but not for ever; then what has no room is refused."""
    limits = Limits(max_inbound_requests=2, max_waiting_bytes=5_000)
    gate, channel = Gate(limits), ScriptedChannel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.server.serve_channel, channel)
        channel.say(*(call(id, "wait", number=id) for id in range(40)), give_up(0), give_up(1))
        await trio.testing.wait_all_tasks_blocked()
        assert (sorted(gate.running), channel.sent) == ([0, 1], []), "reading has paused"
        await trio.sleep(limits.slow_consumer_timeout + 0.1)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(gate.running) == [2, 3], "the cancellations got through"
        refused = {message["id"] for message in channel.sent}
        assert all("max_waiting_bytes" in message["error"]["message"] for message in channel.sent)
        assert refused == set(range(40 - len(refused), 40)), "the last ones, in order"
        assert 20 < len(refused) < 36
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        gate.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        answered = {message["id"] for message in channel.sent} - refused
        assert answered == set(range(2, 40 - len(refused))), "everything is answered that was not given up"
        channel.hang_up()


async def test_reading_pauses_anew_only_when_half_of_what_waited_is_served(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """max_waiting_bytes: a client that goes on like this does not make each further message wait."""
    limits = Limits(max_inbound_requests=1, max_waiting_bytes=5_000)
    gate, channel = Gate(limits), ScriptedChannel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.server.serve_channel, channel)
        channel.say(*(call(id, "wait", number=id) for id in range(20)))
        await trio.sleep(limits.slow_consumer_timeout + 0.1)
        assert channel.sent, "some are refused"
        refused = len(channel.sent)
        waiting = 20 - refused - 1
        for number in range(2):
            channel.say(give_up(number))
            await trio.testing.wait_all_tasks_blocked()
            # Room for one, and then for none: refused at once.
            channel.say(*(call(100 + 10 * number + more, "wait", number=99) for more in range(2)))
            await trio.testing.wait_all_tasks_blocked()
            assert len(channel.sent) == refused + number + 1
        for number in range(2, waiting // 2 + 4):
            channel.say(give_up(number))
        await trio.testing.wait_all_tasks_blocked()
        sent = len(channel.sent)
        channel.say(*(call(200 + more, "wait", number=99) for more in range(20)))
        await trio.testing.wait_all_tasks_blocked()
        assert len(channel.sent) == sent, "there was room again, and so reading pauses before it refuses"
        await trio.sleep(limits.slow_consumer_timeout + 0.1)
        assert len(channel.sent) > sent
        channel.hang_up()
        nursery.cancel_scope.cancel()


async def test_a_message_that_is_too_large_is_not_sent(autojump_clock: trio.testing.MockClock) -> None:
    """max_message_bytes: a request raises and names the limit, a result becomes an error that names it."""
    server = Server("large", limits=Limits(max_message_bytes=2_000))

    @server.tool
    async def large() -> str:
        return "x" * 3_000

    tape = Tape()
    async with open_client(server, limits=Limits(max_message_bytes=1_500), on_frame=tape) as client:
        with pytest.raises(LocalProtocolError, match=r"tools/call is \d+ bytes .* max_message_bytes is 1500"):
            await client.call_tool("large", {"text": "y" * 2_000})
        with pytest.raises(LocalProtocolError, match="max_message_bytes is 1500"):
            await client.notify("x/y", {"text": "y" * 2_000})
        with pytest.raises(RequestError, match=r"the answer is \d+ bytes; max_message_bytes is 2000"):
            await client.call_tool("large")
        assert client.statistics().calls == 0
    assert max(len(json.dumps(m)) for m in tape.sent) < 1_500


async def test_a_line_that_is_too_large_costs_only_its_request() -> None:
    """max_message_bytes, received: the call it answers fails at once, the request it holds is refused, all else goes on."""
    ours, theirs = trio.testing.memory_stream_pair()
    channel = StreamChannel(ours, ours, max_message_bytes=1_000, description="the wordy server")

    async def wordy() -> None:
        reader = trio_mcp.StreamChannel(theirs, theirs, max_message_bytes=10_000, description="client")
        while True:
            try:
                received = await reader.receive()
            except trio.EndOfChannel:
                return
            for item in received:
                assert isinstance(item, trio_mcp.Incoming)
                message = json.loads(item.data)
                reply = modern_server(
                    lambda m: answer(m, {"text": "x" * 5_000 if m["method"] == "x/long" else "short"})
                )(message)
                await reader.send([trio_mcp.Outgoing(json.dumps(reply).encode())])

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wordy)
            async with open_client(channel) as client:
                with pytest.raises(RemoteProtocolError, match="max_message_bytes is 16777216"):
                    await client.request("x/long")
                assert (await client.request("x/short"))["text"] == "short"


async def test_a_request_that_is_too_large_is_refused_by_its_id() -> None:
    """max_message_bytes, received by a server: -32600 with the id, and the session goes on."""
    ours, theirs = trio.testing.memory_stream_pair()
    server = Server("small", limits=Limits(max_message_bytes=1_000))
    channel = StreamChannel(theirs, theirs, max_message_bytes=1_000, description="the wordy client")
    client = StreamChannel(ours, ours, max_message_bytes=100_000, description="the server")
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve_channel, channel)
            huge, fine = request(7, "x/y", text="x" * 2_000), request(8, "server/discover")
            await client.send([trio_mcp.Outgoing(json.dumps(m).encode()) for m in (huge, fine)])
            answers: list[Any] = []
            while len(answers) < 2:
                for item in await client.receive():
                    assert isinstance(item, trio_mcp.Incoming)
                    answers.append(json.loads(item.data))
            await client.aclose()
    assert answers[0]["id"] == 7
    assert answers[0]["error"]["code"] == -32600
    assert "max_message_bytes is 1000" in answers[0]["error"]["message"]
    assert answers[1]["id"] == 8
    assert "result" in answers[1]


async def test_calls_beyond_the_limit_wait_for_their_turn(autojump_clock: trio.testing.MockClock) -> None:
    """max_outbound_requests: further callers wait, their deadlines cover the wait, and nothing is written for them."""
    channel = ScriptedChannel(modern_server())
    async with open_client(channel, limits=Limits(max_outbound_requests=3)) as client:
        async with trio.open_nursery() as nursery:
            for i in range(5):
                nursery.start_soon(client.request, f"x/{i}")
                await trio.testing.wait_all_tasks_blocked()
            assert [m["method"] for m in channel.sent[1:]] == ["x/0", "x/1", "x/2"]
            with trio.move_on_after(2) as scope:
                await client.request("x/late")
            assert scope.cancelled_caught
            for message in channel.sent[1:]:
                channel.say(answer(message, {}))
            await trio.testing.wait_all_tasks_blocked()
            for message in channel.sent[4:]:
                channel.say(answer(message, {}))
        assert {m["method"] for m in channel.sent[4:]} == {"x/3", "x/4"}
        with pytest.raises(ValueError, match="max_outbound_requests=3"):
            await client._reconnecting.agreed.peer.request_batch([("x/y", None)] * 4)


async def test_senders_wait_when_the_outbox_is_full(autojump_clock: trio.testing.MockClock) -> None:
    """max_outbox_bytes: a client that does not read holds up the handlers that talk to it, and they keep in bounds."""
    server = Server("chatty", limits=Limits(max_outbox_bytes=4_000))
    sent = 0

    @server.tool
    async def chat(ctx: Context[Any]) -> str:
        nonlocal sent
        for _ in range(1_000):
            await ctx.report_progress(sent + 1)
            sent += 1
        return "done"

    ours, theirs = memory_channel_pair()
    client = BlockableChannel(ours)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_channel, theirs)
        message = call(1, "chat")
        message["params"]["_meta"] = {**META, "progressToken": "t"}
        await client.send([trio_mcp.Outgoing(json.dumps(message).encode())])
        await trio.testing.wait_all_tasks_blocked()
        assert 10 < sent < 200, "nobody reads"
        received = 0
        with trio.fail_after(5):
            while received < 1_001:
                received += len(await client.receive())
        await client.aclose()
    assert sent == 1_000


async def test_a_flood_of_pings_from_a_peer_that_does_not_read_stops_being_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """max_outbox_bytes: what the reader answers itself is bounded, too."""
    server = Server("pong", limits=Limits(max_outbox_bytes=1_000))
    ours, theirs = memory_channel_pair()
    sent = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_channel, theirs)

        async def flood() -> None:
            nonlocal sent
            while True:
                await ours.send([trio_mcp.Outgoing(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % sent)])
                sent += 1

        nursery.start_soon(flood)
        await trio.testing.wait_all_tasks_blocked()
        assert 10 < sent < 200
        nursery.cancel_scope.cancel()


async def test_slow_handlers_of_notifications_do_not_hold_up_answers(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """max_notifications, slow_consumer_timeout: reading stalls once and for so long, then the oldest make room."""
    channel = ScriptedChannel(modern_server())
    seen: list[float] = []
    limits = Limits(max_notifications=10, slow_consumer_timeout=3)

    async def dawdle(progress: Progress) -> None:
        seen.append(progress.progress)
        await trio.sleep(1_000)

    async with open_client(channel, limits=limits) as client:
        results: list[object] = []

        async def slow() -> None:
            results.append(await client.request("x/slow", on_progress=dawdle))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow)
            await trio.testing.wait_all_tasks_blocked()
            slow_request = channel.sent[-1]
            token = slow_request["params"]["_meta"]["progressToken"]
            for i in range(1, 31):
                params = {"progressToken": token, "progress": i}
                channel.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            begin = trio.current_time()
            channel.reply = modern_server(lambda m: answer(m, {}) if m["method"] == "x/quick" else None)
            with caplog.at_level(logging.WARNING, "trio_mcp"):
                await client.request("x/quick")
            assert trio.current_time() - begin == 3, "held up once, for slow_consumer_timeout"
            assert "max_notifications" in caplog.text
            dropped = client.statistics().dropped_notifications
            assert 0 < dropped < 30
            channel.say(answer(slow_request, {}))
    assert seen[-1] == 30, "the newest is the one that is kept"
    assert len(seen) == 30 - dropped
    assert results == [{}]


@pytest.mark.parametrize("calls", [1, 4])
async def test_progress_that_waits_takes_no_more_memory_than_it_may(
    calls: int, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """max_message_bytes: few notifications, for however many calls, may be what weighs much."""
    channel = ScriptedChannel(modern_server())
    limits = Limits(max_message_bytes=500_000, slow_consumer_timeout=3)
    text = "\N{GRINNING FACE}" + "x" * 20_000
    seen: list[str | None] = []

    async def dawdle(progress: Progress) -> None:
        await trio.sleep(1_000)
        seen.append(progress.message)

    async with open_client(channel, limits=limits) as client, trio.open_nursery() as nursery:
        for _ in range(calls):
            nursery.start_soon(partial(client.request, "x/slow", on_progress=dawdle))
        await trio.testing.wait_all_tasks_blocked()
        asked = [message for message in channel.sent if message.get("method") == "x/slow"]
        for i in range(60):
            token = asked[i % calls]["params"]["_meta"]["progressToken"]
            params = {"progressToken": token, "progress": i, "message": f"{i}{text}"}
            channel.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        begin = trio.current_time()
        channel.reply = modern_server(lambda m: answer(m, {}) if m["method"] == "x/quick" else None)
        with caplog.at_level(logging.WARNING, "trio_mcp"):
            await client.request("x/quick")
        assert trio.current_time() - begin == 3, "held up once, for slow_consumer_timeout"
        assert "max_message_bytes is 500000" in caplog.text
        left = 60 - client.statistics().dropped_notifications
        assert left * 80_000 <= 500_000 + calls * 100_000
        channel.say(*(answer(message, {}) for message in asked))
        await trio.sleep(50_000)
        assert len(seen) == left
        nursery.start_soon(partial(client.request, "x/slow", on_progress=dawdle))
        await trio.testing.wait_all_tasks_blocked()
        token = channel.sent[-1]["params"]["_meta"]["progressToken"]
        for i in range(4):
            params = {"progressToken": token, "progress": i, "message": f"{i}{text}"}
            channel.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        channel.say(answer(channel.sent[-1], {}))
    assert len(seen) == left + 4, "the room is free again"


async def test_progress_that_waits_for_a_call_that_is_given_up_gives_its_room_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """max_message_bytes: what nobody will handle takes none of it."""
    channel = ScriptedChannel(modern_server())
    limits = Limits(max_message_bytes=500_000, slow_consumer_timeout=3)
    seen: list[str | None] = []

    async def never(_: Progress) -> None:
        await trio.sleep_forever()

    def report(times: int) -> None:
        token = channel.sent[-1]["params"]["_meta"]["progressToken"]
        for i in range(times):
            params = {"progressToken": token, "progress": i, "message": "x" * 100_000}
            channel.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    async with open_client(channel, limits=limits) as client, trio.open_nursery() as nursery:
        for _ in range(3):
            with trio.move_on_after(1):
                nursery.start_soon(run_when_blocked, partial(report, 4))
                await client.request("x/slow", on_progress=never)
        nursery.start_soon(
            partial(client.request, "x/slow", on_progress=lambda progress: seen.append(progress.message))
        )
        await trio.testing.wait_all_tasks_blocked()
        asked = channel.sent[-1]
        begin = trio.current_time()
        report(4)
        channel.say(answer(asked, {}))
        await trio.testing.wait_all_tasks_blocked()
        assert (len(seen), trio.current_time() - begin) == (4, 0)
        assert client.statistics().dropped_notifications == 0


async def run_when_blocked(act: Callable[[], object]) -> None:
    await trio.testing.wait_all_tasks_blocked()
    act()


async def test_notifications_that_wait_take_no_more_memory_than_they_may(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """max_message_bytes: a few log messages of empty lists may weigh more than a thousand others."""
    channel = ScriptedChannel(modern_server(lambda m: answer(m, {})))
    limits = Limits(max_message_bytes=1_000_000, slow_consumer_timeout=3)
    seen: list[object] = []

    async def dawdle(params: LoggingMessageNotificationParams) -> None:
        await trio.sleep(1_000)
        seen.append(params.data)

    async with open_client(channel, limits=limits, on_log=dawdle) as client:
        for i in range(20):
            data: list[object] = [i, *([] for _ in range(2_000))]
            params = {"level": "info", "data": data}
            channel.say({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        with caplog.at_level(logging.WARNING, "trio_mcp"):
            await client.request("x/quick")
        assert "max_message_bytes is 1000000" in caplog.text
        left = 20 - client.statistics().dropped_notifications
        assert 2 <= left <= 6
        await trio.sleep(50_000)
        assert len(seen) == left


async def test_a_callback_may_use_the_client_although_the_queue_is_full(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """slow_consumer_timeout: a callback that waits for an answer behind the flood is not a deadlock."""
    server = Server("flood")

    @server.tool
    async def flood(ctx: Context[Any]) -> str:
        for i in range(500):
            await ctx.report_progress(i + 1)
        return "done"

    async with open_client(server, limits=Limits(max_notifications=5)) as client:
        asked = 0

        async def ask(_: Progress) -> None:
            nonlocal asked
            await client.ping()
            asked += 1

        with trio.fail_after(60):
            await client.call_tool("flood", on_progress=ask)
    assert asked >= 1


@pytest.mark.parametrize("revision", [None, "2025-11-25", "2026-07-28"])
async def test_connecting_is_bounded(revision: str | None, autojump_clock: trio.testing.MockClock) -> None:
    """connect_timeout; and discover_timeout, where silence may mean a server of the legacy era."""
    limits = Limits(connect_timeout=7, discover_timeout=2)
    asked: dict[str, float] = {}

    def note(message: dict[str, Any]) -> None:
        asked.setdefault(message["method"], trio.current_time())

    with pytest.raises((ConnectionLost, RemoteProtocolError)):
        async with open_client(ScriptedChannel(note), revision=revision, limits=limits):
            pass
    assert trio.current_time() == 7
    asked.pop("notifications/cancelled", None)
    expected: dict[str | None, dict[str, float]] = {
        None: {"server/discover": 0, "initialize": 2},
        "2025-11-25": {"initialize": 0},
        "2026-07-28": {"server/discover": 0},
    }
    assert asked == expected[revision]


async def test_draining_is_bounded(autojump_clock: trio.testing.MockClock) -> None:
    """drain_timeout: what was asked may finish; what does not is cancelled and answered so; nothing new is taken."""
    server = Server("drain", limits=Limits(drain_timeout=4, max_inbound_requests=2))
    finished: list[int] = []

    @server.tool
    async def work(seconds: int) -> str:
        await trio.sleep(seconds)
        finished.append(seconds)
        return "done"

    channel = ScriptedChannel()
    shutdown = trio_mcp.Shutdown()
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await server.serve_channel(channel, shutdown=shutdown)

        nursery.start_soon(serve)
        channel.say(call(1, "work", seconds=3), call(2, "work", seconds=60), call(3, "work", seconds=0))
        await trio.testing.wait_all_tasks_blocked()
        shutdown.drain()
        await trio.testing.wait_all_tasks_blocked()
        channel.say(call(4, "work", seconds=0))
    assert trio.current_time() == 4
    assert finished == [3, 0], "what had come before is served, what waited too"
    outcomes = {m["id"]: "result" if "result" in m else m["error"]["message"] for m in channel.sent}
    assert outcomes == {
        1: "result",
        2: "serving ended before the request was done",
        3: "result",
        4: "serving is about to end",
    }
    assert channel.closed


async def test_a_request_that_still_waits_when_serving_ends_is_answered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """drain_timeout: with an error that says that it was not begun."""
    server = Server("drain", limits=Limits(drain_timeout=4, max_inbound_requests=1))
    begun: list[int] = []

    @server.tool
    async def work(number: int) -> None:
        begun.append(number)
        await trio.sleep_forever()

    channel = ScriptedChannel()
    shutdown = trio_mcp.Shutdown()
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await server.serve_channel(channel, shutdown=shutdown)

        nursery.start_soon(serve)
        channel.say(call(1, "work", number=1), call(2, "work", number=2), call(3, "work", number=3))
        await trio.testing.wait_all_tasks_blocked()
        shutdown.drain()
    assert trio.current_time() == 4
    assert begun == [1]
    assert {message["id"]: message["error"]["message"] for message in channel.sent} == {
        1: "serving ended before the request was done",
        2: "serving ended before the request was started",
        3: "serving ended before the request was started",
    }
    assert {message["error"]["code"] for message in channel.sent if message["id"] != 1} == {-31002}


@pytest.mark.parametrize("seconds", [3, 60])
async def test_what_was_notified_before_the_end_is_handled(
    seconds: int, autojump_clock: trio.testing.MockClock
) -> None:
    """drain_timeout: notifications that were read when the input ended are no less than requests."""
    server = Server("drain", limits=Limits(drain_timeout=4))
    handled: list[object] = []

    @server.notification_handler("notifications/example")
    async def note(params: object, context: object) -> None:
        await trio.sleep(seconds)
        handled.append(params)

    channel = ScriptedChannel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_channel, channel)
        channel.say(call(1, "none"), {"jsonrpc": "2.0", "method": "notifications/example"})
        channel.hang_up()
    assert trio.current_time() == min(seconds, 4)
    assert len(handled) == (seconds == 3)
    assert channel.closed


async def test_threads_are_bounded() -> None:
    """max_threads: plain functions beyond it wait."""
    server = Server("threads", limits=Limits(max_threads=2))
    running = most = 0

    @server.tool
    def block() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        trio.from_thread.run(trio.sleep, 0.02)
        running -= 1
        return "done"

    with trio.fail_after(10):
        async with open_client(server) as client, trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(client.call_tool, "block")
    assert most == 2


def test_every_limit_has_a_test() -> None:
    """A limit that is added here must be tested: this list is the reminder."""
    tested_here = {
        "max_message_bytes",
        "max_inbound_requests",
        "max_waiting_bytes",
        "max_outbound_requests",
        "max_outbox_bytes",
        "max_notifications",
        "slow_consumer_timeout",
        "connect_timeout",
        "discover_timeout",
        "drain_timeout",
        "max_threads",
    }
    tested_elsewhere = {
        "goodbye_timeout",
        "lifespan_timeout",
        "max_asking_threads",
        "max_cache_bytes",
        "max_file_bytes",
        "max_input_rounds",
        "max_kept_bytes",
        "max_kept_bytes_per_principal",
        "max_parked",
        "max_subscriptions",
        "max_tasks",
        "max_upstreams",
        "parked_timeout",
        "terminate_timeout",
        "thread_timeout",
    }
    assert {field.name for field in attrs.fields(Limits) if field.init} == tested_here | tested_elsewhere
    assert issubclass(ScriptedChannel, Channel)
