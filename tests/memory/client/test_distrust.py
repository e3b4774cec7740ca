"""Servers that misbehave: each oddity costs itself, is logged, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
import trio
import trio.testing
from eras import ENDS, LEGACY_ENDS
from inside_client import (
    Callbacks,
    ClientCaches,
    ClientIdentity,
    ClientSettings,
    Connector,
    NotificationHandlers,
    QuestionHandlers,
    Questions,
    ReconnectingConnection,
    ServerMessages,
    Subscriptions,
)
from scripted_server import ALL, LEGACY, MODERN, ScriptedServer
from wires import answer, refusal

from trio_mcp import (
    Channel,
    Client,
    ConnectionLost,
    Limits,
    RemoteProtocolError,
    RequestError,
    RestartPolicy,
    Revision,
    TooLarge,
    open_client,
)
from trio_mcp.types import ClientCapabilities, Implementation


@pytest.mark.spec("basic/utilities/cancellation", "Behavior Requirements")
@pytest.mark.spec("basic/utilities/cancellation", "Timing Considerations")
@pytest.mark.spec("basic/patterns/cancellation", "Behavior Requirements")
@pytest.mark.spec("basic/patterns/cancellation", "Timing Considerations")
@pytest.mark.parametrize("revision", ENDS)
async def test_late_repeated_and_foreign_answers_reach_no_call(
    revision: Revision, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    server = ScriptedServer(revision)
    good = server.complete(content=[{"type": "text", "text": "good"}])

    def call(message: dict[str, Any]) -> object:
        id = message["id"]
        if message["params"]["name"] == "silent":
            return None
        for stray in (str(id), id + 1000, None, 1.5):
            server.say({"jsonrpc": "2.0", "id": stray, "result": server.complete(content=[])})
        server.say(answer(message, good))
        server.say(answer(message, server.complete(content=[])), refusal(message, 1, "again"))
        return None

    server.script["tools/call"] = call
    with caplog.at_level(logging.DEBUG, "trio_mcp"):
        async with open_client(server, revision=revision) as client:
            with trio.move_on_after(1):
                await client.call_tool("silent")
            late = server.requests("tools/call")[0]
            server.say(answer(late, good))
            for _ in range(3):
                result = await client.call_tool("x")
                assert len(result.content) == 1
            await trio.testing.wait_all_tasks_blocked()
            assert client.statistics().calls == 0
    assert caplog.text.count("ignored an answer that no call waits for, id 'never'") == 0
    assert "ignored an answer that no call waits for" in caplog.text


@pytest.mark.parametrize("revision", ENDS)
async def test_a_refusal_of_the_log_level_does_not_stick(revision: Revision) -> None:
    """A server without logging refuses; the next connection must not be refused because of that."""
    server = ScriptedServer(revision)
    async with open_client(server, revision=revision) as client:
        if revision.is_modern:
            await client.set_log_level("info")  # a modern server is not asked
        else:
            with pytest.raises(RequestError):
                await client.set_log_level("info")
        assert (client._reconnecting.chosen_log_level is None) is not revision.is_modern


class Connections:
    """A connector that gives one scripted server after another."""

    restart = RestartPolicy(first_delay=0)

    def __init__(self, *servers: ScriptedServer) -> None:
        self._servers = list(servers)

    @asynccontextmanager
    async def open(self, limits: Limits) -> AsyncGenerator[Channel]:
        del limits
        await trio.lowlevel.checkpoint()
        yield self._servers.pop(0)


@asynccontextmanager
async def open_on(
    servers: Connections, handlers: QuestionHandlers, revisions: tuple[Revision, ...]
) -> AsyncGenerator[Client]:
    """Open a client that has one connection after another."""
    capabilities = handlers.declared(ClientCapabilities())
    identity = ClientIdentity(Implementation(name="t", version="1"), capabilities, revisions)
    questions = Questions(handlers, capabilities)
    limits = Limits(max_inbound_requests=3, max_input_rounds=3)
    memory = ClientCaches(None, None, capabilities)

    def messages() -> ServerMessages:
        subscriptions = Subscriptions(memory.forget, Callbacks(), warn_of_unknown=True)
        return ServerMessages(questions, NotificationHandlers(), subscriptions)

    reconnecting = ReconnectingConnection(
        Connector(open=servers.open, restart=servers.restart),
        identity,
        Limits(),
        messages=messages,
        on_frame=None,
        forget=memory.forget,
    )
    settings = ClientSettings(
        request_timeout=1e9,
        limits=limits,
        result_types={revision: {} for revision in Revision},
    )
    async with trio.open_nursery() as nursery:
        connected = trio.Event()
        nursery.start_soon(reconnecting.run, connected.set)
        await connected.wait()
        client = Client(reconnecting, questions, settings, memory)
        try:
            yield client
        finally:
            await client.aclose()


async def lose(server: ScriptedServer, client: Client) -> None:
    server.hang_up()
    before = client._reconnecting.agreed
    while client._reconnecting.agreed is before:
        await trio.sleep(0.1)


@pytest.mark.parametrize("second", [MODERN, LEGACY[-1]])
async def test_a_connection_may_be_restored_between_two_rounds(
    second: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    """The state is brought to the next process; what it means there is that one's business (mrtr, "Basic Workflow").

    To a server that has come back older it would mean nothing, and the call fails.
    """
    first = ScriptedServer(
        MODERN, {"tools/call": {"resultType": "input_required", "inputRequests": {"q": {"method": "x/lose"}}}}
    )
    then = ScriptedServer(second)
    then.script["tools/call"] = then.complete(content=[])
    holder: list[Client] = []

    async def lose_it(_: object) -> dict[str, Any]:
        await lose(first, holder[0])
        return {}

    handlers = QuestionHandlers(others={"x/lose": lose_it})
    async with open_on(Connections(first, then), handlers, ALL) as client:
        holder.append(client)
        if second.is_modern:
            assert (await client.call_tool("x")).content == ()
            assert then.requests("tools/call")[0]["params"]["inputResponses"] == {"q": {}}
        else:
            with pytest.raises(ConnectionLost, match="came back with 2025-11-25"):
                await client.call_tool("x")
            assert then.requests("tools/call") == []


async def test_a_closed_client_says_so() -> None:
    async with open_client(ScriptedServer(MODERN), roots=[]) as client:
        await client.aclose()
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: client.set_roots(["file:///a"]),
            client.discover,
            client.ping,
            lambda: anext(client.list_tools()),
        ]
        for call in calls:
            with pytest.raises(trio.ClosedResourceError):
                await call()


@pytest.mark.parametrize("odd", [5, "x", [1], None])
async def test_an_odd_meta_in_a_discovery_does_not_cost_the_connection(odd: object) -> None:
    """The name of the server may be in there, and that is only shown."""
    server = ScriptedServer(MODERN)
    discovery: dict[str, Any] = {"supportedVersions": [MODERN], "capabilities": {}, "_meta": odd}
    server.script["server/discover"] = lambda _: discovery
    async with open_client(server, revision=MODERN) as client:
        assert client.server_info is None


@pytest.mark.parametrize("revision", ENDS)
async def test_odd_capabilities_of_a_server_do_not_cost_the_connection(
    subtests: pytest.Subtests, revision: Revision
) -> None:
    """PHP writes ``[]`` for an object without members, and some servers have only a yes or a no to say."""
    rows: list[object] = [True, [], False, None]
    for odd in rows:
        with subtests.test(odd=odd):
            server = ScriptedServer(
                revision, capabilities={"tools": odd, "logging": odd, "resources": {"subscribe": odd}}
            )
            async with open_client(server, revision=revision) as client:
                capabilities = client.server_capabilities
                assert capabilities is not None
                assert (
                    (capabilities.tools is not None) is (capabilities.logging is not None) is (odd in (True, []))
                )
                assert capabilities.resources is not None
                assert capabilities.resources.subscribe is (odd if isinstance(odd, bool) else None)


UNUSABLE: dict[str, Callable[[int], object]] = {
    "neither result nor error": lambda n: {"jsonrpc": "2.0", "id": n},
    "no JSON-RPC": lambda n: {"id": n},
    "method of null": lambda n: {"jsonrpc": "2.0", "id": n, "method": None, "result": {}},
    "a number nobody reads": lambda n: b'{"jsonrpc":"2.0","id":%d,"result":{"n":%b}}' % (n, b"7" * 6000),
    "too deep": lambda n: b'{"jsonrpc":"2.0","id":%d,"result":{"n":%b}}' % (n, b"[" * 99_999 + b"]" * 99_999),
    "id at the end": lambda n: b'{"result":{"n":%b},"jsonrpc":"2.0","id":%d}' % (b"7" * 6000, n),
    "no UTF-8": lambda n: b'{"jsonrpc":"2.0","id":%d,"result":{"n":"\xff"}}' % n,
    "cut off": lambda n: b'{"jsonrpc":"2.0","id":%d,"result":{"n":' % n,
    "no number": lambda n: b'{"jsonrpc":"2.0","id":%d,"result":{"n":NaN}}' % n,
    "an infinity": lambda n: b'{"jsonrpc":"2.0","id":%d,"result":{"n":Infinity}}' % n,
    "an infinity in an error": lambda n: b'{"error":{"code":1,"data":-Infinity},"jsonrpc":"2.0","id":%d}' % n,
    "a number too large": lambda n: b'{"jsonrpc":"2.0","id":%d.0,"result":{"n":1e999}}' % n,
    "an array": lambda n: [answer({"id": n}, {})] * 2000,
}


@pytest.mark.parametrize("revision", ENDS)
async def test_a_line_that_visibly_answers_a_call_ends_it_whatever_is_wrong_with_it(
    subtests: pytest.Subtests, revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    """There will be no other answer. It costs that call and no sibling."""

    async def check(unusable: str) -> None:
        server = ScriptedServer(revision, {"x/silent": lambda _: None})
        server.script["x/odd"] = lambda message: server.say(UNUSABLE[unusable](message["id"]))
        server.script["x/echo"] = lambda _: server.complete()
        async with open_client(server, revision=revision) as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.request, "x/silent")
            await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(10), pytest.raises(RemoteProtocolError, match="x/odd"):
                await client.request("x/odd")
            await client.request("x/echo")
            assert not server.notifications("notifications/cancelled")
            nursery.cancel_scope.cancel()

    for unusable in UNUSABLE:
        with subtests.test(unusable=unusable):
            await check(unusable)


def unreadable(ids: list[int]) -> bytes:
    return b'[{"jsonrpc":"2.0","id":%d,"result":{"n":%b}}]' % (ids[0], b"7" * 6000)


def too_large(ids: list[int]) -> TooLarge:
    return TooLarge(10**9, b'[{"jsonrpc":"2.0","id":%d,"result":' % ids[1], b"]", None)


@pytest.mark.parametrize("says", [unreadable, too_large], ids=["unreadable", "too large"])
async def test_a_batch_of_answers_that_cannot_be_read_ends_all_that_was_asked_in_one(
    says: Callable[[list[int]], bytes | TooLarge], autojump_clock: trio.testing.MockClock
) -> None:
    """What is asked in one batch is answered in one; only one of the ids in it may be visible."""
    ids: list[int] = []

    def odd(message: dict[str, Any]) -> None:
        ids.append(message["id"])
        if len(ids) == 3:
            server.say(says(ids))

    server = ScriptedServer(Revision.V2025_03_26, {"x/odd": odd})
    async with open_client(server, revision="2025-03-26") as client:
        with trio.fail_after(10), pytest.raises(RemoteProtocolError):
            await client.request_many([("x/odd", None)] * 3, batch=True)


@pytest.mark.parametrize("revision", ENDS)
async def test_an_error_without_an_id_ends_the_one_call_that_can_be_meant(
    revision: Revision, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """JSON-RPC, section 5: who cannot read the id answers with null. Where several could be meant it is logged."""
    nameless = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "I cannot read this"}}
    server = ScriptedServer(revision, {"x/silent": lambda _: None})
    server.script["x/odd"] = lambda _: server.say(nameless)
    server.script["x/echo"] = lambda _: server.complete()
    async with open_client(server, revision=revision) as client, trio.open_nursery() as nursery:
        await client.request("x/echo")
        nursery.start_soon(client.request, "x/silent")
        await trio.testing.wait_all_tasks_blocked()
        await client.request("x/echo")
        with trio.fail_after(10), pytest.raises(RequestError, match="I cannot read this"):
            await client.request("x/odd")
        assert client.statistics().calls == 1, "the silent one was read before the echo"
        await client.request("x/echo")
        await client.notify("notifications/x")
        with trio.move_on_after(10) as scope:
            await client.request("x/odd")
        assert scope.cancelled_caught, "the notification may be meant as well"
        assert "could not read a message of ours" in caplog.text
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", LEGACY_ENDS)
@pytest.mark.parametrize(
    "odd",
    [{"jsonrpc": "1.5"}, {"method": 5}, {"params": []}],
    ids=["version", "method", "params"],
)
async def test_a_question_that_is_malformed_is_answered(
    revision: Revision, odd: dict[str, Any], autojump_clock: trio.testing.MockClock
) -> None:
    """JSON-RPC 2.0, "Response object": the server waits for an answer to its id, whatever is wrong with the rest."""
    server = ScriptedServer(revision)
    async with open_client(server, revision=server.revision):
        server.say({"jsonrpc": "2.0", "id": 7, "method": "ping", **odd})
        server.say(b"printed by a library")
        await trio.testing.wait_all_tasks_blocked()
        assert [(message["id"], message["error"]["code"]) for message in server.sent if "error" in message] == [
            (7, -32600)
        ]


@pytest.mark.parametrize("revision", [Revision.V2024_11_05, Revision.V2025_03_26])
async def test_an_elicitation_before_there_were_any_is_refused(
    revision: Revision, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """It was not declared, and its answer has no form in that revision. The user is not asked in vain."""
    asked, server = list[object](), ScriptedServer(revision)

    def decline(question: object) -> Literal["decline"]:
        asked.append(question)
        return "decline"

    async with open_client(server, revision=revision, on_elicit=decline):
        form: dict[str, Any] = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        server.say({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": form})
        await trio.testing.wait_all_tasks_blocked()
        [answer] = [message for message in server.sent if message.get("id") == 7]
    assert (answer["error"]["code"], asked) == (-32601, [])
    assert "Traceback" not in caplog.text


async def test_a_modern_server_gets_no_answer_to_a_question_that_is_malformed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """2026-07-28, basic/patterns: a server must not ask, and a client must not answer."""
    server = ScriptedServer(MODERN)
    async with open_client(server, revision=server.revision):
        server.say({"jsonrpc": "2.0", "id": 7, "method": 5})
        await trio.testing.wait_all_tasks_blocked()
        assert not [message for message in server.sent if "error" in message]
