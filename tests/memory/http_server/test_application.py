"""The endpoint as an ASGI application among others, and what web pages may do with it. No sockets."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from http_raw import Raw, call_tool, open_raw
from inside_core import request_headers
from inside_http import parse_target
from raw import initialize

from trio_mcp import (
    Cors,
    HttpRefused,
    HttpServerParameters,
    HttpServerSettings,
    McpASGI,
    Revision,
    Server,
    open_asgi_client,
    open_client,
)

ORIGIN = "http://localhost:6274"


def make_server(**options: Any) -> Server[Any]:
    server: Server[Any] = Server("app", **options)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


async def test_pages_may_read_what_they_are_allowed_to() -> None:
    """One option: preflights are answered, and what scripts need is exposed; for allowed origins alone."""
    async with open_raw(make_server(), HttpServerSettings(cors=True)) as raw:
        asked = {
            "Origin": ORIGIN,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type, mcp-param-region, x-other",
        }
        preflight = await raw.send(None, asked, method="OPTIONS")
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-origin"] == ORIGIN
        assert preflight.headers["access-control-allow-methods"] == "POST, GET, DELETE"
        allowed = preflight.headers["access-control-allow-headers"].lower()
        assert all(
            name in allowed for name in ("mcp-session-id", "mcp-method", "mcp-param-region", "last-event-id")
        )
        assert "x-other" not in allowed
        answer = await raw.send(initialize("2025-11-25"), {"Origin": ORIGIN})
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert "Mcp-Session-Id" in answer.headers["access-control-expose-headers"]
        assert answer.headers["vary"] == "Origin"
        evil = await raw.send(None, {**asked, "Origin": "http://evil.example.com"}, method="OPTIONS")
        assert (evil.status, "access-control-allow-origin" in evil.headers) == (403, False)


async def test_pages_of_ones_own_send_and_read_fields_of_ones_own() -> None:
    """`Cors` lets its pages in, and only them read; the protocol's fields stay."""
    page, other = "https://app.example.com", ORIGIN
    cors = Cors(origins={page}, request_headers=["X-Tenant"], response_headers=["X-Trace", "X-Cost"])
    async with open_raw(make_server(), HttpServerSettings(cors=cors)) as raw:
        preflight = await raw.send(
            None, {"Origin": page, "Access-Control-Request-Method": "POST"}, method="OPTIONS"
        )
        assert preflight.headers["access-control-allow-origin"] == page
        assert preflight.headers["access-control-allow-headers"].endswith("Mcp-Session-Id, X-Tenant")
        answer = await raw.send(call_tool("add", a=1, b=1), {"Origin": page})
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, page)
        assert answer.headers["access-control-expose-headers"].endswith("Retry-After, X-Cost, X-Trace")
        unread = await raw.send(call_tool("add", a=1, b=1), {"Origin": other})
        assert (unread.status, "access-control-allow-origin" in unread.headers) == (200, False)
        assert unread.headers["vary"] == "Origin"
        assert (await raw.send(call_tool("add", a=1, b=1), {"Origin": f"{page}.evil.example"})).status == 403
    every = HttpServerSettings(cors=Cors(request_headers={"X-Tenant"}), allowed_origins=None)
    async with open_raw(make_server(), every) as raw:
        answer = await raw.send(call_tool("add", a=1, b=1), {"Origin": "https://any.example"})
        assert answer.headers["access-control-allow-origin"] == "https://any.example"


def test_cors_takes_what_can_be_one(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, type[Exception], str]] = [
        (lambda: HttpServerSettings(cors="yes"), TypeError, "cors"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (lambda: HttpServerSettings(cors=1), TypeError, "cors"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (lambda: Cors(origins=["app.example.com"]), ValueError, "origin"),
        (lambda: Cors(origins="https://app.example.com"), TypeError, "Cors"),
        (lambda: Cors(request_headers="X-Tenant"), TypeError, "Cors"),
        (lambda: Cors(request_headers=["X-Tenant\r\nX: y"]), ValueError, "request_headers"),
        (lambda: Cors(response_headers=["*"]), ValueError, "response_headers"),
        (lambda: Cors(response_headers=[7]), TypeError, "response_headers"),  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    ]
    for number, (make, error, named) in enumerate(rows):
        with subtests.test(number=number), pytest.raises(error, match=named):
            make()


async def test_allow_names_what_is_allowed(subtests: pytest.Subtests) -> None:
    """Without sessions there are no streams to open and nothing to end; a preflight says the same."""
    modern = [Revision.V2026_07_28]
    rows: list[tuple[HttpServerSettings, Server[Any], str, str, str]] = [
        (HttpServerSettings(cors=True), make_server(), "PUT", "/mcp", "POST, GET, DELETE"),
        (HttpServerSettings(cors=True, json_only=True), make_server(), "PUT", "/mcp", "POST, GET, DELETE"),
        (HttpServerSettings(cors=True, stateless=True), make_server(), "PUT", "/mcp", "POST"),
        (HttpServerSettings(cors=True, stateless=True), make_server(), "GET", "/mcp", "POST"),
        (
            HttpServerSettings(cors=True, stateless=True, websocket=True),
            make_server(),
            "PUT",
            "/mcp",
            "POST, GET",
        ),
        (HttpServerSettings(cors=True), make_server(revisions=modern), "PUT", "/mcp", "POST"),
        (HttpServerSettings(cors=True), make_server(revisions=modern), "DELETE", "/mcp", "POST"),
        (HttpServerSettings(cors=True, sse=True), make_server(), "POST", "/sse", "GET"),
        (HttpServerSettings(cors=True, sse=True, stateless=True), make_server(), "POST", "/sse", "GET"),
        (HttpServerSettings(cors=True, sse=True), make_server(), "GET", "/messages", "POST"),
    ]
    for number, (settings, server, method, path, allowed) in enumerate(rows):
        with subtests.test(number=number):
            async with open_raw(server, settings) as raw:
                answer = await raw.send(call_tool("add", a=1, b=1), method=method, path=path)
                assert (answer.status, answer.headers["allow"]) == (405, allowed)
                preflight = await raw.send(None, {"Origin": ORIGIN}, method="OPTIONS", path=path)
                if method != "GET":
                    assert preflight.headers["access-control-allow-methods"] == allowed


async def test_pages_may_read_nothing_by_default() -> None:
    """Not even those of this machine."""
    async with open_raw(make_server()) as raw:
        assert (await raw.send(None, {"Origin": ORIGIN}, method="OPTIONS")).status == 405
        answer = await raw.send(call_tool("add", a=1, b=1), {"Origin": ORIGIN})
        assert (answer.status, "access-control-allow-origin" in answer.headers) == (200, False)


async def test_where_the_endpoint_is(subtests: pytest.Subtests) -> None:
    """And nothing anywhere else."""
    rows: list[tuple[str, str | None, int]] = [
        ("POST", "/other", 404),
        ("PUT", None, 405),
        ("POST", "/mcp/", 200),
        ("POST", "/mcp?x=1", 200),
        ("GET", "/", 404),
    ]
    async with open_raw(make_server()) as raw:
        for method, path, status in rows:
            with subtests.test(method=method, path=path, status=status):
                answer = await raw.send(call_tool("add", a=1, b=1), method=method, path=path)
                assert answer.status == status
                if status == 405:
                    assert answer.headers["allow"] == "POST, GET, DELETE"


async def test_who_asks_is_found_out_before_anything_is_read() -> None:
    """A refusal has the status and the header fields that it is given; what fails is no way in."""

    async def who(call: Any) -> str | None:
        match call.headers.get("authorization"):
            case "Bearer good":
                return "ann"
            case "Bearer odd":
                raise RuntimeError("secret")
            case _:
                raise HttpRefused(401, "who are you?", [(b"www-authenticate", b'Bearer realm="x"')])

    server = make_server()

    @server.request_handler("x/who")
    async def whoami(params: Any, ctx: Any) -> Any:
        return {"who": ctx.principal}

    message = {**call_tool("add", a=1, b=1), "method": "x/who"}
    async with open_raw(server, authenticate=who) as raw:
        refused = await raw.send(b"not even JSON", {"Content-Type": "application/json"})
        assert (refused.status, refused.headers["www-authenticate"]) == (401, 'Bearer realm="x"')
        odd = await raw.send(message, {"Authorization": "Bearer odd"})
        assert (odd.status, b"secret" in odd.body) == (500, False)
        good = await raw.send(message, {"Authorization": "Bearer good"})
        assert good.message["result"]["who"] == "ann"


async def test_limits_count_whom_a_trusted_proxy_speaks_for() -> None:
    """One client behind a proxy has its limits, and another its own; what a client itself writes is no way around."""

    async def ask(raw: Raw, forwarded: str) -> int:
        return (await raw.send(call_tool("add", a=1, b=1), {"X-Forwarded-For": forwarded})).status

    settings = HttpServerSettings(rate="1/1000 seconds", trusted_proxies={"127.0.0.1"})
    async with open_raw(make_server(), settings) as raw:
        assert await ask(raw, "192.0.2.1") == 200
        assert await ask(raw, "192.0.2.1") == 429
        assert await ask(raw, "192.0.2.2, 192.0.2.1") == 429
        assert await ask(raw, "192.0.2.2") == 200
        assert await ask(raw, "2001:db8::1") == 200
        assert [await ask(raw, f"2001:db8::{n}") for n in range(2, 5)] == [429] * 3, "one network is one client"
        assert await ask(raw, "2001:db8:0:1::1") == 200
        assert await ask(raw, "::ffff:192.0.2.2") == 429
    async with open_raw(make_server(), attrs.evolve(settings, trusted_proxies=())) as raw:
        assert await ask(raw, "192.0.2.1") == 200
        assert await ask(raw, "192.0.2.2") == 429


async def test_it_is_mounted_under_a_path() -> None:
    """With a host that cuts the path, and with one that does not; HTTP+SSE names its endpoint with it."""
    app = McpASGI(make_server(), HttpServerSettings(sse=True))
    cuts = False

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, "root_path": "/tools"}
            if cuts:
                scope["path"] = scope["path"].removeprefix("/tools")
        await app(scope, receive, send)

    async with open_asgi_client(outer) as transport:
        raw = Raw(transport, parse_target("http://localhost/tools/mcp"))
        assert (await raw.send(call_tool("add", a=1, b=1))).status == 200
        cuts = True
        assert (await raw.send(call_tool("add", a=1, b=1))).status == 200
        async with raw.open(None, {"Accept": "text/event-stream"}, method="GET", path="/tools/sse") as response:
            assert b"data: /tools/messages?session_id=" in await response.receive_some()


async def test_it_runs_in_the_lifespan_of_another() -> None:
    """For frameworks that hand the lifespan on to nobody."""
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncGenerator[str]:
        events.append("began")
        yield "state"
        events.append("ended")

    app = McpASGI(make_server(lifespan=lifespan))

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise NotImplementedError
        await app(scope, receive, send)

    async with open_asgi_client(outer) as transport:
        raw = Raw(transport, parse_target("http://localhost/mcp"))
        assert (await raw.send(call_tool("add", a=1, b=1))).status == 500
        async with app.running():
            assert (await raw.send(call_tool("add", a=1, b=1))).status == 200
            with pytest.raises(RuntimeError, match="runs already"):
                async with app.running():
                    pass
        assert events == ["began", "ended"]


async def test_clients_of_one_application_share_it() -> None:
    """Two that are given the application itself would start it twice; the text says what to give them."""
    app = McpASGI(make_server())
    url = "http://localhost/mcp"
    with pytest.raises(
        RuntimeError, match=r"runs already; clients of one application share what open_asgi_client"
    ):
        async with (
            open_client(HttpServerParameters(url, app=app)),
            open_client(HttpServerParameters(url, app=app)),
        ):
            pass
    async with (
        open_asgi_client(app) as shared,
        open_client(HttpServerParameters(url, app=shared)) as one,
        open_client(HttpServerParameters(url, app=shared)) as other,
    ):
        assert [tool.name for tool in await one.list_tools()] == [tool.name for tool in await other.list_tools()]


async def test_a_lifespan_that_fails_is_reported_to_the_host() -> None:
    """Which then does not serve."""

    @asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncGenerator[None]:
        if server.info.name:
            raise OSError("no database")
        yield

    with pytest.raises(RuntimeError, match="did not start"):
        async with open_asgi_client(McpASGI(make_server(lifespan=lifespan))):
            pass


async def test_a_web_socket_is_closed() -> None:
    """It is not served unless that is wanted."""
    sent: list[Any] = []

    async def receive() -> Any:
        await trio.lowlevel.checkpoint()
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    app = McpASGI(make_server())
    async with app.running():
        await app({"type": "websocket"}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_settings_are_checked(subtests: pytest.Subtests) -> None:
    """When they are made, and the message names what is wrong."""
    rows: list[tuple[dict[str, Any], str]] = [
        ({"path": "mcp"}, "path"),
        ({"max_body_bytes": 0}, "max_body_bytes"),
        ({"message_timeout": 0}, "message_timeout"),
        ({"keep_alive_interval": float("nan")}, "keep_alive_interval"),
        ({"allowed_hosts": ["http://x"]}, "allowed host"),
        ({"allowed_origins": ["example.com"]}, "allowed origin"),
        ({"sse": "sse"}, "sse"),
        ({"sse": "/mcp"}, "path and sse must differ"),
        ({"sse": "/mcp/"}, "path and sse must differ"),
        ({"sse": True, "path": "/messages"}, "'/messages', where messages are posted"),
        ({"sse": "/a/messages"}, "'/a/messages', where messages are posted"),
        ({"rate": "10"}, "rate"),
        ({"trusted_proxies": ["proxy.example.com"]}, "trusted proxy"),
        ({"proxy_headers": "x-real-ip"}, "proxy_headers"),
    ]
    for options, named in rows:
        with subtests.test(options=options, named=named), pytest.raises(ValueError, match=named):
            HttpServerSettings(**options)


def test_settings_have_types(subtests: pytest.Subtests) -> None:
    """A string of hosts would be a set of letters."""
    rows: list[dict[str, Any]] = [
        {"max_sessions": True},
        {"sse": 1},
        {"rate": 10},
        {"message_timeout": "1"},
        {"allowed_hosts": "example.com"},
        {"trusted_proxies": "127.0.0.1"},
    ]
    for options in rows:
        with subtests.test(options=options), pytest.raises(TypeError):
            HttpServerSettings(**options)


class Host:
    """An ASGI server by hand: one request, whose messages come when the test says so.

    Args:
        message: What is posted; a call of `hang` by default, with `arguments`.
        legacy: Further header fields of a message of the legacy era.

    Attributes:
        sent: What the application has sent.
        is_asked: Whether it waits for a message.
    """

    def __init__(
        self, message: dict[str, Any] | None = None, legacy: dict[bytes, bytes] | None = None, **arguments: Any
    ) -> None:
        call = call_tool("hang", **arguments)
        self.body = json.dumps(call if message is None else message).encode()
        fields = request_headers("tools/call", call["params"], ()) if message is None else (legacy or {}).items()
        self.scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/mcp",
            "headers": [
                (b"host", b"localhost"),
                (b"content-type", b"application/json"),
                (b"accept", b"application/json, text/event-stream"),
                (b"content-length", b"%d" % len(self.body)),
                *((name.lower(), value) for name, value in fields),
            ],
        }
        self.sent: list[Any] = []
        self.is_asked = False
        self._say, self._said = trio.open_memory_channel[dict[str, Any]](10)

    def bring(self, body: bytes | None, *, more: bool = False) -> None:
        """Bring a piece of the body, or the news that the client has gone."""
        left = {"type": "http.disconnect"}
        self._say.send_nowait(left if body is None else {"type": "http.request", "body": body, "more_body": more})

    async def receive(self) -> dict[str, Any]:
        assert not self.is_asked, "two tasks receive"
        self.is_asked = True
        try:
            return await self._said.receive()
        finally:
            self.is_asked = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(message)


@pytest.mark.parametrize("when", ["while it is authenticated", "in its body", "while it is served"])
async def test_a_host_says_when_a_client_leaves(when: str, autojump_clock: trio.testing.MockClock) -> None:
    """Wherever its request is then; and one task at a time receives the messages of the host."""
    log: list[str] = []
    server = make_server()

    @server.tool
    async def hang() -> None:
        log.append("began")
        try:
            await trio.sleep(1_000)
        finally:
            log.append("ended")

    async def who(call: Any) -> str:
        if when == "while it is authenticated":
            try:
                await trio.sleep(1_000)
            finally:
                log.append("nobody any more")
        return "ann"

    app, host = McpASGI(server, authenticate=who), Host()
    async with app.running(), trio.open_nursery() as nursery:
        nursery.start_soon(app, host.scope, host.receive, host.send)
        await trio.testing.wait_all_tasks_blocked()
        assert host.is_asked, "whoever is served, somebody listens whether the client leaves"
        if when != "while it is authenticated":
            host.bring(host.body[:10], more=True)
            await trio.testing.wait_all_tasks_blocked()
        if when == "while it is served":
            host.bring(host.body[10:])
            await trio.testing.wait_all_tasks_blocked()
            assert log == ["began"]
            assert host.is_asked
        began_at = trio.current_time()
        host.bring(None)
        await trio.testing.wait_all_tasks_blocked()
        assert trio.current_time() == began_at
        assert (
            log
            == {
                "while it is authenticated": ["nobody any more"],
                "in its body": [],
                "while it is served": ["began", "ended"],
            }[when]
        )
    assert not host.is_asked


async def test_a_body_that_does_not_come_is_refused_under_any_host(
    autojump_clock: trio.testing.MockClock,
) -> None:
    app, host = McpASGI(make_server(), HttpServerSettings(message_timeout=7)), Host()
    async with app.running():
        host.bring(host.body[:10], more=True)
        await app(host.scope, host.receive, host.send)
    assert trio.current_time() == pytest.approx(7)
    assert host.sent[0]["status"] == 408
    assert not host.is_asked


async def test_a_request_that_is_answered_at_once_needs_no_task_of_its_own() -> None:
    """Under a host that is not ours each would be started, and cancelled, for nothing."""
    started: list[str] = []

    class Tasks(trio.abc.Instrument):
        def task_spawned(self, task: trio.lowlevel.Task) -> None:
            started.append(task.name)

    server = make_server()

    @server.tool
    async def hang() -> str:
        return "not at all"

    app, host = McpASGI(server), Host()
    async with app.running():
        host.bring(host.body)
        trio.lowlevel.add_instrument(tasks := Tasks())
        await app(host.scope, host.receive, host.send)
        trio.lowlevel.remove_instrument(tasks)
    assert host.sent[0]["status"] == 200
    assert b"not at all" in host.sent[-1]["body"]
    assert started == []


async def test_a_call_in_a_session_needs_no_task_that_receives() -> None:
    """Its session takes it in a pass of the event loop or two, and answers at once."""
    started: list[str] = []

    class Tasks(trio.abc.Instrument):
        def task_spawned(self, task: trio.lowlevel.Task) -> None:
            started.append(task.name)

    app, tasks = McpASGI(make_server()), Tasks()
    async with app.running():
        host = Host(initialize("2025-11-25"))
        host.bring(host.body)
        await app(host.scope, host.receive, host.send)
        (session,) = (value for name, value in host.sent[0]["headers"] if name.lower() == b"mcp-session-id")
        for id in range(20):  # tasks run in any order
            params = {"name": "add", "arguments": {"a": 1, "b": 2}}
            call = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
            host = Host(call, {b"mcp-session-id": session, b"mcp-protocol-version": b"2025-11-25"})
            host.bring(host.body)
            trio.lowlevel.add_instrument(tasks)
            await app(host.scope, host.receive, host.send)
            trio.lowlevel.remove_instrument(tasks)
            assert host.sent[0]["status"] == 200
    assert not [name for name in started if name.startswith("receiving")]


async def test_a_handler_that_waits_for_nothing_is_cancelled_when_its_client_leaves() -> None:
    """It computes for long, and lets others run in between."""
    log: list[str] = []
    server = make_server()

    @server.tool
    async def hang() -> None:
        log.append("began")
        try:
            while True:
                await trio.lowlevel.checkpoint()
        finally:
            log.append("ended")

    app, host = McpASGI(server), Host()
    with trio.fail_after(10):
        async with app.running(), trio.open_nursery() as nursery:
            host.bring(host.body)
            nursery.start_soon(app, host.scope, host.receive, host.send)
            while not log:
                await trio.lowlevel.checkpoint()
            host.bring(None)
    assert log == ["began", "ended"]


class HostExit(BaseException):
    """What a host raises that is no `Exception`, as cancellations of other frameworks are."""


@pytest.mark.parametrize("failure", [RuntimeError, HostExit])
async def test_a_host_that_cannot_receive_costs_one_request(
    failure: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """Its client is gone, as when it cannot be sent to; requests beside it are served."""
    log: list[str] = []
    server = make_server()

    @server.tool
    async def hang(word: str = "") -> str:
        try:
            log.append("began")
            await trio.sleep(0 if word else math.inf)
        finally:
            log.append("ended")
        return word

    app, host, other = McpASGI(server), Host(), Host(word="hello")

    async def fail() -> dict[str, Any]:
        if "began" not in log:
            return await host.receive()
        raise failure("a host that has failed")

    with trio.fail_after(10):
        async with app.running():
            host.bring(host.body)
            await app(host.scope, fail, host.send)
            assert log == ["began", "ended"]
            assert host.sent == []
            other.bring(other.body)
            await app(other.scope, other.receive, other.send)
            assert other.sent[0]["status"] == 200
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [failure]


@pytest.mark.parametrize("when", ["in its body", "before its body is whole", "while it is served"])
async def test_a_request_ends_when_its_application_is_cancelled(
    when: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The host goes on, and nobody receives any more: a client that leaves would not be noticed."""
    log: list[str] = []
    server = make_server()

    @server.tool
    async def hang() -> None:
        log.append("began")
        try:
            await trio.sleep(1_000)
        finally:
            log.append("ended")

    async def who(call: Any) -> str:
        if when == "in its body":
            await trio.sleep(1)  # so another task receives
        return "ann"

    app, host = McpASGI(server, authenticate=who), Host()
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with app.running():
                nursery.start_soon(app, host.scope, host.receive, host.send)
                host.bring(host.body[:10], more=True)
                await trio.sleep(2)
                if when == "while it is served":
                    host.bring(host.body[10:])
                    await trio.sleep(1)
                scope.cancel()
                await trio.lowlevel.checkpoint()
        if when == "before its body is whole":
            host.bring(host.body[10:])
        ended_at = trio.current_time()
    assert trio.current_time() - ended_at < 5
    assert log in ([], ["began", "ended"])
    assert not host.is_asked
