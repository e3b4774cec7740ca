"""A client and what it is told, asked and refused."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import pytest
import trio
import trio.testing
from inside_client import (
    OURSELVES,
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
from number_pages import Numbers, numbers_of
from tape import Tape
from wires import ScriptedChannel, answer, modern_server, refusal, wait_lost

from trio_mcp import (
    Channel,
    Client,
    ConnectionLost,
    Context,
    Limits,
    LocalProtocolError,
    Pages,
    Progress,
    RemoteProtocolError,
    RequestError,
    RestartPolicy,
    Revision,
    Server,
    open_client,
    open_clients,
    run_client,
)
from trio_mcp.types import ClientCapabilities, LoggingMessageNotificationParams

LEGACY = "2025-11-25"
BATCH = "2025-03-26"
MODERN = "2026-07-28"
Script: TypeAlias = Callable[[dict[str, Any]], object]

NO_BATCHES = ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"]


def small_server() -> Server[None]:
    server: Server[None] = Server("small")

    @server.tool
    async def double(number: int) -> int:
        await trio.lowlevel.checkpoint()
        return 2 * number

    @server.tool
    async def sleep(seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"

    return server


def legacy_server(revision: str = LEGACY, handle: Script | None = None) -> Script:
    """Return a script for a legacy server: it shakes hands, and `handle` decides about everything else."""

    def reply(message: dict[str, Any]) -> object:
        if message.get("method") == "initialize":
            server = {"name": "scripted", "version": "1"}
            return answer(message, {"protocolVersion": revision, "capabilities": {}, "serverInfo": server})
        return None if handle is None else handle(message)

    return reply


# Batches (2025-03-26, basic, "Batching").


def calls(*numbers: object) -> list[tuple[str, Mapping[str, Any]]]:
    return [("tools/call", {"name": "double", "arguments": {"number": number}}) for number in numbers]


async def test_a_batch_is_one_array_and_so_is_its_answer() -> None:
    """JSON-RPC 2.0, section 6: the server should respond with an Array, after all of them are processed."""
    frames: list[tuple[str, bytes]] = []
    async with open_client(
        small_server(), revision=BATCH, on_frame=lambda way, data: frames.append((way, data))
    ) as client:
        frames.clear()
        outcomes = await client.request_many([*calls(1, 2), ("tools/none", None), ("ping", None)], batch=True)
    assert [(way, data[:1], data[-1:]) for way, data in frames] == [
        ("sent", b"[", b"]"),
        ("received", b"[", b"]"),
    ]
    first, second, third, fourth = outcomes
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert (first["content"][0]["text"], second["content"][0]["text"]) == ("2", "4")
    assert isinstance(third, RequestError)
    assert third.code == -32601
    assert fourth == {}


async def test_a_batch_given_up_is_cancelled_request_by_request(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 1, for each of them; the server then owes no array."""
    tape = Tape()
    async with open_client(small_server(), revision=BATCH, on_frame=tape) as client:
        slow: list[tuple[str, Mapping[str, Any]]] = [
            ("tools/call", {"name": "sleep", "arguments": {"seconds": 100}}) for _ in range(3)
        ]
        with trio.move_on_after(1) as scope:
            await client.request_many([*slow, *calls(1)], batch=True)
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert client.statistics().calls == 0
    ids = tape.requests("tools/call")
    assert tape.goodbyes() == dict.fromkeys(ids, 1)
    tape.check_endings()


@pytest.mark.parametrize("revision", NO_BATCHES)
async def test_other_revisions_have_no_batches(revision: str) -> None:
    async with open_client(small_server(), revision=revision) as client:
        with pytest.raises(LocalProtocolError, match=f"{revision} has no batches"):
            await client.request_many(calls(1), batch=True)


@pytest.mark.parametrize(
    ("count", "limits", "name"),
    [
        (0, Limits(max_outbound_requests=3), "max_outbound_requests=3"),
        (4, Limits(max_outbound_requests=3), "max_outbound_requests=3"),
        (1_001, Limits(), "1000"),
    ],
)
async def test_a_batch_has_a_size(count: int, limits: Limits, name: str) -> None:
    async with open_client(small_server(), revision=BATCH, limits=limits) as client:
        with pytest.raises(ValueError, match=f"1 to {name} requests, not {count}"):
            await client.request_many(calls(*range(count)), batch=True)
        with pytest.raises(LocalProtocolError, match="no method server/discover"):
            await client.request_many([("server/discover", None)], batch=True)


async def test_a_batch_that_cannot_be_written_leaves_nothing() -> None:
    """Its requests were entered one after the other, and must all be taken out again."""
    tape = Tape()
    limits = Limits(max_message_bytes=1000)
    async with open_client(small_server(), revision=BATCH, limits=limits, on_frame=tape) as client:
        with pytest.raises(LocalProtocolError, match=r"the batch is .* max_message_bytes is 1000"):
            await client.request_many([("x/y", {"text": "x" * 300})] * 4, batch=True)
        with pytest.raises(TypeError):
            await client.request_many([*calls(1), ("x/y", {"text": object()})], batch=True)
        assert client.statistics().calls == 0
        assert not tape.requests("tools/call")
        assert not tape.requests("x/y")


@pytest.mark.parametrize("revision", [BATCH, MODERN])
async def test_many_requests_at_once(revision: str) -> None:
    async with open_client(small_server(), revision=revision) as client:
        outcomes = await client.request_many([*calls(*range(20)), ("x/none", None)])
        texts = [outcome["content"][0]["text"] for outcome in outcomes if isinstance(outcome, dict)]
        assert texts == [str(2 * number) for number in range(20)]
        assert isinstance(outcomes[-1], RequestError)
        with pytest.raises(LocalProtocolError):
            await client.request_many([*calls(1), ("roots/list", None)])


# Time.


@pytest.mark.parametrize("seconds", [0, -1, math.nan, -math.inf])
async def test_a_request_timeout_is_above_zero(seconds: float) -> None:
    with pytest.raises(ValueError, match="request_timeout must be more than 0, not"):
        async with open_client(small_server(), request_timeout=seconds):
            raise AssertionError
    with pytest.raises(ValueError, match="request_timeout"):
        await run_client(small_server(), request_timeout=seconds)


@pytest.mark.parametrize("revision", [BATCH, MODERN])
async def test_every_request_has_the_timeout(revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """And says so in its error, which an outer deadline does not."""
    tape = Tape()
    async with open_client(small_server(), revision=revision, request_timeout=5, on_frame=tape) as client:
        started = trio.current_time()
        with pytest.raises(
            trio.TooSlowError, match=r"tools/call was not answered within 5 s \(request_timeout\)"
        ):
            await client.call_tool("sleep", {"seconds": 100})
        with pytest.raises(trio.TooSlowError, match="request_timeout"):
            await client.request("tools/call", {"name": "sleep", "arguments": {"seconds": 100}})
        if revision == BATCH:
            request = ("tools/call", {"name": "sleep", "arguments": {"seconds": 100}})
            with pytest.raises(trio.TooSlowError, match="the batch was not answered within 5 s"):
                await client.request_many([request], batch=True)
        assert trio.current_time() - started == 5 * len(tape.requests("tools/call"))
        with trio.move_on_after(2) as scope:
            await client.call_tool("sleep", {"seconds": 100})
        assert scope.cancelled_caught
        assert not (await client.call_tool("sleep", {"seconds": 1})).is_error
    tape.check_endings()


# Answers that are none.


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({}, "tools/call: content: "),
        ({"content": {}}, "tools/call: content: expected a list, got an object"),
        ({"content": [{"type": "text"}]}, r"tools/call: content\[0\].text: "),
    ],
)
async def test_an_invalid_result_is_the_servers_fault(result: dict[str, Any], problem: str) -> None:
    channel = ScriptedChannel(modern_server(lambda m: answer(m, result) if "id" in m else None))
    async with open_client(channel, revision=MODERN) as client:
        with pytest.raises(RemoteProtocolError, match=problem):
            await client.call_tool("x")


HANDSHAKES: list[tuple[Script, type[Exception], str]] = [
    (lambda m: answer(m, {}), RemoteProtocolError, "initialize: the result names no protocolVersion"),
    (
        lambda m: answer(m, {"protocolVersion": "1999-01-01"}),
        RemoteProtocolError,
        "wants to speak 1999-01-01",
    ),
    (lambda m: answer(m, {"protocolVersion": LEGACY}), RemoteProtocolError, "initialize: capabilities"),
    (lambda m: refusal(m, -32000, "go away"), RequestError, "go away"),
]


@pytest.mark.parametrize(
    ("script", "kind", "problem"),
    HANDSHAKES,
    ids=["no version", "unknown version", "no capabilities", "refused"],
)
async def test_a_handshake_that_fails_says_how(script: Script, kind: type[Exception], problem: str) -> None:
    channel = ScriptedChannel(lambda message: script(message) if "id" in message else None)
    with pytest.raises(kind, match=problem):
        async with open_client(channel, revision=LEGACY):
            raise AssertionError
    assert channel.closed


DISCOVERIES: list[tuple[Script, str]] = [
    (lambda m: refusal(m, -32601, "what?"), "the server speaks none of 2026-07-28: what?"),
    (
        lambda m: answer(m, {"hello": 1}),
        "the server speaks none of 2026-07-28: its answer is not a DiscoverResult",
    ),
    (lambda m: None, r"has not agreed on a revision within 30 s \(connect_timeout\)"),
    (
        lambda m: answer(m, {"supportedVersions": [MODERN], "capabilities": {}, "resultType": 5}),
        "server/discover: resultType",
    ),
    (
        lambda m: answer(m, {"supportedVersions": ["2099-01-01"], "capabilities": {}}),
        "no revision in common: the server speaks 2099-01-01",
    ),
]


@pytest.mark.parametrize(
    ("outcome", "problem"),
    DISCOVERIES,
    ids=["error", "something else", "silence", "nonsense", "the future"],
)
async def test_a_discovery_that_fails_says_how(
    outcome: Script, problem: str, autojump_clock: trio.testing.MockClock
) -> None:
    channel = ScriptedChannel(lambda message: outcome(message) if "id" in message else None)
    with pytest.raises((RemoteProtocolError, ConnectionLost), match=problem):
        async with open_client(channel, revision=MODERN):
            raise AssertionError


async def test_a_modern_error_settles_the_era_too() -> None:
    """2026-07-28, basic/versioning: an error only modern servers give. Nothing is known of the server then."""
    script = ScriptedChannel(lambda m: refusal(m, -32021, "say more of yourself") if "id" in m else None)
    async with open_client(script) as client:
        assert client.revision == MODERN
        assert client.server_info is None
        assert client.server_capabilities is None
        assert client.instructions is None
        with pytest.raises(RequestError, match="say more"):
            await client.ping()


async def test_a_server_may_name_the_legacy_revisions_it_speaks(autojump_clock: trio.testing.MockClock) -> None:
    """And then the handshake asks for the newest of those."""
    data = {"supported": ["2024-11-05", "2025-06-18"], "requested": MODERN}
    script = legacy_server("2025-06-18", lambda m: refusal(m, -32022, "no", **data) if "id" in m else None)
    channel = ScriptedChannel(script)
    async with open_client(channel) as client:
        assert client.revision == "2025-06-18"
    asked = [m["params"]["protocolVersion"] for m in channel.sent if m.get("method") == "initialize"]
    assert asked == ["2025-06-18"]


# What the server says of its own accord.


async def test_questions_of_the_server_and_who_answers_them(caplog: pytest.LogCaptureFixture) -> None:
    """-32601 for what nobody answers; a failure is masked, an error is the answer, a ping is always answered."""

    async def roots(params: Mapping[str, Any]) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        if params.get("fail") == "masked":
            raise ValueError("secret")
        if params.get("fail") == "told":
            raise RequestError(-31999, "told", [1])
        return {"roots": []}

    channel = ScriptedChannel(legacy_server())
    async with open_client(channel, revision=LEGACY, request_handlers={"roots/list": roots}):
        questions: list[tuple[str, dict[str, str]]] = [
            ("roots/list", {}),
            ("roots/list", {"fail": "masked"}),
            ("roots/list", {"fail": "told"}),
            ("sampling/createMessage", {}),
            ("ping", {}),
        ]
        for id, (method, params) in enumerate(questions):
            channel.say({"jsonrpc": "2.0", "id": f"q{id}", "method": method, "params": params})
        await trio.testing.wait_all_tasks_blocked()
    answers = {m["id"]: m.get("result", m.get("error")) for m in channel.sent if str(m.get("id"))[:1] == "q"}
    assert answers == {
        "q0": {"roots": []},
        "q1": {"code": -32603, "message": "internal error"},
        "q2": {"code": -31999, "message": "told", "data": [1]},
        "q3": {"code": -32601, "message": "this client has no method sampling/createMessage"},
        "q4": {},
    }
    assert "secret" in caplog.text


async def test_a_modern_server_has_nothing_to_ask(caplog: pytest.LogCaptureFixture) -> None:
    """2026-07-28, basic/patterns: a client MUST NOT answer; alone or among others."""
    channel = ScriptedChannel(modern_server())
    async with open_client(channel, revision=MODERN):
        before = len(channel.sent)
        channel.say(
            {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 2, "method": "roots/list"}
        )
        await trio.testing.wait_all_tasks_blocked()
        assert len(channel.sent) == before
    assert caplog.text.count("ignored a request of the server") == 2


@pytest.mark.parametrize("is_async", [False, True])
async def test_notifications_find_their_callbacks(*, is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Log messages to ``on_log``, all else to ``on_notification``; one that fails costs nobody else."""
    logs: list[LoggingMessageNotificationParams] = []
    others: list[tuple[str, Mapping[str, Any]]] = []

    async def checkpoint() -> None:
        await trio.lowlevel.checkpoint()

    def on_log(message: LoggingMessageNotificationParams) -> object:
        logs.append(message)
        if message.data == "bad":
            raise ValueError("the callback's own")
        return checkpoint() if is_async else None

    def on_notification(method: str, params: Mapping[str, Any]) -> object:
        others.append((method, params))
        return checkpoint() if is_async else None

    def notice(method: str, **params: object) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "method": method, "params": params}

    channel = ScriptedChannel(legacy_server())
    async with open_client(channel, revision=LEGACY, on_log=on_log, on_notification=on_notification) as client:
        channel.say(
            notice("notifications/message", level="info", data="good"),
            notice("notifications/message", level="info", data="bad"),
            notice("notifications/message", level="loud", data="no level"),
            notice("notifications/message", level="error", data={"a": 1}, logger="x"),
            notice("notifications/tools/list_changed"),
            notice("notifications/resources/updated", uri="file:///x"),
            notice("x/own", a=1),
            {"jsonrpc": "2.0", "method": "x/bare"},
        )
        await trio.testing.wait_all_tasks_blocked()
        assert client.statistics().dropped_notifications == 0
    assert [message.data for message in logs] == ["good", "bad", {"a": 1}]
    assert others == [
        ("notifications/tools/list_changed", {}),
        ("notifications/resources/updated", {"uri": "file:///x"}),
        ("x/own", {"a": 1}),
        ("x/bare", {}),
    ]
    assert "ignored a log message of the server" in caplog.text
    assert "the callback's own" in caplog.text


async def test_without_callbacks_notifications_are_nothing(caplog: pytest.LogCaptureFixture) -> None:
    channel = ScriptedChannel(legacy_server(handle=lambda m: answer(m, {}) if "id" in m else None))
    async with open_client(channel, revision=LEGACY) as client:
        channel.say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
        channel.say({"jsonrpc": "2.0", "method": "x/own"})
        await client.ping()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_what_the_queue_repeats_is_dropped_first(autojump_clock: trio.testing.MockClock) -> None:
    """Changes of lists and of one resource say the same each time; what differs is kept."""
    seen: list[tuple[str, Any]] = []

    async def slowly(method: str, params: Mapping[str, Any]) -> None:
        await trio.sleep(10)
        seen.append((method, params.get("uri")))

    channel = ScriptedChannel(legacy_server())
    limits = Limits(max_notifications=3)
    async with open_client(channel, revision=LEGACY, on_notification=slowly, limits=limits) as client:
        for uri in ("a", "b", "b", "b", "c", "b"):
            params = {"uri": uri}
            channel.say({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
        await trio.sleep(100)
        assert client.statistics().dropped_notifications == 2
    assert [uri for _, uri in seen] == ["a", "b", "c", "b"]


async def test_lines_that_are_nothing_are_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    """A client has read what some library printed where the server's messages belong."""
    channel = ScriptedChannel(legacy_server(handle=lambda m: answer(m, {}) if "id" in m else None))
    async with open_client(channel, revision=LEGACY) as client:
        await trio.testing.wait_all_tasks_blocked()
        before = len(channel.sent)
        channel.say(b"Listening on port 8000", b"{}", b"[]", b'[1, "x"]', b'{"jsonrpc":"2.0","id":9,"result":5}')
        channel.say({"jsonrpc": "2.0", "error": {"code": -32700, "message": "what did you say?"}})
        channel.say({"jsonrpc": "2.0", "id": 77, "result": {}})
        await trio.testing.wait_all_tasks_blocked()
        assert len(channel.sent) == before
        await client.ping()
    assert "what did you say?" in caplog.text


async def test_a_bystander_that_fails_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    """on_frame looks; what it does changes nothing, and it is not asked again."""
    seen: list[bytes] = []

    def look(_: str, data: bytes) -> None:
        seen.append(data)
        raise RuntimeError("cannot look")

    async with open_client(small_server(), on_frame=look) as client:
        assert not (await client.call_tool("double", {"number": 1})).is_error
    assert len(seen) == 1
    assert caplog.text.count("on_frame failed") == 1


# Opening and closing.


@pytest.mark.parametrize("target", [b"https://example.com", None, 5, object()])
async def test_a_client_is_opened_on_something(target: Any) -> None:
    with pytest.raises(TypeError, match=r"a client is opened on .* not on"):
        async with open_client(target):
            raise AssertionError


async def test_a_revision_must_be_known() -> None:
    with pytest.raises(ValueError, match="1999"):
        async with open_client(small_server(), revision="1999-12-31"):
            raise AssertionError


async def test_a_client_that_was_closed_says_so(autojump_clock: trio.testing.MockClock) -> None:
    """From any task, and again, and while others still wait."""
    async with trio.open_nursery() as nursery:
        client = await nursery.start(run_client, small_server())
        errors: list[Exception] = []

        async def wait() -> None:
            try:
                await client.call_tool("sleep", {"seconds": 100})
            except trio.ClosedResourceError as error:
                errors.append(error)

        for _ in range(3):
            nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            nursery.start_soon(client.aclose)
        await client.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await client.ping()
        with pytest.raises(trio.ClosedResourceError):
            await client.notify("x/y")
    assert len(errors) == 3
    assert trio.current_time() == 0


async def test_a_lost_server_cancels_no_nursery_of_the_user() -> None:
    """`run_client` returns, and the calls say why."""
    channel = ScriptedChannel(legacy_server())
    async with trio.open_nursery() as nursery:
        client = await nursery.start(run_client, channel)
        channel.hang_up(ConnectionLost("the cable was pulled"))
        lost = await wait_lost(client.ping)
        assert lost.reason == "the cable was pulled"
        again = await wait_lost(client.ping)
        assert again is not lost


async def test_a_client_closes_while_it_answers_a_question(autojump_clock: trio.testing.MockClock) -> None:
    """Its handler is cancelled, and its cleanup runs before the block is left."""
    events: list[str] = []

    async def roots(_: object) -> Mapping[str, Any]:
        events.append("asked")
        try:
            await trio.sleep_forever()
        finally:
            events.append("cleaned up")
        raise AssertionError

    server: Server[None] = Server("asking")

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        return str(await ctx.request("roots/list"))

    async with trio.open_nursery() as nursery:
        async with open_client(server, revision=LEGACY, request_handlers={"roots/list": roots}) as client:

            async def call() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await client.call_tool("ask")

            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
        assert events == ["asked", "cleaned up"]


@asynccontextmanager
async def open_restartable(channels: Sequence[ScriptedChannel], first_delay: float) -> AsyncGenerator[Client]:
    """Open a client of a server in this process that is as restartable as one of its own; it is left by `aclose`."""
    opened = iter(channels)

    @asynccontextmanager
    async def open_next(limits: Limits) -> AsyncGenerator[Channel]:
        await trio.lowlevel.checkpoint()
        yield next(opened)

    capabilities = ClientCapabilities()
    identity = ClientIdentity(OURSELVES, capabilities, (Revision(LEGACY),))
    limits = Limits()
    memory = ClientCaches(None, None, capabilities)
    questions = Questions(QuestionHandlers(), capabilities)

    def messages() -> ServerMessages:
        subscriptions = Subscriptions(memory.forget, Callbacks(), warn_of_unknown=True)
        return ServerMessages(questions, NotificationHandlers(), subscriptions)

    reconnecting = ReconnectingConnection(
        Connector(open=open_next, restart=RestartPolicy(first_delay=first_delay, max_delay=first_delay)),
        identity,
        limits,
        messages=messages,
        on_frame=None,
        forget=memory.forget,
    )
    settings = ClientSettings(request_timeout=math.inf, limits=limits, result_types={})
    async with trio.open_nursery() as nursery:
        connected = trio.Event()
        nursery.start_soon(reconnecting.run, connected.set)
        await connected.wait()
        yield Client(reconnecting, questions, settings, memory)


async def test_leaving_while_a_server_is_started_again(autojump_clock: trio.testing.MockClock) -> None:
    """Who waits for it is told, and the pause is not waited out."""
    channel = ScriptedChannel(legacy_server())
    async with open_restartable([channel], 1000) as client, trio.open_nursery() as nursery:
        channel.hang_up()
        await trio.testing.wait_all_tasks_blocked()

        async def wait() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await client.ping()

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await client.aclose()
    assert trio.current_time() == 0


async def test_leaving_ends_the_callbacks_of_calls_whose_connection_was_replaced(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """They had time to handle what came before the loss, and so they had while the server was started again."""

    def report(message: dict[str, Any]) -> object:
        if message["method"] != "tools/call":
            return None
        params = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1}
        first.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        return answer(message, {"content": []})

    async def stick(_: Progress) -> None:
        await trio.sleep_forever()

    first, second = ScriptedChannel(legacy_server(handle=report)), ScriptedChannel(legacy_server())
    async with open_restartable([first, second], 0.1) as client, trio.open_nursery() as nursery:

        async def call() -> None:
            with pytest.raises(ConnectionLost):
                await client.call_tool("x", on_progress=stick)

        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        first.hang_up()
        await trio.sleep(0.5)
        assert len(second.sent) == 2, "it is connected again"
        await client.aclose()
    assert trio.current_time() == 0.5, "and not slow_consumer_timeout, a second"


# Pages.


def paged(
    pages: Mapping[str | None, tuple[Sequence[int], str | None]], max_pages: int = 100
) -> tuple[Pages[int, Numbers], list[Any]]:
    asked: list[str | None] = []

    async def fetch(cursor: str | None) -> Numbers:
        await trio.lowlevel.checkpoint()
        asked.append(cursor)
        numbers, next_cursor = pages[cursor]
        return Numbers(numbers=numbers, next_cursor=next_cursor)

    return Pages(fetch, numbers_of, what="x/list", max_pages=max_pages), asked


async def test_pages_are_asked_for_when_they_are_needed() -> None:
    """An empty page is no end, an empty cursor is a cursor (2026-07-28, server/utilities/pagination)."""
    pages, asked = paged({None: ([1, 2], "b"), "b": ([], ""), "": ([3], "d"), "d": ([], None)})
    assert await anext(pages) == 1
    assert asked == [None]
    assert [item async for item in pages] == [2, 3]
    assert asked == [None, "b", "", "d"]
    assert [item async for item in pages] == []
    assert len(asked) == 4, "the end is the end"


async def test_a_repeated_cursor_is_an_error() -> None:
    """It would never end."""
    pages, asked = paged({None: ([1], "a"), "a": ([2], "b"), "b": ([3], "a")})
    seen: list[int] = []
    with pytest.raises(RemoteProtocolError, match="x/list: the server repeats the cursor 'a'"):
        async for item in pages:
            seen.append(item)
    assert seen == [1, 2]
    assert asked == [None, "a", "b"]


async def test_there_is_a_last_page() -> None:
    """A server that always has one more is taken to be broken."""
    pages, asked = paged({None: ([], "1"), **{str(n): ([], str(n + 1)) for n in range(1, 50)}}, max_pages=7)
    with pytest.raises(RemoteProtocolError, match="x/list: more than 7 pages"):
        await anext(pages)
    assert len(asked) == 7


async def test_a_page_that_fails_can_be_asked_for_again() -> None:
    """Cancelled or refused, nothing was lost but the time."""
    attempts = 0

    async def fetch(cursor: str | None) -> Numbers:
        nonlocal attempts
        attempts += 1
        await trio.lowlevel.checkpoint()
        if attempts == 2:
            raise RequestError(-32603, "try again")
        return Numbers(numbers=[1], next_cursor="b") if cursor is None else Numbers(numbers=[2])

    pages = Pages(fetch, numbers_of, what="x/list", max_pages=100)
    assert await anext(pages) == 1
    with pytest.raises(RequestError):
        await anext(pages)
    assert [item async for item in pages] == [2]


async def test_a_slow_server_of_both_eras_is_spoken_to_in_the_modern(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its answer to the first question comes before that to `initialize`, and late as it is, it counts."""
    waiting: list[dict[str, Any]] = []

    def collect(message: dict[str, Any]) -> object:
        if "id" in message:
            waiting.append(message)
        return None

    async def wake_up() -> None:
        await trio.sleep(8)
        assert [message["method"] for message in waiting] == ["server/discover", "initialize"]
        capable: dict[str, Any] = {"capabilities": {"tools": {}}}
        channel.say(
            answer(waiting[0], {"supportedVersions": [MODERN, LEGACY], **capable}),
            answer(
                waiting[1], {"protocolVersion": LEGACY, "serverInfo": {"name": "s", "version": "1"}, **capable}
            ),
        )

    channel = ScriptedChannel(collect)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wake_up)
        async with open_client(channel) as client:
            assert client.revision == MODERN
            assert trio.current_time() == 8


class Problems(ExceptionGroup[Exception]):  # noqa: ASYNC126 - that is the point
    """A group of the user's."""


@asynccontextmanager
async def listening() -> AsyncGenerator[None]:
    async with open_client(small_server()) as client, client.listen(tools_list_changed=True):
        yield


@pytest.mark.parametrize(
    "opened",
    [
        lambda: open_client(small_server()),
        lambda: open_clients({"one": small_server()}),
        lambda: small_server().open(),
        listening,
    ],
    ids=["open_client", "open_clients", "Server.open", "Client.listen"],
)
async def test_a_group_raised_in_a_block_comes_out_as_itself(
    opened: Callable[[], AbstractAsyncContextManager[object]],
) -> None:
    """Promise 8, also for a group: the very object, not a plain copy of it."""
    problems = Problems("two", [ValueError(), KeyError()])
    with pytest.RaisesGroup(ValueError, KeyError) as caught:
        async with opened():
            raise problems
    assert caught.value is problems
