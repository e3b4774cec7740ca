"""Every typed call, in every revision that has it, against a server that follows a script."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS, LEGACY_ENDS
from inside_peer import Sender
from scripted_server import ALL, MODERN, ScriptedServer
from wires import refusal

from trio_mcp import Limits, RemoteProtocolError, RequestError, Revision, Server, open_client
from trio_mcp.types import (
    LoggingMessageNotificationParams,
    Prompt,
    PromptReference,
    ResourceTemplate,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

REVISIONS = pytest.mark.parametrize("revision", ALL)
KNOWN_META = {"progressToken", "trio-mcp/timeoutMs"}


def last_params(server: ScriptedServer, method: str) -> dict[str, Any]:
    """Return the parameters of the last request of a method, without what every request says."""
    params = dict(server.requests(method)[-1].get("params", {}))
    meta = {k: v for k, v in params.pop("_meta", {}).items() if not k.startswith("io.modelcontextprotocol/")}
    return {**params, **({"_meta": meta} if meta else {})}


@pytest.mark.parametrize("revision", ENDS)
async def test_a_tool_is_called(revision: Revision) -> None:
    """Every revision, server/tools, "Calling Tools"."""
    server = ScriptedServer(revision)
    server.script["tools/call"] = server.complete(content=[{"type": "text", "text": "3"}], isError=False)
    async with open_client(server, revision=revision) as client:
        result = await client.call_tool("add", {"a": 1}, meta={"x/y": 2})
    assert result.content == (TextContent(text="3"),)
    assert last_params(server, "tools/call") == {"name": "add", "arguments": {"a": 1}, "_meta": {"x/y": 2}}


@pytest.mark.parametrize("revision", ENDS)
async def test_a_resource_is_read(revision: Revision) -> None:
    """Every revision, server/resources, "Reading Resources"."""
    server = ScriptedServer(revision)
    contents = [{"uri": "a:b", "text": "hello"}]
    server.script["resources/read"] = server.complete(contents=contents, ttlMs=5, cacheScope="public")
    async with open_client(server, revision=revision) as client:
        result = await client.read_resource("a:b", fresh=True, meta={"x/y": 2})
    assert result.contents == (TextResourceContents(uri="a:b", text="hello"),)
    assert last_params(server, "resources/read") == {"uri": "a:b", "_meta": {"x/y": 2}}


@pytest.mark.parametrize("revision", ENDS)
async def test_a_prompt_is_got(revision: Revision) -> None:
    """Every revision, server/prompts, "Getting a Prompt"."""
    server = ScriptedServer(revision)
    messages = [{"role": "user", "content": {"type": "text", "text": "Be brief."}}]
    server.script["prompts/get"] = server.complete(messages=messages)
    async with open_client(server, revision=revision) as client:
        result = await client.get_prompt("brief", {"how": "very"}, meta={"x/y": 2})
    assert result.messages[0].content == TextContent(text="Be brief.")
    assert last_params(server, "prompts/get") == {
        "name": "brief",
        "arguments": {"how": "very"},
        "_meta": {"x/y": 2},
    }


@REVISIONS
async def test_an_argument_is_completed(subtests: pytest.Subtests, revision: Revision) -> None:
    """Every revision, server/utilities/completion; the context since 2025-06-18."""
    rows: list[
        tuple[str, str | PromptReference | Prompt | ResourceTemplateReference | ResourceTemplate, dict[str, Any]]
    ] = [
        ("prompt reference", PromptReference(name="p"), {"type": "ref/prompt", "name": "p"}),
        ("prompt", Prompt(name="p", title="P"), {"type": "ref/prompt", "name": "p"}),
        ("template reference", ResourceTemplateReference(uri="a:{b}"), {"type": "ref/resource", "uri": "a:{b}"}),
        ("template", ResourceTemplate(name="t", uri_template="a:{b}"), {"type": "ref/resource", "uri": "a:{b}"}),
        ("name", "review", {"type": "ref/prompt", "name": "review"}),
        ("uri", "books://one", {"type": "ref/resource", "uri": "books://one"}),
        ("uri template", "a:{b}", {"type": "ref/resource", "uri": "a:{b}"}),
    ]
    for name, ref, wire in rows:
        with subtests.test(name):
            server = ScriptedServer(revision)
            server.script["completion/complete"] = server.complete(
                completion={"values": ["python"], "hasMore": False}
            )
            async with open_client(server, revision=revision) as client:
                result = await client.complete(ref, "language", "py", context={"kind": "x"}, meta={"x/y": 2})
                assert result.completion.values == ("python",)
                params = last_params(server, "completion/complete")
                with_context = (
                    {"context": {"arguments": {"kind": "x"}}} if revision >= Revision.V2025_06_18 else {}
                )
                asked = {"ref": wire, "argument": {"name": "language", "value": "py"}, "_meta": {"x/y": 2}}
                assert params == {**asked, **with_context}
                await client.complete(ref, "language", "")
                assert "context" not in last_params(server, "completion/complete")


@REVISIONS
async def test_discovery_tells_the_same_in_both_eras(revision: Revision) -> None:
    """2026-07-28, server/discover; in the legacy era it is what `initialize` said, and nothing is asked."""
    server = ScriptedServer(revision, capabilities={"tools": {"listChanged": True}})
    async with open_client(server, revision=revision) as client:
        await trio.testing.wait_all_tasks_blocked()
        before = len(server.sent)
        with trio.testing.assert_checkpoints():
            found = await client.discover(fresh=True, meta={"x/y": 2})
        assert found.supported_versions == (revision,)
        assert found.capabilities.tools is not None
        assert found.capabilities.tools.list_changed
        assert found.instructions == "Be kind."
        assert len(server.sent) == before + revision.is_modern
        if revision.is_modern:
            assert last_params(server, "server/discover") == {"_meta": {"x/y": 2}}


@pytest.mark.parametrize("revision", ENDS)
async def test_a_ping_asks_the_server(revision: Revision) -> None:
    """Up to 2025-11-25, basic/utilities/ping; gone since, and discovery does as well."""
    server = ScriptedServer(revision, {"ping": {}})
    method = "server/discover" if revision.is_modern else "ping"
    async with open_client(server, revision=revision) as client:
        before = len(server.requests(method))
        await client.ping(meta={"x/y": 2})
        assert len(server.requests(method)) == before + 1
        assert last_params(server, method) == {"_meta": {"x/y": 2}}


@pytest.mark.parametrize("revision", ENDS)
async def test_log_messages_of_a_severity_are_asked_for(revision: Revision) -> None:
    """Legacy: logging/setLevel. 2026-07-28: each request says so in its `_meta`."""
    server = ScriptedServer(revision, {"logging/setLevel": {}, "x/y": {}})
    heard: list[LoggingMessageNotificationParams] = []
    async with open_client(server, revision=revision, on_log=heard.append) as client:
        await client.set_log_level("warning", meta={"x/y": 2})
        if revision.is_modern:
            await client.request("x/y")
            meta = server.requests("x/y")[-1]["params"]["_meta"]
            assert meta["io.modelcontextprotocol/logLevel"] == "warning"
        else:
            assert last_params(server, "logging/setLevel") == {"level": "warning", "_meta": {"x/y": 2}}
        server.tell("notifications/message", level="error", data="ouch")
        server.tell("notifications/message", level="what", data="not read")
        await trio.testing.wait_all_tasks_blocked()
    assert [message.data for message in heard] == ["ouch"]


@pytest.mark.parametrize("revision", ENDS)
async def test_who_wants_the_log_asks_for_it(revision: Revision) -> None:
    """By `on_log` alone, of servers that declare one; at another severity by `log_level`."""
    for options, level in (({"on_log": print}, "info"), ({"log_level": "error"}, "error")):
        server = ScriptedServer(revision, {"logging/setLevel": {}, "x/y": {}}, capabilities={"logging": {}})
        async with open_client(server, revision=revision, **options) as client:  # type: ignore[arg-type,misc,unused-ignore] # pyright: ignore[reportArgumentType]
            await client.request("x/y")
        assert asked_levels(server) == [level]
    for quiet in ({}, {"on_log": print, "log_level": None}):
        server = ScriptedServer(revision, {"logging/setLevel": {}, "x/y": {}}, capabilities={"logging": {}})
        async with open_client(server, revision=revision, **quiet) as client:  # type: ignore[arg-type,misc,unused-ignore] # pyright: ignore[reportArgumentType]
            await client.request("x/y")
        assert asked_levels(server) == []
    server = ScriptedServer(revision, {"x/y": {}}, capabilities={"tools": {}})
    async with open_client(server, revision=revision, on_log=print) as client:
        await client.request("x/y")
    assert asked_levels(server) == []


def asked_levels(server: ScriptedServer) -> list[str]:
    """Return the levels of log messages that a client has asked for, by requests of their own or in others."""
    if server.revision.is_modern:
        metas = [message["params"]["_meta"] for message in server.requests("x/y")]
        return [meta[LOG_LEVEL] for meta in metas if LOG_LEVEL in meta]
    return [message["params"]["level"] for message in server.requests("logging/setLevel")]


LOG_LEVEL = "io.modelcontextprotocol/logLevel"


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_server_that_refuses_its_log_works_without(revision: Revision, autojump_clock: Any) -> None:
    """Nobody has asked for it by a call; and one that does not answer holds up nobody for long."""
    del autojump_clock
    silence: dict[str, Any] = {"logging/setLevel": be_silent}
    nonsense: dict[str, Any] = {"logging/setLevel": answer_with_a_number}
    for answer in ({}, nonsense, silence):
        server = ScriptedServer(revision, {"x/y": {}, **answer}, capabilities={"logging": {}})
        began = trio.current_time()
        async with open_client(server, revision=revision, on_log=print) as client:
            assert trio.current_time() - began == (Limits().discover_timeout if answer is silence else 0)
            await client.request("x/y")


def answer_with_a_number(message: dict[str, Any]) -> dict[str, Any]:
    """Answer what no request may be answered with."""
    return {"jsonrpc": "2.0", "id": message["id"], "result": 7}


def be_silent(message: object) -> None:
    """Answer nothing."""


def test_there_are_no_such_levels() -> None:
    """One sentence, before anything is sent."""
    with pytest.raises(ValueError, match="log_level") as caught:
        open_log("loud")
    assert str(caught.value) == (
        "log_level must be one of debug, info, notice, warning, error, critical, alert, emergency, or None, not 'loud'"
    )


def open_log(level: Any) -> None:
    async def main() -> None:
        async with open_client(Server("x"), log_level=level):
            raise AssertionError

    trio.run(main)


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_call_the_server_has_not_declared_is_sent_all_the_same(revision: Revision) -> None:
    """Servers are wrong about themselves in both directions; their answer counts, not what they declared."""
    server = ScriptedServer(revision, {"tools/call": {"content": []}}, capabilities={})
    async with open_client(server, revision=revision) as client:
        assert (await client.call_tool("x")).content == ()
        with pytest.raises(RequestError) as caught:
            await client.get_prompt("x")
    assert caught.value.code == -32601


@pytest.mark.parametrize("revision", ENDS)
async def test_a_result_that_cannot_be_read_is_an_error(subtests: pytest.Subtests, revision: Revision) -> None:

    async def check(method: str) -> None:
        server = ScriptedServer(revision)
        server.script[method] = server.complete(content=5, messages=5, contents=5, completion=5)
        async with open_client(server, revision=revision) as client:
            calls: dict[str, Any] = {
                "tools/call": lambda: client.call_tool("x"),
                "prompts/get": lambda: client.get_prompt("x"),
                "resources/read": lambda: client.read_resource("x:"),
                "completion/complete": lambda: client.complete(PromptReference(name="x"), "y", ""),
            }
            with pytest.raises(RemoteProtocolError, match=f"^{method}: "):
                await calls[method]()

    for method in ("tools/call", "prompts/get", "resources/read", "completion/complete"):
        with subtests.test(method=method):
            await check(method)


@pytest.mark.parametrize("revision", ENDS)
async def test_an_error_answer_is_raised_as_it_is(revision: Revision) -> None:
    server = ScriptedServer(revision)

    def refuse(message: dict[str, Any]) -> object:
        return refusal(message, -32002, "no such resource", uri="x:")

    server.script["resources/read"] = refuse
    async with open_client(server, revision=revision) as client:
        with pytest.raises(RequestError) as caught:
            await client.read_resource("x:")
    assert (caught.value.code, caught.value.message, caught.value.data) == (
        -32002,
        "no such resource",
        {"uri": "x:"},
    )


async def test_the_timeout_of_requests_covers_the_log_level(autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer(Revision.V2025_11_25, {"logging/setLevel": lambda _: None})
    async with open_client(server, revision="2025-11-25", request_timeout=5) as client:
        with pytest.raises(trio.TooSlowError, match=r"logging/setLevel .* 5 s \(request_timeout\)"):
            await client.set_log_level("info")


async def test_each_request_to_a_modern_server_says_the_revision() -> None:
    """2026-07-28, basic, "_meta"; the caller's own members stay beside it."""
    server = ScriptedServer(MODERN)
    server.script["tools/call"] = server.complete(content=[])
    async with open_client(server) as client:
        await client.call_tool("x", meta={"mine": 1})
    meta = server.requests("tools/call")[0]["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert meta["mine"] == 1


async def test_a_call_passes_three_frames_of_the_client_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a retry, an input round or a timeout needs is no frame of a call that needs none of them."""
    frames: list[str] = []
    request = Sender.request

    def look(sender: Sender, *args: Any, **options: Any) -> Any:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if Path(frame.f_code.co_filename).parent.name == "_client":
                frames.append(frame.f_code.co_name)
            frame = frame.f_back
        return request(sender, *args, **options)

    server = ScriptedServer(MODERN)
    server.script["tools/call"] = server.complete(content=[])
    monkeypatch.setattr(Sender, "request", look)
    async with open_client(server) as client:
        frames.clear()
        await client.call_tool("x")
    assert frames.pop(0) == "send", "which makes the coroutine and is left before that runs"
    assert frames[-1] == "call_tool"
    assert len(frames) == 3
