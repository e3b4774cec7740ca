"""What a server serves beside the protocol: functions, an ASGI application, its health; and WebSockets with a token."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import product
from typing import Any

import attrs
import pytest
import trio
from http_raw import Raw, call_tool
from inside_base import repetitions
from inside_http import open_http_client, parse_target
from patient_clock import pass_time
from shared.http_server_routes import make_server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from trio_mcp import (
    ConnectionLost,
    HttpCall,
    HttpRefused,
    HttpServerSettings,
    Shutdown,
    WebSocketServerParameters,
    open_client,
    open_endpoint,
    serve_http,
    serve_websocket,
)
from trio_mcp.testing import AuthorizationServer

HOSTS = pytest.mark.parametrize("http", ["hypercorn", "lean"])


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


@HOSTS
async def test_an_answer_without_a_body_ends_with_its_head(http: str, subtests: pytest.Subtests) -> None:
    """RFC 9112, section 6.3: what comes behind it would be read as the next answer, perhaps to another client."""

    async def whole(call: HttpCall) -> None:
        await call.respond(int(call.query), b"a body")

    async def parts(call: HttpCall) -> None:
        await call.start(int(call.query), [])
        if call.method == "GET":
            await call.send(b"a ")
        await call.finish(b"body")

    async def application(request: Request) -> StreamingResponse:
        async def body() -> AsyncGenerator[bytes]:  # noqa: ASYNC900 - Starlette takes one
            yield b"a "
            yield b"body"

        return StreamingResponse(body(), int(request.url.query))

    kinds: list[Any] = [{"/x": whole}, {"/x": parts}, Starlette(routes=[Route("/x", application)])]
    requests = ("HEAD /x?200", "HEAD /x?204", "HEAD /x?304", "GET /x?204", "GET /x?304")
    for routes in kinds:
        async with served(http=http, routes=routes) as raw:
            for version, request in product(("1.1", "1.0"), requests):
                with subtests.test(routes=routes, version=version, request=request):
                    last = ["GET /x?200 HTTP/1.1\r\nConnection: close"] if version == "1.1" else []
                    received = await said_to(raw.target.port, f"{request} HTTP/{version}", *last)
                    head, _, rest = received.partition(b"\r\n\r\n")
                    assert head.startswith(b"HTTP/1.1 " + request[-3:].encode())
                    assert rest.startswith(b"HTTP/1.1 200 ") if last else rest == b"", received
                    if "HEAD" not in request:
                        assert b"content-length" not in head
                        assert b"transfer-encoding" not in head


@HOSTS
@pytest.mark.parametrize("kind", ["whole", "begun", "declared"])
async def test_a_request_has_one_answer_with_one_length(http: str, kind: str) -> None:
    """What a route sends behind its answer is not read as the next one (RFC 9112, sections 6.2 and 9.2)."""

    async def answer(call: HttpCall) -> None:
        if kind == "whole":
            await call.respond(200, b"one")
        elif kind == "begun":
            await call.start(200, [])
            await call.send(b"one")
        else:
            await call.start(200, [(b"Content-Length", b"3")])
            await call.send(b"o")
            await call.finish(b"ne")
        await call.respond(500, b"two")

    received = b""
    async with (
        served(http=http, routes={"/x": answer}) as raw,
        await trio.open_tcp_stream("127.0.0.1", raw.target.port) as stream,
    ):
        ahead = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"
        await stream.send_all(ahead + b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while part := await stream.receive_some():
            received += part
    assert b"two" not in received
    statuses = [int(each[:3]) for each in received.split(b"HTTP/1.1 ")[1:]]
    if kind == "begun":
        assert statuses == [200]  # it stays incomplete, and the connection ends
    else:
        assert statuses == [200, 404]
        assert b"transfer-encoding" not in received
        assert received.lower().count(b"content-length") == 2


async def said_to(port: int, *requests: str) -> bytes:
    """Send requests at once, and return all that comes until the connection is closed."""
    received = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all("".join(f"{each}\r\nHost: localhost\r\n\r\n" for each in requests).encode())
        while part := await stream.receive_some():
            received += part
    return received


def forget(caplog: pytest.LogCaptureFixture) -> None:
    """Let what comes be logged as if for the first time."""
    repetitions.forget()
    caplog.clear()


UNSENDABLE: dict[str, tuple[Any, Any]] = {
    "beyond Latin-1": ("x-shelf", "\u0411"),
    "a line end": (b"x-shelf", b"a\r\nset-cookie: b"),
    "a bare line feed": (b"x-shelf", b"a\nb"),
    "NUL": (b"x-shelf", b"a\0"),
    "a name with a blank": (b"x-shelf a", b"a"),
    "a name with a colon": (b"x-shelf:", b"a"),
    "a number": (b"x-shelf", 5),
    "a coding": (b"Transfer-Encoding", b"chunked"),
    "a length that is none": (b"Content-Length", b"-1"),
}


@HOSTS
async def test_a_header_field_that_cannot_be_sent_is_a_failure_of_the_route(
    http: str, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    """The client gets 500, and the log the name of the field; the connection is used again."""
    fields = list(UNSENDABLE.values())

    async def answer(call: HttpCall) -> None:
        where, _, number = call.query.partition("=")
        field = fields[int(number)]
        if where == "start":
            await call.start(200, [field])
            await call.finish(b"never")
        elif where == "respond":
            await call.respond(200, b"never", [field])
        else:
            call.answer_headers.append(field)
            await call.respond(200, b"never")

    async with served(http=http, routes={"/x": answer}) as raw:
        for where, (number, (kind, (name, _))) in product(
            ("respond", "start", "answer_headers"), enumerate(UNSENDABLE.items())
        ):
            with subtests.test(where=where, kind=kind):
                forget(caplog)
                lines = f"GET /x?{where}={number} HTTP/1.1", "GET /y HTTP/1.1\r\nConnection: close"
                received = await said_to(raw.target.port, *lines)
                assert [int(each[:3]) for each in received.split(b"HTTP/1.1 ")[1:]] == [500, 404]
                assert b"never" not in received
                assert b"cookie" not in received
                text = name if isinstance(name, str) else name.decode()
                assert f"{text!r} cannot be sent" in caplog.text


@HOSTS
async def test_an_answer_has_a_status_that_ends_it(http: str, subtests: pytest.Subtests) -> None:
    """A client waits for another answer behind one that is not the last."""

    async def answer(call: HttpCall) -> None:
        await call.start(int(call.query), [])
        await call.finish()

    async def whole(call: HttpCall) -> None:
        await call.respond(int(call.query), b"never")

    async with served(http=http, routes={"/x": answer, "/whole": whole}) as raw:
        for path, status in product(("/x", "/whole"), (99, 100, 101, 1000)):
            with subtests.test(path=path, status=status):
                assert (await raw.send(method="GET", path=f"{path}?{status}")).status == 500


@HOSTS
async def test_a_content_type_that_cannot_be_sent_is_a_failure_of_the_route(
    http: str, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    """As every other field: a route may have it from anywhere. The connection is used again."""
    kinds = ("text/plain\r\nx-evil: 1", "text/plain\0", "text/plain; name=\u0141")

    async def answer(call: HttpCall) -> None:
        await call.respond(200, b"never", content_type=kinds[int(call.query)])

    async with served(http=http, routes={"/x": answer}) as raw:
        for number, kind in enumerate(kinds):
            with subtests.test(kind=kind):
                forget(caplog)
                lines = f"GET /x?{number} HTTP/1.1", "GET /y HTTP/1.1\r\nConnection: close"
                received = await said_to(raw.target.port, *lines)
                assert [int(each[:3]) for each in received.split(b"HTTP/1.1 ")[1:]] == [500, 404]
                assert b"evil" not in received
                assert "'content-type' cannot be sent" in caplog.text


@HOSTS
async def test_parts_that_are_sent_without_waiting_are_no_more_than_others(
    http: str, subtests: pytest.Subtests
) -> None:
    """What is sent where there is no body, or behind a last chunk, would be read as the next answer."""

    async def answer(call: HttpCall) -> None:
        await call.start(int(call.query), [])
        for part in (b"some", b"", b"more"):
            if not call.sends_now:
                await call.send(part)
            elif not call.send_nowait(part):
                await call.send_rest()
        await call.finish()

    async with served(http=http, routes={"/x": answer}) as raw:
        for request in ("GET /x?200", "HEAD /x?200", "GET /x?204", "HEAD /x?204"):
            with subtests.test(request):
                lines = f"{request} HTTP/1.1", "GET /y HTTP/1.1\r\nConnection: close"
                first, second = (await said_to(raw.target.port, *lines)).split(b"HTTP/1.1 ")[1:]
                assert (first[:3], second[:3]) == (request[-3:].encode(), b"404")
                body = b"4\r\nsome\r\n4\r\nmore\r\n0\r\n\r\n" if request == "GET /x?200" else b""
                assert first.partition(b"\r\n\r\n")[2] == body


async def by_parts(call: HttpCall, length: int, parts: tuple[bytes, ...]) -> None:
    await call.start(int(call.query), [(b"Content-Length", b"%d" % length)])
    for part in parts[:-1]:
        await call.send(part)
    await call.finish(parts[-1])


async def at_once(call: HttpCall, length: int, parts: tuple[bytes, ...]) -> None:
    await call.respond(int(call.query), b"".join(parts), [(b"content-length", b"%d" % length)])


async def unfinished(call: HttpCall, length: int, parts: tuple[bytes, ...]) -> None:
    await call.start(int(call.query), [(b"content-length", b"%d" % length)])
    for part in parts:
        await call.send(part)


def as_application(length: int, parts: tuple[bytes, ...]) -> Any:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise NotImplementedError
        status = int(scope["query_string"])
        fields = [(b"content-length", b"%d" % length)]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    return application


REQUESTS = ("GET /x?200", "HEAD /x?200", "GET /x?204", "GET /x?304", "HEAD /x?304")
WAYS = {
    "by parts": (by_parts, REQUESTS),
    "at once": (at_once, REQUESTS),
    "application": (None, REQUESTS),
    "unfinished": (unfinished, REQUESTS[:1]),
}
BODIES = {
    "less": (b"ab", b"c"),
    "more": (b"abc", b"def", b"HTTP/1.1 200 smuggled\r\n\r\n"),
    "right": (b"ab", b"cde"),
}


@HOSTS
@pytest.mark.parametrize("way", WAYS)
async def test_no_answer_is_longer_or_shorter_than_it_says(
    http: str, way: str, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    """RFC 9112, sections 6.3 and 8: a client would read what is too much as its next answer, or wait for the rest."""
    answer, requests = WAYS[way]
    for body, parts in BODIES.items():
        routes = as_application(5, parts) if answer is None else {"/x": partial(answer, length=5, parts=parts)}
        async with served(http=http, routes=routes) as raw:
            for request in requests:
                with subtests.test(body=body, request=request):
                    forget(caplog)
                    lines = (f"{request} HTTP/1.1", "PUT /mcp HTTP/1.1\r\nConnection: close")
                    received = await said_to(raw.target.port, *lines)
                    head, _, rest = received.partition(b"\r\n\r\n")
                    assert head.startswith(b"HTTP/1.1 " + request[-3:].encode())
                    has_body = request == "GET /x?200"
                    is_misdeclared = has_body and body != "right"
                    assert head.lower().count(b"content-length: 5") == request.endswith("200")
                    sent = b"".join(parts)[:5] if has_body else b""
                    assert rest[: len(sent)] == sent
                    if is_misdeclared or way == "unfinished":
                        assert rest == sent  # and the connection is closed
                    else:
                        assert rest[len(sent) :].startswith(b"HTTP/1.1 405 ")
                    assert b"smuggled" not in received
                    assert ("its Content-Length" in caplog.text) == is_misdeclared


@HOSTS
async def test_an_application_gets_the_path_as_it_came(http: str) -> None:
    """ASGI, "HTTP connection scope": `raw_path` is the path before it was decoded, without the query."""
    seen: list[tuple[str, bytes, bytes]] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise NotImplementedError
        seen.append((scope["path"], scope["raw_path"], scope["query_string"]))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    paths = [
        "/a%2Fb",
        "/a/b",
        "/%7Ex",
        "/~x",
        "/a%20b",
        "/%c3%A4",
        "/%ff",
        "/a|b",
        "/a%3Fb?c=%2F?d",
        "//a//",
        "/%",
        "/a;b",
    ]
    async with served(http=http, routes=application) as raw:
        lines = [f"GET {path} HTTP/1.1" for path in paths]
        host = "http://localhost/whole%2furl?x HTTP/1.1\r\nConnection: close"
        received = await said_to(raw.target.port, *lines, "OPTIONS * HTTP/1.1", f"GET {host}")
    assert received.count(b"HTTP/1.1 204 ") == len(paths) + 2
    assert [(path, query) for _, path, query in seen[:-2]] == [
        (path.encode(), query.encode()) for path, _, query in (each.partition("?") for each in paths)
    ]
    assert seen[0][0] == seen[1][0] == "/a/b"
    assert [path for _, path, _ in seen[-2:]] == [b"*", b"/whole%2furl"]


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
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(raw.send, method="GET", path="/wait"))
                await begun.wait()
                scope.cancel()
        await ended.wait()


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


# Authorization on these paths.

TARGETS = [
    "/mcp",
    "/mcp/",
    "//mcp",
    "/mcp//",
    "/mcp/.",
    "/mcp/..",
    "/./mcp",
    "/x/../mcp",
    "/%6dcp",
    "/mcp%2f",
    "/%2e/mcp",
    "/mcp%00",
    "/mcp;x=1",
    "/mcp?access_token=x",
    "/MCP",
    "/sse",
    "/sse/",
    "//sse",
    "/messages",
    "/messages/?session_id=x",
    "/.well-known/oauth-protected-resource/../../mcp",
    "/.well-known/oauth-protected-resource%2f..%2f..%2fmcp",
    "/health/../mcp",
    "/version/../mcp",
    "http://127.0.0.1/mcp",
    "http://127.0.0.1:80//mcp",
    "http://evil.test/mcp",
    "https://mcp.test/mcp",
    "*",
    "mcp",
]


@HOSTS
async def test_no_way_of_writing_a_path_leads_past_the_door(http: str) -> None:
    """Whatever the method: without a token nothing of the protocol is reached, and nothing says what is there."""
    served_for: list[str] = []
    server = make_server()

    @server.tool
    async def reach() -> str:
        served_for.append("a tool")
        return "reached"

    async def version(call: HttpCall) -> None:
        await call.respond(200, b"1.4", content_type="text/plain")

    auth = AuthorizationServer(issuer="https://login.test").protect("https://mcp.test/mcp")
    settings = HttpServerSettings(sse=True, health_path="/health", cors=True, websocket=http == "lean")
    shutdown = Shutdown()
    body = json.dumps(call_tool("reach")).encode()
    fields = b"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
    fields += b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: reach\r\n"
    async with trio.open_nursery() as nursery:
        options: dict[str, Any] = {"http": http, "auth": auth, "settings": settings, "shutdown": shutdown}
        serve = partial(serve_http, server, port=0, routes={"/version": version}, **options)
        urls: tuple[str, ...] = await nursery.start(serve)
        port = parse_target(urls[0]).port
        for host in (f"127.0.0.1:{port}", "localhost", "127.0.0.1:1"):
            for target in TARGETS:
                for method in ("POST", "GET", "HEAD", "OPTIONS", "DELETE", "PUT", "TRACE"):
                    stream = await trio.open_tcp_stream("127.0.0.1", port)
                    sent = body if method == "POST" else b""
                    head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n".encode()
                    async with stream:
                        await stream.send_all(head + fields + b"Content-Length: %d\r\n\r\n" % len(sent) + sent)
                        answer = b""
                        with suppress(trio.BrokenResourceError):
                            while part := await stream.receive_some():
                                answer += part
                    status = int(answer.split(b" ", 2)[1])
                    assert status in {400, 401, 404, 405, 421} or (method == "OPTIONS" and status == 204), (
                        host,
                        method,
                        target,
                        answer,
                    )
                    assert b"reached" not in answer
        shutdown.drain()
    assert served_for == []


async def test_routes_that_misbehave_cost_themselves_alone(caplog: pytest.LogCaptureFixture) -> None:
    """They raise late, answer twice, hang, send much; the protocol is served beside them."""

    async def twice(call: HttpCall) -> None:
        await call.respond(200, b"one", content_type="text/plain")
        await call.respond(200, b"two", content_type="text/plain")

    async def late(call: HttpCall) -> None:
        await call.start(200, [(b"content-type", b"text/plain")])
        await call.send(b"begun")
        raise LookupError("s3cret")

    async def much(call: HttpCall) -> None:
        await call.start(200, [(b"content-type", b"text/plain")])
        for _ in range(200):
            await call.send(b"x" * 65_536)
        await call.finish()

    async def hang(call: HttpCall) -> None:
        await trio.sleep_forever()

    async def group(call: HttpCall) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang, call)
            raise HttpRefused(418, "in a nursery")

    routes = {"/twice": twice, "/late": late, "/much": much, "/hang": hang, "/group": group}
    async with served(routes=routes) as raw:
        for path in ("/twice", "/late", "/group"):
            with suppress(Exception):
                answer = await raw.send(method="GET", path=path)
                assert b"s3cret" not in answer.body
        assert len((await raw.send(method="GET", path="/much")).body) == 200 * 65_536
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(partial(raw.send, method="GET", path="/hang"))
            for _ in range(3):
                assert (await raw.send(call_tool("whoami"))).status == 200
            nursery.cancel_scope.cancel()


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
        token = authorization.issue(resource=resource, scopes={"a"})
        async with open_client(parameters(token)) as client:
            answer: Any = (await client.call_tool("whoami")).content
            assert answer[0].text == "https://login.test ann"
            await client.ping()
            await pass_time(authorization.lifetime)
            with pytest.raises(ConnectionLost):
                while True:
                    await client.ping()
                    await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
