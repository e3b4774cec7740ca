"""Where the methods of extensions exist, who may call them, what names them in header fields, and what else they add.

The core protocol of 2025-11-25 has `tasks/get`; in 2026-07-28 the name is free (SEP-2663).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from eras import ENDS
from http_raw import modern, open_raw

from trio_mcp import (
    ClientExtension,
    Context,
    ExtensionResult,
    HttpServerParameters,
    LocalProtocolError,
    McpASGI,
    MethodHandler,
    NotificationContext,
    Proxy,
    RequestError,
    Revision,
    Server,
    ServerExtension,
    ToolError,
    open_client,
)

JOBS = "com.example/jobs"
MODERN = Revision.V2026_07_28
OLD = Revision.V2025_11_25
FREE = [revision for revision in Revision if revision is not OLD]


async def get(params: Mapping[str, Any], ctx: Context[Any]) -> dict[str, Any]:
    await trio.lowlevel.checkpoint()
    return {"got": params.get("taskId"), "in": ctx.revision}


def jobs(**options: Any) -> ServerExtension:
    return ServerExtension(JOBS, request_handlers={"tasks/get": get, "jobs/more": get}, **options)


KNOWN = ClientExtension(JOBS, methods={"tasks/get": "taskId", "jobs/more": None})


@pytest.mark.parametrize("revision", FREE)
async def test_a_name_of_another_revision_is_free(revision: Revision) -> None:
    async with open_client(Server("s", extensions=[jobs()]), revision=revision, extensions=[KNOWN]) as client:
        assert (await client.request("tasks/get", {"taskId": "1"}))["in"] == revision
        assert (await client.request("jobs/more"))["in"] == revision


async def test_in_its_own_revision_the_name_is_the_protocols() -> None:
    """The server has no such method there, whatever its extensions; another one of the extension exists."""
    async with open_client(Server("s", extensions=[jobs()]), revision=OLD, extensions=[KNOWN]) as client:
        with pytest.raises(RequestError, match="this server has no method tasks/get") as caught:
            await client.request("tasks/get", {"taskId": "1"})
        assert caught.value.code == -32601
        assert (await client.request("jobs/more"))["in"] == OLD


@pytest.mark.parametrize("revision", list(Revision))
async def test_an_extension_exists_only_in_its_revisions(revision: Revision) -> None:
    """In others it is not declared, by neither side, and its methods, notifications and results do not exist."""
    heard: list[object] = []

    async def hear(params: Mapping[str, Any], ctx: NotificationContext) -> None:
        await trio.lowlevel.checkpoint()
        heard.append(params["id"])

    both = ServerExtension("a.b/both", settings={"x": 1})
    one = jobs(revisions=[MODERN], notification_handlers={"notifications/jobs/seen": hear}, result_types=["job"])
    server = Server("s", extensions=[one, both])
    seen: list[set[str]] = []

    @server.tool
    async def work(ctx: Context[Any]) -> object:
        seen.append(set(ctx.client_extensions))
        return ExtensionResult("job", {"id": 5})

    async def finish(*_: object) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"content": []}

    mine = ClientExtension(JOBS, methods=KNOWN.methods, revisions=[MODERN], result_types={"job": finish})
    extensions = [mine, ClientExtension("a.b/both")]
    is_there = revision is MODERN
    async with open_client(server, revision=revision, extensions=extensions) as client:
        assert client.server_capabilities is not None
        declared = client.server_capabilities.extensions or {}
        assert declared == ({JOBS: {}, "a.b/both": {"x": 1}} if is_there else {"a.b/both": {"x": 1}})
        if is_there:
            assert (await client.call_tool("work")).content == ()
            assert (await client.request("jobs/more"))["in"] == revision
        else:
            with pytest.raises(RequestError, match="internal error"):
                await client.call_tool("work")
            with pytest.raises(RequestError, match="has no method jobs/more"):
                await client.request("jobs/more")
        await client.notify("notifications/jobs/seen", {"id": 7})
        await client.request("ping") if not is_there else await client.list_tools()
    assert seen == [{JOBS, "a.b/both"} if is_there else {"a.b/both"}]
    assert heard == ([7] if is_there else [])


async def test_a_client_declares_nothing_that_is_hidden_in_a_revision() -> None:
    """An `extensions` that would be empty is left out."""
    server = Server("s")
    seen: list[Any] = []

    @server.tool
    async def look(ctx: Context[Any]) -> None:
        seen.append(ctx.client_capabilities.extensions)

    mine = ClientExtension(JOBS, revisions=[OLD, Revision.V2024_11_05])
    for revision in (MODERN, OLD):
        async with open_client(server, revision=revision, extensions=[mine]) as client:
            await client.call_tool("look")
    assert seen == [None, {JOBS: {}}]


async def test_without_an_extension_a_client_does_not_send_such_a_name() -> None:
    server = Server("s", extensions=[jobs(open_to_all=["tasks/get"])])
    async with open_client(server, revision=MODERN) as client:
        with pytest.raises(LocalProtocolError, match="has no method tasks/get"):
            await client.request("tasks/get", {"taskId": "1"})
    not_there = ClientExtension(JOBS, methods=KNOWN.methods, revisions=[Revision.V2024_11_05])
    async with open_client(server, revision=MODERN, extensions=[not_there]) as client:
        with pytest.raises(LocalProtocolError, match="has no method tasks/get"):
            await client.request("tasks/get", {"taskId": "1"})


@pytest.mark.parametrize("revision", ENDS)
async def test_some_methods_are_open_to_all(revision: Revision) -> None:
    async with open_client(
        Server("s", extensions=[jobs(open_to_all=["jobs/more"])]), revision=revision
    ) as client:
        assert (await client.request("jobs/more", {"taskId": "2"}))["got"] == "2"


def test_what_is_not_theirs_is_refused(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str]] = [
        (lambda: jobs(revisions=[OLD, MODERN]), "claims the method tasks/get, .* protocol's own in 2025-11-25"),
        (lambda: jobs(revisions=[]), "an extension needs a revision"),
        (lambda: jobs(open_to_all=["jobs/less"]), "open_to_all has jobs/less, which request_handlers lacks"),
        (lambda: jobs(names={"jobs/less": "x"}), "names has jobs/less, which request_handlers lacks"),
        (lambda: ServerExtension(JOBS, request_handlers={"ping": get}), "claims the method ping"),
        (lambda: ServerExtension(JOBS, request_handlers={"roots/list": get}), "claims the method roots/list"),
        (lambda: ServerExtension(JOBS, request_handlers={"server/discover": get}), "claims the method server/d"),
        (lambda: ClientExtension(JOBS, methods={"tools/call": None}), "claims the method tools/call"),
        (
            lambda: ClientExtension(JOBS, methods={"tasks/get": None}, revisions=[OLD]),
            "claims the method tasks/get, which is the protocol's own in 2025-11-25",
        ),
        (lambda: Server("s", extensions=[jobs(), _other()]), "two extensions claim the method jobs/more"),
    ]
    for make, problem in rows:
        with subtests.test(make=make, problem=problem), pytest.raises(ValueError, match=problem):
            make()


def _other() -> ServerExtension:
    return ServerExtension("a.b/c", request_handlers={"jobs/more": get})


async def test_two_extensions_may_share_a_name_in_different_revisions() -> None:
    async def other(params: Mapping[str, Any], ctx: Context[Any]) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"other": True}

    old = ServerExtension(
        "a.b/old", request_handlers={"jobs/more": other}, revisions=[OLD], open_to_all=["jobs/more"]
    )
    server = Server("s", extensions=[old, jobs(revisions=[MODERN], open_to_all=["jobs/more"])])
    async with open_client(server, revision=OLD) as client:
        assert await client.request("jobs/more") == {"other": True}
    async with open_client(server, revision=MODERN) as client:
        assert (await client.request("jobs/more"))["in"] == MODERN


# Header fields.


@pytest.mark.parametrize(
    ("name", "is_right"), [("7", True), ("8", False), (None, False), ("=?base64?Nw==?=", True)]
)
async def test_the_server_compares_what_names_a_request(name: str | None, *, is_right: bool) -> None:
    """basic/transports/streamable-http, "Server Validation"."""
    server = Server("s", extensions=[jobs(names={"jobs/more": "job"}, open_to_all=["jobs/more"])])
    async with open_raw(server) as raw:
        answer = await raw.send(modern("jobs/more", job="7"), {"Mcp-Name": name})
    if is_right:
        assert answer.message["result"]["in"] == MODERN
    else:
        assert (answer.status, answer.error["code"]) == (400, -32020)


async def test_the_client_sends_what_names_a_request() -> None:
    server = Server("s", extensions=[jobs(names={"jobs/more": "job", "tasks/get": "taskId"})])
    knows = ClientExtension(JOBS, methods={"jobs/more": "job", "tasks/get": "taskId"})
    target = HttpServerParameters("http://localhost/mcp", app=McpASGI(server))
    async with open_client(target, revision=MODERN, extensions=[knows]) as client:
        assert (await client.request("jobs/more", {"job": "é", "taskId": "2"}))["got"] == "2"
        assert (await client.request("tasks/get", {"taskId": "3"}))["got"] == "3"
    async with open_client(target, revision=MODERN, extensions=[ClientExtension(JOBS)]) as client:
        with pytest.raises(RequestError, match="Mcp-Name is missing") as caught:
            await client.request("jobs/more", {"job": "1"})
        assert caught.value.code == -32020


async def test_a_proxy_passes_on_what_belongs_to_an_extension() -> None:
    """Although it knows none: a name that another revision has, and who has declared what."""
    async with open_client(
        Proxy(Server("s", extensions=[jobs()])), revision=MODERN, extensions=[KNOWN]
    ) as client:
        assert (await client.request("tasks/get", {"taskId": "1"}))["got"] == "1"
    async with open_client(Proxy(Server("s", extensions=[jobs()])), revision=OLD, extensions=[KNOWN]) as client:
        with pytest.raises(RequestError) as caught:
            await client.request("tasks/get", {"taskId": "1"})
        assert caught.value.code == -32601


# What else an extension adds.


@pytest.mark.parametrize("revision", [OLD, MODERN])
async def test_prompts_and_resources_of_an_extension(revision: Revision) -> None:
    def poem() -> str:
        """A poem."""
        return "roses"

    def page(number: int) -> str:
        return f"page {number}"

    extension = ServerExtension(
        "a.b/c",
        prompts=[poem],
        resources={"page://cover": "cover", "page://back": b"\x00", "page://{number}": page},
    )
    async with open_client(Server("s", extensions=[extension]), revision=revision) as client:
        assert [prompt.description for prompt in await client.list_prompts()] == ["A poem."]
        assert [resource.uri for resource in await client.list_resources()] == ["page://cover", "page://back"]
        assert (await client.read_resource("page://cover")).text == "cover"
        assert (await client.read_resource("page://3")).text == "page 3"


@pytest.mark.parametrize("revision", [OLD, MODERN])
async def test_calls_are_wrapped_the_first_outermost(revision: Revision) -> None:
    """In the revisions that an extension is for; what is wrapped may be changed, refused, or called again."""

    def wrapping(name: str) -> Any:
        async def wrap(params: Mapping[str, Any], ctx: Context[Any], call_tool: MethodHandler) -> object:
            log.append(name)
            if params["name"] == "forbidden":
                raise RequestError(-32602, "not this one")
            return await call_tool({**params, "arguments": {"text": params["arguments"]["text"] + name}}, ctx)

        return wrap

    log: list[str] = []
    first = ServerExtension("a.b/first", wrap_call=wrapping("1"))
    other = ServerExtension("a.b/other", wrap_call=wrapping("2"), revisions=[MODERN])
    server = Server("s", extensions=[first, other])

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def forbidden(text: str) -> str:
        raise AssertionError

    async with open_client(server, revision=revision) as client:
        said = (await client.call_tool("echo", {"text": "x"})).text
        assert said == ("x12" if revision is MODERN else "x1")
        with pytest.raises(RequestError, match="not this one"):
            await client.call_tool("forbidden", {"text": "x"})
    assert log == (["1", "2", "1"] if revision is MODERN else ["1", "1"])


@pytest.mark.parametrize("revision", [OLD, MODERN])
async def test_who_wraps_a_call_may_ask(revision: Revision) -> None:
    """Although the tool never does."""

    async def wrap(params: Mapping[str, Any], ctx: Context[Any], call_tool: MethodHandler) -> object:
        answer = await ctx.elicit("sure?", bool)
        return await call_tool(params, ctx) if answer.action == "accept" else {"content": []}

    server = Server("s", extensions=[ServerExtension("a.b/c", wrap_call=wrap)])

    @server.tool
    async def act() -> str:
        return "done"

    async def accept(_: object) -> Any:
        await trio.lowlevel.checkpoint()
        return {"value": True}

    async with open_client(server, revision=revision, on_elicit=accept) as client:
        assert (await client.call_tool("act")).text == "done"


async def test_scopes_and_rates_are_checked_before_a_call_is_wrapped() -> None:
    wrapped: list[str] = []

    async def wrap(params: Mapping[str, Any], ctx: Context[Any], call_tool: MethodHandler) -> object:
        wrapped.append(params["name"])
        return await call_tool(params, ctx)

    server = Server("s", extensions=[ServerExtension("a.b/c", wrap_call=wrap)])

    @server.tool(rate="1/hour")
    async def rare() -> str:
        raise ToolError("read this")

    async with open_client(server) as client:
        assert (await client.call_tool("rare")).is_error
        with pytest.raises(RequestError):
            await client.call_tool("rare")
    assert wrapped == ["rare"]
