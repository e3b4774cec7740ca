"""Every public async function checkpoints on every path that returns, the short ones included."""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Literal, TypeAlias
from unittest import mock

import attrs
import pytest
import trio
import trio.testing
from inside_core import Headers
from inside_http import HttpRequest, parse_target
from number_pages import Numbers, numbers_of
from places import TESTS
from redis_server import running_redis
from wires import ScriptedChannel, answer

import trio_mcp
from trio_mcp import (
    AppView,
    AuthRequest,
    Channel,
    Client,
    ClientGroup,
    ClientTask,
    Context,
    EventStore,
    FileTokenStore,
    HttpCall,
    KeyringTokenStore,
    McpASGI,
    MemoryEventStore,
    MemoryTaskStore,
    MemoryTokenStore,
    OAuth,
    Outgoing,
    Pages,
    Progress,
    ProgressReporter,
    RedisTaskStore,
    Server,
    Shutdown,
    StaticToken,
    StoredEvent,
    StoredTask,
    StreamChannel,
    TokenStore,
    memory_channel_pair,
    open_asgi_client,
    open_client,
    open_clients,
    open_endpoint,
    open_in_browser,
    open_redis_task_store,
    open_sqlite_event_store,
    open_sqlite_task_store,
    run_client,
    serve_http,
    serve_stdio,
    serve_tcp,
    serve_unix,
    serve_view,
    serve_websocket,
)
from trio_mcp.types import ClientCapabilities, PromptReference, RootsCapability

LEGACY: Final = "2025-03-26"
NEWEST_LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
SKILL: Final = TESTS / "conformance" / "skills" / "git-workflow"
SKILL_URI: Final = "skill://git-workflow/SKILL.md"

Act: TypeAlias = Callable[[], Awaitable[object]]


@attrs.frozen
class Case:
    """A public async function, on one of its paths.

    Attributes:
        function: Its qualified name.
        setting: Makes what it needs, and gives the call to make.
    """

    function: str
    setting: Callable[[], AbstractAsyncContextManager[Act]]


CASES: list[Case] = []


_Setting: TypeAlias = Callable[[], AbstractAsyncContextManager[Act]]


def case(function: str) -> Callable[[_Setting], _Setting]:
    def register(setting: _Setting) -> _Setting:
        CASES.append(Case(function, setting))
        return setting

    return register


def small_server() -> Server[None]:
    server: Server[None] = Server("small")

    @server.tool
    async def quick() -> str:
        await trio.lowlevel.checkpoint()
        return "done"

    @server.prompt
    async def greeting(kind: Literal["short", "long"]) -> str:
        await trio.lowlevel.checkpoint()
        return kind

    server.add_resource("x:y", "text")
    server.add_app("ui://page", "<!doctype html>")
    server.add_skill(SKILL)
    return server


def client_case(name: str, revision: str, act: Callable[[Client], Awaitable[object]]) -> None:
    @case(f"Client.{name}")
    @asynccontextmanager
    async def _setting() -> AsyncGenerator[Act]:
        async with open_client(small_server(), revision=revision, roots=[]) as client:
            yield lambda: act(client)


async def read_a_file(client: Client) -> object:
    skill = await client.get_skill(SKILL_URI)
    return await client.read_skill_file(skill, "SKILL.md")


for _revision in (LEGACY, MODERN):
    client_case("call_tool", _revision, lambda client: client.call_tool("quick"))
    client_case("request", _revision, lambda client: client.request("tools/list"))
    client_case("request_many", _revision, lambda client: client.request_many([]))
    client_case("request_many", _revision, lambda client: client.request_many([("tools/list", None)]))
    client_case("notify", _revision, lambda client: client.notify("x/y"))
    client_case("ping", _revision, lambda client: client.ping())
    client_case("set_log_level", _revision, lambda client: client.set_log_level("error"))
    client_case("aclose", _revision, lambda client: client.aclose())
    client_case("answer_input", _revision, lambda client: client.answer_input({}))
    client_case(
        "complete", _revision, lambda client: client.complete(PromptReference(name="greeting"), "kind", "s")
    )
    client_case("discover", _revision, lambda client: client.discover())
    client_case("get_prompt", _revision, lambda client: client.get_prompt("greeting", {"kind": "short"}))
    client_case("read_resource", _revision, lambda client: client.read_resource("x:y"))
    client_case("read_app", _revision, lambda client: client.read_app("ui://page"))
    client_case("get_skill", _revision, lambda client: client.get_skill(SKILL_URI))
    client_case("load_skill", _revision, lambda client: client.load_skill(SKILL_URI))
    client_case("read_skill_file", _revision, read_a_file)
    client_case("roots_changed", _revision, lambda client: client.roots_changed())
    client_case("set_roots", _revision, lambda client: client.set_roots([]))
client_case("request_many", LEGACY, lambda client: client.request_many([("ping", None)], batch=True))


for _message in ("no message", {"jsonrpc": "2.0", "id": 1, "method": "ping"}):

    @case("serve_view")
    @asynccontextmanager
    async def _serve_view(message: Any = _message) -> AsyncGenerator[Act]:
        async with open_client(small_server()) as client:
            view = AppView(page=await client.read_app("ui://page"))
            yield lambda: serve_view(client, view, message)


@case("Client.aclose")
@asynccontextmanager
async def _closing_again() -> AsyncGenerator[Act]:
    async with open_client(small_server()) as client:
        await client.aclose()
        yield client.aclose


@case("Pages.__anext__")
@asynccontextmanager
async def _pages() -> AsyncGenerator[Act]:
    async with open_client(small_server()) as client:
        pages = client.list_tools()
        yield lambda: anext(pages)


@case("Pages.__anext__")
@asynccontextmanager
async def _buffered_pages() -> AsyncGenerator[Act]:
    async def fetch(_: str | None) -> Numbers:
        await trio.lowlevel.checkpoint()
        return Numbers(numbers=[1, 2])

    pages = Pages(fetch, numbers_of, what="numbers", max_pages=100)
    await anext(pages)
    yield lambda: anext(pages)


@case("PageIterator.__anext__")
@asynccontextmanager
async def _whole_pages() -> AsyncGenerator[Act]:
    async with open_client(small_server()) as client:
        pages = client.list_tools().pages()
        yield lambda: anext(pages)


@case("Events.__anext__")
@asynccontextmanager
async def _events() -> AsyncGenerator[Act]:
    server = small_server()
    async with open_client(server) as client, client.listen(tools_list_changed=True) as events:
        server.list_changed("tools")
        await trio.testing.wait_all_tasks_blocked()
        yield lambda: anext(events)


@case("Server.resource_updated")
@asynccontextmanager
async def _resource_updated() -> AsyncGenerator[Act]:
    await trio.lowlevel.checkpoint()
    yield lambda: small_server().resource_updated("x:y")


@asynccontextmanager
async def in_handler(*, with_progress: bool = True, revision: str = LEGACY) -> AsyncGenerator[Context[Any]]:
    """Be inside a handler whose request is waited for."""
    contexts: list[Context[Any]] = []
    seen: list[Progress] = []
    server: Server[None] = Server("context")
    ready, leave = trio.Event(), trio.Event()

    @server.tool
    async def stay(ctx: Context[Any]) -> str:
        contexts.append(ctx)
        ready.set()
        await leave.wait()
        return "left"

    async def roots(_: object) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"roots": []}

    async def ask() -> None:
        await client.call_tool("stay", on_progress=seen.append if with_progress else None)

    handlers = {"roots/list": roots}
    async with (
        open_client(
            server,
            revision=revision,
            request_handlers=handlers,
            capabilities=ClientCapabilities(roots=RootsCapability()),
            on_elicit=lambda _: "decline",
            elicit_modes=("form", "url"),
            on_sample=lambda _: "sampled",
        ) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(ask)
        await ready.wait()
        yield contexts[0]
        leave.set()


def context_case(
    name: str,
    act: Callable[[Context[Any]], Awaitable[object]],
    *,
    with_progress: bool = True,
    revision: str = LEGACY,
) -> None:
    @case(f"Context.{name}")
    @asynccontextmanager
    async def _setting() -> AsyncGenerator[Act]:
        async with in_handler(with_progress=with_progress, revision=revision) as context:
            yield lambda: act(context)


for _with_progress in (True, False):
    context_case("report_progress", lambda ctx: ctx.report_progress(1), with_progress=_with_progress)
context_case("log", lambda ctx: ctx.log("error", "heard"))
context_case("log", lambda ctx: ctx.log("debug", "not heard"))
context_case("debug", lambda ctx: ctx.debug("not heard"))
context_case("info", lambda ctx: ctx.info("heard"))
context_case("warning", lambda ctx: ctx.warning("heard"))
context_case("error", lambda ctx: ctx.error("heard"))
context_case("notify", lambda ctx: ctx.notify("x/y"))
context_case("begin_task", lambda ctx: ctx.begin_task())
for _level in ("notice", "critical", "alert", "emergency"):
    context_case(_level, lambda ctx, level=_level: getattr(ctx, level)("heard"))  # type: ignore[misc]
context_case("release_connection", lambda ctx: ctx.release_connection(), revision=NEWEST_LEGACY)
context_case("elicit", lambda ctx: ctx.elicit("?", bool), revision=NEWEST_LEGACY)
context_case("elicit_url", lambda ctx: ctx.elicit_url("?", "https://x.test"), revision=NEWEST_LEGACY)
context_case("elicitation_complete", lambda ctx: ctx.elicitation_complete("1"), revision=NEWEST_LEGACY)
context_case("sample", lambda ctx: ctx.sample("?", max_tokens=1), revision=NEWEST_LEGACY)
context_case("within_roots", lambda ctx: ctx.within_roots("/srv"), revision=NEWEST_LEGACY)
context_case("list_roots", lambda ctx: ctx.list_roots(), revision=NEWEST_LEGACY)
context_case("elicitation_complete", lambda ctx: ctx.elicitation_complete("1"))
context_case("request", lambda ctx: ctx.request("roots/list"))


def progress_case(name: str, act: Callable[[ProgressReporter], Awaitable[object]]) -> None:
    @case(f"ProgressReporter.{name}")
    @asynccontextmanager
    async def _setting() -> AsyncGenerator[Act]:
        async with in_handler() as context:
            yield lambda: act(context.progress(10))


progress_case("advance", lambda progress: progress.advance())
progress_case("advance", lambda progress: progress.advance(0))
progress_case("report", lambda progress: progress.report(1))
progress_case("__aenter__", lambda progress: progress.__aenter__())


def channel_cases(kind: str, make: Callable[[], tuple[Channel, Channel]]) -> None:
    @case(f"{kind}.send")
    @asynccontextmanager
    async def _send() -> AsyncGenerator[Act]:
        near, far = make()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(far.receive)
            yield lambda: near.send([Outgoing(b"{}")])
            await near.aclose()
            await far.aclose()

    @case(f"{kind}.receive")
    @asynccontextmanager
    async def _receive() -> AsyncGenerator[Act]:
        near, far = make()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(far.send, [Outgoing(b"{}"), Outgoing(b"{}")])
            yield near.receive
            await near.aclose()
            await far.aclose()

    @case(f"{kind}.aclose")
    @asynccontextmanager
    async def _aclose() -> AsyncGenerator[Act]:
        near, far = make()
        yield near.aclose
        await far.aclose()

    @case(f"{kind}.aclose")
    @asynccontextmanager
    async def _aclose_again() -> AsyncGenerator[Act]:
        near, far = make()
        await near.aclose()
        yield near.aclose
        await far.aclose()


def stream_pair() -> tuple[StreamChannel, StreamChannel]:
    near, far = trio.testing.memory_stream_pair()
    return (
        StreamChannel(near, near, max_message_bytes=1000, description="far"),
        StreamChannel(far, far, max_message_bytes=1000, description="near"),
    )


channel_cases("MemoryChannel", memory_channel_pair)
channel_cases("StreamChannel", stream_pair)


@case("Server.serve_channel")
@asynccontextmanager
async def _serve_channel() -> AsyncGenerator[Act]:
    near, far = memory_channel_pair()
    await near.aclose()
    yield lambda: small_server().serve_channel(far)


@case("Hosted.serve_one")
@asynccontextmanager
async def _serve_one() -> AsyncGenerator[Act]:
    near, far = memory_channel_pair()
    await near.aclose()
    server = small_server()
    async with server._hosted.open_service() as service:
        yield lambda: server._hosted.serve_one(service, far, Shutdown())


@case("Hosted.serve_beside")
@asynccontextmanager
async def _serve_beside() -> AsyncGenerator[Act]:
    near, far = memory_channel_pair()
    await near.aclose()
    server = small_server()
    async with server._hosted.open_service() as service:
        yield lambda: server._hosted.serve_beside(service.background, service, far, Shutdown())


@case("RunningServer.serve_channel")
@asynccontextmanager
async def _serve_shared() -> AsyncGenerator[Act]:
    near, far = memory_channel_pair()
    await near.aclose()
    async with small_server().open() as running:
        yield lambda: running.serve_channel(far)


@case("serve_http")
@asynccontextmanager
async def _serve_http() -> AsyncGenerator[Act]:
    shutdown = Shutdown()
    shutdown.drain()
    await trio.lowlevel.checkpoint()
    yield lambda: serve_http(small_server(), port=0, shutdown=shutdown)


@case("serve_http, lean")
@asynccontextmanager
async def _serve_http_lean() -> AsyncGenerator[Act]:
    shutdown = Shutdown()
    shutdown.drain()
    await trio.lowlevel.checkpoint()
    yield lambda: serve_http(small_server(), port=0, http="lean", shutdown=shutdown)


@case("serve_websocket")
@asynccontextmanager
async def _serve_websocket() -> AsyncGenerator[Act]:
    shutdown = Shutdown()
    shutdown.drain()
    await trio.lowlevel.checkpoint()
    yield lambda: serve_websocket(small_server(), port=0, shutdown=shutdown)


@case("serve_tcp")
@asynccontextmanager
async def _serve_tcp() -> AsyncGenerator[Act]:
    shutdown = Shutdown()
    shutdown.drain()
    await trio.lowlevel.checkpoint()
    yield lambda: serve_tcp(small_server(), port=0, shutdown=shutdown)


@case("serve_unix")
@asynccontextmanager
async def _serve_unix() -> AsyncGenerator[Act]:
    shutdown = Shutdown()
    shutdown.drain()
    await trio.lowlevel.checkpoint()
    with tempfile.TemporaryDirectory() as folder:
        yield lambda: serve_unix(small_server(), f"{folder}/socket", shutdown=shutdown)


def group_case(name: str, act: Callable[[ClientGroup], Awaitable[object]]) -> None:
    @case(f"ClientGroup.{name}")
    @asynccontextmanager
    async def _setting() -> AsyncGenerator[Act]:
        async with open_clients({"small": small_server()}) as group:
            await group.wait_ready()
            yield lambda: act(group)


group_case("call_tool", lambda group: group.call_tool("small_quick"))
group_case("complete", lambda group: group.complete("small", PromptReference(name="greeting"), "kind", "s"))
group_case("get_prompt", lambda group: group.get_prompt("small_greeting", {"kind": "short"}))
group_case("list_prompts", lambda group: group.list_prompts())
group_case("list_resource_templates", lambda group: group.list_resource_templates())
group_case("list_resources", lambda group: group.list_resources())
group_case("list_tools", lambda group: group.list_tools())
group_case("read_resource", lambda group: group.read_resource("small", "x:y"))
group_case("wait_ready", lambda group: group.wait_ready())
group_case("wait_settled", lambda group: group.wait_settled())


@case("ClientGroup.list_tools")
@asynccontextmanager
async def _nothing_to_list() -> AsyncGenerator[Act]:
    async with open_clients({}) as group:
        yield lambda: group.list_tools()


@case("StateChanges.__anext__")
@asynccontextmanager
async def _next_state() -> AsyncGenerator[Act]:
    async with open_clients({"small": small_server()}) as group:
        changes = group.changes()
        await group.wait_ready()
        yield lambda: anext(changes)


@case("GroupEvents.__anext__")
@asynccontextmanager
async def _next_event_of_a_group() -> AsyncGenerator[Act]:
    server = small_server()
    async with open_clients({"small": server}) as group:
        await group.wait_ready()
        async with group.listen(tools_list_changed=True) as events:
            server.remove_tool("quick")
            yield lambda: anext(events)


class NoCall(HttpCall):
    """A request for nothing, whose answer goes nowhere."""

    async def read_body(self) -> bytes:
        return b""

    async def send_head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        await trio.lowlevel.checkpoint()

    async def send(self, data: bytes) -> None:
        pass

    def cut(self) -> None:
        pass

    async def finish(self, data: bytes = b"") -> None:
        pass


@case("Endpoint.handle")
@asynccontextmanager
async def _handle() -> AsyncGenerator[Act]:
    async with open_endpoint(small_server()) as endpoint:
        call = NoCall(method="GET", path="/nowhere", headers=Headers([(b"host", b"localhost")]))
        yield lambda: endpoint.handle(call)


@case("Endpoint.drain")
@asynccontextmanager
async def _drain() -> AsyncGenerator[Act]:
    async with open_endpoint(small_server()) as endpoint:
        yield endpoint.drain


def store_cases(kind: str, opening: Callable[[], AbstractAsyncContextManager[EventStore]]) -> None:
    event: StoredEvent = (1, b"{}")
    acts: dict[str, Callable[[EventStore], Awaitable[object]]] = {
        "append": lambda store: store.append("s", 0, [event]),
        "read": lambda store: store.read("s", 0, 0, 10),
        "forget": lambda store: store.forget("s"),
    }
    for name, act in acts.items():

        @case(f"{kind}.{name}")
        @asynccontextmanager
        async def _setting(act: Callable[[EventStore], Awaitable[object]] = act) -> AsyncGenerator[Act]:
            async with opening() as store:
                yield lambda: act(store)


@asynccontextmanager
async def memory_store() -> AsyncGenerator[EventStore]:
    await trio.lowlevel.checkpoint()
    yield MemoryEventStore()


store_cases("MemoryEventStore", memory_store)
store_cases("SqliteEventStore", lambda: open_sqlite_event_store(":memory:"))


@case("serve_stdio")
@asynccontextmanager
async def _serve_stdio() -> AsyncGenerator[Act]:
    kept = os.dup(0), os.dup(1)
    reading, writing = os.pipe()
    os.close(writing)
    os.dup2(reading, 0)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield lambda: serve_stdio(small_server())
    finally:
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)
        for descriptor in (*kept, reading, nowhere):
            os.close(descriptor)


@case("run_client")
@asynccontextmanager
async def _run_client() -> AsyncGenerator[Act]:
    def reply(message: dict[str, Any]) -> object:
        if message.get("method") == "notifications/initialized":
            channel.hang_up()
            return None
        server = {"name": "brief", "version": "1"}
        return answer(message, {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": server})

    channel = ScriptedChannel(reply)
    yield lambda: run_client(channel, revision=LEGACY)


@case("AsgiClient.send")
@asynccontextmanager
async def _send() -> AsyncGenerator[Act]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    async with open_asgi_client(app) as client:
        yield lambda: client.send(HttpRequest(method="GET", target=parse_target("http://app/")))


for _name in ("wait_drain", "wait_abort"):

    @case(f"Shutdown.{_name}")
    @asynccontextmanager
    async def _shutdown(name: str = _name) -> AsyncGenerator[Act]:
        shutdown = Shutdown()
        shutdown.abort()
        yield getattr(shutdown, name)


@case("McpASGI.well_known")
@asynccontextmanager
async def _well_known() -> AsyncGenerator[Act]:
    app = McpASGI(small_server())
    scope = {"type": "http", "method": "GET", "path": "/.well-known/x", "headers": [(b"host", b"localhost")]}

    async def receive() -> dict[str, Any]:
        await trio.sleep_forever()
        raise AssertionError

    async def send(message: object) -> None:
        pass

    async with app.running():
        yield lambda: app.well_known(scope, receive, send)


@case("open_client")
@asynccontextmanager
async def _entering() -> AsyncGenerator[Act]:
    opening = open_client(small_server())
    yield opening.__aenter__
    await opening.__aexit__(None, None, None)


@case("open_client")
@asynccontextmanager
async def _leaving() -> AsyncGenerator[Act]:
    opening = open_client(small_server())
    await opening.__aenter__()
    yield lambda: opening.__aexit__(None, None, None)


def store_case(store: str, name: str, *arguments: str) -> None:
    @case(f"{store}.{name}")
    @asynccontextmanager
    async def _setting() -> AsyncGenerator[Act]:
        with tempfile.TemporaryDirectory() as directory, mock.patch.dict(os.environ, XDG_STATE_HOME=directory):
            made: dict[str, Callable[[], TokenStore]] = {
                "MemoryTokenStore": MemoryTokenStore,
                "FileTokenStore": lambda: FileTokenStore(os.path.join(directory, "tokens.json")),
                "KeyringTokenStore": KeyringTokenStore,
            }
            with mock.patch.dict(sys.modules, keyring=mock.Mock(get_password=mock.Mock(return_value=None))):
                kept = made[store]()
            await trio.lowlevel.checkpoint()
            yield lambda: getattr(kept, name)(*arguments)


for _store in ("MemoryTokenStore", "FileTokenStore", "KeyringTokenStore"):
    store_case(_store, "get", "key")
    store_case(_store, "set", "key", "value")
    store_case(_store, "delete", "key")


@case("StaticToken.headers_for")
@asynccontextmanager
async def _static_token() -> AsyncGenerator[Act]:
    await trio.lowlevel.checkpoint()
    yield lambda: StaticToken("x").headers_for(AuthRequest("GET", "http://localhost", b""))


@case("OAuth.log_out")
@asynccontextmanager
async def _nobody_is_logged_in() -> AsyncGenerator[Act]:
    await trio.lowlevel.checkpoint()
    yield lambda: OAuth().log_out("http://localhost/mcp")


@case("open_in_browser")
@asynccontextmanager
async def _browser() -> AsyncGenerator[Act]:
    await trio.lowlevel.checkpoint()
    with mock.patch("webbrowser.open"):
        yield lambda: open_in_browser("https://example.com")


def task_case(name: str, act: Callable[[ClientTask], Awaitable[object]], *, tool: str = "slow") -> None:
    @case(name)
    @asynccontextmanager
    async def _setting() -> AsyncGenerator[Act]:
        server = small_server()

        @server.tool(task="optional")
        async def slow(ctx: Context[Any]) -> bool:
            first = await ctx.begin_task()
            with trio.testing.assert_checkpoints():
                second = await ctx.begin_task()
            return first and second

        async with open_client(server) as client, client.start_task(tool) as task:
            yield lambda: act(task)


task_case("ClientTask.result", lambda task: task.result())
task_case("ClientTask.result", lambda task: task.result(), tool="quick")
task_case("ClientTask.cancel", lambda task: task.cancel())
task_case("ClientTask.cancel", lambda task: task.cancel(), tool="quick")
task_case("TaskUpdates.__anext__", lambda task: anext(task.updates()))


def task_store_case(name: str, *arguments: object) -> None:
    @case(f"MemoryTaskStore.{name}")
    @asynccontextmanager
    async def _setting() -> AsyncGenerator[Act]:
        await trio.lowlevel.checkpoint()
        yield lambda: getattr(MemoryTaskStore(), name)(*arguments)


_task = StoredTask(id="x", owner=None, created_at=0, updated_at=0, ttl=None, poll=1)
task_store_case("add", _task)
task_store_case("replace", _task)
task_store_case("find", "x")
task_store_case("remove", "x")


@asynccontextmanager
async def redis_task_store() -> AsyncGenerator[RedisTaskStore]:
    with running_redis() as redis:
        async with open_redis_task_store(redis.url) as store:
            yield store


def shared_task_store_case(name: str, *arguments: object) -> None:
    @case(f"SqliteTaskStore.{name}")
    @asynccontextmanager
    async def _setting() -> AsyncGenerator[Act]:
        async with open_sqlite_task_store(":memory:") as store:
            yield lambda: getattr(store, name)(*arguments)

    @case(f"RedisTaskStore.{name}")
    @asynccontextmanager
    async def _setting_in_redis() -> AsyncGenerator[Act]:
        async with redis_task_store() as store:
            yield lambda: getattr(store, name)(*arguments)


shared_task_store_case("add", _task)
shared_task_store_case("replace", _task)
shared_task_store_case("release", _task)
shared_task_store_case("find", "x")
shared_task_store_case("remove", "x")
shared_task_store_case("send", "x", {"cancel": True})
shared_task_store_case("receive")
shared_task_store_case("done", [1])
shared_task_store_case("versions", ["x"])
shared_task_store_case("claim", ["tool"])


async def checkpoints(tried: Case) -> None:
    async with tried.setting() as act:
        with trio.testing.assert_checkpoints():
            await act()


async def test_it_checkpoints(subtests: pytest.Subtests) -> None:
    """An `await` that never gives way starves everybody else, and cannot be cancelled."""
    for tried in CASES:
        if tried not in OF_PROCESSES:
            with subtests.test(tried.function):
                await checkpoints(tried)


OF_PROCESSES = [tried for tried in CASES if tried.function.startswith("RedisTaskStore.")]


@pytest.mark.parametrize("tried", OF_PROCESSES, ids=lambda tried: tried.function)
async def test_it_checkpoints_with_a_process(tried: Case) -> None:
    """The same."""
    await checkpoints(tried)


def public_async_functions() -> set[str]:
    """Return what this library offers to be awaited."""
    found: set[str] = set()
    for name in vars(trio_mcp)["__all__"]:
        value = getattr(trio_mcp, name)
        if inspect.iscoroutinefunction(value):
            found.add(name)
        # What others implement, and what they inherit of it, is theirs to keep.
        elif (
            inspect.isclass(value) and not getattr(value, "_is_protocol", False) and not inspect.isabstract(value)
        ):
            found |= {
                f"{name}.{member}"
                for home in value.__mro__
                if home.__module__.startswith("trio_mcp") and not inspect.isabstract(home)
                for member, function in vars(home).items()
                if inspect.iscoroutinefunction(function)
                and (member[0] != "_" or member in {"__anext__", "__aenter__"})
            }
    return found


def test_every_public_async_function_has_a_case() -> None:
    """One that is added here must be tried: this is the reminder."""
    assert public_async_functions() <= {tried.function for tried in CASES}
