"""Scripted peers, on both ends: exactly these messages, exactly those."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import trio
import trio.testing
from eras import ENDS

from trio_mcp import (
    ConnectionLost,
    Outgoing,
    ProtocolError,
    Revision,
    Server,
    StreamChannel,
    memory_channel_pair,
    open_client,
)
from trio_mcp.testing import (
    Expect,
    Same,
    Say,
    ScriptedPeer,
    ScriptMismatch,
    assert_nothing_left,
    scripted_client,
    scripted_server,
)

CALL: Any = {
    "jsonrpc": "2.0",
    "id": Same("call"),
    "method": "tools/call",
    "params": {"name": "add", "arguments": {"a": 1, "b": 2}, ...: ...},
}
ANSWER: Any = {"jsonrpc": "2.0", "id": Same("call"), "result": {"content": [{"type": "text", "text": "3"}]}}


def adding() -> Server[Any]:
    server: Server[Any] = Server("adding")

    @server.tool
    def add(a: int, b: int) -> str:
        return str(a + b)

    @server.tool
    async def hang() -> None:
        await trio.sleep_forever()

    return server


@pytest.mark.parametrize("revision", list(Revision))
async def test_a_server_by_script_serves_a_client(revision: Revision) -> None:
    """The handshake of any revision, and then what the script says."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.accept(revision, capabilities={"tools": {}})
        call = await peer.expect(CALL)
        await peer.notify("notifications/progress", {"progressToken": "nobody's", "progress": 1})
        await peer.answer(call, {"content": [{"type": "text", "text": "3"}]})

    with assert_nothing_left():
        async with scripted_server(script) as channel, open_client(channel) as client:
            assert client.revision == revision
            assert (await client.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}))["content"]


async def test_steps_are_a_script_too() -> None:
    """As data: what is said, and what is expected."""
    steps: list[Expect | Say] = [
        Expect({"jsonrpc": "2.0", "id": Same("begin"), "method": "initialize", "params": ...}),
        Say(
            {
                "jsonrpc": "2.0",
                "id": Same("begin"),
                "result": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "steps", "version": "1"},
                },
            }
        ),
        Expect({"jsonrpc": "2.0", "method": "notifications/initialized", ...: ...}),
        Expect(CALL, within=60),
        Say(ANSWER),
    ]
    async with scripted_server(steps) as channel, open_client(channel, era="legacy") as client:
        result = await client.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    assert result["content"] == [{"type": "text", "text": "3"}]


async def test_another_message_ends_the_block_with_what_is_different() -> None:
    """At once, although the block waits for something else, and nobody has to read JSON twice."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.accept("2025-11-25", capabilities={"tools": {}})
        await peer.expect(CALL)

    with pytest.raises(ScriptMismatch) as caught:
        async with scripted_server(script) as channel, open_client(channel, era="legacy") as client:
            await client.request("tools/call", {"name": "sub", "arguments": {"a": 1, "b": "2", "c": []}})
    assert caught.value.differences == (
        '$.params.name: expected "add", got "sub"',
        '$.params.arguments.b: expected 2, got "2"',
        "$.params.arguments.c: expected nothing, got []",
    )
    text = str(caught.value)
    assert all(difference in text for difference in caught.value.differences)
    assert '"name": "add"' in text
    assert '"name": "sub"' in text


async def test_a_message_that_does_not_come_is_told_in_time(autojump_clock: trio.testing.MockClock) -> None:
    """Within the deadline, on Trio's clock, with what was expected."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.accept("2025-11-25")
        await peer.expect(CALL, within=600)

    with pytest.raises(ScriptMismatch, match="none came within 600 s") as caught:
        async with scripted_server(script) as channel, open_client(channel, era="legacy"):
            await trio.sleep_forever()
    assert "tools/call" in str(caught.value)
    assert trio.current_time() == pytest.approx(600, abs=1)


async def test_what_was_expected_when_the_block_is_left_has_not_come() -> None:
    """Leaving does not hide it."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.accept("2025-11-25")
        await peer.expect(CALL)

    with pytest.raises(ScriptMismatch, match="the connection has ended"):
        async with scripted_server(script) as channel, open_client(channel, era="legacy"):
            pass


async def test_a_client_that_leaves_too_early_is_told_although_the_block_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """In time: what the block waits for may be what the script would have done."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.accept("2025-11-25")
        await peer.expect(CALL)

    with trio.fail_after(600), pytest.raises(ScriptMismatch, match="the connection has ended"):
        async with scripted_server(script, within=60) as channel:
            async with open_client(channel, era="legacy"):
                pass
            await trio.sleep_forever()
    assert trio.current_time() == pytest.approx(60, abs=1)


async def test_what_comes_after_the_script_is_one_too_many() -> None:
    """Exactly these."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.accept("2025-11-25")

    with pytest.raises(ScriptMismatch, match=r"the script is over, and this came:\n.*ping"):
        async with scripted_server(script) as channel, open_client(channel, era="legacy") as client:
            await client.ping()


async def test_the_error_of_the_block_is_what_comes_out() -> None:
    """Not that the script has been left in the middle."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.accept("2025-11-25")
        await peer.expect(CALL)

    with pytest.raises(KeyError):
        async with scripted_server(script) as channel, open_client(channel, era="legacy"):
            raise KeyError


async def test_a_script_may_hang_up_and_the_client_says_so() -> None:
    """A peer that dies in the middle of a call."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.accept("2025-11-25", capabilities={"tools": {}})
        await peer.expect({"method": "tools/call", ...: ...})
        await peer.hang_up()

    async with scripted_server(script) as channel, open_client(channel, era="legacy") as client:
        with trio.fail_after(5), pytest.raises(ConnectionLost):
            await client.request("tools/call", {"name": "add"})


@pytest.mark.parametrize("revision", ENDS)
async def test_a_client_by_script_calls_a_server(revision: Revision) -> None:
    """Requests have ids, and in the modern era what they need besides."""
    with assert_nothing_left():
        async with scripted_client(adding()) as peer:
            await peer.shake_hands(revision)
            result = await peer.call("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
            assert result["content"] == [{"type": "text", "text": "3"}]
            id = await peer.request("tools/call", {"name": "hang", "arguments": {}})
            await peer.notify("notifications/cancelled", {"requestId": id})
            await peer.expect_nothing()


async def test_a_client_by_script_may_break_every_rule() -> None:
    """Bytes go as they are."""
    async with scripted_client(adding()) as peer:
        await peer.say(b"{nonsense")
        error = {"code": -32700, "message": ..., ...: ...}
        await peer.expect({"jsonrpc": "2.0", "error": error, ...: ...})


async def test_what_a_server_says_and_nobody_expects_fails_the_test() -> None:
    """Also if the test has not looked."""
    with pytest.raises(ScriptMismatch, match="no message was expected"):
        async with scripted_client(adding()) as peer:
            await peer.shake_hands("2025-11-25")
            await peer.request("ping")


async def test_it_works_over_any_channel() -> None:
    """Here over two ends of a byte stream; the far end is closed by whoever has it."""
    one, other = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(adding().serve_channel, StreamChannel(other, other))
        async with scripted_client(StreamChannel(one, one)) as peer:
            await peer.shake_hands("2025-06-18")
            assert await peer.call("ping") == {}


async def test_a_value_that_nobody_has_said_cannot_be_said() -> None:
    """A mistake of the script, told as one."""
    one, _ = memory_channel_pair()
    peer = ScriptedPeer(one)
    with pytest.raises(LookupError, match="<unknown> has no value yet"):
        await peer.say({"id": Same("unknown")})
    with pytest.raises(LookupError, match="cannot be said"):
        await peer.say({"id": ...})


async def test_what_is_no_script_and_no_server_is_told() -> None:
    """By what is meant."""
    steps: Any = [Expect(...), {"method": "ping"}]
    with pytest.raises(TypeError, match=r"step 2 of 2 must be an Expect or a Say, not \{'method': 'ping'\}"):
        async with scripted_server(steps) as channel:
            await channel.send([Outgoing(b"{}")])
            await channel.receive()
    no_scripts: list[Any] = [None, repr, 7]
    for no_script in no_scripts:
        with pytest.raises(TypeError, match=r"a script must be a list of Expect and Say, or an async function"):
            async with scripted_server(no_script) as channel:
                await channel.receive()
    no_servers: list[tuple[Any, str]] = [("http://localhost/mcp", "str"), (Server, "the class Server")]
    for no_server, kind in no_servers:
        with pytest.raises(TypeError, match=rf"needs a server in this process .* not {kind}$"):
            async with scripted_client(no_server):
                pass


async def test_the_end_can_be_expected() -> None:
    """And what comes in its place is shown."""
    one, other = memory_channel_pair()
    peer = ScriptedPeer(one)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other.send, [Outgoing(b'{"a":1}')])
        with pytest.raises(ScriptMismatch, match='"a": 1'):
            await peer.expect_end()
    await other.aclose()
    await peer.expect_end()
    await peer.expect_nothing()
    assert peer.received == [{"a": 1}]


PATTERNS: list[tuple[object, object, list[str]]] = [
    (..., {"a": 1}, []),
    ({"a": ...}, {"a": None}, []),
    ({"a": ...}, {}, ["$.a: expected ..., got nothing"]),
    ({"a": 1, ...: ...}, {"a": 1, "b": 2}, []),
    ({"a": 1}, {"a": 1, "b": 2}, ["$.b: expected nothing, got 2"]),
    ([1, ...], [1, 2, 3], []),
    ([1, 2, ...], [1], ["$: expected at least 2 items, got 1"]),
    ([1], [2], ["$[0]: expected 1, got 2"]),
    (1, 1.0, []),
    (1, True, ["$: expected 1, got true"]),
    (False, 0, ["$: expected false, got 0"]),
    ({"a": pytest.approx(0.3), "b": mock.ANY}, {"a": 0.1 + 0.2, "b": True}, []),
    ({"a": pytest.approx(0.3)}, {"a": 0.4}, ["$.a: expected 0.3 ± 3.0e-07, got 0.4"]),
    ({"protocolVersion": Revision.V2025_11_25}, {"protocolVersion": "2025-11-25"}, []),
    (None, 0, ["$: expected null, got 0"]),
    ({"a": Same("x"), "b": Same("x")}, {"a": 1, "b": 1}, []),
    ({"a": Same("x"), "b": Same("x")}, {"a": 1, "b": 2}, ["$.b: expected 1, got 2"]),
    ({"password": "***"}, {"password": "***"}, []),
    ({"password": "***"}, {"password": "hunter2"}, ['$.password: expected "***", got "hunter2"']),
    ("a\nb", "\x1b[2J", ['$: expected "a\\nb", got "\\u001b[2J"']),
]


async def test_patterns(subtests: pytest.Subtests) -> None:
    """What each of them lets through, and how the rest is told."""
    for expected, got, differences in PATTERNS:
        with subtests.test(expected=expected, got=got, differences=differences):
            one, other = memory_channel_pair()
            peer, sender = ScriptedPeer(one), ScriptedPeer(other)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sender.say, got)
                found: tuple[str, ...] = ()
                try:
                    assert await peer.expect(expected) == got
                except ScriptMismatch as mismatch:
                    found = mismatch.differences
            assert list(found) == differences


async def test_a_server_of_another_era_is_refused() -> None:
    """A script can be a server that no client can use."""

    async def script(peer: ScriptedPeer) -> None:
        request = await peer.expect({"method": "initialize", ...: ...})
        await peer.answer(request, {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {}})

    with pytest.raises(ProtocolError):
        async with scripted_server(script) as channel, open_client(channel, era="legacy"):
            pass
