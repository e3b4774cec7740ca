"""Requests of 2026-07-28, each one POST: what is answered how, and what ends what. No sockets."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import trio
import trio.testing
from http_raw import MODERN, Events, call_tool, modern, open_raw
from http_server_fixtures import EVERY_HOST
from raw import META

from trio_mcp import Context, Field, HttpServerSettings, Limits, RequestError, Server

pytestmark = pytest.mark.usefixtures("under")

VERSION = "io.modelcontextprotocol/protocolVersion"


def make_server(log: list[str] | None = None, **options: Any) -> Server[Any]:
    """A server whose tools write down what becomes of them."""
    said = [] if log is None else log
    server: Server[Any] = Server("http", **options)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def steps(ctx: Context) -> str:
        async with ctx.progress(total=2) as progress:
            await progress.advance()
            await progress.advance()
        return "done"

    @server.tool
    async def hang(ctx: Context) -> str:
        said.append("hang began")
        try:
            if ctx.meta.get("progressToken") is not None:
                async with ctx.progress() as progress:
                    await progress.advance()
            await trio.sleep_forever()
        finally:
            said.append("hang ended")
        raise AssertionError

    @server.tool
    async def nap(seconds: float) -> str:
        await trio.sleep(seconds)
        return "rested"

    @server.tool
    async def broken() -> str:
        raise RuntimeError("secret")

    @server.tool
    async def region(region: Annotated[str, Field(header="Region")] = "") -> str:
        return region

    @server.tool
    async def confirm(ctx: Context) -> str:
        answer = await ctx.elicit("sure?", bool)
        return f"sure: {answer.value}"

    @server.request_handler("x/fail")
    async def fail(params: Any, ctx: Any) -> Any:
        raise RequestError(-31999, "as asked", {"why": "test"})

    @server.request_handler("x/broken")
    async def broken_method(params: Any, ctx: Any) -> Any:
        raise RuntimeError("secret")

    return server


@pytest.mark.spec("basic/transports/streamable-http", "Receiving Messages", revisions="2026-07-28")
@EVERY_HOST
async def test_an_answer_is_json_and_a_stream_only_after_something_else() -> None:
    """basic/transports/streamable-http, "Sending Messages" 6 and "Receiving Messages"."""
    async with open_raw(make_server()) as raw:
        answer = await raw.send(call_tool("add", a=1, b=2))
        assert (answer.status, answer.is_stream) == (200, False)
        assert answer.message["result"]["structuredContent"] == 3
        answer = await raw.send(call_tool("steps", _meta={"progressToken": "t"}))
        assert (answer.status, answer.is_stream) == (200, True)
        assert answer.headers["x-accel-buffering"] == "no"
        assert [message.get("method") for message in answer.messages] == ["notifications/progress"] * 2 + [None]
        assert answer.message["result"]["content"] == [{"type": "text", "text": "done"}]
        # Resumption is not supported, so there are no ids.
        assert all(not event.last_event_id for event in answer.events)


async def test_json_only_answers_are_never_streams() -> None:
    """The setting: notifications go nowhere, and a client that reads no streams is served."""
    async with open_raw(make_server(), HttpServerSettings(json_only=True)) as raw:
        answer = await raw.send(call_tool("steps", _meta={"progressToken": 1}), {"Accept": "application/json"})
        assert (answer.status, answer.is_stream) == (200, False)
        assert answer.message["result"]["content"][0]["text"] == "done"


async def test_errors_have_their_status_and_the_id(subtests: pytest.Subtests) -> None:
    """basic/transports/streamable-http, "Protocol Version Header" and "Server Validation"."""
    rows: list[tuple[dict[str, Any], int, int]] = [
        (modern("x/unknown"), 404, -32601),
        (modern("initialize"), 404, -32601),
        (modern("ping"), 404, -32601),
        (modern("logging/setLevel", level="info"), 404, -32601),
        (modern("resources/subscribe", uri="x://y"), 404, -32601),
        (modern("tools/call", _meta={VERSION: "v999.0.0"}, name="add"), 400, -32022),
        (call_tool("nobody"), 400, -32602),
        (modern("x/fail"), 200, -31999),
        (modern("x/broken"), 200, -32603),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, 400, -32600),
    ]
    async with open_raw(make_server()) as raw:
        for message, status, code in rows:
            with subtests.test(message=message, status=status, code=code):
                answer = await raw.send(
                    message, {"MCP-Protocol-Version": MODERN} if "params" not in message else None
                )
                assert answer.status == status
                assert answer.headers["content-type"] == "application/json"
                assert answer.error["code"] == code
                assert "secret" not in answer.body.decode()
                if "result" not in message:
                    assert answer.message["id"] == 1
                if code == -32022:
                    assert answer.error["data"] == {
                        "supported": [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
                        "requested": "v999.0.0",
                    }


@pytest.mark.spec("basic/transports/streamable-http", "Request Metadata", revisions="2026-07-28")
async def test_a_request_without_its_metadata_is_refused(subtests: pytest.Subtests) -> None:
    """basic/index, "_meta": revision and capabilities come with every request."""
    metas: list[dict[str, Any] | None] = [
        None,
        {},
        {VERSION: MODERN},
        {"io.modelcontextprotocol/clientCapabilities": {}},
    ]
    for method in ("tools/list", "ping"):
        for meta in metas:
            with subtests.test(method=method, meta=meta):
                params = {} if meta is None else {"_meta": meta}
                message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
                async with open_raw(make_server()) as raw:
                    answer = await raw.send(message, {"MCP-Protocol-Version": MODERN, "Mcp-Method": method})
                expected = (404, -32601) if method == "ping" and not meta else (400, -32602)
                assert (answer.status, answer.error["code"], answer.message["id"]) == (*expected, 7)


@pytest.mark.spec("basic/transports/streamable-http", "Protocol Version Header", revisions="2026-07-28")
async def test_a_version_in_the_header_alone_decides_the_era() -> None:
    """An unknown one is refused as such, whatever else is missing."""
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
    async with open_raw(make_server()) as raw:
        answer = await raw.send(message, {"MCP-Protocol-Version": "2099-01-01", "Mcp-Method": "tools/list"})
    assert (answer.status, answer.error["code"]) == (400, -32022)
    assert answer.error["data"]["requested"] == "2099-01-01"


@pytest.mark.spec("basic/transports/streamable-http", "Server Validation", revisions="2026-07-28")
@pytest.mark.spec("basic/transports/streamable-http", "Standard Request Headers", revisions="2026-07-28")
@pytest.mark.spec("basic/transports/streamable-http", "Protocol Version Header", revisions="2026-07-28")
async def test_header_fields_say_what_the_body_says(subtests: pytest.Subtests) -> None:
    """basic/transports/streamable-http, "Request Metadata" and "Server Validation"; sessions are ignored."""
    rows: list[tuple[dict[str, str | None], bool]] = [
        ({}, True),
        ({"Mcp-Method": None}, False),
        ({"Mcp-Method": "TOOLS/CALL"}, False),
        ({"Mcp-Method": None, "mcp-METHOD": " tools/call "}, True),
        ({"Mcp-Name": None}, False),
        ({"Mcp-Name": "add"}, False),
        ({"Mcp-Name": " region\t"}, True),
        ({"Mcp-Name": "=?base64?cmVnaW9u?="}, True),
        ({"MCP-Protocol-Version": "2025-11-25"}, False),
        ({"MCP-Protocol-Version": None}, False),
        ({"Mcp-Param-Region": None}, False),
        ({"Mcp-Param-Region": "=?base64?SGVsbG8=?="}, True),
        ({"Mcp-Param-Region": "=?base64?SGVsbG8?="}, False),
        ({"Mcp-Param-Region": "=?base64?SGVs!!!bG8=?="}, False),
        ({"Mcp-Param-Region": "hello"}, False),
        ({"Mcp-Session-Id": "whatever"}, True),
    ]
    async with open_raw(make_server()) as raw:
        for headers, is_right in rows:
            with subtests.test(headers=headers, is_right=is_right):
                answer = await raw.send(
                    call_tool("region", region="Hello"), {"Mcp-Param-Region": "Hello", **headers}
                )
                if is_right:
                    assert (answer.status, answer.message["result"]["content"][0]["text"]) == (200, "Hello")
                    assert "mcp-session-id" not in answer.headers
                else:
                    assert (answer.status, answer.error["code"], answer.message["id"]) == (400, -32020, 1)


async def test_a_missing_capability_is_400(autojump_clock: object) -> None:
    """basic/index, "Error Codes": -32021, with what is missing."""
    server = make_server()

    @server.tool
    async def needs(ctx: Context) -> str:
        await ctx.sample("hi", max_tokens=5)
        return "sampled"

    async with open_raw(server) as raw:
        answer = await raw.send(call_tool("needs"))
    assert (answer.status, answer.error["code"]) == (400, -32021)
    assert answer.error["data"]["requiredCapabilities"] == {"sampling": {}}


@EVERY_HOST
async def test_notifications_are_accepted_and_handled() -> None:
    """basic/transports/streamable-http, "Sending Messages" 5: 202 without a body, and no header is demanded."""
    server = make_server()
    seen: list[Any] = []

    @server.notification_handler("x/told")
    async def told(params: Any, ctx: Any) -> None:
        seen.append(params["n"])
        if params["n"] == 2:
            raise RuntimeError("not for clients")

    async with open_raw(server) as raw:
        for n in (1, 2, 3):
            note = {"jsonrpc": "2.0", "method": "x/told", "params": {"n": n, "_meta": META}}
            answer = await raw.send(note, {"Mcp-Method": None, "MCP-Protocol-Version": None})
            assert (answer.status, answer.body) == (202, b"")
        await trio.testing.wait_all_tasks_blocked()
    assert seen == [1, 2, 3]


@pytest.mark.spec("basic/transports/streamable-http", "Cancellation", revisions="2026-07-28")
@pytest.mark.parametrize("streams", [True, False])
@EVERY_HOST
async def test_a_client_that_goes_cancels_its_handler(*, streams: bool) -> None:
    """basic/transports/streamable-http, "Cancellation"; in the JSON form as well."""
    log: list[str] = []
    async with open_raw(make_server(log)) as raw:
        meta = {"progressToken": 1} if streams else None
        with trio.move_on_after(5) as scope:
            async with trio.open_nursery() as nursery:

                async def call() -> None:
                    async with raw.open(call_tool("hang", _meta=meta)) as response:
                        await response.receive_some()
                        nursery.cancel_scope.cancel()
                        await trio.sleep_forever()

                nursery.start_soon(call)
                await trio.testing.wait_all_tasks_blocked()
                assert log == ["hang began"]
                nursery.cancel_scope.cancel()
        assert not scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["hang began", "hang ended"]


async def test_the_granted_time_ends_a_handler(autojump_clock: object) -> None:
    """The caller's deadline is the handler's; a caller that stays is answered."""
    log: list[str] = []
    async with open_raw(make_server(log)) as raw:
        began = trio.current_time()
        answer = await raw.send(call_tool("hang", _meta={"trio-mcp/timeoutMs": 500}))
        assert answer.error["code"] == -31001
        assert trio.current_time() - began == pytest.approx(0.5 + Limits().goodbye_timeout)
    assert log == ["hang began", "hang ended"]


@EVERY_HOST
async def test_a_long_wait_becomes_a_stream_that_shows_life(autojump_clock: object) -> None:
    """Proxies and clients give up on what is silent ("Receiving Messages", the note on keep-alive)."""
    async with (
        open_raw(make_server(), HttpServerSettings(keep_alive_interval=10)) as raw,
        raw.open(call_tool("nap", seconds=35)) as response,
    ):
        assert response.headers.get("content-type") == "text/event-stream"
        events = Events(response)
        assert (await events.message())["result"]["content"][0]["text"] == "rested"
        assert events.comments == 3
        assert await events.next() is None


async def test_a_parked_handler_is_woken_by_another_request(autojump_clock: object) -> None:
    """basic/patterns/mrtr: the retry is a request like any other, and the handler goes on where it was."""
    meta: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    async with open_raw(make_server()) as raw:
        asked = (await raw.send(call_tool("confirm", _meta=meta))).message["result"]
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        again = modern(
            "tools/call",
            2,
            meta,
            name="confirm",
            arguments={},
            requestState=asked["requestState"],
            inputResponses={key: {"action": "accept", "content": {"value": True}}},
        )
        result = (await raw.send(again)).message["result"]
    assert result["content"][0]["text"] == "sure: True"


@EVERY_HOST
async def test_subscriptions_are_streams_that_end_in_good_order(autojump_clock: object) -> None:
    """basic/patterns/subscriptions: acknowledged first, tagged, alive, and closed with a result on shutdown."""
    server = make_server()
    async with (
        open_raw(server, HttpServerSettings(keep_alive_interval=5)) as raw,
        raw.open(modern("subscriptions/listen", "s1", notifications={"toolsListChanged": True})) as response,
    ):
        assert response.headers.get("content-type") == "text/event-stream"
        assert response.headers.get("x-accel-buffering") == "no"
        events = Events(response)
        first = await events.message()
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {"toolsListChanged": True}
        server.list_changed("tools")
        changed = await events.message()
        assert changed["method"] == "notifications/tools/list_changed"
        assert changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "s1"
        await trio.sleep(12)
        server.list_changed("tools")
        await events.message()
        assert events.comments == 1  # the second waits until this client reads


async def test_what_stands_open_takes_no_place_of_calls(autojump_clock: object) -> None:
    """A client with many subscriptions can still call; how many it may have is bounded as well."""
    settings = HttpServerSettings(max_requests_per_principal=1)
    async with open_raw(make_server(limits=Limits(max_subscriptions=2)), settings) as raw:
        async with (
            raw.open(modern("subscriptions/listen", 1, notifications={"toolsListChanged": True})) as one,
            raw.open(modern("subscriptions/listen", 2, notifications={"toolsListChanged": True})) as two,
        ):
            await Events(one).message()
            await Events(two).message()
            assert (await raw.send(call_tool("add", a=1, b=1))).status == 200
            refused = await raw.send(modern("subscriptions/listen", 3, notifications={}))
            assert (refused.status, refused.message["id"]) == (429, 3)
        await trio.testing.wait_all_tasks_blocked()
        async with raw.open(modern("subscriptions/listen", 3, notifications={})) as again:
            assert again.status == 200


async def test_too_many_requests_of_one_client_are_refused(autojump_clock: object) -> None:
    """Its own; the header says when to come back."""
    settings = HttpServerSettings(max_requests_per_principal=2, max_requests=3)

    async def who(call: Any) -> str | None:
        user: str | None = call.headers.get("x-user")
        return user

    async with open_raw(make_server(), settings, authenticate=who) as raw, trio.open_nursery() as nursery:
        for user in ("ann", "ann", "bob"):
            nursery.start_soon(raw.send, call_tool("nap", seconds=5), {"X-User": user})
        await trio.testing.wait_all_tasks_blocked()
        for user, status in (("ann", 429), ("bob", 503)):
            answer = await raw.send(call_tool("add", a=1, b=1), {"X-User": user})
            assert (answer.status, answer.headers["retry-after"]) == (status, "1")
            assert answer.error["code"] == -31002
        await trio.sleep(6)
        assert (await raw.send(call_tool("add", a=1, b=1), {"X-User": "ann"})).status == 200


async def test_a_rate_is_kept(autojump_clock: object) -> None:
    """In the long run so many per second, and a few at once."""
    settings = HttpServerSettings(rate="2/4 seconds")
    async with open_raw(make_server(), settings) as raw:
        statuses = [(await raw.send(call_tool("add", a=1, b=1))).status for _ in range(3)]
        assert statuses == [200, 200, 429]
        refused = await raw.send(call_tool("add", a=1, b=1))
        assert refused.headers["retry-after"] == "2"
        await trio.sleep(2)
        assert (await raw.send(call_tool("add", a=1, b=1))).status == 200


@EVERY_HOST
async def test_draining_answers_what_came_and_refuses_the_rest(autojump_clock: object) -> None:
    """The promise of every shutdown: within `drain_timeout` it is answered, then with an error, and then it ends."""
    log: list[str] = []
    answers: dict[str, Any] = {}
    server = make_server(log, limits=Limits(drain_timeout=3))
    async with trio.open_nursery() as nursery:
        async with open_raw(server) as raw:

            async def call(name: str, **arguments: Any) -> None:
                answers[name] = await raw.send(call_tool(name, **arguments))

            async def listen() -> None:
                answers["listen"] = await raw.send(modern("subscriptions/listen", notifications={}))

            nursery.start_soon(lambda: call("nap", seconds=2))
            nursery.start_soon(call, "hang")
            nursery.start_soon(listen)
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
        assert trio.current_time() - began < 4
    assert answers["nap"].message["result"]["content"][0]["text"] == "rested"
    assert answers["hang"].error["code"] == -31002
    assert answers["hang"].status == 503
    assert answers["listen"].message["result"]["resultType"] == "complete"
    assert log == ["hang began", "hang ended"]


async def test_middleware_sees_what_comes_and_goes() -> None:
    """As over any other transport."""
    seen: list[tuple[str, str]] = []

    async def watch(message: Any, proceed: Any) -> Any:
        seen.append((message.direction, message.method))
        return await proceed(message)

    server = make_server(middleware=[watch])

    @server.tool
    async def logs(ctx: Context) -> str:
        await ctx.log("info", "hello")
        return "logged"

    async with open_raw(server) as raw:
        answer = await raw.send(call_tool("logs", _meta={"io.modelcontextprotocol/logLevel": "debug"}))
        assert [m.get("method") for m in answer.messages] == ["notifications/message", None]
        assert (await raw.send(modern("server/discover"))).status == 200
        assert (await raw.send(modern("x/none"))).status == 404
    assert seen == [
        ("received", "tools/call"),
        ("sent", "notifications/message"),
        ("received", "server/discover"),
        ("received", "x/none"),
    ]


async def test_a_server_of_the_modern_era_alone_knows_no_sessions() -> None:
    """basic/transports/streamable-http, "Earlier Streamable HTTP Revisions"."""
    async with open_raw(make_server(revisions=[MODERN])) as raw:
        for method in ("GET", "DELETE"):
            assert (await raw.send(None, {"Accept": "text/event-stream"}, method=method)).status == 405
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        old = await raw.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert (old.status, old.error["code"]) == (400, -32020)
        assert "mcp-session-id" not in old.headers
