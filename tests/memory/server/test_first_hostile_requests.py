"""What a client can send to harm a server: each costs the one request, and the session goes on."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, final

import pytest
import trio
import trio.testing
from passes import counted
from raw import initialize
from wires import ScriptedChannel

from trio_mcp import Channel, Context, Incoming, Limits, Outgoing, Server, StreamChannel

PING = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}
PONG: dict[str, Any] = {"jsonrpc": "2.0", "id": "ping", "result": {}}


def call(id: object, tool: str, meta: object = None, **arguments: object) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments, **({} if meta is None else {"_meta": meta})}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def make_server(limits: Limits | None = None) -> Server[None]:
    server: Server[None] = Server("patient", limits=limits)

    @server.tool
    async def report(ctx: Context[Any]) -> str:
        await ctx.report_progress(1)
        return "reported"

    @server.tool
    async def wait() -> str:
        await trio.sleep_forever()
        raise AssertionError

    @server.tool
    async def repeat(text: str, times: int = 1) -> str:
        await trio.lowlevel.checkpoint()
        return text * times

    return server


@asynccontextmanager
async def served(server: Server[None], revision: str = "2025-03-26") -> AsyncGenerator[ScriptedChannel]:
    """Serve a client that has shaken hands, and check in the end that it is still served."""
    channel = ScriptedChannel()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve_channel, channel)
        channel.say(initialize(revision))
        await trio.testing.wait_all_tasks_blocked()
        channel.sent.clear()
        yield channel
        channel.say(PING)
        await trio.testing.wait_all_tasks_blocked()
        assert channel.sent[-1] == PONG
        nursery.cancel_scope.cancel()


async def test_a_time_that_cannot_be_granted_is_no_deadline(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """`trio-mcp/timeoutMs` is untrusted: an integer may be larger than any float."""
    values: list[object] = [10**400, 10**18, 1e308, -1, -(10**400), "5", None, True, [], {}]
    for granted in values:
        with subtests.test(granted=granted):
            async with served(make_server()) as channel:
                channel.say(call(1, "report", {"trio-mcp/timeoutMs": granted}))
                await trio.testing.wait_all_tasks_blocked()
                assert [message["id"] for message in channel.sent] == [1]
                assert "result" in channel.sent[0]


async def test_a_progress_token_is_a_string_or_an_integer(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """2025-03-26, basic/utilities/progress: tokens MUST be a string or integer value; nothing else is echoed."""
    rows: list[tuple[object, object]] = [
        (1, 1),
        ("1", "1"),
        ("", ""),
        (-1, -1),
        (2.0, 2),
        (True, None),
        (1.5, None),
        ([], None),
        ({}, None),
    ]
    for token, echoed in rows:
        with subtests.test(token=token, echoed=echoed):
            async with served(make_server()) as channel:
                channel.say(call(1, "report", {"progressToken": token}))
                await trio.testing.wait_all_tasks_blocked()
                tokens = [message["params"]["progressToken"] for message in channel.sent if "method" in message]
                assert [(token, type(token)) for token in tokens] == (
                    [] if echoed is None else [(echoed, type(echoed))]
                )
                assert channel.sent[-1]["id"] == 1


async def test_a_request_in_a_batch_that_cannot_be_kept_costs_itself(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A waiting request is encoded again, and what could just be read may be too deep to be written."""
    async with served(make_server(Limits(max_inbound_requests=1))) as channel:
        for depth in range(900, 1000):
            deep = b"[" * depth + b"]" * depth
            requests = [
                json.dumps(call(f"{depth}-{which}", "repeat", text="DEEP")).encode().replace(b'"DEEP"', deep)
                for which in range(2)
            ]
            channel.say(b"[%b]" % b",".join(requests))
            await trio.testing.wait_all_tasks_blocked()
        assert len(channel.sent) >= 100, "each was answered, or was no JSON that anybody can read"


def padded(*members: str) -> bytes:
    """Return an object with these members, where `PAD` stands for much text."""
    return f"{{{','.join(members)}}}".replace("PAD", "x" * 3000).encode()


@pytest.mark.parametrize(
    ("line", "id"),
    [
        (padded('"jsonrpc":"2.0"', '"id":1', '"method":"x"', '"params":{"a":"PAD"}'), 1),
        (padded('"params":{"a":"PAD"}', '"jsonrpc":"2.0"', '"id":2', '"method":"x"'), 2),
        (padded('"params":{"result":1,"a":"PAD"}', '"jsonrpc":"2.0"', '"id":3', '"method":"x"'), 3),
        (padded('"a":"PAD"', '"jsonrpc":"2.0"', '"id":4', '"method":"x"'), 4),
        (b"x" * 3000, None),
    ],
)
async def test_a_request_that_is_too_large_is_refused_however_it_is_written(line: bytes, id: int | None) -> None:
    """JSON has no order of members: a writer may begin with `params`, and its caller waits for an answer too."""
    ours, theirs = trio.testing.memory_stream_pair()
    channel = StreamChannel(theirs, theirs, max_message_bytes=2000, description="a client")
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(make_server().serve_channel, channel)
            await ours.send_all(line + b"\n")
            answer: dict[str, Any] = json.loads(bytes(await ours.receive_some()))
            assert answer["error"]["code"] == -32600
            assert answer.get("id") == id
            await ours.aclose()


@pytest.mark.parametrize(
    "line",
    [
        padded('"jsonrpc":"2.0"', '"id":1', '"result":{"method":"GET","a":"PAD"}'),
        padded('"jsonrpc":"2.0"', '"error":{"code":1,"message":"PAD"}', '"id":2'),
        padded('"a":"PAD"', '"result":{}', '"id":2'),
    ],
)
async def test_an_answer_that_is_too_large_is_not_answered(line: bytes) -> None:
    """Or two servers could answer each other's errors for ever."""
    ours, theirs = trio.testing.memory_stream_pair()
    channel = StreamChannel(theirs, theirs, max_message_bytes=2000, description="a client")
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(make_server().serve_channel, channel)
            await ours.send_all(line + b"\n" + json.dumps(PING).encode() + b"\n")
            assert json.loads(bytes(await ours.receive_some())) == PONG
            await ours.aclose()


@pytest.mark.parametrize("messages", [0, 1_001])
async def test_a_batch_is_neither_empty_nor_too_long(
    messages: int, autojump_clock: trio.testing.MockClock
) -> None:
    """MAX_BATCH; 16 MiB hold eight million messages, each of which would get an error (JSON-RPC 2.0, 6)."""
    async with served(make_server()) as channel:
        channel.say([1] * messages)
        await trio.testing.wait_all_tasks_blocked()
        (refusal,) = channel.sent
        assert refusal["error"]["code"] == -32600
        if messages:
            assert "a batch of 1001 messages; it holds 1 to 1000" in refusal["error"]["message"]
        channel.sent.clear()
        channel.say([1] * 1_000)
        await trio.testing.wait_all_tasks_blocked()
        assert [message["error"]["code"] for message in channel.sent] == [-32600] * 1_000


@final
class _AllAtOnce(Channel):
    """A channel over which several messages are received at once, and nothing else."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = [Incoming(data) for data in messages]
        self.sent: list[bytes] = []

    async def receive(self) -> Sequence[Incoming]:
        await trio.lowlevel.checkpoint()
        messages, self._messages = self._messages, []
        if not messages:
            raise trio.EndOfChannel
        return messages

    async def send(self, messages: Sequence[Outgoing]) -> None:
        await trio.lowlevel.checkpoint()
        self.sent += [message.data for message in messages]

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_batches_that_are_refused_hold_up_no_other_task() -> None:
    """One read may bring a dozen batches of twenty thousand: other tasks get a pass after each of them."""
    batch = b"[" + b"[]," * 30_000 + b"[]]"
    taken: list[int] = []
    for batches in (1, 11):
        channel = _AllAtOnce(json.dumps(initialize("2025-03-26")).encode(), *[batch] * batches)
        with trio.fail_after(20), counted() as passes:
            before = passes.number
            await make_server().serve_channel(channel)
            taken.append(passes.number - before)
        assert sum(b"it holds 1 to 1000" in data for data in channel.sent) == batches
    assert taken[1] >= taken[0] + 9


async def test_the_answers_to_a_batch_fit_a_message_together(autojump_clock: trio.testing.MockClock) -> None:
    """max_message_bytes: a thousand large answers must not be gathered, and no client would read them."""
    async with served(make_server(Limits(max_message_bytes=10_000))) as channel:
        frames: list[int] = []
        plain_send = channel.send

        async def send(messages: Any) -> None:
            frames.extend(len(message.data) for message in messages)
            await plain_send(messages)

        channel.send = send  # type: ignore[method-assign]
        channel.say([call(id, "repeat", text="x", times=3_000) for id in range(1, 9)])
        await trio.testing.wait_all_tasks_blocked()
        ends = {message["id"]: "result" in message for message in channel.sent}
        assert sorted(ends) == list(range(1, 9)), "every request has its answer"
        assert sum(ends.values()) == 3
        assert frames[0] < 12_000, "what does not fit is an error, and errors are short"
        problems = {message["error"]["message"] for message in channel.sent if "error" in message}
        assert problems == {"the answers to the batch exceed 10000 bytes (max_message_bytes)"}
