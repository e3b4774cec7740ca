"""Middleware of a server: what it sees, and what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS
from wires import ScriptedChannel

from trio_mcp import (
    CallNext,
    Context,
    HttpServerParameters,
    Limits,
    McpASGI,
    Message,
    RequestError,
    Revision,
    Server,
    open_client,
)


class Recorder:
    """Middleware that notes what passes."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.seen: list[str] = []

    async def __call__(self, message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        self.seen.append(f"{self.name}> {message.method}{' (notification)' if message.is_notification else ''}")
        assert message.direction == "received"
        try:
            return await call_next(message)
        finally:
            self.seen.append(f"{self.name}< {message.method}")


def echo_server(*middleware: Any) -> Server:
    server = Server("echo", middleware=middleware)

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


@pytest.mark.parametrize("revision", ENDS)
async def test_it_sees_requests_and_notifications_the_handshake_included(revision: Revision) -> None:
    recorder = Recorder()
    async with open_client(echo_server(recorder), revision=revision) as client:
        result = await client.call_tool("echo", {"text": "hello"})
        assert result.content
        await client.ping()
        if revision.is_modern:
            handshake = ["server/discover"]
        else:
            handshake = ["initialize", "notifications/initialized (notification)"]
        begun = [line[2:] for line in recorder.seen if line.startswith("> ")]
        assert begun[: len(handshake)] == handshake
        assert "tools/call" in begun
        assert begun[-1] == ("server/discover" if revision.is_modern else "ping")
        assert len(recorder.seen) == 2 * len(begun)


async def test_the_first_is_the_outermost() -> None:
    seen: list[str] = []
    outer, inner = Recorder("outer"), Recorder("inner")
    outer.seen = inner.seen = seen
    async with open_client(echo_server(outer, inner), revision="2025-11-25") as client:
        await client.ping()
    assert [line for line in seen if line.endswith("ping")] == [
        "outer> ping",
        "inner> ping",
        "inner< ping",
        "outer< ping",
    ]


@pytest.mark.parametrize("revision", ENDS)
async def test_it_may_change_parameters_and_results_answer_by_itself_and_refuse(revision: Revision) -> None:
    async def meddle(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        params = dict(message.params or {})
        if message.method == "x/own":
            return {"mine": True}
        if message.method == "tools/call":
            if params["arguments"]["text"] == "forbidden":
                raise RequestError(-32001, "not that")
            params["arguments"] = {"text": "changed"}
            result = dict(await call_next(message.evolve(params=params)) or {})
            return {**result, "_meta": {**result.get("_meta", {}), "x/seen": True}}
        return await call_next(message)

    async with open_client(echo_server(meddle), revision=revision) as client:
        result = await client.call_tool("echo", {"text": "hello"})
        assert "changed" in str(result.content)
        assert (result.meta or {})["x/seen"] is True
        assert (await client.request("x/own"))["mine"] is True
        with pytest.raises(RequestError, match="not that"):
            await client.call_tool("echo", {"text": "forbidden"})
        with pytest.raises(RequestError, match="no method x/other"):
            await client.request("x/other")


async def test_what_it_raises_by_mistake_is_masked(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        if message.method == "ping":
            raise ValueError("secret")
        return None if message.method == "tools/list" else await call_next(message)

    async with open_client(echo_server(broken), revision="2025-11-25") as client:
        for method in ("ping", "tools/list"):
            with pytest.raises(RequestError, match="internal error") as caught:
                await client.request(method)
            assert "secret" not in str(caught.value)
        assert (await client.call_tool("echo", {"text": "still there"})).content
    assert "secret" in caplog.text
    assert "no result" in caplog.text


async def test_a_handshake_it_refuses_did_not_happen() -> None:
    attempts = 0

    async def guard(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        nonlocal attempts
        if message.method == "initialize":
            attempts += 1
            if attempts == 1:
                raise RequestError(-32001, "come again")
        return await call_next(message)

    wire = ScriptedChannel()
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}

    async def ask(id: int, method: str, params: object) -> dict[str, Any]:
        wire.say({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        while not (answers := [message for message in wire.sent if message["id"] == id]):
            await trio.sleep(0.001)
        answer: dict[str, Any] = answers[0]
        return answer

    async with trio.open_nursery() as nursery:
        await nursery.start(echo_server(guard).serve_channel, wire)
        assert (await ask(1, "initialize", params))["error"]["message"] == "come again"
        assert "error" in await ask(2, "tools/list", {})
        assert (await ask(3, "initialize", params))["result"]["protocolVersion"] == "2025-11-25"
        assert (await ask(4, "tools/list", {}))["result"]["tools"]
        wire.hang_up()


async def test_cancelling_a_request_cancels_what_middleware_does_for_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ended: list[float] = []

    async def slow(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        if message.method == "tools/call":
            try:
                await trio.sleep(100)
            finally:
                ended.append(trio.current_time())
        return await call_next(message)

    async with open_client(echo_server(slow)) as client:
        start = trio.current_time()
        with trio.move_on_after(3):
            await client.call_tool("echo", {"text": "x"})
        await trio.testing.wait_all_tasks_blocked()
        assert [at - start for at in ended] == [pytest.approx(3)]


async def test_tasks_started_in_a_handler_go_on_until_the_session_or_the_server_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, ended = Server("background"), list[str]()

    async def go_on(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(name)

    async def fail() -> None:
        raise ValueError("oops")

    @server.tool
    async def start(ctx: Context[Any]) -> None:
        ctx.start_soon(go_on, "session")
        ctx.start_soon(go_on, "server", until="server")
        ctx.start_soon(fail)

    async with open_client(server) as client:
        await client.call_tool("start")
        await trio.testing.wait_all_tasks_blocked()
        assert ended == []
        await client.call_tool("start")
    assert ended == ["session", "session", "server", "server"]
    assert caplog.text.count("oops") >= 2


async def test_a_subscription_or_a_log_level_that_it_refuses_changes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    refused = set[str]()

    async def guard(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        if message.method in refused:
            raise RequestError(-32001, "not now")
        return await call_next(message)

    server, logged, updated = echo_server(guard), list[object](), list[str]()

    @server.resource("x://{name}")
    async def thing(name: str) -> str:
        return name

    @server.tool
    async def say(ctx: Context[Any]) -> None:
        await ctx.debug("hello")

    async def tell(*uris: str) -> list[str]:
        updated.clear()
        for uri in uris:
            await server.resource_updated(uri)
        await trio.testing.wait_all_tasks_blocked()
        return updated

    async with open_client(
        server,
        revision="2025-11-25",
        on_log=lambda message: logged.append(message.data),
        on_resource_updated=updated.append,
    ) as client:
        await client.set_log_level("info")
        await client.request("resources/subscribe", {"uri": "x://a"})
        refused |= {"resources/subscribe", "resources/unsubscribe", "logging/setLevel"}
        for method, params in (
            ("resources/subscribe", {"uri": "x://b"}),
            ("resources/unsubscribe", {"uri": "x://a"}),
            ("logging/setLevel", {"level": "debug"}),
        ):
            with pytest.raises(RequestError, match="not now"):
                await client.request(method, params)
        assert await tell("x://a", "x://b") == ["x://a"]
        await client.call_tool("say")
        await trio.testing.wait_all_tasks_blocked()
        assert logged == []
        refused.clear()
        await client.request("resources/subscribe", {"uri": "x://b"})
        await client.request("resources/unsubscribe", {"uri": "x://a"})
        await client.request("logging/setLevel", {"level": "debug"})
        assert await tell("x://a", "x://b") == ["x://b"]
        await client.call_tool("say")
        await trio.testing.wait_all_tasks_blocked()  # only progress is handed over before a call returns
        assert logged == ["hello"]


async def test_a_subscription_is_to_the_resource_that_it_makes_of_it_and_may_be_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def elsewhere(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        if message.method == "resources/subscribe" and message.params is not None:
            uri = message.params["uri"].replace("alias", "real")
            message = message.evolve(params={**message.params, "uri": uri})
        return await call_next(message)

    server, updated = echo_server(elsewhere), list[str]()

    @server.resource("x://{name}")
    async def thing(name: str) -> str:
        return name

    @server.resource("private://real", scopes=lambda _: False)
    async def private() -> str:
        return "secret"

    # Only over HTTP it matters who a client is.
    target = HttpServerParameters("http://localhost/mcp", app=McpASGI(server))
    async with open_client(target, revision="2025-11-25", on_resource_updated=updated.append) as client:
        await client.request("resources/subscribe", {"uri": "x://alias"})
        with pytest.raises(RequestError, match="may not subscribe"):
            await client.request("resources/subscribe", {"uri": "private://alias"})
        for uri in ("x://alias", "x://real", "private://real"):
            await server.resource_updated(uri)
        await trio.sleep(1)
    assert updated == ["x://real"]


async def test_a_subscription_that_is_given_up_while_it_waits_for_a_place_changes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def pass_on(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        return await call_next(message)

    server: Server = Server("busy", middleware=[pass_on], limits=Limits(max_inbound_requests=1))
    updated = list[str]()

    @server.tool
    async def wait() -> None:
        await trio.sleep(10)

    @server.resource("x://{name}")
    async def thing(name: str) -> str:
        return name

    async with (
        open_client(server, revision="2025-11-25", on_resource_updated=updated.append) as client,
        trio.open_nursery() as nursery,
    ):
        await client.request("resources/subscribe", {"uri": "x://a"})
        nursery.start_soon(client.call_tool, "wait")
        await trio.testing.wait_all_tasks_blocked()
        for method, uri in (("resources/subscribe", "x://b"), ("resources/unsubscribe", "x://a")):
            with trio.move_on_after(1):
                await client.request(method, {"uri": uri})
        for uri in ("x://a", "x://b"):
            await server.resource_updated(uri)
        await trio.sleep(20)
    assert updated == ["x://a"]
