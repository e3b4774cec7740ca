"""What a server serves beside the protocol: functions, an ASGI application, its health; and WebSockets with a token."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from http_raw import Raw, call_tool, open_raw
from inside_http import open_http_client, parse_target
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route

from trio_mcp import (
    Context,
    HttpCall,
    HttpRefused,
    HttpServerSettings,
    McpASGI,
    ResourceServer,
    Server,
    Shutdown,
    WebSocketServerParameters,
    open_asgi_client,
    open_client,
    open_endpoint,
    serve_http,
    serve_websocket,
)
from trio_mcp.testing import AuthorizationServer

HOSTS = pytest.mark.parametrize("http", ["hypercorn", "lean"])


def make_server() -> Server[Any]:
    server: Server[Any] = Server("beside")

    @server.tool
    async def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    return server


@asynccontextmanager
async def served(**options: Any) -> AsyncGenerator[Raw]:
    shutdown = Shutdown()
    async with trio.open_nursery() as nursery:
        serve = partial(serve_http, make_server(), port=0, shutdown=shutdown, **options)
        urls: tuple[str, ...] = await nursery.start(serve)
        async with open_http_client() as http:
            yield Raw(http, parse_target(urls[0]))
        shutdown.drain()


@HOSTS
async def test_functions_answer_at_their_paths(http: str, caplog: pytest.LogCaptureFixture) -> None:
    """Any method; `HttpRefused` is a refusal, and what else is raised costs that request alone."""

    async def version(call: HttpCall) -> None:
        if call.method not in {"GET", "HEAD"}:
            raise HttpRefused(405, "only GET", [("allow", "GET")])
        await call.respond(200, b"1.4", [(b"x-query", call.query.encode())], content_type="text/plain")

    async def echo(call: HttpCall) -> None:
        await call.respond(200, await call.read_body(), content_type="application/octet-stream")

    async def broken(call: HttpCall) -> None:
        raise RuntimeError("secret")

    async def silent(call: HttpCall) -> None:
        pass

    routes = {"/version": version, "/echo/": echo, "/broken": broken, "/silent": silent}
    settings = HttpServerSettings(max_body_bytes=1_000)
    async with served(http=http, routes=routes, settings=settings) as raw:
        found = await raw.send(method="GET", path="/version?a=b")
        assert (found.status, found.body, found.headers["x-query"]) == (200, b"1.4", "a=b")
        head = await raw.send(method="HEAD", path="/version")
        assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "3")
        assert (await raw.send(method="POST", path="/version")).status == 405
        assert (await raw.send(b"hello", {"Content-Type": "text/plain"}, path="/echo")).body == b"hello"
        assert (await raw.send(b"x" * 1_001, {"Content-Type": "text/plain"}, path="/echo")).status == 413
        for path in ("/broken", "/silent"):
            failed = await raw.send(method="GET", path=path)
            assert (failed.status, b"secret" in failed.body) == (500, False)
        assert (await raw.send(method="GET", path="/other")).status == 404
        assert (await raw.send(call_tool("whoami"))).status == 200
    assert sum(record.levelno == logging.ERROR for record in caplog.records) == 2


@HOSTS
async def test_an_application_answers_the_rest(http: str) -> None:
    """With its lifespan, streams, and what the request says."""
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        events.append("begin")
        yield
        events.append("end")

    async def hello(request: Request) -> PlainTextResponse:
        body = (await request.body()).decode()
        said = f"{request.method} {request.url.path} {request.query_params.get('q')} {body}"
        return PlainTextResponse(said, 201, {"x-host": request.headers["host"]})

    async def stream(request: Request) -> StreamingResponse:
        async def parts() -> AsyncGenerator[bytes]:  # noqa: ASYNC900 - Starlette takes one
            for _ in range(3):
                yield b"x" * 70_000

        return StreamingResponse(parts())

    app = Starlette(
        routes=[Route("/a b", hello, methods=["GET", "PUT"]), Route("/stream", stream)], lifespan=lifespan
    )
    async with served(http=http, routes=app) as raw:
        assert events == ["begin"]
        answer = await raw.send(b"body", method="PUT", path="/a%20b?q=%C3%A4")
        assert (answer.status, answer.body) == (201, "PUT /a b ä body".encode())
        assert answer.headers["x-host"] == raw.target.authority
        assert (await raw.send(method="GET", path="/stream")).body == b"x" * 210_000
        assert (await raw.send(method="GET", path="/nothing")).status == 404
        assert (await raw.send(call_tool("whoami"))).status == 200
    assert events == ["begin", "end"]


async def test_a_route_ends_when_its_client_goes() -> None:
    """As a handler does."""
    begun, ended = trio.Event(), trio.Event()

    async def wait(call: HttpCall) -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with served(routes={"/wait": wait}) as raw:
        with trio.fail_after(10):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(partial(raw.send, method="GET", path="/wait"))
                    await begun.wait()
                    scope.cancel()
            await ended.wait()


async def test_a_path_is_served_once() -> None:
    """Whoever gives one twice has made a mistake."""

    async def never(call: HttpCall) -> None:
        pass

    with pytest.raises(ValueError, match="'/mcp'"):
        async with open_endpoint(make_server(), routes={"/mcp/": never}):
            raise AssertionError
    auth = ResourceServer("https://mcp.test/mcp", authorization_servers=["https://login.test"])

    async def authenticate(call: HttpCall) -> str:
        return "ann"

    with pytest.raises(ValueError, match="not both"):
        async with open_endpoint(make_server(), auth=auth, authenticate=authenticate):
            raise AssertionError
    with pytest.raises(ValueError, match="stdio"):
        make_server().run("stdio", auth=auth)


@HOSTS
async def test_load_balancers_find_out_whether_it_is_ready(http: Any) -> None:
    """By whatever name they ask; `draining` on connections that are still open."""
    server, release = make_server(), trio.Event()

    @server.tool
    async def wait() -> str:
        await release.wait()
        return "done"

    settings = HttpServerSettings(health_path="/health")
    shutdown = Shutdown()
    async with trio.open_nursery() as nursery, open_http_client() as transport:
        serve = partial(serve_http, server, port=0, http=http, settings=settings, shutdown=shutdown)
        urls: tuple[str, ...] = await nursery.start(serve)
        raw = Raw(transport, parse_target(urls[0]))
        ready = await raw.send(method="GET", path="/health")
        assert (ready.status, ready.message) == (200, {"status": "ready"})
        by_name = attrs.evolve(raw.target, path="/health")
        assert by_name.host == "127.0.0.1"
        release.set()
        shutdown.drain()
    async with open_endpoint(server, settings) as endpoint:
        answers: list[tuple[int, bytes]] = []

        @attrs.define
        class Probe:
            async def respond(self, status: int, body: bytes, headers: object) -> None:
                answers.append((status, body))

        probe: Any = Probe()
        await endpoint._health(probe)
        await endpoint.drain()
        await endpoint._health(probe)
        assert answers == [(200, b'{"status":"ready"}'), (503, b'{"status":"draining"}')]


async def test_health_is_served_by_any_name() -> None:
    """Probes use addresses; nothing is given away."""
    async with open_raw(make_server(), HttpServerSettings(health_path="/health")) as raw:
        raw.target = attrs.evolve(raw.target, host="10.0.0.7")
        assert (await raw.send(method="GET", path="/health")).status == 200
        assert (await raw.send(method="GET", path="/mcp")).status == 421


# Authorization on these paths.


async def test_a_mounted_application_has_its_metadata_at_the_root() -> None:
    """RFC 9728, section 3.1: the path of the resource comes behind the well-known one."""
    authorization = AuthorizationServer(issuer="https://login.test")
    app = McpASGI(make_server(), auth=authorization.protect("https://mcp.test/tools/mcp"))

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        async with app.running():
            yield

    outer = Starlette(
        routes=[Mount("/.well-known", app=app.well_known), Mount("/tools", app=app)], lifespan=lifespan
    )
    async with open_asgi_client(outer) as transport:
        raw = Raw(transport, parse_target("http://localhost/tools/mcp"))
        refused = await raw.send(call_tool("whoami"))
        assert refused.status == 401
        url = "https://mcp.test/.well-known/oauth-protected-resource/tools/mcp"
        assert f'resource_metadata="{url}"' in refused.headers["www-authenticate"]
        for path in ("/tools/mcp", ""):
            found = await raw.send(method="GET", path=f"/.well-known/oauth-protected-resource{path}")
            assert found.message["resource"] == "https://mcp.test/tools/mcp"
        own = {"Authorization": f"Bearer {authorization.issue(resource='https://mcp.test/tools/mcp')}"}
        assert (await raw.send(call_tool("whoami"), own)).status == 200


@pytest.mark.parametrize("alone", [True, False])
async def test_a_websocket_is_opened_with_a_token_and_ends_with_it(alone: bool) -> None:
    """The handshake is a request like others; what was agreed on ends when the token expires."""
    authorization = AuthorizationServer(issuer="https://login.test")
    resource = "https://mcp.test/mcp"
    auth = authorization.protect(resource, leeway=0.0)
    options: dict[str, Any] = {"port": 0, "auth": auth}
    if not alone:
        options |= {"settings": HttpServerSettings(websocket=True), "http": "lean"}
    async with trio.open_nursery() as nursery:
        serve = partial(serve_websocket if alone else serve_http, make_server(), **options)
        urls: tuple[str, ...] = await nursery.start(serve)
        url = urls[0].replace("http", "ws", 1)

        def parameters(token: str) -> WebSocketServerParameters:
            return WebSocketServerParameters(url, headers={"Authorization": f"Bearer {token}"})

        with pytest.raises(Exception, match=r"not authorized|401"):
            async with open_client(url):
                raise AssertionError
        token = authorization.issue(resource=resource, scopes={"a"}, lifetime=2)
        with trio.fail_after(30):
            async with open_client(parameters(token)) as client:
                answer: Any = (await client.call_tool("whoami")).content
                assert answer[0].text == "https://login.test ann"
                with pytest.raises(Exception, match=r"."):
                    while True:
                        await client.ping()
                        await trio.sleep(0.2)
        nursery.cancel_scope.cancel()
